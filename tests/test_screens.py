"""Whole screens, compared as text: what a learner reads after each kind of step."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import pytest

from sensei.message import other_form
from sensei.paint import paint
from sensei.report import GroupCount, path_map
from tests.desk import SMALL, Desk

MakeDesk = Callable[..., Desk]


def screen(made: Desk, *arguments: str, env: dict[str, str] | None = None) -> str:
    """What sensei drew: from the map to the end of the card."""
    output = made.pytest("koans", *arguments, env=env).stdout
    start = re.search(r"^01_small  ", output, re.M)
    assert start is not None, output
    text = output[start.start() :].rsplit("\n\n\n", 1)[0]
    return "\n".join(line.rstrip() for line in text.split("\n")) + "\n"


def test_open_predict(desk: MakeDesk) -> None:
    assert (
        screen(desk())
        == """\
01_small  ░░░░░░░░░░░░░░░░░░░░  0/4

your next koan ─────────────────────────────────────────────────────────────────
koans/01_small/test_01_small.py:12  open
test_shape

Two lists of three numbers. Which shape?

  11 x = torch.tensor([[1, 2, 3], [4, 5, 6]])
❱ 12 assert tuple(x.shape) == __

Put what you believe in place of __ . Save, and run the same command again.
Stuck? `koans hint` helps in steps; `koans docs` opens the manual.
"""
    )


def test_a_known_myth(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(3, 2)"]})
    assert (
        screen(made)
        == """\
01_small  ░░░░░░░░░░░░░░░░░░░░  0/4

your next koan ─────────────────────────────────────────────────────────────────
koans/01_small/test_01_small.py:12  not yet
test_shape

Two lists of three numbers. Which shape?

  11 x = torch.tensor([[1, 2, 3], [4, 5, 6]])
❱ 12 assert tuple(x.shape) == (3, 2)

You said:
    (3, 2)
PyTorch says: not yet.
Rows come first.
Stuck? `koans hint` helps in steps; `koans docs` opens the manual.
"""
    )


def below_the_code(text: str) -> str:
    """The card from "You said:" on."""
    return text[text.index("You said:") :]


def test_unknown_answers_earn_one_hint_more_each_time_they_change(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(6, 1)"]})
    first = """\
You said:
    (6, 1)
PyTorch says: not yet.
A hint:
    Look at the brackets.
Stuck? `koans hint` helps in steps; `koans docs` opens the manual.
"""
    assert below_the_code(screen(made)) == first
    assert below_the_code(screen(made)) == first
    made.solve({"test_shape": ["(1, 6)"]})
    assert below_the_code(screen(made)) == first.replace("(6, 1)", "(1, 6)").replace(
        "Look at the brackets.", "Count the numbers in each bracket."
    )


def test_the_other_side(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["tuple(x.shape)"]})
    assert (
        below_the_code(screen(made))
        == """\
You said:
    tuple(x.shape)
PyTorch says: not yet.
You asked PyTorch to agree with itself: your answer is made from what it is
compared with. Write down the value that you expect.
"""
    )


def test_a_name_that_does_not_exist(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["size(2, 3)"]})
    assert "Python cannot read your answer: NameError: name 'size' is not defined" in screen(made)


def test_solved_with_its_reason_then_the_next(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["RuntimeError"]})
    assert (
        screen(made)
        == """\
01_small  ██████████░░░░░░░░░░  2/4

solved test_shape
  Two rows of three.
solved test_refused
  The numbers must fit.

your next koan ─────────────────────────────────────────────────────────────────
koans/01_small/test_01_small.py:27  open
test_keep_the_old

Repair the marked line, so that y keeps the old numbers.

  25 x = torch.zeros(2)
  26 # your turn:
❱ 27 y = x
  28 # end
  29 x += 1
  30 assert y.tolist() == [0.0, 0.0]

As it stands, PyTorch says:
    line 30: assert y.tolist() == [0.0, 0.0]
    AssertionError: assert [1.0, 1.0] == [0.0, 0.0]
      At index 0 diff: 1.0 != 0.0

