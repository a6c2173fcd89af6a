"""The pytest nodes of a koan file: its items come from the book, never from an import.

A :class:`KoanItem` stands for each koan of the book, whatever the learner's file looks
like. The real ``pytest.Function`` behind it is made only when the koan runs, in the
process where it runs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from sensei.asleep import Sleep, missing_subject, sleep_of
from sensei.compare import FileReading, Reading
from sensei.records import Chapter, Koan
from sensei.shelf import SHELF
from sensei.workbook import Workbook


class GroupDir(pytest.Directory):
    """A group's folder. Files that the book has and the folder has not are koans too: broken."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        placed = self.config.stash[SHELF].place(self.path)
        assert placed is not None
        workbook, group = placed
        promised = {k.split("/")[1] for k in workbook.book.keys if k.split("/")[0] == group}
        here = {entry.name for entry in os.scandir(self.path) if entry.is_file()}
        for name in sorted(promised | here):
            path = self.path / name
            if name not in here:
                yield KoanFile.from_parent(self, path=path)
            elif not self.ihook.pytest_ignore_collect(collection_path=path, config=self.config):
                found = self.ihook.pytest_collect_file(file_path=path, parent=self)
                yield from (node for nodes in found for node in _listed(nodes))


def _listed(nodes: pytest.Collector | list[pytest.Collector]) -> list[pytest.Collector]:
    return nodes if isinstance(nodes, list) else [nodes]


class KoanFile(pytest.Module):
    """One koan file of a workbook, or one answers file of the book."""

    imported: bool = False
    import_failure: tuple[int, str] | None = None  # where and why it cannot be imported

    @cached_property
    def placed(self) -> tuple[Workbook, str]:
        placed = self.config.stash[SHELF].place(self.path)
        assert placed is not None
        return placed

    @property
    def ihook(self) -> Any:
        # By the folder: the file may be gone, and its conftest files still count.
        return self.session.gethookproxy(self.path.parent)

    @property
    def workbook(self) -> Workbook:
        return self.placed[0]

    @cached_property
    def chapter(self) -> Chapter:
        return self.workbook.book.chapter(self.placed[1])

    @property
    def is_book(self) -> bool:
        """An answers file: solved by definition, and shown as plain tests."""
        return self.workbook.root.resolve() == self.workbook.book.root.resolve()

    @cached_property
    def reading(self) -> FileReading:
        """What the learner's text says; of a book, that it is all filled."""
        if self.is_book:
            return FileReading(
                {k.name: Reading("filled", k.line, said=k.answers) for k in self.chapter.koans}
            )
        try:
            return self.workbook.read(self.chapter) or FileReading()
        except OSError as error:
            return FileReading(error=error.strerror or str(error), error_line=1)

    @cached_property
    def digest(self) -> str:
        """Tells this text of the file from any other; "" if there is no file."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]
        except OSError:
            return ""

    @property
    def shown(self) -> str:
        """The file's path as a person types it, from where they stand."""
        relative = os.path.relpath(self.path, self.config.invocation_params.dir)
        return str(self.path) if relative.startswith("..") else relative

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        for koan in self.chapter.koans:
            yield KoanItem.from_parent(self, name=koan.name, koan=koan)
        for name in self.reading.extras:
            yield ExtraItem.from_parent(self, name=name)

    @cached_property
    def tests(self) -> dict[str, pytest.Item | pytest.Collector]:
        """The file's tests by name, collected the way pytest does: imports the file, once."""
        return {node.name: node for node in super().collect()}


class KoanItem(pytest.Item):
    """One koan of the book, at its place in a learner's file."""

    def __init__(self, *, koan: Koan, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.koan = koan
        self.demonstrate = False  # run an open repair koan as given, to show its real error
        for mark in koan.marks:
            self.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **dict(mark.kwargs)))

    @property
    def file(self) -> KoanFile:
        assert isinstance(self.parent, KoanFile)
        return self.parent

    @property
    def ihook(self) -> Any:
        return self.file.ihook

    @property
    def reading(self) -> Reading:
        return self.file.reading.koans.get(self.name, Reading("missing"))

    @cached_property
    def sleep(self) -> Sleep | None:
        return sleep_of(self.koan)

    @property
    def no_subject(self) -> str:
        return missing_subject()

    @property
    def line(self) -> int:
        """Where the koan stands in the file, or where its neighbours say it should."""
        if self.reading.line:
            return self.reading.line
        names = [koan.name for koan in self.file.chapter.koans]
        before = names[: names.index(self.name)]
        lines = [self.file.reading.koans[n].line for n in before if n in self.file.reading.koans]
        return max(lines, default=self.file.reading.error_line) or 1

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name

    def runtest(self) -> None:
        raise NotImplementedError("a koan is run by pytest_runtest_protocol")


class ExtraItem(pytest.Item):
    """A test, or a class of tests, that the learner added to a koan file."""

    @property
    def file(self) -> KoanFile:
        assert isinstance(self.parent, KoanFile)
        return self.parent

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    def runtest(self) -> None:
        raise NotImplementedError("a learner's own test is run by pytest_runtest_protocol")
