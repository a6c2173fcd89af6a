"""Writing a learner's file: filled from the book, put back as given, never lost."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from sensei.book import Book
from sensei.compare import read_copy
from sensei.parse import parse_chapter
from sensei.records import Chapter
from sensei.restore import split_blocks, with_koan
from sensei.trees import dump, expression
from sensei.workbook import (
    Reset,
    Workbook,
    WorkbookError,
    backup,
    book_for,
    fill,
    find_workbook,
    format_source,
    reset,
    write,
)

CARD = '@koan(see="s", hint="h", why="w", wrong=WRONG)'
HEAD = "from sensei import answer, koan\n\n\n"


def chapter_of(*body: str, slots: int = 1) -> Chapter:
    lines = "".join(f"    {line}\n" for line in body)
    card = CARD.replace("WRONG", '{"9": "r"}' if slots == 1 else str({("9",) * slots: "r"}))
    text = f'{HEAD}{card}\ndef test_it():\n    """Lesson."""\n{lines}'
    return parse_chapter(text, Path("answers/01_small/test_01_small.py"))


# fill ---------------------------------------------------------------------------------------------


AROUND = ("assert f() == answer(0)", "x = answer(0) ** 2", "x = 3 * answer(0)", "x = [answer(0)]")


@pytest.mark.parametrize(
    "source",
    [
        "7",
        "-1",
        "- x",
        "not x",
        "2 + 1",
        "-1 + 2",
        "x < 1",
        "-1 < x",
        "x and y",
        "x if y else z",
        "-x if y else z",
        "lambda: x",
        "(w := 3)",
        "(2, 3)",
        "2, 3",
        "(2, 3), 4",
        "()",
        "(i for i in x)",
        "[i for i in x]",
        "f(1, 2)",
        "x.shape[0]",
        "'ä' \"ö\"",
        "f(\n        1,\n    )",
        "'a'\n        'b'",
        "{\n    'a': 1,\n}",
    ],
)
def test_a_blank_holds_any_expression(source: str) -> None:
    for given in AROUND:
        chapter = chapter_of(given)
        reading = read_copy(fill(chapter, {"test_it": [source]}), chapter).koans["test_it"]
        assert reading.state == "filled", given
        assert dump(expression(reading.said[0])) == dump(expression(source)), given


def test_blanks_in_one_line_and_letters_that_are_no_ascii() -> None:
    chapter = chapter_of("x = ['ä', answer(1), 'ü', answer(2)]", slots=2)
    sources = ("f(\n        'ö',\n    )", "'é'")
    text = fill(chapter, {"test_it": sources})
    assert read_copy(text, chapter).koans["test_it"].said == sources
    assert "x = ['ä', (f(\n        'ö',\n    )), 'ü', 'é']" in text


REGIONS = (
    ["# answer:", "y = 1", "# end", "assert y"],
    ["# answer:", "y = 1", "# given:", "# y = 0", "# z = 0", "# end", "assert y"],
    ["# answer:", "y = 1", "# given:", "# y = 0", "# end"],
    ["def f(x):", "    # answer:", "    y = 1", "    # end", "    return y", "assert f"],
)


@pytest.mark.parametrize(
    "source",
    [
        "y = 2",
        "y = 2\nz = 3",
        "if x:\n    y = 2\n\nelse:\n    y = 3",
        "with x:\n    for i in y:\n        pass",
        '@decorated\ndef g():\n    """Text."""\n    return 1',
        "pass",
        "",
    ],
)
def test_a_region_holds_any_lines(source: str) -> None:
    for body in REGIONS:
        chapter = chapter_of(*body)
        reading = read_copy(fill(chapter, {"test_it": [source]}), chapter).koans["test_it"]
        assert reading.state == "filled", body
        assert reading.said == (source or "pass",), body


def test_only_the_koans_named_are_filled() -> None:
    chapter = parse_chapter(BOOK, Path("answers/01_small/test_01_small.py"))
    assert fill(chapter, {}) == chapter.template
    states = {name: r.state for name, r in read_copy(solved(chapter, "b"), chapter).koans.items()}
    assert states == {"test_a": "open", "test_b": "filled", "test_c": "open"}
    with pytest.raises(ValueError):
        fill(chapter, {"test_b": ["1", "2"]})


# reset --------------------------------------------------------------------------------------------

BOOK = f'''\
"""About.

