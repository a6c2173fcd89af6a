"""How many workers? Measure, and know what you measure.

`pytest --benchmark-only` on this file shows a table of the loaders that are timed here.

Documents: A 1, A 2.3, A 3.4, A 4.4, B 4
"""

import contextlib
import multiprocessing
import os
import threading
import time
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from sensei import answer, koan


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


@koan(
    claims=["A-2.3-05", "A-3.4-17", "A-3.4-21", "B-4-29"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Is num_workers a wish that is granted, or a number that is corrected?",
        "The machine has 64 CPUs. How many of them may this process use?",
        "A warning comes when there are more workers than those. Is 'as many' more?",
    ],
    why=(
        "num_workers is taken as it is, on every machine; 0 is only the default. PyTorch just "
        "warns when there are more workers than CPUs this process may use (sched_getaffinity; "
        "os.cpu_count() counts those of the whole machine). And it is a warning about CPUs: not "
        "about memory, and no rule."
    ),
    wrong={
        "[(1, 0), (2, 0), (2, 1), (2, 1)]": (
            "Some believe the number is cut down to the CPUs there are. You get what you ask for."
        ),
        "[(1, 0), (2, 1), (3, 1), (100, 1)]": (
            "Some say one core must always stay free. PyTorch does not mind when all are in use."
        ),
        "[(1, 0), (2, 0), (3, 0), (100, 1)]": (
            "os.cpu_count() says 64. But this process may not use all of those."
        ),
        "[(0, 0), (0, 0), (0, 0), (0, 0)]": (
            "Some say that a notebook in the cloud is forced to 0 workers. 0 is the default, "
            "everywhere, and no more than that."
        ),
    },
)
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
    assert made == answer([(1, 0), (2, 0), (3, 1), (100, 1)])


@koan(
    claims=["A-3.4-20"],
    see="torch.utils.data.DataLoader",
    hint=[
        "What does the rule give on one core?",
        "The argument has the right type. It is the number that makes no sense.",
    ],
    why=(
        "On one core the rule gives -1: 'num_workers option should be non-negative'. On two it "
        "gives 0: no worker at all, however long your samples take. It knows the cores, "
        "and neither your dataset nor your model."
    ),
    wrong={
        "UserWarning": "Too many workers give a warning. Fewer than none are not accepted.",
        "TypeError": "An int is what it wants. Only, which one?",
        "AssertionError": "The constructor has words for this case.",
        "OSError": "It does not get as far as asking the system for processes.",
    },
)
def test_a_rule_for_every_machine():
    """Some say the best num_workers is min(4, cores - 2), always. Take a small container with one
    core. Which exception do you get?"""
    cores = 1
    with pytest.raises(Exception) as caught:
        DataLoader(range(6), num_workers=min(4, cores - 2))
    assert caught.type is answer(ValueError)


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-15", "B-4-27"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Two numbers multiply to the batches in flight. One of them is fixed here: both workers.",
        "prefetch_factor belongs to each worker. How many batches may each have ahead?",
    ],
    why=(
        "num_workers × prefetch_factor batches are alive before you take the first, and as many "
        "all the time. That, and what the workers' own copies of the dataset come to, is the "
        "memory they cost: no law of 'twice the data', and no matter of free cores."
    ),
    wrong={
        "options = {'num_workers': 2}": (
            "Then prefetch_factor is 2, and there is room that nobody uses."
        ),
        "options = {'num_workers': 1, 'prefetch_factor': 6}": (
            "Six batches, but only one worker is left to load them."
        ),
        "options = {'num_workers': 2, 'prefetch_factor': 24}": (
            "It counts batches, not samples, and for each worker."
        ),
        "options = {'num_workers': 2, 'prefetch_factor': 12}": (
            "Some say workers keep everything twice. Nothing here is kept twice."
        ),
    },
    right=["options = {'prefetch_factor': 3, 'num_workers': 2, 'persistent_workers': False}"],
    at={
        "orders.placed": (
            "Here we count the indices that were drawn: four for each batch in flight. Which two "
            "numbers decide how many batches these are?"
        ),
        "loader = DataLoader(range(100)": (
            "The loader does not take these options. Its message says which one, and why."
        ),
        "loader.num_workers": (
            "Six batches are in flight, as there should be. But both workers were to stay."
        ),
    },
)
def test_room_for_six_batches():
    """Memory ran out: too many batches were in flight. There is room for six, and all of it is
    to be used. Both workers stay.

    Repair the marked line.
    """
    # answer:
    options = {"num_workers": 2, "prefetch_factor": 3}
    # given:
    # options = {"num_workers": 2, "prefetch_factor": 6}
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
@koan(
    claims=["A-1-09"],
    see="torch.utils.data.DataLoader",
    hint=[
        "What is there to do for a worker? And what does it cost to have one?",
        "Six numbers that lie in memory, against starting and ending a process.",
    ],
    why=(
        "Starting and ending workers takes tens of milliseconds, the six numbers take less than "
        "one. Workers pay when a sample takes long; for data in memory they only cost."
    ),
    wrong={
        "2": "Some say more workers are always faster. What is there for them to do?",
        "1": "One process less to start. But one is still more than none.",
    },
)
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
    assert fastest == answer(0)


