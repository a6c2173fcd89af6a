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
    makers.update(numpy=lambda t: t.numpy(), address=lambda t: t.data_ptr())

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
        "requires_grad is a flag in the tensor. Would a flag be a reference to it?",
        "Does an alias refer to the tensor object, or to its memory?",
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
        "[0, 1, 6.0]": "An alias shares the memory. It does not hold the tensor object.",
        "[1, 0, 6.0]": "One more count would have kept the object alive after `del`.",
    },
)
def test_the_memory_of_a_leaf():
    """Some say a tensor that requires grad has one reference more, to guard its memory.

    How many more does `leaf` have than `plain`? After `del leaf`, how many leaves are alive?
    And what is the sum of the alias then?
    """
    plain = torch.tensor([1.0, 2.0, 3.0])
    leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    more = sys.getrefcount(leaf) - sys.getrefcount(plain)
    alias = leaf.detach()
    alive = weakref.WeakSet([leaf])
    del leaf
    assert [more, len(alive), alias.sum().item()] == answer([0, 0, 6.0])


@koan(
    claims=["A-3.1-10"],
    see="torch.Tensor.data_ptr",
    hint=[
        "Processors like to read many numbers at once. From which places do they do it best?",
        "A view takes no place of its own. How many bytes is one number?",
        "Does each small tensor get a page of 4096 bytes for itself?",
    ],
    why=(
        "PyTorch starts each CPU block at a multiple of 64 bytes, so two fresh tensors are never "
        "an odd number of bytes apart, and even one float takes such a place. A view starts "
        "where its first element is, here 4 bytes later."
    ),
    wrong={
        "[[1], [1]]": (
            "Some show 140234567890123 for a tensor and 140234567890456 for its gradient. No "
            "tensor was ever there: neither float32 nor PyTorch could use such a place."
        ),
        "[[1, 4], [1, 4]]": "A float32 asks for 4. PyTorch's allocator gives more.",
        "[[1, 4, 16, 64], [1, 4, 16, 64]]": "A view does not choose its place.",
        "[[1, 4, 16, 64, 4096], [1, 4]]": "So much room for each small tensor would be a waste.",
        "[[1, 4, 16, 64], [1]]": "Addresses count bytes. How far away is the second number?",
    },
)
def test_where_a_tensor_may_begin():
    """Small tensors and their gradients have memory of their own. A view of each leaves out the
    first number. Which of the five sizes divide every address of a tensor and of a gradient?

    And which divide every address of a view?
    """
    tensors = [torch.ones(size, requires_grad=True) for size in range(2, 50)]
    for tensor in tensors:
        tensor.sum().backward()
    fresh = tensors + [tensor.grad for tensor in tensors]
    found = []
    for group in (fresh, [tensor[1:] for tensor in tensors]):
        places = [tensor.data_ptr() for tensor in group]
        found.append([n for n in (1, 4, 16, 64, 4096) if all(p % n == 0 for p in places)])
    assert found == answer([[1, 4, 16, 64], [1, 4]])


@koan(
    see="torch.Tensor.resize_",
    hint=[
        "A list can become shorter. Can a storage that others may share be cut?",
        "Which of the ways take another look at the same storage, and which makes a new one?",
        "Eight numbers of 8 bytes. An exception is written by its name, as a text.",
    ],
    why=(
        "Nothing can be cut out of a block of memory: `del` takes away names and attributes "
        "(`del x.grad` works), never elements. resize_ and a slice show less of the same storage. "
        "To give memory back, copy what you want to keep, and drop the rest as a whole."
    ),
    wrong={
        "['IndexError', 64, 64, 32]": "The index is a good one. It is the deleting that is "
        "refused.",
        "['RuntimeError', 64, 64, 32]": "Most refusals come from inside PyTorch. This one says "
        "that this type has no such operation.",
        "[32, 32, 32, 32]": "A list would do so. A storage is not cut.",
        "[64, 64, 64, 32]": "Python's `del` takes away a name. Is there a name in this line?",
        "['TypeError', 32, 64, 32]": "resize_ gets new memory if it needs more. Does it need more?",
        "['TypeError', 64, 32, 32]": "A slice is a view, whoever shows it.",
        "['TypeError', 64, 64, 64]": "clone() makes room for what it sees.",
    },
)
def test_get_rid_of_the_second_half():
    """Only the first half of x is of use any more. Four lines try to drop the rest.

    How many bytes does the storage of x have after each? If it raises: which exception?
    """
    lines = ["del x[4:]", "x.resize_(4)", "x.data = x[:4]", "x.data = x[:4].clone()"]
    found = []
    for line in lines:
        x = torch.arange(8)
        try:
            exec(line)
            found.append(x.untyped_storage().nbytes())
        except Exception as error:
            found.append(type(error).__name__)
    assert found == answer(["TypeError", 64, 64, 32])


