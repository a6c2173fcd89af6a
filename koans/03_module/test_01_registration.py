"""Registration: how a module gets to know its weights."""

import pytest
import torch
from torch import nn

from sensei import __


@pytest.mark.tour(20)
def test_a_layer_from_784_to_10():
    """Some say this line already takes memory, and they are right: 784 numbers go in, 10 come out.

    What is the shape of the layer's weight? And how many bytes do all its parameters take together?
    """
    layer = nn.Linear(784, 10)
    assert tuple(layer.weight.shape) == __
    assert sum(p.nbytes for p in layer.parameters()) == __


def test_where_a_new_layer_lives(monkeypatch):
    """Some say that building a layer sets off work on the GPU.

    Here PyTorch's calls to wake CUDA up are only noted. Predict the type of the weights' device,
    and the number of notes.
    """
    woken = []
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: woken.append("CUDA"))
    model = nn.Sequential(nn.Linear(784, 10), nn.BatchNorm1d(10))
    assert [model[0].weight.device.type, len(woken)] == __


def test_what_must_wait_for_super_init():
    """Some say any order will do, as long as super().__init__() is called at last.

    Here each value is assigned to an object whose __init__ has not run. Which ones are refused?
    """
    values = {"number": 3, "tensor": torch.ones(2), "parameter": nn.Parameter(torch.ones(2))}
    values |= {"layer": nn.Linear(3, 1), "list": [nn.Linear(3, 1)]}
    refused = []
    for name, value in values.items():
        try:
            nn.Module.__new__(nn.Module).thing = value
        except AttributeError:
            refused.append(name)
    assert refused == __


def test_super_init_once_more():
    """Some say that super().__init__() is there for the glue between C++ and Python.

    Here Module.__init__ runs once more, to be on the safe side. Which names are in the list?
    """

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

    class Shifted(Scaled):
        def __init__(self):
            super().__init__()
            nn.Module.__init__(self)  # to be on the safe side
            self.shift = nn.Parameter(torch.zeros(1))

    assert [name for name, _ in Shifted().named_parameters()] == __


def test_which_of_the_six_are_registered():
    """Six numbers, kept in six ways. Some say Parameter's constructor does the registering.

    Which numbers will parameters() give you?
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            local = nn.Parameter(torch.tensor(1.0))
            self.a = nn.Parameter(torch.tensor(2.0))
            self.b = nn.Parameter(torch.tensor(3.0)) * 10
            self.c = [nn.Parameter(torch.tensor(4.0))]
            self.d = {"w": nn.Parameter(torch.tensor(5.0))}
            self.e = torch.tensor(6.0, requires_grad=True)
            self.f = lambda x: x * local

    assert [p.item() for p in Model().parameters()] == __


def test_names_that_the_class_has():
    """The class lists its two names first, as empty places. Then both are filled.

    One assignment passes in silence: predict the type that model.layer has then, and the number
    of registered parameters. The other is refused: name the exception.
    """

    class Model(nn.Module):
        layer = None
        weight = None

    model = Model()
    model.layer = nn.Linear(1, 1)
    found = [type(model.layer).__name__, len(list(model.parameters()))]
    assert found == __
    with pytest.raises(Exception) as caught:
        model.weight = nn.Parameter(torch.ones(1))
    assert caught.type is __


def test_an_optimizer_asks_the_module():
    """Two numbers are 1 and both want a gradient. One is a plain tensor, one a Parameter.

    After one step with a learning rate of 1, predict: the plain tensor, its gradient, the
    Parameter.
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = torch.ones(1, requires_grad=True)
            self.registered = nn.Parameter(torch.ones(1))

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    (model.plain + model.registered).sum().backward()
    optimizer.step()
    values = [model.plain, model.plain.grad, model.registered]
    assert [value.item() for value in values] == __


def test_a_name_that_is_taken():
    """Five names: one holds a plain tensor, one a Parameter, one an empty place. Two hold nothing
    that was assigned here.

    A new Parameter is registered under each of them. Which names are refused?
    """
    module, refused = nn.Module(), []
    module.plain = torch.ones(2)
    module.trained = nn.Parameter(torch.ones(2))
    module.register_parameter("empty", None)
    for name in ["plain", "trained", "empty", "half", "third"]:
        try:
            module.register_parameter(name, nn.Parameter(torch.zeros(2)))
        except Exception:
            refused.append(name)
    assert refused == __


def test_a_layer_made_in_forward():
    """Two calls give two results, and half of this model never learns. Repair the class.

    In the end it holds 8 + 4 numbers in its body and 4 + 1 in its head, and the optimizer knows
    them all.
    """

    class Model(nn.Module):
        # your turn:
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(2, 4)

        def forward(self, x):
            head = nn.Linear(4, 1)
            return head(self.body(x))

        # end

    model, x = Model(), torch.ones(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert tuple(model(x).shape) == (3, 1)
    assert torch.equal(model(x), model(x))
    assert sum(p.numel() for p in optimizer.param_groups[0]["params"]) == 17
    model(x).sum().backward()
    assert all(p.grad is not None for p in optimizer.param_groups[0]["params"])
