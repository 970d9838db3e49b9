"""The memory budget of the process, and what replicas hold of it: asked for before work begins, given back after."""

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
"""What is held for longer than a request; more of it has to wait until something is deleted."""
RESERVED = 0.1
"""Share of the budget that nothing lasting takes, so that full models still predict and forget."""
FLOAT = 8
COPIES = 4
"""Of the features: the solver's, a larger one while it grows, the support vectors that are shown, a snapshot's."""
BYTES_AN_EXAMPLE = 600
"""Of an example besides its features: its key, its arrival, and what the solver keeps by slot."""
PAIR_BYTES = 2**16
"""Of a pair of more than two classes besides its examples."""
FIXED_BYTES = 2**17
"""Of a model besides its examples: the solver's work arrays, its journal, its handle."""
MEGABYTE = 2**20
SMALL = MEGABYTE
"""What a request may always take, as places bound how many do: where some fill the memory, small ones are served."""


class Budget:
    """So many bytes for the whole process; used from any thread.

    Invariant: what is held is at most the limit, but for what :meth:`insist` takes and for small pieces of work.

    Parameters
    ----------
    limit : bytes
    small : bytes that a request may take whatever is held
    """

    def __init__(self, limit: float = math.inf, small: int = SMALL) -> None:
        self.limit = limit
        self._small = small
        self._lock = threading.Lock()
        self._held = dict.fromkeys(KINDS, 0)
        self._models: dict[object, int] = {}
        self._transient_peak = 0

    def held(self) -> Mapping[Kind, int]:
        """Return bytes by what they are held for."""
        return dict(self._held)

    def rest_on(self, resident: int, least: int = 0) -> None:
        """Count what the process has in memory, besides its models, as its base, and ``least`` bytes at any rate.

        Models that were just restored have not taken yet all that they hold.
        """
        with self._lock:
            self._held["base"] = max(least, resident - self._held["models"])

    def check(self, kind: Kind, size: int) -> None:
        """Raise as :meth:`take`, and hold nothing."""
        with self._lock:
            self._check(kind, size)

    def has_room(self, size: int) -> bool:
        """Return whether ``size`` bytes more would last, whatever requests hold for the moment."""
        with self._lock:
            lasting = sum(held for kind, held in self._held.items() if kind == "base" or kind in LASTING)
            return lasting + size <= (1.0 - RESERVED) * self.limit

    def reported(self) -> str:
        """Return what is held, and by what."""
        with self._lock:
            return self._told(sum(self._held.values()))

    def take(self, kind: Kind, size: int, held_already: int = 0) -> None:
        """Hold ``size`` bytes more; raises BodyTooLarge, MemoryBusy or OutOfMemory if they do not fit.

        ``held_already`` is what the same request holds already: with that it is too large, or others are in its way.
        """
        with self._lock:
            if held_already + size > self._small or kind in LASTING:
                self._check(kind, size, held_already)
            self._held[kind] += size

    def give(self, kind: Kind, size: int) -> None:
        """Hold ``size`` bytes less."""
        with self._lock:
            self._held[kind] -= size
            if kind not in LASTING:
                self._transient_peak = max(self._transient_peak, size)

    @contextmanager
    def holding(self, kind: Kind, size: int, held_already: int = 0) -> Iterator[None]:
        """Hold ``size`` bytes inside; raises as :meth:`take`."""
        self.take(kind, size, held_already)
        try:
            yield
        finally:
            self.give(kind, size)

    def check_lasting(self, resident: int) -> None:
        """Raise OutOfMemory if the process has more in memory, besides what requests hold, than may last.

        What is held is estimated, and how much a path will write down is not known.
        """
        with self._lock:
            requests = sum(size for kind, size in self._held.items() if kind not in LASTING and kind != "base")
            if resident - requests > (1.0 - RESERVED) * self.limit:
                reported = self._told(sum(self._held.values()))
                raise OutOfMemory(f"{_megabytes(resident)} are in use; {reported}; {_WHAT_TO_DO}")

    def largest_given(self) -> int:
        """Return the most that was given back at once, by requests, since this was asked last."""
        with self._lock:
            size, self._transient_peak = self._transient_peak, 0
        return size

    # Models: each, whatever object stands for it, holds what it needs as it is now.

    def resize(self, model: object, size: int) -> None:
        """Let a model hold ``size`` bytes from now on; raises OutOfMemory if that is more and does not fit."""
        with self._lock:
            more = size - self._models.get(model, 0)
            if more > 0:
                self._check("models", more)
            self._hold(model, size)

    def insist(self, model: object, size: int) -> None:
        """Let a model hold ``size`` bytes whether they fit or not: it is what was acknowledged, and is restored."""
        with self._lock:
            self._hold(model, size)
            total = sum(self._held.values())
        if total > self.limit:
            log.warning("%s: with it %s; LIVESVM_MEMORY_MB had better be more", model, self._told(total))

    def release(self, model: object) -> None:
        """Give up what a deleted model held."""
        with self._lock:
            self._hold(model, 0)
            self._models.pop(model, None)

    def _hold(self, model: object, size: int) -> None:
        self._held["models"] += size - self._models.get(model, 0)
        self._models[model] = size

    def _check(self, kind: Kind, size: int, held_already: int = 0) -> None:
        """Raise unless ``size`` bytes more fit."""
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
    """Raise OutOfMemory if jobs have written down so much that the process nears its limit."""
    try:
        budget.check_lasting(resident_bytes())
    except OutOfMemory:
        give_back()
        budget.check_lasting(resident_bytes())


