"""The book: all answers files below a folder, each read when it is first asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path

from sensei.parse import read_chapter
from sensei.records import Chapter, Koan

GROUP = re.compile(r"\d\d_[a-z]+$")


class Book:
    """All chapters below a folder of answers, each read when it is first asked for.

    ``only``: the names of the groups that count; None is all.
    """

    def __init__(self, root: Path, only: Collection[str] | None = None) -> None:
        self.root = root
        self._only = only
        self._chapters: dict[str, Chapter] = {}

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """``group/file`` of every chapter, in the order of the path."""
        return tuple(
            f"{group.name}/{file.name}"
            for group in sorted(self.root.iterdir())
            if group.is_dir() and GROUP.match(group.name)
            if self._only is None or group.name in self._only
            for file in sorted(group.glob("test_*.py"))
        )

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key.split("/")[0] for key in self.keys))

    def totals(self) -> dict[str, int]:
        """How many koans each group has: a quick look, which parses nothing."""
        counts = dict.fromkeys(self.groups, 0)
        for key in self.keys:
            text = (self.root / key).read_text(encoding="utf-8")
            counts[key.split("/")[0]] += len(re.findall(r"^@koan\(", text, re.M))
        return counts

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def chapter(self, key: str) -> Chapter:
        if key not in self._chapters:
            self._chapters[key] = read_chapter(self.root / key)
        return self._chapters[key]

    @property
    def chapters(self) -> Iterator[Chapter]:
        return (self.chapter(key) for key in self.keys)

    @property
    def koans(self) -> Iterator[Koan]:
        return (koan for chapter in self.chapters for koan in chapter.koans)

    def find(self, koan_id: str) -> Koan | None:
        key, _, name = koan_id.partition("::")
        return self.chapter(key).koan(name) if key in self else None


def packaged_root() -> Path:
    """The answers that came with this sensei: beside it in a clone, inside it in a wheel."""
    here = Path(__file__).resolve().parent
    inside = here / "_answers"
    return inside if inside.is_dir() else here.parent / "answers"
