"""Collating: how single samples become a batch, and where the batch lies."""

import dataclasses
import threading
import warnings

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from sensei import __


def pretend_there_is_a_gpu(monkeypatch):
    """Answer yes for PyTorch when the loader asks for an accelerator. Nothing else is faked."""
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_, **__: gpu)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)


class Batch(list):
    """A batch that knows how to pin itself. It only returns a note of who asked for it."""

    def pin_memory(self):
        process = "a worker" if get_worker_info() else "main process"
        in_main = threading.current_thread() is threading.main_thread()
        return process, "main thread" if in_main else "another thread"


@pytest.mark.tour(20)
def test_numbers_in_a_batch():
    """The loader hands a list of samples to default_collate. It looks at their type.

    Two floats, two ints, two arrays. Write the dtypes of the three batches.
    """
    arrays = [np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)]
    batches = [default_collate(samples) for samples in ([0.5, 1.5], [1, 2], arrays)]
    assert [batch.dtype for batch in batches] == __


def test_a_pair_in_every_sample():
    """Each sample is a dictionary with a word and a pair of numbers.

    Write what stands under `name`, then what stands under `size`: each tensor as a list.
    """
    samples = [{"name": "cat", "size": (4, 6)}, {"name": "dog", "size": (5, 2)}]
    batch = default_collate(samples)
    found = [batch["name"], [part.tolist() for part in batch["size"]]]
    assert found == __


def test_samples_of_your_own_class():
    """Each sample is a small dataclass with one field. Put two of them in a batch. Which exception
    does it raise?"""

    @dataclasses.dataclass
    class Sample:
        x: float

    with pytest.raises(Exception) as caught:
        next(iter(DataLoader([Sample(0.5), Sample(1.5)], batch_size=2)))
    assert caught.type is __


def test_two_lengths_in_one_batch():
    """Put two samples of different length in one batch. Which exception does it raise?"""
    samples = [torch.arange(3), torch.arange(2)]
    with pytest.raises(Exception) as caught:
        next(iter(DataLoader(samples, batch_size=2)))
    assert caught.type is __


def test_ways_around_the_stack():
    """Again two samples of different length, and three loaders. Write the shape of the first
    batch of each. If one of them raises, write the type of its exception instead."""
    samples = [torch.ones(3), torch.ones(1)]
    options = [{"batch_size": 1}, {"batch_size": None}, {"batch_size": 2, "collate_fn": torch.cat}]
    found = []
    for chosen in options:
        try:
            found.append(tuple(next(iter(DataLoader(samples, **chosen))).shape))
        except Exception as error:
            found.append(type(error))
    assert found == __


def test_pad_and_remember_the_lengths():
    """Write a collate_fn for sentences of any length. It returns two tensors: the sentences, one
    a row, filled up with -1; and the lengths that they had."""

    def pad(samples):
        # your turn:
        __
        # end

    sentences = [torch.arange(n) for n in (3, 1, 2, 4)]
    first, second = DataLoader(sentences, batch_size=2, collate_fn=pad)
    assert [part.tolist() for part in first] == [[[0, 1, 2], [0, -1, -1]], [3, 1]]
    assert [part.tolist() for part in second] == [[[0, 1, -1, -1], [0, 1, 2, 3]], [2, 4]]


def test_a_sample_that_is_broken():
    """This dataset gives None for a broken sample, and the loader does not skip it. Repair the
    marked line: the batch holds what is whole. If nothing is, the batch is None."""

    def collate(samples):
        # your turn:
        return default_collate(samples)
        # end

    samples = [0.0, None, None, None, None, 5.0, 6.0, 0.0]
    batches = list(DataLoader(samples, batch_size=2, collate_fn=collate))
    assert [batch if batch is None else batch.tolist() for batch in batches] == [
        [0.0],
        None,
        [5.0],
        [6.0, 0.0],
    ]


