"""Creation: what you hand in, and what you get.

Documents: A 2.1, A 3.1
"""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from sensei import answer, koan


@pytest.mark.tour(15)
@koan(
    claims=["A-2.1-05"],
    see="torch.tensor",
    hint=[
        "Every number in a tensor has the same type. Three numbers were there before 2.7 came.",
        "Which type did torch.tensor choose when it saw those three? Is there room for a fraction?",
    ],
    why=(
        "Three ints made an int64 tensor, and a tensor keeps its dtype. The fraction was cut off, "
        "not rounded, and nobody told you. Write 10.0 and the tensor would hold floats."
    ),
    wrong={
        "[2.7, 20, 30]": (
            "So it would be in a list, where each element has its own type. "
            "A tensor has one type for all, chosen when it is made."
        ),
        "[3, 20, 30]": "It does become a whole number. But PyTorch does not round on the way.",
        "[10, 20, 30]": "You would be told if the write were refused. It happens, in its own way.",
    },
)
def test_a_new_number_in_an_old_box():
    """Welcome. In a Python list, the first element would now be 2.7. And here?

    Put the list that you expect in place of the blank, and run. A wrong guess costs nothing:
    PyTorch itself tells you "not yet".
    """
    x = torch.tensor([10, 20, 30])
    x[0] = 2.7
    assert x.tolist() == answer([2, 20, 30])


@koan(
    claims=["A-3.1-03"],
    see="torch.get_default_dtype",
    hint=[
        "First find each dtype: the number of bits is in most of their names. Eight make a byte.",
        "torch.tensor looks at the type of Python numbers. An array already has a dtype.",
    ],
    why=(
        "Python bools become bool (1 byte each), ints int64 (8), floats the default dtype float32 "
        "(4): 3 * 4 = 12. A NumPy array keeps its own dtype, and NumPy's floats are float64."
    ),
    wrong={
        "[3, 24, 24, 24]": (
            "A Python float does have 64 bits. But PyTorch prefers a smaller float by default; "
            "torch.get_default_dtype() names it."
        ),
        "[3, 12, 12, 24]": "The default dtype is for floats. Whole numbers do not follow it.",
        "[3, 24, 12, 12]": (
            "The default dtype is for Python's floats. NumPy has said already how wide its own are."
        ),
        "[1, 24, 12, 24]": "One bit would do for a bool, but the smallest cell has eight.",
    },
)
def test_three_elements_four_times():
    """Three elements each time. How many bytes does each tensor take?"""
    sources = [
        [True, False, True],
        [1, 2, 3],
        [1.0, 2.0, 3.0],
        np.array([1.0, 2.0, 3.0]),
    ]
    assert [torch.tensor(source).nbytes for source in sources] == answer([3, 24, 12, 24])


