"""The window's bookkeeping, against a plain list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.models.arrays import MAX_KEY
from livesvm.service.models.commands import Command, Removal
from livesvm.service.models.window import Window, WindowLimits
from livesvm.solvers.errors import DuplicateKey, InvalidInput, UnknownKey
from livesvm.solvers.models.change import Batch, Change, Edits

OPEN = WindowLimits(quota_examples=1000, quota_features=10)


def batch(n: int, keys: list[Any] | None = None, width: int = 2) -> Batch:
    return Batch(np.ones((n, width)), np.ones(n), keys)


def learn(window: Window, update: Change, limits: WindowLimits = OPEN, now: float = 0.0) -> Any:
    command = window.plan(update, limits, now, None)
    window.apply(command, 1000)
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
    window, limits = Window(), WindowLimits(1000, 10, size, age)
    expected: list[tuple[Any, float]] = []
    now = 0.0
    for n, oldest, pause in steps:
        now += pause
        oldest = min(oldest, len(expected))
        if n == 0 and oldest == 0:
            continue
        update = Change(batch(n) if n else None, Removal(oldest=oldest) if oldest else None)
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
    window, limits = Window(), WindowLimits(1000, 10, size, age)
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
        command = learn(window, Change(add), limits, now)
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
    made = learn(window, Change(batch(n))).added
    assert made == sorted(set(made))
    assert not set(made) & set(taken)


LIMITS = pytest.mark.parametrize(
    "limits", [WindowLimits(9, 9, max_examples=3), WindowLimits(9, 9, max_age_seconds=5.0)], ids=str
)


@LIMITS
@pytest.mark.parametrize("key", ["gone", "a", "b", "c"])
def test_a_repeat_is_one_wherever_its_key_stands(key: str, limits: WindowLimits) -> None:
    """Also about to leave by the window's limits, or by the same update as one of the oldest, or left before."""
    window = Window({"a": 1.0, "b": 2.0, "c": 3.0}, 2, 5, left={"gone": None}, tags={"a": ("t",), "gone": ("t",)})
    add, edits = batch(2, [key, "new"]), Edits(relabel={"c": -1.0} if key != "c" else {})
    for remove in (None, Removal(oldest=1), Removal(older_than=1.5)):
        with pytest.raises(DuplicateKey, match=f"key '{key}' (is in|has left) the window"):
            window.plan(Change(add, remove, edits), limits, 6.5, None)
        all_known = Change(batch(1, [key]), remove, Edits(decay=0.5), on_repeat="ignore")
        command = window.plan(all_known, limits, 6.5, None)
        assert command == Command(None, [], arrived=6.5, next_key=5, ignored=[key])
        command = window.plan(replace(all_known, add=add), limits, 6.5, None)
        assert (command.added, command.ignored) == (["new"], [key])
        assert command.add is not None
        assert command.add.X.shape == (1, 2)
    command = learn(window, Change(add, None, edits, "replace"), limits, 6.5)
    assert command.added == [key, "new"]
    assert list(window.arrivals)[-2:] == [key, "new"]
    assert (key in command.remove, command.ignored) == (key != "gone", [])
    assert key not in window.left
    assert key not in window.tags


def test_what_is_removed_by_its_key_comes_back_with_the_same_update() -> None:
    window = Window({"a": 1.0, "b": 2.0}, 2, left={"gone": None})
    for key in ("a", "b"):
        command = learn(window, Change(batch(1, [key]), Removal(keys=[key])), now=3.0)
        assert (command.remove, command.added) == ([key], [key])
    with pytest.raises(DuplicateKey, match=r"'b' is in the window.*'gone' has left"):
        window.plan(Change(batch(3, ["a", "b", "gone"]), Removal(keys=["a"])), OPEN, 3.0, None)
    with pytest.raises(InvalidInput, match="also removed"):
        window.plan(Change(batch(1, ["a"]), None, Edits(relabel={"a": 1.0}), "replace"), OPEN, 3.0, None)
    with pytest.raises(UnknownKey):
        window.plan(Change(batch(1, ["new"]), Removal(keys=["gone"])), OPEN, 3.0, None)


def test_of_a_key_twice_in_a_batch_one_row_comes() -> None:
    for rule, row in (("ignore", 0), ("replace", 2)):
        add = Batch(np.arange(6.0).reshape(3, 2), np.arange(3.0), ["a", "b", "a"])
        command = Window().plan(Change(add, on_repeat=cast(Any, rule)), OPEN, 0.0, None)
        assert command.add is not None
        assert (command.ignored, sorted(map(str, command.added))) == (["a"], ["a", "b"])
        assert command.add.y is not None
        assert dict(zip(command.added, command.add.y, strict=True)) == {"a": row, "b": 1}
    with pytest.raises(DuplicateKey, match="key 'a' stands twice"):
        Window().plan(Change(add), OPEN, 0.0, None)


