"""Arrays in which each row begins at a line of the processor's cache, so that no vector instruction reads two lines."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.runtime.types import Floats

LINE = 8  #: numbers; 64 bytes
BYTES: Callable[[NDArray[Any]], int] = attrgetter("nbytes")  #: of an array
SCRATCH = 2**20  #: numbers; memory that is never written to takes no space

_here = threading.local()


def aligned(*shape: int, make: Callable[[int], Floats] = np.empty) -> Floats:
    """Return an array in memory that ``make`` allocates; its rows are aligned if :func:`padded` gave their length."""
    size = math.prod(shape)
    whole = make(size + LINE)
    start = -(int(whole.__array_interface__["data"][0]) // whole.itemsize) % LINE
    return whole[start : start + size].reshape(shape)


def padded(length: int) -> int:
    """Return the row length, at least ``length``, that fills an odd number of cache lines.

    With an even number of lines, entries of a column in different rows would compete for the same few sets of the
    cache.
    """
    lines = -(-length // LINE)
    return LINE * (lines + (lines % 2 == 0))


def scratch() -> Floats:
    """Return this thread's work memory for one compiled call, (SCRATCH,); every call may overwrite it."""
    found: Floats | None = getattr(_here, "scratch", None)
    if found is None:
        found = _here.scratch = aligned(SCRATCH)
    return found
