"""Moving and first values: what .to() touches, and who fills a layer with numbers.

Documents: A 2.2
"""

import copy

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    claims=["A-2.2-09"],
    see="torch.nn.Module.to",
    hint=[
        "Nobody keeps what the two calls return. Which of them changes something all the same?",
        "Others hold a layer's parameters too: an optimizer, for one. Would it lose them?",
    ],
    why="Module.to works in place and returns the module itself; a tensor never changes, it gives "
    "you another. And with a new dtype the Parameter object stays the same one, with new data "
    "inside, so whoever holds it, an optimizer say, keeps it. (A move to meta, or to_empty(), "
    "makes new Parameters.)",
    wrong={
        "[torch.float32, torch.float32, torch.float32]": "Some say layer = layer.to(...) is a "
        "must. It is one for tensors. A module does not leave it to you.",
        "[torch.float64, torch.float64, torch.float64]": "Tensor.to never changes the tensor it "
        "is called on. It returns another one, and here nobody kept it.",
        "[torch.float64, torch.float32, torch.float32]": "That would be so if the layer got a new "
        "Parameter. It keeps the object and exchanges the numbers in it.",
    },
    right=["[torch.double, torch.float, torch.double]"],
)
def test_to_without_an_equals_sign():
    """We hold a layer's weight by a second name, and call .to() on a layer and on a tensor.

    Predict the three dtypes.
    """
    layer = nn.Linear(2, 2)
    held = layer.weight
    t = torch.ones(2)
    layer.to(torch.float64)
    t.to(torch.float64)
    assert [layer.weight.dtype, t.dtype, held.dtype] == answer(
        [torch.float64, torch.float32, torch.float64]
    )


@koan(
    claims=["A-2.2-09"],
    see="torch.nn.Module.register_buffer",
    hint=[
        "For the devices: Module.to asks each child to move, and the child asks its own children. "
        "Each moves what is registered with it.",
        "For the dtypes: a dtype for weights is not a dtype for counters.",
    ],
    why="to() goes down to every child and treats its parameters and buffers. A plain attribute is "
    "not registered, so nobody moves it. And a dtype reaches floating point numbers only: a "
    "counter in float16 would stop at 2048.",
    wrong={
        (
            "['meta', 'meta', 'meta']",
            "[torch.float16, torch.int64, torch.float16]",
        ): "A plain tensor is an attribute like any other: the module does not look for it.",
        (
            "['meta', 'meta', 'cpu']",
            "[torch.float16, torch.float16, torch.float32]",
        ): "A counter stays a counter.",
        (
            "['meta', 'cpu', 'cpu']",
            "[torch.float16, torch.int64, torch.float32]",
        ): "The device and the dtype are two questions. An integer can move.",
        (
            "['cpu', 'cpu', 'cpu']",
            "[torch.float32, torch.int64, torch.float32]",
        ): "The call was made on the model, but it goes down to the children and to theirs.",
    },
    right=[
        ("['meta', 'meta', 'cpu']", "[torch.half, torch.long, torch.float]"),
    ],
    at={
        "t.device.type for t": (
            "This line asks for the devices. Which of the three does the layer know as its own, "
            "and how deep does the call go?"
        ),
        "t.dtype for t": (
            "The devices are right, so you know who moves. Now the dtypes: what kind of number "
            "does each of the three hold?"
        ),
    },
)
def test_who_comes_along():
    """Some say Module.to goes down to the children and theirs, and they are right.

    A child of a child has a weight, a counting buffer, and a plain tensor. The whole model is
    moved. Predict, for these three in this order, the device types and the dtypes.
    """
    child = nn.Linear(2, 2)
    child.register_buffer("steps", torch.tensor(0))
    child.scale = torch.tensor(1.0)
    model = nn.Sequential(nn.Sequential(child))
    model.to("meta", torch.float16)
    tensors = [child.weight, child.steps, child.scale]
    assert [t.device.type for t in tensors] == answer(["meta", "meta", "cpu"])
    assert [t.dtype for t in tensors] == answer([torch.float16, torch.int64, torch.float32])


