"""Evaluation: measure without a trace, keep the best, stop and go on."""

import argparse

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from sensei import answer, koan


@koan(
    see="torch.nn.Module.train",
    hint=[
        "Write down the mode at each call. Who switches it, and how often?",
        "The evaluation leaves the model in its own mode. Whose task is it to switch back?",
    ],
    why=(
        "eval() lasts until somebody calls train(). Called once before the loop, it holds for the "
        "first epoch only; after that there is no dropout, and batch norm does not learn, without "
        "any error. Put train() at the top of each epoch, where it cannot be forgotten."
    ),
    wrong={
        "model.train()\n"
        "for _ in range(3):\n"
        "    model(x)\n"
        "    with torch.inference_mode():\n"
        "        model(x)": "inference_mode speaks of the graph. The layers do not hear it.",
        "for _ in range(3):\n"
        "    model(x)\n"
        "    model.eval()\n"
        "    with torch.inference_mode():\n"
        "        model(x)\n"
        "model.train()": "After the last epoch it is too late for the second.",
        "for _ in range(3):\n"
        "    model.train()\n"
        "    model.eval()\n"
        "    model(x)\n"
        "    with torch.inference_mode():\n"
        "        model(x)": "The last call wins. Each forward needs its own mode.",
    },
    right=[
        "for _ in range(3):\n"
        "    model(x)\n"
        "    model.eval()\n"
        "    with torch.inference_mode():\n"
        "        model(x)\n"
        "    model.train()",
    ],
)
def test_the_epochs_after_the_first():
    """In each epoch the model is called twice: to train, and to evaluate. Dropout must work in
    the first call of every epoch. Repair the marked lines."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    x = torch.ones(4, 2)
    calls = []
    model.register_forward_pre_hook(
        lambda model, _: calls.append((model.training, torch.is_grad_enabled()))
    )
    # answer:
    for _ in range(3):
        model.train()
        model(x)
        model.eval()
        with torch.inference_mode():
            model(x)
    # given:
    # model.train()
    # for _ in range(3):
    #     model(x)
    #     model.eval()
    #     with torch.inference_mode():
    #         model(x)
    # end
    assert calls == [(True, True), (False, False)] * 3


@koan(
    see="torch.nn.functional.mse_loss",
    hint=[
        "Compute the root of the mean square in each batch, then their mean.",
        "Now all four errors at once: the mean of the squares first, and only then one root.",
    ],
    why=(
        "A root does not go through a mean, so batches of one size do not help. The same holds "
        "for every metric that is not a plain mean: F1, AUC, correlation, perplexity. Collect "
        "sums, or the predictions, and compute the metric once, at the end."
    ),
    wrong={
        "[4.0, 4.0]": (
            "Some say that batches of one size may always be averaged. That holds for plain means."
        ),
        "[5.0, 5.0]": "In the first of the two, each root is taken in its batch.",
        "[4.0, 25.0]": "The root is still missing at the end.",
    },
)
def test_a_metric_of_two_equal_batches():
    """The root of the mean squared error: averaged over two batches, and of all errors at once.

    Predict both.
    """
    predictions, targets = torch.tensor([[1.0, 1.0], [7.0, 7.0]]), torch.zeros(2, 2)
    roots = [F.mse_loss(p, t).sqrt() for p, t in zip(predictions, targets)]
    averaged = sum(roots) / len(roots)
    at_once = F.mse_loss(predictions, targets).sqrt()
    assert [averaged.item(), at_once.item()] == answer([4.0, 5.0])


@koan(
    see="torch.get_rng_state",
    hint=[
        "Which layer needs luck, and does it still need it in eval mode?",
        "A loader prepares a seed for its workers. Does it ask first whether there are any?",
        "A generator of its own: from which stream do the numbers come then?",
    ],
    why=(
        "Each start of a loader draws one number, a base seed for workers, even if there are none "
        "and nothing is shuffled. So one evaluation more, and all later training draws other "
        "numbers. A loader with its own generator takes everything from there."
    ),
    wrong={
        "['shuffled']": "It is natural to suspect the shuffle alone. Look at the state itself.",
        "['dropout', 'loader', 'shuffled']": "Dropout in eval mode lets everything pass.",
        "['loader', 'shuffled', 'own']": "The last loader was given another source.",
        "[]": ("Some say that an evaluation never changes the training. Not its weights, true."),
    },
)
def test_who_draws_during_an_evaluation():
    """Training draws its luck from one global stream. An evaluation that draws from it changes
    the training that follows. Which of the four do so? Keep the order."""
    parts = {
        "dropout": lambda: nn.Dropout(0.5).eval()(torch.ones(3)),
        "loader": lambda: list(DataLoader(range(4))),
        "shuffled": lambda: list(DataLoader(range(4), shuffle=True)),
        "own": lambda: list(DataLoader(range(4), shuffle=True, generator=torch.Generator())),
    }
    drew = []
    for name, run in parts.items():
        before = torch.get_rng_state()
        run()
        drew += [] if torch.equal(before, torch.get_rng_state()) else [name]
    assert drew == answer(["loader", "shuffled"])


@koan(
    see="torch.inference_mode",
    hint=[
        "Add up what belongs to samples, and divide once, by all of them.",
        "cross_entropy can give a sum. How does a count of correct answers come from the logits?",
        "batches can be walked through only once, and it has no len().",
        "Two switches before the loop, and one after it.",
    ],
    why=(
        "Sums and one division at the end do not depend on how the data was cut. eval() is for "
        "the layers, inference_mode() for the memory. The training goes on afterwards, so its "
        "mode is put back."
    ),
    wrong={
        "model.eval()\n"
        "losses, hits = [], []\n"
        "with torch.inference_mode():\n"
        "    for x, y in batches:\n"
        "        logits = model(x)\n"
        "        losses.append(F.cross_entropy(logits, y))\n"
        "        hits.append((logits.argmax(1) == y).float().mean())\n"
        "model.train()\n"
        "return torch.stack(losses).mean().item(), torch.stack(hits).mean().item()": (
            "Means of means: the short last batch has too much to say."
        ),
        "total, right, count = 0.0, 0, 0\n"
        "with torch.inference_mode():\n"
        "    for x, y in batches:\n"
        "        logits = model(x)\n"
        "        total += F.cross_entropy(logits, y, reduction='sum').item()\n"
        "        right += (logits.argmax(1) == y).sum().item()\n"
        "        count += len(y)\n"
        "return total / count, right / count": "The numbers fit, but in which mode were they made?",
        "model.eval()\n"
        "total, right, count = 0.0, 0, 0\n"
        "for x, y in batches:\n"
        "    logits = model(x)\n"
        "    total += F.cross_entropy(logits, y, reduction='sum').item()\n"
        "    right += (logits.argmax(1) == y).sum().item()\n"
        "    count += len(y)\n"
        "model.train()\n"
        "return total / count, right / count": "eval() does not stop the recording.",
        "model.eval()\n"
        "with torch.inference_mode():\n"
        "    x, y = next(iter(batches))\n"
        "    logits = model(x)\n"
        "model.train()\n"
        "return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()": (
            "One batch is not the whole."
        ),
    },
    right=[
        "model.eval()\n"
        "with torch.no_grad():\n"
        "    pairs = [(model(x), y) for x, y in batches]\n"
        "model.train()\n"
        "logits, y = torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])\n"
        "return float(F.cross_entropy(logits, y)), (logits.argmax(1) == y).float().mean().item()",
    ],
    at={
        "found == pytest.approx": (
            "Two things are asked here: loss and accuracy over all samples, and train mode "
            "afterwards. Print `found`, `truth` and model.training."
        ),
        "assert states": (
            "The numbers are right, and train mode is back. But look at the forwards: their mode, "
            "their recording, their number. Print `states`."
        ),
    },
)
def test_write_an_evaluation():
    """Write `evaluate`: the mean loss and the accuracy over all samples, as floats, for batches of
    any size. In eval mode, without recording; afterwards in train mode again."""
    states = []

    class Bend(nn.Module):
        def forward(self, x):
            states.append((self.training, torch.is_grad_enabled()))
            return torch.stack([x.sin() * 4, x], dim=1)

    def evaluate(model, batches):
        # answer:
        model.eval()
        total, right, count = 0.0, 0, 0
        with torch.inference_mode():
            for x, y in batches:
                logits = model(x)
                total += F.cross_entropy(logits, y, reduction="sum").item()
                right += (logits.argmax(1) == y).sum().item()
                count += len(y)
        model.train()
        return total / count, right / count
        # end

    model = Bend()
    for x in (torch.arange(7.0), torch.arange(4.0, 11.0)):
        y = (x > 5).long()
        logits = torch.stack([x.sin() * 4, x], dim=1)
        truth = [F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()]
        for size in (7, 5, 3):
            found = evaluate(model, zip(x.split(size), y.split(size)))
            assert found == pytest.approx(truth, abs=1e-4) and model.training
    assert states == [(False, False)] * 12


@koan(
    see="torch.nn.Module.load_state_dict",
    hint=[
        "Keep two things: the best loss so far, and a copy of the model's state at that time.",
        "A copy that the training cannot reach. And the state is more than the parameters.",
        "Compare with nan in any direction and you get False. Which comparison is on your side?",
        "Count the epochs since the last record.",
    ],
    why=(
        "Deep copies of the whole state_dict, buffers as well, at each record; back into the "
        "model at the end. Ask `loss < best`: a nan says no, and so it counts as a bad epoch."
    ),
    wrong={
        "best, bad, ran = float('inf'), 0, 0\n"
        "while bad < patience:\n"
        "    train_epoch(model)\n"
        "    ran += 1\n"
        "    loss = next(losses)\n"
        "    bad = 0 if loss < best else bad + 1\n"
        "    if loss < best:\n"
        "        best, kept = loss, model.state_dict()\n"
        "model.load_state_dict(kept)\n"
        "return ran": "The state that is kept here is the live one, and trains along.",
        "import copy\n"
        "best, bad, ran = float('inf'), 0, 0\n"
        "while bad < patience:\n"
        "    train_epoch(model)\n"
        "    ran += 1\n"
        "    loss = next(losses)\n"
        "    bad = 0 if loss < best else bad + 1\n"
        "    if loss < best:\n"
        "        best, kept = loss, copy.deepcopy(dict(model.named_parameters()))\n"
        "model.load_state_dict(kept, strict=False)\n"
        "return ran": "The weights are back, but they get the statistics of a later epoch.",
        "import copy\n"
        "best, bad, ran = float('inf'), 0, 0\n"
        "while bad < patience:\n"
        "    train_epoch(model)\n"
        "    ran += 1\n"
        "    loss = next(losses)\n"
        "    bad = bad + 1 if loss >= best else 0\n"
        "    if not loss >= best:\n"
        "        best, kept = loss, copy.deepcopy(model.state_dict())\n"
        "model.load_state_dict(kept)\n"
        "return ran": "Is a nan a record? Here it becomes one, and nothing is worse than it.",
        "import copy\n"
        "best, bad, ran = float('inf'), 0, 0\n"
        "while bad < patience:\n"
        "    train_epoch(model)\n"
        "    ran += 1\n"
        "    loss = next(losses)\n"
        "    bad += loss >= best or loss != loss\n"
        "    if loss < best:\n"
        "        best, kept = loss, copy.deepcopy(model.state_dict())\n"
        "model.load_state_dict(kept)\n"
        "return ran": "Patience is for bad epochs in a row. A record gives it back.",
        "best, bad, ran = float('inf'), 0, 0\n"
        "while bad < patience:\n"
        "    train_epoch(model)\n"
        "    ran += 1\n"
        "    loss = next(losses)\n"
        "    bad = 0 if loss < best else bad + 1\n"
        "    best = min(best, loss)\n"
        "return ran": "It stops in time, with the weights of the last and not of the best epoch.",
    },
    right=[
        "best, bad, ran = float('inf'), 0, 0\n"
        "while bad < patience:\n"
        "    train_epoch(model)\n"
        "    ran += 1\n"
        "    loss = next(losses)\n"
        "    bad += 1\n"
        "    if loss < best:\n"
        "        best, bad = loss, 0\n"
        "        kept = {name: value.clone() for name, value in model.state_dict().items()}\n"
        "model.load_state_dict(kept)\n"
        "return ran",
    ],
    at={
        "fit(model, iter(losses), patience) == ran": (
            "This is the number of epochs. Print each loss with your count of bad ones: what do a "
            "record and a nan do to it?"
        ),
        "after == [": (
            "It stops at the right epoch. But the model has not ended in the state of its best "
            "one: print `after`, buffers too."
        ),
    },
)
def test_stop_early_and_keep_the_best():
    """Write `fit`: train epoch by epoch, take each epoch's loss by next(losses). Stop after
    `patience` epochs in a row without a new best; a nan is never one. The model ends with the
    state of its best epoch. Return how many epochs ran."""

    def train_epoch(model):
        for value in model.state_dict().values():
            value.add_(1)

    def fit(model, losses, patience):
        # answer:
        import copy

        best, bad, ran = float("inf"), 0, 0
        while bad < patience:
            train_epoch(model)
            loss, bad, ran = next(losses), bad + 1, ran + 1
            if loss < best:
                best, bad, kept = loss, 0, copy.deepcopy(model.state_dict())
        model.load_state_dict(kept)
        return ran
        # end

    for losses, patience, ran, best in (
        ([5.0, 4.0, 6.0, 3.0, 9.0, 8.0, 1.0], 2, 6, 4),
        ([7.0, float("nan"), 4.0, float("nan"), 9.0], 2, 5, 3),
    ):
        model = nn.BatchNorm1d(1)
        assert fit(model, iter(losses), patience) == ran
        after = [value.item() for value in model.state_dict().values()]
        assert after == [1 + best, best, best, 1 + best, best]


@koan(
    see="torch.optim.swa_utils.AveragedModel",
    hint=[
        "What does the average know before its first update? The first one only copies.",
        "Plain: all weights that it was shown count the same.",
        "Moving, with 0.5: half of the old average, half of the new weight.",
    ],
    why=(
        "The plain average is the mean of all that it was shown, (1 + 2 + 6) / 3. The moving one "
        "forgets: 1, then 1.5, then 3.75. The 100 of the beginning is in neither, since the "
        "first update copies. Keep evaluating with the average, and training the model."
    ),
    wrong={
        "[27.25, 15.625]": "So it would be if the start counted as well.",
        "[3.0, 3.0]": "The second was told how to forget.",
        "[3.0, 3.375]": "That begins from zero. The first update has nothing to blend with.",
        "[6.0, 6.0]": "Some say it follows the model. It has weights of its own.",
    },
)
def test_two_averages_of_one_weight():
    """The weight is 100, then 1, 2 and 6, and both averages are updated after each change.

    Predict the plain average and the moving one.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 100.0)
    plain = AveragedModel(model)
    moving = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        plain.update_parameters(model)
        moving.update_parameters(model)
    assert [plain.module.weight.item(), moving.module.weight.item()] == answer([3.0, 3.75])


