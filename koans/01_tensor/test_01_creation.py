"""Creation: what you hand in, and what you get."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from sensei import __


@pytest.mark.tour(15)
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
    """Some say torch.tensor and torch.Tensor are two very different things.

    (In these koans, some sayings are true and some are not.) Give the same 3 to both: which
    shapes come out? And which dtypes, when the 3 stands in a list?
    """
    assert [tuple(torch.tensor(3).shape), tuple(torch.Tensor(3).shape)] == __
    assert [torch.tensor([3]).dtype, torch.Tensor([3]).dtype] == __


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
    """The layer refuses such arrays. Repair the marked line, and leave the layer as it is."""
    layer = nn.Linear(3, 1)
    for rows in ([[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]], [[6.5, 7.5, 8.5]]):
        data = np.array(rows)
        # your turn:
        x = torch.from_numpy(data)
        # end
        assert tuple(layer(x).shape) == (len(rows), 1)
        dtypes = [x.dtype, layer.weight.dtype]
        assert dtypes == [torch.float32, torch.float32]
        assert x.tolist() == rows


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
    assert names == __


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
        assert len(ramp) == len(x)
        assert ramp.dtype is x.dtype
        assert ramp.tolist() == pytest.approx([start + step * i for i in range(len(x))])
