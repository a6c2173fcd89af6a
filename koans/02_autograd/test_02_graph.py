"""The graph: nodes, edges, and who builds them."""

import gc

import pytest
import torch
from torch import nn
from torch.autograd.graph import Node
from torch.nn import functional as F

from sensei import __


def test_name_four_nodes():
    """A tensor's grad_fn is the node of the operation that made it.

    For `x + 1`, name() gives 'AddBackward0': the operation, then "Backward0". Name these four.
    """
    x = torch.ones(4, 2, requires_grad=True)
    layer = nn.Linear(2, 3)
    results = [x * x, x.square(), layer(x), F.linear(x, layer.weight)]
    names = [result.grad_fn.name() for result in results]
    assert names == __


def test_doors_to_a_power(monkeypatch):
    """Four roads to a power. For each, write the name of its node as name() prints it, such as
    'SinBackward0', or None if it has none.

    Then: how often was the function torch.pow called?
    """
    calls = []
    original = torch.pow
    monkeypatch.setattr(torch, "pow", lambda *args: calls.append(args) or original(*args))
    x = torch.tensor(2.0, requires_grad=True)
    raw = torch.ops.aten.pow.Tensor_Scalar(x, 2)
    powers = [x**2, x.pow(2), raw, torch.tensor(2.0) ** 2]
    names = [power.grad_fn and power.grad_fn.name() for power in powers]
    assert names == __
    assert len(calls) == __


def test_three_lines_from_a_first_lesson():
    """Three lines that often stand where autograd is introduced. They fail, and for two reasons.

    Repair them: y stays x doubled, and x.grad says how the sum of y grows with x.
    """
    # your turn:
    x = torch.randn(2, 3)
    y = x * 2
    y.backward()
    # end
    assert y.grad_fn.name() == "MulBackward0"
    assert torch.equal(y, x * 2) and x.shape == (2, 3)
    assert x.grad.tolist() == [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]


def test_constants_among_the_inputs():
    """A node points back to the nodes of its inputs. Name them for each of the three results, in
    order, as name() prints them ('SinBackward0'); None for an empty slot."""
    three = torch.tensor(3.0)
    y = torch.tensor(2.0, requires_grad=True).exp()
    feeders = [
        [node and node.name() for node, _ in result.grad_fn.next_functions]
        for result in (3.0 * y, three * y, y**3.0)
    ]
    assert feeders == __


def test_the_second_half_of_an_edge():
    """Each edge in next_functions is a pair: (node, number). Predict the numbers of two products'
    edges."""
    first, middle, last = (torch.ones(3, requires_grad=True) * 2).unbind()
    assert first.grad_fn is middle.grad_fn and middle.grad_fn is last.grad_fn
    other = torch.ones((), requires_grad=True).exp()
    numbers = [
        [number for _, number in product.grad_fn.next_functions]
        for product in (last * middle, middle * other)
    ]
    assert numbers == __


def test_follow_the_edges_to_the_leaf():
    """Every edge leads one step back. At the end is a node called AccumulateGrad, which holds
    its leaf as `.variable`.

    Write `leaf_of`: the leaf that y was made from.
    """

    def leaf_of(y):
        # your turn:
        __
        # end

    def check(leaf, *operations):
        result = leaf
        for operation in operations:
            result = operation(result)
        assert leaf_of(result) is leaf
        assert leaf.grad_fn is None

    check(torch.ones(2, requires_grad=True), torch.exp)
    check(torch.zeros(3, requires_grad=True), torch.exp, torch.sin, torch.sum)
    check(torch.ones(1, 2, requires_grad=True), torch.t, torch.neg, torch.ravel, torch.sum)


def test_a_note_on_the_last_node():
    """Every node has a dict for your notes. Leave one on the last node before x.

    Predict it: seen from z, then from a graph made after y and z are gone.
    """
    x = torch.tensor(2.0, requires_grad=True)
    y, z = x * 2, x * 3
    y.grad_fn.next_functions[0][0].metadata["note"] = "mine"
    seen = [dict(z.grad_fn.next_functions[0][0].metadata)]
    del y, z
    seen.append(dict((x * 4).grad_fn.next_functions[0][0].metadata))
    assert seen == __


def test_call_a_node_yourself():
    """A node can be called: hand in the gradient of its result. What does it return?"""
    x = torch.tensor(2.0, requires_grad=True)
    w = torch.tensor(3.0, requires_grad=True)
    node = (x * w).grad_fn
    gradients = node(torch.tensor(10.0))
    assert (x.grad, w.grad) == (None, None)
    assert [gradient.item() for gradient in gradients] == __


def test_two_ways_from_one_root():
    """root feeds two branches, and backward comes back by both.

    The hook notes each gradient that root gets. What is noted?
    """
    root = torch.tensor(0.0, requires_grad=True).exp()
    noted = []
    root.register_hook(lambda gradient: noted.append(gradient.item()))
    (root * 2 + root * 3).backward()
    assert noted == __


def test_how_much_a_tensor_remembers():
    """The same writes go to two tensors. How much does each of them remember?

    Predict [number of writes, name of the last node as name() prints it, or None].
    """
    plain, tracked = torch.zeros(2), torch.zeros(2, requires_grad=True) * 1
    memories = []
    for t in (plain, tracked):
        t.add_(3)
        t.exp_()
        memories.append([t._version, t.grad_fn and t.grad_fn.name()])
    assert memories == __


def test_count_the_python_objects():
    """Some say the graph is made of Python objects. Three operations run; nobody looks. Then
    one look at grad_fn.

    How many more are there, each time? And which of the three classes is it?
    """

    def alive():
        return sum(type(o).__name__.endswith("Backward0") for o in gc.get_objects())

    gc.collect()
    before = alive()
    y = (torch.tensor(2.0, requires_grad=True) ** 2 + 3).exp()
    unseen = alive() - before
    node = y.grad_fn
    assert [unseen, alive() - before] == __
    kinds = (torch.Tensor, torch.autograd.Function, Node)
    assert [kind.__name__ for kind in kinds if isinstance(node, kind)] == __


def test_build_a_node_by_hand():
    """Take the class of a node, and try to make one more of this kind yourself.

    Which exception do you get?
    """
    y = torch.tensor(2.0, requires_grad=True).exp()
    kind = type(y.grad_fn)
    with pytest.raises(Exception) as caught:
        kind()
    assert caught.type is __


def test_which_parameters_are_reached():
    """Write `leaves`: every leaf that a backward from y would reach, each once. Run no backward.

    A tensor without a graph reaches nothing.
    """

    def leaves(y):
        # your turn:
        __
        # end

    net = nn.ModuleDict({name: nn.Linear(2, 2) for name in ("body", "head", "spare")})
    net["head"].bias.requires_grad_(False)
    h = net["body"](torch.ones(1, 2))
    for _ in range(6):
        h = h + h
    y = net["head"](h)
    y.register_hook(lambda gradient: pytest.fail("no backward, please"))
    names = [name for leaf in leaves(y) for name, p in net.named_parameters() if p is leaf]
    assert sorted(names) == ["body.bias", "body.weight", "head.weight"]
    assert [len(leaves(t)) for t in (y, h, torch.ones(2) * 2)] == [3, 2, 0]
