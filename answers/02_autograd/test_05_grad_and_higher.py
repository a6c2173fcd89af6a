"""autograd.grad: gradients as return values, and gradients of gradients.

Documents: A 3.2, B 1
"""

import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from sensei import answer, koan


@koan(
    claims=["A-3.2-13"],
    see="torch.autograd.grad",
    hint=[
        "grad can be asked for the gradients of several tensors at once.",
        "In what does Python hand over several values at once? Can 0.1 multiply such a thing?",
    ],
    why=(
        "It returns a tuple, one gradient per input, also for a single input. Unpack it: "
        "(slope,) = torch.autograd.grad(loss, weight)."
    ),
    wrong={
        "RuntimeError": (
            "PyTorch has no complaint: one call needs no retain_graph. It is Python that objects."
        ),
        "AttributeError": "No attribute is asked for. What is multiplied here?",
        "ValueError": "Its value is fine. It is a matter of what kind of thing it is.",
    },
)
def test_a_tenth_of_a_gradient():
    """Compute a gradient and take a tenth of it, in one line. Which exception comes back?"""
    weight = torch.tensor(3.0, requires_grad=True)
    loss = weight**2
    with pytest.raises(Exception) as caught:
        0.1 * torch.autograd.grad(loss, weight)
    assert caught.type is answer(TypeError)


@koan(
    claims=["A-3.2-14", "A-3.2-15"],
    see="torch.autograd.grad",
    hint=[
        "The walk from z to x passes y. Can grad tell what it saw on the way?",
        "Does a function that returns something also have to store it?",
    ],
    why=(
        "Both use one engine. grad returns what you ask for, for leaves and results alike, "
        "and stores nothing: no .grad anywhere is touched."
    ),
    wrong={
        "[3.0, 12.0, 12.0]": "It is backward() that fills .grad. grad hands the gradients to you.",
        "[0.0, 12.0, None]": "y is a result, but you may ask for it, without retain_grad().",
        "[3.0, 4.0, None]": "From y back to x the slope is 4. From z it is a longer way.",
    },
)
def test_gradients_handed_over():
    """Ask for the gradients of z, at y and at x. Then look at x.grad."""
    x = torch.tensor(2.0, requires_grad=True)
    y = x**2
    z = y * 3
    at_y, at_x = torch.autograd.grad(z, (y, x))
    assert [at_y.item(), at_x.item(), x.grad] == answer([3.0, 12.0, None])


@koan(
    claims=["A-3.2-14"],
    see="torch.autograd.grad",
    hint=[
        "Not used at all: is that the number zero, or is it more likely a mistake of yours?",
        "allow_unused says honestly what was found. materialize_grads makes numbers of it.",
    ],
    why=(
        "By default an unused input is an error, since it is mostly a slip. allow_unused gives "
        "None, and materialize_grads turns that None into zeros of the right shape."
    ),
    wrong={
        "[0.0, 0.0, 0.0]": "Mathematics says zero. PyTorch first asks whether you meant it.",
        "[None, None, 0.0]": "Without an option it does not stay silent.",
        '["refused", 0.0, 0.0]': "Allowed is not yet a number: nothing arrived, and it says so.",
        '["refused", None, "refused"]': "Asking for zeros allows the unused input as well.",
    },
)
def test_an_input_that_was_not_used():
    """The loss does not depend on w. Ask for its gradient with three sets of options.

    Write what comes back; "refused" if PyTorch raises.
    """
    x, w = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
    found = []
    for options in ({}, {"allow_unused": True}, {"materialize_grads": True}):
        try:
            (at_w,) = torch.autograd.grad(x * 2, w, **options)
        except RuntimeError:
            at_w = "refused"
        found.append(at_w)
    assert found == answer(["refused", None, 0.0])


