"""The window of raw rows, which all steps share; a row's ordinal is its number, counted from the feed's first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import RowLayout, known_columns, seasonal_ends, shared_row
from livesvm.service.feeds.packed import Packed, column_of, pack, packed_after, unpack
from livesvm.service.feeds.timeline import Reading
from livesvm.solvers.kernels.lines import Lines

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EMPTY = -1  #: slot of a place without a row, or with one that was dropped


class Rows:
    """The raw features at the newest readings, and their targets, as far as these are known.

    Parameters
    ----------
    layout : the features
    steps : how many steps there are
    window : readings that models hold
    spare : readings that may come before models let the oldest go
    """

    def __init__(self, layout: RowLayout, steps: int, window: int, spare: int) -> None:
        size = window + spare + 1
        self.layout, self.window, self.size = layout, window, size
        self._shared = np.zeros((size, layout.shared))
        self._own = np.zeros((size, steps, layout.own))
        self._packed: Packed | None = None  #: the same of cool rows
        self._newest: tuple[Floats, Floats] | None = None  #: features of the newest row, (1, s) and (1, steps, o)
        self._tried = 0  #: rows that there had been when packing was tried last
        self.target = np.full((size, steps), np.nan)
        self.slot = np.full(size, EMPTY, np.int64)
        self.learnt = np.zeros((size, steps), np.bool_)
        self.now = np.zeros((size, layout.known))  #: known columns at the rows' own times
        self.lead = np.zeros(size, np.int64)  #: up to which step known columns were known when rows were made
        self.since = np.zeros(steps, np.int64)  #: of each step, the ordinal before which its models hold nothing
        self.count = 0  #: rows that there have been; the newest has the ordinal count - 1
        others = (self.target, self.slot, self.learnt, self.now, self.lead)
        self._bytes = sum(array.nbytes for array in others)  # of what is never packed

    @property
    def shared(self) -> Floats:
        """The features of each row that all steps share, (size, shared); packed rows are unpacked now."""
        self._newest = None  # which may be changed here
        if self._packed is not None:
            self._unpack()
        return self._shared

    @property
    def own(self) -> Floats:
        """The features of each row that each step has of its own, (size, steps, own); packed rows are unpacked now."""
        self._newest = None
        if self._packed is not None:
            self._unpack()
        return self._own

    def cool(self, steps: tuple[int, ...]) -> None:
        """Pack the features, if possible, until the arrays of features are read again."""
        self._newest = None
        if self._packed is not None or self.count == self._tried:
            return
        self._tried = self.count
        order = np.arange(max(0, self.count - self.size), self.count) % self.size
        self._packed = pack(self.layout, steps, self._shared[order], self._own[order])
        if self._packed is not None:
            self._shared, self._own = self._shared[:0].copy(), self._own[:0].copy()

    def _unpack(self) -> None:
        self._shared, self._own = self._features()
        self._packed = None

    def _features(self) -> tuple[Floats, Floats]:
        """Return the features of all rows as two arrays; packed rows stay packed."""
        if self._packed is None:
            return self._shared, self._own
        n, own = self._packed.n, np.zeros((self.size, *self._own.shape[1:]))
        shared, order = np.zeros((self.size, self.layout.shared)), np.arange(self.count - n, self.count) % self.size
        shared[order], own[order] = unpack(self._packed, np.arange(n))
        return shared, own

    def features(self, ordinals: Sequence[int] | Ints) -> tuple[Floats, Floats]:
        """Return the features of some rows: those that steps share, (m, s), and each step's own, (m, steps, o)."""
        if self._newest is not None and len(ordinals) == 1 and ordinals[0] == self.count - 1:
            return self._newest
        if self._packed is None:
            at = self.places(ordinals)
            return self._shared[at], self._own[at]
        return unpack(self._packed, np.asarray(ordinals, np.int64) - (self.count - self._packed.n))

    def column(self, ordinals: Ints, step: int, feature: int) -> Floats:
        """Return one feature of some rows, (m,); numbers beyond the shared features mean ``step``'s own features."""
        if self._packed is not None:
            return column_of(self._packed, ordinals - (self.count - self._packed.n), step, feature)
        at, own = self.places(ordinals), feature - self.layout.shared
        found: Floats = self._shared[at, feature] if own < 0 else self._own[at, step, own]
        return found

    def lines(self, step: int) -> tuple[Lines, int] | None:
        """Return packed rows as compiled code reads them, and the first row's ordinal; None if rows are not packed."""
        packed = self._packed
        if packed is None:
            return None
        lines = Lines(packed.line, packed.others, packed.calendar.values[step], *packed.places.tables[step])
        return lines, self.count - packed.n

    @property
    def by_slot(self) -> dict[int, int]:
        """The ordinals of all rows, by their slots."""
        held = np.flatnonzero(self.slot != EMPTY)
        return dict(zip(self.slot[held].tolist(), self._ordinals(held).tolist(), strict=True))

    def _ordinals(self, places: Ints) -> Ints:
        """Return the ordinals of the rows at these positions in the arrays."""
        newest = self.count - 1
        return newest - (newest - places) % self.size

    def _arrays(self) -> dict[str, NDArray[Any]]:
        shared, own = self._features()
        names = ("target", "slot", "learnt", "now", "lead")
        return {"shared": shared, "own": own} | {name: getattr(self, name) for name in names}

    @property
    def held_bytes(self) -> int:
        """The memory of all arrays in bytes."""
        return self._bytes + (self._shared.nbytes + self._own.nbytes if self._packed is None else self._packed.nbytes)

    def append(self, slot: int, shared: Floats, own: Floats, now: tuple[float, ...] = (), lead: int = 0) -> int:
        """Add the row of a reading, with known columns that are announced ``lead`` steps ahead; return its ordinal."""
        ordinal = self.count
        at = ordinal % self.size
        self.now[at], self.lead[at], self.slot[at], self.target[at], self.learnt[at] = now, lead, slot, np.nan, False
        grown = None if self._packed is None else packed_after(self._packed, shared, own, self.size)
        if grown is None:
            self.shared[at], self.own[at] = shared, own
        else:
            self._packed = grown
        self._newest = shared[None], own[None]
        self.count += 1
        return ordinal

    def drop(self, ordinal: int) -> None:
        """Erase all data of a row; its position in the arrays stays empty."""
        at = ordinal % self.size
        self.shared[at], self.own[at], self.target[at], self.learnt[at] = 0.0, 0.0, np.nan, False
        self.now[at], self.lead[at], self.slot[at] = 0.0, 0, EMPTY

    def lift(self, steps: tuple[int, ...], slot: int, change: float) -> None:
        """Raise the values of the target before a slot by ``change``, in the rows up to it."""
        at, end = np.flatnonzero((self.slot != EMPTY) & (self.slot < slot)), self.layout.own_levels
        self.shared[at, : self.layout.levels] += change
        self.own[at, :, :end] += change
        for i, step in enumerate(steps):
            self.target[at[self.slot[at] + step < slot], i] += change

    def make_again(self, steps: tuple[int, ...], ordinal: int, past: Floats, values: tuple[float, ...] | None) -> None:
        """Compute a row from the values ``past`` up to its reading; drop it if these are too few.

        ``values`` are the reading's; None: its other columns stay.
        """
        layout, at = self.layout, ordinal % self.size
        if past.size < layout.reach:
            self.drop(ordinal)
            return
        given = (0.0, *self.shared[at, layout.shared - layout.others :]) if values is None else values
        self.shared[at] = shared_row(layout, past, Reading(int(self.slot[at]), 0.0, tuple(given)))
        self.own[at, :, : layout.own_levels] = past[seasonal_ends(layout, steps)]

    def know(self, steps: tuple[int, ...], changed: int, lead: int, ahead: Mapping[int, tuple[float, ...]]) -> None:
        """Set the known columns of steps beyond ``changed``, from slots as far ahead as the step, but at most ``lead``.

        The known columns of a slot are those that came with its reading, or else those in ``ahead``, or else those of
        the slot before.
        """
        held = np.flatnonzero(self.slot != EMPTY)
        if not held.size:
            return
        came = {int(slot): now for slot, now in zip(self.slot[held], self.now[held], strict=True)}
        known, last = {}, self.now[held[np.argmin(self.slot[held])]]
        for slot in range(int(self.slot[held].min()), int(self.slot[held].max()) + lead + 1):
            last = known[slot] = came.get(slot, ahead.get(slot, last))
        first = self.layout.own_levels + self.layout.calendar
        for i, step in enumerate(steps):
            if step > changed:
                then = np.array([known[int(slot) + min(step, lead)] for slot in self.slot[held]])
                self.own[held, i, first:] = known_columns(self.layout, then, self.now[held])
        self.lead[held] = lead

    def come_true(self, slot: int, steps: tuple[int, ...], value: float) -> list[tuple[int, int]]:
        """Set the reading of a slot as the target of rows ``steps`` earlier; return the (step, ordinal) of each."""
        found = []
        for i, step in enumerate(steps):
            ordinal = self._at_slot(slot - step)
            if ordinal is not None:
                self.target[ordinal % self.size, i] = value
                found.append((i, ordinal))
        return found

    def _at_slot(self, slot: int) -> int | None:
        """Return the ordinal of the row of a slot; None if there is no such row."""
        if slot < 0 or not self.count:
            return None
        newest = self.count - 1
        back = int(self.slot[newest % self.size]) - slot
        if 0 <= back < min(self.count, self.size) and self.slot[(newest - back) % self.size] == slot:
            return newest - back
        here = np.flatnonzero(self.slot == slot)
        return int(self._ordinals(here)[0]) if here.size else None

    def places(self, ordinals: Sequence[int] | Ints) -> Ints:
        """Return the positions of rows in the arrays."""
        return np.asarray(ordinals, np.int64) % self.size

    @property
    def oldest(self) -> int:
        """The ordinal of the oldest row that models may use as an example."""
        return max(0, self.count - self.window)

    def known(self, step: int) -> list[int]:
        """Return the ordinals of the rows in the window with a known target for ``step``, an index."""
        ordinals = np.arange(max(self.oldest, self.since[step]), self.count)
        found: list[int] = ordinals[np.isfinite(self.target[self.places(ordinals), step])].tolist()
        return found

    def leaving(self, step: int) -> list[int]:
        """Return the ordinals of learnt rows that have left the window, and mark these rows as not learnt."""
        size, first = self.size, self.count - self.size
        before, learnt = range(first if first > 0 else 0, self.count - self.window), self.learnt
        gone = [n for n in before if learnt[n % size, step]]
        for n in gone:
            learnt[n % size, step] = False
        return gone

    def learnt_by(self, step: int) -> list[int]:
        """Return the ordinals of the rows that the models of ``step``, an index, have learnt, oldest first."""
        ordinals = np.arange(max(0, self.count - self.size), self.count)
        found: list[int] = ordinals[self.learnt[self.places(ordinals), step]].tolist()
        return found

    def shorten(self, step: int, keep: int) -> list[int]:
        """Limit the models of ``step``, an index, to their newest ``keep`` rows; return the removed rows' ordinals."""
        gone = self.learnt_by(step)[:-keep]
        if gone:
            self.since[step] = gone[-1] + 1
            self.learnt[self.places(gone), step] = False
        return gone

    def to_arrays(self) -> dict[str, Any]:
        """Return the arrays of all rows, oldest first, as a dictionary."""
        first = max(0, self.count - self.size)
        places = self.places(np.arange(first, self.count))
        shorter = {"since": self.since.copy()} if self.since.any() else {}
        return {name: array[places] for name, array in self._arrays().items()} | {"count": self.count} | shorter

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        self.count = int(arrays["count"])
        self.since[:] = arrays.get("since", 0)
        slots = np.asarray(arrays["slot"])
        ordinals = np.arange(self.count - len(slots), self.count)
        places = self.places(ordinals)
        for name, array in self._arrays().items():
            if name in arrays:  # rows had no known columns of their own before
                array[places] = arrays[name]
