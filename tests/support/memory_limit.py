"""A limit of memory as a container has it: a control group, or where none can be made the address space."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

CONTROLLERS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.swap.max"),
)
"""Of versions 1 and 2: where groups are made, and their files with the limits of memory and of swap."""


@contextmanager
def memory_limit(size: int, mapped: int) -> Iterator[Callable[[], None]]:
    """Make a limit, and yield what a process calls to be under it, with its children.

    A group counts the pages of all its processes, copies too. Above the limit the kernel kills one of them. The
    address space is limited for each process alone, and its allocations fail above the limit.

    Parameters
    ----------
    size : bytes that the processes may have
    mapped : bytes of address space that one has before it holds anything
    """
    group = _group(size)
    if group is None:
        most = mapped + size
        yield lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))
        return
    try:
        yield lambda: _write(group / "cgroup.procs", os.getpid())
    finally:
        end = time.monotonic() + 20
        while True:
            for left in (group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(left), signal.SIGKILL)
            try:
                group.rmdir()
                break
            except OSError:  # a process of it ends just now
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)


def _group(size: int) -> Path | None:
    for root, memory, swap in CONTROLLERS:
        group = root / f"livesvm-test-{uuid4().hex}"
        with suppress(OSError):
            if not (root / "cgroup.procs").exists():
                continue
            group.mkdir()
            try:
                _write(group / memory, size)
            except OSError:
                group.rmdir()
                raise
            with suppress(OSError):  # not every kernel counts swap
                _write(group / swap, size if root.name == "memory" else 0)
            return group
    return None


def _write(file: Path, value: int) -> None:
    with file.open("r+") as opened:
        opened.write(str(value))
