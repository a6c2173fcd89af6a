"""What a person means by a target on the command line: a koan, a file or a group."""

from __future__ import annotations

from pathlib import PurePath

from sensei import words
from sensei.records import Koan
from sensei.state import State
from sensei.workbook import Workbook, WorkbookError


def koans_of(workbook: Workbook, target: str) -> list[Koan]:
    """All koans a target names, in order. Raises WorkbookError if it names none, or two alike.

    Understood: ``01_tensor``, ``01_tensor/test_01_creation.py``, a node id as pytest prints
    it, ``test_01_creation.py`` and a bare ``test_name``; paths may lead to the workbook.
    """
    book = workbook.book
    file, _, name = target.partition("::")
    parts = PurePath(file.replace("\\", "/")).parts
    tail = "/".join(parts[-2:])
    last = parts[-1].removesuffix(".py") if parts else ""
    keys = [key for key in book.keys if tail == key or last == PurePath(key).stem]
    if name or keys:
        koans = [k for key in keys for k in book.chapter(key).koans if not name or k.name == name]
    elif parts[-1:] and parts[-1] in book.groups:
        keys = [key for key in book.keys if key.startswith(parts[-1] + "/")]
        return [koan for key in keys for koan in book.chapter(key).koans]
    elif file in ("", ".", "koans"):
        return list(book.koans)
    else:
        koans = [koan for koan in book.koans if file in (koan.name, *koan.aliases)]
    if not koans:
        raise WorkbookError(words.UNKNOWN_TARGET.format(target=target))
    if len({k.name for k in koans}) == 1 and len(koans) > 1:
        ids = " or ".join(koan.id for koan in koans)
        raise WorkbookError(words.AMBIGUOUS_TARGET.format(target=target, ids=ids))
    return koans


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
    """The first koan whose blank is open in the source, or that is missing there."""
    return next((koan for koan in koans if source_state(workbook, koan) != "filled"), None)


def source_state(workbook: Workbook, koan: Koan) -> str:
    """What the learner's file says of a koan: filled, open, altered, missing or twice."""
    reading = workbook.read(workbook.book.chapter(koan.key))
    if reading is None or koan.name not in reading.koans:
        return "missing"
    return reading.koans[koan.name].state
