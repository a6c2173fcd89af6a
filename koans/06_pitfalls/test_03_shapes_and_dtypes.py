"""Shapes and dtypes: the mistakes that broadcast, squeeze and round in silence."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sensei import __


def test_an_accuracy_of_250_percent():
    """The model has one output for each sample. Four samples, all guessed right, and the accuracy
    is 2.5. Nothing warns. Repair the marked line."""

    def accuracy(scores, labels):
        guesses = scores > 0
        # your turn:
        correct = guesses == labels
        # end
        return correct.sum().item() / len(labels)

    scores = torch.tensor([[2.0], [3.0], [1.0], [-1.0]])
    for labels, share in (([1, 1, 1, 0], 1.0), ([1, 0, 1, 0], 0.75), ([0, 0, 0, 1], 0.0)):
        assert accuracy(scores, torch.tensor(labels)) == share
    assert accuracy(torch.tensor([[5.0], [-5.0]]), torch.tensor([1, 0])) == 1.0


def test_the_last_batch_of_the_epoch():
    """`features` should have the shape (batch, channels). All goes well for hours, until the last
    batch holds one picture. Repair the marked line."""

    def features(maps):
        pooled = F.adaptive_avg_pool2d(maps, 1)
        # your turn:
        return pooled.squeeze()
        # end

    for maps in torch.randn(7, 5, 4, 4).split(3):
        assert features(maps).shape == maps.shape[:2]
        for row, picture in zip(features(maps), maps):
            assert row.sum().item() == pytest.approx(picture.sum().item() / 16, abs=1e-4)
    for batch, channels in ((2, 1), (1, 1)):
        assert features(torch.ones(batch, channels, 4, 4)).shape == (batch, channels)


def test_a_list_of_batches():
    """The predictions of two batches are collected in a list, to become one tensor. Which
    exception does it raise?

    With one element in each part it does not raise. Predict three shapes, as tuples."""
    model = torch.nn.Linear(3, 1)
    predictions = [model(batch).squeeze(1).detach() for batch in torch.zeros(4, 3).split(2)]
    with pytest.raises(Exception) as caught:
        torch.tensor(predictions)
    assert caught.type is __
    single = [torch.zeros(1), torch.ones(1)]
    shapes = [tuple(join(single).shape) for join in (torch.tensor, torch.stack, torch.cat)]
    assert shapes == __


def test_a_mean_for_each_colour():
    """Pictures: (batch, colour, height, width). Each colour is to lose its own mean over all
    of them. Some pictures raise an error, and those of three by three pixels give wrong colours.

    Repair the marked line.
    """

    def centre(pictures):
        mean = pictures.mean(dim=(0, 2, 3))
        # your turn:
        return pictures - mean
        # end

    for shape in ((2, 3, 3, 3), (2, 3, 4, 5), (3, 1, 2, 4), (1, 2, 2, 2)):
        pictures = torch.randn(shape)
        centred = centre(pictures)
        assert centred.shape == pictures.shape
        for number, colour in enumerate(pictures.unbind(1)):
            torch.testing.assert_close(centred[:, number], colour - colour.mean())


def test_join_the_heads_of_attention():
    """Attention gives (batch, heads, tokens, width). The next layer wants one row for each token:
    head after head. The shape is right and the training poor.

    Repair the marked line.
    """

    def join(heads):
        batch, _, tokens, _ = heads.shape
        # your turn:
        return heads.reshape(batch, tokens, -1)
        # end

    for shape in ((2, 3, 4, 5), (1, 2, 2, 2), (2, 4, 1, 3)):
        heads = torch.randn(shape)
        joined = join(heads)
        assert tuple(joined.shape) == (shape[0], shape[2], shape[1] * shape[3])
        for sentence, token in np.ndindex(shape[0], shape[2]):
            said = [number for head in heads[sentence] for number in head[token].tolist()]
            assert joined[sentence, token].tolist() == said


def test_a_complaint_that_went_away():
    """A classifier with one output. Integer labels gave an error; as a float column they do not.
    Both scores are clearly on the wrong side.

    Predict the loss and the two gradients.
    """
    scores = torch.tensor([[-9.0], [9.0]], requires_grad=True)
    labels = torch.tensor([1, 0])
    loss = F.cross_entropy(scores, labels.float().unsqueeze(1))
    loss.backward()
    assert [round(loss.item(), 4), *scores.grad.flatten().tolist()] == __


def test_the_row_of_the_largest():
    """Which row holds the largest number? argmax() counts through the whole table, so divide by
    the width. It even comes out whole. Which exception does table[row] raise?

    And which of four other forms of `row` are accepted? Keep the order."""
    table = torch.tensor([[0, 0], [0, 0], [5, 0]])
    row = table.argmax() / 2
    with pytest.raises(Exception) as caught:
        table[row]
    assert caught.type is __
    forms = {"item": row.item(), "int": int(row), "long": row.long(), "floor": row.floor()}
    accepted = []
    for name, form in forms.items():
        with suppress(Exception):
            accepted += [name] if len(table[form]) else []
    assert accepted == __


def test_where_the_doubles_come_from():
    """A layer complains of Double against Float, far from the place where it began. Five ways to
    scale float32 data with numbers from NumPy: which results are float64?"""
    x, table = torch.ones(4, 3), np.full((4, 3), 2.0)
    results = {
        "number": x * table.mean(),
        "wrapped": x * torch.tensor(table.mean()),
        "rows": x * torch.from_numpy(table.mean(axis=0)),
        "listed": x * torch.tensor(list(table[0])),
        "plain": x * torch.tensor(table[0].tolist()),
    }
    doubles = [name for name, result in results.items() if result.dtype == torch.float64]
    assert doubles == __


def test_votes_of_three_judges():
    """Three judges say which of three answers are right. Count the votes of each answer: with
    +, then with Python's sum(). Predict both lists: the dtype, then the three numbers."""
    judges = [
        torch.tensor([True, True, False]),
        torch.tensor([True, False, False]),
        torch.tensor([True, False, False]),
    ]
    first, second, third = judges
    plus, summed = first + second + third, sum(judges)
    assert [plus.dtype, *plus.tolist()] == __
    assert [summed.dtype, *summed.tolist()] == __


