"""Script and trace: one reads your code, the other watches it run once.

Documents: A 5.2, B 5
"""

import io
import re
import warnings

import pytest
import torch
from torch import nn

from sensei import answer, koan


@pytest.fixture(autouse=True)
def no_notes():
    """TorchScript is deprecated and says so at each call. One koan reads that note."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit")
        yield


def quiet_trace(function, *inputs, **options):
    """torch.jit.trace without its TracerWarnings. One koan asks for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return torch.jit.trace(function, inputs, **options)


def try_out(function):
    """Trace with a vector of 2, then call with a vector of 4. Did it warn? Is the result right?"""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        traced = torch.jit.trace(function, torch.ones(2))
    warned = any(note.category is torch.jit.TracerWarning for note in notes)
    x = torch.ones(4)
    try:
        outcome = "right" if torch.equal(traced(x), function(x)) else "wrong"
    except RuntimeError:
        outcome = "error"
    return f"{'warns' if warned else 'silent'}, {outcome}"


def double_for_each(x):
    for _ in range(x.shape[0]):
        x = x * 2
    return x


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-04", "A-5.2-05", "B-5-13", "B-5-15", "B-5-17"],
    see="torch.jit.trace",
    hint=[
        "trace calls your function with the example and notes each tensor operation. Does an `if` "
        "belong to them?",
        "script reads the source text of your function. Does it need an example at all?",
        "Take the operation that the example went through, and apply it to the new input.",
    ],
    why=(
        "script compiled both ways. The trace holds one addition and nothing else: no `if`, no "
        "other way, and no error. While tracing, a TracerWarning said so. Who checks a trace with "
        "its own example only will never see the difference."
    ),
    wrong={
        "[-2.0, -2.0, -2.0]": (
            "Some say the warning can be ignored, for the trace agrees with the function. With "
            "its example it does. This is another input."
        ),
        "[-2.0, 0.0, 0.0]": "script was given no example. Which way could it have left out?",
        "[-2.0, 0.0, -2.0]": "The two have changed places: which of them read the source?",
        "[-2.0, -2.0, 2.0]": "The operation is kept, but not the example's result.",
    },
)
def test_the_way_not_taken():
    """A function as it is, then scripted, then traced with the example +1.

    Now give -1 to each of the three. Predict the results, in this order.
    """

    def step(x):
        if x > 0:
            return x + 1
        return x - 1

    scripted = torch.jit.script(step)
    traced = quiet_trace(step, torch.tensor(1.0))
    x = torch.tensor(-1.0)
    assert [f(x).item() for f in (step, scripted, traced)] == answer([-2.0, -2.0, 0.0])


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-05", "A-5.2-06", "B-5-13", "B-5-14", "B-5-18"],
    see="torch.jit.trace",
    hint=[
        "While tracing, x.shape[0] is a small tensor, and what is computed from it is recorded. "
        "Where does it become a Python number?",
        "int() and `if` must turn a tensor into something of Python's, and the tracer sees it. "
        "range() asks in another way, and the tracer does not notice.",
        "A frozen 2 in the place of 4: an addition cannot broadcast it, a loop does not mind. "
        "And does a frozen decision matter when both inputs decide the same?",
    ],
    why=(
        "A shape may change, as long as it stays among tensors: a traced conv net takes images of "
        "another size. Turned into a Python number, it is frozen. If you are lucky the tracer "
        "warns or the call crashes. With range() nothing of the kind happens, only the number is "
        "wrong. So test a trace with a second input of another size."
    ),
    wrong={
        "['silent, error', 'warns, error', 'silent, error', 'warns, error']": (
            "Some say that a traced model crashes when the length changes. One of them does. A "
            "shape that is used by a tensor operation is not frozen."
        ),
        "['silent, right', 'silent, right', 'silent, right', 'warns, right']": (
            "Shapes stay dynamic while they are tensors. int() and range() want Python numbers."
        ),
        "['silent, right', 'warns, error', 'warns, wrong', 'warns, right']": (
            "It would be kind of the tracer. Try out the loop alone."
        ),
        "['silent, right', 'warns, error', 'silent, wrong', 'warns, wrong']": (
            "A warning says 'might be incorrect'. Which way do the example and the new input go?"
        ),
        "['silent, wrong', 'warns, error', 'silent, wrong', 'warns, right']": (
            "The division is a tensor operation, and it gets the shape as a tensor."
        ),
    },
)
def test_a_longer_vector():
    """Four functions are traced with 2 numbers and called with 4. Read the helper `try_out`.

    Say of each, in the order of the dict: `silent` or `warns`, then `right`, `wrong` or `error`.
    So an item may read "silent, error".
    """

    functions = {
        "size": lambda x: x / x.shape[0],
        "ones": lambda x: x + torch.ones(int(x.shape[0])),
        "loop": double_for_each,
        "if": lambda x: x + 1 if x.sum() > 0 else x - 1,
    }
    outcomes = [try_out(function) for function in functions.values()]
    assert outcomes == answer(["silent, right", "warns, error", "silent, wrong", "warns, right"])


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-11"],
    see="torch.jit.trace",
    hint=[
        "Python runs your function while it is traced. Who runs it later?",
        "append() is no tensor operation. And len(calls), at the moment when it was asked?",
    ],
    why=(
        "Python was needed while tracing, and never again. What it did by the way (an append, a "
        "print, a counter) happened then, and what it gave as a number is a constant now. Without "
        "check_trace=False it runs more often, to compare; and this function, which is never the "
        "same, would be refused."
    ),
    wrong={
        ("[10.0, 15.0, 20.0]", "4"): (
            "Some say a traced function is your function, only faster. Nobody runs its Python "
            "any more."
        ),
        ("[5.0, 10.0, 15.0]", "3"): "To be traced, it had to be run.",
        ("[5.0, 5.0, 5.0]", "4"): "An append without Python? Only tensor operations are recorded.",
        ("[5.0, 10.0, 15.0]", "4"): "A recorded number does not grow.",
        ("[0.0, 0.0, 0.0]", "0"): "trace does run your function, with the example.",
    },
    at={
        "len(calls) ==": (
            "The results are right, so you know what the trace holds. And how often has Python "
            "run the function?"
        ),
    },
)
def test_a_counter_in_a_trace():
    """The function counts its calls, and multiplies by the count. It is traced, without a check.

    Then the traced one is called three times. Predict its results, and the length of the list.
    """
    calls = []

    def numbered(x):
        calls.append("called")
        return x * len(calls)

    traced = torch.jit.trace(numbered, torch.ones(()), check_trace=False)
    results = [traced(torch.tensor(5.0)).item() for _ in range(3)]
    assert results == answer([5.0, 5.0, 5.0])
    assert len(calls) == answer(1)


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-10", "B-5-13"],
    see="torch.nn.Dropout",
    hint=[
        "self.training is an attribute, and forward asks for it. Who still asks, later?",
        "A trace has no attribute to ask. It holds the value that it saw.",
        "Both traces were told to change their mode after they had been made.",
    ],
    why=(
        "The scripted layer reads its own flag at each call, so eval() works. A trace has the mode "
        "of its birth in it, as a constant; eval() and train() are accepted and change nothing. "
        "So say model.eval() before you trace for use."
    ),
    wrong={
        "[1.0, 1.0, 0.0]": (
            "Some say eval() reaches all modules, and it raises no error here. Does the recorded "
            "operation ask for the flag?"
        ),
        "[0.0, 0.0, 1.0]": (
            "script made both ways of it, as of each `if`. And its flag can be turned."
        ),
        "[1.0, 0.0, 0.0]": "The last trace was made in eval mode. What was recorded there?",
        "[1.0, 1.0, 1.0]": "The first trace was made in train mode. What was recorded there?",
    },
)
def test_the_mode_of_a_trace():
    """This dropout drops everything while it trains, and nothing in eval mode.

    One script and two traces are made. Then their modes are turned. Predict their results.
    """
    layer, x = nn.Dropout(1.0), torch.tensor(1.0)
    scripted = torch.jit.script(layer)
    traced_in_train = torch.jit.trace(layer, x)
    traced_in_eval = torch.jit.trace(layer.eval(), x)
    scripted.eval()
    traced_in_train.eval()
    traced_in_eval.train()
    results = [m(x).item() for m in (scripted, traced_in_train, traced_in_eval)]
    assert results == answer([1.0, 0.0, 1.0])


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-02"],
    see="torch.jit.script",
    hint=[
        "A parameter is a tensor with a storage. Is it copied, or used by both?",
        "An int is no such thing. It is written into the new module once.",
    ],
    why=(
        "The scripted module holds the very same parameters, so the optimizer of one trains the "
        "other. Plain numbers, strings and lists are copied when you script. `scripted.factor = 5` "
        "would change its own copy."
    ),
    wrong={
        "[50.0, 50.0]": "Is it the same module in another dress? Ask scripted.factor.",
        "[50.0, 3.0]": (
            "A picture of everything, taken while scripting? Ask scripted.weight is model.weight."
        ),
        "[50.0, 5.0]": "The other way round: one of the two changes is a write into a storage.",
        "[10.0, 50.0]": "The model itself is ordinary Python, and obeys both.",
    },
)
def test_changes_after_scripting():
    """A module is scripted. Then its factor and its weight are changed.

    What do the module and its scripted twin make of 1? Predict both results.
    """

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(1.0))
            self.factor = 3

        def forward(self, x):
            return x * self.weight * self.factor

    model = Scaled()
    scripted = torch.jit.script(model)
    model.factor = 5
    nn.init.constant_(model.weight, 10.0)
    assert [m(torch.tensor(1.0)).item() for m in (model, scripted)] == answer([50.0, 30.0])


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-05"],
    see="torch.jit.trace",
    hint=[
        "It is a check that fails, and the exception has a type of its own.",
        "It lives in torch.jit, beside the functions. Look at the names in dir(torch.jit) that "
        "begin with a capital letter.",
    ],
    why=(
        "trace runs your function again and compares. With the example alone, as a rule, it sees "
        "nothing: the same way is taken. Give it check_inputs of all kinds (another sign, another "
        "size), and it finds what it had frozen."
    ),
    wrong={
        "torch.jit.TracerWarning": (
            "That comes as well, as a warning, even where all is well. Here the trace is refused."
        ),
        "RuntimeError": "Natural in PyTorch, and here it has a name of its own.",
        "AssertionError": "A check fails, but nothing says `assert`.",
        "ValueError": "The inputs are good. The recording does not fit them.",
        "torch.jit.Error": "Near. That one comes out of code that is compiled already.",
    },
)
def test_a_second_input_for_the_tracer():
    """The first trace passes its own check. The second has one more input to check with.

    Which exception does it raise?
    """

    def step(x):
        return x + 1 if x > 0 else x - 1

    one = torch.tensor(1.0)
    quiet_trace(step, one)
    with pytest.raises(Exception) as caught:
        quiet_trace(step, one, check_inputs=[(-one,)])
    assert caught.type is answer(torch.jit.TracingCheckError)


