"""Export: one whole graph, or an error.

In these koans strict=False says what newer versions of PyTorch do anyway; older ones must be told.

Documents: A 5.2
"""

import contextlib
import io
import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn

from sensei import answer, koan


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-14"],
    see="torch.export.export",
    hint=[
        "Who runs the function once and writes down what happened? It never sees the other way.",
        "Who promises one whole graph? What can it do when a graph cannot hold the `if`?",
        "Who stays in Python, and may ask Python in the middle of the function?",
    ],
    why=(
        "A trace baked in the way that the example took: a wrong number, and only a warning. "
        "export refuses what it cannot hold, before anything is shipped. compile lets Python "
        "decide between two graphs. So TorchScript has two heirs: one to deploy, one for speed."
    ),
    wrong={
        "[-1, -1, -1]": (
            "Some say that all three bake the branch in. One does. The other two came later, "
            "and they know of the danger."
        ),
        "['refused', 'refused', 'refused']": "One of them never notices, one of them has a way.",
        "[-3, -3, -3]": "The graph of one whole function has no place for Python's `if`.",
        "[-1, 'refused', 'refused']": "One of the refused is allowed to work in pieces.",
        "['refused', 'refused', -3]": "The oldest of the three runs the example and trusts it.",
        "[-1, -3, -3]": "An `if` in a graph needs an operation of its own. This is Python's.",
    },
)
def test_one_if_and_three_tools():
    """Each tool sees a positive number first; compile sees it in its first call. Then -2 comes.
    Eager Python gives -3.

    What do trace, export and compile give for -2? Write the numbers in this order, or "refused".
    """

    class Steps(nn.Module):
        def forward(self, x):
            return x + 1 if x > 0 else x - 1

    def fate(tool):
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            ready = tool(Steps(), torch.tensor(2.0))
            return [ready(torch.tensor(number)).item() for number in (2.0, -2.0)][1]
        return "refused"

    tools = [torch.jit.trace, lambda model, x: torch.export.export(model, (x,)).module()]
    tools += [lambda model, x: torch.compile(model, backend="eager")]
    assert [fate(tool) for tool in tools] == answer([-1, "refused", -3])


