"""The graph: nodes, edges, and who builds them.

Documents: A 2.1, A 2.2, A 3.1, A 3.2, A 3.5, B 2
"""

import gc

import pytest
import torch
from torch import nn
from torch.autograd.graph import Node
from torch.nn import functional as F

from sensei import answer, koan


@koan(
    claims=["A-2.2-06", "A-3.2-04", "A-3.5-07"],
    see="torch.autograd.graph.Node.name",
    hint=[
        "Two equal factors are still a product. And a square is a power, with a fixed exponent.",
        "torch.mm multiplies two matrices. torch.addmm does the same and adds a third tensor.",
        "A linear layer multiplies, and adds its bias. Which operation if there is no bias?",
    ],
    why=(
        "A node is named after the operation that ran, not after the Python word or the layer. "
        "square is pow with 2; a linear layer on a matrix runs addmm, or mm when it has no bias. "
        "On other shapes the outermost node may be a reshape around it."
    ),
    wrong={
        "['MulBackward0', 'SquareBackward0', 'LinearBackward0', 'LinearBackward0']": (
            "Names you can call need not be operations of their own: some are built from others."
        ),
        "['MulBackward0', 'SquareBackward0', 'AddmmBackward0', 'MmBackward0']": (
            "The natural guess for square(). But it has no backward of its own: it is carried out "
            "as a more general operation."
        ),
        "['MulBackward0', 'PowBackward0', 'LinearBackward0', 'LinearBackward0']": (
            "The first two are right. A layer has no node under its own name here: it runs "
            "a multiplication of matrices."
        ),
        "['MulBackward0', 'PowBackward0', 'MmBackward0', 'MmBackward0']": (
            "Both multiply two matrices. One of them adds something as well, in the same step."
        ),
        "['PowBackward0', 'PowBackward0', 'AddmmBackward0', 'MmBackward0']": (
            "x * x is x squared, to you. PyTorch was told to multiply."
        ),
        "['MulBackward0', 'PowBackward0', 'AddmmBackward0', 'AddmmBackward0']": (
            "Some say every linear layer calls addmm. What is there to add without a bias?"
        ),
        "['MulBackward0', 'MulBackward0', 'AddmmBackward0', 'MmBackward0']": (
            "The exponent is kept as a number on the node, so it is no product of two tensors."
        ),
    },
)
def test_name_four_nodes():
    """A tensor's grad_fn is the node of the operation that made it.

    For `x + 1`, name() gives 'AddBackward0': the operation, then "Backward0". Name these four.
    """
    x = torch.ones(4, 2, requires_grad=True)
    layer = nn.Linear(2, 3)
    results = [x * x, x.square(), layer(x), F.linear(x, layer.weight)]
    names = [result.grad_fn.name() for result in results]
    assert names == answer(["MulBackward0", "PowBackward0", "AddmmBackward0", "MmBackward0"])


@koan(
    claims=["A-3.2-09", "A-3.2-10", "A-3.2-11"],
    see="torch.pow",
    hint=[
        "Recording happens below Python, where all roads to the power meet.",
        "For the calls: each of the first three comes in by another door. Is torch.pow on the way "
        "of any?",
        "For the names: what must an operation's input ask for, so that the operation is recorded?",
    ],
    why=(
        "An operator, a method and a raw operation all arrive at aten::pow, and the C++ layer in "
        "front of it records them, if an input asks. x ** 2 goes through the method of C++, so "
        "the Python name torch.pow is never called."
    ),
    wrong={
        ("['PowBackward0', None, None, None]", "1"): (
            "Some say the graph is built by overloaded operators alone, and that ** calls "
            "torch.pow. Both doors lead around it."
        ),
        ("['PowBackward0', 'PowBackward0', 'PowBackward0', None]", "1"): (
            "Some say ** calls torch.pow. It calls the method, and the method is in C++ already."
        ),
        ("['PowBackward0', 'PowBackward0', None, None]", "2"): (
            "The raw operation looks as if it were below autograd. It is the front door to it."
        ),
        ("['PowBackward0', 'PowBackward0', 'PowBackward0', 'PowBackward0']", "4"): (
            "An operation that nobody asks to record leaves no node."
        ),
    },
    at={
        "assert names ==": (
            "This line looks at the four nodes. Where do the roads meet, below Python? And on "
            "each of them: does anybody ask for a gradient?"
        ),
        "len(calls)": (
            "The names are right. This line counts the calls of one Python name, torch.pow. Which "
            "of the four roads goes by that name?"
        ),
    },
)
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
    assert names == answer(["PowBackward0", "PowBackward0", "PowBackward0", None])
    assert len(calls) == answer(0)


