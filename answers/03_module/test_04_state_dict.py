"""State dicts: what is in one, what loading one does, and what it leaves alone.

Documents: A 3.3, A 4.3
"""

import io
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
        "with dots. What is registered is there, trained or not; only a buffer may ask to be "
        "left out, with persistent=False."
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

    How many parameters does this model have, and how many entries does its state_dict have?
    """
    model = nn.Module()
    model.conv = nn.Conv2d(3, 64, 3)
    model.bn = torch.nn.BatchNorm2d(64)
    assert [len(list(model.parameters())), len(model.state_dict())] == answer([4, 7])


@koan(
    claims=["A-4.3-02", "A-4.3-04", "A-4.3-05", "A-4.3-06"],
    see="torch.nn.ModuleList",
    hint=[
        "What is the type of self.tail? Does a module look into such an object, and is each step "
        "in it a Module?",
        "A batch norm is a Module however it is spelled. Does the model know the one that holds "
        "it?",
        "If the function is refused: torch.nn has an activation that is a Module.",
    ],
    why=(
        "The spelling was innocent: torch.nn.BatchNorm2d, nn.BatchNorm2d and an imported "
        "BatchNorm2d are one class, a subclass of Module. A plain list hid it. In a Sequential, "
        "a ModuleList or an attribute of its own it is registered, saved, moved and switched. "
        "(The function is another one: nn.functional.batch_norm, which remembers nothing.)"
    ),
    wrong={
        "self.tail = [nn.BatchNorm2d(channels), torch.relu]": (
            "Some say torch.nn.BatchNorm2d is a mistake, and nn.BatchNorm2d is right. "
            "These are two names of one class."
        ),
        "from torch.nn import BatchNorm2d\n\nself.tail = [BatchNorm2d(channels), torch.relu]": (
            "Some say the only right way is to import the class by its own name. "
            "It is shorter, and the class is the same."
        ),
        "import torch.nn as NN\n\nself.tail = [NN.BatchNorm2d(channels), torch.relu]": (
            "Some say that with the lower-case nn it is a function. "
            "It is a class under every name; print its type."
        ),
        "class Norm(torch.nn.BatchNorm2d, nn.Module):\n    pass\n\n"
        "self.tail = [Norm(channels), torch.relu]": (
            "Some say it is no subclass of nn.Module. It was one before."
        ),
        "self.tail = nn.ModuleList([torch.nn.BatchNorm2d(channels), torch.relu])": (
            "The right idea. But such a list takes Modules only, and one of the two is a function."
        ),
        "self.tail = (torch.nn.BatchNorm2d(channels), torch.relu)": (
            "A tuple is as opaque to a module as a list."
        ),
        "self.tail = nn.ModuleList([torch.nn.BatchNorm2d(channels)])": (
            "The norm is saved now. But one step of forward is gone."
        ),
    },
    right=[
        "self.tail = nn.ModuleList([nn.BatchNorm2d(channels), nn.ReLU()])",
        "self.norm = torch.nn.BatchNorm2d(channels)\nself.tail = [self.norm, torch.relu]",
    ],
    at={
        "fresh.eval()(x)": (
            "Everything is saved and loaded. But in eval mode the two models differ: does the "
            "norm hear of eval(), and what does it remember?"
        ),
        "len(trained.state_dict())": (
            "The output is right. Now print the keys of the state dict: which tensors of the two "
            "layers are missing there, or too many?"
        ),
        "for step in self.tail": (
            "forward still goes through self.tail, step by step. It needs something there that a "
            "loop can walk through."
        ),
        "trained(x).min()": (
            "This line looks at the output: as before, it should be normalized, then have no "
            "negative numbers. Is a step lost or changed?"
        ),
    },
)
def test_a_norm_that_is_not_saved():
    """The checkpoint lacks the batch norm. Some blame its spelling, torch.nn.BatchNorm2d.

    Find out what hides it, and repair the marked line. The model must compute as before.
    """

    class Model(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv = nn.Conv2d(3, channels, 1)
            # answer:
            self.tail = nn.Sequential(torch.nn.BatchNorm2d(channels), nn.ReLU())
            # given:
            # self.tail = [torch.nn.BatchNorm2d(channels), torch.relu]
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


@koan(
    claims=["A-4.3-07", "A-4.3-01"],
    see="torch.nn.Module.get_extra_state",
    hint=[
        "state_dict() collects tensors that are registered. Words are no tensors.",
        "A module may hand out something extra for its state dict. See `docs`: there is a pair of "
        "methods, one for each direction.",
        "If loading complains of an unexpected key: one half of the pair is missing.",
    ],
    why=(
        "What is not registered is missing from the state dict, and no error says so. For a tensor "
        "a Parameter or a buffer is the cure; for all else get_extra_state and set_extra_state: "
        "state_dict() and load_state_dict() call them on every module that defines them. "
        "torch.save wrote the file; state_dict() only collected."
    ),
    wrong={
        "def get_extra_state(self):\n    return self.words": (
            "Now they are saved. But load_state_dict does not know what to do with them."
        ),
        "def set_extra_state(self, state):\n    self.words = state": (
            "They could be loaded now. But nobody has put them into the state dict."
        ),
        "def state_dict(self, *args, **kwargs):\n"
        '    return {**super().state_dict(*args, **kwargs), "words": self.words}': (
            "A child is asked to write into the dict of its parent. What it returns is not used."
        ),
        'def __getstate__(self):\n    return {"words": self.words}\n\n'
        "def __setstate__(self, state):\n    self.words = state": (
            "These serve pickle, for whole objects. A state dict never calls them."
        ),
    },
    right=[
        "def get_extra_state(self):\n"
        '    return {"words": list(self.words)}\n\n'
        "def set_extra_state(self, state):\n"
        '    self.words = state["words"]',
        "def _save_to_state_dict(self, destination, prefix, keep_vars):\n"
        "    super()._save_to_state_dict(destination, prefix, keep_vars)\n"
        '    destination[prefix + "words"] = self.words\n\n'
        "def _load_from_state_dict(self, state, prefix, *args):\n"
        '    self.words = state.pop(prefix + "words")\n'
        "    super()._load_from_state_dict(state, prefix, *args)",
    ],
    at={
        "fresh.load_state_dict": (
            "Saving works, loading does not. Is there a method for each direction, and do the two"
            " agree? The error tells what does not fit."
        ),
        "fresh[0].words == words": (
            "All runs, but the two layers do not both hold the right words. Follow them: what "
            "goes into the state dict, what comes out, does the old layer keep its own?"
        ),
        "fresh[0].weight": (
            "The words arrive. But the weights, which came along before, are not loaded now: "
            "which usual work is left out?"
        ),
        "Named([]).words": (
            "Words and weights arrive. But a new layer should know only the words it was built "
            "with: where are the others kept?"
        ),
    },
)
def test_words_that_are_lost_on_the_way(tmp_path):
    """This layer knows the names of its classes. A checkpoint leaves them behind, silently.

    Write the methods that let the words travel with the weights, in state_dict() and back.
    """

    class Named(nn.Linear):
        def __init__(self, words):
            super().__init__(2, 2)
            self.words = words

        # answer:
        def get_extra_state(self):
            return self.words

        def set_extra_state(self, state):
            self.words = state

        # end

    for words in (["cat", "dog"], ["sun", "rain"]):
        trained, fresh = nn.Sequential(Named(words)), nn.Sequential(Named([]))
        torch.save(trained.state_dict(), tmp_path / "named.pt")
        fresh.load_state_dict(torch.load(tmp_path / "named.pt"))
        assert fresh[0].words == words and trained[0].words == words
        assert torch.equal(fresh[0].weight, trained[0].weight)
        assert Named([]).words == []


@koan(
    claims=["A-3.3-07"],
    see="torch.nn.Module.state_dict",
    hint=[
        "Print old.state_dict(). Which of the five can you see in it?",
        "A flag of a tensor is not its values, and an attribute of the layer is no tensor. "
        "Where they do not travel, the new norm keeps what it had.",
    ],
    why=(
        "A state dict holds values of parameters and persistent buffers, and no more. Frozen or "
        "not, train or eval, and every argument of the constructor belong to the code: "
        "build the same model, freeze and switch it again, then load."
    ),
    wrong={
        "[7.0, 7.0, False, False, 0.5]": (
            "Some say a checkpoint is the model. It is a dict of tensors, by name."
        ),
        "[7.0, 7.0, False, True, 0.25]": (
            "The flag sits on the Parameter. Loading copies values into the Parameter that the "
            "new norm has."
        ),
        "[7.0, 7.0, True, False, 0.25]": "training is an attribute, and no tensor.",
        "[7.0, 7.0, True, True, 0.5]": "momentum is a number in Python, and no tensor.",
        "[7.0, 0.0, True, True, 0.25]": "What is not trained can be in the state dict as well.",
        "[1.0, 0.0, True, True, 0.25]": "Loading writes at once. Nobody needs to call forward.",
    },
)
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
    assert values + flags == answer([7.0, 7.0, True, True, 0.25])


@koan(
    claims=["A-3.3-08", "A-4.3-10"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "The first one copies values into tensors that exist. Which dtype do these have?",
        "To assign is not to copy. Whose tensors does the second layer hold in the end?",
    ],
    why=(
        "Loading copies the values into the model's own tensors, so dtype and device stay the "
        "model's, and an optimizer made earlier goes on working. With assign=True the model takes "
        "over the tensors themselves, dtype and device included, in new Parameters: build the "
        "optimizer after that."
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
    see="torch.nn.Embedding",
    hint=[
        "The row was zero at the start. Is it a rule, or only a first value?",
        "padding_idx does one more thing, during backward.",
    ],
    why=(
        "padding_idx zeroes the row once, when the layer is built, and keeps gradients off it. "
        "Loading writes all rows, and so does an init function such as nn.init.normal_. What they "
        "leave in this row no gradient will ever change. Zero it again after either."
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
        "For the pair: what does the model ask for in vain? And what is there that nobody asked "
        "for?",
        "For the values: loading goes through the names in both. What could it write to the "
        "others?",
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
        ("([], [])", "[1.0, 7.0]"): "So it would be if every name had found its partner.",
        ("(['head'], [])", "[1.0, 7.0]"): "One name of the checkpoint found no taker either.",
        ("(['tail'], ['head'])", "[1.0, 0.0]"): (
            "The pair is seen with the eyes of the model; and loading resets nothing."
        ),
    },
    at={
        "assert returned ==": (
            "This line looks at the pair alone. Which name does the model ask for in vain, which "
            "one did nobody ask for, and which list comes first?"
        ),
        "model.body.item()": (
            "The pair is right. Now the values: which of these two did the checkpoint bring, and "
            "what touches the other?"
        ),
    },
)
def test_a_model_newer_than_its_checkpoint():
    """The model has a new head, the checkpoint a tail that is gone. All parameters are 7 before.

    Predict the pair (missing_keys, unexpected_keys) that loading returns, two lists of names. Then
    predict body and head.
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
        "For the exception: strict=False forgives names, nothing else. load_state_dict has one "
        "type for all its complaints.",
        "For the names: when is the error raised: at the first complaint, or at the end?",
    ],
    why=(
        "A shape that does not fit is an error even with strict=False. It is raised after all the "
        "rest was loaded, so a model whose load failed may be half old and half new. Do not go "
        "on with it."
    ),
    wrong={
        ("RuntimeError", "[]"): (
            "Who catches the error often thinks that nothing has happened. When is it raised?"
        ),
        ("RuntimeError", "['first']"): "The complaints are collected. So when is it raised?",
        ("RuntimeError", "['first', 'middle', 'last']"): "Three numbers do not fit into two.",
        ("ValueError", "['first', 'last']"): (
            "A fair name for it, but loading has one error for all."
        ),
        ("KeyError", "['first', 'last']"): (
            "The name is in both. It is the tensor that does not fit."
        ),
        ("ValueError", "[]"): (
            "A fair name for it, but loading has another. And when is it raised?"
        ),
    },
    at={
        "caught.type is": (
            "This line asks for the exception. strict=False forgives names, nothing else. "
            "load_state_dict has one type for all its complaints: which?"
        ),
        "if p.all()": (
            "The exception is right. Now the model after it: when is the error raised, and what "
            "had been done by then?"
        ),
    },
)
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
    assert caught.type is answer(RuntimeError)
    assert [name for name, p in model.named_parameters() if p.all()] == answer(["first", "last"])


