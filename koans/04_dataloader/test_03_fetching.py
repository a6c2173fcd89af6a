"""Fetching: what is read, when, in which order, and by whom."""

import multiprocessing
import os
import signal

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from sensei import __


class Diary(Dataset):
    """A dataset that notes which samples were read, in the order in which they were."""

    def __init__(self, length):
        self.length, self.reads = length, []

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        self.reads.append(i)
        return i


def test_a_plain_loader():
    """Give a loader its dataset and nothing else. Write how many workers it has, what it fetches
    ahead, and whether it pins memory."""
    loader = DataLoader(range(8))
    found = [loader.num_workers, loader.prefetch_factor, loader.pin_memory]
    assert found == __


def test_when_samples_are_read():
    """The dataset (above) notes each read. How many are there when you have an iterator, and how
    many after its first batch?"""
    data = Diary(8)
    batches = iter(DataLoader(data, batch_size=2))
    counts = [len(data.reads)]
    next(batches)
    counts.append(len(data.reads))
    assert counts == __


def test_the_first_batches():
    """This take() returns the first batch again and again. Repair the marked lines: it returns
    the first n batches, and reads no sample more than that."""

    def take(loader, n):
        # your turn:
        taken = []
        while len(taken) < n:
            taken.append(next(iter(loader)))
        return taken
        # end

    for n, size in ((3, 2), (2, 5)):
        data = Diary(20)
        taken = take(DataLoader(data, batch_size=size), n)
        assert torch.stack(taken).tolist() == torch.arange(n * size).reshape(n, size).tolist()
        assert data.reads == list(range(n * size))


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
    assert refused == __


@pytest.mark.needs(fork=True)
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
    assert counts == __


@pytest.mark.needs(fork=True)
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
    assert next(iter(loader)) == __


@pytest.mark.needs(fork=True)
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
    assert counts == __


@pytest.mark.needs(fork=True)
@pytest.mark.timeout(20)
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
    assert got == __


@pytest.mark.needs(fork=True)
def test_the_price_of_your_own_collate():
    """Some say a collate_fn of your own costs you fragmented memory. See what it costs: inside a
    worker, make one batch in two ways, and ask each whether it lies in shared memory."""

    def ask(samples):
        return [default_collate(samples).is_shared(), torch.stack(samples).is_shared()]

    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    loader = DataLoader([torch.zeros(4)] * 2, batch_size=2, collate_fn=ask, **options)
    assert list(loader)[0] == __


@pytest.mark.needs(fork=True)
@pytest.mark.timeout(20)
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
    assert outcomes == __


def test_read_ahead_yourself():
    """Write a generator that gives the loader's batches in order, and has n more in stock each
    time it gives one, as long as there are any. It reads nothing before it is asked."""

    def ahead(loader, n):
        # your turn:
        __
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
