"""Deadlines: programs that wait for ever, and how to be told.

Each koan here has a deadline of its own. If yours hangs, it is ended, and you read where it stood."""

import importlib
import multiprocessing
import os
import pickle
import sys
import threading

import pytest
import torch
from torch.utils.data import DataLoader

from sensei import __


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_a_lock_and_a_fork():
    """Some say that forked workers hang because of CUDA. Here is a lock only.

    Two workers try it: one is forked while it is free, one while it is held for a moment.
    A real one would wait for ever; this one gives up. What do the two report?
    """
    lock = threading.Lock()

    def attempt(batch):
        return "open" if lock.acquire(timeout=0.5) else "closed"

    loader = DataLoader(range(1), collate_fn=attempt, num_workers=1, multiprocessing_context="fork")
    first = list(loader)
    with lock:
        batches = iter(loader)
    second = list(batches)
    assert [first, second] == __


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_a_worker_in_deep_thought():
    """This worker waits for a signal that does not come in time. Which exception ends the wait?"""
    wake_up = multiprocessing.get_context("fork").Event()
    loader = DataLoader(
        range(1),
        collate_fn=lambda batch: wake_up.wait(),
        num_workers=1,
        timeout=0.5,
        multiprocessing_context="fork",
    )
    with pytest.raises(Exception) as caught:
        next(iter(loader))
    wake_up.set()
    assert caught.type is __


@pytest.mark.needs(fork=True)
def test_three_ways_to_go():
    """Three workers: one divides by zero, one calls sys.exit, one os._exit. No timeout is set.

    Write the names of the three exceptions in the main process.
    """
    ends = [lambda batch: 1 / 0, lambda batch: sys.exit(3), lambda batch: os._exit(3)]
    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    names = []
    for end in ends:
        try:
            list(DataLoader(range(1), collate_fn=end, **options))
        except BaseException as error:
            names.append(type(error).__name__)
    assert names == __


def test_a_deadline_for_nobody():
    """A timeout, and no worker. It is not ignored: which exception comes?"""
    with pytest.raises(Exception) as caught:
        list(DataLoader(range(2), timeout=5))
    assert caught.type is __


def test_a_lock_in_the_luggage():
    """A spawned worker gets a pickle of its dataset. This one holds a lock. Name the exception."""
    dataset = {"items": [1, 2, 3], "lock": threading.Lock()}
    with pytest.raises(Exception) as caught:
        pickle.dumps(dataset)
    assert caught.type is __


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_a_lock_for_each_worker():
    """In one of two rounds the main process holds the dataset's lock when the worker is forked.

    Repair the marked line, so that the worker never waits for it.
    """

    class Squares:
        def __init__(self):
            self.lock = threading.Lock()

        def __len__(self):
            return 3

        def __getitem__(self, i):
            with self.lock:
                return i * i

    def init(worker_id):
        # your turn:
        pass
        # end

    dataset = Squares()
    options = {"num_workers": 1, "multiprocessing_context": "fork", "worker_init_fn": init}
    for busy in (True, False):
        if busy:
            dataset.lock.acquire()
        batches = iter(DataLoader(dataset, batch_size=None, timeout=5, **options))
        if busy:
            dataset.lock.release()
        assert list(batches) == [0, 1, 4]


@pytest.mark.slow
def test_start_without_the_lock(tmp_path, monkeypatch):
    """A module's lock is held while the worker starts. In the worker, it must be open.

    Repair the marked line.
    """
    lines = [
        "import threading",
        "lock = threading.Lock()",
        "def square(n):",
        "    assert lock.acquire(timeout=1), 'this lock will never open'",
        "    lock.release()",
        "    return n * n",
    ]
    (tmp_path / "koan_squares.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("koan_squares")
    # your turn:
    method = "fork"
    # end
    context = {"num_workers": 1, "multiprocessing_context": method}
    with module.lock:
        squares = list(DataLoader(range(3), batch_size=None, collate_fn=module.square, **context))
    assert squares == [0, 1, 4]


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_join_before_reading():
    """Two processes each put 100,000 numbers into a queue: a list, and a tensor.

    Nobody reads. What are their exit codes after a while? None means: not ended.
    """
    fork = multiprocessing.get_context("fork")

    def send(cargo):
        line = fork.Queue()
        line.put(cargo)
        line.close()
        line.join_thread()  # at its end, a process does this by itself

    codes = []
    for cargo, patience in [([0.5] * 100_000, 1), (torch.zeros(100_000), 10)]:
        sender = fork.Process(target=send, args=(cargo,))
        sender.start()
        sender.join(patience)
        codes.append(sender.exitcode)
        sender.kill()
        sender.join()
    assert codes == __


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_ask_with_a_deadline():
    """Write ask: it runs work() in a forked process and returns its result.

    If there is none after `seconds`, it returns "late". No process may be left.
    """

    fork = multiprocessing.get_context("fork")

    def ask(work, seconds):
        # your turn:
        __
        # end

    assert ask(os.getpid, 5) not in (os.getpid(), "late")
    assert ask(lambda: [0.5] * 100_000, 5) == [0.5] * 100_000
    assert ask(threading.Event().wait, 0.5) == "late"
    assert multiprocessing.active_children() == []
