"""Modes: what train() and eval() switch, and what they leave alone.

Documents: A 4.5, B 1, B 5
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import answer, koan


@pytest.mark.tour(20)
@koan(
    claims=["B-1-12", "B-5-01"],
    see="torch.nn.Module.train",
    hint=[
        "eval() writes one attribute. Which one, and on which modules?",
        "Two of these modules read it. How deep does eval() go?",
    ],
    why=(
        "train(mode) sets self.training here and in every module below, and returns self; eval() "
        "is train(False). That is all of it. Any module may read the flag, yours too."
    ),
    wrong={
        "[100.0, 100.0]": (
            "Some say these calls are only for dropout and batch norm. They do not ask who reads "
            "the flag."
        ),
        "[100.0, 10.0]": "One of the two sits a level deeper. Is that too deep?",
        "[1.0, 1.0]": "A new module begins in one of the two modes. Print net.training.",
    },
)
def test_a_module_of_your_own_reads_the_flag():
    """Shout asks for its own mode. Predict what the net says before and after eval()."""

    class Shout(nn.Module):
        def forward(self, x):
            return x * 10 if self.training else x

    net = nn.Sequential(Shout(), nn.Sequential(Shout()))
    x = torch.ones(1)
    assert [net(x).item(), net.eval()(x).item()] == answer([100.0, 1.0])


@koan(
    claims=["B-5-01"],
    see="torch.nn.Module.eval",
    hint=[
        "Who needs randomness, or a memory of other batches, while training?",
        "The R of one of these stands for randomized.",
        "Two of the norms look only at the sample in front of them.",
    ],
    why=(
        "Most layers never read the flag. Batch norm does, dropout does, and RReLU, whose slope "
        "is random in training. Layer norm and group norm compute from the sample alone, always."
    ),
    wrong={
        "['Linear', 'BatchNorm1d', 'LayerNorm', 'GroupNorm', 'RReLU', 'Softmax', 'Dropout']": (
            "Some say the two modes are two different computations. Only where a layer reads "
            "the flag."
        ),
        "['BatchNorm1d', 'LayerNorm', 'GroupNorm', 'RReLU', 'Dropout']": (
            "Not every norm keeps statistics of other batches."
        ),
        "['BatchNorm1d', 'Dropout']": "These two are famous. One more is random in training.",
        "['Dropout']": "Chance is one reason to differ. A memory is another.",
    },
)
def test_who_cares_for_the_mode():
    """Each layer computes once in train mode and once in eval mode.

    For which names do the results differ? Keep the order.
    """
    x = torch.linspace(-3, 5, 64).view(8, 8)
    layers = [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.GroupNorm(2, 8)]
    layers += [nn.RReLU(), nn.Softmax(dim=1), nn.Dropout(0.5)]
    differ = [
        type(layer).__name__
        for layer in layers
        if not torch.equal(layer.train()(x), layer.eval()(x))
    ]
    assert differ == answer(["BatchNorm1d", "RReLU", "Dropout"])


@koan(
    claims=["B-5-02"],
    see="torch.nn.Dropout",
    hint=[
        "The mean of the output should be near 1, as it is without dropout.",
        "Is 0.75 the share that goes, or the share that stays?",
    ],
    why=(
        "p is the chance to be zeroed. What survives is multiplied by 1 / (1 - p), so that the "
        "mean stays, and eval mode has nothing to correct."
    ),
    wrong={
        "[0.0, 1.0]": (
            "With this the sum would shrink to a quarter, and the next layer would see another "
            "world in eval mode."
        ),
        "[0.0, 0.25]": "Scaled the wrong way: the survivors stand in for those that are gone.",
        "[0.0, 0.75]": "p is a probability, not the factor.",
        "[0.0, 1.3333333730697632]": "Some frameworks counted what is kept. p counts what goes.",
    },
)
def test_what_dropout_leaves():
    """A thousand ones go through a dropout. Which different values come out, the smallest first?"""
    dropout = nn.Dropout(0.75)
    out = dropout(torch.ones(1000))
    assert sorted(set(out.tolist())) == answer([0.0, 4.0])


@koan(
    claims=["B-5-04"],
    see="torch.nn.functional.dropout",
    hint=[
        "A function is no module. How would it know that eval() was called?",
        "Look at the signature of F.dropout, and at its defaults.",
    ],
    why=(
        "eval() reaches modules, and F.dropout is a function whose default is training=True. "
        "Pass the flag on, or use an nn.Dropout that is built in __init__."
    ),
    wrong={
        "return nn.Dropout(0.5)(x)": (
            "A module, but a new one at each call, and a new module begins in train mode."
        ),
        "return F.dropout(x, 0.5, training=torch.is_grad_enabled())": (
            "eval() does not switch gradients off. It is another switch."
        ),
        "return F.dropout(x, 0.5, training=False)": "Then it never drops, and training is poorer.",
        "return F.dropout(x, 0.5) if self.training else x * 0.5": (
            "The survivors were scaled up in training already."
        ),
    },
    right=[
        "return F.dropout(x, 0.5, self.training)",
        "return F.dropout(x, 0.5) if self.training else x",
        "return nn.Dropout(0.5).train(self.training)(x)",
    ],
    at={
        "head.eval()(x)": (
            "Train mode is right. But in eval mode x does not come out as it went in: how does "
            "your line learn of the mode?"
        ),
        "head.train()(x)": (
            "This line is about train mode: there the module should drop as it always did, and "
            "scale what is left."
        ),
    },
)
def test_a_dropout_that_never_stops():
    """In eval mode this module still drops. Repair it; in train mode it must go on dropping."""

    class Head(nn.Module):
        def forward(self, x):
            # answer:
            return F.dropout(x, 0.5, training=self.training)
            # given:
            # return F.dropout(x, 0.5)
            # end

    x = torch.ones(1000)
    head = Head()
    assert set(head.train()(x).tolist()) == {0.0, 2.0}
    assert torch.equal(head.eval()(x), x)


@koan(
    claims=["B-5-03"],
    see="torch.nn.BatchNorm1d",
    hint=[
        "The running mean starts at 0, the running variance at 1. Each moves towards the batch.",
        "For the mean: momentum is the weight of one of the two. Of what was, or of what is new?",
        "For the variance: the squared distances are 4 and 4. Divide their sum by 2, or by 1?",
    ],
    why=(
        "running = (1 - momentum) * running + momentum * new: here momentum weighs the NEW value, "
        "unlike in an optimizer. The running variance stores the unbiased one (divided by "
        "n - 1, so 8), though the batch itself is normalized with the biased one (4)."
    ),
    wrong={
        ("7.5", "6.25"): (
            "Some carry over momentum from the optimizers, where it weighs the old value."
        ),
        ("2.5", "1.75"): (
            "The batch itself is normalized with the variance 4. What is stored for later is a "
            "guess about all data."
        ),
        ("10.0", "8.0"): "One batch does not replace what was there. It moves it a little.",
        ("0.0", "1.0"): "These are the values before. In train mode each forward moves them.",
        ("7.5", "3.25"): (
            "Some carry over momentum from the optimizers, where it weighs the old value. "
            "And what is stored is not the variance that normalizes the batch."
        ),
    },
    at={
        "bn.running_mean": (
            "The running mean starts at 0 and goes a part of the way to 10. How large is that "
            "part, with this momentum?"
        ),
        "bn.running_var": (
            "The mean is right, so you know how far one batch moves it. Now: to which variance of"
            " these two numbers does it move?"
        ),
    },
)
def test_one_batch_moves_the_running_statistics():
    """The batch has the mean 10. Predict the running mean and the running variance after it."""
    bn = nn.BatchNorm1d(1, momentum=0.25)
    bn(torch.tensor([[8.0], [12.0]]))
    assert bn.running_mean.item() == answer(2.5)
    assert bn.running_var.item() == answer(2.75)


@koan(
    claims=["B-5-05"],
    see="torch.nn.BatchNorm1d",
    hint=[
        "In eval mode a batch norm uses what it remembers. What does a fresh one remember?",
        "The other one was told not to remember. What is left to use?",
    ],
    why=(
        "A fresh one remembers mean 0 and variance 1, so in eval mode it changes almost nothing. "
        "With track_running_stats=False there is nothing to remember, and it uses the batch at "
        "hand, in eval mode as well."
    ),
    wrong={
        "[0, 0]": (
            "Some say a batch norm always gives mean 0. In eval mode it does not look at the batch "
            "if it can help it."
        ),
        "[10, 10]": "eval() cannot make a layer use statistics that it does not have.",
        "[0, 10]": "The other way round. Print the running_mean of each.",
    },
)
def test_two_batch_norms_that_never_trained():
    """Neither has seen a batch. The mean of x is 10. Predict the rounded mean of each output."""
    fresh = nn.BatchNorm1d(1).eval()
    forgetful = nn.BatchNorm1d(1, track_running_stats=False).eval()
    x = torch.tensor([[8.0], [12.0]])
    assert [round(bn(x).mean().item()) for bn in (fresh, forgetful)] == answer([10, 0])


@koan(
    see="torch.nn.BatchNorm1d",
    hint=[
        "A batch norm looks at one channel at a time. How many values does each channel have here?",
        "How far do values spread, if there is only one? And who needs to know that spread: every "
        "norm, or only one that measures the batch?",
        "The last norm was told to keep no statistics. What does it do in eval mode, then?",
    ],
    why=(
        "One value has no spread: ValueError, expected more than 1 value per channel when "
        "training. A picture brings height * width values per channel, so one picture is enough. "
        "Without running statistics the batch is measured in eval mode too. The usual culprit is "
        "the last, smaller batch: drop_last=True, or a norm that needs no batch."
    ),
    wrong={
        "['row']": "A picture of one pixel has no more values per channel than a row.",
        "['row', 'pixel']": "eval() cannot make a norm use statistics that it does not keep.",
        "['row', 'picture', 'pixel']": (
            "Some say a batch of one is always too small. What counts is one channel."
        ),
        "['row', 'picture', 'pixel', 'row in eval', 'row, forgetful']": (
            "Some say a batch norm needs a batch, so one sample is always too few. "
            "It needs statistics, and they may come from elsewhere."
        ),
        "['row', 'pixel', 'row in eval', 'row, forgetful']": (
            "In eval mode a norm uses what it remembers, if it remembers anything."
        ),
        "[]": "With one value the variance would be 0 / 0. There is a check against it.",
    },
)
def test_a_batch_of_one():
    """Each batch holds a single sample with four channels. Which ones are refused?"""
    row, picture, pixel = torch.ones(1, 4), torch.ones(1, 4, 2, 2), torch.ones(1, 4, 1, 1)
    calls = {"row": (nn.BatchNorm1d(4), row), "picture": (nn.BatchNorm2d(4), picture)}
    calls |= {"pixel": (nn.BatchNorm2d(4), pixel), "row in eval": (nn.BatchNorm1d(4).eval(), row)}
    calls["row, forgetful"] = (nn.BatchNorm1d(4, track_running_stats=False).eval(), row)
    refused = []
    for name, (norm, x) in calls.items():
        try:
            norm(x)
        except ValueError:
            refused.append(name)
    assert refused == answer(["row", "pixel", "row, forgetful"])


@koan(
    claims=["A-4.5-11"],
    see="torch.no_grad",
    hint=[
        "num_batches_tracked counts the batches that a norm has learned from.",
        "What do the two blocks switch: a recording, or a module's flag?",
    ],
    why=(
        "no_grad and inference_mode stop the recording of the graph. The modules do not notice: "
        "batch norm learns its statistics, dropout drops. Only the mode of the module decides."
    ),
    wrong={
        "[0, 0, 0]": (
            "Some say that without gradients nothing is learned. Running statistics are no "
            "gradients."
        ),
        "[1, 0, 0]": (
            "Some say inference_mode puts the model into eval mode. It only has the name."
        ),
        "[1, 1, 1]": "One of the three was told not to learn from this batch.",
    },
)
def test_who_learns_from_the_batch():
    """Some say no_grad leaves the modes of the layers alone, and they are right.

    Three norms see the same batch: under no_grad, in inference_mode, after eval(). How many batches
    has each one counted?
    """
    x = torch.randn(4, 2)
    a, b, c = (nn.BatchNorm1d(2) for _ in range(3))
    with torch.no_grad():
        a(x)
    with torch.inference_mode():
        b(x)
    c.eval()(x)
    assert [bn.num_batches_tracked.item() for bn in (a, b, c)] == answer([1, 1, 0])


@koan(
    claims=["B-5-06"],
    see="torch.nn.Module.eval",
    hint=[
        "eval() writes flags. Does it remove anything?",
        "Linear and BatchNorm1d have two parameters each. Who would keep gradients from them?",
    ],
    why=(
        "The structure stays: three layers, and 2 + 5 entries in the state_dict. The graph stays "
        "too: all four parameters get gradients. For predicting you want eval() and no_grad()."
    ),
    wrong={
        "[3, 7, 0]": (
            "Some say eval() stops gradients. It switches layers; recording has its own switch."
        ),
        "[2, 7, 4]": "A dropout in eval mode does nothing, but it does not leave.",
        "[3, 7, 2]": "In eval mode a batch norm still scales and shifts, with weight and bias.",
        "[3, 4, 4]": "The statistics stay in the dictionary in both modes.",
    },
)
def test_what_is_left_after_eval():
    """The net is in eval mode, and then backward is called. Count three things:

    its layers, the entries of its state_dict, and the parameters that have a gradient.
    """
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    net.eval()
    net(torch.ones(4, 2)).sum().backward()
    trained = sum(p.grad is not None for p in net.parameters())
    assert [len(net), len(net.state_dict()), trained] == answer([3, 7, 4])


@koan(
    see="torch.nn.Module.eval",
    hint=[
        "eval() is a walk through the modules that are there. When does it take place?",
        "Setting a child registers it. Does it also set the child's flag?",
    ],
    why=(
        "Each module has its own flag, and eval() writes all of them once. A head that is put in "
        "later comes in the mode it was built in. net.training tells you about net alone."
    ),
    wrong={
        "[]": "Some say a model in eval mode has all its parts in eval mode. Nobody keeps it so.",
        "['', 'head']": "The outermost module, whose name is '', was reached by eval().",
        "['', 'norm', 'body', 'head']": "A new child does not change the modes of the others.",
    },
)
def test_a_new_head_after_eval():
    """The head is put in after eval(). Which names are in train mode now?

    In named_modules() the outermost module has the name ''.
    """
    net = nn.ModuleDict({"norm": nn.BatchNorm1d(2), "body": nn.Linear(2, 2)})
    net.eval()
    net["head"] = nn.Dropout(0.5)
    assert [name for name, module in net.named_modules() if module.training] == answer(["head"])


@koan(
    see="torch.nn.Module.requires_grad_",
    hint=[
        "Compare backbone.state_dict() before and after. Which entries move?",
        "Who writes these, and when? Not the optimizer.",
    ],
    why=(
        "requires_grad=False keeps the optimizer away from the parameters. The running statistics "
        "are buffers, written by forward in train mode. To freeze a part, put it into eval mode "
        "as well."
    ),
    wrong={
        "part.requires_grad_(False)\nfor b in part.buffers():\n    b.requires_grad_(False)": (
            "Buffers never asked for gradients. They are written without any."
        ),
        "with torch.no_grad():\n    part.requires_grad_(False)": (
            "no_grad ends with its block, and batch norm does not ask for it anyway."
        ),
        "part.eval()": "The statistics stand still. The weights would still be trained.",
        "part.requires_grad_(False)\npart[1].eval()": (
            "The norm is not always in the same place. Another backbone has it deeper."
        ),
        "part.requires_grad_(False)\npart.training = False": (
            "This sets the flag of the outermost module only. Its children keep theirs."
        ),
    },
    right=[
        "part.eval().requires_grad_(False)",
        "part.requires_grad_(False)\nfor m in part.modules():\n    m.training = False",
        "part.requires_grad_(False)\npart.train(False)",
    ],
    at={
        "torch.equal(value, before[name])": (
            "No parameter got a gradient. But an entry moved: its name, at the end of the error, "
            "is the path to it. Does `freeze` reach that module, and what does it stop there?"
        ),
        "p.grad is None": (
            "This line looks at gradients: some parameters of the backbone got one. In a frozen "
            "part none of them should."
        ),
    },
)
def test_a_frozen_part_that_moves():
    """A backbone is frozen, and yet it changes while the head is trained. Repair `freeze`.

    It must work for each backbone.
    """

    def freeze(part):
        # answer:
        part.requires_grad_(False)
        part.eval()
        # given:
        # part.requires_grad_(False)
        # end

    flat = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    deep = nn.Sequential(nn.Sequential(nn.BatchNorm1d(2)), nn.Linear(2, 2))
    head = nn.Linear(2, 1)
    for backbone in (flat, deep):
        freeze(backbone)
        before = {name: value.clone() for name, value in backbone.state_dict().items()}
        for _ in range(3):
            head(backbone(torch.randn(8, 2) + 5)).sum().backward()
        assert all(p.grad is None for p in backbone.parameters())
        for name, value in backbone.state_dict().items():
            assert torch.equal(value, before[name]), name


@koan(
    claims=["A-4.5-12"],
    see="torch.inference_mode",
    hint=[
        "To differentiate a product, autograd must keep both factors. A sum keeps nothing.",
        "A tensor made in inference_mode is marked. Which of these lines make a tensor of their "
        "own, with new memory, and which only a new look at the old one?",
    ],
    why=(
        "Tensors made in inference_mode are marked forever, and so is every view of their memory, "
        "detach() too: autograd may not save them for backward. A clone made outside the block is "
        "an ordinary tensor. inference_mode is the faster switch for predicting; if the result "
        "goes on into training, use no_grad, or clone it."
    ),
    wrong={
        "[]": (
            "Some say inference_mode is no_grad with another name. "
            "It leaves a mark on what is made inside."
        ),
        "['product']": "detach() leaves the graph. Is that the mark, and is there new memory?",
        "['sum', 'product', 'detached', 'cloned']": (
            "Some say such tensors cannot take part in training. They may not be saved; "
            "not everything needs saving."
        ),
        "['sum', 'product']": "Nothing of a sum must be kept for its derivative.",
        "['product', 'detached', 'cloned']": "A clone has memory of its own. Where was it made?",
    },
)
def test_features_from_inference_mode():
    """The features were made in inference_mode. Four ways to use them in training.

    Which of them raise an error?
    """
    with torch.inference_mode():
        features = nn.Linear(2, 2)(torch.ones(1, 2))
    scale = torch.ones(2, requires_grad=True)
    ways = {"sum": lambda f: f + scale, "product": lambda f: f * scale}
    ways |= {"detached": lambda f: f.detach() * scale, "cloned": lambda f: f.clone() * scale}
    failed = []
    for name, way in ways.items():
        try:
            way(features).sum().backward()
        except RuntimeError:
            failed.append(name)
    assert failed == answer(["product", "detached"])


@koan(
    see="torch.nn.Module.train",
    hint=[
        "Every epoch calls net.train(), and that walks into the norm. Where can you step in?",
        "If another mode is wrong: let the parent class do its work, then correct it. Which method "
        "do train() and eval() have in common?",
        "If the end fails: what does train() return? Others rely on it.",
    ],
    why=(
        "train() overwrites the mode of all that is below. A part that must stay in eval mode has "
        "to say so after every train(), and the best place for it is train() itself. It returns "
        "self, and eval() is train(False)."
    ),
    wrong={
        "def freeze(self):\n    self.norm.eval()": "Who calls it, after each train()?",
        "def eval(self):\n    self.norm.eval()\n    return super().eval()": (
            "Some say eval() once is enough. The next train() switches the norm back on."
        ),
        "def train(self, mode=True):\n    super().train(mode)\n    self.norm.eval()": (
            "The norm is frozen. But whoever writes net = net.train() gets nothing."
        ),
        "def train(self, mode=True):\n    self.norm.eval()\n    return super().train(mode)": (
            "The right lines in the wrong order: who has the last word?"
        ),
        "def train(self, mode=True):\n    self.norm.eval()\n    return self": (
            "Now nothing else changes its mode: the dropout neither, and not the net itself."
        ),
    },
    right=[
        "def train(self, mode=True):\n    result = super().train(mode)\n"
        "    self.norm.train(False)\n    return result",
        "def train(self, mode=True):\n    self.training = mode\n"
        "    for name, child in self.named_children():\n"
        "        child.train(mode and name != 'norm')\n    return self",
    ],
    at={
        "net[0].norm.training": (
            "The net was just put into a mode. The norm should be in eval mode now: is your "
            "method called then, and who has the last word?"
        ),
        "net.train(mode)": (
            "The net hands its mode down to its children here, as an argument. Can your method "
            "take it?"
        ),
        "net[0].dropout.training": (
            "The norm stays in eval mode. But Tuned itself and its dropout should both follow the"
            " mode that was asked for."
        ),
        "net[0].train() is": (
            "All modes are right. Here train() is called without an argument, and the line looks "
            "at what comes back."
        ),
        "net[0].eval()": (
            "All modes are right, and train() gives back what it should. This line looks at what "
            "eval() gives back."
        ),
    },
)
def test_a_norm_that_stays_frozen():
    """Write what is missing in Tuned: its norm stays in eval mode, whatever mode Tuned is put in.

    All else goes on as usual.
    """

    class Tuned(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.dropout = nn.Dropout(0.5)

        # answer:
        def train(self, mode=True):
            super().train(mode)
            self.norm.eval()
            return self

        # end

    net = nn.Sequential(Tuned())
    for mode in (True, False, True):
        net.train(mode)
        assert net[0].norm.training is False
        assert net[0].training is net[0].dropout.training is mode
    assert net[0].train() is net[0]
    assert net[0].eval() is net[0]


@koan(
    claims=["A-4.5-11", "A-4.5-12"],
    see="torch.nn.Module.modules",
    hint=[
        "Two switches: one for the layers, one for the recording. The output asks for both.",
        "If the modes differ: write them down before. One flag is not enough, parts may be frozen.",
        "If a child's mode differs: train() writes to all that is below. A flag can be set alone.",
    ],
    why=(
        "eval() for the layers, no_grad() or inference_mode() for the graph. And a guest leaves "
        "the house as it was: model.train() would also wake the parts that somebody froze."
    ),
    wrong={
        "with torch.no_grad():\n    return model(x)": (
            "Some say this is enough to predict. The layers are still in train mode."
        ),
        "model.eval()\nwith torch.no_grad():\n    return model(x)": (
            "The next epoch would train a model in eval mode."
        ),
        "model.eval()\nwith torch.no_grad():\n    y = model(x)\nmodel.train()\nreturn y": (
            "Not every model came in train mode, and not every part."
        ),
        "was = model.training\nmodel.eval()\nwith torch.no_grad():\n    y = model(x)\n"
        "model.train(was)\nreturn y": (
            "The outermost flag is restored, and then written over all the others."
        ),
        "modes = {m: m.training for m in model.modules()}\nmodel.eval()\ny = model(x)\n"
        "for m, mode in modes.items():\n    m.training = mode\nreturn y": (
            "The modes are right. But eval mode records the graph, as always."
        ),
    },
    right=[
        "modes = {m: m.training for m in model.modules()}\nmodel.eval()\n"
        "with torch.no_grad():\n    y = model(x)\n"
        "for m, mode in modes.items():\n    m.train(mode)\nreturn y",
        "modes = [(m, m.training) for m in model.modules()]\n"
        "try:\n    with torch.inference_mode():\n        return model.eval()(x)\n"
        "finally:\n    for m, mode in modes:\n        m.training = mode",
        "with torch.no_grad():\n    return copy.deepcopy(model).eval()(x)",
    ],
    at={
        "== modes": (
            "This line looks at the modes afterwards: a module was not left as it was found. "
            "Parts may be in another mode than the whole."
        ),
        "copy.deepcopy(net).eval()": (
            "Every mode is as before. But what you return is not the output of eval mode: when "
            "was it computed?"
        ),
        "y.requires_grad": "Modes and numbers are right. But y still has a graph behind it.",
    },
)
def test_predict_and_leave_no_trace():
    """Write `predict`: the output in eval mode, without a graph.

    Each module must be left in the mode in which it was found.
    """

    def predict(model, x):
        # answer:
        modes = {module: module.training for module in model.modules()}
        model.eval()
        with torch.no_grad():
            y = model(x)
        for module, mode in modes.items():
            module.training = mode
        return y
        # end

    inner = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    nets = [nn.Sequential(nn.Linear(2, 2), inner), nn.Sequential(inner, nn.RReLU())]
    for net in nets:
        for outer, norm, dropout in ((True, False, True), (True, True, False), (False, True, True)):
            net.train(outer)
            inner[0].train(norm)
            inner[1].train(dropout)
            modes, x = [m.training for m in net.modules()], torch.randn(4, 2)
            y = predict(net, x)
            assert [m.training for m in net.modules()] == modes
            assert torch.allclose(y, copy.deepcopy(net).eval()(x))
            assert not y.requires_grad
