"""From an item to a :class:`Judgement`: read, run where it can do no harm, conclude."""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from sensei import late, supervise, words
from sensei.company import Company
from sensei.failing import word_for
from sensei.importing import Failure, import_failure, is_timeout, line_in, own_lines
from sensei.isolate import unspoiled
from sensei.nodes import ExtraItem, KoanItem
from sensei.records import Koan
from sensei.trees import same_answer
from sensei.verdict import Judgement, Ran, after_running, before_running

Reports = list[pytest.TestReport]
LONGEST_OUTPUT = 10_000  # characters of each captured section that leave a child


def deadline_of(item: pytest.Item) -> float:
    """Seconds: what ``--deadline`` says, or less where a timeout mark says less."""
    longest = float(item.config.getoption("deadline"))
    mark = item.get_closest_marker("timeout")
    value = (mark.args[0] if mark.args else mark.kwargs.get("timeout")) if mark else None
    return min(float(value), longest) if value else longest


def judge(
    item: KoanItem, forked: bool, learnt: set[str], company: Company | None = None
) -> tuple[Judgement, Reports]:
    """Judge one koan. The reports are pytest's own, empty if it did not run.

    company: the child to try it in first, where it may join one.
    """
    failure = import_failure(item.file, forked)
    verdict = before_running(
        item.reading,
        file_error=bool(item.file.reading.error or failure or item.no_subject),
        asleep=item.sleep is not None,
    )
    base = Judgement(
        id=item.koan.id,
        verdict=verdict or "open",
        path=item.file.shown,
        line=item.line,
        said=item.reading.said,
        said_line=item.reading.said_line,
        tautology=item.reading.agrees_with_itself,
        left_early=item.reading.leaves_early,
        in_process=not forked,
        digest=item.file.digest,
    )
    if verdict == "open" and item.demonstrate:
        ran, _ = run_koan(item, forked, learnt)
        return replace(base, ran=ran), []
    if verdict is not None:
        base = replace(base, detail=_detail(item, failure))
        if item.file.reading.error:
            base = replace(base, whole_file=True, line=item.file.reading.error_line)
        elif failure:
            base = replace(base, whole_file=True, line=failure.line)
        return base, []
    ran, reports = run_koan(item, forked, learnt, company)
    verdict = after_running(ran)
    detail = ran.error_message if verdict == "broken" else ""
    judgement = replace(base, verdict=verdict, ran=ran, seconds=ran.seconds, detail=detail)
    return replace(judgement, myth=_myth(item), at=_at(item, ran)), reports


def _myth(item: KoanItem) -> str:
    said = item.reading.said
    for wrong in item.koan.wrong:
        if all(same_answer(a, b) for a, b in zip(said, wrong.answers)):
            return wrong.reason
    return ""


def _at(item: KoanItem, ran: Ran) -> str:
    lines = [line for line, _ in ran.error_lines]
    if not item.koan.at or not lines:
        return ""
    return word_for(dict(item.koan.at), item.file.workbook.text(item.koan.key), item.name, lines)


def _detail(item: KoanItem, failure: Failure | None) -> str:
    """Broken, asleep and altered, each in one line that says what to do."""
    file, reading = item.file, item.reading
    where: dict[str, Any] = {"path": file.shown, "line": item.line, "id": item.koan.id}
    if item.no_subject:
        return item.no_subject
    if file.reading.error:
        where["line"] = file.reading.error_line
        return words.SYNTAX.format(**where, message=file.reading.error)
    if failure:
        return failure.words(file.shown)
    if reading.state == "missing":
        return words.MISSING.format(**where, name=item.name)
    if reading.state == "twice":
        return words.TWICE.format(**where, name=item.name, detail=reading.detail)
    if item.sleep:
        return item.sleep.reason
    if reading.state == "altered":
        return words.ALTERED.format(**where, detail=reading.detail)
    return ""


# running ------------------------------------------------------------------------------------------


def run_koan(
    item: KoanItem, forked: bool, learnt: set[str], company: Company | None = None
) -> tuple[Ran, Reports]:
    """Run the real test behind a koan; return what happened and pytest's reports."""
    deadline = deadline_of(item)
    if failure := import_failure(item.file, forked, needed=True):
        return Ran("unimportable", error_message=failure.words(item.file.shown)), []
    if not forked:
        with unspoiled():
            return _run_here(item)
    if forked and company is not None:
        ended = company.run(item, deadline)
        if ended.how == "answered" and ended.answer["ran"]["outcome"] == "passed":
            learn(ended.answer["modules"], learnt)
            return _received(item, ended.answer["ran"], ended.answer["reports"])
        company.end()  # whatever went wrong in it must not meet the next one
        _forget_output(item)
    ended = supervise.run(lambda: _in_child(item), deadline)
    if ended.how != "answered":
        line = line_in(ended.traceback, item.path)
        outcome = "deadline" if ended.how == "deadline" else "died"
        _forget_output(item)
        return Ran(outcome, ended.seconds, ended.cause, line), []  # type: ignore[arg-type]
    learn(ended.answer["modules"], learnt)
    return _received(item, ended.answer["ran"], ended.answer["reports"])


