"""``koans report --json``: every verdict as data, for editors and instructors.

The form is documented in docs/report.md; :data:`VERSION` grows when a reader of it would break.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sensei.records import Koan
from sensei.report import plain_card
from sensei.silent import judge_silently
from sensei.verdict import Judgement, count
from sensei.workbook import Workbook

VERSION = 1


def judge_all(workbook: Workbook, koans: Sequence[Koan]) -> list[Judgement]:
    """Judge koans, without a word to the learner's state."""
    files = dict.fromkeys(koan.key for koan in koans)
    wanted = {koan.id for koan in koans}
    return [j for j in judge_silently(workbook.root, files) if j.id in wanted]


def as_data(workbook: Workbook, judgements: Sequence[Judgement]) -> dict[str, Any]:
    """The report. Holds no value of either side of an assertion."""
    rows = []
    for judgement in judgements:
        koan = workbook.book.find(judgement.id)
        assert koan is not None
        solved = judgement.verdict == "solved"
        rows.append(
            {
                "id": judgement.id,
                "group": koan.group,
                "verdict": judgement.verdict,
                "seconds": round(judgement.seconds, 3),
                "message": "" if solved else plain_card(judgement, koan),
            }
        )
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "torch": _torch_version(),
        "counts": dict(count(judgements)),
        "koans": rows,
    }


def _torch_version() -> str | None:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def write_report(workbook: Workbook, koans: Sequence[Koan], output: Path | None) -> int:
    text = json.dumps(as_data(workbook, judge_all(workbook, koans)), indent=1, ensure_ascii=False)
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
    return 0
