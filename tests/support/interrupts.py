"""What a handler sees that is called in the middle of a solve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from livesvm.solvers.runtime.interrupt import interruptible
from tests.interrupts import Looks


@contextmanager
def looked_at(looks: Looks) -> Iterator[Looks]:
    """Call a handler at every look inside."""
    with interruptible(looks) as interrupt:
        looks.start(interrupt)
        yield looks
