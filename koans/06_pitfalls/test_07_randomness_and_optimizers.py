"""Dice and optimizers: an experiment that nobody can repeat, and a layer that nobody moves."""

import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from sensei import __


def test_a_seed_that_comes_late():
    """The seed is set after the objects are built. Two runs: which of the four results repeat?

    Keep the order of the dict.
    """

    def run():
        layer = nn.Linear(3, 1)
        loader = DataLoader(range(50), batch_size=50, shuffle=True)
        dropout = nn.Dropout()
        torch.manual_seed(0)
        numbers = {"weight": layer.weight, "order": next(iter(loader))}
        numbers |= {"mask": dropout(torch.ones(50)), "coin": torch.tensor(random.random())}
        return numbers

    first, second = run(), run()
    assert [k for k in first if torch.equal(first[k], second[k])] == __


def test_a_test_set_of_its_own():
    """A helper makes the data, and seeds first, so that everybody gets the same data.

    For each of the five test rows: predict its index in the training set, or -1 if it is not there.
    """

    def make_data(rows):
        torch.manual_seed(0)
        return torch.rand(rows, 2)

    train = make_data(3).tolist()
    noise = torch.rand(100)
    test = make_data(5).tolist()
    assert [train.index(row) if row in train else -1 for row in test] == __


def test_every_epoch_rolls_the_same():
    """A seed in the loop lets a run go on from any epoch. But now all epochs are alike.

    Repair the marked line. Forty epochs differ, runs 7 and 8 share none of them, and a resumed run
    rolls what an unbroken one rolls.
    """

    def rolls(seed, first, last):
        rolled = []
        for epoch in range(first, last):
            # your turn:
            torch.manual_seed(seed)
            # end
            rolled.append(tuple(torch.randint(1 << 30, (4,)).tolist()))
        return rolled

    seven, eight = rolls(7, 0, 40), rolls(8, 0, 40)
    assert rolls(7, 4, 40) == seven[4:]
    assert rolls(8, 0, 40) == eight
    assert len({*seven, *eight}) == 80


def test_the_more_often_you_look():
    """Who evaluates more often trains another model: evaluate() draws samples. Repair the line.

    The luck of the training must not depend on it, and must never begin again.
    """

    def train(every):
        torch.manual_seed(0)
        luck, scores = [], []
        for step in range(1, 7):
            luck.append(torch.randint(1 << 30, ()).item())
            if step % every == 0:
                # your turn:
                scores.append(evaluate())
                # end
        return luck, scores

    asked = []

    def evaluate():
        asked.append(torch.randint(1 << 30, ()).item())
        return asked[-1]

    runs = {every: train(every) for every in (1, 2, 3, 7)}
    assert len(asked) == 6 + 3 + 2
    assert [luck for luck, _ in runs.values()] == [runs[7][0]] * 4
    assert len(set(runs[7][0])) == 6
    assert [scores for _, scores in runs.values()] == [asked[:6], asked[6:9], asked[9:], []]


@pytest.mark.needs(fork=True)
def test_a_seed_handed_on_to_numpy():
    """Somebody seeds numpy in each worker with torch's seed. In the main process the line works.

    Which exception does the loader raise?
    """

    def seed_numpy(worker_id):
        np.random.seed(torch.initial_seed())

    torch.manual_seed(0)
    seed_numpy(0)
    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    with pytest.raises(Exception) as caught:
        list(DataLoader(range(2), worker_init_fn=seed_numpy, **options))
    assert caught.type is __


@pytest.mark.needs(fork=True)
def test_one_worker_more():
    """The seed stays, the number of workers grows from one to two, and each sample rolls dice.

    Which of the samples 0 to 3 keep their number?
    """

    def roll(sample):
        return torch.randint(1 << 40, ()).item()

    def rolls(workers):
        torch.manual_seed(0)
        options = {"num_workers": workers, "multiprocessing_context": "fork"}
        return list(DataLoader(range(4), batch_size=None, collate_fn=roll, **options))

    one, two = rolls(1), rolls(2)
    assert [i for i in range(4) if one[i] == two[i]] == __


