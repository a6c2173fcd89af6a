"""Fetching: what is read, when, in which order, and by whom.

Documents: A 2.2, A 3.4, A 3.5
"""

import multiprocessing
import os
import signal

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from sensei import answer, koan


class Diary(Dataset):
    """A dataset that notes which samples were read, in the order in which they were."""

    def __init__(self, length):
        self.length, self.reads = length, []

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        self.reads.append(i)
        return i


@koan(
    claims=["A-3.4-02", "A-3.5-04"],
    see="torch.utils.data.DataLoader",
    hint=[
        "You named nothing but the dataset. How much machinery do you expect?",
        "Ahead of whom could a loader fetch, and who would do it?",
    ],
    why=(
        "A plain loader is an ordinary loop in your own process. Workers, fetching ahead "
        "and pinned memory come only on request. (And what pins is called pin_memory; "
        "pin_memory_batch is a name of old.)"
    ),
    wrong={
        "[2, 2, False]": "Some say a loader is many processes by nature. It is, once you ask.",
        "[0, 2, False]": "Two is what each process fetches ahead. There is nobody to do it.",
        "[0, None, True]": "Some say the loop pins its batches. Nobody asked for that.",
        "[1, 2, True]": "This would cost you a process and memory that you did not order.",
    },
)
def test_a_plain_loader():
    """Give a loader its dataset and nothing else. Write how many workers it has, what it fetches
    ahead, and whether it pins memory."""
    loader = DataLoader(range(8))
    found = [loader.num_workers, loader.prefetch_factor, loader.pin_memory]
    assert found == answer([0, None, False])


@koan(
    claims=["A-2.2-15"],
    see="torch.utils.data.DataLoader",
    hint=[
        "No worker, no background. Who would read before you ask?",
        "How many samples does one batch need?",
    ],
    why=(
        "Without workers nothing runs ahead. While you train on one batch, the next one is not "
        "being read; the reading comes on top, step by step."
    ),
    wrong={
        "[4, 6]": "So would one worker with two batches in stock. Here there is no worker.",
        "[2, 4]": "One batch ahead would be nice. But somebody would have to do it.",
        "[0, 8]": "The first batch needs only a part of them.",
        "[8, 8]": "A dataset is not read into memory. It is asked, sample by sample.",
    },
)
def test_when_samples_are_read():
    """The dataset (above) notes each read. How many are there when you have an iterator, and how
    many after its first batch?"""
    data = Diary(8)
    batches = iter(DataLoader(data, batch_size=2))
    counts = [len(data.reads)]
    next(batches)
    counts.append(len(data.reads))
    assert counts == answer([0, 2])


@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "A loader is no iterator. What does iter() do each time?",
        "Make one iterator, and ask it n times.",
        "The last check counts the reads. Do not read what you do not need.",
    ],
    why=(
        "Each iter(loader) starts an epoch from the front, with a new shuffle. So keep the "
        "iterator that you have. next(iter(loader)) is fine for a look at one batch, and for no "
        "more."
    ),
    wrong={
        "return [next(iter(loader)) for _ in range(n)]": "Still a new iterator for each batch.",
        "return list(loader)[:n]": "The right batches. But all the others were read as well.",
        "return [batch for batch, _ in zip(loader, range(n))]": (
            "zip asks the loader first. It reads one more batch before it sees that it is over."
        ),
        "batches = iter(loader)\nreturn [next(batches)] * n": "That is one batch, n times.",
    },
    right=[
        "from itertools import islice\nreturn list(islice(loader, n))",
        "return [batch for _, batch in zip(range(n), loader)]",
        "taken = []\n"
        "for batch in loader:\n"
        "    taken.append(batch)\n"
        "    if len(taken) == n:\n"
        "        break\n"
        "return taken",
    ],
    at={
        "torch.stack(taken)": (
            "Here take() should have given the first n batches, in order. Print n and `taken` "
            "side by side."
        ),
        "data.reads ==": (
            "The batches are right. But the samples that were read are not just theirs: print "
            "`data.reads`."
        ),
    },
)
def test_the_first_batches():
    """This take() returns the first batch again and again. Repair the marked lines: it returns
    the first n batches, and reads no sample more than that."""

    def take(loader, n):
        # answer:
        batches = iter(loader)
        return [next(batches) for _ in range(n)]
        # given:
        # taken = []
        # while len(taken) < n:
        #     taken.append(next(iter(loader)))
        # return taken
        # end

    for n, size in ((3, 2), (2, 5)):
        data = Diary(20)
        taken = take(DataLoader(data, batch_size=size), n)
        assert torch.stack(taken).tolist() == torch.arange(n * size).reshape(n, size).tolist()
        assert data.reads == list(range(n * size))


