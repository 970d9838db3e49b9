"""Decisions of models without some examples, by updates of a copy that are undone, or by paths from one optimum.

Each path starts at the same optimum, which is restored after the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from livesvm.solvers.active_set.degeneracy import clear
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.workspace import ITERATION_EVENTS, Walk
from livesvm.solvers.errors import MemoryLimit, NotOptimal
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.edit import NO_BATCH, ClassBatch, Work, copy_loss
from livesvm.solvers.homotopy.refresh import BLOCK, need_rows, refresh
from livesvm.solvers.homotopy.run import NO_CHANGES, NO_EXAMPLES, Solve, follow
from livesvm.solvers.homotopy.solve import TRUSTED, Stage, solve
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.path_problem import PathProblem
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.snapshot import compact_copy, sharing_copy
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import raise_what_stopped
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense
from livesvm.solvers.validation import Key


class _Undone(Exception):
    """An error raised on purpose, so that a context undoes the changes inside it once their result is known."""


@contextmanager
def undone(on_error: AbstractContextManager[object]) -> Iterator[None]:
    """Context that always undoes the changes made inside it, by raising an error within the context ``on_error``."""
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
    """Return the decision (n,) on each example by a model without the example's fold, and the total number of events.

    ``copy`` is a private copy of the model. With several classes the decisions are (n, n_pairs). ``look`` is called
    with each of the ``parts``, the folds, while the part is removed from the copy. ``weights`` returns the new weights
    that remaining examples have while a part is removed.

    Raises
    ------
    InvalidInput : nothing can be learnt from the examples that stay
    """
    keys, X, gram = copy.keys_, copy._window.X, copy._window.kernel.gram
    decisions, events = np.empty((len(keys), *copy._window.predictor().decision_function(X[:0]).shape[1:])), 0
    for done, out in enumerate(parts):
        tell(done, len(keys))
        rows = X[out] if gram is None else np.delete(dense(X)[out], out, axis=1)
        with updated_without(copy, [keys[i] for i in out], weights(out)) as report:
            events += report.events
            decisions[out] = copy._window.predictor().decision_function(rows)
            look(out)
    return decisions, events


def decisions_by_pairs(window: Window, groups: list[Ints]) -> Floats | None:
    """Return the decisions (n, n_pairs) on each group's examples by the models without this group.

    Paths are followed pair by pair, on copies of the pairs' states; the examples that stay keep their losses. The rows
    of examples in no group are not set. Returns None for large pairs, for the kernel "precomputed", and if a path
    cannot be followed.
    """
    slots, pairs = window.slots, window.pairs.values()
    if window.kernel.gram is not None or max(pair.state.n for pair in pairs) > SMALL_PAIR:
        return None
    name, found = np.full(slots.size, -1), []
    for number, group in enumerate(groups):
        name[group] = number
    for pair in pairs:
        members = np.flatnonzero(pair.holds(slots))
        try:
            found.append((members, _models_without(pair, slots[members], name[members], len(groups))))
        except (NotOptimal, MemoryLimit):  # an update may solve from nothing instead
            return None
    decisions, X = np.empty((slots.size, len(pairs))), window.X
    for number, group in enumerate(groups):
        beta, b = np.zeros((len(pairs), slots.size)), np.empty(len(pairs))
        for row, (members, models) in enumerate(found):
            beta[row, members], b[row] = models[number, :-1], models[number, -1]
        decisions[group] = window.predictor_of(beta, b).decision_function(X[group])
    return decisions


def _models_without(pair: PathProblem, numbers: Ints, name: Ints, count: int) -> Floats:
    """Return a pair's models without each group, (count, n + 1): coefficients, then b; ``name`` (n,) has the groups."""
    state = compact_copy(pair.state, pair.at(numbers))
    refresh(state)
    models = np.tile(np.append(state.examples.beta[: name.size], state.b), (count, 1))
    leaving = np.argsort(name, kind="stable")[np.count_nonzero(name < 0) :]
    sizes = np.bincount(name[leaving], minlength=count)
    there = np.flatnonzero(sizes)
    without, starts = np.empty((there.size, name.size + 1)), np.append(0, np.cumsum(sizes[there]))
    leave_by_paths(state, leaving, np.zeros(there.size), lambda *_: None, without, starts)
    models[there] = without
    return models


