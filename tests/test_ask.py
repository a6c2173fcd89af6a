"""``koans ask``: the names are there, as they stand before the blank; no file changes."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from sensei.ask import blank_is_inside, lines_before_blank
from tests.desk import SMALL, Desk

MakeDesk = Callable[..., Desk]


def asked(made: Desk, target: str, typed: str) -> str:
    """What the plain prompt prints for what somebody types."""
    script = (
        "import sys; from sensei import ask; ask.best_prompt = lambda: ask._plain;"
        "from sensei.cli import main; sys.exit(main(['ask', *sys.argv[1:]]))"
    )
    done = made.run("-c", script, *([target] if target else []), input=typed)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_names_before_the_blank(desk: MakeDesk) -> None:
    made = desk(SMALL)
    before = made.file().read_bytes()
    said = asked(made, "", "x.sum().item()\nx = None\n")
    assert "test_shape" in said and "torch, x" in said and "21" in said
    assert made.file().read_bytes() == before


@pytest.mark.parametrize("text", ["def broken(:\n", "", "x = 1\n"])
def test_a_file_that_is_of_no_help(desk: MakeDesk, text: str) -> None:
    made = desk(SMALL)
    made.file().write_text(text)
    assert "[4, 5, 6]" in asked(made, "test_shape", "x.tolist()\n")
    made.file().unlink()
    assert "[4, 5, 6]" in asked(made, "test_shape", "x.tolist()\n")


def test_lines_that_stop(desk: MakeDesk) -> None:
    made = desk(SMALL)
    made.edit("x = torch.arange(6)", "x = torch.arange(6)\n    torch.nothing()")
    said = asked(made, "test_refused", "x.shape\n")
    assert "stopped with AttributeError" in said and "torch.Size([6])" in said


def body(source: str, name: str) -> list[str]:
    """The lines of the test that run before the prompt opens."""
    lines = [ast.unparse(node) for node in lines_before_blank(source, name).body]
    return [line for line in lines if not line.startswith(("import", "from", "'", '"'))]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("x = 1\n    assert x == __", ["x = 1"]),
        ("x = 1\n    y = __\n    assert x == y", ["x = 1"]),
        ("x = 1\n    assert x == 1", ["x = 1"]),
        ("x = 1\n    for i in x:\n        assert i == __\n    y = 2", ["x = 1"]),
        ("x = 1\n    # your turn:\n    y = x\n    # end\n    assert y", ["x = 1"]),
        ("x = 1\n    # your turn:\n    __\n    # end\n    assert y", ["x = 1"]),
        ("with f() as g:\n        y = 2\n    assert g is __", ["with f() as g:\n    y = 2"]),
    ],
)  # fmt: skip
def test_where_the_first_blank_stands(test: str, expected: list[str]) -> None:
    source = f'import torch\n\n\ndef test_a():\n    """Lesson."""\n    {test}\n'
    assert body(source, "test_a") == expected


def test_no_such_test() -> None:
    with pytest.raises(LookupError):
        lines_before_blank("x = 1\n", "test_a")


@pytest.mark.parametrize(
    ("test", "inside"),
    [
        ("x = 1\n    assert x == __", False),
        ("for i in (1, 2):\n        assert i == __", True),
        ("def f():\n        # your turn:\n        __\n        # end\n    assert f()", True),
        ("with f():\n        x = 1\n    assert x == __", False),
    ],
)
def test_a_blank_inside_a_block_is_told(test: str, inside: bool) -> None:
    helper = "import torch\n\n\ndef help():\n    return 1\n\n\n"
    source = f'{helper}def test_a():\n    """L."""\n    {test}\n'
    assert blank_is_inside(source, "test_a") == inside
