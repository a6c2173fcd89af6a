"""Fixtures of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sensei.prove import write_setup
from sensei.workbook import write
from tests.desk import SMALL, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Callable[..., Desk]:
    """Make a desk from the text of answers files (default: SMALL), every koan open."""

    def make(text: str = SMALL, root: Path | None = None, **more: str) -> Desk:
        folder = root or tmp_path
        chapters = {"01_small/test_01_small.py": text}
        chapters |= {f"01_small/{name}.py": body for name, body in more.items()}
        for key, body in chapters.items():
            write(folder / "answers" / key, body)
        made = Desk(folder)
        for key in chapters:
            made.solve({}, key)
        write_setup(folder)
        return made

    return make
