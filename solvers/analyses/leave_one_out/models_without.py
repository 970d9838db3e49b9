"""The coefficients of the models that lack one example of the window each, computed exactly by unlearning on a copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.analyses.leave_one_out.by_path import decisions_by_updates, leave_at_hand, leave_by_paths
from livesvm.solvers.analyses.leave_one_out.by_pivots import ModelChanges, leave_by_pivots
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy.refresh import refresh
from livesvm.solvers.homotopy.run import NO_EXAMPLES
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.models.pairs_predictor import Two
from livesvm.solvers.models.predictor import Predictor, kernel_values, read
from livesvm.solvers.problem.state import PathState, are_free
from livesvm.solvers.runtime import interrupt
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.threads import one_blas_thread
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features
from livesvm.solvers.validation import Key

Tell = Callable[[int, int], None]  #: takes the work done, and all work

LEAST_OF_A_KIND = 4  #: fewest examples leaving the same losses that share a path to these; else each has an update
AT_HAND = 24  #: most examples for which separate paths cost less than one tableau


class _Standing(NamedTuple):
    """Slots and weights of the examples of a pair of classes, (m,)."""

    slots: Ints
    weights: Floats


class OfPair(NamedTuple):
    """One pair of classes of a model with several: the part of a view that paths without an example read."""

    of: View
    arrays: dict[str, Any]  #: of the model, once a pair has been copied
    two: Two
    state: PathState
    window: _Standing

    def total_of(self, C: float) -> float:
        """Return 0, the sum of the coefficients of a classifier, whichever examples the window holds."""
        return 0.0

    def copy(self) -> View:
        """Return a private copy of the pair."""
        if not self.arrays:
            self.arrays.update(self.of.model.to_arrays())
        return View(self.of.of_pair(self.two, self.arrays, alone=True))


@dataclass
class _Part:
    """The models of one problem that lack one example each; each of ``rows`` holds coefficients (n,) and then b.

    ``own`` (n,) holds the decision on each example by the model without the example. If ``is_kept`` is false, only
    ``own`` is stored. ``which`` (n,) holds the number of the model without each example; number 0 is the present model.
    Models are numbered: first those of ``rows``, then those of ``changes``, which are relative to one of the rows.
    """

    own: Floats
    is_kept: bool
    rows: list[Floats] = field(default_factory=list)
    changes: list[tuple[int, ModelChanges]] = field(default_factory=list)
    which: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.which = np.zeros(self.own.size, np.int64)

    def know(self, view: View | OfPair, members: Ints, own: Floats | float) -> None:
        """Record the model of ``view`` as the model without each of ``members``, and ``own`` as the decisions."""
        self.own[members], self.which[members] = own, len(self.rows)
        if self.is_kept:
            beta = view.state.examples.beta[view.window.slots]
            if beta.size < self.own.size:  # the view lacks them
                beta = np.insert(beta, members, 0.0)
            self.rows.append(np.append(beta, view.state.b))

    def leave(self, view: View | OfPair, members: Ints, tell: Tell, *, is_private: bool = True) -> int:
        """Find the models that lack one of ``members`` each, from the model of ``view``; return the number of events.

        If the view is not private, paths are walked on a copy.
        """
        state, slots = view.state, view.window.slots
        is_as_it_was = self.is_kept or not is_private
        if not is_as_it_was:
            refresh(state)
        places = members[_may_be_missed(view, slots[members])]
        totals = state.total - view.total_of(1.0) * view.window.weights[places]
        left, blocked = None, np.ones(places.size, np.bool_)
        if (totals == state.total).all():
            left = leave_by_pivots(state, slots[places], lambda: tell(0, places.size))
        if left is not None:
            blocked = np.isnan(left.decisions)
        if is_as_it_was and (left is None or blocked.any()):
            view = view if is_private else view.copy()
            refresh(view.state)
        if left is None or not is_as_it_was:
            self.know(view, members, view.state.examples.f[view.window.slots[members]])
        else:
            self.know(view, members, left.f[slots[members]])
        if left is not None:
            good = np.flatnonzero(~blocked)
            self.own[places[good]] = left.decisions[good]
            if self.is_kept:
                self.which[places[good]] = -1 - sum(one.of_b.size for _, one in self.changes) - good
                place_of = np.full(state.n_slots, -1)
                place_of[slots] = np.arange(slots.size)
                self.changes.append((len(self.rows) - 1, left.models.renamed(place_of)))
        tell = _after(tell, int(places.size - blocked.sum()), places.size)
        events = self._walk(view, places[blocked], totals[blocked], tell)
        return events if left is None else events + left.changes

    def _walk(self, view: View | OfPair, places: Ints, totals: Floats, tell: Tell) -> int:
        """Find the models that lack one example at ``places`` each, by paths from the model of a private view."""
        state, slots = view.state, view.window.slots
        found = np.empty((places.size, state.n_slots + 1)) if self.is_kept else None
        self.own[places], events = leave_by_paths(state, slots[places], totals, tell, found)
        if found is not None:
            self.which[places] = len(self.rows) + np.arange(places.size)
            self.rows.extend(found[:, [*slots, state.n_slots]])
        return events

    def finished(self) -> _Models:
        """Return the completed models."""
        which = np.where(self.which < 0, len(self.rows) - 1 - self.which, self.which)
        return _Models(np.array(self.rows), self.changes, which)


class _Models(NamedTuple):
    """The completed models of a ``_Part``, with ``rows`` as one array."""

    rows: Floats
    changes: list[tuple[int, ModelChanges]]
    which: Ints

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.which.nbytes + sum(one.nbytes for _, one in self.changes)

    @property
    def products(self) -> int:
        """The work of all decisions on a row: the number of products, and the number of results."""
        of_changes = sum(one.of_free.size + one.of_others.size + one.of_b.size for _, one in self.changes)
        return int(self.rows.size + of_changes + self.which.size)

    def decide(self, values: Floats) -> Floats:
        """Return the decisions of all models, by number, on m rows, given their kernel values (m, n)."""
        f = self.rows[:, :-1] @ values.T + self.rows[:, -1:]
        return np.concatenate([f, *(one.decide(values) + f[base] for base, one in self.changes)])


@dataclass(frozen=True)
class ModelsWithout:
    """A model, and the models that lack one example of its window each."""

    keys: tuple[Key, ...]  #: (n,) of the window's examples, oldest first
    predictor: Predictor  #: the model as it is
    own: Floats  #: (n,) f(x_i) of the model without example i; of several classes (n, n_pairs)
    events: int  #: changes of sides on all paths together
    seconds: float  #: wall time
    _support: Predictor = field(repr=False)
    _models: list[_Models] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the coefficients of all models take."""
        return sum(models.nbytes for models in self._models)

    @property
    def matters(self) -> Ints:
        """Positions of the examples that affect the model, oldest first; removing any other changes no decision."""
        return np.flatnonzero(np.any(np.stack([models.which for models in self._models]) != 0, axis=0))

    @one_blas_thread()
    def decisions(self, X: Features, places: Ints | None = None) -> Floats:
        """Return the decisions on ``X`` of one model without each example, or without each of those at ``places``.

        Parameters
        ----------
        X : (m, d) rows that are checked; for the kernel "precomputed" (m, n) values of rows and window, oldest first

        Returns
        -------
        (n, m), of several classes (n, m, n_pairs)
        """
        count = self.own.shape[0] if places is None else len(places)
        kernel, rows = read(self._support, X)
        out = np.empty((count, rows.shape[0], *self.own.shape[1:]))
        for part in interrupt.parts(rows.shape[0], self.products(rows.shape[1])):
            out[:, part] = self._decide(kernel, rows[part], places)
        return out

    def products(self, width: int) -> int:
        """Return the number of multiplications for the decisions on one row with ``width`` features."""
        return len(self.keys) * width + sum(models.products for models in self._models)

    def _decide(self, kernel: Kernel, rows: Features, places: Ints | None) -> Floats:
        values = kernel_values(kernel, rows, self._support.support, self._support.scale)
        found = []
        for models in self._models:
            which = models.which if places is None else models.which[places]
            found.append(models.decide(values)[which])
        return found[0] if self.own.ndim == 1 else -np.stack(found, axis=2)


