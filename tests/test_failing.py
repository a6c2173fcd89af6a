"""A word for the given line that says no: found by the line, whatever the spelling."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sensei.failing import bare, statement_at, word_for
from tests.desk import SMALL, Desk

TEXT = '''\
def test_two():
    """Two questions."""
    x = make()
    # your turn:
    y = x + missing
    # end
    assert y.sum() == 3
    with pytest.raises(
        ValueError
    ):
        y.backward(retain_graph=True,
                   inputs=[x],)
'''
AT = {"y.sum()": "the sum", "retain_graph=True, inputs=[x]": "the walk"}


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ([7], "the sum"),
        ([11], "the walk"),
        ([12], "the walk"),  # a line in the middle of the statement
        ([3], ""),  # nothing is said of it
        ([5], ""),  # the learner's own line
        ([7, 5], ""),  # called there, and raised in the learner's lines
        ([99], ""),
        ([], ""),
    ],
)
def test_the_innermost_line_decides(lines: list[int], word: str) -> None:
    assert word_for(AT, TEXT, "test_two", lines) == word


def test_a_word_that_could_mean_two_lines_is_not_said() -> None:
    assert word_for({"y": "which?", "sum": "which?"}, TEXT, "test_two", [7]) == ""


def test_of_a_compound_statement_only_its_head() -> None:
    assert statement_at(TEXT, "test_two", 9) == "withpytest.raises(ValueError):"
    assert statement_at("def broken(:", "broken", 1) == ""
    assert statement_at(TEXT, "test_other", 7) == ""


def test_what_a_formatter_changes_does_not_count() -> None:
    assert bare("f(a,\n  [b,],\n)") == bare("f(a, [b])")


TWO = SMALL.replace(
    '''    right=["torch.Size([2, 3])"],
)
def test_shape():
    """Two lists of three numbers. Which shape?"""
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert tuple(x.shape) == answer((2, 3))
''',
    '''    at={"x.shape": "Look at the brackets.", "x.stride": "How far is it to the next row?"},
)
def test_shape():
    """Two lists of three numbers. Which shape, and which strides?"""
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert tuple(x.shape) == answer((2, 3))
    assert x.stride() == answer((3, 1))
''',
).replace('wrong={"(3, 2)": "Rows come first."},', 'wrong={("(3, 2)", "(3, 1)"): "Rows first."},')


def test_each_of_two_blanks_has_its_word(desk: Callable[..., Desk]) -> None:
    made = desk(TWO)
    made.solve({"test_shape": ("(7, 7)", "(3, 1)")})
    first = made.pytest("koans").stdout
    assert "Look at the brackets." in first and "next row" not in first
    made.solve({"test_shape": ("(2, 3)", "(1, 3)")})
    second = made.pytest("koans").stdout
    assert "How far is it to the next row?" in second and "brackets" not in second
    made.solve({"test_shape": ("(3, 2)", "(3, 1)")})
    assert "Rows first." in made.pytest("koans").stdout


WRITE = SMALL.replace(
    'right=["y = torch.ones(3) * 2"],',
    'right=["y = torch.ones(3) * 2"],\n    at={"== [2.0": "Twos?"},',
)


def test_a_name_that_is_not_there_gets_no_hint_on_pytorch(desk: Callable[..., Desk]) -> None:
    made = desk(WRITE)
    made.solve({"test_twos": ("y = missing",)})
    said = made.pytest("koans/01_small/test_01_small.py::test_twos").stdout
    assert "NameError" in said and "A hint:" not in said
    made.solve({"test_twos": ("y = torch.zeros(3)",)})
    assert "Twos?" in made.pytest("koans/01_small/test_01_small.py::test_twos").stdout
