"""The learner's commands: hint, peek, why, docs, list, map, reset. Each returns 0 or 1."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from sensei import report as screen
from sensei import words
from sensei.asleep import sleep_of
from sensei.ledger import Claim, ledger_path, read_ledger
from sensei.lint import resolve
from sensei.map_page import Dot, page
from sensei.paint import fit, paint_stdout
from sensei.records import Koan
from sensei.standing import Stand, stand_of_each
from sensei.state import State, load, save
from sensei.targets import Chosen, chosen, koans_of, one_koan
from sensei.workbook import Workbook, WorkbookError, reset, reset_file

Say = Callable[[str], None]


def say(text: str) -> None:
    """Print, whatever the terminal can show."""
    print(fit(text, getattr(sys.stdout, "encoding", None) or "utf-8"))


def hint(workbook: Workbook, target: str | None) -> int:
    """One more hint at each call; those before it are shown again."""
    state = load(workbook.root)
    koan = one_koan(workbook, state, target)
    known = state.koans.setdefault(koan.id, {})
    asked = known.get("asked")
    step = min((asked if isinstance(asked, int) else 0) + 1, len(koan.hints))
    lines: list[RenderableType] = [_head(koan)]
    for number, text in enumerate(koan.hints[:step], 1):
        line = words.HINT_NUMBER.format(number=number, count=len(koan.hints), text=text)
        lines.append(Padding(Text(line), (0, 0, 0, 2)))
    last = words.NO_MORE_HINTS if step == len(koan.hints) else words.MORE_HINTS
    paint_stdout([*lines, Text(last, style="dim")])
    known["asked"] = step
    save(workbook.root, state)
    return 0


def peek(workbook: Workbook, target: str | None, yes: bool) -> int:
    """Show the book's answer, after asking."""
    koan = one_koan(workbook, load(workbook.root), target)
    if not yes:
        if not sys.stdin.isatty():
            say(words.PEEK_NEEDS_YES)
            return 1
        try:
            said = input(words.PEEK_ASKS.format(name=koan.name))
        except EOFError:
            said = ""
        if said.strip().lower() not in ("y", "yes"):
            say(words.PEEK_KEPT)
            return 0
    paint_stdout([_head(koan)])
    for slot in koan.slots:
        paint_stdout([Padding(Text(slot.answer or words.NOTHING_HERE), (0, 0, 0, 2))])
    return 0


def why(workbook: Workbook, target: str | None) -> int:
    """The reason of a solved koan."""
    state = load(workbook.root)
    koan = _last_solved(workbook, state) if target is None else None
    koan = koan or one_koan(workbook, state, target)
    sleep = sleep_of(koan)
    if sleep is not None:  # nobody can solve it here, and its reason may be read
        say(words.WHY_ASLEEP.format(name=koan.name, reason=sleep.reason))
    elif koan.id not in state.solved:
        say(words.WHY_FIRST.format(name=koan.name))
        return 1
    paint_stdout([_head(koan), Padding(Text(koan.why), (0, 0, 0, 2))])
    return 0


def _last_solved(workbook: Workbook, state: State) -> Koan | None:
    """The solved koan nearest before the current one: the reason just earned."""
    ids = [koan.id for koan in workbook.book.koans]
    end = ids.index(state.card) if state.card in ids else len(ids)
    solved = [koan_id for koan_id in ids[:end] if koan_id in state.solved]
    return workbook.book.find(solved[-1]) if solved else None


def docs(workbook: Workbook, target: str | None) -> int:
    """The real docstring of what a koan is about, from the installed torch."""
    koan = one_koan(workbook, load(workbook.root), target)
    try:
        found = resolve(koan.see)
    except LookupError as error:
        say(str(error))
        return 1
    try:
        signature = str(inspect.signature(found))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = ""
    text = f"{koan.see}{signature}\n\n{_manual(found)}\n"
    if sys.stdout.isatty():
        os.environ.setdefault("LESS", f"-P{words.WATCH_PAGER}")  # its bare ":" says nothing
        pydoc.pager(text)
    else:
        say(text)
    return 0


SEE_ALSO = re.compile(r"See :func:`~?(torch[\w.]*)`")


def _manual(found: object) -> str:
    """A docstring, and the one it sends its reader to: many methods say "See torch.x" only."""
    text = inspect.getdoc(found) or ""
    also = SEE_ALSO.search(text)
    if also:
        try:
            text += f"\n\n{also[1]}\n\n{inspect.getdoc(resolve(also[1])) or ''}"
        except LookupError:
            pass  # the manual names something this torch does not have
    return text


