"""What a model of several classes has to be after any updates, by plain rules and trained from nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.models import feature_scale
from livesvm.solvers.models.feature_scale import FeatureScale
from tests import oracle

Label = int | str
SIGNS = {-1, 1}
SURE = 1e-9
"""Of a box: a coefficient further inside it than that fixes the intercept."""


@dataclass
class Example:
    """One example of the window; ``time`` is a Unix time in seconds."""

    x: NDArray[np.float64]
    y: Label
    weight: float
    time: float


@dataclass
class Book:
    """The examples of the window, oldest first, which classes are known, and the parameters."""

    C: float
    kernel: dict[str, Any]
    class_weight: Any = None
    fit_intercept: bool = True
    scale: str = "none"
    max_examples: int | None = None
    max_age_seconds: float | None = None
    examples: dict[Any, Example] = field(default_factory=dict)
    known: set[Label] = field(default_factory=set)
    on_scale: FeatureScale | None = None
    version: int = 0
    next_key: int = 0

    def copy(self) -> Book:
        """Return the same, on its own."""
        return copy.deepcopy(self)

    # -- what updates mean ---------------------------------------------------------------------------------------------

    def update(
        self,
        now: float,
        come: Mapping[Any, Example],
        remove: Sequence[Any],
        relabel: Mapping[Any, Label],
        reweight: Mapping[Any, float],
        decay: float,
        C: float | None,
    ) -> None:
        """Remove, forget what is old, change the rest, and add."""
        before = {one.y for one in self.examples.values()}
        self.version += 1
        there = {key: one for key, one in self.examples.items() if key not in set(remove)}
        every_example = sorted([*there.items(), *come.items()], key=lambda item: item[1].time)
        if self.max_age_seconds is not None:
            every_example = [item for item in every_example if item[1].time >= now - self.max_age_seconds]
        if self.max_examples is not None:
            every_example = every_example[max(0, len(every_example) - self.max_examples) :]
        self.examples = dict(every_example)
        self.next_key = max([self.next_key, *(key + 1 for key in come if isinstance(key, int))])
        for key in there.keys() & self.examples.keys():
            one = self.examples[key]
            one.y = relabel.get(key, one.y)
            one.weight = reweight.get(key, one.weight * decay)
        self.C = self.C if C is None else C
        labels = {come[key].y for key in come if key in self.examples}
        labels |= {y for key, y in relabel.items() if key in self.examples}
        self._know(labels, before)
        if self.on_scale is None and self.examples and come.keys() & self.examples.keys():
            self.rescale()

    def _know(self, labels: set[Label], before: set[Label]) -> None:
        if not labels <= SIGNS and self.known == SIGNS and len(before) == 1:
            self.known = set(before)  # of -1 and 1 the one without examples was no class
        self.known |= SIGNS if labels and not self.known and labels <= SIGNS else labels

    def rescale(self) -> None:
        """Fit the scale of features to the window as it is."""
        X, weights = self.X, np.array([one.weight for one in self.examples.values()])
        self.on_scale = feature_scale.fitted(self.scale, X, weights)

    # -- what the model is then ----------------------------------------------------------------------------------------

    @property
    def X(self) -> NDArray[np.float64]:
        """Features (n, d) as they came."""
        return np.array([one.x for one in self.examples.values()])

    @property
    def counts(self) -> list[tuple[Label, int]]:
        """How many examples each class has, by label."""
        labels = [one.y for one in self.examples.values()]
        return [(label, labels.count(label)) for label in sorted(self.known)]

    def weight_of(self, label: Label) -> float:
        """Return what the weights of a class are multiplied by."""
        if self.class_weight == "balanced":
            counts = dict(count for count in self.counts if count[1])
            return len(self.examples) / (len(counts) * counts[label])
        return float((self.class_weight or {}).get(str(label), 1.0))

    def pairs(self, probe: NDArray[np.float64]) -> dict[tuple[Label, Label], tuple[NDArray[np.float64], bool]]:
        """Return the decisions from nothing of every pair, positive for its first class, and whether they are fixed.

        The optimum is judged by the oracle. Where no example is on the margin, decisions may have any intercept of a
        range.
        """
        X, scale = self.X, self.on_scale
        X, probe = (X, probe) if scale is None else (scale.apply(X), scale.apply(probe))
        y = np.array([one.y for one in self.examples.values()])
        costs = np.array([one.weight * self.weight_of(one.y) for one in self.examples.values()])
        present = [label for label, n in self.counts if n]
        return {(a, b): self._pair(X, y, costs, probe, (a, b)) for a, b in combinations(present, 2)}

    def _pair(self, X: Any, y: Any, costs: Any, probe: Any, two: tuple[Label, Label]) -> tuple[Any, bool]:
        indices = np.isin(y, two)
        signs = np.where(y[indices] == two[0], 1, -1)
        name, *others = self.kernel["name"], self.kernel.get("degree", 3), self.kernel.get("coef0", 0.0)
        kernel = oracle.Kernel(name, self.kernel["gamma"], *others)
        model = IncrementalSVC(
            self.C, name, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0,
            fit_intercept=self.fit_intercept, classes=(-1, 1),
        )  # fmt: skip
        model.update(add=(X[indices], signs), sample_weight=costs[indices])
        losses = oracle.hinge(signs, self.C, costs[indices], fit_intercept=self.fit_intercept)
        beta, K = model.window_coefficients, kernel(X[indices], X[indices])
        assert oracle.gap(K, losses, beta, float(model.intercept_[0])).relative <= 1e-8
        inside = np.minimum(beta - losses.lower, losses.upper - beta)
        sure = bool((inside > SURE * (losses.upper - losses.lower)).any()) or not self.fit_intercept
        return model.decision_function(probe), sure
