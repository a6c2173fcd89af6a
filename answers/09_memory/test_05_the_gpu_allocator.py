"""The GPU's allocator: a cache between you and the driver.

Documents: A 2.3, B 1, B 2, B 4
"""

import gc

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sensei import answer, koan

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


@koan(
    claims=["B-4-13", "B-4-31"],
    see="torch.cuda.empty_cache",
    hint=[
        "A process that never used CUDA: what can you know about its GPU memory without asking?",
        "Which of the five is about work that runs on a device?",
        "And which one can only be answered by CUDA itself?",
    ],
    why=(
        "Without CUDA nothing was allocated and no cache is full: memory_allocated() is 0 and "
        "empty_cache() does nothing, on any machine. To wait, or to name the current device, CUDA "
        "must be there. On a machine without it these two raise. For code that runs everywhere "
        "there is torch.accelerator."
    ),
    wrong={
        "['synchronize']": "A number of a device: who would know it?",
        "['current_device']": "Some say synchronize() is a no-op without a GPU. For whom does it "
        "wait?",
        "['empty_cache', 'synchronize', 'current_device']": "What was never filled needs no CUDA "
        "to be emptied.",
        "['memory_allocated', 'empty_cache', 'synchronize', 'current_device']": "Some say each "
        "torch.cuda function needs a GPU. PyTorch keeps these books itself.",
        "[]": "Then nobody could wait for a GPU.",
    },
)
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
    assert tried == answer(["synchronize", "current_device"])


@koan(
    claims=["A-2.3-10", "B-4-02"],
    see="torch.Tensor.to",
    hint=[
        "What is there to do, if the tensor is on that device and has that dtype?",
        "Two of the six ask for a copy by name.",
    ],
    why=(
        ".to(), .cpu() and .cuda() return the very same tensor when nothing has to change: no "
        "copy, no memory. Only another dtype, another device, or your word makes a new one. So "
        "a second .cuda() on a tensor costs nothing."
    ),
    wrong={
        "['cpu', 'device', 'dtype', 'double', 'copy', 'clone']": "Some say each move allocates "
        "memory. When there is nothing to move, what is returned?",
        "['double', 'clone']": "copy=True is there for those who want a copy in any case.",
        "['double', 'copy', 'clone', 'cpu']": "The tensor is on the CPU.",
        "['copy', 'clone']": "Eight bytes for each number do not fit where four were.",
    },
)
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
    assert new == answer(["double", "copy", "clone"])


@pytest.mark.gpu
@koan(
    claims=["B-4-01", "B-4-02", "B-4-15"],
    see="torch.cuda.memory_stats",
    hint=[
        "Where does a block go when its tensor is freed? To the driver, or somewhere nearer?",
        "The next request is of the same size. Is it different for a large tensor?",
        "And where do the freed blocks go when you empty the cache?",
    ],
    why=(
        "The driver is slow, so it is asked once, and the freed block is kept for the next "
        "request: space is spent to save time. Small requests share segments of 2 MiB, larger "
        "ones have segments of their own pool. These are two pools, not two speeds. After "
        "empty_cache() the driver must be asked again."
    ),
    wrong={
        "[9, 9, 9, 1]": "Some say each .to('cuda') asks the driver for memory. Between you and "
        "the driver stands an allocator.",
        "[0, 9, 9, 1]": "Some say tensors above 1 MiB go a slow way. Only the first time is slow.",
        "[0, 0, 9, 1]": "Where is the limit of a cache? Not at 64 MiB.",
        "[0, 0, 0, 0]": "What was in the cache is the driver's again.",
    },
)
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
    assert [*asked, torch.cuda.memory_stats()["num_device_alloc"] - before] == answer([0, 0, 0, 1])


