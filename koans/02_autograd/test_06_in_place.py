"""In place: writes that autograd records, writes it refuses, and writes it never sees."""

import re

import pytest
import torch

from sensei import __


def test_the_way_back_after_a_write():
    """Some say that y forgets where it came from when you write into it.

    Count the nodes from y back to x, before the write and after it. x's own node, where the
    gradient is added up, is counted.
    """

    def count(node):
        return 0 if node is None else 1 + sum(count(n) for n, _ in node.next_functions)

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    before = count(y.grad_fn)
    y[0] = 0
    assert [before, count(y.grad_fn)] == __


def test_one_element_from_somewhere_else():
    """Square x, then put something else into one element. Predict both gradients."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = torch.tensor(1.0, requires_grad=True)
    y = x**2
    y[0] = 5 * w
    y.sum().backward()
    assert x.grad.tolist() == __
    assert w.grad == __


def test_when_the_write_is_noticed():
    """Each of four writes ends in an error: at the write itself, or only in backward.

    List the writes that were carried out, so that only backward complained.
    """
    x = torch.zeros(2, requires_grad=True)
    targets = {"leaf": x, "part of a leaf": x[:1]}
    targets |= {"result": x.exp(), "part of a result": x.exp()[:1]}
    written = []
    for name, target in targets.items():
        with pytest.raises(RuntimeError):
            target.add_(1)
            written.append(name)
            target.sum().backward()
    assert written == __


def test_whose_result_may_not_be_touched():
    """Each operation's result is overwritten. For which ones does backward fail?

    List them in this order.
    """
    failed = []
    for operation in (torch.sin, torch.sqrt, torch.log, torch.tanh, torch.reciprocal):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = operation(x)
        y[0] = 0
        try:
            y.sum().backward()
        except RuntimeError:
            failed.append(operation.__name__)
    assert failed == __


def test_read_the_two_versions_in_the_error():
    """The same buffer is filled with new data too early. Backward fails, and says:

    "is at version ...; expected version ... instead". Predict the two numbers, in this order.
    """
    w = torch.ones(3, requires_grad=True)
    data = torch.ones(3)
    data.mul_(5)
    loss = (w * data).sum()
    data.add_(1)
    data.sub_(2)
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    assert [int(n) for n in re.findall(r"version (\d+)", str(caught.value))] == __


def test_a_write_through_a_view():
    """Cut a view out of y and change the view. The sum is taken over y itself.

    Predict x's gradient.
    """
    x = torch.ones(2, requires_grad=True)
    y = 2 * x
    first = y[:1]
    first.mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == __


def test_write_a_recorded_write():
    """Write scale_: turn h into 3 * h + 1 in its own memory, so that the gradient knows of it."""

    def scale_(h):
        # your turn:
        __
        # end

    for start in (0.0, 1.0):
        x = torch.full((2,), start, requires_grad=True)
        h = x.sin()
        scale_(h)
        assert torch.allclose(h, x.sin() * 3 + 1)
        h.sum().backward()
        assert torch.allclose(x.grad, x.cos() * 3)


def test_the_write_that_nobody_sees():
    """Write a 5 into exp's result, first through detach(), then through .data.

    The first way is refused in backward. Predict x's gradient after the second.
    """
    x = torch.zeros(3, requires_grad=True)
    y = x.exp()
    y.detach()[0] = 5.0
    with pytest.raises(RuntimeError):
        y.sum().backward()
    y = x.exp()
    y.data[0] = 5.0
    y.sum().backward()
    assert x.grad.tolist() == __


def test_cap_the_large_ones():
    """What is larger than 4 should become 4, and get no gradient. Backward fails.

    Repair the marked line.
    """
    for numbers in ([0.0, 1.0, 2.0], [3.0, -1.0, 0.5]):
        x = torch.tensor(numbers, requires_grad=True)
        y = x.exp()
        # your turn:
        y[y > 4] = 4.0
        # end
        y.sum().backward()
        plain = x.detach().exp()
        assert torch.equal(y, plain.clamp(max=4.0))
        assert torch.allclose(x.grad, torch.where(plain > 4, 0.0, plain))


def test_step_by_step_into_one_tensor():
    """Each state is the one before it, times w. All go into one tensor. Backward fails.

    Repair it: the same states, and a gradient through all of them.
    """

    def unroll(w, steps):
        # your turn:
        states = torch.ones(steps + 1)
        for t in range(steps):
            states[t + 1] = states[t] * w
        return states
        # end

    for number, steps in ((2.0, 3), (3.0, 2)):
        w = torch.tensor(number, requires_grad=True)
        states = unroll(w, steps)
        assert states.tolist() == [number**t for t in range(steps + 1)]
        states.sum().backward()
        assert w.grad == sum(t * number ** (t - 1) for t in range(steps + 1))
