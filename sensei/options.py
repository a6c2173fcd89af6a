"""What the plugin adds to pytest's command line and to its marks."""

from __future__ import annotations

import pytest

DEADLINE = 60.0  # seconds that a koan may take, if nobody says less

MARKERS = (
    "gpu: needs a CUDA device; asleep without one",
    "timeout(seconds): the longest this koan may take",
    "slow: takes more than a second",
    "tour(seconds): part of the four-minute tour of the five primitives, and its share of it",
    "needs(torch=..., python=..., package=..., platform=..., fork=True): asleep without these",
)


def add_options(parser: pytest.Parser) -> None:
    """The options of a run; each has a default that suits a learner."""
    group = parser.getgroup("koans", "torch-koans")
    group.addoption(
        "--reveal",
        action="store_true",
        help="show pytest's own failure report, with the values of both sides",
    )
    group.addoption(
        "--document",
        metavar="SECTION",
        help="only koans that teach a section of the articles: A-4.2, say, or B",
    )
    group.addoption(
        "--device", metavar="DEVICE", help="the `device` fixture: cuda if present, else cpu"
    )
    group.addoption(
        "--deadline",
        type=float,
        default=DEADLINE,
        metavar="SECONDS",
        help="the longest a koan may take (default: 60); its own timeout mark may say less",
    )
    group.addoption(
        "--isolate",
        choices=("fork", "none"),
        help="run each koan in a process of its own (fork) or all in this one (none); by "
        "default in one of its own, which those that passed before may share (Linux)",
    )
