"""The scaler: four calls, one number, and the order they come in.

Documents: A 5.1
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


def walk(scaler, slopes):
    """One step for each slope of the first weight. The slope of the second weight is always 1.

    Returns the scale after each step, and the two weights at the end.
    """
    weights = [nn.Parameter(torch.ones(())) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=1.0)
    scales = []
    for slope in slopes:
        optimizer.zero_grad()
        scaler.scale(weights[0] * slope + weights[1]).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [weight.item() for weight in weights]


@koan(
    claims=["A-5.1-09", "A-5.1-13"],
    see="torch.amp.GradScaler",
    hint=[
        "scale() returns something. Does it change what it was given?",
        "The first factor is a power of two, the one nearest to the largest float16 number, 65504.",
        "The optimizer reads .grad. Where must the division have happened by then?",
    ],
    why=(
        "scale(loss) is a new tensor, loss * 2**16; backward knows nothing of scalers and carries "
        "the factor into each gradient. step() divides .grad in place, before the optimizer reads "
        "it. So between backward and step all gradients are 65536 times too large."
    ),
    wrong={
        "[6.0, 3.0, 3.0]": (
            "Some think the scaler hides behind backward. Backward gets a larger loss, and that is "
            "all it knows."
        ),
        "[393216.0, 196608.0, 3.0]": "scale() has no underscore at its end. What does that say?",
        "[6.0, 196608.0, 196608.0]": (
            "The optimizer knows no scale; it takes what is in .grad. Somebody wrote there first."
        ),
        "[6.0, 3072.0, 3.0]": "1024 would be careful. The scaler starts higher.",
        "[6.0, 3.0, 0.0]": "A step does not clear gradients, with or without a scaler.",
    },
    right=["[6.0, 3 * 2**16, 3.0]", "[6, 3 * 65536, 3]"],
)
def test_a_gradient_before_and_after_the_step():
    """The slope of this loss is 3, and the scaler has its default settings.

    Predict the loss, the weight's .grad after backward, and its .grad after the step.
    """
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    loss = weight * 3
    scaler.scale(loss).backward()
    seen = [loss.item(), weight.grad.item()]
    scaler.step(optimizer)
    seen.append(weight.grad.item())
    assert seen == answer([6.0, 196608.0, 3.0])


@koan(
    see="torch.amp.GradScaler.step",
    hint=[
        "scale() does more than multiply: at its first call the scaler makes its number.",
        "Blank 1: step() finds that something was left out, and says so in Python's own way of "
        "saying that this must never happen.",
        "Blank 2: did step() reach the optimizer before it complained?",
    ],
    why=(
        "The scaler makes its scale at the first call of scale(). step() asserts that there is "
        "one, so a forgotten scale() is an AssertionError, before the optimizer is called. Once "
        "a scale is there, nothing notices a loss that was not scaled: its gradients are divided "
        "by 65536 all the same."
    ),
    wrong={
        ("RuntimeError", "2.0"): (
            "Calls in a wrong order are a RuntimeError later on. Here there is no scale yet."
        ),
        ("ValueError", "2.0"): "No value is wrong. Something that must be there is not.",
        ("AssertionError", "1.7"): (
            "That is the step of SGD on the bare gradient. Did the scaler come so far?"
        ),
        ("AssertionError", "2.0 - 0.3 / 65536"): (
            "A step divided by 65536 would need a scale. Is there one?"
        ),
    },
    right=[("AssertionError", "2")],
    at={
        "caught.type is": (
            "This line is about the exception alone. step() finds that something was left out. "
            "How does Python say: this must never happen?"
        ),
        "weight.item() ==": (
            "The exception is right. Now the weight: how far did step() come before it complained?"
        ),
    },
)
def test_the_loss_that_was_never_scaled():
    """The very first step, and scale() was forgotten. Which exception does step() raise, and
    what is the weight afterwards?"""
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    (weight * 3).backward()
    with pytest.raises(Exception) as caught:
        scaler.step(optimizer)
    assert caught.type is answer(AssertionError)
    assert weight.item() == answer(2.0)


@koan(
    claims=["A-5.1-02"],
    see="torch.amp.GradScaler.is_enabled",
    hint=[
        "By which factor do you multiply when nothing should change?",
        "What is there to save of somebody who does nothing?",
        "Who looks for an infinite gradient? Does he look today?",
    ],
    why=(
        "A disabled scaler steps aside: scale() returns the loss itself, step() just calls "
        "optimizer.step(), and the state is empty. Nobody checks for inf. GradScaler('cuda') turns "
        "itself into such a one, with a warning, where there is no CUDA."
    ),
    wrong={
        "[65536.0, 5, 2.0]": (
            "Some say any GradScaler() you make gives a scaler that works. This one does not."
        ),
        "[1.0, 0, 2.0]": "Off is off: the check for inf belongs to what is switched off.",
        "[1.0, 5, float('-inf')]": "There are no settings to come back to.",
        "[65536.0, 0, float('-inf')]": "Then the loss would still be multiplied.",
        "[0.0, 0, 2.0]": "A loss times zero would teach nobody anything.",
    },
    right=["[1.0, 0, -torch.inf]", "[1, 0, -float('inf')]"],
)
def test_a_scaler_that_is_switched_off():
    """The scaler is disabled, and the gradient is infinite.

    Predict the scale, the number of entries in its state_dict, and the weight after the step.
    """
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    scaler.scale(weight * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    seen = [scaler.get_scale(), len(scaler.state_dict()), weight.item()]
    assert seen == answer([1.0, 0, float("-inf")])


@koan(
    claims=["A-5.1-16"],
    see="torch.amp.GradScaler.step",
    hint=[
        "step() asks one question about all gradients of the optimizer. Which?",
        "When does SGD make its momentum buffers? In its own step().",
    ],
    why=(
        "One inf or nan anywhere, and optimizer.step() is not called at all. No weight moves, no "
        "momentum is made, and Adam would not count a step. Half a step would be a step in "
        "another direction. So it is the whole step or none."
    ),
    wrong={
        "[1.0, 0.0, 1]": (
            "Some say each p.grad is checked, and only that parameter's update is left out. The "
            "check has one answer for all of them."
        ),
        "[1.0, 0.0, 2]": "How would SGD be told to leave one of its parameters out?",
        "[1.0, 1.0, 2]": (
            "Some think the bad gradients are set to zero and the step is done. Zero is a "
            "gradient too, and momentum would move on."
        ),
        "[float('-inf'), 0.0, 2]": "That is the step without a scaler.",
    },
)
def test_a_healthy_weight_beside_a_sick_one():
    """The gradient of `a` is infinite, that of `b` is fine.

    Predict a, b, and how many parameters have an entry in the optimizer's state.
    """
    a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
    optimizer = torch.optim.SGD([a, b], lr=1.0, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(a * float("inf") + b).backward()
    scaler.step(optimizer)
    assert [a.item(), b.item(), len(optimizer.state)] == answer([1.0, 1.0, 0])


@koan(
    claims=["A-5.1-10"],
    see="torch.amp.GradScaler.step",
    hint=[
        "Multiply each slope by the scale. float16 ends at 65504, and begins at about 6e-8.",
        "The scaler looks for what is not finite. Is zero finite?",
    ],
    why=(
        "100 times 1024 is too large for float16: inf, so that step is skipped. 1e-12 becomes "
        "zero, and zero is as finite as any number: the step is taken, with nothing in it. An "
        "underflow leaves no trace. A large scale makes it rare, no scaler finds it."
    ),
    wrong={
        "[1.0]": (
            "Some say step() skips the update when gradients underflow. What is left of such a "
            "gradient, and who could tell it from an honest one?"
        ),
        "[100.0, 1.0]": (
            "This is what the saying would give: skip at underflow. The scaler guards the other "
            "end of float16."
        ),
        "[100.0, 1.0, 1e-12]": "One of the three gradients does not survive the check.",
    },
)
def test_a_gradient_too_large_and_one_too_small():
    """These gradients pass through float16, so one of them becomes infinite, and one zero.

    At which slopes does the optimizer take its step?
    """
    stepped = []
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_post_hook(lambda *_: stepped.append(slope))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for slope in (100.0, 1.0, 1e-12):
        optimizer.zero_grad()
        scaler.scale((weight.half() * slope).float()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert stepped == answer([1.0, 1e-12])


@koan(
    claims=["A-5.1-11", "A-5.1-15"],
    see="torch.amp.GradScaler.update",
    hint=[
        "After a bad step the scale is multiplied by 0.5. What happens to the count of good ones?",
        "growth_interval good steps IN A ROW are rewarded with a factor of 2.",
    ],
    why=(
        "A bad step halves the scale and sets the count to zero; two good steps in a row double "
        "it, and the count starts again. By default it takes 2000 of them. So a scale that falls "
        "from 65536 to 32768 in the first steps is the scaler at work, not a broken model."
    ),
    wrong={
        "[8.0, 4.0, 8.0, 8.0]": (
            "Two good steps, but not in a row. Does the count survive what stands between them?"
        ),
        "[8.0, 4.0, 4.0, 4.0]": "Some think the scale can only shrink. It tries again, and again.",
        "[8.0, 8.0, 8.0, 16.0]": "The bad step was skipped. That alone would not stop the next.",
        "[16.0, 8.0, 16.0, 32.0]": "One good step is not enough: read growth_interval.",
        "[8.0, 0.0, 0.0, 0.0]": "The scale backs off. It does not give up.",
    },
)
def test_one_bad_step_among_good_ones():
    """Four steps, and the gradient of the second one is infinite. Predict the scale after each."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales, _ = walk(scaler, [1.0, float("inf"), 1.0, 1.0])
    assert scales == answer([8.0, 4.0, 4.0, 8.0])


