"""Read an answers file as text and as a syntax tree, without running it.

Everything about a koan lives in its answers file. From the records made here the
learner's text, the verdicts, the tests' mutants and the ledger's coverage are derived.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sensei.records import (
    ANSWER,
    BLANK,
    END,
    BookError,
    Chapter,
    Kind,
    Koan,
    Mark,
    Slot,
    Wrong,
)
from sensei.regions import Region, inside, regions_of


def read_chapter(path: Path) -> Chapter:
    """Read an answers file. Raises BookError where it breaks the form of a koan."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BookError(path, line, "not UTF-8; save the file as UTF-8 text") from error
    return parse_chapter(text, path)


def parse_chapter(text: str, path: Path) -> Chapter:
    """Like read_chapter, from text. ``path`` gives the group and file names."""
    text = text.replace("\r\n", "\n")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BookError(path, error.lineno or 1, f"not Python: {error.msg}") from error
    regions = regions_of(text, path)
    edits = [_sensei_import(node) for node in tree.body if _is_sensei_import(node)]
    koans, strays = [], regions
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            if calls := _answer_calls(node):
                raise BookError(path, calls[0].lineno, f"a blank {OUTSIDE}")
            continue
        card = _koan_call(node)
        if card is None:
            if calls := _answer_calls(node):
                raise BookError(
                    path, calls[0].lineno, f"{node.name} has a blank and no @koan(...); add one"
                )
            continue
        mine = [region for region in regions if inside(region, node, tree)]
        strays = [region for region in strays if region not in mine]
        koan, calls = _koan(text, path, node, card, mine)
        koans.append(koan)
        edits.append(_Edit(card.lineno, 0, (card.end_lineno or card.lineno) + 1, 0, ""))
        edits += [_Edit(*_span(call, text), BLANK) for call in calls]
    edits += [_Edit(r.start, 0, r.end + 1, 0, r.learner_text()) for r in regions]
    if strays:
        raise BookError(path, strays[0].start, f"an answer region {OUTSIDE}")
    template = DOCUMENTS.sub("", _apply(text, edits), count=1)
    return Chapter(path, text, template, tuple(koans))


# For the author's eye: which sections of the articles a file teaches. No use to a learner.
DOCUMENTS = re.compile(r'\n\nDocuments: [^"]*?\n(?=""")')


OUTSIDE = "stands outside a koan function; move it into one, below its @koan(...)"


def _koan(
    text: str, path: Path, node: ast.FunctionDef, card: ast.Call, regions: list[Region]
) -> tuple[Koan, list[ast.Call]]:
    fields = _fields(path, card)
    calls = _answer_calls(node)
    for call in calls:
        if any(region.start < call.lineno < region.end for region in regions):
            raise BookError(path, call.lineno, "no answer() in a region: all of it is the answer")
    for one, two in zip(regions, regions[1:]):
        if one.indent == two.indent and not _body_lines(text, one.end, two.start):
            raise BookError(path, two.start, "two regions touch: put a given line between them")
    places: list[tuple[int, int, Slot]] = [
        (call.lineno, call.col_offset, Slot(_argument(text, path, call))) for call in calls
    ]
    places += [(r.start, 0, Slot(r.answer, True, r.given)) for r in regions]
    slots = tuple(slot for _, _, slot in sorted(places, key=lambda place: place[:2]))
    if not slots:
        where = f"answer(...), or {ANSWER!r} and {END!r} around its lines"
        raise BookError(path, node.lineno, f"{node.name} has nothing to fill; mark it with {where}")

    def sources(value: object, field: str) -> tuple[str, ...]:
        found = (value,) if isinstance(value, str) else value
        if not isinstance(found, tuple) or not all(isinstance(part, str) for part in found):
            raise BookError(path, card.lineno, f"{field}: an answer is a string or a tuple of them")
        if len(found) != len(slots):
            raise BookError(
                path,
                card.lineno,
                f"{field}: {value!r} answers {len(found)} of {len(slots)} blanks; name them all",
            )
        return found

    hint = fields["hint"]
    marks = tuple(m for d in node.decorator_list if (m := _mark(path, d)) is not None)
    first = node.body[1].lineno if len(node.body) > 1 else node.lineno
    return Koan(
        group=path.parent.name,
        file=path.name,
        name=node.name,
        kind=_kind(node, slots, marks),
        lesson=ast.get_docstring(node) or "",
        line=node.lineno,
        slots=slots,
        see=fields["see"],
        hints=(hint,) if isinstance(hint, str) else tuple(hint),
        why=fields["why"],
        wrong=tuple(Wrong(sources(key, "wrong"), why) for key, why in fields["wrong"].items()),
        right=tuple(sources(key, "right") for key in fields.get("right", ())),
        claims=tuple(fields.get("claims", ())),
        aliases=tuple(fields.get("aliases", ())),
        marks=marks,
        fixtures=tuple(argument.arg for argument in node.args.args),
        body_lines=_body_lines(text, first, node.end_lineno or first),
        at=tuple(fields.get("at", {}).items()),
    ), calls


