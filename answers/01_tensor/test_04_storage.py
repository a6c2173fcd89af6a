"""Storage: the memory under a tensor, and the strides that read it.

Documents: A 2.1, A 2.2, A 3.1, B 2, B 4
"""

import re

import pytest
import torch

from sensei import answer, koan


@koan(
    claims=["A-2.2-03", "B-2-06"],
    see="torch.Tensor.stride",
    hint=[
        "One stride per dimension: how many elements to walk to the next index of it?",
        "Write the 12 numbers in one line. How far apart are two neighbours of one column?",
    ],
    why=(
        "A tensor is a way to read a storage: where to start and how far to step. Cutting out a "
        "part changes the start and the shape. The steps stay, since the memory stays. data, "
        "grad and grad_fn alone, which some call the core of a tensor, could not tell x from part."
    ),
    wrong={
        ("(3, 1)", "5"): (
            "A fresh tensor of this shape would step so. This one walks in the memory of x."
        ),
        ("(4, 1)", "0"): "It does not begin at the first number: a row and a column were skipped.",
        ("(32, 8)", "40"): "NumPy counts strides in bytes. PyTorch counts elements.",
    },
    at={
        "part.stride()": (
            "This line asks how far `part` walks in the memory of `x`: to its next row, then to "
            "its next column."
        ),
        "part.storage_offset()": (
            "The strides are right. This line asks where `part` starts. Count the numbers in the "
            "memory of `x` that come before the first of `part`."
        ),
    },
)
def test_walk_through_a_part():
    """The numbers of x lie in one line of memory. `part` reads from the same line. Write how
    far it steps in each dimension, and where it starts."""
    x = torch.arange(12).reshape(3, 4)
    part = x[1:, 1:]
    assert part.stride() == answer((4, 1))
    assert part.storage_offset() == answer(5)


@koan(
    claims=["A-2.1-07", "A-3.1-09"],
    see="torch.Tensor.untyped_storage",
    hint=[
        "id() tells Python objects apart. A tensor object is only a label on a piece of memory.",
        "data_ptr() is where a tensor's first element lies. Two readers may start apart.",
        "Ask both for the storage they read from, and compare where these begin.",
    ],
    why=(
        "x.data is a new Python object at each call, over the same memory. Only the address of "
        "the storage tells who shares it. The gradient, in contrast, has memory of its own."
    ),
    wrong={
        "return id(a.data) == id(b.data)": (
            "Each `.data` makes a new Python object, and a dead object's id may be used again."
        ),
        "return a.data_ptr() == b.data_ptr()": (
            "x[1:] starts one element later, in the memory of x all the same."
        ),
        "return b._base is a or b.data_ptr() == a.data_ptr()": (
            "It finds a part of a. But two parts of one memory need not be parts of each other."
        ),
        "return a is b": "That asks for one Python object. Many objects can share one memory.",
        "return a.shape == b.shape": "The gradient has the shape of x, and other memory.",
    },
    right=[
        "return a.untyped_storage()._cdata == b.untyped_storage()._cdata",
        "mine, other = a.untyped_storage(), b.untyped_storage()\n"
        "return mine.data_ptr() == other.data_ptr()",
    ],
    at={
        "x.data, x[1:]": (
            "All three read the memory of `x`, though not all from its start, so `share` should "
            "say yes each time. Which answer is off?"
        ),
        "x.clone()": (
            "All that read the memory of `x` are found. These two have memory of their own. Do "
            "you compare something in which other tensors may be like `x`?"
        ),
        "share(x[:1], x[1:])": (
            "Everything compared with `x` itself is right. Now two parts of it are compared, "
            "then a part of `x` and a part of the gradient."
        ),
    },
)
def test_do_they_share_memory():
    """Some say a tensor and its gradient have separate memory, since their id() differs. That
    is true, but it is no proof. Repair the marked line: it should tell who shares memory."""

    def share(a, b):
        # answer:
        return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
        # given:
        # return id(a) == id(b)
        # end

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert [share(x, other) for other in (x.data, x[1:], x.view(2, 1))] == [True, True, True]
    assert [share(x, other) for other in (x.grad, x.clone())] == [False, False]
    assert [share(x[:1], x[1:]), share(x[1:], x.grad[1:])] == [True, False]


