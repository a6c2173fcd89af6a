"""The lint: each rule broken on purpose, one row per rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sensei.lint import check_book, check_chapter, check_see, mix, resolve
from sensei.parse import parse_chapter
from sensei.records import Chapter

GOOD = '''\
"""About counting.

Documents: A 1
"""

import collections

import pytest

from sensei import answer, koan


@koan(
    see="collections.Counter",
    hint=["Look closely.", "Count the letters."],
    why="Each letter counts once for each time it stands there.",
    wrong={"26": "That is the whole alphabet."},
    right=["2 + 1"],
    claims=["A-1-01"],
    aliases=["test_former"],
)
def test_count():
    """How many different letters are in this word?"""
    counter = collections.Counter("noon moon")
    del counter[" "]
    assert len(counter) == answer(3)


@koan(see="list", hint="h", why="w", wrong={"TypeError": "It is a list, and 7 a number."})
def test_refused():
    """Which exception?"""
    with pytest.raises(Exception) as caught:
        [].index(7)
    assert caught.type is answer(ValueError)


@koan(see="list", hint="h", why="w", wrong={"y = x[:1]": "One is not all."})
@pytest.mark.slow
def test_keep():
    """Repair the line."""
    x = [1, 2]
    # answer:
    y = list(x)
    # given:
    # y = x
    # end
    x.append(3)
    assert y == [1, 2]
'''
CLAIMS = {"A-1-01"}


def chapter_of(text: str, file: str = "test_01_small.py") -> Chapter:
    return parse_chapter(text, Path("answers/01_small") / file)


def said(text: str, claims: set[str] | None = CLAIMS) -> list[str]:
    return [str(offence) for offence in check_chapter(chapter_of(text), claims)]


def test_a_good_file_is_clean() -> None:
    assert said(GOOD) == []
    assert said(GOOD.replace("A-1-01", "A-9-99"), claims=None) == []  # a book without a ledger


LONG = "one\n    " * 61
COUNT = 'counter = collections.Counter("noon moon")\n'
BY = "test_count"
CAUGHT = """\
    with pytest.raises(Exception) as caught:
        [].index(7)
    assert caught.type is answer(ValueError)
"""
BLANK_RAISES = "    with pytest.raises(answer(ValueError)):\n        [].index(7)\n"
BLANK_FIRST = """\
    with pytest.raises(ValueError):
        [].index(answer(8))
        print(1)
