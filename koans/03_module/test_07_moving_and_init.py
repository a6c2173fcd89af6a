"""Moving and first values: what .to() touches, and who fills a layer with numbers."""

import copy

import pytest
import torch
from torch import nn

from sensei import __


def test_to_without_an_equals_sign():
    """We hold a layer's weight by a second name, and call .to() on a layer and on a tensor.

    Predict the three dtypes.
    """
    layer = nn.Linear(2, 2)
    held = layer.weight
    t = torch.ones(2)
    layer.to(torch.float64)
    t.to(torch.float64)
    assert [layer.weight.dtype, t.dtype, held.dtype] == __


def test_who_comes_along():
    """Some say Module.to goes down to the children and theirs, and they are right.

    A child of a child has a weight, a counting buffer, and a plain tensor. The whole model is
    moved. Predict, for these three in this order, the device types and the dtypes.
    """
    child = nn.Linear(2, 2)
    child.register_buffer("steps", torch.tensor(0))
    child.scale = torch.tensor(1.0)
    model = nn.Sequential(nn.Sequential(child))
    model.to("meta", torch.float16)
    tensors = [child.weight, child.steps, child.scale]
    assert [t.device.type for t in tensors] == __
    assert [t.dtype for t in tensors] == __


def test_a_layer_of_whole_numbers():
    """A tensor can become int64. And a layer? Which exception does it raise?"""
    layer = nn.Linear(2, 2)
    assert layer.weight.detach().to(torch.int64).dtype == torch.int64
    with pytest.raises(Exception) as caught:
        layer.to(torch.int64)
    assert caught.type is __


def test_back_from_meta():
    """On "meta" a layer has shapes and no numbers. Going there is easy.

    Which exception does the way back raise?
    """
    layer = nn.Linear(2, 2)
    layer.to("meta")
    with pytest.raises(Exception) as caught:
        layer.to("cpu")
    assert caught.type is __


def test_an_optimizer_left_behind():
    """The step moves nothing, and nobody complains. Repair the marked lines."""
    for size in (1, 3):
        model = nn.Linear(size, 1, bias=False, device="meta")
        # your turn:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model.to_empty(device="cpu")
        nn.init.ones_(model.weight)
        # end
        assert model.weight.tolist() == [[1.0] * size]
        model(torch.full((1, size), float(size))).sum().backward()
        optimizer.step()
        assert model.weight.tolist() == [[1.0 - size] * size]


def test_who_draws_random_numbers():
    """Same seed, one more layer, and all later weights are other ones. Why?

    Building a layer may draw from the global generator. Name those that do, in this order.
    """
    makers = {
        "Linear": lambda: nn.Linear(2, 2),
        "BatchNorm1d": lambda: nn.BatchNorm1d(2),
        "Embedding": lambda: nn.Embedding(2, 2),
        "skip_init": lambda: nn.utils.skip_init(nn.Linear, 2, 2),
    }
    draws = {}
    for name, make in makers.items():
        before = torch.get_rng_state()
        make()
        draws[name] = not torch.equal(before, torch.get_rng_state())
    assert [name for name in draws if draws[name]] == __


def test_first_values_of_our_own():
    """The plan: Xavier values for the weights of each Linear, zeros for its bias, and the norm
    left as it is. But this raises. Repair `begin`.
    """

    def begin(module):
        # your turn:
        for p in module.parameters():
            nn.init.xavier_uniform_(p)
        # end

    model = nn.Sequential(nn.Linear(30, 20), nn.LayerNorm(20), nn.Linear(20, 10))
    model.apply(begin)
    for layer in (model[0], model[2]):
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert layer.bias.eq(0).all() and layer.weight.is_leaf
    assert model[1].weight.eq(1).all() and model[1].bias.eq(0).all()


def test_write_the_landing_on_the_cpu():
    """A big model is built on "meta" first, which costs nothing.

    Write `land`: it brings any such model to the CPU, and every layer gets the first values that
    it would have had there. Containers have none to give; the other layers do.
    """

    def land(model):
        # your turn:
        __
        # end

    for deep in (False, True):
        with torch.device("meta"):
            norm, lines = nn.BatchNorm1d(70), [nn.Linear(50, 70), nn.Linear(70, 30)]
            model = nn.Sequential(lines[0], nn.Sequential(norm, lines[1]))
            if deep:
                model = nn.ModuleDict({"outer": nn.ModuleList([nn.Sequential(model), norm])})
        land(model)
        for layer in lines:
            bound = layer.in_features**-0.5
            assert 0.9 * bound < layer.weight.abs().max() <= bound
            assert 0 < layer.bias.abs().max() <= bound
        assert [norm.running_mean.sum(), norm.running_var.sum()] == [0, 70]
        assert norm.weight.eq(1).all() and norm.bias.eq(0).all()


def test_a_weight_that_is_computed():
    """A weight that can never be negative: the square of something.

    Predict the layer's output, and the names of its parameters.
    """

    class Square(nn.Module):
        def forward(self, w):
            return w**2

    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 3.0)
    nn.utils.parametrize.register_parametrization(layer, "weight", Square())
    assert layer(torch.ones(1, 1)).item() == __
    assert [name for name, _ in layer.named_parameters()] == __


def test_a_layer_that_cannot_be_copied():
    """An averaged copy of a model begins with deepcopy. After the first batch it fails.

    Repair `forward`: the layer must still remember its last output, and still learn.
    """

    class Remember(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            # your turn:
            self.last = y
            return y
            # end

    layer = Remember(2, 1)
    y = layer(torch.ones(1, 2))
    assert torch.equal(layer.last, y)
    twin = copy.deepcopy(layer)
    assert torch.equal(twin.last, y) and torch.equal(twin.weight, layer.weight)
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]


def test_write_a_layer_from_nothing():
    """Write `Center(features)`. It subtracts `mean` from x, then multiplies by `weight`.

    Learned: weight, at first ones. Measured: mean, at first zeros; in training, each forward
    first moves it half way to the batch's mean. reset_parameters() gives the first values.
    It must move, save and copy like any layer.
    """

    class Center(nn.Module):
        # your turn:
        __
        # end

    for features in (2, 3):
        layer = Center(features).to("meta").to_empty(device="cpu").double()
        x = torch.randn(4, features).double().requires_grad_()
        for _ in range(2):
            layer.reset_parameters()
            _, y = layer(x), layer(x)
            assert torch.allclose(y, x - 0.75 * x.mean(0))
        assert torch.equal(copy.deepcopy(layer).eval()(x), y)
        y.sum().backward()
        assert torch.allclose(layer.weight.grad, y.sum(0)) and x.grad.eq(1).all()
        assert list(layer.state_dict()) == ["weight", "mean"] and len([*layer.parameters()]) == 1
        assert torch.equal(Center(features).eval()(x.float()), x.float())
