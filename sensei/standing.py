"""How each koan stands: from the files alone, and as the live loop judged it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from sensei.asleep import sleep_of
from sensei.compare import FileReading, read_copy
from sensei.records import Chapter, Koan
from sensei.verdict import DONE, Judgement
from sensei.workbook import Workbook

# Verdicts, as far as they can be told without a run; filled: only a run can tell.
Stand = Literal["broken", "asleep", "altered", "open", "filled", "solved"]
DONE_HERE: tuple[Stand, ...] = ("asleep", "filled", "solved")


def how_it_stands(koan: Koan, reading: FileReading | None, solved: Collection[str]) -> Stand:
    """How a koan stands, in the order of the verdicts.

    reading: its file's; None where that is missing. solved: the ids that a run saw solved.
    """
    found = reading.koans.get(koan.name) if reading else None
    if found is None or found.state in ("missing", "twice"):
        return "broken"
    if sleep_of(koan):
        return "asleep"
    if found.state == "altered" or found.state == "open":
        return found.state
    return "solved" if koan.id in solved else "filled"


def stand_of_each(
    workbook: Workbook, koans: Iterable[Koan], solved: Collection[str] = ()
) -> Iterator[tuple[Koan, Stand]]:
    """Koans with how they stand. A file is read when its first koan is asked for."""
    for key, mine in groupby(koans, key=lambda koan: koan.key):
        reading = workbook.read(workbook.book.chapter(key))
        for koan in mine:
            yield koan, how_it_stands(koan, reading, solved)


# the live loop ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One file as it is now."""

    digest: str
    reading: FileReading | None  # None: the file is not there


def look(data: bytes | None, chapter: Chapter) -> Seen:
    if data is None:
        return Seen("", None)
    return Seen(hashlib.sha256(data).hexdigest(), read_copy(data, chapter))


def text_of(seen: Seen, name: str) -> str:
    """All of a file that a koan's verdict depends on, as something that compares.

    Where the file is as given outside its koans, that is the koan's own answer; else it is
    the whole file, since a helper of the learner's may be behind any answer.
    """
    reading = seen.reading
    if reading is None or reading.error or not reading.same_module:
        return seen.digest
    koan = reading.koans.get(name)
    return repr((koan.state, koan.said, koan.detail, koan.leaves_early)) if koan else "missing"


@dataclass
class Standing:
    """The koans of a scope, in order, with the last verdict of each and the text it was for."""

    ids: Sequence[str]
    verdicts: dict[str, Judgement] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def stale(self, files: Mapping[str, Seen]) -> list[str]:
        """The koans whose text is not the one that was judged."""
        return [i for i in self.ids if self.texts.get(i) != _text(files, i)]

    def judged(self, judgements: Sequence[Judgement], files: Mapping[str, Seen]) -> None:
        for judgement in judgements:
            self.verdicts[judgement.id] = judgement
            self.texts[judgement.id] = _text(files, judgement.id)

    def done(self, koan_id: str) -> bool:
        judgement = self.verdicts.get(koan_id)
        return judgement is not None and judgement.verdict in DONE

    def next_after(self, koan_id: str | None) -> str | None:
        """The next koan that is not done: after this one, then from the start of the path."""
        start = self.ids.index(koan_id) + 1 if koan_id in self.ids else 0
        order = [*self.ids[start:], *self.ids[:start]]
        return next((i for i in order if not self.done(i)), None)

    def first(self) -> str | None:
        """The first koan on the path that is not done."""
        return next((i for i in self.ids if not self.done(i)), None)


def _text(files: Mapping[str, Seen], koan_id: str) -> str:
    key, _, name = koan_id.partition("::")
    return text_of(files[key], name)
