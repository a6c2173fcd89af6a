"""Parameters and buffers: what stands behind a name.

Documents: A 2.2, A 3.3
"""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    claims=["A-3.3-01", "A-3.3-09"],
    see="torch.nn.Module.state_dict",
    hint=[
        "layer.weight is found by Module.__getattr__. Where does it look?",
        "state_dict() builds a new dict each time. Who reads that dict, once it is yours?",
        "The dict is new. Are the tensors in it new, too?",
    ],
    why=(
        "layer.weight IS the entry of _parameters; there is no second copy. state_dict() returns "
        "a fresh dict of tensors that share the weights' memory: a new entry in it concerns "
        "nobody, a write into such a tensor reaches the layer. Nothing keeps the two in step."
    ),
    wrong={
        "[3.0, 5.0, 7.0]": (
            "Some say state dict and registry are synchronised both ways. "
            "Nobody watches the dict you were given."
        ),
        "[3.0, 3.0, 3.0]": "So it would be if state_dict() made copies.",
        "[2.0, 2.0, 7.0]": "The attribute has no weight of its own, apart from the registry.",
    },
)
def test_two_dicts_of_weights():
    """Some say that a module and its state dict are kept in step, both ways.

    Predict what the layer computes after each of the three changes.
    """
    one, outputs = torch.ones(1, 1), []
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    layer._parameters["weight"] = nn.Parameter(one * 3)
    outputs.append(layer(one).item())
    state = layer.state_dict()
    state["weight"] = one * 5
    outputs.append(layer(one).item())
    layer.state_dict()["weight"].fill_(7.0)
    outputs.append(layer(one).item())
    assert outputs == answer([3.0, 3.0, 7.0])


@koan(
    claims=["A-3.3-11"],
    see="torch.nn.Module.register_parameter",
    hint=[
        "For the exception: the name is a registered one, so Module.__setattr__ looks at what "
        "comes. What is it that it looks at: the numbers, the shape, or the class?",
        "For the names: is the old value removed before this check, or after it?",
    ],
    why=(
        "A parameter's name takes a Parameter or None. A tensor is refused, loudly, "
        "and the layer stays as it was. To set values, write into the Parameter: "
        "with torch.no_grad(): layer.weight.copy_(...)."
    ),
    wrong={
        ("TypeError", "['bias']"): (
            "Some say the tensor replaces the Parameter and breaks its binding to the module. "
            "It does not get that far."
        ),
        ("AttributeError", "['weight', 'bias']"): (
            "The attribute is there, and may be set: but not to everything."
        ),
        ("ValueError", "['weight', 'bias']"): "The shape and the numbers are fine.",
        ("RuntimeError", "['weight', 'bias']"): "Nothing is computed here. It is an assignment.",
        ("KeyError", "['weight', 'bias']"): "The name is known; that is why PyTorch looks closer.",
        ("AttributeError", "['bias']"): (
            "The name may be set, and the old value is not thrown away before the check."
        ),
        ("RuntimeError", "['bias']"): (
            "Nothing is computed here, and the old value is not thrown away before the check."
        ),
        ("TypeError", "[]"): "The line is about one name. Who would touch the other?",
        ("TypeError", "['weight']"): "The bias has nothing to do with it.",
        ("TypeError", "['bias', 'weight']"): "Both are there. Which one was registered first?",
    },
    at={
        "caught.type is": (
            "This line asks for the exception. The name belongs to a Parameter, so something is "
            "checked: the numbers, the shape, or what kind of thing comes?"
        ),
        "layer.named_parameters()": (
            "The exception is right. Now look at the layer after it: had anything been taken away"
            " before the check said no?"
        ),
    },
)
def test_a_tensor_on_a_registered_name():
    """Some say this line replaces the weight, so that training silently forgets it.

    Which exception does it raise? And which parameters does the layer have afterwards?
    """
    layer = nn.Linear(5, 10)
    with pytest.raises(Exception) as caught:
        layer.weight = torch.randn(10, 5)
    assert caught.type is answer(TypeError)
    assert [name for name, _ in layer.named_parameters()] == answer(["weight", "bias"])