@koan(
    claims=["A-3.2-17", "A-3.2-18"],
    see="torch.autograd.backward",
    hint=[
        "sin runs in the forward. The slope of sin is cos, so it runs in each walk back.",
        "When is a graph built: by the forward, or by backward?",
        "How many walks does a sum of two losses need?",
    ],
    why=(
        "The forward builds the graph, once. backward() and grad walk it, with the same nodes; "
        "neither builds anything. So one cannot be faster by saving a rebuild. If the sum of the "
        "gradients is all you need, one walk will do."
    ),
    wrong={
        ("[2, 2]", "[1, 2]", "[1, 1]"): (
            "Some say grad is faster, since each backward() builds the graph again. The "
            "profiler sees no second forward."
        ),
        ("[1, 2]", "[1, 1]", "[1, 1]"): "Two calls of grad are two walks, too.",
        ("[1, 2]", "[1, 2]", "[1, 2]"): "Two losses, but how often does the walk pass the sine?",
        ("[2, 2]", "[2, 2]", "[1, 1]"): "The sine is taken once. Its result serves both losses.",
    },
    at={
        "a.backward(retain_graph=True)": (
            "This line calls backward() once for each loss. How often does the forward run, and "
            "what must each walk back compute at the sine?"
        ),
        "grad(a, x, retain_graph=True)": (
            "The first way is right. grad hands out what backward() would store. Does that change "
            "the forward, or the number of walks?"
        ),
        "(a + b).backward()": (
            "The first two ways are right. Here the losses are added first. How many walks does "
            "that leave?"
        ),
    },
)
def test_count_the_work_of_two_losses():
    """Two losses share a sine. Count how often `sin` and `cos` run, for three ways back."""

    def ran(walk):
        x = torch.tensor(0.5, requires_grad=True)
        with torch.autograd.profiler.profile() as log:
            h = x.sin()
            walk(h * 2, h * 3, x)
        names = [event.name for event in log.function_events]
        return [names.count("aten::sin"), names.count("aten::cos")]

    grad = torch.autograd.grad
    assert ran(lambda a, b, x: [a.backward(retain_graph=True), b.backward()]) == answer([1, 2])
    assert ran(lambda a, b, x: [grad(a, x, retain_graph=True), grad(b, x)]) == answer([1, 2])
    assert ran(lambda a, b, x: (a + b).backward()) == answer([1, 1])


@koan(
    claims=["B-1-02"],
    see="torch.autograd.graph.Node.name",
    hint=[
        "The node is written in C++. Python gets a handle on it.",
        "You can ask who it is, follow its edges, listen. Can you read how it does its work?",
    ],
    why=(
        "Python sees handles: the name, the edges, hooks, saved tensors. The work itself is C++ "
        "and cannot be read or replaced from here; kernels, engine and allocator neither. To "
        "change a gradient, use a hook, or a Function of your own."
    ),
    wrong={
        '["name", "next_functions", "forward", "backward", "register_hook"]': (
            "Some say all the arithmetic is laid open as Python objects. The handles are."
        ),
        '["name", "next_functions", "backward", "register_hook"]': (
            "The class of a Function that you write has it. A node never has."
        ),
        '["name", "next_functions"]': "You may also listen to a node, and change what passes.",
    },
)
def test_what_a_node_shows_to_python():
    """Multiply, and take the node that will do the backward. List what it offers, in order."""
    node = (torch.ones(3, requires_grad=True) * 2).grad_fn
    names = ["name", "next_functions", "forward", "backward", "register_hook"]
    assert [name for name in names if hasattr(node, name)] == answer(
        ["name", "next_functions", "register_hook"]
    )


