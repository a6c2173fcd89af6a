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
    """Clip three times: by a Function, by a hook on a tensor, by a hook on a module. Write the
    three gradients."""
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    hooked = x * 1
    hooked.register_hook(lambda grad: grad.clamp(-1, 1))
    layer = nn.Identity()
    layer.register_full_backward_hook(lambda _, grads, above: (grads[0].clamp(-1, 1),))
    gradients = []
    for h in (Clip.apply(x), hooked, layer(x * 1)):
        (grad,) = torch.autograd.grad((h * torch.tensor([3.0, 0.25])).sum(), x)
        gradients.append(grad.tolist())
    assert gradients == __


def test_a_hook_that_returns_a_number():
    """You only want to see the norm of a gradient. So your hook hands it back, as a plain number.
    Which exception ends the backward?"""
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda grad: grad.norm().item())
    with pytest.raises(Exception) as caught:
        h.sum().backward()
    assert caught.type is __


def test_before_and_after_the_adding():
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
        y = x.exp() + x.exp()
    assert [tensor.tolist() for tensor in vault] == [[1.0, 1.0], [1.0, 1.0]]
    vault[0] = torch.tensor([5.0, 5.0])
    vault[1] = torch.tensor([20.0, 30.0])
    y.sum().backward()
    assert x.grad.tolist() == [25.0, 35.0]


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
        seen.append([type(module).__name__, tuple(above[0].shape)])

    # your turn:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    net[0].register_full_backward_hook(note)
    # end
    net(torch.ones(3, 2, requires_grad=True)).sum().backward()
    assert seen == [["Linear", (3, 2)]]
    assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU]


def test_three_gates_at_zero():
    """Three functions with the same outputs for every x. Which slope does each take at 0?"""
    gates = [torch.relu, lambda x: x.clamp(min=0), lambda x: torch.maximum(x, torch.tensor(0.0))]
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
        assert d.item() == pytest.approx(sum(s**2 for s in start) ** 0.5, abs=1e-4)
        assert a.grad.tolist() == pytest.approx(slope, abs=1e-4)


def test_the_branch_not_taken():
    """where() should keep us from the steep point of sqrt, at 0. Write both gradients, as text."""
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    y = torch.where(x > 0, x.sqrt(), 0.0)
    y.sum().backward()
    assert [str(slope) for slope in x.grad.tolist()] == __


def test_who_is_named_for_the_nan():
    """The gradient is nan. Anomaly mode raises, and puts a node's name in quotes. Which one?"""
    x = torch.zeros(3, requires_grad=True)
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        root = (x**2).sum().sqrt()
        with pytest.raises(RuntimeError) as caught:
            root.backward()
    assert str(caught.value).split("'")[1] == __


def test_one_row_used_as_four():
    """A row is seen as four rows, and a part of them is summed. Write the row's gradient."""
    row = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    table = row.expand(4, 3)
    table[:, 1:].sum().backward()
    assert row.grad.tolist() == __


def test_a_guard_against_nan():
    """Write `guard`: in every backward it notes in `log` how many elements of the tensor's
    gradient are nan, and sends 0 on in their place. All else stays, infinity too."""

    def guard(tensor, log):
        # your turn:
        __
        # end

    log = []
    x = torch.tensor([0.0, 0.0, 4.0], requires_grad=True)
    h = x * 1
    guard(h, log)
    torch.where(h > 0, h.sqrt(), 0.0).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [0.0, 0.0, 0.25]
    h.sqrt().sum().backward()
    assert x.grad.tolist() == [float("inf"), float("inf"), 0.5]
    assert log == [2, 0]
