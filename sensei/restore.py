"""Put one koan of a learner's text back as it was given, and leave the rest alone. Pure.

Works on blocks of lines, so that it also mends a file that is no longer Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sensei.trees import bound_names


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


def without_koan(mine: str, name: str) -> str:
    """A learner's text without one of its top-level definitions."""
    return _joined([block for block in split_blocks(mine, [name]) if block.name != name])


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
                # A line of junk may stand above it, but no definition of the book.
                above = starts.values()
                if QUOTES.match(line) and DOCSTRING not in above and not {*given} & {*above}:
                    name = DOCSTRING
                starts[number if decorator is None else decorator] = name
                decorator = None
        for found in QUOTES.findall(line):
            quotes = "" if found == quotes else quotes or found
    return starts
