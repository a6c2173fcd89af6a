"""Verdicts in, text out: the map, what was solved since last time, and one card.

Pure. Returns rich renderables; who prints them, and where, is somebody else's business.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from textwrap import dedent

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from sensei import words
from sensei.message import message
from sensei.records import BLANK, Koan
from sensei.verdict import Judgement, Verdict

BAR = 20  # cells
TRIED: tuple[Verdict, ...] = ("not yet", "altered", "stopped")
BLANKS = re.compile(rf"(?<!\w){BLANK}(?!\w)")  # not the one in __init__


@dataclass(frozen=True)
class GroupCount:
    """One line of the map. ``seen`` is False where the counts are those of an earlier run."""

    name: str
    solved: int
    asleep: int
    total: int
    seen: bool = True


def group_counts(
    judgements: Sequence[Judgement],
    totals: Mapping[str, int],
    solved: Set[str],
    asleep: Set[str] = frozenset(),
) -> list[GroupCount]:
    """The lines of the map. ``solved`` and ``asleep`` hold ids: what was not run, as last seen."""
    asleep = asleep | {j.id for j in judgements if j.verdict == "asleep"}
    lines = []
    for name, total in totals.items():
        seen = any(j.id.startswith(name + "/") for j in judgements)
        done = sum(1 for koan_id in solved - asleep if koan_id.startswith(name + "/"))
        sleeping = sum(1 for koan_id in asleep if koan_id.startswith(name + "/"))
        lines.append(GroupCount(name, done, sleeping, total, seen))
    return lines


def path_map(groups: Sequence[GroupCount], seen_note: bool = True) -> RenderableType:
    """The groups with their bars. A group of this run is bright, another one dim."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()  # the bars give way where the terminal is narrow
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for group in groups:
        style = "" if group.seen else "dim"
        note = words.AS_LAST_SEEN if seen_note and group.solved and not group.seen else ""
        if group.asleep:
            note = words.ASLEEP_COUNT.format(count=group.asleep)
        awake = group.total - group.asleep
        table.add_row(
            Text(group.name, style=style),
            Bar(group.solved, awake, dim=not group.seen),
            Text(f"{group.solved}/{awake}", style=style),
            Text(note, style="dim"),
        )
    return table


@dataclass(frozen=True)
class Bar:
    """A bar of at most BAR cells. Never full before all is done, never empty once something is."""

    done: int
    total: int
    dim: bool = False

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, BAR)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, BAR)
        cells = 0 if not self.total else self.done * width // self.total
        if self.done:
            cells = max(cells, 1)
        text = Text("█" * cells, style="green")
        text.append("░" * (width - cells), style="bright_black")
        if self.dim:
            text.stylize("dim")
        yield text


def tried_lines(
    path: Sequence[Judgement], current: Judgement, limit: int = 5
) -> list[RenderableType]:
    """The koans that somebody tried, beside the one on the card: a line each, with its place."""
    tried = [j for j in path if j.verdict in TRIED and not j.whole_file and j.id != current.id]
    rows: list[RenderableType] = []
    for judgement in tried[:limit]:
        line = Text()
        line.append(f"{judgement.verdict}  ", style=words.STYLES[judgement.verdict])
        line.append(f"{judgement.path}::{judgement.id.partition('::')[2]}")
        rows.append(line)
    if len(tried) > limit:
        rows.append(Text(words.MORE_TRIED.format(count=len(tried) - limit), style="dim"))
    return [*rows, Text(words.TRIED, style="dim"), Text("")] if rows else []


def solved_lines(koans: Sequence[Koan], limit: int = 5) -> RenderableType:
    """What was solved since the last time, each with its reason."""
    rows: list[RenderableType] = []
    for koan in koans[:limit]:
        line = Text()
        line.append(f"{words.SOLVED_BECAUSE} ", style="bold green")
        line.append(koan.name, style="bold")
        rows += [line, Padding(Text(koan.why), (0, 0, 0, 2))]
    if len(koans) > limit:
        rows.append(Text(words.MORE_SOLVED.format(count=len(koans) - limit), style="dim"))
    return Group(*rows)


