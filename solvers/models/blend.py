"""Blends of forecasts: experts predict a series from its past, and each is weighted by its errors so far.

The experts are a given forecast (of a model), means of past values, and two linear models, one of the values and one of
their logarithms. The linear models minimize absolute errors by weighted least squares [Holland & Welsch 1977], with
exponential forgetting. The logarithm of the median is the median of the logarithms, so the model of logarithms needs no
correction. The weights follow BOA for the absolute error: exponentiated gradients with second-order bounds
[Wintenberger, Machine Learning 2017]. The error of a forecast h steps ahead is known h readings later. An expert is
naive if it is a mean of a single value. The mean of similar days weighs past days by how little they differed from the
same weekday so far. An expert with larger recent errors than the best naive expert loses weight, by
a factor that is exponential in the excess. An expert that comes to be later has next to no weight before its first
error is known. A mean without any known value is asleep: it has the weight 0, and learns
nothing [Gaillard, Stoltz & van Erven, COLT 2014]. The size of the state does not grow with the number of readings.
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
DISCOUNT = 0.999  #: of what is known of experts, an error
RATE = 0.7  #: times the learning rates of BOA
KEPT = 0.005  #: share of the weights that stays as it is at first
LATELY, CAUTION = 0.99, 8.0  #: discount of errors that are compared with naive ones, and what a worse one costs
KNOWN = 0.2  #: times the longest record of errors: naive experts with a shorter one are no measure of others
FORGETTING = 0.999  #: of what the linear experts have learnt, an example
RIDGE = 10.0
FAR = 10.0  #: widths: what the linear experts see and learn counts as no further
NEAR, HEAVIEST = 0.2, 10.0  #: an example weighs as its error over the usual one times NEAR, inverted, and at most this
BEYOND = 0.1  #: times the range of what was seen: experts forecast no further out
SURPRISE = 8.0  #: times the usual difference of experts: more counts as this
EARLY = 20  #: examples, before which errors are not weighed
SCALED = 30  #: examples with a mean, below which it is divided by the width of changes
CONSTANT = 0.3
LO, HI, APART, LEARNT, HEAD = range(5)  #: where numbers stand in a state, and how many
BETTER, SQUARES, LARGEST, ERRORS, ERRED, ROWS = range(6)  #: rows of numbers of experts behind these, and how many
UNIT, MIDDLE, SPREAD, ERROR, KIND, ZERO, SIZE, NUMBERS = range(8)  #: the same in the part of a linear expert
AS_IS, LOG, ASINH = 0.0, 1.0, 2.0  #: kinds: what a linear expert makes of values
GIVEN, LINEAR = 1, 2  #: experts that are no means
DAYS, WEEKDAYS = 14, 7  #: days of which a mean counts those that resemble the day, and days that have their own record
NEARNESS = 6.0  #: power of a past day's usual difference, inverted, that is its weight in that mean
PRIOR_DAYS = 1.0  #: days of differences of all weekdays that count with those of one
DAYS_KEPT = 0.999  #: discount of the differences, a reading of the same weekday


@by_reference
class Lookback(NamedTuple):
    """Means of past values: the first ``experts`` are experts; all but mean 0 are features of the linear experts."""

    back: Ints  #: (m,) how many readings before the newest each value lies, mean by mean; mean 0 is the newest alone
    first: Ints  #: (means + 1,) where each begins
    experts: int  #: how many means are experts
    cycles: Floats  #: (c,) cycles in readings, of which sine and cosine are seen
    step: int  #: how many readings ahead
    day: int  #: readings a day; 0: there is no mean of similar days


def expert_count(look: Lookback) -> int:
    """Return the number of experts: the given forecast, the means, and the linear experts."""
    return GIVEN + look.experts + (1 if look.day else 0) + LINEAR


def feature_count(look: Lookback) -> int:
    """Return the number of features of a linear expert: means, cycles, the level, and a constant."""
    return mean_count(look) - 1 + 2 * look.cycles.size + 2


def mean_count(look: Lookback) -> int:
    """Return the number of means; the last two may be those of similar days, of the time forecast and of now."""
    return look.first.size - 1 + (2 if look.day else 0)


def new_state(look: Lookback) -> Floats:
    """Return the state of a new blend in one array, which :func:`learn` and :func:`weigh` modify."""
    d = feature_count(look)
    days = (WEEKDAYS + 1) * 2 * DAYS if look.day else 0
    state = np.zeros(HEAD + ROWS * expert_count(look) + LINEAR * _linear_size(d) + days)
    state[[LO, HI]] = np.inf, -np.inf
    for i in range(LINEAR):
        part = linear_part(look, state, i)
        part[[UNIT, SPREAD, SIZE]], part[NUMBERS : NUMBERS + d] = 1.0, 1.0
    return state


def linear_part(look: Lookback, state: Floats, i: int) -> Floats:
    """Return a linear expert's part of the state, as a view: numbers, widths of features, coefficients, sums."""
    size = _linear_size(feature_count(look))
    return state[HEAD + ROWS * expert_count(look) + i * size :][:size]


