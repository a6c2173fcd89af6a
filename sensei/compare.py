"""Compare a learner's copy of a koan file with what the book gave, as syntax trees.

Comments, quotes, spaces and line breaks never matter. Each given statement must be
found, in order; what stands in a blank or between the given neighbours of a region
is the learner's answer. Everything here is pure: text in, records out.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sensei.book import BLANK, END, TURN, Chapter, Koan, dedent_block

State = Literal["filled", "open", "altered", "missing", "twice"]
Definition = ast.FunctionDef | ast.AsyncFunctionDef


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
    same_module: bool = True  # outside the koans it is what the book gave
    error: str = ""  # the file is not Python at all
    error_line: int = 0


def read_copy(data: bytes | str, chapter: Chapter) -> FileReading:
    """Read a learner's file against its chapter. Never raises for what a learner wrote."""
    try:
        text = _decode(data) if isinstance(data, bytes) else data
        tree = ast.parse(text.lstrip("\ufeff"))
    except SyntaxError as error:
        return FileReading(error=error.msg, error_line=error.lineno or 1)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1 if isinstance(data, bytes) else 1
        return FileReading(error="this line is not UTF-8 text", error_line=line)
    except ValueError:
        where = data.find(b"\0") if isinstance(data, bytes) else data.find("\0")
        line = data[: max(where, 0)].count(b"\n" if isinstance(data, bytes) else "\n") + 1  # type: ignore[arg-type]
        return FileReading(error="there is a NUL byte in this line", error_line=line)
    except (RecursionError, MemoryError):
        return FileReading(error="this file is too deeply nested to read", error_line=1)
    return _read_tree(tree, text.lstrip("\ufeff"), chapter)


