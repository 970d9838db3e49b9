"""A frozen predictor from a retraining: support vectors, dense or sparse, and coefficients for each pair of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import WRITTEN_OUT, PreparedRows, block
from livesvm.solvers.models.class_labels import exact_labels
from livesvm.solvers.models.pairs_predictor import PairsPredictor
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import as_scipy
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.encoding import TableEncoding

ROWS = 512  #: of X that are prepared at once for decisions, at most


class Trained(NamedTuple):
    """The result of the last retraining."""

    classes: NDArray[Any]  #: (k,) labels
    kernel: Kernel  #: kernel of the training
    X: Any  #: (s, d) dense or CSR, the support vectors of all pairs
    coefficients: Floats  #: (pairs, s) ``a_i y_i``, positive for the second class of a pair; absolute values sum to 1
    R: Floats  #: (pairs,) decisions are in its units
    relative_gap: float  #: the largest of all pairs
    age: int = 0  #: how often the known parts of g were updated, see ``frank_wolfe.problem.Known``
    names: Any = None  #: (s,) keys of the support vectors, or (s, ...) other names; None: not known
    origin: Mapping[str, Any] | None = None  #: data that the caller keeps with the training; None: not known
    scale: TableEncoding | None = None  #: of the rows of a table; X are their features

    @property
    def width(self) -> int:
        """How many numbers, or cells of a table, a row has."""
        return int(self.X.shape[1]) if self.scale is None else self.scale.width

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of class numbers, in the order of the coefficients."""
        return list(combinations(range(self.classes.size), 2))

    @property
    def held_bytes(self) -> int:
        """Bytes of the arrays."""
        X = (self.X.data, self.X.indices, self.X.indptr) if sparse.issparse(self.X) else (self.X,)
        names = 8 * len(self.names) if isinstance(self.names, list) else getattr(self.names, "nbytes", 0)
        return sum(int(array.nbytes) for array in (*X, self.coefficients, self.R)) + int(names)

    def to_arrays(self, place: Ints) -> dict[str, Any]:
        """Return the arrays of a checkpoint; ``place`` has each window example's index in the training, or -1."""
        found: dict[str, Any] = {
            "classes": self.classes.tolist(),
            "coefficients": self.coefficients,
            "R": self.R,
            "relative_gap": self.relative_gap,
            "age": self.age,
            "support_shape": list(self.X.shape),
        }
        found |= {} if self.names is None else {"names": self.names}
        found |= {} if self.origin is None else {"origin": dict(self.origin)}
        found |= {} if self.scale is None else self.scale.to_arrays()
        if sparse.issparse(self.X):
            parts = {"data": self.X.data, "indices": self.X.indices, "indptr": self.X.indptr}
            return found | {f"support_{name}": part for name, part in parts.items()}
        gone = np.setdiff1d(np.arange(self.X.shape[0]), place)
        return found | {"gone": gone, "support_X": self.X[gone]}  # the others are in the window

    @classmethod
    def from_arrays(cls, kernel: Kernel, arrays: Mapping[str, Any], X: Floats) -> Self:
        """Return the training that ``to_arrays`` describes; ``X`` (n, d) are the features of the window."""
        shape, place = tuple(arrays["support_shape"]), np.asarray(arrays["place"])
        support: Any
        if "support_data" in arrays:
            parts = tuple(arrays[f"support_{name}"] for name in ("data", "indices", "indptr"))
            support = sparse.csr_array(parts, shape=shape)
        else:
            support = np.empty(shape)
            there = np.flatnonzero(place >= 0)
            if there.size:  # an empty window does not know the number of features
                support[place[there]] = X[there]
            support[arrays["gone"]] = arrays["support_X"]
        coefficients, R = (np.asarray(arrays[name], np.float64) for name in ("coefficients", "R"))
        classes = exact_labels(arrays["classes"], np.array(arrays["classes"]), "classes")
        gap, age, names = float(arrays["relative_gap"]), int(arrays["age"]), arrays.get("names")
        scale = encoding.restored(arrays) if "encoding" in arrays else None
        return cls(classes, kernel, support, coefficients, R, gap, age, names, arrays.get("origin"), scale)

    def predictor(self) -> Predictor | PairsPredictor:
        """Return the frozen predictor: one decision function for two classes, else those of all pairs."""
        coefficients = self.coefficients / self.R[:, None]
        examples, X = None, self.X
        if sparse.issparse(X):
            examples = PreparedRows.of(self.kernel, X)
            if not sparse.issparse(examples.values):  # most entries are stored
                examples, X = None, X.toarray()
        support = np.empty((0, 0)) if examples is not None else np.ascontiguousarray(X.T)
        width = self.width
        if self.classes.size == 2:
            rest = support, coefficients[0], float(coefficients[0].sum()), width
            return (
                Predictor(self.kernel, *rest, scale=self.scale)
                if examples is None
                else SparsePredictor(self.kernel, *rest, examples=examples)
            )
        chosen = tuple(np.flatnonzero(row) for row in coefficients)
        rows = tuple(row[some] for row, some in zip(coefficients, chosen, strict=True))
        own = self.kernel, support, chosen, rows, coefficients.sum(axis=1), width, self.classes.size
        return (
            PairsPredictor(*own, scale=self.scale)
            if examples is None
            else SparsePairsPredictor(*own, examples=examples)
        )


