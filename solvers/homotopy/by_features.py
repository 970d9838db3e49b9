"""Updates of a linear model in a large window, computed from features, so that no kernel rows of the window are kept.

With D features all decision values f are the product of the features and ``w = sum_j beta_j x_j``, and at most D + 1
examples are free. The f of most examples stays far from the kinks of their losses throughout an update. So a path is
followed among *members* alone: the examples that change, the free ones, and those nearest to a kink. The contribution
of all other examples to f is constant on that path, so it only shifts the members' kinks. At the end of the path all
decision values are computed; examples that have crossed a kink become members, and the path is continued. Only the
features and the members' kernel rows take memory.

If many examples change, the coefficients of the members first move near their optimum by coordinate descent, until few
other examples cross a kink.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import linear
from livesvm.solvers.homotopy.coordinate_descent import DescentPoint, cross_over, descend, put_all
from livesvm.solvers.homotopy.edit import place
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Trace, follow
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.homotopy.warm_start import near_state
from livesvm.solvers.problem.piecewise_linear import Losses, leaving
from livesvm.solvers.problem.state import Examples, PathState, are_free, empty_examples, is_free
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.memory import padded
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows

EACH = 12  #: examples for each feature, below which kernel rows are no more work
FILLED = 1000, 3  #: the same for a window of mapped features that is filled: a descent does most of the work
MEMBERS = 2  #: examples near a kink that are members, for each feature,
MOST_NEAR = 0.25  #: but no more than this part of the window
SPARE = 16  #: part of the window that has space for new examples before any leaves
MANY = 500  #: examples that change: a descent comes before the path
FRESH = 3  #: paths after which members stay, so that the rounds come to an end
ROUNDS = 40  #: how often examples that crossed a kink may be added


def is_for(state: PathState, X: Features, n: int, *, fills: bool = False) -> bool:
    """Say whether to solve or fill a window of ``n`` examples without kernel rows; ``X`` (m, d) are some of them."""
    kernel = linear.kernel_of(state)
    width = X.shape[1] if kernel is state.kernel else linear.width(state)
    least, each = linear.LEAST // (2 if kernel.is_projected else 1), EACH
    if fills and kernel.is_projected:
        least, each = FILLED
    return linear.is_of_features(kernel) and not isinstance(X, SparseRows) and n >= max(least, each * width)


def update(state: PathState, slots: Ints, leave: Ints, changed: Ints, losses: Losses) -> Trace:
    """Bring a state to its optimum with new examples ``slots``, without examples ``leave``, and with new ``losses``.

    Raises
    ------
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``homotopy.run.follow``
    """
    e = state.examples
    state.forget_rows(np.flatnonzero(are_free(e.segment[: state.n_slots])))
    e.f[slots] = linear.rows_of(state, slots) @ linear.weights(state) + state.b
    place(e, slots)
    state.unlearnt = e.f[slots].tolist()
    state.set_losses(leave, leaving(leave.size))
    e.segment[leave] = 0
    has_moved = (e.kinks[changed] != losses.kinks).any(axis=1)
    state.set_losses(changed, losses)
    place(e, changed[has_moved])
    trace = settle(state, np.concatenate([slots, leave, changed]))
    e.beta[leave] = 0.0
    state.vacate(leave)
    return trace


def fill(state: PathState, X: Floats, losses: Losses, total: float) -> tuple[Ints, Trace]:
    """Fill an empty state with examples ``X`` (m, d), by coordinate descent and then along a path.

    Raises
    ------
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``homotopy.run.follow``
    """
    state.forget_rows(NO_EXAMPLES)
    state.resize(padded(64 + len(X) + len(X) // SPARE))
    slots = state.insert(X, losses)
    state.total, X = total, linear.rows(state, X)
    found, e = descend(X, losses, total, state.intercept), state.examples
    state.b = found.b
    put_all(e, found.beta)
    cross_over(X, e, state.intercept)
    _compute_f(state)
    off = beyond_kinks(e, slots.size)
    return slots, settle(state, np.flatnonzero(off))


def settle(state: PathState, moving: Ints) -> Trace:
    """Bring a state to its optimum; only the examples ``moving`` violate the conditions of optimality at the start.

    Raises
    ------
    NotOptimal : the end was not reached to the acceptable gap
    """
    e, n, trace = state.examples, state.n_slots, Trace()
    is_member = np.zeros(n, np.bool_)
    is_member[moving] = True
    come = moving.size
    for k in range(ROUNDS):
        check()
        _admit_near(state, is_member)
        members = np.flatnonzero(is_member)
        is_followed = come <= MANY
        if is_followed:
            _follow_among(state, members, trace)
        else:
            _descend_among(state, members)
        off = beyond_kinks(e, n)
        come = int(np.count_nonzero(off & ~is_member))
        if is_followed:
            off[members] = False
            if not come:
                break
            trace.refreshed += 1
        if come <= MANY and (k < FRESH or not is_followed):
            is_member[:] = False  # the next path needs only those that violate the conditions now
        is_member |= off
    state.forget_rows(np.flatnonzero(are_free(e.segment[:n])))
    audit = trace.noted(audited(state))
    if not audit.optimal(SETTINGS.acceptable, SETTINGS.roundings):
        raise NotOptimal(f"the path ended with a relative gap of {audit.relative_gap:.1e} after {trace.events} events")
    return trace


def _admit_near(state: PathState, is_member: Bools) -> None:
    """Make members of the free examples and of the examples nearest to a kink."""
    e, n = state.examples, state.n_slots
    way = np.empty(n)
    ways_to_kinks(e, way)
    most = min(MEMBERS * linear.width(state) + int(np.count_nonzero(is_member)), int(MOST_NEAR * n))
    if most < n:
        is_member |= way <= np.partition(way, most)[most]
    else:
        is_member[:] = True


def _follow_among(state: PathState, members: Ints, trace: Trace) -> None:
    """Follow the path of ``members`` to its end, and compute the f of every example."""
    e, n = state.examples, state.n_slots
    rest = e.beta[:n].copy()
    rest[members] = 0.0
    others, X = linear.weights(state, rest), linear.rows_of(state, members)
    shift = X @ others
    losses = state.losses(members)
    losses = losses._replace(kinks=losses.kinks - shift[:, None])
    near = near_state(state, X, losses, (e.beta[members], e.segment[members], e.f[members] - shift))
    near.total = state.total - float(rest.sum()) if state.intercept else 0.0
    follow(near, trace)
    m = members.size
    e.beta[members], e.segment[members] = near.examples.beta[:m], near.examples.segment[:m]
    state.b = near.b
    _compute_f(state, others + near.examples.beta[:m] @ X)


def _descend_among(state: PathState, members: Ints) -> None:
    """Move the coefficients of ``members`` near their optimum, and compute the f of every example."""
    e, n, X, losses = state.examples, state.n_slots, linear.rows_of(state, members), state.losses(members)
    known = DescentPoint(e.beta[members], linear.weights(state), float(e.beta[:n].sum()), state.b)
    found = descend(X, losses, state.total, state.intercept, known)
    near = empty_examples(members.size)
    near.kinks[:], near.levels[:], near.n_kinks[:] = losses
    put_all(near, found.beta)
    cross_over(X, near, state.intercept)
    e.beta[members], e.segment[members], state.b = near.beta, near.segment, found.b
    _compute_f(state)


def _compute_f(state: PathState, w: Floats | None = None) -> None:
    """Set the f of every example to what features and coefficients give."""
    state.examples.f[: state.n_slots] = linear.decisions(state, w)
    state.events_since_refresh, state.heaviest, state.drift = 0, 0.0, 0.0


@compiled
def ways_to_kinks(e: Examples, out: Floats) -> None:
    """Write to ``out`` (n,) how far each f is from its nearest kink: 0 for a free example, infinite without kinks."""
    for j in range(out.size):
        way = min(abs(e.f[j] - e.kinks[j, 0]), abs(e.f[j] - e.kinks[j, 1]))
        out[j] = 0.0 if is_free(e.segment[j]) else way


@compiled_allocating
def beyond_kinks(e: Examples, n: int) -> Bools:
    """Return a mask (n,) of the bound examples with an f outside the piece of the loss that they are on."""
    off = np.zeros(n, np.bool_)
    for j in range(n):
        q = e.segment[j] // 2
        if not is_free(e.segment[j]):
            above = q < e.n_kinks[j] and e.f[j] > e.kinks[j, q]
            off[j] = above or (q > 0 and e.f[j] < e.kinks[j, q - 1])
    return off
