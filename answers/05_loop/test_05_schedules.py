"""Schedules: who changes the learning rate, when, and from what."""

import warnings

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from sensei import answer, koan


@koan(
    see="torch.optim.lr_scheduler.StepLR",
    hint=[
        "A scheduler belongs to an optimizer. Does it look at one group, or at all?",
        "Every second step the rates are halved. When is the first one used up?",
    ],
    why=(
        "One scheduler takes care of all groups, and each group starts from its own rate. What "
        "it changes is a number in optimizer.param_groups, nothing else."
    ),
    wrong={
        "[[1.0, 1.0], [1.0, 1.0], [0.5, 0.5], [0.5, 0.5]]": (
            "Some say the schedule gives the rate. Most schedules scale the rate that a group has."
        ),
        "[[1.0, 8.0], [0.5, 4.0], [0.5, 4.0], [0.25, 2.0]]": "Count again: two steps per rate.",
        "[[1.0, 8.0], [1.0, 8.0], [0.5, 8.0], [0.5, 8.0]]": "No group is left out.",
        "[1.0, 1.0, 0.5, 0.5]": "get_last_lr() gives a list, and it has more than one entry here.",
    },
)
def test_one_scheduler_and_two_groups():
    """The second group has a rate of its own. Write the four lists that are seen."""
    groups = [{"params": [nn.Parameter(torch.zeros(()))]} for _ in range(2)]
    groups[1]["lr"] = 8.0
    optimizer = torch.optim.SGD(groups, lr=1.0)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    seen = []
    for _ in range(4):
        seen.append(scheduler.get_last_lr())
        optimizer.step()
        scheduler.step()
    assert seen == answer([[1.0, 8.0], [1.0, 8.0], [0.5, 4.0], [0.5, 4.0]])


@koan(
    see="torch.optim.lr_scheduler.ExponentialLR",
    hint=[
        "Go through the loop by hand. Which rate does the optimizer find at its first step?",
        "The warning says that something is skipped.",
    ],
    why=(
        "The rate moves on before anybody has used it, so the first value of the schedule is "
        "lost. Call optimizer.step() first, then scheduler.step(). PyTorch warns, once."
    ),
    wrong={
        "[1.0, 0.5, 0.25]": (
            "Some say the order of the two steps is a matter of taste. Which of them uses the "
            "rate, and which of them changes it?"
        ),
        "[1.0, 1.0, 0.5]": "So it would be if the first call did not count. It counts.",
        "[0.5, 0.5, 0.25]": "Each call halves the rate. None of them is left out.",
    },
)
def test_scheduler_first():
    """Here the scheduler steps before the optimizer. With which three rates does the optimizer
    step?"""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    used = []
    optimizer.register_step_pre_hook(lambda opt, *_: used.append(opt.param_groups[0]["lr"]))
    with pytest.warns(UserWarning):
        for _ in range(3):
            scheduler.step()
            optimizer.step()
    assert used == answer([0.5, 0.25, 0.125])


