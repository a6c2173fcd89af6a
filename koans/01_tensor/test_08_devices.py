"""Devices, and memory shared with NumPy: what moves, what stays, what is shared."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


def test_a_matrix_that_is_not_there():
    """The meta device keeps shapes and no numbers, so this matrix does not need 4 terabytes.

    In the next koans it stands in for a GPU. Which methods does it refuse, in this order?
    """
    x = torch.ones(10**6, 10**6, device="meta")
    refused = []
    for name in ["t", "sum", "argmax", "nonzero", "tolist"]:
        try:
            getattr(x, name)()
        except Exception:
            refused.append(name)
    assert refused == __


def test_the_memory_behind_a_fresh_tensor():
    """Four new tensors that nobody has used. An address of 0 means: no memory.

    Which of them have memory? Write their names as a list, in order.
    """
    fresh = {
        "randn": torch.randn(2, 3),
        "empty": torch.empty(2, 3),
        "meta": torch.empty(2, 3, device="meta"),
        "no rows": torch.empty(0, 3),
    }
    kept = [name for name, tensor in fresh.items() if tensor.data_ptr() != 0]
    assert kept == __


def test_where_the_tensor_is_after_a_move():
    """x is moved. Predict its device, and whether its address is the old one: True or False."""
    x = torch.ones(3)
    address = x.data_ptr()
    x.to("meta")
    assert [x.device.type, x.data_ptr() == address] == __


def test_ten_moves_to_the_same_place():
    """Ten rounds, two calls of .to() in each. Recorder notes each operation that PyTorch runs.

    How many has it noted?
    """
    ran = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func)
            return func(*args, **(kwargs or {}))

    x = y = torch.ones(3)
    with Recorder():
        for _ in range(10):
            x.to("meta")
            y = y.to("meta")
    assert len(ran) == __


def test_the_layout_after_a_move():
    """Move a transposed tensor to another device. Which strides does it have there?"""
    x = torch.ones(3, 4)
    t = x.t()
    moved = t.to("meta")
    assert moved.stride() == __


def test_a_move_to_a_device_you_do_not_have():
    """Move x to four places. PyTorch knows the word "fpga", but this build cannot use one.

    Write where each move ends: the device's type, or "raised".
    """
    x = torch.ones(3)
    ends = []
    for place in ["cpu", "meta", "fpga", "gpu"]:
        try:
            ends.append(x.to(place).device.type)
        except Exception:
            ends.append("raised")
    assert ends == __


def test_who_follows_the_default_device():
    """A torch.device can be a block: inside it, that device is the default.

    Predict the devices of the four tensors made there.
    """
    array = np.zeros(3)
    x = torch.zeros(3)
    with torch.device("meta"):
        made = [torch.zeros(3), torch.tensor([1.0]), torch.from_numpy(array), torch.zeros_like(x)]
    assert [t.device.type for t in made] == __


def test_leave_the_array_alone():
    """A write into the tensor reaches the array. Repair `load`: the array must stay as it was."""

    def load(array):
        # your turn:
        return torch.from_numpy(array)
        # end

    for array in (np.array([1.0, 2.0]), np.array([[3.0], [4.0]])):
        before = array.tolist()
        t = load(array)
        assert t.tolist() == before
        t.fill_(9.0)
        assert t.max().item() == 9.0
        assert array.tolist() == before


def test_an_array_and_a_tensor_transposed():
    """Some say that neither NumPy nor PyTorch moves a number to transpose.

    One block of memory, seen and transposed by both. Predict both strides: the step to the next
    row, then to the next column.
    """
    array = np.zeros((2, 3), dtype=np.float32)
    t = torch.from_numpy(array)
    assert array.T.strides == __
    assert t.T.stride() == __


def test_two_tensors_that_numpy_cannot_have():
    """One tensor needs a gradient, one is not in CPU memory. Name the two refusals."""
    tracked = torch.ones(3, requires_grad=True)
    elsewhere = torch.ones(3, device="meta")
    with pytest.raises(Exception) as caught:
        tracked.cpu().numpy()
    assert caught.type is __
    with pytest.raises(Exception) as caught:
        elsewhere.numpy()
    assert caught.type is __


def test_who_records_the_move():
    """To plot a prediction you detach it and move it, in one order or the other.

    Which of these tensors have a grad_fn, the node that made them? List their names, in order.
    """
    prediction = torch.ones(3, requires_grad=True) * 2
    moved, detached = prediction.to("meta"), prediction.detach()
    tensors = {"prediction": prediction, "moved": moved, "moved, detached": moved.detach()}
    tensors |= {"detached": detached, "detached, moved": detached.to("meta")}
    recorded = [name for name, tensor in tensors.items() if tensor.grad_fn is not None]
    assert recorded == __


def test_a_mirrored_image():
    """Write `mirror`: any image, a NumPy array, mirrored left to right and made a tensor.

    The second image here is a view that NumPy has mirrored before.
    """

    def mirror(image):
        # your turn:
        __
        # end

    array = np.array([[3, 8, 5], [1, 2, 4]])
    for image, expected in [(array, [[5, 8, 3], [4, 2, 1]]), (array[:, ::-1], array.tolist())]:
        mirrored = mirror(image)
        assert torch.is_tensor(mirrored)
        assert mirrored.tolist() == expected


def test_give_away_a_snapshot(device):
    """Write `snapshot`: an array of any tensor's numbers, in the tensor's dtype.

    Who writes into the array must not reach the tensor, and the tensor must stay as it is.
    """

    def snapshot(t):
        # your turn:
        __
        # end

    weights = torch.ones(2, 3, device=device, requires_grad=True)
    for t in (weights, weights * 2, torch.arange(4)):
        tracked, before = t.requires_grad, t.tolist()
        array = snapshot(t)
        assert isinstance(array, np.ndarray)
        assert array.tolist() == before
        assert array.itemsize == t.element_size()
        array[:] = 7
        assert t.tolist() == before
        assert t.requires_grad == tracked
