"""``koans report --json``: every verdict as data, for editors and instructors.

The form is documented in docs/report.md; :data:`VERSION` grows when a reader of it would break.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sensei import words
from sensei.learner import check_place, shown
from sensei.records import Koan
from sensei.report import plain_card
from sensei.silent import judge_silently
from sensei.verdict import Judgement, count
from sensei.workbook import Workbook

VERSION = 1


def judge_all(workbook: Workbook, koans: Sequence[Koan]) -> list[Judgement]:
    """Judge koans, in their order, without a word to the learner's state.

    Those of a file that is gone are broken: pytest cannot be asked for them by its name.
    """
    keys = dict.fromkeys(koan.key for koan in koans)
    there = [key for key in keys if (workbook.root / key).is_file()]
    found = {j.id: j for j in judge_silently(workbook.root, there)} if there else {}
    for koan in koans:
        if koan.key not in there:
            found[koan.id] = _gone(workbook, koan)
    return [found[koan.id] for koan in koans if koan.id in found]


def _gone(workbook: Workbook, koan: Koan) -> Judgement:
    path = shown(workbook.root / koan.key)
    detail = words.MISSING.format(path=path, line=1, name=koan.name, id=koan.id)
    return Judgement(koan.id, "broken", path, 1, detail=detail)


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
    """Judge koans, and write what came out. Returns 1 if a koan got no verdict.

    Raises WorkbookError where the report cannot be written.
    """
    if output is not None:
        check_place(output)
    judgements = judge_all(workbook, koans)
    text = json.dumps(as_data(workbook, judgements), indent=1, ensure_ascii=False)
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
    unjudged = len(koans) - len(judgements)
    if unjudged:  # an option in the workbook's pytest.ini, say
        said = words.REPORT_UNJUDGED.format(count=unjudged, path=shown(workbook.root))
        print(said, file=sys.stderr)
    return 1 if unjudged else 0
