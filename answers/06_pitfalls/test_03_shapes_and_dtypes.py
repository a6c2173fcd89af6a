"""Shapes and dtypes: the mistakes that broadcast, squeeze and round in silence.

Documents: A 2.2
"""

from contextlib import suppress

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sensei import answer, koan


@koan(
    see="torch.eq",
    hint=[
        "How many comparisons should there be for four samples? Print the shape of `correct`.",
        "One side is a column, the other is not. Bring them to one shape before they meet.",
    ],
    why=(
        "A column == a row of n labels is a table of n × n comparisons. A loss would at least "
        "warn; == does not. An accuracy above 1 is the lucky case: with .mean() in place of "
        ".sum() / n it would have been 0.625, and nobody would have looked."
    ),
    wrong={
        "correct = (guesses == labels).float().mean(dim=1)": (
            "Popular, and it hides the trouble: now the number lies between 0 and 1. It is the "
            "mean of a table that should not be there."
        ),
        "correct = (guesses == labels).any(dim=1)": (
            "A guess counts as right here if it fits the label of any sample."
        ),
        "correct = guesses == labels.squeeze()": (
            "The labels have no dimension of length one to lose. Who has?"
        ),
        "correct = guesses.expand(-1, len(labels)) == labels": (
            "That writes down what broadcasting does already."
        ),
        "correct = (guesses == labels)[0]": "One row of the table: one guess for all the labels.",
    },
    right=[
        "correct = guesses == labels.unsqueeze(1)",
        "correct = guesses == labels[:, None]",
        "correct = guesses[:, 0] == labels",
        "correct = guesses.flatten() == labels",
        "correct = guesses.view(-1) == labels",
        "correct = guesses.squeeze() == labels",
        "correct = guesses.reshape(labels.shape) == labels",
        "correct = guesses.eq(labels.view_as(guesses))",
    ],
    at={
        "== share": (
            "Each guess should be compared once, with its own label. Print `correct`: what is "
            "its shape, and who met whom?"
        ),
        "return correct.sum().item()": (
            "This line sums `correct`: it should be a tensor with one yes or no for each sample."
        ),
        "torch.tensor([[5.0], [-5.0]])": (
            "Four samples are counted right. Here there are two. Does your line fit any number of "
            "samples?"
        ),
    },
)
def test_an_accuracy_of_250_percent():
    """The model has one output for each sample. Four samples, all guessed right, and the accuracy
    is 2.5. Nothing warns. Repair the marked line."""

    def accuracy(scores, labels):
        guesses = scores > 0
        # answer:
        correct = guesses.squeeze(1) == labels
        # given:
        # correct = guesses == labels
        # end
        return correct.sum().item() / len(labels)

    scores = torch.tensor([[2.0], [3.0], [1.0], [-1.0]])
    for labels, share in (([1, 1, 1, 0], 1.0), ([1, 0, 1, 0], 0.75), ([0, 0, 0, 1], 0.0)):
        assert accuracy(scores, torch.tensor(labels)) == share
    assert accuracy(torch.tensor([[5.0], [-5.0]]), torch.tensor([1, 0])) == 1.0


@koan(
    see="torch.squeeze",
    hint=[
        "squeeze() drops all dimensions of length one. In the last batch, which are these?",
        "Say which dimensions are to go, and leave the others alone, however short they are.",
        "A cure that counts dimensions afterwards cannot know which one was lost.",
    ],
    why=(
        "Without an argument squeeze() takes every dimension of length one: also the batch, when "
        "one sample is left, and the channels, when there is one. Name the dimensions: "
        "flatten(1), squeeze((2, 3)), [:, :, 0, 0]. A bare squeeze() is a bet on the data."
    ),
    wrong={
        "return pooled.squeeze(-1)": "There are two dimensions to lose, and this names one.",
        "features = pooled.squeeze()\n"
        "return features if features.dim() == 2 else features.unsqueeze(0)": (
            "The popular patch. It guesses that the batch was lost. With one channel it is "
            "another one."
        ),
        "return pooled.squeeze().reshape(3, -1)": "Not every batch has three pictures.",
        "return pooled.squeeze(0)": "This loses the batch on purpose, and nothing else.",
        "return pooled.reshape(-1, 5)": "Right for five channels. Look at the last line.",
    },
    right=[
        "return pooled.squeeze((2, 3))",
        "return pooled.squeeze(3).squeeze(2)",
        "return pooled.squeeze(-1).squeeze(-1)",
        "return pooled[:, :, 0, 0]",
        "return pooled.view(len(pooled), -1)",
        "return pooled.reshape(pooled.shape[:2])",
        "return maps.mean(dim=(2, 3))",
    ],
    at={
        "row.sum().item()": (
            "The shape is right, the numbers are not: each row should hold the means of its own "
            "picture."
        ),
        "features(torch.ones(batch": (
            "Five channels are right, with one picture too. Here there is one channel. Does your "
            "line say which dimensions are to go?"
        ),
    },
)
def test_the_last_batch_of_the_epoch():
    """`features` should have the shape (batch, channels). All goes well for hours, until the last
    batch holds one picture. Repair the marked line."""

    def features(maps):
        pooled = F.adaptive_avg_pool2d(maps, 1)
        # answer:
        return pooled.flatten(1)
        # given:
        # return pooled.squeeze()
        # end

    for maps in torch.randn(7, 5, 4, 4).split(3):
        assert features(maps).shape == maps.shape[:2]
        for row, picture in zip(features(maps), maps):
            assert row.sum().item() == pytest.approx(picture.sum().item() / 16, abs=1e-4)
    for batch, channels in ((2, 1), (1, 1)):
        assert features(torch.ones(batch, channels, 4, 4)).shape == (batch, channels)


