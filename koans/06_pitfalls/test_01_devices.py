"""Devices that do not match: where the red line comes from, who stayed behind, how to move house."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


def test_the_line_that_turns_red():
    """The meta device stands for a GPU. `step` is called with recording, then without it.

    Which of the five lines of `step` raises, each time? Count from 1, and write a list of two.
    """

    def step():
        w = torch.ones(3, device="meta", requires_grad=True)
        x = torch.ones(3)
        y = w * x
        loss = y.sum()
        loss.backward()

    raised = []
    for mode in (torch.enable_grad(), torch.no_grad()):
        with mode, pytest.raises(RuntimeError) as caught:
            step()
        raised.append(caught.tb.tb_next.tb_lineno - step.__code__.co_firstlineno)
    assert raised == __


def test_another_dtype_and_another_device():
    """x meets a neighbour of another dtype, then one on another device. The second sum is refused.

    The first is not: predict its dtype, and the dtype of x.grad.
    """
    x = torch.ones(3, requires_grad=True)
    total = x + torch.ones(3, dtype=torch.float64)
    total.sum().backward()
    with pytest.raises(RuntimeError):
        x + torch.ones(3, device="meta")
    assert [total.dtype, x.grad.dtype] == __


def test_guests_from_the_cpu():
    """`far` is on a device of its own, `near` on the CPU. Six ways to bring two devices together.

    Write for each, in order, where the result is; or "refused".
    """
    far, near = torch.ones(3, device="meta"), torch.ones(3)
    ways = [lambda: far + 2.0, lambda: far + torch.tensor(2.0), lambda: far + torch.ones(1)]
    ways += [lambda: torch.tensor(2.0, device="meta") + near]
    ways += [lambda: far[torch.tensor([0, 2])], lambda: far.copy_(near)]
    places = []
    for way in ways:
        try:
            places.append(way().device.type)
        except RuntimeError:
            places.append("refused")
    assert places == __


def test_the_operation_that_the_message_names():
    """An error message names `mv`, say, and your code only has @. The recorder notes what is run.

    Write the four names, in order. (Operations that only turn or reshape are left out.)
    """
    ran = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    vector, matrix, layer = torch.ones(3), torch.ones(3, 3), nn.Linear(3, 3)
    with Recorder():
        vector @ vector, matrix @ vector, vector @ matrix, layer(matrix)
    turned = ("t", "view", "unsqueeze", "squeeze", "squeeze_")
    assert [name for name in ran if name not in turned] == __


def test_a_wish_and_a_place():
    """A script compares the device of a batch with the device that it asked for. There is one GPU.

    (FakeTensorMode pretends that there is.) Predict the three values.
    """
    wish = torch.device("cuda")
    with FakeTensorMode():
        batch = torch.ones(3, device=wish)
    seen = [str(batch.device), batch.device == wish, batch.device.type == wish.type]
    assert seen == __


def test_a_plan_b_for_three_places():
    """A script tries a device and falls back in `except RuntimeError`. How does it end: where the
    device exists, where PyTorch was built without it, and after a typo?

    And which of three exceptions would catch the error of a GPU that is full?
    """
    missing = "xpu" if torch.backends.cuda.is_built() else "cuda"
    full, ends = torch.OutOfMemoryError, []
    for place in ("cpu", missing, "cdua"):
        try:
            ends.append(torch.ones(1, device=place).device.type)
        except RuntimeError:
            ends.append("plan B")
        except Exception as error:
            ends.append(type(error).__name__)
    assert ends == __
    parents = [e for e in (OSError, MemoryError, RuntimeError) if issubclass(full, e)]
    assert [e.__name__ for e in parents] == __


def test_decide_once_at_the_top(monkeypatch):
    """Write `choose`: the torch.device for a whole script, CUDA if torch.cuda finds a card, else
    the CPU.

    Ask, and try nothing: here the functions of torch.cuda believe in two cards, then in none.
    """

    def choose():
        # your turn:
        __
        # end

    names = [name for name in torch.cuda.__all__ if name[:3] in ("is_", "dev")]
    for cards in (2, 0):
        for name in names:
            if "init" not in name:
                monkeypatch.setattr(torch.cuda, name, lambda cards=cards: cards)
        device = choose()
        assert type(device) is torch.device
        assert device.type == ("cpu", "cuda")[cards > 0]


def test_noise_from_elsewhere():
    """This layer adds normal noise. It works on the laptop, and fails with a model that is
    somewhere else. Repair it. What comes out is like x: in shape, device and dtype. And x still
    gets its gradient."""

    class Noisy(nn.Module):
        def forward(self, x):
            # your turn:
            noise = torch.randn(x.shape)
            return x + noise
            # end

    layer = Noisy()
    for place, dtype in [("cpu", torch.float32), ("meta", torch.float32), ("cpu", torch.bfloat16)]:
        x = torch.zeros(50, 40, device=place, dtype=dtype, requires_grad=True)
        y = layer(x)
        assert [y.device, y.dtype, y.shape] == [x.device, x.dtype, x.shape]
        y.sum().backward()
        if place == "cpu":
            assert x.grad.unique().tolist() == [1.0]
            mean, spread, same = y.mean().item(), y.std().item(), torch.equal(y, layer(x))
            assert abs(mean) < 0.2 and abs(spread - 1) < 0.2
            assert not same


def test_who_missed_the_move():
    """A layer holds tensors in four ways, and is moved. Soon some line will meet two devices.

    Which of the four stayed on the CPU? Write their names as a list, in order.
    """
    layer = nn.Linear(3, 3)
    layer.register_buffer("replaced", torch.zeros(3))
    layer.replaced = torch.ones(3)
    layer.listed = [torch.ones(3)]
    layer.row = layer.weight[0]
    layer.to("meta")
    held = {"replaced": layer.replaced, "listed": layer.listed[0], "row": layer.row}
    held["weight"] = layer.weight
    assert [name for name, t in held.items() if t.device.type == "cpu"] == __


def test_a_mask_from_the_first_day():
    """What lies above the diagonal becomes 0. The layer is tried once on the CPU, then moved, and
    then it fails. Repair it. Nothing of the mask is to be trained or saved."""

    class LowerHalf(nn.Module):
        # your turn:
        def __init__(self):
            super().__init__()
            self.mask = None

        def forward(self, scores):
            if self.mask is None:
                self.mask = torch.ones_like(scores).tril()
            return scores * self.mask

        # end

    for size in (2, 3):
        layer, scores = LowerHalf(), torch.rand(size, size) + 1
        assert torch.equal(layer(scores), scores.tril())
        layer.to("meta")
        assert layer(scores.to("meta")).is_meta
        assert list(layer.state_dict()) == list(layer.parameters()) == []


def test_give_the_default_back():
    """`build` makes a model on another default device. Afterwards strange things happen elsewhere:
    new tensors are not where they used to be. Repair it. While make() runs, `place` is the default.
    """

    def build(make, place):
        # your turn:
        torch.set_default_device(place)
        made = make()
        torch.set_default_device("cpu")
        return made
        # end

    def make():
        seen.append(torch.zeros(1).device.type)
        return nn.Linear(2, 2)

    def broken():
        raise KeyError("this layer does not exist")

    seen = []
    try:
        for ours, place in (("cpu", "meta"), ("meta", "cpu")):
            torch.set_default_device(ours)
            built = build(make, place)
            assert [*seen[-1:], built.weight.device.type] == [place, place]
            assert torch.zeros(1).device.type == ours
            with pytest.raises(KeyError):
                build(broken, place)
            assert torch.zeros(1).device.type == ours
    finally:
        torch.set_default_device(None)


def test_a_model_for_any_device():
    """This little recurrent model only runs on the CPU. Repair it, so that it runs wherever the
    model and x are. The mean is not trained, but it is saved with the model."""

    class Recurrent(nn.Module):
        # your turn:
        def __init__(self, mean):
            super().__init__()
            self.cell = nn.Linear(2, 2)
            self.mean = mean

        def forward(self, x):
            state = torch.zeros(2)
            for step in x:
                state = (state + self.cell(step - self.mean)).tanh()
            return state

        # end

    model, fresh, x = Recurrent(torch.rand(2)), Recurrent(torch.zeros(2)), torch.rand(4, 2)
    expected = torch.zeros(2)
    for step in x:
        expected = (expected + model.cell(step - model.mean)).tanh()
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trained == ["cell.weight", "cell.bias"]
    fresh.load_state_dict(model.state_dict())
    assert fresh(x).tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert fresh.double()(x.double()).tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert fresh.to("meta")(x.double().to("meta")).is_meta
