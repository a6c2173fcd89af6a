"""Hooks: listen to a gradient on its way, or change it. And points where the slope is a choice.

Documents: B 3
"""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from sensei import answer, koan


class Clip(torch.autograd.Function):
    """Lets numbers through as they are, and keeps gradients between -1 and 1."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


@koan(
    claims=["B-3-13"],
    see="torch.clamp",
    hint=[
        "Walk from the loss to x. What arrives at Clip, and what leaves it?",
        "After Clip there is one more step to take.",
    ],
    why="It clips each element at its own place in the graph; what follows multiplies again. "
    "clip_grad_value_ clips the final .grad, clip_grad_norm_ shrinks all gradients together.",
    wrong={
        "[1.0, 1.0]": "That is clip_grad_value_: it comes when everything is over.",
        "[50.0, 5.0]": "So it would be without Clip. It changes no number on the way forward, "
        "yet backward passes through it.",
        "[1.0, 0.5]": "This leaves Clip. It is not at x yet.",
    },
)
def test_where_the_clipping_bites():
    """Clip (above) stands between a factor 10 and the factors 5 and 0.5. Which gradient does x
    get?"""
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    (Clip.apply(x * 10) * torch.tensor([5.0, 0.5])).sum().backward()
    assert x.grad.tolist() == answer([10.0, 5.0])


@koan(
    claims=["B-3-14"],
    see="torch.nn.Module.register_full_backward_hook",
    hint=[
        "A hook may return something. What becomes of it?",
        "Where does each of the four stand: between the loss and x, or beside the way?",
    ],
    why="What a hook returns goes on in place of the gradient, for a tensor and for a module; a "
    "hook that returns nothing only watches. The gradients of the three are equal. The tensor's "
    "hook is the cheapest, and it needs no class.",
    wrong={
        '["Function"]': (
            "Some say a Function is more precise than hooks, which only watch. A hook does more: "
            "look at what it returns."
        ),
        '["Function", "tensor hook"]': (
            "A module's hook may replace gradients as well: those of the module's inputs."
        ),
        '["Function", "silent hook", "tensor hook", "module hook"]': (
            "One of them keeps its clipped gradient for itself."
        ),
        '["Function", "module hook"]': "A tensor's hook may do what a module's hook may.",
    },
)
def test_three_ways_to_clip():
    """Somebody clips by a Function, by two hooks on tensors, by a hook on a module. Which of the
    four really clip the gradient of x?"""
    x, kept = torch.ones(2, requires_grad=True), []
    silent, hooked, layer = x * 1, x * 1, nn.Identity()
    silent.register_hook(lambda grad: kept.append(grad.clamp(-1, 1)))
    hooked.register_hook(lambda grad: grad.clamp(-1, 1))
    layer.register_full_backward_hook(lambda _, grads, above: (grads[0].clamp(-1, 1),))
    ways = {"Function": Clip.apply(x), "silent hook": silent, "tensor hook": hooked}
    ways["module hook"] = layer(x * 1)
    clipped = []
    for name, h in ways.items():
        if torch.autograd.grad(3 * h.sum(), x)[0].tolist() == [1.0, 1.0]:
            clipped.append(name)
    assert clipped == answer(["Function", "tensor hook", "module hook"])


@koan(
    see="torch.Tensor.register_hook",
    hint=[
        "A hook that returns None leaves the gradient as it is. What does item() return?",
        "What may a gradient be replaced by?",
    ],
    why="What the hook returns would become the gradient, and a float is no tensor. A tensor of "
    "another shape or dtype is refused too, as a RuntimeError.",
    wrong={
        "RuntimeError": "That is for a tensor of the wrong shape or dtype. This is no tensor at "
        "all, and Python has its own name for that.",
        "ValueError": "The value would be fine; look at what kind of thing it is.",
        "AttributeError": "Nobody asks the number for anything. It is refused at the door.",
    },
)
def test_a_hook_that_returns_a_number():
    """You only want to see the norm of a gradient. So your hook hands it back, as a plain number.
    Which exception ends the backward?"""
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda grad: grad.norm().item())
    with pytest.raises(Exception) as caught:
        h.sum().backward()
    assert caught.type is answer(TypeError)


@koan(
    see="torch.Tensor.register_post_accumulate_grad_hook",
    hint=[
        "One hook is called before the gradient is added to w.grad, the other one after.",
        "What does w.grad hold after the first backward, after the second, after the third?",
    ],
    why="A tensor's hook gets the newly arrived gradient. The other one comes when the sum in "
    ".grad is made: the place to step an optimizer for this weight and free its gradient at once.",
    wrong={
        ("[2.0, 4.0, 6.0]", "[2.0, 4.0, 6.0]"): (
            "A hook on a tensor knows nothing of earlier backwards."
        ),
        ("[2.0, 2.0, 2.0]", "[2.0, 2.0, 2.0]"): "Nobody cleared w.grad in between.",
        ("[2.0, 2.0, 2.0]", "[0.0, 2.0, 4.0]"): "That would be before the adding.",
    },
    at={
        "assert first ==": (
            "This line is about the first hook, on the tensor. What is it handed at each "
            "backward, and does it see what lies in w.grad already?"
        ),
        "assert second ==": (
            "`first` is right. The other hook reads w.grad itself. What has gathered there by "
            "each of its three calls?"
        ),
    },
    aliases=["test_before_and_after_the_adding"],
)
def test_two_hooks_on_one_weight():
    """Two hooks on a weight, three backwards. Write what each of them notes down."""
    w = torch.tensor(0.0, requires_grad=True)
    first, second = [], []
    w.register_hook(lambda grad: first.append(grad.item()))
    w.register_post_accumulate_grad_hook(lambda w: second.append(w.grad.item()))
    for _ in range(3):
        (w * 2).backward()
    assert first == answer([2.0, 2.0, 2.0])
    assert second == answer([2.0, 4.0, 6.0])


@koan(
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "pack gets each tensor that an operation saves. What it returns is kept in its place.",
        "When backward comes, unpack gets what pack returned. It must return a tensor.",
        "The vault is a list. What could a ticket to one of its places be?",
    ],
    why="Autograd keeps whatever pack returns: a number, a file name, a tensor on the CPU. So "
    "saved tensors can be moved, compressed or computed again. The last is what a checkpoint does.",
    wrong={
        "def pack(tensor):\n"
        "    vault.append(tensor)\n"
        "    return tensor\n\n\n"
        "def unpack(tensor):\n"
        "    return tensor": "The vault has a copy that nobody asks for: autograd kept its own.",
        "def pack(tensor):\n"
        "    vault.append(tensor)\n"
        "    return 0\n\n\n"
        "def unpack(ticket):\n"
        "    return vault[ticket]": "Everybody gets the same ticket, so all get the first tensor.",
        "def pack(tensor):\n"
        "    return len(vault)\n\n\n"
        "def unpack(ticket):\n"
        "    return vault[ticket]": "The tickets are fine, but the vault is empty.",
        "def pack(tensor):\n"
        "    vault.append(tensor)\n\n\n"
        "def unpack(ticket):\n"
        "    return vault.pop(0)": "Nobody promises in which order the tensors are called for.",
        "def pack(tensor):\n"
        "    vault.append(tensor)\n\n\n"
        "def unpack(ticket):\n"
        "    return vault.pop()": "Often the last one is wanted first. But nobody promises that.",
    },
    right=[
        "def pack(tensor):\n"
        "    vault.append(tensor.detach().clone())\n"
        "    return len(vault) - 1\n\n\n"
        "unpack = vault.__getitem__",
        "def pack(tensor):\n"
        "    ticket = len(vault)\n"
        "    vault.append(tensor)\n"
        "    return ticket\n\n\n"
        "def unpack(ticket):\n"
        "    return vault[ticket]",
    ],
    at={
        "for tensor in vault": (
            "The three exp have run. By now the vault should hold three tensors, in order."
        ),
        "for y in (b, c, a)": (
            "The vault is filled as it should be. Now backward comes with a ticket for each, and "
            "wants a tensor."
        ),
        "assert slopes ==": (
            "We changed the tensors in the vault, then called for b, c and a. Does each ticket "
            "lead to its own place there?"
        ),
    },
)
def test_a_vault_for_saved_tensors():
    """Each exp saves a tensor for its backward. Write `pack` and `unpack`, so that the tensors lie
    in the vault, in order, and autograd holds no more than a ticket. Then we break in."""
    vault = []
    # answer:

    def pack(tensor):
        vault.append(tensor)
        return len(vault) - 1

    def unpack(ticket):
        return vault[ticket]

    # end
    x = torch.zeros(2, requires_grad=True)
    with saved_tensors_hooks(pack, unpack):
        a, b, c = x.exp(), x.exp(), x.exp()
    assert [tensor.tolist() for tensor in vault] == [[1.0, 1.0]] * 3
    vault[:] = [torch.tensor([5.0, 6.0]), torch.tensor([7.0, 8.0]), torch.tensor([30.0, 40.0])]
    slopes = [torch.autograd.grad(y.sum(), x)[0].tolist() for y in (b, c, a)]
    assert slopes == [[7.0, 8.0], [30.0, 40.0], [5.0, 6.0]]


@koan(
    see="torch.utils.checkpoint.checkpoint",
    hint=[
        "y has its numbers before backward. So how often did the layer run by then?",
        "The cosine of t is needed for backward, and t in between was not kept.",
    ],
    why="A checkpoint keeps the inputs and forgets what lies in between; backward runs the layer "
    "once more to get it back. You pay with time and win memory.",
    wrong={
        "[1, 1]": "That is without a checkpoint: everything in between is kept.",
        "[0, 1]": "Nothing is put off: y is there, with its numbers, before backward.",
        "[2, 2]": "Nobody computes twice in advance: perhaps no backward will ever come.",
        "[1, 3]": "There are two operations in the layer, but it runs as a whole.",
    },
)
def test_how_often_a_layer_runs():
    """A checkpoint wraps this layer. How often has it run before backward, how often after?"""
    runs = []

    def layer(t):
        runs.append("run")
        return t.exp().sin()

    y = checkpoint(layer, torch.ones(2, requires_grad=True), use_reentrant=False)
    before = len(runs)
    y.sum().backward()
    assert [before, len(runs)] == answer([1, 2])


@koan(
    see="torch.utils.checkpoint.checkpoint",
    hint=[
        "Look at what goes into the checkpoint: does x ask for a gradient?",
        "One variant of the checkpoint is a Function of the inputs alone. It never hears of "
        "weights.",
        "checkpoint() has a switch between its two variants.",
    ],
    why="The old, reentrant variant is a Function of its tensor inputs. Data ask for no gradient, "
    "so its output asks for none, and the weights inside stand still. The other sees all.",
    wrong={
        "h = checkpoint(first, x, use_reentrant=True).requires_grad_()": (
            "h becomes a leaf: the gradient ends there, and the weights behind it get none."
        ),
        "with torch.enable_grad():\n    h = checkpoint(first, x, use_reentrant=True)": (
            "Grad mode was on all the time. Inside, this variant switches it off itself."
        ),
        "with warnings.catch_warnings():\n"
        '    warnings.simplefilter("ignore")\n'
        "    h = checkpoint(first, x, use_reentrant=True)": "Now nobody tells you any more.",
        "h = first(x)": "It learns, but nothing was saved: no checkpoint, no second run.",
    },
    right=[
        "h = checkpoint(first, x.requires_grad_(), use_reentrant=True)",
        "h = checkpoint(first, x.clone().requires_grad_(), use_reentrant=True)",
    ],
    at={
        "assert first.weight.grad": (
            "Backward ran, and the last layer learns. But no gradient came to the weight of the "
            "first: does h lead back to it?"
        ),
        "len(runs) == 2": (
            "The weight gets its gradient. But how often did the layer run? It should be computed "
            "again when backward comes."
        ),
    },
)
def test_a_layer_that_does_not_learn():
    """The first layer is checkpointed, to save memory, and its weight gets no gradient. Repair the
    marked line. The layer must still run twice."""
    first, last = nn.Linear(2, 2), nn.Linear(2, 1)
    runs = []
    first.register_forward_pre_hook(lambda *_: runs.append("run"))
    x = torch.ones(3, 2)
    # answer:
    h = checkpoint(first, x, use_reentrant=False)
    # given:
    # h = checkpoint(first, x, use_reentrant=True)
    # end
    last(h).sum().backward()
    assert last.weight.grad is not None
    assert first.weight.grad is not None
    assert len(runs) == 2


@koan(
    see="torch.nn.Module.register_full_backward_hook",
    hint=[
        "Read the error: what does it call the output of the Linear, and who writes into it?",
        "The hook must stay on the Linear. So change the one that writes.",
    ],
    why="The hook wraps the layer's output in a Function that returns a view, and nobody may write "
    "into such a view. Out of place is the way; or hook the output tensor instead.",
    wrong={
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))\n"
        "net[1].register_full_backward_hook(note)": (
            "A hooked module has its input wrapped too, and it writes into just that."
        ),
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))\n"
        "net[0].register_forward_hook(note)": (
            "The error is gone, and so is the gradient: this hook listens to the way forward."
        ),
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))": "No hook, no note.",
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))\n"
        "net[0].register_backward_hook(note)": (
            "The old hook looks at one node only, and shows the gradients of that node's inputs. "
            "The layer has just one input."
        ),
    },
    right=[
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=False))\n"
        "net[0].register_full_backward_hook(note)",
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))\n"
        "net[1].inplace = False\n"
        "net[0].register_full_backward_hook(note)",
    ],
    at={
        "assert seen == []": (
            "Only the forward pass has run, and there is a note already. A gradient comes later."
        ),
        '"Linear", 1': (
            "Both ways run. One note is wanted, of what arrives at the Linear's output: its name, "
            "one input, the gradient's shape."
        ),
        "type(layer) for layer in net": (
            "The note is right. But the net should still be a Linear and a ReLU."
        ),
    },
)
def test_listen_to_a_layer_before_an_activation():
    """You want to see the gradient that arrives at a Linear's output. With this hook on it the
    forward pass breaks. Repair the marked lines, and keep the two layers."""
    seen = []

    def note(module, grads, above):
        seen.append([type(module).__name__, len(grads), tuple(above[0].shape)])

    # answer:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[0].register_full_backward_hook(note)
    # given:
    # net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    # net[0].register_full_backward_hook(note)
    # end
    y = net(torch.ones(3, 2, requires_grad=True))
    assert seen == []
    y.sum().backward()
    assert seen == [["Linear", 1, (3, 2)]]
    assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU]


@koan(
    claims=["B-3-10"],
    see="torch.nn.functional.relu",
    hint=[
        "Left of 0 the slope is 0, right of it 1. At 0 each author had to choose.",
        "where sends the gradient to the value that it took: which one is that at 0? relu asks "
        "whether its result is above 0.",
        "At 0 maximum has two equal candidates. Which of the two gets the gradient?",
    ],
    why=(
        "All three choices are legal slopes at a kink. relu closes the gate at 0, this where "
        "leaves it open, maximum shares between the equal two. With many exact zeros it shows. "
        "clamp had 1 at its limits up to torch 2.13, and has 0 in 2.14: do not build on it."
    ),
    wrong={
        "[1.0, 1.0, 0.5]": (
            "Some say relu's backward blocks only what is strictly below 0. It blocks 0 as well."
        ),
        "[0.0, 0.0, 0.0]": "Equal outputs everywhere do not make equal choices at the kink.",
        "[0.5, 0.5, 0.5]": "The middle is a fair choice, and only one of the three makes it.",
        '["nan", "nan", "nan"]': "There is no one slope at a kink. PyTorch picks one all the same.",
    },
)
def test_three_gates_at_zero():
    """Three functions with the same outputs for every x. Which slope does each take at 0?"""
    zero = torch.tensor(0.0)
    gates = [torch.relu, lambda x: torch.where(x < 0, zero, x), lambda x: torch.maximum(x, zero)]
    slopes = []
    for gate in gates:
        x = torch.tensor(0.0, requires_grad=True)
        gate(x).backward()
        slopes.append(x.grad.item())
    assert slopes == answer([0.0, 1.0, 0.5])


@koan(
    see="torch.linalg.vector_norm",
    hint=[
        "How steep is the square root at 0? And what is that times 0?",
        "Something must happen before the root is taken, not after it.",
        "PyTorch also has this distance ready-made, with a slope of 0 chosen for this point.",
    ],
    why="The root is infinitely steep at 0, the square has slope 0 there, and their product is "
    "nan: one such pair poisons all weights. PyTorch's norm takes 0; eps under the root helps too.",
    wrong={
        "return ((a - b) ** 2).sum().sqrt() + 1e-8": "The root still meets an exact 0.",
        "return ((a - b) ** 2).sum().sqrt().clamp(min=1e-8)": (
            "clamp blocks the gradient, but the infinite slope comes after it: 0 times infinity."
        ),
        "return ((a - b) ** 2).sum().sqrt().nan_to_num()": (
            "The distance itself was never nan. Only its gradient is."
        ),
        "return (a - b).abs().sum()": "No nan, but this is another distance.",
        "d = ((a - b) ** 2).sum()\nreturn torch.where(d > 0, d.sqrt(), 0.0)": (
            "The choice comes after the root. The root is computed all the same, and its "
            "infinite slope is multiplied by 0."
        ),
        "return nn.functional.pairwise_distance(a, b)": (
            "It adds a small number to the difference, and the root of that square is as steep as "
            "ever: no nan, but no slope of 0 either."
        ),
    },
    right=[
        "return ((a - b) ** 2).sum().add(1e-12).sqrt()",
        "return (((a - b) ** 2).sum() + 1e-8).sqrt()",
        "return (((a - b) ** 2).sum() + 1e-6).sqrt()",
        "return ((a - b) ** 2).sum().clamp(min=1e-12).sqrt()",
        "return (a - b).norm()",
        "return torch.dist(a, b)",
    ],
    at={
        "a.grad.tolist()": (
            "The distance is right. But its gradient at a is not: look at each step of the way "
            "back, above all where the two points meet."
        ),
        "d.backward()": (
            "`distance` should return one number, and a way back to a should lead from it."
        ),
        "d.item()": (
            "Backward runs. But this line looks at the distance itself: it should be what it was "
            "before."
        ),
    },
)
def test_a_distance_to_oneself():
    """A distance between two points, written by hand. Where they meet, its gradient is nan. Repair
    the marked line."""

    def distance(a, b):
        # answer:
        return torch.linalg.vector_norm(a - b)
        # given:
        # return ((a - b) ** 2).sum().sqrt()
        # end

    for start, slope in (([3.0, 4.0], [0.6, 0.8]), ([0.0, 0.0], [0.0, 0.0])):
        a = torch.tensor(start, requires_grad=True)
        d = distance(a, torch.zeros(2))
        d.backward()
        assert d.item() == pytest.approx(sum(s**2 for s in start) ** 0.5, abs=2e-3)
        assert a.grad.tolist() == pytest.approx(slope, abs=2e-3)


@koan(
    see="torch.where",
    hint=[
        "where() picks between two tensors that are both computed.",
        "The branch that was not picked receives a gradient of 0. What does sqrt do with that?",
    ],
    why="sqrt divides the gradient by 2·sqrt(x), and 0 / 0 is nan: a zero gradient cannot save the "
    "branch not taken. Make the input safe first: torch.where(x > 0, x, 1.0).sqrt().",
    wrong={
        '["0.00", "0.25"]': "So you would think: not picked, no gradient. But the 0 still travels "
        "through the branch.",
        '["inf", "0.25"]': "Infinitely steep, yes. But what arrives there is 0, not 1.",
        '["0.00", "2.00"]': "Those are the outputs.",
        "[0.0, 0.25]": "Texts are wanted, in quotes. And look at the first one again: the 0 still "
        "travels through the branch.",
        '[float("nan"), 0.25]': "Nearly: texts are wanted, so put each number in quotes.",
    },
    right=["[f\"{float('nan'):.2f}\", '0.25']"],
)
def test_the_branch_not_taken():
    """where() should keep us from the steep point of sqrt, at 0. Write both gradients as text with
    two digits after the point, as in '1.50'."""
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    y = torch.where(x > 0, x.sqrt(), 0.0)
    y.sum().backward()
    assert [f"{slope:.2f}" for slope in x.grad.tolist()] == answer(["nan", "0.25"])


@koan(
    see="torch.autograd.set_detect_anomaly",
    hint=[
        "Anomaly mode looks at what each node returns, and stops at the first nan.",
        "Follow the gradient through all three nodes. Which is the first that returns nan?",
        "Infinity is not nan.",
    ],
    why="The root returns infinity, which passes unnoticed; the square multiplies it by 0. So the "
    "node that is named need not be the guilty one: look also at the node that ran before it.",
    wrong={
        "'SqrtBackward0'": "It is the guilty one. But what it returns is infinite, not nan.",
        "'SumBackward0'": "It only spreads one number over three.",
        "'AccumulateGrad'": "The search stops as soon as nan shows up, long before the leaf.",
    },
)
def test_who_is_named_for_the_nan():
    """The gradient is nan. Anomaly mode raises, and puts a node's name in quotes, as in
    'SinBackward0'. Which node is it?"""
    x = torch.zeros(3, requires_grad=True)
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        root = (x**2).sum().sqrt()
        with pytest.raises(RuntimeError) as caught:
            root.backward()
    assert str(caught.value).split("'")[1] == answer("PowBackward0")


@koan(
    see="torch.Tensor.expand",
    hint=[
        "How often does each element of `row` show up in the part that is summed?",
        "A gradient has the shape of its tensor. What becomes of the four rows?",
    ],
    why="What was used many times collects many gradients, what was not used gets 0: backward of "
    "expand is a sum, backward of a slice fills up with zeros. A broadcast bias works like this.",
    wrong={
        "[0.0, 1.0, 1.0]": "One memory cell, but four uses. Each of them sends a gradient.",
        "[4.0, 4.0]": "A gradient always has the shape of its tensor.",
        "[4.0, 4.0, 4.0]": "The first column is not part of the sum.",
        "[[0.0, 1.0, 1.0]] * 4": "That is the gradient of the table. It is not the leaf.",
    },
    aliases=["test_one_row_used_as_four"],
)
def test_a_row_in_a_table():
    """A row is seen as four rows, and a part of them is summed. Write the row's gradient."""
    row = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    table = row.expand(4, 3)
    table[:, 1:].sum().backward()
    assert row.grad.tolist() == answer([0.0, 4.0, 4.0])


