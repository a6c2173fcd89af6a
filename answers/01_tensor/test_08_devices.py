"""Devices, and memory shared with NumPy: what moves, what stays, what is shared.

Documents: A 2.3, A 3.5, A 4.1, B 1, B 2
"""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import answer, koan


@koan(
    see="torch.Tensor.is_meta",
    hint=["A meta tensor knows its shape, strides and dtype.", "Which answers need the numbers?"],
    why="Meta tensors work out the shape of a result and nothing else. Numbers cannot be listed, "
    "and how many are nonzero, the shape of that result, depends on numbers too.",
    wrong={
        "[]": "There is no memory behind this tensor. Some answers cannot be worked out.",
        "['t', 'sum', 'argmax', 'nonzero', 'tolist']": "Much can be said of a result from "
        "shapes alone: its own shape, for one.",
        "['sum', 'argmax', 'nonzero', 'tolist']": "A result without numbers is no trouble, "
        "as long as its shape is known.",
        "['tolist']": "One more of these has a shape that only the numbers can tell.",
    },
)
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
    assert refused == answer(["nonzero", "tolist"])


@koan(
    claims=["A-2.3-11", "A-2.3-12"],
    see="torch.Tensor.to",
    hint="What does .to() return? And who keeps it here?",
    why="A tensor never changes its device. .to() returned another tensor, and nobody kept it; x "
    "stayed where it was. (A Module is different: module.to(d) swaps its own parameters.)",
    wrong={
        "['meta', False]": "Nothing jumps: .to() leaves the tensor you call it on alone.",
        "['cpu', False]": "A tensor that stays keeps its memory too. The copy has another address.",
        "['meta', True]": "A device is where the memory is. Neither changes without the other.",
    },
)
def test_where_the_tensor_is_after_a_move():
    """Some say that a move changes the tensor's device, and that its address jumps.

    Predict x's device, and whether its address is the old one: True or False.
    """
    x = torch.ones(3)
    address = x.data_ptr()
    x.to("meta")
    assert [x.device.type, x.data_ptr() == address] == answer(["cpu", True])


@koan(
    claims=["A-3.5-05", "B-1-13"],
    see="torch.Tensor.to",
    hint=[
        "What is left to do for the second call?",
        "The operation is private, so its name begins with an underscore. Two words follow: "
        "the method, and what it does with the data.",
    ],
    why="Where nothing has to change, .to() returns the very same tensor. So repeated calls are "
    "nearly free. What costs is to move the same CPU tensor again and again.",
    wrong={
        "['_to_copy'] * 10": "Some say each .to() costs a transfer. Look at what it returns when "
        "the tensor is there already.",
        "['THCTensor_copyCuda']": "The old C libraries of that name have left PyTorch.",
        "['to']": "to() is not an operation itself: it decides whether one is needed.",
        "[]": "Once, something must happen.",
    },
)
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
    assert ran == answer(["_to_copy"])


@koan(
    claims=["B-1-14"],
    see="torch.Tensor.contiguous",
    hint=["Which strides has t before the move?", "Does a device care for the order of numbers?"],
    why="A move keeps the layout of a dense tensor. contiguous() is another matter: on a tensor "
    "that is contiguous it returns the same one, else it is one more copy, not a faster move.",
    wrong={
        "(3, 1)": "This is the layout after .contiguous(). A move does not call it for you.",
        "(4, 1)": "These are x's strides; t has them the other way round.",
        "(1, 3)": "To go one row down in t is to go one column on in x. And one column on in t?",
    },
)
def test_the_layout_after_a_move():
    """Some say a move and .contiguous() belong together. Move a transposed tensor.

    Which strides does it have then?
    """
    x = torch.ones(3, 4)
    t = x.t()
    moved = t.to("meta")
    assert moved.stride() == answer((1, 4))


@koan(
    claims=["A-2.3-07"],
    see="torch.Tensor.cuda",
    hint="Is there a tensor to return? If not, which exception does PyTorch use for most refusals?",
    why="A move gives a tensor on that device, or raises. It never stays quietly on the CPU. "
    "x.cuda() raises AssertionError where PyTorch was built without CUDA, RuntimeError where no "
    "driver is found. Only torch.cuda.is_available() answers without a sound.",
    wrong={
        "'cpu'": "Some say such a move may fail silently, and the tensor stays. It never does.",
        "'fpga'": "PyTorch knows the name of this device, but nobody here can allocate on it.",
        "ValueError": "The name is known, so the value is fine. What is missing is the support.",
        "AssertionError": "Close: this is what a build without CUDA raises for 'cuda'. "
        "Most other devices are refused by the C++ core.",
    },
)
def test_a_move_to_a_device_you_do_not_have():
    """PyTorch knows the word "fpga", but this build cannot use one.

    What is caught: where the tensor is afterwards, or the exception's type?
    """
    x = torch.ones(3)
    try:
        caught = x.to("fpga").device.type
    except Exception as error:
        caught = type(error)
    assert caught == answer(RuntimeError)