"""


def above(text: str) -> tuple[str, str]:
    """An edit that puts something above the first koan."""
    return "@koan(\n", f"{text}\n\n\n@koan(\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # one koan
        ('"""How many different letters are in this word?"""', "pass", f"{BY}: it has no lesson"),
        ("How many", f"{LONG}How many", f"{BY}: the lesson has 69 words; 60 at most"),
        (COUNT, COUNT + "    print(1)\n" * 10, f"{BY}: the body has 13 lines; 12 at most for"),
        ("    x.append(3)\n", "    x.append(3)\n" * 23, "26 lines; 25 at most for this kind (repa"),
        ('wrong={"26": "That is the whole alphabet."}', "wrong={}", f"{BY}: wrong= is empty"),
        ('"Look closely.", ', '" ", ', f"{BY}: hint= is empty"),
        ('["Look closely.", "Count the letters."]', "[]", f"{BY}: hint= is empty"),
        ('"Each letter counts once for each time it stands there."', '""', f"{BY}: why= is empty"),
        ('"2 + 1"', '"(3)"', f"{BY}: right= holds the answer itself: (3)"),
        ('"26":', '" 3":', f"{BY}: wrong= holds the answer itself:  3"),
        ('right=["2 + 1"]', 'right=["13 * 2", "26"]', f"{BY}: 26 is both wrong and right"),
        ("Look closely.", "TODO", f"{BY}: there is a TODO left in it"),
        ('"noon moon"', '"TODO"', f"{BY}: there is a TODO left in it"),
        ('"2 + 1"', '"2 +"', f"{BY}: '2 +' is not Python"),
        ('"y = x[:1]"', '"y = = x"', "test_keep: 'y = = x' is not Python"),
        ("pytest.mark.slow", "pytest.mark.slwo", "test_keep: unknown mark slwo: one of benchmark"),
        (
            "mark.slow",
            "mark.needs(cuda=1)",
            "test_keep: needs() takes fork, package, pl",
        ),
        ("A-1-01", "A-9-99", f"{BY}: claim A-9-99 is not in the ledger"),
        ("def test_count():", "def test_count(gpu):", f"{BY}: unknown fixture gpu: one of bench"),
        ("def test_count():", "def test_count(tmp_path):", ""),
        # what gives the answer away
        ("How many", "Not 3 or 4? How many", ""),
        ("Look closely.", "Look 3 times.", f"{BY}: hint 1 holds the answer: 3"),
        ("Look closely.", "Look 13 times, at 3.5.", ""),
        ("whole alphabet", "alphabet, not 3", f"{BY}: the reason of a wrong answer holds the"),
        ("Which exception?", "Why a ValueError?", "the lesson holds the answer: ValueError"),
        ("test_refused", "test_ValueError", "test_ValueError: the name holds the answer: Value"),
        ("One is not all.", "Say y = list(x).", "test_keep: the reason of a wrong answer holds"),
        # the code of a koan
        (CAUGHT, BLANK_RAISES, "test_refused: no blank inside pytest.raises(): Exception would"),
        (CAUGHT, BLANK_FIRST, "test_refused: a blank under pytest.raises must stand in its last"),
        ("len(counter)", "3", f"{BY}: a constant on the other side: let PyTorch give the truth"),
        # the file
        (GOOD[:40], "", "the file has no docstring: say in one line what it is"),
        ("About counting.", "TODO: about", "there is a TODO left in the docstring of the file"),
        ("About counting.", "About counting. " * 7, "the line has 115 characters; 100 at most"),
        ("import pytest", "import math\nimport pytest", "math is imported and no given line uses"),
        ("import pytest", "from os import sep\nimport pytest", "sep is imported and no given line"),
        ("test_refused", "test_count", "test_count is defined twice"),
        ("def test_refused", "def refused", "refused: pytest collects names that start with tes"),
        (*above("def test_own():\n    pass"), "test_own has no @koan(...)"),
        (*above("class TestOwn:\n    pass"), "TestOwn: a koan is one plain function"),
        (*above("async def test_own():\n    pass"), "test_own: a koan is one plain function"),
        (*above("class Spy:\n    pass\n\n\ndef helper():\n    pass"), ""),
    ],
)
def test_each_rule(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    lines = said(GOOD.replace(old, new, 1))
    assert len(lines) == bool(expected), lines
    assert all(expected in line for line in lines), lines


def test_where_an_offence_stands() -> None:
    text = GOOD.replace("Look closely.", "3").replace(
        "import pytest\n", "import pytest\nimport os\n"
    )
    line = text[: text.index("def test_count")].count("\n") + 1
    assert said(text) == [
        f"answers/01_small/test_01_small.py:{line}: test_count: hint 1 holds the answer: 3",
        "answers/01_small/test_01_small.py:9: os is imported and no given line uses it: "
        "import it inside the answer, or not at all",
    ]


def test_a_file_ends_with_a_koan_to_repair_or_to_write() -> None:
    text = GOOD[: GOOD.index('\n\n@koan(see="list", hint="h", why="w", wrong={"y')]
    assert [line.split(": ", 1)[1] for line in said(text)] == [
        "test_refused ends the file: end with a koan to repair or to write"
    ]
    (alone,) = said('"""About nothing."""\n')
    assert alone.endswith(":1: the file holds no koan")


@pytest.mark.parametrize(
    ("secret", "text", "given_away"),
    [
        ("True", "Answer True or False.", False),
        ("True", "It is True.", True),
        ("None", "Nothing but None.", True),
        ("'strided'", "It is strided.", True),
        ("'strided'", "It is a strided-ish thing.", True),
        ("'strided'", "With strides.", False),
        ("collections.OrderedDict", "Some OrderedDict.", True),
        ("collections.OrderedDict", "Some collections.OrderedDict.", True),
        ("(2, 3)", "Of shape (2, 3).", True),
        ("(2, 3)", "2 rows of 3.", False),
    ],
)
def test_secrets(secret: str, text: str, given_away: bool) -> None:
    lines = said(GOOD.replace("answer(3)", f"answer({secret})").replace("Look closely.", text))
    assert bool(lines) is given_away
    assert all("test_count: hint 1 holds the answer" in line for line in lines)


# across files -------------------------------------------------------------------------------------


def book(*texts: str) -> list[str]:
    chapters = [chapter_of(text, f"test_{i:02}_x.py") for i, text in enumerate(texts, 1)]
    return [str(offence) for offence in check_book(chapters)]


def numbered(answers: Sequence[str], number: int = 0) -> str:
    """A file of koans that differ in a number, with these answers."""
    cards = [
        f'@koan(see="s", hint="h", why="w", wrong={{"9": "r"}})\ndef test_{i}():\n'
        f'    """Lesson."""\n    assert {number + i} == answer({source})\n'
        for i, source in enumerate(answers)
    ]
    return "\n\n".join(['"""About."""\n\nfrom sensei import answer, koan\n', *cards])


def test_at_most_one_coin_toss_in_eight() -> None:
    assert book(numbered(["7"] * 7 + ["True"])) == []
    (line,) = book(numbered(["7"] * 6 + ["True", "False"]))
    assert line.startswith("answers/01_small/test_01_x.py:49: test_7: 2 of 8 koans ask for a bare")
    assert "at most one in eight" in line
    assert book(numbered(["7"] * 7 + ["True"]), numbered(["7"] * 7 + ["False"], 8)) == []


def test_no_two_koans_with_the_same_code() -> None:
    (line,) = book(numbered(["7", "6"]), numbered(["5"]))
    assert line.startswith("answers/01_small/test_02_x.py:7: test_0: the same code as ")
    assert line.endswith("01_small/test_01_x.py::test_0")


def test_no_alias_is_the_name_of_a_koan() -> None:
    taken = GOOD.replace("test_former", "test_keep")
    (line,) = book(taken)
    assert line.endswith("test_count: alias test_keep is in use")
    assert book(GOOD) == []


def test_the_mix() -> None:
    assert mix([]) == {"predict": 0, "error": 0, "repair": 0, "write": 0}
    assert mix(chapter_of(GOOD).koans) == pytest.approx(
        {"predict": 1 / 3, "error": 1 / 3, "repair": 1 / 3, "write": 0}
    )


# see ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("see", "words"),
    [
        ("collections.Counter.most_common", ""),
        ("collections", ""),
        ("collections.Counted", "see: collections.Counted does not exist (collections has no Coun"),
        ("colections.Counter", "see: colections.Counter does not exist"),
        ("sensei.lint.MIX.x", "see: sensei.lint.MIX.x does not exist (sensei.lint has no x)"),
        ("sensei.lint._texts", "see: sensei.lint._texts has no docstring"),
        ("", "see: '' is not a dotted name, as torch.Tensor.view is"),
        (".lint", "see: '.lint' is not a dotted name"),
        ("the manual", "see: 'the manual' is not a dotted name"),
    ],
)
def test_see(see: str, words: str) -> None:
    koan = chapter_of(GOOD.replace("collections.Counter", see, 1)).koans[0]
    assert check_see(koan).startswith(words) and bool(check_see(koan)) == bool(words)


def test_resolve() -> None:
    assert resolve("sensei.lint.resolve") is resolve
