"""Gaps where the optimum is next to 0: rounding alone is reported as little, and a wrong answer as wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC, IncrementalSVR
from livesvm.solvers.certificate import ROUNDING_COUNTS, certify, unit_of_gap
from livesvm.solvers.homotopy.optimality import ROUGH, audited
from tests import oracle

N, SLIDE, C = 600, 40, 100.0
X = np.random.default_rng(0).normal(size=(N + SLIDE, 4))
NEXT_TO_NOTHING: dict[str, np.ndarray] = {
    "constant": np.full(N + SLIDE, 5.0),
    "zero": np.zeros(N + SLIDE),
    "tiny": 1e-6 * X[:, 0],
    "nearly constant": 5.0 + 1e-6 * X[:, 0],
}
LOSSES: dict[str, dict[str, Any]] = {
    "absolute": {"epsilon": 0.0},
    "pinball": {"loss": "pinball", "quantile": 0.9},
    "tube": {"epsilon": 0.1},
}


def slid(y: np.ndarray, kernel: str = "rbf", **loss: Any) -> IncrementalSVR:
    model = IncrementalSVR(C=C, kernel=kernel, gamma=0.25, **loss).fit(X[:N], y[:N])
    assert model.certificate().relative_gap < 1e-7
    model.update((X[N:], y[N:]), remove=model.keys_[:SLIDE])
    return model


def wrong(model: Any, beta: np.ndarray, b: float) -> float:
    """Return the relative gap of other coefficients in the same window."""
    window = model._window
    state, slots = window.state, window.slots
    f = window.kernel_values(window.X) @ beta + b
    losses, diagonal = state.losses(slots), state.examples.diagonal[slots]
    return certify(losses, beta, f, b, diagonal, intercept=state.intercept).relative_gap


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("targets", NEXT_TO_NOTHING)
def test_what_is_as_good_as_double_precision_allows_is_certified(targets: str, loss: str) -> None:
    y = NEXT_TO_NOTHING[targets]
    model = slid(y, **LOSSES[loss])
    reported = audited(model._window.state).relative_gap
    assert max(reported, model.certificate().relative_gap) < 1e-7
    if loss == "absolute":
        np.testing.assert_allclose(model.predict(X[SLIDE:]), y[SLIDE:], atol=1e-12 + 1e-9 * float(np.ptp(y)))


@pytest.mark.parametrize("targets", ["constant", "zero", "nearly constant"])
def test_a_linear_kernel_is_certified_too(targets: str) -> None:
    assert slid(NEXT_TO_NOTHING[targets], "linear", epsilon=0.0).certificate().relative_gap < 1e-7


@pytest.mark.parametrize("targets", [name for name in NEXT_TO_NOTHING if name != "zero"])
def test_a_wrong_answer_is_reported_to_be_wrong(targets: str) -> None:
    """By the oracle too, whose sums run in extended precision."""
    y = NEXT_TO_NOTHING[targets][SLIDE:]
    model = slid(NEXT_TO_NOTHING[targets], epsilon=0.0)
    beta, b = model._window.beta, model._window.state.b
    K, losses = oracle.Kernel("rbf", 0.25)(X[SLIDE:], X[SLIDE:]), oracle.absolute(y, C)
    cost = C * float(np.abs(y).sum())
    scale = float(np.ptp(y)) or float(np.abs(y).max())
    for share in (1e-2, 1e-4):
        moved = b + share * scale
        found = oracle.gap(K, losses, beta, moved)
        assert wrong(model, beta, moved) >= 0.1 * float(found.gap) / cost
        assert wrong(model, beta, moved) > 1e-6
    other = beta.copy()
    other[:2] += np.array([1e-3, -1e-3]) * max(scale, 1e-3)
    assert wrong(model, other, b) > 100 * max(model.certificate().relative_gap, 1e-10)


def test_a_path_where_the_optimum_is_next_to_nothing_is_walked() -> None:
    for targets in ("constant", "tiny"):
        path = slid(NEXT_TO_NOTHING[targets], epsilon=0.0).regularization_path(1e-1, 1e3)
        assert (path.minimum, path.maximum, path.report.ended) == (1e-1, 1e3, ())
        assert path.report.relative_gap < 1e-7


def test_a_path_of_a_model_that_cannot_be_certified_begins_where_it_can() -> None:
    """With a linear kernel most coefficients are at C, whose rounding is more than can be reported of such targets."""
    with pytest.warns(RuntimeWarning, match="smaller C"):
        model = IncrementalSVR(C=C, kernel="linear", epsilon=0.0).fit(X, NEXT_TO_NOTHING["tiny"])
    path = model.regularization_path(1e-2, 1e3)
    assert path.minimum == 1e-2
    assert path.maximum < C
    assert [end.value for end in path.report.ended] == [path.maximum]


def test_the_unit_of_an_ordinary_gap_is_its_objective() -> None:
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0, 1, -1)
    for cost in (1e-2, 1.0, 1e3):
        model = IncrementalSVC(C=cost, gamma=0.25).fit(X, y)
        found = model.certificate()
        assert found.relative_gap == pytest.approx(found.duality_gap / max(found.primal, found.dual), rel=1e-12)
        audit = audited(model._window.state)
        assert audit.unit == audit.size


def test_rounding_excuses_a_gap_that_is_rough_at_most() -> None:
    state = slid(NEXT_TO_NOTHING["tiny"], epsilon=0.0)._window.state
    audit = audited(state)._replace(violation=0.0, size=1.0, unit=1.0, resolution=1.0)
    assert audit._replace(gap=0.9 * ROUGH).good(1e-8, roundings=64.0)
    assert not audit._replace(gap=1.1 * ROUGH).good(1e-8, roundings=64.0)
    assert not audit._replace(gap=0.9 * ROUGH, resolution=1e-9).good(1e-8, roundings=64.0)


def test_the_unit_is_no_more_than_the_zero_model_costs() -> None:
    assert unit_of_gap(1.0, 0.5, 0.0, 100.0) == 1.0
    assert unit_of_gap(1e-9, 1e-9, 1e-10, 100.0) == 1e-10 / ROUNDING_COUNTS
    assert unit_of_gap(1e-9, 1e-9, 1e10, 100.0) == 100.0
