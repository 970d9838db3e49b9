"""Decisions of examples by models without them, whole parts at once: update a copy and undo that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense
from livesvm.solvers.validation import Key


class _Undone(Exception):
    """Raised to undo a change once its result is known."""


@contextmanager
def undone(on_error: AbstractContextManager[object]) -> Iterator[None]:
    """Undo what is done inside, by what undoes it ``on_error``."""
    try:
        with on_error:
            yield
            raise _Undone
    except _Undone:
        pass


def decisions_by_updates(
    copy: LiveEstimator,
    parts: Iterable[Ints],
    tell: Callable[[int, int], None],
    look: Callable[[Ints], object] = lambda _: None,
    weights: Callable[[Ints], Mapping[Key, float] | None] = lambda _: None,
) -> tuple[Floats, int]:
    """Return the decisions (n,) of a private copy's window, each part's by the model without it, and all events.

    Of several classes (n, n_pairs). ``look`` is called with each part, when the copy is without it. ``weights`` gives
    the weights that others have while a part is out.

    Raises
    ------
    InvalidInput : nothing can be learnt from the examples that stay
    """
    keys, X, gram = copy.keys_, copy._window.X, copy._window.state.kernel.gram
    decisions, events = np.empty((len(keys), *copy._window.predictor().decision_function(X[:0]).shape[1:])), 0
    for done, out in enumerate(parts):
        tell(done, len(keys))
        rows = X[out] if gram is None else np.delete(dense(X)[out], out, axis=1)
        with updated_without(copy, [keys[i] for i in out], weights(out)) as report:
            events += report.events
            decisions[out] = copy._window.predictor().decision_function(rows)
            look(out)
    return decisions, events


@contextmanager
def updated_without(
    copy: LiveEstimator, keys: list[Key], weights: Mapping[Key, float] | None = None
) -> Iterator[UpdateReport]:
    """Have a private copy without some examples inside, and with other weights; it is as it was afterwards."""
    window, learnt = copy._window, dict(vars(copy))
    gram = window.state.kernel.gram
    vacant = [] if gram is None else list(gram.vacant)
    try:
        with undone(window.undone_on_error()):
            yield copy.update(remove=keys, reweight=weights)
    finally:
        vars(copy).update(learnt)
        if gram is not None:
            gram.vacant = vacant
