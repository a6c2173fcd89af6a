"""Registration: how a module gets to know its weights.

Documents: A 1, A 2.2, A 3.3
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    claims=["A-1-01"],
    see="torch.nn.Linear",
    hint=[
        "Each of the 10 results needs one row of numbers, one for each input.",
        "The layer computes x @ weight.T + bias. And .nbytes counts bytes, not numbers.",
        "A layer has two parameters here. Add the bytes of both.",
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
)
def test_a_layer_from_784_to_10():
    """This line makes a layer: 784 numbers go in, 10 come out. Which shape has its weight?

    And how many bytes do all its parameters take together?
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
        "A layer wants to be registered. A number does not; it goes where Python always puts it.",
        "Something that should be on self is not there yet. How does Python call such a problem?",
    ],
    why=(
        "To register a layer, Module needs a dict that Module.__init__ makes. So it says: cannot "
        "assign module before Module.__init__() call. Plain values may come earlier, but keep "
        "super().__init__() on the first line and you need not think about it."
    ),
    wrong={
        "TypeError": "Both values have a fine type. After super().__init__() the line would pass.",
        "KeyError": (
            "A dict is missing, not a key in it. Module looks for the dict before it uses it."
        ),
        "RuntimeError": "So the C++ part complains. This check never gets that far.",
    },
)
def test_a_layer_before_super_init():
    """Some say any order will do, as long as super().__init__() is called somewhere.

    The first line of this __init__ passes, the second does not. Which exception is raised?
    """

    class Model(nn.Module):
        def __init__(self):
            self.size = 3
            self.layer = nn.Linear(self.size, 1)
            super().__init__()

    with pytest.raises(Exception) as caught:
        Model()
    assert caught.type is answer(AttributeError)


@koan(
    claims=["A-1-10", "A-3.3-03"],
    see="torch.nn.Module",
    hint=[
        "Three of the names are registries: a name goes in, an object comes out.",
        "Recent Pythons keep the order of what you put in. Which type is enough, then?",
        "A fresh module knows whether it is training. Does it know where its weights are?",
    ],
    why=(
        "super().__init__() is plain Python: it puts a few dicts and flags on self, and "
        "Module.__setattr__, plain Python too, writes into those dicts. Only the tensors have a "
        "device; the module has none."
    ),
    wrong={
        "[None, None, None, None, None]": (
            "Some say the reason for super().__init__() lies in the glue between C++ and Python. "
            "Read Module.__init__ with inspect.getsource: you can see every line of it."
        ),
        "['OrderedDict', 'OrderedDict', 'OrderedDict', 'bool', None]": (
            "So it was up to PyTorch 2.4. The registries of hooks still are of this type."
        ),
        "['dict', 'dict', 'dict', 'bool', 'device']": (
            "Its parts could be on several devices. Each tensor knows its own."
        ),
        "['list', 'list', 'list', 'bool', None]": "How would you find the weight by its name?",
    },
)
def test_what_super_init_leaves_behind():
    """Some say that super().__init__() is there for the glue between C++ and Python.

    Here it runs on an empty object. Under each name, say which type stands in the object
    afterwards, as a string; None if the name is not there.
    """
    module = nn.Module.__new__(nn.Module)  # made, but __init__ has not run
    assert vars(module) == {}
    nn.Module.__init__(module)
    found = {name: type(value).__name__ for name, value in vars(module).items()}
    names = ["_parameters", "_buffers", "_modules", "training", "device"]
    assert [found.get(name) for name in names] == answer(["dict", "dict", "dict", "bool", None])


