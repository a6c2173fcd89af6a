"""Answers that must fail, and answers that must pass: what proves that a koan teaches.

For each koan the book yields its own answer, every ``right`` and every ``wrong``, and
the lazy answers somebody tries who does not want to think. Pure: records in, records out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from sensei.records import BLANK, Chapter, Koan
from sensei.trees import SCOPES, Definition, region_lines, same_answer

LAZY_BLANKS = ("None", "0", "True", "''", "...")


@dataclass(frozen=True)
class Mutant:
    """One way to fill all slots of a koan."""

    koan: Koan
    label: str  # "answer", "right", "wrong" or "lazy"
    answers: tuple[str, ...]

    @property
    def must_pass(self) -> bool:
        return self.label in ("answer", "right")

    def __str__(self) -> str:
        said = " / ".join(answer.replace("\n", "; ") or "(deleted)" for answer in self.answers)
        return f"{self.koan.id} [{self.label}: {said}]"


def mutants(chapter: Chapter, koan: Koan) -> Iterator[Mutant]:
    """All mutants of a koan. One with a deadline gets no lazy ones: each could take it whole."""
    yield Mutant(koan, "answer", koan.answers)
    for right in koan.right:
        yield Mutant(koan, "right", right)
    for wrong in koan.wrong:
        yield Mutant(koan, "wrong", wrong.answers)
    if koan.mark("timeout") is None:
        known = {koan.answers, *koan.right, *(wrong.answers for wrong in koan.wrong)}
        for lazy in _lazy(chapter, koan):
            if not any(_same(lazy, other) for other in known):
                known.add(lazy)
                yield Mutant(koan, "lazy", lazy)


def _same(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Are they filled in alike? A region that was deleted holds a ``pass``."""
    return all(same_answer(a or "pass", b or "pass") for a, b in zip(left, right, strict=True))


def _lazy(chapter: Chapter, koan: Koan) -> Iterator[tuple[str, ...]]:
    columns = [
        _lazy_regions(place) if slot.region else [*LAZY_BLANKS, *place.other_sides, *place.inputs]
        for slot, place in zip(koan.slots, _places(chapter, koan), strict=True)
    ]
    longest = max(len(column) for column in columns)
    for i in range(longest):
        yield tuple(column[min(i, len(column) - 1)] for column in columns)


@dataclass(frozen=True)
class _Place:
    """What stands around one slot of the template."""

    inputs: tuple[str, ...]  # local names at hand, the first and the last bound
    other_sides: tuple[str, ...] = ()  # of the comparison a blank is part of
    scope: ast.stmt | None = None  # the inner function or class a region lies in
    repair: bool = False


def _lazy_regions(place: _Place) -> list[str]:
    lazy = ["" if place.repair else "pass"]
    if place.scope is None:
        return [*lazy, "return"]
    if not isinstance(place.scope, Definition):
        return lazy  # a return in the body of a class is no Python, and hurts the whole file
    names = [a.arg for a in place.scope.args.args if a.arg not in ("self", "ctx", "cls")]
    return [*lazy, "return None", *(f"return {name}" for name in names)]


def _places(chapter: Chapter, koan: Koan) -> list[_Place]:
    tree = ast.parse(chapter.template)
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == koan.name)
    after = min((n.lineno for n in tree.body if n.lineno > function.lineno), default=10**9)
    regions = [r for r in region_lines(chapter.template) if function.lineno < r[0] < after]
    places: list[tuple[int, int, _Place]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == BLANK:
            if not any(start < node.lineno < end for start, end in regions):
                place = _Place(_inputs(function, node.lineno), _other_sides(function, node))
                places.append((node.lineno, node.col_offset, place))
    given = iter(slot.given for slot in koan.slots if slot.region)
    for start, _ in regions:
        place = _Place((), scope=_inner_scope(function, start), repair=bool(next(given)))
        places.append((start, 0, place))
    return [place for _, _, place in sorted(places, key=lambda item: item[:2])]


def _inputs(function: ast.FunctionDef, line: int) -> tuple[str, ...]:
    """The first and the last local name bound before a line: "the input itself"."""
    names = [
        node.id
        for statement in function.body
        if statement.lineno < line
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return tuple(dict.fromkeys([*names[:1], *names[-1:]]))


def _other_sides(function: ast.FunctionDef, blank: ast.Name) -> tuple[str, ...]:
    return tuple(
        ast.unparse(side)
        for node in ast.walk(function)
        if isinstance(node, ast.Compare) and len(node.comparators) == 1
        for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left))
        if other is blank
    )


def _inner_scope(function: ast.FunctionDef, line: int) -> ast.stmt | None:
    """The innermost function or class inside the test that holds the region of a line."""
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, SCOPES)
        and node is not function
        and node.lineno < line < (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno, default=None)
