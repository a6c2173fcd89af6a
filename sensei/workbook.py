"""The learner's files: write them from the book, keep what a learner wrote.

The only module that writes below a workbook. Whatever it replaces, it backs up first.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sensei import words
from sensei.book import Book, packaged_root
from sensei.compare import FileReading, read_copy
from sensei.records import BLANK, Chapter, Koan
from sensei.restore import with_koan
from sensei.trees import region_lines

# Files of one name in several groups are no trouble in this mode, and nothing needs a package.
SETUP = "[pytest]\naddopts = --import-mode=importlib\n"
STATE = ".sensei"  # the folder, at the workbook's root, for stored state and backups


class WorkbookError(Exception):
    """Something in the way of reading or writing a workbook; its text says what to do."""


@dataclass(frozen=True)
class Workbook:
    """A folder of koan files and the book they come from.

    The book of one that :func:`find_workbook` found has the groups which the folder holds:
    a learner may have deleted the others, and nobody then wants to be sent there.
    """

    root: Path
    book: Book

    def path(self, chapter: Chapter) -> Path:
        return self.root / chapter.group / chapter.file

    def read(self, chapter: Chapter) -> FileReading | None:
        """The learner's copy of a chapter; None where the file is missing."""
        try:
            return read_copy(self.path(chapter).read_bytes(), chapter)
        except FileNotFoundError:
            return None

    def text(self, key: str) -> str:
        """A file (``group/file``) as it stands, to be shown; "" where it cannot be read."""
        try:
            return (self.root / key).read_bytes().decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            return ""

    @property
    def with_all_groups(self) -> Workbook:
        """The same folder, and all that it could hold."""
        return Workbook(self.root, Book(self.book.root))


def book_for(workbook_root: Path) -> Book:
    """The book of a workbook: the answers beside it (a clone), else those of this sensei."""
    for root in (workbook_root, workbook_root.resolve()):  # a link may lead to a clone
        if (root.parent / "answers").is_dir():
            return Book(root.parent / "answers")
    return Book(packaged_root())


def find_workbook(start: Path) -> Workbook:
    """The workbook that a folder lies in, is, or holds: as koans/, or as the only one in it.

    Raises WorkbookError when there is none.
    """
    start = start.resolve()
    own = sorted(state.parent for state in start.glob(f"*/{STATE}"))  # just made by `koans init`
    near = [start / "koans", *own] if len(own) == 1 else [start / "koans"]
    for folder in (start, *start.parents):
        for root in (folder, *(near if folder == start else [folder / "koans"])):
            if not root.is_dir():
                continue
            book = book_for(root)
            if book.root.is_dir() and root.resolve() != book.root.resolve():
                held = [group for group in book.groups if (root / group).is_dir()]
                if held:
                    return Workbook(root, Book(book.root, held))
    raise WorkbookError(f"no koans in {start}: change to a workbook, or to the folder of koans/")


# the text of a file -------------------------------------------------------------------------------


def fill(chapter: Chapter, answers: Mapping[str, Sequence[str]]) -> str:
    """A chapter's learner text with some koans answered: name -> one source per slot."""
    text = chapter.template
    tree = ast.parse(text)
    edits: list[tuple[int, int, int, int, str]] = []
    lines = text.split("\n")
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name not in answers:
            continue
        places: list[tuple[int, int, int, int]] = []
        regions = [
            r for r in region_lines(text) if node.lineno < r[0] and r[1] <= _last(node, tree, lines)
        ]
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and name.id == BLANK:
                if not any(start < name.lineno < end for start, end in regions):
                    column = len(lines[name.lineno - 1].encode()[: name.col_offset].decode())
                    places.append((name.lineno, column, name.lineno, column + len(BLANK)))
        places += [(start + 1, 0, end, 0) for start, end in regions]
        for place, source in zip(sorted(places), answers[node.name], strict=True):
            region = place[3] == 0
            edits.append(
                (*place, _indented(source, lines[place[0] - 2]) if region else _inline(source))
            )
    for line, column, end_line, end_column, source in sorted(edits, reverse=True):
        tail = lines[end_line - 1][end_column:] if end_column else None
        head = lines[line - 1][:column]
        if tail is None:
            lines[line - 1 : end_line - 1] = source.split("\n") if source else []
        else:
            lines[line - 1 : end_line] = (head + source + tail).split("\n")
    return "\n".join(lines)


