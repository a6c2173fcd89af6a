"""Devices that do not match: where the red line comes from, who stayed behind, how to move house.

Documents: A 4.1
"""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from sensei import answer, koan


@koan(
    claims=["A-4.1-02", "A-4.1-05"],
    see="torch.Tensor.device",
    hint=[
        "Which of the five lines is the first that has two devices in its hands?",
        "Does a product look at its inputs only when somebody wants a gradient?",
    ],
    why="The operation itself checks where its inputs are, before it computes. So the red line is "
    "the forward line that brings two devices together. Recording has no part in it: without a "
    "graph the same line fails.",
    wrong={
        "[5, 5]": "Does such a mistake only come out in backward? Print something after each line: "
        "it never comes that far.",
        "[3, 5]": "Some say the devices clash while the graph is built, so without a graph there "
        "is no clash. It is not the graph that checks.",
        "[2, 2]": "To make one tensor here and another one there is no mistake yet.",
        "[4, 4]": "The sum would have to go over something that was computed before.",
    },
)
def test_the_line_that_turns_red():
    """The meta device stands for a GPU. `step` is called with recording, then without it.

    Which of the five lines of `step` raises, each time? Count from 1, and write a list of two.
    """

    def step():
        w = torch.ones(3, device="meta", requires_grad=True)
        x = torch.ones(3)
        y = w * x
        loss = y.sum()
        loss.backward()

    raised = []
    for mode in (torch.enable_grad(), torch.no_grad()):
        with mode, pytest.raises(RuntimeError) as caught:
            step()
        raised.append(caught.tb.tb_next.tb_lineno - step.__code__.co_firstlineno)
    assert raised == answer([3, 3])


@koan(
    claims=["A-4.1-01", "A-4.1-06"],
    see="torch.result_type",
    hint=[
        "For dtypes there is a table of who gives way to whom: torch.result_type shows it.",
        "A conversion is recorded like any other operation. What does it do on the way back?",
    ],
    why="Dtypes are converted for you, and the gradient is converted back: it has the dtype of its "
    "leaf. Two vectors on two devices are refused: a copy is slow, and you should see it in your "
    "code. On a GPU the message begins with 'Expected all tensors to be on the same device'.",
    wrong={
        "[torch.float64, torch.float64]": "The sum is float64, and so is its gradient. But x is "
        "float32, and something stands between the two.",
        "[torch.float32, torch.float32]": "The left side has no say in it. Which of the two can "
        "hold the numbers of both?",
        "[torch.float32, torch.float64]": "Look from which side each of them is seen.",
    },
    right=["[torch.double, torch.float]"],
)
def test_another_dtype_and_another_device():
    """x meets a neighbour of another dtype, then one on another device. The second sum is refused.

    The first is not: predict its dtype, and the dtype of x.grad.
    """
    x = torch.ones(3, requires_grad=True)
    total = x + torch.ones(3, dtype=torch.float64)
    total.sum().backward()
    with pytest.raises(RuntimeError):
        x + torch.ones(3, device="meta")
    assert [total.dtype, x.grad.dtype] == answer([torch.float64, torch.float32])


@koan(
    claims=["A-4.1-06"],
    see="torch.Tensor.copy_",
    hint=[
        "A Python number has no device. Which CPU tensor is nearly a number?",
        "How many dimensions has torch.ones(1)?",
        "The rule for numbers looks at what comes from the CPU. Does it hold the other way round?",
    ],
    why="Only a 0-dim tensor FROM the CPU may mix, as a number would, and the result is where the "
    "other one is. One element in a dimension is not enough. Indices may stay on the CPU, and "
    "copy_ is a move that you asked for.",
    wrong={
        "['cpu', 'cpu', 'cpu', 'cpu', 'cpu', 'cpu']": "Some say that the other tensor comes over "
        "to the CPU. None is moved like that; and where two may mix, the CPU gives way.",
        "['meta', 'refused', 'refused', 'refused', 'refused', 'refused']": "If PyTorch were so "
        "strict, you could not even multiply by a mean that you computed on the CPU.",
        "['meta', 'meta', 'meta', 'meta', 'meta', 'meta']": "It is not the number of elements "
        "that counts. And the exception is made for one side only.",
        "['meta', 'meta', 'meta', 'refused', 'meta', 'meta']": "One element, but in a row. Look at "
        "its number of dimensions.",
        "['meta', 'meta', 'refused', 'cpu', 'meta', 'meta']": "A 0-dim tensor on the GPU would "
        "have to be read back, and everybody would have to wait for it.",
        "['meta', 'meta', 'refused', 'refused', 'refused', 'meta']": "Indices are often made on "
        "the CPU. PyTorch takes them from there.",
        "['meta', 'meta', 'refused', 'refused', 'meta', 'refused']": "One of these is made for "
        "copying between devices.",
    },
)
def test_guests_from_the_cpu():
    """`far` is on a device of its own, `near` on the CPU. Six ways to bring two devices together.

    Write for each, in order, where the result is; or "refused".
    """
    far, near = torch.ones(3, device="meta"), torch.ones(3)
    ways = [lambda: far + 2.0, lambda: far + torch.tensor(2.0), lambda: far + torch.ones(1)]
    ways += [lambda: torch.tensor(2.0, device="meta") + near]
    ways += [lambda: far[torch.tensor([0, 2])], lambda: far.copy_(near)]
    places = []
    for way in ways:
        try:
            places.append(way().device.type)
        except RuntimeError:
            places.append("refused")
    assert places == answer(["meta", "meta", "refused", "refused", "meta", "meta"])