@koan(
    see="torch.optim.lr_scheduler.CosineAnnealingLR",
    hint=[
        "T_max counts calls of scheduler.step(). How many calls are there in an epoch here?",
        "After T_max calls the cosine is at its lowest point. What does a cosine do then?",
    ],
    why=(
        "A scheduler knows nothing of epochs or batches, only how often it was called. Called "
        "twice per epoch it is through after half of them, and then the cosine climbs again, up "
        "to the full rate. Say T_max=epochs * batches, or call it once per epoch."
    ),
    wrong={
        "[0.854, 0.5, 0.146, 0.0]": "This is the plan. It holds for one call per epoch.",
        "[0.5, 0.0, 0.0, 0.0]": "Does a cosine stay at its lowest point? Nothing holds it there.",
        "[0.5, 0.0, 1.0, 0.5]": "There is a scheduler that jumps back up. This one has no jumps.",
    },
)
def test_four_epochs_of_two_batches():
    """T_max is the number of epochs, but the scheduler steps after each batch.

    Which rate stands at the end of each of the four epochs?
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    ends = []
    for _ in range(4):
        for _ in range(2):
            optimizer.step()
            scheduler.step()
        ends.append(round(scheduler.get_last_lr()[0], 3))
    assert ends == answer([0.5, 0.0, 0.5, 1.0])


@koan(
    see="torch.optim.lr_scheduler.LambdaLR",
    hint=[
        "One of the two works out each rate from the one before. What does the other start from?",
        "LambdaLR keeps base_lrs. Does your assignment reach them?",
    ],
    why=(
        "ExponentialLR multiplies the rate that it finds, so yours lives on. LambdaLR computes "
        "base rate times factor, from the rate at its birth, and writes over whatever is there. "
        "Read in the documentation which kind you have before you set a rate by hand."
    ),
    wrong={
        "[4.0, 4.0]": "Then both would look at the rate that you set.",
        "[0.25, 0.25]": "Then both would write over it. Without it, both would be here.",
        "[8.0, 8.0]": "A rate set by hand does not stop a scheduler.",
        "[0.25, 4.0]": "The other way round. Which of them has kept the first rate?",
    },
)
def test_a_rate_set_by_hand():
    """Both schedules halve the rate at each step. In between, you set it to 8 by hand.

    Predict the two rates after the second step.
    """

    def halved(step):
        return 0.5**step

    ends = []
    for kind, rule in ((lr_scheduler.ExponentialLR, 0.5), (lr_scheduler.LambdaLR, halved)):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
        scheduler = kind(optimizer, rule)
        optimizer.step()
        scheduler.step()
        optimizer.param_groups[0]["lr"] = 8.0
        scheduler.step()
        ends.append(optimizer.param_groups[0]["lr"])
    assert ends == answer([4.0, 0.25])


@koan(
    see="torch.optim.lr_scheduler.OneCycleLR",
    hint=[
        "How many batches did the division promise? And how many come out of the split?",
        "The plan has an end. What is wrong with the call after it: its type, or when it comes?",
        "Count the calls that fit into the plan.",
    ],
    why=(
        "Ten samples make three batches, the last one short, but 10 // 4 is 2. Four calls fit "
        "into the plan, and the fifth asks for a rate that it does not have. Take the number of "
        "batches from len(loader), not from a division. Other schedules just go on forever."
    ),
    wrong={
        ("StopIteration", "4"): "A schedule does end here, but it is no iterator.",
        (
            "IndexError",
            "4",
        ): "No list of rates is kept; each rate is computed when it is asked for.",
        ("ValueError", "6"): "Six is how often the loop wants to call it.",
        ("ValueError", "3"): "Building it sets the first rate. Is that one of your calls?",
    },
    at={
        "caught.type": (
            "This looks at the exception. A call came that the plan has no step for: what sort of "
            "complaint is that?"
        ),
        "assert calls": (
            "The exception is right. Now count the steps that the plan was made for, by its own "
            "arguments."
        ),
    },
)
def test_a_plan_that_is_too_short():
    """One cycle over two epochs. steps_per_epoch comes from a division, and it is too small.

    Which exception is raised, and how many calls of scheduler.step() succeed?
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    plan = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, epochs=2, steps_per_epoch=10 // 4)
    calls = 0
    with pytest.raises(Exception) as caught:
        for _ in range(2):
            for _ in torch.zeros(10).split(4):
                optimizer.step()
                plan.step()
                calls += 1
    assert caught.type is answer(ValueError)
    assert calls == answer(4)


@koan(
    see="torch.optim.lr_scheduler.ReduceLROnPlateau",
    hint=[
        "Most schedules go by the number of calls. Which one must be told how training goes?",
        "Something that is needed was not given to a function. Which exception does Python use?",
    ],
    why=(
        "It lowers the rate when a metric has stopped improving, so it must be told the metric: "
        "scheduler.step(loss). Without it Python misses an argument. Code that serves every kind "
        "of scheduler has to make this one an exception."
    ),
    wrong={
        ("ValueError", "['StepLR', 'OneCycleLR']"): (
            "That is for an argument of no use. Here there is none."
        ),
        ("RuntimeError", "['StepLR', 'OneCycleLR']"): (
            "PyTorch need not even look. Python stops the call at the door."
        ),
        ("TypeError", "['StepLR']"): (
            "One cycle comes to an end and then it refuses. Its end is not reached yet."
        ),
        ("TypeError", "['StepLR', 'OneCycleLR', 'ReduceLROnPlateau']"): (
            "A cosine needs its T_max, and has it. From then on it counts calls."
        ),
    },
    at={
        "caught.type": (
            "This looks at the exception. A call lacks something that the function wants: how "
            "does Python complain of that?"
        ),
        "assert done": (
            "The exception is right. Now go through the four in the order of the loop: who can "
            "step without being told anything?"
        ),
    },
)
def test_one_loop_for_all_schedulers():
    """A helper steps whatever scheduler it is given, and one of these refuses.

    With which exception, and which ones have made their step before?
    """
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    steps, plateau = lr_scheduler.StepLR(optimizer, 2), lr_scheduler.ReduceLROnPlateau(optimizer)
    cycle = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=2)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    optimizer.step()
    done = []
    with pytest.raises(Exception) as caught:
        for scheduler in (steps, cycle, plateau, cosine):
            scheduler.step()
            done.append(type(scheduler).__name__)
    assert caught.type is answer(TypeError)
    assert done == answer(["StepLR", "OneCycleLR"])


