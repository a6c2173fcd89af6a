"""Four lines: forward with a loss, backward, step, zero_grad, and what goes wrong around them.

Documents: A 2.1, A 3.5, A 4.5, B 3
"""

import os
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from sensei import answer, koan


class Trainer:
    """A trainer as one meets it in many projects. It was never run."""

    def __init__(self, model, lr):
        self.model, self.lr, self.losses = model, lr, []

    def train_step(self, batch):
        loss = self.model(batch).sum()
        self.losses.append(loss.item())
        loss.backward()
        self.optimizer.step()


def number(tensor):
    """The number in a tensor of one element; None stays None."""
    return None if tensor is None else tensor.item()


@pytest.mark.tour(30)
@koan(
    claims=["A-2.1-08"],
    see="torch.optim.Optimizer.step",
    hint=[
        "Each line has one task. Which of them writes a gradient, which writes a weight?",
        "The step is the learning rate times the gradient: half of the slope.",
        "A loss is a result. Does a result change when its inputs change later?",
    ],
    why=(
        "Forward makes a number, backward makes gradients, step moves the weights, zero_grad lets "
        "the gradients go. No line does the work of another. And the loss you hold after the step "
        "is the loss from before it: to see the new one, run forward again."
    ),
    wrong={
        "[[2.0, 1.0, None], [2.0, 0.0, 2.0], [2.0, 0.0, 2.0], [2.0, 0.0, None]]": (
            "Some say backward() trains the model. It finds slopes. Nothing has moved by then."
        ),
        "[[2.0, 1.0, None], [2.0, 1.0, 2.0], [2.0, 0.0, None], [2.0, 0.0, None]]": (
            "Some say step() uses a gradient up. It reads it, and leaves it where it is."
        ),
        "[[2.0, 1.0, None], [2.0, 1.0, 2.0], [0.0, 0.0, 2.0], [0.0, 0.0, None]]": (
            "The weight has moved, yes. But who computed the loss again?"
        ),
        "[[2.0, 1.0, 0.0], [2.0, 1.0, 2.0], [2.0, 0.0, 2.0], [2.0, 0.0, 0.0]]": (
            "A gradient that nobody has computed is not a number. Print it."
        ),
    },
)
def test_what_each_line_changes():
    """Four lines make a step. After each of them we look at loss, weight and gradient.

    Write down the four looks.
    """
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    looks = []
    loss = 2 * weight
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    loss.backward()
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    optimizer.step()
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    optimizer.zero_grad()
    looks.append([loss.item(), weight.item(), number(weight.grad)])
    assert looks == answer([[2.0, 1.0, None], [2.0, 1.0, 2.0], [2.0, 0.0, 2.0], [2.0, 0.0, None]])


@koan(
    claims=["A-2.1-10"],
    see="torch.optim.SGD",
    hint="`koans docs` shows this manual, offline. Look for the word Example.",
    why=(
        "The manual of each optimizer shows the order in its first example, and so does the front "
        "page of torch.optim. The manual that belongs to an object is in Python itself: help() "
        "shows it without a network."
    ),
    wrong={
        "[]": (
            "Some say that PyTorch hides the order on the third page of a chapter on common "
            "errors. Ask help(torch.optim.SGD), and read on to the example."
        ),
        "['.backward()', 'optimizer.step()', 'optimizer.zero_grad()']": (
            "This order trains as well. The example begins with another line."
        ),
        "['.backward()', 'optimizer.step()']": "Both are there, and they do not stand alone.",
        "['model.train()', 'optimizer.zero_grad()', '.backward()', 'optimizer.step()']": (
            "A mode is good practice, but the example gets by without one."
        ),
        "['optimizer.zero_grad()', '.backward()', 'optimizer.step()', 'scheduler.step()']": (
            "A scheduler has a manual of its own."
        ),
    },
)
def test_what_the_manual_says():
    """The manual of SGD has an example. Which of these five calls does it show, in which order?"""
    manual = torch.optim.SGD.__doc__
    calls = [".backward()", "model.train()", "optimizer.step()"]
    calls += ["optimizer.zero_grad()", "scheduler.step()"]
    shown = sorted((call for call in calls if call in manual), key=manual.index)
    assert shown == answer(["optimizer.zero_grad()", ".backward()", "optimizer.step()"])


