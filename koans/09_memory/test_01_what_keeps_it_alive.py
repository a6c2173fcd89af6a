"""What keeps it alive: who still holds a tensor, a graph, a batch."""

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

from sensei import __


def test_a_weak_name_for_a_result():
    """A proxy behaves like the object it looks at, but it does not keep that object alive.

    Which exception does the last line of the block raise?
    """
    x = torch.ones(3)
    doubled = weakref.proxy(x * 2)
    with pytest.raises(Exception) as caught:
        doubled.sum()
    assert caught.type is __


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
    assert counts == __


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

    assert [n for n in makers if is_alive(makers[n])] == __


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
    assert [len(alive), links] == __


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

    assert left(torch.no_grad()) == __
    assert left(nullcontext()) == __


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
    assert graph == __
    assert memory == __


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
    assert held == __
    assert weight.grad[0].item() == __


def test_a_slope_that_keeps_its_point():
    """We need the slope of a slope. The numbers are right, but x never dies, not even when the
    collector has run. Repair the marked lines."""

    def curve_of(f):
        x = torch.full((3,), 2.0, requires_grad=True)
        loss = f(x).sum()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # your turn:
            loss.backward(create_graph=True)
            slope = x.grad
            # end
        (curve,) = torch.autograd.grad(slope.sum(), x)
        return weakref.ref(x), curve

    for f, wanted in [(torch.exp, 7.3891), (torch.sin, -0.9093), (torch.log, -0.25)]:
        look, curve = curve_of(f)
        gc.collect()
        torch.testing.assert_close(curve, torch.full((3,), wanted), rtol=0.0, atol=1e-3)
        assert look() is None, "x is still in memory"


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
    assert [name for name in lines if looks[name]() is not None] == __


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
    assert [len(hooks) for hooks in alive] == __


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
        # your turn:
        try:
            return step(batch)
        except torch.OutOfMemoryError:
            return step(half)
        # end

    assert careful(torch.arange(4), room=3) == [0, 2]
    assert careful(torch.arange(6), room=6) == [0, 2, 4, 6, 8, 10]
    assert careful(torch.arange(6), room=5) == [0, 2, 4]
    assert left == [0] * 5


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
    assert written == __


def test_words_without_objects():
    """Write `pack` and `word_at`. pack puts a list of words into a tuple of tensors; word_at
    takes the i-th word out.

    The tensors may hold no more than the text's bytes in UTF-8, and eight for each word.
    """
    # your turn:
    __
    # end
    shelves = [["cat", "", "kangaroo" * 20, "Überfluss"], ["dog", "鳥"] * 3]
    for words, packed in [(words, pack(words)) for words in shelves]:
        assert {type(part) for part in packed} == {torch.Tensor}
        assert [word_at(packed, i) for i in range(len(words))] == words
        size = sum(part.untyped_storage().nbytes() for part in packed)
        assert size <= len("".join(words).encode()) + 8 * len(words)


def test_write_an_evaluation_that_lets_go():
    """Write `evaluate`. It returns two lists: the mean of net(x) for each batch x, and the
    ValueErrors of those batches that failed.

    The collector is off. Only these two lists may be left: no batch, and nothing else that was
    made from a batch.
    """

    def evaluate(net, batches):
        # your turn:
        __
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