def list_koans(workbook: Workbook, target: str | None, search: str = "") -> int:
    """Every koan with what its file says, and its groups; solved as the last run saw it.

    search: only those whose name, lesson or manual page holds this text.
    """
    state = load(workbook.root)
    koans = [koan for koan in koans_of(workbook, target or "") if speaks_of(koan, search)]
    if not koans:
        say(words.WATCH_NOTHING.format(text=search))
        return 1
    groups = dict.fromkeys(koan.group for koan in koans)
    neighbours = [koan for koan in workbook.book.koans if koan.group in groups]
    stands = {k.id: stand for k, stand in stand_of_each(workbook, neighbours, state.solved)}
    lines: list[RenderableType] = []
    key = ""
    for koan in koans:
        if koan.key != key:
            key = koan.key
            lines.append(Text(key, style="bold"))
        stand = stands[koan.id]
        line = Text(f"  {stand:8} {koan.name}", style="green" if stand == "solved" else "")
        line.append(f"  {koan.kind}", style="dim")
        lines.append(line)
    counts = [_count(name, stands) for name in groups]
    paint_stdout([*lines, Text(""), screen.path_map(counts, seen_note=False)])
    return 0


def _count(group: str, stands: Mapping[str, Stand]) -> screen.GroupCount:
    """A line of the map below the list."""
    mine = [stand for koan_id, stand in stands.items() if koan_id.startswith(f"{group}/")]
    return screen.GroupCount(group, mine.count("solved"), mine.count("asleep"), len(mine))


def speaks_of(koan: Koan, text: str) -> bool:
    """Does a koan's name, lesson or manual page hold this text? Case does not matter."""
    where = f"{koan.name} {koan.name.replace('_', ' ')} {' '.join(koan.lesson.split())} {koan.see}"
    return text.lower() in where.lower()


def map_page(workbook: Workbook, output: Path) -> int:
    """Write the path as one HTML page. Raises WorkbookError where it cannot be written."""
    check_place(output)
    state = load(workbook.root)
    sections = {c.id: f"{c.document} {c.section}" for c in _ledger(workbook)}
    dots = []
    for koan, stand in stand_of_each(workbook, workbook.book.koans, state.solved):
        named = dict.fromkeys(sections[c] for c in koan.claims if c in sections)
        dots.append(Dot(koan, stand, tuple(named)))
    output.write_text(page(dots), encoding="utf-8")
    say(words.MAP_WRITTEN.format(path=shown(output)))
    return 0


def check_place(output: Path) -> None:
    """Raises WorkbookError where no file can be written: better known before the work."""
    if output.is_dir():
        raise WorkbookError(words.IS_FOLDER.format(path=output))
    if not output.parent.is_dir():
        raise WorkbookError(words.NO_FOLDER.format(path=output.parent))


def _ledger(workbook: Workbook) -> Sequence[Claim]:
    try:
        return read_ledger(ledger_path(workbook.book.root))
    except FileNotFoundError:
        return ()


def reset_koans(workbook: Workbook, targets: list[str]) -> int:
    """Put koans back as they were given; a copy of the old file stays in .sensei/backups.

    A whole file becomes what was given, to the letter. One koan leaves the rest of its file
    alone; where that still cannot be read, this says so, and returns 1.
    """
    status = 0
    whole = workbook.with_all_groups.book
    for what in [_for_reset(workbook, target) for target in targets]:
        for key in dict.fromkeys(koan.key for koan in what.koans):
            chapter = whole.chapter(key)
            name, path = key, shown(workbook.path(chapter))
            if what.whole:
                done = reset_file(workbook, chapter)
            else:
                name, done = what.koans[0].id, reset(workbook, what.koans[0])
            if done.backup is None:
                say(words.RESET_NEW.format(path=path))
                continue
            if done.trouble:
                status = 1
                said = {"path": path, "line": done.line, "detail": done.trouble, "file": key}
                say(words.RESET_TROUBLE.format(id=name, **said))
            else:
                say(words.RESET_DONE.format(id=name))
            say(words.RESET_BACKUP.format(backup=shown(done.backup)))
    return status


def _for_reset(workbook: Workbook, target: str) -> Chosen:
    """What a target means: among the groups that are here, else in one that was deleted."""
    try:
        return chosen(workbook, target)
    except WorkbookError:
        return chosen(workbook.with_all_groups, target)


def _head(koan: Koan) -> Text:
    text = Text(koan.name, style="bold")
    text.append(f"  {koan.group}/{koan.file}", style="dim")
    return text


def shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
