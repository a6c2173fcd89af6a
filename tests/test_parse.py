"""From an answers file to records and to the learner's text; and what a file may not hold."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sensei.parse import parse_chapter, read_chapter
from sensei.records import BookError, Chapter, Mark, Slot

PATH = Path("answers/01_small/test_01_small.py")
CARD = '@koan(see="s", hint="h", why="w", wrong={"3": "r"})'
HEAD = '"""About."""\n\nfrom sensei import answer, koan\n\n\n'


def parse(text: str) -> Chapter:
    return parse_chapter(text, PATH)


def koan_of(*body: str, card: str = CARD, arguments: str = "") -> str:
    lines = "".join(f"    {line}\n" if line else "\n" for line in body)
    return f'{HEAD}{card}\ndef test_it({arguments}):\n    """Lesson."""\n{lines}'


def learner(*body: str) -> str:
    """The learner's text of one koan, from the body of its answers."""
    chapter = parse(koan_of(*body))
    compile(chapter.template, "koans", "exec")
    return chapter.template.split('"""Lesson."""\n')[1]


BLANK = "assert 1 + 1 == answer(2)"
REGION = ["# answer:", "y = 2", "# end"]
# In koan_of the card stands in line 6, the def in 7, and the body begins in 9.


@pytest.mark.parametrize(
    ("text", "line", "cure"),
    [
        ("x = (\n", 1, "not Python: '(' was never closed"),
        (HEAD + "x = answer(2)\n", 6, "outside a koan function; move it into one"),
        (HEAD + "class A:\n    x = answer(2)\n", 7, "outside a koan function; move it into one"),
        (HEAD + "async def test_it():\n    return answer(2)\n", 7, "outside a koan function"),
        (HEAD + "def test_it():\n    assert answer(2)\n", 7, "no @koan(...); add one"),
        (koan_of(BLANK, card="@koan"), 9, "no @koan(...); add one"),
        (HEAD + "# answer:\nx = 2\n# end\n", 6, "an answer region stands outside a koan function"),
        (HEAD + "def helper():\n    # answer:\n    x = 2\n    # end\n", 7, "below its @koan(...)"),
        (koan_of("x = 1"), 7, "test_it has nothing to fill; mark it with answer(...), or '# a"),
        (koan_of(BLANK, card='@koan(see="s", hint="h", why="w")'), 6, "koan() needs wrong="),
        (koan_of(BLANK, card=CARD.replace("see", "sea")), 6, "'sea'; it takes see, hint, why"),
        (koan_of(BLANK, card=CARD.replace('"s"', "s")), 6, "see must be a plain literal"),
        (koan_of(BLANK, card=CARD.replace('"3":', '["3"]:')), 6, "wrong must be a plain literal"),
        (
            koan_of(BLANK, card=CARD.replace('{"3":', '{"3": "r", "3":')),
            6,
            "wrong: '3' stands there twice",
        ),
        (koan_of(BLANK, card=CARD.replace("why=", 'at=["x"], why=')), 6, "at is a dict"),
        (koan_of(BLANK, card=CARD.replace('"s"', "7")), 6, "see is a dotted name in quotes"),
        (koan_of(BLANK, card=CARD.replace('"h"', "7")), 6, "hint is a text, or a list of texts"),
        (koan_of(BLANK, card=CARD.replace('"h"', '["h", 7]')), 6, "hint is a text, or a list of"),
        (koan_of(BLANK, card=CARD.replace('"w"', "None")), 6, "why is a text"),
        (koan_of(BLANK, card=CARD.replace('{"3": "r"}', '["3"]')), 6, "source of a wrong answer"),
        (koan_of(BLANK, card=CARD.replace('"r"', "7")), 6, "source of a wrong answer -> reason"),
        (koan_of(BLANK, card=CARD[:-1] + ', right="2")'), 6, "right is a list of answers"),
        (koan_of(BLANK, card=CARD[:-1] + ', claims="A-1")'), 6, "claims is a list of ids"),
        (koan_of(BLANK, card=CARD[:-1] + ', aliases="test_a")'), 6, "aliases is a list of names"),
        (koan_of(BLANK, card=CARD.replace('"3"', "3")), 6, "wrong: an answer is a string or a"),
        (koan_of(BLANK, card=CARD[:-1] + ", right=[2])"), 6, "right: an answer is a string or a"),
        (koan_of(BLANK, BLANK), 6, "wrong: '3' answers 1 of 2 blanks; name them all"),
        (
            koan_of(BLANK, card=CARD + "\n@pytest.mark.timeout(X)"),
            7,
            "timeout: plain literals only",
        ),
        (koan_of("assert answer()"), 9, "answer() takes exactly one value"),
        (koan_of("assert answer(1, 2)"), 9, "answer() takes exactly one value"),
        (koan_of("# answer:", "y = answer(2)", "# end"), 10, "no answer() in a region"),
        (koan_of("# answer:", "y = 2"), 9, "'# answer:' without '# end'"),
        (koan_of("y = 2", "# end"), 10, "'# end' out of order: answer, then given, then end"),
        (koan_of("# given:", "# y = 2"), 9, "'# given:' out of order"),
        (koan_of("# answer:", "# answer:", "# end"), 10, "'# answer:' out of order"),
        (koan_of("# answer:", "# given:", "# given:", "# end"), 11, "'# given:' out of order"),
        (koan_of("y = 2  # end"), 9, "'y = 2  # end' out of order"),
        (koan_of("# answer:", "# given:", "# x = 1", "y = 2", "# end"), 12, "'# y[0] = 5.0'"),
        (koan_of("# answer:", "# given:", "# x = 1", "# y = = 2", "# end"), 12, "lines are Python"),
        (koan_of(*REGION, "", *REGION), 13, "two regions touch: put a given line between them"),
    ],
)
def test_what_breaks_the_form(text: str, line: int, cure: str) -> None:
    with pytest.raises(BookError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"{PATH}:{line}: ")
    assert cure in caught.value.message


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "test_01_small.py"
    file.write_bytes(b'"""About."""\nname = "\xff"\n')
    with pytest.raises(BookError, match=r"test_01_small\.py:2: not UTF-8; save the file as UTF-8"):
        read_chapter(file)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("predict", koan_of("caught = 1", BLANK)),
        ("error", koan_of("assert caught.type is answer(ValueError)")),
        ("error", koan_of("assert answer('size') in str(caught.value)")),
        ("repair", koan_of("# answer:", "y = 2", "# given:", "# y = 1", "# end", "assert y == 2")),
        ("write", koan_of(*REGION, "assert y == 2")),
        ("measure", koan_of(*REGION, card=CARD + "\n@pytest.mark.timeout(5)")),
        ("measure", koan_of(BLANK, arguments="benchmark")),
    ],
)
def test_the_kind_follows_from_the_code(kind: str, text: str) -> None:
    assert parse(text).koans[0].kind == kind


