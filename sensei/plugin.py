"""The pytest plugin: hooks in the order pytest calls them.

Outside a workbook it does nothing. State lives in stash keys of the config.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sensei import report as screen
from sensei import words
from sensei.company import Company, may_join
from sensei.guide import Counts, Guide
from sensei.judge import deadline_of, in_company, judge, note_error, report, run_extra, seed
from sensei.message import has_better_than_hint
from sensei.nodes import ExtraItem, GroupDir, KoanFile, KoanItem
from sensei.options import MARKERS, add_options
from sensei.records import Koan
from sensei.shelf import SHELF, Shelf
from sensei.state import State, load
from sensei.supervise import FORKS_SAFELY
from sensei.verdict import Judgement, hint_step


@dataclass
class Run:
    """What this process knows of the session's koans."""

    counts: Counts = field(default_factory=Counts)
    states: dict[Path, State] = field(default_factory=dict)  # of each workbook met
    learnt: set[str] = field(default_factory=set)  # modules imported on behalf of children
    company: Company = field(default_factory=lambda: Company(in_company))

    def company_for(self, item: KoanItem) -> Company | None:
        """The child that this koan may share with its neighbours, if it may."""
        if item.config.getoption("isolate") == "fork":  # to ask for it is to mean it
            return None
        known = self.states[item.file.workbook.root].quick
        return self.company if may_join(item, known) else None


RUN = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Before torch is imported: asking for a GPU must not start CUDA in a process that forks.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[SHELF] = Shelf()
    if not config.getoption("benchmark_only", False) and hasattr(config.option, "benchmark_quiet"):
        config.option.benchmark_quiet = True  # a table of 200 columns, only for who asks for it
    run = config.stash[RUN] = Run()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Guide(config, run.counts), "sensei-guide")


# collection ---------------------------------------------------------------------------------------


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> GroupDir | None:
    if parent.config.stash[SHELF].place(path) is None:
        return None
    return GroupDir.from_parent(parent, path=path)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> KoanFile | None:
    placed = parent.config.stash[SHELF].place(module_path)
    if placed is None:
        return None
    return KoanFile.from_parent(parent, path=module_path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = config.stash[RUN]
    _select_document(config, items)
    # The path has one order, whatever shuffled the items. Benchmarks come last: they run in
    # this process, and must not start threads in it before the last fork.
    places = sorted(i for i, item in enumerate(items) if isinstance(item, (KoanItem, ExtraItem)))
    koans = sorted((items[i] for i in places), key=_place_on_path)
    for i, item in zip(places, koans, strict=True):
        items[i] = item
    for item in koans:
        if not forks(item) and item.get_closest_marker("timeout") is None:
            # pytest-timeout, where it is installed, keeps the deadline in this process.
            item.add_marker(pytest.mark.timeout(deadline_of(item)))
        if isinstance(item, KoanItem):
            run.counts.expected += 1
            root = item.file.workbook.root
            if root not in run.states:
                run.states[root] = load(root)
    first = next((k for k in koans if isinstance(k, KoanItem) and k.reading.state == "open"), None)
    if first is not None and any(slot.given for slot in first.koan.slots):
        first.demonstrate = all(slot.region for slot in first.koan.slots)


def _place_on_path(item: pytest.Item) -> tuple[bool, str, str, int]:
    assert isinstance(item, (KoanItem, ExtraItem))
    names = [koan.name for koan in item.file.chapter.koans]
    if isinstance(item, ExtraItem):
        return False, item.path.parent.as_posix(), item.path.name, len(names)
    return item.koan.benchmarks, item.path.parent.as_posix(), item.path.name, names.index(item.name)


def _select_document(config: pytest.Config, items: list[pytest.Item]) -> None:
    section = config.getoption("document")
    if not section:
        return
    dropped = [i for i in items if not (isinstance(i, KoanItem) and _teaches(i.koan, section))]
    books = {item.file.workbook.book for item in items if isinstance(item, KoanItem)}
    known = any(_teaches(koan, section) for book in books for koan in book.koans)
    if books and not known and not hasattr(config, "workerinput"):  # a worker would only crash
        raise pytest.UsageError(words.NO_SECTION.format(section=section))
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [i for i in items if isinstance(i, KoanItem) and _teaches(i.koan, section)]


def _teaches(koan: Koan, section: str) -> bool:
    """Is a claim of this section (A-4 holds A-4.2; A-4.2-07 is one claim) taught here?"""
    return any(
        claim == section or claim.startswith((section + "-", section + "."))
        for claim in koan.claims
    )


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, KoanItem):
            counts = item.config.stash[RUN].counts
            counts.deselected += 1
            counts.expected += 1


