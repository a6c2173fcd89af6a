"""Put rich renderables on pytest's terminal, whatever that terminal can show."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import StringIO
from typing import IO, Any

from rich.console import Console, RenderableType

# What a terminal that is not UTF-8 gets instead; anything else unknown becomes "?".
PLAIN = str.maketrans(
    {"█": "#", "░": ".", "─": "-", "│": "|", "❱": ">", "→": "->", "×": "x", "…": "...", "·": "-"}
    | {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "≥": ">=", "≤": "<="}
)


def paint_pytest(reporter: Any, renderables: Sequence[RenderableType]) -> None:
    """Write to pytest's own terminal, in its width and its decision about colour."""
    writer = reporter._tw
    paint(writer._file, renderables, writer.fullwidth, writer.hasmarkup)


def paint(
    file: IO[str], renderables: Sequence[RenderableType], width: int | None, colour: bool
) -> None:
    """Write renderables to a text stream that may be narrow, plain, or not UTF-8."""
    encoding = getattr(file, "encoding", None) or "utf-8"
    text = StringIO()
    console = Console(
        file=text,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    for renderable in renderables:
        console.print(renderable)
    lines = (line.rstrip() for line in text.getvalue().split("\n"))
    file.write(fit("\n".join(lines), encoding))
    file.flush()


def fit(text: str, encoding: str) -> str:
    """Text that an encoding can carry: near plain characters instead of what it lacks."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.translate(PLAIN).encode(encoding, "replace").decode(encoding)


def paint_stdout(renderables: Sequence[RenderableType]) -> None:
    colour = sys.stdout.isatty() and Console().color_system is not None
    paint(sys.stdout, renderables, None if sys.stdout.isatty() else 80, colour)
