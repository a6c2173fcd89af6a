"""Accumulate and clip: one step from many batches, and a limit for its length."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from sensei import __


def test_who_notices_a_forgotten_division():
    """Four backwards make one step, with and without dividing by their number.

    How many times longer is the step without it? First for SGD, then for Adam.
    """
    ratios = []
    for make in (torch.optim.SGD, torch.optim.Adam):
        ends = []
        for divisor in (4, 1):
            weight = nn.Parameter(torch.zeros(()))
            optimizer = make([weight], lr=0.1)
            for _ in range(4):
                (weight * 3 / divisor).backward()
            optimizer.step()
            ends.append(weight.item())
        ratios.append(round(ends[1] / ends[0]))
    assert ratios == __


def test_a_last_batch_that_is_short():
    """Three numbers come in batches of two, so the last batch has only one.

    Predict the gradient of the mean over all three, and the accumulated one.
    """
    numbers = torch.tensor([1.0, 1.0, 7.0])
    w = nn.Parameter(torch.zeros(()))
    batches = numbers.split(2)
    (whole,) = torch.autograd.grad((w * numbers).mean(), w)
    for batch in batches:
        ((w * batch).mean() / len(batches)).backward()
    assert [round(whole.item(), 3), round(w.grad.item(), 3)] == __


def test_five_batches_and_a_step_after_every_second():
    """Two epochs of five batches, with slopes 1 to 5. Write the gradient of each step."""
    w = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([w], lr=0.1)
    seen = []
    for _ in range(2):
        for number, slope in enumerate([1.0, 2.0, 3.0, 4.0, 5.0], start=1):
            (w * slope / 2).backward()
            if number % 2 == 0:
                seen.append(w.grad.item())
                optimizer.step()
                optimizer.zero_grad()
    assert seen == __


def test_two_sentences_with_padding():
    """Each sentence gets a backward of its own. -100 marks padding, and cross_entropy ignores it.

    Repair the marked lines: the gradient must be that of the mean over all real tokens.
    """
    model = nn.Linear(2, 3)
    x = torch.randn(2, 4, 2)
    y = torch.tensor([[0, 1, 2, 0], [1, -100, -100, -100]])
    all_tokens = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    (whole,) = torch.autograd.grad(all_tokens, model.weight)
    walks = []
    model.weight.register_hook(lambda gradient: walks.append(gradient))
    # your turn:
    for xs, ys in zip(x, y):
        (F.cross_entropy(model(xs), ys) / len(x)).backward()
    # end
    torch.testing.assert_close(model.weight.grad, whole)
    assert len(walks) == 2


def test_the_number_that_clipping_returns():
    """Two parameters with gradients 3 and 4, and a limit. Predict what clip_grad_norm_ returns
    and the two gradients after it, rounded to two digits."""
    a, b = (nn.Parameter(torch.zeros(())) for _ in range(2))
    (3 * a + 4 * b).backward()
    norm = clip_grad_norm_([a, b], max_norm=2.5)
    assert [round(t.item(), 2) for t in (norm, a.grad, b.grad)] == __


def test_two_ways_to_make_a_step_shorter():
    """A gradient of 0.5 and 4 is clipped to 1, by norm and by value.

    How many times larger is the second number then? Answer for both ways.
    """
    ratios = []
    for clip in (clip_grad_norm_, clip_grad_value_):
        weight = nn.Parameter(torch.zeros(2))
        weight.grad = torch.tensor([0.5, 4.0])
        clip([weight], 1.0)
        first, second = weight.grad.tolist()
        ratios.append(round(second / first, 3))
    assert ratios == __


def test_two_steps_of_length_one():
    """No step may be longer than 1, but two of these are 50 long.

    Repair the order of the lines. The short step must stay as it is.
    """
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    path = []
    for slope in torch.tensor([[30.0, 40.0], [40.0, -30.0], [0.3, 0.4]]):
        # your turn:
        clip_grad_norm_([weight], 1.0)
        optimizer.zero_grad()
        (weight * slope).sum().backward()
        optimizer.step()
        # end
        path.append([round(number, 3) for number in weight.tolist()])
    assert path == [[-0.6, -0.8], [-1.4, -0.2], [-1.7, -0.6]]


def test_an_infinite_gradient_meets_the_clip():
    """The gradients are inf and 1.0. Clip them to norm 1 and predict both, as text."""
    a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
    (a * float("inf") + b).backward()
    clip_grad_norm_([a, b], max_norm=1.0)
    assert [str(p.grad.item()) for p in (a, b)] == __


def test_refuse_to_clip():
    """The same two gradients, and a flag that asks for an error. Which exception is it?

    And what is the second gradient after it?
    """
    a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
    (a * float("inf") + b).backward()
    with pytest.raises(Exception) as caught:
        clip_grad_norm_([a, b], max_norm=1.0, error_if_nonfinite=True)
    assert caught.type is __
    assert b.grad.item() == __


def test_one_careful_step_from_many_batches():
    """Write `update`: one step on the mean loss of all samples, a backward for each batch, the
    gradient no longer than `limit`. Return the norm before clipping, as a float. If it is not
    finite, take no step."""

    def losses(weight, batch):
        return ((weight - batch) ** 2).sum(1) / 2

    def update(weight, optimizer, batches, limit):
        # your turn:
        __
        # end

    weight, walks = nn.Parameter(torch.zeros(2)), []
    optimizer = torch.optim.SGD([weight], lr=1.0)
    weight.register_hook(lambda gradient: walks.append(gradient))
    inf = float("inf")
    cases = [([0.6, 0.8], 1.0, [0.6, 0.8]), ([30.0, 40.0], 50.0, [1.2, 1.6])]
    for far, norm, move in [*cases, ([inf, 0.0], inf, [0.0, 0.0]), ([-3.0, 4.0], 5.0, [-1.2, 1.6])]:
        end = weight.detach() + torch.tensor(move)
        goal = weight.detach() + torch.tensor(far)
        found = update(weight, optimizer, [(goal - 1).expand(2, 2), (goal + 2).expand(1, 2)], 2.0)
        assert found == pytest.approx(norm, abs=1e-3)
        assert torch.allclose(weight, end, atol=1e-3)
    assert len(walks) == 8