In two lines.
"""

import os

from sensei import answer, koan

SIZE = 3


{CARD.replace("WRONG", '{"9": "r"}')}
def test_a():
    """Lesson."""
    assert SIZE == answer(3)


# What the next two need.
class Spy:
    """A helper."""

    calls = 0


def helper():
    return Spy()


TABLE = {{
    "a": 1,
}}


# About b.
{CARD.replace("WRONG", '{"9": "r"}')}
@pytest.mark.slow
def test_b():
    """Lesson."""
    assert helper().calls + TABLE["a"] == answer(1)


{CARD.replace("WRONG", '{"y = 9": "r"}')}
def test_c():
    """Lesson."""
    # answer:
    y = 2
    # given:
    # y = os
    # end
    assert y == 2
'''


@pytest.fixture(scope="module")
def chapter() -> Chapter:
    return parse_chapter(BOOK, Path("answers/01_small/test_01_small.py"))


def solved(chapter: Chapter, letters: str = "abc") -> str:
    names = [f"test_{letter}" for letter in letters]
    return fill(chapter, {k.name: k.answers for k in chapter.koans if k.name in names})


def put_back(chapter: Chapter, mine: str, name: str) -> str:
    return with_koan(mine, chapter.template, name, [koan.name for koan in chapter.koans])


def states(chapter: Chapter, text: str) -> str:
    """The states of a, b and c in one word."""
    reading = read_copy(text, chapter)
    return "".join(reading.koans[k.name].state[0] for k in chapter.koans if not reading.error)


@pytest.mark.parametrize("name", ["test_a", "test_b", "test_c"])
def test_a_reset_touches_nothing_else(chapter: Chapter, name: str) -> None:
    others = "abc".replace(name[-1], "")
    assert put_back(chapter, solved(chapter), name) == solved(chapter, others)
    assert put_back(chapter, chapter.template, name) == chapter.template


A = '''\
def test_a():
    """Lesson."""
    assert SIZE == 3
'''
B = '''\
# About b.
@pytest.mark.slow
def test_b():
    """Lesson."""
    assert helper().calls + TABLE["a"] == 1
'''
SPY = '''\
# What the next two need.
class Spy:
    """A helper."""

    calls = 0
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the koan
        (B, ""),
        ("def test_b", "def test_bee"),
        ("def test_b", "async def test_b"),
        ("@pytest.mark.slow\n", ""),
        ("@pytest.mark.slow\n", "@pytest.mark.slow\n@pytest.mark.skip(\n    reason='no'\n)\n"),
        (B, f"{B}\n\n{B}"),
        (f"\n\n{B}", f"\n\n{B}\n\ndef test_b():\n    pass\n"),
        (f"{A}\n", f"{B}\n\n{A}\n"),
        # what stands around it
        (SPY, ""),
        (SPY, f"{SPY}\n    x = 1\n"),
        ("    calls = 0", "    calls = 7"),
        ("    calls = 0", "    calls = 0  # none yet"),
        ("def helper():\n    return Spy()\n", ""),
        ("return Spy()", "return None"),
        ('TABLE = {\n    "a": 1,\n}\n', ""),
        ('    "a": 1,\n', '    "a": 2,\n'),
        ('TABLE = {\n    "a": 1,\n}\n', "TABLE = {}\n"),
        ('    "a": 1,\n}\n', '    "a": 1,\n}\nTABLE = {}\n'),
        ("SIZE = 3\n", "SIZE = 4\n"),
        ("SIZE = 3\n", "SIZE: int = 4\n"),
        ("SIZE = 3\n", ""),
        ("import os\n", ""),
        ("import os\n", "import os\nos = 3\n"),
        ("from sensei import __\n", ""),
        ("In two lines.\n", "In two lines of mine.\n"),
        (f"{SPY}\n\ndef helper():\n    return Spy()\n", ""),
    ],
)
def test_reset_mends(chapter: Chapter, old: str, new: str) -> None:
    text = solved(chapter)
    assert old in text
    text = put_back(chapter, text.replace(old, new, 1), "test_b")
    compile(text, "koans", "exec")
    assert states(chapter, text) == "fof"
    assert text.count("# What the next two need.") == 1
    reading = read_copy(text, chapter)
    assert reading.same_module == ("test_bee" not in text)
    assert put_back(chapter, text, "test_b") == text


@pytest.mark.parametrize(
    ("old", "new", "whole"),
    [
        ('TABLE["a"] == 1', 'TABLE["a"] == (((', True),
        ('TABLE["a"] == 1', "(((\nassert 3 == 3", False),  # a line that slipped to the margin
        ('slow\ndef test_b():\n    """Lesson."""', 'slow\ndef test_b():\n    """Lesson.', True),
        ('slow\ndef test_b():\n    """Lesson."""', "slow\ndef test_b()\n    '''Lesson.", True),
        ("    assert helper().calls +", "assert helper() = =", False),
        ("    assert helper()", "#    assert 3\n    assert ((helper()", True),
        ("@pytest.mark.slow\n", "@pytest.mark.slow(\n", True),
        ("@pytest.mark.slow\ndef test_b():", "@pytest.mark.slow\ndef test_b(:", True),
        ("class Spy:", "class Spy", True),
        ("return Spy()", "return Spy((", True),
        ("SIZE = 3", "SIZE = = 3", True),
        ("In two lines.\n", "In two lines. \\N\n", True),
        ('In two lines.\n"""', "In two lines.\n", True),
    ],
)
def test_reset_of_a_file_that_is_not_python(
    chapter: Chapter, old: str, new: str, whole: bool
) -> None:
    text = solved(chapter)
    assert old in text
    text = text.replace(old, new, 1)
    assert states(chapter, text) == ""
    back = put_back(chapter, text, "test_b")
    assert [name for name in ("a", "b", "c") if f"def test_{name}():" in back] == ["a", "b", "c"]
    assert not whole or states(chapter, back) == "fof"


