"""A workbook of one's own: ``koans init`` makes it, ``koans update`` brings it a newer book."""

from __future__ import annotations

import shutil
from pathlib import Path

from sensei import words
from sensei.book import Book, packaged_root
from sensei.learner import say, shown
from sensei.update import Plan, plan_update
from sensei.workbook import (
    SETUP,
    STATE,
    Workbook,
    WorkbookError,
    backup,
    keep_out_of_git,
    shipped_text,
    write,
)


def init(folder: Path) -> int:
    """Write a fresh workbook into a new or empty folder.

    Raises WorkbookError where the folder holds something: nothing is ever overwritten.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorkbookError(words.INIT_NOT_EMPTY.format(path=folder))
    book = Book(packaged_root())
    for chapter in book.chapters:
        path = folder / chapter.key
        write(path, shipped_text(chapter, path))
    write(folder / "pytest.ini", SETUP)
    _remember(folder, book)
    say(words.INIT_DONE.format(path=shown(folder), count=sum(book.totals().values())))
    return 0


def update(workbook: Workbook, dry_run: bool) -> int:
    """Bring in the koans of this sensei's book; the learner's answers come along."""
    root, new = workbook.root, workbook.book
    base = root / STATE / "book"
    old = Book(base) if base.is_dir() else new
    keys = dict.fromkeys((*old.keys, *new.keys))
    mine = {key: (root / key).read_bytes() for key in keys if (root / key).is_file()}
    plan = plan_update(mine, old, new)
    _tell(plan)
    if not dry_run:
        for key, text in plan.files.items():
            path = root / key
            if path.exists():
                say(words.UPDATE_BACKUP.format(path=key, backup=shown(backup(root, path))))
            if text is None:
                path.unlink(missing_ok=True)
            else:
                write(path, text)
        if not plan.unreadable:
            _remember(root, new)
    last = words.UPDATE_DRY if dry_run else words.UPDATE_DONE
    say(last if plan.files else words.UPDATE_NOTHING)
    return 1 if plan.unreadable else 0


def _tell(plan: Plan) -> None:
    """One line per koan that the learner should know of."""
    for word, ids in (
        (words.UPDATE_ADDED, plan.added),
        (words.UPDATE_CARRIED, plan.carried),
        (words.UPDATE_CHANGED, plan.changed),
        (words.UPDATE_LOST, plan.lost),
        (words.UPDATE_RESTORED, plan.restored),
        (words.UPDATE_REMOVED, plan.removed),
        (words.UPDATE_UNREADABLE, plan.unreadable),
    ):
        for koan_id in ids:
            say(word.format(id=koan_id))


def _remember(root: Path, book: Book) -> None:
    """Keep the book that a workbook was made from: an update compares with it."""
    base = root / STATE / "book"
    shutil.rmtree(base, ignore_errors=True)
    for key in book.keys:
        target = base / key
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(book.root / key, target)
    keep_out_of_git(root)
