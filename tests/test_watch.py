"""The live loop, driven in a pseudo-terminal as a person would; and the pure parts of it."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sensei import checking
from sensei.editor import editor_command
from sensei.standing import Standing, look
from sensei.verdict import Judgement, Verdict
from sensei.workbook import STATE
from tests.desk import REPO, SMALL, Desk

pexpect = pytest.importorskip("pexpect")
MakeDesk = Callable[..., Desk]
KEYS = "q quit"  # the last words of every screen


class Terminal:
    """``koans watch`` in a pseudo-terminal, and an editor beside it."""

    def __init__(self, desk: Desk, *arguments: str, **env: str) -> None:
        self.desk = desk
        # A size in the environment would stand above the terminal's own.
        drop = ("PYTEST_", "COLUMNS", "LINES")
        base = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
        base |= {"PYTHONPATH": str(REPO), "TERM": "xterm", "OMP_NUM_THREADS": "1"}
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "sensei", "watch", *arguments],
            cwd=str(desk.root),
            env=base | env,
            encoding="utf-8",
            dimensions=(50, 100),
            timeout=120,
        )
        self.before = termios.tcgetattr(self.child.child_fd)

    def sees(self, *texts: str) -> str:
        """Wait until one screen holds these texts, in order; return what stood before the keys."""
        for text in texts:
            self.child.expect_exact(text)
        self.child.expect_exact(KEYS)
        return str(self.child.before)

    def save(self, old: str, new: str) -> None:
        self.desk.edit(old, new)

    def save_by_rename(self, old: str, new: str) -> None:
        """As vim and many others save: a new file takes the old one's place."""
        file = self.desk.file()
        text = file.read_text()
        assert old in text
        beside = file.with_suffix(".py~")
        beside.write_text(text.replace(old, new, 1))
        os.replace(beside, file)

    def press(self, key: str) -> None:
        self.child.send(key)

    def ends(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)


@pytest.fixture
def watching(desk: MakeDesk) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(*arguments: str, text: str = SMALL, **env: str) -> Terminal:
        made = desk(text)
        opened.append(Terminal(made, *arguments, **env))
        return opened[-1]

    yield open_one
    for one in opened:
        one.child.close(force=True)


@pytest.mark.timeout(600)
def test_a_whole_hour_at_the_desk(watching: Callable[..., Terminal]) -> None:
    at = watching()
    at.sees("open", "test_shape", "Which shape?")
    # wrong, with a known myth; then another wrong one; then right
    at.save("== __", "== (3, 2)")
    assert "Save, and run" not in at.sees("not yet", "Rows come first.")
    at.save("(3, 2)", "(9, 9)")
    at.sees("A hint:", "Look at the brackets.")
    at.press("h")
    at.sees("1 of 2")
    at.save("(9, 9)", "(2, 3)")
    at.sees("Solved.", "test_shape", "Two rows of three.")
    # it stays there: nothing of the next koan is shown until somebody goes on
    time.sleep(0.5)
    assert at.child.expect_exact(["test_refused", pexpect.TIMEOUT], timeout=0.5) == 1
    at.press("\r")
    at.sees("open", "test_refused", "Which exception?")
    # a syntax error, mended by the next save
    at.save("caught.type is __", "caught.type is (")
    at.sees("broken", "Python cannot read this file")
    at.save("caught.type is (", "caught.type is ValueError")
    at.sees("not yet", "PyTorch speaks of its own failure.")
    # peek asks first
    at.press("p")
    at.sees("Another try may teach more")
    at.press("n")
    at.sees("It stays hidden.")
    at.press("p")
    at.sees("Another try may teach more")
    at.press("y")
    at.sees("RuntimeError")
    # an endless loop; the correct save ends that check at once
    start = time.monotonic()
    at.save("x.view(4)", "x.view(4)\n    while True: pass")
    at.child.expect_exact("still running: 2 s (a koan may take 60)")
    at.save("\n    while True: pass", "")
    at.save("is ValueError", "is RuntimeError")
    at.sees("Solved.", "test_refused")
    assert time.monotonic() - start < 50, "it waited for the deadline of the loop"
    at.press("n")
    # rename-style saves, twice
    at.sees("test_keep_the_old")
    at.save_by_rename("    y = x\n", "    y = x[:]\n")
    at.sees("not yet", "A slice reads the same memory.")
    at.save_by_rename("    y = x[:]\n", "    y = x.clone()\n")
    at.sees("Solved.", "test_keep_the_old")
    at.press("\r")
    at.sees("open", "test_twos")
    # the file is deleted; reset asks, and brings it back
    mine = at.desk.file().read_text()
    at.desk.file().unlink()
    at.sees("broken", "koans reset")
    at.press("r")
    at.sees("Put test_twos back")
    at.press("y")
    at.sees("test_twos")
    assert "def test_twos" in at.desk.file().read_text()
    # with a copy of one's own file all is as it was
    at.desk.file().write_text(mine)
    at.sees("open", "test_twos")
    at.press("r")
    at.sees("Put test_twos back")
    at.press("y")
    at.sees("Your old file:")
    assert list((at.desk.root / "koans" / STATE / "backups").rglob("*.py"))
    at.press("q")
    at.child.expect_exact("3 of 4 solved")
    assert at.ends() == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["q", "\x03", "\x04", "SIGTERM"])