@koan(
    see="torch.nn.Module.to",
    hint=[
        "Could a weight of whole numbers still have a gradient? So Module.to checks the dtype.",
        "The check comes first, before any tensor moves: it is written in Python, and it is about "
        "the argument alone. Which exceptions does Python have for bad arguments?",
    ],
    why="to() takes floating point and complex dtypes only, and checks before it changes anything. "
    "To make integers of weights is quantisation, and that takes more than a dtype.",
    wrong={
        "ValueError": "Natural. Python has two exceptions for bad arguments.",
        "RuntimeError": "This is what a tensor that needs a gradient would say to such data. "
        "The module asks first.",
        "NotImplementedError": "There is no plan to do it some day. It is refused.",
    },
)
def test_a_layer_of_whole_numbers():
    """A tensor can become int64. And a layer? Which exception does it raise?"""
    layer = nn.Linear(2, 2)
    assert layer.weight.detach().to(torch.int64).dtype == torch.int64
    with pytest.raises(Exception) as caught:
        layer.to(torch.int64)
    assert caught.type is answer(TypeError)


@koan(
    see="torch.nn.Module.to_empty",
    hint=[
        "A move copies the numbers. Which numbers are there to copy?",
        "No device is missing, and no argument is bad. PyTorch has no code for this copy, and says "
        "so with an exception of Python.",
    ],
    why="A meta tensor has no numbers, so there is nothing to copy, and PyTorch will not invent "
    "them. It names the way out: to_empty() takes memory, and you fill it.",
    wrong={
        "RuntimeError": "Near: what is raised is a subclass of it that says more.",
        "ValueError": 'The value "cpu" is fine. It is the source that has nothing to give.',
        "TypeError": "A device is a good argument for to(). Only, what should be copied?",
    },
)
def test_back_from_meta():
    """On "meta" a layer has shapes and no numbers. Going there is easy.

    Which exception does the way back raise?
    """
    layer = nn.Linear(2, 2)
    layer.to("meta")
    with pytest.raises(Exception) as caught:
        layer.to("cpu")
    assert caught.type is answer(NotImplementedError)


@koan(
    see="torch.optim.Optimizer",
    hint=[
        "Compare `model.weight` with what the optimizer holds. Is it the same object?",
        "A dtype can be exchanged inside a Parameter. To come from meta, it takes a new one: when "
        "should the optimizer be told?",
    ],
    why="Between meta and a real device a Parameter is replaced by a new one. The optimizer still "
    "held the old ones, which never get a gradient, and it silently skipped them. "
    "Build the optimizer last.",
    wrong={
        "optimizer = torch.optim.SGD(model.parameters(), lr=1.0)\n"
        "model = model.to_empty(device='cpu')\n"
        "nn.init.ones_(model.weight)": "to_empty returns the same model. It is the parameters "
        "that are new.",
        "optimizer = torch.optim.SGD(list(model.parameters()), lr=1.0)\n"
        "model.to_empty(device='cpu')\n"
        "nn.init.ones_(model.weight)": "The optimizer makes such a list itself, of the same "
        "objects.",
        "model.to_empty(device='cpu')\n"
        "optimizer = torch.optim.SGD([model.weight.clone()], lr=1.0)\n"
        "nn.init.ones_(model.weight)": "The optimizer needs the parameter itself, not a result "
        "of it.",
    },
    right=[
        "model.to_empty(device='cpu')\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1.0)\n"
        "nn.init.ones_(model.weight)",
    ],
    at={
        "[[1.0 - size] * size]": (
            "The weight was full of ones before the step. Now it is not where one step leads: "
            "does the optimizer hold this very Parameter, and with which rate?"
        ),
        "[[1.0] * size]": (
            "This line comes before the step: the weight should be on the CPU by now, and full of"
            " ones."
        ),
    },
)
def test_an_optimizer_left_behind():
    """The step moves nothing, and nobody complains. Repair the marked lines."""
    for size in (1, 3):
        model = nn.Linear(size, 1, bias=False, device="meta")
        # answer:
        model.to_empty(device="cpu")
        nn.init.ones_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        # given:
        # optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        # model.to_empty(device="cpu")
        # nn.init.ones_(model.weight)
        # end
        assert model.weight.tolist() == [[1.0] * size]
        model(torch.full((1, size), float(size))).sum().backward()
        optimizer.step()
        assert model.weight.tolist() == [[1.0 - size] * size]


