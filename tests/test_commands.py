"""The commands, through the real command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sensei import words
from tests.desk import SMALL, Desk

MakeDesk = Callable[..., Desk]


def test_hints_come_in_steps(desk: MakeDesk) -> None:
    made = desk()
    first = made.koans("hint")
    assert first.returncode == 0
    assert "1 of 2. Look at the brackets." in first.stdout and "Count" not in first.stdout
    assert words.MORE_HINTS in first.stdout
    second = made.koans("hint").stdout
    assert "1 of 2. Look at the brackets.\n  2 of 2. Count the numbers" in second
    assert words.NO_MORE_HINTS in " ".join(second.split())


@pytest.mark.parametrize(
    "target",
    [
        "test_refused",
        "01_small/test_01_small.py::test_refused",
        "koans/01_small/test_01_small.py::test_refused",
        "test_01_small.py::test_refused",
        "test_01_small::test_refused",
    ],
)
def test_targets(desk: MakeDesk, target: str) -> None:
    assert "Six numbers, four places." in desk().koans("hint", target).stdout


@pytest.mark.parametrize("target", ["01_small", "01_small/test_01_small.py", "koans/01_small/"])
def test_a_group_or_file_means_its_first_open_koan(desk: MakeDesk, target: str) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"]})
    assert "Six numbers" in made.koans("hint", target).stdout


def test_the_current_koan_is_that_of_the_last_card(desk: MakeDesk) -> None:
    made = desk()
    made.pytest("koans", "-k", "twos")
    assert "test_twos" in made.koans("hint").stdout


def test_unknown_and_ambiguous_targets(desk: MakeDesk) -> None:
    made = desk(test_02_more=SMALL)
    done = made.koans("hint", "test_nothing")
    assert done.returncode == 1 and "`koans list` shows them all" in done.stderr
    done = made.koans("hint", "test_shape")
    assert done.returncode == 1 and "Say which" in done.stderr


def test_peek_asks_first(desk: MakeDesk) -> None:
    made = desk()
    done = made.koans("peek", input="y\n")
    assert done.returncode == 1 and "(2, 3)" not in done.stdout + done.stderr
    assert "(2, 3)" in made.koans("peek", "--yes").stdout


@pytest.mark.parametrize(("said", "shown"), [("y", True), ("", False), ("n", False)])
def test_peek_in_a_terminal(desk: MakeDesk, said: str, shown: bool) -> None:
    import sys

    import pexpect

    made = desk()
    child = pexpect.spawn(
        sys.executable, ["-m", "sensei", "peek"], cwd=str(made.root), timeout=60, encoding="utf-8"
    )
    child.expect_exact("[y/N]")
    child.sendline(said)
    child.expect(pexpect.EOF)
    assert ("(2, 3)" in child.before) == shown
    assert (words.PEEK_KEPT in child.before) != shown


def test_why_comes_after_solving(desk: MakeDesk) -> None:
    made = desk()
    done = made.koans("why", "test_shape")
    assert done.returncode == 1 and "Two rows" not in done.stdout
    made.solve({"test_shape": ["(2, 3)"]})
    made.pytest()
    assert "Two rows of three." in made.koans("why", "test_shape").stdout
    assert "Two rows of three." in made.koans("why").stdout


def test_docs_are_pytorchs_own(desk: MakeDesk) -> None:
    done = desk().koans("docs", "test_keep_the_old")
    assert done.returncode == 0
    assert done.stdout.startswith("torch.Tensor.clone") and "Returns a copy" in done.stdout


def test_list(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["ValueError"]})
    made.edit("Make y: three twos.", "Make y")
    made.pytest()
    output = made.koans("list").stdout
    assert "solved   test_shape  predict" in output
    assert "filled   test_refused  error" in output
    assert "open     test_twos  write" in output
    assert "1/4" in output


def test_reset_one_koan_and_keep_the_rest(desk: MakeDesk) -> None:
    made = desk()
    answers = {koan.name: koan.answers for koan in made.book.koans}
    made.solve(answers)
    made.edit("import torch\n", "import torch\nimport math\n")
    before = made.file().read_text()
    done = made.koans("reset", "test_refused")
    assert done.returncode == 0 and ".sensei/backups" in done.stdout
    after = made.file().read_text()
    assert after == before.replace("caught.type is RuntimeError", "caught.type is __")
    (backup,) = (made.root / "koans" / ".sensei" / "backups").rglob("*.py")
    assert backup.read_text() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_refused():", "def test_refusal():"),
        ("    assert caught.type is RuntimeError", "    assert caught.type is ((("),
        ("import torch\n", ""),
        ('    """Which exception?"""\n', ""),
        ("x = torch.arange(6)", "x = torch.arange(7)"),
    ],
)
def test_reset_mends(desk: MakeDesk, old: str, new: str) -> None:
    made = desk()
    made.solve({koan.name: koan.answers for koan in made.book.koans})
    made.edit(old, new)
    assert made.koans("reset", "test_refused").returncode == 0
    assert made.verdicts()["test_refused"] == "open"
    assert made.verdicts()["test_twos"] == "solved"


def test_reset_of_a_missing_file_brings_it_back(desk: MakeDesk) -> None:
    made = desk()
    text = made.file().read_text()
    made.file().unlink()
    done = made.koans("reset", "01_small/test_01_small.py")
    assert done.returncode == 0 and "it is back" in done.stdout
    assert made.file().read_text().split() == text.split()


def test_state_may_be_junk_or_unwritable(desk: MakeDesk) -> None:
    made = desk()
    state = made.root / "koans" / ".sensei" / "state.json"
    state.parent.mkdir()
    junk = ["", "{", "[]", '{"card": 3, "solved": 7, "koans": [1]}', json.dumps({"card": "x::y"})]
    for text in junk:
        state.write_text(text)
        assert made.pytest("koans", "-k", "shape").returncode == 1
        state.write_text(text)
        assert "Look at the brackets." in made.koans("hint", "test_shape").stdout
    state.write_bytes(b"\xff\xfe\0")
    assert made.koans("hint").returncode == 0


def test_outside_a_workbook(tmp_path: Path) -> None:
    done = Desk(tmp_path).koans("hint")
    assert done.returncode == 1
    assert done.stderr.startswith("no koans in") and "Traceback" not in done.stderr


def test_help_names_every_command(desk: MakeDesk) -> None:
    output = desk().koans("--help").stdout
    for name in ("hint", "peek", "why", "docs", "list", "reset", "build", "check", "new", "prove"):
        assert f"\n    {name} " in output


def test_the_reason_of_a_koan_that_sleeps_may_be_read(desk: MakeDesk) -> None:
    text = SMALL.replace(
        '@koan(\n    see="torch.full"',
        '@pytest.mark.needs(package="no_such")\n@koan(\n    see="torch.full"',
    )
    done = desk(text).koans("why", "test_twos")
    assert done.returncode == 0 and "sleeps here" in done.stdout
    assert "full, or ones times two." in done.stdout
