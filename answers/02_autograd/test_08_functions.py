"""Functions of your own: the node you write by hand.

Documents: A 2.2, B 1, B 3
"""

import pytest
import torch
from torch.autograd.function import once_differentiable

from sensei import answer, koan


@koan(
    claims=["A-2.2-11", "B-3-06"],
    see="torch.autograd.Function",
    hint=[
        "Print y.grad_fn, then what y.grad_fn.next_functions holds.",
        "Is grad mode on while your forward runs? Print torch.is_grad_enabled() there.",
        "The node is named after your class. How did the built-in operations name theirs?",
    ],
    why="forward runs with grad mode off: its two additions leave no trace. apply() then hangs "
    "one node on the result, made from your class, and its edge leads straight to x.",
    wrong={
        '["AddBackward0", "AddBackward0"]': "Two additions ran, but nobody recorded them: "
        "the gradient formula is your business now.",
        '["TripleBackward", "AddBackward0"]': "Nothing that runs inside forward enters the graph. "
        "What does the edge lead to then?",
        '["Triple", "AccumulateGrad"]': "The class is only the blueprint. "
        "The node that is made from it has a name of its own.",
    },
)
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
    assert names == answer(["TripleBackward", "AccumulateGrad"])


@koan(
    claims=["A-2.2-12", "B-1-05", "B-3-05"],
    see="torch.autograd.Function.backward",
    hint=[
        "Python could refuse when the class is made, or when it is used. Read the lines that pass.",
        "The base class has a `backward` already. What would you write into a method that others "
        "are meant to fill?",
    ],
    why="Function is no abstract base class: nothing is checked when you define it. You may leave "
    "out backward, or call it vjp, and only the first backward pass will ask for it.",
    wrong={
        "TypeError": "So would one of Python's abstract classes complain, and long before this "
        "line. This class is none.",
        "AttributeError": "The attribute exists: the base class brings one, which only complains.",
        "RuntimeError": "The base class complains in Python, and with a more telling name.",
    },
)
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
    assert caught.type is answer(NotImplementedError)


@koan(
    claims=["A-2.2-11", "A-2.2-13", "B-3-05", "B-3-07"],
    see="torch.autograd.Function",
    hint=[
        "No instance, no self: both methods are static and take a ctx. Who keeps the factor?",
        "forward gets the factor as one more argument.",
        "backward answers for every argument of forward. What is the gradient of a plain number?",
    ],
    why="A Function is a blueprint that is never instantiated: what one call must remember lives "
    "on its ctx. backward returns one value for each argument of forward, None for a number.",
    wrong={
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, factor):\n"
        "        ctx.factor = factor\n"
        "        return x * factor\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * ctx.factor\n\n\n"
        "def scale(x, factor):\n"
        "    return Scale.apply(x, factor)": (
            "One gradient for two arguments. The factor wants its place too, even without a slope."
        ),
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x * 0.5\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * 0.5\n\n\n"
        "def scale(x, factor):\n"
        "    return Scale()(x)": (
            "Static methods alone do not help: it is the instance that may not be called."
        ),
        "def scale(x, factor):\n    return x * factor": (
            "The numbers are right. But this is the built-in product, not your own node."
        ),
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, factor):\n"
        "        return x * factor\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * factor, None\n\n\n"
        "def scale(x, factor):\n"
        "    return Scale.apply(x, factor)": (
            "backward does not see what forward was given. Something has to carry the factor over."
        ),
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, factor):\n"
        "        Scale.factor = factor\n"
        "        return x * factor\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * Scale.factor, None\n\n\n"
        "def scale(x, factor):\n"
        "    return Scale.apply(x, factor)": (
            "All calls share the class, so the second call overwrites the factor of the first."
        ),
    },
    right=[
        "class Scale(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(x, factor):\n"
        "        return x * factor\n\n"
        "    @staticmethod\n"
        "    def setup_context(ctx, inputs, output):\n"
        "        ctx.factor = inputs[1]\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * ctx.factor, None\n\n\n"
        "scale = Scale.apply",
        "class Scale(torch.autograd.Function):\n"
        "    def forward(ctx, x, factor):\n"
        "        ctx.factor = factor\n"
        "        return x * factor\n\n"
        "    def backward(ctx, grad):\n"
        "        return grad * ctx.factor, None\n\n\n"
        "def scale(x, factor):\n"
        "    return Scale.apply(x, factor)",
    ],
    at={
        "small, large =": (
            "Here `scale` is called with x and a factor. Does it exist, and does it hand both on "
            "in the way your methods take them?"
        ),
        "small.grad_fn.name()": (
            "The calls succeed. But the results do not hang on a node that is made from your "
            "class Scale."
        ),
        "(small + large)": (
            "forward is right; the way back breaks off. Compare what backward takes and returns "
            "with what forward takes and returns."
        ),
        "x.grad.tolist()": (
            "Backward runs. But x should get the sum of both factors: does each call remember its "
            "own?"
        ),
    },
)
def test_a_function_from_an_old_book():
    """This Function is written like a module: with `self`, and an instance that is called. PyTorch
    refuses it. Bring it into today's form; `scale` should go on using a node of your own."""
    # answer:

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    def scale(x, factor):
        return Scale.apply(x, factor)

    # given:
    # class Scale(torch.autograd.Function):
    #     def __init__(self, factor):
    #         self.factor = factor
    #
    #     def forward(self, x):
    #         return x * self.factor
    #
    #     def backward(self, grad):
    #         return grad * self.factor
    #
    # def scale(x, factor):
    #     return Scale(factor)(x)
    # end
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    small, large = scale(x, 0.5), scale(x, 10)
    assert small.grad_fn.name() == large.grad_fn.name() == "ScaleBackward"
    (small + large).sum().backward()
    assert x.grad.tolist() == [10.5, 10.5]


