"""State dicts: what is in one, what loading one does, and what it leaves alone."""

import copy
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

    How many parameters has this model, and how many entries has its state_dict?
    """
    model = nn.Module()
    model.conv = nn.Conv2d(3, 64, 3)
    model.bn = torch.nn.BatchNorm2d(64)
    assert [len(list(model.parameters())), len(model.state_dict())] == __


def test_one_layer_spelled_three_ways():
    """Some say that torch.nn.BatchNorm2d is a mistake, and that the way of importing matters.

    How many children are registered here, and how many different types do they have?
    """
    from torch.nn import BatchNorm2d

    model = nn.Module()
    model.a = torch.nn.BatchNorm2d(4)
    model.b = nn.BatchNorm2d(4)
    model.c = BatchNorm2d(4)
    children = list(model.children())
    assert [len(children), len({type(child) for child in children})] == __


def test_a_mean_that_is_lost_on_the_way(tmp_path):
    """The fresh model does not get the mean. Nothing complains. Repair the marked line.

    The mean is measured, not trained: it must not be among the parameters.
    """

    class Center(nn.Module):
        def __init__(self, mean):
            super().__init__()
            # your turn:
            self.mean = mean
            # end

        def forward(self, x):
            return x - self.mean

    trained, fresh = Center(torch.tensor([3.0])), Center(torch.zeros(1))
    torch.save(trained.state_dict(), tmp_path / "center.pt")
    fresh.load_state_dict(torch.load(tmp_path / "center.pt"))
    assert fresh(torch.tensor([5.0])).tolist() == [2.0]
    assert list(fresh.parameters()) == []


def test_three_ways_to_keep_the_weights():
    """The weight is 1 when it is put aside, three times. Then it changes to 2.

    Which weight does each of the three hold now?
    """
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    first = layer.state_dict()
    second = dict(layer.state_dict())
    third = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        layer.weight.fill_(2.0)
    assert [kept["weight"].item() for kept in (first, second, third)] == __


def test_float64_values_for_two_float32_layers():
    """The same float64 values are loaded into two float32 layers. Predict the dtypes after it."""
    state = {"weight": torch.ones(2, 2, dtype=torch.float64)}
    plain, assigned = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    plain.load_state_dict(state)
    assigned.load_state_dict(state, assign=True)
    assert [plain.weight.dtype, assigned.weight.dtype] == __


def test_an_optimizer_older_than_the_load():
    """Each optimizer is built before 5 is loaded. The gradient of the weight is 1.

    Predict the two weights after the step.
    """
    ends = []
    for assign in (False, True):
        layer = nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        layer.load_state_dict({"weight": torch.tensor([[5.0]])}, assign=assign)
        layer(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        ends.append(layer.weight.item())
    assert ends == __


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

    Predict the pair that loading returns, then body and head.
    """
    model = nn.Module()
    model.body, model.head = (nn.Parameter(torch.tensor(7.0)) for _ in range(2))
    old = {"body": torch.tensor(1.0), "tail": torch.tensor(1.0)}
    returned = model.load_state_dict(old, strict=False)
    assert returned == __
    assert [model.body.item(), model.head.item()] == __


def test_a_weight_of_another_shape():
    """The bias fits, the weight is too wide. Some say strict=False skips what does not fit.

    Name the exception, and predict the bias after it. It was zero before.
    """
    layer = nn.Linear(2, 2)
    nn.init.zeros_(layer.bias)
    state = {"weight": torch.ones(2, 3), "bias": torch.ones(2)}
    with pytest.raises(Exception) as caught:
        layer.load_state_dict(state, strict=False)
    assert caught.type is __
    assert layer.bias.tolist() == __


def test_a_checkpoint_that_loads_nothing():
    """This checkpoint was saved from a wrapped model. No error, and nothing is loaded.

    Repair the marked line: all of it must be loaded.
    """
    model = nn.ModuleDict({"edge": nn.Linear(1, 1), "submodule": nn.Linear(1, 1)})
    saved = {f"module.{name}": torch.ones_like(p) for name, p in model.named_parameters()}
    # your turn:
    model.load_state_dict(saved, strict=False)
    # end
    assert [p.item() for p in model.parameters()] == [1.0, 1.0, 1.0, 1.0]


def test_fill_what_is_missing():
    """The checkpoint knows nothing of the norm. All that is missing shall become zero.

    The marked line fails at the first name. Repair it.
    """
    model = nn.ModuleDict({"fc": nn.Linear(2, 2), "norm": nn.BatchNorm1d(2)})
    checkpoint = {"fc.weight": torch.ones(2, 2), "fc.bias": torch.ones(2)}
    missing = model.load_state_dict(checkpoint, strict=False).missing_keys
    for name in missing:
        # your turn:
        getattr(model, name).data.fill_(0.0)
        # end
    assert not any(value.any() for value in model["norm"].state_dict().values())
    assert all(value.all() for value in model["fc"].state_dict().values())


def test_a_file_from_a_machine_with_a_hundred_gpus(tmp_path):
    """The checkpoint was saved on GPU number 99. Your model is on the CPU.

    Name the exception. What was going on when it was raised?
    """
    model = nn.Linear(2, 2)
    save_as_gpu_99(model.state_dict(), tmp_path / "far.pt")
    with pytest.raises(Exception) as caught:
        doing = "reading the file"
        state = torch.load(tmp_path / "far.pt")
        doing = "copying into the model"
        model.load_state_dict(state)
    assert caught.type is __
    assert doing == __


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
    state = {f"module.{name}": torch.full_like(v, 5) for name, v in old.state_dict().items()}
    save_as_gpu_99(state, tmp_path / "old.pt")
    for classes, left in ((3, ["head.weight", "head.bias"]), (9, [])):
        new = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "head": nn.Linear(2, classes)})
        assert list(restore(new, tmp_path / "old.pt")) == left
        assert all((value == 5).all() for value in new["norm"].state_dict().values())
        assert (new["head"].bias == 5).all() == (classes == 9)
