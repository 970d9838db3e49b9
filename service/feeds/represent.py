"""How raw features and targets become what models learn: changes or levels, standardized."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import Layout
from livesvm.service.feeds.spec import Represent

Floats = NDArray[np.float64]

MOVED = 2.0  #: by which factor the spread of what is learnt has to move for it to be scaled anew
TINY = 1e-9  #: a deviation below this share of the size of numbers is rounding


class Scale(NamedTuple):
    """What is subtracted, and divided by."""

    centre: Floats  #: of features, (d,)
    width: Floats  #: of features, (d,)
    middle: float  #: of targets: their median
    unit: float  #: of targets: their standard deviation
    spreads: tuple[float, float]  #: of targets and of levels, as they were


def represented(layout: Layout, represent: Represent, shared: Floats, own: Floats) -> Floats:
    """Return features (n, d) of raw rows, ``shared`` (n, s) and one step's ``own`` (n, o).

    But for "level" everything that is a level of the target, save the newest reading, is relative to that.
    """
    out = np.concatenate([shared, own], axis=1)
    if represent != "level":
        newest = shared[:, :1]
        out[:, 1 : layout.levels] -= newest
        out[:, layout.shared : layout.shared + len(layout.seasons)] -= newest
    return out


def reference(layout: Layout, represent: Represent, shared: Floats, own: Floats) -> Floats:
    """Return what targets of raw rows are relative to, (n,)."""
    if represent == "level":
        return np.zeros(len(shared))
    if represent == "seasonal-change" and layout.seasons:
        return own[:, 0]
    return shared[:, 0]


def spread(x: Floats) -> float:
    """Return the mean absolute deviation of ``x`` (n,) from its median: one outlier counts little."""
    return float(np.abs(x - np.median(x)).mean()) if x.size else 0.0


def fitted(X: Floats, y: Floats) -> Scale:
    """Return the scale of features ``X`` (n, d) and targets ``y`` (n,) in their units."""
    centre, width = X.mean(axis=0), X.std(axis=0)
    size = np.abs(X).max(axis=0, initial=0.0)
    unit = float(y.std())
    flat = unit <= TINY * float(np.abs(y).max(initial=0.0))
    return Scale(
        centre,
        np.where(width > TINY * size, width, np.where(size > 0.0, size, 1.0)),
        float(np.median(y)),
        float(np.abs(y).max(initial=0.0)) or 1.0 if flat else unit,
        (spread(y), spread(X[:, 0])),
    )


def has_moved(scale: Scale, y: Floats, levels: Floats) -> bool:
    """Say whether targets ``y`` (n,), or newest readings ``levels`` (n,), spread otherwise than when it was fitted."""
    for before, now in zip(scale.spreads, (spread(y), spread(levels)), strict=True):
        least, most = sorted((before, now))
        if most > MOVED * least and most > TINY * float(np.abs(levels).max(initial=0.0)):
            return True
    return False
