"""Collating: how single samples become a batch, and where the batch lies.

Documents: A 2.2, A 3.4, B 4
"""

import dataclasses
import threading
import warnings

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from sensei import answer, koan


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
@koan(
    claims=["A-3.4-22"],
    see="torch.utils.data.default_collate",
    hint=[
        "How many bits has a float in Python? And in NumPy here?",
        "torch.tensor() and collating do not treat Python's numbers in the same way.",
    ],
    why=(
        "A Python float has 64 bits, and collating keeps them all; torch.tensor([0.5]) would make "
        "32 of them. So a loss against such targets may complain about a Double. NumPy arrays "
        "are taken as they are, then stacked."
    ),
    wrong={
        "[torch.float32, torch.int64, torch.float32]": (
            "torch.tensor() would do so. Collating does not ask for the default dtype."
        ),
        "[torch.float64, torch.int64, torch.float64]": "The array says itself how precise it is.",
        "[torch.float32, torch.int32, torch.float32]": "Python's numbers are wider than that.",
    },
    right=["[torch.double, torch.long, torch.float]"],
)
def test_numbers_in_a_batch():
    """The loader hands a list of samples to default_collate. It looks at their type.

    Two floats, two ints, two arrays. Write the dtypes of the three batches.
    """
    arrays = [np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)]
    batches = [default_collate(samples) for samples in ([0.5, 1.5], [1, 2], arrays)]
    assert [batch.dtype for batch in batches] == answer([torch.float64, torch.int64, torch.float32])


@koan(
    claims=["A-3.4-22"],
    see="torch.utils.data.default_collate",
    hint=[
        "A dictionary is collated key by key. What is there under `size`? A pair of pairs.",
        "Tuples are collated place by place: all the first entries meet, then all the second ones.",
        "And what tensor could be made of two words?",
    ],
    why=(
        "It goes into dicts, lists and tuples, and collates what meets at the same place: both "
        "heights, both widths. The pair of tensors is a list, not a tuple. Text stays a list."
    ),
    wrong={
        "[['cat', 'dog'], [[4, 6], [5, 2]]]": (
            "So it would be for tensors. A tuple is taken apart: place by place."
        ),
        "[['cat', 'dog'], [4, 6, 5, 2]]": "Nothing is put behind one another. It is transposed.",
        "['catdog', [[4, 5], [6, 2]]]": "Nothing is joined. A batch of words has a length of 2.",
    },
)
def test_a_pair_in_every_sample():
    """Each sample is a dictionary with a word and a pair of numbers.

    Write what stands under `name`, then what stands under `size`: each tensor as a list.
    """
    samples = [{"name": "cat", "size": (4, 6)}, {"name": "dog", "size": (5, 2)}]
    batch = default_collate(samples)
    found = [batch["name"], [part.tolist() for part in batch["size"]]]
    assert found == answer([["cat", "dog"], [[4, 5], [6, 2]]])


@koan(
    claims=["A-3.4-22"],
    see="torch.utils.data.default_collate",
    hint=[
        "It knows tensors, arrays, numbers, text, dicts, lists and tuples. And of the rest?",
        "Nothing is wrong with the values. What is wrong with the samples?",
    ],
    why=(
        "Collating never guesses. An object of your own class is refused, and a dataclass is one. "
        "Give it a dict or a namedtuple, write a collate_fn, or register the type in "
        "default_collate_fn_map."
    ),
    wrong={
        "AttributeError": "It asks the sample for nothing. It looks at what it is.",
        "RuntimeError": "It dislikes neither sizes nor numbers. Look at what the samples are.",
        "NotImplementedError": "Natural. But Python has a word for a thing of the wrong kind.",
    },
)
def test_samples_of_your_own_class():
    """Each sample is a small dataclass with one field. Put two of them in a batch. Which exception
    does it raise?"""

    @dataclasses.dataclass
    class Sample:
        x: float

    with pytest.raises(Exception) as caught:
        next(iter(DataLoader([Sample(0.5), Sample(1.5)], batch_size=2)))
    assert caught.type is answer(TypeError)