@koan(
    claims=["A-2.2-15"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Which of them mean nothing without a worker?",
        "Five mean nothing without one. Two of these five slip through the door all the same.",
        "One of the two is never called. The other is a number of seconds, and found out later.",
    ],
    why=(
        "A stock for each worker, a longer life for workers, a way to start them: without workers "
        "the constructor refuses these with a ValueError. timeout needs workers too, but only "
        "iter() looks at it. worker_init_fn is just never called."
    ),
    wrong={
        "[]": "What you asked for and cannot get, PyTorch likes to tell you.",
        '["prefetch_factor", "timeout", "persistent_workers", "multiprocessing_context"]': (
            "All of them need a worker. But the loader was only built, not iterated."
        ),
        '["prefetch_factor", "persistent_workers"]': "How would you start nobody?",
        '["prefetch_factor"]': "It is not the only one that speaks of workers.",
    },
)
def test_options_that_need_a_worker():
    """Build six loaders without workers, each with one option. Write the names of the options
    that the constructor refuses, as a list, in order."""
    options = {"prefetch_factor": 2, "timeout": 5, "pin_memory": True, "persistent_workers": True}
    options |= {"worker_init_fn": print, "multiprocessing_context": "spawn"}
    refused = []
    for name, value in options.items():
        try:
            DataLoader(range(8), **{name: value})
        except Exception:
            refused.append(name)
    assert refused == answer(["prefetch_factor", "persistent_workers", "multiprocessing_context"])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-2.2-16"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Who has the workers: the loader, or its iterator?",
        "If workers outlive an epoch, somebody must keep them. What does iter() return then?",
    ],
    why=(
        "The iterator starts the workers and owns them, so two iterators have two sets. With "
        "persistent workers the loader keeps one iterator, and each iter(loader) is that one, set "
        "back to the start. So do not nest two loops over such a loader."
    ),
    wrong={
        "[1, 1]": "A loader starts nobody. So there is nothing that two iterators could share.",
        "[2, 2]": "What is to stay alive between two epochs cannot belong to one of them.",
        "[0, 0]": "Some say a process starts with the first batch. It starts with iter().",
        "[0, 1]": "The first loader has a worker for whoever iterates, too.",
    },
)
def test_two_iterators_over_one_loader():
    """Ask a loader with one worker for two iterators at the same time, and count the child
    processes. Then do so with a loader whose workers are persistent."""
    counts = []
    for persistent in (False, True):
        options = {"multiprocessing_context": "fork", "persistent_workers": persistent}
        loader = DataLoader(range(8), num_workers=1, **options)
        first, second = iter(loader), iter(loader)
        assert type(first).__name__ == "_MultiProcessingDataLoaderIter"
        counts.append(len(multiprocessing.active_children()))
        del first, second, loader  # this ends the workers
    assert counts == answer([2, 1])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-03"],
    see="torch.utils.data.get_worker_info",
    hint=[
        "Somebody must decide who reads what, before anybody reads.",
        "Would you rather send ten samples through a pipe, or one finished batch?",
    ],
    why=(
        "Your process draws the indices and puts the batches in order. The worker has a copy of "
        "the dataset and of collate_fn, and does the work. What comes back is a finished batch. "
        "So a slow collate_fn is spread over the workers, too."
    ),
    wrong={
        '["main", "worker", "main"]': (
            "Some say the main process holds collate_fn. It does; but who needs it, and where?"
        ),
        '["worker", "worker", "worker"]': "Two workers would then have to agree on who reads what.",
        '["main", "main", "main"]': "So it is without workers. Here there is one.",
    },
)
def test_where_the_work_is_done():
    """The sampler, the dataset and collate_fn each note where they run: in the main process or in
    a worker. Write the three notes."""

    def where():
        return "worker" if get_worker_info() else "main"

    class Place(Dataset):
        def __getitem__(self, note):
            return [note, where()]

    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    sampler = (where() for _ in range(1))
    loader = DataLoader(Place(), sampler=sampler, collate_fn=lambda b: [*b[0], where()], **options)
    assert next(iter(loader)) == answer(["main", "worker", "worker"])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-2.2-15"],
    see="torch.utils.data.DataLoader",
    hint=[
        "By default each worker has two batches in hand, ready or in the making.",
        "You take one batch away. What does the loader do about the stock?",
        "Two workers, two batches each, three samples a batch.",
    ],
    why=(
        "iter() gives each worker prefetch_factor batches to do, 2 by default: 2 x 2 x 3 indices. "
        "Each batch that you take is replaced by one more. So the stock never grows: a slow "
        "training loop stops the workers, not the memory."
    ),
    wrong={
        "[0, 3]": "So it is without workers. These start when you ask for an iterator.",
        "[6, 9]": "prefetch_factor counts for each worker, not for all together.",
        "[12, 12]": "What you take out is filled up at once.",
        "[100, 100]": "They do not run as far ahead as they can. The stock has a limit.",
        "[4, 5]": "It is counted in batches. The sampler counts samples.",
    },
)
def test_how_far_workers_run_ahead():
    """This sampler notes each index that the loader draws for its workers.

    How many has it drawn when you have an iterator, and how many after the first batch?
    """
    drawn = []
    sampler = (drawn.append(i) or i for i in range(100))
    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    batches = iter(DataLoader(range(100), batch_size=3, sampler=sampler, **options))
    counts = [len(drawn)]
    next(batches)
    counts.append(len(drawn))
    del batches  # this ends the workers
    assert counts == answer([12, 15])


