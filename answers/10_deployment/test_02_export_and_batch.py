"""A program that travels: files without their class, weights, and what a server may change.

Documents: B 5
"""

import sys
import types
import warnings

import pytest
import torch
from torch import nn

from sensei import answer, koan


def outcome(ask):
    """The shape of what comes back, or the name of the exception."""
    try:
        return tuple(ask().shape)
    except Exception as error:
        return type(error).__name__


@koan(
    claims=["B-5-20"],
    see="torch.export.save",
    hint=[
        "What is in each of the files: numbers, the name of a class, or operations?",
        "Weights need somebody who knows what to do with them. Who is it in the second line?",
        "Read in the manual what torch.export records. Is Python code needed to replay it?",
    ],
    why=(
        "A pickled module holds the NAME of its class. Weights fit into any module with the same "
        "names and shapes. A program holds the operations themselves: it needs no class, and so "
        "it can be compiled (AOTInductor) and run by C++ as well. TorchScript files could do that "
        "too; they are on their way out."
    ),
    wrong={
        "['ModuleNotFoundError', (1, 1), 'ModuleNotFoundError']": (
            "Some say that Python without the class cannot do anything with such a file."
        ),
        "['AttributeError', (1, 1), (1, 1)]": (
            "It would be so if shop were there, and only Price were missing. It is gone whole."
        ),
        "['ModuleNotFoundError', 'ModuleNotFoundError', (1, 1)]": (
            "A state_dict holds names and tensors. Which class they came from is not in it."
        ),
        "[(1, 1), (1, 1), (1, 1)]": "Does a pickle hold the code of a class?",
    },
)
def test_three_files_from_a_shop_that_closed(tmp_path, monkeypatch):
    """Price lives in a module `shop`. Three files are written; then `shop` is deleted.

    What becomes of the three attempts to answer? A shape, or the name of the exception.
    """
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    sys.modules["shop"].Price = type("Price", (nn.Linear,), {"__module__": "shop"})
    model, x = sys.modules["shop"].Price(2, 1), torch.ones(1, 2)
    torch.save(model, tmp_path / "module")
    torch.save(model.state_dict(), tmp_path / "weights")
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "program")
    monkeypatch.delitem(sys.modules, "shop")
    linear, call = nn.Linear(2, 1), torch.func.functional_call
    asks = [lambda: torch.load(tmp_path / "module", weights_only=False)(x)]
    asks += [lambda: call(linear, torch.load(tmp_path / "weights"), x)]
    asks += [lambda: torch.export.load(tmp_path / "program").module()(x)]
    assert [outcome(ask) for ask in asks] == answer(["ModuleNotFoundError", (1, 1), (1, 1)])


@koan(
    see="torch.nn.Module.state_dict",
    hint=[
        "state_dict() is a dict with one attribute more. Print state._metadata.",
        "Does pickle keep the attributes of an object? Does a comprehension?",
        "A program keeps its weights in a dict of its own. Whose version should it know?",
    ],
    why=(
        "The version travels beside the tensors, as an attribute of what state_dict() returns. "
        "save and load keep it; whoever builds a new dict loses it, and a layer that mends old "
        "files by their version cannot know how old this one is. Filter with pop() or del."
    ),
    wrong={
        "[2, 2, 2, 2]": "It is in none of the tensors. So where is it, and who takes it along?",
        "[2, None, None, None]": "A file holds more than the entries. pickle keeps the object.",
        "[None, None, None, None]": "Print state._metadata, before anything happens to it.",
        "[2, 2, 2, None]": "A comprehension walks over the entries. What does it leave behind?",
    },
)
def test_the_version_of_a_layer(tmp_path):
    """A layer tells its files that it is version 2, so that later versions can mend old files.

    Four dicts hold its weights. Which version does the layer read from each when it loads?
    """

    class Layer(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state, prefix, metadata, *rest):
            seen.append(metadata.get("version"))

    layer, seen = Layer(2, 2), []
    state = layer.state_dict()
    torch.save(state, tmp_path / "weights")
    filtered = {name: value for name, value in state.items() if name != "aux"}
    program = torch.export.export(layer, (torch.ones(1, 2),))
    for weights in (state, torch.load(tmp_path / "weights"), filtered, program.state_dict):
        layer.load_state_dict(weights)
    assert seen == answer([2, 2, None, None])


