"""Eager: each line computes when it runs; reductions, and what they give back."""

import ctypes
import re

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


def test_the_input_is_wiped_after_the_sum():
    """Some say PyTorch is lazy: a line is only noted down, and computed when somebody looks.

    Predict what y holds in the end.
    """
    x = torch.tensor([5.0, 7.0])
    y = x + 1
    x.zero_()
    assert y.tolist() == __


def test_the_bytes_behind_a_product():
    """Some say `x * 2` computes no numbers at the moment it runs.

    Nobody has looked at y yet. Read the three floats at its address without PyTorch's help.
    """
    x = torch.tensor([1.0, 2.0, 3.0])
    y = x * 2
    memory = (ctypes.c_float * 3).from_address(y.data_ptr())
    assert list(memory) == __


def test_how_often_the_sine_is_computed():
    """Some say only item() or backward() starts the real work.

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

    Its message names both matrices, each as "rows x columns". Predict the two, in order.
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


def test_the_sum_of_two_bytes():
    """Each number fits into a byte (uint8), their sum does not. What comes out, in which dtype?"""
    x = torch.tensor([250, 20], dtype=torch.uint8)
    assert x.sum().item() == __
    assert x.sum().dtype is __


def test_the_mean_of_integers():
    """NumPy takes the mean of integers as floats. PyTorch refuses. With which exception?"""
    x = torch.tensor([1, 2, 4])
    with pytest.raises(Exception) as caught:
        x.mean()
    assert caught.type is __


def test_find_row_and_column_of_the_largest():
    """argmax() gives one number even for a matrix. Write `place`: the row and column it means."""

    def place(x):
        # your turn:
        __
        # end

    wide = torch.tensor([[1, 2, 3, 8], [9, 5, 6, 7]])
    for x in (wide, wide.t(), torch.tensor([[1, 2], [0, 4], [3, 0]])):
        row, column = place(x)
        assert x[row, column] == x.max()


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

    PyTorch's does not. Repair `middle` so that the two agree.
    """

    def middle(x):
        # your turn:
        return x.median()
        # end

    for numbers in ([10.0, 1.0, 3.0, 2.0], [4.0, 8.0, 90.0, 0.0, 5.0, 1.0], [7.0, 30.0, 9.0]):
        x = torch.tensor(numbers)
        assert middle(x).item() == np.median(x.numpy())


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
