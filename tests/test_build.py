"""The contributor's commands, through the command line, in a folder laid out as a clone."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sensei import cli, words
from sensei.book import Book
from sensei.workbook import fill, write
from tests.desk import Desk

KEY = "01_tensor/test_01_words.py"
KOANS, ANSWERS = f"koans/{KEY}", f"answers/{KEY}"

BOOK = '''\
"""Small: six koans that need no torch."""

from sensei import answer, koan


@koan(see="str.upper", hint="h", why="w", wrong={"'Abc'": "r"}, claims=["A-1-01"])
def test_upper():
    """What comes out?"""
    assert "abc".upper() == answer("ABC")


@koan(see="str.split", hint="h", why="w", wrong={"1": "r"})
def test_split():
    """How many parts?"""
    assert len("a b c".split()) == answer(3)


@koan(see="str.strip", hint="h", why="w", wrong={"4": "r"})
def test_strip():
    """How many letters are left?"""
    assert len(" a  ".strip()) == answer(1)


@koan(see="str.index", hint="h", why="w", wrong={"KeyError": "r"})
def test_index():
    """Which error?"""
    caught = None
    try:
        "abc".index("d")
    except Exception as error:
        caught = error
    assert type(caught) is answer(ValueError)


@koan(see="list.copy", hint="h", why="w", wrong={"y = x[:1]": "r"})
def test_copy():
    """Repair the line."""
    x = [1, 2]
    # answer:
    y = x.copy()
    # given:
    # y = x
    # end
    x.append(3)
    assert y == [1, 2]


@koan(see="list.append", hint="h", why="w", wrong={"x = [0]": "r"})
def test_make():
    """Make x."""
    # answer:
    x = [0, 1]
    # end
    assert x == list(range(2))
'''.replace('see="', 'see="builtins.')

CLAIM = """\
[[claim]]
id = "A-1-01"
section = "1"
group = "tensor"
claim = "Letters grow."
verdict = "true"
truth = "They do."
"""


@dataclass
class Clone:
    """A folder with answers/, koans/ and what else a clone has, and its command line."""

    root: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit status of ``koans ...`` and the one line, or lines, that it said."""
        code = cli.main(arguments)
        out, err = self.capsys.readouterr()
        return code, (out + err).rstrip("\n")

    def read(self, path: str = KOANS) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        assert old in self.read(path), old
        write(self.root / path, self.read(path).replace(old, new))

    def solve(self, *names: str) -> None:
        chapter = Book(self.root / "answers").chapter(KEY)
        answers = {koan.name: koan.answers for koan in chapter.koans if koan.name in names}
        write(self.root / KOANS, fill(chapter, answers))

    @property
    def backups(self) -> list[Path]:
        return list((self.root / "koans" / ".sensei" / "backups").rglob("*.py"))


