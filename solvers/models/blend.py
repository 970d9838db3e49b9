"""Blends of forecasts: experts that look back on a series, and their weights by their errors so far.

Experts are a forecast that is given (of a model), means of past values, and a linear model of all that came: least
absolute errors by weighted least squares [Holland & Welsch 1977], with exponential forgetting. Weights are those of BOA
on the absolute error: exponentiated gradients with second-order bounds [Wintenberger, Machine Learning 2017], where the
errors of h steps ahead are known h readings later. The state is as large after a million readings as after ten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled_in_order
from livesvm.solvers.runtime.entry_point import entry_point
from livesvm.solvers.runtime.types import Floats, Ints

PRIOR = 0.5  #: weight of the given forecast before the first error; the others share the rest
DISCOUNT = 0.998  #: of what is known of experts, an error
KEPT = 0.02  #: share of the weights that stays as it is at first
FORGETTING = 0.999  #: of what the linear expert has learnt, an example
RIDGE = 10.0
FAR = 10.0  #: widths: what the linear expert sees and learns counts as no further
NEAR, HEAVIEST = 0.2, 10.0  #: an example weighs as its error over the usual one times NEAR, inverted, and at most this
BEYOND = 0.1  #: times the range of what was seen: experts forecast no further out
SURPRISE = 8.0  #: times the usual difference of experts: more counts as this
EARLY = 20  #: examples, before which errors are not weighed
CONSTANT = 0.3
LO, HI, UNIT, MIDDLE, SPREAD, ERROR, APART, LEARNT, HEAD = range(9)  #: where numbers stand in a state, and how many
GIVEN, LINEAR = 1, 1  #: experts that are no means


@by_reference
class Lookback(NamedTuple):
    """Means of past values: the first ``experts`` are forecasts, and all but the first of all the linear one sees."""

    back: Ints  #: (m,) how many readings before the newest each value lies, mean by mean; mean 0 is the newest alone
    first: Ints  #: (means + 1,) where each begins
    experts: int  #: how many means are experts
    cycles: Floats  #: (c,) cycles in readings, of which sine and cosine are seen
    step: int  #: how many readings ahead


def expert_count(look: Lookback) -> int:
    """Return how many experts there are: the given one, means, and the linear one."""
    return GIVEN + look.experts + LINEAR


def feature_count(look: Lookback) -> int:
    """Return how many features the linear expert sees: means, cycles, the level, and a constant."""
    return look.first.size - 2 + 2 * look.cycles.size + 2


def new_state(look: Lookback) -> Floats:
    """Return what a blend knows at first, one array, which :func:`learn` changes."""
    d = feature_count(look)
    state = np.zeros(HEAD + 3 * expert_count(look) + 3 * d + d * d)
    state[[LO, HI, UNIT, SPREAD]] = np.inf, -np.inf, 1.0, 1.0
    widths(look, state)[:] = 1.0
    return state


def widths(look: Lookback, state: Floats) -> Floats:
    """Return by what features are divided, (d,), as a part of the state."""
    return state[HEAD + 3 * expert_count(look) :][: feature_count(look)]


def forget_record(look: Lookback, state: Floats) -> None:
    """Have weights be as at first."""
    state[HEAD : HEAD + 3 * expert_count(look)] = 0.0
    state[APART] = 0.0


def shift(state: Floats, change: float) -> None:
    """Have the linear expert go on at another level, and the range of what was seen hold that."""
    state[MIDDLE] += change
    state[LO], state[HI] = min(state[LO], state[LO] + change), max(state[HI], state[HI] + change)


def forecast(look: Lookback, values: Floats, at: int, slot: int, given: float, state: Floats) -> tuple[Floats, Floats]:
    """Return what each expert says of the value ``look.step`` ahead, (experts,), and their weights, which sum to 1.

    Parameters
    ----------
    values : (n,) readings, oldest first, of which the newest that is known is that ``at``, which has number ``slot``
    given : the forecast that is no mean
    """
    found = np.empty((2, expert_count(look)))
    _forecast()(look, values, at, slot, given, state, found, np.empty((2, feature_count(look))))
    return found[0], found[1]


def blended(said: Floats, weights: Floats) -> float:
    """Return the blend of what experts say."""
    return float(said @ weights)


def learn(look: Lookback, values: Floats, at: int, slot: int, actual: float, state: Floats) -> None:
    """Have the linear expert learn what came ``look.step`` after the reading ``at``, and the range its value."""
    d = feature_count(look)
    _learn()(look, values, at, slot, actual, state, np.empty((2, d)), np.empty((d, d)))


def weigh(look: Lookback, said: Floats, value: float, actual: float, state: Floats) -> None:
    """Move weights by what experts had ``said``, (experts,), where ``value`` was their blend."""
    _weigh()(look, said, value, actual, state)


def replay(
    look: Lookback, values: Floats, at: Ints, slots: Ints, actual: Floats, given: Floats, state: Floats
) -> Floats:
    """Go once more through readings ``at`` (n,), ascending, with what came of them; return the blends, (n,).

    Scales come from these. Where ``given`` is NaN nothing is blended. Each value is learnt once it would be known.
    """
    d = feature_count(look)
    seen = np.empty((at.size, d))
    _see()(look, values, at, slots, state, seen)
    moved = actual - values[at]
    if at.size:
        state[LO], state[HI] = min(values.min(), actual.min()), max(values.max(), actual.max())
        state[MIDDLE], state[SPREAD], state[UNIT] = np.median(values[at]), *_spreads(np.stack([values[at], moved], 1))
        widths(look, state)[:] = _spreads(seen)
    out = np.full(at.size, np.nan)
    work = (
        np.empty((at.size, expert_count(look))),
        np.empty((2, expert_count(look))),
        np.empty((2, d)),
        np.empty((d, d)),
    )
    _replay()(look, values, at, slots, actual, given, state, out, *work)
    return out


def _spreads(X: Floats) -> Floats:
    """Return deviations of columns (n, d), of which outliers are no large part, or 1 where there is none; (d,)."""
    low, middle, high = np.quantile(X, [1 / 6, 1 / 2, 5 / 6], axis=0)
    most = np.where(high > low, FAR * (high - low) / 2, np.inf)
    found = np.clip(X, middle - most, middle + most).std(axis=0)
    return np.asarray(np.where(found > 0, found, 1.0))


@cache
def _forecast() -> Callable[..., None]:
    return entry_point(_forecast_now, *_EXAMPLE[:2], 0, 0, 1.0, _EXAMPLE[1], _TABLE, _TABLE)


@cache
def _learn() -> Callable[..., None]:
    return entry_point(_learn_now, *_EXAMPLE[:2], 0, 0, 1.0, _EXAMPLE[1], _TABLE, _TABLE)


@cache
def _weigh() -> Callable[..., None]:
    return entry_point(_weigh_now, *_EXAMPLE[:2], 1.0, 1.0, _EXAMPLE[1])


@cache
def _see() -> Callable[..., None]:
    return entry_point(_see_all, *_EXAMPLE[:2], _NUMBERS, _NUMBERS, _EXAMPLE[1], _TABLE)


@cache
def _replay() -> Callable[..., None]:
    line = _EXAMPLE[1]
    return entry_point(
        _replay_all, *_EXAMPLE[:2], _NUMBERS, _NUMBERS, line, line, line, line, _TABLE, _TABLE, _TABLE, _TABLE
    )


_NUMBERS, _TABLE = np.zeros(1, np.int64), np.zeros((1, 1))
_EXAMPLE: tuple[Any, Any] = (Lookback(_NUMBERS, _NUMBERS, 1, np.zeros(1), 1), np.zeros(1))


@compiled_in_order
def _mean(look: Lookback, values: Floats, at: int, k: int) -> float:
    """Return the mean of those of the values that are known; of none, the newest."""
    total, n = 0.0, 0
    for j in range(look.first[k], look.first[k + 1]):
        if look.back[j] <= at:
            total += values[at - look.back[j]]
            n += 1
    mean: float = total / n if n else float(values[at])
    return mean


@compiled_in_order
def _features(look: Lookback, values: Floats, at: int, slot: int, state: Floats, x: Floats) -> None:
    """Write what the linear expert sees, (d,), but for the scale of means."""
    last, means = values[at], look.first.size - 1
    for k in range(1, means):
        x[k - 1] = _mean(look, values, at, k) - last
    i = means - 1
    for j in range(look.cycles.size):
        angle = 2.0 * np.pi * (((slot + look.step) % look.cycles[j]) / look.cycles[j])
        x[i], x[i + 1] = np.sin(angle), np.cos(angle)
        i += 2
    x[i], x[i + 1] = _clipped((last - state[MIDDLE]) / state[SPREAD]), CONSTANT


@compiled_in_order
def _clipped(x: float) -> float:
    return FAR if x > FAR else -FAR if x < -FAR else x


@compiled_in_order
def _seen(look: Lookback, values: Floats, at: int, slot: int, state: Floats, x: Floats) -> None:
    """Write what the linear expert sees, (d,)."""
    _features(look, values, at, slot, state, x)
    width = HEAD + 3 * (look.experts + GIVEN + LINEAR)
    for k in range(look.first.size - 2):
        x[k] = _clipped(x[k] / state[width + k])


@compiled_in_order
def _linear(x: Floats, state: Floats, theta: int) -> float:
    total = 0.0
    for k in range(x.size):
        total += x[k] * state[theta + k]
    return total


@compiled_in_order
def _forecast_now(
    look: Lookback, values: Floats, at: int, slot: int, given: float, state: Floats, found: Floats, work: Floats
) -> None:
    count, x = look.experts + GIVEN + LINEAR, work[0]
    _seen(look, values, at, slot, state, x)
    found[0, 0] = given
    for k in range(look.experts):
        found[0, GIVEN + k] = _mean(look, values, at, k)
    linear = values[at] + state[UNIT] * _linear(x, state, HEAD + 3 * count + x.size)
    margin = BEYOND * (state[HI] - state[LO])
    if state[HI] >= state[LO]:
        linear = min(state[HI] + margin, max(state[LO] - margin, linear))
    found[0, count - 1] = linear
    _weights(count, state, found[1])


@compiled_in_order
def _rate(count: int, k: int, state: Floats, prior: float) -> float:
    """Return the learning rate of an expert, 0 before the first error."""
    largest, squares = state[HEAD + 2 * count + k], state[HEAD + count + k]
    if largest <= 0.0:
        return 0.0
    rate: float = min(0.5 / largest, np.sqrt(-np.log(prior) / squares))
    return rate


@compiled_in_order
def _weights(count: int, state: Floats, out: Floats) -> None:
    fastest, most = 0.0, -np.inf
    for k in range(count):
        prior = PRIOR if k == 0 else (1.0 - PRIOR) / (count - 1)
        fastest = max(fastest, _rate(count, k, state, prior))
    for k in range(count):
        prior = PRIOR if k == 0 else (1.0 - PRIOR) / (count - 1)
        rate = _rate(count, k, state, prior)
        out[k] = np.log(prior) + rate * state[HEAD + k]
        if fastest > 0.0:
            out[k] += np.log((rate if rate > 0.0 else fastest) / fastest)
        most = max(most, out[k])
    total = 0.0
    for k in range(count):
        out[k] = np.exp(out[k] - most)
        total += out[k]
    for k in range(count):
        prior = PRIOR if k == 0 else (1.0 - PRIOR) / (count - 1)
        out[k] = (1.0 - KEPT) * out[k] / total + KEPT * prior


@compiled_in_order
def _weigh_now(look: Lookback, said: Floats, value: float, actual: float, state: Floats) -> None:
    count = said.size
    sign = 1.0 if value > actual else -1.0 if value < actual else 0.0
    apart = 0.0
    for k in range(count):
        apart = max(apart, abs(value - said[k]))
    cap = SURPRISE * state[APART] if state[APART] > 0.0 else np.inf
    state[APART] += (min(apart, cap) - state[APART]) * (0.02 if state[APART] > 0.0 else 1.0)
    for k in range(count):
        prior = PRIOR if k == 0 else (1.0 - PRIOR) / (count - 1)
        better = sign * (value - said[k])
        better = min(cap, max(-cap, better))
        for row in range(3):
            state[HEAD + row * count + k] *= DISCOUNT
        at = HEAD + 2 * count + k
        state[at] = max(state[at], abs(better))
        state[HEAD + count + k] += better * better
        rate = _rate(count, k, state, prior)
        surprise = 2.0 * state[at] if rate * better > 0.5 else 0.0
        state[HEAD + k] += 0.5 * (better - rate * better * better + surprise)


@compiled_in_order
def _learn_now(
    look: Lookback, values: Floats, at: int, slot: int, actual: float, state: Floats, work: Floats, factor: Floats
) -> None:
    x, y, d = work[0], work[1], work.shape[1]
    theta = HEAD + 3 * (look.experts + GIVEN + LINEAR) + d
    right, square = theta + d, theta + 2 * d
    state[LO], state[HI] = min(state[LO], actual), max(state[HI], actual)
    _seen(look, values, at, slot, state, x)
    target = _clipped((actual - values[at]) / state[UNIT])
    error = abs(target - _linear(x, state, theta))
    state[LEARNT] += 1.0
    weight = 1.0
    if state[LEARNT] > EARLY:
        weight = min(HEAVIEST, state[ERROR] / (NEAR * error + 1e-12))
    state[ERROR] += (error - state[ERROR]) * max(0.002, 1.0 / state[LEARNT])
    for i in range(d):
        state[right + i] = state[right + i] * FORGETTING + weight * x[i] * target
        for j in range(i + 1):
            state[square + i * d + j] = state[square + i * d + j] * FORGETTING + weight * x[i] * x[j]
    _solve(state, square, right, theta, y, factor)


@compiled_in_order
def _solve(state: Floats, square: int, right: int, theta: int, y: Floats, factor: Floats) -> None:
    """Solve for the coefficients by Cholesky's factor; only the lower half of the matrix is kept."""
    d = y.size
    for i in range(d):
        for j in range(i + 1):
            total = state[square + i * d + j] + (RIDGE if i == j else 0.0)
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = np.sqrt(total) if i == j else total / factor[j, j]
    for i in range(d):
        total = state[right + i]
        for k in range(i):
            total -= factor[i, k] * y[k]
        y[i] = total / factor[i, i]
    for i in range(d - 1, -1, -1):
        total = y[i]
        for k in range(i + 1, d):
            total -= factor[k, i] * state[theta + k]
        state[theta + i] = total / factor[i, i]


