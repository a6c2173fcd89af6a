"""A workbook of one's own: ``koans init`` makes it, ``koans update`` brings it a newer book."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
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


def init(folder: Path, groups: Sequence[str] = ()) -> int:
    """Write a fresh workbook, of all groups or of some, into a new or empty folder.

    Raises WorkbookError where the folder holds something (nothing is ever overwritten), where
    it cannot be made, and for a group that the book does not have.
    """
    whole = Book(packaged_root())
    wanted = [group.rstrip("/") for group in groups] or whole.groups
    for group in wanted:
        if group not in whole.groups:
            said = words.INIT_NO_GROUP.format(group=group, groups=", ".join(whole.groups))
            raise WorkbookError(said)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorkbookError(words.INIT_NOT_EMPTY.format(path=folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = words.INIT_NO_PLACE.format(path=folder, reason=error.strerror)
        raise WorkbookError(said) from error
    book = Book(whole.root, wanted)
    for chapter in book.chapters:
        path = folder / chapter.key
        write(path, shipped_text(chapter, path))
    write(folder / "pytest.ini", SETUP)
    _remember(folder, whole)
    say(words.INIT_DONE.format(path=shown(folder), count=sum(book.totals().values())))
    return 0


def update(workbook: Workbook, dry_run: bool) -> int:
    """Bring in the koans of this sensei's book; the learner's answers come along.

    A group that the learner deleted stays away; one that is new comes.
    """
    root, whole = workbook.root, workbook.with_all_groups.book
    base = root / STATE / "book"
    old = Book(base) if base.is_dir() else whole
    new = Book(whole.root, {*workbook.book.groups, *(set(whole.groups) - set(old.groups))})
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
            _remember(root, whole)
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
