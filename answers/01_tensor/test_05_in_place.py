"""In place: one memory, many names, and a counter of writes.

Documents: A 4.2
"""

import pytest
import torch

from sensei import answer, koan


@pytest.mark.tour(15)
@koan(
    see="torch.Tensor.add_",
    hint=["Which lines write into memory x already had?", "Which line moves the name x?"],
    why="x += 10 writes into the tensor both names share. x = x + 10 makes another tensor and "
    "moves one name to it; from then on kept is alone with the old one.",
    wrong={
        "[30.0, 30.0]": "kept is no link to the name x. One of the three lines gives that name "
        "to another tensor.",
        "[0.0, 0.0]": "So it would be with Python's numbers, which cannot change. A tensor can.",
        "[20.0, 20.0]": "True if both += lines reached the first tensor. When the last one runs, "
        "where does x point?",
    },
)
def test_two_names_for_one_tensor():
    """Three lines that look alike. What does the other name see at the end?"""
    x = torch.zeros(2)
    kept = x
    x += 10
    x = x + 10
    x += 10
    assert kept.tolist() == answer([10.0, 10.0])


@koan(
    see="torch.autograd.graph.increment_version",
    hint=[
        "The counter asks one thing: was something written into x's memory?",
        "Go line by line. Not every write has an underscore, and not every call is a write.",
    ],
    why="add_ and fill_, the index assignment and out= write into x; add returns something new.",
    wrong={
        "5": "One of these lines leaves x as it was, and gives you a result that nobody kept.",
        "2": "An underscore marks a write, but a write can come without one.",
        "3": "One kind of write is still missing. Which lines change what x holds?",
    },
)
def test_how_many_writes_were_counted():
    """A tensor counts the writes into it, in `_version`. A new tensor starts at 0."""
    x = torch.zeros(3)
    x.add_(1)
    x.add(1)
    x[0] = 7
    torch.mul(x, 2, out=x)
    x.fill_(5)
    assert x._version == answer(4)


