"""The given line that said no, and what the book says of it.

A koan with several asserts, or several blanks, may have a word for each of them: ``at`` maps
a piece of a given line to that word. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from sensei.trees import region_lines


def word_for(at: Mapping[str, str], source: str, name: str, lines: Sequence[int]) -> str:
    """What ``at`` says of the line where a koan failed; "" if it says nothing of it.

    source: the learner's file. name: of the koan. lines: those of the file that the
    exception passed through, outermost first. An error inside the learner's own lines, or
    inside a helper, is no word of a given line.
    """
    if not at or not lines:
        return ""
    statement = statement_at(source, name, lines[-1])
    if not statement or any(start < lines[-1] < end for start, end in region_lines(source)):
        return ""
    found = [word for piece, word in at.items() if bare(piece) in statement]
    return found[0] if len(found) == 1 else ""


def statement_at(source: str, name: str, line: int) -> str:
    """The statement of a test that holds a line, without spaces; "" if there is none."""
    return next(
        (text for first, last, text in statements(source, name) if first <= line <= last), ""
    )


def statements(source: str, name: str) -> list[tuple[int, int, str]]:
    """(first line, last line, text without spaces) of each statement of a test.

    Of a compound statement, what stands before its body.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    tests = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    test = next(tests, None)
    if test is None:
        return []
    lines = source.split("\n")
    found = []
    for node in ast.walk(test):
        if not isinstance(node, ast.stmt) or node is test:
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        last = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
        last = max(last, node.lineno)
        found.append((node.lineno, last, bare("\n".join(lines[node.lineno - 1 : last]))))
    return found


def bare(code: str) -> str:
    """Code without what a formatter may change: spaces, line breaks, trailing commas."""
    text = "".join(code.split())
    for closing in ")]}":
        text = text.replace("," + closing, closing)
    return text
