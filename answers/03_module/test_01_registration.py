"""Registration: how a module gets to know its weights.

Documents: A 1, A 2.2, A 3.3
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


@pytest.mark.tour(20)
@koan(
    claims=["A-1-01"],
    see="torch.nn.Linear",
    hint=[
        "For the shape: each of the 10 results needs one row of numbers, one for each input.",
        "For the bytes: .nbytes counts bytes, not numbers, and x @ weight.T + bias has two "
        "parameters.",
    ],
    why=(
        "The weight is stored as (out_features, in_features), one row for each output. "
        "7840 + 10 numbers of 4 bytes are allocated and filled by this one line. "
        "With device='meta' it would allocate nothing."
    ),
    wrong={
        ("(784, 10)", "31400"): (
            "That is the order of the arguments. The memory is laid out for the other one."
        ),
        ("(10, 784)", "31360"): "The weight alone. A layer adds something to its products, too.",
        ("(10, 784)", "7850"): "So many numbers there are. Each of them takes some bytes.",
        ("(10, 784)", "62800"): (
            "Python's floats have 8 bytes. The default dtype of PyTorch is smaller."
        ),
    },
    right=[
        ("torch.Size([10, 784])", "4 * (784 * 10 + 10)"),
    ],
    at={
        "assert tuple(layer.weight.shape)": (
            "This line asks for the shape of the weight alone. Each result needs one number for "
            "each input: how are these laid out?"
        ),
        "p.nbytes": (
            "The shape is right. This line adds up bytes, over all parameters: which parameters "
            "does a layer have, and how many bytes does one number take?"
        ),
    },
)
def test_a_layer_from_784_to_10():
    """Some say this line already takes memory, and they are right: 784 numbers go in, 10 come out.

    What is the shape of the layer's weight? And how many bytes do all its parameters take together?
    """
    layer = nn.Linear(784, 10)
    assert tuple(layer.weight.shape) == answer((10, 784))
    assert sum(p.nbytes for p in layer.parameters()) == answer(31400)


@koan(
    claims=["A-1-03"],
    see="torch.cuda.is_initialized",
    hint=[
        "You never named a device. Which one does PyTorch take when nobody chooses?",
        "CUDA wakes up when somebody first asks for it. Does anybody ask here?",
    ],
    why=(
        "New weights live on the default device, the CPU, even where a GPU is waiting. CUDA sleeps "
        "until you ask for it: device='cuda', .to('cuda'), or torch.set_default_device('cuda')."
    ),
    wrong={
        "['cuda', 1]": (
            "Some say nn.Linear(784, 10) schedules work on a CUDA stream. "
            "PyTorch moves nothing to a GPU unless you tell it to."
        ),
        "['cpu', 1]": "The place is right. But then, what would there be to do for CUDA?",
        "['meta', 0]": "There are real numbers in these weights, and meta has none.",
    },
)
def test_where_a_new_layer_lives(monkeypatch):
    """Some say that building a layer sets off work on the GPU.

    Here PyTorch's calls to wake CUDA up are only noted. Predict the type of the weights' device,
    and the number of notes.
    """
    woken = []
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: woken.append("CUDA"))
    model = nn.Sequential(nn.Linear(784, 10), nn.BatchNorm1d(10))
    assert [model[0].weight.device.type, len(woken)] == answer(["cpu", 0])


@koan(
    claims=["A-1-08"],
    see="torch.nn.Module",
    hint=[
        "Module.__setattr__ takes some values into its registries. Who makes the registries?",
        "What Module does not register goes where Python always puts it, registries or not.",
    ],
    why=(
        "Only what is registered needs the dicts that Module.__init__ makes: AttributeError, "
        "cannot assign module before Module.__init__() call. Plain values may come earlier, a "
        "list of layers too. Keep super().__init__() on the first line and you need not think "
        "about it."
    ),
    wrong={
        "['number', 'tensor', 'parameter', 'layer', 'list']": (
            "Some say nothing may come before super().__init__(). "
            "But an ordinary attribute asks Module for nothing."
        ),
        "[]": (
            "Some say any order will do, as long as super().__init__() is called somewhere. "
            "A value that is registered needs a register."
        ),
        "['tensor', 'parameter', 'layer']": "A plain tensor is an attribute like a number.",
        "['parameter', 'layer', 'list']": "A module does not look into a list, now or later.",
        "['layer']": "There is one more kind of value that Module keeps a dict for.",
    },
)
def test_what_must_wait_for_super_init():
    """Some say any order will do, as long as super().__init__() is called at last.

    Here each value is assigned to an object whose __init__ has not run. Which ones are refused?
    """
    values = {"number": 3, "tensor": torch.ones(2), "parameter": nn.Parameter(torch.ones(2))}
    values |= {"layer": nn.Linear(3, 1), "list": [nn.Linear(3, 1)]}
    refused = []
    for name, value in values.items():
        try:
            nn.Module.__new__(nn.Module).thing = value
        except AttributeError:
            refused.append(name)
    assert refused == answer(["parameter", "layer"])


@koan(
    claims=["A-1-10", "A-3.3-03"],
    see="torch.nn.Module",
    hint=[
        "Module.__init__ is plain Python: inspect.getsource(nn.Module.__init__) shows all of it.",
        "A parameter is kept in self._parameters. What does Module.__init__ write there?",
    ],
    why=(
        "Module.__init__ is plain Python: it puts fresh, empty registries on self (plain dicts "
        "since torch 2.5) and a few flags. A second run throws away what was registered before, "
        "without a word. So: once, and first. Two parents that each call it do the same harm."
    ),
    wrong={
        "['scale', 'shift']": (
            "Some say super().__init__() is there for the glue between C++ and Python, so that "
            "twice is as good as once. Read Module.__init__: you can see every line of it."
        ),
        "['shift', 'scale']": "The order is not the trouble. How many names are left?",
        "['scale']": "What is assigned after the call is registered as always.",
        "[]": "One assignment comes after the last call of __init__.",
    },
)
def test_super_init_once_more():
    """Some say that super().__init__() is there for the glue between C++ and Python.

    Here Module.__init__ runs once more, to be on the safe side. Which names are in the list?
    """

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

    class Shifted(Scaled):
        def __init__(self):
            super().__init__()
            nn.Module.__init__(self)  # to be on the safe side
            self.shift = nn.Parameter(torch.zeros(1))

    assert [name for name, _ in Shifted().named_parameters()] == answer(["shift"])


@koan(
    claims=["A-3.3-04", "A-3.3-05", "A-3.3-18"],
    see="torch.nn.parameter.Parameter",
    hint=[
        "A module learns of a Parameter at one moment only. When, and what must the value be?",
        "Look at what stands to the right of each self.x = ... Is that very object a Parameter?",
        "A Parameter is a Tensor. What is the type of a Parameter times ten?",
    ],
    why=(
        "A Parameter knows nothing of modules. Module.__setattr__ looks at the value you assign: "
        "a Parameter is registered; a list, a dict, a function or a plain Tensor is not, whatever "
        "is inside. And a product with a Parameter is a new tensor, a plain one."
    ),
    wrong={
        "[1.0, 2.0, 3.0, 4.0, 5.0]": (
            "Some say Parameter's constructor registers itself. "
            "How would it know the module, and the name?"
        ),
        "[2.0, 30.0]": "Ten times a Parameter is computed, not assigned to be trained.",
        "[2.0, 6.0]": "requires_grad makes gradients flow. It is not what the module looks for.",
        "[2.0, 4.0, 5.0]": "A module does not look into lists and dicts.",
    },
)
def test_which_of_the_six_are_registered():
    """Six numbers, kept in six ways. Some say Parameter's constructor does the registering.

    Which numbers will parameters() give you?
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            local = nn.Parameter(torch.tensor(1.0))
            self.a = nn.Parameter(torch.tensor(2.0))
            self.b = nn.Parameter(torch.tensor(3.0)) * 10
            self.c = [nn.Parameter(torch.tensor(4.0))]
            self.d = {"w": nn.Parameter(torch.tensor(5.0))}
            self.e = torch.tensor(6.0, requires_grad=True)
            self.f = lambda x: x * local

    assert [p.item() for p in Model().parameters()] == answer([2.0])


