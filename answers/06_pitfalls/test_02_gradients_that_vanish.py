"""Gradients that vanish: small trainings that learn nothing, the line to blame, and the innocent.

Documents: A 3.1, B 2, B 3
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    claims=["B-2-30"],
    see="torch.optim.SGD",
    hint=[
        "Walk back from the loss. At which tensor does the way end?",
        "Weight decay is a part of the step. For which parameters does an optimizer do a step?",
    ],
    why="The way back ends at the detached tensor, so nothing before it gets a gradient, and an "
    "optimizer skips what has none: no step, no weight decay, no complaint. The head learns, so "
    "the loss may even fall.",
    wrong={
        "['body.weight', 'body.bias', 'head.weight', 'head.bias']": "Weight decay would pull "
        "them all, yes. But the optimizer asks for a gradient first.",
        "[]": "There is no error, and no standstill either: what comes after the cut does learn.",
        "['body.weight', 'head.weight', 'head.bias']": "PyTorch's weight decay makes no difference "
        "between a weight and a bias. And it comes with the step.",
        "['body.weight', 'body.bias']": "Which side of detach() is near the loss?",
    },
)
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
    assert moved == answer(["head.weight", "head.bias"])


@koan(
    see="torch.Tensor.item",
    hint=[
        "For the exception: what is the type of `total`? Has it a method backward?",
        "For w.grad: torch.tensor(...) only sees a number. Where should a gradient go from there?",
    ],
    why="item() gives a Python number, which has no backward and no history. To wrap it again ends "
    "the error and nothing else: the new tensor is a leaf, and the way to w is gone. Sum the "
    "losses themselves for backward, and the items for the log.",
    wrong={
        ("RuntimeError", "None"): "That is what a tensor without a history would raise. Is total a "
        "tensor?",
        ("TypeError", "None"): "Nothing of a wrong type was passed. Something is missing.",
        ("AttributeError", "torch.tensor([6.0, 6.0])"): "Some wrap the number with "
        "requires_grad=True and think that it is repaired. The number does not know w.",
        ("AttributeError", "torch.zeros(2)"): "Zeros would have to be written there by somebody. "
        "Who has been at w.grad so far?",
    },
    at={
        "caught.type is": (
            "This line asks for the exception only. What is the type of `total`, and has it a "
            "method backward?"
        ),
        "assert w.grad is": (
            "The exception is right. The second backward begins at a new tensor: does any way "
            "lead from there to w?"
        ),
    },
)
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
    assert caught.type is answer(AttributeError)
    torch.tensor(total, requires_grad=True).backward()
    assert w.grad is answer(None)


@koan(
    see="torch.Tensor.requires_grad",
    hint=[
        "A gradient passes through operations between tensors of floats.",
        "Ask of each way: does it see the tensor, or only its numbers? Can true and false slope?",
        "Draw the graph of round(x). How steep is a stair?",
    ],
    why="tolist(), .data and an array only hand over numbers, and a comparison gives bools, which "
    "no gradient can pass. round() keeps its place in the graph, and its slope is 0: training "
    "fails all the same, without an error. Stacking does no harm, nor does a Python number as a "
    "factor or a summand.",
    wrong={
        ("['copied', 'data', 'array', 'compared', 'rounded']", "[]"): "One of these five is still "
        "connected to w. It does not raise when you go backward.",
        ("['stacked', 'copied', 'data', 'array', 'compared']", "['rounded']"): "To stack pieces of "
        "a tensor is an operation like any other.",
        ("['scaled', 'copied', 'data', 'array', 'compared']", "['rounded']"): "A Python "
        "number does not stop the gradient: it is a constant, and a product with it slopes.",
        ("['copied', 'array', 'compared']", "['rounded']"): "One more shares w's memory, but knows "
        "nothing of its history.",
        ("['copied', 'data', 'array']", "['compared', 'rounded']"): "A stair with one step looks "
        "like that. But a comparison gives no floats.",
    },
    at={
        "not slope.any()": (
            "The first list is right. Of those that are left, draw each one as a curve over w: "
            "where is it flat?"
        ),
    },
)
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
    assert cut == answer(["copied", "data", "array", "compared"])
    alive = {name: result.sum() for name, result in results.items() if name not in cut}
    slopes = {name: torch.autograd.grad(total, w)[0] for name, total in alive.items()}
    assert [name for name, slope in slopes.items() if not slope.any()] == answer(["rounded"])


@koan(
    claims=["B-2-20"],
    see="torch.Tensor.detach",
    hint=[
        "detach() returns another tensor. What becomes of the one it was called on?",
        "On the CPU, whose memory does the array show? And what did exp keep for backward?",
    ],
    why="To detach, move and convert for a log takes nothing out of the graph. The danger is the "
    "shared memory: the percent were written into the result that exp kept, uncounted, so backward "
    "used 100. Log a copy, or do not write into it.",
    wrong={
        "[1.0, 0.0, 0.0]": "Such a line does not take the prediction out of the graph. It makes "
        "another tensor, and the prediction is what it was.",
        "[1.0, 1.0, 1.0]": "The log itself is harmless, right. But detach() and numpy() copy "
        "nothing on the CPU.",
        "[1.0, 0.0, 100.0]": "The first two differ in nothing that backward could see.",
        "[1.0, 1.0, 0.0]": "What was written was not a zero.",
    },
)
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
    assert slopes == answer([1.0, 1.0, 100.0])


@koan(
    claims=["A-3.1-17"],
    see="torch.Tensor.clamp_",
    hint=[
        "backward adds to what is in w.grad already.",
        "Go through the rounds on paper. The clamp comes after the look, and before the next sum.",
    ],
    why="Without clearing the gradients pile up: 3, 6, 9. clamp_ limits the pile to 1, and 3 comes "
    "on top again: 3, 4, 4. Writing into a gradient in place harms nothing. What was missing is "
    "the clearing.",
    wrong={
        "[3.0, 9.0, 3.0]": "Some say that gradients explode because of clamp_, an in-place write. "
        "Look at the loop that has no clamp_ at all.",
        "[9.0, 1.0, 3.0]": "It was 1 when the round began. What has backward done since?",
        "[9.0, 1.0, 0.0]": "That is what each loop leaves behind. The look comes before that.",
        "[9.0, 3.0, 3.0]": "To limit is not to clear. What is left over is still there.",
        "[3.0, 3.0, 3.0]": "That would be so if backward replaced the old gradient.",
        "[9.0, 6.0, 3.0]": "The first round leaves less than it found.",
    },
)
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
    assert last == answer([9.0, 4.0, 3.0])


@koan(
    claims=["B-3-22"],
    see="torch.no_grad",
    hint=[
        "What does the gradient of a weight need: the numbers of the input, or its history?",
        "Which operations were not noted down, and to whom would they have led?",
        "What is a tensor without a history whose flag is on? See torch.Tensor.is_leaf.",
    ],
    why="A weight's gradient needs the input's numbers, and they are there. What no_grad left out "
    "is the way to the raw data, which nobody trains: so normalising is harmless there. The flag "
    "makes x a leaf, a new beginning, and brings no history back.",
    wrong={
        "['x']": "Some say that the input loses its gradient in the block, and so the training "
        "fails. The layer runs after the block, and is recorded.",
        "['raw', 'x', 'weight', 'bias']": "raw wants a gradient. But the steps from raw to x were "
        "not noted down, and the flag came too late for them.",
        "['weight', 'bias']": "So it would be without the line about the flag.",
        "['raw', 'weight', 'bias']": "Can a gradient reach raw, and not what lies between?",
        "['x', 'bias']": "The weight is multiplied by x. Its gradient is made of x, history or "
        "not.",
    },
)
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
    assert reached == answer(["x", "weight", "bias"])


@koan(
    claims=["B-3-23"],
    see="torch.inference_mode",
    hint=[
        "What does the block keep PyTorch from doing, and for which of the tensors is that bad?",
        "Print x.requires_grad after each line, and x.is_inference() if you tried another block.",
    ],
    why="Only what is not learned may stand in the block, and `scale` is learned. inference_mode "
    "is no cure but the stricter block: what is made in it may not even be saved for backward, "
    "unless you clone it outside.",
    wrong={
        "with torch.inference_mode():\n    x = (x - x.mean(dim=0)) / x.std(dim=0)\n"
        "    x = x * scale\nreturn layer(x)": "Some recommend this mode as the cure. Now nobody "
        "learns: the layer needs x for backward, and may not keep it.",
        "with torch.inference_mode():\n    x = (x - x.mean(dim=0)) / x.std(dim=0)\n"
        "x = x * scale\nreturn layer(x)": "The product is outside. But it has to keep x for "
        "backward, and x comes from a mode that forbids it.",
        "with torch.no_grad():\n    x = (x - x.mean(dim=0)) / x.std(dim=0)\n"
        "    x = x * scale\nreturn layer(x.requires_grad_())": "x is now a leaf, and gets a "
        "gradient that nobody reads. The way to scale is as lost as before.",
        "with torch.no_grad():\n    x = (x - x.mean(dim=0)) / x.std(dim=0)\n"
        "    x = x * scale\nwith torch.enable_grad():\n    return layer(x)": "Here recording was "
        "on already. The product is what was not recorded.",
        "x = (x - x.mean(dim=0)) / x.std(dim=0)\nx = x * scale.detach()\nreturn layer(x)": "No "
        "block any more, and yet cut off.",
    },
    right=[
        "x = (x - x.mean(dim=0)) / x.std(dim=0)\nreturn layer(x * scale)",
        "with torch.no_grad():\n    x = (x - x.mean(dim=0)) / x.std(dim=0)\n"
        "    with torch.enable_grad():\n        x = x * scale\nreturn layer(x)",
        "with torch.inference_mode():\n    x = (x - x.mean(dim=0)) / x.std(dim=0)\n"
        "return layer(x.clone() * scale)",
    ],
    at={
        "slopes = torch.autograd.grad": (
            "`forward` has ended. This line walks back from its result to scale, weight and bias, "
            "and the message says what is missing."
        ),
        "assert mine is not None": (
            "One of scale, weight and bias gets no gradient at all. Is it used, and was the step "
            "that uses it recorded?"
        ),
        "mine.flatten().tolist()": (
            "Each gradient is there, but its numbers are not right. Are the data still "
            "normalised, scaled and given to the layer?"
        ),
    },
)
def test_a_scale_that_is_never_learned():
    """`scale` should be trained together with the layer, and it never moves. Repair `forward`."""
    layer, scale = nn.Linear(2, 1), nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(x):
        # answer:
        with torch.no_grad():
            x = (x - x.mean(dim=0)) / x.std(dim=0)
        return layer(x * scale)
        # given:
        # with torch.no_grad():
        #     x = (x - x.mean(dim=0)) / x.std(dim=0)
        #     x = x * scale
        # return layer(x)
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


@koan(
    claims=["B-2-29"],
    see="torch.Tensor.requires_grad_",
    hint=[
        "The flag belongs to leaves. A feature map is the result of an operation.",
        "Say before the body runs that it is not to be recorded, or take its result and cut it.",
        "The body's own parameters must keep their flags.",
    ],
    why="The flag of a result cannot be switched off: it says that a history is there. And .data "
    "is another tensor, made for that line alone. Either record none (no_grad around the body, "
    "which also keeps nothing in memory) or leave it (detach). The parameters stay trainable for "
    "another day.",
    wrong={
        "h = body(x)\nh.requires_grad = False": "Some say that this saves memory, and cuts the "
        "gradient silently. It is refused aloud.",
        "h = body(x).requires_grad_(False)": "Another spelling, and refused aloud like the first.",
        "h = body(x)\nh.detach()": "detach() returns a tensor that is cut off. h itself is not.",
        "body.requires_grad_(False)\nh = body(x)": "It works here. But the body is frozen from now "
        "on, for every other loss too.",
        "with torch.inference_mode():\n    h = body(x)": "Nothing is recorded. But the head must "
        "keep h for its own weight, and may not.",
        "h = body(x).clone()": "A copy has its history, too.",
    },
    right=[
        "h = body(x).detach()",
        "h = body(x)\nh = h.detach()",
        "h = body(x).detach_()",
    ],
    at={
        "return head(h).sum()": (
            "Here the head gets h, and keeps it for its own gradient. The message says what is "
            "wrong with that."
        ),
        "p.grad is not None": (
            "These parameters of the body got a gradient from the head's loss. Some way from h "
            "back to them is still there."
        ),
        "head.weight.grad[0].tolist()": (
            "The body gets nothing from this loss, as it should. But the head's gradient is not "
            "the one that the body's features give."
        ),
        "body(x).sum().backward()": (
            "The head learns alone. But now the body is trained elsewhere, and that fails: it is "
            "not as it was before."
        ),
    },
)
def test_feature_maps_without_a_history():
    """To save memory, somebody switches off the flag of the features. Nobody complains, and the
    body gets gradients all the same.

    Repair the marked lines: this loss trains the head alone. The body is left as it is, and may be
    trained elsewhere.
    """

    def loss_of(body, head, x):
        # answer:
        with torch.no_grad():
            h = body(x)
        # given:
        # h = body(x)
        # h.data.requires_grad = False
        # end
        return head(h).sum()

    for x in (torch.ones(1, 2), torch.tensor([[1.0, 2.0], [3.0, 5.0]])):
        body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        loss_of(body, head, x).backward()
        assert [name for name, p in body.named_parameters() if p.grad is not None] == []
        assert head.weight.grad[0].tolist() == pytest.approx(body(x).sum(dim=0).tolist())
        body(x).sum().backward()
        assert body.bias.grad.tolist() == [len(x), len(x)]


@koan(
    see="torch.nn.functional.cross_entropy",
    hint=[
        "Mistakes are counted. Move one score by a hair: does the count change?",
        "The loss must be made from the scores, by operations that slope.",
        "There is a loss for classes. Its page says whether it wants scores or probabilities.",
    ],
    why="A guess is a place, and a count of mistakes is a stair: neither has a slope. "
    "requires_grad_() silenced the error by making the result a leaf, with no way to the model. "
    "Learn with a loss that slopes, and only report the mistakes.",
    wrong={
        "return nn.functional.nll_loss(scores, labels)": (
            "It expects logarithms of probabilities. With bare scores it falls without end, far "
            "below 0."
        ),
        "return -scores.gather(1, labels[:, None]).mean()": (
            "It raises the score of each label, and never stops: there is no best value for it "
            "to reach."
        ),
        "return (scores.argmax(dim=1) - labels).float().square().mean().requires_grad_()": "A "
        "square has a slope. But argmax stands before it, and lets nothing through.",
        "return (scores.softmax(dim=1).argmax(dim=1) != labels).float().mean().requires_grad_()": (
            "softmax slopes. What is done with it does not."
        ),
        "return (scores.argmax(dim=1) != labels).float().mean()": "Now backward complains. That is "
        "more honest, but nothing is learned.",
        "return nn.functional.cross_entropy(scores.softmax(dim=1), labels)": "The right loss. But "
        "it makes the probabilities itself. Twice softmax is too flat: the loss stays high.",
        "return scores.mean()": "It slopes, and it falls without end. But it has never seen a "
        "label.",
        "return -scores.max(dim=1).values.mean()": "A gradient arrives. But the labels are not in "
        "this loss: it makes the model sure, not right.",
    },
    right=[
        "return -scores.log_softmax(dim=1)[torch.arange(len(labels)), labels].mean()",
        "return nn.CrossEntropyLoss()(scores, labels)",
        "wanted = nn.functional.one_hot(labels, 3).float()\n"
        "return nn.functional.mse_loss(scores, wanted)",
    ],
    at={
        "loss.backward()": (
            "backward cannot start from this loss. Is it a tensor with one number, and does a way "
            "lead from it back to the scores?"
        ),
        "model(points).argmax(dim=1)": (
            "Sixty steps, and the labels are not learned. If the score of the right class grows a "
            "little, does your loss fall?"
        ),
        "loss.item() < 0.5": (
            "Each point gets its label. But the loss is not between 0 and 0.5. Print it: where "
            "does it go, the better the scores become?"
        ),
    },
)
def test_a_loss_that_does_not_fall():
    """Few mistakes are wanted, so the mistakes are the loss. It runs, and does not fall.

    Repair it: after the training, each point must get its label, and the loss lie from 0 to 0.5.
    """

    def loss_of(scores, labels):
        # answer:
        return nn.functional.cross_entropy(scores, labels)
        # given:
        # guesses = scores.argmax(dim=1)
        # mistakes = (guesses != labels).float()
        # return mistakes.mean().requires_grad_()
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


@koan(
    see="torch.nn.Parameter",
    hint=[
        "Compare the layer's weight with the tensor that the optimizer holds. Are they one?",
        "The numbers should change, and the Parameter should stay the same object.",
        "Autograd refuses to record a write into a leaf. Should it record this one?",
    ],
    why="A new Parameter is a new object: the optimizer goes on with the old one, and nobody "
    "complains. Change the numbers in place, under no_grad, since this is no part of the "
    "computation of a loss.",
    wrong={
        "layer.weight = nn.Parameter(layer.weight.detach().clamp(min=0))": "The detach makes it "
        "no better: the optimizer does not know this object.",
        "layer.weight.clamp_(min=0)": "In place is a good idea. But recording is on, and a leaf "
        "that wants a gradient may not be written then.",
        "with torch.no_grad():\n    layer.weight.clamp(min=0)": "Without the underscore the result "
        "is another tensor, and it is dropped.",
        "layer.weight.data.clamp(min=0)": "Without the underscore nothing is written.",
        "layer.weight.grad.clamp_(min=0)": "That limits the gradient, and the step is over.",
        "layer.weight = nn.Parameter(layer.weight.clamp(min=0))\n"
        "torch.optim.SGD(layer.parameters(), lr=0.5)": "A new optimizer would know the new weight. "
        "But the loop goes on with the old one.",
    },
    right=[
        "layer.weight.data.clamp_(min=0)",
        "layer.weight.data = layer.weight.data.clamp(min=0)",
        "layer.weight.detach().clamp_(min=0)",
        "with torch.no_grad():\n    layer.weight.copy_(layer.weight.clamp(min=0))",
    ],
    at={
        "layer(torch.tensor(slopes)).backward()": (
            "In this round the layer cannot go backward any more. What has `limit` made of its "
            "weight?"
        ),
        "layer.weight.tolist() ==": (
            "Is the weight still the tensor that the optimizer holds? And did `limit` make 0 of "
            "what was below zero, and leave the rest alone?"
        ),
    },
)
def test_a_weight_that_may_not_go_below_zero():
    """After each step, what is below zero should become zero. After the first step the weight never
    moves again. Repair `limit`."""

    def limit(layer):
        # answer:
        with torch.no_grad():
            layer.weight.clamp_(min=0)
        # given:
        # layer.weight = nn.Parameter(layer.weight.clamp(min=0))
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


@koan(
    claims=["B-3-28"],
    see="torch.autograd.backward",
    hint=[
        "Each round has a graph of the critic of its own. Which part is the same in all rounds?",
        "Does the critic's lesson have to go back into the maker?",
        "But the maker still needs its own way, for its turn afterwards.",
    ],
    why="Each round runs the critic anew, so no graph of it is used twice. Only the maker's was, "
    "and the critic's lesson has no business there: give it fake.detach(). retain_graph hides the "
    "error, and adds three foreign gradients to the maker's.",
    wrong={
        "for _ in range(3):\n    optimizer.zero_grad()\n"
        "    critic(fake).mean().backward(retain_graph=True)\n    optimizer.step()": "Some say "
        "that "
        "several updates of the critic require this. The error is gone. Look at what the maker "
        "has collected by the time of its turn.",
        "for _ in range(3):\n    optimizer.zero_grad()\n    fake = maker(noise)\n"
        "    critic(fake).mean().backward()\n    optimizer.step()\nfake = maker(noise)": "A graph "
        "for each round, and no error. But each round still goes back into the maker.",
        "fake = fake.detach()\nfor _ in range(3):\n    optimizer.zero_grad()\n"
        "    critic(fake).mean().backward()\n    optimizer.step()": "Good for the critic. But the "
        "maker's turn comes after it, and needs the way that was cut.",
        "for _ in range(3):\n    optimizer.zero_grad()\n    with torch.no_grad():\n"
        "        score = critic(fake).mean()\n    score.backward()\n    optimizer.step()": "Now "
        "the "
        "critic is not recorded either, and cannot learn.",
        "for _ in range(3):\n    optimizer.zero_grad()\n    fake.detach()\n"
        "    critic(fake).mean().backward()\n    optimizer.step()": "The detached tensor was made, "
        "and not used.",
        "optimizer.zero_grad()\nscore = critic(fake.detach()).mean()\nfor _ in range(3):\n"
        "    score.backward(retain_graph=True)\n    optimizer.step()": "The critic steps three "
        "times, with a score from before, and with gradients that pile up.",
    },
    right=[
        "still = fake.detach()\nfor _ in range(3):\n    optimizer.zero_grad()\n"
        "    critic(still).mean().backward()\n    optimizer.step()",
        "for _ in range(3):\n    optimizer.zero_grad()\n    with torch.no_grad():\n"
        "        made = maker(noise)\n    critic(made).mean().backward()\n    optimizer.step()",
        "for _ in range(3):\n    optimizer.zero_grad()\n"
        "    critic(fake).mean().backward(inputs=list(critic.parameters()))\n    optimizer.step()",
    ],
    at={
        "(-critic(fake)).mean().backward()": (
            "The critic's rounds are over. The maker's turn fails: it needs the way from `fake` "
            "back to the maker, neither cut nor used up."
        ),
        "critic.weight.item() == 1": (
            "The critic is not where three steps should bring it. Each of its rounds needs a new "
            "score, a new gradient and a step."
        ),
        "maker.weight.grad.item()": (
            "The critic is right. But the maker's gradient is not the one of its own turn: "
            "something was added, or is missing."
        ),
        "len(walks) == 1": (
            "All numbers are right. But backward came to the maker more than once: the critic's "
            "rounds have no business there."
        ),
    },
)
def test_a_critic_that_learns_three_times():
    """The critic is trained three times on the same fake, then it is the maker's turn. The second
    round fails. Repair the marked lines: the maker learns from its own turn alone."""

    def turns(maker, critic, optimizer, noise):
        fake = maker(noise)
        # answer:
        for _ in range(3):
            optimizer.zero_grad()
            critic(fake.detach()).mean().backward()
            optimizer.step()
        # given:
        # for _ in range(3):
        #     optimizer.zero_grad()
        #     critic(fake).mean().backward()
        #     optimizer.step()
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


@koan(
    claims=["B-2-30"],
    see="torch.nn.Module.named_parameters",
    hint=[
        "A gradient tells little: it may be None or zero, or the optimizer may not know the "
        "parameter.",
        "Look at the numbers before the step and after it.",
        "If you keep something from before: the step itself must not change it.",
    ],
    why="Whatever the cause is, a cut, a flat place, a forgotten parameter: what does not move is "
    "asleep. Copies from before the step tell it. One such check at the start of a project saves "
    "days.",
    wrong={
        "step()\nreturn [name for name, p in model.named_parameters() if p.grad is None]": "That "
        "finds the cut. A gradient of zeros, or an optimizer that does not know the parameter, "
        "looks healthy.",
        "step()\nreturn [n for n, p in model.named_parameters() "
        "if p.grad is None or not p.grad.any()]": "Cuts and flat places are found. But a good "
        "gradient is of no use if nobody steps.",
        "before = dict(model.named_parameters())\nstep()\n"
        "return [n for n, p in model.named_parameters() if torch.equal(p, before[n])]": "A dict of "
        "the same tensors. Each is compared with itself.",
        "before = {n: p.detach() for n, p in model.named_parameters()}\nstep()\n"
        "return [n for n, p in model.named_parameters() if torch.equal(p, before[n])]": "detach() "
        "leaves the graph, not the memory.",
        "before = model.state_dict()\nstep()\n"
        "return [n for n, p in model.named_parameters() if torch.equal(p, before[n])]": "A "
        "state_dict holds the living tensors. They move along.",
        "before = {n: p._version for n, p in model.named_parameters()}\nstep()\n"
        "return [n for n, p in model.named_parameters() if p._version == before[n]]": "A write "
        "that "
        "adds zero is counted too. Was anything moved by it?",
    },
    right=[
        "import copy\nbefore = copy.deepcopy(model)\nstep()\n"
        "pairs = zip(before.parameters(), model.named_parameters())\n"
        "return [name for old, (name, new) in pairs if torch.equal(old, new)]",
        "before = {n: p.tolist() for n, p in model.named_parameters()}\nstep()\n"
        "return [n for n, p in model.named_parameters() if p.tolist() == before[n]]",
    ],
    at={
        "== expected": (
            "This list should name those that the step did not move. Print both lists: who is "
            "missing, and who is too many?"
        ),
    },
)
def test_find_who_sleeps():
    """Write `asleep`: run one training step, and return the names of the parameters that it did
    not move, in the order of named_parameters. Four trainings are waiting; one is healthy."""

    def asleep(model, step):
        # answer:
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        step()
        return [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
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
