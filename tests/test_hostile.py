"""Nothing a learner writes can break the run: every hostile file, in both modes.

python -m tests.test_hostile     writes docs/hostile.md from what the cases print
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sensei import words
from sensei.prove import write_setup
from sensei.workbook import write
from tests.desk import REPO, Desk
from tests.hostile import BOOK, CASES, DOCUMENT, KOANS, Case

MakeDesk = Callable[..., Desk]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def solved_desk(root: Path) -> Desk:
    write(root / "answers" / "01_small" / "test_01_small.py", BOOK)
    made = Desk(root)
    made.solve({koan.name: koan.answers for koan in made.book.koans})
    write_setup(root)
    return made


def play(made: Desk, case: Case, isolate: str) -> tuple[dict[str, str], str]:
    """Do the case to the learner's file, run pytest; return the verdicts and the screen."""
    changed = case.edit(made.file().read_text(encoding="utf-8"))
    data = changed if isinstance(changed, bytes) else changed.encode()
    made.file().write_bytes(data)
    verdicts = made.verdicts("koans", f"--isolate={isolate}", *case.options)
    assert made.file().read_bytes() == data, "the learner's file was changed"
    return verdicts, made.last.stdout


def left_running(marker: str) -> list[str]:
    """Other processes that carry our marker in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, PermissionError):
            continue
    return found


MODES = [
    pytest.param(case, mode, id=f"{mode}-{case.name.replace(' ', '-')}")
    for case in CASES
    for mode in ("fork", "none")
    if mode == "fork" or not case.forks_only
]


@LINUX
@pytest.mark.parametrize(("case", "isolate"), MODES)
def test_one_clear_verdict(
    case: Case, isolate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOANS_HOSTILE", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    made = solved_desk(tmp_path)
    start = time.monotonic()
    verdicts, screen = play(made, case, isolate)
    assert time.monotonic() - start < 60
    expected = {name: case.expect_in(isolate).get(name, "solved") for name in KOANS}
    assert verdicts == expected, screen + made.last.stderr
    assert made.last.returncode == (1 if case.expect else 0)
    assert case.says_in(isolate) in " ".join(screen.split()), screen
    assert words.DOES_NOT_ADD_UP.split("{")[0] not in screen
    assert "INTERNALERROR" not in screen and "Traceback" not in screen + made.last.stderr
    wait_until_nothing_is_left(tmp_path, 5)
    left = [p.name for p in (tmp_path / "tmp").iterdir() if not p.name.startswith("pytest-of")]
    assert left == []


# the surroundings ---------------------------------------------------------------------------------


SPAWN = """    import multiprocessing, os, time
    multiprocessing.current_process()._config["semprefix"] = "/{prefix}"
    queue = multiprocessing.get_context("spawn").Queue()
    lock = multiprocessing.get_context("spawn").Lock()
    assert any(name.startswith("sem.{prefix}") for name in os.listdir("/dev/shm"))
"""


@LINUX
@pytest.mark.parametrize(
    ("ending", "verdict"),
    [("", "solved"), ("    time.sleep(60)\n", "stopped"), ("    os._exit(0)\n", "stopped")],
    ids=["solved", "deadline", "died"],
)
def test_no_shared_memory_is_left(tmp_path: Path, ending: str, verdict: str) -> None:
    """Semaphores of the spawn method have names; whoever cleans them up must live to do it."""
    made = solved_desk(tmp_path)
    prefix = f"koans{os.getpid()}x{abs(hash(tmp_path))}"
    made.edit("    y = torch.full", SPAWN.format(prefix=prefix) + ending + "    y = torch.full")
    assert made.verdicts()["test_twos"] == verdict, made.last.stdout
    assert [name for name in os.listdir("/dev/shm") if prefix in name] == []


def test_a_read_only_folder(tmp_path: Path) -> None:
    made = solved_desk(tmp_path)
    folders = [made.root, made.root / "koans", made.root / "koans" / "01_small"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = made.pytest("koans", "-p", "no:cacheprovider", env={"PYTHONDONTWRITEBYTECODE": "1"})
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.returncode == 0 and "4 solved" in done.stdout


@pytest.mark.parametrize("name", ["a folder with spaces", "火炬之路"])
def test_names_of_folders(tmp_path: Path, name: str) -> None:
    made = solved_desk(tmp_path / name)
    assert set(made.verdicts().values()) == {"solved"}
    made.solve({"test_shape": ["(1, 1)"]})
    assert made.verdicts()["test_shape"] == "not yet"
    assert "Size([2, 3])" not in made.last.stdout


def test_a_linked_folder(tmp_path: Path) -> None:
    made = solved_desk(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "koans", target_is_directory=True)
    write_setup(tmp_path)
    assert set(Desk(tmp_path).verdicts("link").values()) == {"solved"}
    made.solve({})
    assert set(Desk(tmp_path).verdicts("link").values()) == {"open"}


def test_a_missing_koan_file_is_counted(tmp_path: Path) -> None:
    made = solved_desk(tmp_path)
    made.file().unlink()
    assert made.verdicts() == dict.fromkeys(KOANS, "broken")
    assert "koans reset" in made.last.stdout and made.last.returncode == 1


HIDE = """
import importlib.metadata, sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
real = importlib.metadata.version

