"""What a model shows its readers: one immutable version, and what that decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.errors import EmptyModel
from livesvm.service.models.arrays import Rows, Vector
from livesvm.service.models.learners import task_of
from livesvm.service.models.outcome import Sizes
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.solvers.errors import InvalidInput


@dataclass(frozen=True)
class Prediction:
    """Decision values (m,) and predictions (m,) of one version; ``stale`` if newer data may be unknown."""

    version: int
    decision: Vector
    prediction: NDArray[Any]
    stale: bool


@dataclass(frozen=True)
class Published:
    """One version of a model, for readers; nothing in it ever changes."""

    version: int
    predictor: Any
    sizes: Sizes
    n_features: int | None
    n_support: int
    C: float | None
    updated_at: float | None
    kernel: dict[str, Any] = field(default_factory=dict)
    robust: dict[str, Any] | None = None
    row_bytes: float = 0.0
    is_sparse: bool = False

    @classmethod
    def of(cls, state: ModelState) -> Published:
        """The version that ``state`` is at."""
        predictor = state.estimator.predictor() if state.can_predict else None
        n_support = 0 if predictor is None else int(predictor.n_support)
        rest = state.C, state.updated_at, state.kernel, state.robust, state.row_bytes, bool(state.window.is_sparse)
        return cls(state.version, predictor, state.sizes, state.window.n_features, n_support, *rest)

    def check(self, spec: ModelSpec, X: Rows, limit: int) -> None:
        """Raise EmptyModel, or InvalidInput for rows X (m, d) that are more than ``limit`` or of another width."""
        if self.predictor is None:
            what = "knows no example yet" if task_of(spec).is_exact else "has not been trained yet: retrain it"
            raise EmptyModel(f"model {spec.id} {what}")
        if X.shape[0] > limit:
            raise InvalidInput(f"has {X.shape[0]} rows, the limit is {limit}", field="X")
        if X.shape[1] != self.n_features:
            reason = f"has {X.shape[1]} columns, this model has {self.n_features} features"
            raise InvalidInput(reason, field="X", row=0)

    def decide(self, spec: ModelSpec, X: Rows) -> tuple[Vector, NDArray[Any]]:
        """Decision values (m,) and predictions (m,) of checked rows X (m, d).

        Raises InvalidInput for rows that are too large for the kernel.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            decision, prediction = task_of(spec).decide(self.predictor, X)
        finite = np.isfinite(decision)
        if not finite.all():
            raise InvalidInput("is too large for this kernel", field="X", row=int(np.argmin(finite)))
        return decision, prediction
