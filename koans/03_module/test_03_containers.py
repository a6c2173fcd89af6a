"""Containers: modules that hold modules."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import __


def test_the_children_of_a_block():
    """Some say that assigning a batch norm is a mistake, and that add_module is needed.

    Which names do the children of this block have, in order?
    """

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 3)
            self.bn1 = torch.nn.BatchNorm2d(8)
            self.add_module("bn2", nn.BatchNorm2d(8))
            self.act = torch.relu
            self.drop = nn.Dropout

    assert [name for name, _ in Block().named_children()] == __


def test_one_answer_and_its_neighbours():
    """Some tell of a model whose answers got worse: eval() had missed its batch norm.

    After eval(), the first sample should not care about the others in its batch. For which of
    these two layers is it so?
    """
    model = nn.Module()
    model.bn = torch.nn.BatchNorm1d(1)
    model.hidden = [nn.BatchNorm1d(1)]
    model.eval()
    layers = {"attribute": model.bn, "list": model.hidden[0]}
    calm = torch.tensor([[1.0], [2.0], [3.0]])
    wild = torch.tensor([[1.0], [2.0], [50.0]])
    steady = [name for name, bn in layers.items() if torch.allclose(bn(calm)[0], bn(wild)[0])]
    assert steady == __


def test_three_layers_three_times():
    """Three linear layers, kept in three ways. How long is the list of parameters() for each?

    A weight is one parameter, a bias another, whatever their sizes.
    """
    listed, times, fresh = nn.Module(), nn.Module(), nn.Module()
    listed.layers = [nn.Linear(2, 2) for _ in range(3)]
    times.layers = nn.ModuleList([nn.Linear(2, 2)] * 3)
    fresh.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    counts = [len(list(module.parameters())) for module in (listed, times, fresh)]
    assert counts == __


def test_a_model_with_several_heads():
    """This model has no parameters, as far as PyTorch can see. Repair the two marked lines.

    Heads are found by key, scales by position; forward stays as it is.
    """

    class Heads(nn.Module):
        def __init__(self, tasks):
            super().__init__()
            # your turn:
            self.heads = {task: nn.Linear(4, 2) for task in tasks}
            self.scales = [nn.Parameter(torch.ones(2)) for _ in tasks]
            # end

        def forward(self, x):
            pairs = zip(self.heads.items(), self.scales)
            return {task: head(x) * scale for (task, head), scale in pairs}

    for tasks in (["age"], ["age", "size"]):
        model = Heads(tasks).double()
        out = model(torch.ones(3, 4, dtype=torch.float64))
        assert list(out) == tasks and tuple(out["age"].shape) == (3, 2)
        names = {f"heads.{task}.{part}" for task in tasks for part in ("weight", "bias")}
        names |= {f"scales.{i}" for i in range(len(tasks))}
        assert {name for name, _ in model.named_parameters()} == names


def test_a_walk_through_the_tree():
    """A model in a model, with one activation in two places. List the names of the walk."""
    act = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), act, nn.Sequential(nn.Linear(2, 2), act))
    assert [name for name, _ in model.named_modules()] == __


def test_a_net_without_its_head():
    """`headless` should give, for nets like these, what the layer fc would get.

    Some chain the children for that. Repair the marked line.
    """

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.pool = nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(2, 5)

        def forward(self, x):
            return self.fc(self.pool(F.relu(self.conv(x))).flatten(1))

    class Soft(Net):
        def forward(self, x):
            return self.fc(self.pool(torch.sigmoid(self.conv(x * 2))).flatten(1))

    def headless(net):
        # your turn:
        return nn.Sequential(*list(net.children())[:-1])
        # end

    for net, batch in ((Net(), 3), (Soft(), 4)):
        x, fc = torch.randn(batch, 1, 6, 6), net.fc
        whole = net(x)
        out = headless(net)(x)
        assert tuple(out.shape) == (batch, 2)
        assert torch.allclose(fc(out), whole, atol=1e-6)


def test_a_layer_that_waits():
    """This layer is told its outputs, not its inputs. Its numbers are counted too early: name the
    exception.

    Then it is called once. Predict its class, and the two sizes of its weight.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older versions call it experimental
        layer = nn.LazyLinear(5)
    with pytest.raises(Exception) as caught:
        layer.weight.numel()
    assert caught.type is __
    layer(torch.ones(2, 3))
    assert [type(layer).__name__, *layer.weight.shape] == __


def test_replace_every_relu():
    """Write `swap`: it puts an nn.GELU in the place of every nn.ReLU, however deep.

    Careful: one of them may stand in two places. All else stays as it is.
    """

    def swap(model):
        # your turn:
        __
        # end

    class Block(nn.Module):
        def __init__(self, layer, act):
            super().__init__()
            self.layer, self.act = layer, act

        def forward(self, x):
            return self.act(self.layer(x))

    act, first, last, x = nn.ReLU(), nn.Linear(2, 3), nn.Linear(3, 2), torch.randn(4, 2)
    flat = nn.Sequential(first, act, last, act)
    deep = nn.Sequential(Block(first, nn.ReLU()), nn.Sequential(Block(last, nn.ReLU())))
    for model in (flat, deep):
        swap(model)
        assert torch.allclose(model(x), F.gelu(last(F.gelu(first(x)))))
        assert not any(isinstance(module, nn.ReLU) for module in model.modules())
        assert len(list(model.parameters())) == 4


def test_write_sequential():
    """Some say nn.Sequential is a few lines that anybody could write. It is so: write your own.

    It takes any number of layers, one may come more than once, and gives the same results and the
    same keys in the state dict.
    """

    class Chain(nn.Module):
        # your turn:
        __
        # end

    again = nn.Linear(2, 2)
    for layers in ([nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)], [again, nn.Tanh(), again]):
        mine, theirs = Chain(*layers), nn.Sequential(*layers)
        x = torch.randn(4, 2)
        assert type(mine) is Chain
        assert torch.equal(mine(x), theirs(x))
        assert list(mine.state_dict()) == list(theirs.state_dict())