@koan(
    claims=["A-3.3-20"],
    see="torch.nn.Module.register_buffer",
    hint=[
        "A buffer is a tensor that belongs to the module. So what may its name take?",
        "None empties a place. Is there anything to save in an empty place?",
        "A Parameter drives away whatever had its name before.",
    ],
    why=(
        "What happens depends on the name. A buffer's name takes any tensor and stays a buffer; "
        "None empties a parameter's place but keeps its name; a new Parameter removes the layer "
        "that stood there. Only a name without history becomes an ordinary attribute."
    ),
    wrong={
        "['layer']": (
            "Some say all but Parameters and Modules become ordinary attributes. "
            "But this name was a buffer's name before."
        ),
        "['layer', 'mean', 'weight']": "There is a place for it still. But what is in it?",
        "['layer.bias', 'layer.weight', 'mean']": (
            "The last line puts something else under the layer's name, and it is accepted."
        ),
        "['layer', 'layer.bias', 'layer.weight', 'mean']": "One name holds one thing at a time.",
    },
)
def test_three_names_get_new_values():
    """A buffer, a parameter and a layer. Then each name gets a value of another kind.

    Which keys does the state dict have in the end?
    """
    module = nn.Module()
    module.register_buffer("mean", torch.zeros(1))
    module.weight = nn.Parameter(torch.ones(1))
    module.layer = nn.Linear(1, 1)
    module.mean = torch.ones(1)
    module.weight = None
    module.layer = nn.Parameter(torch.ones(1))
    assert sorted(module.state_dict()) == answer(["layer", "mean"])


@koan(
    claims=["A-3.3-10"],
    see="torch.nn.parameter.Parameter",
    hint=[
        "The optimizer keeps the three objects it was given. It knows no layers and no names.",
        "Which of the three lines puts another object in the layer's place?",
    ],
    why=(
        "self.weight and the entry of _parameters are one object. Writing through .data, or giving "
        "it another .data, keeps that object, so the optimizer still trains it. A new Parameter is "
        "a stranger to the optimizer. (Better than .data: copy_ under torch.no_grad().)"
    ),
    wrong={
        "[4.0, 4.0, 4.0]": "The optimizer was built before. It holds objects, not names.",
        "[4.0, 5.0, 5.0]": ".data = ... changes what the Parameter contains, not which one it is.",
        "[5.0, 4.0, 5.0]": "What you reach through _parameters is no copy.",
        "[5.0, 5.0, 5.0]": "Some of these layers still hold what the optimizer was given.",
    },
)
def test_three_ways_to_set_a_weight():
    """Some say it is the same to write through .data of the attribute and of the registry's
    entry, and they are right.

    The optimizer is built; then three weights are set to 5, in three ways. Each gradient is 1, and
    so is the learning rate. Predict the weights after the step.
    """
    layers = [nn.Linear(1, 1, bias=False) for _ in range(3)]
    optimizer = torch.optim.SGD([layer.weight for layer in layers], lr=1.0)
    layers[0]._parameters["weight"].data.fill_(5.0)
    layers[1].weight.data = torch.full((1, 1), 5.0)
    layers[2].weight = nn.Parameter(torch.full((1, 1), 5.0))
    sum(layer(torch.ones(1, 1)) for layer in layers).backward()
    optimizer.step()
    assert [layer.weight.item() for layer in layers] == answer([4.0, 4.0, 5.0])


@koan(
    claims=["A-3.3-06"],
    see="torch.nn.Module.named_parameters",
    hint=[
        "A frozen Parameter wants no gradient. Is it a Parameter still?",
        "BatchNorm1d keeps running statistics. Nobody trains those by gradient.",
        "An object with two names comes once, under the name that is met first.",
    ],
    why=(
        "named_parameters() gives every registered Parameter, frozen or not, and each object once, "
        "by its first name. Buffers (the running statistics) never come. And parameters() is "
        "a generator: after one walk it is empty."
    ),
    wrong={
        "['0.bias', '1.weight', '1.bias']": (
            "Some say it gives the trainable ones. But frozen is not the same as unregistered."
        ),
        "['0.weight', '0.bias', '1.weight', '1.bias', '2.weight', '2.bias']": (
            "Two places, one layer. An optimizer would update it twice."
        ),
        "['0.weight', '0.bias', '1.weight', '1.bias', '1.running_mean', '1.running_var']": (
            "Running statistics are buffers. state_dict() would list them."
        ),
        "['0.weight', '0.bias']": "A batch norm has something to learn as well.",
    },
)
def test_the_names_that_parameters_have():
    """One weight is frozen, and one layer stands in two places. List the names, in order."""
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad = False
    model = nn.Sequential(layer, nn.BatchNorm1d(2), layer)
    names = [name for name, _ in model.named_parameters()]
    assert names == answer(["0.weight", "0.bias", "1.weight", "1.bias"])


