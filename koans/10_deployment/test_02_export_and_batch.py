"""A program that travels: files without their class, weights, and what a server may change."""

import copy
import io
import sys
import types
import warnings

import pytest
import torch
from torch import nn

from sensei import __


def fails(call, *args):
    """Does this call raise an exception?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(*args)
        except Exception:
            return True
    return False


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
    assert answered == __


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
    assert seen == __


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
    assert found == __


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
    assert caught == __


@pytest.mark.needs(torch=">=2.9")
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
    assert caught == __


def test_always_four_at_a_time():
    """This program takes batches of exactly four, as some accelerators want it. Repair `serve`:
    one answer for each row of x, however many rows, with as few calls as possible."""

    def serve(program, x):
        # your turn:
        return torch.cat([program(part) for part in x.split(4)])
        # end

    for width in (2, 3):
        net = nn.Sequential(nn.Linear(width, 5), nn.BatchNorm1d(5)).eval()
        four = torch.export.export(net, (torch.ones(4, width),)).module()
        for size, calls in ((4, 1), (1, 1), (6, 2), (9, 3)):
            x, asked = torch.randn(size, width), []
            y = serve(lambda part: asked.append(len(part)) or four(part), x)
            torch.testing.assert_close(y, net(x))
            assert asked == [4] * calls


def test_write_a_change_of_weights_behind_the_counter(tmp_path):
    """Write `swap`: put the weights of the program file at `path` into the running program
    `served`, and return True. If they do not fit, change nothing and return False."""

    def swap(served, path):
        # your turn:
        __
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
