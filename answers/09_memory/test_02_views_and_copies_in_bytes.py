"""Views and copies, in bytes: what a slice keeps, and what a copy costs.

Documents: A 3.1, B 2, B 4
"""

import copy
import gc
import io
import sys
import weakref

import numpy as np
import pytest
import torch

from sensei import answer, koan


@koan(
    claims=["B-2-05", "B-2-37"],
    see="torch.from_numpy",
    hint=[
        "del takes away a name. The memory goes when the last one that uses it has gone.",
        "Which of these read from the memory of t, and which have numbers of their own?",
        "An address is a number. Does a number hold anything?",
    ],
    why=(
        "Nothing about release is written in a tensor. The storage counts who uses it; a view, "
        "a detached tensor and an array each count as one. So `del t` returned the memory only "
        "where nobody else was left, and then at once; gc.collect() had nothing to add. On a GPU, "
        "empty_cache() comes last: it can only give away what is free by then."
    ),
    wrong={
        "[]": (
            "Some say a tensor carries the rule by which its data are released. Then del would "
            "be the end of them. But others read there, too."
        ),
        "['view']": "detach() leaves the graph, not the memory. And numpy()?",
        "['view', 'detach', 'numpy', 'address']": (
            "Who knows an address does not keep what is there. It may belong to somebody else soon."
        ),
        "['view', 'detach', 'numpy', 'mask']": "A mask selects what no stride can: it copies.",
    },
)
def test_who_holds_the_memory():
    """An array lends its memory to t. It dies at the moment this memory is released.

    Something is made from t, t is deleted, the collector runs. With which of these does the
    array live on? Write the names.
    """
    makers = {"view": lambda t: t[:1], "detach": lambda t: t.detach(), "mask": lambda t: t[t > 0]}
    makers |= {"numpy": lambda t: t.numpy(), "address": lambda t: t.data_ptr()}

    def lend(make):
        array = np.ones(8)
        t, look = torch.from_numpy(array), weakref.ref(array)
        made = make(t)
        del array, t
        return made, look

    lent = {name: lend(make) for name, make in makers.items()}
    gc.collect()
    alive = [name for name, (made, look) in lent.items() if look() is not None]
    assert alive == answer(["view", "detach", "numpy"])


@koan(
    claims=["A-3.1-07"],
    see="torch.Tensor.detach",
    hint=[
        "The flag is a flag. Whom would it make hold the tensor?",
        "One name for each tensor, and the names are deleted. Does an alias refer to the object, "
        "or to its memory?",
        "The memory has a count of its own. Is it zero?",
    ],
    why=(
        "A tensor that requires grad is counted like any other, and dies like any other. It is "
        "the storage that must last, and it does: the storage has its own count, in C++, and "
        "the alias is part of it. No reference of Python guards the memory."
    ),
    wrong={
        "[1, 1, 6.0]": (
            "Some say one reference is added, to guard the memory of a tensor that requires grad. "
            "Nobody adds one."
        ),
        "[0, 0, 0.0]": "The alias would read from memory that is gone. PyTorch never lets that be.",
        "[0, 2, 6.0]": "An alias shares the memory. It does not hold the tensor object.",
    },
)
def test_a_flag_and_a_count():
    """How many more references does `leaf` have than `plain`? Both names are deleted; how many of
    the two tensor objects are alive?

    What is the sum that the alias reads?
    """
    plain, leaf = torch.ones(3), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    more = sys.getrefcount(leaf) - sys.getrefcount(plain)
    alive = weakref.WeakSet([plain, leaf])
    aliases = [plain.detach(), leaf.detach()]
    del plain, leaf
    assert [more, len(alive), aliases[1].sum().item()] == answer([0, 0, 6.0])