@koan(
    see="torch.nn.utils.skip_init",
    hint=[
        "Which of these begin with random numbers, and which with zeros and ones?",
        "skip_init builds a layer and leaves its memory as it is.",
    ],
    why="A new Linear or Embedding draws its weights from the global generator, so a layer "
    "more shifts every random number that comes later. BatchNorm1d starts with ones and zeros; "
    "skip_init leaves the memory as it is, for weights that you will load anyway.",
    wrong={
        "['Linear', 'Embedding', 'skip_init']": "To skip the init is to skip its random numbers, "
        "and the time they take.",
        "['Linear', 'BatchNorm1d', 'Embedding', 'skip_init']": "Two of these four get by without "
        "any random number.",
        "['Linear', 'BatchNorm1d', 'Embedding']": "A fresh BatchNorm1d changes nothing: "
        "it starts with plain ones and zeros.",
        "['Linear']": "One more of these needs a different vector for each word.",
    },
)
def test_who_draws_random_numbers():
    """Same seed, one more layer, and all later weights are other ones. Why?

    Building a layer may draw from the global generator. Name those that do, in this order.
    """
    makers = {
        "Linear": lambda: nn.Linear(2, 2),
        "BatchNorm1d": lambda: nn.BatchNorm1d(2),
        "Embedding": lambda: nn.Embedding(2, 2),
        "skip_init": lambda: nn.utils.skip_init(nn.Linear, 2, 2),
    }
    draws = {}
    for name, make in makers.items():
        before = torch.get_rng_state()
        make()
        draws[name] = not torch.equal(before, torch.get_rng_state())
    assert [name for name in draws if draws[name]] == answer(["Linear", "Embedding"])


@koan(
    see="torch.nn.Module.apply",
    hint=[
        "If an init complains of dimensions: a bias is no matrix. Who should be left alone here?",
        "`begin` gets one module at a time. It can ask what kind of layer it was given.",
        "If a write is refused: the functions of nn.init hide theirs from autograd.",
    ],
    why="apply(fn) hands you every module, the model itself at last, so fn must choose by type. "
    "The functions of nn.init write under no_grad: a write that autograd would record is refused "
    "for a parameter.",
    wrong={
        "for p in module.parameters():\n"
        "    if p.dim() > 1:\n"
        "        nn.init.xavier_uniform_(p)\n"
        "    else:\n"
        "        nn.init.zeros_(p)": "The norm's weight has one dimension too, and with zeros "
        "nothing comes through it.",
        "for p in module.parameters():\n"
        "    if p.dim() > 1:\n"
        "        nn.init.xavier_uniform_(p)": "The biases still hold what they were born with.",
        "if isinstance(module, nn.Linear):\n"
        "    bound = (6 / sum(module.weight.shape)) ** 0.5\n"
        "    module.weight.uniform_(-bound, bound)\n"
        "    module.bias.zero_()": "The right numbers. But autograd refuses a recorded write to "
        "a parameter.",
        "if isinstance(module, nn.Linear):\n"
        "    module.reset_parameters()": "That gives the default values once more.",
    },
    right=[
        "if isinstance(module, nn.Linear):\n"
        "    bound = (6 / sum(module.weight.shape)) ** 0.5\n"
        "    with torch.no_grad():\n"
        "        module.weight.uniform_(-bound, bound)\n"
        "        module.bias.zero_()",
        "if isinstance(module, nn.Linear):\n"
        "    bound = (6 / sum(module.weight.shape)) ** 0.5\n"
        "    module.weight.data.uniform_(-bound, bound)\n"
        "    module.bias.data.zero_()",
        "if type(module).__name__ == 'Linear':\n"
        "    nn.init.xavier_uniform_(module.weight)\n"
        "    nn.init.constant_(module.bias, 0)",
    ],
    at={
        "layer.weight.abs().max()": (
            "begin has run. But the weights of a Linear are not spread as Xavier values are, up "
            "to the bound and not beyond."
        ),
        "layer.bias.eq(0)": (
            "The weights have the right size. But a bias is not all zeros, or the weight is a "
            "result now and no leaf."
        ),
        "model[1].weight.eq(1)": (
            "Both Linear layers are right. But the norm should hold what it was born with."
        ),
    },
)
def test_first_values_of_our_own():
    """The plan: Xavier values for the weights of each Linear, zeros for its bias, and the norm
    left as it is. But this raises. Repair `begin`.
    """

    def begin(module):
        # answer:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        # given:
        # for p in module.parameters():
        #     nn.init.xavier_uniform_(p)
        # end

    model = nn.Sequential(nn.Linear(30, 20), nn.LayerNorm(20), nn.Linear(20, 10))
    model.apply(begin)
    for layer in (model[0], model[2]):
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert layer.bias.eq(0).all() and layer.weight.is_leaf
    assert model[1].weight.eq(1).all() and model[1].bias.eq(0).all()


