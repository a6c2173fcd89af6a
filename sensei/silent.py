"""Run koans with pytest, but without its screen: only the verdicts come out."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from sensei.verdict import Judgement

# Without the terminal reporter nothing is drawn, and so nothing counts as "last seen". The
# last one collects garbage of the whole process at its end, which costs more than the run.
OFF = ("terminal", "cacheprovider", "sugar", "randomly", "unraisableexception")
QUIET = [part for name in OFF for part in ("-p", f"no:{name}")]


class Collector:
    """A pytest plugin that keeps what was judged."""

    def __init__(self) -> None:
        self.judgements: list[Judgement] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = getattr(report, "koan", None)
        if data is not None:
            fields = {k: v for k, v in data.items() if k not in ("book", "root")}
            self.judgements.append(Judgement.from_json(fields))


def judge_silently(root: Path, ids: Iterable[str], options: Sequence[str] = ()) -> list[Judgement]:
    """The verdicts of koans (``group/file::name``, or whole ``group/file``) of a workbook.

    options: of pytest, added to the command line.
    """
    collector = Collector()
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*(str(root / one) for one in ids), *QUIET, *options], plugins=[collector])
    return collector.judgements