@pytest.mark.slow
@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-01", "A-3.4-20"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Who waits for a disk or a network needs no core for it.",
        "Six waits: one after another, or two at a time?",
    ],
    why=(
        "Waiting can be done by two at once, on a single core if need be. With 0 workers your "
        "training loop waits for every sample itself; nothing is copied between processes, and "
        "yet it is the slow one. So it is reading that can be the bottleneck; and on two cores "
        "the rule min(4, cores - 2) would have picked the wrong number."
    ),
    wrong={
        "0": (
            "On two cores a well-known rule says so, and some say copying between processes is "
            "always what costs. But who waits all alone?"
        ),
        "1": "A single worker waits exactly as long as you would.",
    },
)
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
    assert min(times, key=times.get) == answer(2)


@pytest.mark.slow
@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-2.2-19", "A-3.4-17"],
    see="multiprocessing.Lock",
    hint=[
        "Two workers help if two samples can be under way at the same moment.",
        "A worker has its own copy of everything. Of a lock, too?",
        "Which of the two locks was made to be seen by several processes?",
    ],
    why=(
        "Each forked worker has its own copy of the threading.Lock, and so nobody else to wait "
        "for: it protects nothing here. Waiting that is independent overlaps. A lock of "
        "multiprocessing is one for all; behind it any number of workers is as fast as one, and "
        "each costs its start. Such locks hide in databases, files, and servers that answer one "
        "request at a time."
    ),
    wrong={
        "['open', 'threading', 'multiprocessing']": (
            "Some say that workers are the answer to every slow reading. Watch where they stand."
        ),
        "['open']": "Both are locks. But one of them each worker has for itself.",
        "[]": "Two workers, two processes: where there is no door, what keeps them apart?",
        "['open', 'multiprocessing']": "Read the two names again. Whom should each keep out?",
    },
)
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
    assert together == answer(["open", "threading"])


@pytest.mark.benchmark(group="num_workers")
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-09", "A-4.4-13"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Every process has a number of its own, and we count the different ones.",
        "When do workers end, if nobody asks them to stay? You have seen it in an earlier file.",
    ],
    why=(
        "Unless they are persistent, workers end with each epoch and new ones are started for "
        "the next: 2 × 3. Under spawn every start imports torch again, a second or so, far more "
        "than the 200 ms that some say. persistent_workers=True pays once."
    ),
    wrong={
        "[2, 2]": "Some think workers live as long as their loader. Most of them do not.",
        "[6, 6]": "One of the two loaders was told to keep its workers.",
        "[3, 1]": "That would be one worker. Here are two.",
        "[2, 6]": "Which of the two starts anew, the one that was told to keep them?",
    },
)
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
    assert started == answer([6, 2])


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-17"],
    see="multiprocessing.Lock",
    hint=[
        "Who needs the lock: the one who waits for the disk, or the one who counts?",
        "Hold it as briefly as you can. But do not leave it out.",
    ],
    why=(
        "A lock protects what is shared, here the counting. The wait needs no protection, and "
        "outside of the lock two workers can do it at the same time."
    ),
    wrong={
        "ask_the_disk(i)\ncount(i)": "They wait side by side now. But both count at once.",
        "with door:\n    ask_the_disk(i)\nwith door:\n    count(i)": (
            "The wait is still behind the door, and so one after another."
        ),
        "with door:\n    count(i)": "Fast, but nobody asked the disk.",
        "with door:\n    count(i)\n    ask_the_disk(i)": "Another order, the same queue.",
    },
    right=[
        "with door:\n    count(i)\nask_the_disk(i)",
        "ask_the_disk(i)\ndoor.acquire()\ncount(i)\ndoor.release()",
    ],
    at={
        "list(loader_of(lambda samples": (
            "A worker did not come to its end. If it failed, its own traceback is in the message."
        ),
        "assert asked_by_two": (
            "For each sample we note whether both workers were at the disk at once. Print it: was "
            "the disk asked, and could the other one come as well?"
        ),
        "assert counted_alone": (
            "Both workers ask the disk at once. But not every sample was counted behind a closed "
            "door."
        ),
    },
)
def test_open_the_door():
    """Two workers do not help here, for each waits behind the door. Repair the marked lines.

    Both must be able to ask the disk at once; only one at a time may count.
    """

    def load(i, door, ask_the_disk, count):
        # answer:
        ask_the_disk(i)
        with door:
            count(i)
        # given:
        # with door:
        #     ask_the_disk(i)
        #     count(i)
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
