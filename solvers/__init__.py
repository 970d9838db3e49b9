"""Exact online solvers for support vector machines: arrays in, arrays out."""

from solvers.certificate import Certificate
from solvers.estimators import IncrementalSVC, UpdateReport
from solvers.predictor import Predictor
from solvers.warm import warm_up

__all__ = ["Certificate", "IncrementalSVC", "Predictor", "UpdateReport", "warm_up"]
