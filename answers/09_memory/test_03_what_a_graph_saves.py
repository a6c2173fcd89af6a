"""What a graph saves: the memory between forward and backward.

Documents: A 3.1, A 3.5, B 2, B 3
"""

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

from sensei import answer, koan


def kept_by(forward):
    """Run a forward pass; return each tensor that an operation keeps for its backward."""
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        forward()
    return kept


def memories(tensors):
    """The pieces of memory behind some tensors."""
    return {tensor.untyped_storage() for tensor in tensors}


class Watch:
    """A forward hook. It knows how many of the outputs it has seen are still in memory."""

    def __init__(self, *layers):
        self.seen, self.most = [], 0
        for layer in layers:
            layer.register_forward_hook(self)

    def __call__(self, layer, inputs, output):
        self.seen.append(StorageWeakRef(output.untyped_storage()))
        self.most = max(self.most, self.alive())

    def alive(self):
        return sum(not memory.expired() for memory in self.seen)


@koan(
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "Write down the slopes for x and for w. Which tensors occur in them?",
        "c is a constant: nobody will ask for its slope. What may then be forgotten?",
    ],
    why=(
        "An operation keeps what its slopes need, and only for inputs that want a gradient. A sum "
        "and a cat have slope 1: nothing. exp keeps its result. x * w keeps both factors, each "
        "for the other one's slope. x * c keeps c alone: x would only serve the slope of c."
    ),
    wrong={
        "[1, 2, 2, 2, 2]": "Some say an operation keeps all its inputs. It keeps what it needs.",
        "[1, 0, 2, 2, 0]": "Whose slope would need x in x * c? And is it wanted?",
        "[0, 0, 2, 1, 0]": "One of its own tensors is what exp needs for its slope.",
        "[1, 0, 1, 1, 0]": "Two slopes are wanted in x * w, and they need different tensors.",
    },
)
def test_five_operations_and_what_they_keep():
    """The meter `kept_by` catches each tensor that is kept for backward.

    How many does each of the five keep? x and w want gradients; c is a constant.
    """
    x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
    c = torch.ones(3)
    forwards = [x.exp, lambda: x + w, lambda: x * w, lambda: x * c, lambda: torch.cat([x, w])]
    assert [len(kept_by(forward)) for forward in forwards] == answer([1, 0, 2, 1, 0])


@koan(
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "pack may return anything: nobody looks at it until backward. What goes to unpack then?",
        "An operation's backward calculates with what unpack returns. Is that still possible?",
        "Python has a word for a value of the wrong kind.",
    ],
    why=(
        "What pack returns is stored as it is: a list, a number, the name of a file. unpack must "
        "make a tensor of it again, and that is checked when backward comes. So a meter, too, "
        "hands back what it was given, else it breaks the training that it measures."
    ),
    wrong={
        "RuntimeError": "Most complaints of autograd are of this kind. Here PyTorch is more exact.",
        "AttributeError": "PyTorch looks at what it got before it works with it.",
        "ValueError": "The numbers are right. It is what they are put in.",
    },
)
def test_a_meter_that_keeps_lists():
    """pack puts lists of numbers in the place of tensors, and unpack hands them out again. forward
    does not complain. Which exception does backward raise?"""
    x = torch.zeros(3, requires_grad=True)
    with saved_tensors_hooks(lambda tensor: tensor.tolist(), lambda numbers: numbers):
        y = x.exp().sum()
    assert y.item() == 3.0
    with pytest.raises(Exception) as caught:
        y.backward()
    assert caught.type is answer(TypeError)


