"""Parts of feeds against their definitions, written down plainly, on whatever comes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from livesvm.service.feeds.bands import BEYOND, RATE, Side
from livesvm.service.feeds.drift import CLIP, LEAST, THRESHOLD, TOLERANCE, PageHinkley
from livesvm.service.feeds.every import DAY, Every, duration, moment
from livesvm.service.feeds.features import Ahead, calendar_cycles, calendar_of, day_in, layout_of, natural_period
from livesvm.service.feeds.represent import FAR, MOVED, fitted, has_moved, spread
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.scores import Scored, StepScores
from livesvm.service.feeds.season import LEAST as LEAST_SEASON
from livesvm.service.feeds.season import _is_peak, _least_peak
from livesvm.service.feeds.spec import spec_of

STEPS = (1, 3)
numbers = st.floats(-100, 100).map(lambda x: round(x, 2))


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that two kept states agree."""
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=40), numbers)
def test_rows_are_the_newest_with_targets_that_have_come(came: list[tuple[int, bool, bool]], value: float) -> None:
    layout = layout_of(spec_of({"target": "y", "lags": 2, "rolling": {}, "time": None, "season": 3}), 3, Every(1.0))
    rows, kept, window, size, slot = Rows(layout, 2, 6, 2), list[dict[str, Any]](), 6, 9, 0
    for ordinal, (gap, drops, learns) in enumerate(came):
        slot += gap
        expected = [(i, one["n"]) for i, h in enumerate(STEPS) for one in kept[-size:] if one["slot"] == slot - h]
        assert rows.come_true(slot, STEPS, value + slot) == expected
        for i, n in expected:
            kept[n]["target"][i] = value + slot
        assert rows.append(slot, np.full(layout.shared, slot), np.full((2, layout.own), -slot)) == ordinal
        kept.append({"n": ordinal, "slot": slot, "target": [math.nan] * 2, "learnt": [False] * 2})
        if drops and ordinal > 2:
            rows.drop(ordinal - 2)
            kept[ordinal - 2] |= {"slot": -1, "target": [math.nan] * 2, "learnt": [False] * 2}
        oldest = max(0, len(kept) - window)
        assert rows.oldest == oldest
        for i in range(2):
            known = [one["n"] for one in kept[oldest:] if not math.isnan(one["target"][i])]
            assert rows.known(i) == known
            if learns:
                left = [one for one in kept[-size:] if one["learnt"][i] and one["n"] < oldest]
                assert rows.leaving(i) == [one["n"] for one in left]
                rows.learnt[rows.places(known), i] = True
                for one in kept:
                    one["learnt"][i] = one["n"] in known or (one["learnt"][i] and one not in left)
        there = kept[-size:]
        state = rows.to_arrays()
        slots = [one["slot"] for one in there]
        assert rows.by_slot == {one["slot"]: one["n"] for one in there if one["slot"] >= 0}
        shared = np.maximum(slots, 0)[:, None] * np.ones(layout.shared)
        own = np.broadcast_to(-np.maximum(slots, 0)[:, None, None], (len(there), 2, layout.own))
        told = {name: [one[name] for one in there] for name in ("target", "slot", "learnt")}
        same(state, told | {"shared": shared, "own": own, "count": len(kept)})
        back = Rows(layout, 2, 6, 2)
        back.restore(state)
        same(back.to_arrays(), state)
        assert back.by_slot == rows.by_slot


@given(st.lists(numbers, min_size=1, max_size=30), st.integers(1, 12), st.sampled_from([0.05, 0.3, 0.5]), st.data())
def test_a_side_is_a_quantile_of_the_newest_scores(
    scores: list[float], most: int, miss: float, data: st.DataObject
) -> None:
    side, level, kept = Side(miss, most), miss, list[float]()
    for score in scores:
        offset = data.draw(st.sampled_from([None, score, score - 0.01, 100.0]))
        side.learn(score, offset)
        level += 0.0 if offset is None else RATE * (miss - (score > offset))
        kept = [*kept, score][-most:]
        assert (list(side.scores), side.level) == (kept, pytest.approx(level))
    for level in (-0.01, 0.0, 0.01, miss, 0.99, 1.0, 1.2):
        side.level = level
        behind = math.ceil((len(kept) + 1) * (1 - level))  # of so many scores, the side lies at the last
        top = max(kept)
        expected = sorted(kept)[max(behind, 1) - 1] if behind <= len(kept) else top
        assert side.offset() == pytest.approx(expected if level > 0 else top + (BEYOND - 1) * abs(top))


@given(st.lists(st.floats(0, 10).map(lambda x: round(x, 1)), max_size=120), st.sampled_from([1e-3, 1.0, 1e3]))
def test_drift_is_when_errors_have_been_so_far_above_their_mean(errors: list[float], unit: float) -> None:
    test, n, mean, sums = PageHinkley(), 0, 0.0, [0.0]
    for error in [*errors, *([30.0] * 20 if len(errors) > LEAST else [])]:
        judged = n >= LEAST and mean > 0
        if judged:
            sums.append(sums[-1] + min(error / mean, CLIP) - 1 - TOLERANCE)
        speaks = sums[-1] - min(sums) > THRESHOLD
        assert test.learn(error * unit) == speaks
        if speaks:
            n, mean, sums = 0, 0.0, [0.0]
            continue
        n += 1
        mean += ((min(error, CLIP * mean) if n > LEAST and mean > 0 else error) - mean) / n
        assert vars(test) == pytest.approx(
            {"n": n, "mean": unit * mean, "sum": sums[-1], "least": min(sums)}, abs=1e-9 * unit
        )