@koan(
    claims=["A-5.1-18"],
    see="torch.amp.GradScaler",
    hint=[
        "A setting changes something only if it was another one before. Look up the signature.",
        "Walk through the steps with each of them, and divide the highest scale by the first.",
    ],
    why=(
        "2.0 and 0.5 are the defaults: to write them down does no harm, and no good. What calms "
        "a scale is a longer growth_interval (2000 by default) or a smaller growth_factor. A lower "
        "start saves the first skipped steps, and then the scale climbs by the same factor."
    ),
    wrong={
        '["pinned", "low", "patient", "gentle"]': (
            "Some say that in production you should pin growth_factor=2.0 and backoff_factor=0.5, "
            "so that the scale does not swing wildly. What are they if nobody pins them?"
        ),
        '["pinned"]': (
            "Some say pinning the factors is what keeps the scale calm. Compare with the defaults."
        ),
        '["low", "patient"]': "What does a good pair of steps earn under the gentle one?",
        '["low", "patient", "gentle"]': (
            "From a low start the scale is lower. But does it climb by another factor?"
        ),
        '["patient"]': "The gentle one climbs, too. By how much?",
        "[]": "Two of them do help. How does the scale go up, and how often?",
    },
    right=['("patient gentle".split())'],
)
def test_four_ways_to_calm_a_scale():
    """Four colleagues have advice against a scale that goes up and down.

    With whose settings does it climb less, compared with its first value? Write their names.
    """

    def climb(said):
        scaler = torch.amp.GradScaler("cpu", **{"growth_interval": 2, **said})
        first = scaler.get_scale()
        scales, _ = walk(scaler, [1.0, 1.0, float("inf"), 1.0, 1.0, 1.0])
        return max(scales) / first

    advice = {"pinned": {"growth_factor": 2.0, "backoff_factor": 0.5}, "low": {"init_scale": 256.0}}
    advice |= {"patient": {"growth_interval": 20}, "gentle": {"growth_factor": 1.5}}
    calmer = [name for name, said in advice.items() if climb(said) < climb({})]
    assert calmer == answer(["patient", "gentle"])