def _decode(data: bytes) -> str:
    """The text of a source file, by its coding line or as UTF-8."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _read_tree(tree: ast.Module, text: str, chapter: Chapter) -> FileReading:
    template = ast.parse(chapter.template)
    regions = region_lines(chapter.template)
    names = {koan.name for koan in chapter.koans}
    module_given = _bound_names(template.body)
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
            koans[koan.name] = Reading("twice", found[1].lineno, f"lines {_lines(found)}")
        else:
            hurt = next((d for d in damage if d.touches(given, template)), None)
            koans[koan.name] = _read_koan(koan, given, found[0], text, regions, module_given, hurt)
    extras = tuple(name for n in tree.body if (name := _own_test(n)) and name not in names)
    same = not damage and not _added(template, tree, names)
    return FileReading(koans, extras, same_module=same)


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
    match = _Match(regions, _local_names(given) | module_given)
    if not match.function(given, mine):
        line, detail = match.failure
        return Reading("altered", line or mine.lineno, detail)
    captures = [match.captures[index] for index in sorted(match.captures)]
    said = tuple(_source(capture, text) for capture in captures)
    line = next((_line_of(c[0]) for c in captures if c), mine.lineno)
    if any(_untouched(capture, slot.given) for capture, slot in zip(captures, koan.slots)):
        return Reading("open", mine.lineno, said=said, said_line=line)
    rebinder = _walrus(captures, koan, match.given_names)
    if rebinder:
        return Reading("altered", rebinder.lineno, f"`{rebinder.target.id}` is given; leave it")
    return Reading(
        "filled",
        mine.lineno,
        said=said,
        said_line=line,
        agrees_with_itself=_agrees_with_itself(koan, given, captures, match),
        leaves_early=any(_leaves(n) for n in match.top_level_answers),
        debugs=any(_is_breakpoint(n) for n in ast.walk(mine)),
    )


def _line_of(node: ast.AST) -> int:
    assert isinstance(node, ast.stmt | ast.expr)
    return node.lineno


def _untouched(capture: list[ast.AST], given: str) -> bool:
    if any(isinstance(n, ast.Name) and n.id == BLANK for part in capture for n in ast.walk(part)):
        return True
    return bool(given) and _dump(capture) == _dump(ast.parse(given).body)


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


def _leaves(node: ast.AST) -> bool:
    """Does a statement of the test itself return or yield (inner functions aside)?"""
    if isinstance(node, (*_SCOPES, ast.Lambda)):
        return False
    if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
        return True
    return any(_leaves(child) for child in ast.iter_child_nodes(node))


def _agrees_with_itself(
    koan: Koan, given: ast.FunctionDef, captures: list[list[ast.AST]], match: _Match
) -> bool:
    """Is an answer a question put back to PyTorch?

    It is, if it names a local variable of the test where the book's own answer names
    none, or if it is the other side of the same comparison, word for word.
    """
    local = _local_names(given) - {given.name} | {"locals", "vars", "eval", "exec", "globals"}
    for capture, slot, other in zip(captures, koan.slots, match.other_sides):
        if slot.region:
            continue
        if _dump(capture) in other:
            return True
        if _free_names(capture) & local and not _free_names([_expression(slot.answer)]) & local:
            return True
    return False


def _expression(source: str) -> ast.expr:
    return ast.parse(f"({source}\n)", mode="eval").body


def same_answer(mine: str, other: str) -> bool:
    """Do two answers read the same? ``'a'`` is ``"a"``, and ``[1.0]`` is ``[1]``."""
    try:
        left, right = ast.parse(dedent_block(mine.split("\n"))), ast.parse(other)
    except SyntaxError:
        return False
    if _dump(left.body) == _dump(right.body):
        return True
    try:
        values = [ast.literal_eval(source) for source in (mine.strip(), other.strip())]
        return type(values[0]) is type(values[1]) and bool(values[0] == values[1])
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


# matching trees -----------------------------------------------------------------------------------

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER_EXPRESSIONS = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Match:
    """One walk of a given tree and a learner's tree, side by side."""

    def __init__(self, regions: list[tuple[int, int]], given_names: set[str]) -> None:
        self.regions = regions
        self.given_names = given_names
        self.captures: dict[tuple[int, int], list[ast.AST]] = {}
        self.sides: dict[tuple[int, int], list[str]] = {}
        self.top_level_answers: list[ast.AST] = []
        self._failures: list[tuple[int, int, str]] = []  # given line, learner's line, words

    @property
    def failure(self) -> tuple[int, str]:
        """The learner's line and the words of the failure that got furthest."""
        _, line, words = max(self._failures, default=(0, 0, "this koan was edited"))
        return line, words

    @property
    def other_sides(self) -> list[list[str]]:
        return [self.sides.get(index, []) for index in sorted(self.captures)]

    def function(self, given: ast.FunctionDef, mine: Definition) -> bool:
        if type(mine) is not type(given) or _dump(given.args) != _dump(mine.args):
            return self._fail(given, mine, f"`def {given.name}` has other arguments than given")
        if _dump(given.decorator_list) != _dump(mine.decorator_list):
            return self._fail(given, mine, f"the decorators of `{given.name}` are not as given")
        return self.block(given.body, mine.body, mine, depth=0)

    def node(self, given: ast.AST, mine: ast.AST, depth: int) -> bool:
        if isinstance(given, ast.Name) and given.id == BLANK:
            if isinstance(mine, ast.expr) and not isinstance(mine, ast.Starred):
                self.captures[given.lineno, given.col_offset] = [mine]
                return True
            return False
        if type(given) is not type(mine):
            return False
        if isinstance(given, ast.Compare) and len(given.comparators) == 1:
            self._note_sides(given.left, given.comparators[0])
        inner = depth + 1 if isinstance(given, _SCOPES) else depth
        for name in given._fields:
            if name in ("ctx", "kind", "type_comment"):
                continue
            left, right = getattr(given, name), getattr(mine, name)
            if isinstance(left, list) and name in ("body", "orelse", "finalbody", "handlers"):
                if left and isinstance(left[0], ast.stmt):
                    if not self.block(left, right, mine, inner):
                        return False
                    continue
            if not self._field(left, right, inner):
                return False
        return True

    def _field(self, left: object, right: object, depth: int) -> bool:
        if isinstance(left, ast.AST):
            return isinstance(right, ast.AST) and self.node(left, right, depth)
        if isinstance(left, list):
            return (
                isinstance(right, list)
                and len(left) == len(right)
                and all(self._field(a, b, depth) for a, b in zip(left, right))
            )
        return type(left) is type(right) and left == right

    def _note_sides(self, left: ast.expr, right: ast.expr) -> None:
        for blank, other in ((left, right), (right, left)):
            if isinstance(blank, ast.Name) and blank.id == BLANK:
                self.sides[blank.lineno, blank.col_offset] = [_dump([other])]

    def block(
        self, given: list[ast.stmt], mine: list[ast.stmt], parent: ast.AST, depth: int
    ) -> bool:
        """Find each given statement in order. Between them: the answer of a region, or extras."""
        return self._rest(self._items(given), 0, _without_strings(mine), 0, parent, depth)

    def _items(self, given: list[ast.stmt]) -> list[ast.stmt | tuple[int, int]]:
        """Given statements, with each region (its line span) standing for its own."""
        items: list[ast.stmt | tuple[int, int]] = []
        for statement in _without_strings(given):
            region = next((r for r in self.regions if r[0] < statement.lineno < r[1]), None)
            if region is None:
                items.append(statement)
            elif region not in items:
                items.append(region)
        return items

    def _rest(
        self,
        items: list[ast.stmt | tuple[int, int]],
        i: int,
        mine: list[ast.stmt],
        j: int,
        parent: ast.AST,
        depth: int,
    ) -> bool:
        here = items[i] if i < len(items) else None
        region = here if isinstance(here, tuple) else None
        if region is not None:
            i += 1
        for k in range(j, len(mine) + 1):
            between = mine[j:k]
            if region is None and between and not self._welcome(between[-1], items, i):
                return False
            if i == len(items):
                if k < len(mine):
                    continue
            else:
                wanted = items[i]
                assert isinstance(wanted, ast.stmt), "two regions need a given line between them"
                if k == len(mine) or not self.node(wanted, mine[k], depth):
                    continue
                if not self._rest(items, i + 1, mine, k + 1, parent, depth):
                    continue
            if region is not None:
                self.captures[region] = list(between)
                if depth == 0:
                    self.top_level_answers += between
            return True
        absent = items[i] if i < len(items) else None
        if isinstance(absent, ast.stmt):
            near = mine[j] if j < len(mine) else parent
            line = ast.unparse(absent).split("\n")[0]
            self._fail(absent, near, f"the given line `{line}` is missing or was edited")
        return False

    def _welcome(
        self, node: ast.stmt, items: list[ast.stmt | tuple[int, int]], before: int
    ) -> bool:
        words = unwelcome(node, self.given_names)
        if not words:
            return True
        wanted = items[before] if before < len(items) else None
        if isinstance(wanted, ast.stmt) and type(wanted) is type(node):
            line = ast.unparse(wanted).split("\n")[0]
            words = f"the given line `{line}` was edited"
        where = wanted.lineno if isinstance(wanted, ast.stmt) else 10**9
        self._failures.append((where, node.lineno, words))
        return False

    def _fail(self, given: ast.stmt, mine: ast.AST, words: str) -> bool:
        self._failures.append((given.lineno, getattr(mine, "lineno", 0), words))
        return False


