"""What makes a koan good, as far as a program can tell: one line per offence.

Pure: records in, :class:`Offence` records out. Only :func:`check_see` imports what a
koan points to, since nothing else can tell whether a name resolves.
"""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sensei.failing import bare, statements
from sensei.giveaway import given_away
from sensei.records import BLANK, Chapter, Koan
from sensei.trees import region_lines, same_answer

FIXTURES = {"device", "tmp_path", "monkeypatch", "capsys", "recwarn", "benchmark"}
MARKS = {"gpu", "slow", "tour", "timeout", "needs", "benchmark", "filterwarnings"}
NEEDS = {"torch", "python", "package", "fork", "platform"}
BODY_LIMITS = {"predict": 12, "error": 12, "repair": 25, "write": 25, "measure": 25}
LESSON_WORDS = 60
COIN_TOSS_SHARE = 1 / 8
MIX = {"predict": 0.45, "error": 0.10, "repair": 0.15, "write": 0.12}


@dataclass(frozen=True)
class Offence:
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def check_chapter(chapter: Chapter, claims: Collection[str] | None = None) -> Iterator[Offence]:
    """All offences of one file. ``claims`` are the ids of the ledger, if there is one."""
    for koan in chapter.koans:
        for message in _check_koan(chapter, koan, claims):
            yield Offence(chapter.path, koan.line, f"{koan.name}: {message}")
    yield from (Offence(chapter.path, line, message) for line, message in _check_file(chapter))


def check_book(chapters: Iterable[Chapter]) -> Iterator[Offence]:
    """Offences that only show across files: the share of coin tosses, two koans alike."""
    koans = [(chapter, koan) for chapter in chapters for koan in chapter.koans]
    tosses = [(c, k) for c, k in koans if _is_coin_toss(k)]
    if len(tosses) > len(koans) * COIN_TOSS_SHARE:
        chapter, koan = tosses[-1]
        yield Offence(
            chapter.path,
            koan.line,
            f"{koan.name}: {len(tosses)} of {len(koans)} koans ask for a bare True or False; "
            "at most one in eight: ask for a shape, a dtype, a name, a count or an error",
        )
    seen: dict[str, Koan] = {}
    for chapter, koan in koans:
        body = _body(chapter, koan)
        if body in seen:
            yield Offence(chapter.path, koan.line, f"{koan.name}: the same code as {seen[body].id}")
        seen[body] = koan
        for alias in koan.aliases:
            if any(alias == other.name for other in chapter.koans):
                yield Offence(chapter.path, koan.line, f"{koan.name}: alias {alias} is in use")


def mix(koans: Iterable[Koan]) -> dict[str, float]:
    """The share of each kind that has a lower bound."""
    counts = Counter(koan.kind for koan in koans)
    total = max(sum(counts.values()), 1)
    return {kind: counts[kind] / total for kind in MIX}  # type: ignore[index]


def check_see(koan: Koan) -> str:
    """Why ``see`` is of no use to a learner; "" if it resolves to something documented.

    Imports the package that is named, so a wrong name costs an import of torch.
    """
    try:
        found = resolve(koan.see)
    except LookupError as error:
        return str(error)
    if not (getattr(found, "__doc__", None) or "").strip():
        return f"see: {koan.see} has no docstring"
    return ""


