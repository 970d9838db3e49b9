"""Time series as streams: the last seven rows of every column, and whether the target then rises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from livesvm.service.demo.data import fisher_river
from tests.oracle import Matrix, Vector

LAGS = 7


@dataclass(frozen=True)
class Stream:
    """Examples in the order in which they become known: ``X`` (n, d) in [0, 1], ``y`` (n,) in {-1, +1}."""

    name: str
    X: Matrix
    y: Vector


def lagged(name: str, values: Matrix, target: int, lags: int = LAGS) -> Stream:
    """Make a stream of a record (T, k): ``lags`` rows as features, each scaled to [0, 1] over the record.

    The label says whether column ``target`` is larger in the next row than in the last of the features; no
    change counts as no rise.
    """
    weeks = np.lib.stride_tricks.sliding_window_view(values, lags, axis=0)[:-1]
    X = weeks.transpose(0, 2, 1).reshape(len(weeks), -1)
    spread = X.max(axis=0) - X.min(axis=0)
    X = (X - X.min(axis=0)) / np.where(spread > 0, spread, 1.0)
    rises = values[lags:, target] > values[lags - 1 : -1, target]
    return Stream(name, np.ascontiguousarray(X), np.where(rises, 1.0, -1.0))


def fisher() -> Stream:
    """Return the Fisher River as the paper scales it: 1454 examples of 21 features [Karasuyama & Takeuchi, 4.2]."""
    record = fisher_river.load()
    return lagged("Fisher River", record.values, record.columns.index("flow_m3s"))


def from_file(path: Path, target: str, rows: int) -> Stream:
    """Read an archive of ``columns`` (k,) and ``values`` (T, k); use the first ``rows`` that are whole."""
    with np.load(path) as archive:
        columns = [str(name) for name in archive["columns"]]
        values = np.asarray(archive["values"], np.float64)
    if target not in columns:
        raise SystemExit(f"{path.name} has no column {target!r}; it has {', '.join(columns)}")
    whole = values[np.isfinite(values).all(axis=1)][:rows]
    return lagged(f"{path.stem}, {target}", whole, columns.index(target))
