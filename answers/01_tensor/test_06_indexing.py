"""Indexing and broadcasting: which elements, and in which shape."""

import pytest
import torch

from sensei import answer, koan


@koan(
    see="torch.unsqueeze",
    hint=[
        "Take one index at a time. Which remove a dimension, which keep it, which add one?",
        "The dots stand for all dimensions that are not named.",
    ],
    why="An int removes its dimension, a slice keeps it (even with length one), None adds one.",
    wrong={
        "[(5,), (5,), (4, 1, 5), (1, 4)]": "A slice of length one is still a slice.",
        "[(5,), (1, 5), (4, 1), (1, 4)]": "None takes no element. The dimensions that come after "
        "it are all still there.",
        "[(5,), (1, 5), (4, 1, 5), (1, 5)]": "The dots already cover the first dimension. "
        "Which one is left for the 0?",
    },
    right=["[torch.Size([5]), torch.Size([1, 5]), torch.Size([4, 1, 5]), torch.Size([1, 4])]"],
)
def test_an_int_a_slice_and_none():
    """Three kinds of index, four results. Give their shapes."""
    x = torch.zeros(4, 5)
    results = [x[1], x[1:2], x[:, None], x[None, ..., 0]]
    assert [tuple(t.shape) for t in results] == answer([(5,), (1, 5), (4, 1, 5), (1, 4)])


@koan(
    see="torch.index_select",
    hint=[
        "Lists of the same length are read together, like zip.",
        "The pairs need one dimension. Where can it go if a slice stands between the lists?",
    ],
    why="Two lists make pairs, so three pairs give one dimension of three. It stays in its place "
    "when the lists are neighbours and goes to the front when something stands between them.",
    wrong={
        "[(3, 3, 6), (3, 5, 3)]": "So it is in MATLAB: every row with every column. "
        "Here the lists are walked side by side.",
        "[(3, 6), (5, 3)]": "With a slice in between, the two lists have no common place to stay.",
    },
    right=["[torch.Size([3, 6]), torch.Size([3, 5])]"],
)
def test_two_lists_as_an_index():
    """Lists of positions can be an index, too. Give both shapes."""
    x = torch.zeros(4, 5, 6)
    neighbours = x[[0, 2, 3], [1, 3, 3]]
    apart = x[[0, 2, 3], :, [1, 3, 3]]
    assert [tuple(t.shape) for t in (neighbours, apart)] == answer([(3, 6), (3, 5)])


@koan(
    see="torch.masked_select",
    hint=[
        "The mask covers the first two dimensions. What is left of each chosen place?",
        "Can chosen places that lie anywhere in a grid keep the shape of the grid?",
    ],
    why="The dimensions under the mask melt into one, whose length is the number of True values. "
    "The dimensions it does not cover stay.",
    wrong={
        "(2, 3, 4)": "Indexing picks; it does not blank out the rest. Only where keeps the shape.",
        "(5,)": "The mask covers two dimensions of three. Each pick is still a row.",
        "(20,)": "Only what lies under the mask is flattened.",
    },
    right=["torch.Size([5, 4])"],
)
def test_what_a_mask_leaves():
    """A mask with two dimensions picks from a tensor with three. Predict the shape."""
    x = torch.zeros(2, 3, 4)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert tuple(x[mask].shape) == answer((5, 4))


@koan(
    see="torch.Tensor.__setitem__",
    hint=[
        "The first bracket only reads. Does it give a view or a copy?",
        "An assignment into a copy that nobody keeps: who will see it?",
    ],
    why="A mask copies what it picks, so the second bracket wrote into something nobody keeps. "
    "A slice is a view; writing through it reaches the tensor.",
    wrong={
        "[2.0, 2.0]": "Masks do not give views as slices do.",
        "[0.0, 0.0]": "Two brackets are not always lost. It depends on what the first one returns.",
        "[2.0, 0.0]": "Right that they differ. Which of the two first brackets makes a view?",
    },
)
def test_assign_through_two_brackets():
    """Both lines aim at the same two elements. Which sums do you get, in order?"""
    mask = torch.tensor([True, False, True])
    a, b = torch.zeros(3, 2), torch.zeros(3, 2)
    a[mask][:, 0] = 1
    b[:, 0][mask] = 1
    assert [a.sum().item(), b.sum().item()] == answer([0.0, 2.0])


