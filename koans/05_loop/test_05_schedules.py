"""Schedules: who changes the learning rate, when, and from what."""

import warnings

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from sensei import __


def test_one_scheduler_and_two_groups():
    """The second group has a rate of its own. Write the four lists that are seen."""
    groups = [{"params": [nn.Parameter(torch.zeros(()))]} for _ in range(2)]
    groups[1]["lr"] = 8.0
    optimizer = torch.optim.SGD(groups, lr=1.0)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    seen = []
    for _ in range(4):
        seen.append(scheduler.get_last_lr())
        optimizer.step()
        scheduler.step()
    assert seen == __


def test_scheduler_first():
    """Here the scheduler steps before the optimizer. With which three rates does the optimizer
    step?"""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    used = []
    optimizer.register_step_pre_hook(lambda opt, *_: used.append(opt.param_groups[0]["lr"]))
    with pytest.warns(UserWarning):
        for _ in range(3):
            scheduler.step()
            optimizer.step()
    assert used == __


def test_four_epochs_of_two_batches():
    """T_max is the number of epochs, but the scheduler steps after each batch.

    Which rate stands at the end of each of the four epochs?
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    ends = []
    for _ in range(4):
        for _ in range(2):
            optimizer.step()
            scheduler.step()
        ends.append(round(scheduler.get_last_lr()[0], 3))
    assert ends == __


def test_a_rate_set_by_hand():
    """Both schedules halve the rate at each step. In between, you set it to 8 by hand.

    Predict the two rates after the second step.
    """

    def halved(step):
        return 0.5**step

    ends = []
    for kind, rule in ((lr_scheduler.ExponentialLR, 0.5), (lr_scheduler.LambdaLR, halved)):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
        scheduler = kind(optimizer, rule)
        optimizer.step()
        scheduler.step()
        optimizer.param_groups[0]["lr"] = 8.0
        scheduler.step()
        ends.append(optimizer.param_groups[0]["lr"])
    assert ends == __


def test_a_plan_that_is_too_short():
    """One cycle over two epochs. steps_per_epoch comes from a division, and it is too small.

    Which exception is raised, and how many calls of scheduler.step() succeed?
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    plan = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, epochs=2, steps_per_epoch=10 // 4)
    calls = 0
    with pytest.raises(Exception) as caught:
        for _ in range(2):
            for _ in torch.zeros(10).split(4):
                optimizer.step()
                plan.step()
                calls += 1
    assert caught.type is __
    assert calls == __


def test_one_loop_for_all_schedulers():
    """A helper steps whatever scheduler it is given, and one of these refuses.

    With which exception, and which ones have made their step before?
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    steps, plateau = lr_scheduler.StepLR(optimizer, 2), lr_scheduler.ReduceLROnPlateau(optimizer)
    cycle = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=2)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    optimizer.step()
    done = []
    with pytest.raises(Exception) as caught:
        for scheduler in (steps, cycle, plateau, cosine):
            scheduler.step()
            done.append(type(scheduler).__name__)
    assert caught.type is __
    assert done == __


def test_patience_with_noisy_batches():
    """The mean of each epoch gets better, and still the rate falls. Repair the marked lines.

    When an epoch is no better, for the second time, it must still be halved.
    """

    def end_rate(epochs):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        for losses in epochs:
            optimizer.step()
            # your turn:
            for loss in losses:
                scheduler.step(loss)
            # end
        return optimizer.param_groups[0]["lr"]

    assert end_rate([[8.0, 2.0], [2.0, 2.0, 8.0], [2.0, 2.0, 2.0, 8.0]]) == 1.0
    assert end_rate([[8.0, 1.0, 3.0], [1.0, 8.0, 3.0], [2.0, 2.0, 8.0]]) == 0.5


def test_warm_up():
    """Write the function for LambdaLR: the rate rises in equal parts, is full at step number
    `warmup`, and stays. The first step counts, too."""

    def rates(warmup):
        def factor(step):
            # your turn:
            __
            # end

        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=2.0)
        scheduler = lr_scheduler.LambdaLR(optimizer, factor)
        seen = []
        for _ in range(6):
            seen.append(scheduler.get_last_lr()[0])
            optimizer.step()
            scheduler.step()
        return seen

    assert rates(4) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert rates(2) == [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_the_rate_after_a_restart():
    """After three epochs the rate was 1/4. Everything is loaded, and still the next epoch begins
    with another rate. Repair the marked lines: a stop after one epoch must work, too."""

    def shrunk(epoch):
        return 1 / (1 + epoch)

    def rates(epochs, optimizer, scheduler):
        for _ in range(epochs):
            yield optimizer.param_groups[0]["lr"]
            optimizer.step()
            scheduler.step()

    for epochs, after in ((3, [1 / 4, 1 / 5, 1 / 6]), (1, [1 / 2, 1 / 3, 1 / 4])):
        first, optimizer = (torch.optim.SGD([nn.Parameter(torch.ones(1))], 1.0) for _ in "12")
        plan = lr_scheduler.LambdaLR(first, shrunk)
        assert len(list(rates(epochs, first, plan))) == epochs
        saved = {"optimizer": first.state_dict(), "scheduler": plan.state_dict()}
        # your turn:
        optimizer.load_state_dict(saved["optimizer"])
        scheduler = lr_scheduler.LambdaLR(optimizer, shrunk)
        scheduler.load_state_dict(saved["scheduler"])
        # end
        assert list(rates(3, optimizer, scheduler)) == after
        assert scheduler.last_epoch == epochs + 3


def test_warm_by_the_batch_and_fall_by_the_epoch():
    """Write `train`: `epochs` times `batches` optimizer steps. The rates warm up over the first
    `warmup` steps, and are halved for each epoch that is over. Return a scheduler that knows the
    rates of the next step."""

    def train(optimizer, epochs, batches, warmup):
        # your turn:
        __
        # end

    def rates(*args):
        groups = [{"params": [nn.Parameter(torch.zeros(()))], "lr": lr} for lr in (1.0, 8.0)]
        optimizer, used = torch.optim.SGD(groups), []
        optimizer.register_step_pre_hook(
            lambda opt, *_: used.append([group["lr"] for group in opt.param_groups])
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            used.append(train(optimizer, *args).get_last_lr())
        assert all(fast == 8 * slow for slow, fast in used)
        return [slow for slow, _ in used]

    assert rates(3, 2, 2) == [0.5, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert rates(2, 3, 4) == [0.25, 0.5, 0.75, 0.5, 0.5, 0.5, 0.25]
