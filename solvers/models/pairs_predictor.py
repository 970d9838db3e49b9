"""A frozen model of several classes: the decisions of its pairs, their votes, and their certificates.

The decision of a pair is positive for its first class, as in libsvm and in ``SVC``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.certificate import Certificate
from livesvm.solvers.kernels.kernel import Kernel, times
from livesvm.solvers.models.feature_scale import FeatureScale
from livesvm.solvers.models.predictor import Gate, ReadsRows, blocks, kernel_values
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows
from livesvm.solvers.tables.encoding import TableEncoding

Two = tuple[int, int]


@dataclass(frozen=True)
class PairsCertificate(Certificate):
    """The certificates of all pairs: sums of objectives and gaps, and the largest violation and relative gap."""

    pairs: Mapping[Two, Certificate] = field(default_factory=dict)  #: certificate by pair of places in ``classes_``

    @property
    def worst(self) -> Two | None:
        """The pair with the largest relative gap; None if there are no pairs."""
        return max(self.pairs, key=lambda two: self.pairs[two].relative_gap, default=None)


@dataclass(frozen=True)
class RankCertificate(PairsCertificate):
    """The certificate of a model with components, for the approximate kernel that its landmarks define."""

    kernel: str = ""  #: the whole kernel
    components: int = 0  #: landmarks of the map
    #: share of the kernel's trace on the window that the map leaves out: 0 if both kernels are the same there
    left_out: float = 0.0


def summary(pairs: Mapping[Two, Certificate], n: int) -> PairsCertificate:
    """Return one certificate for a window of ``n`` examples, made of the certificates of its pairs."""
    each = list(pairs.values())
    return PairsCertificate(
        max_violation=max((one.max_violation for one in each), default=0.0),
        duality_gap=sum(one.duality_gap for one in each),
        relative_gap=max((one.relative_gap for one in each), default=0.0),
        primal=sum(one.primal for one in each),
        dual=sum(one.dual for one in each),
        n_examples=n,
        rounding=sum(one.rounding for one in each),
        pairs=pairs,
    )


@dataclass(frozen=True)
class PairsPredictor(ReadsRows):
    """Decision functions of all pairs at one moment; immutable, safe to share between threads."""

    kernel: Kernel
    #: (d, n_support) features of examples that are a support vector of some pair, transposed; of sparse ones rows; of
    #: the kernel "precomputed", (1, n_support) their places in the window
    support: Features
    chosen: tuple[Ints, ...]  #: for each pair, the places of its support vectors in ``support``
    coefficients: tuple[Floats, ...]  #: for each pair, the coefficients of these, positive for its second class
    intercepts: Floats  #: (n_pairs,)
    n_features: int | None
    n_classes: int
    scale: FeatureScale | TableEncoding | None = None  #: applied to features first
    gate: Gate | None = field(default=None, repr=False)  #: see ``Predictor``

    @property
    def n_support(self) -> int:
        """Number of examples that are a support vector of some pair."""
        return len(self.support) if isinstance(self.support, SparseRows) else int(self.support.shape[1])

    def decide(self, rows: Features | list[Any]) -> Floats:
        """Return the decisions of all pairs for rows (m, d) that are checked, as (m, n_pairs)."""
        if isinstance(rows, list):  # of objects
            return self.decision_function(rows)
        out = np.empty((rows.shape[0], len(self.chosen)))
        for part in blocks(rows, self.n_support):
            values = kernel_values(self.kernel, rows[part], self.support, self.scale)
            for q, (chosen, coefficients) in enumerate(zip(self.chosen, self.coefficients, strict=True)):
                mine = np.ascontiguousarray(np.take(values, chosen, axis=1))
                out[part, q] = -(times(mine, coefficients) + self.intercepts[q])
        return out

    def predict(self, X: ArrayLike | SparseRows) -> Ints:
        """Return the class with the most votes for each row, as an index into ``classes_``, (m,)."""
        return winners(self.decision_function(X), self.n_classes)


def winners(decisions: Floats, n_classes: int) -> Ints:
    """Return the class that wins most pairs, (m,), from ``decisions`` (m, n_pairs); of tied classes the first.

    This is the rule of libsvm, and so of scikit-learn's ``SVC``.
    """
    return np.asarray(_won(decisions, n_classes).argmax(axis=1), np.int64)


def by_other_class(rows: Floats, y: Ints, n_classes: int) -> Floats:
    """Return the coefficients ``rows`` (n_pairs, n) of pairs, rearranged as (n, n_classes - 1).

    Column r belongs to the pair of an example's own class and the r-th other class; its sign is positive for the pair's
    first class. The sign in ``rows`` is positive for the pair's second class; an example of neither class has the
    coefficient 0. ``y`` (n,) holds the class numbers of the examples.
    """
    out = np.zeros((y.size, n_classes - 1))
    for (a, b), row in zip(combinations(range(n_classes), 2), rows, strict=True):
        out[y == a, b - 1] = -row[y == a]
        out[y == b, a] = -row[y == b]
    return out


def scores(decisions: Floats, n_classes: int) -> Floats:
    """Return a score of each class, (m, n_classes), from ``decisions`` (m, n_pairs) of its pairs.

    The score is the number of pairs that the class wins, plus a number of less than 1/3 that grows with the sum of its
    decisions and so breaks ties: the "ovr" of scikit-learn.
    """
    sums = np.zeros((decisions.shape[0], n_classes))
    for q, (first, second) in enumerate(combinations(range(n_classes), 2)):
        sums[:, first] += decisions[:, q]
        sums[:, second] -= decisions[:, q]
    won = _won(decisions, n_classes, tie_to_first=True)
    return np.asarray(won + sums / (3.0 * (np.abs(sums) + 1.0)))


def _won(decisions: Floats, n_classes: int, *, tie_to_first: bool = False) -> Floats:
    """Return how many of its pairs each class wins, (m, n_classes)."""
    won = np.zeros((decisions.shape[0], n_classes))
    for q, (first, second) in enumerate(combinations(range(n_classes), 2)):
        is_first = decisions[:, q] >= 0 if tie_to_first else decisions[:, q] > 0
        won[:, first] += is_first
        won[:, second] += ~is_first
    return won
