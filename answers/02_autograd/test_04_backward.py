"""Backward: where it starts, what it walks, and what it frees behind it.

Documents: A 1, A 2.2, A 3.2, B 1, B 2, B 3
"""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from sensei import answer, koan


@koan(
    claims=["B-1-01"],
    see="torch.Tensor.backward",
    hint=[
        "backward() needs one number to start from, and something to walk to.",
        "An operation is recorded when one of its inputs requires grad. Is that so for all four?",
    ],
    why=(
        "A graph is no by-product of every operation: it is recorded only if an input requires "
        "grad. One number in any box is enough, and a leaf is a graph of length zero: its slope "
        "by itself is 1."
    ),
    wrong={
        '["leaf", "product", "box", "constant"]': (
            "Some say every operation builds a graph. Plain numbers times plain numbers leave none."
        ),
        '["product", "box"]': "A leaf has no operation behind it, but it does require grad.",
        '["leaf", "product"]': "backward() counts elements, not dimensions.",
    },
)
def test_where_a_backward_can_start():
    """Call backward() on four tensors, without an argument. List those that accept it, in order."""
    w = torch.tensor(3.0, requires_grad=True)
    starts = {"leaf": w, "product": w * 2, "box": (w * 2).reshape(1, 1)}
    starts["constant"] = torch.tensor(3.0) * 2
    accepted = []
    for name, start in starts.items():
        try:
            start.backward()
            accepted.append(name)
        except RuntimeError:
            pass
    assert accepted == answer(["leaf", "product", "box"])


@koan(
    see="torch.Tensor.backward",
    hint=[
        "Is the loss one number with a graph? If so, the walk itself succeeds.",
        "backward() puts the gradient into .grad. What does it hand back to its caller?",
    ],
    why=(
        "backward() stores the gradient in .grad and returns None, which has no tolist(). Read "
        "weight.grad afterwards, or call torch.autograd.grad: that one returns gradients."
    ),
    wrong={
        "RuntimeError": (
            "Autograd has nothing to refuse: the loss is one number, and the graph is there. "
            "The walk succeeds, and something else fails after it."
        ),
        "TypeError": "No call here gets an argument of the wrong type.",
        "ValueError": "All values are fine. Ask yourself what stands before the second dot.",
    },
)
def test_a_gradient_in_one_line():
    """Somebody wants the slopes at once, in one line. Which exception comes back?"""
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = (weight**2).sum()
    with pytest.raises(Exception) as caught:
        loss.backward().tolist()
    assert caught.type is answer(AttributeError)