@koan(
    claims=["A-3.5-13", "A-3.5-14"],
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "What is there to clear in the first round?",
        "The default treats every round alike. Which of the two ways is the default?",
        "Does set_to_none=False make zeros out of nothing, or does it wipe what is there?",
    ],
    why=(
        "By default every round ends in None: the gradient is let go, whatever it was. With "
        "set_to_none=False an existing gradient is wiped in place, and None stays None: nothing is "
        "made. The argument decides, not the gradient. Before 2.0 the default was to wipe."
    ),
    wrong={
        ("[None, 0.0, 0.0]", "[None, 0.0, 0.0]"): (
            "Some say the default is a mixture: None at first, and zeros once a gradient exists. "
            "Then the argument would change nothing. There is no such mixture."
        ),
        ("[None, None, None]", "[0.0, 0.0, 0.0]"): (
            "In the first round nobody has a gradient. False does not create one."
        ),
        ("[None, None, None]", "[None, None, None]"): "What else could set_to_none=False mean?",
        ("[0.0, 0.0, 0.0]", "[None, 0.0, 0.0]"): (
            "zero_grad was named for zeros. Since PyTorch 2.0 its default does something else."
        ),
    },
    at={
        "assert looks()": (
            "This is the default, three times. What does it leave where a gradient was?"
        ),
        "looks(set_to_none=False)": (
            "The default is right. The other way lets nothing go: what does it find in the first "
            "round, and what later?"
        ),
    },
)
def test_three_rounds_of_clearing():
    """Clear, look at the gradient, go backward; three times. Write the three looks, once for the
    default and once for set_to_none=False."""

    def looks(**how):
        weight = nn.Parameter(torch.ones(()))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        seen = []
        for _ in range(3):
            optimizer.zero_grad(**how)
            seen.append(number(weight.grad))
            (2 * weight).backward()
        return seen

    assert looks() == answer([None, None, None])
    assert looks(set_to_none=False) == answer([None, 0.0, 0.0])