RICH = '''\
"""About: ünïcödé."""

import pytest

from sensei import answer, koan

# About the helper.
class Helper:
    pass


@koan(
    see="torch.tensor",
    hint=["one", "two"],
    why="w",
    wrong={("1", "y = 3", "'ö'"): "r"},
    right=[("2", "y = 4", "'ü'")],
    claims=["A-1-01"],
    aliases=["test_old"],
)
@pytest.mark.timeout(5, method="signal")
@pytest.mark.slow
def test_it(device, tmp_path):
    """A lesson.

    In two parts.
    """
    assert "ä" "→" and len("ü") == answer(1)  # an end comment
    # answer:
    y = 2
    # given:
    # y = 1
    # end

    # a comment is no line of code
    assert "éé" + str(y) == answer(
        "éé2"
    )
'''


def test_all_that_a_koan_says() -> None:
    (koan,) = parse(RICH).koans
    assert koan.id == "01_small/test_01_small.py::test_it"
    assert koan.lesson == "A lesson.\n\nIn two parts."
    assert RICH.split("\n")[koan.line - 1] == "def test_it(device, tmp_path):"
    assert koan.slots == (Slot("1"), Slot("y = 2", True, "y = 1"), Slot('"éé2"'))
    assert koan.hints == ("one", "two")
    assert [(w.answers, w.reason) for w in koan.wrong] == [(("1", "y = 3", "'ö'"), "r")]
    assert koan.right == (("2", "y = 4", "'ü'"),)
    assert (koan.claims, koan.aliases) == (("A-1-01",), ("test_old",))
    assert koan.marks == (Mark("timeout", (5,), (("method", "signal"),)), Mark("slow"))
    assert koan.fixtures == ("device", "tmp_path")
    assert koan.body_lines == 5


