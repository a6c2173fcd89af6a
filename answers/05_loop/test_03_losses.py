"""Losses: each has a contract about shapes, dtypes and scales, and not each of them checks it.

Documents: A 3.5
"""

from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import answer, koan


@koan(
    claims=["A-3.5-01"],
    see="torch.nn.Module",
    hint=[
        "What type does a plain module return? Has that type a loss?",
        "Output and target must meet somewhere. In which order does a loss function take them?",
    ],
    why=(
        "A plain module returns a tensor, and a tensor has no loss: AttributeError. Output and "
        "target meet in a loss function, the output first. Some libraries have models that take "
        "the labels, too, and return an object with a .loss. That is their custom, not PyTorch's."
    ),
    wrong={
        "return model(x).loss": (
            "Some say that each module returns an object with a loss. What has the model been told "
            "of the target?"
        ),
        "return loss_fn(y, model(x))": (
            "For some losses the order does not matter. Most know which one is the output."
        ),
        "return model(x).mean()": "This is made from the output alone. Where is the target?",
        "return loss_fn(model(x).detach(), y)": "The number is right, and no way leads back.",
    },
    right=[
        "output = model(x)\nreturn loss_fn(output, y)",
        "return loss_fn(model.forward(x), y)",
    ],
    at={
        "seen[-1].backward()": (
            "You returned something, but one cannot go backward from it: is it one number, with a "
            "way back to the model?"
        ),
        "loss.item() for loss in seen": (
            "One can go backward from your loss. But its value is wrong: print `seen`. What goes "
            "into loss_fn, and in which order?"
        ),
    },
)
def test_the_loss_of_an_output():
    """Many examples write loss = model(batch).loss. A layer of your own does not know of that.

    Repair the marked line, for any loss function.
    """

    def loss_of(model, loss_fn, x, y):
        # answer:
        return loss_fn(model(x), y)
        # given:
        # return model(x).loss
        # end

    for slope, losses in ((0.0, [0.6931, 4.0]), (2.0, [0.1269, 0.0])):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, slope)
        one, seen = torch.ones(1, 1), []
        for loss_fn, y in ((F.binary_cross_entropy_with_logits, one), (F.mse_loss, 2 * one)):
            seen.append(loss_of(model, loss_fn, one, y))
            seen[-1].backward()
        assert [loss.item() for loss in seen] == pytest.approx(losses, abs=1e-3)


@koan(
    see="torch.nn.CrossEntropyLoss",
    hint=[
        "Binary: the target is a probability for each output. Which dtype and shape has that?",
        "Cross entropy: one class number for each row. It has another form, too.",
        "Four of the five forms are refused by the first loss, three by the second.",
    ],
    why=(
        "The binary losses take a probability for each output: a float, in the output's own shape. "
        "Cross entropy takes a class number for each row, int64 of shape (N,), or a whole row of "
        "probabilities, float of shape (N, C). Labels from a file are int64 of shape (N,): right "
        "for the one, wrong for the other."
    ),
    wrong={
        ("[(torch.int64, (3, 1))]", "[(torch.int64, (3,))]"): (
            "Some say labels are whole numbers, so int64 works for every loss of a classifier. "
            "A probability is no whole number."
        ),
        (
            "[(torch.float32, (3,)), (torch.float32, (3, 1))]",
            "[(torch.int64, (3,)), (torch.float32, (3, 2))]",
        ): "The binary loss does not stretch shapes. It wants the shape of the output.",
        ("[(torch.float32, (3, 1))]", "[(torch.int64, (3,))]"): (
            "Cross entropy can also be told how likely each class is."
        ),
        (
            "[(torch.float32, (3, 1))]",
            "[(torch.int64, (3,)), (torch.int64, (3, 1)), (torch.float32, (3, 2))]",
        ): "A column of class numbers is one dimension too many.",
    },
    right=[
        ("[(torch.float, (3, 1))]", "[(torch.long, (3,)), (torch.float, (3, 2))]"),
    ],
    at={
        "taken[1]": (
            "This is the binary loss, with outputs of shape (3, 1). What does it want to know for "
            "each output: which dtype and shape has that?"
        ),
        "taken[2]": (
            "The binary loss is right. Now cross entropy, with outputs of shape (3, 2): in which "
            "ways can a target name a class?"
        ),
    },
)
def test_which_targets_are_accepted():
    """Five forms of the same three labels. Which does each loss take? The binary loss gets outputs
    of shape (3, 1), cross entropy of shape (3, 2). List (dtype, shape) in the order of `forms`."""
    y = torch.tensor([0, 1, 1])
    forms = [y, y[:, None], y.float(), y[:, None].float(), F.one_hot(y).float()]
    taken = {1: [], 2: []}
    for width, loss in ((1, F.binary_cross_entropy_with_logits), (2, F.cross_entropy)):
        for target in forms:
            with suppress(RuntimeError, ValueError):
                loss(torch.zeros(3, width), target)
                taken[width].append((target.dtype, tuple(target.shape)))
    assert taken[1] == answer([(torch.float32, (3, 1))])
    assert taken[2] == answer([(torch.int64, (3,)), (torch.float32, (3, 2))])


