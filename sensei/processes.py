"""Find and end processes: a child, its group, and whatever has left the group. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

PATIENCE = 2.0  # seconds in which those that clean up may end by themselves
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def become_subreaper() -> None:
    """From now on, what a dead child leaves behind becomes a child of ours."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# Loaded once, and not in each child.
LIBC: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        LIBC.prctl(option, value, 0, 0, 0)


def end(pid: int, ours: set[int]) -> int:
    """Kill the child's group and whatever left it; return the child's wait status."""
    status = 0
    with suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
    if _group_lives(pid):
        _end_group(pid)
    # What left the group was handed to us, the subreaper, when its parent died.
    for _ in range(1000):
        strays = children() - ours - {pid}
        if not strays:
            break
        for stray in strays:
            with suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(stray, 0)
    return status


# Processes that remove semaphores and shared memory once their clients are gone. Killed with
# the rest, they would leave these behind; left alone for a moment, they end by themselves.
CLEANERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")


def _end_group(pid: int) -> None:
    """Kill what is left of a group, and give those that clean up a moment to do it."""
    for member in _group(pid):
        if not _is_cleaner(member):
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while _group_lives(pid) and time.monotonic() < end:
        _reap(pid)
        time.sleep(0.005)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(pid: int) -> None:
    """Bury what was handed to us and has died, or its group would never be empty."""
    with suppress(ChildProcessError):
        while os.waitpid(-pid, os.WNOHANG)[0]:
            pass


def _group(pid: int) -> list[int]:
    """Process ids of a process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.getpgid(int(name)) == pid:
                    found.append(int(name))
    return found


def _is_cleaner(pid: int) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        command = file.read()
        return any(cleaner in command for cleaner in CLEANERS)
    return False


def children() -> set[int]:
    """Process ids of our living children (all threads of ours)."""
    found: set[int] = set()
    with suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
                found.update(int(pid) for pid in file.read().split())
    return found
