"""A child answers, or is ended on time; nothing of it stays. Linux only, as the module is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import pytest

from sensei import late, processes, supervise
from sensei.supervise import Child, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def test_an_answer_comes_back() -> None:
    ended = run(lambda: {"a": [1, None, "é"], "pid": os.getpid()}, 10)
    assert ended.how == "answered" and ended.answer["a"] == [1, None, "é"]
    assert ended.answer["pid"] != os.getpid()


def test_a_long_answer_comes_back_whole() -> None:
    assert run(lambda: "x" * 3_000_000, 10).answer == "x" * 3_000_000


@pytest.mark.parametrize(
    ("work", "cause"),
    [
        (lambda: os._exit(0), "exit status 0"),
        (lambda: os._exit(7), "exit status 7"),
        (lambda: sys.exit(3), "exit status 1"),
        (lambda: 1 / 0, "exit status 1"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
    ],
)
def test_a_death_is_told(work: Any, cause: str) -> None:
    ended = run(work, 10)
    assert (ended.how, ended.cause) == ("died", cause)


def _hang_in_a_native_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def test_a_native_hang_ends_on_time_and_says_where() -> None:
    start = time.monotonic()
    ended = run(_hang_in_a_native_lock, 0.5)
    assert ended.how == "deadline" and "_hang_in_a_native_lock" in ended.traceback
    assert 0.5 <= time.monotonic() - start < 10


def test_one_child_answers_many_questions() -> None:
    with Child(lambda number: [number * 2, os.getpid()]) as child:
        answers = [child.ask(n, 10).answer for n in range(3)]
    assert [value for value, _ in answers] == [0, 2, 4]
    assert len({pid for _, pid in answers}) == 1


def test_a_child_that_failed_is_asked_no_more() -> None:
    with Child(lambda number: number or os._exit(5)) as child:
        assert child.ask(1, 10).answer == 1
        assert child.ask(0, 10).cause == "exit status 5"
        with pytest.raises(RuntimeError, match="start a new one"):
            child.ask(1, 10)


def test_each_question_has_a_deadline_of_its_own() -> None:
    with Child(lambda seconds: time.sleep(seconds)) as child:
        assert child.ask(0.3, 5).how == "answered"
        assert child.ask(0.3, 5).how == "answered"
        assert child.ask(60, 0.3).how == "deadline"


@pytest.mark.parametrize("leave_the_group", [False, True])
def test_what_a_child_started_ends_with_it(leave_the_group: bool) -> None:
    def work() -> int:
        pid = os.fork()
        if pid == 0:
            if leave_the_group:
                os.setsid()
            time.sleep(60)
            os._exit(0)
        return pid

    pid = run(work, 10).answer
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_of_our_own_lives_on() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert run(lambda: 1, 10).answer == 1
        os.kill(pid, 0)
        assert pid in processes.children()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_no_pipe_and_no_file_stays_open() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    run(lambda: 1, 10)
    run(lambda: os._exit(1), 10)
    run(lambda: time.sleep(60), 0.2)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_child_cannot_fill_the_disk(tmp_path: Any) -> None:
    def work() -> None:
        with open(tmp_path / "big", "wb") as file:
            file.truncate(supervise.LARGEST_FILE + 1)

    assert run(work, 10).how == "died"
    assert (tmp_path / "big").stat().st_size <= supervise.LARGEST_FILE


def test_the_sockets_of_multiprocessing_go_too() -> None:
    def work() -> str:
        import multiprocessing.util

        return multiprocessing.util.get_temp_dir()

    assert not os.path.exists(run(work, 10).answer)


def test_imports_of_ours_stop_the_clock_of_a_koan(tmp_path: Any, monkeypatch: Any) -> None:
    """Cut off in the middle, torch could not be imported again in this process."""
    (tmp_path / "takes_its_time.py").write_text("import time\ntime.sleep(0.5)\n")
    monkeypatch.syspath_prepend(tmp_path)
    rang: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        late.import_quietly(["takes_its_time"])
        assert rang == [] and "takes_its_time" in sys.modules
        time.sleep(0.4)
        assert len(rang) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