@koan(
    claims=["A-4.1-04"],
    see="torch.matmul",
    hint=[
        "@ looks at the number of dimensions of both sides and hands the work on.",
        "For a vector on the left there is no operation of its own. As what can one see it?",
        "The layer has a bias to add. Who does both at once?",
    ],
    why="@ is never run itself: dot for two vectors, mv for matrix times vector, and a vector on "
    "the left is made a matrix of one row for mm. Only the layer adds, so only it runs addmm. A "
    "message about devices names one of these, which is nowhere in your code.",
    wrong={
        "['dot', 'mv', 'addmm', 'addmm']": "The last may be right. But in the third "
        "product nothing is added.",
        "['dot', 'mv', 'vm', 'addmm']": "The names promise it, but there is no vm.",
        "['dot', 'mv', 'mv', 'addmm']": "mv has its vector on the right side.",
        "['matmul', 'matmul', 'matmul', 'linear']": "These are the names at the front door. Others "
        "do the work.",
        "['mm', 'mm', 'mm', 'addmm']": "Vectors are not always turned into matrices first.",
    },
)
def test_the_operation_that_the_message_names():
    """An error message names `mv`, say, and your code only has @. The recorder notes what is run.

    Write the four names, in order. (Operations that only turn or reshape are left out.)
    """
    ran = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    vector, matrix, layer = torch.ones(3), torch.ones(3, 3), nn.Linear(3, 3)
    with Recorder():
        vector @ vector, matrix @ vector, vector @ matrix, layer(matrix)
    turned = ("t", "view", "unsqueeze", "squeeze", "squeeze_")
    assert [name for name in ran if name not in turned] == answer(["dot", "mv", "mm", "addmm"])


@koan(
    claims=["A-4.1-10"],
    see="torch.cuda.current_device",
    hint=[
        "`wish` has a type and no number. Can a tensor be on a GPU without a number?",
        "Two devices are equal when type and number are equal. Is None a number?",
    ],
    why='"cuda" means the current GPU, cuda:0 at first, but another one after '
    'torch.cuda.set_device(1). A tensor always tells its number, so it never equals a bare "cuda". '
    "Compare .type, or compare with the device of another tensor.",
    wrong={
        "['cuda', True, True]": "A wish may leave the number open. A tensor is somewhere.",
        "['cuda:0', True, True]": "It would be kind. But PyTorch cannot know that the current GPU "
        "will still be this one when you compare next time.",
        "['cuda:0', False, False]": "The last comparison leaves the number out.",
        "['cuda:1', False, True]": "A wish without a number goes to the current card. Which one is "
        "that, if nobody has changed it?",
    },
)
def test_a_wish_and_a_place():
    """A script compares the device of a batch with the device that it asked for. There is one GPU.

    (FakeTensorMode pretends that there is.) Predict the three values.
    """
    wish = torch.device("cuda")
    with FakeTensorMode():
        batch = torch.ones(3, device=wish)
    seen = [str(batch.device), batch.device == wish, batch.device.type == wish.type]
    assert seen == answer(["cuda:0", False, True])