@koan(
    see="torch.Tensor.register_hook",
    hint=[
        "A function inside `guard` can do both: note a number, and return what should go on.",
        "nan times 0 is still nan. Choose instead of multiplying.",
        "Infinity should stay as it is, so take care which helper you call.",
    ],
    why="A hook may look, and may replace by returning; it never writes into what it was given. "
    "To get rid of nan you must select: multiplying by 0 keeps it.",
    wrong={
        "def hook(grad):\n"
        "    log.append(int(grad.isnan().sum()))\n"
        "    return grad * ~grad.isnan()\n\n\n"
        "tensor.register_hook(hook)": "A mask as a factor does not remove nan.",
        "def hook(grad):\n"
        "    log.append(int(grad.isnan().sum()))\n"
        "    return grad.nan_to_num(0.0)\n\n\n"
        "tensor.register_hook(hook)": "It takes away infinity too, and puts a large number there.",
        "def hook(grad):\n"
        "    log.append(int(grad.isnan().sum()))\n"
        "    grad.masked_fill(grad.isnan(), 0.0)\n\n\n"
        "tensor.register_hook(hook)": "A clean gradient was made, and dropped.",
        "def hook(grad):\n"
        "    log.append(int(grad.isnan().sum()))\n"
        "    grad[grad.isnan()] = 0\n\n\n"
        "tensor.register_hook(hook)": "Written in place: h shares this gradient with a neighbour, "
        "and it changes there too.",
        "def hook(grad):\n"
        "    log.append(int(grad.isnan().sum()))\n"
        "    grad[grad.isnan()] = 0\n"
        "    return grad\n\n\n"
        "tensor.register_hook(hook)": "Returned, but written in place first: h shares this "
        "gradient with a neighbour, and it changes there too.",
        "def hook(grad):\n"
        "    log.append(int(grad.isnan().any()))\n"
        "    return grad.masked_fill(grad.isnan(), 0.0)\n\n\n"
        "tensor.register_hook(hook)": "This tells whether there are any, not how many.",
    },
    right=[
        "def hook(grad):\n"
        "    log.append(grad.isnan().sum().item())\n"
        "    return torch.where(grad.isnan(), 0.0, grad)\n\n\n"
        "tensor.register_hook(hook)",
        "def hook(grad):\n"
        "    bad = grad != grad\n"
        "    log.append(int(bad.sum()))\n"
        "    grad = grad.clone()\n"
        "    grad[bad] = 0\n"
        "    return grad\n\n\n"
        "tensor.register_hook(hook)",
    ],
    at={
        "backward(retain_graph=True)": (
            "This backward broke off. A hook gives back a tensor like the one it got, or nothing "
            "at all."
        ),
        "[0.0, 0.0, 0.25]": (
            "Two elements of h's gradient are nan in this walk. What reaches x should be clean, "
            "with the third one as it came."
        ),
        "w.grad.isnan()": (
            "x is right. But w should see its own nan, and something changed it: h shares this "
            "gradient with a neighbour."
        ),
        'float("inf")': (
            "nan was handled well. In this walk infinity arrives at h: it should go on as it is."
        ),
        "assert log ==": (
            "All gradients are right. The log should have one number for each backward: how many "
            "elements were nan."
        ),
    },
)
def test_a_guard_against_nan():
    """Write `guard`: in every backward it notes in `log` how many elements of the tensor's
    gradient are nan, and sends 0 on in their place. All else stays: infinity, and whatever other
    tensors receive."""

    def guard(tensor, log):
        # answer:
        def hook(grad):
            bad = grad.isnan()
            log.append(int(bad.sum()))
            return grad.masked_fill(bad, 0.0)

        tensor.register_hook(hook)
        # end

    log = []
    x = torch.tensor([0.0, 0.0, 4.0], requires_grad=True)
    w = torch.zeros(3, requires_grad=True)
    neighbour, h = w * 1, x * 1
    guard(h, log)
    both = h + neighbour
    torch.where(both > 0, both.sqrt(), 0.0).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [0.0, 0.0, 0.25]
    assert w.grad.isnan().tolist() == [True, True, False]
    h.sqrt().sum().backward()
    assert x.grad.tolist() == [float("inf"), float("inf"), 0.5]
    assert log == [2, 0]