@koan(
    claims=["A-3.1-10"],
    see="torch.Tensor.data_ptr",
    hint=[
        "Processors like to read many numbers at once, from an even place. Where would you start?",
        "A view takes no place of its own. How many bytes is one number?",
    ],
    why=(
        "PyTorch starts each CPU block at a multiple of 64 bytes, so two fresh tensors are never "
        "an odd number of bytes apart, and even one float takes such a place. A view starts "
        "where its first element is."
    ),
    wrong={
        "[11, 24, 15]": (
            "Some show 140234567890123 for a tensor and 140234567890456 for its gradient. No "
            "tensor was ever there: neither float32 nor PyTorch could use such a place."
        ),
        "[0, 12, 4]": "The gradient is not packed behind x. It has a block of its own.",
        "[0, 0, 0]": "A view does not choose its place.",
        "[0, 0, 1]": "Addresses count bytes, not elements.",
    },
)
def test_what_is_left_after_sixty_four():
    """Three addresses: of a fresh tensor on the CPU, of its gradient, of a view of it.

    Divide each by 64. What are the remainders?
    """
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()
    tensors = [x, x.grad, x[1:]]
    assert [tensor.data_ptr() % 64 for tensor in tensors] == answer([0, 0, 4])


@koan(
    see="torch.Tensor.__setitem__",
    hint=[
        "A list can become shorter. Can a storage that others may share?",
        "What does Python say of a tuple: `del pair[1:]`?",
    ],
    why=(
        "A tensor is a window on a block of memory, and nothing can be cut out of the block. "
        "`del` takes away names and attributes (`del x.grad` works), never elements. To give "
        "memory back, copy what you want to keep, and drop the rest as a whole."
    ),
    wrong={
        "IndexError": "The index is a good one. It is the deleting that is refused.",
        "RuntimeError": "Nearly every refusal of PyTorch is one. This one follows Python's tuple.",
        "NotImplementedError": "It is not that somebody has yet to write it.",
    },
)
def test_delete_the_second_half():
    """Only the first half is of use any more. Which exception does the deletion raise?"""
    x = torch.arange(8)
    with pytest.raises(Exception) as caught:
        del x[4:]
    assert caught.type is answer(TypeError)


@koan(
    claims=["B-4-34"],
    see="torch.Tensor.expand",
    hint=[
        "del took the names. Who still uses the storages behind `column` and `big`?",
        "Can a storage be given back in part?",
        "A float32 takes 4 bytes. Count the elements that were there in the beginning.",
    ],
    why=(
        "A view keeps the storage it reads from: all of it, and no more. The wide one keeps a "
        "small column. A single number keeps the whole matrix: nobody sees it in its shape, and "
        "that is the leak that happens in life."
    ),
    wrong={
        "[4_000_000, 4_000, 4]": (
            "Some fear the huge view of expand() and think a slice is harmless. A shape is no "
            "memory."
        ),
        "[4_000, 4_000, 4]": "A storage does not shrink when its tensor is deleted.",
        "[4_000_000, 4_000_000, 4_000_000]": "How many numbers were there to make the wide one?",
    },
)
def test_what_three_views_keep():
    """Three views, and the tensors they were made from are deleted.

    How many bytes does each view keep in memory?
    """
    column, big = torch.zeros(1000, 1), torch.zeros(1000, 1000)
    views = [column.expand(1000, 1000), big[:1], big[5, 5]]
    del column, big
    assert [view.untyped_storage().nbytes() for view in views] == answer(
        [4_000, 4_000_000, 4_000_000]
    )


