"""Saving and loading: files that come back with less, with more, or not at all.

Documents: A 1, B 1
"""

import sys
import types
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sensei import answer, koan


@contextmanager
def a_file(name, **classes):
    """For a while there is a module of this name with these classes in it, as in a file."""
    module = types.ModuleType(name)
    for title, cls in classes.items():
        cls.__module__, cls.__qualname__ = name, title
        setattr(module, title, cls)
    sys.modules[name] = module
    try:
        yield module
    finally:
        del sys.modules[name]


@koan(
    claims=["A-1-11"],
    see="torch.nn.Module.load_state_dict",
    hint=[
        "Which of the layers does net.parameters() find?",
        "A strict load compares two lists of names: the file's and the model's. Who wrote them?",
    ],
    why=(
        "Layers in a plain list are registered nowhere: they are not saved, and not missed either, "
        "since the fresh model has the same blind spot. 'All keys matched' speaks of the names, "
        "not of the model. Use nn.ModuleList, and compare outputs before and after a load."
    ),
    wrong={
        "[6, 5.0, 5.0]": ("A strict load compares the keys of both sides. Which keys are there?"),
        "[6, 5.0, 0.0]": "What the checkpoint has, and the model knows, is loaded.",
        "[2, 5.0, 5.0]": "Two entries, three layers with two numbers each: not all came along.",
        "[2, 0.0, 0.0]": "One of the layers is an attribute of its own.",
        "[1, 5.0, 0.0]": "A linear layer has more than a weight.",
    },
)
def test_a_load_without_complaint():
    """The load is strict, and says <All keys matched successfully>. How many entries has the
    checkpoint? And what are the weights of the fresh model's head and of its first block?"""

    def build(value):
        net = nn.Module()
        net.head = nn.Linear(1, 1)
        net.blocks = [nn.Linear(1, 1), nn.Linear(1, 1)]
        for layer in (net.head, *net.blocks):
            nn.init.constant_(layer.weight, value)
        return net

    trained, fresh = build(5.0), build(0.0)
    saved = trained.state_dict()
    assert str(fresh.load_state_dict(saved)) == "<All keys matched successfully>"
    weights = [fresh.head.weight.item(), fresh.blocks[0].weight.item()]
    assert [len(saved), *weights] == answer([2, 5.0, 0.0])


@koan(
    see="torch.save",
    hint=[
        "A pickled object is a path to its class and a dictionary of its attributes.",
        "Which class does that path lead to today? And is `training` an attribute, or code?",
    ],
    why=(
        "The file holds attributes, and the name of a class. The code is whatever bears that name "
        "when you load: here 3 * x, in the mode of the old model. __init__ does not run again, so "
        "what the new class sets there is missing. A mixture that nobody trained, without a word."
    ),
    wrong={
        "2.0": (
            "Some say a file with the whole model holds its architecture, too. It holds a name. "
            "What does the name stand for now?"
        ),
        "4.0": "That is a new model, made today. Something did come out of the file.",
        "2.5": "The other way round: where is code kept, and where are the attributes?",
    },
)
def test_a_file_older_than_its_class(tmp_path):
    """The whole model is saved, in evaluation mode. Then somebody edits its class. Load the file:
    what does the model make of x = 1?"""

    class Before(nn.Module):
        def forward(self, x):
            return 2 * x + self.training / 2

    class After(nn.Module):
        def forward(self, x):
            return 3 * x + self.training

    with a_file("models", Net=Before):
        torch.save(Before().eval(), tmp_path / "net.pt")
    with a_file("models", Net=After):
        net = torch.load(tmp_path / "net.pt", weights_only=False)
    assert net(torch.tensor(1.0)).item() == answer(3.0)