@koan(
    claims=["A-3.4-23"],
    see="torch.stack",
    hint=[
        "Three numbers and two numbers: what would the shape of the batch be?",
        "Collating leaves the work to torch.stack. Who complains about shapes in PyTorch, and how?",
    ],
    why=(
        "stack expects each tensor to be of equal size. Inside a worker the same happens: the "
        "error travels to your process, keeps its type, and its text then says in which worker."
    ),
    wrong={
        "ValueError": "NumPy would say so. PyTorch has one common word for shapes that do not fit.",
        "TypeError": "Both samples are tensors. It is their sizes that do not fit.",
        "IndexError": "Both samples were found and read without trouble.",
    },
)
def test_two_lengths_in_one_batch():
    """Put two samples of different length in one batch. Which exception does it raise?"""
    samples = [torch.arange(3), torch.arange(2)]
    with pytest.raises(Exception) as caught:
        next(iter(DataLoader(samples, batch_size=2)))
    assert caught.type is answer(RuntimeError)


@koan(
    claims=["A-3.4-24"],
    see="torch.utils.data.default_convert",
    hint=[
        "Two samples that do not fit must meet before anything can go wrong.",
        "A batch of one is still a batch. And without batching at all?",
        "The third loader brings its own way: it puts the samples end to end.",
    ],
    why=(
        "Nobody stacks two lengths here. A sample alone fits with itself, and gets a dimension in "
        "front. With batch_size=None there is no batch, and the sample comes as it is. A "
        "collate_fn may join in another way. Or pad in the dataset; then everything fits again."
    ),
    wrong={
        "[RuntimeError, RuntimeError, (4,)]": (
            "Some say only your own collate_fn helps. It is the usual way, among others."
        ),
        "[(3,), (3,), (4,)]": "A batch says how many samples it holds, even if it is one.",
        "[(1, 3), (1, 3), (4,)]": "None is not 1. What is not batched gets no new dimension.",
        "[(1, 3), (3,), RuntimeError]": "torch.stack wants equal lengths. Is that who is called?",
        "[(1, 3), (3,), (2, 3)]": "Nothing is padded unless you do it.",
    },
)
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
    assert found == answer([(1, 3), (3,), (4,)])


@koan(
    claims=["A-3.4-24"],
    see="torch.nn.utils.rnn.pad_sequence",
    hint=[
        "A collate_fn gets a list of samples and returns the batch.",
        "torch.nn.utils.rnn has a function that makes sequences equally long.",
        "It wants to be told that the batch comes first, and what to fill in.",
        "The lengths are lost in the padding, unless you return them too: as a tensor.",
    ],
    why=(
        "Keep the lengths, or a mask: once padded, nobody can tell padding from data, above all "
        "where the padding is a value that also occurs. packed sequences, attention masks and "
        "losses want to know."
    ),
    wrong={
        "return torch.stack(samples), torch.tensor([len(x) for x in samples])": (
            "They have no common length yet."
        ),
        "from torch.nn.utils.rnn import pad_sequence\n"
        "return pad_sequence(samples, batch_first=True), torch.tensor([len(x) for x in samples])": (
            "Zeros are the default. Here a zero is a word."
        ),
        "from torch.nn.utils.rnn import pad_sequence\n"
        "padded = pad_sequence(samples, padding_value=-1)\n"
        "return padded, torch.tensor([len(x) for x in samples])": (
            "By default it puts time first, as recurrent layers like it."
        ),
        "return default_collate([x.tolist() for x in samples])": (
            "Lists are taken apart, place by place, and must be of one length all the same."
        ),
    },
    right=[
        "lengths = torch.tensor([len(x) for x in samples])\n"
        "padded = samples[0].new_full((len(samples), max(lengths)), -1)\n"
        "for row, x in zip(padded, samples):\n"
        "    row[: len(x)] = x\n"
        "return padded, lengths",
    ],
    at={
        "for part in first": (
            "This is the first batch: the filled rows, then the lengths, and both must be "
            "tensors. Print `first` and compare."
        ),
        "for part in second": (
            "The first batch is right. In the second one the longest sentence comes last: what "
            "did you take for granted?"
        ),
    },
)
def test_pad_and_remember_the_lengths():
    """Write a collate_fn for sentences of any length. It returns two tensors: the sentences, one
    a row, filled up with -1; and the lengths that they had."""

    def pad(samples):
        # answer:
        from torch.nn.utils.rnn import pad_sequence

        lengths = torch.tensor([len(x) for x in samples])
        return pad_sequence(samples, batch_first=True, padding_value=-1), lengths
        # end

    sentences = [torch.arange(n) for n in (3, 1, 2, 4)]
    first, second = DataLoader(sentences, batch_size=2, collate_fn=pad)
    assert [part.tolist() for part in first] == [[[0, 1, 2], [0, -1, -1]], [3, 1]]
    assert [part.tolist() for part in second] == [[[0, 1, -1, -1], [0, 1, 2, 3]], [2, 4]]