@koan(
    claims=["A-5.1-09", "A-5.1-11"],
    see="torch.amp.GradScaler.unscale_",
    hint=[
        "For each optimizer the scaler remembers one of three states: ready, unscaled, stepped.",
        "Which calls would divide the same gradients twice, or step twice? And who resets?",
        "update() wants to hear what the checks found. What if nobody has checked since?",
    ],
    why=(
        "From ready you may unscale or step, from unscaled only step, from stepped neither, until "
        "update() resets all. update() itself needs a check since the last one (unscale_ is "
        "enough). It says so with an AssertionError; the others raise RuntimeError."
    ),
    wrong={
        "[2, 5]": (
            "To do the same twice is refused. But there is one more call that comes too late, and "
            "one that has nothing to report."
        ),
        "[2, 4, 5]": "Almost. What would the last of the updates work with?",
        "[2, 3, 4, 5, 7]": "step() after unscale_() is the usual way to clip.",
        "[4, 5, 7]": "A second division is no small thing: the step would become tiny.",
        "[2, 4, 5, 7, 8]": "update() has reset the state. Unscaling begins a new round.",
        "[]": "It does not shrug: a wrong order spoils gradients without a trace.",
    },
)
def test_eight_calls_in_a_row():
    """After one backward come eight calls, numbered from 1. A refused call changes nothing.

    Which are refused?
    """
    weight, refused = nn.Parameter(torch.ones(())), []
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight * 3).backward()
    calls = "unscale_ unscale_ step unscale_ step update update unscale_"
    for number, call in enumerate(calls.split(), start=1):
        arguments = [] if call == "update" else [optimizer]
        try:
            getattr(scaler, call)(*arguments)
        except Exception:
            refused.append(number)
    assert refused == answer([2, 4, 5, 7])


