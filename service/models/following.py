"""Application of a command to an estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from livesvm.service.models.commands import Batch, Command, Edits, Outcome, Sizes
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.sparse import SparseRows, like, stacked

_VERBS = ("relabel", "reweight", "decay", "C", "robust")
"""What an estimator's update takes of edits."""


def window_after(model: LiveEstimator | None, command: Command, edits: Edits) -> Batch:
    """Return every example that a window holds after a command, in the order in which they came.

    None: there was no window.
    """
    leaving = set(command.remove)
    add, here = command.add, [] if model is None else model.keys_
    keys = [key for key in here if key not in leaving]
    parts = []
    if model is not None:
        stay = np.array([key not in leaving for key in here], dtype=bool)
        y, weights = model.window_y[stay], model.window_sample_weight[stay] * edits.decay
        y = np.array([edits.relabel.get(key, old) for key, old in zip(keys, y.tolist(), strict=True)])
        weights = [edits.reweight.get(key, old) for key, old in zip(keys, weights, strict=True)]
        parts.append((model.window_features[stay], y, np.array(weights, dtype=np.float64)))
    if add is not None:
        n = len(add.X)
        y = np.ones(n) if add.y is None else add.y
        parts.append((add.X, y, np.ones(n) if add.weights is None else add.weights))
    rows, y, weights = zip(*parts, strict=True)
    y, weights = np.concatenate(y), np.concatenate(weights)
    is_sparse = isinstance(rows[0], SparseRows)
    X = stacked([like(one, is_sparse) for one in rows])
    return Batch(X, y, keys + command.added, weights)


def follow(estimator: LiveEstimator, add: Batch | None, remove: list[Any], edits: Edits | None) -> Outcome:
    """Have an estimator follow the path of an update; raises SolverError with it as it was."""
    given = {} if edits is None else {name: getattr(edits, name) for name in _VERBS}
    if add is not None:
        given |= {"add": add.checked or (add.X, add.y), "keys": add.keys, "sample_weight": add.weights}
    report = estimator.update(remove=remove or None, **given)
    sizes = sizes_of(report)
    more = {"retrained": True} if report.retrained else {}
    if report.abandoned:
        more["abandoned"] = True
    return Outcome(sizes, int(report.events), float(report.seconds), int(report.changed), more)


def learnt(estimator: LiveEstimator, window: Batch, size: int) -> Outcome:
    """Return what came of learning examples from nothing, so many at a time."""
    outcome, events, seconds = Outcome(Sizes()), 0, 0.0
    for start in range(0, len(window.X), size):
        there = np.zeros(len(window.X), dtype=bool)
        there[start : start + size] = True
        outcome = follow(estimator, window.only(there), [], None)
        events, seconds = events + outcome.events, seconds + outcome.seconds
    return replace(outcome, events=events, seconds=seconds)


def sizes_of(report: UpdateReport) -> Sizes:
    """Return what is kept of a report; a gap that is not known yet is none."""
    gap = float(report.relative_gap)
    known = gap if np.isfinite(gap) else None
    return Sizes(report.n, report.n_free, report.n_bound, float(report.max_violation), known)