@koan(
    claims=["A-4.1-11", "A-4.1-12"],
    see="torch.OutOfMemoryError",
    hint=[
        "Three different parts of PyTorch complain: the parser of names, Python code that was "
        "asked for something it was built without, and the allocator of a GPU.",
        "'Torch not compiled with ...' comes from a plain Python check.",
        "Who is out of GPU memory is not out of memory in Python's sense.",
    ],
    why="It depends on the build. One without the device raises AssertionError, and plan B is not "
    "reached. A CUDA build without a driver raises RuntimeError, and there it is. So it is after a "
    "typo, and when the GPU is only full: the work goes on slowly on the CPU, and nobody is told. "
    "Ask is_available(): it answers on every build.",
    wrong={
        (
            "['cpu', 'plan B', 'plan B']",
            "['RuntimeError']",
        ): "Some say that this is the robust way. "
        "On some machines it is. What raises on a build without the device is written in Python.",
        (
            "['cpu', 'plan B', 'ValueError']",
            "['RuntimeError']",
        ): "So it should be. Try both lines, and look at the names of the two errors.",
        ("['cpu', 'AssertionError', 'plan B']", "['MemoryError']"): "It is no error of Python's "
        "own memory. So `except MemoryError` lets it pass.",
        ("['cpu', 'AssertionError', 'plan B']", "[]"): "It has a parent among these three.",
        ("['cpu', 'AssertionError', 'ValueError']", "['RuntimeError']"): "A name that nobody knows "
        "looks like a wrong value. PyTorch's parser is C++, and has another word for it.",
    },
    at={
        "assert ends ==": (
            "The first place exists, the second is not in this build, the third is a typo. Who "
            "complains each time, and does `except RuntimeError` catch it?"
        ),
        "e.__name__ for e in parents": (
            "The three ends are right. Now for the error of a full GPU: print `full.__mro__`, and "
            "see who of the three is in it."
        ),
    },
)
def test_a_plan_b_for_three_places():
    """A script tries a device and falls back in `except RuntimeError`. How does it end: where the
    device exists, where PyTorch was built without it, and after a typo?

    And which of three exceptions would catch the error of a GPU that is full?
    """
    missing = "xpu" if torch.backends.cuda.is_built() else "cuda"
    full, ends = torch.OutOfMemoryError, []
    for place in ("cpu", missing, "cdua"):
        try:
            ends.append(torch.ones(1, device=place).device.type)
        except RuntimeError:
            ends.append("plan B")
        except Exception as error:
            ends.append(type(error).__name__)
    assert ends == answer(["cpu", "AssertionError", "plan B"])
    parents = [e for e in (OSError, MemoryError, RuntimeError) if issubclass(full, e)]
    assert [e.__name__ for e in parents] == answer(["RuntimeError"])


@koan(
    claims=["A-4.1-08", "A-4.1-11", "A-4.1-12"],
    see="torch.cuda",
    hint=[
        "torch.cuda has a function that never raises, with CUDA or without.",
        'torch.device("cuda") checks nothing: it is only a name.',
    ],
    why="is_available() answers without a sound on every build. Choose once, at the top, and "
    "pass the device along. torch.accelerator.current_accelerator() (since 2.6) knows other makes, "
    "too.",
    wrong={
        'try:\n    torch.ones(1, device="cuda:0")\n    return torch.device("cuda:0")\n'
        'except RuntimeError:\n    return torch.device("cpu")': "A probe "
        "only asks the real machine, and a build without CUDA raises something else.",
        'try:\n    torch.ones(1, device="cuda")\n    return torch.device("cuda")\n'
        'except Exception:\n    return torch.device("cpu")': "Whatever goes wrong, even a full "
        "card or a typo, ends on the CPU. And torch.cuda was not asked.",
        'try:\n    return torch.device("cuda")\n'
        'except Exception:\n    return torch.device("cpu")': (
            "To name a device does not touch it, so nothing is ever raised here."
        ),
        'return "cuda" if torch.cuda.is_available() else "cpu"': "The right question, and a name "
        "for an answer. A torch.device is asked for.",
        'return torch.device("cuda" if torch.backends.cuda.is_built() else "cpu")': "It tells what "
        "PyTorch was built for. A card and its driver are another matter.",
        'return torch.device("cuda" if torch.cuda.is_initialized() else "cpu")': "It tells whether "
        "somebody has used CUDA in this process. At the top of a script nobody has.",
    },
    right=[
        'return torch.device("cuda" if torch.cuda.device_count() > 0 else "cpu")',
        'if torch.cuda.is_available():\n    return torch.device("cuda:0")\n'
        'return torch.device("cpu")',
    ],
    at={
        "type(device) is torch.device": (
            "What comes back is not a torch.device. What is the last thing that `choose` does?"
        ),
        'device.type == ("cpu", "cuda")': (
            "It is a torch.device, but not the one for this number of cards (first two, then "
            "none). Whose answer does `choose` go by?"
        ),
    },
)
def test_decide_once_at_the_top(monkeypatch):
    """Write `choose`: the torch.device for a whole script, CUDA if torch.cuda finds a card, else
    the CPU.

    Ask, and try nothing: here the functions of torch.cuda believe in two cards, then in none.
    """

    def choose():
        # answer:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # end

    names = [name for name in torch.cuda.__all__ if name[:3] in ("is_", "dev")]
    for cards in (2, 0):
        for name in names:
            if "init" not in name:
                monkeypatch.setattr(torch.cuda, name, lambda cards=cards: cards)
        device = choose()
        assert type(device) is torch.device
        assert device.type == ("cpu", "cuda")[cards > 0]


