"""Which folders are workbooks, and which are books: asked for every file that pytest meets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensei.book import Book
from sensei.workbook import Workbook, book_for


class Shelf:
    """Which folders are workbooks, and which are books. One per session."""

    def __init__(self) -> None:
        self._books: dict[Path, Book] = {}

    def place(self, path: Path) -> tuple[Workbook, str] | None:
        """The workbook (or the book itself) of a file or a group folder, and its key."""
        file = path.suffix == ".py"
        root = path.parent.parent if file else path.parent
        key = f"{path.parent.name}/{path.name}" if file else path.name
        workbook = self.workbook(root)
        book = workbook.book
        if not book.root.is_dir() or not (key in book if file else key in book.groups):
            return None
        return workbook, key

    def workbook(self, root: Path) -> Workbook:
        """The workbook of a root folder. Its book is read once a session."""
        if root not in self._books:
            self._books[root] = book_for(root)
        return Workbook(root, self._books[root])


SHELF = pytest.StashKey[Shelf]()
