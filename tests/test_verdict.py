"""Truth tables of the seven verdicts and the algorithms around them."""

from __future__ import annotations

import pytest

from sensei.compare import Reading
from sensei.verdict import (
    Judgement,
    Ran,
    Tally,
    Verdict,
    after_running,
    before_running,
    count,
    hint_step,
    next_koan,
)


@pytest.mark.parametrize(
    ("state", "file_error", "asleep", "verdict"),
    [
        ("missing", False, False, "broken"),
        ("missing", False, True, "broken"),
        ("twice", False, False, "broken"),
        ("filled", True, False, "broken"),
        ("open", True, True, "broken"),
        ("altered", False, True, "asleep"),
        ("open", False, True, "asleep"),
        ("filled", False, True, "asleep"),
        ("altered", False, False, "altered"),
        ("open", False, False, "open"),
        ("filled", False, False, None),
    ],
)
def test_what_the_source_alone_decides(
    state: str, file_error: bool, asleep: bool, verdict: Verdict | None
) -> None:
    reading = Reading(state)  # type: ignore[arg-type]
    assert before_running(reading, file_error=file_error, asleep=asleep) == verdict


@pytest.mark.parametrize("fault", ["agrees_with_itself", "leaves_early"])
def test_an_answer_that_asks_nothing_is_not_run(fault: str) -> None:
    reading = Reading("filled", **{fault: True})  # type: ignore[arg-type]
    assert before_running(reading, file_error=False, asleep=False) == "not yet"


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("passed", "solved"),
        ("failed", "not yet"),
        ("skipped", "not yet"),
        ("deadline", "stopped"),
        ("died", "stopped"),
        ("unimportable", "broken"),
    ],
)
def test_what_a_run_decides(outcome: str, verdict: str) -> None:
    assert after_running(Ran(outcome)) == verdict  # type: ignore[arg-type]


def judgements(*verdicts: Verdict) -> list[Judgement]:
    return [Judgement(str(i), verdict, "f.py", i) for i, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("verdicts", "index"),
    [
        ([], None),
        (["solved", "asleep"], None),
        (["open"], 0),
        (["solved", "open"], 1),
        (["asleep", "not yet", "open"], 1),
        (["solved", "broken", "open"], 1),
        (["solved", "altered"], 1),
        (["stopped", "open"], 0),
    ],
)
def test_the_next_koan(verdicts: list[Verdict], index: int | None) -> None:
    found = next_koan(judgements(*verdicts))
    assert (found and int(found.id)) == index


def test_counts_name_every_verdict() -> None:
    counts = count(judgements("solved", "open", "open"))
    assert counts["open"] == 2 and counts["solved"] == 1 and counts["broken"] == 0


@pytest.mark.parametrize(
    ("tally", "adds_up"),
    [
        (Tally(12, 12, 0, 0), True),
        (Tally(12, 3, 9, 0), True),
        (Tally(12, 3, 0, 9), True),
        (Tally(12, 11, 0, 0), False),
        (Tally(12, 13, 0, 0), False),
        (Tally(0, 0, 0, 0), True),
    ],
)
def test_verdicts_add_up(tally: Tally, adds_up: bool) -> None:
    assert tally.adds_up is adds_up


@pytest.mark.parametrize(
    ("known", "said", "steps", "step"),
    [
        ({}, "1", 2, 1),
        ({"said": "1", "hint": 1}, "1", 2, 1),
        ({"said": "1", "hint": 1}, "2", 2, 2),
        ({"said": "2", "hint": 2}, "3", 2, 2),
        ({"said": "1", "hint": "junk"}, "2", 2, 1),
        ({"said": 7, "hint": 99}, "2", 2, 1),
        ({"said": "1", "hint": 1}, "2", 1, 1),
    ],
)
def test_another_wrong_answer_earns_another_hint(
    known: dict[str, object], said: str, steps: int, step: int
) -> None:
    assert hint_step(known, said, steps) == step


def test_a_judgement_survives_json() -> None:
    import json

    ran = Ran("failed", 0.5, error_type="ValueError", error_lines=((3, "x"),), modules=("torch",))
    judgement = Judgement("a::b", "not yet", "f.py", 3, said=("1", "2"), ran=ran)
    assert Judgement.from_json(json.loads(json.dumps(judgement.to_json()))) == judgement