def resolve(dotted: str) -> object:
    """The object a dotted name stands for. Raises LookupError if there is none."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        raise LookupError(f"see: {dotted!r} is not a dotted name, as torch.Tensor.view is")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            found: object = importlib.import_module(name)
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                raise LookupError(f"see: {dotted} does not exist ({name} has no {part})")
            found = getattr(found, part)
        return found
    raise LookupError(f"see: {dotted} does not exist")


# one koan -----------------------------------------------------------------------------------------


def _check_koan(chapter: Chapter, koan: Koan, claims: Collection[str] | None) -> Iterator[str]:
    function = _function(chapter, koan)
    if any("TODO" in text for text in [ast.unparse(function), *_texts(koan)]):
        yield "there is a TODO left in it"
        return  # what else is wrong with a scaffold would only be noise
    if not koan.lesson:
        yield "it has no lesson: give it a docstring"
    if len(koan.lesson.split()) > LESSON_WORDS:
        yield f"the lesson has {len(koan.lesson.split())} words; {LESSON_WORDS} at most"
    limit = BODY_LIMITS[koan.kind]
    if koan.body_lines > limit:
        yield f"the body has {koan.body_lines} lines; {limit} at most for this kind ({koan.kind})"
    if not koan.wrong:
        yield "wrong= is empty: name at least one answer that a known misconception would give"
    if not all(hint.strip() for hint in koan.hints) or not koan.hints:
        yield "hint= is empty"
    if not koan.why.strip():
        yield "why= is empty"
    for label, answers in [("right", r) for r in koan.right] + [
        ("wrong", w.answers) for w in koan.wrong
    ]:
        if all(same_answer(a, b) for a, b in zip(answers, koan.answers, strict=True)):
            yield f"{label}= holds the answer itself: {' / '.join(answers)}"
    for wrong in koan.wrong:
        if any(
            all(same_answer(a, b) for a, b in zip(wrong.answers, right, strict=True))
            for right in koan.right
        ):
            yield f"{' / '.join(wrong.answers)} is both wrong and right"
    yield from _check_sources(koan)
    yield from given_away(koan)
    for mark in koan.marks:
        if mark.name not in MARKS:
            yield f"unknown mark {mark.name}: one of {', '.join(sorted(MARKS))}"
        if mark.name == "needs" and not {key for key, _ in mark.kwargs} <= NEEDS:
            yield f"needs() takes {', '.join(sorted(NEEDS))}"
    if claims is not None:
        for claim in koan.claims:
            if claim not in claims:
                yield f"claim {claim} is not in the ledger"
    arguments = [argument.arg for argument in function.args.args]
    for name in arguments:
        if name not in FIXTURES:
            yield f"unknown fixture {name}: one of {', '.join(sorted(FIXTURES))}"
    yield from _check_code(function)
    yield from _check_at(chapter, koan)


def _check_at(chapter: Chapter, koan: Koan) -> Iterator[str]:
    """Each piece names exactly one given line, and each line has one word at most."""
    inside = region_lines(chapter.template)
    given = [
        text
        for line, _, text in statements(chapter.template, koan.name)
        if not any(start < line < end for start, end in inside)
    ]
    named: dict[str, str] = {}
    for piece, word in koan.at:
        found = [text for text in given if bare(piece) in text]
        if len(found) != 1 or not bare(piece):
            yield f"at= {piece!r} is a piece of {len(found)} given lines: it should be of one"
        elif found[0] in named:
            yield f"at= {piece!r} and {named[found[0]]!r} are pieces of the same line"
        else:
            named[found[0]] = piece
        if not word.strip():
            yield f"at= {piece!r} has nothing to say"


def _texts(koan: Koan) -> list[str]:
    wrong = [text for w in koan.wrong for text in (w.reason, *w.answers)]
    return [koan.see, koan.why, *koan.hints, *wrong, *(word for _, word in koan.at)]


def _check_sources(koan: Koan) -> Iterator[str]:
    for answers in [*(w.answers for w in koan.wrong), *koan.right]:
        for slot, source in zip(koan.slots, answers, strict=True):
            try:
                ast.parse(source) if slot.region else ast.parse(f"({source}\n)", mode="eval")
            except SyntaxError as error:
                yield f"{source!r} is not Python: {error.msg}"


def _check_code(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises":
            if BLANK in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
                yield "no blank inside pytest.raises(): Exception would always be right"
        if isinstance(node, ast.With) and _suppresses(node) and not _is_blank_last(node):
            yield "a blank under pytest.raises must stand in its last statement"
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = (node.left, node.comparators[0])
            if any(isinstance(s, ast.Name) and s.id == BLANK for s in sides):
                if all(isinstance(s, ast.Constant) or _is_blank(s) for s in sides):
                    yield "a constant on the other side: let PyTorch give the truth"


def _suppresses(node: ast.With) -> bool:
    words = ("pytest.raises", "suppress")
    return any(word in ast.unparse(item.context_expr) for item in node.items for word in words)


def _is_blank_last(node: ast.With) -> bool:
    inside = [_holds_blank(statement) for statement in node.body]
    return not any(inside[:-1])


def _is_blank(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == BLANK


def _holds_blank(node: ast.AST) -> bool:
    return any(_is_blank(n) for n in ast.walk(node))


def _is_coin_toss(koan: Koan) -> bool:
    return len(koan.slots) == 1 and koan.slots[0].answer in ("True", "False")


# one file -----------------------------------------------------------------------------------------


def _check_file(chapter: Chapter) -> Iterator[tuple[int, str]]:
    tree = ast.parse(chapter.template)
    book = ast.parse(chapter.text)
    about = ast.get_docstring(tree)
    if not about:
        yield 1, "the file has no docstring: say in one line what it is about"
    elif "TODO" in about:
        yield 1, "there is a TODO left in the docstring of the file"
    if not chapter.koans:
        yield 1, "the file holds no koan"
        return
    seen: set[str] = set()
    koans = {koan.name for koan in chapter.koans}
    for node in book.body:
        name = getattr(node, "name", "")
        if isinstance(node, ast.AsyncFunctionDef | ast.ClassDef) and name.lower().startswith(
            "test"
        ):
            yield node.lineno, f"{name}: a koan is one plain function"
        elif isinstance(node, ast.FunctionDef) and name in seen:
            yield node.lineno, f"{name} is defined twice"
        elif isinstance(node, ast.FunctionDef) and name.startswith("test") and name not in koans:
            yield node.lineno, f"{name} has no @koan(...)"
        elif isinstance(node, ast.FunctionDef) and name in koans and not name.startswith("test_"):
            yield node.lineno, f"{name}: pytest collects names that start with test_"
        seen.add(name)
    last = chapter.koans[-1]
    if not any(slot.region for slot in last.slots):
        yield last.line, f"{last.name} ends the file: end with a koan to repair or to write"
    used = {n.id for node in tree.body for n in ast.walk(node) if isinstance(n, ast.Name)}
    for node in book.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and "sensei" not in ast.unparse(node):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                if bound not in used:
                    where = "import it inside the answer, or not at all"
                    yield node.lineno, f"{bound} is imported and no given line uses it: {where}"
    for number, line in enumerate(chapter.text.split("\n"), 1):
        if len(line) > 100:
            yield number, f"the line has {len(line)} characters; 100 at most"


def _function(chapter: Chapter, koan: Koan) -> ast.FunctionDef:
    return next(
        node
        for node in ast.parse(chapter.template).body
        if isinstance(node, ast.FunctionDef) and node.name == koan.name
    )


def _body(chapter: Chapter, koan: Koan) -> str:
    """The code of a koan without its lesson, to find two that are the same."""
    function = _function(chapter, koan)
    return "\n".join(ast.unparse(node) for node in function.body[1:])