@koan(
    claims=["A-5.1-16"],
    see="torch.amp.GradScaler.update",
    hint=[
        "Both gradients were made with one scale. By which scale is the second one divided?",
        "Each optimizer is checked on its own. The scale belongs to both: when may it change?",
        "One step each, then the one call that changes the scale.",
    ],
    why=(
        "All gradients of a round carry the same scale, so it may change only when all optimizers "
        "have stepped. Each is checked alone: one may be skipped while the other steps. update() "
        "then hears of both, and any inf makes it back off, once."
    ),
    wrong={
        "scaler.step(first)\nscaler.update()\nscaler.step(second)": (
            "It still changes the scale between the two."
        ),
        "for optimizer in (first, second):\n"
        "    scaler.unscale_(optimizer)\n"
        "for optimizer in (first, second):\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()": (
            "Both were divided in time. But update() forgets that, and step() divides again."
        ),
        "both = torch.optim.SGD([a, b], lr=1.0)\nscaler.step(both)\nscaler.update()": (
            "One optimizer, one check: now a sick gradient stops the healthy weight as well."
        ),
        "scaler.step(first)\nscaler.step(second)": "Nobody adapts the scale any more.",
        "for optimizer in (first, second):\n"
        "    scaler.unscale_(optimizer)\n"
        "    optimizer.step()\n"
        "scaler.update()": "The check is made, and then nobody asks what it has found.",
    },
    right=[
        "for optimizer in (first, second):\n    scaler.step(optimizer)\nscaler.update()",
        "scaler.unscale_(second)\nscaler.step(second)\nscaler.step(first)\nscaler.update()",
    ],
)
def test_two_optimizers_and_one_scale():
    """Two optimizers share a scaler, and each weight should move by its own slope.

    The second step comes out wrong. Repair the marked lines.
    """
    results = []
    for slopes in [(1.0, 1.0), (float("inf"), 1.0), (1.0, float("inf"))]:
        a, b = (nn.Parameter(torch.ones(())) for _ in range(2))
        first, second = (torch.optim.SGD([weight], lr=1.0) for weight in (a, b))
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
        scaler.scale(a * slopes[0] + b * slopes[1]).backward()
        # answer:
        scaler.step(first)
        scaler.step(second)
        scaler.update()
        # given:
        # for optimizer in (first, second):
        #     scaler.step(optimizer)
        #     scaler.update()
        # end
        results.append([a.item(), b.item(), scaler.get_scale()])
    assert results == [[0.0, 0.0, 16.0], [1.0, 0.0, 4.0], [0.0, 1.0, 4.0]]