@koan(
    claims=["B-2-13", "B-2-14"],
    see="torch.Tensor.backward",
    hint=[
        "When you have mended one fault, read the error again: it is another one.",
        "Which node does y get? None at all, as long as nobody asks for a gradient.",
        "A walk backward starts with a gradient. For one number, 1 is meant. For six?",
    ],
    why=(
        "x asked for no gradient, so y = x * 2 left no node, and y.grad_fn was None. And a "
        "starting gradient of 1 is assumed only for a single number: sum it, or hand a gradient "
        "to backward()."
    ),
    wrong={
        "x = torch.randn(2, 3, requires_grad=True)\ny = x * 2\ny.backward()": (
            "Some say that this is all there is to it. y has a node now. But with which gradient "
            "should six numbers start?"
        ),
        "x = torch.randn(2, 3)\ny = x * 2\ny.sum().backward()": (
            "One number now. But none of these operations was recorded. Who would have asked?"
        ),
        "x = torch.randn(2, 3)\ny = x * 2\ny.requires_grad_().sum().backward()": (
            "It asks too late: y is a leaf then, and x * 2 was not recorded."
        ),
        "x = torch.randn(2, 3, requires_grad=True)\ny = x * 2\ny.mean().backward()": (
            "It goes backward. But it is the sum that was asked for."
        ),
        "x = torch.randn(2, 3, requires_grad=True)\ny = (x * 2).sum()\ny.backward()": (
            "The gradient is right. But y was to be x doubled, not its sum."
        ),
    },
    right=[
        "x = torch.randn(2, 3, requires_grad=True)\ny = x * 2\ny.backward(torch.ones(2, 3))",
        "x = torch.randn(2, 3)\nx.requires_grad = True\ny = x * 2\ny.backward(torch.ones_like(y))",
        "x = torch.randn(2, 3).requires_grad_()\ny = 2 * x\ntorch.autograd.backward(y.sum())",
    ],
    at={
        "y.grad_fn.name()": (
            "Your lines run. This one looks at what stands behind y: is there a node at all, and "
            "does it come from a product?"
        ),
        "torch.equal(y, x * 2)": (
            "y comes from a product. But is it still x doubled, and has x two rows of three?"
        ),
        "x.grad.tolist()": (
            "y is right. Now the walk: did it reach x, once, and does it tell how the sum of y "
            "grows?"
        ),
    },
)
def test_three_lines_from_a_first_lesson():
    """Three lines that often stand where autograd is introduced. They fail, and for two reasons.

    Repair them: y stays x doubled, and x.grad says how the sum of y grows with x.
    """
    # answer:
    x = torch.randn(2, 3, requires_grad=True)
    y = x * 2
    y.sum().backward()
    # given:
    # x = torch.randn(2, 3)
    # y = x * 2
    # y.backward()
    # end
    assert y.grad_fn.name() == "MulBackward0"
    assert torch.equal(y, x * 2) and x.shape == (2, 3)
    assert x.grad.tolist() == [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]


