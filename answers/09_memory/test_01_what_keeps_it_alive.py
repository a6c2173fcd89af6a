"""What keeps it alive: who still holds a tensor, a graph, a batch.

Documents: A 1, A 4.5, B 2
"""

import gc
import sys
import warnings
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    see="weakref.proxy",
    hint=[
        "Count the names and lists that refer to the result of x * 2. A weak one does not count.",
        "So the object is gone when sum() is called. The proxy is still there. What can it raise?",
    ],
    why=(
        "Python counts the references to each object and frees it the moment the count is zero: "
        "here at the end of the line that made it. Nothing has to be collected. A weak "
        "reference is the tool of this file: it looks, and it does not hold."
    ),
    wrong={
        "RuntimeError": "PyTorch never hears of the call: Python's proxy stops it before.",
        "AttributeError": "The proxy does not turn into None; it knows that its object has gone.",
        "MemoryError": "Memory was given back here. Nobody asked for any.",
    },
)
def test_a_weak_name_for_a_result():
    """A proxy behaves like the object it looks at, but it does not keep that object alive.

    Which exception does the last line of the block raise?
    """
    x = torch.ones(3)
    doubled = weakref.proxy(x * 2)
    with pytest.raises(Exception) as caught:
        doubled.sum()
    assert caught.type is answer(ReferenceError)


@koan(
    claims=["A-4.5-01", "A-4.5-05", "A-4.5-06"],
    see="gc.collect",
    hint=[
        "gc.collect() frees what nobody can reach any more. Can you still reach the losses?",
        "Follow the arrows: trainer, history, loss, node, weight. Does one lead back?",
        "Where no arrow leads back, the count of each object falls to zero by itself.",
    ],
    why=(
        "The list holds the losses: that is all. A graph refers to parameters; a parameter does "
        "not know its module, nor a module its trainer. So there is no cycle, the collector has "
        "nothing to do, and pop or del frees at once. Memory that grows slowly is mostly this: "
        "something that lives long, and refers to more and more."
    ),
    wrong={
        "[3, 2, 2]": (
            "Some see a cycle: trainer, loss, graph, model, trainer. The last two arrows do not "
            "exist."
        ),
        "[3, 3, 3]": (
            "Some say reference counting cannot free losses, they wait for the collector. It "
            "frees each one when its last holder lets go."
        ),
        "[0, 0, 0]": "The collector never frees what a name or a list still holds.",
    },
)
def test_a_trainer_and_its_losses():
    """Python's collector is off; we call it once by hand. Then one loss leaves the list. Then
    the trainer is deleted.

    How many of the three losses are alive after each of these?
    """
    gc.disable()
    trainer = SimpleNamespace(model=nn.Linear(2, 1), history=[])
    for _ in range(3):
        trainer.history.append(trainer.model(torch.ones(1, 2)).sum())
    alive = weakref.WeakSet(trainer.history)
    gc.collect()
    counts = [len(alive)]
    trainer.history.pop(0)
    counts.append(len(alive))
    del trainer
    counts.append(len(alive))
    assert counts == answer([3, 2, 0])


@koan(
    claims=["A-1-04", "B-2-38"],
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "A graph keeps nodes. A node keeps a tensor only if its backward needs the numbers.",
        "A method that is not called yet: on which object will it work?",
        "A function must find later what its body mentions.",
    ],
    why=(
        "The slope of a sum is 1: nothing to remember. The slope of a square needs what went in, "
        "so the graph keeps it, as long as the result lives. A method holds its object, a function "
        "what it mentions. When memory does not come back, look for such holders: a list or a "
        "dict, a result with a graph, a function. In a notebook also for `_`, the last output."
    ),
    wrong={
        "['sum', 'squares', 'method', 'later']": (
            "A graph is made of nodes. It does not keep all tensors that went through it."
        ),
        "['squares']": "Python's own objects can hold a tensor as well as a graph can.",
        "['method', 'later']": "Write down the slopes. Does one of them need those numbers?",
        "['squares', 'later']": "A method without its object could not be called.",
        "[]": "`del hidden` takes away a name. Others may hold the same tensor.",
    },
)
def test_four_things_made_from_a_tensor():
    """From `hidden` we make something, keep it, and delete the name `hidden`.

    With which of the four is the tensor still in memory? Write their names, in order.
    """
    makers = {
        "sum": lambda hidden: hidden.sum(),
        "squares": lambda hidden: (hidden**2).sum(),
        "method": lambda hidden: hidden.sum,
        "later": lambda hidden: lambda: hidden.sum(),
    }

    def is_alive(make):
        hidden = torch.ones(3, requires_grad=True) * 2
        look, made = weakref.ref(hidden), make(hidden)
        del hidden
        return look() is not None

    assert [n for n in makers if is_alive(makers[n])] == answer(["squares", "method", "later"])