@koan(
    see="torch.optim.swa_utils.update_bn",
    hint=[
        "Print running_mean of model[0] and of averaged.module[0].",
        "update_parameters() has parameters in its name. What else does a batch norm need?",
        "The averaged model never saw a batch. There is a helper that shows it all of them.",
    ],
    why=(
        "By default only parameters are averaged, and the statistics stay as they were when the "
        "copy was made. update_bn() resets them and runs one pass over the data, in train mode "
        "and without gradients. Averaged weights need statistics of their own anyway."
    ),
    wrong={
        "averaged.train()": "Now it takes the statistics of the batch at hand. Of one row?",
        "averaged.update_parameters(model)\naveraged.eval()": (
            "One more update brings parameters again, and nothing else."
        ),
        "averaged.eval()\nfor batch in batches:\n    averaged(batch)": (
            "In eval mode a batch norm does not learn from what it sees."
        ),
        "averaged.train()\naveraged(torch.cat(batches))\naveraged.eval()": (
            "One pass moves the running mean by a tenth of the way."
        ),
    },
    right=[
        "averaged.eval()\ntorch.optim.swa_utils.update_bn(batches, averaged)",
        "data = torch.cat(batches)\n"
        "averaged.eval()\n"
        "averaged.module[0].running_mean.copy_(data.mean(0))\n"
        "averaged.module[0].running_var.copy_(data.var(0))",
    ],
    at={
        "averaged(mean)": (
            "The mode is right. But for the mean of the data the answer should be close to 0: "
            "print what the averaged model's norm knows of the data."
        ),
        "assert not averaged": (
            "Whatever it went through before, the averaged model should end in eval mode."
        ),
    },
)
def test_an_average_that_never_saw_the_data():
    """The averaged model gets the mean of the data, and should answer with its bias, near 0.

    It does not. Repair the marked line.
    """
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    nn.init.zeros_(model[1].bias)
    batches = (torch.randn(64, 1) + 50).split(16)
    averaged = AveragedModel(model)
    for batch in batches:
        model(batch)
        averaged.update_parameters(model)
    # answer:
    from torch.optim.swa_utils import update_bn

    update_bn(batches, averaged)
    averaged.eval()
    # given:
    # averaged.eval()
    # end
    mean = torch.cat(batches).mean(dim=0, keepdim=True)
    assert not averaged.module[0].training
    assert averaged(mean).abs().item() < 0.001


