"""torch.compile: graphs, guards, and who runs them.

The backends here only count: no C++ compiler and no GPU are needed."""

import pytest
import torch
from torch import nn

from sensei import __


def counted(function, **options):
    """The function, compiled, and the list of the graphs that its backend was given."""
    torch.compiler.reset()
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, backend=backend, **options), graphs


def methods(graph):
    """The names of the tensor methods that a graph calls, in order."""
    return [node.target for node in graph.graph.nodes if node.op == "call_method"]


def test_what_the_backend_gets():
    """A loop, an `if`, a helper: the backend here is a plain Python function. It gets graphs.

    The compiled function is called twice. Which methods are called in each graph, in order? Write
    a list of names for each graph.
    """

    def helper(x):
        return x.cos()

    def f(x, deep=True):
        for _ in range(2):
            x = x.sin()
        return helper(x) if deep else x

    compiled, graphs = counted(f)
    compiled(torch.ones(2))
    compiled(torch.ones(2), deep=False)
    assert [methods(graph) for graph in graphs] == __


def test_a_part_kept_from_the_compiler():
    """The helper in the middle is kept from the compiler. Which methods are called in each graph
    that the backend gets?"""

    @torch.compiler.disable
    def helper(x):
        return x.exp()

    def f(x):
        return helper(x.sin()).cos()

    compiled, graphs = counted(f)
    compiled(torch.ones(2))
    assert [methods(graph) for graph in graphs] == __


def test_how_lengths_are_learned():
    """Count the graphs: before the first call, and after the calls with five lengths."""
    compiled, graphs = counted(lambda x: x * 2)
    seen = [len(graphs)]
    for length in (4, 5, 6, 7, 1):
        compiled(torch.ones(length))
        seen.append(len(graphs))
    assert seen == __


def test_four_values_of_three_kinds():
    """A tensor, an int, a text: each kind takes four different values.

    How many graphs does each kind cost, in this order?
    """
    cases = [
        (lambda x, value: x * value, [torch.tensor(value) for value in (3.0, 4.0, 5.0, 6.0)]),
        (lambda x, value: x * value, [3, 4, 5, 6]),
        (lambda x, value: x * len(value), ["one", "two", "three", "four"]),
    ]
    costs = []
    for function, values in cases:
        compiled, graphs = counted(function)
        for value in values:
            compiled(torch.ones(2), value)
        costs.append(len(graphs))
    assert costs == __


def test_shapes_that_do_not_fit():
    """Eager Python raises a RuntimeError here. Which exception does the compiled function raise?

    Give the exact type. It lives in torch._dynamo.exc.
    """
    compiled, graphs = counted(lambda x, y: x @ y)
    with pytest.raises(Exception) as caught:
        compiled(torch.ones(2, 3), torch.ones(2, 3))
    assert caught.type is __


def test_which_calls_are_compiled():
    """Four calls, one after the other. How many graphs are there after each?"""

    class Twice(nn.Module):
        def forward(self, x):
            return x * 2

        def back(self, x):
            return x / 2

    model = Twice()
    fast, graphs = counted(model)
    seen = []
    for call in (model, fast.back, fast.forward, fast):
        call(torch.ones(2))
        seen.append(len(graphs))
    assert seen == __


def test_only_the_batch_may_vary():
    """Batches differ in size; the number of features is part of the program.

    Repair it: one graph for all batch sizes, and a new one for each other number of features.
    """

    def cost(batches):
        # your turn:
        compiled, graphs = counted(lambda x: x.softmax(1), dynamic=True)
        # end
        for batch in batches:
            assert torch.allclose(compiled(batch), batch.softmax(1))
        return sum(isinstance(graph, torch.fx.GraphModule) for graph in graphs)

    assert cost([torch.ones(size, 3) for size in (4, 6, 9)]) == 1
    sizes = [(4, 3), (6, 5), (8, 5), (9, 7)]
    assert cost([torch.ones(size, features) for size, features in sizes]) == 3
    assert cost([torch.ones(size, 8) for size in (7, 2)]) == 1


def test_a_backend_that_swaps_an_operation():
    """Write a backend: each torch.tanh of its graphs becomes torch.relu, the rest stays.

    What is kept from the compiler stays, too. The code of each graph is noted before your lines.
    """
    codes = []

    def backend(graph, example_inputs):
        codes.append(graph.code)
        # your turn:
        __
        # end

    @torch.compiler.disable
    def helper(x):
        return torch.tanh(x) * 2

    def f(x, act=torch.tanh):
        for _ in range(2):
            x = act(x) - 1
        return act(helper(x) + 1)

    x = torch.tensor([-1.0, 2.0, 3.0])
    expected = f(x, torch.relu)
    torch.compiler.reset()
    assert torch.allclose(torch.compile(f, backend=backend)(x), expected)
    assert len(codes) == 2
