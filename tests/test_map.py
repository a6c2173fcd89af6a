"""The page of the path: every koan once, nothing from outside, readable in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sensei.cli import _parser as koans_parser
from tests.desk import REPO, SMALL, Desk

MakeDesk = Callable[..., Desk]
BROWSER = next(
    (p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))),
    None,
)
# A lesson that a careless page would swallow, and one group that is no primitive.
ODD = SMALL.replace("Two lists of three numbers.", 'Is 1 < 2 & "so" </div> on?')


@pytest.fixture
def made(desk: MakeDesk) -> Desk:
    made = desk(ODD)
    other = SMALL.replace("def test_", "def test_other_").replace("koan(\n", "koan(\n", 1)
    for root in ("answers", "koans"):
        (made.root / root / "01_tensor").mkdir()
    (made.root / "koans/01_tensor/test_01_other.py").write_text("def broken(:\n")
    (made.root / "answers/01_tensor/test_01_other.py").write_text(other)
    made.solve({"test_shape": ["(2, 3)"], "test_refused": ["ValueError"]})
    made.pytest("koans")
    done = made.koans("map", "-o", "path.html")
    assert done.returncode == 0 and "path.html" in done.stdout, done.stderr
    return made


def html(made: Desk) -> str:
    return (made.root / "path.html").read_text(encoding="utf-8")


def test_every_koan_is_there_once_and_stands_as_it_stands(made: Desk) -> None:
    found = re.findall(r'class="name">(\w+): ([\w ]+)<', html(made))
    assert dict(found) == {
        "test_shape": "solved",
        "test_refused": "not yet",
        "test_keep_the_old": "open",
        "test_twos": "open",
        "test_other_shape": "open",
        "test_other_refused": "open",
        "test_other_keep_the_old": "open",
        "test_other_twos": "open",
    }
    assert len(found) == 8


def test_git_does_not_see_it() -> None:
    default = koans_parser().parse_args(["map"]).output
    assert str(default) in (REPO / ".gitignore").read_text().split("\n")


def test_nothing_comes_from_outside_and_no_answer_is_inside(made: Desk) -> None:
    text = html(made)
    assert not re.search(r"https?:|src=|@import|url\(|<script|<link", text)
    assert "(2, 3)" not in text and "RuntimeError" not in text and ".clone()" not in text


def test_its_tags_close_and_its_ids_are_unique(made: Desk) -> None:
    class Reader(HTMLParser):
        stack: list[str] = []
        ids: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.ids += [value or "" for name, value in attrs if name == "id"]
            if tag not in ("meta", "br"):
                self.stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.stack.pop() == tag

    reader = Reader()
    reader.feed(html(made))
    assert reader.stack == [] and len(set(reader.ids)) == len(reader.ids)


@pytest.fixture
def page(made: Desk) -> Iterator[Any]:
    """The page in a browser with the width of a phone."""
    driver = pytest.importorskip("playwright.sync_api")
    if BROWSER is None:
        pytest.skip("no browser on this machine")
    with driver.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 360, "height": 740})
        tab.goto(Path(made.root / "path.html").as_uri())
        yield tab
        browser.close()


def test_a_phone_shows_it_without_scrolling_sideways(page: Any) -> None:
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0
    box = page.get_by_role("button", name="test_shape: solved", exact=True).bounding_box()
    assert box["width"] >= 24 and box["height"] >= 24, "too small for a finger"


def test_pointing_shows_the_lesson(page: Any) -> None:
    lesson = page.locator("#test_shape")
    assert not lesson.is_visible()
    page.get_by_role("button", name="test_shape: solved", exact=True).hover()
    assert lesson.is_visible() and 'Is 1 < 2 & "so" </div> on?' in lesson.inner_text()
    inside = "e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= 360 }"
    assert lesson.evaluate(inside)


def test_the_keyboard_walks_from_dot_to_dot(page: Any) -> None:
    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.textContent").split(":")[0]
        assert page.locator(f"#{name}").is_visible()
        seen.append(name)
    assert len(set(seen)) == 8
    width = "e => parseFloat(getComputedStyle(e).outlineWidth)"
    assert page.locator("button:focus").evaluate(width) >= 2


def test_a_screen_reader_hears_state_and_lesson(page: Any) -> None:
    button = page.get_by_role("button", name="test_refused: not yet", exact=True)
    assert button.count() == 1
    described = page.locator(f"#{button.get_attribute('aria-describedby')}")
    assert "Which exception?" in (described.text_content() or "")
    levels = [int(tag[1]) for tag in page.locator("h1, h2, h3").evaluate_all(
        "all => all.map(e => e.tagName)")]  # fmt: skip
    assert levels[0] == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_in_both_schemes(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    colours = "e => [getComputedStyle(e).color, getComputedStyle(document.body).backgroundColor]"
    ink, paper = (_luminance(c) for c in page.locator("h1").evaluate(colours))
    assert (ink < paper) == (scheme == "light")
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 7


def _luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.1, of ``rgb(r, g, b)``."""
    parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