@koan(
    claims=["B-4-35"],
    see="torch.Tensor.clone",
    hint=[
        "clone() writes down every element that you see. How many do you see in `wide`?",
        "contiguous() copies only what is out of order. Is one row of a matrix out of order?",
        "Two views of one storage still share it after a deepcopy of both. So what must it copy?",
    ],
    why=(
        "clone() gives each element a place of its own: small for a row, a thousand times larger "
        "for the expanded one. contiguous() had nothing to do. deepcopy copies the storage as a "
        "whole, seen or not, so that views which share it do so afterwards as well."
    ),
    wrong={
        "[4_000, 4_000, 4_000_000, 4_000_000]": (
            "Some cure an expanded tensor with clone().detach(). It was small before."
        ),
        "[4_000_000, 4_000, 4_000, 4_000]": "Which of the last two looks at the shape at all?",
        "[4_000_000, 4_000, 4_000_000, 4_000]": "deepcopy goes deeper than the window.",
        "[4_000_000, 4_000, 4_000, 4_000_000]": "A row is in order, so nothing is copied.",
    },
)
def test_four_cures():
    """`wide` shows one column a thousand times; `row` is one row of a large matrix.

    Four cures for memory that is kept. How many bytes has the storage of each result?
    """
    wide = torch.zeros(1000, 1).expand(1000, 1000)
    row = torch.zeros(1000, 1000)[0]
    cured = [wide.clone().detach(), row.clone(), row.contiguous(), copy.deepcopy(row)]
    assert [tensor.untyped_storage().nbytes() for tensor in cured] == answer(
        [4_000_000, 4_000, 4_000_000, 4_000_000]
    )


@koan(
    claims=["B-4-34", "B-4-35"],
    see="torch.Tensor.untyped_storage",
    hint=[
        "Two numbers decide: the bytes in the storage, and the bytes of the elements you see.",
        "When the storage is the smaller one, a copy would be a loss.",
    ],
    why=(
        "A copy pays where the storage is larger than what you see of it. For an expanded tensor "
        "it is the other way round, and a tensor that fills its storage is best as it is."
    ),
    wrong={
        "return t.contiguous()": (
            "A slice of whole rows is in order, so it stays; an expanded one gets its large copy."
        ),
        "return t": "A few rows would keep the whole table.",
        "return copy.deepcopy(t)": "It copies the whole storage, whatever you see of it.",
        "return t.clone() if t._base is not None else t": (
            "An expanded tensor is a view as well, and larger as a copy."
        ),
        "return t.clone() if t.is_contiguous() else t": (
            "A column of a table is not contiguous, and it keeps the table. A whole one is, and "
            "is fine."
        ),
    },
    right=[
        "return t.clone() if t.untyped_storage().nbytes() > t.nbytes else t",
        "if t.nbytes != t.untyped_storage().nbytes() and 0 not in t.stride():\n"
        "    t = t.clone()\n"
        "return t",
        "large = t.untyped_storage().nbytes() > t.nbytes\n"
        "return torch.empty(t.shape, dtype=t.dtype).copy_(t) if large else t",
    ],
)
def test_keep_as_little_as_possible():
    """`trimmed` shall return the same numbers in as few bytes as it can, and copy nothing where
    there is nothing to win. It does well with slices only. Repair the marked line."""

    def trimmed(t):
        # answer:
        if t.nbytes < t.untyped_storage().nbytes():
            return t.clone()
        return t
        # given:
        # return t.clone().detach()
        # end

    for rows, dtype in [(50, torch.float32), (80, torch.int64)]:
        table = torch.arange(rows * 10).to(dtype).reshape(rows, 10)
        size, wide = table.element_size(), torch.ones(10, 1, dtype=dtype).expand(10, 30)
        tensors = [table[:2], table[:, 3], table, table.t(), wide]
        results = [trimmed(t) for t in tensors]
        assert all(torch.equal(a, b) for a, b in zip(tensors, results, strict=True))
        held = [result.untyped_storage().nbytes() for result in results]
        assert held == [20 * size, rows * size, table.nbytes, table.nbytes, 10 * size]
        assert [results[i].data_ptr() for i in (2, 3)] == [table.data_ptr()] * 2
        assert results[4].data_ptr() == wide.data_ptr()


