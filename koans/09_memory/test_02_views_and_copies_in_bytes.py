"""Views and copies, in bytes: what a slice keeps, and what a copy costs."""

import copy
import gc
import io
import sys
import weakref

import numpy as np
import pytest
import torch

from sensei import __


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
    assert alive == __


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
    assert [more, len(alive), alias.sum().item()] == __


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
    assert found == __


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
    assert found == __


def test_four_cures():
    """`wide` shows one column a thousand times; `row` is one row of a large matrix.

    How many bytes does the storage of `wide` have, and of the results of four cures?
    """
    wide = torch.zeros(1000, 1).expand(1000, 1000)
    row = torch.zeros(1000, 1000)[0]
    cured = [wide.clone().detach(), row.clone(), row.contiguous(), copy.deepcopy(row)]
    found = [tensor.untyped_storage().nbytes() for tensor in [wide, *cured]]
    assert found == __


def test_keep_as_little_as_possible():
    """`trimmed` returns the same numbers and keeps as few bytes as it can. It should clone only
    if this saves bytes, and else return what it got. Now it always clones. Repair the marked
    line."""

    def trimmed(t):
        # your turn:
        return t.clone().detach()
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


def test_a_small_piece_in_a_large_file():
    """We save a few rows. The file is as large as the whole table, and so is what comes back.

    Repair the marked line.
    """

    def save(table, count, file):
        # your turn:
        rows = table[:count]
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
    assert new == __


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
    assert new == __


@pytest.mark.gpu
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
    assert waited == __


def test_one_buffer_for_all_steps():
    """To save memory, each step writes into one buffer, and backward fails. Repair the marked
    lines. Copy no numbers: nothing may be written into the buffer any more."""

    def loss_of(w, batches):
        buffer, loss = torch.empty(2), 0.0
        for x in batches:
            # your turn:
            buffer.copy_(x * 2)
            doubled = buffer
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


def test_count_the_bytes_that_are_held():
    """Write `bytes_held`: how many bytes do these tensors keep in memory, all together?

    Then the suspects: it finds the one that is to blame.
    """

    def bytes_held(tensors):
        # your turn:
        __
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