def unwelcome(node: ast.AST, given_names: set[str]) -> str:
    """Why a statement of the learner's own may not stand outside a blank; "" if it may."""
    if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Raise | ast.Await):
        word = type(node).__name__.lower().replace("yieldfrom", "yield")
        return f"`{word}` was added outside the blank"
    if isinstance(node, ast.Delete | ast.AugAssign | ast.Global | ast.Nonlocal):
        return f"`{ast.unparse(node)}` was added outside the blank"
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        flat = [part for target in targets for part in _flat_target(target)]
        if not all(isinstance(part, ast.Name) for part in flat):
            return f"`{ast.unparse(node)}` changes something that was given"
    rebound = _bound_names([node]) & given_names
    if rebound:
        return f"`{sorted(rebound)[0]}` is given, and was bound to something else"
    inner = () if isinstance(node, (*_SCOPES, ast.Lambda)) else ast.iter_child_nodes(node)
    return next((words for child in inner if (words := unwelcome(child, given_names))), "")


def _flat_target(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [part for element in target.elts for part in _flat_target(element)]
    return [target.value] if isinstance(target, ast.Starred) else [target]


# the module around the koans ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Damage:
    """A given import or helper that is gone, and the names it used to bind."""

    names: frozenset[str]
    line: int
    detail: str

    def touches(self, koan: ast.FunctionDef, template: ast.Module) -> bool:
        """Does the koan need one of the names, itself or through a helper?"""
        helpers = {n.name: n for n in template.body if isinstance(n, _SCOPES)}
        seen: set[str] = set()
        todo = _used_names(koan)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo |= _used_names(helpers[name]) if name in helpers else set()
        return not self.names or bool(self.names & seen)


def _module_damage(
    template: ast.Module,
    tree: ast.Module,
    koans: set[str],
    regions: list[tuple[int, int]],
    given_names: set[str],
) -> list[_Damage]:
    damage = []
    here = {key for node in tree.body for key in _import_keys(node)}
    for node in template.body:
        for key in _import_keys(node):
            if key not in here and key[0] != "sensei":
                line = _import_line(key)
                damage.append(_Damage(frozenset({key[2]}), 0, f"the given `{line}` is missing"))
    mine = [node for node in _helpers(tree, koans) if not _own_test(node)]
    given = _helpers(template, koans)
    for node in given:
        if not any(_dump(node) == _dump(other) for other in mine):
            first = ast.unparse(node).split("\n")[0].rstrip(":")
            names = frozenset(_bound_names([node]))
            damage.append(_Damage(names, 0, f"the given helper `{first}` is missing or was edited"))
    for node in mine:
        if not any(_dump(node) == _dump(other) for other in given):
            if words := unwelcome(node, given_names):
                named = frozenset(_bound_names([node]) & given_names)
                damage.append(_Damage(named, node.lineno, words))
    return damage


def _added(template: ast.Module, tree: ast.Module, koans: set[str]) -> bool:
    """Has the learner added anything that runs when the file is imported?"""
    given = [_dump(node) for node in _helpers(template, koans)]
    imports = {key for node in template.body for key in _import_keys(node)}
    mine = [_dump(node) for node in _helpers(tree, koans)]
    return mine != given or any(
        key not in imports for node in tree.body for key in _import_keys(node)
    )


def _helpers(tree: ast.Module, koans: set[str]) -> list[ast.stmt]:
    return [
        node
        for node in _without_strings(tree.body)
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, Definition) and node.name in koans)
    ]