@contextmanager
def updated_without(
    copy: LiveEstimator, keys: list[Key], weights: Mapping[Key, float] | None = None
) -> Iterator[UpdateReport]:
    """Context in which a private copy lacks the examples ``keys`` and has other ``weights``; its end undoes both."""
    learnt = dict(vars(copy))
    try:
        with undone(copy._window.changing()):
            yield copy.update(remove=keys, reweight=weights)
    finally:
        vars(copy).update(learnt)


FEW = 8  # events that most leave with; for so few no example is left out of a walk
SMALL_PAIR = 600  # examples of a pair of classes; all their kernel rows take little memory
SMALL = 2000  # if the window is not larger than this
SPARE = 64  # examples that may become free on a path that uses what is at hand
PORTION = 32  # examples that leave between two reports of progress


def decisions_without(state: PathState, slots: Ints, total: float, model: Floats | None = None) -> tuple[Floats, int]:
    """Remove the examples ``slots``; return their f by the model without them, and the number of events.

    The betas of the remaining examples sum to ``total``. The state is restored afterwards. ``model`` (n_slots + 1,)
    receives the coefficients and, as its last entry, b.
    """
    with undone(UndoneOnError(state)):
        state.drop_losses(slots)
        state.total = total
        events = follow(state).events
        beta = state.examples.beta[: state.n_slots]
        decisions = times(state.kernel_rows(slots), beta) + state.b
        if model is not None:
            model[:-1], model[-1] = beta, state.b
    return decisions, events


def leave_by_paths(
    state: PathState,
    indices: Ints,
    totals: Floats,
    report: Callable[[int, int], None],
    models: Floats | None = None,
    starts: Ints | None = None,
) -> tuple[Floats, int]:
    """Return f of each of ``indices`` by the model without the example, (m,), and the number of events of all paths.

    Compiled code removes one group of examples after the other. ``decisions_without`` removes a group if its path needs
    a kernel row that is not cached, or stalls because several limits are tied.

    Parameters
    ----------
    state : optimal, with an f that is fresh; it is put back
    indices : (m,) slots
    totals : (k,) what the betas of the others sum up to
    report : called with how many are done, and how many there are; what it raises ends the work
    models : (k, n_slots + 1) gets the models without: coefficients by slot, then b
    starts : (k + 1,) where the groups that leave together begin in ``indices``, none of them empty; None: each alone

    Raises
    ------
    NotOptimal : a path could not be followed, also not the ordinary way
    """
    if not indices.size:
        report(0, 0)
        return np.empty(0), 0
    starts = np.arange(indices.size + 1) if starts is None else starts
    R = state.factor.R[: state.factor.size[0], : state.factor.size[0]].copy()
    state.make_room_for_free(state.n - state.n_free if state.n < 1000 else 4 * ITERATION_EVENTS)
    _cache_rows(state, indices)
    decisions, events = np.full(indices.size, np.nan), 0
    models = np.empty((totals.size, 0)) if models is None else models
    for first in range(0, totals.size, PORTION):
        report(first, totals.size)
        part, bounds = slice(first, first + PORTION), starts[first : first + PORTION + 1]
        solving = Solve(state)
        solving.begin(state.n_slots, NO_EXAMPLES, indices[: np.diff(bounds).max()], NO_EXAMPLES, NO_CHANGES)
        w, s = solving.opened()
        s.now[0].whole, s.now[0].trusted = FEW if state.n_slots <= SMALL else 0, TRUSTED
        events += _leave_portion(w, s, NO_BATCH, R, indices, bounds, totals[part], models[part], decisions)
        raise_what_stopped()
    for i in np.flatnonzero(np.isnan(decisions[starts[:-1]])):
        report(totals.size - 1, totals.size)
        group = slice(starts[i], starts[i + 1])
        model = models[i] if models.size else None
        decisions[group], count = decisions_without(state, indices[group], float(totals[i]), model)
        events += count
    report(totals.size, totals.size)
    return decisions, events


