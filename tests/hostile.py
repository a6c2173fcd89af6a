"""What learners do to their files, case by case, and what must come of it.

Each case changes a solved workbook of four koans. Data only; test_hostile.py plays the
cases through the real command line, and writes docs/hostile.md from what was printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BOOK = '''\
"""Small: four koans to be treated badly."""

import pytest
import torch

from sensei import answer, koan


@koan(see="torch.tensor", hint="h", why="w", wrong={"(3, 2)": "r"})
def test_shape():
    """Which shape?"""
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert tuple(x.shape) == answer((2, 3))


@koan(see="torch.zeros", hint="h", why="w", wrong={("1", "2"): "r"})
def test_two_sides():
    """How many rows, how many columns?"""
    x = torch.zeros(2, 3)
    assert x.shape[0] == answer(2)
    assert x.shape[1] == answer(3)


@pytest.mark.timeout(3)
@koan(see="torch.full", hint="h", why="w", wrong={"y = torch.ones(3)": "r"})
def test_twos():
    """Make y: three twos."""
    # answer:
    y = torch.full((3,), 2.0)
    # end
    assert y.tolist() == [2.0, 2.0, 2.0]


@koan(see="torch.Tensor.clone", hint="h", why="w", wrong={"y = x[:]": "r"})
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
'''

KOANS = ("test_shape", "test_two_sides", "test_twos", "test_keep_the_old")
LINE = "    y = torch.full((3,), 2.0)\n"
HEAD = "import torch\n"


@dataclass(frozen=True)
class Case:
    """One thing done to a koan file.

    edit: the learner's text, or its bytes, changed.
    expect: the verdicts that differ from solved.
    says: a part of the line that the screen must show.
    forks_only: whether only a child of its own survives it.
    """

    name: str
    edit: Callable[[str], str | bytes]
    expect: dict[str, str]
    says: str
    forks_only: bool = False
    options: tuple[str, ...] = field(default=())
    here: tuple[dict[str, str], str] | None = None  # expect and says where no child takes it

    def expect_in(self, isolate: str) -> dict[str, str]:
        return self.here[0] if self.here and isolate == "none" else self.expect

    def says_in(self, isolate: str) -> str:
        return self.here[1] if self.here and isolate == "none" else self.says


def inside(*lines: str) -> Callable[[str], str]:
    """Put lines into the region of test_twos, before its answer."""

    def edit(text: str) -> str:
        assert LINE in text
        return text.replace(LINE, "".join(f"    {line}\n" for line in lines) + LINE)

    return edit


def above(*lines: str) -> Callable[[str], str]:
    """Put lines at module level, under the imports."""

    def edit(text: str) -> str:
        assert HEAD in text
        return text.replace(HEAD, HEAD + "".join(f"{line}\n" for line in lines))

    return edit


def swap(old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return edit


def twos(verdict: str) -> dict[str, str]:
    return {"test_twos": verdict}


EVERY = {name: "broken" for name in KOANS}
SOON = ("--deadline", "4")

NATIVE_LOCK = ("import threading", "lock = threading.Lock()", "lock.acquire()", "lock.acquire()")
SEGFAULT = ("import ctypes", "ctypes.string_at(0)")
HUNG_WORKER = (
    "import time",
    "from torch.utils.data import DataLoader",
    "class Stuck(list):",
    "    def __getitem__(self, i):",
    "        time.sleep(3600)",
    "next(iter(DataLoader(Stuck([1, 2]), num_workers=2, multiprocessing_context='fork')))",
)
RUNAWAY = (
    "import os, time",
    "if os.fork() == 0:",
    "    os.setsid()",
    "    if os.fork() == 0:",
    "        time.sleep(3600)",
    "    os._exit(0)",
)

CASES = [
    Case("a syntax error", swap("== (2, 3)", "== (2, 3"), EVERY, "cannot read this file"),
    Case(
        "a deleted test",
        lambda text: text[: text.index("def test_two_s")] + text[text.index("@pytest.mark") :],
        {"test_two_sides": "broken"},
        "test_two_sides is gone",
    ),
    Case(
        "a renamed test",
        swap("def test_two_sides", "def test_both_sides"),
        {"test_two_sides": "broken"},
        "test_two_sides is gone",
    ),
    Case(
        "a test defined twice",
        lambda text: text + "\n\ndef test_shape():\n    pass\n",
        {"test_shape": "broken"},
        "test_shape is defined twice",
    ),
    Case(
        "one blank of two left",
        swap("x.shape[0] == 2", "x.shape[0] == __"),
        {"test_two_sides": "open"},
        "Put what you believe in place of __ .",
    ),
    Case("`return` in a region", inside("return"), twos("not yet"), "leave the test before"),
    Case("`pytest.skip()` in a region", inside("pytest.skip()"), twos("not yet"), "was skipped"),
    Case("`raise` in a region", inside("raise ValueError('x')"), twos("not yet"), "ValueError: x"),
    Case("an endless loop", inside("while True:", "    pass"), twos("stopped"), "Stopped after"),
    Case(
        "a native lock never released",
        inside(*NATIVE_LOCK),
        twos("stopped"),
        "Stopped after",
        forks_only=True,
    ),
    Case(
        "`os._exit(0)`",
        inside("import os", "os._exit(0)"),
        twos("stopped"),
        "ended (exit status 0)",
        forks_only=True,
    ),
    Case("`sys.exit()`", inside("import sys", "sys.exit()"), twos("not yet"), "SystemExit"),
    Case("a segfault", inside(*SEGFAULT), twos("stopped"), "died with SIGSEGV", forks_only=True),
    Case("`import torchh`", inside("import torchh"), twos("not yet"), "No module named 'torchh'"),
    Case(
        "a DataLoader worker that hangs",
        inside(*HUNG_WORKER),
        twos("stopped"),
        "Stopped after",
    ),
    Case("a child that leaves the process group", inside(*RUNAWAY), {}, "", forks_only=True),
    Case(
        "more memory than there is",
        inside("bytearray(1 << 44)"),
        twos("not yet"),
        "MemoryError",
    ),
    Case("megabytes printed", inside("print('x' * 20_000_000)"), {}, ""),
    Case(
        "printing without end",
        inside("while True:", "    print('x' * 10**6)"),
        twos("not yet"),
        "File too large",  # a child may write 64 MB
        here=(twos("stopped"), "Stopped after"),
    ),
    Case(
        "an endless loop at module level",
        above("while True:", "    pass"),
        EVERY,
        "it did not come to an end",
        options=SOON,
    ),
    Case(
        "a native lock at module level",
        above(*NATIVE_LOCK),
        EVERY,
        "it did not come to an end",
        forks_only=True,
        options=SOON,
    ),
    Case(
        "`os._exit(0)` at module level",
        above("import os", "os._exit(0)"),
        EVERY,
        "ended (exit status 0)",
        forks_only=True,
    ),
    Case(
        "`sys.exit(0)` at module level",
        above("import sys", "sys.exit(0)"),
        EVERY,
        "importing this file failed: SystemExit",
    ),
    Case(
        "a segfault at module level", above(*SEGFAULT), EVERY, "died with SIGSEGV", forks_only=True
    ),
    Case(
        "`pytest.skip` at module level",
        above("pytest.skip('no', allow_module_level=True)"),
        EVERY,
        "importing this file failed: Skipped",
    ),
    Case("`import torchh` at module level", above("import torchh"), EVERY, "No module named"),
    Case("`raise` at module level", above("raise ValueError('x')"), EVERY, "ValueError: x"),
    Case(
        "a file that is not UTF-8",
        lambda text: text.replace("four koans", "vier Köane").encode("latin-1"),
        EVERY,
        "not UTF-8",
    ),
    Case("NUL bytes", lambda text: text.replace("Small", "\0").encode(), EVERY, "NUL byte"),
    Case("CRLF line ends", lambda text: text.replace("\n", "\r\n").encode(), {}, ""),
    Case("tabs for spaces", lambda text: text.replace("    ", "\t"), {}, ""),
    Case("tabs among spaces", swap(LINE, "\t" + LINE.lstrip()), EVERY, "inconsistent use of tabs"),
    Case("an empty file", lambda text: "", EVERY, "is gone"),
    Case(
        "a given import deleted",
        swap("import torch\n", ""),
        {name: "altered" for name in KOANS},
        "the given `import torch` is missing",
    ),
    Case(
        "a helper that shadows torch",
        above("class torch:", "    zeros = full = tensor = lambda *a: 1"),
        {name: "altered" for name in KOANS},
        "`torch` is given",
    ),
]

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "hostile.md"
