"""Answer regions of an answers file: the lines between the author's comments."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from sensei.records import ANSWER, BLANK, END, GIVEN, TURN, BookError


@dataclass(frozen=True)
class Region:
    start: int  # line of "# answer:"
    end: int  # line of "# end"
    indent: int
    answer: str
    given: str

    def learner_text(self) -> str:
        pad = " " * self.indent
        lines = self.given.split("\n") if self.given else [BLANK]
        body = "".join(f"{pad}{line}".rstrip() + "\n" for line in lines)
        return f"{pad}{TURN}\n{body}{pad}{END}\n"


def inside(region: Region, node: ast.FunctionDef, tree: ast.Module) -> bool:
    # An answer that deletes its lines may stand after the last statement, as a mere comment;
    # so the next statement of the module ends a function here, not its own last line.
    after = min((n.lineno for n in tree.body if n.lineno > node.lineno), default=10**9)
    return bool(region.indent) and node.lineno < region.start < after


def regions_of(text: str, path: Path) -> list[Region]:
    lines = text.split("\n")
    regions: list[Region] = []
    start = given = None
    for line, column in _markers(text):
        word = lines[line - 1].strip()
        if word == ANSWER and start is None:
            start, given, indent = line, None, column
        elif word == GIVEN and start is not None and given is None:
            given = line
        elif word == END and start is not None:
            answer = dedent_block(lines[start : (given or line) - 1])
            learner = _uncomment(path, given + 1, lines[given : line - 1]) if given else ""
            regions.append(Region(start, line, indent, answer, learner))
            start = None
        else:
            raise BookError(path, line, f"{word!r} out of order: answer, then given, then end")
    if start is not None:
        raise BookError(path, start, f"{ANSWER!r} without {END!r}")
    return regions


def _markers(text: str) -> list[tuple[int, int]]:
    return [
        token.start
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and token.string.rstrip() in (ANSWER, GIVEN, END)
    ]


def _uncomment(path: Path, first: int, lines: list[str]) -> str:
    """The given lines of a region without their ``#``. ``first`` is the line of the first."""
    commented = [line.strip() for line in lines]
    for number, line in enumerate(commented, first):
        if not line.startswith("#"):
            raise BookError(path, number, "every given line is a comment: '# y[0] = 5.0'")
    given = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in commented)
    try:
        ast.parse(given)
    except SyntaxError as error:
        line_number = first + (error.lineno or 1) - 1
        raise BookError(path, line_number, f"given lines are Python: {error.msg}") from error
    return given


def dedent_block(lines: list[str]) -> str:
    """Lines without their common indentation and without blank lines around them."""
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    return "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
