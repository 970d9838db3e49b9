"""Exact online solvers for support vector machines: arrays in, arrays out."""

from solvers.assessment import Assessment, k_fold, leave_one_out
from solvers.certificate import Certificate
from solvers.estimators import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from solvers.live_estimator import UpdateReport
from solvers.predictor import Predictor
from solvers.single import update_singly
from solvers.warm import warm_up

__all__ = [
    "Assessment",
    "Certificate",
    "IncrementalOneClassSVM",
    "IncrementalSVC",
    "IncrementalSVR",
    "Predictor",
    "UpdateReport",
    "k_fold",
    "leave_one_out",
    "update_singly",
    "warm_up",
]