def _last(node: ast.FunctionDef, tree: ast.Module, lines: list[str]) -> int:
    return min((n.lineno for n in tree.body if n.lineno > node.lineno), default=len(lines) + 1)


def _indented(source: str, marker: str) -> str:
    pad = marker[: len(marker) - len(marker.lstrip())]
    return "\n".join((pad + line).rstrip() for line in (source or "pass").split("\n"))


# What the line around it could tear apart: `2 + 1` in `__ * 2`.
LOOSE = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.Compare, ast.UnaryOp, ast.BinOp, ast.NamedExpr)


def _inline(source: str) -> str:
    """An answer as it may stand inside a line: in parentheses, where it needs them."""
    node = ast.parse(f"({source}\n)", mode="eval").body
    bare = isinstance(node, ast.Tuple | ast.GeneratorExp) and node.col_offset == 0
    return f"({source})" if bare or isinstance(node, LOOSE) or "\n" in source else source


def format_source(text: str, path: Path) -> str:
    """What ``ruff format`` makes of a text.

    Raises WorkbookError when ruff is not installed, or cannot read the text.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "format", "--stdin-filename", path, "-"],
            input=text.encode(),
            capture_output=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip().split("\n")[-1]
        if message.endswith("No module named ruff"):
            raise WorkbookError(words.NO_RUFF) from error
        raise WorkbookError(f"ruff could not format {path}: {message}") from error
    return done.stdout.decode()


def shipped_text(chapter: Chapter, path: Path) -> str:
    """The file as a learner first gets it: formatted where ruff is installed."""
    try:
        return format_source(chapter.template, path)
    except WorkbookError:
        return chapter.template  # the same syntax tree, at most other line breaks


# writing ------------------------------------------------------------------------------------------


def backup(root: Path, path: Path) -> Path:
    """Copy a learner's file below .sensei/backups; return where it went."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = root / STATE / "backups"
    for number in range(10**6):
        target = folder / (stamp + (f"-{number}" if number else "")) / path.relative_to(root)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
            return target
    raise WorkbookError(f"{folder} is full; delete old backups")


def write(path: Path, text: str) -> None:
    """Write a file in one step, so that a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_bytes(text.encode(errors="surrogateescape"))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def keep_out_of_git(root: Path) -> None:
    """What is stored for a learner is nobody else's business."""
    ignore = root / STATE / ".gitignore"
    if not ignore.exists():
        write(ignore, "*\n")


@dataclass(frozen=True)
class Reset:
    """What became of a file that was to be as given."""

    backup: Path | None  # the learner's file of before; None where there was none
    line: int = 0
    trouble: str = ""  # what still stands in the way, at that line


def reset(workbook: Workbook, koan: Koan) -> Reset:
    """Put one koan back as it was given, and its imports and helpers with it.

    Every other koan stays as the learner has it, and so does what the learner added. Where
    that keeps the file from being read, nothing of it is thrown away: the trouble is told.
    """
    chapter = workbook.book.chapter(koan.key)
    path = workbook.path(chapter)
    if not path.exists():
        return reset_file(workbook, chapter)
    saved = backup(workbook.root, path)
    old = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    mine = old.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
    fresh = shipped_text(chapter, path)
    text = with_koan(mine, fresh, koan.name, [k.name for k in chapter.koans])
    write(path, text)
    reading = read_copy(text, chapter)
    if reading.error:
        return Reset(saved, reading.error_line, reading.error)
    found = reading.koans[koan.name]
    if found.state != "open":  # something of the learner's, elsewhere in the file, gets at it
        return Reset(saved, found.line, found.detail or found.state)
    return Reset(saved)


def reset_file(workbook: Workbook, chapter: Chapter) -> Reset:
    """Write a whole file exactly as it was given, whatever it is now."""
    path = workbook.path(chapter)
    saved = backup(workbook.root, path) if path.exists() else None
    write(path, shipped_text(chapter, path))
    return Reset(saved)