@pytest.mark.gpu
@koan(
    claims=["B-2-35", "B-4-13"],
    see="torch.cuda.empty_cache",
    hint=[
        "One counter knows the living tensors, the other one what came from the driver.",
        "Who gets the block of a dead tensor: the driver, or the cache?",
        "empty_cache empties the cache. Is a living tensor in the cache?",
    ],
    why=(
        "A dead tensor's block goes into the cache: it is still reserved, and ready for you. "
        "empty_cache gives such blocks back to the driver, for other programs. It never touches "
        "a living tensor, and it gives PyTorch no memory that it did not have."
    ),
    wrong={
        "[[2, 2], [1, 1], [1, 1]]": "Some say the memory goes back when its tensor dies. Then "
        "empty_cache would have nothing to do.",
        "[[2, 2], [1, 2], [0, 0]]": "Some say empty_cache gives back everything. One tensor lives.",
        "[[2, 2], [2, 2], [1, 1]]": "A tensor that died counts no longer. It needs no empty_cache.",
        "[[2, 2], [1, 2], [1, 2]]": "What is in the cache goes back to the driver.",
    },
)
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
    assert moments == answer([[2, 2], [1, 2], [1, 1]])


@pytest.mark.gpu
@koan(
    claims=["B-4-10"],
    see="torch.cuda.memory_reserved",
    hint=[
        "A float32 has four bytes. But what is the smallest piece that the allocator gives out?",
        "The driver is asked for more than that, so that it need not be asked again soon.",
        "The third is the second divided by the first.",
    ],
    why=(
        "Nothing is reserved before somebody asks. A small tensor that finds no place brings one "
        "segment of 2 MiB and takes 512 bytes of it, the smallest piece; 4095 more fit beside it. "
        "Reserved is what came from the driver, the allocated part with it."
    ),
    wrong={
        "[4, 2097152, 524288]": "The allocator gives out pieces of a least size.",
        "[512, 0, 0]": "Some say PyTorch reserves a pool at the start. It asks when it needs to.",
        "[512, 512, 1]": "Asking the driver for each small tensor would be slow.",
        "[4, 4, 1]": "Neither of the two counts like that.",
    },
)
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
    assert [*asked[1][1:], tensors] == answer([512, 2 * 2**20, 4096])


@pytest.mark.gpu
@koan(
    claims=["B-4-14"],
    see="torch.cuda.memory_allocated",
    hint=[
        "Is a size rounded up to a power of two, or to a multiple of something?",
        "You have met the smallest piece above, with one number in it.",
        "614400 is 600 KiB. Is it such a multiple already?",
    ],
    why=(
        "Sizes are rounded up to multiples of 512 bytes; then the smallest cached block that is "
        "large enough is taken, and split. A buddy system would round to powers of two and waste "
        "up to half. (The allocator for pinned memory on the CPU's side does round so.)"
    ),
    wrong={
        "[512, 1024, 2048, 1048576]": "Some say it is a buddy system, in which each size is a "
        "power of two. Then 600 KiB would take 1 MiB.",
        "[100, 1000, 1025, 614400]": "Blocks begin at round addresses. So they have round sizes.",
        "[512, 1024, 1024, 614400]": "The third one needs one byte more than that.",
        "[4096, 4096, 4096, 614400]": "Pages of 4 KiB belong to the CPU's memory.",
    },
)
def test_four_sizes_of_blocks():
    """Ask the GPU for 100 bytes, for 1000, for 1025 and for 614400. How many are allocated?"""
    kept, sizes = [], []
    for size in (100, 1000, 1025, 614_400):
        before = torch.cuda.memory_allocated()
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        sizes.append(torch.cuda.memory_allocated() - before)
    assert sizes == answer([512, 1024, 1536, 614_400])


