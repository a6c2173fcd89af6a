"""ONNX: a translation, operator by operator, for runtimes that know nothing of PyTorch."""

import contextlib
import copy
import io
import logging
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

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
@pytest.mark.needs(package="onnx")
def test_three_layers_in_another_language():
    """A small model in eval mode is exported to ONNX (opset 18). Which operators come out?

    Names in order, out of: Add, Dropout, Gemm, Linear, MatMul, Mul, Sigmoid, SiLU.
    """
    net = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Dropout(0.5)).eval()
    assert operators(to_onnx(net, torch.ones(1, 3))) == __


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
def test_a_norm_behind_a_convolution():
    """Export a convolution (with a bias), its batch norm and a ReLU, in eval mode.

    Which operators come out, and how many tensors are stored with them?
    """
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    proto = to_onnx(net, torch.ones(1, 3, 8, 8))
    assert operators(proto) == __
    assert len(proto.graph.initializer) == __


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
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
@pytest.mark.needs(package="onnx")
def test_four_ways_to_a_larger_picture():
    """Three ways to make a picture larger without weights, and one with. Which operators come
    out, with their modes?

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
@pytest.mark.needs(package="onnx")
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


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@pytest.mark.needs(package="onnxruntime")
def test_stairs_in_the_picture():
    """Somebody rewrote a layer, "for ONNX", and the pictures have stairs now. What the trained
    model made of two rows of four pixels is written down below: seven each.

    Repair the marked line: in onnxruntime, the answers must be the old ones.
    """
    old = {(0, 0, 1, 0): [0, -0.09375, 0, 0.59375, 1, 0.59375, 0]}
    old |= {(4, 0, 0, 8): [4, 2, 0, -1.125, 0, 4, 8]}

    def model_for_onnx():
        # your turn:
        return nn.Upsample(size=(1, 7), mode="nearest")
        # end

    ask = start(to_onnx(model_for_onnx().eval(), torch.rand(1, 1, 1, 4)))
    for row, larger in old.items():
        answers = ask(torch.tensor(row, dtype=torch.float32).view(1, 1, 1, 4))
        torch.testing.assert_close(answers.flatten(), torch.tensor(larger), rtol=0, atol=1e-4)


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@pytest.mark.needs(package="onnxruntime")
def test_write_the_way_out_of_pytorch():
    """Write `deploy`: give back an ONNX file, as `to_onnx` makes it, for batches of any size. The
    model comes fresh from training. Then the model is destroyed, and onnxruntime has to give the
    answers that it would have given in a server."""

    def deploy(model, example):
        # your turn:
        __
        # end

    for wide in (3, 5):
        layers = nn.Linear(wide, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)
        model, batches = nn.Sequential(*layers), [torch.randn(size, wide) for size in (1, 2, 5)]
        model(3 * torch.randn(50, wide) + 1)
        expected = [copy.deepcopy(model).eval()(x).detach() for x in batches]
        proto = deploy(model, torch.randn(2, wide))
        assert "Dropout" not in operators(proto), f"in the file: {operators(proto)}"
        for weight in model.state_dict().values():
            weight.zero_()
        ask = start(proto)
        for x, y in zip(batches, expected, strict=True):
            torch.testing.assert_close(ask(x), y, rtol=1e-3, atol=1e-4)