@koan(
    claims=["A-3.2-06", "A-3.2-07", "A-3.2-03"],
    see="torch.autograd.graph.get_gradient_edge",
    hint=[
        "Python asks the number on the left first. It knows nothing of tensors, so y is asked.",
        "A constant that takes part as a tensor has a slot. An exponent is a mere number.",
        "An input that needs no gradient has no node. What can stand in its slot?",
    ],
    why=(
        "A slot for each tensor argument, in the operation's order, None where no gradient is "
        "wanted. 3.0 * y is carried out as y * 3.0, so it comes second. "
        "The exponent is no tensor argument: it lives on the node."
    ),
    wrong={
        "[[None, 'ExpBackward0'], [None, 'ExpBackward0'], ['ExpBackward0', None]]": (
            "That is the order in which they are written. The first 3.0 is a Python number, and "
            "the exponent is no tensor argument."
        ),
        "[['ExpBackward0'], ['ExpBackward0'], ['ExpBackward0']]": (
            "A constant does not disappear. It keeps a place, empty, where it is a tensor argument."
        ),
        "[['ExpBackward0', None], [None, 'ExpBackward0'], ['ExpBackward0', None]]": (
            "A power with a number for exponent has only one tensor argument."
        ),
        "[['ExpBackward0', 'AccumulateGrad'], ['AccumulateGrad', 'ExpBackward0'], "
        "['ExpBackward0']]": ("A constant asks for no gradient, so nothing is accumulated for it."),
    },
)
def test_constants_among_the_inputs():
    """A node points back to the nodes of its inputs. Name them for each of the three results, in
    order, as name() prints them ('SinBackward0'); None for an empty slot."""
    three = torch.tensor(3.0)
    y = torch.tensor(2.0, requires_grad=True).exp()
    feeders = [
        [node and node.name() for node, _ in result.grad_fn.next_functions]
        for result in (3.0 * y, three * y, y**3.0)
    ]
    assert feeders == answer([["ExpBackward0", None], [None, "ExpBackward0"], ["ExpBackward0"]])


@koan(
    claims=["A-3.2-03"],
    see="torch.unbind",
    hint=[
        "One operation produced first, middle and last. How could an edge tell them apart?",
        "In which order does unbind return the three? How many results has an exp?",
    ],
    why=(
        "An edge is a pair: a node, and which of its outputs is meant. unbind has three outputs, "
        "counted from 0, and all lead to its one node. For most nodes the number is 0."
    ),
    wrong={
        "[[0, 0], [0, 0]]": "It is 0 for nodes with one output. One node here has three.",
        "[[0, 1], [0, 1]]": "That counts the places in the product. Look at what unbind returns.",
        "[[3, 2], [2, 1]]": "The right outputs. But PyTorch counts as Python does.",
        "[[2, 1], [1, 1]]": "`other` has a node of its own. How many outputs has that one?",
    },
)
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
    assert numbers == answer([[2, 1], [1, 0]])


@koan(
    claims=["A-3.2-08", "A-3.1-06", "A-3.1-08", "B-2-09"],
    see="torch.autograd.graph.get_gradient_edge",
    hint=[
        "Start at y.grad_fn. An edge holds the next node as its first half.",
        "The last node has no edges. How can a loop know that?",
        "What you want is a tensor. The last node knows it; the lesson says under which name.",
    ],
    why=(
        "The last node belongs to the leaf: AccumulateGrad. It stands at the end of an edge, and "
        "never in the leaf's own grad_fn."
    ),
    wrong={
        "return torch._C._debug_dump_autodiff_stack()": (
            "Some say this prints the C++ stack of AccumulateGrad, and so proves where it hangs. "
            "There is no such function. Edges are there to be followed."
        ),
        "return y": "That is the result itself. The leaf is at the other end of the edges.",
        "return x": "Inside `leaf_of` you know y alone, and no x. Follow the edges of y.",
        "return y.grad_fn.next_functions[0][0]": "That is a node, one step back, and no tensor.",
        "return y.grad_fn.next_functions[0][0].variable": (
            "Good for one step. A longer chain has more nodes before the last one."
        ),
        "node = y.grad_fn\n"
        "while node.next_functions:\n"
        "    node = node.next_functions[0][0]\n"
        "return node": "The walk is right, and ends at the node. It is the leaf you want.",
    },
    right=[
        "node = y.grad_fn\n"
        "while not hasattr(node, 'variable'):\n"
        "    ((node, _),) = node.next_functions\n"
        "return node.variable",
        "def last(node):\n"
        "    return last(node.next_functions[0][0]) if node.next_functions else node\n"
        "return last(y.grad_fn).variable",
    ],
    at={
        "leaf_of(result) is leaf": (
            "`leaf_of` returned something, but not this leaf. Print it: is it a node, a tensor, "
            "nothing? How far did the walk get?"
        ),
    },
)
def test_follow_the_edges_to_the_leaf():
    """Every edge leads one step back. At the end is a node called AccumulateGrad, which holds
    its leaf as `.variable`.

    Write `leaf_of`: the leaf that y was made from.
    """

    def leaf_of(y):
        # answer:
        node = y.grad_fn
        while node.next_functions:
            node = node.next_functions[0][0]
        return node.variable
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