@koan(
    claims=["A-4.5-03"],
    see="torch.Tensor.backward",
    hint=[
        "exp keeps its result for backward. Does it need it afterwards?",
        "total + loss is an operation, too. What is behind the last one?",
    ],
    why=(
        "backward let go of what the nodes had kept, so the large part is free. The nodes stay: "
        "each sum leads to the one before and to its loss, and the chain grows with every step. "
        "Where nobody calls backward, in a validation, all the large tensors stay as well. "
        "`total += loss.item()`, or loss.detach(), keeps neither."
    ),
    wrong={
        "[3, 3]": (
            "Some say a loss that is kept keeps everything. Who has just freed what was saved?"
        ),
        "[0, 0]": "backward empties the nodes. It does not take them away from who holds them.",
        "[0, 1]": "The sum before is one of the two inputs of each sum.",
        "[1, 3]": "Was anything more needed of the last step?",
    },
)
def test_a_chain_of_sums():
    """Three training steps, and the losses are added up as they are.

    How many `hidden` are in memory then? And how many additions are linked, one behind the other?
    """
    weight, total = torch.ones(3, requires_grad=True), 0.0
    alive = weakref.WeakSet()
    for _ in range(3):
        alive.add(hidden := weight.exp())
        loss = hidden.sum()
        loss.backward()
        total, links = total + loss, 0
    del hidden
    node = total.grad_fn
    while node.name() == "AddBackward0":
        node, links = node.next_functions[0][0], links + 1
    assert [len(alive), links] == answer([0, 3])


@koan(
    claims=["A-4.5-04", "A-4.5-10", "A-4.5-13", "A-4.5-14"],
    see="torch.no_grad",
    hint=[
        "Where does a prediction hold on to anything? Print its grad_fn, once in each mode.",
        "Walk from grad_fn to the ends: there sit the tensors that want gradients. Is the net "
        "one of them?",
    ],
    why=(
        "Under no_grad a prediction is numbers and nothing else. With a graph it holds the "
        "parameters that it depends on, and still not the net: nodes know tensors, no modules. "
        "A log of predictions grows all the same, by the predictions. And by a graph each, "
        "where somebody forgot no_grad."
    ),
    wrong={
        ("['net', 'weight', 'bias']", "['net', 'weight', 'bias']"): (
            "Some say a prediction refers to its model. Look for the arrow: there is none."
        ),
        ("[]", "['net', 'weight', 'bias']"): (
            "A node knows the tensors it needs. It does not know whose attributes they are."
        ),
        ("['weight', 'bias']", "['weight', 'bias']"): (
            "What would hold them, when nothing was recorded?"
        ),
        ("[]", "[]"): "Who would receive the gradient, if you called backward on it now?",
        (
            "[]",
            "['weight']",
        ): "No number of the bias is needed for backward, but it wants a gradient.",
    },
    at={
        "left(torch.no_grad())": (
            "This prediction was made under no_grad. Print its grad_fn: what can it lead to?"
        ),
        "left(nullcontext())": (
            "The first list is right. This prediction has a history. Walk from its grad_fn to "
            "the ends: what sits there?"
        ),
    },
)
def test_a_prediction_in_the_log():
    """The log keeps a prediction, and the net is deleted. What is still in memory?

    Write the names: after a prediction under no_grad, then after one without.
    """
    log = []

    def left(mode):
        net = nn.Linear(2, 3)
        seen = {"net": net, "weight": net.weight, "bias": net.bias}
        looks = {name: weakref.ref(thing) for name, thing in seen.items()}
        with mode:
            log.append(net(torch.ones(1, 2)))
        del net, seen
        return [name for name, look in looks.items() if look() is not None]

    assert left(torch.no_grad()) == answer([])
    assert left(nullcontext()) == answer(["weight", "bias"])