@koan(
    see="torch.tensor",
    hint=[
        "torch.tensor wants numbers, in lists as deep as you like. What does it find in this list?",
        "Count the elements of a part. Can Python make one number of it?",
        "A part with one element can pass for a number. What is then left of its dimension?",
    ],
    why=(
        "torch.tensor takes each tensor in the list for a number, and one with two elements is "
        "none. With one element each it works, and the dimension is lost. Tensors are put together "
        "by torch.stack, which makes a new dimension, or by torch.cat, which prolongs one."
    ),
    wrong={
        ("TypeError", "[(2,), (2, 1), (2,)]"): (
            "Natural. But it is a question of how many numbers a part holds."
        ),
        ("RuntimeError", "[(2,), (2, 1), (2,)]"): (
            "PyTorch's usual name. This one comes from a conversion to numbers."
        ),
        ("ValueError", "[(2, 1), (2, 1), (2,)]"): (
            "Some take torch.tensor for a slow stack. It looks for numbers, and finds one a part."
        ),
        ("ValueError", "[(2,), (2,), (2,)]"): "stack and cat are two things. Who adds a dimension?",
        ("ValueError", "[(2,), (2, 1), (1, 2)]"): "cat prolongs a dimension, and makes none.",
    },
    at={
        "assert shapes ==": (
            "The exception is right. Now ask of each of the three ways: does it keep the "
            "dimension of the parts, and does it add one?"
        ),
    },
)
def test_a_list_of_batches():
    """The predictions of two batches are collected in a list, to become one tensor. Which
    exception does it raise?

    With one element in each part it does not raise. Predict three shapes, as tuples."""
    model = torch.nn.Linear(3, 1)
    predictions = [model(batch).squeeze(1).detach() for batch in torch.zeros(4, 3).split(2)]
    with pytest.raises(Exception) as caught:
        torch.tensor(predictions)
    assert caught.type is answer(ValueError)
    single = [torch.zeros(1), torch.ones(1)]
    shapes = [tuple(join(single).shape) for join in (torch.tensor, torch.stack, torch.cat)]
    assert shapes == answer([(2,), (2, 1), (2,)])