@koan(
    see="torch.save",
    hint=[
        "torch.save writes storages, and for each tensor how to read it: offset, shape, strides.",
        "The first rows of a table are contiguous already. Which call copies in any case?",
    ],
    why=(
        "torch.save writes the whole storage, so that views which share memory share it again "
        "after loading. For a slice this means the whole table, in the file and in memory. "
        "clone() cuts the slice loose first."
    ),
    wrong={
        "rows = table[:count].contiguous()": "They are in order already, so nothing is copied.",
        "rows = table[:count].detach()": "That cuts a graph. The storage remains the table's.",
        "rows = copy.deepcopy(table[:count])": "It copies the storage as a whole.",
        "rows = torch.as_tensor(table[:count])": "as_tensor makes no copy of a tensor.",
        "rows = table[:count].cpu()": "On the CPU it is already, so this is the same tensor.",
    },
    right=[
        "rows = torch.empty(count, 10).copy_(table[:count])",
        "rows = table[torch.arange(count)]",
        "rows = torch.tensor(table[:count].tolist())",
        "rows = torch.cat([table[:count]])",
    ],
)
def test_a_small_piece_in_a_large_file():
    """We save a few rows. The file is as large as the whole table, and so is what comes back.

    Repair the marked line.
    """

    def save(table, count, file):
        # answer:
        rows = table[:count].clone()
        # given:
        # rows = table[:count]
        # end
        torch.save({"rows": rows}, file)

    for count in (2, 5):
        table, file = torch.rand(5000, 10), io.BytesIO()
        save(table, count, file)
        assert file.tell() < 10_000
        file.seek(0)
        loaded = torch.load(file, weights_only=True)["rows"]
        assert torch.equal(loaded, table[:count])
        assert loaded.untyped_storage().nbytes() == loaded.nbytes == count * 40


@koan(
    claims=["B-4-23"],
    see="torch.Tensor.permute",
    hint=[
        "Which of these calls only change the way of reading? Then what is left for contiguous()?",
        "Twelve whole numbers, and 8 bytes each.",
        "A row of 12 out of a turned table: are there steps that lead through it?",
    ],
    why=(
        "transpose and permute make the same view; contiguous() then copies it once, into as "
        "many bytes. Turned twice, the table is in order again, and there is no copy. reshape "
        "copies where no view will do. So if memory fell after such a change, look elsewhere."
    ),
    wrong={
        "[96, 48, 0, 96]": (
            "Some report that permute needs less memory than transpose. Both are views of the "
            "same kind."
        ),
        "[96, 0, 0, 96]": "Permuted, the numbers are out of order, too.",
        "[96, 96, 96, 96]": "Turn a page twice. What is there to be put in order?",
        "[96, 96, 0, 0]": "reshape must not copy if it can help it. Can it, here?",
        "[12, 12, 0, 12]": "These are elements. How many bytes is an int64?",
    },
)
def test_turn_and_put_in_order():
    """Four ways to treat a table. How many bytes of new memory does each take?"""
    x = torch.arange(12).reshape(3, 4)
    made = [x.transpose(0, 1).contiguous(), x.permute(1, 0).contiguous()]
    made += [x.t().t().contiguous(), x.t().reshape(12)]
    new = []
    for y in made:
        storage = y.untyped_storage()
        shared = storage.data_ptr() == x.untyped_storage().data_ptr()
        new.append(0 if shared else storage.nbytes())
    assert new == answer([96, 96, 0, 96])