@koan(
    claims=["A-2.2-13"],
    see="torch.autograd.function.FunctionCtx.set_materialize_grads",
    hint=[
        "What forward returns decides how many gradients come back, in the same order.",
        "Nobody uses `triple`. What is the gradient of something the loss does not depend on?",
        "What could be the gradient of a piece of text?",
    ],
    why="One gradient for each output, the unused included: PyTorch fills in zeros, so that your "
    "formula need not care. What is no tensor gets None.",
    wrong={
        "[[5.0, 5.0]]": "backward is called with everything forward returned, used or not.",
        "[[5.0, 5.0], None, None]": "So it would be after ctx.set_materialize_grads(False). "
        "Without it an unused tensor gets something to compute with.",
        "[[5.0, 5.0], [0.0, 0.0]]": "The label was returned as well, so it keeps its place.",
        "[[5.0, 5.0], [1.0, 1.0], None]": "One is the gradient of the loss itself. The loss does "
        "not even depend on this output.",
    },
)
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
    assert received == answer([[5.0, 5.0], [0.0, 0.0], None])


@koan(
    claims=["A-2.2-13", "B-3-07"],
    see="torch.autograd.Function.backward",
    hint=[
        "backward must return one value for each argument. Its wish list is just as long.",
        "Which arguments asked for a gradient when you made them?",
    ],
    why="One entry for each argument of forward, plain values included. Look there before you "
    "compute something expensive: for a False, None will do.",
    wrong={
        "[False, True]": "Not the tensors only: numbers and text keep their places as well.",
        "[True, True, False, False]": "x is a tensor, but it did not ask for a gradient.",
        "[True]": "True, one gradient is wanted. But you must know which one.",
    },
)
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
    assert wishes == answer([False, True, False, False])


@koan(
    claims=["B-3-08"],
    see="torch.autograd.function.FunctionCtx.save_for_backward",
    hint=[
        "Who knows that the slope of x² is 2x: PyTorch, or whoever wrote backward?",
        "Put 1 and 2 into the formula as it is written.",
    ],
    why="The formula is yours alone. PyTorch calls it and believes it: no error, no warning, only "
    "a model that learns the wrong thing.",
    wrong={
        "[2.0, 4.0]": "Some say backward only carries out a rule and has no part in the formula. "
        "It IS the formula, and nobody else knows another one.",
        "[3.0, 3.0]": "The saved x is part of the formula: it differs for the two elements.",
        "[1.0, 4.0]": "That is what forward gives.",
    },
)
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
    assert x.grad.tolist() == answer([3.0, 6.0])