@koan(
    claims=["A-4.1-09"],
    see="torch.set_default_device",
    hint=["Which of these ask 'where?' and find no answer in their arguments?"],
    why="The default is for functions that make new data and are not told where. from_numpy shares "
    "the array's memory, zeros_like follows its model. torch.set_default_device(d) does the same "
    "without a block, for the current thread, until set_default_device(None).",
    wrong={
        "['meta', 'meta', 'meta', 'meta']": "Two of these have their place from something else.",
        "['meta', 'meta', 'meta', 'cpu']": "An array lives in CPU memory. To share it is to stay.",
        "['meta', 'meta', 'cpu', 'meta']": "A tensor made LIKE x is like x in its device too.",
        "['meta', 'cpu', 'cpu', 'cpu']": "Numbers from a Python list have no device yet.",
    },
)
def test_who_follows_the_default_device():
    """A torch.device can be a block: inside it, that device is the default.

    Some say every new tensor follows. Predict the four devices.
    """
    array = np.zeros(3)
    x = torch.zeros(3)
    with torch.device("meta"):
        made = [torch.zeros(3), torch.tensor([1.0]), torch.from_numpy(array), torch.zeros_like(x)]
    assert [t.device.type for t in made] == answer(["meta", "meta", "cpu", "cpu"])


@koan(
    claims=["B-2-01"],
    see="torch.from_numpy",
    hint=[
        "A tensor on the CPU can be built around memory that NumPy owns.",
        "Which function copies what it is given, always?",
    ],
    why="from_numpy and as_tensor share the array's memory. torch.tensor always copies. "
    "So a CPU tensor is much like an array; a device and autograd are what comes on top.",
    wrong={
        "return torch.as_tensor(array)": "as_tensor copies only if it must. Here it need not.",
        "return torch.from_numpy(array).to('cpu')": "It is on the CPU already, so .to() has "
        "nothing to do.",
        "return torch.from_numpy(array).detach()": "detach() leaves the graph, not the memory.",
        "return torch.from_numpy(array).contiguous()": "It is contiguous already: no copy.",
    },
    right=[
        "return torch.from_numpy(array).clone()",
        "return torch.from_numpy(array.copy())",
        "return torch.from_numpy(array).to('cpu', copy=True)",
    ],
)
def test_leave_the_array_alone():
    """A write into the tensor reaches the array. Repair `load`: the array must stay as it was."""

    def load(array):
        # answer:
        return torch.tensor(array)
        # given:
        # return torch.from_numpy(array)
        # end

    for array in (np.array([1.0, 2.0]), np.array([[3.0], [4.0]])):
        before = array.tolist()
        t = load(array)
        assert t.tolist() == before
        t.fill_(9.0)
        assert t.max().item() == 9.0
        assert array.tolist() == before


@koan(
    claims=["B-2-02"],
    see="torch.Tensor.stride",
    hint=[
        "Neither transposes by moving numbers. What do they change instead?",
        "One library counts its steps in bytes. A float32 has four of them.",
    ],
    why="Both are a shape, strides and a dtype over one block of memory, and both transpose by "
    "swapping strides. NumPy counts them in bytes, PyTorch in elements.",
    wrong={
        ("(8, 4)", "(1, 3)"): "Some say an array is a static block. So it would look if NumPy "
        "copied to transpose. It does not.",
        ("(1, 3)", "(1, 3)"): "NumPy gives its strides in another unit.",
        ("(12, 4)", "(3, 1)"): "These are the strides before the transpose.",
        ("(4, 12)", "(4, 12)"): "PyTorch counts its strides in another unit.",
    },
)
def test_an_array_and_a_tensor_transposed():
    """One block of memory, seen by NumPy and by PyTorch, and transposed by each.

    Predict both strides: the step to the next row, then to the next column.
    """
    array = np.zeros((2, 3), dtype=np.float32)
    t = torch.from_numpy(array)
    assert array.T.strides == answer((4, 12))
    assert t.T.stride() == answer((1, 3))


