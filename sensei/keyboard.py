"""The keyboard of the live loop: one key at a time, without waiting. Always put back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.keys import Keys

# What the special keys are called here; a letter is itself, in lower case.
NAMES = {
    str(Keys.ControlM): "enter",
    str(Keys.ControlJ): "enter",
    str(Keys.ControlC): "quit",
    str(Keys.ControlD): "quit",
    str(Keys.Escape): "escape",
}


class Keyboard:
    """Keys as they are pressed. Without a terminal there are none."""

    def __init__(self) -> None:
        self._input: Input | None = create_input() if sys.stdin.isatty() else None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keys come one by one and unseen inside the block; the terminal is put back after it."""
        if self._input is None:
            yield
            return
        with self._input.raw_mode():
            yield

    def at_rest(self) -> AbstractContextManager[None]:
        """For the time of an editor, a pager or a question, the terminal is as it was."""
        return self._input.cooked_mode() if self._input is not None else nullcontext()

    def read(self) -> list[str]:
        """The keys pressed since the last call."""
        if self._input is None or not _ready(self._input):
            return []
        pressed = [*self._input.read_keys(), *self._input.flush_keys()]
        if self._input.closed:  # the terminal is gone
            return ["quit"]
        return [NAMES.get(str(press.key), str(press.key).lower()) for press in pressed]


def _ready(keys: Input) -> bool:
    if sys.platform == "win32":
        return True  # its read_keys never waits
    import select

    return bool(select.select([keys.fileno()], [], [], 0)[0])