# running ------------------------------------------------------------------------------------------


def forks(item: pytest.Item) -> bool:
    """Does this item run in a child of its own? A person at a debugger needs it right here."""
    config = item.config
    if config.getoption("isolate") == "none" or not FORKS_SAFELY:
        return False
    if config.getoption("usepdb") or config.getoption("trace"):
        return False
    if any(name in sys.modules for name in ("pydevd", "debugpy", "_pydevd_bundle")):
        return False
    if isinstance(item, KoanItem):
        return not (item.koan.benchmarks or item.reading.debugs)
    return True


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> bool | None:
    """pytest-timeout keeps time in this process; a child has a deadline of its own."""
    koan = isinstance(item, (KoanItem, ExtraItem)) or isinstance(item.parent, KoanFile)
    return True if koan and forks(item) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, (KoanItem, ExtraItem)):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for one in _reports(item):
        item.ihook.pytest_runtest_logreport(report=one)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _reports(item: KoanItem | ExtraItem) -> Iterator[pytest.TestReport]:
    run = item.config.stash[RUN]
    yield report(item, "setup", "passed", None)
    if isinstance(item, ExtraItem) and item.name in item.file.reading.open_extras:
        yield report(item, "call", "failed", words.OPEN_EXTRA.format(name=item.name))
    elif isinstance(item, ExtraItem):
        yield from (r for r in run_extra(item, forks(item), run.learnt) if _counts(r))
    else:
        yield _judged(item, run)
    yield report(item, "teardown", "passed", None)


def _counts(one: pytest.TestReport) -> bool:
    return one.when == "call" or not one.passed


def _judged(item: KoanItem, run: Run) -> pytest.TestReport:
    """One report per koan: pytest's outcome, the card as its message, the verdict beside it."""
    judgement, reports = judge(item, forks(item), run.learnt, run.company_for(item))
    judgement = replace(judgement, hint=_hint(item, judgement, run))
    failure = next((r for r in reports if r.failed), None)
    outcome, text = "failed", screen.plain_card(judgement, item.koan)
    longrepr: Any = text
    if judgement.verdict == "solved":
        outcome, longrepr = "passed", None
    elif judgement.verdict == "asleep":
        assert item.sleep is not None
        if item.sleep.cuda and os.environ.get("KOANS_REQUIRE_CUDA") == "1":
            longrepr = f"{text}\n{words.CUDA_REQUIRED}"
        else:
            outcome = "skipped"
            longrepr = (str(item.path), judgement.line, f"Skipped: {item.sleep.reason}")
    elif failure is not None and (item.file.is_book or item.config.getoption("reveal")):
        longrepr = failure.longrepr
    made = report(item, "call", outcome, longrepr, judgement.seconds)
    if failure is not None and (item.file.is_book or item.config.getoption("reveal")):
        made.sections = failure.sections
    data = judgement.to_json()
    made.koan = {**data, "book": item.file.is_book, "root": str(item.file.workbook.root)}  # type: ignore[attr-defined]
    return made


def _hint(item: KoanItem, judgement: Judgement, run: Run) -> int:
    """How many hints to show; 0 where the card has something better to say than a hint."""
    if judgement.verdict != "not yet" or has_better_than_hint(judgement, item.koan):
        return 0
    known = run.states[item.file.workbook.root].known(item.koan.id)
    return hint_step(known, "\n".join(judgement.said), len(item.koan.hints))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if isinstance(item.parent, KoanFile) and call.excinfo is not None:
        note_error(item, call.excinfo.value)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """The last moment before a koan's own code: later than any plugin that reseeds."""
    if isinstance(pyfuncitem.parent, KoanFile):
        koan = pyfuncitem.parent.chapter.koan(pyfuncitem.name)
        if koan is not None:
            seed(koan)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Any:
    """The torch.device a koan works on: ``--device``, else cuda if present, else cpu."""
    import torch

    chosen = request.config.getoption("device")
    return torch.device(chosen or ("cuda" if torch.cuda.is_available() else "cpu"))


# reporting ----------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    data = getattr(report, "koan", None)
    if data is None or data["book"] or config.getoption("reveal"):
        return None
    verdict = data["verdict"]
    if verdict == "asleep" and report.failed:
        return None  # KOANS_REQUIRE_CUDA: this is an error, and shown like one
    style = {part: True for part in words.STYLES[verdict].replace("dim", "light").split()}
    return verdict, words.LETTERS[verdict], (verdict.upper(), style)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the main process what it collected; the reports tell the rest."""
    session.config.stash[RUN].company.end()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        counts = session.config.stash[RUN].counts
        output["koans"] = (counts.expected, counts.deselected)
