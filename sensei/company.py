"""Koans that have passed before, as they stand, share one child a file. It is much cheaper.

A fork copies the page tables of torch, which costs more than most koans do. Who has passed
alone, in this very text and quickly, may run beside its neighbours, with the globals put
back in between. Only a pass counts there: whatever else happens, the koan is judged again
in a child of its own, as if this one had never been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sensei.nodes import KoanFile, KoanItem
from sensei.supervise import Child, Ended

QUICK = 0.3  # seconds; a slower koan gains nothing from company
LONGEST = 10.0  # seconds after which a koan that used to be quick is tried alone
ALONE = ("timeout", "gpu", "slow")  # marks of koans that start processes, CUDA, or take time


def may_join(item: KoanItem, known: dict[str, str]) -> bool:
    """Has this koan passed before, quickly and in the very text it has now?"""
    text = known.get(item.koan.id)
    if text is None or item.koan.benchmarks or any(item.koan.mark(name) for name in ALONE):
        return False
    return text == item.file.digest


class Company:
    """The child that the known koans of one file share.

    serve: runs in the child, with one of the items, and returns what can go through JSON.
    """

    def __init__(self, serve: Callable[[KoanItem], Any]) -> None:
        self._serve = serve
        self._file: KoanFile | None = None
        self._child: Child | None = None

    def run(self, item: KoanItem, deadline: float) -> Ended:
        """Run a koan beside its neighbours. Its file has been imported in this process."""
        if self._file is not item.file or self._child is None or not self._child.alive:
            self.end()
            items = {other.name: other for other in self._neighbours(item)}
            self._child = Child(lambda name: self._serve(items[name]))
            self._file = item.file
        return self._child.ask(item.name, min(deadline, LONGEST))

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
        self._child = self._file = None

    @staticmethod
    def _neighbours(item: KoanItem) -> list[KoanItem]:
        return [
            other
            for other in item.session.items
            if isinstance(other, KoanItem) and other.parent is item.parent
        ]
