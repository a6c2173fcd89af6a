"""Processes: fork or spawn, what travels, and whose memory it is."""

import contextlib
import functools
import multiprocessing
import operator
import os
import subprocess
import sys
import tempfile
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader

from sensei import __


@pytest.mark.slow
@pytest.mark.needs(fork=True)
def test_what_a_worker_inherits(monkeypatch):
    """Here the samples are functions, and the worker calls them.

    What do a forked and a spawned worker answer?
    """
    monkeypatch.setenv("COLOUR", "red")
    torch.set_default_dtype(torch.float64)
    questions = [torch.get_default_dtype, functools.partial(os.getenv, "COLOUR")]
    options = {"batch_size": None, "collate_fn": operator.methodcaller("__call__")}
    said = {}
    for method in ("fork", "spawn"):
        loader = DataLoader(questions, num_workers=1, multiprocessing_context=method, **options)
        said[method] = list(loader)
    torch.set_default_dtype(torch.float32)
    assert said["fork"] == __
    assert said["spawn"] == __


def test_which_function_can_travel():
    """A spawned worker gets its collate_fn as a pickle. Which of these five can be pickled?"""

    def inner(batch):
        return batch

    functions = {"lambda": lambda batch: batch, "inner": inner, "torch.stack": torch.stack}
    functions["partial lambda"] = functools.partial(lambda batch, dim: batch, dim=1)
    functions["partial stack"] = functools.partial(torch.stack, dim=1)
    travellers = list(functions)
    for name, function in functions.items():
        try:
            ForkingPickler.dumps(function)
        except Exception:
            travellers.remove(name)
    assert travellers == __


@pytest.mark.slow
def test_a_collate_function_for_spawn():
    """This loader takes the largest sample of each batch. Its worker cannot start.

    Repair the marked line. The worker stays spawned.
    """
    # your turn:
    collate = lambda batch: max(batch)
    # end
    options = {"num_workers": 1, "multiprocessing_context": "spawn", "batch_size": 2}
    largest = list(DataLoader([3, 1, 8, 9, 2], collate_fn=collate, **options))
    assert largest == [3, 9, 2]


def test_who_came_before():
    """Five small programs end with the same call: set_start_method("spawn"). Some of them did
    something before it, which their names tell.

    For which is the last call refused? List them in order.
    """
    choose = functools.partial(mp.set_start_method, "spawn")
    before = {"nothing": list, "loader": functools.partial(DataLoader, range(4), num_workers=1)}
    before |= {"choose twice": choose, "lock": mp.Lock, "ask": mp.get_start_method}
    refused = []
    for name, first in before.items():
        mp.set_start_method(None, force=True)  # as in a program that has just begun
        first()
        with contextlib.suppress(RuntimeError):
            choose()
            continue
        refused.append(name)
    assert refused == __


@pytest.mark.needs(fork=True)
def test_who_chooses_the_method():
    """torch chooses one method, the loader is made, then plain Python chooses another.

    The worker tells by which method it was started.
    """
    mp.set_start_method("spawn", force=True)
    ask = operator.methodcaller("__call__")
    questions = [multiprocessing.get_start_method]
    loader = DataLoader(questions, batch_size=None, collate_fn=ask, num_workers=1)
    multiprocessing.set_start_method("fork", force=True)
    (said,) = loader
    assert said == __


def test_for_this_loader_only():
    """This loader must spawn its worker. The setting of the program is none of its business.

    Repair the marked lines.
    """
    before = mp.get_start_method(allow_none=True)
    # your turn:
    mp.set_start_method("spawn", force=True)
    loader = DataLoader(range(4), num_workers=1)
    # end
    assert mp.get_start_method(allow_none=True) == before
    assert loader.num_workers == 1
    assert loader.multiprocessing_context.get_start_method() == "spawn"


