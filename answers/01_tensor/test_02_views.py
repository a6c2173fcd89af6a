"""Views: one memory, seen in several ways.

Documents: A 3.1, B 2, B 4
"""

import pytest
import torch

from sensei import answer, koan


@pytest.mark.tour(20)
@koan(
    see="torch.Tensor.__getitem__",
    hint=[
        "Two neighbours can be described as a place and a length. Two elements from anywhere "
        "cannot.",
        "What can be described needs no copy. What cannot is fetched into memory of its own.",
    ],
    why=(
        "A slice is a view: the same memory, seen through a window. A list of indices picks "
        "elements that may lie anywhere, so PyTorch gathers them into a new tensor."
    ),
    wrong={
        "[5.0, 0.0, 7.0, 0.0]": (
            "Both use square brackets, but only one of them looks into the memory of x."
        ),
        "[0.0, 0.0, 0.0, 0.0]": "A slice of a Python list is a copy. PyTorch copies less.",
        "[0.0, 0.0, 7.0, 0.0]": "One of the two reaches x, but think of which one needs a copy.",
    },
)
def test_write_into_what_you_took():
    """Two pieces are taken out of x, and each of them is written to. What is in x now?"""
    x = torch.zeros(4)
    front = x[:2]
    back = x[[2, 3]]
    front[0] = 5.0
    back[0] = 7.0
    assert x.tolist() == answer([5.0, 0.0, 0.0, 0.0])


@koan(
    claims=["B-4-22"],
    see="torch.transpose",
    hint=[
        "Does turning a table need a second table? Or only another way of reading the first?",
        "Row 2, column 0 of the turned table: where does it stand in x?",
    ],
    why=(
        "transpose, permute, t(), .T, swapaxes, movedim: all are views with other strides. "
        "None of them moves a number. So both writes arrive in x, at the mirrored place."
    ),
    wrong={
        "[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]": (
            "Some say permute gives a view and transpose a copy. For a table they do the same."
        ),
        "[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]": (
            "The turned tables have another shape, yet there is only one set of numbers."
        ),
        "[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]": "permute with two axes is just another spelling.",
        "[[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]": (
            "The memory is shared, yes. Now mirror the places: a row of a is a column of x."
        ),
    },
)
def test_write_into_a_turned_table():
    """Some say that permute gives a view and transpose a copy. Both turn this table, and each
    turned table is written to. Predict x."""
    x = torch.zeros(2, 3)
    a = x.transpose(0, 1)
    b = x.permute(1, 0)
    a[2, 0] = 1.0
    b[0, 1] = 2.0
    assert x.tolist() == answer([[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]])


@koan(
    claims=["A-3.1-11", "B-2-07"],
    see="torch.Tensor.untyped_storage",
    hint=[
        "nbytes counts the elements you can see. A float32 takes 4 bytes.",
        "x and tail are two windows. On how many blocks of memory?",
    ],
    why=(
        "The bytes are in the storage: one block for both. A tensor is a window on it, made of "
        "offset, shape, strides and dtype. tail starts 4 bytes later, hence the other address; "
        ".data is just one more tensor, with tail's own window."
    ),
    wrong={
        "[12, 12]": (
            "Some take the two addresses as proof of two blocks. "
            "But an address can also lie inside a block, a step from its start."
        ),
        "[16, 16]": (
            "Some say .data holds the raw bytes. It is one more tensor, of the same shape as tail."
        ),
        "[16, 12]": "Think again of which of the two has a shape, and which is only bytes.",
    },
)
def test_two_addresses():
    """x and tail start at two addresses.

    How many bytes has tail's .data, and how many has tail's storage?
    """
    x = torch.zeros(4)
    tail = x[1:]
    assert x.data_ptr() != tail.data_ptr()
    assert [tail.data.nbytes, tail.untyped_storage().nbytes()] == answer([12, 16])