@koan(
    claims=["A-4.5-02", "A-4.5-08", "A-4.5-09", "A-4.5-15"],
    see="torch.Tensor.cpu",
    hint=[
        "pred is on the CPU already. What has cpu() left to do?",
        "Does detach() need new memory for its numbers? Does numpy()?",
        "item() and tolist() give numbers of Python.",
    ],
    why=(
        "cpu() returned the very same tensor, graph and all; from a GPU it would copy, and it "
        "would still be in the graph. detach() cuts the graph and keeps the memory, so does "
        "numpy(). item() alone, of one number, and tolist() keep nothing: detach().cpu().item() "
        "says it three times. A forgotten detach() is noticed: numpy() refuses with a RuntimeError."
    ),
    wrong={
        ("['pred']", "['pred', 'detach']"): (
            "cpu() copies only if it has to move; and a move is recorded like any operation."
        ),
        ("['pred', 'cpu']", "['pred', 'cpu']"): (
            "detach() makes a new tensor, and no new memory. numpy() goes on in the same way."
        ),
        ("['pred', 'cpu', 'item']", "['pred', 'cpu', 'detach', 'numpy']"): (
            "Some detach before item(). A float of Python has no place for a graph."
        ),
        ("['pred', 'cpu']", "['pred', 'cpu', 'detach', 'numpy', 'list']"): (
            "A list of Python floats has no view into a tensor's memory."
        ),
    },
    at={
        "assert graph ==": (
            "This line asks for the graph only: which entries have a grad_fn? Shared memory "
            "comes later."
        ),
        "assert memory ==": (
            "The graph is right. Now the memory: which entries have no numbers of their own, "
            "but read those of pred?"
        ),
    },
)
def test_six_ways_to_log_a_prediction():
    """Six ways to write a prediction down. Which entries are still part of its graph?

    Then 7 is written into pred. Which entries say 7, since they hold its memory?
    """
    pred = nn.Linear(2, 3)(torch.ones(1, 2))
    log = {"pred": pred, "cpu": pred.cpu(), "detach": pred.detach()}
    log["numpy"] = pred.detach().cpu().numpy()
    log["list"] = pred.tolist()
    log["item"] = pred.mean().item()
    graph = [name for name, entry in log.items() if getattr(entry, "grad_fn", None)]
    with torch.no_grad():
        pred.fill_(7)
    memory = [name for name, entry in log.items() if torch.as_tensor(entry).max() == 7]
    assert graph == answer(["pred", "cpu"])
    assert memory == answer(["pred", "cpu", "detach", "numpy"])


@koan(
    claims=["A-4.5-92"],
    see="torch.Tensor.grad",
    hint=[
        "A float32 takes 4 bytes. What is the shape of a gradient, the first time, the third?",
        "The second backward finds a gradient there. Does it make a list, or does it add?",
    ],
    why=(
        "backward adds into the gradient that is there: the numbers grow, not the bytes. A "
        "forgotten zero_grad() makes training wrong, and it is no leak. What grows must be "
        "kept by something else."
    ),
    wrong={
        ("[400, 800, 1200]", "3.0"): (
            "Some blame uncleared gradients for memory that grows. No gradient is kept beside "
            "another."
        ),
        ("[400, 400, 400]", "3.0"): "A gradient that is there is not replaced.",
        ("[100, 100, 100]", "9.0"): "One hundred numbers: but how many bytes for each?",
    },
    at={
        "assert held ==": (
            "This line looks at the bytes only. A float32 takes 4. What is the shape of the "
            "gradient after each backward?"
        ),
        "weight.grad[0].item()": (
            "The bytes are right. Now the number: what does a backward do with a gradient that "
            "is there already?"
        ),
    },
)
def test_three_gradients_that_nobody_clears():
    """Some say: gradients that are not cleared make memory grow.

    How many bytes are in the storage of the gradient after each backward? And what is its first
    number in the end?
    """
    weight = torch.zeros(100, requires_grad=True)
    held = []
    for _ in range(3):
        (weight * 3).sum().backward()
        held.append(weight.grad.untyped_storage().nbytes())
    assert held == answer([400, 400, 400])
    assert weight.grad[0].item() == answer(9.0)


