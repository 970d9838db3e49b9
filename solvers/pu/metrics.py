"""The share of wrong labels, where those of negatives are not known."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.types import Floats


def zero_one_risk(positives: Floats, unlabelled: Floats, prior: float) -> float:
    """Return an unbiased estimate of the share of wrong labels, from decisions of positives and of unlabelled.

    ``2 prior P(f <= 0 | positive) + P(f > 0) - prior`` [du Plessis et al. 2014]; of few examples it may be below 0.
    NaN where either kind is missing.
    """
    if not positives.size or not unlabelled.size:
        return float("nan")
    return float(2.0 * prior * np.mean(positives <= 0) + np.mean(unlabelled > 0) - prior)
