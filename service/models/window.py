"""The window of one model: its keys with their times, and the plans of updates. This module does no numerical work."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import filterfalse, islice
from operator import itemgetter
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.models.arrays import MAX_KEY, Key, Rows, Vector
from livesvm.service.models.commands import BYTES_A_KEY, COPIES, Command, Removal, rows_of, tagged
from livesvm.solvers.errors import InvalidInput, UnknownKey
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.models.repeats import Admitted, admitted
from livesvm.solvers.sparse import SparseRows, like

FLOAT = getsizeof(0.0)
OF_BOUNDED_RANK = 20
"""How many times as many examples a window may hold if its model has components."""


@dataclass(frozen=True)
class WindowLimits:
    """A window's limits: old examples leave beyond the ``max`` limits, and new ones are refused beyond the quotas."""

    quota_examples: int
    quota_features: int
    max_examples: int | None = None
    max_age_seconds: float | None = None

    @property
    def of_bounded_rank(self) -> WindowLimits:
        """Limits with a larger quota, for a model with components, as its updates take only linear time and memory."""
        return replace(self, quota_examples=OF_BOUNDED_RANK * self.quota_examples)


@dataclass
class Window:
    """The times of a model's examples by key, oldest first: the client's times, or else times of arrival.

    ``n_features`` is the number of features, None before the first example; ``next_key`` is the counter for generated
    keys. All examples are sparse, or all are dense, as the first ones were; ``is_sparse`` is None before the first.
    ``latest`` is the arrival time of the last update, so that new examples do not get older times than present ones if
    the clock is set back.

    ``left`` has the remembered keys of examples that have left the window, newest last; only keys that clients gave are
    remembered. Once a client has given a whole number as a key, which ``is_numbered`` records, generated keys are
    remembered too, because both kinds look alike.
    """

    arrivals: dict[Key, float] = field(default_factory=dict)
    n_features: int | None = None
    next_key: int = 0
    is_sparse: bool | None = None
    latest: float = -math.inf
    tags: dict[Key, tuple[str, ...]] = field(default_factory=dict)  #: tags of the keys here and in ``left`` with any
    left: dict[Key, None] = field(default_factory=dict)
    is_numbered: bool = False

    def copy(self) -> Window:
        """Return a copy that shares no table with this window."""
        return replace(self, arrivals=dict(self.arrivals), tags=dict(self.tags), left=dict(self.left))

    def plan(self, update: Change, limits: WindowLimits, now: float, request: str | None) -> Command:
        """Decide which examples an update adds, removes and changes, without changing the window.

        Removals are applied first, so an update can add a removed key again. Any other added key that is already known
        counts as a repeat; if all added keys are ignored repeats, the update does nothing. Edits are dropped for
        examples that the window's limits remove; edits are refused for examples that the update itself removes.

        Parameters
        ----------
        now : Unix time in seconds, the arrival time of the added examples
        request : the Idempotency-Key, kept with the command

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey
        """
        now = max(now, self.latest)
        add, next_key = (None, self.next_key) if update.add is None else self._named(update.add, limits)
        if update.edits is not None and update.edits.of_parameters:  # the oldest leave with the next update
            return Command(edits=update.edits, arrived=now, next_key=self.next_key, request=request)
        named = None if update.add is None else update.add.keys
        came = Admitted() if named is None else self._admitted(named, update)
        if came.rows is not None and add is not None:
            add = rows_of(add, np.isin(np.arange(len(add.X)), came.rows))
            if add is None:
                ignored = list(came.ignored)
                return Command(arrived=now, next_key=self.next_key, request=request, ignored=ignored)
        if add is not None and limits.max_examples is not None and len(add.X) > limits.max_examples:
            raise InvalidInput(f"has {len(add.X)} rows, the window holds {limits.max_examples}", field="X")
        leaving = [] if update.remove is None else self._leaving(update.remove)
        asked = list(dict.fromkeys([*leaving, *came.replaced]))
        if update.edits is not None:
            self._check_edited(update.edits, set(asked))
        times = np.full(0 if add is None else len(add.X), now) if add is None or add.times is None else add.times
        remove, stays = self._make_room(times, asked, limits, now)
        edits = None if update.edits is None else update.edits.only(self.arrivals.keys() - set(remove))
        dropped: list[Key] = []
        if add is not None and not stays.all():
            dropped = [key for key, stay in zip(add.keys or [], stays.tolist(), strict=True) if not stay]
            add = rows_of(add, stays)
        decided: dict[str, Any] = {"arrived": now, "next_key": next_key, "request": request}
        return Command(add, remove, edits, **decided, dropped=dropped, ignored=list(came.ignored))

    def apply(self, command: Command, n_remembered: int) -> None:
        """Apply a command to the keys; remember at most ``n_remembered`` keys of examples that have left the window."""
        added = command.added
        for key in command.remove:
            del self.arrivals[key]
            if self.is_numbered or isinstance(key, str):  # generated keys never come again
                self.left[key] = None
            else:
                self.tags.pop(key, None)
        if self.left:
            self.forget(self.left.keys() & added)
            self.forget(list(islice(self.left, max(0, len(self.left) - n_remembered))))
        times = None if command.add is None else command.add.times
        came = [command.arrived] * len(added) if times is None else times.tolist()  # one object, not one each
        last = next(reversed(self.arrivals.values()), -math.inf)
        self.arrivals.update(zip(added, came, strict=True))
        if came and (came[0] < last or (times is not None and (np.diff(times) < 0).any())):
            self.arrivals = dict(sorted(self.arrivals.items(), key=itemgetter(1)))
        self.latest = max(self.latest, command.arrived)
        is_given = command.next_key == self.next_key
        self.is_numbered |= is_given and not {*map(type, added)} <= {str}
        self.next_key = command.next_key
        if command.add is not None:
            self.tags |= tagged(command.add) if command.add.tags else {}
            self.n_features = command.add.X.shape[1]
            self.is_sparse = isinstance(command.add.X, SparseRows)

    def forget(self, keys: Iterable[Key]) -> None:
        """Forget these keys, which have no examples in the window."""
        for key in keys:
            self.left.pop(key, None)
            self.tags.pop(key, None)

    @property
    def left_bytes(self) -> int:
        """The bytes of the remembered keys of examples that have left the window."""
        return BYTES_A_KEY // COPIES * len(self.left)

    @property
    def held_bytes(self) -> int:
        """The bytes of this window's tables, with the times in these tables."""
        return getsizeof(self.arrivals) + FLOAT * len(self.arrivals) + getsizeof(self.tags) + self.left_bytes

    def check_width(self, width: int, limits: WindowLimits) -> None:
        """Raise InvalidInput if the model cannot have examples with this number of features."""
        if self.n_features is not None and width != self.n_features:
            raise InvalidInput(f"has {width} columns, this model has {self.n_features} features", field="X", row=0)
        if width > limits.quota_features:
            raise InvalidInput(f"has {width} columns, the limit is {limits.quota_features}", field="X", row=0)

    def _named(self, batch: Batch, limits: WindowLimits) -> tuple[Batch, int]:
        """Return the batch with a key for every row, and the next value of the counter for generated keys."""
        self.check_width(batch.X.shape[1], limits)
        if self.is_sparse is not None and isinstance(batch.X, SparseRows) != self.is_sparse:
            batch = replace(batch, X=self._as_held(batch.X, self.is_sparse))
        n = batch.X.shape[0]
        for name in ("y", "keys", "weights", "times", "tags"):
            column = getattr(batch, name)
            if column is not None and len(column) != n:
                raise InvalidInput(f"has {len(column)} entries for {n} rows of X", field=name)
        keys, candidate = batch.keys, self.next_key
        if keys is None:
            keys = []
            while len(keys) < n:
                if candidate >= MAX_KEY:
                    raise InvalidInput("no integer keys are left; give keys", field="keys")
                if candidate not in self.arrivals and candidate not in self.left:
                    keys.append(candidate)
                candidate += 1
            batch = replace(batch, keys=keys)
        return batch, candidate

    @staticmethod
    def _as_held(X: Rows, is_sparse: bool) -> Rows:
        """Convert rows to the form in which the window stores rows, sparse or dense.

        Raises InvalidInput for sparse rows in a dense window, as they could be huge when they are dense.
        """
        if not is_sparse:
            raise InvalidInput("is sparse, but this window began with dense rows; send them dense", field="X")
        return like(X, is_sparse)

    def _admitted(self, keys: list[Key], update: Change) -> Admitted:
        """Return which rows, given by their keys, an update adds; raises DuplicateKey."""
        removed = set((update.remove and update.remove.keys) or ())
        return admitted(keys, update.on_repeat, self.arrivals, removed, self.left)

    def _leaving(self, removal: Removal) -> list[Key]:
        """Return the keys that a removal asks for, in the client's order or oldest first."""
        if removal.keys is not None:
            for row, key in enumerate(removal.keys):
                if key not in self.arrivals:
                    raise UnknownKey(f"key {key!r} is not in the window", field="remove.keys", row=row)
            return removal.keys
        if removal.oldest is not None:
            if removal.oldest > len(self.arrivals):
                reason = f"asks for {removal.oldest} examples, the window holds {len(self.arrivals)}"
                raise InvalidInput(reason, field="remove.oldest")
            return list(islice(self.arrivals, removal.oldest))
        limit = removal.older_than if removal.older_than is not None else 0.0
        return [key for key, arrived in self.arrivals.items() if arrived < limit]

    def _check_edited(self, edits: Edits, leaving: set[Key]) -> None:
        for verb, named in (("relabel", edits.relabel), ("reweight", edits.reweight)):
            for row, key in enumerate(named):
                if key not in self.arrivals:
                    raise UnknownKey(f"key {key!r} is not in the window", field=f"{verb}.keys", row=row)
                if key in leaving:
                    raise InvalidInput(f"key {key!r} is also removed", field=f"{verb}.keys", row=row)

    def _make_room(
        self, times: Vector, remove: list[Key], limits: WindowLimits, now: float
    ) -> tuple[list[Key], NDArray[np.bool_]]:
        """Return the keys to remove, including examples beyond the window's limits, and which new examples can stay.

        The oldest examples are removed first; ``times`` has the times of new examples. If times are equal, present
        examples are removed before new ones.
        """
        leaving, stays = dict.fromkeys(remove), np.ones(times.size, np.bool_)
        if limits.max_age_seconds is not None:
            oldest = now - limits.max_age_seconds
            leaving |= dict.fromkeys(key for key, time in self.arrivals.items() if time < oldest)
            stays = times >= oldest
        if limits.max_examples is not None:
            excess = len(self.arrivals) - len(leaving) + int(stays.sum()) - limits.max_examples
            if excess > 0:
                keys, rows = self._oldest(excess, leaving, times, stays)
                leaving |= dict.fromkeys(keys)
                stays[rows] = False
        n_added = int(stays.sum())
        n = len(self.arrivals) - len(leaving) + n_added
        if n_added and n > limits.quota_examples:
            reason = f"would bring the window to {n} examples, the limit is {limits.quota_examples}"
            raise InvalidInput(reason, field="X")
        return list(leaving), stays

    def _oldest(
        self, number: int, leaving: Container[Key], times: Vector, stays: NDArray[np.bool_]
    ) -> tuple[list[Key], list[int]]:
        """Return the oldest ``number`` examples after the update: keys of present examples, rows of new examples."""
        if times.min(initial=math.inf) >= next(reversed(self.arrivals.values()), -math.inf):
            return list(islice(filterfalse(leaving.__contains__, self.arrivals), number)), []
        there = ((time, key, -1) for key, time in self.arrivals.items() if key not in leaving)
        rows = np.flatnonzero(stays)
        come = ((times[row], None, row) for row in rows[np.argsort(times[rows], kind="stable")].tolist())
        gone = list(islice(merge(there, come, key=itemgetter(0)), number))
        return [key for _, key, _ in gone if key is not None], [row for _, _, row in gone if row >= 0]
