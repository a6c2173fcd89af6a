"""Modes: what train() and eval() switch, and what they leave alone."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import __


@pytest.mark.tour(20)
def test_a_module_of_your_own_reads_the_flag():
    """Shout asks for its own mode. Predict what the net says before and after eval()."""

    class Shout(nn.Module):
        def forward(self, x):
            return x * 10 if self.training else x

    net = nn.Sequential(Shout(), nn.Sequential(Shout()))
    x = torch.ones(1)
    assert [net(x).item(), net.eval()(x).item()] == __


def test_who_cares_for_the_mode():
    """Each layer computes once in train mode and once in eval mode.

    For which names do the results differ? Keep the order.
    """
    x = torch.linspace(-3, 5, 64).view(8, 8)
    layers = [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.GroupNorm(2, 8)]
    layers += [nn.RReLU(), nn.Softmax(dim=1), nn.Dropout(0.5)]
    differ = [
        type(layer).__name__
        for layer in layers
        if not torch.equal(layer.train()(x), layer.eval()(x))
    ]
    assert differ == __


def test_what_dropout_leaves():
    """A thousand ones go through a dropout. Which different values come out, the smallest first?"""
    dropout = nn.Dropout(0.75)
    out = dropout(torch.ones(1000))
    assert sorted(set(out.tolist())) == __


def test_a_dropout_that_never_stops():
    """In eval mode this module still drops. Repair it; in train mode it must go on dropping."""

    class Head(nn.Module):
        def forward(self, x):
            # your turn:
            return F.dropout(x, 0.5)
            # end

    x = torch.ones(1000)
    head = Head()
    assert set(head.train()(x).tolist()) == {0.0, 2.0}
    assert torch.equal(head.eval()(x), x)


def test_one_batch_moves_the_running_statistics():
    """The batch has the mean 10. Predict the running mean and the running variance after it."""
    bn = nn.BatchNorm1d(1, momentum=0.25)
    bn(torch.tensor([[8.0], [12.0]]))
    assert bn.running_mean.item() == __
    assert bn.running_var.item() == __


def test_two_batch_norms_that_never_trained():
    """Neither has seen a batch. The mean of x is 10. Predict the rounded mean of each output."""
    fresh = nn.BatchNorm1d(1).eval()
    forgetful = nn.BatchNorm1d(1, track_running_stats=False).eval()
    x = torch.tensor([[8.0], [12.0]])
    assert [round(bn(x).mean().item()) for bn in (fresh, forgetful)] == __


def test_a_batch_of_one():
    """Each batch holds a single sample with four channels. Which ones are refused?"""
    row, picture, pixel = torch.ones(1, 4), torch.ones(1, 4, 2, 2), torch.ones(1, 4, 1, 1)
    calls = {"row": (nn.BatchNorm1d(4), row), "picture": (nn.BatchNorm2d(4), picture)}
    calls |= {"pixel": (nn.BatchNorm2d(4), pixel), "row in eval": (nn.BatchNorm1d(4).eval(), row)}
    calls["row, forgetful"] = (nn.BatchNorm1d(4, track_running_stats=False).eval(), row)
    refused = []
    for name, (norm, x) in calls.items():
        try:
            norm(x)
        except ValueError:
            refused.append(name)
    assert refused == __


def test_who_learns_from_the_batch():
    """Some say no_grad leaves the modes of the layers alone, and they are right.

    Three norms see the same batch: under no_grad, in inference_mode, after eval(). How many batches
    has each one counted?
    """
    x = torch.randn(4, 2)
    a, b, c = (nn.BatchNorm1d(2) for _ in range(3))
    with torch.no_grad():
        a(x)
    with torch.inference_mode():
        b(x)
    c.eval()(x)
    assert [bn.num_batches_tracked.item() for bn in (a, b, c)] == __


def test_what_is_left_after_eval():
    """The net is in eval mode, and then backward is called. Count three things:

    its layers, the entries of its state_dict, and the parameters that have a gradient.
    """
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    net.eval()
    net(torch.ones(4, 2)).sum().backward()
    trained = sum(p.grad is not None for p in net.parameters())
    assert [len(net), len(net.state_dict()), trained] == __


def test_a_new_head_after_eval():
    """The head is put in after eval(). Which names are in train mode now?

    In named_modules() the outermost module has the name ''.
    """
    net = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "body": nn.Linear(2, 2)})
    net.eval()
    net["head"] = nn.Dropout(0.5)
    assert [name for name, module in net.named_modules() if module.training] == __


def test_a_frozen_part_that_moves():
    """A backbone is frozen, and yet it changes while the head is trained. Repair `freeze`.

    It must work for each backbone.
    """

    def freeze(part):
        # your turn:
        part.requires_grad_(False)
        # end

    flat = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    deep = nn.Sequential(nn.Sequential(nn.BatchNorm1d(2)), nn.Linear(2, 2))
    head = nn.Linear(2, 1)
    for backbone in (flat, deep):
        freeze(backbone)
        before = {name: value.clone() for name, value in backbone.state_dict().items()}
        for _ in range(3):
            head(backbone(torch.randn(8, 2) + 5)).sum().backward()
        assert all(p.grad is None for p in backbone.parameters())
        for name, value in backbone.state_dict().items():
            assert torch.equal(value, before[name]), name


def test_features_from_inference_mode():
    """The features were made in inference_mode. Four ways to use them in training.

    Which of them raise an error?
    """
    with torch.inference_mode():
        features = nn.Linear(2, 2)(torch.ones(1, 2))
    scale = torch.ones(2, requires_grad=True)
    ways = {"sum": lambda f: f + scale, "product": lambda f: f * scale}
    ways |= {"detached": lambda f: f.detach() * scale, "cloned": lambda f: f.clone() * scale}
    failed = []
    for name, way in ways.items():
        try:
            way(features).sum().backward()
        except RuntimeError:
            failed.append(name)
    assert failed == __


def test_a_norm_that_stays_frozen():
    """Write what is missing in Tuned: its norm stays in eval mode, whatever mode Tuned is put in.

    All else goes on as usual.
    """

    class Tuned(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.dropout = nn.Dropout(0.5)

        # your turn:
        __
        # end

    net = nn.Sequential(Tuned())
    for mode in (True, False, True):
        net.train(mode)
        assert net[0].norm.training is False
        assert net[0].training is net[0].dropout.training is mode
    assert net[0].train() is net[0]
    assert net[0].eval() is net[0]


def test_predict_and_leave_no_trace():
    """Write `predict`: the output in eval mode, without a graph.

    Each module must be left in the mode in which it was found.
    """

    def predict(model, x):
        # your turn:
        __
        # end

    inner = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    nets = [nn.Sequential(nn.Linear(2, 2), inner), nn.Sequential(inner, nn.RReLU())]
    for net in nets:
        for outer, norm, dropout in ((True, False, True), (True, True, False), (False, True, True)):
            net.train(outer)
            inner[0].train(norm)
            inner[1].train(dropout)
            modes, x = [m.training for m in net.modules()], torch.randn(4, 2)
            y = predict(net, x)
            assert [m.training for m in net.modules()] == modes
            assert torch.allclose(y, copy.deepcopy(net).eval()(x))
            assert not y.requires_grad