@koan(
    see="torch.Tensor.to",
    hint=[
        "A format is a question of strides. Does a picture need more bytes for it?",
        "Who has the format already need not move.",
        "Colours last in memory, colours last in the shape: then it reads in order.",
    ],
    why=(
        "The first call writes every number once, to another place: as many bytes as before. "
        "Asked again, it has nothing to do, and the permuted view is in order as it lies. "
        "flatten goes colour after colour, so it must copy. A mixed net pays such a copy at "
        "every change of format."
    ),
    wrong={
        "[0, 0, 0, 0]": "With strides alone the numbers cannot come to lie in another order.",
        "[480, 480, 480, 480]": "A call that finds everything as it should be returns the same.",
        "[480, 0, 480, 480]": "Write down the strides of the permuted picture.",
        "[480, 0, 0, 0]": "In which order must flatten list the numbers of one picture?",
        "[960, 0, 0, 480]": "There is one copy of the numbers in the result, not two.",
    },
)
def test_what_channels_last_costs():
    """Pictures of 480 bytes are stored with the channels last. Then we ask for it again, permute
    the result, and flatten it.

    How many bytes of new memory does each of the four take?
    """
    pictures = torch.zeros(2, 3, 4, 5)
    last = pictures.to(memory_format=torch.channels_last)
    pairs = [(pictures, last), (last, last.to(memory_format=torch.channels_last))]
    pairs += [(last, last.permute(0, 2, 3, 1).contiguous()), (last, last.flatten(1))]
    new = []
    for old, made in pairs:
        storages = old.untyped_storage(), made.untyped_storage()
        shared = storages[0].data_ptr() == storages[1].data_ptr()
        new.append(0 if shared else storages[1].nbytes())
    assert new == answer([480, 0, 0, 480])


@pytest.mark.gpu
@koan(
    claims=["B-2-22"],
    see="torch.cuda.Event.query",
    hint=[
        "Which of the calls needs the numbers themselves, here and now, on the CPU?",
        "Does it matter to the numbers whether there is a graph around them?",
    ],
    why=(
        "A copy to ordinary CPU memory waits until the GPU has made the numbers, whatever comes "
        "before or after it. detach() never touches the device. So no order avoids a wait; it "
        "only matters that you fetch rarely."
    ),
    wrong={
        "['detach, cpu']": "Some say cpu() first avoids a wait. It is cpu() that has to wait.",
        "['cpu, detach']": "Leaving the graph first does not make the numbers come sooner.",
        "['detach', 'cpu, detach', 'detach, cpu']": "detach() asks nothing of the GPU.",
        "[]": "The CPU cannot have numbers that the GPU has not made yet.",
    },
)
def test_the_order_of_detach_and_cpu():
    """The GPU is given much to do; `done` is reached after it. Then one call is made on the CPU.

    Which calls return only after the GPU was done? Write their names.
    """
    pred = torch.ones(1000, device="cuda", requires_grad=True) * 2
    calls = {"detach": pred.detach, "cpu, detach": lambda: pred.cpu().detach()}
    calls["detach, cpu"] = lambda: pred.detach().cpu()
    waited = []
    for name, call in calls.items():
        done = torch.cuda.Event()
        torch.cuda._sleep(200_000_000)
        done.record()
        call()
        if done.query():
            waited.append(name)
    assert waited == answer(["cpu, detach", "detach, cpu"])


@koan(
    claims=["B-4-16"],
    see="torch.Tensor.copy_",
    hint=[
        "The product w * doubled needs `doubled` for its backward. When does backward run?",
        "One buffer, and several batches that must all be remembered.",
    ],
    why=(
        "Each graph needs the numbers of its own step, so each step needs memory of its own. "
        "A pool made by hand is not needed either: PyTorch's allocator on the GPU keeps freed "
        "blocks and hands them out again, and it knows when they are free."
    ),
    wrong={
        "torch.mul(x, 2, out=buffer)\ndoubled = buffer": (
            "Some want a pool of tensors to write into, to spare the allocator. The graph of the "
            "last step still needs what you overwrite."
        ),
        "buffer.data.copy_(x * 2)\ndoubled = buffer": (
            "No error any more, since autograd cannot see this write. And a wrong gradient."
        ),
        "buffer.copy_(x * 2)\ndoubled = buffer.detach()": "Another tensor over the same memory.",
        "with torch.no_grad():\n    buffer.copy_(x * 2)\ndoubled = buffer": (
            "no_grad hides nothing: the write is counted."
        ),
        "doubled = x": "The batch was to be doubled.",
    },
    right=[
        "doubled = torch.mul(x, 2)",
        "buffer.copy_(x * 2)\ndoubled = buffer.clone()",
        "buffer = x * 2\ndoubled = buffer",
    ],
)
def test_one_buffer_for_all_steps():
    """To save memory, each step writes into one buffer. backward fails. Repair the marked lines."""

    def loss_of(w, batches):
        buffer, loss = torch.empty(2), 0.0
        for x in batches:
            # answer:
            doubled = x * 2
            # given:
            # buffer.copy_(x * 2)
            # doubled = buffer
            # end
            loss = loss + (w * doubled).sum()
        return loss

    for batches, wanted in [
        ([[1.0, 2.0], [3.0, 5.0]], [8.0, 14.0]),
        ([[1.0, 0.0]] * 3, [6.0, 0.0]),
    ]:
        w = torch.ones(2, requires_grad=True)
        loss_of(w, [torch.tensor(batch) for batch in batches]).backward()
        assert w.grad.tolist() == wanted


