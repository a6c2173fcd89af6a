"""A typed subset of Python: what script understands, and when it says no.

Documents: A 5.2, B 5
"""

import io
import warnings

import pytest
import torch
from torch import nn

from sensei import answer, koan

# A file of TorchScript holds the name of the module, and cannot be read back if a part of that
# name begins with a digit, as the name of this folder does.
__name__ = "torchscript_koans"


@pytest.fixture(autouse=True)
def no_notes():
    """TorchScript is deprecated and says so at each call."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit")
        yield


def through_a_file(module):
    """Save a scripted module, and load it again."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


# Five functions for one koan. Nobody ever calls them.


def with_try(x):
    try:
        return x.reshape(2, 2)
    except RuntimeError:
        return x


def with_while(x):
    while x.sum() < 10:
        x = x * 2
    return x


def with_star(*parts):
    return parts[0]


def with_raise(x):
    if x.sum() < 0:
        raise ValueError("negative")
    return x


def with_text(x):
    print(f"the sum is {x.sum()}")
    return x


class Parts(nn.Module):
    """Methods that are reached in different ways."""

    def forward(self, x):
        return self.called(x)

    def called(self, x):
        return x + 1

    @torch.jit.export
    def marked(self, x):
        return self.below(x)

    def below(self, x):
        return x + 2

    @torch.jit.ignore
    def ignored(self, x):
        return x + 3

    def plain(self, x):
        return x + 4


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-07"],
    see="torch.jit.script",
    hint=[
        "Read the message, if there is one. What does script believe of `times`?",
        "A compiler needs a type for each argument. Where nothing is written, it assumes one.",
        "Say what `times` is, as Python lets you say it.",
    ],
    why=(
        "Without annotation an argument is a Tensor; the error message says 'inferred'. Python "
        "ignores annotations, and script lives by them. An example input would not help: script "
        "runs nothing."
    ),
    wrong={
        "def grow(x, times):\n    return x * int(times)": (
            "It is a number inside now. But the caller still has to bring a tensor."
        ),
        "def grow(x, times=1):\n    return x * times": (
            "A default is no annotation. script refuses it now: a 1 is no tensor."
        ),
        "def grow(x, times: torch.Tensor):\n    return x * times": (
            "That is what script had assumed."
        ),
        "def grow(x: int, times: int):\n    return x * times": "Now x is refused.",
        "def grow(x, times):\n    return x * torch.as_tensor(times)": (
            "The call fails before its first line is reached."
        ),
    },
    right=[
        "def grow(x, times: float):\n    return x * times",
        "def grow(x: torch.Tensor, times: int) -> torch.Tensor:\n    return x * times",
        "def grow(x, times: int = 1):\n    return x * times",
        "def grow(x, times: 'int'):\n    return x * times",
    ],
    at={
        "]), 3)": (
            "script takes your function. Here it gets the number 3: does it accept that as "
            "`times`, and does it multiply by it?"
        ),
        "]), -2)": (
            "With 3 it is right. Here `times` is a negative number, and the same function should "
            "serve it."
        ),
        "torch.jit.script(grow)": (
            "script refuses your function, before anybody calls it. Read its message: it shows "
            "the place, and what it does not understand there."
        ),
    },
)
def test_what_a_bare_name_means():
    """In Python this works with any whole number. Scripted, it fails when it is called.

    Repair the marked lines.
    """

    # answer:
    def grow(x, times: int):
        return x * times

    # given:
    # def grow(x, times):
    #     return x * times
    # end

    scripted = torch.jit.script(grow)
    assert scripted(torch.tensor([1.0, 2.0]), 3).tolist() == [3.0, 6.0]
    assert scripted(torch.tensor([1.0, 2.0]), -2).tolist() == [-2.0, -4.0]


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-03"],
    see="torch.jit.script",
    hint=[
        "The scripted function is not run by Python. How many bits has an int of the other one?",
        "64 bits, one of them for the sign. Which number comes after the largest one?",
        "Try torch.tensor(2**63 - 1) + 1.",
    ],
    why=(
        "A Python int grows as it must. script compiles to a language of its own, which an "
        "interpreter in C++ runs, and an int has 64 bits there. Too much wraps round, without "
        "a word. It looks like Python, and it is not Python."
    ),
    wrong={
        "2**63": (
            "Some say script only makes Python faster. Python's own function gives this number."
        ),
        "2**63 - 1": "It does not stop at the largest one.",
        "float(2**63)": "Nobody turns it into a float: the annotation says int.",
        "1": "It wraps round, but it does not begin anew at the bottom of the positive numbers.",
    },
    right=[
        "-9223372036854775808",
        "torch.iinfo(torch.int64).min",
        "torch.iinfo(torch.long).min",
    ],
)
def test_one_more_than_the_largest():
    """The scripted function gets 2**63 - 1, and adds 1. What does it return?"""

    def next_one(n: int):
        return n + 1

    scripted = torch.jit.script(next_one)
    assert scripted(3) == next_one(3)
    assert scripted(2**63 - 1) == answer(-(2**63))


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-08", "B-5-15"],
    see="torch.jit.script",
    hint=[
        "script reads the whole function before anybody calls it.",
        "It can raise, but there is nothing in its language to catch with.",
        "Each function has a fixed number of arguments there.",
    ],
    why=(
        "script refuses while it compiles, even what would never be run. That is a service: you "
        "learn it at once, and not from a user. trace would take each of the five, for it never "
        "sees Python, only the tensors."
    ),
    wrong={
        "[]": (
            "Some say an error comes when the line is run, as in Python. A compiler has to "
            "understand each line beforehand."
        ),
        "['with_try']": "One more has no counterpart. Look at the arguments.",
        "['with_try', 'with_while', 'with_star']": "Loops are what script is made for.",
        "['with_try', 'with_star', 'with_raise']": "It can raise. Only to catch it cannot.",
        "['with_try', 'with_star', 'with_text']": (
            "Strings, f-strings and print are part of its language."
        ),
        "['with_try', 'with_star', 'with_raise', 'with_text']": (
            "To raise and to print are both part of its language."
        ),
        "['with_try', 'with_raise']": (
            "It can raise, only to catch it cannot. Look at the arguments instead."
        ),
        "['with_try', 'with_text']": "It can print, f-strings too. Look at the arguments instead.",
        "['with_try', 'with_while', 'with_star', 'with_raise', 'with_text']": (
            "Its language has loops, print and raise. Two of the five need more than that."
        ),
    },
)
def test_refused_before_it_runs():
    """Five small functions stand at the head of this file. They are scripted, and never called.

    Which ones are refused? Write their names, in the order of the file.
    """
    refused = []
    for function in (with_try, with_while, with_star, with_raise, with_text):
        try:
            torch.jit.script(function)
        except torch.jit.frontend.NotSupportedError:
            refused.append(function.__name__)
    assert refused == answer(["with_try", "with_star"])


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-13", "B-5-15"],
    see="inspect.getsource",
    hint=[
        "trace runs the function. What does script need of it?",
        "Where would you look for the text of a function? And if there is no such place?",
        "inspect.getsource() raises it when it cannot read what it should.",
    ],
    why=(
        "script reads the source file, and here is none: the same in `python -c`, and for code "
        "that a program wrote while it ran. trace does not mind, for it needs a function that "
        "can be run, and nothing more."
    ),
    wrong={
        "SyntaxError": "The text was good Python. But where is it now?",
        "RuntimeError": "So it is with most refusals of script. This one comes from another place.",
        "NameError": "The function is at hand, and it can be called.",
        "torch.jit.frontend.NotSupportedError": (
            "To find something unsupported in the text, it would have to have the text."
        ),
        "FileNotFoundError": "Near: it is the parent of this one.",
    },
    right=["IOError", "EnvironmentError"],
)
def test_a_function_out_of_thin_air():
    """This function was made by exec. trace takes it, script does not. Which exception comes?"""
    names = {"__name__": "thin_air"}
    exec("def double(x):\n    return x * 2\n", names)
    traced = torch.jit.trace(names["double"], torch.ones(2))
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(Exception) as caught:
        torch.jit.script(names["double"])
    assert caught.type is answer(OSError)


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["B-5-19"],
    see="torch.jit.export",
    hint=[
        "script begins with forward, and follows its calls. Which methods does it meet?",
        "torch.jit.export says: begin here, too. And it follows these calls as well.",
        "What is ignored stays a Python method. Can that go into a file?",
    ],
    why=(
        "Compiled is forward, what carries torch.jit.export, and whatever these call. The ignored "
        "method stays with Python, so it is lost in the file; the plain one never came along. "
        "torch.jit.export has nothing to do with shapes or loops, nor with torch.export."
    ),
    wrong={
        ("['marked']", "['marked']"): (
            "Some say a method must carry torch.jit.export to be compiled. What forward calls is "
            "compiled anyway."
        ),
        (
            "['called', 'marked', 'below', 'ignored', 'plain']",
            "['called', 'marked', 'below', 'ignored', 'plain']",
        ): "Not all of them: one is reached from nowhere.",
        ("['called', 'marked', 'below']", "['called', 'marked', 'below']"): (
            "The ignored one can still be called, as long as Python is there."
        ),
        (
            "['called', 'marked', 'below', 'ignored']",
            "['called', 'marked', 'below', 'ignored']",
        ): "A file without Python cannot hold a method of Python's.",
        ("['called', 'marked', 'ignored']", "['called', 'marked']"): (
            "The marked method calls another one. script follows."
        ),
    },
    at={
        "hasattr(scripted, n)": (
            "This line asks the scripted module, with Python still beside it. Where does script "
            "begin, and which calls does it follow?"
        ),
        "hasattr(loaded, n)": (
            "The scripted module is right. Now the file, which knows no Python: what of all "
            "this can go into it?"
        ),
    },
)
def test_which_methods_came_along():
    """The class `Parts` stands at the head of this file. It is scripted, saved and loaded again.

    Which methods has the scripted module, and which ones the loaded? Keep the order of `names`.
    """
    names = ["called", "marked", "below", "ignored", "plain"]
    scripted = torch.jit.script(Parts())
    loaded = through_a_file(scripted)
    assert [n for n in names if hasattr(scripted, n)] == answer(
        ["called", "marked", "below", "ignored"]
    )
    assert [n for n in names if hasattr(loaded, n)] == answer(["called", "marked", "below"])


