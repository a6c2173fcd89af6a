"""Optimizers: what one holds, what one step does, and what it remembers.

Documents: A 2.2, A 3.5, B 1
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    claims=["A-2.2-02", "A-2.2-24"],
    see="torch.no_grad",
    hint=[
        "What does a step need? A slope, and somebody who writes.",
        "Here the slope is (w * x - y) * x. Walk through both rounds with a pencil.",
    ],
    why=(
        "A tensor that requires grad, backward, and a write under no_grad: that trains. Module, "
        "DataLoader and Optimizer are conveniences around it, very good ones. (The second step "
        "goes beyond 3, the slope of the data. Many smaller steps would end there.)"
    ),
    wrong={
        "0.0": (
            "Some say that five tools are indispensable, so that nothing trains without an "
            "optimizer or a module. Who stops you from writing into w?"
        ),
        "3.0": (
            "With w = 3 both losses would be zero. But two steps of this length do not end there."
        ),
        "7.5": "The second round starts at the new w, and its loss is built from it.",
        "6.0": "Is the gradient of the first round still there in the second one?",
    },
)
def test_training_with_tensors_only():
    """Some say that Tensor, Module, Function, DataLoader and Optimizer are all indispensable.

    Four of them are missing here. Predict w.
    """
    w = torch.zeros((), requires_grad=True)
    for x, y in ((1.0, 3.0), (2.0, 6.0)):
        loss = (w * x - y) ** 2 / 2
        loss.backward()
        with torch.no_grad():
            w -= 0.5 * w.grad
        w.grad = None
    assert w.item() == answer(4.5)


@koan(
    claims=["B-1-03"],
    see="torch.optim.Optimizer",
    hint=[
        "torch.nn knows about structure, torch.optim about updates. Do they know each other?",
        "An optimizer makes a list of what it is given, and looks at each entry. What are these?",
    ],
    why=(
        "An optimizer never sees a model or a loss. It wants tensors, and you get them with "
        "model.parameters(). What it is given here is a list of layers, and a layer has the wrong "
        "type."
    ),
    wrong={
        "AttributeError": (
            "Some expect it to look for parameters() by itself. It does not know what a module is."
        ),
        "ValueError": "An empty list would be refused so. This one is not empty.",
        "RuntimeError": "Nothing is computed yet. The very first look at the argument fails.",
    },
)
def test_the_whole_model():
    """Give the model itself to an optimizer. Which exception does it raise?"""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with pytest.raises(Exception) as caught:
        torch.optim.SGD(model, lr=0.1)
    assert caught.type is answer(TypeError)


@pytest.mark.tour(20)
@koan(
    claims=["A-2.2-22", "A-3.5-09"],
    see="torch.optim.SGD",
    hint=[
        "The same sum both times: lr times the gradient is half. Where do you end?",
        "`_version` counts the writes into a tensor. One way of writing is hidden from it.",
    ],
    why=(
        "The arithmetic is the same, the way is not. step() writes into the parameter itself, "
        "under no_grad: not recorded, but counted. So a backward that still needs the old weight "
        "stops with an error. A write through .data is not counted, and would give a wrong "
        "gradient in silence."
    ),
    wrong={
        "[[0.5, 0], [0.0, 0]]": (
            "Some say step() runs p.data.add_(p.grad, alpha=-lr). It has the right numbers, but "
            "then autograd could not notice."
        ),
        "[[0.5, 1], [0.0, 2]]": "Both are writes. But one of them takes the door behind the house.",
        "[[0.5, 0], [0.0, 1]]": "The other way round: which of the two wants to be noticed?",
        "[[0.5, 1], [0.5, 1]]": "That the write is not counted does not keep it from being done.",
    },
)
def test_one_step_two_ways():
    """The same step twice: by the optimizer, then by hand through .data.

    Predict the weight and its counter of writes, after each.
    """
    weight = nn.Parameter(torch.ones(()))
    weight.grad = torch.tensor(2.0)
    optimizer = torch.optim.SGD([weight], lr=0.25)
    optimizer.step()
    seen = [[weight.item(), weight._version]]
    weight.data.add_(weight.grad, alpha=-0.25)
    seen.append([weight.item(), weight._version])
    assert seen == answer([[0.5, 1], [0.0, 1]])


@koan(
    claims=["A-2.2-21"],
    see="torch.optim.Optimizer.add_param_group",
    hint=[
        "Where does step() read the learning rate? Print optimizer.param_groups.",
        "The defaults are for groups that are made. This group was made long ago.",
        "Python lets you set any attribute. Does anybody read this one?",
    ],
    why=(
        "param_groups is a list of dicts. Each holds its parameters and all options, and step() "
        "reads there, every time: this is what schedulers write to. defaults only fill in what a "
        "new group leaves out. And optimizer.lr is an attribute that you have just invented."
    ),
    wrong={
        "[2.0, 6.0, 14.0]": "Not all three are read. Python accepts attributes that nobody reads.",
        "[1.0, 5.0, 13.0]": "The defaults were copied into the group when it was made.",
        "[1.0, 2.0, 3.0]": (
            "Some say the learning rate is fixed when the optimizer is built. There is one place "
            "where it can be changed."
        ),
        "[2.0, 4.0, 12.0]": "An attribute of your own changes nothing in the group.",
    },
)
def test_three_ways_to_change_the_rate():
    """The gradient is 1. Before each step we set another learning rate, in three places.

    How far has the weight walked after each step?
    """
    weight = nn.Parameter(torch.zeros(()))
    weight.grad = torch.ones(())
    optimizer = torch.optim.SGD([weight], lr=1.0)

    def walked():
        optimizer.step()
        return -weight.item()

    optimizer.lr = 2.0
    first = walked()
    optimizer.defaults["lr"] = 4.0
    second = walked()
    optimizer.param_groups[0]["lr"] = 8.0
    assert [first, second, walked()] == answer([1.0, 2.0, 10.0])


@koan(
    claims=["A-2.2-22"],
    see="torch.optim.SGD",
    hint=[
        "Momentum keeps one buffer for each parameter. Each step shrinks it, and adds a gradient.",
        "The first buffer is the first gradient, whole. The second: half of that, and one more.",
        "The weight moves by lr times the buffer.",
    ],
    why=(
        "buffer = 0.5 * buffer + gradient: 1, then 1.5, then 1.75. PyTorch does not multiply the "
        "new gradient by 1 - momentum, so a steady slope is followed by steps that grow, up to "
        "1 / (1 - momentum) times as long: ten times for the usual 0.9."
    ),
    wrong={
        "[-1.0, -2.0, -3.0]": "That is SGD without momentum. Something is carried over here.",
        "[-0.5, -1.25, -2.125]": (
            "Some say momentum averages: half of the old, half of the new. dampening=0.5 would do "
            "so, after the first step. It is off."
        ),
        "[-1.0, -1.5, -1.75]": "These are the lengths of the steps. Where does the weight stand?",
        "[-1.0, -3.0, -6.0]": "The old buffer is carried over, but not all of it.",
    },
)
def test_three_steps_with_momentum():
    """The gradient stays 1, and so does the learning rate. Momentum is 0.5.

    Predict the weight after each of three steps.
    """
    weight = nn.Parameter(torch.zeros(()))
    weight.grad = torch.ones(())
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    weights = []
    for _ in range(3):
        optimizer.step()
        weights.append(weight.item())
    assert weights == answer([-1.0, -2.5, -4.25])


@koan(
    claims=["A-2.2-23", "A-3.5-19"],
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "Both weights made one step already, and both have momentum.",
        "For one of them there is no gradient. For the other there is one, and it is zero.",
    ],
    why=(
        "A parameter without a gradient is skipped: no momentum, no decay, nothing. A gradient of "
        "zero is a gradient: the momentum carries the weight on, and weight decay would shrink it. "
        "So set_to_none can change what a part of a model does that was not used in a batch."
    ),
    wrong={
        "[-1.0, -1.0]": (
            "Some say no gradient and a zero gradient are the same. Where does the momentum go?"
        ),
        "[-1.5, -1.5]": (
            "Some say step() updates every parameter of its groups. One of them has nothing to "
            "offer."
        ),
        "[-1.5, -1.0]": "The other way round. For which of the two does step() do its sums?",
        "[-1.0, -2.0]": "It was cleared: only the momentum is left, and it shrinks.",
    },
)
def test_nothing_and_zero():
    """Two weights make a step, and keep some momentum of it. Then the gradients are cleared, one
    to None, one to zero, and a second step follows. Predict both weights."""
    weights = []
    for set_to_none in (True, False):
        weight = nn.Parameter(torch.zeros(()))
        optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
        weight.grad = torch.ones(())
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        optimizer.step()
        weights.append(weight.item())
    assert weights == answer([-1.0, -1.5])


@koan(
    claims=["A-2.2-22"],
    see="torch.optim.AdamW",
    hint=[
        "SGD and Adam add weight_decay * weight to the gradient. Then each goes on as always.",
        "What does Adam's very first step do to a gradient, be it large or small?",
        "The W says that the decay goes another way: around the gradient.",
    ],
    why=(
        "SGD: the gradient becomes 0.5 * 4, so the step is 1. AdamW shrinks the weight by "
        "lr * decay, apart from the gradient: 1 as well. In Adam the decay joins the gradient and "
        "is divided by its own size: the step is lr, whatever the decay was. This is what AdamW "
        "was made for."
    ),
    wrong={
        "[3.0, 3.0, 3.0]": (
            "Some say Adam and AdamW are the same thing with weight decay. Adam divides its "
            "gradient by a running size of it."
        ),
        "[4.0, 4.0, 4.0]": "The gradient is zero. The decay is not.",
        "[3.0, 3.5, 3.5]": "In AdamW the decay does not pass through Adam's division.",
        "[4.0, 4.0, 3.0]": "Only AdamW has it in its name, but all three have the option.",
    },
)
def test_weight_decay_three_times():
    """The weight is 4, its gradient 0. Only the decay of 0.5 acts, at a learning rate of 0.5.

    Predict the weight after one step of SGD, of Adam and of AdamW.
    """
    ends = []
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        weight = nn.Parameter(torch.tensor(4.0))
        weight.grad = torch.zeros(())
        kind([weight], lr=0.5, weight_decay=0.5).step()
        ends.append(round(weight.item(), 3))
    assert ends == answer([3.0, 3.5, 3.0])


@koan(
    claims=["A-2.2-21"],
    see="torch.optim.Optimizer.add_param_group",
    hint=[
        "How many weights have these two layers, counted as objects?",
        "Which learning rate should hold for a weight that is in two groups?",
    ],
    why=(
        "A tied weight is one parameter, so it may be in one group only: else it would have two "
        "learning rates. model.parameters() of the whole model lists it once. To sort parameters "
        "into groups, go through named_parameters() of the whole, not through the parts."
    ),
    wrong={
        "TypeError": "Each entry is a fine tensor. It is their number that is wrong.",
        "RuntimeError": "Nothing is computed here. The list itself is refused.",
        "KeyError": "Every option has its name. Look at who is in the groups.",
    },
)
def test_a_weight_in_two_groups():
    """Two layers share their weight, and each layer gets a group of its own.

    Which exception does it raise?
    """
    body, head = nn.Linear(2, 2), nn.Linear(2, 2)
    head.weight = body.weight
    groups = [{"params": body.parameters()}, {"params": head.parameters(), "lr": 1.0}]
    with pytest.raises(Exception) as caught:
        torch.optim.SGD(groups, lr=0.1)
    assert caught.type is answer(ValueError)


@koan(
    claims=["A-2.2-20"],
    see="torch.optim.Optimizer.add_param_group",
    hint=[
        "The new head gets gradients. Does the optimizer hold its parameters?",
        "You cannot build a new optimizer: it would have to start without momentum.",
        "An optimizer can take in more parameters later on.",
    ],
    why=(
        "An optimizer holds the very objects it was given. It does not follow names, so a new "
        "layer in an old place is a stranger: it gets gradients and never moves, without a word. "
        "Change the model first and build the optimizer last, or add the newcomers as a group."
    ),
    wrong={
        "model['head'] = nn.Linear(1, 1, bias=False)\noptimizer.zero_grad()": (
            "Some say the optimizer finds a layer by its name. It holds the old one, and knows no "
            "names."
        ),
        "model['head'] = nn.Linear(1, 1, bias=False)\n"
        "optimizer.add_param_group({'params': model.parameters()})": (
            "The body is already in it, and twice is refused."
        ),
        "model['head'] = nn.Linear(1, 1, bias=False)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)": (
            "The head learns now. But the body has lost its momentum."
        ),
        "model['head'].weight.data = torch.ones(1, 1)": (
            "The old object with other numbers: the optimizer would find it. But a new layer was "
            "asked for."
        ),
        "optimizer.add_param_group({'params': model['head'].parameters()})\n"
        "model['head'] = nn.Linear(1, 1, bias=False)": "This adds the old head, once more.",
    },
    right=[
        "model['head'] = nn.Linear(1, 1, bias=False)\n"
        "optimizer.add_param_group({'params': [model['head'].weight]})",
        "model['head'] = nn.Linear(1, 1, bias=False)\n"
        "optimizer.param_groups[0]['params'].extend(model['head'].parameters())",
    ],
    at={
        "is not old": "The old layer still stands in its place. A new one was asked for.",
        "abs(before": (
            "The head is new. But one step did not move it by lr times its gradient: what does "
            "the optimizer hold, and with which options?"
        ),
        "is momentum": (
            "The new head learns. But the body's momentum is no longer the one it had: what "
            "became of the optimizer that kept it?"
        ),
    },
)
def test_a_new_head():
    """In the middle of the training the model gets a new head, and the head does not learn.

    Repair the marked line. The body must keep its momentum. The old head may stay in the optimizer.
    """
    model = nn.ModuleDict({"body": nn.Linear(1, 1, bias=False)})
    model["head"] = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
    model["head"](model["body"](torch.ones(1, 1))).sum().backward()
    optimizer.step()
    old, body = model["head"], model["body"].weight
    momentum = optimizer.state[body]["momentum_buffer"]
    # answer:
    model["head"] = nn.Linear(1, 1, bias=False)
    optimizer.add_param_group({"params": model["head"].parameters()})
    # given:
    # model["head"] = nn.Linear(1, 1, bias=False)
    # end
    optimizer.zero_grad()
    before = model["head"].weight.item()
    model["head"](torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert model["head"] is not old
    assert abs(before - model["head"].weight.item() - 0.25) < 1e-6
    assert optimizer.state[body]["momentum_buffer"] is momentum


@koan(
    see="torch.optim.Optimizer.load_state_dict",
    hint=[
        "Print old.state_dict(). What stands for a parameter in it: a name, a tensor, a number?",
        "And what else is in it, beside the buffers?",
    ],
    why=(
        "An optimizer knows no names. Its state_dict numbers the parameters in the order of its "
        "groups, so loading goes by place: b stood first, so b got what had been a's. And the "
        "groups come with all their options. The lr that you gave to the constructor is gone."
    ),
    wrong={
        ("[3.0, 7.0]", "0.5"): (
            "Some say each parameter finds its own state again. By what should it be found?"
        ),
        ("[7.0, 3.0]", "0.125"): (
            "Some say the constructor decides about lr, and loading only brings the buffers."
        ),
        ("[3.0, 7.0]", "0.125"): "Compare what the two lists of parameters have in common.",
    },
    at={
        "assert buffers": (
            "These are the buffers of a and of b, after the loading. Print old.state_dict(): by "
            "what does a buffer find its parameter?"
        ),
        'new.param_groups[0]["lr"]': (
            "The buffers are right. Now print old.state_dict(): what does it bring beside the "
            "buffers?"
        ),
    },
)
def test_a_state_for_two_weights():
    """The gradients of a and b are 3 and 7, and the first step puts them into the buffers.

    A new optimizer loads that state. Which buffers have a and b now, and which lr holds?
    """
    a, b = (nn.Parameter(torch.zeros(())) for _ in range(2))
    old = torch.optim.SGD([a, b], lr=0.5, momentum=0.9)
    (3 * a + 7 * b).backward()
    old.step()
    new = torch.optim.SGD([b, a], lr=0.125, momentum=0.9)
    new.load_state_dict(old.state_dict())
    buffers = [new.state[p]["momentum_buffer"].item() for p in (a, b)]
    assert buffers == answer([7.0, 3.0])
    assert new.param_groups[0]["lr"] == answer(0.5)


@koan(
    see="torch.optim.LBFGS",
    hint=[
        "LBFGS tries several points in one step. What must be computed anew at each of them?",
        "To clear, to compute the loss, to go backward: all this goes into the function.",
    ],
    why=(
        "LBFGS calls the closure again and again within one step, each time at another point. So "
        "the closure clears, runs forward and backward, and returns the loss of that point. One "
        "that hands out an old loss makes it search in a picture that does not change."
    ),
    wrong={
        "loss = loss_of(point)\nloss.backward()\nclosure = None": (
            "For most optimizers this is enough. This one insists on a closure."
        ),
        "def closure():\n    return loss_of(point)": (
            "The loss is fresh. But who brings the gradient of the new point?"
        ),
        "def closure():\n"
        "    loss = loss_of(point)\n"
        "    loss.backward()\n"
        "    return loss": "Called again and again, and nobody clears: slopes pile up.",
        "def closure():\n"
        "    optimizer.zero_grad()\n"
        "    loss_of(point).backward()": "LBFGS compares losses. It wants to be told.",
        "for _ in range(2000):\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_of(point)\n"
        "    loss.backward()\n"
        "    with torch.no_grad():\n"
        "        point -= 0.005 * point.grad\n"
        "closure = lambda: loss": (
            "You walked by yourself, and it arrived. But LBFGS was to do the work."
        ),
    },
    right=[
        "def closure():\n"
        "    point.grad = None\n"
        "    loss = loss_of(point)\n"
        "    loss.backward()\n"
        "    return loss",
    ],
    at={
        "(x + 1) ** 4": (
            "The first minimum was found, and this one was not. Does your function use the loss "
            "and the point of this very call?"
        ),
        "optimizer.step(closure)": (
            "LBFGS cannot work with what it gets here: is `closure` a function, and what does it "
            "hand back?"
        ),
        'optimizer.state[point]["func_evals"]': (
            "LBFGS gave up after very few calls. Are the loss and its slope made anew at each call?"
        ),
        "(x - 2) ** 4": (
            "LBFGS asks you often enough, and does not arrive. Does each call bring the slope of "
            "this one point?"
        ),
    },
)
def test_an_optimizer_that_asks_back():
    """LBFGS wants a function, so somebody gave it one. It does not find the minimum.

    Repair the marked lines.
    """

    def solve(loss_of, start):
        point = nn.Parameter(torch.tensor(start))
        optimizer = torch.optim.LBFGS([point], max_iter=30, line_search_fn="strong_wolfe")

        # answer:
        def closure():
            optimizer.zero_grad()
            loss = loss_of(point)
            loss.backward()
            return loss

        # given:
        # loss = loss_of(point)
        # loss.backward()
        # closure = lambda: loss
        # end
        optimizer.step(closure)
        assert optimizer.state[point]["func_evals"] > 3
        return point.item()

    assert abs(solve(lambda x: (x - 2) ** 4 + (x - 2) ** 2, start=5.0) - 2) < 1e-2
    assert abs(solve(lambda x: (x + 1) ** 4 + 3 * (x + 1) ** 2, start=2.0) + 1) < 1e-2


@koan(
    claims=["A-2.2-24"],
    see="torch.Tensor.register_post_accumulate_grad_hook",
    hint=[
        "One kind of hook is called when a parameter's gradient is ready, with the parameter.",
        "In the hook: write, unrecorded; then let the gradient go.",
    ],
    why=(
        "A gradient is complete long before backward ends, so it can be used and freed on the "
        "spot: never are all gradients in memory at once. No step() at all. A real optimizer works "
        "in the hook as well, one for each parameter. But clipping by the norm of all gradients "
        "is no longer possible."
    ),
    wrong={
        "for parameter in model.parameters():\n"
        "    parameter.register_hook(lambda gradient: gradient * lr)": (
            "Some say that parameters change in optimizer.step() only, so they prepare the "
            "gradient for it. Here nobody will call step()."
        ),
        "def update(parameter):\n"
        "    parameter.data -= lr * parameter.grad\n"
        "    parameter.grad = None\n"
        "for parameter in model.parameters():\n"
        "    parameter.register_post_accumulate_grad_hook(update)": (
            "The numbers are right, and the write is not counted: autograd cannot notice it."
        ),
        "def update(parameter):\n"
        "    with torch.no_grad():\n"
        "        parameter -= lr * parameter.grad\n"
        "for parameter in model.parameters():\n"
        "    parameter.register_post_accumulate_grad_hook(update)": (
            "It moves. But the gradients stay in memory, and pile up."
        ),
        "def update(parameter):\n"
        "    parameter = parameter - lr * parameter.grad\n"
        "    parameter.grad = None\n"
        "for parameter in model.parameters():\n"
        "    parameter.register_post_accumulate_grad_hook(update)": (
            "This moves a local name, and nothing in the model."
        ),
        "with torch.no_grad():\n"
        "    for parameter in model.parameters():\n"
        "        parameter -= lr\n"
        "        parameter.grad = None": "This moves at once, before there is any gradient.",
    },
    right=[
        "def update(parameter):\n"
        "    torch.optim.SGD([parameter], lr=lr).step()\n"
        "    parameter.grad = None\n"
        "for parameter in model.parameters():\n"
        "    parameter.register_post_accumulate_grad_hook(update)",
        "optimizers = {p: torch.optim.SGD([p], lr=lr) for p in model.parameters()}\n"
        "def update(parameter):\n"
        "    optimizers[parameter].step()\n"
        "    optimizers[parameter].zero_grad()\n"
        "for parameter in optimizers:\n"
        "    parameter.register_post_accumulate_grad_hook(update)",
    ],
    at={
        "model(torch.tensor([[1.0, 2.0]]))": (
            "This round could not run to its end. The message tells what PyTorch did not like in "
            "what you left there."
        ),
        "model.weight.tolist()": (
            "Two backwards have run. Each should have moved the weight by -lr times its gradient: "
            "print it after each of them."
        ),
        "model.bias.tolist()": (
            "The weight is right, and the bias is not. Is every parameter served, and in the same "
            "way?"
        ),
        "[p.grad for p": (
            "All parameters move as they should. But a gradient is left: who lets it go, and when?"
        ),
        "> writes": (
            "The numbers are right. But the counter of writes did not move: autograd could not "
            "notice what you wrote."
        ),
    },
)
def test_train_without_a_step():
    """Write `learn_in_backward`: from then on, each backward moves every parameter by -lr times
    its gradient, in writes that are counted. No gradient is left when backward returns."""

    def learn_in_backward(model, lr):
        # answer:
        def update(parameter):
            with torch.no_grad():
                parameter -= lr * parameter.grad
            parameter.grad = None

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(update)
        # end

    for lr in (0.5, 0.25):
        model = nn.Linear(2, 1)
        for parameter in model.parameters():
            nn.init.ones_(parameter)
        learn_in_backward(model, lr)
        writes = model.weight._version
        for _ in range(2):
            model(torch.tensor([[1.0, 2.0]])).sum().backward()
        assert model.weight.tolist() == [[1 - 2 * lr, 1 - 4 * lr]]
        assert model.bias.tolist() == [1 - 2 * lr]
        assert [p.grad for p in model.parameters()] == [None, None]
        assert model.weight._version > writes


@koan(
    claims=["A-2.2-20", "A-2.2-21", "A-2.2-22", "A-2.2-23", "A-3.5-19"],
    see="torch.optim.Optimizer",
    hint=[
        "Two loops: over the groups, and over the parameters of each. Options are the group's.",
        "Whoever has no gradient is skipped.",
        "self.state[parameter] is a dict of its own for each parameter, empty at first.",
        "The buffer starts as a copy of the first gradient. The weight moves by lr times it.",
    ],
    why=(
        "This is the heart of torch.optim.SGD. The base class does the rest: groups and defaults, "
        "zero_grad, state_dict. state_dict finds what lies in self.state, so keep your memory "
        "there. The write is unrecorded but counted, so autograd can protect old graphs."
    ),
    wrong={
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        if p.grad is not None:\n"
        "            p.add_(p.grad, alpha=-group['lr'])": "Without memory there is no momentum.",
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        if p.grad is not None:\n"
        "            memory = self.state[p]\n"
        "            memory['v'] = group['momentum'] * memory.get('v', 0) + p.grad\n"
        "            p.add_(memory['v'], alpha=-self.defaults['lr'])": (
            "One of the groups has a learning rate of its own."
        ),
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        memory = self.state[p]\n"
        "        memory['v'] = group['momentum'] * memory.get('v', 0) + p.grad\n"
        "        p.add_(memory['v'], alpha=-group['lr'])": "Not everybody has a gradient.",
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        memory = self.state[p]\n"
        "        if p.grad is not None:\n"
        "            memory['v'] = group['momentum'] * memory.get('v', 0) + p.grad\n"
        "            p.add_(memory['v'], alpha=-group['lr'])": (
            "It walks well. But a look into self.state makes an entry, even for a weight that is "
            "skipped."
        ),
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        if p.grad is not None:\n"
        "            memory = self.state[p]\n"
        "            memory['v'] = group['momentum'] * memory.get('v', 0) + p.grad\n"
        "            p.data.add_(memory['v'], alpha=-group['lr'])": (
            "The numbers are right, and autograd cannot notice the write."
        ),
        "memory = self.__dict__.setdefault('memory', {})\n"
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        if p.grad is not None:\n"
        "            memory[p] = group['momentum'] * memory.get(p, 0) + p.grad\n"
        "            p.add_(memory[p], alpha=-group['lr'])": (
            "It walks well. But state_dict() does not find this memory, so it is never saved."
        ),
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        if p.grad is not None:\n"
        "            memory = self.state[p]\n"
        "            new = (1 - group['momentum']) * p.grad\n"
        "            memory['v'] = group['momentum'] * memory.get('v', 0) + new\n"
        "            p.add_(memory['v'], alpha=-group['lr'])": (
            "That is an average, as in Adam. Here the new gradient counts in full."
        ),
    },
    right=[
        "for group in self.param_groups:\n"
        "    for p in group['params']:\n"
        "        if p.grad is None:\n"
        "            continue\n"
        "        if 'v' in self.state[p]:\n"
        "            self.state[p]['v'].mul_(group['momentum']).add_(p.grad)\n"
        "        else:\n"
        "            self.state[p]['v'] = p.grad.clone()\n"
        "        p -= group['lr'] * self.state[p]['v']",
    ],
    at={
        "[p.item() for p in ours]": (
            "This compares your three weights with those of SGD, after three steps. Print both: "
            "is it a, b or idle that differs?"
        ),
        "p._version > 0 for p in ours": (
            "The weights are right. But the counters differ from SGD's: is a write hidden, or was "
            "a weight written that should be left alone?"
        ),
        "map(len, our_state.values())": (
            "Weights and counters are right. But state_dict() finds something else than in SGD: "
            "print both. Who has an entry?"
        ),
    },
)
def test_write_an_optimizer():
    """Write the step of SGD with momentum. It must walk as torch.optim.SGD does: same groups, same
    skips, its memory where state_dict() finds it, its writes where autograd can see them."""

    class Momentum(torch.optim.Optimizer):
        def __init__(self, groups, lr, momentum):
            super().__init__(groups, {"lr": lr, "momentum": momentum})

        @torch.no_grad()
        def step(self):
            # answer:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        memory = self.state[p]
                        memory["v"] = group["momentum"] * memory.get("v", 0) + p.grad
                        p.add_(memory["v"], alpha=-group["lr"])
            # end

    runs = []
    for kind in (Momentum, torch.optim.SGD):
        a, b, idle = weights = [nn.Parameter(torch.ones(())) for _ in range(3)]
        groups = [{"params": [a, idle]}, {"params": [b], "lr": 0.5}]
        optimizer = kind(groups, lr=0.25, momentum=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            (a * b).backward()
            optimizer.step()
        runs.append((weights, optimizer.state_dict()["state"]))
    (ours, our_state), (theirs, their_state) = runs
    assert [p.item() for p in ours] == [p.item() for p in theirs]
    assert [p._version > 0 for p in ours] == [p._version > 0 for p in theirs]
    assert [*map(len, our_state.values())] == [*map(len, their_state.values())]
