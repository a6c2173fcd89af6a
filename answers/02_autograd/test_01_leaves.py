"""Leaves: where gradients land, and the flag that asks for them.

Documents: A 1, A 2.1, A 2.2, A 3.1, A 3.2, B 2
"""

import pytest
import torch
from torch import nn

from sensei import answer, koan


@pytest.mark.tour(20)
@koan(
    claims=["A-3.2-05"],
    see="torch.Tensor.is_leaf",
    hint=[
        "Go through them one by one: was it computed, and did autograd have a reason to record?",
        "A computation without any flag around is not recorded. And what is there to do when "
        "a tensor has the dtype already?",
    ],
    why=(
        "A leaf has no recorded history. Without a flag nothing is recorded, so results of plain "
        "tensors are leaves too. A real conversion is a recorded operation; a needless one gives "
        "back the tensor itself. detach() lets the history go."
    ),
    wrong={
        "['weight']": (
            "Some say only a tensor with the flag is a leaf. "
            "But what needs no gradient has no history either."
        ),
        "['plain', 'weight']": (
            "You made these two, yes. But not every computation is recorded, "
            "and a history can be given up."
        ),
        "['plain', 'doubled', 'weight', 'same', 'wide', 'detached']": (
            "The numbers in one of them do not change, and it is still a new tensor with a past."
        ),
        "['plain', 'doubled', 'weight', 'detached']": (
            "Every call to .to() looks like work. Compare `same is weight`."
        ),
    },
)
def test_who_is_a_leaf():
    """Autograd keeps a history of tensors that need a gradient. A tensor without a history is a
    leaf.

    Write the names of the leaves, in order.
    """
    plain, weight = torch.ones(2), torch.ones(2, requires_grad=True)
    tensors = {
        "plain": plain,
        "doubled": plain * 2,
        "weight": weight,
        "product": weight * 2,
        "same": weight.to(torch.float32),
        "wide": weight.to(torch.float64),
        "detached": (weight * 2).detach(),
    }
    leaves = [name for name, t in tensors.items() if t.is_leaf]
    assert leaves == answer(["plain", "doubled", "weight", "same", "detached"])


@koan(
    claims=["A-3.1-05", "A-3.1-06", "A-2.1-06", "B-2-11", "B-2-03"],
    see="torch.autograd.graph.get_gradient_edge",
    hint=[
        "grad_fn is the operation that produced the tensor. Which lines are operations on x?",
        "Setting a flag computes nothing. And backward() does not produce x either.",
    ],
    why=(
        "No recorded operation made x, so its grad_fn is empty at every moment: fresh, flagged and "
        "after backward. Only y, the result, has a node. The one that fills x.grad comes with y, "
        "and you reach it from y's side."
    ),
    wrong={
        "['UninitializedBackward', None, 'MulBackward0', None]": (
            "Some say randn registers such an object instead of filling memory. PyTorch knows no "
            "name like that; the numbers are there."
        ),
        "[None, 'AccumulateGrad', 'MulBackward0', 'AccumulateGrad']": (
            "Some say the flag makes grad_fn point to that node. But it is made when an operation "
            "uses x, and you find it behind that operation's node, not on x."
        ),
        "[None, None, 'MulBackward0', 'AccumulateGrad']": (
            "backward() does put a gradient into x. But it does not tell x where it came from."
        ),
        "[None, None, 'MulBackward0', 'MulBackward0']": "That node belongs to the result, not x.",
    },
)
def test_four_moments():
    """Ask for grad_fn four times: x when fresh, x with the flag, then y, then x after backward.

    For each, write the node's name as name() prints it, such as 'SinBackward0', or None.
    """
    x = torch.randn(3)
    fresh = x.grad_fn
    x.requires_grad_()
    flagged = x.grad_fn
    y = x * 2
    y.sum().backward()
    nodes = [fresh, flagged, y.grad_fn, x.grad_fn]
    assert [node and node.name() for node in nodes] == answer([None, None, "MulBackward0", None])


