"""Dice and optimizers: an experiment that nobody can repeat, and a layer that nobody moves."""

import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from sensei import answer, koan


@koan(
    see="torch.manual_seed",
    hint=[
        "What counts is when the dice are thrown, not when the object is built.",
        "A Linear has its weights as soon as it exists. Does a loader have its order that soon?",
        "Three libraries, three streams. Which of them did the seed reach?",
    ],
    why=(
        "The weights were drawn before the seed, so each run has others. The loader draws its "
        "order when you begin to iterate, dropout its mask when it is called: both come after. "
        "Python's random never heard of torch's seed. So: seed first, and each library."
    ),
    wrong={
        "['weight', 'order', 'mask', 'coin']": (
            "Natural to hope: one seed for the whole run. But some dice had already been thrown."
        ),
        "['order', 'mask', 'coin']": "The coin comes from Python's own random. Who seeds it?",
        "['weight', 'order', 'mask']": (
            "The coin is rightly left out. But the layer was built before the seed was set."
        ),
        "['mask']": "The loader was built early. When does it draw its order?",
        "['mask', 'coin']": "Two of the three late draws are torch's own. Which are they?",
        "[]": "A late seed is not without effect: from there on, torch's stream is fixed.",
    },
)
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
    assert [k for k in first if torch.equal(first[k], second[k])] == answer(["order", "mask"])


@koan(
    see="torch.manual_seed",
    hint=[
        "The helper sets its seed each time it is called. Where does the stream stand after that?",
        "A long list and a short one are read from the same place. What do both begin with?",
        "The noise is drawn between the two calls. Does the second call go on from there?",
    ],
    why=(
        "The same seed begins the same stream, whatever was drawn in between and whatever the "
        "numbers are for. So the larger set begins with the whole of the smaller one, and the test "
        "measures memory. Seed once, or give each set a generator with a seed of its own."
    ),
    wrong={
        "[-1, -1, -1, -1, -1]": (
            "Some say that two calls make two sets of data, and that the noise moves the stream. "
            "Look at where each call begins to draw."
        ),
        "[0, 1, 2, 3, 4]": "There are five rows in the test set. And in the training set?",
        "[0, 0, 0, 0, 0]": "A seed fixes the whole stream. It does not repeat its first numbers.",
        "[-1, -1, -1, 0, 1]": (
            "That would be so if the test set ended like the other. Where do both begin?"
        ),
    },
)
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
    assert [train.index(row) if row in train else -1 for row in test] == answer([0, 1, 2, -1, -1])


@koan(
    see="torch.manual_seed",
    hint=[
        "To resume anywhere, the seed of an epoch must be known from its number alone.",
        "Write down the seeds of run 7 and of run 8, epoch by epoch. Does one appear twice?",
        "Two numbers must become one, and no other pair may become the same one.",
    ],
    why=(
        "The seed must say which run AND which epoch it is. With seed + epoch, run 8 is run 7, one "
        "epoch later: runs that should be independent share nearly all their dice. Give each run "
        "room enough, or let numpy.random.SeedSequence mix both numbers."
    ),
    wrong={
        "torch.manual_seed(seed + epoch)": (
            "The popular cure: the epochs of one run differ. But look at its neighbour, run 8."
        ),
        "torch.manual_seed(10 * seed + epoch)": (
            "Room for ten epochs. Then run 7 goes on where run 8 began."
        ),
        "torch.manual_seed(seed * 10 + epoch)": (
            "Room for ten epochs. Then run 7 goes on where run 8 began."
        ),
        "torch.manual_seed(epoch)": "Now all runs are the same run, whatever their seed.",
        "torch.seed()": "New dice each time, and nobody can repeat them.",
        "if epoch == first:\n    torch.manual_seed(seed)": (
            "Sound for a run that is never broken. A resumed one begins with the dice of epoch 0."
        ),
        "torch.manual_seed(seed * (epoch + 1))": "7 times 8 is 8 times 7.",
        "torch.manual_seed(seed << 32 | epoch)": (
            "A fine idea, and a trap: on the CPU only the lowest 32 bits of a seed count. Here "
            "they hold the epoch alone."
        ),
    },
    right=[
        "torch.manual_seed(seed * 10**6 + epoch)",
        "torch.manual_seed(seed * 100 + epoch)",
        "torch.manual_seed(epoch * 10**6 + seed)",
        "torch.manual_seed(hash((seed, epoch)))",
        "torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))",
        "torch.manual_seed(seed)\ntorch.randint(1 << 30, (4 * epoch,))",
    ],
    at={
        "len({*seven, *eight})": (
            "Resuming works. But among the eighty epochs of both runs some roll the same: which "
            "seeds and epochs come to one number?"
        ),
    },
)
def test_every_epoch_rolls_the_same():
    """A seed in the loop lets a run go on from any epoch. But now all epochs are alike.

    Repair the marked line. Forty epochs differ, runs 7 and 8 share none of them, and a resumed run
    rolls what an unbroken one rolls.
    """

    def rolls(seed, first, last):
        rolled = []
        for epoch in range(first, last):
            # answer:
            torch.manual_seed(1000 * seed + epoch)
            # given:
            # torch.manual_seed(seed)
            # end
            rolled.append(tuple(torch.randint(1 << 30, (4,)).tolist()))
        return rolled

    seven, eight = rolls(7, 0, 40), rolls(8, 0, 40)
    assert rolls(7, 4, 40) == seven[4:]
    assert rolls(8, 0, 40) == eight
    assert len({*seven, *eight}) == 80


