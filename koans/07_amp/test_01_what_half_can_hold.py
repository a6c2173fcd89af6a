"""Two bytes: what the small floats can hold."""

import pytest
import torch

from sensei import __


def test_five_neighbours():
    """Welcome to the small floats. Five whole numbers go into float16 and come back.

    What comes out?
    """
    numbers = torch.tensor([2047.0, 2048.0, 2049.0, 2050.0, 2051.0])
    assert numbers.half().float().tolist() == __


def test_far_or_fine():
    """Four numbers go through float16, then through bfloat16.

    Which ones come back unchanged? Write their names, in order.
    """
    numbers = {"large": 2.0**17, "small": 2.0**-40, "count": 515.0, "nearly one": 1 - 2.0**-9}

    def kept(dtype):
        return [name for name, n in numbers.items() if torch.tensor(n).to(dtype).item() == n]

    assert kept(torch.float16) == __
    assert kept(torch.bfloat16) == __


def test_a_drop_too_many():
    """Pour whole numbers onto the largest float16. Which is the first that makes it overflow?

    And what is that result minus itself?
    """
    full = torch.tensor(torch.finfo(torch.float16).max, dtype=torch.float16)
    first = next(k for k in range(1, 100) if torch.isinf(full + k))
    assert first == __
    over = full + first
    assert str((over - over).item()) == __


def test_a_guard_against_zero():
    """Adam divides by a root plus 1e-8. Here a weight had no gradient yet: 0 / (0 + 1e-8).

    What does each dtype say?
    """
    steps = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        mean = square = torch.zeros(1, dtype=dtype)
        step = mean / (square.sqrt() + 1e-8)
        steps.append(str(step.item()))
    assert steps == __


def test_many_ones():
    """Add 3000 ones in float16, with a loop and with sum(). What does each say?

    Then 70000 ones: what are their sum and their mean?
    """
    ones = torch.ones(3000, dtype=torch.float16)
    total = torch.zeros((), dtype=torch.float16)
    for one in ones:
        total += one
    assert [total.item(), ones.sum().item()] == __
    many = torch.ones(70_000, dtype=torch.float16)
    assert [str(many.sum().item()), str(many.mean().item())] == __


def test_a_float_that_numpy_does_not_know():
    """NumPy refuses this tensor. With which exception?

    And by which detours do its numbers come through NumPy unchanged?
    """
    x = torch.tensor([1e5, 1.0, 1e-20], dtype=torch.bfloat16)
    with pytest.raises(Exception) as caught:
        x.numpy()
    assert caught.type is __
    detours = {"half": x.half(), "float": x.float(), "double": x.double(), "int": x.int()}
    arrays = {name: torch.from_numpy(t.numpy()).to(x.dtype) for name, t in detours.items()}
    assert [name for name in arrays if arrays[name].equal(x)] == __


def test_a_score_below_all_others():
    """Hidden words get a very low score, so that softmax leaves them nothing.

    It works in float32. Repair the marked line for all three dtypes, however low the scores are. A
    row with all its words hidden must not become nan.
    """

    def mask(scores, hidden):
        # your turn:
        return scores.masked_fill(hidden, -1e9)
        # end

    hidden = torch.tensor([[False, False, True], [True, True, True]])
    for dtype, low in [(torch.float32, -6e7), (torch.bfloat16, -6e7), (torch.float16, -6e4)]:
        scores = torch.tensor([[low, low, 9.0], [5.0, 5.0, 5.0]], dtype=dtype)
        weights = mask(scores, hidden).softmax(-1)
        assert weights.dtype is dtype
        assert weights[0].tolist() == [0.5, 0.5, 0.0]
        assert weights[1].isfinite().all()


def test_carry_a_gradient_through_half():
    """On its way to w, each gradient passes a float16, and the small ones arrive as zero.

    Write the body: make them arrive. Return the gradient of w, in its true size.
    """

    def gradient(loss, w):
        # your turn:
        __
        # end

    def through_half(slopes):
        w = torch.ones(3, requires_grad=True)
        return (w.half().float() * torch.tensor(slopes)).sum(), w

    first = gradient(*through_half([1e-8, 3e-6, 0.25]))
    second = gradient(*through_half([-0.125, 2e-8, 1e-4]))
    for grad, wanted in [(first, [1e-8, 3e-6, 0.25]), (second, [-0.125, 2e-8, 1e-4])]:
        assert grad.dtype is torch.float32
        assert torch.allclose(grad, torch.tensor(wanted), rtol=0.01, atol=0.0)
