"""ONNX: a translation, operator by operator, for runtimes that know nothing of PyTorch.

Documents: B 5
"""

import contextlib
import copy
import io
import logging
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import answer, koan


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
@koan(
    claims=["B-5-22"],
    see="torch.onnx.export",
    hint=[
        "The translator sees operations, not modules. What does each of these three compute?",
        "ONNX has an operator for a product of matrices plus a bias.",
        "ONNX 18 knows no SiLU. It is x * sigmoid(x).",
        "What does dropout do in eval mode?",
    ],
    why=(
        "It is a translation: each operation becomes one operator of ONNX, or several, or none. "
        "Linear is one, Gemm. SiLU has no word of its own in this version and takes two. Dropout "
        "does nothing in eval mode, so nothing is left of it."
    ),
    wrong={
        "['Linear', 'SiLU', 'Dropout']": (
            "Some take it for another file format. ONNX has words of its own, and no modules."
        ),
        "['MatMul', 'Add', 'Sigmoid', 'Mul']": "For the first two ONNX has one word.",
        "['Gemm', 'Sigmoid', 'Mul', 'Dropout']": "What would the last one do in eval mode?",
        "['Gemm', 'SiLU']": "Not every operation has a word of its own over there.",
        "['Gemm', 'Mul', 'Sigmoid']": "SiLU is x * sigmoid(x). Which factor has to be made first?",
    },
)
def test_three_layers_in_another_language():
    """A small model in eval mode is exported to ONNX (opset 18). Which operators come out?

    Names in order, out of: Add, Dropout, Gemm, Linear, MatMul, Mul, Sigmoid, SiLU.
    """
    net = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Dropout(0.5)).eval()
    assert operators(to_onnx(net, torch.ones(1, 3))) == answer(["Gemm", "Sigmoid", "Mul"])


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@koan(
    claims=["B-5-23"],
    see="torch.nn.BatchNorm2d",
    hint=[
        "In eval mode a batch norm multiplies each channel by a number and adds another.",
        "What comes just before it multiplies, and adds, too.",
        "How many tensors does a convolution with a bias store? Is there more to keep?",
    ],
    why=(
        "aten::conv2d becomes Conv, and what batch norm does in eval mode fits into the "
        "convolution's own weight and bias. Its four tensors are gone, and the two that are left "
        "hold other numbers than the model."
    ),
    wrong={
        ("['Conv', 'BatchNormalization', 'Relu']", "6"): (
            "One operator for each module would be correct. But can one of them be saved?"
        ),
        ("['Conv', 'Relu']", "6"): "If the norm is gone, who would need its tensors?",
        ("['Conv', 'Relu']", "1"): "Where is that which the norm adds?",
        ("['Conv', 'BatchNormalization', 'Relu']", "2"): "Then the norm would have no numbers.",
    },
    at={
        "operators(proto)": (
            "This line lists the operators in the file, in order. Does each of the three "
            "modules need one of its own?"
        ),
        "len(proto.graph.initializer)": (
            "The operators are right. This line counts the tensors in the file: which numbers "
            "do these operators need?"
        ),
    },
)
def test_a_norm_behind_a_convolution():
    """Export a convolution (with a bias), its batch norm and a ReLU, in eval mode.

    Which operators come out, and how many tensors are stored with them?
    """
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    proto = to_onnx(net, torch.ones(1, 3, 8, 8))
    assert operators(proto) == answer(["Conv", "Relu"])
    assert len(proto.graph.initializer) == answer(2)


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@koan(
    claims=["B-5-24"],
    see="torch.lgamma",
    hint=[
        "Could it be put together from others, as x * sigmoid(x) is? If so, it is no obstacle.",
        "Models with SiLU and models with GELU are exported every day. Which functions do they "
        "need?",
    ],
    why=(
        "lgamma is in no opset, and nobody wrote a translation for it: the export fails, and "
        "names the node. Rewrite that line with other operations, or hand the exporter a "
        "translation (custom_translation_table)."
    ),
    wrong={
        "[]": "Some expect that PyTorch's own operation stays in the file. Who would run it?",
        "['silu']": "It has no word of its own in this opset, and still can be said.",
        "['erf']": "That one is needed for GELU, and ONNX has it.",
        "['silu', 'lgamma']": "Take them one by one: which can be put together from others?",
    },
)
def test_a_word_that_is_missing():
    """Three operations in a row, and the export fails. Which of them does the error name?"""

    class Chain(nn.Module):
        def forward(self, x):
            return torch.erf(torch.lgamma(F.silu(x)))

    with pytest.raises(RuntimeError) as caught:
        to_onnx(Chain(), torch.ones(3))
    words = ["silu", "lgamma", "erf"]
    assert [w for w in words if f"node %{w}" in str(caught.value.__cause__)] == answer(["lgamma"])


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@koan(
    claims=["B-5-25", "B-5-27"],
    see="torch.nn.Upsample",
    hint=[
        "ONNX has one operator for changing the size of pictures. What is left to say is how.",
        "ONNX says linear where PyTorch says bilinear. What would it call bicubic?",
        "The last layer is another thing: it has weights to learn.",
    ],
    why=(
        "One Resize for each Upsample, with its mode: cubic is there since opset 11. No layer has "
        "to be rewritten. ConvTranspose2d is exported as well, but its weights are to be learned: "
        "it is no substitute in a trained model."
    ),
    wrong={
        "['refused']": (
            "Some say that ONNX has no counterpart for bicubic. It has, since 2019. Which one?"
        ),
        "['Resize nearest', 'Resize linear', 'Resize nearest', 'ConvTranspose']": (
            "Some say that bicubic must become nearest for ONNX. Nothing is replaced in silence."
        ),
        "['ConvTranspose', 'ConvTranspose', 'ConvTranspose', 'ConvTranspose']": (
            "Some say that Upsample has to give way to ConvTranspose2d. Only one of these learns."
        ),
        "['Upsample nearest', 'Upsample linear', 'Upsample cubic', 'ConvTranspose']": (
            "ONNX once had an operator of that name. It was replaced in opset 10."
        ),
    },
)
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
    assert found == answer(["Resize nearest", "Resize linear", "Resize cubic", "ConvTranspose"])


