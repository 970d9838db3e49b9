"""Splits into examples that are learnt and examples that judge."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers import validation
from livesvm.solvers.analyses.leave_one_out.assessment import dealt
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Ints

Split = tuple[Ints, Ints]
Judge = Literal["k_fold", "rolling_origin", "leave_one_out"]


def splits(y: NDArray[Any], judge: Judge, folds: int, *, classes: bool) -> list[Split]:
    """Return (learnt, judging) places of the window, oldest first.

    Parameters
    ----------
    y : (n,) targets, oldest first
    judge : "k_fold": every class is dealt out to the folds in turn, in their order; "rolling_origin": of ``folds + 1``
        stretches of time each but the first judges a model of all before it
    classes : whether targets are labels

    Raises
    ------
    InvalidInput : there is no such judge, or there are too few examples for so many folds
    """
    if judge not in get_args(Judge):
        raise InvalidInput(f"must be one of {', '.join(get_args(Judge))}, not {judge!r}", field="judge")
    number = validation.number_or_none(folds)
    n = y.size
    if number is None or number != int(number) or not 2 <= number <= max(n // 2, 1):
        raise InvalidInput(f"must be a whole number from 2 to half of the {n} examples, not {folds!r}", field="folds")
    k, every_example = int(number), np.arange(n)
    if judge == "rolling_origin":
        edges = np.arange(1, k + 2) * n // (k + 1)
        out = [(every_example[:start], every_example[start:end]) for start, end in pairwise(edges.tolist())]
    else:
        fold = dealt(y, k) if classes else every_example % k
        out = [(every_example[fold != one], every_example[fold == one]) for one in range(k)]
    for learnt, judging in out:
        if judging.size == 0 or (classes and np.unique(y[learnt]).size < 2):
            raise InvalidInput(
                "a fold leaves one class only, or holds out no example; choose fewer folds", field="folds"
            )
    return out