@pytest.mark.needs(python="<3.14")
@koan(
    see="torch.nn.ModuleList",
    hint=[
        "Each layer has a type of its own there. So what does layers[i] have, if i is not known?",
        "You can walk through a ModuleList. The walk is written out while compiling, so it cannot "
        "be left with break.",
        "Walk through all of them, and decide at each layer whether x goes through it.",
    ],
    why=(
        "A list of tensors may be indexed with a variable, a ModuleList may not: for script it is "
        "a fixed row of different things. The loop over it is unrolled, so each round is known "
        "beforehand, and the condition on `depth` is decided at run time."
    ),
    wrong={
        "for i in range(depth):\n    x = self.layers[i](x)\nreturn x": (
            "Python's way. script wants an index that is written as a number."
        ),
        "for layer in self.layers[:depth]:\n    x = layer(x)\nreturn x": (
            "A slice with a variable end is the same difficulty."
        ),
        "for i, layer in enumerate(self.layers):\n    if i == depth:\n        break\n"
        "    x = layer(x)\nreturn x": "Walked through, yes. But an unrolled loop has no break.",
        "for layer in self.layers:\n    x = layer(x)\nreturn x": "That is always all of them.",
        "if depth > 0:\n    x = self.layers[0](x)\nif depth > 1:\n    x = self.layers[1](x)\n"
        "return x": "It compiles, for two layers. There may be more.",
    },
    right=[
        "for i, layer in enumerate(self.layers):\n    if i >= depth:\n        return x\n"
        "    x = layer(x)\nreturn x",
        "i = 0\nfor layer in self.layers:\n    if i < depth:\n        x = layer(x)\n    i += 1\n"
        "return x",
        "for layer in self.layers:\n    if depth > 0:\n        x = layer(x)\n    depth -= 1\n"
        "return x",
    ],
    at={
        "torch.jit.script(model)": (
            "script refuses this forward, and its message shows a line. What in that line can "
            "it not know, or not do, beforehand?"
        ),
        "scripted(start, depth)": (
            "script takes your forward. Here x should go through the first `depth` layers only. "
            "Print the result for depth 0, 1 and 2."
        ),
        "scripted(start, size)": (
            "Each smaller depth is right. Here `depth` is the number of layers, so x should go "
            "through all of them."
        ),
    },
)
def test_only_the_first_layers():
    """Write forward: x goes through the first `depth` layers, and the class can be scripted.

    `depth` is known only when it is called.
    """

    class Stack(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(size))

        def forward(self, x, depth: int):
            # answer:
            for i, layer in enumerate(self.layers):
                if i < depth:
                    x = layer(x)
            return x
            # end

    for size in (2, 4):
        model = Stack(size)
        scripted = torch.jit.script(model)
        start = expected = torch.ones(1, 2)
        for depth in range(size):
            assert torch.allclose(scripted(start, depth), expected)
            expected = model.layers[depth](expected)
        assert torch.allclose(scripted(start, size), expected)