@pytest.mark.slow
@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@koan(
    claims=["B-5-29"],
    see="torch.onnx.export",
    hint=[
        "The exporter's translations are written for one opset. From there it converts.",
        "Resize learned cubic in opset 11. Can this model be said in opset 10 at all?",
        "Would PyTorch rather stop, or go on and leave a line in the log?",
    ],
    why=(
        "From 18 it converts up to 19, but not down to 10, and so it leaves 18. It only says so in "
        "its log, which `to_onnx` turns off: take logging.disable away to read it. What a chip "
        "understands is a property of its runtime: check the opset, and compare answers."
    ),
    wrong={
        "[10, 19]": "Some take the argument for a promise. Read opset_import of both.",
        "['refused', 19]": "So it was with the older exporter. This one does not stop.",
        "[11, 19]": "Cubic came with 11. But the exporter does not search for the lowest.",
        "[19, 19]": "The second is as wished. The first starts from where the translations are.",
        "['refused', 18]": "Nothing is refused, and one of the two conversions can be done.",
        "[18, 18]": "For one of them yes. Is there anything in this model that 19 cannot say?",
    },
)
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
    assert found == answer([18, 19])


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@pytest.mark.needs(package="onnxruntime")
@koan(
    claims=["B-5-26"],
    see="torch.nn.Upsample",
    hint=[
        "Print nn.Upsample with each mode for the first row. Which come near the old answers?",
        "Some of the old answers lie below zero, and one half way is 0.59. Which kind of curve "
        "swings like that?",
        "The given pixels are found again among the old answers, the first and the last too. "
        "Which option of nn.Upsample speaks of corners?",
    ],
    why=(
        "Bicubic with align_corners=True, and ONNX can say it: nothing had to be rewritten. "
        "Nearest repeats pixels, bicubic draws curves through sixteen of them; a model trained "
        "with one is not at home with the other, and a layer behind it does not mend that. If a "
        "chip lacks cubic, that is a limit of the chip."
    ),
    wrong={
        "own = nn.Conv2d(1, 1, 3, padding=1, bias=False)\n"
        "nn.init.constant_(own.weight, 1 / 9)\n"
        "return nn.Sequential(nn.Upsample(size=(1, 7), mode='nearest'), own)": (
            "Some say that nearest and a layer of your own stand in for it. Compare the values."
        ),
        "return nn.Upsample(size=(1, 7), mode='bilinear', align_corners=True)": (
            "Close, and never below zero. It weighs two pixels of a row, and not four."
        ),
        "return nn.Upsample(size=(1, 7), mode='bicubic')": (
            "The right curve. But the given pixels are not found again: it looks between them."
        ),
        "return nn.ConvTranspose2d(1, 1, (1, 4), stride=(1, 1))": (
            "Some put it in place of Upsample. Its weights have learned nothing yet."
        ),
    },
    right=[
        "return nn.Upsample((1, 7), None, 'bicubic', True)",
        "class Larger(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return F.interpolate(x, size=(1, 7), mode='bicubic', align_corners=True)\n"
        "return Larger()",
    ],
    at={
        "start(to_onnx(": (
            "Here the model that you return is exported and started, and it did not come to "
            "that. What does the message object to?"
        ),
    },
)
def test_stairs_in_the_picture():
    """Somebody rewrote a layer, "for ONNX", and the pictures have stairs now. What the trained
    model made of two rows of four pixels is written down below: seven each.

    Repair the marked line: in onnxruntime, the answers must be the old ones.
    """
    old = {(0, 0, 1, 0): [0, -0.09375, 0, 0.59375, 1, 0.59375, 0]}
    old |= {(4, 0, 0, 8): [4, 2, 0, -1.125, 0, 4, 8]}

    def model_for_onnx():
        # answer:
        return nn.Upsample(size=(1, 7), mode="bicubic", align_corners=True)
        # given:
        # return nn.Upsample(size=(1, 7), mode="nearest")
        # end

    ask = start(to_onnx(model_for_onnx().eval(), torch.rand(1, 1, 1, 4)))
    for row, larger in old.items():
        answers = ask(torch.tensor(row, dtype=torch.float32).view(1, 1, 1, 4))
        torch.testing.assert_close(answers.flatten(), torch.tensor(larger), rtol=0, atol=1e-4)