@koan(
    see="torch.Tensor.backward",
    hint=[
        "The argument says how much each element of y counts.",
        "The argument stands where the gradient of some later loss at y would arrive.",
    ],
    why=(
        "The argument is what arrives at y from above. The walk multiplies it by the slopes, as "
        "if you had said (y * weights).sum().backward()."
    ),
    wrong={
        "[1.0, 0.0, 10.0]": "This is what arrives at y. It still has to walk through the square.",
        "[2.0, 4.0, 6.0]": "So it would be if all three elements counted the same.",
        "[3.0, 4.0, 16.0]": "It is no start value to add to. It weighs.",
        "[2.0, 0.0, 600.0]": "The weight comes in once, after the square.",
    },
)
def test_a_weight_for_each_element():
    """A vector can go backward, too, if you hand it one weight per element. Predict x.grad."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    y.backward(torch.tensor([1.0, 0.0, 10.0]))
    assert x.grad.tolist() == answer([2.0, 0.0, 60.0])


@koan(
    claims=["A-1-05", "B-3-26", "B-3-30"],
    see="torch.utils.checkpoint.checkpoint",
    hint=[
        "What must each function remember for its backward?",
        "backward() frees what the nodes remembered. Which function needs to remember nothing?",
        "A checkpoint saves memory. Was it made for walking twice?",
    ],
    why=(
        "backward() frees the saved tensors, not the graph: nodes and their links stay. A sum "
        "saves nothing, so it goes twice, and adds up without a word. A checkpoint computes its "
        "values again within one walk; after it, they are as gone as any."
    ),
    wrong={
        '["freed", "freed", "freed"]': (
            "Some say backward releases the graph, so no second one works. It releases what the "
            "nodes saved, and not every node saves."
        ),
        '[2.0, "freed", 4.0]': (
            "Some say a checkpoint replaces retain_graph. It computes again, but only for one walk."
        ),
        '[1.0, "freed", "freed"]': "The first number counts both walks.",
        "[2.0, 4.0, 4.0]": "The slope of a square needs x. Is it still remembered?",
    },
)
def test_two_backwards_through_three_functions():
    """For each function, call backward() twice on one loss. Write the first element of x.grad,
    or "freed" if the second call raises."""

    def twice(f):
        x = torch.ones(3, requires_grad=True)
        loss = f(x).sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError:
            return "freed"
        return x.grad[0].item()

    again = partial(checkpoint, torch.square, use_reentrant=False)
    outcomes = [twice(f) for f in (lambda x: x + 3, torch.square, again)]
    assert outcomes == answer([2.0, "freed", "freed"])


@koan(
    claims=["A-1-05", "A-1-06", "B-3-27"],
    see="torch.Tensor.backward",
    hint=[
        "Both losses walk through the same square. What does the first walk free there?",
        "Either keep what the first walk would free, or walk once for both losses.",
    ],
    why=(
        "The gradient of a sum is the sum of the gradients: one walk serves both. "
        "retain_graph=True at the first call is right, too: it is meant for a graph that is "
        "really walked twice. It costs a second walk."
    ),
    wrong={
        "h.retain_grad()\nfirst.backward()\nsecond.backward()": (
            "Some say this error means retain_grad() is missing. That keeps the gradient of h, "
            "not the tensors a second walk needs."
        ),
        "first.backward()\nsecond.backward(retain_graph=True)": (
            "By then the first call has freed everything."
        ),
        "first.backward()\nh = x**2\nsecond.backward()": (
            "`second` was made from the old h. A new h does not reach it."
        ),
        "first.backward(retain_graph=True)\nx.grad = None\nsecond.backward()": (
            "Two walks, but the result of one was thrown away."
        ),
    },
    right=[
        "first.backward(retain_graph=True)\nsecond.backward()",
        "torch.autograd.backward([first, second])",
        "first.backward()\n(3 * x**2).sum().backward()",
    ],
    at={
        "return x.grad.tolist()": "Your lines ran, but x.grad is empty. Did any walk reach this x?",
        "[8.0, 16.0]": (
            "Nothing raises any more. But x.grad should hold the gradients of both losses, added "
            "up. What does it hold?"
        ),
        "[-8.0, 4.0]": (
            "The first x is right. Another one should work as well: is something in your lines "
            "made for the first?"
        ),
    },
)
def test_two_losses_on_one_trunk():
    """x.grad should collect the gradients of both losses. Repair the marked lines."""

    def gradient(x):
        h = x**2
        first, second = h.sum(), (3 * h).sum()
        # answer:
        (first + second).backward()
        # given:
        # first.backward()
        # second.backward()
        # end
        return x.grad.tolist()

    assert gradient(torch.tensor([1.0, 2.0], requires_grad=True)) == [8.0, 16.0]
    assert gradient(torch.tensor([-1.0, 0.5], requires_grad=True)) == [-8.0, 4.0]


@koan(
    claims=["A-2.2-27", "B-3-27"],
    see="torch.sqrt",
    hint=[
        "The slope of a root is 1 / (2 * root). Whose root did the kept graph remember?",
        "Two walks through one graph: what do they do to x.grad?",
        "Calling f again runs its Python again. Which way does the `if` go now?",
    ],
    why=(
        "A kept graph repeats the walk with the numbers and the branch of its own forward, and "
        "adds. A new forward builds a new graph from what x holds now: Python's `if` decides "
        "which, and nothing has to be retained."
    ),
    wrong={
        "[1.25, 5.0]": "The second walk does not look at the new x: the old root was remembered.",
        "[0.25, 5.0]": "Two walks were made before you looked, and a second one does not replace.",
        "[0.5, 1.0]": "The graph is not fixed by the first call: f chooses its branch anew.",
        "[0.5, 0.25]": "That is the old graph once more. f(x) makes a new one.",
    },
)
def test_the_kept_graph_and_the_new_one():
    """Walk a kept graph twice, with x changed in between. Then make a new one.

    Write both gradients.
    """

    def f(x):
        return x.sqrt() if x > 1 else 5 * x

    x = torch.tensor(4.0, requires_grad=True)
    kept = f(x)
    kept.backward(retain_graph=True)
    with torch.no_grad():
        x.fill_(0.25)
    kept.backward()
    old, x.grad = x.grad.item(), None
    f(x).backward()
    assert [old, x.grad.item()] == answer([0.5, 5.0])


@koan(
    claims=["B-2-25"],
    see="torch.Tensor.retain_grad",
    hint=[
        "Backward passes by `hidden`, but leaves nothing there unless asked.",
        "Ask before the walk: afterwards the value is gone.",
    ],
    why=(
        "Leaves keep their gradient, results do not: it would cost memory for each of them. "
        "retain_grad() is the wish to keep one, and it must be made before backward."
    ),
    wrong={
        "loss.backward()\nhidden.retain_grad()": "Too late: the gradient has come and gone.",
        "hidden.requires_grad_()\nloss.backward()": "It does require grad. That is not the point.",
        "loss.backward(retain_graph=True)": (
            "This keeps what a second walk needs. It does not keep gradients."
        ),
        "loss.backward(inputs=[hidden])": "Then the walk ends at hidden, and x goes without.",
        "hidden = hidden.detach().requires_grad_()\nloss.backward()": (
            "A new leaf, and the loss has never seen it."
        ),
    },
    right=["loss.backward(inputs=[hidden, x])"],
    at={
        "[[2.0], [4.0]]": (
            "The first x is right. Another one should work as well: is something in your lines "
            "made for the first?"
        ),
        "return [hidden.grad.tolist()": (
            "Your lines ran, and one of the two gradients is not there. Which one is missing: that "
            "of hidden, or that of x?"
        ),
        "[[4.0, 8.0], [8.0, 16.0]]": (
            "Both gradients are there, but with other numbers. One walk from the loss is wanted: "
            "how many were there, and from where?"
        ),
    },
)
def test_see_the_gradient_in_the_middle():
    """You want to see the gradient of `hidden`, beside that of x. Repair the marked line."""

    def gradients(x):
        hidden = x * 2
        loss = (hidden**2).sum()
        # answer:
        hidden.retain_grad()
        loss.backward()
        # given:
        # loss.backward()
        # end
        return [hidden.grad.tolist(), x.grad.tolist()]

    assert gradients(torch.tensor([1.0, 2.0], requires_grad=True)) == [[4.0, 8.0], [8.0, 16.0]]
    assert gradients(torch.tensor([0.5], requires_grad=True)) == [[2.0], [4.0]]


@koan(
    claims=["A-1-06"],
    see="torch.Tensor.detach",
    hint=[
        "Each backward should reach w of its own round, and no older round. Through which rounds "
        "does yours walk, if any?",
        "The number in `state` should be carried on, but not its history.",
    ],
    why=(
        "The carried state drags the graph of all former rounds behind it. detach() carries the "
        "number alone. To retain the graph would only make it grow, until it meets the weight "
        "that was overwritten."
    ),
    wrong={
        "state = w * state\nstate.backward(retain_graph=True)": (
            "The walk now reaches old rounds, made with a weight that was overwritten since."
        ),
        "state = w * state\nstate.retain_grad()\nstate.backward()": (
            "It keeps one gradient. What the old rounds saved is freed all the same."
        ),
        "state = torch.ones(())\nstate = w * state\nstate.backward()": (
            "No history, and no state either: each round starts from the beginning."
        ),
    },
    right=[
        "state = w * state.detach()\nstate.backward()",
        "state = w * state\nstate.backward()\nstate = state.detach()",
        "state = w * state\nstate.backward()\nstate.detach_()",
        "state = w * state.item()\nstate.backward()",
    ],
    at={
        "w.grad.item()": (
            "The round ran, but no gradient has come to w. Did a walk reach it in this round?"
        ),
        "states.append(state.item())": (
            "Here the number is read out of `state`. It should still be a tensor with one number."
        ),
        "assert states ==": (
            "All rounds run now. But the states differ: each round should take the number that "
            "the last one left, and multiply it by w once."
        ),
        "assert slopes ==": (
            "The states are right. The slopes are not: each walk should go through its own round, "
            "and through no other."
        ),
    },
)
def test_a_state_carried_from_batch_to_batch():
    """A tiny recurrent network: each round starts from the state of the last one, and learns
    from its own round only. The second round fails. Repair the marked lines."""
    w = torch.tensor(2.0, requires_grad=True)
    state = torch.ones(())
    slopes, states = [], []
    for _ in range(3):
        # answer:
        state = state.detach()
        state = w * state
        state.backward()
        # given:
        # state = w * state
        # state.backward()
        # end
        slopes.append(w.grad.item())
        states.append(state.item())
        with torch.no_grad():
            w -= w.grad
        w.grad = None
    assert states == [2.0, 2.0, -2.0]
    assert slopes == [1.0, 2.0, 2.0]


@koan(
    claims=["A-3.2-16", "B-3-17"],
    see="torch.Tensor.backward",
    hint=[
        "Start at `top` and walk towards x. Whom do you meet?",
        "A branch that does not lead to a wanted input: is there a reason to run it?",
    ],
    why=(
        "The walk visits only nodes between the start and the wanted inputs; `right` and `spare` "
        "never run, and w gets nothing. This is how one loss can serve one network of two."
    ),
    wrong={
        ('["top", "right", "left"]', "[6.0, None]"): (
            "Some say backward walks the complete graph. It leaves out what leads nowhere wanted."
        ),
        ('["top", "right", "left"]', "[6.0, 6.0]"): (
            "So it is without `inputs`. With it, only the named ones are filled."
        ),
        ('["left", "top"]', "[6.0, None]"): "The right ones, in the order of the forward.",
        ('["top", "left", "spare"]', "[13.0, None]"): (
            "`spare` hangs on x, but `top` does not hang on `spare`."
        ),
    },
    at={
        "assert reports ==": (
            "This line looks at the reports alone. Start at `top` and walk towards x: whom do you "
            "meet, and in which order?"
        ),
        "x.grad.item()": (
            "The reports are right. Now .grad: how fast does `top` grow with x? And for whom was "
            "this walk made?"
        ),
    },
)
def test_a_walk_to_one_input():
    """Each tensor here reports when its gradient arrives. Ask for x only.

    Write who reports, in order, and the gradients of x and w.
    """
    reports = []
    x, w = (torch.ones((), requires_grad=True) for _ in range(2))
    left, right, spare = x * 2, w * 3, x * 7
    top = left * right
    for name, t in {"left": left, "right": right, "spare": spare, "top": top}.items():
        t.register_hook(lambda gradient, name=name: reports.append(name))
    top.backward(inputs=[x])
    assert reports == answer(["top", "left"])
    assert [x.grad.item(), w.grad] == answer([6.0, None])


@koan(
    claims=["A-3.2-16"],
    see="torch.Tensor.detach",
    hint=[
        "Look at each backward by itself: does a way lead back to the one who should learn, and "
        "which critic, of which moment, made this score?",
        "The critic's loss must leave the maker's .grad alone. You have met two ways in this file.",
        "Turn by turn: the critic's loss, its move, then a fresh score for the maker.",
    ],
    why=(
        "The critic learns from a fake without history. After its move, the maker's loss needs a "
        "new score: a walk through the old one would use weights that are gone, and PyTorch "
        "notices."
    ),
    wrong={
        "score = critic * fake\n"
        "score.backward(retain_graph=True)\n"
        "(-score).backward()\n"
        "move(critic)\n"
        "move(maker)": "No error, but the second loss adds to the first: both cancel out.",
        "(critic * fake.detach()).backward()\n"
        "(-critic.detach() * fake).backward()\n"
        "move(critic)\n"
        "move(maker)": "Clean gradients. But the maker answers the critic of before its move.",
        "score = critic * fake\n"
        "score.backward(retain_graph=True)\n"
        "move(critic)\n"
        "(-critic * fake).backward()\n"
        "move(maker)": "The critic's loss has left its gradient in the maker.",
        "score = critic * fake.detach()\n"
        "score.backward()\n"
        "move(critic)\n"
        "(-critic * fake.detach()).backward()\n"
        "move(maker)": "The critic learns twice, and nothing reaches the maker.",
    },
    right=[
        "(critic * fake).backward(inputs=[critic])\n"
        "move(critic)\n"
        "(-critic * fake).backward(inputs=[maker])\n"
        "move(maker)",
        "(critic * fake.detach()).backward()\n"
        "move(critic)\n"
        "(-critic.detach() * fake).backward()\n"
        "move(maker)",
    ],
    at={
        "leaf -= 0.5 * leaf.grad": (
            "`move` was called for a tensor that has no gradient to move by. Which walk should "
            "fill it before?"
        ),
        "maker.item(), critic.item()": (
            "All walks ran. Compare the two places with those wanted. For each wrong one: which "
            "walks filled its .grad, with which critic, and up or down?"
        ),
    },
)
def test_maker_and_critic_take_turns():
    """The critic lowers the score of a fake and moves. Then the maker raises its score with the
    critic as it is NOW, and moves. Repair the marked lines."""

    def move(leaf):
        with torch.no_grad():
            leaf -= 0.5 * leaf.grad

    maker, critic = (torch.tensor(start, requires_grad=True) for start in (2.0, 3.0))
    for noise, expected in ((1.0, [3.0, 2.0]), (2.0, [2.0, -1.0])):
        maker.grad = critic.grad = None
        fake = maker * noise
        # answer:
        (critic * fake.detach()).backward()
        move(critic)
        (-critic * fake).backward()
        move(maker)
        # given:
        # score = critic * fake
        # score.backward(retain_graph=True)
        # move(critic)
        # (-score).backward()
        # move(maker)
        # end
        assert [maker.item(), critic.item()] == expected
