"""Is an answer no answer, but the question put back to PyTorch?"""

from __future__ import annotations

import ast

from sensei.match import Match
from sensei.records import Koan
from sensei.trees import Definition, bound_names, dump, expression, free_names, local_names


def agrees_with_itself(
    koan: Koan,
    given: ast.FunctionDef,
    mine: Definition,
    captures: list[list[ast.AST]],
    match: Match,
) -> bool:
    """Is an answer a question put back to PyTorch?

    It is, if it names a local variable of the test where the book's own answer names
    none, or if it is the other side of the same comparison, word for word.
    """
    local = _made_from(local_names(given) - {given.name}, mine)
    local |= {"locals", "vars", "eval", "exec", "globals"}
    for capture, slot, other in zip(captures, koan.slots, match.other_sides):
        if slot.region:
            continue
        if dump(capture) in other:
            return True
        if free_names(capture) & local and not free_names([expression(slot.answer)]) & local:
            return True
    return False


def _made_from(names: set[str], mine: Definition) -> set[str]:
    """The names, and those that a learner's own lines compute from them."""
    found = set(names)
    assigned = [n for n in ast.walk(mine) if isinstance(n, ast.Assign | ast.AnnAssign)]
    for _ in assigned:  # a chain is never longer than this
        for node in assigned:
            if node.value is not None and free_names([node.value]) & found:
                found |= bound_names([node])
    return found