@koan(
    see="torch.random.fork_rng",
    hint=[
        "Training and evaluation read from one stream. What one takes, the other misses.",
        "A new seed after each evaluation makes the runs equal. Which dice does training get then?",
        "The place in the stream can be kept, and put back afterwards.",
    ],
    why=(
        "Whoever draws in between moves the stream for all who come after. fork_rng puts the state "
        "back when its block ends, whatever happened inside. A new seed also makes runs agree, but "
        "then training rolls the same few dice again and again."
    ),
    wrong={
        "torch.manual_seed(0)\nscores.append(evaluate())": (
            "A popular cure. The training now begins its stream again after every evaluation."
        ),
        "scores.append(evaluate())\ntorch.manual_seed(0)": (
            "After every look the training begins its stream again, so it rolls what it has rolled."
        ),
        "scores.append(evaluate())\ntorch.manual_seed(step)": (
            "Each evaluation still leaves a mark: a stream that begins anew. One evaluation less, "
            "and the luck is another."
        ),
        "with torch.no_grad():\n    scores.append(evaluate())": (
            "no_grad keeps autograd away. The dice do not ask for gradients."
        ),
        "with torch.random.fork_rng(devices=[]):\n    pass\nscores.append(evaluate())": (
            "The state is put back before the evaluation begins."
        ),
        "scores.append(0.5)": "No dice, but no evaluation either.",
    },
    right=[
        "state = torch.get_rng_state()\nscores.append(evaluate())\ntorch.set_rng_state(state)",
        "with torch.random.fork_rng():\n    torch.manual_seed(1)\n    scores.append(evaluate())",
    ],
    at={
        "len(asked) ==": (
            "Each look should call evaluate() exactly once. Here the number of calls is another "
            "one."
        ),
        "[luck for luck, _ in": (
            "evaluate() is called as often as it should. But the training rolls other dice when "
            "it is looked at more often."
        ),
        "[scores for _, scores in": (
            "The luck of the training is right. But the scores should be all that evaluate() "
            "returned, in order."
        ),
    },
)
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
                # answer:
                with torch.random.fork_rng(devices=[]):
                    scores.append(evaluate())
                # given:
                # scores.append(evaluate())
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
@koan(
    see="torch.initial_seed",
    hint=[
        "How many bits does the seed of a worker have? And how many does numpy's old seed take?",
        "An error in a worker travels to the main process and keeps its type.",
    ],
    why=(
        "A worker's seed has 64 bits, numpy.random.seed takes 32. With torch.manual_seed(0) in the "
        "main process the line works, so it passes a small trial and fails in the first worker. "
        "Cut it: torch.initial_seed() % 2**32. (Today PyTorch seeds numpy in a worker by itself.)"
    ),
    wrong={
        "RuntimeError": "The loader could wrap it so. It hands over the type that was raised.",
        "OverflowError": (
            "A good guess: the number is too large. numpy compares it first, and refuses politely."
        ),
        "TypeError": "It is an int, as numpy wants it. Is any int welcome?",
    },
)
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
    assert caught.type is answer(ValueError)


@pytest.mark.needs(fork=True)
@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "Worker k has a stream of its own, from the loader's base seed and k.",
        "With two workers: which samples does worker 0 get, and which does worker 1 get?",
        "Sample 2 is the third roll of worker 0's stream at first. And with two workers?",
    ],
    why=(
        "Worker 0 has the same stream both times, but rolls for samples 0 and 2 now: only its "
        "first roll is for the same sample. So a seed fixes augmentation for ONE number of "
        "workers. Write that number down beside the seed, or let the dice depend on the sample."
    ),
    wrong={
        "[0, 1, 2, 3]": (
            "Some say that torch.manual_seed fixes the augmentation for any number of workers. It "
            "fixes the streams. Who reads from which stream, and when?"
        ),
        "[0, 2]": "Worker 0 makes both. But sample 2 was its third roll. Which roll is it now?",
        "[]": "One stream is in both loaders. Is its first roll for another sample?",
        "[0, 1]": "Sample 1 moves to another worker, so to another stream.",
    },
)
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
    assert [i for i in range(4) if one[i] == two[i]] == answer([0])