@pytest.fixture
def empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Clone:
    """A clone whose koans/ were never built."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    write(tmp_path / ANSWERS, BOOK)
    write(tmp_path / "docs" / "claims.toml", CLAIM)
    (tmp_path / "sensei").mkdir()
    return Clone(tmp_path, capsys)


@pytest.fixture
def clone(empty: Clone) -> Clone:
    assert empty.run("build") == (0, "")
    return empty


# build --------------------------------------------------------------------------------------------

STALE = words.BUILD_STALE.format(path=KOANS, answers=ANSWERS)
LEDGER_STALE = words.BUILD_STALE.format(path="docs/claims.md", answers="docs/claims.toml")
HELD = words.HOLDS_SOLUTIONS.format(path=KOANS)
HELD_IN_CI = words.CI_HOLDS_SOLUTIONS.format(path=KOANS)


def test_build_writes_what_check_misses(empty: Clone) -> None:
    assert empty.run("build", "--check") == (1, f"{STALE}\n{LEDGER_STALE}")
    assert not (empty.root / "koans").exists() and not (empty.root / "docs/claims.md").exists()
    assert empty.run("build") == (0, "")
    assert empty.read() == Book(empty.root / "answers").chapter(KEY).template
    assert "1 claims; 1 are taught" in empty.read("docs/claims.md")
    assert empty.run("build", "--check") == (0, "")


def test_build_twice_writes_once(clone: Clone) -> None:
    files = [clone.root / KOANS, clone.root / "docs" / "claims.md"]
    before = [(file.stat().st_mtime_ns, file.stat().st_ino) for file in files]
    assert clone.run("build") == (0, "")
    assert [(file.stat().st_mtime_ns, file.stat().st_ino) for file in files] == before
    assert clone.backups == []


def test_line_ends_are_not_stale(clone: Clone) -> None:
    file = clone.root / KOANS
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert clone.run("build", "--check") == (0, "")


def test_solutions_are_left_alone(clone: Clone) -> None:
    clone.solve("test_upper", "test_make")
    mine = clone.read()
    assert clone.run("build") == (1, HELD)
    assert clone.read() == mine
    assert clone.run("build", "--force") == (0, "")
    assert clone.read() == Book(clone.root / "answers").chapter(KEY).template
    assert [file.read_text() for file in clone.backups] == [mine]
    assert clone.run("build", "--check") == (0, "")


def test_solutions_are_fine_at_home_and_not_in_ci(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.solve("test_upper")
    assert clone.run("build", "--check") == (0, "")
    monkeypatch.setenv("CI", "true")
    assert clone.run("build", "--check") == (1, HELD_IN_CI)
    assert "\n" not in HELD_IN_CI and "git checkout" in HELD_IN_CI


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (ANSWERS, '"abc".upper()', '"abcd".upper()'),
        (ANSWERS, "What comes out?", "What?"),
        (ANSWERS, "def test_upper", "def test_uppercase"),
        (KOANS, '"abc".upper()', '"abcd".upper()'),
        (KOANS, "What comes out?", "What?"),
        (KOANS, "from sensei import __\n", ""),
        (KOANS, "def test_upper", "def test_uppercase"),
        (KOANS, "assert x ==", "assert x = ="),
    ],
)
def test_a_change_on_either_side_is_stale(clone: Clone, path: str, old: str, new: str) -> None:
    clone.edit(path, old, new)
    code, said = clone.run("build", "--check")
    assert code == 1 and said.split("\n")[0] == STALE
    assert clone.run("build") == (0, "")
    assert clone.run("build", "--check") == (0, "")


@pytest.mark.parametrize("solved", [["test_split"], []])
def test_an_edited_given_line_beside_solutions(clone: Clone, solved: list[str]) -> None:
    clone.solve(*solved)
    clone.edit(KOANS, "assert x ==", "print(x)\n    assert [0, 1] ==")
    mine = clone.read()
    assert clone.run("build", "--check") == (1, STALE)
    assert clone.run("build") == ((1, HELD) if solved else (0, ""))
    assert (clone.read() == mine) == bool(solved)
    assert clone.run("build", "--force") == (0, "")
    assert [file.read_text() for file in clone.backups] == [mine]


COMMIT = ["init -q", "add answers", "-c user.name=A -c user.email=a@b.c commit -q -m book"]


@pytest.mark.parametrize(("with_git", "said"), [(True, ""), (False, HELD)])
def test_given_lines_that_changed_look_like_an_answer(
    clone: Clone, with_git: bool, said: str
) -> None:
    for command in COMMIT if with_git else []:
        subprocess.run(["git", *command.split()], check=True)
    clone.edit(ANSWERS, "# y = x\n", "# y = list(reversed(x))\n")
    assert clone.run("build", "--check") == ((1, STALE) if with_git else (0, ""))
    assert clone.run("build") == (int(not with_git), said)
    assert clone.backups == []


def test_a_file_too_many(clone: Clone) -> None:
    shutil.copy(clone.root / KOANS, clone.root / "koans" / "01_tensor" / "test_02_old.py")
    extra = words.BUILD_EXTRA.format(path="koans/01_tensor/test_02_old.py")
    assert clone.run("build", "--check") == (1, extra)
    assert clone.run("build") == (1, extra)


def test_the_ledger_page_follows_the_ledger_and_the_koans(clone: Clone) -> None:
    clone.edit("docs/claims.toml", "They do.", "They | do.")
    assert clone.run("build", "--check") == (1, LEDGER_STALE)
    assert clone.run("build") == (0, "")
    assert "| They \\| do. | `01_tensor` test_upper |" in clone.read("docs/claims.md")
    clone.edit(ANSWERS, ', claims=["A-1-01"]', "")
    assert clone.run("build", "--check") == (1, LEDGER_STALE)
    (clone.root / "docs" / "claims.toml").unlink()
    assert clone.run("build", "--check") == (0, "")


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (ANSWERS, "assert x ==", "assert x = =", f"{ANSWERS}:54: not Python: invalid syntax"),
        (ANSWERS, "# given:", "# end", f"{ANSWERS}:43: '# end' out of order: answer, "),
        ("docs/claims.toml", "tensor", "tensors", "docs/claims.toml:2: A-1-01: group is one of"),
    ],
)
@pytest.mark.parametrize("command", ["build", "check"])
def test_what_cannot_be_read_is_one_line(
    clone: Clone, command: str, path: str, old: str, new: str, expected: str
) -> None:
    clone.edit(path, old, new)
    code, said = clone.run(command)
    assert code == 1 and said.removeprefix(f"{clone.root}/").startswith(expected)
    assert "\n" not in said


def test_from_a_shell_and_from_below(clone: Clone) -> None:
    clone.edit(ANSWERS, '"abc".upper()', '"abcd".upper()')
    done = Desk(clone.root / "answers").koans("build", "--check")
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.split("\n")[0] == words.BUILD_STALE.format(
        path=clone.root / KOANS, answers=KEY
    )


# check --------------------------------------------------------------------------------------------


def test_a_clean_book(clone: Clone) -> None:
    code, said = clone.run("check")
    assert said == "6 koans in 1 files, clean (predict 50%, error 17%, repair 17%, write 17%)"
    assert code == 0


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (ANSWERS, '"h"', '""', "{answers}:7: test_upper: hint= is empty"),
        (ANSWERS, "str.upper", "str.uper", "{answers}:7: test_upper: see: builtins.str.uper does "),
        (ANSWERS, '["A-1-01"]', '["A-1-02"]', "{answers}:7: test_upper: claim A-1-02 is not in"),
        (ANSWERS, ', claims=["A-1-01"]', "", "{claims}: A-1-01 (tensor) is taught by no koan"),
        (ANSWERS, '"a b c".split()', '"".split()', ""),
        (ANSWERS, "type(caught)", "type(error)", "0% of the koans are of kind error; at least 10%"),
        ("docs/claims.toml", '"tensor"', '"autograd"', ""),
    ],
)
def test_check(clone: Clone, path: str, old: str, new: str, expected: str) -> None:
    write(clone.root / path, clone.read(path).replace(old, new, 1))
    answers, claims = clone.root / ANSWERS, clone.root / "docs" / "claims.toml"
    code, said = clone.run("check")
    assert code == bool(expected)
    lines = said.split("\n")
    assert expected.format(answers=answers, claims=claims) in lines[0]


def test_check_tells_what_is_new(clone: Clone) -> None:
    code, said = clone.run("check", "-v")
    assert code == 0
    assert "01_tensor/test_01_words.py::test_upper: predict, 1 new: upper" in said.split("\n")


def test_check_of_a_missing_file(clone: Clone) -> None:
    code, said = clone.run("check", "answers/01_tensor/test_09.py")
    assert code == 2 and said.endswith("test_09.py: there is no such answers file")


# new ----------------------------------------------------------------------------------------------

FILLED = {
    "TODO: what this file is about, in one line.": "About lists.",
    "import torch\n\n": "",
    "torch.TODO": "builtins.list.pop",
    "TODO: guide the thinking, without the answer": "Which end?",
    "TODO: the reason, shown once it is solved": "The last one goes.",
    '"TODO": "TODO: why somebody believes it, and what happens instead"': '"x = 1": "That end."',
    "TODO: say what to do, in at most 60 words, without giving the answer away.": "Take one.",
    "    x = torch.zeros(2, 3)\n": "    # answer:\n    x = 2\n    # end\n",
    "assert tuple(x.shape) == answer((2, 3))": "assert x == [1, 2].pop()",
}


def test_a_new_koan_in_a_new_file(clone: Clone) -> None:
    path = "answers/01_tensor/test_02_lists.py"
    code, said = clone.run("new", "01_tensor/test_02_lists.py::test_pop")
    assert code == 0
    assert said == f"{path}: test_pop waits for you at the end. Then: koans check, koans build."
    code, said = clone.run("check", path)
    assert code == 1
    assert [line.split(":", 2)[2].strip() for line in said.split("\n")] == [
        "test_pop: there is a TODO left in it",
        "there is a TODO left in the docstring of the file",
        "test_pop ends the file: end with a koan to repair or to write",
    ]
    for old, new in FILLED.items():
        clone.edit(path, old, new)
    clone.edit(path, "import answer, koan", "import koan")
    code, said = clone.run("check", path)
    assert (code, said.split(",")[0]) == (0, "1 koans in 1 files"), said
    assert clone.run("build") == (0, "")
    assert "    # your turn:\n    __\n" in clone.read("koans/01_tensor/test_02_lists.py")


def test_a_new_koan_in_a_known_file(clone: Clone) -> None:
    assert clone.run("new", f"{KEY}::test_pop")[0] == 0
    assert clone.read(ANSWERS).startswith(BOOK + "\n\n@koan(\n")
    code, said = clone.run("check", ANSWERS)
    assert code == 1
    assert sum("TODO" in line for line in said.split("\n")) == 1


@pytest.mark.parametrize(
    "target",
    [
        "test_pop",
        KEY,
        f"{KEY}::pop",
        f"{KEY}::test_pop()",
        "01_tensor/words.py::test_pop",
        "tensor/test_01_words.py::test_pop",
        f"answers/{KEY}::test_pop",
    ],
)
def test_how_to_name_a_new_koan(clone: Clone, target: str) -> None:
    code, said = clone.run("new", target)
    assert code == 2
    assert said == f"{target}: say it as 01_tensor/test_01_creation.py::test_what_it_asks"
    assert clone.read(ANSWERS) == BOOK


def test_a_name_is_given_once(clone: Clone) -> None:
    code, said = clone.run("new", f"{KEY}::test_upper")
    assert code == 2 and said.endswith("has a test_upper already; choose another name")
    assert clone.read(ANSWERS) == BOOK


# prove --------------------------------------------------------------------------------------------

PROVE = '''\
"""Two koans with a deadline: no lazy answers, so two rounds prove them."""

import pytest

from sensei import answer, koan


@koan(see="s", hint="h", why="w", wrong={"3 * 1": "But it is right."})
@pytest.mark.timeout(9)
def test_a():
    """Lesson."""
    assert len("abc") == answer(3)


@koan(see="s", hint="h", why="w", wrong={"4": "r"})
@pytest.mark.timeout(9)
def test_b():
    """Lesson."""
    assert len("abc") == answer(3)
'''


def test_prove_names_a_wrong_answer_that_passes(clone: Clone) -> None:
    write(clone.root / "answers" / "01_tensor" / "test_02_prove.py", PROVE)
    assert clone.run("prove", "answers/01_tensor/test_02_prove.py") == (
        1,
        "solved: 01_tensor/test_02_prove.py::test_a [wrong: 3 * 1]\n4 mutants, 1 not as expected",
    )
