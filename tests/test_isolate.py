"""A koan that spoils a global does not disturb the next one, in a child or in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.desk import Desk

MakeDesk = Callable[..., Desk]

HEAD = '''\
"""Each koan spoils one global; the one after it looks at all of them."""

import gc
import multiprocessing
import os
import random
import sys
import warnings

import numpy as np
import torch

from sensei import answer, koan


def state():
    """Every global that a koan could spoil, as something that compares."""
    return [
        torch.get_default_dtype(),
        torch.zeros(1).device.type,
        torch.is_grad_enabled(),
        torch.is_anomaly_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.is_autocast_enabled("cpu"),
        torch.multiprocessing.get_sharing_strategy(),
        torch.get_rng_state().sum().item(),
        repr(torch.tensor(1 / 3)),
        random.getstate()[1][:3],
        np.random.get_state()[1][:3].tolist(),
        np.geterr(),
        multiprocessing.get_start_method(allow_none=True),
        os.environ.get("KOANS_SPOILED"),
        os.getcwd(),
        "/spoiled" in sys.path,
        sys.getrecursionlimit(),
        gc.isenabled(),
        any("spoiled" in str(entry) for entry in warnings.filters),
    ]
'''

# What a koan does to the world. Each ends in a state that differs from a fresh one.
SPOILS = [
    "torch.set_default_dtype(torch.float64)",
    "torch.set_default_device('meta')",
    "torch.set_grad_enabled(False)",
    "torch.autograd.set_detect_anomaly(True)",
    "torch.use_deterministic_algorithms(True)",
    "torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark",
    "torch.set_num_threads(2)",
    "torch.set_float32_matmul_precision('medium')",
    "torch.set_autocast_enabled('cpu', True)",
    "torch.multiprocessing.set_sharing_strategy('file_system')",
    "torch.manual_seed(123)",
    "torch.set_printoptions(precision=1)",
    "random.seed(123)",
    "np.random.seed(123)",
    "np.seterr(all='ignore')",
    "multiprocessing.set_start_method('spawn', force=True)",
    "os.environ['KOANS_SPOILED'] = '1'",
    "os.chdir('/')",
    "sys.path.insert(0, '/spoiled')",
    "sys.setrecursionlimit(12345)",
    "gc.disable()",
    "warnings.filterwarnings('ignore', message='spoiled')",
]

PAIR = '''

@koan(see="torch.tensor", hint="h", why="w", wrong={{"1": "r"}})
def test_{n:02}_spoil():
    """Spoil it."""
    before = state()
    # answer:
    {spoil}
    # end
    assert state() != before


@koan(see="torch.tensor", hint="h", why="w", wrong={{"1": "r"}})
def test_{n:02}_look():
    """Is everything as it was at the start of a koan?"""
    assert [i for i, (a, b) in enumerate(zip(fresh(), CLEAN_START)) if a != b] == answer([])
'''


def book() -> str:
    """Spoiling koans and looking koans, in turn."""
    text = (
        HEAD
        + """

RANDOM = (10, 12, 13)  # seeded for each koan by its name, so they differ by right


def fresh():
    found = state()
    return [None if i in RANDOM else value for i, value in enumerate(found)]


# Importing a koan file happens outside of any koan, with the globals as pytest has them;
# one thread is what every koan runs with.
CLEAN_START = fresh()
CLEAN_START[6] = 1
"""
    )
    for n, spoil in enumerate(SPOILS):
        text += PAIR.format(n=n, spoil=spoil)
    return text


@pytest.mark.parametrize("isolate", ["fork", "none", "company"])
def test_a_spoiled_global_is_whole_again(desk: MakeDesk, isolate: str) -> None:
    made = desk(book())
    made.solve({koan.name: koan.answers for koan in made.book.koans})
    if isolate == "company":  # the second time, all of them share one child
        assert made.pytest("koans").returncode == 0
        verdicts = made.verdicts("koans")
    else:
        verdicts = made.verdicts("koans", f"--isolate={isolate}")
    assert {name: v for name, v in verdicts.items() if v != "solved"} == {}, made.last.stdout
    assert len(verdicts) == 2 * len(SPOILS)


def test_the_detector_detects(desk: MakeDesk) -> None:
    """Where nothing is spoiled, the spoiling koan fails: so each spoil above was really seen."""
    text = book().replace(SPOILS[0], "torch.get_default_dtype()")
    made = desk(text)
    made.solve({"test_00_spoil": ["torch.get_default_dtype()"]})
    assert made.verdicts("koans", "-k", "test_00_spoil")["test_00_spoil"] == "not yet"


@pytest.mark.parametrize("isolate", ["fork", "none"])
def test_random_numbers_are_the_same_in_every_run_and_order(desk: MakeDesk, isolate: str) -> None:
    text = '''\
"""Random."""

import random

import numpy as np
import torch

from sensei import answer, koan


@koan(see="torch.rand", hint="h", why="w", wrong={"1": "r"})
def test_draw():
    """Draw."""
    drawn = [torch.rand(1).item(), random.random(), float(np.random.rand())]
    print("DRAWN", drawn)
    assert len(drawn) == answer(3)


@koan(see="torch.rand", hint="h", why="w", wrong={"1": "r"})
def test_draw_again():
    """Draw."""
    drawn = [torch.rand(1).item(), random.random(), float(np.random.rand())]
    print("AGAIN", drawn)
    assert len(drawn) == answer(3)
'''
    made = desk(text)
    made.solve({"test_draw": ["4"], "test_draw_again": ["4"]})
    runs = [
        ["koans", "-k", "test_draw and not again"],
        ["koans", "-k", "test_draw and not again", "-p", "no:randomly"],
        [f"koans/{made.key}::test_draw"],
    ]
    drawn = set()
    for arguments in runs:
        output = " ".join(made.pytest(*arguments, f"--isolate={isolate}").stdout.split())
        drawn.add(output[output.index("DRAWN") :].split("]")[0])
    assert len(drawn) == 1
    again = made.pytest("koans", "-k", "again", f"--isolate={isolate}").stdout
    assert "".join(drawn).split("[")[1] not in " ".join(again.split())
