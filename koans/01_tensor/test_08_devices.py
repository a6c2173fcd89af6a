"""Devices, and memory shared with NumPy: what moves, what stays, what is shared."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


def test_a_matrix_that_is_not_there():
    """The meta device keeps shapes and no numbers, so this matrix needs no 4 terabytes.

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


def test_where_the_tensor_is_after_a_move():
    """Some say that a move changes the tensor's device, and that its address jumps.

    Predict x's device, and whether its address is the old one: True or False.
    """
    x = torch.ones(3)
    address = x.data_ptr()
    x.to("meta")
    assert [x.device.type, x.data_ptr() == address] == __


def test_ten_moves_to_the_same_place():
    """Some say ten calls of .to(device) are ten transfers.

    Recorder notes each operation that PyTorch runs, by its own name. What has it noted?
    """
    ran = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    with Recorder():
        for _ in range(10):
            x = x.to("meta")
    assert ran == __


def test_the_layout_after_a_move():
    """Some say a move and .contiguous() belong together. Move a transposed tensor.

    Which strides does it have then?
    """
    x = torch.ones(3, 4)
    t = x.t()
    moved = t.to("meta")
    assert moved.stride() == __


def test_a_move_to_a_device_you_do_not_have():
    """PyTorch knows the word "fpga", but this build cannot use one.

    What is caught: where the tensor is afterwards, or the exception's type?
    """
    x = torch.ones(3)
    try:
        caught = x.to("fpga").device.type
    except Exception as error:
        caught = type(error)
    assert caught == __


def test_who_follows_the_default_device():
    """A torch.device can be a block: inside it, that device is the default.

    Some say every new tensor follows. Predict the four devices.
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
    """One block of memory, seen by NumPy and by PyTorch, and transposed by each.

    Predict both strides: the step to the next row, then to the next column.
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
    """To plot a prediction you detach it and move it. Some say: move first.

    Predict the node behind each moved tensor; None where there is none.
    """
    prediction = torch.ones(3, requires_grad=True) * 2
    moved_first = prediction.to("meta")
    detached_first = prediction.detach().to("meta")
    nodes = [moved_first.grad_fn, detached_first.grad_fn]
    assert [node and node.name() for node in nodes] == __


def test_a_mirrored_image():
    """Mirror an image, left to right, and make it a tensor. PyTorch refuses this one. Repair it."""

    def mirror(image):
        # your turn:
        return torch.from_numpy(image[:, ::-1])
        # end

    for image in (np.array([[3, 8, 5], [1, 2, 4]]), np.array([[7.0, 6.0]])):
        mirrored = mirror(image)
        assert torch.is_tensor(mirrored)
        assert mirrored.tolist() == image[:, ::-1].tolist()


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
