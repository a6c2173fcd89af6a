"""torch.compile: graphs, guards, and who runs them.

The backends here only count: no C++ compiler and no GPU are needed.

Documents: A 2.3
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


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


@koan(
    claims=["A-2.3-03"],
    see="torch.compile",
    hint=[
        "A graph knows operations on tensors, one after the other, and nothing else of Python.",
        "What becomes of a loop whose number of turns is known? And of a call of your own?",
        "`deep` is no tensor. When is this `if` decided, and what if `deep` changes?",
    ],
    why=(
        "Python's bytecode is followed, and the tensor operations are noted: loops unrolled, "
        "helpers taken in, plain ifs decided: for another `deep`, once more. Any function "
        "can be the backend that gets the graph. Only inductor, the default, writes kernels: "
        "Triton for GPUs, C++ for CPUs."
    ),
    wrong={
        "[]": (
            "Some say torch.compile turns Python into Triton kernels, and does nothing without "
            "a GPU. The kernels are the work of one backend. The graph comes first."
        ),
        "[['sin', 'sin', 'cos']]": "One graph cannot serve both calls: they do different things.",
        "[['sin', 'sin', 'cos'], ['sin', 'sin', 'cos']]": (
            "Is the `if` in the graph, or what it decided?"
        ),
        "[['sin', 'cos'], ['sin']]": "A graph has no loop. Each turn leaves its own operation.",
        "[['sin', 'sin'], ['cos']]": "A helper in plain Python is no border.",
        "[['sin', 'sin'], ['cos'], ['sin', 'sin']]": "A helper in plain Python is no border.",
        "[['sin', 'sin'], ['sin', 'sin']]": (
            "The helper is followed as well, as if its lines stood here."
        ),
        "[['sin'], ['sin'], ['cos']]": "One graph for each operation? That would be eager Python.",
    },
)
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
    assert [methods(graph) for graph in graphs] == answer([["sin", "sin", "cos"], ["sin", "sin"]])


@koan(
    see="torch.compiler.disable",
    hint=[
        "The helper is left to Python. Can the graph before it go on after it?",
        "Who runs exp: a graph, or Python?",
    ],
    why=(
        "The disabled helper runs in plain Python, so the function falls into the piece before "
        "it and the piece after it. Put it on what the compiler cannot do or should not see, "
        "outside the hot loop. The results are those of eager Python."
    ),
    wrong={
        "[['sin', 'exp', 'cos']]": "So it would be without the decorator.",
        "[['sin'], ['exp'], ['cos']]": "Then the helper would be compiled, on its own.",
        "[['sin', 'cos']]": "What cos needs is not known before the helper has run.",
        "[]": "The helper is left out. The function around it is not.",
        "[['sin']]": "After the helper the compiler takes up its work again.",
    },
)
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
    assert [methods(graph) for graph in graphs] == answer([["sin"], ["cos"]])


@koan(
    see="torch.compile",
    hint=[
        "Nothing is known of x before a call. Can a graph be made without it?",
        "The first graph is for one length, with a guard. What may be learned from a second one?",
        "A size that is free begins at 2, for a single element is treated in its own way.",
    ],
    why=(
        "Compiled at the first call, not before. A new length breaks the guard, and the second "
        "graph has a free length: one surprise, not one for each length. Size 1 stays special, "
        "because broadcasting makes it behave otherwise. (So does size 0.)"
    ),
    wrong={
        "[0, 1, 2, 3, 4, 5]": (
            "Some say each new shape is compiled anew. So it is with dynamic=False. By default "
            "the compiler learns."
        ),
        "[1, 1, 2, 2, 2, 3]": "torch.compile gives back at once. It waits for something.",
        "[0, 1, 1, 1, 1, 1]": "At first it takes the length for granted. When does it notice?",
        "[0, 1, 2, 2, 2, 2]": "One of the lengths is unlike all others.",
        "[0, 1, 1, 1, 1, 2]": "That is dynamic=True. By default the first length is believed.",
    },
)
def test_how_lengths_are_learned():
    """Count the graphs: before the first call, and after the calls with five lengths."""
    compiled, graphs = counted(lambda x: x * 2)
    seen = [len(graphs)]
    for length in (4, 5, 6, 7, 1):
        compiled(torch.ones(length))
        seen.append(len(graphs))
    assert seen == answer([0, 1, 2, 2, 2, 3])


@koan(
    see="torch.compile",
    hint=[
        "The number inside a tensor is data. A graph is made for any data.",
        "An int can be made free when it has changed, as a length can.",
        "Is there a symbol for `any text`? And what if there is none?",
    ],
    why=(
        "Tensors: only shape, dtype, device and the like are guarded. An int is guarded by its "
        "value, then made free at its first change. Text is guarded by its value, for good: four "
        "words, four programs, and after 8 it gives up. Keep names out of the compiled step."
    ),
    wrong={
        "[4, 4, 4]": "Then each new batch of data would be compiled as well.",
        "[1, 1, 1]": "Only one of the three kinds is seen as pure data.",
        "[1, 4, 4]": "Among the Python values, one kind can be made free after a change.",
        "[1, 2, 2]": "A symbol can stand for a number. For a word there is none.",
        "[1, 1, 4]": "Before it knows better, a plain number is taken as a constant.",
    },
)
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
    assert costs == answer([1, 2, 4])


@koan(
    see="torch.compile",
    hint=[
        "The compiler follows the function with tensors that have shapes, and no numbers.",
        "It is the compiler that meets the bad shapes, before anything is computed.",
        "Read the names in dir(torch._dynamo.exc). Some are about code that cannot be captured, "
        "some about the backend. Neither is what went wrong here.",
    ],
    why=(
        "The shapes already clash while the graph is made: no backend was called. The error is "
        "derived from RuntimeError, so `except RuntimeError` still works, while a test for the "
        "exact type does not. Its text shows the line of your function."
    ),
    wrong={
        "RuntimeError": "So it is in eager Python. Here the compiler meets it first.",
        "torch._dynamo.exc.Unsupported": "It could be captured. It only cannot be right.",
        "torch._dynamo.exc.BackendCompilerFailed": "The backend was not even called.",
        "ValueError": "Shapes that do not fit are a RuntimeError in PyTorch, or a child of it.",
    },
)
def test_shapes_that_do_not_fit():
    """Eager Python raises a RuntimeError here. Which exception does the compiled function raise?

    Give the exact type. It lives in torch._dynamo.exc.
    """
    compiled, graphs = counted(lambda x, y: x @ y)
    with pytest.raises(Exception) as caught:
        compiled(torch.ones(2, 3), torch.ones(2, 3))
    assert caught.type is answer(torch._dynamo.exc.TorchRuntimeError)


@koan(
    see="torch.compile",
    hint=[
        "fast wraps the model. The model itself: was anything done to it?",
        "What the wrapper does not have, it hands on to the model. What does it have of its own?",
        "A graph that was made once is used again.",
    ],
    why=(
        "torch.compile(model) leaves the model as it is. The wrapper compiles its call, which is "
        "the model's forward; every other method is the plain model's own. If something else is "
        "your way in, say `generate`, compile that: torch.compile(model.generate)."
    ),
    wrong={
        "[1, 1, 1, 1]": "The model was wrapped, and nothing was done to it.",
        "[0, 1, 1, 1]": "One of the methods is handed on to the plain model.",
        "[0, 1, 2, 2]": "Some say all methods of a compiled model are compiled. Which one is?",
        "[0, 0, 0, 1]": "The wrapper has a forward of its own.",
        "[0, 0, 1, 2]": "Both lead to the same code, and there is a graph already.",
    },
)
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
    assert seen == answer([0, 0, 1, 1])


@koan(
    see="torch._dynamo.mark_dynamic",
    hint=[
        "dynamic=True frees every size, the features as well. By default, a size is freed as soon "
        "as it has changed.",
        "A mark can be put on one dimension of one tensor, before the call.",
        "Which dimension may vary? And what keeps the other one from being learned?",
    ],
    why=(
        "mark_dynamic says of one dimension: expect it to vary. With dynamic=False (or "
        "mark_static) the others stay numbers, which a backend may build on. And if your code "
        "fixes the marked size after all, you get an error, not a slow surprise. export's "
        "dynamic_shapes says the same thing."
    ),
    wrong={
        "compiled, graphs = counted(lambda x: x.softmax(1))": (
            "By default it learns, at the price of one more graph."
        ),
        "compiled, graphs = counted(lambda x: x.softmax(1), dynamic=False)": (
            "A graph for every batch size: the opposite of what you want."
        ),
        "compiled, graphs = counted(lambda x: x.softmax(1))\n"
        "for batch in batches:\n"
        "    torch._dynamo.mark_dynamic(batch, 0)": (
            "The second number of features is new, and so it is learned. Try a third one."
        ),
        "compiled, graphs = counted(lambda x: x.softmax(1))\n"
        "for batch in batches:\n"
        "    torch._dynamo.mark_static(batch, 1)": (
            "The features are safe now. The batch is still learned, with one more graph."
        ),
        "compiled, graphs = counted(lambda x: x.softmax(1))\n"
        "for batch in batches:\n"
        "    torch._dynamo.mark_dynamic(batch, 1)": (
            "The features are marked now, and the batch is not."
        ),
        "compiled, graphs = counted(lambda x: x.softmax(1))\n"
        "for batch in batches:\n"
        "    torch._dynamo.mark_dynamic(batch, [0, 1])": ("Both are free again."),
        "compiled, graphs = counted(lambda x: x.softmax(1), dynamic=False)\n"
        "torch._dynamo.mark_dynamic(batches[0], 0)": (
            "The mark holds for one tensor. What of the others, when the features change?"
        ),
        "compiled = lambda x: x.softmax(1)\ngraphs = {batch.shape[1] for batch in batches}": (
            "Numbers are counted here, and no graphs."
        ),
    },
    right=[
        "compiled, graphs = counted(lambda x: x.softmax(1), dynamic=True)\n"
        "for batch in batches:\n"
        "    torch._dynamo.mark_static(batch, 1)",
        "compiled, graphs = counted(lambda x: x.softmax(1))\n"
        "for batch in batches:\n"
        "    torch._dynamo.mark_dynamic(batch, 0)\n"
        "    torch._dynamo.mark_static(batch, 1)",
        "compiled, graphs = counted(lambda x: x.softmax(1), dynamic=False)\n"
        "for batch in batches:\n"
        "    torch._dynamo.maybe_mark_dynamic(batch, 0)",
    ],
    at={
        "torch.allclose(compiled(batch)": (
            "Here `compiled` is called. It should take each batch, and give the same numbers as "
            "softmax. Does it raise, or do they differ?"
        ),
        "cost([torch.ones(size, 3)": (
            "Only the batch size varies here, so there should be exactly one graph. With which "
            "size does the count change?"
        ),
        "cost([torch.ones(size, features)": (
            "One graph for all batch sizes: that holds. Here the features vary as well, and "
            "each number of them wants its own graph."
        ),
        "cost([torch.ones(size, 8)": (
            "The first two counts are right. Here the features are the same again, and one "
            "graph should serve both sizes."
        ),
    },
)
def test_only_the_batch_may_vary():
    """Batches differ in size; the number of features is part of the program.

    Repair it: one graph for all batch sizes, and a new one for each other number of features.
    """

    def cost(batches):
        # answer:
        compiled, graphs = counted(lambda x: x.softmax(1), dynamic=False)
        for batch in batches:
            torch._dynamo.mark_dynamic(batch, 0)
        # given:
        # compiled, graphs = counted(lambda x: x.softmax(1), dynamic=True)
        # end
        for batch in batches:
            assert torch.allclose(compiled(batch), batch.softmax(1))
        return sum(isinstance(graph, torch.fx.GraphModule) for graph in graphs)

    assert cost([torch.ones(size, 3) for size in (4, 6, 9)]) == 1
    sizes = [(4, 3), (6, 5), (8, 5), (9, 7)]
    assert cost([torch.ones(size, features) for size, features in sizes]) == 3
    assert cost([torch.ones(size, 8) for size in (7, 2)]) == 1


@koan(
    claims=["A-2.3-03"],
    see="torch.fx.GraphModule",
    hint=[
        "graph.graph.nodes is the list of operations. Print op and target of each.",
        "Compare a target with torch.tanh. It is a name like any other, and can be set anew.",
        "What you return is called instead of the function. The graph has written its code "
        "already: after a change of the nodes, let it write the code anew (recompile).",
    ],
    why=(
        "That is all a backend is: it gets a graph of tensor operations and returns something to "
        "call. inductor does the same, and fuses and writes kernels. Each piece comes on its "
        "own, so the helper, which no graph holds, kept its tanh."
    ),
    wrong={
        "return graph.forward": "It runs as before: what the graph says has not changed.",
        "graph.graph.nodes\nreturn torch.relu": "One operation instead of the whole graph.",
        "for node in graph.graph.nodes:\n"
        "    if node.target is torch.tanh:\n"
        "        node.target = torch.relu\n"
        "return graph.forward": (
            "The nodes are changed. But what runs is the code that was written from the old ones."
        ),
        "for node in graph.graph.nodes:\n"
        "    if node.target is torch.tanh:\n"
        "        node.target = torch.relu\n"
        "return graph": (
            "The nodes are changed. But what runs is the code that was written from the old ones."
        ),
        "for node in graph.graph.nodes:\n"
        "    if node.target is torch.tanh:\n"
        "        node.target = torch.relu\n"
        "        break\n"
        "graph.recompile()\n"
        "return graph.forward": "A loop was unrolled, so there is more than one.",
        "for node in graph.graph.nodes:\n"
        "    if node.op == 'call_function':\n"
        "        node.target = torch.relu\n"
        "graph.recompile()\n"
        "return graph.forward": "Plus and minus are functions in the graph, too.",
        "for node in graph.graph.nodes:\n"
        "    if node.op == 'call_method' and node.target == 'tanh':\n"
        "        node.target = 'relu'\n"
        "graph.recompile()\n"
        "return graph.forward": "x.tanh() is a method; torch.tanh(x) is a function.",
    },
    right=[
        "class Swap(torch.fx.Interpreter):\n"
        "    def call_function(self, target, args, kwargs):\n"
        "        target = torch.relu if target is torch.tanh else target\n"
        "        return super().call_function(target, args, kwargs)\n"
        "\n"
        "return Swap(graph).run",
        "for node in graph.graph.nodes:\n"
        "    if node.target is torch.tanh:\n"
        "        node.target = torch.relu\n"
        "return torch.fx.Interpreter(graph).run",
        "for node in graph.graph.nodes:\n"
        "    if node.target is torch.tanh:\n"
        "        node.target = torch.relu\n"
        "return torch.fx.GraphModule(graph, graph.graph)",
        "for node in list(graph.graph.nodes):\n"
        "    if node.target == torch.tanh:\n"
        "        with graph.graph.inserting_after(node):\n"
        "            new = graph.graph.call_function(torch.relu, node.args)\n"
        "        node.replace_all_uses_with(new)\n"
        "        graph.graph.erase_node(node)\n"
        "graph.recompile()\n"
        "return graph",
    ],
    at={
        "torch.allclose(torch.compile(f": (
            "What your backend returns is called for each graph. Is every tanh in it a relu, and "
            "all the rest as it was?"
        ),
        "assert len(codes) == 2": (
            "The result is right. But `codes` should get one entry for each graph, written by "
            "the line above yours."
        ),
    },
)
def test_a_backend_that_swaps_an_operation():
    """Write a backend: each torch.tanh of its graphs becomes torch.relu, the rest stays.

    What is kept from the compiler stays, too. The code of each graph is noted before your lines.
    """
    codes = []

    def backend(graph, example_inputs):
        codes.append(graph.code)
        # answer:
        for node in graph.graph.nodes:
            if node.target is torch.tanh:
                node.target = torch.relu
        graph.recompile()
        return graph.forward
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