@koan(
    see="torch.nn.Module.to_empty",
    hint=[
        "First memory on the CPU, then numbers in it. to_empty() does the first.",
        "Layers that start with numbers know how: reset_parameters(). "
        "A container has no such method, and its children have children.",
    ],
    why="to_empty() takes memory and leaves in it whatever was there. apply(fn) calls fn on every "
    "module, children first, at any depth; those with reset_parameters() fill themselves.",
    wrong={
        "model.to('cpu')": "There are no numbers to move.",
        "model.to_empty(device='cpu')": "This memory holds whatever was in it. Nobody filled it.",
        "model.to_empty(device='cpu')\n"
        "for layer in model.children():\n"
        "    if hasattr(layer, 'reset_parameters'):\n"
        "        layer.reset_parameters()": "children() goes one level down, no deeper.",
        "model.to_empty(device='cpu')\n"
        "for p in model.parameters():\n"
        "    nn.init.normal_(p)": "Each kind of layer has its own first values, and a buffer is "
        "no parameter.",
        "model.to_empty(device='cpu')\n"
        "for layer in (model[0], model[1][0], model[1][1]):\n"
        "    layer.reset_parameters()": "Right for the first model. The second is built in "
        "another way.",
        "model.to_empty(device='cpu')\n"
        "for module in model.modules():\n"
        "    module.reset_parameters()": "A container has no first values to give.",
    },
    right=[
        "model.to_empty(device='cpu')\n"
        "for module in model.modules():\n"
        "    if hasattr(module, 'reset_parameters'):\n"
        "        module.reset_parameters()",
    ],
    at={
        "layer.bias.abs()": (
            "The weights of this Linear have the right size. But its bias is not as in a new "
            "layer: did it get first values?"
        ),
        "layer.weight.abs().max()": (
            "This line looks at the Linear layers, deep ones too: their weights should be on the "
            "CPU, as large as in a new layer."
        ),
        "norm.running_mean.sum()": (
            "The Linear layers are right. But the norm's running statistics, which are buffers, "
            "are not those of a new norm."
        ),
        "norm.weight.eq(1)": (
            "The Linear layers and the running statistics are right. But the norm's weight and "
            "bias are not those of a new norm."
        ),
    },
)
def test_write_the_landing_on_the_cpu():
    """A big model is built on "meta" first, which costs nothing.

    Write `land`: it brings any such model to the CPU, and every layer gets the first values that
    it would have had there. Containers have none to give; the other layers do.
    """

    def land(model):
        # answer:
        def fill(module):
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

        model.to_empty(device="cpu")
        model.apply(fill)
        # end

    for deep in (False, True):
        with torch.device("meta"):
            norm, lines = nn.BatchNorm1d(70), [nn.Linear(50, 70), nn.Linear(70, 30)]
            model = nn.Sequential(lines[0], nn.Sequential(norm, lines[1]))
            if deep:
                model = nn.ModuleDict({"outer": nn.ModuleList([nn.Sequential(model), norm])})
        land(model)
        for layer in lines:
            bound = layer.in_features**-0.5
            assert 0.9 * bound < layer.weight.abs().max() <= bound
            assert 0 < layer.bias.abs().max() <= bound
        assert [norm.running_mean.sum(), norm.running_var.sum()] == [0, 70]
        assert norm.weight.eq(1).all() and norm.bias.eq(0).all()


