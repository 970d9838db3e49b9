"""The start of the next training on a window that has slid: the last solution, without removed examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from livesvm.solvers.frank_wolfe.one_versus_one import PairProblem
from livesvm.solvers.frank_wolfe.problem import Known, Problem, rough_of
from livesvm.solvers.frank_wolfe.warm_start import carried
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.models.class_labels import are_among, places_of
from livesvm.solvers.models.large_predictor import Trained
from livesvm.solvers.models.pairs_predictor import by_other_class
from livesvm.solvers.models.sliding_window import NOWHERE, SlidingWindow
from livesvm.solvers.runtime.types import Floats, Ints


def coefficients_here(trained: Trained, w: SlidingWindow, q: int, slots: Ints, y: Floats) -> Floats:
    """Return the coefficients b, (m,), that the last training gave to examples of its pair ``q``, labelled ``y`` (m,).

    0 for examples that were not there, or had another label.
    """
    negative, positive = trained.pairs[q]
    held = (w.place[slots] != NOWHERE) & (w.taught[slots] == np.where(y > 0, positive, negative))
    return np.where(held, np.abs(trained.coefficients[q][w.place[slots]]) / trained.R[q], 0.0)


def signed_coefficients(trained: Trained | None, w: SlidingWindow) -> Floats:
    """Return the signed coefficients of the window's examples in the last training, (n,), oldest first.

    Of several classes (n, n_classes - 1): column r belongs to the pair with the r-th other class, positive for the
    first of the two.
    """
    place, taught = w.place[w.indices], w.taught[w.indices]
    if trained is None:
        return np.zeros(place.size)
    values = np.where(place == NOWHERE, 0.0, (trained.coefficients / trained.R[:, None])[:, place])
    if trained.classes.size == 2:
        return np.asarray(values[0])
    return by_other_class(values, taught, trained.classes.size)


def next_start(
    trained: Trained | None, w: SlidingWindow, pair: PairProblem, slots: Ints | None, labels: NDArray[Any]
) -> Known | None:
    """Return where the search for the pair of ``labels`` (2,) sets out; None: from nothing.

    Parameters
    ----------
    slots : (n,) of all examples in the window; None: they are not of it
    """
    if trained is None or slots is None or not are_among(labels, trained.classes).all():
        return None
    slots = slots[pair.indices]
    negative, positive = places_of(labels, trained.classes).tolist()
    q, problem = trained.pairs.index((negative, positive)), pair.problem
    b = coefficients_here(trained, w, q, slots, problem.y)
    if not b.any():
        return None
    if trained.kernel != problem.examples.kernel or sparse.issparse(trained.X):
        return Known(b, problem.parts(problem.examples, b))
    known = np.flatnonzero(w.taught[slots] == np.where(problem.y > 0, positive, negative))
    coefficients, rows = trained.coefficients[q], slots[known]
    gone = np.setdiff1d(np.flatnonzero(coefficients), w.place[rows])
    before = Problem(
        PreparedRows.of(trained.kernel, np.vstack([w.X[rows], trained.X[gone]])),
        np.concatenate([problem.y[known], np.sign(coefficients[gone])]),
        np.concatenate([w.costs[rows], np.ones(gone.size)]),
        problem.threads,
    )
    were = np.concatenate([b[known], np.abs(coefficients[gone]) / trained.R[q]])
    other = np.where(problem.y[known] > 0, negative, positive)
    parts = np.hstack([w.parts[:, other, rows], np.zeros((2, gone.size))])
    places = np.full(slots.size, NOWHERE)
    places[known] = np.arange(known.size)
    return carried(problem, before, Known(were, parts, trained.age, rough=rough_of(were, parts)), places)
