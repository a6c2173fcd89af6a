"""Quantization by hand: a scale, a zero point, and what rounding costs."""

import warnings

import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


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


def test_five_numbers_in_bytes():
    """Scale 0.5, zero point 10, bytes from 0 to 255. Predict the five codes."""
    x = torch.tensor([-9.0, -1.0, 0.25, 0.75, 200.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions announce that this form will go
        quantized = torch.quantize_per_tensor(x, scale=0.5, zero_point=10, dtype=torch.quint8)
    assert quantized.int_repr().tolist() == __


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
    assert [r.count_nonzero(1).tolist() for r in rounded] == __


def test_four_times_a_hundred():
    """Each product is 100, and there are four. Predict dtype and value, three times."""
    a, b = torch.full((4,), 10, dtype=torch.int8), torch.full((4,), 10, dtype=torch.int8)
    row, column = a[None], b[:, None]
    results = [row @ column, row.int() @ column.int(), (a * b).sum()]
    assert [(r.dtype, r.item()) for r in results] == __


@pytest.mark.needs(torch=">=2.9")
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
    assert [name for name in packages if name in str(caught.value)] == __


def test_norms_that_have_drifted():
    """Before a model is rounded, its norms must fit the data. These have drifted far away; ten
    batches of real data are shown to them, and they are still wrong. Repair the marked lines.
    Afterwards all weights and options must be as they were."""

    def recover(model, batches):
        # your turn:
        for batch in batches:
            model(batch)
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


def test_half_of_the_codes_are_never_used():
    """After a ReLU nothing is negative, and half of the codes lie idle: the error is twice what
    it must be. Repair the marked lines, for any x."""

    def choose(x):
        # your turn:
        scale = x.abs().max() / 127
        zero_point = 128
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


def test_write_a_linear_layer_of_whole_numbers():
    """Write `Small`: a Linear that keeps its weight as int8 and multiplies whole numbers only.

    Weight: a scale for each row; input: one for each call. Codes go from -127 to 127, 0.0 has
    the code 0, and each number gets the nearest code. The bias stays float.
    """

    class Small(nn.Module):
        def __init__(self, linear):
            super().__init__()
            # your turn:
            __
            # end

        def forward(self, x):
            # your turn:
            __
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
