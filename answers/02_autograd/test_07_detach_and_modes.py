"""Detach and modes: what is cut off, what is not recorded, and what only looks like it.

Documents: A 4.2, B 1, B 2, B 3, B 4
"""

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from sensei import answer, koan


@koan(
    claims=["A-4.2-07", "B-2-18", "B-2-19", "B-4-36"],
    see="torch.Tensor.detach",
    hint=[
        "Four questions for each. Which of the two calls copies numbers?",
        "A gradient is kept on one tensor object. Is a detached tensor that same object?",
    ],
    why="detach() is a new tensor over the same memory: no history, flag off, grad None. Only "
    "clone() takes new memory, so only then may x's memory go. detach().clone() gives the same "
    "and does not record a copy first, only to drop the record.",
    wrong={
        ("['numbers', 'memory', 'grad']", "['numbers']"): (
            "Some say a detached tensor keeps the grad of the original. A grad belongs to one "
            "tensor object, and this is another one."
        ),
        ("['numbers']", "['numbers']"): "Some take detach() for a copy. It copies nothing.",
        ("['numbers', 'memory']", "['numbers', 'memory']"): (
            "detach() copies nothing, that is right. But it is not alone on the second line."
        ),
        ("['numbers', 'memory', 'flag']", "['numbers', 'flag']"): (
            "What is cut off from the graph asks for no gradient, until you switch that on."
        ),
    },
    at={
        "common(x.detach())": (
            "This line is about detach() alone. Ask four questions: same numbers, same memory, "
            "same flag? And is a grad kept with the numbers, or with one tensor object?"
        ),
        "x.clone().detach()": (
            "detach() alone is right. Here another call comes before it. Which of the four facts "
            "does that one touch?"
        ),
    },
)
def test_what_it_has_in_common_with_x():
    """x has a gradient already. Which of the four does each new tensor have in common with x?"""
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()

    def common(y):
        facts = {
            "numbers": torch.equal(y, x),
            "memory": y.data_ptr() == x.data_ptr(),
            "flag": y.requires_grad == x.requires_grad,
            "grad": y.grad is x.grad,
        }
        return [name for name, yes in facts.items() if yes]

    assert common(x.detach()) == answer(["numbers", "memory"])
    assert common(x.clone().detach()) == answer(["numbers"])


