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
    assert refused == answer(["nonzero", "tolist"])


@koan(
    claims=["B-2-10"],
    see="torch.Tensor.data_ptr",
    hint=[
        "One of them has no element at all. Which of the others must keep six?",
        "What does the meta device keep of a tensor, and what does it leave out?",
    ],
    why="Memory is taken at once: randn fills it with samples, empty leaves what was in it. Only "
    "where there is nothing to keep, on the meta device or in a tensor without elements, is there "
    "no memory either.",
    wrong={
        "[]": "Some say that such a line takes no memory before it is needed. It is taken, and "
        "for randn also filled, before the line ends.",
        "['randn']": "empty writes no numbers. But it does take room for them.",
        "['randn', 'empty', 'meta']": "meta tells shapes, strides and dtypes. Where would it keep "
        "4 terabytes?",
        "['randn', 'empty', 'meta', 'no rows']": "Two of the four have nothing to keep.",
        "['randn', 'empty', 'no rows']": "How many elements are in a table of no rows?",
    },
)
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
    assert kept == answer(["randn", "empty"])


@koan(
    claims=["A-2.3-11", "A-2.3-12"],
    see="torch.Tensor.to",
    hint="What does .to() return? And who keeps it here?",
    why=".to() never changes the tensor it is called on. It returned another tensor, and nobody "
    "kept it. (module.to(d) is different: it moves the module's own parameters.)",
    wrong={
        "['meta', False]": "Some say that a move changes the tensor's device, and that its "
        "address jumps. Nothing jumps: .to() leaves the tensor you call it on alone.",
        "['cpu', False]": "A tensor that stays keeps its memory too. The copy has another address.",
        "['meta', True]": "A device is where the memory is. Neither changes without the other.",
    },
)
def test_where_the_tensor_is_after_a_move():
    """x is moved. Predict its device, and whether its address is the old one: True or False."""
    x = torch.ones(3)
    address = x.data_ptr()
    x.to("meta")
    assert [x.device.type, x.data_ptr() == address] == answer(["cpu", True])


@koan(
    claims=["A-3.5-05", "B-1-13"],
    see="torch.Tensor.to",
    hint=[
        "Which of the two names moves along? Where does each stand when the second round begins?",
        "What is left to do for .to() when the tensor is there already?",
    ],
    why="Where nothing has to change, .to() returns the very same tensor: y is moved once. x stays "
    "on the CPU, so each round copies it anew, and that is what costs. The operation is called "
    "_to_copy; the old C library with THCTensor_copyCuda has left PyTorch.",
    wrong={
        "20": "Some say each .to() costs a transfer. Look at what it returns when the tensor is "
        "there already.",
        "2": "For y that is right. But nobody keeps what x.to() returns.",
        "10": "x is as you say. And y is not there from the start.",
        "0": "Something must bring the data there, or at least its shape and dtype.",
    },
)
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
    assert len(ran) == answer(11)


@koan(
    claims=["B-1-14"],
    see="torch.Tensor.contiguous",
    hint=["Which strides has t before the move?", "Does a device care for the order of numbers?"],
    why="A move keeps the layout of a dense tensor. contiguous() is another matter: on a tensor "
    "that is contiguous it returns the same one, else it is one more copy, not a faster move.",
    wrong={
        "(3, 1)": "Some say a move belongs together with .contiguous(). This is the layout after "
        "both; a move alone does not call it for you.",
        "(4, 1)": "These are x's strides; t has them the other way round.",
        "(1, 3)": "To go one row down in t is to go one column on in x. And one column on in t?",
    },
)
def test_the_layout_after_a_move():
    """Move a transposed tensor to another device. Which strides does it have there?"""
    x = torch.ones(3, 4)
    t = x.t()
    moved = t.to("meta")
    assert moved.stride() == answer((1, 4))


