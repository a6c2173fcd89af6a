"""The engine: what runs when you call backward, and what does not.

Documents: A 2.2, A 2.3, A 3.5, B 1, B 2, B 3
"""

import time

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from sensei import answer, koan


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


@koan(
    claims=["B-3-01"],
    see="torch.autograd.backward",
    hint=[
        "The loop computes something you know. What is it for a = 4?",
        "How much does that grow when a grows a little?",
    ],
    why="root(a) is the square root, and its slope is 1 / (2·sqrt(a)). Autograd never saw a root: "
    "it applied the chain rule to every step that ran. That is automatic differentiation.",
    wrong={
        "0.0": "Some say autograd is no mathematical algorithm, only bookkeeping of calls. But it "
        "is the chain rule, and a loop of divisions has a slope like any formula.",
        "2.0": "That is the root itself.",
        "0.5": "That is the slope at 1.",
        "None": "A loop is no obstacle: each of its steps was recorded as it ran.",
    },
)
def test_the_slope_of_a_loop():
    """Nobody told PyTorch what this loop computes. What is its slope at 4, to three digits?"""

    def root(a):
        guess = a
        for _ in range(10):
            guess = (guess + a / guess) / 2
        return guess

    a = torch.tensor(4.0, requires_grad=True)
    root(a).backward()
    assert round(a.grad.item(), 3) == answer(0.25)


@koan(
    claims=["A-2.2-14", "B-1-04", "B-2-16", "B-3-02"],
    see="torch.autograd.Function",
    hint=[
        "Walk from y to the leaf and count: what the operations left, and what waits at the end.",
        "torch.autograd.Function is for you to write in Python. Who wrote sin and relu?",
        "Take your own class: is the node an object OF this class, or made FROM it?",
    ],
    why="The engine runs nodes, and knows nothing else. Built-in operations bring nodes written in "
    "C++; your Function gets a node that calls it. The class has a backward; its node never has.",
    wrong={
        "[4, 4, 4]": "Some say everything is driven by torch.autograd.Function, and the engine "
        "calls the backward method of every node. Ask the nodes.",
        "[4, 1, 1]": "Tempting: one of them is yours. But its node is another object, made by "
        "PyTorch, which refers to your class.",
        "[3, 0, 0]": "The leaf has something waiting for its gradient, too.",
        "[1, 3, 4]": "The built-in operations owe nothing to this class.",
    },
)
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
    assert [nodes, functions, methods] == answer([4, 0, 0])


@koan(
    claims=["A-3.5-08"],
    see="torch.autograd.backward",
    hint=[
        "Which calls left a node in the graph: those of a module, or those of operations?",
        "Twice was applied two times. How many nodes is that?",
    ],
    why="Each apply hangs one node of its own, and the engine runs each node once. A module leaves "
    "no node; a method named backward on it is a method like any other, and nobody calls it.",
    wrong={
        '["Layer"]': "Some say backward() calls the backward method of each layer. The engine "
        "has never heard of modules.",
        '["Layer", "Twice", "Twice"]': "A module leaves no trace in the graph. Its operations do.",
        '["Twice"]': "One class, but how many nodes?",
        '["Twice", "Twice", "Layer"]': "A module leaves no trace in the graph. Its operations do.",
    },
)
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
    assert notes == answer(["Twice", "Twice"])


@koan(
    see="torch.autograd.Function.backward",
    hint=[
        "What does Python raise when a dict does not know a key?",
        "On its way to you the exception crosses the engine, which is C++. Is it changed there?",
    ],
    why="The engine stops, carries your own exception through C++, and raises it at backward(), "
    "with its traceback: the line in your method is named there.",
    wrong={
        "RuntimeError": "So PyTorch names its own refusals. This one is Python's, and it travels.",
        "AttributeError": "ctx does have notes. It is the page that is missing.",
        "SystemError": "Python has that name for trouble in C code. The engine is more careful.",
    },
)
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
    assert caught.type is answer(KeyError)