@koan(
    see="torch.load",
    hint=[
        "torch.load no longer runs whatever a file asks for. Which classes does it trust?",
        "A file like this one was written by a module of Python. The error bears its name.",
    ],
    why=(
        "Since 2.6 weights_only is True by default: tensors, numbers, strings, lists and dicts "
        "come back, other classes are refused, since unpickling them may run any code. Save plain "
        "things: vars(args) in place of args."
    ),
    wrong={
        "'ImportError'": "argparse is right here. The class is known, and not trusted.",
        "'TypeError'": "The content is of a kind that is not wanted; but who says so?",
        "'RuntimeError'": "PyTorch's usual name. But this comes from the reader of the file.",
        "'AttributeError'": "That comes when the class cannot be found. It was not looked for.",
        "'_pickle.UnpicklingError'": "Nearly: __name__ is the name alone, without its module.",
        "'pickle.UnpicklingError'": "Nearly: __name__ is the name alone, without its module.",
    },
)
def test_a_checkpoint_with_its_settings(tmp_path):
    """Saving works, loading does not. Write the name of the exception's type."""
    settings = argparse.Namespace(lr=0.1, epochs=3)
    checkpoint = {"model": nn.Linear(1, 1).state_dict(), "settings": settings}
    torch.save(checkpoint, tmp_path / "last.pt")
    with pytest.raises(Exception) as caught:
        torch.load(tmp_path / "last.pt")
    assert caught.type.__name__ == answer("UnpicklingError")


