"""Views: one memory, seen in several ways."""

import pytest
import torch

from sensei import __


@pytest.mark.tour(20)
def test_write_into_what_you_took():
    """Two pieces are taken out of x, and each of them is written to. What is in x now?"""
    x = torch.zeros(4)
    front = x[:2]
    back = x[[2, 3]]
    front[0] = 5.0
    back[0] = 7.0
    assert x.tolist() == __


def test_write_into_a_turned_table():
    """Some say that permute gives a view and transpose a copy. Both turn this table, and each
    turned table is written to. Predict x."""
    x = torch.zeros(2, 3)
    a = x.transpose(0, 1)
    b = x.permute(1, 0)
    a[2, 0] = 1.0
    b[0, 1] = 2.0
    assert x.tolist() == __


def test_two_addresses():
    """x and tail start at two addresses.

    How many bytes has tail's .data, and how many has tail's storage?
    """
    x = torch.zeros(4)
    tail = x[1:]
    assert x.data_ptr() != tail.data_ptr()
    assert [tail.data.nbytes, tail.untyped_storage().nbytes()] == __


def test_number_the_pieces():
    """Six elements, and four pieces are asked for. The loop numbers the pieces. Predict x."""
    x = torch.zeros(6)
    for number, piece in enumerate(x.chunk(4), start=1):
        piece[0] = number
    assert x.tolist() == __


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
    assert same == __


def test_a_promise_that_view_cannot_keep():
    """The count is right both times. The second view fails all the same. With which exception?"""
    batch = torch.zeros(2, 3, 4)
    assert batch.view(2, 12).data_ptr() == batch.data_ptr()
    with pytest.raises(Exception) as caught:
        batch.permute(0, 2, 1).view(2, 12)
    assert caught.type is __


def test_a_picture_with_its_colours_last():
    """The right shape, but the wrong pixels. Repair the marked line.

    The three colours of one pixel must stay together.
    """
    for rows, columns in [(2, 4), (3, 2)]:
        chw = torch.arange(3 * rows * columns).reshape(3, rows, columns)  # 3 colours
        # your turn:
        hwc = chw.view(rows, columns, 3)
        # end
        assert tuple(hwc.shape) == (rows, columns, 3)
        for row, column in [(0, 0), (0, 1), (1, 1)]:
            assert hwc[row, column].tolist() == chw[:, row, column].tolist()


def test_cut_a_picture_into_tiles():
    """Cut the image into tiles of 2 rows and 3 columns. Copy nothing.

    tiles[i, j] is the tile in row i and column j of the tiles; whoever writes to a tile
    writes to the image.
    """
    image = torch.arange(36).reshape(4, 9)
    # your turn:
    __
    # end
    assert tuple(tiles.shape) == (2, 3, 2, 3)
    for i in range(2):
        for j in range(3):
            part = image[2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
            assert tiles[i, j].tolist() == part.tolist()
    tiles[1, 2] = -1
    assert image[2:, 6:].tolist() == [[-1, -1, -1], [-1, -1, -1]]
    assert (image < 0).sum().item() == 6
