"""Optimizers: what one holds, what one step does, and what it remembers."""

import pytest
import torch
from torch import nn

from sensei import __


def test_training_with_tensors_only():
    """Some say that Tensor, Module, Function, DataLoader and Optimizer are all indispensable.

    Four of them are missing here. Predict w.
    """
    w = torch.zeros((), requires_grad=True)
    for x, y in ((1.0, 3.0), (2.0, 6.0)):
        loss = (w * x - y) ** 2 / 2
        loss.backward()
        with torch.no_grad():
            w -= 0.5 * w.grad
        w.grad = None
    assert w.item() == __


def test_the_whole_model():
    """Give the model itself to an optimizer. Which exception does it raise?"""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with pytest.raises(Exception) as caught:
        torch.optim.SGD(model, lr=0.1)
    assert caught.type is __


@pytest.mark.tour(20)
def test_one_step_two_ways():
    """The same step twice: by the optimizer, then by hand through .data.

    Predict the weight and its counter of writes, after each.
    """
    weight = nn.Parameter(torch.ones(()))
    weight.grad = torch.tensor(2.0)
    optimizer = torch.optim.SGD([weight], lr=0.25)
    optimizer.step()
    seen = [[weight.item(), weight._version]]
    weight.data.add_(weight.grad, alpha=-0.25)
    seen.append([weight.item(), weight._version])
    assert seen == __


def test_three_ways_to_change_the_rate():
    """The gradient is 1. Before each step we set another learning rate, in three places.

    How far has the weight walked after each step?
    """
    weight = nn.Parameter(torch.zeros(()))
    weight.grad = torch.ones(())
    optimizer = torch.optim.SGD([weight], lr=1.0)

    def walked():
        optimizer.step()
        return -weight.item()

    optimizer.lr = 2.0
    first = walked()
    optimizer.defaults["lr"] = 4.0
    second = walked()
    optimizer.param_groups[0]["lr"] = 8.0
    assert [first, second, walked()] == __


def test_three_steps_with_momentum():
    """The gradient stays 1, and so does the learning rate. Momentum is 0.5.

    Predict the weight after each of three steps.
    """
    weight = nn.Parameter(torch.zeros(()))
    weight.grad = torch.ones(())
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    weights = []
    for _ in range(3):
        optimizer.step()
        weights.append(weight.item())
    assert weights == __


def test_nothing_and_zero():
    """Two weights make a step, and keep some momentum of it. Then the gradients are cleared, one
    to None, one to zero, and a second step follows. Predict both weights."""
    weights = []
    for set_to_none in (True, False):
        weight = nn.Parameter(torch.zeros(()))
        optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
        weight.grad = torch.ones(())
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        optimizer.step()
        weights.append(weight.item())
    assert weights == __


def test_weight_decay_three_times():
    """The weight is 4, its gradient 0. Only the decay of 0.5 acts, at a learning rate of 0.5.

    Predict the weight after one step of SGD, of Adam and of AdamW.
    """
    ends = []
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        weight = nn.Parameter(torch.tensor(4.0))
        weight.grad = torch.zeros(())
        kind([weight], lr=0.5, weight_decay=0.5).step()
        ends.append(round(weight.item(), 3))
    assert ends == __


def test_a_weight_in_two_groups():
    """Two layers share their weight, and each layer gets a group of its own.

    Which exception does it raise?
    """
    body, head = nn.Linear(2, 2), nn.Linear(2, 2)
    head.weight = body.weight
    groups = [{"params": body.parameters()}, {"params": head.parameters(), "lr": 1.0}]
    with pytest.raises(Exception) as caught:
        torch.optim.SGD(groups, lr=0.1)
    assert caught.type is __


