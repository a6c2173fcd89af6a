"""Why a koan cannot run here: no CUDA, another torch, Python, package or start method.

Asks the installed packages' metadata, so that torch is imported only when a ``gpu`` koan
meets a torch that was built for CUDA.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from sensei import words
from sensei.records import Koan, Mark

MINIMUM_TORCH = "2.6"


@dataclass(frozen=True)
class Sleep:
    reason: str
    cuda: bool = False  # the reason is a missing CUDA device


def sleep_of(koan: Koan) -> Sleep | None:
    """Why this koan sleeps here, or None if it is awake."""
    for needs in (mark for mark in koan.marks if mark.name == "needs"):
        if reason := _lacks(needs):
            return Sleep(reason)
    if koan.mark("gpu") and not has_cuda():
        return Sleep(words.NEEDS_CUDA, cuda=True)
    return None


def _lacks(needs: Mark) -> str:
    """What a needs mark asks for and is not here; "" if all is."""
    torch, python, package = needs.get("torch"), needs.get("python"), needs.get("package")
    if torch and not _fits(torch_version(), torch):
        return words.NEEDS_TORCH.format(spec=torch, version=torch_version())
    if python and not _fits(platform.python_version(), python):
        return words.NEEDS_PYTHON.format(spec=python, version=platform.python_version())
    if package and importlib.util.find_spec(package) is None:
        return words.NEEDS_PACKAGE.format(package=package)
    if needs.get("platform") not in (None, sys.platform):
        return words.NEEDS_PLATFORM.format(platform=needs.get("platform"))
    if needs.get("fork") and not hasattr(os, "fork"):
        return words.NEEDS_FORK
    return ""


def _fits(version: str, spec: str) -> bool:
    # A nightly counts as the release it leads to.
    return Version(Version(version).base_version) in SpecifierSet(spec)


@cache
def torch_version() -> str:
    """The installed torch's version, without importing it; "" if there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def missing_subject() -> str:
    """Why no koan can run at all here; "" if torch and numpy are fit for it."""
    version = torch_version()
    if not version or importlib.util.find_spec("torch") is None:
        return words.NO_TORCH.format(minimum=MINIMUM_TORCH)
    if Version(Version(version).base_version) < Version(MINIMUM_TORCH):
        return words.OLD_TORCH.format(version=version, minimum=MINIMUM_TORCH)
    if importlib.util.find_spec("numpy") is None:
        return words.NO_PACKAGE.format(package="numpy")
    return ""


@cache
def has_cuda() -> bool:
    """Is there a CUDA device? A CPU build of torch answers from its files, unimported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    version_file = Path(spec.origin).with_name("version.py")
    with suppress(OSError):
        text = version_file.read_text()
        if all(re.search(rf"^{kind}\b.*= None", text, re.M) for kind in ("cuda", "hip")):
            return False
    import torch

    return bool(torch.cuda.is_available())