@koan(
    claims=["B-4-90", "B-4-34"],
    see="torch.Tensor.untyped_storage",
    hint=[
        "nbytes of a tensor counts what you see. Whose nbytes counts what is there?",
        "Two tensors may read from one storage. By what do you recognise it?",
        "A dict from the storage's address to its bytes counts each one once.",
    ],
    why=(
        "Each storage once, by its address, with its own bytes: then neither a wide view nor two "
        "names deceive you. A walk over all live tensors with this count finds who really holds "
        "the memory. Waiting for the GPU after each step, as some did, shows nothing of it."
    ),
    wrong={
        "return sum(t.nbytes for t in tensors)": (
            "It believes the shapes: too much for a wide view, too little for a small slice."
        ),
        "return sum(t.untyped_storage().nbytes() for t in tensors)": (
            "Right for one tensor. Two views of one storage count it twice."
        ),
        "return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())": (
            "Two windows on one storage may start at different places."
        ),
        "return sum({t.untyped_storage().data_ptr(): t.nbytes for t in tensors}.values())": (
            "The right storages, with the bytes of some window on them."
        ),
        "return sum({t.untyped_storage().nbytes() for t in tensors})": (
            "Two storages of one size are two storages."
        ),
        "return sum(t.untyped_storage().nbytes() for t in tensors if t._base is None)": (
            "Whose base is not in the list is not counted, and a detached tensor counts again."
        ),
    },
    right=[
        "return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}"
        ".values())",
        "seen, total = set(), 0\n"
        "for t in tensors:\n"
        "    storage = t.untyped_storage()\n"
        "    if storage.data_ptr() not in seen:\n"
        "        seen.add(storage.data_ptr())\n"
        "        total += storage.nbytes()\n"
        "return total",
        "return sum({t.storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}"
        ".values())",
    ],
)
def test_count_the_bytes_that_are_held():
    """Write `bytes_held`: how many bytes do these tensors keep in memory, all together?

    Then the suspects: it finds the one that is to blame.
    """

    def bytes_held(tensors):
        # answer:
        storages = [t.untyped_storage() for t in tensors]
        return sum({s.data_ptr(): s.nbytes() for s in storages}.values())
        # end

    table, other = torch.zeros(100, 10), torch.zeros(50, 20)
    assert bytes_held([table, other]) == 8000
    assert bytes_held([table[:3], table[1:], table.t(), table.detach(), table.view(-1)]) == 4000
    assert bytes_held([table[7], other[7], table.clone(), torch.zeros(0)]) == 12_000
    assert bytes_held([torch.zeros(100, 1).expand(100, 10), table.half()]) == 400 + 2000
    tied = torch.nn.ModuleList([torch.nn.Linear(5, 5), torch.nn.Linear(5, 5)])
    tied[1].weight = tied[0].weight
    assert bytes_held(tied.state_dict().values()) == 4 * (25 + 5 + 5)
    suspects = {"wide": torch.zeros(100, 1).expand(100, 100), "plain": torch.zeros(60, 10)}
    suspects["small"] = table[:1]
    assert max(suspects, key=lambda name: bytes_held([suspects[name]])) == "small"