@koan(
    see="torch.load",
    hint=[
        "The file says: take what is called Net from the module models. The module is there.",
        "Where are the parameters of a module kept: in its class, or in its attributes?",
    ],
    why=(
        "A pickled model is found again by the path of its class. Rename it, move its file, or "
        "define it in a script's __main__, and every old file is closed: Can't get attribute "
        "'Net'. An empty stand-in of that name opens it: the attributes, parameters and all, were "
        "in the file. Save its state dict, and never need the name again."
    ),
    wrong={
        ("ModuleNotFoundError", "['weight', 'bias']"): (
            "The module is still there, under its old name."
        ),
        ("NameError", "['weight', 'bias']"): "Near, but the name is looked up inside a module.",
        ("pickle.UnpicklingError", "['weight', 'bias']"): (
            "That is a refusal to trust. Trust was granted; something is missing."
        ),
        ("ImportError", "['weight', 'bias']"): (
            "The import goes well. It is the next step that fails."
        ),
        ("AttributeError", "[]"): (
            "The stand-in has no layers of its own. But its __init__ is not what fills it here."
        ),
    },
    at={
        "opened.state_dict()": (
            "The exception is right. Now an empty class opens the file: where do the attributes "
            "of such an object come from?"
        ),
    },
)
def test_a_class_with_a_new_name(tmp_path):
    """The whole model is saved; later its class is renamed. Which exception does loading raise?

    Then somebody puts an empty class of the old name there. Which names are in the state dict now?
    """

    class Net(nn.Linear): ...

    class StandIn(nn.Module): ...

    path = tmp_path / "net.pt"
    with a_file("models", Net=Net):
        torch.save(Net(1, 1), path)
    with a_file("models", Network=Net), pytest.raises(Exception) as caught:
        torch.load(path, weights_only=False)
    assert caught.type is answer(AttributeError)
    with a_file("models", Net=StandIn):
        opened = torch.load(path, weights_only=False)
    assert list(opened.state_dict()) == answer(["weight", "bias"])


@koan(
    see="torch.nn.Module.state_dict",
    hint=[
        "What must be in the file, if the class is written down in the code anyway?",
        "Build the model from the code of today, then put the numbers into it.",
    ],
    why=(
        "The numbers go into the file, the class stays in the code: such a file survives renamed "
        "classes and moved modules, and it opens without trusting anybody. The price: you build "
        "the model yourself, so keep the arguments of its constructor as plain numbers beside it."
    ),
    wrong={
        (
            "torch.save(model, path)",
            "restored = torch.load(path)",
        ): "Now it is refused for another reason: a whole model is more than weights.",
        (
            "import copy\ntorch.save(copy.deepcopy(model), path)",
            "restored = torch.load(path, weights_only=False)",
        ): "A copy has the same class, at the same path.",
        (
            "torch.save(model, path)",
            "restored = nets.Net(2, 1)\nrestored.load_state_dict(torch.load(path))",
        ): "The file of a whole model is not self-contained. It still asks for the old path.",
        (
            "torch.save(model.state_dict(), path)",
            "restored = torch.load(path)",
        ): "This gives back what was saved: a dictionary. A model must be made for it.",
        (
            "torch.save(model.state_dict(), path)",
            "restored = nets.Net(2, 1)",
        ): "A model, and a stranger to the file.",
    },
    right=[
        (
            "torch.save({'model': model.state_dict()}, path)",
            "restored = nets.Net(2, 1)\nrestored.load_state_dict(torch.load(path)['model'])",
        ),
        (
            "torch.save(model.state_dict(), path)",
            "restored = nets.Net(2, 1)\n"
            "restored.load_state_dict(torch.load(path, weights_only=True), assign=True)",
        ),
    ],
    at={
        "type(restored) is Net": (
            "`restored` is no Net. What lies in the file, and who should build the model?"
        ),
        "for parameter in restored.parameters()": (
            "A Net came out, but its numbers are not those that were saved. How do they get from "
            "the file into it?"
        ),
        "path.read_bytes()": (
            "The model is restored. But the file still knows the old path: what does the first of "
            "the marked lines put into it?"
        ),
    },
)
def test_a_class_that_moves_house(tmp_path):
    """Between saving and loading, the class moves from models.py to nets.py. Repair both marked
    lines: the model is restored, and the file does not need the old path."""

    class Net(nn.Linear):
        pass

    path = tmp_path / "net.pt"
    with a_file("models", Net=Net):
        model = Net(2, 1)
        # answer:
        torch.save(model.state_dict(), path)
        # given:
        # torch.save(model, path)
        # end
        numbers = [parameter.tolist() for parameter in model.parameters()]
        del model
    with a_file("nets", Net=Net) as nets:
        # answer:
        restored = nets.Net(2, 1)
        restored.load_state_dict(torch.load(path))
        # given:
        # restored = torch.load(path, weights_only=False)
        # end
    assert type(restored) is Net
    assert [parameter.tolist() for parameter in restored.parameters()] == numbers
    assert b"models" not in path.read_bytes()