@koan(
    see="torch.utils.data.default_collate",
    hint=[
        "The loader never skips. Whatever the dataset returns arrives here.",
        "Take out what is missing, and collate the rest.",
        "Three cases: nothing is missing, something is, everything is. And 0.0 is a fine sample.",
    ],
    why=(
        "None does not mean 'skip this one'; it is collated like anything else, and refused. A "
        "filter makes smaller batches, now and then none. The cleaner way is to throw bad samples "
        "out of the list of indices before you start."
    ),
    wrong={
        "return default_collate([0.0 if x is None else x for x in samples])": (
            "Now the model learns from a sample that never was."
        ),
        "whole = [x for x in samples if x]\nreturn default_collate(whole) if whole else None": (
            "Zero is a value. Only None stands for a broken sample."
        ),
        "return default_collate([x for x in samples if x])": (
            "Zero is a value, too. And what if nothing is left to collate?"
        ),
        "return default_collate([x for x in samples if x is not None])": (
            "And what if nothing is left to collate?"
        ),
        "return None if None in samples else default_collate(samples)": (
            "One broken sample takes the good one with it."
        ),
    },
    right=[
        "samples = [x for x in samples if x is not None]\n"
        "return None if not samples else default_collate(samples)",
    ],
)
def test_a_sample_that_is_broken():
    """This dataset gives None for a broken sample, and the loader does not skip it. Repair the
    marked line: the batch holds what is whole. If nothing is, the batch is None."""

    def collate(samples):
        # answer:
        whole = [x for x in samples if x is not None]
        return default_collate(whole) if whole else None
        # given:
        # return default_collate(samples)
        # end

    samples = [0.0, None, None, None, None, 5.0, 6.0, 0.0]
    batches = list(DataLoader(samples, batch_size=2, collate_fn=collate))
    assert [batch if batch is None else batch.tolist() for batch in batches] == [
        [0.0],
        None,
        [5.0],
        [6.0, 0.0],
    ]


