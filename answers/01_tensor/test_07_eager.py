"""Eager: when a line is computed; reductions, and what they give back.

Documents: B 1, B 2
"""

import ctypes
import re

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import answer, koan


@koan(
    claims=["B-2-12", "B-2-33"],
    aliases=["test_the_bytes_behind_a_product"],
    see="torch.Tensor.data_ptr",
    hint=[
        "ctypes asks nothing of PyTorch: it reads the raw bytes. Who put them there, and when?",
        "Does y know the name x, or where x is kept?",
    ],
    why="PyTorch is eager: y had its numbers, in memory of its own, before the next line began. "
    "It keeps no recipe. On a GPU the work is queued at once: it may finish later, but it runs "
    "whether or not anybody looks.",
    wrong={
        "[1.0, 1.0]": "Some say PyTorch is lazy: a line is noted down, and worked out when "
        "somebody looks, from what x holds by then. It does the work at once.",
        "[0.0, 0.0]": "Some say that such a line computes no numbers when it runs. Then nothing "
        "would be there yet. (Nor is y's memory that of x, which was wiped.)",
        "[5.0, 7.0]": "These were the numbers of x. The result has memory of its own.",
    },
)
def test_the_input_is_wiped_after_the_sum():
    """x is wiped after the sum, and nobody has looked at y yet.

    ctypes reads the two floats at y's address, without PyTorch's help. Which ones?
    """
    x = torch.tensor([5.0, 7.0])
    y = x + 1
    x.zero_()
    memory = (ctypes.c_float * 2).from_address(y.data_ptr())
    assert list(memory) == answer([6.0, 8.0])


@koan(
    claims=["B-2-34"],
    see="torch.utils._python_dispatch.TorchDispatchMode",
    hint=[
        "The mode sees each operation at the moment PyTorch runs it.",
        "What is left to do for item()? And does the derivative of sin need sin once more?",
    ],
    why="sin ran at its own line. item() only copied the number out, and backward() worked with "
    "what the forward pass had kept: it ran cos, not sin.",
    wrong={
        "[0, 1]": "item() and backward() do not start the computation. It is over by then.",
        "[1, 3]": "The result is kept. Nobody needs to compute it again.",
        "[0, 0]": "The mode sees what runs inside its block, and something runs there.",
    },
)
def test_how_often_the_sine_is_computed():
    """Some say only a call such as item() or backward() starts the real work.

    Recorder notes each operation as it runs. Count the runs of `sin`: before these two calls,
    and after them.
    """
    ran = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.tensor(0.5, requires_grad=True)
    with Recorder():
        y = x.exp().sin()
        before = ran.count("sin")
        y.item()
        y.backward()
    assert [before, ran.count("sin")] == answer([1, 1])


@koan(
    see="torch.Tensor.item",
    hint=[
        "item() makes one Python number.",
        "Does it look at the dimensions, or at something else?",
    ],
    why="item() counts elements, not dimensions: exactly one, in a box of any shape. "
    "tolist() takes any tensor, and keeps the nesting.",
    wrong={
        "[()]": "A scalar has no dimension, true. But item() does not count dimensions.",
        "[(), (1,)]": "Another pair of brackets around one number changes nothing.",
        "[(), (1,), (1, 1), (0,)]": "Which number would an empty tensor give?",
    },
)
def test_which_shapes_hold_one_number():
    """item() turns a tensor into a Python number, or refuses.

    List the shapes it accepts, in this order.
    """
    accepted = []
    for shape in [(), (0,), (1,), (2,), (1, 1)]:
        try:
            torch.ones(shape).item()
        except Exception:
            continue
        accepted.append(shape)
    assert accepted == answer([(), (1,), (1, 1)])


@koan(
    claims=["B-1-17"],
    see="torch.nn.functional.linear",
    hint=[
        "linear computes x @ weight.T. Which two matrices does the multiplication meet?",
        "Put print(x.shape, weight.shape) above the call. It costs nothing.",
    ],
    why="The error speaks of what was multiplied: the weight, transposed. Printing shapes to find "
    "your way is sound: a shape is kept beside the data, and reading it waits for nothing.",
    wrong={
        "['4x3', '2x5']": "The weight as it is stored. The error shows it as it is used.",
        "['3x4', '5x2']": "x is taken as it is.",
    },
)
def test_read_the_two_shapes_in_an_error():
    """The sizes do not fit, and the line itself says so.

    Its message names both matrices by rows and columns, each like "2x7". Predict the two, in
    order.
    """
    x = torch.ones(4, 3)
    weight = torch.ones(2, 5)
    with pytest.raises(Exception) as caught:
        F.linear(x, weight)
    assert re.findall(r"\d+x\d+", str(caught.value)) == answer(["4x3", "5x2"])


