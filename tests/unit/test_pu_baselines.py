"""The baselines of learning from positive and unlabelled examples."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from tests import oracle
from tests.pu_baselines.elkan_noto import elkan_noto
from tests.pu_baselines.metrics import scores
from tests.pu_baselines.ramp import ramp_loss
from tests.pu_problems import two_clouds


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_the_ramp_loss_comes_to_a_local_optimum(name: Literal["linear", "rbf"]) -> None:
    P, U = two_clouds(0, 15, 80)
    prior, lam = 0.4, 0.003
    found = ramp_loss(Kernel(name, 0.5), P, U, prior, lam)
    assert (np.diff(found.objectives) <= 1e-9).all()
    X, y = np.vstack([P, U]), np.repeat([1.0, -1.0], [15, 80])
    K = np.asarray(oracle.Kernel(name, 0.5)(X, X), np.float64)
    z = y * (K @ found.beta + found.b)
    cost = 0.25 / lam * np.where(y > 0, 2 * prior / 15, 1 / 80)
    shifted = oracle.hinge(y, 1.0, cost)
    linear = np.where(z < -1, y * cost, 0.0)
    losses = oracle.Losses(shifted.kinks, shifted.slopes + linear[:, None], 0.0)
    gap = oracle.gap(K, losses, found.beta, found.b)
    assert gap.gap <= 1e-5 * max(1.0, abs(gap.primal))
    assert (z < -1).any()


def test_positives_are_labelled_as_often_as_the_classifier_says() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.4
    X = rng.normal(size=(2000, 2)) + np.where(y, 2.5, -2.5)[:, None]
    labelled = y & (rng.random(2000) < 0.3)
    model = elkan_noto(Kernel("rbf", 0.2), X[labelled], X[~labelled])
    assert model.c == pytest.approx(0.3, abs=0.05)
    assert scores(model.decision_function(X), y).f_measure > 0.97
    with pytest.raises(InvalidInput):
        elkan_noto(Kernel("linear"), X[:1], X)


def test_how_often_positives_are_labelled_is_judged_on_examples_that_were_held_out() -> None:
    """Of noise a classifier that has seen them would tell positives from the others."""
    X = np.random.default_rng(0).normal(size=(200, 5))
    assert elkan_noto(Kernel("rbf", 0.2), X[:60], X[60:]).c == pytest.approx(0.3, abs=0.1)
