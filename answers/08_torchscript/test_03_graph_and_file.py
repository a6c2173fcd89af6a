"""A graph you can read, and a file that needs no class.

Documents: A 5.2, B 5
"""

import io
import warnings

import pytest
import torch
from torch import nn

from sensei import answer, koan

# A file of TorchScript holds the name of the module, and cannot be read back if a part of that
# name begins with a digit, as the name of this folder does.
__name__ = "torchscript_koans"


@pytest.fixture(autouse=True)
def no_notes():
    """TorchScript is deprecated and says so at each call. What the tracer says is known by now."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit")
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        yield


def through_a_file(module):
    """Save a scripted module, and load it again."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


def a_loaded_model():
    """A model out of a file. Its class lives in this function, and nobody else can see it."""

    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(2.0))
            self.register_buffer("mean", torch.tensor(1.0))
            self.label = "cat"
            self.reader = open

        def forward(self, x):
            return (x - self.mean) * self.weight

        @torch.jit.export
        def tripled(self, x):
            return x * 3

        def doubled(self, x):
            return x * 2

    return through_a_file(torch.jit.script(Kept()))


def with_helper(mark):
    """A scripted module: forward calls a helper that carries the mark."""

    class Marked(nn.Module):
        def forward(self, x):
            return self.helper(x)

        @mark
        def helper(self, x):
            return x + 1

    return torch.jit.script(Marked())


