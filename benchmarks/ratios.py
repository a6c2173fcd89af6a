"""Ratios of interleaved runs: what sensei costs beside the work itself.

    OMP_NUM_THREADS=1 python benchmarks/ratios.py [REPEATS [GROUP ...]]

Runs take turns, so that a busy machine slows both sides alike; the median of each side
counts. Nothing here is a test: a ratio on a loaded machine proves little.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from sensei.book import Book  # noqa: E402  (a script of the clone, installed or not)
from sensei.prove import write_setup  # noqa: E402
from sensei.workbook import STATE, fill, write  # noqa: E402

ENV = {**os.environ, "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
BOOK = Book(REPO / "answers")


def command(folder: Path, *arguments: str) -> Callable[[], float]:
    """A run of Python in a folder; calling it returns its wall time in seconds."""

    def run() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=folder, env=ENV, capture_output=True)
        return time.perf_counter() - start

    return run


def cpu(run: Callable[[], float]) -> float:
    """The CPU seconds, user and system, of one run and of all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def interleaved(
    repeats: int, *runs: Callable[[], float], measure: Callable[[Callable[[], float]], float]
) -> list[float]:
    """The median of each run, taken in turns. The first turn only warms the disk."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(repeats + 1):
        for run, found in zip(runs, times):
            value = measure(run)
            if turn:
                found.append(value)
    return [statistics.median(found) for found in times]


def wall(run: Callable[[], float]) -> float:
    return run()


def workbook(folder: Path, group: str, solved: bool) -> None:
    for chapter in BOOK.chapters:
        if chapter.group == group:
            awake = {k.name: k.answers for k in chapter.koans if not k.mark("gpu")}
            write(folder / "koans" / chapter.key, fill(chapter, awake if solved else {}))
    (folder / "answers").symlink_to(BOOK.root, target_is_directory=True)
    write_setup(folder)


# A plain pytest run of the same answers: no plugin of ours, one process. It has run them once
# before, so that what is measured is the answers alone, and the children they start.
PLAIN = """
import os, sys, resource
sys.path.insert(0, {repo!r})
import numpy, torch, pytest
torch.set_num_threads(1)
args = [*{files!r}, "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:sensei.plugin",
        "--import-mode=importlib", "-c", os.devnull, "--rootdir", {root!r}]
def used():
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(sum(resource.getrusage(who)[:2]) for who in both)
class Calls:
    total = 0.0
    def pytest_runtest_protocol(self, item, nextitem):
        self.start = used()
    def pytest_runtest_logfinish(self):
        Calls.total += used() - self.start
pytest.main(args)
Calls.total = 0.0
pytest.main(args, plugins=[Calls()])
print("CPU", Calls.total)
"""

# A learner's run. The modules that koans import late are paid for once a run, and have
# nothing to do with the number of koans: a first run says which, a second has them.
PROBE = """
import json, resource, sys
from pathlib import Path
sys.path.insert(0, {repo!r})
import numpy, torch, pytest
from sensei import judge, late
known = Path("late.json")
if known.exists():
    late.import_quietly(json.loads(known.read_text()))
def used():
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(sum(resource.getrusage(who)[:2]) for who in both)
class Calls:
    total = 0.0
    def pytest_runtest_logstart(self):
        self.start = used()
    def pytest_runtest_logfinish(self):
        Calls.total += used() - self.start
names = []
learn = judge.learn
def noted(modules, learnt):
    names.extend(modules)
    learn(modules, learnt)
judge.learn = noted
pytest.main(["koans/{group}", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
            plugins=[Calls()])
if not known.exists():
    known.write_text(json.dumps(names))
print("CPU", Calls.total)
"""


def supervision_per_koan(group: str, repeats: int) -> tuple[float, float, int]:
    """CPU milliseconds of supervision per solved koan: met for the first time; passed before.

    The third is the number of koans.
    """
    files = [str(BOOK.root / key) for key in BOOK.keys if key.startswith(group)]
    plain = PLAIN.format(repo=str(REPO), files=files, root=str(BOOK.root))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workbook(folder, group, solved=True)
        koans = sum(1 for k in BOOK.koans if k.group == group and not k.mark("gpu"))
        (folder / "probe.py").write_text(PROBE.format(repo=str(REPO), group=group))
        _cpu_line(folder, "probe.py")  # learns the late imports
        new, known = [], []
        for _ in range(repeats):
            shutil.rmtree(folder / "koans" / STATE)
            alone, together = (_cpu_line(folder, "probe.py") for _ in range(2))
            bare = _cpu_line(folder, "-c", plain)
            new.append((alone - bare) / koans * 1000)
            known.append((together - bare) / koans * 1000)
        return statistics.median(new), statistics.median(known), koans


def _cpu_line(folder: Path, *arguments: str) -> float:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=ENV, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("CPU ")]
    if not lines:
        raise RuntimeError(done.stdout + done.stderr)
    return float(lines[0].split()[1])


def main(repeats: int, groups: list[str]) -> None:
    group = "01_tensor"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workbook(folder, group, solved=False)
        base = command(folder, "-c", "import torch, pytest")
        shipped = command(folder, "-m", "pytest", f"koans/{group}", "-p", "no:cacheprovider")
        import_time, as_shipped = interleaved(repeats, base, shipped, measure=wall)
        print(
            f"pytest koans/{group} as shipped: {as_shipped / import_time:.2f} x "
            "`import torch, pytest` (bound 1.5)"
        )
        shutil.rmtree(folder / "koans")
        (folder / "answers").unlink()
        workbook(folder, group, solved=True)
        files = [str(BOOK.root / key) for key in BOOK.keys if key.startswith(group)]
        bare = command(
            folder, "-m", "pytest", *files, "-q", "-p", "no:cacheprovider",
            "-p", "no:sensei.plugin",
            "--import-mode=importlib", "-c", os.devnull, "--rootdir", str(BOOK.root),
        )  # fmt: skip
        here = command(
            folder, "-m", "pytest", "koans", "-q", "--isolate=none", "-p", "no:cacheprovider"
        )
        fork = command(folder, "-m", "pytest", "koans", "-q", "-p", "no:cacheprovider")
        plain, ours, forked = interleaved(repeats, bare, here, fork, measure=cpu)
        print(
            f"solved koans with --isolate=none: {ours / plain:.2f} x bare pytest, CPU (bound 1.10)"
        )
        print(f"solved koans in forks: {forked / plain:.2f} x bare pytest, CPU")
    for group in groups or BOOK.groups:
        new, known, koans = supervision_per_koan(group, max(repeats // 2, 1))
        print(
            f"supervision, {group}, {koans} koans: {known:.1f} ms of CPU per solved koan "
            f"(bound 20); {new:.1f} ms the first time it passes",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5, sys.argv[2:])