@koan(
    claims=["A-4.1-03", "A-4.1-07"],
    see="torch.randn_like",
    hint=[
        "On which device does torch.randn make its numbers when nobody tells it?",
        "x knows the device, and the dtype too. Who can be told to follow x?",
        "A tensor's .to() changes nothing in place. Who keeps what it returns?",
    ],
    why="randn_like takes shape, dtype and device from x. In a forward, new tensors follow their "
    "input: zeros_like, x.new_zeros, arange(n, device=x.device). No forward needs to know the name "
    "of a device.",
    wrong={
        "noise = torch.randn(x.shape)\nnoise.to(x.device)\nreturn x + noise": "A module moves in "
        "place, a tensor does not. The copy was made, and nobody took it.",
        "noise = torch.randn(x.shape).cuda()\nreturn x + noise": "Now the layer only works on one "
        "kind of device, and fails everywhere else.",
        "noise = torch.randn(x.shape)\nreturn x.cpu() + noise": "x is fetched, not the noise. And "
        "what comes out is on the CPU.",
        "noise = torch.randn(x.shape, device=x.device)\nreturn x + noise": "The place is right. "
        "But a bfloat16 input comes out as float32.",
        "noise = torch.randn(x.shape, dtype=x.dtype)\nreturn x + noise": "The dtype is right. What "
        "about the place?",
        "return x + torch.zeros_like(x)": "It follows x, but it is no noise.",
        "noise = torch.rand_like(x)\nreturn x + noise": "It follows x. But these numbers are all "
        "between 0 and 1. Normal noise has no side.",
    },
    right=[
        "noise = torch.randn(x.shape).to(x)\nreturn x + noise",
        "return x + torch.randn(x.shape, device=x.device, dtype=x.dtype)",
        "return x + x.new_empty(x.shape).normal_()",
        "return x + torch.randn_like(x.detach())",
    ],
    at={
        "[y.device, y.dtype, y.shape]": (
            "This line wants the device, dtype and shape of what comes out to be those of x. "
            "Compare the two lists: where do they differ?"
        ),
        "y.sum().backward()": (
            "Device, dtype and shape are right. But backward finds no way from the result to x."
        ),
        "x.grad.unique()": (
            "What comes out looks like x. But noise is only added, so each slope of x should be "
            "1. How does x enter the result?"
        ),
        "abs(spread - 1) < 0.2": (
            "Place, dtype and gradient are right. But it is no normal noise: its mean should be "
            "near 0 and its spread near 1."
        ),
        "assert not same": (
            "One call is right. But a second call gave the same noise: each call must draw anew."
        ),
    },
)
def test_noise_from_elsewhere():
    """This layer adds normal noise. It works on the laptop, and fails with a model that is
    somewhere else. Repair it. What comes out is like x: in shape, device and dtype. And x still
    gets its gradient."""

    class Noisy(nn.Module):
        def forward(self, x):
            # answer:
            noise = torch.randn_like(x)
            return x + noise
            # given:
            # noise = torch.randn(x.shape)
            # return x + noise
            # end

    layer = Noisy()
    for place, dtype in [("cpu", torch.float32), ("meta", torch.float32), ("cpu", torch.bfloat16)]:
        x = torch.zeros(50, 40, device=place, dtype=dtype, requires_grad=True)
        y = layer(x)
        assert [y.device, y.dtype, y.shape] == [x.device, x.dtype, x.shape]
        y.sum().backward()
        if place == "cpu":
            assert x.grad.unique().tolist() == [1.0]
            mean, spread, same = y.mean().item(), y.std().item(), torch.equal(y, layer(x))
            assert abs(mean) < 0.2 and abs(spread - 1) < 0.2
            assert not same