@koan(
    claims=["B-4-34", "B-4-35"],
    see="torch.Tensor.clone",
    hint=[
        "How many numbers were there to make `wide`? A shape is no memory.",
        "clone() writes down every element that you see. How many do you see in `wide`?",
        "contiguous() copies only what is out of order. Is one row of a matrix out of order?",
        "Two views of one storage still share it after a deepcopy of both. So what must it copy?",
    ],
    why=(
        "A view keeps the storage it reads from: a small column here, a whole matrix there. "
        "clone() gives each element a place of its own: small for a row, a thousand times larger "
        "for the wide one. contiguous() had nothing to do. deepcopy copies the storage as a "
        "whole, seen or not, so that views which share it do so afterwards as well."
    ),
    wrong={
        "[4_000_000, 4_000_000, 4_000, 4_000_000, 4_000_000]": (
            "Some fear the huge view that expand() makes, and that `del` is no help against it. "
            "It keeps the column, and no more."
        ),
        "[4_000, 4_000, 4_000, 4_000_000, 4_000_000]": (
            "Some cure an expanded tensor with clone().detach(). It was small before."
        ),
        "[4_000, 4_000_000, 4_000, 4_000, 4_000]": "Which of the last two looks at the shape?",
        "[4_000, 4_000_000, 4_000, 4_000_000, 4_000]": "deepcopy goes deeper than the window.",
        "[4_000, 4_000_000, 4_000, 4_000, 4_000_000]": "A row is in order, so nothing is copied.",
    },
)
def test_four_cures():
    """`wide` shows one column a thousand times; `row` is one row of a large matrix.

    How many bytes does the storage of `wide` have, and of the results of four cures?
    """
    wide = torch.zeros(1000, 1).expand(1000, 1000)
    row = torch.zeros(1000, 1000)[0]
    cured = [wide.clone().detach(), row.clone(), row.contiguous(), copy.deepcopy(row)]
    found = [tensor.untyped_storage().nbytes() for tensor in [wide, *cured]]
    assert found == answer([4_000, 4_000_000, 4_000, 4_000_000, 4_000_000])


@koan(
    claims=["B-4-34", "B-4-35"],
    see="torch.Tensor.untyped_storage",
    hint=[
        "Two numbers decide: the bytes in the storage, and the bytes of the elements you see.",
        "Which of the two is the larger one, where a copy saves something?",
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
    at={
        "torch.equal(a, b)": (
            "Each of the five results should show the same numbers as what went in."
        ),
        "assert held ==": (
            "The numbers are right, the bytes are not. Print `held`: first rows, a column, the "
            "table, the table turned, the wide one."
        ),
        "results[i].data_ptr() for i in (2, 3)": (
            "The bytes are right. But the table, or the turned one, lies at a new place, and "
            "that saved nothing."
        ),
        "results[4].data_ptr()": (
            "Nearly: only the wide one is left. It lies at a new place, and that saved nothing."
        ),
    },
)
def test_keep_as_little_as_possible():
    """`trimmed` returns the same numbers and keeps as few bytes as it can. It should clone only
    if this saves bytes, and else return what it got. Now it always clones. Repair the marked
    line."""

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
    at={
        "loaded.untyped_storage().nbytes()": (
            "The numbers are right. But the bytes are not: compare the dtype with that of the "
            "table, and the storage with the rows."
        ),
        "torch.equal(loaded": (
            "The file is small now. But what comes back should be a tensor, with just the "
            "first rows of the table."
        ),
    },
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
        "A tensor that has the format already need not move.",
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
        "buffer.copy_(x * 2)\ndoubled = buffer.clone()": (
            "The gradient is right. But x * 2 was new memory already; now it is copied twice more, "
            "and the buffer saves nothing."
        ),
        "doubled = x": "The batch was to be doubled.",
    },
    right=[
        "doubled = torch.mul(x, 2)",
        "buffer = x * 2\ndoubled = buffer",
    ],
    at={
        "w.grad.tolist() == wanted": (
            "backward runs now. But the gradient is wrong: it should see the numbers of every "
            "step, as they were then."
        ),
        "buffer._version == 0": (
            "The gradient is right. But a step still writes into the buffer, and it should "
            "stay untouched."
        ),
    },
)
def test_one_buffer_for_all_steps():
    """To save memory, each step writes into one buffer, and backward fails. Repair the marked
    lines. Copy no numbers: nothing may be written into the buffer any more."""

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
        return loss, buffer

    for batches, wanted in [
        ([[1.0, 2.0], [3.0, 5.0]], [8.0, 14.0]),
        ([[1.0, 0.0]] * 3, [6.0, 0.0]),
    ]:
        w = torch.ones(2, requires_grad=True)
        loss, buffer = loss_of(w, [torch.tensor(batch) for batch in batches])
        loss.backward()
        assert w.grad.tolist() == wanted
        assert buffer._version == 0, "a step has written into the buffer"


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
    at={
        "bytes_held([table, other])": (
            "Two tensors, each with memory of its own: this is a plain sum, in bytes."
        ),
        "table.view(-1)": (
            "Separate tensors are right. These five all look at one piece of memory, and some "
            "see only a part of it."
        ),
        "table.clone(), torch.zeros(0)": (
            "Views of one table are right. Here are rows of two tables, a copy, and an empty "
            "tensor. What is behind each?"
        ),
        "table.half()": (
            "Here is a wide view of few numbers, and a table in another dtype. Count what is "
            "there, not what you see."
        ),
        "tied.state_dict().values()": (
            "Plain tensors are right. In this state_dict two names lead to one weight. Does "
            "your count see that?"
        ),
    },
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