@koan(
    see="torch.nn.DataParallel",
    hint=[
        "The wrapper is a module, too. Under which name does it hold the layer?",
        "The report is written from the model's side: first what it wanted, then what it got.",
        "Which of the names did both sides know?",
    ],
    why=(
        "The wrapper holds the layer as `module`, and each name begins with it. The strict error "
        "names both lists; strict=False only silences it, and loads nothing. Save "
        "wrapper.module.state_dict(), or take the prefix off: "
        "torch.nn.modules.utils.consume_prefix_in_state_dict_if_present."
    ),
    wrong={
        "[[], [], 5.0]": (
            "Some silence the error with strict=False, and think that it loads what it can find. "
            "It matches whole names."
        ),
        "[['weight'], ['module.weight'], 5.0]": (
            "Reported and loaded all the same? A name that does not match is skipped."
        ),
        "[['module.weight'], ['weight'], 0.0]": (
            "Seen from the file. The report speaks for the model."
        ),
        "[[], ['module.weight'], 0.0]": "And what has the model been waiting for?",
    },
)
def test_what_the_wrapper_wrote():
    """A checkpoint of a DataParallel model is loaded into the plain layer, with strict=False.

    Predict which names are reported missing, which unexpected, and the weight.
    """
    trained, plain = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.constant_(trained.weight, 5.0)
    nn.init.zeros_(plain.weight)
    saved = nn.DataParallel(trained).state_dict()
    missing, unexpected = plain.load_state_dict(saved, strict=False)
    found = [missing, unexpected, plain.weight.item()]
    assert found == answer([["weight"], ["module.weight"], 0.0])


@koan(
    see="torch.compile",
    hint=[
        "Print list(fast.state_dict()). What stands before each name?",
        "fast is a wrapper. Whose are the weights that it trains?",
    ],
    why=(
        "torch.compile(model) returns a wrapper that holds the model as _orig_mod. They share "
        "their parameters: train through the one, save the other. model.compile(), in place, "
        "leaves no wrapper and no prefix."
    ),
    wrong={
        "torch.save({k: v for k, v in fast.state_dict().items() if '_orig_mod' not in k}, path)": (
            "Away with the names that look odd. How many are left?"
        ),
        "torch.save({k.lstrip('_orig_mod.'): v for k, v in fast.state_dict().items()}, path)": (
            "lstrip takes letters, not a word. 'mid' is made of such letters."
        ),
        "import copy\ntorch.save(copy.deepcopy(fast).state_dict(), path)": (
            "The copy is wrapped as well."
        ),
        "torch.save(type(model)({'mid': nn.Linear(1, 1), 'out': nn.Linear(1, 1)}).state_dict(), "
        "path)": "The names are right, and the numbers are those of a stranger.",
        "torch.save(dict(fast.named_parameters()), path)": "The wrapper puts its name before all.",
    },
    right=[
        "torch.save(fast._orig_mod.state_dict(), path)",
        "torch.save({k.removeprefix('_orig_mod.'): v for k, v in fast.state_dict().items()}, path)",
        "torch.save({k.replace('_orig_mod.', ''): v for k, v in fast.state_dict().items()}, path)",
    ],
    at={
        "plain.load_state_dict(torch.load(path))": (
            "The plain model loads your file here, strictly. Read the message: are the names "
            "others, or is it no state dict that lies in the file?"
        ),
        "for parameter in plain.parameters()": (
            "All names fit. But the numbers are not those that `fast` was given."
        ),
    },
)
def test_a_checkpoint_of_a_compiled_model(tmp_path):
    """The training used `fast`. The plain model cannot load the checkpoint: all its names are
    reported missing. Repair the line that saves. (Nothing is compiled before the first call.)"""
    path = tmp_path / "fast.pt"
    for value in (7.0, 8.0):
        model = nn.ModuleDict({"mid": nn.Linear(1, 1), "out": nn.Linear(1, 1)})
        fast = torch.compile(model, backend="eager")
        for parameter in fast.parameters():
            nn.init.constant_(parameter, value)
        # answer:
        torch.save(model.state_dict(), path)
        # given:
        # torch.save(fast.state_dict(), path)
        # end
        plain = nn.ModuleDict({"mid": nn.Linear(1, 1), "out": nn.Linear(1, 1)})
        plain.load_state_dict(torch.load(path))
        assert [parameter.item() for parameter in plain.parameters()] == [value] * 4