def leave_at_hand(state: PathState, indices: Ints) -> Floats:
    """Return f of each example of ``indices`` by the model without the example, (m,); for classifiers.

    The paths start from the optimum of the state. The state is not changed, and no kernel row is computed. The result
    is NaN for an example with a path that needs a kernel row that is not cached.
    """
    own = sharing_copy(state, SPARE)
    solving, size, n = Solve(own), int(state.factor.size[0]), state.n_slots
    solving.begin(n, NO_EXAMPLES, indices[:1], NO_EXAMPLES, NO_CHANGES)
    w, s = solving.opened()
    s.now[0].trusted = TRUSTED
    found, models, starts = np.full(indices.size, np.nan), np.empty((indices.size, n + 1)), np.arange(indices.size + 1)
    R = state.factor.R[:size, :size]
    _leave_portion(w, s, NO_BATCH, R, indices, starts, np.full(indices.size, state.total), models, found)
    raise_what_stopped()
    for i in np.flatnonzero(~np.isnan(found)):  # f has followed the path, and is computed once more
        found[i] = state.rows.values[state.rows.row_of[indices[i]], :n] @ models[i, :n] + models[i, n]
    return found


def _cache_rows(state: PathState, indices: Ints) -> None:
    """Cache as many kernel rows as fit: first those of the examples to remove, then those of examples near a kink."""
    e, n = state.examples, state.n_slots
    distance = np.abs(e.f[:n, None] - e.kinks[:n]).min(axis=1)
    distance[indices] = 0.0
    order = np.argsort(distance, kind="stable")
    order = order[e.n_kinks[order] > 0][: max(0, state.rows.max_rows - state.n_free - BLOCK)]
    need_rows(state, np.union1d(state.free_slots(), order))


@compiled_allocating
def _leave_portion(
    w: Walk,
    s: Work,
    batch: ClassBatch,
    R: Floats,
    indices: Ints,
    starts: Ints,
    totals: Floats,
    models: Floats,
    decisions: Floats,
) -> int:
    """Remove one group of examples after the other from the same optimum; return the number of events.

    ``decisions`` receives f of each removed example, or stays NaN if ``solve`` needs its caller. ``R`` is the factor
    at the optimum from which all paths start. ``models`` (k, n + 1) receives the models without one group each, unless
    it is (k, 0).
    """
    events, now, rows = 0, s.now[0], np.empty(s.leave.size, np.int64)
    b, kappa, since, heaviest, drift = now.b, now.kappa, now.since, now.heaviest, now.drift
    for i in range(totals.size):
        group, here = indices[starts[i] : starts[i + 1]], True
        for k in range(group.size):
            s.leave[k], rows[k] = group[k], w.row_of[group[k]]
            here = here and rows[k] >= 0
        if not here:
            continue
        now.n_leave, now.stage, now.total = group.size, Stage.EDIT, totals[i]
        now.b, now.kappa, now.since, now.heaviest, now.drift = b, kappa, since, heaviest, drift
        outcome = solve(w, s, batch)
        now.is_measured = 1  # all leave the same optimum
        events += w.at[0].events
        if outcome == Exit.DONE:
            for k in range(group.size):
                decisions[starts[i] + k] = w.examples.f[group[k]]
            if models.size > 0:
                models[i, : w.n] = w.examples.beta[: w.n]
                models[i, w.n] = w.at[0].b
        for k in range(group.size):  # a solve that is done has dropped the rows of the examples that left
            w.row_of[group[k]], s.slot_of[rows[k]], s.used[rows[k]] = rows[k], group[k], now.clock
        _put_back(w, s, R)
        if outcome == Exit.CANCELLED:
            break
    return events


@compiled
def _put_back(w: Walk, s: Work, R: Floats) -> None:
    """Undo the changes that a solve made to the examples and to the factor."""
    e, fac, old = w.examples, w.factor, s.before
    for j in range(w.n):
        e.segment[j], e.f[j], e.beta[j] = old.segment[j], old.f[j], old.beta[j]
    for i in range(s.now[0].n_leave):
        copy_loss(old.kinks, old.levels, old.n_kinks, i, e.kinks, e.levels, e.n_kinks, s.leave[i])
    clear(fac)
    fac.size[0] = R.shape[0]
    for k in range(R.shape[0]):
        fac.slot[k] = old.free[k]
        if old.free[k] >= 0:
            fac.position[old.free[k]] = k
            fac.size[1] += 1
        for c in range(k, R.shape[0]):
            fac.R[k, c] = R[k, c]
