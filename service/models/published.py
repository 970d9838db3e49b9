"""What a model shows: one immutable version in numbers, and what that decides."""

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
from livesvm.solvers.pu.held_out import HeldOut, Threshold
from livesvm.solvers.tables.encoding import TableEncoding
from livesvm.solvers.validation import plain_features


@dataclass(frozen=True)
class Cut:
    """How the threshold of decisions is asked for: by a largest share of alerts, or a least precision."""

    alerts: float | None = None
    precision: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """What one version of a model shows, wherever it is asked for; nothing in it ever changes.

    ``row_bytes`` are those of one example's features, on average. ``counts`` has the examples of each label, in the
    order of decisions. ``parameters`` are the present ones, but for C and the kernel; ``gamma`` is the coefficient in
    use. ``drift`` is what a test for drift says, where there is one, as ``Watch.shown`` has it; ``tuning`` what a model
    that tunes itself has chosen, as ``Tuning.shown`` has it.
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
    can_predict: bool = False

    def record(self) -> dict[str, Any]:
        """Return all that is shown, by name."""
        return {name: getattr(self, name) for name in _RECORD}

    def document(self) -> dict[str, Any]:
        """Return the same as numbers, lists and dicts that stores keep."""
        counts = None if self.counts is None else list(map(list, self.counts.items()))
        return self.record() | {"sizes": list(vars(self.sizes).values()), "counts": counts}

    @staticmethod
    def in_document(document: dict[str, Any]) -> dict[str, Any]:
        """Return the record that a document was made of."""
        counts = None if document["counts"] is None else dict(document["counts"])
        return document | {"sizes": Sizes(*document["sizes"]), "counts": counts}

    def needs(self, cache_mb: int) -> int:
        """Return the bytes of the model once an update has rebuilt what cooling gives up."""
        n, n_free = self.sizes.n_examples, self.sizes.n_free
        return model_bytes(n, self.row_bytes, n_free, cache_mb, len(self.counts or ()))


_RECORD = [one.name for one in fields(ModelRecord)]


@dataclass(frozen=True, kw_only=True)
class Published(ModelRecord):
    """One version of a model, for readers, with what it decides by."""

    predictor: Any = None
    classes: NDArray[Any] | None = None
    shape: str = "ovr"
    calibration: Calibration | HeldOut | None = None

    @property
    def n_values(self) -> int:
        """Decision values of a row, at most."""
        n = 1 if self.classes is None else self.classes.size
        return 1 if n < 3 else n * (n - 1) // 2

    @property
    def sparse_bytes(self) -> float | None:
        """Bytes of an example's features on average, of which only what is not 0 is held; None: they are dense."""
        support = getattr(self.predictor, "examples", None)
        if support is not None:
            return (int(support.values.data.nbytes) + int(support.values.indices.nbytes)) / int(support.n)
        return self.row_bytes if self.is_sparse else None

    @property
    def answers_with(self) -> list[Any] | None:
        """The labels that an answer is given with, in their order; None where decisions speak for themselves."""
        return None if self.classes is None or are_signs(self.classes) else self.classes.tolist()

    def probabilities(self, decision: Vector) -> Matrix:
        """Return the probability of each class, (m, n_classes), of decisions; of a version with a calibration."""
        assert isinstance(self.calibration, Calibration)
        assert self.classes is not None
        n = self.classes.size
        are_scores = decision.ndim == 2 and self.shape == "ovr"
        return self.calibration.probabilities(decision if are_scores else columns(decision, n))

    def checked(self, spec: ModelSpec, X: Rows | TableRows, limit: int) -> Rows:
        """Return rows (m, d) as this version decides them.

        Raises
        ------
        EmptyModel
        InvalidInput : rows are more than ``limit``, of another width, or not of the model's columns
        """
        self.check_known(spec)
        if X.shape[0] > limit:
            raise InvalidInput(f"has {X.shape[0]} rows, the limit is {limit}", field="X")
        check_form(X, has_columns=isinstance(self.predictor.scale, TableEncoding))
        if isinstance(X, TableRows):
            return X.read_by(self.predictor.scale.columns)
        if X.shape[1] != self.n_features:
            reason = f"has {X.shape[1]} columns, this model has {self.n_features} features"
            raise InvalidInput(reason, field="X", row=0)
        return X

    def check_known(self, spec: ModelSpec) -> None:
        """Raise EmptyModel for a version that cannot predict."""
        if self.predictor is None:
            raise EmptyModel(f"model {spec.id} {self._lacks(spec)}")

    def _lacks(self, spec: ModelSpec) -> str:
        """Return why a version cannot predict."""
        if not task_of(spec).is_exact:
            return "has not been trained yet: retrain it"
        if self.sizes.n_examples:
            return f"cannot predict yet: {self.warnings[-1]['message']}"
        return "knows no example yet"

    def threshold(self, cut: Cut) -> Threshold:
        """Return where decisions are cut, for a version with held-out decisions; raises InvalidInput if it cannot."""
        assert isinstance(self.calibration, HeldOut)
        return self.calibration.threshold(cut.alerts, cut.precision)

    def decide(self, spec: ModelSpec, X: Rows) -> tuple[Vector, NDArray[Any]]:
        """Decision values (m,), of more than two classes (m, k), and predictions (m,) of checked rows X (m, d).

        Raises InvalidInput for rows that are too large for the kernel.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            rows = plain_features(X)  # those from another process may be read-only
            decision, prediction = task_of(spec).decide(self.predictor, rows, self.classes, self.shape)
        finite = np.isfinite(decision) if decision.ndim == 1 else np.isfinite(decision).all(axis=1)
        if not finite.all():
            raise InvalidInput("is too large for this kernel", field="X", row=int(np.argmin(finite)))
        return decision, prediction