@koan(
    claims=["A-3.4-25", "A-3.4-26"],
    see="torch.Tensor.new_zeros",
    hint=[
        "What are the dtype and the channels of `batch`? What do they know of the pictures?",
        "Assigning a grey picture to three channels broadcasts it. Nobody complains.",
        "A tensor can make another one of its own kind: same dtype, same device, any shape.",
    ],
    why=(
        "Assigning into a tensor converts and broadcasts in silence: bytes became floats, grey "
        "became three channels. Only four channels raised. new_zeros takes dtype and device from "
        "the picture. What the padding covers is not told here: return the sizes, if you need them."
    ),
    wrong={
        "batch = torch.zeros(len(images), 3, height, width, dtype=images[0].dtype)": (
            "The bytes are saved. But how many channels have the pictures?"
        ),
        "batch = torch.zeros(len(images), len(images[0]), height, width)": (
            "The channels are right. But bytes go in and floats come out."
        ),
        "batch = torch.stack(images)": "They would have to be of one size.",
        "batch = images[0].new_zeros(len(images), *images[0].shape)": (
            "The first picture need not be the largest."
        ),
    },
    right=[
        "batch = torch.zeros(\n"
        "    len(images), images[0].size(0), height, width, dtype=images[0].dtype\n"
        ")",
    ],
    at={
        "] = image": (
            "Here each picture is written into its place in `batch`, and this one does not fit. "
            "Compare the two shapes."
        ),
        '(batch["images"].dtype': (
            "No picture was refused. Here the dtype of the batch is compared with that of its "
            "pictures: who chose it?"
        ),
        'tuple(batch["images"].shape)': (
            "The dtype is right. Now the shape: pictures, channels, height, width. Print it "
            "beside the shapes of the pictures."
        ),
        'batch["images"].sum()': (
            "Dtype and shape are right. But the sum counts all that is in the batch: what stands "
            "beside the pictures?"
        ),
    },
)
def test_pictures_of_any_kind():
    """This collate_fn pads pictures to a common size. It was written for three channels of
    floats. Repair the marked line, so that it keeps the channels and the dtype that it gets."""

    def collate(samples):
        images = [sample["image"] for sample in samples]
        height, width = (max(image.shape[i] for image in images) for i in (1, 2))
        # answer:
        batch = images[0].new_zeros(len(images), images[0].shape[0], height, width)
        # given:
        # batch = torch.zeros(len(images), 3, height, width)
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


@koan(
    claims=["A-3.4-10"],
    see="torch.utils.data.Dataset",
    hint=[
        "The loader knows all indices of a batch before it reads. Must it ask one by one?",
        "batch_size=None: whatever the sampler gives, the dataset is asked for just that.",
        "In the second loader the sampler gives one thing, and it is a list.",
    ],
    why=(
        "The unit of work is a list of indices. If the dataset has __getitems__, it gets them "
        "all at once: one query to a database instead of many. The other way is batch_size=None "
        "with a sampler that gives lists: then __getitem__ gets the list, and nothing is collated."
    ),
    wrong={
        '[("one", 0), ("one", 1), ("one", 2), ("one", 3), ("one", [3, 0])]': (
            "Some say samples are read and shipped one by one. They could be; but here the dataset "
            "offers more."
        ),
        '[("all", [0, 1, 2]), ("all", [3]), ("all", [3, 0])]': (
            "Without batching the loader makes no list. What it got, it asks for."
        ),
        '[("all", [0, 1, 2]), ("all", [3]), ("one", 3), ("one", 0)]': (
            "Nobody takes the sampler's list apart."
        ),
        '[("all", [0, 1, 2, 3]), ("one", [3, 0])]': "Batch by batch, not all at the beginning.",
    },
)
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
    assert asked == answer([("all", [0, 1, 2]), ("all", [3]), ("one", [3, 0])])


