"""Windows in which most examples stand at a kink, as records of a river at low water do."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.homotopy.refresh import BLOCK, CLOSE

N, MOVED, SLIDES = 900, 30, 40


@pytest.mark.parametrize("gamma", [1e-5, 1e-6])
def test_many_slides_of_a_crowd_stay_optimal(gamma: float) -> None:
    rng = np.random.default_rng(3)
    count = N + MOVED * SLIDES
    X = np.round(rng.lognormal(-2.0, 1.0, size=(count, 2)), 2)
    y = np.where(rng.random(count) < 0.3, 1, -1)
    model = IncrementalSVC(C=0.1, kernel="rbf", gamma=gamma, classes=(-1, 1))
    model.update(add=(X[:N], y[:N]), keys=range(N))
    crowded = 0
    for first in range(0, MOVED * SLIDES, MOVED):
        new = slice(first + N, first + N + MOVED)
        model.update(add=(X[new], y[new]), keys=range(first + N, first + N + MOVED), remove=range(first, first + MOVED))
        window = slice(first + MOVED, first + MOVED + N)
        margins = y[window] * model.decision_function(X[window])
        crowded += int(np.count_nonzero(np.abs(margins - 1.0) < CLOSE)) > 2 * BLOCK
    assert crowded > SLIDES // 2
    assert model.certificate().relative_gap <= 1e-9
    assert model.certificate().max_violation <= 1e-9