@koan(
    see="torch.Tensor.index_add_",
    hint=[
        "`counts[labels] += 1` reads, adds, and assigns. How often is each place assigned?",
        "You need a method that adds every item where its index says.",
    ],
    why="counts[labels] += 1 reads first and assigns afterwards, once per item. Where a label "
    "repeats, each assignment brings the same value: one more than was read. index_add_ adds for "
    "every item.",
    wrong={
        "counts[labels] = counts[labels] + 1": "This is what += does here, only written out.",
        "counts[labels].add_(1)": "Adds to a copy. The counts stay at zero.",
        "for label in labels.unique():\n    counts[label] += 1": "Each label is met once only.",
    },
    right=[
        "counts.scatter_add_(0, labels, torch.ones(len(labels)))",
        "counts.index_put_((labels,), torch.tensor(1.0), accumulate=True)",
        "counts += torch.bincount(labels, minlength=3)",
    ],
    at={
        "count(torch.tensor([0": (
            "Here label 0 comes twice, label 2 once, and label 1 not at all. Print the counts: "
            "is each label counted as often as it comes?"
        ),
        "count(torch.tensor([1, 1, 1]))": (
            "The first count is right. Here one label comes three times and two labels do not "
            "come at all. All three want a count."
        ),
    },
)
def test_count_labels_that_repeat():
    """Labels that repeat are counted once. Repair the marked line."""

    def count(labels):
        counts = torch.zeros(3)
        # answer:
        counts.index_add_(0, labels, torch.ones(len(labels)))
        # given:
        # counts[labels] += 1
        # end
        return counts.tolist()

    assert count(torch.tensor([0, 0, 2])) == [2.0, 0.0, 1.0]
    assert count(torch.tensor([1, 1, 1])) == [0.0, 3.0, 0.0]


@koan(
    see="torch.take_along_dim",
    hint=[
        "Plain indexing would use the whole order on one dimension of the table.",
        "You want: result[i][j] = table[i][order[i][j]]. Which functions read an index like this?",
    ],
    why="gather(1, order) stays in row i and takes column order[i][j]. "
    "take_along_dim is the same idea and broadcasts as well.",
    wrong={
        "return table[order]": "This takes whole rows: one row for every number in order.",
        "return table[:, order]": "This applies every row's order to every row.",
        "return table.gather(0, order)": "Along dimension 0 the order chooses rows, not columns.",
    },
    right=[
        "return torch.take_along_dim(table, order, dim=1)",
        "return table[torch.arange(len(table))[:, None], order]",
    ],
    at={
        "arrange(keys, order)": (
            "The order was made from this very table, so each row should come out sorted. Print "
            "yours: which numbers stand in each row?"
        ),
        "arrange(names, order)": (
            "The first table is right: its own numbers made the order. This is another table. "
            "Does `order` alone say who goes where?"
        ),
    },
)
def test_put_each_row_in_its_own_order():
    """Write arrange: every row of the table follows its own row of order."""

    def arrange(table, order):
        # answer:
        return table.gather(1, order)
        # end

    keys = torch.tensor([[3, 1, 2], [10, 30, 20], [0, 2, 1]])
    order = keys.argsort(dim=1)
    assert arrange(keys, order).tolist() == [[1, 2, 3], [10, 20, 30], [0, 1, 2]]
    names = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert arrange(names, order).tolist() == [[2, 3, 1], [4, 6, 5], [7, 9, 8]]


