"""Autocast: each operation chooses its own precision.

Documents: A 5.1
"""

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from sensei import answer, koan


@contextlib.contextmanager
def autocast_of_cuda():
    """The autocast of a GPU that need not exist: tensors have a device and a dtype, and no data."""
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@koan(
    claims=["A-5.1-05", "A-5.1-06", "A-5.1-07"],
    see="torch.autocast",
    hint=[
        "autocast watches calls, not tensors. Which of these calls do heavy work with matrices?",
        "An operation on no list takes what it gets. Does one of these get something small?",
        "Two dtypes in one sum: the wider one wins, as it does everywhere. And float64?",
    ],
    why=(
        "Products of matrices and convolutions are on a list: float32 inputs are cast, and the "
        "result is small. relu keeps what it gets. A sum with a float32 is float32 again, "
        "a new tensor is what you ask for, and float64 is left alone."
    ),
    wrong={
        "['new', 'x * 2', 'x @ x', 'conv2d', 'relu', 'x + small']": (
            "Some think that in the block all floats become small. Nothing touches a tensor "
            "that no listed operation has asked for."
        ),
        "['x @ x', 'relu']": "A convolution is heavy work, too. It has the same kernels.",
        "['x @ x', 'conv2d']": "One operation is on no list, and got something small.",
        "['x @ x', 'conv2d', 'relu', 'x + small']": "In a sum, the smaller dtype does not win.",
        "['x @ x', 'doubles', 'conv2d', 'relu']": "If you ask for float64, you have a reason.",
    },
)
def test_which_results_are_small():
    """Here is a block of mixed precision. Which results have the dtype bfloat16?

    Write their names, in order.
    """
    x = torch.ones(2, 2)
    image = torch.ones(1, 1, 2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = {"new": torch.ones(2), "x * 2": x * 2, "x @ x": x @ x}
        results["doubles"] = x.double() @ x.double()
        results["conv2d"] = F.conv2d(image, image)
        results["relu"] = torch.relu(x @ x)
        results["x + small"] = x + x @ x
    small = [name for name, t in results.items() if t.dtype is torch.bfloat16]
    assert small == answer(["x @ x", "conv2d", "relu"])


@koan(
    claims=["A-5.1-08"],
    see="torch.autocast",
    hint=[
        "An operation may be on a list of those that must run in float32. Or on no list at all.",
        "The docs of torch.amp have a table for each device: what is cast to float32 there?",
        "A loss is one number at the end of all. Who would save bytes there?",
    ],
    why=(
        "On cuda, softmax, layer_norm, exp and the losses are on the float32 list. On the CPU, "
        "only the losses are, and few others: the rest takes what it gets, and is careful inside. "
        "So code that relies on a float32 softmax must say .float() itself."
    ),
    wrong={
        (
            "['softmax', 'layer_norm', 'exp', 'mse_loss']",
            "['softmax', 'layer_norm', 'exp', 'mse_loss']",
        ): (
            "Some say that softmax and layer_norm stay in float32 under autocast. "
            "True for one of these two devices."
        ),
        ("[]", "['softmax', 'layer_norm', 'exp', 'mse_loss']"): (
            "The CPU's list is short. It is not empty."
        ),
        ("['mse_loss']", "['mse_loss']"): "Two devices, two lists. The one of cuda is long.",
        ("['mse_loss']", "['softmax', 'layer_norm', 'exp', 'relu', 'mse_loss']"): (
            "One of these cannot lose a digit. It need not be on any list."
        ),
    },
    at={
        'widened("cpu")': (
            "This line asks the CPU alone, and its list is short. The docs of torch.amp have it."
        ),
        'widened("cuda")': (
            "The CPU is right. cuda has a list of its own, and it is not the same one."
        ),
    },
)
def test_one_list_for_each_device():
    """Some operations widen a bfloat16 input to float32. Which ones: on the CPU, then on cuda?

    Each device has a list of its own, and that of the CPU may be short. (No GPU needed:
    `autocast_of_cuda` only pretends.)
    """
    ops = {"softmax": lambda t: t.softmax(-1), "layer_norm": lambda t: F.layer_norm(t, (4,))}
    ops |= {"exp": torch.exp, "relu": torch.relu, "mse_loss": lambda t: F.mse_loss(t, t)}

    def widened(device):
        h = torch.ones(4, 4, dtype=torch.bfloat16, device=device)
        return [name for name, op in ops.items() if op(h).dtype is torch.float32]

    with torch.autocast("cpu"):
        assert widened("cpu") == answer(["mse_loss"])
    with autocast_of_cuda():
        assert widened("cuda") == answer(["softmax", "layer_norm", "exp", "mse_loss"])


@koan(
    claims=["A-5.1-05"],
    see="torch.Tensor.retain_grad",
    hint=[
        "What does the block change: the layer, or what comes out of it?",
        "A gradient has the dtype of its tensor. Ask this for each of the three.",
    ],
    why=(
        "The layer is not touched: weights, their gradients and so the optimizer stay in float32. "
        "Only y is small, and so is the gradient that arrives at it. There small gradients can be "
        "lost, before they reach a weight."
    ),
    wrong={
        (
            "[torch.bfloat16, torch.bfloat16]",
            "[torch.bfloat16, torch.bfloat16, torch.bfloat16]",
        ): "Some think the layer becomes small. It is the result that does.",
        (
            "[torch.float32, torch.bfloat16]",
            "[torch.bfloat16, torch.bfloat16, torch.bfloat16]",
        ): "The way back starts small. But each gradient must fit its own tensor in the end.",
        (
            "[torch.float32, torch.bfloat16]",
            "[torch.float32, torch.float32, torch.float32]",
        ): "Some think gradients are always float32. One of these belongs to a small tensor.",
        (
            "[torch.float32, torch.float32]",
            "[torch.float32, torch.float32, torch.float32]",
        ): "After the block the casts do not return by themselves. y stays what it was.",
    },
    right=[
        (
            "[torch.float, torch.bfloat16]",
            "[torch.float, torch.bfloat16, torch.float]",
        )
    ],
    at={
        "[layer.weight.dtype, y.dtype]": (
            "This line looks at the weight, then at y. Which of them was there before the block, "
            "and which is made in it?"
        ),
        "g.dtype for g in gradients": (
            "The weight and y are right. Now their gradients, and that of x: which tensor does "
            "each of them belong to?"
        ),
    },
)
def test_dtypes_on_the_way_back():
    """The forward pass is in the block, the backward pass is not.

    What are the dtypes of the weight and of y? And those of the three gradients?
    """
    layer = nn.Linear(4, 2)
    x = torch.ones(3, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    y.retain_grad()
    y.sum().backward()
    assert [layer.weight.dtype, y.dtype] == answer([torch.float32, torch.bfloat16])
    gradients = [layer.weight.grad, y.grad, x.grad]
    assert [g.dtype for g in gradients] == answer([torch.float32, torch.bfloat16, torch.float32])


@koan(
    claims=["A-5.1-04"],
    see="torch.autograd.graph.Node.name",
    hint=[
        "autocast casts the inputs of an operation. A cast of what needs a gradient is recorded.",
        "Which tensors go into the first layer, and which into the second? Which are float32?",
        "x needs no gradient. And what is the dtype of that which the second layer gets?",
    ],
    why=(
        "Two weights and two biases are cast, and each cast is a node: ToCopyBackward0. x is cast "
        "without a node, as nobody asks for its gradient, and the hidden layer is small already. "
        "For the rest, the graph is the same: it gained casts, nothing was woven anew."
    ),
    wrong={
        "0": (
            "Some say mixed precision weaves the graph anew, others that it is invisible. "
            "A cast is an operation like any other."
        ),
        "2": "One per layer? A layer has two parameters here.",
        "6": "The inputs are cast as well: one without a record, and one needs no cast.",
        "5": "Does the second layer need a cast of its input? Does the first one's leave a trace?",
        "-2": "Nothing is fused or dropped. Something is added.",
    },
)
def test_what_is_added_to_the_graph():
    """What does autocast add to the graph? Count.

    How many nodes more does the second graph have?
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.ones(3, 4)

    def nodes(node):
        return 1 + sum(nodes(before) for before, _ in node.next_functions if before)

    plain = nodes(model(x).grad_fn)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = nodes(model(x).grad_fn)
    assert mixed - plain == answer(4)


@koan(
    claims=["A-5.1-17"],
    see="torch.matmul",
    hint=[
        "bfloat16 has eight binary digits: whole numbers up to 256, then every second one.",
        "Numbers are rounded on their way in, and on their way out. Where does each row lose?",
    ],
    why=(
        "256 + 1 is added well and rounded on its way out. 257 is rounded on its way in, and then "
        "nothing is left of the difference. Mixed precision is a trade: compare with a tolerance, "
        "and keep differences of large numbers out of it."
    ),
    wrong={
        "[257.0, 1.0]": (
            "Some think autocast keeps the results and only saves time. It gives digits away."
        ),
        "[256.0, 1.0]": "257 has to go in first. Is there such a bfloat16?",
        "[258.0, 2.0]": "Both neighbours are as near. The one with the even last digit is taken.",
        "[257.0, 0.0]": "The result of a product has to fit into a bfloat16, too.",
    },
)
def test_what_two_sums_lose():
    """In float32 the sums of these two rows are 257 and 1. And in the block?"""
    x = torch.tensor([[256.0, 1.0], [257.0, -256.0]])
    ones = torch.ones(2, 1)
    assert (x @ ones).flatten().tolist() == [257.0, 1.0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sums = (x @ ones).flatten()
    assert sums.tolist() == answer([256.0, 0.0])


@koan(
    see="torch.autocast",
    hint=[
        "Most functions take a device in two forms, as text and as an object. This one does not.",
        "Is it Python that refuses the call, or a check that PyTorch wrote itself?",
    ],
    why=(
        "autocast wants the kind of device as a str, and looks itself: ValueError. Write "
        "torch.autocast(x.device.type), then the same line works on each machine."
    ),
    wrong={
        "TypeError": (
            "It is the type that is wrong, so Python would say this. Somebody wrote another name."
        ),
        "RuntimeError": "It comes before any operation runs, from a check in Python code.",
        "AttributeError": "No attribute is missing. Its argument is looked at first.",
    },
)
def test_a_device_in_the_wrong_form():
    """A line that should work on each machine: take the device from the data.

    Which exception does it raise?
    """
    x = torch.ones(2, 2)
    with pytest.raises(Exception) as caught:
        torch.autocast(x.device)
    assert caught.type is answer(ValueError)


@koan(
    claims=["A-5.1-01"],
    see="torch.amp.autocast",
    hint=[
        "A block is for one kind of device. Is yours for the kind where the data is?",
        "Today there is one name for all devices, and the device is its first argument.",
        "Print what you get told: a name for the CPU alone is an old one, too.",
    ],
    why=(
        "A block for cuda leaves operations on the CPU alone. Since torch 2.4 the names in "
        "torch.cuda.amp and torch.cpu.amp are deprecated: write torch.autocast(device_type), and "
        "with x.device.type the line follows the data. torch.amp.autocast is the same class."
    ),
    wrong={
        "with torch.cpu.amp.autocast(dtype=torch.bfloat16):\n    return layer(x)": (
            "The right device, and the product is small. But this name is as old as the other."
        ),
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n    return layer(x)": (
            "The name is the one of today. The device is not the one of the data."
        ),
        "return layer(x).bfloat16()": (
            "The result has the dtype. But the work was done in float32, and nothing was saved."
        ),
        "return layer.bfloat16()(x.bfloat16())": (
            "The work is done in bfloat16. But now the weights have changed as well."
        ),
    },
    right=[
        "with torch.amp.autocast('cpu', dtype=torch.bfloat16):\n    return layer(x)",
        "with torch.autocast(x.device.type, dtype=torch.bfloat16):\n    return layer(x)",
        "with torch.autocast('cpu'):\n    return layer(x)",
    ],
    at={
        "[y.dtype, y.item(), y.requires_grad]": (
            "This line looks at dtype, value and history of what `run` gives back. All three fit "
            "only if the layer itself works in bfloat16."
        ),
        "layer.weight.dtype is": (
            "y is right. But the weight has another dtype than before. Only the work should be "
            "done in bfloat16."
        ),
        "len(told) == 0": (
            "Result and weight are right. But PyTorch has something to say: print "
            "told[0].message, and read what it proposes."
        ),
    },
)
def test_a_block_from_an_old_tutorial():
    """This block was written for a GPU, long ago. Here all is on the CPU. Repair the marked lines.

    The layer should work in bfloat16, and PyTorch should have nothing to warn about.
    """

    def run(layer, x):
        # answer:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x)
        # given:
        # with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        #     return layer(x)
        # end

    for pair, rounded in [([515.0, 512.0], 4.0), ([1030.0, 1024.0], 8.0)]:
        layer = nn.Linear(2, 1, bias=False)
        layer.load_state_dict({"weight": torch.tensor([[1.0, -1.0]])})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            y = run(layer, torch.tensor(pair))
        assert [y.dtype, y.item(), y.requires_grad] == [torch.bfloat16, rounded, True]
        assert layer.weight.dtype is torch.get_default_dtype()
        assert len(told) == 0


@koan(
    see="torch.nn.functional.binary_cross_entropy_with_logits",
    hint=[
        "If there is an error, read it. If not, print logits.sigmoid() for a logit of 12 in "
        "bfloat16: what is one minus that?",
        "On a GPU, autocast refuses this function by name. Read what it proposes instead.",
        "What is lost in the sigmoid cannot be brought back. Can you do without it?",
    ],
    why=(
        "In bfloat16 the sigmoid of 12 is exactly 1. The loss of 1 against 0 is then cut at 100, "
        "and no gradient comes back. With logits, the logarithm is taken before anything is "
        "rounded. On cuda autocast forbids the pair; on the CPU it runs, and is wrong."
    ),
    wrong={
        "return F.binary_cross_entropy(logits.sigmoid().float(), target)": (
            "More digits, but after the sigmoid. They are all zero."
        ),
        "return F.binary_cross_entropy(logits.sigmoid(), target.to(logits.dtype))": (
            "The target's dtype was not the trouble: its numbers are 0 and 1."
        ),
        "return F.binary_cross_entropy(logits.float().sigmoid(), target)": (
            "Right on the CPU. On cuda, autocast still refuses the function by its name."
        ),
        "return F.binary_cross_entropy_with_logits(logits.sigmoid(), target)": (
            "This function has the sigmoid in it. Now there are two."
        ),
        "return ((1 - 2 * target) * logits).mean()": (
            "The size and the push are right where the model is sure and wrong. Where it is right, "
            "this loss falls below zero, and pushes as hard."
        ),
        "return F.mse_loss(logits.sigmoid(), target)": (
            "It is allowed everywhere. But it is another loss, and this sigmoid has no slope left."
        ),
    },
    right=[
        "return nn.BCEWithLogitsLoss()(logits, target)",
        "return F.softplus((1 - 2 * target) * logits).mean()",
        "return F.binary_cross_entropy_with_logits(logits.float(), target)",
        "with torch.autocast(logits.device.type, enabled=False):\n"
        "    return F.binary_cross_entropy(logits.float().sigmoid(), target)",
    ],
    at={
        "loss.backward()": (
            "backward() wants one number that has a history. Does your `loss_of` give that back?"
        ),
        "loss.item() == pytest.approx": (
            "This line looks at the size of the loss: sure and wrong, then unsure, then right. "
            "Print your loss beside each logit."
        ),
        "weight.grad.item()": (
            "The size of the loss is right. Now its push on the weight: it should be the sigmoid "
            "minus the goal. Print weight.grad."
        ),
        "loss_of(half": (
            "On the CPU all is right. Now cuda, where your loss should come out as float32. What "
            "comes out?"
        ),
    },
)
def test_very_sure_and_wrong():
    """The model is very sure, and wrong. Its cross entropy should be near the size of the logit,
    and push. Where the model is unsure or right, all is well, and should stay so.

    Repair the marked line, for the CPU and for cuda.
    """

    def loss_of(logits, target):
        # answer:
        return F.binary_cross_entropy_with_logits(logits, target)
        # given:
        # return F.binary_cross_entropy(logits.sigmoid(), target)
        # end

    wrong, others = [(12.0, 0.0, 12.0), (-9.0, 1.0, 9.0)], [(0.0, 1.0, 0.693), (9.0, 1.0, 0.0)]
    for size, goal, expected in wrong + others:
        weight = torch.tensor([size], requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(weight.bfloat16(), torch.tensor([goal]))
        loss.backward()
        assert loss.item() == pytest.approx(expected, abs=0.02)
        push = weight.detach().sigmoid().item() - goal
        assert weight.grad.item() == pytest.approx(push, abs=0.02)
    with autocast_of_cuda():
        half = torch.zeros(3, dtype=torch.float16, device="cuda")
        assert loss_of(half, torch.ones(3, device="cuda")).dtype is torch.float32


@koan(
    claims=["A-5.1-03"],
    see="torch.autocast",
    hint=[
        "Take the four lines of any training step. Which of them does the forward pass?",
        "Only the forward pass and the loss go into the block. bfloat16 reaches as far as float32.",
        "Nothing of the model is cast by hand: autocast takes the weights as they are.",
    ],
    why=(
        "Two independent helpers: autocast chooses the precision, a scaler guards small gradients. "
        "bfloat16 has the reach of float32, so it goes without a scaler. float16 wants both."
    ),
    wrong={
        (
            "optimizer.zero_grad()\nloss = F.mse_loss(model(x), y)\n"
            "loss.backward()\noptimizer.step()"
        ): "It learns. But nothing is done in the small dtype.",
        (
            "optimizer.zero_grad()\nwith torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "    loss = F.mse_loss(model(x), y)\n    loss.backward()\noptimizer.step()"
        ): "It learns. But in the block, the products of backward are cast once more.",
        (
            "optimizer.zero_grad()\nmodel.bfloat16()\n"
            "loss = F.mse_loss(model(x.bfloat16()).float(), y)\nloss.backward()\noptimizer.step()"
        ): "Now the weights themselves are small. They should stay float32.",
        (
            "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
            "    loss = F.mse_loss(model(x), y)\nloss.backward()\noptimizer.step()"
        ): "Precision is right. But the gradients of all steps add up.",
    },
    right=[
        "with torch.autocast('cpu'):\n    loss = F.mse_loss(model(x), y)\n"
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad()",
        "optimizer.zero_grad()\nwith torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "    out = model(x)\nF.mse_loss(out.float(), y).backward()\noptimizer.step()",
    ],
    at={
        "[outs, inside]": (
            "`outs` has the dtypes that leave the layer. `inside` says whether autocast was on "
            "in backward. Print both."
        ),
        "model.weight.dtype is x.dtype": (
            "Forward and backward run as they should. But the weight itself has another dtype now."
        ),
        "torch.allclose(model.weight": (
            "Each part runs in the right precision. But the weights do not arrive. Does your "
            "step do all that a training step does?"
        ),
    },
)
def test_a_step_without_a_scaler():
    """Some say that autocast needs a GradScaler. Write one training step without one.

    Forward runs in bfloat16, and the loss is F.mse_loss. Backward is not in the block.
    """

    def step(model, optimizer, x, y):
        # answer:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        # end

    for width in (2, 3):
        model, outs, inside = nn.Linear(width, 1), set(), set()
        model.register_forward_hook(lambda module, args, out, outs=outs: outs.add(out.dtype))
        model.weight.register_hook(lambda g, i=inside: i.add(torch.is_autocast_enabled("cpu")))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(32, width)
        for _ in range(100):
            step(model, optimizer, x, x.sum(1, keepdim=True))
        assert [outs, inside] == [{torch.bfloat16}, {False}]
        assert model.weight.dtype is x.dtype
        assert torch.allclose(model.weight, torch.ones(1, width), atol=0.05)