@koan(
    see="torch.chunk",
    hint=[
        "chunk wants pieces of one length; only the last may be shorter. Which length, for 6?",
        "Does every piece that was asked for get something? And are the pieces copies?",
    ],
    why=(
        "A piece has ceil(6 / 4) = 2 elements, and after three of them nothing is left: chunk "
        "may return fewer than you asked for (tensor_split would not). Each piece is a view, "
        "as those of split and unbind are."
    ),
    wrong={
        "[1.0, 0.0, 2.0, 0.0, 3.0, 4.0]": (
            "So NumPy's array_split does it: four pieces, some shorter. Here all are alike, "
            "except perhaps the last."
        ),
        "[1.0, 2.0, 3.0, 4.0, 0.0, 0.0]": (
            "It rounds the length of a piece up, not down: no element may be left over."
        ),
        "[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]": (
            "Each piece is a slice of x, and you know what writing to a slice does."
        ),
    },
)
def test_number_the_pieces():
    """Six elements, and four pieces are asked for. The loop numbers the pieces. Predict x."""
    x = torch.zeros(6)
    for number, piece in enumerate(x.chunk(4), start=1):
        piece[0] = number
    assert x.tolist() == answer([1.0, 0.0, 2.0, 0.0, 3.0, 0.0])


@koan(
    claims=["B-4-18"],
    see="torch.flatten",
    hint=[
        "Draw the 4 by 5 numbers, row after row, as one line. Which views are one unbroken piece?",
        "Does it matter how you step along a dimension that has only one place?",
    ],
    why=(
        "Two whole rows are one unbroken piece, and so is a single row, turned or not. Columns and "
        "the turned table jump, so flatten copies, as reshape does. narrow and transpose do not "
        "settle it; the strides do. Here is_contiguous() says the same."
    ),
    wrong={
        "[]": (
            "Some say that what went through narrow or transpose is no longer contiguous. "
            "It depends on the axis and on the size."
        ),
        "['rows', 'columns', 'turned', 'upright']": (
            "No single step leads through all numbers of each of them in the right order. "
            "Then flatten quietly gives you new memory."
        ),
        "['rows', 'columns']": "Both come from narrow. But between two columns there is a gap.",
        "['rows']": "One more is unbroken, though it went through transpose. Draw them all.",
    },
)
def test_flatten_four_views():
    """flatten keeps the address when it can give a view, and copies when it must.

    Which names end up in the list?
    """
    x = torch.zeros(4, 5)
    views = {
        "rows": x.narrow(0, 1, 2),
        "columns": x.narrow(1, 1, 2),
        "turned": x.transpose(0, 1),
        "upright": x.narrow(0, 3, 1).transpose(0, 1),
    }
    same = [name for name, v in views.items() if v.flatten().data_ptr() == v.data_ptr()]
    assert same == answer(["rows", "upright"])


@koan(
    see="torch.Tensor.view",
    hint=[
        "view promises never to copy. Here it cannot keep that promise.",
        "No argument is of the wrong kind, and none is out of range. PyTorch has to look at the "
        "strides before it can say no.",
    ],
    why=(
        "permute left the numbers where they were, and no strides describe this shape over them. "
        "view refuses; reshape would copy without a word. A second transpose instead of permute "
        "does not help: it moves no number either. RuntimeError is what PyTorch's own C++ code "
        "raises for most things it refuses."
    ),
    wrong={
        "ValueError": (
            "NumPy says it so when numbers cannot be laid out anew. PyTorch's operations have "
            "another habit."
        ),
        "TypeError": "Every argument has a legal type: ints, and as many elements as before.",
        "IndexError": "All axes exist, and nothing is looked up by an index.",
    },
)
def test_a_promise_that_view_cannot_keep():
    """The count is right both times. The second view fails all the same. With which exception?"""
    batch = torch.zeros(2, 3, 4)
    assert batch.view(2, 12).data_ptr() == batch.data_ptr()
    with pytest.raises(Exception) as caught:
        batch.permute(0, 2, 1).view(2, 12)
    assert caught.type is answer(RuntimeError)