@koan(
    see="torch.where",
    hint=[
        "All three stretch together. Write the shapes one below the other, right ends in line.",
        "In each column: a 1 or a gap takes the other's length.",
    ],
    why="where broadcasts its three inputs like any operation: right ends in line, "
    "ones and gaps stretch.",
    wrong={
        "(3, 1)": "The condition decides which value is taken, not how large the result is.",
        "(3, 4)": "True of the first two. The third one has its word, too.",
        "(2, 3, 1)": "Each length of 1 stretches, also the last one.",
    },
    right=["torch.Size([2, 3, 4])"],
)
def test_three_shapes_meet():
    """where takes from one tensor or the other, as the condition says. Predict the shape."""
    condition = torch.tensor([[True], [False], [True]])
    prices = torch.zeros(4)
    fees = torch.ones(2, 1, 1)
    assert tuple(torch.where(condition, prices, fees).shape) == answer((2, 3, 4))


@koan(
    see="torch.broadcast_tensors",
    hint=[
        "Which ends of the shapes are put in line, the left or the right ones?",
        "PyTorch numbers the dimensions of the longer shape, from the left, starting at 0.",
    ],
    why="Right ends in line: 3 meets 3, then 2 meets 4. That 4 is dimension 2 of the longer shape.",
    wrong={
        "0": "As b counts it. The message numbers the dimensions of the result.",
        "1": "So it is when you count from the right. PyTorch's numbers count from the left.",
        "-2": "The right place, counted from the right. The message counts from the left.",
        "3": "There the lengths agree.",
    },
)
def test_where_two_shapes_collide():
    """The message ends with the number of the dimension that does not fit. Which one?"""
    a = torch.zeros(2, 3, 4, 3)
    b = torch.zeros(2, 3)
    with pytest.raises(Exception) as caught:
        a + b
    assert int(str(caught.value).split()[-1]) == answer(2)


@koan(
    see="torch.sum",
    hint=[
        "The sum has one number per row. On which side of the table does broadcasting put it?",
        "If the summed dimension stayed, with length 1, each sum would stand beside its row.",
    ],
    why="sum(dim=1) lies down like a row, so row i's sum divides column i. A square table "
    "hides it. keepdim=True keeps a column.",
    wrong={
        "return table / table.sum(dim=0)": "Now the columns add up to one, not the rows.",
        "return table / table.sum(dim=1)[None, :]": "Broadcasting would put the None there anyway.",
        "return table / table.sum(keepdim=True, dim=0)": "The length 1 is kept, but the sum runs "
        "down the columns.",
    },
    right=["return table / table.sum(dim=1)[:, None]", "return table / table.sum(1).unsqueeze(1)"],
    at={
        "shares(torch.tensor([[1.0": (
            "This line wants each number divided by the sum of its own row. Print what you "
            "divide by: its shape, and its numbers."
        ),
        "shares(torch.ones(3": (
            "The square table is right. This one has three rows and two columns: does each "
            "number still meet the sum of its own row?"
        ),
    },
)
def test_every_row_adds_up_to_one():
    """A square table gives wrong shares and no error. Repair the marked line."""

    def shares(table):
        # answer:
        return table / table.sum(dim=1, keepdim=True)
        # given:
        # return table / table.sum(dim=1)
        # end

    assert shares(torch.tensor([[1.0, 3.0], [4.0, 4.0]])).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert shares(torch.ones(3, 2)).tolist() == [[0.5, 0.5]] * 3


