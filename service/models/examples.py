"""Pages of the examples in a model's window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from livesvm.service.models.arrays import Key, Rows, Tags, Targets, Vector
from livesvm.service.models.state import ModelState
from livesvm.solvers.errors import UnknownKey
from livesvm.solvers.sparse import SparseRows, dense

Side = Literal["free", "bound", "none"]
SIDES: tuple[Side, ...] = get_args(Side)
"""On the margin, with a coefficient between its bounds; at a bound; with coefficient 0."""


@dataclass(frozen=True)
class WantedExamples:
    """A selection of examples: by ``keys``, each a text or a whole number as text, or a page of all examples.

    Parameters
    ----------
    offset : how many of the oldest examples are skipped
    limit : most examples of the page; None: all
    """

    keys: Sequence[str] | None = None
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class WindowPage:
    """Some examples of a window, oldest first: features (m, d), dense or sparse, and other columns (m,).

    ``times`` are in Unix seconds: the time that the client gave for each example, or else the example's arrival.

    Targets are words if the model's labels are words. With more than two classes, an example has one coefficient for
    each class but its own, in the order of classes, (m, n_classes - 1).

    ``n_examples`` is the number of examples in the window of this ``version``. ``next`` is the offset of the next page,
    or None on the last page. ``side`` has indices into :data:`SIDES`. ``outlier`` is True for examples that a robust
    model treats as outliers.
    """

    version: int
    n_examples: int
    next: int | None
    keys: list[Key]
    X: Rows
    y: Targets
    weights: Vector
    times: Vector
    side: np.ndarray[tuple[int], np.dtype[np.int8]]
    coefficient: Vector
    outlier: np.ndarray[tuple[int], np.dtype[np.bool_]]
    tags: Tags = field(default_factory=list)
    rows: list[dict[str, Any]] | None = None  #: rows by name of a model with columns; None: the model has no columns


def page_of(state: ModelState, wanted: WantedExamples) -> WindowPage:
    """Return the selected examples of a model; raises UnknownKey."""
    arrivals = state.window.arrivals
    n = len(arrivals)
    if not n:
        _places([], wanted.keys or ())
        width, none = state.window.n_features or 0, np.empty(0)
        X = SparseRows.empty(0, width) if state.window.is_sparse else np.empty((0, width))
        sides, is_outlier = np.empty(0, np.int8), np.empty(0, np.bool_)
        return WindowPage(state.version, 0, None, [], X, none, none, none, sides, none, is_outlier)
    keys = list(arrivals)
    end = n if wanted.limit is None else min(n, wanted.offset + wanted.limit)
    places = np.arange(min(n, wanted.offset), end) if wanted.keys is None else _places(keys, wanted.keys)
    estimator = state.estimator
    named = [keys[place] for place in places.tolist()]
    place_of = {key: place for place, key in enumerate(estimator.keys_)}  # in the order of their arrival
    places = np.array([place_of[key] for key in named], np.int64)
    coefficient, is_free = estimator.window_coefficients[places], estimator.window_is_free[places]
    has_one = (coefficient != 0.0) if coefficient.ndim == 1 else (coefficient != 0.0).any(axis=1)
    robust = estimator.robustness()
    outliers = {} if robust is None else robust.outliers
    return WindowPage(
        state.version,
        n,
        end if wanted.keys is None and end < n else None,
        named,
        estimator.window_features[places],
        _numbers(estimator.window_y[places]),
        estimator.window_sample_weight[places],
        np.array([arrivals[key] for key in named]),
        np.where(is_free, 0, np.where(has_one, 1, 2)).astype(np.int8),
        coefficient,
        np.array([key in outliers for key in named], np.bool_),
        [list(state.window.tags.get(key, ())) for key in named],
        estimator.columns_.rows(dense(estimator.window_features)[places]) if estimator.columns is not None else None,
    )


def _numbers(y: Targets) -> Targets:
    return y if y.dtype.kind == "U" else y.astype(np.float64)


def _places(keys: list[Key], wanted: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the sorted indices of the keys' examples in the window; raises UnknownKey."""
    place = {key: at for at, key in enumerate(keys)}
    found: set[int] = set()
    for row, text in enumerate(wanted):
        names: list[Key] = [text, int(text)] if text.isascii() and text.isdigit() and len(text) <= 16 else [text]
        there = [place[name] for name in names if name in place]
        if not there:
            raise UnknownKey(f"key {text[:128]!r} is not in the window", field="keys", row=row)
        found.update(there)
    return np.array(sorted(found), np.int64)
