"""Modes and numbers: models that answer twice, losses that stand still, and nan."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import __


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
    assert unsteady == __
    assert keeping == __


def test_an_attention_that_is_never_steady():
    """In eval mode this head gives two answers to one question. Repair the marked line. In train
    mode it must go on dropping attention weights."""

    class Head(nn.Module):
        def forward(self, x):
            # your turn:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
            # end

    head = Head()
    for length in (64, 96):
        x = torch.randn(1, length, 4)
        plain = (x @ x.mT / 2).softmax(dim=-1) @ x
        torch.testing.assert_close(head.eval()(x), plain, rtol=1e-3, atol=1e-4)
        first, second = head.train()(x), head(x)
        assert not torch.allclose(first, second, atol=1e-2)
        assert (first != 0).all()


def test_the_last_row_sent_in_twice():
    """A batch norm in train mode refuses a batch of one row. So somebody sends the row in twice.

    Predict, rounded: the output for the row, and the gradient that the row gets.
    """
    row = torch.tensor([[3.0, -8.0]], requires_grad=True)
    norm = nn.BatchNorm1d(2)
    y = norm(torch.cat([row, row]))
    (y - 1).square().sum().backward()
    assert y[0].round().tolist() == __
    assert row.grad[0].round().tolist() == __


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
    assert alarms == __


def test_fine_tune_on_eight_samples():
    """Each epoch of a fine-tuning begins with `start_epoch`, and after it each batch norm has
    forgotten the old data. Repair it: all batch norms keep and use their old statistics. All else
    is in train mode."""

    def start_epoch(model):
        # your turn:
        model.train()
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
    assert logs == __


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
    assert ill == __
    assert round(loss.item(), 2) == __


def test_the_perplexity_of_a_bad_day():
    """Two losses on a bad day. Predict exp of both in PyTorch: numbers, math.inf or math.nan.

    Python's math can do the first one. Which exception does it raise for the second?
    """
    losses = torch.tensor([100.0, 1000.0])
    assert losses.exp().tolist() == __
    assert math.exp(losses[0]) < math.inf
    with pytest.raises(Exception) as caught:
        math.exp(losses[1])
    assert caught.type is __


def test_the_entropy_of_a_sure_answer():
    """`by_hand` is right until a probability is rounded to 0. Then it is nan. Repair the marked
    line: right numbers, and no nan or infinity on the way back."""

    def by_hand(scores):
        p = scores.softmax(dim=-1)
        return -(p * p.log()).sum(dim=-1)

    def entropy(scores):
        # your turn:
        return by_hand(scores)
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


def test_the_mean_of_an_empty_sentence():
    """Mean over the tokens that count; an empty sentence has the mean 0. The means are right, and
    after one step all weights are nan. Repair the marked line."""

    def means_of(x, mask):
        total, count = (x * mask).sum(dim=1), mask.sum(dim=1)
        # your turn:
        return torch.where(count > 0, total / count, 0.0)
        # end

    x = torch.tensor([[2.0, 4.0, 9.0], [6.0, 5.0, 7.0]])
    masks = [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    for mask, means, slope in zip(masks, ([6.0, 0.0], [0.0, 12.0]), (3.0, 6.0)):
        w = torch.tensor(2.0, requires_grad=True)
        found = means_of(w * x, torch.tensor(mask))
        assert found.tolist() == means
        found.sum().backward()
        assert w.grad.item() == pytest.approx(slope)


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
    assert stopped == __


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
    assert spoiled == __


def test_an_agent_that_cannot_choose():
    """One score of an agent is nan. softmax passes it on without a word. A distribution refuses.

    Which exception does it raise?
    """
    scores = torch.tensor([0.5, float("nan"), 1.0])
    assert scores.softmax(dim=0).isnan().all()
    with pytest.raises(Exception) as caught:
        torch.distributions.Categorical(logits=scores)
    assert caught.type is __


def test_one_by_one_and_all_together():
    """Answers computed one by one and in a batch may differ in the last digit. Repair `agree`: it
    lets that pass, whatever the size of the numbers, and still finds a difference of 1 %, and a
    model that really depends on the batch."""

    def agree(a, b):
        # your turn:
        return torch.equal(a, b)
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


def test_a_percentage_of_whom():
    """Some say "63 % remember it". Of how many? Write `measure`: one run for each seed. Return the
    number of runs, their mean, and their std() as PyTorch counts it: an int and two floats. The
    caller's random stream stays as it was."""

    def measure(run, seeds):
        # your turn:
        __
        # end

    for seeds, size in (([3, 1, 4], 5), ([10, 20], 2)):
        dice = [torch.Generator().manual_seed(seed) for seed in seeds]
        truth = torch.stack([torch.rand(size, generator=one).mean() for one in dice])
        before = torch.get_rng_state()
        runs, mean, spread = measure(lambda: torch.rand(size).mean().item(), seeds)
        assert torch.equal(torch.get_rng_state(), before)
        assert runs == len(seeds) and type(mean) is type(spread) is float
        assert [mean, spread] == pytest.approx([truth.mean().item(), truth.std().item()], abs=1e-5)


def test_write_a_search_for_the_first_nan():
    """Write `first_nan`: the name, as in named_modules(), of the module that is the first to return
    a nan, or None. Look in eval mode and without a graph. Leave hooks, modes and statistics as you
    found them."""

    class Swapped(nn.Sequential):
        def forward(self, x):
            assert not torch.is_grad_enabled()
            return self[0](self[1](x))

    def first_nan(model, x):
        # your turn:
        __
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
