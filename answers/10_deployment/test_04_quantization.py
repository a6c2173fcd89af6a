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
        "is int64. Kernels for quantized layers add up in int32 for this reason: a product of two "
        "codes needs 16 bits, and there are thousands of them in a row."
    ),
    wrong={
        "[(torch.int32, 400), (torch.int32, 400), (torch.int64, 400)]": (
            "So it is inside of a quantized kernel. A plain @ does not widen anything."
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
        "The module was imported at the top of this file, and the function is there.",
        "Python has several categories of warnings. Which one is meant for developers, and "
        "not shown by default in imported code?",
    ],
    why=(
        "torch.ao.quantization still works and is on its way out: its functions say so, in a "
        "category that Python hides by default. It points to torchao, a package beside torch, "
        "where quantization lives on (quantize_, and the pt2e flow for exported programs)."
    ),
    wrong={
        "None": "Some still use it without a care. Make warnings errors, as this koan does.",
        "ModuleNotFoundError": "It has moved, but the old address still answers.",
        "FutureWarning": "That is the loud one, for users. Here the quiet one was chosen.",
        "UserWarning": "There are such, too, but this comes first and is about another thing.",
    },
)
def test_an_old_address():
    """Prepare a model for training with simulated rounding, the classic way.

    All warnings are errors here. What is raised?
    """
    net = nn.Sequential(nn.Linear(2, 2)).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("error")
        quantization.prepare_qat(net)
    assert caught.type is answer(DeprecationWarning)


@koan(
    claims=["B-5-08", "B-5-09"],
    see="torch.nn.Module.apply",
    hint=[
        "After ten batches, how much of the old value is left? 0.9 to the power of ten.",
        "A norm can forget: look at its methods. And it can average instead of following: read "
        "about momentum=None.",
        "There may be several norms, and they may lie deep: walk through modules().",
    ],
    why=(
        "Forget, then average over real data: reset_running_stats(), momentum=None, a pass in "
        "train mode without a graph. Training with simulated rounding re-estimates nothing: it "
        "copies the drifted values and follows them as slowly as before."
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
        "        module.momentum = None\n"
        "model.eval()\n"
        "for batch in batches:\n"
        "    model(batch)": "In this mode a norm learns nothing.",
    },
    right=[
        "for module in model.modules():\n"
        "    if isinstance(module, nn.modules.batchnorm._BatchNorm):\n"
        "        module.reset_running_stats()\n"
        "        module.momentum = 1.0\n"
        "with torch.no_grad():\n"
        "    model(torch.cat(list(batches)))",
    ],
)
def test_norms_that_have_drifted():
    """The statistics of these norms have drifted far away. Ten batches of real data are shown to
    them, and they are still wrong. Repair the marked lines; no weight may change.

    (Some say that quantization-aware training is the cure.)
    """

    def recover(model, batches):
        # answer:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.reset_running_stats()
                module.momentum = None
        with torch.no_grad():
            for batch in batches:
                model(batch)
        # given:
        # for batch in batches:
        #     model(batch)
        # end

    data = torch.randn(10, 64, 3) * 2.0 + 3.0
    for depth in (1, 2):
        model = nn.Sequential(*[nn.Sequential(nn.BatchNorm1d(3)) for _ in range(depth)]).train()
        for (norm,) in model:
            norm.running_mean.fill_(7.0)
            norm.running_var.fill_(50.0)
        recover(model, data)
        expected = [(3.0, 4.0), (0.0, 1.0)][:depth]
        for (norm,), (mean, var) in zip(model, expected, strict=True):
            assert torch.allclose(norm.running_mean, torch.tensor(mean), atol=0.4)
            assert torch.allclose(norm.running_var, torch.tensor(var), rtol=0.2)
            assert norm.weight.tolist() == [1.0] * 3 and norm.bias.tolist() == [0.0] * 3


@koan(
    see="torch.fake_quantize_per_tensor_affine",
    hint=[
        "256 codes, from 0 to 255, lie between the lowest and the highest value. How wide is one?",
        "The zero point is the code of 0.0. It is a whole number between 0 and 255.",
        "If the tensor that starts at 5 fails: 0.0 must have a code too. Widen the range to it.",
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
        "zero_point = 128": "The code of 0.0 depends on where the range begins.",
    },
    right=[
        "scale = (max(x.max().item(), 0) - min(x.min().item(), 0)) / 255\n"
        "zero_point = round(-min(x.min().item(), 0) / scale)",
    ],
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
        return float(scale), zero_point

    for low, high in ((0, 6), (-1, 5), (5, 6), (-3, -2)):
        x = torch.linspace(low, high, 1001)
        scale, zero_point = choose(x)
        rounded = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 255)
        step = (max(high, 0) - min(low, 0)) / 255
        assert (rounded - x).abs().max() < 0.51 * step
        zero = torch.fake_quantize_per_tensor_affine(torch.zeros(1), scale, zero_point, 0, 255)
        assert zero.item() == 0.0


@koan(
    see="torch.nn.Module.register_buffer",
    hint=[
        "Kept: int8 codes, one scale for each row, the bias. Buffers travel with state_dict().",
        "The input has a scale too, found anew in each call. 127 steps lie on each side of 0.",
        "Multiply whole numbers, wide enough to add up. What is one unit of the result worth?",
        "If it is not close enough: one of the rows is quiet. Did it get its own scale?",
    ],
    why=(
        "This is dynamic quantization: a quarter of the memory for the weight, products of "
        "whole numbers, added up in int32, and two scales to come back. Each number is off by "
        "half a step at most, so the bound can be written down."
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
            "self.register_buffer('codes', (linear.weight.T / scale).T.round().to(torch.int8))\n"
            "self.register_buffer('bias', linear.bias)",
            "return x @ (self.codes.T * self.scale) + self.bias",
        ): "A good rounding of the weight. But the product is one of floats.",
    },
)
def test_write_a_linear_layer_of_whole_numbers():
    """Write `Small`: a Linear that keeps its weight as int8 and multiplies whole numbers only.

    Weight: a scale for each row; input: one for each call. 0.0 has the code 0. The bias stays
    float.
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

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            products.update(args[-1].dtype for name in ("mm", "mv", "dot") if name in str(func))
            return func(*args, **(kwargs or {}))

    for rows, columns, size in ((4, 16, 3), (3, 40, 5)):
        linear, x, products = nn.Linear(columns, rows), torch.randn(size, columns), set()
        linear.requires_grad_(False).weight[0] /= 500  # a quiet row
        small, weight, step = Small(linear), linear.weight.abs(), x.abs().max() / 127
        kept = [v.dtype for v in small.state_dict().values() if v.numel() == weight.numel()]
        with Watch():
            y = small(x)
        bound = weight.sum(1) * step + x.abs().sum(1, keepdim=True) * weight.amax(1) / 127
        assert ((y - linear(x)).abs() < 0.55 * bound).all()
        assert kept == [torch.int8] and not any(d.is_floating_point for d in products)
