"""Updates of a model as clients request them, and the commands that the model's log records for these updates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from livesvm.service.models.arrays import Key, Targets
from livesvm.service.models.table_rows import TableRows
from livesvm.service.store import codec
from livesvm.service.store.base import Durability
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import NO_EDITS, Batch, Change, Edits
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.tables.columns import Codes, codes_from

RULES = 2
"""Version of the rules by which updates are accepted; raised whenever updates that were accepted may be refused."""
COPIES = 4
"""Copies of an update's features while it waits and is logged: as they came, as bytes, as a record, in the store."""
BYTES_A_KEY = 1000
"""Most bytes of a key and the values that belong to it, in as many copies."""
_LOGGED = ("add", "remove", "arrived", "next_key", "request", "edits", "rules", "dropped", "ignored")
"""Fields of a command in the order in which the log has them."""
_logged = attrgetter(*_LOGGED)


@dataclass(frozen=True)
class Removal:
    """Examples to remove: those with given keys, a number of the oldest, or those before Unix time ``older_than``."""

    keys: list[Key] | None = None
    oldest: int | None = None
    older_than: float | None = None


CONVEX = Robustness(1.0, 0.0)
"""Asks for convex losses again, whatever the model's present cutoffs are."""


def paired(keys: list[Key], values: Targets | list[Any], field: str) -> dict[Key, Any]:
    """Return a dict from keys to values; raises InvalidInput, naming ``field``, unless each key has one value."""
    if len(values) != len(keys):
        raise InvalidInput(f"has {len(values)} entries for {len(keys)} keys", field=field)
    return dict(zip(keys, values if isinstance(values, list) else values.tolist(), strict=True))


def batch_of(X: Any, *columns: Any) -> Batch | None:
    """Return a batch of examples from columns in the order of :class:`Batch`; None if there are no examples.

    Raises
    ------
    InvalidInput : a column is empty and X is not, or the other way round
    """
    n = len(X)
    for name, column in zip(("y", "keys", "weights", "times", "tags"), columns, strict=True):
        if column is not None and (len(column) == 0) != (n == 0):
            raise InvalidInput(f"has {len(column)} entries for {n} rows of X", field=name)
    return Batch(X, *columns) if n else None


def memory_of(change: Change) -> int:
    """Return the bytes that an update needs until it is answered: for its arrays and their copies for the log."""
    edits = change.edits or NO_EDITS
    n_keys = len(edits.relabel) + len(edits.reweight) + len((change.remove and change.remove.keys) or [])
    add = change.add
    n_rows, size = (0, 0) if add is None else (len(add.X), add.X.nbytes)
    return COPIES * size + BYTES_A_KEY * (n_rows + n_keys)


def digest_of(change: Change) -> bytes:
    """Return the SHA-256 of an update's content, which does not depend on the format of the request."""
    parts = {
        "add": change.add and batch_document(change.add),
        "remove": change.remove and vars(change.remove),
        "edits": change.edits and _edits_document(change.edits),
        **({} if change.on_repeat == "refuse" else {"on_repeat": change.on_repeat}),
    }
    return codec.digest(parts)


def batch_document(batch: Batch) -> dict[str, Any]:
    """Return a batch as numbers, lists and arrays."""
    parts = dict(vars(batch))
    del parts["targets"], parts["checked"]
    if isinstance(batch.X, TableRows):
        parts["rows"] = parts.pop("X").rows
    if isinstance(batch.X, Codes):
        parts |= {"X": np.asarray(batch.X), "table": batch.X.document()}
    for name in ("times", "tags"):
        if parts[name] is None:
            del parts[name]  # so that digests from before these fields existed are the same now
    return parts


def _edits_document(edits: Edits) -> dict[str, Any]:
    """Return edits as numbers, lists and dicts."""
    robust = edits.robust and {"theta": edits.robust.theta, "s": edits.robust.s, "sides": dict(edits.robust.outliers)}
    parts = dict(vars(edits)) | {"robust": robust}
    for name in ("robust", "change", "rescale"):
        if not parts[name]:
            del parts[name]  # so that digests from before these fields existed are the same now
    return parts


def tagged(batch: Batch) -> dict[Key, tuple[str, ...]]:
    """Return the tags by key, for examples that have tags; the examples must have keys."""
    pairs = zip(batch.keys or [], batch.tags or [], strict=False)
    return {key: tuple(tags) for key, tags in pairs if tags}


def rows_of(batch: Batch, which: NDArray[np.bool_]) -> Batch | None:
    """Return the examples that the mask ``which`` (n,) selects, None if it selects none; they must have keys."""
    if not which.any():
        return None
    names = ("y", "weights", "times", "targets")
    columns = {name: column[which] for name in names if (column := vars(batch)[name]) is not None}
    keys = [key for key, stays in zip(batch.keys or [], which.tolist(), strict=True) if stays]
    tags = batch.tags and [one for one, stays in zip(batch.tags, which.tolist(), strict=True) if stays]
    return replace(batch, X=batch.X[which], keys=keys, tags=tags, checked=None, **columns)