@koan(
    claims=["A-4.5-92"],
    see="torch.autograd.grad",
    hint=[
        "x holds x.grad. With create_graph, x.grad has a graph. Whom does that graph need?",
        "Python's collector cannot see arrows between C++ objects. You have to leave one out.",
        "There is a function that hands you the slope and stores it nowhere.",
    ],
    why=(
        "x.grad had a graph, and that graph refers to x: a circle through C++, which even "
        "gc.collect() cannot see. PyTorch warns of it, once. autograd.grad() returns the slope "
        "and leaves .grad alone; `x.grad = None` at the end opens the circle as well."
    ),
    wrong={
        "import gc\n\nloss.backward(create_graph=True)\nslope = x.grad\ngc.collect()": (
            "The collector sees Python's references. This circle runs through C++."
        ),
        "loss.backward(create_graph=True)\nslope = x.grad\ndel loss": (
            "The loss is not part of the circle."
        ),
        "loss.backward(create_graph=True)\nslope = x.grad.clone()": (
            "You have a copy; the gradient with its graph still sits in x."
        ),
        "loss.backward(retain_graph=True)\nslope = x.grad": (
            "This keeps the graph of the loss. The slope gets no graph of its own."
        ),
        "loss.backward()\nslope = x.grad": (
            "The circle is open, since a plain backward records nothing of its own work. But then "
            "what can the next line differentiate?"
        ),
    },
    right=[
        "loss.backward(create_graph=True)\nslope, x.grad = x.grad, None",
        "loss.backward(create_graph=True)\nslope = x.grad.clone()\nx.grad.detach_()",
        "(slope,) = torch.autograd.grad([loss], [x], create_graph=True)",
        "slope = torch.autograd.grad(loss, x, create_graph=True)[0]",
        "slope = torch.func.grad(lambda point: f(point).sum())(x)",
    ],
    at={
        "torch.autograd.grad(slope.sum(), x)": (
            "Here the slope is differentiated once more. For this it needs a graph of its own "
            "that leads back to x."
        ),
        "torch.testing.assert_close(curve": (
            "The slope can be differentiated, but the result is not the slope of the slope of "
            "f. Print `slope`."
        ),
    },
)
def test_a_slope_that_keeps_its_point():
    """We need the slope of a slope. The numbers are right, but x never dies, not even when the
    collector has run. Repair the marked lines."""

    def curve_of(f):
        x = torch.full((3,), 2.0, requires_grad=True)
        loss = f(x).sum()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # answer:
            (slope,) = torch.autograd.grad(loss, x, create_graph=True)
            # given:
            # loss.backward(create_graph=True)
            # slope = x.grad
            # end
        (curve,) = torch.autograd.grad(slope.sum(), x)
        return weakref.ref(x), curve

    for f, wanted in [(torch.exp, 7.3891), (torch.sin, -0.9093), (torch.log, -0.25)]:
        look, curve = curve_of(f)
        gc.collect()
        torch.testing.assert_close(curve, torch.full((3,), wanted), rtol=0.0, atol=1e-3)
        assert look() is None, "x is still in memory"


@koan(
    claims=["A-4.5-07", "B-2-36"],
    see="gc.disable",
    hint=[
        "A circle: from the net, over attributes, lists or functions, back to the net.",
        "A method taken from an object remembers the object. What about one taken from a class?",
        "A hook is held by its layer, and a function holds the variables that it mentions.",
    ],
    why=(
        "These two are circles: net, method, net; and net, layer, hook, net. No count falls to "
        "zero, so the weights wait for gc.collect(), or for the collector's next turn. That comes "
        "when enough Python objects have been made; of a full GPU it knows nothing. Two arrows to "
        "one layer are no circle, and that net was freed by its `del`."
    ),
    wrong={
        "[]": "Reference counting is quick, but a circle holds itself.",
        "['method', 'class', 'hook', 'list']": (
            "Some say whatever is unused waits in a cache until the collector comes. Without a "
            "circle it is freed at once. Only some of these lines make one."
        ),
        "['method', 'class', 'hook']": "A function of the class knows no single net.",
        "['method', 'hook', 'list']": "Two arrows may end at one layer without a circle.",
        "['hook']": "Ask a method of an object for its __self__.",
        "['method']": "Which variable does the hook mention, and who holds the hook?",
    },
)
def test_who_waits_for_the_collector():
    """Four nets, and on each of them something is set or registered. Then comes `del net`.

    The collector is off. With which lines is the weight still in memory? Write their names.
    """
    gc.disable()
    lines = {"method": lambda net: setattr(net, "log", net.extra_repr)}
    lines["class"] = lambda net: setattr(net, "log", nn.Module.extra_repr)
    lines["hook"] = lambda net: net[0].register_forward_hook(lambda *_: print(net))
    lines["list"] = lambda net: setattr(net, "parts", [net[0], net[0]])
    looks = {}
    for name, line in lines.items():
        net = nn.Sequential(nn.Linear(2, 2))
        line(net)
        looks[name] = weakref.ref(net[0].weight)
        del net
    assert [name for name in lines if looks[name]() is not None] == answer(["method", "hook"])