@koan(
    claims=["A-5.1-10", "A-5.1-11", "A-5.1-16"],
    see="torch.amp.GradScaler",
    hint=[
        "Collect the gradients from optimizer.param_groups. Divide first, then look at all.",
        "step() has to leave a message for update(): was this step a good one?",
        "After which events does the count of good steps go back to zero? There are two.",
    ],
    why=(
        "That is all there is: a number, a counter and a flag. PyTorch's own keeps them on the "
        "device, so that only the decision to step has to wait for the GPU, and remembers a flag "
        "for each optimizer."
    ),
    wrong={
        (
            "self.bad = False\n"
            "for p in optimizer.param_groups[0]['params']:\n"
            "    p.grad /= self.now\n"
            "    if not p.grad.isfinite():\n"
            "        self.bad, p.grad = True, None\n"
            "optimizer.step()",
            "self.good = 0 if self.bad else self.good + 1\n"
            "if self.bad:\n"
            "    self.now /= 2\n"
            "elif self.good == self.interval:\n"
            "    self.now, self.good = self.now * 2, 0",
        ): "This leaves out one parameter and moves the others. It is all or nothing.",
        (
            "grads = [p.grad for p in optimizer.param_groups[0]['params']]\n"
            "for grad in grads:\n"
            "    grad /= self.now\n"
            "self.bad = not all(grad.isfinite() and grad != 0 for grad in grads)\n"
            "if not self.bad:\n"
            "    optimizer.step()",
            "self.good = 0 if self.bad else self.good + 1\n"
            "if self.bad:\n"
            "    self.now /= 2\n"
            "elif self.good == self.interval:\n"
            "    self.now, self.good = self.now * 2, 0",
        ): "Some say underflow is skipped. Here a zero stops the step; in PyTorch it does not.",
        (
            "grads = [p.grad for p in optimizer.param_groups[0]['params']]\n"
            "for grad in grads:\n"
            "    grad /= self.now\n"
            "self.bad = not all(grad.isfinite() for grad in grads)\n"
            "if not self.bad:\n"
            "    optimizer.step()",
            "if self.bad:\n"
            "    self.now /= 2\n"
            "else:\n"
            "    self.good += 1\n"
            "    if self.good % self.interval == 0:\n"
            "        self.now *= 2",
        ): "The good steps are counted, but not in a row.",
        (
            "grads = [p.grad for p in optimizer.param_groups[0]['params']]\n"
            "for grad in grads:\n"
            "    grad /= self.now\n"
            "self.bad = not all(grad.isfinite() for grad in grads)\n"
            "if not self.bad:\n"
            "    optimizer.step()",
            "self.good = 0 if self.bad else self.good + 1\n"
            "if self.bad:\n"
            "    self.now /= 2\n"
            "elif self.good >= self.interval:\n"
            "    self.now *= 2",
        ): "Once the interval is reached, this one grows at every good step.",
        (
            "grads = [p.grad for p in optimizer.param_groups[0]['params']]\n"
            "self.bad = not all(grad.isfinite() for grad in grads)\n"
            "if not self.bad:\n"
            "    optimizer.step()",
            "self.good = 0 if self.bad else self.good + 1\n"
            "if self.bad:\n"
            "    self.now /= 2\n"
            "elif self.good == self.interval:\n"
            "    self.now, self.good = self.now * 2, 0",
        ): "Nobody divides, so each step is too long by the scale.",
    },
    right=[
        (
            "params = optimizer.param_groups[0]['params']\n"
            "total = sum(p.grad.sum() for p in params)\n"
            "self.bad = not torch.isfinite(total)\n"
            "for p in params:\n"
            "    p.grad = p.grad / self.now\n"
            "if not self.bad:\n"
            "    return optimizer.step()",
            "if self.bad:\n"
            "    self.now, self.good = self.now * 0.5, 0\n"
            "    return\n"
            "self.good += 1\n"
            "if self.good == self.interval:\n"
            "    self.now *= 2.0\n"
            "    self.good = 0",
        ),
    ],
    at={
        "walk(Small(start, interval), slopes)": (
            "This line compares two walks: the scale after each step, then the two weights at "
            "the end. Print both walks: where do they first differ?"
        ),
    },
)
def test_write_a_scaler_of_your_own():
    """Write step and update of this small scaler, for one optimizer.

    It must walk as PyTorch's own does, with growth_factor=2.0 and backoff_factor=0.5.
    """

    class Small:
        def __init__(self, scale, interval):
            self.now, self.interval, self.good, self.bad = scale, interval, 0, False

        def scale(self, loss):
            return loss * self.now

        def get_scale(self):
            return self.now

        def step(self, optimizer):
            # answer:
            grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
            for grad in grads:
                grad /= self.now
            self.bad = not all(grad.isfinite() for grad in grads)
            if not self.bad:
                optimizer.step()
            # end

        def update(self):
            # answer:
            self.good = 0 if self.bad else self.good + 1
            if self.bad:
                self.now /= 2
            elif self.good == self.interval:
                self.now, self.good = self.now * 2, 0
            # end

    inf = float("inf")
    for start, interval in [(8.0, 3), (64.0, 2)]:
        slopes = [1.0, 0.0, inf, 2.0, 1.0, 1.0, 3.0, 1.0, inf - inf, 1.0, 1.0]
        theirs = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=interval)
        assert walk(Small(start, interval), slopes) == walk(theirs, slopes)