@koan(
    see="torch.optim.lr_scheduler.ReduceLROnPlateau",
    hint=[
        "patience=1 counts calls, not epochs. How many calls are there in an epoch now?",
        "The loss of a batch jumps up and down. What of the epoch is steadier?",
        "One call per epoch, with one number for the whole of it.",
    ],
    why=(
        "Among noisy batch losses, one lucky batch sets a record that others do not reach, and "
        "patience runs out in no time. Give it one number per epoch, best the validation loss. "
        "For an accuracy say mode='max'; by default smaller is better."
    ),
    wrong={
        "scheduler.step(losses[-1])": "One call per epoch, but the last batch is as noisy as any.",
        "scheduler.step(min(losses))": "The luckiest batch of an epoch tells little of the rest.",
        "scheduler.step(max(losses))": "The worst batch tells as little of the rest as the best.",
        "scheduler.step(1 - sum(losses) / len(losses))": (
            "Turned round: now it waits for the loss to grow."
        ),
        "scheduler.step(sum(losses))": (
            "One number for each epoch. But an epoch of more batches looks worse by this."
        ),
        "scheduler.step(0.0)": "It never sees an improvement, since it is not told of one.",
    },
    right=[
        "scheduler.step(torch.tensor(losses).mean())",
    ],
    at={
        "[8.0, 2.0]": (
            "Here the mean gets better from epoch to epoch, so the rate must stay. Print what the "
            "scheduler is told, and how often."
        ),
        "[8.0, 1.0, 3.0]": (
            "Training that gets better keeps its rate. But these epochs have one and the same "
            "mean: print what the scheduler is told."
        ),
    },
)
def test_patience_with_noisy_batches():
    """The mean of each epoch gets better, and still the rate falls. Repair the marked lines.

    When an epoch is no better, for the second time, it must still be halved.
    """

    def end_rate(epochs):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        for losses in epochs:
            optimizer.step()
            # answer:
            scheduler.step(sum(losses) / len(losses))
            # given:
            # for loss in losses:
            #     scheduler.step(loss)
            # end
        return optimizer.param_groups[0]["lr"]

    assert end_rate([[8.0, 2.0], [2.0, 2.0, 8.0], [2.0, 2.0, 2.0, 8.0]]) == 1.0
    assert end_rate([[8.0, 1.0, 3.0], [1.0, 8.0, 3.0], [2.0, 2.0, 8.0]]) == 0.5


@koan(
    see="torch.optim.lr_scheduler.LambdaLR",
    hint=[
        "What a LambdaLR wants is a factor. Who multiplies it with the rate?",
        "step is 0 when the optimizer steps for the first time. A rate of 0 is a step for nothing.",
        "After the warm-up the factor must not grow any more.",
    ],
    why=(
        "The function gives a factor of the base rate, for a counter that begins at 0. So count "
        "from one, and stop at one. Then the full rate stands in one place: the optimizer."
    ),
    wrong={
        "return min(1.0, step / warmup)": "The first step is taken with a rate of zero.",
        "return 2.0 * min(1.0, (step + 1) / warmup)": (
            "Some say the function gives the rate itself. Then the rate comes in twice."
        ),
        "return (step + 1) / warmup": "Nothing stops it: it warms up forever.",
        "return 1.0 if step >= warmup else 1.0 / warmup": "A jump. It should rise in equal parts.",
    },
    right=[
        "return (step + 1) / warmup if step < warmup else 1",
        "return min(step + 1, warmup) / warmup",
    ],
    at={
        "rates(4)": (
            "Four steps of warm-up, to a full rate of 2. Print the six rates: how does it begin, "
            "when is it full, does it stay?"
        ),
        "rates(2)": (
            "A warm-up of four steps is right, and one of two steps is not. Which number should "
            "follow from `warmup`?"
        ),
    },
)
def test_warm_up():
    """Write the function for LambdaLR: the rate rises in equal parts, is full at step number
    `warmup`, and stays. The first step counts, too."""

    def rates(warmup):
        def factor(step):
            # answer:
            return min(1.0, (step + 1) / warmup)
            # end

        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=2.0)
        scheduler = lr_scheduler.LambdaLR(optimizer, factor)
        seen = []
        for _ in range(6):
            seen.append(scheduler.get_last_lr()[0])
            optimizer.step()
            scheduler.step()
        return seen

    assert rates(4) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert rates(2) == [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]