@compiled_in_order
def _see_all(look: Lookback, values: Floats, at: Ints, slots: Ints, state: Floats, out: Floats) -> None:
    for i in range(at.size):
        _features(look, values, at[i], slots[i], state, out[i])


@compiled_in_order
def _replay_all(
    look: Lookback, values: Floats, at: Ints, slots: Ints, actual: Floats, given: Floats, state: Floats, out: Floats,
    said: Floats, found: Floats, work: Floats, factor: Floats,
) -> None:  # fmt: skip
    known = 0
    for i in range(at.size):
        while known < i and slots[known] + look.step <= slots[i]:
            _learn_now(look, values, at[known], slots[known], actual[known], state, work, factor)
            if not np.isnan(out[known]):
                _weigh_now(look, said[known], out[known], actual[known], state)
            known += 1
        if np.isnan(given[i]):
            continue
        _forecast_now(look, values, at[i], slots[i], given[i], state, found, work)
        out[i] = 0.0
        for k in range(said.shape[1]):
            said[i, k] = found[0, k]
            out[i] += found[0, k] * found[1, k]
    while known < at.size:
        _learn_now(look, values, at[known], slots[known], actual[known], state, work, factor)
        if not np.isnan(out[known]):
            _weigh_now(look, said[known], out[known], actual[known], state)
        known += 1
