"""The scaler: four calls, one number, and the order they come in."""

import pytest
import torch
from torch import nn

from sensei import __


def walk(scaler, slopes):
    """One step for each slope of the first weight. The slope of the second weight is always 1.

    Returns the scale after each step, and the two weights at the end.
    """
    weights = [nn.Parameter(torch.ones(())) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=1.0)
    scales = []
    for slope in slopes:
        optimizer.zero_grad()
        scaler.scale(weights[0] * slope + weights[1]).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [weight.item() for weight in weights]


def test_a_gradient_before_and_after_the_step():
    """The slope of this loss is 3, and the scaler has its default settings.

    Predict the loss, the weight's .grad after backward, and its .grad after the step.
    """
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    loss = weight * 3
    scaler.scale(loss).backward()
    seen = [loss.item(), weight.grad.item()]
    scaler.step(optimizer)
    seen.append(weight.grad.item())
    assert seen == __


def test_the_loss_that_was_never_scaled():
    """The very first step, and scale() was forgotten. Which exception does step() raise, and
    what is the weight afterwards?"""
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    (weight * 3).backward()
    with pytest.raises(Exception) as caught:
        scaler.step(optimizer)
    assert caught.type is __
    assert weight.item() == __


def test_a_scaler_that_is_switched_off():
    """The scaler is disabled, and the gradient is infinite.

    Predict the scale, the number of entries in its state_dict, and the weight after the step.
    """
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    scaler.scale(weight * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    seen = [scaler.get_scale(), len(scaler.state_dict()), weight.item()]
    assert seen == __


def test_a_healthy_weight_beside_a_sick_one():
    """The gradient of `a` is infinite, that of `b` is fine.

    Predict a, b, and how many parameters have an entry in the optimizer's state.
    """
    a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
    optimizer = torch.optim.SGD([a, b], lr=1.0, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(a * float("inf") + b).backward()
    scaler.step(optimizer)
    assert [a.item(), b.item(), len(optimizer.state)] == __


def test_a_gradient_too_large_and_one_too_small():
    """These gradients pass through float16, so one of them becomes infinite, and one zero.

    At which slopes does the optimizer take its step?
    """
    stepped = []
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_post_hook(lambda *_: stepped.append(slope))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for slope in (100.0, 1.0, 1e-12):
        optimizer.zero_grad()
        scaler.scale((weight.half() * slope).float()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert stepped == __


def test_one_bad_step_among_good_ones():
    """Four steps, and the gradient of the second one is infinite. Predict the scale after each."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales, _ = walk(scaler, [1.0, float("inf"), 1.0, 1.0])
    assert scales == __


def test_four_ways_to_calm_a_scale():
    """Four colleagues have advice against a scale that goes up and down.

    With whose settings does it climb less, compared with its first value? Write their names.
    """

    def climb(said):
        scaler = torch.amp.GradScaler("cpu", **{"growth_interval": 2, **said})
        first = scaler.get_scale()
        scales, _ = walk(scaler, [1.0, 1.0, float("inf"), 1.0, 1.0, 1.0])
        return max(scales) / first

    advice = {"pinned": {"growth_factor": 2.0, "backoff_factor": 0.5}, "low": {"init_scale": 256.0}}
    advice |= {"patient": {"growth_interval": 20}, "gentle": {"growth_factor": 1.5}}
    calmer = [name for name, said in advice.items() if climb(said) < climb({})]
    assert calmer == __


def test_eight_calls_in_a_row():
    """After one backward come eight calls, numbered from 1. A refused call changes nothing.

    Which are refused?
    """
    weight, refused = nn.Parameter(torch.ones(())), []
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight * 3).backward()
    calls = "unscale_ unscale_ step unscale_ step update update unscale_"
    for number, call in enumerate(calls.split(), start=1):
        arguments = [] if call == "update" else [optimizer]
        try:
            getattr(scaler, call)(*arguments)
        except Exception:
            refused.append(number)
    assert refused == __


def test_two_optimizers_and_one_scale():
    """Two optimizers share a scaler, and each weight should move by its own slope.

    The second step comes out wrong. Repair the marked lines.
    """
    results = []
    for slopes in [(1.0, 1.0), (float("inf"), 1.0), (1.0, float("inf"))]:
        a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
        first, second = (torch.optim.SGD([weight], lr=1.0) for weight in (a, b))
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
        scaler.scale(a * slopes[0] + b * slopes[1]).backward()
        # your turn:
        for optimizer in (first, second):
            scaler.step(optimizer)
            scaler.update()
        # end
        results.append([a.item(), b.item(), scaler.get_scale()])
    assert results == [[0.0, 0.0, 16.0], [1.0, 0.0, 4.0], [0.0, 1.0, 4.0]]


def test_write_a_scaler_of_your_own():
    """Write step and update of this small scaler, for one optimizer.

    It must walk as PyTorch's own does, with growth_factor=2.0 and backoff_factor=0.5.
    """

    class Small:
        def __init__(self, scale, interval):
            self.now, self.interval, self.good, self.bad = scale, interval, 0, False

        def scale(self, loss):
            return loss * self.now

        def get_scale(self):
            return self.now

        def step(self, optimizer):
            # your turn:
            __
            # end

        def update(self):
            # your turn:
            __
            # end

    inf = float("inf")
    for start, interval in [(8.0, 3), (64.0, 2)]:
        slopes = [1.0, 0.0, inf, 2.0, 1.0, 1.0, 3.0, 1.0, inf - inf, 1.0, 1.0]
        theirs = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=interval)
        assert walk(Small(start, interval), slopes) == walk(theirs, slopes)
