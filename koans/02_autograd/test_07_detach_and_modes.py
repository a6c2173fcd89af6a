"""Detach and modes: what is cut off, what is not recorded, and what only looks like it."""

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from sensei import __


def test_what_it_has_in_common_with_x():
    """x has a gradient already. Which of the four does each new tensor have in common with x?"""
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()

    def common(y):
        facts = {
            "numbers": torch.equal(y, x),
            "memory": y.data_ptr() == x.data_ptr(),
            "flag": y.requires_grad == x.requires_grad,
            "grad": y.grad is x.grad,
        }
        return [name for name, yes in facts.items() if yes]

    assert common(x.detach()) == __
    assert common(x.clone().detach()) == __


def test_frozen_times_living():
    """Some call detach() contagious. Predict x's gradient."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    frozen = x.detach()
    loss = (frozen**2 + frozen * x).sum()
    loss.backward()
    assert x.grad.tolist() == __


def test_backward_from_a_detached_result():
    """Two things are wrong with this call, and PyTorch names one of them.

    Write the exception's type, and which of the two words its message mentions.
    """
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = x.detach() ** 2
    with pytest.raises(Exception) as caught:
        z.backward()
    assert caught.type is __
    assert [word for word in ("scalar", "grad_fn") if word in str(caught.value)] == __


def test_cuts_that_get_lost():
    """Each tensor in the list is to be cut off from w. Four ways to write it.

    At which places does the list still hold a tensor with a history?
    """
    w = torch.ones(2, requires_grad=True)
    hidden = [w * 2, w * 3, w * 4, w * 5]
    hidden[0].detach()
    for h in hidden[1:2]:
        h = h.detach()
    hidden[2] = hidden[2].detach()
    hidden[3].detach_()
    attached = [place for place, h in enumerate(hidden) if h.requires_grad]
    assert attached == __


def test_two_copies_that_require_grad():
    """Both copies require grad. What made each of them, as autograd sees it?

    Write the two class names as type() gives them, such as "SinBackward0". Then write what
    reaches x.
    """
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    copy = y.clone().requires_grad_(True)
    fresh = y.detach().clone().requires_grad_(True)
    (5 * copy + 7 * fresh).sum().backward()
    assert type(y.grad_fn).__name__ == "MulBackward0"
    assert [type(t.grad_fn).__name__ for t in (copy, fresh)] == __
    assert x.grad.tolist() == __


def test_a_five_in_three_costumes():
    """The 5 and the 0.5 as Python numbers, as tensors, and the 5 as a leaf.

    Predict the gradient of one element of x for each. The last number is the leaf's own gradient.
    """

    def gradient(offset, scale):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (scale * (x.sum() + offset) ** 2).backward()
        return x.grad[0].item()

    numbers = gradient(5, 0.5)
    tensors = gradient(torch.tensor(5.0), torch.tensor(0.5))
    leaf = torch.tensor(5.0, requires_grad=True)
    with_leaf = gradient(leaf, 0.5)
    assert [numbers, tensors, with_leaf, leaf.grad.item()] == __


def test_three_suspects():
    """Backward runs, and x.grad is None. Some suspect the write, some the Python numbers.

    Find the line that cuts, and repair it. The loss stays what it is.
    """

    def loss_of(x):
        # your turn:
        y = x**2
        y[0] = 0.0
        total = torch.tensor(y.sum().item(), requires_grad=True)
        return 0.5 * total + 5
        # end

    for numbers in ([1.0, 2.0, 3.0], [4.0, 6.0, -8.0]):
        x = torch.tensor(numbers, requires_grad=True)
        loss = loss_of(x)
        loss.backward()
        assert loss == 0.5 * (numbers[1] ** 2 + numbers[2] ** 2) + 5
        assert x.grad.tolist() == [0.0, *numbers[1:]]


def test_inside_the_quiet_block():
    """Three tensors are made in a no_grad block. Which of them require grad?

    Then: what does backward leave in w.grad, when it is called in there?
    """
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    with torch.no_grad():
        made = {
            "result": w * 2,
            "factory": torch.ones(2, requires_grad=True),
            "layer": nn.Linear(2, 2).weight,
        }
        loss.backward()
    assert [name for name, t in made.items() if t.requires_grad] == __
    assert w.grad.tolist() == __


def test_a_mode_inside_a_mode():
    """A function is decorated with a mode, and sets another one inside.

    In which of the six cases is the product recorded?
    """
    w = torch.ones(2, requires_grad=True)
    recorded = []
    for outer in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        for inner in (True, False):

            @outer()
            def product(inner=inner):
                with torch.set_grad_enabled(inner):
                    return w * 2

            if product().requires_grad:
                recorded.append(f"{outer.__name__}/{inner}")
    assert recorded == __


def test_what_is_refused_afterwards():
    """`made` is computed in a mode, and used after it in four ways. Which does PyTorch refuse?

    First answer for no_grad, then for inference_mode.
    """
    w = torch.ones(2, requires_grad=True)
    refused = {"no_grad": [], "inference_mode": []}
    for mode in refused:
        with getattr(torch, mode)():
            made = w * 3
        for use, *inputs in [("add", w), ("mul", w), ("zero_",), ("requires_grad_",)]:
            try:
                getattr(made, use)(*inputs)
            except RuntimeError:
                refused[mode].append(use)
    assert refused["no_grad"] == __
    assert refused["inference_mode"] == __


def test_features_for_later():
    """Write `features`: run the net, and keep nothing for backward on the way.

    The result goes into a training step afterwards, and the net is trained later, too.
    """

    def features(net, x):
        # your turn:
        __
        # end

    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    w = torch.ones(3, requires_grad=True)
    kept = []
    for x in (torch.ones(1, 2), torch.rand(4, 2)):
        with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            made = features(net, x)
        assert len(kept) == 0
        assert torch.allclose(made, net(x))
        (w * made).sum().backward()
    assert net[0].weight.grad is None
    assert net(x).requires_grad


def test_a_hard_choice_with_a_soft_gradient():
    """`hard` is 1 at the largest score and 0 elsewhere, but argmax let the gradient go.

    Write what `choose` returns: the numbers of `hard`, with the gradient of `soft`.
    """

    def choose(scores):
        soft = scores.softmax(dim=0)
        hard = F.one_hot(scores.argmax(), len(scores)).float()
        assert not hard.requires_grad
        # your turn:
        __
        # end

    prices = torch.tensor([1.0, 10.0, 100.0])
    for numbers in ([0.0, 2.0, 1.0], [3.0, -1.0, 0.5]):
        scores = torch.tensor(numbers, requires_grad=True)
        choice = choose(scores)
        assert torch.allclose(choice, (scores == scores.max()).float(), atol=1e-6)
        (mine,) = torch.autograd.grad((choice * prices).sum(), scores)
        (soft,) = torch.autograd.grad((scores.softmax(dim=0) * prices).sum(), scores)
        assert torch.allclose(mine, soft)
