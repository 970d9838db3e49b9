"""What decisions of positives and unlabelled examples are worth: where labels are known, and where they are not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Bools, Floats
from livesvm.solvers.validation import fraction


class Scores(NamedTuple):
    """The value of decisions where labels are known; the first three belong to the positive class, 0 if undefined."""

    f_measure: float
    precision: float
    recall: float
    auc: float  #: probability that a positive has a higher decision value than a negative; NaN without both


def scores(decisions: ArrayLike, positive: ArrayLike) -> Scores:
    """Return what decision values (m,) are worth, given which examples are positive, (m,).

    Examples
    --------
    >>> scores([2.0, 1.0, -1.0, -2.0], [True, False, True, False])
    Scores(f_measure=0.5, precision=0.5, recall=0.5, auc=0.75)
    """
    f = np.asarray(decisions, np.float64)
    true = np.asarray(positive) > 0
    if f.ndim != 1 or true.shape != f.shape:
        raise InvalidInput(f"{true.shape} labels for {f.shape} decisions", field="positive")
    hits, found, there = (int(np.count_nonzero(which)) for which in (true & (f > 0), f > 0, true))
    precision, recall = hits / found if found else 0.0, hits / there if there else 0.0
    f_measure = 2 * hits / (found + there) if found + there else 0.0
    return Scores(f_measure, precision, recall, _auc(f, true))


def _auc(f: Floats, positive: Bools) -> float:
    """Return the area under the ROC curve: of ties, half."""
    ranked, rank = np.unique(f, return_inverse=True)
    counts = np.bincount(rank, minlength=ranked.size)
    mean_rank = np.cumsum(counts) - 0.5 * (counts - 1)
    p = np.count_nonzero(positive)
    n = f.size - p
    if p == 0 or n == 0:
        return float("nan")
    return float((mean_rank[rank[positive]].sum() - 0.5 * p * (p + 1)) / (p * n))


def pu_risk(positives: ArrayLike, unlabelled: ArrayLike, prior: float) -> float:
    """Return the risk of the double hinge loss, without labels of negatives [du Plessis et al. 2015, eq. 4].

    Parameters
    ----------
    positives, unlabelled : decision values, (p,) and (n,)
    prior : share of positives among the unlabelled

    Raises
    ------
    InvalidInput : either is empty, or the prior is not in (0, 1)
    """
    share = fraction(prior, "prior")
    P, U = (np.ravel(np.asarray(values, np.float64)) for values in (positives, unlabelled))
    for values, field in ((P, "positives"), (U, "unlabelled")):
        validation.check_finite(values, field)
        if not values.size:
            raise InvalidInput("at least one decision value is needed", field=field)
    return float(np.mean(np.maximum(0.0, np.maximum(0.5 * (1.0 + U), U))) - share * np.mean(P))