@koan(
    claims=["A-2.1-06", "A-3.2-08"],
    see="torch.autograd.graph.Node.metadata",
    hint=[
        "y and z end in the same leaf. Do they need two nodes to fill one gradient?",
        "Who holds the node when y and z are gone? The flag on x alone needs none.",
    ],
    why=(
        "The node is made when the first operation needs an edge to the leaf, is shared by all "
        "graphs that use it, and dies with the last of them. The flag leaves none behind."
    ),
    wrong={
        "[{'note': 'mine'}, {'note': 'mine'}]": (
            "Some say the flag puts the node under the tensor. It would stay as long as x does. "
            "But x's graphs hold it, and x only knows where it is."
        ),
        "[{}, {}]": "y and z reach x by two edges. To how many nodes does that lead?",
        "[{}, {'note': 'mine'}]": "It cannot come back once it was gone.",
    },
)
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
    assert seen == answer([{"note": "mine"}, {}])


@koan(
    claims=["B-2-09"],
    see="torch.autograd.graph.Node.register_hook",
    hint=[
        "What goes in is the gradient of the product. What comes out, one for each input?",
        "By how much does x * w grow when x grows? Which input comes first?",
    ],
    why=(
        "A node is the backward of its operation: gradient of the result in, gradients of the "
        "inputs out, in their order. d(x * w)/dx is w. The node stores nothing in .grad; the "
        "AccumulateGrad at the end of the edges does that."
    ),
    wrong={
        "[20.0, 30.0]": "As if each input were its own slope. Move only x: what changes?",
        "[3.0, 2.0]": "Those are the slopes. What about the gradient that you hand in?",
        "[10.0, 10.0]": "The 10 comes from above. Each input weighs it.",
    },
)
def test_call_a_node_yourself():
    """A node can be called: hand in the gradient of its result. What does it return?"""
    x = torch.tensor(2.0, requires_grad=True)
    w = torch.tensor(3.0, requires_grad=True)
    node = (x * w).grad_fn
    gradients = node(torch.tensor(10.0))
    assert (x.grad, w.grad) == (None, None)
    assert [gradient.item() for gradient in gradients] == answer([30.0, 20.0])


@koan(
    claims=["B-2-15"],
    see="torch.Tensor.register_hook",
    hint=[
        "root is used twice. How many gradients come back to it?",
        "Can its node go on before it has all of them?",
    ],
    why=(
        "The graph is no list: two edges meet at root's node. The engine waits until every "
        "gradient that flows in has arrived and adds them up; only then the node runs, once."
    ),
    wrong={
        "[2.0, 3.0]": (
            "Some say backward walks along a list. Then root would be visited twice. "
            "It is not: a node waits for everything that is still on its way."
        ),
        "[3.0, 2.0]": "Two gradients are on their way, in this order. But does the node not wait?",
        "[3.0]": "The other branch has its share in the result. Nothing overwrites it.",
        "[6.0]": "Gradients of two branches meet. How do they combine?",
    },
)
def test_two_ways_from_one_root():
    """root feeds two branches, and backward comes back by both.

    The hook notes each gradient that root gets. What is noted?
    """
    root = torch.tensor(0.0, requires_grad=True).exp()
    noted = []
    root.register_hook(lambda gradient: noted.append(gradient.item()))
    (root * 2 + root * 3).backward()
    assert noted == answer([5.0])