@koan(
    see="torch.nn.functional.relu",
    hint=[
        "square keeps what goes into it. relu and sin: what do they keep, input or result?",
        "If two operations keep the same tensor, how often does it lie in memory?",
    ],
    why=(
        "relu keeps its result, and square keeps its input: that is one and the same tensor. sin "
        "keeps its input, so there are two. This is why ReLU costs almost no memory between "
        "layers, and why you must count memory by storages, not by tensors."
    ),
    wrong={
        "[[2, 2], [2, 2]]": "Some say each kept tensor costs memory of its own. Look at whose it "
        "is: has nobody else kept it?",
        "[[1, 1], [2, 2]]": "The meter is called once for each operation that keeps something.",
        "[[2, 1], [2, 1]]": "One of the two functions wants to know what went in.",
    },
)
def test_two_operations_in_a_row():
    """Two chains of two operations. For each: how many tensors are kept, and how many pieces of
    memory are behind them?"""
    x = torch.ones(3, requires_grad=True)
    found = []
    for first in (torch.relu, torch.sin):
        kept = kept_by(lambda first=first: first(x).square())
        found.append([len(kept), len(memories(kept))])
    assert found == answer([[2, 1], [2, 2]])


@koan(
    claims=["B-3-19"],
    see="torch.no_grad",
    hint=[
        "Each of the five was asked for the same numbers. Which ones switch the recording off?",
        "detach() is called on a result. What has happened before?",
    ],
    why=(
        "Only the modes keep nothing. eval() changes what Dropout and BatchNorm do, and records "
        "as before; detach() comes when everything has been kept, and lets go of it afterwards. "
        "How many percent no_grad saves depends on the model."
    ),
    wrong={
        "['train']": "Some say eval() is enough for inference. It does not touch the recording.",
        "['train', 'eval']": "When detach() is called, the net has already run.",
        "['train', 'detach']": "eval() tells layers how to behave. Who tells autograd?",
        "['train', 'eval', 'no_grad', 'detach']": "Less than no_grad() can hardly be kept.",
    },
)
def test_five_ways_to_run_a_net():
    """Five ways to run one net. Which of them keep tensors for backward? List them in order."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.ones(2, 3)
    ways = {
        "train": lambda: net.train()(x),
        "eval": lambda: net.eval()(x),
        "no_grad": lambda: torch.no_grad()(net)(x),
        "inference_mode": lambda: torch.inference_mode()(net)(x),
        "detach": lambda: net(x).detach(),
    }
    assert [name for name in ways if kept_by(ways[name])] == answer(["train", "eval", "detach"])


@koan(
    claims=["B-3-19"],
    see="torch.no_grad",
    hint=[
        "With gradients: who holds the output of the first layer, when the fifth is running?",
        "Without: a layer needs its input while it works. And after that?",
    ],
    why=(
        "With gradients each layer's output stays for backward: five. Without, an output is freed "
        "as soon as the next layer has used it: one going in, one coming out. So the depth of "
        "the net costs no memory, and its widest place decides."
    ),
    wrong={
        "[5, 5]": "Some say no_grad only saves the small nodes of the graph. Who else would hold "
        "an old output?",
        "[5, 1]": "When an output comes to be, what it was made from is still there.",
        "[5, 0]": "An output that you are looking at is in memory.",
        "[2, 2]": "Tanh keeps its output, because backward will need it.",
    },
)
def test_the_outputs_of_five_layers():
    """Watch counts the outputs that are in memory, whenever a layer has made one.

    What is the largest count, with gradients and under no_grad?
    """
    counts = []
    for mode in (torch.enable_grad, torch.no_grad):
        net = nn.Sequential(*(nn.Tanh() for _ in range(5)))
        watch = Watch(*net)
        with mode():
            net(torch.ones(2, requires_grad=True))
        counts.append(watch.most)
    assert counts == answer([5, 2])


@koan(
    claims=["B-2-31"],
    see="torch.utils.checkpoint.checkpoint_sequential",
    hint=[
        "When the last segment has run, what is left of those before it?",
        "The last segment has no checkpoint: all its results are kept.",
        "So two parts add up: one result for each segment before, and all results of one segment.",
    ],
    why=(
        "16/size - 1 segments leave one result each, and the last one keeps all of its `size`: "
        "7 + 2, 3 + 4, 1 + 8. Small segments keep many inputs, large ones have much in them. So "
        "n layers can be trained in the memory of about 2 * sqrt(n), at the price of one more "
        "forward."
    ),
    wrong={
        "[16, 16, 16]": "Some say each result must be there in the end, checkpoint or not. A "
        "segment is run again when its backward comes.",
        "[9, 7, 5]": "Some say the more layers in a segment, the better. How many does the last "
        "one keep?",
        "[8, 4, 2]": "One result for each segment. But the last one keeps more than that.",
        "[2, 4, 8]": "That is what the last segment keeps. Is nothing left of the others?",
        "[10, 8, 10]": "The result of the last segment is counted twice.",
    },
)
def test_where_to_put_the_checkpoints():
    """checkpoint_sequential cuts sixteen layers into segments, with a checkpoint around each but
    the last. Watch counts outputs in memory, in forward and backward.

    What is its largest count with 2, with 4 and with 8 layers in a segment?
    """

    def peak(size):
        net = nn.Sequential(*(nn.Tanh() for _ in range(16)))
        watch = Watch(*net)
        x = torch.ones(2, requires_grad=True)
        checkpoint_sequential(net, 16 // size, x, use_reentrant=False).sum().backward()
        return watch.most

    assert [peak(2), peak(4), peak(8)] == answer([9, 7, 9])


@koan(
    claims=["B-2-32"],
    see="torch.utils.checkpoint.checkpoint",
    hint=[
        "The second forward uses the same weights and inputs. What else enters the numbers here?",
        "preserve_rng_state is True unless you say otherwise. What could it be good for?",
    ],
    why=(
        "The recomputed numbers are the same numbers, so the gradient is the same. Even dropout "
        "drops the same elements: the state of the random generator is kept and put back, unless "
        "you switch that off. A checkpoint trades memory for time, never for accuracy."
    ),
    wrong={
        "['twice']": "Some say a checkpoint trades accuracy for memory. It computes again, with "
        "the same weights and inputs, and by default with the same dice.",
        "['twice', 'checkpoint', 'other dice']": "Without the old state, which elements does the "
        "second run drop?",
        "[]": "The seed is set before each run, so a plain run can be repeated.",
    },
)
def test_the_gradient_behind_a_checkpoint():
    """A net with dropout is run four times from one seed: plain, plain again, and twice in a
    checkpoint. Which of the last three give the gradient of the first?"""
    net = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, 1))
    x = torch.randn(4, 8)

    def gradient(forward, **how):
        torch.manual_seed(0)
        loss = forward(net, x, **how).sum()
        return torch.autograd.grad(loss, net[0].weight)[0]

    plain = gradient(nn.Module.__call__)
    others = {"twice": gradient(nn.Module.__call__)}
    others["checkpoint"] = gradient(checkpoint, use_reentrant=False)
    others["other dice"] = gradient(checkpoint, use_reentrant=False, preserve_rng_state=False)
    same = [name for name in others if torch.allclose(others[name], plain)]
    assert same == answer(["twice", "checkpoint"])


@koan(
    see="torch.nn.BatchNorm1d",
    hint=[
        "num_batches_tracked goes up by one whenever the layer runs in training mode.",
        "Who runs a layer in a checkpoint, and when?",
    ],
    why=(
        "The second run is a real one: it counts the batch again and moves the running mean "
        "again. The gradient is the same as without a checkpoint, since in training mode the layer "
        "uses the statistics of the batch. But what it remembers for eval() has moved twice."
    ),
    wrong={
        "[1, 1]": "Some say recomputing leaves no trace. It runs the same Python again.",
        "[1, 0]": "The first run of a checkpoint is hidden from autograd, not from the layer.",
        "[2, 2]": "Without a checkpoint, backward does not run the layer again.",
        "[1, 3]": "There is one run in forward, and what backward does is no third one.",
    },
)
def test_a_batch_norm_in_a_checkpoint():
    """One batch, forward and backward, without and with a checkpoint.

    How many batches has the layer counted in each case?
    """
    counted = []
    for wrapped in (False, True):
        layer = nn.BatchNorm1d(2)
        x = torch.randn(4, 2, requires_grad=True)
        y = checkpoint(layer, x, use_reentrant=False) if wrapped else layer(x)
        y.sum().backward()
        counted.append(layer.num_batches_tracked.item())
    assert counted == answer([1, 2])


@koan(
    see="torch.utils.checkpoint.checkpoint",
    hint=[
        "In backward the net is run again, as it is then. What is kept must fit what was kept.",
        "What can be compared, when the numbers themselves are not there any more?",
        "Dropout keeps a mask. In which mode does it not?",
    ],
    why=(
        "In eval mode Dropout keeps no mask, and the wider layer keeps a weight of another shape: "
        "backward raises a CheckpointError. Number, shape and dtype of the kept tensors are "
        "compared, not their values. So new numbers in a weight slip through, and the gradient "
        "is wrong. Between forward and backward, leave the net as it is."
    ),
    wrong={
        "['eval', 'zeros', 'wider']": "Some say a checkpoint notices each change. But it "
        "has thrown away what it would have to compare with.",
        "[]": "Some say it notices nothing. Each tensor must find its place again: do all fit?",
        "['wider']": "In one of the modes Dropout has less to keep.",
        "['eval']": "Each Linear keeps something whose shape depends on its width.",
        "['zeros', 'wider']": "Are the values compared, or the shapes?",
    },
)
def test_a_switch_between_forward_and_backward():
    """Between the forward and the backward of a checkpoint, somebody changes the net. With which
    of the three changes does backward raise an exception? List them in order."""

    def raises(change):
        net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        loss = checkpoint(net, torch.ones(4, 8), use_reentrant=False).sum()
        change(net)
        try:
            loss.backward()
        except CheckpointError:
            return True
        return False

    changes = {"eval": lambda net: net.eval(), "zeros": lambda net: net[2].weight.data.zero_()}
    changes["wider"] = lambda net: net.__setitem__(2, nn.Linear(8, 2))
    assert [name for name in changes if raises(changes[name])] == answer(["eval", "wider"])


@koan(
    see="torch.Tensor.backward",
    hint=[
        "When may the kept tensors of a batch be freed?",
        "A sum of losses is a loss with a long history.",
    ],
    why=(
        "What counts is how many rows lie between a forward and its backward. With a backward for "
        "each small batch it is one small batch; the gradients add up in .grad, which does not "
        "grow. If the losses are added first, the graphs of all batches wait for the end."
    ),
    wrong={
        "[64, 16, 16]": "Some say it is the small batches that save memory. When does each of "
        "them let go?",
        "[64, 64, 64]": "backward() frees what its graph has kept. When is it called?",
        "[16, 16, 16]": "In the first way there is one batch, with all rows in it.",
        "[64, 32, 64]": "When the next batch comes, does anything still hold the old output?",
    },
)
def test_sixty_four_rows_in_three_ways():
    """One batch of 64; four of 16 with a backward each; four of 16, losses added, one backward.

    What is the largest number of rows of the model's output in memory at a time?
    """
    model = nn.Sequential(nn.Linear(10, 10), nn.Tanh())
    most = []
    for size, one_by_one in [(64, True), (16, True), (16, False)]:
        watch, losses = Watch(model[1]), []
        for batch in torch.ones(64, 10).split(size):
            losses.append(model(batch).sum())
            if one_by_one:
                losses.pop().backward()
        if losses:
            sum(losses).backward()
        most.append(watch.most * size)
    assert most == answer([64, 16, 64])


@koan(
    claims=["B-3-29"],
    see="torch.Tensor.backward",
    hint=[
        "Each tanh keeps its result. Who lets go of it, if nobody else holds it?",
        "A second backward needs what the first one needed.",
        "The loss still has a name in the end. Does that keep the results?",
    ],
    why=(
        "With retain_graph=True nothing is let go, nor is anything added. A plain backward frees "
        "what each node has kept, as it passes, though the loss and its nodes are still there. So "
        "a flag that was only meant to silence an error keeps a whole forward in memory."
    ),
    wrong={
        "[3, 0, 0]": "Then the second backward would have found nothing to work with.",
        "[3, 3, 3]": "Some say all stays until the loss goes. What does a plain backward do?",
        "[3, 6, 0]": "Some say the flag makes a copy of the graph. It only says: do not free.",
        "[3, 0, 3]": "A second backward does not run the forward again.",
    },
)
def test_two_backwards_and_the_memory():
    """Three results are kept for backward. How many of them are in memory: before backward, after
    one with retain_graph=True, and after a plain one?"""
    net = nn.Sequential(*(nn.Tanh() for _ in range(3)))
    watch = Watch(*net)
    loss = net(torch.ones(2, requires_grad=True)).sum()
    moments = [watch.alive()]
    loss.backward(retain_graph=True)
    moments.append(watch.alive())
    loss.backward()
    moments.append(watch.alive())
    assert moments == answer([3, 3, 0])


@koan(
    claims=["A-3.5-18", "A-3.5-15"],
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "None is no tensor. Where does the next backward put its numbers then?",
        "Zeros are written into a tensor. Which one?",
    ],
    why=(
        "After None, backward must make a new gradient each time; zeros are written into the old "
        "one, and backward adds to it. What None saves is something else: from the clearing until "
        "the next backward there is no gradient, so its memory is free for the forward pass."
    ),
    wrong={
        "[1, 3]": "Some say set_to_none=True avoids making gradients again and again. After None "
        "there is nothing left to be used again.",
        "[3, 3]": "To set numbers to zero, no new tensor is needed.",
        "[1, 1]": "The gradients are held in a list here. So a tensor that was let go of is not "
        "the next one.",
    },
)
def test_how_many_gradients_are_made():
    """Three rounds of clearing and backward. How many different tensors have been the gradient?

    First for set_to_none=True, then for False.
    """
    made = []
    for to_none in (True, False):
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        gradients = []
        for _ in range(3):
            optimizer.zero_grad(set_to_none=to_none)
            (weight * 2).sum().backward()
            gradients.append(weight.grad)
        made.append(len({id(gradient) for gradient in gradients}))
    assert made == answer([3, 1])


@koan(
    claims=["A-3.5-17", "A-3.5-15", "A-3.1-16"],
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "When do old gradients and new kept tensors lie in memory together?",
        "After step() nobody needs the gradients. How long may they stay?",
        "Is it a matter of how you clear, or of when?",
    ],
    why=(
        "The old gradients were still there while the forward pass filled the memory. Cleared "
        "before it, they make room. That is what set_to_none is about, and it is the default "
        "since 2.0: to write it down changes nothing, neither by 18 percent nor by one."
    ),
    wrong={
        "loss = model(batch).sum()\nmodel.zero_grad(set_to_none=True)\nloss.backward()": (
            "Some say set_to_none=True is what saves memory. It is the default already. What does "
            "the forward pass find here?"
        ),
        "optimizer.zero_grad(set_to_none=False)\nloss = model(batch).sum()\nloss.backward()": (
            "At the right moment. But zeros take as much memory as any numbers."
        ),
        "loss = model(batch).sum()\nloss.backward()": "Now the gradients add up over the rounds.",
        "import gc\n\n"
        "gc.collect()\n"
        "loss = model(batch).sum()\n"
        "optimizer.zero_grad()\n"
        "loss.backward()": "A gradient that a parameter holds is no garbage.",
        "torch.cuda.empty_cache()\n"
        "loss = model(batch).sum()\n"
        "optimizer.zero_grad()\n"
        "loss.backward()": "This gives back what nobody uses. The parameters use their gradients.",
    },
    right=[
        "model.zero_grad()\nloss = model(batch).sum()\nloss.backward()",
        "for parameter in model.parameters():\n"
        "    parameter.grad = None\n"
        "loss = model(batch).sum()\n"
        "loss.backward()",
    ],
    at={
        "model.bias.grad[0].item()": (
            "This line reads the gradient of the round, and so does step() before it. After "
            "your lines there is none."
        ),
        "assert slopes ==": (
            "Each round should end with the gradient of its own batch, and of no other. Print "
            "`slopes`."
        ),
        "assert found ==": (
            "The gradients are right. But old ones still exist when a forward pass begins. "
            "Print `found`: in which rounds?"
        ),
    },
)
def test_old_gradients_during_the_forward():
    """The hook notes how many bytes of gradients exist when a forward pass begins.

    Repair the marked lines so that there are none.
    """
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found, slopes = [], []

    def look(*_):
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append(sum(gradient.nbytes for gradient in gradients))

    model.register_forward_pre_hook(look)
    for batch in torch.rand(3, 4, 8):
        # answer:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        # given:
        # loss = model(batch).sum()
        # optimizer.zero_grad()
        # loss.backward()
        # end
        optimizer.step()
        slopes.append(model.bias.grad[0].item())
    assert slopes == [4.0, 4.0, 4.0]
    assert found == [0, 0, 0]


@koan(
    see="torch.where",
    hint=[
        "Ask the meter for the dtype of what is kept.",
        "A yes or a no takes one byte, as long as nobody turns it into something larger.",
        "The input need not be kept, nor the result.",
    ],
    why=(
        "Which tensor is kept is up to the formula you write. A bool takes one byte, a float32 "
        "four. (Where the next layer keeps the gate's result anyway, relu is better still: it "
        "keeps that same tensor.)"
    ),
    wrong={
        "return x * (x > 0).half()": "Half of it. One byte would do.",
        "return x": "Nothing is kept, and nothing is held back. A gate must close below zero.",
        "return x.relu()": "relu keeps its result: four bytes for each number.",
        "return x.clamp(min=0)": "clamp keeps its input: four bytes for each number.",
        "with torch.no_grad():\n    return x * (x > 0)": "Nothing is kept, and nothing is learned.",
        "return x * (x > 0).float().detach()": "A mask wants no gradient anyway. It is kept as "
        "it is.",
        "from torch.utils.checkpoint import checkpoint\n"
        "return checkpoint(torch.relu, x, use_reentrant=False)": (
            "A checkpoint keeps the input: four bytes for each number."
        ),
    },
    right=[
        "return torch.where(x > 0, x, 0.0)",
        "return x.masked_fill(x <= 0, 0.0)",
        "return (x > 0) * x",
        "mask = x.detach() > 0\nreturn mask * x",
    ],
    at={
        "torch.autograd.grad(y.sum(), x)": (
            "The gradient of the gate is asked for here, but no way leads from y back to x."
        ),
        "torch.testing.assert_close(y,": (
            "The result is not that of the old gate: positive numbers pass, all others become 0."
        ),
        "torch.testing.assert_close(slope,": (
            "The result is right, the gradient is not: it should be 1 where a number passes, "
            "and 0 elsewhere."
        ),
    },
)
def test_one_byte_for_each_number():
    """This gate keeps four bytes for each number that passes. Repair the marked line so that one
    byte for each is enough. Result and gradient stay the same."""

    def gate(x):
        # answer:
        return x * (x > 0)
        # given:
        # return x * (x > 0).float()
        # end

    for shape in [(5,), (3, 4)]:
        x = torch.randn(shape, requires_grad=True)
        kept = memories(kept_by(lambda x=x: gate(x)))
        y = gate(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(y, x.relu())
        torch.testing.assert_close(slope, (x > 0).to(x.dtype))
        assert sum(memory.nbytes() for memory in kept) <= x.numel()


@koan(
    claims=["B-2-31"],
    see="torch.utils.checkpoint.checkpoint",
    hint=[
        "A slice of a Sequential is a Sequential, so it can be called.",
        "What comes out of one segment goes into the next one.",
        "The last segment needs a checkpoint as well.",
    ],
    why=(
        "A loop, a slice, a checkpoint: nothing more is behind checkpoint_sequential, except that "
        "this one leaves the last segment plain, since backward begins there at once. Pass "
        "use_reentrant=False: without it PyTorch warns and takes the older variant."
    ),
    wrong={
        "return net(x)": "The right numbers, and everything is kept.",
        "return checkpoint(net, x, use_reentrant=False)": "One segment for all. In backward "
        "everything would be kept again.",
        "return checkpoint_sequential(net, len(net) // size, x, use_reentrant=False)": (
            "Close, but it leaves the last segment without a checkpoint."
        ),
        "for layer in net:\n"
        "    x = checkpoint(layer, x, use_reentrant=False)\n"
        "return x": "A checkpoint around each layer keeps the input of each layer.",
        "for start in range(0, len(net), size):\n"
        "    x = checkpoint(net[start:], x, use_reentrant=False)\n"
        "return x": "These segments have no end, so most layers run more than once.",
        "for i in range(0, len(net), size):\n"
        "    x = checkpoint(lambda h: net[i : i + size](h), x, use_reentrant=False)\n"
        "return x": "The numbers are right, the gradient is not. The second run happens in "
        "backward. What is i by then?",
        "for start in range(0, len(net), size):\n"
        "    def segment(h):\n"
        "        return net[start : start + size](h)\n\n"
        "    x = checkpoint(segment, x, use_reentrant=False)\n"
        "return x": "The numbers are right, the gradient is not. The second run happens in "
        "backward. What is start by then?",
        "with torch.no_grad():\n    return net(x)": "Nothing is kept, and there is no backward.",
    },
    right=[
        "from functools import partial\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "layers = list(net)\n"
        "while layers:\n"
        "    part, layers = nn.Sequential(*layers[:size]), layers[size:]\n"
        "    x = partial(checkpoint, part, use_reentrant=False)(x)\n"
        "return x",
        "def segment(start, h):\n"
        "    for layer in net[start : start + size]:\n"
        "        h = layer(h)\n"
        "    return h\n"
        "for start in range(0, len(net), size):\n"
        "    x = checkpoint(segment, start, x, use_reentrant=False)\n"
        "return x",
    ],
    at={
        "len(watch.seen) == 6": (
            "During your run each of the six layers should run exactly once. Is one left out, "
            "or run again?"
        ),
        "watch.alive() ==": (
            "Each layer ran once. But in memory there should be one result for each segment. "
            "Print watch.alive()."
        ),
        "y.sum().backward()": (
            "The memory is right, but backward fails. What does it run again, and is that the "
            "same as before?"
        ),
        "torch.testing.assert_close(x.grad, plain)": (
            "The memory is right, the gradient is not. A segment runs again in backward: does "
            "it do the same there?"
        ),
    },
)
def test_write_a_checkpointed_stack():
    """Write `run`: the layers of the net one after the other, in segments of `size` layers, each
    in a checkpoint. After it, only the result of each segment may be in memory."""

    def run(net, x, size):
        # answer:
        for start in range(0, len(net), size):
            x = checkpoint(net[start : start + size], x, use_reentrant=False)
        return x
        # end

    for size in (2, 3):
        net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
        x = torch.randn(2, 4, requires_grad=True)
        (plain,) = torch.autograd.grad(net(x).sum(), x)
        watch = Watch(*net)
        y = run(net, x, size)
        assert len(watch.seen) == 6
        assert watch.alive() == 6 // size
        y.sum().backward()
        torch.testing.assert_close(x.grad, plain)


@koan(
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "kept_by tells what is kept; memories makes pieces of memory of it, each one once.",
        "Weights are kept too, but they are there anyway. Sets can be subtracted.",
        "x was there before, as well.",
    ],
    why=(
        "This number grows with the batch, while weights, gradients and optimizer states do not. "
        "It decides how large a batch may be. Count each storage once, and leave out what "
        "exists anyway, and the meter fits any model."
    ),
    wrong={
        "return sum(tensor.nbytes for tensor in kept_by(lambda: model(x)))": (
            "Everything that was kept, the weights among it, and some of it twice."
        ),
        "return sum(memory.nbytes() for memory in memories(kept_by(lambda: model(x))))": (
            "Each piece once. But the weights and x are not new."
        ),
        "kept = memories(kept_by(lambda: model(x))) - memories(model.parameters())\n"
        "return sum(memory.nbytes() for memory in kept)": "x is the caller's, not the model's.",
        "own = [x, *model.parameters()]\n"
        "kept = [t for t in kept_by(lambda: model(x)) if not any(t is o for o in own)]\n"
        "return sum(tensor.nbytes for tensor in kept)": (
            "Two operations may keep the same memory. And a transposed weight is another tensor "
            "on the same memory."
        ),
        "with torch.no_grad():\n    return model(x).nbytes": "That is the result alone.",
        "own = memories([x, *model.parameters()])\n"
        "kept = memories(kept_by(lambda: model.eval()(x))) - own\n"
        "return sum(memory.nbytes() for memory in kept)": (
            "A meter should not change what it measures: this one switches the mode."
        ),
    },
    right=[
        "own = memories([x, *model.parameters(), *model.buffers()])\n"
        "return sum(m.nbytes() for m in memories(kept_by(lambda: model(x))) if m not in own)",
        "own = {t.untyped_storage().data_ptr() for t in [x, *model.parameters()]}\n"
        "kept = {}\n"
        "for tensor in kept_by(lambda: model(x)):\n"
        "    storage = tensor.untyped_storage()\n"
        "    if storage.data_ptr() not in own:\n"
        "        kept[storage.data_ptr()] = storage.nbytes()\n"
        "return sum(kept.values())",
    ],
    at={
        "assert found ==": (
            "Print `found` and `hidden`. Do you count something twice, or something that was "
            "there before? Or do you miss a piece?"
        ),
        "activations(nn.Sequential(first, nn.ReLU(), last), x) == 0": (
            "With gradients the four nets are right. Under no_grad nothing is kept, but your "
            "meter finds something."
        ),
        "activations(model, x) > hidden": (
            "All nets before are right. This one has a Dropout in training mode, and it keeps "
            "a mask. Does your meter see it?"
        ),
        "assert model.training": (
            "All counts are right. But the model has another mode than before. A meter should "
            "leave things as they are."
        ),
    },
)
def test_write_a_meter_for_activations():
    """Write `activations`: how many bytes does model(x) keep for backward, beside x and the
    parameters? Count each piece of memory once."""

    def activations(model, x):
        # answer:
        kept = memories(kept_by(lambda: model(x))) - memories([x, *model.parameters()])
        return sum(memory.nbytes() for memory in kept)
        # end

    first, last = nn.Linear(3, 4), nn.Linear(4, 2)
    middles = [[nn.ReLU()], [nn.ReLU(inplace=True)], [nn.GELU()], [nn.Tanh(), nn.Tanh()]]
    for rows in (5, 10):
        x = torch.ones(rows, 3)
        found = [activations(nn.Sequential(first, *middle, last), x) for middle in middles]
        hidden = first(x).nbytes
        assert found == [hidden, hidden, 2 * hidden, 2 * hidden]
        with torch.no_grad():
            assert activations(nn.Sequential(first, nn.ReLU(), last), x) == 0
    model = nn.Sequential(first, nn.Dropout(), last)
    assert activations(model, x) > hidden
    assert model.training