@pytest.mark.needs(fork=True)
def test_dice_that_belong_to_the_sample():
    """Repair the dice (each roll is below 2**40): with any number of workers sample i must roll
    the same. Epochs differ, samples too, and the global stream is left alone."""

    class Dice:
        epoch = 0

        def __len__(self):
            return 4

        def __getitem__(self, i):
            # your turn:
            return torch.randint(1 << 40, ()).item()
            # end

    dice, rolled = Dice(), []
    for epoch in (0, 1):
        dice.epoch = epoch
        options = ({}, *({"num_workers": n, "multiprocessing_context": "fork"} for n in (1, 2)))
        first, *others = (list(DataLoader(dice, batch_size=None, **o)) for o in options)
        assert others == [first, first]
        rolled += first
    assert len(set(rolled)) == 8 and max(rolled) > 1 << 32
    before = torch.get_rng_state()
    assert dice[2] == rolled[6]
    assert torch.equal(torch.get_rng_state(), before)


def test_count_first_and_clip_afterwards():
    """Gradients explode although they are clipped. The gradient is [3, 4] here.

    Predict the count, and the norm that the clipping reports.
    """
    model = nn.Linear(2, 1, bias=False)
    parameters = model.parameters()
    count = sum(p.numel() for p in parameters)
    model(torch.tensor([[3.0, 4.0]])).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        norm = nn.utils.clip_grad_norm_(parameters, max_norm=1.0)
    assert [count, norm.item()] == __


def test_two_layers_that_come_late():
    """The optimizer is built before the first call. One layer is lazy, one is added afterwards.

    Which of the two does a step move?
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.ModuleDict({"lazy": nn.LazyLinear(1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.ones(1, 3)
    model["lazy"](x)
    model["late"] = nn.Linear(3, 1)
    before = {name: layer.weight.tolist() for name, layer in model.items()}
    (model["lazy"](x) + model["late"](x)).sum().backward()
    optimizer.step()
    moved = [name for name in model if model[name].weight.tolist() != before[name]]
    assert moved == __


def test_words_that_nobody_read():
    """A table of three words, all 1. The batch reads word 1 only, and its slope is 1.

    Predict the three rows after a step with weight decay.
    """
    table = nn.Embedding(3, 1)
    nn.init.ones_(table.weight)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.5, weight_decay=0.5)
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert table.weight.flatten().tolist() == __


def test_who_must_not_decay():
    """Only matrices and kernels should decay, no bias, and no scale of a norm. Names are a poor
    guide: repair the choice of those that do not decay."""

    def groups(model):
        # your turn:
        quiet = [n for n, _ in model.named_parameters() if "bias" in n or "norm" in n]
        # end
        named = dict(model.named_parameters())
        rest = [named[name] for name in named if name not in quiet]
        return [{"params": rest}, {"params": [named[n] for n in quiet], "weight_decay": 0.0}]

    def decayed(model):
        before = {name: p.detach().fill_(1).clone() for name, p in model.named_parameters()}
        optimizer = torch.optim.SGD(groups(model), lr=1.0, weight_decay=0.5)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        return [n for n, p in model.named_parameters() if not torch.equal(p, before[n])]

    row = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2), nn.Conv2d(1, 1, 1), nn.GroupNorm(1, 2))
    assert decayed(row) == ["0.weight", "2.weight"]
    parts = nn.ModuleDict({"denormalise": nn.Linear(2, 1), "scale": nn.BatchNorm1d(2)})
    assert decayed(parts) == ["denormalise.weight"]


def test_who_is_forgotten_and_who_is_a_stranger():
    """Write `check`: the names of the trainable parameters that the optimizer does not hold, and
    how many tensors it holds that are not in the model. Return both."""

    def check(model, optimizer):
        # your turn:
        __
        # end

    model = nn.Sequential(*(nn.Linear(1, 1) for _ in range(3)))
    for p in model.parameters():
        nn.init.ones_(p)
    model[:2].requires_grad_(False)
    optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
    assert check(model, optimizer) == ([], 0)
    model[1].requires_grad_(True)
    assert check(model, optimizer) == (["1.weight", "1.bias"], 0)
    optimizer.add_param_group({"params": model[1].parameters()})
    assert check(model, optimizer) == ([], 0)
    model[2] = nn.utils.skip_init(nn.Linear, 2, 1, bias=False)
    assert check(model, optimizer) == (["2.weight"], 2)
    model[0].requires_grad_(True)
    assert check(model, optimizer) == (["0.weight", "0.bias", "2.weight"], 2)