@dataclass(frozen=True)
class SparsePredictor(Predictor):
    """The decision function of sparse support vectors, frozen."""

    examples: PreparedRows | None = None

    def validate(self, X: Any) -> Any:
        """Return rows after a check; rows of scipy are returned as they are."""
        return X if sparse.issparse(X) else super().validate(X)

    def decide(self, rows: Any) -> Floats:
        """Return f(x) for rows (m, d), dense or sparse, as (m,)."""
        found = _products(
            rows if sparse.issparse(rows) else as_scipy(rows),
            cast("PreparedRows", self.examples),
            self.coefficients[:, None],
        )
        return np.asarray(found[:, 0] + self.intercept)


@dataclass(frozen=True)
class SparsePairsPredictor(PairsPredictor):
    """The decision functions of several classes with sparse support vectors, frozen."""

    examples: PreparedRows | None = None

    @property
    def n_support(self) -> int:
        """Number of examples that are a support vector of some pair."""
        return cast("PreparedRows", self.examples).n

    def validate(self, X: Any) -> Any:
        """Return rows after a check; rows of scipy are returned as they are."""
        return X if sparse.issparse(X) else super().validate(X)

    def decide(self, rows: Any) -> Floats:
        """Return the decisions of all pairs for rows (m, d), dense or sparse; positive for the first class."""
        weights = np.zeros((self.n_support, len(self.chosen)))
        for q, (chosen, row) in enumerate(zip(self.chosen, self.coefficients, strict=True)):
            weights[chosen, q] = row
        X = rows if sparse.issparse(rows) else as_scipy(rows)
        return np.asarray(-(_products(X, cast("PreparedRows", self.examples), weights) + self.intercepts))


def _products(X: Any, support: PreparedRows, weights: Floats) -> Floats:
    """Return the products (m, p) of the kernel values of ``X`` (m, d) with support vectors and ``weights`` (s, p).

    Only rows of ``X`` are made dense, a few at a time; support vectors stay sparse, so that a single row is quick.
    """
    out = np.empty((X.shape[0], weights.shape[1]))
    each = max(1, min(ROWS, WRITTEN_OUT // max(1, X.shape[1], support.n)))
    for start in range(0, X.shape[0], each):
        part = PreparedRows.of(support.kernel, sparse.csr_array(X[start : start + each]), like=support)
        out[start : start + each] = block(part, support) @ weights
    return out
