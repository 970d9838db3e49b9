"""scikit-learn's own checks over every estimator of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimators_data_not_an_array, estimator_checks_generator

from livesvm.solvers import FrankWolfeSVC, IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR

ESTIMATORS = [IncrementalSVC(), IncrementalSVR(), IncrementalOneClassSVM(), FrankWolfeSVC(tol=1e-10)]
ELSEWHERE = {
    "check_sample_weights_pandas_series": "needs pandas, which the project does not use",
    "check_classifier_data_not_an_array": "half of it needs pandas; the other half is called below",
    "check_regressor_data_not_an_array": "half of it needs pandas; the other half is called below",
    "check_array_api_input": "needs other array libraries; the estimators are NumPy's",
}


def name_of(check: Callable[..., None]) -> str:
    """Return the name of a check that has been given its arguments."""
    return str(getattr(check, "func", check).__name__)


def checks() -> list[Any]:
    """Return (estimator, check) of everything that applies, each with its name."""
    found = []
    for estimator in ESTIMATORS:
        for instance, check in estimator_checks_generator(estimator, mark=None):
            if name_of(check) not in ELSEWHERE:
                found.append(pytest.param(instance, check, id=f"{type(instance).__name__}-{name_of(check)}"))
    return found


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learn_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_data_need_not_be_an_array(estimator: BaseEstimator) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(20, 3))
    check_estimators_data_not_an_array(type(estimator).__name__, estimator, X, np.sign(X[:, 0]), "NotAnArray")


def test_what_is_not_checked_exists() -> None:
    names = {name_of(check) for each in ESTIMATORS for _, check in estimator_checks_generator(each, mark=None)}
    assert names >= ELSEWHERE.keys()