scored = st.tuples(*[st.integers(-3, 3).map(float)] * 5, st.booleans())


@given(st.lists(scored, min_size=1, max_size=25), st.integers(0, 2**12 - 1), st.sampled_from([None, 0.8]))
def test_scores_that_are_forgotten_never_were(made: list[tuple[float, ...]], mask: int, coverage: float | None) -> None:
    scores, most, every = StepScores(coverage, 10), 10, []
    for i, (value, actual, last, seasonal, change, banded) in enumerate(made):
        low, high = (value - 1, value + 2) if banded else (math.nan, math.nan)
        every.append(Scored(i, float(i), i - 1.0, value, low, high, actual, last, seasonal, change))
        scores.learn(every[-1:])
    recent = every[-most:]
    goes = np.array([bool(mask >> i & 1) for i in range(len(recent))])
    left = [*every[:-most], *(one for one, is_gone in zip(recent, goes, strict=True) if not is_gone)]
    scores.forget(goes)
    other = StepScores(coverage, most)
    for one in left:
        other.learn([one])
    n = len(left)
    up = sum(one.actual > one.last for one in left)
    for task in ("value", "direction"):
        assert scores.overall(task) == pytest.approx(other.overall(task))
        if n and task == "direction":
            rates = {
                "model": sum((one.value > 0) == (one.actual > one.last) for one in left) / n,
                "last change": sum((one.last_change > 0) == (one.actual > one.last) for one in left) / n,
                "majority": max(up, n - up) / n,
            }
            found = scores.overall(task)
            assert [found[name] for name in ("accuracy", "last_change_accuracy", "majority_accuracy")] == list(
                rates.values()
            )
            assert found["ahead"] == max(rates, key=rates.__getitem__)  # the first of several
    banded = [one for one in left if coverage is not None and not math.isnan(one.low)]
    assert scores.overall("value").get("coverage") == (
        pytest.approx(np.mean([one.low <= one.actual <= one.high for one in banded])) if banded else None
    )
    kept = [one for one, is_gone in zip(recent, goes, strict=True) if not is_gone]
    np.testing.assert_array_equal(scores.recent, np.array(kept, float).reshape(-1, len(Scored._fields)))
    for _ in range(12):  # and the ring goes on from there
        scores.learn(every[:1])
        kept = [*kept, every[0]][-most:]
        np.testing.assert_array_equal(scores.recent, np.array(kept, float))


@given(
    st.dictionaries(st.integers(1, 12), numbers, max_size=6), st.integers(0, 4), st.sets(st.integers(1, 9), min_size=1)
)
def test_what_is_known_ahead_is_the_last_known_up_to_then(said: dict[int, float], slot: int, steps: set[int]) -> None:
    ahead, known = Ahead(1), {0: -7.0}
    for at, value in said.items():
        ahead.announce(at, (value,))
    for at in range(slot + 1):
        known[at] = said.get(at, known.get(at - 1, -7.0))
        ahead.reach(at, (known[at],))
    known |= said
    kept = Ahead(1)
    kept.restore(ahead.to_arrays())
    for one in (ahead, kept):
        assert set(one.values) == {at for at in said if at > slot}
        found = one.of(slot, tuple(sorted(steps)))
        assert found[:, 0].tolist() == [known[max(at for at in known if at <= slot + step)] for step in sorted(steps)]


@given(st.integers(0, 50), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_scales_go_with_units_and_say_when_these_have_moved(seed: int, unit: float, shift: float) -> None:
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(60, 2)), random.standard_t(2, 60)
    one, other = fitted(X, y, 1), fitted(shift + unit * X, shift + unit * y, 1)
    for name in ("centre", "width", "middle", "unit", "spreads"):
        expected = np.asarray(getattr(one, name)) * unit + (shift if name in ("centre", "middle") else 0)
        np.testing.assert_allclose(getattr(other, name), expected, rtol=1e-6, atol=1e-6 * unit)
    np.testing.assert_array_equal(one.centre, np.median(X, axis=0))
    assert (one.middle, one.spreads[1]) == (np.median(y), spread(X[:, 1]))
    low, high = np.quantile(y, [1 / 6, 5 / 6])
    far = FAR * (high - low) / 2
    assert one.unit == pytest.approx(np.clip(y, one.middle - far, one.middle + far).std())
    for factor, moves in ((MOVED * 0.999, False), (MOVED * 1.001, True), (1.001 / MOVED, False), (0.999 / MOVED, True)):
        assert has_moved(one, one.middle + factor * (y - one.middle), X[:, 1]) is moves
        assert has_moved(one, y, factor * X[:, 1]) is moves


HOUR = 3600.0


