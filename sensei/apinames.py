"""Which names of PyTorch's API a learner meets for the first time in each koan."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from sensei.records import Chapter, Koan


def new_names(chapters: Sequence[Chapter]) -> Iterator[tuple[Koan, list[str]]]:
    """Along the path: each koan with the attributes it uses that no koan before it used."""
    met: set[str] = set()
    for chapter in chapters:
        functions = {
            node.name: node
            for node in ast.parse(chapter.template).body
            if isinstance(node, ast.FunctionDef)
        }
        for koan in chapter.koans:
            used = {n.attr for n in ast.walk(functions[koan.name]) if isinstance(n, ast.Attribute)}
            yield koan, sorted(used - met)
            met |= used