@koan(
    claims=["A-2.2-07"],
    see="torch.nn.Module.register_buffer",
    hint=[
        "Which tensors does model.to(...) or .double() visit? Only those that it knows.",
        "There is a home for tensors that belong to a module but are not trained.",
        "register_buffer has one more argument: its manual (see `docs`) tells what is saved.",
    ],
    why=(
        "A module moves what is registered with it: parameters and buffers. A plain attribute "
        "stays behind. A buffer travels along and is not trained; persistent=False keeps it "
        "out of the checkpoint, which is good for what can be computed again."
    ),
    wrong={
        'self.register_buffer("matrix", matrix)': (
            "It travels, and nobody trains it. But it would be saved in every checkpoint."
        ),
        "self.matrix = nn.Parameter(matrix, requires_grad=False)": (
            "It travels. But a frozen Parameter is a Parameter: optimizers and counts will see it."
        ),
        "self.matrix = nn.Parameter(matrix)": (
            "It travels. But an optimizer would train it, and every checkpoint would hold it."
        ),
        "self.matrix = matrix.double()": "That helps this one call. Next time it is the device.",
        'self.register_parameter("matrix", nn.Parameter(matrix, requires_grad=False))': (
            "It travels. But a frozen Parameter is a Parameter, and it is saved."
        ),
    },
    right=["self.matrix = nn.Buffer(matrix, persistent=False)"],
    at={
        "x @ self.matrix": (
            "forward needs self.matrix here, and x is float64. Is there a tensor of this name, "
            "and did it come along when the model was converted?"
        ),
        "[[-2.0, 1.0]]": (
            "Here the product is not what the given matrix makes. Its numbers should stay as they"
            " are."
        ),
        "list(model.state_dict()) == []": (
            "The product is right. But the matrix is a parameter here, or the model would save "
            "it. It should be neither."
        ),
        'model.to("meta")': (
            "The product is right, and nothing is trained or saved. But the matrix does not come "
            "along to another device: does the model know it?"
        ),
    },
)
def test_a_matrix_that_stays_behind():
    """This fixed matrix stays behind when the model is converted. Repair the marked line.

    The matrix should go where the model goes. It is no parameter, and it is not to be saved: it
    can be made again.
    """

    class Turn(nn.Module):
        def __init__(self):
            super().__init__()
            matrix = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
            # answer:
            self.register_buffer("matrix", matrix, persistent=False)
            # given:
            # self.matrix = matrix
            # end

        def forward(self, x):
            return x @ self.matrix

    model = Turn().double()
    assert model(torch.tensor([[1.0, 2.0]], dtype=torch.float64)).tolist() == [[-2.0, 1.0]]
    assert list(model.parameters()) == [] and list(model.state_dict()) == []
    assert model.to("meta").matrix.device.type == "meta"


@koan(
    claims=["A-3.3-21"],
    see="torch.nn.Module.parameters",
    hint=[
        "An object lives as long as somebody refers to it; so says Python.",
        "Who refers to the layer, to its weight, to its bias, after `del layer`?",
    ],
    why=(
        "A module holds its parameters by ordinary references and so does an optimizer. The layer "
        "and the bias lost their last one; the weight did not. On a GPU, this is memory that "
        "stays taken after `del model`, until the optimizer goes too."
    ),
    wrong={
        "[]": (
            "Some say a module manages the life of its parameters. It is one of those who hold "
            "them, and perhaps not the last."
        ),
        "['layer', 'weight', 'bias']": "The optimizer was given one tensor. It knows no layer.",
        "['weight', 'bias']": "Was the optimizer given both?",
    },
)
def test_what_outlives_the_layer():
    """Some say a module manages the life of its parameters. Here, the layer is deleted.

    A weak reference looks at an object without keeping it. Which names are in the list?
    """
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD([layer.weight], lr=0.1)
    seen = {"layer": layer, "weight": layer.weight, "bias": layer.bias}
    watched = {name: weakref.ref(thing) for name, thing in seen.items()}
    del layer, seen
    gc.collect()
    alive = [name for name, look in watched.items() if look() is not None]
    assert alive == answer(["weight"])