@koan(
    claims=["B-3-08"],
    see="torch.autograd.gradcheck.gradcheck",
    hint=[
        "torch.autograd.gradcheck compares a backward with small differences of the forward.",
        "Small differences need many digits. Which dtype has them?",
        "gradcheck raises when it finds a slip, unless you ask it to answer only.",
    ],
    why="gradcheck moves each input a little, watches every output, and compares. It needs double "
    "precision and a general point: at zero many wrong formulas look right.",
    wrong={
        "x = torch.rand(3, requires_grad=True)\n"
        "return torch.autograd.gradcheck(f, (x,), raise_exception=False)": (
            "In float32 the small differences drown in rounding: even exp is found guilty."
        ),
        "x = torch.zeros(3, dtype=torch.double, requires_grad=True)\n"
        "return torch.autograd.gradcheck(f, (x,), raise_exception=False)": (
            "At zero, 2x and 3x are the same. Test where nothing vanishes."
        ),
        "x = torch.rand(3, dtype=torch.double, requires_grad=True)\n"
        "f(x).sum().backward()\n"
        "slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6\n"
        "return torch.allclose(x.grad, slope, atol=1e-4)": (
            "A sum sends a 1 to every element. So a backward that never looks at what comes from "
            "above seems to be right."
        ),
        "return f in (torch.exp, torch.square)": "A list of names knows only what is on it.",
        "x = torch.rand(1, dtype=torch.double, requires_grad=True)\n"
        "f(x).sum().backward()\n"
        "return x.grad is not None": "A gradient came back. That does not make it right.",
    },
    right=[
        "try:\n"
        "    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)\n"
        "    return torch.autograd.gradcheck(f, x)\n"
        "except RuntimeError:\n"
        "    return False",
    ],
)
def test_catch_the_slip():
    """Write `honest`. It takes a function with a backward, and returns True if this backward
    agrees with what forward does, else False. It knows no formula. One of these forgets what
    comes from above."""

    def honest(f):
        # answer:
        x = torch.rand(3, dtype=torch.double, requires_grad=True)
        return torch.autograd.gradcheck(f, (x,), raise_exception=False)
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


@koan(
    claims=["B-1-07"],
    see="torch.round",
    hint=[
        "Two questions: what comes out, and what flows back. Which of them does backward answer?",
        "round() makes steps. How steep is a step, between its edges?",
        "Straight.backward hands on what it gets.",
    ],
    why="Results come from forward alone; another backward changes what is learnt from them. "
    "Rounding has slope 0, so nothing before it would learn: pretending slope 1 is a known trick.",
    wrong={
        ("[[0.0, 2.0], [0.4, 1.6]]", "[[0.0, 0.0], [1.0, 1.0]]"): (
            "Some say a rewritten backward made their pictures sharper. It can do so only through "
            "later updates: for given numbers, forward gives what it gives."
        ),
        ("[[0.0, 2.0], [0.0, 2.0]]", "[[1.0, 1.0], [1.0, 1.0]]"): (
            "PyTorch's own rounding is honest: a small step in x changes nothing."
        ),
        ("[[0.0, 2.0], [0.0, 2.0]]", "[[0.0, 0.0], [0.0, 0.0]]"): (
            "PyTorch takes the slope you wrote, not the one you should have written."
        ),
    },
    at={
        "y.tolist() for y in outputs": (
            "This line looks at the outputs, before any walk back. Which of the two methods makes "
            "a result?"
        ),
        "assert gradients ==": (
            "The outputs are right. Now the way back: who decides what flows, for each of the "
            "two, and how steep is a step?"
        ),
    },
)
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
    assert [y.tolist() for y in outputs] == answer([[0.0, 2.0], [0.0, 2.0]])
    gradients = [torch.autograd.grad(y.sum(), x)[0].tolist() for y in outputs]
    assert gradients == answer([[0.0, 0.0], [1.0, 1.0]])


