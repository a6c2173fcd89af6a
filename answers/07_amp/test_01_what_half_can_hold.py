"""Two bytes: what the small floats can hold.

Documents: A 5.1
"""

import pytest
import torch

from sensei import answer, koan


@koan(
    see="torch.Tensor.half",
    hint=[
        "float16 has eleven binary digits for a number. How many whole numbers can it count?",
        "Eleven digits count up to 2048. From there on, how large is one step?",
        "What lies between two steps goes to the nearer one. And from the middle? "
        "Look at the last binary digit.",
    ],
    why=(
        "From 2048 to 4096, float16 has only the even numbers. An odd one lies in the middle, and "
        "goes to the neighbour whose last binary digit is 0: 2049 down, 2051 up. A cast rounds, "
        "it does not cut."
    ),
    wrong={
        "[2047.0, 2048.0, 2049.0, 2050.0, 2051.0]": (
            "float16 reaches 65504, so one expects every whole number below it. Its steps grow."
        ),
        "[2047.0, 2048.0, 2048.0, 2050.0, 2050.0]": (
            "So it would be if a cast cut off what does not fit. It looks for the nearest."
        ),
        "[2047.0, 2048.0, 2050.0, 2050.0, 2052.0]": (
            "A middle does not always go up. Every second one goes down, so that sums stay fair."
        ),
        "[2047.0, 2048.0, 2048.0, 2048.0, 2048.0]": (
            "A running count does get stuck. But each of these goes through on its own."
        ),
    },
)
def test_five_neighbours():
    """Welcome to the small floats. Five whole numbers go into float16 and come back.

    What comes out?
    """
    numbers = torch.tensor([2047.0, 2048.0, 2049.0, 2050.0, 2051.0])
    assert numbers.half().float().tolist() == answer([2047.0, 2048.0, 2048.0, 2050.0, 2052.0])


@koan(
    claims=["A-5.1-14"],
    see="torch.Tensor.bfloat16",
    hint=[
        "Both have 16 bits. Some say how far a number reaches, the others how fine it is.",
        "bfloat16 is a float32 with its last 16 bits cut away. What did those bits say?",
        "Print torch.finfo for both, and compare max, smallest_normal and eps.",
    ],
    why=(
        "bfloat16 has as many bits for the reach as float32, and eight binary digits for the "
        "number. float16 has eleven digits and a short reach. Same size, another choice."
    ),
    wrong={
        ("['count', 'nearly one']", "['large', 'small', 'count', 'nearly one']"): (
            "Some think bfloat16 is float16 and more. It pays for its reach."
        ),
        ("['large', 'small']", "['count', 'nearly one']"): (
            "You see that each has a strength of its own. Which one shares float32's reach?"
        ),
        (
            "['small', 'count', 'nearly one']",
            "['large', 'small', 'nearly one']",
        ): "eps is the room around 1. Compare it with 2**-9, and 2**-40 with the smallest number.",
    },
    at={
        "kept(torch.float16)": (
            "This line is about float16 alone. How far does it reach, up and down? How fine is "
            "it, near 515 and near 1?"
        ),
        "kept(torch.bfloat16)": (
            "float16 is right. The same four numbers now meet bfloat16, which uses its 16 bits "
            "in another way."
        ),
    },
)
def test_far_or_fine():
    """Four numbers go through float16, then through bfloat16.

    Which ones come back unchanged? Write their names, in order.
    """
    numbers = {"large": 2.0**17, "small": 2.0**-40, "count": 515.0, "nearly one": 1 - 2.0**-9}

    def kept(dtype):
        return [name for name, n in numbers.items() if torch.tensor(n).to(dtype).item() == n]

    assert kept(torch.float16) == answer(["count", "nearly one"])
    assert kept(torch.bfloat16) == answer(["large", "small"])