@pytest.mark.slow
def test_a_script_that_starts_itself(tmp_path):
    """This script should print the sum of its arguments, which its worker reads, and nothing
    else. It ends with an error instead.

    Repair the marked line: the end of the script. The worker stays spawned.
    """
    lines = [
        "import sys",
        "from torch.utils.data import DataLoader, get_worker_info",
        "def number(words):",
        "    return int(words[0]) * get_worker_info().num_workers",
        "def main():",
        "    options = {'num_workers': 1, 'multiprocessing_context': 'spawn'}",
        "    print(sum(DataLoader(sys.argv[1:], collate_fn=number, **options)))",
    ]
    # your turn:
    last = ["main()"]
    # end
    script = tmp_path / "train.py"
    script.write_text("\n".join([*lines, *last]))
    numbers = torch.randint(1000, (3,)).tolist()
    command = [sys.executable, script, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.strip().split("\n")[-1]
    assert done.stdout.split() == [str(sum(numbers))]


@pytest.mark.needs(fork=True)
def test_how_long_is_the_message():
    """What does a worker send for each of these? Order the three, shortest message first."""

    def lengths(_):
        things = {
            "list of 1000": [0.5] * 1000,
            "array of 10000": np.zeros(10_000),
            "tensor of 1000000": torch.zeros(1000, 1000),
        }
        return {name: len(ForkingPickler.dumps(thing)) for name, thing in things.items()}

    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    (length,) = DataLoader(range(1), collate_fn=lengths, **options)
    assert sorted(length, key=length.get) == __


@pytest.mark.needs(fork=True)
def test_where_a_batch_lives(monkeypatch):
    """Each batch is a tensor and an array. Which of them lie in shared memory?

    First without, then with a worker. Python's own shared_memory is out of order today.
    """
    monkeypatch.setitem(sys.modules, "multiprocessing.shared_memory", None)

    def shared(**options):
        loader = DataLoader(
            range(4), collate_fn=lambda batch: (torch.tensor(batch), np.array(batch)), **options
        )
        tensor, array = next(iter(loader))
        homes = {"tensor": tensor, "array": torch.from_numpy(array)}
        return [name for name, home in homes.items() if home.is_shared()]

    assert shared(num_workers=0) == __
    assert shared(num_workers=1, multiprocessing_context="fork") == __


def test_one_slice_is_shared():
    """Only a slice is told to share its memory. Which of the five are shared then?"""
    whole = torch.arange(6.0)
    part = whole[2:]
    part.share_memory_()
    tensors = {"whole": whole, "slice": part, "copy": part.clone(), "detached": part.detach()}
    tensors["doubled"] = part * 2
    assert [name for name, t in tensors.items() if t.is_shared()] == __


@pytest.mark.needs(fork=True)
def test_forked_after_cuda_was_started(monkeypatch):
    """PyTorch's flag says: forked from a process that uses CUDA. Does the loader give a batch, is
    it refused, or does it wait?

    Three workers: without CUDA, with CUDA in worker_init_fn, with CUDA in collate_fn.
    """
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)

    def outcome(**where):
        options = {"num_workers": 1, "multiprocessing_context": "fork", "timeout": 30}
        try:
            next(iter(DataLoader(range(1), **options, **where)))
        except RuntimeError as error:
            return "waited" if "timed out" in str(error) else "refused"
        return "batch"

    def start(_):
        torch.cuda.init()

    outcomes = [outcome(), outcome(worker_init_fn=start), outcome(collate_fn=start)]
    assert outcomes == __


@pytest.mark.needs(fork=True)
def test_who_sees_cuda_initialized(monkeypatch):
    """Some say a worker must clean up the CUDA it inherits, `if torch.cuda.is_initialized()`.

    Two patches make this a process that uses CUDA. It asks is_initialized(); then its forked
    worker does, in worker_init_fn and in collate_fn. Who of the three hears True?
    """
    parent = os.getpid()
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: os.getpid() != parent)
    heard_true = []

    def ask(who):
        heard_true.extend([who] if torch.cuda.is_initialized() else [])
        return list(heard_true)

    ask("main process")
    hooks = {"worker_init_fn": lambda _: ask("worker_init_fn")}
    hooks["collate_fn"] = lambda _: ask("collate_fn")
    (heard,) = DataLoader(range(1), num_workers=1, multiprocessing_context="fork", **hooks)
    assert heard == __


@pytest.mark.gpu
@pytest.mark.needs(fork=True)
def test_who_moves_the_batch():
    """The main process uses the GPU, and forks two workers. They are refused.

    Repair the marked line.
    """
    table = torch.arange(6.0)
    assert table.cuda().is_cuda

    class Rows:
        def __len__(self):
            return 6

        def __getitem__(self, i):
            # your turn:
            return table[i].cuda()
            # end

    options = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": 30}
    batches = [batch.cuda() for batch in DataLoader(Rows(), batch_size=3, **options)]
    assert torch.cat(batches).tolist() == table.tolist()


@pytest.mark.needs(fork=True, platform="linux")
def test_another_way_of_sharing(monkeypatch):
    """Some say set_sharing_strategy('file_system') helps when memory runs out.

    All 40 batches are kept, under either strategy. How many bytes are they, and how many
    descriptors do they hold (to the nearest ten)?
    """

    def cost(strategy):
        mp.set_sharing_strategy(strategy)
        before = len(os.listdir("/dev/fd"))
        data = torch.zeros(40, 250)
        kept = list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))
        held = len(os.listdir("/dev/fd")) - before
        return sum(batch.untyped_storage().nbytes() for batch in kept), round(held, -1)

    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)  # for what file_system's helper process leaves
        costs = [cost("file_descriptor"), cost("file_system")]
    mp.set_sharing_strategy("file_descriptor")
    assert costs == __


@pytest.mark.needs(fork=True, platform="linux")
def test_keep_the_batches():
    """The worker draws a random number for each of 60 batches. All are kept, and with each one a
    file descriptor. Programs have few of them.

    Keep the batches' numbers without the descriptors. Repair the marked line.
    """
    before = len(os.listdir("/dev/fd"))
    kept, numbers = [], []
    options = {"collate_fn": lambda _: torch.rand(1), "num_workers": 1}
    for batch in DataLoader(range(60), multiprocessing_context="fork", **options):
        numbers += batch.tolist()
        # your turn:
        kept.append(batch)
        # end
    assert torch.cat(kept).tolist() == numbers
    assert len(os.listdir("/dev/fd")) - before < 30
