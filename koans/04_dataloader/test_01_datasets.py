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

from sensei import __


@pytest.mark.tour(20)
def test_the_last_batch():
    """A map dataset has a length and takes an index, so a plain range is one already.

    Read ten samples, four to a batch. How many samples are in each batch of each loader?
    """
    loader = DataLoader(range(10), batch_size=4)
    strict = DataLoader(range(10), batch_size=4, drop_last=True)
    sizes = [[len(batch) for batch in each] for each in (loader, strict)]
    assert sizes == __


def test_shuffle_a_stream():
    """An iterable dataset is a stream: you can only ask it for the next sample.

    Ask for a shuffled stream. Which exception does it raise?
    """

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(10))

    with pytest.raises(Exception) as caught:
        DataLoader(Stream(), shuffle=True)
    assert caught.type is __


def test_an_epoch_of_one_sample():
    """Two of the three samples have no weight. Write all batches of one epoch, as lists."""
    sampler = WeightedRandomSampler([0.0, 0.0, 1.0], num_samples=5)
    loader = DataLoader([10, 20, 30], batch_size=2, sampler=sampler)
    assert [batch.tolist() for batch in loader] == __


def test_a_batch_at_the_seam():
    """Add two datasets and read them in batches of four. Write the batches, as lists."""
    first = TensorDataset(torch.arange(3))
    second = TensorDataset(torch.arange(10, 15))
    loader = DataLoader(first + second, batch_size=4)
    assert [x.tolist() for (x,) in loader] == __


def test_the_same_order_with_another_model():
    """The seed is fixed, and yet another model gets the samples in another order. Repair the
    marked line: the order must not depend on the model, and two epochs must still differ."""

    def two_epochs(draws):
        torch.manual_seed(0)
        # your turn:
        loader = DataLoader(range(20), batch_size=20, shuffle=True)
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
    # your turn:
    val.dataset.transform = plain
    # end
    assert [list(train), [-x for x in val]] == before
    assert type(train) is type(val)
    assert type(train.dataset) is type(val.dataset) is Numbers


def test_five_samples_for_two_processes():
    """Two processes train one model together. Each has a number, its rank: 0 or 1. After each
    step they wait for each other. A sampler gives each its share of the samples.

    Five samples, no shuffle. Write the indices for rank 0 and rank 1.
    """
    shares = []
    for rank in range(2):
        sampler = DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)
        shares.append(list(sampler))
    assert shares == __


def test_each_epoch_another_order():
    """Both samplers shuffle, yet each epoch has the same order. Repair the marked line.

    Together the two ranks must still see every sample once.
    """
    samplers = [DistributedSampler(range(20), num_replicas=2, rank=rank) for rank in range(2)]
    epochs = []
    for epoch in range(3):
        for rank in range(2):
            # your turn:
            torch.manual_seed(epoch)
            # end
        epochs.append([list(sampler) for sampler in samplers])
    assert all(sorted(zero + one) == list(range(20)) for zero, one in epochs)
    assert len({tuple(zero) for zero, one in epochs}) == 3


def test_only_words_of_one_length():
    """Write a batch sampler. In one batch all words have the same length, and there are at most
    `size` of them. Make as few batches as you can, and leave nobody out.

    Who meets whom is random. It depends on self.seed alone, and seeds nobody else.
    """

    class ByLength(Sampler):
        def __init__(self, lengths, size, seed):
            self.lengths, self.size, self.seed = lengths, size, seed

        def __iter__(self):
            # your turn:
            __
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