@pytest.mark.needs(fork=True)
@pytest.mark.timeout(20)
@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "The loader deals out all four before you get one: 0, 1, 0, 1. To whom goes sample 2?",
        "A worker does what it was given, one thing after another.",
    ],
    why=(
        "You got what was ready. But sample 2 waited in the line of the slow worker, and nobody "
        "takes dealt work away again. By default (in_order=True) the loader keeps what arrives too "
        "early, so results do not depend on speed: here it would have waited for 0 first."
    ),
    wrong={
        "[0, 1, 2, 3]": "So it is by default. This loader was told not to care.",
        "[1, 2, 3, 0]": "Sample 2 is not taken by whoever is free. It was dealt out before.",
        "[1, 2, 0, 3]": "Sample 2 is not taken by whoever is free. It was dealt out before.",
        "[1, 0, 2, 3]": "The wait ends only after two samples.",
        "[1, 3, 2, 0]": "One worker has both 0 and 2. Can it begin with the second?",
    },
)
def test_a_slow_first_sample():
    """in_order=False: two workers, and you take what is ready. But sample 0 keeps its worker busy
    until you have two others.

    In which order do you get the four samples?
    """
    go = multiprocessing.get_context("fork").Event()

    class Uneven(Dataset):
        def __getitem__(self, i):
            assert i != 0 or go.wait(10)
            return i

    got, options = [], {"num_workers": 2, "multiprocessing_context": "fork", "in_order": False}
    for batch in DataLoader(Uneven(), sampler=range(4), **options):
        got.append(batch.item())
        if len(got) == 2:
            go.set()
    assert got == answer([1, 3, 0, 2])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-27"],
    see="torch.Tensor.is_shared",
    hint=[
        "A batch must get from the worker to you. Through which memory?",
        "Who of the two knows that it runs in a worker?",
    ],
    why=(
        "In a worker, default_collate stacks straight into shared memory. A tensor that you made "
        "is copied there when it is sent: one copy more. Either way it is one piece of memory; "
        "what padding costs is the padding, and shapes that change from batch to batch."
    ),
    wrong={
        "[True, True]": "torch.stack does what it always does. It takes ordinary memory.",
        "[False, False]": "One of them looks whether it is in a worker, and prepares the journey.",
        "[False, True]": "Which of the two was written for the loader?",
    },
)
def test_the_price_of_your_own_collate():
    """Some say a collate_fn of your own costs you fragmented memory. See what it costs: inside a
    worker, make one batch in two ways, and ask each whether it lies in shared memory."""

    def ask(samples):
        return [default_collate(samples).is_shared(), torch.stack(samples).is_shared()]

    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    loader = DataLoader([torch.zeros(4)] * 2, batch_size=2, collate_fn=ask, **options)
    assert list(loader)[0] == answer([True, False])