@koan(
    claims=["A-2.2-04"],
    see="torch.Tensor.t",
    hint=[
        "t() moves nothing in memory. How does it read columns as rows?",
        "`.data` is a tensor too. Does it move anything?",
    ],
    why=(
        "t() swaps the strides, no more. `.data` is one more tensor over the same storage, with "
        "the same strides: no raw block, and exactly as contiguous as t itself. It also hides "
        "from autograd, so detach() is the safer way to say it."
    ),
    wrong={
        "[(1, 5), (2, 1)]": (
            "Some say `.data` points to a contiguous block. It is a tensor that reads like t does."
        ),
        "[(2, 1), (2, 1)]": (
            "A new tensor of shape (5, 2) would step so. t() writes no new memory."
        ),
        "[(5, 1), (5, 1)]": "These are the steps before the turn. Rows and columns changed places.",
        "[(1, 5), (5, 1)]": "`.data` does not go back to the tensor that t was made from.",
    },
)
def test_the_data_of_a_transposed_tensor():
    """Turn a tensor of shape (2, 5), then look at its `.data`. Write the strides of both."""
    t = torch.zeros(2, 5).t()
    assert [t.stride(), t.data.stride()] == answer([(1, 5), (1, 5)])


@koan(
    claims=["B-4-17"],
    see="torch.Tensor.view",
    hint=[
        "Most operations are told the strides and walk along them, over gaps too.",
        "view never copies. For which of its two shapes are there steps over this memory?",
    ],
    why=(
        "Operations read through strides, on the CPU and on CUDA alike. Only view must find new "
        "strides for the old memory. Over one row after the other, with a gap between, no single "
        "step leads through all six; to add a dimension inside is no trouble. reshape copies."
    ),
    wrong={
        "['add', 'matmul', 'sum', 'join', 'split', 'reshape']": (
            "Some say kernels demand contiguous memory. They take strides; just try them."
        ),
        "['matmul', 'join', 'split', 'reshape']": (
            "A matrix product reads such an operand as it is: its routine is told the steps."
        ),
        "['join', 'split', 'reshape']": "One of the three is allowed to copy when it must.",
        "['join', 'split']": (
            "view has nothing against gaps as such. Can you say how far to step, for each shape?"
        ),
        "[]": "No copy and no fitting strides: then something has to give.",
    },
)
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
    assert refused == answer(["join"])


@koan(
    claims=["B-4-20"],
    see="torch.Tensor.contiguous",
    hint=[
        "contiguous() promises a layout. Does it promise a new tensor?",
        "Which of the two has something to do for it?",
    ],
    why=(
        "What is contiguous already comes back as the very same object, so zero_() hits x. Only "
        "the transposed one is copied. To be safe from writes, say clone()."
    ),
    wrong={
        "[6.0, 6.0]": "Some say contiguous() copies. It does so only where it must.",
        "[0.0, 0.0]": "To put the elements in another order, it needs other memory.",
        "[6.0, 0.0]": "Nearly. Which of the two is in order already?",
    },
)
def test_safe_behind_contiguous():
    """Ask for contiguous tensors and fill them with zeros. What do x and t add up to then?"""
    x = torch.ones(2, 3)
    t = torch.ones(2, 3).t()
    x.contiguous().zero_()
    t.contiguous().zero_()
    assert [x.sum().item(), t.sum().item()] == answer([0.0, 6.0])


