"""Counting bytes: what a training step needs, known before it runs.

Documents: B 1
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from sensei import answer, koan


def bytes_of(tensors):
    """How many bytes some tensors have together. A None has none."""
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def states_of(optimizer, *parameters):
    """What an optimizer keeps from step to step, of some parameters or of all; no step counters."""
    states = [optimizer.state.get(p, {}) for p in parameters or optimizer.state]
    return [tensor for state in states for tensor in state.values() if tensor.dim() > 0]


def kept_by(model, x):
    """How many bytes model(x) keeps for backward, x among them, but without the parameters."""
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        model(x)
    own = {parameter.untyped_storage() for parameter in model.parameters()}
    return sum(memory.nbytes() for memory in {t.untyped_storage() for t in kept} - own)


@koan(
    see="torch.optim.Adam",
    hint=[
        "What must each remember from one step to the next? The plain step remembers nothing.",
        "Adam keeps two running means. Of what are they?",
        "RMSprop divides by the size of recent gradients. What does it not have, by default?",
    ],
    why=(
        "Adam keeps a mean of the gradients and one of their squares, momentum one buffer, "
        "RMSprop the squares alone, plain SGD nothing. Each is as large as the weights. So the "
        "choice of the optimizer alone can decide whether a model can be trained on your card."
    ),
    wrong={
        "[1, 1, 1, 1]": "Some say an optimizer keeps a copy of the weights. It holds the weights "
        "themselves, and beside them what its formula needs.",
        "[1, 0, 1, 1]": "How many means does Adam keep?",
        "[2, 0, 1, 2]": "By default RMSprop has no momentum.",
        "[2, 1, 1, 1]": "The gradient lies in .grad. What would SGD need without momentum?",
        "[3, 0, 1, 1]": "The step counter is one number, not as many as there are weights.",
    },
)
def test_the_luggage_of_four_optimizers():
    """A layer makes one step on "meta": no memory, and all the sizes. How many times the bytes of
    the weight does each optimizer keep? Adam, SGD, SGD with momentum, RMSprop."""
    luggage = []
    with_momentum = partial(torch.optim.SGD, momentum=0.9)
    for make in (torch.optim.Adam, torch.optim.SGD, with_momentum, torch.optim.RMSprop):
        layer = nn.Linear(10_000, 10_000, bias=False, device="meta")
        optimizer = make(layer.parameters(), lr=0.1)
        layer(torch.empty(1, 10_000, device="meta")).sum().backward()
        optimizer.step()
        luggage.append(bytes_of(states_of(optimizer)) // layer.weight.nbytes)
    assert luggage == answer([2, 0, 1, 1])


@koan(
    see="torch.optim.Optimizer.step",
    hint=[
        "What could the constructor know of gradients?",
        "Who is the first to write a running mean? And does the next one need another?",
    ],
    why=(
        "Adam makes its means in the first step, and keeps them. That is why a training may run "
        "through its first forward and backward, and run out of memory right after: in the first "
        "step, or in the second forward, which finds less room than the first. (Most optimizers "
        "do so; Adagrad makes its sums in the constructor.)"
    ),
    wrong={
        "[2, 2, 2, 2]": "Some say the constructor makes the buffers. Some do. Adam waits until "
        "there is something to remember.",
        "[0, 2, 2, 2]": "backward knows nothing of optimizers. It writes into .grad.",
        "[0, 0, 2, 4]": "The means are updated in place.",
        "[0, 1, 3, 3]": "Gradients belong to the parameters; they are not counted here.",
    },
)
def test_four_moments_of_an_optimizer():
    """How many times the bytes of the weight does Adam keep: after it was made, after backward,
    after its first step, and after its second?"""
    layer = nn.Linear(10, 10, bias=False)
    optimizer = torch.optim.Adam(layer.parameters())
    moments = [bytes_of(states_of(optimizer))]
    layer(torch.ones(2, 10)).sum().backward()
    moments.append(bytes_of(states_of(optimizer)))
    for _ in range(2):
        optimizer.step()
        moments.append(bytes_of(states_of(optimizer)))
    assert [moment // layer.weight.nbytes for moment in moments] == answer([0, 0, 2, 2])


@koan(
    see="torch.autocast",
    hint=[
        "Weight, gradient, and Adam's two means: four numbers for each parameter.",
        "How many bytes does a float32 take, and how many a bfloat16?",
        "autocast converts what goes into a matrix product. What is stored in the layer?",
    ],
    why=(
        "Four numbers of four bytes: 16. A model in bfloat16 has gradients and states in bfloat16, "
        "too. Under autocast the weights stay float32, and so does all that belongs to them; it "
        "saves on what is kept between forward and backward, not here."
    ),
    wrong={
        "[16, 8, 8]": "Some say autocast halves the weights. It makes copies for the moment, and "
        "leaves the weights as they are.",
        "[4, 2, 4]": "These are the weights. What else does a training step leave in memory?",
        "[16, 16, 16]": "With .bfloat16() the weights change their dtype. Do the others follow?",
        "[8, 4, 8]": "A weight and its gradient. And Adam?",
        "[12, 6, 12]": "Weight and states. But backward leaves something, too.",
    },
)
def test_bytes_for_each_parameter():
    """One step with Adam. How many bytes for each parameter are there after it, counting weights,
    gradients and states: in float32, after .bfloat16(), and in float32 under autocast?"""
    found = []
    for dtype, enabled in [("float32", False), ("bfloat16", False), ("float32", True)]:
        layer = nn.Linear(100, 100).to(getattr(torch, dtype))
        optimizer = torch.optim.Adam(layer.parameters())
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            y = layer(torch.ones(2, 100, dtype=layer.weight.dtype))
        y.float().sum().backward()
        optimizer.step()
        tensors = [t for p in layer.parameters() for t in (p, p.grad)] + states_of(optimizer)
        found.append(bytes_of(tensors) / sum(p.numel() for p in layer.parameters()))
    assert found == answer([16, 8, 16])


@koan(
    see="torch.nn.Conv2d",
    hint=[
        "A convolution uses its few weights at each place of the picture. How many places?",
        "An embedding has a row for each word. How many rows does one batch take out?",
        "Compare numbers, not bytes: all is float32.",
    ],
    why=(
        "Linear: 17 million weights, 33 thousand results. Conv: 37 thousand weights, 1.6 million "
        "results. Embedding: 26 million and half a million. Norm: a thousand and half a million. "
        "So a smaller batch saves a lot in a picture net, and nearly nothing in a wide Linear."
    ),
    wrong={
        "[]": "Some say the weights are what fills the memory. How often is a weight used?",
        "['conv']": "The norm has two numbers for each feature, and it answers for each token.",
        "['conv', 'embedding', 'norm']": "Count the rows of the table, and the words of the batch.",
        "['linear', 'conv', 'norm']": "Eight rows of 4096: is that more than 4096 times 4096?",
    },
)
def test_four_layers_and_their_results():
    """Of which layers is the result larger than all weights? List them in order."""
    with torch.device("meta"):
        tokens = torch.zeros(8, 128, dtype=torch.long)
        layers = {
            "linear": (nn.Linear(4096, 4096), torch.empty(8, 4096)),
            "conv": (nn.Conv2d(64, 64, 3, padding=1), torch.empty(8, 64, 56, 56)),
            "embedding": (nn.Embedding(50_000, 512), tokens),
            "norm": (nn.LayerNorm(512), torch.empty(8, 128, 512)),
        }
    large = [n for n, (f, x) in layers.items() if f(x).nbytes > bytes_of(f.parameters())]
    assert large == answer(["conv", "norm"])


@koan(
    see="torch.nn.Module.buffers",
    hint=[
        "BatchNorm1d(10) learns two vectors, and it remembers two and a counter.",
        "An int64 has 8 bytes. persistent=False: does that concern the memory, or the file?",
    ],
    why=(
        "Two learned vectors: 80. Two remembered ones, an int64 counter and the mask: "
        "40 + 40 + 8 + 400. The mask takes memory and is not saved. So the size of a file is not "
        "the size of a model: count parameters and buffers."
    ),
    wrong={
        "[80, 88, 168]": "A buffer that is not saved lies in memory all the same.",
        "[80, 488, 568]": "persistent=False keeps something out of the state_dict.",
        "[160, 400, 160]": "The running mean is not learned by gradients. What is it then?",
        "[80, 484, 164]": "The counter of batches is an int64.",
    },
)
def test_in_memory_and_in_the_file():
    """A norm gets a mask that is not persistent. How many bytes are in its parameters, in its
    buffers, and in its state_dict?"""
    model = nn.BatchNorm1d(10)
    model.register_buffer("mask", torch.ones(100), persistent=False)
    found = [model.parameters(), model.buffers(), model.state_dict().values()]
    counts = [sum(tensor.nbytes for tensor in tensors) for tensors in found]
    assert counts == answer([80, 488, 168])


@koan(
    see="torch.Tensor.requires_grad_",
    hint=[
        "A frozen weight is still there. What is not made for it?",
        "Adam skips a parameter without a gradient. What does it then remember of it?",
        "4 bytes for each number; 1000 weights in the body, 10 in the head.",
    ],
    why=(
        "A frozen weight costs its own 4 bytes. A trained one costs 16: weight, gradient, two "
        "means. That is why fine-tuning a small part, or small additions to frozen weights, fits "
        "on a card on which full training does not."
    ),
    wrong={
        "[16_000, 160]": "Some say freezing saves time only. Who would make a gradient here?",
        "[8000, 160]": "Is a gradient made for a weight that asks for none?",
        "[12_000, 160]": "Adam was given the body as well. But it makes its means when there is "
        "a gradient to put into them.",
        "[4000, 40]": "The head learns. What does learning need beside the weight?",
        "[1000, 40]": "The bytes, please, not the numbers.",
    },
)
def test_a_frozen_body_and_a_head():
    """The body is frozen, and Adam is given all parameters. After one step, how many bytes belong
    to the body, and how many to the head? Count weights, gradients and states."""
    model = nn.Sequential(nn.Linear(100, 10, bias=False), nn.Linear(10, 1, bias=False))
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 100)).sum().backward()
    optimizer.step()
    found = []
    for layer in model:
        states = states_of(optimizer, layer.weight)
        found.append(bytes_of([layer.weight, layer.weight.grad, *states]))
    assert found == answer([4000, 160])


@koan(
    see="torch.Tensor.backward",
    hint=[
        "What is the shape of a gradient? Does the batch occur in it?",
        "What is kept between forward and backward, and for which rows?",
    ],
    why=(
        "Weights, gradients and states have the shapes of the weights, whatever the batch. What "
        "is kept for backward has a row for each sample. So after an out-of-memory error, a "
        "smaller batch helps if the fourth number is the large one, and else it does not."
    ),
    wrong={
        "[1, 2, 1, 2]": "Some say each sample has a gradient of its own. They are added up on "
        "the way.",
        "[1, 2, 2, 2]": "A state is as large as its weight.",
        "[2, 2, 2, 2]": "Some say twice the batch is twice the memory. Go through the four.",
        "[1, 1, 1, 1]": "One of the four has a row for each sample.",
    },
)
def test_twice_the_batch():
    """The bytes of weights, gradients, Adam's states, and of what is kept for backward.

    By which factor does each grow, from 10 rows to 20?
    """

    def measure(rows):
        model = nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(rows, 50)).sum().backward()
        optimizer.step()
        gradients = [parameter.grad for parameter in model.parameters()]
        counts = [bytes_of(t) for t in (model.parameters(), gradients, states_of(optimizer))]
        return [*counts, kept_by(model, torch.ones(rows, 50))]

    factors = [large / small for small, large in zip(measure(10), measure(20), strict=True)]
    assert factors == answer([1, 1, 1, 2])


@koan(
    claims=["B-1-15"],
    see="torch.autograd.graph.saved_tensors_hooks",
    hint=[
        "131072 rows of 4096 float32 are 2 GiB. A weight of 4096 by 4096 is 1/16 GiB.",
        "What does a ReLU keep, and what does the Linear after it keep? Is that one or two?",
        "Twelve layers, and x itself. Then weights, gradients, and Adam's two means.",
    ],
    why=(
        "13 tensors of 2 GiB are kept (x, and the result of each ReLU), and 0.75 GiB of weights "
        "come four times: together less than 30 GiB. It is the same sum on every card, so the "
        "size of the card decides, and you know it without owning one."
    ),
    wrong={
        "[16, 24, 32, 40, 80]": "Some say the amount of memory is not the cause when a model runs "
        "on one card and not on another, and blame streams. Do the sum: how many GiB?",
        "[24, 32, 40, 80]": "Nearly. Does it count x, and the gradients and states?",
        "[80]": "Twice twelve results, it seems. Do Linear and ReLU both keep something of "
        "their own?",
        "[40, 80]": "What is kept, and four times the weights. Add it up once more.",
    },
)
def test_will_it_fit():
    """A training step with Adam, counted on "meta". On which cards, in GiB, does it fit?

    Count what is kept for backward, weights, gradients and states.
    """
    with torch.device("meta"):
        layers = [layer for _ in range(12) for layer in (nn.Linear(4096, 4096), nn.ReLU())]
        model, x = nn.Sequential(*layers), torch.empty(131_072, 4096)
    optimizer = torch.optim.Adam(model.parameters())
    model(x).sum().backward()
    optimizer.step()
    gradients = [parameter.grad for parameter in model.parameters()]
    total = kept_by(model, x) + bytes_of([*model.parameters(), *gradients, *states_of(optimizer)])
    assert [size for size in (16, 24, 32, 40, 80) if total <= size * 2**30] == answer([32, 40, 80])


@koan(
    see="torch.OutOfMemoryError",
    hint=[
        "Python's own word for it is used when Python itself asks for memory. Who asks here?",
        "A class knows its parents: print its __mro__.",
        "An except line catches a class and whatever is derived from it, and no parent of it.",
    ],
    why=(
        "The CPU's allocator answers with PyTorch's general complaint, a RuntimeError. The error "
        "of a GPU has a class of its own, derived from RuntimeError, so that one line catches "
        "both. MemoryError is Python's, and numpy's. On meta the same tensor is only a count."
    ),
    wrong={
        ("['MemoryError']", "['OutOfMemoryError', 'RuntimeError']"): (
            "Python and numpy raise that one. PyTorch asks for memory by itself."
        ),
        ("['OutOfMemoryError', 'RuntimeError']", "['OutOfMemoryError', 'RuntimeError']"): (
            "The CPU's allocator is older than the special class, and does not use it."
        ),
        ("['RuntimeError']", "['OutOfMemoryError']"): "Has the special class a parent in the list?",
        ("['RuntimeError']", "['MemoryError', 'OutOfMemoryError']"): (
            "The names are alike. What does its __mro__ say?"
        ),
        ("['OSError']", "['OutOfMemoryError', 'OSError']"): (
            "The system said no, but PyTorch reports it in its own way."
        ),
    },
    at={
        "assert on_gpu ==": (
            "The CPU's error is right. Now the error of a full GPU: print "
            "torch.OutOfMemoryError.__mro__. Which of the four are in it?"
        ),
    },
)
def test_an_exbibyte_please():
    """On "meta" you can have a tensor of an exbibyte. The CPU refuses, with some error.

    Four classes to write behind `except`. Which would catch this error? And which would catch
    the error of a full GPU, torch.OutOfMemoryError?
    """
    classes = [MemoryError, torch.OutOfMemoryError, RuntimeError, OSError]
    assert torch.empty(2**58, device="meta").nbytes == 2**60
    with pytest.raises(Exception) as caught:
        torch.empty(2**58, device="cpu")
    on_cpu = [kind.__name__ for kind in classes if issubclass(caught.type, kind)]
    on_gpu = [kind.__name__ for kind in classes if issubclass(torch.OutOfMemoryError, kind)]
    assert on_cpu == answer(["RuntimeError"])
    assert on_gpu == answer(["OutOfMemoryError", "RuntimeError"])


@koan(
    see="torch.Tensor.is_meta",
    hint=[
        "Which lines ask for shapes and bytes, and which for numbers?",
        "The largest of some unknown numbers: is it a number, or again a tensor on meta?",
        "Is it a wrong value, a wrong type, or something that cannot be done at all?",
    ],
    why=(
        "On meta everything is known but the numbers. forward, backward and max give tensors of "
        "the right shape, and nbytes is a count. tolist() needs numbers: NotImplementedError. "
        "The line after it would fail in the same way; to_empty() moves a layer without numbers."
    ),
    wrong={
        "[2, 'NotImplementedError']": "Gradients have shapes, too. Nothing more is asked here.",
        "[3, 'NotImplementedError']": "The result is one more tensor without a number.",
        "[4, 'NotImplementedError']": "To count bytes, shape and dtype are enough.",
        "[6, 'NotImplementedError']": "A move needs numbers. But so does a line before it.",
        "[5, 'RuntimeError']": "This is the general word. A child of this class says more.",
        "[5, 'TypeError']": "A tensor has this method. Here there is nothing to put into the list.",
    },
)
def test_questions_without_numbers():
    """On "meta" a layer runs and learns without numbers. Which line of the block raises, counted
    from 1? And what is the name of the exception?"""
    layer, done = nn.Linear(2, 2, device="meta"), []
    with pytest.raises(Exception) as caught:
        done.append(layer(torch.ones(5, 2, device="meta")).sum())
        done.append(done[0].backward())
        done.append(layer.weight.grad.max())
        done.append(layer.weight.grad.nbytes)
        done.append(layer.weight.grad.tolist())
        done.append(layer.to("cpu"))
    assert [len(done) + 1, caught.type.__name__] == answer([5, "NotImplementedError"])


@koan(
    see="torch.nn.Module.to",
    hint=[
        "Print the names of the parameters, before and after the move to meta.",
        "Memory on the CPU cannot become a tensor without memory. So the move makes new "
        "parameters, for each name one.",
        "Which place would be better than a move?",
    ],
    why=(
        "A parameter keeps its identity in a move from CPU to GPU: only its data are changed. For "
        "a move to meta that is impossible, so each name gets a new parameter, and shared weights "
        "are shared no more. Built on meta, the model shares them, and never took memory at all."
    ),
    wrong={
        'model = Tied(words // 2).to("meta")': (
            "Half of the words, and each is counted twice. Another model happens to give the "
            "number."
        ),
        'model = Tied(words).to("meta")\nmodel.head = None': (
            "A part that is taken away is not counted. But then it is no longer the whole model."
        ),
        'model = Tied(words).to_empty(device="meta")': (
            "This is a move as well, and makes new parameters in the same way."
        ),
        "model = Tied(words)": "The sharing is right. But now the model takes memory.",
        'model = Tied(words).to("meta")\nmodel.head.weight.requires_grad_(False)': (
            "A frozen parameter has bytes, too. Is it still the one of the embedding?"
        ),
        "import copy\n\nmodel = copy.deepcopy(Tied(words)).to('meta')": (
            "The copy shares its weights as well, and loses that in the move."
        ),
    },
    right=[
        'model = Tied(words).to("meta")\nmodel.head.weight = model.embedding.weight',
        "with torch.device('meta'):\n    model = Tied(words=words)",
    ],
    at={
        "type(model) is Tied": ("The model that is counted should still be a Tied."),
        "model.embedding.weight.shape": (
            "The counted model should have both layers, for all the words."
        ),
        "parameter.is_meta for parameter": (
            "A parameter of your model is not on meta, so it takes memory."
        ),
        "[size(10), size(100)]": (
            "All is on meta. But the count is not right: how many different parameters has "
            "your model, and is that what Tied says?"
        ),
    },
)
def test_two_layers_share_a_weight():
    """A model whose two layers share one weight is counted on "meta", and the count is twice too
    high. Repair the marked line; the model that is counted must be on meta."""

    class Tied(nn.Module):
        def __init__(self, words):
            super().__init__()
            self.embedding = nn.Embedding(words, 8)
            self.head = nn.Linear(8, words, bias=False)
            self.head.weight = self.embedding.weight

    def size(words):
        # answer:
        with torch.device("meta"):
            model = Tied(words)
        # given:
        # model = Tied(words).to("meta")
        # end
        assert type(model) is Tied
        assert model.embedding.weight.shape == model.head.weight.shape == (words, 8)
        assert all(parameter.is_meta for parameter in model.parameters())
        return bytes_of(model.parameters())

    assert [size(10), size(100)] == [320, 3200]


@koan(
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "The flag is about the future, and two things lie in memory from the past. Which of the "
        "three is still missing in your lines?",
        "optimizer.state is a dict: parameter -> its tensors. If something comes back with the "
        "next step: who still makes gradients?",
        "Let go of what belongs to the body only. The head goes on as before.",
    ],
    why=(
        "requires_grad_(False) stops new gradients. The old gradient and Adam's means stay: 12 of "
        "the 16 bytes. They are ordinary entries, in .grad and in optimizer.state, and go when you "
        "drop them. A new optimizer would also forget what it knew of the head."
    ),
    wrong={
        "body.requires_grad_(False)\noptimizer.zero_grad()": (
            "The gradients are gone. Adam's means of the body are still there."
        ),
        "import gc\n\n"
        "body.requires_grad_(False)\n"
        "optimizer.zero_grad()\n"
        "gc.collect()\n"
        "torch.cuda.empty_cache()": "Neither of the two takes away what a dict holds.",
        "body.requires_grad_(False)\n"
        "optimizer.zero_grad()\n"
        "optimizer.state.clear()": "This takes away the head's means as well.",
        "body.requires_grad_(False)\n"
        "optimizer.zero_grad()\n"
        "optimizer = torch.optim.Adam(head.parameters())": (
            "A new optimizer starts from nothing, for the head too."
        ),
        "body.requires_grad_(False)\n"
        "body.zero_grad()\n"
        "optimizer = torch.optim.Adam(head.parameters())": (
            "The bytes are right. But the new Adam has never seen the head: its means are lost."
        ),
        "body.requires_grad_(False)\n"
        "for parameter in body.parameters():\n"
        "    parameter.grad = None\n"
        "optimizer = torch.optim.Adam(head.parameters())": (
            "The bytes are right, and Adam starts again from nothing. What did it know of the head?"
        ),
        "for parameter in body.parameters():\n"
        "    parameter.grad = None\n"
        "    del optimizer.state[parameter]": "Freed. But the next backward reaches it again.",
        "body.requires_grad_(False)\n"
        "for parameter in body.parameters():\n"
        "    del optimizer.state[parameter]": "And the old gradients?",
    },
    right=[
        "body.requires_grad_(False).zero_grad()\n"
        "for parameter in body.parameters():\n"
        "    optimizer.state.pop(parameter, None)",
        "for parameter in body.parameters():\n"
        "    parameter.requires_grad = False\n"
        "    parameter.grad = None\n"
        "    optimizer.state[parameter] = {}",
    ],
    at={
        "len(states) == 4": (
            "What Adam knows of the head is not all there any more. Only what belongs to the "
            "body may go."
        ),
        "all(map(torch.equal, states, known))": (
            "Adam still has four states of the head. But their numbers are others than before."
        ),
        "not torch.equal(states[0], known[0])": (
            "The bytes are right. But a further step no longer changes what Adam knows of the "
            "head. Does it still train it?"
        ),
    },
)
def test_freeze_and_get_the_memory_back():
    """After one step the body is frozen, and still takes 16 bytes for each parameter. Repair the
    marked lines, so that it is 4. What Adam knows of the head must stay."""
    model = nn.Sequential(nn.Linear(100, 10), nn.Linear(10, 1))
    body, head = model
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        model(torch.ones(2, 100)).sum().backward()
        optimizer.step()

    def cost_of_body():
        gradients = [parameter.grad for parameter in body.parameters()]
        states = states_of(optimizer, *body.parameters())
        return bytes_of([*body.parameters(), *gradients, *states])

    step()
    known = [state.clone() for state in states_of(optimizer, *head.parameters())]
    # answer:
    body.requires_grad_(False)
    for parameter in body.parameters():
        parameter.grad = None
        del optimizer.state[parameter]
    # given:
    # body.requires_grad_(False)
    # end
    states = states_of(optimizer, *head.parameters())
    assert len(states) == 4, "Adam has forgotten the head"
    assert all(map(torch.equal, states, known))
    assert cost_of_body() == bytes_of(body.parameters())
    step()
    assert cost_of_body() == bytes_of(body.parameters())
    assert not torch.equal(states[0], known[0])


@koan(
    see="torch.empty",
    hint=[
        "Ask `kept` for some numbers of rows, and look at the differences.",
        "A part may grow with the rows, and a part may be there for any number of rows.",
        "Two measurements give both parts. Or search: it costs no memory on meta.",
    ],
    why=(
        "What is kept is a fixed part plus a part for each row. Two measurements on meta tell "
        "both, so nobody has to try batch sizes until the card says no. (On a real card leave "
        "some room: for temporaries, gradients, and rounding.)"
    ),
    wrong={
        "return budget // kept(1)": "This takes the fixed part once for each row.",
        "return budget // (kept(2) - kept(1))": "Now the fixed part is not counted at all.",
        "rows = 1\nwhile kept(2 * rows) <= budget:\n    rows *= 2\nreturn rows": (
            "A power of two that fits. Is it the largest number that does?"
        ),
        "rows = 1\nwhile kept(rows) <= budget:\n    rows += 1\nreturn rows": (
            "Nearly: this is the first number that does not fit."
        ),
    },
    right=[
        "rows = 1\nwhile kept(rows + 1) <= budget:\n    rows += 1\nreturn rows",
        "import bisect\n"
        "top = 1\n"
        "while kept(top) <= budget:\n"
        "    top *= 2\n"
        "return bisect.bisect_right(range(top), budget, lo=1, key=kept) - 1",
        "import math\nslope = kept(2) - kept(1)\nreturn math.floor((budget - kept(1)) / slope) + 1",
    ],
    at={
        "kept(rows) <= budget": (
            "The rows should fit, and one row more should not. Print kept(rows) and kept(rows + "
            "1) beside the budget: which half failed?"
        ),
        "torch.empty(rows, width": (
            "`kept` was asked for something that is no number of rows. Print what it is given."
        ),
    },
)
def test_write_the_largest_batch():
    """Write `largest`: the largest number of rows for which kept(rows) is no more than `budget`
    bytes. The models are on "meta", and one of them is larger than your memory."""

    class Scaled(nn.Linear):
        def forward(self, x):
            return x * self.weight.exp().sum(0)

    def largest(kept, budget):
        # answer:
        row = kept(2) - kept(1)
        return (budget - kept(1)) // row + 1
        # end

    with torch.device("meta"):
        narrow = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        wide = nn.Sequential(*(nn.Linear(2**16, 2**16) for _ in range(9)))
        scaled = Scaled(64, 64)
    for model, width, budget in [(narrow, 64, 10_000), (wide, 2**16, 2**28), (scaled, 64, 30_000)]:

        def kept(rows, model=model, width=width):
            return kept_by(model, torch.empty(rows, width, device="meta"))

        rows = largest(kept, budget)
        assert kept(rows) <= budget < kept(rows + 1)


@koan(
    see="torch.optim.Optimizer.state_dict",
    hint=[
        "parameters() names a shared weight once, a state_dict names it twice.",
        "A parameter may have no gradient. Its .grad is then None.",
        "A buffer may be missing in the file, and yet be in memory.",
        "optimizer.state: parameter -> {name: tensor}.",
    ],
    why=(
        "Four sums tell where the memory of a training goes; what is kept for backward is the "
        "fifth. Ask for such a report before the card says no, on meta if need be. parameters() "
        "and buffers() name each tensor once, so a shared weight is not counted twice."
    ),
    wrong={
        "return {\n"
        "    'parameters': sum(t.nbytes for t in model.state_dict().values()),\n"
        "    'gradients': bytes_of(p.grad for p in model.parameters()),\n"
        "    'buffers': bytes_of(model.buffers()),\n"
        "    'states': bytes_of(states_of(optimizer)),\n"
        "}": "A state_dict holds buffers too, and a shared weight under each of its names.",
        "return {\n"
        "    'parameters': bytes_of(model.parameters()),\n"
        "    'gradients': bytes_of(model.parameters()),\n"
        "    'buffers': bytes_of(model.buffers()),\n"
        "    'states': bytes_of(states_of(optimizer)),\n"
        "}": "Not each parameter has a gradient.",
        "return {\n"
        "    'parameters': bytes_of(model.parameters()),\n"
        "    'gradients': bytes_of(p.grad for p in model.parameters()),\n"
        "    'buffers': bytes_of(model.buffers()),\n"
        "    'states': 2 * bytes_of(p.grad for p in model.parameters()),\n"
        "}": "So it is with Adam, once it has stepped. Ask the optimizer that you were given.",
        "saved = model.state_dict()\n"
        "return {\n"
        "    'parameters': bytes_of(model.parameters()),\n"
        "    'gradients': bytes_of(p.grad for p in model.parameters()),\n"
        "    'buffers': bytes_of(b for n, b in model.named_buffers() if n in saved),\n"
        "    'states': bytes_of(states_of(optimizer)),\n"
        "}": "A buffer need not be in the state_dict.",
        "return {\n"
        "    'parameters': 4 * sum(p.numel() for p in model.parameters()),\n"
        "    'gradients': 4 * sum(p.numel() for p in model.parameters() if p.grad is not None),\n"
        "    'buffers': bytes_of(model.buffers()),\n"
        "    'states': bytes_of(states_of(optimizer)),\n"
        "}": "Not each number has four bytes.",
    },
    right=[
        "found = dict.fromkeys(['parameters', 'gradients', 'buffers', 'states'], 0)\n"
        "for parameter in model.parameters():\n"
        "    found['parameters'] += parameter.numel() * parameter.element_size()\n"
        "    if parameter.grad is not None:\n"
        "        found['gradients'] += parameter.grad.numel() * parameter.grad.element_size()\n"
        "for buffer in model.buffers():\n"
        "    found['buffers'] += buffer.numel() * buffer.element_size()\n"
        "for state in optimizer.state.values():\n"
        "    found['states'] += sum(t.nbytes for name, t in state.items() if name != 'step')\n"
        "return found",
        "def total(tensors):\n"
        "    return sum(t.nbytes for t in tensors if t is not None)\n"
        "return dict(\n"
        "    parameters=total(model.parameters()),\n"
        "    gradients=total(p.grad for p in model.parameters()),\n"
        "    buffers=total(model.buffers()),\n"
        "    states=bytes_of(states_of(optimizer)),\n"
        ")",
    ],
    at={
        'found.pop("buffers")': (
            "This line looks at the buffers in your report. One of them is in no state_dict, "
            "and yet in memory."
        ),
        "found == {name:": (
            "The buffers are right. Print `found` beside the numbers here. Which entry is off, "
            "and is it before or after backward?"
        ),
    },
)
def test_write_a_memory_report():
    """Write `report`: how many bytes are in the parameters, gradients, buffers and states (without
    step counters) of any model and optimizer? A dict with these four names."""

    def report(model, optimizer):
        # answer:
        return {
            "parameters": bytes_of(model.parameters()),
            "gradients": bytes_of(parameter.grad for parameter in model.parameters()),
            "buffers": bytes_of(model.buffers()),
            "states": bytes_of(states_of(optimizer)),
        }
        # end

    for make, dtype, states in [
        (torch.optim.Adam, torch.float32, [0, 160]),
        (torch.optim.Adagrad, torch.bfloat16, [96, 96]),
    ]:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.BatchNorm1d(8)).to(dtype)
        model[1].weight = model[0].weight
        model[2].requires_grad_(False).register_buffer("mask", torch.ones(5), persistent=False)
        optimizer = make(model.parameters(), lr=0.1)
        for gradients, kept in zip([0, 80], states, strict=True):
            found = report(model, optimizer)
            assert found.pop("buffers") == 16 * dtype.itemsize + 28
            numbers = {"parameters": 96, "gradients": gradients, "states": kept}
            assert found == {name: numbers[name] * dtype.itemsize for name in numbers}
            model(torch.ones(4, 8, dtype=dtype)).sum().backward()
            optimizer.step()
