"""The models without one example of the window each, as coefficients of the others: exact, by unlearning on a copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.leave_one_out.assessment import checked, leave_together, may_be_missed, tell_nothing
from livesvm.solvers.analyses.leave_one_out.by_path import leave_each_out
from livesvm.solvers.analyses.leave_one_out.by_updates import updated_without
from livesvm.solvers.homotopy.recompute import refresh
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.predictor import Predictor, kernel_values
from livesvm.solvers.models.view import View
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.validation import Key


@dataclass
class _Part:
    """The models of two classes, or of values: the rows of ``rows`` are coefficients (n,), then b.

    ``which`` (n,) has the row of the model without each example, 0 for those without which it is as it was; ``own``
    (n,) is what that decides of the example.
    """

    n: int
    rows: list[Floats] = field(default_factory=list)
    which: Ints = field(init=False)
    own: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.which, self.own = np.zeros(self.n, np.int64), np.empty(self.n)

    def stand(self, view: View, members: Ints) -> None:
        """Know that without any of ``members`` the model is the one that the view shows."""
        state, slots = view.state, view.window.slots
        refresh(state)
        self.which[members] = len(self.rows)
        self.own[members] = state.examples.f[slots[members]]
        self.rows.append(np.append(state.examples.beta[slots], state.b))

    def leave(self, view: View, members: Ints, tell: Callable[[int, int], None]) -> int:
        """Know the models without one of ``members`` each, from the one that the view shows; return all events."""
        self.stand(view, members)
        state, window = view.state, view.window
        places = members[may_be_missed(view, window.slots[members])]
        totals = state.total - view.total_of(1.0) * window.weights[places]
        found = np.empty((places.size, state.n_slots + 1))
        self.own[places], events = leave_each_out(state, window.slots[places], totals, tell, found)
        self.which[places] = len(self.rows) + np.arange(places.size)
        self.rows.extend(found[:, [*window.slots, state.n_slots]])
        return events


@dataclass(frozen=True)
class ModelsWithout:
    """A model, and the models without one of its examples each.

    Attributes
    ----------
    keys : (n,) of the window's examples, oldest first
    predictor : the model as it is
    own : (n,) f(x_i) of the model without example i; of several classes (n, n_pairs)
    events : breakpoints of all paths together
    seconds : wall time
    """

    keys: tuple[Key, ...]
    predictor: Predictor
    own: Floats
    events: int
    seconds: float
    _support: Predictor = field(repr=False)
    _models: list[Floats] = field(repr=False)
    _which: list[Ints] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficients."""
        return sum(models.nbytes for models in self._models)

    @property
    def matters(self) -> Ints:
        """Places of the examples that have a part in the model, oldest first; no other changes a decision."""
        return np.flatnonzero(np.any(np.stack(self._which) != 0, axis=0))

    def decisions(self, X: ArrayLike | Features, places: Ints | None = None) -> Floats:
        """Return what the models without each example, or each of those at ``places``, decide.

        Parameters
        ----------
        X : (m, d) rows; for the kernel "precomputed" (m, n) kernel values of rows and window, oldest first

        Returns
        -------
        (n, m), of several classes (n, m, n_pairs)
        """
        rows, frozen = self._support.validate(X), self._support
        if frozen.kernel.gram is not None:
            values = np.ascontiguousarray(dense(rows))
        else:
            values = kernel_values(frozen.kernel, rows, frozen.support, frozen.scale)
        found = []
        for models, which in zip(self._models, self._which, strict=True):
            f = models[:, :-1] @ values.T + models[:, -1:]
            found.append(f[which if places is None else which[places]])
        return found[0] if self.own.ndim == 1 else -np.stack(found, axis=2)


def models_without_each(model: LiveEstimator, *, progress: Progress | None = None) -> ModelsWithout:
    """Return the models without one example of a model's window each.

    Parameters
    ----------
    model : a live estimator that has learnt at least two examples; it is not touched
    progress : called with how many examples were left out, and how many there are; what it raises ends the work

    Raises
    ------
    InvalidInput : a window of fewer than two examples
    Cancelled : ``progress`` said so
    NotOptimal : a path could not be followed
    """
    started, view = time.perf_counter(), checked(model)
    n, copy = model.n_window_, view.copy()
    pairs = copy.pairs
    parts = [_Part(n) for _ in range(len(pairs) or 1)]
    views = _views(copy)
    with steadily(progress, n) as tell:
        if not copy.shares_costs:
            only = tell if not pairs else tell_nothing
            events = sum(part.leave(one, np.arange(n), only) for part, one in zip(parts, views, strict=True))
        else:
            for part, one in zip(parts, views, strict=True):
                part.stand(one, np.arange(n))
            alone, together = leave_together(copy)
            events = sum(_leave_alone(copy, int(place), parts) for place in alone)
            for members in together:
                tell(int(members[0]), n)
                events += copy.weigh_without(int(members[0])) + _leave_kind(copy, members, parts)
        tell(n, n)
    own = parts[0].own if not pairs else -np.stack([part.own for part in parts], axis=1)
    return ModelsWithout(
        tuple(view.window.keys),
        model.predictor(),
        own,
        events,
        time.perf_counter() - started,
        _support(views[0]),
        [np.array(part.rows) for part in parts],
        [part.which for part in parts],
    )


def _views(copy: View) -> list[View]:
    """Return a private copy as it is, or of several classes its pairs, each of the whole window."""
    return [View(copy.of_pair(two)) for two in copy.pairs] or [copy]


def _support(view: View) -> Predictor:
    """Return the kernel and the examples of the window, with no coefficients."""
    state, slots = view.state, view.window.slots
    scale = getattr(view.model, "feature_scale_", None)
    support = np.empty((1, 0)) if state.kernel.gram is not None else state.columns(slots)
    width = slots.size if state.kernel.gram is not None else state.n_features
    return Predictor(state.kernel, support, np.empty(0), 0.0, width, scale=scale)


def _leave_kind(copy: View, members: Ints, parts: list[_Part]) -> int:
    """Know the models without one of ``members`` each, all of one kind, of a copy that has their losses."""
    kind, events = copy.window.y[members[0]], 0
    for place, (part, one) in enumerate(zip(parts, _views(copy), strict=True)):
        if copy.pairs and kind not in copy.pairs[place]:
            part.stand(one, members)
        else:
            events += part.leave(one, members, tell_nothing)
    return events


def _leave_alone(copy: View, place: int, parts: list[_Part]) -> int:
    """Know the models without one example, by an update and back."""
    key, before = list(copy.window.keys)[place], _views(copy)[0]
    values = before.state.kernel_rows(before.window.slots[[place]])[0, before.window.slots]
    with updated_without(copy.model, [key]) as report:
        for part, one in zip(parts, _views(View(copy.model)), strict=True):
            beta = np.insert(one.state.examples.beta[one.window.slots], place, 0.0)
            part.which[place] = len(part.rows)
            part.own[place] = values @ beta + one.state.b
            part.rows.append(np.append(beta, one.state.b))
        return int(report.events)