@koan(
    claims=["A-4.3-13"],
    see="torch.nn.modules.utils.consume_prefix_in_state_dict_if_present",
    hint=[
        "Print the names that you hand to load_state_dict, and those in model.state_dict(). How "
        "many match?",
        "Build the dictionary anew, with names that the model knows.",
        "If a key is still missing: one child of the model has a name that ends in 'module'.",
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
    at={
        "p.item() for p in model.parameters()": (
            "Not all numbers of old have arrived. Print the names that you hand in, and those in "
            "model.state_dict(): which do not match?"
        ),
        "p is not q": (
            "The values are right. But model now holds the very objects of old. It should keep "
            "its own parameters."
        ),
    },
)
def test_a_checkpoint_that_loads_nothing():
    """Some call strict=False dangerous, and here they are right: this checkpoint comes from a
    wrapped model. No error, and nothing is loaded.

    Repair the marked line: all of it must be loaded.
    """
    old, model = (
        nn.ModuleDict({"edge": nn.Linear(1, 1), "submodule": nn.Linear(1, 1)}) for _ in range(2)
    )
    saved = {f"module.{name}": value for name, value in old.state_dict().items()}
    # answer:
    saved = {name.removeprefix("module."): value for name, value in saved.items()}
    model.load_state_dict(saved)
    # given:
    # model.load_state_dict(saved, strict=False)
    # end
    assert [p.item() for p in model.parameters()] == [p.item() for p in old.parameters()]
    assert all(p is not q for p, q in zip(model.parameters(), old.parameters()))


@koan(
    claims=["A-4.3-15"],
    see="torch.nn.Module.get_submodule",
    hint=[
        "If the attribute is not found: a name with a dot is a path, and getattr knows no paths.",
        "If it is no parameter: which other tensors have a name in a state dict?",
        "If nothing became zero: you know a dictionary with all these names, whose tensors share "
        "the memory of the model.",
    ],
    why=(
        "state_dict() maps each name to the live tensor, parameter or buffer, already detached: "
        "writing into it writes into the model. get_parameter and get_buffer follow a path too, "
        "each for its own kind. (Zero is seldom a good start for a weight.)"
    ),
    wrong={
        "getattr(model, name).data.fill_(0)": "0 or 0.0 is no matter. The attribute is not found.",
        "if name in dict(model.named_parameters()):\n"
        "    model.get_parameter(name).data.fill_(0.0)": "And the other missing names?",
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
    at={
        "value == 1": (
            "The part that was loaded should still be full of ones. Only the missing names should"
            " be changed."
        ),
        "value == 0": (
            "The loaded part is right. But something that was missing is not zero: print "
            "model.state_dict(). What did your line reach?"
        ),
    },
)
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
            # answer:
            model.state_dict()[name].zero_()
            # given:
            # getattr(model, name).data.fill_(0.0)
            # end
        assert all((value == 1).all() for value in model[part].state_dict().values())
        assert all((value == 0).all() for value in model[other].state_dict().values())


@koan(
    claims=["A-4.3-08", "A-4.3-09"],
    see="torch.load",
    hint=[
        "A file remembers on which device each tensor was. Who wants to put it back there?",
        "A dict for map_location says: what was here should go there. And what it does not name?",
        "A tensor on meta has a shape and no numbers. Does it need a GPU?",
    ],
    why=(
        "torch.load puts each tensor back where it was saved, unless map_location says otherwise, "
        "and fails if that device is not here. No model is needed for that failure. On a machine "
        "that has the device the load works, and load_state_dict copies from the GPU into a CPU "
        "model without complaint."
    ),
    wrong={
        "[]": (
            "Some say the trouble is that the model is on the CPU. Copying across devices is "
            "allowed, and here is no model at all. Reading has a wish of its own."
        ),
        "['plain']": "One of the dicts speaks of a place that this file never mentions.",
        "['plain', 'from 99', 'from 0']": "One of the dicts names the very place in the file.",
        "['plain', 'meta', 'from 0']": "It is told to go nowhere. That needs no device.",
        "['plain', 'from 99', 'from 0', 'meta']": "map_location may take several forms.",
    },
)
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
    assert failed == answer(["plain", "from 0"])


@koan(
    see="torch.load",
    hint=[
        "With mmap=True nothing is read at first. A weight is fetched when it is used.",
        "Where would the second call fetch a weight from?",
        "The argument has a right type, and still it cannot be used together with mmap.",
    ],
    why=(
        "mmap=True leaves the weights on the disk and reads what is used, so a checkpoint may be "
        "larger than the memory. For that the system needs a file. Bytes in memory have none, "
        "and torch.load says so with a ValueError. The sum of the first call is 6."
    ),
    wrong={
        ("6.0", "TypeError"): "torch.load takes such buffers every day; only not with mmap.",
        ("6.0", "OSError"): "The system was never asked: there is no file to ask for.",
        ("0.0", "ValueError"): "What is not read yet is not zero. It is read when it is needed.",
    },
    right=[("6", "ValueError")],
    at={
        'mmap=True)["weight"]': (
            "This line reads the file. With mmap=True a weight is fetched when it is used: what "
            "does the sum see?"
        ),
        "caught.type": (
            "The sum is right. Now the bytes in memory: where would mmap fetch a weight? "
            "torch.load checks what it was given, before it reads."
        ),
    },
)
def test_weights_that_stay_on_the_disk(tmp_path):
    """One checkpoint, as a file and as bytes from the network. mmap=True leaves the weights on
    the disk until they are used.

    Predict the sum, and the exception of the line in the with-block.
    """
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.tensor([1.0, 2.0, 3.0])}, path)
    received = io.BytesIO(path.read_bytes())
    assert torch.load(path, mmap=True)["weight"].sum() == answer(6.0)
    with pytest.raises(Exception) as caught:
        torch.load(received, mmap=True)
    assert caught.type is answer(ValueError)


@koan(
    claims=["A-4.3-09"],
    see="torch.load",
    hint=[
        "map_location may be a function inside yours: it may note the place in a set.",
        "If reading fails: what that function returns is used. A storage that is returned as it "
        "came stays on the CPU.",
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
    at={
        "origins(near)": (
            "This file was saved on the CPU. A set of texts is wanted, places as map_location's "
            "function is given them. What do you return?"
        ),
        "origins(far)": (
            "The first file is right. The second names a place that is not here: note the place "
            "in the file, not where a tensor lands."
        ),
    },
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
        "If a shape is refused: keep the entries whose name and shape the model has. Then be "
        "lenient about the rest.",
        "If the list differs: loading returns a pair. Half of it is what is asked for.",
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
    at={
        "list(restore": (
            "This line looks at what you return: the names in the new model that the file could "
            "not fill, and no others."
        ),
        'state[f"module.norm.{name}"]': (
            "The list is right. But the norm does not hold the numbers of the file: all its "
            "entries should be loaded, whatever the head does."
        ),
        'new["head"].bias': (
            "List and norm are right. The head should be loaded where its shape fits, and left "
            "alone where it does not."
        ),
    },
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
