"""Datasets and samplers: what there is to read, and who decides in which order."""

import random

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from sensei import answer, koan


@pytest.mark.tour(20)
@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "Ten does not divide by four. Who decides what becomes of the rest?",
        "Read the option's name aloud. Is it on or off if you say nothing?",
    ],
    why=(
        "The last batch is short unless you drop it. A short batch surprises code that counts on "
        "the size, and a batch norm. A dropped one means that some samples are not seen in this "
        "epoch; with shuffle they are others each time."
    ),
    wrong={
        "[[4, 4], [4, 4]]": "That would lose samples although nobody asked for it.",
        "[[4, 4, 4], [4, 4]]": "Nobody makes up two samples to fill the last batch.",
        "[[4, 4, 2], [4, 4, 2]]": "One of the loaders was told not to keep what is incomplete.",
        "[[4, 3, 3], [4, 4]]": "Nobody shares them out evenly. A batch is filled, then the next.",
    },
)
def test_the_last_batch():
    """A map dataset has a length and takes an index, so a plain range is one already.

    Read ten samples, four to a batch. How many samples are in each batch of each loader?
    """
    loader = DataLoader(range(10), batch_size=4)
    strict = DataLoader(range(10), batch_size=4, drop_last=True)
    sizes = [[len(batch) for batch in each] for each in (loader, strict)]
    assert sizes == answer([[4, 4, 2], [4, 4]])


@koan(
    see="torch.utils.data.IterableDataset",
    hint=[
        "To shuffle is to choose the order of the indices. Who has indices here?",
        "The argument is of the right type. It just cannot be had together with a stream.",
    ],
    why=(
        "A stream gives its samples in the order in which they come, so shuffle and sampler are "
        "refused when you build the loader. A stream must shuffle itself: with a buffer, say, or "
        "by the order of its files."
    ),
    wrong={
        "TypeError": (
            "So answers len(loader), when a stream knows no length. Here an option is refused."
        ),
        "NotImplementedError": (
            "So answers a dataset that you ask for an index and that has none. The loader does "
            "not come so far."
        ),
        "IndexError": "Nothing was read yet, so nothing can lie outside of anything.",
    },
)
def test_shuffle_a_stream():
    """An iterable dataset is a stream: you can only ask it for the next sample.

    Ask for a shuffled stream. Which exception does it raise?
    """

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(10))

    with pytest.raises(Exception) as caught:
        DataLoader(Stream(), shuffle=True)
    assert caught.type is answer(ValueError)


@koan(
    see="torch.utils.data.WeightedRandomSampler",
    hint=[
        "A sampler only writes a list of indices. It may write the same index again.",
        "How many indices does this one write, and which of them can they be?",
    ],
    why=(
        "The sampler decides how long an epoch is, not the dataset. It draws five indices, with "
        "replacement, and only one index can be drawn. The weights belong to samples, not to "
        "classes, and need not add up to 1."
    ),
    wrong={
        "[[30]]": "It does not filter. It draws, and puts back what it drew.",
        "[[30, 30], [30]]": "Three is the length of the dataset. Who decides how long an epoch is?",
        "[[10, 20], [30]]": "That is the order without a sampler. Weights are not just a wish.",
        "[[30, 30, 30, 30, 30]]": "The indices are cut into batches, whoever wrote them.",
    },
)
def test_an_epoch_of_one_sample():
    """Two of the three samples have no weight. Write all batches of one epoch, as lists."""
    sampler = WeightedRandomSampler([0.0, 0.0, 1.0], num_samples=5)
    loader = DataLoader([10, 20, 30], batch_size=2, sampler=sampler)
    assert [batch.tolist() for batch in loader] == answer([[30, 30], [30, 30], [30]])


