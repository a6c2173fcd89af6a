"""Accumulation: backward adds to .grad, and .grad is a tensor like any other."""

import warnings

import pytest
import torch

from sensei import __


@pytest.mark.tour(20)
def test_two_losses_one_after_the_other():
    """Look at x.grad three times: before any backward, after the first, after the second.

    Predict what you see.
    """
    x = torch.ones((), requires_grad=True)
    seen = [x.grad]
    for factor in (2, 5):
        (x * factor).backward()
        seen.append(x.grad.item())
    assert seen == __


def test_a_history_of_the_gradient():
    """The history should show how x.grad grows. But all its entries look the same. Repair the
    marked line."""
    x = torch.zeros(2, requires_grad=True)
    history = []
    for factor in (2, 5, 9):
        (x * factor).sum().backward()
        # your turn:
        history.append(x.grad)
        # end
    grown = [torch.as_tensor(entry).tolist() for entry in history]
    assert grown == [[2.0, 2.0], [7.0, 7.0], [16.0, 16.0]]
    assert x.grad.tolist() == [16.0, 16.0]


def test_two_ways_to_clear():
    """Clear the gradient between two backwards, in two ways.

    Write what `kept` and x.grad hold in the end, for each way.
    """

    def drop(x):
        x.grad = None

    def cleared_by(clear):
        x = torch.ones((), requires_grad=True)
        (x * 2).backward()
        kept = x.grad
        clear(x)
        (x * 5).backward()
        return [kept.item(), x.grad.item()]

    assert cleared_by(lambda x: x.grad.zero_()) == __
    assert cleared_by(drop) == __


def test_a_gradient_inside_the_next_loss():
    """Take the gradient of one loss and build the next loss from it. Predict x.grad."""
    x = torch.tensor(2.0, requires_grad=True)
    (x**3).backward()
    slope = x.grad
    x.grad = None
    (slope * x).backward()
    assert x.grad.item() == __


def test_who_may_be_clamped_in_place():
    """clamp_ limits numbers in place. Call it on three tensors, and list those that PyTorch
    refuses, in order."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    places = {"x": x, "x.grad": x.grad, "x.detach()": x.detach()}
    refused = []
    for name, place in places.items():
        try:
            place.clamp_(-1, 1)
        except RuntimeError:
            refused.append(name)
    assert refused == __


def test_the_gradient_after_a_write():
    """Change x in place after backward, without recording. Look at x.grad; go on; look again."""
    x = torch.tensor(3.0, requires_grad=True)
    (x**2).backward()
    with torch.no_grad():
        x.add_(1)
    seen = [x.grad.item()]
    (x**2).backward()
    seen.append(x.grad.item())
    assert seen == __


def test_a_step_that_moves_the_name():
    """Two gradient steps by hand. The first succeeds, the second does not. With which exception?"""
    weight = torch.ones(2, requires_grad=True)
    with pytest.raises(Exception) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            (weight**2).sum().backward()
            weight = weight - 0.1 * weight.grad
    assert caught.type is __


def test_wipe_the_gradient_of_a_neighbour():
    """Two leaves are added: once as they are, once flattened first. A sum gives both inputs the
    same gradient. Has each leaf a copy of its own?

    Only a.grad is wiped. Write what b.grad still adds up to, each time.
    """
    k = torch.tensor([1.0, 2.0, 3.0, 4.0])
    left = []
    for prepare in (lambda leaf: leaf, torch.flatten):
        a, b = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
        total = prepare(a) + prepare(b)
        (total * k.view_as(total)).sum().backward()
        a.grad.zero_()
        left.append(b.grad.sum().item())
    assert left == __


def test_one_step_from_several_batches():
    """Write `step`: one gradient step on the mean of the batches' losses, into the weight's own
    memory. To save memory, each batch gets a backward of its own. The next step starts clean."""

    def loss(weight, batch):
        return (weight - batch) ** 2

    def step(weight, batches, rate):
        # your turn:
        __
        # end

    walks = []
    weight = torch.tensor(0.0, requires_grad=True)
    weight.register_hook(lambda gradient: walks.append(gradient))
    for batches, expected in (([2.0, 4.0], 3.0), ([1.0, 3.0, 8.0, 4.0], 4.0)):
        step(weight, batches, rate=0.5)
        assert weight.item() == expected, "the mean of all losses makes one step"
    assert weight.is_leaf
    assert len(walks) == 6, "2 + 4 batches make 6 backwards"