@pytest.mark.gpu
@koan(
    claims=["B-4-05", "B-4-09"],
    see="torch.cuda.mem_get_info",
    hint=[
        "One of the three is kept by the driver, for all programs. What does it see?",
        "allocated is a part of reserved. And reserved?",
    ],
    why=(
        "allocated: living tensors. reserved: that, and the cache, which PyTorch uses again. On "
        "the card: that, and CUDA's own context, loaded kernels, other libraries, other programs. "
        "So nvidia-smi shows more than PyTorch knows. To plan, look at max_memory_allocated."
    ),
    wrong={
        "['allocated', 'on the card', 'reserved']": "What PyTorch has reserved lies on the card.",
        "['reserved', 'allocated', 'on the card']": "Some say reserved is a separate pool beside "
        "the allocated memory. It has it inside.",
        "['on the card', 'allocated', 'reserved']": "PyTorch is not alone on the card.",
    },
)
def test_three_numbers_for_one_card():
    """Three ways to ask how much is in use. List them, the smallest number first."""
    x = torch.zeros(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    allocated, reserved = counters()
    numbers = {"reserved": reserved, "on the card": total - free, "allocated": allocated}
    assert x.is_cuda
    assert sorted(numbers, key=numbers.get) == answer(["allocated", "reserved", "on the card"])


@koan(
    claims=["B-4-06"],
    see="torch.cuda.max_memory_allocated",
    hint=[
        "(x + 1) * 2: when the product comes to be, what must still be there?",
        "An in-place operation writes where it reads.",
        "In the last one, two results wait for each other.",
    ],
    why=(
        "A result without a name is a tensor like any other. It takes memory until nobody needs "
        "it, so the peak is higher than what is left. On a GPU it is the same: such temporaries "
        "count in memory_allocated() while they live, and max_memory_allocated() remembers them."
    ),
    wrong={
        "[1, 1, 1]": "Some say temporaries do not count. They are gone when you look afterwards. "
        "But the peak had to fit.",
        "[2, 2, 3]": "mul_ writes into the tensor that it got.",
        "[2, 1, 2]": "Neither of the two factors can go before the product is there.",
        "[1, 0, 2]": "The result itself takes memory, too.",
    },
)
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
    assert peaks == answer([2, 1, 3])


@pytest.mark.gpu
@koan(
    claims=["B-4-06", "B-4-08"],
    see="torch.cuda.reset_peak_memory_stats",
    hint=[
        "memory_allocated() is a look at this moment. What is still alive after a step?",
        "The second step works on four times as many numbers.",
        "Which of the two readings remembers what happened in between?",
    ],
    why=(
        "Between the steps everything is gone, so each look shows the same. The peak, inside "
        "forward and backward, was four times as high. A steady memory_allocated() proves "
        "nothing: reset the peak before each step and log max_memory_allocated()."
    ),
    wrong={
        "[1, 1]": "Some say that a steady memory_allocated() means a steady need. What has to "
        "fit is the highest moment.",
        "[2, 4]": "After a step, nothing of it is alive.",
        "[2, 1]": "The peak was reset before each step.",
    },
)
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
    assert [len(after), round(peaks[1] / peaks[0])] == answer([1, 4])


@koan(
    claims=["B-4-06"],
    see="torch.cuda.max_memory_allocated",
    hint=[
        "A name holds its tensor until the function ends, or until the name gets another value.",
        "When c is being made, who still needs a?",
        "x belongs to the caller: do not write into it.",
    ],
    why=(
        "Each name was one more tensor in memory. Use one name again, or no name at all, and an "
        "old result goes as soon as the next one is there. On a GPU this lowers the peak; "
        "collecting and emptying afterwards does not."
    ),
    wrong={
        "a = x + 1\nb = a * 2\nc = b.sqrt()\ndel a, b\nreturn c": "When the names go, the peak is "
        "over.",
        "a = x + 1\nb = a * 2\ngc.collect()\nc = b.sqrt()\nreturn c": "Some say the collector "
        "helps. What a name holds is no garbage.",
        "a = x + 1\nb = a * 2\ntorch.cuda.empty_cache()\nc = b.sqrt()\nreturn c": (
            "empty_cache gives back what nobody holds. a holds its tensor."
        ),
        "with torch.inference_mode():\n"
        "    a = x + 1\n"
        "    b = a * 2\n"
        "    c = b.sqrt()\n"
        "return c": "There was no graph before, either. It is the names that hold.",
        "x += 1\nx *= 2\nreturn x.sqrt()": "Thrifty, but the caller's numbers are overwritten.",
    },
    right=[
        "return ((x + 1) * 2).sqrt()",
        "a = x + 1\na *= 2\nreturn a.sqrt_()",
        "a = x + 1\nb = a * 2\ndel a\nc = b.sqrt()\nreturn c",
        "x = x + 1\nx = x * 2\nx = x.sqrt()\nreturn x",
    ],
    at={
        "torch.testing.assert_close(y,": (
            "The function should still return what the old lines returned."
        ),
        "torch.equal(x, before)": (
            "The result is right. But x has other numbers now, and it belongs to the caller."
        ),
    },
)
def test_three_names_in_a_function():
    """At its peak this function needs three pieces of memory beside x. Repair the marked lines so
    that two are enough. x must stay what it is."""

    def f(x):
        # answer:
        a = x + 1
        a = a * 2
        return a.sqrt()
        # given:
        # a = x + 1
        # b = a * 2
        # c = b.sqrt()
        # return c
        # end

    for x in (torch.ones(3), torch.arange(12.0).view(3, 4)):
        before = x.clone()
        with Meter() as meter:
            y = f(x)
        torch.testing.assert_close(y, (2 * before + 2).sqrt())
        assert torch.equal(x, before)
        assert meter.most <= 2


@koan(
    see="torch.Tensor.add_",
    hint=[
        "An in-place line may still calculate something first. Where does that lie?",
        "0.1 * weights is a tensor. Is there a way to hand over the factor instead?",
        "Look at the other arguments of add_.",
    ],
    why=(
        "The right side of += is computed first, and takes memory like any result. add_ takes the "
        "factor as alpha and multiplies on the way; lerp_ does all of it in one go. Optimizers "
        "do the same, since a copy of all weights, even for a moment, may be one too many."
    ),
    wrong={
        "average *= 0.9\naverage += 0.1 * weights": (
            "Some say += takes no memory. It does not, but what stands on its right does."
        ),
        "average.copy_(0.9 * average + 0.1 * weights)": (
            "The same results as before, and only then are they copied."
        ),
        "average.mul_(0.9).add_(weights.mul_(0.1))": (
            "No new memory: the weights themselves were overwritten."
        ),
        "average.data = 0.9 * average + 0.1 * weights": "New memory takes the place of the old.",
        "average.mul_(0.9).add_(weights)": "Something was lost on the way: the factor.",
    },
    right=[
        "average.lerp_(weights, 0.1)",
        "average *= 0.9\naverage.add_(weights, alpha=0.1)",
        "torch.lerp(average, weights, 0.1, out=average)",
        "torch._foreach_lerp_([average], [weights], 0.1)",
        "torch._foreach_mul_([average], 0.9)\ntorch._foreach_add_([average], [weights], alpha=0.1)",
    ],
    at={
        "torch.testing.assert_close(average,": (
            "`average` itself should move a tenth of the way to the weights. Print it before "
            "and after."
        ),
        "torch.equal(weights, before)": (
            "The average is right. But the weights have other numbers now. They should only be "
            "read."
        ),
    },
)
def test_an_average_of_the_weights():
    """`update` moves the average a tenth of the way to the weights. Repair the marked line so that
    it takes no new memory, not even for a moment. The weights must stay what they are."""

    def update(average, weights):
        # answer:
        average.mul_(0.9).add_(weights, alpha=0.1)
        # given:
        # average[:] = 0.9 * average + 0.1 * weights
        # end

    for weights in (torch.ones(3), torch.arange(12.0).view(3, 4)):
        average, before = torch.full_like(weights, 2.0), weights.clone()
        with Meter() as meter:
            update(average, weights)
        torch.testing.assert_close(average, 1.8 + 0.1 * before)
        assert torch.equal(weights, before)
        assert meter.most == 0


@pytest.mark.gpu
@koan(
    claims=["B-4-07"],
    see="torch.cuda.memory_allocated",
    hint=[
        "The allocator knows which blocks are given out. Does it know who uses them?",
        "A list that holds itself: does its count of references ever come down to 0?",
    ],
    why=(
        "Given out is given out: a tensor that nobody can reach counts until Python lets go of "
        "it. Mostly that is at once. For a ring it is when the collector comes, and this is the "
        "one case in which gc.collect() brings memory back."
    ),
    wrong={
        "[0, 0]": "Some say memory_allocated() leaves out tensors that only wait for the "
        "collector. Who should have told the allocator?",
        "[1, 1]": "After the collector has been there, nothing holds the tensor.",
        "[0, -1]": "A counter of blocks does not fall below where it began.",
    },
)
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
    assert moments == answer([1, 0])


@pytest.mark.gpu
@koan(
    claims=["B-1-16", "B-4-01"],
    see="torch.cuda.current_stream",
    hint=[
        "The kernels of one stream run one after the other. Can a later one disturb an earlier?",
        "So what is there to wait for, before a block is given out again?",
    ],
    why=(
        "On one stream, and by default there is one, order protects you: whoever gets the block "
        "next writes into it later. So it is given out again at once, while the GPU still works. "
        "No policy of streams makes a step need more memory on one card than on another."
    ),
    wrong={
        "5": "Some say memory runs out because blocks have to wait for the streams. On one stream "
        "nobody waits.",
        "2": "There is no taking turns either: the block is free as soon as its tensor dies.",
        "4": "The first one died before the second one came.",
    },
)
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
    assert len(addresses) == answer(1)


@pytest.mark.gpu
@koan(
    claims=["B-4-32"],
    see="torch.cuda.synchronize",
    hint=[
        "Who keeps the books: the GPU, or the allocator in your process?",
        "Is a tensor's memory given out when its kernel ends, or before it starts?",
    ],
    why=(
        "The allocator lives in your process, and counts when a tensor is made and when it dies. "
        "The kernel that fills it may run much later. So the reading is right at any time, and "
        "synchronize() changes nothing about it."
    ),
    wrong={
        "[0, 0, 0]": "Some say the reading lags behind until synchronize(). But the address of y "
        "is needed before its kernel can start.",
        "[0, 1, 0]": "Some say the counters follow the GPU. They follow the tensors.",
        "[1, 1, 0]": "Some say a tensor's memory is free when the GPU is done. See what the "
        "allocator knows of that.",
    },
)
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
    assert moments == answer([1, 0, 0])


@pytest.mark.gpu
@koan(
    claims=["B-4-12", "B-4-26"],
    see="torch.Tensor.pin_memory",
    hint=[
        "On which device is a pinned tensor?",
        "memory_reserved() is about the memory of the GPU.",
    ],
    why=(
        "Pinned memory is the computer's RAM, which the system promised not to move. It has an "
        "allocator of its own and counts in no counter of the GPU. If reserved is far above "
        "allocated, look for dead tensors in the cache, not for pin_memory."
    ),
    wrong={
        "[0, 1, 2]": "Some say pinned memory is reserved by PyTorch on the card. Ask the tensor "
        "for its device.",
        "[0, 1, 1]": "The last tensor is the one that is on the GPU.",
        "[1, 1, 2]": "What has the GPU to do with an ordinary CPU tensor?",
    },
)
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
    assert moments == answer([0, 0, 1])


@pytest.mark.gpu
@koan(
    claims=["B-4-03"],
    see="torch.Tensor.to",
    hint=[
        "The GPU has other work to do first. Which call comes back before that is done?",
        "Without a word from you, may .to() return before the numbers have arrived?",
        "Which memory can the GPU fetch from while the CPU goes on?",
    ],
    why=(
        "By default .to() returns when the numbers have arrived, wherever they come from. It goes "
        "on by itself only if you say non_blocking=True and the source is pinned. Then the copy "
        "is queued behind the other work, and you must not write into the source before it."
    ),
    wrong={
        "['plain', 'pinned', 'pinned, True']": "Some say .to('cuda') starts a transfer "
        "and returns. By default it waits.",
        "['pinned', 'pinned, True']": "Pinned memory makes it possible. Who asks for it?",
        "[]": "One of the three has everything that it needs to go on.",
    },
)
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
    assert early == answer(["pinned, True"])


@pytest.mark.gpu
@koan(
    claims=["B-4-04", "B-4-03"],
    see="torch.Tensor.copy_",
    hint=[
        "The call came back. Have the numbers come, too?",
        "Who knows when they are there? Somebody has to wait.",
        "Either wait for the GPU, or do not ask for a copy that runs by itself.",
    ],
    why=(
        "On the way to the GPU, order protects you: what uses the copy is queued behind it. On "
        "the way back, the CPU reads, and nobody orders it behind the GPU. After a non_blocking "
        "copy to the CPU, wait (for the device, the stream, or an event) before you read."
    ),
    wrong={
        "host.copy_(x, non_blocking=True)\nhost.add_(0)": "Another operation on the CPU. It waits "
        "for nobody.",
        "host.copy_(x, non_blocking=True)\ntorch.cuda.current_stream().query()": (
            "query() asks whether the work is done, and does not wait for the answer to be yes."
        ),
        "host.copy_(x.contiguous(), non_blocking=True)": "The layout was fine before.",
        "host.copy_(x.detach(), non_blocking=True)": "There is no graph here. It is about time.",
    },
    right=[
        "host.copy_(x)",
        "host.copy_(x, non_blocking=True)\ntorch.cuda.current_stream().synchronize()",
        "host.copy_(x, non_blocking=True)\n"
        "done = torch.cuda.Event()\n"
        "done.record()\n"
        "done.synchronize()",
    ],
)
def test_read_what_comes_back():
    """The numbers come back from a busy GPU, and the sum finds zeros. Repair the marked line."""
    for number in (1, 2):
        x = torch.full((2**20,), number, dtype=torch.int32, device="cuda")
        host = torch.zeros(2**20, dtype=torch.int32, pin_memory=True)
        torch.cuda.synchronize()
        keep_busy(200_000_000)
        # answer:
        host.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
        # given:
        # host.copy_(x, non_blocking=True)
        # end
        found = host.sum().item()
        torch.cuda.synchronize()
        assert found == number * 2**20


@pytest.mark.gpu
@koan(
    claims=["B-4-31"],
    see="torch.cuda.synchronize",
    hint=[
        "A stream can be waited for, and a device can be waited for.",
        "How many streams are in use here, and which of them is quick?",
    ],
    why=(
        "stream.synchronize() waits for the work of one stream. torch.cuda.synchronize() waits "
        "for all streams of one device, the current one unless you name another. It is the "
        "broader tool, not the better one."
    ),
    wrong={
        "[2, 2]": "One stream has finished. What does it know of the other?",
        "[1, 1]": "The second one waits for a device, not for a stream.",
        "[0, 2]": "After a wait for a stream, that stream has nothing left to do.",
    },
)
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
    assert done == answer([1, 2])


@pytest.mark.gpu
@koan(
    claims=["B-4-30"],
    see="torch.cuda.Event",
    hint=[
        "run() puts work into a queue and returns. What does the clock see of the work?",
        "Something may be in the queue already, when you begin.",
        "So a clock of the CPU must wait twice. Or let the stream measure: an Event can be put "
        "into the queue like a kernel.",
    ],
    why=(
        "A clock on the CPU sees how long it takes to queue the work. Wait before you start, so "
        "that old work does not count, and before you stop, so that yours does. Or let events on "
        "the stream measure. It makes nothing faster; .item() and .cpu() wait as well."
    ),
    wrong={
        "import time\n\nstart = time.perf_counter()\n"
        "run()\n"
        "torch.cuda.synchronize()\n"
        "return time.perf_counter() - start": "What was queued before is measured as well.",
        "torch.cuda.synchronize()\n"
        "import time\n\nstart = time.perf_counter()\n"
        "run()\n"
        "return time.perf_counter() - start": "It stops when the work is queued, not when done.",
        "import time\n\nstart = time.perf_counter()\nrun()\nreturn time.perf_counter() - start": (
            "Some say this is the time of the kernel. It is the time to put it into the queue."
        ),
    },
    right=[
        "start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "start.record()\n"
        "run()\n"
        "end.record()\n"
        "end.synchronize()\n"
        "return start.elapsed_time(end) / 1000",
        "torch.cuda.current_stream().synchronize()\n"
        "import time\n\nstart = time.perf_counter()\n"
        "run()\n"
        "torch.cuda.current_stream().synchronize()\n"
        "return time.perf_counter() - start",
    ],
    at={
        "min(found) > 0.001": (
            "Both times should be above a thousandth of a second. At which moment does your "
            "clock stop?"
        ),
        "found[1] / found[0]": (
            "The times are not too short. But one should be about ten times the other. Which "
            "work is in both of them?"
        ),
    },
)
def test_how_long_does_a_kernel_run():
    """Write `seconds`: how long does the GPU work on what run() gives it to do? Other work may be
    in the queue already. It is called with two kernels; one runs ten times as long."""

    def seconds(run):
        # answer:
        import time

        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        return time.perf_counter() - start
        # end

    found = []
    for cycles in (20_000_000, 200_000_000):
        keep_busy(100_000_000)
        found.append(seconds(lambda cycles=cycles: keep_busy(cycles)))
    assert min(found) > 0.001
    assert 4 < found[1] / found[0] < 40


@pytest.mark.gpu
@koan(
    claims=["B-4-09", "B-4-11"],
    see="torch.cuda.set_per_process_memory_fraction",
    hint=[
        "Two cached blocks and three new ones are more than the limit. Must both be there?",
        "What could the allocator try before it gives up?",
    ],
    why=(
        "Before PyTorch says out of memory, it gives the cached blocks back to the driver and "
        "tries again. So a full cache never makes a request fail by its size, and the pool does "
        "shrink by itself when it must. Calling empty_cache() before is not needed."
    ),
    wrong={
        "'out of memory'": "Some say cached memory is the pressure that makes requests fail. It "
        "is the allocator's own: it can give it back.",
        "[3, 5]": "Five blocks are above the limit.",
        "[5, 5]": "What was dropped is not allocated any more.",
        "[3, 2]": "What is allocated is a part of what is reserved.",
    },
)
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
    assert found == answer([3, 3])


@koan(
    claims=["B-4-01", "B-4-11", "B-4-14"],
    see="torch.cuda.memory_reserved",
    hint=[
        "Rounding up: how many units are needed to hold `size`?",
        "From the cached blocks, take those that are large enough. Which one wastes the least?",
        "When the card is full, whose blocks can be given back?",
        "reserved, cached and calls must be right afterwards, in each of the three cases.",
    ],
    why=(
        "This is the heart of PyTorch's allocator: round, look in the cache for the best fit, ask "
        "the driver only when there is none, and give the cache back before giving up. The real "
        "one also splits large blocks and merges neighbours, and has a cache for each stream."
    ),
    wrong={
        "size = -(-size // self.unit) * self.unit\n"
        "if self.reserved + size > self.room:\n"
        "    raise MemoryError('full')\n"
        "self.reserved += size\n"
        "self.calls += 1\n"
        "return size": "The cache is never used: the driver is asked each time.",
        "size = 1 << (size - 1).bit_length()\n"
        "fits = [block for block in self.cached if block >= size]\n"
        "if fits:\n"
        "    self.cached.remove(min(fits))\n"
        "    return min(fits)\n"
        "if self.reserved + size > self.room:\n"
        "    self.reserved -= sum(self.cached)\n"
        "    self.cached.clear()\n"
        "if self.reserved + size > self.room:\n"
        "    raise MemoryError('full')\n"
        "self.reserved += size\n"
        "self.calls += 1\n"
        "return size": "Some say it is a buddy system, with powers of two. Round to units.",
        "size = -(-size // self.unit) * self.unit\n"
        "fits = [block for block in self.cached if block >= size]\n"
        "if fits:\n"
        "    self.cached.remove(fits[0])\n"
        "    return fits[0]\n"
        "if self.reserved + size > self.room:\n"
        "    self.reserved -= sum(self.cached)\n"
        "    self.cached.clear()\n"
        "if self.reserved + size > self.room:\n"
        "    raise MemoryError('full')\n"
        "self.reserved += size\n"
        "self.calls += 1\n"
        "return size": "The first one that fits may be a large one. It will be missed later.",
        "size = -(-size // self.unit) * self.unit\n"
        "fits = [block for block in self.cached if block >= size]\n"
        "if fits:\n"
        "    self.cached.remove(min(fits))\n"
        "    return min(fits)\n"
        "if self.reserved + size > self.room:\n"
        "    raise MemoryError('full')\n"
        "self.reserved += size\n"
        "self.calls += 1\n"
        "return size": "Some say a full cache makes requests fail. Give it back, and try again.",
        "size = -(-size // self.unit) * self.unit\n"
        "if size in self.cached:\n"
        "    self.cached.remove(size)\n"
        "    return size\n"
        "if self.reserved + size > self.room:\n"
        "    self.reserved -= sum(self.cached)\n"
        "    self.cached.clear()\n"
        "if self.reserved + size > self.room:\n"
        "    raise MemoryError('full')\n"
        "self.reserved += size\n"
        "self.calls += 1\n"
        "return size": "A larger block would do as well, and would save a call.",
    },
    right=[
        "import math\n\n"
        "size = self.unit * math.ceil(size / self.unit)\n"
        "for found in sorted(self.cached):\n"
        "    if found >= size:\n"
        "        self.cached.remove(found)\n"
        "        return found\n"
        "if self.room - self.reserved < size:\n"
        "    while self.cached:\n"
        "        self.reserved -= self.cached.pop()\n"
        "if self.room - self.reserved < size:\n"
        "    raise MemoryError\n"
        "self.calls, self.reserved = self.calls + 1, self.reserved + size\n"
        "return size",
    ],
    at={
        "sorted(pool.cached)": (
            "This looks at reserved, calls and the free blocks. In the second round, the cache "
            "alone should serve all three. Print them."
        ),
        "pool.take(1300)": (
            "The cache serves small blocks well. For 1300 there is room only after the cached "
            "blocks have gone back. Print all four."
        ),
        "pytest.raises(MemoryError)": (
            "All numbers are right. Here the card is full and nothing is cached, so `take` "
            "should refuse."
        ),
    },
)
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
            # answer:
            size = (size + self.unit - 1) // self.unit * self.unit
            fits = [block for block in self.cached if block >= size]
            if fits:
                self.cached.remove(min(fits))
                return min(fits)
            if self.reserved + size > self.room:
                self.reserved -= sum(self.cached)
                self.cached.clear()
            if self.reserved + size > self.room:
                raise MemoryError("no room")
            self.reserved += size
            self.calls += 1
            return size
            # end

    pool = Pool(room=1600, unit=100)
    for sizes in ([800, 201, 100], [1, 120, 320]):
        pool.cached = [pool.take(size) for size in sizes] + pool.cached
        assert [pool.reserved, pool.calls, sorted(pool.cached)] == [1200, 3, [100, 300, 800]]
    assert [pool.take(300), pool.take(1300), pool.reserved, pool.calls] == [300, 1300, 1600, 4]
    with pytest.raises(MemoryError):
        pool.take(1)
