"""Parameters and buffers: what stands behind a name."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

from sensei import __


def test_two_dicts_of_weights():
    """Some say that a module and its state dict are kept in step, both ways.

    Predict what the layer computes after each of the three changes.
    """
    one, outputs = torch.ones(1, 1), []
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    layer._parameters["weight"] = nn.Parameter(one * 3)
    outputs.append(layer(one).item())
    state = layer.state_dict()
    state["weight"] = one * 5
    outputs.append(layer(one).item())
    layer.state_dict()["weight"].fill_(7.0)
    outputs.append(layer(one).item())
    assert outputs == __


def test_a_tensor_on_a_registered_name():
    """Some say this line replaces the weight, so that training silently forgets it.

    Which exception does it raise? And which parameters does the layer have afterwards?
    """
    layer = nn.Linear(5, 10)
    with pytest.raises(Exception) as caught:
        layer.weight = torch.randn(10, 5)
    assert caught.type is __
    assert [name for name, _ in layer.named_parameters()] == __


def test_three_names_get_new_values():
    """A buffer, a parameter and a layer. Then each name gets a value of another kind.

    Which keys does the state dict have in the end?
    """
    module = nn.Module()
    module.register_buffer("mean", torch.zeros(1))
    module.weight = nn.Parameter(torch.ones(1))
    module.layer = nn.Linear(1, 1)
    module.mean = torch.ones(1)
    module.weight = None
    module.layer = nn.Parameter(torch.ones(1))
    assert sorted(module.state_dict()) == __


def test_three_ways_to_set_a_weight():
    """Some say it is the same to write through .data of the attribute and of the registry's
    entry, and they are right.

    The optimizer is built; then three weights are set to 5, in three ways. Each gradient is 1, and
    so is the learning rate. Predict the weights after the step.
    """
    layers = [nn.Linear(1, 1, bias=False) for _ in range(3)]
    optimizer = torch.optim.SGD([layer.weight for layer in layers], lr=1.0)
    layers[0]._parameters["weight"].data.fill_(5.0)
    layers[1].weight.data = torch.full((1, 1), 5.0)
    layers[2].weight = nn.Parameter(torch.full((1, 1), 5.0))
    sum(layer(torch.ones(1, 1)) for layer in layers).backward()
    optimizer.step()
    assert [layer.weight.item() for layer in layers] == __


def test_the_names_that_parameters_have():
    """One weight is frozen, and one layer stands in two places. List the names, in order."""
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad = False
    model = nn.Sequential(layer, nn.BatchNorm1d(2), layer)
    names = [name for name, _ in model.named_parameters()]
    assert names == __


def test_a_matrix_that_stays_behind():
    """This fixed matrix stays behind when the model is converted. Repair the marked line.

    The matrix should go where the model goes. It is no parameter, and it is not to be saved: it
    can be made again.
    """

    class Turn(nn.Module):
        def __init__(self):
            super().__init__()
            matrix = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
            # your turn:
            self.matrix = matrix
            # end

        def forward(self, x):
            return x @ self.matrix

    model = Turn().double()
    assert model(torch.tensor([[1.0, 2.0]], dtype=torch.float64)).tolist() == [[-2.0, 1.0]]
    assert list(model.parameters()) == [] and list(model.state_dict()) == []
    assert model.to("meta").matrix.device.type == "meta"


def test_what_outlives_the_layer():
    """Some say a module manages the life of its parameters. Here, the layer is deleted.

    A weak reference looks at an object without keeping it. Which names are in the list?
    """
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD([layer.weight], lr=0.1)
    seen = {"layer": layer, "weight": layer.weight, "bias": layer.bias}
    watched = {name: weakref.ref(thing) for name, thing in seen.items()}
    del layer, seen
    gc.collect()
    alive = [name for name, look in watched.items() if look() is not None]
    assert alive == __


def test_one_weight_for_two_layers():
    """Let both layers use one weight: counted once, trained once.

    The end shows that a deep copy keeps such a tie, in itself.
    """

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 3)
            self.decode = nn.Linear(3, 5, bias=False)
            # your turn:
            __
            # end

        def forward(self, words):
            return self.decode(self.embed(words))

    model = Words()
    twin = copy.deepcopy(model)
    for each in (model, twin):
        assert [tuple(p.shape) for p in each.parameters()] == [(5, 3)]
        assert sorted(each.state_dict()) == ["decode.weight", "embed.weight"]
        assert tuple(each(torch.tensor([0, 4])).shape) == (2, 5)
    assert twin.embed.weight is twin.decode.weight
    assert twin.embed.weight is not model.embed.weight


def test_write_a_linear_layer():
    """Write nn.Linear from raw parameters. It takes (n_in, n_out, bias=True).

    Names and shapes are those of nn.Linear; without bias, self.bias is None. Choose the first
    weights at random, so small that 1000 inputs of size 1 give outputs of a size below 3.
    """

    class Dense(nn.Module):
        # your turn:
        __
        # end

    for bias in (True, False):
        mine, theirs = Dense(4, 3, bias=bias), nn.Linear(4, 3, bias=bias)
        assert type(mine) is Dense
        names = [name for name, _ in mine.named_parameters()]
        assert names == [name for name, _ in theirs.named_parameters()]
        assert (mine.bias is None) == (theirs.bias is None)
        mine.load_state_dict(theirs.state_dict())
        x = torch.randn(5, 4)
        assert torch.allclose(mine(x), theirs(x), atol=1e-6)
    large = Dense(1000, 8)
    assert len(set(large.weight.flatten().tolist())) > 1000  # random, not all alike
    assert large(torch.randn(64, 1000)).std() < 3
