"""A map to D features with products that approximate a kernel, by landmarks [Williams & Seeger 2001].

With the eigenvectors U and the D largest eigenvalues V of the landmarks' kernel matrix, ``map(x) = V^-1/2 U' k(Z, x)``:
the kernel function of x is projected onto the D principal directions of the landmarks' kernel functions, and
``k(x, x) - |map(x)|^2 >= 0`` is its squared distance from the projection. A model applies the map to features as it
applies a ``models.feature_scale``, and uses a linear kernel of the D mapped features.

Landmarks are chosen among candidates, which are spread evenly over the first examples. The first D are pivots of a
Cholesky factorization: each candidate has a chance in proportion to what earlier pivots leave of k(x, x) [Chen et al.
2025]. The others are spread over what all these leave. Multiples of the golden ratio stand for random numbers, so the
same examples always give the same landmarks.
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

LANDMARKS, MORE = 4, 900  #: landmarks for each component, but not more than this beyond one each
CANDIDATES = 6000  #: examples among which landmarks are chosen, or as many as there may be landmarks
LEAST = 1e-8  #: part of the largest k(x, x), or eigenvalue: an example of which less is left is no landmark
TILE = 64  #: examples that are mapped at once: with a thousand landmarks they stay near the processor
GOLDEN = 0.6180339887498949  #: its multiples, less whole numbers, are spread evenly over 0 to 1
SETTLED = 2  #: a map is final when it was fitted to this many examples for each component


PRODUCTS = Kernel("linear")  #: a row's products do not depend on the other rows


@dataclass(frozen=True)
class Nystroem:
    """A map to D features with products that approximate ``kernel``, made of M landmarks.

    Attributes
    ----------
    kernel : Kernel
        The whole kernel.
    scale : FeatureScale, TableEncoding or None
        What rows go through first.
    landmarks : ndarray, shape (M, d)
        Rows as they came.
    components : int
        The most features that were asked for.
    fitted : int
        Number of the examples that landmarks were chosen from.
    basis : ndarray, shape (M, D)
        Coefficients of the landmarks' kernel functions in each feature.
    points : ndarray, shape (M, d)
        Landmarks on the scale.
    """

    kernel: Kernel
    scale: Any
    landmarks: Floats
    components: int
    fitted: int
    basis: Floats
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
        out, columns = np.empty((len(rows), self.basis.shape[1])), np.ascontiguousarray(self.points.T)
        for start in range(0, len(rows), TILE):
            check()
            part = slice(start, start + TILE)
            out[part] = PRODUCTS.matrix(self.kernel.matrix(rows[part], columns), self.basis)
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
        counts = np.array([self.components, self.fitted])
        return kept | {"landmarks": self.landmarks, "landmarks_of": counts, "basis": self.basis}


@dataclass(frozen=True)
class ProjectedKernel(Kernel):
    """The products of mapped features: a linear kernel, which has the gamma of the kernel that it approximates."""

    is_projected = True


def fitted(kernel: Kernel, scale: Any, X: Features, components: int) -> Nystroem:
    """Return the map of rows ``X`` (n, p) to up to ``components`` features, with landmarks among the rows.

    Raises
    ------
    InvalidInput : the kernel is not always positive, or is 0 for every row
    """
    if not kernel.always_positive or kernel.gram is not None:
        raise InvalidInput("need a kernel of features that is always positive", field="components")
    rows = np.ascontiguousarray(dense(like(X, False))) + 0.0
    most = min(len(rows), max(CANDIDATES, components + MORE))
    at = np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))
    candidates = np.ascontiguousarray(rows[at] if scale is None else scale.apply(rows[at]))
    landmarks = rows[at[_chosen(kernel, candidates, components)]]
    points = landmarks if scale is None else np.ascontiguousarray(scale.apply(landmarks))
    basis = _principal(kernel.matrix(points, np.ascontiguousarray(points.T)), components)
    return Nystroem(kernel, scale, landmarks, components, len(rows), basis, points)


def restored(kernel: Kernel, scale: Any, arrays: Mapping[str, Any]) -> Nystroem:
    """Return the map that a checkpoint holds."""
    components, of = np.asarray(arrays["landmarks_of"]).tolist()
    landmarks, basis = (np.ascontiguousarray(arrays[name], np.float64) for name in ("landmarks", "basis"))
    points = landmarks if scale is None else np.ascontiguousarray(scale.apply(landmarks))
    return Nystroem(kernel, scale, landmarks, int(components), int(of), basis, points)


def _chosen(kernel: Kernel, X: Floats, components: int) -> Ints:
    """Return the places of landmarks for so many features in ``X`` (m, d), ascending."""
    left = kernel.diagonal(X)
    least = LEAST * left.max(initial=0.0)
    XT, columns, found = np.ascontiguousarray(X.T), np.empty((min(components, len(X)), len(X))), list[int]()
    while len(found) < len(columns):
        left = np.where(left > least, left, 0.0)
        total, k = np.cumsum(left), len(found)
        if not total[-1] > 0.0:
            break
        check()
        i = int(np.searchsorted(total, total[-1] * (GOLDEN * (k + 1) % 1.0)))
        columns[k] = kernel.matrix(X[i : i + 1], XT)[0]
        _take_out(columns, k, i, left[i])
        left -= np.square(columns[k])
        left[i] = 0.0
        found.append(i)
    if not found:
        raise InvalidInput("the kernel of every example is 0", field="components")
    others = np.flatnonzero(left > least)
    if others.size > (more := min((LANDMARKS - 1) * components, MORE)):
        total = np.cumsum(left[others])
        others = others[np.unique(np.searchsorted(total, total[-1] * (np.arange(more) + 0.5) / more))]
    return np.sort(np.append(np.array(found, np.int64), others))


def _principal(K: Floats, most: int) -> Floats:
    """Return the eigenvectors (M, D) of a kernel matrix (M, M), largest first, over the roots of their eigenvalues."""
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1][:most], vectors[:, ::-1][:, :most]
    is_kept = values > LEAST * values[0]
    return np.ascontiguousarray(vectors[:, is_kept] / np.sqrt(values[is_kept]))


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