@koan(
    see="torch.nn.MSELoss",
    hint=[
        "Lay the two shapes side by side, from the right. What does broadcasting make of them?",
        "Each prediction is compared with each target. Write down all the squares.",
    ],
    why=(
        "A column against a row gives a table: each prediction with each target. The loss is a "
        "number like any other, training goes on, and in the end every prediction is the mean of "
        "the targets. All you get is a warning. Bring both sides to one shape: squeeze(1)."
    ),
    wrong={
        ("(2,)", "[0.0, 0.0]"): (
            "Every prediction is right, so one expects nothing. But who is compared with whom?"
        ),
        ("(2, 2)", "[2.0, 0.0]"): (
            "Some say reduction='sum' avoids it. The table is made before anything is reduced."
        ),
        ("(2, 1)", "[0.0, 0.0]"): (
            "Some say the warning is cosmetic, since the number of elements is the same. It is not "
            "the same after broadcasting."
        ),
        ("(2, 2)", "[4.0, 8.0]"): "Not all of the four squares are the same.",
    },
    right=[("torch.Size([2, 2])", "[2.0, 8.0]")],
    at={
        "tuple(each.shape)": (
            "Without reduction there is a number for each pair that is compared. Lay the two "
            "shapes side by side, from the right: who meets whom?"
        ),
        "mean.item()": (
            "The shape is right. Now write down each entry of the unreduced loss, then take their "
            "mean and their sum."
        ),
    },
)
def test_a_column_against_a_row():
    """Both predictions are right, but one side is a column and the other is not. It only warns.

    Predict the shape of the unreduced loss, and what mean and sum give.
    """
    predicted, wanted = torch.tensor([[0.0], [2.0]]), torch.tensor([0.0, 2.0])
    with pytest.warns(UserWarning):
        each = F.mse_loss(predicted, wanted, reduction="none")
        mean = F.mse_loss(predicted, wanted)
        total = F.mse_loss(predicted, wanted, reduction="sum")
    assert tuple(each.shape) == answer((2, 2))
    assert [mean.item(), total.item()] == answer([2.0, 8.0])


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "cross_entropy turns scores into probabilities by itself. What is it given here?",
        "Probabilities are all between 0 and 1. How far apart can the scores be then?",
    ],
    why=(
        "cross_entropy takes raw scores (logits) and does log_softmax itself. Probabilities look "
        "like scores that hardly differ, so the loss cannot get small, and learning is slow; the "
        "accuracy may look fine. A log_softmax before it is merely superfluous: doing it twice "
        "changes nothing. Softmax is for the reader of the result."
    ),
    wrong={
        "return F.nll_loss(scores.softmax(dim=1), labels)": (
            "nll_loss does no softmax. But it wants logarithms, and below zero a loss looks odd."
        ),
        "return F.cross_entropy(scores.softmax(dim=1).log().softmax(dim=1), labels)": (
            "In the end these are probabilities again."
        ),
        "return F.cross_entropy(scores.sigmoid(), labels)": (
            "Another squeeze into the same narrow space."
        ),
        "return F.cross_entropy(50 * scores.softmax(dim=1), labels)": (
            "Larger numbers hide the floor, but these are not the model's scores."
        ),
        "return F.mse_loss(scores.softmax(dim=1), F.one_hot(labels, 3).float())": (
            "It can reach zero. But another loss was asked for."
        ),
    },
    right=[
        "return F.cross_entropy(scores.log_softmax(dim=1), labels)",
        "return F.nll_loss(scores.log_softmax(dim=1), labels)",
        "return nn.CrossEntropyLoss()(scores, labels)",
    ],
    at={
        "assert 0 <=": (
            "The scores are sure and right, so the loss should be close to 0, and not below it. "
            "What do the scores go through on their way?"
        ),
        "torch.testing.assert_close": (
            "The floor is gone. But with other labels or scores it is not their cross entropy: "
            "print it beside `by_hand`."
        ),
    },
)
def test_a_loss_with_a_floor():
    """The model is sure of the right answers, and still this loss will not go below 0.55.

    Repair the marked line: it should be the cross entropy of the scores.
    """

    def loss_of(scores, labels):
        # answer:
        return F.cross_entropy(scores, labels)
        # given:
        # return F.cross_entropy(scores.softmax(dim=1), labels)
        # end

    sure = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])
    assert 0 <= loss_of(sure, torch.tensor([0, 1])) < 0.001
    for scores in (sure, torch.tensor([[1.0, 2.0, 0.0], [0.0, -3.0, 0.5]])):
        labels = torch.tensor([1, 2])
        by_hand = (scores.logsumexp(dim=1) - scores[[0, 1], labels]).mean()
        torch.testing.assert_close(loss_of(scores, labels), by_hand)


