"""The engine: what runs when you call backward, and what does not."""

import time

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from sensei import __


class Twice(torch.autograd.Function):
    """Doubles x; its backward leaves a note."""

    @staticmethod
    def forward(ctx, x, notes):
        ctx.notes = notes
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.notes.append("Twice")
        return grad * 2, None


def test_the_slope_of_a_loop():
    """Nobody told PyTorch what this loop computes. What is its slope at 4, to three digits?"""

    def root(a):
        guess = a
        for _ in range(10):
            guess = (guess + a / guess) / 2
        return guess

    a = torch.tensor(4.0, requires_grad=True)
    root(a).backward()
    assert round(a.grad.item(), 3) == __


def test_ask_every_node():
    """Four steps lead from y to x; one is your own. How many are nodes, how many are Functions,
    how many have a method `backward`?"""
    x = torch.ones(2, requires_grad=True)
    y = Twice.apply(x, []).sin().relu()
    steps = [y.grad_fn]
    while steps[-1].next_functions:
        steps.append(steps[-1].next_functions[0][0])
    nodes = sum(isinstance(step, torch.autograd.graph.Node) for step in steps)
    functions = sum(isinstance(step, torch.autograd.Function) for step in steps)
    methods = sum(hasattr(step, "backward") for step in steps)
    assert [nodes, functions, methods] == __


def test_a_module_with_a_backward():
    """This module has a method `backward`, and in its forward it applies Twice (above) two times.
    Write the notes that are left after loss.backward()."""
    notes = []

    class Layer(nn.Module):
        def forward(self, x):
            return Twice.apply(Twice.apply(x, notes), notes).sin()

        def backward(self, grad):
            notes.append("Layer")
            return grad

    Layer()(torch.ones(2, requires_grad=True)).sum().backward()
    assert notes == __


def test_a_failure_inside_the_engine():
    """The engine is written in C++ and calls your Python backward, which stumbles. Which exception
    do you get from it?"""

    class Forgetful(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.notes = {}
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.notes["factor"]

    with pytest.raises(Exception) as caught:
        Forgetful.apply(torch.ones(2, requires_grad=True)).sum().backward()
    assert caught.type is __


def test_who_has_a_node_from_python():
    """Each Function written in Python hangs a BackwardCFunction on its result. Which of these four
    results have such a node? Twice stands at the top of the file."""
    x = torch.ones(4, 3)
    weight, bias = torch.ones(2, 3, requires_grad=True), torch.ones(2, requires_grad=True)
    results = {
        "matmul": x @ weight.T,
        "F.linear": F.linear(x, weight, bias),
        "nn.Linear": nn.Linear(3, 2)(x),
        "Twice": Twice.apply(weight, []),
    }
    kind = torch.autograd.function.BackwardCFunction
    assert [name for name, y in results.items() if isinstance(y.grad_fn, kind)] == __


def test_four_modules_and_their_nodes():
    """Data runs through four modules. After each one: the name of its last node, or None where
    there is no node. Write names as name() prints them, as in 'SinBackward0'."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Dropout(), nn.Softmax(dim=1)).eval()
    x = torch.ones(3, 2, 2)
    names = []
    for module in net:
        x = module(x)
        names.append(x.grad_fn and x.grad_fn.name())
    assert names == __


def test_what_relu_keeps():
    """Look over its shoulder: which tensors does nn.ReLU keep for backward?"""
    kept = []

    def pack(tensor):
        kept.append(tensor.tolist())
        return tensor

    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = nn.ReLU()(x)
    assert kept == __


def test_infinity_at_a_closed_gate():
    """Infinite gradients arrive at relu, one at a closed gate. What comes out? Write each number
    as text with one digit after the point, as in '1.5'."""
    x = torch.tensor([-1.0, 2.0, 5.0], requires_grad=True)
    x.relu().backward(torch.tensor([float("inf"), 3.0, float("inf")]))
    assert [f"{g:.1f}" for g in x.grad.tolist()] == __


def test_enlarge_with_and_without_gradients():
    """A picture of one row, made twice as wide: each pixel is repeated. First autograd is off:
    write the pixels. Then it is on: write the gradient of `row`."""
    row = torch.tensor([[[0.0, 4.0]]], requires_grad=True)
    with torch.no_grad():
        wide = F.interpolate(row, scale_factor=2, mode="nearest")
    assert wide.flatten().tolist() == __
    wide = F.interpolate(row, scale_factor=2, mode="nearest")
    (wide * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert row.grad.flatten().tolist() == __


@pytest.mark.timeout(20)
def test_where_the_time_goes():
    """Backward through one sine of a number, through a hundred of them, and through one product
    of large matrices. Sort the three names, the quickest first."""
    number, matrix = torch.ones((), requires_grad=True), torch.ones(700, 700, requires_grad=True)

    def quickest(loss):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            loss.backward(retain_graph=True)
            times.append(time.perf_counter() - start)
        return min(times)

    hundred = number
    for _ in range(100):
        hundred = hundred.sin()
    jobs = {"100 sines": hundred, "1 product": (matrix @ matrix).sum(), "1 sine": number.sin()}
    assert sorted(jobs, key=lambda name: quickest(jobs[name])) == __


@pytest.mark.slow
def test_a_node_for_a_compiled_function():
    """One function, called plainly, and compiled with two backends. The last node is an
    AddBackward0, or a CompiledFunctionBackward that stands for the whole function. Which calls
    leave the second?"""

    def f(x):
        return (x * 3) + 1

    x = torch.ones(2, requires_grad=True)
    calls = {"plain": f}
    calls |= {name: torch.compile(f, backend=name) for name in ("eager", "aot_eager")}
    nodes = {name: type(call(x).grad_fn).__name__ for name, call in calls.items()}
    assert [name for name in nodes if nodes[name] != "AddBackward0"] == __


def test_be_the_engine():
    """Write `engine`: it gets y, made by a chain of operations with one input each, and returns
    the gradient of y.sum() at the leaf. Call the nodes yourself, and leave the leaf alone."""

    def engine(y):
        # your turn:
        __
        # end

    def compare():
        def chain(x):
            for name in names:
                x = getattr(x, name)()
            return x

        for names in (["sin"], ["exp", "tanh"], ["sin", "neg", "exp", "sqrt", "cos"]):
            x = torch.tensor([0.5, 1.0], requires_grad=True)
            x.register_hook(lambda grad: pytest.fail("that was PyTorch's own engine"))
            mine = engine(chain(x))
            assert x.grad is None
            plain = x.detach().requires_grad_()
            (theirs,) = torch.autograd.grad(chain(plain).sum(), plain)
            assert torch.allclose(mine, theirs)

    compare()