@koan(
    see="torch.export.Dim",
    hint=[
        "The graph holds one of the two ways. Which one did the example take?",
        "What must be true of a length, so that this way is the right one for it?",
        "export writes that condition down, and the program checks it at each call.",
    ],
    why=(
        "A shape is known while exporting, so this `if` is decided then. A trace would use that "
        "way for all lengths, with no more than a warning. export keeps the condition as a guard: "
        "what would have gone the other way is refused."
    ),
    wrong={
        "[1, 2, 3, 4, 5, 6]": (
            "The length may vary. But only one way is in the graph: for some of these the "
            "numbers would be wrong."
        ),
        "[5]": "That is a program without dynamic_shapes: it takes the example's length only.",
        "[5, 6]": "The example itself is no border. Which border stands in the code?",
        "[1, 2, 3]": "That is the way which the example did not take.",
        "[2, 3, 4, 5, 6]": "A free length may be that small. Something else sets the border here.",
    },
)
def test_an_if_on_the_length():
    """This `if` asks for a length, and the example is 5 long. AUTO says: let the length vary, as
    far as you can.

    Which lengths, from 1 to 6, does the program take?
    """

    class Lengths(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 3 else x * 3

    shapes = {"x": {0: torch.export.Dim.AUTO}}
    program = torch.export.export(Lengths(), (torch.ones(5),), dynamic_shapes=shapes).module()
    taken = []
    for length in range(1, 7):
        with contextlib.suppress(Exception):
            program(torch.ones(length))
            taken.append(length)
    assert taken == answer([4, 5, 6])


@koan(
    see="torch.export.Dim",
    hint=[
        "Model and export both had the size of the example in them. Are both free of it now?",
        "Does forward hold a number that is the size of the example? Who could work it out?",
        "dynamic_shapes takes a dict: the name of the argument, then the dimension.",
        "Dim.AUTO says nothing when a dimension cannot vary. A named Dim or Dim.DYNAMIC complain.",
    ],
    why=(
        "Without dynamic_shapes every size of the example becomes a condition. With a Dim you say "
        "what may vary, and export tells you when the code forbids it. Prefer a Dim to Dim.AUTO, "
        "which gives way in silence. A trace has no such check: you found out in production."
    ),
    wrong={
        (
            "return x.reshape(4, 6)",
            "return torch.export.export(model, (x,), strict=False, "
            "dynamic_shapes={'x': {0: torch.export.Dim.AUTO}})",
        ): "AUTO makes the error of the export go away, and the refusal stays.",
        (
            "return x.reshape(4, 6)",
            "return torch.export.export(model, (x,), strict=False, "
            "dynamic_shapes={'x': {0: torch.export.Dim('batch')}})",
        ): "A promise that the model cannot keep. The error tells which number it insists on.",
        (
            "return x.flatten(1)",
            "return torch.export.export(model, (x,), strict=False)",
        ): "The model is free now, and nobody told the export.",
        (
            "return x.reshape(len(x), 6)",
            "return torch.export.export(model, (x,), strict=False, "
            "dynamic_shapes={'x': {0: torch.export.Dim('batch')}})",
        ): "len() must give a plain Python int, so the size is frozen. Does x.shape do so, too?",
        (
            "return x.flatten(1)",
            "return torch.export.export(model, (x,), strict=False, "
            "dynamic_shapes={'x': {1: torch.export.Dim('batch')}})",
        ): "Which of the dimensions is the batch?",
    },
    right=[
        (
            "return x.reshape(-1, 6)",
            "shapes = {'x': {0: torch.export.Dim.DYNAMIC}}\n"
            "return torch.export.export(model, (x,), strict=False, dynamic_shapes=shapes)",
        ),
        (
            "return x.reshape(x.shape[0], 6)",
            "shapes = ({0: torch.export.Dim('batch', min=1, max=1024)},)\n"
            "return torch.export.export(model, (x,), dynamic_shapes=shapes)",
        ),
        (
            "return torch.flatten(x, 1)",
            "shapes = {'x': {0: torch.export.Dim.AUTO}}\n"
            "return torch.export.export(model, (x,), dynamic_shapes=shapes)",
        ),
        (
            "return x.view(x.size(0), -1)",
            "return torch.export.export(model, (x,), "
            "dynamic_shapes=[[torch.export.Dim.DYNAMIC, None, None]])",
        ),
    ],
    at={
        "exported(Rows(), torch.ones(4, 2, 3))": (
            "`exported` should give back the program that the export makes of the model."
        ),
        "torch.equal(program(x), x.flatten(1))": (
            "There is a program now. Which batch fails: is it refused, or does a row not stay a "
            "row? Print the shapes."
        ),
    },
)
def test_a_program_for_any_batch():
    """The program takes batches of 4 only, as the example was. Repair both places: model and
    export. Rows must stay rows."""

    class Rows(nn.Module):
        def forward(self, x):
            # answer:
            return x.flatten(1)
            # given:
            # return x.reshape(4, 6)
            # end

    def exported(model, x):
        # answer:
        shapes = {"x": {0: torch.export.Dim("batch")}}
        return torch.export.export(model, (x,), strict=False, dynamic_shapes=shapes)
        # given:
        # return torch.export.export(model, (x,), strict=False)
        # end

    program = exported(Rows(), torch.ones(4, 2, 3)).module()
    for batch in (4, 2, 7):
        x = torch.arange(batch * 6.0).reshape(batch, 2, 3)
        assert torch.equal(program(x), x.flatten(1))


@koan(
    see="torch.cond",
    hint=[
        "Python's `if` is refused, and torch.where computes both ways. If you have a third way, "
        "read its message.",
        "torch.cond takes a condition, two functions, and a tuple of what they are called with.",
        "The condition may stay a tensor. Both functions must give the same shape and dtype.",
    ],
    why=(
        "torch.cond is an `if` that a graph can hold: each way is a small graph of its own, and "
        "only the chosen one runs. TorchScript's script compiled Python's `if` for you; export "
        "wants you to say it. For cheap ways torch.where is simpler."
    ),
    wrong={
        "return torch.where(x.sum() > 0, x.exp(), x - 1)": (
            "The numbers are right. But both ways are computed, always, in the main graph."
        ),
        "return x.exp() if x.sum() > 0 else x - 1": "Python must know the value. It is not there.",
        "return x.exp() if x.sum().item() > 0 else x - 1": (
            "item() only asks more openly. While exporting there is no value."
        ),
        "return torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x.exp(), (x,))": (
            "Which of the two functions is called when the condition holds?"
        ),
        "return torch.cond(x.sum() > 0, x.exp(), x - 1, (x,))": (
            "These are results, and no functions: both have been computed already."
        ),
        "return torch.cond(x > 0, lambda x: x.exp(), lambda x: x - 1, (x,))": (
            "One condition is wanted, not one for each element."
        ),
    },
    right=[
        "def up(t):\n    return t.exp()\n\n"
        "def down(t):\n    return t - 1\n\n"
        "return torch.cond(x.sum() > 0, up, down, (x,))",
        "return torch.cond(x.sum() <= 0, lambda t: t - 1, lambda t: torch.exp(t), (x,))",
        "positive = x.sum() > 0\n"
        "return torch.cond(pred=positive, true_fn=torch.exp, false_fn=lambda t: t - 1, "
        "operands=(x,))",
    ],
    at={
        "torch.export.export(Fork()": (
            "There is no program yet: the export raises. Read its message: what in your forward "
            "can it not take?"
        ),
        "torch.allclose(program.module()(x), expected)": (
            "The export went through. But the program should be right for both inputs. What "
            "does it give for each?"
        ),
        '"aten.exp." not in': (
            "The numbers are right, both ways. But exp stands in the main graph, so it is "
            "computed at every call."
        ),
    },
)
def test_an_if_that_a_graph_can_hold():
    """Write forward: x.exp() when the sum of x is positive, else x - 1.

    One program serves both, and computes only the way it takes: no exp in the main graph.
    """

    class Fork(nn.Module):
        def forward(self, x):
            # answer:
            return torch.cond(x.sum() > 0, lambda x: x.exp(), lambda x: x - 1, (x,))
            # end

    program = torch.export.export(Fork(), (torch.ones(3),))
    for x in (torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1.0, -2.0, 0.5])):
        expected = x.exp() if x.sum() > 0 else x - 1
        assert torch.allclose(program.module()(x), expected)
    assert "aten.exp." not in " ".join(str(node.target) for node in program.graph.nodes)


