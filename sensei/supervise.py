"""Run a piece of work in a forked child, where it can do no harm.

The child has its own process group and a deadline; its answer comes back through a
pipe. Whatever it does (loop, deadlock, segfault, ``os._exit``, fork children of its
own), the parent gets exactly one :class:`Ended`, on time, and nothing is left running.
Knows nothing of koans or of pytest.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Literal

FORKS_SAFELY = sys.platform == "linux"
GRACE = 2.0  # seconds past the deadline after which a child ends itself, should we be gone
POLL = 0.05  # seconds between two looks whether a silent child is still there
LARGEST_FILE = 64 << 20  # bytes; a loop that prints must not fill the disk before its deadline
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    how: "answered" with the JSON-able ``answer`` of the work; "deadline"; or "died",
        with the name of the signal or its exit status in ``cause``.
    traceback: where its Python code stood, as faulthandler wrote it, if it did not answer.
    """

    how: Literal["answered", "deadline", "died"]
    seconds: float
    answer: Any = None
    cause: str = ""
    traceback: str = ""


def run(work: Callable[[], Any], deadline: float) -> Ended:
    """Fork, run ``work`` in the child, and return how it ended. Linux only.

    ``work`` returns something JSON can hold. ``deadline`` is in seconds. Ctrl-C ends
    the child and what it started, and is raised again here.
    """
    _become_subreaper()
    ours = _children()
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as crash:
        sys.stdout.flush()
        sys.stderr.flush()
        start = time.monotonic()
        gc.freeze()  # or the child's first collection copies every page it shares with us
        pid = _fork()
        if pid == 0:
            os.close(reader)
            _child(work, writer, crash, deadline)  # never returns
        gc.unfreeze()
        os.close(writer)
        try:
            with suppress(ProcessLookupError, PermissionError):
                os.setpgid(pid, pid)  # both sides do it, whoever comes first
            data = _read(reader, pid, start + deadline)
            if data is None:
                _ask_where(pid)
        finally:
            os.close(reader)
            status = _end(pid, ours)
        seconds = time.monotonic() - start
        crash.seek(0)
        traceback = crash.read(200_000).decode(errors="replace")
    if data is None:
        return Ended("deadline", seconds, traceback=traceback)
    if data:
        with suppress(ValueError):
            return Ended("answered", seconds, answer=json.loads(data))
    return Ended("died", seconds, cause=_cause(status), traceback=traceback)


# the child ----------------------------------------------------------------------------------------


def _child(work: Callable[[], Any], writer: int, crash: IO[bytes], deadline: float) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, deadline + GRACE)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _limit_files()
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        faulthandler.enable(crash, all_threads=False)
        faulthandler.register(signal.SIGUSR1, crash, all_threads=True, chain=False)
        answer = json.dumps(work(), default=str).encode() + b"\n"
        sys.stdout.flush()
        sys.stderr.flush()
        while answer:
            answer = answer[os.write(writer, answer) :]
        status = 0
    finally:
        # No atexit, no destructors: they belong to the parent. SystemExit ends here too.
        os._exit(status)


def _limit_files() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft == resource.RLIM_INFINITY or soft > LARGEST_FILE:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, hard))


# the parent ---------------------------------------------------------------------------------------


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12+ warns of each fork beside a thread. The only one here is execnet's,
        # of a pytest-xdist worker; it waits on a pipe and holds no lock the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _read(reader: int, pid: int, end: float) -> bytes | None:
    """The child's one line, or what there is of it when it died; None if it is late.

    The end of the pipe tells nothing: a process that the child left behind holds it open.
    """
    chunks: list[bytes] = []
    while not (chunks and chunks[-1].endswith(b"\n")):
        gone = _is_gone(pid)  # asked first: what a dead child wrote is all there by then
        left = end - time.monotonic()
        ready, _, _ = select.select([reader], [], [], 0 if gone else max(min(left, POLL), 0))
        chunk = os.read(reader, 1 << 16) if ready else b""
        if chunk:
            chunks.append(chunk)
        elif gone:
            break
        if left <= 0:
            return None
    return b"".join(chunks)


def _is_gone(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ask_where(pid: int) -> None:
    """Let the child's faulthandler write where it stands; it works in a native lock, too."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.1)


def _end(pid: int, ours: set[int]) -> int:
    """Kill the child's group and whatever left it; return the child's wait status."""
    status = 0
    with suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
    if _group_lives(pid):
        _end_group(pid)
    # What left the group was handed to us, the subreaper, when its parent died.
    for _ in range(1000):
        strays = _children() - ours - {pid}
        if not strays:
            break
        for stray in strays:
            with suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(stray, 0)
    return status


# Processes that remove semaphores and shared memory once their clients are gone. Killed with
# the rest, they would leave these behind; left alone for a moment, they end by themselves.
CLEANERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")


def _end_group(pid: int) -> None:
    """Kill what is left of a group, and give those that clean up a moment to do it."""
    for member in _group(pid):
        if not _is_cleaner(member):
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
    end = time.monotonic() + GRACE
    while _group_lives(pid) and time.monotonic() < end:
        _reap(pid)
        time.sleep(0.005)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(pid: int) -> None:
    """Bury what was handed to us and has died, or its group would never be empty."""
    with suppress(ChildProcessError):
        while os.waitpid(-pid, os.WNOHANG)[0]:
            pass


def _group(pid: int) -> list[int]:
    """Process ids of a process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.getpgid(int(name)) == pid:
                    found.append(int(name))
    return found


def _is_cleaner(pid: int) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        command = file.read()
        return any(cleaner in command for cleaner in CLEANERS)
    return False


def _children() -> set[int]:
    """Process ids of our living children (all threads of ours)."""
    found: set[int] = set()
    with suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
                found.update(int(pid) for pid in file.read().split())
    return found


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.WEXITSTATUS(status)}"


def _become_subreaper() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# imports that a child paid for --------------------------------------------------------------------


@contextmanager
def new_modules() -> Iterator[list[str]]:
    """Collect the names of installed modules (never a learner's) imported inside the block."""
    before = set(sys.modules)
    found: list[str] = []
    yield found
    for name in sys.modules.keys() - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "site-packages" in file or "dist-packages" in file:
            found.append(name)


def import_quietly(names: list[str]) -> None:
    """Import modules that a child needed, so that the next child finds them here."""
    import importlib

    for name in names:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name not in sys.modules:
                importlib.import_module(name)
