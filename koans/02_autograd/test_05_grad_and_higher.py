"""autograd.grad: gradients as return values, and gradients of gradients."""

import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from sensei import __


def test_a_tenth_of_a_gradient():
    """Compute a gradient and take a tenth of it, in one line. Which exception comes back?"""
    weight = torch.tensor(3.0, requires_grad=True)
    loss = weight**2
    with pytest.raises(Exception) as caught:
        0.1 * torch.autograd.grad(loss, weight)
    assert caught.type is __


def test_gradients_handed_over():
    """Ask for the gradients of z, at y and at x. Then look at x.grad."""
    x = torch.tensor(2.0, requires_grad=True)
    y = x**2
    z = y * 3
    at_y, at_x = torch.autograd.grad(z, (y, x))
    assert [at_y.item(), at_x.item(), x.grad] == __


def test_an_input_that_was_not_used():
    """The loss does not depend on w. Ask for its gradient with three sets of options.

    Write what comes back; "refused" if PyTorch raises.
    """
    x, w = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
    found = []
    for options in ({}, {"allow_unused": True}, {"materialize_grads": True}):
        try:
            (at_w,) = torch.autograd.grad(x * 2, w, **options)
        except RuntimeError:
            at_w = "refused"
        found.append(at_w)
    assert found == __


def test_count_the_work_of_two_losses():
    """Two losses share a sine. Count how often `sin` and `cos` run, for three ways back."""

    def ran(walk):
        x = torch.tensor(0.5, requires_grad=True)
        with torch.autograd.profiler.profile() as log:
            h = x.sin()
            walk(h * 2, h * 3, x)
        names = [event.name for event in log.function_events]
        return [names.count("aten::sin"), names.count("aten::cos")]

    grad = torch.autograd.grad
    assert ran(lambda a, b, x: [a.backward(retain_graph=True), b.backward()]) == __
    assert ran(lambda a, b, x: [grad(a, x, retain_graph=True), grad(b, x)]) == __
    assert ran(lambda a, b, x: (a + b).backward()) == __


def test_what_a_node_shows_to_python():
    """Multiply, and take the node that will do the backward. List what it offers, in order."""
    node = (torch.ones(3, requires_grad=True) * 2).grad_fn
    names = ["name", "next_functions", "forward", "backward", "register_hook"]
    assert [name for name in names if hasattr(node, name)] == __


def test_step_in_half_way():
    """Write `careful`: the gradient of z at x, but what arrives at h is limited to -1 ... 1
    before it goes on. Store nothing in .grad."""

    def careful(z, h, x):
        # your turn:
        __
        # end

    x = torch.tensor([2.0, 0.125, -1.0], requires_grad=True)
    h = 3 * x
    assert careful((h**2).sum(), h, x).tolist() == [3.0, 2.25, -3.0]
    h = x**2
    assert careful((5 * h).sum(), h, x).tolist() == [4.0, 0.25, -2.0]
    assert x.grad is None


def test_the_slope_of_the_slope():
    """Write `bend`: the second derivative of f at x. f is a curve, not a straight line."""

    def bend(f, x):
        # your turn:
        __
        # end

    assert bend(lambda x: x**3, torch.tensor(3.0, requires_grad=True)).item() == 18.0
    assert bend(lambda x: 1 / x, torch.tensor(2.0, requires_grad=True)).item() == 0.25


def test_the_shapes_of_all_slopes():
    """Collect all first slopes of one function, all second slopes of another. Which shapes?"""
    x = torch.ones(2, 3)
    first = jacobian(lambda x: x.sum(dim=0), x)
    second = hessian(lambda x: x.square().sum(), x)
    assert tuple(first.shape) == __
    assert tuple(second.shape) == __


# torch itself scripts the rules of forward mode, with a call that it calls deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_a_push_forward_and_a_pull_back():
    """A running sum, and a vector with a single 1. Push it through the slopes (jvp), and pull
    it back through them (vjp). Predict both."""
    x = torch.tensor([4.0, 3.0, 8.0])
    one = torch.tensor([0.0, 1.0, 0.0])

    def running_sum(x):
        return x.cumsum(dim=0)

    _, pushed = torch.func.jvp(running_sum, (x,), (one,))
    _, pull = torch.func.vjp(running_sum, x)
    assert pushed.tolist() == __
    assert pull(one)[0].tolist() == __


def test_write_a_gradient_penalty():
    """Write `penalty`. For each sample (a row), take the gradient of its score at that sample,
    and the gradient's length. Return the mean of (length - 1) squared, ready to be trained."""

    def penalty(critic, samples):
        # your turn:
        __
        # end

    w = torch.tensor([3.0, 4.0], requires_grad=True)
    loss = penalty(lambda samples: samples @ w, torch.ones(3, 2))
    assert loss.item() == 16.0, "one length for each sample, then the mean"
    assert w.grad is None, "something was stored in the critic's weight"
    loss.backward()
    assert w.grad.tolist() == pytest.approx([4.8, 6.4])
    w = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = penalty(lambda samples: (samples @ w) ** 2, torch.tensor([[1.0, 1.0], [5.0, 2.0]]))
    assert loss.item() == 5.0
    loss.backward()
    assert w.grad.tolist() == pytest.approx([32.0, 28.0])
