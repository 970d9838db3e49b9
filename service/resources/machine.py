"""The cores and the memory that this process may use, and the return of freed memory to the system."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

_ARENAS = 2
"""How many heaps the threads share: a heap keeps the memory freed in it, so one per thread would keep each's peak."""
_LARGE = 2**20
"""Blocks of so many bytes are mapped by themselves and go back at once when they are freed."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_THRESHOLDS = 20_000, 20
"""Thresholds of garbage collection: new objects before a collection of the youngest generation, and such collections
before one of the next generation; Python's defaults are 700 and 10."""


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: the machine's, or the limit of its control group."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_group_limits(root)])


def _group_limits(root: Path) -> list[int]:
    """Return the memory limits of this process's control groups, of version 1 and 2; empty if there are none."""
    limits = []
    for folder in _groups(root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file; "max"
                limits.append(int((folder / name).read_text()))
    return [limit for limit in limits if limit > 0]


def _groups(root: Path) -> list[Path]:
    """Return the folders of this process's control groups, and of the groups above them."""
    mounted = root / "sys/fs/cgroup"
    folders = {mounted, mounted / "memory"}
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                own = mounted / controllers / path.lstrip("/")
                folders |= {own, *(parent for parent in own.parents if mounted in parent.parents)}
    return sorted(folders)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident_bytes() -> int:
    """Return the bytes that this process has in memory now; 0 if the system does not report them."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def give_back_large_blocks() -> None:
    """Make the C library return freed memory to the system sooner; call this before other threads are started."""
    with suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, _ARENAS)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)


def collect_seldom() -> None:
    """Make Python collect garbage less often: with 2,000 series, collections took 17% of the time of each reading."""
    gc.set_threshold(*_THRESHOLDS)


def give_back() -> None:
    """Give free memory back to the system; this takes some milliseconds, in which other threads can run."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