def attempt(action):
    """Do it, and say whether it worked."""
    try:
        action()
    except Exception:
        return "fails"
    return "works"


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-03", "A-5.2-04", "B-5-13", "B-5-16"],
    see="torch.jit.ScriptFunction",
    hint=[
        "Print scripted.graph and traced.graph. Read them like a program: one line, one operation.",
        "script has read the text. How often does each of the three stand in the text?",
        "trace has noted what happened. How often did each of them happen, as an operation?",
    ],
    why=(
        "Neither of them is C++ code, and none is built anew at each call: both are one fixed "
        "program in TorchScript's own language. In the scripted one, `if` and `for` are "
        "operations, with blocks below them. In the traced one there are three subtractions in a "
        "row."
    ),
    wrong={
        "[[0, 0, 3], [0, 0, 3]]": (
            "Some say script makes a dynamic graph, built from what happens at each call. It was "
            "not even called."
        ),
        "[[1, 1, 1], [1, 1, 1]]": "Does a recorder write down decisions, or operations?",
        "[[1, 1, 1], [0, 0, 1]]": "The loop ran on the example. How many times?",
        "[[3, 1, 3], [0, 0, 3]]": "A text is not unrolled. The `if` stands in it once.",
        "[[0, 0, 0], [0, 0, 3]]": (
            "Some say script turns Python into C++. Then there would be no graph to read."
        ),
    },
)
def test_two_graphs_of_one_loop():
    """One function, scripted and traced. How often does each of the three words stand in the
    graph: first in the scripted one, then in the traced one?"""

    def countdown(x):
        for _ in range(3):
            if x.sum() > 0:
                x = x - 1
        return x

    traced = torch.jit.trace(countdown, torch.tensor(9.0))
    graphs = str(torch.jit.script(countdown).graph), str(traced.graph)
    words = ("prim::If", "prim::Loop", "aten::sub")
    assert [[graph.count(word) for word in words] for graph in graphs] == answer(
        [[1, 1, 1], [0, 0, 3]]
    )


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["B-5-11"],
    see="torch.jit.freeze",
    hint=[
        "Which of them still have parameters? Print list(m.parameters()) of each.",
        "They hold the forward program. Has anybody said something of no_grad?",
        "One of them has turned its parameters into constants.",
    ],
    why=(
        "To capture a program is one thing, and to stop recording is another. Traced, scripted "
        "and loaded modules have parameters, build a graph and can be trained. freeze writes the "
        "parameters into the program as constants: nothing is left to train. To save memory in "
        "use, you still need no_grad or inference_mode."
    ),
    wrong={
        "['eager']": (
            "Some say trace and script are there to get rid of the training graph. They keep the "
            "forward program; autograd goes on as before."
        ),
        "['eager', 'scripted']": "A trace records operations. With parameters, not with numbers.",
        "['eager', 'traced', 'scripted']": "What is in the file? Look for parameters.",
        "['eager', 'traced', 'scripted', 'loaded', 'frozen']": (
            "eval() alone does not stop autograd. But one of them has no parameters any more."
        ),
    },
)
def test_who_still_builds_a_graph():
    """One layer, kept in five ways. Each is called. Whose result can still call backward?

    Write the names, in the order of the dict.
    """
    layer, x = nn.Linear(2, 1).eval(), torch.ones(1, 2)
    kept = {"eager": layer, "traced": torch.jit.trace(layer, x)}
    kept["scripted"] = torch.jit.script(layer)
    kept["loaded"] = through_a_file(kept["scripted"])
    kept["frozen"] = torch.jit.freeze(kept["scripted"])
    assert [name for name, m in kept.items() if m(x).requires_grad] == answer(
        ["eager", "traced", "scripted", "loaded"]
    )


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-12"],
    see="torch.jit.load",
    hint=[
        "A state_dict holds two kinds of these. A TorchScript file holds more.",
        "Which values have a type that script knows? A string? A function of Python's?",
        "Of the methods: which ones were compiled?",
    ],
    why=(
        "The file holds the compiled code and the data it works on: parameters, buffers, numbers, "
        "strings, lists. So it needs no class, and C++ can load it as well. What was never "
        "compiled, and what script has no type for, is gone; the class is gone too, and isinstance "
        "knows it no more."
    ),
    wrong={
        "[]": (
            "Some say the class must be there, or loading fails. So it is with a state_dict, which "
            "has no code in it."
        ),
        "['weight', 'mean']": "That would be a state_dict. This model can be called.",
        "['weight', 'mean', 'label', 'reader', 'tripled', 'doubled']": (
            "Could it be carried to a machine without Python?"
        ),
        "['weight', 'mean', 'tripled']": "A string is something that script knows.",
        "['weight', 'mean', 'label', 'tripled', 'doubled']": (
            "The code in the file is the compiled code. Who would have asked for the last one?"
        ),
    },
)
def test_what_is_in_the_file():
    """Read the helper `a_loaded_model`: a class is written, used, and gone when it returns.

    Which of these names has the loaded model? Keep the order.
    """
    loaded = a_loaded_model()
    assert loaded(torch.tensor(4.0)).item() == 6.0
    names = ["weight", "mean", "label", "reader", "tripled", "doubled"]
    assert [n for n in names if hasattr(loaded, n)] == answer(
        ["weight", "mean", "label", "tripled"]
    )


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-12"],
    see="torch.jit.unused",
    hint=[
        "Both marks keep script from compiling the helper. What do they put in its place?",
        "One leaves a call into Python there. The other promises that nobody will come by.",
        "A call into Python works as long as Python is there. Can it go into a file?",
    ],
    why=(
        "ignore leaves a call into Python: it works here, and nothing can be saved. unused puts an "
        "exception in its place: it can be saved, and fails if somebody comes by. So ignore is "
        "for debugging, and unused for ways that only training needs."
    ),
    wrong={
        "[['works', 'works'], ['works', 'works']]": "Then one mark would do, or none.",
        "[['fails', 'works'], ['works', 'fails']]": "The other way round: read both docstrings.",
        "[['works', 'fails'], ['works', 'fails']]": (
            "unused is meant seriously: the body of the helper is gone."
        ),
        "[['fails', 'works'], ['fails', 'works']]": (
            "An ignored helper is still called. Only the compiler looks away."
        ),
    },
)
def test_two_ways_to_leave_it_out():
    """forward calls a helper that script must not compile. It is marked with ignore, then with
    unused.

    First the module is called, then it is saved. What `works`, and what `fails`?
    """
    outcomes = []
    for mark in (torch.jit.ignore, torch.jit.unused):
        module = with_helper(mark)
        call = attempt(lambda: module(torch.ones(1)))
        save = attempt(lambda: torch.jit.save(module, io.BytesIO()))
        outcomes.append([call, save])
    assert outcomes == answer([["works", "fails"], ["fails", "works"]])


