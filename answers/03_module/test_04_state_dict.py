"""State dicts: what is in one, what loading one does, and what it leaves alone.

Documents: A 3.3, A 4.3
"""

import copy
import zipfile

import pytest
import torch
from torch import nn

from sensei import answer, koan


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


@koan(
    claims=["A-4.3-03", "A-3.3-07"],
    see="torch.nn.Module.state_dict",
    hint=[
        "Each of the two layers has a weight and a bias to train.",
        "What else must a batch norm remember, so that it can work with one picture tomorrow?",
    ],
    why=(
        "conv.weight, conv.bias, bn.weight, bn.bias: the parameters. And three buffers: "
        "bn.running_mean, bn.running_var, bn.num_batches_tracked. Each name is the path to it, "
        "with dots. Everything that is registered is there, trained or not."
    ),
    wrong={
        "[2, 2]": (
            "Some say that only conv.weight and conv.bias are kept, and that the batch norm is "
            "lost. It is a Module in an attribute of a Module, so it is registered like conv."
        ),
        "[4, 2]": "What parameters() finds is not lost on the way into the dictionary.",
        "[4, 4]": "The optimizer needs no more than the parameters. The layer does.",
        "[4, 6]": "There is a mean, a variance, and one small thing more: a counter.",
    },
)
def test_count_what_is_saved():
    """state_dict() collects what a model must remember.

    How many parameters has this model, and how many entries has its state_dict?
    """
    model = nn.Module()
    model.conv = nn.Conv2d(3, 64, 3)
    model.bn = torch.nn.BatchNorm2d(64)
    assert [len(list(model.parameters())), len(model.state_dict())] == answer([4, 7])


@koan(
    claims=["A-4.3-02", "A-4.3-04", "A-4.3-05", "A-4.3-06"],
    see="torch.nn.BatchNorm2d",
    hint=[
        "Setting an attribute registers it as a child if it is a Module.",
        "An import binds a name to an object. Does it make a new object?",
    ],
    why=(
        "Three names, one class, and it is a subclass of nn.Module. The function is another one: "
        "torch.nn.functional.batch_norm. It takes the statistics as arguments, remembers nothing, "
        "and registers nothing."
    ),
    wrong={
        "[2, 1]": (
            "Some say torch.nn.BatchNorm2d is a function, or no subclass of Module, so that it "
            "is lost. But nn is just a shorter name for torch.nn."
        ),
        "[1, 1]": (
            "Some say the only right way is `from torch.nn import BatchNorm2d`. It brings the "
            "class here under a shorter name, and changes nothing in it."
        ),
        "[3, 3]": "Print the id() of each type.",
    },
)
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
    assert [len(children), len({type(child) for child in children})] == answer([3, 1])


@koan(
    claims=["A-4.3-07", "A-4.3-01"],
    see="torch.nn.Module.register_buffer",
    hint=[
        "Print trained.state_dict(). What is in it?",
        "There are two kinds of tensors that a module registers. One kind is trained.",
    ],
    why=(
        "A plain attribute is invisible to state_dict(), as are a layer in a plain list and a "
        "buffer made with persistent=False. A buffer is saved, loaded and moved with the model, "
        "and no optimizer sees it. torch.save wrote the file; state_dict() only collected."
    ),
    wrong={
        "self.register_buffer('mean', mean, persistent=False)": (
            "Such a buffer moves with the model, but it asks not to be saved."
        ),
        "self.mean = nn.Parameter(mean)": (
            "Now it is saved, but an optimizer would train it away. A measured mean is no weight."
        ),
        "self.mean = nn.Parameter(mean, requires_grad=False)": (
            "It is saved and not trained. But parameters() still lists it, and counts it."
        ),
        "self.mean = mean.clone()": "The trouble is not whose tensor it is. Nobody registers it.",
    },
    right=["self.mean = nn.Buffer(mean)", "self.register_buffer('mean', mean.clone())"],
)
def test_a_mean_that_is_lost_on_the_way(tmp_path):
    """The fresh model does not get the mean. Nothing complains. Repair the marked line.

    The mean is measured, not trained: it must not be among the parameters.
    """

    class Center(nn.Module):
        def __init__(self, mean):
            super().__init__()
            # answer:
            self.register_buffer("mean", mean)
            # given:
            # self.mean = mean
            # end

        def forward(self, x):
            return x - self.mean

    trained, fresh = Center(torch.tensor([3.0])), Center(torch.zeros(1))
    torch.save(trained.state_dict(), tmp_path / "center.pt")
    fresh.load_state_dict(torch.load(tmp_path / "center.pt"))
    assert fresh(torch.tensor([5.0])).tolist() == [2.0]
    assert list(fresh.parameters()) == []