@koan(
    claims=["A-2.3-07"],
    see="torch.Tensor.to",
    hint=[
        "Is there a tensor to return? If not, what else can .to() do?",
        "What does PyTorch call the device of NVIDIA's cards? It has no word for GPUs of any make.",
    ],
    why="A move gives a tensor on that device, or raises. It never stays quietly on the CPU. So it "
    'is with .to("cuda"): AssertionError where PyTorch was built without CUDA, RuntimeError where '
    "no driver is found. Only torch.cuda.is_available() answers without a sound.",
    wrong={
        "['cpu', 'meta', 'cpu', 'cpu']": "Some say such a move may fail silently, and the tensor "
        "stays where it was. It never does.",
        "['cpu', 'meta', 'cpu', 'raised']": "It would be kind to go on with the CPU. But you asked "
        "for something else, and you are told.",
        "['cpu', 'meta', 'fpga', 'raised']": "PyTorch knows the name of this device, but nobody "
        "here can allocate on it.",
        "['cpu', 'meta', 'raised', 'cuda']": "To PyTorch a GPU is always of some make. It does not "
        "guess which one you mean, also where there is one.",
        "['cpu', 'meta', 'raised', 'cpu']": "PyTorch does not know that word. It does not take the "
        "CPU in its place.",
        "['cpu', 'meta', 'fpga', 'gpu']": "These two are not here: one device is missing, and the "
        "other word is no device's name.",
    },
)
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
    assert ends == answer(["cpu", "meta", "raised", "raised"])


@koan(
    claims=["A-4.1-09"],
    see="torch.set_default_device",
    hint=["Which of these ask 'where?' and find no answer in their arguments?"],
    why="The default is for functions that make new data and are not told where. from_numpy shares "
    "the array's memory, zeros_like follows its model. torch.set_default_device(d) does the same "
    "without a block, for the current thread, until set_default_device(None).",
    wrong={
        "['meta', 'meta', 'meta', 'meta']": "Some say every new tensor follows. But two of these "
        "have their place from something else.",
        "['meta', 'meta', 'meta', 'cpu']": "An array lives in CPU memory. To share it is to stay.",
        "['meta', 'meta', 'cpu', 'meta']": "A tensor made LIKE x is like x in its device too.",
        "['meta', 'cpu', 'cpu', 'cpu']": "Numbers from a Python list have no device yet.",
    },
)
def test_who_follows_the_default_device():
    """A torch.device can be a block: inside it, that device is the default.

    Predict the devices of the four tensors made there.
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
    at={
        "t.tolist() == before": (
            "Before anything else, `t` must show the numbers of the array. Print what `load` "
            "returns."
        ),
        "t.fill_(9.0)": (
            "The numbers are right. But this line fills a tensor in place, and it could not. "
            "What kind of thing does `load` return?"
        ),
        "array.tolist() == before": (
            "The tensor is right. But the write into it has reached the array. Whose memory "
            "does the tensor hold?"
        ),
    },
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
    at={
        "array.T.strides": (
            "This line asks NumPy for its steps: to the next row of the transposed array, then "
            "to the next column. In which unit does it count?"
        ),
        "t.T.stride()": (
            "NumPy's strides are right. The tensor walks through the same memory. In which unit "
            "does PyTorch count its steps?"
        ),
    },
)
def test_an_array_and_a_tensor_transposed():
    """Some say that neither NumPy nor PyTorch moves a number to transpose.

    One block of memory, seen and transposed by both. Predict both strides: the step to the next
    row, then to the next column.
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
        "One is refused as Python refuses len(3): wrong in kind, whatever it holds. The other "
        "would do, but for what PyTorch keeps about it.",
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
        "What does detach() return, and what does it do to the tensor that it is called on?",
    ],
    why="Both orders give the same numbers. But a move before detach() is recorded, only to be "
    "thrown away. detach() first records nothing, and leaves prediction as it was.",
    wrong={
        "['prediction']": "Autograd sees a move as an operation like any other.",
        "['moved']": "Some fear that detach() would spoil the prediction. It gives you another "
        "tensor and leaves this one alone.",
        "['prediction', 'moved', 'detached, moved']": "Some say the move must come first, then "
        "detach(). But after detach() nobody is recording.",
        "['prediction', 'moved', 'moved, detached']": "detach() forgets where a tensor came from, "
        "whatever that was.",
        "[]": "The prediction was computed from something that requires grad.",
    },
)
def test_who_records_the_move():
    """To plot a prediction you detach it and move it, in one order or the other.

    Which of these tensors have a grad_fn, the node that made them? List their names, in order.
    """
    prediction = torch.ones(3, requires_grad=True) * 2
    moved, detached = prediction.to("meta"), prediction.detach()
    tensors = {"prediction": prediction, "moved": moved, "moved, detached": moved.detach()}
    tensors |= {"detached": detached, "detached, moved": detached.to("meta")}
    recorded = [name for name, tensor in tensors.items() if tensor.grad_fn is not None]
    assert recorded == answer(["prediction", "moved"])