@koan(
    see="torch.nn.Module.register_forward_hook",
    hint=[
        "register_... hands you a key. What happens to the lock when you throw the key away?",
        "Does a second hook take the place of the first, or does it stand beside it?",
        "Who holds a hook: the layer, the weight, the result? And how long does that one live?",
    ],
    why=(
        "Each registration adds, and the hook lives as long as its owner: layer and "
        "weight stay, a result goes, and takes its hook along. A dropped handle removes nothing. "
        "In a notebook every run of the cell adds one more, with all that it has captured. Call "
        "remove(), or register in a `with` block."
    ),
    wrong={
        "[0, 0, 0, 0]": (
            "The handle is only a key to the hook. Nothing is removed when it is lost."
        ),
        "[1, 1, 0, 0]": "A new hook does not take the place of an old one.",
        "[3, 3, 0, 3]": "Nobody holds the result. Can its hooks live on?",
        "[3, 0, 0, 0]": "A hook on a tensor stays as well, and this tensor is not going away.",
        "[3, 3, 3, 3]": "A handle can do more than be dropped.",
    },
)
def test_hooks_that_are_hung_up_again():
    """Four ways to register a hook, each used three times, with a new hook each time.

    No handle is kept. How many of the three hooks are alive, for each way?
    """
    layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    ways = [layer.register_forward_hook, layer.weight.register_hook]
    ways.append(lambda hook: layer.register_forward_hook(hook).remove())
    ways.append(lambda hook: layer(x).register_hook(hook))
    alive = [weakref.WeakSet() for _ in ways]
    for hooks, register in zip(alive * 3, ways * 3, strict=True):

        def hook(*args):
            return None

        hooks.add(hook)
        register(hook)
    del hook
    assert [len(hooks) for hooks in alive] == answer([3, 3, 0, 0])