@dataclass(frozen=True)
class Command(Change):
    """One update as logged, with nothing left to decide: examples to add with their keys, keys to remove, and edits.

    ``next_key`` is the model's counter of generated keys after the command. ``arrived`` is a Unix time in seconds.
    ``request`` is the Idempotency-Key. ``rules`` is the version of the rules that accepted the update. ``dropped`` has
    the keys of examples that are too old to be added. ``ignored`` has the keys of rows that had been added before.
    """

    remove: list[Key] = field(default_factory=list)
    _: KW_ONLY
    arrived: float
    next_key: int
    request: str | None = None
    rules: int = RULES
    dropped: list[Key] = field(default_factory=list)
    ignored: list[Key] = field(default_factory=list)

    @property
    def added(self) -> list[Key]:
        """The keys of the examples to add."""
        return (self.add and self.add.keys) or []

    @property
    def plain(self) -> Command | None:
        """The command itself if it only adds and removes examples, so that it can share a path; else None."""
        return self if self.edits is None else None

    def apply(self, state: Any) -> Outcome:
        """Apply the command to a model's state along the solution path; after SolverError the state is unchanged."""
        outcome: Outcome = state.apply(self)
        return outcome

    def apply_cold(self, state: Any) -> Outcome:
        """Solve for the same optimum from nothing, without a path; after SolverError the state is unchanged."""
        outcome: Outcome = state.apply_cold(self)
        return outcome

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to the caller, as JSON."""
        reported: dict[str, Any] = {"added": self.added, "removed": self.remove, "changed": outcome.changed}
        if self.dropped:
            reported["dropped"] = self.dropped
        if self.ignored:
            reported["ignored"] = self.ignored
        if self.add is not None and self.add.times is not None and self.n_ahead:
            reported["n_ahead"] = self.n_ahead
        reported |= {"events": outcome.events, "seconds": outcome.seconds, **outcome.more}
        return outcome.answer(version, durability, **reported)

    @property
    def n_ahead(self) -> int:
        """The number of added examples with a time later than their arrival."""
        times = None if self.add is None else self.add.times
        return 0 if times is None else int(np.count_nonzero(times > self.arrived))

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return the numbers of the command's changes, for the service's log."""
        counts = {"added": len(self.added), "removed": len(self.remove), "changed": outcome.changed}
        if (edits := self.edits) is None:
            return {"action": "update", **counts, "C": None, "events": outcome.events}
        action = "rescale" if edits.rescale else "change" if edits.change is not None else "update"
        action = action if edits.tuned is None else "tune"
        return {"action": action, **counts, "C": edits.new_C, "events": outcome.events}

    def features_after(self, features: dict[Key, Any]) -> dict[Key, Any]:
        """Return the features by key after the command, possibly with keys that have left the window."""
        if self.add is not None:
            features.update(zip(self.added, self.add.X, strict=True))
        return features

    whole = None

    def named(self) -> Iterator[tuple[Key, Sequence[str]]]:
        """Yield every key in the command, with the tags that the command gives the key."""
        edits = self.edits or NO_EDITS
        sides = edits.robust.outliers if edits.robust is not None else ()
        yield from ((key, ()) for key in (*self.added, *self.remove, *self.dropped, *self.ignored))
        yield from ((key, ()) for key in (*edits.relabel, *edits.reweight, *sides))
        yield from () if self.add is None else tagged(self.add).items()

    def encode(self) -> bytes:
        """Encode the command for the log."""
        parts = {"add": self.add and batch_document(self.add), "edits": self.edits and _edits_document(self.edits)}
        return codec.encode(dict(zip(_LOGGED, _logged(self), strict=True)) | parts)

    @classmethod
    def decode(cls, data: bytes) -> Command:
        """Return the command in a record of the log; raises StoreDamaged or StoreTooNew."""
        return cls.from_document(codec.decode(data))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Command:
        """Return the command in a decoded record of the log."""
        if add := document["add"]:
            table = add.pop("table", None)
            document["add"] = Batch(**add if table is None else add | {"X": codes_from(add["X"], table)})
        if edits := document["edits"]:
            robust = edits.get("robust")
            robust = robust and Robustness(robust["theta"], robust["s"], robust["sides"])
            document["edits"] = Edits(**edits | {"robust": robust})
        return cls(**document)


@dataclass(frozen=True)
class Sizes:
    """Numbers of examples after the newest update, and the error in the optimality conditions."""

    n_examples: int = 0
    n_free: int = 0
    n_bound: int = 0
    max_violation: float = 0.0
    relative_gap: float | None = None  #: None after an update by an older version of this service


@dataclass(frozen=True)
class Outcome:
    """The result of one command: sizes afterwards, number of events on the path, seconds, and number of edited
    examples.

    ``more`` has further results: warnings, the effect of changed parameters, and whether the path was abandoned.
    """

    sizes: Sizes
    events: int = 0
    seconds: float = 0.0
    changed: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, report: UpdateReport, **more: Any) -> Outcome:
        """Return the outcome in an estimator's report; an unknown duality gap becomes None."""
        gap = float(report.relative_gap)
        known = gap if math.isfinite(gap) else None
        sizes = Sizes(report.n, report.n_free, report.n_bound, float(report.max_violation), known)
        return cls(sizes, int(report.events), float(report.seconds), int(report.changed), more)

    def answer(self, version: int, durability: Durability, **reported: Any) -> bytes:
        """Return JSON with the new version, its sizes, its durability, and the further values in ``reported``."""
        return to_json({"version": version, **reported, **vars(self.sizes), "durability": durability.value})


def follow(estimator: LiveEstimator, change: Change) -> Outcome:
    """Update an estimator along the solution path; after SolverError the estimator is unchanged."""
    report = estimator.learn(change)
    more = {"retrained": True} if report.retrained else {}
    return Outcome.of(report, **more, **{"abandoned": True} if report.abandoned else {})