@pytest.mark.needs(fork=True)
@koan(
    see="torch.Generator.manual_seed",
    hint=[
        "What does sample i know of itself in every process? Its number, and its epoch.",
        "A seed that is set in the main process moves everybody's dice there.",
        "Sample 1 of epoch 0 and sample 0 of epoch 1 are two rolls.",
    ],
    why=(
        "A generator of its own, seeded by epoch and sample, rolls the same in any process and "
        "leaves the global stream alone. torch.manual_seed in __getitem__ seems to do it too, but "
        "without workers it turns back the dice of the whole training."
    ),
    wrong={
        "torch.manual_seed(100 * self.epoch + i)\nreturn torch.randint(1 << 40, ()).item()": (
            "The numbers are right. But without workers this resets the global stream, so dropout "
            "rolls the same after every sample."
        ),
        "torch.manual_seed(0)\nreturn torch.randint(1 << 40, ()).item()": (
            "Some say a constant seed is harmless here. All samples get one and the same number."
        ),
        "torch.manual_seed(self.epoch * 4 + i)\nreturn torch.randint(1 << 40, ()).item()": (
            "No two samples share a seed here. But it is everybody's stream that is seeded."
        ),
        "torch.manual_seed(self.epoch + i)\nreturn torch.randint(1 << 40, ()).item()": (
            "Sample 1 of epoch 0 meets sample 0 of epoch 1. And it is everybody's stream."
        ),
        "torch.manual_seed(i)\nreturn torch.randint(1 << 40, ()).item()": (
            "Each epoch repeats the one before. And it is everybody's stream that is seeded."
        ),
        "generator = torch.Generator().manual_seed(i)\n"
        "return torch.randint(1 << 40, (), generator=generator).item()": (
            "It does not depend on workers. But each epoch repeats the one before."
        ),
        "generator = torch.Generator().manual_seed(self.epoch + i)\n"
        "return torch.randint(1 << 40, (), generator=generator).item()": (
            "Sample 1 of epoch 0 meets sample 0 of epoch 1."
        ),
        "generator = torch.Generator()\n"
        "return torch.randint(1 << 40, (), generator=generator).item()": (
            "A new generator begins with the same seed each time."
        ),
        "return 100 * self.epoch + i": "These are no dice at all.",
    },
    right=[
        "generator = torch.Generator()\n"
        "generator.manual_seed(10**6 * self.epoch + i)\n"
        "return int(torch.randint(1 << 40, (1,), generator=generator))",
        "generator = torch.Generator().manual_seed(self.epoch * 4 + i)\n"
        "return torch.randint(1 << 40, (), generator=generator).item()",
        "return int(np.random.default_rng([self.epoch, i]).integers(1 << 40))",
        "return random.Random(f'{self.epoch} {i}').randrange(1 << 40)",
        "with torch.random.fork_rng(devices=[]):\n"
        "    torch.manual_seed(100 * self.epoch + i)\n"
        "    return torch.randint(1 << 40, ()).item()",
    ],
    at={
        "max(rolled)": (
            "The workers agree. Now the eight rolls of two epochs: all must differ, and dice up "
            "to 2**40 should also roll large numbers."
        ),
        "dice[2] == rolled[6]": (
            "All eight rolls are fine. But asked again, outside of a loader, a sample does not "
            "roll what it rolled before."
        ),
        "torch.equal(torch.get_rng_state(), before)": (
            "All rolls are right. But a roll has moved the global stream, and with it the dice of "
            "the training."
        ),
    },
)
def test_dice_that_belong_to_the_sample():
    """Repair the dice (each roll is below 2**40): with any number of workers sample i must roll
    the same. Epochs differ, samples too, and the global stream is left alone."""

    class Dice:
        epoch = 0

        def __len__(self):
            return 4

        def __getitem__(self, i):
            # answer:
            generator = torch.Generator().manual_seed(100 * self.epoch + i)
            return torch.randint(1 << 40, (), generator=generator).item()
            # given:
            # return torch.randint(1 << 40, ()).item()
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


