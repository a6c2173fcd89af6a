"""ONNX: a translation, operator by operator, for runtimes that know nothing of PyTorch."""

import contextlib
import io
import logging
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import __


def to_onnx(model, x, opset=18, **options):
    """PyTorch's ONNX exporter, without what it prints and warns about on the way."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            options |= {"opset_version": opset, "verbose": False}
            return torch.onnx.export(model, (x,), **options).model_proto
    finally:
        logging.disable(before)


def operators(proto):
    """The ONNX operators of a translated model, in order."""
    return [node.op_type for node in proto.graph.node]


def start(proto):
    """A function that answers with onnxruntime: a tensor in, a tensor out, and no PyTorch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    only = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=only)
    (name,) = [value.name for value in session.get_inputs()]
    return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
def test_three_layers_in_another_language():
    """A small model in eval mode is exported to ONNX (opset 18). Which operators come out?

    Names in order, out of: Add, Dropout, Gemm, Linear, MatMul, Mul, Sigmoid, SiLU.
    """
    net = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Dropout(0.5)).eval()
    assert operators(to_onnx(net, torch.ones(1, 3))) == __


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
def test_a_norm_behind_a_convolution():
    """Export a convolution (with a bias), its batch norm and a ReLU, in eval mode.

    Which operators come out, and how many tensors are stored with them?
    """
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    proto = to_onnx(net, torch.ones(1, 3, 8, 8))
    found = operators(proto), len(proto.graph.initializer)
    assert found == __


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
def test_a_word_that_is_missing():
    """Three operations in a row, and the export fails. Which of them does the error name?"""

    class Chain(nn.Module):
        def forward(self, x):
            return torch.erf(torch.lgamma(F.silu(x)))

    with pytest.raises(RuntimeError) as caught:
        to_onnx(Chain(), torch.ones(3))
    words = ["silu", "lgamma", "erf"]
    assert [w for w in words if f"node %{w}" in str(caught.value.__cause__)] == __


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
def test_four_ways_to_a_larger_picture():
    """Some say that part of this cannot be exported. Which operators come out, with their modes?

    A list of texts like "Pad constant"; or just ["refused"], if the export fails.
    """
    ways = [nn.Upsample(scale_factor=2, mode=mode) for mode in ("nearest", "bilinear", "bicubic")]
    net = nn.Sequential(*ways, nn.ConvTranspose2d(1, 1, 2, stride=2)).eval()
    found = ["refused"]
    with contextlib.suppress(RuntimeError):
        nodes = to_onnx(net, torch.ones(1, 1, 2, 2)).graph.node
        modes = [[a.s.decode() for a in node.attribute if a.name == "mode"] for node in nodes]
        found = [" ".join([node.op_type, *mode]) for node, mode in zip(nodes, modes)]
    assert found == __


@pytest.mark.slow
@pytest.mark.needs(torch=">=2.9", package="onnxscript")
def test_a_chip_that_wants_opset_10():
    """A chip understands opset 10 only, another one 19. The exporter's own translations are
    written for opset 18.

    A bicubic model is exported for both. Which opsets do the files have? Or "refused".
    """
    net, x, found = nn.Upsample(scale_factor=2, mode="bicubic").eval(), torch.ones(1, 1, 2, 2), []
    for opset in (10, 19):
        try:
            found.append(to_onnx(net, x, opset=opset).opset_import[0].version)
        except RuntimeError:
            found.append("refused")
    assert found == __


@pytest.mark.needs(torch=">=2.9", package="onnxruntime")
def test_stairs_in_the_picture():
    """Somebody took the bicubic upsampling out, "for ONNX", and the pictures have stairs now.

    Repair the marked line: in onnxruntime, the model must answer as it was trained to.
    """
    trained = nn.Upsample(scale_factor=2, mode="bicubic", align_corners=False)

    def model_for_onnx():
        # your turn:
        return nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.AvgPool2d(1))
        # end

    ask = start(to_onnx(model_for_onnx().eval(), torch.rand(1, 1, 4, 4)))
    for _ in range(2):
        x = torch.rand(1, 1, 4, 4)
        torch.testing.assert_close(ask(x), trained(x), rtol=1e-3, atol=1e-4)


@pytest.mark.needs(torch=">=2.9", package="onnxruntime")
def test_write_the_way_out_of_pytorch():
    """Write `deploy`: give back a function that answers batches of any size with onnxruntime. The
    helpers at the top of the file are yours to use. PyTorch must not multiply any more."""
    ran = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    def deploy(model, example):
        # your turn:
        __
        # end

    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    ask = deploy(model, torch.randn(2, 3))
    for size in (1, 2, 5):
        x = torch.randn(size, 3)
        with Watch():
            y = ask(x)
        torch.testing.assert_close(y, model.eval()(x).detach(), rtol=1e-3, atol=1e-4)
        assert "addmm" not in ran
