"""Backward: where it starts, what it walks, and what it frees behind it."""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from sensei import __


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
    assert accepted == __


def test_a_gradient_in_one_line():
    """Somebody wants the slopes at once, in one line. Which exception comes back?"""
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = (weight**2).sum()
    with pytest.raises(Exception) as caught:
        loss.backward().tolist()
    assert caught.type is __


def test_a_weight_for_each_element():
    """A vector can go backward, too, if you hand it one weight per element. Predict x.grad."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    y.backward(torch.tensor([1.0, 0.0, 10.0]))
    assert x.grad.tolist() == __


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
    assert outcomes == __


def test_two_losses_on_one_trunk():
    """x.grad should collect the gradients of both losses. Repair the marked lines."""

    def gradient(x):
        h = x**2
        first, second = h.sum(), (3 * h).sum()
        # your turn:
        first.backward()
        second.backward()
        # end
        return x.grad.tolist()

    assert gradient(torch.tensor([1.0, 2.0], requires_grad=True)) == [8.0, 16.0]
    assert gradient(torch.tensor([-1.0, 0.5], requires_grad=True)) == [-8.0, 4.0]


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
    assert [old, x.grad.item()] == __


def test_see_the_gradient_in_the_middle():
    """You want to see the gradient of `hidden`, beside that of x. Repair the marked line."""

    def gradients(x):
        hidden = x * 2
        loss = (hidden**2).sum()
        # your turn:
        loss.backward()
        # end
        return [hidden.grad.tolist(), x.grad.tolist()]

    assert gradients(torch.tensor([1.0, 2.0], requires_grad=True)) == [[4.0, 8.0], [8.0, 16.0]]
    assert gradients(torch.tensor([0.5], requires_grad=True)) == [[2.0], [4.0]]


def test_a_state_carried_from_batch_to_batch():
    """A tiny recurrent network: each round starts from the state of the last one, and learns
    from its own round only. The second round fails. Repair the marked lines."""
    w = torch.tensor(2.0, requires_grad=True)
    state = torch.ones(())
    slopes, states = [], []
    for _ in range(3):
        # your turn:
        state = w * state
        state.backward()
        # end
        slopes.append(w.grad.item())
        states.append(state.item())
        with torch.no_grad():
            w -= w.grad
        w.grad = None
    assert states == [2.0, 2.0, -2.0]
    assert slopes == [1.0, 2.0, 2.0]


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
    assert reports == __
    assert [x.grad.item(), w.grad] == __


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
        # your turn:
        score = critic * fake
        score.backward(retain_graph=True)
        move(critic)
        (-score).backward()
        move(maker)
        # end
        assert [maker.item(), critic.item()] == expected
