"""Containers: modules that hold modules.

Documents: A 2.2, A 3.3
"""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sensei import answer, koan


@koan(
    claims=["A-3.3-14", "A-3.3-15"],
    see="torch.nn.Module.named_children",
    hint=[
        "torch.nn and nn are two names of one package. So what differs between the first lines?",
        "Only an object of a Module class is a child. Is each of these values one?",
    ],
    why=(
        "torch.nn.BatchNorm2d is nn.BatchNorm2d, a Module like Conv2d, and assigning it is enough. "
        "add_module does the same for a name that is made at run time. A function is no module; "
        "nor is a class before somebody calls it: nn.Dropout() was meant."
    ),
    wrong={
        "['conv1', 'bn2']": (
            "Some say a batch norm must be added with add_module, or it gets lost. "
            "An assignment treats it just like the convolution."
        ),
        "['bn2']": "Assignment does register a layer; Module.__setattr__ sees to that.",
        "['conv1', 'bn1', 'bn2', 'act']": "torch.relu is a function: it has nothing to register.",
        "['conv1', 'bn1', 'bn2', 'drop']": "Look again: no parentheses. What is nn.Dropout itself?",
    },
)
def test_the_children_of_a_block():
    """Some say that assigning a batch norm is a mistake, and that add_module is needed.

    Which names do the children of this block have, in order?
    """

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 3)
            self.bn1 = torch.nn.BatchNorm2d(8)
            self.add_module("bn2", nn.BatchNorm2d(8))
            self.act = torch.relu
            self.drop = nn.Dropout

    assert [name for name, _ in Block().named_children()] == answer(["conv1", "bn1", "bn2"])


@koan(
    claims=["A-3.3-16", "A-3.3-17"],
    see="torch.nn.Module.eval",
    hint=[
        "A batch norm in training mode takes mean and variance from the batch it sees.",
        "eval() switches what modules() finds. Which of the two is found?",
    ],
    why=(
        "The assigned one is a child: modules() finds it and eval() switches it. The one in the "
        "list is invisible to eval(), .to(), parameters() and state_dict(): it goes on using the "
        "statistics of each batch, and one answer depends on its neighbours."
    ),
    wrong={
        "[]": (
            "Some say modules() misses an assigned batch norm, so that eval() leaves it training. "
            "There is such a layer here, but it is not that one."
        ),
        "['attribute', 'list']": "eval() looks at registered children only.",
        "['list']": "Which of the two does PyTorch know of?",
    },
)
def test_one_answer_and_its_neighbours():
    """Some tell of a model whose answers got worse: eval() had missed its batch norm.

    After eval(), the first sample should not care about the others in its batch. For which of
    these two layers is it so?
    """
    model = nn.Module()
    model.bn = torch.nn.BatchNorm1d(1)
    model.hidden = [nn.BatchNorm1d(1)]
    model.eval()
    layers = {"attribute": model.bn, "list": model.hidden[0]}
    calm = torch.tensor([[1.0], [2.0], [3.0]])
    wild = torch.tensor([[1.0], [2.0], [50.0]])
    steady = [name for name, bn in layers.items() if torch.allclose(bn(calm)[0], bn(wild)[0])]
    assert steady == answer(["attribute"])


@koan(
    see="torch.nn.ModuleList",
    hint=[
        "A linear layer has two parameters, a weight and a bias.",
        "Python's [x] * 3 makes a list of three. How many times is x made?",
    ],
    why=(
        "A module does not look into Python lists; ModuleList is a list that it knows. But "
        "[layer] * 3 is one layer under three names: parameters() gives each object once, "
        "while state_dict() lists it three times. A comprehension makes three layers."
    ),
    wrong={
        "[6, 6, 6]": "Three layers each? One of these is invisible, another is only one layer.",
        "[0, 6, 6]": "ModuleList is right. But * does not make new layers.",
        "[6, 2, 6]": "Nobody looks into a plain list.",
        "[0, 2, 2]": "A comprehension runs its expression each time.",
    },
)
def test_three_layers_three_times():
    """Three linear layers, kept in three ways. How long is the list of parameters() for each?

    A weight is one parameter, a bias another, whatever their sizes.
    """
    listed, times, fresh = nn.Module(), nn.Module(), nn.Module()
    listed.layers = [nn.Linear(2, 2) for _ in range(3)]
    times.layers = nn.ModuleList([nn.Linear(2, 2)] * 3)
    fresh.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    counts = [len(list(module.parameters())) for module in (listed, times, fresh)]
    assert counts == answer([0, 2, 6])