@koan(
    see="torch.sum",
    hint=[
        "Dimensions are counted from zero.",
        "Summing ALONG a dimension: is it still there after?",
    ],
    why="dim names the dimension that is used up. keepdim leaves it in place with length one, "
    "so that the result still lines up with x.",
    wrong={
        ("(3,)", "(1, 3, 1)"): "dim says what to sum over, not what to keep.",
        ("(3, 4)", "(1, 3, 4)"): "The first dimension is number zero.",
        ("(2, 4)", "(2, 3, 4)"): "It is kept as a place, not in its old length.",
    },
    right=[("torch.Size([2, 4])", "torch.Size([2, 1, 4])")],
    at={
        "x.sum(dim=1).shape": (
            "This sum goes along dimension 1 and does not keep it. Which lengths are left, and "
            "in which order?"
        ),
        "keepdim=True": (
            "The first shape is right. This sum keeps the dimension that it used up. How long is "
            "it, once everything along it has been added?"
        ),
    },
)
def test_sum_along_one_dimension():
    """Two sums over the same dimension. Which shapes do they have?"""
    x = torch.ones(2, 3, 4)
    assert tuple(x.sum(dim=1).shape) == answer((2, 4))
    assert tuple(x.sum(dim=1, keepdim=True).shape) == answer((2, 1, 4))


@koan(
    see="torch.sum",
    hint=[
        "The first dimension is number 0. How far does that let you count?",
        "As with a list's index, you may count from the end too. What is the last one called?",
    ],
    why="With n dimensions, dim goes from -n to n - 1. -1 is the last one, whatever n is: that is "
    "why you meet dim=-1 so often. Outside the range PyTorch raises an IndexError.",
    wrong={
        "[0, 2]": "These work. But you may also count backward, from the end.",
        "[-2, 2]": "-1 is the last of three. So what is the first one called?",
        "[1, 3]": "Dimensions are counted from zero.",
        "[-3, 3]": "The two ends do not look alike: one count begins at zero.",
        "[0, 3]": "There are three dimensions, and the first is number zero.",
    },
)
def test_no_such_dimension():
    """x has no dimension 3. The message tells the range that dim must be in.

    Predict the smallest and the largest number.
    """
    x = torch.ones(2, 3, 4)
    with pytest.raises(Exception) as caught:
        x.sum(dim=3)
    assert [int(n) for n in re.findall(r"-?\d+", str(caught.value))[:2]] == answer([-3, 2])


@koan(
    see="torch.sum",
    hint=["A byte holds no more than 255.", "A sum of many small integers is soon a large one."],
    why="Sums of integers (and of bools) are carried out in int64. Adding two uint8 tensors "
    "element by element does overflow; summing one does not.",
    wrong={
        ("14", "torch.uint8"): "That is what `a + b` gives for bytes. A reduction is more careful.",
        ("255", "torch.uint8"): "PyTorch's integers never stop at their largest value.",
        ("270", "torch.uint8"): "That number does not fit into a byte.",
        ("270", "torch.int32"): "It would be wide enough here. PyTorch takes the widest.",
        ("270", "int"): "item() would be one of Python's ints. A tensor's numbers have a dtype.",
        ("270", "torch.float32"): "The sum is right. But adding whole numbers gives whole numbers.",
    },
    right=[("270", "torch.long"), ("270.0", "torch.int64")],
    at={
        "x.sum().item()": (
            "This line asks for the number. Must a sum stay in the dtype of the numbers that it "
            "adds?"
        ),
        "x.sum().dtype": (
            "The number is right. This line asks for the dtype of such a sum. It must do for a "
            "very long tensor of bytes as well."
        ),
    },
)
def test_the_sum_of_two_bytes():
    """Each number fits into a byte (uint8), their sum does not. What comes out, in which dtype?"""
    x = torch.tensor([250, 20], dtype=torch.uint8)
    assert x.sum().item() == answer(270)
    assert x.sum().dtype is answer(torch.int64)


@koan(
    aliases=["test_the_mean_of_integers"],
    see="torch.mean",
    hint=[
        "Which of these can give you a fraction, though you hand in whole numbers?",
        "Go through the formulas. Which of them divide?",
    ],
    why="A mean of integers is rarely an integer, and a standard deviation starts from a mean. "
    "PyTorch does not choose a dtype for you: say x.float().mean(), or mean(dtype=torch.float32).",
    wrong={
        "[]": "So it is in NumPy, which goes on in floats. PyTorch wants you to say so.",
        "['mean']": "One more of these divides, and takes a root after that.",
        "['mean', 'std', 'median']": (
            "One of these may seem to lie between two numbers. PyTorch always gives one of them."
        ),
        "['std']": "That one starts from another one of these.",
        "['mean', 'median']": "One of these divides, and another only seems to.",
    },
)
def test_what_whole_numbers_refuse():
    """NumPy gives each of these for whole numbers. PyTorch refuses some.

    Which names are in the list?
    """
    x = torch.tensor([1, 2, 4])
    refused = []
    for name in ["sum", "prod", "max", "mean", "std", "median"]:
        try:
            getattr(x, name)()
        except Exception:
            refused.append(name)
    assert refused == answer(["mean", "std"])


