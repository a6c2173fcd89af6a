"""A typed subset of Python: what script understands, and when it says no."""

import io
import warnings

import pytest
import torch
from torch import nn

from sensei import __

# A file of TorchScript holds the name of the module, and cannot be read back if a part of that
# name begins with a digit, as the name of this folder does.
__name__ = "torchscript_koans"


@pytest.fixture(autouse=True)
def no_notes():
    """TorchScript is deprecated and says so at each call."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit")
        yield


def through_a_file(module):
    """Save a scripted module, and load it again."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


# Five functions for one koan. Nobody ever calls them.


def with_try(x):
    try:
        return x.reshape(2, 2)
    except RuntimeError:
        return x


def with_while(x):
    while x.sum() < 10:
        x = x * 2
    return x


def with_star(*parts):
    return parts[0]


def with_raise(x):
    if x.sum() < 0:
        raise ValueError("negative")
    return x


def with_text(x):
    print(f"the sum is {x.sum()}")
    return x


class Parts(nn.Module):
    """Methods that are reached in different ways."""

    def forward(self, x):
        return self.called(x)

    def called(self, x):
        return x + 1

    @torch.jit.export
    def marked(self, x):
        return self.below(x)

    def below(self, x):
        return x + 2

    @torch.jit.ignore
    def ignored(self, x):
        return x + 3

    def plain(self, x):
        return x + 4


@pytest.mark.needs(python="<3.14")
def test_what_a_bare_name_means():
    """In Python this works with any whole number. Scripted, it fails when it is called.

    Repair the marked lines.
    """

    # your turn:
    def grow(x, times):
        return x * times

    # end

    scripted = torch.jit.script(grow)
    assert scripted(torch.tensor([1.0, 2.0]), 3).tolist() == [3.0, 6.0]
    assert scripted(torch.tensor([1.0, 2.0]), -2).tolist() == [-2.0, -4.0]


@pytest.mark.needs(python="<3.14")
def test_one_more_than_the_largest():
    """The scripted function gets 2**63 - 1, and adds 1. What does it return?"""

    def next_one(n: int):
        return n + 1

    scripted = torch.jit.script(next_one)
    assert scripted(3) == next_one(3)
    assert scripted(2**63 - 1) == __


@pytest.mark.needs(python="<3.14")
def test_refused_before_it_runs():
    """Five small functions stand at the head of this file. They are scripted, and never called.

    Which ones are refused? Write their names, in the order of the file.
    """
    refused = []
    for function in (with_try, with_while, with_star, with_raise, with_text):
        try:
            torch.jit.script(function)
        except torch.jit.frontend.NotSupportedError:
            refused.append(function.__name__)
    assert refused == __


@pytest.mark.needs(python="<3.14")
def test_a_function_out_of_thin_air():
    """This function was made by exec. trace takes it, script does not. Which exception comes?"""
    names = {"__name__": "thin_air"}
    exec("def double(x):\n    return x * 2\n", names)
    traced = torch.jit.trace(names["double"], torch.ones(2))
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(Exception) as caught:
        torch.jit.script(names["double"])
    assert caught.type is __


@pytest.mark.needs(python="<3.14")
def test_which_methods_came_along():
    """The class `Parts` stands at the head of this file. It is scripted, saved and loaded again.

    Which methods has the scripted module, and which ones the loaded? Keep the order of `names`.
    """
    names = ["called", "marked", "below", "ignored", "plain"]
    scripted = torch.jit.script(Parts())
    loaded = through_a_file(scripted)
    assert [n for n in names if hasattr(scripted, n)] == __
    assert [n for n in names if hasattr(loaded, n)] == __


@pytest.mark.needs(python="<3.14")
def test_only_the_first_layers():
    """Write forward: x goes through the first `depth` layers, and the class can be scripted.

    `depth` is known only when it is called.
    """

    class Stack(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(size))

        def forward(self, x, depth: int):
            # your turn:
            __
            # end

    for size in (2, 4):
        model = Stack(size)
        scripted = torch.jit.script(model)
        start = expected = torch.ones(1, 2)
        for depth in range(size):
            assert torch.allclose(scripted(start, depth), expected)
            expected = model.layers[depth](expected)
        assert torch.allclose(scripted(start, size), expected)


@pytest.mark.needs(python="<3.14")
def test_what_python_does_not_mind():
    """Good Python, and script refuses it, for three reasons. Repair forward: the same results, and
    it compiles.

    In Python the 0 has no shape; here it takes the shape of x.
    """

    class Damped(nn.Module):
        offset: torch.Tensor | None

        def __init__(self, offset):
            super().__init__()
            self.offset = offset

        # your turn:
        def forward(self, x):
            diary = []
            if self.offset is not None:
                x = x + self.offset
            while x.sum() > 8:
                x = x / 2
                diary.append("halved")
            if x.sum() < 0:
                y = 0
            else:
                y = x
            return y, diary

        # end

    for offset, x, expected, diary in (
        (None, [16.0, 8.0], [4.0, 2.0], ["halved", "halved"]),
        (None, [1.0, -3.0, 1.0], [0.0, 0.0, 0.0], []),
        (torch.tensor([2.0, 4.0]), [-3.0, 1.0], [-1.0, 5.0], []),
    ):
        y, notes = through_a_file(torch.jit.script(Damped(offset)))(torch.tensor(x))
        assert (y.tolist(), notes) == (expected, diary)
