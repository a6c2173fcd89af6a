"""A newer book comes into an older workbook: every answer comes along, nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sensei.book import Book, packaged_root
from sensei.update import Plan, plan_update
from sensei.workbook import STATE, fill, write
from tests.desk import REPO, SMALL, Desk

MakeDesk = Callable[..., Desk]
KEY = "01_small/test_01_small.py"

# The newer book. One koan is renamed and asks more kindly, one lost its blank's partner, one
# is gone, one is new; an import came in.
NEWER = (
    SMALL.replace("def test_shape", "def test_rows_first")
    .replace('    right=["torch.Size([2, 3])"],', '    aliases=["test_shape"],')
    .replace("Two lists of three numbers.", "Two lists, three numbers each.")
    .replace("import pytest\n", "import math\n\nimport pytest\n")
    .replace("x = torch.arange(6)", "x = torch.arange(2 * math.floor(3.5))")
)
NEWER = (
    NEWER[: NEWER.index('@koan(\n    see="torch.full"')].rstrip()
    + '''


@koan(see="torch.ones", hint="Count.", why="One for each.", wrong={"2.0": "Three of them."})
def test_sum():
    """How much is it?"""
    assert torch.ones(3).sum() == answer(3.0)
'''
)


def book(root: Path, text: str, key: str = KEY) -> Book:
    write(root / key, text)
    return Book(root)


def plan(tmp_path: Path, mine: str | bytes, newer: str = NEWER, older: str = SMALL) -> Plan:
    data = mine.encode() if isinstance(mine, str) else mine
    return plan_update({KEY: data}, book(tmp_path / "old", older), book(tmp_path / "new", newer))


def solved(tmp_path: Path, **answers: str) -> str:
    chapter = book(tmp_path / "old", SMALL).chapter(KEY)
    return fill(chapter, {name: [said] for name, said in answers.items()})


def text_of(made: Plan) -> str:
    text = made.files[KEY]
    assert text is not None
    return text


def test_nothing_changes_for_the_same_book(tmp_path: Path) -> None:
    for mine in (solved(tmp_path), solved(tmp_path, test_shape="(2, 3)"), "junk = 1\n"):
        made = plan(tmp_path, mine + "\n# mine\n", newer=SMALL)
        assert not made.files or mine.startswith("junk")


def test_answers_move_into_a_changed_koan_by_its_alias(tmp_path: Path) -> None:
    mine = solved(tmp_path, test_shape="(2, 1 + 2)", test_refused="RuntimeError")
    made = plan(tmp_path, mine)
    text = text_of(made)
    assert "(2, 1 + 2)" in text and "def test_rows_first" in text and "def test_shape" not in text
    assert "three numbers each" in text and "import math" in text
    assert made.carried == [f"{KEY}::test_rows_first", f"{KEY}::test_refused"]
    assert made.added == [f"{KEY}::test_sum"] and made.removed == [f"{KEY}::test_twos"]
    assert made.lost == made.changed == []


def test_what_did_not_change_stays_to_the_letter(tmp_path: Path) -> None:
    mine = solved(tmp_path, test_keep_the_old="y = x.clone()")
    mine = mine.replace("y = x.clone()", "y   =  x . clone( )  # so that x may change")
    assert "y   =  x . clone( )  # so that x may change" in text_of(plan(tmp_path, mine))


def test_an_open_koan_is_given_anew(tmp_path: Path) -> None:
    made = plan(tmp_path, solved(tmp_path))
    assert f"{KEY}::test_rows_first" in made.changed and not made.carried
    assert "three numbers each" in text_of(made)


def test_a_half_solved_koan_and_an_altered_one_are_told(tmp_path: Path) -> None:
    mine = solved(tmp_path).replace("torch.arange(6)", "torch.arange(12)")  # test_refused
    made = plan(tmp_path, mine)
    assert made.lost == [f"{KEY}::test_refused"]
    assert "2 * math.floor(3.5)" in text_of(made)


def test_an_altered_koan_that_did_not_change_stays_altered(tmp_path: Path) -> None:
    mine = solved(tmp_path).replace("x += 1", "x += 2")
    assert "x += 2" in text_of(plan(tmp_path, mine))


def test_a_deleted_koan_comes_back(tmp_path: Path) -> None:
    mine = solved(tmp_path)
    start = mine.index("def test_keep_the_old")
    mine = mine[:start] + mine[mine.index("def test_twos") :]
    made = plan(tmp_path, mine)
    assert made.restored == [f"{KEY}::test_keep_the_old"]
    assert "def test_keep_the_old" in text_of(made)


def test_tests_and_helpers_of_their_own_stay(tmp_path: Path) -> None:
    mine = solved(tmp_path) + "\n\nTHOUGHT = 1\n\n\ndef test_mine():\n    assert THOUGHT\n"
    text = text_of(plan(tmp_path, mine))
    assert "THOUGHT = 1" in text and "def test_mine" in text


def test_more_blanks_than_answers(tmp_path: Path) -> None:
    newer = SMALL.replace("== answer((2, 3))", "== (answer(2), answer(3))").replace(
        'wrong={"(3, 2)": "Rows come first."},\n    right=["torch.Size([2, 3])"],',
        'wrong={("3", "2"): "Rows come first."},',
    )
    made = plan(tmp_path, solved(tmp_path, test_shape="(2, 3)"), newer=newer)
    assert made.lost == [f"{KEY}::test_shape"] and "(__, __)" in text_of(made)


def test_a_koan_moves_to_another_file(tmp_path: Path) -> None:
    start = SMALL.index('@koan(\n    see="torch.full"')
    here, moved = SMALL[:start].rstrip() + "\n", SMALL[start:]
    new = book(tmp_path / "new", here)
    head = SMALL[: SMALL.index("@koan(")]
    moved = moved.replace("    right=[", f'    aliases=["{KEY}::test_twos"],\n    right=[')
    other = "02_more/test_01_more.py"
    new = book(tmp_path / "new", head + moved, other)
    mine = solved(tmp_path, test_twos="y = torch.ones(3) * 2  # hm")
    made = plan_update({KEY: mine.encode()}, book(tmp_path / "old", SMALL), new)
    assert made.carried == [f"{other}::test_twos"] and not made.removed
    assert "torch.ones(3) * 2" in str(made.files[other])
    assert "test_twos" not in text_of(made)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    new = book(tmp_path / "new", NEWER, "02_more/test_01_more.py")
    made = plan_update({KEY: SMALL.encode()}, book(tmp_path / "old", SMALL), new)
    assert made.files[KEY] is None and len(made.removed) == 4


@pytest.mark.parametrize("mine", [b"def test_(:\n", b"\xff\xfe", b"x = 1\0\n"])
def test_a_file_that_is_not_python_is_left_alone(tmp_path: Path, mine: bytes) -> None:
    made = plan(tmp_path, mine)
    assert made.unreadable == [KEY] and made.files == {}


# the commands -------------------------------------------------------------------------------------


def test_update_asks_backs_up_and_tells(desk: MakeDesk) -> None:
    made = desk(SMALL)
    made.solve({"test_shape": ["(2, 3)"], "test_keep_the_old": ["y = x[:].clone()"]})
    before = made.file().read_text()
    kept = made.root / "koans" / STATE / "book" / KEY
    write(kept, SMALL)
    write(made.root / "answers" / KEY, NEWER)
    dry = made.koans("update", "--dry-run")
    assert dry.returncode == 0 and "your answer came along" in dry.stdout
    assert made.file().read_text() == before, "a dry run wrote"
    done = made.koans("update")
    assert done.returncode == 0, done.stderr
    backups = list((made.root / "koans" / STATE / "backups").rglob("*.py"))
    assert [file.read_text() for file in backups] == [before]
    assert made.verdicts("koans") == {
        "test_rows_first": "solved",
        "test_refused": "open",
        "test_keep_the_old": "solved",
        "test_sum": "open",
    }
    again = made.koans("update")
    assert "newest koans already" in again.stdout and kept.read_text() == NEWER


def test_init_wants_an_empty_folder(desk: MakeDesk) -> None:
    made = desk(SMALL)
    done = made.koans("init", "koans")
    assert done.returncode == 2 and "not empty" in done.stderr
    (made.root / "file").write_text("")
    assert made.koans("init", "file").returncode == 2


def test_init_of_some_groups_and_an_update_that_keeps_to_them(desk: MakeDesk) -> None:
    made = desk(SMALL)
    done = made.koans("init", "my", "10_deployment/")
    assert done.returncode == 0, done.stderr
    mine = made.root / "my"
    assert sorted(p.name for p in mine.iterdir() if p.name[0] != ".") == [
        "10_deployment",
        "pytest.ini",
    ]
    assert f"{Book(packaged_root()).totals()['10_deployment']} koans" in done.stdout
    shutil.rmtree(made.root / "koans")
    shutil.rmtree(made.root / "answers")
    assert "newest koans already" in made.koans("update").stdout
    shutil.rmtree(mine / STATE / "book" / "09_memory")  # as if the newer book brought it
    done = made.koans("update")
    assert "new        09_memory/" in done.stdout and "08_torchscript" not in done.stdout
    done = made.koans("init", "other", "11_nothing")
    assert done.returncode == 2 and "There are: 01_tensor" in done.stderr
    assert not (made.root / "other").exists()


@pytest.mark.timeout(300)
def test_the_wheel_works_in_an_empty_folder(tmp_path: Path) -> None:
    """pip install dist/*.whl, koans init my, pytest my: nothing of the clone is near."""
    for command in (
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"],
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
        + [tmp_path / "site", *(tmp_path / "dist").glob("*.whl")],
    ):
        if "pip" in command:
            command += [next((tmp_path / "dist").glob("*.whl"))]
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "empty"
    folder.mkdir()
    made = Desk(folder)
    env = {"PYTHONPATH": str(tmp_path / "site")}
    done = made.run("-m", "sensei", "init", "my", env=env)
    assert done.returncode == 0 and "pytest my" in done.stdout, done.stderr
    assert not (folder / "answers").exists()
    first = made.run("-m", "pytest", "my/01_tensor/test_01_creation.py", env=env)
    assert first.returncode == 1 and "your next koan" in first.stdout, first.stdout
    assert " open" in first.stdout and "broken" not in first.stdout
    hint = made.run("-m", "sensei", "hint", env=env)
    assert hint.returncode == 0 and "1 of " in hint.stdout
    assert made.run("-m", "sensei", "init", "my", env=env).returncode == 2
    where = made.run("-c", "import sensei; print(sensei.__file__)", env=env).stdout
    assert str(tmp_path) in where
