"""The learner's files: write them from the book, keep what a learner wrote.

The only module that writes below a workbook. Whatever it replaces, it backs up first.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sensei.book import Book, packaged_root
from sensei.compare import FileReading, read_copy
from sensei.records import BLANK, Chapter, Koan
from sensei.trees import bound_names, region_lines

STATE = ".sensei"  # the folder, at the workbook's root, for stored state and backups


class WorkbookError(Exception):
    """Something in the way of reading or writing a workbook; its text says what to do."""


@dataclass(frozen=True)
class Workbook:
    """A folder of koan files and the book they come from."""

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


def book_for(workbook_root: Path) -> Book:
    """The book of a workbook: the answers beside it (a clone), else those of this sensei."""
    for root in (workbook_root, workbook_root.resolve()):  # a link may lead to a clone
        if (root.parent / "answers").is_dir():
            return Book(root.parent / "answers")
    return Book(packaged_root())


def find_workbook(start: Path) -> Workbook:
    """The workbook that a folder lies in, holds (as koans/), or is.

    Raises WorkbookError when there is none.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        for root in (folder, folder / "koans"):
            if not root.is_dir():
                continue
            book = book_for(root)
            if book.root.is_dir() and root.resolve() != book.root.resolve():
                if any((root / group).is_dir() for group in book.groups):
                    return Workbook(root, book)
    raise WorkbookError(f"no koans in {start}: change to the folder that holds koans/")


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
    """What ``ruff format`` makes of a text. Raises WorkbookError when ruff is not installed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "format", "--stdin-filename", path, "-"],
            input=text.encode(),
            capture_output=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip().split("\n")[-1]
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


def reset(workbook: Workbook, koan: Koan) -> Path | None:
    """Put one koan back as it was given, and its imports and helpers with it.

    Every other koan stays as the learner has it. Returns the backup of the old file,
    or None where the file was missing.
    """
    chapter = workbook.book.chapter(f"{koan.group}/{koan.file}")
    path = workbook.path(chapter)
    fresh = shipped_text(chapter, path)
    if not path.exists():
        write(path, fresh)
        return None
    saved = backup(workbook.root, path)
    old = path.read_bytes().replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
    mine = old.decode(errors="surrogateescape")
    write(path, with_koan(mine, fresh, koan.name, [k.name for k in chapter.koans]))
    return saved


def with_koan(mine: str, fresh: str, name: str, order: Sequence[str]) -> str:
    """A learner's text in which one koan, and all that is given around the koans, is as given.

    The other koans stay as they are. So does a given import or helper that differs only in
    how it is set, and what the learner added, unless it takes a given name. Also mends a
    file that is no longer Python.
    """
    given = split_blocks(fresh)
    names = {block.name for block in given if block.name}
    taken = bound_names(ast.parse(fresh).body) - names  # imported: a block cannot carry them
    blocks = [block for block in split_blocks(mine, names) if block.name not in taken]
    at = 0  # where the next block goes, if it is missing
    for block in given:
        found = [i for i, other in enumerate(blocks) if _stands_for(other, block)]
        if block.name in order and block.name != name:
            at = found[-1] + 1 if found else at
        elif found:
            if block.name == name or not _same_code(blocks[found[0]], block):
                blocks[found[0]] = replace(block, new=True)
            blocks = [other for i, other in enumerate(blocks) if i not in found[1:]]
            at = found[0] + 1
        else:
            blocks.insert(at, replace(block, new=True))
            at += 1
    return _joined(blocks)


@dataclass(frozen=True)
class Block:
    """One top-level statement: its lines, the comments above it and what is blank after it."""

    name: str  # what it defines or assigns; "" for an import, say
    text: str
    new: bool = False  # put in by a reset

    @property
    def defines(self) -> bool:
        code = [line for line in self.text.split("\n") if line and not line.startswith("#")]
        return bool(code) and code[0].startswith(("@", "def ", "async def ", "class "))


def _stands_for(mine: Block, given: Block) -> bool:
    return mine.name == given.name and bool(given.name or _same_code(mine, given))


def _same_code(mine: Block, given: Block) -> bool:
    try:
        return ast.dump(ast.parse(mine.text)) == ast.dump(ast.parse(given.text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _joined(blocks: Sequence[Block]) -> str:
    """The text of a file. Between untouched blocks it is as it was."""
    text = ""
    for block, after in zip(blocks, [*blocks[1:], None]):
        if after is None:
            text += block.text.rstrip("\n") + "\n"
        elif (block.new or after.new) and (block.defines or after.defines):
            text += block.text.rstrip("\n") + "\n\n\n"
        else:
            text += block.text + "\n"
    return text


DOCSTRING = "__doc__"  # the name of the block that holds it
QUOTES = re.compile(r"\"{3}|'{3}")
OPENING = re.compile(r"(?:async )?def (\w+)|class (\w+)|(\w+) *(?::[^=]+)?=(?!=)|@|[^\s#)\]}]")


def split_blocks(text: str, given: Collection[str] = ()) -> list[Block]:
    """A file as its top-level blocks, in order. Their texts, joined by a line end, are the file.

    ``given`` are names that the book defines: of help where a file is no longer Python.
    """
    lines = text.split("\n")
    try:
        starts = _statements(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        starts = _likely_statements(lines, given)
    cuts: dict[int, str] = {}
    for start, name in starts.items():
        while start and lines[start - 1].startswith("#") and not QUOTES.search(lines[start - 1]):
            start -= 1
        cuts.setdefault(start, name)
    if 0 not in cuts and text.strip():
        cuts = {0: "", **cuts}
    ends = [*list(cuts)[1:], len(lines)]
    return [Block(cuts[i], "\n".join(lines[i:end])) for i, end in zip(cuts, ends)]


def _statements(tree: ast.Module) -> dict[int, str]:
    """Line (from 0) of each statement of a module -> the name it defines or assigns, or ""."""
    starts: dict[int, str] = {}
    for node in tree.body:
        name: str = getattr(node, "name", "")
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(targets[0], ast.Name):
            name = targets[0].id
        elif node is tree.body[0] and ast.get_docstring(tree) is not None:
            name = DOCSTRING
        decorators = getattr(node, "decorator_list", [])
        starts.setdefault(min([node.lineno, *(d.lineno for d in decorators)]) - 1, name)
    return starts


def _likely_statements(lines: Sequence[str], given: Collection[str]) -> dict[int, str]:
    """The same, line by line, for a file that is not Python."""
    starts: dict[int, str] = {}
    quotes = ""  # what ends the string that this line lies in
    decorator: int | None = None
    for number, line in enumerate(lines):
        match = OPENING.match(line)
        name = next((found for found in match.groups() if found), "") if match else ""
        if quotes and name and name in given:
            quotes = ""  # it was never closed
        if match and not quotes:
            if line.startswith("@"):
                decorator = number if decorator is None else decorator
            else:
                if not starts and QUOTES.match(line):
                    name = DOCSTRING
                starts[number if decorator is None else decorator] = name
                decorator = None
        for found in QUOTES.findall(line):
            quotes = "" if found == quotes else quotes or found
    return starts
