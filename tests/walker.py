"""Walk a group as a learner does: solve one koan, run pytest, read the card. A script.

    python walker.py FOLDER GROUP

FOLDER holds answers/ and koans/. Every step is a whole run of pytest's command line, in a
fork of this process, which has imported torch and pytest's plugins once. Prints one JSON
line per step: the koan just solved, and the koan that the card named ("" if it named none).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy  # noqa: F401  (imported once, here, for all steps)
import pytest
import torch
import torch._dynamo  # noqa: F401  (an optimizer imports it, a second each time)

from sensei import late, supervise, words
from sensei.asleep import sleep_of
from sensei.book import Book
from sensei.workbook import fill, write

CARD = re.compile(
    rf"^{words.NEXT_CARD}.*\n(?P<where>\S+:\d+) +(?P<verdict>.+)\n(?P<name>\w+)(  \(.*)?$", re.M
)


def step(arguments: list[str]) -> tuple[int, str]:
    """One run of pytest; its exit code and what it printed."""

    def work() -> list[object]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), late.new_modules() as modules:
            code = pytest.main([*arguments, "-p", "no:cacheprovider", "-p", "no:randomly"])
        return [int(code), out.getvalue(), modules]

    ended = supervise.run(work, 300)
    assert ended.how == "answered", ended
    code, output, modules = ended.answer
    late.import_quietly(modules)  # the next step has them
    return code, output


def load_plugins() -> None:
    """Let pytest import its plugins itself, here: it rewrites their assertions."""
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--version", "--version"])


def card_of(output: str) -> str:
    found = CARD.search(output)
    return found["name"] if found else ""


def main(folder: Path, group: str) -> None:
    os.chdir(folder)
    os.environ["COLUMNS"] = "120"
    load_plugins()
    book = Book(folder / "answers")
    chapters = [c for c in book.chapters if c.group == group]
    for chapter in chapters:
        path = folder / "koans" / chapter.key
        solved: dict[str, tuple[str, ...]] = {}
        awake = [koan.name for koan in chapter.koans if sleep_of(koan) is None]
        waited: list[str] = []
        for koan in chapter.koans:
            solved[koan.name] = koan.answers
            write(path, fill(chapter, solved))
            left = [name for name in awake if name not in solved]
            code, output = step([f"koans/{chapter.key}", *waited])
            if koan.mark("timeout") or koan.benchmarks:
                # It takes its time, and need not take it again before the whole group is run.
                waited.append(f"--deselect=koans/{koan.id}")
            row = {"solved": koan.id, "card": card_of(output), "next": (left or [""])[0]}
            print(json.dumps({**row, "code": code, "output": output}), flush=True)
    code, output = step([f"koans/{group}"])
    print(
        json.dumps(
            {"solved": group, "card": card_of(output), "next": "", "code": code, "output": output}
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