@koan(
    claims=["A-4.1-07"],
    see="torch.nn.Module.register_buffer",
    hint=[
        ".to() goes through the parameters and buffers by name. It knows nothing else.",
        "Does a buffer's name stay a buffer's name when it gets another tensor?",
        "A slice of the weight is a tensor that shows the weight's memory. Which memory?",
    ],
    why="Registered names move, and a buffer's name stays registered when you assign another "
    "tensor. A list, a dict or a second name is not looked into. The slice still shows the old "
    "weight, on the old device: cut it in forward, where it is needed.",
    wrong={
        "['listed']": "A slice of a parameter is not the parameter. The move gives the weight new "
        "memory; what does the slice show?",
        "['replaced', 'listed', 'row']": "An assignment does not throw the buffer away. "
        "Module looks at the name: it was a buffer, and a tensor may follow it.",
        "[]": "A model does not take along everything that it holds. It only takes what is "
        "registered.",
        "['listed', 'row', 'weight']": "A parameter is the first thing that .to() looks for.",
        "['row']": "nn.Module does not look into lists for tensors.",
    },
)
def test_who_missed_the_move():
    """A layer holds tensors in four ways, and is moved. Soon some line will meet two devices.

    Which of the four stayed on the CPU? Write their names as a list, in order.
    """
    layer = nn.Linear(3, 3)
    layer.register_buffer("replaced", torch.zeros(3))
    layer.replaced = torch.ones(3)
    layer.listed = [torch.ones(3)]
    layer.row = layer.weight[0]
    layer.to("meta")
    held = {"replaced": layer.replaced, "listed": layer.listed[0], "row": layer.row}
    held["weight"] = layer.weight
    assert [name for name, t in held.items() if t.device.type == "cpu"] == answer(["listed", "row"])


@koan(
    see="torch.nn.Module.register_buffer",
    hint=[
        "When is the mask made, and on which device? Where are the scores after the move?",
        "Either the mask moves along, or it is made again where it is missing.",
        "A buffer is saved, unless you say otherwise.",
    ],
    why="What a module keeps for later must follow it, or be checked before it is used. A buffer "
    "that is not persistent does the first: it moves, and it is not saved.",
    wrong={
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.register_buffer('mask', None)\n\n"
        "def forward(self, scores):\n"
        "    if self.mask is None:\n"
        "        self.mask = torch.ones_like(scores).tril()\n"
        "    return scores * self.mask": "It moves along. But now the mask is saved as well, and a "
        "fresh model does not expect it.",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.mask = None\n\n"
        "def forward(self, scores):\n"
        "    if self.mask is None:\n"
        "        self.mask = torch.ones_like(scores).tril()\n"
        "    self.mask.to(scores.device)\n"
        "    return scores * self.mask": "A tensor's .to() returns the moved one. Nobody keeps it.",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.mask = None\n\n"
        "def forward(self, scores):\n"
        "    if self.mask is None:\n"
        "        self.mask = nn.Parameter(torch.ones_like(scores).tril())\n"
        "    return scores * self.mask": "It moves along. But it would be trained, and saved.",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.mask = None\n\n"
        "def forward(self, scores):\n"
        "    if self.mask is None:\n"
        "        self.mask = torch.ones_like(scores).tril()\n"
        "    return scores.to(self.mask.device) * self.mask": "The guest is sent to where the "
        "mask is. The result comes out on the old device.",
    },
    right=[
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.register_buffer('mask', None, persistent=False)\n\n"
        "def forward(self, scores):\n"
        "    if self.mask is None:\n"
        "        self.mask = torch.ones_like(scores).tril()\n"
        "    return scores * self.mask",
        "def forward(self, scores):\n    return scores.tril()",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.mask = None\n\n"
        "def forward(self, scores):\n"
        "    if self.mask is None:\n"
        "        self.mask = torch.ones_like(scores).tril()\n"
        "    self.mask = self.mask.to(scores.device)\n"
        "    return scores * self.mask",
    ],
    at={
        "torch.equal(layer(scores), scores.tril())": (
            "Nothing has moved yet. This first call, on the CPU, should give the scores with "
            "zeros above the diagonal."
        ),
        "layer(scores.to(": (
            "On the CPU all is right. The layer and the scores have moved since, and the result "
            "is not where they are."
        ),
        "list(layer.state_dict())": (
            "Both calls are right. But something is trained or saved now: print the names in "
            "state_dict() and named_parameters()."
        ),
    },
)
def test_a_mask_from_the_first_day():
    """What lies above the diagonal becomes 0. The layer is tried once on the CPU, then moved, and
    then it fails. Repair it. Nothing of the mask is to be trained or saved."""

    class LowerHalf(nn.Module):
        # answer:
        def __init__(self):
            super().__init__()
            self.mask = None

        def forward(self, scores):
            if self.mask is None or self.mask.device != scores.device:
                self.mask = torch.ones_like(scores).tril()
            return scores * self.mask

        # given:
        # def __init__(self):
        #     super().__init__()
        #     self.mask = None
        #
        # def forward(self, scores):
        #     if self.mask is None:
        #         self.mask = torch.ones_like(scores).tril()
        #     return scores * self.mask
        # end

    for size in (2, 3):
        layer, scores = LowerHalf(), torch.rand(size, size) + 1
        assert torch.equal(layer(scores), scores.tril())
        layer.to("meta")
        assert layer(scores.to("meta")).is_meta
        assert list(layer.state_dict()) == list(layer.parameters()) == []


