"""What counts as an answer, and what as a change of the koan: one row per case."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensei.book import Book, packaged_root
from sensei.compare import FileReading, read_copy
from sensei.parse import parse_chapter
from sensei.records import Chapter
from sensei.trees import same_answer
from sensei.workbook import fill

BOOK = '''\
"""A file."""

import pytest
import torch

from sensei import answer, koan


class Spy:
    def __init__(self):
        self.calls = 0


@koan(see="torch.tensor", hint="h", why="w", wrong={"3": "r"})
def test_predict():
    """Lesson."""
    x = torch.tensor([1, 2])
    y = x * 2
    assert y.sum().item() == answer(6)


@koan(see="torch.tensor", hint="h", why="w", wrong={("1", "2"): "r"})
def test_two_blanks():
    """Lesson."""
    x = torch.zeros(2, 3)
    assert x.shape[0] == answer(2)
    assert x.shape[1] == answer(3)


@koan(see="torch.Tensor.clone", hint="h", why="w", wrong={"y = x[:]": "r"})
def test_repair():
    """Lesson."""
    x = torch.zeros(2)
    # answer:
    y = x.clone()
    # given:
    # y = x
    # end
    x += 1
    assert y.tolist() == [0.0, 0.0]


@koan(see="torch.full", hint="h", why="w", wrong={"return 1": "r"})
def test_write():
    """Lesson."""
    spy = Spy()

    def double(value):
        spy.calls += 1
        # answer:
        return value * 2
        # end

    assert double(2) == 4
    assert spy.calls == 1


@koan(see="torch.Tensor.size", hint="h", why="w", wrong={"x.numel()": "r"})
def test_names_a_local():
    """Lesson."""
    x = torch.zeros(2, 3)
    assert x.shape == answer(x.size())
'''


@pytest.fixture(scope="module")
def chapter() -> Chapter:
    return parse_chapter(BOOK, Path("01_small/test_01_small.py"))


def read(chapter: Chapter, *edits: tuple[str, str], solved: bool = True) -> FileReading:
    answers = {koan.name: koan.answers for koan in chapter.koans} if solved else {}
    text = fill(chapter, answers)
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return read_copy(text, chapter)


def test_the_solved_book_is_filled_with_its_own_answers(chapter: Chapter) -> None:
    reading = read(chapter)
    assert {name: r.state for name, r in reading.koans.items()} == {
        koan.name: "filled" for koan in chapter.koans
    }
    assert {name: r.said for name, r in reading.koans.items()} == {
        koan.name: koan.answers for koan in chapter.koans
    }
    assert reading.same_module
    assert not any(r.agrees_with_itself or r.leaves_early for r in reading.koans.values())


SUM = "assert y.sum().item() == 6"


@pytest.mark.parametrize(
    "new",
    [
        "assert y.sum().item() == 6  # I think",
        "assert (y.sum().item() == 6)",
        "assert y.sum().item() == (\n        6\n    )",
        "print(x)\n    assert y.sum().item() == 6",
        "import math\n    assert y.sum().item() == 6",
        "z = x + 1\n    a, b = 1, 2\n    assert y.sum().item() == 6",
        "for value in x:\n        print(value)\n    assert y.sum().item() == 6",
        "assert x.dtype\n    assert y.sum().item() == 6",
        "def helper():\n        return 3\n    assert y.sum().item() == 6",
        "breakpoint()\n    assert y.sum().item() == 6",
    ],
)
def test_welcome_beside_an_answer(chapter: Chapter, new: str) -> None:
    assert read(chapter, (SUM, new)).koans["test_predict"].state == "filled"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (SUM, "pass", "is missing or was edited"),
        (SUM, "assert y.sum().item() == 6 or True", "was edited"),
        (SUM, "assert y.sum().item() != 6", "was edited"),
        (SUM, f"if False:\n        {SUM}", "is missing or was edited"),
        ("y = x * 2", "y = x * 3", "was edited"),
        ("y = x * 2", "y = x * 2\n    y = 6", "`y` is given"),
        ("y = x * 2", "y = x * 2\n    y += 1", "was added outside the blank"),
        ("y = x * 2", "y = x * 2\n    y[0] = 4", "changes something that was given"),
        ("y = x * 2", "y = x * 2\n    y.data = x", "changes something that was given"),
        ("y = x * 2", "y = x * 2\n    return", "`return` was added"),
        ("y = x * 2", "y = x * 2\n    raise ValueError", "`raise` was added"),
        ("y = x * 2", "y = x * 2\n    yield", "`yield` was added"),
        ("y = x * 2", "y = x * 2\n    if x is not None:\n        return", "`return` was added"),
        ("y = x * 2", "y = x * 2\n    torch = None", "`torch` is given"),
        ("y = x * 2", "y = x * 2\n    import numpy as torch", "`torch` is given"),
        ("def test_predict():", "def test_predict(tmp_path):", "other arguments"),
        ("def test_predict():", "@pytest.mark.skip\ndef test_predict():", "decorators"),
        ("== 6", "== (x := 6)", "`x` is given"),
    ],
)
def test_altered(chapter: Chapter, old: str, new: str, words: str) -> None:
    reading = read(chapter, (old, new)).koans["test_predict"]
    assert reading.state == "altered"
    assert words in reading.detail
    assert reading.line


def test_altered_inside_a_helper_of_the_test(chapter: Chapter) -> None:
    reading = read(chapter, ("spy.calls += 1", "spy.calls += 2")).koans["test_write"]
    assert reading.state == "altered" and "spy.calls += 1" in reading.detail


USE_TORCH = {"test_predict", "test_two_blanks", "test_repair", "test_names_a_local"}


@pytest.mark.parametrize(
    ("old", "new", "hurt"),
    [
        ("import torch\n", "", USE_TORCH),
        ("import pytest\n", "", set()),
        ("from sensei import __\n", "", set()),
        ("import pytest\nimport torch\n", "import torch\nimport pytest\n", set()),
        ("self.calls = 0", "self.calls = 1", {"test_write"}),
        ("class Spy:", "torch = 3\n\n\nclass Spy:", USE_TORCH),
    ],
)
def test_what_stands_around_the_koans(chapter: Chapter, old: str, new: str, hurt: set[str]) -> None:
    reading = read(chapter, (old, new))
    assert {name for name, r in reading.koans.items() if r.state == "altered"} == hurt


def test_additions_to_the_module_are_seen(chapter: Chapter) -> None:
    assert not read(chapter, ("class Spy:", "import os\n\n\nclass Spy:")).same_module
    reading = read(chapter, ("class Spy:", "def test_mine():\n    pass\n\n\nclass Spy:"))
    assert reading.extras == ("test_mine",)
    assert {r.state for r in reading.koans.values()} == {"filled"}


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("== 6", "== __", "test_predict"),
        ("== 6", "== [__]", "test_predict"),
        ("x.shape[0] == 2", "x.shape[0] == __", "test_two_blanks"),
        ("y = x.clone()", "y = x", "test_repair"),
        ("y = x.clone()", "y = (x)  # still", "test_repair"),
        ("return value * 2", "__", "test_write"),
        ("return value * 2", "return __", "test_write"),
    ],
)
def test_open(chapter: Chapter, old: str, new: str, name: str) -> None:
    assert read(chapter, (old, new)).koans[name].state == "open"


def test_missing_and_twice(chapter: Chapter) -> None:
    text = fill(chapter, {})
    renamed = read_copy(text.replace("def test_predict", "def test_predicted"), chapter)
    assert renamed.koans["test_predict"].state == "missing"
    assert renamed.extras == ("test_predicted",)
    twice = read_copy(text + "\n\ndef test_predict():\n    pass\n", chapter)
    assert twice.koans["test_predict"].state == "twice"
    assert " and " in twice.koans["test_predict"].detail


@pytest.mark.parametrize(
    ("said", "agrees"),
    [
        ("y.sum().item()", True),
        ("x.sum().item() * 2", True),
        ("sum(x.tolist()) * 2", True),
        ("eval('6')", True),
        ("torch.tensor([1, 2]).sum().item() * 2", False),
        ("sum([2 * i for i in (1, 2)])", False),
        ("3 + 3", False),
    ],
)
def test_agreeing_with_itself(chapter: Chapter, said: str, agrees: bool) -> None:
    reading = read(chapter, ("== 6", f"== {said}")).koans["test_predict"]
    assert reading.agrees_with_itself is agrees


@pytest.mark.parametrize(
    ("extra", "agrees"),
    [
        ("mine = y.sum().item()", True),
        ("half = x.sum()\n    mine = half.item() * 2", True),
        ("mine = 6", False),
        ("mine = torch.tensor([2, 4]).sum().item()", False),
    ],
)
def test_agreeing_with_itself_through_a_line_of_ones_own(
    chapter: Chapter, extra: str, agrees: bool
) -> None:
    reading = read(chapter, (SUM, f"{extra}\n    {SUM.replace('6', 'mine')}"))
    assert reading.koans["test_predict"].state == "filled"
    assert reading.koans["test_predict"].agrees_with_itself is agrees


@pytest.mark.parametrize("word", ["continue", "break"])
def test_a_region_that_jumps_over_the_rest(word: str) -> None:
    text = BOOK.replace("    x = torch.zeros(2)\n    # answer", "    # answer")
    text = text.replace(
        """    # answer:
    y = x.clone()
    # given:
    # y = x
    # end
    x += 1
    assert y.tolist() == [0.0, 0.0]