@koan(
    claims=["A-2.1-05"],
    see="torch.empty",
    hint=[
        "The capital letter is the old way, from before torch.tensor and torch.empty were there.",
        "torch.Tensor(2, 5) has ten numbers, and nobody can say which. So what is torch.Tensor(3)?",
        "With a list, the capital one reads your data, but does not look at its type.",
    ],
    why=(
        "torch.tensor reads a value and infers its dtype. torch.Tensor (and torch.FloatTensor) "
        "takes ints as SIZES, so you get three numbers nobody wrote; a list is data, but forced "
        "to the default dtype. Prefer torch.tensor, torch.zeros and torch.empty."
    ),
    wrong={
        ("[(), ()]", "[torch.int64, torch.int64]"): (
            "They look like two spellings of one thing. But the capital one never asks "
            "what type your numbers have, and it does not always take a number for a value."
        ),
        ("[(), (1,)]", "[torch.int64, torch.float32]"): (
            "Near: the capital one wants at least one dimension. But what does it do with the 3?"
        ),
        ("[(3,), (3,)]", "[torch.int64, torch.float32]"): (
            "The lower-case one takes its argument for data, always. It makes no room for more."
        ),
        ("[(), (3,)]", "['int64', 'float32']"): (
            "The shapes are right. A dtype is no text: write it as torch.uint8 is written here."
        ),
        ("[(), (3,)]", "['torch.int64', 'torch.float32']"): (
            "The shapes are right. A dtype is no text: write it as torch.uint8 is written here."
        ),
    },
    right=[
        ("[torch.Size([]), torch.Size([3])]", "[torch.long, torch.float]"),
    ],
    at={
        "tuple(torch.tensor(3).shape)": (
            "This line asks for the two shapes. Does each spelling take the 3 for the same kind "
            "of thing?"
        ),
        "torch.tensor([3]).dtype": (
            "The shapes are right. This line asks for the dtypes, and now the 3 stands in a "
            "list. Which spelling looks at the type of a number?"
        ),
    },
)
def test_one_capital_letter():
    """Some say torch.tensor and torch.Tensor are two very different things.

    (In these koans, some sayings are true and some are not.) Give the same 3 to both: which
    shapes come out? And which dtypes, when the 3 stands in a list?
    """
    assert [tuple(torch.tensor(3).shape), tuple(torch.Tensor(3).shape)] == answer([(), (3,)])
    assert [torch.tensor([3]).dtype, torch.Tensor([3]).dtype] == answer(
        [torch.int64, torch.float32]
    )


@koan(
    see="torch.tensor",
    hint=[
        "How does torch.tensor find the shape of [[1, 2], [3, 4]]? It opens what can be opened.",
        "A str can be opened too: each piece of a str is a str. So what does PyTorch run into?",
    ],
    why=(
        "A str is a sequence, so torch.tensor takes it for one more dimension, finds strings in "
        "strings without end, and says: too many dimensions 'str'. Convert first: "
        "torch.tensor([int(word) for word in words])."
    ),
    wrong={
        "TypeError": (
            "Natural: a str is no number. But PyTorch does not get as far as the type of an "
            "element. It still looks for the shape."
        ),
        "RuntimeError": "Most operations do complain that way. But here there is no tensor yet.",
    },
)
def test_numbers_that_are_still_words():
    """These numbers come from a text file. Which exception do you get?"""
    words = "3 1 4".split()
    with pytest.raises(Exception) as caught:
        torch.tensor(words)
    assert caught.type is answer(ValueError)


@koan(
    claims=["A-3.1-01", "A-3.1-04"],
    see="torch.as_tensor",
    hint=[
        "One way in always copies what it is given, list or array. Another never does.",
        "An array has three doors: tensor, as_tensor, from_numpy. What does each promise?",
    ],
    why=(
        "torch.tensor always copies. from_numpy (and as_tensor, where it can) takes over the "
        "array's memory, so both see every write. The numbers may be the same; a device and, "
        "if you ask for it, a place in a graph are what the tensor has besides."
    ),
    wrong={
        "live = torch.tensor(readings)\nkept = torch.tensor(readings)": (
            "Some think that torch.tensor shares an array's memory. It reads it once and is done."
        ),
        "live = torch.from_numpy(readings)\nkept = torch.as_tensor(readings)": (
            "as_tensor copies only if it must. Here it need not, so this one follows as well."
        ),
        "live = torch.from_numpy(readings)\nkept = live[:]": (
            "[:] copies a Python list. Of a tensor it is the same memory once more."
        ),
        "live = readings\nkept = readings.copy()": (
            "They behave well, but they are arrays. Two tensors are wanted."
        ),
    },
    right=[
        "live = torch.as_tensor(readings)\nkept = torch.tensor(readings)",
        "live = torch.from_numpy(readings)\nkept = live.clone()",
        "kept = torch.from_numpy(readings.copy())\nlive = torch.from_numpy(readings)",
    ],
    at={
        "type(live) is type(kept)": (
            "This line wants two plain tensors, `live` and `kept`. Is each of them there, and of "
            "which type is it?"
        ),
        "live.tolist() == readings.tolist()": (
            "Both are tensors. By now the array and `live` have each been written to, and they "
            "should agree. Do they share one memory?"
        ),
        "kept.tolist()": (
            "`live` is right. This line looks at `kept`: it must hold the first numbers, "
            "whatever is written later. Whose memory does it read?"
        ),
    },
)
def test_one_follows_and_one_remembers():
    """Make two tensors from `readings`. `live` and the array see each other's changes.

    `kept` stays as it is at this moment.
    """
    for first in (1.0, 7.0):
        readings = np.array([first, 2.0, 3.0])
        # answer:
        live = torch.from_numpy(readings)
        kept = torch.tensor(readings)
        # end
        assert type(live) is type(kept) is torch.Tensor
        readings[0] = 100.0
        live[2] = 300.0
        assert live.tolist() == readings.tolist() == [100.0, 2.0, 300.0]
        assert kept.tolist() == [first, 2.0, 3.0]


