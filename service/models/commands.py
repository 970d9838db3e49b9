"""Updates of a model as clients request them, and the commands that the model's log records for these updates."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from livesvm.service.models.arrays import Key, Tags, Targets, Vector
from livesvm.service.models.self_tuning import TUNED
from livesvm.service.models.table_rows import TableRows
from livesvm.service.store import codec
from livesvm.service.store.base import Durability
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import Checked, LiveEstimator
from livesvm.solvers.models.repeats import OnRepeat
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.tables.columns import Codes, codes_from

RULES = 2
"""Version of the rules by which updates are accepted; raised whenever updates that were accepted may be refused."""
COPIES = 4
"""Copies of an update's features while it waits and is logged: as they came, as bytes, as a record, in the store."""
BYTES_A_KEY = 1000
"""Most bytes of a key and the values that belong to it, in as many copies."""
DRIFT_ALARMS = "drift_alarms"
"""Name of the one change that is no parameter of the estimator: the false-alarm rate of the drift test, or None."""


_VERBS = ("relabel", "reweight", "decay", "C", "robust")
"""Edits that are arguments of an estimator's update."""


@dataclass(frozen=True)
class Batch:
    """Examples to add: X (n, d), dense or sparse, y (n,) if the task has targets, and keys and weights (n,) if given.

    For a model with columns, X has rows as they came until the update is planned; after that, X has their numeric codes
    and the words that the codes stand for.
    """

    X: Any
    y: Targets | None = None
    keys: list[Key] | None = None
    weights: Vector | None = None
    times: Vector | None = None  #: (n,) Unix seconds at which each example happened; None: the time of arrival
    tags: Tags | None = None  #: the tags of each example, (n,)
    #: y as the model's numbers (n,), and all examples as the model checked them; both are made while it is planned
    targets: Vector | None = field(default=None, compare=False, repr=False)
    checked: Checked | None = field(default=None, compare=False, repr=False)

    def document(self) -> dict[str, Any]:
        """Return this batch as numbers, lists and arrays."""
        parts = dict(vars(self))
        del parts["targets"], parts["checked"]
        if isinstance(self.X, TableRows):
            parts["rows"] = parts.pop("X").rows
        if isinstance(self.X, Codes):
            parts |= {"X": np.asarray(self.X), "table": self.X.document()}
        for name in ("times", "tags"):
            if parts[name] is None:
                del parts[name]  # so that digests from before these fields existed are the same now
        return parts

    @classmethod
    def from_document(cls, parts: dict[str, Any]) -> Batch:
        """Return the batch in a decoded record of the log."""
        table = parts.pop("table", None)
        return cls(**parts if table is None else parts | {"X": codes_from(parts["X"], table)})

    @property
    def tagged(self) -> dict[Key, tuple[str, ...]]:
        """The tags by key, for examples that have tags; the examples must have keys."""
        pairs = zip(self.keys or [], self.tags or [], strict=False)
        return {key: tuple(tags) for key, tags in pairs if tags}

    def only(self, which: NDArray[np.bool_]) -> Batch | None:
        """Return the examples that the mask ``which`` (n,) selects, None if it selects none; they must have keys."""
        if not which.any():
            return None
        names = ("y", "weights", "times", "targets")
        columns = {name: column[which] for name in names if (column := vars(self)[name]) is not None}
        keys = [key for key, stays in zip(self.keys or [], which.tolist(), strict=True) if stays]
        tags = self.tags and [one for one, stays in zip(self.tags, which.tolist(), strict=True) if stays]
        return replace(self, X=self.X[which], keys=keys, tags=tags, checked=None, **columns)


@dataclass(frozen=True)
class Removal:
    """Examples to remove: those with given keys, a number of the oldest, or those before Unix time ``older_than``."""

    keys: list[Key] | None = None
    oldest: int | None = None
    older_than: float | None = None


CONVEX = Robustness(1.0, 0.0)
"""Asks for convex losses again, whatever the model's present cutoffs are."""


