"""Compiled code that is not faster, and a clinic for trainings that do not learn."""

import pytest
import torch
from torch import nn

from sensei import answer, koan


def counted(function, **options):
    """The function, compiled by a backend that only counts, and the list of graphs it was given.

    The backend changes nothing: each graph is run as it is. No C++ compiler is needed.
    """
    torch.compiler.reset()
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, backend=backend, **options), graphs


@pytest.mark.slow
@koan(
    see="torch.compile",
    hint=[
        "The compiler follows tensors without their numbers. What else does it know of a tensor?",
        "Where must Python itself step in, before the rest can go on?",
        "torch.where computes both sides. Does anybody have to decide?",
    ],
    why=(
        "A print is Python's work, and an `if` on a value needs the number: there the graph ends, "
        "Python works, and a second graph begins. Nothing fails, it is only not faster. A shape is "
        "known while compiling, so that `if` costs a guard and no break; where has no `if` at all."
    ),
    wrong={
        "[]": "Some say torch.compile takes the whole function or fails. It can also take pieces.",
        "['print']": "One more needs something that only Python can find out, at run time.",
        "['print', 'value', 'shape']": (
            "Both are an `if`. But one of them asks for what is known beforehand."
        ),
        "['print', 'value', 'shape', 'where']": (
            "A condition alone breaks nothing. Who has to know its outcome?"
        ),
        "['value', 'shape']": "The prints of an eager function are still printed. By whom?",
    },
)
def test_what_splits_the_graph():
    """Compiled, and not faster. Which of the four come to the backend in more than one graph?

    Keep the order of the dict.
    """
    functions = {
        "print": lambda x: (x + 1, print("here"))[0] * 2,
        "value": lambda x: x * 2 if x.sum() > 0 else x * 3,
        "shape": lambda x: x * 2 if len(x) > 1 else x * 3,
        "where": lambda x: torch.where(x.sum() > 0, x * 2, x * 3),
    }
    pieces = {}
    for name, function in functions.items():
        compiled, pieces[name] = counted(function)
        compiled(torch.ones(2))
    torch.compiler.reset()
    assert [name for name in pieces if len(pieces[name]) > 1] == answer(["print", "value"])


@koan(
    see="torch.compile",
    hint=[
        "The print cuts the function in two. Who minds it, with and without fullgraph?",
        "The compiler reads the function before anything runs. Does it hand over the first half, "
        "if it promised a whole?",
        "The third: is the error one that an old `except RuntimeError` catches? Look at its "
        "parents in type(...).__mro__.",
    ],
    why=(
        "Without fullgraph you get two graphs and no word about it. With it the compiler stops at "
        "the print and hands over nothing. So put fullgraph=True into a test: the error, derived "
        "from RuntimeError, names the line that breaks the graph."
    ),
    wrong={
        "[2, 1, True]": (
            "Natural to think: the first half is fine. But halves are just what was forbidden."
        ),
        "[1, 0, True]": (
            "Some say torch.compile takes the whole function or fails. That is so only on request."
        ),
        "[2, 2, True]": "Two graphs are two pieces. Then what would it complain about?",
        "[2, 0, False]": ("Its own type has another name. But what is that type derived from?"),
    },
)
def test_no_pieces_please():
    """A print in the middle, compiled twice: as usual, and as one whole graph. The second raises.

    Predict how many graphs the backend gets for the first and for the second, and whether
    `except RuntimeError` would catch the error.
    """

    def talkative(x):
        y = x + 1
        print("here")
        return y * 2

    usual, pieces = counted(talkative)
    usual(torch.ones(2))
    strict, whole = counted(talkative, fullgraph=True)
    with pytest.raises(Exception) as caught:
        strict(torch.ones(2))
    torch.compiler.reset()
    assert [len(pieces), len(whole), issubclass(caught.type, RuntimeError)] == answer([2, 0, True])