@koan(
    claims=["A-4.3-01", "A-3.3-07"],
    see="torch.nn.Module.state_dict",
    hint=[
        "Compare the data_ptr() of layer.weight with that of each entry.",
        "dict(...) makes a new dictionary. Does it make new tensors?",
    ],
    why=(
        "The entries are the live tensors, only detached: same memory, no copy. A new dictionary "
        "around them changes nothing. Only a deep copy, or a file, keeps what the weights were."
    ),
    wrong={
        "[1.0, 1.0, 1.0]": (
            "Some say a state_dict is a snapshot. It costs almost nothing to make, however large "
            "the model. What does that tell you?"
        ),
        "[2.0, 1.0, 1.0]": "A second dictionary is a second set of names, for what?",
        "[2.0, 2.0, 2.0]": "One of the three has memory of its own.",
    },
)
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
    assert [kept["weight"].item() for kept in (first, second, third)] == answer([2.0, 2.0, 1.0])


@koan(
    claims=["A-3.3-08", "A-4.3-10"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "The first one copies values into tensors that exist. Which dtype do these have?",
        "To assign is not to copy. Whose tensors does the second layer hold in the end?",
    ],
    why=(
        "Loading copies the values into the model's own tensors, so dtype and device stay the "
        "model's. With assign=True the model takes over the tensors themselves, and with them "
        "their dtype and device."
    ),
    wrong={
        "[torch.float64, torch.float64]": (
            "Some say that a model takes over what the checkpoint brings. Only its values, if you "
            "do not ask for more."
        ),
        "[torch.float32, torch.float32]": "One of the two was asked not to copy.",
        "[torch.float64, torch.float32]": "The other way round. Read the two calls again.",
    },
    right=["[torch.float, torch.double]"],
)
def test_float64_values_for_two_float32_layers():
    """The same float64 values are loaded into two float32 layers. Predict the dtypes after it."""
    state = {"weight": torch.ones(2, 2, dtype=torch.float64)}
    plain, assigned = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    plain.load_state_dict(state)
    assigned.load_state_dict(state, assign=True)
    assert [plain.weight.dtype, assigned.weight.dtype] == answer([torch.float32, torch.float64])


@koan(
    claims=["A-3.3-08"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "The optimizer got its parameters before the load, and holds these objects.",
        "After each load: is layer.weight still the object that the optimizer holds?",
    ],
    why=(
        "Copying keeps the parameter objects, so an optimizer made earlier goes on working. "
        "assign=True puts new ones in their place: the optimizer steps on the old weight, which "
        "nobody uses any more. Load with assign=True first, then build the optimizer."
    ),
    wrong={
        "[4.0, 4.0]": (
            "One of the two layers has another weight now than the one the optimizer was given."
        ),
        "[5.0, 5.0]": (
            "Some say that loading replaces the parameters, so that every optimizer must be "
            "rebuilt. By default it writes into the ones that are there."
        ),
        "[5.0, 4.0]": "The other way round: which of the two keeps the layer's weight object?",
    },
)
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
    assert ends == answer([4.0, 5.0])


