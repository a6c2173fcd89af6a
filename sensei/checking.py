"""A check that runs beside the live loop: of some koans, in a process that may be ended.

Where the system forks safely the process is a fork of this one, which has torch and pytest
at hand; elsewhere it is a fresh Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sensei import late
from sensei.silent import judge_silently
from sensei.supervise import FORKS_SAFELY, Child
from sensei.verdict import Judgement

LONGEST = 3600.0  # seconds; each koan has a deadline of its own


class CheckFailed(Exception):
    """The check itself ended without an answer; its text says how."""


class Check(Protocol):
    """A running check."""

    def poll(self) -> list[Judgement] | None:
        """The verdicts once they are there, else None. Raises CheckFailed."""

    def end(self) -> None: ...


def start(root: Path, ids: Sequence[str], options: Sequence[str]) -> Check:
    return Warm(root, ids, options) if FORKS_SAFELY else Cold(root, ids, options)


class Warm:
    """In a fork of this process."""

    def __init__(self, root: Path, ids: Sequence[str], options: Sequence[str]) -> None:
        def serve(_: Any) -> dict[str, Any]:
            with late.new_modules() as modules:
                found = judge_silently(root, ids, options)
            return {"judgements": [j.to_json() for j in found], "modules": modules}

        self._child = Child(serve)
        self._child.put(None, LONGEST)

    def poll(self) -> list[Judgement] | None:
        ended = self._child.poll(0)
        if ended is None:
            return None
        if ended.how != "answered":
            raise CheckFailed(ended.cause or ended.how)
        self.end()
        late.import_quietly(ended.answer["modules"])  # the next fork has them
        return [Judgement.from_json(data) for data in ended.answer["judgements"]]

    def end(self) -> None:
        self._child.end()


class Cold:
    """In a fresh Python."""

    def __init__(self, root: Path, ids: Sequence[str], options: Sequence[str]) -> None:
        program = (
            "import json, sys; from pathlib import Path; from sensei.silent import judge_silently;"
            "root, ids, options = json.loads(sys.argv[1]);"
            "found = judge_silently(Path(root), ids, options);"
            "print('\\n' + json.dumps([j.to_json() for j in found]))"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps([str(root), list(ids), list(options)])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def poll(self) -> list[Judgement] | None:
        try:
            output, _ = self._process.communicate(timeout=0.01)
        except subprocess.TimeoutExpired:
            return None
        if self._process.returncode != 0:
            raise CheckFailed(f"exit status {self._process.returncode}")
        return [Judgement.from_json(data) for data in json.loads(output.splitlines()[-1])]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