@koan(
    see="torch.compiler.reset",
    hint=[
        "At the first call the compiler sees one value of the switch. What if it trusts it?",
        "It notes what it relied on, and looks again before each call. That is a guard.",
        "A graph that was made is kept. Can it be used again at the third call?",
    ],
    why=(
        "The switch is baked into the graph, and a guard on it as well. When the guard fails, the "
        "function is compiled anew, and both graphs are kept. So the results are right, and each "
        "new value costs one compilation: fine for a switch, bad for something that never repeats."
    ),
    wrong={
        ("[2.0, 2.0, 2.0, 2.0]", "1"): (
            "Some say that whatever is no tensor is frozen at the first call. So it is with "
            "tracing. Here somebody checks."
        ),
        ("[2.0, 3.0, 2.0, 3.0]", "4"): "Would you throw away a graph that was right before?",
        ("[2.0, 3.0, 2.0, 3.0]", "1"): (
            "One graph holds one way only. The `if` is not in it, for Python decided."
        ),
    },
    at={
        "assert len(graphs) ==": (
            "The results are right. Now count the compilations: when does the guard fail, and can "
            "a graph that was kept be used again?"
        ),
    },
)
def test_a_switch_outside():
    """The function reads a switch from outside, and the switch is turned between the calls.

    Predict the four results, and how many graphs were made for them.
    """

    def scaled(x):
        return x * 2 if double else x * 3

    compiled, graphs = counted(scaled)
    results = []
    for double in (True, False, True, False):
        results.append(compiled(torch.ones(())).item())
    torch.compiler.reset()
    assert results == answer([2.0, 3.0, 2.0, 3.0])
    assert len(graphs) == answer(2)


@koan(
    see="torch.compile",
    hint=[
        "A write to a list outside is not lost. How often does it happen: per graph or per call?",
        "To append, the compiler looks at the list. What does it notice about a list, and guard?",
        "Before the second call that guard is checked. What has changed since the first?",
    ],
    why=(
        "The append is played back after each call, so nothing is lost. But the compiled code "
        "relies on the length that the list had, and each append makes it false: a new "
        "compilation at each call, until PyTorch gives up (after 8, by default). Return the loss, "
        "and append outside."
    ),
    wrong={
        "[1, 1]": (
            "Some say that a side effect happens only while compiling. Here it is repeated at each "
            "call."
        ),
        "[4, 1]": "The append works. But is the list the same to the compiler each time?",
        "[4, 2]": "An append does not break the graph in two. It spoils something else.",
        "[1, 4]": "If it was compiled again, then the function was called.",
    },
)
def test_a_diary_in_the_compiled_step():
    """The compiled step writes its loss into a list, four times.

    Predict the length of the list, and how many graphs were made.
    """
    losses = []

    def step(x):
        loss = x.square().sum()
        losses.append(loss)
        return loss

    compiled, graphs = counted(step)
    for _ in range(4):
        compiled(torch.ones(2))
    torch.compiler.reset()
    assert [len(losses), len(graphs)] == answer([4, 4])


@koan(
    see="torch.where",
    hint=[
        "The `if` asks for a number. Can the answer stay a tensor?",
        "Compute with both ways in mind, and let a tensor operation choose.",
        "For short vectors the divisor should be 1.",
    ],
    why=(
        "The choice is an operation now, so one graph holds both ways. A clamp on the divisor, "
        "torch.where or torch.maximum: each keeps the decision among tensors. It also frees a GPU, "
        "which had to wait at the `if` for its own number."
    ),
    wrong={
        "if x.norm().item() > 1:\n    return x / x.norm()\nreturn x": (
            "item() fetches the number openly. The `if` still needs it."
        ),
        "if bool(x.norm() > 1):\n    return x / x.norm()\nreturn x": (
            "bool() asks for the very same number, in other words."
        ),
        "return x / x.norm()": "No `if`, but now short vectors grow.",
        "return x.clamp(-1, 1)": "Each number is cut by itself: the direction is lost.",
        "return torch.where(x > 1, x / x.norm(), x)": "It asks each number, not the length.",
        "return x * (x.norm() > 1) / x.norm()": "Short vectors become 0.",
    },
    right=[
        "return torch.where(x.norm() > 1, x / x.norm(), x)",
        "return x / torch.maximum(x.norm(), torch.ones(()))",
        "return x / max(x.norm(), 1)",
        "return x * (1 / x.norm()).clamp(max=1).nan_to_num(1)",
    ],
    at={
        "torch.allclose(compiled(": (
            "If the compiler complains, something still asks for a number. If not, compare the "
            "results: a long vector gets length 1, a short one stays."
        ),
        "len(graphs) == 1": (
            "The three results are right. But one graph should serve all vectors: what made the "
            "compiler begin anew?"
        ),
    },
)
def test_a_decision_without_an_if():
    """A vector longer than 1 is brought to length 1. Repair the function: one graph for all
    vectors, and the same results."""

    def shorten(x):
        # answer:
        return x / x.norm().clamp(min=1)
        # given:
        # if x.norm() > 1:
        #     return x / x.norm()
        # return x
        # end

    compiled, graphs = counted(shorten, fullgraph=True)
    for vector, expected in (
        ([3.0, 4.0], [0.6, 0.8]),
        ([0.3, -0.4], [0.3, -0.4]),
        ([-12.0, 5.0], [-12 / 13, 5 / 13]),
    ):
        assert torch.allclose(compiled(torch.tensor(vector)), torch.tensor(expected))
    torch.compiler.reset()
    assert len(graphs) == 1