@koan(
    see="torch.nn.Embedding",
    hint=[
        "The row was zero at the start. Is it a rule, or only a first value?",
        "padding_idx does one more thing, during backward.",
    ],
    why=(
        "padding_idx zeroes the row once, when the layer is built, and keeps gradients off it. "
        "Loading writes all rows, and so does an init function such as nn.init.normal_. What they "
        "leave in this row stays for ever: it is never trained. Zero it again after either."
    ),
    wrong={
        "[[0.0, 0.0], [0.0, 0.0]]": (
            "Some say padding_idx forces a zero output at every lookup. A lookup only reads a row."
        ),
        "[[1.0, 1.0], [1.0, 1.0]]": "The row is like any other, but backward still knows it.",
        "[[0.0, 0.0], [1.0, 1.0]]": "Think of when padding_idx acts: at the start, and where else?",
    },
)
def test_load_over_the_padding_row():
    """Row 0 is for padding, and it starts at zero. Then ones are loaded into the whole table.

    Predict what a lookup of row 0 gives, and the row's gradient.
    """
    table = nn.Embedding(3, 2, padding_idx=0)
    assert table.weight[0].tolist() == [0.0, 0.0]
    table.load_state_dict({"weight": torch.ones(3, 2)})
    out = table(torch.tensor([0, 1]))
    out.sum().backward()
    assert [out[0].tolist(), table.weight.grad[0].tolist()] == answer([[1.0, 1.0], [0.0, 0.0]])


@koan(
    claims=["A-4.3-11", "A-4.3-12", "A-4.3-14", "A-4.3-16", "A-4.3-90"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "The pair: first the names that the model wanted, then the names nobody asked for.",
        "Loading goes through the names in both. What could it write to the others?",
    ],
    why=(
        "missing_keys, then unexpected_keys. What is not in the checkpoint is not touched: it "
        "keeps what it had, from its constructor or from you, before loading or after. "
        "Nothing is reset, random or NaN. One loads first only to learn which names are missing."
    ),
    wrong={
        ("(['tail'], ['head'])", "[1.0, 7.0]"): "The pair is seen with the eyes of the model.",
        ("(['head'], ['tail'])", "[1.0, 0.0]"): (
            "Some say a new parameter must be initialized after loading, since loading resets it. "
            "What would it reset it to?"
        ),
        ("(['head'], ['tail'])", "[1.0, float('nan')]"): (
            "Some blame strict=False for weights that are NaN. Skipping a name writes nothing."
        ),
        ("(['head'], ['tail'])", "[7.0, 7.0]"): (
            "The names that match are loaded, whatever happens to the rest."
        ),
        ("None", "[1.0, 7.0]"): "Without strict there is no error. So it tells you by returning.",
    },
)
def test_a_model_newer_than_its_checkpoint():
    """The model has a new head, the checkpoint a tail that is gone. All parameters are 7 before.

    Predict the pair that loading returns, then body and head.
    """
    model = nn.Module()
    model.body, model.head = (nn.Parameter(torch.tensor(7.0)) for _ in range(2))
    old = {"body": torch.tensor(1.0), "tail": torch.tensor(1.0)}
    returned = model.load_state_dict(old, strict=False)
    assert returned == answer((["head"], ["tail"]))
    assert [model.body.item(), model.head.item()] == answer([1.0, 7.0])