@koan(
    see="torch.OutOfMemoryError",
    hint=[
        "An exception has a traceback, the traceback has frames, a frame has its variables.",
        "How long does Python hold the exception? Until the end of which block? And does a name "
        "of yours hold it longer?",
    ],
    why=(
        "While the except block runs, Python holds the exception, and with it the frame of the "
        "step that failed and all its tensors. So the second try finds less room than the first "
        "had. Leave the block, then try again. No collector and no empty_cache() can free what "
        "a frame holds."
    ),
    wrong={
        "try:\n"
        "    return step(batch)\n"
        "except torch.OutOfMemoryError:\n"
        "    gc.collect()\n"
        "    return step(half)": "The exception is still being handled, so its frames are in use.",
        "try:\n"
        "    return step(batch)\n"
        "except torch.OutOfMemoryError as error:\n"
        "    del error\n"
        "    return step(half)": "The name is gone. Python itself holds what it is handling.",
        "try:\n"
        "    return step(batch)\n"
        "except torch.OutOfMemoryError:\n"
        "    del batch\n"
        "    torch.cuda.empty_cache()\n"
        "    return step(half)": (
            "empty_cache() gives back what is free. The failed step still holds its tensors."
        ),
        "return step(half)": "Where the whole batch fits, it should be used.",
    },
    right=[
        "ok = True\n"
        "try:\n"
        "    result = step(batch)\n"
        "except torch.OutOfMemoryError:\n"
        "    ok = False\n"
        "return result if ok else step(half)",
        "import contextlib\n\n"
        "with contextlib.suppress(torch.OutOfMemoryError):\n"
        "    return step(batch)\n"
        "return step(half)",
        "for part in (batch, half):\n"
        "    try:\n"
        "        return step(part)\n"
        "    except torch.OutOfMemoryError:\n"
        "        continue",
    ],
    at={
        "assert left ==": (
            "All results are right. `left` notes how many `hidden` are alive when a try starts. "
            "What does an exception lead to, and who still holds it?"
        ),
        "raise torch.OutOfMemoryError": (
            "There is no room for this batch, and its error goes all the way out. It should be "
            "caught, and the half tried."
        ),
        "room=3": (
            "Here only the half fits: after the whole batch has failed, `careful` should "
            "return what the half gives."
        ),
        "room=6": ("Here the whole batch fits, so its result should be returned."),
    },
)
def test_try_again_with_half():
    """There is no room for the whole batch, so the half is tried. But what the first try has
    made is still in memory. Repair the marked lines, so that the second try starts with no
    `hidden` left."""
    made, left = weakref.WeakSet(), []

    def careful(batch, room):
        def step(batch):
            left.append(len(made))
            hidden = batch * 2
            made.add(hidden)
            if len(hidden) > room:
                raise torch.OutOfMemoryError("no room")
            return hidden.tolist()

        half = batch[: len(batch) // 2]
        # answer:
        try:
            return step(batch)
        except torch.OutOfMemoryError:
            pass
        return step(half)
        # given:
        # try:
        #     return step(batch)
        # except torch.OutOfMemoryError:
        #     return step(half)
        # end

    assert careful(torch.arange(4), room=3) == [0, 2]
    assert careful(torch.arange(6), room=6) == [0, 2, 4, 6, 8, 10]
    assert careful(torch.arange(6), room=5) == [0, 2, 4]
    assert left == [0] * 5


@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "Is there one object for each sample, made when the shelf was made? Then you get that one.",
        "Does it matter for an object whether a list or a tuple refers to it?",
        "Of what is an array made whose dtype is object? And an array of texts?",
    ],
    why=(
        "What is handed out counts one reference more, and the count lies in the object itself: "
        "that was a write. A worker that only reads a list of a million names writes to each of "
        "them, page after page is copied, and memory climbs through the first epochs. A tensor "
        "or an array with a real dtype makes a new small object instead."
    ),
    wrong={
        "[]": "We write nothing. Python does, next to the value: it keeps count.",
        "['list']": "A tuple cannot be changed. The objects in it still count their references.",
        "['list', 'tuple']": "An array of dtype object holds references, like a list.",
        "['list', 'tuple', 'objects', 'texts', 'tensor']": (
            "Two of them have no object for a sample until you ask for one."
        ),
        "['list', 'tuple', 'objects', 'texts']": "Such an array keeps letters, no str objects.",
    },
)
def test_what_a_reader_writes():
    """A forked worker shares our memory, page by page, until somebody writes to it. Here a
    reader takes sample 0 from each shelf.

    On which shelves has the reference count of sample 0 changed?
    """
    names = [f"picture_{i}.png" for i in range(4)]
    shelves = {"list": names.copy(), "tuple": tuple(f"{name}!" for name in names)}
    shelves["objects"] = np.array([f"{name}?" for name in names], dtype=object)
    shelves["texts"] = np.array(names)
    shelves["tensor"] = torch.arange(4)
    written = []
    for name, shelf in shelves.items():
        before = sys.getrefcount(shelf[0])
        taken = shelf[0]
        if sys.getrefcount(shelf[0]) != before:
            written.append(name)
    assert written == answer(["list", "tuple", "objects"])