@koan(
    see="torch.nn.Module.register_buffer",
    hint=[
        "Each call changes the length of the list. What did the compiler do about it before?",
        "Numbers of a tensor are not guarded: they are what a graph computes with.",
        "A module can hold a tensor that is no parameter.",
    ],
    why=(
        "The number in a tensor is data, so the graph reads and writes it, and one compilation "
        "is enough. In a Python int, float or list it is part of the program, and a change may "
        "mean a new program. As a buffer the count also moves with the model and is saved."
    ),
    wrong={
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.steps = 0.0\n"
        "\n"
        "def forward(self, x):\n"
        "    self.steps += 1.0\n"
        "    return x / self.steps": (
            "A Python number instead of a list: one more compilation at least, when it changes."
        ),
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.steps = []\n"
        "\n"
        "@torch.compiler.disable\n"
        "def forward(self, x):\n"
        "    self.steps.append(1)\n"
        "    return x / len(self.steps)": (
            "The part is hidden from the compiler. Then there is no whole graph any more."
        ),
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.steps = [1]\n"
        "\n"
        "def forward(self, x):\n"
        "    return x / len(self.steps)": "One graph, for nothing is counted any more.",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.steps = []\n"
        "\n"
        "def forward(self, x):\n"
        "    self.steps.append(1)\n"
        "    return x / torch.tensor(len(self.steps))": (
            "The length goes into a tensor, but it is still read from a list."
        ),
    },
    right=[
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.steps = torch.zeros(())\n"
        "\n"
        "def forward(self, x):\n"
        "    self.steps += 1\n"
        "    return x / self.steps",
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.register_buffer('steps', torch.tensor(0))\n"
        "\n"
        "def forward(self, x):\n"
        "    self.steps = self.steps + 1\n"
        "    return x / self.steps",
    ],
    at={
        "results = [compiled(": (
            "The layer is compiled and run here, and must be one whole graph. Read at which of "
            "its lines the message stops."
        ),
        "assert results ==": (
            "The layer runs. But the first call should divide by 1, the second by 2, and so on."
        ),
        "assert len(graphs) == 1": (
            "The results are right. But the layer was compiled anew for a later call: where is "
            "the count kept?"
        ),
        "eager(torch.tensor(6.0)).item()": (
            "Compiled, all is right. A fresh layer that is not compiled must count its own calls, "
            "too."
        ),
    },
)
def test_count_without_a_new_program():
    """This layer divides by the number of its calls, and is compiled anew at each of them.

    Repair it: the results stay, and one graph serves all calls.
    """

    class Fading(nn.Module):
        # answer:
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.steps += 1
            return x / self.steps

        # given:
        # def __init__(self):
        #     super().__init__()
        #     self.steps = []
        #
        # def forward(self, x):
        #     self.steps.append(1)
        #     return x / len(self.steps)
        # end

    compiled, graphs = counted(Fading(), fullgraph=True)
    results = [compiled(torch.full((2,), x)).tolist() for x in (1.0, 1.0, 6.0, 8.0)]
    assert results == [[1.0, 1.0], [0.5, 0.5], [2.0, 2.0], [2.0, 2.0]]
    assert len(graphs) == 1
    eager = Fading()
    assert [eager(torch.tensor(6.0)).item() for _ in range(3)] == [6.0, 3.0, 2.0]
    torch.compiler.reset()


