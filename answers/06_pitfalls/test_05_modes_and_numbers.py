"""Modes and numbers: models that answer twice, losses that stand still, and nan.

Documents: A 1, A 2.1, B 5
"""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import answer, koan


@koan(
    claims=["A-1-07"],
    see="torch.no_grad",
    hint=[
        "One switch is for the layers, the other for the recording. Which complaint is of which?",
        "inference_mode is a stricter no_grad. Does it write to any module?",
    ],
    why=(
        "eval() switches layers, no_grad and inference_mode switch the recording, and neither "
        "implies the other. A service wants both; the two complaints tell you which is missing."
    ),
    wrong={
        ("['no_grad']", "['eval']"): (
            "Some say inference_mode puts the layers into eval mode, as its name suggests. It "
            "switches the recording off, and no layer hears of it."
        ),
        ("['no_grad']", "[]"): (
            "inference_mode is about the recording, in spite of its name. And who said no_grad in "
            "the second way of the four?"
        ),
        ("['no_grad', 'inference_mode']", "['no_grad']"): (
            "no_grad is the one that switches the recording off. Which way leaves it on?"
        ),
        ("['no_grad']", "['no_grad']"): (
            "There are two switches, and each complaint is about one of them. Which way leaves the "
            "layers in train mode, and which one leaves the recording on?"
        ),
        ("[]", "['eval']"): (
            "Some say that without gradients a dropout has nothing to do. It does not ask for them."
        ),
        ("['no_grad', 'inference_mode']", "[]"): (
            "Some say eval() stops the recording. Try backward after it: it works."
        ),
    },
    at={
        "assert keeping ==": (
            "The first list is right. The second complaint is about the other switch: in which "
            "ways is the recording still on?"
        ),
    },
)
def test_two_complaints_about_a_service():
    """A service can answer in four ways. Two complaints come in: one question gets two different
    answers; and kept answers keep a graph in memory. Which ways does each complaint concern?
    Lists of names, in the order of `ways`."""
    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 1))
    x = torch.ones(1, 4)
    ways = {
        "no_grad": torch.no_grad()(lambda: net.train()(x)),
        "eval": lambda: net.eval()(x),
        "inference_mode": torch.inference_mode()(lambda: net.train()(x)),
        "eval and no_grad": torch.no_grad()(lambda: net.eval()(x)),
    }
    unsteady = [name for name, ask in ways.items() if not torch.equal(ask(), ask())]
    keeping = [name for name, ask in ways.items() if ask().grad_fn is not None]
    assert unsteady == answer(["no_grad", "inference_mode"])
    assert keeping == answer(["eval"])


@koan(
    see="torch.nn.functional.scaled_dot_product_attention",
    hint=[
        "eval() reaches the head: head.training is False then. Who should ask for it, and when?",
        "dropout_p is a plain number. When should it be 0.5, and what else should it be?",
    ],
    why=(
        "A function knows nothing of eval(), and this one does not even have a `training` "
        "argument: dropout_p acts whenever it is above 0. The module must hand over the right one."
    ),
    wrong={
        "return F.scaled_dot_product_attention(x, x, x)": (
            "Steady answers, and training has lost its dropout: nobody notices that for weeks."
        ),
        "with torch.no_grad():\n"
        "    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)": (
            "Some say no_grad stops dropout. It stops only the recording."
        ),
        "p = 0.5 if torch.is_grad_enabled() else 0.0\n"
        "return F.scaled_dot_product_attention(x, x, x, dropout_p=p)": (
            "This asks the wrong switch: a head in eval mode may well be recorded."
        ),
        "y = F.scaled_dot_product_attention(x, x, x)\nreturn F.dropout(y, 0.5, self.training)": (
            "It obeys the mode. But now whole output values are zeroed, not attention weights."
        ),
        "return F.dropout(F.scaled_dot_product_attention(x, x, x), 0.5, self.training)": (
            "It obeys the mode. But it drops numbers of the result, after the weights were used."
        ),
        "return F.dropout(F.scaled_dot_product_attention(x, x, x), 0.5)": (
            "F.dropout is a function, too: without its third argument it always drops."
        ),
        "return F.scaled_dot_product_attention(x, x, x, dropout_p=0.0)": (
            "Eval mode is steady now. But who drops the weights in train mode?"
        ),
    },
    right=[
        "return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5 * self.training)",
        "if self.training:\n"
        "    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)\n"
        "return F.scaled_dot_product_attention(x, x, x)",
        "weights = (x @ x.mT / x.shape[-1] ** 0.5).softmax(dim=-1)\n"
        "return F.dropout(weights, 0.5, self.training) @ x",
    ],
    at={
        "head.eval()(x), plain": (
            "In eval mode the head should give plain attention, each time: the same scale as "
            "before, and nothing dropped."
        ),
        "torch.allclose(first, second": (
            "Eval mode is right. But in train mode two answers are nearly the same: is anything "
            "dropped there?"
        ),
        "(first != 0).all()": (
            "Eval mode is right, and train mode drops something. But numbers of the result became "
            "0, and only attention weights should."
        ),
    },
)
def test_an_attention_that_is_never_steady():
    """In eval mode this head gives two answers to one question. Repair the marked line. In train
    mode it must go on dropping attention weights."""

    class Head(nn.Module):
        def forward(self, x):
            # answer:
            p = 0.5 if self.training else 0.0
            return F.scaled_dot_product_attention(x, x, x, dropout_p=p)
            # given:
            # return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
            # end

    head = Head()
    for length in (64, 96):
        x = torch.randn(1, length, 4)
        plain = (x @ x.mT / 2).softmax(dim=-1) @ x
        torch.testing.assert_close(head.eval()(x), plain, rtol=1e-3, atol=1e-4)
        first, second = head.train()(x), head(x)
        assert not torch.allclose(first, second, atol=1e-2)
        assert (first != 0).all()