@pytest.mark.tour(20)
@koan(
    claims=["A-3.5-12", "A-3.5-10", "A-2.1-11"],
    see="torch.nn.Module.zero_grad",
    hint=[
        "backward() reaches both. zero_grad() is a method of the optimizer. Whom does it know?",
        "What becomes of a gradient that is never cleared?",
    ],
    why=(
        "An optimizer clears what it holds, and no more. The body gets a gradient in every round, "
        "and nobody takes it away: it piles up, for the day when somebody trains the body too. "
        "model.zero_grad() clears all parameters of a module."
    ),
    wrong={
        "[2.0, 3.0]": (
            "Some say zero_grad() resets every gradient there is. It goes through the optimizer's "
            "own list."
        ),
        "[6.0, 9.0]": "One of the two is cleared before each backward.",
        "[None, 3.0]": (
            "That the optimizer does not hold it does not keep backward from reaching it."
        ),
        "[2.0, 9.0]": "The other way round: which of the two was the optimizer given?",
    },
)
def test_who_is_cleared():
    """Only the head is trained. Both get gradients. Predict body.grad and head.grad in the end."""
    body, head = (nn.Parameter(torch.ones(())) for _ in range(2))
    optimizer = torch.optim.SGD([head], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (2 * body + 3 * head).backward()
        optimizer.step()
    assert [number(body.grad), number(head.grad)] == answer([6.0, 3.0])


@koan(
    claims=["A-2.1-09", "A-3.5-11"],
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "Write down the gradient and the weight, line by line. One backward adds a slope of -1.",
        "A step finds a gradient of -1, or None. What does it do with None?",
        "In the last order the first step comes before any backward. And the later ones?",
    ],
    why=(
        "Clearing must happen somewhere after a step and before the next backward; top or bottom "
        "is a matter of taste. Between backward and step it throws away what was just computed, "
        "without a word. A step before its backward uses the gradient of the round before, so it "
        "is always one round late."
    ),
    wrong={
        "[3.0, 0.0, 0.0, 0.0]": (
            "Some say zero_grad must stand at the top, or nothing works. At the bottom it clears "
            "for the next round just as well."
        ),
        "[3.0, 6.0, 0.0, 2.0]": (
            "Some say that clearing at the bottom lets gradients pile up. Look at each backward: "
            "what does it find?"
        ),
        "[3.0, 3.0, 3.0, 3.0]": "All four lines are there in each order. But their order matters.",
        "[3.0, 3.0, 0.0, 3.0]": "What can the very first step of the last order use?",
    },
)
def test_four_orders():
    """Each backward brings a gradient of -1, and each step would add 1 to a weight of 0.

    Run the lines of each order three times. Where does the weight arrive?
    """

    def train(order):
        weight = nn.Parameter(torch.zeros(()))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        lines = {"clear": optimizer.zero_grad, "step": optimizer.step}
        lines["backward"] = lambda: (-weight).backward()
        for line in 3 * order.split():
            lines[line]()
        return weight.item()

    orders = ["clear backward step", "backward step clear"]
    orders += ["backward clear step", "step clear backward"]
    assert [train(order) for order in orders] == answer([3.0, 3.0, 0.0, 2.0])


@koan(
    claims=["A-3.5-16"],
    see="torch.optim.Optimizer.zero_grad",
    hint=[
        "The first backward finds no gradient. Must it add anything to anything?",
        "Wiping is a write. Adding to zeros is another. How many rounds begin with a gradient?",
    ],
    why=(
        "None costs nothing: the tensor that backward brings becomes the gradient, as it is. Zeros "
        "cost two passes over memory in each round, one to wipe and one to add. So None is not "
        "only smaller between the rounds; it is usually faster, too."
    ),
    wrong={
        "[3, 4]": (
            "Some say None costs time, since a gradient must be made and filled each time. "
            "Backward makes that tensor anyway. It is only handed over."
        ),
        "[0, 6]": "In the first round there is nothing to wipe yet.",
        "[0, 2]": "Wiping is one kind of write. What does backward do with the zeros?",
        "[4, 4]": "A tensor that was dropped is not written any more.",
    },
)
def test_writes_into_a_gradient():
    """`_version` counts the writes into a tensor since it was made. Three rounds of clearing and
    backward: how many writes has the gradient seen, with None and with zeros?"""
    writes = []
    for set_to_none in (True, False):
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=set_to_none)
            (2 * weight).sum().backward()
        writes.append(weight.grad._version)
    assert writes == answer([0, 4])