@koan(
    see="torch.Tensor.is_contiguous",
    hint=[
        "contiguous() writes row after row. In which tensor are the columns of x its rows?",
        "Three small steps. The last one brings the shape back and moves nothing.",
    ],
    why=(
        "Shape and layout are two things. Turn, put the turned one in order, turn back: the "
        "numbers read as before and lie column after column. Fortran and MATLAB store so."
    ),
    wrong={
        "return x.contiguous()": "x is in order already, row after row, so nothing happens.",
        "return x.t().contiguous()": "The memory is right. But now rows and columns are swapped.",
        "return x.t().t()": "Two turns only swap the strides twice. Nobody wrote to memory.",
        "return x.as_strided(x.shape, (1, len(x)))": (
            "The right strides, over numbers that were never moved: they read in a wrong order."
        ),
        "return x.t().reshape(x.shape)": "reshape keeps the reading order, so the places change.",
    },
    right=[
        "return x.mT.contiguous().mT",
        "return x.t().clone(memory_format=torch.contiguous_format).t()",
        "return torch.empty_strided(x.shape, (1, len(x)), dtype=x.dtype).copy_(x)",
    ],
    at={
        "y.tolist() == rows": (
            "This line reads `y` in the usual way: it must equal `x` in every place. The order "
            "in memory is only looked at after that."
        ),
        "in_a_line == memory": (
            "`y` equals `x` in every place. This line reads its memory from one end: do the "
            "numbers of a column lie side by side, without a gap?"
        ),
    },
)
def test_store_column_after_column():
    """Return a matrix that equals x in every place, but lies in memory column after column,
    without a gap."""

    def by_columns(x):
        # answer:
        return x.t().contiguous().t()
        # end

    wide, square = [[1, 2, 3], [4, 5, 6]], [[7, 8], [9, 0]]
    for rows, memory in [(wide, [1, 4, 2, 5, 3, 6]), (square, [7, 9, 8, 0])]:
        y = by_columns(torch.tensor(rows))
        assert y.tolist() == rows
        in_a_line = y.as_strided((len(memory),), (1,)).tolist()
        assert in_a_line == memory


@koan(
    claims=["B-4-19", "B-4-21"],
    see="torch.autograd.profiler.profile",
    hint=[
        "The profiler lists every operation, also those called by others.",
        "Does a matrix product need its operand turned in memory, or can it read it turned?",
    ],
    why=(
        "A matrix product takes the turned operand as it lies; contiguous() only adds a copy. "
        "Where a strided tensor is read many times, that copy may pay. So measure, do not guess."
    ),
    wrong={
        "[1, 1]": "A matrix product can read rows as columns. It has nothing to put in order.",
        "[1, 0]": "contiguous() is the one that moves memory; it does not save anybody a move.",
        "[0, 0]": "a.t() is not contiguous, so there is work to do for somebody.",
    },
)
def test_copies_before_a_matrix_product():
    """Some say contiguous() makes what follows two or three times faster. Count the copies,
    without it and with it."""

    def copies(call):
        with torch.autograd.profiler.profile() as log:
            call()
        return [event.name for event in log.function_events].count("aten::copy_")

    a, b = torch.ones(64, 64), torch.ones(64, 64)
    counts = [copies(lambda: a.t() @ b), copies(lambda: a.t().contiguous() @ b)]
    assert counts == answer([0, 1])


@koan(
    see="torch.Tensor.to",
    hint=[
        "A memory format decides where the elements lie, not how you index them.",
        "Now the three channels of one pixel are neighbours. Then comes the next pixel of the row.",
    ],
    why=(
        "The shape still reads batch, channel, height, width. Only the strides changed: 1 from "
        "channel to channel, 3 from pixel to pixel, 15 from row to row."
    ),
    wrong={
        ("(1, 2, 5, 3)", "(30, 15, 3, 1)"): (
            "permute would move the channels to the end of the shape. A format does not touch it."
        ),
        ("(1, 3, 2, 5)", "(30, 10, 5, 1)"): (
            "These are the strides of the default format. The elements were moved in memory."
        ),
        ("(1, 3, 2, 5)", "(30, 1, 3, 6)"): "Memory runs along a row first, then to the next row.",
    },
    right=[
        ("torch.Size([1, 3, 2, 5])", "(30, 1, 15, 3)"),
        ("torch.Size((1, 3, 2, 5))", "(30, 1, 15, 3)"),
    ],
    at={
        "tuple(image.shape)": (
            "This line asks for the shape: the sizes, in the order in which you index. Does a "
            "memory format have a say in that?"
        ),
        "image.stride()": (
            "The shape is right. For the strides, follow the memory: the channels of one pixel, "
            "then the next pixel, then the next row."
        ),
    },
)
def test_channels_last():
    """A picture: 1 in the batch, 3 channels, 2 rows of 5 pixels. Store it with the channels
    last. Write its shape, then its strides."""
    image = torch.zeros(1, 3, 2, 5).to(memory_format=torch.channels_last)
    assert tuple(image.shape) == answer((1, 3, 2, 5))
    assert image.stride() == answer((30, 1, 15, 3))


