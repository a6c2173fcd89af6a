"""Functions of your own: the node you write by hand."""

import pytest
import torch
from torch.autograd.function import once_differentiable

from sensei import __


def test_what_apply_hangs_on_the_result():
    """Your own operation, called with `apply`. Inside, two additions run. Write the class
    names of the two nodes you meet on the way back from y."""

    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + x + x

        @staticmethod
        def backward(ctx, grad):
            return 3 * grad

    y = Triple.apply(torch.tensor(2.0, requires_grad=True))
    below, _ = y.grad_fn.next_functions[0]
    names = [type(node).__name__ for node in (y.grad_fn, below)]
    assert names == __


def test_a_function_without_backward():
    """Half a Function: forward only. Some say both methods must be there. The first lines pass;
    with which exception does the last one end?"""

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

    y = Half.apply(torch.tensor(4.0, requires_grad=True))
    assert y.item() == 2.0 and y.requires_grad
    with pytest.raises(Exception) as caught:
        y.backward()
    assert caught.type is __


def test_a_function_from_an_old_book():
    """This Function is written like a module: with `self`, and an instance that is called. PyTorch
    refuses it. Bring it into today's form; `scale` should go on using a node of your own."""

    # your turn:
    class Scale(torch.autograd.Function):
        def __init__(self, factor):
            self.factor = factor

        def forward(self, x):
            return x * self.factor

        def backward(self, grad):
            return grad * self.factor

    def scale(x, factor):
        return Scale(factor)(x)

    # end
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    small, large = scale(x, 0.5), scale(x, 10)
    assert small.grad_fn.name() == large.grad_fn.name() == "ScaleBackward"
    (small + large).sum().backward()
    assert x.grad.tolist() == [10.5, 10.5]


def test_what_backward_is_given():
    """Three outputs, one of them used. Write the list of what backward receives: each tensor as a
    list of numbers."""
    received = []

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3, "a label"

        @staticmethod
        def backward(ctx, *grads):
            received.extend(g if g is None else g.tolist() for g in grads)
            return grads[0] * 2 + grads[1] * 3

    double, triple, label = Both.apply(torch.ones(2, requires_grad=True))
    (double * 5).sum().backward()
    assert received == __


def test_whose_gradient_is_wanted():
    """`ctx.needs_input_grad` tells whose gradient somebody waits for. What does it hold here?"""
    wishes = []

    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, factor, label):
            return x * weight * factor

        @staticmethod
        def backward(ctx, grad):
            wishes.extend(ctx.needs_input_grad)
            return tuple(grad if wish else None for wish in wishes)

    weight = torch.ones(2, requires_grad=True)
    Weighted.apply(torch.ones(2), weight, 3, "a label").sum().backward()
    assert wishes == __


def test_a_slip_in_the_formula():
    """The slope of x² is not 3x. Does PyTorch mind? Predict the gradient."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] * grad

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == __


def test_catch_the_slip():
    """Write `honest`. It takes a function with a backward, and returns True if this backward
    agrees with what forward does, else False. It knows no formula. One of these forgets what
    comes from above."""

    def honest(f):
        # your turn:
        __
        # end

    def judge_four():
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**2

            @staticmethod
            def backward(ctx, grad):
                return 3 * ctx.saved_tensors[0] * grad

        class Deaf(Square):
            @staticmethod
            def backward(ctx, grad):
                return 2 * ctx.saved_tensors[0]

        fair, unfair = lambda x: x * x.exp(), lambda x: x + Square.apply(x)
        return [honest(f) for f in (torch.exp, fair, unfair, Deaf.apply)]

    assert judge_four() == [True, True, False, False]


def test_same_forward_and_another_backward():
    """Round two numbers: with PyTorch, and with a Function whose backward pretends that nothing
    happened. Write both outputs, then both gradients."""

    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.tensor([0.4, 1.6], requires_grad=True)
    outputs = [torch.round(x), Straight.apply(x)]
    assert [y.tolist() for y in outputs] == __
    gradients = [torch.autograd.grad(y.sum(), x)[0].tolist() for y in outputs]
    assert gradients == __


def test_the_input_is_wiped_before_backward():
    """Somebody wipes h, and the gradient is silently 0. Repair the Function: keep no copy, but
    let PyTorch raise its error when the tensor you kept was written over."""

    class Square(torch.autograd.Function):
        # your turn:
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.x * grad

        # end

    x = torch.tensor([1.0, 3.0], requires_grad=True)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 6.0]
    h = x * 1
    y = Square.apply(h)
    (kept,) = y.grad_fn.saved_tensors
    assert kept.data_ptr() == h.data_ptr()
    h.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_forward_without_ctx():
    """This forward takes no ctx: it only computes. A third method, `setup_context`, runs after it
    and fills ctx. Write it."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        # your turn:
        __
        # end

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (Scale.apply(x, 3) + Scale.apply(x, 0.5)).sum().backward()
    assert x.grad.tolist() == [3.5, 3.5]


def test_a_second_derivative_through_numpy():
    """This backward computes with NumPy, and says so: good for one derivative. The second is
    refused. What is the first one, and does it require grad?"""

    class Double(torch.autograd.Function):
        forward = staticmethod(lambda ctx, x: 2 * x)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return torch.from_numpy(2 * grad.numpy())

    x = torch.ones(2, requires_grad=True)
    (slope,) = torch.autograd.grad(Double.apply(x).prod(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        slope.sum().backward()
    assert [slope.tolist(), slope.requires_grad] == __


def test_a_mask_that_falls_on_others():
    """w is only a summand, so each of its elements should get 3. But Gate spoils it, without a
    word. Repair the marked lines."""

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            # your turn:
            grad[x <= 0] = 0
            return grad
            # end

    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    other = w * 1
    ((other + Gate.apply(x)) * 3).sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]
    assert w.grad.tolist() == [3.0, 3.0]


def test_a_gate_that_shows_its_mask():
    """Write Gate: it takes x and a number. It returns x with 0 wherever x is not above the number,
    and a mask of 1.0 and 0.0: what was let through. Nobody differentiates a mask."""
    # your turn:
    __
    # end
    for threshold, expected in ((0.0, [0.0, 1.0, 1.0]), (1.5, [0.0, 0.0, 1.0])):
        x = torch.tensor([-2.0, 1.0, 3.0], requires_grad=True)
        y, mask = Gate.apply(x, threshold)
        assert (y.grad_fn.name(), mask.requires_grad) == ("GateBackward", False)
        assert (mask.tolist(), mask.dtype) == (expected, torch.float32)
        assert y.tolist() == (x * mask).tolist()
        (y * 5).sum().backward()
        assert x.grad.tolist() == (mask * 5).tolist()