def _import_keys(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(module, name, bound name) of each import at module level; order never matters."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, "", alias.asname or alias.name.split(".")[0]
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield "." * node.level + (node.module or ""), alias.name, alias.asname or alias.name


def _import_line(key: tuple[str, str, str]) -> str:
    module, name, bound = key
    tail = f" as {bound}" if bound not in (name, module, module.split(".")[0]) else ""
    return f"from {module} import {name}{tail}" if name else f"import {module}{tail}"


# small questions about trees ----------------------------------------------------------------------


def region_lines(template: str) -> list[tuple[int, int]]:
    """(line of "# your turn:", line of "# end") of each region in a learner's text."""
    spans: list[tuple[int, int]] = []
    start = 0
    for number, line in enumerate(template.split("\n"), 1):
        if line.strip() == TURN:
            start = number
        elif line.strip() == END and start:
            spans.append((start, number))
            start = 0
    return spans


def _dump(node: ast.AST | Sequence[ast.AST]) -> str:
    if isinstance(node, ast.AST):
        return ast.dump(node)
    return "; ".join(ast.dump(part) for part in node)


def _without_strings(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements without docstrings: a lesson is for the reader, not for the comparison."""
    return [
        node
        for node in body
        if not (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
    ]


def _bound_names(body: Sequence[ast.AST]) -> set[str]:
    """Names that statements bind in their own scope: assigned, imported or defined."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        if isinstance(node, _SCOPES):
            names.add(node.name)
        elif not isinstance(node, _INNER_EXPRESSIONS):
            names |= _bound_names(list(ast.iter_child_nodes(node)))
    return names


def _local_names(function: Definition) -> set[str]:
    """Every name a test binds, arguments and inner scopes included."""
    nodes = list(ast.walk(function))
    return _bound_names(nodes) | {n.arg for n in nodes if isinstance(n, ast.arg)}


def _used_names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _free_names(capture: Sequence[ast.AST]) -> set[str]:
    """Names an expression reads, without those it binds itself (comprehensions, lambdas)."""
    nodes = [node for part in capture for node in ast.walk(part)]
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return {n.id for n in nodes if isinstance(n, ast.Name)} - bound


def _source(capture: list[ast.AST], text: str) -> str:
    """The learner's own words for one slot, dedented."""
    if not capture:
        return ""
    first, last = capture[0], capture[-1]
    if isinstance(first, ast.expr):
        return ast.get_source_segment(text, first) or ast.unparse(first)
    assert isinstance(first, ast.stmt) and isinstance(last, ast.stmt)
    decorators = getattr(first, "decorator_list", [])
    start = min([first.lineno, *(d.lineno for d in decorators)])
    return dedent_block(text.split("\n")[start - 1 : last.end_lineno])