@koan(
    claims=["A-4.3-11"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "strict=False forgives names. Nothing else.",
        "load_state_dict goes through all names, collects the complaints, and raises at the end.",
    ],
    why=(
        "A shape that does not fit is an error even with strict=False. It is raised after all the "
        "rest was loaded, so a model whose load failed may be half old and half new. Do not go "
        "on with it."
    ),
    wrong={
        ("RuntimeError", "[0.0, 0.0]"): (
            "Who catches the error often thinks that nothing has happened. When is it raised?"
        ),
        ("ValueError", "[1.0, 1.0]"): "A fair name for it, but loading has one error for all.",
        ("KeyError", "[1.0, 1.0]"): "The name is in both. It is the tensor that does not fit.",
    },
)
def test_a_weight_of_another_shape():
    """The bias fits, the weight is too wide. Some say strict=False skips what does not fit.

    Name the exception, and predict the bias after it. It was zero before.
    """
    layer = nn.Linear(2, 2)
    nn.init.zeros_(layer.bias)
    state = {"weight": torch.ones(2, 3), "bias": torch.ones(2)}
    with pytest.raises(Exception) as caught:
        layer.load_state_dict(state, strict=False)
    assert caught.type is answer(RuntimeError)
    assert layer.bias.tolist() == answer([1.0, 1.0])


@koan(
    claims=["A-4.3-13"],
    see="torch.nn.modules.utils.consume_prefix_in_state_dict_if_present",
    hint=[
        "Print the names in saved, and those in model.state_dict(). How many match?",
        "Build the dictionary anew, with names that the model knows.",
        "One child of the model has a name that ends in 'module'. Leave it alone.",
    ],
    why=(
        "DataParallel and DDP save under 'module.', torch.compile under '_orig_mod.'. With "
        "strict=False such a file loads nothing at all, without a word. Take the prefix off, or "
        "load into the wrapped model, and stay strict: then you hear of every other mistake."
    ),
    wrong={
        "model.load_state_dict({k.lstrip('module.'): v for k, v in saved.items()}, strict=False)": (
            "lstrip takes off letters, any of these, as long as it finds one: 'edge' loses some."
        ),
        "model.load_state_dict({k.replace('module.', ''): v for k, v in saved.items()})": (
            "replace works everywhere in the name. 'submodule' is hit too."
        ),
        "print(model.load_state_dict(saved, strict=False))": (
            "Now you see that no name fits. A good habit, but still nothing is loaded."
        ),
        "model.load_state_dict(saved)": "Now you hear of it. The names are still the wrong ones.",
    },
    right=[
        "model.load_state_dict({k.removeprefix('module.'): v for k, v in saved.items()})",
        "model.load_state_dict({k[7:]: v for k, v in saved.items()})",
        "nn.ModuleDict({'module': model}).load_state_dict(saved)",
        "from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present\n"
        "consume_prefix_in_state_dict_if_present(saved, 'module.')\n"
        "model.load_state_dict(saved)",
    ],
)
def test_a_checkpoint_that_loads_nothing():
    """This checkpoint was saved from a wrapped model. No error, and nothing is loaded.

    Repair the marked line: all of it must be loaded.
    """
    model = nn.ModuleDict({"edge": nn.Linear(1, 1), "submodule": nn.Linear(1, 1)})
    saved = {f"module.{name}": torch.ones_like(p) for name, p in model.named_parameters()}
    # answer:
    saved = {name.removeprefix("module."): value for name, value in saved.items()}
    model.load_state_dict(saved)
    # given:
    # model.load_state_dict(saved, strict=False)
    # end
    assert [p.item() for p in model.parameters()] == [1.0, 1.0, 1.0, 1.0]


