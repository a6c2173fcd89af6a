"""The ledger: read, counted, and shown side by side with the koans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sensei.book import GROUP
from sensei.ledger import (
    FOLDERS,
    Claim,
    ledger_path,
    markdown,
    open_claims,
    read_ledger,
    teachers,
)
from sensei.parse import parse_chapter
from sensei.records import BookError, Koan
from tests.desk import REPO

ROW = """
[[claim]]
id = "A-1-01"
section = "1"
group = "tensor"
claim = "c"
verdict = "true"
truth = "t"
"""
SECOND = ROW.replace("A-1-01", "A-1-02")
CARD = '@koan(see="s", hint="h", why="w", wrong={"3": "r"}, claims=["A-1-01"])'
KOAN = '''
{card}
def test_{name}():
    """Lesson."""
    assert {value} + 1 == answer(2)
'''


def koans(*names: str) -> list[Koan]:
    parts = [KOAN.format(card=CARD, name=name, value=i) for i, name in enumerate(names)]
    text = "from sensei import answer, koan\n" + "\n".join(parts)
    return list(parse_chapter(text, Path("answers/01_tensor/test_01_a.py")).koans)


def claim(number: int = 1, **changes: str) -> Claim:
    return replace(Claim(f"A-1-{number:02}", "1", "tensor", "c", "true", "t"), **changes)


def test_reading(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(ROW + SECOND + 'untaught = "an anecdote"\n')
    assert read_ledger(file) == (claim(), claim(2, untaught="an anecdote"))
    file.write_text("# none yet\n")
    assert read_ledger(file) == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (ROW + "truth\n", 1, "not TOML: "),
        (ROW + SECOND.replace("truth", "trueth"), 11, "A-1-02: a claim has id, section, group, "),
        (ROW + SECOND + 'koan = "x"\n', 11, "A-1-02: a claim has id, section, group, claim"),
        (ROW.replace('verdict = "true"\n', ""), 3, "A-1-01: a claim has id, section, group, "),
        (ROW.replace('"tensor"', '"tensors"'), 3, "A-1-01: group is one of tensor, autograd, "),
    ],
)
def test_what_is_amiss_is_said_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(text)
    with pytest.raises(BookError) as caught:
        read_ledger(file)
    assert str(caught.value).startswith(f"{file}:{line}: {words}")


def test_where_it_lies(tmp_path: Path) -> None:
    assert ledger_path(tmp_path / "answers") == tmp_path / "_claims.toml"  # in a wheel
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "claims.toml").touch()
    assert ledger_path(tmp_path / "answers") == tmp_path / "docs" / "claims.toml"


def test_a_claim_is_open_until_it_is_taught_or_says_why_not() -> None:
    claims = [claim(1), claim(2), claim(3, untaught="an anecdote")]
    taught = teachers(koans("a", "b"))
    assert {key: [k.name for k in found] for key, found in taught.items()} == {
        "A-1-01": ["test_a", "test_b"]
    }
    assert open_claims(claims, taught) == [claims[1]]
    assert open_claims(claims, {}) == claims[:2]


def test_the_page() -> None:
    claims = [
        claim(1, claim="a | b\nc", truth="`x|y`"),
        claim(2),
        claim(3, untaught="an anecdote"),
        Claim("B-2-01", "2", "loop", "d", "false", "u"),
    ]
    assert markdown(claims, koans("a", "b"), ["01_tensor"]).split("\n", 4)[4] == (
        "4 claims; 2 are taught by a koan or say why not, 2 wait for theirs.\n\n"
        "Select the koans of a section with `pytest koans --document A-3.2`.\n\n"
        "## A-1\n\n"
        "| claim | verdict | what PyTorch does | koans |\n|---|---|---|---|\n"
        "| A-1-01: a \\| b c | true | `x\\|y` | `01_tensor` test_a<br>`01_tensor` test_b |\n"
        "| A-1-02: c | true | t | open |\n"
        "| A-1-03: c | true | t | an anecdote |\n\n"
        "## B-2\n\n"
        "| claim | verdict | what PyTorch does | koans |\n|---|---|---|---|\n"
        "| B-2-01: d | false | u | open (05_loop) |\n"
    )


def test_every_group_has_a_folder_and_every_folder_claims() -> None:
    claims = read_ledger(ledger_path(REPO / "answers"))
    assert {claim.group for claim in claims} == set(FOLDERS)
    assert all(GROUP.match(folder) for folder in FOLDERS.values())
    assert len({claim.id for claim in claims}) == len(claims)
    assert {claim.document for claim in claims} == {"A", "B"}
    assert {c.verdict for c in claims} == {"true", "false", "imprecise", "outdated", "anecdote"}
    for claim in claims:
        assert claim.id.startswith(f"{claim.document}-{claim.section}-"), claim.id