@koan(
    see="torch.nn.MSELoss",
    hint=[
        "All inputs are 0. What can the model tell apart?",
        "It can still choose one number for all. Which number is best for 1, 1, 5 and 5?",
        "Take that number, and average the four squared distances.",
    ],
    why=(
        "A model that sees nothing of its input learns the mean, and its loss stops at the "
        "variance of the targets (divided by n). Remember this floor: a loss that stops there "
        "says that input and target have lost each other, not that the learning rate is wrong."
    ),
    wrong={
        "0.0": "Four targets, two different ones, and nothing to tell them apart.",
        "13.0": "That is the loss of a model that says 0. The bias can do better.",
        "2.0": "That is the mean distance. The loss squares it.",
        "5.333": "That is the variance as torch.var divides it, by n - 1. The loss divides by n.",
    },
)
def test_the_floor_of_a_blind_model():
    """Before you heal, learn to read the thermometer. The inputs say nothing here.

    At which loss does the training stop? Round to three places.
    """
    x, y = torch.zeros(4, 1), torch.tensor([[1.0], [1.0], [5.0], [5.0]])
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for _ in range(50):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    assert round(loss.item(), 3) == answer(4.0)


@koan(
    see="torch.optim.Optimizer.step",
    hint=[
        "After one turn: which parameters have moved? Print a sum of each.",
        "How often does each part move in one turn? Who is called `optimizer` at the end of a "
        "turn?",
        "A loop variable stays alive after its loop. With which value?",
    ],
    why=(
        "`optimizer` was left over from the loop before: the last of the list. It stepped twice, "
        "the other never, and Python had no reason to complain. Whenever a loss stops early, look "
        "first at who moves: compare each parameter before and after one step."
    ),
    wrong={
        "return 1.0": ("That is a number. A model is wanted that has learned from x and y."),
        "for _ in range(200):\n"
        "    for optimizer in optimizers:\n"
        "        optimizer.zero_grad()\n"
        "    F.mse_loss(head(body(x)), y).backward()\n"
        "    optimizer.step()": "It steps once now, not twice. But who is it?",
        "for _ in range(600):\n"
        "    for optimizer in optimizers:\n"
        "        optimizer.zero_grad()\n"
        "    F.mse_loss(head(body(x)), y).backward()\n"
        "    for _ in optimizers:\n"
        "        optimizer.step()": "Patience does not help a part that never moves.",
        "for optimizer in optimizers:\n"
        "    optimizer.param_groups[0]['lr'] = 0.5\n"
        "for _ in range(200):\n"
        "    for optimizer in optimizers:\n"
        "        optimizer.zero_grad()\n"
        "    F.mse_loss(head(body(x)), y).backward()\n"
        "    for _ in optimizers:\n"
        "        optimizer.step()": (
            "A larger rate is the first thing people try. A part that never steps has no use for "
            "one."
        ),
        "for _ in range(200):\n"
        "    for optimizer in optimizers:\n"
        "        optimizer.zero_grad()\n"
        "        F.mse_loss(head(body(x)), y).backward()\n"
        "    optimizer.step()": "More gradients, and still one part without a step.",
    },
    right=[
        "for _ in range(200):\n"
        "    F.mse_loss(head(body(x)), y).backward()\n"
        "    for optimizer in optimizers:\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()",
        "optimizer = torch.optim.Adam([*head.parameters(), *body.parameters()], lr=0.1)\n"
        "for _ in range(200):\n"
        "    optimizer.zero_grad()\n"
        "    F.mse_loss(head(body(x)), y).backward()\n"
        "    optimizer.step()",
    ],
    at={
        "mse_loss(fit(x, y)(x), y)": (
            "Both trainings should end with a loss below 2. Look at one turn: which parameters "
            "move, how often, and by which gradients?"
        ),
    },
)
def test_first_patient_the_loss_stays_high():
    """Two parts, two optimizers, and a loss that hardly falls. Find the fault and repair it.

    The loss must get below 2 for both sets of targets.
    """

    def fit(x, y):
        F = nn.functional
        body, head = nn.Sequential(nn.Linear(1, 8), nn.Tanh()), nn.Linear(8, 1)
        optimizers = [torch.optim.Adam(part.parameters(), lr=0.1) for part in (head, body)]
        # answer:
        for _ in range(200):
            for optimizer in optimizers:
                optimizer.zero_grad()
            F.mse_loss(head(body(x)), y).backward()
            for optimizer in optimizers:
                optimizer.step()
        # given:
        # for _ in range(200):
        #     for optimizer in optimizers:
        #         optimizer.zero_grad()
        #     F.mse_loss(head(body(x)), y).backward()
        #     for _ in optimizers:
        #         optimizer.step()
        # end
        return nn.Sequential(body, head)

    x = torch.linspace(-1, 1, 32)[:, None]
    for y in (5 * x + 20, x.sin() - 20):
        assert nn.functional.mse_loss(fit(x, y)(x), y) < 2


