"""Gradients that vanish: small trainings that learn nothing, the line to blame, and the innocent."""

import pytest
import torch
from torch import nn

from sensei import __


def test_a_body_that_stands_still():
    """Three steps of training, with weight decay. Nobody complains.

    Which parameters have moved? List their names, as named_parameters gives them.
    """
    model = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 1)})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        features = model["body"](torch.ones(4, 2))
        loss = (model["head"](features.detach()) - 7).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    moved = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert moved == __


def test_a_total_of_items():
    """To save memory, a loop sums loss.item(). Then it wants the gradient of the total.

    Which exception does the first backward raise? And what is in w.grad after the second?
    """
    w = torch.ones(2, requires_grad=True)
    total = 0.0
    for x in (1.0, 2.0, 3.0):
        loss = (w * x).sum()
        total += loss.item()
    with pytest.raises(Exception) as caught:
        total.backward()
    assert caught.type is __
    torch.tensor(total, requires_grad=True).backward()
    assert w.grad is __


def test_seven_results_of_one_weight():
    """Seven results are made from w. From which is there no way back to w?

    And from which is there a way, on which only zeros arrive? Answer in the order of the code.
    """
    w = torch.tensor([0.4, 1.4], requires_grad=True)
    results = {"stacked": torch.stack([w[0], w[1]]), "scaled": 2.5 * w - 1}
    results |= {"copied": torch.tensor(w.tolist()), "data": w.data * 2}
    results |= {"array": torch.from_numpy(w.detach().numpy()), "compared": (w > 1).float()}
    results |= {"rounded": w.round()}
    cut = [name for name, result in results.items() if not result.requires_grad]
    assert cut == __
    alive = {name: result.sum() for name, result in results.items() if name not in cut}
    slopes = {name: torch.autograd.grad(total, w)[0] for name, total in alive.items()}
    assert [name for name, slope in slopes.items() if not slope.any()] == __


def test_what_the_log_did():
    """One backward without a log, one with it, one with a log in percent. exp(0) is 1.

    Predict w's gradient for each.
    """

    def in_percent(prediction):
        array = prediction.detach().cpu().numpy()
        array *= 100

    slopes = []
    for log in (lambda p: None, lambda p: p.detach().cpu().numpy(), in_percent):
        w = torch.tensor([0.0], requires_grad=True)
        prediction = w.exp()
        log(prediction)
        prediction.sum().backward()
        slopes.append(w.grad.item())
    assert slopes == __


def test_who_makes_the_gradient_grow():
    """Three loops of three rounds. The slope is 3 each time, and somebody sees it grow.

    Predict what is seen in the last round: with nothing in between, with clamp_, with zero_.
    """
    nothing, clamp_, zero_ = (lambda g: g), (lambda g: g.clamp_(-1, 1)), (lambda g: g.zero_())
    last = []
    for between in (nothing, clamp_, zero_):
        w = torch.tensor(2.0, requires_grad=True)
        for _ in range(3):
            (3 * w).backward()
            seen = w.grad.item()
            between(w.grad)
        last.append(seen)
    assert last == __


def test_normalised_in_a_quiet_block():
    """The data are normalised under no_grad. Then somebody puts the flag of x on again, and a layer
    is trained.

    Which of the four tensors get a gradient? List their names, in order.
    """
    layer = nn.Linear(2, 1)
    raw = torch.tensor([[1.0, 4.0], [3.0, 9.0]], requires_grad=True)
    with torch.no_grad():
        x = (raw - raw.mean(dim=0)) / raw.std(dim=0)
    x.requires_grad_()
    layer(x).sum().backward()
    tensors = {"raw": raw, "x": x, "weight": layer.weight, "bias": layer.bias}
    reached = [name for name, t in tensors.items() if t.grad is not None]
    assert reached == __


def test_a_scale_that_is_never_learned():
    """`scale` should be trained together with the layer, and it never moves. Repair `forward`."""
    layer, scale = nn.Linear(2, 1), nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(x):
        # your turn:
        with torch.no_grad():
            x = (x - x.mean(dim=0)) / x.std(dim=0)
            x = x * scale
        return layer(x)
        # end

    learned = [scale, *layer.parameters()]
    normal = torch.tensor([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    for stretch, shift in ((1.0, 0.0), (4.0, 3.0)):
        out = forward(normal * stretch + shift)
        slopes = torch.autograd.grad(out.square().sum(), learned, allow_unused=True)
        expected = torch.autograd.grad(layer(normal * scale).square().sum(), learned)
        for mine, theirs in zip(slopes, expected, strict=True):
            assert mine is not None
            assert mine.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), abs=1e-4)


