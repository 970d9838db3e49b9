"""scikit-learn's own checks over every estimator of the package."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from solvers import IncrementalSVC

ESTIMATORS = [IncrementalSVC()]
EXCEPTIONS: dict[str, str] = {}  # name of a check -> why it cannot pass


def expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    """Return the checks that must fail, each with its reason."""
    return EXCEPTIONS


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)  # type: ignore[untyped-decorator]
def test_scikit_learn_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
