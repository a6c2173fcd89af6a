"""A newer book comes into an older workbook, and every answer comes along. Pure.

Three texts meet for each file: what the learner has, what it was made from, and what the
newer book gives. A koan that did not change between the books stays exactly as the learner
has it, comments and all. One that changed is given anew, with the learner's answers in it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from sensei.book import Book
from sensei.compare import Reading, read_copy
from sensei.records import Chapter, Koan
from sensei.restore import with_koan, without_koan
from sensei.workbook import fill, shipped_text


@dataclass
class Plan:
    """What an update does: new texts by file (None: it goes away), and who is concerned.

    Ids are those of the newer book; only ``removed`` holds old ones.
    """

    files: dict[str, str | None] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)  # changed or moved, with the answers in it
    changed: list[str] = field(default_factory=list)  # changed, and not filled
    lost: list[str] = field(default_factory=list)  # changed; the answer does not fit any more
    restored: list[str] = field(default_factory=list)  # the learner had deleted them
    removed: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # files that are not Python: left alone


@dataclass(frozen=True)
class Old:
    """A koan as the learner has it."""

    koan: Koan
    chapter: Chapter
    reading: Reading


def plan_update(mine: Mapping[str, bytes], old: Book, new: Book) -> Plan:
    """Plan an update of ``mine`` (file -> bytes), made from ``old``, to the book ``new``."""
    plan = Plan()
    had: dict[str, Old] = {}
    for key in old.keys:
        if key in mine:
            chapter = old.chapter(key)
            reading = read_copy(mine[key], chapter)
            if reading.error:
                plan.unreadable.append(key)
            for koan in chapter.koans:
                found = reading.koans.get(koan.name, Reading("missing"))
                had[koan.id] = Old(koan, chapter, found)
    taken: set[str] = set()
    for chapter in new.chapters:
        if chapter.key not in plan.unreadable:
            text = _new_text(plan, chapter, mine.get(chapter.key), had, taken)
            if text is not None:
                plan.files[chapter.key] = text
    _remove(plan, mine, had, taken, new)
    return plan


def _new_text(
    plan: Plan, chapter: Chapter, mine: bytes | None, had: Mapping[str, Old], taken: set[str]
) -> str | None:
    """The text of one file of the newer book; None if it may stay as it is."""
    order = [koan.name for koan in chapter.koans]
    answers: dict[str, tuple[str, ...]] = {}
    put: list[str] = []  # koans to be given anew
    for koan in chapter.koans:
        before = next((had[i] for i in _ids(koan) if i in had), None)
        if before is None:
            plan.added.append(koan.id)
            put.append(koan.name)
            continue
        taken.add(before.koan.id)
        if before.reading.state == "missing":
            plan.restored.append(koan.id)
            put.append(koan.name)
            continue
        if before.koan.id == koan.id and _given(before.chapter, koan) == _given(chapter, koan):
            continue
        put.append(koan.name)
        said = before.reading.said if before.reading.state == "filled" else ()
        if said and _fits(said, koan):
            answers[koan.name] = said
            plan.carried.append(koan.id)
        elif before.reading.state == "open":
            plan.changed.append(koan.id)
        else:
            plan.lost.append(koan.id)
    fresh = fill(chapter, answers) if answers else chapter.template
    if mine is None:
        return fresh if answers else shipped_text(chapter, chapter.path)
    text = mine.replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
    start = updated = text.decode(errors="surrogateescape")
    for name in ["", *put]:  # "": what is given around the koans
        updated = with_koan(updated, fresh, name, order)
    return updated if updated != start else None


def _ids(koan: Koan) -> list[str]:
    """What a koan may have been called before: its own id first."""
    home = koan.id.partition("::")[0]
    return [koan.id, *(a if "::" in a else f"{home}::{a}" for a in koan.aliases)]


def _given(chapter: Chapter, koan: Koan) -> str:
    """What a learner is given for a koan, as something that compares."""
    for node in ast.parse(chapter.template).body:
        if isinstance(node, ast.FunctionDef) and node.name == koan.name:
            return ast.dump(node)
    return ""


def _fits(said: tuple[str, ...], koan: Koan) -> bool:
    """Are there as many places as answers, and is each of the kind that its answer needs?"""
    if len(said) != len(koan.slots):
        return False
    for source, slot in zip(said, koan.slots):
        try:
            ast.parse(source, mode="exec" if slot.region else "eval")
        except SyntaxError:
            return False
    return True


def _remove(
    plan: Plan, mine: Mapping[str, bytes], had: Mapping[str, Old], taken: set[str], new: Book
) -> None:
    """Take out what the newer book has no more. A file goes when no koan is left in it."""
    for koan_id, before in had.items():
        key = before.chapter.key
        if koan_id in taken or key in plan.unreadable:
            continue
        if before.reading.state != "missing":
            plan.removed.append(koan_id)
        if key not in new:
            plan.files[key] = None
            continue
        text = plan.files.get(key) or mine[key].decode(errors="surrogateescape")
        plan.files[key] = without_koan(text, before.koan.name)
    for koan_id, before in had.items():  # moved to another file
        key = before.chapter.key
        if koan_id in taken and key not in plan.unreadable:
            if key not in new:
                plan.files[key] = None
            elif not new.chapter(key).koan(before.koan.name):
                text = plan.files.get(key) or mine[key].decode(errors="surrogateescape")
                plan.files[key] = without_koan(text, before.koan.name)
