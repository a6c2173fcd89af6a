"""The whole path, walked by a program: at each step the card names the right next koan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sensei.book import Book, packaged_root
from sensei.prove import write_setup
from sensei.workbook import write

BOOK = Book(packaged_root())
REPO = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("group", BOOK.groups)
def test_from_nothing_to_all_solved(group: str, tmp_path: Path) -> None:
    (tmp_path / "answers").symlink_to(BOOK.root, target_is_directory=True)
    for chapter in BOOK.chapters:
        write(tmp_path / "koans" / chapter.key, chapter.template)
    write_setup(tmp_path)
    done = subprocess.run(
        [sys.executable, REPO / "tests" / "walker.py", tmp_path, group],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    koans = [koan for koan in BOOK.koans if koan.group == group]
    assert [step["solved"] for step in steps] == [koan.id for koan in koans] + [group]
    for step in steps:
        assert step["card"] == step["next"], step["output"]
        assert step["code"] == (1 if step["next"] else 0), step["output"]
    assert f"{len(koans)} solved" in steps[-1]["output"] or "asleep" in steps[-1]["output"]