""",
        """    for x in (torch.zeros(2), torch.ones(2)):
        # answer:
        y = x.clone()
        # given:
        # y = x
        # end
        x += 1
        assert y.tolist() != x.tolist()
""",
    )
    looped = parse_chapter(text, Path("01_small/test_01_small.py"))
    copy = fill(looped, {"test_repair": [word]})
    assert read_copy(copy, looped).koans["test_repair"].leaves_early
    fine = fill(looped, {"test_repair": [f"y = x.clone()\nif y is None:\n    {word}"]})
    assert not read_copy(fine, looped).koans["test_repair"].leaves_early


def test_an_extra_test_with_a_blank_is_not_run(chapter: Chapter) -> None:
    text = fill(chapter, {}) + "\n\ndef test_old():\n    assert torch.ones(1) == __\n"
    reading = read_copy(text, chapter)
    assert reading.extras == ("test_old",) and reading.open_extras == ("test_old",)


def test_an_answer_that_names_a_local_where_the_book_does_is_fine(chapter: Chapter) -> None:
    assert not read(chapter).koans["test_names_a_local"].agrees_with_itself
    same = read(chapter, ("== x.size()", "== x.shape")).koans["test_names_a_local"]
    assert same.agrees_with_itself


def test_leaving_early(chapter: Chapter) -> None:
    early = read(chapter, ("y = x.clone()", "y = x\n    return")).koans["test_repair"]
    assert early.state == "filled" and early.leaves_early
    inner = read(chapter).koans["test_write"]
    assert not inner.leaves_early


@pytest.mark.parametrize(
    "region",
    [
        "y = x.clone()",
        "y = x + 0",
        "y = torch.zeros(2)\n    y.copy_(x)",
        "from copy import copy\n    y = copy(x)\n    y = y.clone()",
        "x = x.clone()\n    y = x + 0",
        "with torch.no_grad():\n        y = x.clone()",
    ],
)
def test_anything_may_stand_in_a_region(chapter: Chapter, region: str) -> None:
    reading = read(chapter, ("y = x.clone()", region)).koans["test_repair"]
    assert reading.state == "filled"
    assert reading.said[0].split("\n")[0] == region.split("\n")[0]


def test_a_region_may_end_like_the_given_line_after_it(chapter: Chapter) -> None:
    reading = read(chapter, ("y = x.clone()", "y = x\n    x += 1")).koans["test_repair"]
    assert reading.state == "filled" and reading.said == ("y = x\nx += 1",)


def test_markers_are_only_for_the_eye(chapter: Chapter) -> None:
    text = fill(chapter, {koan.name: koan.answers for koan in chapter.koans})
    lines = [line for line in text.split("\n") if not line.strip().startswith("#")]
    reading = read_copy("\n".join(lines), chapter)
    assert {r.state for r in reading.koans.values()} == {"filled"}


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"def f(:\n", 1, "invalid syntax"),
        (b"x = 1\n\xff\n", 2, "not UTF-8"),
        (b"x = 1\ny = '\0'\n", 2, "NUL"),
        (b"if True:\n\tx = 1\n        y = 2\n", 3, "inconsistent use of tabs"),
        (b"(" * 5000 + b")" * 5000, 1, "nested"),
    ],
)
def test_a_file_that_is_not_python(chapter: Chapter, data: bytes, line: int, words: str) -> None:
    reading = read_copy(data, chapter)
    assert reading.error_line == line
    assert words in reading.error
    assert reading.koans == {}


def test_line_ends_and_a_byte_order_mark_do_not_matter(chapter: Chapter) -> None:
    text = fill(chapter, {})
    for data in (text.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + text.encode()):
        assert {r.state for r in read_copy(data, chapter).koans.values()} == {"open"}
    assert {r.state for r in read_copy(b"", chapter).koans.values()} == {"missing"}


@pytest.mark.parametrize(
    ("mine", "other", "same"),
    [
        ("'a'", '"a"', True),
        ("[1, 2]", "[ 1,2 ]", True),
        ("[1.0]", "[1]", True),
        ("(1, 2)", "[1, 2]", False),
        ("y=x", "y = x", True),
        ("1 +", "1", False),
        ("torch.int64", "torch.long", False),
    ],
)
def test_same_answer(mine: str, other: str, same: bool) -> None:
    assert same_answer(mine, other) is same


def test_a_region_that_was_emptied_in_a_body() -> None:
    """Python speaks of an indented block; the learner of the lines they took out."""
    text = "def test_a():\n    def f():\n        # your turn:\n        # end\n    assert f()\n"
    chapter = next(iter(Book(packaged_root()).chapters))
    reading = read_copy(text, chapter)
    assert reading.error_line == 3 and "write at least one line" in reading.error
    reading = read_copy(text.replace("# end", "(\n        # end"), chapter)
    assert "at least one line" not in reading.error
