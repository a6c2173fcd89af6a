"""Import a koan file: tried in a child first where it differs from what was given."""

from __future__ import annotations

import ast
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from sensei import late, supervise, words
from sensei.isolate import unspoiled
from sensei.nodes import KoanFile
from sensei.verdict import Ran


@dataclass(frozen=True)
class Failure:
    """Why a file cannot be imported, and the line of it where that showed."""

    line: int
    message: str

    def words(self, path: str) -> str:
        return words.IMPORT.format(path=path, line=self.line, message=self.message)


def import_failure(file: KoanFile, forked: bool, needed: bool = False) -> Failure | None:
    """Why a file cannot be imported; None if it can, or if nobody needs to know yet.

    A changed file is imported in a child first, whether it is ``needed`` or not, and here
    only when that child lives. One that is as given outside its koans is imported when
    the first koan of it runs.
    """
    if file.reading.error or not file.path.exists() or file.imported:
        return None
    if file.import_failure is None and (needed or not file.reading.same_module):
        warm_up(file)
        failure = _probe(file) if forked and not file.reading.same_module else None
        failure = failure or _try_import(file)
        file.imported = failure is None
        file.import_failure = (failure.line, failure.message) if failure else None
    return Failure(*file.import_failure) if file.import_failure else None


def _probe(file: KoanFile) -> Failure | None:
    """Import a file in a child, which takes the damage."""

    def work() -> list[object] | None:
        failure = _try_import(file)
        return [failure.line, failure.message] if failure else None

    ended = supervise.run(work, file.config.getoption("deadline"))
    if ended.how == "answered":
        return Failure(*ended.answer) if ended.answer else None
    line = line_in(ended.traceback, file.path)
    ran = Ran("deadline" if ended.how == "deadline" else "died", ended.seconds, ended.cause, line)
    return Failure(line or 1, words.stopped(ran))


def _try_import(file: KoanFile) -> Failure | None:
    """Import a file here."""
    try:
        with unspoiled():
            _ = file.tests
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a learner's module may raise SystemExit, or skip
        cause = error.__cause__ or error.__context__ or error
        line = next((n for n, _ in reversed(own_lines(cause, file.path))), 1)
        if is_timeout(type(cause).__name__, str(cause)):
            return Failure(line, words.ENDLESS)
        return Failure(line, f"{type(cause).__name__}: {cause}".split("\n")[0])
    return None


def warm_up(file: KoanFile) -> None:
    """Import what the book's file imports, here, so that no child pays for it again."""
    names = []
    for node in ast.parse(file.chapter.template).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    late.import_quietly(names)


def own_lines(error: BaseException, path: Path) -> list[tuple[int, str]]:
    """The lines of a file that an exception passed through, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [(f.lineno or 0, f.line or "") for f in frames if Path(f.filename) == path]


FAULT = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+) in (?P<name>.+)')


def line_in(trace: str, path: Path) -> int:
    """The innermost line of a file in what faulthandler wrote; 0 if it is not there."""
    found = [match for match in FAULT.finditer(trace) if Path(match["path"]) == path]
    return int(found[0]["line"]) if found else 0


def is_timeout(kind: str, message: str) -> bool:
    """Was this raised by pytest-timeout? It fails the test, and says so in these words."""
    return kind == "Failed" and message.startswith("Timeout")