@koan(
    see="torch.export.ExportedProgram.module",
    hint=[
        "forward ran once, during the export. What was written down are operations on tensors.",
        "Which of the three factors is a tensor? The program and the model hold the same one.",
        "The other two were plain Python numbers. What was their value at that moment?",
    ],
    why=(
        "The weight is an input of the graph, and shared with the model. A Python number is a "
        "constant in the graph, and counting happened in Python, once. No error tells you: what "
        "must change has to be a tensor. A trace did the same; a scripted module kept attributes."
    ),
    wrong={
        "[5.0, 5.0, 2.0]": "Nobody runs your forward any more. Who would read the attribute?",
        "[5.0, 5.0, 1.0]": "An attribute of the model: but is it a tensor?",
        "[5.0, 2.0, 2.0]": "To count is Python's work. When did Python run?",
        "[2.0, 2.0, 1.0]": (
            "Some say an export is a snapshot of the weights. It becomes one when it is saved."
        ),
        "[5.0, 2.0, 0.0]": "forward adds first, and multiplies after that.",
    },
)
def test_what_is_alive_in_the_program():
    """The program is called, then the model is changed, then the program is called once more.

    Predict the three numbers of the last call.
    """

    class Dial(nn.Linear):
        def forward(self, x):
            self.calls += 1
            return x @ self.weight, x * self.scale, x * self.calls

    model = Dial(1, 1, bias=False)
    model.scale, model.calls = 2.0, 0
    program = torch.export.export(model, (torch.ones(1),), strict=False).module()
    nn.init.constant_(model.weight, 2.0)
    program(torch.ones(1))
    nn.init.constant_(model.weight, 5.0)
    model.scale = 5.0
    assert [y.item() for y in program(torch.ones(1))] == answer([5.0, 2.0, 1.0])


@koan(
    see="torch.nn.Module.eval",
    hint=[
        "The mode was in force while the graph was written. Is there a switch left in it?",
        "To do nothing would be dangerous here, so it raises.",
        "The name of the error says that somebody did not write this part.",
    ],
    why=(
        "Dropout's mode is a constant in the graph: this program drops forever. Silence would be "
        "worse, for the caller would believe in the switch. Call model.eval() before the export. "
        "Here export is stricter than a trace, which took the mode and let you call eval()."
    ),
    wrong={
        "AttributeError": "The method is there, as in each module. It refuses.",
        "RuntimeError": "A relative of it, its parent even. The type itself says more.",
        "TypeError": "The call is well formed. It is only not possible.",
        "torch._dynamo.exc.Unsupported": "The export is over, and the compiler with it.",
    },
)
def test_eval_after_the_export():
    """The model was exported as it came from its training. Now it is to be used, so somebody
    calls eval(), as always.

    Which exception does that raise?
    """
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    program = torch.export.export(model, (torch.ones(1, 2),)).module()
    with pytest.raises(Exception) as caught:
        program.eval()
    assert caught.type is answer(NotImplementedError)