@koan(
    see="torch.Tensor.to",
    hint=[
        "If an error says Double or Float: these are old names for two dtypes. Which one comes "
        "from NumPy?",
        "A layer multiplies only what has the dtype of its weight. Convert the data, once.",
    ],
    why=(
        "NumPy's floats are float64 and from_numpy keeps that; a layer's weights are float32. "
        "Addition would promote silently, matrix multiplication refuses. So convert at the door."
    ),
    wrong={
        "x = torch.tensor(data)": (
            "The default dtype is for Python's floats. Of an array the dtype is kept, copy or not."
        ),
        "x = torch.from_numpy(data) + torch.zeros(3)": (
            "Addition does mix the two dtypes, without a word. But the wider one wins."
        ),
        "layer.double()\nx = torch.from_numpy(data)": (
            "It runs, but now the layer has changed and takes twice the memory. Let it be."
        ),
    },
    right=[
        "x = torch.tensor(data, dtype=torch.float32)",
        "x = torch.as_tensor(data, dtype=layer.weight.dtype)",
        "x = torch.from_numpy(data.astype(np.float32))",
        "x = torch.from_numpy(data).to(layer.weight.dtype)",
        "x = torch.tensor(data.tolist())",
        "x = torch.Tensor(data)",
    ],
    at={
        "layer(x).shape": (
            "This line asks the layer. Do the type and the dtype of `x` fit the layer's weight, "
            "and is there one answer for each row?"
        ),
        "dtypes == [torch.float32": (
            "The layer runs now. This line asks whether `x` and the layer both have the dtype "
            "that the layer was made with."
        ),
        "x.tolist() == rows": (
            "The dtypes are right. But `x` no longer holds the numbers of the array. Print both: "
            "what happened on the way?"
        ),
    },
)
def test_an_array_at_the_door_of_a_layer():
    """The layer refuses such arrays. Repair the marked line, and leave the layer as it is."""
    layer = nn.Linear(3, 1)
    for rows in ([[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]], [[6.5, 7.5, 8.5]]):
        data = np.array(rows)
        # answer:
        x = torch.from_numpy(data).float()
        # given:
        # x = torch.from_numpy(data)
        # end
        assert tuple(layer(x).shape) == (len(rows), 1)
        dtypes = [x.dtype, layer.weight.dtype]
        assert dtypes == [torch.float32, torch.float32]
        assert x.tolist() == rows


