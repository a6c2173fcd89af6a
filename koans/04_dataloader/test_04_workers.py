"""Workers: who loads, what they repeat, and what never comes back."""

import multiprocessing
import random
import traceback

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as LoaderIter

from sensei import __


def alive():
    return len(multiprocessing.active_children())


@pytest.mark.needs(fork=True)
def test_when_workers_come_and_go(monkeypatch):
    """The loader's iterator has a method _reset, called at the start of each epoch.

    We count the living workers three times: when the loader is made, when _reset begins, and
    after the epoch. Write down the three counts.
    """
    counts = []
    original = LoaderIter._reset

    def spy(*args, **kwargs):
        counts.append(alive())
        original(*args, **kwargs)

    monkeypatch.setattr(LoaderIter, "_reset", spy)
    loader = DataLoader(range(4), num_workers=2, multiprocessing_context="fork")
    counts.append(alive())
    list(loader)
    counts.append(alive())
    assert counts == __


@pytest.mark.needs(fork=True)
def test_who_makes_which_batch():
    """Two workers, three batches of two. collate_fn adds the id of the worker it runs in.

    Write the three batches as they come out, in order.
    """

    def collate(samples):
        worker = get_worker_info()
        return (worker.id if worker else None), samples

    loader = DataLoader(
        range(6), batch_size=2, collate_fn=collate, num_workers=2, multiprocessing_context="fork"
    )
    assert list(loader) == __


@pytest.mark.needs(fork=True)
def test_who_calls_whom_in_a_worker():
    """Some say that a C++ layer, THSDataLoader_next, feeds the workers.

    collate_fn returns the names on the worker's own call stack. Which of the four
    candidates stand there? Write them in the order given.
    """
    candidates = ["THSDataLoader_next", "_next_data", "_worker_loop", "fetch"]

    def stack(samples):
        return [frame.name for frame in traceback.extract_stack()]

    loader = DataLoader(range(1), collate_fn=stack, num_workers=1, multiprocessing_context="fork")
    (names,) = loader
    assert [name for name in candidates if name in names] == __


@pytest.mark.needs(fork=True)
def test_a_stream_and_two_workers():
    """A stream of three numbers, two workers, batches of two. Write all batches, in order."""

    class Stream(IterableDataset):
        def __iter__(self):
            yield from range(3)

    loader = DataLoader(Stream(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert [batch.tolist() for batch in loader] == __


@pytest.mark.needs(fork=True)
def test_share_the_stream():
    """Every number must come exactly once, and every worker must do some of the work.

    It must work without workers too. Repair the marked line.
    """

    class Stream(IterableDataset):
        def __iter__(self):
            # your turn:
            yield from range(10)
            # end

    def tag(number):
        return number, get_worker_info() and get_worker_info().id

    for workers, context in [(0, None), (1, "fork"), (2, "fork")]:
        loader = DataLoader(
            Stream(),
            batch_size=None,
            collate_fn=tag,
            num_workers=workers,
            multiprocessing_context=context,
        )
        tagged = list(loader)
        assert sorted(number for number, _ in tagged) == list(range(10))
        assert len({worker for _, worker in tagged}) == max(workers, 1)


@pytest.mark.needs(fork=True)
def test_which_seed_reaches_a_worker():
    """The worker draws from Python's random. The main process seeds one library at a time.

    Which of the three make the worker repeat its numbers?
    """
    seeds = {"random": random.seed, "numpy": np.random.seed, "torch": torch.manual_seed}

    def draws(seed):
        seed(7)
        loader = DataLoader(
            range(2),
            collate_fn=lambda _: random.random(),
            num_workers=1,
            multiprocessing_context="fork",
        )
        return list(loader)

    repeated = [name for name, seed in seeds.items() if draws(seed) == draws(seed)]
    assert repeated == __


@pytest.mark.needs(fork=True)
def test_two_workers_with_the_same_dice():
    """Two workers draw once from each of four generators.

    Which of the four give both workers the same number?
    """
    dice = {
        "torch": lambda: torch.rand(()).item(),
        "random": random.random,
        "numpy": np.random.random,
        "mine": np.random.default_rng(0).random,
    }
    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    roll = DataLoader(range(2), collate_fn=lambda _: [d() for d in dice.values()], **options)
    first, second = roll
    assert [name for name, a, b in zip(dice, first, second) if a == b] == __


@pytest.mark.needs(fork=True)
def test_dice_of_its_own_for_each_worker():
    """This dataset holds a generator. Give each worker one of its own.

    No two workers and no two epochs may repeat each other, but the same seed in the main
    process must bring the same numbers.
    """

    class Noise:
        rng = np.random.default_rng(0)

        def __len__(self):
            return 4

        def __getitem__(self, i):
            return int(self.rng.integers(1 << 40))

    def init(worker_id):
        # your turn:
        __
        # end

    loader = DataLoader(
        Noise(),
        batch_size=None,
        num_workers=2,
        worker_init_fn=init,
        multiprocessing_context="fork",
    )
    torch.manual_seed(1)
    numbers = [*loader, *loader]
    assert len(set(numbers)) == 8
    torch.manual_seed(1)
    assert [*loader, *loader] == numbers


@pytest.mark.needs(fork=True)
def test_an_error_crosses_over():
    """Both collate functions fail, but in a worker. Which type does the main process raise?

    First for a word that is no number, then for bytes that are no UTF-8.
    """
    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    with pytest.raises(Exception) as caught:
        list(DataLoader(["seven"], collate_fn=lambda words: int(words[0]), **options))
    assert caught.type is __
    with pytest.raises(Exception) as caught:
        list(DataLoader([b"caf\xe9"], collate_fn=lambda words: words[0].decode(), **options))
    assert caught.type is __


@pytest.mark.needs(fork=True)
def test_what_a_worker_writes_down():
    """Two workers write into their dataset: into a list, and into a tensor.

    Predict the lengths they report, and what the main process finds in list and tensor.
    """

    class Diary:
        def __init__(self):
            self.seen, self.marks = [], torch.zeros(4)

        def __getitem__(self, i):
            self.seen.append(i)
            self.marks[i] = 1
            return len(self.seen)

    diary = Diary()
    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    lengths = list(DataLoader(diary, sampler=range(4), batch_size=None, **options))
    found = [lengths, diary.seen, diary.marks.tolist()]
    assert found == __


@pytest.mark.needs(fork=True)
def test_tell_the_workers_the_epoch():
    """The samples depend on the epoch. But these workers stay, and never hear of a new one.

    Repair the marked line.
    """

    class Lessons:
        def __init__(self):
            # your turn:
            self.epoch = torch.zeros((), dtype=torch.int64)
            # end

        def set_epoch(self, epoch):
            self.epoch.fill_(epoch)

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return self.epoch.item()

    lessons = Lessons()
    options = {"num_workers": 1, "multiprocessing_context": "fork", "persistent_workers": True}
    loader = DataLoader(lessons, batch_size=None, **options)
    seen = []
    for epoch in (3, 9, 5):
        lessons.set_epoch(epoch)
        seen += loader
    assert seen == [3, 3, 9, 9, 5, 5]
