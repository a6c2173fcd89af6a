"""Autocast: each operation chooses its own precision."""

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from sensei import __


@contextlib.contextmanager
def autocast_of_cuda():
    """The autocast of a GPU that need not exist: tensors have a device and a dtype, and no data."""
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_which_results_are_small():
    """Here is a block of mixed precision. Which results have the dtype bfloat16?

    Write their names, in order.
    """
    x = torch.ones(2, 2)
    image = torch.ones(1, 1, 2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = {"new": torch.ones(2), "x * 2": x * 2, "x @ x": x @ x}
        results["doubles"] = x.double() @ x.double()
        results["conv2d"] = F.conv2d(image, image)
        results["relu"] = torch.relu(x @ x)
        results["x + small"] = x + x @ x
    small = [name for name, t in results.items() if t.dtype is torch.bfloat16]
    assert small == __


def test_one_list_for_each_device():
    """Some operations widen a bfloat16 input to float32. Which ones: on the CPU, then on cuda?

    Each device has a list of its own, and that of the CPU may be short. (No GPU needed:
    `autocast_of_cuda` only pretends.)
    """
    ops = {"softmax": lambda t: t.softmax(-1), "layer_norm": lambda t: F.layer_norm(t, (4,))}
    ops |= {"exp": torch.exp, "relu": torch.relu, "mse_loss": lambda t: F.mse_loss(t, t)}

    def widened(device):
        h = torch.ones(4, 4, dtype=torch.bfloat16, device=device)
        return [name for name, op in ops.items() if op(h).dtype is torch.float32]

    with torch.autocast("cpu"):
        assert widened("cpu") == __
    with autocast_of_cuda():
        assert widened("cuda") == __


def test_dtypes_on_the_way_back():
    """The forward pass is in the block, the backward pass is not.

    What are the dtypes of the weight and of y? And those of the three gradients?
    """
    layer = nn.Linear(4, 2)
    x = torch.ones(3, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    y.retain_grad()
    y.sum().backward()
    assert [layer.weight.dtype, y.dtype] == __
    gradients = [layer.weight.grad, y.grad, x.grad]
    assert [g.dtype for g in gradients] == __


def test_what_is_added_to_the_graph():
    """What does autocast add to the graph? Count.

    How many nodes more does the second graph have?
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.ones(3, 4)

    def nodes(node):
        return 1 + sum(nodes(before) for before, _ in node.next_functions if before)

    plain = nodes(model(x).grad_fn)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = nodes(model(x).grad_fn)
    assert mixed - plain == __


def test_what_two_sums_lose():
    """In float32 the sums of these two rows are 257 and 1. And in the block?"""
    x = torch.tensor([[256.0, 1.0], [257.0, -256.0]])
    ones = torch.ones(2, 1)
    assert (x @ ones).flatten().tolist() == [257.0, 1.0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sums = (x @ ones).flatten()
    assert sums.tolist() == __


def test_a_device_in_the_wrong_form():
    """A line that should work on each machine: take the device from the data.

    Which exception does it raise?
    """
    x = torch.ones(2, 2)
    with pytest.raises(Exception) as caught:
        torch.autocast(x.device)
    assert caught.type is __


def test_a_block_from_an_old_tutorial():
    """This block was written for a GPU, long ago. Here all is on the CPU. Repair the marked lines.

    The layer should work in bfloat16, and PyTorch should have nothing to warn about.
    """

    def run(layer, x):
        # your turn:
        with torch.cuda.amp.autocast(dtype=torch.bfloat16):
            return layer(x)
        # end

    for pair, rounded in [([515.0, 512.0], 4.0), ([1030.0, 1024.0], 8.0)]:
        layer = nn.Linear(2, 1, bias=False)
        layer.load_state_dict({"weight": torch.tensor([[1.0, -1.0]])})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            y = run(layer, torch.tensor(pair))
        assert [y.dtype, y.item(), y.requires_grad] == [torch.bfloat16, rounded, True]
        assert layer.weight.dtype is torch.get_default_dtype()
        assert len(told) == 0


def test_very_sure_and_wrong():
    """The model is very sure, and wrong. Its cross entropy should be near the size of the logit,
    and push. Where the model is unsure or right, all is well, and should stay so.

    Repair the marked line, for the CPU and for cuda.
    """

    def loss_of(logits, target):
        # your turn:
        return F.binary_cross_entropy(logits.sigmoid(), target)
        # end

    wrong, others = [(12.0, 0.0, 12.0), (-9.0, 1.0, 9.0)], [(0.0, 1.0, 0.693), (9.0, 1.0, 0.0)]
    for size, goal, expected in wrong + others:
        weight = torch.tensor([size], requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(weight.bfloat16(), torch.tensor([goal]))
        loss.backward()
        assert loss.item() == pytest.approx(expected, abs=0.02)
        push = weight.detach().sigmoid().item() - goal
        assert weight.grad.item() == pytest.approx(push, abs=0.02)
    with autocast_of_cuda():
        half = torch.zeros(3, dtype=torch.float16, device="cuda")
        assert loss_of(half, torch.ones(3, device="cuda")).dtype is torch.float32


def test_a_step_without_a_scaler():
    """Some say that autocast needs a GradScaler. Write one training step without one.

    Forward runs in bfloat16, and the loss is F.mse_loss. Backward is not in the block.
    """

    def step(model, optimizer, x, y):
        # your turn:
        __
        # end

    for width in (2, 3):
        model, outs, inside = nn.Linear(width, 1), set(), set()
        model.register_forward_hook(lambda module, args, out, outs=outs: outs.add(out.dtype))
        model.weight.register_hook(lambda g, i=inside: i.add(torch.is_autocast_enabled("cpu")))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(32, width)
        for _ in range(100):
            step(model, optimizer, x, x.sum(1, keepdim=True))
        assert [outs, inside] == [{torch.bfloat16}, {False}]
        assert model.weight.dtype is x.dtype
        assert torch.allclose(model.weight, torch.ones(1, width), atol=0.05)
