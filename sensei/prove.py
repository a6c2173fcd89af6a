"""Prove koans: every right answer passes, every wrong and every lazy one fails.

Mutants are real files, since ``torch.jit.script`` reads source. The n-th mutant of every
koan goes into the n-th workbook, so that a whole book costs about twenty runs of pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from sensei.mutants import Mutant, mutants
from sensei.records import Chapter
from sensei.workbook import SETUP, fill, write

RECORDER = '''\
"""Written by sensei.prove: records the verdict of each koan as one JSON line."""
import json
from pathlib import Path


def pytest_runtest_logreport(report):
    judged = getattr(report, "koan", None)
    if judged is not None:
        with Path(__file__).with_name("verdicts.jsonl").open("a") as file:
            file.write(json.dumps({"id": judged["id"], "verdict": judged["verdict"]}) + "\\n")
'''


@dataclass(frozen=True)
class Result:
    """What became of one mutant."""

    mutant: Mutant
    verdict: str

    @property
    def as_expected(self) -> bool:
        if self.verdict == "asleep":
            return True
        return (self.verdict == "solved") == self.mutant.must_pass


def rounds(chapters: Iterable[Chapter]) -> Iterator[list[tuple[Chapter, list[Mutant]]]]:
    """The n-th mutant of every koan, chapter by chapter, until no koan has one left."""
    columns = [
        (chapter, list(zip_longest(*(list(mutants(chapter, koan)) for koan in chapter.koans))))
        for chapter in chapters
    ]
    for n in range(max((len(rows) for _, rows in columns), default=0)):
        yield [
            (chapter, [mutant for mutant in rows[n] if mutant is not None])
            for chapter, rows in columns
            if n < len(rows)
        ]


def run_round(folder: Path, chapters: list[tuple[Chapter, list[Mutant]]]) -> list[Result]:
    """Write one workbook of mutants into an empty folder, run it, and read the verdicts.

    Raises RuntimeError when pytest itself fails.
    """
    koans = folder / "koans"
    for chapter, chosen in chapters:
        answers = {mutant.koan.name: mutant.answers for mutant in chosen}
        write(koans / chapter.group / chapter.file, fill(chapter, answers))
    book_root = chapters[0][0].path.parent.parent
    (folder / "answers").symlink_to(book_root, target_is_directory=True)
    write_setup(folder)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "koans",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    verdicts = read_verdicts(folder)
    return [
        Result(mutant, verdicts.get(mutant.koan.id, "no verdict"))
        for _, chosen in chapters
        for mutant in chosen
    ]


def write_setup(folder: Path) -> None:
    """Make a folder one where pytest judges koans and leaves their verdicts in a file."""
    write(folder / "conftest.py", f'pytest_plugins = ["sensei.plugin"]\n{RECORDER}')
    write(folder / "pytest.ini", SETUP)


def read_verdicts(folder: Path) -> dict[str, str]:
    """koan id -> verdict, as the runs of pytest in a folder recorded them."""
    try:
        lines = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {row["id"]: row["verdict"] for row in map(json.loads, lines)}
