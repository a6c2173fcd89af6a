"""A mixed loop: autocast and the scaler, and everything else that belongs to a training step.

Documents: A 5.1
"""

import copy
import warnings
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from sensei import answer, koan


def in_float32(net, x, y):
    """What the parameters would be after a step without mixed precision (lr 0.1, norm 1)."""
    other = copy.deepcopy(net)
    grads = torch.autograd.grad(F.mse_loss(other(x), y), tuple(other.parameters()))
    norm = torch.cat([grad.flatten() for grad in grads]).norm()
    return [p - 0.1 * grad / max(norm, 1.0) for p, grad in zip(other.parameters(), grads)]


@koan(
    claims=["A-5.1-90", "A-5.1-15"],
    see="torch.amp.GradScaler",
    hint=[
        "linear ran in float16, so the gradient of its output has to fit into float16, too.",
        "Multiply each slope by 2**16. The largest float16 number is 65504.",
    ],
    why=(
        "65536 is more than 65504: with slope 1 the gradient is inf, the step is skipped and the "
        "scale halved. The scale moves a window; small gradients come in, large ones drop out. So "
        "the first step of a healthy model may well be skipped, and that is how it finds its scale."
    ),
    wrong={
        "[0.0, 65536.0, 0.5, 65536.0]": (
            "Some say that the scale brings gradients into the range of float16. It moves them up, "
            "all of them. What is at the upper end?"
        ),
        "[1.0, 65536.0, 0.5, 65536.0]": "The step is skipped. And who learns from it?",
        "[0.0, 32768.0, 0.5, 65536.0]": "If the step is bad, it is not taken at all.",
        "[1.0, 32768.0, 1.0, 32768.0]": "One of the two products fits, just so.",
    },
)
def test_the_very_first_step():
    """A fresh scaler, and slopes that are not wild at all: 1 and 0.5. Each starts at weight 1.

    Predict weight and scale after one step, for both slopes.
    """
    seen = []
    for slope in (1.0, 0.5):
        weight = nn.Parameter(torch.ones(1, 1))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler = torch.amp.GradScaler("cpu")
        with torch.autocast("cpu", dtype=torch.float16):
            output = F.linear(torch.ones(1, 1), weight)
        scaler.scale(output.float().sum() * slope).backward()
        scaler.step(optimizer)
        scaler.update()
        seen += [weight.item(), scaler.get_scale()]
    assert seen == answer([1.0, 32768.0, 0.5, 65536.0])