def _linear_size(d: int) -> int:
    return NUMBERS + 3 * d + d * (d + 1) // 2


def forget_record(look: Lookback, state: Floats) -> None:
    """Reset the weights of all experts to their initial values."""
    state[HEAD : HEAD + ROWS * expert_count(look)] = 0.0
    state[APART] = 0.0


def shift(look: Lookback, state: Floats, change: float) -> None:
    """Move the level of the linear experts by ``change``, and widen the range of known values by ``change``."""
    for i in range(LINEAR):
        part = linear_part(look, state, i)
        if part[KIND] == LOG:
            part[MIDDLE] = np.log(max(np.exp(part[MIDDLE]) - part[SIZE] + change, 0.0) + part[SIZE])
        else:
            part[ZERO if part[KIND] == ASINH else MIDDLE] += change
    state[LO], state[HI] = min(state[LO], state[LO] + change), max(state[HI], state[HI] + change)


def forecast(look: Lookback, values: Floats, at: int, slot: int, given: float, state: Floats) -> tuple[Floats, Floats]:
    """Return all experts' forecasts of the value ``look.step`` readings ahead, (experts,), and their weights.

    The weights sum to 1. An expert that is asleep has the forecast NaN and the weight 0.

    Parameters
    ----------
    values : (n,) readings, oldest first, of which the newest that is known is that ``at``, which has number ``slot``
    given : the forecast that is no mean
    """
    found = np.empty((2, expert_count(look)))
    _forecast()(look, values, at, slot, given, state, found, *_work(look))
    return found[0], found[1]


def blended(said: Floats, weights: Floats) -> float:
    """Return the weighted mean of the experts' forecasts."""
    return float(np.where(weights > 0.0, said, 0.0) @ weights)


def learn(look: Lookback, values: Floats, at: int, slot: int, actual: float, state: Floats) -> None:
    """Train the linear experts on ``actual``, the value ``look.step`` after reading ``at``; widen the value range."""
    d = feature_count(look)
    _learn()(look, values, at, slot, actual, state, *_work(look), np.empty((d, d)))


def weigh(look: Lookback, said: Floats, value: float, actual: float, state: Floats) -> None:
    """Update the weights from the experts' forecasts ``said`` (experts,), their blend ``value``, and ``actual``."""
    _weigh()(look, said, value, actual, state)


def replay(
    look: Lookback, values: Floats, at: Ints, slots: Ints, actual: Floats, given: Floats, state: Floats
) -> Floats:
    """Blend and learn again at the readings ``at`` (n,), ascending; return the blends, (n,).

    The scales of features are computed from these readings. Where ``given`` is NaN, there is no blend. Each value of
    ``actual`` is learnt only when it would have been known.
    """
    d, count = feature_count(look), expert_count(look)
    if at.size:
        means = np.empty((at.size, mean_count(look)))
        _look_back()(look, values, at, slots, state.copy(), means)
        state[LO], state[HI] = min(values.min(), actual.min()), max(values.max(), actual.max())
        for i in range(LINEAR):
            part = linear_part(look, state, i)
            part[[KIND, ZERO, SIZE]] = _kind_of(values[at], actual) if i else (AS_IS, 0.0, 1.0)
            seen = _as_seen(means, *part[[KIND, ZERO, SIZE]])
            last, moved = seen[:, 0], _as_seen(actual, *part[[KIND, ZERO, SIZE]]) - seen[:, 0]
            part[MIDDLE], part[SPREAD], part[UNIT] = np.median(last), _spread(last), _spread(moved)
            for k in range(1, mean_count(look)):
                off = (seen[:, k] - last)[np.isfinite(seen[:, k])]
                part[NUMBERS + k - 1] = _spread(off) if off.size >= SCALED else part[UNIT]
    out = np.full(at.size, np.nan)
    work = np.empty((at.size, count)), np.empty((2, count)), *_work(look), np.empty((d, d))
    _replay()(look, values, at, slots, actual, given, state, out, *work)
    return out


