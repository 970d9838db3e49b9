"""Certificates of the last training on a window that has slid, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.frank_wolfe.problem import Problem, gap_of
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.models.class_labels import are_among
from livesvm.solvers.models.large_predictor import Trained
from livesvm.solvers.models.next_start import coefficients_here
from livesvm.solvers.models.sliding_window import NOWHERE, SlidingWindow
from livesvm.solvers.runtime.types import Floats


def proofs(
    trained: Trained, w: SlidingWindow, known: NDArray[Any], kernel_of: Callable[[Any, Floats], Kernel], C: float
) -> dict[tuple[Any, Any], Certificate]:
    """Return the certificate of every pair of labels that was trained on a window, without examples that have left.

    Raises InvalidInput where a class, or all of a pair, came after the training.

    Parameters
    ----------
    known : labels by their numbers in the window
    kernel_of : the kernel for examples with weights
    """
    indices = w.indices[w.weights[w.indices] > 0]
    numbers, out = w.y[indices], {}
    since = known[np.unique(numbers)]
    since = since[~are_among(since, trained.classes)]
    if since.size:
        raise InvalidInput(f"was not trained since examples of class {since[0]!s} came", field="model")
    label_of = known.tolist()
    for q, two in enumerate(trained.pairs):
        negative, positive = trained.classes[list(two)].tolist()
        places = [label_of.index(label) if label in label_of else NOWHERE for label in (negative, positive)]
        slots = indices[np.isin(numbers, places)]
        y = np.where(w.y[slots] == places[1], 1.0, -1.0)
        b = coefficients_here(trained, w, q, slots, y)
        if not b.any():
            reason = f"was not trained on examples of {negative} and {positive} that are in its window"
            raise InvalidInput(f"{reason}, whose optimum it could be compared with", field="model")
        kernel = kernel_of(w.X[slots], w.weights[slots])
        problem = Problem(PreparedRows.of(kernel, w.X[slots]), y, C * w.weights[slots])
        with threadpool_limits(1, "blas"):
            gap = gap_of(problem, b, problem.parts(problem.examples, b))
        proof = Certificate(0.5 * gap.relative, gap.primal - gap.dual, gap.relative, gap.primal, gap.dual, y.size)
        out[negative, positive] = proof
    return out
