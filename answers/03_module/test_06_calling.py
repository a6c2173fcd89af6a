"""Calling: what layer(x) does around forward, and what a layer is made of.

Documents: B 1, B 3, B 5
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    see="torch.nn.Module.forward",
    hint=[
        "layer(x) looks for a method forward. Neither class has one of its own. And the parents?",
        "For the exception: the forward of nn.Module itself knows nothing of your layer, so it can "
        "do only one thing. It is meant for those who forgot to write one.",
        "For the number: what does the forward of nn.Identity do?",
    ],
    why="layer(x) is Module.__call__, and it calls forward. Nobody wrote one here, so the "
    "inherited forward ran: that of nn.Module raises NotImplementedError and names your class. "
    "That of a ready-made layer just works, and the slip stays hidden.",
    wrong={
        ("AttributeError", "3.0"): "The method is found: nn.Module itself has a forward. "
        "What can it do, knowing nothing of your layer?",
        ("TypeError", "3.0"): "The object can be called, and with one argument: nn.Module sees to "
        "that.",
        ("RuntimeError", "3.0"): "Near: what is raised is a subclass of it, with a more telling "
        "name.",
        ("NotImplementedError", "6.0"): "Nobody calls a method of that name. Read it once more.",
        ("AttributeError", "6.0"): "Read the names of both methods letter by letter.",
    },
    at={
        "caught.type is": (
            "This line asks for the exception of the first layer. Which forward is found there, "
            "and what can it do, knowing nothing of the layer?"
        ),
        "Twice()(": (
            "The exception is right. This layer has another parent: what does the forward that it"
            " inherits do with its input?"
        ),
    },
)
def test_a_slip_of_the_pen():
    """The same slip in two layers. Read them letter by letter, then call them.

    The first raises an exception: which one? The second gives a number.
    """

    class Double(nn.Module):
        def foward(self, x):
            return 2 * x

    class Twice(nn.Identity):
        def foward(self, x):
            return 2 * x

    with pytest.raises(Exception) as caught:
        Double()(torch.tensor(3.0))
    assert caught.type is answer(NotImplementedError)
    assert Twice()(torch.tensor(3.0)).item() == answer(3.0)


@koan(
    claims=["B-1-09"],
    see="torch.nn.Module.register_forward_hook",
    hint=[
        "layer(x) runs two things one after the other: forward, then the hooks. Who starts them?",
        "A container calls what it contains, as you would.",
    ],
    why="Module.__call__ runs the hooks around forward. Who calls forward directly gets the same "
    "numbers, and no hook of this layer runs: no feature is kept, and no error tells you.",
    wrong={
        "['call', 'forward', '__call__', 'Sequential']": "Some say layer.forward(x) is the same "
        "call, only more explicit. It is the inner part of the call, without what is around it.",
        "['call', '__call__']": "A Sequential calls its layers with parentheses, like you.",
        "['forward']": "A forward hook is named after WHEN it runs: after forward. "
        "Who runs it is another question.",
        "[]": "A registered hook is on duty until somebody removes it.",
    },
)
def test_who_wakes_the_hook():
    """A forward hook notes each call that it sees. We run one layer in four ways.

    All four give the same numbers. Which ones did the hook see?
    """
    layer = nn.Linear(2, 2)
    container = nn.Sequential(layer)
    ways = {"call": layer, "forward": layer.forward, "__call__": layer.__call__}
    ways["Sequential"] = container
    seen = []
    layer.register_forward_hook(lambda module, args, output: seen.append(way))
    for way in ways:
        ways[way](torch.ones(1, 2))
    assert seen == answer(["call", "__call__", "Sequential"])


@koan(
    see="torch.nn.Module.register_forward_pre_hook",
    hint=[
        "A hook that returns something puts it in the place of what it was shown.",
        "Pre-hook, forward, hook: write down x and the output after each step.",
    ],
    why="The pre-hook turned 3 into 4, forward made 8 of it, and the hook saw args (4,) and output "
    "8: it gave 32. The order of registration does not matter between the two kinds.",
    wrong={
        "24.0": "The hook's args are what forward really received, not what the caller gave.",
        "6.0": "Hooks can do more than look. What becomes of the value they return?",
        "8.0": "Only the first hook was obeyed. The other one returns a value as well.",
        "19.0": "The order in which you register a pre-hook and a hook is not their running order.",
    },
)
def test_before_and_after_forward():
    """Two hooks that return something. Predict what the caller gets."""

    class Double(nn.Module):
        def forward(self, x):
            return 2 * x

    layer = Double()
    layer.register_forward_hook(lambda module, args, output: output * args[0])
    layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    assert layer(torch.tensor(3.0)).item() == answer(32.0)


@koan(
    see="torch.nn.Module.register_forward_hook",
    hint=[
        "If a gradient is missing: what becomes of the value that a hook returns?",
        "If the feature is old: what does your hook do when it comes a second time?",
        "If it requires a gradient: what is kept must be free of the graph.",
    ],
    why="setdefault returned the detached tensor, so it became the layer's output, and the first "
    "layer got no gradient. At the second call it even returned the first batch's. "
    "A hook that only looks returns None: write it as a function.",
    wrong={
        "model[0].register_forward_hook("
        "lambda module, args, output: seen.setdefault('first', output))": "Now the gradient "
        "flows, but what you keep holds the graph, and with it the memory of a whole step.",
        "def look(module, args, output):\n    seen['first'] = output\n"
        "model[0].register_forward_hook(look)": "It returns nothing, good. "
        "But what is kept must be detached.",
        "def look(module, args, output):\n    seen.setdefault('first', output.detach())\n"
        "model[0].register_forward_hook(look)": "It returns nothing, good. "
        "But setdefault keeps the first batch forever.",
        "def look(module, args, output):\n    seen['first'] = output.detach()\n"
        "    return seen['first']\n"
        "model[0].register_forward_hook(look)": "What a hook returns replaces the output.",
        "seen['first'] = model[0](torch.ones(4, 2)).detach()": "That is one batch, and there are "
        "others to come. The hook must go on looking.",
        "model[0].register_forward_pre_hook("
        "lambda module, args: seen.__setitem__('first', args[0].detach()))": "A pre-hook sees "
        "what goes into the layer, not what comes out.",
    },
    right=[
        "model[0].register_forward_hook("
        "lambda module, args, output: seen.update(first=output.detach()))",
        "def look(module, args, output):\n    seen['first'] = output.detach().clone()\n"
        "model[0].register_forward_hook(look)",
    ],
    at={
        "model[0].weight.grad": (
            "All values are right. But the first layer got no gradient: with which tensor did the "
            "model go on after your hook?"
        ),
        "torch.allclose(model[1]": (
            "What was kept is right. But the model went on with something else: what does your "
            "hook return, or change?"
        ),
        "out = model(x)": (
            "The call fails in your hook, or just after it. Which arguments does a hook get, and "
            "what does yours return?"
        ),
        "nn.functional.linear(x": (
            "This line wants the first layer's output of the latest call. What is in "
            'seen["first"] after the first batch, and after the second?'
        ),
        'seen["first"].requires_grad': (
            "The values are right. But what is kept still requires a gradient, so it holds the "
            "graph."
        ),
    },
)
def test_a_hook_that_only_wants_to_look():
    """The hook keeps the first layer's output, detached. Since then that layer learns nothing.

    Repair the hook: it must keep the output of the latest call, and leave the training alone.
    """
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    seen = {}

    # answer:
    def look(module, args, output):
        seen["first"] = output.detach()

    model[0].register_forward_hook(look)
    # given:
    # model[0].register_forward_hook(
    #     lambda module, args, output: seen.setdefault("first", output.detach())
    # )
    # end
    for batch in (4, 3):
        x = torch.randn(batch, 2)
        model.zero_grad()
        out = model(x)
        out.sum().backward()
        assert torch.equal(seen["first"], nn.functional.linear(x, model[0].weight, model[0].bias))
        assert torch.allclose(model[1](seen["first"]), out)
        assert not seen["first"].requires_grad
        assert model[0].weight.grad is not None


@koan(
    see="torch.func.functional_call",
    hint=[
        "What is lent to a layer for one call: does it stay for the next?",
        "The values are matched by name. Which names does this layer know, and what does it use "
        "where nothing is lent?",
    ],
    why="functional_call runs the whole call, hooks too, with other tensors in the parameters' "
    "places, then puts the old ones back. A name it does not know is silently of no effect, unless "
    "you say strict=True. Gradients go to the tensors that you lent.",
    wrong={
        "[5.0, 5.0, 5.0]": "It is not load_state_dict: what you lend is taken back after the call.",
        "[5.0, 5.0, 2.0]": "The second dict has a name that the layer does not have.",
        "[2.0, 2.0, 2.0]": "A layer reads its parameters when it runs, so they can be exchanged.",
        "[5.0, 0.0, 2.0]": "No parameter is missing in the second call: the layer has its own.",
    },
)
def test_a_layer_with_a_borrowed_weight():
    """The layer's weight is 2. functional_call runs it with a weight of 5, given by name.

    Somebody misspelt the second name. Predict the three outputs.
    """
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    five, x = torch.tensor([[5.0]]), torch.ones(1, 1)
    first = torch.func.functional_call(layer, {"weight": five}, x)
    second = torch.func.functional_call(layer, {"wieght": five}, x)
    assert [first.item(), second.item(), layer(x).item()] == answer([5.0, 2.0, 2.0])


@koan(
    see="torch.nn.Module.extra_repr",
    hint=[
        "print(nn.Linear(2, 3)) shows in_features=2 and more. Where does that text stand?",
        "When is it asked for: when the layer is built, or when it is printed?",
    ],
    why="repr(layer) asks extra_repr() each time and puts its text between the parentheses. A "
    "method of a layer can read self.training, in forward as well.",
    wrong={
        "'Noise()'": "A layer may say something about itself. That is what this method is for.",
        "'training=False'": "It is an EXTRA: the class still gives its own name.",
        "'Noise(training=True)'": "So it was when the layer was built. And when it is printed?",
        "'Noise(\\n  training=False\\n)'": "Lines of their own are for child modules. "
        "A short text stays on the line.",
    },
)
def test_a_layer_that_introduces_itself():
    """repr is what print shows. Predict the whole text, a string."""

    class Noise(nn.Module):
        def extra_repr(self):
            return f"training={self.training}"

    layer = Noise()
    layer.eval()
    assert repr(layer) == answer("Noise(training=False)")


@koan(
    claims=["B-3-03"],
    see="torch.autograd.Function",
    hint=[
        "A Function is for operations written in Python. What does each layer's forward call?",
        "inspect.getsource(type(layer).forward) shows it, for those written in Python.",
    ],
    why="A module holds tensors and calls ordinary operations, whose nodes are C++. Only a few "
    "modules use a Function written in Python: SyncBatchNorm, and CrossMapLRN2d, an old one. "
    "They do not wrap an instance of it either: forward calls its apply.",
    wrong={
        "['Conv2d', 'BatchNorm2d', 'GELU', 'CrossMapLRN2d']": "Some say each module wraps a "
        "Function of its own. Most have none: they call C++ operations.",
        "['Conv2d', 'BatchNorm2d']": "A layer that learns needs Parameters, not a Function. "
        "Its operations know their own derivatives.",
        "[]": "Nearly. One of the four still does it in Python.",
        "['GELU']": "GELU is one C++ operation, like most activations.",
    },
)
def test_which_layers_wrap_a_function():
    """Some say each module wraps an autograd.Function of its own, which holds its backward.

    The node of a Function written in Python is a BackwardCFunction. Which of these four layers
    leave one? Name them in this order.
    """
    x = torch.ones(2, 3, 4, 4, requires_grad=True)
    layers = [nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.GELU(), nn.CrossMapLRN2d(2)]
    nodes = {type(layer).__name__: layer(x).grad_fn for layer in layers}
    written = torch.autograd.function.BackwardCFunction
    assert [n for n in nodes if isinstance(nodes[n], written)] == answer(["CrossMapLRN2d"])


@koan(
    claims=["B-1-06"],
    see="torch.nn.Upsample",
    hint=[
        "Who would call this method? Autograd walks over nodes, and a node belongs to an "
        "operation.",
        "How many pixels of the output were copied from each pixel of x? Each brings a 1 back.",
    ],
    why="nn.Module knows no backward; autograd never calls a method of that name. Each pixel was "
    "copied "
    "into a 2 by 2 square, so four ones come back to it. To change the gradient, wrap the "
    "operation in a torch.autograd.Function.",
    wrong={
        "[0.0, 0.0]": "Some say Upsample has a backward that you can rewrite. It has none, "
        "and nobody calls yours: autograd follows the operation that forward used.",
        "[1.0, 1.0]": "Each pixel of x shows up more than once in the output.",
        "[2.0, 2.0]": "The picture grows in height and in width.",
        "[0.25, 0.25]": "The copies are not averaged: a sum gives 1 to each of them.",
    },
)
def test_a_layer_with_its_own_backward():
    """Upsample makes a picture larger. Some say you can rewrite its backward by hand.

    Here somebody did. Predict the gradient of the two pixels.
    """

    class Silent(nn.Upsample):
        def backward(self, grad):
            return grad * 0

    x = torch.ones(1, 1, 1, 2, requires_grad=True)
    Silent(scale_factor=2)(x).sum().backward()
    assert x.grad.flatten().tolist() == answer([4.0, 4.0])


@koan(
    claims=["B-5-28"],
    see="torch.nn.ConvTranspose2d",
    hint=[
        "For the counts: what is there to learn in order to copy pixels? The other has weights "
        "for each pair of channels, and one bias for each channel that comes out.",
        "For the shape: it turns a convolution round, so whose layout does its weight have?",
    ],
    why="3*5*2*2 weights and 5 biases, where Upsample has nothing to learn. The weight begins with "
    "the channels that go IN: it is laid out like the Conv2d(5, 3, 2) which it turns round.",
    wrong={
        ("[0, 65]", "(5, 3, 2, 2)"): "So it is for Conv2d. This one is its transpose.",
        ("[0, 60]", "(3, 5, 2, 2)"): "By default there is a bias as well.",
        ("[0, 63]", "(3, 5, 2, 2)"): "A bias belongs to the channels that come out.",
        ("[1, 65]", "(3, 5, 2, 2)"): "The scale factor is a plain number. Nothing trains it.",
        ("[0, 0]", "(3, 5, 2, 2)"): "Both make pictures larger, but one of them learns how.",
    },
    right=[("[0, 65]", "torch.Size([3, 5, 2, 2])")],
    at={
        "assert counts ==": (
            "This line counts what each layer can learn. Is there anything to learn in copying "
            "pixels? And the other: which weights, and how many biases?"
        ),
        "learn.weight.shape": (
            "Both counts are right. Now the order of the four numbers: this layer turns a "
            "convolution round. Which one, and how is that laid out?"
        ),
    },
)
def test_two_ways_to_grow_a_picture():
    """Both double the height and the width. How many numbers can each learn?

    And what is the shape of the second one's weight?
    """
    copy = nn.Upsample(scale_factor=2)
    learn = nn.ConvTranspose2d(3, 5, kernel_size=2, stride=2)
    counts = [sum(p.numel() for p in layer.parameters()) for layer in (copy, learn)]
    assert counts == answer([0, 65])
    assert learn.weight.shape == answer((3, 5, 2, 2))


@koan(
    claims=["B-3-12", "A-2.2-10"],
    see="torch.autograd.Function",
    hint=[
        "What does an optimizer need: a module, or the things it should change?",
        "backward only leaves a gradient on a leaf that asked for one.",
    ],
    why="A leaf and a list are enough for an optimizer. What a Module adds is bookkeeping: "
    "parameters(), state_dict(), .to(), train and eval, hooks.",
    wrong={
        "w = torch.zeros(2, requires_grad=True)\n"
        "optimizer = torch.optim.SGD(nn.Module().parameters(), lr=0.1)": "Some believe that an "
        "optimizer needs a Module. An empty one gives it nothing to change, and it says so.",
        "w = torch.zeros(2)\noptimizer = torch.optim.SGD([w], lr=0.1)": "Nothing here asks for a "
        "gradient, so there is no graph to walk back.",
        "w = nn.Linear(2, 1)\noptimizer = torch.optim.SGD(w.parameters(), lr=0.1)": "Scale wants "
        "a tensor to multiply with, not a layer.",
        "w = torch.zeros(2, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([w.clone()], lr=0.1)": "A clone is a result, not a leaf: "
        "the optimizer refuses it.",
    },
    right=[
        "w = nn.Parameter(torch.zeros(2))\noptimizer = torch.optim.SGD([w], lr=0.1)",
        "w = torch.rand(2, requires_grad=True)\noptimizer = torch.optim.Adam([w], lr=0.1)",
    ],
    at={
        "loss.backward()": (
            "The loss is computed, but backward finds no way to go. Does w itself ask for a "
            "gradient, as a leaf?"
        ),
        "losses[-1]": (
            "All runs, but the loss does not halve. Does w hold two numbers, does the optimizer "
            "hold this w, and are its steps large enough?"
        ),
    },
)
def test_a_network_without_a_module():
    """Some say a network can do without nn.Module, and they are right: Scale is a Function.

    Write what the loop lacks: two trainable numbers `w`, and an `optimizer` for them.
    A learning rate of 0.1 will do.
    """

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad * w, grad * x

    for target in (torch.tensor([2.0, -1.0]), torch.tensor([0.5, 3.0])):
        # answer:
        w = torch.zeros(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        # end
        losses = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = (Scale.apply(torch.ones(2), w) - target).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 2


@koan(
    see="torch.nn.LSTM",
    hint=[
        "Print the shapes of output, h and c. Which of them have an axis for time?",
        "batch_first says where the batch stands in a sequence. A state is no sequence.",
    ],
    why="For a batch, h and c are (layers, batch, hidden), whatever batch_first says: it is about "
    "the input and the output. So h[-1] is the last layer, and h[:, -1] was the last SAMPLE, "
    "silently. (A single sequence without a batch has states without that axis.)",
    wrong={
        "return torch.cat([h[0], c[0]], dim=1)": "The right axis, but this is the first layer.",
        "return torch.cat([h[-1], c[0]], dim=1)": "Half of it: this c is that of the first layer.",
        "return torch.cat([h[-1], h[-1]], dim=1)": "Half of it: the second half should be c.",
        "return torch.cat([s.view(s.shape[1], 2, 5)[:, -1] for s in (h, c)], dim=1)": "view only "
        "cuts the same numbers differently: samples and layers are mixed up.",
        "return torch.cat([output[:, -1], c[:, -1]], dim=1)": "Half of it: the cell state c is "
        "laid out like h.",
        "return torch.cat([output[-1], c[-1]], dim=1)": "output IS laid out by batch_first.",
        "return torch.cat([h[-1, -1:], c[-1, -1:]], dim=1)": "The last layer, and the last sample "
        "only.",
    },
    right=[
        "return torch.cat([output[:, -1], c[-1]], dim=1)",
        "return torch.cat([s.transpose(0, 1)[:, -1] for s in (h, c)], dim=1)",
        "return torch.hstack((h[1], c[1]))",
    ],
    at={
        "tuple(states.shape)": (
            "This line looks at the shape: one row for each sample, with h and c side by side. "
            "Which axis is which in the pieces that you join?"
        ),
        "states[:, :5]": (
            "The shape is right. But the first half is not h of the last layer, taken for each "
            "sample."
        ),
        "torch.cat(alone)": (
            "The first half is right. But the second half is not c of the last layer, taken for "
            "each sample."
        ),
    },
)
def test_the_last_state_of_each_sample():
    """`summary` should give, for each sample, h and c of the last layer.

    The batch comes first here, they said. Repair it.
    """
    lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True)

    def summary(x):
        output, (h, c) = lstm(x)
        # answer:
        return torch.cat([h[-1], c[-1]], dim=1)
        # given:
        # return torch.cat([h[:, -1], c[:, -1]], dim=1)
        # end

    for batch in (3, 2):
        x = torch.randn(batch, 7, 4)
        states = summary(x)
        assert tuple(states.shape) == (batch, 10)
        assert torch.allclose(states[:, :5], lstm(x)[0][:, -1], atol=1e-6)
        for i in range(batch):
            alone = [state.flatten()[-5:] for state in lstm(x[i : i + 1])[1]]
            assert torch.allclose(states[i], torch.cat(alone), atol=1e-6)


@koan(
    see="torch.nn.MultiheadAttention",
    hint=[
        "softmax over nothing but -inf is 0/0. What does backward make of it, even times zero?",
        "The nan must never arise. Which samples have no key left, and may those keep some? The "
        "others must go on looking past their padding, wherever it stands.",
    ],
    why="With need_weights=True, the default, a query with no key gets nan. Filling it "
    "afterwards repairs the output only: backward computes 0 * nan for weights that all samples "
    "share. So leave the empty sample its keys, and drop its output.",
    wrong={
        "output, _ = attention(x, x, x, key_padding_mask=padding)\nreturn output.nan_to_num(0.0)": (
            "The nan is covered up. But other places of padding now hold numbers, and backward "
            "still goes through the row of nan."
        ),
        "output, _ = attention(x, x, x)\nreturn output.masked_fill(padding[..., None], 0.0)": (
            "Without a mask each sample looks at its padding too."
        ),
        "output, _ = attention(x, x, x, key_padding_mask=padding)\n"
        "return output * ~padding[..., None]": "nan times zero is nan.",
        "keys = padding.clone()\nkeys[:, 0] = False\n"
        "output, _ = attention(x, x, x, key_padding_mask=keys)\n"
        "return output.masked_fill(padding[..., None], 0.0)": (
            "No row is empty now. But a sample padded on the left looks at its padding."
        ),
    },
    right=[
        "alive = ~padding.all(dim=1)\n"
        "output = torch.zeros_like(x)\n"
        "output[alive] = attention(*[x[alive]] * 3, key_padding_mask=padding[alive])[0]\n"
        "return output.masked_fill(padding[..., None], 0.0)",
        "keys = padding.clone()\nkeys[padding.all(dim=1), 0] = False\n"
        "output, _ = attention(x, x, x, key_padding_mask=keys)\n"
        "return output.masked_fill(padding[..., None], 0.0)",
    ],
    at={
        "attention.in_proj_weight": (
            "The output is right. This line looks at the gradient of the weights: did a nan arise "
            "anywhere on the way, even one that was covered up?"
        ),
        "output[i, ~padding[i]]": (
            "The places that are no padding should give what they give alone, without any "
            "padding. Which keys do they look at now?"
        ),
        "output[padding].eq(0)": (
            "The places that are no padding are right. But at the places of the padding the "
            "output should be zero."
        ),
    },
)
def test_a_sample_of_nothing_but_padding():
    """The mask is True where there is only padding. One sample is padded on the right, one on the
    left, one is all padding.

    The output is clean, the gradient is not. Repair `attend`.
    """
    attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def attend(x, padding):
        # answer:
        empty = padding.all(dim=1, keepdim=True)
        output, _ = attention(x, x, x, key_padding_mask=padding & ~empty)
        return output.masked_fill(padding[..., None], 0.0)
        # given:
        # output, _ = attention(x, x, x, key_padding_mask=padding)
        # return output.masked_fill(padding[..., None], 0.0)
        # end

    x = torch.randn(3, 3, 4)
    padding = torch.tensor([[False, False, True], [True] * 3, [True, False, False]])
    output = attend(x, padding)
    for i in (0, 2):
        short = x[i : i + 1, ~padding[i]]
        alone = attention(short, short, short)[0][0]
        assert torch.allclose(output[i, ~padding[i]], alone, atol=1e-6)
    assert output[padding].eq(0).all()
    output.sum().backward()
    assert attention.in_proj_weight.grad.isfinite().all()


@koan(
    claims=["B-1-09"],
    see="torch.utils.hooks.RemovableHandle",
    hint=[
        "register_forward_hook returns a handle. If one hook too many is left: who removes it?",
        "If it is left after the failing call: which block of Python runs all the same?",
        "If the features differ: a model has a hook of its own. Which way of running it would "
        "leave that one out?",
    ],
    why="Called, not model.forward(x), so that the model's own hooks run; the hook returns None; "
    "it keeps a detached tensor; and `finally` removes it even after an error.",
    wrong={
        "kept = []\n"
        "handle = layer.register_forward_hook(lambda m, a, out: kept.append(out.detach()))\n"
        "model(x)\nhandle.remove()\nreturn kept[0]": "When the model raises, the line that "
        "removes the hook is never reached.",
        "kept = []\n"
        "handle = layer.register_forward_hook(lambda m, a, out: kept.append(out.detach()))\n"
        "try:\n    model.forward(x)\nfinally:\n    handle.remove()\nreturn kept[0]": "The model's "
        "own hooks were left out, and one of them prepares the input.",
        "kept = []\n"
        "layer.register_forward_hook(lambda m, a, out: kept.append(out.detach()))\n"
        "model(x)\nreturn kept[0]": "This hook stays: each call leaves one more behind.",
        "return layer(x).detach()": "The layer wants what the layers before it made of x.",
        "x = x * 10\n"
        "for part in model.modules():\n"
        "    if isinstance(part, (nn.Linear, nn.ReLU)):\n"
        "        x = part(x)\n"
        "    if part is layer:\n"
        "        return x.detach()": "Not every model is a chain of its parts. Only its forward "
        "knows the way.",
        "kept = []\n"
        "layer.register_forward_hook(lambda m, a, out: kept.append(out.detach()))\n"
        "try:\n    model(x)\nfinally:\n    layer._forward_hooks.clear()\nreturn kept[0]": "The "
        "layer had a hook before. That one is not yours to remove.",
        "kept = []\n"
        "handle = layer.register_forward_hook(lambda m, a, out: kept.append(out))\n"
        "try:\n    model(x)\nfinally:\n    handle.remove()\nreturn kept[0]": "What you give away "
        "still holds the graph.",
    },
    right=[
        "kept = []\n"
        "handle = layer.register_forward_hook(lambda m, a, out: kept.append(out.detach()))\n"
        "with handle:\n    model(x)\nreturn kept[0]",
    ],
    at={
        "torch.equal(inner, early": (
            "This line looks at the features: what a layer gives when the whole model is called, "
            "with the model's own hooks. What did you return?"
        ),
        "inner.requires_grad": "The features are right. But they still have a graph behind them.",
        "pytest.raises(RuntimeError)": (
            "The features are right. Here x does not fit and the model fails, but the caller does"
            " not hear of it."
        ),
        "module._forward_hooks": (
            "The features are right. But the hooks are not as before: one is left, or one is "
            "gone. Think of the call that failed, too."
        ),
    },
)
def test_write_a_feature_extractor():
    """Write `features`: it runs the model on x and returns, detached, what `layer` gave.

    Afterwards the model must be as before: no hook may stay behind, whatever happens.
    """

    def features(model, layer, x):
        # answer:
        kept = []

        def keep(module, args, output):
            kept.append(output.detach())

        handle = layer.register_forward_hook(keep)
        try:
            model(x)
        finally:
            handle.remove()
        return kept[0]
        # end

    class Back(nn.Sequential):
        def forward(self, x):
            return self[0](torch.sigmoid(self[1](x)) - x)

    first, last, back = nn.Linear(2, 3), nn.Linear(3, 1), Back(nn.Linear(2, 1), nn.Linear(2, 2))
    chain = nn.Sequential(nn.Sequential(first, nn.ReLU()), last)
    for model, early, late in ((chain, first, last), (back, back[1], back[0])):
        model.register_forward_pre_hook(lambda module, args: args[0] * 10)
        early.register_forward_hook(lambda module, args, output: None)
        x = torch.randn(4, 2)
        inner, outer = features(model, early, x), features(model, late, x)
        assert torch.equal(inner, early(x * 10)) and torch.equal(outer, model(x))
        assert not inner.requires_grad
        with pytest.raises(RuntimeError):
            features(model, early, torch.ones(4, 5))
        assert [len(module._forward_hooks) for module in (early, late, model)] == [1, 0, 0]