@koan(
    see="torch.nn.utils.parametrize.register_parametrization",
    hint=[
        "For the output: what does the layer read when it runs, and what stands behind it?",
        "For the names: print(layer). It has a child that was not there before; the name of a "
        "parameter is the path through the children to it.",
    ],
    why="layer.weight is now computed from the original at every access: 3 squared. Trained and "
    "saved is the original, under its longer name. weight_norm and spectral_norm in "
    "nn.utils.parametrizations are made this way.",
    wrong={
        ("9.0", "['weight']"): "weight is a result now. A parameter is what stands behind it.",
        ("9.0", "[]"): "A number is trained all the same. Where does it live now?",
        ("3.0", "['parametrizations.weight.original']"): "The layer never sees the number behind: "
        "it reads weight, and that is computed.",
        ("3.0", "['weight']"): "Nothing would have changed. But the layer has got a new child.",
        ("9.0", "['weight', 'parametrizations.weight.original']"): "Both names give a tensor, "
        "but only one of the two is trained.",
    },
    at={
        "layer(torch.ones(1, 1))": (
            "This line asks for the output. What does the layer read when it runs, and how is "
            "that made from the number behind it?"
        ),
        "layer.named_parameters()": (
            "The output is right. A parameter's name is the path to it: print(layer). Which "
            "children lead to the number that is trained?"
        ),
    },
)
def test_a_weight_that_is_computed():
    """A weight that can never be negative: the square of something.

    Predict the layer's output, and the names of its parameters.
    """

    class Square(nn.Module):
        def forward(self, w):
            return w**2

    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 3.0)
    nn.utils.parametrize.register_parametrization(layer, "weight", Square())
    assert layer(torch.ones(1, 1)).item() == answer(9.0)
    assert [name for name, _ in layer.named_parameters()] == answer(
        ["parametrizations.weight.original"]
    )


@koan(
    see="copy.deepcopy",
    hint=[
        "deepcopy walks through all attributes. Which one holds a piece of a graph?",
        "Keep the numbers, without their history.",
    ],
    why="deepcopy can copy leaves, not results: it would have to copy the graph behind them. A "
    "layer that remembers an activation should remember it detached. It also lets the memory of "
    "the step go.",
    wrong={
        "self.last = y.clone()\nreturn y": "A clone is a result with a history as well.",
        "self.last = y.cpu()\nreturn y": "A move does not leave the graph, and here it is no move.",
        "with torch.no_grad():\n    self.last = y\nreturn y": "no_grad is for what is computed "
        "inside it. y was computed before.",
        "self.last = None\nreturn y": "It can be copied now, but it has forgotten the activation.",
        "y = y.detach()\nself.last = y\nreturn y": "What you return must still lead back to "
        "the weight.",
    },
    right=[
        "self.last = y.detach().clone()\nreturn y",
        "self.last = y.data\nreturn y",
        "with torch.no_grad():\n    self.last = y.clone()\nreturn y",
    ],
    at={
        "layer.weight.grad.tolist()": (
            "Backward ran. But the weight's gradient is not that of one walk from y: what does "
            "your forward return?"
        ),
        "twin = copy.deepcopy": (
            "The layer remembers its output. But it cannot be copied: which of its attributes "
            "holds a piece of a graph?"
        ),
        "torch.equal(layer.last": (
            "This line comes before the copy: the layer should still remember the numbers of its "
            "last output."
        ),
        "y.sum().backward()": (
            "The layer remembers, and it can be copied. But y, which forward returned, no longer "
            "leads back to the weight."
        ),
    },
)
def test_a_layer_that_cannot_be_copied():
    """An averaged copy of a model begins with deepcopy. After the first batch it fails.

    Repair `forward`: the layer must still remember its last output, and still learn.
    """

    class Remember(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            # answer:
            self.last = y.detach()
            return y
            # given:
            # self.last = y
            # return y
            # end

    layer = Remember(2, 1)
    y = layer(torch.ones(1, 2))
    assert torch.equal(layer.last, y)
    twin = copy.deepcopy(layer)
    assert torch.equal(twin.last, y) and torch.equal(twin.weight, layer.weight)
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]