@koan(
    see="torch.autograd.function.FunctionCtx.save_for_backward",
    hint=[
        "An attribute on ctx is plain Python: nobody watches what happens to the tensor.",
        "ctx has a method to keep tensors until backward. Under which name do they come back?",
    ],
    why="save_for_backward notes how often the tensor was written; when you take it back, "
    "PyTorch compares. It also avoids memory leaks. Numbers and text may go on ctx as they are.",
    wrong={
        "@staticmethod\n"
        "def forward(ctx, x):\n"
        "    ctx.x = x.clone()\n"
        "    return x * x\n\n"
        "@staticmethod\n"
        "def backward(ctx, grad):\n"
        "    return 2 * ctx.x * grad": (
            "A copy is safe, and you pay for it at each call. Let autograd watch the original."
        ),
        "@staticmethod\n"
        "def forward(ctx, x):\n"
        "    ctx.x = x.detach()\n"
        "    return x * x\n\n"
        "@staticmethod\n"
        "def backward(ctx, grad):\n"
        "    return 2 * ctx.x * grad": "Out of the graph, but in the same memory that is wiped.",
        "@staticmethod\n"
        "def forward(ctx, x):\n"
        "    ctx.save_for_backward(x.clone())\n"
        "    return x * x\n\n"
        "@staticmethod\n"
        "def backward(ctx, grad):\n"
        "    (x,) = ctx.saved_tensors\n"
        "    return 2 * x * grad": "The right method, but PyTorch watches the copy. Nobody writes "
        "there.",
        "@staticmethod\n"
        "def forward(ctx, x):\n"
        "    ctx.save_for_backward(x.clone())\n"
        "    return x * x\n\n"
        "@staticmethod\n"
        "def backward(ctx, grad):\n"
        "    return 2 * ctx.saved_tensors[0] * grad": "The right method, but PyTorch watches the "
        "copy. Nobody writes there.",
        "@staticmethod\n"
        "def forward(ctx, x):\n"
        "    ctx.x, ctx.version = x, x._version\n"
        "    return x * x\n\n"
        "@staticmethod\n"
        "def backward(ctx, grad):\n"
        "    if ctx.x._version != ctx.version:\n"
        '        raise RuntimeError("modified by an inplace operation")\n'
        "    return 2 * ctx.x * grad": "By hand you do what PyTorch does for whatever you give "
        "to it.",
    },
    right=[
        "@staticmethod\n"
        "def forward(ctx, x):\n"
        "    ctx.save_for_backward(x)\n"
        "    return x * x\n\n"
        "@staticmethod\n"
        "def backward(ctx, grad):\n"
        "    return 2 * ctx.saved_tensors[0] * grad",
    ],
    at={
        "Square.apply(x).sum().backward()": (
            "Nobody wipes anything yet: forward and backward should simply run, as they did before."
        ),
        "x.grad.tolist()": (
            "It runs, and nobody has wiped anything yet. But x * x has another gradient than "
            "this: look at your formula."
        ),
        "(kept,) =": (
            "The gradient is right. This line looks at what PyTorch keeps for your node: it "
            "should be one tensor."
        ),
        "kept.data_ptr()": (
            "PyTorch keeps one tensor, but it is not h's own memory. So it watches a place where "
            "nobody writes."
        ),
        'match="modified by an inplace operation"': (
            "PyTorch keeps the right tensor. But backward did not notice that it was wiped: where "
            "does your backward take it from?"
        ),
    },
)
def test_the_input_is_wiped_before_backward():
    """Somebody wipes h, and the gradient is silently 0. Repair the Function: keep no copy, but
    let PyTorch raise its error when the tensor you kept was written over."""

    class Square(torch.autograd.Function):
        # answer:
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

        # given:
        # @staticmethod
        # def forward(ctx, x):
        #     ctx.x = x
        #     return x * x
        #
        # @staticmethod
        # def backward(ctx, grad):
        #     return 2 * ctx.x * grad
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


