"""How many workers? Measure, and know what you measure.

`pytest --benchmark-only` on this file shows a table of the loaders that are timed here."""

import contextlib
import multiprocessing
import os
import threading
import time
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from sensei import __


def loader_of(work, workers, **options):
    """Six samples, each a batch of its own that `work` collates."""
    options["multiprocessing_context"] = "fork" if workers else None
    return DataLoader(range(6), collate_fn=work, num_workers=workers, **options)


def seconds(loader):
    """How long an epoch takes, by the clock on the wall."""
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


def test_ask_for_many_workers(monkeypatch):
    """Some say a cloud machine is forced to 0 workers, others that one core must stay free.

    This machine has 64 CPUs, and our process may use two. For each loader: how many workers
    will it have, and how many warnings came?
    """
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    made = []
    for wish in (1, 2, 3, 100):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = DataLoader(range(6), num_workers=wish)
        made.append((loader.num_workers, len(caught)))
    assert made == __


def test_a_rule_for_every_machine():
    """Some say the best num_workers is min(4, cores - 2), always. Take a small container with one
    core. Which exception do you get?"""
    cores = 1
    with pytest.raises(Exception) as caught:
        DataLoader(range(6), num_workers=min(4, cores - 2))
    assert caught.type is __


@pytest.mark.needs(fork=True)
def test_room_for_six_batches():
    """Memory ran out: too many batches were in flight. There is room for six, and all of it is
    to be used. Both workers stay.

    Repair the marked line.
    """
    # your turn:
    options = {"num_workers": 2, "prefetch_factor": 6}
    # end

    class Orders:
        placed = 0

        def __iter__(self):
            for i in range(100):
                self.placed += 1
                yield i

    orders = Orders()
    options |= {"sampler": orders, "batch_size": 4, "multiprocessing_context": "fork"}
    loader = DataLoader(range(100), collate_fn=list, **options)
    batches = iter(loader)
    assert orders.placed == 6 * 4
    assert loader.num_workers == 2


@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
def test_six_numbers_in_memory(benchmark):
    """The samples are numbers in memory. With how many workers is an epoch fastest: 0, 1 or 2?

    Each is timed three times, in turn. The table shows the loader with two.
    """
    times = {0: [], 1: [], 2: []}
    for _ in range(3):
        for workers in times:
            times[workers].append(seconds(loader_of(torch.tensor, workers)))
    benchmark.pedantic(lambda: seconds(loader_of(torch.tensor, 2)), rounds=2)
    fastest = min(times, key=lambda workers: min(times[workers]))
    assert fastest == __


@pytest.mark.slow
@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
def test_six_slow_answers(benchmark):
    """Each sample waits a while for a disk. How many workers load them fastest: 0, 1 or 2?

    They are started before the clock is. Some say that copying between processes is the
    bottleneck, and never the disk.
    """

    def ask_the_disk(samples):
        time.sleep(0.08)
        return samples

    loaders = {0: loader_of(ask_the_disk, 0)}
    for workers in (1, 2):
        loaders[workers] = loader_of(ask_the_disk, workers, persistent_workers=True)
        list(loaders[workers])
    times = {workers: seconds(loader) for workers, loader in loaders.items()}
    times[2] = min(times[2], benchmark.pedantic(seconds, args=(loaders[2],), rounds=2))
    assert min(times, key=times.get) == __


@pytest.mark.slow
@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
def test_two_workers_at_a_door(benchmark):
    """Two workers, and each sample waits for a disk, behind a door. One is open; two have a lock,
    like a file that only one may read at a time. Behind which doors were both at once?

    They note when they come and go; we look for two stays that overlap.
    """
    fork = multiprocessing.get_context("fork")
    doors = {"open": contextlib.nullcontext()}
    doors |= {"threading": threading.Lock(), "multiprocessing": fork.Lock()}

    def stays(door):
        both_are_here = fork.Barrier(2)

        def visit(samples):
            with door:
                came = time.monotonic()
                time.sleep(0.06)
                return came, time.monotonic()

        return sorted(loader_of(visit, 2, worker_init_fn=lambda _: both_are_here.wait()))

    together = []
    for name, door in doors.items():
        visits = stays(door)
        if any(late[0] < early[1] for early, late in zip(visits, visits[1:])):
            together.append(name)
    benchmark.pedantic(stays, args=(doors["multiprocessing"],), rounds=1)
    assert together == __


@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
def test_three_epochs_of_processes(benchmark):
    """Two workers, three epochs. How many processes are started in all?

    First by an ordinary loader, then with persistent_workers=True.
    """
    started = []
    for stay in (False, True):
        options = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": stay}
        loader = DataLoader(range(4), collate_fn=lambda _: os.getpid(), **options)
        started.append(len({pid for _ in range(3) for pid in loader}))
    benchmark.pedantic(list, args=(loader,), rounds=3)
    assert started == __


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
def test_open_the_door():
    """Two workers do not help here, for each waits behind the door. Repair the marked lines.

    Both must be able to ask the disk at once; only one at a time may count.
    """

    def load(i, door, ask_the_disk, count):
        # your turn:
        with door:
            ask_the_disk(i)
            count(i)
        # end

    def an_epoch():
        fork = multiprocessing.get_context("fork")
        door, two = fork.Lock(), fork.Barrier(2)
        asked_by_two, counted_alone = torch.zeros(2, 6).share_memory_()

        def ask_the_disk(i):
            with contextlib.suppress(threading.BrokenBarrierError):
                two.wait(5)  # until the other worker asks as well
                asked_by_two[i] = 1

        def count(i):
            counted_alone[i] = not door.acquire(block=False)  # is it closed?

        list(loader_of(lambda samples: load(samples[0], door, ask_the_disk, count), 2))
        return asked_by_two.tolist(), counted_alone.tolist()

    asked_by_two, counted_alone = an_epoch()
    assert asked_by_two == [1] * 6
    assert counted_alone == [1] * 6
