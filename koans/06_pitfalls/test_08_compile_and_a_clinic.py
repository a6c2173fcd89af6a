"""Compiled code that is not faster, and a clinic for trainings that do not learn."""

import pytest
import torch
from torch import nn

from sensei import __


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
    assert [name for name in pieces if len(pieces[name]) > 1] == __


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
    assert [len(pieces), len(whole), issubclass(caught.type, RuntimeError)] == __


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
    assert results == __
    assert len(graphs) == __


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
    assert [len(losses), len(graphs)] == __


def test_a_decision_without_an_if():
    """A vector longer than 1 is brought to length 1. Repair the function: one graph for all
    vectors, and the same results."""

    def shorten(x):
        # your turn:
        if x.norm() > 1:
            return x / x.norm()
        return x
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


def test_count_without_a_new_program():
    """This layer divides by the number of its calls, and is compiled anew at each of them.

    Repair it: the results stay, and one graph serves all calls.
    """

    class Fading(nn.Module):
        # your turn:
        def __init__(self):
            super().__init__()
            self.steps = []

        def forward(self, x):
            self.steps.append(1)
            return x / len(self.steps)

        # end

    compiled, graphs = counted(Fading(), fullgraph=True)
    results = [compiled(torch.full((2,), x)).tolist() for x in (1.0, 1.0, 6.0, 8.0)]
    assert results == [[1.0, 1.0], [0.5, 0.5], [2.0, 2.0], [2.0, 2.0]]
    assert len(graphs) == 1
    eager = Fading()
    assert [eager(torch.tensor(6.0)).item() for _ in range(3)] == [6.0, 3.0, 2.0]
    torch.compiler.reset()


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
    assert round(loss.item(), 3) == __


def test_first_patient_the_loss_stays_high():
    """Two parts, two optimizers, and a loss that hardly falls. Find the fault and repair it.

    The loss must get below 2 for both sets of targets.
    """

    def fit(x, y):
        F = nn.functional
        body, head = nn.Sequential(nn.Linear(1, 8), nn.Tanh()), nn.Linear(8, 1)
        optimizers = [torch.optim.Adam(part.parameters(), lr=0.1) for part in (head, body)]
        # your turn:
        for _ in range(200):
            for optimizer in optimizers:
                optimizer.zero_grad()
            F.mse_loss(head(body(x)), y).backward()
            for _ in optimizers:
                optimizer.step()
        # end
        return nn.Sequential(body, head)

    x = torch.linspace(-1, 1, 32)[:, None]
    for y in (5 * x + 20, x.sin() - 20):
        assert nn.functional.mse_loss(fit(x, y)(x), y) < 2


def test_second_patient_the_weight_trembles():
    """The weight walks to its target, and then trembles around it. Find the fault and repair it.

    Keep Adam, its rate, and the number of turns.
    """

    def fit(weight, target, rate, turns=range(400)):
        # your turn:
        for _ in turns:
            optimizer = torch.optim.Adam([weight], lr=rate)
            optimizer.zero_grad()
            (weight - target).square().backward()
            optimizer.step()
        # end
        return optimizer

    for target, rate in ((8.0537, 0.1), (-6.1234, 0.2)):
        weight = nn.Parameter(torch.zeros(()))
        optimizer = fit(weight, target, rate)
        assert isinstance(optimizer, torch.optim.Adam)
        assert abs(weight.item() - target) < 2e-3


def test_last_patient_one_fault_hides_another():
    """This training ends where a blind model would. Find what is wrong, all of it, and repair it.

    In the end the model explains nine tenths of the variance.
    """

    def fit(x, y):
        model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        # your turn:
        for _ in range(40):
            x = x[torch.randperm(len(x))]
            for xs, ys in zip(x.split(16), y.split(16)):
                optimizer.zero_grad()
                ((model(xs) - ys) ** 2).mean().backward()
                optimizer.step()
        # end
        return model

    x = torch.linspace(-1, 1, 64)[:, None]
    for y in ((3 * x[:, 0]).sin(), 5 * x[:, 0] - 7):
        rest = fit(x, y)(x).flatten() - y
        assert rest.square().mean() < 0.1 * y.var()