@koan(
    claims=["B-2-03", "B-2-04"],
    see="torch.autograd.graph.increment_version",
    hint=[
        "_version counts writes into a tensor. Does it care about the flag?",
        "A node says what was done last. Does a tensor that asks for nothing have one?",
    ],
    why=(
        "Everybody's writes are counted; only tracked tensors remember what was written. The "
        "counter says how often, the graph says what, and each in-place write is a new node."
    ),
    wrong={
        "[[2, 'ExpBackward0'], [2, 'ExpBackward0']]": (
            "Some say a tensor records how it was made and changed. It does only if somebody asks "
            "for gradients; the counter does not count operations by name."
        ),
        "[[2, None], [2, 'MulBackward0']]": (
            "Writes in place are recorded as well, and grad_fn moves on to the last of them."
        ),
        "[[0, None], [2, 'ExpBackward0']]": "The counter is kept for plain tensors too.",
        "[[1, None], [1, 'ExpBackward0']]": "There were two writes, one after the other.",
    },
)
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
    assert memories == answer([[2, None], [2, "ExpBackward0"]])


@koan(
    claims=["A-3.2-01", "A-3.2-02"],
    see="torch.autograd.Function",
    hint=[
        "The forward pass makes three nodes in C++. Has anybody looked at them from Python?",
        "One look at one node. How many objects does Python need for that?",
        "torch.autograd.Function is the class YOU subclass. Did you write this node?",
    ],
    why=(
        "Nodes are C++ objects. A Python object for a node is made when you touch it, not before, "
        "and it is a Node, not a torch.autograd.Function."
    ),
    wrong={
        ("[3, 3]", "['Function', 'Node']"): (
            "Some say the graph consists of Python objects, made as each operation runs. "
            "Count them in the garbage collector."
        ),
        ("[0, 3]", "['Node']"): "You looked at one node. Its neighbours are not needed for that.",
        ("[0, 1]", "['Function']"): (
            "Some say a node is an instance of a Function subclass. That was its old C++ name."
        ),
        (
            "[0, 1]",
            "['Function', 'Node']",
        ): "One of the two is the base for functions that you write yourself.",
    },
    at={
        "unseen, alive()": (
            "This line counts Python's objects for nodes: when nobody has looked, and after one "
            "look at one node. What does that look need?"
        ),
        "isinstance(node, kind)": (
            "The two counts are right. Now the class: for each of the three, ask what it is made "
            "for, and who made this node."
        ),
    },
)
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
    assert [unseen, alive() - before] == answer([0, 1])
    kinds = (torch.Tensor, torch.autograd.Function, Node)
    assert [kind.__name__ for kind in kinds if isinstance(node, kind)] == answer(["Node"])


@koan(
    claims=["A-3.2-01"],
    see="torch.autograd.Function",
    hint=[
        "Python can look at this class. But does the class let Python make an object of it?",
        "Try int and NoneType: the first makes objects. `type(None)(1)` complains, and how?",
    ],
    why=(
        "Nodes are made in C++ when an operation runs, never by hand. What you may write yourself "
        "is a torch.autograd.Function, and even then PyTorch makes the node."
    ),
    wrong={
        "AttributeError": "The class exists and has its methods. Calling it is what fails.",
        "RuntimeError": (
            "Most of PyTorch's refusals have that name. Here Python says it: the call itself fails."
        ),
        "NotImplementedError": "That is what an abstract method says. Nothing gets as far as that.",
    },
)
def test_build_a_node_by_hand():
    """Take the class of a node, and try to make one more of this kind yourself.

    Which exception do you get?
    """
    y = torch.tensor(2.0, requires_grad=True).exp()
    kind = type(y.grad_fn)
    with pytest.raises(Exception) as caught:
        kind()
    assert caught.type is answer(TypeError)