@koan(
    see="torch.mean",
    hint=[
        "Print mean.shape. Shapes are lined up from the right: which dimension does it meet?",
        "The colours stand before height and width. What must follow them in the mean's shape?",
    ],
    why=(
        "(C,) lines up with the last dimension, the width. It raises, unless the width happens to "
        "be C: then each column of pixels loses the mean of some colour. mean[:, None, None] has "
        "the shape (C, 1, 1); keepdim=True keeps the places from the start."
    ),
    wrong={
        "return pictures - mean[:, None]": "This lines up with the height. One more is missing.",
        "return pictures - mean.expand_as(pictures)": (
            "expand lines up from the right as well. It fits where the minus fits."
        ),
        "return pictures - pictures.mean(dim=1, keepdim=True)": (
            "keepdim silences the error. But this is the mean over the colours, for each pixel."
        ),
        "return pictures - pictures.mean(dim=(2, 3), keepdim=True)": (
            "Each picture loses its own mean here: a dark picture and a bright one become alike."
        ),
        "return pictures - pictures.mean()": "One mean for all colours. No error, and no colours.",
        "return pictures - mean.reshape(3, 1, 1)": "Not every picture has three colours.",
        "return (pictures.reshape(-1, len(mean)) - mean).reshape(pictures.shape)": (
            "Now the mean fits everywhere. But each row holds neighbours, not the colours of one "
            "pixel."
        ),
    },
    right=[
        "return pictures - pictures.mean(dim=(0, 2, 3), keepdim=True)",
        "return pictures - mean.view(1, -1, 1, 1)",
        "return pictures - mean.reshape(-1, 1, 1)",
        "return pictures - mean.unsqueeze(-1).unsqueeze(-1)",
        "return (pictures.movedim(1, -1) - mean).movedim(-1, 1)",
        "return (pictures.transpose(1, 3) - mean).transpose(1, 3)",
    ],
    at={
        "centred.shape": ("The result should have the shape of the pictures. Print both."),
        "torch.testing.assert_close(centred": (
            "The shape is right. But each place in dimension 1 should hold its colour without "
            "its own mean. Which mean met which dimension, and did a dimension move?"
        ),
    },
)
def test_a_mean_for_each_colour():
    """Pictures: (batch, colour, height, width). Each colour is to lose its own mean over all
    of them. Some pictures raise an error, and those of three by three pixels give wrong colours.

    Repair the marked line.
    """

    def centre(pictures):
        mean = pictures.mean(dim=(0, 2, 3))
        # answer:
        return pictures - mean[:, None, None]
        # given:
        # return pictures - mean
        # end

    for shape in ((2, 3, 3, 3), (2, 3, 4, 5), (3, 1, 2, 4), (1, 2, 2, 2)):
        pictures = torch.randn(shape)
        centred = centre(pictures)
        assert centred.shape == pictures.shape
        for number, colour in enumerate(pictures.unbind(1)):
            torch.testing.assert_close(centred[:, number], colour - colour.mean())


@koan(
    see="torch.transpose",
    hint=[
        "Fill a small tensor with 0, 1, 2, ... and follow the numbers of one token.",
        "The numbers that are to form one row must be neighbours before they are joined.",
        "view refuses where reshape copies. In which order does reshape read?",
    ],
    why=(
        "reshape cuts the row of numbers anew and moves none of them: the shape is right, and "
        "tokens are mixed. First transpose(1, 2), so that the heads of one token are neighbours, "
        "then join. Training hides such a bug: the model learns around it, only worse."
    ),
    wrong={
        "return heads.contiguous().view(batch, tokens, -1)": (
            "contiguous() is a cure for an error of view. Here nothing was transposed, so it does "
            "nothing at all."
        ),
        "return heads.transpose(1, 2).view(batch, tokens, -1)": (
            "The order is right, but view cannot join what lies apart in memory. Read its error."
        ),
        "return heads.permute(0, 2, 3, 1).reshape(batch, tokens, -1)": (
            "Each token has its own numbers, in another order: the heads are shuffled like cards."
        ),
        "return heads.transpose(2, 3).reshape(batch, tokens, -1)": (
            "Tokens and widths have changed places. Heads still come first."
        ),
        "return heads.sum(dim=1)": "One width only: the heads are added, not joined.",
    },
    right=[
        "return heads.transpose(1, 2).flatten(2)",
        "return heads.permute(0, 2, 1, 3).reshape(batch, tokens, -1)",
        "return heads.transpose(1, 2).contiguous().view(batch, tokens, -1)",
        "return heads.movedim(1, 2).flatten(start_dim=2)",
        "return torch.cat(heads.unbind(1), dim=-1)",
    ],
    at={
        "tuple(joined.shape)": (
            "One row for each token, with all its heads: the shape should be (batch, tokens, "
            "heads × width). Print yours."
        ),
    },
)
def test_join_the_heads_of_attention():
    """Attention gives (batch, heads, tokens, width). The next layer wants one row for each token:
    head after head. The shape is right and the training poor.

    Repair the marked line.
    """

    def join(heads):
        batch, _, tokens, _ = heads.shape
        # answer:
        return heads.transpose(1, 2).reshape(batch, tokens, -1)
        # given:
        # return heads.reshape(batch, tokens, -1)
        # end

    for shape in ((2, 3, 4, 5), (1, 2, 2, 2), (2, 4, 1, 3)):
        heads = torch.randn(shape)
        joined = join(heads)
        assert tuple(joined.shape) == (shape[0], shape[2], shape[1] * shape[3])
        for sentence, token in np.ndindex(shape[0], shape[2]):
            said = [number for head in heads[sentence] for number in head[token].tolist()]
            assert joined[sentence, token].tolist() == said


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "cross_entropy makes probabilities of each row of scores, and they add up to 1.",
        "How many scores are in a row here? Then what is the probability?",
    ],
    why=(
        "The only class of a row has the probability 1, whatever its score: the loss is 0, the "
        "gradient is 0, and nothing is ever learned. A float target of the same shape silenced the "
        "error only. For one output there is binary_cross_entropy_with_logits."
    ),
    wrong={
        "[9.0, -0.5, 0.5]": (
            "This is what the binary loss says. Cross entropy compares the classes of a row."
        ),
        "[9.0, -1.0, 1.0]": (
            "So would the sum of a binary loss move. Here there is no second class to win."
        ),
        "[0.0, -0.5, 0.5]": "If the loss is the same for all scores, which way is down?",
        "[0.6931, -0.5, 0.5]": (
            "log 2 is the loss of two classes that are equally likely. Count the classes."
        ),
    },
)
def test_a_complaint_that_went_away():
    """A classifier with one output. Integer labels gave an error; as a float column they do not.
    Both scores are clearly on the wrong side.

    Predict the loss and the two gradients.
    """
    scores = torch.tensor([[-9.0], [9.0]], requires_grad=True)
    labels = torch.tensor([1, 0])
    loss = F.cross_entropy(scores, labels.float().unsqueeze(1))
    loss.backward()
    assert [round(loss.item(), 4), *scores.grad.flatten().tolist()] == answer([0.0, 0.0, 0.0])


