"""The encoding of a table: features that a model computes from columns; fitted once, and applied to all later rows.

The encoding replaces the scale (``models.feature_scale``) of models of plain numbers. Numbers, or their normal scores,
are scaled to the mean 0 and the standard deviation 1. Words, and numbers with few values, get one feature for each
frequent value; two different values are as far from each other as two numbers are on average. Times get features for
the hour, the weekday and the part of the year. A missing cell gets the mean. A column with missing cells at the time of
fitting also gets a feature that marks missing cells. A column's ``relevance`` multiplies squared distances in its
features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.tables.cells import distinct
from livesvm.solvers.tables.columns import TableColumn, TableColumns, given

Fitted = dict[str, list[float]]
MOST_WORDS = 64  #: of a column that have a feature each; others are like none of them
KNOTS = 200  #: of normal scores
DAY = 86400.0
PERIODS = (("hour", DAY, DAY / 2), ("weekday", 7 * DAY, 6 * DAY), ("year", 365.2425 * DAY, 200 * DAY))
"""Of the parts of a time: the name, the length in seconds, and what a window must span to have it."""


@dataclass(frozen=True)
class TableEncoding:
    """The columns of a table, with the numbers fitted to each column."""

    columns: TableColumns
    fitted: tuple[Fitted, ...]  #: of each column, numbers by name
    kind = "table"

    @property
    def width(self) -> int:
        """How many cells a row has before it is encoded."""
        return len(self.columns.each)

    @cached_property
    def places(self) -> Ints:
        """The index of the column from which each feature is computed, (d,)."""
        counts = [len(self._names(column, one)) for column, one in self._each]
        return np.repeat(np.arange(self.width), counts)

    @cached_property
    def feature_names(self) -> list[str]:
        """A name for each feature, (d,)."""
        return [name for column, one in self._each for name in self._names(column, one)]

    @property
    def _each(self) -> list[tuple[TableColumn, Fitted]]:
        return list(zip(self.columns.each, self.fitted, strict=True))

    def with_columns(self, columns: TableColumns) -> TableEncoding:
        """Return this encoding with the words of ``columns``."""
        return replace(self, columns=columns)

    def read(self, X: Any) -> Floats:
        """Return rows as numbers, (m, p); raises InvalidInput, which names row and column."""
        return self.columns.read(X)[1]

    def apply(self, X: Features) -> Floats:
        """Return the features (m, d) of rows as numbers (m, p)."""
        codes = np.asarray(dense(X))
        out = np.empty((len(codes), self.places.size))
        columns, features, offset, factor, own = self._steps
        plain = (codes[:, columns] - offset) / factor
        out[:, features] = np.where(plain == plain, plain, 0.0)
        for at, to, numbers in own:
            out[:, to] = _features(numbers, codes[:, at])
        return out if self._lengths is None else out * self._lengths

    @cached_property
    def _lengths(self) -> Floats | None:
        """The square root of each feature's relevance, (d,); None if all are 1."""
        relevance = np.array([column.relevance for column in self.columns.each])[self.places]
        return None if (relevance == 1.0).all() else np.sqrt(relevance)

    @cached_property
    def _steps(self) -> tuple[Ints, Ints, Floats, Floats, list[tuple[int, slice, dict[str, Floats]]]]:
        """The columns that are only scaled, their features, offsets and factors, (k,) each, and the other columns."""
        begins = np.searchsorted(self.places, np.arange(self.width + 1))
        plain = [at for at, one in enumerate(self.fitted) if one.keys() == {"offset", "factor"}]
        own = [
            (at, slice(begins[at], begins[at + 1]), {name: np.array(values) for name, values in one.items()})
            for at, one in enumerate(self.fitted)
            if one and at not in {*plain}
        ]
        offset, factor = (np.array([self.fitted[at][name][0] for at in plain]) for name in ("offset", "factor"))
        return np.array(plain, np.int64), begins[plain], offset, factor, own

    def is_of(self, X: Features, weights: Floats) -> bool:
        """Return whether fitting to exactly these rows (m, p) with these weights (m,) gives this encoding."""
        return len(X) > 0 and fitted(self.columns, dense(X), weights).fitted == self.fitted

    def to_arrays(self) -> dict[str, Any]:
        """Return the arrays from which a checkpoint restores the encoding."""
        words = self.columns.words
        return {
            "encoding": [column.document() | one for column, one in self._each],
            "words": [[code, words[code]] for code in sorted(words)],
        }

    def _names(self, column: TableColumn, one: Fitted) -> list[str]:
        if "values" in one:
            words = self.columns.words
            return [f"{column.name}={words.get(value, f'{value:g}')}" for value in one["values"]]
        own = [column.name] if "offset" in one else []
        own += [f"{column.name} {name} {side}" for name in one if name in _LENGTHS for side in ("sin", "cos")]
        return [*own, f"{column.name} is missing"] if "missing" in one else own


_LENGTHS = {name: length for name, length, _ in PERIODS}


