"""What every koan must have, read from the book: the book proves itself.

Untouched it is open; its answer and every ``right`` pass; every ``wrong`` and every lazy
answer fail; what it points to exists; every function named like a test is a koan.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sensei.book import Book, packaged_root
from sensei.compare import read_copy
from sensei.ledger import ledger_path, read_ledger
from sensei.lint import check_chapter, check_see
from sensei.mutants import mutants
from sensei.prove import rounds, run_round
from sensei.records import Chapter

BOOK = Book(packaged_root())
CLAIMS = {claim.id for claim in read_ledger(ledger_path(BOOK.root))}


@pytest.fixture(params=BOOK.keys)
def chapter(request: pytest.FixtureRequest) -> Chapter:
    return BOOK.chapter(request.param)


def test_untouched_every_koan_is_open(chapter: Chapter) -> None:
    reading = read_copy(chapter.template, chapter)
    assert {name: r.state for name, r in reading.koans.items()} == {
        koan.name: "open" for koan in chapter.koans
    }
    assert reading.same_module and not reading.extras


def test_the_form_is_kept(chapter: Chapter) -> None:
    offences = [str(offence) for offence in check_chapter(chapter, CLAIMS)]
    assert offences == []


def test_see_leads_to_a_docstring(chapter: Chapter) -> None:
    assert [f"{k.name}: {said}" for k in chapter.koans if (said := check_see(k))] == []


def test_every_test_function_is_a_koan(chapter: Chapter) -> None:
    names = [
        node.name
        for node in ast.walk(ast.parse(chapter.text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    ]
    assert names == [koan.name for koan in chapter.koans]


# All groups at once: the fewer runs, the less often torch is imported.
ROUNDS = list(rounds(BOOK.chapters))


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_right_answers_pass_and_wrong_and_lazy_ones_fail(number: int, tmp_path: Path) -> None:
    chosen = ROUNDS[number]
    results = run_round(tmp_path, chosen)
    assert len(results) == sum(len(mutants) for _, mutants in chosen)
    assert [f"{r.verdict}: {r.mutant}" for r in results if not r.as_expected] == []


def test_every_koan_has_a_lazy_mutant_or_a_deadline() -> None:
    """The proof above would be hollow if a koan had nothing that must fail."""
    for chapter in BOOK.chapters:
        for koan in chapter.koans:
            labels = [mutant.label for mutant in mutants(chapter, koan)]
            assert "wrong" in labels, koan.id
            assert "lazy" in labels or koan.mark("timeout"), koan.id