@koan(
    see="torch.nn.BatchNorm1d",
    hint=[
        "What is the mean of two equal rows? And what is left when it is subtracted?",
        "If the row were another one, would the output be another one?",
    ],
    why=(
        "Two equal rows are their own mean, so the norm outputs zeros (its bias, to be exact) "
        "whatever the row says. An output that does not depend on the row sends no gradient back. "
        "The error is gone, and the sample too. Drop the last batch, or join it with another."
    ),
    wrong={
        ("[3.0, -8.0]", "[0.0, 0.0]"): (
            "A fresh norm in eval mode would let it pass like this. In train mode it looks at the "
            "batch."
        ),
        ("[1.0, -1.0]", "[0.0, 0.0]"): (
            "That would be the signs. The norm compares each row with the other rows, not with 0."
        ),
        ("[0.0, 0.0]", "[-2.0, -2.0]"): (
            "Some say that the sample still teaches. This would be so if the output followed it."
        ),
    },
    at={
        "row.grad[0].round()": (
            "The output is right. Would it change if the row were another one? The gradient is "
            "the answer to that."
        ),
    },
)
def test_the_last_row_sent_in_twice():
    """A batch norm in train mode refuses a batch of one row. So somebody sends the row in twice.

    Predict, rounded: the output for the row, and the gradient that the row gets.
    """
    row = torch.tensor([[3.0, -8.0]], requires_grad=True)
    norm = nn.BatchNorm1d(2)
    y = norm(torch.cat([row, row]))
    (y - 1).square().sum().backward()
    assert y[0].round().tolist() == answer([0.0, 0.0])
    assert row.grad[0].round().tolist() == answer([0.0, 0.0])


@koan(
    claims=["B-5-07"],
    see="torch.nn.BatchNorm1d",
    hint=[
        "Print running_mean before and after. Who wrote to it?",
        "A running statistic forgets. What does it know after a hundred batches of one kind?",
    ],
    why=(
        "No gradient, no optimizer, all frozen: still, each forward in train mode moves the "
        "running statistics, and eval mode believes them. So a few samples of another kind make "
        "false alarms. As the statistics are all that was lost, running the old data through "
        "brings them back."
    ),
    wrong={
        "[0, 0, 0]": (
            "Some say requires_grad=False freezes a batch norm. It freezes weight and bias; the "
            "statistics are buffers."
        ),
        "[0, 5, 5]": "Nothing was lost that the old parts could not tell again.",
        "[0, 0, 5]": "In which of the two loops does the norm get used to something unusual?",
    },
)
def test_false_alarms_after_a_look_at_new_parts():
    """A norm helps to inspect parts; below -2 an alarm rings. Frozen and without gradients, it is
    shown new parts, and then the old ones again.

    Predict the alarms among five old parts: before, after the new ones, at the end.
    """
    norm = nn.BatchNorm1d(1).requires_grad_(False)
    old, new = torch.linspace(-1, 1, 5)[:, None], torch.linspace(49, 51, 8)[:, None]
    alarms = [(norm.eval()(old) < -2).sum().item()]
    for parts in (new, old):
        norm.train()
        with torch.no_grad():
            for _ in range(100):
                norm(parts)
        alarms.append((norm.eval()(old) < -2).sum().item())
    assert alarms == answer([0, 5, 0])


@koan(
    claims=["B-5-07"],
    see="torch.nn.Module.modules",
    hint=[
        "Who must be in train mode after start_epoch, and who must not? The model arrives in eval "
        "mode.",
        "The norms may lie deep, and be of several classes with one common parent.",
        "Two things must hold: the statistics rest, and the norms use them.",
    ],
    why=(
        "Whoever fine-tunes on a few samples usually wants the old statistics: kept AND used. "
        "Only eval mode does both. requires_grad and momentum touch one half of it at most."
    ),
    wrong={
        "model.train()\nfor p in model.parameters():\n    p.requires_grad_(False)": (
            "Some say a norm without trainable parameters is frozen. Its statistics still move."
        ),
        "model.train()\nfor m in model.modules():\n"
        "    if isinstance(m, nn.modules.batchnorm._BatchNorm):\n        m.momentum = 0.0": (
            "The statistics rest. But the norms still use those of the small batch."
        ),
        "model.train()\nfor module in model.modules():\n"
        "    if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):\n"
        "        module.momentum = 0.0": (
            "A momentum of 0 stops the writing. What do the norms read from in train mode?"
        ),
        "model.train()\nfor m in model.modules():\n"
        "    if isinstance(m, nn.modules.batchnorm._BatchNorm):\n"
        "        m.track_running_stats = False": (
            "Now nothing is written, and nothing is read: the small batch decides again."
        ),
        "model.eval()": "Then the rest of the model trains in eval mode, without its dropout.",
        "model.train()\nfor m in model.children():\n"
        "    if isinstance(m, nn.modules.batchnorm._BatchNorm):\n        m.eval()": (
            "This looks one level deep. The norms of a real model lie deeper."
        ),
        "model.train()\nfor m in model.modules():\n"
        "    if isinstance(m, nn.BatchNorm1d):\n        m.eval()": (
            "Pictures have a norm of another class."
        ),
    },
    right=[
        "model.train()\nfor m in model.modules():\n"
        "    if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):\n"
        "        m.eval()",
        "model.train()\nfor m in model.modules():\n"
        "    if 'BatchNorm' in type(m).__name__:\n        m.train(False)",
        "for m in model.modules():\n"
        "    m.training = not isinstance(m, nn.modules.batchnorm._BatchNorm)",
    ],
    at={
        "torch.testing.assert_close(norm(x)[:4]": (
            "Four samples get other answers alone than among eight. So this norm looks at the "
            "batch, and not at its old statistics."
        ),
        "assert resting ==": (
            "The norm uses its old statistics. But it alone should be out of train mode: print "
            "`resting`."
        ),
    },
)
def test_fine_tune_on_eight_samples():
    """Each epoch of a fine-tuning begins with `start_epoch`, and after it each batch norm has
    forgotten the old data. Repair it: all batch norms keep and use their old statistics. All else
    is in train mode."""

    def start_epoch(model):
        # answer:
        model.train()
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        # given:
        # model.train()
        # end

    flat = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    deep = nn.Sequential(nn.Sequential(nn.Dropout(0.1), nn.BatchNorm2d(2)), nn.Dropout(0.5))
    small, pictures = torch.randn(8, 2) + 5, torch.randn(8, 2, 3, 3) + 5
    for model, norm, x in ((flat, flat[1], small), (deep, deep[0][1], pictures)):
        for _ in range(2):
            start_epoch(model.eval())
            model(x)
            torch.testing.assert_close(norm(x)[:4], norm(x[:4]))
            resting = [name for name, m in model.named_modules() if not m.training]
            assert resting == [name for name, m in model.named_modules() if m is norm]
        assert norm.running_mean.tolist() == [0.0, 0.0]
        assert norm.running_var.tolist() == [1.0, 1.0]


