"""Progress of long work, reported at regular intervals to a function that can end the work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime.interrupt import interruptible

#: Called in the thread of the work, with the work done and all work, as far as known; False cancels.
Progress = Callable[[int, int], bool]

EVERY = 0.25  #: seconds between two calls without progress


def part_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    """Return the progress function for one part of ``count`` equal parts; None if there is no function."""
    return None if progress is None else lambda done, of: progress(number * of + done, count * of)


class Teller:
    """Reports how much of a total is done; a smaller amount than before is ignored."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._done, self._total = 0, total

    def __call__(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` are done; raises Cancelled if the progress function returns False."""
        self._done, self._total = max(done, self._done), total
        self.again()

    def again(self) -> None:
        """Report the last progress again; raises Cancelled if the progress function returns False."""
        if self._progress is not None and not self._progress(self._done, self._total):
            raise Cancelled(f"cancelled when {self._done} of {self._total} were done")


@contextmanager
def steadily(progress: Progress | None, total: int) -> Iterator[Teller]:
    """Report to ``progress`` at the start, whenever the work inside reports, and regularly in between."""
    teller = Teller(progress, total)
    if progress is None:
        yield teller
        return
    teller.again()
    over = threading.Event()
    with interruptible(teller.again) as interrupt:

        def ask() -> None:
            while not over.wait(EVERY):
                interrupt.ask()

        clock = threading.Thread(target=ask, name="progress", daemon=True)
        clock.start()
        try:
            yield teller
        finally:
            over.set()
            clock.join()
