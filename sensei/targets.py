"""What a person means by a target on the command line: a koan, a file, a place or a group."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from sensei import words
from sensei.book import GROUP, Book
from sensei.records import Koan
from sensei.restore import split_blocks
from sensei.standing import DONE_HERE, stand_of_each
from sensei.state import State
from sensei.workbook import Workbook, WorkbookError

PLACE = re.compile(r"(.+\.py):(\d+)(?::\d+)?:?")  # FILE:LINE, as a card or a compiler prints it


@dataclass(frozen=True)
class Chosen:
    """What a target names."""

    koans: list[Koan]  # in order, at least one
    whole: bool = True  # whole files, and not a koan of one


def koans_of(workbook: Workbook, target: str) -> list[Koan]:
    """All koans a target names, in order. Raises WorkbookError like :func:`chosen`."""
    return chosen(workbook, target).koans


def chosen(workbook: Workbook, target: str) -> Chosen:
    """What a target names. Raises WorkbookError if that is nothing, or two koans alike.

    Understood: ``01_tensor``, ``01_tensor/test_01_creation.py``, a node id as pytest prints
    it, ``FILE:LINE`` as a card prints it, ``test_01_creation.py`` and a bare ``test_name``;
    paths may lead to the workbook.
    """
    book = workbook.book
    place = PLACE.fullmatch(target)
    if place:
        return Chosen([_koan_at(workbook, place[1], int(place[2]))], whole=False)
    file, _, name = target.partition("::")
    keys = _files(book, file)
    if keys:
        koans = [k for key in keys for k in book.chapter(key).koans if not name or k.name == name]
    elif not name and file in ("", ".", "koans"):
        return Chosen(list(book.koans))
    else:
        koans = [koan for koan in book.koans if target in (koan.name, *koan.aliases)]
        name = target
    if not koans:
        raise WorkbookError(words.UNKNOWN_TARGET.format(target=target))
    if name and len(koans) > 1:
        ids = " or ".join(koan.id for koan in koans)
        raise WorkbookError(words.AMBIGUOUS_TARGET.format(target=target, ids=ids))
    return Chosen(koans, whole=not name)


def _files(book: Book, file: str) -> list[str]:
    """The keys of the files that a path, the name of a file or a group may mean."""
    parts = PurePath(file.replace("\\", "/")).parts
    if not parts:
        return []
    last = parts[-1].removesuffix(".py")
    if len(parts) > 1 and GROUP.match(parts[-2]):
        key = f"{parts[-2]}/{last}.py"
        return [key] if key in book else []
    return [key for key in book.keys if last in (PurePath(key).stem, key.split("/")[0])]


def _koan_at(workbook: Workbook, file: str, line: int) -> Koan:
    """The koan that holds a line of the learner's file. The file need not be Python."""
    for key in _files(workbook.book, file):
        chapter = workbook.book.chapter(key)
        try:
            text = workbook.path(chapter).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            continue
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        end = 0
        for block in split_blocks(text, [k.name for k in chapter.koans]):
            end += block.text.count("\n") + 1
            if line <= end:
                koan = chapter.koan(block.name)
                if koan is not None and line > 0:
                    return koan
                break
        raise WorkbookError(words.NO_KOAN_THERE.format(file=key, line=line))
    raise WorkbookError(words.UNKNOWN_TARGET.format(target=f"{file}:{line}"))


def one_koan(workbook: Workbook, state: State, target: str | None) -> Koan:
    """The koan a target means: itself, or the first one of a file or group that is open.

    Without a target: the koan of the last card. Raises WorkbookError if all are solved.
    """
    if target is None:
        known = workbook.book.find(state.card) if state.card else None
        koan = known or first_open(workbook, list(workbook.book.koans))
        if koan is None:
            raise WorkbookError(words.NO_CURRENT)
        return koan
    koans = koans_of(workbook, target)
    return koans[0] if len(koans) == 1 else first_open(workbook, koans) or koans[0]


def first_open(workbook: Workbook, koans: list[Koan]) -> Koan | None:
    """The first koan that its file does not show as filled, and that could be solved here."""
    stands = stand_of_each(workbook, koans)
    return next((koan for koan, stand in stands if stand not in DONE_HERE), None)
