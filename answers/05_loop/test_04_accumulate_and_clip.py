"""Accumulate and clip: one step from many batches, and a limit for its length."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from sensei import answer, koan


@koan(
    see="torch.optim.Adam",
    hint=[
        "SGD multiplies the gradient by the learning rate. Twice the gradient, twice the step.",
        "By what does Adam divide? And what happens there to a factor that is always present?",
    ],
    why=(
        "backward adds, and nobody divides for you: the gradient is a sum. SGD's step grows with "
        "it. Adam divides by the size of the gradients themselves, so a constant factor cancels, "
        "and the mistake stays unseen until a clipping limit or another optimizer meets it."
    ),
    wrong={
        "[4, 4]": "Tempting: the same gradient goes in. But what does Adam do with its size?",
        "[1, 1]": "Some say the gradients of several batches are averaged. They are added.",
        "[4, 2]": "There is a square root in Adam, but what stands below it was squared first.",
    },
)
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
    assert ratios == answer([4, 1])


@koan(
    see="torch.Tensor.mean",
    hint=[
        "The slope of w * number is the number itself. Work out the three means that occur.",
        "How much does the last number weigh in its own batch? And in the whole?",
    ],
    why=(
        "A mean of means gives each batch the same weight, so the lonely 7 counts as much as two "
        "others. Dividing by the number of batches is right only if all have the same size. "
        "Divide sums by the number of samples instead."
    ),
    wrong={
        "[3.0, 3.0]": (
            "Some say that dividing by the number of batches is always right. For batches of one "
            "size it is."
        ),
        "[3.0, 8.0]": "This is the plain sum. Each mean was divided before its backward.",
        "[4.0, 4.0]": "The first is over all three numbers at once. Nothing is uneven there.",
    },
)
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
    assert [round(whole.item(), 3), round(w.grad.item(), 3)] == answer([3.0, 4.0])


@koan(
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "After the fifth backward of the first epoch: does anybody step? Does anybody clear?",
        "Start the second epoch with what you find in w.grad.",
    ],
    why=(
        "The fifth gradient is neither used nor dropped. It waits in .grad and slips into the "
        "first step of the next epoch. Step once more after the loop, on what is left, and "
        "divide by the number of batches that are really in it."
    ),
    wrong={
        "[1.5, 3.5, 1.5, 3.5]": "So it would be if somebody cleared at the end of an epoch.",
        "[1.5, 3.5, 2.5, 1.5, 3.5, 2.5]": "It takes two batches to make the optimizer step.",
        "[1.5, 3.5, 5.0, 1.5, 3.5, 5.0]": (
            "Nobody knows that the last window is short: no step, and no other divisor."
        ),
        "[3.0, 7.0, 8.0, 7.0]": "Each gradient was halved before it was added.",
    },
)
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
    assert seen == answer([1.5, 3.5, 4.0, 3.5])


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "cross_entropy divides by something. Is it the same number for both sentences?",
        "There is a way to ask it not to divide at all. By what do you divide then?",
        "Padding must not be counted, and the number must be known before the first backward.",
    ],
    why=(
        "The mean of cross_entropy is over the targets that are not ignored, 4 in one sentence "
        "and 1 in the other. Equal shapes, unequal counts. Add sums, and divide all of them by "
        "the tokens of the whole step. Well-known trainers had this wrong for years."
    ),
    wrong={
        "for xs, ys in zip(x, y):\n"
        "    (F.cross_entropy(model(xs), ys, reduction='sum') / y.numel()).backward()": (
            "This counts the padding as well, so the gradient comes out too small."
        ),
        "for xs, ys in zip(x, y):\n"
        "    count = (ys != -100).sum()\n"
        "    (F.cross_entropy(model(xs), ys, reduction='sum') / count).backward()": (
            "Each sentence is divided by its own count: two means, added."
        ),
        "for xs, ys in zip(x, y):\n"
        "    (F.cross_entropy(model(xs), ys) * len(ys) / y.numel()).backward()": (
            "Weights for the length of each row. But all rows have the same length."
        ),
        "F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()": (
            "The right gradient, from one large batch. The point was to avoid that one."
        ),
    },
    right=[
        "count = (y != -100).sum()\n"
        "for xs, ys in zip(x, y):\n"
        "    (F.cross_entropy(model(xs), ys, reduction='sum') / count).backward()",
        "count = (y >= 0).sum()\n"
        "for xs, ys in zip(x, y):\n"
        "    (F.cross_entropy(model(xs), ys) * (ys >= 0).sum() / count).backward()",
    ],
    at={
        "torch.testing.assert_close": (
            "This compares your gradient with that of the mean over all real tokens. Print both: "
            "by what is each sentence's loss divided?"
        ),
        "len(walks)": (
            "The gradient is right. But each sentence should have a backward of its own: count "
            "yours."
        ),
    },
)
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
    # answer:
    count = sum(int((ys != -100).sum()) for ys in y)
    for xs, ys in zip(x, y):
        (F.cross_entropy(model(xs), ys, reduction="sum") / count).backward()
    # given:
    # for xs, ys in zip(x, y):
    #     (F.cross_entropy(model(xs), ys) / len(x)).backward()
    # end
    torch.testing.assert_close(model.weight.grad, whole)
    assert len(walks) == 2


@koan(
    see="torch.nn.utils.clip_grad_norm_",
    hint=[
        "The two gradients are taken together, as one arrow. How long is it? Pythagoras knows.",
        "By which factor must the arrow shrink?",
        "You want to log how wild the gradients were. Which norm is of use to you?",
    ],
    why=(
        "One norm over all parameters, sqrt(9 + 16), and one factor for all of them. What comes "
        "back is the norm as it was found: log it, and you see when clipping bites. Nobody has to "
        "compute it a second time."
    ),
    wrong={
        "[2.5, 1.5, 2.0]": "The norm afterwards would tell you what you already know: the limit.",
        "[5.0, 2.5, 2.5]": (
            "Some say each parameter is clipped by its own norm. One factor serves them all."
        ),
        "[7.0, 1.07, 1.43]": "That is the sum of the sizes. The default norm is the other one.",
    },
)
def test_the_number_that_clipping_returns():
    """Two parameters with gradients 3 and 4, and a limit. Predict what clip_grad_norm_ returns
    and the two gradients after it, rounded to two digits."""
    a, b = (nn.Parameter(torch.zeros(())) for _ in range(2))
    (3 * a + 4 * b).backward()
    norm = clip_grad_norm_([a, b], max_norm=2.5)
    assert [round(t.item(), 2) for t in (norm, a.grad, b.grad)] == answer([5.0, 1.5, 2.0])


@koan(
    see="torch.nn.utils.clip_grad_value_",
    hint=[
        "One of the two multiplies all numbers by one factor. What does that do to a ratio?",
        "The other one cuts each number that sticks out, and leaves the rest.",
    ],
    why=(
        "By norm, the step gets shorter and keeps its direction: 4 to 0.5 stays 8 to 1. By value, "
        "only the large number is cut, so the step turns. Neither is wrong, but limits for one "
        "mean nothing for the other."
    ),
    wrong={
        "[8.0, 8.0]": "Then both would keep the direction. One of them looks at single numbers.",
        "[2.0, 2.0]": "Then both would look at single numbers. One looks at the whole arrow.",
        "[2.0, 8.0]": "The other way round: what can a norm know of single numbers?",
    },
)
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
    assert ratios == answer([8.0, 2.0])


@koan(
    see="torch.nn.utils.clip_grad_norm_",
    hint=[
        "Clipping changes numbers in .grad. Who writes them, and who reads them?",
        "There is only one place between the writer and the reader.",
    ],
    why=(
        "backward writes .grad, step reads it, and clipping belongs between the two. Anywhere "
        "else it finds nothing, or old numbers, or comes too late, and there is no error."
    ),
    wrong={
        "optimizer.zero_grad()\n"
        "(weight * slope).sum().backward()\n"
        "optimizer.step()\n"
        "clip_grad_norm_([weight], 1.0)": "Now it clips what has been used already.",
        "optimizer.zero_grad()\n"
        "clip_grad_norm_([weight], 1.0)\n"
        "(weight * slope).sum().backward()\n"
        "optimizer.step()": "Just cleared: there is nothing to clip, and nobody complains.",
        "(weight * slope).sum().backward()\n"
        "clip_grad_norm_([weight], 1.0)\n"
        "optimizer.step()": "The first step is right. What does the second backward find?",
        "optimizer.zero_grad()\n"
        "loss = (weight * slope).sum()\n"
        "clip_grad_norm_([weight], 1.0)\n"
        "loss.backward()\n"
        "optimizer.step()": "A loss alone has no gradients yet.",
        "optimizer.zero_grad()\n"
        "(weight * slope).sum().backward()\n"
        "weight.grad /= weight.grad.norm()\n"
        "optimizer.step()": "This makes every step as long as the limit, the short one as well.",
    },
    right=[
        "(weight * slope).sum().backward()\n"
        "clip_grad_norm_([weight], 1.0)\n"
        "optimizer.step()\n"
        "optimizer.zero_grad()",
    ],
)
def test_two_steps_of_length_one():
    """No step may be longer than 1, but two of these are 50 long.

    Repair the order of the lines. The short step must stay as it is.
    """
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    path = []
    for slope in torch.tensor([[30.0, 40.0], [40.0, -30.0], [0.3, 0.4]]):
        # answer:
        optimizer.zero_grad()
        (weight * slope).sum().backward()
        clip_grad_norm_([weight], 1.0)
        optimizer.step()
        # given:
        # clip_grad_norm_([weight], 1.0)
        # optimizer.zero_grad()
        # (weight * slope).sum().backward()
        # optimizer.step()
        # end
        path.append([round(number, 3) for number in weight.tolist()])
    assert path == [[-0.6, -0.8], [-1.4, -0.2], [-1.7, -0.6]]


@koan(
    see="torch.nn.utils.clip_grad_norm_",
    hint=[
        "One infinite gradient: how long is the arrow? And the limit divided by that length?",
        "Multiply both gradients by this factor. What is infinity times zero?",
    ],
    why=(
        "The norm is inf, the factor 1/inf is 0. A finite gradient times 0 is 0, and inf times 0 "
        "is nan. Clipping tames large gradients, not infinite ones: after this step one weight "
        "is nan, and soon they all are. (One nan gradient makes every gradient nan at once.)"
    ),
    wrong={
        "['1.0', '0.0']": "Some say clipping saves you from an inf. Do the multiplication.",
        "['inf', '1.0']": "Nobody looks for trouble first. The factor is applied to both.",
        "['nan', 'nan']": "So it would be with a nan in place of the inf.",
        "['nan', '1.0']": "The healthy gradient is multiplied, too.",
    },
)
def test_an_infinite_gradient_meets_the_clip():
    """The gradients are inf and 1.0. Clip them to norm 1 and predict both, as text."""
    a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
    (a * float("inf") + b).backward()
    clip_grad_norm_([a, b], max_norm=1.0)
    assert [str(p.grad.item()) for p in (a, b)] == answer(["nan", "0.0"])


@koan(
    see="torch.nn.utils.clip_grad_norm_",
    hint=[
        "Python has an ArithmeticError, and kinds of it. Does PyTorch use them?",
        "The norm is checked. Before anything is written, or after?",
    ],
    why=(
        "PyTorch's general complaint, raised before anything is scaled. You may catch it, clear "
        "the gradients and go on with the next batch; or leave the flag off and look at the norm "
        "that is returned."
    ),
    wrong={
        ("FloatingPointError", "1.0"): "Python has this name. PyTorch does not use it here.",
        ("OverflowError", "1.0"): "That is for Python's own numbers. These are tensors.",
        ("ValueError", "1.0"): "Your arguments are fine. It is their content.",
        ("RuntimeError", "0.0"): "This is what is left without the flag. What is it good for?",
    },
    at={
        "caught.type": (
            "This looks at the exception. The norm is not finite, and somebody wants to be told: "
            "how does PyTorch mostly complain?"
        ),
        "b.grad.item()": (
            "The exception is right. Now b: had anything been written by the time it was raised?"
        ),
    },
)
def test_refuse_to_clip():
    """The same two gradients, and a flag that asks for an error. Which exception is it?

    And what is the second gradient after it?
    """
    a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
    (a * float("inf") + b).backward()
    with pytest.raises(Exception) as caught:
        clip_grad_norm_([a, b], max_norm=1.0, error_if_nonfinite=True)
    assert caught.type is answer(RuntimeError)
    assert b.grad.item() == answer(1.0)


@koan(
    see="torch.nn.utils.clip_grad_norm_",
    hint=[
        "Count the samples first: the divisor is the same for all batches.",
        "The limit is for the whole step. How often do you clip, and when?",
        "clip_grad_norm_ tells you whether the step may be taken.",
        "Whatever happened, the next call must find no gradient.",
    ],
    why=(
        "Sums divided by all samples, one clip between the last backward and the step, no step on "
        "a norm that is not finite, and gradients cleared in every case. A short gradient is left "
        "alone: clipping never makes a step longer."
    ),
    wrong={
        "for batch in batches:\n"
        "    (losses(weight, batch).mean() / len(batches)).backward()\n"
        "norm = clip_grad_norm_([weight], limit).item()\n"
        "if norm < float('inf'):\n"
        "    optimizer.step()\n"
        "optimizer.zero_grad()\n"
        "return norm": "A mean of means. The batches here are not of one size.",
        "count = sum(len(batch) for batch in batches)\n"
        "for batch in batches:\n"
        "    (losses(weight, batch).sum() / count).backward()\n"
        "    norm = clip_grad_norm_([weight], limit).item()\n"
        "if norm < float('inf'):\n"
        "    optimizer.step()\n"
        "optimizer.zero_grad()\n"
        "return norm": "Clipped after each batch: half a gradient is cut, then more is added.",
        "count = sum(len(batch) for batch in batches)\n"
        "for batch in batches:\n"
        "    (losses(weight, batch).sum() / count).backward()\n"
        "norm = clip_grad_norm_([weight], limit).item()\n"
        "optimizer.step()\n"
        "optimizer.zero_grad()\n"
        "return norm": "One infinite batch, and the weight is nan forever.",
        "count = sum(len(batch) for batch in batches)\n"
        "for batch in batches:\n"
        "    (losses(weight, batch).sum() / count).backward()\n"
        "norm = clip_grad_norm_([weight], limit).item()\n"
        "if norm < float('inf'):\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "return norm": "What happens to the gradients of a step that was not taken?",
        "count = sum(len(batch) for batch in batches)\n"
        "for batch in batches:\n"
        "    (losses(weight, batch).sum() / count).backward()\n"
        "norm = weight.grad.norm().item()\n"
        "weight.grad.mul_(limit / norm)\n"
        "if norm < float('inf'):\n"
        "    optimizer.step()\n"
        "optimizer.zero_grad()\n"
        "return norm": "This makes every step as long as the limit, the short ones as well.",
        "count = sum(len(batch) for batch in batches)\n"
        "for batch in batches:\n"
        "    (losses(weight, batch).sum() / count).backward()\n"
        "norm = weight.grad.norm().item()\n"
        "clip_grad_value_([weight], limit)\n"
        "if norm < float('inf'):\n"
        "    optimizer.step()\n"
        "optimizer.zero_grad()\n"
        "return norm": "Clipped by value, a long step turns.",
    },
    right=[
        "import math\n"
        "optimizer.zero_grad()\n"
        "samples = torch.cat(batches)\n"
        "for batch in batches:\n"
        "    losses(weight, batch).sum().div(len(samples)).backward()\n"
        "norm = clip_grad_norm_(weight, limit)\n"
        "if math.isfinite(norm):\n"
        "    optimizer.step()\n"
        "return float(norm)",
        "count = sum(map(len, batches))\n"
        "for batch in batches:\n"
        "    (losses(weight, batch).mean() * len(batch) / count).backward()\n"
        "norm = clip_grad_norm_(weight, limit).item()\n"
        "if norm == float('inf'):\n"
        "    optimizer.zero_grad()\n"
        "optimizer.step()\n"
        "optimizer.zero_grad()\n"
        "return norm",
    ],
    at={
        "found == pytest.approx": (
            "This is the norm that you return: of the gradient of the mean loss of all samples, "
            "before clipping. Print `found` and `norm`."
        ),
        "torch.allclose(weight, end": (
            "The norm is right. But the weight is not where this step should end: print it beside "
            "`end`. Which of the four cases is it?"
        ),
        "len(walks)": (
            "Norms and steps are right. But each batch should have a backward of its own, in "
            "every call: count yours."
        ),
    },
)
def test_one_careful_step_from_many_batches():
    """Write `update`: one step on the mean loss of all samples, a backward for each batch, the
    gradient no longer than `limit`. Return the norm before clipping, as a float. If it is not
    finite, take no step."""

    def losses(weight, batch):
        return ((weight - batch) ** 2).sum(1) / 2

    def update(weight, optimizer, batches, limit):
        # answer:
        count = sum(len(batch) for batch in batches)
        for batch in batches:
            (losses(weight, batch).sum() / count).backward()
        norm = clip_grad_norm_([weight], limit)
        if norm.isfinite():
            optimizer.step()
        optimizer.zero_grad()
        return norm.item()
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
