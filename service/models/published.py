"""One immutable version of a model: a description of the version, and predictions with it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.errors import EmptyModel
from livesvm.service.models.arrays import Matrix, Rows, Vector
from livesvm.service.models.commands import Sizes
from livesvm.service.models.labels import are_signs
from livesvm.service.models.learners import task_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.table_rows import TableRows, check_form
from livesvm.service.resources.memory import model_bytes
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.calibration import Calibration, columns
from livesvm.solvers.models.record import Record
from livesvm.solvers.pu.held_out import HeldOut, Threshold
from livesvm.solvers.validation import plain_features


@dataclass(frozen=True)
class Cut:
    """A request for a threshold on decision values, by the largest share of alerts or the least precision."""

    alerts: float | None = None
    precision: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """The description of one version of a model; the description never changes.

    ``row_bytes`` is the average size of an example's features. ``counts`` has the number of examples of each label, in
    the order of the decision values. ``parameters`` has the present parameters except C and those of the kernel;
    ``gamma`` is the kernel coefficient in use. ``drift`` is the result of ``Watch.shown``, or None for a model that is
    not tested for drift. ``tuning`` is the result of ``TuningSchedule.shown``, or None for a model that does not tune
    itself. ``record`` is the estimator's record of predictions.
    """

    version: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    n_features: int | None = None
    row_bytes: float = 0.0
    is_sparse: bool = False
    n_support: int = 0
    C: float | None = None
    kernel: dict[str, Any] | None = None
    robust: dict[str, Any] | None = None
    counts: dict[Any, int] | None = None
    gamma: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    warnings: list[dict[str, str]] = field(default_factory=list)
    updated_at: float | None = None
    drift: dict[str, Any] | None = None
    tuning: dict[str, Any] | None = None
    record: Record | None = None
    can_predict: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of this class by name."""
        return {name: getattr(self, name) for name in _FIELDS}

    def document(self) -> dict[str, Any]:
        """Return the fields as numbers, lists and dicts, which a store can keep."""
        counts = None if self.counts is None else list(map(list, self.counts.items()))
        record = self.record and self.record.to_document()
        return self.fields() | {"sizes": list(vars(self.sizes).values()), "counts": counts, "record": record}

    @staticmethod
    def in_document(document: dict[str, Any]) -> dict[str, Any]:
        """Return the fields in a document that :meth:`document` made."""
        counts = None if document["counts"] is None else dict(document["counts"])
        kept = document.get("record")
        record = None if kept is None else Record.from_document(kept)
        return document | {"sizes": Sizes(*document["sizes"]), "counts": counts, "record": record}

    def needs(self, cache_mb: int) -> int:
        """Return the bytes of memory that the model needs after an update, with all its caches."""
        n, n_free = self.sizes.n_examples, self.sizes.n_free
        return model_bytes(n, self.row_bytes, n_free, cache_mb, len(self.counts or ()))


_FIELDS = [one.name for one in fields(ModelRecord)]


@dataclass(frozen=True, kw_only=True)
class Published(ModelRecord):
    """One version of a model for readers, with its predictor."""

    predictor: Any = None
    classes: NDArray[Any] | None = None
    shape: str = "ovr"
    calibration: Calibration | HeldOut | None = None

    @property
    def n_values(self) -> int:
        """The largest number of decision values that one row can have."""
        n = 1 if self.classes is None else self.classes.size
        return 1 if n < 3 else n * (n - 1) // 2

    @property
    def sparse_bytes(self) -> float | None:
        """The average bytes of one example's sparse features; None if features are dense."""
        support = getattr(self.predictor, "examples", None)
        if support is not None:
            return (int(support.values.data.nbytes) + int(support.values.indices.nbytes)) / int(support.n)
        return self.row_bytes if self.is_sparse else None

    @property
    def answers_with(self) -> list[Any] | None:
        """The labels in the order of an answer's decisions; None if the model has no classes, or just -1 and 1."""
        return None if self.classes is None or are_signs(self.classes) else self.classes.tolist()

    def probabilities(self, decision: Vector) -> Matrix:
        """Return the probability of each class, (m, n_classes), from decisions; the version must have a calibration."""
        assert isinstance(self.calibration, Calibration)
        assert self.classes is not None
        n = self.classes.size
        are_scores = decision.ndim == 2 and self.shape == "ovr"
        return self.calibration.probabilities(decision if are_scores else columns(decision, n))

    def checked(self, spec: ModelSpec, X: Rows | TableRows, limit: int) -> Rows:
        """Check rows (m, d), and return the rows in the form that this version's predictor takes.

        Raises
        ------
        EmptyModel
        InvalidInput : there are more than ``limit`` rows, or they have another width or other columns than the model
        """
        self.check_known(spec)
        if X.shape[0] > limit:
            raise InvalidInput(f"has {X.shape[0]} rows, the limit is {limit}", field="X")
        scale = self.predictor.scale
        check_form(X, has_columns=scale is not None and scale.columns is not None)
        if isinstance(X, TableRows):
            return X.read_by(scale.columns)
        if X.shape[1] != self.n_features:
            reason = f"has {X.shape[1]} columns, this model has {self.n_features} features"
            raise InvalidInput(reason, field="X", row=0)
        return X

    def check_known(self, spec: ModelSpec) -> None:
        """Raise EmptyModel if this version cannot predict."""
        if self.predictor is None:
            raise EmptyModel(f"model {spec.id} {self._lacks(spec)}")

    def _lacks(self, spec: ModelSpec) -> str:
        """Return the reason why this version cannot predict."""
        if not task_of(spec).is_exact:
            return "has not been trained yet: retrain it"
        if self.sizes.n_examples:
            return f"cannot predict yet: {self.warnings[-1]['message']}"
        return "knows no example yet"

    def threshold(self, cut: Cut) -> Threshold:
        """Return a threshold on decision values, found by held-out decisions; raises InvalidInput if none exists."""
        assert isinstance(self.calibration, HeldOut)
        return self.calibration.threshold(cut.alerts, cut.precision)

    def decide(self, spec: ModelSpec, X: Rows) -> tuple[Vector, NDArray[Any]]:
        """Return the decision values (m,), or (m, k) for more than two classes, and predictions (m,) of checked rows X.

        Raises InvalidInput for rows that are too large for the kernel.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            rows = plain_features(X)  # rows from another process may be read-only
            decision, prediction = task_of(spec).decide(self.predictor, rows, self.classes, self.shape)
        finite = np.isfinite(decision) if decision.ndim == 1 else np.isfinite(decision).all(axis=1)
        if prediction.dtype.kind == "f" and prediction is not decision:
            finite &= np.isfinite(prediction)
        if not finite.all():
            raise InvalidInput("is too large for this kernel", field="X", row=int(np.argmin(finite)))
        return decision, prediction
