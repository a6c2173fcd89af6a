"""The seven verdicts and the small algorithms around them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sensei.compare import Reading

Verdict = Literal["broken", "asleep", "altered", "open", "stopped", "not yet", "solved"]
VERDICTS: tuple[Verdict, ...] = (
    "broken",
    "asleep",
    "altered",
    "open",
    "stopped",
    "not yet",
    "solved",
)
DONE = ("solved", "asleep")

Outcome = Literal["passed", "failed", "skipped", "deadline", "died", "unimportable"]


@dataclass(frozen=True)
class Ran:
    """What happened when a koan ran. Everything in it survives JSON.

    error: type of the exception, its message, and the learner's own lines it passed
        through, innermost last, as (line number, text).
    """

    outcome: Outcome
    seconds: float = 0.0
    signal: str = ""  # died: the name of the signal, or the exit status
    line: int = 0  # where it stood, in the learner's file; 0 if unknown
    error_type: str = ""
    error_message: str = ""
    error_lines: tuple[tuple[int, str], ...] = ()
    printed: str = ""
    modules: tuple[str, ...] = ()  # installed modules it imported


@dataclass(frozen=True)
class Judgement:
    """One koan's verdict and all that its card needs. Survives JSON, so workers can send it."""

    id: str
    verdict: Verdict
    path: str  # of the learner's file, as pytest shows it
    line: int
    detail: str = ""  # broken, asleep, altered: why, in one line
    said: tuple[str, ...] = ()
    said_line: int = 0
    myth: str = ""  # the reason of the known wrong answer they gave
    at: str = ""  # what the book says of the given line that failed
    tautology: bool = False
    left_early: bool = False
    whole_file: bool = False  # broken: the trouble is the file's, not this koan's
    hint: int = 0  # how many hints the card shows
    seconds: float = 0.0
    ran: Ran | None = None
    in_process: bool = False
    digest: str = ""  # of the text it was judged by

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Judgement:
        fields = dict(data)
        if fields.get("ran"):
            ran = dict(fields["ran"])
            ran["error_lines"] = tuple((n, text) for n, text in ran["error_lines"])
            ran["modules"] = tuple(ran["modules"])
            fields["ran"] = Ran(**ran)
        fields["said"] = tuple(fields["said"])
        return cls(**fields)


def before_running(reading: Reading, *, file_error: bool, asleep: bool) -> Verdict | None:
    """The verdict that the source alone decides; None if the koan has to run."""
    if file_error or reading.state in ("missing", "twice"):
        return "broken"
    if asleep:
        return "asleep"
    if reading.state in ("altered", "open"):
        return reading.state
    if reading.agrees_with_itself or reading.leaves_early:
        return "not yet"
    return None


def after_running(ran: Ran) -> Verdict:
    """The verdict of a koan that ran. A skip is no pass: it never reached the question."""
    if ran.outcome == "unimportable":
        return "broken"
    if ran.outcome in ("deadline", "died"):
        return "stopped"
    return "solved" if ran.outcome == "passed" else "not yet"


def next_koan(judgements: Sequence[Judgement]) -> Judgement | None:
    """The one on the card: the first on the path that is neither solved nor asleep."""
    return next((j for j in judgements if j.verdict not in DONE), None)


def count(judgements: Iterable[Judgement]) -> dict[Verdict, int]:
    counts: dict[Verdict, int] = dict.fromkeys(VERDICTS, 0)
    for judgement in judgements:
        counts[judgement.verdict] += 1
    return counts


@dataclass(frozen=True)
class Tally:
    """Do the verdicts add up to the koans of the files named?"""

    expected: int
    judged: int
    deselected: int
    not_reached: int

    @property
    def adds_up(self) -> bool:
        return self.expected == self.judged + self.deselected + self.not_reached


def hint_step(known: Mapping[str, Any], said: str, steps: int) -> int:
    """How many hints to show for an unknown wrong answer: one more each time the text changed.

    ``known`` is what was stored for this koan: {"said": text, "hint": n}, or junk.
    """
    stored = known.get("hint") if isinstance(known, Mapping) else None
    step = stored if isinstance(stored, int) and 0 <= stored <= steps else 0
    if step == 0:
        return min(1, steps)
    return min(step + (known.get("said") != said), steps)