class HeldMemory:
    """What one replica holds of the budget while it is awake; changed in its mailbox alone, but for the release.

    A window that has become smaller holds what it had before: its arrays stay as large.

    Parameters
    ----------
    budget : of the process
    name : of the replica, for people
    make_room : puts others to rest until so many bytes are free; raises NoRoom
    """

    def __init__(self, budget: Budget, name: str, make_room: Callable[[int], None]) -> None:
        self._budget, self._name, self._make_room = budget, name, make_room
        self.size = 0

    def __str__(self) -> str:
        return self._name

    def insist(self, size: int) -> None:
        """Hold so many bytes, whether they fit or not: it is what was acknowledged."""
        self.size = size
        self._budget.insist(self, size)

    def cooled(self, size: int) -> None:
        """Hold no more than these bytes, as an update makes the rest again."""
        self.size = min(self.size, size)
        self._budget.insist(self, self.size)

    @contextmanager
    def growing(self, size: int) -> Iterator[None]:
        """Hold at least so many bytes; raises OutOfMemory. If what is inside fails, the replica holds what it did."""
        before = self.size
        after = max(before, size)
        try:
            if after > before:
                self._resize(after)
            yield
        except BaseException:
            self._resize(before)
            raise

    def _resize(self, size: int) -> None:
        try:
            self._budget.resize(self, size)
        except OutOfMemory:
            self._make_room(size - self.size)
            self._budget.resize(self, size)
        self.size = size

    def release(self) -> None:
        """Hold nothing more: the replica is not in memory."""
        self.size = 0
        self._budget.release(self)


def model_bytes(n: int, row_bytes: float, n_free: int, cache_mb: int, n_classes: int = 2) -> int:
    """Return what a model of ``n`` examples may take, whose features have ``row_bytes`` each.

    Its kernel rows take at most ``cache_mb``, with those of the free in them. Of more than two classes every example is
    in as many problems as there are others, and ``n_free`` counts it so.
    """
    others = max(1, n_classes - 1)
    pairs = others * n_classes // 2 if others > 1 else 1
    slots = 64 + n * 5 // 4
    rows = min(cache_mb * MEGABYTE, FLOAT * others * slots**2)
    free = min(n_free, rows // (FLOAT * slots))
    features = int(COPIES * row_bytes * slots)
    factors = FLOAT * free**2 // pairs if pairs > 1 else FLOAT * free**2
    return FIXED_BYTES + PAIR_BYTES * (pairs - 1) + features + rows + factors + BYTES_AN_EXAMPLE * others * slots