@koan(
    see="torch.Tensor.mul_",
    hint=[
        "An in-place result must fit into memory that is already there. How large is a?",
        "Do you need the old memory at all?",
    ],
    why="In place, only the right side may stretch; a has no room for six numbers. "
    "a = a * b takes new memory for the result.",
    wrong={
        "a = a.expand(len(b), -1)\na *= b": "Now the shape fits, but both rows are the same three "
        "numbers in memory, and such a write is refused.",
        "a.mul_(b)": "The same operation by its other name.",
        "a[:] = a * b": "The product is right, but it is put back into memory with room for three.",
    },
    right=["a = b * a", "a = a.repeat(len(b), 1)\na *= b", "return a * b"],
    at={
        "times(once, ten)": (
            "This product should have two rows of three. Print what `times` gives back: its "
            "shape, and its numbers."
        ),
        "times(torch.tensor([[7]])": (
            "The first product is right. Here the sizes are others: one number, and three rows. "
            "What in your lines fits only the first pair?"
        ),
    },
)
def test_the_left_side_does_not_stretch():
    """The product has more rows than a. Repair the marked line: a becomes the product."""

    def times(a, b):
        # answer:
        a = a * b
        # given:
        # a *= b
        # end
        return a

    once, ten = torch.tensor([[2, 3, 5]]), torch.tensor([[1], [10]])
    assert times(once, ten).tolist() == [[2, 3, 5], [20, 30, 50]]
    assert times(torch.tensor([[7]]), torch.tensor([[1], [2], [3]])).tolist() == [[7], [14], [21]]


@koan(
    see="torch.flip",
    hint=[
        "Ask of each: is a number in it bad, does an index not fit, or does an operation fail?",
        "The first is refused already while the slice is read.",
    ],
    why="A step below zero is a bad value (use flip). A mask of another length is a bad index. "
    "Two shapes that do not broadcast fail when the operation runs.",
    wrong={
        "[IndexError, IndexError, RuntimeError]": "The slice is not out of range; "
        "a number in it has a value PyTorch does not take.",
        "[ValueError, IndexError, ValueError]": "NumPy raises that when lengths differ. PyTorch's "
        "operations use a more general one.",
        "[RuntimeError, RuntimeError, RuntimeError]": "Not everything PyTorch refuses is the same.",
    },
)
def test_three_ways_to_be_refused():
    """A negative step, a mask that is too short, two lengths that differ. List the three types."""
    x = torch.zeros(3)
    mask = torch.tensor([True, False])
    caught = []
    for attempt in (lambda: x[::-1], lambda: x[mask], lambda: x + torch.zeros(2)):
        with pytest.raises(Exception) as refusal:
            attempt()
        caught.append(refusal.type)
    assert caught == answer([ValueError, IndexError, RuntimeError])


@koan(
    see="torch.Tensor.index_put_",
    hint=[
        "Two indices of different length are not pairs. When do two shapes still meet?",
        "Read rows as a column of numbers; then broadcasting makes all combinations.",
        "All in one bracket, or the write goes astray.",
    ],
    why="rows[:, None] and cols broadcast to (2, 3): every row with every column, in one write.",
    wrong={
        "table[rows, cols] = 1": "Side by side they would be pairs, but two and three do not pair.",
        "table[rows][:, cols] = 1": "The first bracket made a copy, and the write went there.",
        "table[rows] = 1\ntable[:, cols] = 1": "That fills whole rows and columns. "
        "Only the crossings were asked for.",
        "table[rows, cols[:2]] = 1": "Two pairs only. Each row must meet each column.",
    },
    right=[
        "table[rows.unsqueeze(1), cols] = 1",
        "for row in rows:\n    table[row, cols] = 1",
    ],
    at={
        "table.nonzero()": (
            "This line lists the places that are not zero: each row should meet each column "
            "there, and no other place. Print the table."
        ),
        "table.max().item()": (
            "The right places have been written to. This line looks at what stands there: what "
            "is the largest number in the table?"
        ),
    },
)
def test_mark_the_crossings():
    """Write 1 at every crossing of these rows and these columns, and nowhere else."""

    def mark(table, rows, cols):
        # answer:
        table[rows[:, None], cols] = 1
        # end

    for rows, cols in [([0, 2], [1, 3, 4]), ([1, 3], [0, 2])]:
        table = torch.zeros(4, 5)
        mark(table, torch.tensor(rows), torch.tensor(cols))
        assert table.nonzero().tolist() == [[row, col] for row in rows for col in cols]
        assert table.max().item() == 1.0