@koan(
    see="torch.Tensor.__getitem__",
    hint=[
        "4 / 2 is a whole number. Print `row`, and its dtype.",
        "A whole number is a question of the dtype here, not of the value. Which of the four ways "
        "change the dtype or the type?",
    ],
    why=(
        "`/` leaves the integers even when nothing is left over, and an index must be an integer "
        "or a mask. Write `//`, or torch.div with rounding_mode='floor'. floor() "
        "rounds, and stays a float. (long() and int() work, for small numbers: float32 counts "
        "exactly up to 16,777,216.)"
    ),
    wrong={
        ("TypeError", "['int', 'long']"): "So a Python list calls it. A tensor is another thing.",
        ("RuntimeError", "['int', 'long']"): (
            "PyTorch's usual name. But here it speaks as a container would."
        ),
        ("ValueError", "['int', 'long']"): "The value 2 is within range, and is not what is wrong.",
        ("IndexError", "['item', 'int', 'long', 'floor']"): (
            "All four stand for row 2. But two of them are floats as before."
        ),
        ("IndexError", "['int', 'long', 'floor']"): (
            "Rounded is not the same as whole: print the dtype of what floor() returns."
        ),
        (
            "IndexError",
            "['item', 'int', 'long']",
        ): "item() gives a number of Python. Of which type?",
        ("IndexError", "['long']"): "A plain int of Python is the simplest index of all.",
    },
    at={
        "assert accepted ==": (
            "The exception is right. An index must be whole: ask each of the four forms for its "
            "type, and a tensor for its dtype."
        ),
    },
)
def test_the_row_of_the_largest():
    """Which row holds the largest number? argmax() counts through the whole table, so divide by
    the width. It even comes out whole. Which exception does table[row] raise?

    And which of four other forms of `row` are accepted? Keep the order."""
    table = torch.tensor([[0, 0], [0, 0], [5, 0]])
    row = table.argmax() / 2
    with pytest.raises(Exception) as caught:
        table[row]
    assert caught.type is answer(IndexError)
    forms = {"item": row.item(), "int": int(row), "long": row.long(), "floor": row.floor()}
    accepted = []
    for name, form in forms.items():
        with suppress(Exception):
            accepted += [name] if len(table[form]) else []
    assert accepted == answer(["int", "long"])


