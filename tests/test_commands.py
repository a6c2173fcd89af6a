"""The commands, through the real command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sensei import words
from sensei.workbook import shipped_text, write
from tests.desk import SMALL, Desk

MakeDesk = Callable[..., Desk]
SLEEPY = SMALL.replace(
    '@koan(\n    see="torch.full"',
    '@pytest.mark.needs(package="no_such")\n@koan(\n    see="torch.full"',
)
MORE = "02_more/test_01_more.py"


def with_another_group(made: Desk, held: bool) -> Desk:
    """A desk whose book has two groups; of a learner who deleted the second, if not held."""
    write(made.root / "answers" / MORE, SMALL.replace("def test_", "def test_other_"))
    if held:
        made.solve({}, MORE)
    return made


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


def test_the_place_that_a_card_names_is_a_target(desk: MakeDesk) -> None:
    made = desk()
    lines = made.file().read_text().split("\n")
    first, last = lines.index("def test_refused():") + 1, lines.index("        x.view(4)") + 1
    for place in (f"koans/01_small/test_01_small.py:{first}", f"test_01_small.py:{last}:9"):
        assert "Six numbers, four places." in made.koans("hint", place).stdout
    made.edit("x.view(4)", "x.view((4)")  # what is no Python has places, too
    assert "Six numbers" in made.koans("hint", f"01_small/test_01_small.py:{last + 1}").stdout
    for line in (1, 0, 999):
        done = made.koans("hint", f"01_small/test_01_small.py:{line}")
        assert done.returncode == 2 and f"no koan at line {line}" in done.stderr
    assert made.koans("hint", "nowhere.py:3").returncode == 2


def test_unknown_and_ambiguous_targets(desk: MakeDesk) -> None:
    made = desk(test_02_more=SMALL)
    done = made.koans("hint", "test_nothing")
    assert done.returncode == 2 and "`koans list` shows them all" in done.stderr
    done = made.koans("hint", "test_shape")
    assert done.returncode == 2 and "Say which" in done.stderr


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


def test_what_sleeps_is_asleep_everywhere(desk: MakeDesk) -> None:
    made = desk(SLEEPY)
    assert "0/3  1 asleep" in made.pytest("koans").stdout
    made.solve({koan.name: koan.answers for koan in made.book.koans})
    output = made.koans("list").stdout
    assert "asleep   test_twos  write" in output and "filled   test_shape" in output
    assert "0/3  1 asleep" in output
    made.pytest("koans")
    assert "3/3  1 asleep" in made.koans("list", "test_shape").stdout
    assert "every koan" in made.koans("hint").stderr.lower(), "a sleeping one was chosen"
    made.koans("map", "-o", "path.html")
    page = (made.root / "path.html").read_text(encoding="utf-8")
    assert "3 of 3 koans" in page and "test_twos: asleep<" in page


def test_a_file_that_cannot_be_read_is_broken_in_the_list(desk: MakeDesk) -> None:
    made = desk()
    made.edit("x.view(4)", "x.view((4)")
    assert "broken   test_shape" in made.koans("list").stdout
    made.file().unlink()
    assert "broken   test_shape" in made.koans("list").stdout


def test_a_group_that_was_deleted_is_nowhere(desk: MakeDesk) -> None:
    made = with_another_group(desk(), held=False)
    assert "02_more" not in made.koans("list").stdout
    made.koans("map", "-o", "path.html")
    page = (made.root / "path.html").read_text(encoding="utf-8")
    assert "0 of 4 koans" in page and "test_other" not in page
    done = made.koans("hint", "02_more")
    assert done.returncode == 2 and "no koan, file or group here" in done.stderr
    made.solve({koan.name: koan.answers for koan in made.book.koans if koan.group == "01_small"})
    assert made.koans("hint").returncode == 2, "a koan of the group that is not here was chosen"


def test_a_group_that_was_deleted_comes_back_by_reset(desk: MakeDesk) -> None:
    made = with_another_group(desk(), held=False)
    assert made.koans("reset", ".").returncode == 0 and not made.file(MORE).exists()
    done = made.koans("reset", "02_more")
    assert done.returncode == 0 and "it is back" in done.stdout and made.file(MORE).exists()
    assert "0/4" in made.koans("list", "02_more").stdout


DAMAGES = (
    lambda text: text + b"\ndef x(:\n",
    lambda text: b"def broken(:\n" + text,
    lambda text: b"hello world, this is no python (\n",
    lambda text: bytes(range(256)),
    lambda text: text.replace(b"    x = torch.arange", b"<<<<<<< HEAD\n    x = torch.arange"),
    lambda text: text + b"\n\ndef mine():\n    pass\n",
)


@pytest.mark.parametrize("target", ["01_small/test_01_small.py", "01_small"])
def test_reset_of_a_file_gives_what_was_given(desk: MakeDesk, target: str) -> None:
    made = desk()
    given = shipped_text(made.book.chapter(made.key), made.file())
    for number, damage in enumerate(DAMAGES, 1):
        broken = damage(made.file().read_bytes())
        made.file().write_bytes(broken)
        done = made.koans("reset", target)
        assert done.returncode == 0 and "is as it was given" in done.stdout
        assert made.file().read_text() == given
        backups = [p.read_bytes() for p in (made.root / "koans/.sensei/backups").rglob("*.py")]
        assert len(backups) == number and broken in backups


@pytest.mark.parametrize("damage", DAMAGES[:5])
def test_reset_of_a_koan_says_that_its_file_is_still_broken(
    desk: MakeDesk, damage: Callable[[bytes], bytes]
) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"], "test_keep_the_old": ["y = x.clone()"]})
    broken = damage(made.file().read_bytes())
    made.file().write_bytes(broken)
    done = made.koans("reset", "test_refused")
    assert done.returncode == 1 and "as it was given" not in done.stdout
    assert "Mend that line, or" in done.stdout
    assert f"`koans reset {made.key}`" in done.stdout.replace("\n", " ")
    assert "koans/01_small/test_01_small.py:" in done.stdout
    text = made.file().read_bytes()
    assert text.count(b"def test_refused():") == text.count(b"Small: five koans") == 1
    if b"(2, 3)" in broken:
        assert b"(2, 3)" in text and b"y = x.clone()" in text, "a solution was lost"
    (backup,) = (made.root / "koans" / ".sensei" / "backups").rglob("*.py")
    assert backup.read_bytes() == broken


def test_the_only_koan_of_a_file_leaves_the_rest_of_it_alone(desk: MakeDesk) -> None:
    made = desk(SMALL[: SMALL.index('\n\n@koan(\n    see="torch.Tensor.view"')])
    made.solve({"test_shape": ["(2, 3)"]})
    made.edit("def test_shape", "MINE = 1\n\n\ndef test_shape")
    assert made.koans("reset", "test_shape").returncode == 0
    assert "MINE = 1" in made.file().read_text() and "== __" in made.file().read_text()


def test_reset_tells_what_still_changes_the_koan(desk: MakeDesk) -> None:
    made = desk()
    made.edit("def test_shape", "for torch in [3]:\n    pass\n\n\ndef test_shape")
    done = made.koans("reset", "test_refused")
    line = made.file().read_text().split("\n").index("for torch in [3]:") + 1
    assert done.returncode == 1 and f"test_01_small.py:{line}: `torch` is given" in done.stdout


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
    assert done.returncode == 2
    assert done.stderr.startswith("no koans in") and "Traceback" not in done.stderr


def test_help_names_every_command(desk: MakeDesk) -> None:
    output = desk().koans("--help").stdout
    for name in ("hint", "peek", "why", "docs", "list", "reset", "build", "check", "new", "prove"):
        assert f"\n    {name} " in output


def test_koans_alone_prints_the_help(desk: MakeDesk) -> None:
    made = desk()
    done = made.koans()
    assert done.returncode == 0 and done.stdout == made.koans("--help").stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "command",
    [
        ("init", "/proc/x"),
        ("init", "afile/x"),
        ("report", "--json", "-o", "nowhere/r.json"),
        ("report", "--json", "-o", "koans"),
        ("map", "-o", "nowhere/m.html"),
        ("map", "-o", "afile/m.html"),
        ("reset", "01_small"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_in_one_line(
    desk: MakeDesk, command: tuple[str, ...]
) -> None:
    made = desk()
    (made.root / "afile").write_text("")
    if command[0] == "reset":
        made.file().unlink()
        made.file().mkdir()
    done = made.koans(*command)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert "Choose" in done.stderr or "Make it first" in done.stderr or "Name a" in done.stderr
    assert not (made.root / "nowhere").exists()


def test_the_reason_of_a_koan_that_sleeps_may_be_read(desk: MakeDesk) -> None:
    done = desk(SLEEPY).koans("why", "test_twos")
    assert done.returncode == 0 and "sleeps here" in done.stdout
    assert "full, or ones times two." in done.stdout