@koan(
    claims=["B-4-33"],
    see="torch.Tensor.expand",
    hint=[
        "A float32 takes four bytes. nbytes multiplies that by the number of elements.",
        "How far must you step to meet the same element again?",
    ],
    why=(
        "expand makes a view whose new dimension has stride 0: every step stays on the same "
        "element. nbytes tells what it would take; the storage holds the column alone."
    ),
    wrong={
        ("(1, 0)", "[40_000, 40_000, 40_000]"): "The large tensor is there for the eye only.",
        ("(100, 1)", "[40_000, 400, 40_000]"): "With such steps it would leave its storage.",
        ("(1, 0)", "[400, 400, 40_000]"): (
            "nbytes counts elements as you see them. It does not ask the memory."
        ),
    },
    at={
        "wide.stride()": (
            "This line asks how far `wide` steps in memory: to its next row, then to its next "
            "column. Where do the new columns get their numbers?"
        ),
        "wide.nbytes, *storages": (
            "The strides are right. Now three numbers of bytes: the elements as you see them, "
            "then two blocks of memory. How many elements lie in each block?"
        ),
    },
)
def test_a_hundred_columns_from_one():
    """Some say expand() takes no new memory, however large the result. Write the strides of
    `wide`. Then its nbytes, the bytes in its storage, and those in the storage of `copied`."""
    column = torch.zeros(100, 1)
    wide, copied = column.expand(100, 100), column.repeat(1, 100)
    storages = [tensor.untyped_storage().nbytes() for tensor in (wide, copied)]
    assert wide.stride() == answer((1, 0))
    assert [wide.nbytes, *storages] == answer([40_000, 400, 40_000])