@koan(
    claims=["A-4.3-15"],
    see="torch.nn.Module.get_submodule",
    hint=[
        "A name with a dot is a path, and getattr knows no paths.",
        "Not all of these names belong to parameters. Which others are there?",
        "You know a dictionary that has all these names, and in which the tensors are live.",
    ],
    why=(
        "state_dict() maps each name to the live tensor, parameter or buffer, already detached: "
        "writing into it writes into the model. get_parameter and get_buffer follow a path too, "
        "each for its own kind. (Zero is seldom a good start for a weight.)"
    ),
    wrong={
        "getattr(model, name).data.fill_(0)": "0 or 0.0 is no matter. The attribute is not found.",
        "model.get_parameter(name).data.fill_(0.0)": (
            "It follows the path. But a missing name may be that of a buffer."
        ),
        "setattr(model, name, torch.zeros(2))": (
            "No error: the model gets an attribute with a dot in its name. Nobody reads it."
        ),
        "model.state_dict()[name] = torch.zeros(2)": (
            "This puts a tensor into a dictionary that is thrown away at once."
        ),
    },
    right=[
        "model.state_dict()[name].fill_(0.0)",
        "path, _, last = name.rpartition('.')\n"
        "getattr(model.get_submodule(path), last).data.fill_(0.0)",
        "import operator\noperator.attrgetter(name)(model).data.fill_(0.0)",
    ],
)
def test_fill_what_is_missing():
    """The checkpoint knows nothing of the norm. All that is missing shall become zero.

    The marked line fails at the first name. Repair it.
    """
    model = nn.ModuleDict({"fc": nn.Linear(2, 2), "norm": nn.BatchNorm1d(2)})
    checkpoint = {"fc.weight": torch.ones(2, 2), "fc.bias": torch.ones(2)}
    missing = model.load_state_dict(checkpoint, strict=False).missing_keys
    for name in missing:
        # answer:
        model.state_dict()[name].zero_()
        # given:
        # getattr(model, name).data.fill_(0.0)
        # end
    assert not any(value.any() for value in model["norm"].state_dict().values())
    assert all(value.all() for value in model["fc"].state_dict().values())


@koan(
    claims=["A-4.3-08", "A-4.3-09"],
    see="torch.load",
    hint=[
        "A file remembers on which device each tensor was. Who wants to put it back there?",
        "Most refusals of PyTorch have one and the same type.",
    ],
    why=(
        "torch.load puts each tensor back where it was saved, and fails if that device is not "
        "here. On a machine that has it, the load works, and load_state_dict copies from the GPU "
        "into a CPU model without complaint. Where the model is plays no part."
    ),
    wrong={
        ("RuntimeError", "'copying into the model'"): (
            "Some say the trouble is that the model is on the CPU. Copying across devices is "
            "allowed. But does it get that far?"
        ),
        ("AssertionError", "'reading the file'"): (
            "x.cuda() raises this in a build without CUDA. Reading a file has its own check."
        ),
        ("FileNotFoundError", "'reading the file'"): "The file is here. A device is not.",
    },
)
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
    assert caught.type is answer(RuntimeError)
    assert doing == answer("reading the file")


@koan(
    claims=["A-4.3-09"],
    see="torch.load",
    hint=[
        "A function inside your function may note the place in a set.",
        "What it returns is used. A storage that is returned as it came stays on the CPU.",
    ],
    why=(
        "Every storage in the file carries the name of its place. torch.load reads it to CPU "
        "memory and asks map_location what to do. map_location='cpu' is the short form for "
        "leaving it there."
    ),
    wrong={
        "state = torch.load(path, map_location='cpu')\n"
        "return {str(value.device) for value in state.values()}": (
            "This tells where the tensors are now. Where they were is forgotten by then."
        ),
        "return {str(value.device) for value in torch.load(path).values()}": (
            "It would be right, on a machine that has all these devices."
        ),
        "seen = set()\n"
        "torch.load(path, map_location=lambda storage, place: seen.add(place))\n"
        "return seen": (
            "add returns None, which means: I do not care, put it where it was. That place may "
            "not be here."
        ),
    },
    right=[
        "seen = []\n"
        "torch.load(path, map_location=lambda storage, place: (seen.append(place), storage)[1])\n"
        "return set(seen)",
    ],
)
def test_ask_a_file_where_it_comes_from(tmp_path):
    """Write `origins`: the set of places that a file's tensors were saved from, on any machine.

    map_location may be a function: torch.load calls it with each storage and its place.
    """

    def origins(path):
        # answer:
        seen = set()

        def note(storage, place):
            seen.add(place)
            return storage

        torch.load(path, map_location=note)
        return seen
        # end

    near, far = tmp_path / "near.pt", tmp_path / "far.pt"
    torch.save({"a": torch.ones(2), "b": torch.ones(2)}, near)
    save_as_gpu_99({"a": torch.ones(2), "b": torch.ones(2)}, far)
    assert origins(near) == {"cpu"}
    assert origins(far) == {"cuda:99"}