@pytest.mark.needs(torch=">=2.10", python="<3.14")
@koan(
    claims=["A-5.2-01", "B-5-12"],
    see="torch.jit.script",
    hint=[
        "Two things took its place: one for speed inside Python, one to carry a program away.",
        "Who scripts may want the one or the other. What does somebody want who saves a file?",
        "Since it is text: run the lines outside of pytest with `python -W always`.",
    ],
    why=(
        "TorchScript still works, and nobody works on it: deprecated in the documentation since "
        "2.5, with a warning at each call since 2.10, and not supported on Python 3.14. In some "
        "versions it is a DeprecationWarning, which Python seldom shows by itself. For new "
        "work: torch.compile for speed, torch.export for a program without Python."
    ),
    wrong={
        "[]": (
            "Some say script and trace are how a model goes into production. So it was. Each of "
            "these two calls says something else."
        ),
        "[{'torch.compile', 'torch.export'}, {'torch.compile'}]": (
            "It makes things faster within Python. What does somebody want who saves a file?"
        ),
        "[{'torch.compile', 'torch.export'}, {'torch.compile', 'torch.export'}]": (
            "Only one of the two can be saved as a program."
        ),
        "[{'torch.compile', 'torch.export'}, {'torch.save'}]": (
            "That would save the class by its name, and no program."
        ),
        "[{'torch.fx', 'torch.export'}, {'torch.export'}]": (
            "torch.fx exists. But what did people script for, besides a file?"
        ),
        "[{'torch.fx', 'torch.onnx'}, {'torch.onnx'}]": "Both exist. Neither of them is named.",
    },
)
def test_what_the_notes_advise():
    """A function is scripted and saved. Both calls leave a note that says what to use instead:
    the first note names two functions of torch, the second note names one.

    Write a set of names, such as {"torch.save"}, for each note.
    """

    def doubled(x):
        return x * 2

    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", "`torch.jit")
        torch.jit.save(torch.jit.script(doubled), io.BytesIO())
    advice = [set(re.findall(r"`(torch\.\w+)`", str(note.message))) for note in notes]
    assert advice == answer([{"torch.compile", "torch.export"}, {"torch.export"}])


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-04", "A-5.2-06"],
    see="torch.jit.script",
    hint=[
        "How often it is halved depends on the numbers. Which of the two tools keeps such a loop?",
        "A function that is compiled already, called while somebody traces: is it run through, or "
        "recorded as a call?",
        "script can also be used as a decorator.",
    ],
    why=(
        "A trace may call scripted code: the call is recorded, with its loop, and the Python "
        "around it disappears. So each tool does what it is good at. torch.compile mixes in the "
        "same spirit: it takes what it can, and leaves the rest to Python."
    ),
    wrong={
        "def shrink(x):\n    while x.sum() > 1:\n        x = x / 2\n    return x": (
            "In Python it is right. The trace holds as many halvings as the example needed."
        ),
        "def shrink(x):\n    if x.sum() > 1:\n        x = x / 2\n    return x": (
            "Once is not enough, and an `if` is frozen as well."
        ),
        "def shrink(x):\n    return torch.where(x.sum() > 1, x / 2, x)": (
            "The decision is an operation now. But how often is it taken?"
        ),
        "def shrink(x):\n    for _ in range(10):\n        if x.sum() > 1:\n"
        "            x = x / 2\n    return x": "Ten decisions made by Python, and all frozen.",
        "@torch.no_grad()\ndef shrink(x):\n    while x.sum() > 1:\n        x = x / 2\n"
        "    return x": "It switches off another recorder. The tracer still sees Python decide.",
        "def shrink(x):\n    while x.sum() > 1:\n        x = x / 2\n    return x\n"
        "shrink = torch.jit.trace(shrink, torch.ones(2), check_trace=False)": (
            "A trace within a trace: the loop is frozen one step earlier."
        ),
    },
    right=[
        "def shrink(x):\n    while x.sum() > 1:\n        x = x / 2\n    return x\n"
        "shrink = torch.jit.script(shrink)",
        "@torch.jit.script\ndef shrink(x):\n    while bool(x.sum() > 1):\n        x /= 2\n"
        "    return x",
        "def shrink(x):\n    for _ in range(20):\n"
        "        x = torch.where(x.sum() > 1, x / 2, x)\n    return x",
    ],
    at={
        "[vector.tolist() for vector in shrunk]": (
            "The trace was made. But not every vector comes out right: print `shrunk`. Does each "
            "one get its own number of halvings?"
        ),
    },
)
def test_each_where_it_is_good():
    """script refuses `shrink_all`, for it takes any number of arguments. And a trace freezes loops.

    Write `shrink`, with a loop: halve x as long as its sum is greater than 1. The trace of
    `shrink_all` must be right for all inputs below.
    """

    # answer:
    @torch.jit.script
    def shrink(x):
        while x.sum() > 1:
            x = x / 2
        return x

    # end

    def shrink_all(*vectors):
        return [shrink(vector.clone()) for vector in vectors]

    traced = quiet_trace(shrink_all, torch.tensor([2.0, 2.0]), torch.tensor([0.25, 0.5]))
    for first, second, expected in (
        ([2.0, 2.0], [0.25, 0.5], [[0.5, 0.5], [0.25, 0.5]]),
        ([0.5, 0.25], [4.0, 12.0], [[0.5, 0.25], [0.25, 0.75]]),
        ([-3.0, 1.0], [96.0, 32.0], [[-3.0, 1.0], [0.75, 0.25]]),
    ):
        shrunk = traced(torch.tensor(first), torch.tensor(second))
        assert [vector.tolist() for vector in shrunk] == expected