@koan(
    claims=["A-2.2-12", "B-3-05"],
    see="torch.autograd.Function.setup_context",
    hint=[
        "setup_context takes three things: ctx, the inputs of forward, the output of forward.",
        "The inputs come as one tuple. backward tells you what it wants to find on ctx.",
    ],
    why="forward computes, setup_context remembers, backward answers. This newer form is the one "
    "torch.func (vmap, grad, jacrev) can work with.",
    wrong={
        "@staticmethod\ndef setup_context(ctx, x, factor):\n    ctx.factor = factor": (
            "The names fit, the meaning does not: the inputs arrive in one tuple, then the output."
        ),
        "@staticmethod\n"
        "def setup_context(ctx, inputs, output):\n"
        "    ctx.save_for_backward(*inputs)": (
            "Only tensors can be saved this way, and backward looks for an attribute."
        ),
    },
    right=[
        "@staticmethod\n"
        "def setup_context(ctx, inputs, output):\n"
        "    x, factor = inputs\n"
        "    ctx.factor = factor",
        "def setup_context(ctx, inputs, output):\n    _, ctx.factor = inputs",
    ],
    at={
        "return grad * ctx.factor": (
            "The way forward ran. But backward wants to find the plain number at ctx.factor. What "
            "is there, if anything?"
        ),
        "x.grad.tolist()": (
            "It runs. But x should get the sum of both factors: what did your method put on ctx "
            "in each call?"
        ),
    },
)
def test_a_forward_without_ctx():
    """This forward takes no ctx: it only computes. A third method, `setup_context`, runs after it
    and fills ctx. Write it."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        # answer:
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        # end

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (Scale.apply(x, 3) + Scale.apply(x, 0.5)).sum().backward()
    assert x.grad.tolist() == [3.5, 3.5]


@koan(
    see="torch.autograd.Function.backward",
    hint=[
        "The product of 2·a and 2·b: how fast does it grow with a, where both are 1?",
        "Would you rather be told that there is no second derivative, or get a wrong one?",
        "A tensor that requires no grad counts as a constant for whoever goes on with it.",
    ],
    why="The second derivative exists, and NumPy cannot deliver it. If the first one required no "
    "grad, it would pass for a constant, and in a sum with others its share would be missing "
    "unseen. So the mark lets it require grad, and puts a node behind it that only raises.",
    wrong={
        "[[4.0, 4.0], False]": (
            "So it would be with detach() in place of the mark, for NumPy keeps no history. The "
            "mark is there to prevent just that."
        ),
        "[[2.0, 2.0], True]": "That is the slope of one factor. The other factor counts as well.",
        "[[2.0, 2.0], False]": "A product has two factors. And read the mark's name once more.",
        "[[0.0, 0.0], False]": "The walk through NumPy works: once.",
    },
)
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
    assert [slope.tolist(), slope.requires_grad] == answer([[4.0, 4.0], True])


@koan(
    claims=["B-3-90"],
    see="torch.Tensor.clone",
    hint=[
        "An addition gives the gradient it receives to both of its inputs. Does each get a copy?",
        "Print grad.data_ptr() here, and in a hook on `other`.",
    ],
    why="An addition hands ONE tensor to both sides. Written in place, your mask falls on the "
    "neighbour too; and only if that one is visited later. A gradient you receive is not yours.",
    wrong={
        "grad = grad.detach()\ngrad[x <= 0] = 0\nreturn grad": "Another tensor, the same memory.",
        "grad.masked_fill_(x <= 0, 0)\nreturn grad": "Another way to write in place.",
        "grad[x <= 0] = 0\nreturn grad.clone()": "Copied too late: the damage is done by then.",
        "return grad.clone()": "The neighbour is safe, but the mask is gone.",
    },
    right=[
        "return torch.where(x > 0, grad, 0.0)",
        "return grad * (x > 0)",
        "return grad.masked_fill(x <= 0, 0)",
        "mine = grad.clone()\nmine[x <= 0] = 0\nreturn mine",
    ],
    at={
        "w.grad.tolist()": (
            "x is right. But w is only a summand, and its gradient was spoiled: in whose memory "
            "does your mask write?"
        ),
        "x.grad.tolist()": (
            "This line looks at x alone: Gate should still stop the gradient where x is not above "
            "0, and nowhere else."
        ),
    },
)
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
            # answer:
            grad = grad.clone()
            grad[x <= 0] = 0
            return grad
            # given:
            # grad[x <= 0] = 0
            # return grad
            # end

    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    other = w * 1
    ((other + Gate.apply(x)) * 3).sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]
    assert w.grad.tolist() == [3.0, 3.0]


@koan(
    claims=["A-2.2-13", "B-3-05", "B-3-07"],
    see="torch.autograd.function.FunctionCtx.mark_non_differentiable",
    hint=[
        "Two outputs: how many gradients does backward receive? Two arguments: how many does it "
        "return?",
        "Let the mask have the dtype of x. ctx has a method to say that an output has no slope.",
        "The mask is also all that backward needs to remember.",
    ],
    why="A gradient in for each output, a gradient out for each argument; tensors go through "
    "save_for_backward; outputs without a slope are marked. Now you know the whole contract.",
    wrong={
        "class Gate(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, threshold):\n"
        "        mask = (x > threshold).to(x.dtype)\n"
        "        ctx.save_for_backward(mask)\n"
        "        return x * mask, mask\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad, _):\n"
        "        (mask,) = ctx.saved_tensors\n"
        "        return grad * mask, None": (
            "The gradients are right. But the mask asks for gradients as well: it is a float."
        ),
        "class Gate(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, threshold):\n"
        "        mask = (x > threshold).to(x.dtype)\n"
        "        ctx.mark_non_differentiable(mask)\n"
        "        ctx.save_for_backward(mask)\n"
        "        return x * mask, mask\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        (mask,) = ctx.saved_tensors\n"
        "        return grad * mask, None": (
            "A gradient comes for every output, marked or not. Where should the second one go?"
        ),
        "class Gate(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, threshold):\n"
        "        mask = (x > threshold).to(x.dtype)\n"
        "        ctx.mark_non_differentiable(mask)\n"
        "        ctx.save_for_backward(mask)\n"
        "        return x * mask, mask\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad, _):\n"
        "        (mask,) = ctx.saved_tensors\n"
        "        return grad * mask": "The threshold is an argument of forward too.",
        "class Gate(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, threshold):\n"
        "        mask = (x > threshold).float()\n"
        "        ctx.save_for_backward(mask)\n"
        "        return x * mask, mask\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad, _):\n"
        "        return grad * ctx.saved_tensors[0], None": (
            "The gradients are right. But a float output asks for gradients, unless ctx says no."
        ),
        "class Gate(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, threshold):\n"
        "        mask = x > threshold\n"
        "        ctx.save_for_backward(mask)\n"
        "        return x * mask, mask\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad, _):\n"
        "        (mask,) = ctx.saved_tensors\n"
        "        return grad * mask, None": (
            "A bool asks for no gradient by itself. But this mask should hold 1.0 and 0.0."
        ),
    },
    right=[
        "class Gate(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(x, threshold):\n"
        "        mask = (x > threshold).float()\n"
        "        return torch.where(x > threshold, x, 0.0), mask\n\n"
        "    @staticmethod\n"
        "    def setup_context(ctx, inputs, output):\n"
        "        ctx.mark_non_differentiable(output[1])\n"
        "        ctx.save_for_backward(output[1])\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, *grads):\n"
        "        return grads[0] * ctx.saved_tensors[0], None",
    ],
    at={
        "Gate.apply(x, threshold)": (
            "Here `apply` gets x and the threshold. Two things should come back: x behind the "
            "gate, and the mask."
        ),
        "y.grad_fn.name()": (
            "Two things came back. y should hang on a node of your class, and the mask should ask "
            "for no gradient."
        ),
        "mask.dtype": "The graph is right. Now look at the mask's numbers, and at its dtype.",
        "y.tolist()": (
            "The mask is right. But y should be x with 0 wherever the mask closes the gate."
        ),
        "(y * 5).sum().backward()": (
            "forward is right; the way back breaks off. How many gradients come in, and how many "
            "must go out?"
        ),
        "x.grad.tolist()": (
            "Backward runs. But x should get what comes from above where the gate is open, and 0 "
            "where it is closed."
        ),
    },
)
def test_a_gate_that_shows_its_mask():
    """Write Gate: it takes x and a number. It returns x with 0 wherever x is not above the number,
    and a mask of 1.0 and 0.0: what was let through. Nobody differentiates a mask."""
    # answer:

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, threshold):
            mask = (x > threshold).to(x.dtype)
            ctx.mark_non_differentiable(mask)
            ctx.save_for_backward(mask)
            return x * mask, mask

        @staticmethod
        def backward(ctx, grad, _):
            (mask,) = ctx.saved_tensors
            return grad * mask, None

    # end
    for threshold, expected in ((0.0, [0.0, 1.0, 1.0]), (1.5, [0.0, 0.0, 1.0])):
        x = torch.tensor([-2.0, 1.0, 3.0], requires_grad=True)
        y, mask = Gate.apply(x, threshold)
        assert (y.grad_fn.name(), mask.requires_grad) == ("GateBackward", False)
        assert (mask.tolist(), mask.dtype) == (expected, torch.float32)
        assert y.tolist() == (x * mask).tolist()
        (y * 5).sum().backward()
        assert x.grad.tolist() == (mask * 5).tolist()