@pytest.mark.needs(python="<3.14")
@koan(
    see="torch.jit.script",
    hint=[
        "The error comes out of an interpreter that knows no classes of Python's.",
        "The message still ends with `ValueError: negative`. But that is only text.",
        "Not every type is built in. Which classes in dir(torch.jit) are exceptions, and which of "
        "them fits code that is compiled already?",
    ],
    why=(
        "Whatever scripted code raises comes out as this one type; the old name is text in the "
        "message. It is derived from Exception directly, so neither `except ValueError` nor "
        "`except RuntimeError` catches it. Look at your except clauses before you script."
    ),
    wrong={
        "ValueError": (
            "That is what the line says. The scripted code has no classes of Python's to raise."
        ),
        "RuntimeError": "If a kernel fails it is this one. But here the code itself raises.",
        "torch.jit.frontend.NotSupportedError": "raise is supported, and the compiler is done.",
        "torch.jit.TracingCheckError": "Nobody traces here.",
    },
)
def test_a_name_that_changes_on_the_way():
    """In Python this function raises a ValueError. Which type comes out of the scripted one?"""

    def positive(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    with pytest.raises(ValueError):
        positive(torch.tensor(-1.0))
    scripted = torch.jit.script(positive)
    with pytest.raises(Exception) as caught:
        scripted(torch.tensor(-1.0))
    assert caught.type is answer(torch.jit.Error)


@pytest.mark.needs(python="<3.14")
@koan(
    see="torch.jit.load",
    hint=[
        "load has the same argument as save. It is a dict here, too. But who fills it?",
        "load fills in only the names that it is asked for.",
        "What comes back are bytes.",
    ],
    why=(
        "Labels, a vocabulary, a version: such things belong in the same file as the model. load "
        "looks for the keys of your dict, and overwrites their values with bytes. An unknown key "
        "gets empty bytes and no error, so check what you got."
    ),
    wrong={
        "extra = {}\nmodel = torch.jit.load(file, _extra_files=extra)\n"
        "return model, extra['labels.txt'].decode().split(',')": (
            "Nothing was asked for, so nothing was filled in."
        ),
        "extra = {'labels.txt': ''}\nmodel = torch.jit.load(file, _extra_files=extra)\n"
        "return model, extra['labels.txt'].split(',')": "Are bytes split by a str?",
        "extra = {'labels': ''}\nmodel = torch.jit.load(file, _extra_files=extra)\n"
        "return model, extra['labels'].decode().split(',')": (
            "It was saved under another name. An unknown name is no error."
        ),
        "model = torch.jit.load(file)\nreturn model, model.labels": (
            "It lies beside the model in the file, and not in it."
        ),
        "return torch.jit.load(file), ['cat', 'dog']": "And what of the other file?",
    },
    right=[
        "files = {'labels.txt': None}\nmodel = torch.jit.load(file, _extra_files=files)\n"
        "return model, str(files['labels.txt'], 'utf-8').split(',')",
        "import zipfile\nwith zipfile.ZipFile(file) as archive:\n"
        "    name = [n for n in archive.namelist() if n.endswith('extra/labels.txt')][0]\n"
        "    labels = archive.read(name).decode().split(',')\n"
        "file.seek(0)\nreturn torch.jit.load(file), labels",
    ],
    at={
        "loaded, found = unpack": (
            "`unpack` should return two things: the model, then its labels."
        ),
        "loaded(torch.tensor(-1.0))": (
            "The first thing that `unpack` returns should be the model, ready to be called."
        ),
        "isinstance(loaded, torch.jit.ScriptModule)": (
            "The model computes well. It must come from the file, and `found` must be its own "
            "list of labels. Print both."
        ),
    },
)
def test_labels_in_the_same_file():
    """`pack` saves a model and its labels in one file. Write `unpack`: give back both, the labels
    as a list of str."""

    def pack(model, labels):
        file = io.BytesIO()
        extra = {"labels.txt": ",".join(labels)}
        torch.jit.save(torch.jit.script(model), file, _extra_files=extra)
        file.seek(0)
        return file

    def unpack(file):
        # answer:
        extra = {"labels.txt": ""}
        model = torch.jit.load(file, _extra_files=extra)
        return model, extra["labels.txt"].decode().split(",")
        # end

    for model, labels in ((nn.ReLU(), ["cat", "dog"]), (nn.Sigmoid(), ["one", "two", "three"])):
        loaded, found = unpack(pack(model, labels))
        assert loaded(torch.tensor(-1.0)) == model(torch.tensor(-1.0))
        assert isinstance(loaded, torch.jit.ScriptModule) and found == labels


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-12", "A-5.2-05"],
    see="torch.jit.load",
    hint=[
        "map_location moves the parameters and buffers. What else in this model has a device?",
        "Trace the model and print the trace's code. Where does the device of the ones stand, "
        "and as what?",
        "While a trace is made, Python reads x.device, once. Who reads it at each call?",
    ],
    why=(
        "In a trace x.device is a constant: the device of the example. map_location moves what is "
        "stored, and does not rewrite the program. So a file that was traced on a GPU asks for "
        "that GPU again. A scripted one asks x, each time. In a trace, ones_like(x) "
        "would stay with x as well: it has no device of its own."
    ),
    wrong={
        "torch.jit.save(torch.jit.trace(model, torch.ones(3), check_trace=False), file)": (
            "Without a check it is the same trace."
        ),
        "traced = torch.jit.trace(model, torch.ones(3))\n"
        "torch.jit.save(torch.jit.freeze(traced.eval()), file)": (
            "Now even the weight is a constant on one device."
        ),
        "torch.jit.save(torch.jit.trace(model.to('meta'), torch.ones(3, device='meta')), file)": (
            "Now it works there, and no longer on the CPU."
        ),
        "torch.save(model.state_dict(), file)": "Weights alone are no program.",
        "torch.jit.save(torch.jit.trace(model.double(), torch.ones(3)), file)": (
            "The dtype is not the matter."
        ),
    },
    right=[
        "file.write(torch.jit.script(model).save_to_buffer())",
        "scripted = torch.jit.script(model.eval())\ntorch.jit.save(scripted, file)",
        "class Counted(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = model.weight\n"
        "\n"
        "    def forward(self, x):\n"
        "        return x * self.weight + torch.ones_like(x).cumsum(0)\n"
        "\n"
        "torch.jit.save(torch.jit.trace(Counted(), torch.ones(3)), file)",
    ],
    at={
        "loaded(torch.ones(5, device=device))": (
            "File and weight are as they should be, but the call does not work. Read the message: "
            "is something fixed in the program?"
        ),
        "torch.jit.load(file, map_location=device)": (
            "What lies in the file cannot be loaded as a TorchScript program for this device. "
            "What have you written into it?"
        ),
        "loaded.weight.device.type": (
            "The file can be loaded. But map_location should find the weight as a parameter, "
            "and move it."
        ),
        "(y.device.type, tuple(y.shape))": (
            "The call works now. But its result has another device or another length than the "
            "input."
        ),
        "y.tolist() ==": (
            "Device and length are right. But the numbers are not those of this model."
        ),
    },
)
def test_a_file_for_another_device():
    """The file is loaded for another device (`meta` plays its part), and the call fails.

    Repair the marked line: the same model, for both devices and for any length.
    """

    class Numbered(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(10.0))

        def forward(self, x):
            return x * self.weight + torch.ones(x.shape[0], device=x.device).cumsum(0)

    model, file = Numbered(), io.BytesIO()
    # answer:
    torch.jit.save(torch.jit.script(model), file)
    # given:
    # torch.jit.save(torch.jit.trace(model, torch.ones(3)), file)
    # end
    for device in ("meta", "cpu"):
        file.seek(0)
        loaded = torch.jit.load(file, map_location=device)
        assert loaded.weight.device.type == device
        y = loaded(torch.ones(5, device=device))
        assert (y.device.type, tuple(y.shape)) == (device, (5,))
    assert y.tolist() == [11.0, 12.0, 13.0, 14.0, 15.0]