def _forget_output(item: pytest.Item) -> None:
    """Drop what a child had printed when it was stopped: it shares our capture's files."""
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None and capture.is_globally_capturing():
        capture.read_global_capture()


def learn(modules: list[str], learnt: set[str]) -> None:
    """Import here what a child had to import, once."""
    new = [name for name in modules if name not in learnt]
    learnt.update(new)
    late.import_quietly(new)


def in_company(item: KoanItem) -> dict[str, Any]:
    """What the shared child does with a koan: run it, and leave the globals as they were."""
    with unspoiled():
        return _in_child(item)


def _in_child(item: KoanItem) -> dict[str, Any]:
    with late.new_modules() as modules:
        ran, reports = _run_here(item)
    hook = item.config.hook.pytest_report_to_serializable
    for report in reports:
        report.sections = [(name, text[:LONGEST_OUTPUT]) for name, text in report.sections]
    data = [hook(config=item.config, report=report) for report in reports]
    return {"ran": vars(ran), "reports": data, "modules": sorted(modules)}


def _received(item: KoanItem, ran: dict[str, Any], data: list[Any]) -> tuple[Ran, Reports]:
    hook = item.config.hook.pytest_report_from_serializable
    ran["error_lines"] = tuple((line, text) for line, text in ran["error_lines"])
    return Ran(**ran), [hook(config=item.config, data=one) for one in data]


def _run_here(item: KoanItem) -> tuple[Ran, Reports]:
    function = item.file.tests.get(item.name)
    if not isinstance(function, pytest.Function):
        failure = Failure(item.line, f"no test named {item.name}")
        return Ran("unimportable", error_message=failure.words(item.file.shown)), []
    reports = runtestprotocol(function, log=False, nextitem=None)
    return _ran(function, reports), reports


ERROR = pytest.StashKey[tuple[str, str, tuple[tuple[int, str], ...]]]()


def note_error(item: pytest.Item, error: BaseException) -> None:
    """Keep what a koan raised: its type, its words, and the learner's lines on the way."""
    lines = tuple(own_lines(error, item.path))
    item.stash[ERROR] = (type(error).__name__, str(error), lines)


def _ran(function: pytest.Item, reports: Reports) -> Ran:
    call = next((report for report in reports if report.when == "call"), None)
    bad = next((report for report in reports if not report.passed), None)
    kind, message, lines = function.stash.get(ERROR, ("", "", ()))
    seconds = call.duration if call else 0.0
    printed = next((text for name, text in (call.sections if call else []) if "stdout" in name), "")
    if bad is None:
        return Ran("passed", seconds, printed=printed[:2000])
    if is_timeout(kind, message):
        line = lines[-1][0] if lines else 0
        return Ran("deadline", seconds, line=line)
    outcome = "skipped" if bad.skipped else "failed"
    return Ran(outcome, seconds, "", 0, kind, message[:4000], lines, printed[:2000])  # type: ignore[arg-type]


def seed(koan: Koan) -> None:
    """The same random numbers for a koan in every run and every order, in koans/ and answers/."""
    value = zlib.crc32(koan.id.encode())
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.manual_seed(value)
        torch.set_num_threads(1)  # tiny operations on a loaded machine: threads only spin


# a learner's own tests ----------------------------------------------------------------------------


def run_extra(item: ExtraItem, forked: bool, learnt: set[str]) -> Reports:
    """Run a test of the learner's own as plain pytest, in a child where possible."""

    def run() -> Reports:
        tests = _tests(item.file.tests[item.name])
        return [r for test in tests for r in runtestprotocol(test, log=False, nextitem=None)]

    if failure := import_failure(item.file, forked, needed=True):
        return [report(item, "call", "failed", failure.words(item.file.shown))]

    if not forked:
        with unspoiled():
            return run()
    to_data: Callable[..., Any] = item.config.hook.pytest_report_to_serializable
    ended = supervise.run(
        lambda: [to_data(config=item.config, report=report) for report in run()],
        deadline_of(item),
    )
    if ended.how == "answered":
        from_data = item.config.hook.pytest_report_from_serializable
        return [from_data(config=item.config, data=data) for data in ended.answer]
    how = "deadline" if ended.how == "deadline" else "died"
    line = line_in(ended.traceback, item.path)
    text = words.stopped(Ran(how, ended.seconds, ended.cause, line))  # type: ignore[arg-type]
    return [report(item, "call", "failed", text, ended.seconds)]


def _tests(node: pytest.Item | pytest.Collector) -> list[pytest.Item]:
    if isinstance(node, pytest.Item):
        return [node]
    return [test for child in node.collect() for test in _tests(child)]


def report(
    item: pytest.Item, when: Any, outcome: Any, longrepr: Any, seconds: float = 0.0
) -> pytest.TestReport:
    """A report of our own, in pytest's form."""
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome=outcome,
        longrepr=longrepr,
        when=when,
        duration=seconds,
    )