@koan(
    claims=["A-5.1-09", "A-5.1-19"],
    see="torch.amp.GradScaler.unscale_",
    hint=[
        "Print the norm that the clipping sees. Is a factor still in it, or not?",
        "step() divides, but when? There is a call that lets you have it earlier.",
        "The step must still be the scaler's, or nobody stops at an infinite gradient.",
    ],
    why=(
        "Clipping saw gradients 65536 times too large, cut them to norm 1, and then step() "
        "divided: steps of nearly nothing, without a word. unscale_ divides now and keeps what "
        "its check found; step() then does not divide again."
    ),
    wrong={
        "scaler.step(optimizer)\nclip_grad_norm_([weight], 1.0)": (
            "step() has unscaled by then, true. But it has also stepped: this clips what nobody "
            "uses any more."
        ),
        "scaler.unscale_(optimizer)\nclip_grad_norm_([weight], 1.0)\noptimizer.step()": (
            "Clipped well. But the infinite gradient goes through: no one asks the scaler."
        ),
        "weight.grad /= scaler.get_scale()\n"
        "clip_grad_norm_([weight], 1.0)\n"
        "scaler.step(optimizer)": (
            "You know that you have divided. The scaler does not, and divides once more."
        ),
        "scaler.unscale_(optimizer)\nscaler.step(optimizer)\nclip_grad_norm_([weight], 1.0)": (
            "Unscaled, used, and then clipped."
        ),
        "clip_grad_norm_([weight], 1.0)\nscaler.unscale_(optimizer)\nscaler.step(optimizer)": (
            "Some say step() unscales anyway, so the order does not matter. The clipping still "
            "sees the large numbers."
        ),
    },
    right=[
        "clip_grad_norm_([weight], scaler.get_scale())\nscaler.step(optimizer)",
        "scaler.unscale_(optimizer)\n"
        "norm = clip_grad_norm_(weight, max_norm=1)\n"
        "scaler.step(optimizer)",
    ],
    at={
        "scaler.update()": (
            "update() wants to know whether the gradients were finite. Since the last update the "
            "scaler has checked none."
        ),
        "assert path ==": (
            "The weight goes another way. A gradient longer than 1 is cut to 1, a short one "
            "stays, an infinite one makes no step."
        ),
        "scaler.get_scale() == 32768.0": (
            "The path is right. But the scale should have come down once, after the infinite "
            "gradient."
        ),
    },
)
def test_steps_that_hardly_move():
    """No step may be longer than 1. These are far too short: the weight hardly moves.

    Repair the marked lines. (The third gradient is infinite on purpose.)
    """
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu")
    path = []
    for slope in torch.tensor([[30.0, 40.0], [0.3, 0.4], [float("inf"), 1.0], [-40.0, 30.0]]):
        optimizer.zero_grad()
        loss = (weight * slope).sum()
        scaler.scale(loss).backward()
        # answer:
        scaler.unscale_(optimizer)
        clip_grad_norm_([weight], 1.0)
        scaler.step(optimizer)
        # given:
        # clip_grad_norm_([weight], 1.0)
        # scaler.step(optimizer)
        # end
        scaler.update()
        path.append([round(number, 3) for number in weight.tolist()])
    assert path == [[-0.6, -0.8], [-0.9, -1.2], [-0.9, -1.2], [-0.1, -1.8]]
    assert scaler.get_scale() == 32768.0


@koan(
    claims=["A-5.1-09"],
    see="torch.amp.GradScaler.unscale_",
    hint=[
        "What is in .grad when the second backward adds to it? And what does that one add?",
        "The state is 'unscaled'. Does step() divide again?",
    ],
    why=(
        "unscale_ left 3 in .grad, the second backward added 4 * 3, and step() believed that all "
        "was unscaled: 15. Two units in one sum, and no error. Unscale when the last backward of "
        "a window is done; and keep one scale for the whole window: update() only at its end."
    ),
    wrong={
        "[3.0, -6.0]": (
            "So it should be. But the second backward does not know that the first was divided."
        ),
        "[3.0, -3.75]": "That would be step() dividing all of it. It thinks that is done.",
        "[12.0, -6.0]": "The look comes after unscale_.",
        "[3.0, -24.0]": "The first gradient was divided, before the second came.",
        "[3.0, -12.0]": "backward adds to what is there.",
    },
)
def test_a_look_between_two_backwards():
    """Two backwards make one step, each with slope 3. In between, somebody has a look.

    Predict what they see, and the weight after the step.
    """
    weight = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight * 3).backward()
    scaler.unscale_(optimizer)
    look = weight.grad.item()
    scaler.scale(weight * 3).backward()
    scaler.step(optimizer)
    scaler.update()
    assert [look, weight.item()] == answer([3.0, -15.0])


