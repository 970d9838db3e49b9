"""Exact online solvers for support vector machines: arrays in, arrays out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from solvers.analyses.leave_one_out.assessment import Assessment, k_fold, leave_one_out
from solvers.analyses.one_at_a_time import update_singly
from solvers.analyses.outlier.cccp import cccp
from solvers.analyses.regularization.error_curve import Best, ErrorCurve
from solvers.analyses.regularization.path import RegularizationPath
from solvers.certificate import Certificate
from solvers.errors import TimeLimit
from solvers.models.predictor import Predictor
from solvers.models.report import UpdateReport
from solvers.runtime.interrupt import time_limit
from solvers.warm_up import warm_up

if TYPE_CHECKING:
    from solvers.estimators.pu_classifier import PUClassifier
    from solvers.estimators.scikit import (
        FrankWolfeSVC,
        IncrementalOneClassSVM,
        IncrementalPUClassifier,
        IncrementalSVC,
        IncrementalSVR,
    )

__all__ = [
    "Assessment",
    "Best",
    "Certificate",
    "ErrorCurve",
    "FrankWolfeSVC",
    "IncrementalOneClassSVM",
    "IncrementalPUClassifier",
    "IncrementalSVC",
    "IncrementalSVR",
    "PUClassifier",
    "Predictor",
    "RegularizationPath",
    "TimeLimit",
    "UpdateReport",
    "cccp",
    "k_fold",
    "leave_one_out",
    "time_limit",
    "update_singly",
    "warm_up",
]

_WITH_SCIKIT_LEARN = {
    "FrankWolfeSVC": "scikit",
    "IncrementalOneClassSVM": "scikit",
    "IncrementalPUClassifier": "scikit",
    "IncrementalSVC": "scikit",
    "IncrementalSVR": "scikit",
    "PUClassifier": "pu_classifier",
}


def __getattr__(name: str) -> Any:
    """Import scikit-learn with the first of its estimators: a service that has none starts in half the time."""
    if name not in _WITH_SCIKIT_LEARN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"solvers.estimators.{_WITH_SCIKIT_LEARN[name]}"), name)
    globals()[name] = found
    return found