@koan(
    claims=["A-2.1-04", "A-3.1-02"],
    aliases=["test_who_makes_a_tensor"],
    see="torch.is_tensor",
    hint=[
        "A class is what other things are instances of. Which of the five have instances?",
        "isinstance(x, ...) takes a class and refuses anything else. Try it with each.",
    ],
    why=(
        "torch.tensor is a function from C++ that looks at your data and picks a dtype. "
        "torch.Tensor is the class of every tensor, and its constructor ends in C++ as well. "
        "So you write isinstance(x, torch.Tensor), and x.dtype is torch.float32."
    ),
    wrong={
        "['tensor', 'Tensor', 'dtype', 'Parameter']": (
            "Some say torch.tensor calls a constructor in Python, and torch.Tensor one in C++. "
            "A constructor belongs to a class. Print torch.tensor, and see what it calls itself."
        ),
        "['tensor', 'dtype', 'Parameter']": (
            "Some even name the C++ constructor behind torch.tensor, THPVariable_New. PyTorch has "
            "none of that name any more. And isinstance(x, torch.Tensor) works well."
        ),
        "['tensor', 'Tensor', 'float32', 'dtype', 'Parameter']": (
            "x.dtype holds torch.float32: one value among others. What is its type?"
        ),
        "['Tensor', 'Parameter']": "There is more than one float32 and int64. What are they all?",
        "['Tensor']": "A Parameter is a special tensor. And a dtype, what is it an instance of?",
    },
)
def test_which_names_are_classes():
    """isinstance(x, ...) wants a class. Which of these five are classes?

    Write their names as a list, in order.
    """
    things = {
        "tensor": torch.tensor,
        "Tensor": torch.Tensor,
        "float32": torch.float32,
        "dtype": torch.dtype,
        "Parameter": nn.Parameter,
    }
    names = [name for name, thing in things.items() if inspect.isclass(thing)]
    assert names == answer(["Tensor", "dtype", "Parameter"])


@koan(
    see="torch.arange",
    hint=[
        "Print torch.arange(1, 1.3, 0.1). Is 0.3 / 0.1 exactly 3 in floating point?",
        "Whole numbers do not round. Can you count in them, and go to fractions afterwards?",
        "What dtype has your result when start and step are ints? And what dtype has x?",
    ],
    why=(
        "arange's length is ceil((end - start) / step), and a tiny rounding error there is a whole "
        "point more. Count in whole numbers instead. And ints give int64 unless you say dtype."
    ),
    wrong={
        "return torch.arange(start, start + step * len(x), step, dtype=x.dtype)": (
            "The dtype is right. But some believe that the end is always left out; "
            "with fractions, rounding decides."
        ),
        "return start + step * torch.arange(len(x))": (
            "The count is right. But nobody told this tensor to be of x's dtype."
        ),
        "return torch.linspace(start, start + step * len(x), len(x), dtype=x.dtype)": (
            "Count and dtype are right. But linspace includes its end, so each step is too long."
        ),
    },
    right=[
        "return torch.linspace(start, start + step * (len(x) - 1), len(x), dtype=x.dtype)",
        "return torch.tensor([start + step * i for i in range(len(x))], dtype=x.dtype)",
        "return start + step * torch.arange(len(x)).to(x.dtype)",
        "ramp = torch.zeros_like(x)\n"
        "for i in range(len(x)):\n"
        "    ramp[i] = start + step * i\n"
        "return ramp",
    ],
    at={
        "len(ramp) == len(x)": (
            "This line only counts: the ramp must have as many numbers as `x`, in all three "
            "calls. Print it: how many has yours?"
        ),
        "ramp.dtype is x.dtype": (
            "The count is right. This line looks at the dtype: it should be that of `x`, in all "
            "three calls. What decides it in your lines?"
        ),
        "ramp.tolist() ==": (
            "Count and dtype are right. Now the numbers: print the ramp. Where does it start, "
            "and how far is it from one number to the next?"
        ),
    },
)
def test_a_ramp_like_x():
    """zeros_like(x) takes its shape and its dtype from x. A ramp should do the same.

    It goes up from start by step, and has as many numbers as x. Repair the marked line.
    """

    def ramp_like(x, start, step):
        # answer:
        return start + step * torch.arange(len(x), dtype=x.dtype)
        # given:
        # return torch.arange(start, start + step * len(x), step)
        # end

    narrow, wide = torch.zeros(3), torch.ones(5, dtype=torch.float64)
    for x, start, step in [(narrow, 1, 0.1), (wide, 0, 2), (narrow, 5, 1)]:
        ramp = ramp_like(x, start, step)
        assert len(ramp) == len(x)
        assert ramp.dtype is x.dtype
        assert ramp.tolist() == pytest.approx([start + step * i for i in range(len(x))])
