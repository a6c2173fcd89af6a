"""Workers: who loads, what they repeat, and what never comes back.

Documents: A 3.4, A 3.5, B 4
"""

import multiprocessing
import random
import traceback

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as LoaderIter

from sensei import answer, koan


def alive():
    return len(multiprocessing.active_children())


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-08", "A-3.4-09"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Three moments: the loader has been made; _reset begins; the epoch is over.",
        "A process costs time. A loader that nobody iterates should not have to pay for it.",
        "Who can be asked to prefetch: a process that will start soon, or one that runs?",
    ],
    why=(
        "A DataLoader is only a recipe. iter() builds the iterator, whose __init__ starts exactly "
        "num_workers processes and then calls _reset, which deals out the first indices. "
        "When the epoch is over, the workers end."
    ),
    wrong={
        "[0, 0, 0]": (
            "Some say _reset starts them. But it sends them work at once, so what must be there?"
        ),
        "[2, 2, 0]": "num_workers is only written down at first. Nobody has asked for data yet.",
        "[0, 2, 2]": "So it would be with persistent_workers=True, which is not the default.",
        "[0, 1, 0]": "They do start one after another, but no work is dealt out in between.",
    },
)
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
    assert counts == answer([0, 2, 0])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-04", "B-4-24"],
    see="torch.utils.data.get_worker_info",
    hint=[
        "collate_fn sees a whole batch. In which process does it run, and what is its id there?",
        "The main process deals. Does it deal single samples, or whole batches?",
    ],
    why=(
        "The main process only deals lists of indices, one whole batch to each worker in turn. "
        "The worker fetches AND collates, so a finished batch travels back; and the batches come "
        "out in order, whoever was faster. In the main process get_worker_info() gives None."
    ),
    wrong={
        "[(None, [0, 1]), (None, [2, 3]), (None, [4, 5])]": (
            "So it would be if workers sent samples and the main process put them together."
        ),
        "[(0, [0, 2]), (1, [1, 3]), (0, [4, 5])]": (
            "Single samples are not dealt out in turn. A batch is never split."
        ),
        "[(0, [0, 1]), (0, [2, 3]), (1, [4, 5])]": (
            "Nobody is given half of the data in one piece. Think of dealing cards."
        ),
        "[(0, [0, 1]), (1, [2, 3]), (1, [4, 5])]": (
            "Worker 1 is not given more because it was last. It goes round."
        ),
    },
)
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
    assert list(loader) == answer([(0, [0, 1]), (1, [2, 3]), (0, [4, 5])])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.5-03"],
    see="traceback.extract_stack",
    hint=[
        "extract_stack names the Python functions that led here. C++ leaves no name in it.",
        "Two of these names are real and belong to this side. One belongs to the side that waits.",
    ],
    why=(
        "A worker is plain Python: _worker_loop gets a list of indices from its queue, calls the "
        "fetcher, and puts the batch into the other queue. _next_data is the main process waiting. "
        "THSDataLoader_next does not exist; no C++ loader stands behind it all."
    ),
    wrong={
        "['THSDataLoader_next']": (
            "Some say that workers call this C++ function. Search torch for it: nothing."
        ),
        "[]": "So it would look if the loop were compiled. Have you seen _utils/worker.py?",
        "['_next_data', 'fetch']": (
            "That is the stack of a loader without workers: the main process fetches itself."
        ),
        "['_next_data', '_worker_loop', 'fetch']": (
            "The main process and the worker have a stack each. They are linked by queues only."
        ),
    },
)
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
    assert [name for name in candidates if name in names] == answer(["_worker_loop", "fetch"])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-04"],
    see="torch.utils.data.IterableDataset",
    hint=[
        "There are no indices here, so nothing can be dealt out. What does each worker have?",
        "Each worker calls iter() on its own dataset, and makes batches of what comes.",
        "The loader takes one batch from each worker in turn.",
    ],
    why=(
        "An iterable dataset has no indices to deal. Each worker iterates its own copy from "
        "beginning to end, so everything comes once per worker. Nobody warns you."
    ),
    wrong={
        "[[0, 1], [2]]": "Some believe that the loader splits the stream. How could it, unseen?",
        "[[0, 1], [2], [0, 1], [2]]": "The right batches, but the workers take turns.",
        "[[0, 1], [2, 0], [1, 2]]": "The two streams are never joined: a batch has one worker.",
        "[[0, 2], [1]]": "That is fair sharing, and somebody would have to write it.",
    },
)
def test_a_stream_and_two_workers():
    """A stream of three numbers, two workers, batches of two. Write all batches, in order."""

    class Stream(IterableDataset):
        def __iter__(self):
            yield from range(3)

    loader = DataLoader(Stream(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert [batch.tolist() for batch in loader] == answer([[0, 1], [0, 1], [2], [2]])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-04"],
    see="torch.utils.data.get_worker_info",
    hint=[
        "get_worker_info() knows this worker's id and how many there are.",
        "Every worker walks over the whole stream. It need not yield all of it.",
        "And what does get_worker_info() say when there is no worker? The first loader has none.",
    ],
    why=(
        "Worker k of n takes every n-th number, beginning with k. Without workers the info is "
        "None, so the whole stream is yours. Dealing by turns also keeps the order."
    ),
    wrong={
        "info = get_worker_info()\nyield from range(info.id, 10, info.num_workers)": (
            "Right in a worker. But the first of these loaders has none, and no info."
        ),
        "info = get_worker_info()\nif info is None or info.id == 0:\n    yield from range(10)": (
            "No number comes twice. But the other workers were started for nothing."
        ),
        "yield from range(get_worker_info().id if get_worker_info() else 0, 10)": (
            "Each worker starts at another number, yet most numbers still come several times."
        ),
        "yield from range(5)": "Half the stream twice is not the whole stream.",
    },
    right=[
        "info = get_worker_info()\nif info is None:\n    yield from range(10)\n"
        "else:\n    yield from range(info.id, 10, info.num_workers)",
        "info = get_worker_info()\nfor n in range(10):\n"
        "    if info is None or n % info.num_workers == info.id:\n        yield n",
    ],
    at={
        "tagged = list(loader)": (
            "The loader could not read your stream to its end. If a worker failed, its own "
            "traceback is in the message."
        ),
        "sorted(number for number, _ in tagged)": (
            "Each number should come once: without a worker, with one, with two. Print `workers` "
            "and `tagged`: which number comes too often, or never?"
        ),
        "worker for _, worker in tagged": (
            "Each number comes once. But not every worker had a part in it: print `tagged`."
        ),
    },
)
def test_share_the_stream():
    """Every number must come exactly once, and every worker must do some of the work.

    It must work without workers too. Repair the marked line.
    """

    class Stream(IterableDataset):
        def __iter__(self):
            # answer:
            info = get_worker_info()
            start, step = (info.id, info.num_workers) if info else (0, 1)
            yield from range(start, 10, step)
            # given:
            # yield from range(10)
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
@koan(
    claims=["A-3.4-04"],
    see="torch.utils.data.DataLoader",
    hint=[
        "A worker starts as a copy of the main process. Does it keep the state of its generators?",
        "Each worker is seeded anew when it starts. Where does that seed come from?",
        "The loader draws one number per epoch, in the main process. With whose generator?",
    ],
    why=(
        "At iter() the loader draws a base seed with torch, from its generator= or the global one. "
        "Worker k seeds torch, random and numpy from base seed and k. So torch.manual_seed in "
        "the main process rules even random.random() in a worker, and the other two rule nothing."
    ),
    wrong={
        "['random']": (
            "Natural: the worker draws from random. But it was seeded again after it started."
        ),
        "['random', 'torch']": "Under fork the state of random is copied, and then overwritten.",
        "['random', 'numpy', 'torch']": "Each is seeded in the worker, but from one source only.",
        "[]": "The workers are not beyond control. One number comes to them from the main process.",
    },
)
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
    assert repeated == answer(["torch"])


@pytest.mark.needs(fork=True)
@koan(
    see="torch.utils.data.get_worker_info",
    hint=[
        "Each worker seeds three global generators when it starts, each in its own way.",
        "Who would seed a generator that PyTorch does not know of?",
    ],
    why=(
        "The global generators of torch, random and (since 1.9) numpy are seeded per worker. "
        "A generator of your own is copied with everything else, state and all: each worker, and "
        "each epoch, gets the same 'random' augmentation."
    ),
    wrong={
        "['numpy']": (
            "True before PyTorch 1.9, and still told. The cure people chose is worse: look again."
        ),
        "['random', 'numpy', 'mine']": (
            "All are copied, that is right. But three of them are then given a seed of their own."
        ),
        "[]": "Each worker is seeded, yes. But who knows about every generator?",
        "['numpy', 'mine']": "Of these two, one is a global that the worker knows about.",
    },
)
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
    assert [name for name, a, b in zip(dice, first, second) if a == b] == answer(["mine"])


@pytest.mark.needs(fork=True)
@koan(
    see="torch.utils.data.get_worker_info",
    hint=[
        "worker_init_fn runs in the worker, once its seeds are set. Where is the worker's dataset?",
        "It needs a number that differs from worker to worker and from epoch to epoch.",
        "And that comes back after the same torch.manual_seed. The worker's info holds one.",
    ],
    why=(
        "get_worker_info() gives you the worker's own dataset and its seed: base seed plus id, "
        "new in every epoch and repeatable. torch.initial_seed() is the same number."
    ),
    wrong={
        "get_worker_info().dataset.rng = np.random.default_rng(worker_id)": (
            "The workers differ now. But each epoch starts with the same numbers again."
        ),
        "get_worker_info().dataset.rng = np.random.default_rng()": (
            "Always new, and so nobody can repeat your experiment."
        ),
        "np.random.seed(get_worker_info().seed % 2**32)": (
            "This seeds numpy's global generator. The dataset never asks that one."
        ),
        "rng = np.random.default_rng(get_worker_info().seed)": (
            "A good generator, in a local name that nobody sees. The dataset keeps its old one."
        ),
    },
    right=[
        "get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed())",
        "get_worker_info().dataset.rng = np.random.default_rng(np.random.randint(1 << 30))",
        "info = get_worker_info()\n"
        "info.dataset.rng = np.random.default_rng([info.seed, worker_id])",
    ],
    at={
        "numbers = [": (
            "An error came from a worker; its own traceback is in the message. Was it in your "
            "lines, or in the dataset that drew after them?"
        ),
        "len(set(numbers))": (
            "Two workers, two epochs, and some numbers come again. Print `numbers`: who repeats "
            "whom, a worker another one or an epoch the one before?"
        ),
        "== numbers": (
            "No number repeats. But the same seed in the main process brought other numbers: what "
            "does your generator start from?"
        ),
    },
)
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
        # answer:
        get_worker_info().dataset.rng = np.random.default_rng(get_worker_info().seed)
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
@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "Python code fails in the worker. The main process raises something again, with the story.",
        "It tries to keep the type. It builds that type from one text. Does every type allow it?",
    ],
    why=(
        "The worker sends the type and the traceback as text; the main process raises that type "
        "with a text beginning 'Caught ValueError in DataLoader worker process 0'. A "
        "UnicodeDecodeError wants five arguments and cannot be built from one, so it comes "
        "as a RuntimeError. An `except` that works without workers may miss it."
    ),
    wrong={
        ("RuntimeError", "RuntimeError"): (
            "Not everything from a worker looks alike. An ordinary error keeps something."
        ),
        ("ValueError", "UnicodeDecodeError"): (
            "So it is without workers. With one, the second error must be built again from a text."
        ),
        ("ValueError", "ValueError"): (
            "The second error has a parent class. But nobody looks for a relative that would do."
        ),
    },
)
def test_an_error_crosses_over():
    """Both collate functions fail, but in a worker. Which type does the main process raise?

    First for a word that is no number, then for bytes that are no UTF-8.
    """
    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    with pytest.raises(Exception) as caught:
        list(DataLoader(["seven"], collate_fn=lambda words: int(words[0]), **options))
    assert caught.type is answer(ValueError)
    with pytest.raises(Exception) as caught:
        list(DataLoader([b"caf\xe9"], collate_fn=lambda words: words[0].decode(), **options))
    assert caught.type is answer(RuntimeError)


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-16"],
    see="torch.utils.data.DataLoader",
    hint=[
        "How many lists are there once two workers run? And which one does the test print?",
        "Each worker gets two of the four samples. How long is ITS list after each of them?",
        "A tensor is a piece of memory. Do two processes have the same memory?",
    ],
    why=(
        "Each worker has a dataset of its own: two lists that grow to 2, and the main process's "
        "list stays empty. A tensor is no exception: its numbers are copied when somebody writes. "
        "Caches and counters filled in __getitem__ are lost the same way."
    ),
    wrong={
        "[[1, 2, 3, 4], [0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0]]": (
            "So it is with num_workers=0, where there is one dataset only."
        ),
        "[[1, 1, 2, 2], [0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0]]": (
            "Nobody brings the copies together at the end of the epoch."
        ),
        "[[1, 1, 2, 2], [], [1.0, 1.0, 1.0, 1.0]]": (
            "Some say tensors are seen by all processes. A batch travels; this tensor just lies "
            "in the dataset."
        ),
        "[[1, 2, 3, 4], [], [0.0, 0.0, 0.0, 0.0]]": ("The workers have no list in common either."),
    },
)
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
    assert found == answer([[1, 1, 2, 2], [], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-16"],
    see="torch.Tensor.share_memory_",
    hint=[
        "Persistent workers start once. When was their copy of the dataset made?",
        "fill_ writes into the main process's tensor. Who else looks at that memory?",
        "There is memory that several processes see. A tensor has a method that moves it there.",
    ],
    why=(
        "The workers keep the dataset of the first epoch, so what set_epoch writes stays in the "
        "main process. With the tensor in shared memory both sides look at the same eight bytes. "
        "It must be moved there before the workers start."
    ),
    wrong={
        "self.epoch = torch.from_numpy(np.zeros((), dtype=np.int64))": (
            "It shares memory with an array, but within one process. A fork copies both."
        ),
        "self.epoch = torch.zeros((), dtype=torch.int64).share_memory_().clone()": (
            "A clone gets ordinary memory of its own."
        ),
        "self.epoch = torch.nn.Parameter(torch.zeros(()), requires_grad=False)": (
            "Modules know their parameters. Other processes do not."
        ),
    },
    right=[
        "self.epoch = torch.tensor(0).share_memory_()",
        "self.epoch = torch.zeros((), dtype=torch.int64)\nself.epoch.share_memory_()",
    ],
    at={
        "self.epoch.fill_": (
            "set_epoch writes into `self.epoch` as into a tensor, and cannot do so with yours. "
            "Print it."
        ),
        "seen == ": (
            "The workers should tell each epoch that they are in. Print `seen`: where does a "
            "worker read the number, and who wrote it there?"
        ),
    },
)
def test_tell_the_workers_the_epoch():
    """The samples depend on the epoch. But these workers stay, and never hear of a new one.

    Repair the marked line.
    """

    class Lessons:
        def __init__(self):
            # answer:
            self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()
            # given:
            # self.epoch = torch.zeros((), dtype=torch.int64)
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
