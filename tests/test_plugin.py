"""pytest's own options with koans: black-box, through the real command line."""

from __future__ import annotations

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from sensei import words
from tests.desk import REPO, SMALL, Desk

MakeDesk = Callable[..., Desk]
ANSWERS = {
    "test_shape": ["(2, 3)"],
    "test_refused": ["RuntimeError"],
    "test_keep_the_old": ["y = x.clone()"],
    "test_twos": ["y = torch.full((3,), 2.0)"],
}


def last_line(output: str) -> str:
    return output.rstrip().split("\n")[-1]


def test_as_shipped_every_koan_is_open(desk: MakeDesk) -> None:
    done = desk().pytest()
    assert done.returncode == 1
    assert "4 open" in last_line(done.stdout)
    assert "test_shape" in done.stdout and words.NEXT_CARD in done.stdout
    assert "FAILURES" not in done.stdout and "warning" not in done.stdout.lower()


def test_all_solved(desk: MakeDesk) -> None:
    made = desk()
    made.solve(ANSWERS)
    done = made.pytest()
    assert done.returncode == 0
    assert "4 solved" in last_line(done.stdout)
    assert words.ALL_SOLVED in done.stdout


def test_the_book_runs_as_plain_tests(desk: MakeDesk) -> None:
    made = desk()
    done = made.pytest("answers")
    assert done.returncode == 0 and "4 passed" in last_line(done.stdout)
    text = made.file().parent.parent.parent / "answers" / made.key
    text.write_text(SMALL.replace("answer((2, 3))", "answer((2, 4))"))
    done = made.pytest("answers")
    assert done.returncode == 1
    assert "1 failed, 3 passed" in last_line(done.stdout)
    assert "assert (2, 3) == (2, 4)" in done.stdout  # a contributor sees the values