def test_a_new_head():
    """In the middle of the training the model gets a new head, and the head does not learn.

    Repair the marked line. The body must keep its momentum. The old head may stay in the optimizer.
    """
    model = nn.ModuleDict({"body": nn.Linear(1, 1, bias=False)})
    model["head"] = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
    model["head"](model["body"](torch.ones(1, 1))).sum().backward()
    optimizer.step()
    old, body = model["head"], model["body"].weight
    momentum = optimizer.state[body]["momentum_buffer"]
    # your turn:
    model["head"] = nn.Linear(1, 1, bias=False)
    # end
    optimizer.zero_grad()
    before = model["head"].weight.item()
    model["head"](torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert model["head"] is not old
    assert abs(before - model["head"].weight.item() - 0.25) < 1e-6
    assert optimizer.state[body]["momentum_buffer"] is momentum


def test_a_state_for_two_weights():
    """The gradients of a and b are 3 and 7, and the first step puts them into the buffers.

    A new optimizer loads that state. Which buffers have a and b now, and which lr holds?
    """
    a, b = (nn.Parameter(torch.zeros(())) for _ in range(2))
    old = torch.optim.SGD([a, b], lr=0.5, momentum=0.9)
    (3 * a + 7 * b).backward()
    old.step()
    new = torch.optim.SGD([b, a], lr=0.125, momentum=0.9)
    new.load_state_dict(old.state_dict())
    buffers = [new.state[p]["momentum_buffer"].item() for p in (a, b)]
    assert buffers == __
    assert new.param_groups[0]["lr"] == __


def test_an_optimizer_that_asks_back():
    """LBFGS wants a function, so somebody gave it one. It does not find the minimum.

    Repair the marked lines.
    """

    def solve(loss_of, start):
        point = nn.Parameter(torch.tensor(start))
        optimizer = torch.optim.LBFGS([point], max_iter=30, line_search_fn="strong_wolfe")

        # your turn:
        loss = loss_of(point)
        loss.backward()
        closure = lambda: loss
        # end
        optimizer.step(closure)
        assert optimizer.state[point]["func_evals"] > 3
        return point.item()

    assert abs(solve(lambda x: (x - 2) ** 4 + (x - 2) ** 2, start=5.0) - 2) < 1e-2
    assert abs(solve(lambda x: (x + 1) ** 4 + 3 * (x + 1) ** 2, start=2.0) + 1) < 1e-2


def test_train_without_a_step():
    """Write `learn_in_backward`: from then on, each backward moves every parameter by -lr times
    its gradient, in writes that are counted. No gradient is left when backward returns."""

    def learn_in_backward(model, lr):
        # your turn:
        __
        # end

    for lr in (0.5, 0.25):
        model = nn.Linear(2, 1)
        for parameter in model.parameters():
            nn.init.ones_(parameter)
        learn_in_backward(model, lr)
        writes = model.weight._version
        for _ in range(2):
            model(torch.tensor([[1.0, 2.0]])).sum().backward()
        assert model.weight.tolist() == [[1 - 2 * lr, 1 - 4 * lr]]
        assert model.bias.tolist() == [1 - 2 * lr]
        assert [p.grad for p in model.parameters()] == [None, None]
        assert model.weight._version > writes


def test_write_an_optimizer():
    """Write the step of SGD with momentum. It must walk as torch.optim.SGD does: same groups, same
    skips, its memory where state_dict() finds it, its writes where autograd can see them."""

    class Momentum(torch.optim.Optimizer):
        def __init__(self, groups, lr, momentum):
            super().__init__(groups, {"lr": lr, "momentum": momentum})

        @torch.no_grad()
        def step(self):
            # your turn:
            __
            # end

    runs = []
    for kind in (Momentum, torch.optim.SGD):
        a, b, idle = weights = [nn.Parameter(torch.ones(())) for _ in range(3)]
        groups = [{"params": [a, idle]}, {"params": [b], "lr": 0.5}]
        optimizer = kind(groups, lr=0.25, momentum=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            (a * b).backward()
            optimizer.step()
        runs.append((weights, optimizer.state_dict()["state"]))
    (ours, our_state), (theirs, their_state) = runs
    assert [p.item() for p in ours] == [p.item() for p in theirs]
    assert [p._version > 0 for p in ours] == [p._version > 0 for p in theirs]
    assert [*map(len, our_state.values())] == [*map(len, their_state.values())]
