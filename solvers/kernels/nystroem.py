"""A map to D features with products that approximate a kernel, by D landmarks [Williams & Seeger 2001].

With L the Cholesky factor of the landmarks' kernel matrix, ``map(x) = L^-1 (k(z_1, x), ..., k(z_D, x))``: the kernel
function of x is projected onto those of the landmarks, and ``k(x, x) - |map(x)|^2 >= 0`` is its squared distance from
the projection. A model applies the map to features as it applies a ``models.feature_scale``, and uses a linear kernel
of the D mapped features.

Landmarks are pivots of a Cholesky factorization among candidates, which are spread evenly over the first examples.
Pivots are never equal to each other, and choosing them needs no random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.compile import compiled_allocating, compiled_in_order
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense, like

CANDIDATES = 2  #: examples that are searched for each landmark
LEAST = 1e-8  #: part of the largest k(x, x): an example of which less is left is no landmark
TILE = 128  #: examples that are mapped at once: with some hundred landmarks they stay near the processor
SETTLED = 2  #: a map is final when it was fitted to this many examples for each landmark


@dataclass(frozen=True)
class Nystroem:
    """A map to features with products that approximate ``kernel``, made of D landmarks.

    Attributes
    ----------
    kernel : Kernel
        The whole kernel.
    scale : FeatureScale, TableEncoding or None
        What rows go through first.
    landmarks : ndarray, shape (D, d)
        Rows as they came.
    components : int
        The most landmarks that were asked for.
    fitted : int
        Number of the examples that landmarks were chosen from.
    factor : ndarray, shape (D, D)
        Lower Cholesky factor of the landmarks' kernel matrix.
    points : ndarray, shape (D, d)
        Landmarks on the scale.
    """

    kernel: Kernel
    scale: Any
    landmarks: Floats
    components: int
    fitted: int
    factor: Floats
    points: Floats
    kind = "components"

    @property
    def width(self) -> int:
        """How many numbers a row has before it is mapped."""
        return int(self.landmarks.shape[1])

    @property
    def is_settled(self) -> bool:
        """Whether the landmarks are final, because they were chosen from enough examples."""
        return self.fitted >= SETTLED * self.components

    @property
    def columns(self) -> Any:
        """The columns, if rows are those of a table; None if rows are numbers."""
        return None if self.scale is None else self.scale.columns

    def with_columns(self, columns: Any) -> Nystroem:
        """Return this map with other ``columns``, which may have more words."""
        return replace(self, scale=self.scale.with_columns(columns))

    def read(self, X: Any) -> Floats:
        """Return rows of a table as numbers, (m, p); raises InvalidInput, which names row and column."""
        found: Floats = self.scale.read(X)
        return found

    def scaled(self, X: Features) -> Floats:
        """Return the features (m, d) of rows (m, p) for the kernel that is approximated: scaled and dense."""
        return np.ascontiguousarray(dense(like(X, False)) if self.scale is None else self.scale.apply(X))

    def apply(self, X: Features) -> Floats:
        """Return the mapped features (m, D) of rows (m, p)."""
        rows = self.scaled(X)
        out = np.empty((len(rows), len(self.landmarks)))
        for start in range(0, len(rows), TILE):
            check()
            part = slice(start, start + TILE)
            values = self.kernel.matrix(self.points, np.ascontiguousarray(rows[part].T))
            _solve(self.factor, values)
            out[part] = values.T
        return out

    def left_out(self, X: Features) -> Floats:
        """Return ``1 - |map(x)|^2 / k(x, x)`` for each row x of ``X`` (m, p), as (m,); 0 where k(x, x) is 0."""
        mapped, own = self.apply(X), self.kernel.diagonal(self.scaled(X))
        has = np.einsum("ij,ij->i", mapped, mapped)
        return np.where(own > 0.0, np.maximum(1.0 - has / np.where(own > 0.0, own, 1.0), 0.0), 0.0)

    def is_of(self, X: Features, weights: Floats) -> bool:
        """Return whether each landmark is a row of ``X`` (m, p), and the scale, if any, was fitted to ``X``."""
        if self.scale is not None and not self.scale.is_of(X, weights):
            return False
        here = {row.tobytes() for row in np.ascontiguousarray(dense(like(X, False))) + 0.0}
        return all(row.tobytes() in here for row in self.landmarks)

    def to_arrays(self) -> dict[str, Any]:
        """Return the arrays from which a checkpoint restores the map."""
        kept: dict[str, Any] = {} if self.scale is None else self.scale.to_arrays()
        return kept | {"landmarks": self.landmarks, "landmarks_of": np.array([self.components, self.fitted])}


@dataclass(frozen=True)
class ProjectedKernel(Kernel):
    """The products of mapped features: a linear kernel, which has the gamma of the kernel that it approximates."""

    is_projected = True


def fitted(kernel: Kernel, scale: Any, X: Features, components: int) -> Nystroem:
    """Return the map of rows ``X`` (n, p) with up to ``components`` landmarks among them.

    Raises
    ------
    InvalidInput : the kernel is not always positive, or is 0 for every row
    """
    if not kernel.always_positive or kernel.gram is not None:
        raise InvalidInput("need a kernel of features that is always positive", field="components")
    rows = np.ascontiguousarray(dense(like(X, False))) + 0.0
    at = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), CANDIDATES * components)).astype(np.int64))
    candidates = rows[at] if scale is None else scale.apply(rows[at])
    chosen = at[np.sort(_pivots(kernel, np.ascontiguousarray(candidates), components))]
    return _of(kernel, scale, rows[chosen], components, len(rows))


def restored(kernel: Kernel, scale: Any, arrays: Mapping[str, Any]) -> Nystroem:
    """Return the map that a checkpoint holds."""
    components, of = np.asarray(arrays["landmarks_of"]).tolist()
    return _of(kernel, scale, np.asarray(arrays["landmarks"], np.float64), int(components), int(of))


def _of(kernel: Kernel, scale: Any, landmarks: Floats, components: int, of: int) -> Nystroem:
    points = np.ascontiguousarray(landmarks if scale is None else scale.apply(landmarks))
    factor = kernel.matrix(points, np.ascontiguousarray(points.T))
    _factorize(factor)
    return Nystroem(kernel, scale, landmarks, components, of, factor, points)


def _pivots(kernel: Kernel, X: Floats, most: int) -> Ints:
    """Return up to ``most`` pivots of a Cholesky factorization, (D,), each the largest remaining diagonal entry."""
    left = kernel.diagonal(X)
    least = LEAST * left.max(initial=0.0)
    XT, columns, found = np.ascontiguousarray(X.T), np.empty((min(most, len(X)), len(X))), list[int]()
    while len(found) < len(columns):
        i, k = int(left.argmax()), len(found)
        if not left[i] > least:
            break
        check()
        columns[k] = kernel.matrix(X[i : i + 1], XT)[0]
        _take_out(columns, k, i, left[i])
        left -= np.square(columns[k])
        left[i] = -np.inf
        found.append(i)
    if not found:
        raise InvalidInput("the kernel of every example is 0", field="components")
    return np.array(found, np.int64)


@compiled_in_order
def _take_out(columns: Floats, k: int, i: int, left: float) -> None:
    """Turn the kernel row ``columns[k]`` of the pivot ``i`` into column k of the Cholesky factor."""
    row = columns[k]
    for j in range(k):
        c, other = columns[j, i], columns[j]
        for m in range(row.size):
            row[m] -= c * other[m]
    root = np.sqrt(left)
    for m in range(row.size):
        row[m] /= root


@compiled_in_order
def _factorize(K: Floats) -> None:
    """Replace a positive definite matrix by its lower Cholesky factor, in one fixed order of sums."""
    for i in range(len(K)):
        for j in range(i + 1):
            total = K[i, j]
            for k in range(j):
                total -= K[i, k] * K[j, k]
            if i == j:
                K[i, i] = np.sqrt(max(total, 1e-300))
            else:
                K[i, j] = total / K[j, j]
        K[i, i + 1 :] = 0.0


@compiled_in_order
def _solve(factor: Floats, values: Floats) -> None:
    """Replace ``values`` (D, m) by ``factor^-1 values``; the result for a column does not depend on the others."""
    for i in range(len(factor)):
        row, k = values[i], 0
        while k + 4 <= i:
            a0, a1, a2, a3 = factor[i, k], factor[i, k + 1], factor[i, k + 2], factor[i, k + 3]
            x0, x1, x2, x3 = values[k], values[k + 1], values[k + 2], values[k + 3]
            for j in range(row.size):
                row[j] = row[j] - a0 * x0[j] - a1 * x1[j] - a2 * x2[j] - a3 * x3[j]
            k += 4
        while k < i:
            a, x = factor[i, k], values[k]
            for j in range(row.size):
                row[j] -= a * x[j]
            k += 1
        a = factor[i, i]
        for j in range(row.size):
            row[j] /= a


@compiled_allocating
def weights_of(XT: Floats, at: Ints, beta: Floats) -> Floats:
    """Return the sum of the columns ``at`` (n,) of ``XT`` (D, c) times ``beta`` (n,), added in this order, as (D,)."""
    out = np.zeros(XT.shape[0])
    for k in range(out.size):
        row, total = XT[k], 0.0
        for i in range(at.size):
            total += row[at[i]] * beta[i]
        out[k] = total
    return out
