"""What each key of the live loop does."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from sensei import learner, words
from sensei import report as screen
from sensei.editor import editor_command
from sensei.learner import say
from sensei.paint import fit
from sensei.workbook import Workbook, WorkbookError

if TYPE_CHECKING:
    from sensei.watch import Loop


class Keys:
    """Turns a key into what happens to the loop and to its screen."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.answering: Callable[[str], None] | None = None  # what the next key is for

    def press(self, key: str) -> None:
        self.loop.note = None
        if self.answering is not None and key != "quit":
            answering, self.answering = self.answering, None
            answering(key)
            return
        actions: dict[str, Callable[[], None]] = {
            "quit": self.loop.quit,
            "q": self.loop.quit,
            "enter": self.enter,
            "n": self.loop.go_on,
            "h": lambda: self.say_below(learner.hint),
            "p": self.peek,
            "d": self.docs,
            "l": self.search,
            "r": self.reset,
            "e": self.edit,
        }
        if self.loop.just_solved and key in ("h", "p", "r"):
            return  # it is solved: nothing to hint at, and nothing to put back by accident
        if key in actions:
            actions[key]()

    def enter(self) -> None:
        """Go on after a pass; otherwise judge again, even if no change was seen."""
        if self.loop.just_solved:
            self.loop.go_on()
        else:
            self.loop.look_again()
            self.loop.start_check(self.loop.standing.stale(self.loop.files), self.loop.current)

    def say_below(self, command: Callable[[Workbook, str], int]) -> None:
        """Show what a command prints, under the card."""
        koan_id = self.loop.at_hand()
        if koan_id:
            said = _output(lambda: command(self.loop.workbook, koan_id))
            self.loop.draw(Text(words.live(said)))

    def peek(self) -> None:
        if not self.loop.current:
            return
        name = self.loop.current.partition("::")[2]

        def answered(key: str) -> None:
            if key == "y":
                self.say_below(lambda book, koan_id: learner.peek(book, koan_id, yes=True))
            else:
                self.loop.draw(Text(words.PEEK_KEPT))

        self.ask(words.PEEK_ASKS.format(name=name), answered)

    def reset(self) -> None:
        koan_id = self.loop.at_hand()
        if not koan_id:
            return

        def answered(key: str) -> None:
            if key == "y":
                # The file changes, so the screen is drawn again: this has to stay on it.
                told = _output(lambda: learner.reset_koans(self.loop.workbook, [koan_id]))
                self.loop.note = Text(told)
                self.loop.draw()
            else:
                self.loop.draw()

        self.ask(words.WATCH_RESET.format(name=koan_id.partition("::")[2]), answered)

    def ask(self, question: str, answered: Callable[[str], None]) -> None:
        self.loop.draw(Text(question, style="bold"))
        self.answering = answered

    def docs(self) -> None:
        koan_id = self.loop.at_hand()
        if koan_id:
            with self.loop.keyboard.at_rest():
                learner.docs(self.loop.workbook, koan_id)
            self.loop.draw()

    def search(self) -> None:
        with self.loop.keyboard.at_rest():
            try:
                text = input(words.WATCH_SEARCH).strip()
            except EOFError:
                text = ""
        self.loop.clear()
        learner.list_koans(self.loop.workbook, None, text)
        say(words.WATCH_KEYS_BACK)
        self.answering = lambda _: self.loop.draw()

    def edit(self) -> None:
        koan_id = self.loop.at_hand()
        if not koan_id:
            return
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        verdict = self.loop.standing.verdicts.get(koan_id)
        line = screen.marked_line(verdict) if verdict else 1
        path = self.loop.workbook.root / koan_id.partition("::")[0]
        problem = ""
        with self.loop.keyboard.at_rest():
            try:
                subprocess.run(editor_command(editor, path, line))
            except (OSError, ValueError) as error:
                problem = words.WATCH_NO_EDITOR.format(editor=editor, error=error)
        self.loop.draw(*([Text(problem)] if problem else []))


def _output(work: Callable[[], int]) -> str:
    """What a command prints, as text."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            work()
        except WorkbookError as error:
            print(error)
    return fit(printed.getvalue().rstrip("\n"), getattr(sys.stdout, "encoding", None) or "utf-8")