@koan(
    claims=["A-3.3-06"],
    see="torch.nn.Module.parameters",
    hint=[
        "Compare the shapes of embed.weight and decode.weight. No transpose is needed.",
        "Equal numbers are not enough: after one step they would differ. One object, two names.",
        "What may you assign to a parameter's name?",
    ],
    why=(
        "A Parameter can have two homes. It is counted once, gets the gradients of both uses, and "
        "is trained once. deepcopy keeps the tie inside the copy and cuts it to the original."
    ),
    wrong={
        "self.decode.weight.data = self.embed.weight.data": (
            "One memory, but two Parameters: each with a gradient and a step of its own."
        ),
        "self.decode.load_state_dict(self.embed.state_dict())": (
            "The same numbers today. They part at the first step."
        ),
        "self.decode.weight = nn.Parameter(self.embed.weight)": (
            "nn.Parameter(...) makes a new Parameter around the old memory."
        ),
        "self.decode = self.embed": "decode should stay a linear layer. It is its weight you want.",
    },
    right=[
        "self.embed.weight = self.decode.weight",
        'self.decode.register_parameter("weight", self.embed.weight)',
    ],
    at={
        "twin.embed.weight is twin": (
            "The count is right. But in the deep copy the two layers do not hold one and the same "
            "object."
        ),
        "each(torch.tensor([0, 4]))": (
            "Count and keys are right. Here the model runs: two words go in, and each should give "
            "five numbers."
        ),
        "[(5, 3)]": (
            "Here parameters() should give one single object, of shape (5, 3). Print what it "
            "gives: how many, and which?"
        ),
        "sorted(each.state_dict())": (
            "The weight is counted once, as it should be. But the state dict must know it under "
            "two names, one in each layer."
        ),
    },
)
def test_one_weight_for_two_layers():
    """Let both layers use one weight: counted once, trained once.

    The end shows that a deep copy keeps such a tie, in itself.
    """

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 3)
            self.decode = nn.Linear(3, 5, bias=False)
            # answer:
            self.decode.weight = self.embed.weight
            # end

        def forward(self, words):
            return self.decode(self.embed(words))

    model = Words()
    twin = copy.deepcopy(model)
    for each in (model, twin):
        assert [tuple(p.shape) for p in each.parameters()] == [(5, 3)]
        assert sorted(each.state_dict()) == ["decode.weight", "embed.weight"]
        assert tuple(each(torch.tensor([0, 4])).shape) == (2, 5)
    assert twin.embed.weight is twin.decode.weight
    assert twin.embed.weight is not model.embed.weight