def _work(look: Lookback) -> tuple[Floats, Floats]:
    return np.empty(mean_count(look)), np.empty((2, feature_count(look)))


def _kind_of(values: Floats, actual: Floats) -> tuple[float, float, float]:
    """Return the kind of logarithm for ``values`` (inverse sinh if any value is negative), its zero and its unit."""
    middle = float(np.median(values))
    if min(values.min(), actual.min()) >= 0.0:
        return LOG, 0.0, middle or float(values.mean()) or 1.0
    return ASINH, middle, 2.0 * float(np.median(np.abs(values - middle))) or float(values.std()) or 1.0


def _as_seen(x: Floats, kind: float, zero: float, size: float) -> Floats:
    """Return values on the scale of a linear expert: unchanged, or their logarithms."""
    if kind == LOG:
        return np.asarray(np.log(np.maximum(x, 0.0) + size))
    return np.asarray(np.arcsinh((x - zero) / size)) if kind == ASINH else x


def _spread(x: Floats) -> float:
    """Return the standard deviation of ``x`` (n,) with outliers clipped, or 1 if it is 0."""
    low, middle, high = np.quantile(x, [1 / 6, 1 / 2, 5 / 6])
    most = FAR * (high - low) / 2 if high > low else np.inf
    return float(np.clip(x, middle - most, middle + most).std()) or 1.0


@cache
def _forecast() -> Callable[..., None]:
    return entry_point(_forecast_now, *_EXAMPLE[:2], 0, 0, 1.0, _EXAMPLE[1], _TABLE, _EXAMPLE[1], _TABLE)


@cache
def _learn() -> Callable[..., None]:
    return entry_point(_learn_now, *_EXAMPLE[:2], 0, 0, 1.0, _EXAMPLE[1], _EXAMPLE[1], _TABLE, _TABLE)


@cache
def _weigh() -> Callable[..., None]:
    return entry_point(_weigh_now, *_EXAMPLE[:2], 1.0, 1.0, _EXAMPLE[1])


@cache
def _look_back() -> Callable[..., None]:
    return entry_point(_all_means, *_EXAMPLE[:2], _NUMBERS, _NUMBERS, _EXAMPLE[1], _TABLE)


@cache
def _replay() -> Callable[..., None]:
    line = _EXAMPLE[1]
    return entry_point(
        _replay_all, *_EXAMPLE[:2], _NUMBERS, _NUMBERS, line, line, line, line, _TABLE, _TABLE, line, _TABLE, _TABLE
    )


_NUMBERS, _TABLE = np.zeros(1, np.int64), np.zeros((1, 1))
_EXAMPLE: tuple[Any, Any] = (Lookback(_NUMBERS, _NUMBERS, 1, np.zeros(1), 1, 0), np.zeros(1))


@compiled_in_order
def _means(look: Lookback, values: Floats, at: int, slot: int, state: Floats, means: Floats) -> None:
    """Write each mean over its known values to ``means``, and NaN for a mean without any."""
    if look.day:
        means[-2] = _similar(look, values, at, slot, look.step, state)
        means[-1] = _similar(look, values, at, slot, 0, state)
    for k in range(look.first.size - 1):
        total, n = 0.0, 0
        for j in range(look.first[k], look.first[k + 1]):
            if look.back[j] <= at:
                total += values[at - look.back[j]]
                n += 1
        means[k] = total / n if n else np.nan