@pytest.mark.parametrize(
    ("arguments", "counts", "code"),
    [
        (["koans", "-k", "shape"], "1 solved, 3 deselected", 0),
        (["koans", "-m", "tour"], "4 deselected", 5),
        (["koans", "-x"], "1 not yet, 1 solved", 1),
        (["koans", "--maxfail=2"], "1 not yet, 1 open, 1 solved", 1),
        (["koans", "-n", "2"], "1 not yet, 2 open, 1 solved", 1),
        (["koans", "-p", "no:cacheprovider"], "1 not yet, 2 open, 1 solved", 1),
        (["koans", "-p", "no:timeout"], "1 not yet, 2 open, 1 solved", 1),
        (["koans", "--isolate=none"], "1 not yet, 2 open, 1 solved", 1),
        (["koans/01_small/test_01_small.py::test_shape"], "1 solved", 0),
        (["koans", "--durations=2"], "1 not yet, 2 open, 1 solved", 1),
    ],
)
def test_options(desk: MakeDesk, arguments: list[str], counts: str, code: int) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["ValueError"]})
    done = made.pytest(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    found = re.sub(r"=+|in \d.*", "", last_line(done.stdout))
    assert sorted(found.strip().split(", ")) == sorted(counts.split(", ")), done.stdout
    assert words.DOES_NOT_ADD_UP.split("{")[0] not in done.stdout
    assert "warning" not in done.stdout.lower()


def test_last_failed_runs_what_is_left(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"]})
    made.pytest()
    done = made.pytest("koans", "--lf")
    assert "3 open" in last_line(done.stdout) and "solved" not in last_line(done.stdout)
    assert words.DOES_NOT_ADD_UP.split("{")[0] not in done.stdout


def test_collect_only_lists_the_book_and_imports_nothing(desk: MakeDesk) -> None:
    made = desk()
    made.edit("import pytest", "import pytest\nprint('imported')")
    done = made.pytest("koans", "--co", "-q")
    assert done.returncode == 0
    assert done.stdout.count("::test_") == 4 and "imported" not in done.stdout


def test_verbose_words(desk: MakeDesk) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"]})
    output = made.pytest("koans", "-v").stdout
    assert re.search(r"test_shape SOLVED +\[ 25%\]", output)
    assert re.search(r"test_refused OPEN +\[ 50%\]", output)


def test_the_order_is_the_story(desk: MakeDesk) -> None:
    made = desk(test_02_more=SMALL.replace("test_", "test_b_"))
    (made.root / "shuffle.py").write_text(
        "import pytest\n\n\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_collection_modifyitems(items):\n    items.reverse()\n"
    )
    for arguments in (["-v"], ["-v", "-p", "shuffle"]):
        output = made.pytest("koans", *arguments).stdout
        names = re.findall(r"::(\w+) OPEN", output)
        assert names == [k.name for k in made.book.koans], output


def test_document_selects_the_koans_of_a_section(desk: MakeDesk) -> None:
    made = desk(
        SMALL.replace('see="torch.tensor",', 'see="torch.tensor",\n    claims=["A-3.2-06"],')
    )
    for section in ("A-3.2", "A", "A-3", "A-3.2-06"):
        output = last_line(made.pytest("koans", "--document", section).stdout)
        assert "1 open" in output and "3 deselected" in output
    for section in ("A-3.20", "A-3.2-0", "B"):
        done = made.pytest("koans", "--document", section)
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert f"--document {section}: no koan teaches" in done.stderr


WRONG = {
    "test_shape": ["(6, 1)"],
    "test_refused": ["IndexError"],
    "test_keep_the_old": ["y = x[:]"],
    "test_twos": ["y = torch.zeros(3)"],
}


@pytest.mark.parametrize("isolate", ["fork", "none"])
@pytest.mark.parametrize("wrong", [True, False], ids=["wrong", "open"])
def test_no_answer_is_ever_printed(
    desk: MakeDesk, tmp_path: Path, wrong: bool, isolate: str
) -> None:
    """Neither the terminal nor junit tells the truth, however much pytest is asked to tell."""
    made = desk()
    if wrong:
        made.solve(WRONG)
    for name in ANSWERS:
        done = made.pytest(
            f"koans/{made.key}::{name}", "-l", "-vv", "-rA", "--tb=long",
            "--showlocals", "--junitxml=out.xml", f"--isolate={isolate}",
        )  # fmt: skip
        told = done.stdout + done.stderr + (tmp_path / "out.xml").read_text()
        assert done.returncode == 1
        if name == "test_shape":
            assert "(2, 3)" not in told and "Size([2, 3])" not in told
        if name == "test_refused":
            assert "RuntimeError" not in told
        if name in ("test_keep_the_old", "test_twos"):
            assert ANSWERS[name][0] not in told


def test_reveal_restores_the_whole_report(desk: MakeDesk) -> None:
    made = desk()
    made.solve(WRONG)
    output = made.pytest("koans", "--reveal").stdout
    assert "FAILURES" in output and "assert (2, 3) == (6, 1)" in output
    assert "<class 'RuntimeError'>" in output


def test_junit_carries_the_card(desk: MakeDesk, tmp_path: Path) -> None:
    made = desk()
    made.solve({"test_shape": ["(3, 2)"]})
    made.pytest("koans", "--junitxml=out.xml")
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert suite.get("tests") == "4" and suite.get("failures") == "4"
    failures = {case.get("name"): case.find("failure") for case in suite}
    assert "Rows come first." in (failures["test_shape"].text or "")  # type: ignore[union-attr]
    assert words.FILL_BLANK in (failures["test_refused"].text or "")  # type: ignore[union-attr]


def test_a_learners_own_tests_are_counted_apart(desk: MakeDesk) -> None:
    made = desk()
    path = made.file()
    path.write_text(
        path.read_text()
        + "\n\ndef test_mine():\n    assert 1 == 1\n\n\ndef test_mine_too():\n    assert 1 == 2\n"
    )
    done = made.pytest()
    assert "4 open" in last_line(done.stdout)
    assert "1 passed" in last_line(done.stdout) and "1 failed" in last_line(done.stdout)
    assert "assert 1 == 2" in done.stdout


def test_breakpoint_stops_in_this_process(desk: MakeDesk) -> None:
    import pexpect

    made = desk()
    made.edit(
        "    assert tuple(x.shape) == __", "    breakpoint()\n    assert tuple(x.shape) == (1,)"
    )
    child = pexpect.spawn(
        sys.executable,
        ["-m", "pytest", "koans"],
        cwd=str(made.root),
        env={**os.environ, "PYTHONPATH": str(REPO)},
        timeout=120,
        encoding="utf-8",
    )
    child.expect(r"\(Pdb\)")
    child.sendline("p x.shape")
    child.expect(r"\[2, 3\]")
    child.sendline("c")
    child.expect(pexpect.EOF)


GPU = SMALL.replace(
    '@koan(\n    see="torch.full"', '@pytest.mark.gpu\n@koan(\n    see="torch.full"'
)


def test_a_gpu_koan_sleeps_without_a_gpu(desk: MakeDesk) -> None:
    made = desk(GPU)
    env = {"CUDA_VISIBLE_DEVICES": ""}
    done = made.pytest("koans", "-m", "gpu", env=env)
    assert done.returncode == 0 and "1 asleep" in last_line(done.stdout)
    done = made.pytest("koans", "-m", "gpu", env=env | {"KOANS_REQUIRE_CUDA": "1"})
    assert done.returncode == 1 and words.CUDA_REQUIRED in " ".join(done.stdout.split())
    done = made.pytest("answers", "-m", "gpu", env=env | {"KOANS_REQUIRE_CUDA": "1"})
    assert done.returncode == 1 and "1 failed" in last_line(done.stdout)


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ('torch=">=99"', "needs torch >=99"),
        ('python=">=99"', "needs Python >=99"),
        ('platform="amiga"', "needs the system that Python calls amiga"),
        ('package="no_such_package"', "no_such_package"),
        ('torch=">=2.6")\n@pytest.mark.needs(python=">=99"', "needs Python >=99"),
    ],
)
def test_needs(desk: MakeDesk, needs: str, reason: str) -> None:
    text = SMALL.replace(
        '@koan(\n    see="torch.full"', f'@pytest.mark.needs({needs})\n@koan(\n    see="torch.full"'
    )
    done = desk(text).pytest("koans", "-k", "twos", "-rs")
    assert done.returncode == 0 and "1 asleep" in last_line(done.stdout)