REQUIRED = ("see", "hint", "why", "wrong")
FIELDS = {  # what each of them is
    "see": "a dotted name in quotes",
    "hint": "a text, or a list of texts",
    "why": "a text",
    "wrong": "a dict: source of a wrong answer -> reason",
    "right": "a list of answers",
    "claims": "a list of ids",
    "at": "a dict: a piece of a given line -> what to say when that line fails",
    "aliases": "a list of names",
}


def _fields(path: Path, card: ast.Call) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for keyword in card.keywords:
        name, line = keyword.arg, keyword.value.lineno
        if name not in FIELDS:
            known = ", ".join(FIELDS)
            raise BookError(path, line, f"koan() does not know {name!r}; it takes {known}")
        try:
            fields[name] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError) as error:  # TypeError: a list as a key of wrong
            raise BookError(path, line, f"{name} must be a plain literal") from error
        if twice := _twice(keyword.value):
            raise BookError(path, twice.lineno, f"{name}: {ast.unparse(twice)} stands there twice")
        if not _is_kind(name, fields[name]):
            raise BookError(path, line, f"{name} is {FIELDS[name]}")
    for name in REQUIRED:
        if name not in fields:
            raise BookError(path, card.lineno, f"koan() needs {name}=")
    return fields


def _twice(value: ast.expr) -> ast.expr | None:
    """A key that a dict has already: Python would silently drop the first one."""
    keys = [key for key in value.keys if key] if isinstance(value, ast.Dict) else []
    texts = [ast.dump(key) for key in keys]
    return next((key for i, key in enumerate(keys) if texts[i] in texts[:i]), None)


def _is_kind(name: str, value: object) -> bool:
    if name in ("see", "why") or (name == "hint" and isinstance(value, str)):
        return isinstance(value, str)
    if name in ("wrong", "at"):
        if not isinstance(value, dict):
            return False
        texts = value.values() if name == "wrong" else (t for pair in value.items() for t in pair)
        return all(isinstance(text, str) for text in texts)
    if not isinstance(value, list | tuple):
        return False
    return name == "right" or all(isinstance(text, str) for text in value)


def _kind(node: ast.FunctionDef, slots: tuple[Slot, ...], marks: tuple[Mark, ...]) -> Kind:
    arguments = {argument.arg for argument in node.args.args}
    if "benchmark" in arguments or any(m.name in ("timeout", "benchmark") for m in marks):
        return "measure"
    if any(slot.region and slot.given for slot in slots):
        return "repair"
    if any(slot.region for slot in slots):
        return "write"
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assert) and _answer_calls(statement):
            if any(isinstance(n, ast.Name) and n.id == "caught" for n in ast.walk(statement)):
                return "error"
    return "predict"


def _body_lines(text: str, first: int, last: int) -> int:
    """Lines of code, without blank lines, markers and commented-out given lines."""
    lines = text.split("\n")[first - 1 : last]
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def _is_sensei_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "sensei" and node.level == 0


def _koan_call(node: ast.FunctionDef) -> ast.Call | None:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name):
            if decorator.func.id == "koan":
                return decorator
    return None


def _mark(path: Path, node: ast.expr) -> Mark | None:
    call = node if isinstance(node, ast.Call) else None
    target = call.func if call else node
    if not ast.unparse(target).startswith("pytest.mark."):
        return None
    name = ast.unparse(target).removeprefix("pytest.mark.")
    if call is None:
        return Mark(name)
    try:
        args = tuple(ast.literal_eval(arg) for arg in call.args)
        kwargs = tuple((str(k.arg), ast.literal_eval(k.value)) for k in call.keywords)
    except ValueError as error:
        raise BookError(path, node.lineno, f"mark {name}: plain literals only") from error
    return Mark(name, args, kwargs)


def _answer_calls(node: ast.AST) -> list[ast.Call]:
    """Outermost ``answer(...)`` calls below a node, in source order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "answer":
        return [node]
    found = [call for child in ast.iter_child_nodes(node) for call in _answer_calls(child)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _argument(text: str, path: Path, call: ast.Call) -> str:
    if len(call.args) != 1 or call.keywords:
        raise BookError(path, call.lineno, "answer() takes exactly one value")
    return segment(text, call.args[0])


# text edits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class _Edit:
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def segment(text: str, node: ast.expr) -> str:
    """The source of an expression. Like ``ast.get_source_segment``, which is 100 times slower."""
    line, column, end_line, end = _span(node, text)
    lines = text.split("\n")[line - 1 : end_line]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][column:]
    return "\n".join(lines)


def _span(node: ast.expr, text: str) -> tuple[int, int, int, int]:
    """Line and character columns of a node (``ast`` counts columns in UTF-8 bytes)."""
    lines = text.split("\n")
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return (
        node.lineno,
        len(lines[node.lineno - 1].encode()[: node.col_offset].decode()),
        end_line,
        len(lines[end_line - 1].encode()[:end].decode()),
    )


def _sensei_import(node: ast.stmt) -> _Edit:
    end = (node.end_lineno or node.lineno) + 1
    return _Edit(node.lineno, 0, end, 0, f"from sensei import {BLANK}\n")


def _apply(text: str, edits: list[_Edit]) -> str:
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for edit in sorted(edits, reverse=True):
        begin = starts[edit.line - 1] + edit.column
        end = starts[edit.end_line - 1] + edit.end_column
        text = text[:begin] + edit.text + text[end:]
    return text