@koan(
    see="torch.nn.functional.binary_cross_entropy_with_logits",
    hint=[
        "In float32, what is sigmoid(200)? And how steep is the curve there?",
        "The loss of a wrong answer grows with the score, step for step. Which of the two knows?",
    ],
    why=(
        "sigmoid(200) is exactly 1, and flat: whatever the loss wants, nothing comes through, so "
        "the worst mistakes teach nothing. The loss with logits does both in one formula, where "
        "the slope is sigmoid(score) - target. Give losses the scores."
    ),
    wrong={
        "[1.0, 1.0]": "On paper both are one function. In float32 one of them has a step more.",
        "[0.0, 0.0]": "If both were flat, such a mistake could never be corrected.",
        "[float('inf'), 1.0]": "log(0) is near. But this loss is cut off, and then all is flat.",
        "[1.0, 0.0]": "The other way round: which of them goes through the flat curve?",
    },
)
def test_sure_and_wrong():
    """The score says yes with 200, and the target is no. Predict the gradient of the score: first
    with a sigmoid before the loss, then with the loss that takes logits."""

    def on_probability(score, target):
        return F.binary_cross_entropy(score.sigmoid(), target)

    gradients = []
    for loss_of in (on_probability, F.binary_cross_entropy_with_logits):
        score = torch.tensor([200.0], requires_grad=True)
        loss_of(score, torch.zeros(1)).backward()
        gradients.append(score.grad.item())
    assert gradients == answer([0.0, 1.0])


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "The numbers of C classes begin with 0. Which is the last one?",
        "A label picks a column of its row. How does Python call it when there is none?",
    ],
    why=(
        "Class numbers are columns: 0 to C - 1. Labels that start at 1 run out of the table, and "
        "on the CPU that is an IndexError. On a GPU it is an assertion on the device, reported "
        "later and somewhere else: run such a batch on the CPU to read the message. "
        "ignore_index, -100 by default, is the one exception."
    ),
    wrong={
        "ValueError": "The dtype is right, and so is the shape. One number leads outside.",
        "RuntimeError": "Most refusals are called so, but this one has a name of its own.",
        "KeyError": "Nothing is looked up by name.",
    },
)
def test_labels_that_start_at_one():
    """Three classes, and the file numbers them 1, 2, 3. Which exception does it raise?"""
    scores = torch.zeros(3, 3)
    labels = torch.tensor([1, 2, 3])
    with pytest.raises(Exception) as caught:
        F.cross_entropy(scores, labels)
    assert caught.type is answer(IndexError)