def test_outside_a_workbook_the_plugin_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    assert 1 == 2\n")
    made = Desk(tmp_path)
    done = made.pytest("-p", "sensei.plugin", "test_plain.py")
    assert done.returncode == 1
    assert "assert 1 == 2" in done.stdout and "1 failed" in last_line(done.stdout)
    assert not (tmp_path / ".sensei").exists()


@pytest.mark.parametrize(
    "env",
    [
        {"COLUMNS": "40"},
        {"TERM": "dumb"},
        {"PYTHONIOENCODING": "ascii"},
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1"},
        {"COLUMNS": "200"},
    ],
    ids=lambda env: "-".join(f"{k}={v}" for k, v in env.items()),
)
def test_terminals(desk: MakeDesk, env: dict[str, str]) -> None:
    made = desk()
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["ValueError"]})
    done = made.pytest("koans", env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PyTorch speaks of its own" in " ".join(done.stdout.split())
    assert ("\x1b[" in done.stdout) == ("FORCE_COLOR" in env)
    if env.get("PYTHONIOENCODING") == "ascii":
        assert done.stdout.isascii() and "01_small" in done.stdout
    if env.get("COLUMNS") == "40":
        card = done.stdout.split(words.NEXT_CARD)[1].split("\n\n\n")[0]
        too_long = [line for line in card.split("\n") if len(line) > 40]
        assert [line for line in too_long if " " in line.strip() and ".py:" not in line] == []