def test_pictures_of_any_kind():
    """This collate_fn pads pictures to a common size. It was written for three channels of
    floats. Repair the marked line, so that it keeps the channels and the dtype that it gets."""

    def collate(samples):
        images = [sample["image"] for sample in samples]
        height, width = (max(image.shape[i] for image in images) for i in (1, 2))
        # your turn:
        batch = torch.zeros(len(images), 3, height, width)
        # end
        for place, image in zip(batch, images):
            place[:, : image.shape[1], : image.shape[2]] = image
        return {"images": batch, "labels": torch.tensor([sample["label"] for sample in samples])}

    for kind, channels in ((torch.uint8, 1), (torch.float32, 3), (torch.float64, 4)):
        sizes = [(channels, 2, 5), (channels, 4, 3)]
        samples = [{"image": torch.ones(sizes[i], dtype=kind), "label": i} for i in range(2)]
        batch = next(iter(DataLoader(samples, batch_size=2, collate_fn=collate)))
        assert (batch["images"].dtype, batch["labels"].tolist()) == (kind, [0, 1])
        assert tuple(batch["images"].shape) == (2, channels, 4, 5)
        assert batch["images"].sum() == channels * (2 * 5 + 4 * 3)


def test_what_a_dataset_is_asked_for():
    """This dataset notes what it is asked for, and how. Write its notes after both loops."""
    asked = []

    class Notes(Dataset):
        def __getitem__(self, index):
            asked.append(("one", index))
            return index

        def __getitems__(self, indices):
            asked.append(("all", indices))
            return indices

    list(DataLoader(Notes(), batch_size=3, sampler=range(4)))
    list(DataLoader(Notes(), batch_size=None, sampler=[[3, 0]]))
    assert asked == __


@pytest.mark.needs(torch=">=2.7")
def test_pinned_for_nobody(monkeypatch):
    """Ask for pinned batches on a machine without an accelerator (here yours may have one: it is
    hidden). Write the device type, whether the batch is pinned, and how many warnings came."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        batch = next(iter(DataLoader(torch.arange(4.0), batch_size=4, pin_memory=True)))
    assert [batch.device.type, batch.is_pinned(), len(caught_warnings)] == __


@pytest.mark.needs(torch=">=2.13", fork=True)
def test_who_pins(monkeypatch):
    """A Batch (above) has a pin_memory() of its own: it returns a note of who called it. Here we
    pretend that there is a GPU, and use one worker.

    Write the two batches that the loader returns.
    """
    pretend_there_is_a_gpu(monkeypatch)
    options = {"num_workers": 1, "multiprocessing_context": "fork", "pin_memory": True}
    batches = list(DataLoader(range(4), batch_size=2, collate_fn=Batch, **options))
    assert batches == __


@pytest.mark.gpu
def test_from_pinned_memory_to_the_gpu():
    """Take a pinned batch, send it to the GPU, wait, then write into the batch. Write its device
    type, whether it is pinned, and the first number on the GPU."""
    batch = next(iter(DataLoader(torch.ones(4), batch_size=4, pin_memory=True)))
    on_gpu = batch.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    found = [batch.device.type, batch.is_pinned()]
    batch.fill_(7.0)
    assert [*found, on_gpu[0].item()] == __


def test_move_a_whole_batch():
    """Write move(): it returns a new batch of the same structure, with a copy of each tensor on
    `device`, and leaves the old batch alone. The CPU must not wait for the copies. The meta
    device plays the GPU, so that it can be seen anywhere."""
    no_waiting = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            no_waiting.append(kwargs.get("non_blocking") or any(x is True for x in args))
            return function(*args, **kwargs)

    def move(batch, device):
        # your turn:
        __
        # end

    sample = {"image": torch.ones(3), "name": "cat", "pair": (torch.ones(2), 1), "deep": {"id": 7}}
    batch = next(iter(DataLoader([sample] * 4, batch_size=4)))
    with Watch():
        moved = move(batch, "meta")
    for every, device in ((moved, "meta"), (batch, "cpu")):
        tensors = [every["image"], *every["pair"], every["deep"]["id"]]
        assert [tensor.device.type for tensor in tensors] == [device] * 4
        assert [tuple(tensor.shape) for tensor in tensors] == [(4, 3), (4, 2), (4,), (4,)]
    assert [list(moved), type(moved["pair"]), list(moved["deep"])] == [list(batch), list, ["id"]]
    assert moved["name"] == ["cat"] * 4
    assert no_waiting.count(True) == 4