@koan(
    see="torch.nn.CrossEntropyLoss",
    hint=[
        "Without weights both samples have the same loss: 1 unit. What do the weights make of it?",
        "A weighted mean is not divided by how many there are. By what else?",
    ],
    why=(
        "reduction='mean' is a weighted mean: the weighted losses, divided by the sum of the "
        "weights of these labels. So a batch of one class alone has the same loss with and without "
        "weights. Whoever takes the mean of the unreduced losses gets another number."
    ),
    wrong={
        "[[1.0, 3.0], 2.0]": (
            "Some say the mean divides by the number of samples. Then heavier weights would mean a "
            "larger loss, and larger steps."
        ),
        "[[1.0, 1.0], 1.0]": "The weights act already on the single losses.",
        "[[1.0, 3.0], 4.0]": "That is the sum.",
        "[[0.25, 0.75], 0.5]": "The single losses are multiplied, and not divided by anything.",
    },
)
def test_a_class_that_weighs_three():
    """Two samples with equal losses; we count in units of such a loss. Class 1 weighs 3.

    Predict the two unreduced losses and their 'mean'.
    """
    scores, labels = torch.zeros(2, 2), torch.tensor([0, 1])
    weight = torch.tensor([1.0, 3.0])
    unit = F.cross_entropy(scores, labels)
    each = F.cross_entropy(scores, labels, weight=weight, reduction="none") / unit
    mean = F.cross_entropy(scores, labels, weight=weight) / unit
    assert [each.round().tolist(), round(mean.item(), 3)] == answer([[1.0, 3.0], 1.0])


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "Read the shapes in the manual: where does cross_entropy look for the classes?",
        "Swap two dimensions, or make one long list of tokens. A view does not swap.",
        "It may raise, or not: what if a sentence has as many tokens as there are classes?",
    ],
    why=(
        "cross_entropy wants the classes in dimension 1: (N, C, T). Sequence models put them last. "
        "If T and C differ it raises; if they happen to be equal it computes something else, "
        "without a word. reshape(N, C, T) makes the shape fit and mixes up tokens and classes."
    ),
    wrong={
        "return F.cross_entropy(scores.reshape(len(scores), scores.shape[2], -1), labels)": (
            "The shape fits, and the numbers stand in the wrong places. reshape moves nothing."
        ),
        "return F.cross_entropy(scores.transpose(0, 1), labels.T)": (
            "Sentences and tokens have changed places. The classes are still last."
        ),
        "return F.cross_entropy(scores.mean(dim=1), labels[:, 0])": (
            "One label for each sentence: that is another task."
        ),
        "return F.cross_entropy(scores.flatten(0, 1), labels.T.flatten())": (
            "One list of scores and one of labels, but in different orders."
        ),
    },
    right=[
        "return F.cross_entropy(scores.flatten(0, 1), labels.flatten())",
        "return F.cross_entropy(scores.reshape(-1, scores.shape[2]), labels.reshape(-1))",
        "return F.cross_entropy(scores.permute(0, 2, 1), labels)",
        "return F.cross_entropy(scores.mT, labels)",
    ],
    at={
        "torch.testing.assert_close": (
            "No error in your line. But it should give one number, that of `by_hand`: does each "
            "score meet the label of its own token?"
        ),
    },
)
def test_a_label_for_each_token():
    """Scores for each token: (sentences, tokens, classes). Labels: (sentences, tokens). It raises.

    Repair the marked line.
    """

    def loss_of(scores, labels):
        # answer:
        return F.cross_entropy(scores.transpose(1, 2), labels)
        # given:
        # return F.cross_entropy(scores, labels)
        # end

    for sentences, tokens, classes in ((2, 5, 3), (4, 3, 3)):
        scores = torch.randn(sentences, tokens, classes)
        labels = torch.arange(sentences * tokens).reshape(sentences, tokens) % classes
        picked = scores.gather(2, labels[:, :, None])[:, :, 0]
        by_hand = (scores.logsumexp(dim=2) - picked).mean()
        torch.testing.assert_close(loss_of(scores, labels), by_hand)


