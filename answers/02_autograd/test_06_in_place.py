"""In place: writes that autograd records, writes it refuses, and writes it never sees.

Documents: A 4.2
"""

import re

import pytest
import torch

from sensei import answer, koan


@koan(
    claims=["A-4.2-03", "A-4.2-05"],
    see="torch.autograd.graph.Node.name",
    hint=[
        "Before the write: the square's node, then the node where x's gradient lands.",
        "Autograd has to know that y[0] no longer comes from the square. Where could it note that?",
    ],
    why="The write is recorded like any other operation. y.grad_fn becomes a CopySlices node, and "
    "the square's node comes behind it. Inside, y[0] = 0 selects a view of one element, writes "
    "into it, and adds one to y's version.",
    wrong={
        "[2, 0]": "Some say the assignment ends in a C function that sets y.grad_fn to None. "
        "Print y.grad_fn after the write: it is still a node.",
        "[2, 2]": "That would be right if autograd had not seen the write.",
        "[2, 1]": "The new y still depends on the old one, in the elements that were kept.",
        "[1, 2]": "The node where x's own gradient lands counts too.",
    },
)
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
    assert [before, count(y.grad_fn)] == answer([2, 3])


@koan(
    claims=["A-4.2-04"],
    see="torch.Tensor.index_put_",
    hint=[
        "Write the sum out: which numbers are in y when it is taken?",
        "Where does each of these numbers come from?",
    ],
    why="The sum is 5w + 4 + 9. y[0] comes from w now and from x no more; the other elements kept "
    "their history. So an assignment is an operation with two inputs: the old y, and the new part.",
    wrong={
        ("None", "None"): (
            "Some say the write throws grad_fn away, and backward then fails with 'element 0 of "
            "tensors does not require grad'. Run it: nothing fails."
        ),
        ("[2.0, 4.0, 6.0]", "0.0"): (
            "That would be a write unseen by autograd. But the number in y[0] is not x's any more."
        ),
        ("[0.0, 4.0, 6.0]", "0.0"): "The new number has a history of its own. It comes along.",
        ("[2.0, 4.0, 6.0]", "5.0"): "y[0] has one history at a time: the old one or the new one.",
    },
    right=[("[0, 4, 6]", "5")],
    at={
        "x.grad.tolist()": (
            "This line looks at x alone. Which numbers are in y when the sum is taken, and which "
            "of them come from x?"
        ),
        "w.grad": (
            "x's gradient is right. Now w: where does it enter the sum, and how fast does the sum "
            "grow with it?"
        ),
    },
)
def test_one_element_from_somewhere_else():
    """Square x, then put something else into one element. Predict both gradients."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = torch.tensor(1.0, requires_grad=True)
    y = x**2
    y[0] = 5 * w
    y.sum().backward()
    assert x.grad.tolist() == answer([0.0, 4.0, 6.0])
    assert w.grad == answer(5.0)


@koan(
    claims=["A-4.2-02"],
    see="torch.autograd.backward",
    hint=[
        "A recorded write would turn its target into the result of an operation. Which tensors "
        "must not become a result?",
        "exp keeps its result. Does the write know whether anybody will ask for a gradient?",
    ],
    why="A leaf must stay a leaf. A view shows the leaf's memory, so both writes are refused at "
    "once. The result of exp may be overwritten: perhaps nobody will ask for a gradient. The error "
    "waits until backward opens what exp kept. Its cause may stand many lines above.",
    wrong={
        "[]": (
            "Only writes into a leaf are refused at once. A result may be overwritten: perhaps "
            "nobody ever asks for its gradient."
        ),
        "['part of a leaf', 'result', 'part of a result']": (
            "A view of a leaf is no leaf itself. But the write would go into the leaf's memory."
        ),
        "['result']": "A part of it shares memory and counter with the whole.",
        "['leaf', 'part of a leaf', 'result', 'part of a result']": (
            "That would be right if every error came from backward. Some writes do not even begin."
        ),
        "['leaf', 'part of a leaf']": (
            "It is the other way round: which tensor must stay what it is, whoever asks later?"
        ),
    },
)
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
    assert written == answer(["result", "part of a result"])


@koan(
    claims=["A-4.2-02"],
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "Write down the five derivatives.",
        "Some are easy to tell from the result y alone, some only from x. Backward keeps the "
        "handier of the two.",
        "The derivative of 1/x is -1/x². How would you get that from y with one multiplication?",
    ],
    why="sqrt' = 1 / (2y), tanh' = 1 - y², (1/x)' = -y²: these three kept y. sin' = cos(x) and "
    "log' = 1/x kept x, and have no use for y. An in-place write harms only what was kept.",
    wrong={
        "['sin', 'sqrt', 'log', 'tanh', 'reciprocal']": "Some say every in-place write destroys "
        "the graph. Two of these five do not even notice.",
        "[]": "The write is recorded, yes. But some of these operations wanted their result again.",
        "['sin', 'log']": "These two need the number that went in, and nobody wrote there.",
        "['sqrt', 'tanh']": "One more has a derivative that is easy to tell from its result.",
    },
)
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
    assert failed == answer(["sqrt", "tanh", "reciprocal"])


@koan(
    claims=["A-4.2-02"],
    see="torch.autograd.graph.increment_version",
    hint=[
        "Which version did data have when the product was computed?",
        "Which version does data have when backward runs?",
    ],
    why="The product kept data, since w's gradient is data, and noted its version: 1. Backward "
    "found 3. That data itself needs no gradient does not matter.",
    wrong={
        "[2, 0]": "A version counts from the tensor's birth, not from the moment it was kept.",
        "[3, 0]": "data had been written once already when the product was computed.",
        "[2, 1]": "It counts all writes, not only those since the product.",
        "[1, 3]": "Both numbers are there. The message names first what it found.",
    },
)
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
    assert [int(n) for n in re.findall(r"version (\d+)", str(caught.value))] == answer([3, 1])


@koan(
    see="torch.Tensor.mul_",
    hint=["`first` and y are one memory. What does y hold when the sum is taken?"],
    why="A write through a view changes its base, so autograd rewrites the base's history: "
    "y[0] = 10 * 2x, y[1] = 2x. The line that changes y does not even name it.",
    wrong={
        "[2.0, 2.0]": "The sum is taken over y, and y has changed. Its history must tell how.",
        "[20.0, 20.0]": "Only one element of y was multiplied.",
        "[10.0, 2.0]": "The first element went through two steps: one when y was made, one after.",
        "[0.0, 2.0]": "So it would be if a constant had been put there. The write used what was "
        "there before.",
    },
)
def test_a_write_through_a_view():
    """Cut a view out of y and change the view. The sum is taken over y itself.

    Predict x's gradient.
    """
    x = torch.ones(2, requires_grad=True)
    y = 2 * x
    first = y[:1]
    first.mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == answer([20.0, 2.0])


@koan(
    see="torch.Tensor.mul_",
    hint=[
        "The caller keeps its own name for h. What must change so that it notices?",
        "Two writes can do it, each with an underscore. Must autograd see them, or not?",
    ],
    why="A plain in-place write is recorded: the numbers change in h's own memory, and the factor "
    "3 goes into the gradient. Under no_grad, or through .data, the numbers look just as good and "
    "the gradient lacks the factor.",
    wrong={
        "h = 3 * h + 1": "This moves the name inside the function. The caller's h is untouched.",
        "return 3 * h + 1": "The caller does not look at what comes back; it keeps its own h.",
        "h.data.mul_(3).add_(1)": "The numbers are right. But autograd saw nothing of this.",
        "with torch.no_grad():\n    h.mul_(3).add_(1)": "The right way for a parameter's step. "
        "Here the write is a part of the computation, so it has to be recorded.",
        "h.mul_(3)\nh.add(1)": "One of the two has no underscore, and so its result is lost.",
    },
    right=[
        "h *= 3\nh += 1",
        "h[:] = 3 * h + 1",
        "h.copy_(3 * h + 1)",
        "h.mul_(3)\nh.add_(1)",
    ],
    at={
        "torch.allclose(h, x.sin()": (
            "This line looks at the caller's h. It should hold the new numbers, in its own memory. "
            "What does it hold?"
        ),
        "h.sum().backward()": (
            "The numbers in h are right. But backward finds no way from h back to x: what "
            "happened to its history?"
        ),
        "torch.allclose(x.grad": (
            "The numbers in h are right. But x's gradient is not 3 * cos(x): has autograd seen "
            "every write?"
        ),
    },
)
def test_write_a_recorded_write():
    """Write scale_: turn h into 3 * h + 1 in its own memory, so that the gradient knows of it."""

    def scale_(h):
        # answer:
        h.mul_(3).add_(1)
        # end

    for start in (0.0, 1.0):
        x = torch.full((2,), start, requires_grad=True)
        h = x.sin()
        scale_(h)
        assert torch.allclose(h, x.sin() * 3 + 1)
        h.sum().backward()
        assert torch.allclose(x.grad, x.cos() * 3)


@koan(
    claims=["A-4.2-11"],
    see="torch.Tensor.detach",
    hint=[
        "Both writes change memory. Only one of them is counted.",
        "exp's gradient is: what comes from above, times the result it kept. What is there now?",
    ],
    why="Both share the memory, so neither is isolated. detach() shares the counter as well, and "
    "backward refuses. .data has its own counter: backward trusts the 5 it finds there, though "
    "the derivative of exp at 0 is 1. No error, a wrong gradient.",
    wrong={
        "[0.0, 1.0, 1.0]": "That is right after a recorded write: the 5 does not come from x. But "
        "this write was not recorded.",
        "[1.0, 1.0, 1.0]": "The derivative of exp at 0, yes. But exp kept no copy: it kept the "
        "very tensor that was overwritten.",
        "None": "It would be better so. PyTorch finds nothing to complain about.",
    },
)
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
    assert x.grad.tolist() == answer([5.0, 1.0, 1.0])


@koan(
    claims=["A-4.2-06"],
    see="torch.Tensor.clone",
    hint=[
        "exp wants its result untouched. So do not write there.",
        "Give the name y to another tensor: a copy, or the result of an operation that chooses.",
    ],
    why="y = y.clone(): the copy is written, and the tensor that exp kept stays as it was. "
    "masked_fill, torch.where and clamp do the same without a write.",
    wrong={
        "y.clone()\ny[y > 4] = 4.0": "Some advise to call y.clone() first. The copy is made, "
        "thrown away, and y is written after all.",
        "y.data[y > 4] = 4.0": "No error any more. Compare the gradient.",
        "y = y.detach()\ny[y > 4] = 4.0": "This cuts y off from x, and still writes into the same "
        "memory.",
        "y.clamp_(max=4.0)": "The underscore says that it writes into the same memory.",
        "y = y.clamp_(max=4.0)": "The underscore writes into the memory that exp kept; the name on "
        "the left does not help.",
        "y.masked_fill_(y > 4, 4.0)": "Another way to write into the memory that exp kept.",
        "y.clamp(max=4.0)": "The clamped tensor was made, and nobody took it.",
        "kept = y.clone()\ny[y > 4] = 4.0": "exp kept y, and knows nothing of your copy. Swap "
        "their parts.",
    },
    right=[
        "y = torch.where(y > 4, 4.0, y)",
        "y = y.masked_fill(y > 4, 4.0)",
        "y = y.clamp(max=4.0)",
        "y = y * 1\ny[y > 4] = 4.0",
    ],
    at={
        "y.sum().backward()": (
            "This walk fails. Is the tensor that exp kept still as it was? And does y still lead "
            "back to x?"
        ),
        "torch.equal(y, plain.clamp(max=4.0))": (
            "Backward runs. But y is not what was asked for: 4 where it was larger, and the rest "
            "as before."
        ),
        "torch.allclose(x.grad": (
            "y is right. But its gradient is not: it should be 0 where a number was cut down, and "
            "elsewhere as before."
        ),
    },
)
def test_cap_the_large_ones():
    """What is larger than 4 should become 4, and get no gradient. Backward fails.

    Repair the marked line.
    """
    for numbers in ([0.0, 1.0, 2.0], [3.0, -1.0, 0.5]):
        x = torch.tensor(numbers, requires_grad=True)
        y = x.exp()
        # answer:
        y = y.clone()
        y[y > 4] = 4.0
        # given:
        # y[y > 4] = 4.0
        # end
        y.sum().backward()
        plain = x.detach().exp()
        assert torch.equal(y, plain.clamp(max=4.0))
        assert torch.allclose(x.grad, torch.where(plain > 4, 0.0, plain))


@koan(
    claims=["A-4.2-02"],
    see="torch.stack",
    hint=[
        "A product keeps both factors. Which part of `states` was kept in the first round?",
        "The kept part itself is never overwritten. But a view shares its counter with the whole.",
        "Either keep something else than a view of `states`, or do not write into it at all.",
    ],
    why="The product kept states[t], a view; each later write raises the counter that the view "
    "shares, and backward cannot know that another element was hit. Collect the states in a list "
    "and stack them, or multiply a clone.",
    wrong={
        "states = torch.ones(steps + 1)\n"
        "for t in range(steps):\n"
        "    states[t + 1] = (states[t] * w).clone()\n"
        "return states": "This copies the product. What the product kept is still a view.",
        "states = torch.ones(steps + 1)\n"
        "for t in range(steps):\n"
        "    states = states.clone()\n"
        "    states[t + 1] = states[t] * w\n"
        "return states": "The product is taken from the copy, and then that copy is written.",
        "states = torch.ones(steps + 1)\n"
        "for t in range(steps):\n"
        "    states[t + 1] = states[t].detach() * w\n"
        "return states": "Here each state forgets the ones before it.",
        "states = torch.ones(steps + 1)\n"
        "for t in range(steps):\n"
        "    states.data[t + 1] = states[t] * w\n"
        "return states": "Autograd does not see these writes, so states never comes from w.",
        "states = [torch.ones(())]\n"
        "for _ in range(steps):\n"
        "    states.append(states[-1] * w)\n"
        "return torch.tensor(states)": "torch.tensor reads the numbers and leaves their history.",
    },
    right=[
        "states = torch.ones(steps + 1)\n"
        "for t in range(steps):\n"
        "    states[t + 1] = states[t].clone() * w\n"
        "return states",
        "states = torch.ones(steps + 1)\n"
        "for t in range(steps):\n"
        "    new = states[t] * w\n"
        "    states = states.clone()\n"
        "    states[t + 1] = new\n"
        "return states",
        "states = [torch.ones(1)]\n"
        "for _ in range(steps):\n"
        "    states.append(states[-1] * w)\n"
        "return torch.cat(states)",
        "return w ** torch.arange(steps + 1)",
    ],
    at={
        "states.tolist()": (
            "First the states: one tensor, with the 1 at its start, and then one number for each "
            "step."
        ),
        "states.sum().backward()": (
            "The states are right, but this walk fails. Does `states` lead back to w, and is all "
            "that a product kept still untouched?"
        ),
        "w.grad ==": (
            "The states are right, and backward runs. But each state should send its gradient "
            "through all that came before it, to w."
        ),
    },
)
def test_step_by_step_into_one_tensor():
    """Each state is the one before it, times w. All go into one tensor. Backward fails.

    Repair it: the same states, and a gradient through all of them.
    """

    def unroll(w, steps):
        # answer:
        states = [torch.ones(())]
        for _ in range(steps):
            states.append(states[-1] * w)
        return torch.stack(states)
        # given:
        # states = torch.ones(steps + 1)
        # for t in range(steps):
        #     states[t + 1] = states[t] * w
        # return states
        # end

    for number, steps in ((2.0, 3), (3.0, 2)):
        w = torch.tensor(number, requires_grad=True)
        states = unroll(w, steps)
        assert states.tolist() == [number**t for t in range(steps + 1)]
        states.sum().backward()
        assert w.grad == sum(t * number ** (t - 1) for t in range(steps + 1))