def models_without_each(model: LiveEstimator, *, progress: Progress | None = None) -> ModelsWithout:
    """Return the models that lack one example of a model's window each.

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
    n = model.n_window_
    with steadily(progress, n) as tell:
        own, events, parts = leave_each(view, np.arange(n), tell, is_kept=True)
        tell(n, n)
    return ModelsWithout(
        tuple(view.window.keys),
        model.predictor(),
        own,
        events,
        time.perf_counter() - started,
        _support(next(_views(view))),
        [part.finished() for part in parts],
    )


def checked(model: LiveEstimator) -> View:
    """Return a view of a model for an analysis; raise InvalidInput if its window holds fewer than two examples."""
    view = View(model)
    if model.n_window_ < 2:
        raise InvalidInput(f"the window holds {model.n_window_} examples; at least two are needed", field="window")
    return view


def leave_each(view: View, members: Ints, tell: Tell, *, is_kept: bool) -> tuple[Floats, int, list[_Part]]:
    """Remove each example of ``members`` separately, or every example if the losses depend on the whole window.

    Returns the decisions on the removed examples, (n,) or (n, n_pairs), the number of events, and the models if
    ``is_kept``.
    """
    pairs, events = view.pairs, 0
    if view.shares_costs or not is_kept:
        view = view.copy()
    parts = [_Part(np.empty(view.model.n_window_), is_kept) for _ in range(len(pairs) or 1)]
    if view.shares_costs:
        events = _leave_kind_by_kind(view, parts, tell)
    else:
        is_private, inside = bool(pairs) or not is_kept, _tell_nothing if pairs else tell
        for number, (part, one) in enumerate(zip(parts, _views(view), strict=True)):
            tell(number * members.size // len(parts), members.size)
            events += part.leave(one, members, inside, is_private=is_private)
    own = -np.stack([part.own for part in parts], axis=1) if pairs else parts[0].own
    return own, events, parts


def of_pair(view: View, two: Two, members: Ints, arrays: dict[str, Any]) -> OfPair:
    """Return a pair of classes; ``members`` are its places in the window, and all pairs share the dict ``arrays``."""
    window, pair = view.window, view.window.pairs[two]
    return OfPair(view, arrays, two, pair.state, _Standing(pair.at(window.slots[members]), window.weights[members]))


def left_alone(view: View | OfPair, members: Ints, tell: Tell) -> Floats:
    """Return each example's leave-one-out decision, (m,); ``members`` (m,) are places in the view's window.

    The losses of the examples must not depend on which examples the window holds. If there are few examples, they are
    removed along paths that use cached kernel rows only. The model is copied only if a path needs other kernel rows.
    """
    state, found = view.state, np.full(members.size, np.nan)
    if members.size <= AT_HAND and state.is_prepared and state.n_free:
        found = leave_at_hand(state, view.window.slots[members])
    rest = np.isnan(found)
    if rest.any():
        part = _Part(np.empty(view.window.slots.size), is_kept=False)
        part.leave(view, members[rest], tell, is_private=False)
        found[rest] = part.own[members[rest]]
    return found


def _leave_kind_by_kind(copy: View, parts: list[_Part], tell: Tell) -> int:
    """Remove each example of a private copy separately, for losses that depend on the examples in the window.

    The losses depend only on the number of examples of each kind, such as a class. So the losses of
    the other examples are the same, whichever example of a kind is removed. One path for each kind leads to these
    losses, and each example of the kind is removed from there.
    """
    n, kinds = copy.model.n_window_, copy.kinds
    names, counts = np.unique(kinds, return_counts=True)
    together = [] if copy.robustness else [np.flatnonzero(kinds == name) for name in names[counts >= LEAST_OF_A_KIND]]
    alone = np.setdiff1d(np.arange(n), np.concatenate([NO_EXAMPLES, *together]))

    def know(members: Ints) -> None:
        if parts[0].is_kept:
            for part, one in zip(parts, _views(copy), strict=True):
                part.know(one, members, np.nan)

    know(np.arange(n))
    events, done = 0, alone.size
    if alone.size:
        decisions, events = decisions_by_updates(copy.model, alone[:, None], tell, know)
        for part, f in zip(parts, -decisions.T if copy.pairs else [decisions], strict=True):
            part.own[alone] = f[alone]
    for members in together:
        tell(done, n)
        events += copy.weigh_without(int(members[0]))
        if not copy.pairs:
            events += parts[0].leave(copy, members, _after(tell, done, n))
        else:
            for part, two, f in zip(parts, copy.pairs, -copy.decisions(members).T, strict=True):
                if copy.window.y[members[0]] in two:
                    events += part.leave(View(copy.of_pair(two)), members, _tell_nothing)
                elif part.is_kept:
                    part.know(View(copy.of_pair(two)), members, f)
                else:
                    part.own[members] = f
        done += members.size
    return events


def _tell_nothing(done: int, count: int) -> None:
    """Ignore progress."""


def _after(tell: Tell, before: int, total: int) -> Tell:
    """Return the progress function for a part of the work that starts after ``before`` of ``total`` examples."""
    return lambda done, _: tell(before + done, total)


def _may_be_missed(view: View | OfPair, slots: Ints) -> Bools:
    """Return a mask (m,) of the examples ``slots`` (m,) that may affect the model; removing any other is no change."""
    state, e = view.state, view.state.examples
    if view.total_of(1.0) or (state.intercept and state.n_free == 0):  # b depends on the others too
        return np.ones(slots.size, dtype=bool)
    return np.asarray((e.beta[slots] != 0.0) | are_free(e.segment[slots]))


def _views(view: View) -> Iterator[View]:
    """Yield the view itself, or with several classes a private view of each pair of classes on the whole window."""
    if not view.pairs:
        yield view
        return
    arrays = view.model.to_arrays()
    for two in view.pairs:
        yield View(view.of_pair(two, arrays))


def _support(view: View) -> Predictor:
    """Return a predictor with the kernel and examples of the window, but without coefficients."""
    state, slots = view.state, view.window.slots
    scale, support, width = getattr(view.model, "feature_scale_", None), state.columns(slots), state.n_features
    kernel = state.kernel
    if kernel.gram is not None:
        support, width = np.arange(slots.size, dtype=np.float64)[None], slots.size
    if kernel.is_projected and scale is not None:
        width = scale.width
    if isinstance(kernel, FunctionKernel):
        kernel = kernel.frozen(support)
    return Predictor(kernel, support, np.empty(0), 0.0, width, scale=scale)
