"""The window's bookkeeping, against a plain list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.models.arrays import MAX_KEY
from livesvm.service.models.commands import Batch, Edits, Removal, Update
from livesvm.service.models.window import Limits, Window
from livesvm.solvers.errors import DuplicateKey, InvalidInput, UnknownKey

OPEN = Limits(quota_examples=1000, quota_features=10)


def batch(n: int, keys: list[Any] | None = None, width: int = 2) -> Batch:
    return Batch(np.ones((n, width)), np.ones(n), keys)


def learn(window: Window, update: Update, limits: Limits = OPEN, now: float = 0.0) -> Any:
    command = window.plan(update, limits, now, None)
    window.apply(command)
    return command


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.floats(0, 10)), max_size=20),
    st.one_of(st.none(), st.integers(6, 12)),
    st.one_of(st.none(), st.floats(1, 20)),
)
def test_any_sequence_keeps_the_newest(
    steps: list[tuple[int, int, float]], size: int | None, age: float | None
) -> None:
    """Additions, removals of the oldest and the window's limits do what they do to a list of (key, time)."""
    window, limits = Window(), Limits(1000, 10, size, age)
    expected: list[tuple[Any, float]] = []
    now = 0.0
    for n, oldest, pause in steps:
        now += pause
        oldest = min(oldest, len(expected))
        if n == 0 and oldest == 0:
            continue
        update = Update(batch(n) if n else None, Removal(oldest=oldest) if oldest else None)
        before = [key for key, _ in expected]
        command = learn(window, update, limits, now)
        kept = [one for one in expected[oldest:] if age is None or one[1] >= now - age]
        kept = kept if size is None else kept[max(0, len(kept) + n - size) :]
        assert command.remove == [key for key in before if key not in dict(kept)]
        assert not set(command.added) & set(before)
        expected = kept + [(key, now) for key in command.added]
        assert list(window.arrivals.items()) == expected


@given(
    st.lists(st.tuples(st.lists(st.integers(-20, 20), max_size=5), st.booleans(), st.integers(0, 5)), max_size=12),
    st.one_of(st.none(), st.integers(5, 8)),
    st.one_of(st.none(), st.integers(1, 12)),
)
def test_windows_forget_by_the_times_of_examples(
    steps: list[tuple[list[int], bool, int]], size: int | None, age: int | None
) -> None:
    """Whatever comes late, the window is what a list of (time, key) in order would be, cut as its limits say."""
    window, limits = Window(), Limits(1000, 10, size, age)
    expected: list[tuple[float, Any]] = []
    now, next_key = 0.0, 0
    for times, reported, pause in steps:
        now += pause
        if not times:
            continue
        keys: list[Any] = list(range(next_key, next_key + len(times)))
        next_key += len(times)
        stamps = np.array(times, np.float64) + now if reported else None
        add = Batch(np.arange(2.0 * len(times)).reshape(-1, 2), np.ones(len(times)), keys, None, stamps)
        command = learn(window, Update(add), limits, now)
        came = [(now if stamps is None else float(stamps[i]), key) for i, key in enumerate(keys)]
        before = [key for _, key in expected]
        every_example = sorted(expected + came, key=lambda one: one[0])
        kept = [one for one in every_example if age is None or one[0] >= now - age]
        kept = kept if size is None else kept[max(0, len(kept) - size) :]
        stay = [key for _, key in kept]
        assert sorted(command.remove) == sorted(key for key in before if key not in stay)
        assert command.dropped == [key for key in keys if key not in stay]
        assert command.added == [key for key in keys if key in stay]
        if command.add is not None:
            assert command.add.X[:, 0].tolist() == [2.0 * i for i, key in enumerate(keys) if key in stay]
        assert command.n_ahead == (sum(time > now for time, key in came if key in stay) if reported else 0)
        expected = kept
        assert [(time, key) for key, time in window.arrivals.items()] == expected


@given(st.lists(st.integers(0, 30), unique=True, max_size=20), st.integers(1, 20))
def test_made_up_keys_are_new_and_rise(taken: list[int], n: int) -> None:
    window = Window(dict.fromkeys(taken, 0.0), 2)
    made = learn(window, Update(batch(n))).added
    assert made == sorted(set(made))
    assert not set(made) & set(taken)


@pytest.mark.parametrize("limits", [Limits(9, 9, max_examples=3), Limits(9, 9, max_age_seconds=5.0)], ids=str)
def test_a_key_that_makes_space_can_come_back_with_the_same_update(limits: Limits) -> None:
    window = Window({"a": 1.0, "b": 2.0, "c": 3.0}, 2, 5)
    update = Update(batch(2, ["a", "b"]), edits=Edits(relabel={"a": -1.0, "c": -1.0}))
    with pytest.raises(DuplicateKey, match="'b'"):
        window.plan(Update(batch(1, ["b"])), limits, 6.5, None)
    with pytest.raises(DuplicateKey, match="'c'"):
        window.plan(Update(batch(1, ["c"]), Removal(keys=["a"])), limits, 7.5, None)
    command = learn(window, update, limits, 7.5)
    assert (command.remove, command.added) == (["a", "b"], ["a", "b"])
    assert command.edits == Edits(relabel={"c": -1.0})
    assert list(window.arrivals.items()) == [("c", 3.0), ("a", 7.5), ("b", 7.5)]


def test_what_is_as_old_as_allowed_stays_and_what_is_older_leaves() -> None:
    window = Window({"a": 1.0, "b": 2.0, "c": 3.0}, 2, 5)
    assert window.plan(Update(None, Removal(older_than=2.0)), OPEN, 9.0, None).remove == ["a"]
    assert window.plan(Update(batch(1)), Limits(9, 9, max_age_seconds=5.0), 7.0, None).remove == ["a"]


def test_made_up_keys_end_where_json_numbers_do() -> None:
    window = Window(next_key=MAX_KEY - 1)
    assert learn(window, Update(batch(1))).added == [MAX_KEY - 1]
    with pytest.raises(InvalidInput, match="give keys"):
        window.plan(Update(batch(1)), OPEN, 0.0, None)


@pytest.mark.parametrize(
    ("update", "error"),
    [
        (Update(batch(1, ["a"])), DuplicateKey),
        (Update(batch(1, ["n"]), Removal(keys=["n"])), DuplicateKey),
        (Update(batch(1, ["a"]), Removal(oldest=1)), DuplicateKey),
        (Update(None, Removal(keys=["z"])), UnknownKey),
        (Update(None, Removal(oldest=3)), InvalidInput),
        (Update(batch(2, ["n"])), InvalidInput),
        (Update(batch(1, width=3)), InvalidInput),
        (Update(batch(999)), InvalidInput),
    ],
)
def test_a_refused_plan_changes_nothing(update: Update, error: type[Exception]) -> None:
    window = Window({"a": 1.0, "b": 2.0}, 2, 5)
    with pytest.raises(error):
        window.plan(update, OPEN, 0.0, None)
    assert window == Window({"a": 1.0, "b": 2.0}, 2, 5)


def test_a_quota_below_the_window_still_lets_examples_leave() -> None:
    window = Window(dict.fromkeys(range(5), 0.0), 2, 5)
    assert learn(window, Update(None, Removal(oldest=1)), Limits(3, 10)).remove == [0]


def test_the_first_width_is_bounded() -> None:
    with pytest.raises(InvalidInput, match="limit is 10"):
        Window().plan(Update(batch(1, width=11)), OPEN, 0.0, None)