@koan(
    claims=["A-3.3-05"],
    see="torch.nn.ModuleDict",
    hint=[
        "torch.nn has a list that modules know. What else may it have?",
        "Four containers: of layers or of parameters, by position or by key. forward wants two.",
    ],
    why=(
        "ModuleDict for layers by key, ParameterList for parameters by position (and ModuleList, "
        "ParameterDict for the other two). They behave like Python's, and register what is in "
        "them: so it is converted, saved and trained."
    ),
    wrong={
        "self.heads = nn.ModuleDict({task: nn.Linear(4, 2) for task in tasks})\n"
        "self.scales = [nn.Parameter(torch.ones(2)) for _ in tasks]": (
            "The heads are seen now. But a Parameter in a list is not registered by being made."
        ),
        "self.heads = nn.ModuleDict({task: nn.Linear(4, 2) for task in tasks})\n"
        "self.scales = nn.ModuleList([nn.Parameter(torch.ones(2)) for _ in tasks])": (
            "A Parameter is a tensor, no layer. This container is particular about it."
        ),
        "self.heads = nn.ModuleList([nn.Linear(4, 2) for task in tasks])\n"
        "self.scales = nn.ParameterList([torch.ones(2) for _ in tasks])": (
            "Everything is registered, but forward looks for a head by its key."
        ),
    },
    right=[
        "self.heads = nn.ModuleDict({task: nn.Linear(4, 2) for task in tasks})\n"
        "self.scales = nn.ParameterList([torch.ones(2) for _ in tasks])",
        "self.heads, self.scales = nn.ModuleDict(), nn.ParameterList()\n"
        "for task in tasks:\n"
        "    self.heads[task] = nn.Linear(4, 2)\n"
        "    self.scales.append(nn.Parameter(torch.ones(2)))",
    ],
    at={
        "self.heads.items()": (
            "forward wants pairs of key and head, and walks through the scales in order. Do your "
            "two containers allow that?"
        ),
        "list(out) == tasks": (
            "The model runs. But the tasks in its result, or the shape for one of them, are not "
            "as before."
        ),
        "model.named_parameters()": (
            "The results are right. But the names of the parameters differ from those wanted: "
            "print them. Which heads or scales are not as expected?"
        ),
    },
)
def test_a_model_with_several_heads():
    """This model has no parameters, as far as PyTorch can see. Repair the two marked lines.

    Heads are found by key, scales by position; forward stays as it is.
    """

    class Heads(nn.Module):
        def __init__(self, tasks):
            super().__init__()
            # answer:
            self.heads = nn.ModuleDict({task: nn.Linear(4, 2) for task in tasks})
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in tasks])
            # given:
            # self.heads = {task: nn.Linear(4, 2) for task in tasks}
            # self.scales = [nn.Parameter(torch.ones(2)) for _ in tasks]
            # end

        def forward(self, x):
            pairs = zip(self.heads.items(), self.scales)
            return {task: head(x) * scale for (task, head), scale in pairs}

    for tasks in (["age"], ["age", "size"]):
        model = Heads(tasks).double()
        out = model(torch.ones(3, 4, dtype=torch.float64))
        assert list(out) == tasks and tuple(out["age"].shape) == (3, 2)
        names = {f"heads.{task}.{part}" for task in tasks for part in ("weight", "bias")}
        names |= {f"scales.{i}" for i in range(len(tasks))}
        assert {name for name, _ in model.named_parameters()} == names


@koan(
    see="torch.nn.Module.named_modules",
    hint=[
        "A name is the path from the model: the names on the way, with dots between them.",
        "The walk starts at the model itself. What is the path from the model to the model?",
        "One object stands in two places here. Does the walk come by twice?",
    ],
    why=(
        "modules() walks the whole tree, the root first (its name is empty), where children() "
        "takes one level. Like parameters(), both give each object once: the second "
        "place of act has no name of its own, though forward runs it there."
    ),
    wrong={
        "['', '0', '1', '2', '2.0', '2.1']": (
            "So many places there are. But one object was met before."
        ),
        "['0', '1', '2', '2.0']": "The walk begins one step earlier.",
        "['', '0', '1', '2']": "That is as far as children() would go, and the model itself.",
        "['', '0', '1', '2', '0', '1']": "A name inside a child starts with the child's name.",
    },
)
def test_a_walk_through_the_tree():
    """A model in a model, with one activation in two places. List the names of the walk."""
    act = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), act, nn.Sequential(nn.Linear(2, 2), act))
    assert [name for name, _ in model.named_modules()] == answer(["", "0", "1", "2", "2.0"])