@koan(
    see="torch.isinf",
    hint=[
        "Near 65504 the numbers of float16 are 32 apart. If it went on, which would be the next?",
        "A sum is rounded to the nearest. When is that next one, which does not exist, as near?",
        "Then there are two infinite numbers of the same sign. Does anybody know how far apart?",
    ],
    why=(
        "The sum is rounded first: up to 65504 + 15 the maximum is nearest, and from the middle on "
        "it is inf. Infinity minus infinity has no answer, so it is nan. A loss is inf first, and "
        "nan one operation later: look for the overflow before the nan."
    ),
    wrong={
        ("1", "'nan'"): (
            "65504 is the largest, so one more should be too much. But a sum is rounded first."
        ),
        ("32", "'nan'"): "A whole step is not needed. Rounding goes to the nearest.",
        ("16", "'0.0'"): ("x - x is 0 for every finite number. Does infinity say where it stands?"),
        ("16", "'inf'"): "Infinity minus 1 is that. Minus infinity itself, nobody can say.",
    },
    right=[("16.0", "'nan'")],
    at={
        "assert first ==": (
            "This line is about the number alone. Near the top, how far apart are the numbers of "
            "float16, and where does rounding go?"
        ),
        "str((over - over).item())": (
            "Your number is right, so `over` is infinite now. What can be said of it minus itself?"
        ),
    },
)
def test_a_drop_too_many():
    """Pour whole numbers onto the largest float16. Which is the first that makes it overflow?

    And what is that result minus itself?
    """
    full = torch.tensor(torch.finfo(torch.float16).max, dtype=torch.float16)
    first = next(k for k in range(1, 100) if torch.isinf(full + k))
    assert first == answer(16)
    over = full + first
    assert str((over - over).item()) == answer("nan")


@koan(
    see="torch.optim.Adam",
    hint=[
        "Adam adds 1e-8 so that nobody divides by zero. Is there such a number in each dtype?",
        "The smallest float16 above zero is about 6e-8. What happens to something much smaller?",
        "The reach of bfloat16 is that of float32.",
    ],
    why=(
        "In float16, 1e-8 is below half of the smallest number, so it is 0, and 0 / 0 is nan. "
        "bfloat16 and float32 reach much further down. Keep such states in float32, or take a "
        "larger eps."
    ),
    wrong={
        "['0.0', '0.0', '0.0']": (
            "0 divided by something small is 0. In one of these, the something is gone."
        ),
        "['nan', 'nan', '0.0']": (
            "Both have two bytes, but they do not lose the same. Which of the two reaches far?"
        ),
        "['inf', '0.0', '0.0']": "Something divided by zero is that. Here zero is divided, too.",
        "['0.0', 'nan', '0.0']": "The one with fewer digits is not the one with the shorter reach.",
    },
)
def test_a_guard_against_zero():
    """Adam divides by a root plus 1e-8. Here a weight had no gradient yet: 0 / (0 + 1e-8).

    What does each dtype say?
    """
    steps = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        mean = square = torch.zeros(1, dtype=dtype)
        step = mean / (square.sqrt() + 1e-8)
        steps.append(str(step.item()))
    assert steps == answer(["nan", "0.0", "0.0"])


@koan(
    see="torch.sum",
    hint=[
        "The loop stores its result after each one. When is the next one too small to be seen?",
        "sum() adds in a wider number, and stores once, at its end.",
        "So with many ones: does the total fit where it is stored? Does the mean?",
    ],
    why=(
        "The loop rounds 3000 times, and 2048 + 1 is 2048. sum() and mean() add up in float32 and "
        "round once, into the dtype of the tensor: there, 70000 is inf. Where the total may be "
        "large, say sum(dtype=torch.float32)."
    ),
    wrong={
        ("[3000.0, 3000.0]", "['inf', '1.0']"): (
            "3000 is a float16. But on the way there, the loop meets steps larger than one."
        ),
        ("[2048.0, 2048.0]", "['inf', '1.0']"): (
            "Some think sum() is the same loop, only faster. It carries more digits inside."
        ),
        ("[2048.0, 3000.0]", "['70000.0', '1.0']"): (
            "Inside, the sum is right. Then it must go into a float16."
        ),
        ("[2048.0, 3000.0]", "['inf', 'inf']"): (
            "A mean does divide a sum. But not the one that was stored."
        ),
        ("[2048.0, 3000.0]", "['65504.0', '1.0']"): "Floats do not stop at their largest number.",
    },
    at={
        "total.item(), ones.sum().item()": (
            "This line is about the 3000 ones. The loop rounds after each addition. How often "
            "does sum() round?"
        ),
        "str(many.sum().item())": (
            "The 3000 ones are right. With 70000, both add well inside. Then each result is "
            "stored as a float16: does it fit?"
        ),
    },
)
def test_many_ones():
    """Add 3000 ones in float16, with a loop and with sum(). What does each say?

    Then 70000 ones: what are their sum and their mean?
    """
    ones = torch.ones(3000, dtype=torch.float16)
    total = torch.zeros((), dtype=torch.float16)
    for one in ones:
        total += one
    assert [total.item(), ones.sum().item()] == answer([2048.0, 3000.0])
    many = torch.ones(70_000, dtype=torch.float16)
    assert [str(many.sum().item()), str(many.mean().item())] == answer(["inf", "1.0"])