@koan(
    see="torch.nn.CrossEntropyLoss",
    hint=[
        "An ignored token has a loss of its own, if you do not reduce. Which?",
        "The mean divides by the number of labels that count. How many are there?",
    ],
    why=(
        "The mean is taken over the labels that count, and here none does: 0 / 0. Going backward "
        "from it gives zeros, so the weights survive; but running averages, early stopping and "
        "every later check for nan are ruined. Skip such a batch, or divide a sum by at least 1."
    ),
    wrong={
        "['0.0', '0.0', '0.0']": (
            "Some say that ignored labels give a loss of zero. So they do, one by one. And their "
            "mean?"
        ),
        "['nan', 'nan', 'nan']": "Only one of the three has to divide.",
        "['0.0', 'nan', 'nan']": "A sum of zeros is no riddle.",
    },
)
def test_nothing_but_padding():
    """By default the label -100 means: ignore. In this batch each label is ignored.

    Predict the largest single loss, the sum and the mean, written with one decimal.
    """
    scores, labels = torch.zeros(3, 4), torch.full((3,), -100)
    each = F.cross_entropy(scores, labels, reduction="none")
    total = F.cross_entropy(scores, labels, reduction="sum")
    mean = F.cross_entropy(scores, labels)
    assert [f"{loss:.1f}" for loss in (each.max(), total, mean)] == answer(["0.0", "0.0", "nan"])


