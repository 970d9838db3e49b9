"""The scale of features as part of a model: fitted once, stored, and applied to all later features.

A model with columns has the encoding of a table instead, see ``tables.encoding``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, dense, like
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.encoding import TableEncoding

KINDS = ("none", "standard", "minmax", "robust")


@dataclass(frozen=True)
class FeatureScale:
    """The offset that is subtracted from each feature, and the factor by which the result is divided."""

    #: "standard": mean and standard deviation, rows weighted; "minmax": least value and range; "robust": median and
    #: the distance of the quartiles
    kind: str
    offset: Floats  #: (d,) in units of the features; a factor is never 0
    factor: Floats  #: (d,) in units of the features; a factor is never 0
    columns = None  #: rows are no table

    @property
    def width(self) -> int:
        """How many features a row has before it is scaled."""
        return self.offset.size

    def apply(self, X: Features) -> Floats:
        """Return features (m, d) scaled, as a dense array."""
        return np.ascontiguousarray((dense(like(X, False)) - self.offset) / self.factor)

    def is_of(self, X: Features, weights: Floats) -> bool:
        """Return whether this scale is the one that is fitted to features (m, d) with weights (m,)."""
        now = fitted(self.kind, dense(like(X, False)), weights) if len(X) else None
        return now is not None and np.array_equal([now.offset, now.factor], [self.offset, self.factor])

    def to_arrays(self) -> dict[str, Floats]:
        """Return the arrays from which a checkpoint restores this scale."""
        return {"scale_offset": self.offset, "scale_factor": self.factor}


def fitted(kind: Any, X: Floats, weights: Floats) -> FeatureScale | None:
    """Return the scale fitted to features ``X`` (n, d) with ``weights`` (n,); None if the scale is "none".

    Raises
    ------
    InvalidInput : there is no such kind, or the features are too large to be scaled
    """
    if kind not in KINDS:
        raise InvalidInput(f"must be one of {', '.join(KINDS)}, not {kind!r}", field="scale")
    if kind == "none":
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "standard":
            shares = weights if weights.any() else np.ones(len(X))
            offset = np.average(X, axis=0, weights=shares)
            factor = np.sqrt(np.average((X - offset) ** 2, axis=0, weights=shares))
            tiny = 10 * np.finfo(np.float64).eps * np.abs(offset)  # rounding of a constant
        elif kind == "minmax":
            offset = X.min(axis=0)
            factor, tiny = X.max(axis=0) - offset, np.zeros(X.shape[1])
        else:
            low, offset, high = np.percentile(X, (25, 50, 75), axis=0)
            factor, tiny = high - low, np.zeros(X.shape[1])
    if not (np.isfinite(offset).all() and np.isfinite(factor).all()):
        at = int(np.argmin(np.isfinite(offset) & np.isfinite(factor)))
        raise InvalidInput("is too large to be scaled in double precision", field="X", column=at)
    return FeatureScale(kind, np.asarray(offset), np.where(factor > tiny, factor, 1.0))


def kept(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a checkpoint that describes a scale; the part is empty if there is no scale."""
    names = ("scale_offset", "scale_factor", "encoding", "words", "landmarks", "landmarks_of", "basis")
    return {name: arrays[name] for name in names if name in arrays}


def restored(kind: str, arrays: Mapping[str, Any]) -> FeatureScale | TableEncoding | None:
    """Return the scale, or the encoding of a table, that a checkpoint holds; None if the checkpoint holds neither."""
    if "encoding" in arrays:
        return encoding.restored(arrays)
    if kind == "none" or "scale_offset" not in arrays:
        return None
    offset, factor = (np.asarray(arrays[name], np.float64) for name in ("scale_offset", "scale_factor"))
    return FeatureScale(kind, offset, factor)