@given(st.data(), st.one_of(st.none(), st.integers(3, 8)), st.one_of(st.none(), st.integers(1, 5)))
def test_batches_that_come_again_change_nothing(data: st.DataObject, size: int | None, age: int | None) -> None:
    """Each is delivered in order, and any earlier one again at any time, also after its examples have left."""
    once, again, limits = Window(), Window(), WindowLimits(1000, 10, size, age)
    batches: list[Batch] = []
    n_keys = 0
    for step in range(data.draw(st.integers(1, 8))):
        m = data.draw(st.integers(1, 3))
        batches.append(batch(m, [f"k{n_keys + i}" if i else n_keys for i in range(m)]))
        n_keys += m
        learn(once, Change(batches[-1]), limits, float(step))
        assert learn(again, Change(batches[-1], on_repeat="ignore"), limits, float(step)).ignored == []
        if data.draw(st.booleans()):
            oldest = Removal(oldest=data.draw(st.integers(1, len(once.arrivals))))
            assert learn(once, Change(None, oldest), limits, float(step)) == learn(
                again, Change(None, oldest), limits, float(step)
            )
        for earlier in data.draw(st.lists(st.sampled_from(batches), max_size=3)):
            command = learn(again, Change(earlier, Removal(oldest=1), on_repeat="ignore"), limits, step + 0.5)
            assert (command.ignored, command.added, command.remove) == (earlier.keys, [], [])
        assert list(again.arrivals.items()) == list(once.arrivals.items())
        assert list(again.left) == list(once.left)


@given(st.data(), st.integers(1, 12), st.integers(1, 6))
def test_events_that_come_twice_and_in_any_order_end_at_one_window(data: st.DataObject, n: int, size: int) -> None:
    """The first label of an event is ignored where it is known; a correction replaces it. The newest events stay."""
    corrected = data.draw(st.sets(st.integers(0, n - 1)))
    sent = [(event, "ignore") for event in range(n)] + [(event, "replace") for event in corrected]
    twice = data.draw(st.lists(st.sampled_from(sent), max_size=8))
    window, labels = Window(), dict[Any, float]()
    for event, on_repeat in cast("list[tuple[int, Any]]", data.draw(st.permutations(sent + twice))):
        label = float(on_repeat == "replace")
        add = Batch(np.ones((1, 2)), np.array([label]), [event], None, np.array([float(event)]))
        command = learn(window, Change(add, on_repeat=on_repeat), WindowLimits(1000, 10, size))
        labels |= dict.fromkeys(command.added, label)
    newest = range(max(0, n - size), n)
    assert list(window.arrivals) == list(newest)
    assert [labels[event] for event in newest] == [float(event in corrected) for event in newest]


def test_as_many_keys_are_remembered_as_asked_and_none_that_were_given_here() -> None:
    window, limits = Window(), WindowLimits(1000, 10, max_examples=2)
    for i in range(12):
        add = replace(batch(1, [f"k{i}"] if i % 2 else None), tags=[[f"t{i}"]])
        window.apply(window.plan(Change(add), limits, float(i), None), 3)
        assert len(window.left) <= 3
        assert set(window.tags) == {*window.arrivals, *window.left}
    assert list(window.left) == ["k5", "k7", "k9"]
    window.apply(window.plan(Change(batch(1, ["k3"])), limits, 13.0, None), 0)  # forgotten, and so new
    assert (list(window.arrivals), list(window.left), set(window.tags)) == (["k11", "k3"], [], {"k11"})
    window.left = dict.fromkeys(["k1", "k2"])
    before = window.held_bytes
    window.forget(["k1", "none"])
    assert list(window.left) == ["k2"]
    assert window.held_bytes < before


def test_what_is_as_old_as_allowed_stays_and_what_is_older_leaves() -> None:
    window = Window({"a": 1.0, "b": 2.0, "c": 3.0}, 2, 5)
    assert window.plan(Change(None, Removal(older_than=2.0)), OPEN, 9.0, None).remove == ["a"]
    assert window.plan(Change(batch(1)), WindowLimits(9, 9, max_age_seconds=5.0), 7.0, None).remove == ["a"]


def test_made_up_keys_end_where_json_numbers_do() -> None:
    window = Window(next_key=MAX_KEY - 1)
    assert learn(window, Change(batch(1))).added == [MAX_KEY - 1]
    with pytest.raises(InvalidInput, match="give keys"):
        window.plan(Change(batch(1)), OPEN, 0.0, None)


@pytest.mark.parametrize(
    ("update", "error"),
    [
        (Change(batch(1, ["a"])), DuplicateKey),
        (Change(batch(1, ["n"]), Removal(keys=["n"])), UnknownKey),
        (Change(batch(1, ["a"]), Removal(oldest=1)), DuplicateKey),
        (Change(None, Removal(keys=["z"])), UnknownKey),
        (Change(None, Removal(oldest=3)), InvalidInput),
        (Change(batch(2, ["n"])), InvalidInput),
        (Change(batch(1, width=3)), InvalidInput),
        (Change(batch(999)), InvalidInput),
    ],
)
def test_a_refused_plan_changes_nothing(update: Change, error: type[Exception]) -> None:
    window = Window({"a": 1.0, "b": 2.0}, 2, 5)
    with pytest.raises(error):
        window.plan(update, OPEN, 0.0, None)
    assert window == Window({"a": 1.0, "b": 2.0}, 2, 5)


def test_a_quota_below_the_window_still_lets_examples_leave() -> None:
    window = Window(dict.fromkeys(range(5), 0.0), 2, 5)
    assert learn(window, Change(None, Removal(oldest=1)), WindowLimits(3, 10)).remove == [0]


def test_the_first_width_is_bounded() -> None:
    with pytest.raises(InvalidInput, match="limit is 10"):
        Window().plan(Change(batch(1, width=11)), OPEN, 0.0, None)