@koan(
    claims=["B-2-24", "B-2-23", "B-2-08", "A-2.2-05", "A-3.1-05"],
    see="torch.Tensor.grad",
    hint=[
        "Four float32 numbers: how many bytes?",
        "Somebody must create the gradient. Who is the first to have numbers for it, and for how "
        "many places?",
    ],
    why=(
        "The flag is a bool and nothing more: x's memory is the same before and after. The first "
        "backward to reach x makes the gradient: a second tensor, as large as x."
    ),
    wrong={
        "[[16, 0], [16, 16], [16, 16], [16, 16]]": (
            "Some say the flag allocates a gradient buffer at once. Nobody has gradients yet, "
            "so nobody makes room for them."
        ),
        "[[16, 0], [32, 0], [32, 0], [32, 0]]": (
            "Some say the flag declares who owns memory. It says only: record what I am used for. "
            "The gradient has memory of its own."
        ),
        "[[16, 0], [16, 0], [16, 16], [16, 16]]": (
            "The forward pass keeps what backward needs. But gradients come only with backward."
        ),
        "[[4, 0], [4, 0], [4, 0], [4, 4]]": (
            "The right moments, counted in numbers. How many bytes does one float32 take?"
        ),
        "[[1, 0], [1, 0], [1, 0], [1, 1]]": "Count the bytes of the numbers, not the tensors.",
    },
)
def test_bytes_of_numbers_and_gradients():
    """Some say the flag claims memory. Look at four moments: fresh, flagged, after the forward
    pass, after backward.

    Each is [bytes of x, bytes of its gradient].
    """
    x = torch.zeros(4)

    def memory():
        return [x.untyped_storage().nbytes(), 0 if x.grad is None else x.grad.nbytes]

    moments = [memory()]
    x.requires_grad = True
    moments.append(memory())
    y = (x * 3).sum()
    moments.append(memory())
    y.backward()
    moments.append(memory())
    assert moments == answer([[16, 0], [16, 0], [16, 0], [16, 16]])


@koan(
    claims=["B-2-27", "B-2-28"],
    see="torch.Tensor.requires_grad",
    hint=[
        "Two of the tensors ask because you said so. One asks because of its class.",
        "A result asks if an input asks and the result has numbers that can carry a gradient. "
        "Look at what `> 0` produces.",
    ],
    why=(
        "Assignment works, the method works, nn.Parameter sets the flag by default. A result "
        "follows its inputs, whatever their values: multiplied by 0 is still a recorded product. "
        "zeros_like copies shape and dtype, not the flag; a bool cannot carry a gradient."
    ),
    wrong={
        "['called']": (
            "Some say the flag is set only at creation or with requires_grad_(), and cannot be "
            "assigned. The second line would be an error then."
        ),
        "['called', 'assigned', 'parameter']": (
            "Nothing of w survives a product with 0. But PyTorch does not look at the values."
        ),
        "['called', 'assigned', 'like', 'parameter', 'product']": (
            "zeros_like takes shape, dtype and device from its model. Is the flag one of them?"
        ),
        "['called', 'assigned', 'parameter', 'product', 'comparison']": (
            "A comparison gives bools. How would a small step change them?"
        ),
    },
)
def test_who_asks_for_a_gradient():
    """Six tensors come into being in six ways. Which of them ask for a gradient?

    Write their names, in order.
    """
    w = torch.zeros(2)
    w.requires_grad = True
    tensors = {
        "called": torch.zeros(2).requires_grad_(),
        "assigned": w,
        "like": torch.zeros_like(w),
        "parameter": nn.Parameter(torch.zeros(2)),
        "product": w * 0,
        "comparison": w > 0,
    }
    asking = [name for name, t in tensors.items() if t.requires_grad]
    assert asking == answer(["called", "assigned", "parameter", "product"])


@koan(
    claims=["A-1-02", "B-2-28"],
    see="torch.nn.Parameter",
    hint=[
        "Building a layer fills its weight with random numbers. Did anybody record that?",
        "Calling the layer is a computation, and so is turning its weight. What does "
        "nn.Parameter do with a tensor that has a history already?",
    ],
    why=(
        "Parameters are leaves: the layer filled them while nobody was recording, and no graph "
        "exists until you call it. A transpose and an output are results. nn.Parameter starts "
        "afresh: it lets any history go."
    ),
    wrong={
        "['weight', 'bias', 'turned', 'output', 'halved']": (
            "Some say building a layer builds a graph. The random numbers did come from "
            "operations, but nobody was recording."
        ),
        "['output']": (
            "The output is a result, as you say. But it is not the only tensor here that has a "
            "history."
        ),
        "['turned', 'output', 'halved']": (
            "The product inside had a history. What did nn.Parameter do with it?"
        ),
        "[]": "Something was computed from the parameters. Look at the names once more.",
    },
)
def test_a_layer_that_was_not_called():
    """A linear layer, and tensors made with it. List the names of those that have a grad_fn."""
    layer = nn.Linear(784, 10)
    tensors = {
        "weight": layer.weight,
        "bias": layer.bias,
        "turned": layer.weight.T,
        "output": layer(torch.zeros(2, 784)),
        "halved": nn.Parameter(layer.weight * 0.5),
    }
    recorded = [name for name, t in tensors.items() if t.grad_fn is not None]
    assert recorded == answer(["turned", "output"])


