"""Global state that a koan may spoil, kept and restored where no child takes the damage.

Only what changed is restored: merely touching some of these costs a second.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knob:
    """One global: how to read it and how to set it. Values compare with ``same``."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]
    same: Callable[[Any, Any], bool] = lambda a, b: bool(a == b)


@contextmanager
def unspoiled() -> Iterator[None]:
    """Whatever the block does to a known global is undone afterwards."""
    kept = [(knob, knob.get()) for knob in knobs()]
    had_torch = "torch" in sys.modules
    try:
        yield
    finally:
        if not had_torch and "torch" in sys.modules:
            _fresh_torch()
        for knob, value in kept:
            if not knob.same(knob.get(), value):
                knob.set(value)


def knobs() -> list[Knob]:
    """The globals known here. Those of torch and numpy only if somebody imported them."""
    found = [
        Knob("environment", lambda: dict(os.environ), _set_environment),
        Knob("working directory", _cwd, os.chdir),
        Knob("sys.path", lambda: list(sys.path), lambda v: sys.path.__setitem__(slice(None), v)),
        Knob("warnings", lambda: list(warnings.filters), _set_filters),
        Knob("random", random.getstate, random.setstate),
        Knob("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
        Knob("gc", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    ]
    if "multiprocessing" in sys.modules:
        found += _multiprocessing_knobs()
    if "numpy" in sys.modules:
        found += _numpy_knobs()
    if "torch" in sys.modules:
        found += _torch_knobs()
    return found


def _cwd() -> str:
    with suppress(OSError):
        return os.getcwd()
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _set_environment(value: dict[str, str]) -> None:
    for name in set(os.environ) - set(value):
        del os.environ[name]
    os.environ.update(value)


def _set_filters(value: list[Any]) -> None:
    warnings.filters[:] = value  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]  # or old decisions stay cached


def _multiprocessing_knobs() -> list[Knob]:
    multiprocessing = sys.modules["multiprocessing"]
    return [
        Knob(
            "start method",
            lambda: multiprocessing.get_start_method(allow_none=True),
            lambda value: multiprocessing.set_start_method(value, force=True),
        )
    ]


def _numpy_knobs() -> list[Knob]:
    numpy = sys.modules["numpy"]

    def same(a: Any, b: Any) -> bool:
        return bool(a[0] == b[0] and (a[1] == b[1]).all() and a[2:] == b[2:])

    return [
        Knob("numpy.random", numpy.random.get_state, numpy.random.set_state, same),
        Knob("numpy errors", numpy.geterr, lambda value: numpy.seterr(**value)),
    ]


def _torch_knobs() -> list[Knob]:
    torch = sys.modules["torch"]

    def deterministic() -> tuple[bool, bool]:
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )

    def anomaly() -> tuple[bool, bool]:
        return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()

    def autocast() -> tuple[Any, ...]:
        kinds = ("cpu", "cuda")
        return tuple((torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in kinds)

    def set_autocast(value: tuple[Any, ...]) -> None:
        for kind, (enabled, dtype) in zip(("cpu", "cuda"), value):
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)

    cudnn = torch.backends.cudnn

    def set_cudnn(value: tuple[bool, bool]) -> None:
        cudnn.deterministic, cudnn.benchmark = value

    return [
        Knob("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Knob("default device", _default_device, torch.set_default_device),
        Knob("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        Knob("anomaly mode", anomaly, lambda value: torch.autograd.set_detect_anomaly(*value)),
        Knob(
            "deterministic algorithms",
            deterministic,
            lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        ),
        Knob(
            "cudnn",
            lambda: (cudnn.deterministic, cudnn.benchmark),
            set_cudnn,
        ),
        Knob(
            "matmul precision",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        Knob("autocast", autocast, set_autocast),
        Knob("threads", torch.get_num_threads, torch.set_num_threads),
        Knob("torch random state", torch.get_rng_state, torch.set_rng_state, torch.equal),
        Knob(
            "sharing strategy",
            lambda: torch.multiprocessing.get_sharing_strategy(),
            lambda value: torch.multiprocessing.set_sharing_strategy(value),
        ),
        Knob(
            "print options",
            lambda: vars(torch._tensor_str.PRINT_OPTS).copy(),
            lambda value: vars(torch._tensor_str.PRINT_OPTS).update(value),
        ),
    ]


def _default_device() -> Any:
    """The default device somebody set, or None. Asks no more than a thread-local."""
    torch = sys.modules["torch"]
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return getattr(context, "device", None)


def _fresh_torch() -> None:
    """A koan imported torch itself: give its globals the values a fresh import has."""
    torch = sys.modules["torch"]
    fresh = {
        "default dtype": torch.float32,
        "default device": None,
        "grad mode": True,
        "anomaly mode": (False, True),
        "deterministic algorithms": (False, False),
    }
    for knob in _torch_knobs():
        if knob.name in fresh and not knob.same(knob.get(), fresh[knob.name]):
            knob.set(fresh[knob.name])