@koan(
    see="torch.nn.Module.load_state_dict",
    hint=[
        "Read the error of the first line. It proposes another method. What does that one not do?",
        "Loading copies numbers into the memory that is there. On meta there is none.",
        "Either get memory first and then fill all of it, or let the model take over the tensors.",
    ],
    why=(
        "With assign=True the model takes over the tensors of the checkpoint: no memory twice. Or "
        "to_empty(device='cpu') first, then a load that fills everything. to_empty alone follows "
        "the error's advice and leaves whatever was in the memory: a model of noise, and no error."
    ),
    wrong={
        "model.to_empty(device='cpu')": (
            "The advice of the error message, and no error any more. But where would the numbers "
            "come from?"
        ),
        "model.load_state_dict(state)": (
            "A warning only: copying to meta goes nowhere, and the model is still there."
        ),
        "model.load_state_dict(state)\nmodel.to_empty(device='cpu')": (
            "Memory after the numbers. The order matters."
        ),
        "model.to_empty(device='cpu').reset_parameters()": (
            "Now there are numbers, fresh ones. The trained ones are in the checkpoint."
        ),
        "model.weight = nn.Parameter(state['weight'])": "A layer has more than its weight.",
        "model = nn.Linear(2, 2)\nmodel.load_state_dict(state)": (
            "A second model. The skeleton is still empty."
        ),
    },
    right=[
        "model.to_empty(device='cpu')\nmodel.load_state_dict(state)",
        "model.to_empty(device='cpu').load_state_dict(state)",
        "model.weight = nn.Parameter(state['weight'])\nmodel.bias = nn.Parameter(state['bias'])",
    ],
    at={
        "skeleton.weight.tolist()": (
            "This line reads the weight of the skeleton. Has it any memory by now, and are the "
            "checkpoint's numbers in it?"
        ),
        "skeleton.bias.tolist()": (
            "The weight is right. Now the bias is read: has it memory, and the numbers of the "
            "checkpoint?"
        ),
        "type(p) for p in": (
            "The numbers are right. But weight and bias must both still be registered, as "
            "Parameters."
        ),
        "p.requires_grad and p.device.type": (
            "Both are Parameters with the right numbers. But one would not be trained, or is not "
            "on the CPU."
        ),
    },
)
def test_fill_a_skeleton():
    """Large models begin on "meta": names and shapes, and no memory. This one should get its
    numbers from a checkpoint, and raises. Repair the marked lines; keep the model."""
    state = {"weight": torch.full((2, 2), 3.0), "bias": torch.full((2,), 4.0)}
    with torch.device("meta"):
        skeleton = model = nn.Linear(2, 2)
    # answer:
    model.load_state_dict(state, assign=True)
    # given:
    # model.to("cpu")
    # model.load_state_dict(state)
    # end
    assert skeleton.weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert skeleton.bias.tolist() == [4.0, 4.0]
    assert [type(p) for p in skeleton.parameters()] == [nn.Parameter, nn.Parameter]
    assert all(p.requires_grad and p.device.type == "cpu" for p in skeleton.parameters())


@koan(
    see="torch.nn.Module.register_buffer",
    hint=[
        "The load takes over tensors by their names. Which names has the checkpoint?",
        "Two of the four are never saved. Remember how the first koan of this file went.",
    ],
    why=(
        "What is not in the state dict cannot come out of it: the buffer with persistent=False, "
        "and the tensor that is no buffer at all. Strict does not miss them, and only the first "
        "use fails. Make such tensors anew after the load."
    ),
    wrong={
        "[]": "All keys matched. But not everything in this model has a key.",
        "['mean', 'mask', 'scale']": "A buffer is saved like a parameter, if it does not refuse.",
        "['mask']": "Who would have saved a plain attribute?",
        "['scale']": "One of the buffers asks not to be saved.",
    },
)
def test_who_stays_on_meta():
    """A skeleton takes over a checkpoint with assign=True. The load is strict, and it succeeds.

    Which of the four tensors are still on meta?
    """

    def build():
        net = nn.Module()
        net.weight = nn.Parameter(torch.ones(2))
        net.register_buffer("mean", torch.ones(2))
        net.register_buffer("mask", torch.ones(2), persistent=False)
        net.scale = torch.ones(2)
        return net

    with torch.device("meta"):
        net = build()
    net.load_state_dict(build().state_dict(), assign=True)
    names = ("weight", "mean", "mask", "scale")
    assert [name for name in names if getattr(net, name).is_meta] == answer(["mask", "scale"])


