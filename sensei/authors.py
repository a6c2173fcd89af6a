"""The contributor's commands: build, check, new, prove. Each prints and returns 0 or 1."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sensei import words
from sensei.apinames import new_names
from sensei.book import GROUP, Book
from sensei.compare import FileReading, read_copy
from sensei.ledger import FOLDERS, ledger_path, markdown, open_claims, read_ledger, teachers
from sensei.lint import MIX, check_book, check_chapter, check_see, mix
from sensei.parse import parse_chapter
from sensei.prove import rounds, run_round
from sensei.records import BookError, Chapter
from sensei.workbook import WorkbookError, backup, format_source, write


def build(book: Book, koans: Path, check: bool, force: bool) -> int:
    """Write koans/ from answers/, or only tell what is not as it should be.

    A file that holds a learner's solutions is left alone; with ``force`` it is backed up
    and replaced.
    """
    problems = []
    for chapter in book.chapters:
        path = koans / chapter.key
        fresh = format_source(chapter.template, path)
        state = _state_of(path, fresh, chapter)
        if state == "fresh":
            continue
        if check:
            if state == "solutions":
                if os.environ.get("CI") == "true":
                    problems.append(words.CI_HOLDS_SOLUTIONS.format(path=_shown(path)))
            else:
                problems.append(
                    words.BUILD_STALE.format(path=_shown(path), answers=_shown(chapter.path))
                )
        elif state in ("solutions", "mixed") and not force:
            problems.append(words.HOLDS_SOLUTIONS.format(path=_shown(path)))
        else:
            if state in ("solutions", "mixed", "edited"):
                backup(koans, path)
            write(path, fresh)
    for path in sorted(koans.glob("*/test_*.py")):
        if f"{path.parent.name}/{path.name}" not in book:
            problems.append(words.BUILD_EXTRA.format(path=_shown(path)))
    problems += _build_ledger(book, check)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _state_of(path: Path, fresh: str, chapter: Chapter) -> str:
    """missing, fresh, stale (only as given, of an older book), or else what it holds.

    That is solutions and nothing else that differs, or edited lines, or both: mixed.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "missing"
    if data.decode("utf-8", "replace").replace("\r\n", "\n") == fresh:
        return "fresh"
    reading = read_copy(data, chapter)
    states: set[str] = {r.state for r in reading.koans.values()}
    older = _committed(chapter)
    if _as_given(reading) or (older and _as_given(read_copy(data, older))):
        return "stale"
    if "filled" not in states:
        return "edited"
    return "solutions" if states <= {"open", "filled"} else "mixed"


def _as_given(reading: FileReading) -> bool:
    states = {found.state for found in reading.koans.values()}
    return states == {"open"} and not reading.extras and reading.same_module


def _committed(chapter: Chapter) -> Chapter | None:
    """The chapter as git last saw it: given lines that changed since then look like answers."""
    command = ["git", "show", f"HEAD:./{chapter.file}"]
    try:
        done = subprocess.run(command, cwd=chapter.path.parent, capture_output=True)
        return None if done.returncode else parse_chapter(done.stdout.decode(), chapter.path)
    except (OSError, UnicodeDecodeError, BookError):  # no git here, or of another form
        return None


def _build_ledger(book: Book, check: bool) -> list[str]:
    source = ledger_path(book.root)
    if not source.exists():
        return []
    path = source.with_name("claims.md")
    text = markdown(read_ledger(source), book.koans, book.groups)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return []
    if check:
        return [words.BUILD_STALE.format(path=_shown(path), answers=_shown(source))]
    write(path, text)
    return []


def check(book: Book, chapters: Sequence[Chapter], whole: bool, verbose: bool) -> int:
    """The lint: one line per offence. Of the whole book, also what only shows across files."""
    source = ledger_path(book.root)
    claims = read_ledger(source) if source.exists() else ()
    ids = {claim.id for claim in claims} if claims else None
    offences = [str(o) for chapter in chapters for o in check_chapter(chapter, ids)]
    for chapter in chapters:
        for koan in chapter.koans:
            if "TODO" not in koan.see and (said := check_see(koan)):
                offences.append(f"{chapter.path}:{koan.line}: {koan.name}: {said}")
    if whole:
        offences += [str(o) for o in check_book(chapters)]
        offences += list(_mix_offences(chapters))
        for claim in open_claims(claims, teachers(book.koans)):
            if FOLDERS[claim.group] in book.groups:
                offences.append(f"{source}: {claim.id} ({claim.group}) is taught by no koan")
    if verbose:
        for koan, names in new_names(chapters):
            print(f"{koan.id}: {koan.kind}, {len(names)} new: {', '.join(names)}")
    for offence in offences:
        print(offence)
    if not offences:
        koans = [koan for chapter in chapters for koan in chapter.koans]
        shares = ", ".join(f"{kind} {share:.0%}" for kind, share in mix(koans).items())
        print(f"{len(koans)} koans in {len(chapters)} files, clean ({shares})")
    return 1 if offences else 0


def _mix_offences(chapters: Sequence[Chapter]) -> Iterator[str]:
    koans = [koan for chapter in chapters for koan in chapter.koans]
    for kind, share in mix(koans).items():
        if koans and share < MIX[kind]:
            yield f"{chapters[0].path.parent.parent}: {share:.0%} of the koans are of kind {kind}; at least {MIX[kind]:.0%}"  # noqa: E501


def prove(chapters: Sequence[Chapter]) -> int:
    """Run every answer, right, wrong and lazy answer of some files."""
    bad = total = 0
    for chosen in rounds(chapters):
        with tempfile.TemporaryDirectory() as folder:
            for result in run_round(Path(folder), chosen):
                total += 1
                if not result.as_expected:
                    bad += 1
                    print(f"{result.verdict}: {result.mutant}")
    print(f"{total} mutants, {bad} not as expected")
    return 1 if bad else 0


SCAFFOLD = '''

@koan(
    claims=[],
    see="torch.TODO",
    hint="TODO: guide the thinking, without the answer",
    why="TODO: the reason, shown once it is solved",
    wrong={"TODO": "TODO: why somebody believes it, and what happens instead"},
)
def {name}():
    """TODO: say what to do, in at most 60 words, without giving the answer away."""
    x = torch.zeros(2, 3)
    assert tuple(x.shape) == answer((2, 3))
'''

HEADER = '''"""TODO: what this file is about, in one line."""

import torch

from sensei import answer, koan
'''


def new(book: Book, target: str) -> int:
    """Append a scaffold to an answers file, which is made if need be."""
    key, _, name = target.partition("::")
    group, _, file = key.partition("/")
    if not (
        GROUP.match(group)
        and re.fullmatch(r"test_\d\d_\w+\.py", file)
        and re.fullmatch(r"test_\w+", name)
    ):
        raise WorkbookError(f"{target}: say it as 01_tensor/test_01_creation.py::test_what_it_asks")
    path = book.root / group / file
    text = path.read_text(encoding="utf-8") if path.exists() else HEADER
    if re.search(rf"^def {name}\(", text, re.M):
        raise WorkbookError(f"{path} has a {name} already; choose another name")
    write(path, text.rstrip("\n") + "\n" + SCAFFOLD.replace("{name}", name))
    print(f"{_shown(path)}: {name} waits for you at the end. Then: koans check, koans build.")
    return 0


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