@koan(
    see="torch.optim.lr_scheduler.LRScheduler.load_state_dict",
    hint=[
        "Print the rate in the optimizer after each line that builds or loads something.",
        "To build a scheduler is not harmless: it sets the first rate of its schedule.",
        "Build everything, then load everything.",
    ],
    why=(
        "The optimizer's state brings the rate, but a new scheduler writes the first rate of its "
        "schedule over it, and loading its counter does not undo that. First build both, as on "
        "the first day, then load both. (The function of a LambdaLR is not saved at all.)"
    ),
    wrong={
        "scheduler = lr_scheduler.LambdaLR(optimizer, shrunk)\n"
        "scheduler.load_state_dict(saved['scheduler'])": (
            "The counter is right. The rate is a number of the optimizer, and that one is new."
        ),
        "scheduler = lr_scheduler.LambdaLR(optimizer, shrunk)\n"
        "optimizer.load_state_dict(saved['optimizer'])": (
            "The first rate is right, and then the schedule begins anew."
        ),
        "optimizer.load_state_dict(saved['optimizer'])\n"
        "scheduler = lr_scheduler.LambdaLR(optimizer, shrunk, last_epoch=epochs)": (
            "A counter by hand: it is moved by one when the scheduler is built."
        ),
        "optimizer.load_state_dict(saved['optimizer'])\n"
        "scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)": (
            "The first rate is right. But this is another schedule than the one that was saved."
        ),
    },
    right=[
        "scheduler = lr_scheduler.LambdaLR(optimizer, shrunk)\n"
        "scheduler.load_state_dict(saved['scheduler'])\n"
        "optimizer.load_state_dict(saved['optimizer'])",
        "optimizer.load_state_dict(saved['optimizer'])\n"
        "scheduler = lr_scheduler.LambdaLR(optimizer, shrunk, last_epoch=epochs - 1)",
    ],
    at={
        "list(rates(3": (
            "These are the rates of the three epochs after the stop. Print them beside `after`: "
            "does the first one differ already, or only a later one?"
        ),
        "scheduler.last_epoch": (
            "The rates are right. But the scheduler's own counter is not: what does it know of "
            "the epochs before the stop?"
        ),
    },
)
def test_the_rate_after_a_restart():
    """After three epochs the rate was 1/4. Everything is loaded, and still the next epoch begins
    with another rate. Repair the marked lines: a stop after one epoch must work, too."""

    def shrunk(epoch):
        return 1 / (1 + epoch)

    def rates(epochs, optimizer, scheduler):
        for _ in range(epochs):
            yield optimizer.param_groups[0]["lr"]
            optimizer.step()
            scheduler.step()

    for epochs, after in ((3, [1 / 4, 1 / 5, 1 / 6]), (1, [1 / 2, 1 / 3, 1 / 4])):
        first, optimizer = (torch.optim.SGD([nn.Parameter(torch.ones(1))], 1.0) for _ in "12")
        plan = lr_scheduler.LambdaLR(first, shrunk)
        assert len(list(rates(epochs, first, plan))) == epochs
        saved = {"optimizer": first.state_dict(), "scheduler": plan.state_dict()}
        # answer:
        scheduler = lr_scheduler.LambdaLR(optimizer, shrunk)
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        # given:
        # optimizer.load_state_dict(saved["optimizer"])
        # scheduler = lr_scheduler.LambdaLR(optimizer, shrunk)
        # scheduler.load_state_dict(saved["scheduler"])
        # end
        assert list(rates(3, optimizer, scheduler)) == after
        assert scheduler.last_epoch == epochs + 3