@pytest.mark.parametrize(
    ("seconds", "day", "natural", "cycles"),
    [
        (HOUR, 24, 24, 3),
        (8 * HOUR, 3, 3, 3),
        (8 * HOUR + 287, 3, 3, 2),  # a day, to within a hundredth of it
        (8 * HOUR - 287, 3, 3, 3),
        (8 * HOUR + 289, 0, 0, 2),
        (8 * HOUR - 289, 0, 0, 3),
        (12 * HOUR, 0, 14, 2),
        (DAY, 0, 7, 2),
        (7 * DAY / 3, 0, 3, 2),
        (7 * DAY / 3 + 1, 0, 3, 1),
        (4 * DAY, 0, 0, 1),
        (365.2425 * DAY / 3, 0, 0, 1),
        (122 * DAY, 0, 0, 0),
    ],
)
def test_a_day_and_a_week_are_whole_numbers_of_readings(seconds: float, day: int, natural: int, cycles: int) -> None:
    every = Every(seconds)
    assert (day_in(every), natural_period(every), len(calendar_cycles(every))) == (day, natural, cycles)


def test_a_week_is_a_season_where_it_fits_twice_into_the_window() -> None:
    for window, has in ((336, True), (335, False)):
        assert (168 in layout_of(spec_of({"target": "y", "window": window}), 24, Every(HOUR)).seasons) is has


@given(st.integers(0, 10**6), st.integers(1, 400), st.sampled_from([DAY, 7 * DAY]))
def test_the_calendar_comes_again(hours: int, count: int, cycle: float) -> None:
    zone = moment(0.0).tzinfo
    first, later = (calendar_of(HOUR * hours + n * cycle, (cycle,), zone) for n in (0, count))
    assert first == pytest.approx(later, abs=1e-6)
    angle = math.atan2(first[0], first[1]) / (2 * math.pi) % 1.0
    assert angle * cycle / HOUR % (cycle / HOUR) == pytest.approx(hours % (cycle / HOUR), abs=1e-5) or angle > 0.999


@given(st.integers(1, 31), st.integers(1, 24), st.integers(0, 60), st.integers(0, 23))
def test_months_later_is_so_many_months_between(day: int, months: int, count: int, hour: int) -> None:
    every = Every(months=months).seen((day - 1) * DAY + hour * HOUR)  # in January
    start = (day - 1) * DAY + hour * HOUR
    later = moment(every.after(start, count))
    months_later = later.year * 12 + later.month - (1970 * 12 + 1)
    assert (months_later, later.hour) == (months * count, hour)
    assert later.day == min(day, (moment(Every(months=1, day=31).after(start, months * count))).day)
    assert every.after(every.after(start, count), -count) == start
    assert round(every.between(start, every.after(start, count)), 1) == pytest.approx(count, abs=0.1)


@pytest.mark.parametrize("text", ["1ms", "1500ms", "1s", "90s", "15min", "90min", "1h", "36h", "1d", "10d", "1w", "2w"])
def test_a_duration_is_shown_as_one_that_is_the_same(text: str) -> None:
    assert duration(str(duration(text))) == duration(text)
    assert duration(text) == duration(duration(text).seconds)


CURVE = [1.0, 0.5, 0.1, 0.3, 0.6, 0.3, 0.2, 0.4, 0.7, 0.4, 0.1]


@pytest.mark.parametrize(
    ("change", "significant", "season"),
    [
        ({}, 0.3, 4),  # 0.6 is above 0.8 times 0.7
        ({4: 0.55}, 0.3, 8),
        ({}, 0.71, 0),
        ({i: min(v, LEAST_SEASON - 0.01) for i, v in enumerate(CURVE)}, 0.1, 0),
        ({2: 0.9}, 0.1, 4),  # no season is shorter than three
        ({3: 0.8}, 0.1, 3),
        ({9: 0.95}, 0.1, 9),
        ({i: 1.0 - 0.05 * i for i in range(11)}, 0.1, 0),  # no peak
    ],
)
def test_the_season_is_the_least_peak_near_the_highest(
    change: dict[int, float], significant: float, season: int
) -> None:
    r: NDArray[np.float64] = np.array([change.get(i, v) for i, v in enumerate(CURVE)])
    assert _least_peak(r, 10, significant) == season


@pytest.mark.parametrize(
    ("change", "least", "slack", "is_peak"),
    [
        ({}, 0.6, 0.0, True),
        ({}, 0.7, 0.0, False),
        ({2: 0.2, 6: 0.2, 10: 0.2}, 0.55, 0.0, False),  # no higher than somewhere before, by so much
        ({6: 0.75}, 0.3, 0.0, False),  # within a quarter of the lag before
        ({10: 0.75}, 0.3, 0.0, False),  # and behind
        ({10: 0.75}, 0.3, 0.1, True),
        ({5: 0.75}, 0.3, 0.0, True),
    ],
)
def test_a_peak_stands_out(change: dict[int, float], least: float, slack: float, is_peak: bool) -> None:
    r = np.array([change.get(i, v) for i, v in enumerate([*CURVE, 0.9])])
    assert _is_peak(r, 8, least, slack) is is_peak
