"""``koans ask``: a Python prompt with a koan's names as they stand at its first blank.

The lines before the blank run once, in a namespace of their own. What is typed at the
prompt changes no file.
"""

from __future__ import annotations

import ast
import code
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sensei import words
from sensei.judge import seed
from sensei.learner import say
from sensei.records import BLANK, Koan
from sensei.trees import region_lines
from sensei.workbook import Workbook

Prompt = Callable[[dict[str, Any], str], None]


def ask(workbook: Workbook, koan: Koan, prompt: Prompt | None = None) -> int:
    """Open a prompt at a koan's first blank. Returns the exit status.

    prompt: takes the namespace and a greeting; IPython's where it is installed.
    """
    chapter = workbook.book.chapter(koan.key)
    path = workbook.path(chapter)
    try:
        program = lines_before_blank(path.read_text(encoding="utf-8"), koan.name)
    except (OSError, ValueError, SyntaxError, LookupError):
        program = lines_before_blank(chapter.template, koan.name)  # as it was given
    with tempfile.TemporaryDirectory() as folder:
        names: dict[str, Any] = {"__name__": "koan"}
        names.update(_fixtures(koan, Path(folder)))
        seed(koan)
        trouble = ""
        try:
            exec(compile(program, str(path), "exec"), names)
        except Exception as error:  # the lines are the learner's, or their error is the question
            trouble = f"{type(error).__name__}: {error}".split("\n")[0]
        greeting = words.ASK_HELLO.format(name=koan.name, names=_own_names(names))
        if blank_is_inside(chapter.template, koan.name):
            greeting += "\n" + words.ASK_INSIDE
        if trouble:
            greeting += "\n" + words.ASK_TROUBLE.format(error=trouble)
        (prompt or best_prompt())(names, greeting)
    say(words.ASK_BYE)
    return 0


def lines_before_blank(source: str, name: str) -> ast.Module:
    """The given of a file, and a koan's lines up to the statement that holds its first blank.

    Where no blank is left: all its lines but the last. Raises SyntaxError, or LookupError
    where there is no such test.
    """
    tree = ast.parse(source)
    test = _test(tree, name)
    given = [n for n in tree.body if not (isinstance(n, ast.FunctionDef) and _is_test(n))]
    return ast.Module([*given, *_before_blank(test, source)], type_ignores=[])


def blank_is_inside(template: str, name: str) -> bool:
    """Does the first blank of a koan stand in a loop, or another block of its own?"""
    test = _test(ast.parse(template), name)
    return hasattr(test.body[len(_before_blank(test, template))], "body")


def _test(tree: ast.Module, name: str) -> ast.FunctionDef:
    tests = (n for n in tree.body if isinstance(n, ast.FunctionDef))
    test = next((n for n in tests if n.name == name), None)
    if test is None:
        raise LookupError(name)
    return test


def _before_blank(test: ast.FunctionDef, source: str) -> list[ast.stmt]:
    """The statements of a test that end before its first blank."""
    end = test.end_lineno or test.lineno
    blanks = [n.lineno for n in ast.walk(test) if isinstance(n, ast.Name) and n.id == BLANK]
    blanks += [start + 1 for start, _ in region_lines(source) if test.lineno < start <= end]
    stop = min(blanks, default=test.body[-1].lineno)
    return [node for node in test.body if (node.end_lineno or node.lineno) < stop]


def _is_test(node: ast.FunctionDef) -> bool:
    return node.name.startswith("test")


def _fixtures(koan: Koan, folder: Path) -> dict[str, Any]:
    """What a koan is handed by pytest, as far as it makes sense at a prompt."""
    found: dict[str, Any] = {}
    if "tmp_path" in koan.fixtures:
        found["tmp_path"] = folder
    if "device" in koan.fixtures:
        import torch

        found["device"] = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if koan.benchmarks:
        found["benchmark"] = lambda function, *a, **k: function(*a, **k)
    return found


def _own_names(names: dict[str, Any]) -> str:
    """The names a learner may ask about, in the order in which they were made."""
    kept = [n for n in names if not n.startswith("__") and n not in ("koan", "answer")]
    return ", ".join(kept)


def best_prompt() -> Prompt:
    return _ipython if importlib.util.find_spec("IPython") else _plain


def _ipython(names: dict[str, Any], greeting: str) -> None:
    import IPython

    say(greeting)
    IPython.start_ipython(argv=["--no-banner", "--no-confirm-exit"], user_ns=names)


def _plain(names: dict[str, Any], greeting: str) -> None:
    if sys.stdin.isatty():
        try:
            import readline  # noqa: F401  (arrows and history)
        except ImportError:
            pass
    code.interact(banner=greeting, local=names, exitmsg="")