@koan(
    claims=["B-2-26"],
    see="torch.Tensor.requires_grad",
    hint=[
        "Which of the two numbers still asks for a gradient when the product is made?",
        "The derivative of a product by one number is the other number.",
    ],
    why=(
        "One input that asks is enough to record the product, so the gradient goes through the "
        "frozen number, to whatever lies before it. Frozen means: nothing is kept for this one. "
        "It does not mean that the road is closed."
    ),
    wrong={
        "[None, None]": (
            "Some say a flag set to False switches tracking off. It speaks for one tensor, "
            "and an operation listens to all its inputs."
        ),
        "[5.0, 2.0]": "The flag was taken away before the product was made.",
        "[2.0, None]": "Not its own value: by how much does the product grow when `first` grows?",
    },
)
def test_behind_a_frozen_number():
    """One of two numbers loses its flag before they are multiplied. Predict both gradients."""
    first = torch.tensor(2.0, requires_grad=True)
    frozen = torch.tensor(5.0, requires_grad=True)
    frozen.requires_grad = False
    product = first * frozen
    product.backward()
    assert [first.grad, frozen.grad] == answer([5.0, None])


@koan(
    claims=["B-2-27"],
    see="torch.Tensor.requires_grad",
    hint=[
        "The attribute does accept a value. It is this tensor that may not be told.",
        "The attribute exists, and False is a bool. Python is content: autograd is not.",
    ],
    why=(
        "The flag of a result follows from its inputs, so only a leaf's flag can be changed. "
        "Detach the result, and you get a leaf whose flag is off."
    ),
    wrong={
        "AttributeError": (
            "Some say the flag cannot be assigned like an attribute. It can, and the line above "
            "has just done so."
        ),
        "TypeError": "The value is a bool, as it should be.",
        "ValueError": "Natural for a value that does not suit. PyTorch says it in another way.",
    },
)
def test_the_flag_of_a_result():
    """Assignment works on w. On the result of a product it does not. Which exception?"""
    w = torch.ones(2)
    w.requires_grad = True
    product = w * 2
    with pytest.raises(Exception) as caught:
        product.requires_grad = False
    assert caught.type is answer(RuntimeError)


