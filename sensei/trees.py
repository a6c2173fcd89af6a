"""Small questions about syntax trees. Nothing here knows what a koan is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from sensei.parse import segment
from sensei.records import END, TURN
from sensei.regions import dedent_block

Definition = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
INNER_EXPRESSIONS = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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


def dump(node: ast.AST | Sequence[ast.AST]) -> str:
    if isinstance(node, ast.AST):
        return ast.dump(node)
    return "; ".join(ast.dump(part) for part in node)


def without_strings(body: list[ast.stmt]) -> list[ast.stmt]:
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


def bound_names(body: Sequence[ast.AST]) -> set[str]:
    """Names that statements bind in their own scope: assigned, imported or defined."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        if isinstance(node, SCOPES):
            names.add(node.name)
        elif not isinstance(node, INNER_EXPRESSIONS):
            names |= bound_names(list(ast.iter_child_nodes(node)))
    return names


def local_names(function: Definition) -> set[str]:
    """Every name a test binds, arguments and inner scopes included."""
    nodes = list(ast.walk(function))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    names |= {n.name for n in nodes if isinstance(n, (*SCOPES, ast.ExceptHandler)) and n.name}
    names |= {n.asname or n.name.split(".")[0] for n in nodes if isinstance(n, ast.alias)}
    return names


def used_names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def free_names(capture: Sequence[ast.AST]) -> set[str]:
    """Names an expression reads, without those it binds itself (comprehensions, lambdas)."""
    nodes = [node for part in capture for node in ast.walk(part)]
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return {n.id for n in nodes if isinstance(n, ast.Name)} - bound


def source_of(capture: list[ast.AST], text: str) -> str:
    """The learner's own words for one slot, dedented."""
    if not capture:
        return ""
    first, last = capture[0], capture[-1]
    if isinstance(first, ast.expr):
        return segment(text, first)
    assert isinstance(first, ast.stmt) and isinstance(last, ast.stmt)
    decorators = getattr(first, "decorator_list", [])
    start = min([first.lineno, *(d.lineno for d in decorators)])
    return dedent_block(text.split("\n")[start - 1 : last.end_lineno])


def line_of(node: ast.AST) -> int:
    assert isinstance(node, ast.stmt | ast.expr)
    return node.lineno


def expression(source: str) -> ast.expr:
    return ast.parse(f"({source}\n)", mode="eval").body


def same_answer(mine: str, other: str) -> bool:
    """Do two answers read the same? ``'a'`` is ``"a"``, and ``[1.0]`` is ``[1]``."""
    try:
        left, right = ast.parse(dedent_block(mine.split("\n"))), ast.parse(other)
    except SyntaxError:
        return False
    if dump(left.body) == dump(right.body):
        return True
    try:
        values = [ast.literal_eval(source) for source in (mine.strip(), other.strip())]
        return type(values[0]) is type(values[1]) and bool(values[0] == values[1])
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def import_keys(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(module, name, bound name) of each import at module level; order never matters."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, "", alias.asname or alias.name.split(".")[0]
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield "." * node.level + (node.module or ""), alias.name, alias.asname or alias.name


def import_line(key: tuple[str, str, str]) -> str:
    module, name, bound = key
    tail = f" as {bound}" if bound not in (name, module, module.split(".")[0]) else ""
    return f"from {module} import {name}{tail}" if name else f"import {module}{tail}"
