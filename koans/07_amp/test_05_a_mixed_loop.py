"""A mixed loop: autocast and the scaler, and everything else that belongs to a training step."""

import copy
import warnings
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from sensei import __


def in_float32(net, x, y):
    """What the parameters would be after a step without mixed precision (lr 0.1, norm 1)."""
    other = copy.deepcopy(net)
    grads = torch.autograd.grad(F.mse_loss(other(x), y), tuple(other.parameters()))
    norm = torch.cat([grad.flatten() for grad in grads]).norm()
    return [p - 0.1 * grad / max(norm, 1.0) for p, grad in zip(other.parameters(), grads)]


def test_the_very_first_step():
    """A fresh scaler, and slopes that are not wild at all: 1 and 0.5. Each starts at weight 1.

    Predict weight and scale after one step, for both slopes.
    """
    seen = []
    for slope in (1.0, 0.5):
        weight = nn.Parameter(torch.ones(1, 1))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler = torch.amp.GradScaler("cpu")
        with torch.autocast("cpu", dtype=torch.float16):
            output = F.linear(torch.ones(1, 1), weight)
        scaler.scale(output.float().sum() * slope).backward()
        scaler.step(optimizer)
        scaler.update()
        seen += [weight.item(), scaler.get_scale()]
    assert seen == __


def test_steps_that_hardly_move():
    """No step may be longer than 1. These are far too short: the weight hardly moves.

    Repair the marked lines. (The third gradient is infinite on purpose.)
    """
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu")
    path = []
    for slope in torch.tensor([[30.0, 40.0], [0.3, 0.4], [float("inf"), 1.0], [-40.0, 30.0]]):
        optimizer.zero_grad()
        loss = (weight * slope).sum()
        scaler.scale(loss).backward()
        # your turn:
        clip_grad_norm_([weight], 1.0)
        scaler.step(optimizer)
        # end
        scaler.update()
        path.append([round(number, 3) for number in weight.tolist()])
    assert path == [[-0.6, -0.8], [-0.9, -1.2], [-0.9, -1.2], [-0.1, -1.8]]
    assert scaler.get_scale() == 32768.0


def test_a_look_between_two_backwards():
    """Two backwards make one step, each with slope 3. In between, somebody has a look.

    Predict what they see, and the weight after the step.
    """
    weight = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight * 3).backward()
    scaler.unscale_(optimizer)
    look = weight.grad.item()
    scaler.scale(weight * 3).backward()
    scaler.step(optimizer)
    scaler.update()
    assert [look, weight.item()] == __


def test_a_run_that_goes_on_tomorrow(tmp_path):
    """A run that was stopped and resumed must go on as if nothing had happened.

    Here it does not. Repair both marked places.
    """
    path, inf = tmp_path / "run.pt", float("inf")

    def build():
        net = nn.Linear(1, 1)
        nn.init.ones_(net.weight)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
        return net, optimizer, torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    def train(net, optimizer, scaler, slopes):
        for slope in slopes:
            optimizer.zero_grad()
            scaler.scale(net.weight.sum() * slope).backward()
            scaler.step(optimizer)
            scaler.update()
            yield net.weight.item(), scaler.get_scale()

    slopes = [1.0, inf, 2.0, 1.0, 4.0, 1.0, 1.0]
    for stop in (2, 4):
        net, optimizer, scaler = build()
        seen = list(train(net, optimizer, scaler, slopes[:stop]))
        # your turn:
        torch.save([net.state_dict(), optimizer.state_dict()], path)
        # end
        net, optimizer, scaler = build()
        # your turn:
        saved = torch.load(path)
        net.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        # end
        seen += train(net, optimizer, scaler, slopes[stop:])
        assert seen == list(train(*build(), slopes))


def test_four_loops_and_a_tiny_gradient():
    """Two dtypes, each without a scaler and with one. The gradient is 1e-8.

    In which loops does the weight move? Write a list of (dtype, enabled), in order.
    """
    moved = []
    for dtype, enabled in product((torch.float16, torch.bfloat16), (False, True)):
        weight = nn.Parameter(torch.ones(1, 1))
        optimizer = torch.optim.SGD([weight], lr=1e8)
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        with torch.autocast("cpu", dtype=dtype):
            output = F.linear(torch.ones(1, 1), weight)
        scaler.scale(output.float().sum() * 1e-8).backward()
        scaler.step(optimizer)
        if weight.item() != 1.0:
            moved.append((dtype, enabled))
    assert moved == __


def test_two_names_from_yesterday():
    """Many tutorials use these two names. They still work, but not where warnings are errors.

    Which exception does each of them raise here?
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Exception) as caught:
            torch.cuda.amp.GradScaler(enabled=False)
        with pytest.raises(Exception) as another:
            torch.cuda.amp.autocast(enabled=False)
    assert another.type is caught.type
    assert caught.type is __


def test_a_net_cut_in_half():
    """To save even more, somebody also makes the weights float16. Which exception does it raise?"""
    net = nn.Linear(2, 1).half()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    loss = net(torch.ones(4, 2).half()).float().mean()
    scaler.scale(loss).backward()
    with pytest.raises(Exception) as caught:
        scaler.step(optimizer)
    assert caught.type is __


@pytest.mark.gpu
def test_where_the_scale_lives():
    """A scaler with its default device, and a loss on the GPU.

    Write the device type of the scaled loss, and the Python type of the scale in the state_dict.
    """
    scaler = torch.amp.GradScaler()
    loss = torch.ones((), device="cuda") * 3
    scaled = scaler.scale(loss)
    assert scaler.is_enabled()
    assert scaled.item() == 3 * scaler.get_scale()
    state = scaler.state_dict()
    assert [scaled.device.type, type(state["scale"])] == __


@pytest.mark.gpu
def test_a_slope_too_small_for_half():
    """The weight should move by minus the slope, times 1e9, but it stays where it is.

    Repair the marked lines; the optimizer stays as it is.
    """
    for slope in (1e-9, 4e-9):
        weight = nn.Parameter(torch.zeros(8, 8, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=1e9)
        with torch.autocast("cuda", dtype=torch.float16):
            output = F.linear(torch.eye(8, device="cuda"), weight)
        loss = output.float().sum() * slope
        # your turn:
        loss.backward()
        optimizer.step()
        # end
        assert weight.tolist() == [[pytest.approx(-slope * 1e9, rel=0.01)] * 8] * 8


def test_write_a_mixed_step():
    """Write one step with float16 autocast on the CPU, mse_loss, and a gradient of norm 1 at most.

    It moves the net as float32 would, nearly, and not at all when gradients overflow.
    """

    def step(net, optimizer, scaler, x, y):
        # your turn:
        __
        # end

    for net in (nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        weight, inputs = next(net.parameters()), torch.linspace(-1, 1, 12).view(4, 3)
        for x, goal in zip((inputs, inputs, inputs, inputs + 1), (9.0, 0.2, 1e9, 0.2)):
            seen, y = [], net(x).detach() + goal
            wanted = list(net.parameters()) if goal > 10 else in_float32(net, x, y)
            wanted = [p.detach().clone() for p in wanted]
            with (
                net.register_forward_hook(lambda *said: seen.append(said[-1].dtype)),
                weight.register_hook(lambda _: seen.append(torch.is_autocast_enabled("cpu"))),
            ):
                step(net, optimizer, scaler, x, y)
            assert seen == [torch.float16, False]
            torch.testing.assert_close(list(net.parameters()), wanted, atol=1e-3, rtol=0.0)
        assert scaler.get_scale() == 512.0