@koan(
    see="torch.nn.utils.clip_grad_norm_",
    hint=[
        "What is the type of `parameters`? Print it.",
        "The count has walked through it. What is left for the next one who walks?",
        "A sum over no gradients at all: what is its norm?",
    ],
    why=(
        "parameters() is a generator: it can be walked through once. The count used it up, so "
        "clipping saw no gradient, reported 0 and changed nothing; only newer versions warn. "
        "Write list(model.parameters()), or ask the model again each time."
    ),
    wrong={
        "[2, 5.0]": "That is the true norm. But was anything left in the hands of the clipping?",
        "[2, 1.0]": "That would be the norm afterwards, and clipping reports the one before.",
        "[0, 5.0]": "The count walked first, so it met everybody.",
        "[1, 0.0]": "One parameter, yes, but numel() counts the numbers in it.",
    },
)
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
    assert [count, norm.item()] == answer([2, 0.0])


@koan(
    see="torch.nn.LazyLinear",
    hint=[
        "The optimizer was handed objects, before the first call. Which objects existed then?",
        "A lazy layer's weight has no numbers yet. Is it another object once it has them?",
    ],
    why=(
        "A lazy weight is an object from the start. The first call fills it in place, so an "
        "optimizer built too early holds the right one. The layer that came later is a stranger: "
        "it gets gradients and stays where it is. (Counting or initialising a lazy layer must "
        "wait.)"
    ),
    wrong={
        "['lazy', 'late']": (
            "Both get gradients. But step() looks at its own list, not at the model."
        ),
        "[]": (
            "Some say an optimizer must wait for the first call of a lazy layer. Is its weight "
            "replaced by then, or filled?"
        ),
        "['late']": "The other way round: which of the two weights existed first?",
    },
)
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
    assert moved == answer(["lazy"])


@koan(
    see="torch.optim.SGD",
    hint=[
        "The table is one parameter. Does its gradient have rows for words that were not read?",
        "Decay adds weight_decay * weight to the gradient: in which rows?",
        "For the word that was read, both come together: 1 + 0.5.",
    ],
    why=(
        "To the optimizer the table is one parameter, and its gradient is zero, not missing, where "
        "no word was read. So decay shrinks every row at every step: rare words fade away. Give "
        "the table a group without decay. Momentum, and Adam's, also reach rows with a zero slope."
    ),
    wrong={
        "[1.0, 0.25, 1.0]": (
            "Some say that only the rows of the batch are touched. What does decay ask for?"
        ),
        "[1.0, 0.5, 1.0]": "That is the slope alone. What does weight_decay add?",
        "[0.75, 0.5, 0.75]": "The row that was read decays, too.",
        "[0.5, 0.0, 0.5]": "The decay is multiplied by the learning rate.",
    },
)
def test_words_that_nobody_read():
    """A table of three words, all 1. The batch reads word 1 only, and its slope is 1.

    Predict the three rows after a step with weight decay.
    """
    table = nn.Embedding(3, 1)
    nn.init.ones_(table.weight)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.5, weight_decay=0.5)
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert table.weight.flatten().tolist() == answer([0.75, 0.25, 0.75])


@koan(
    see="torch.nn.Module.named_parameters",
    hint=[
        "Print the names of the first model. Which of them says that it belongs to a norm?",
        "A name is what somebody chose. What can you see in the parameter itself?",
        "Shapes: a layer's matrix, a convolution's kernel; and on the other side scales and "
        "biases.",
    ],
    why=(
        "In a Sequential the norm's scale is called '1.weight', and a layer called 'denormalise' "
        "is no norm: names tell what the author had in mind. The number of dimensions tells them "
        "apart for usual layers. Each parameter must be in exactly one group."
    ),
    wrong={
        "quiet = [n for n, _ in model.named_parameters() if n.endswith('bias')]": (
            "The scale of a norm is a 'weight', too, and it would be pulled towards zero."
        ),
        "quiet = [n for n, _ in model.named_parameters() if 'bias' in n or 'norm.' in n]": (
            "Other words to look for, the same trust in names."
        ),
        "quiet = [f'{name}.{n}' for name, m in model.named_modules() "
        "if isinstance(m, nn.LayerNorm) for n, _ in m.named_parameters()]": (
            "There are more norms than this one, and biases outside of norms."
        ),
        "quiet = [n for n, _ in model.named_parameters()]": "Now nothing decays at all.",
        "quiet = []": "Now everything decays.",
    },
    right=[
        "quiet = {name for name, p in model.named_parameters() if len(p.shape) == 1}",
        "layers = (nn.Linear, nn.Conv2d)\n"
        "quiet = [n for n, p in model.named_parameters() if n.endswith('bias') or not "
        "isinstance(model.get_submodule(n.rpartition('.')[0]), layers)]",
    ],
    at={
        "decayed(row)": (
            "This line lists who did decay. Print `quiet`: who is on the wrong side, and by what "
            "do you choose?"
        ),
        '"weight_decay": 0.0': (
            "Each entry of `quiet` is looked up here, as a name from named_parameters(). Print "
            "`quiet`."
        ),
        "decayed(parts)": (
            "The first model is right. In this one the names mislead. Does your choice still "
            "trust a name, or know one kind of norm only?"
        ),
    },
)
def test_who_must_not_decay():
    """Only matrices and kernels should decay, no bias, and no scale of a norm. Names are a poor
    guide: repair the choice of those that do not decay."""

    def groups(model):
        # answer:
        quiet = [name for name, p in model.named_parameters() if p.ndim < 2]
        # given:
        # quiet = [n for n, _ in model.named_parameters() if "bias" in n or "norm" in n]
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


