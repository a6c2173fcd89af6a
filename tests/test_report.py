"""``koans report --json``: what docs/report.md promises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sensei.json_report import VERSION
from sensei.verdict import VERDICTS
from sensei.workbook import STATE, write
from tests.desk import REPO, SMALL, Desk

MakeDesk = Callable[..., Desk]
DOCUMENT = (REPO / "docs" / "report.md").read_text(encoding="utf-8")


@pytest.fixture
def made(desk: MakeDesk) -> Desk:
    made = desk(SMALL)
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["ValueError"]})
    return made


def report(made: Desk, *arguments: str) -> dict[str, Any]:
    done = made.koans("report", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert isinstance(data, dict)
    return data


def test_the_form_is_the_documented_one(made: Desk) -> None:
    data = report(made)
    shown = json.loads(re.findall(r"```json\n(.*?)```", DOCUMENT, re.S)[0])
    assert list(data) == list(shown) and list(data["counts"]) == list(shown["counts"])
    assert {tuple(row) for row in data["koans"]} == {tuple(shown["koans"][0])}
    for field in (*data, *data["koans"][0]):
        assert f"`{field}`" in DOCUMENT, field
    assert data["version"] == shown["version"] == VERSION


def test_verdicts_messages_and_seconds(made: Desk) -> None:
    data = report(made)
    assert [row["id"].split("::")[1] for row in data["koans"]] == [k.name for k in made.book.koans]
    assert [row["verdict"] for row in data["koans"]] == ["solved", "not yet", "open", "open"]
    assert data["counts"] == {**dict.fromkeys(VERDICTS, 0), "solved": 1, "not yet": 1, "open": 2}
    solved, wrong, *_ = data["koans"]
    assert solved["message"] == "" and solved["seconds"] >= 0
    assert "PyTorch speaks of its own failure." in wrong["message"]


def test_no_answer_is_in_it(made: Desk) -> None:
    text = json.dumps(report(made))
    assert "RuntimeError" not in text and ".clone()" not in text


@pytest.mark.parametrize(("target", "count"), [("test_twos", 1), ("01_small", 4), ("", 4)])
def test_a_target_narrows_it(made: Desk, target: str, count: int) -> None:
    assert len(report(made, *([target] if target else []))["koans"]) == count


def test_the_koans_of_a_missing_file_are_broken(desk: MakeDesk) -> None:
    more = SMALL.replace("def test_", "def test_more_")
    made = desk(SMALL, test_02_more=more)
    made.file("01_small/test_02_more.py").unlink()
    for target in ("01_small", ""):
        data = report(made, *([target] if target else []))
        assert [row["id"] for row in data["koans"]] == [koan.id for koan in made.book.koans]
        assert data["counts"]["open"] == data["counts"]["broken"] == 4
    gone = data["koans"][-1]
    assert "`koans reset 01_small/test_02_more.py::test_more_twos` brings" in gone["message"]
    made.file().unlink()
    assert report(made)["counts"]["broken"] == 8


def test_groups_that_are_not_here_are_not_in_it(made: Desk) -> None:
    write(made.root / "answers" / "02_more" / "test_01_more.py", SMALL)
    assert len(report(made)["koans"]) == 4


def test_a_koan_without_a_verdict_is_told(made: Desk) -> None:
    (made.root / "koans" / "pytest.ini").write_text("[pytest]\naddopts = -k twos\n")
    done = made.koans("report", "--json")
    assert done.returncode == 1 and "3 koans got no verdict" in done.stderr
    assert len(json.loads(done.stdout)["koans"]) == 1


def test_nothing_is_changed_by_it(made: Desk) -> None:
    made.pytest("koans")
    state = made.root / "koans" / STATE / "state.json"
    before = state.read_bytes(), made.file().read_bytes()
    made.edit("== (2, 3)", "== (3, 2)")
    changed = made.file().read_bytes()
    assert report(made)["counts"]["solved"] == 0
    assert (state.read_bytes(), made.file().read_bytes()) == (before[0], changed)


def test_into_a_file(made: Desk) -> None:
    done = made.koans("report", "--json", "-o", "out.json")
    assert done.returncode == 0 and done.stdout == ""
    assert json.loads((made.root / "out.json").read_text())["counts"]["solved"] == 1


def test_without_json_it_says_what_it_can(made: Desk) -> None:
    done = made.koans("report")
    assert done.returncode == 2 and "--json" in done.stderr


def test_a_hang_and_a_crash_are_verdicts_too(made: Desk) -> None:
    made.edit(
        "assert caught.type is ValueError",
        "__import__('os')._exit(0)\n    assert caught.type is ValueError",
    )
    verdicts = [row["verdict"] for row in report(made)["koans"]]
    assert verdicts == ["solved", "stopped", "open", "open"]
