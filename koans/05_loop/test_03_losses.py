"""Losses: each has a contract about shapes, dtypes and scales, and not each of them checks it."""

from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import __


def test_the_loss_of_an_output():
    """Many examples write loss = model(batch).loss. A layer of your own does not know of that.

    Repair the marked line, for any loss function.
    """

    def loss_of(model, loss_fn, x, y):
        # your turn:
        return model(x).loss
        # end

    for slope, losses in ((0.0, [0.6931, 4.0]), (2.0, [0.1269, 0.0])):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, slope)
        one, seen = torch.ones(1, 1), []
        for loss_fn, y in ((F.binary_cross_entropy_with_logits, one), (F.mse_loss, 2 * one)):
            seen.append(loss_of(model, loss_fn, one, y))
            seen[-1].backward()
        assert [loss.item() for loss in seen] == pytest.approx(losses, abs=1e-3)


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
    assert taken[1] == __
    assert taken[2] == __


def test_a_column_against_a_row():
    """Both predictions are right, but one side is a column and the other is not. It only warns.

    Predict the shape of the unreduced loss, and what mean and sum give.
    """
    predicted, wanted = torch.tensor([[0.0], [2.0]]), torch.tensor([0.0, 2.0])
    with pytest.warns(UserWarning):
        each = F.mse_loss(predicted, wanted, reduction="none")
        mean = F.mse_loss(predicted, wanted)
        total = F.mse_loss(predicted, wanted, reduction="sum")
    assert tuple(each.shape) == __
    assert [mean.item(), total.item()] == __


def test_a_loss_with_a_floor():
    """The model is sure of the right answers, and still this loss will not go below 0.55.

    Repair the marked line: it should be the cross entropy of the scores.
    """

    def loss_of(scores, labels):
        # your turn:
        return F.cross_entropy(scores.softmax(dim=1), labels)
        # end

    sure = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])
    assert 0 <= loss_of(sure, torch.tensor([0, 1])) < 0.001
    for scores in (sure, torch.tensor([[1.0, 2.0, 0.0], [0.0, -3.0, 0.5]])):
        labels = torch.tensor([1, 2])
        by_hand = (scores.logsumexp(dim=1) - scores[[0, 1], labels]).mean()
        torch.testing.assert_close(loss_of(scores, labels), by_hand)


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
    assert gradients == __


def test_labels_that_start_at_one():
    """Three classes, and the file numbers them 1, 2, 3. Which exception does it raise?"""
    scores = torch.zeros(3, 3)
    labels = torch.tensor([1, 2, 3])
    with pytest.raises(Exception) as caught:
        F.cross_entropy(scores, labels)
    assert caught.type is __


def test_a_class_that_weighs_three():
    """Two samples with equal losses; we count in units of such a loss. Class 1 weighs 3.

    Predict the two unreduced losses and their 'mean'.
    """
    scores, labels = torch.zeros(2, 2), torch.tensor([0, 1])
    weight = torch.tensor([1.0, 3.0])
    unit = F.cross_entropy(scores, labels)
    each = F.cross_entropy(scores, labels, weight=weight, reduction="none") / unit
    mean = F.cross_entropy(scores, labels, weight=weight) / unit
    assert [each.round().tolist(), round(mean.item(), 3)] == __


def test_a_label_for_each_token():
    """Scores for each token: (sentences, tokens, classes). Labels: (sentences, tokens). It raises.

    Repair the marked line.
    """

    def loss_of(scores, labels):
        # your turn:
        return F.cross_entropy(scores, labels)
        # end

    for sentences, tokens, classes in ((2, 5, 3), (4, 3, 3)):
        scores = torch.randn(sentences, tokens, classes)
        labels = torch.arange(sentences * tokens).reshape(sentences, tokens) % classes
        picked = scores.gather(2, labels[:, :, None])[:, :, 0]
        by_hand = (scores.logsumexp(dim=2) - picked).mean()
        torch.testing.assert_close(loss_of(scores, labels), by_hand)


def test_nothing_but_padding():
    """By default the label -100 means: ignore. In this batch each label is ignored.

    Predict the largest single loss, the sum and the mean, written with one decimal.
    """
    scores, labels = torch.zeros(3, 4), torch.full((3,), -100)
    each = F.cross_entropy(scores, labels, reduction="none")
    total = F.cross_entropy(scores, labels, reduction="sum")
    mean = F.cross_entropy(scores, labels)
    assert [f"{loss:.1f}" for loss in (each.max(), total, mean)] == __


def test_a_distance_below_zero():
    """Both tensors hold rows of probabilities. The distance from `wanted` to `predicted`, averaged
    over the rows, comes out negative. Repair the marked line."""

    def distance(predicted, wanted):
        # your turn:
        return F.kl_div(predicted, wanted, reduction="batchmean")
        # end

    half = torch.full((2, 2), 0.5)
    skew = torch.tensor([[0.2, 0.8], [0.9, 0.1]])
    for predicted, wanted in ((skew, half), (half, skew), (skew, skew)):
        terms = [w * (w / p).log() for p, w in zip(predicted.flatten(), wanted.flatten())]
        torch.testing.assert_close(distance(predicted, wanted), sum(terms) / 2)


def test_write_a_loss_for_padded_sentences():
    """Write `token_loss`: the mean cross entropy over all tokens that are not padding.

    Scores are (sentences, tokens, classes), labels (sentences, tokens). A batch of nothing but
    padding has the loss 0, and one can go backward from it. A nan among the scores stays a nan.
    """

    def token_loss(scores, labels, padding):
        # your turn:
        __
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
