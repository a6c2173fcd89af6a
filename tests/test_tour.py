"""`pytest koans -m tour`: a dozen koans over the five primitives, in four minutes."""

from __future__ import annotations

from sensei.book import Book, packaged_root
from sensei.map_page import PRIMITIVES

TOUR = [koan for koan in Book(packaged_root()).koans if koan.mark("tour")]


def test_a_dozen_over_the_five_primitives() -> None:
    assert len(TOUR) == 12
    assert {koan.group for koan in TOUR} == set(PRIMITIVES)


def test_their_shares_make_four_minutes() -> None:
    shares = [mark.args for koan in TOUR if (mark := koan.mark("tour"))]
    assert all(len(share) == 1 and share[0] > 0 for share in shares)
    assert sum(share[0] for share in shares) == 240


def test_each_is_answered_at_a_glance() -> None:
    """No writing, no waiting: a value to predict, on any machine."""
    for koan in TOUR:
        assert koan.kind in ("predict", "error"), koan.id
        assert {mark.name for mark in koan.marks} == {"tour"}, koan.id
