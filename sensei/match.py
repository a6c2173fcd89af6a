"""Walk a given tree and a learner's tree side by side, and catch what stands in the slots."""

from __future__ import annotations

import ast

from sensei import words
from sensei.records import BLANK
from sensei.trees import SCOPES, Definition, bound_names, dump, without_strings


class Match:
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
        _, line, told = max(self._failures, default=(0, 0, words.EDITED))
        return line, told

    @property
    def other_sides(self) -> list[list[str]]:
        return [self.sides.get(index, []) for index in sorted(self.captures)]

    def function(self, given: ast.FunctionDef, mine: Definition) -> bool:
        if type(mine) is not type(given) or dump(given.args) != dump(mine.args):
            return self._fail(given, mine, words.OTHER_ARGUMENTS.format(name=given.name))
        if dump(given.decorator_list) != dump(mine.decorator_list):
            return self._fail(given, mine, words.OTHER_DECORATORS.format(name=given.name))
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
        inner = depth + 1 if isinstance(given, SCOPES) else depth
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
                self.sides[blank.lineno, blank.col_offset] = [dump([other])]

    def block(
        self, given: list[ast.stmt], mine: list[ast.stmt], parent: ast.AST, depth: int
    ) -> bool:
        """Find each given statement in order. Between them: the answer of a region, or extras."""
        return self._rest(self._items(given), 0, without_strings(mine), 0, parent, depth)

    def _items(self, given: list[ast.stmt]) -> list[ast.stmt | tuple[int, int]]:
        """Given statements, with each region (its line span) standing for its own."""
        items: list[ast.stmt | tuple[int, int]] = []
        for statement in without_strings(given):
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
        # A region is as long as it can be: its last line may read like the given one after it.
        ends = range(j, len(mine) + 1)
        for k in ends if region is None else reversed(ends):
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
            pair = next((n for n in mine[j:] if _is_pair(absent, n)), None)
            if pair is not None:
                self._fail(absent, pair, words.PAIR.format(line=line))
            else:
                self._fail(absent, near, words.LINE_GONE.format(line=line))
        return False

    def _welcome(
        self, node: ast.stmt, items: list[ast.stmt | tuple[int, int]], before: int
    ) -> bool:
        told = unwelcome(node, self.given_names)
        if not told:
            return True
        wanted = items[before] if before < len(items) else None
        if isinstance(wanted, ast.stmt) and type(wanted) is type(node):
            line = ast.unparse(wanted).split("\n")[0]
            told = words.LINE_EDITED.format(line=line)
        where = wanted.lineno if isinstance(wanted, ast.stmt) else 10**9
        self._failures.append((where, node.lineno, told))
        return False

    def _fail(self, given: ast.stmt, mine: ast.AST, told: str) -> bool:
        self._failures.append((given.lineno, getattr(mine, "lineno", 0), told))
        return False


def _is_pair(given: ast.stmt, mine: ast.stmt) -> bool:
    """Is this ``assert x == a, b``, where ``assert x == (a, b)`` was meant?"""
    return (
        isinstance(given, ast.Assert)
        and isinstance(mine, ast.Assert)
        and given.msg is None
        and mine.msg is not None
        and any(isinstance(n, ast.Name) and n.id == BLANK for n in ast.walk(given.test))
        and type(given.test) is type(mine.test)
    )


def unwelcome(node: ast.AST, given_names: set[str]) -> str:
    """Why a statement of the learner's own may not stand outside a blank; "" if it may."""
    if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Raise | ast.Await):
        word = type(node).__name__.lower().replace("yieldfrom", "yield")
        return words.ADDED.format(code=word)
    if isinstance(node, ast.Delete | ast.AugAssign | ast.Global | ast.Nonlocal):
        return words.ADDED.format(code=ast.unparse(node))
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        flat = [part for target in targets for part in _flat_target(target)]
        if not all(isinstance(part, ast.Name) for part in flat):
            return words.CHANGES_GIVEN.format(code=ast.unparse(node))
    rebound = bound_names([node]) & given_names
    if rebound:
        return words.REBOUND.format(name=sorted(rebound)[0])
    inner = () if isinstance(node, (*SCOPES, ast.Lambda)) else ast.iter_child_nodes(node)
    return next((told for child in inner if (told := unwelcome(child, given_names))), "")


def _flat_target(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [part for element in target.elts for part in _flat_target(element)]
    return [target.value] if isinstance(target, ast.Starred) else [target]
