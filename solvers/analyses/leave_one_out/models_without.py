"""The models without one example of the window each, as coefficients of the others: exact, by unlearning on a copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.leave_one_out.assessment import checked, leave_together, may_be_missed, tell_nothing
from livesvm.solvers.analyses.leave_one_out.by_path import leave_by_paths
from livesvm.solvers.analyses.leave_one_out.by_pivots import Changes, leave_by_pivots
from livesvm.solvers.analyses.leave_one_out.by_updates import updated_without
from livesvm.solvers.homotopy.optimality import scales
from livesvm.solvers.homotopy.refresh import refresh
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.models.predictor import Predictor, kernel_values
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.validation import Key


@dataclass
class _Part:
    """The models of two classes, or of values: each of ``rows`` has coefficients (n,), then b.

    ``which`` (n,) has the row of the model without each example, 0 for those without which it is as it was; those of
    ``changes``, each from one of the rows, are counted on after all rows. ``own`` (n,) is what a model without an
    example decides of it.
    """

    n: int
    rows: list[Floats] = field(default_factory=list)
    changes: list[tuple[int, Changes]] = field(default_factory=list)
    which: Ints = field(init=False)
    own: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.which, self.own = np.zeros(self.n, np.int64), np.empty(self.n)

    def begin_at(self, view: View, members: Ints) -> None:
        """Know that without any of ``members`` the model is the one that a private view shows."""
        refresh(view.state)
        self._begin_at(view, members, view.state.examples.f)

    def _begin_at(self, view: View, members: Ints, f: Floats) -> None:
        """Do so, by its ``f`` by slot."""
        slots = view.window.slots
        self.own[members] = f[slots[members]]
        self.which[members] = len(self.rows)
        self.rows.append(np.append(view.state.examples.beta[slots], view.state.b))

    def leave(self, view: View, members: Ints, tell: Callable[[int, int], None], copy: Callable[[], View]) -> int:
        """Know the models without one of ``members`` each, from the one that the view shows; return all events.

        ``copy`` gives a private view of the same, where paths have to be walked.
        """
        state, slots = view.state, view.window.slots
        places = members[may_be_missed(view, slots[members])]
        totals = state.total - view.total_of(1.0) * view.window.weights[places]
        left = None
        if (totals == state.total).all():
            units = scales(state, np.zeros(state.n_slots))
            left = leave_by_pivots(state, slots[places], units, lambda _: tell(0, places.size))
        if left is None:
            private = copy()
            self.begin_at(private, members)
            return self._walk(private, places, totals, tell)
        self._begin_at(view, members, left.f)
        good = np.isfinite(left.decisions)
        self.own[places[good]] = left.decisions[good]
        self.which[places[good]] = -1 - sum(one.of_b.size for _, one in self.changes) - np.flatnonzero(good)
        self.changes.append((len(self.rows) - 1, left.models.renamed(_inverse(slots, state.n_slots))))
        if good.all():
            return left.changes
        private = copy()
        refresh(private.state)
        return left.changes + self._walk(private, places[~good], totals[~good], tell)

    def _walk(self, view: View, places: Ints, totals: Floats, tell: Callable[[int, int], None]) -> int:
        """Know the models without one of some examples each by paths from the model that a private view shows."""
        state, slots = view.state, view.window.slots
        found = np.empty((places.size, state.n_slots + 1))
        self.own[places], events = leave_by_paths(state, slots[places], totals, tell, found)
        self.which[places] = len(self.rows) + np.arange(places.size)
        self.rows.extend(found[:, [*slots, state.n_slots]])
        return events

    def finished(self) -> _Models:
        """Return the models."""
        which = np.where(self.which < 0, len(self.rows) - 1 - self.which, self.which)
        return _Models(np.array(self.rows), self.changes, which)


def _inverse(slots: Ints, n_slots: int) -> Ints:
    """Return the places (n_slots,) of slots."""
    place_of = np.full(n_slots, -1)
    place_of[slots] = np.arange(slots.size)
    return place_of


class _Models(NamedTuple):
    """What ``_Part`` knows in the end."""

    rows: Floats
    changes: list[tuple[int, Changes]]
    which: Ints

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.which.nbytes + sum(one.nbytes for _, one in self.changes)

    def decide(self, values: Floats) -> Floats:
        """Return what all models decide, (rows and changes, m), of rows with kernel values (m, n)."""
        f = self.rows[:, :-1] @ values.T + self.rows[:, -1:]
        return np.concatenate([f, *(one.decide(values) + f[base] for base, one in self.changes)])


@dataclass(frozen=True)
class ModelsWithout:
    """A model, and the models without one of its examples each."""

    keys: tuple[Key, ...]  #: (n,) of the window's examples, oldest first
    predictor: Predictor  #: the model as it is
    own: Floats  #: (n,) f(x_i) of the model without example i; of several classes (n, n_pairs)
    events: int  #: changes of sides on all paths together
    seconds: float  #: wall time
    _support: Predictor = field(repr=False)
    _models: list[_Models] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficients."""
        return sum(models.nbytes for models in self._models)

    @property
    def matters(self) -> Ints:
        """Places of the examples that have a part in the model, oldest first; no other changes a decision."""
        return np.flatnonzero(np.any(np.stack([models.which for models in self._models]) != 0, axis=0))

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
        for models in self._models:
            which = models.which if places is None else models.which[places]
            found.append(models.decide(values)[which])
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
    n, pairs = model.n_window_, view.pairs
    parts = [_Part(n) for _ in range(len(pairs) or 1)]
    with steadily(progress, n) as tell:
        if not view.shares_costs:
            views, only = _views(view), tell_nothing if pairs else tell
            every_example = zip(parts, views, strict=True)
            events = sum(part.leave(one, np.arange(n), only, one.copy) for part, one in every_example)
        else:
            copy = view.copy()
            views = _views(copy)
            for part, one in zip(parts, views, strict=True):
                part.begin_at(one, np.arange(n))
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
        [part.finished() for part in parts],
    )


def _views(view: View) -> list[View]:
    """Return a view as it is, or of several classes private ones of its pairs, each of the whole window."""
    return [View(view.of_pair(two)) for two in view.pairs] or [view]


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
            part.begin_at(one, members)
        else:
            events += part.leave(one, members, tell_nothing, one.copy)
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
