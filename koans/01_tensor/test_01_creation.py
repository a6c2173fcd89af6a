"""Creation: what you hand in, and what you get."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from sensei import __


def test_a_new_number_in_an_old_box():
    """Welcome. In a Python list, the first element would now be 2.7. And here?

    Put the list that you expect in place of the blank, and run. A wrong guess costs nothing:
    PyTorch itself tells you "not yet".
    """
    x = torch.tensor([10, 20, 30])
    x[0] = 2.7
    assert x.tolist() == __


def test_three_elements_four_times():
    """Three elements each time. How many bytes does each tensor take?"""
    sources = [
        [True, False, True],
        [1, 2, 3],
        [1.0, 2.0, 3.0],
        np.array([1.0, 2.0, 3.0]),
    ]
    assert [torch.tensor(source).nbytes for source in sources] == __


def test_one_capital_letter():
    """The same 3, given to both. Which shapes come out?

    And which dtypes, when the 3 stands in a list?
    """
    assert [tuple(torch.tensor(3).shape), tuple(torch.Tensor(3).shape)] == __
    assert [torch.tensor([3]).dtype, torch.Tensor([3]).dtype] == __


def test_who_makes_a_tensor():
    """Some say torch.tensor calls a constructor in Python, and torch.Tensor one in C++.

    Python can tell what a thing is. Name both, in the words that `kind` uses.
    """

    def kind(thing):
        if inspect.isclass(thing):
            return "class"
        return "Python function" if inspect.isfunction(thing) else "compiled function"

    assert [kind(torch.tensor), kind(torch.Tensor)] == __


def test_numbers_that_are_still_words():
    """These numbers come from a text file. Which exception do you get?"""
    words = "3 1 4".split()
    with pytest.raises(Exception) as caught:
        torch.tensor(words)
    assert caught.type is __


def test_one_follows_and_one_remembers():
    """Make two tensors from `readings`. `live` and the array see each other's changes.

    `kept` stays as it is at this moment.
    """
    for first in (1.0, 7.0):
        readings = np.array([first, 2.0, 3.0])
        # your turn:
        __
        # end
        assert type(live) is type(kept) is torch.Tensor
        readings[0] = 100.0
        live[2] = 300.0
        assert live.tolist() == readings.tolist() == [100.0, 2.0, 300.0]
        assert kept.tolist() == [first, 2.0, 3.0]


def test_an_array_at_the_door_of_a_layer():
    """The layer refuses this array. Repair the marked line, and leave the layer as it is."""
    data = np.array([[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]])
    layer = nn.Linear(3, 1)
    # your turn:
    x = torch.from_numpy(data)
    # end
    assert tuple(layer(x).shape) == (2, 1)
    assert layer.weight.dtype is torch.float32
    assert x.tolist() == data.tolist()


def test_a_ramp_like_x():
    """zeros_like(x) takes its shape and its dtype from x. A ramp should do the same.

    It goes up from start by step, and has as many numbers as x. Repair the marked line.
    """

    def ramp_like(x, start, step):
        # your turn:
        return torch.arange(start, start + step * len(x), step)
        # end

    narrow, wide = torch.zeros(3), torch.ones(5, dtype=torch.float64)
    for x, start, step in [(narrow, 1, 0.1), (wide, 0, 2), (narrow, 5, 1)]:
        ramp = ramp_like(x, start, step)
        assert ramp.shape == x.shape
        assert ramp.dtype is x.dtype
        assert ramp.tolist() == pytest.approx([start + step * i for i in range(len(x))])