@koan(
    claims=["A-3.2-12"],
    see="torch.autograd.grad",
    hint=[
        "Two walks: from z to h, and from h to x. In between the gradient is in your hands.",
        "The second walk must start with what you hold. Which argument of grad is for that?",
    ],
    why=(
        "grad only returns gradients; it changes nothing that flows. But its result may start "
        "the next walk (grad_outputs). The two walks pass different nodes, so nothing has to be "
        "retained. A hook on h does the same in one walk."
    ),
    wrong={
        "(at_x,) = torch.autograd.grad(z, x)\nreturn at_x.clamp(-1, 1)": (
            "This limits the gradient at the end of the way, not in the middle."
        ),
        "(at_h,) = torch.autograd.grad(z, h)\nat_h.clamp_(-1, 1)\n"
        "return torch.autograd.grad(z, x)[0]": (
            "Some say grad intervenes in the flow. What it returns is yours alone, and what the "
            "first walk freed is gone."
        ),
        "(at_h,) = torch.autograd.grad(z, h, retain_graph=True)\nat_h.clamp_(-1, 1)\n"
        "return torch.autograd.grad(z, x)[0]": (
            "The second walk starts at z again. It has not heard of your change."
        ),
        "(at_h,) = torch.autograd.grad(z, h)\nh.backward(at_h.clamp(-1, 1))\nreturn x.grad": (
            "The right number, but it was stored, too."
        ),
    },
    right=[
        "h.register_hook(lambda gradient: gradient.clamp(-1, 1))\n"
        "return torch.autograd.grad(z, x)[0]",
        "(at_h,) = torch.autograd.grad(z, h, retain_graph=True)\n"
        "return torch.autograd.grad(h, x, at_h.clamp(-1, 1))[0]",
        "(at_h,) = torch.autograd.grad(z, h)\n"
        "return torch.autograd.grad((h * at_h.clamp(-1, 1)).sum(), x)[0]",
    ],
    at={
        "(h**2).sum()": (
            "Here h is 3 * x. What arrives at h is limited there; then it goes on to x, through "
            "the 3. One tensor should come back."
        ),
        "(5 * h).sum()": (
            "The first case is right. Here the slope from h to x differs from element to element, "
            "and nothing of the first case should be left over."
        ),
        "x.grad is None": (
            "The gradients are right. But something was stored in x.grad: which call of yours "
            "stores?"
        ),
    },
)
def test_step_in_half_way():
    """Write `careful`: the gradient of z at x, but what arrives at h is limited to -1 ... 1
    before it goes on. Store nothing in .grad."""

    def careful(z, h, x):
        # answer:
        (at_h,) = torch.autograd.grad(z, h)
        (at_x,) = torch.autograd.grad(h, x, grad_outputs=at_h.clamp(-1, 1))
        return at_x
        # end

    x = torch.tensor([2.0, 0.125, -1.0], requires_grad=True)
    h = 3 * x
    assert careful((h**2).sum(), h, x).tolist() == [3.0, 2.25, -3.0]
    h = x**2
    assert careful((5 * h).sum(), h, x).tolist() == [4.0, 0.25, -2.0]
    assert x.grad is None


@koan(
    claims=["A-3.2-13"],
    see="torch.autograd.grad",
    hint=[
        "The second call differentiates the first gradient. So that one needs a history.",
        "To keep a graph is one thing, to make one is another.",
    ],
    why=(
        "retain_graph keeps the graph of f for another walk. create_graph records the walk "
        "itself, so that the gradient is a result like any other and can be differentiated."
    ),
    wrong={
        "(slope,) = torch.autograd.grad(f(x), x)\nreturn torch.autograd.grad(slope, x)[0]": (
            "By default the walk is not recorded: the slope is a mere number."
        ),
        "(slope,) = torch.autograd.grad(f(x), x, retain_graph=True)\n"
        "return torch.autograd.grad(slope, x)[0]": (
            "The graph of f was kept. But the slope still has no history of its own."
        ),
        "y = f(x)\ntorch.autograd.grad(y, x, create_graph=True)\n"
        "return torch.autograd.grad(y, x)[0]": "Two walks from y: the same slope once more.",
    },
    right=[
        "f(x).backward(create_graph=True)\nreturn torch.autograd.grad(x.grad, x)[0]",
        "return torch.autograd.functional.hessian(f, x)",
        "return torch.func.grad(torch.func.grad(f))(x)",
    ],
    at={
        "lambda x: x**3": (
            "This line wants one number: how fast the slope of x**3 changes at 3, not the slope "
            "itself. What does `bend` return?"
        ),
        "lambda x: 1 / x": (
            "x**3 was right. This line asks for the bend of another curve: does `bend` work for "
            "any f?"
        ),
    },
)
def test_the_slope_of_the_slope():
    """Write `bend`: the second derivative of f at x. f is a curve, not a straight line."""

    def bend(f, x):
        # answer:
        (slope,) = torch.autograd.grad(f(x), x, create_graph=True)
        (change,) = torch.autograd.grad(slope, x)
        return change
        # end

    assert bend(lambda x: x**3, torch.tensor(3.0, requires_grad=True)).item() == 18.0
    assert bend(lambda x: 1 / x, torch.tensor(2.0, requires_grad=True)).item() == 0.25