@koan(
    claims=["A-2.2-08", "A-3.3-19"],
    see="torch.nn.Module.register_parameter",
    hint=[
        "For model.layer: Module.__getattr__ finds registered layers. "
        "When does Python call a __getattr__ at all?",
        "For the exception: a Parameter passes through self.register_parameter, which looks "
        "at the name first. Read it: inspect.getsource shows it.",
    ],
    why=(
        "Python calls __getattr__ only where it finds nothing else, and here the class has the "
        "name: the layer is trained and saved, yet model.layer is None. For a Parameter, "
        "__setattr__ calls self.register_parameter, which checks the name. A layer goes into "
        "_modules directly, unchecked: add_module is not called. An annotation alone, "
        "`layer: nn.Module`, does no harm."
    ),
    wrong={
        ("['Linear', 2]", "KeyError"): (
            "It is registered. But where does Python look for a name before it asks Module?"
        ),
        ("['NoneType', 0]", "KeyError"): "The assignment was accepted. What follows from that?",
        ("['NoneType', 2]", "AttributeError"): (
            "That would be a name that is missing. Here it is there, and that is the trouble."
        ),
        ("['NoneType', 2]", "TypeError"): (
            "The value is a Parameter, as it should be. It is the name that is refused."
        ),
        ("['NoneType', 2]", "ValueError"): "It is not about the numbers, but about the name.",
        ("['Linear', 2]", "AttributeError"): (
            "The name is not missing: the class has it. That matters for the layer, too."
        ),
    },
    at={
        "assert found ==": (
            "Two questions in one line. Which value does Python find first under the name "
            "`layer`? And was the layer registered, with how many parameters?"
        ),
        "caught.type": (
            "What was found is right. This line is about the name that is in use already. Read "
            "register_parameter: inspect.getsource shows it."
        ),
    },
)
def test_names_that_the_class_has():
    """The class lists its two names first, as empty places. Then both are filled.

    One assignment passes in silence: predict the type that model.layer has then, and the number
    of registered parameters. The other is refused: name the exception.
    """

    class Model(nn.Module):
        layer = None
        weight = None

    model = Model()
    model.layer = nn.Linear(1, 1)
    found = [type(model.layer).__name__, len(list(model.parameters()))]
    assert found == answer(["NoneType", 2])
    with pytest.raises(Exception) as caught:
        model.weight = nn.Parameter(torch.ones(1))
    assert caught.type is answer(KeyError)