@koan(
    claims=["A-4.5-90"],
    see="torch.optim.Optimizer",
    hint=[
        "Read the class at the top of this file. Is each attribute set before it is used?",
        "An exception stops a function where it stands. It does not undo the lines before.",
    ],
    why=(
        "The last line fails, after the loss was noted and backward had run: a step half done. "
        "Whoever catches the error and goes on has one loss too many in the list, and a gradient "
        "that joins the next one. The optimizer belongs in __init__."
    ),
    wrong={
        ("AttributeError", "[[3.0], 3.0, 0.25]"): (
            "Some say this class runs as it stands. Then the weight would have moved. But who "
            "moves it?"
        ),
        ("AttributeError", "[[], None, 1.0]"): (
            "Many think that a step that fails has done nothing. Python runs line by line."
        ),
        ("TypeError", "[[3.0], 3.0, 1.0]"): "No call got a wrong argument. Something is not there.",
        ("NameError", "[[3.0], 3.0, 1.0]"): "The name `self` is known. What is missing is a part.",
    },
    at={
        "caught.type": (
            "This looks at the exception only. Read the class: which line cannot do its work, and "
            "how does Python complain of such a thing?"
        ),
        "assert state": (
            "The exception is right. Now go through train_step line by line: what had been done "
            "before the line that failed?"
        ),
    },
)
def test_a_step_that_stops_half_way():
    """Train once with the Trainer from the top of this file. Which exception ends it?

    Then predict the list of losses, the gradient and the weight.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    trainer = Trainer(model, lr=0.25)
    with pytest.raises(Exception) as caught:
        trainer.train_step(torch.full((1, 1), 3.0))
    assert caught.type is answer(AttributeError)
    state = [trainer.losses, number(model.weight.grad), model.weight.item()]
    assert state == answer([[3.0], 3.0, 1.0])


@koan(
    claims=["A-4.5-91", "A-3.5-10"],
    see="torch.Tensor.backward",
    hint=[
        "Which of the four lines is missing in train_step?",
        "The slope is the same in each round. What does the second backward find in weight.grad?",
    ],
    why=(
        "Nobody clears, so the n-th step uses the sum of n gradients: 0.25 once, twice, three "
        "times. The loss may even fall for a while, which hides the mistake. One line cures it: "
        "self.optimizer.zero_grad(), before backward or after step."
    ),
    wrong={
        "[0.75, 0.5, 0.25]": (
            "Some say that loss, backward and step are a complete step. Is a gradient gone once "
            "it has been used?"
        ),
        "[0.75, 0.75, 0.75]": "Nothing stops the weight. The slope does not vanish.",
        "[0.75, 0.0, -1.5]": "The gradients add up. They do not double each time.",
    },
)
def test_the_trainer_goes_on():
    """Now the Trainer has an optimizer. The slope is 1 everywhere.

    Predict the weight after each of three steps.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    trainer = Trainer(model, lr=0.25)
    trainer.optimizer = torch.optim.SGD(model.parameters(), lr=trainer.lr)
    weights = []
    for _ in range(3):
        trainer.train_step(torch.ones(1, 1))
        weights.append(model.weight.item())
    assert weights == answer([0.75, 0.25, -0.5])


@koan(
    claims=["A-3.5-02"],
    see="torch.utils.data.DataLoader",
    hint=[
        "A `for` calls iter() once, and then next() again and again. What happens here?",
        "How many workers did we ask for?",
    ],
    why=(
        "Each iter() starts anew, and a `for` calls it once, for the whole epoch. So next(iter()) "
        "in a training step means the first batch forever. Without num_workers there are no "
        "processes: the batch is made right here, while you wait."
    ),
    wrong={
        ("[[0, 1], [2, 3], [4, 5]]", "0"): (
            "The loader does not remember where you were. Its iterator does, and you throw it away."
        ),
        ("[[0, 1], [0, 1], [0, 1]]", "1"): (
            "Some say a loop over a loader gets a multi-process iterator. Only those who "
            "ask for workers get one."
        ),
        ("[[0, 1], [0, 1], [0, 1]]", "3"): "Every iter() makes an iterator. Not every one hires.",
    },
    at={
        "batch[:2] for batch": (
            "These are the numbers of the three batches. Each comes from an iterator of its own: "
            "where does such a one begin?"
        ),
        "len({batch[2]": (
            "The batches are right. Now the processes: whom does this loader hire, with the "
            "options that it was given?"
        ),
    },
)
def test_the_next_batch_please():
    """A loader of six numbers, two in a batch. To each batch we add the id of its process.

    Which three batches are these, and how many processes beside ours made them?
    """
    here = os.getpid()
    loader = DataLoader(range(6), batch_size=2, collate_fn=lambda two: [*two, os.getpid()])
    batches = [next(iter(loader)) for _ in range(3)]
    assert [batch[:2] for batch in batches] == answer([[0, 1], [0, 1], [0, 1]])
    assert len({batch[2] for batch in batches} - {here}) == answer(0)


