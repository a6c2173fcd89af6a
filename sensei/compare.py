"""Compare a learner's copy of a koan file with what the book gave, as syntax trees.

Comments, quotes, spaces and line breaks never matter. Each given statement must be
found, in order; what stands in a blank or between the given neighbours of a region
is the learner's answer. Everything here is pure: text in, records out.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sensei import words
from sensei.match import Match, unwelcome
from sensei.records import BLANK, Chapter, Koan
from sensei.tautology import agrees_with_itself
from sensei.trees import (
    SCOPES,
    Definition,
    bound_names,
    dump,
    import_keys,
    import_line,
    line_of,
    local_names,
    region_lines,
    source_of,
    used_names,
    without_strings,
)

State = Literal["filled", "open", "altered", "missing", "twice"]


@dataclass(frozen=True)
class Reading:
    """What one koan looks like in the learner's file."""

    state: State
    line: int = 0  # of its ``def``, or of what was altered; 0 where it is missing
    detail: str = ""  # altered: what is wrong there
    said: tuple[str, ...] = ()  # the learner's source per slot, once filled
    said_line: int = 0  # where the first answer stands
    agrees_with_itself: bool = False  # a tautology: the answer asks PyTorch's own value
    leaves_early: bool = False  # a region returns from the test before its last given line
    debugs: bool = False  # it stops for a person: breakpoint(), or set_trace()


@dataclass(frozen=True)
class FileReading:
    """What a learner's whole file looks like."""

    koans: dict[str, Reading] = field(default_factory=dict)
    extras: tuple[str, ...] = ()  # the learner's own tests
    open_extras: tuple[str, ...] = ()  # those of them with a blank: a koan of another book
    same_module: bool = True  # outside the koans it is what the book gave
    error: str = ""  # the file is not Python at all
    error_line: int = 0


