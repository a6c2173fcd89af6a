"""Shapes and dtypes: the mistakes that broadcast, squeeze and round in silence.

Documents: A 2.2
"""

import importlib.util

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import answer, koan


@koan(
    see="torch.eq",
    hint=[
        "Print the shape of `correct`. How many comparisons should there be for four samples?",
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
    assert accuracy(torch.tensor([[5.0]]), torch.tensor([1])) == 1.0


@koan(
    see="torch.squeeze",
    hint=[
        "squeeze() drops all dimensions of length one. In the last batch, which are these?",
        "Say which dimensions shall go, and leave the others alone, however short they are.",
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
        "It tries to make one number of each part. How does Python complain about int('one')?",
    ],
    why=(
        "torch.tensor takes each tensor in the list for a number, and one with two elements is "
        "none. (A list of tensors with one element works, slowly.) Tensors are put together by "
        "torch.stack, which makes a new dimension, or by torch.cat, which prolongs one."
    ),
    wrong={
        "TypeError": "Natural. But it is a question of how many numbers a part holds.",
        "RuntimeError": "PyTorch's usual name. This one comes from a conversion to numbers.",
        "IndexError": "No index is involved.",
        "AttributeError": "No name was looked up.",
    },
)
def test_a_list_of_batches():
    """The predictions of two batches are collected in a list, to become one tensor. Which
    exception does it raise?"""
    model = torch.nn.Linear(3, 1)
    predictions = [model(batch).squeeze(1).detach() for batch in torch.zeros(4, 3).split(2)]
    with pytest.raises(Exception) as caught:
        torch.tensor(predictions)
    assert caught.type is answer(ValueError)


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
)
def test_a_mean_for_each_colour():
    """Pictures: (batch, colour, height, width). Each colour shall lose its own mean over all of
    them. Some pictures raise an error, and those of three by three pixels give wrong colours.

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
        "The numbers that shall form one row must be neighbours before they are joined.",
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
        "9 / 3 is a whole number. Is the result of `/` a whole number for PyTorch too?",
        "A list of Python is asked the same with a float, and has its own word for it. PyTorch's "
        "tensor asks what kind of index this is.",
    ],
    why=(
        "`/` leaves the integers even when nothing is left over, and an index must be an integer "
        "or a mask. Write `//`, or torch.div with rounding_mode='floor'. (A rounding .long() "
        "afterwards works for small numbers; float32 counts exactly up to 16,777,216.)"
    ),
    wrong={
        "TypeError": "So a Python list calls it. A tensor is another container.",
        "RuntimeError": "PyTorch's usual name. But here it speaks as a container would.",
        "ValueError": "The value 3 is within range. It is not the value that is refused.",
        "KeyError": "Nothing is looked up by name.",
    },
)
def test_the_row_of_the_largest():
    """Which row holds the largest number? argmax() counts through the whole table, so divide by
    the width. It even comes out whole. Which exception does the last line raise?"""
    table = torch.zeros(4, 3)
    table[3, 0] = 1.0
    row = table.argmax() / 3
    assert row == 3
    with pytest.raises(Exception) as caught:
        table[row]
    assert caught.type is answer(IndexError)


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
        ("[3, 1, 0]", "[3, 1, 0]"): (
            "NumPy does not count here either; only Python's own True + True is 2."
        ),
        ("[True, False, False]", "[3, 1, 0]"): "That is 'and'. One judge is enough for a +.",
        ("[True, True, False]", "[True, True, False]"): (
            "sum() adds one more thing than the three of you."
        ),
        ("[True, False, False]", "[True, False, False]"): (
            "Not every judge must agree, and the two ways of adding differ."
        ),
    },
)
def test_votes_of_three_judges():
    """Three judges say which of three answers are right. Count the votes of each answer: with
    +, then with Python's sum(). Predict both lists."""
    judges = [
        torch.tensor([True, True, False]),
        torch.tensor([True, False, False]),
        torch.tensor([True, False, False]),
    ]
    first, second, third = judges
    assert (first + second + third).tolist() == answer([True, True, False])
    assert sum(judges).tolist() == answer([3, 1, 0])


@koan(
    claims=["A-2.2-01"],
    see="torch.true_divide",
    hint=[
        "A set keeps each object once. Are these five names, or five functions?",
        "Two kinds of division are among them. What tells them apart: the name, or the result?",
    ],
    why=(
        "Five functions, two operators: true division, which leaves the integers, and floor "
        "division, which stays. So no number of APIs is right: torch 2.13 for the CPU has some 870 "
        "public callables in torch, 570 on Tensor, and about 3600 operator overloads. Learn "
        "operations; their spellings come along."
    ),
    wrong={
        "[5, 5]": (
            "Some count every name as an API of its own. Several of these end in the same place."
        ),
        "[2, 2]": "Each is an object of its own. It is further down that ways meet.",
        "[5, 1]": "7 / 2 and 7 // 2 are not the same number.",
        "[3, 2]": "The methods of Tensor are no other names for the functions of torch.",
        "[5, 3]": "A method and a function need not run different operators.",
    },
)
def test_five_ways_to_divide():
    """Some say PyTorch has about 2000 APIs. What is counted? `Log` notes each operator.

    How many different functions are in the list, and how many different operators did they run?
    """
    log = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            log.append(operator)
            return operator(*args, **(kwargs or {}))

    true, floor = torch.Tensor.__truediv__, torch.Tensor.__floordiv__
    functions = [torch.div, torch.true_divide, true, torch.floor_divide, floor]
    x, y = torch.tensor([7]), torch.tensor([2])
    with Log():
        for function in functions:
            function(x, y)
    assert [len(set(functions)), len(set(log))] == answer([5, 2])


@koan(
    claims=["A-2.2-26"],
    see="torch.utils.data.Dataset",
    hint=[
        "torch knows tensors, gradients, layers, optimizers and loaders. And pictures?",
        "What belongs to one domain, such as pictures or sound, comes in a package of its own.",
    ],
    why=(
        "Transforms, picture data sets and model zoos are in torchvision, a package of its own "
        "that torch neither contains nor needs: pip install torchvision. Its version must fit "
        "torch's. For the simplest transform you need no package, as the next task shows."
    ),
    wrong={
        "['torch.vision']": (
            "Many tutorials say `transforms` without telling whose. It is not torch's."
        ),
        "['torch.transforms', 'torch.vision']": (
            "torch.utils.data has the class Dataset. Has torch any data?"
        ),
        "['torch.datasets', 'torch.transforms', 'torch.vision', 'torch.optim.lr_scheduler']": (
            "Schedules are for every domain, and come with the optimizers."
        ),
        "[]": "A fresh installation of torch alone has no pictures in mind.",
        "['torch.datasets', 'torch.vision']": (
            "Cutting and flipping pictures is for pictures only. Where would that live?"
        ),
    },
)
def test_imports_from_memory():
    """A notebook about pictures, typed from memory. torch is installed, nothing else. Which of
    these modules does torch not have? Keep the order."""
    names = [
        "torch.utils.data",
        "torch.datasets",
        "torch.nn.init",
        "torch.transforms",
        "torch.optim.lr_scheduler",
        "torch.vision",
    ]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    assert missing == answer(["torch.datasets", "torch.transforms", "torch.vision"])


@koan(
    see="torch.Tensor.permute",
    hint=[
        "Four traps from this file: the order of the axes, the byte, the double, the label.",
        "Leave the bytes before you compute, and choose the width of your floats yourself.",
        "Byte 0 becomes -1 and byte 255 becomes 1. What is the number in between them?",
    ],
    why=(
        "Stack, move the colours (permute, not reshape), float() before any arithmetic, since "
        "bytes wrap around and NumPy would go to float64, and class numbers as int64. This is what "
        "torchvision's transforms do, one line each."
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
            "From 0 to 1. It shall begin at -1."
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