def test_the_terminal_is_always_put_back(watching: Callable[..., Terminal], how: str) -> None:
    at = watching()
    at.sees("test_shape")
    raw = termios.tcgetattr(at.child.child_fd)
    assert raw[3] != at.before[3], "keys are not read one by one"
    fd = os.dup(at.child.child_fd)
    if how == "SIGTERM":
        at.child.kill(15)
    else:
        at.press(how)
    at.child.expect(pexpect.EOF)
    assert termios.tcgetattr(fd) == at.before
    os.close(fd)


@pytest.mark.timeout(300)
def test_a_resize_draws_anew_and_other_verdicts_are_told(
    watching: Callable[..., Terminal],
) -> None:
    at = watching()
    at.sees("test_shape")
    at.child.setwinsize(30, 60)
    at.sees("test_shape", "Which shape?")
    at.press("n")
    at.sees("test_refused")
    at.save("== __", "== (3, 2)")
    at.sees("test_refused", "Also judged: test_shape: not yet")
    # a list stays on the screen whatever is saved; q leaves the list, not the loop
    at.press("l")
    at.child.expect_exact("Search for")
    at.child.send("twos\r")
    at.child.expect_exact("Any key goes back")
    at.save("(3, 2)", "(2, 3)")
    time.sleep(2)
    at.press("q")
    at.sees("test_refused")
    at.press("q")
    assert at.ends() == 0


@pytest.mark.timeout(300)
def test_list_searches_and_the_editor_opens_at_the_line(
    watching: Callable[..., Terminal], tmp_path: Path
) -> None:
    script = tmp_path / "my_editor"
    script.write_text('#!/bin/sh\necho "EDITOR GOT $@"\n')
    script.chmod(0o755)
    at = watching(VISUAL=str(script))
    at.sees("test_shape")
    at.press("l")
    at.child.expect_exact("Search for")
    at.child.send("exception\r")
    at.child.expect_exact("test_refused")
    assert "test_twos" not in at.child.before
    at.child.expect_exact("Any key goes back")
    at.press("x")
    at.sees("test_shape")
    at.press("e")
    at.child.expect_exact("EDITOR GOT +12 ")
    at.child.expect_exact("test_01_small.py")
    at.sees("test_shape")
    at.press("n")  # skip
    at.sees("open", "test_refused")
    at.press("\x1b")  # nothing
    at.press("q")
    assert at.ends() == 0


@pytest.mark.timeout(300)
def test_what_is_solved_before_the_start_is_judged_all_the_same(
    watching: Callable[..., Terminal],
) -> None:
    made_of = SMALL
    at = watching(text=made_of)
    at.sees("test_shape")
    at.press("q")
    at.ends()
    at.desk.solve({"test_shape": ["(3, 2)"], "test_refused": ["RuntimeError"]})
    again = Terminal(at.desk)
    again.sees("not yet", "test_shape", "Rows come first.")
    again.save("(3, 2)", "(2, 3)")
    again.sees("Solved.", "test_shape")
    again.press("\r")
    again.sees("test_keep_the_old")
    again.press("q")
    assert again.ends() == 0


@pytest.mark.timeout(300)
def test_without_a_terminal_it_prints_line_by_line(desk: MakeDesk) -> None:
    made = desk(SMALL)
    env = {**os.environ, "PYTHONPATH": str(REPO), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sensei", "watch"],
        cwd=made.root,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(5)]
        assert [line.rsplit(": ", 1)[1].strip() for line in lines[1:]] == ["open"] * 4
        made.edit("== __", "== (2, 3)")
        line = process.stdout.readline()
        assert line.endswith("test_01_small.py::test_shape: solved\n") and "\x1b" not in line
    finally:
        process.terminate()
        rest = process.communicate(timeout=60)[0]
    assert "\x1b" not in rest