@koan(
    see="torch.load",
    hint=[
        "What does open() leave behind before the first byte is written?",
        "torch.save opens the file, then it turns the objects into bytes, then it writes. At which "
        "step does the rule fail?",
    ],
    why=(
        "The file is emptied first, and written after that. Whatever happens in between, a kill or "
        "an error of pickle, the old checkpoint is lost. (A file that begins well raises another "
        "error: RuntimeError.) Save under another name, then os.replace(): the old file stays "
        "whole until the new one is."
    ),
    wrong={
        ("FileNotFoundError", "{}"): "The file is there. There is nothing in it.",
        ("RuntimeError", "{}"): (
            "This is raised for a file that begins well and is cut off later. This one is empty."
        ),
        ("OSError", "{}"): "For the system all is well: the file can be opened and read.",
        ("EOFError", "{'epoch': 3}"): (
            "The save raised, so nothing was changed? It had opened the file for writing before."
        ),
        ("EOFError", "{'epoch': 4}"): "Entries are not written one by one: all are pickled first.",
    },
    at={
        "assert found ==": (
            "The exception is right. The second job has a good file, and its save raises. What "
            "had already been done to the file by then?"
        ),
    },
)
def test_killed_while_saving(tmp_path):
    """A job saves over its only checkpoint, and is killed at the wrong moment. The file is empty.
    Which exception does loading raise?

    Another job is not killed, but its save raises: pickle takes no lambda. What is `found`?
    """
    path, found = tmp_path / "last.pt", {}
    path.open("wb").close()
    with pytest.raises(Exception) as caught:
        torch.load(path)
    assert caught.type is answer(EOFError)
    torch.save({"epoch": 3}, path)
    with suppress(Exception):
        torch.save({"epoch": 4, "rule": lambda rate: rate / 2}, path)
    with suppress(Exception):
        found = torch.load(path)
    assert found == answer({})


@koan(
    see="torch.load",
    hint=[
        "torch.load knows tensors, what PyTorch itself saves, and the plain types of Python.",
        "Print the type of each entry, and the module that the type comes from.",
    ],
    why=(
        "weights_only=True knows tensors, dtypes, sizes, numbers, strings and containers. A number "
        "that NumPy computed prints like a float and is an object of NumPy; a Path is an object of "
        "pathlib. One such entry, and the whole file is refused. Save float(best) and str(folder)."
    ),
    wrong={
        "['optimizer', 'dtype', 'best']": (
            "One of the numbers has another type than it seems. Print type(...) of it."
        ),
        "['optimizer']": "A dtype belongs to PyTorch: it says what a tensor is made of.",
        "['dtype', 'best']": (
            "An optimizer is an object. Its state dict is a dictionary of tensors and numbers."
        ),
        "[]": (
            "weights_only does not mean tensors and nothing else. It means: no foreign classes."
        ),
        "['optimizer', 'dtype', 'best', 'folder']": (
            "torch.save writes them all. It is the load that chooses."
        ),
    },
)
def test_a_checkpoint_of_odds_and_ends(tmp_path):
    """Each entry is saved in a file of its own, and loaded. Some raise. Which ones come back?"""
    adam = torch.optim.Adam([torch.zeros(1)]).state_dict()
    best = np.array([0.8, 0.9]).max()
    entries = {"optimizer": adam, "dtype": torch.bfloat16, "best": best, "folder": Path("runs")}
    loaded = []
    for name, entry in entries.items():
        torch.save(entry, tmp_path / name)
        with suppress(Exception):
            torch.load(tmp_path / name)
            loaded.append(name)
    assert loaded == answer(["optimizer", "dtype"])


@koan(
    see="torch.serialization.safe_globals",
    hint=[
        "Loading a pickle may call functions that its writer chose. What does Trap ask for?",
        "PyTorch's message proposes weights_only=False first. That is a way for files that nobody "
        "else can have touched: it trusts every class in every file, Trap as well. Read on: the "
        "message has a second way.",
        "Name the one class that you trust, and nobody else.",
    ],
    why=(
        "weights_only=False makes the error go away, and runs whatever a file asks for. "
        "safe_globals([Settings]) trusts one class, for these lines only; add_safe_globals trusts "
        "it for the whole process. Best is a checkpoint that needs neither: save vars(settings)."
    ),
    wrong={
        "return torch.load(path, weights_only=False)": (
            "PyTorch's message puts it first, for files from a source that you trust. `read` gets "
            "a stranger's file too, and now does what that file asks for: a folder was made."
        ),
        "try:\n"
        "    return torch.load(path)\n"
        "except Exception:\n"
        "    return torch.load(path, weights_only=False)": (
            "A door that opens for everybody who is refused the first time."
        ),
        "return torch.load(path, map_location='cpu')": "Nobody asked where. It asked whose.",
        "with suppress(Exception):\n    return torch.load(path)": (
            "No error, and nothing loaded either."
        ),
    },
    right=[
        "torch.serialization.add_safe_globals([Settings])\nreturn torch.load(path)",
        "with torch.serialization.safe_globals([Settings]):\n"
        "    return torch.load(path, weights_only=True, map_location='cpu')",
        "from torch.serialization import safe_globals\n"
        "with safe_globals([Settings]):\n"
        "    return torch.load(path)",
    ],
    at={
        'checkpoint["settings"].rate': (
            "`read` should return all that was saved in your own file, with the Settings in it."
        ),
        '(tmp_path / "opened").exists()': (
            "Your own file opens. But a stranger's file ran code as well: it made a folder. Whom "
            "does `read` trust?"
        ),
    },
)
def test_open_the_door_for_one(tmp_path):
    """Your checkpoint holds an object of your own class `Settings`, and torch.load refuses it.
    Repair `read`. A file from somebody else must run nothing on your machine: so do not take the
    first advice that you get."""

    class Settings:
        def __init__(self, rate):
            self.rate = rate

    class Trap:
        def __reduce__(self):
            return Path.mkdir, (tmp_path / "opened",)

    def read(path):
        # answer:
        with torch.serialization.safe_globals([Settings]):
            return torch.load(path)
        # given:
        # return torch.load(path)
        # end

    with a_file("settings", Settings=Settings):
        for rate in (0.1, 0.3):
            torch.save({"settings": Settings(rate), "rate": rate}, tmp_path / "mine.pt")
            checkpoint = read(tmp_path / "mine.pt")
            assert checkpoint["settings"].rate == checkpoint["rate"] == rate
        torch.save({"settings": Trap()}, tmp_path / "theirs.pt")
        with suppress(Exception):
            read(tmp_path / "theirs.pt")
    torch.serialization.clear_safe_globals()
    assert not (tmp_path / "opened").exists()