@koan(
    see="torch.optim.Optimizer.load_state_dict",
    hint=[
        "With these betas Adam divides a gradient by the root of an average of squares.",
        "After two steps the newer square counts two thirds, the older one third.",
        "Where are the squares of the past kept: in the model, or in the optimizer?",
    ],
    why=(
        "The average of the squares is (25 + 2 * 1) / 3 = 9, so the small gradient makes a step of "
        "1 / 3. A new Adam compares it with itself alone, and steps at full length: a jolt. The "
        "weights alone do not continue a training. Save the optimizer's state as well."
    ),
    wrong={
        "[0.333, 0.333]": (
            "Some say a model's weights are all there is to save. Who remembers the large gradient?"
        ),
        "[1.0, 1.0]": "One of the two optimizers remembers that the gradient was larger before.",
        "[1.0, 0.333]": "The other way round. Which of them is the new one?",
        "[0.2, 1.0]": "The small gradient against the large one: but the average holds both.",
        "[0.333, 0.2]": "What can a new optimizer know of the large gradient?",
    },
)
def test_a_restart_without_the_optimizer():
    """Adam steps twice; the gradient is 5, then 1. Then the same, but before the second step the
    optimizer is made anew. How long is the second step, each time? Give three decimals."""
    lengths = []
    for restart in (False, True):
        weight = nn.Parameter(torch.zeros(()))
        for gradient in (5.0, 1.0):
            if gradient == 5.0 or restart:
                optimizer = torch.optim.Adam([weight], lr=1.0, betas=(0.0, 0.5))
            weight.grad = torch.tensor(gradient)
            before = weight.item()
            optimizer.step()
        lengths.append(round(before - weight.item(), 3))
    assert lengths == answer([0.333, 1.0])