def version(name):
    if name == {hidden!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return {versions!r}.get(name) or real(name)

importlib.metadata.version = version
import importlib.util
real_find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name == {hidden!r} else real_find(name, package)
)
"""


@pytest.mark.parametrize(
    ("hidden", "versions", "says"),
    [
        ("torch", {}, "torch is not installed here"),
        ("numpy", {}, "numpy is not installed here"),
        ("", {"torch": "1.13.1"}, "torch 1.13.1 is too old"),
    ],
)
def test_without_the_subject(
    tmp_path: Path, hidden: str, versions: dict[str, str], says: str
) -> None:
    made = solved_desk(tmp_path)
    write(tmp_path / "site" / "sitecustomize.py", HIDE.format(hidden=hidden, versions=versions))
    env = {"PYTHONPATH": f"{tmp_path / 'site'}:{REPO}"}
    done = made.pytest("koans", env=env)
    assert done.returncode == 1
    assert "4 broken" in done.stdout and says in done.stdout, done.stdout + done.stderr
    assert "pip install" in done.stdout


LOOP = "    while True:\n        pass\n"


def start_and_wait(made: Desk) -> subprocess.Popen[str]:
    """Run pytest on a koan that never ends, until that koan is running."""
    made.edit("    y = torch.full", f"    open('running', 'w').close()\n{LOOP}    y = torch.full")
    env = {**os.environ, "PYTHONPATH": str(REPO), "KOANS_HOSTILE": str(made.root)}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "koans", "--deadline", "3"],
        cwd=made.root,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not (made.root / "running").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    return process


def wait_until_nothing_is_left(root: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while left := left_running(f"KOANS_HOSTILE={root}"):
        assert time.monotonic() < end, left
        time.sleep(0.1)


@LINUX
def test_ctrl_c(tmp_path: Path) -> None:
    made = solved_desk(tmp_path)
    process = start_and_wait(made)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "KeyboardInterrupt" in output and "2 solved" in output
    assert words.DOES_NOT_ADD_UP.split("{")[0] not in output
    wait_until_nothing_is_left(tmp_path, 5)


@LINUX
def test_pytest_killed(tmp_path: Path) -> None:
    made = solved_desk(tmp_path)
    process = start_and_wait(made)
    process.kill()
    process.communicate(timeout=30)
    wait_until_nothing_is_left(tmp_path, 10)


# the document -------------------------------------------------------------------------------------


def printed_line(screen: str, case: Case) -> str:
    """The sentence of the card that holds what the case must say, as printed."""
    if not case.says:
        return "(nothing: every koan is judged as if nothing had happened)"
    card = " ".join(screen.split(words.NEXT_CARD)[1].split())
    text = re.sub(r" (=====|Stuck\?|A hint:|It printed:|`koans reset).*", "", card)
    at = text.index(case.says)
    path = text.rfind("koans/01_small/test_01_small.py:", 0, at)
    if 0 <= at - path < 90:
        return text[path:].strip()
    starts = [text.rfind(sign, 0, at) + len(sign) for sign in (". ", "yet. ", " == 3 ", "0] ")]
    return text[max(starts) :].strip()


def document() -> str:
    lines = [
        "<!-- Generated by `python -m tests.test_hostile` from tests/hostile.py. Do not edit. -->",
        "",
        "# What a learner can do to a file, and what comes of it",
        "",
        "Each row was played through the real command line, on a file of four solved koans. A koan",
        "that is not named is *solved*. Where only a process of its own survives the case, the",
        "last column says so; the others hold with `--isolate=none`, too.",
        "",
        "| what was done | verdict | as printed | isolation |",
        "|---|---|---|---|",
    ]
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            made = solved_desk(Path(folder))
            verdicts, screen = play(made, case, "fork")
        bad = {name: v for name, v in verdicts.items() if v != "solved"}
        verdict = "all broken" if len(bad) == len(KOANS) and "broken" in bad.values() else ""
        if not verdict:
            verdict = ", ".join(f"{name} {v}" for name, v in bad.items()) or "all solved"
        printed = re.sub(r"line \d+", "line N", printed_line(screen, case)).replace("|", "\\|")
        mode = "fork" if case.forks_only else "both"
        lines.append(f"| {case.name} | {verdict} | {printed} | {mode} |")
    return "\n".join(lines) + "\n"


def test_the_document_names_every_case() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| .+ \| (\w+) \|$", DOCUMENT.read_text(), re.M)
    assert [row[0] for row in rows[1:]] == [case.name for case in CASES]
    for (_, verdict, mode), case in zip(rows[1:], CASES):
        assert mode == ("fork" if case.forks_only else "both")
        for name, word in case.expect.items():
            assert f"{name} {word}" in verdict or f"all {word}" in verdict or len(case.expect) == 4


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
