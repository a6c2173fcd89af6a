"""State dicts: what is in one, what loading one does, and what it leaves alone."""

import io
import zipfile

import pytest
import torch
from torch import nn

from sensei import __


def save_as_gpu_99(state, path):
    """Write the file that a machine with a hundred GPUs would have written."""
    torch.save(state, path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            if name.endswith("data.pkl"):  # each tensor's place, with the length before it
                data = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x07\x00\x00\x00cuda:99")
            file.writestr(name, data)


def test_count_what_is_saved():
    """state_dict() collects what a model must remember.

    How many parameters does this model have, and how many entries does its state_dict have?
    """
    model = nn.Module()
    model.conv = nn.Conv2d(3, 64, 3)
    model.bn = torch.nn.BatchNorm2d(64)
    assert [len(list(model.parameters())), len(model.state_dict())] == __


def test_a_norm_that_is_not_saved():
    """The checkpoint lacks the batch norm. Some blame its spelling, torch.nn.BatchNorm2d.

    Find out what hides it, and repair the marked line. The model must compute as before.
    """

    class Model(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv = nn.Conv2d(3, channels, 1)
            # your turn:
            self.tail = [torch.nn.BatchNorm2d(channels), torch.relu]
            # end

        def forward(self, x):
            x = self.conv(x)
            for step in self.tail:
                x = step(x)
            return x

    for channels in (4, 5):
        trained, fresh = Model(channels), Model(channels)
        x = torch.randn(2, 3, 8, 8)
        assert trained(x).min() == 0 and 0.3 < trained(x).mean() < 0.5
        assert len(trained.state_dict()) == 7
        fresh.load_state_dict(trained.state_dict())
        assert torch.equal(fresh.eval()(x), trained.eval()(x))


def test_words_that_are_lost_on_the_way(tmp_path):
    """This layer knows the names of its classes. A checkpoint leaves them behind, silently.

    Write the methods that let the words travel with the weights, in state_dict() and back.
    """

    class Named(nn.Linear):
        def __init__(self, words):
            super().__init__(2, 2)
            self.words = words

        # your turn:
        __
        # end

    for words in (["cat", "dog"], ["sun", "rain"]):
        trained, fresh = nn.Sequential(Named(words)), nn.Sequential(Named([]))
        torch.save(trained.state_dict(), tmp_path / "named.pt")
        fresh.load_state_dict(torch.load(tmp_path / "named.pt"))
        assert fresh[0].words == words and trained[0].words == words
        assert torch.equal(fresh[0].weight, trained[0].weight)
        assert Named([]).words == []


def test_what_a_checkpoint_carries():
    """An old norm differs from a new one in five ways. Then its state dict is loaded.

    Predict the five for the new norm: weight, running mean, requires_grad, training, momentum.
    """
    old = nn.BatchNorm1d(1, momentum=0.5).eval().requires_grad_(False)
    old.weight.fill_(7.0)
    old.running_mean.fill_(7.0)
    new = nn.BatchNorm1d(1, momentum=0.25)
    new.load_state_dict(old.state_dict())
    values = [new.weight.item(), new.running_mean.item()]
    flags = [new.weight.requires_grad, new.training, new.momentum]
    assert values + flags == __


def test_float64_values_for_two_float32_layers():
    """The same float64 values are loaded into two float32 layers. Predict the dtypes after it."""
    state = {"weight": torch.ones(2, 2, dtype=torch.float64)}
    plain, assigned = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    plain.load_state_dict(state)
    assigned.load_state_dict(state, assign=True)
    assert [plain.weight.dtype, assigned.weight.dtype] == __


def test_load_over_the_padding_row():
    """Row 0 is for padding, and it starts at zero. Then ones are loaded into the whole table.

    Predict what a lookup of row 0 gives, and the row's gradient.
    """
    table = nn.Embedding(3, 2, padding_idx=0)
    assert table.weight[0].tolist() == [0.0, 0.0]
    table.load_state_dict({"weight": torch.ones(3, 2)})
    out = table(torch.tensor([0, 1]))
    out.sum().backward()
    assert [out[0].tolist(), table.weight.grad[0].tolist()] == __


def test_a_model_newer_than_its_checkpoint():
    """The model has a new head, the checkpoint a tail that is gone. All parameters are 7 before.

    Predict the pair (missing_keys, unexpected_keys) that loading returns, two lists of names. Then
    predict body and head.
    """
    model = nn.Module()
    model.body, model.head = (nn.Parameter(torch.tensor(7.0)) for _ in range(2))
    old = {"body": torch.tensor(1.0), "tail": torch.tensor(1.0)}
    returned = model.load_state_dict(old, strict=False)
    assert returned == __
    assert [model.body.item(), model.head.item()] == __


def test_a_weight_of_another_shape():
    """Two entries fit, the one in the middle is too long. Some say strict=False skips it.

    It does not: name the exception. All parameters were zero; which of the three names hold ones
    after it?
    """
    model = nn.Module()
    for name in ("first", "middle", "last"):
        model.register_parameter(name, nn.Parameter(torch.zeros(2)))
    state = {"first": torch.ones(2), "middle": torch.ones(3), "last": torch.ones(2)}
    with pytest.raises(Exception) as caught:
        model.load_state_dict(state, strict=False)
    assert caught.type is __
    assert [name for name, p in model.named_parameters() if p.all()] == __


def test_a_checkpoint_that_loads_nothing():
    """Some call strict=False dangerous, and here they are right: this checkpoint comes from a
    wrapped model. No error, and nothing is loaded.

    Repair the marked line: all of it must be loaded.
    """
    old, model = (
        nn.ModuleDict({"edge": nn.Linear(1, 1), "submodule": nn.Linear(1, 1)}) for _ in range(2)
    )
    saved = {f"module.{name}": value for name, value in old.state_dict().items()}
    # your turn:
    model.load_state_dict(saved, strict=False)
    # end
    assert [p.item() for p in model.parameters()] == [p.item() for p in old.parameters()]
    assert all(p is not q for p, q in zip(model.parameters(), old.parameters()))


def test_fill_what_is_missing():
    """The checkpoint has one of two parts, full of ones. All that is missing should become zero.

    The marked line fails at the first name. Repair it.
    """
    for part, other in (("fc", "norm"), ("norm", "fc")):
        model = nn.ModuleDict({"fc": nn.Linear(2, 2), "norm": nn.BatchNorm1d(2)})
        state = model.state_dict()
        ones = {name: torch.ones_like(state[name]) for name in state if name.startswith(part)}
        missing = model.load_state_dict(ones, strict=False).missing_keys
        for name in missing:
            # your turn:
            getattr(model, name).data.fill_(0.0)
            # end
        assert all((value == 1).all() for value in model[part].state_dict().values())
        assert all((value == 0).all() for value in model[other].state_dict().values())


def test_a_file_from_a_machine_with_a_hundred_gpus(tmp_path):
    """The checkpoint was saved on GPU number 99. This machine has no such device.

    The file is read in five ways. Which of them fail?
    """
    save_as_gpu_99({"weight": torch.ones(2, 2)}, tmp_path / "far.pt")
    ways = {"plain": None, "cpu": "cpu", "meta": "meta"}
    ways |= {"from 99": {"cuda:99": "cpu"}, "from 0": {"cuda:0": "cpu"}}
    failed = []
    for name, where in ways.items():
        try:
            torch.load(tmp_path / "far.pt", map_location=where)
        except RuntimeError:
            failed.append(name)
    assert failed == __


def test_weights_that_stay_on_the_disk(tmp_path):
    """One checkpoint, as a file and as bytes from the network. mmap=True leaves the weights on
    the disk until they are used.

    Predict the sum, and the exception of the line in the with-block.
    """
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.tensor([1.0, 2.0, 3.0])}, path)
    received = io.BytesIO(path.read_bytes())
    assert torch.load(path, mmap=True)["weight"].sum() == __
    with pytest.raises(Exception) as caught:
        torch.load(received, mmap=True)
    assert caught.type is __


