"""Sequences of updates, followed by the library and judged."""

from __future__ import annotations

from collections.abc import Iterator

from livesvm.solvers import IncrementalSVC, UpdateReport
from tests.judge import apply
from tests.problems import Problem, Rows

RELATIVE_GAP = 1e-8


def allowed(C: float) -> float:
    """Return the relative gap that is asked for; beyond C = 1e5 rounding of beta takes a digit."""
    return RELATIVE_GAP if C <= 1e5 else 10 * RELATIVE_GAP


def follow(drawn: Problem) -> Iterator[tuple[IncrementalSVC, UpdateReport, Rows]]:
    """Yield the model, the report and the window after each update of a problem."""
    model = IncrementalSVC(**drawn.parameters())
    for batch, window in zip(drawn.batches, drawn.windows(), strict=True):
        yield model, apply(model, drawn, batch), window
