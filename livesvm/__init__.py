"""Live support vector machines: exact online learning, and a service around it.

``livesvm.solvers`` and ``livesvm.service`` are the two folders beside this one. What users of the solvers import is
here by name and loaded when it is first asked for, so that ``livesvm.client`` loads no solver.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livesvm.solvers import *

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
    "PairwiseOutlierPath",
    "PairwiseRegularizationPath",
    "Predictor",
    "RegularizationPath",
    "TimeLimit",
    "Tuning",
    "UpdateReport",
    "cccp",
    "k_fold",
    "leave_one_out",
    "load_model",
    "save_model",
    "time_limit",
    "tune",
    "update_singly",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("livesvm")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("livesvm.solvers"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