@koan(
    see="torch.utils.data.ConcatDataset",
    hint=[
        "`+` on two datasets gives a third one. What is its length?",
        "The sampler counts from 0 to that length. Does it know where the seam is?",
    ],
    why=(
        "`+` makes a ConcatDataset: the second one goes on where the first one ends. Batches are "
        "cut from the indices, so one of them may hold samples of both. And a sample of a "
        "TensorDataset is a tuple, also with one tensor: hence `(x,)`."
    ),
    wrong={
        "[[0, 1, 2], [10, 11, 12, 13], [14]]": (
            "The loader sees one long dataset. It does not stop at the seam."
        ),
        "[[10, 12, 14]]": "It is not the numbers that are added. It is the datasets.",
        "[[0, 10, 1, 11], [2, 12, 13, 14]]": "One dataset after the other, not turn by turn.",
    },
)
def test_a_batch_at_the_seam():
    """Add two datasets and read them in batches of four. Write the batches, as lists."""
    first = TensorDataset(torch.arange(3))
    second = TensorDataset(torch.arange(10, 15))
    loader = DataLoader(first + second, batch_size=4)
    assert [x.tolist() for (x,) in loader] == answer([[0, 1, 2, 10], [11, 12, 13, 14]])


@koan(
    see="torch.utils.data.RandomSampler",
    hint=[
        "Where does shuffle get its random numbers from? Who else takes some from there?",
        "A loader can be given a source of random numbers of its own.",
        "Two epochs must differ. So seed that source once, not before each epoch.",
    ],
    why=(
        "Without a generator, each epoch's order is drawn from the global one, at the moment when "
        "you ask for an iterator. Every dropout before it changes the order. With a generator of "
        "its own, the loader is independent of the model."
    ),
    wrong={
        "torch.manual_seed(1)\nloader = DataLoader(range(20), batch_size=20, shuffle=True)": (
            "The model still draws between the seed and the shuffle."
        ),
        "loader = DataLoader(range(20), batch_size=20, sampler=torch.randperm(20).tolist())": (
            "Now the order is drawn once, and each epoch has the same."
        ),
        "loader = DataLoader(range(20), batch_size=20)": "Nothing is shuffled any more.",
        "loader = DataLoader(range(20), batch_size=20, shuffle=True, "
        "generator=torch.default_generator)": "The model draws from the same source, as before.",
    },
    right=[
        "order = torch.Generator()\norder.manual_seed(7)\n"
        "loader = DataLoader(range(20), batch_size=20, shuffle=True, generator=order)",
        "from torch.utils.data import RandomSampler\n"
        "order = RandomSampler(range(20), generator=torch.Generator().manual_seed(1))\n"
        "loader = DataLoader(range(20), batch_size=20, sampler=order)",
    ],
    at={
        "two_epochs(draws=5)": (
            "Once the model draws one number, once five; the orders must not differ. Print both: "
            "where does each order come from?"
        ),
        "next(iter(loader))": (
            "The loader was built, but it gives no batch here. The message says what it did not "
            "like."
        ),
        "first != second": (
            "The model has no say in the order any more. But both epochs come in the same one: "
            "when is an order drawn, and from what?"
        ),
        "sorted(first) == sorted(second)": (
            "The orders differ as they should. But each epoch must bring all twenty samples, each "
            "of them once: print both."
        ),
    },
)
def test_the_same_order_with_another_model():
    """The seed is fixed, and yet another model gets the samples in another order. Repair the
    marked line: the order must not depend on the model, and two epochs must still differ."""

    def two_epochs(draws):
        torch.manual_seed(0)
        # answer:
        order = torch.Generator().manual_seed(0)
        loader = DataLoader(range(20), batch_size=20, shuffle=True, generator=order)
        # given:
        # loader = DataLoader(range(20), batch_size=20, shuffle=True)
        # end
        orders = []
        for _ in range(2):
            torch.rand(draws)  # the model: with dropout it draws numbers, one more than another
            orders.append(next(iter(loader)).tolist())
        return orders

    first, second = two_epochs(draws=1)
    assert two_epochs(draws=5) == [first, second]
    assert first != second
    assert sorted(first) == sorted(second) == list(range(20))


