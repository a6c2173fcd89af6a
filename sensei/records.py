"""The records of the book: what one koan is, and one file of them. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["predict", "error", "repair", "write", "measure"]

# The author's comments around a region, and the learner's.
ANSWER, GIVEN, END, TURN = "# answer:", "# given:", "# end", "# your turn:"
BLANK = "__"


class BookError(Exception):
    """An answers file breaks the form of a koan. Its text names path, line and cure."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path, self.line, self.message = path, line, message


@dataclass(frozen=True)
class Slot:
    """One place the learner fills: a blank inside a line, or a region of lines."""

    answer: str  # source, dedented
    region: bool = False
    given: str = ""  # what the learner starts from, dedented; only regions have it


@dataclass(frozen=True)
class Wrong:
    """A wrong answer, one source per slot, and why somebody believes it."""

    answers: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Mark:
    """A ``@pytest.mark.NAME(*args, **kwargs)`` above a koan. Its arguments are literals."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        return dict(self.kwargs).get(key, default)


@dataclass(frozen=True)
class Koan:
    """All that the book says about one koan."""

    group: str  # "01_tensor"
    file: str  # "test_01_creation.py"
    name: str  # "test_what_made_a_leaf"
    kind: Kind
    lesson: str
    line: int  # of its ``def``, in the answers file
    slots: tuple[Slot, ...]
    see: str
    hints: tuple[str, ...]
    why: str
    wrong: tuple[Wrong, ...]
    right: tuple[tuple[str, ...], ...]
    claims: tuple[str, ...]
    aliases: tuple[str, ...]
    marks: tuple[Mark, ...]
    fixtures: tuple[str, ...]
    body_lines: int  # lines between the lesson and the end, in the answers file
    at: tuple[tuple[str, str], ...] = ()  # a piece of a given line, and what to say if it fails

    @property
    def key(self) -> str:
        """Of its file, as the book names it: ``group/file``."""
        return f"{self.group}/{self.file}"

    @property
    def id(self) -> str:
        return f"{self.key}::{self.name}"

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(slot.answer for slot in self.slots)

    @property
    def benchmarks(self) -> bool:
        """Does it hand a function to pytest-benchmark?"""
        return "benchmark" in self.fixtures

    def mark(self, name: str) -> Mark | None:
        return next((mark for mark in self.marks if mark.name == name), None)


@dataclass(frozen=True)
class Chapter:
    """One answers file: its koans in order, and the text its learner starts from."""

    path: Path
    text: str
    template: str  # the learner's text, before a formatter has seen it
    koans: tuple[Koan, ...]

    @property
    def group(self) -> str:
        return self.path.parent.name

    @property
    def file(self) -> str:
        return self.path.name

    @property
    def key(self) -> str:
        return f"{self.group}/{self.file}"

    def koan(self, name: str) -> Koan | None:
        return next((koan for koan in self.koans if koan.name == name), None)