@compiled_in_order
def _days(look: Lookback, slot: int, state: Floats) -> int:
    """Return where the state has the record of a slot's weekday: summed differences from past days, then counts."""
    return state.size - (1 + WEEKDAYS - slot // look.day % WEEKDAYS) * 2 * DAYS


@compiled_in_order
def _learn_days(look: Lookback, values: Floats, at: int, slot: int, state: Floats) -> None:
    """Learn how much the value ``at`` differs from those of the same time on past days."""
    if not look.day:
        return
    for part in (_days(look, slot, state), state.size - 2 * DAYS):
        for k in range(min(DAYS, at // look.day)):
            state[part + k] = DAYS_KEPT * state[part + k] + abs(values[at] - values[at - (k + 1) * look.day])
            state[part + DAYS + k] = DAYS_KEPT * state[part + DAYS + k] + 1.0


@compiled_in_order
def _usual(look: Lookback, part: int, k: int, state: Floats) -> float:
    """Return the usual difference of a weekday from ``k`` + 1 days before; of few, with those of all weekdays."""
    own, every = state[part + DAYS + k], state.size - 2 * DAYS + k
    if state[every + DAYS] <= 0.0:
        return np.nan
    rest = look.day * PRIOR_DAYS
    return float((state[part + k] + rest * state[every] / state[every + DAYS]) / (own + rest))


@compiled_in_order
def _learn_days_before(look: Lookback, values: Floats, at: int, slot: int, state: Floats) -> None:
    for i in range(at):
        _learn_days(look, values, i, slot - at + i, state)


@compiled_in_order
def _similar(look: Lookback, values: Floats, at: int, slot: int, ahead: int, state: Floats) -> float:
    """Return the mean of the same time on past days, or NaN; days that differ less from this weekday count more."""
    part, least = _days(look, slot + ahead, state), np.inf
    first = max(0, -(-ahead // look.day) - 1)
    last = min(DAYS, (at + ahead) // look.day)
    for k in range(first, last):
        usual = _usual(look, part, k, state)
        if usual < least:
            least = usual
    total, n = 0.0, 0.0
    for k in range(first, last):
        usual = _usual(look, part, k, state)
        if usual >= 0.0:
            weight = (least / usual) ** NEARNESS if usual > least else 1.0
            total += weight * values[at + ahead - (k + 1) * look.day]
            n += weight
    return total / n if n > 0.0 else np.nan


@compiled_in_order
def _count(look: Lookback) -> int:
    return int(GIVEN + look.experts + (1 if look.day else 0) + LINEAR)


@compiled_in_order
def _clipped(x: float) -> float:
    return FAR if x > FAR else -FAR if x < -FAR else x


@compiled_in_order
def _seen_as(state: Floats, part: int, x: float) -> float:
    """Return a value on the scale of a linear expert: unchanged, or its logarithm."""
    if state[part + KIND] == LOG:
        return float(np.log(max(x, 0.0) + state[part + SIZE]))
    if state[part + KIND] == ASINH:
        return float(np.arcsinh((x - state[part + ZERO]) / state[part + SIZE]))
    return x


@compiled_in_order
def _meant_by(state: Floats, part: int, x: float) -> float:
    """Return the value that is ``x`` on the scale of a linear expert: the inverse of ``_seen_as``."""
    if state[part + KIND] == LOG:
        return float(np.exp(min(x, 700.0)) - state[part + SIZE])
    if state[part + KIND] == ASINH:
        return float(np.sinh(min(700.0, max(-700.0, x))) * state[part + SIZE] + state[part + ZERO])
    return x


@compiled_in_order
def _features(look: Lookback, means: Floats, slot: int, state: Floats, part: int, x: Floats) -> float:
    """Write a linear expert's features to ``x`` (d,); return the newest value on its scale. Unknown features are 0."""
    last = _seen_as(state, part, means[0])
    i = means.size - 1
    for k in range(i):
        off = 0.0 if np.isnan(means[k + 1]) else _seen_as(state, part, means[k + 1]) - last
        x[k] = _clipped(off / state[part + NUMBERS + k])
    for j in range(look.cycles.size):
        angle = 2.0 * np.pi * (((slot + look.step) % look.cycles[j]) / look.cycles[j])
        x[i], x[i + 1] = np.sin(angle), np.cos(angle)
        i += 2
    x[i], x[i + 1] = _clipped((last - state[part + MIDDLE]) / state[part + SPREAD]), CONSTANT
    return last


@compiled_in_order
def _linear(x: Floats, state: Floats, theta: int) -> float:
    total = 0.0
    for k in range(x.size):
        total += x[k] * state[theta + k]
    return total


@compiled_in_order
def _part(count: int, d: int, i: int) -> int:
    """Return the index in the state where the part of a linear expert begins."""
    return HEAD + ROWS * count + i * (NUMBERS + 3 * d + d * (d + 1) // 2)


@compiled_in_order
def _forecast_now(
    look: Lookback, values: Floats, at: int, slot: int, given: float, state: Floats, found: Floats, means: Floats,
    work: Floats,
) -> None:  # fmt: skip
    count, x = _count(look), work[0]
    _means(look, values, at, slot, state, means)
    found[0, 0] = given
    for k in range(look.experts):
        found[0, GIVEN + k] = means[k]
    if look.day:
        found[0, GIVEN + look.experts] = means[-2]
    margin = BEYOND * (state[HI] - state[LO])
    for i in range(LINEAR):
        part = _part(count, x.size, i)
        last = _features(look, means, slot, state, part, x)
        said = last + state[part + UNIT] * _linear(x, state, part + NUMBERS + x.size)
        said = _meant_by(state, part, said)
        if state[HI] >= state[LO]:
            said = min(state[HI] + margin, max(state[LO] - margin, said))
        found[0, count - LINEAR + i] = said
    _weights(look, count, state, found)


@compiled_in_order
def _prior(count: int, k: int) -> float:
    return PRIOR if k == 0 else (1.0 - PRIOR) / (count - 1)


@compiled_in_order
def _rate(count: int, k: int, state: Floats) -> float:
    """Return the learning rate of an expert, 0 before the first error."""
    largest, squares = state[HEAD + LARGEST * count + k], state[HEAD + SQUARES * count + k]
    if largest <= 0.0:
        return 0.0
    rate: float = RATE * min(0.5 / largest, np.sqrt(-np.log(_prior(count, k)) / squares))
    return rate


@compiled_in_order
def _is_naive(look: Lookback, k: int) -> bool:
    return GIVEN <= k < GIVEN + look.experts and look.first[k - GIVEN + 1] - look.first[k - GIVEN] == 1


@compiled_in_order
def _error(count: int, k: int, state: Floats) -> float:
    """Return the recent mean error of an expert, or 0 before its first error."""
    n: float = state[HEAD + ERRED * count + k]
    return float(state[HEAD + ERRORS * count + k] / n) if n > 0.0 else 0.0


@compiled_in_order
def _caution(count: int, k: int, state: Floats, naive: float) -> float:
    """Return what to subtract from the logarithm of an expert's weight if its recent error exceeds ``naive``."""
    error = _error(count, k, state)
    if error <= naive:
        return 0.0
    known = CAUTION * (1.0 - LATELY) * state[HEAD + ERRED * count + k]
    return float(known * (error / naive - 1.0)) if naive > 0.0 else np.inf


@compiled_in_order
def _weights(look: Lookback, count: int, state: Floats, found: Floats) -> None:
    """Write the experts' weights after their forecasts; an expert with the forecast NaN gets the weight 0."""
    said, out = found[0], found[1]
    fastest, most, naive, longest = 0.0, -np.inf, np.inf, 0.0
    for k in range(count):
        fastest = max(fastest, _rate(count, k, state))
        longest = max(longest, state[HEAD + ERRED * count + k])
    for k in range(count):
        is_known = state[HEAD + ERRED * count + k] >= KNOWN * longest
        if _is_naive(look, k) and not np.isnan(said[k]) and is_known:
            naive = min(naive, _error(count, k, state))
    for k in range(count):
        rate, is_known = _rate(count, k, state), state[HEAD + ERRED * count + k] >= KNOWN * longest
        out[k] = np.log(_prior(count, k)) + rate * state[HEAD + BETTER * count + k]
        if not (_is_naive(look, k) and is_known):
            out[k] -= _caution(count, k, state, naive)
        if fastest > 0.0:
            out[k] += np.log((rate if rate > 0.0 else fastest) / fastest)
            if state[HEAD + ERRED * count + k] <= 0.0:
                out[k] = -np.inf
        if not np.isnan(said[k]):
            most = max(most, out[k])
    total, awake = 0.0, 0.0
    for k in range(count):
        if np.isnan(said[k]):
            out[k] = 0.0
        else:
            out[k] = np.exp(out[k] - most)
            awake += _prior(count, k)
        total += out[k]
    for k in range(count):
        if not np.isnan(said[k]):
            out[k] = (1.0 - KEPT) * out[k] / total + KEPT * _prior(count, k) / awake


@compiled_in_order
def _weigh_now(look: Lookback, said: Floats, value: float, actual: float, state: Floats) -> None:
    count = said.size
    sign = 1.0 if value > actual else -1.0 if value < actual else 0.0
    apart = 0.0
    for k in range(count):
        if not np.isnan(said[k]):
            apart = max(apart, abs(value - said[k]))
    cap = SURPRISE * state[APART] if state[APART] > 0.0 else np.inf
    state[APART] += (min(apart, cap) - state[APART]) * (0.02 if state[APART] > 0.0 else 1.0)
    for k in range(count):
        if np.isnan(said[k]):
            continue
        better = sign * (value - said[k])
        better = min(cap, max(-cap, better))
        for row in (BETTER, SQUARES, LARGEST):
            state[HEAD + row * count + k] *= DISCOUNT
        at = HEAD + LARGEST * count + k
        state[at] = max(state[at], abs(better))
        state[HEAD + SQUARES * count + k] += better * better
        rate = _rate(count, k, state)
        surprise = 2.0 * state[at] if rate * better > 0.5 else 0.0
        state[HEAD + BETTER * count + k] += 0.5 * (better - rate * better * better + surprise)
        at = HEAD + ERRORS * count + k
        state[at] = LATELY * state[at] + abs(said[k] - actual)
        at = HEAD + ERRED * count + k
        state[at] = LATELY * state[at] + 1.0


@compiled_in_order
def _learn_now(
    look: Lookback, values: Floats, at: int, slot: int, actual: float, state: Floats, means: Floats, work: Floats,
    factor: Floats,
) -> None:  # fmt: skip
    x, y, d = work[0], work[1], work.shape[1]
    state[LO], state[HI] = min(state[LO], actual), max(state[HI], actual)
    state[LEARNT] += 1.0
    _means(look, values, at, slot, state, means)
    _learn_days(look, values, at, slot, state)
    for expert in range(LINEAR):
        part = _part(_count(look), d, expert)
        theta = part + NUMBERS + d
        right, square = theta + d, theta + 2 * d
        last = _features(look, means, slot, state, part, x)
        target = _clipped((_seen_as(state, part, actual) - last) / state[part + UNIT])
        error = abs(target - _linear(x, state, theta))
        weight = 1.0
        if state[LEARNT] > EARLY:
            weight = min(HEAVIEST, state[part + ERROR] / (NEAR * error + 1e-12))
        state[part + ERROR] += (error - state[part + ERROR]) * max(0.002, 1.0 / state[LEARNT])
        for i in range(d):
            state[right + i] = state[right + i] * FORGETTING + weight * x[i] * target
            row = square + i * (i + 1) // 2
            for j in range(i + 1):
                state[row + j] = state[row + j] * FORGETTING + weight * x[i] * x[j]
        _solve(state, square, right, theta, y, factor)


@compiled_in_order
def _solve(state: Floats, square: int, right: int, theta: int, y: Floats, factor: Floats) -> None:
    """Solve for the coefficients by a Cholesky factorization; the state has the matrix's lower half, row by row."""
    d = y.size
    for i in range(d):
        row = square + i * (i + 1) // 2
        for j in range(i + 1):
            total = state[row + j] + (RIDGE if i == j else 0.0)
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
def _all_means(look: Lookback, values: Floats, at: Ints, slots: Ints, state: Floats, out: Floats) -> None:
    _learn_days_before(look, values, at[0], slots[0], state)
    for i in range(at.size):
        _means(look, values, at[i], slots[i], state, out[i])
        _learn_days(look, values, at[i], slots[i], state)


@compiled_in_order
def _replay_all(
    look: Lookback, values: Floats, at: Ints, slots: Ints, actual: Floats, given: Floats, state: Floats, out: Floats,
    said: Floats, found: Floats, means: Floats, work: Floats, factor: Floats,
) -> None:  # fmt: skip
    known = 0
    if at.size:
        _learn_days_before(look, values, at[0], slots[0], state)
    for i in range(at.size + 1):
        while known < min(i, at.size) and (i == at.size or slots[known] + look.step <= slots[i]):
            _learn_now(look, values, at[known], slots[known], actual[known], state, means, work, factor)
            if not np.isnan(out[known]):
                _weigh_now(look, said[known], out[known], actual[known], state)
            known += 1
        if i == at.size or np.isnan(given[i]):
            continue
        _forecast_now(look, values, at[i], slots[i], given[i], state, found, means, work)
        out[i] = 0.0
        for k in range(said.shape[1]):
            said[i, k] = found[0, k]
            if found[1, k] > 0.0:
                out[i] += found[0, k] * found[1, k]