@koan(
    see="torch.nn.CrossEntropyLoss",
    hint=[
        "The first line of each log: all ten scores are equal, with or without softmax. What is "
        "-log of a tenth?",
        "The last line of the first log: how sure is a model whose right score leads by 100?",
        "The last line of the second log: softmax has made 1 and nine times 0 of the scores, and "
        "cross_entropy takes exp of each: 2.7, and what? -log of the right one's share is the "
        "loss.",
    ],
    why=(
        "The first line of both logs is log(10): an untrained model looks healthy either way. The "
        "difference is at the end: a perfect model stays at log(e + 9) - 1 = 1.46. If a loss for "
        "10 classes rests near 1.5 while the accuracy is fine, look for a softmax in the model."
    ),
    wrong={
        "[[2.3, 0.0], [2.3, 0.0]]": (
            "Some say softmax only rescales, so a perfect model still reaches zero. Scores can "
            "differ by 100, probabilities by 1."
        ),
        "[[2.3, 0.0], [2.3, 2.3]]": "Nothing would be learned then. A little is.",
        "[[2.3, 0.0], [0.1, 1.0]]": "The loss makes probabilities, of whatever it is given.",
        "[[1.0, 0.0], [1.0, 0.0]]": "The logarithm is the natural one, and there are ten classes.",
    },
)
def test_the_first_and_the_last_line_of_two_logs():
    """Ten classes, two trainings. One loss is given scores, the other one softmaxed scores.

    Predict the first line of each log (all scores are 0), and the last one (the right score is 100,
    the rest 0). Round each loss to one decimal.
    """
    first, last = torch.zeros(1, 10), torch.zeros(1, 10)
    last[0, 3] = 100.0
    logs = []
    for prepare in (lambda scores: scores, lambda scores: scores.softmax(dim=1)):
        losses = [F.cross_entropy(prepare(scores), torch.tensor([3])) for scores in (first, last)]
        logs.append([round(loss.item(), 1) for loss in losses])
    assert logs == answer([[2.3, 0.0], [2.3, 1.5]])


@koan(
    see="torch.nn.BCEWithLogitsLoss",
    hint=[
        "The first blank, after two sigmoids: the first one gives numbers above 0. On which side "
        "of 0.5 are their sigmoids?",
        "The second blank: the surest 'no' of a first sigmoid is 0. What does the loss make of the "
        "score 0?",
    ],
    why=(
        "After one sigmoid no score is below 0, and from there a second one is never below 0.5: "
        "all are ill. For the same reason the loss of a healthy one cannot fall below log(2), "
        "0.69, which is the loss of a pure guess. That number in a log is worth remembering."
    ),
    wrong={
        ("[2, 2]", "0.0"): (
            "Some say a sigmoid keeps the order, so nothing changes. The order stays; the line at "
            "0.5 does not move along."
        ),
        ("[2, 4]", "0.0"): "That would need a score far below 0. There is none any more.",
        ("[2, 0]", "0.69"): "Push small positive numbers through a sigmoid, and look at the side.",
        ("[2, 4]", "0.31"): "That is the best for an ill one. This one is healthy.",
    },
    at={
        "assert ill ==": (
            "This line compares the two counts: after one sigmoid, then after two. On which side "
            "of 0.5 is the sigmoid of a small positive number?"
        ),
        "round(loss.item(), 2)": (
            "Both counts are right. The surest healthy one got 0 from its sigmoid: what does the "
            "loss make of a score of 0?"
        ),
    },
)
def test_a_ward_where_all_are_ill():
    """The model ends with a sigmoid; the report and the loss apply one, too. Ill means above 0.5.

    How many of four are ill after one sigmoid and after two? And what is the loss of the surest
    healthy one? Round the loss to two decimals.
    """
    scores = torch.tensor([-4.0, -1.0, 0.5, 3.0])
    once = scores.sigmoid()
    ill = [(p > 0.5).sum().item() for p in (once, once.sigmoid())]
    surest = torch.tensor(-1000.0).sigmoid()
    loss = F.binary_cross_entropy_with_logits(surest, torch.tensor(0.0))
    assert ill == answer([2, 4])
    assert round(loss.item(), 2) == answer(0.69)


