"""Which lazy answers a koan is tried with."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensei.book import Book, packaged_root
from sensei.mutants import Mutant, mutants
from sensei.parse import parse_chapter
from sensei.trees import same_answer

WRONG = '{"9": "r"}'


def all_of(*body: str, wrong: str = WRONG, right: str = "[]", mark: str = "") -> list[Mutant]:
    card = f'@koan(see="s", hint="h", why="w", wrong={wrong}, right={right})\n{mark}'
    lines = "".join(f"    {line}\n" for line in body)
    text = f'from sensei import answer, koan\n\n\n{card}\ndef test_it():\n    """L."""\n{lines}'
    chapter = parse_chapter(text, Path("01_small/test_01_small.py"))
    compile(chapter.template, "koans", "exec")
    return list(mutants(chapter, chapter.koans[0]))


def lazy(*body: str, **card: str) -> list[str]:
    return [" / ".join(m.answers) for m in all_of(*body, **card) if m.label == "lazy"]


ALWAYS = ["None", "0", "True", "''", "..."]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # predict: the other side, the first and the last name
        (["x = f()", "y = x + 1", "assert y == answer(2)"], [*ALWAYS, "y", "x"]),
        (["x = f()", "y = g()", "z = 1", "assert x.a == answer(2)"], [*ALWAYS, "x.a", "x", "z"]),
        (["assert f() is answer(2)"], [*ALWAYS, "f()"]),
        (["assert answer(2) < f() < 3"], ALWAYS),
        (["x = answer(2)", "z = 1"], ALWAYS),
        (["assert f() is answer(None)"], ["0", "True", "''", "...", "f()"]),
        # name the error
        (
            ["with raises(E) as caught:", "    f()", "assert caught.type is answer(E)"],
            [*ALWAYS, "caught.type", "caught"],
        ),
        # repair: deleted, or left
        (["# answer:", "y = 2", "# given:", "# y = 1", "# end", "assert y"], ["", "return"]),
        (["# answer:", "# given:", "# y = 1", "# end"], ["return"]),
        (["# answer:", "pass", "# given:", "# y = 1", "# end"], ["return"]),
        # write: nothing, or left
        (["# answer:", "y = 2", "# end", "assert y"], ["pass", "return"]),
        (
            ["def f(x):", "    pass", "# answer:", "y = 2", "# end", "assert y"],
            ["pass", "return"],
        ),
        # inside a function of the test: its arguments, too
        (
            [
                "def f(x, y):",
                "    # answer:",
                "    return x + y",
                "    # end",
                "assert f(1, 2) == 3",
            ],
            ["pass", "return None", "return x", "return y"],
        ),
        (
            ["def f(x):", "    # answer:", "    return x + 1", "    # given:", "    # return x"]
            + ["    # end", "assert f(1) == 2"],
            ["", "return None", "return x"],
        ),
        (
            ["class A:", "    def f(self, x):", "        # answer:", "        return x + 1"]
            + ["        # end", "assert A().f(1) == 2"],
            ["pass", "return None", "return x"],
        ),
        (
            ["class A:", "    @staticmethod", "    def forward(ctx, x):", "        # answer:"]
            + ["        return x + 1", "        # end", "assert A"],
            ["pass", "return None", "return x"],
        ),
        # the body of a class: a return there is no Python, and would hurt the whole file
        (["class A:", "    # answer:", "    x = 1", "    # end", "assert A.x"], ["pass"]),
        # several places
        (
            ["x = f()", "assert x == answer(1)", "assert g() == answer(2)"],
            ["None / None", "0 / 0", "True / True", "'' / ''", "... / ...", "x / g()", "x / x"],
        ),
        (
            ["x = answer(1)", "# answer:", "y = 2", "# end"],
            ["None / pass", "0 / return", "True / return", "'' / return", "... / return"],
        ),
    ],
)
def test_lazy_answers(body: list[str], expected: list[str]) -> None:
    slots = sum("answer" in line for line in body)
    wrong = WRONG if slots == 1 else '{("9", "9"): "r"}'
    assert lazy(*body, wrong=wrong) == expected


def test_a_lazy_answer_that_is_known_is_no_mutant() -> None:
    body = ["x = f()", "assert x == answer('')"]
    assert lazy(*body, right='["0", "x"]', wrong='{"None": "r"}') == ["True", "..."]


def test_the_declared_answers_come_first() -> None:
    found = all_of("assert f() == answer(2)", wrong='{"7": "r", "8": "r"}', right='["1 + 1"]')
    assert [(m.label, m.answers, m.must_pass) for m in found[:4]] == [
        ("answer", ("2",), True),
        ("right", ("1 + 1",), True),
        ("wrong", ("7",), False),
        ("wrong", ("8",), False),
    ]
    assert not any(m.must_pass for m in found[4:])


def test_a_deadline_leaves_no_time_for_the_lazy() -> None:
    found = all_of("assert f() == answer(2)", mark="@pytest.mark.timeout(5)")
    assert [m.label for m in found] == ["answer", "wrong"]
    assert lazy("assert f() == answer(2)", mark="@pytest.mark.slow")


def test_how_a_mutant_is_named() -> None:
    body = ["# answer:", "x = 1", "y = 2", "# given:", "# x = 1", "# end"]
    named = [str(m) for m in all_of(*body)]
    assert named[0] == "01_small/test_01_small.py::test_it [answer: x = 1; y = 2]"
    assert named[2] == "01_small/test_01_small.py::test_it [lazy: (deleted)]"


BOOK = Book(packaged_root())
LAST = {key.split("/")[0]: key for key in BOOK.keys}  # group -> its last file


@pytest.mark.parametrize("key", LAST.values())
def test_no_lazy_answer_of_the_book_is_a_declared_one(key: str) -> None:
    for koan in BOOK.chapter(key).koans:
        found = list(mutants(BOOK.chapter(key), koan))
        assert {len(m.answers) for m in found} == {len(koan.slots)}
        known = [m.answers for m in found if m.label != "lazy"]
        for mutant in (m for m in found if m.label == "lazy"):
            assert not any(all(map(same_answer, mutant.answers, k)) for k in known), str(mutant)
