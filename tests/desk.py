"""A learner's desk for the tests: a small book, a workbook made from it, a command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sensei.book import Book
from sensei.prove import read_verdicts
from sensei.workbook import fill, write

REPO = Path(__file__).resolve().parent.parent

# One koan of each kind, small enough that a whole screen fits a test.
SMALL = '''\
"""Small: five koans for the tests."""

import pytest
import torch

from sensei import answer, koan


@koan(
    see="torch.tensor",
    hint=["Look at the brackets.", "Count the numbers in each bracket."],
    why="Two rows of three.",
    wrong={"(3, 2)": "Rows come first."},
    right=["torch.Size([2, 3])"],
)
def test_shape():
    """Two lists of three numbers. Which shape?"""
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert tuple(x.shape) == answer((2, 3))


@koan(
    see="torch.Tensor.view",
    hint="Six numbers, four places.",
    why="The numbers must fit.",
    wrong={"ValueError": "PyTorch speaks of its own failure."},
)
def test_refused():
    """Which exception?"""
    x = torch.arange(6)
    with pytest.raises(Exception) as caught:
        x.view(4)
    assert caught.type is answer(RuntimeError)


@koan(
    see="torch.Tensor.clone",
    hint="Two names, one memory.",
    why="A clone has memory of its own.",
    wrong={"y = x[:]": "A slice reads the same memory."},
)
def test_keep_the_old():
    """Repair the marked line, so that y keeps the old numbers."""
    x = torch.zeros(2)
    # answer:
    y = x.clone()
    # given:
    # y = x
    # end
    x += 1
    assert y.tolist() == [0.0, 0.0]


@koan(
    see="torch.full",
    hint="There is a function for a tensor full of one number.",
    why="full, or ones times two.",
    wrong={"y = torch.ones(3)": "Ones are not twos."},
    right=["y = torch.ones(3) * 2"],
)
def test_twos():
    """Make y: three twos."""
    # answer:
    y = torch.full((3,), 2.0)
    # end
    assert y.tolist() == [2.0, 2.0, 2.0]
'''


@dataclass
class Desk:
    """A learner's folder: a book in answers/, a workbook in koans/, and a command line."""

    root: Path

    @property
    def book(self) -> Book:
        return Book(self.root / "answers")

    @property
    def key(self) -> str:
        return self.book.keys[0]

    def file(self, key: str | None = None) -> Path:
        return self.root / "koans" / (key or self.key)

    def solve(self, answers: dict[str, Sequence[str]], key: str | None = None) -> None:
        """Write a file with some koans filled, the others as given."""
        write(self.file(key), fill(self.book.chapter(key or self.key), answers))

    def edit(self, old: str, new: str, key: str | None = None) -> None:
        """Change a learner's file as with an editor; the old text must be there."""
        text = self.file(key).read_text(encoding="utf-8")
        assert old in text
        self.file(key).write_text(text.replace(old, new, 1), encoding="utf-8")

    def pytest(self, *arguments: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pytest", *(arguments or ("koans",)), **kwargs)

    def koans(self, *arguments: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "sensei", *arguments, **kwargs)

    def run(
        self, *arguments: str, env: dict[str, str] | None = None, **kwargs: object
    ) -> subprocess.CompletedProcess[str]:

        base = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
        base |= {"PYTHONPATH": str(REPO), "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=base | (env or {}),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=300,
            **kwargs,  # type: ignore[call-overload]
        )

    def verdicts(self, *arguments: str) -> dict[str, str]:
        """Run the koans; return name -> verdict of each."""
        log = self.root / "verdicts.jsonl"
        log.unlink(missing_ok=True)
        self.last = self.pytest(*arguments)
        return {k.split("::")[1]: v for k, v in read_verdicts(self.root).items()}


def screen_of(output: str) -> str:
    """What pytest printed, without its header, timings and trailing spaces."""
    lines = [line.rstrip() for line in output.split("\n")]
    text = "\n".join(lines)
    return re.sub(r"in \d+\.\d+s", "in N s", text)
