"""What `koans watch` costs: ratios of one interleaved run.

    OMP_NUM_THREADS=1 python benchmarks/watch.py [SAVES]

From a save to its verdict under watch, against a cold `pytest FILE` of the same file; the
same with few and with nearly all koans of the file solved; and the memory of the waiting
parent. Nothing here is a test: a ratio on a loaded machine proves little.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from sensei.book import Book  # noqa: E402  (a script of the clone, installed or not)
from sensei.workbook import SETUP, fill, write  # noqa: E402

ENV = {**os.environ, "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
BOOK = Book(REPO / "answers")
CHAPTER = BOOK.chapter("01_tensor/test_03_dtypes.py")
# The koan that is saved again and again, always wrong, and each time in other words.
KOAN = next(k for k in CHAPTER.koans if len(k.slots) == 1 and not k.slots[0].region)


class Desk:
    """A workbook of one file, and a `koans watch` beside it."""

    def __init__(self, root: Path, share: float) -> None:
        self.root = root
        (root / "answers").symlink_to(BOOK.root, target_is_directory=True)
        write(root / "pytest.ini", SETUP)
        others = [k for k in CHAPTER.koans if k.name != KOAN.name]
        self.solved = {k.name: k.answers for k in others[: round(share * len(others))]}
        self.number = 0
        self.save()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sensei", "watch", CHAPTER.key],
            cwd=root, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        for _ in range(1 + len(CHAPTER.koans)):
            self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def save(self) -> None:
        self.number += 1
        said = {**self.solved, KOAN.name: [f"'wrong {self.number}'"]}
        write(self.root / "koans" / CHAPTER.key, fill(CHAPTER, said))

    def watched(self) -> float:
        """Seconds from a save to its verdict."""
        start = time.perf_counter()
        self.save()
        while KOAN.id not in self.line():
            pass
        return time.perf_counter() - start

    def cold(self) -> float:
        """Seconds of a run of pytest on the same file."""
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", f"koans/{CHAPTER.key}"],
            cwd=self.root, env=ENV, capture_output=True,
        )  # fmt: skip
        return time.perf_counter() - start

    def memory(self) -> float:
        """Megabytes that the waiting parent holds."""
        return _resident(self.process.pid)


def _resident(pid: int | str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def desks(*shares: float) -> Iterator[list[Desk]]:
    with tempfile.TemporaryDirectory() as name:
        made = []
        for share in shares:
            root = Path(name) / str(share)
            root.mkdir()
            made.append(Desk(root, share))
        try:
            yield made
        finally:
            for desk in made:
                desk.process.terminate()
                desk.process.wait()


def plain_memory() -> float:
    program = (
        "import torch, pytest; "
        "print([l for l in open('/proc/self/status') if l.startswith('VmRSS')][0].split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENV, capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


def main(saves: int) -> None:
    with desks(0.05, 0.95) as (few, most):
        times: dict[str, list[float]] = {"few": [], "most": [], "cold": []}
        for turn in range(saves + 1):
            found = {"few": few.watched(), "most": most.watched()}
            if turn % 5 == 0:  # a cold run takes as long as many saves
                found["cold"] = few.cold()
            if turn:
                for name, seconds in found.items():
                    times[name].append(seconds)
        a, b, cold = (statistics.median(times[name]) for name in ("few", "most", "cold"))
        print(f"save -> verdict: {a / cold:.2f} x a cold pytest of the file (bound 0.25)")
        print(f"with 95 % solved: {b / a:.2f} x with 5 % (bound 1.10)")
        ratio = few.memory() / plain_memory()
        print(f"memory of the parent: {ratio:.2f} x `import torch, pytest` (bound 1.5)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 50)
