"""Commands of a model: requests of clients, and what its log keeps of them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from livesvm.service.models.arrays import Key, Tags, Vector
from livesvm.service.models.labels import Targets
from livesvm.service.models.self_tuning import TUNED
from livesvm.service.models.table_rows import TableRows
from livesvm.service.store import codec
from livesvm.service.store.base import Durability
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import Checked
from livesvm.solvers.models.repeats import OnRepeat
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.tables.columns import Codes, codes_from

RULES = 2
"""By which it is judged whether an update can be applied; raised whenever what used to be accepted may be refused."""
COPIES = 4
"""Of an update's features while it waits and is logged: as they came, as bytes, as a record, as the store has it."""
BYTES_A_KEY = 1000
"""Of a key with what belongs to it, at most, in as many copies."""
DRIFT_ALARMS = "drift_alarms"
"""Among changes, what is none of the estimator: the rate of a test for drift, None for no test any more."""


@dataclass(frozen=True)
class Batch:
    """Examples to add: X (n, d), dense or sparse, y (n,) where the task has targets, keys and weights (n,) if given.

    Of a model with columns X is as it came until the update is planned, and codes with their words then.
    """

    X: Any
    y: Targets | None = None
    keys: list[Key] | None = None
    weights: Vector | None = None
    times: Vector | None = None  #: (n,) Unix seconds at which each happened; None: when they arrive
    tags: Tags | None = None  #: of each example, (n,)
    checked: Checked | None = field(default=None, compare=False, repr=False)  #: by the model that they are planned for

    def document(self) -> dict[str, Any]:
        """Return this batch as numbers, lists and arrays."""
        parts = dict(vars(self))
        del parts["checked"]
        if isinstance(self.X, TableRows):
            parts["rows"] = parts.pop("X").rows
        if isinstance(self.X, Codes):
            parts |= {"X": np.asarray(self.X), "table": self.X.document()}
        for name in ("times", "tags"):
            if parts[name] is None:
                del parts[name]  # as before there were any: a digest from then is the same now
        return parts

    @classmethod
    def from_document(cls, parts: dict[str, Any]) -> Batch:
        """Return the batch of a record of the log."""
        table = parts.pop("table", None)
        return cls(**parts if table is None else parts | {"X": codes_from(parts["X"], table)})

    @property
    def tagged(self) -> dict[Key, tuple[str, ...]]:
        """Tags by key, of those of its examples, which have keys, that have any."""
        pairs = zip(self.keys or [], self.tags or [], strict=False)
        return {key: tuple(tags) for key, tags in pairs if tags}

    def only(self, which: NDArray[np.bool_]) -> Batch | None:
        """Return those of its examples, which have keys; None if these are none."""
        if not which.any():
            return None
        columns = {
            name: column[which] for name in ("y", "weights", "times") if (column := vars(self)[name]) is not None
        }
        keys = [key for key, stays in zip(self.keys or [], which.tolist(), strict=True) if stays]
        tags = self.tags and [one for one, stays in zip(self.tags, which.tolist(), strict=True) if stays]
        return replace(self, X=self.X[which], keys=keys, tags=tags, checked=None, **columns)


@dataclass(frozen=True)
class Removal:
    """Examples to remove, in one of three ways; ``older_than`` is a Unix time in seconds, by the times of examples."""

    keys: list[Key] | None = None
    oldest: int | None = None
    older_than: float | None = None


CONVEX = Robustness(1.0, 0.0)
"""Asks for convex losses again, whatever the model's cutoffs are now."""


