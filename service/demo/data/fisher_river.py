"""The daily record of the Fisher River, and forecasting examples that are made from this record.

An example is the last seven days of flow, precipitation and temperature (21 numbers); its label says
whether the flow then rises (+1) or not (-1). 103 of the 1460 day-to-day changes are exactly zero: they count
as "not".
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

LAGS = 7


@dataclass(frozen=True)
class Series:
    """The daily record: ``dates`` (T,) ISO days without a gap, ``values`` (T, 3) in units of ``columns``."""

    dates: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """Examples, one a day, oldest first: ``dates`` (n,) to forecast, ``X`` (n, 21), ``y`` (n,) in {-1, +1}."""

    dates: tuple[str, ...]
    X: NDArray[np.float64]
    y: NDArray[np.float64]

    def __getitem__(self, part: slice) -> Examples:
        """Return the examples of a range of days."""
        return Examples(self.dates[part], self.X[part], self.y[part])

    def __len__(self) -> int:
        return len(self.dates)


def load() -> Series:
    """Read the shipped record: flow in m3/s, precipitation in mm, temperature in degrees Celsius.

    >>> series = load()
    >>> series.dates[0], series.dates[-1], series.values.shape
    ('1988-01-01', '1991-12-31', (1461, 3))
    """
    text = files(__package__).joinpath("fisher_river.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    values = np.array([[float(cell) for cell in row[1:]] for row in rows])
    return Series(dates=tuple(row[0] for row in rows), columns=tuple(header[1:]), values=values)


def examples(series: Series) -> Examples:
    """Turn the record into forecasting examples, with the flow on a logarithmic scale.

    >>> days = examples(load())
    >>> days.X.shape, days.dates[0], int((days.y > 0).sum())
    ((1454, 21), '1988-01-08', 563)
    """
    inputs = series.values.copy()
    inputs[:, 0] = np.log(inputs[:, 0])
    flow = series.values[:, 0]
    weeks = np.lib.stride_tricks.sliding_window_view(inputs, LAGS, axis=0)[:-1]
    X = np.ascontiguousarray(weeks.transpose(0, 2, 1).reshape(len(weeks), -1))
    y = np.where(flow[LAGS:] > flow[LAGS - 1 : -1], 1.0, -1.0)
    return Examples(dates=series.dates[LAGS:], X=X, y=y)


def scale_by(reference: Examples, days: Examples) -> Examples:
    """Scale each feature of ``days`` so that the values in ``reference`` span [0, 1]; later days may lie outside."""
    low, high = reference.X.min(axis=0), reference.X.max(axis=0)
    return Examples(days.dates, (days.X - low) / (high - low), days.y)