@koan(
    see="torch.set_default_device",
    hint=[
        "Which default did the caller have? And who sets it back when make() fails?",
        "Python has a statement for things that must be undone, whatever happens.",
    ],
    why="set_default_device changes the default for everything that follows, in other people's "
    "code too. A torch.device as a block ends with the block, also after an error, and gives back "
    "what was there before.",
    wrong={
        "torch.set_default_device(place)\ntry:\n    return make()\nfinally:\n    torch.set_default_"
        'device("cpu")': "Now an error does no harm. But the caller may have had another default.",
        "torch.set_default_device(place)\ntry:\n    return make()\nfinally:\n    torch.set_default_"
        "device(None)": "None stands for no default at all. The caller had one.",
        "torch.device(place)\nreturn make()": "A device that is only named does nothing.",
        "return make().to_empty(device=place)": "That gives memory, and no numbers. And make() was "
        "never told where to build.",
        "return make().to(place)": "Made on the caller's default, then moved. And if there are no "
        "numbers to move?",
        "old = torch.get_default_device()\ntorch.set_default_device(place)\nmade = make()\n"
        "torch.set_default_device(old)\nreturn made": "Right for the caller, until make() fails.",
    },
    right=[
        "old = torch.get_default_device()\ntorch.set_default_device(place)\ntry:\n"
        "    return make()\nfinally:\n    torch.set_default_device(old)",
        "with torch.device(place):\n    made = make()\nreturn made",
    ],
    at={
        "built.weight.device.type": (
            "Two places are compared with `place`: where make() made a new tensor, and where the "
            "built layer's weight is. Which one differs?"
        ),
        "pytest.raises(KeyError)": (
            "When make() works, all is right. When it fails, its error must reach the caller of "
            "`build`, and here none came out."
        ),
    },
)
def test_give_the_default_back():
    """`build` makes a model on another default device. Afterwards strange things happen elsewhere:
    new tensors are not where they used to be. Repair it. While make() runs, `place` is the default.
    """

    def build(make, place):
        # answer:
        with torch.device(place):
            return make()
        # given:
        # torch.set_default_device(place)
        # made = make()
        # torch.set_default_device("cpu")
        # return made
        # end

    def make():
        seen.append(torch.zeros(1).device.type)
        return nn.Linear(2, 2)

    def broken():
        raise KeyError("this layer does not exist")

    seen = []
    try:
        for ours, place in (("cpu", "meta"), ("meta", "cpu")):
            torch.set_default_device(ours)
            built = build(make, place)
            assert [*seen[-1:], built.weight.device.type] == [place, place]
            assert torch.zeros(1).device.type == ours
            with pytest.raises(KeyError):
                build(broken, place)
            assert torch.zeros(1).device.type == ours
    finally:
        torch.set_default_device(None)