@koan(
    see="torch.optim.Optimizer.state_dict",
    hint=[
        "The rate is a number in a dictionary. The velocity is a tensor.",
        "Which of the two can be changed in place, while somebody else holds it?",
    ],
    why=(
        "The settings are copied, since they are put into new dictionaries; the velocity is the "
        "live tensor, and goes on moving. Half a photograph: together with the best weights it "
        "belongs to no moment at all. copy.deepcopy, or a file, takes the whole picture."
    ),
    wrong={
        "[0.5, 1.0]": (
            "state_dict() does not take a snapshot of everything. Which part of it costs memory?"
        ),
        "[0.25, 2.0]": "The dictionaries of the settings are new. Only tensors are shared.",
        "[0.25, 1.0]": "The other way round: which part is shared?",
        "[0.5, 1.5]": "With momentum=1 nothing of the old velocity is lost.",
    },
)
def test_half_a_photograph():
    """The state of an optimizer is kept after the best epoch. Then the rate is halved, and one more
    step is made. What does the kept state say of the rate and of the velocity?"""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=1.0)
    weight.grad = torch.ones(1)
    optimizer.step()
    best = optimizer.state_dict()
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.step()
    velocity = best["state"][0]["momentum_buffer"]
    assert [best["param_groups"][0]["lr"], velocity.item()] == answer([0.5, 2.0])


@koan(
    see="torch.optim.Optimizer.load_state_dict",
    hint=[
        "Print optimizer.param_groups before and after the load.",
        "A state dict holds velocities and settings. Which of them did you want from the file?",
        "Who speaks last is right.",
    ],
    why=(
        "The checkpoint brings its own settings, the rate among them, and overrules what the "
        "constructor was told. Change param_groups after the load (or the file's before it). With "
        "a scheduler this is its task, and its state belongs in the checkpoint, too."
    ),
    wrong={
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)": (
            "The rate is the new one. But the velocity from the file is lost."
        ),
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)\n"
        "optimizer.load_state_dict(saved)\n"
        "optimizer.lr = rate": (
            "No error: an attribute that nobody reads. Where does the step look for the rate?"
        ),
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)\n"
        "optimizer.load_state_dict(saved)\n"
        "optimizer.defaults['lr'] = rate": ("The defaults are for groups that are added later."),
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)\n"
        "for group in optimizer.param_groups:\n"
        "    group['lr'] = rate\n"
        "optimizer.load_state_dict(saved)": "Right, and too early.",
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)\n"
        "optimizer.load_state_dict({**saved, 'state': {}})": "That drops the half that was wanted.",
    },
    right=[
        "optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)\n"
        "optimizer.load_state_dict(saved)\n"
        "optimizer.param_groups[0]['lr'] = rate",
        "saved['param_groups'][0]['lr'] = rate\n"
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)\n"
        "optimizer.load_state_dict(saved)",
        "optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)\n"
        "groups = optimizer.state_dict()['param_groups']\n"
        "optimizer.load_state_dict({'state': saved['state'], 'param_groups': groups})",
    ],
    at={
        "before - weight.item()": (
            "This step should be the new rate times a velocity that goes on from the file. Which "
            "of the two is another one?"
        ),
    },
)
def test_a_rate_that_is_forgotten_at_once():
    """A training goes on from its checkpoint, with a new rate. No error, and the steps are as long
    as before. Repair the marked lines. The velocity in the checkpoint must count, too."""

    def resume(weight, saved, rate):
        # answer:
        optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)
        optimizer.load_state_dict(saved)
        for group in optimizer.param_groups:
            group["lr"] = rate
        # given:
        # optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.5)
        # optimizer.load_state_dict(saved)
        # end
        return optimizer

    for rate, gradient in ((0.1, 1.0), (0.25, 3.0)):
        weight = nn.Parameter(torch.zeros(()))
        weight.grad = torch.tensor(gradient)
        first = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
        first.step()
        before = weight.item()
        resume(weight, first.state_dict(), rate).step()
        assert before - weight.item() == pytest.approx(rate * 1.5 * gradient)


