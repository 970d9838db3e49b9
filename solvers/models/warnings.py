"""Warnings about data of a scale that keeps a kernel from learning."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.runtime.types import Bools, Floats
from livesvm.solvers.sparse import Features, SparseRows, columns_of

SAMPLE = 200  #: examples that are looked at
FLAT = 1e-3  #: kernel values of different examples that differ by no more are all the same
ALONE = 1e-3  #: part of its diagonal below which a kernel value makes two examples count as unrelated
MOST = 0.99  #: share of pairs of examples that must be unrelated
MOST_ALIKE = 0.9  #: share of pairs that must be alike: one example in twenty may be far from all others
LARGE_GAP = 1e-6  #: relative gap beyond which a model is not called exact
MANY, MOST_FREE = 1000, 0.5  #: in a window of at least MANY examples, the share on the margin that makes updates slow
ALL = 0.99  #: share of the features' variance from which a single feature decides alone


class ModelWarning(NamedTuple):
    """A warning about one condition."""

    #: "kernel_is_constant", "kernel_is_identity", "one_feature_decides", "gap_is_large" or "most_are_free"; of
    #: positive and unlabelled examples "nothing_is_flagged", "everything_is_flagged" or "waits"
    name: str
    message: str  #: the finding, and a remedy


def warnings_of(window: Any, scale: str) -> list[ModelWarning]:
    """Return the warnings about a window, from its gap, its sizes and the kernel values of some hundred examples."""
    gap = window.relative_gap
    found = [ModelWarning("gap_is_large", gap_message(gap))] if gap > LARGE_GAP else []
    return found + _of_sizes(window) + _of_scale(window, scale)


def _of_sizes(window: Any) -> list[ModelWarning]:
    """Return a warning if most examples of a window are on the margin, which makes updates slow."""
    n, n_free = (sum(map(attrgetter(what), window.problems.values())) for what in ("state.n", "n_free"))
    if n < MANY or n_free <= MOST_FREE * n:
        return []
    kernel, cure = window.kernel, "choose a smaller C"
    if kernel.has_gamma:
        cure += " or gamma"
    if kernel.always_positive and not (kernel.is_projected or kernel.gram is not None or window.is_sparse):
        cure += ", or components=300"
    reason = f"{n_free} of {n} examples are on the margin: an update takes about as long as training from nothing"
    return [ModelWarning("most_are_free", f"{reason}; {cure}")]


def gap_message(gap: float) -> str:
    """Return the message about a model with a larger duality gap than an exact solution has."""
    return (
        f"rounding leaves a relative gap of {gap:.0e}, not {LARGE_GAP:.0e}: scale the features, or choose a smaller C"
    )


def _of_scale(window: Any, scale: str) -> list[ModelWarning]:
    """Return warnings about the scale of a window's features."""
    kernel, keys = window.kernel, list(window.keys)
    if kernel.gram is not None or kernel.name == "linear" or len(keys) < 3:
        return []
    X = window.X
    X = X[np.unique(np.linspace(0, len(keys) - 1, SAMPLE).astype(np.int64))]
    found = _of_kernel(kernel, _different(X), is_scaled=scale != "none")
    if not found and scale == "none" and kernel.has_gamma:
        found = _of_features(X)
    return found


def _of_kernel(kernel: Any, X: Features, *, is_scaled: bool) -> list[ModelWarning]:
    """Return warnings about the kernel values of different examples."""
    if len(X) < 3:
        return []
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = kernel.matrix(X, columns_of(X))
        own = np.sqrt(np.abs(values.diagonal()))
        near = (values / np.outer(own, own))[~np.eye(len(X), dtype=np.bool_)]
    if not np.isfinite(near).all():
        return []
    if _are_most(near > 1 - FLAT, MOST_ALIKE) and np.quantile(near, 1 - MOST_ALIKE) > 1 - FLAT:
        reason = "nearly all examples look alike to the kernel: its values differ by less than a thousandth"
        cure = "remove outliers and rescale" if is_scaled else "set scale='standard'"
        return [ModelWarning("kernel_is_constant", f"{reason}; {_or_gamma(cure, kernel, 'larger')}")]
    if _are_most(np.abs(near) < ALONE, MOST) and np.quantile(np.abs(near), MOST) < ALONE:
        reason = "nearly all examples are strangers to each other: the model knows by heart what it has seen, no more"
        cure = "choose another kernel" if is_scaled else "set scale='standard'"
        return [ModelWarning("kernel_is_identity", f"{reason}; {_or_gamma(cure, kernel, 'smaller')}")]
    return []


def _are_most(which: Bools, share: float) -> bool:
    """Say whether at least about a ``share`` of ``which`` (m,) is True; this is quicker to compute than a quantile."""
    return bool(np.count_nonzero(which) >= share * which.size - 1)


def _or_gamma(cure: str, kernel: Any, which: str) -> str:
    """Return the remedy, with a change of gamma as an alternative for kernels of distances."""
    return f"{cure}, or set a {which} gamma" if kernel.is_of_distances else cure


def _of_features(X: Features) -> list[ModelWarning]:
    """Return warnings about the variances of features."""
    variances = _variances(X)
    total = float(variances.sum())
    varying = np.count_nonzero(variances)
    if varying < 2 or variances.max() <= ALL * total:
        return []
    column = int(variances.argmax())
    reason = f"feature {column} has {variances[column] / total:.3f} of the variance of all, so that it alone decides"
    return [ModelWarning("one_feature_decides", f"{reason}; set scale='standard'")]


def _different(X: Features) -> Features:
    """Return the distinct rows."""
    if not isinstance(X, SparseRows):
        return np.unique(X, axis=0)
    rows = [X[i : i + 1].packed() for i in range(len(X))]
    first = {row.indices.tobytes() + row.values.tobytes(): i for i, row in enumerate(rows)}
    return X[np.array(sorted(first.values()), np.int64)]


def _variances(X: Features) -> Floats:
    """Return the variance of each feature, (d,)."""
    if not isinstance(X, SparseRows):
        return np.asarray(X.var(axis=0))
    held, n = X.packed(), len(X)
    mean = np.bincount(held.indices, held.values, X.width) / n
    squares = np.bincount(held.indices, (held.values - mean[held.indices]) ** 2, X.width)
    return np.asarray((squares + (n - np.bincount(held.indices, minlength=X.width)) * mean**2) / n)