@koan(
    see="torch.utils.data.random_split",
    hint=[
        "When your lines begin: is `train.dataset` another object than `val.dataset`?",
        "Who calls the transform: the part or the dataset under it?",
        "A part is a dataset and a list of indices. You may put together one of your own.",
    ],
    why=(
        "random_split cuts indices, not data. Both parts hold the same dataset, so they share "
        "its transform. Take two datasets over the same data, and use the same indices."
    ),
    wrong={
        "val.transform = plain": "The part has no transform. It asks the dataset, which has one.",
        "val = Numbers(plain)": "Now the samples of the training are in it too.",
        "val = random_split(Numbers(plain), [6, 2])[1]": (
            "It cuts again, by chance. Some samples may be in both parts, others in none."
        ),
        "train.dataset.transform = augment": "Both parts look at this one attribute.",
        "val = [abs(x) for x in val]": (
            "A sign can be turned back, a random crop cannot. The alteration must not happen."
        ),
        "val = [plain(i + 1) for i in val.indices]": (
            "The right samples, once. But a list has no dataset, and asks for nothing later."
        ),
    },
    right=[
        "import copy\nval = copy.deepcopy(val)\nval.dataset.transform = plain",
        "val.dataset = Numbers(plain)",
    ],
    at={
        "== before": (
            "Train must stay altered, and val must bring the same samples as before, without the "
            "alteration. Print both lists beside `before`."
        ),
        "type(train) is type(val)": (
            "The samples are right. But train and val are no longer of one type: print both."
        ),
        "type(train.dataset)": (
            "The samples are right, and train and val are of one type. But what is each of them a "
            "part of? Print that for both."
        ),
    },
)
def test_augment_only_the_training():
    """The training gets altered samples (here: negative ones), the validation plain ones.

    But the marked line changes both. Repair it. Both stay parts of a Numbers dataset, each with
    the samples that random_split gave it.
    """

    class Numbers(Dataset):
        def __init__(self, transform):
            self.transform = transform

        def __len__(self):
            return 8

        def __getitem__(self, i):
            return self.transform(range(1, 9)[i])

    augment, plain = lambda x: -x, lambda x: x
    train, val = random_split(Numbers(augment), [6, 2])
    before = [list(train), list(val)]
    # answer:
    from torch.utils.data import Subset

    val = Subset(Numbers(plain), val.indices)
    # given:
    # val.dataset.transform = plain
    # end
    assert [list(train), [-x for x in val]] == before
    assert type(train) is type(val)
    assert type(train.dataset) is type(val.dataset) is Numbers


@koan(
    see="torch.utils.data.DistributedSampler",
    hint=[
        "Does each process take a piece in one go, or do they take turns?",
        "All must take the same number of steps: they wait for each other. What is done about 5?",
    ],
    why=(
        "They take turns: 0, 2, 4 and 1, 3. Then the second is one short, and starts again from "
        "the front. So a validation with it counts some samples twice. drop_last=True leaves "
        "some out instead."
    ),
    wrong={
        "[[0, 1, 2], [3, 4]]": "They take turns. And one of them would have to wait at the end.",
        "[[0, 2, 4], [1, 3]]": "Then one would take a step more, and wait for the other in vain.",
        "[[0, 2], [1, 3]]": "So it would be if you had asked to drop the rest.",
        "[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]": "Then two processes would do the work of one.",
    },
)
def test_five_samples_for_two_processes():
    """Two processes train one model together. Each has a number, its rank: 0 or 1. After each
    step they wait for each other. A sampler gives each its share of the samples.

    Five samples, no shuffle. Write the indices for rank 0 and rank 1.
    """
    shares = []
    for rank in range(2):
        sampler = DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)
        shares.append(list(sampler))
    assert shares == answer([[0, 2, 4], [1, 3, 0]])


