"""Counting bytes: what a training step needs, known before it runs."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from sensei import __


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
    assert luggage == __


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
    assert [moment // layer.weight.nbytes for moment in moments] == __


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
    assert found == __


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
    assert large == __


def test_in_memory_and_in_the_file():
    """A norm gets a mask that is not persistent. How many bytes are in its parameters, in its
    buffers, and in its state_dict?"""
    model = nn.BatchNorm1d(10)
    model.register_buffer("mask", torch.ones(100), persistent=False)
    found = [model.parameters(), model.buffers(), model.state_dict().values()]
    counts = [sum(tensor.nbytes for tensor in tensors) for tensors in found]
    assert counts == __


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
    assert found == __


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
    assert factors == __


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
    assert [size for size in (16, 24, 32, 40, 80) if total <= size * 2**30] == __


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
    assert on_cpu == __
    assert on_gpu == __


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
    assert [len(done) + 1, caught.type.__name__] == __


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
        # your turn:
        model = Tied(words).to("meta")
        # end
        assert type(model) is Tied
        assert model.embedding.weight.shape == model.head.weight.shape == (words, 8)
        assert all(parameter.is_meta for parameter in model.parameters())
        return bytes_of(model.parameters())

    assert [size(10), size(100)] == [320, 3200]


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
    # your turn:
    body.requires_grad_(False)
    # end
    states = states_of(optimizer, *head.parameters())
    assert len(states) == 4, "Adam has forgotten the head"
    assert all(map(torch.equal, states, known))
    assert cost_of_body() == bytes_of(body.parameters())
    step()
    assert cost_of_body() == bytes_of(body.parameters())
    assert not torch.equal(states[0], known[0])


def test_write_the_largest_batch():
    """Write `largest`: the largest number of rows for which kept(rows) is no more than `budget`
    bytes. The models are on "meta", and one of them is larger than your memory."""

    class Scaled(nn.Linear):
        def forward(self, x):
            return x * self.weight.exp().sum(0)

    def largest(kept, budget):
        # your turn:
        __
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


def test_write_a_memory_report():
    """Write `report`: how many bytes are in the parameters, gradients, buffers and states (without
    step counters) of any model and optimizer? A dict with these four names."""

    def report(model, optimizer):
        # your turn:
        __
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
