"""Script and trace: one reads your code, the other watches it run once."""

import io
import re
import warnings

import pytest
import torch
from torch import nn

from sensei import __


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
    assert [f(x).item() for f in (step, scripted, traced)] == __


@pytest.mark.needs(python="<3.14")
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
    assert outcomes == __


@pytest.mark.needs(python="<3.14")
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
    assert results == __
    assert len(calls) == __


@pytest.mark.needs(python="<3.14")
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
    assert results == __


@pytest.mark.needs(python="<3.14")
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
    assert [m(torch.tensor(1.0)).item() for m in (model, scripted)] == __


@pytest.mark.needs(python="<3.14")
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
    assert caught.type is __


@pytest.mark.needs(torch=">=2.10", python="<3.14")
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
    assert advice == __


@pytest.mark.needs(python="<3.14")
def test_each_where_it_is_good():
    """script refuses `shrink_all`, for it takes any number of arguments. And a trace freezes loops.

    Write `shrink`, with a loop: halve x as long as its sum is greater than 1. The trace of
    `shrink_all` must be right for all inputs below.
    """

    # your turn:
    __
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