@koan(
    see="torch.from_numpy",
    hint=[
        "All five begin with float64 numbers. Where does the width survive the way to PyTorch?",
        "A Python float has no width for PyTorch. Does a list of NumPy's numbers consist of those?",
        "A tensor without dimensions is a weak partner of one that has some.",
    ],
    why=(
        "NumPy's arrays and single numbers bring float64 into a tensor; what has dimensions then "
        "infects the result. A bare number beside x, or a tensor without dimensions, does not. "
        "The layer that complains is never the guilty line, and model.double() makes everything "
        "twice as large: convert once, where the numbers come in."
    ),
    wrong={
        "['number', 'wrapped', 'rows', 'listed']": (
            "That would be so if the widest always won. Not everything has a vote."
        ),
        "['rows']": "list() takes the array apart. What are the parts: Python's, or NumPy's?",
        "['wrapped', 'rows', 'listed']": (
            "It is float64, but it has no dimension, and x is of the same kind."
        ),
        "['number', 'wrapped', 'rows', 'listed', 'plain']": (
            "tolist() gives numbers of Python. For those PyTorch chooses its default."
        ),
        "['number', 'rows']": "Beside a tensor, a number of NumPy counts like one of Python.",
    },
)
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
    assert doubles == answer(["rows", "listed"])


@koan(
    see="torch.Tensor.sum",
    hint=[
        "What is the dtype of bool + bool? Ask torch.result_type.",
        "Python's sum() begins with a number of its own. Which one, and of which kind?",
    ],
    why=(
        "bool + bool stays bool, and there + means 'or': True + True is True. Python's sum() "
        "starts with the integer 0, so its first + leaves the bools. For votes: "
        "torch.stack(votes).sum(dim=0), which counts in int64."
    ),
    wrong={
        ("[torch.int64, 3, 1, 0]", "[torch.int64, 3, 1, 0]"): (
            "NumPy does not count here either; only Python's own True + True is 2."
        ),
        ("[torch.bool, True, False, False]", "[torch.int64, 3, 1, 0]"): (
            "That is 'and'. One judge is enough for a +."
        ),
        ("[torch.bool, True, True, False]", "[torch.bool, True, True, False]"): (
            "sum() adds one more thing than the three of you."
        ),
        ("[torch.bool, True, True, False]", "[torch.int64, 1, 1, 0]"): (
            "The first + of sum() is not one between two judges. Is there an 'or' left?"
        ),
    },
    right=[
        ("[torch.bool, True, True, False]", "[torch.long, 3, 1, 0]"),
        ("[torch.bool, 1, 1, 0]", "[torch.int64, 3, 1, 0]"),
    ],
    at={
        "summed.dtype": (
            "The first list is right. Python's sum() does not begin with the first judge. With "
            "what, and what becomes of the dtype?"
        ),
    },
)
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
    assert [plus.dtype, *plus.tolist()] == answer([torch.bool, True, True, False])
    assert [summed.dtype, *summed.tolist()] == answer([torch.int64, 3, 1, 0])