@dataclass(frozen=True)
class Edits:
    """Changes of examples in the window (targets and weights by key, a factor for all weights), of C and of the loss.

    ``change`` maps names of other parameters of the estimator, or ``DRIFT_ALARMS``, to new values. ``rescale`` fits the
    scale of features again, and gamma if it depends on the scale. ``change`` and ``rescale`` cannot be combined with
    other edits.
    """

    relabel: dict[Key, Any] = field(default_factory=dict)
    reweight: dict[Key, float] = field(default_factory=dict)
    decay: float = 1.0
    C: float | None = None
    robust: Robustness | None = None
    change: dict[str, Any] | None = None
    rescale: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The new values of the estimator's parameters, by name."""
        return {name: value for name, value in (self.change or {}).items() if name not in (DRIFT_ALARMS, TUNED)}

    @property
    def tuned(self) -> dict[str, Any] | None:
        """The parameters that the model has chosen itself; None if the edits are not such a choice."""
        return (self.change or {}).get(TUNED)

    @property
    def new_C(self) -> float | None:
        """The new C as a number, given or chosen; None if C stays the same, or will be chosen later."""
        given = (self.change or {}).get("C", self.C)
        if self.tuned is not None and self.tuned["changes"]:
            chosen = self.tuned["parameters"]
            given = 0.5 / chosen["lam"] if "lam" in chosen else chosen.get("C")
        return None if isinstance(given, str) else given

    @property
    def of_parameters(self) -> bool:
        """Whether the edits change only parameters, and no examples."""
        return self.change is not None or self.rescale

    def only(self, staying: Container[Key]) -> Edits:
        """Return these edits without edits of examples that leave the window."""
        relabel = {key: y for key, y in self.relabel.items() if key in staying}
        reweight = {key: weight for key, weight in self.reweight.items() if key in staying}
        robust = self.robust
        if robust is not None:
            robust = replace(robust, outliers={key: side for key, side in robust.outliers.items() if key in staying})
        return replace(self, relabel=relabel, reweight=reweight, robust=robust)

    def document(self) -> dict[str, Any]:
        """Return these edits as numbers, lists and dicts."""
        robust = self.robust and {"theta": self.robust.theta, "s": self.robust.s, "sides": dict(self.robust.outliers)}
        parts = dict(vars(self)) | {"robust": robust}
        for name in ("robust", "change", "rescale"):
            if not parts[name]:
                del parts[name]  # so that digests from before these fields existed are the same now
        return parts

    @classmethod
    def from_document(cls, parts: dict[str, Any]) -> Edits:
        """Return the edits in a document."""
        robust = parts.get("robust")
        return cls(**parts | {"robust": robust and Robustness(robust["theta"], robust["s"], robust["sides"])})


NO_EDITS = Edits()
"""Edits that change nothing; an update that asks for a decay by 1 has the same."""


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


@dataclass(frozen=True)
class Update:
    """One update as a client requested it; without ``add``, ``remove`` and ``edits`` the update changes nothing."""

    add: Batch | None = None
    remove: Removal | None = None
    edits: Edits | None = None
    on_repeat: OnRepeat = "refuse"  #: what to do with added examples that have known keys

    def memory(self) -> int:
        """Return the bytes that the update needs until it is answered: for its arrays and their copies for the log."""
        edits = self.edits or NO_EDITS
        n_keys = len(edits.relabel) + len(edits.reweight) + len((self.remove and self.remove.keys) or [])
        add = self.add
        n_rows, size = (0, 0) if add is None else (len(add.X), add.X.nbytes)
        return COPIES * size + BYTES_A_KEY * (n_rows + n_keys)

    def digest(self) -> bytes:
        """Return the SHA-256 of the update's content, which does not depend on the format of the request."""
        parts = {
            "add": self.add and self.add.document(),
            "remove": self.remove and vars(self.remove),
            "edits": self.edits and self.edits.document(),
            **({} if self.on_repeat == "refuse" else {"on_repeat": self.on_repeat}),
        }
        return codec.digest(parts)


@dataclass(frozen=True)
class Command:
    """One update as logged, with nothing left to decide: examples to add with their keys, keys to remove, and edits.

    ``next_key`` is the model's counter of generated keys after the command. ``arrived`` is a Unix time in seconds.
    ``request`` is the Idempotency-Key. ``rules`` is the version of the rules that accepted the update. ``dropped`` has
    the keys of examples that are too old to be added. ``ignored`` has the keys of rows that had been added before.
    """

    add: Batch | None
    remove: list[Key]
    arrived: float
    next_key: int
    request: str | None
    edits: Edits | None = None
    rules: int = RULES
    dropped: list[Key] = field(default_factory=list)
    ignored: list[Key] = field(default_factory=list)

    @property
    def added(self) -> list[Key]:
        """The keys of the examples to add."""
        return [] if self.add is None or self.add.keys is None else self.add.keys

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
        yield from () if self.add is None else self.add.tagged.items()

    def encode(self) -> bytes:
        """Encode the command for the log."""
        parts = {"add": self.add and self.add.document(), "edits": self.edits and self.edits.document()}
        return codec.encode(vars(self) | parts)

    @classmethod
    def decode(cls, data: bytes) -> Command:
        """Return the command in a record of the log; raises StoreDamaged or StoreTooNew."""
        return cls.from_document(codec.decode(data))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Command:
        """Return the command in a decoded record of the log."""
        add, edits = document.pop("add"), document.pop("edits")
        return cls(add=add and Batch.from_document(add), edits=edits and Edits.from_document(edits), **document)


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


def follow(estimator: LiveEstimator, add: Batch | None, remove: list[Any], edits: Edits | None) -> Outcome:
    """Update an estimator along the solution path; after SolverError the estimator is unchanged."""
    given = {} if edits is None else {name: getattr(edits, name) for name in _VERBS}
    if add is not None:
        given |= {"add": add.checked or (add.X, add.y), "keys": add.keys, "sample_weight": add.weights}
    report = estimator.update(remove=remove or None, **given)
    more = {"retrained": True} if report.retrained else {}
    return Outcome.of(report, **more, **{"abandoned": True} if report.abandoned else {})