@koan(
    see="torch.autograd.functional.jacobian",
    hint=[
        "One slope for each pair of an output element and an input element.",
        "The first index says which output. A hessian is the jacobian of a gradient.",
    ],
    why=(
        "The shape of the output, then the shape of the input, nothing flattened. The gradient "
        "has the shape of x, so the hessian has that shape twice."
    ),
    wrong={
        ("(3, 6)", "(6, 6)"): "A textbook flattens both into a matrix. PyTorch keeps the shapes.",
        ("(2, 3)", "(2, 3)"): "A gradient has the shape of x. This is one gradient per output.",
        ("(2, 3, 3)", "(2, 3, 2, 3)"): "The pairs are right. Which comes first?",
        ("(3, 2, 3)", "(2, 3)"): "This would be the second slope of each element by itself.",
    },
    right=[("torch.Size([3, 2, 3])", "torch.Size([2, 3, 2, 3])")],
    at={
        "first.shape": (
            "A jacobian holds one slope for each pair of an output element and an input element. "
            "Which shape has this output, and how are the pairs laid out?"
        ),
        "second.shape": (
            "The first shape is right. A hessian holds the slopes of a gradient. Which shape has "
            "that gradient, and which its input?"
        ),
    },
)
def test_the_shapes_of_all_slopes():
    """Collect all first slopes of one function, all second slopes of another. Which shapes?"""
    x = torch.ones(2, 3)
    first = jacobian(lambda x: x.sum(dim=0), x)
    second = hessian(lambda x: x.square().sum(), x)
    assert tuple(first.shape) == answer((3, 2, 3))
    assert tuple(second.shape) == answer((2, 3, 2, 3))


# torch itself scripts the rules of forward mode, with a call that it calls deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@koan(
    see="torch.func.jvp",
    hint=[
        "Output i adds up the inputs 0 to i. Write down the 3 by 3 matrix of the slopes.",
        "jvp: wiggle one input, watch all outputs. vjp: pick one output, ask all inputs.",
        "Of jvp and vjp, one gives a column of that matrix, the other a row.",
    ],
    why=(
        "jvp multiplies the matrix from the right: a column, what one input does to all outputs. "
        "vjp, which is what backward does, multiplies from the left: a row. Many inputs and one "
        "loss: that is why training goes backward."
    ),
    wrong={
        ("[1.0, 1.0, 0.0]", "[0.0, 1.0, 1.0]"): "The right two vectors, and the wrong way round.",
        ("[0.0, 1.0, 1.0]", "[0.0, 1.0, 1.0]"): "That holds for a symmetric matrix. Is it one?",
        ("[1.0, 1.0, 0.0]", "[1.0, 1.0, 0.0]"): "That holds for a symmetric matrix. Is it one?",
        ("[0.0, 3.0, 3.0]", "[3.0, 3.0, 0.0]"): "The sum is linear: its slopes are 1 for any x.",
    },
    at={
        "pushed.tolist()": (
            "This line looks at the push: move x a little in the direction of `one`. Which of the "
            "running sums change, and how fast?"
        ),
        "pull(one)": (
            "The push is right. The pull asks the other way: for this one output, how much does "
            "each input count?"
        ),
    },
)
def test_a_push_forward_and_a_pull_back():
    """A running sum, and a vector with a single 1. Push it through the slopes (jvp), and pull
    it back through them (vjp). Predict both."""
    x = torch.tensor([4.0, 3.0, 8.0])
    one = torch.tensor([0.0, 1.0, 0.0])

    def running_sum(x):
        return x.cumsum(dim=0)

    _, pushed = torch.func.jvp(running_sum, (x,), (one,))
    _, pull = torch.func.vjp(running_sum, x)
    assert pushed.tolist() == answer([0.0, 1.0, 1.0])
    assert pull(one)[0].tolist() == answer([1.0, 1.0, 0.0])