@koan(
    see="torch.use_deterministic_algorithms",
    hint=[
        "Two values for one place: which one stays? A seed does not decide that.",
        "It is not your call that is wrong. PyTorch refuses on your own request.",
    ],
    why=(
        "A seed fixes the random numbers, not the order in which parallel threads write. With "
        "this switch PyTorch takes reproducible algorithms where it has them, and raises where it "
        "has none. It is a search light for such operations: leave it on in a test."
    ),
    wrong={
        "NotImplementedError": "Tempting: something is not there. PyTorch says it more plainly.",
        "UserWarning": "Only if you ask for warn_only=True. Here it stops.",
        "ValueError": "Both indices are in range, and a place may be named twice.",
        "IndexError": "Both indices are in range.",
    },
)
def test_two_values_for_one_place():
    """The seed is fixed, and PyTorch is asked for deterministic algorithms only. Which exception
    does put_ raise?"""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(Exception) as caught:
            torch.zeros(3).put_(torch.tensor([1, 1]), torch.tensor([5.0, 6.0]))
    finally:
        torch.use_deterministic_algorithms(False)
    assert caught.type is answer(RuntimeError)


@koan(
    see="torch.set_rng_state",
    hint=[
        "What changes from step to step? Four things do, and one of them belongs to nobody here.",
        "Three of them have a state_dict. The fourth is read and set by functions of torch.",
        "Set the random state last: nothing may draw after it.",
    ],
    why=(
        "Weights, velocity, the counter of the schedule, and the place in the stream of random "
        "numbers. A seed cannot stand for the last: it is where the stream began, not where you "
        "are. (With a loader, NumPy, random or CUDA, save their states as well.)"
    ),
    wrong={
        (
            "return {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), "
            "'scheduler': scheduler.state_dict()}",
            "model.load_state_dict(checkpoint['model'])\n"
            "optimizer.load_state_dict(checkpoint['optimizer'])\n"
            "scheduler.load_state_dict(checkpoint['scheduler'])",
        ): "Dropout throws other dice than before.",
        (
            "return {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), "
            "'scheduler': scheduler.state_dict()}",
            "model.load_state_dict(checkpoint['model'])\n"
            "optimizer.load_state_dict(checkpoint['optimizer'])\n"
            "scheduler.load_state_dict(checkpoint['scheduler'])\n"
            "torch.manual_seed(0)",
        ): "A seed is the start of a stream. Since the start, three steps have drawn from it.",
        (
            "return {'model': model.state_dict(), 'scheduler': scheduler.state_dict(), "
            "'rng': torch.get_rng_state()}",
            "model.load_state_dict(checkpoint['model'])\n"
            "scheduler.load_state_dict(checkpoint['scheduler'])\n"
            "torch.set_rng_state(checkpoint['rng'])",
        ): "The velocity is gone.",
        (
            "return {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), "
            "'rng': torch.get_rng_state()}",
            "model.load_state_dict(checkpoint['model'])\n"
            "optimizer.load_state_dict(checkpoint['optimizer'])\n"
            "torch.set_rng_state(checkpoint['rng'])",
        ): "The rate is right at first. The schedule counts from the beginning.",
    },
    right=[
        (
            "return [model.state_dict(), optimizer.state_dict(), scheduler.state_dict(), "
            "torch.random.get_rng_state()]",
            "for part, saved in zip((model, optimizer, scheduler), checkpoint):\n"
            "    part.load_state_dict(saved)\n"
            "torch.random.set_rng_state(checkpoint[-1])",
        ),
    ],
    at={
        "torch.save(pack": (
            "What you packed cannot be written to a file. Print it: what stands in it beside "
            "plain things?"
        ),
        "three_steps(*second)": (
            "The restart ran, but its steps are not those that would have come. What changes from "
            "step to step, and did all of it come back?"
        ),
        'torch.load(tmp_path / "half.pt")': (
            "The file was written, but torch.load takes only plain things: tensors, numbers, "
            "text, lists, dicts. What did you pack?"
        ),
    },
)
def test_stop_and_go_on_as_if_nothing_had_happened(tmp_path):
    """Write what goes into the checkpoint, and what is done with it: the steps after the restart
    must be those that would have come without it, number by number."""

    def begin():
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, StepLR(optimizer, step_size=2, gamma=0.5)

    def pack(model, optimizer, scheduler):
        # answer:
        states = [part.state_dict() for part in (model, optimizer, scheduler)]
        return [*states, torch.get_rng_state()]
        # end

    def unpack(checkpoint, model, optimizer, scheduler):
        # answer:
        *states, stream = checkpoint
        for part, state in zip((model, optimizer, scheduler), states):
            part.load_state_dict(state)
        torch.set_rng_state(stream)
        # end

    def three_steps(model, optimizer, scheduler):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
            scheduler.step()
        return model[1].weight.tolist()

    first, second = begin(), begin()
    three_steps(*first)
    torch.save(pack(*first), tmp_path / "half.pt")
    straight_on = three_steps(*first)
    unpack(torch.load(tmp_path / "half.pt"), *second)
    assert three_steps(*second) == straight_on