@koan(
    claims=["A-3.5-06"],
    see="torch.Tensor.to",
    hint=[
        "What type is a batch that is made of dicts? What can that type do?",
        "A tensor's move is not in place: it returns another tensor. Put these into a new dict.",
    ],
    why=(
        "Nothing moves a batch for you: the loader makes it on the CPU, and you carry each tensor "
        "to the model. A dict cannot move, and a tensor that moves is a new tensor, so you need a "
        "new dict. (The device 'meta' has shapes and no numbers. It shows this on any machine.)"
    ),
    wrong={
        "return batch.cuda()": (
            "Some say that the loop moves each batch with .cuda(). A tensor has this method. What "
            "is a batch here?"
        ),
        "for tensor in batch.values():\n    tensor.to(device)\nreturn batch": (
            "Each tensor returned a moved one, and nobody took it."
        ),
        "for name in batch:\n    batch[name] = batch[name].to(device)\nreturn batch": (
            "It moves, but the caller's own batch is changed as well."
        ),
        "return {name: batch['x'].to(device) for name in batch}": "Then the labels are lost.",
    },
    right=[
        "moved = dict(batch)\nfor name in moved:\n    moved[name] = moved[name].to(device)\n"
        "return moved",
        "return dict(zip(batch, [tensor.to(device) for tensor in batch.values()]))",
    ],
    at={
        'F.mse_loss(model(there["x"])': (
            "Device, names and shapes are right. But the model cannot train with this batch: what "
            "else should have stayed as it was?"
        ),
        "for tensor in batch.values()": (
            "The batch that was given is not as it was: its tensors must stay on the CPU. Where "
            "should the moved ones go?"
        ),
        "for tensor in there.values()": (
            "The given batch is untouched. But you should return a dict with all its tensors on "
            "the device: print `there`."
        ),
        "for k, v in there.items()": (
            "All tensors are on the device. But their names or shapes are not those of the given "
            "batch: print both."
        ),
    },
)
def test_carry_a_batch_to_the_model():
    """The model is on another device, and the loader's batches are dicts of tensors.

    Write `moved`: the same batch, on the device. The given one must stay as it is.
    """

    def moved(batch, device):
        # answer:
        return {name: tensor.to(device) for name, tensor in batch.items()}
        # end

    model = nn.Linear(2, 1, device="meta")
    for labels in ({"y": torch.zeros(1)}, {"y": torch.zeros(1), "weight": torch.ones(1)}):
        (batch,) = DataLoader([{"x": torch.ones(2), **labels}] * 4, batch_size=4)
        there = moved(batch, "meta")
        assert {tensor.device.type for tensor in batch.values()} == {"cpu"}
        assert {tensor.device.type for tensor in there.values()} == {"meta"}
        assert {k: v.shape for k, v in there.items()} == {k: v.shape for k, v in batch.items()}
        F.mse_loss(model(there["x"]), there["y"]).backward()
    assert model.weight.grad.is_meta