Change the lines under `# your turn:`. Save, and run the same command again.
Stuck? `koans hint` helps in steps.
"""
    )
    assert "solved test_shape" not in screen(made)  # only once


def test_a_repair_that_does_not_hold_shows_the_real_error(desk: MakeDesk) -> None:
    made = desk()
    made.solve(
        {"test_shape": ["(2, 3)"], "test_refused": ["RuntimeError"], "test_keep_the_old": ["y = z"]}
    )
    text = screen(made)
    assert "line 27: y = z\n    NameError: name 'z' is not defined" in text
    assert "Two names, one memory." not in text  # the error says all that is to say


def test_all_solved(desk: MakeDesk) -> None:
    made = desk()
    made.solve({koan.name: koan.answers for koan in made.book.koans})
    screen(made)
    assert (
        screen(made)
        == """\
01_small  ████████████████████  4/4

────────────────────────────────────────────────────────────────────────────────
Every koan of this run is solved. Well walked.
"""
    )


def test_the_mark_stands_on_the_blank_that_failed(desk: MakeDesk) -> None:
    made = desk(TWO_BLANKS)
    made.solve({"test_sides": ["2", "4"]})
    assert "❱ 12 assert x.shape[1] == 4" in screen(made)
    made.solve({"test_sides": ["3", "3"]})
    assert "❱ 11 assert x.shape[0] == 3" in screen(made)


TWO_BLANKS = '''\
"""Two blanks."""

import torch

from sensei import answer, koan


@koan(see="torch.zeros", hint="h", why="w", wrong={("1", "2"): "r"})
def test_sides():
    """How many rows, how many columns?"""
    x = torch.zeros(2, 3)
    assert x.shape[0] == answer(2)
    assert x.shape[1] == answer(3)
'''


@pytest.mark.parametrize(
    ("said", "answer", "words"),
    [
        ("(1, 2)", "[2, 1]", "a list is asked for here, and this is a tuple"),
        ("3", "(3,)", "a tuple is asked for here, and this is a number"),
        ("'int64'", "torch.int64", "without quotes"),
        ("'ValueError'", "ValueError", "without quotes"),
        ("5", "'leaf'", "a text in quotes is asked for here, and this is a number"),
        ("3.5", "3", ""),
        ("'None'", "None", ""),
        ("3", "None", ""),
        ("[1]", "[2]", ""),
        ("torch.zeros(2)", "[2]", ""),
        ("None", "[0.0]", ""),
        ("[(1, 0)]", "[[0, 1]]", "a list is asked for here, and this is a tuple"),
        ("torch.tensor([1.0])", "[2.0]", "a list is asked for here, and this is a tensor"),
        ("[32, 16]", "[32, 'refused']", ""),
        ("RuntimeError()", "TypeError", "without calling it"),
        ("torch.int64", "torch.int32", ""),
    ],
)
def test_a_slip_in_the_form(said: str, answer: str, words: str) -> None:
    found = other_form(said, answer)
    assert words in found and bool(found) == bool(words)


def test_a_syntax_error_shows_its_own_lines_and_no_other_koan(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"]})
    made.edit("assert caught.type is __", "assert caught.type is ((")
    text = screen(made)
    assert "❱ 20     assert caught.type is ((" in text
    assert "Which shape" not in text and "was never closed" in " ".join(text.split())


def test_what_was_solved_and_is_no_more(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"]})
    screen(made)
    made.solve({})
    assert "Solved before, not now: 01_small/test_01_small.py::test_shape" in screen(made)


def test_altered(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"]})
    made.edit("[4, 5, 6]]", "[4, 5, 7]]")
    text = " ".join(screen(made).split())
    assert "koans/01_small/test_01_small.py:11: the given line" in text
    assert "`koans reset 01_small/test_01_small.py::test_shape` puts this koan back" in text


def test_what_a_learner_prints_is_shown(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(6, 1)"]})
    made.edit("    assert tuple", "    print('sum', x.sum().item())\n    assert tuple")
    assert "It printed:\n    sum 21\n" in screen(made)


def test_other_groups_show_their_last_known_count(desk: MakeDesk) -> None:
    made = desk()
    from sensei.workbook import write

    text = (made.root / "answers" / made.key).read_text()
    write(made.root / "answers" / "02_more" / "test_01_more.py", text)
    made.solve({koan.name: koan.answers for koan in made.book.chapter(made.key).koans})
    made.solve({}, "02_more/test_01_more.py")
    made.pytest("koans/01_small")
    output = made.pytest("koans/02_more").stdout
    assert "01_small  ████████████████████  4/4  last seen" in output
    assert "02_more   ░░░░░░░░░░░░░░░░░░░░  0/4" in output


def test_only_blanks_are_marked_not_dunder_names(desk: MakeDesk) -> None:
    made = desk(TWO_BLANKS.replace("    x = torch", "    assert x_.__len__\n    x = torch"))
    text = screen(made)
    assert "❱ 12" in text and "❱ 13" in text and "❱ 10" not in text


def test_quiet(desk: MakeDesk) -> None:
    made = desk()
    assert "░" not in made.pytest("koans", "-q").stdout
    output = made.pytest("koans", "-qq").stdout
    assert "koans/01_small/test_01_small.py:9: open" in output and "Which shape" not in output


def test_a_plain_terminal_gets_plain_signs(desk: MakeDesk) -> None:
    made = desk()
    text = screen(made, env={"PYTHONIOENCODING": "ascii"})
    assert text.startswith("01_small  ....................  0/4\n\nyour next koan ------")
    assert "> 12 assert tuple(x.shape) == __" in text


def test_of_two_blanks_the_open_one_is_named(desk: MakeDesk) -> None:
    made = desk(TWO_BLANKS)
    made.solve({"test_sides": ("2", "__")})
    text = screen(made)
    assert "test_01_small.py:12  open" in text
    assert "place of __ ." in text


def test_what_was_tried_elsewhere_is_named_above_the_card(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_twos": ("y = torch.ones(3)",)})
    text = screen(made)
    assert "not yet  koans/01_small/test_01_small.py::test_twos" in text
    assert text.index("test_twos") < text.index("your next koan")
    assert "test_shape" in text.split("your next koan")[1]
    made.solve({"test_shape": ("(2, 2)",)})
    assert "::test_shape" not in screen(made)  # it has the card


def test_a_narrow_terminal_keeps_the_numbers() -> None:
    groups = [
        GroupCount("06_pitfalls", 3, 0, 102),
        GroupCount("08_torchscript", 7, 16, 77),
        GroupCount("10_deployment", 28, 0, 28, seen=False),
    ]
    out = StringIO()
    paint(out, [path_map(groups)], width=40, colour=False)
    assert out.getvalue() == (
        "06_pitfalls     █░░░░░  3/102\n"
        "08_torchscript  █░░░░░   7/61  16 asleep\n"
        "10_deployment   ██████  28/28  last seen\n"
    )


def test_a_pair_without_brackets_is_told_apart_from_an_edit(desk: MakeDesk) -> None:
    made = desk()
    made.edit("== __", "== 2, 3")
    text = screen(made)
    assert "altered" in text and "Put ( ) around a pair" in " ".join(text.split())
    made.edit("x.shape) == 2, 3", "x.size()) == 2, 3")
    assert "altered" in screen(made)


def test_a_region_left_empty_is_told_by_its_line(desk: MakeDesk) -> None:
    nested = SMALL.replace(
        "    # answer:\n    y = torch.full((3,), 2.0)\n    # end\n",
        "    def make():\n        # answer:\n        return torch.full((3,), 2.0)\n"
        "        # end\n\n    y = make()\n",
    ).replace('"y = torch.ones(3)"', '"return torch.ones(3)"')
    made = desk(nested.replace('["y = torch.ones(3) * 2"]', '["return torch.ones(3) * 2"]'))
    made.edit("        # your turn:\n        __\n", "        # your turn:\n\n        # how?\n")
    text = screen(made)
    assert "nothing stands under this line" in " ".join(text.split())