@koan(
    claims=["A-3.3-04", "A-3.3-05", "A-3.3-18"],
    see="torch.nn.parameter.Parameter",
    hint=[
        "A module learns of a Parameter at one moment only. When, and what must the value be?",
        "Look at what stands to the right of each self.x = ... Is that very object a Parameter?",
        "A Parameter is a Tensor. What type has a Parameter times ten?",
    ],
    why=(
        "A Parameter knows nothing of modules. Module.__setattr__ looks at the value you assign: "
        "a Parameter is registered; a list, a dict, a function or a plain Tensor is not, whatever "
        "is inside. And every operation on a Parameter gives a plain Tensor."
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
        "`spy.weight = ...` runs Module.__setattr__. Read it: inspect.getsource shows it.",
        "One of the two kinds goes through a method that you can override. The other is short.",
    ],
    why=(
        "For a Parameter, __setattr__ calls self.register_parameter. A layer it writes into "
        "_modules itself, with no call to add_module: so overriding add_module "
        "does not catch assignments. Neither value ends up in the instance's __dict__."
    ),
    wrong={
        "['register_parameter', 'add_module']": (
            "Some say __setattr__ calls the matching method for both kinds. "
            "It takes a shorter way for one of them."
        ),
        "['add_module']": "It is the other kind that goes through its method.",
        "[]": "A dict entry would do for both, yet one of them passes through a method.",
    },
)
def test_who_is_called_by_an_equals_sign():
    """Assigning to a module registers the value. Which of these two methods run here, in order?"""
    calls = []

    class Spy(nn.Module):
        def register_parameter(self, name, param):
            calls.append("register_parameter")
            super().register_parameter(name, param)

        def add_module(self, name, module):
            calls.append("add_module")
            super().add_module(name, module)

    spy = Spy()
    spy.weight = nn.Parameter(torch.ones(1))
    spy.layer = nn.Linear(1, 1)
    assert calls == answer(["register_parameter"])


@koan(
    claims=["A-3.3-12", "A-2.2-10"],
    see="torch.optim.Optimizer",
    hint=[
        "What does model.parameters() give you here? Put it in a list and look.",
        "An argument of the right type, with nothing of use in it: how does Python call that?",
    ],
    why=(
        "A plain tensor is an ordinary attribute, so parameters() is empty, and the optimizer "
        "refuses an empty list. With one registered layer beside it there would be no error, and "
        "the tensor would silently stay as it is. A module is the handy way to collect "
        "weights, not the only one: any tensors will do."
    ),
    wrong={
        "TypeError": (
            "Some say an optimizer takes only nn.Parameter. The line above shows a plain tensor."
        ),
        "AttributeError": "Every module has parameters(), and the weight is there as well.",
        "RuntimeError": "Nothing was computed yet, and nothing was on the way to C++.",
    },
)
def test_an_optimizer_asks_the_module():
    """Handed over by hand, this tensor is fine. Then the module is asked for what it has.

    Which exception do you get?
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.ones(3, requires_grad=True)

    model = Model()
    torch.optim.SGD([model.weight], lr=0.1)
    with pytest.raises(Exception) as caught:
        torch.optim.SGD(model.parameters(), lr=0.1)
    assert caught.type is answer(ValueError)


@koan(
    claims=["A-3.3-13"],
    see="torch.nn.Module.register_parameter",
    hint=[
        "The value is right this time. So which of the two arguments is refused?",
        "The name would go into a dict. Which of Python's errors belongs to dicts?",
    ],
    why=(
        "register_parameter refuses a name that is taken: attribute 'weight' already exists. "
        "Assignment is more polite: it removes the old attribute first. "
        "The method is for names made at run time, and for None."
    ),
    wrong={
        "AttributeError": (
            "That would be a name that is missing. This one is there; a registry refuses it."
        ),
        "TypeError": "So a plain tensor would be refused. This is a Parameter.",
        "ValueError": "Natural. But it is about a name in a registry, and PyTorch says it so.",
    },
)
def test_a_name_that_is_taken():
    """Somebody stored a plain tensor, and now registers a Parameter under the same name.

    Plain assignment does it, as the end shows. Which exception does the method raise?
    """
    module = nn.Module()
    module.weight = torch.ones(2)
    with pytest.raises(Exception) as caught:
        module.register_parameter("weight", nn.Parameter(torch.ones(2)))
    assert caught.type is answer(KeyError)
    module.weight = nn.Parameter(torch.ones(2))
    assert list(module._parameters) == ["weight"]


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
