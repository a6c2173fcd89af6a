"""Accumulation: backward adds to .grad, and .grad is a tensor like any other.

Documents: A 3.1, B 2
"""

import warnings

import pytest
import torch

from sensei import answer, koan


@pytest.mark.tour(20)
@koan(
    claims=["A-3.1-13", "B-2-25"],
    see="torch.Tensor.grad",
    hint=[
        "Before the first backward nobody has needed a place for a gradient.",
        "The second backward finds a gradient in x.grad. What does it do with it?",
    ],
    why=(
        "Nothing is reserved: the first backward makes .grad, every later one adds to it. "
        "That is how gradients add up where one tensor is used twice, and how a forgotten "
        "clearing mixes two steps."
    ),
    wrong={
        "[0.0, 2.0, 7.0]": "That would be memory set aside in advance. PyTorch does no such thing.",
        "[None, 2.0, 5.0]": (
            "Some say backward writes the gradient into x. It never wipes what lies there."
        ),
    },
)
def test_two_losses_one_after_the_other():
    """Look at x.grad three times: before any backward, after the first, after the second.

    Predict what you see.
    """
    x = torch.ones((), requires_grad=True)
    seen = [x.grad]
    for factor in (2, 5):
        (x * factor).backward()
        seen.append(x.grad.item())
    assert seen == answer([None, 2.0, 7.0])


@koan(
    claims=["A-3.1-13"],
    see="torch.Tensor.clone",
    hint=[
        "Print id() of the three entries.",
        "backward adds into the tensor it finds. So the list needs tensors it cannot find.",
    ],
    why=(
        "backward adds in place, so x.grad stays the same object at the same address. A list of "
        "references follows it; only copies keep the past."
    ),
    wrong={
        "history.append(x.grad.detach())": "A new tensor object, over the memory backward adds to.",
        "history.append(x.grad.data)": "An older detach: it shares the memory, too.",
        "history.append(x.grad)\nx.grad = None": (
            "Now each entry is safe, but nothing adds up any more."
        ),
    },
    right=[
        "history.append(x.grad + 0)",
        "history.append(x.grad.tolist())",
        "history.append(x.grad.detach().clone())",
        "history.append(x.grad)\nx.grad = x.grad.clone()",
    ],
    at={
        "grown = [torch": (
            "Here each entry of the history is read as a tensor. Print the history: what did you "
            "put into it?"
        ),
        "assert grown ==": (
            "Compare the two lists, entry by entry. Each should show, for both numbers, how far "
            "x.grad had grown by then, and should stay so."
        ),
        "x.grad.tolist()": (
            "The history is right. But x.grad itself should go on adding up, as it did before "
            "your repair."
        ),
    },
)
def test_a_history_of_the_gradient():
    """The history should show how x.grad grows. But all its entries look the same. Repair the
    marked line."""
    x = torch.zeros(2, requires_grad=True)
    history = []
    for factor in (2, 5, 9):
        (x * factor).sum().backward()
        # answer:
        history.append(x.grad.clone())
        # given:
        # history.append(x.grad)
        # end
    grown = [torch.as_tensor(entry).tolist() for entry in history]
    assert grown == [[2.0, 2.0], [7.0, 7.0], [16.0, 16.0]]
    assert x.grad.tolist() == [16.0, 16.0]