@koan(
    claims=["A-4.1-07"],
    see="torch.Tensor.new_zeros",
    hint=[
        "Which tensors are made without asking where the model is? Look in __init__, and in "
        "forward.",
        "When __init__ runs, nobody knows yet where the model will go.",
        "What .to() and load_state_dict should know of must be registered.",
    ],
    why="Parameters and buffers follow the model, new tensors follow the input. Then no line of a "
    "module names a device, and it runs wherever it is taken.",
    wrong={
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.mean = mean.to(self.cell.weight.device)\n\n"
        "def forward(self, x):\n"
        "    state = x.new_zeros(2)\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state": "That asks too early: in __init__ the weight is not yet where it will "
        "be.",
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.mean = nn.Parameter(mean)\n\n"
        "def forward(self, x):\n"
        "    state = x.new_zeros(2)\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state": "It moves, and it is saved. But an optimizer would train it too.",
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.mean = mean\n\n"
        "def forward(self, x):\n"
        "    state = x.new_zeros(2)\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean.to(x))).tanh()\n"
        "    return state": "It runs everywhere. But it copies the mean at each step, and it does "
        "not save it.",
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.register_buffer('mean', mean)\n\n"
        "def forward(self, x):\n"
        "    state = torch.zeros(2)\n"
        "    state.to(x.device)\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state": "One of the two is repaired. The moved state was dropped.",
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.register_buffer('mean', mean)\n"
        "    self.start = torch.zeros(2)\n\n"
        "def forward(self, x):\n"
        "    state = self.start\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state": "One of the two is repaired. The other has only changed its place.",
    },
    right=[
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.register_buffer('mean', mean)\n\n"
        "def forward(self, x):\n"
        "    state = 0.0\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state",
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.mean = nn.Parameter(mean, requires_grad=False)\n\n"
        "def forward(self, x):\n"
        "    state = x.new_zeros(2)\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state",
        "def __init__(self, mean):\n"
        "    super().__init__()\n"
        "    self.cell = nn.Linear(2, 2)\n"
        "    self.register_buffer('mean', mean.clone())\n\n"
        "def forward(self, x):\n"
        "    state = torch.zeros(2, device=x.device, dtype=x.dtype)\n"
        "    for step in x:\n"
        "        state = (state + self.cell(step - self.mean)).tanh()\n"
        "    return state",
    ],
    at={
        'fresh.to("meta")': (
            "On the CPU all is right. Now model and x are on meta, and the result should be "
            "there, too."
        ),
        "expected + model.cell": (
            "This line computes the right result by hand, on the CPU. It reads `model.cell` and "
            "`model.mean`."
        ),
        "assert trained ==": (
            "The weight and the bias of the cell should be trained, and nothing else. Print the "
            "names in named_parameters()."
        ),
        "assert fresh(x).tolist()": (
            "`fresh` began with a mean of zeros and loaded the state dict of `model`. Its result "
            "should now be the same: what did not come along, or is computed in another way?"
        ),
    },
)
def test_a_model_for_any_device():
    """This little recurrent model only runs on the CPU. Repair it, so that it runs wherever the
    model and x are. The mean is not trained, but it is saved with the model."""

    class Recurrent(nn.Module):
        # answer:
        def __init__(self, mean):
            super().__init__()
            self.cell = nn.Linear(2, 2)
            self.register_buffer("mean", mean)

        def forward(self, x):
            state = x.new_zeros(2)
            for step in x:
                state = (state + self.cell(step - self.mean)).tanh()
            return state

        # given:
        # def __init__(self, mean):
        #     super().__init__()
        #     self.cell = nn.Linear(2, 2)
        #     self.mean = mean
        #
        # def forward(self, x):
        #     state = torch.zeros(2)
        #     for step in x:
        #         state = (state + self.cell(step - self.mean)).tanh()
        #     return state
        # end

    model, fresh, x = Recurrent(torch.rand(2)), Recurrent(torch.zeros(2)), torch.rand(4, 2)
    expected = torch.zeros(2)
    for step in x:
        expected = (expected + model.cell(step - model.mean)).tanh()
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trained == ["cell.weight", "cell.bias"]
    fresh.load_state_dict(model.state_dict())
    assert fresh(x).tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert fresh.double()(x.double()).tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert fresh.to("meta")(x.double().to("meta")).is_meta