@koan(
    claims=["B-3-04"],
    see="torch.nn.functional.linear",
    hint=[
        "A node of this kind appears where somebody wrote a class in Python, with a backward.",
        "In which language would you write what every network calls thousands of times?",
    ],
    why="F.linear is a C++ function, and nn.Linear calls it. They leave the nodes of the "
    "operations that suit their inputs: with a bias a product and a sum in one, without it a "
    "product alone. PyTorch holds no Function for Linear.",
    wrong={
        '["F.linear", "nn.Linear", "Twice"]': (
            "Some say F.linear calls a Function subclass named LinearFunction. That class is an "
            "example in a tutorial; PyTorch has none."
        ),
        '["nn.Linear", "Twice"]': "A module is written in Python, but it only calls operations.",
        '["matmul", "F.linear", "nn.Linear", "Twice"]': (
            "Then each operation would call back into Python. The engine would be very slow."
        ),
        "[]": "Somebody did write a Function in this file. Look above.",
    },
    aliases=["test_what_linear_leaves_behind"],
)
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
    assert [name for name, y in results.items() if isinstance(y.grad_fn, kind)] == answer(["Twice"])


@koan(
    claims=["B-3-16"],
    see="torch.nn.Module",
    hint=[
        "Does the data ask for a gradient? And the output of the first layer?",
        "A node stands for an operation that ran. What does Dropout do after eval()?",
    ],
    why="Nodes come from operations on something that requires grad: none for Flatten, none for "
    "an idle Dropout. Linear left two (the second turns its weight); an attention layer dozens.",
    wrong={
        '["FlattenBackward0", "LinearBackward0", "DropoutBackward0", "SoftmaxBackward0"]': (
            "Some say every call of a module puts an object into the graph. A module leaves no "
            "node of its own, and two of these did nothing that autograd had to note."
        ),
        '["ViewBackward0", "AddmmBackward0", "MulBackward0", "SoftmaxBackward0"]': (
            "Not every operation is noted, and in eval mode one of the modules does nothing."
        ),
        '[None, "AddmmBackward0", None, "SoftmaxBackward0"]': (
            "A layer that does nothing hands on what it got, with its history."
        ),
    },
)
def test_four_modules_and_their_nodes():
    """Data runs through four modules. After each one: the name of its last node, or None where
    there is no node. Write names as name() prints them, as in 'SinBackward0'."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Dropout(), nn.Softmax(dim=1)).eval()
    x = torch.ones(3, 2, 2)
    names = []
    for module in net:
        x = module(x)
        names.append(x.grad_fn and x.grad_fn.name())
    assert names == answer([None, "AddmmBackward0", "AddmmBackward0", "SoftmaxBackward0"])


@koan(
    claims=["B-3-09"],
    see="torch.nn.ReLU",
    hint=[
        "pack is shown each tensor that an operation keeps for backward.",
        "Two candidates tell which elements may pass: the input and the result. Which one is kept?",
        "After ReLU(inplace=True) only one of the two still exists.",
    ],
    why="nn.ReLU has no backward; its node, in C++, keeps the result: it lets pass what is above "
    "0. So the input may be overwritten afterwards, and ReLU(inplace=True) is possible at all.",
    wrong={
        "[[-1.0, 2.0]]": "Some say nn.ReLU has a backward that masks by the sign of its input. "
        "The input is not even kept.",
        "[[0.0, 1.0]]": "A mask would do, but it would be one tensor more.",
        "[[-1.0, 2.0], [0.0, 2.0]]": "One of the two is enough.",
        "[]": "Backward must know which elements to let through.",
    },
)
def test_what_relu_keeps():
    """Look over its shoulder: which tensors does nn.ReLU keep for backward?"""
    kept = []

    def pack(tensor):
        kept.append(tensor.tolist())
        return tensor

    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = nn.ReLU()(x)
    assert kept == answer([[0.0, 2.0]])


@koan(
    claims=["B-3-11"],
    see="torch.nn.functional.relu",
    hint=[
        "A mask can be a factor of 0 or 1, or a choice: this one or 0.",
        "Infinity times 0 is nan.",
    ],
    why="relu's backward is a mask, and it selects: where the gate is closed there is a plain 0, "
    "whatever came from above. A hand-written `grad * (x > 0)` gives nan here.",
    wrong={
        '["nan", "3.0", "inf"]': "That is the mask as a factor. PyTorch does not multiply.",
        '["nan", "3.0", "nan"]': "Nor is the third one multiplied by 0: its gate is open.",
        '["inf", "3.0", "inf"]': "The gate is closed for the first element, even for infinity.",
        '["0.0", "3.0", "0.0"]': "relu does not look at what it lets pass.",
        '["0", "3", "inf"]': "Nearly: each number is wanted with one digit after the point.",
        '["nan", "nan", "inf"]': "A plain number arrives at the second gate, which is open.",
        '[0.0, 3.0, float("inf")]': "Nearly: texts are wanted, so put each number in quotes.",
    },
)
def test_infinity_at_a_closed_gate():
    """Infinite gradients arrive at relu, one at a closed gate. What comes out? Write each number
    as text with one digit after the point, as in '1.5'."""
    x = torch.tensor([-1.0, 2.0, 5.0], requires_grad=True)
    x.relu().backward(torch.tensor([float("inf"), 3.0, float("inf")]))
    assert [f"{g:.1f}" for g in x.grad.tolist()] == answer(["0.0", "3.0", "inf"])


@koan(
    claims=["B-1-08"],
    see="torch.nn.functional.interpolate",
    hint=[
        "Pixels are computed on the way forward. Is anything missing there without gradients?",
        "Each old pixel was used more than once. What becomes of the gradients of its uses?",
    ],
    why="Interpolation is a forward computation, the same with autograd on or off. A gradient only "
    "comes afterwards, the other way: what a pixel gave to, it hears from, here 1 + 2 and 3 + 4. "
    "The kernel is compiled code; grad_fn only tells the name of a node.",
    wrong={
        ("[0.0, 0.0, 0.0, 0.0]", "[3.0, 7.0]"): (
            "Some say each pixel is interpolated out of the gradient flow. "
            "There is none in the first call, and the pixels do not care."
        ),
        ("[0.0, 4.0]", "[3.0, 7.0]"): (
            "Some say each pixel is interpolated out of the gradient flow. Without any, "
            "the picture still gets larger."
        ),
        ("[0.0, 0.0, 4.0, 4.0]", "[1.0, 2.0]"): "All four factors count, not only the first two.",
        ("[0.0, 0.0, 4.0, 4.0]", "[2.0, 2.0]"): "That is right where each factor is 1.",
        ("[0.0, 0.0, 4.0, 4.0]", "[0.0, 28.0]"): "The pixels' values do not enter the gradient.",
    },
    at={
        "wide.flatten()": (
            "This line asks for the pixels, with autograd off. Does that change them? And where "
            'does each new pixel take its number from, with "nearest"?'
        ),
        "row.grad": (
            "The pixels are right. Now the way back: which factors does each old pixel meet, and "
            "what becomes of them?"
        ),
    },
    aliases=["test_enlarge_without_gradients"],
)
def test_enlarge_with_and_without_gradients():
    """A picture of one row, made twice as wide: each pixel is repeated. First autograd is off:
    write the pixels. Then it is on: write the gradient of `row`."""
    row = torch.tensor([[[0.0, 4.0]]], requires_grad=True)
    with torch.no_grad():
        wide = F.interpolate(row, scale_factor=2, mode="nearest")
    assert wide.flatten().tolist() == answer([0.0, 0.0, 4.0, 4.0])
    wide = F.interpolate(row, scale_factor=2, mode="nearest")
    (wide * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert row.grad.flatten().tolist() == answer([3.0, 7.0])


@pytest.mark.timeout(20)
@koan(
    claims=["B-3-15"],
    see="torch.autograd.backward",
    hint=[
        "What does the engine pay for each node? And what does the node itself have to do?",
        "Backward of a product of 700 by 700 matrices: two more such products. That is a lot.",
    ],
    why="Running a node costs about a microsecond or two. That counts when nodes are tiny and "
    "many; a single large product outweighs hundreds of them. So look for the arithmetic first.",
    wrong={
        '["1 sine", "1 product", "100 sines"]': "Some say the arithmetic is never the bottleneck, "
        "only the scheduling. Then time would follow the number of nodes.",
        '["1 product", "1 sine", "100 sines"]': "Nodes do not all cost the same.",
        '["1 sine", "100 sines"]': "All three want to be in the list.",
    },
)
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
    assert sorted(jobs, key=lambda name: quickest(jobs[name])) == answer(
        ["1 sine", "100 sines", "1 product"]
    )


@pytest.mark.slow
@koan(
    claims=["A-2.3-02", "A-2.3-04"],
    see="torch.compile",
    hint=[
        "`plain` is called as you wrote it. Did anybody ask for a compiler?",
        "The simplest backend runs the operations one by one, and autograd notes them.",
        "The abbreviation stands for ahead of time: the backward is traced beforehand, too.",
    ],
    why="Nothing is compiled unless you call torch.compile, in a notebook as anywhere else. Then "
    "it depends on the backend: aot_eager (and inductor) make the whole function ONE node.",
    wrong={
        '["plain", "eager", "aot_eager"]': (
            "Some say notebooks like Colab compile by themselves. A plain call stays plain."
        ),
        '["eager", "aot_eager"]': (
            "One of the two backends leaves autograd to do its work as always."
        ),
        "[]": "One backend traces the backward as well, and then a single node stands for it all.",
        '["eager"]': "The other way round: which of the two traces a backward?",
    },
)
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
    assert [name for name in nodes if nodes[name] != "AddBackward0"] == answer(["aot_eager"])


@koan(
    claims=["A-2.2-14", "B-3-02", "B-3-01"],
    see="torch.autograd.graph.Node.name",
    hint=[
        "A built-in node can be called: gradient of the result in, gradient of the input out.",
        "Start with ones at y. After each call, go to the next node; there is only one here.",
        "Which node do you have to stop at? It has no next one.",
    ],
    why="That is the engine in five lines: call a node, follow the edge, repeat. The real one is "
    "C++, waits at junctions, sums what arrives, and knows devices. The idea is this loop.",
    wrong={
        "node, grad = y.grad_fn, torch.ones_like(y)\n"
        "while node.next_functions:\n"
        "    node(grad)\n"
        "    node = node.next_functions[0][0]\n"
        "return grad": "Each node returned something, and nobody took it along.",
        "node, grad = y.grad_fn, torch.ones_like(y)\n"
        "grad = node(grad)\n"
        "return grad": "One step only. The chains are longer than that.",
        "node = y.grad_fn\n"
        "while node.next_functions:\n"
        "    node = node.next_functions[0][0]\n"
        "return torch.autograd.grad(y.sum(), node.variable)[0]": (
            "That starts the real engine. You should be the engine."
        ),
        "node, grad = y.grad_fn, torch.ones_like(y)\n"
        "while node is not None:\n"
        "    grad = node(grad)\n"
        "    node = node.next_functions[0][0] if node.next_functions else None\n"
        "return grad": "The last one accumulates into the leaf and returns nothing.",
    },
    right=[
        "def walk(node, grad):\n"
        "    if not node.next_functions:\n"
        "        return grad\n"
        "    return walk(node.next_functions[0][0], node(grad))\n\n\n"
        "return walk(y.grad_fn, torch.ones_like(y))",
    ],
    at={
        "that was PyTorch's own engine": (
            "The hook on x was called, so PyTorch's own engine came by. A node can be called "
            "without it."
        ),
        "assert x.grad is None": (
            "Something was stored in the leaf. Which node did you call last, and what is its work?"
        ),
        "torch.allclose(mine, theirs)": (
            "The leaf was left alone. But the gradient is wrong: does each node get what the node "
            "before it gave, down to the leaf?"
        ),
    },
)
def test_be_the_engine():
    """Write `engine`: it gets y, made by a chain of operations with one input each, and returns
    the gradient of y.sum() at the leaf. Call the nodes yourself, and leave the leaf alone."""

    def engine(y):
        # answer:
        node, grad = y.grad_fn, torch.ones_like(y)
        while node.next_functions:
            grad = node(grad)
            node = node.next_functions[0][0]
        return grad
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
