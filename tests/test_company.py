"""Koans that passed before share a child; whatever goes wrong there, each is judged as if alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from sensei.state import load
from sensei.workbook import STATE
from tests.desk import Desk

MakeDesk = Callable[..., Desk]

# Each writes down in which process it ran. The second one misbehaves when it is told to.
BOOK = '''\
"""Three koans that tell where they ran."""

import os
import signal
import threading

import torch

from sensei import answer, koan

SHARED = []


def note(name):
    with open(os.environ["KOANS_NOTES"], "a") as notes:
        notes.write(f"{name} {os.getpid()}\\n")


@koan(see="torch.tensor", hint="h", why="w", wrong={"2": "r"})
def test_first():
    """One."""
    note("first")
    assert torch.ones(1).sum() == answer(1)


@koan(see="torch.tensor", hint="h", why="w", wrong={"2": "r"})
def test_second():
    """One."""
    note("second")
    exec(os.environ.get("KOANS_MISCHIEF", ""))
    assert torch.ones(1).sum() == answer(1)


@koan(see="torch.tensor", hint="h", why="w", wrong={"2": "r"})
def test_third():
    """One."""
    note("third")
    assert torch.ones(1).sum() + len(SHARED) == answer(1)
'''
ALL = {"test_first": ["1"], "test_second": ["1"], "test_third": ["1"]}


def notes(made: Desk) -> list[tuple[str, int]]:
    """(koan, process) in the order in which they ran; the notes are taken away."""
    file = made.root / "notes.txt"
    lines = [line.split() for line in file.read_text().splitlines()]
    file.unlink()
    return [(name, int(process)) for name, process in lines]


@pytest.fixture
def known(desk: MakeDesk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Three solved koans that have passed once, each in a child of its own."""
    made = desk(BOOK)
    monkeypatch.setenv("KOANS_NOTES", str(made.root / "notes.txt"))
    made.solve(ALL)
    assert made.pytest("koans").returncode == 0
    ran = notes(made)
    assert [name for name, _ in ran] == ["first", "second", "third"]
    assert len({process for _, process in ran}) == 3, "new koans each run alone"
    return made


def test_those_who_passed_share_one_child(known: Desk) -> None:
    assert known.pytest("koans").returncode == 0
    ran = notes(known)
    assert [name for name, _ in ran] == ["first", "second", "third"]
    assert len({process for _, process in ran}) == 1


@pytest.mark.parametrize("options", [["--isolate=fork"], ["-n", "2", "--isolate=fork"]])
def test_who_asks_for_forks_gets_forks(known: Desk, options: list[str]) -> None:
    assert known.pytest("koans", *options).returncode == 0
    assert len({process for _, process in notes(known)}) == 3


def test_a_changed_file_is_new(known: Desk) -> None:
    known.edit("import torch\n", "import torch\n\n# a thought of mine\n")
    assert known.pytest("koans").returncode == 0
    assert len({process for _, process in notes(known)}) == 3


def test_a_slow_koan_stays_alone(known: Desk) -> None:
    env = {"KOANS_MISCHIEF": "import time; time.sleep(0.4)"}
    assert known.pytest("koans", env=env).returncode == 0  # still known as quick
    notes(known)
    assert "test_second" not in str(load(known.root / "koans").quick)
    assert known.pytest("koans").returncode == 0
    alone = dict(notes(known))
    assert alone["first"] == alone["third"] != alone["second"]


@pytest.mark.parametrize(
    ("mischief", "verdict", "says"),
    [
        ("assert False", "not yet", ""),
        ("import pytest; pytest.skip()", "not yet", ""),
        ("raise SystemExit", "not yet", ""),
        ("os._exit(0)", "stopped", "exit status 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "stopped", "SIGSEGV"),
        ("lock = threading.Lock(); lock.acquire(); lock.acquire()", "stopped", "Stopped after"),
    ],
)
def test_mischief_is_judged_as_if_alone(
    known: Desk, mischief: str, verdict: str, says: str
) -> None:
    env = {"KOANS_MISCHIEF": mischief}
    state = known.root / "koans" / STATE / "state.json"
    kept = state.read_bytes()
    alone = known.pytest("koans", "--isolate=fork", "--deadline=2", env=env)
    notes(known)
    state.write_bytes(kept)
    done = known.pytest("koans", "--deadline=2", env=env)
    ran = notes(known)
    log = [json.loads(line) for line in (known.root / "verdicts.jsonl").read_text().splitlines()]
    verdicts = {line["id"].split("::")[1]: line["verdict"] for line in log[-3:]}
    assert verdicts["test_first"] == verdicts["test_third"] == "solved", done.stdout
    assert verdicts["test_second"] == verdict, done.stdout
    assert says in " ".join(done.stdout.split())
    assert [name for name, _ in ran].count("second") == 2, "tried beside the others, then alone"
    assert _without_time(done.stdout) == _without_time(alone.stdout)


def _without_time(screen: str) -> list[str]:
    return [line for line in screen.splitlines() if " in " not in line and "seed" not in line]


def test_what_one_leaves_behind_does_not_fail_the_next(known: Desk) -> None:
    """A module of the file is shared in company. Who fails by that is judged again, alone."""
    env = {"KOANS_MISCHIEF": "SHARED.append(1)"}
    done = known.pytest("koans", env=env)
    assert done.returncode == 0, done.stdout
    assert [name for name, _ in notes(known)] == ["first", "second", "third", "third"]


@pytest.mark.parametrize("junk", ['{"quick": 3}', '{"quick": {"a": 1}}', "[]", "", '{"quick": {'])
def test_junk_in_the_state_means_alone(known: Desk, junk: str) -> None:
    (known.root / "koans" / STATE / "state.json").write_text(junk)
    assert known.pytest("koans").returncode == 0
    assert len({process for _, process in notes(known)}) == 3


def test_nothing_is_left(known: Desk) -> None:
    """A process that a known koan leaves behind ends with the company."""
    marker = known.root / "alive.txt"
    script = known.root / "late.py"
    script.write_text(f"import time; time.sleep(3); open({str(marker)!r}, 'w').close()")
    mischief = (
        "import subprocess, sys; "
        f"subprocess.Popen([sys.executable, {str(script)!r}], start_new_session=True)"
    )
    assert known.pytest("koans", env={"KOANS_MISCHIEF": mischief}).returncode == 0
    time.sleep(3.5)
    assert not marker.exists()
