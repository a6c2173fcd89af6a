"""Four lines: forward with a loss, backward, step, zero_grad, and what goes wrong around them."""

import os
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from sensei import __


class Trainer:
    """A trainer as one meets it in many projects. It was never run."""

    def __init__(self, model, lr):
        self.model, self.lr, self.losses = model, lr, []

    def train_step(self, batch):
        loss = self.model(batch).sum()
        self.losses.append(loss.item())
        loss.backward()
        self.optimizer.step()


def number(tensor):
    """The number in a tensor of one element; None stays None."""
    return None if tensor is None else tensor.item()


@pytest.mark.tour(30)
def test_what_each_line_changes():
    """Four lines make a step. After each of them we look at loss, weight and gradient.

    Write down the four looks.
    """
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    looks = []
    loss = 2 * weight
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    loss.backward()
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    optimizer.step()
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    optimizer.zero_grad()
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    assert looks == __


def test_what_the_manual_says():
    """The manual of SGD has an example. Which of these five calls does it show, in which order?"""
    manual = torch.optim.SGD.__doc__
    calls = [".backward()", "model.train()", "optimizer.step()"]
    calls += ["optimizer.zero_grad()", "scheduler.step()"]
    shown = sorted((call for call in calls if call in manual), key=manual.index)
    assert shown == __


def test_three_rounds_of_clearing():
    """Clear, look at the gradient, go backward; three times. Write the three looks, once for the
    default and once for set_to_none=False."""

    def looks(**how):
        weight = nn.Parameter(torch.ones(()))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        seen = []
        for _ in range(3):
            optimizer.zero_grad(**how)
            seen.append(number(weight.grad))
            (2 * weight).backward()
        return seen

    assert looks() == __
    assert looks(set_to_none=False) == __


@pytest.mark.tour(20)
def test_who_is_cleared():
    """Only the head is trained. Both get gradients. Predict body.grad and head.grad in the end."""
    body, head = (nn.Parameter(torch.ones(())) for _ in range(2))
    optimizer = torch.optim.SGD([head], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (2 * body + 3 * head).backward()
        optimizer.step()
    assert [number(body.grad), number(head.grad)] == __


def test_four_orders():
    """Each backward brings a gradient of -1, and each step would add 1 to a weight of 0.

    Run the lines of each order three times. Where does the weight arrive?
    """

    def train(order):
        weight = nn.Parameter(torch.zeros(()))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        lines = {"clear": optimizer.zero_grad, "step": optimizer.step}
        lines["backward"] = lambda: (-weight).backward()
        for line in 3 * order.split():
            lines[line]()
        return weight.item()

    orders = ["clear backward step", "backward step clear"]
    orders += ["backward clear step", "step clear backward"]
    assert [train(order) for order in orders] == __


def test_writes_into_a_gradient():
    """`_version` counts the writes into a tensor since it was made. Three rounds of clearing and
    backward: how many writes has the gradient seen, with None and with zeros?"""
    writes = []
    for set_to_none in (True, False):
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=set_to_none)
            (2 * weight).sum().backward()
        writes.append(weight.grad._version)
    assert writes == __


def test_a_step_that_stops_half_way():
    """Train once with the Trainer from the top of this file. Which exception ends it?

    Then predict the list of losses, the gradient and the weight.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    trainer = Trainer(model, lr=0.25)
    with pytest.raises(Exception) as caught:
        trainer.train_step(torch.full((1, 1), 3.0))
    assert caught.type is __
    state = [trainer.losses, number(model.weight.grad), model.weight.item()]
    assert state == __


def test_the_trainer_goes_on():
    """Now the Trainer has an optimizer. The slope is 1 everywhere.

    Predict the weight after each of three steps.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    trainer = Trainer(model, lr=0.25)
    trainer.optimizer = torch.optim.SGD(model.parameters(), lr=trainer.lr)
    weights = []
    for _ in range(3):
        trainer.train_step(torch.ones(1, 1))
        weights.append(model.weight.item())
    assert weights == __


def test_the_next_batch_please():
    """A loader of six numbers, two in a batch. To each batch we add the id of its process.

    Which three batches are these, and how many processes beside ours made them?
    """
    here = os.getpid()
    loader = DataLoader(range(6), batch_size=2, collate_fn=lambda two: [*two, os.getpid()])
    batches = [next(iter(loader)) for _ in range(3)]
    assert [batch[:2] for batch in batches] == __
    assert len({batch[2] for batch in batches} - {here}) == __


def test_carry_a_batch_to_the_model():
    """The model is on another device, and the loader's batches are dicts of tensors.

    Write `moved`: the same batch, on the device. The given one must stay as it is.
    """

    def moved(batch, device):
        # your turn:
        __
        # end

    model = nn.Linear(2, 1, device="meta")
    for labels in ({"y": torch.zeros(1)}, {"y": torch.zeros(1), "weight": torch.ones(1)}):
        (batch,) = DataLoader([{"x": torch.ones(2), **labels}] * 4, batch_size=4)
        there = moved(batch, "meta")
        assert {tensor.device.type for tensor in batch.values()} == {"cpu"}
        assert {tensor.device.type for tensor in there.values()} == {"meta"}
        assert {k: v.shape for k, v in there.items()} == {k: v.shape for k, v in batch.items()}
        F.mse_loss(model(there["x"]), there["y"]).backward()
    assert model.weight.grad.is_meta


def test_what_a_list_of_losses_keeps():
    """Make three losses and keep each: as it is, as a number, or after its backward.

    How many of the three `hidden` are still in memory?
    """
    weight = nn.Parameter(torch.ones(3))

    def alive(keep):
        seen, kept = [], []
        for _ in range(3):
            hidden = weight * 2
            seen.append(weakref.ref(hidden))
            kept.append(keep((hidden**2).sum()))
        del hidden
        return sum(ref() is not None for ref in seen)

    assert alive(lambda loss: loss) == __
    assert alive(lambda loss: loss.item()) == __
    assert alive(lambda loss: (loss.backward(), loss)) == __


def test_a_sum_that_remembers_too_much():
    """Without retain_graph these lines raise, so somebody added it. Now the weight goes wrong.

    Repair the marked lines: each loss moves the weight once, `total` is their plain sum, and no
    graph is kept.
    """

    def train(weight, inputs):
        optimizer = torch.optim.SGD([weight], lr=0.25)
        total = 0.0
        for x in inputs:
            optimizer.zero_grad()
            loss = (weight * x) ** 2
            # your turn:
            total = total + loss
            total.backward(retain_graph=True)
            # end
            optimizer.step()
            with pytest.raises(RuntimeError):
                loss.backward()
        assert not torch.as_tensor(total).requires_grad
        return [float(total), weight.item()]

    assert train(nn.Parameter(torch.tensor(1.0)), [1.0, 2.0]) == [2.0, -0.5]
    assert train(nn.Parameter(torch.tensor(2.0)), [1.0, 2.0, 1.0]) == [9.0, -0.5]


def test_write_the_loop():
    """Write `train`: one step for each batch. Return the losses that the steps were made from, as
    plain floats."""

    def train(model, optimizer, loss_fn, batches):
        # your turn:
        __
        # end

    x = torch.ones(1, 1)
    for start in (1.0, 6.0):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, start)
        model.weight.grad = torch.full((1, 1), 8.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        losses = train(model, optimizer, F.mse_loss, [(x, 2 * x)] * 3)
        assert model.weight.item() == 2 + (start - 2) / 8
        assert losses == [(start - 2) ** 2 / 4**n for n in range(3)]
        assert {type(loss) for loss in losses} == {float}
