"""The memory budget of the process: memory is reserved before work begins, and released afterwards."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, get_args

from livesvm.service.errors import BodyTooLarge, MemoryBusy, OutOfMemory
from livesvm.service.resources.machine import give_back, resident_bytes

log = logging.getLogger(__name__)

Kind = Literal["base", "models", "jobs", "bodies", "updates", "predictions"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LASTING = frozenset({"models", "jobs"})
"""Kinds of memory that are held for longer than a request; a request for more is refused until something is deleted."""
RESERVED = 0.1
"""Share of the budget that lasting kinds cannot take, so that full models can still predict and remove examples."""
FLOAT = 8
COPIES = 4
"""Copies of the features: the solver's, a larger one while it grows, the published support vectors, a snapshot's."""
BYTES_AN_EXAMPLE = 600
"""Bytes of an example besides its features: its key, its arrival, and the solver's values in its slot."""
PAIR_BYTES = 2**16
"""Bytes of a pair of classes besides its examples, for more than two classes."""
FIXED_BYTES = 2**17
"""Bytes of a model besides its examples: the solver's work arrays, its journal, its handle."""
MEGABYTE = 2**20
SMALL = MEGABYTE
"""Bytes that a request may always take: its number is bounded too, and so small requests work when memory is full."""


class Budget:
    """The memory budget of the whole process; safe from any thread.

    Invariant: at most ``limit`` bytes are held, except by :meth:`insist` and by small requests.

    Parameters
    ----------
    limit : bytes of the budget
    small : bytes that a request may take however much is held
    """

    def __init__(self, limit: float = math.inf, small: int = SMALL) -> None:
        self.limit = limit
        self._small = small
        self._lock = threading.Lock()
        self._held = dict.fromkeys(KINDS, 0)
        self._models: dict[object, int] = {}
        self._transient_peak = 0

    def held(self) -> Mapping[Kind, int]:
        """Return the number of bytes that each kind of use holds."""
        return dict(self._held)

    def rest_on(self, resident: int, least: int = 0) -> None:
        """Record the bytes of the service itself: ``resident`` minus the bytes of models, but at least ``least``.

        ``least`` is needed at a start, when models that are being restored have reserved bytes that they do not use
        yet.
        """
        with self._lock:
            self._held["base"] = max(least, resident - self._held["models"])

    def check(self, kind: Kind, size: int) -> None:
        """Raise the errors that :meth:`take` would raise, but hold nothing."""
        with self._lock:
            self._check(kind, size)

    def has_room(self, size: int) -> bool:
        """Return whether models and jobs can hold ``size`` bytes more; the bytes of requests are not counted."""
        with self._lock:
            lasting = sum(held for kind, held in self._held.items() if kind == "base" or kind in LASTING)
            return lasting + size <= (1.0 - RESERVED) * self.limit

    def reported(self) -> str:
        """Return a message with the bytes that each kind of use holds."""
        with self._lock:
            return self._told(sum(self._held.values()))

    def take(self, kind: Kind, size: int, held_already: int = 0) -> None:
        """Hold ``size`` bytes more; raises BodyTooLarge, MemoryBusy or OutOfMemory if they do not fit.

        ``held_already`` bytes are held by the same request already; if these and ``size`` together can never fit, the
        error is BodyTooLarge, otherwise MemoryBusy.
        """
        with self._lock:
            if held_already + size > self._small or kind in LASTING:
                self._check(kind, size, held_already)
            self._held[kind] += size

    def give(self, kind: Kind, size: int) -> None:
        """Release ``size`` of the bytes that a kind of use holds."""
        with self._lock:
            self._held[kind] -= size
            if kind not in LASTING:
                self._transient_peak = max(self._transient_peak, size)

    @contextmanager
    def holding(self, kind: Kind, size: int, held_already: int = 0) -> Iterator[None]:
        """Hold ``size`` bytes during the block; raises the errors of :meth:`take`."""
        self.take(kind, size, held_already)
        try:
            yield
        finally:
            self.give(kind, size)

    def check_lasting(self, resident: int) -> None:
        """Raise OutOfMemory if the ``resident`` bytes, without those of requests, exceed the limit for models and jobs.

        This check is needed because held bytes are estimates, and the memory that a path will need is not known in
        advance.
        """
        with self._lock:
            requests = sum(size for kind, size in self._held.items() if kind not in LASTING and kind != "base")
            if resident - requests > (1.0 - RESERVED) * self.limit:
                reported = self._told(sum(self._held.values()))
                raise OutOfMemory(f"{_megabytes(resident)} are in use; {reported}; {_WHAT_TO_DO}")

    def largest_given(self) -> int:
        """Return the most bytes that a request has released in a single call since the last call of this method."""
        with self._lock:
            size, self._transient_peak = self._transient_peak, 0
        return size

    # Models: each is identified by any object, and holds the bytes of its present state.

    def resize(self, model: object, size: int) -> None:
        """Set the bytes of a model to ``size``; raises OutOfMemory if that is more than before and does not fit."""
        with self._lock:
            more = size - self._models.get(model, 0)
            if more > 0:
                self._check("models", more)
            self._hold(model, size)

    def insist(self, model: object, size: int) -> None:
        """Set the bytes of a model to ``size`` even if they do not fit, as an acknowledged model must be restored."""
        with self._lock:
            self._hold(model, size)
            total = sum(self._held.values())
        if total > self.limit:
            log.warning("%s: with it %s; LIVESVM_MEMORY_MB had better be more", model, self._told(total))

    def release(self, model: object) -> None:
        """Release all bytes that a model holds."""
        with self._lock:
            self._hold(model, 0)
            self._models.pop(model, None)

    def _hold(self, model: object, size: int) -> None:
        self._held["models"] += size - self._models.get(model, 0)
        self._models[model] = size

    def _check(self, kind: Kind, size: int, held_already: int = 0) -> None:
        """Raise an error unless ``size`` bytes more fit into the budget."""
        total = sum(self._held.values())
        if kind in LASTING:
            if total + size > (1.0 - RESERVED) * self.limit:
                raise OutOfMemory(f"{_megabytes(size)} more are needed for {kind}; {self._told(total)}; {_WHAT_TO_DO}")
        elif held_already + size > self.limit - self._held["base"]:
            raise BodyTooLarge(f"it needs {_megabytes(held_already + size)} of memory; {self._told(total)}")
        elif total + size > self.limit:
            raise MemoryBusy(f"it needs {_megabytes(size)} of memory; {self._told(total)}")

    def _told(self, total: int) -> str:
        held = ", ".join(f"{_megabytes(size)} by {self._name(kind)}" for kind, size in self._held.items() if size)
        return f"{_megabytes(total)} of {_megabytes(self.limit)} are held: {held or 'nothing'}"

    def _name(self, kind: Kind) -> str:
        names: dict[Kind, str] = {"base": "the service itself", "models": f"{len(self._models)} models"}
        return names.get(kind, kind)