@koan(
    see="torch.nn.functional.kl_div",
    hint=[
        "A distance cannot be negative, and as given this one was. What was misunderstood?",
        "The manual calls the first argument log-probabilities. And the second?",
    ],
    why=(
        "kl_div takes logarithms first and plain probabilities second: usually "
        "F.kl_div(scores.log_softmax(-1), target, reduction='batchmean'). Nobody checks it: with "
        "two probabilities you get a number, often a negative one. 'batchmean' divides by the "
        "number of rows; 'mean' would divide by all elements."
    ),
    wrong={
        "return F.kl_div(predicted.log(), wanted.log(), reduction='batchmean')": (
            "Now both are logarithms. The second may be one only if you say so."
        ),
        "return F.kl_div(wanted.log(), predicted, reduction='batchmean')": (
            "A distance, but measured from the other side. It is not symmetric."
        ),
        "return F.kl_div(predicted, wanted.log(), reduction='batchmean')": (
            "The logarithm has gone to the wrong one."
        ),
        "return F.kl_div(predicted.log(), wanted, reduction='sum')": (
            "Now it grows with the number of rows."
        ),
        "return F.kl_div(predicted, wanted, reduction='batchmean').abs()": (
            "Without its sign the number looks better, and means as little."
        ),
    },
    right=[
        "return F.kl_div(predicted.log(), wanted.log(), reduction='batchmean', log_target=True)",
        "return F.kl_div(predicted.log(), wanted, reduction='none').sum(dim=1).mean()",
        "return (wanted * (wanted / predicted).log()).sum(dim=1).mean()",
    ],
    at={
        "torch.testing.assert_close": (
            "Print your distance beside `sum(terms) / 2`. What should each of its arguments be, "
            "and what is averaged?"
        ),
    },
)
def test_a_distance_below_zero():
    """Both tensors hold rows of probabilities. The distance from `wanted` to `predicted`, averaged
    over the rows, comes out negative. Repair the marked line."""

    def distance(predicted, wanted):
        # answer:
        return F.kl_div(predicted.log(), wanted, reduction="batchmean")
        # given:
        # return F.kl_div(predicted, wanted, reduction="batchmean")
        # end

    half = torch.full((2, 2), 0.5)
    skew = torch.tensor([[0.2, 0.8], [0.9, 0.1]])
    for predicted, wanted in ((skew, half), (half, skew), (skew, skew)):
        terms = [w * (w / p).log() for p, w in zip(predicted.flatten(), wanted.flatten())]
        torch.testing.assert_close(distance(predicted, wanted), sum(terms) / 2)


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "Which dimension do the classes belong in?",
        "cross_entropy can be told which label to leave out. It is not the usual one here.",
        "A sum never divides. Divide it yourself, by a count that is not zero.",
    ],
    why=(
        "Classes in dimension 1, padding left out by its own number, and a division that cannot be "
        "0 / 0. The loss of an empty batch is a true zero with a graph, so the loop needs no "
        "special case, and an average over batches stays a number."
    ),
    wrong={
        "return F.cross_entropy(scores.transpose(1, 2), labels, ignore_index=padding)": (
            "All is well until a batch comes that is nothing but padding."
        ),
        "total = F.cross_entropy(scores.transpose(1, 2), labels, reduction='sum')\n"
        "return total / (labels != padding).sum().clamp(min=1)": (
            "The count leaves out the padding, and the sum does not."
        ),
        "return F.cross_entropy(\n"
        "    scores.transpose(1, 2), labels, ignore_index=padding, reduction='none'\n"
        ").mean()": "No nan any more. But padding is counted as tokens without a loss.",
        "total = F.cross_entropy(\n"
        "    scores.transpose(1, 2), labels, ignore_index=padding, reduction='sum'\n"
        ")\n"
        "return total / len(scores)": "That is a loss for each sentence, not for each token.",
        "if (labels == padding).all():\n"
        "    return torch.zeros(())\n"
        "return F.cross_entropy(scores.transpose(1, 2), labels, ignore_index=padding)": (
            "This zero knows no scores, so the loop fails at backward()."
        ),
        "return F.cross_entropy(\n"
        "    scores.transpose(1, 2), labels, ignore_index=padding\n"
        ").nan_to_num()": "It hides every nan, also the one that a broken model has made.",
        "return F.cross_entropy(\n"
        "    scores, labels, ignore_index=padding, reduction='sum'\n"
        ") / (labels != padding).sum().clamp(min=1)": "It does not find the classes.",
    },
    right=[
        "loss = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=padding)\n"
        "return loss if (labels != padding).any() else scores.sum() * 0",
        "real = labels != padding\n"
        "if not real.any():\n"
        "    return 0 * scores.sum()\n"
        "return F.cross_entropy(scores[real], labels[real])",
    ],
    at={
        ".item() == 0": (
            "This batch is nothing but padding, and its loss should be 0. What do you add up, and "
            "by what do you divide?"
        ),
        "token_loss(scores, labels, padding).backward()": (
            "The loss of the empty batch is 0. But one cannot go backward from this zero: what "
            "was it made from?"
        ),
        "scores.grad.count_nonzero()": (
            "The loss of the empty batch is 0, and backward ran. But the gradient of the scores "
            "should be all zeros: print it."
        ),
        "torch.testing.assert_close": (
            "The empty batch is right. Now three tokens count, and the loss should be their mean: "
            "print it beside `by_hand`."
        ),
        ".isnan()": (
            "All numbers are right. But one score is nan now, and your loss does not show it."
        ),
    },
)
def test_write_a_loss_for_padded_sentences():
    """Write `token_loss`: the mean cross entropy over all tokens that are not padding.

    Scores are (sentences, tokens, classes), labels (sentences, tokens). A batch of nothing but
    padding has the loss 0, and one can go backward from it. A nan among the scores stays a nan.
    """

    def token_loss(scores, labels, padding):
        # answer:
        total = F.cross_entropy(
            scores.transpose(1, 2), labels, ignore_index=padding, reduction="sum"
        )
        return total / (labels != padding).sum().clamp(min=1)
        # end

    for padding in (0, 2):
        scores = torch.randn(2, 3, 3, requires_grad=True)
        labels = torch.full((2, 3), padding)
        assert token_loss(scores, labels, padding).item() == 0
        token_loss(scores, labels, padding).backward()
        assert scores.grad.count_nonzero() == 0
        labels[0, 1] = labels[1, 0] = labels[1, 2] = 1
        by_hand = (scores.logsumexp(dim=2) - scores[:, :, 1])[labels == 1].mean()
        torch.testing.assert_close(token_loss(scores, labels, padding), by_hand)
        scores.data[0, 1] = float("nan")
        assert token_loss(scores, labels, padding).isnan()
