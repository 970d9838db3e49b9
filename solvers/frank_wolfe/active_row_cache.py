"""A cache of as many kernel rows of the active examples as fit into a memory limit."""

from __future__ import annotations

from functools import partial

import numpy as np

from livesvm.solvers.kernels.matrix_products import PreparedRows, write
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats, Ints, Numbers

SHARE = 8192  #: columns that a thread adds up at once
SPARE = 8  #: for this many examples one spare column is made, for examples that come later


class ActiveRows:
    """A bounded cache of kernel rows ``k(x_i, .)`` of ``examples``; a full cache replaces randomly chosen rows.

    A search that visits all examples in turn would never find a row in a cache that drops the least recently used rows,
    because the search needs exactly these rows next. With random replacement the search finds as large a share of the
    rows as fits.

    Parameters
    ----------
    limit : bytes that the rows may take
    largest : how many examples there will be at most
    """

    def __init__(
        self, examples: PreparedRows, limit: int, threads: int, random: np.random.Generator, largest: int
    ) -> None:
        self.examples = examples
        self.computed = 0  #: kernel values so far
        self._threads, self._random = threads, random
        width = largest + largest // SPARE
        # one piece of memory for all later shapes of the rows: new memory takes longer than moving rows in it
        self._memory: Numbers = np.empty(
            min(max(limit // examples.dtype.itemsize, width), largest * width), examples.dtype
        )
        self._make_places()

    def _make_places(self) -> None:
        n = self.examples.n
        width = n + n // SPARE
        most = min(n, self._memory.size // width)
        self.values: Numbers = self._memory[: most * width].reshape(most, width)  #: (most, n or more)
        self.place_of = np.full(n, -1, np.int64)  #: (n,) the place of an example's row, -1: no row
        self._owner = np.full(most, -1, np.int64)  # (most,) the example of a place, -1: no example

    @property
    def most(self) -> int:
        """The largest number of rows that the cache can hold."""
        return self._owner.size

    def fetch(self, indices: Ints) -> Ints:
        """Return the positions (m,) in ``values`` of the rows of distinct ``indices``; compute missing rows."""
        missing = indices[self.place_of[indices] < 0]
        if missing.size:
            places = np.sort(self._vacated(missing.size, indices))
            self.computed += missing.size * self.examples.n
            write(self.examples.take(missing), self.examples, self.values, places, self._threads)
            self._owner[places] = missing
            self.place_of[missing] = places
        return self.place_of[indices]

    def _vacated(self, count: int, keep: Ints) -> Ints:
        """Return ``count`` free positions in ``values``; if needed, drop random rows except for those of ``keep``."""
        free = np.flatnonzero(self._owner < 0)[:count]
        if free.size < count:
            wanted = np.zeros(self.examples.n, bool)
            wanted[keep] = True
            held = np.flatnonzero(self._owner >= 0)
            held = held[~wanted[self._owner[held]]]
            gone = self._random.choice(held, count - free.size, replace=False)
            self.place_of[self._owner[gone]] = -1
            self._owner[gone] = -1
            free = np.concatenate([free, gone])
        return free

    def times(self, indices: Ints, weights: Floats) -> Floats:
        """Return p weighted sums (p, n) of the rows of ``indices`` (m,), with ``weights`` (p, m)."""
        out = np.zeros((weights.shape[0], self.examples.n))
        for start in range(0, indices.size, self.most):
            some = slice(start, start + self.most)
            places = self.fetch(indices[some])
            own = np.ascontiguousarray(weights[:, some], self.values.dtype)
            works = [
                partial(_add, self.values, places, own, first, min(out.shape[1], first + SHARE), out)
                for first in range(0, out.shape[1], SHARE)
            ]
            together(works, self._threads)
        return out

    def extend(self, examples: PreparedRows) -> bool:
        """Append columns for the new examples at the end of ``examples``; return False if there is too little space."""
        n, more = self.examples.n, examples.n - self.examples.n
        if examples.n > self.values.shape[1]:
            return False
        self.examples = examples
        self.place_of = np.concatenate([self.place_of, np.full(more, -1, np.int64)])
        held = np.flatnonzero(self._owner >= 0)
        self.computed += held.size * more
        new = examples.take(slice(n, None))
        write(examples.take(self._owner[held]), new, self.values, held, self._threads, n)
        return True

    def change(self, examples: PreparedRows, stay: Ints) -> None:
        """Replace the examples by ``examples``: the old ones at the positions ``stay``, followed by new ones."""
        values, before = self.values, self.place_of[stay]
        held = np.flatnonzero(before >= 0)
        held = held[np.argsort(before[held])]
        self.examples = examples
        self._make_places()
        held = held[: self.most]
        _move_rows(values, before[held], stay, self.values)
        places = np.arange(held.size)
        self._owner[places] = held
        self.place_of[held] = places
        new = examples.n - stay.size
        if new and held.size:
            self.computed += held.size * new
            write(
                examples.take(held),
                examples.take(slice(stay.size, None)),
                self.values,
                places,
                self._threads,
                stay.size,
            )


def _move_rows(old: Numbers, rows: Ints, columns: Ints, new: Numbers) -> None:
    """Copy ``columns`` of ``rows`` (both ascending) of ``old`` to the start of ``new``, an array in the same memory.

    The rows are first moved to the start of ``old``. The moved rows are copied from the last to the first if the rows
    of ``new`` are longer, and otherwise from the first to the last, so that no row is overwritten before it is read.
    """
    for i, row in enumerate(rows.tolist()):
        if row > i:
            old[i] = old[row]
    whole = columns.size > 0 and columns[-1] == columns.size - 1
    order = range(rows.size) if new.shape[1] <= old.shape[1] else range(rows.size - 1, -1, -1)
    for i in order:
        new[i, : columns.size] = old[i, : columns.size] if whole else old[i][columns]


@compiled
def _add(values: Numbers, places: Ints, weights: Numbers, first: int, last: int, out: Floats) -> None:
    """Add ``weights[q, i] * values[places[i], first:last]`` to ``out[q, first:last]``, for all q and i."""
    end = places.size - 1
    for start in range(first, last, 2048):
        stop = min(last, start + 2048)
        for i in range(0, places.size, 4):
            i1, i2, i3 = min(i + 1, end), min(i + 2, end), min(i + 3, end)
            r0, r1 = values[places[i], start:stop], values[places[i1], start:stop]
            r2, r3 = values[places[i2], start:stop], values[places[i3], start:stop]
            for q in range(weights.shape[0]):
                w = weights[q]
                w0 = w[i]
                w1 = w[i1] if i1 > i else 0 * w0
                w2 = w[i2] if i2 > i1 else 0 * w0
                w3 = w[i3] if i3 > i2 else 0 * w0
                sums = out[q, start:stop]
                for j in range(stop - start):
                    sums[j] += w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]