@koan(
    claims=["A-3.2-13", "A-3.2-15"],
    see="torch.autograd.grad",
    hint=[
        "First the gradient of the scores at the samples, as a return value. And from the loss "
        "made of it, a way must lead back to w.",
        "A sample's score depends on that sample alone. So the sum of the scores will do.",
        "The penalty is trained: the gradient inside it must be differentiable itself.",
        "Samples that require no grad have no gradient. And one length per sample, please.",
    ],
    why=(
        "A gradient as a value (grad), of all samples in one walk (sum), with a history "
        "(create_graph), and no .grad touched until you say backward: this is the gradient "
        "penalty of a Wasserstein GAN."
    ),
    wrong={
        "samples = samples.clone().requires_grad_()\n"
        "(slopes,) = torch.autograd.grad(critic(samples).sum(), samples)\n"
        "return ((slopes.norm(dim=1) - 1) ** 2).mean()": (
            "The value is right. But it is a mere number: nothing to train with."
        ),
        "samples = samples.clone().requires_grad_()\n"
        "(slopes,) = torch.autograd.grad(critic(samples).mean(), samples, create_graph=True)\n"
        "return ((slopes.norm(dim=1) - 1) ** 2).mean()": (
            "The mean makes each slope smaller, the more samples there are."
        ),
        "samples = samples.clone().requires_grad_()\n"
        "(slopes,) = torch.autograd.grad(critic(samples).sum(), samples, create_graph=True)\n"
        "return (slopes.norm() - 1) ** 2": "One length for all samples together.",
        "samples = samples.clone().requires_grad_()\n"
        "critic(samples).sum().backward()\n"
        "return ((samples.grad.norm(dim=1) - 1) ** 2).mean()": (
            "backward() stores, also in the critic's weights, and records nothing."
        ),
        "samples = samples.clone().requires_grad_()\n"
        "critic(samples).sum().backward(create_graph=True)\n"
        "return ((samples.grad.norm(dim=1) - 1) ** 2).mean()": (
            "The gradient can be differentiated now. But the critic's weights were filled, too."
        ),
        "(slopes,) = torch.autograd.grad(critic(samples).sum(), samples, create_graph=True)\n"
        "return ((slopes.norm(dim=1) - 1) ** 2).mean()": (
            "Nobody has asked for gradients at the samples yet."
        ),
    },
    right=[
        "samples = samples.detach().requires_grad_()\n"
        "scores = critic(samples)\n"
        "slopes = torch.autograd.grad(\n"
        "    scores, samples, grad_outputs=torch.ones_like(scores), create_graph=True\n"
        ")[0]\n"
        "return slopes.norm(2, dim=1).sub(1).square().mean()",
        "slopes = torch.func.grad(lambda samples: critic(samples).sum())(samples)\n"
        "return (torch.linalg.vector_norm(slopes, dim=1) - 1).square().mean()",
    ],
    at={
        "[32.0, 28.0]": (
            "The value is right here, too. But the gradient of this penalty at w is not: is every "
            "step from w to the penalty recorded?"
        ),
        "loss.item() == 16.0": (
            "Three samples, and at each the gradient is (3, 4). Take one length for each row, "
            "then the mean of (length - 1) squared."
        ),
        "w.grad is None": (
            "The number is right. But a gradient was stored in w already. It should only be "
            "handed to you."
        ),
        "[4.8, 6.4]": (
            "The value is right. But training needs the gradient of the penalty in w: is every "
            "step from w to it recorded?"
        ),
        "loss.item() == 5.0": (
            "The first critic is right. This one is curved, and the samples differ: does each row "
            "keep its own gradient and its own length?"
        ),
    },
)
def test_write_a_gradient_penalty():
    """Write `penalty`. For each sample (a row), take the gradient of its score at that sample,
    and the gradient's length. Return the mean of (length - 1) squared, ready to be trained."""

    def penalty(critic, samples):
        # answer:
        samples = samples.clone().requires_grad_()
        scores = critic(samples).sum()
        (slopes,) = torch.autograd.grad(scores, samples, create_graph=True)
        return ((slopes.norm(dim=1) - 1) ** 2).mean()
        # end

    w = torch.tensor([3.0, 4.0], requires_grad=True)
    loss = penalty(lambda samples: samples @ w, torch.ones(3, 2))
    assert loss.item() == 16.0, "one length for each sample, then the mean"
    assert w.grad is None, "something was stored in the critic's weight"
    loss.backward()
    assert w.grad.tolist() == pytest.approx([4.8, 6.4])
    w = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = penalty(lambda samples: (samples @ w) ** 2, torch.tensor([[1.0, 1.0], [5.0, 2.0]]))
    assert loss.item() == 5.0
    loss.backward()
    assert w.grad.tolist() == pytest.approx([32.0, 28.0])