@koan(
    see="torch.optim.Optimizer",
    hint=[
        "A frozen parameter may stay outside: nobody wants to move it. And an optimizer may have "
        "several groups: print optimizer.param_groups.",
        "A list answers `in` with ==, and == of two tensors compares numbers. What would be safe "
        "to compare?",
        "Two questions: who is in the model and not held? And who is held and not in the model?",
    ],
    why=(
        "Compare identities: id(p), or `is`. Two lines after building an optimizer, or after any "
        "surgery on a model, this check finds the replaced head, the layer that was thawed too "
        "late, and the old one that is still kept in memory."
    ),
    wrong={
        "held = [p for g in optimizer.param_groups for p in g['params']]\n"
        "forgotten = [n for n, p in model.named_parameters() if p.requires_grad and p not in "
        "held]\n"
        "strangers = [p for p in held if p not in list(model.parameters())]\n"
        "return forgotten, len(strangers)": (
            "`in` compares numbers: two weights that are equal pass for one, and other shapes "
            "raise an error."
        ),
        "held = {id(p) for p in optimizer.param_groups[0]['params']}\n"
        "mine = {id(p) for p in model.parameters()}\n"
        "forgotten = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in "
        "held]\n"
        "return forgotten, len(held - mine)": "An optimizer may have more groups than one.",
        "held = {id(p) for g in optimizer.param_groups for p in g['params']}\n"
        "mine = {id(p) for p in model.parameters()}\n"
        "forgotten = [n for n, p in model.named_parameters() if id(p) not in held]\n"
        "return forgotten, len(held - mine)": "A frozen parameter was left out on purpose.",
        "held = {id(p) for g in optimizer.param_groups for p in g['params']}\n"
        "forgotten = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in "
        "held]\n"
        "return forgotten, len(held) - len(list(model.parameters()))": (
            "Counts can agree while the objects are others."
        ),
        "forgotten = [n for n, p in model.named_parameters() if p.grad is None]\n"
        "return forgotten, 0": "A forgotten layer gets its gradients like any other.",
    },
    right=[
        "held = [p for g in optimizer.param_groups for p in g['params']]\n"
        "mine = list(model.parameters())\n"
        "forgotten = [n for n, p in model.named_parameters() if p.requires_grad and not "
        "any(p is q for q in held)]\n"
        "return forgotten, sum(not any(p is q for q in mine) for p in held)",
        "held = {p for g in optimizer.param_groups for p in g['params']}\n"
        "forgotten = [n for n, p in model.named_parameters() if p.requires_grad and p not in "
        "held]\n"
        "return forgotten, len(held - set(model.parameters()))",
    ],
    at={
        '(["1.weight", "1.bias"], 0)': (
            "Layer 1 is trainable again, and the optimizer has never seen it. Both its names are "
            "forgotten ones, and there is no stranger."
        ),
        '(["2.weight"], 2)': (
            "Layer 2 was replaced. The optimizer does not hold its new weight, and still holds "
            "two old tensors. Does `check` see both, and how does it tell tensors apart?"
        ),
        '"0.bias", "2.weight"': (
            "Now layer 0 is trainable, too, and the optimizer does not hold it. The names come in "
            "the order of the model."
        ),
    },
)
def test_who_is_forgotten_and_who_is_a_stranger():
    """Write `check`: the names of the trainable parameters that the optimizer does not hold, and
    how many tensors it holds that are not in the model. Return both."""

    def check(model, optimizer):
        # answer:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        mine = {id(p) for p in model.parameters()}
        named = model.named_parameters()
        forgotten = [name for name, p in named if p.requires_grad and id(p) not in held]
        return forgotten, len(held - mine)
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