def test_feature_maps_without_a_history():
    """To save memory, somebody switches off the flag of the features. Nobody complains, and the
    body gets gradients all the same.

    Repair the marked lines: this loss trains the head alone. The body is left as it is, and may be
    trained elsewhere.
    """

    def loss_of(body, head, x):
        # your turn:
        h = body(x)
        h.data.requires_grad = False
        # end
        return head(h).sum()

    for x in (torch.ones(1, 2), torch.tensor([[1.0, 2.0], [3.0, 5.0]])):
        body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        loss_of(body, head, x).backward()
        assert [name for name, p in body.named_parameters() if p.grad is not None] == []
        assert head.weight.grad[0].tolist() == pytest.approx(body(x).sum(dim=0).tolist())
        body(x).sum().backward()
        assert body.bias.grad.tolist() == [len(x), len(x)]


def test_a_loss_that_does_not_fall():
    """Few mistakes are wanted, so the mistakes are the loss. It runs, and does not fall.

    Repair it: after the training, each point must get its label, and the loss lie from 0 to 0.5.
    """

    def loss_of(scores, labels):
        # your turn:
        guesses = scores.argmax(dim=1)
        mistakes = (guesses != labels).float()
        return mistakes.mean().requires_grad_()
        # end

    points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    for labels in (torch.tensor([0, 1, 2]), torch.tensor([2, 0, 1])):
        model = nn.Linear(2, 3)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(60):
            optimizer.zero_grad()
            loss = loss_of(model(points), labels)
            loss.backward()
            optimizer.step()
        assert model(points).argmax(dim=1).tolist() == labels.tolist()
        assert 0 <= loss.item() < 0.5


def test_a_weight_that_may_not_go_below_zero():
    """After each step, what is below zero should become zero. After the first step the weight never
    moves again. Repair `limit`."""

    def limit(layer):
        # your turn:
        layer.weight = nn.Parameter(layer.weight.clamp(min=0))
        # end

    for slopes, expected in (([1.0, -1.0], [0.0, 2.5]), ([-0.5, 3.0], [1.75, 0.0])):
        layer = nn.Linear(2, 1, bias=False)
        nn.init.ones_(layer.weight)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.tensor(slopes)).backward()
            optimizer.step()
            limit(layer)
        assert layer.weight.tolist() == [expected]


def test_a_critic_that_learns_three_times():
    """The critic is trained three times on the same fake, then it is the maker's turn. The second
    round fails. Repair the marked lines: the maker learns from its own turn alone."""

    def turns(maker, critic, optimizer, noise):
        fake = maker(noise)
        # your turn:
        for _ in range(3):
            optimizer.zero_grad()
            critic(fake).mean().backward()
            optimizer.step()
        # end
        (-critic(fake)).mean().backward()

    for made, noise in ((2.0, [[1.0], [3.0]]), (-1.0, [[2.0]])):
        maker, critic = (nn.Linear(1, 1, bias=False) for _ in range(2))
        nn.init.constant_(maker.weight, made)
        nn.init.ones_(critic.weight)
        walks = []
        maker.weight.register_hook(walks.append)
        turns(maker, critic, torch.optim.SGD(critic.parameters(), lr=0.5), torch.tensor(noise))
        mean = torch.tensor(noise).mean().item()
        assert critic.weight.item() == 1 - 3 * 0.5 * made * mean
        assert maker.weight.grad.item() == -critic.weight.item() * mean
        assert len(walks) == 1


def test_find_who_sleeps():
    """Write `asleep`: run one training step, and return the names of the parameters that it did
    not move, in the order of named_parameters. Four trainings are waiting; one is healthy."""

    def asleep(model, step):
        # your turn:
        __
        # end

    class Training:
        def __init__(self, between, known):
            self.model = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 1)})
            parameters = [p for n, p in self.model.named_parameters() if n.startswith(known)]
            self.between, self.optimizer = between, torch.optim.SGD(parameters, lr=0.5)

        def step(self):
            h = self.between(self.model["body"](torch.ones(3, 2)))
            self.model["head"](h).sum().backward()
            self.optimizer.step()

    body, head = (["body.weight", "body.bias"], ["head.weight", "head.bias"])
    for between, known, expected in [
        (lambda h: h, "", []),
        (lambda h: h.detach(), "", body),
        (lambda h: h * 0 + 1, "", body),
        (lambda h: h, "body", head),
    ]:
        training = Training(between, known)
        assert asleep(training.model, training.step) == expected