@koan(
    claims=["A-3.3-12"],
    see="torch.nn.Module.parameters",
    hint=[
        "backward goes where requires_grad is set. It does not ask a module.",
        "The optimizer moves what it was given. What does model.parameters() give?",
    ],
    why=(
        "Autograd looks at tensors: both get a gradient. The optimizer got what the module has "
        "registered, so the plain tensor never moves, and nobody complains. "
        "(With no parameter at all the optimizer would refuse the empty list.)"
    ),
    wrong={
        "[0.0, 1.0, 0.0]": "requires_grad makes gradients flow. Who told the optimizer of it?",
        "[1.0, 0.0, 0.0]": (
            "parameters() does not find it. But does backward need a module to find a tensor?"
        ),
        "[1.0, 1.0, 1.0]": "One of the two is registered, and so the optimizer has it.",
        "[1.0, None, 0.0]": "Autograd follows the sum. It knows nothing of modules.",
    },
)
def test_an_optimizer_asks_the_module():
    """Two numbers are 1 and both want a gradient. One is a plain tensor, one a Parameter.

    After one step with a learning rate of 1, predict: the plain tensor, its gradient, the
    Parameter.
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = torch.ones(1, requires_grad=True)
            self.registered = nn.Parameter(torch.ones(1))

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    (model.plain + model.registered).sum().backward()
    optimizer.step()
    values = [model.plain, model.plain.grad, model.registered]
    assert [value.item() for value in values] == answer([1.0, 1.0, 0.0])


@koan(
    claims=["A-3.3-13"],
    see="torch.nn.Module.register_parameter",
    hint=[
        "register_parameter asks: does the object have such an attribute, outside _parameters?",
        "Not only what you assigned is an attribute. Try hasattr(nn.Module(), name).",
    ],
    why=(
        "Names that hold something else are taken: attribute 'plain' already exists. So are the "
        "names of methods, as module.half() is one. A parameter, or an empty place for one, may "
        "be replaced. Assignment is more polite: it removes a plain attribute first. "
        "The method is for names made at run time, and for None."
    ),
    wrong={
        "[]": (
            "Some say the method and the plain assignment are the same. "
            "An assignment would remove what is there; the method is more careful."
        ),
        "['plain']": "A name is also taken when every module has it from birth.",
        "['plain', 'trained']": "A Parameter in the place of a Parameter is no accident.",
        "['plain', 'trained', 'half']": "A Parameter in the place of a Parameter is no accident.",
        "['plain', 'trained', 'empty', 'half']": (
            "Some names are there as parameters already. Those places are meant for it."
        ),
    },
)
def test_a_name_that_is_taken():
    """Five names: one holds a plain tensor, one a Parameter, one an empty place. Two hold nothing
    that was assigned here.

    A new Parameter is registered under each of them. Which names are refused?
    """
    module, refused = nn.Module(), []
    module.plain = torch.ones(2)
    module.trained = nn.Parameter(torch.ones(2))
    module.register_parameter("empty", None)
    for name in ["plain", "trained", "empty", "half", "third"]:
        try:
            module.register_parameter(name, nn.Parameter(torch.zeros(2)))
        except Exception:
            refused.append(name)
    assert refused == answer(["plain", "half"])


@koan(
    see="torch.nn.Module",
    hint=[
        "How often does nn.Linear(4, 1) run in a training of 1000 steps?",
        "The optimizer is built before the first call. What can it know by then?",
        "Make both layers in one place, once. Use them in the other.",
    ],
    why=(
        "A layer made in forward is new and random at each call, and nobody has registered it: "
        "it never learns, silently. Make layers in __init__ and use them in forward. If the size "
        "of the input is unknown, nn.LazyLinear(1) in __init__ finds it out."
    ),
    wrong={
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.body = nn.Linear(2, 4)\n"
        "\n"
        "def forward(self, x):\n"
        '    if not hasattr(self, "head"):\n'
        "        self.head = nn.Linear(4, 1)\n"
        "    return self.head(self.body(x))": (
            "Now it is made once and registered, but too late: the optimizer was built before."
        ),
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.body = nn.Linear(2, 4)\n"
        "\n"
        "def forward(self, x):\n"
        "    torch.manual_seed(0)\n"
        "    head = nn.Linear(4, 1)\n"
        "    return head(self.body(x))": (
            "The seed makes all heads alike. It does not make them learn."
        ),
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.body = nn.Linear(2, 4)\n"
        "    self.heads = [nn.Linear(4, 1)]\n"
        "\n"
        "def forward(self, x):\n"
        "    return self.heads[0](self.body(x))": (
            "Made once, and in time. But who looks into a list?"
        ),
    },
    right=[
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.layers = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))\n"
        "\n"
        "def forward(self, x):\n"
        "    return self.layers(x)",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.body = nn.Linear(2, 4)\n"
        "    self.head = nn.LazyLinear(1)\n"
        "\n"
        "def forward(self, x):\n"
        "    return self.head(self.body(x))",
    ],
    at={
        "torch.equal(model(x)": (
            "The same x twice, and two results. What in your class is made anew, or drawn anew, "
            "at each call?"
        ),
        "optimizer = torch.optim.SGD": (
            "Nobody has called the model yet. Which parameters does it have at this line?"
        ),
        "(3, 1)": (
            "This line looks at the shape of what forward returns: each of the three rows should "
            "give one number."
        ),
        'for p in optimizer.param_groups[0]["params"]) == 17': (
            "Two calls agree. But the optimizer, built before the first call, does not hold "
            "exactly the 17 numbers of the two layers."
        ),
        "p.grad is not None": (
            "The optimizer has its 17 numbers. But some of them got no gradient: does a way lead "
            "from the result back to each of them?"
        ),
    },
)
def test_a_layer_made_in_forward():
    """Two calls give two results, and half of this model never learns. Repair the class.

    In the end it holds 8 + 4 numbers in its body and 4 + 1 in its head, and the optimizer knows
    them all.
    """

    class Model(nn.Module):
        # answer:
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(2, 4)
            self.head = nn.Linear(4, 1)

        def forward(self, x):
            return self.head(self.body(x))

        # given:
        # def __init__(self):
        #     super().__init__()
        #     self.body = nn.Linear(2, 4)
        #
        # def forward(self, x):
        #     head = nn.Linear(4, 1)
        #     return head(self.body(x))
        # end

    model, x = Model(), torch.ones(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert tuple(model(x).shape) == (3, 1)
    assert torch.equal(model(x), model(x))
    assert sum(p.numel() for p in optimizer.param_groups[0]["params"]) == 17
    model(x).sum().backward()
    assert all(p.grad is not None for p in optimizer.param_groups[0]["params"])