@pytest.mark.needs(torch=">=2.7")
@koan(
    claims=["A-2.2-18", "A-3.4-13"],
    see="torch.Tensor.pin_memory",
    hint=[
        "Pinned memory is memory that an accelerator can fetch from by itself. Who is there?",
        "The loader was asked for something that it cannot do. Does it stop you? Does it tell you?",
    ],
    why=(
        "Without an accelerator you get an ordinary batch, and a UserWarning (torch 2.6 was "
        "silent). And wherever pinning works, it is the computer's own memory: the batch stays on "
        "the CPU until you move it. Without pin_memory=True nothing is pinned anywhere."
    ),
    wrong={
        '["cuda", True, 0]': (
            "Some say pinning locks a batch in the GPU's own memory. It stays where it is; the "
            "loader moves nothing, with or without a GPU."
        ),
        '["cpu", True, 0]': (
            "Some say each batch that a loader returns is pinned. Only on request, and where "
            "somebody can use it."
        ),
        '["cpu", False, 0]': "It does not keep quiet about it.",
        '["cpu", True, 1]': "It tells you, yes. Now, what does it tell you?",
    },
)
def test_pinned_for_nobody(monkeypatch):
    """Ask for pinned batches on a machine without an accelerator (here yours may have one: it is
    hidden). Write the device type, whether the batch is pinned, and how many warnings came."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        batch = next(iter(DataLoader(torch.arange(4.0), batch_size=4, pin_memory=True)))
    assert [batch.device.type, batch.is_pinned(), len(caught_warnings)] == answer(["cpu", False, 1])


@pytest.mark.needs(torch=">=2.13", fork=True)
@koan(
    claims=["B-4-25", "A-3.4-12"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Pinning is the last step before the batch is yours. Where does it arrive?",
        "If the training loop itself had to pin, it would wait. Who else is in that process?",
    ],
    why=(
        "A worker collates and ships. In your process a thread takes each finished batch and pins "
        "it, while you train; without workers, you do it yourself. It goes into dicts and lists, "
        "and calls pin_memory() of each tensor, or of any object that has such a method."
    ),
    wrong={
        '[("a worker", "main thread")] * 2': (
            "Some say that workers prepare pinned memory of their own. They never pin."
        ),
        '[("main process", "main thread")] * 2': (
            "So it is without workers. With workers, somebody does it beside your loop."
        ),
        '[("a worker", "another thread")] * 2': "A worker has no other thread, and no need of one.",
        "[[0, 1], [2, 3]]": "Not only tensors are pinned: an object may say how it is done.",
    },
    right=['[("main process", "another thread"), ("main process", "another thread")]'],
)
def test_who_pins(monkeypatch):
    """A Batch (above) has a pin_memory() of its own: it returns a note of who called it. Here we
    pretend that there is a GPU, and use one worker.

    Write the two batches that the loader returns.
    """
    pretend_there_is_a_gpu(monkeypatch)
    options = {"num_workers": 1, "multiprocessing_context": "fork", "pin_memory": True}
    batches = list(DataLoader(range(4), batch_size=2, collate_fn=Batch, **options))
    assert batches == answer([("main process", "another thread")] * 2)


@pytest.mark.gpu
@koan(
    claims=["A-3.4-06", "A-3.4-07", "A-2.2-18"],
    see="torch.Tensor.is_pinned",
    hint=[
        "Which memory is locked: that of the computer, or that of the GPU?",
        "Do the batch and what you made from it share memory? Then both see the 7.",
    ],
    why=(
        "Pinned memory is the computer's memory; the system promised not to move it, so the GPU "
        "can fetch from it while the CPU goes on. It saves a copy in between, not the copy. After "
        "it there are two tensors. So do not overwrite the source before the copy is done."
    ),
    wrong={
        '["cuda", True, 7.0]': (
            "Some say pinning locks a batch in the GPU's own memory. No: you still have to move it."
        ),
        '["cpu", True, 7.0]': (
            "Some say the GPU then works in this memory and nothing is copied. It is copied, once."
        ),
        '["cpu", False, 1.0]': "There is a GPU, and the loader was asked to pin.",
    },
)
def test_from_pinned_memory_to_the_gpu():
    """Take a pinned batch, send it to the GPU, wait, then write into the batch. Write its device
    type, whether it is pinned, and the first number on the GPU."""
    batch = next(iter(DataLoader(torch.ones(4), batch_size=4, pin_memory=True)))
    on_gpu = batch.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    found = [batch.device.type, batch.is_pinned()]
    batch.fill_(7.0)
    assert [*found, on_gpu[0].item()] == answer(["cpu", True, 1.0])


@koan(
    claims=["A-3.4-14"],
    see="torch.Tensor.to",
    hint=[
        "A dict has no .to(). Whose .to() can you call?",
        "The function may call itself: for what is in a dict, for what is in a list or a tuple.",
        "What is no tensor and holds none stays what it is.",
        ".to() waits for the copy, unless you say that it need not.",
    ],
    why=(
        "default_collate keeps the structure of your samples, so somebody must walk through it. "
        "non_blocking lets the CPU go on, and it helps only if the source is pinned. The copy and "
        "what follows on the GPU stay in order."
    ),
    wrong={
        "return {key: part.to(device, non_blocking=True) for key, part in batch.items()}": (
            "Not each value of the dict is a tensor."
        ),
        "if isinstance(batch, torch.Tensor):\n"
        "    return batch.to(device)\n"
        "if isinstance(batch, dict):\n"
        "    return {key: move(part, device) for key, part in batch.items()}\n"
        "if isinstance(batch, (list, tuple)):\n"
        "    return [move(part, device) for part in batch]\n"
        "return batch": "Everything is moved, but the CPU waits each time.",
        "if isinstance(batch, torch.Tensor):\n"
        "    return batch.to(device, non_blocking=True)\n"
        "if isinstance(batch, dict):\n"
        "    return {key: move(part, device) for key, part in batch.items()}\n"
        "return batch": "Look at what became of the pair: it is a list with tensors in it.",
        "if isinstance(batch, torch.Tensor):\n"
        "    batch.to(device, non_blocking=True)\n"
        "if isinstance(batch, dict):\n"
        "    batch = {key: move(part, device) for key, part in batch.items()}\n"
        "if isinstance(batch, (list, tuple)):\n"
        "    batch = [move(part, device) for part in batch]\n"
        "return batch": "A tensor's .to() changes nothing. It returns another tensor.",
        "if isinstance(batch, torch.Tensor):\n"
        "    return batch.to(device, non_blocking=True)\n"
        "places = batch if isinstance(batch, dict) else range(len(batch))\n"
        "for place in places if isinstance(batch, (dict, list)) else ():\n"
        "    batch[place] = move(batch[place], device)\n"
        "return batch": "You were given a batch, and now it has lost its tensors to the device.",
    },
    right=[
        "if isinstance(batch, dict):\n"
        "    return {key: move(part, device) for key, part in batch.items()}\n"
        "if isinstance(batch, (list, tuple)):\n"
        "    return type(batch)(move(part, device) for part in batch)\n"
        "return batch.to(device, non_blocking=True) if hasattr(batch, 'to') else batch",
        "if isinstance(batch, dict):\n"
        "    return {key: move(part, device) for key, part in batch.items()}\n"
        "if isinstance(batch, list):\n"
        "    return [move(part, device) for part in batch]\n"
        "return batch.to(device, batch.dtype, True) if torch.is_tensor(batch) else batch",
        "from torch.utils._pytree import tree_map_only\n"
        "return tree_map_only(torch.Tensor, lambda x: x.to(device, non_blocking=True), batch)",
    ],
    at={
        "tensors = [": (
            "Here image, pair and deep are looked up in the new batch, then in the old one. "
            "Something is not where it was: print both."
        ),
        "tensor.device.type": (
            "Every tensor of the new batch belongs on the new device, and each of the old batch "
            "stays on the CPU. Print both batches."
        ),
        "tuple(tensor.shape)": (
            "All tensors are on the right device. But they have not kept their shapes, or their "
            "order: print them."
        ),
        'type(moved["pair"])': (
            "The tensors are right. But the new batch is built in another way than the old one: "
            "compare their keys and the types of their parts."
        ),
        'moved["name"]': (
            "Tensors and structure are right. But what is no tensor must come through as it is: "
            "print what became of the names."
        ),
        "no_waiting.count": (
            "The new batch is right. Now we count the calls that let the CPU go on: there should "
            "be one for each tensor."
        ),
    },
)
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
        # answer:
        if isinstance(batch, torch.Tensor):
            return batch.to(device, non_blocking=True)
        if isinstance(batch, dict):
            return {key: move(part, device) for key, part in batch.items()}
        if isinstance(batch, (list, tuple)):
            return [move(part, device) for part in batch]
        return batch
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