@koan(
    claims=["A-4.3-10", "A-4.3-13", "A-4.3-14"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "Three things stand in the way: the device, the names, and one shape.",
        "Keep the entries whose name and shape the model has. Then be lenient about the rest.",
        "Loading returns a pair. Half of it is what is asked for.",
    ],
    why=(
        "map_location brings the tensors here, the new names let them match, the filter drops "
        "what has another shape, and the returned pair says what was left out. strict=False with "
        "its answer read is a tool; with its answer ignored it is a trap."
    ),
    wrong={
        "state = torch.load(path, map_location='cpu')\n"
        "return model.load_state_dict(state, strict=False).missing_keys": (
            "No name matches, so nothing is loaded, and no shape was ever compared."
        ),
        "state = torch.load(path, map_location='cpu')\n"
        "state = {k.removeprefix('module.'): v for k, v in state.items()}\n"
        "return model.load_state_dict(state, strict=False).missing_keys": (
            "strict=False forgives a name, not a shape."
        ),
        "state = torch.load(path, map_location='cpu')\n"
        "state = {k.removeprefix('module.'): v for k, v in state.items()}\n"
        "own = model.state_dict()\n"
        "state = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}\n"
        "return model.load_state_dict(state, strict=False).unexpected_keys": (
            "These are the entries that nobody wanted. The other half tells what is still missing."
        ),
        "state = torch.load(path)\n"
        "state = {k.removeprefix('module.'): v for k, v in state.items()}\n"
        "own = model.state_dict()\n"
        "state = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}\n"
        "return model.load_state_dict(state, strict=False).missing_keys": (
            "The file wants to go back to a device that is not here."
        ),
        "state = torch.load(path, map_location='cpu')\n"
        "own = model.state_dict()\n"
        "kept = {k: state.get('module.' + k, v) for k, v in own.items()}\n"
        "model.load_state_dict(kept)\n"
        "return [k for k in own if 'module.' + k not in state]": (
            "A name that is there may still not fit."
        ),
    },
    right=[
        "state = torch.load(path, map_location=torch.device('cpu'))\n"
        "left = []\n"
        "for key, value in model.state_dict().items():\n"
        "    other = state.get('module.' + key)\n"
        "    if other is None or other.shape != value.shape:\n"
        "        left.append(key)\n"
        "    else:\n"
        "        value.copy_(other)\n"
        "return left",
    ],
)
def test_move_into_a_new_model(tmp_path):
    """The file comes from GPU 99, its names begin with "module.", and its head has more classes.

    Write `restore`: load every entry that fits the model, and return the names that were left
    as they were.
    """

    def restore(model, path):
        # answer:
        state = torch.load(path, map_location="cpu")
        state = {name.removeprefix("module."): value for name, value in state.items()}
        own = model.state_dict()
        fits = {k: v for k, v in state.items() if k in own and v.shape == own[k].shape}
        return model.load_state_dict(fits, strict=False).missing_keys
        # end

    old = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "tail": nn.ReLU(), "head": nn.Linear(2, 9)})
    state = {f"module.{name}": torch.full_like(v, 5) for name, v in old.state_dict().items()}
    save_as_gpu_99(state, tmp_path / "old.pt")
    for classes, left in ((3, ["head.weight", "head.bias"]), (9, [])):
        new = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "head": nn.Linear(2, classes)})
        assert list(restore(new, tmp_path / "old.pt")) == left
        assert all((value == 5).all() for value in new["norm"].state_dict().values())
        assert (new["head"].bias == 5).all() == (classes == 9)