@koan(
    claims=["A-3.2-03", "A-3.2-07", "A-3.2-08", "B-2-15"],
    see="torch.autograd.graph.get_gradient_edge",
    hint=[
        "Keep a list of nodes still to visit. Take one out, put its neighbours in. The slot of an "
        "input without a gradient holds None.",
        "Three kinds of surprise: no node at all, an empty slot, a node you have seen already.",
        "Which nodes know a leaf? Test for the attribute.",
    ],
    why=(
        "The graph is a DAG: from each node several edges, and several to one node. A walk needs "
        "a memory of where it was. With find_unused_parameters=True, DistributedDataParallel walks "
        "like this to see which parameters a loss does not reach."
    ),
    wrong={
        "found, todo = [], [y.grad_fn]\n"
        "while todo:\n"
        "    node = todo.pop()\n"
        "    if node is None:\n"
        "        continue\n"
        "    if hasattr(node, 'variable'):\n"
        "        found.append(node.variable)\n"
        "    todo += [n for n, _ in node.next_functions]\n"
        "return found": (
            "A node that is reached twice is visited twice, and so is everything behind it. "
            "The same leaf comes up many times."
        ),
        "found, todo, seen = [], [y.grad_fn], set()\n"
        "while todo:\n"
        "    node = todo.pop()\n"
        "    if node in seen:\n"
        "        continue\n"
        "    seen.add(node)\n"
        "    if hasattr(node, 'variable'):\n"
        "        found.append(node.variable)\n"
        "    todo += [n for n, _ in node.next_functions]\n"
        "return found": "An empty slot is no node. It has no edges to follow.",
        "node = y.grad_fn\n"
        "while node.next_functions:\n"
        "    node = node.next_functions[0][0]\n"
        "return [node.variable]": (
            "A chain has one end. A graph has branches: every slot is to be followed."
        ),
        "wanted = [p for p in net.parameters() if p.requires_grad]\n"
        "given = torch.autograd.grad(y.sum(), wanted, allow_unused=True)\n"
        "return [p for p, gradient in zip(wanted, given) if gradient is not None]": (
            "You asked for a map and made the whole trip: this is a backward pass, with its costs."
        ),
    },
    right=[
        "found, seen = [], set()\n"
        "def visit(node):\n"
        "    if node is not None and node not in seen:\n"
        "        seen.add(node)\n"
        "        if type(node).__name__ == 'AccumulateGrad':\n"
        "            found.append(node.variable)\n"
        "        for following, _ in node.next_functions:\n"
        "            visit(following)\n"
        "visit(y.grad_fn)\n"
        "return found",
    ],
    at={
        "no backward, please": (
            "A gradient came by y, so this was a backward. The map can be read without the trip: "
            "a node knows its neighbours."
        ),
        "for leaf in leaves(y)": (
            "This line goes through what `leaves` returned. It should be a list of tensors."
        ),
        "sorted(names)": (
            "Compare the two lists. Is a name missing, there twice, or there without being reached "
            "from y? Every branch is followed, each leaf counts once."
        ),
        "len(leaves(t))": (
            "The names for y are right. Here `leaves` also gets h, and a tensor without any graph."
        ),
    },
)
def test_which_parameters_are_reached():
    """Write `leaves`: every leaf that a backward from y would reach, each once. Run no backward.

    A tensor without a graph reaches nothing.
    """

    def leaves(y):
        # answer:
        found, todo, seen = [], [y.grad_fn], {None}
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                found.append(node.variable)
            todo += [following for following, _ in node.next_functions]
        return found
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
