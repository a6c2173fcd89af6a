"""What the live loop knows: how each koan stands, and which one has to be judged again. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sensei.compare import FileReading, read_copy
from sensei.records import Chapter
from sensei.verdict import DONE, Judgement


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