@koan(
    claims=["A-3.1-15", "A-3.1-16"],
    see="torch.Tensor.zero_",
    hint=[
        "zero_() and None: which changes numbers, and which changes what x.grad stands for?",
        "To what does the second backward add, in each case? Is `kept` that tensor?",
    ],
    why=(
        "Both clear. zero_() wipes the one tensor that everybody holds, and the next backward "
        "adds into it. None lets go of that tensor, which lives on while `kept` holds it, and "
        "the next backward makes a new one. An optimizer also skips a None; zeros it uses."
    ),
    wrong={
        ("[7.0, 7.0]", "[2.0, 5.0]"): (
            "Some say zero_() has no effect, since x.grad keeps the old reference. It wipes the "
            "numbers behind that reference."
        ),
        ("[0.0, 5.0]", "[2.0, 5.0]"): (
            "Wiped, yes. But where did the next backward put its gradient?"
        ),
        ("[5.0, 5.0]", "[5.0, 5.0]"): "`kept` follows the tensor, not the name x.grad.",
        ("[5.0, 5.0]", "[0.0, 5.0]"): (
            "Some say None forces the memory to be released. Not while another name holds it."
        ),
        ("[2.0, 5.0]", "[2.0, 5.0]"): "`kept` is no copy. It sees what is done in place.",
    },
    at={
        "x.grad.zero_()": (
            "This is the way with zero_(), which writes zeros in place. To which tensor does the "
            "second backward add, and is `kept` that one?"
        ),
        "cleared_by(drop)": (
            "The first way is right. Here x.grad lets go of its tensor. Where does the next "
            "backward put its gradient, and what does `kept` hold?"
        ),
    },
)
def test_two_ways_to_clear():
    """Clear the gradient between two backwards, in two ways.

    Write what `kept` and x.grad hold in the end, for each way.
    """

    def drop(x):
        x.grad = None

    def cleared_by(clear):
        x = torch.ones((), requires_grad=True)
        (x * 2).backward()
        kept = x.grad
        clear(x)
        (x * 5).backward()
        return [kept.item(), x.grad.item()]

    assert cleared_by(lambda x: x.grad.zero_()) == answer([5.0, 5.0])
    assert cleared_by(drop) == answer([2.0, 5.0])


@koan(
    claims=["A-3.1-14"],
    see="torch.Tensor.grad",
    hint=[
        "First find what number `slope` holds.",
        "Does `slope` remember that it was computed from x? Print it: is there a grad_fn?",
    ],
    why=(
        "After a plain backward, .grad is a new tensor with no history and no flag: for the next "
        "graph it is a number like any other. To differentiate a gradient, you must ask for it."
    ),
    wrong={
        "36.0": (
            "That is the slope of 3 * x**3: it takes `slope` for a function of x. It has no "
            "history."
        ),
        "24.0": "The first gradient was let go before the second backward.",
        "0.0": "`slope` is a constant, but it is multiplied by x.",
    },
)
def test_a_gradient_inside_the_next_loss():
    """Take the gradient of one loss and build the next loss from it. Predict x.grad."""
    x = torch.tensor(2.0, requires_grad=True)
    (x**3).backward()
    slope = x.grad
    x.grad = None
    (slope * x).backward()
    assert x.grad.item() == answer(12.0)