@koan(
    claims=["B-2-27", "B-2-28", "B-2-26"],
    see="torch.nn.Module.requires_grad_",
    hint=[
        "Print net[0].weight.requires_grad after the marked line. Whose attribute was set?",
        "A module has no flag. Its parameters have one each, and a layer has two of them.",
        "There is a method of the module that sets the flag of every parameter.",
    ],
    why=(
        "A module takes any new attribute without a word, so the assignment froze nothing. "
        "Call the method with the underscore, or go through the parameters yourself."
    ),
    wrong={
        "net[0].weight.requires_grad = False": "Half of it. A linear layer has a bias as well.",
        "net.requires_grad_(False)": "This freezes the last layer as well, and nothing learns.",
        "net[0].eval()": (
            "eval() changes how some layers behave, such as dropout. It does not touch any flag."
        ),
        "net[0].requires_grad = False\nnet[0].eval()": (
            "Neither of them reaches the parameters. One makes a new attribute, and the other "
            "changes how some layers behave."
        ),
    },
    right=[
        "for parameter in net[0].parameters():\n    parameter.requires_grad = False",
        "for parameter in net[0].parameters():\n    parameter.requires_grad_(False)",
        "net[0].weight.requires_grad = net[0].bias.requires_grad = False",
    ],
    at={
        "assert learning ==": (
            "Backward ran. But the parameters with a gradient are not those of the last layer "
            "alone: print the list. Who is missing, or too much?"
        ),
        "net(torch.ones(5, 3))": (
            "This line should run through the net and back, and the last layer should learn from "
            "it. Who in the net still asks for a gradient?"
        ),
    },
)
def test_freeze_the_first_layer():
    """The first layer should keep its numbers while the last one learns. Repair the marked
    line."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    # answer:
    net[0].requires_grad_(False)
    # given:
    # net[0].requires_grad = False
    # end
    net(torch.ones(5, 3)).sum().backward()
    learning = [name for name, p in net.named_parameters() if p.grad is not None]
    assert learning == ["2.weight", "2.bias"]


@koan(
    see="torch.Tensor.is_leaf",
    hint=[
        "Print w.is_leaf before and after the conversion. On which tensor does the name w stand?",
        "Do the conversion first, or choose the dtype at creation. The flag comes last.",
    ],
    why=(
        "Moving or converting a tensor is an operation, so w was its result, and the gradient "
        "went to a leaf without a name. The same happens with .cuda(), where a machine without "
        "a GPU never shows it. Create the tensor as it should be, then ask for gradients."
    ),
    wrong={
        "w = torch.ones(3, requires_grad=True)": "It is a leaf, but of the dtype you had before.",
        "w = torch.ones(3).to(torch.float64)": "Nobody asks for a gradient now.",
        "w = torch.ones(3, requires_grad=True).to(torch.float64).requires_grad_()": (
            "w.requires_grad was True all the time. It is not enough to be filled."
        ),
        "w = torch.ones(3, requires_grad=True).to(torch.float64)\nw.retain_grad()": (
            "The gradient is kept now, but w is still a result. "
            "A step on it would leave the tensor behind it as it was."
        ),
    },
    right=[
        "w = torch.ones(3).to(torch.float64).requires_grad_()",
        "w = torch.ones(3).double()\nw.requires_grad = True",
        "w = torch.ones(3, requires_grad=True).to(torch.float64).detach().requires_grad_()",
        "w = nn.Parameter(torch.ones(3, dtype=torch.float64))",
    ],
    at={
        "(w * w).sum().backward()": (
            "Here backward starts from w. So the tensor that bears this name must ask for a "
            "gradient."
        ),
        "w.grad.dtype": (
            "This line wants a gradient in w.grad, in double precision. Is w itself the tensor "
            "that backward fills?"
        ),
        "w.grad.tolist()": (
            "The gradient is there, and in float64. It is 2 * w: so which numbers does w hold now?"
        ),
        "assert w.is_leaf": (
            "The gradient is right. But w has a history: another tensor stands before it."
        ),
    },
)
def test_a_weight_in_double_precision():
    """w has the flag, and yet its gradient is missing. Repair the marked line.

    w should be a leaf, and in float64.
    """
    # answer:
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    # given:
    # w = torch.ones(3, requires_grad=True).to(torch.float64)
    # end
    (w * w).sum().backward()
    assert w.grad.dtype is torch.float64
    assert w.grad.tolist() == [2.0, 2.0, 2.0]
    assert w.is_leaf


@koan(
    see="torch.Tensor.view",
    hint=[
        "Does w still name the tensor that you created?",
        "Let w be. The view can have another name, or none at all.",
    ],
    why=(
        "The view does not cut anything: the gradient flows through it, back to the first tensor. "
        "But the name had moved to the view, which is a result. Give a view a name of its own."
    ),
    wrong={
        "w = w.view(2, 3)\nloss = (w * table).sum()\nw = w.view(6)": (
            "A second view does not lead back. It is one step further from the first tensor."
        ),
        "w = w.view(2, 3)\nw.retain_grad()\nloss = (w * table).sum()": (
            "Now the view keeps a gradient, in the view's shape. The six numbers are yours."
        ),
        "w = w.view(2, 3).detach().requires_grad_()\nloss = (w * table).sum()": (
            "Some say a view cuts the gradient. This does: a new leaf, in the wrong shape."
        ),
        "w = w.view(2, 3)\nw.requires_grad_()\nloss = (w * table).sum()": (
            "The flag was on already. It is no leaf, that is all."
        ),
    },
    right=[
        "grid = w.view(2, 3)\nloss = (grid * table).sum()",
        "loss = (w * table.view(6)).sum()",
        "loss = (w.reshape(2, 3) * table).sum()",
    ],
    at={
        "w.grad.tolist()": (
            "Backward ran. This line looks at w.grad: does the name w still stand for your six "
            "numbers in a row, and does each meet its own number of the table, in a product?"
        ),
        "loss.backward()": (
            "backward starts from `loss`: it should be one number, with a way back to the six "
            "numbers."
        ),
    },
)
def test_six_numbers_used_as_a_table():
    """w has six numbers in a row; the loss needs them as a table. The gradient is lost on the way.

    Repair the marked lines.
    """
    w = torch.zeros(6, requires_grad=True)
    table = torch.arange(6.0).view(2, 3)
    # answer:
    loss = (w.view(2, 3) * table).sum()
    # given:
    # w = w.view(2, 3)
    # loss = (w * table).sum()
    # end
    loss.backward()
    assert w.grad.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@koan(
    claims=["A-3.2-05", "A-3.1-05"],
    see="torch.Tensor.requires_grad_",
    hint=[
        "Four things to do: forget the history, convert, take new memory, ask for a gradient. "
        "Which of them must come last?",
        "Converting copies only if the dtype differs. Do you want to rely on that?",
        "Whole numbers cannot ask for gradients. Neither does a result become a leaf by asking.",
    ],
    why=(
        "detach() first, or the conversion is recorded and the copy is no leaf. Then dtype and "
        "memory, and the flag last, when a float leaf is there to carry it."
    ),
    wrong={
        "return source.clone().float().requires_grad_()": (
            "Fine for a plain source. But if the source has a history, so has its copy."
        ),
        "return source.detach().float().requires_grad_()": (
            "A tensor that is float32 already is not converted, and so not copied either."
        ),
        "return source.detach().clone().requires_grad_()": (
            "Whole numbers refuse the flag: they cannot take small steps. And float64 stays wide."
        ),
        "return source.detach().clone().requires_grad_().float()": (
            "The flag is on too early: the conversion is then recorded, and gives a result."
        ),
        "return torch.as_tensor(source, dtype=torch.float32).requires_grad_()": (
            "It gives back the tensor itself if it can, memory and history included."
        ),
    },
    right=[
        "return source.detach().to(torch.float32, copy=True).requires_grad_()",
        "return torch.tensor(source.tolist(), requires_grad=True, dtype=torch.float32)",
        "leaf = source.detach().float().clone()\nleaf.requires_grad = True\nreturn leaf",
        "return nn.Parameter(source.detach().clone().float())",
    ],
    at={
        "tracked.grad is None": (
            "The leaves are all right. But the source that has the flag has a gradient now: it "
            "should stay as it was."
        ),
        "leaf.grad.tolist()": (
            "The leaf has the right numbers, and backward ran. But leaf.grad is not what one walk "
            "leaves: what did the leaf bring along?"
        ),
        "assert leaf.is_leaf": (
            "A leaf has no recorded operation behind it. Where do you let the past go, and is "
            "anything recorded after that?"
        ),
        "leaf.dtype": (
            "It is a leaf. Now its dtype: the sources come in several, and one is wanted."
        ),
        "leaf.tolist()": "Leaf and dtype are right. But the numbers should be those of the source.",
        "leaf.data_ptr()": (
            "The numbers are right. But they lie in the source's own memory: this source was not "
            "copied."
        ),
        "(leaf * leaf)": (
            "The leaf has the right numbers and its own memory. But it asks for no gradient, so "
            "there is nothing to walk."
        ),
        "not plain.requires_grad": (
            "The leaves are all right. But one source was changed on the way."
        ),
    },
)
def test_a_fresh_leaf_from_any_tensor():
    """Write `fresh_leaf`: a float32 leaf that asks for a gradient. It has the numbers of the
    source, in memory of its own.

    The source may be of any number type, may have a history, and stays as it is.
    """

    def fresh_leaf(source):
        # answer:
        return source.detach().clone().float().requires_grad_()
        # end

    plain, tracked = torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0], requires_grad=True)
    for source in (torch.tensor([1, 2]), plain, tracked, tracked.double() * 2):
        leaf = fresh_leaf(source)
        assert leaf.is_leaf
        assert leaf.dtype is torch.float32
        assert leaf.tolist() == source.tolist()
        assert leaf.data_ptr() != source.data_ptr()
        (leaf * leaf).sum().backward()
        assert leaf.grad.tolist() == [2 * number for number in source.tolist()]
    assert not plain.requires_grad
    assert tracked.grad is None