@koan(
    see="torch.from_numpy",
    hint=[
        "NumPy mirrors by walking backward: the same memory, and a stride below zero.",
        "A tensor only walks forward. Somebody must put the numbers in that order.",
        "The second image is itself a mirrored view. When does its memory have to be put in order?",
    ],
    why="Tensors have no negative strides, so the mirrored numbers must be written down once: by "
    "NumPy's copy() at the door, or, for an array that walks forward, by torch.flip behind it. "
    "torch.flip copies as well; NumPy's flip does not.",
    wrong={
        "return torch.from_numpy(image[:, ::-1])": "NumPy mirrors without a copy, by a step of -1. "
        "A tensor cannot take over such steps.",
        "return torch.as_tensor(image[:, ::-1])": "as_tensor shares memory too, when it can.",
        "return torch.tensor(image[:, ::-1])": "It would copy, but it reads the array by the same "
        "rules first.",
        "return torch.from_numpy(image)[:, ::-1]": "A tensor cannot be sliced backward either.",
        "return torch.from_numpy(image).flip(1)": "Right for the first image. But the second one "
        "walks backward already, before you have touched it.",
        "return torch.from_numpy(image.copy()).flip(0)": "That is upside down, not mirrored.",
    },
    right=[
        "return torch.from_numpy(image.copy()).flip(1)",
        "return torch.from_numpy(np.ascontiguousarray(image[:, ::-1]))",
        "return torch.tensor(image.tolist()).fliplr()",
    ],
    at={
        "torch.is_tensor(mirrored)": (
            "This line only asks for a tensor. What kind of thing does `mirror` return?"
        ),
        "mirrored.tolist() ==": (
            "It is a tensor. Now its numbers are compared: each row backward, and the rows in "
            "their old order. Print it for both images."
        ),
    },
)
def test_a_mirrored_image():
    """Write `mirror`: any image, a NumPy array, mirrored left to right and made a tensor.

    The second image here is a view that NumPy has mirrored before.
    """

    def mirror(image):
        # answer:
        return torch.from_numpy(image[:, ::-1].copy())
        # end

    array = np.array([[3, 8, 5], [1, 2, 4]])
    for image, expected in [(array, [[5, 8, 3], [4, 2, 1]]), (array[:, ::-1], array.tolist())]:
        mirrored = mirror(image)
        assert torch.is_tensor(mirrored)
        assert mirrored.tolist() == expected


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
    at={
        "isinstance(array": (
            "This line only asks for a NumPy array. What kind of thing does `snapshot` return?"
        ),
        "array.itemsize": (
            "The numbers are right. This line asks how many bytes each of them takes: has the "
            "array the dtype of the tensor?"
        ),
        "t.tolist() == before": (
            "The array is right. But a write into it has reached the tensor. Whose memory does "
            "the array read?"
        ),
        "t.requires_grad == tracked": (
            "Array and numbers are right. But this line looks at the tensor you were given: its "
            "flag is not what it was."
        ),
        "array.tolist() == before": (
            "It is an array. This line compares its numbers with those of the tensor, for each "
            "of the three tensors."
        ),
    },
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
