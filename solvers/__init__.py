"""Exact online solvers for support vector machines: arrays in, arrays out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from livesvm.solvers.analyses.conformal import Conformal, conformal
from livesvm.solvers.analyses.drift.martingale import Alarm, DriftTest
from livesvm.solvers.analyses.drift.window import Drift, Remedy, before_learning, drift
from livesvm.solvers.analyses.leave_one_out.assessment import Assessment, k_fold, leave_one_out
from livesvm.solvers.analyses.leave_one_out.influence import DataValues, Influences, data_values, influences
from livesvm.solvers.analyses.one_at_a_time import update_singly
from livesvm.solvers.analyses.outlier.cccp import cccp
from livesvm.solvers.analyses.outlier.pairwise import PairwiseOutlierPath
from livesvm.solvers.analyses.regularization.optima import Best, ErrorCurve
from livesvm.solvers.analyses.regularization.pairwise import PairwiseRegularizationPath
from livesvm.solvers.analyses.regularization.path import RegularizationPath
from livesvm.solvers.analyses.suspects import SuspectedLabels, suspected_labels
from livesvm.solvers.analyses.tuning.automatic import TunedParameters
from livesvm.solvers.analyses.tuning.tune import Tuning, tune
from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import TimeLimit
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.runtime.interrupt import time_limit
from livesvm.solvers.warm_up import warm_up

if TYPE_CHECKING:
    from livesvm.solvers.estimators.files import load_model, save_model
    from livesvm.solvers.estimators.frank_wolfe import FrankWolfeSVC
    from livesvm.solvers.estimators.pu_classifier import PUClassifier
    from livesvm.solvers.estimators.scikit import (
        IncrementalOneClassSVM,
        IncrementalPUClassifier,
        IncrementalSVC,
        IncrementalSVR,
    )

__all__ = [
    "Alarm",
    "Assessment",
    "Best",
    "Certificate",
    "Conformal",
    "DataValues",
    "Drift",
    "DriftTest",
    "ErrorCurve",
    "FrankWolfeSVC",
    "IncrementalOneClassSVM",
    "IncrementalPUClassifier",
    "IncrementalSVC",
    "IncrementalSVR",
    "Influences",
    "PUClassifier",
    "PairwiseOutlierPath",
    "PairwiseRegularizationPath",
    "Predictor",
    "RegularizationPath",
    "Remedy",
    "SuspectedLabels",
    "TimeLimit",
    "TunedParameters",
    "Tuning",
    "UpdateReport",
    "before_learning",
    "cccp",
    "conformal",
    "data_values",
    "drift",
    "influences",
    "k_fold",
    "leave_one_out",
    "load_model",
    "save_model",
    "suspected_labels",
    "time_limit",
    "tune",
    "update_singly",
    "warm_up",
]

_WITH_SCIKIT_LEARN = {
    "FrankWolfeSVC": "frank_wolfe",
    "IncrementalOneClassSVM": "scikit",
    "IncrementalPUClassifier": "scikit",
    "IncrementalSVC": "scikit",
    "IncrementalSVR": "scikit",
    "PUClassifier": "pu_classifier",
    "load_model": "files",
    "save_model": "files",
}


def __getattr__(name: str) -> Any:
    """Import scikit-learn only once an estimator that needs it is used: without it a service starts twice as fast."""
    if name not in _WITH_SCIKIT_LEARN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"livesvm.solvers.estimators.{_WITH_SCIKIT_LEARN[name]}"), name)
    globals()[name] = found
    return found