@koan(
    see="torch.argmax",
    hint=[
        "Print argmax() of a small matrix. In which order must it have counted?",
        "How many elements are there in a row?",
    ],
    why="Without dim, argmax sees one long row of numbers. Dividing by the row's length gives the "
    "row, and the rest is the column.",
    wrong={
        "return divmod(x.argmax().item(), x.shape[0])": "shape[0] is the number of rows, "
        "not how long one is. On a square matrix the slip would not show.",
        "return x.argmax(dim=0).max().item(), x.argmax(dim=1).max().item()": "Each of these is "
        "the best of ONE column, or of one row. They need not meet.",
        "return x.argmax().item()": "One number, for a place that has two.",
    },
    right=[
        "return torch.unravel_index(x.argmax(), x.shape)",
        "place = x.argmax()\nreturn place // x.shape[1], place % x.shape[1]",
        "return (x == x.max()).nonzero()[0]",
    ],
    at={
        "row, column = place(x)": (
            "This line takes two things out of what `place` returns: a row and a column. What "
            "does it return now?"
        ),
        "[int(row), int(column)]": (
            "`place` gives back two things. This line compares them: the row first, then the "
            "column, both counted from zero, for three matrices."
        ),
    },
)
def test_find_row_and_column_of_the_largest():
    """argmax() gives one number even for a matrix. Write `place`: the row and column it means."""

    def place(x):
        # answer:
        return divmod(x.argmax().item(), x.shape[1])
        # end

    wide, tall = torch.tensor([[1, 2, 3, 8], [9, 5, 6, 7]]), torch.tensor([[1, 2], [0, 4], [3, 0]])
    for x, found in [(wide, [1, 0]), (wide.t(), [0, 1]), (tall, [1, 1])]:
        row, column = place(x)
        assert [int(row), int(column)] == found


@koan(
    see="torch.max",
    hint=[
        "Print what max gives with dim, and without.",
        "With dim it gives two things. Which of them do you want?",
    ],
    why="With dim, max (min, median, sort too) gives a pair: the values, and the indices where "
    "they stand. amax gives values only.",
    wrong={
        "return scores - scores.max(dim=1, keepdim=True).indices": "These are the places of the "
        "largest numbers, not the numbers.",
        "return scores - scores.max(dim=1).values": "Without keepdim each row is no longer matched "
        "with its own maximum.",
        "return scores - scores.max()": "One maximum for the whole matrix; each row wants its own.",
        "return scores - scores.max(dim=0, keepdim=True)[0]": "That goes down the columns.",
    },
    right=[
        "return scores - scores.max(dim=1, keepdim=True)[0]",
        "return scores - scores.amax(dim=1, keepdim=True)",
        "best, where = scores.max(dim=1, keepdim=True)\nreturn scores - best",
    ],
    at={
        "below_best(square)": (
            "In each row of the square matrix, the best should become 0. Print what you "
            "subtract: its shape, and its numbers."
        ),
        "below_best(wide)": (
            "The square matrix is right. This one has more columns than rows. Does each number "
            "still meet the best of its own row?"
        ),
    },
)
def test_how_far_below_the_best_of_the_row():
    """In each row, subtract the row's largest score, so that the best becomes 0. Repair it."""

    def below_best(scores):
        # answer:
        return scores - scores.max(dim=1, keepdim=True).values
        # given:
        # return scores - scores.max(dim=1, keepdim=True)
        # end

    square = torch.tensor([[1, 5], [7, 0]])
    wide = torch.tensor([[2, 8, 3], [6, 4, 1]])
    assert below_best(square).tolist() == [[-4, 0], [0, -7]]
    assert below_best(wide).tolist() == [[-6, 0, -5], [0, -2, -5]]


@koan(
    see="torch.var",
    hint=[
        "The squared distances from the mean add up to 9. NumPy divides that by their count.",
        "A sample seems less spread than what it was drawn from. PyTorch corrects for that.",
    ],
    why="PyTorch divides by n - 1 (correction=1), NumPy by n. correction=0 agrees with NumPy. "
    "With the default, the variance of a single number is nan.",
    wrong={
        "2.25": "NumPy's default. It is not a matter of rounding: the two divide by other numbers.",
        "1.5": "That is NumPy's standard deviation.",
        "9.0": "The squared distances still have to be shared out.",
    },
)
def test_the_same_numbers_another_variance():
    """NumPy and PyTorch see the same four numbers. NumPy has spoken; what does PyTorch say?"""
    x = torch.tensor([0.0, 0.0, 3.0, 3.0])
    assert x.numpy().var() == 2.25
    assert x.var().item() == answer(3.0)