@koan(
    see="torch.exp",
    hint=[
        "The first blank: exp(100) has 44 digits. What is the largest number of the tensor's "
        "dtype? torch.finfo tells.",
        "The second blank: which exceptions has Python for arithmetic? Its documentation shows a "
        "tree of them.",
    ],
    why=(
        "float32 ends near 3.4e38, so from a loss of 89 on its exp is inf, and PyTorch goes on "
        "with it, in a log and in your weights. Python's math works in 64 bits: exp(100) fits, "
        "exp(1000) raises OverflowError. So one program prints inf and another one dies, and the "
        "loss had been bad for long."
    ),
    wrong={
        ("[math.exp(100.0), math.inf]", "OverflowError"): (
            "Python's float has room for exp(100). Has the tensor's dtype?"
        ),
        ("[math.nan, math.nan]", "OverflowError"): (
            "Some say that a number which is too large becomes nan. It is only too large: compare "
            "it with others, and you see where it stands."
        ),
        ("[math.inf, math.inf]", "ValueError"): (
            "math.log(0.0) says this: there is no such logarithm. exp(1000) exists."
        ),
        ("[math.inf, math.inf]", "RuntimeError"): (
            "PyTorch's own word. But the tensor has no part in it beyond its number."
        ),
        ("[math.inf, math.inf]", "FloatingPointError"): (
            "Some say so, since the name fits so well. Python itself hardly raises it."
        ),
        ("[math.inf, math.inf]", "TypeError"): (
            "math.exp takes what can become a float: a tensor with one number, too."
        ),
        ("[math.inf, math.inf]", "ArithmeticError"): (
            "You are near: this is the parent of the right one. Which of its children is it?"
        ),
        ("[math.inf, math.inf]", "Exception"): (
            "This is the parent of nearly all. The type itself is asked for."
        ),
    },
    right=[
        ("[torch.inf, torch.inf]", "OverflowError"),
        ("[float('inf'), float('inf')]", "OverflowError"),
    ],
    at={
        "losses.exp().tolist()": (
            "This line looks at the tensor: exp(100) has 44 digits. What is the largest number "
            "of its dtype? torch.finfo tells."
        ),
        "assert caught.type is": (
            "Both numbers are right. The exception comes from Python's own math: see the "
            "arithmetic ones in its tree of exceptions."
        ),
    },
)
def test_the_perplexity_of_a_bad_day():
    """Two losses on a bad day. Predict exp of both in PyTorch: numbers, math.inf or math.nan.

    Python's math can do the first one. Which exception does it raise for the second?
    """
    losses = torch.tensor([100.0, 1000.0])
    assert losses.exp().tolist() == answer([math.inf, math.inf])
    assert math.exp(losses[0]) < math.inf
    with pytest.raises(Exception) as caught:
        math.exp(losses[1])
    assert caught.type is answer(OverflowError)


@koan(
    see="torch.nn.functional.log_softmax",
    hint=[
        "softmax rounds a tiny probability to 0. Then log says -inf, and 0 * -inf is nan.",
        "A cure after the log repairs what you see; backward still walks through the log.",
        "There is a way to the logarithm that never passes the rounded probability.",
    ],
    why=(
        "log_softmax computes the logarithms from the scores: -200 is a fine number, its exp is 0, "
        "and 0 * -200 is 0. The where and nan_to_num come too late: they hide the nan from "
        "forward, and backward meets it. A small constant, as in (p + 1e-9).log(), is enough for "
        "an entropy. In a cross entropy it costs: no loss is above 20.7 then, and a sample that "
        "is badly wrong sends hardly any gradient."
    ),
    wrong={
        "p = scores.softmax(dim=-1)\nreturn -torch.where(p > 0, p * p.log(), 0.0).sum(dim=-1)": (
            "The number is right now. Backward goes through both branches, and finds log(0)."
        ),
        "p = scores.softmax(dim=-1)\nreturn -(p * p.log()).nan_to_num(0.0).sum(dim=-1)": (
            "Some say that this cures nan. The number is right; print the gradient."
        ),
        "return by_hand(scores.clamp(-50, 50))": (
            "Scores may all be large; only their differences count. Clamping makes equals of them."
        ),
        "return by_hand(scores).nan_to_num(0.0)": (
            "It was the whole sum that turned nan. And 0 * nan is nan on the way back."
        ),
    },
    right=[
        "return torch.distributions.Categorical(logits=scores).entropy()",
        "p = scores.softmax(dim=-1)\nreturn -(p * p.clamp(min=1e-30).log()).sum(dim=-1)",
        "p = scores.softmax(dim=-1)\nreturn -(p * (p + 1e-12).log()).sum(dim=-1)",
        "return (scores.logsumexp(dim=-1) - (scores.softmax(dim=-1) * scores).sum(dim=-1))",
    ],
    at={
        "entropy(sure).tolist()": (
            "Here each row should give one entropy near 0. Print it: is the shape right? And if "
            "there is a nan, which step makes it?"
        ),
        "entropy(sure).sum().backward()": (
            "The numbers for sure answers are right. But no way leads from them back to the scores."
        ),
        "sure.grad.isfinite()": (
            "The numbers for sure answers are right. But their gradient is nan, infinite or "
            "missing: print sure.grad. Backward passes each step, also those whose result was "
            "replaced."
        ),
        "assert_close(found": (
            "Sure answers are right. Now usual scores, all raised by 100, should give the "
            "gradient that `by_hand` gives without the 100."
        ),
        "assert_close(entropy(scores)": (
            "Sure answers and gradients are right. But for usual scores the entropy is not what "
            "`by_hand` gives. Compare the two."
        ),
    },
)
def test_the_entropy_of_a_sure_answer():
    """`by_hand` is right until a probability is rounded to 0. Then it is nan. Repair the marked
    line: right numbers, and no nan or infinity on the way back."""

    def by_hand(scores):
        p = scores.softmax(dim=-1)
        return -(p * p.log()).sum(dim=-1)

    def entropy(scores):
        # answer:
        logs = scores.log_softmax(dim=-1)
        return -(logs.exp() * logs).sum(dim=-1)
        # given:
        # return by_hand(scores)
        # end

    for rows in ([[200.0, 0.0, 0.0]], [[0.0, -300.0, -300.0], [500.0, 1.0, 0.0]]):
        sure = torch.tensor(rows, requires_grad=True)
        assert entropy(sure).tolist() == pytest.approx([0.0] * len(rows), abs=1e-4)
        entropy(sure).sum().backward()
        assert sure.grad.isfinite().all()
    for scores in (torch.randn(2, 3, requires_grad=True), torch.randn(4, requires_grad=True)):
        expected = torch.autograd.grad(by_hand(scores).sum(), scores)
        found = torch.autograd.grad(entropy(scores + 100).sum(), scores)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(entropy(scores), by_hand(scores), rtol=1e-3, atol=1e-3)