_WHAT_TO_DO = "delete or bound models, cancel jobs, or raise LIVESVM_MEMORY_MB"


def _megabytes(size: float) -> str:
    return f"{size / MEGABYTE:.0f} MB"


def check_grown(budget: Budget) -> None:
    """Raise OutOfMemory if jobs have allocated so much that the process is near its limit."""
    try:
        budget.check_lasting(resident_bytes())
    except OutOfMemory:
        give_back()
        budget.check_lasting(resident_bytes())


class HeldMemory:
    """The share of the memory budget that one replica holds while its state is in memory.

    Only the replica's writer changes the share, but any thread may release it. The share does not shrink with the
    replica's window, because the arrays do not shrink either.

    Parameters
    ----------
    budget : the budget of the process
    name : name of the replica in messages
    make_room : puts other replicas to rest until a number of bytes is free; raises NoRoom
    """

    def __init__(self, budget: Budget, name: str, make_room: Callable[[int], None]) -> None:
        self._budget, self._name, self._make_room = budget, name, make_room
        self.size = 0

    def __str__(self) -> str:
        return self._name

    def insist(self, size: int) -> None:
        """Hold ``size`` bytes even if they do not fit, because an acknowledged state must stay in memory."""
        self.size = size
        self._budget.insist(self, size)

    def cooled(self, size: int) -> None:
        """Reduce the share to at most ``size`` bytes, after the replica's caches were freed."""
        self.size = min(self.size, size)
        self._budget.insist(self, self.size)

    @contextmanager
    def growing(self, size: int) -> Iterator[None]:
        """Hold at least ``size`` bytes; raises OutOfMemory. If the block fails, the share stays as before."""
        before = self.size
        if size > before:
            self.resize(size)
        try:
            yield
        except BaseException:
            self.resize(before)
            raise

    def resize(self, size: int) -> None:
        """Hold ``size`` bytes; if they do not fit, raise OutOfMemory and leave the share as it was."""
        try:
            self._budget.resize(self, size)
        except OutOfMemory:
            self._make_room(size - self.size)
            self._budget.resize(self, size)
        self.size = size

    def release(self) -> None:
        """Release all bytes of the share, because the replica is no longer in memory."""
        self.size = 0
        self._budget.release(self)


def model_bytes(n: int, row_bytes: float, n_free: int, cache_mb: int, n_classes: int = 2) -> int:
    """Return the largest size in bytes of a model of ``n`` examples with ``row_bytes`` bytes of features each.

    Kernel rows, including those of free support vectors, take at most ``cache_mb`` megabytes. With more than two
    classes, each example is in as many problems as there are other classes. ``n_free`` then counts a free support
    vector once for each problem in which it is free.
    """
    others = max(1, n_classes - 1)
    pairs = others * n_classes // 2 if others > 1 else 1
    slots = 64 + n * 5 // 4
    rows = min(cache_mb * MEGABYTE, FLOAT * others * slots**2)
    free = min(n_free, rows // (FLOAT * slots))
    features = int(COPIES * row_bytes * slots)
    factors = FLOAT * free**2 // pairs if pairs > 1 else FLOAT * free**2
    return FIXED_BYTES + PAIR_BYTES * (pairs - 1) + features + rows + factors + BYTES_AN_EXAMPLE * others * slots