@koan(
    see="torch.median",
    hint=[
        "Two things are asked: the number half way between, and a way back for a gradient. "
        "Print both. Does median() ever return a number that is not there?",
        "Half of the numbers lie below the middle. There is a function for any such share.",
    ],
    why="torch.median returns an element, so that there is an index to name and a place for the "
    "gradient: of two middle ones, the lower. quantile goes half way between them.",
    wrong={
        "return x.median(dim=0).values": "The same element, told with its index beside it.",
        "return x.mean()": "One far-off number drags the mean along; a middle stays.",
        "return x.sort().values[len(x) // 2]": "The upper of the two, and so still an element.",
        "import numpy as np\nreturn torch.tensor(np.median(x.detach().numpy()))": (
            "The number is right. But NumPy's work is nothing that a gradient could follow."
        ),
    },
    right=[
        "return torch.quantile(x, 0.5)",
        "return x.nanquantile(0.5)",
        "a, b = x.sort().values, x.sort(descending=True).values\n"
        "return (a[len(x) // 2] + b[len(x) // 2]) / 2",
    ],
)
def test_the_middle_of_an_even_count():
    """NumPy's median of an even count lies half way between the two middle numbers.

    PyTorch's does not. Repair `middle` so that it does, and stay in PyTorch.
    """

    def middle(x):
        # answer:
        return x.quantile(0.5)
        # given:
        # return x.median()
        # end

    even, odd = [10.0, 1.0, 3.0, 2.0], [7.0, 30.0, 9.0]
    for numbers, expected in [(even, 2.5), (odd, 9.0), ([4.0, 8.0, 90.0, 0.0], 6.0)]:
        found = middle(torch.tensor(numbers, requires_grad=True))
        assert [found.item(), found.requires_grad] == [expected, True]


@koan(
    see="torch.std",
    hint=[
        "Four steps: a dtype that has a mean, the mean of each row, its spread, a division.",
        "What must a row's mean look like to line up with its row?",
        "The mean of the squares must be one: so by which number does the spread divide?",
    ],
    why="Floats first, keepdim to line up, correction=0 for a spread of exactly one: three small "
    "choices, and with two of them wrong nothing complains.",
    wrong={
        "return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True, correction=0)": (
            "The numbers that come in are integers."
        ),
        "x = x.float()\nreturn (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)": (
            "By default the spread divides by one less than the count."
        ),
        "x = x.float()\nreturn (x - x.mean(dim=1)) / x.std(dim=1, correction=0)": (
            "On a square matrix this runs, and mixes the rows up."
        ),
        "x = x.float()\nreturn (x - x.mean()) / x.std(correction=0)": (
            "Each row needs its own mean and its own spread."
        ),
    },
    right=[
        "x = x.double()\n"
        "spread, mean = torch.std_mean(x, dim=1, correction=0, keepdim=True)\n"
        "return (x - mean) / spread",
        "return F.layer_norm(x.float(), x.shape[1:], eps=0.0)",
    ],
    at={
        "z.mean(dim=1)": (
            "This line wants the mean of each row to be 0. Print z.mean(dim=1): by what was "
            "each row shifted?"
        ),
        "z.square()": (
            "The mean of each row is 0, as it should be. This line looks at the spread: the mean "
            "of the squares must be 1. What is each row divided by?"
        ),
        "z.argsort(dim=1)": (
            "Each row has the right mean and the right spread. But its numbers do not stand in "
            "the same order as in `x`, from small to large."
        ),
    },
)
def test_standardise_each_row():
    """Write `standardise`: shift and scale each row of integers.

    Then the row's mean is 0, and the mean of its squares is 1.
    """

    def standardise(x):
        # answer:
        x = x.float()
        return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True, correction=0)
        # end

    square = torch.tensor([[1, 2, 6], [40, 0, 20], [3, 9, 7]])
    for x in (square, square.t(), torch.tensor([[8, 1, 3, 2], [0, 5, 70, 6]])):
        z = standardise(x)
        assert z.mean(dim=1).tolist() == pytest.approx([0.0] * len(x), abs=1e-5)
        assert z.square().mean(dim=1).tolist() == pytest.approx([1.0] * len(x), abs=1e-5)
        assert z.argsort(dim=1).tolist() == x.argsort(dim=1).tolist()