@koan(
    see="torch.frombuffer",
    hint=[
        "All letters in one row, as bytes: str.encode() makes them. Where does each word end?",
        "One tensor of bytes, one of ends. The ends are a running sum of the lengths.",
        "bytes(tensor.tolist()).decode() leads back to a str.",
    ],
    why=(
        "Two tensors instead of a thousand objects: a forked worker reads them and no reference "
        "count in them changes, so nothing is copied. The object is made when you ask for it, "
        "in the worker's own memory."
    ),
    wrong={
        "def pack(words):\n"
        "    raw = [word.encode() for word in words]\n"
        "    table = torch.zeros(len(raw), max(map(len, raw)), dtype=torch.uint8)\n"
        "    for row, letters in zip(table, raw):\n"
        "        row[: len(letters)] = torch.tensor(list(letters), dtype=torch.uint8)\n"
        "    return (table,)\n\n"
        "def word_at(packed, i):\n"
        "    return bytes(packed[0][i].tolist()).rstrip(b'\\0').decode()": (
            "One long word makes every row as long as itself."
        ),
        "def pack(words):\n"
        "    return tuple(words)\n\n"
        "def word_at(packed, i):\n"
        "    return packed[i]": "A tuple of str objects: each has a count that readers change.",
        "def pack(words):\n"
        "    letters = torch.tensor([ord(c) for word in words for c in word])\n"
        "    return letters, torch.tensor([len(word) for word in words]).cumsum(0)\n\n"
        "def word_at(packed, i):\n"
        "    letters, ends = packed\n"
        "    start = ends[i - 1] if i else 0\n"
        "    return ''.join(map(chr, letters[start : ends[i]].tolist()))": (
            "Eight bytes for each letter. Is there a dtype with less?"
        ),
        "def pack(words):\n"
        "    letters = [ord(c) for word in words for c in word]\n"
        "    ends = torch.tensor([len(word) for word in words]).cumsum(0)\n"
        "    return torch.tensor(letters, dtype=torch.uint8), ends\n\n"
        "def word_at(packed, i):\n"
        "    letters, ends = packed\n"
        "    start = ends[i - 1] if i else 0\n"
        "    return ''.join(map(chr, letters[start : ends[i]].tolist()))": (
            "You count letters, not bytes. One letter here has a number that no byte can hold."
        ),
        "def pack(words):\n"
        "    letters = torch.tensor(list(''.join(words).encode()), dtype=torch.uint8)\n"
        "    return letters, torch.tensor([len(word) for word in words]).cumsum(0)\n\n"
        "def word_at(packed, i):\n"
        "    letters, ends = packed\n"
        "    start = ends[i - 1] if i else 0\n"
        "    return bytes(letters[start : ends[i]].tolist()).decode()": (
            "You store bytes and count letters. Not each letter is one byte."
        ),
    },
    right=[
        "def pack(words):\n"
        "    raw = [word.encode() for word in words]\n"
        "    lengths = torch.tensor([len(letters) for letters in raw], dtype=torch.int32)\n"
        "    return torch.tensor(list(b''.join(raw)), dtype=torch.uint8), lengths\n\n"
        "def word_at(packed, i):\n"
        "    letters, lengths = packed\n"
        "    return bytes(letters.split(lengths.tolist())[i].tolist()).decode()",
    ],
    at={
        "type(part) for part in packed": (
            "`pack` should return a tuple, and all that is in it should be tensors."
        ),
        "word_at(packed, i) for i": (
            "These are tensors. But a word does not come out as it went in. Look at the empty "
            "word, and at Ü and 鳥."
        ),
        "assert size <=": (
            "Each word comes back. But the tensors hold more bytes than they may. Print how "
            "many each of them has."
        ),
    },
)
def test_words_without_objects():
    """Write `pack` and `word_at`. pack puts a list of words into a tuple of tensors; word_at
    takes the i-th word out.

    The tensors may hold no more than the text's bytes in UTF-8, and eight for each word.
    """
    # answer:

    def pack(words):
        raw = [word.encode() for word in words]
        ends = torch.tensor([len(letters) for letters in raw]).cumsum(0)
        return torch.frombuffer(bytearray(b"".join(raw)), dtype=torch.uint8), ends

    def word_at(packed, i):
        letters, ends = packed
        start = ends[i - 1] if i else 0
        return bytes(letters[start : ends[i]].tolist()).decode()

    # end
    shelves = [["cat", "", "kangaroo" * 20, "Überfluss"], ["dog", "鳥"] * 3]
    for words, packed in [(words, pack(words)) for words in shelves]:
        assert {type(part) for part in packed} == {torch.Tensor}
        assert [word_at(packed, i) for i in range(len(words))] == words
        size = sum(part.untyped_storage().nbytes() for part in packed)
        assert size <= len("".join(words).encode()) + 8 * len(words)


