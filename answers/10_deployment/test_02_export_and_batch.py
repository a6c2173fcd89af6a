"""A program that travels: files without their class, weights, and what a server may change.

Documents: B 5
"""

import copy
import io
import sys
import types
import warnings

import pytest
import torch
from torch import nn

from sensei import answer, koan


def fails(call, *args):
    """Does this call raise an exception?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(*args)
        except Exception:
            return True
    return False


@koan(
    claims=["B-5-20"],
    see="torch.export.save",
    hint=[
        "What is in each of the files: numbers, the name of a class, or operations?",
        "Weights need somebody who knows what to do with them. Who is it here?",
        "Read in the manual what torch.export records. Is Python code needed to replay it?",
    ],
    why=(
        "A pickled module holds the NAME of its class. Weights fit into any module with the same "
        "names and shapes. A program holds the operations themselves and needs no class, so it "
        "can be compiled (AOTInductor) for C++ too. TorchScript files could do that as well; they "
        "are on their way out."
    ),
    wrong={
        "['weights']": (
            "Some say that a model without its Python class is of no use. What does a program hold?"
        ),
        "['program']": (
            "A state_dict holds names and tensors. Which class they came from is not in it."
        ),
        "['module', 'weights', 'program']": "Does a pickle hold the code of a class?",
        "[]": "Price is gone. But what was written down of it is more than its name.",
    },
)
def test_three_files_from_a_shop_that_closed(tmp_path, monkeypatch):
    """Price lives in a module `shop`. Three files are written; then `shop` is deleted.

    Which files can still be used to get an answer for x? Names, in order.
    """
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    sys.modules["shop"].Price = type("Price", (nn.Linear,), {"__module__": "shop"})
    model, x = sys.modules["shop"].Price(2, 1), torch.ones(1, 2)
    torch.save(model, tmp_path / "module")
    torch.save(model.state_dict(), tmp_path / "weights")
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "program")
    monkeypatch.delitem(sys.modules, "shop")
    asks = {"module": lambda path: torch.load(path, weights_only=False)(x)}
    asks["weights"] = lambda path: torch.func.functional_call(nn.Linear(2, 1), torch.load(path), x)
    asks["program"] = lambda path: torch.export.load(path).module()(x)
    answered = [name for name, ask in asks.items() if not fails(ask, tmp_path / name)]
    assert answered == answer(["weights", "program"])


@koan(
    see="torch.nn.Module.state_dict",
    hint=[
        "state_dict() is a dict with one attribute more. Print state._metadata.",
        "Which of the other three make a new object, and out of what?",
        "Do pickle and deepcopy keep the attributes of an object? Does a comprehension?",
    ],
    why=(
        "The version travels beside the tensors, as an attribute of what state_dict() returns. "
        "save, load and deepcopy keep it; whoever builds a new dict loses it, and a layer that "
        "mends old files by their version cannot know how old this one is. Filter with pop()."
    ),
    wrong={
        "[2, 2, 2, 2]": "It is in none of the tensors. So where is it, and who takes it along?",
        "[2, None, None, None]": "A file holds more than the entries. pickle keeps the object.",
        "[None, None, None, None]": "Print state._metadata, before anything happens to it.",
        "[2, 2, None, None]": "deepcopy copies an object. A comprehension sees only entries.",
        "[2, None, None, 2]": "torch.save pickles the object, and not its entries alone.",
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
    for weights in (state, torch.load(tmp_path / "weights"), filtered, copy.deepcopy(state)):
        layer.load_state_dict(weights)
    assert seen == answer([2, 2, None, 2])


@koan(
    claims=["B-5-10"],
    see="torch.export.export",
    hint=[
        "An export writes down what forward does. Was the block around it a part of forward?",
        "A decorator on forward is at work in each call. So is it written down?",
        "If no weight wants a gradient, is there anything to record?",
    ],
    why=(
        "A program is a module: its answers carry a graph, unless forward itself turns it off or "
        "no weight asks for it. How you exported does not matter. So inference_mode belongs "
        "around the call, for a program as for any model."
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
        "['quiet export', 'plain']": "Nearly: give them in the order in which they were exported.",
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
        "The program takes each input apart, by the pattern of its example, before it computes.",
        "Of each tensor it remembers the size, unless you say that a size may vary. And the value?",
    ],
    why=(
        "The structure of the example is a part of the program: the same keys, the same nesting, "
        "and the sizes too, even of what forward never reads. Values are free. Clients add "
        "fields: cut a request to the known form before you pass it on."
    ),
    wrong={
        "[]": "So it is for the model. A program compares the pattern first.",
        "['one field more']": "One too many is refused. Is one too few the same pattern?",
        "['no client']": "One too few is refused. Is one too many the same pattern?",
        "['no client', 'one field more']": (
            "Keys are compared. What else did the example say about its tensors?"
        ),
        "['another client', 'two clients', 'no client', 'one field more']": (
            "Then each client would need a program of its own. A value is no pattern."
        ),
    },
)
def test_a_field_that_nobody_reads():
    """The model never looks at "client", but the example for the export had it. Four requests
    follow, which the model itself would answer. Which of them make the program raise an error?
    Names, in order."""

    class Score(nn.Module):
        def forward(self, request):
            return request["pixels"].sum(1)

    pixels, client = torch.ones(1, 4), torch.tensor([7])
    program = torch.export.export(Score(), ({"pixels": pixels, "client": client},)).module()
    requests = {"another client": {"pixels": pixels, "client": torch.tensor([9])}}
    requests["two clients"] = {"pixels": pixels, "client": torch.tensor([7, 9])}
    requests["no client"] = {"pixels": pixels}
    requests["one field more"] = {"pixels": pixels, "client": client, "time": torch.tensor([5])}
    caught = [name for name, request in requests.items() if fails(program, request)]
    assert caught == answer(["two clients", "no client", "one field more"])


@pytest.mark.needs(torch=">=2.9")
@koan(
    claims=["B-5-21"],
    see="torch.onnx.export",
    hint=[
        "Which of these files are in a form of PyTorch's own?",
        "Who knows the ONNX format, and who translates the operators: torch, or a package beside "
        "it?",
        "Print the signature of torch.onnx.export. What does dynamo=False stand for? And can that "
        "way do without others?",
    ],
    why=(
        "ONNX is not torch's own format. Since 2.9 the exporter builds on torch.export and needs "
        "the packages onnx and onnxscript; the older way, by TorchScript, wants onnx alone. ONNX "
        "is one route of several: TensorRT can be used from PyTorch too, and other runtimes read "
        "ONNX files."
    ),
    wrong={
        "['onnx']": "dynamo=False asks for the older exporter. Did that one need no help at all?",
        "[]": "torch.onnx is a part of torch. What it builds on is not.",
        "['onnx, older way']": "Which of the two is newer, and built on more?",
        "['program', 'onnx', 'onnx, older way']": (
            "A program is a file of PyTorch's own. Is torch.export made with a package beside it?"
        ),
    },
)
def test_an_export_with_nothing_but_torch(monkeypatch):
    """A fresh machine has torch and no package beside it. (Here two are hidden from Python.)

    Three files are to be written from one model. For which of them is an error raised? Names, in
    order.
    """
    for name in [n for n in sys.modules if n.startswith(("onnx", "torch.onnx._internal.exp"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, None)
    net, x, file = nn.ReLU(), (torch.ones(2),), io.BytesIO()
    writers = {"program": lambda: torch.export.save(torch.export.export(net, x), file)}
    writers["onnx"] = lambda: torch.onnx.export(net, x, file)
    writers["onnx, older way"] = lambda: torch.onnx.export(net, x, file, dynamo=False)
    caught = [name for name, write in writers.items() if fails(write)]
    assert caught == answer(["onnx", "onnx, older way"])


@koan(
    see="torch.split",
    hint=[
        "Only the last part may be too short. How many rows does it lack? Try -len(x) % 4.",
        "Rows that nobody asked for may hold anything: in eval mode they change no neighbour.",
        "If there are too many answers: keep as many as there were requests.",
    ],
    why=(
        "Fill up, ask, cut off. Many accelerators want one fixed size, and so does a program that "
        "was exported without dynamic_shapes. It works because each row is answered by itself: "
        "check that first, in eval mode."
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
    at={
        "assert_close(y, net(x))": (
            "This line wants one answer for each row of `x`, in order. How many rows has `x` "
            "here, and how many has `y`?"
        ),
        "assert asked ==": (
            "All answers are right. This line looks at how the program was asked: with four "
            "rows each time, and not more often than it must be?"
        ),
    },
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
        "A file may hold other names, or other shapes. In what state must `served` be afterwards?",
        "A loaded program keeps its weights in an attribute: look at dir(torch.export.load(path)).",
        "load_state_dict copies entry by entry, and complains at the end. What is done by then?",
        "Others hold this very object: a new one in its place does not reach them.",
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
        "try:\n"
        "    served.load_state_dict(torch.export.load(path).state_dict)\n"
        "    return True\n"
        "except RuntimeError:\n"
        "    return False": "The error is caught, but what did fit has been copied already.",
        "new = torch.export.load(path).state_dict\nserved.load_state_dict(new)\nreturn True": (
            "The file that does not fit ends in an error, and the clients with it."
        ),
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
        assert swap(served, paths[i]) is fits, f"{i}.pt2 does {'' if fits else 'not '}fit"
        same = torch.allclose(served(x), answers[now], atol=1e-5)
        assert same, f"after {i}.pt2, `served` should answer as {now}.pt2 does"
