"""Exact online solvers for support vector machines: arrays in, arrays out."""

from solvers.certificate import Certificate
from solvers.estimators import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from solvers.live_estimator import UpdateReport
from solvers.predictor import Predictor
from solvers.warm import warm_up

__all__ = [
    "Certificate",
    "IncrementalOneClassSVM",
    "IncrementalSVC",
    "IncrementalSVR",
    "Predictor",
    "UpdateReport",
    "warm_up",
]
