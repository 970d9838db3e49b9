"""The scale of a regression's targets: f is learnt as the logarithm of y, and predictions are in units of y.

The window holds targets as they came. Losses, and so all paths and certificates, are on the scale that is learnt.
Analyses of a model with such a scale give numbers on it: an error of 0.1 is then about 10% of y.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Floats

KINDS = ("none", "log", "log1p")
SKEWED = 1.0  #: skewness of targets from which a scale is looked at


class OffScale(InvalidInput):
    """A target that the scale cannot represent."""


def learnt(kind: str, y: Floats, field: str = "y") -> Floats:
    """Return targets on the scale that is learnt.

    Parameters
    ----------
    kind : "none", "log" or "log1p"
    y : ndarray, shape (m,)
        Targets in their units; above 0 for "log", at least 0 for "log1p".
    field : how errors name them

    Raises
    ------
    OffScale : names the first row with another target
    """
    if kind == "none":
        return y
    if kind not in KINDS:
        raise InvalidInput(f"must be one of {', '.join(KINDS)}, or 'auto', not {kind!r}", field="target_scale")
    wrong = y <= 0.0 if kind == "log" else y < 0.0
    if wrong.any():
        row = int(np.argmax(wrong))
        least = "above 0" if kind == "log" else "0 or above"
        raise OffScale(f"must be {least} with target_scale={kind!r}, not {y[row]:g}", field=field, row=row)
    return np.asarray(np.log(y) if kind == "log" else np.log1p(y))


def in_units(kind: str, f: Floats) -> Floats:
    """Return values of f, of any shape, in units of y; their order, and so quantiles, stay the same."""
    with np.errstate(over="ignore"):
        return f if kind == "none" else np.asarray(np.exp(f) if kind == "log" else np.expm1(f))


def worth_a_try(y: Floats) -> str:
    """Return the scale that skewed targets without negative ones may be learnt on; "none" for all others."""
    least, deviation = float(y.min()), float(y.std())
    if least < 0.0 or not deviation or float(((y - y.mean()) ** 3).mean()) < SKEWED * deviation**3:
        return "none"
    return "log" if least > 0.0 else "log1p"


def unit_of(kind: str, y: Floats) -> float:
    """Return how many units of y one unit of the scale is worth: the ratio of standard deviations of targets (n,)."""
    deviation = float(learnt(kind, y).std())
    return float(y.std()) / deviation if deviation else 1.0
