"""Evaluation: measure without a trace, keep the best, stop and go on."""

import argparse

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from sensei import __


def test_the_epochs_after_the_first():
    """In each epoch the model is called twice: to train, and to evaluate. Dropout must work in
    the first call of every epoch. Repair the marked lines."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    x = torch.ones(4, 2)
    calls = []
    model.register_forward_pre_hook(
        lambda model, _: calls.append((model.training, torch.is_grad_enabled()))
    )
    # your turn:
    model.train()
    for _ in range(3):
        model(x)
        model.eval()
        with torch.inference_mode():
            model(x)
    # end
    assert calls == [(True, True), (False, False)] * 3


def test_a_metric_of_two_equal_batches():
    """The root of the mean squared error: averaged over two batches, and of all errors at once.

    Predict both.
    """
    predictions, targets = torch.tensor([[1.0, 1.0], [7.0, 7.0]]), torch.zeros(2, 2)
    roots = [F.mse_loss(p, t).sqrt() for p, t in zip(predictions, targets)]
    averaged = sum(roots) / len(roots)
    at_once = F.mse_loss(predictions, targets).sqrt()
    assert [averaged.item(), at_once.item()] == __


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
    assert drew == __


def test_write_an_evaluation():
    """Write `evaluate`: the mean loss and the accuracy over all samples, as floats, for batches of
    any size. In eval mode, without recording; afterwards in train mode again."""
    states = []

    class Bend(nn.Module):
        def forward(self, x):
            states.append((self.training, torch.is_grad_enabled()))
            return torch.stack([x.sin() * 4, x], dim=1)

    def evaluate(model, batches):
        # your turn:
        __
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


def test_stop_early_and_keep_the_best():
    """Write `fit`: train epoch by epoch, take each epoch's loss by next(losses). Stop after
    `patience` epochs in a row without a new best; a nan is never one. The model ends with the
    state of its best epoch. Return how many epochs ran."""

    def train_epoch(model):
        for value in model.state_dict().values():
            value.add_(1)

    def fit(model, losses, patience):
        # your turn:
        __
        # end

    for losses, patience, ran, best in (
        ([5.0, 4.0, 6.0, 3.0, 9.0, 8.0, 1.0], 2, 6, 4),
        ([7.0, float("nan"), 4.0, float("nan"), 9.0], 2, 5, 3),
    ):
        model = nn.BatchNorm1d(1)
        assert fit(model, iter(losses), patience) == ran
        after = [value.item() for value in model.state_dict().values()]
        assert after == [1 + best, best, best, 1 + best, best]


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
    assert [plain.module.weight.item(), moving.module.weight.item()] == __


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
    # your turn:
    averaged.eval()
    # end
    mean = torch.cat(batches).mean(dim=0, keepdim=True)
    assert not averaged.module[0].training
    assert averaged(mean).abs().item() < 0.001


def test_a_checkpoint_with_its_settings(tmp_path):
    """Saving works, loading does not. Write the name of the exception's type."""
    settings = argparse.Namespace(lr=0.1, epochs=3)
    checkpoint = {"model": nn.Linear(1, 1).state_dict(), "settings": settings}
    torch.save(checkpoint, tmp_path / "last.pt")
    with pytest.raises(Exception) as caught:
        torch.load(tmp_path / "last.pt")
    assert caught.type.__name__ == __


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
    assert lengths == __


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
    assert caught.type is __


def test_stop_and_go_on_as_if_nothing_had_happened(tmp_path):
    """Write what goes into the checkpoint, and what is done with it: the steps after the restart
    must be those that would have come without it, number by number."""

    def begin():
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, StepLR(optimizer, step_size=2, gamma=0.5)

    def pack(model, optimizer, scheduler):
        # your turn:
        __
        # end

    def unpack(checkpoint, model, optimizer, scheduler):
        # your turn:
        __
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
