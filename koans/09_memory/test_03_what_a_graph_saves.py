"""What a graph saves: the memory between forward and backward."""

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

from sensei import __


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


def test_five_operations_and_what_they_keep():
    """The meter `kept_by` catches each tensor that is kept for backward.

    How many does each of the five keep? x and w want gradients; c is a constant.
    """
    x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
    c = torch.ones(3)
    forwards = [x.exp, lambda: x + w, lambda: x * w, lambda: x * c, lambda: torch.cat([x, w])]
    assert [len(kept_by(forward)) for forward in forwards] == __


def test_a_meter_that_keeps_lists():
    """pack puts lists of numbers in the place of tensors, and unpack hands them out again. forward
    does not complain. Which exception does backward raise?"""
    x = torch.zeros(3, requires_grad=True)
    with saved_tensors_hooks(lambda tensor: tensor.tolist(), lambda numbers: numbers):
        y = x.exp().sum()
    assert y.item() == 3.0
    with pytest.raises(Exception) as caught:
        y.backward()
    assert caught.type is __


def test_two_operations_in_a_row():
    """Two chains of two operations. For each: how many tensors are kept, and how many pieces of
    memory are behind them?"""
    x = torch.ones(3, requires_grad=True)
    found = []
    for first in (torch.relu, torch.sin):
        kept = kept_by(lambda first=first: first(x).square())
        found.append([len(kept), len(memories(kept))])
    assert found == __


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
    assert [name for name in ways if kept_by(ways[name])] == __


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
    assert counts == __


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

    assert [peak(2), peak(4), peak(8)] == __


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
    assert same == __


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
    assert counted == __


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
    assert [name for name in changes if raises(changes[name])] == __


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
    assert most == __


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
    assert moments == __


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
    assert made == __


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
        # your turn:
        loss = model(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        # end
        optimizer.step()
        slopes.append(model.bias.grad[0].item())
    assert slopes == [4.0, 4.0, 4.0]
    assert found == [0, 0, 0]


def test_one_byte_for_each_number():
    """This gate keeps four bytes for each number that passes. Repair the marked line so that one
    byte for each is enough. Result and gradient stay the same."""

    def gate(x):
        # your turn:
        return x * (x > 0).float()
        # end

    for shape in [(5,), (3, 4)]:
        x = torch.randn(shape, requires_grad=True)
        kept = memories(kept_by(lambda x=x: gate(x)))
        y = gate(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(y, x.relu())
        torch.testing.assert_close(slope, (x > 0).to(x.dtype))
        assert sum(memory.nbytes() for memory in kept) <= x.numel()


def test_write_a_checkpointed_stack():
    """Write `run`: the layers of the net one after the other, in segments of `size` layers, each
    in a checkpoint. After it, only the result of each segment may be in memory."""

    def run(net, x, size):
        # your turn:
        __
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


def test_write_a_meter_for_activations():
    """Write `activations`: how many bytes does model(x) keep for backward, beside x and the
    parameters? Count each piece of memory once."""

    def activations(model, x):
        # your turn:
        __
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
