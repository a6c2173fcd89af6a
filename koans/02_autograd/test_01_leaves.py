"""Leaves: where gradients land, and the flag that asks for them."""

import pytest
import torch
from torch import nn

from sensei import __


@pytest.mark.tour(20)
def test_who_is_a_leaf():
    """Autograd keeps a history of tensors that need a gradient. A tensor without a history is a
    leaf.

    Write the names of the leaves, in order.
    """
    plain, weight = torch.ones(2), torch.ones(2, requires_grad=True)
    tensors = {
        "plain": plain,
        "doubled": plain * 2,
        "weight": weight,
        "product": weight * 2,
        "same": weight.to(torch.float32),
        "wide": weight.to(torch.float64),
        "detached": (weight * 2).detach(),
    }
    leaves = [name for name, t in tensors.items() if t.is_leaf]
    assert leaves == __


def test_four_moments():
    """Ask for grad_fn four times: x when fresh, x with the flag, then y, then x after backward.

    For each, write the node's name as name() prints it, such as 'SinBackward0', or None.
    """
    x = torch.randn(3)
    fresh = x.grad_fn
    x.requires_grad_()
    flagged = x.grad_fn
    y = x * 2
    y.sum().backward()
    nodes = [fresh, flagged, y.grad_fn, x.grad_fn]
    assert [node and node.name() for node in nodes] == __


def test_bytes_of_numbers_and_gradients():
    """Some say the flag claims memory. Look at four moments: fresh, flagged, after the forward
    pass, after backward.

    Each is [bytes of x, bytes of its gradient].
    """
    x = torch.zeros(4)

    def memory():
        return [x.untyped_storage().nbytes(), 0 if x.grad is None else x.grad.nbytes]

    moments = [memory()]
    x.requires_grad = True
    moments.append(memory())
    y = (x * 3).sum()
    moments.append(memory())
    y.backward()
    moments.append(memory())
    assert moments == __


def test_who_asks_for_a_gradient():
    """Six tensors come into being in six ways. Which of them ask for a gradient?

    Write their names, in order.
    """
    w = torch.zeros(2)
    w.requires_grad = True
    tensors = {
        "called": torch.zeros(2).requires_grad_(),
        "assigned": w,
        "like": torch.zeros_like(w),
        "parameter": nn.Parameter(torch.zeros(2)),
        "product": w * 0,
        "comparison": w > 0,
    }
    asking = [name for name, t in tensors.items() if t.requires_grad]
    assert asking == __


def test_a_layer_that_was_not_called():
    """A linear layer, and tensors made with it. List the names of those that have a grad_fn."""
    layer = nn.Linear(784, 10)
    tensors = {
        "weight": layer.weight,
        "bias": layer.bias,
        "turned": layer.weight.T,
        "output": layer(torch.zeros(2, 784)),
        "halved": nn.Parameter(layer.weight * 0.5),
    }
    recorded = [name for name, t in tensors.items() if t.grad_fn is not None]
    assert recorded == __


def test_behind_a_frozen_number():
    """One of two numbers loses its flag before they are multiplied. Predict both gradients."""
    first = torch.tensor(2.0, requires_grad=True)
    frozen = torch.tensor(5.0, requires_grad=True)
    frozen.requires_grad = False
    product = first * frozen
    product.backward()
    assert [first.grad, frozen.grad] == __


def test_the_flag_of_a_result():
    """Assignment works on w. On the result of a product it does not. Which exception?"""
    w = torch.ones(2)
    w.requires_grad = True
    product = w * 2
    with pytest.raises(Exception) as caught:
        product.requires_grad = False
    assert caught.type is __


def test_freeze_the_first_layer():
    """The first layer should keep its numbers while the last one learns. Repair the marked
    line."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    # your turn:
    net[0].requires_grad = False
    # end
    net(torch.ones(5, 3)).sum().backward()
    learning = [name for name, p in net.named_parameters() if p.grad is not None]
    assert learning == ["2.weight", "2.bias"]


def test_a_weight_in_double_precision():
    """w has the flag, and yet its gradient is missing. Repair the marked line.

    w should be a leaf, and in float64.
    """
    # your turn:
    w = torch.ones(3, requires_grad=True).to(torch.float64)
    # end
    (w * w).sum().backward()
    assert w.grad.dtype is torch.float64
    assert w.grad.tolist() == [2.0, 2.0, 2.0]
    assert w.is_leaf


def test_six_numbers_used_as_a_table():
    """w has six numbers in a row; the loss needs them as a table. The gradient is lost on the way.

    Repair the marked lines.
    """
    w = torch.zeros(6, requires_grad=True)
    table = torch.arange(6.0).view(2, 3)
    # your turn:
    w = w.view(2, 3)
    loss = (w * table).sum()
    # end
    loss.backward()
    assert w.grad.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_fresh_leaf_from_any_tensor():
    """Write `fresh_leaf`: a float32 leaf that asks for a gradient. It has the numbers of the
    source, in memory of its own.

    The source may be of any number type, may have a history, and stays as it is.
    """

    def fresh_leaf(source):
        # your turn:
        __
        # end

    plain, tracked = torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0], requires_grad=True)
    for source in (torch.tensor([1, 2]), plain, tracked, tracked.double() * 2):
        leaf = fresh_leaf(source)
        assert leaf.is_leaf
        assert leaf.dtype is torch.float32
        assert leaf.tolist() == source.tolist()
        assert leaf.data_ptr() != source.data_ptr()
        (leaf * leaf).sum().backward()
        assert leaf.grad.tolist() == [2 * number for number in source.tolist()]
    assert not plain.requires_grad
    assert tracked.grad is None