@koan(
    see="torch.nn.Identity",
    hint=[
        "If a shape is wrong: which steps of forward are no children of the net?",
        "If the numbers are wrong for one net only: the two have the same children, and not the "
        "same forward. Which of the two could you keep whole?",
        "forward knows the way. Take only the last layer out of its way: torch.nn has a layer "
        "that returns what it gets.",
    ],
    why=(
        "children() knows the parts, not what forward does between them: the activations and the "
        "flatten are functions. Put nn.Identity() in the head's place and forward stays whole; "
        "or take what comes to the head with a hook."
    ),
    wrong={
        "return nn.Sequential(net.conv, net.pool, nn.Flatten())": (
            "The shape is right now. The activation is forgotten, without any error."
        ),
        "return nn.Sequential(*list(net.children())[:-1], nn.Flatten())": (
            "The shape is right now. But an activation that is a function is no child."
        ),
        "return lambda x: net.pool(net.conv(x)).flatten(1)": (
            "The shape is right now. The activation is forgotten, without any error."
        ),
        "return nn.Sequential(net.conv, nn.ReLU(), net.pool)": (
            "Right numbers for one net. But forward also changes the shape."
        ),
        "return nn.Sequential(net.conv, nn.ReLU(), net.pool, nn.Flatten())": (
            "Right for the first net. The second has another forward and the same children."
        ),
        "del net.fc\nreturn net": "forward still asks for it, and does not find it.",
        "net.fc = None\nreturn net": "The place is empty, and forward calls what is in it.",
    },
    right=[
        "import copy\n\nbare = copy.deepcopy(net)\nbare.fc = nn.Identity()\nreturn bare",
        "net.fc = nn.Sequential()\nreturn net",
        "def features(x):\n"
        "    seen = []\n"
        "    with net.fc.register_forward_pre_hook(lambda m, args: seen.append(args[0])):\n"
        "        net(x)\n"
        "    return seen[0]\n"
        "\n"
        "return features",
    ],
    at={
        "tuple(out.shape)": (
            "This line looks at the shape: the layer fc would get two numbers for each picture. "
            "Which steps of forward lead there?"
        ),
        "out = headless(net)(x)": (
            "Here what `headless` returned is called with x, and that fails. Can it be called, "
            "and has it all that its forward needs?"
        ),
        "torch.allclose(fc(out), whole": (
            "The shape is right, the numbers are not. What does forward do between the layers, "
            "and is it the same in both nets?"
        ),
    },
)
def test_a_net_without_its_head():
    """`headless` should give, for nets like these, what the layer fc would get.

    Some chain the children for that. Repair the marked line.
    """

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.pool = nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(2, 5)

        def forward(self, x):
            return self.fc(self.pool(F.relu(self.conv(x))).flatten(1))

    class Soft(Net):
        def forward(self, x):
            return self.fc(self.pool(torch.sigmoid(self.conv(x * 2))).flatten(1))

    def headless(net):
        # answer:
        net.fc = nn.Identity()
        return net
        # given:
        # return nn.Sequential(*list(net.children())[:-1])
        # end

    for net, batch in ((Net(), 3), (Soft(), 4)):
        x, fc = torch.randn(batch, 1, 6, 6), net.fc
        whole = net(x)
        out = headless(net)(x)
        assert tuple(out.shape) == (batch, 2)
        assert torch.allclose(fc(out), whole, atol=1e-6)