def fitted(columns: TableColumns, codes: Floats, weights: Floats) -> TableEncoding:
    """Return the encoding fitted to rows as numbers (n, p) with ``weights`` (n,).

    Raises
    ------
    InvalidInput : nothing is left to learn from, as all columns are ignored, or hold nothing
    """
    shares = weights if weights.any() else np.ones(len(codes))
    each = tuple(_fitted(column, codes[:, at], shares) for at, column in enumerate(columns.each))
    out = TableEncoding(columns, each)
    if not out.places.size:  # as of a first row alone
        out = TableEncoding(columns, tuple(_constant(column, codes[:, at]) for at, column in enumerate(columns.each)))
    if not out.places.size:
        raise InvalidInput("has no cell that says anything: all are missing, or of columns that are ignored", field="X")
    return out


def _constant(column: TableColumn, codes: Floats) -> Fitted:
    """Return the encoding of a column that has one value in all rows; later rows may have other values."""
    values = distinct(codes)
    if column.encoding == "ignored" or not values.size:
        return {}
    if column.encoding == "one-hot":
        return {"values": values.tolist()}
    return {"offset": values[:1].tolist(), "factor": [abs(float(values[0])) or 1.0]}


def _fitted(column: TableColumn, codes: Floats, weights: Floats) -> Fitted:
    """Return the numbers fitted to one column by name; empty if the column is ignored or constant."""
    values = distinct(codes)
    is_there = codes == codes
    if column.encoding == "ignored" or values.size + (not is_there.all()) < 2:
        return {}
    if column.encoding == "one-hot":
        return {"values": _frequent(codes[is_there], values, weights[is_there])}
    if not values.size:
        return {}
    x, shares = codes[is_there], weights[is_there] if weights[is_there].any() else np.ones(int(is_there.sum()))
    out: Fitted = {}
    if column.encoding == "normal-scores" and values.size > 2:
        out |= _normal_scores(x, shares)
        scores = _scores(out, x)
    else:
        scores = x
    offset = float(np.average(scores, weights=shares))
    factor = float(np.sqrt(np.average((scores - offset) ** 2, weights=shares)))
    if factor > 10 * np.finfo(np.float64).eps * abs(offset):  # what is left of a constant
        out |= {"offset": [offset], "factor": [factor]}
    if column.kind == "time":
        span = values[-1] - values[0]
        out |= {name: [] for name, length, least in PERIODS if span >= least and np.unique(x % length).size > 1}
    return out if is_there.all() else out | {"missing": []}


def _frequent(codes: Floats, values: Floats, weights: Floats) -> list[float]:
    """Return the values that get a feature, ascending: the values with the largest total weight."""
    sums = np.bincount(np.searchsorted(values, codes), weights, values.size)
    kept = np.argsort(-sums, kind="stable")[:MOST_WORDS]
    found: list[float] = np.sort(values[kept]).tolist()
    return found


def _normal_scores(x: Floats, weights: Floats) -> Fitted:
    """Return knots of the piecewise-linear map from values to quantiles of the normal distribution."""
    from scipy.special import ndtri

    values, place = np.unique(x, return_inverse=True)
    sums = np.bincount(place, weights, values.size)
    values, sums = values[sums > 0], sums[sums > 0]
    middles = (np.cumsum(sums) - sums / 2) / sums.sum()
    if values.size > KNOTS:
        kept = np.unique(np.searchsorted(middles, np.linspace(middles[0], middles[-1], KNOTS)))
        values, middles = values[kept], middles[kept]
    return {"knots": values.tolist(), "scores": ndtri(middles).tolist(), "beyond": [float(np.std(x))]}


def _scores(one: Mapping[str, Any], x: Floats) -> Floats:
    """Return normal scores; beyond the first and last knot, scores change by 1 for each standard deviation."""
    knots, beyond = one["knots"], one["beyond"][0] or 1.0
    out = np.interp(x, knots, one["scores"])
    return np.asarray(out + (np.minimum(x - knots[0], 0.0) + np.maximum(x - knots[-1], 0.0)) / beyond)


def _features(one: Mapping[str, Any], codes: Floats) -> Floats:
    """Return the features (m, k) of the cells of one column."""
    if "values" in one:
        return np.asarray(codes[:, None] == one["values"], np.float64)
    out: list[Floats] = []
    if "offset" in one:
        x = _scores(one, codes) if "knots" in one else codes
        out.append((x - one["offset"][0]) / one["factor"][0])
    for length in [_LENGTHS[name] for name in one if name in _LENGTHS]:
        angle = 2.0 * np.pi * (codes % length) / length
        out += [np.sin(angle), np.cos(angle)]
    is_missing = codes != codes
    if out and is_missing.any():
        out = [np.where(is_missing, 0.0, feature) for feature in out]
    if "missing" in one:
        out.append(is_missing.astype(np.float64))
    return np.stack(out, axis=1) if out else np.empty((codes.size, 0))


def restored(arrays: Mapping[str, Any]) -> TableEncoding:
    """Return the encoding that the arrays of a checkpoint, or of a copy in memory, hold."""
    if isinstance(arrays["encoding"], TableEncoding):
        return arrays["encoding"]
    documents = [dict(one) for one in arrays["encoding"]]
    named = [{name: one.pop(name) for name in TableColumn._fields} for one in documents]
    words = {float(code): str(word) for code, word in arrays["words"]}
    columns = replace(given(named, "encoding"), words=words)
    return TableEncoding(columns, tuple({name: list(values) for name, values in one.items()} for one in documents))