@dataclass(frozen=True)
class Edits:
    """What changes of examples that stay: targets, weights, by key or by a factor; and of the model: C, its losses.

    ``change`` holds other parameters of the estimator, by name, or ``DRIFT_ALARMS``; ``rescale`` has the scale of
    features, and a gamma that follows from them, fitted again. Either stands alone.
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
        """The parameters of the estimator that change."""
        return {name: value for name, value in (self.change or {}).items() if name not in (DRIFT_ALARMS, TUNED)}

    @property
    def tuned(self) -> dict[str, Any] | None:
        """What the model has chosen itself."""
        return (self.change or {}).get(TUNED)

    @property
    def new_C(self) -> float | None:
        """C as a number, where it is given one, or one was chosen."""
        given = (self.change or {}).get("C", self.C)
        if self.tuned is not None and self.tuned["changes"]:
            given = self.tuned["parameters"].get("C")
        return None if isinstance(given, str) else given

    @property
    def of_parameters(self) -> bool:
        """Whether parameters are changed, and examples are not."""
        return self.change is not None or self.rescale

    def only(self, staying: Container[Key]) -> Edits:
        """Return these edits without those of examples that do not stay."""
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
                del parts[name]  # as before there was any: a digest from then is the same now
        return parts

    @classmethod
    def from_document(cls, parts: dict[str, Any]) -> Edits:
        """Return the edits that a document tells of."""
        robust = parts.get("robust")
        return cls(**parts | {"robust": robust and Robustness(robust["theta"], robust["s"], robust["sides"])})


NO_EDITS = Edits()
"""Nothing changes; a decay by 1 asks for no more."""


def paired(keys: list[Key], values: Targets | list[Any], field: str) -> dict[Key, Any]:
    """Value by key; raises InvalidInput, for ``field``, unless there is one for each."""
    if len(values) != len(keys):
        raise InvalidInput(f"has {len(values)} entries for {len(keys)} keys", field=field)
    return dict(zip(keys, values if isinstance(values, list) else values.tolist(), strict=True))


def batch_of(X: Any, *columns: Any) -> Batch | None:
    """Return examples of these columns, in the order of :class:`Batch`; None where there are none.

    Raises
    ------
    InvalidInput : a column is empty, and X is not, or the other way round
    """
    n = len(X)
    for name, column in zip(("y", "keys", "weights", "times", "tags"), columns, strict=True):
        if column is not None and (len(column) == 0) != (n == 0):
            raise InvalidInput(f"has {len(column)} entries for {n} rows of X", field=name)
    return Batch(X, *columns) if n else None


@dataclass(frozen=True)
class Update:
    """One update, as it was asked for; without any of the three it changes nothing."""

    add: Batch | None = None
    remove: Removal | None = None
    edits: Edits | None = None
    on_repeat: OnRepeat = "refuse"  #: of added examples with known keys

    def memory(self) -> int:
        """Return the bytes that the update takes until it is answered: its arrays, and their copies for the log."""
        edits = self.edits or NO_EDITS
        n_keys = len(edits.relabel) + len(edits.reweight) + len((self.remove and self.remove.keys) or [])
        add = self.add
        n_rows, size = (0, 0) if add is None else (len(add.X), add.X.nbytes)
        return COPIES * size + BYTES_A_KEY * (n_rows + n_keys)

    def digest(self) -> bytes:
        """SHA-256 of what was asked, the same in whichever format it came."""
        parts = {
            "add": self.add and self.add.document(),
            "remove": self.remove and vars(self.remove),
            "edits": self.edits and self.edits.document(),
            **({} if self.on_repeat == "refuse" else {"on_repeat": self.on_repeat}),
        }
        return codec.digest(parts)


@dataclass(frozen=True)
class Command:
    """One update with nothing left open: which examples come, under which keys, which go, and what changes of others.

    ``next_key`` is the model's counter for handing out keys after it; ``arrived`` is a Unix time in seconds;
    ``request`` is the Idempotency-Key that it came with; ``rules`` are what it was judged by;
    ``dropped`` are keys of examples too old to come in, ``ignored`` those of rows that came before.
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
        """Keys of the examples that come."""
        return [] if self.add is None or self.add.keys is None else self.add.keys

    @property
    def is_nothing(self) -> bool:
        """Whether it changes nothing, as that of an empty day."""
        has_effect = self.remove or self.dropped or self.ignored
        return self.add is None and not has_effect and self.edits in (None, NO_EDITS)

    @property
    def plain(self) -> Command | None:
        """Itself if it only adds and removes: one path leads past several of these together."""
        return self if self.edits is None else None

    def apply(self, state: Any) -> Outcome:
        """Have a model's state follow the path; raises SolverError with the state as it was."""
        outcome: Outcome = state.apply(self)
        return outcome

    def apply_cold(self, state: Any) -> Outcome:
        """Have it reach the same optimum without the path; raises SolverError with the state as it was."""
        outcome: Outcome = state.apply_cold(self)
        return outcome

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to its caller."""
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
        """How many examples come with a time that had not come yet when they arrived."""
        times = None if self.add is None else self.add.times
        return 0 if times is None else int(np.count_nonzero(times > self.arrived))

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return what it changed, in numbers, for the log."""
        counts = {"added": len(self.added), "removed": len(self.remove), "changed": outcome.changed}
        edits = self.edits or NO_EDITS
        action = "rescale" if edits.rescale else "change" if edits.change is not None else "update"
        action = action if edits.tuned is None else "tune"
        return {"action": action, **counts, "C": edits.new_C, "events": outcome.events}

    def features_after(self, features: dict[Key, Any]) -> dict[Key, Any]:
        """Return features by key after it; those of keys that have gone may be among them."""
        if self.add is not None:
            features.update(zip(self.added, self.add.X, strict=True))
        return features

    whole = None

    def named(self) -> Iterator[tuple[Key, Sequence[str]]]:
        """Yield every key that it names, with tags where it gives any."""
        edits = self.edits or NO_EDITS
        sides = edits.robust.outliers if edits.robust is not None else ()
        yield from ((key, ()) for key in (*self.added, *self.remove, *self.dropped, *self.ignored))
        yield from ((key, ()) for key in (*edits.relabel, *edits.reweight, *sides))
        yield from () if self.add is None else self.add.tagged.items()

    def encode(self) -> bytes:
        """Return bytes for the log."""
        parts = {"add": self.add and self.add.document(), "edits": self.edits and self.edits.document()}
        return codec.encode(vars(self) | parts)

    @classmethod
    def decode(cls, data: bytes) -> Command:
        """Return the command in a record of the log; raises StoreDamaged or StoreTooNew."""
        return cls.from_document(codec.decode(data))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Command:
        """Return the command that a document of the log tells of."""
        add, edits = document.pop("add"), document.pop("edits")
        return cls(add=add and Batch.from_document(add), edits=edits and Edits.from_document(edits), **document)


@dataclass(frozen=True)
class Sizes:
    """What the newest update left: examples by side, and how well the optimality conditions hold."""

    n_examples: int = 0
    n_free: int = 0
    n_bound: int = 0
    max_violation: float = 0.0
    relative_gap: float | None = None  #: not known of an update that an older version of this service applied


@dataclass(frozen=True)
class Outcome:
    """What one command did: the sizes after it, the path's events, its seconds, and how many that stayed changed.

    ``more`` is what else is reported of it: warnings, what a change of parameters made of those, and a path given up.
    """

    sizes: Sizes
    events: int = 0
    seconds: float = 0.0
    changed: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    def answer(self, version: int, durability: Durability, **reported: Any) -> bytes:
        """JSON of what the command made of the model, and of what else is ``reported``."""
        return to_json({"version": version, **reported, **vars(self.sizes), "durability": durability.value})
