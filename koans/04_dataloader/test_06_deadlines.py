"""Deadlines: programs that wait and wait, and how to be told.

Every koan has a deadline. If yours hangs, it is ended, and you read where it stood."""

import contextlib
import multiprocessing
import os
import pickle
import sys
import threading
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from sensei import __


@contextlib.contextmanager
def held_by_a_thread(lock):
    """For the time of a block, another thread holds the lock: two seconds at most."""
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            let_go.wait(2)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside a thread
        yield
    let_go.set()
    holder.join()


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_a_lock_and_a_fork():
    """Some say that forked workers hang because of CUDA. Here is a lock only.

    Two workers try it: one is forked while it is free, one while a thread of the main process
    holds it for a moment. A real one would wait on and on; this one gives up. What do the two
    report?
    """
    lock = threading.Lock()

    def attempt(batch):
        return "open" if lock.acquire(timeout=0.5) else "closed"

    loader = DataLoader(range(1), collate_fn=attempt, num_workers=1, multiprocessing_context="fork")
    first = list(loader)
    with held_by_a_thread(lock):
        batches = iter(loader)  # this forks
    assert not lock.locked()
    second = list(batches)
    assert [first, second] == __


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_a_worker_in_deep_thought():
    """Two workers read four samples. At sample 2 a worker waits for a signal that does not come;
    after a second the loader gives up.

    Which samples did you get, and which others had been read by then?
    """
    wake_up = multiprocessing.get_context("fork").Event()
    read, got = torch.zeros(4).share_memory_(), []

    def load(samples):
        assert samples != [2] or wake_up.wait(10)
        read[samples] = 1
        return samples

    options = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": 1}
    batches = iter(DataLoader(range(4), collate_fn=load, **options))
    with pytest.raises(RuntimeError, match="timed out"):
        for batch in batches:
            got += batch
    others = [sample for sample in range(4) if read[sample] and sample not in got]
    wake_up.set()
    assert [got, others] == __


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
    """In one of two rounds a thread of the main process holds the dataset's lock when the worker is
    forked.

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
    for holder in (held_by_a_thread(dataset.lock), contextlib.nullcontext()):
        with holder:
            batches = iter(DataLoader(dataset, batch_size=None, timeout=5, **options))
        assert list(batches) == [0, 1, 4]


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_a_lock_after_each_fork():
    """A library does not know who will fork, nor when: a thread may hold its lock then. See to it
    that every forked worker begins with an open lock. This process keeps the one it has.

    Write what the library does once, when it is imported.
    """

    class Library:
        lock = threading.Lock()

    old_lock = Library.lock
    # your turn:
    __
    # end

    def attempt(batch):
        return "open" if Library.lock.acquire(timeout=0.5) else "closed"

    loader = DataLoader(range(1), collate_fn=attempt, num_workers=1, multiprocessing_context="fork")
    for _ in range(2):
        with held_by_a_thread(Library.lock):
            batches = iter(loader)  # this forks
        assert list(batches) == ["open"]
    assert Library.lock is old_lock


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
