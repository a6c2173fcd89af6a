"""Quantization by hand: a scale, a zero point, and what rounding costs.

Documents: B 5
"""

import warnings

import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import answer, koan


class FloatProducts(TorchDispatchMode):
    """Notes operations that make floats out of a large tensor of integers, or out of two large
    tensors."""

    def __init__(self, large):
        super().__init__()
        self.large, self.found = large, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        flat = [x for arg in args for x in (arg if isinstance(arg, list) else [arg])]
        big = [x for x in flat if isinstance(x, torch.Tensor) and x.numel() >= self.large]
        if isinstance(out, torch.Tensor) and out.is_floating_point():
            if len(big) > 1 or not all(x.is_floating_point() for x in big):
                self.found.append(func.__name__)
        return out


@koan(
    see="torch.quantize_per_tensor",
    hint=[
        "code = round(x / scale) + zero_point. Then it must fit into a byte without a sign.",
        "0.25 / 0.5 lies half way between two whole numbers. Which one does torch.round take?",
        "What happens beyond the ends: does it wrap around, as bytes do, or stop?",
    ],
    why=(
        "Divide by the scale, round (half goes to the EVEN neighbour: 0.5 to 0, 1.5 to 2), add "
        "the zero point, and clamp to 0..255. Whatever lies outside of the range ends on its edge."
    ),
    wrong={
        "[0, 8, 11, 12, 255]": "At school one half is rounded up. torch.round does it otherwise.",
        "[248, 8, 10, 12, 154]": "Plain bytes wrap around. Codes stop at the ends.",
        "[0, 0, 0, 2, 255]": "0.0 has a code of its own here, and it is not 0.",
        "[-18, -2, 0, 2, 400]": "These fit into no byte, and the zero point is not in them.",
    },
)
def test_five_numbers_in_bytes():
    """Scale 0.5, zero point 10, bytes from 0 to 255. Predict the five codes."""
    x = torch.tensor([-9.0, -1.0, 0.25, 0.75, 200.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions announce that this form will go
        quantized = torch.quantize_per_tensor(x, scale=0.5, zero_point=10, dtype=torch.quint8)
    assert quantized.int_repr().tolist() == answer([0, 8, 10, 12, 255])


@koan(
    see="torch.fake_quantize_per_channel_affine",
    hint=[
        "One step is the scale. What becomes of numbers smaller than half a step?",
        "With axis=1 each column has a scale. Which number of each column decides on it?",
        "The weight of a Linear is (out, in). Which axis holds weights of one size here?",
    ],
    why=(
        "One scale for all makes a step of 0.8, and the small row is rounded away. The output "
        "channels of a weight (axis 0) are the ones that differ in size: a scale for each keeps "
        "them all. Along the other axis the large row decides again, in every column."
    ),
    wrong={
        "[[3, 3], [3, 3], [3, 3]]": "How large is a step, when 100 must fit into 127 steps?",
        "[[3, 0], [3, 3], [3, 3]]": "Which numbers share a scale when axis is 1?",
        "[[3, 0], [3, 0], [3, 3]]": "axis names the dimension that has a scale for each index.",
        "[[0, 0], [3, 3], [3, 0]]": "The large numbers are the ones that one scale suits.",
    },
)
def test_a_loud_row_and_a_quiet_one():
    """A weight is rounded to 8 bits: with one scale; one for each index of axis 0; of axis 1.

    How many weights of each row are not zero afterwards?
    """
    weight = torch.tensor([[100.0, -50.0, 80.0], [0.3, -0.1, 0.2]])
    rounded = [torch.fake_quantize_per_tensor_affine(weight, 100 / 127, 0, -127, 127)]
    for axis in (0, 1):
        scale = weight.abs().amax(1 - axis) / 127
        zeros = torch.zeros_like(scale, dtype=torch.int32)
        rounded.append(
            torch.fake_quantize_per_channel_affine(weight, scale, zeros, axis, -127, 127)
        )
    assert [r.count_nonzero(1).tolist() for r in rounded] == answer([[3, 0], [3, 3], [3, 0]])


@koan(
    see="torch.matmul",
    hint=[
        "A product of matrices gives back the dtype that it was given. And a sum of integers?",
        "10 * 10 fits into int8. Do four of them together?",
        "Beyond 127 an int8 goes on at -128.",
    ],
    why=(
        "The product of int8 matrices is int8, and wraps around in silence; a sum of integers "
        "is int64. For this reason quantized layers add up in int32: a product of two codes needs "
        "16 bits, and a row has thousands of them."
    ),
    wrong={
        "[(torch.int32, 400), (torch.int32, 400), (torch.int64, 400)]": (
            "That is what a quantized kernel does inside. A plain @ does not widen anything."
        ),
        "[(torch.int8, 127), (torch.int32, 400), (torch.int64, 400)]": (
            "Integers do not stop at the end of their range. Clamping is extra work."
        ),
        "[(torch.int8, -112), (torch.int32, 400), (torch.int8, -112)]": (
            "A sum is careful: what dtype has the sum of integers?"
        ),
        "[(torch.int8, 400), (torch.int32, 400), (torch.int64, 400)]": (
            "How many different values has an int8?"
        ),
    },
)
def test_four_times_a_hundred():
    """Each product is 100, and there are four. Predict dtype and value, three times."""
    a, b = torch.full((4,), 10, dtype=torch.int8), torch.full((4,), 10, dtype=torch.int8)
    row, column = a[None], b[:, None]
    results = [row @ column, row.int() @ column.int(), (a * b).sum()]
    assert [(r.dtype, r.item()) for r in results] == answer(
        [(torch.int8, -112), (torch.int32, 400), (torch.int64, 400)]
    )


@pytest.mark.needs(torch=">=2.9")
@koan(
    claims=["B-5-08"],
    see="torch.ao.quantization.prepare_qat",
    hint=[
        "The functions are still there. Call one with all warnings switched on, and print them.",
        "It is made by the same people, for PyTorch alone, and about nothing else than small and "
        "fast numbers.",
    ],
    why=(
        "torch.ao.quantization still works and is on its way out. It says so in a category of "
        "warnings that Python hides by default, so many never saw it. The work goes on in torchao, "
        "a package beside torch: quantize_, and the pt2e flow for exported programs."
    ),
    wrong={
        "[]": "Some use it without a care: this warning is hidden unless you ask for it.",
        "['executorch']": "That one runs quantized programs on phones. It does not make them.",
        "['onnxruntime']": "It has quantization of its own, for ONNX files, by other people.",
        "['torchvision']": "It has quantized models, and they were made at the old address.",
    },
)
def test_an_old_address():
    """Prepare a model for training with simulated rounding, with functions that come with torch.
    They warn that this work has moved. Which of the packages does the warning name?"""
    packages = ["executorch", "onnxruntime", "torchao", "torchrec", "torchvision"]
    net = nn.Sequential(nn.Linear(2, 2)).train()
    with warnings.catch_warnings(), pytest.raises(Warning) as caught:
        warnings.simplefilter("ignore")
        net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        warnings.simplefilter("error", DeprecationWarning)
        quantization.prepare_qat(net)
    assert [name for name in packages if name in str(caught.value)] == answer(["torchao"])


@koan(
    claims=["B-5-08", "B-5-09"],
    see="torch.nn.Module.apply",
    hint=[
        "With a momentum of 0.1, how much of the old value is left after ten batches? 0.9 to the "
        "power of ten.",
        "A norm can forget: look at its methods. And it can average instead of following: read "
        "in the manual of BatchNorm1d what its momentum may be.",
        "There may be several norms, and they may lie deep: walk through modules(). What you "
        "change for the pass must be put back.",
    ],
    why=(
        "Forget, then average: reset_running_stats(), momentum=None, one pass in train mode. "
        "torch.optim.swa_utils.update_bn does just that. Training with simulated rounding "
        "estimates nothing anew: it copies the drifted values and follows them as slowly."
    ),
    wrong={
        "with torch.no_grad():\n    for batch in batches:\n        model(batch)": (
            "The same slow average; only the graph is saved."
        ),
        "model.qconfig = quantization.get_default_qat_qconfig('fbgemm')\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')\n"
        "    quantization.prepare_qat(model, inplace=True)\n"
        "for batch in batches:\n"
        "    model(batch)": (
            "Some say that this training repairs drifted norms. It rounds, and follows as slowly."
        ),
        "for module in model.modules():\n"
        "    if isinstance(module, nn.BatchNorm1d):\n"
        "        module.reset_running_stats()\n"
        "for batch in batches:\n"
        "    model(batch)": "Forgotten. But the slow average begins at zero now.",
        "for module in model.modules():\n"
        "    if isinstance(module, nn.BatchNorm1d):\n"
        "        module.reset_running_stats()\n"
        "        module.momentum = None\n"
        "for batch in batches:\n"
        "    model(batch)": "The values are right. But the norms average for good from now on.",
        "for module in model.modules():\n"
        "    if isinstance(module, nn.BatchNorm1d):\n"
        "        module.momentum = None\n"
        "model.eval()\n"
        "for batch in batches:\n"
        "    model(batch)": "In this mode a norm learns nothing.",
    },
    right=["torch.optim.swa_utils.update_bn(batches, model)"],
    at={
        "norm.weight.tolist()": (
            "Means and variances fit the data now. But a weight or a bias is not what it was: "
            "which of your lines touches more than the statistics?"
        ),
    },
)
def test_norms_that_have_drifted():
    """Before a model is rounded, its norms must fit the data. These have drifted far away; ten
    batches of real data are shown to them, and they are still wrong. Repair the marked lines.
    Afterwards all weights and options must be as they were."""

    def recover(model, batches):
        # answer:
        norms = {m: m.momentum for m in model.modules() if isinstance(m, nn.BatchNorm1d)}
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        for batch in batches:
            model(batch)
        for norm, momentum in norms.items():
            norm.momentum = momentum
        # given:
        # for batch in batches:
        #     model(batch)
        # end

    data = torch.randn(10, 64, 3) * 2.0 + 3.0
    for momenta in ([0.1], [0.1, 0.05]):
        norms = [nn.BatchNorm1d(3, momentum=momentum) for momentum in momenta]
        for norm in norms:
            norm.running_mean.fill_(7.0)
            norm.running_var.fill_(50.0)
        recover(nn.Sequential(*[nn.Sequential(norm) for norm in norms]).train(), iter(data))
        for norm, mean, var in zip(norms, (3.0, 0.0), (4.0, 1.0)):
            assert torch.allclose(norm.running_mean, torch.tensor(mean), atol=0.4), "the means"
            assert torch.allclose(norm.running_var, torch.tensor(var), rtol=0.2), "the variances"
            assert norm.weight.tolist() == [1.0] * 3 and norm.bias.tolist() == [0.0] * 3
        assert [norm.momentum for norm in norms] == momenta, "an option has changed"


@koan(
    see="torch.fake_quantize_per_tensor_affine",
    hint=[
        "256 codes, from 0 to 255, lie between the lowest and the highest value. How wide is one?",
        "The zero point is the code of 0.0. It is a whole number between 0 and 255.",
        "0.0 must have a code too, even where no value comes near it. What becomes of the range?",
    ],
    why=(
        "A symmetric range around 0 is wasted on numbers that never come, after a ReLU say. An "
        "affine one lies where the values are, with an error of half a step at most. It must hold "
        "0.0 exactly, since padding and ReLU make so many of them."
    ),
    wrong={
        "scale = x.abs().max() / 255\nzero_point = 0": "Fine after a ReLU. And below zero?",
        "low, high = x.min(), x.max()\n"
        "scale = (high - low) / 255\n"
        "zero_point = int((-low / scale).round())": (
            "Close. One of these tensors does not contain 0.0, and then its code lies outside."
        ),
        "low, high = x.min().clamp(max=0), x.max().clamp(min=0)\n"
        "scale = (high - low) / 127\n"
        "zero_point = int((-low / scale).round())": "How many steps lie between 0 and 255?",
        "low, high = x.min().clamp(max=0), x.max().clamp(min=0)\n"
        "scale = (high - low) / 255\n"
        "zero_point = -low / scale": "Nearly. Which whole number is taken for 72.9 here?",
        "low, high = x.min().clamp(max=0), x.max().clamp(min=0)\n"
        "scale = (high - low) / 255\n"
        "zero_point = 128": "The code of 0.0 depends on where the range begins.",
    },
    right=[
        "scale = (max(x.max().item(), 0) - min(x.min().item(), 0)) / 255\n"
        "zero_point = round(-min(x.min().item(), 0) / scale)",
        "low, high = x.min().clamp(max=0), x.max().clamp(min=0)\n"
        "scale = (high - low) / 255\n"
        "zero_point = (-low / scale).round()",
        "observer = quantization.MinMaxObserver(dtype=torch.quint8)\n"
        "observer(x)\n"
        "scale, zero_point = observer.calculate_qparams()",
    ],
    at={
        "rounded = torch.fake_quantize": (
            "PyTorch could not use your scale and zero point here. Print both, for this range: "
            "what may each of them be?"
        ),
        "zero.item()": (
            "These values come back near enough. But 0.0 itself does not come back as 0.0: "
            "which code should stand for it?"
        ),
    },
)
def test_half_of_the_codes_are_never_used():
    """After a ReLU nothing is negative, and half of the codes lie idle: the error is twice what
    it must be. Repair the marked lines, for any x."""

    def choose(x):
        # answer:
        low, high = x.min().clamp(max=0), x.max().clamp(min=0)
        scale = (high - low) / 255
        zero_point = int((-low / scale).round())
        # given:
        # scale = x.abs().max() / 127
        # zero_point = 128
        # end
        return float(scale), int(zero_point)

    for low, high in ((0, 6), (-2, 5), (5, 6), (-3, -2)):
        x = torch.linspace(low, high, 1001)
        scale, zero_point = choose(x)
        rounded = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 255)
        step = (max(high, 0) - min(low, 0)) / 255
        off = (rounded - x).abs().max().item() / step
        assert off < 0.51, f"from {low} to {high}: off by {off:.2f} steps"
        zero = torch.fake_quantize_per_tensor_affine(torch.zeros(1), scale, zero_point, 0, 255)
        assert zero.item() == 0.0, f"from {low} to {high}: 0.0 became {zero.item():.2f}"


@koan(
    see="torch.nn.Module.register_buffer",
    hint=[
        "Kept: int8 codes, one scale for each row, the bias. Buffers travel with state_dict().",
        "The input has a scale too, found anew in each call. 127 steps lie on each side of 0. "
        "Which code is the nearest one?",
        "Multiply whole numbers, wide enough to add up. What is one unit of the result worth?",
        "Floats may come before the codes, and after the sums: nowhere between.",
    ],
    why=(
        "This is dynamic quantization: a quarter of the memory for the weight, products of "
        "whole numbers, added up in int32, and two scales to come back. The fake rounding of "
        "training gives the same numbers: that is what it is for."
    ),
    wrong={
        (
            "self.linear = linear\nself.register_buffer('codes', linear.weight.to(torch.int8))",
            "return self.linear(x)",
        ): "The float weight is still there, and does the work.",
        (
            "scale = linear.weight.abs().max() / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight / scale).round().to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "step = x.abs().max() / 127\n"
            "whole = (x / step).round().int() @ self.codes.int().T\n"
            "return whole * step * self.scale + self.bias",
        ): "One scale for all rows is too coarse for the quiet one.",
        (
            "scale = linear.weight.abs().amax(1) / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight.T / scale).T.round().to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "step = x.abs().max() / 127\n"
            "whole = (x / step).round().to(torch.int8) @ self.codes.T\n"
            "return whole * step * self.scale + self.bias",
        ): "Codes times codes, added up in a byte: it runs over.",
        (
            "scale = linear.weight.abs().amax(1) / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight.T / scale).T.to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "step = x.abs().max() / 127\n"
            "whole = (x / step).int() @ self.codes.int().T\n"
            "return whole * step * self.scale + self.bias",
        ): "A change of dtype cuts off what stands behind the point. 2.9 would become 2.",
        (
            "scale = linear.weight.abs().amax(1) / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight.T / scale).T.round().to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "return x @ (self.codes.T * self.scale) + self.bias",
        ): "A good rounding of the weight. But the product is one of floats.",
        (
            "scale = linear.weight.abs().amax(1) / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight.T / scale).T.round().to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "with torch.inference_mode():\n"
            "    weight = self.codes * self.scale[:, None]\n"
            "    return nn.functional.linear(x, weight, self.bias)",
        ): "A good rounding of the weight. But the product is one of floats.",
        (
            "scale = linear.weight.abs().amax(1) / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight.T / scale).T.round().to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "step = x.abs().max() / 127\n"
            "codes = (x / step).round()\n"
            "whole = (codes[:, None] * self.codes.float()).sum(-1)\n"
            "return whole * step * self.scale + self.bias",
        ): "These are whole numbers in value, and floats in the processor.",
    },
    right=[
        (
            "scale = linear.weight.abs().amax(1) / 127\n"
            "self.register_buffer('scale', scale)\n"
            "self.register_buffer('codes', (linear.weight.T / scale).T.round().to(torch.int8))\n"
            "self.bias = linear.bias",
            "with torch.inference_mode():\n"
            "    step = x.abs().max().item() / 127\n"
            "    codes = torch.clamp(torch.round(x / step), -127, 127).to(torch.int8)\n"
            "    whole = (codes[:, None].to(torch.int32) * self.codes).sum(-1)\n"
            "    return whole * step * self.scale + self.bias",
        ),
        (
            "self.register_buffer('scale', linear.weight.abs().amax(1) / 127)\n"
            "codes = torch.round(linear.weight / self.scale[:, None])\n"
            "self.weight = nn.Parameter(codes.to(torch.int8), requires_grad=False)\n"
            "self.bias = linear.bias",
            "step = x.abs().max() / 127\n"
            "codes = torch.fake_quantize_per_tensor_affine(x, step.item(), 0, -127, 127) / step\n"
            "whole = nn.functional.linear(codes.round().long(), self.weight.long())\n"
            "return whole.float().mul(step).mul(self.scale).add(self.bias)",
        ),
    ],
    at={
        "kept == [torch.int8]": (
            "This line wants the weight kept once, as int8, and no product of floats. The "
            "message shows what is kept, then the float products."
        ),
        "torch.allclose(y": (
            "The weight is int8, and only whole numbers are multiplied. But `y` is not right: "
            "where does it go off? Look at the quiet row, too."
        ),
    },
)
def test_write_a_linear_layer_of_whole_numbers():
    """Write `Small`: a Linear that keeps its weight as int8 and multiplies whole numbers only.

    Weight: a scale for each row; input: one for each call. Codes go from -127 to 127, 0.0 has
    the code 0, and each number gets the nearest code. The bias stays float.
    """

    class Small(nn.Module):
        def __init__(self, linear):
            super().__init__()
            # answer:
            scale = linear.weight.abs().amax(1, keepdim=True) / 127
            self.register_buffer("scale", scale)
            self.register_buffer("codes", (linear.weight / scale).round().to(torch.int8))
            self.register_buffer("bias", linear.bias)
            # end

        def forward(self, x):
            # answer:
            step = x.abs().max() / 127
            codes = (x / step).round().int()
            return (codes @ self.codes.int().T) * (step * self.scale.T) + self.bias
            # end

    for rows, columns, size in ((4, 16, 3), (3, 40, 5)):
        linear, x, zeros = nn.Linear(columns, rows), torch.randn(size, columns), torch.zeros(rows)
        weight = linear.requires_grad_(False).weight
        weight[0] /= 500  # a quiet row
        small = Small(linear)
        kept = [v.dtype for v in small.state_dict().values() if v.numel() == weight.numel()]
        with FloatProducts(columns) as products:
            y = small(x)
        assert kept == [torch.int8] and not products.found, f"{kept}, {products.found}"
        near = [torch.fake_quantize_per_tensor_affine(x, x.abs().max().item() / 127, 0, -127, 127)]
        steps = weight.abs().amax(1) / 127
        near += [torch.fake_quantize_per_channel_affine(weight, steps, zeros.int(), 0, -127, 127)]
        assert torch.allclose(y, near[0] @ near[1].T + linear.bias, rtol=1e-4, atol=1e-5)