@koan(
    see="torch.Tensor.view",
    hint=[
        "Print chw[:, 0, 0], one pixel, and what stands at its place afterwards.",
        "view cuts the same line of numbers at other places. You want the axes to change places.",
        "Say for each new axis which old one it was: rows were axis 1, columns axis 2.",
    ],
    why=(
        "view keeps the order of the numbers and only cuts them anew: right shape, scrambled "
        "pixels, no error. permute changes the order of the axes."
    ),
    wrong={
        "hwc = chw.reshape(rows, columns, 3)": (
            "reshape keeps the order too. A right shape does not make it the right picture."
        ),
        "hwc = chw.contiguous().view(rows, columns, 3)": (
            "The memory was in order before. The trouble is what view means, not that it may fail."
        ),
        "hwc = chw.transpose(0, 2)": (
            "The colours are last now, but rows and columns have changed places as well."
        ),
        "hwc = chw.permute(2, 0, 1)": (
            "That is the way back. Each number says which OLD axis comes to this place."
        ),
    },
    right=[
        "hwc = chw.movedim(0, -1)",
        "hwc = torch.stack(chw.unbind(), dim=-1)",
        "hwc = chw.transpose(0, 1).transpose(1, 2)",
        "hwc = chw.permute(1, 2, 0).contiguous()",
    ],
    at={
        "tuple(hwc.shape)": (
            "This line looks only at the shape: first the rows, then the columns, then the "
            "colours. Which old axis has come to each place?"
        ),
        "hwc[row, column]": (
            "The shape is right. But a pixel does not have its own three colours. Print some "
            "pixels of `chw` and of `hwc` side by side."
        ),
    },
)
def test_a_picture_with_its_colours_last():
    """The right shape, but the wrong pixels. Repair the marked line.

    The three colours of one pixel must stay together.
    """
    for rows, columns in [(2, 4), (3, 2)]:
        chw = torch.arange(3 * rows * columns).reshape(3, rows, columns)  # 3 colours
        # answer:
        hwc = chw.permute(1, 2, 0)
        # given:
        # hwc = chw.view(rows, columns, 3)
        # end
        assert tuple(hwc.shape) == (rows, columns, 3)
        for row, column in [(0, 0), (0, 1), (1, 1)]:
            assert hwc[row, column].tolist() == chw[:, row, column].tolist()


@koan(
    see="torch.Tensor.view",
    hint=[
        "4 rows are 2 tiles of 2 rows; 9 columns are 3 tiles of 3. Cut both axes, in place.",
        "Cutting gives the axes (tile row, row in it, tile column, column in it). Compare orders.",
        "Two axes have to change places. You know what that costs.",
    ],
    why=(
        "view cuts each axis in two where it is, transpose brings the tile axes together: no "
        "number moves. A vision transformer cuts its patches this way."
    ),
    wrong={
        "tiles = image.view(2, 3, 2, 3)": (
            "The shape is right. But view goes on along the rows of the image and mixes the tiles."
        ),
        "tiles = torch.stack([torch.stack(r.chunk(3, dim=1)) for r in image.chunk(2)])": (
            "These are the right tiles. But stack always builds new memory; the image stays as is."
        ),
        "tiles = image.view(2, 2, 3, 3).transpose(1, 2).contiguous()": (
            "The last step goes too far: these axes are out of order, so it must copy."
        ),
    },
    right=[
        "tiles = image.reshape(2, 2, 3, 3).permute(0, 2, 1, 3)",
        "tiles = image.unfold(0, 2, 2).unfold(1, 3, 3)",
        "tiles = image.unflatten(1, (3, 3)).unflatten(0, (2, 2)).swapaxes(1, 2)",
        "rows = image.view(2, 2, 9)\ntiles = rows.view(2, 2, 3, 3).movedim(2, 1)",
    ],
    at={
        "tuple(tiles.shape)": (
            "This line only looks at the shape: row of tiles, column of tiles, then row and "
            "column inside a tile. How long is each axis?"
        ),
        "tiles[i, j].tolist()": (
            "The shape is right. But a tile holds other numbers than its part of the image. "
            "Print `tiles[0, 0]` and its neighbours, beside the image."
        ),
        "image[2:, 6:].tolist()": (
            "All tiles show the right numbers. But the write to one of them did not reach the "
            "image. Does one of your steps make new memory?"
        ),
        "image < 0": (
            "The tile itself has been written to. This line counts all cells below zero in the "
            "image: did the write reach others too?"
        ),
    },
)
def test_cut_a_picture_into_tiles():
    """Cut the image into tiles of 2 rows and 3 columns. Copy nothing.

    tiles[i, j] is the tile in row i and column j of the tiles; whoever writes to a tile
    writes to the image.
    """
    image = torch.arange(36).reshape(4, 9)
    # answer:
    tiles = image.view(2, 2, 3, 3).transpose(1, 2)
    # end
    assert tuple(tiles.shape) == (2, 3, 2, 3)
    for i in range(2):
        for j in range(3):
            part = image[2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
            assert tiles[i, j].tolist() == part.tolist()
    tiles[1, 2] = -1
    assert image[2:, 6:].tolist() == [[-1, -1, -1], [-1, -1, -1]]
    assert (image < 0).sum().item() == 6