@koan(
    claims=["A-4.2-08"],
    see="torch.Tensor.requires_grad",
    hint=[
        "x and `frozen` hold the same numbers. For autograd, one of them is a constant.",
        "Put c for `frozen` in the formula, and take the derivative by x.",
    ],
    why="c² + c·x has the derivative c. What comes from `frozen` alone needs no gradient; one "
    "input that needs it is enough for a result that does, and the gradient takes that way only.",
    wrong={
        "None": "detach() is contagious only for what is made from detached tensors alone. Here x "
        "itself comes in again.",
        "[4.0, 8.0, 12.0]": "The derivative of x² + x². Autograd does not see that `frozen` has "
        "x's numbers.",
        "[2.0, 4.0, 6.0]": "The first part is a constant, yes. But in the second, too, x stands "
        "only once.",
        "[0.0, 0.0, 0.0]": "x is a factor on one side of the second part.",
    },
)
def test_frozen_times_living():
    """Some call detach() contagious. Predict x's gradient."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    frozen = x.detach()
    loss = (frozen**2 + frozen * x).sum()
    loss.backward()
    assert x.grad.tolist() == answer([1.0, 2.0, 3.0])


@koan(
    claims=["A-4.2-09"],
    see="torch.autograd.backward",
    hint=[
        "z is no scalar; and z has no history. Which is the more basic trouble?",
        "PyTorch first asks whether there is a way back at all.",
    ],
    why="No history: 'element 0 of tensors does not require grad and does not have a grad_fn'. "
    "Only a z with a history hears that its gradient can be 'implicitly created only for scalar "
    "outputs'. So the message tells you which of the two to repair.",
    wrong={
        ("RuntimeError", "['scalar']"): "That is what a z with a history would hear.",
        ("RuntimeError", "['scalar', 'grad_fn']"): "PyTorch stops at the first thing it minds.",
        ("RuntimeError", "[]"): "The message names its reason, by one of these two words.",
        ("None", "[]"): "Some say that this gives no gradient, and no more. But PyTorch complains.",
        ("AttributeError", "['grad_fn']"): (
            "Without a history grad_fn is None, and None has few attributes. But PyTorch looks "
            "first and complains in its own name."
        ),
    },
    at={
        "str(caught.value)": (
            "The type is right. The message speaks of one of the two troubles: which one would "
            "you look for first?"
        ),
        "caught.type is": (
            "This line asks for the type only. The call is good Python; it is the walk that "
            "cannot begin. Who says so, and how does that one complain elsewhere?"
        ),
    },
)
def test_backward_from_a_detached_result():
    """Two things are wrong with this call, and PyTorch names one of them.

    Write the exception's type, and which of the two words its message mentions.
    """
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = x.detach() ** 2
    with pytest.raises(Exception) as caught:
        z.backward()
    assert caught.type is answer(RuntimeError)
    assert [word for word in ("scalar", "grad_fn") if word in str(caught.value)] == answer(
        ["grad_fn"]
    )


@koan(
    see="torch.Tensor.detach_",
    hint=[
        "detach() changes nothing: it returns something. Who keeps it, line by line?",
        "The loop's `h` is a name of its own. Moving it does not move what the list holds.",
        "The underscore in detach_ means the same as in add_.",
    ],
    why="detach() returns a new tensor, which must be put where the next step looks for it. A loop "
    "variable is only a name. detach_() cuts the tensor itself (it is refused on views). With "
    "hidden states the slip shows late: 'Trying to backward through the graph a second time'.",
    wrong={
        "[]": "Four cuts, but not all of them reach the list.",
        "[0]": "The loop moves the name h to a new tensor. What does the list hold after that?",
        "[0, 1, 3]": "detach_() is a write in place, on the history instead of the numbers.",
        "[0, 1, 2]": "An assignment to a place of the list does change the list.",
        "[1]": "The first line makes a detached tensor too. Where does it go?",
    },
)
def test_cuts_that_get_lost():
    """Each tensor in the list is to be cut off from w. Four ways to write it.

    At which places does the list still hold a tensor with a history?
    """
    w = torch.ones(2, requires_grad=True)
    hidden = [w * 2, w * 3, w * 4, w * 5]
    hidden[0].detach()
    for h in hidden[1:2]:
        h = h.detach()
    hidden[2] = hidden[2].detach()
    hidden[3].detach_()
    attached = [place for place, h in enumerate(hidden) if h.requires_grad]
    assert attached == answer([0, 1])


@koan(
    claims=["A-4.2-12", "B-2-17"],
    see="torch.clone",
    hint=[
        "A copy has to come from somewhere: clone() is an operation like any other.",
        "The flag of `copy` was on before requires_grad_ came. For `fresh` it was off.",
        "Only one of the two leads back to x. Multiply along that way.",
    ],
    why="clone() is recorded: a new node, with the old one behind it. So `copy` leads back to x, "
    "5 times 3, and its requires_grad_ changes nothing. `fresh` is a new leaf: the 7 lands there, "
    "and x hears nothing of it.",
    wrong={
        ("['MulBackward0', 'NoneType']", "[15.0, 15.0]"): (
            "Some say clone() copies everything, grad_fn included. Then a copy would have been "
            "made by the multiplication, and nobody would know of the copying."
        ),
        ("['NoneType', 'NoneType']", "None"): (
            "So it would be if clone() made a new leaf. It copies numbers, and lets gradients "
            "through."
        ),
        ("['CloneBackward0', 'CloneBackward0']", "[36.0, 36.0]"): (
            "The same words, in another order: after detach() there is nothing left to record."
        ),
        ("['CloneBackward0', 'NoneType']", "[36.0, 36.0]"): (
            "requires_grad_ opens no way back to x. It starts a new leaf."
        ),
    },
    at={
        "type(t.grad_fn).__name__ for t": (
            "This line asks for the last thing that autograd noted for each of the two. Which of "
            "these calls does it note, and who has a past at all?"
        ),
        "x.grad.tolist()": (
            "The names are right, and they tell which copy leads back to x. Multiply along that "
            "way."
        ),
    },
)
def test_two_copies_that_require_grad():
    """Both copies require grad. What made each of them, as autograd sees it?

    Write the two class names as type() gives them, such as "SinBackward0". Then write what
    reaches x.
    """
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    copy = y.clone().requires_grad_(True)
    fresh = y.detach().clone().requires_grad_(True)
    (5 * copy + 7 * fresh).sum().backward()
    assert type(y.grad_fn).__name__ == "MulBackward0"
    assert [type(t.grad_fn).__name__ for t in (copy, fresh)] == answer(
        ["CloneBackward0", "NoneType"]
    )
    assert x.grad.tolist() == answer([15.0, 15.0])


@koan(
    claims=["A-4.2-13", "A-4.2-14", "A-4.2-16", "A-4.2-17"],
    see="torch.add",
    hint=[
        "On paper: scale * (sum + offset)², by one element of x. Nothing else is in there.",
        "Does it matter for that derivative how the 5 was written down?",
    ],
    why="Each is 2 * 0.5 * (6 + 5), bit for bit: the operation notes a Python number's value and "
    "uses it in backward. Nobody asked for a gradient of the 5, so none is lost. As a tensor that "
    "requires grad, it only gets one of its own; wrap it if you want to learn it.",
    wrong={
        "[6.0, 11.0, 11.0, 11.0]": (
            "Some call a Python number a black hole for gradients, and think the 5 is lost. "
            "It is not in the graph, but its value is in the sum."
        ),
        "[22.0, 11.0, 11.0, 11.0]": (
            "Some say a Python float as a scale spoils the gradient. The product notes its value."
        ),
        "[0.0, 11.0, 11.0, 11.0]": "A Python number does not block what passes through the sum.",
        "[0.0, 0.0, 11.0, 11.0]": (
            "Some say torch.tensor(5., requires_grad=True) is the remedy. x was never ill."
        ),
        "[11.0, 11.0, 11.0, 22.0]": "The scale stands before the square, for every input.",
    },
)
def test_a_five_in_three_costumes():
    """The 5 and the 0.5 as Python numbers, as tensors, and the 5 as a leaf.

    Predict the gradient of one element of x for each. The last number is the leaf's own gradient.
    """

    def gradient(offset, scale):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (scale * (x.sum() + offset) ** 2).backward()
        return x.grad[0].item()

    numbers = gradient(5, 0.5)
    tensors = gradient(torch.tensor(5.0), torch.tensor(0.5))
    leaf = torch.tensor(5.0, requires_grad=True)
    with_leaf = gradient(leaf, 0.5)
    assert [numbers, tensors, with_leaf, leaf.grad.item()] == answer([11.0, 11.0, 11.0, 11.0])


@koan(
    claims=["A-4.2-01", "A-4.2-15"],
    see="torch.Tensor.item",
    hint=[
        "Print grad_fn after each line. Where does the way back to x end?",
        "A number may come INTO the computation. What happens when a tensor becomes a number?",
    ],
    why="Writes are recorded, and numbers come in as constants. What cuts is to turn a tensor into "
    "a number: no graph follows through .item(). Wrapped again with requires_grad=True it is a "
    "new leaf, so backward runs, and x.grad stays None without a word.",
    wrong={
        "y = x**2\n"
        "y = y.clone()\n"
        "y[0] = 0.0\n"
        "total = torch.tensor(y.sum().item(), requires_grad=True)\n"
        "return 0.5 * total + 5": "The write is innocent: it was recorded, and squares do not "
        "keep their result.",
        "y = x**2\n"
        "y[0] = 0.0\n"
        "total = torch.tensor(y.sum().item(), requires_grad=True)\n"
        "half = torch.tensor(0.5, requires_grad=True)\n"
        "five = torch.tensor(5.0, requires_grad=True)\n"
        "return half * total + five": "The numbers are innocent. Dressed up as tensors, they only "
        "get gradients that nobody reads.",
        "y = x**2\ny[0] = 0.0\ntotal = y.sum().item()\nreturn 0.5 * total + 5": (
            "Without the costume backward fails at once. Better, but not repaired."
        ),
        "y = x**2\ny[0] = 0.0\ntotal = y.sum().detach()\nreturn 0.5 * total + 5": (
            "It stays a tensor, and yet the way back ends here."
        ),
        "y = x**2\ntotal = y.sum()\nreturn 0.5 * total + 5": (
            "Now x gets a gradient, but of another loss: one element has to be left out."
        ),
    },
    right=[
        "y = x**2\ny[0] = 0.0\nreturn 0.5 * y.sum() + 5",
        "return 0.5 * (x[1:] ** 2).sum() + 5",
    ],
    at={
        "loss.backward()": (
            "backward cannot start or walk here. The loss should be a tensor of one number, with "
            "a way back to x."
        ),
        "assert loss ==": (
            "Backward runs. But the loss is another one now: half the squares of all but the "
            "first, and 5."
        ),
        "x.grad.tolist() == [0.0, *numbers": (
            "The loss is right, and backward runs. But its gradient does not arrive at x as it "
            "should: print grad_fn after each of your lines."
        ),
    },
)
def test_three_suspects():
    """Backward runs, and x.grad is None. Some suspect the write, some the Python numbers.

    Find the line that cuts, and repair it. The loss stays what it is.
    """

    def loss_of(x):
        # answer:
        y = x**2
        y[0] = 0.0
        total = y.sum()
        return 0.5 * total + 5
        # given:
        # y = x**2
        # y[0] = 0.0
        # total = torch.tensor(y.sum().item(), requires_grad=True)
        # return 0.5 * total + 5
        # end

    for numbers in ([1.0, 2.0, 3.0], [4.0, 6.0, -8.0]):
        x = torch.tensor(numbers, requires_grad=True)
        loss = loss_of(x)
        loss.backward()
        assert loss == 0.5 * (numbers[1] ** 2 + numbers[2] ** 2) + 5
        assert x.grad.tolist() == [0.0, *numbers[1:]]


@koan(
    claims=["B-3-18", "B-3-20"],
    see="torch.no_grad",
    hint=[
        "no_grad is about operations on tensors that require grad: are they noted down?",
        "Which of the three tensors is the result of an operation on w? And which operations does "
        "backward still need to note down?",
    ],
    why="no_grad stops the recording of operations, and that is all. A leaf you ask for keeps its "
    "flag, so a model built inside can be trained. And walking back along a graph that was "
    "recorded before needs no recording.",
    wrong={
        ("[]", "[2.0, 2.0]"): (
            "Some say that whatever is made in the block does not require grad. That holds for "
            "results of operations. What if you ask for the flag?"
        ),
        ("['layer']", "[2.0, 2.0]"): "A factory that is told requires_grad=True is as good as a "
        "Parameter.",
        ("['factory', 'layer']", "None"): (
            "Some say no gradient can be computed in here. This graph was there before the block."
        ),
        ("['result', 'factory', 'layer']", "[2.0, 2.0]"): "The block stops the recording of w * 2.",
    },
    at={
        "for name, t in made.items()": (
            "This line asks for the flags. For each of the three: how was it made, and what "
            "exactly does the block stop?"
        ),
        "w.grad.tolist()": (
            "The names are right. When was the graph of `loss` made? And how steep is w * w?"
        ),
    },
)
def test_inside_the_quiet_block():
    """Three tensors are made in a no_grad block. Which of them require grad?

    Then: what does backward leave in w.grad, when it is called in there?
    """
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    with torch.no_grad():
        made = {
            "result": w * 2,
            "factory": torch.ones(2, requires_grad=True),
            "layer": nn.Linear(2, 2).weight,
        }
        loss.backward()
    assert [name for name, t in made.items() if t.requires_grad] == answer(["factory", "layer"])
    assert w.grad.tolist() == answer([2.0, 2.0])


@koan(
    claims=["B-3-24"],
    see="torch.inference_mode",
    hint=[
        "no_grad and enable_grad set one and the same switch. Who sets it last?",
        "inference_mode sets the switch for recording too, and does something else besides.",
    ],
    why="The innermost word counts, so recording can be switched on again inside no_grad, also "
    "inside a decorated function. inference_mode (since 1.9) is no such switch alone: what is made "
    "in it is an inference tensor, and nothing in there brings the recording back.",
    wrong={
        "['enable_grad/True', 'no_grad/True', 'inference_mode/True']": (
            "If all three were one switch, then yes. One of them is stricter."
        ),
        "['enable_grad/True', 'enable_grad/False']": (
            "The decorator is the outer one. What is said inside comes later."
        ),
        "['enable_grad/True']": "So no_grad could never be lifted. But it is only a switch.",
        "[]": "In one of the six cases both modes ask for recording.",
    },
)
def test_a_mode_inside_a_mode():
    """A function is decorated with a mode, and sets another one inside.

    In which of the six cases is the product recorded?
    """
    w = torch.ones(2, requires_grad=True)
    recorded = []
    for outer in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        for inner in (True, False):

            @outer()
            def product(inner=inner):
                with torch.set_grad_enabled(inner):
                    return w * 2

            if product().requires_grad:
                recorded.append(f"{outer.__name__}/{inner}")
    assert recorded == answer(["enable_grad/True", "no_grad/True"])


@koan(
    claims=["B-3-21", "B-3-25"],
    see="torch.Tensor.is_inference",
    hint=[
        "After a no_grad block: is there anything about `made` that differs from other tensors?",
        "An inference tensor has no version counter. Who needs that counter?",
        "Does an addition save its inputs for backward? Does a product?",
    ],
    why="What no_grad makes is an ordinary leaf. An inference tensor has no version counter: it "
    "may not be saved, written or switched on outside the mode. An addition saves nothing, so it "
    "may take part there.",
    wrong={
        ("['requires_grad_']", "['mul', 'zero_', 'requires_grad_']"): (
            "Some say that a tensor from a no_grad block can never be switched on. It is a leaf "
            "without the flag, like any tensor of data."
        ),
        ("[]", "['add', 'mul', 'zero_', 'requires_grad_']"): (
            "One of these four needs neither a saved tensor nor a version."
        ),
        ("[]", "[]"): "Then the two modes would be one. Inference tensors stay marked.",
        (
            "[]",
            "['zero_', 'requires_grad_']",
        ): "One of the two results needs the other factor in backward.",
        ("[]", "['mul', 'requires_grad_']"): "A write that nobody counts is what PyTorch is afraid "
        "of.",
    },
    at={
        'refused["no_grad"] ==': (
            "This line is about the no_grad block. When it is over, is there anything about "
            "`made` that differs from other tensors?"
        ),
        'refused["inference_mode"] ==': (
            "no_grad is right. An inference tensor has no version counter. Which of the four uses "
            "needs one?"
        ),
    },
)
def test_what_is_refused_afterwards():
    """`made` is computed in a mode, and used after it in four ways. Which does PyTorch refuse?

    First answer for no_grad, then for inference_mode.
    """
    w = torch.ones(2, requires_grad=True)
    refused = {"no_grad": [], "inference_mode": []}
    for mode in refused:
        with getattr(torch, mode)():
            made = w * 3
        for use, *inputs in [("add", w), ("mul", w), ("zero_",), ("requires_grad_",)]:
            try:
                getattr(made, use)(*inputs)
            except RuntimeError:
                refused[mode].append(use)
    assert refused["no_grad"] == answer([])
    assert refused["inference_mode"] == answer(["mul", "zero_", "requires_grad_"])


@koan(
    claims=["B-1-11"],
    see="torch.no_grad",
    hint=[
        "detach() comes after the net has run. What has been kept by then?",
        "Two modes keep nothing. The results of one of them are marked for good.",
    ],
    why="net(x).detach() records everything first, and throws it away. no_grad records nothing, "
    "and its results are ordinary tensors. inference_mode goes further: 'Inference tensors "
    "cannot be saved for backward', unless you clone() them outside the mode.",
    wrong={
        "net.eval()\nreturn net(x)": "eval() changes what layers like Dropout do. The graph is "
        "recorded all the same.",
        "return net(x).detach()": "The numbers are the same. But by then the net's graph was "
        "built, and tensors were kept for it.",
        "with torch.inference_mode():\n    return net(x)": "Nothing is kept. But multiply the "
        "result by w afterwards.",
        "with torch.inference_mode():\n    made = net(x)\nreturn made.detach()": "detach() of an "
        "inference tensor is one again.",
        "with torch.inference_mode():\n    return net(x).clone()": "The place of the copy matters: "
        "made inside the mode, it is marked as well.",
        "net.requires_grad_(False)\nreturn net(x)": "Nothing is kept. And the net is not trained "
        "any more, since its flags stay off.",
    },
    right=[
        "with torch.set_grad_enabled(False):\n    return net(x)",
        "with torch.inference_mode():\n    made = net(x)\nreturn made.clone()",
        "return torch.no_grad()(net)(x)",
    ],
    at={
        "net[0].weight.grad": (
            "The results are right. But the net has got a gradient from the training step, which "
            "should end at the features."
        ),
        "len(kept) == 0": (
            "While `features` ran, operations kept tensors for a backward. Did anybody tell them "
            "beforehand that none will come?"
        ),
        "torch.allclose(made, net(x))": (
            "Nothing was kept. Now the result itself: it should hold the numbers that the net "
            "gives for x."
        ),
        "(w * made)": (
            "Nothing was kept, and the numbers are right. But the training step fails: may "
            "`made` be used in it, and is recording on again?"
        ),
        "net(x).requires_grad": (
            "All before this is right. But the net no longer records afterwards: something stayed "
            "switched off."
        ),
    },
)
def test_features_for_later():
    """Write `features`: run the net, and keep nothing for backward on the way.

    The result goes into a training step afterwards, and the net is trained later, too.
    """

    def features(net, x):
        # answer:
        with torch.no_grad():
            return net(x)
        # end

    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    w = torch.ones(3, requires_grad=True)
    kept = []
    for x in (torch.ones(1, 2), torch.rand(4, 2)):
        with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            made = features(net, x)
        assert len(kept) == 0
        assert torch.allclose(made, net(x))
        (w * made).sum().backward()
    assert net[0].weight.grad is None
    assert net(x).requires_grad


@koan(
    see="torch.argmax",
    hint=[
        "hard has the numbers, soft has the gradient. You want both in one tensor.",
        "hard + (something that is zero as a number, and not zero for autograd).",
        "soft - soft is zero for both. Which of the two must be a constant?",
    ],
    why="soft - soft.detach() is 0, and its gradient is soft's. argmax gives a place, and a place "
    "has no slope; neither .float() nor requires_grad_() brings back what it cut.",
    wrong={
        "return hard.requires_grad_()": "No error any more. But it is a new leaf, and the scores "
        "learn nothing.",
        "return soft": "The gradient is right. But this is no choice: every price gets its share.",
        "return hard + soft - soft": "Zero as a number, and zero as a gradient as well.",
        "return hard * soft": "The chosen number is not 1, and the others get no gradient.",
        "return hard - soft + soft.detach()": "Right numbers. Which way does the gradient point?",
        "return soft + (hard - soft)": "Nothing is held constant, so soft cancels out.",
    },
    right=[
        "return hard - soft.detach() + soft",
        "return soft + (hard - soft).detach()",
        "return (hard - soft).detach() + soft",
    ],
    at={
        "torch.allclose(choice": (
            "This line looks at the numbers alone: what comes back should have those of `hard`."
        ),
        "(choice * prices)": (
            "The numbers are right. But no gradient finds a way from your result back to the "
            "scores."
        ),
        "torch.allclose(mine, soft)": (
            "The numbers are right, and a gradient arrives. But it is not soft's: what counts as "
            "a constant in your line?"
        ),
    },
)
def test_a_hard_choice_with_a_soft_gradient():
    """`hard` is 1 at the largest score and 0 elsewhere, but argmax let the gradient go.

    Write what `choose` returns: the numbers of `hard`, with the gradient of `soft`.
    """

    def choose(scores):
        soft = scores.softmax(dim=0)
        hard = F.one_hot(scores.argmax(), len(scores)).float()
        assert not hard.requires_grad
        # answer:
        return hard + soft - soft.detach()
        # end

    prices = torch.tensor([1.0, 10.0, 100.0])
    for numbers in ([0.0, 2.0, 1.0], [3.0, -1.0, 0.5]):
        scores = torch.tensor(numbers, requires_grad=True)
        choice = choose(scores)
        assert torch.allclose(choice, (scores == scores.max()).float(), atol=1e-6)
        (mine,) = torch.autograd.grad((choice * prices).sum(), scores)
        (soft,) = torch.autograd.grad((scores.softmax(dim=0) * prices).sum(), scores)
        assert torch.allclose(mine, soft)