@koan(
    see="torch.Tensor.numpy",
    hint=[
        "Which floating point types has NumPy? Think of their names.",
        "Would another value help? Or is it something that NumPy has no word for?",
        "A detour is good when it can hold 1e5, 1 and 1e-20, all three.",
    ],
    why=(
        "NumPy has no bfloat16, so PyTorch says TypeError. float32 holds each bfloat16 exactly: "
        "x.float().numpy(). float16 has the same size and loses the large and the small ones "
        "without a word."
    ),
    wrong={
        ("ValueError", "['float', 'double']"): (
            "The numbers are fine. What NumPy does not know is what they are made of."
        ),
        ("RuntimeError", "['float', 'double']"): (
            "PyTorch often says so. Here it says more exactly what does not fit."
        ),
        ("TypeError", "['half', 'float', 'double']"): (
            "float16 has as many bits, so it looks like the natural way. What is 1e5 there?"
        ),
        ("TypeError", "['double']"): (
            "The widest is safe. A bfloat16 is shorter than you think: half of which float?"
        ),
    },
    at={
        "caught.type is": (
            "This line is about the exception alone. Would another value help? Or is it "
            "something that NumPy has no word for?"
        ),
        "arrays[name].equal(x)": (
            "The exception is right. Now the detours: all three numbers must come back "
            "unchanged. Which of the four dtypes can hold all of them?"
        ),
    },
)
def test_a_float_that_numpy_does_not_know():
    """NumPy refuses this tensor. With which exception?

    And by which detours do its numbers come through NumPy unchanged?
    """
    x = torch.tensor([1e5, 1.0, 1e-20], dtype=torch.bfloat16)
    with pytest.raises(Exception) as caught:
        x.numpy()
    assert caught.type is answer(TypeError)
    detours = {"half": x.half(), "float": x.float(), "double": x.double(), "int": x.int()}
    arrays = {name: torch.from_numpy(t.numpy()).to(x.dtype) for name, t in detours.items()}
    assert [name for name in arrays if arrays[name].equal(x)] == answer(["float", "double"])


@koan(
    see="torch.Tensor.masked_fill",
    hint=[
        "If there is an error, read it: does a number not fit into a dtype? Which one would?",
        "The lowest number is another one in each dtype. PyTorch can tell you for each.",
        "Minus infinity fits everywhere. But what is the softmax of a row that has nothing else?",
    ],
    why=(
        "torch.finfo(dtype).min is the lowest finite number, -65504 in float16. No "
        "score of that dtype is lower, and a row of it gets equal weights, not nan as with -inf. "
        "Ask the dtype, and the line is right for all of them."
    ),
    wrong={
        "return scores.masked_fill(hidden, -1e4)": (
            "It fits into all three. But there are scores far below it, so hidden words win."
        ),
        "return scores.masked_fill(hidden, torch.finfo(torch.float16).min)": (
            "Now float16 is content. In float32, some scores are far below that."
        ),
        "return scores.masked_fill(hidden, float('-inf'))": (
            "For most rows, yes. In a row where all is hidden, inf - inf comes up."
        ),
        "return scores.masked_fill(hidden, -torch.inf)": (
            "inf is above all, so its minus fits everywhere. Look at the row that has nothing else."
        ),
        "return scores.masked_fill(hidden, -65504)": (
            "That is the lowest float16, and each dtype can hold it. But the wider two have room "
            "for scores far below it."
        ),
        "return scores.masked_fill(hidden, -65504.0)": (
            "That is the lowest float16, and each dtype can hold it. But the wider two have room "
            "for scores far below it."
        ),
        "return scores.float().masked_fill(hidden, -1e9)": (
            "No number overflows. But the scores came in a small dtype, and should stay there."
        ),
        "return scores.float().masked_fill(hidden, -1e9).to(scores.dtype)": (
            "On the way back, -1e9 does not fit, and becomes -inf without a word."
        ),
        "return scores.masked_fill(hidden, torch.finfo(scores.dtype).tiny)": (
            "tiny is the smallest number above zero. Scores below zero lose against it."
        ),
    },
    right=[
        "return scores.masked_fill(hidden, -torch.finfo(scores.dtype).max)",
        "return torch.where(hidden, torch.finfo(scores.dtype).min, scores)",
        "lowest = torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype)\n"
        "return scores.masked_fill(hidden, lowest)",
    ],
    at={
        "mask(scores, hidden).softmax": (
            "`mask` should give back a tensor of scores, with the hidden ones lowered. What does "
            "yours give back?"
        ),
        "weights.dtype is dtype": (
            "The scores come in with one dtype, and leave `mask` with another. It should stay "
            "what it was."
        ),
        "weights[0].tolist()": (
            "The dtype is right. In the first row the hidden word should get nothing, even "
            "beside very low scores. Print the row after masking."
        ),
        "weights[1].isfinite()": (
            "The first row is right. In the second one all words are hidden, and its softmax "
            "is not finite. Print that row before softmax."
        ),
    },
)
def test_a_score_below_all_others():
    """Hidden words get a very low score, so that softmax leaves them nothing.

    It works in float32. Repair the marked line for all three dtypes, however low the scores are. A
    row with all its words hidden must not become nan.
    """

    def mask(scores, hidden):
        # answer:
        return scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        # given:
        # return scores.masked_fill(hidden, -1e9)
        # end

    hidden = torch.tensor([[False, False, True], [True, True, True]])
    for dtype, low in [(torch.float32, -6e7), (torch.bfloat16, -6e7), (torch.float16, -6e4)]:
        scores = torch.tensor([[low, low, 9.0], [5.0, 5.0, 5.0]], dtype=dtype)
        weights = mask(scores, hidden).softmax(-1)
        assert weights.dtype is dtype
        assert weights[0].tolist() == [0.5, 0.5, 0.0]
        assert weights[1].isfinite().all()