def test_ask_a_file_where_it_comes_from(tmp_path):
    """Write `origins`: the set of places that a file's tensors were saved from, on any machine.

    map_location may be a function: torch.load calls it with each storage and its place.
    """

    def origins(path):
        # your turn:
        __
        # end

    near, far = tmp_path / "near.pt", tmp_path / "far.pt"
    torch.save({"a": torch.ones(2), "b": torch.ones(2)}, near)
    save_as_gpu_99({"a": torch.ones(2), "b": torch.ones(2)}, far)
    assert origins(near) == {"cpu"}
    assert origins(far) == {"cuda:99"}


def test_move_into_a_new_model(tmp_path):
    """The file comes from GPU 99, its names begin with "module.", and its head has more classes.

    Write `restore`: load every entry that fits the model, and return the names that were left
    as they were.
    """

    def restore(model, path):
        # your turn:
        __
        # end

    old = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "tail": nn.ReLU(), "head": nn.Linear(2, 9)})
    state = {
        f"module.{name}": torch.full_like(value, number)
        for number, (name, value) in enumerate(old.state_dict().items(), 5)
    }
    save_as_gpu_99(state, tmp_path / "old.pt")
    for classes, left in ((3, ["head.weight", "head.bias"]), (9, [])):
        new = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "head": nn.Linear(2, classes)})
        assert list(restore(new, tmp_path / "old.pt")) == left
        for name, value in new["norm"].state_dict().items():
            assert torch.equal(value, state[f"module.norm.{name}"])
        assert torch.equal(new["head"].bias, state["module.head.bias"]) == (classes == 9)
