"""Storage: the memory under a tensor, and the strides that read it."""

import re

import pytest
import torch

from sensei import __


def test_walk_through_a_part():
    """The numbers of x lie in one line of memory. `part` reads from the same line. Write how
    far it steps in each dimension, and where it starts."""
    x = torch.arange(12).reshape(3, 4)
    part = x[1:, 1:]
    assert part.stride() == __
    assert part.storage_offset() == __


def test_do_they_share_memory():
    """Some say a tensor and its gradient have separate memory, since their id() differs. That
    is true, but it is no proof. Repair the marked line: it should tell who shares memory."""

    def share(a, b):
        # your turn:
        return id(a) == id(b)
        # end

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert [share(x, other) for other in (x.data, x[1:], x.view(2, 1))] == [True, True, True]
    assert [share(x, other) for other in (x.grad, x.clone())] == [False, False]
    assert [share(x[:1], x[1:]), share(x[1:], x.grad[1:])] == [True, False]


def test_the_data_of_a_transposed_tensor():
    """Turn a tensor of shape (2, 5), then look at its `.data`. Write the strides of both."""
    t = torch.zeros(2, 5).t()
    assert [t.stride(), t.data.stride()] == __


def test_who_refuses_gaps(device):
    """`cut` leaves out the end of each row, so it steps over a gap. Six calls, on your GPU if
    PyTorch finds one. Write the names of those that raise, as a list, in order."""
    cut = torch.ones(2, 4, device=device)[:, :3]
    calls = {"add": lambda: cut + 1, "matmul": lambda: cut @ cut.t(), "sum": lambda: cut.sum(0)}
    calls |= {"join": lambda: cut.view(6), "split": lambda: cut.view(2, 3, 1)}
    calls |= {"reshape": lambda: cut.reshape(6)}
    refused = []
    for name, call in calls.items():
        try:
            call()
        except RuntimeError:
            refused.append(name)
    assert refused == __


def test_safe_behind_contiguous():
    """Ask for contiguous tensors and fill them with zeros. What do x and t add up to then?"""
    x = torch.ones(2, 3)
    t = torch.ones(2, 3).t()
    x.contiguous().zero_()
    t.contiguous().zero_()
    assert [x.sum().item(), t.sum().item()] == __


def test_store_column_after_column():
    """Return a matrix that equals x in every place, but lies in memory column after column,
    without a gap."""

    def by_columns(x):
        # your turn:
        __
        # end

    wide, square = [[1, 2, 3], [4, 5, 6]], [[7, 8], [9, 0]]
    for rows, memory in [(wide, [1, 4, 2, 5, 3, 6]), (square, [7, 9, 8, 0])]:
        y = by_columns(torch.tensor(rows))
        assert y.tolist() == rows
        in_a_line = y.as_strided((len(memory),), (1,)).tolist()
        assert in_a_line == memory


def test_copies_before_a_matrix_product():
    """Some say contiguous() makes what follows two or three times faster. Count the copies,
    without it and with it."""

    def copies(call):
        with torch.autograd.profiler.profile() as log:
            call()
        return [event.name for event in log.function_events].count("aten::copy_")

    a, b = torch.ones(64, 64), torch.ones(64, 64)
    counts = [copies(lambda: a.t() @ b), copies(lambda: a.t().contiguous() @ b)]
    assert counts == __


def test_channels_last():
    """A picture: 1 in the batch, 3 channels, 2 rows of 5 pixels. Store it with the channels
    last. Write its shape, then its strides."""
    image = torch.zeros(1, 3, 2, 5).to(memory_format=torch.channels_last)
    assert tuple(image.shape) == __
    assert image.stride() == __


def test_a_hundred_columns_from_one():
    """Some say expand() takes no new memory, however large the result. Write the strides of
    `wide`. Then its nbytes, the bytes in its storage, and those in the storage of `copied`."""
    column = torch.zeros(100, 1)
    wide, copied = column.expand(100, 100), column.repeat(1, 100)
    storages = [tensor.untyped_storage().nbytes() for tensor in (wide, copied)]
    assert wide.stride() == __
    assert [wide.nbytes, *storages] == __


def test_write_into_an_expanded_tensor():
    """Make a table of four columns from one, then set the first one to zero. The zeros go too
    far. Repair the marked line."""

    def table_of(column):
        # your turn:
        table = column.expand(3, 4)
        # end
        table[:, 0] = 0.0
        return table

    ones, primes = torch.ones(3, 1), torch.tensor([[2.0], [3.0], [5.0]])
    assert table_of(ones).tolist() == [[0.0, 1.0, 1.0, 1.0]] * 3
    assert table_of(primes)[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert table_of(primes)[:, 1:].tolist() == [[2.0] * 3, [3.0] * 3, [5.0] * 3]
    assert primes.tolist() == [[2.0], [3.0], [5.0]]


def test_one_step_too_far():
    """as_strided takes any shape and any steps you like. These reach past the end of the memory.

    The message says how many bytes they need, 8 for each element. How many elements are that?
    """
    x = torch.arange(6)
    with pytest.raises(Exception) as caught:
        x.as_strided((3, 3), (2, 1))
    assert int(re.findall(r"size of (\d+)", str(caught.value))[0]) // 8 == __


def test_windows_without_a_copy():
    """A window of size 2 slides over [1, 3, 5]: [1, 3], then [3, 5]. Write all windows over x
    as the rows of one tensor that copies nothing: a later write must show up in them."""

    def windows(x, size):
        # your turn:
        __
        # end

    x = torch.arange(6)
    whole, odd = windows(x, 4), windows(x[1::2], 2)
    assert whole.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert odd.tolist() == [[1, 3], [3, 5]]
    x[3] = 30
    assert whole[:, 1:].tolist() == [[1, 2, 30], [2, 30, 4], [30, 4, 5]]
    assert odd.tolist() == [[1, 30], [30, 5]]