@koan(
    claims=["A-5.1-12"],
    see="torch.autograd.grad",
    hint=[
        "Print the gradient as it comes. At which place on its way is it a float16?",
        "A gradient grows with its loss. How can you make all of them larger, by one operation?",
        "Undo it when the gradient is a float32 again. And the largest one must not overflow.",
    ],
    why=(
        "2**16 times larger, 1e-8 is an ordinary float16, and 0.25 still fits. The gradient of w "
        "is float32 again, so the way back loses nothing. GradScaler does the same, and looks for "
        "a good scale as it goes."
    ),
    wrong={
        "(grad,) = torch.autograd.grad(loss, w)\nreturn grad": (
            "Print it: some gradients are already zero when they arrive."
        ),
        "(grad,) = torch.autograd.grad(loss, w)\nreturn grad * 2.0**16 / 2.0**16": (
            "What is zero stays zero. The help must come before the way, not after it."
        ),
        "(grad,) = torch.autograd.grad(loss * 2.0**16, w)\nreturn grad": (
            "They arrive. But now they are much too large for an optimizer."
        ),
        "(grad,) = torch.autograd.grad(loss * 2.0**16, w)\nreturn grad.half() / 2.0**16": (
            "Made small again in float16, they vanish a second time."
        ),
        "(grad,) = torch.autograd.grad(loss * 2.0**30, w)\nreturn grad / 2.0**30": (
            "The small ones are saved. Now the large one has no room: it is inf."
        ),
    },
    right=[
        "(loss * 2.0**14).backward()\nreturn w.grad / 2.0**14",
        "(grad,) = torch.autograd.grad(loss, w, torch.tensor(2.0**16))\nreturn grad / 2.0**16",
    ],
    at={
        "grad.dtype is torch.float32": (
            "`gradient` should return a float32 tensor, of the same dtype as w."
        ),
        "torch.allclose(grad": (
            "The dtype is right. And the three values? Print them: is one of them zero, "
            "infinite, or of another size than wanted?"
        ),
    },
)
def test_carry_a_gradient_through_half():
    """On its way to w, each gradient passes a float16, and the small ones arrive as zero.

    Write the body: make them arrive. Return the gradient of w, in its true size.
    """

    def gradient(loss, w):
        # answer:
        scale = 2.0**16
        (grad,) = torch.autograd.grad(loss * scale, w)
        return grad / scale
        # end

    def through_half(slopes):
        w = torch.ones(3, requires_grad=True)
        return (w.half().float() * torch.tensor(slopes)).sum(), w

    first = gradient(*through_half([1e-8, 3e-6, 0.25]))
    second = gradient(*through_half([-0.125, 2e-8, 1e-4]))
    for grad, wanted in [(first, [1e-8, 3e-6, 0.25]), (second, [-0.125, 2e-8, 1e-4])]:
        assert grad.dtype is torch.float32
        assert torch.allclose(grad, torch.tensor(wanted), rtol=0.01, atol=0.0)