def test_watch_of_an_unknown_target(desk: MakeDesk) -> None:
    done = desk(SMALL).koans("watch", "nowhere")
    assert done.returncode == 2 and "koans list" in done.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [checking.Warm, checking.Cold])
def test_a_check_can_be_ended_and_gives_the_same_everywhere(
    desk: MakeDesk, kind: type[checking.Warm] | type[checking.Cold]
) -> None:
    if kind is checking.Warm and sys.platform != "linux":
        pytest.skip("forks")
    made = desk(SMALL)
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["ValueError"]})
    key = made.key
    ids = [f"{key}::test_shape", f"{key}::test_refused", f"{key}::test_twos"]
    check = kind(made.root / "koans", ids, [])
    found = None
    while found is None:
        found = check.poll()
    assert [(j.id, j.verdict) for j in found] == [
        (ids[0], "solved"),
        (ids[1], "not yet"),
        (ids[2], "open"),
    ]
    check.end()
    made.edit("import torch\n", "import torch\n\nwhile True:\n    pass\n")
    check = kind(made.root / "koans", ids, [])
    time.sleep(1)
    start = time.monotonic()
    check.end()
    assert time.monotonic() - start < 10


# the pure parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("editor", "command"),
    [
        ("vim", ["vim", "+7", "a b.py"]),
        ("nano -l", ["nano", "-l", "+7", "a b.py"]),
        ("emacs -nw", ["emacs", "-nw", "+7", "a b.py"]),
        ("code -w", ["code", "-w", "-g", "a b.py:7"]),
        ("/usr/bin/code", ["/usr/bin/code", "-g", "a b.py:7"]),
        ("subl", ["subl", "a b.py:7"]),
        ("pycharm", ["pycharm", "--line", "7", "a b.py"]),
        ("", ["vi", "+7", "a b.py"]),
    ],
)
def test_how_an_editor_is_told_a_line(editor: str, command: list[str]) -> None:
    assert editor_command(editor, Path("a b.py"), 7) == command


def judgement(koan_id: str, verdict: Verdict) -> Judgement:
    return Judgement(koan_id, verdict, "path", 1)


@pytest.fixture
def standing(desk: MakeDesk) -> tuple[Standing, Callable[[str], list[str]]]:
    """Four judged koans, and: what is stale once the file holds a text."""
    made = desk(SMALL)
    chapter = made.book.chapter(made.key)
    text = made.file().read_text()
    found = Standing([koan.id for koan in chapter.koans])
    files = {made.key: look(text.encode(), chapter)}
    assert found.stale(files) == found.ids
    found.judged([judgement(i, "open") for i in found.ids], files)
    assert found.stale(files) == []

    def stale(change: str) -> list[str]:
        old, new = change.split(" => ")
        assert old in text
        now = {made.key: look(text.replace(old, new, 1).encode(), chapter)}
        return [i.partition("::")[2] for i in found.stale(now)]

    return found, stale


def test_only_what_changed_is_judged_again(
    standing: tuple[Standing, Callable[[str], list[str]]],
) -> None:
    names = [i.partition("::")[2] for i in standing[0].ids]
    stale = standing[1]
    assert stale("== __ => == (2, 3)") == ["test_shape"]
    assert stale("y = x => y = x.clone()") == ["test_keep_the_old"]
    assert stale("import torch => # a comment\nimport torch") == []
    assert stale("import torch => import torch\n\nHELP = 1") == names
    assert stale("== __ => == (") == names
    assert stale("def test_twos => def test_threes") == names


def test_the_next_koan_comes_round_again(
    standing: tuple[Standing, Callable[[str], list[str]]],
) -> None:
    found = standing[0]
    a, b, c, d = found.ids
    assert found.first() == a and found.next_after(a) == b and found.next_after(d) == a
    found.verdicts[b] = judgement(b, "solved")
    found.verdicts[c] = judgement(c, "asleep")
    assert found.next_after(a) == d and found.next_after(None) == a
    for i in (a, d):
        found.verdicts[i] = judgement(i, "solved")
    assert found.next_after(a) is None and found.first() is None