@koan(
    claims=["B-1-10"],
    see="torch.nn.Module.eval",
    hint=[
        "The trained model was in evaluation mode when it was saved. Is that in its state dict?",
        "Print restored.training, and think of what a batch norm does with it.",
    ],
    why=(
        "The mode is not saved: a new model is in training mode, whatever the old one was in. Then "
        "a batch norm measures each batch, so an answer depends on the neighbours, and accuracy "
        "falls as far as chance. no_grad() is about gradients only, and changes no layer's mode."
    ),
    wrong={
        "with torch.no_grad():\n    model.load_state_dict(state)\nreturn model": (
            "no_grad is for gradients. It sets no layer into another mode."
        ),
        "return model.requires_grad_(False)": (
            "Frozen weights do not stop a batch norm from measuring each batch."
        ),
        "state = {**state, 'training': torch.tensor(False)}\n"
        "model.load_state_dict(state, strict=False)\n"
        "return model": "The mode is no tensor, and strict=False hides that nobody wanted it.",
        "return model[0]": "Only a part of the model.",
        "model.training = False\nreturn model": (
            "The flag of the container. Each layer has its own."
        ),
        "model[0].momentum = 0.0\nreturn model": (
            "Now the statistics stay as they are, but they are not used either."
        ),
    },
    right=[
        "model.eval()\nreturn model",
        "return model.train(False)",
        "for module in model.modules():\n    module.training = False\nreturn model",
    ],
    at={
        "module.training for module in": (
            "These answers are right. But some module is still in training mode: print `training` "
            "for each one in modules()."
        ),
        "p.requires_grad for p in": (
            "Answers and modes are right. But some parameter asks for no gradient any more, and "
            "nobody wanted that."
        ),
    },
)
def test_one_picture_and_its_company():
    """The restored model judges one sample by its company: the same sample gets other answers in
    other batches. Everything was loaded. Repair the marked line."""

    def restore(state):
        model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
        model.load_state_dict(state)
        # answer:
        return model.eval()
        # given:
        # return model
        # end

    trained = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    trained(torch.tensor([[1.0], [2.0], [6.0]]))
    trained.eval()
    restored = restore(trained.state_dict())
    for other in (0.0, 9.0):
        batch = torch.tensor([[1.0], [other]])
        torch.testing.assert_close(restored(batch), trained(batch))
    assert not any(module.training for module in restored.modules())
    assert all(p.requires_grad for p in restored.parameters())