@koan(
    claims=["B-2-38"],
    see="torch.no_grad",
    hint=[
        "Three things can hold a batch here: a graph, a tensor in your list, a traceback.",
        "Which of your results is a bare number, and how do you get one?",
        "An exception can go without its traceback: look at its methods.",
    ],
    why=(
        "Numbers instead of tensors, no graph, and an exception without the frames it came "
        "through. Each of the three alone would have kept whole batches in memory, and no error "
        "would have pointed at the line."
    ),
    wrong={
        "means, failed = [], []\n"
        "for x in batches:\n"
        "    try:\n"
        "        means.append(net(x).detach()[0])\n"
        "    except ValueError as error:\n"
        "        failed.append(error.with_traceback(None))\n"
        "return means, failed": (
            "One number of a batch is not its mean. And as a view it keeps the memory of the "
            "others."
        ),
        "means, failed = [], []\n"
        "with torch.no_grad():\n"
        "    for x in batches:\n"
        "        try:\n"
        "            means.append(net(x).mean().item())\n"
        "        except ValueError as error:\n"
        "            failed.append(error)\n"
        "return means, failed": "An error brings its traceback: frames, and all that is in them.",
        "import gc\n\n"
        "means, failed = [], []\n"
        "for x in batches:\n"
        "    try:\n"
        "        means.append(net(x).mean())\n"
        "    except ValueError as error:\n"
        "        failed.append(error.with_traceback(None))\n"
        "gc.collect()\n"
        "return means, failed": "The means hold their graphs, and the collector respects that.",
        "means, failed = [], []\n"
        "with torch.no_grad():\n"
        "    for x in batches:\n"
        "        try:\n"
        "            means.append(net(x).mean())\n"
        "        except ValueError as error:\n"
        "            failed.append(str(error))\n"
        "return means, failed": "A text is safe to keep. But the exceptions were asked for.",
    },
    right=[
        "means, failed = [], []\n"
        "for x in batches:\n"
        "    try:\n"
        "        means.append(net(x).detach().mean())\n"
        "    except ValueError as error:\n"
        "        error.__traceback__ = None\n"
        "        failed.append(error)\n"
        "return means, failed",
        "import traceback\n\n"
        "means, failed = [], []\n"
        "with torch.inference_mode():\n"
        "    for x in batches:\n"
        "        try:\n"
        "            means += [float(net(x).mean())]\n"
        "        except ValueError as error:\n"
        "            traceback.clear_frames(error.__traceback__)\n"
        "            error.__traceback__ = None\n"
        "            failed += [error]\n"
        "return means, failed",
    ],
    at={
        "raise ValueError(": (
            "A batch fails here, on purpose. The evaluation should note it, and go on with the "
            "next one."
        ),
        "means, failed = evaluate": (
            "`evaluate` should return two lists: the means, and the errors."
        ),
        "float(mean) for mean in means": (
            "The first list should hold one mean for each batch that went well, in order. Print it."
        ),
        "repr(error) for error in failed": (
            "The means are right. The second list should hold the ValueError of each batch "
            "that failed."
        ),
        'getattr(mean, "grad_fn", None)': (
            "Both lists have the right content. But a mean has a graph, and a graph keeps what "
            "it needs."
        ),
        "len(list(stopped)) == 0": (
            "The means are clean. But a batch that failed is still in memory: what does an "
            "exception carry along?"
        ),
        "len(list(passed)) == 0": (
            "The batches that failed are gone. But one that went well is still in memory. "
            "Which of your results leads to it?"
        ),
    },
)
def test_write_an_evaluation_that_lets_go():
    """Write `evaluate`. It returns two lists: the mean of net(x) for each batch x, and the
    ValueErrors of those batches that failed.

    The collector is off. Only these two lists may be left: no batch, and nothing else that was
    made from a batch.
    """

    def evaluate(net, batches):
        # answer:
        means, failed = [], []
        with torch.no_grad():
            for x in batches:
                try:
                    means.append(net(x).mean().item())
                except ValueError as error:
                    failed.append(error.with_traceback(None))
        return means, failed
        # end

    gc.disable()
    passed, stopped = weakref.WeakSet(), weakref.WeakSet()

    class Square(nn.PReLU):
        def forward(self, x):
            hidden = x**2
            (stopped if hidden.sum() > 99 else passed).update([x, hidden])
            if hidden.sum() > 99:
                raise ValueError(hidden.max().item())
            return hidden * self.weight

    for scale, pair in zip((0.5, 2.0), torch.tensor([[1.0, 3.0], [3.0, 1.0]])):
        means, failed = evaluate(Square(init=scale), (pair * n for n in (1, 9, 3, 8)))
        assert [float(mean) for mean in means] == [5 * scale, 45 * scale]
        assert [repr(error) for error in failed] == ["ValueError(729.0)", "ValueError(576.0)"]
        assert not any(getattr(mean, "grad_fn", None) for mean in means), "a mean has a graph"
        assert len(list(stopped)) == 0, "an error still holds the batch that failed"
        assert len(list(passed)) == 0, "a batch that went well is still in memory"