@koan(
    see="torch.nn.LazyLinear",
    hint=[
        "For the exception: nobody told this layer how many inputs it has, so its weight has no "
        "size to tell. Which of Python's exceptions would you raise for a tensor that is not "
        "ready?",
        "For the class: after the first call there is nothing left to wait for.",
        "For the shape: two rows of three inputs came. Which number does the weight depend on, and "
        "where does it stand?",
    ],
    why=(
        "Before the first call the weight is uninitialized, and counting it is a ValueError. At "
        "the call it gets its shape and its numbers, and the object changes its class: from now on "
        "it is a plain Linear. So one dry run first, then look at shapes, count or initialise. "
        "This is the answer to making layers in forward."
    ),
    wrong={
        ("ValueError", "['LazyLinear', 5, 3]"): (
            "Python lets an object change its __class__, and this one does."
        ),
        ("ValueError", "['Linear', 3, 5]"): "The first number is that of the outputs.",
        ("ValueError", "['Linear', 5, 2]"): "The batch has two rows. A row has more numbers.",
        ("AttributeError", "['Linear', 5, 3]"): (
            "The weight is there, and numel too. It has no answer yet."
        ),
        ("TypeError", "['Linear', 5, 3]"): "The call is fine. The answer is not known yet.",
        ("RuntimeError", "['Linear', 5, 3]"): (
            "Natural: it is what .shape would raise. A function called on it is refused otherwise."
        ),
        ("AttributeError", "['LazyLinear', 5, 3]"): (
            "The weight is there, and numel too. And after the call there is no more to wait for."
        ),
    },
    at={
        "caught.type is": (
            "This line asks for the exception. Nobody told this layer how many inputs it has, so "
            "its weight has no size yet. Which of Python's exceptions would you raise?"
        ),
        "type(layer).__name__": (
            "The exception is right. Now the layer has been called once: is there anything left "
            "to wait for? And which size comes first in a weight?"
        ),
    },
)
def test_a_layer_that_waits():
    """This layer is told its outputs, not its inputs. Its numbers are counted too early: name the
    exception.

    Then it is called once. Predict its class, and the two sizes of its weight.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older versions call it experimental
        layer = nn.LazyLinear(5)
    with pytest.raises(Exception) as caught:
        layer.weight.numel()
    assert caught.type is answer(ValueError)
    layer(torch.ones(2, 3))
    assert [type(layer).__name__, *layer.weight.shape] == answer(["Linear", 5, 3])


@koan(
    see="torch.nn.Module.get_submodule",
    hint=[
        "A layer is replaced at its parent, under the name that it has there. In your walk that "
        "name is a string: how do you set an attribute then?",
        "If a deep one is left: from a path like '2.0.act', the parent is get_submodule('2.0').",
        "If a second place is left: named_modules has an argument about duplicates.",
    ],
    why=(
        "modules() and children() hand out objects; to replace one you need its parent and its "
        "name there. Both walks skip an object that they met before, so a shared "
        "activation would keep its second place: remove_duplicate=False names every place."
    ),
    wrong={
        "for module in model.modules():\n"
        "    if isinstance(module, nn.ReLU):\n"
        "        module = nn.GELU()": "The loop's own name is rebound. The model has not noticed.",
        "for name, child in model.named_children():\n"
        "    if isinstance(child, nn.ReLU):\n"
        "        setattr(model, name, nn.GELU())": "One level only. Some of them lie deeper.",
        "for name, child in model.named_children():\n"
        "    if isinstance(child, nn.ReLU):\n"
        "        setattr(model, name, nn.GELU())\n"
        "    else:\n"
        "        swap(child)": (
            "Deep enough. But named_children gives an object once, even if it has two places."
        ),
        "for parent in model.modules():\n"
        "    if isinstance(parent, nn.Sequential):\n"
        "        for i, child in enumerate(parent):\n"
        "            if isinstance(child, nn.ReLU):\n"
        "                parent[i] = nn.GELU()": "Not every parent is a Sequential.",
        "model.apply(lambda m: nn.GELU() if isinstance(m, nn.ReLU) else m)": (
            "apply calls your function on each module. It does nothing with the result."
        ),
    },
    right=[
        "for name, child in list(model._modules.items()):\n"
        "    if isinstance(child, nn.ReLU):\n"
        "        model.add_module(name, nn.GELU())\n"
        "    else:\n"
        "        swap(child)",
        "for parent in list(model.modules()):\n"
        "    for name, child in list(parent._modules.items()):\n"
        "        if isinstance(child, nn.ReLU):\n"
        "            parent._modules[name] = nn.GELU()",
    ],
    at={
        "len(list(model.parameters())) == 4": (
            "The results are right, and no nn.ReLU is left. But the parameters are not as before: "
            "all else should stay as it is."
        ),
        "isinstance(module, nn.ReLU) for module": (
            "The results are right. But an nn.ReLU is still a part of the model: another module "
            "should stand in its place."
        ),
        "F.gelu(last": (
            "GELU should now run at both places of this model. Which places did your walk reach, "
            "and did it write into their parents?"
        ),
    },
)
def test_replace_every_relu():
    """Write `swap`: it puts an nn.GELU in the place of every nn.ReLU, however deep.

    Careful: one of them may stand in two places. All else stays as it is.
    """

    def swap(model):
        # answer:
        for name, module in list(model.named_modules(remove_duplicate=False)):
            if isinstance(module, nn.ReLU):
                parent, _, last = name.rpartition(".")
                setattr(model.get_submodule(parent), last, nn.GELU())
        # end

    class Block(nn.Module):
        def __init__(self, layer, act):
            super().__init__()
            self.layer, self.act = layer, act

        def forward(self, x):
            return self.act(self.layer(x))

    act, first, last, x = nn.ReLU(), nn.Linear(2, 3), nn.Linear(3, 2), torch.randn(4, 2)
    flat = nn.Sequential(first, act, last, act)
    deep = nn.Sequential(Block(first, nn.ReLU()), nn.Sequential(Block(last, nn.ReLU())))
    for model in (flat, deep):
        swap(model)
        assert torch.allclose(model(x), F.gelu(last(F.gelu(first(x)))))
        assert not any(isinstance(module, nn.ReLU) for module in model.modules())
        assert len(list(model.parameters())) == 4


@koan(
    claims=["A-2.2-25"],
    see="torch.nn.Module.add_module",
    hint=[
        "The names are '0', '1', '2', ... Which method registers a layer under such a name?",
        "If the keys differ: a list inside would put its own name before every number.",
        "If the numbers differ: in the second chain one layer comes twice. Which walk goes by "
        "twice?",
    ],
    why=(
        "Sequential is a loop over add_module(str(i), layer) and a loop in forward. The second "
        "must go over the registry itself: children() would leave out a layer that comes again, "
        "and so skip a step without an error."
    ),
    wrong={
        "def __init__(self, *layers):\n"
        "    super().__init__()\n"
        "    self.layers = list(layers)\n"
        "\n"
        "def forward(self, x):\n"
        "    for layer in self.layers:\n"
        "        x = layer(x)\n"
        "    return x": "It computes the same, and has nothing to save or to train.",
        "def __init__(self, *layers):\n"
        "    super().__init__()\n"
        "    self.layers = nn.ModuleList(layers)\n"
        "\n"
        "def forward(self, x):\n"
        "    for layer in self.layers:\n"
        "        x = layer(x)\n"
        "    return x": "All is registered, but one level too deep: see the keys.",
        "def __init__(self, *layers):\n"
        "    super().__init__()\n"
        "    for i, layer in enumerate(layers):\n"
        "        self.add_module(str(i), layer)\n"
        "\n"
        "def forward(self, x):\n"
        "    for layer in self.children():\n"
        "        x = layer(x)\n"
        "    return x": "The keys are right. But children() gives each object once.",
        "def __new__(cls, *layers):\n    return nn.Sequential(*layers)": (
            "That is theirs. The chain should be your own."
        ),
    },
    right=[
        "def __init__(self, *layers):\n"
        "    super().__init__()\n"
        "    for i in range(len(layers)):\n"
        "        setattr(self, str(i), layers[i])\n"
        "    self.count = len(layers)\n"
        "\n"
        "def forward(self, x):\n"
        "    for i in range(self.count):\n"
        "        x = self.get_submodule(str(i))(x)\n"
        "    return x",
    ],
    at={
        "type(mine) is Chain": (
            "Chain(...) gave an object of another class here. The chain should be your own, from "
            "its first layer to its last."
        ),
        "mine, theirs = Chain": (
            "Chain gets its layers here one by one, any number of them. Can your __init__ take "
            "them so?"
        ),
        "torch.equal(mine(x)": (
            "The chain is built. Does forward run all layers in order, one that comes twice also "
            "twice, and return the result?"
        ),
        "list(mine.state_dict())": (
            "The results are right. Now the keys: print those of mine and of theirs. A key is the"
            " path to a tensor."
        ),
    },
)
def test_write_sequential():
    """Some say nn.Sequential is a few lines that anybody could write. It is so: write your own.

    It takes any number of layers, one may come more than once, and gives the same results and the
    same keys in the state dict.
    """

    class Chain(nn.Module):
        # answer:
        def __init__(self, *layers):
            super().__init__()
            for i, layer in enumerate(layers):
                self.add_module(str(i), layer)

        def forward(self, x):
            for layer in self._modules.values():
                x = layer(x)
            return x

        # end

    again = nn.Linear(2, 2)
    for layers in ([nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)], [again, nn.Tanh(), again]):
        mine, theirs = Chain(*layers), nn.Sequential(*layers)
        x = torch.randn(4, 2)
        assert type(mine) is Chain
        assert torch.equal(mine(x), theirs(x))
        assert list(mine.state_dict()) == list(theirs.state_dict())
