"""The guide of a run: gathers the verdicts, checks that they add up, draws the screen.

Lives in the main process only. With pytest-xdist the verdicts come from the workers,
on their reports; without it, from this process. Only the guide writes the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import RenderableType
from rich.rule import Rule
from rich.text import Text

from sensei import report as screen
from sensei import words
from sensei.company import QUICK
from sensei.paint import paint_pytest
from sensei.shelf import SHELF
from sensei.state import State, load, save
from sensei.verdict import DONE, Judgement, Tally, next_koan
from sensei.workbook import Workbook


@dataclass
class Counts:
    """What collection found: sent by a worker, or counted here."""

    expected: int = 0
    deselected: int = 0


@dataclass(eq=False)  # pluggy keeps plugins in a set
class Guide:
    config: pytest.Config
    counts: Counts
    judgements: dict[str, Judgement] = field(default_factory=dict)  # of workbooks, by node id
    judged: set[str] = field(default_factory=set)  # node ids, those of the book too
    extras: dict[str, int] = field(default_factory=dict)
    roots: dict[Path, Workbook] = field(default_factory=dict)
    complaint: str = ""

    # gathering ------------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = getattr(report, "koan", None)
        if data is None:
            return
        data = dict(data)
        book, root = data.pop("book"), Path(data.pop("root"))
        self.judged.add(report.nodeid)
        if not book:
            self.judgements[report.nodeid] = Judgement.from_json(data)
            self.roots.setdefault(root, self.config.stash[SHELF].workbook(root))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        found = getattr(node, "workeroutput", {}).get("koans")
        if found:
            self.counts.expected, self.counts.deselected = found

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        tally = self._tally(session)
        if not tally.adds_up:
            self.complaint = words.DOES_NOT_ADD_UP.format(**vars(tally))
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _tally(self, session: pytest.Session) -> Tally:
        counts, judged = self.counts, len(self.judged)
        left = counts.expected - judged - counts.deselected
        most = self.config.getoption("maxfail")
        ended_early = (
            bool(session.shouldstop or session.shouldfail)
            or bool(most and session.testsfailed >= most)
            or session.exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
            or bool(self.config.getoption("collectonly"))
        )
        return Tally(counts.expected, judged, counts.deselected, left if ended_early else 0)

    # drawing --------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.complaint:
            terminalreporter.write_line(self.complaint, red=True)
        if self.config.getoption("reveal"):
            return
        for root, workbook in self.roots.items():
            parts = self._screen(root, workbook, terminalreporter.verbosity)
            paint_pytest(terminalreporter, [Text(""), *parts, Text("")])

    def _screen(self, root: Path, workbook: Workbook, verbosity: int) -> list[RenderableType]:
        state = load(root)
        path = in_order(workbook, self._of(root))
        by_id = {j.id: j for j in path}
        solved = {j.id for j in path if j.verdict == "solved"}
        fresh = [j.id for j in path if j.id in solved - state.solved]
        gone = [j for j in path if j.id in state.solved and j.verdict not in DONE]
        lost = [j.id for j in gone if not j.whole_file]
        now_solved = (state.solved - by_id.keys()) | solved
        sleeping = {j.id for j in path if j.verdict == "asleep"}
        now_asleep = (state.asleep - by_id.keys()) | sleeping
        current = next_koan(path)
        parts: list[RenderableType] = []
        if verbosity >= 0:
            parts += [self._map(workbook, path, now_solved, now_asleep), Text("")]
        if fresh:
            parts += [
                screen.solved_lines([k for i in fresh if (k := workbook.book.find(i))]),
                Text(""),
            ]
        if lost:
            parts += [Text(words.WAS_SOLVED.format(ids=", ".join(lost)), style="yellow"), Text("")]
        if current is None:
            parts += self._all_solved(workbook, now_solved | now_asleep)
        elif verbosity < -1:
            parts.append(Text(f"{current.path}:{current.line}: {current.verdict}"))
        else:
            parts += [*screen.tried_lines(path, current), self._card(workbook, current)]
        save(root, new_state(replace(state, asleep=now_asleep), path, now_solved, current))
        return parts

    def _of(self, root: Path) -> list[Judgement]:
        prefix = [w for w in self.roots if w == root]
        return [j for j in self.judgements.values() if len(self.roots) == 1 or _below(j, prefix)]

    def _map(
        self, workbook: Workbook, path: list[Judgement], solved: set[str], asleep: set[str]
    ) -> RenderableType:
        groups = screen.group_counts(path, _totals(workbook), solved, asleep)
        return screen.path_map(groups)

    def _all_solved(self, workbook: Workbook, done: set[str]) -> list[RenderableType]:
        here = _totals(workbook)
        left = sum(here.values()) - sum(koan_id.partition("/")[0] in here for koan_id in done)
        parts: list[RenderableType] = [
            Rule(style="dim"),
            Text(words.ALL_SOLVED, style="bold green"),
        ]
        if left > 0:
            parts.append(Text(words.ALL_SOLVED_ELSEWHERE.format(open=left)))
        return parts

    def _card(self, workbook: Workbook, current: Judgement) -> RenderableType:
        koan = workbook.book.find(current.id)
        assert koan is not None
        return screen.card(current, koan, workbook.text(koan.key))


def _totals(workbook: Workbook) -> dict[str, int]:
    """Koans of each group that this workbook holds."""
    totals = workbook.book.totals()
    return {group: n for group, n in totals.items() if (workbook.root / group).is_dir()}


def _below(judgement: Judgement, roots: list[Path]) -> bool:
    return any(Path(judgement.path).resolve().is_relative_to(root.resolve()) for root in roots)


def in_order(workbook: Workbook, judgements: list[Judgement]) -> list[Judgement]:
    """Judgements in the order of the path, however the workers sent them."""

    def place(judgement: Judgement) -> tuple[int, int]:
        key, _, name = judgement.id.partition("::")
        names = [koan.name for koan in workbook.book.chapter(key).koans]
        return workbook.book.keys.index(key), names.index(name)

    return sorted(judgements, key=place)


def new_state(
    old: State, path: list[Judgement], solved: set[str], current: Judgement | None
) -> State:
    koans, quick = dict(old.koans), dict(old.quick)
    for judgement in path:
        quick.pop(judgement.id, None)
        if judgement.verdict == "solved" and judgement.seconds <= QUICK:
            quick[judgement.id] = judgement.digest
        if judgement.hint:
            said = "\n".join(judgement.said)
            koans[judgement.id] = {
                **koans.get(judgement.id, {}),
                "said": said,
                "hint": judgement.hint,
            }
        elif judgement.verdict == "solved":
            koans.pop(judgement.id, None)
    card = current.id if current else ""
    return replace(old, card=card, solved=solved, koans=koans, quick=quick)
