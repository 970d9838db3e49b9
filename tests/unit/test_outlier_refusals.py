"""Outlier paths: what cannot be one is refused, what is a single model says so, progress is reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import Cancelled, InvalidInput
from tests.support.outlier_paths import PARAMETERS, decisions, labelled


def test_nothing_misclassified_is_a_path_of_one_model() -> None:
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    model = IncrementalSVC(C=10.0, kernel="linear").fit(X, y)
    for parameter in PARAMETERS:
        path = model.outlier_path(parameter)
        assert "no example is beyond" in path.note
        assert path.breakpoints == []
        assert path.order_of_outliers() == []
        np.testing.assert_allclose(decisions(path.at(0.0), X), decisions(model, X), atol=1e-12)
    line = IncrementalSVR(C=1e3, epsilon=0.1, kernel="linear").fit(X, X[:, 0])
    assert "no example is beyond" in line.outlier_path("s").note


def test_residuals_of_rounding_are_no_outliers() -> None:
    X = np.random.default_rng(0).normal(size=(20, 40))
    y = X[:, 0] + np.where(np.arange(20) < 2, 10.0, 0.0)
    model = IncrementalSVR(C=1e3, loss="absolute", kernel="linear").fit(X, y)
    assert np.abs(model.predict(X) - y).max() <= 1e-9
    for parameter in PARAMETERS:
        path = model.outlier_path(parameter)
        assert "no example is beyond" in path.note
        assert path.fixed == pytest.approx(1e-6 * np.abs(y).max()) if parameter == "theta" else path.fixed == 0.0


@pytest.mark.parametrize("theta", [-0.1, 1.1, np.nan, "much"])
def test_theta_outside_its_range_is_refused(theta: Any) -> None:
    X, y, _ = labelled(40)
    model = IncrementalSVC().fit(X, y)
    with pytest.raises(InvalidInput, match=r"theta: must lie in \[0, 1\]"):
        model.outlier_path("theta", theta=theta)
    with pytest.raises(InvalidInput, match="theta: "):
        model.outlier_path("theta").at(theta)


def test_what_cannot_be_a_path_is_refused() -> None:
    X, y, _ = labelled(40)
    model = IncrementalSVC().fit(X, y)
    with pytest.raises(InvalidInput, match=r"s: a margin .* is not positive, but s is 0\.5"):
        model.outlier_path("s", s=0.5)
    with pytest.raises(InvalidInput, match="there is no path"):
        model.outlier_path("theta", theta=1.0)
    with pytest.raises(InvalidInput, match='must be "theta" or "s"'):
        model.outlier_path("gamma")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="s: the path runs from"):
        model.outlier_path("s").at(0.1)
    regressor = IncrementalSVR(loss="absolute").fit(X, y)
    for s in (0.0, -1.0):
        with pytest.raises(InvalidInput, match=r"s: a residual .* is larger than zero"):
            regressor.outlier_path("theta", s=s)
    with pytest.raises(InvalidInput, match=r"larger than epsilon, 0\.1"):
        IncrementalSVR(epsilon=0.1).fit(X, y).outlier_path("s", s=0.05)
    with pytest.raises(InvalidInput, match="no robust losses"):
        IncrementalOneClassSVM().fit(X).update(robust=model.outlier_path("s").robustness(0.0))


class Told:
    """Hears of progress."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def __call__(self, done: int, of: int) -> bool:
        assert of == 1000
        self.heard.append(done)
        return True


def test_progress_is_reported_and_can_cancel() -> None:
    X, y, _ = labelled()
    model = IncrementalSVC(C=1.0, kernel="linear").fit(X, y)
    for parameter in PARAMETERS:
        reported = Told()
        model.outlier_path(parameter, progress=reported)
        assert reported.heard == sorted(reported.heard)
        assert reported.heard[-1] == 1000
        with pytest.raises(Cancelled):
            model.outlier_path(parameter, progress=lambda done, of: done == 0)