@koan(
    claims=["A-3.3-02"],
    see="torch.nn.Linear",
    hint=[
        "If loading fails: what is the shape of nn.Linear's weight? Any other is refused.",
        "If the names differ: without bias, self.bias is there all the same, and holds no tensor.",
        "If the outputs are large: a sum of n random numbers of size 1 has the size sqrt(n).",
    ],
    why=(
        "Weight (out, in), x @ weight.T, and None for a bias nobody wants: that is all. A weight "
        "of shape (in, out) makes a working module too, but no checkpoint of nn.Linear fits it. "
        "Unscaled randn makes outputs grow with the number of inputs."
    ),
    wrong={
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.randn(n_in, n_out) / n_in**0.5)\n"
        "    self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None\n"
        "\n"
        "def forward(self, x):\n"
        "    y = x @ self.weight\n"
        "    return y if self.bias is None else y + self.bias": (
            "It computes well, but nn.Linear stores its weight the other way round."
        ),
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.randn(n_out, n_in))\n"
        "    self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None\n"
        "\n"
        "def forward(self, x):\n"
        "    return nn.functional.linear(x, self.weight, self.bias)": (
            "Shapes and names are right. With 1000 inputs, the outputs become far too large."
        ),
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = torch.randn(n_out, n_in, requires_grad=True)\n"
        "    self.bias = torch.zeros(n_out, requires_grad=True) if bias else None\n"
        "\n"
        "def forward(self, x):\n"
        "    return nn.functional.linear(x, self.weight, self.bias)": (
            "Gradients will flow. But the module knows nothing of these tensors."
        ),
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.randn(n_out, n_in) / n_in**0.5)\n"
        "    self.bias = nn.Parameter(torch.zeros(n_out))\n"
        "\n"
        "def forward(self, x):\n"
        "    return x @ self.weight.T + self.bias": (
            "A bias of zeros is a bias still: it is trained, and saved."
        ),
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.zeros(n_out, n_in))\n"
        "    self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None\n"
        "\n"
        "def forward(self, x):\n"
        "    return nn.functional.linear(x, self.weight, self.bias)": (
            "Small enough. But they should be random: equal rows of a hidden layer stay equal."
        ),
        "def __new__(cls, n_in, n_out, bias=True):\n    return nn.Linear(n_in, n_out, bias)": (
            "That is theirs. The layer should be your own, from raw parameters."
        ),
    },
    right=[
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.empty(n_out, n_in).uniform_(-1, 1) / n_in**0.5)\n"
        '    self.register_parameter("bias", nn.Parameter(torch.zeros(n_out)) if bias else None)\n'
        "\n"
        "def forward(self, x):\n"
        "    return nn.functional.linear(x, self.weight, self.bias)",
        "def __init__(self, n_in, n_out, bias=True):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.empty(n_out, n_in))\n"
        "    nn.init.normal_(self.weight, std=1e-4)\n"
        "    self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None\n"
        "\n"
        "def forward(self, x):\n"
        "    return nn.functional.linear(x, self.weight, self.bias)",
    ],
    at={
        "mine.load_state_dict": (
            "The names of the parameters are right. But a state dict of nn.Linear does not fit in "
            "here: compare its keys and shapes with yours."
        ),
        "type(mine) is Dense": (
            "Dense(...) gave an object of another class. The layer should be your own, made from "
            "raw parameters."
        ),
        "mine, theirs = Dense": (
            "Dense is built here with two sizes and the keyword bias. Can it take these arguments?"
        ),
        "for name, _ in theirs.named_parameters()": (
            "The names of the parameters, or their order, differ from those of nn.Linear. Print "
            "them, with a bias and without: what does your module know of?"
        ),
        "(mine.bias is None)": (
            "The names of the parameters are right. This line looks at self.bias: the lesson says"
            " what it is without a bias."
        ),
        "torch.allclose(mine(x)": (
            "Names and shapes fit, and both layers hold the same numbers. Only the results "
            "differ: look at forward."
        ),
        "len(set(large": (
            "The layer computes well. But its first weights should be random, and here too many "
            "of them are alike."
        ),
        "large(torch.randn": (
            "All is right but the size of the outputs. How does a sum of 1000 random terms grow, "
            "and what could balance it?"
        ),
    },
)
def test_write_a_linear_layer():
    """Write nn.Linear from raw parameters. It takes (n_in, n_out, bias=True).

    Names and shapes are those of nn.Linear; without bias, self.bias is None. Choose the first
    weights at random, so small that 1000 inputs of size 1 give outputs of a size below 3.
    """

    class Dense(nn.Module):
        # answer:
        def __init__(self, n_in, n_out, bias=True):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(n_out, n_in) / n_in**0.5)
            self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None

        def forward(self, x):
            y = x @ self.weight.T
            return y if self.bias is None else y + self.bias

        # end

    for bias in (True, False):
        mine, theirs = Dense(4, 3, bias=bias), nn.Linear(4, 3, bias=bias)
        assert type(mine) is Dense
        names = [name for name, _ in mine.named_parameters()]
        assert names == [name for name, _ in theirs.named_parameters()]
        assert (mine.bias is None) == (theirs.bias is None)
        mine.load_state_dict(theirs.state_dict())
        x = torch.randn(5, 4)
        assert torch.allclose(mine(x), theirs(x), atol=1e-6)
    large = Dense(1000, 8)
    assert len(set(large.weight.flatten().tolist())) > 1000  # random, not all alike
    assert large(torch.randn(64, 1000)).std() < 3