def test_five_ways_to_divide():
    """Eight by two in five ways. Each gives 4. Predict the five dtypes, as a list."""
    x, y = torch.tensor([8]), torch.tensor([2])
    ways = [x / y, x // y, x // 2.0, x.byte() / y.byte(), x.half() // y]
    assert [way.item() for way in ways] == [4, 4, 4, 4, 4]
    assert [way.dtype for way in ways] == __


def test_a_batch_without_torchvision():
    """Write `to_batch`. In: a list of uint8 pictures (height, width, colour) and float64 labels,
    all from NumPy. Out: float32 pictures (batch, colour, height, width), where byte 0 is -1 and
    byte 255 is 1, and class numbers for cross_entropy."""

    def to_batch(pictures, labels):
        # your turn:
        __
        # end

    for batch, height, width, colours in ((3, 2, 4, 3), (1, 3, 3, 1), (2, 3, 3, 3)):
        bytes_ = torch.randint(0, 256, (batch, height, width, colours), dtype=torch.uint8)
        bytes_[0, 0, 0, 0], bytes_[-1, -1, -1, -1] = 0, 255
        images, targets = to_batch(list(bytes_.numpy()), np.arange(batch, dtype=np.float64))
        assert (images.dtype, targets.dtype) == (torch.float32, torch.int64)
        assert tuple(images.shape) == (batch, colours, height, width)
        for n, y, x, colour in np.ndindex(*bytes_.shape):
            expected = bytes_[n, y, x, colour].item() * 2 / 255 - 1
            assert images[n, colour, y, x].item() == pytest.approx(expected, abs=1e-5)
        assert targets.tolist() == list(range(batch))
