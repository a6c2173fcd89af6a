"""docs/pains.toml says which koan teaches which real mistake; here it is held to that."""

from __future__ import annotations

import sys

import pytest

from sensei.book import Book, packaged_root
from sensei.ledger import FOLDERS
from tests.desk import REPO

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAINS = tomllib.loads((REPO / "docs" / "pains.toml").read_text(encoding="utf-8"))["pain"]
BOOK = Book(packaged_root())
KOANS = {koan.id for koan in BOOK.koans}


@pytest.mark.parametrize("pain", PAINS, ids=lambda pain: pain["id"])
def test_its_koans_exist(pain: dict[str, object]) -> None:
    assert set(pain) - {"untaught"} == {"id", "group", "title", "koans"}
    assert pain["group"] in FOLDERS
    koans = pain["koans"]
    assert isinstance(koans, list)
    assert set(koans) <= KOANS and len(set(koans)) == len(koans)
    assert bool(koans) != bool(pain.get("untaught")), "taught, or a reason why not"


def test_each_case_once_and_most_of_them_taught() -> None:
    ids = [pain["id"] for pain in PAINS]
    assert ids == sorted(set(ids))
    taught = [pain for pain in PAINS if pain["koans"]]
    assert len(taught) >= 0.8 * len(PAINS)