@koan(
    see="torch.export.ExportedProgram",
    hint=[
        "Print the graph of both: flat.graph and tree.graph.",
        "One of them calls an operation. The other calls a module that has a name.",
        "If nobody calls what you have put there, nothing changes.",
    ],
    why=(
        "The program is one flat list of operations; of the modules only names of weights are "
        "left. unflatten builds the tree again, from what each operation remembers, so that a "
        "part can be exchanged. A script or trace keeps the names of the parts, but refuses this "
        "Identity: another type is not let in."
    ),
    wrong={
        "[-3.0, -3.0]": "In one of them the new part is never called.",
        "[0.0, 0.0]": "In one of them a part is a module again, and called by its name.",
        "[-3.0, 0.0]": "The other way round. What does `flat` mean?",
    },
)
def test_exchange_a_part():
    """One program, as a flat module and as a tree. In both, the ReLU is replaced by an Identity.

    What does each of them make of -3?
    """
    model = nn.Sequential(OrderedDict(act=nn.ReLU()))
    program = torch.export.export(model, (torch.ones(1),), strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat, tree = program.module(), torch.export.unflatten(program)
    flat.act, tree.act = nn.Identity(), nn.Identity()
    assert [form(torch.tensor([-3.0])).item() for form in (flat, tree)] == answer([0.0, -3.0])


@koan(
    claims=["A-5.2-14"],
    see="torch.export.save",
    hint=[
        "Which mode should be in force during the export, and which one after it?",
        "Which sizes may vary? dynamic_shapes takes a tuple, too: an entry for each argument.",
        "torch.export has a save of its own. It wants the program, not its module.",
    ],
    why=(
        "Mode, free batch, save: the three decisions of each export. The file holds graph and "
        "weights, so whoever loads it needs neither your class nor your code. What jit.trace and "
        "jit.save did, with the checks that they lacked."
    ),
    wrong={
        "program = torch.export.export(model, (example,), "
        "dynamic_shapes=({0: torch.export.Dim('batch')},))\n"
        "torch.export.save(program, file)": "It goes on as in the training, at the other end.",
        "model.eval()\n"
        "program = torch.export.export(model, (example,), "
        "dynamic_shapes=({0: torch.export.Dim('batch')},))\n"
        "torch.export.save(program, file)": "The training wants to go on. In which mode?",
        "model.eval()\n"
        "program = torch.export.export(model, (example,))\n"
        "model.train()\n"
        "torch.export.save(program, file)": "Another batch will come than the example.",
        "import copy\n"
        "ready = copy.deepcopy(model).eval()\n"
        "torch.save(ready, file)": "That needs the class again, at the other end.",
        "import copy\n"
        "program = torch.export.export(model, (example,), "
        "dynamic_shapes=({0: torch.export.Dim('batch')},))\n"
        "copy.deepcopy(model).eval()\n"
        "torch.export.save(program, file)": "The mode counts while the graph is written.",
    },
    right=[
        "import copy\n"
        "ready = copy.deepcopy(model).eval()\n"
        "shapes = ({0: torch.export.Dim.DYNAMIC},)\n"
        "program = torch.export.export(ready, (example,), dynamic_shapes=shapes)\n"
        "torch.export.save(program, file)",
        "was = model.training\n"
        "model.eval()\n"
        "try:\n"
        "    dims = [torch.export.Dim.AUTO] + [None] * (example.dim() - 1)\n"
        "    program = torch.export.export(model, (example,), dynamic_shapes=(dims,))\n"
        "finally:\n"
        "    model.train(was)\n"
        "torch.export.save(program, file)",
    ],
    at={
        "part.training for part": (
            "After `ship` the model, or a part of it, is not in training mode any more."
        ),
        "torch.export.load(file)": (
            "The model goes on training. Now the loaded program gets 7 rows instead of 4, and "
            "must answer as the model does in use."
        ),
    },
)
def test_ship_it():
    """Write `ship`: it exports the model for use, not for training, for any batch, and saves the
    program into the file. The model itself goes on training afterwards."""

    def ship(model, example, file):
        # answer:
        model.eval()
        shapes = ({0: torch.export.Dim("batch")},)
        program = torch.export.export(model, (example,), dynamic_shapes=shapes)
        model.train()
        torch.export.save(program, file)
        # end

    noisy = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    for model in (noisy, nn.BatchNorm1d(3)):
        file, x = io.BytesIO(), torch.randn(7, 3)
        ship(model, torch.randn(4, 3), file)
        file.seek(0)
        assert all(part.training for part in model.modules())
        assert torch.allclose(torch.export.load(file).module()(x), model.eval()(x))
