"""The GPU's allocator: a cache between you and the driver."""

import gc

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sensei import __

BLOCK = 32 * 2**20


def block(**how):
    """A tensor of 32 MiB: larger than any hole between small tensors."""
    return torch.empty(BLOCK, dtype=torch.uint8, **how)


def counters():
    """What the GPU's allocator has given out, and what it has got from the driver, in bytes."""
    return [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]


def grown(before):
    """By how many blocks have both counters grown?"""
    return [(now - then) // BLOCK for now, then in zip(counters(), before, strict=True)]


def keep_busy(cycles=400_000_000):
    """Give the GPU a kernel that runs for so many cycles: a fifth of a second, or so."""
    torch.cuda._sleep(cycles)


def busy():
    """Is the GPU still at work on the current stream?"""
    return not torch.cuda.current_stream().query()


def pieces(tree):
    """The pieces of memory behind all tensors in some lists, tuples and dicts."""
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return {StorageWeakRef(tensor.untyped_storage()) for tensor in tensors}


class Meter(TorchDispatchMode):
    """Knows how many pieces of memory, taken by operations inside it, were in use at once."""

    def __init__(self):
        super().__init__()
        self.taken, self.most = set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = pieces([args, kwargs])
        result = func(*args, **(kwargs or {}))
        self.taken.update(pieces(result) - given)
        self.most = max(self.most, sum(not memory.expired() for memory in self.taken))
        return result


def test_five_questions_to_cuda(monkeypatch):
    """CUDA counts as not used so far, and it cannot start here. Which of the five calls try to
    start it? List them in order."""

    def start():
        raise LookupError("CUDA would start here")

    monkeypatch.setattr(torch.cuda, "_initialized", False)
    monkeypatch.setattr(torch.cuda, "_lazy_init", start)
    tried = []
    names = ["is_available", "memory_allocated", "empty_cache", "synchronize", "current_device"]
    for name in names:
        try:
            getattr(torch.cuda, name)()
        except LookupError:
            tried.append(name)
    assert tried == __


def test_six_moves_of_one_tensor():
    """A float32 tensor on the CPU. Which of the six calls take new memory? List them in order."""
    x = torch.ones(3)
    moves = {
        "cpu": lambda: x.cpu(),
        "device": lambda: x.to(x.device),
        "dtype": lambda: x.to(torch.float32),
        "double": lambda: x.to(torch.float64),
        "copy": lambda: x.to("cpu", copy=True),
        "clone": lambda: x.clone(),
    }
    new = [name for name, move in moves.items() if move().data_ptr() != x.data_ptr()]
    assert new == __


@pytest.mark.gpu
def test_ten_moves_to_the_gpu():
    """Move a tensor to the GPU and drop it; then nine times more. How often is the driver asked
    in those nine, for 1 KiB, 3 MiB and 64 MiB? And how often for one more, after empty_cache()?"""
    asked = []
    for size in (2**10, 3 * 2**20, 64 * 2**20):
        x = torch.empty(size, dtype=torch.uint8)
        x.to("cuda")
        before = torch.cuda.memory_stats()["num_device_alloc"]
        for _ in range(9):
            x.to("cuda")
        asked.append(torch.cuda.memory_stats()["num_device_alloc"] - before)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_stats()["num_device_alloc"]
    x.to("cuda")
    assert [*asked, torch.cuda.memory_stats()["num_device_alloc"] - before] == __


@pytest.mark.gpu
def test_one_living_and_one_dead():
    """Two tensors of one block each; one dies; the cache is emptied. After each of the three:
    how many blocks are allocated, and how many are reserved?"""
    torch.cuda.empty_cache()
    before = counters()
    moments = []
    living, dead = block(device="cuda"), block(device="cuda")
    moments.append(grown(before))
    del dead
    moments.append(grown(before))
    torch.cuda.empty_cache()
    moments.append(grown(before))
    assert living.is_cuda
    assert moments == __


@pytest.mark.gpu
def test_one_number_on_the_gpu():
    """Single numbers, each a tensor of one float32, go to the GPU until the driver has been asked
    twice. By how many bytes do `allocated` and `reserved` grow when it is asked? How many tensors
    are there from the first time to the second?"""
    kept, asked = [], []
    while len(asked) < 2:
        before = counters()
        kept.append(torch.zeros(1, device="cuda"))
        growth = [now - then for now, then in zip(counters(), before, strict=True)]
        if growth[1] > 0:
            asked.append([len(kept), *growth])
    tensors = asked[1][0] - asked[0][0]
    assert [*asked[1][1:], tensors] == __


@pytest.mark.gpu
def test_four_sizes_of_blocks():
    """Ask the GPU for 100 bytes, for 1000, for 1025 and for 614400. How many are allocated?"""
    kept, sizes = [], []
    for size in (100, 1000, 1025, 614_400):
        before = torch.cuda.memory_allocated()
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        sizes.append(torch.cuda.memory_allocated() - before)
    assert sizes == __


@pytest.mark.gpu
def test_three_numbers_for_one_card():
    """Three ways to ask how much is in use. List them, the smallest number first."""
    x = torch.zeros(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    allocated, reserved = counters()
    numbers = {"reserved": reserved, "on the card": total - free, "allocated": allocated}
    assert x.is_cuda
    assert sorted(numbers, key=numbers.get) == __


def test_results_without_a_name():
    """Three formulas. How many pieces of memory, beside that of x, are in use at the peak?"""
    x = torch.ones(3)
    peaks = []
    for formula in (
        lambda: (x + 1) * 2,
        lambda: (x + 1).mul_(2),
        lambda: (x + 1) * (x - 1),
    ):
        with Meter() as meter:
            formula()
        peaks.append(meter.most)
    assert peaks == __


@pytest.mark.gpu
def test_between_two_steps():
    """Two steps, the second on four times as many numbers. How many different values does
    memory_allocated() have after them? By which factor is the second peak higher?"""

    def step(size):
        x = torch.ones(size * 2**18, device="cuda", requires_grad=True)
        (x.exp() * 2).sum().backward()

    after, peaks = set(), []
    for size in (1, 4):
        torch.cuda.reset_peak_memory_stats()
        step(size)
        after.add(torch.cuda.memory_allocated())
        peaks.append(torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated())
    assert [len(after), round(peaks[1] / peaks[0])] == __


def test_three_names_in_a_function():
    """At its peak this function needs three pieces of memory beside x. Repair the marked lines so
    that two are enough. x must stay what it is."""

    def f(x):
        # your turn:
        a = x + 1
        b = a * 2
        c = b.sqrt()
        return c
        # end

    for x in (torch.ones(3), torch.arange(12.0).view(3, 4)):
        before = x.clone()
        with Meter() as meter:
            y = f(x)
        torch.testing.assert_close(y, (2 * before + 2).sqrt())
        assert torch.equal(x, before)
        assert meter.most <= 2


def test_an_average_of_the_weights():
    """`update` moves the average a tenth of the way to the weights. Repair the marked line so that
    it takes no new memory, not even for a moment. The weights must stay what they are."""

    def update(average, weights):
        # your turn:
        average[:] = 0.9 * average + 0.1 * weights
        # end

    for weights in (torch.ones(3), torch.arange(12.0).view(3, 4)):
        average, before = torch.full_like(weights, 2.0), weights.clone()
        with Meter() as meter:
            update(average, weights)
        torch.testing.assert_close(average, 1.8 + 0.1 * before)
        assert torch.equal(weights, before)
        assert meter.most == 0


@pytest.mark.gpu
def test_a_ring_around_a_tensor():
    """A list holds a tensor of one block, and itself. Its name goes; later the collector comes.

    By how many blocks is `allocated` higher than before, at both moments?
    """
    gc.collect()
    gc.disable()
    before = counters()
    ring = [block(device="cuda")]
    ring.append(ring)
    del ring
    moments = [grown(before)[0]]
    gc.enable()
    gc.collect()
    moments.append(grown(before)[0])
    assert moments == __


@pytest.mark.gpu
def test_five_tensors_on_a_busy_gpu():
    """While the GPU is at work, five tensors of one size come and go. How many different addresses
    do they have?"""
    x = block(device="cuda")
    addresses = {x.data_ptr()}
    keep_busy()
    for _ in range(4):
        del x
        x = block(device="cuda")
        addresses.add(x.data_ptr())
    assert busy()
    assert len(addresses) == __


@pytest.mark.gpu
def test_read_the_counter_of_a_busy_gpu():
    """The GPU is at work all the time. By how many blocks is `allocated` higher: when y is made,
    when y is dropped, and after synchronize()?"""
    x = block(device="cuda") + 1
    torch.cuda.synchronize()
    before = counters()
    keep_busy()
    y = x + 1
    moments = [grown(before)[0]]
    del y
    moments.append(grown(before)[0])
    assert busy()
    torch.cuda.synchronize()
    moments.append(grown(before)[0])
    assert moments == __


@pytest.mark.gpu
def test_plain_pinned_and_on_the_gpu():
    """Three tensors of one block, one after the other: plain, pinned, on the GPU.

    By how many blocks is `reserved` higher after each?
    """
    torch.cuda.empty_cache()
    before = counters()
    kept, moments = [], []
    for how in ({}, {"pin_memory": True}, {"device": "cuda"}):
        kept.append(block(**how))
        moments.append(grown(before)[1])
    assert [tensor.is_pinned() for tensor in kept[:2]] == [False, True]
    assert moments == __


@pytest.mark.gpu
def test_three_copies_to_a_busy_gpu():
    """From plain memory; from pinned; from pinned with non_blocking=True. The GPU is busy.

    Which of the three return before it is done? List their names in order.
    """
    plain = torch.ones(2**20)
    pinned = plain.pin_memory()
    choices = [("plain", plain, False), ("pinned", pinned, False), ("pinned, True", pinned, True)]
    early = []
    for name, source, flag in choices:
        source.to("cuda")
        keep_busy()
        source.to("cuda", non_blocking=flag)
        if busy():
            early.append(name)
        torch.cuda.synchronize()
    assert early == __


@pytest.mark.gpu
def test_read_what_comes_back():
    """The numbers come back from a busy GPU, and the sum finds zeros. Repair the marked line."""
    for number in (1, 2):
        x = torch.full((2**20,), number, dtype=torch.int32, device="cuda")
        host = torch.zeros(2**20, dtype=torch.int32, pin_memory=True)
        torch.cuda.synchronize()
        keep_busy(200_000_000)
        # your turn:
        host.copy_(x, non_blocking=True)
        # end
        found = host.sum().item()
        torch.cuda.synchronize()
        assert found == number * 2**20


@pytest.mark.gpu
def test_two_streams_and_two_ways_to_wait():
    """One stream has little to do and one has much. First wait for the quick one, then call
    torch.cuda.synchronize(). How many of the two are done after each wait?"""
    quick, slow = torch.cuda.Stream(), torch.cuda.Stream()
    for stream, cycles in ((quick, 1000), (slow, 400_000_000)):
        with torch.cuda.stream(stream):
            keep_busy(cycles)
    done = []
    for wait in (quick.synchronize, torch.cuda.synchronize):
        wait()
        done.append(sum(stream.query() for stream in (quick, slow)))
    assert done == __


@pytest.mark.gpu
def test_how_long_does_a_kernel_run():
    """Write `seconds`: how long does the GPU work on what run() gives it to do? Other work may be
    in the queue already. It is called with two kernels; one runs ten times as long."""

    def seconds(run):
        # your turn:
        __
        # end

    found = []
    for cycles in (20_000_000, 200_000_000):
        keep_busy(100_000_000)
        found.append(seconds(lambda cycles=cycles: keep_busy(cycles)))
    assert min(found) > 0.001
    assert 4 < found[1] / found[0] < 40


@pytest.mark.gpu
def test_a_request_above_the_limit():
    """Room for three and a half blocks. Two were used and lie in the cache. Now ask for three in
    one piece. How many blocks are allocated and reserved then? Or is it 'out of memory'?"""
    torch.cuda.empty_cache()
    before = counters()
    limit = before[1] + 3.5 * BLOCK
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info()[1])
    [block(device="cuda") for _ in range(2)]
    try:
        large = torch.empty(3 * BLOCK, dtype=torch.uint8, device="cuda")
        found = grown(before) if large.is_cuda else None
    except torch.OutOfMemoryError:
        found = "out of memory"
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert found == __


def test_write_a_caching_allocator():
    """Write `take`. A block has `size`, rounded up to a multiple of the unit. Remove the smallest
    cached block that fits, and return its size. If none fits, take a new block from the driver.
    Without room for it all cached blocks go back first; if there is still no room, raise
    MemoryError."""

    class Pool:
        def __init__(self, room, unit):
            self.room, self.unit = room, unit
            # reserved: bytes that the driver gave and did not get back
            # calls: how many blocks it gave; cached: the sizes of the free blocks
            self.reserved, self.calls, self.cached = 0, 0, []

        def take(self, size):
            # your turn:
            __
            # end

    pool = Pool(room=1600, unit=100)
    for sizes in ([800, 201, 100], [1, 120, 320]):
        pool.cached = [pool.take(size) for size in sizes] + pool.cached
        assert [pool.reserved, pool.calls, sorted(pool.cached)] == [1200, 3, [100, 300, 800]]
    assert [pool.take(300), pool.take(1300), pool.reserved, pool.calls] == [300, 1300, 1600, 4]
    with pytest.raises(MemoryError):
        pool.take(1)