@koan(
    see="torch.amp.GradScaler.state_dict",
    hint=[
        "A run is more than its weights. Print the scales of both runs: which number begins anew?",
        "The scale alone is not enough: the good steps in a row are counted, too.",
        "The scaler has the two methods that the net and the optimizer have.",
    ],
    why=(
        "The scaler has learned something: the scale, and how many good steps it has seen. Without "
        "it a resumed run starts at the first scale and skips its way down again. Save after "
        "update(), and load it as you load the optimizer. (The settings come back as well, and win "
        "over what the constructor was told.)"
    ),
    wrong={
        (
            "torch.save([net.state_dict(), optimizer.state_dict(), scaler.get_scale()], path)",
            "saved = torch.load(path)\n"
            "net.load_state_dict(saved[0])\n"
            "optimizer.load_state_dict(saved[1])\n"
            "scaler = torch.amp.GradScaler('cpu', init_scale=saved[2], growth_interval=3)",
        ): "The scale is back. The count of good steps is not, so it grows too late.",
        (
            "torch.save([net.state_dict(), optimizer.state_dict(), scaler], path)",
            "saved = torch.load(path)\n"
            "net.load_state_dict(saved[0])\n"
            "optimizer.load_state_dict(saved[1])\n"
            "scaler = saved[2]",
        ): "A whole object in the file asks for trust, and torch.load grants none by default.",
        (
            "torch.save([net.state_dict(), optimizer.state_dict(), scaler.state_dict()], path)",
            "saved = torch.load(path)\n"
            "net.load_state_dict(saved[0])\n"
            "optimizer.load_state_dict(saved[1])",
        ): "Saved, and never loaded.",
        (
            "torch.save([net.state_dict(), scaler.state_dict()], path)",
            "saved = torch.load(path)\n"
            "net.load_state_dict(saved[0])\n"
            "scaler.load_state_dict(saved[1])",
        ): "Now the momentum is missing.",
    },
    right=[
        (
            "torch.save({'net': net.state_dict(), 'opt': optimizer.state_dict(), "
            "'scaler': scaler.state_dict()}, path)",
            "saved = torch.load(path, weights_only=True)\n"
            "net.load_state_dict(saved['net'])\n"
            "optimizer.load_state_dict(saved['opt'])\n"
            "scaler.load_state_dict(saved['scaler'])",
        ),
    ],
    at={
        "assert seen ==": (
            "The resumed run and the run in one piece differ. Print both: is it the weight or "
            "the scale that differs first?"
        ),
    },
)
def test_a_run_that_goes_on_tomorrow(tmp_path):
    """A run that was stopped and resumed must go on as if nothing had happened.

    Here it does not. Repair both marked places.
    """
    path, inf = tmp_path / "run.pt", float("inf")

    def build():
        net = nn.Linear(1, 1)
        nn.init.ones_(net.weight)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
        return net, optimizer, torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    def train(net, optimizer, scaler, slopes):
        for slope in slopes:
            optimizer.zero_grad()
            scaler.scale(net.weight.sum() * slope).backward()
            scaler.step(optimizer)
            scaler.update()
            yield net.weight.item(), scaler.get_scale()

    slopes = [1.0, inf, 2.0, 1.0, 4.0, 1.0, 1.0]
    for stop in (2, 4):
        net, optimizer, scaler = build()
        seen = list(train(net, optimizer, scaler, slopes[:stop]))
        # answer:
        states = [part.state_dict() for part in (net, optimizer, scaler)]
        torch.save(states, path)
        # given:
        # torch.save([net.state_dict(), optimizer.state_dict()], path)
        # end
        net, optimizer, scaler = build()
        # answer:
        for part, state in zip((net, optimizer, scaler), torch.load(path)):
            part.load_state_dict(state)
        # given:
        # saved = torch.load(path)
        # net.load_state_dict(saved[0])
        # optimizer.load_state_dict(saved[1])
        # end
        seen += train(net, optimizer, scaler, slopes[stop:])
        assert seen == list(train(*build(), slopes))