@koan(
    see="torch.optim.lr_scheduler.LambdaLR",
    hint=[
        "The scheduler is called once per step. From the counter you can tell the epoch.",
        "The factor is a product: one part for the warm-up, one for the epochs that are over.",
        "Which of the two steps comes first?",
    ],
    why=(
        "One scheduler with one clock, the counter of steps: epochs follow from it by a division. "
        "The optimizer steps first, the factor scales whatever rate each group was given, and the "
        "returned scheduler knows the rate of the step that would come next."
    ),
    wrong={
        "scheduler = lr_scheduler.LambdaLR(optimizer, lambda i: min(1, (i + 1) / warmup))\n"
        "for _ in range(epochs):\n"
        "    for _ in range(batches):\n"
        "        optimizer.step()\n"
        "        scheduler.step()\n"
        "    for group in optimizer.param_groups:\n"
        "        group['lr'] *= 0.5\n"
        "return scheduler": "A rate set by hand, under a schedule that starts from the base rate.",
        "warm = lr_scheduler.LambdaLR(optimizer, lambda i: min(1, (i + 1) / warmup))\n"
        "fall = lr_scheduler.StepLR(optimizer, batches, 0.5)\n"
        "for _ in range(epochs * batches):\n"
        "    optimizer.step()\n"
        "    warm.step()\n"
        "    fall.step()\n"
        "return fall": "LambdaLR starts from the base rate, and writes over what the other did.",
        "factor = lambda i: min(1, (i + 1) / warmup) * 0.5 ** (i // batches)\n"
        "scheduler = lr_scheduler.LambdaLR(optimizer, factor)\n"
        "for _ in range(epochs * batches):\n"
        "    scheduler.step()\n"
        "    optimizer.step()\n"
        "return scheduler": "The first rate of the schedule is skipped.",
        "factor = lambda i: min(1, i / warmup) * 0.5 ** (i // batches)\n"
        "scheduler = lr_scheduler.LambdaLR(optimizer, factor)\n"
        "for _ in range(epochs * batches):\n"
        "    optimizer.step()\n"
        "    scheduler.step()\n"
        "return scheduler": "The counter begins at 0, so the first step moves nothing.",
        "factor = lambda i: min(1, (i + 1) / warmup) * 0.5 ** i\n"
        "scheduler = lr_scheduler.LambdaLR(optimizer, factor)\n"
        "for _ in range(epochs):\n"
        "    for _ in range(batches):\n"
        "        optimizer.step()\n"
        "    scheduler.step()\n"
        "return scheduler": "Called once per epoch, it cannot warm up batch by batch.",
    },
    right=[
        "factor = lambda i: min(1, (i + 1) / warmup) * 0.5 ** (i // batches)\n"
        "scheduler = lr_scheduler.LambdaLR(optimizer, factor)\n"
        "for _ in range(epochs):\n"
        "    for _ in range(batches):\n"
        "        optimizer.step()\n"
        "        scheduler.step()\n"
        "return scheduler",
        "warm = lr_scheduler.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1)\n"
        "fall = lr_scheduler.StepLR(optimizer, batches, 0.5)\n"
        "for _ in range(epochs * batches):\n"
        "    optimizer.step()\n"
        "    warm.step()\n"
        "    fall.step()\n"
        "return fall",
    ],
    at={
        "get_last_lr()": (
            "Here what you return is asked for the rates of the next step, as a scheduler is. It "
            "cannot answer."
        ),
        "fast == 8 * slow": (
            "The second group began with a rate eight times as high. It should stay so in every "
            "step: print the pairs in `used`."
        ),
        "rates(3, 2, 2)": (
            "Both groups go together. Now print the rates, step by step: is it the warm-up, the "
            "halving, or the number of steps?"
        ),
        "rates(2, 3, 4)": (
            "The first plan is right. In this one the warm-up is longer than an epoch: what is "
            "the rate when both are at work?"
        ),
    },
)
def test_warm_by_the_batch_and_fall_by_the_epoch():
    """Write `train`: `epochs` times `batches` optimizer steps. The rates warm up over the first
    `warmup` steps, and are halved for each epoch that is over. Return a scheduler that knows the
    rates of the next step."""

    def train(optimizer, epochs, batches, warmup):
        # answer:
        def factor(step):
            return min(1.0, (step + 1) / warmup) * 0.5 ** (step // batches)

        scheduler = lr_scheduler.LambdaLR(optimizer, factor)
        for _ in range(epochs * batches):
            optimizer.step()
            scheduler.step()
        return scheduler
        # end

    def rates(*args):
        groups = [{"params": [nn.Parameter(torch.zeros(()))], "lr": lr} for lr in (1.0, 8.0)]
        optimizer, used = torch.optim.SGD(groups), []
        optimizer.register_step_pre_hook(
            lambda opt, *_: used.append([group["lr"] for group in opt.param_groups])
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            used.append(train(optimizer, *args).get_last_lr())
        assert all(fast == 8 * slow for slow, fast in used)
        return [slow for slow, _ in used]

    assert rates(3, 2, 2) == [0.5, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert rates(2, 3, 4) == [0.25, 0.5, 0.75, 0.5, 0.5, 0.5, 0.25]
