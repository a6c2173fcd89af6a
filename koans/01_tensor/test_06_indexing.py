"""Indexing and broadcasting: which elements, and in which shape."""

import pytest
import torch

from sensei import __


def test_an_int_a_slice_and_none():
    """Three kinds of index, four results. Give their shapes."""
    x = torch.zeros(4, 5)
    results = [x[1], x[1:2], x[:, None], x[None, ..., 0]]
    assert [tuple(t.shape) for t in results] == __


def test_two_lists_as_an_index():
    """Lists of positions can be an index, too. Give both shapes."""
    x = torch.zeros(4, 5, 6)
    neighbours = x[[0, 2, 3], [1, 3, 3]]
    apart = x[[0, 2, 3], :, [1, 3, 3]]
    assert [tuple(t.shape) for t in (neighbours, apart)] == __


def test_what_a_mask_leaves():
    """A mask with two dimensions picks from a tensor with three. Predict the shape."""
    x = torch.zeros(2, 3, 4)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert tuple(x[mask].shape) == __


def test_assign_through_two_brackets():
    """Both lines aim at the same two elements. Which sums do you get, in order?"""
    mask = torch.tensor([True, False, True])
    a, b = torch.zeros(3, 2), torch.zeros(3, 2)
    a[mask][:, 0] = 1
    b[:, 0][mask] = 1
    assert [a.sum().item(), b.sum().item()] == __


def test_count_labels_that_repeat():
    """Labels that repeat are counted once. Repair the marked line."""

    def count(labels):
        counts = torch.zeros(3)
        # your turn:
        counts[labels] += 1
        # end
        return counts.tolist()

    assert count(torch.tensor([0, 0, 2])) == [2.0, 0.0, 1.0]
    assert count(torch.tensor([1, 1, 1])) == [0.0, 3.0, 0.0]


def test_put_each_row_in_its_own_order():
    """Write arrange: every row of the table follows its own row of order."""

    def arrange(table, order):
        # your turn:
        __
        # end

    keys = torch.tensor([[3, 1, 2], [10, 30, 20], [0, 2, 1]])
    order = keys.argsort(dim=1)
    assert arrange(keys, order).tolist() == [[1, 2, 3], [10, 20, 30], [0, 1, 2]]
    names = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert arrange(names, order).tolist() == [[2, 3, 1], [4, 6, 5], [7, 9, 8]]


def test_three_shapes_meet():
    """where takes from one tensor or the other, as the condition says. Predict the shape."""
    condition = torch.tensor([[True], [False], [True]])
    prices = torch.zeros(4)
    fees = torch.ones(2, 1, 1)
    assert tuple(torch.where(condition, prices, fees).shape) == __


def test_where_two_shapes_collide():
    """The message ends with the number of the dimension that does not fit. Which one?"""
    a = torch.zeros(2, 3, 4, 3)
    b = torch.zeros(2, 3)
    with pytest.raises(Exception) as caught:
        a + b
    assert int(str(caught.value).split()[-1]) == __


def test_every_row_adds_up_to_one():
    """A square table gives wrong shares and no error. Repair the marked line."""

    def shares(table):
        # your turn:
        return table / table.sum(dim=1)
        # end

    assert shares(torch.tensor([[1.0, 3.0], [4.0, 4.0]])).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert shares(torch.ones(3, 2)).tolist() == [[0.5, 0.5]] * 3


def test_the_left_side_does_not_stretch():
    """The product has more rows than a. Repair the marked line: a becomes the product."""

    def times(a, b):
        # your turn:
        a *= b
        # end
        return a

    once, ten = torch.tensor([[2, 3, 5]]), torch.tensor([[1], [10]])
    assert times(once, ten).tolist() == [[2, 3, 5], [20, 30, 50]]
    assert times(torch.tensor([[7]]), torch.tensor([[1], [2], [3]])).tolist() == [[7], [14], [21]]


def test_three_ways_to_be_refused():
    """A negative step, a mask that is too short, two lengths that differ. List the three types."""
    x = torch.zeros(3)
    mask = torch.tensor([True, False])
    caught = []
    for attempt in (lambda: x[::-1], lambda: x[mask], lambda: x + torch.zeros(2)):
        with pytest.raises(Exception) as refusal:
            attempt()
        caught.append(refusal.type)
    assert caught == __


def test_mark_the_crossings():
    """Write 1 at every crossing of these rows and these columns, and nowhere else."""

    def mark(table, rows, cols):
        # your turn:
        __
        # end

    for rows, cols in [([0, 2], [1, 3, 4]), ([1, 3], [0, 2])]:
        table = torch.zeros(4, 5)
        mark(table, torch.tensor(rows), torch.tensor(cols))
        assert table.nonzero().tolist() == [[row, col] for row in rows for col in cols]
        assert table.max().item() == 1.0
