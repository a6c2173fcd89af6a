"""A graph you can read, and a file that needs no class."""

import io
import warnings

import pytest
import torch
from torch import nn

from sensei import __

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
    assert [[graph.count(word) for word in words] for graph in graphs] == __


@pytest.mark.needs(python="<3.14")
def test_who_still_builds_a_graph():
    """One layer, kept in five ways. Each is called. Whose result can still call backward?

    Write the names, in the order of the dict.
    """
    layer, x = nn.Linear(2, 1).eval(), torch.ones(1, 2)
    kept = {"eager": layer, "traced": torch.jit.trace(layer, x)}
    kept["scripted"] = torch.jit.script(layer)
    kept["loaded"] = through_a_file(kept["scripted"])
    kept["frozen"] = torch.jit.freeze(kept["scripted"])
    assert [name for name, m in kept.items() if m(x).requires_grad] == __


@pytest.mark.needs(python="<3.14")
def test_what_is_in_the_file():
    """Read the helper `a_loaded_model`: a class is written, used, and gone when it returns.

    Which of these names has the loaded model? Keep the order.
    """
    loaded = a_loaded_model()
    assert loaded(torch.tensor(4.0)).item() == 6.0
    names = ["weight", "mean", "label", "reader", "tripled", "doubled"]
    assert [n for n in names if hasattr(loaded, n)] == __


@pytest.mark.needs(python="<3.14")
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
    assert outcomes == __


@pytest.mark.needs(python="<3.14")
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
    assert caught.type is __


@pytest.mark.needs(python="<3.14")
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
        # your turn:
        __
        # end

    for model, labels in ((nn.ReLU(), ["cat", "dog"]), (nn.Sigmoid(), ["one", "two", "three"])):
        loaded, found = unpack(pack(model, labels))
        assert loaded(torch.tensor(-1.0)) == model(torch.tensor(-1.0))
        assert isinstance(loaded, torch.jit.ScriptModule) and found == labels


@pytest.mark.needs(python="<3.14")
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
    # your turn:
    torch.jit.save(torch.jit.trace(model, torch.ones(3)), file)
    # end
    for device in ("meta", "cpu"):
        file.seek(0)
        loaded = torch.jit.load(file, map_location=device)
        assert loaded.weight.device.type == device
        y = loaded(torch.ones(5, device=device))
        assert (y.device.type, tuple(y.shape)) == (device, (5,))
    assert y.tolist() == [11.0, 12.0, 13.0, 14.0, 15.0]