@pytest.mark.parametrize("junk", ["def broken(:", "x = (", "<<<<<<< HEAD", "hello, world ("])
def test_junk_at_the_top_doubles_nothing(chapter: Chapter, junk: str) -> None:
    text = f"{junk}\n{solved(chapter)}"
    assert put_back(chapter, text, "test_b") == f"{junk}\n{solved(chapter, 'ac')}"


def test_a_file_broken_elsewhere_keeps_that_koan(chapter: Chapter) -> None:
    text = solved(chapter).replace("assert SIZE == 3", "assert SIZE == (3").replace("== 1", "== 7")
    back = put_back(chapter, text, "test_b")
    assert back == text.replace("== 7", "== __")
    assert states(chapter, put_back(chapter, back, "test_a")) == "oof"


@pytest.mark.parametrize("name", ["test_a", "test_b", "test_c"])
def test_a_missing_koan_returns_to_its_place(chapter: Chapter, name: str) -> None:
    koan = next(block.text for block in split_blocks(solved(chapter)) if block.name == name)
    back = put_back(chapter, solved(chapter).replace(koan.rstrip("\n"), ""), name)
    assert [b.name for b in split_blocks(back)] == [b.name for b in split_blocks(solved(chapter))]
    assert ast.dump(ast.parse(back)) == ast.dump(ast.parse(put_back(chapter, back, name)))


@pytest.mark.parametrize("text", ["", "\n\n", "# mine\n", "x = (\n", "\0\n", "\udcff = 3\n"])
def test_of_a_file_that_holds_nothing_the_koan_returns(chapter: Chapter, text: str) -> None:
    back = put_back(chapter, text, "test_b")
    assert back.count("def test_b():") == 1 and back.count("class Spy:") == 1
    if "x" not in text and text.isascii() and "\0" not in text:
        assert states(chapter, back) == "mom"


def test_what_the_learner_added_stays(chapter: Chapter) -> None:
    mine = solved(chapter)
    mine = mine.replace("import os\n", "import math\nimport os\n\n# My notes.\nmath.pi\n")
    mine = mine.replace("SIZE = 3\n", "SIZE = 3\nMINE = 4\n")
    mine = mine.replace(SPY, f"{SPY}\n\n# Mine.\ndef test_mine():\n    assert MINE\n")
    mine += '\n\ndef look():\n    return """\ndef test_b():\nclass Spy:\n# end\n"""\n'
    assert put_back(chapter, mine, "test_b") == mine.replace('TABLE["a"] == 1', 'TABLE["a"] == __')


