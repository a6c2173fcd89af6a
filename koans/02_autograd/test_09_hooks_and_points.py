"""Hooks: listen to a gradient on its way, or change it. And points where the slope is a choice."""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from sensei import __


class Clip(torch.autograd.Function):
    """Lets numbers through as they are, and keeps gradients between -1 and 1."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


def test_where_the_clipping_bites():
    """Clip (above) stands between a factor 10 and the factors 5 and 0.5. Which gradient does x
    get?"""
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    (Clip.apply(x * 10) * torch.tensor([5.0, 0.5])).sum().backward()
    assert x.grad.tolist() == __


def test_three_ways_to_clip():
    """Somebody clips by a Function, by two hooks on tensors, by a hook on a module. Which of the
    four really clip the gradient of x?"""
    x, kept = torch.ones(2, requires_grad=True), []
    silent, hooked, layer = x * 1, x * 1, nn.Identity()
    silent.register_hook(lambda grad: kept.append(grad.clamp(-1, 1)))
    hooked.register_hook(lambda grad: grad.clamp(-1, 1))
    layer.register_full_backward_hook(lambda _, grads, above: (grads[0].clamp(-1, 1),))
    ways = {"Function": Clip.apply(x), "silent hook": silent, "tensor hook": hooked}
    ways["module hook"] = layer(x * 1)
    clipped = []
    for name, h in ways.items():
        if torch.autograd.grad(3 * h.sum(), x)[0].tolist() == [1.0, 1.0]:
            clipped.append(name)
    assert clipped == __


def test_a_hook_that_returns_a_number():
    """You only want to see the norm of a gradient. So your hook hands it back, as a plain number.
    Which exception ends the backward?"""
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda grad: grad.norm().item())
    with pytest.raises(Exception) as caught:
        h.sum().backward()
    assert caught.type is __


def test_two_hooks_on_one_weight():
    """Two hooks on a weight, three backwards. Write what each of them notes down."""
    w = torch.tensor(0.0, requires_grad=True)
    first, second = [], []
    w.register_hook(lambda grad: first.append(grad.item()))
    w.register_post_accumulate_grad_hook(lambda w: second.append(w.grad.item()))
    for _ in range(3):
        (w * 2).backward()
    assert first == __
    assert second == __


def test_a_vault_for_saved_tensors():
    """Each exp saves a tensor for its backward. Write `pack` and `unpack`, so that the tensors lie
    in the vault, in order, and autograd holds no more than a ticket. Then we break in."""
    vault = []
    # your turn:
    __
    # end
    x = torch.zeros(2, requires_grad=True)
    with saved_tensors_hooks(pack, unpack):
        a, b, c = x.exp(), x.exp(), x.exp()
    assert [tensor.tolist() for tensor in vault] == [[1.0, 1.0]] * 3
    vault[:] = [torch.tensor([5.0, 6.0]), torch.tensor([7.0, 8.0]), torch.tensor([30.0, 40.0])]
    slopes = [torch.autograd.grad(y.sum(), x)[0].tolist() for y in (b, c, a)]
    assert slopes == [[7.0, 8.0], [30.0, 40.0], [5.0, 6.0]]


def test_how_often_a_layer_runs():
    """A checkpoint wraps this layer. How often has it run before backward, how often after?"""
    runs = []

    def layer(t):
        runs.append("run")
        return t.exp().sin()

    y = checkpoint(layer, torch.ones(2, requires_grad=True), use_reentrant=False)
    before = len(runs)
    y.sum().backward()
    assert [before, len(runs)] == __


def test_a_layer_that_does_not_learn():
    """The first layer is checkpointed, to save memory, and its weight gets no gradient. Repair the
    marked line. The layer must still run twice."""
    first, last = nn.Linear(2, 2), nn.Linear(2, 1)
    runs = []
    first.register_forward_pre_hook(lambda *_: runs.append("run"))
    x = torch.ones(3, 2)
    # your turn:
    h = checkpoint(first, x, use_reentrant=True)
    # end
    last(h).sum().backward()
    assert last.weight.grad is not None
    assert first.weight.grad is not None
    assert len(runs) == 2


def test_listen_to_a_layer_before_an_activation():
    """You want to see the gradient that arrives at a Linear's output. With this hook on it the
    forward pass breaks. Repair the marked lines, and keep the two layers."""
    seen = []

    def note(module, grads, above):
        seen.append([type(module).__name__, len(grads), tuple(above[0].shape)])

    # your turn:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    net[0].register_full_backward_hook(note)
    # end
    y = net(torch.ones(3, 2, requires_grad=True))
    assert seen == []
    y.sum().backward()
    assert seen == [["Linear", 1, (3, 2)]]
    assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU]


def test_three_gates_at_zero():
    """Three functions with the same outputs for every x. Which slope does each take at 0?"""
    zero = torch.tensor(0.0)
    gates = [torch.relu, lambda x: torch.where(x < 0, zero, x), lambda x: torch.maximum(x, zero)]
    slopes = []
    for gate in gates:
        x = torch.tensor(0.0, requires_grad=True)
        gate(x).backward()
        slopes.append(x.grad.item())
    assert slopes == __


def test_a_distance_to_oneself():
    """A distance between two points, written by hand. Where they meet, its gradient is nan. Repair
    the marked line."""

    def distance(a, b):
        # your turn:
        return ((a - b) ** 2).sum().sqrt()
        # end

    for start, slope in (([3.0, 4.0], [0.6, 0.8]), ([0.0, 0.0], [0.0, 0.0])):
        a = torch.tensor(start, requires_grad=True)
        d = distance(a, torch.zeros(2))
        d.backward()
        assert d.item() == pytest.approx(sum(s**2 for s in start) ** 0.5, abs=2e-3)
        assert a.grad.tolist() == pytest.approx(slope, abs=2e-3)


def test_the_branch_not_taken():
    """where() should keep us from the steep point of sqrt, at 0. Write both gradients as text with
    two digits after the point, as in '1.50'."""
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    y = torch.where(x > 0, x.sqrt(), 0.0)
    y.sum().backward()
    assert [f"{slope:.2f}" for slope in x.grad.tolist()] == __


def test_who_is_named_for_the_nan():
    """The gradient is nan. Anomaly mode raises, and puts a node's name in quotes, as in
    'SinBackward0'. Which node is it?"""
    x = torch.zeros(3, requires_grad=True)
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        root = (x**2).sum().sqrt()
        with pytest.raises(RuntimeError) as caught:
            root.backward()
    assert str(caught.value).split("'")[1] == __


def test_a_row_in_a_table():
    """A row is seen as four rows, and a part of them is summed. Write the row's gradient."""
    row = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    table = row.expand(4, 3)
    table[:, 1:].sum().backward()
    assert row.grad.tolist() == __


def test_a_guard_against_nan():
    """Write `guard`: in every backward it notes in `log` how many elements of the tensor's
    gradient are nan, and sends 0 on in their place. All else stays: infinity, and whatever other
    tensors receive."""

    def guard(tensor, log):
        # your turn:
        __
        # end

    log = []
    x = torch.tensor([0.0, 0.0, 4.0], requires_grad=True)
    w = torch.zeros(3, requires_grad=True)
    neighbour, h = w * 1, x * 1
    guard(h, log)
    both = h + neighbour
    torch.where(both > 0, both.sqrt(), 0.0).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [0.0, 0.0, 0.25]
    assert w.grad.isnan().tolist() == [True, True, False]
    h.sqrt().sum().backward()
    assert x.grad.tolist() == [float("inf"), float("inf"), 0.5]
    assert log == [2, 0]