@koan(
    claims=["A-2.2-09"],
    see="torch.nn.Module",
    hint=[
        "One of the two is learned, one only comes along. Which homes does a Module have for them?",
        "If a first value is wrong: the memory that to_empty() takes must be filled by a method. "
        "Let __init__ call it too.",
        "If the copy is refused: which history does the mean still hold?",
    ],
    why="A Parameter learns, a buffer only comes along: both move and are saved. "
    "reset_parameters() fills all of it, training decides about the mean, and detach() keeps the "
    "graph out of the buffer. You have built a small BatchNorm.",
    wrong={
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.mean = torch.zeros(features)\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean = (self.mean + x.detach().mean(0)) / 2\n"
        "    return (x - self.mean) * self.weight": "A plain tensor neither moves nor is saved.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.register_buffer('mean', torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean = (self.mean + x.mean(0)) / 2\n"
        "    return (x - self.mean) * self.weight": "The mean still holds the graph of x, so "
        "deepcopy refuses the layer.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.register_buffer('mean', torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean.lerp_(x.mean(0), 0.5)\n"
        "    return (x - self.mean) * self.weight": "In place or not, what is written into the "
        "mean brings its graph along: each step would hold the one before.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.register_buffer('mean', torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean = x.detach().mean(0) / 2\n"
        "    return (x - self.mean) * self.weight": "Right for the first batch. The second must "
        "start from where the first one left the mean.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(2))\n"
        "    self.register_buffer('mean', torch.zeros(2))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean.lerp_(x.detach().mean(0), 0.5)\n"
        "    return (x - self.mean) * self.weight": "The number of features is told to __init__.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.register_buffer('mean', torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean.lerp_(x.detach().mean(0), 0.5)\n"
        "    return (x - self.mean) * self.weight": "A reset concerns the measured values, too.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.register_buffer('mean', torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    self.mean = (self.mean + x.detach().mean(0)) / 2\n"
        "    return (x - self.mean) * self.weight": "In eval mode the mean must stay as it is.",
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.mean = nn.Parameter(torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    nn.init.ones_(self.weight)\n"
        "    nn.init.zeros_(self.mean)\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.mean.data.lerp_(x.detach().mean(0), 0.5)\n"
        "    return (x - self.mean) * self.weight": "The mean is measured, not learned: "
        "no optimizer should see it.",
    },
    right=[
        "def __init__(self, features):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.ones(features))\n"
        "    self.register_buffer('mean', torch.zeros(features))\n\n"
        "def reset_parameters(self):\n"
        "    self.weight.data.fill_(1)\n"
        "    self.mean.zero_()\n\n"
        "@torch.no_grad()\n"
        "def update(self, x):\n"
        "    self.mean = (self.mean + x.mean(0)) / 2\n\n"
        "def forward(self, x):\n"
        "    if self.training:\n"
        "        self.update(x)\n"
        "    return (x - self.mean) * self.weight",
    ],
    at={
        "0.75 * x.mean(0)": (
            "Here come a reset and two calls in training. Does the reset reach both tensors, and "
            "does each call move the mean half way?"
        ),
        "copy.deepcopy(layer)": (
            "The numbers in training are right. Here a copy of the layer runs in eval mode. Can "
            "the mean be copied, and does it stand still?"
        ),
        "layer.weight.grad": (
            "The numbers are right, the gradients are not. weight should learn; a measured mean "
            "should count as a plain number."
        ),
        "list(layer.state_dict())": (
            "Numbers and gradients are right. Now print the names that are saved, and those that "
            "are learned: something is missing or too much."
        ),
        "x.float()), x.float()": (
            "All is right after a reset. But a new layer that nobody has reset should have its "
            "first values, too."
        ),
    },
)
def test_write_a_layer_from_nothing():
    """Write `Center(features)`. It subtracts `mean` from x, then multiplies by `weight`.

    Learned: weight, at first ones. Measured: mean, at first zeros; in training, each forward
    first moves it half way to the batch's mean. reset_parameters() gives the first values.
    It must move, save and copy like any layer.
    """

    class Center(nn.Module):
        # answer:
        def __init__(self, features):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(features))
            self.register_buffer("mean", torch.empty(features))
            self.reset_parameters()

        def reset_parameters(self):
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.mean)

        def forward(self, x):
            if self.training:
                self.mean.lerp_(x.detach().mean(0), 0.5)
            return (x - self.mean) * self.weight

        # end

    for features in (2, 3):
        layer = Center(features).to("meta").to_empty(device="cpu").double()
        x = torch.randn(4, features).double().requires_grad_()
        for _ in range(2):
            layer.reset_parameters()
            _, y = layer(x), layer(x)
            assert torch.allclose(y, x - 0.75 * x.mean(0))
        assert torch.equal(copy.deepcopy(layer).eval()(x), y)
        y.sum().backward()
        assert torch.allclose(layer.weight.grad, y.sum(0)) and x.grad.eq(1).all()
        assert list(layer.state_dict()) == ["weight", "mean"] and len([*layer.parameters()]) == 1
        assert torch.equal(Center(features).eval()(x.float()), x.float())
