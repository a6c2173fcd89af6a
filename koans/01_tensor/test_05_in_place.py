"""In place: one memory, many names, and a counter of writes."""

import pytest
import torch

from sensei import __


@pytest.mark.tour(15)
def test_two_names_for_one_tensor():
    """Three lines that look alike. What does the other name see at the end?"""
    x = torch.zeros(2)
    kept = x
    x += 10
    x = x + 10
    x += 10
    assert kept.tolist() == __


def test_how_many_writes_were_counted():
    """A tensor counts the writes into it, in `_version`. A new tensor starts at 0."""
    x = torch.zeros(3)
    x.add_(1)
    x.add(1)
    x[0] = 7
    torch.mul(x, 2, out=x)
    x.fill_(5)
    assert x._version == __


def test_a_write_through_the_detached_tensor():
    """Change the detached tensor, then look at the first one."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x.detach()
    y[0] = 9
    assert x.tolist() == __


def test_a_snapshot_that_stays():
    """The snapshot is wiped together with the weight. Repair the marked line: the snapshot keeps
    its numbers and does not require grad."""
    for numbers in ([1.0, 2.0], [3.0, 4.0, 5.0]):
        weight = torch.tensor(numbers, requires_grad=True)
        # your turn:
        snapshot = weight.detach()
        # end
        torch.nn.init.zeros_(weight)
        assert snapshot.tolist() == numbers
        assert not snapshot.requires_grad


def test_who_noticed_the_write():
    """One write through a slice. Give the five counters, in order."""
    x = torch.zeros(4)
    tail, detached, data, clone = x[2:], x.detach(), x.data, x.clone()
    x[:2].add_(1)
    counters = [t._version for t in (x, tail, detached, data, clone)]
    assert counters == __


def test_who_may_carry_the_flag():
    """requires_grad_() sets a flag on the tensor itself. List the dtypes that accept it."""
    able = []
    for dtype in (torch.int64, torch.float16, torch.bool, torch.complex64):
        try:
            torch.zeros(1, dtype=dtype).requires_grad_()
            able.append(dtype)
        except RuntimeError:
            pass
    assert able == __


def test_one_memory_and_two_flags():
    """Make y: the same memory as x, but only y requires grad."""
    x = torch.zeros(3)
    # your turn:
    __
    # end
    assert [x.requires_grad, y.requires_grad] == [False, True]
    x.fill_(8)
    assert y.tolist() == [8.0, 8.0, 8.0]


def test_which_writes_are_refused():
    """weight requires grad, and you made it. Four ways to add in place: which are refused?

    Write their names as a list, in order.
    """
    weight = torch.zeros(2, requires_grad=True)
    writes = {"all": weight, "part": weight[:1], "detached": weight.detach(), "result": weight * 2}
    refused = []
    for name, target in writes.items():
        try:
            target.add_(1)
        except RuntimeError:
            refused.append(name)
    assert refused == __


def test_load_new_numbers_into_a_parameter():
    """Write load_: put the values into the parameter's own memory. The flag stays on, and each
    call is one counted write."""

    def load_(parameter, values):
        # your turn:
        __
        # end

    weight = torch.zeros(2, requires_grad=True)
    address = weight.data_ptr()
    for count, numbers in enumerate([[1.0, 2.0], [3.0, 4.0]], start=1):
        load_(weight, torch.tensor(numbers))
        assert weight.tolist() == numbers
        assert weight.requires_grad
        assert weight.data_ptr() == address
        assert weight._version == count