@pytest.mark.needs(torch=">=2.9", package="onnxscript")
@pytest.mark.needs(package="onnx")
@pytest.mark.needs(package="onnxruntime")
@koan(
    see="torch.onnx.export",
    hint=[
        "`to_onnx` at the top of this file makes the file. What has to be said to it, and to the "
        "model before?",
        "It hands other options on to the exporter: dynamic_shapes is one, as for torch.export.",
        "The model comes from training. A server wants no dropout in the file.",
    ],
    why=(
        "eval, a dynamic batch, the translation: from here on neither the class nor the weights "
        "in Python take part. Comparing with the model, as this koan does, is the last step of "
        "every export (verify=True does it for you)."
    ),
    wrong={
        "return to_onnx(model.eval(), example)": (
            "The number of rows in the example was taken for a law."
        ),
        "proto = to_onnx(model.eval(), example)\nreturn proto": (
            "The number of rows in the example was taken for a law."
        ),
        "return to_onnx(model, example, dynamic_shapes=({0: torch.export.Dim('batch')},))": (
            "The model came from training, and something of that is in the file."
        ),
        "return model.eval()": "That answers well, but in PyTorch. An ONNX file is asked for.",
        "shapes = ({0: torch.export.Dim('batch')},)\n"
        "return torch.export.export(model.eval(), (example,), dynamic_shapes=shapes)": (
            "A fine program, in a form of PyTorch's own. An ONNX file is asked for."
        ),
        "shapes = ({1: torch.export.Dim('batch')},)\n"
        "return to_onnx(model.eval(), example, dynamic_shapes=shapes)": (
            "Which of the two dimensions counts the requests?"
        ),
    },
    right=[
        "batch = torch.export.Dim.AUTO\n"
        "return to_onnx(model.eval(), example, dynamic_shapes=[{0: batch}])",
        "model.eval()\n"
        "with torch.no_grad():\n"
        "    return to_onnx(model, example, dynamic_shapes=({0: torch.export.Dim('n')},))",
    ],
    at={
        '"Dropout" not in operators(proto)': (
            "The file can be read. But one of its operators is of use in training only. Print "
            "the list: what has to be said before the export?"
        ),
        "ask(x), y": (
            "It is an ONNX file. Now batches of 1, 2 and 5 rows ask it, and want the answers of "
            "a server. Which batch fails?"
        ),
    },
)
def test_write_the_way_out_of_pytorch():
    """Write `deploy`: give back an ONNX file, as `to_onnx` makes it, for batches of any size. The
    model comes fresh from training. Then the model is destroyed, and onnxruntime has to give the
    answers that it would have given in a server."""

    def deploy(model, example):
        # answer:
        shapes = ({0: torch.export.Dim("batch")},)
        return to_onnx(model.eval(), example, dynamic_shapes=shapes)
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
