"""Storage: the memory under a tensor, and the strides that read it."""

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
    """Some prove with id() that two tensors live in separate memory. PyTorch does not agree.
    Repair the marked line, so that it tells who really shares memory with x."""

    def share(a, b):
        # your turn:
        return id(a) == id(b)
        # end

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert [share(x, other) for other in (x.data, x.detach(), x[1:])] == [True, True, True]
    assert [share(x, other) for other in (x.grad, x.clone())] == [False, False]


def test_the_data_of_a_transposed_tensor():
    """Turn a tensor of shape (2, 5), then look at its `.data`. Write the strides of both."""
    t = torch.zeros(2, 5).t()
    assert [t.stride(), t.data.stride()] == __


def test_who_refuses_gaps(device):
    """Five calls on a transposed tensor, on the best device here. Write the names of those
    that raise, as a list, in order."""
    t = torch.ones(2, 3, device=device).t()
    calls = {"add": lambda: t + 1, "matmul": lambda: t @ t.t(), "sum": lambda: t.sum(0)}
    calls |= {"view": lambda: t.view(6), "reshape": lambda: t.reshape(6)}
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

    for x in (torch.arange(6).reshape(2, 3), torch.arange(20).reshape(5, 4)):
        y = by_columns(x)
        assert y.tolist() == x.tolist()
        assert y.t().is_contiguous()


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
    last. Write its shape and its strides."""
    image = torch.zeros(1, 3, 2, 5).to(memory_format=torch.channels_last)
    assert tuple(image.shape) == __
    assert image.stride() == __


def test_a_hundred_columns_from_one():
    """Make a hundred columns from one, in two ways. Write the strides of `wide`. Then its
    nbytes, the bytes in its storage, and the bytes in the storage of `copied`."""
    column = torch.zeros(100, 1)
    wide, copied = column.expand(100, 100), column.repeat(1, 100)
    storages = [tensor.untyped_storage().nbytes() for tensor in (wide, copied)]
    assert wide.stride() == __
    assert [wide.nbytes, *storages] == __


def test_write_into_an_expanded_tensor():
    """Fill a table with a column, then write into its first row. PyTorch refuses. Repair the
    marked line."""

    def table_of(column):
        # your turn:
        table = column.expand(3, 4)
        # end
        table[0] = torch.arange(4.0)
        return table

    ones, primes = torch.ones(3, 1), torch.tensor([[2.0], [3.0], [5.0]])
    assert table_of(ones).sum(dim=1).tolist() == [6.0, 4.0, 4.0]
    assert table_of(primes).tolist() == [[0.0, 1.0, 2.0, 3.0], [3.0] * 4, [5.0] * 4]
    assert primes.tolist() == [[2.0], [3.0], [5.0]]


def test_one_step_too_far():
    """as_strided takes any shape and any steps you like. These ones reach past the end of the
    memory. Which exception does it raise?"""
    x = torch.arange(6)
    with pytest.raises(Exception) as caught:
        x.as_strided((3, 3), (2, 1))
    assert caught.type is __


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