@koan(
    see="torch.Tensor.clone",
    hint=[
        "Print the whole table after the write, and the column that it was made from.",
        "After expand, four cells of a row are one cell of memory. What does a write to one mean?",
    ],
    why=(
        "Each row was one cell of memory, seen four times, so the write hit the whole row and the "
        "column itself. PyTorch refuses such a write only where it sees it: table[0] = 0 raises. "
        "clone() (or contiguous(), or repeat) gives each element its own cell."
    ),
    wrong={
        "table = column.expand(3, 4).type_as(column)": (
            "It copies when the dtype changes, so it helps now and then. Here nothing changes."
        ),
        "table = column.expand(3, 4).detach()": "It leaves the graph and keeps the memory.",
        "table = column.clone().expand(3, 4)": (
            "Now the column is safe. But it is still one cell for four elements."
        ),
    },
    right=[
        "table = column.expand(3, 4).contiguous()",
        "table = column.repeat(1, 4)",
        "table = column * torch.ones(4)",
        "table = torch.cat([column] * 4, dim=1)",
    ],
    at={
        "table_of(ones)": (
            "This line wants zeros in the first column, and the other columns as they were. "
            "Print your table: what is in each cell?"
        ),
        "table_of(primes)[:, 1:]": (
            "The zeros are where they should be. But the other columns do not hold the numbers "
            "of the column that was handed in. Print the table."
        ),
        "primes.tolist()": (
            "The table is right. But the column that was handed in has been written to as well. "
            "Whose memory does the table use?"
        ),
    },
)
def test_write_into_an_expanded_tensor():
    """Make a table of four columns from one, then set the first one to zero. The zeros go too
    far. Repair the marked line."""

    def table_of(column):
        # answer:
        table = column.expand(3, 4).clone()
        # given:
        # table = column.expand(3, 4)
        # end
        table[:, 0] = 0.0
        return table

    ones, primes = torch.ones(3, 1), torch.tensor([[2.0], [3.0], [5.0]])
    assert table_of(ones).tolist() == [[0.0, 1.0, 1.0, 1.0]] * 3
    assert table_of(primes)[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert table_of(primes)[:, 1:].tolist() == [[2.0] * 3, [3.0] * 3, [5.0] * 3]
    assert primes.tolist() == [[2.0], [3.0], [5.0]]


@koan(
    see="torch.as_strided",
    hint=[
        "Row 2, column 2 is the last one. How far is it from the first?",
        "Elements are counted from zero: to reach number n, how many must there be?",
    ],
    why=(
        "The last element is 2 * 2 + 2 * 1 = 6 steps from the first: number 6, the seventh. "
        "as_strided checks this once, against the size of the storage, so no later read can leave "
        "it. It raises a RuntimeError: no index was used, the layout itself is refused."
    ),
    wrong={
        "9": "The eye sees nine elements. But with these steps some are met twice.",
        "6": "So far is the last one away. Or so many are there; then nothing would be refused.",
        "8": "One too many. Count the steps to the last row, then to its last column.",
        "56": "In bytes, yes. An element has eight of them.",
    },
)
def test_one_step_too_far():
    """as_strided takes any shape and any steps you like. These reach past the end of the memory.

    The message says how many bytes they need, 8 for each element. How many elements are that?
    """
    x = torch.arange(6)
    with pytest.raises(Exception) as caught:
        x.as_strided((3, 3), (2, 1))
    assert int(re.findall(r"size of (\d+)", str(caught.value))[0]) // 8 == answer(7)


@koan(
    see="torch.Tensor.unfold",
    hint=[
        "How many windows fit? That gives the shape.",
        "From window to window, and inside a window, you take the same step. How long is it?",
        "x may itself be a part of something, with gaps. Ask it for its stride.",
    ],
    why=(
        "Two dimensions may walk along the same memory with the same stride: windows overlap "
        "and nothing is copied. unfold() does this for you."
    ),
    wrong={
        "return x.as_strided((len(x) - size + 1, size), (1, 1))": (
            "Right while the numbers of x are neighbours. The second x has gaps."
        ),
        "step = x.stride(0)\nreturn x.as_strided((len(x) - size + 1, size), (step, step), 0)": (
            "The second x does not start where its storage starts."
        ),
        "return torch.stack([x[i : i + size] for i in range(len(x) - size + 1)])": (
            "These are copies: they do not see what is written later."
        ),
        "step = x.stride(0)\nreturn x.as_strided((len(x) - size + 1, size), (size * step, step))": (
            "Windows overlap: the next one starts one element further on, not a window further."
        ),
    },
    right=[
        "return x.unfold(0, size, 1)",
        "(step,) = x.stride()\n"
        "return torch.as_strided(x, (len(x) - size + 1, size), (step, step), x.storage_offset())",
    ],
    at={
        "whole.tolist() == [[0": (
            "This line reads all windows over `x`. Print yours: how many are there, and where "
            "does each one start?"
        ),
        "odd.tolist() == [[1, 3]": (
            "The windows over all of `x` are right. This time they slide over `x[1::2]`, a part "
            "with gaps. How does it step, and where does it start?"
        ),
        "whole[:, 1:].tolist()": (
            "All windows read the right numbers. But `x` has been written to since then, and "
            "`whole` does not show it. Whose memory does it read?"
        ),
        "odd.tolist() == [[1, 30]": (
            "The windows over all of `x` see the write. Those over the part with gaps do not. "
            "Whose memory do they read?"
        ),
    },
)
def test_windows_without_a_copy():
    """A window of size 2 slides over [1, 3, 5]: [1, 3], then [3, 5]. Write all windows over x
    as the rows of one tensor that copies nothing: a later write must show up in them."""

    def windows(x, size):
        # answer:
        step = x.stride(0)
        return x.as_strided((len(x) - size + 1, size), (step, step))
        # end

    x = torch.arange(6)
    whole, odd = windows(x, 4), windows(x[1::2], 2)
    assert whole.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert odd.tolist() == [[1, 3], [3, 5]]
    x[3] = 30
    assert whole[:, 1:].tolist() == [[1, 2, 30], [2, 30, 4], [30, 4, 5]]
    assert odd.tolist() == [[1, 30], [30, 5]]
