"""Registration: how a module gets to know its weights."""

import pytest
import torch
from torch import nn

from sensei import __


def test_a_layer_from_784_to_10():
    """This line makes a layer: 784 numbers go in, 10 come out. Which shape has its weight?

    And how many bytes do all its parameters take together?
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


def test_a_layer_before_super_init():
    """Some say any order will do, as long as super().__init__() is called somewhere.

    The first line of this __init__ passes, the second does not. Which exception is raised?
    """

    class Model(nn.Module):
        def __init__(self):
            self.size = 3
            self.layer = nn.Linear(self.size, 1)
            super().__init__()

    with pytest.raises(Exception) as caught:
        Model()
    assert caught.type is __


def test_what_super_init_leaves_behind():
    """Some say that super().__init__() is there for the glue between C++ and Python.

    Here it runs on an empty object. Under each name, say which type stands in the object
    afterwards, as a string; None if the name is not there.
    """
    module = nn.Module.__new__(nn.Module)  # made, but __init__ has not run
    assert vars(module) == {}
    nn.Module.__init__(module)
    found = {name: type(value).__name__ for name, value in vars(module).items()}
    names = ["_parameters", "_buffers", "_modules", "training", "device"]
    assert [found.get(name) for name in names] == __


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


def test_who_is_called_by_an_equals_sign():
    """Assigning to a module registers the value. Which of these two methods run here, in order?"""
    calls = []

    class Spy(nn.Module):
        def register_parameter(self, name, param):
            calls.append("register_parameter")
            super().register_parameter(name, param)

        def add_module(self, name, module):
            calls.append("add_module")
            super().add_module(name, module)

    spy = Spy()
    spy.weight = nn.Parameter(torch.ones(1))
    spy.layer = nn.Linear(1, 1)
    assert calls == __


def test_an_optimizer_asks_the_module():
    """Handed over by hand, this tensor is fine. Then the module is asked for what it has.

    Which exception do you get?
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.ones(3, requires_grad=True)

    model = Model()
    torch.optim.SGD([model.weight], lr=0.1)
    with pytest.raises(Exception) as caught:
        torch.optim.SGD(model.parameters(), lr=0.1)
    assert caught.type is __


def test_a_name_that_is_taken():
    """Somebody stored a plain tensor, and now registers a Parameter under the same name.

    Plain assignment does it, as the end shows. Which exception does the method raise?
    """
    module = nn.Module()
    module.weight = torch.ones(2)
    with pytest.raises(Exception) as caught:
        module.register_parameter("weight", nn.Parameter(torch.ones(2)))
    assert caught.type is __
    module.weight = nn.Parameter(torch.ones(2))
    assert list(module._parameters) == ["weight"]


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