def read_copy(data: bytes | str, chapter: Chapter) -> FileReading:
    """Read a learner's file against its chapter. Never raises for what a learner wrote."""
    raw = data.encode(errors="surrogateescape") if isinstance(data, str) else data
    if b"\0" in raw:
        line = raw[: raw.index(b"\0")].count(b"\n") + 1
        return FileReading(error=words.NUL_BYTE, error_line=line)
    try:
        text = _decode(raw).lstrip("\ufeff")
        tree = ast.parse(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        return FileReading(error=words.NOT_UTF8, error_line=line)
    except SyntaxError as error:
        empty = next((start for start, end in region_lines(text) if _is_empty(text, start, end)), 0)
        if empty and "indented block" in error.msg:
            return FileReading(error=words.EMPTY_REGION, error_line=empty)
        return FileReading(error=error.msg, error_line=error.lineno or 1)
    except (ValueError, RecursionError, MemoryError):
        return FileReading(error=words.TOO_DEEP, error_line=1)
    return _read_tree(tree, text, chapter)


def _is_empty(text: str, start: int, end: int) -> bool:
    between = text.split("\n")[start : end - 1]
    return all(not line.strip() or line.strip().startswith("#") for line in between)


def _decode(data: bytes) -> str:
    """The text of a source file, by its coding line or as UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:  # says less than a decoding error does about where and what
        encoding = "utf-8"
    return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _read_tree(tree: ast.Module, text: str, chapter: Chapter) -> FileReading:
    template = ast.parse(chapter.template)
    regions = region_lines(chapter.template)
    names = {koan.name for koan in chapter.koans}
    module_given = bound_names(template.body)
    damage = _module_damage(template, tree, names, regions, module_given)
    koans = {}
    for koan in chapter.koans:
        found = [n for n in tree.body if isinstance(n, Definition) and n.name == koan.name]
        given = next(
            n for n in template.body if isinstance(n, ast.FunctionDef) and n.name == koan.name
        )
        if not found:
            koans[koan.name] = Reading("missing")
        elif len(found) > 1:
            koans[koan.name] = Reading(
                "twice", found[1].lineno, words.LINES.format(lines=_lines(found))
            )
        else:
            hurt = next((d for d in damage if d.touches(given, found[0], template)), None)
            koans[koan.name] = _read_koan(koan, given, found[0], text, regions, module_given, hurt)
    extras = tuple(name for n in tree.body if (name := _own_test(n)) and name not in names)
    blank = tuple(
        name for n in tree.body if (name := _own_test(n)) in extras and BLANK in used_names(n)
    )
    same = not damage and not _added(template, tree, names)
    return FileReading(koans, extras, blank, same_module=same)


def _lines(nodes: Sequence[ast.stmt]) -> str:
    return " and ".join(str(node.lineno) for node in nodes)


def _own_test(node: ast.stmt) -> str:
    if isinstance(node, Definition) and node.name.startswith("test"):
        return node.name
    if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
        return node.name
    return ""


# one koan -----------------------------------------------------------------------------------------


def _read_koan(
    koan: Koan,
    given: ast.FunctionDef,
    mine: Definition,
    text: str,
    regions: list[tuple[int, int]],
    module_given: set[str],
    hurt: _Damage | None,
) -> Reading:
    if hurt:
        return Reading("altered", hurt.line or mine.lineno, hurt.detail)
    match = Match(regions, local_names(given) | module_given)
    if not match.function(given, mine):
        line, detail = match.failure
        return Reading("altered", line or mine.lineno, detail)
    captures = [match.captures[index] for index in sorted(match.captures)]
    said = tuple(source_of(capture, text) for capture in captures)
    line = next((line_of(c[0]) for c in captures if c), mine.lineno)
    untouched = [c for c, slot in zip(captures, koan.slots) if _untouched(c, slot.given)]
    if untouched:
        line = next((line_of(c[0]) for c in untouched if c), mine.lineno)
        return Reading("open", mine.lineno, said=said, said_line=line)
    rebinder = _walrus(captures, koan, match.given_names)
    if rebinder:
        return Reading("altered", rebinder.lineno, words.LEAVE_IT.format(name=rebinder.target.id))
    return Reading(
        "filled",
        mine.lineno,
        said=said,
        said_line=line,
        agrees_with_itself=agrees_with_itself(koan, given, mine, captures, match),
        leaves_early=any(_leaves(n) or _skips(n) for n in match.top_level_answers),
        debugs=any(_is_breakpoint(n) for n in ast.walk(mine)),
    )


def _untouched(capture: list[ast.AST], given: str) -> bool:
    if any(isinstance(n, ast.Name) and n.id == BLANK for part in capture for n in ast.walk(part)):
        return True
    return bool(given) and dump(capture) == dump(ast.parse(given).body)


def _walrus(captures: list[list[ast.AST]], koan: Koan, given: set[str]) -> ast.NamedExpr | None:
    for capture, slot in zip(captures, koan.slots):
        for part in [] if slot.region else capture:
            for node in ast.walk(part):
                if isinstance(node, ast.NamedExpr) and node.target.id in given:
                    return node
    return None


def _is_breakpoint(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func).split(".")[-1] in ("breakpoint", "set_trace", "embed")


def _skips(node: ast.AST) -> bool:
    """Does a region as a whole jump over the given lines after it, in a loop of the test?"""
    return isinstance(node, ast.Break | ast.Continue)


def _leaves(node: ast.AST) -> bool:
    """Does a statement of the test itself return or yield (inner functions aside)?"""
    if isinstance(node, (*SCOPES, ast.Lambda)):
        return False
    if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
        return True
    return any(_leaves(child) for child in ast.iter_child_nodes(node))


# the module around the koans ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Damage:
    """A given import or helper that is gone, and the names it used to bind."""

    names: frozenset[str]
    line: int
    detail: str

    def touches(self, given: ast.FunctionDef, mine: Definition, template: ast.Module) -> bool:
        """Does the koan need one of the names, as given, as answered, or through a helper?"""
        helpers = {n.name: n for n in template.body if isinstance(n, SCOPES)}
        seen: set[str] = set()
        todo = used_names(given) | used_names(mine)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo |= used_names(helpers[name]) if name in helpers else set()
        return not self.names or bool(self.names & seen)


def _module_damage(
    template: ast.Module,
    tree: ast.Module,
    koans: set[str],
    regions: list[tuple[int, int]],
    given_names: set[str],
) -> list[_Damage]:
    damage = []
    here = {key for node in tree.body for key in import_keys(node)}
    for node in template.body:
        for key in import_keys(node):
            if key not in here and key[0] != "sensei":
                line = import_line(key)
                damage.append(_Damage(frozenset({key[2]}), 0, words.IMPORT_GONE.format(line=line)))
    mine = [node for node in _helpers(tree, koans) if not _own_test(node)]
    given = _helpers(template, koans)
    for node in given:
        if not any(dump(node) == dump(other) for other in mine):
            first = ast.unparse(node).split("\n")[0].rstrip(":")
            names = frozenset(bound_names([node]))
            damage.append(_Damage(names, 0, words.HELPER_GONE.format(line=first)))
    for node in mine:
        if not any(dump(node) == dump(other) for other in given):
            if told := unwelcome(node, given_names):
                named = frozenset(bound_names([node]) & given_names)
                damage.append(_Damage(named, node.lineno, told))
    return damage


def _added(template: ast.Module, tree: ast.Module, koans: set[str]) -> bool:
    """Has the learner added anything that runs when the file is imported?"""
    given = [dump(node) for node in _helpers(template, koans)]
    imports = {key for node in template.body for key in import_keys(node)}
    mine = [dump(node) for node in _helpers(tree, koans)]
    return mine != given or any(
        key not in imports for node in tree.body for key in import_keys(node)
    )


def _helpers(tree: ast.Module, koans: set[str]) -> list[ast.stmt]:
    return [
        node
        for node in without_strings(tree.body)
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, Definition) and node.name in koans)
    ]