@koan(
    see="torch.autocast",
    hint=[
        "In float16, what is smaller than 6e-8 may become zero. Where does bfloat16 end?",
        "bfloat16 has as many bits for the exponent as float32. Is there anything to rescue?",
        "Does a scaler harm where it is not needed?",
    ],
    why=(
        "1e-8 is below the smallest float16, so without a scaler nothing arrives. bfloat16 reaches "
        "as far down as float32, with fewer digits: no scaler is needed, and one that is there "
        "changes nothing here. One loop serves both: GradScaler(enabled=dtype is torch.float16)."
    ),
    wrong={
        "[(torch.float16, True), (torch.bfloat16, True)]": (
            "Some say each 16-bit dtype needs a scaler. 16 bits can be spent in two ways."
        ),
        "[(torch.float16, True), (torch.bfloat16, False)]": (
            "Multiplied and divided by a power of two: what should be lost in it?"
        ),
        "[(torch.bfloat16, False), (torch.bfloat16, True)]": (
            "The scale is there to lift such a gradient. Do the multiplication."
        ),
        "[(torch.float16, True)]": "A dtype can reach far down without any help.",
        "[(torch.float16, False), (torch.float16, True), "
        "(torch.bfloat16, False), (torch.bfloat16, True)]": (
            "One of them gets a gradient of zero. Which dtype has the narrow range?"
        ),
    },
    right=["[(torch.half, True), (torch.bfloat16, False), (torch.bfloat16, True)]"],
)
def test_four_loops_and_a_tiny_gradient():
    """Two dtypes, each without a scaler and with one. The gradient is 1e-8.

    In which loops does the weight move? Write a list of (dtype, enabled), in order.
    """
    moved = []
    for dtype, enabled in product((torch.float16, torch.bfloat16), (False, True)):
        weight = nn.Parameter(torch.ones(1, 1))
        optimizer = torch.optim.SGD([weight], lr=1e8)
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        with torch.autocast("cpu", dtype=dtype):
            output = F.linear(torch.ones(1, 1), weight)
        scaler.scale(output.float().sum() * 1e-8).backward()
        scaler.step(optimizer)
        if weight.item() != 1.0:
            moved.append((dtype, enabled))
    assert moved == answer([(torch.float16, True), (torch.bfloat16, False), (torch.bfloat16, True)])