@koan(
    claims=["B-5-10"],
    see="torch.export.export",
    hint=[
        "An export writes down what forward does. Was the block around it a part of forward?",
        "A decorator on forward is at work in each call. So is it written down?",
        "If no weight wants a gradient, is there anything to record?",
    ],
    why=(
        "A program is a module: outside of a block its answers carry a graph, unless forward "
        "itself turns it off or no weight asks for it. How you exported does not matter. So "
        "inference_mode belongs around the call, for a program as for any model."
    ),
    wrong={
        "[]": "Some say an export is inference only. Its weights are parameters as before.",
        "['plain']": "That block was open while the export looked. Who opens it in the server?",
        "['plain', 'quiet forward', 'quiet export']": (
            "What forward does to grad mode is written down, like an operation."
        ),
        "['plain', 'quiet forward', 'quiet export', 'frozen']": (
            "A graph is for somebody who wants a gradient. Not everybody here does."
        ),
    },
)
def test_four_exports_and_their_graphs():
    """Four programs are asked, in a server that opens no block of its own.

    Whose answers still carry a graph? Names, in order.
    """

    class Quiet(nn.Linear):
        @torch.no_grad()
        def forward(self, x):
            return super().forward(x)

    x, frozen = torch.ones(1, 2), nn.Linear(2, 1).requires_grad_(False)
    models = {"plain": nn.Linear(2, 1), "quiet forward": Quiet(2, 1)}
    programs = {name: torch.export.export(model, (x,)) for name, model in models.items()}
    with torch.no_grad():
        programs["quiet export"] = torch.export.export(nn.Linear(2, 1), (x,))
    programs["frozen"] = torch.export.export(frozen, (x,))
    found = [name for name, program in programs.items() if program.module()(x).requires_grad]
    assert found == answer(["plain", "quiet export"])


@koan(
    see="torch.export.ExportedProgram.module",
    hint=[
        "In Python a key that nobody reads does no harm. Who reads the dict of a program?",
        "The program takes the input apart, by the pattern of its example, before it computes.",
        "The argument is a dict, as it should be. It is what the dict holds that is not right.",
    ],
    why=(
        "The structure of the example is a part of the program: the same keys, the same nesting, "
        "and arguments given the same way, by place or by name. Cut a request to that form before "
        "you pass it on; clients add fields."
    ),
    wrong={
        "None": "So it is in Python. A program compares the pattern first.",
        "KeyError": "No key is missing. There is one too many.",
        "TypeError": "A dict was expected, and a dict came.",
        "AssertionError": "Close: sizes are checked in such a way. The pattern comes before.",
    },
)
def test_a_field_that_nobody_reads():
    """A client adds a field to its request. The model never looks at it; the program was exported
    without it. Which exception comes from the program?"""

    class Score(nn.Module):
        def forward(self, request):
            return request["pixels"].sum(1)

    request = {"pixels": torch.ones(1, 4)}
    program = torch.export.export(Score(), (request,)).module()
    request["client"] = torch.tensor([7])
    assert Score()(request).item() == 4.0
    with pytest.raises(Exception) as caught:
        program(request)
    assert caught.type is answer(ValueError)