@koan(
    claims=["A-2.2-01"],
    see="torch.result_type",
    hint=[
        "`/` asks for a fraction, `//` for a whole number. Does either of them ask for a dtype?",
        "A Python number has a kind, whole or with a fraction, and no width. What width steps in?",
        "When an integer meets a float tensor, who keeps the width?",
    ],
    why=(
        "`/` leaves the integers, whatever their width, for the default float. `//` rounds, and "
        "keeps the dtype of the pair: a float on one side makes floats. Many names, a few rules: "
        "so no number of APIs is right, be it the 870 callables of torch or some 3600 operators."
    ),
    wrong={
        "[torch.float32, torch.int64, torch.int64, torch.float32, torch.int64]": (
            "`//` rounds. Some take that for a promise of integers; 4.0 is a rounded number, too."
        ),
        "[torch.int64, torch.int64, torch.int64, torch.uint8, torch.float16]": (
            "4 it is, each time. But the dtype is chosen before anybody looks at the result."
        ),
        "[torch.float32, torch.int64, torch.float32, torch.float16, torch.float16]": (
            "Small integers do not make small floats. `/` has one width for all of them."
        ),
        "[torch.float32, torch.int64, torch.float64, torch.float32, torch.float16]": (
            "A Python float is 64 bits wide in Python. For PyTorch it has no width."
        ),
        "[torch.float32, torch.int64, torch.float32, torch.float32, torch.float32]": (
            "Between an integer tensor and a float tensor, the float's width is kept."
        ),
    },
    right=["[torch.float, torch.long, torch.float, torch.float, torch.half]"],
)
def test_five_ways_to_divide():
    """Eight by two in five ways. Each gives 4. Predict the five dtypes, as a list."""
    x, y = torch.tensor([8]), torch.tensor([2])
    ways = [x / y, x // y, x // 2.0, x.byte() / y.byte(), x.half() // y]
    assert [way.item() for way in ways] == [4, 4, 4, 4, 4]
    assert [way.dtype for way in ways] == answer(
        [torch.float32, torch.int64, torch.float32, torch.float32, torch.float16]
    )


@koan(
    claims=["A-2.2-26"],
    see="torch.Tensor.permute",
    hint=[
        "Four traps from this file: the order of the axes, the byte, the double, the label.",
        "Leave the bytes before you compute, and choose the width of your floats yourself.",
        "Byte 0 becomes -1 and byte 255 becomes 1. What is the number in between them?",
    ],
    why=(
        "Stack, move the colours (permute, not reshape), float() before any arithmetic, since "
        "bytes wrap around and NumPy would go to float64, and class numbers as int64. torchvision "
        "has a transform for each; it is a package of its own, which torch neither contains nor "
        "needs."
    ),
    wrong={
        "batch, height, width, colours = np.stack(pictures).shape\n"
        "images = torch.from_numpy(np.stack(pictures)).reshape(batch, colours, height, width)\n"
        "return images.float() / 127.5 - 1, torch.from_numpy(labels).long()": (
            "The shape is right. But reshape has not moved the colours."
        ),
        "images = torch.from_numpy(np.stack(pictures) / 127.5 - 1)\n"
        "return images.permute(0, 3, 1, 2), torch.from_numpy(labels).long()": (
            "NumPy has done the division, in its own width."
        ),
        "images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)\n"
        "return (2 * images - 255).float() / 255, torch.from_numpy(labels).long()": (
            "The doubling was done in bytes, and bytes wrap around."
        ),
        "images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)\n"
        "return images.float() / 127.5 - 1, torch.from_numpy(labels)": (
            "These labels came from a file as float64. cross_entropy wants class numbers."
        ),
        "images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)\n"
        "return images.float() / 255, torch.from_numpy(labels).long()": (
            "From 0 to 1. It must begin at -1."
        ),
        "images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).squeeze()\n"
        "return images.float() / 127.5 - 1, torch.from_numpy(labels).long()": (
            "A batch may hold one picture."
        ),
        "images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 2, 1)\n"
        "return images.float() / 127.5 - 1, torch.from_numpy(labels).long()": (
            "The colours are in place, but the pictures lie on their side."
        ),
        "images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)\n"
        "return images.float() / 127.5 - 1, torch.from_numpy(labels).long().unsqueeze(1)": (
            "A column of class numbers is one dimension too many for cross_entropy."
        ),
    },
    right=[
        "images = torch.stack([torch.from_numpy(p).permute(2, 0, 1) for p in pictures])\n"
        "return images.float() / 127.5 - 1, torch.as_tensor(labels, dtype=torch.int64)",
        "images = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32)\n"
        "return torch.from_numpy(images / 127.5 - 1), torch.from_numpy(labels.astype(np.int64))",
        "images = torch.tensor(np.stack(pictures)).movedim(-1, 1)\n"
        "return (images / 255 - 0.5) / 0.5, torch.tensor(labels, dtype=torch.long)",
        "images = torch.tensor(np.stack(pictures), dtype=torch.float32).permute(0, 3, 1, 2)\n"
        "return images.sub(127.5).div(127.5).contiguous(), torch.LongTensor(labels.tolist())",
    ],
    at={
        "images, targets = to_batch": (
            "This line takes two things from `to_batch`: the pictures and the class numbers."
        ),
        "(images.dtype, targets.dtype)": (
            "Two dtypes are compared, of the pictures and of the class numbers. Which one is not "
            "right, and on which line was it chosen?"
        ),
        "tuple(images.shape)": (
            "Both dtypes are right. The shape should be (batch, colour, height, width), also for "
            "a batch of one picture."
        ),
        "images[n, colour, y, x].item()": (
            "Dtypes and shape are right. Here each number is compared: is it at its own place, "
            "and between -1 and 1 as it should?"
        ),
        "targets.tolist()": (
            "All pictures are right. The class numbers should be one plain row, a whole number "
            "for each picture."
        ),
    },
)
def test_a_batch_without_torchvision():
    """Write `to_batch`. In: a list of uint8 pictures (height, width, colour) and float64 labels,
    all from NumPy. Out: float32 pictures (batch, colour, height, width), where byte 0 is -1 and
    byte 255 is 1, and class numbers for cross_entropy."""

    def to_batch(pictures, labels):
        # answer:
        images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
        return images.float() / 127.5 - 1, torch.from_numpy(labels).long()
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