@koan(
    see="torch.optim.Adam",
    hint=[
        "Print the weight of the last ten turns. It walks to and fro. How long is each stride?",
        "Adam's very first step has length lr, be the slope large or small. Why only the first?",
        "What does the optimizer know at the end of a turn, and what at the beginning of the next?",
    ],
    why=(
        "Adam's memory makes its strides shorter near the goal. An optimizer that is made anew in "
        "each turn has none, so every step is a first step, of length lr, and the weight trembles "
        "around the goal. Make it once, before the loop. Schedulers, too."
    ),
    wrong={
        "for _ in turns:\n"
        "    optimizer = torch.optim.Adam([weight], lr=rate / 10)\n"
        "    optimizer.zero_grad()\n"
        "    (weight - target).square().backward()\n"
        "    optimizer.step()": (
            "The popular cure. The trembling is smaller, and now the way is too long."
        ),
        "for _ in turns:\n"
        "    optimizer = torch.optim.Adam([weight], lr=rate, betas=(0.99, 0.9999))\n"
        "    optimizer.zero_grad()\n"
        "    (weight - target).square().backward()\n"
        "    optimizer.step()": "A longer memory, but nothing is ever put into it.",
        "for _ in turns:\n"
        "    optimizer = torch.optim.Adam([weight], lr=rate)\n"
        "    (weight - target).square().backward()\n"
        "    optimizer.step()": "Now the slopes pile up as well.",
        "for _ in turns:\n"
        "    optimizer = torch.optim.SGD([weight], lr=rate)\n"
        "    optimizer.zero_grad()\n"
        "    (weight - target).square().backward()\n"
        "    optimizer.step()": (
            "Plain SGD has no memory to lose, so it arrives. But Adam was asked for: what does it "
            "need?"
        ),
    },
    right=[
        "optimizer = torch.optim.Adam([weight], lr=rate)\n"
        "for _ in turns:\n"
        "    (weight - target).square().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()",
    ],
    at={
        "return optimizer": (
            "Here `optimizer` is handed back, so this name should exist after the marked lines."
        ),
        "isinstance(optimizer, torch.optim.Adam)": (
            "What comes back is no Adam, and Adam was to be kept."
        ),
        "abs(weight.item() - target)": (
            "Adam is there. But after the last turn the weight is not at its target. Is it "
            "trembling, or still on its way?"
        ),
    },
)
def test_second_patient_the_weight_trembles():
    """The weight walks to its target, and then trembles around it. Find the fault and repair it.

    Keep Adam, its rate, and the number of turns.
    """

    def fit(weight, target, rate, turns=range(400)):
        # answer:
        optimizer = torch.optim.Adam([weight], lr=rate)
        for _ in turns:
            optimizer.zero_grad()
            (weight - target).square().backward()
            optimizer.step()
        # given:
        # for _ in turns:
        #     optimizer = torch.optim.Adam([weight], lr=rate)
        #     optimizer.zero_grad()
        #     (weight - target).square().backward()
        #     optimizer.step()
        # end
        return optimizer

    for target, rate in ((8.0537, 0.1), (-6.1234, 0.2)):
        weight = nn.Parameter(torch.zeros(()))
        optimizer = fit(weight, target, rate)
        assert isinstance(optimizer, torch.optim.Adam)
        assert abs(weight.item() - target) < 2e-3