BLOCKS = '''\
"""Title.

def no():
"""
# of the import
import os
if os:
    x = 1
TEXT = """
def no():
    @no
# no
"""

# floats

# of f
@g(
    1,
)
@h
async def f():
    pass
#    pass
    pass


class C: ...
x: int = 3
y, z = 1, 2
'''
NAMES = ["__doc__", "", "", "TEXT", "f", "C", "x", ""]


@pytest.mark.parametrize("text", [BLOCKS, BLOCKS.replace("if os:", "if os(:")])
def test_blocks(text: str) -> None:
    blocks = {block.name: block for block in split_blocks(text, {"f", "C"})}
    assert [block.name for block in split_blocks(text, {"f", "C"})] == NAMES
    assert "\n".join(block.text for block in split_blocks(text)) == text
    assert blocks["f"].text.startswith("# of f\n@g(\n    1,\n)\n@h\nasync def f():\n    pass\n#")
    assert [name for name in blocks if blocks[name].defines] == ["f", "C"]


# files --------------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path: Path) -> Workbook:
    write(tmp_path / "answers" / "01_small" / "test_01_small.py", BOOK)
    (tmp_path / "koans").mkdir()
    return Workbook(tmp_path / "koans", Book(tmp_path / "answers"))


def test_reset_on_disk(workbook: Workbook) -> None:
    (book,) = workbook.book.chapters
    path = workbook.path(book)
    koan = book.koans[1]
    assert workbook.read(book) is None
    assert reset(workbook, koan) == Reset(None)
    assert path.read_text() == format_source(book.template, path)
    mine = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n").replace(b"A 1", b"\xff")
    path.write_bytes(mine.replace(b"y = os", b"y = 2").replace(b'["a"] == __', b'["a"] == 2'))
    done = reset(workbook, koan)
    saved = done.backup
    assert not done.trouble and (
        saved and saved.read_bytes().startswith(b"\xef\xbb\xbf") and b"== 2" in saved.read_bytes()
    )
    reading = workbook.read(book)
    assert reading and [r.state for r in reading.koans.values()] == ["open", "open", "filled"]


def test_line_ends_of_an_old_mac(workbook: Workbook) -> None:
    (book,) = workbook.book.chapters
    write(workbook.path(book), solved(book).replace("\n", "\r"))
    assert not reset(workbook, book.koans[1]).trouble
    reading = workbook.read(book)
    assert reading and [r.state[0] for r in reading.koans.values()] == ["f", "o", "f"]


def test_a_backup_never_overwrites(workbook: Workbook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")
    path = workbook.root / "01_small" / "test_01_small.py"
    saved = []
    for text in ("one", "two", "three"):
        write(path, text)
        saved.append(backup(workbook.root, path))
    assert [file.read_text() for file in saved] == ["one", "two", "three"]
    assert [str(file.relative_to(workbook.root)).split("/")[2] for file in saved] == [
        "20260101-000000",
        "20260101-000000-1",
        "20260101-000000-2",
    ]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "test_01.py"
    write(file, "old \udcff\n")
    assert file.read_bytes() == b"old \xff\n"

    def fails(self: Path, target: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="the disk is full"):
        write(file, "new\n")
    assert file.read_bytes() == b"old \xff\n"
    assert [path.name for path in file.parent.iterdir()] == ["test_01.py"]


def test_without_ruff_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')  # no site-packages
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(WorkbookError, match=r"pip install -r requirements\.txt"):
        format_source("x = 1\n", Path("koans/test_x.py"))


def test_a_text_that_ruff_cannot_format() -> None:
    with pytest.raises(WorkbookError, match=r"ruff could not format koans/test_x\.py: .+"):
        format_source("x = (\n", Path("koans/test_x.py"))


def test_finding_a_workbook(workbook: Workbook, tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="change to a workbook"):
        find_workbook(tmp_path)
    group = workbook.root / "01_small"
    group.mkdir()
    for start in (tmp_path, workbook.root, group):
        assert find_workbook(start).root == workbook.root
    write(tmp_path / "answers" / "02_more" / "test_01_more.py", BOOK)
    assert find_workbook(tmp_path).book.groups == ("01_small",), "the other one is not here"
    assert find_workbook(tmp_path).with_all_groups.book.groups == ("01_small", "02_more")
    (tmp_path / "link").symlink_to(workbook.root, target_is_directory=True)
    assert book_for(tmp_path / "link").root == tmp_path / "answers"
