"""What sensei remembers between runs. Optional: every answer it gives can be junk or absent.

Done is always computed from the files. The state only knows what cannot be seen there:
which koan was on the last card, what was solved and what slept the last time, how many hints
were shown, and which koans passed quickly, so that they may share a process the next time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensei.workbook import STATE, keep_out_of_git, write


@dataclass
class State:
    card: str = ""  # id of the koan on the last card
    solved: set[str] = field(default_factory=set)  # ids solved when last seen
    asleep: set[str] = field(default_factory=set)  # ids asleep when last seen
    koans: dict[str, dict[str, Any]] = field(default_factory=dict)  # id -> {"said", "hint"}
    quick: dict[str, str] = field(default_factory=dict)  # id -> digest of the text it passed in

    def known(self, koan_id: str) -> Mapping[str, Any]:
        return self.koans.get(koan_id, {})


def load(root: Path) -> State:
    """The state of a workbook. Anything unreadable counts as never stored."""
    try:
        data = json.loads((root / STATE / "state.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return State()
    if not isinstance(data, dict):
        return State()
    card, koans, quick = data.get("card"), data.get("koans"), data.get("quick")
    return State(
        card=card if isinstance(card, str) else "",
        solved=_ids(data.get("solved")),
        asleep=_ids(data.get("asleep")),
        koans=(
            {k: v for k, v in koans.items() if isinstance(v, dict)}
            if isinstance(koans, dict)
            else {}
        ),
        quick=(
            {k: v for k, v in quick.items() if isinstance(v, str)}
            if isinstance(quick, dict)
            else {}
        ),
    )


def _ids(data: object) -> set[str]:
    return {one for one in data if isinstance(one, str)} if isinstance(data, list) else set()


def save(root: Path, state: State) -> None:
    """Store the state; on a read-only disk, do without."""
    data = {"card": state.card, "solved": sorted(state.solved), "koans": state.koans}
    data |= {"asleep": sorted(state.asleep), "quick": state.quick}
    with suppress(OSError):
        write(root / STATE / "state.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        keep_out_of_git(root)
