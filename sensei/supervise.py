"""Run a piece of work in a forked child, where it can do no harm.

The child has its own process group and a deadline; its answer comes back through a
pipe. Whatever it does (loop, deadlock, segfault, ``os._exit``, fork children of its
own), the parent gets exactly one :class:`Ended`, on time, and nothing is left running.
Knows nothing of koans or of pytest.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any, Literal

from sensei import processes

FORKS_SAFELY = sys.platform == "linux"
if sys.platform == "linux":
    import resource
GRACE = 2.0  # seconds past the deadline after which a child ends itself, should we be gone
POLL = 0.05  # seconds between two looks whether a silent child is still there
LARGEST_FILE = 64 << 20  # bytes; a loop that prints must not fill the disk before its deadline


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
    start = time.monotonic()
    with Child(lambda _: work()) as child:
        ended = child.ask(None, deadline)
    return replace(ended, seconds=time.monotonic() - start)


class Child:
    """A forked process that answers one question after another, until it fails to. Linux only.

    ``serve`` runs in the child: it gets what :meth:`ask` was given, and returns the answer;
    both must survive JSON. Leaving the ``with`` block ends the child and what it started.
    """

    def __init__(self, serve: Callable[[Any], Any]) -> None:
        processes.become_subreaper()
        self._ours = processes.children()
        theirs, self._questions = os.pipe()
        self._answers, writer = os.pipe()
        self._crash = tempfile.TemporaryFile()
        sys.stdout.flush()
        sys.stderr.flush()
        frozen = gc.get_freeze_count() > 0  # by our own parent, if we are a child ourselves
        gc.freeze()  # or the child's first collection copies every page it shares with us
        self._pid = _fork()
        if self._pid == 0:
            os.close(self._questions)
            os.close(self._answers)
            _child(serve, theirs, writer, self._crash)  # never returns
        if not frozen:
            gc.unfreeze()
        os.close(theirs)
        os.close(writer)
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(self._pid, self._pid)  # both sides do it, whoever comes first
        self.alive = True

    def ask(self, question: Any, deadline: float) -> Ended:
        """Put one question and wait. A child that does not answer in time is ended.

        deadline: in seconds. Raises: RuntimeError if the child has been ended before.
        """
        self.put(question, deadline)
        try:
            while True:
                if ended := self.poll(POLL):
                    return ended
        except BaseException:
            self.end()
            raise

    def put(self, question: Any, deadline: float) -> None:
        """Put one question; :meth:`poll` says when it is answered."""
        if not self.alive:
            raise RuntimeError("this child has ended; start a new one")
        self._start = time.monotonic()
        self._deadline = self._start + deadline
        self._chunks: list[bytes] = []
        with suppress(BrokenPipeError):
            _write(self._questions, [question, deadline])

    def poll(self, wait: float) -> Ended | None:
        """How the last question ended, or None if it has not, within ``wait`` seconds.

        The end of the pipe tells nothing: a process that the child left behind holds it open.
        """
        gone = self._is_gone()  # asked first: what a dead child wrote is all there by then
        left = self._deadline - time.monotonic()
        wait = 0 if gone else max(min(left, wait), 0)
        ready, _, _ = select.select([self._answers], [], [], wait)
        chunk = os.read(self._answers, 1 << 16) if ready else b""
        if chunk:
            self._chunks.append(chunk)
        seconds = time.monotonic() - self._start
        if chunk.endswith(b"\n"):
            with suppress(ValueError):
                return Ended("answered", seconds, answer=json.loads(b"".join(self._chunks)))
        if left <= 0:
            _ask_where(self._pid)
            return Ended("deadline", seconds, traceback=self.end()[1])
        if gone and not chunk:
            status, traceback = self.end()
            return Ended("died", seconds, cause=_cause(status), traceback=traceback)
        return None

    def _is_gone(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> tuple[int, str]:
        """End the child and what it started; return its wait status and where it stood."""
        if not self.alive:
            return 0, ""
        self.alive = False
        os.close(self._questions)
        os.close(self._answers)
        status = processes.end(self._pid, self._ours)
        with self._crash:
            self._crash.seek(0)
            return status, self._crash.read(200_000).decode(errors="replace")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


# the child ----------------------------------------------------------------------------------------


def _child(serve: Callable[[Any], Any], questions: int, answers: int, crash: IO[bytes]) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        processes.die_with_parent()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _limit_files()
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        faulthandler.enable(crash, all_threads=False)
        faulthandler.register(signal.SIGUSR1, crash, all_threads=True, chain=False)
        for line in open(questions, "rb"):
            question, deadline = json.loads(line)
            signal.setitimer(signal.ITIMER_REAL, deadline + GRACE)
            answer = serve(question)
            _tidy_up()
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.stdout.flush()
            sys.stderr.flush()
            _write(answers, answer)
        status = 0
    finally:
        # No atexit, no destructors: they belong to the parent. SystemExit ends here too.
        os._exit(status)


def _tidy_up() -> None:
    """What multiprocessing does at exit: unlink semaphores, remove its folder of sockets."""
    if "multiprocessing.util" in sys.modules:
        import multiprocessing.process
        import multiprocessing.util

        multiprocessing.util._run_finalizers(0)  # type: ignore[attr-defined]  # joins no queue
        folder = multiprocessing.process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _write(pipe: int, value: Any) -> None:
    line = json.dumps(value, default=str).encode() + b"\n"
    while line:
        line = line[os.write(pipe, line) :]


def _limit_files() -> None:
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


def _ask_where(pid: int) -> None:
    """Let the child's faulthandler write where it stands; it works in a native lock, too."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.1)


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.WEXITSTATUS(status)}"