def card(judgement: Judgement, koan: Koan, source: str, live: bool = False) -> RenderableType:
    """The one card: where, what, the code, and what to do next.

    ``source`` is the learner's file. No value of either side of an assertion is shown for
    a koan whose blank asks for one. ``live``: under `koans watch`, where a key helps.
    """
    where = Text()
    where.append(f"{judgement.path}:{marked_line(judgement)}", style="bold")
    where.append(f"  {judgement.verdict}", style=words.STYLES[judgement.verdict])
    parts: list[RenderableType] = [Rule(words.NEXT_CARD, style="dim", align="left"), where]
    if judgement.whole_file:  # the trouble is not this koan's, so its lesson would mislead
        code = code_around(source, judgement.line)
    else:
        lesson = Text(" ".join(koan.lesson.split()))
        tour = koan.mark("tour")
        note = f"  {words.ON_TOUR.format(seconds=tour.args[0])}" if tour else ""
        parts += [Text.assemble((koan.name, "bold"), (note, "dim")), Text(""), lesson]
        code = code_of(source, koan.name, judgement)
    parts.append(Text(""))
    if code is not None:
        parts += [code, Text("")]
    said = message(judgement, koan)
    if live:
        said = [(style, words.live(text)) for style, text in said]
    parts += [part for text in said for part in _paragraph(text)]
    return Group(*parts)


def _paragraph(text: tuple[str, str]) -> list[RenderableType]:
    style, line = text
    body: RenderableType = Text(line, style="" if style == "code" else style)
    return [Padding(body, (0, 0, 0, 4)) if style == "code" else body]


def marked_line(judgement: Judgement) -> int:
    if judgement.verdict == "stopped" and judgement.ran and judgement.ran.line:
        return judgement.ran.line
    if judgement.verdict == "not yet" and judgement.ran and judgement.ran.error_lines:
        return judgement.ran.error_lines[0][0]  # of several blanks, the one that failed
    if judgement.verdict in ("open", "not yet") and judgement.said_line:
        return judgement.said_line
    return judgement.line


def code_of(source: str, name: str, judgement: Judgement) -> RenderableType | None:
    """The code of one koan as it stands, without its lesson, with the line in question marked."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    found = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    node = next(found, None)
    if node is None:
        return None
    lines = source.replace("\r\n", "\n").split("\n")
    first = node.body[0]
    start = first.lineno
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and node.body[1:]:
        start = (first.end_lineno or first.lineno) + 1
    after = min((_top(n) for n in tree.body if n.lineno > node.lineno), default=len(lines) + 1)
    end = after - 1
    while end > start and (not lines[end - 1].strip() or not lines[end - 1].startswith(" ")):
        end -= 1
    text = dedent("\n".join(lines[start - 1 : end]))
    marked = {marked_line(judgement)}
    if judgement.verdict == "open":
        open_lines = (i for i in range(start, end + 1) if BLANKS.search(lines[i - 1].split("#")[0]))
        marked = set(open_lines) or marked
    return _code(text, start, marked)


def code_around(source: str, line: int) -> RenderableType | None:
    """The lines around one line of a file that may not be Python."""
    lines = source.replace("\r\n", "\n").split("\n")
    start = max(line - 2, 1)
    text = "\n".join(lines[start - 1 : line + 1]).replace("\0", "?")
    return _code(text, start, {line}) if text.strip() else None


def _code(text: str, start: int, marked: set[int]) -> RenderableType:
    return Syntax(
        text,
        "python",
        line_numbers=True,
        start_line=start,
        highlight_lines=marked,
        theme="ansi_dark",
        background_color="default",
        word_wrap=True,
    )


def _top(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def plain_card(judgement: Judgement, koan: Koan) -> str:
    """The card as a few plain lines: what an IDE or junit shows for an unsolved koan."""
    head = f"{judgement.path}:{marked_line(judgement)}: {koan.name}: {judgement.verdict}"
    lesson = " ".join(koan.lesson.split())
    body = [f"    {line}" if style == "code" else line for style, line in message(judgement, koan)]
    return "\n".join([head, lesson, *body])