@koan(
    see="torch.Tensor.item",
    hint=[
        "From a loss you can walk back to everything that backward would need. Who holds it?",
        "A float knows nothing of a graph.",
        "After backward() the graph is still there. And what its nodes had saved?",
    ],
    why=(
        "A loss holds its graph, and the graph holds the tensors saved for backward: keep three "
        "losses and you keep three batches of activations. item() gives a float that holds "
        "nothing. backward() frees what was saved, so it is mostly in evaluation, where nobody "
        "calls it, that a list of losses eats the memory."
    ),
    wrong={
        ("0", "0", "0"): "A loss is one number, true. But look at its grad_fn, and go back.",
        ("3", "0", "3"): (
            "Some say that a kept loss always keeps its activations. What does backward() free?"
        ),
        ("3", "3", "0"): "item() makes a plain Python number. From it, no way leads back.",
        ("1", "0", "0"): "The list keeps all of its losses, not only the last one.",
    },
    at={
        "lambda loss: loss)": (
            "Here each loss is kept as it is. Walk back from it: does it lead to `hidden`, and "
            "does anybody let go?"
        ),
        "loss.item()": (
            "The first number is right. Here a plain Python number is kept of each loss: where "
            "could one walk from it?"
        ),
        "(loss.backward(), loss)": (
            "Two numbers are right. Here backward() has run on each loss that is kept: is its "
            "graph still as full as before?"
        ),
    },
)
def test_what_a_list_of_losses_keeps():
    """Make three losses and keep each: as it is, as a number, or after its backward.

    How many of the three `hidden` are still in memory?
    """
    weight = nn.Parameter(torch.ones(3))

    def alive(keep):
        seen, kept = [], []
        for _ in range(3):
            hidden = weight * 2
            seen.append(weakref.ref(hidden))
            kept.append(keep((hidden**2).sum()))
        del hidden
        return sum(ref() is not None for ref in seen)

    assert alive(lambda loss: loss) == answer(3)
    assert alive(lambda loss: loss.item()) == answer(0)
    assert alive(lambda loss: (loss.backward(), loss)) == answer(0)


@koan(
    claims=["B-3-31"],
    see="torch.Tensor.backward",
    hint=[
        "As the lines were given: over how many graphs did the second round's backward walk?",
        "Which loss should move the weight in each round? And what is `total` for?",
        "A number to print needs no graph.",
    ],
    why=(
        "The sum dragged the graphs of all earlier rounds along. Without retain_graph PyTorch "
        "objected; with it, old losses are counted again at weights that are long gone. A "
        "retain_graph that was added to silence an error is nearly always such a knot: walk each "
        "graph once, and keep numbers."
    ),
    wrong={
        "pass": "Nothing is walked now, and nothing counted. Each loss has to do its work once.",
        "total = total + loss\ntotal.backward()": (
            "Now PyTorch says it: an old graph is walked a second time. Listen to it."
        ),
        "loss.backward()\ntotal = total + loss": (
            "The weight is right. But the sum still ties all the graphs together."
        ),
        "loss.backward(retain_graph=True)\ntotal += loss.item()": (
            "The numbers are right, and yet each graph keeps all it had saved. For whom?"
        ),
        "total = total + loss.item()\nloss.detach().requires_grad_().backward()": (
            "No error: backward fills the new leaf, and the weight gets nothing."
        ),
    },
    right=[
        "loss.backward()\ntotal = total + loss.detach()",
        "total += loss.item()\nloss.backward()",
        "total += float(loss)\nloss.backward()",
    ],
    at={
        "torch.tensor(2.0)": (
            "The first training is right. This one begins elsewhere and has a round more: print "
            "the sum and the weight after each round."
        ),
        "pytest.raises(RuntimeError)": (
            "One more backward through this loss still works. After your lines its graph should "
            "be walked once, and then be let go."
        ),
        "torch.as_tensor(total)": (
            "The graph of the loss is used up. But `total` should be a plain sum "
            "without a graph: what is it made of?"
        ),
        "torch.tensor(1.0)": (
            "No graph is left over. But the sum or the weight is wrong: print both after each "
            "round. What should move the weight?"
        ),
    },
)
def test_a_sum_that_remembers_too_much():
    """Without retain_graph these lines raise, so somebody added it. Now the weight goes wrong.

    Repair the marked lines: each loss moves the weight once, `total` is their plain sum, and no
    graph is kept.
    """

    def train(weight, inputs):
        optimizer = torch.optim.SGD([weight], lr=0.25)
        total = 0.0
        for x in inputs:
            optimizer.zero_grad()
            loss = (weight * x) ** 2
            # answer:
            loss.backward()
            total += loss.item()
            # given:
            # total = total + loss
            # total.backward(retain_graph=True)
            # end
            optimizer.step()
            with pytest.raises(RuntimeError):
                loss.backward()
        assert not torch.as_tensor(total).requires_grad
        return [float(total), weight.item()]

    assert train(nn.Parameter(torch.tensor(1.0)), [1.0, 2.0]) == [2.0, -0.5]
    assert train(nn.Parameter(torch.tensor(2.0)), [1.0, 2.0, 1.0]) == [9.0, -0.5]