@koan(
    claims=["A-3.1-12", "A-3.1-17", "A-3.1-18", "A-3.1-19"],
    see="torch.Tensor.clamp_",
    hint=[
        "Which of the three is a leaf that requires grad?",
        "A refusal protects the graph. Whom would a changed number surprise?",
    ],
    why=(
        "Only the leaf itself is refused: the write would be recorded and make it a result. "
        "Its gradient is an ordinary tensor. clip_grad_norm_ and clip_grad_value_ write into it, "
        "too. What makes gradients grow is not such clipping, but clearing forgotten."
    ),
    wrong={
        '["x.grad"]': (
            "Some say a gradient's memory layout forbids writing in place. Nothing of the kind "
            "exists: it is an ordinary tensor, and clipping works so."
        ),
        '["x", "x.grad"]': "x.grad requires no grad itself. Who should object?",
        "[]": (
            "Some say: the gradient has its own memory, so x may be changed in place. The memory "
            "is not the point. The graph would have to record the write."
        ),
        '["x", "x.grad", "x.detach()"]': "Two of them do not require grad, so nothing is recorded.",
    },
)
def test_who_may_be_clamped_in_place():
    """clamp_ limits numbers in place. Call it on three tensors, and list those that PyTorch
    refuses, in order."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    places = {"x": x, "x.grad": x.grad, "x.detach()": x.detach()}
    refused = []
    for name, place in places.items():
        try:
            place.clamp_(-1, 1)
        except RuntimeError:
            refused.append(name)
    assert refused == answer(["x"])


@koan(
    claims=["A-3.1-12"],
    see="torch.no_grad",
    hint=[
        "Does anything link x.grad to the numbers in x once backward is over?",
        "The second loss is built after the write. Where does it take its slope?",
    ],
    why=(
        "Under no_grad the write is not recorded: x stays a leaf, and .grad is not touched. Only "
        "the next forward sees the new numbers: 2 * 4 is added to 2 * 3."
    ),
    wrong={
        "[8.0, 16.0]": "x.grad is not worked out again when x changes. It holds what it was given.",
        "[0.0, 8.0]": "A write into x clears nothing. That is your task.",
        "[6.0, 8.0]": "The first number is right. Does the second backward replace it?",
        "[6.0, 12.0]": "The second loss was built after the write.",
    },
)
def test_the_gradient_after_a_write():
    """Change x in place after backward, without recording. Look at x.grad; go on; look again."""
    x = torch.tensor(3.0, requires_grad=True)
    (x**2).backward()
    with torch.no_grad():
        x.add_(1)
    seen = [x.grad.item()]
    (x**2).backward()
    seen.append(x.grad.item())
    assert seen == answer([6.0, 14.0])


@koan(
    claims=["B-2-25"],
    see="torch.Tensor.is_leaf",
    hint=[
        "After the first round, is `weight` still the tensor you made?",
        "Does a result keep a gradient? So by what is 0.1 multiplied in round two?",
    ],
    why=(
        "The assignment moves the name to a result. Backward fills leaves, so the result's .grad "
        "is None, and 0.1 * None is Python's complaint, not PyTorch's. A step writes into the "
        "leaf, unrecorded."
    ),
    wrong={
        "RuntimeError": (
            "That one comes for `weight -= ...`. Here nothing is written in place: a new tensor "
            "takes the name."
        ),
        "AttributeError": "Every tensor has the attribute. What does it hold?",
        "ValueError": "The numbers are fine. Ask yourself what stands to the right of 0.1.",
    },
)
def test_a_step_that_moves_the_name():
    """Two gradient steps by hand. The first succeeds, the second does not. With which exception?"""
    weight = torch.ones(2, requires_grad=True)
    with pytest.raises(Exception) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            (weight**2).sum().backward()
            weight = weight - 0.1 * weight.grad
    assert caught.type is answer(TypeError)


@koan(
    claims=["A-3.1-90"],
    see="torch.Tensor.flatten",
    hint=[
        "A sum hands one and the same gradient to both of its inputs. Each leaf needs a copy.",
        "PyTorch copies a gradient when it sees that somebody else holds it. It looks at tensors.",
        "A flatten puts a view in between. Does PyTorch look through it to the memory?",
    ],
    why=(
        "The sum gives both inputs one gradient. A leaf keeps what arrives without a copy if "
        "nobody else seems to hold it, but PyTorch counts holders of the tensor, not of its "
        "memory, and each flatten wraps it anew. This is an open issue. A second backward would "
        "even add too much (3x, not 2x); setting .grad to None before each backward avoids that."
    ),
    wrong={
        "[10.0, 10.0]": (
            "Some say every gradient has memory of its own. PyTorch sees to it, but it can be "
            "misled about who else holds a gradient."
        ),
        "[0.0, 0.0]": "Mostly PyTorch does notice that a gradient is shared, and copies it.",
        "[0.0, 10.0]": "Two gradients do meet in one memory here. In the simpler of the two sums?",
    },
)
def test_wipe_the_gradient_of_a_neighbour():
    """Two leaves are added: once as they are, once flattened first. A sum gives both inputs the
    same gradient. Has each leaf a copy of its own?

    Only a.grad is wiped. Write what b.grad still adds up to, each time.
    """
    k = torch.tensor([1.0, 2.0, 3.0, 4.0])
    left = []
    for prepare in (lambda leaf: leaf, torch.flatten):
        a, b = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
        total = prepare(a) + prepare(b)
        (total * k.view_as(total)).sum().backward()
        a.grad.zero_()
        left.append(b.grad.sum().item())
    assert left == answer([10.0, 0.0])


@koan(
    claims=["B-2-25"],
    see="torch.Tensor.backward",
    hint=[
        "backward adds by itself, so several small backwards can make one gradient. Then a leaf "
        "is written: is autograd watching?",
        "The mean of the losses: divide each loss, or the sum of the gradients.",
        "The write goes into the weight's own memory, unrecorded. What should the next step not "
        "find?",
    ],
    why=(
        "One backward per batch, and .grad adds up while each graph is freed at once: a large "
        "batch in little memory. The write happens once, unrecorded, and then .grad is cleared."
    ),
    wrong={
        "for batch in batches:\n"
        "    loss(weight, batch).backward()\n"
        "with torch.no_grad():\n"
        "    weight -= rate * weight.grad\n"
        "weight.grad = None": "A sum of gradients: the step grows with the number of batches.",
        "for batch in batches:\n"
        "    (loss(weight, batch) / len(batches)).backward()\n"
        "with torch.no_grad():\n"
        "    weight -= rate * weight.grad": "The next step starts with what this one left behind.",
        "for batch in batches:\n"
        "    (loss(weight, batch) / len(batches)).backward()\n"
        "    with torch.no_grad():\n"
        "        weight -= rate * weight.grad\n"
        "    weight.grad = None": "Several small steps: the second batch meets another weight.",
        "for batch in batches:\n"
        "    (loss(weight, batch) / len(batches)).backward()\n"
        "weight = weight - rate * weight.grad": "It moves the name inside step, and nothing else.",
        "sum(loss(weight, batch) / len(batches) for batch in batches).backward()\n"
        "with torch.no_grad():\n"
        "    weight -= rate * weight.grad\n"
        "weight.grad = None": "The right step, but all graphs are alive at once.",
        "torch.stack([loss(weight, batch) for batch in batches]).mean().backward()\n"
        "with torch.no_grad():\n"
        "    weight -= rate * weight.grad\n"
        "weight.grad = None": "One common backward: all graphs are alive until it runs.",
    },
    right=[
        "weight.grad = None\n"
        "for batch in batches:\n"
        "    loss(weight, batch).backward()\n"
        "with torch.no_grad():\n"
        "    weight.sub_(weight.grad, alpha=rate / len(batches))",
        "for batch in batches:\n"
        "    loss(weight, batch).div(len(batches)).backward()\n"
        "weight.detach().sub_(rate * weight.grad)\n"
        "weight.grad.zero_()",
    ],
    at={
        "assert weight.is_leaf": (
            "The numbers are right. But weight has a history now: something in your step was "
            "recorded."
        ),
        "return (weight - batch) ** 2": (
            "`loss` takes the weight and one batch, which is a plain number. What did it get here?"
        ),
        "weight.item() == expected": (
            "weight is not where one step on the mean leads. Did your step write into weight's "
            "own memory? How large was the gradient, and was .grad clean before?"
        ),
        "len(walks) == 6": (
            "The steps are right. This line counts how often a gradient arrived at weight: each "
            "batch should bring its own, once."
        ),
    },
)
def test_one_step_from_several_batches():
    """Write `step`: one gradient step on the mean of the batches' losses, into the weight's own
    memory. To save memory, each batch gets a backward of its own. The next step starts clean."""

    def loss(weight, batch):
        return (weight - batch) ** 2

    def step(weight, batches, rate):
        # answer:
        for batch in batches:
            (loss(weight, batch) / len(batches)).backward()
        with torch.no_grad():
            weight -= rate * weight.grad
        weight.grad = None
        # end

    walks = []
    weight = torch.tensor(0.0, requires_grad=True)
    weight.register_hook(lambda gradient: walks.append(gradient))
    for batches, expected in (([2.0, 4.0], 3.0), ([1.0, 3.0, 8.0, 4.0], 4.0)):
        step(weight, batches, rate=0.5)
        assert weight.item() == expected, "the mean of all losses makes one step"
    assert weight.is_leaf
    assert len(walks) == 6, "2 + 4 batches make 6 backwards"