@koan(
    see="torch.amp.GradScaler",
    hint=[
        "A warning has a category, and a category is a kind of exception.",
        "Python hides one kind of warning from most users. This one they are meant to see.",
    ],
    why=(
        "The old names still work, and each announces its end with a FutureWarning: the kind that "
        "Python shows to everybody, while it mostly hides a DeprecationWarning. Write "
        "torch.amp.GradScaler('cuda') and torch.autocast('cuda'): the device became an argument."
    ),
    wrong={
        "DeprecationWarning": (
            "The usual kind for such news. But it is made for those who write libraries, and "
            "Python does not show it to most users."
        ),
        "UserWarning": "There is a more exact kind for what is going to end.",
        "AttributeError": "The names are still there, in torch.cuda.amp.",
        "PendingDeprecationWarning": "The time of mere plans is over.",
        "RuntimeWarning": "Nothing odd happens while it runs. It is the name that is old.",
    },
)
def test_two_names_from_yesterday():
    """Many tutorials use these two names. They still work, but not where warnings are errors.

    Which exception does each of them raise here?
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Exception) as caught:
            torch.cuda.amp.GradScaler(enabled=False)
        with pytest.raises(Exception) as another:
            torch.cuda.amp.autocast(enabled=False)
    assert another.type is caught.type
    assert caught.type is answer(FutureWarning)


@koan(
    see="torch.amp.GradScaler.unscale_",
    hint=[
        "The gradients are float16 as well, and dividing them brings back what scaling prevented.",
        "The optimizer is a fine object of the right class. What is bad is what it holds.",
    ],
    why=(
        "'Attempting to unscale FP16 gradients': divided by the scale, the small ones would be "
        "zero again, in float16. The scaler wants float32 weights and their float32 gradients. "
        "So leave the net as it is; autocast makes the float16 copies."
    ),
    wrong={
        "RuntimeError": "It is the scaler's word for a wrong order. The order is right.",
        "TypeError": "A tensor is a tensor, whatever its dtype.",
        "AssertionError": "It is not that something was forgotten before.",
        "OverflowError": "Nothing has overflown here: the scale is 8.",
    },
)
def test_a_net_cut_in_half():
    """To save even more, somebody also makes the weights float16. Which exception does it raise?"""
    net = nn.Linear(2, 1).half()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    loss = net(torch.ones(4, 2).half()).float().mean()
    scaler.scale(loss).backward()
    with pytest.raises(Exception) as caught:
        scaler.step(optimizer)
    assert caught.type is answer(ValueError)


@pytest.mark.gpu
@koan(
    claims=["A-5.1-02"],
    see="torch.amp.GradScaler.state_dict",
    hint=[
        "A loss on the GPU is multiplied. Where does the product live?",
        "The state_dict should open on any machine. What would you put into it?",
    ],
    why=(
        "With CUDA, GradScaler() is enabled. It keeps its scale as a tensor beside the loss, so "
        "that scaling never waits for the GPU. state_dict() and get_scale() fetch it as a plain "
        "Python number: they wait, and the checkpoint opens anywhere."
    ),
    wrong={
        '["cuda", torch.Tensor]': (
            "Inside it is a tensor, true. But what is handed out for the checkpoint is not."
        ),
        '["cpu", float]': "The loss does not travel to be multiplied.",
        '["cpu", torch.Tensor]': "Loss and scale are on the GPU. What would a checkpoint want?",
    },
)
def test_where_the_scale_lives():
    """A scaler with its default device, and a loss on the GPU.

    Write the device type of the scaled loss, and the Python type of the scale in the state_dict.
    """
    scaler = torch.amp.GradScaler()
    loss = torch.ones((), device="cuda") * 3
    scaled = scaler.scale(loss)
    assert scaler.is_enabled()
    assert scaled.item() == 3 * scaler.get_scale()
    state = scaler.state_dict()
    assert [scaled.device.type, type(state["scale"])] == answer(["cuda", float])


@pytest.mark.gpu
@koan(
    claims=["A-5.1-19"],
    see="torch.amp.GradScaler.scale",
    hint=[
        "Print weight.grad. How small may a float16 number be, and how small is the slope?",
        "Lift the loss before backward. Who brings the gradient down again?",
        "Three calls of a scaler take the place of the two marked lines.",
    ],
    why=(
        "The output is float16, so its gradient of 1e-9 became zero, without a word. Times 65536 "
        "it fits; step() divides in float32, where small numbers are welcome."
    ),
    wrong={
        "(loss * 65536).backward()\noptimizer.step()": (
            "It moves, but 65536 times too far: nobody divides."
        ),
        "scaler = torch.amp.GradScaler('cuda')\nscaler.scale(loss).backward()\noptimizer.step()": (
            "Scaled, and then the optimizer's own step: the gradients still carry the scale."
        ),
        "loss.double().backward()\noptimizer.step()": (
            "The loss is not the narrow place. The output is."
        ),
        "scaler = torch.amp.GradScaler('cuda')\nloss.backward()\nscaler.step(optimizer)": (
            "The scaler has scaled nothing, and says so."
        ),
    },
    right=[
        "(loss * 65536).backward()\nweight.grad /= 65536\noptimizer.step()",
        "scaler = torch.amp.GradScaler()\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()",
    ],
)
def test_a_slope_too_small_for_half():
    """The weight should move by minus the slope, times 1e9, but it stays where it is.

    Repair the marked lines; the optimizer stays as it is.
    """
    for slope in (1e-9, 4e-9):
        weight = nn.Parameter(torch.zeros(8, 8, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=1e9)
        with torch.autocast("cuda", dtype=torch.float16):
            output = F.linear(torch.eye(8, device="cuda"), weight)
        loss = output.float().sum() * slope
        # answer:
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        # given:
        # loss.backward()
        # optimizer.step()
        # end
        assert weight.tolist() == [[pytest.approx(-slope * 1e9, rel=0.01)] * 8] * 8


@koan(
    claims=["A-5.1-19"],
    see="torch.amp.GradScaler",
    hint=[
        "First write the four lines of a loop in float32. Then: which of them go into autocast?",
        "Clipping wants true gradients. Which call comes before it?",
        "Autocast covers forward and loss, and ends before backward. The last line adapts.",
    ],
    why=(
        "Clear; forward and loss in autocast; backward of the scaled loss outside; unscale, clip, "
        "step through the scaler, update. backward stays outside: there each operation runs in "
        "the dtype of its forward, in the block its products would be cast again. The third batch "
        "overflows, and the net does not even notice."
    ),
    wrong={
        "optimizer.zero_grad()\n"
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "    scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()": "backward ran inside autocast. Let the block end before it.",
        "optimizer.zero_grad()\n"
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()": "What was clipped still carried the scale, so the steps are tiny.",
        "optimizer.zero_grad()\n"
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "optimizer.step()\n"
        "scaler.update()": "Who stops this optimizer when the gradients are not finite?",
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()": "The old gradients are still there when the new ones come.",
        "optimizer.zero_grad()\n"
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)": "The second batch will be refused: the round was never closed.",
        "optimizer.zero_grad()\n"
        'with torch.autocast("cpu"):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()": "On the CPU, autocast prefers another 16-bit dtype. Say which you want.",
        "optimizer.zero_grad()\n"
        "loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()": "All right, but in float32: there is nothing mixed about it.",
        "for group in optimizer.param_groups:\n"
        '    group["lr"] = 0.1 / scaler.get_scale()\n'
        "optimizer.zero_grad()\n"
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "optimizer.step()": (
            "A learning rate divided by the scale makes up for the factor, with plain SGD. Who "
            "clips, and who stops at an inf?"
        ),
    },
    right=[
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    output = net(x)\n"
        "loss = F.mse_loss(output.float(), y)\n"
        "net.zero_grad()\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()\n"
        "return loss.item()",
        'with torch.autocast("cpu", dtype=torch.float16):\n'
        "    loss = torch.nn.MSELoss()(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()\n"
        "optimizer.zero_grad(set_to_none=True)",
    ],
    at={
        "assert seen ==": (
            "`seen` notes the dtype that leaves the net, then whether autocast was on in "
            "backward. Print it."
        ),
        "torch.testing.assert_close(": (
            "Forward and backward run as they should. But the net should move as in float32, "
            "and not at all at an overflow. Which batch fails?"
        ),
        "scaler.get_scale() == 512.0": (
            "The net moves as it should. But the scale should have come down once, at the "
            "batch that overflows."
        ),
    },
)
def test_write_a_mixed_step():
    """Write one step with float16 autocast on the CPU, mse_loss, and a gradient of norm 1 at most.

    It moves the net as float32 would, nearly, and not at all when gradients overflow.
    """

    def step(net, optimizer, scaler, x, y):
        # answer:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        # end

    for net in (nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        weight, inputs = next(net.parameters()), torch.linspace(-1, 1, 12).view(4, 3)
        for x, goal in zip((inputs, inputs, inputs, inputs + 1), (9.0, 0.2, 1e9, 0.2)):
            seen, y = [], net(x).detach() + goal
            wanted = list(net.parameters()) if goal > 10 else in_float32(net, x, y)
            wanted = [p.detach().clone() for p in wanted]
            with (
                net.register_forward_hook(lambda *said: seen.append(said[-1].dtype)),
                weight.register_hook(lambda _: seen.append(torch.is_autocast_enabled("cpu"))),
            ):
                step(net, optimizer, scaler, x, y)
            assert seen == [torch.float16, False]
            torch.testing.assert_close(list(net.parameters()), wanted, atol=1e-3, rtol=0.0)
        assert scaler.get_scale() == 512.0
