"""Live support vector machines: exact online learning, and a service around it.

``livesvm.solvers`` and ``livesvm.service`` are installed in this folder. In the source tree they are the two folders
next to it, with links here for the tools that need them. Names that users of the solvers import are loaded when they
are first asked for, so that ``livesvm.client`` loads no solver.
"""

import gc
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livesvm.solvers import *

if not os.path.isdir(os.path.join(os.path.dirname(__file__), "solvers")):  # a source tree without links
    __path__.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

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


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("livesvm")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # loading makes no garbage, and to look for it would take a fifth of the time
    try:
        return getattr(import_module("livesvm.solvers"), name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