@pytest.mark.needs(python="<3.14")
@koan(
    claims=["A-5.2-09"],
    see="torch.jit.script",
    hint=[
        "script names one fault at a time. Mend it, and read the next message.",
        "Is it the attribute? It could change between the test and the use; a local variable "
        "cannot.",
        "Is it the list? An empty one is taken for a list of tensors, unless you say what it "
        "will hold.",
        "Is it y? After an `if`, a name must have one type, whichever way was taken.",
    ],
    why=(
        "Types again, in three places. `is not None` teaches script something of a local variable "
        "only. An empty list needs an annotation. And y must be a tensor on both ways. "
        "Python minds none of it; whoever reads your code may be glad of it."
    ),
    wrong={
        "def forward(self, x):\n"
        "    diary: list[str] = []\n"
        "    if self.offset is not None:\n"
        "        x = x + self.offset\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    y = torch.zeros_like(x) if x.sum() < 0 else x\n"
        "    return y, diary": "The attribute is tested. But script does not trust an attribute.",
        "def forward(self, x):\n"
        "    diary = []\n"
        "    offset = self.offset\n"
        "    if offset is not None:\n"
        "        x = x + offset\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    y = torch.zeros_like(x) if x.sum() < 0 else x\n"
        "    return y, diary": "A list of nothing yet. What will be in it?",
        "def forward(self, x):\n"
        "    diary: list[str] = []\n"
        "    offset = self.offset\n"
        "    if offset is not None:\n"
        "        x = x + offset\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    if x.sum() < 0:\n"
        "        y = 0\n"
        "    else:\n"
        "        y = x\n"
        "    return y, diary": "Some say an int and a tensor are both numbers. Not to a compiler.",
        "def forward(self, x):\n"
        "    diary: list[str] = []\n"
        "    offset = self.offset\n"
        "    if offset is not None:\n"
        "        x = x + offset\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    return x.clamp(min=0), diary": "Each number by itself? The sum decides.",
        "def forward(self, x):\n"
        "    diary: list[str] = []\n"
        "    offset = self.offset\n"
        "    if offset is not None:\n"
        "        x = x + offset\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    y = torch.zeros(2) if x.sum() < 0 else x\n"
        "    return y, diary": "It compiles. But not every x has two numbers.",
        "@torch.jit.ignore\n"
        "def forward(self, x):\n"
        "    diary = []\n"
        "    if self.offset is not None:\n"
        "        x = x + self.offset\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    y = torch.zeros_like(x) if x.sum() < 0 else x\n"
        "    return y, diary": "Then nothing is compiled, and there is nothing to save.",
    },
    right=[
        "def forward(self, x):\n"
        "    offset = self.offset\n"
        "    if offset is not None:\n"
        "        x = x + offset\n"
        "    diary: list[str] = []\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary += ['halved']\n"
        "    if x.sum() < 0:\n"
        "        return x * 0, diary\n"
        "    return x, diary",
        "def forward(self, x):\n"
        "    offset = self.offset\n"
        "    if offset is None:\n"
        "        offset = torch.zeros_like(x)\n"
        "    x = x + offset\n"
        "    diary = torch.jit.annotate(list[str], [])\n"
        "    while x.sum() > 8:\n"
        "        x = x / 2\n"
        "        diary.append('halved')\n"
        "    return torch.where(x.sum() < 0, torch.zeros_like(x), x), diary",
    ],
    at={
        "assert (y.tolist(), notes)": (
            "It compiles, and it goes through a file. But the results are not those of the old "
            "forward. Print y and notes."
        ),
    },
)
def test_what_python_does_not_mind():
    """Good Python, and script refuses it, for three reasons. Repair forward: the same results, and
    it compiles.

    In Python the 0 has no shape; here it takes the shape of x.
    """

    class Damped(nn.Module):
        offset: torch.Tensor | None

        def __init__(self, offset):
            super().__init__()
            self.offset = offset

        # answer:
        def forward(self, x):
            diary: list[str] = []
            offset = self.offset
            if offset is not None:
                x = x + offset
            while x.sum() > 8:
                x = x / 2
                diary.append("halved")
            if x.sum() < 0:
                y = torch.zeros_like(x)
            else:
                y = x
            return y, diary

        # given:
        # def forward(self, x):
        #     diary = []
        #     if self.offset is not None:
        #         x = x + self.offset
        #     while x.sum() > 8:
        #         x = x / 2
        #         diary.append("halved")
        #     if x.sum() < 0:
        #         y = 0
        #     else:
        #         y = x
        #     return y, diary
        # end

    for offset, x, expected, diary in (
        (None, [16.0, 8.0], [4.0, 2.0], ["halved", "halved"]),
        (None, [1.0, -3.0, 1.0], [0.0, 0.0, 0.0], []),
        (torch.tensor([2.0, 4.0]), [-3.0, 1.0], [-1.0, 5.0], []),
    ):
        y, notes = through_a_file(torch.jit.script(Damped(offset)))(torch.tensor(x))
        assert (y.tolist(), notes) == (expected, diary)