@koan(
    see="torch.nn.MSELoss",
    hint=[
        "The loss stops at the floor of a blind model. Who has lost whom?",
        "Print the shapes: of the prediction, of the target, and of their difference.",
        "There may be a second fault, hidden by the first. Which row of y belongs to which x?",
        "Repair one fault, and the floor is still there. Do not give up on the right cure.",
    ],
    why=(
        "A column minus a row compares each prediction with every target, so the order of the "
        "targets did not matter: one fault hid the other. Healing either alone leaves the loss at "
        "its floor. This is why a right cure may seem useless: change one thing, and keep it."
    ),
    wrong={
        "for _ in range(40):\n"
        "    x = x[torch.randperm(len(x))]\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs)[:, 0] - ys) ** 2).mean().backward()\n"
        "        optimizer.step()": "The shapes agree now. Do the rows?",
        "for _ in range(40):\n"
        "    order = torch.randperm(len(x))\n"
        "    x, y = x[order], y[order]\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs) - ys) ** 2).mean().backward()\n"
        "        optimizer.step()": "The rows go together now. Which shape has the difference?",
        "for _ in range(40):\n"
        "    x = x[torch.randperm(len(x))]\n"
        "    y = y[torch.randperm(len(y))]\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs)[:, 0] - ys) ** 2).mean().backward()\n"
        "        optimizer.step()": "Both are shuffled, each in its own way: no pair survives.",
        "for _ in range(40):\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs) - ys) ** 2).mean().backward()\n"
        "        optimizer.step()": "Nothing is out of order now, and yet it does not learn. Why?",
        "for _ in range(80):\n"
        "    x = x[torch.randperm(len(x))]\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs) - ys) ** 2).mean().backward()\n"
        "        optimizer.step()": "Twice the time, and the same floor.",
        "for _ in range(40):\n"
        "    x = x[torch.randperm(len(x))]\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        nn.functional.mse_loss(model(xs), ys[:, None]).backward()\n"
        "        optimizer.step()": "A ready-made loss, and shapes that agree. Do the rows?",
    },
    right=[
        "for _ in range(40):\n"
        "    order = torch.randperm(len(x))\n"
        "    for rows in order.split(16):\n"
        "        optimizer.zero_grad()\n"
        "        nn.functional.mse_loss(model(x[rows]), y[rows, None]).backward()\n"
        "        optimizer.step()",
        "y = y[:, None]\n"
        "for _ in range(40):\n"
        "    order = torch.randperm(len(x))\n"
        "    x, y = x[order], y[order]\n"
        "    for xs, ys in zip(x.split(16), y.split(16)):\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs) - ys) ** 2).mean().backward()\n"
        "        optimizer.step()",
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)\n"
        "for _ in range(40):\n"
        "    for xs, ys in loader:\n"
        "        optimizer.zero_grad()\n"
        "        ((model(xs).squeeze(1) - ys) ** 2).mean().backward()\n"
        "        optimizer.step()",
    ],
    at={
        "rest.square().mean()": (
            "The model is not good enough yet. A right cure may not be the whole one: look at "
            "the shapes, at which rows meet, and whether the parameters move."
        ),
    },
)
def test_last_patient_one_fault_hides_another():
    """This training ends where a blind model would. Find what is wrong, all of it, and repair it.

    In the end the model explains nine tenths of the variance.
    """

    def fit(x, y):
        model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        # answer:
        for _ in range(40):
            order = torch.randperm(len(x))
            x, y = x[order], y[order]
            for xs, ys in zip(x.split(16), y.split(16)):
                optimizer.zero_grad()
                ((model(xs)[:, 0] - ys) ** 2).mean().backward()
                optimizer.step()
        # given:
        # for _ in range(40):
        #     x = x[torch.randperm(len(x))]
        #     for xs, ys in zip(x.split(16), y.split(16)):
        #         optimizer.zero_grad()
        #         ((model(xs) - ys) ** 2).mean().backward()
        #         optimizer.step()
        # end
        return model

    x = torch.linspace(-1, 1, 64)[:, None]
    for y in ((3 * x[:, 0]).sin(), 5 * x[:, 0] - 7):
        rest = fit(x, y)(x).flatten() - y
        assert rest.square().mean() < 0.1 * y.var()