@koan(
    claims=["B-2-21"],
    see="torch.Tensor.numpy",
    hint=[
        "For one of them numpy() is forbidden for now; the other is not something NumPy can hold.",
        "The second is about what KIND of tensor it is. Which exception does Python have for that?",
    ],
    why="Two refusals: an array would slip past autograd, so detach() first; and NumPy only knows "
    "CPU memory, so cpu(), whenever you like. Neither does the other's work.",
    wrong={
        ("TypeError", "TypeError"): "The first has a memory and a type that NumPy knows. "
        "It is refused for what autograd would miss.",
        ("RuntimeError", "RuntimeError"): "One of them is refused by another name: NumPy has no "
        "such type of tensor.",
        ("TypeError", "RuntimeError"): "The other way round.",
        ("RuntimeError", "NotImplementedError"): "Copying from meta to the CPU says this. "
        "numpy() looks at the device before that.",
    },
)
def test_two_tensors_that_numpy_cannot_have():
    """One tensor needs a gradient, one is not in CPU memory. Name the two refusals."""
    tracked = torch.ones(3, requires_grad=True)
    elsewhere = torch.ones(3, device="meta")
    with pytest.raises(Exception) as caught:
        tracked.cpu().numpy()
    assert caught.type is answer(RuntimeError)
    with pytest.raises(Exception) as caught:
        elsewhere.numpy()
    assert caught.type is answer(TypeError)


@koan(
    claims=["B-2-21"],
    see="torch.Tensor.detach",
    hint=[
        "A move of a tracked tensor can be differentiated: the gradient moves back.",
        "A node is named after its operation. You have met the operation of a move.",
    ],
    why="Both orders give the same numbers. But a move before detach() is recorded, only to be "
    "thrown away. detach() first records nothing, and leaves prediction as it was.",
    wrong={
        "[None, None]": "Autograd sees a move as an operation like any other.",
        "['MulBackward0', None]": "That node made prediction. The moved tensor is another one.",
        "[None, 'ToCopyBackward0']": "Some say cpu() must come before detach(). But after detach() "
        "nobody is recording.",
    },
)
def test_who_records_the_move():
    """To plot a prediction you detach it and move it. Some say: move first.

    Predict the node behind each moved tensor; None where there is none.
    """
    prediction = torch.ones(3, requires_grad=True) * 2
    moved_first = prediction.to("meta")
    detached_first = prediction.detach().to("meta")
    nodes = [moved_first.grad_fn, detached_first.grad_fn]
    assert [node and node.name() for node in nodes] == answer(["ToCopyBackward0", None])


@koan(
    see="torch.flip",
    hint=[
        "NumPy mirrors by walking backward: the same memory, and a stride below zero.",
        "A tensor only walks forward. Somebody must put the numbers in that order.",
    ],
    why="Tensors have no negative strides, so the mirrored numbers must be written down once: by "
    "NumPy's copy(), or by torch.flip, which copies as well (NumPy's flip does not).",
    wrong={
        "return torch.as_tensor(image[:, ::-1])": "as_tensor shares memory too, when it can.",
        "return torch.tensor(image[:, ::-1])": "It would copy, but it reads the array by the same "
        "rules first.",
        "return torch.from_numpy(image)[:, ::-1]": "A tensor cannot be sliced backward either.",
        "return torch.from_numpy(image).flip(0)": "That is upside down, not mirrored.",
    },
    right=[
        "return torch.from_numpy(image).flip(1)",
        "return torch.from_numpy(np.ascontiguousarray(image[:, ::-1]))",
    ],
)
def test_a_mirrored_image():
    """Mirror an image, left to right, and make it a tensor. PyTorch refuses this one. Repair it."""

    def mirror(image):
        # answer:
        return torch.from_numpy(image[:, ::-1].copy())
        # given:
        # return torch.from_numpy(image[:, ::-1])
        # end

    for image in (np.array([[3, 8, 5], [1, 2, 4]]), np.array([[7.0, 6.0]])):
        mirrored = mirror(image)
        assert torch.is_tensor(mirrored)
        assert mirrored.tolist() == image[:, ::-1].tolist()


@koan(
    see="torch.Tensor.numpy",
    hint=[
        "Three things stand between a tensor and a free array: autograd, the device, the memory.",
        "Two of them raise when forgotten. The third is silent.",
    ],
    why="detach() leaves the graph and touches nothing, cpu() moves if it must, numpy() shares, "
    "and copy() ends the sharing.",
    wrong={
        "return t.detach().cpu().numpy()": "On a CPU this array is the tensor's own memory.",
        "return t.cpu().numpy().copy()": "A tensor that needs a gradient is refused on any device.",
        "return t.numpy(force=True)": "force detaches and moves, but it copies only if it must.",
        "return t.requires_grad_(False).cpu().numpy().copy()": "This switches the tensor itself.",
    },
    right=[
        "return t.detach().clone().cpu().numpy()",
        "return t.numpy(force=True).copy()",
    ],
)
def test_give_away_a_snapshot(device):
    """Write `snapshot`: an array of any tensor's numbers, in the tensor's dtype.

    Who writes into the array must not reach the tensor, and the tensor must stay as it is.
    """

    def snapshot(t):
        # answer:
        return t.detach().cpu().numpy().copy()
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
