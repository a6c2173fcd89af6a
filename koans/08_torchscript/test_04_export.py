"""Export: one whole graph, or an error.

In these koans strict=False says what newer versions of PyTorch do anyway; older ones must be told."""

import contextlib
import io
import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn

from sensei import __


@pytest.mark.needs(python="<3.14")
def test_one_if_and_three_tools():
    """Each tool sees a positive number first; compile sees it in its first call. Then -2 comes.
    Eager Python gives -3.

    What do trace, export and compile give for -2? Write the numbers in this order, or "refused".
    """

    class Steps(nn.Module):
        def forward(self, x):
            return x + 1 if x > 0 else x - 1

    def fate(tool):
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            ready = tool(Steps(), torch.tensor(2.0))
            return [ready(torch.tensor(number)).item() for number in (2.0, -2.0)][1]
        return "refused"

    tools = [torch.jit.trace, lambda model, x: torch.export.export(model, (x,)).module()]
    tools += [lambda model, x: torch.compile(model, backend="eager")]
    assert [fate(tool) for tool in tools] == __


def test_an_if_on_the_length():
    """This `if` asks for a length, and the example is 5 long. AUTO says: let the length vary, as
    far as you can.

    Which lengths, from 1 to 6, does the program take?
    """

    class Lengths(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 3 else x * 3

    shapes = {"x": {0: torch.export.Dim.AUTO}}
    program = torch.export.export(Lengths(), (torch.ones(5),), dynamic_shapes=shapes).module()
    taken = []
    for length in range(1, 7):
        with contextlib.suppress(Exception):
            program(torch.ones(length))
            taken.append(length)
    assert taken == __


def test_a_program_for_any_batch():
    """The program takes batches of 4 only, as the example was. Repair both places: model and
    export. Rows must stay rows."""

    class Rows(nn.Module):
        def forward(self, x):
            # your turn:
            return x.reshape(4, 6)
            # end

    def exported(model, x):
        # your turn:
        return torch.export.export(model, (x,), strict=False)
        # end

    program = exported(Rows(), torch.ones(4, 2, 3)).module()
    for batch in (4, 2, 7):
        x = torch.arange(batch * 6.0).reshape(batch, 2, 3)
        assert torch.equal(program(x), x.flatten(1))


def test_an_if_that_a_graph_can_hold():
    """Write forward: x.exp() when the sum of x is positive, else x - 1.

    One program serves both, and computes only the way it takes: no exp in the main graph.
    """

    class Fork(nn.Module):
        def forward(self, x):
            # your turn:
            __
            # end

    program = torch.export.export(Fork(), (torch.ones(3),))
    for x in (torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1.0, -2.0, 0.5])):
        expected = x.exp() if x.sum() > 0 else x - 1
        assert torch.allclose(program.module()(x), expected)
    assert "aten.exp." not in " ".join(str(node.target) for node in program.graph.nodes)


def test_what_is_alive_in_the_program():
    """The program is called, then the model is changed, then the program is called once more.

    Predict the three numbers of the last call.
    """

    class Dial(nn.Linear):
        def forward(self, x):
            self.calls += 1
            return x @ self.weight, x * self.scale, x * self.calls

    model = Dial(1, 1, bias=False)
    model.scale, model.calls = 2.0, 0
    program = torch.export.export(model, (torch.ones(1),), strict=False).module()
    nn.init.constant_(model.weight, 2.0)
    program(torch.ones(1))
    nn.init.constant_(model.weight, 5.0)
    model.scale = 5.0
    assert [y.item() for y in program(torch.ones(1))] == __


def test_eval_after_the_export():
    """The model was exported as it came from its training. Now it is to be used, so somebody
    calls eval(), as always.

    Which exception does that raise?
    """
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    program = torch.export.export(model, (torch.ones(1, 2),)).module()
    with pytest.raises(Exception) as caught:
        program.eval()
    assert caught.type is __


def test_exchange_a_part():
    """One program, as a flat module and as a tree. In both, the ReLU is replaced by an Identity.

    What does each of them make of -3?
    """
    model = nn.Sequential(OrderedDict(act=nn.ReLU()))
    program = torch.export.export(model, (torch.ones(1),), strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat, tree = program.module(), torch.export.unflatten(program)
    flat.act, tree.act = nn.Identity(), nn.Identity()
    assert [form(torch.tensor([-3.0])).item() for form in (flat, tree)] == __


def test_ship_it():
    """Write `ship`: it exports the model for use, not for training, for any batch, and saves the
    program into the file. The model itself goes on training afterwards."""

    def ship(model, example, file):
        # your turn:
        __
        # end

    noisy = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    for model in (noisy, nn.BatchNorm1d(3)):
        file, x = io.BytesIO(), torch.randn(7, 3)
        ship(model, torch.randn(4, 3), file)
        file.seek(0)
        assert all(part.training for part in model.modules())
        assert torch.allclose(torch.export.load(file).module()(x), model.eval()(x))