@koan(
    claims=["A-4.2-10"],
    see="torch.Tensor.detach",
    hint="detach() lets go of the history. Does that need new memory?",
    why="detach() gives a second tensor over the same memory. Only clone() copies numbers.",
    wrong={
        "[1.0, 2.0, 3.0]": "Some say the detached tensor is a copy. It is another tensor over the "
        "same numbers, so a write through one is seen through the other.",
        "[9.0, 9.0, 9.0]": "The write went to one element only.",
    },
)
def test_a_write_through_the_detached_tensor():
    """Change the detached tensor, then look at the first one."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x.detach()
    y[0] = 9
    assert x.tolist() == answer([9.0, 2.0, 3.0])


@koan(
    see="torch.Tensor.clone",
    hint=[
        "The snapshot must have numbers of its own, and no flag.",
        "No single method here does both.",
    ],
    why="detach() drops the flag, clone() copies the numbers. A snapshot needs both.",
    wrong={
        "snapshot = weight.clone()": "The numbers stay, but the copy still asks for gradients.",
        "snapshot = weight.data": "An older way to let go of the history. It copies nothing.",
    },
    right=["snapshot = weight.clone().detach()"],
    at={
        "snapshot.tolist()": (
            "The weight has been wiped by now, and this line reads the snapshot: the old "
            "numbers should be in it. Whose memory does it read?"
        ),
        "not snapshot.requires_grad": (
            "The numbers stay, as they should. This line asks the snapshot for its flag: nobody "
            "should want a gradient for it."
        ),
    },
)
def test_a_snapshot_that_stays():
    """The snapshot is wiped together with the weight. Repair the marked line: the snapshot keeps
    its numbers and does not require grad."""
    for numbers in ([1.0, 2.0], [3.0, 4.0, 5.0]):
        weight = torch.tensor(numbers, requires_grad=True)
        # answer:
        snapshot = weight.detach().clone()
        # given:
        # snapshot = weight.detach()
        # end
        torch.nn.init.zeros_(weight)
        assert snapshot.tolist() == numbers
        assert not snapshot.requires_grad


@koan(
    see="torch.autograd.graph.increment_version",
    hint=[
        "The counter does not belong to single elements.",
        "Four of the five share memory. But sharing memory is not yet sharing the counter.",
    ],
    why="Views and detach() share memory and counter, so autograd notices a write through any of "
    "them. .data shares the memory only: its writes go unseen. clone() shares nothing.",
    wrong={
        "[1, 0, 1, 0, 0]": "True, tail's own numbers did not change. But the counter is kept for "
        "the whole family, not for each part.",
        "[1, 1, 0, 0, 0]": "detach() leaves the history, but it does not leave the family.",
        "[1, 1, 1, 1, 0]": "One of them sees the new numbers and yet has a counter of its own.",
    },
)
def test_who_noticed_the_write():
    """One write through a slice. Give the five counters, in order."""
    x = torch.zeros(4)
    tail, detached, data, clone = x[2:], x.detach(), x.data, x.clone()
    x[:2].add_(1)
    counters = [t._version for t in (x, tail, detached, data, clone)]
    assert counters == answer([1, 1, 1, 0, 0])


@koan(
    see="torch.Tensor.requires_grad_",
    hint="A gradient tells what a very small step changes. Which numbers can take small steps?",
    why="Whole numbers and bools have no small steps. Floats of every width have them, and so have "
    "complex numbers.",
    wrong={
        "[torch.float16]": "Complex numbers change smoothly, too.",
        "[torch.int64, torch.float16, torch.complex64]": "A whole number cannot take a small step.",
        "[torch.int64, torch.float16, torch.bool, torch.complex64]": "The flag is more than a note "
        "on the tensor: some dtypes are refused.",
    },
    right=["[torch.half, torch.cfloat]"],
)
def test_who_may_carry_the_flag():
    """requires_grad_() sets a flag on the tensor itself. List the dtypes that accept it."""
    able = []
    for dtype in (torch.int64, torch.float16, torch.bool, torch.complex64):
        try:
            torch.zeros(1, dtype=dtype).requires_grad_()
            able.append(dtype)
        except RuntimeError:
            pass
    assert able == answer([torch.float16, torch.complex64])


@koan(
    see="torch.Tensor.detach",
    hint=[
        "Memory and flag are kept in different places: the flag sits on the tensor.",
        "You need a second tensor over the same memory, and only then the flag.",
    ],
    why="The flag belongs to the tensor, the numbers to the storage. Two tensors over one storage "
    "may disagree about the flag.",
    wrong={
        "y = x.requires_grad_()": "It returns x itself, so x has the flag as well.",
        "y = x.clone().requires_grad_()": "The flags are right, but the numbers are a copy.",
        "y = x\ny.requires_grad = True": "A second name is not a second tensor.",
    },
    right=["y = x.view(3).requires_grad_()", "y = x.detach()\ny.requires_grad = True"],
    at={
        "x.requires_grad, y.requires_grad": (
            "This line looks at the two flags: `x` should be without, `y` should be with. Print "
            "both, and ask whether `x` and `y` are two tensors."
        ),
        "y.tolist()": (
            "Both flags are right. Here `x` has been written to, and `y` should show the same "
            "three numbers. Whose memory does it read?"
        ),
    },
)
def test_one_memory_and_two_flags():
    """Make y: the same memory as x, but only y requires grad."""
    x = torch.zeros(3)
    # answer:
    y = x.detach().requires_grad_()
    # end
    assert [x.requires_grad, y.requires_grad] == [False, True]
    x.fill_(8)
    assert y.tolist() == [8.0, 8.0, 8.0]


@koan(
    aliases=["test_a_write_that_is_refused"],
    see="torch.Tensor.requires_grad_",
    hint=[
        "weight was made by you and not by an operation. Which writes end in its memory?",
        "And which of those would autograd see? Something here has let go of the history.",
    ],
    why=(
        "The gradient is wanted for weight as you made it. A recorded write, to all of it or to a "
        "view of it, would make it the result of an operation, so PyTorch refuses. A result may "
        "be written to, and detach() writes past autograd: that is allowed, and it is up to you."
    ),
    wrong={
        "['all']": "A part of weight is a view, and a write to a view lands in weight.",
        "['all', 'part', 'detached', 'result']": (
            "Not everything near a gradient is refused. What was computed may be written to."
        ),
        "['all', 'part', 'result']": (
            "weight * 2 is new memory, and autograd can note one more operation on it."
        ),
        "['all', 'part', 'detached']": (
            "The memory is the same, true. But the detached tensor has no flag of its own, "
            "so nothing is recorded, and nobody objects."
        ),
        "[]": "Autograd records some of these writes, and one kind it cannot record.",
    },
)
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
    assert refused == answer(["all", "part"])


@koan(
    see="torch.Tensor.copy_",
    hint=[
        "The name inside load_ is yours alone; the memory is shared with the caller.",
        "A recorded write is refused here. How do you write without recording?",
        "The counter must see the write. One of the ways around the refusal hides it.",
    ],
    why="Under no_grad the write is not recorded, but it is counted. copy_ writes numbers into "
    "memory that is there; shape, dtype and flag stay.",
    wrong={
        "parameter = values": "This only moves the name inside the function.",
        "parameter.copy_(values)": "PyTorch wants to record this write, and must refuse it.",
        "parameter.data.copy_(values)": "The numbers arrive, but the counter does not see them.",
        "parameter.data = values": "The numbers are there, but in the memory of values. Whoever "
        "shares memory with the parameter still has the old ones.",
        "with torch.no_grad():\n    parameter = values": "Nothing is recorded, "
        "and nothing is written: the line moves the name inside the function.",
        "with torch.no_grad():\n    parameter = parameter * 0 + values": "Nothing is recorded, "
        "and nothing is written: this makes a new tensor.",
    },
    right=[
        "with torch.no_grad():\n    parameter[:] = values",
        "parameter.detach().copy_(values)",
    ],
    at={
        "weight.tolist() == numbers": (
            "This line reads the parameter after the call: are the new numbers in it, the first "
            "time and the second time?"
        ),
        "assert weight.requires_grad": (
            "The numbers have arrived. This line looks at the flag of the parameter: it was on, "
            "and it should still be on."
        ),
        "weight.data_ptr() == address": (
            "Numbers and flag are right. But they lie at another address than before: these are "
            "the right numbers in new memory."
        ),
        "weight._version == count": (
            "Numbers, flag and memory are right. This line asks the counter: did it see each "
            "call, and exactly one write in each?"
        ),
    },
)
def test_load_new_numbers_into_a_parameter():
    """Write load_: put the values into the parameter's own memory. The flag stays on, and each
    call is one counted write."""

    def load_(parameter, values):
        # answer:
        with torch.no_grad():
            parameter.copy_(values)
        # end

    weight = torch.zeros(2, requires_grad=True)
    address = weight.data_ptr()
    for count, numbers in enumerate([[1.0, 2.0], [3.0, 4.0]], start=1):
        load_(weight, torch.tensor(numbers))
        assert weight.tolist() == numbers
        assert weight.requires_grad
        assert weight.data_ptr() == address
        assert weight._version == count