@pytest.mark.needs(fork=True)
@pytest.mark.timeout(20)
@koan(
    claims=["A-3.4-19", "A-3.4-18"],
    see="torch.utils.data.DataLoader",
    hint=[
        "The first batch was in the hands of the killed one. Can the epoch be complete without it?",
        "Within an epoch nobody replaces a worker. And what does iter() do at the next one?",
    ],
    why=(
        "A killed worker ends the epoch: 'DataLoader worker (pid ...) exited unexpectedly'. "
        "Nothing goes on slower, nothing is skipped. So an epoch that was finished and timed had "
        "no killed worker. The loader itself is unharmed: the next iter() starts new workers."
    ),
    wrong={
        "[7, 8]": (
            "Some say the others carry on, and the GPU just has less to do. Then a batch would be "
            "missing, and nobody would know."
        ),
        "[8, 8]": "A worker that died is not replaced, and its work is not given to another one.",
        "[RuntimeError, RuntimeError]": "A worker broke, not the loader. Who starts the workers?",
        "[ChildProcessError, 8]": "Natural. But the loader reports it as a failure of its own.",
        "[KeyboardInterrupt, 8]": "Nobody interrupted you. It was the worker that got a signal.",
    },
)
def test_a_worker_is_killed():
    """When memory runs out, the system kills a process. In the first epoch one of two workers is
    killed, with the first batch in its hands. In the second epoch nobody is.

    What comes of each epoch: how many batches, or which exception?
    """

    def collate(samples):
        if samples == [0] and epoch == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    options, outcomes = {"num_workers": 2, "multiprocessing_context": "fork"}, []
    loader = DataLoader(range(8), collate_fn=collate, **options)
    for epoch in (1, 2):
        try:
            outcomes.append(len(list(loader)))
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes == answer([RuntimeError, 8])


@koan(
    claims=["A-2.2-15"],
    see="torch.utils.data.DataLoader",
    hint=[
        "A generator: it yields a batch now and then, and does its own work in between.",
        "Keep a line of batches. Read until there is one more in it than n, then give the oldest.",
        "The loader is at its end. Is the line empty, too?",
    ],
    why=(
        "This is what the loader does with its workers, without the workers: a stock of constant "
        "size, oldest first. With n=1 and an asynchronous copy to the GPU in the loop, it is "
        "the prefetcher that people write by hand."
    ),
    wrong={
        "yield from loader": "Nothing is read ahead.",
        "yield from list(loader)": "Everything is read ahead. The memory may not be that large.",
        "line = []\n"
        "for batch in loader:\n"
        "    line.append(batch)\n"
        "    if len(line) > n:\n"
        "        yield line.pop(0)": "What is still in the line at the end never comes.",
        "line = []\n"
        "for batch in loader:\n"
        "    line.append(batch)\n"
        "    if len(line) > n:\n"
        "        yield line.pop()\n"
        "yield from line": "The order: whoever came first must leave first.",
        "line = []\n"
        "for batch in loader:\n"
        "    line.append(batch)\n"
        "    if len(line) > n:\n"
        "        yield from line\n"
        "        line = []\n"
        "yield from line": "The stock must be filled up after each batch, not when it is empty.",
    },
    right=[
        "from itertools import islice\n"
        "batches = iter(loader)\n"
        "line = list(islice(batches, n))\n"
        "for batch in batches:\n"
        "    line.append(batch)\n"
        "    yield line.pop(0)\n"
        "yield from line",
        "batches = iter(loader)\n"
        "line = [b for _, b in zip(range(n + 1), batches)]\n"
        "while line:\n"
        "    yield line.pop(0)\n"
        "    line += [b for _, b in zip(range(1), batches)]",
    ],
    at={
        "for batch in batches": (
            "This line walks through what ahead() returns, and it cannot. Print the type of it."
        ),
        "== expected": (
            "We counted the reads: before you were asked, at each batch, at the end. Print n, "
            "`counts` and `expected` side by side."
        ),
        "got == list": (
            "The reads are right for this n. But what came out is not what the loader gives, in "
            "its order: print `got`."
        ),
    },
)
def test_read_ahead_yourself():
    """Write a generator that gives the loader's batches in order, and has n more in stock each
    time it gives one, as long as there are any. It reads nothing before it is asked."""

    def ahead(loader, n):
        # answer:
        from collections import deque

        line = deque()
        for batch in loader:
            line.append(batch)
            if len(line) > n:
                yield line.popleft()
        yield from line
        # end

    for n, expected in ((0, [0, 2, 4, 6, 7, 7]), (2, [0, 6, 7, 7, 7, 7]), (9, [0, *[7] * 5])):
        data = Diary(7)
        batches = ahead(DataLoader(data, batch_size=2), n)
        counts, got = [len(data.reads)], []
        for batch in batches:
            counts.append(len(data.reads))
            got += batch.tolist()
        assert [*counts, len(data.reads)] == expected
        assert got == list(range(7))
