"""Calling: what layer(x) does around forward, and what a layer is made of."""

import pytest
import torch
from torch import nn

from sensei import __


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
    assert caught.type is __
    assert Twice()(torch.tensor(3.0)).item() == __


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
    assert seen == __


def test_before_and_after_forward():
    """Two hooks that return something. Predict what the caller gets."""

    class Double(nn.Module):
        def forward(self, x):
            return 2 * x

    layer = Double()
    layer.register_forward_hook(lambda module, args, output: output * args[0])
    layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    assert layer(torch.tensor(3.0)).item() == __


def test_a_hook_that_only_wants_to_look():
    """The hook keeps the first layer's output, detached. Since then that layer learns nothing.

    Repair the hook: it must keep the output of the latest call, and leave the training alone.
    """
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    seen = {}

    # your turn:
    model[0].register_forward_hook(
        lambda module, args, output: seen.setdefault("first", output.detach())
    )
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


def test_a_layer_with_a_borrowed_weight():
    """The layer's weight is 2. functional_call runs it with a weight of 5, given by name.

    Somebody misspelt the second name. Predict the three outputs.
    """
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    five, x = torch.tensor([[5.0]]), torch.ones(1, 1)
    first = torch.func.functional_call(layer, {"weight": five}, x)
    second = torch.func.functional_call(layer, {"wieght": five}, x)
    assert [first.item(), second.item(), layer(x).item()] == __


def test_a_layer_that_introduces_itself():
    """repr is what print shows. Predict the whole text, a string."""

    class Noise(nn.Module):
        def extra_repr(self):
            return f"training={self.training}"

    layer = Noise()
    layer.eval()
    assert repr(layer) == __


def test_which_layers_wrap_a_function():
    """Some say each module wraps an autograd.Function of its own, which holds its backward.

    The node of a Function written in Python is a BackwardCFunction. Which of these four layers
    leave one? Name them in this order.
    """
    x = torch.ones(2, 3, 4, 4, requires_grad=True)
    layers = [nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.GELU(), nn.CrossMapLRN2d(2)]
    nodes = {type(layer).__name__: layer(x).grad_fn for layer in layers}
    written = torch.autograd.function.BackwardCFunction
    assert [n for n in nodes if isinstance(nodes[n], written)] == __


def test_a_layer_with_its_own_backward():
    """Upsample makes a picture larger. Some say you can rewrite its backward by hand.

    Here somebody did. Predict the gradient of the two pixels.
    """

    class Silent(nn.Upsample):
        def backward(self, grad):
            return grad * 0

    x = torch.ones(1, 1, 1, 2, requires_grad=True)
    Silent(scale_factor=2)(x).sum().backward()
    assert x.grad.flatten().tolist() == __


def test_two_ways_to_grow_a_picture():
    """Both double the height and the width. How many numbers can each learn?

    And what is the shape of the second one's weight?
    """
    copy = nn.Upsample(scale_factor=2)
    learn = nn.ConvTranspose2d(3, 5, kernel_size=2, stride=2)
    counts = [sum(p.numel() for p in layer.parameters()) for layer in (copy, learn)]
    assert counts == __
    assert learn.weight.shape == __


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
        # your turn:
        __
        # end
        losses = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = (Scale.apply(torch.ones(2), w) - target).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 2


def test_the_last_state_of_each_sample():
    """`summary` should give, for each sample, h and c of the last layer.

    The batch comes first here, they said. Repair it.
    """
    lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True)

    def summary(x):
        output, (h, c) = lstm(x)
        # your turn:
        return torch.cat([h[:, -1], c[:, -1]], dim=1)
        # end

    for batch in (3, 2):
        x = torch.randn(batch, 7, 4)
        states = summary(x)
        assert tuple(states.shape) == (batch, 10)
        assert torch.allclose(states[:, :5], lstm(x)[0][:, -1], atol=1e-6)
        for i in range(batch):
            alone = [state.flatten()[-5:] for state in lstm(x[i : i + 1])[1]]
            assert torch.allclose(states[i], torch.cat(alone), atol=1e-6)


def test_a_sample_of_nothing_but_padding():
    """The mask is True where there is only padding. One sample is padded on the right, one on the
    left, one is all padding.

    The output is clean, the gradient is not. Repair `attend`.
    """
    attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def attend(x, padding):
        # your turn:
        output, _ = attention(x, x, x, key_padding_mask=padding)
        return output.masked_fill(padding[..., None], 0.0)
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


def test_write_a_feature_extractor():
    """Write `features`: it runs the model on x and returns, detached, what `layer` gave.

    Afterwards the model must be as before: no hook may stay behind, whatever happens.
    """

    def features(model, layer, x):
        # your turn:
        __
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
