"""``koans map``: the whole path as one HTML page that needs nothing else. Pure.

Made of headings, lists and links, so that a keyboard and a screen reader walk it as they
walk any page; the drawing is only how it looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from sensei import words
from sensei.records import Koan
from sensei.standing import Stand

# The five primitives stand in the middle of the path; the other groups stand around them.
PRIMITIVES = {
    "01_tensor": "Tensor",
    "02_autograd": "Function",
    "03_module": "Module",
    "04_dataloader": "DataLoader",
    "05_loop": "Optimizer",
}

# From afar, what has to be mended first is still to be filled.
PLAINER: dict[Stand, str] = {"filled": "not yet", "altered": "open", "broken": "open"}


@dataclass(frozen=True)
class Dot:
    """One koan on the page."""

    koan: Koan
    stand: Stand
    sections: tuple[str, ...]  # of the ledger: "A 3.1"

    @property
    def state(self) -> str:
        """The word of the legend."""
        return PLAINER.get(self.stand, self.stand)


def page(dots: Sequence[Dot]) -> str:
    """The page of a path."""
    groups: dict[str, list[Dot]] = {}
    for dot in dots:
        groups.setdefault(dot.koan.group, []).append(dot)
    core = {name: mine for name, mine in groups.items() if name in PRIMITIVES}
    around = {name: mine for name, mine in groups.items() if name not in PRIMITIVES}
    done, awake = _done(dots)
    legend = "".join(
        f'<li><span class="dot {_css(state)}" aria-hidden="true"></span> {state}: {text}</li>'
        for state, text in words.MAP_STATES.items()
    )
    body = [
        f"<h1>{words.MAP_TITLE}</h1>",
        f"<p>{words.MAP_DONE.format(done=done, total=awake)}</p>",
        f'<ul class="legend">{legend}</ul>',
        _part(words.MAP_CORE, core),
    ]
    if around:
        body.append(_part(words.MAP_AROUND, around))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{words.MAP_TITLE}</title>\n<style>{STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def _done(dots: Sequence[Dot]) -> tuple[int, int]:
    """How many are solved, of how many that can be solved here."""
    return sum(dot.state == "solved" for dot in dots), sum(dot.state != "asleep" for dot in dots)


def _part(title: str, groups: Mapping[str, Sequence[Dot]]) -> str:
    cards = "\n".join(_group(name, dots) for name, dots in groups.items())
    return f'<h2>{title}</h2>\n<div class="groups">\n{cards}\n</div>'


def _group(name: str, dots: Sequence[Dot]) -> str:
    """A card: the group, how far one is, and a list of its koans for each file."""
    done, awake = _done(dots)
    primitive = f' <span class="primitive">{PRIMITIVES[name]}</span>' if name in PRIMITIVES else ""
    files: dict[str, list[Dot]] = {}
    for dot in dots:
        files.setdefault(dot.koan.file, []).append(dot)
    lists = "\n".join(
        f'<ul aria-label="{escape(_plain(file))}">{"".join(map(_dot, mine))}</ul>'
        for file, mine in files.items()
    )
    return (
        f'<section aria-labelledby="{name}"><h3 id="{name}">{name}{primitive}</h3>'
        f"<p>{words.MAP_GROUP.format(done=done, total=awake)}</p>\n{lists}</section>"
    )


def _plain(file: str) -> str:
    return file.removeprefix("test_").removesuffix(".py").replace("_", " ")


def _dot(dot: Dot) -> str:
    """A koan: a button that opens on hover, on focus and on a touch, and says its lesson."""
    koan = dot.koan
    lesson = escape(" ".join(koan.lesson.split()))
    claims = f" <small>{escape(', '.join(dot.sections))}</small>" if dot.sections else ""
    name = escape(koan.name)
    return (
        f'<li><button type="button" class="dot {_css(dot.state)}" aria-describedby="{name}">'
        f'<span class="name">{name}: {dot.state}</span></button>'
        f'<div class="lesson" id="{name}"><b>{name}</b> ({dot.state})<br>{lesson}{claims}</div>'
        "</li>"
    )


def _css(state: str) -> str:
    return state.replace(" ", "-")


STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --paper: #fbfaf7; --card: #fff; --line: #d9d5cb;
  --open: #c3c9d4; --solved: #1f8a4c; --not-yet: #c27803; --asleep: #fbfaf7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e1; --paper: #14171c; --card: #1c2027; --line: #333a45;
    --open: #4b5563; --solved: #34c077; --not-yet: #f0a83a; --asleep: #14171c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2rem; }
h3, section p { margin: 0 0 .5rem; }
.primitive { font-weight: 400; opacity: .75; }
ul { list-style: none; margin: 0 0 .5rem; padding: 0; display: flex; flex-wrap: wrap; gap: 4px; }
.legend { gap: .25rem 1.25rem; }
.groups { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: 1rem; position: relative; }
.dot { display: inline-block; width: 1.5rem; height: 1.5rem; padding: 0; border-radius: 50%;
  border: 2px solid transparent; background: var(--open); vertical-align: middle; }
button.dot { cursor: help; }
.dot.solved { background: var(--solved); }
.dot.not-yet { background: var(--not-yet); border-radius: 4px; }
.dot.asleep { background: var(--asleep); border: 2px dashed var(--open); }
.dot.open { border-radius: 50% 50% 50% 0; }
button.dot:focus-visible { outline: 3px solid var(--ink); outline-offset: 2px; }
.name { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.lesson { display: none; position: absolute; left: .5rem; right: .5rem; z-index: 1;
  margin-top: .25rem; padding: .75rem; border-radius: .5rem; background: var(--ink);
  color: var(--paper); overflow-wrap: anywhere; }
.lesson small { display: block; opacity: .75; }
li:hover > .lesson, button:focus + .lesson { display: block; }
@media print { .lesson { display: block; position: static; } }
"""