@koan(
    see="torch.utils.data.DistributedSampler.set_epoch",
    hint=[
        "All processes must agree on one order, and no two of them share a random generator.",
        "The sampler seeds a generator of its own: with its seed plus the number of the epoch.",
        "Who tells it the number of the epoch?",
    ],
    why=(
        "The order comes from seed + epoch, and the epoch stays 0 until you say otherwise. The "
        "global generator has no part in it. Tell every rank the same number."
    ),
    wrong={
        "torch.manual_seed(epoch + rank)": "The sampler does not ask the global generator.",
        "samplers[rank].set_epoch(epoch + rank)": (
            "The ranks must agree on the order. Now some samples come twice, some never."
        ),
        "samplers[rank].set_epoch(0)": "So it is without you: each epoch the same order.",
    },
    right=["samplers[rank].epoch = epoch", "samplers[rank].set_epoch(7 * epoch + 3)"],
    at={
        "list(sampler) for sampler": (
            "A sampler cannot make its list any more. The message says what it did not like."
        ),
        "sorted(zero + one)": (
            "In some epoch the two ranks together do not see every sample once. Do they agree on "
            "one order?"
        ),
        "tuple(zero) for zero, one": (
            "The ranks share the samples well. But the three epochs do not have three orders: "
            "what is an order made from?"
        ),
    },
)
def test_each_epoch_another_order():
    """Both samplers shuffle, yet each epoch has the same order. Repair the marked line.

    Together the two ranks must still see every sample once.
    """
    samplers = [DistributedSampler(range(20), num_replicas=2, rank=rank) for rank in range(2)]
    epochs = []
    for epoch in range(3):
        for rank in range(2):
            # answer:
            samplers[rank].set_epoch(epoch)
            # given:
            # torch.manual_seed(epoch)
            # end
        epochs.append([list(sampler) for sampler in samplers])
    assert all(sorted(zero + one) == list(range(20)) for zero, one in epochs)
    assert len({tuple(zero) for zero, one in epochs}) == 3


