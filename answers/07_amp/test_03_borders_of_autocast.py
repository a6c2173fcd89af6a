"""Borders of autocast: blocks in blocks, threads, loops and the way back.

Documents: A 5.1
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    see="torch.autocast",
    hint=[
        "The innermost block decides. A block that is switched off casts nothing, up or down.",
        "So in the second block, an operation takes what it gets. What is the dtype of h?",
        "After an inner block, the state of the outer one comes back.",
    ],
    why=(
        "enabled=False means no casts: it does not mean float32. h @ h stays small, and only what "
        "comes in as float32 is computed so. A third block can switch it on again with another "
        "dtype, and each exit brings back what was before."
    ),
    wrong={
        "[torch.float32, torch.float32, torch.float16, torch.bfloat16]": (
            "Some think that enabled=False brings all to float32. Who would cast h?"
        ),
        "[torch.bfloat16, torch.bfloat16, torch.bfloat16, torch.bfloat16]": (
            "The outermost block is not the one that decides."
        ),
        "[torch.bfloat16, torch.float32, torch.float32, torch.bfloat16]": (
            "What is off can be switched on again further in."
        ),
        "[torch.bfloat16, torch.float32, torch.float16, torch.float32]": (
            "Leaving an inner block brings back the state of the outer one."
        ),
    },
    right=["[torch.bfloat16, torch.float, torch.half, torch.bfloat16]"],
)
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
    assert [t.dtype for t in products] == answer(
        [torch.bfloat16, torch.float32, torch.float16, torch.bfloat16]
    )


@koan(
    see="torch.autocast",
    hint=[
        "Where is the switch of autocast kept: in the program, in a thread, in a function?",
        "A decorator switches it on at each call, in whatever thread the call is made.",
    ],
    why=(
        "The state belongs to a thread, and a new thread starts with it switched off. A decorated "
        "function brings its block along, to each thread and outside any block. So decorate "
        "what runs in threads of your own."
    ),
    wrong={
        "[torch.bfloat16, torch.bfloat16, torch.bfloat16, torch.bfloat16]": (
            "Some think a block holds for all that happens meanwhile. Not every thread sees it."
        ),
        "[torch.bfloat16, torch.float32, torch.float32, torch.bfloat16]": (
            "The decorator does not ask where it was written, but where the call is made."
        ),
        "[torch.bfloat16, torch.float32, torch.bfloat16, torch.float32]": (
            "A decorated function needs no block around it."
        ),
    },
    right=["[torch.bfloat16, torch.float, torch.bfloat16, torch.bfloat16]"],
)
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
    assert found == answer([torch.bfloat16, torch.float32, torch.bfloat16, torch.bfloat16])


@koan(
    see="torch.Tensor.register_hook",
    hint=[
        "A hook runs during backward. Which block is around the call of backward()?",
        "A product of yours in a hook is a new call. Is anybody there to cast it?",
    ],
    why=(
        "Outside a block, the way back of a built-in operation has the dtype of its way forward. "
        "Inside, its products are cast again, even those of a float32 forward; and so are new "
        "calls in a hook, or in a Function of yours. Leave backward() outside, and each product "
        "is what it says."
    ),
    wrong={
        "[torch.bfloat16, torch.bfloat16]": (
            "Some think that what was made in the block goes back in the block, too."
        ),
        "[torch.float32, torch.float32]": (
            "The .float() is obeyed. But then comes a product, and who is watching?"
        ),
        "[torch.bfloat16, torch.float32]": "Which of the two calls of backward() is in the block?",
    },
    right=["[torch.float, torch.bfloat16]"],
)
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
    assert [t.dtype for t in squares] == answer([torch.float32, torch.bfloat16])


@pytest.mark.needs(torch=">=2.11")
@koan(
    see="torch.autocast",
    hint=[
        "Within a block, each weight is cast once, and the small copy is used again.",
        "The first call makes the copies under no_grad. Do these know where they come from?",
        "Should a copy that is used again depend on who asked for it first?",
    ],
    why=(
        "The copies are now made with a history, even under no_grad, so all gradients arrive. "
        "It was not always so: for years the copies kept from no_grad had none. The first layer "
        "got no gradient, without a word; and had the look been at the whole net, backward() would "
        "have raised. Old code writes torch.clear_autocast_cache() between the calls."
    ),
    wrong={
        "['1.weight', '1.bias']": (
            "So it was for years, and many pages on the web still say so. The copies have changed."
        ),
        "[]": "Nobody has ever looked at the second layer. What could stop its gradients?",
        "['0.bias', '1.weight', '1.bias']": (
            "Weight and bias are both cast, and both copies are kept. They have the same fate."
        ),
        "['0.weight', '0.bias']": "The way back starts at the end. Does it pass the second layer?",
    },
)
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
    assert found == answer(["0.weight", "0.bias", "1.weight", "1.bias"])


@koan(
    see="torch.nn.Module.bfloat16",
    hint=[
        "In both, the product is made in bfloat16. Where does the weight live between two steps?",
        "How far is 1.0 from the next smaller bfloat16? Is 0.001 half of the way?",
        "A step that is rounded away is not saved up for the next one.",
    ],
    why=(
        "Below 1, bfloat16 goes in steps of 1/256, so 1 - 0.001 is rounded back to 1 each time. "
        "Under autocast the weight is a float32, where small steps add up. That is why one trains "
        "with autocast, and calls .bfloat16() on a model that only predicts."
    ),
    wrong={
        "[0.98, 0.98]": (
            "Some think that both are mixed precision, spelled in two ways. Who keeps the weight?"
        ),
        "[1.0, 1.0]": "The products are small in both. The weight is not.",
        "[0.98, 1.0]": "Which of the two weights has room for a small step?",
    },
)
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
    assert ends == answer([1.0, 0.98])


@koan(
    see="torch.autocast",
    hint=[
        "Print the weight and the loss after each step. Does the loss follow the weight?",
        "autocast casts a weight once, and keeps the small copy. For how long does it keep it?",
        "The copies are dropped where the outermost block ends. Where should it end?",
    ],
    why=(
        "The copy of a weight lives until the outermost block ends. Here that was after the last "
        "step, so each forward pass saw the first weights. One block for each forward pass costs "
        "almost nothing, and the copies are fresh."
    ),
    wrong={
        (
            "for x in batches:\n    loss = layer(x).float().square().mean()\n"
            "    losses.append(loss.item())\n"
            "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
        ): "The weights are fresh, as there is no copy. And there is no mixed precision.",
        (
            "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "    for x in batches:\n"
            "        with torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "            loss = layer(x).float().square().mean()\n"
            "        losses.append(loss.item())\n"
            "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()"
        ): "An inner block ends at each step. But the copies wait for the outermost one.",
        (
            "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "    for x in batches:\n"
            "        loss = layer(x.clone()).float().square().mean()\n"
            "        losses.append(loss.item())\n"
            "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()"
        ): "A fresh x changes nothing: it was never kept. Something else was.",
    },
    right=[
        (
            "for x in batches:\n"
            "    with torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "        y = layer(x)\n"
            "    loss = y.float().square().mean()\n"
            "    losses.append(loss.item())\n"
            "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
        ),
        (
            "with torch.autocast('cpu', dtype=torch.bfloat16, cache_enabled=False):\n"
            "    for x in batches:\n"
            "        loss = layer(x).float().square().mean()\n"
            "        losses.append(loss.item())\n"
            "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()"
        ),
        (
            "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "    for x in batches:\n"
            "        loss = layer(x).float().square().mean()\n"
            "        losses.append(loss.item())\n"
            "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
            "        torch.clear_autocast_cache()"
        ),
    ],
    at={
        "[torch.ones(1, 1)] * 3) == expected": (
            "These are not the losses yet. Print the weight beside each loss: does each step see "
            "its own weight?"
        ),
        "[seen, layer.weight.dtype]": (
            "The losses are right now. But the layer should still work in bfloat16, and its "
            "weight stay float32. Print `seen`."
        ),
    },
)
def test_a_loop_that_stands_still():
    """The weight moves, and the loss does not. Repair the marked lines.

    The layer should still work in bfloat16.
    """

    def train(layer, optimizer, batches):
        losses = []
        # answer:
        for x in batches:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = layer(x).float().square().mean()
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # given:
        # with torch.autocast("cpu", dtype=torch.bfloat16):
        #     for x in batches:
        #         loss = layer(x).float().square().mean()
        #         losses.append(loss.item())
        #         optimizer.zero_grad()
        #         loss.backward()
        #         optimizer.step()
        # end
        return losses

    for start, lr, expected in [(4.0, 0.25, [16.0, 4.0, 1.0]), (3.0, 0.5, [9.0, 0.0, 0.0])]:
        layer, seen = nn.Linear(1, 1, bias=False), set()
        nn.init.constant_(layer.weight, start)
        layer.register_forward_hook(lambda module, args, out, seen=seen: seen.add(out.dtype))
        optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
        assert train(layer, optimizer, [torch.ones(1, 1)] * 3) == expected
        assert [seen, layer.weight.dtype] == [{torch.bfloat16}, torch.float32]


@koan(
    see="torch.amp.custom_bwd",
    hint=[
        "Print the dtype of the gradient that arrives in backward, and of what was saved. "
        "Do they fit?",
        "In forward the block was there, in backward it is not. Two decorators remember it.",
        "torch.amp has one for each method. They ask for the kind of device.",
    ],
    why=(
        "forward ran in the block, and backward() is called outside. custom_fwd notes the state of "
        "autocast, and custom_bwd sets it again. They name their device, and the old ones in "
        "torch.cuda.amp are deprecated."
    ),
    wrong={
        (
            "class Product(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    @torch.amp.custom_fwd(device_type='cpu')\n"
            "    def forward(ctx, x, w):\n"
            "        ctx.save_for_backward(x, w)\n        return x @ w\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            "        x, w = ctx.saved_tensors\n        return grad @ w.T, x.T @ grad"
        ): "The state is noted now, and nobody reads the note.",
        (
            "class Product(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, w):\n"
            "        ctx.save_for_backward(x, w)\n        return x @ w\n\n"
            "    @staticmethod\n"
            "    @torch.amp.custom_bwd(device_type='cpu')\n"
            "    def backward(ctx, grad):\n"
            "        x, w = ctx.saved_tensors\n        return grad @ w.T, x.T @ grad"
        ): "The two decorators belong together: this one reads a note that nobody has written.",
        (
            "class Product(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    @torch.amp.custom_fwd(device_type='cpu', cast_inputs=torch.float32)\n"
            "    def forward(ctx, x, w):\n"
            "        ctx.save_for_backward(x, w)\n        return x @ w\n\n"
            "    @staticmethod\n"
            "    @torch.amp.custom_bwd(device_type='cpu')\n"
            "    def backward(ctx, grad):\n"
            "        x, w = ctx.saved_tensors\n        return grad @ w.T, x.T @ grad"
        ): "It works, and all of it runs in float32. In the block, this product should be small.",
        (
            "class Product(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, w):\n"
            "        x, w = x.bfloat16(), w.bfloat16()\n"
            "        ctx.save_for_backward(x, w)\n        return x @ w\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            "        x, w = ctx.saved_tensors\n        return grad @ w.T, x.T @ grad"
        ): "Now it is small everywhere, even where nobody asked for mixed precision.",
    },
    right=[
        (
            "class Product(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, w):\n"
            "        ctx.save_for_backward(x, w)\n        return x @ w\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            "        x, w = (t.to(grad.dtype) for t in ctx.saved_tensors)\n"
            "        return grad @ w.T, x.T @ grad"
        ),
        (
            "class Product(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, w):\n"
            "        ctx.save_for_backward(x, w)\n        return x @ w\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            "        x, w = ctx.saved_tensors\n"
            "        return grad.to(w.dtype) @ w.T, x.T @ grad.to(x.dtype)"
        ),
    ],
    at={
        "Product.apply(x, w)": (
            "Here the forward of your class is called, and it raises before backward is asked. "
            "Read the message."
        ),
        "y.sum().backward()": (
            "`y` is there, but backward() says no. Read the message: has y a history? Does your "
            "`backward` return a gradient for each input?"
        ),
        "[type(y.grad_fn).__name__, y.dtype]": (
            "This looks at the node's name and at the product's dtype: small in a block, "
            "float32 without one. Print both, in both rounds."
        ),
        "[x.grad.tolist(), w.grad.tolist()]": (
            "The product is right, and backward runs. But a gradient is missing or has the "
            "wrong numbers. Print what backward works with."
        ),
    },
)
def test_a_function_that_crosses_the_border():
    """This Function works, until its forward runs in a block. Repair the class.

    In a block its product is small; without one it stays float32.
    """
    # answer:
    from torch.amp import custom_bwd, custom_fwd

    class Product(torch.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.T, x.T @ grad

    # given:
    # class Product(torch.autograd.Function):
    #     @staticmethod
    #     def forward(ctx, x, w):
    #         ctx.save_for_backward(x, w)
    #         return x @ w
    #
    #     @staticmethod
    #     def backward(ctx, grad):
    #         x, w = ctx.saved_tensors
    #         return grad @ w.T, x.T @ grad
    # end
    for enabled, dtype in [(False, torch.float32), (True, torch.bfloat16)]:
        x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        w = torch.tensor([[3.0, 4.0], [5.0, 6.0]], requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            y = Product.apply(x, w)
        y.sum().backward()
        assert [type(y.grad_fn).__name__, y.dtype] == ["ProductBackward", dtype]
        assert [x.grad.tolist(), w.grad.tolist()] == [[[7.0, 11.0]], [[1.0, 1.0], [2.0, 2.0]]]


@koan(
    see="torch.autocast",
    hint=[
        "Two things make a product small: the block, and inputs that are small already.",
        "The wrapper is called later, perhaps in a block. So where must the switch be?",
        "Switch autocast off around the call, and cast each input before it.",
    ],
    why=(
        "Off means no casts, so the inputs have to be cast by hand, too; and the switch must be "
        "thrown at each call, in the wrapper. Losses, distances and anything that subtracts large "
        "numbers deserve such an island."
    ),
    wrong={
        (
            "def island(*inputs):\n"
            "    with torch.autocast('cpu', enabled=False):\n"
            "        return work(*inputs)\n"
            "return island"
        ): "The casts are off. But some inputs come in small, and nobody makes them larger.",
        "return torch.autocast('cpu', enabled=False)(work)": (
            "The switch is thrown at each call, and well. But some inputs come in small."
        ),
        "return torch.amp.custom_fwd(work, device_type='cpu', cast_inputs=torch.float32)": (
            "In a block it does all that you want. Outside of one it casts nothing at all."
        ),
        (
            "with torch.autocast('cpu', enabled=False):\n"
            "    return lambda *inputs: work(*(t.float() for t in inputs))"
        ): "The switch is off while the function is made. It counts when it is called.",
        "def island(*inputs):\n    return work(*(t.float() for t in inputs))\nreturn island": (
            "The inputs are large. But in a block, the product casts them down again."
        ),
        (
            "def island(*inputs):\n    return work(*(t.float() for t in inputs)).float()\n"
            "return island"
        ): "The dtype is as wanted. The digits were lost before.",
        (
            "with torch.autocast('cpu', enabled=False):\n"
            "    def island(*inputs):\n"
            "        return work(*(t.float() for t in inputs))\n"
            "return island"
        ): "The switch is off while the function is made. It counts when it is called.",
        (
            "def island(*inputs):\n"
            "    with torch.no_grad(), torch.autocast('cpu', enabled=False):\n"
            "        return work(*(t.float() for t in inputs))\n"
            "return island"
        ): "The digits are right. But a loss goes through here, and it wants to go back.",
        (
            "def island(*inputs):\n"
            "    return work(*(t.double() for t in inputs)).float()\n"
            "return island"
        ): "Nothing is lost. But float64 is more than was asked for, and slow on many devices.",
        (
            "def island(*inputs):\n"
            "    torch.set_autocast_enabled('cpu', False)\n"
            "    return work(*(t.float() for t in inputs))\n"
            "return island"
        ): "Who switches it on again, for the rest of the block?",
    },
    right=[
        (
            "off = torch.autocast('cpu', enabled=False)\n"
            "return off(lambda *inputs: work(*[t.float() for t in inputs]))"
        ),
        (
            "@torch.autocast('cpu', enabled=False)\n"
            "def island(*inputs):\n"
            "    return work(*(t.to(torch.float32) for t in inputs))\n"
            "return island"
        ),
    ],
    at={
        "seen.update(": (
            "The work is called, and raises here. In which dtypes do a and b come in? Print them."
        ),
        "sums = [product(x, ones)": (
            "Here your two functions are called, with two inputs and with three, of several "
            "dtypes. `careful` must return a function for all of it."
        ),
        "(ones @ ones.T).dtype": (
            "After your functions, the block around the call is not as it was before. What is "
            "switched must be switched back."
        ),
        "t.dtype for t in sums": (
            "The block around is fine. But not every result is float32. Print the dtypes: in "
            "which rounds does it happen?"
        ),
        "t.item() for t in sums": (
            "The dtypes are right. These are not the numbers yet: they need all the inputs, and "
            "more digits than a small float has."
        ),
        "t.requires_grad for t in sums": (
            "The numbers are right. But a result has no history, so no gradient can go back to x."
        ),
        "seen == {torch.float32}": (
            "The results are right. `seen` notes the dtypes inside the work, and they are not "
            "float32 alone."
        ),
    },
)
def test_write_an_island_of_float32():
    """Write the body of `careful`: it returns a function that does the same work, in float32.

    Whatever block is around the call, and whatever float comes in. The block goes on after it.
    """

    def careful(work):
        # answer:
        def island(*inputs):
            with torch.autocast("cpu", enabled=False):
                return work(*(t.float() for t in inputs))

        return island
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
