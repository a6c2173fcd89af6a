"""Eager: when a line is computed; reductions, and what they give back."""

import ctypes
import re

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


def test_the_input_is_wiped_after_the_sum():
    """x is wiped after the sum, and nobody has looked at y yet.

    ctypes reads the two floats at y's address, without PyTorch's help. Which ones?
    """
    x = torch.tensor([5.0, 7.0])
    y = x + 1
    x.zero_()
    memory = (ctypes.c_float * 2).from_address(y.data_ptr())
    assert list(memory) == __


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
    assert [before, ran.count("sin")] == __


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
    assert accepted == __


def test_read_the_two_shapes_in_an_error():
    """The sizes do not fit, and the line itself says so.

    Its message names both matrices by rows and columns, each like "2x7". Predict the two, in
    order.
    """
    x = torch.ones(4, 3)
    weight = torch.ones(2, 5)
    with pytest.raises(Exception) as caught:
        F.linear(x, weight)
    assert re.findall(r"\d+x\d+", str(caught.value)) == __


def test_sum_along_one_dimension():
    """Two sums over the same dimension. Which shapes do they have?"""
    x = torch.ones(2, 3, 4)
    assert tuple(x.sum(dim=1).shape) == __
    assert tuple(x.sum(dim=1, keepdim=True).shape) == __


def test_no_such_dimension():
    """x has no dimension 3. The message tells the range that dim must be in.

    Predict the smallest and the largest number.
    """
    x = torch.ones(2, 3, 4)
    with pytest.raises(Exception) as caught:
        x.sum(dim=3)
    assert [int(n) for n in re.findall(r"-?\d+", str(caught.value))[:2]] == __


def test_the_sum_of_two_bytes():
    """Each number fits into a byte (uint8), their sum does not. What comes out, in which dtype?"""
    x = torch.tensor([250, 20], dtype=torch.uint8)
    assert x.sum().item() == __
    assert x.sum().dtype is __


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
    assert refused == __


def test_find_row_and_column_of_the_largest():
    """argmax() gives one number even for a matrix. Write `place`: the row and column it means."""

    def place(x):
        # your turn:
        __
        # end

    wide, tall = torch.tensor([[1, 2, 3, 8], [9, 5, 6, 7]]), torch.tensor([[1, 2], [0, 4], [3, 0]])
    for x, found in [(wide, [1, 0]), (wide.t(), [0, 1]), (tall, [1, 1])]:
        row, column = place(x)
        assert [int(row), int(column)] == found


def test_how_far_below_the_best_of_the_row():
    """In each row, subtract the row's largest score, so that the best becomes 0. Repair it."""

    def below_best(scores):
        # your turn:
        return scores - scores.max(dim=1, keepdim=True)
        # end

    square = torch.tensor([[1, 5], [7, 0]])
    wide = torch.tensor([[2, 8, 3], [6, 4, 1]])
    assert below_best(square).tolist() == [[-4, 0], [0, -7]]
    assert below_best(wide).tolist() == [[-6, 0, -5], [0, -2, -5]]


def test_the_same_numbers_another_variance():
    """NumPy and PyTorch see the same four numbers. NumPy has spoken; what does PyTorch say?"""
    x = torch.tensor([0.0, 0.0, 3.0, 3.0])
    assert x.numpy().var() == 2.25
    assert x.var().item() == __


def test_the_middle_of_an_even_count():
    """NumPy's median of an even count lies half way between the two middle numbers.

    PyTorch's does not. Repair `middle` so that it does, and stay in PyTorch.
    """

    def middle(x):
        # your turn:
        return x.median()
        # end

    even, odd = [10.0, 1.0, 3.0, 2.0], [7.0, 30.0, 9.0]
    for numbers, expected in [(even, 2.5), (odd, 9.0), ([4.0, 8.0, 90.0, 0.0], 6.0)]:
        found = middle(torch.tensor(numbers, requires_grad=True))
        assert [found.item(), found.requires_grad] == [expected, True]


def test_standardise_each_row():
    """Write `standardise`: shift and scale each row of integers.

    Then the row's mean is 0, and the mean of its squares is 1.
    """

    def standardise(x):
        # your turn:
        __
        # end

    square = torch.tensor([[1, 2, 6], [40, 0, 20], [3, 9, 7]])
    for x in (square, square.t(), torch.tensor([[8, 1, 3, 2], [0, 5, 70, 6]])):
        z = standardise(x)
        assert z.mean(dim=1).tolist() == pytest.approx([0.0] * len(x), abs=1e-5)
        assert z.square().mean(dim=1).tolist() == pytest.approx([1.0] * len(x), abs=1e-5)
        assert z.argsort(dim=1).tolist() == x.argsort(dim=1).tolist()
