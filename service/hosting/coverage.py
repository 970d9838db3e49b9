"""Conformal intervals and conformal sets of classes from one version of a model; see ``analyses.conformal``."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from livesvm.service.errors import OutOfMemory, ServiceError
from livesvm.service.hosting.collection import Models
from livesvm.service.models.arrays import Rows, Vector
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.resources.memory import Budget
from livesvm.solvers.analyses.conformal import BLOCK, Conformal, conformal
from livesvm.solvers.analyses.leave_one_out.tableau import bytes_of
from livesvm.solvers.errors import InvalidInput

KEPT = 16
"""How many models keep the leave-one-out residuals of their newest version."""
COPIES = 3
"""Copies of the coefficients in memory while they are put together."""
KERNEL, COMPARED, SORTED = 16, 8, 200
"""Cost in multiplications of a kernel value besides its features, of comparing a decision, and of sorting one twice."""
EXCHANGEABLE = "the examples and the rows come from one distribution, in any order"
DRIFTING = "less by how much the distribution of the weighted examples differs from that of the rows"


@dataclass(frozen=True)
class WantedCoverage:
    """A request for conformal intervals or sets that cover the targets with a given probability.

    Parameters
    ----------
    coverage : share of targets, between 0 and 1
    half_life : seconds after which an example counts half in quantiles; None: all examples count the same
    method : of intervals; see :meth:`~livesvm.solvers.analyses.conformal.Conformal.intervals`
    """

    coverage: float
    half_life: float | None = None
    method: Literal["plus", "minmax"] = "plus"


@dataclass(frozen=True, eq=False)
class Covering:
    """One version of a model with its leave-one-out residuals.

    ``ages`` (n,) has the seconds from each example to the newest.
    """

    seen: Published
    found: Conformal
    ages: Vector

    def memory(self, X: Rows) -> int:
        """Return the bytes that an answer for these rows needs, with the decisions of all leave-one-out models."""
        return X.nbytes + 3 * 8 * max(BLOCK, self.ages.size) * self.seen.n_values + 200 * len(X)

    def work(self, X: Rows) -> float:
        """Return the computing time for one row of an answer, expressed as a number of multiplications."""
        n, k = self.ages.size, 1 if self.found.classes is None else self.found.classes.size
        return self.found.models.products(X.shape[1]) + n * (KERNEL + (SORTED if k == 1 else COMPARED * k * k))

    def answer(self, spec: ModelSpec, X: Rows, wanted: WantedCoverage) -> dict[str, Any]:
        """Return the decisions of rows ``X`` (m, d), with an interval or a set of classes for each, as JSON values."""
        decision, prediction = self.seen.decide(spec, X)
        weights = np.ones(self.ages.size) if wanted.half_life is None else 0.5 ** (self.ages / wanted.half_life)
        found = replace(self.found, weights=weights)
        reported = {"version": self.seen.version, "decision": decision.tolist(), "prediction": prediction.tolist()}
        if (named := self.seen.answers_with) is not None:
            reported["classes"] = named
        reported["promise"] = _promise(wanted)
        if found.classes is None:
            low, high = found.intervals(X, wanted.coverage, wanted.method)
            return reported | {"low": _listed(low), "high": _listed(high)}
        labels = found.classes.tolist()
        sets = found.sets(X, wanted.coverage)
        return reported | {"set": [[label for label, is_in in zip(labels, row, strict=True) if is_in] for row in sets]}


def memory_without_each(copy: ModelCopy) -> int:
    """Return an upper bound on the bytes that the computation of the leave-one-out models needs."""
    n, n_pairs = len(copy.arrays["keys"]), _pairs(copy)
    return COPIES * 8 * (_leaving(copy) + n_pairs) * (n + 1) + bytes_of(n, min(n, copy.sizes.n_free))


def memory_of_decisions(copy: ModelCopy, rows: int) -> int:
    """Return an upper bound on the bytes of all leave-one-out models' decisions for this number of rows."""
    return COPIES * 8 * rows * _pairs(copy) * min(len(copy.arrays["keys"]), _leaving(copy))


def _pairs(copy: ModelCopy) -> int:
    return max(1, copy.n_classes * (copy.n_classes - 1) // 2)


def _leaving(copy: ModelCopy) -> int:
    """Return an upper bound on the number of leave-one-out models, over all pairs of classes, that must be solved."""
    is_weighed = copy.changed.get("class_weight", copy.spec.class_weight) is not None
    if is_weighed or not copy.sizes.n_free or not task_of(copy.spec).has_cost:
        return len(copy.arrays["keys"]) * _pairs(copy)  # each example may influence the model of every pair
    return copy.sizes.n_free + copy.sizes.n_bound


def cover(copy: ModelCopy) -> Covering:
    """Compute the leave-one-out residuals of one version of a model; raises InvalidInput, NotSolved or SolverError."""
    state = copy.state()
    return Covering(state.published(), conformal(state.estimator), copy.times.max() - copy.times)


def check(spec: ModelSpec, wanted: WantedCoverage) -> None:
    """Raise InvalidInput if models with this specification cannot give the requested intervals or sets."""
    task = task_of(spec)
    if not (task.is_exact and (task.has_labels or task.has_values)):
        raise InvalidInput(f"cannot be promised by models of task {spec.task}", field="coverage")
    if wanted.method != "plus" and not task.has_values:
        raise InvalidInput("is of intervals; this model has sets of classes", field="interval")


def _promise(wanted: WantedCoverage) -> dict[str, Any]:
    """Return the guaranteed share of covered targets, and the assumption on which the guarantee rests."""
    alpha = 1.0 - wanted.coverage
    at_least = 1.0 - alpha if wanted.method == "minmax" else max(0.0, 1.0 - 2.0 * alpha)
    assumes = EXCHANGEABLE if wanted.half_life is None else DRIFTING
    return {"coverage": wanted.coverage, "at_least": at_least, "assumes": assumes}


def _listed(ends: NDArray[np.float64]) -> list[float | None]:
    return [end if np.isfinite(end) else None for end in ends.tolist()]


class Coverings:
    """A cache of leave-one-out residuals for the newest versions of the most recently used models."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Covering] = OrderedDict()

    def get(self, id: str, now: Published) -> Covering | None:
        """Return the cached residuals of the model's newest version ``now``; drop residuals of an older version."""
        with self._lock:
            if (found := self._kept.get(id)) is None:
                return None
            if (found.seen.version, found.seen.updated_at) != (now.version, now.updated_at):
                self._drop(id)
                return None
            self._kept.move_to_end(id)
            return found

    def keep(self, id: str, found: Covering) -> None:
        """Cache the residuals of one version, if the memory budget has room for the residuals."""
        with self._lock:
            self._drop(id)
            while len(self._kept) >= KEPT:
                self._drop(next(iter(self._kept)))
            with suppress(OutOfMemory):
                self._budget.resize(found, found.found.nbytes)
                self._kept[id] = found

    def tidy(self, models: Models) -> None:
        """Drop the residuals of outdated versions, which may depend on examples that have been erased since."""
        for id_ in list(self._kept):
            try:
                self.get(id_, models.get(id_).published)
            except ServiceError:
                with self._lock:
                    self._drop(id_)

    def _drop(self, id: str) -> None:
        if (before := self._kept.pop(id, None)) is not None:
            self._budget.release(before)
