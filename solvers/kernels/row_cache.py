"""A bounded cache of kernel rows."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import COPY, parts
from livesvm.solvers.runtime.memory import aligned
from livesvm.solvers.runtime.types import Floats, Ints


class RowCache:
    """Kernel rows ``k(x_i, .)`` over all slots for some of the examples; new rows replace the least recently used.

    The cache has space for the row of every example, or for as many rows as the limit allows. The operating system
    provides memory only once a row is written, so all space is reserved at the start, and rows never have to be moved
    to larger arrays.

    Parameters
    ----------
    limit : bytes that the rows may take
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.values = np.empty((0, 0))  #: (rows, slots)
        self.row_of = np.empty(0, np.int64)  #: (slots,) the row of an example, -1: none
        self.slot_of = np.empty(0, np.int64)  #: (rows,) the example of a row, -1: unused
        self.used = np.empty(0, np.int64)  #: (rows,) when it was last asked for
        self.clock = 0

    @property
    def max_rows(self) -> int:
        return max(1, self.limit // (8 * max(1, self.row_of.size)))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows up to the last used one, and of the tables that assign rows to examples."""
        held = np.flatnonzero(self.slot_of >= 0)
        rows = 1 + int(held[-1]) if held.size else 0
        return 8 * rows * self.row_of.size + self.row_of.nbytes + self.slot_of.nbytes + self.used.nbytes

    def copy_from(self, other: RowCache, slots: Ints, held: Ints) -> None:
        """Start with rows of another cache: its ``slots`` (m,) become 0 to m - 1, and the rows of ``held`` are copied.

        If there is not enough space for these rows, only the most recently used are copied.
        """
        self.row_of = np.full(slots.size, -1, np.int64)
        rows = other.row_of[slots[held]]
        if held.size > self.max_rows:
            latest = np.argsort(-other.used[rows], kind="stable")[: self.max_rows]
            held, rows = held[latest], rows[latest]
        self._make_places()
        self._fill(other.values, rows, slots)
        self.row_of[held] = np.arange(held.size)
        self.slot_of[: held.size] = held

    def resize(self, slots: int) -> None:
        """Make space for ``slots`` slots; beyond them no example has a row."""
        old, slot_of, used = self.values, self.slot_of, self.used
        self.row_of = np.full(slots, -1, np.int64)
        self._make_places()
        keep = np.flatnonzero(slot_of >= 0)
        keep = keep[np.argsort(-used[keep], kind="stable")][: self.max_rows]
        self._fill(old, keep, np.arange(min(slots, old.shape[1])))
        self.row_of[slot_of[keep]] = np.arange(keep.size)
        self.slot_of[: keep.size] = slot_of[keep]
        self.used[: keep.size] = used[keep]

    def _make_places(self) -> None:
        count = min(self.max_rows, self.row_of.size)
        self.slot_of = np.full(count, -1, np.int64)
        self.used = np.zeros(count, np.int64)
        self.values = aligned(count, self.row_of.size)

    def _fill(self, values: Floats, rows: Ints, slots: Ints) -> None:
        """Copy the columns ``slots`` of ``rows`` from another cache; the copies do not belong to any example yet."""
        for part in parts(rows.size, COPY * slots.size):
            _gather(values, rows[part], slots, self.values[part])

    def missing(self, slots: Ints) -> Ints:
        """Return the ``slots`` that have no cached row, and mark the rows of the other slots as used."""
        self.clock += 1
        missing = np.empty(slots.size, np.int64)
        return missing[: _mark(self.row_of, self.used, slots, self.clock, missing)]

    def room_beside(self, keep: Ints) -> int:
        """Return how many rows fit in addition to the cached rows of ``keep``."""
        return max(0, self.max_rows - int(_count_held(self.row_of, keep)))

    def hold(self, slots: Ints, rows: Ints) -> None:
        """Assign the rows ``rows`` (m,) to the examples ``slots`` (m,)."""
        self.row_of[slots] = rows
        self.slot_of[rows] = slots
        self.used[rows] = self.clock

    def update_columns(self, slots: Ints, others: Ints, source: Floats, rows: Ints) -> None:
        """Write the kernel values of new examples ``slots`` (m,) to the cached rows of ``others`` (k,).

        ``source[rows[i]]`` (k,) has the values of ``slots[i]``.
        """
        transpose_into(self.values, self.row_of[others], slots, source, rows)

    def forget(self, slots: Ints) -> None:
        """Drop the cached rows of the examples ``slots``."""
        forget_rows(self.row_of, self.slot_of, self.used, slots)

    def vacate(self, count: int, keep: Ints) -> Ints:
        """Free ``count`` rows and return their numbers, ascending; the rows of the examples ``keep`` are not freed.

        Raises
        ------
        MemoryLimit : these rows and those of ``keep`` do not fit together
        """
        unused = np.flatnonzero(self.slot_of < 0)
        if unused.size < count:
            held = np.zeros(self.slot_of.size, np.bool_)
            held_rows = self.row_of[keep]
            held[held_rows[held_rows >= 0]] = True
            candidates = np.flatnonzero((self.slot_of >= 0) & ~held)
            if candidates.size + unused.size < count:
                needed = (np.count_nonzero(held) + count) * self.row_of.size * 8
                raise MemoryLimit(int(needed), self.limit)
            order = np.argsort(self.used[candidates], kind="stable")
            self.forget(self.slot_of[candidates[order[: count - unused.size]]])
            unused = np.flatnonzero(self.slot_of < 0)
        return unused[:count]


@compiled
def _mark(row_of: Ints, used: Ints, slots: Ints, clock: int, missing: Ints) -> int:
    """Mark the rows of slots as used; write the slots without a row to ``missing``, and return the number of these."""
    m = 0
    for slot in slots:
        if row_of[slot] >= 0:
            used[row_of[slot]] = clock
        else:
            missing[m] = slot
            m += 1
    return m


@compiled
def _count_held(row_of: Ints, slots: Ints) -> int:
    count = 0
    for slot in slots:
        count += row_of[slot] >= 0
    return count


@compiled
def forget_rows(row_of: Ints, slot_of: Ints, used: Ints, slots: Ints) -> None:
    for slot in slots:
        forget_row(row_of, slot_of, used, slot)


@compiled
def forget_row(row_of: Ints, slot_of: Ints, used: Ints, slot: int) -> None:
    row = row_of[slot]
    if row >= 0:
        slot_of[row], used[row], row_of[slot] = -1, 0, -1


@compiled
def _gather(values: Floats, rows: Ints, slots: Ints, out: Floats) -> None:
    """Copy the columns ``slots`` of the rows ``rows`` of ``values`` to ``out``."""
    m = slots.size
    in_order = True
    for j in range(m):
        in_order = in_order and slots[j] == j
    for i in range(rows.size):
        row, target = values[rows[i]], out[i]
        for j in range(m):
            target[j] = row[j] if in_order else row[slots[j]]


@compiled
def transpose_into(values: Floats, targets: Ints, slots: Ints, source: Floats, rows: Ints) -> None:
    """Put ``source[rows[i], k]`` into ``values[targets[k], slots[i]]`` for every i, and every k that has a target.

    Eight examples are copied at a time: they are often neighbours in memory, and the processor can then fetch several
    rows at once.
    """
    for i in range(0, slots.size, 8):
        s0, s1, s2, s3, s4, s5, s6, s7 = _eight(slots, i)
        r0, r1, r2, r3, r4, r5, r6, r7 = _eight(rows, i)
        for k in range(targets.size):
            if targets[k] >= 0:
                t = values[targets[k]]
                t[s0], t[s1], t[s2], t[s3] = source[r0, k], source[r1, k], source[r2, k], source[r3, k]
                t[s4], t[s5], t[s6], t[s7] = source[r4, k], source[r5, k], source[r6, k], source[r7, k]


@compiled
def _eight(x: Ints, i: int) -> tuple[int, int, int, int, int, int, int, int]:
    """Return eight entries from the i-th on; if there are fewer, repeat the last entry."""
    end = x.size - 1
    i1, i2, i3, i4 = min(i + 1, end), min(i + 2, end), min(i + 3, end), min(i + 4, end)
    i5, i6, i7 = min(i + 5, end), min(i + 6, end), min(i + 7, end)
    return x[i], x[i1], x[i2], x[i3], x[i4], x[i5], x[i6], x[i7]