@koan(
    see="torch.load",
    hint=[
        "If loading fails, compare the missing names with the unexpected ones: what is too much "
        "in a name, or too little?",
        "Wrappers nest, in both orders. How many prefixes can a name have?",
        "A word inside a name is no prefix, and an ending may fit two names. Print both lists.",
        "A checkpoint without the norm must not load in silence. And what else does a model need "
        "before it can predict?",
    ],
    why=(
        "Peel the prefixes from the front, as often as needed; load strictly, so that what is "
        "missing is an error today and not a riddle next week; and set the mode, since no file "
        "holds it. Better still: save the inner model, and none of this is needed."
    ),
    wrong={
        "state = torch.load(path)\n"
        "model.load_state_dict(state, strict=False)\n"
        "model.eval()": "No error any more. For the wrapped ones, nothing was loaded either.",
        "state = torch.load(path)\n"
        "state = {\n"
        "    k.removeprefix('module.').removeprefix('_orig_mod.'): v for k, v in state.items()\n"
        "}\n"
        "model.load_state_dict(state)\n"
        "model.eval()": "Good for one order of the wrappers. There is another.",
        "state = torch.load(path)\n"
        "state = {\n"
        "    k.replace('module.', '').replace('_orig_mod.', ''): v for k, v in state.items()\n"
        "}\n"
        "model.load_state_dict(state)\n"
        "model.eval()": "replace works everywhere in a name. 'my_module' is hit, too.",
        "state = torch.load(path)\n"
        "state = {k: v for k, v in state.items() if not k.startswith(('module.', '_orig_mod.'))}\n"
        "model.load_state_dict(state)\n"
        "model.eval()": "The odd names are gone, and with them the numbers.",
        "state = torch.load(path)\n"
        "state = {'.'.join(k.split('.')[-2:]): v for k, v in state.items()}\n"
        "model.load_state_dict(state)\n"
        "model.eval()": "Good while a name has two parts. Layers nest.",
        "state = torch.load(path)\n"
        "state = {\n"
        "    n: next(v for k, v in state.items() if k.endswith(n)) for n in model.state_dict()\n"
        "}\n"
        "model.load_state_dict(state)\n"
        "model.eval()": "One name may be the ending of another. Then the first one is taken twice.",
        "wrappers = {'module', '_orig_mod'}\n"
        "state = torch.load(path)\n"
        "state = {'.'.join(p for p in k.split('.') if p not in wrappers): v "
        "for k, v in state.items()}\n"
        "model.load_state_dict(state)": "All is loaded. But is the model ready to predict?",
        "wrappers = {'module', '_orig_mod'}\n"
        "state = torch.load(path)\n"
        "state = {'.'.join(p for p in k.split('.') if p not in wrappers): v "
        "for k, v in state.items()}\n"
        "model.load_state_dict(state, strict=False)\n"
        "model.eval()": "A checkpoint that lacks something is taken without a word.",
        "state = torch.load(path)\n"
        "for key, value in zip(model.state_dict().values(), state.values()):\n"
        "    key.copy_(value)\n"
        "model.eval()": "By position instead of by name: zip stops in silence when one is short.",
    },
    right=[
        "wrappers = {'module', '_orig_mod'}\n"
        "state = torch.load(path)\n"
        "state = {'.'.join(p for p in k.split('.') if p not in wrappers): v "
        "for k, v in state.items()}\n"
        "model.load_state_dict(state)\n"
        "model.eval()",
        "import re\n"
        "state = torch.load(path, map_location='cpu')\n"
        "state = {re.sub(r'^((module|_orig_mod)\\.)*', '', k): v for k, v in state.items()}\n"
        "model.load_state_dict(state)\n"
        "model.train(False)",
        "from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present\n"
        "state = torch.load(path)\n"
        "for prefix in ('module.', '_orig_mod.', 'module.'):\n"
        "    consume_prefix_in_state_dict_if_present(state, prefix)\n"
        "model.eval().load_state_dict(state)",
    ],
    at={
        "parameter.item() for parameter in fresh": (
            "The load went through, but the numbers are not those of the checkpoint. Print the "
            "names on both sides: which went where?"
        ),
        "fresh.named_modules()": (
            "The numbers are right. But these modules are not ready to predict yet."
        ),
        "pytest.raises(RuntimeError)": (
            "All whole checkpoints are right. This one lacks a part, and `restore` takes it "
            "without a word."
        ),
    },
)
def test_load_whatever_the_wrapper(tmp_path):
    """Write `restore`: put the checkpoint into the plain model, ready to predict. The file may come
    from DataParallel, from torch.compile, or from both, in either order. If it lacks a part, that
    must raise."""

    def restore(model, path):
        # answer:
        state = {}
        for name, value in torch.load(path, map_location="cpu").items():
            while name.startswith(("module.", "_orig_mod.")):
                name = name.split(".", 1)[1]
            state[name] = value
        model.load_state_dict(state)
        model.eval()
        # end

    def build():
        return nn.ModuleDict({"my_module": nn.ModuleDict({"norm": norm(1)}), "norm": norm(1)})

    def compile_(model):
        return torch.compile(model, backend="eager")

    path, wrap, norm = tmp_path / "a.pt", nn.DataParallel, nn.BatchNorm1d
    for wrappers in ((), (wrap,), (compile_,), (compile_, wrap), (wrap, compile_)):
        model, fresh, numbers = build(), build(), torch.arange(4.0) + len(wrappers)
        nn.utils.vector_to_parameters(numbers, model.parameters())
        for wrapper in wrappers:
            model = wrapper(model)
        torch.save(model.state_dict(), path)
        restore(fresh, path)
        assert [parameter.item() for parameter in fresh.parameters()] == numbers.tolist()
        assert [name for name, layer in fresh.named_modules() if layer.training] == []
    torch.save({k: v for k, v in model.state_dict().items() if "my_module" in k}, path)
    with pytest.raises(RuntimeError):
        restore(build(), path)