@pytest.mark.needs(torch=">=2.9")
@koan(
    claims=["B-5-21"],
    see="torch.onnx.export",
    hint=[
        "Print the signature of torch.onnx.export. What is the default of `dynamo`?",
        "Who writes the functions that translate operators: torch, or a package beside it?",
        "The failure is that of a plain Python line near the top of a file.",
    ],
    why=(
        "Since 2.9 the exporter builds on torch.export, and on the packages onnx and onnxscript, "
        "which are no part of torch. It was built on TorchScript before. And ONNX is one route of "
        "several: TensorRT can be used from PyTorch too, and ONNX files run in many runtimes."
    ),
    wrong={
        "None": "Some remember the TorchScript exporter, which is not the default any more.",
        "NotImplementedError": "The exporter is complete. What it builds on is not there.",
        "AttributeError": "torch.onnx.export exists in every build of torch.",
        "RuntimeError": "It does not get as far as the model.",
    },
)
def test_an_export_with_nothing_but_torch(monkeypatch):
    """A fresh machine has torch, and no package beside it. (Here a finder hides onnxscript.)

    Export a model to ONNX there. Which exception does it raise?
    """
    hidden = ("onnxscript", "torch.onnx._internal.exporter")
    for name in [name for name in sys.modules if name.startswith(hidden)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("ignore")
        torch.onnx.export(nn.ReLU(), (torch.ones(2),))
    assert caught.type is answer(ModuleNotFoundError)


@koan(
    see="torch.split",
    hint=[
        "Only the last part may be too short. How many rows does it lack? Try -len(x) % 4.",
        "Rows that nobody asked for may hold anything: in eval mode they change no neighbour.",
        "If there are too many answers: keep as many as there were requests.",
    ],
    why=(
        "Fill up, ask, cut off. A fixed size is what many accelerators want, and a program "
        "exported without dynamic_shapes promises. It works because each row is answered by "
        "itself: check that first, in eval mode."
    ),
    wrong={
        "return torch.cat([program(part) for part in x.split(4) if len(part) == 4])": (
            "The last requests never get an answer."
        ),
        "filler = x.new_zeros(-len(x) % 4, x.shape[1])\n"
        "return torch.cat([program(part) for part in torch.cat([x, filler]).split(4)])": (
            "Nearly. There are answers to questions that nobody asked."
        ),
        "return torch.cat([program(row.expand(4, -1))[:1] for row in x.split(1)])": (
            "Right answers, with four times the work."
        ),
        "return torch.cat([program(part.expand(4, -1)) for part in x.split(4)])": (
            "expand repeats a single row only."
        ),
    },
    right=[
        "from torch.nn.functional import pad\n"
        "filled = pad(x, (0, 0, 0, -len(x) % 4))\n"
        "return torch.cat([program(part) for part in filled.split(4)])[: len(x)]",
        "answers = []\n"
        "for part in x.split(4):\n"
        "    n = len(part)\n"
        "    while len(part) < 4:\n"
        "        part = torch.cat([part, part[:1]])\n"
        "    answers.append(program(part)[:n])\n"
        "return torch.cat(answers)",
    ],
)
def test_always_four_at_a_time():
    """This program takes batches of exactly four, as some accelerators want it. Repair `serve`:
    one answer for each row of x, however many rows, with as few calls as possible."""

    def serve(program, x):
        # answer:
        filler = x.new_zeros(-len(x) % 4, x.shape[1])
        parts = torch.cat([x, filler]).split(4)
        return torch.cat([program(part) for part in parts])[: len(x)]
        # given:
        # return torch.cat([program(part) for part in x.split(4)])
        # end

    for width in (2, 3):
        net = nn.Sequential(nn.Linear(width, 5), nn.BatchNorm1d(5)).eval()
        four = torch.export.export(net, (torch.ones(4, width),)).module()
        for size, calls in ((4, 1), (1, 1), (6, 2), (9, 3)):
            x, asked = torch.randn(size, width), []
            y = serve(lambda part: asked.append(len(part)) or four(part), x)
            torch.testing.assert_close(y, net(x))
            assert asked == [4] * calls


@koan(
    see="torch.nn.Module.load_state_dict",
    hint=[
        "Where does a loaded program keep its weights? You have met the attribute above.",
        "load_state_dict copies entry by entry, and complains at the end. What is done by then?",
        "So look first: which names and shapes are there, on both sides?",
        "Others hold this very object. A new one in its place does not reach them.",
    ],
    why=(
        "A program's weights can be exchanged while it serves, without a new export, as long as "
        "names and shapes agree. A load that fails has copied what did fit: half new, half old. "
        "So compare before, or keep a copy to go back to."
    ),
    wrong={
        "served.load_state_dict(torch.export.load(path).state_dict)\nreturn True": (
            "The file that does not fit ends in an error, and the clients with it."
        ),
        "try:\n"
        "    served.load_state_dict(torch.export.load(path).state_dict)\n"
        "except RuntimeError:\n"
        "    return False\n"
        "return True": "The error is caught, but what did fit has been copied already.",
        "served = torch.export.load(path).module()\nreturn True": (
            "Only a name inside this function points to the new program."
        ),
        "new = torch.export.load(path).state_dict\n"
        "if new.keys() != served.state_dict().keys():\n"
        "    return False\n"
        "served.load_state_dict(new)\n"
        "return True": "Names are not all. One of the files has the same, in another shape.",
    },
    right=[
        "import copy\n"
        "old = copy.deepcopy(served.state_dict())\n"
        "try:\n"
        "    served.load_state_dict(torch.export.load(path).state_dict)\n"
        "except RuntimeError:\n"
        "    served.load_state_dict(old)\n"
        "    return False\n"
        "return True",
    ],
)
def test_write_a_change_of_weights_behind_the_counter(tmp_path):
    """Write `swap`: put the weights of the program file at `path` into the running program
    `served`, and return True. If they do not fit, change nothing and return False."""

    def swap(served, path):
        # answer:
        new, old = torch.export.load(path).state_dict, served.state_dict()
        fits = {name: w.shape for name, w in new.items()} == {
            name: w.shape for name, w in old.items()
        }
        if fits:
            served.load_state_dict(new)
        return fits
        # end

    x, paths, answers = torch.randn(2, 3), [tmp_path / f"{i}.pt2" for i in range(4)], []
    sizes = ([3, 4, 2], [3, 4, 2], [3, 4, 1], [3, 4])
    for path, size in zip(paths, sizes, strict=True):
        net = nn.Sequential(*[nn.Linear(a, b) for a, b in zip(size, size[1:])])
        torch.export.save(torch.export.export(net, (x,)), path)
        answers.append(net(x))
    served = torch.export.load(paths[0]).module()
    for i, fits, now in ((2, False, 0), (1, True, 1), (3, False, 1), (0, True, 0)):
        assert swap(served, paths[i]) is fits
        torch.testing.assert_close(served(x), answers[now])
