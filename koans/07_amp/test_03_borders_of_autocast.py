"""Borders of autocast: blocks in blocks, threads, loops and the way back."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from sensei import __


def test_a_block_in_a_block_in_a_block():
    """Three blocks, one in another, and the middle one is switched off.

    What are the dtypes of the four products?
    """
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = x @ x
        with torch.autocast("cpu", enabled=False):
            products = [h @ h, x @ x]
            with torch.autocast("cpu", dtype=torch.float16):
                products.append(h @ x)
        products.append(x @ x)
    assert [t.dtype for t in products] == __


def test_work_handed_to_a_thread():
    """The same work, called at four places: some calls are made in another thread.

    `marked` is the decorated form. What are the four dtypes?
    """
    x = torch.ones(2, 2)

    def work():
        return (x @ x).dtype

    marked = torch.autocast("cpu", dtype=torch.bfloat16)(work)
    with torch.autocast("cpu", dtype=torch.bfloat16), ThreadPoolExecutor(1) as pool:
        found = [work(), pool.submit(work).result(), pool.submit(marked).result()]
    found.append(marked())
    assert found == __


def test_a_product_on_the_way_back():
    """A hook squares the gradient in float32, it hopes. Call backward outside, then in the block.

    What are the dtypes of its two products?
    """
    x = torch.ones(2, 2, requires_grad=True)
    squares = []
    for inside in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        y.register_hook(lambda grad: squares.append(grad.float() @ grad.float()))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            y.sum().backward()
    assert [t.dtype for t in squares] == __


@pytest.mark.needs(torch=">=2.11")
def test_a_look_before_the_step():
    """The first layer is called under no_grad, to look only. Then, in the same block, comes a call
    of the whole net, for training.

    Which parameters get a gradient? Write their names, in order.
    """
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    x = torch.ones(1, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            net[0](x)
        y = net(x)
    y.sum().backward()
    found = [name for name, p in net.named_parameters() if p.grad is not None]
    assert found == __


def test_twenty_small_steps():
    """Twenty steps of 0.001, from 1.0 downwards: with a model in bfloat16, then under autocast.

    Where do the two weights stand?
    """
    ends = []
    for layer in (nn.Linear(1, 1, bias=False).bfloat16(), nn.Linear(1, 1, bias=False)):
        nn.init.ones_(layer.weight)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.001)
        for _ in range(20):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = layer(torch.ones(1, 1))
            y.sum().backward()
            optimizer.step()
        ends.append(round(layer.weight.item(), 2))
    assert ends == __


def test_a_loop_that_stands_still():
    """The weight moves, and the loss does not. Repair the marked lines.

    The layer should still work in bfloat16.
    """

    def train(layer, optimizer, batches):
        losses = []
        # your turn:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for x in batches:
                loss = layer(x).float().square().mean()
                losses.append(loss.item())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        # end
        return losses

    for start, lr, expected in [(4.0, 0.25, [16.0, 4.0, 1.0]), (3.0, 0.5, [9.0, 0.0, 0.0])]:
        layer, seen = nn.Linear(1, 1, bias=False), set()
        nn.init.constant_(layer.weight, start)
        layer.register_forward_hook(lambda module, args, out, seen=seen: seen.add(out.dtype))
        optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
        assert train(layer, optimizer, [torch.ones(1, 1)] * 3) == expected
        assert [seen, layer.weight.dtype] == [{torch.bfloat16}, torch.float32]


def test_a_function_that_crosses_the_border():
    """This Function works, until its forward runs in a block. Repair the class.

    In a block its product is small; without one it stays float32.
    """

    # your turn:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.T, x.T @ grad

    # end
    for enabled, dtype in [(False, torch.float32), (True, torch.bfloat16)]:
        x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        w = torch.tensor([[3.0, 4.0], [5.0, 6.0]], requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            y = Product.apply(x, w)
        y.sum().backward()
        assert [type(y.grad_fn).__name__, y.dtype] == ["ProductBackward", dtype]
        assert [x.grad.tolist(), w.grad.tolist()] == [[[7.0, 11.0]], [[1.0, 1.0], [2.0, 2.0]]]


def test_write_an_island_of_float32():
    """Write the body of `careful`: it returns a function that does the same work, in float32.

    Whatever block is around the call, and whatever float comes in. The block goes on after it.
    """

    def careful(work):
        # your turn:
        __
        # end

    x, ones = torch.tensor([[256.0, 1.0]], requires_grad=True), torch.ones(2, 1)
    seen = set()

    def minus(a, b, c):
        seen.update({a.dtype, (a @ b).dtype})
        return a @ b - c

    product, difference = careful(torch.mm), careful(minus)
    for dtype in (torch.bfloat16, torch.float16):
        for enabled in (True, False):
            with torch.autocast("cpu", dtype=dtype, enabled=enabled):
                sums = [product(x, ones), difference(x.to(dtype), ones.to(dtype), torch.ones(()))]
                assert (ones @ ones.T).dtype is (dtype if enabled else torch.float32)
            assert [t.dtype for t in sums] == [torch.float32, torch.float32]
            assert [t.item() for t in sums] == [257.0, 256.0]
            assert [t.requires_grad for t in sums] == [True, True]
            assert seen == {torch.float32}