@koan(
    claims=["A-3.5-20", "A-2.1-08"],
    see="torch.optim.Optimizer.step",
    hint=[
        "Four lines, and a fifth for the list.",
        "Somebody may have left a gradient in the model. Which place of zero_grad is safe?",
        "The list should hold numbers and no graphs.",
    ],
    why=(
        "Clear, forward with loss, backward, step: this trains any model with any loss. Clearing "
        "first is the cautious place, since it does not trust what was there before. What a real "
        "loop adds: model.train(), the move to the device, and once per epoch a scheduler."
    ),
    wrong={
        "losses = []\n"
        "for x, y in batches:\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_fn(model(x), y)\n"
        "    optimizer.step()\n"
        "    loss.backward()\n"
        "    losses.append(loss.item())\n"
        "return losses": "Some step first. At that moment there is no gradient to follow.",
        "losses = []\n"
        "for x, y in batches:\n"
        "    loss = loss_fn(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    losses.append(loss.item())\n"
        "return losses": "The first round starts with a gradient that somebody left behind.",
        "losses = []\n"
        "for x, y in batches:\n"
        "    loss = loss_fn(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.zero_grad()\n"
        "    optimizer.step()\n"
        "    losses.append(loss.item())\n"
        "return losses": "What backward brought is thrown away before step can see it.",
        "losses = []\n"
        "for x, y in batches:\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_fn(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss)\n"
        "return losses": "These losses still carry their graphs.",
        "losses = []\n"
        "for x, y in batches:\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_fn(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss_fn(model(x), y).item())\n"
        "return losses": "These are the losses after each step, at the price of a second forward.",
    },
    right=[
        "losses = []\n"
        "for x, y in batches:\n"
        "    loss = loss_fn(model(x), y)\n"
        "    model.zero_grad()\n"
        "    loss.backward()\n"
        "    losses.append(float(loss))\n"
        "    optimizer.step()\n"
        "return losses",
        "losses = []\n"
        "optimizer.zero_grad()\n"
        "for x, y in batches:\n"
        "    loss = loss_fn(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    losses.append(loss.item())\n"
        "return losses",
    ],
    at={
        "model.weight.item() ==": (
            "This is the weight after three steps. The model came with an old gradient, and each "
            "of the four lines has its place."
        ),
        "assert losses ==": (
            "The weight is right. But the list should hold one loss for each step, the one that "
            "the step was made from: print it."
        ),
        "type(loss) for loss": (
            "Weight and losses are right. But the list should hold plain Python numbers: print "
            "the type of one."
        ),
    },
)
def test_write_the_loop():
    """Write `train`: one step for each batch. Return the losses that the steps were made from, as
    plain floats."""

    def train(model, optimizer, loss_fn, batches):
        # answer:
        losses = []
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
        # end

    x = torch.ones(1, 1)
    for start in (1.0, 6.0):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, start)
        model.weight.grad = torch.full((1, 1), 8.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        losses = train(model, optimizer, F.mse_loss, [(x, 2 * x)] * 3)
        assert model.weight.item() == 2 + (start - 2) / 8
        assert losses == [(start - 2) ** 2 / 4**n for n in range(3)]
        assert {type(loss) for loss in losses} == {float}