@koan(
    see="torch.where",
    hint=[
        "What is divided for the empty sentence? And what does backward make of that division?",
        "where sends the gradient 0 into the other branch. What is 0 / 0 there?",
        "Make the division harmless before it takes place, not after.",
    ],
    why=(
        "where, masked_fill and nan_to_num choose among results. Both were computed, and backward "
        "passes both: a gradient of 0 meets 1 / 0, and one nan ruins each weight. The cure is to "
        "make the input safe before the dangerous operation."
    ),
    wrong={
        "return (total / count).nan_to_num(0.0)": (
            "Some say this removes the nan. It removes it from forward; look at w.grad."
        ),
        "return (total / count).nan_to_num()": (
            "Some say this removes the nan. It removes it from forward; look at w.grad."
        ),
        "return total / max(count, 1)": (
            "max of Python asks for one truth, and count holds a number for each sentence."
        ),
        "return (total / count).masked_fill(count == 0, 0.0)": (
            "It is the same as where: first the division, then the choice."
        ),
        "return total / (count + 1)": "No nan any more, and no mean either: try two tokens.",
        "return torch.where(count > 0, (total / count).detach(), 0.0)": (
            "No nan on the way back, since there is no way back."
        ),
    },
    right=[
        "return total / torch.where(count > 0, count, 1.0)",
        "return total / (count + 1e-8)",
        "return total / torch.maximum(count, torch.tensor(1.0))",
        "return total / (count + (count == 0))",
        "means = torch.zeros_like(total)\n"
        "means[count > 0] = total[count > 0] / count[count > 0]\n"
        "return means",
        "return torch.where(count > 0, total / torch.where(count > 0, count, 1.0), 0.0)",
    ],
    at={
        "w.grad.item() ==": (
            "The means are right, but the gradient of w is not. Print it. Which operations does "
            "backward pass for each sentence?"
        ),
        "assert found.tolist() ==": (
            "No gradient yet: here the means are compared. The tokens that count give the mean, "
            "and an empty sentence has the mean 0."
        ),
        "found.sum().backward()": "The means are right. But no way leads from them back to w.",
    },
)
def test_the_mean_of_an_empty_sentence():
    """Mean over the tokens that count; an empty sentence has the mean 0. The means are right, and
    after one step all weights are nan. Repair the marked line."""

    def means_of(x, mask):
        total, count = (x * mask).sum(dim=1), mask.sum(dim=1)
        # answer:
        return total / count.clamp(min=1)
        # given:
        # return torch.where(count > 0, total / count, 0.0)
        # end

    x = torch.tensor([[2.0, 4.0, 9.0], [6.0, 5.0, 7.0]])
    masks = [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    for mask, means, slope in zip(masks, ([6.0, 0.0], [0.0, 12.0]), (3.0, 6.0)):
        w = torch.tensor(2.0, requires_grad=True)
        found = means_of(w * x, torch.tensor(mask))
        assert found.tolist() == means
        found.sum().backward()
        assert w.grad.item() == pytest.approx(slope)


@koan(
    see="torch.autograd.set_detect_anomaly",
    hint=[
        "Anomaly mode looks at what the nodes of backward return. Does it look at the loss?",
        "Write down each slope at w = 0. Which are nan? Infinity is something else.",
    ],
    why=(
        "Anomaly mode checks gradients, and only for nan. A loss of nan with harmless slopes "
        "passes, and so does infinity. A loss of 0 with a slope of inf * 0 is stopped. So for a "
        "nan that is born in forward, watch the outputs of the layers instead."
    ),
    wrong={
        "['shift', 'scale']": (
            "Some say anomaly mode finds the line that makes the loss nan. It never looks at it."
        ),
        "['log', 'shift', 'scale', 'root']": "Each one is ill. But not each has a nan as slope.",
        "['shift', 'scale', 'root']": "The slope of w + nan is as healthy as that of w + 1.",
        "['log', 'scale', 'root']": "log has an infinite slope at 0. Is that what it looks for?",
        "['root']": "One more multiplies its slope with a nan.",
    },
)
def test_what_anomaly_mode_overlooks():
    """Four losses, in order: -inf, nan, nan and 0. Which names does anomaly mode stop?

    A list in the order of `losses`.
    """
    nan, stopped = float("nan"), []
    losses = {"log": lambda w: w.log(), "shift": lambda w: w + nan, "scale": lambda w: w * nan}
    losses |= {"root": lambda w: (w * w).sqrt()}
    for name, loss in losses.items():
        w = torch.zeros((), requires_grad=True)
        with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
            warnings.simplefilter("ignore")
            try:
                loss(w).backward()
            except RuntimeError:
                stopped.append(name)
    assert stopped == answer(["scale", "root"])


@koan(
    see="torch.isfinite",
    hint=[
        "The optimizer did not run. Who else writes to the model?",
        "Go through the entries of the state_dict: which are written in forward?",
    ],
    why=(
        "The skipped step saved the parameters. The running statistics had been written in "
        "forward, and a running average never gets rid of a nan: each later answer in eval mode "
        "is nan. Look at the data before it enters the model."
    ),
    wrong={
        "[]": ("Some say that without a step nothing changes. Forward has run already."),
        "['0.weight', '0.bias', '1.weight', '1.bias']": (
            "These would be ruined by the step. It was skipped."
        ),
        "['1.running_mean']": "Where the mean is nan, can the spread around it be a number?",
        "['1.running_mean', '1.running_var', '1.num_batches_tracked']": (
            "The third one is a whole number. It counted one more batch."
        ),
    },
)
def test_a_broken_batch_that_was_skipped():
    """One value of one sample is nan. The loop is careful and skips the step.

    Which entries of the state_dict hold a nan afterwards? Names, in its order.
    """
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(4, 2)
    x[0, 0] = float("nan")
    loss = net(x).square().mean()
    loss.backward()
    if loss.isfinite():
        optimizer.step()
    spoiled = [name for name, value in net.state_dict().items() if value.isnan().any()]
    assert spoiled == answer(["1.running_mean", "1.running_var"])


@koan(
    see="torch.distributions.Categorical",
    hint=[
        "Arithmetic with nan is quiet. Who looks at the numbers here: a kernel, or Python code?",
        "The type of the argument is right, and nothing is computed yet. What is wrong with it?",
    ],
    why=(
        "A distribution checks its parameters when it is built: ValueError. torch.multinomial sees "
        "a nan, too, and raises RuntimeError. Either is only the messenger: the nan was born "
        "earlier, maybe many steps ago, and all arithmetic since then has passed it on."
    ),
    wrong={
        "RuntimeError": "Kernels say this, as multinomial does. Here no kernel has started.",
        "TypeError": "It is a float tensor, as it should be. The trouble is in a number.",
        "FloatingPointError": "Some expect it, for the name. PyTorch lets nan pass in arithmetic.",
        "OverflowError": "Nothing is too large. nan is not a size.",
    },
)
def test_an_agent_that_cannot_choose():
    """One score of an agent is nan. softmax passes it on without a word. A distribution refuses.

    Which exception does it raise?
    """
    scores = torch.tensor([0.5, float("nan"), 1.0])
    assert scores.softmax(dim=0).isnan().all()
    with pytest.raises(Exception) as caught:
        torch.distributions.Categorical(logits=scores)
    assert caught.type is answer(ValueError)


@koan(
    see="torch.testing.assert_close",
    hint=[
        "Another batch size may mean another order of summation. What does that change?",
        "A million's last digit is worth more than a thousandth's. What must a tolerance follow?",
        "It must stay small: a norm in train mode is a real difference.",
    ],
    why=(
        "Adding floats in another order gives another last digit, in deterministic mode too: that "
        "mode repeats the same call, and this is another call. Compare with a tolerance relative "
        "to the numbers, and a small one: what then remains really depends on the batch."
    ),
    wrong={
        "torch.use_deterministic_algorithms(True)\nreturn torch.equal(a, b)": (
            "Some say it is nondeterminism. Each call repeats exactly; but these are two calls."
        ),
        "return (a - b).abs().max().item() < 1e-6": (
            "Fine around 1. Around a million two neighbouring floats are farther apart than that."
        ),
        "return torch.equal(a.round(decimals=3), b.round(decimals=3))": (
            "Where two neighbours lie on different sides of a step, rounding drives them apart."
        ),
        "return torch.allclose(a, b, atol=10.0)": (
            "Now all agree, the norm that looks at its batch as well."
        ),
        "return torch.allclose(a, b, atol=1e-3)": (
            "Fine for numbers around 1. Of numbers around a thousandth, what is left to see?"
        ),
        "return torch.allclose(a, b, rtol=0.1)": (
            "A real difference of one part in a hundred goes by."
        ),
        "return a.shape == b.shape": "It is quiet now, and knows nothing.",
    },
    right=[
        "return torch.allclose(a, b)",
        "return torch.isclose(a, b, rtol=1e-3, atol=1e-6).all().item()",
        "return ((a - b).abs() <= 1e-4 * b.abs() + 1e-6).all().item()",
        "try:\n    torch.testing.assert_close(a, b)\nexcept AssertionError:\n    return False\n"
        "return True",
    ],
    at={
        "agree(a, other_order)": (
            "These differ by one unit in the last digit, which must pass: around a thousandth, "
            "around 1 and around a million."
        ),
        "agree(a, 1.01 * a)": (
            "The last digit passes. But here a difference of 1 % passes, too. How large is your "
            "tolerance beside numbers of this size?"
        ),
        "assert not agree(norm(x)": (
            "All sizes are right. But this norm is in train mode and really depends on its batch, "
            "and `agree` does not see it."
        ),
        "assert agree(norm(x)": (
            "In eval mode the norm takes each sample by itself. At most the last digits differ "
            "here, and that must pass."
        ),
    },
)
def test_one_by_one_and_all_together():
    """Answers computed one by one and in a batch may differ in the last digit. Repair `agree`: it
    lets that pass, whatever the size of the numbers, and still finds a difference of 1 %, and a
    model that really depends on the batch."""

    def agree(a, b):
        # answer:
        return torch.allclose(a, b, rtol=1e-4, atol=1e-6)
        # given:
        # return torch.equal(a, b)
        # end

    for scale in (1e-3, 1.0, 1e6):
        a = torch.linspace(1.0, 2.0, 9) * scale
        other_order = torch.nextafter(a, 2 * a)  # the next float: one unit in the last digit
        assert agree(a, other_order) and agree(other_order, a)
        assert not agree(a, 1.01 * a) and not agree(1.01 * a, a)
    norm, x = nn.BatchNorm1d(3), torch.randn(8, 3)
    assert not agree(norm(x)[:4], norm(x[:4]))
    norm.eval()
    assert agree(norm(x)[:4], norm(x[:4]))


@koan(
    claims=["A-2.1-01", "A-2.1-02", "A-2.1-03"],
    see="torch.random.fork_rng",
    hint=[
        "Each run begins with its own seed, so the seed is set inside the loop.",
        "manual_seed changes the stream of whoever calls you. How can you give it back?",
        "How much do the runs differ? std() tells.",
    ],
    why=(
        "63 % after one lesson, 22 % after another, four minutes that fit a memory: such numbers "
        "about learners are anecdotes until one knows how many there were and how they differed. "
        "It is the same with accuracies: give the number of runs, the spread, and the seeds."
    ),
    wrong={
        "torch.manual_seed(seeds[0])\nvalues = torch.tensor([run() for _ in seeds])\n"
        "return len(values), values.mean().item(), values.std().item()": (
            "One seed for all: nobody can repeat the third run alone. And the stream is lost."
        ),
        "values = []\nfor seed in seeds:\n    torch.manual_seed(seed)\n    values.append(run())\n"
        "values = torch.tensor(values)\n"
        "return len(values), values.mean().item(), values.std().item()": (
            "The numbers are right. But the caller's own training goes on with other dice."
        ),
        "with torch.random.fork_rng(devices=[]):\n    torch.manual_seed(seeds[0])\n"
        "    value = run()\nreturn 1, value, 0.0": (
            "Some say one good run is a result. Nobody can tell it from luck."
        ),
        "with torch.random.fork_rng(devices=[]):\n"
        "    values = torch.tensor([run() for _ in seeds])\n"
        "return len(values), values.mean().item(), values.std().item()": (
            "Many runs and their spread, but with dice that nobody can throw again."
        ),
        "import statistics\n\nvalues = []\nwith torch.random.fork_rng(devices=[]):\n"
        "    for seed in seeds:\n        torch.manual_seed(seed)\n        values.append(run())\n"
        "return len(values), statistics.mean(values), statistics.pstdev(values)": (
            "pstdev divides by n: it wants all runs that there will ever be. What does std() of "
            "PyTorch divide by?"
        ),
        "values = []\nwith torch.random.fork_rng(devices=[]):\n    for seed in seeds:\n"
        "        torch.manual_seed(seed)\n        values.append(run())\n"
        "values = torch.tensor(values)\n"
        "return len(values), values.mean().item(), values.std(correction=0).item()": (
            "This is the spread around a mean that is known beforehand. std() corrects for it."
        ),
        "import statistics\n\nvalues = []\nfor seed in seeds:\n"
        "    torch.manual_seed(seed)\n    values.append(run())\n"
        "return len(values), statistics.mean(values), statistics.stdev(values)": (
            "The numbers are right. But the stream that the caller draws from has been moved."
        ),
        "values = []\nwith torch.random.fork_rng(devices=[]):\n    for seed in seeds:\n"
        "        torch.manual_seed(seed)\n        values.append(run())\n"
        "values = torch.tensor(values)\n"
        "return len(values), values.mean(), values.std()": (
            "The numbers are right, and they are still tensors. A report wants plain ones."
        ),
    },
    right=[
        "state = torch.get_rng_state()\nvalues = []\nfor seed in seeds:\n"
        "    torch.manual_seed(seed)\n    values.append(run())\ntorch.set_rng_state(state)\n"
        "values = torch.tensor(values)\n"
        "return len(values), values.mean().item(), values.std().item()",
        "import statistics\n\nvalues = []\nwith torch.random.fork_rng(devices=[]):\n"
        "    for seed in seeds:\n        torch.manual_seed(seed)\n        values.append(run())\n"
        "return len(seeds), statistics.mean(values), statistics.stdev(values)",
    ],
    at={
        "runs, mean, spread = measure": (
            "This line takes three things from `measure`: the number of runs, their mean and "
            "their spread."
        ),
        "torch.equal(torch.get_rng_state(), before)": (
            "The random stream of the caller is not where it was before. Who moved it, and who "
            "puts it back?"
        ),
        "type(mean) is type(spread)": (
            "The caller's stream is as before. Here the kinds are checked: the number of runs, "
            "and two plain floats of Python."
        ),
        "truth.std().item()": (
            "Stream and types are right, the numbers are not. Does each run begin with its own "
            "seed, and is the spread PyTorch's std()?"
        ),
    },
)
def test_a_percentage_of_whom():
    """Some say "63 % remember it". Of how many? Write `measure`: one run for each seed. Return the
    number of runs, their mean, and their std() as PyTorch counts it: an int and two floats. The
    caller's random stream stays as it was."""

    def measure(run, seeds):
        # answer:
        values = []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(seed)
                values.append(run())
        values = torch.tensor(values)
        return len(values), values.mean().item(), values.std().item()
        # end

    for seeds, size in (([3, 1, 4], 5), ([10, 20], 2)):
        dice = [torch.Generator().manual_seed(seed) for seed in seeds]
        truth = torch.stack([torch.rand(size, generator=one).mean() for one in dice])
        before = torch.get_rng_state()
        runs, mean, spread = measure(lambda: torch.rand(size).mean().item(), seeds)
        assert torch.equal(torch.get_rng_state(), before)
        assert runs == len(seeds) and type(mean) is type(spread) is float
        assert [mean, spread] == pytest.approx([truth.mean().item(), truth.std().item()], abs=1e-5)


@koan(
    see="torch.nn.Module.register_forward_hook",
    hint=[
        "A forward hook sees (module, inputs, output). Give each one the name of its module.",
        "named_modules() has the order of definition. The hooks run in the order of the calls.",
        "Eval mode and no graph while you look. Afterwards remove the hooks, and put the modes "
        "back.",
    ],
    why=(
        "A nan spreads to what follows, so the first one matters, and hooks see the layers "
        "in the order in which they return. The two switches are needed here, too: a look in train "
        "mode would write the nan into running statistics."
    ),
    wrong={
        "model.eval()\nwith torch.no_grad():\n    for name, module in model.named_children():\n"
        "        x = module(x)\n        if x.isnan().any():\n            return name\n"
        "return None": (
            "It takes the children in the order of definition. forward may use another."
        ),
        "bad, modes = [], {m: m.training for m in model.modules()}\n"
        "for name, m in model.named_modules():\n"
        "    m.register_forward_hook(\n"
        "        lambda *a, name=name: bad.append(name) if a[2].isnan().any() else None\n"
        "    )\n"
        "with torch.no_grad():\n    model.eval()(x)\n"
        "for m, mode in modes.items():\n    m.training = mode\n"
        "return bad[0] if bad else None": (
            "The hooks stay. The next training pays for them at each batch."
        ),
        "bad, handles = [], []\nfor name, m in model.named_modules():\n"
        "    handles += [m.register_forward_hook(\n"
        "        lambda *a, name=name: bad.append(name) if a[2].isnan().any() else None\n"
        "    )]\n"
        "with torch.no_grad():\n    model(x)\n"
        "for handle in handles:\n    handle.remove()\n"
        "return bad[0] if bad else None": (
            "Some say no_grad is enough to look. The batch norm has learned from this sample."
        ),
        "bad, handles = [], []\nfor name, m in model.named_modules():\n"
        "    handles += [m.register_forward_hook(\n"
        "        lambda *a: bad.append(name) if a[2].isnan().any() else None\n"
        "    )]\n"
        "modes = {m: m.training for m in model.modules()}\n"
        "with torch.no_grad():\n    model.eval()(x)\n"
        "for m, mode in modes.items():\n    m.training = mode\n"
        "for handle in handles:\n    handle.remove()\n"
        "return bad[0] if bad else None": (
            "Each hook reads `name` when it runs, and then the loop is over: all say the last name."
        ),
    },
    right=[
        "import functools\n\nbad = []\n\n"
        "def look(name, module, inputs, output):\n"
        "    if torch.isnan(output).any():\n        bad.append(name)\n\n"
        "modes = [(m, m.training) for m in model.modules()]\n"
        "handles = [\n    m.register_forward_hook(functools.partial(look, n))\n"
        "    for n, m in model.named_modules()\n]\n"
        "try:\n    with torch.inference_mode():\n        model.eval()(x)\n"
        "finally:\n    for handle in handles:\n        handle.remove()\n"
        "    for m, mode in modes:\n        m.training = mode\n"
        "return next(iter(bad), None)",
    ],
    at={
        "assert not torch.is_grad_enabled()": (
            "This model asks whether the recording is off while you look. It is on."
        ),
        "assert first_nan(model": (
            "The order of the calls decides who is the first to return a nan. And if nobody does, "
            "the result is None."
        ),
        "module.training for module in model.modules()] == modes": (
            "The names are right. But some module is not in the mode in which you found it."
        ),
        "module._forward_hooks": (
            "Names and modes are right. But a hook is still there, and the next training would "
            "run it."
        ),
        "norm.num_batches_tracked": (
            "Names, modes and hooks are right. But the norm has counted a batch, so it was in "
            "train mode while you looked."
        ),
    },
)
def test_write_a_search_for_the_first_nan():
    """Write `first_nan`: the name, as in named_modules(), of the module that is the first to return
    a nan, or None. Look in eval mode and without a graph. Leave hooks, modes and statistics as you
    found them."""

    class Swapped(nn.Sequential):
        def forward(self, x):
            assert not torch.is_grad_enabled()
            return self[0](self[1](x))

    def first_nan(model, x):
        # answer:
        found, modes = [], {m: m.training for m in model.modules()}

        def look(name):
            return lambda module, x, y: found.append(name) if y.isnan().any() else None

        handles = [m.register_forward_hook(look(name)) for name, m in model.named_modules()]
        with torch.no_grad():
            model.eval()(x)
        for handle in handles:
            handle.remove()
        for m, mode in modes.items():
            m.training = mode
        return found[0] if found else None
        # end

    norm, soft = nn.BatchNorm1d(2), nn.Softmax(dim=1)  # softmax makes nan of infinity
    pair = nn.Sequential(nn.BatchNorm1d(2), nn.Softmax(dim=1)).eval()
    for model, name in ((nn.Sequential(norm, soft, pair), "1"), (Swapped(soft, pair), "1.1")):
        modes = [module.training for module in model.modules()]
        for row, expected in (([4.0, 9.0], None), ([4.0, float("inf")], name)):
            assert first_nan(model, torch.tensor([row, [1.0, 1.0]])) == expected
        assert [module.training for module in model.modules()] == modes
        assert not any(module._forward_hooks for module in model.modules())
    assert norm.num_batches_tracked.item() == 0
