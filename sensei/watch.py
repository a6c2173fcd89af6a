"""``koans watch``: a verdict at every save, and help at a key.

One loop, no thread of ours: it asks in turn for keys, for changed files and for the verdicts
of a running check. The parent has torch and pytest imported, and never a koan.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence

import watchfiles
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from sensei import checking, learner, words
from sensei import report as screen
from sensei.guide import new_state
from sensei.keyboard import Keyboard
from sensei.learner import say
from sensei.options import DEADLINE
from sensei.paint import paint_stdout
from sensei.pressed import Keys
from sensei.standing import Seen, Standing, look
from sensei.state import load, save
from sensei.verdict import Judgement
from sensei.workbook import Workbook

TICK = 50  # milliseconds that the loop waits for a change of files
SETTLE = 20  # milliseconds of quiet after which a save is over
WARM = ("torch", "numpy", "pytest", "sensei.plugin")  # what a check would import first


def watch(workbook: Workbook, ids: Sequence[str], deadline: float | None, poll: bool) -> int:
    """Watch the files of some koans until somebody quits. Returns the exit status."""
    say(words.WATCH_START.format(path=learner.shown(workbook.root)))
    for name in WARM:
        with contextlib.suppress(ImportError):  # a check says what is missing, and what to do
            importlib.import_module(name)
    loop = Loop(workbook, ids, deadline)
    signal.signal(signal.SIGTERM, lambda *_: loop.quit())
    changes = watchfiles.watch(
        workbook.root,
        watch_filter=lambda _, path: path.endswith(".py") or not os.path.splitext(path)[1],
        debounce=5 * SETTLE,
        step=SETTLE,
        rust_timeout=TICK,
        yield_on_timeout=True,
        raise_interrupt=True,
        force_polling=poll or None,
    )
    with loop.keyboard.listening():
        try:
            loop.run(changes)
        except KeyboardInterrupt:
            pass
        finally:
            loop.end_check()
    total = len(loop.standing.ids)
    done = sum(loop.standing.done(koan_id) for koan_id in loop.standing.ids)
    say(words.WATCH_BYE.format(done=done, total=total))
    return 0


class Loop:
    """What is watched, what is known of it, and what is on the screen."""

    def __init__(self, workbook: Workbook, ids: Sequence[str], deadline: float | None) -> None:
        self.workbook = workbook
        self.options = [f"--deadline={deadline}"] if deadline else []
        self.deadline = deadline or DEADLINE
        self.keys = list(dict.fromkeys(koan_id.partition("::")[0] for koan_id in ids))
        self.standing = Standing(list(ids))
        self.files: dict[str, Seen] = {}
        self.keyboard = Keyboard()
        self.drawn = sys.stdout.isatty()
        self.check: checking.Check | None = None
        self.current: str | None = None
        self.just_solved: str | None = None  # stays on the screen until somebody goes on
        self.hands = Keys(self)
        self.note: RenderableType | None = None  # said under the card until the next key
        self.size = shutil.get_terminal_size()
        self.started = 0.0  # when the running check was started
        self.counted = 0  # seconds of it that were told
        self.going = True

    def run(self, changes: Iterator[set[tuple[watchfiles.Change, str]]]) -> None:
        self.look_again()
        self.start_check(self.standing.stale(self.files))
        for changed in changes:
            for key in self.keyboard.read():
                self.hands.press(key)
            if not self.going:
                return
            if changed:
                self.saved()
            self.ask_check()
            self.tick()

    def tick(self) -> None:
        """What time alone brings: another size of the terminal, a check that takes long."""
        size = shutil.get_terminal_size()
        if size != self.size:
            self.size = size
            if self.hands.answering is None:
                self.draw()
        seconds = int(time.monotonic() - self.started)
        if self.drawn and self.check is not None and seconds > max(self.counted, 1):
            self.counted = seconds
            text = words.WATCH_STILL.format(seconds=seconds, deadline=self.deadline)
            sys.stdout.write("\r" + text[: size.columns - 1])
            sys.stdout.flush()

    # files and checks -----------------------------------------------------------------------------

    def look_again(self) -> list[str]:
        """Read the files anew; the keys of those whose bytes changed."""
        changed = []
        for key in self.keys:
            try:
                data = (self.workbook.root / key).read_bytes()
            except OSError:
                data = None
            new = look(data, self.workbook.book.chapter(key))
            if key not in self.files or self.files[key].digest != new.digest:
                changed.append(key)
            self.files[key] = new
        return changed

    def saved(self) -> None:
        """Something in the folder changed. A check that runs is about an older text: it ends."""
        changed = self.look_again()
        if changed:
            here = self.current if (self.current or "").partition("::")[0] in changed else None
            self.start_check(self.standing.stale(self.files), here)

    def start_check(self, ids: Sequence[str], also: str | None = None) -> None:
        wanted = list(dict.fromkeys([*ids, *([also] if also else [])]))
        self.end_check()
        gone = [i for i in wanted if self.files[i.partition("::")[0]].reading is None]
        there = [i for i in wanted if i not in gone]
        if gone:  # pytest cannot be asked for a file that is not there
            self.judged([self.missing(koan_id) for koan_id in gone])
        if there:
            whole = len(there) == len(self.standing.ids)
            names = self.keys if whole else there
            self.check = checking.start(self.workbook.root, names, self.options)
            self.started, self.counted = time.monotonic(), 0
            if self.drawn and self.current:
                paint_stdout([Text(words.WATCH_CHECKING, style="dim")])

    def missing(self, koan_id: str) -> Judgement:
        key, _, name = koan_id.partition("::")
        path = learner.shown(self.workbook.root / key)
        detail = words.MISSING.format(path=path, line=1, name=name, id=koan_id)
        return Judgement(koan_id, "broken", path, 1, detail=detail)

    def end_check(self) -> None:
        if self.check is not None:
            self.check.end()
            self.check = None

    def ask_check(self) -> None:
        if self.check is None:
            return
        try:
            found = self.check.poll()
        except checking.CheckFailed as error:
            self.check = None
            say(words.WATCH_FAILED.format(cause=error))
            return
        if found is not None:
            self.check = None
            self.judged([j for j in found if j.id in set(self.standing.ids)])

    def judged(self, found: Sequence[Judgement]) -> None:
        """Verdicts came in: keep them, and show what they mean for the one at the desk."""
        before = {j.id: self.standing.verdicts.get(j.id) for j in found}
        self.standing.judged(found, self.files)
        if not self.drawn:
            self.tell(found, before)
        known = (self.current, self.just_solved)
        also = [
            words.WATCH_ALSO.format(name=j.id.partition("::")[2], verdict=j.verdict)
            for j in found
            if j.id not in known and (old := before[j.id]) and old.verdict != j.verdict
        ]
        if self.current is None and self.just_solved is None:
            self.current = self.standing.first()
        elif self.current is not None and self.standing.done(self.current):
            self.just_solved, self.current = self.current, None
        elif self.just_solved and not self.standing.done(self.just_solved):
            self.current, self.just_solved = self.just_solved, None
        self.remember(found)
        if also:
            self.note = Text("\n".join(also[:5]))
        if self.hands.answering is None:  # a question or a list stays until it is answered
            self.draw()

    def remember(self, found: Sequence[Judgement]) -> None:
        """Store what a run of pytest would store."""
        root = self.workbook.root
        state = load(root)
        solved = {j.id for j in found if j.verdict == "solved"}
        now = (state.solved - {j.id for j in found}) | solved
        shown = self.standing.verdicts.get(self.current or self.just_solved or "")
        save(root, new_state(state, list(found), now, shown))

    # where one stands ----------------------------------------------------------------------------

    def at_hand(self) -> str | None:
        return self.current or self.just_solved

    def go_on(self) -> None:
        """To the next koan that is not solved. The one at hand may be skipped."""
        self.current = self.standing.next_after(self.just_solved or self.current)
        self.just_solved = None
        self.look_again()
        self.draw()
        self.start_check(self.standing.stale(self.files), self.current)

    def quit(self) -> None:
        self.going = False

    # the screen -----------------------------------------------------------------------------------

    def tell(self, found: Sequence[Judgement], before: dict[str, Judgement | None]) -> None:
        """Without a terminal: one line for each verdict that is new."""
        for judgement in found:
            old = before[judgement.id]
            if old is None or old.verdict != judgement.verdict or len(found) == 1:
                say(f"{judgement.path}:{judgement.line}: {judgement.id}: {judgement.verdict}")
        sys.stdout.flush()

    def draw(self, *below: RenderableType) -> None:
        """The whole screen, anew: a card, or the koan that was just solved."""
        if not self.drawn:
            return
        self.hands.answering = None
        if self.note is not None:
            below = (*below, self.note)
        state = load(self.workbook.root)
        groups = screen.group_counts(
            list(self.standing.verdicts.values()), self.workbook.book.totals(), state.solved
        )
        here = {koan_id.partition("/")[0] for koan_id in self.standing.ids}
        parts = [screen.path_map([g for g in groups if g.name in here]), Text("")]
        if self.just_solved:
            koan = self.workbook.book.find(self.just_solved)
            assert koan is not None
            parts.append(Text.assemble((words.WATCH_SOLVED, "bold green"), f" {koan.name}"))
            parts += [Padding(Text(koan.why), (0, 0, 0, 2)), Text(""), *below]
            parts.append(Text(words.WATCH_KEYS_SOLVED, style="dim"))
        elif self.current in self.standing.verdicts:
            parts += [self.card(self.current), Text(""), *below]
            parts.append(Text(words.WATCH_KEYS, style="dim"))
        else:
            parts += [Text(words.WATCH_ALL, style="bold green"), *below]
        if self.check is not None:
            parts.append(Text(words.WATCH_CHECKING, style="dim"))
        self.clear()
        paint_stdout(parts)

    def card(self, koan_id: str) -> RenderableType:
        koan = self.workbook.book.find(koan_id)
        assert koan is not None
        judgement = self.standing.verdicts[koan_id]
        return screen.card(judgement, koan, self.workbook.text(koan.key), live=True)

    def clear(self) -> None:
        from rich.console import Console

        Console(file=sys.stdout).clear()
