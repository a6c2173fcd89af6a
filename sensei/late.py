"""Imports that come late: a child finds out about them, and its parent spares the next child.

torch imports parts of itself when they are first used, which may take a second.
"""

from __future__ import annotations

import importlib
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice


@contextmanager
def new_modules() -> Iterator[list[str]]:
    """Collect the names of installed modules (never a learner's) imported inside the block."""
    before = len(sys.modules)
    found: list[str] = []
    yield found
    # The last ones are the new ones. To look at the others, too, would copy a page that a
    # child shares with its parent for nearly each of them.
    for name in list(islice(reversed(sys.modules), max(len(sys.modules) - before, 0))):
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "site-packages" in file or "dist-packages" in file:
            found.append(name)


@contextmanager
def _clock_stopped() -> Iterator[None]:
    """Where a koan runs in this process, its deadline waits while we import for it."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, again)


def import_quietly(names: list[str]) -> None:
    """Import modules that a child needed, so that the next child finds them here."""
    for name in names:
        with suppress(Exception), warnings.catch_warnings(), _clock_stopped():
            warnings.simplefilter("ignore")
            if name not in sys.modules:
                importlib.import_module(name)