@koan(
    see="torch.utils.data.Sampler",
    hint=[
        "A batch sampler yields lists of indices. Each list becomes one batch.",
        "Walk through the indices in a random order. Keep one open batch for each length.",
        "A batch that is full goes out. What about those that are still open at the end?",
        "Whose random numbers? A source of your own, seeded with self.seed, disturbs nobody.",
    ],
    why=(
        "A batch sampler decides about everything: which samples meet, and when. Words of one "
        "length need no padding. For long texts, people do this with lengths that are nearly "
        "the same."
    ),
    wrong={
        "order = torch.randperm(\n"
        "    len(self.lengths), generator=torch.Generator().manual_seed(self.seed)\n"
        ").tolist()\n"
        "yield from (order[i : i + self.size] for i in range(0, len(order), self.size))": (
            "Words of several lengths meet in one batch, and cannot be stacked."
        ),
        "order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])\n"
        "yield from (order[i : i + self.size] for i in range(0, len(order), self.size))": (
            "Where one length ends and the next begins, both are in one batch."
        ),
        "for length in set(self.lengths):\n"
        "    same = [i for i, n in enumerate(self.lengths) if n == length]\n"
        "    yield from (same[i : i + self.size] for i in range(0, len(same), self.size))": (
            "Good batches, but always in the same order, whatever the seed."
        ),
        "random = torch.Generator().manual_seed(self.seed)\n"
        "waiting = {}\n"
        "for i in torch.randperm(len(self.lengths), generator=random).tolist():\n"
        "    batch = waiting.setdefault(self.lengths[i], [])\n"
        "    batch.append(i)\n"
        "    if len(batch) == self.size:\n"
        "        yield waiting.pop(self.lengths[i])": "Those that wait for a partner never come.",
        "torch.manual_seed(self.seed)\n"
        "waiting = {}\n"
        "for i in torch.randperm(len(self.lengths)).tolist():\n"
        "    batch = waiting.setdefault(self.lengths[i], [])\n"
        "    batch.append(i)\n"
        "    if len(batch) == self.size:\n"
        "        yield waiting.pop(self.lengths[i])\n"
        "yield from waiting.values()": (
            "Now each epoch seeds the global generator anew, and with it the model's dropout."
        ),
        "import random\n"
        "random.seed(self.seed)\n"
        "batches = []\n"
        "for length in sorted(set(self.lengths)):\n"
        "    same = [i for i, n in enumerate(self.lengths) if n == length]\n"
        "    random.shuffle(same)\n"
        "    batches += [same[i : i + self.size] for i in range(0, len(same), self.size)]\n"
        "yield from batches": (
            "Python's random has a global source, too. All who draw from it are now set back."
        ),
        "for length in set(self.lengths):\n"
        "    same = [i for i, n in enumerate(self.lengths) if n == length]\n"
        "    turn = self.seed % len(same)\n"
        "    same = same[turn:] + same[:turn]\n"
        "    yield from (same[i : i + self.size] for i in range(0, len(same), self.size))": (
            "Turning the line is no shuffling: the same neighbours meet again and again."
        ),
    },
    right=[
        "import random\n"
        "dice = random.Random(self.seed)\n"
        "batches = []\n"
        "for length in sorted(set(self.lengths)):\n"
        "    same = [i for i, n in enumerate(self.lengths) if n == length]\n"
        "    dice.shuffle(same)\n"
        "    batches += [same[i : i + self.size] for i in range(0, len(same), self.size)]\n"
        "dice.shuffle(batches)\n"
        "yield from batches",
    ],
    at={
        "epoch = list(DataLoader(": (
            "The loader cannot make batches of this. It wants lists of indices, and the words of "
            "one list must be of one length."
        ),
        "sorted(len(batch) for batch in epoch)": (
            "The words of each batch fit together. But look at the sizes: is nobody left out, and "
            "are the batches as few as can be?"
        ),
        "sorted(sum(orders[-1], []))": (
            "The sizes are right. But in this epoch some word comes twice, and another one never."
        ),
        "orders[0] == orders[-1]": (
            "Each epoch is complete. But the same seed must give the same epoch again, and "
            "another seed another one."
        ),
        "tuple(sorted(batch)) for order": (
            "The order depends on the seed. But the same words meet again and again: is it random "
            "who meets whom?"
        ),
        "== before": (
            "The batches are fine. But a global source of random numbers is not as it was before: "
            "who else lives on it?"
        ),
    },
)
def test_only_words_of_one_length():
    """Write a batch sampler. In one batch all words have the same length, and there are at most
    `size` of them. Make as few batches as you can, and leave nobody out.

    Who meets whom is random. It depends on self.seed alone, and seeds nobody else.
    """

    class ByLength(Sampler):
        def __init__(self, lengths, size, seed):
            self.lengths, self.size, self.seed = lengths, size, seed

        def __iter__(self):
            # answer:
            order = torch.Generator().manual_seed(self.seed)
            waiting = {}
            for i in torch.randperm(len(self.lengths), generator=order).tolist():
                batch = waiting.setdefault(self.lengths[i], [])
                batch.append(i)
                if len(batch) == self.size:
                    yield waiting.pop(self.lengths[i])
            yield from waiting.values()
            # end

    before, lengths = (torch.initial_seed(), random.getstate()), [3, 1, 2] * 5
    words = [torch.full((length,), i) for i, length in enumerate(lengths)]
    orders = []
    for seed in [*range(20), 0]:
        epoch = list(DataLoader(words, batch_sampler=ByLength(lengths, 2, seed)))
        assert sorted(len(batch) for batch in epoch) == [1] * 3 + [2] * 6
        orders.append([batch[:, 0].tolist() for batch in epoch])
        assert sorted(sum(orders[-1], [])) == list(range(15))
    assert orders[0] == orders[-1] != orders[1]
    assert len({tuple(sorted(batch)) for order in orders for batch in order}) > 36
    assert (torch.initial_seed(), random.getstate()) == before