def test_what_the_learner_gets() -> None:
    chapter = parse(RICH)
    compile(chapter.template, "koans", "exec")
    assert (
        chapter.template
        == '''\
"""About: ünïcödé."""

import pytest

from sensei import __

# About the helper.
class Helper:
    pass


@pytest.mark.timeout(5, method="signal")
@pytest.mark.slow
def test_it(device, tmp_path):
    """A lesson.

    In two parts.
    """
    assert "ä" "→" and len("ü") == __  # an end comment
    # your turn:
    y = 1
    # end

    # a comment is no line of code
    assert "éé" + str(y) == __
'''
    )


def test_the_sections_that_a_file_teaches_are_for_the_author() -> None:
    text = RICH.replace("ünïcödé.", "ünïcödé.\n\nDocuments: A 3.1, B 2\n", 1)
    assert parse(text).template == parse(RICH).template


def test_line_ends_do_not_matter() -> None:
    assert parse(RICH.replace("\n", "\r\n")).template == parse(RICH).template


@pytest.mark.parametrize(
    ("body", "slot", "text"),
    [
        (  # a write region
            ["# answer:", "y = 2", "", "z = 3", "# end", "assert y"],
            Slot("y = 2\n\nz = 3", True),
            "    # your turn:\n    __\n    # end\n    assert y\n",
        ),
        (  # given lines with an indentation of their own
            ["# answer:", "y = 2", "# given:", "# if x:", "#     y = 1", "#", "# z = 1", "# end"],
            Slot("y = 2", True, "if x:\n    y = 1\n\nz = 1"),
            "    # your turn:\n    if x:\n        y = 1\n\n    z = 1\n    # end\n",
        ),
        (  # an inner function
            ["def f(x):", "    # answer:", "    return x", "    # end", "assert f(2)"],
            Slot("return x", True),
            "    def f(x):\n        # your turn:\n        __\n        # end\n    assert f(2)\n",
        ),
        (  # the end of an inner function, which deletes
            ["def f(x):", "    pass", "    # answer:", "    # given:", "    # del x", "    # end"],
            Slot("", True, "del x"),
            "    def f(x):\n        pass\n        # your turn:\n        del x\n        # end\n",
        ),
        (  # the end of the koan, which deletes
            ["y = 2", "# answer:", "# given:", "# y = 1", "# end"],
            Slot("", True, "y = 1"),
            "    y = 2\n    # your turn:\n    y = 1\n    # end\n",
        ),
        (  # all that there is
            ["# answer:", "# given:", "# y = 1", "# end"],
            Slot("", True, "y = 1"),
            "    # your turn:\n    y = 1\n    # end\n",
        ),
    ],
)
def test_regions(body: list[str], slot: Slot, text: str) -> None:
    assert parse(koan_of(*body)).koans[0].slots == (slot,)
    assert learner(*body) == text


def test_a_region_belongs_to_the_koan_above_it() -> None:
    """An answer that deletes leaves only comments: no statement tells where its koan ends."""
    first = koan_of("y = 2", "# answer:", "# given:", "# y = 1", "# end")
    second = koan_of(*REGION).removeprefix(HEAD).replace("test_it", "test_two")
    koans = parse(f"{first}\n\n{second}").koans
    assert [(k.name, k.kind, k.answers) for k in koans] == [
        ("test_it", "repair", ("",)),
        ("test_two", "write", ("y = 2",)),
    ]


def test_words_of_a_marker_elsewhere_mean_nothing() -> None:
    body = ['x = "# answer:"', "# the answer: 2", 'y = """', "# end", '"""', "assert 2 == "]
    text = "".join(f"    {line}\n" for line in body)
    assert learner(*body[:-1], body[-1] + "answer(2)") == text.replace("== ", "== __")


def test_blanks_in_one_line_keep_their_order() -> None:
    card = CARD.replace('"3"', '("3", "4")')
    chapter = parse(koan_of("assert [answer(1), answer(2)] == [1, 2]", card=card))
    assert chapter.koans[0].answers == ("1", "2")
    assert "assert [__, __] == [1, 2]" in chapter.template
    assert ast.parse(chapter.template)
