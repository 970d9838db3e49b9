"""The log's tail applied again: updates that only add and remove on one path, all others one by one, the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.service.history import replay
from livesvm.service.history.replay import together
from livesvm.service.hosting.model import limits_of
from livesvm.service.models.commands import Command, Removal, digest_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import Idempotency, StoreDamaged
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.sparse import dense
from tests.support.live_models import Recovering, alive, batch, decisions

SPEC = ModelSpec.model_validate({"id": "m", "C": 10.0, "window": {"max_examples": 30}})


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Examples that came on each path that is walked."""
    walked: list[int] = []
    learn = LiveEstimator.learn

    def noted(model: LiveEstimator, change: Change) -> Any:
        walked.append(0 if change.add is None else len(change.add.X))
        return learn(model, change)

    monkeypatch.setattr(LiveEstimator, "learn", noted)
    return walked


def command(add: dict[Any, float] | None, remove: list[Any], weights: bool = False) -> Command:
    """Return a command that adds examples by key, each with one feature and its sign as label."""
    if add is None:
        return Command(None, remove, arrived=1.0, next_key=9)
    X = np.array([[value] for value in add.values()])
    return Command(
        Batch(X, np.sign(X[:, 0]), list(add), np.abs(X[:, 0]) if weights else None), remove, arrived=1.0, next_key=9
    )


def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    net = together([command({"a": 1.0}, ["old"]), command({"b": -2.0}, ["a", "older"]), command(None, ["b"])])
    assert net.add is None
    assert net.remove == ["old", "older"]


def test_a_key_that_comes_back_comes_last_and_with_what_it_came_with_last() -> None:
    net = together(
        [command({"a": 1.0, "b": -2.0}, []), command({"c": 3.0}, ["a"], weights=True), command({"a": -4.0}, [])]
    )
    assert net.remove == []
    assert net.added == ["b", "c", "a"]
    columns = [] if net.add is None else [net.add.X[:, 0], net.add.y, net.add.weights]
    np.testing.assert_array_equal(columns, [[-2.0, 3.0, -4.0], [-1.0, 1.0, -1.0], [1.0, 3.0, 1.0]])


def test_a_key_of_the_window_that_comes_back_goes_first() -> None:
    net = together([command(None, ["a"]), command({"a": 1.0}, [])])
    assert net.remove == ["a"]
    assert net.added == ["a"]


def restored(store: SqliteStore, live: Recovering) -> Recovering:
    """Return the model of another process; the same as the living one in everything that can be asked."""
    again = alive(store, store.acquire("m"), SPEC)
    assert again.sample().version == live.sample().version
    assert again.sample().updated_at == live.sample().updated_at
    np.testing.assert_allclose(decisions(again), decisions(live), rtol=0, atol=1e-9)
    assert again.certificate().result()["relative_gap"] <= 1e-9
    mine, theirs = again.copy().result(), live.copy().result()
    assert mine.arrays["keys"] == theirs.arrays["keys"]
    assert mine.arrays["next_key"] == theirs.arrays["next_key"]
    np.testing.assert_array_equal(mine.arrays["X"], theirs.arrays["X"])
    assert again.current.window == live.current.window
    assert again.current.published().counts == live.current.published().counts
    return again


def test_a_tail_is_walked_on_one_path_but_for_its_first_update(store: SqliteStore, paths: list[int]) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(6):
        live.update(batch(seed), None).result()
    paths.clear()
    again = restored(store, live)
    assert paths == [8, 30]  # ten of five times eight that came had left again for want of space
    assert again.recovered.replayed == 6


@pytest.mark.parametrize("labels", [(2, 3, 2, 3, 2), (-1, 1, -1, 5, -1), (-1, -1, -1, 5, 1)])
def test_a_class_that_came_and_went_is_known_again(
    store: SqliteStore, labels: tuple[int, ...], paths: list[int]
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed, label in enumerate(labels):
        added = batch(seed, 4).add
        assert added is not None
        keys: list[Any] = [f"{seed}-{row}" for row in range(4)]
        gone = Removal([f"{seed - 1}-{row}" for row in range(4)]) if seed > 1 else None
        live.update(Change(Batch(added.X, np.full(4, float(label)), keys), gone), None).result()
    for seed in range(9, 12):
        live.update(Change(Batch(np.ones((1, 2)) * seed, np.full(1, float(labels[0])))), None).result()
    paths.clear()
    restored(store, live)
    assert paths[-1] >= 3  # what brings no class is walked together


def test_what_takes_the_place_of_its_key_is_replayed(store: SqliteStore) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    keys: list[Any] = [f"k{row}" for row in range(8)]
    for seed in range(8):
        added = batch(seed).add
        assert added is not None
        named = Batch(added.X, added.y, keys if seed % 4 == 0 else None)
        live.update(Change(named, on_repeat="replace"), None).result()
    assert live.published.sizes.n_examples == 30
    again = restored(store, live)
    live.update(Change(None, Removal(oldest=1)), None)
    again.checkpoint().result()
    restored(store, again)


def test_edits_are_replayed_in_their_place(store: SqliteStore, paths: list[int]) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(3):
        live.update(batch(seed), None).result()
    live.update(Change(edits=Edits(decay=0.5, C=3.0)), None).result()
    for seed in range(3, 6):
        live.update(Change(batch(seed, 4).add, Removal(oldest=2)), None).result()
    paths.clear()
    restored(store, live)
    assert paths == [8, 16, 0, 12]


def test_an_answer_that_is_owed_is_found_on_its_own_path(store: SqliteStore, paths: list[int]) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    answers = [live.update(batch(seed), f"name {seed}").result().body for seed in range(5)]
    with store._transaction() as db:
        db.execute("UPDATE requests SET answer = NULL WHERE key = 'name 2'")
    paths.clear()
    again = restored(store, live)
    assert paths == [8, 8, 8, 16]
    kept = again.update(batch(2), "name 2").result()
    assert kept.replayed
    version = answers[2].split(b",")[0]
    assert kept.body.split(b",")[0] == version


def test_what_cannot_be_walked_together_is_walked_one_by_one(
    store: SqliteStore, paths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(5):
        live.update(batch(seed), None).result()

    def failing(state: ModelState, commands: Any, net: Command) -> None:
        raise NotOptimal("together they are too much")

    monkeypatch.setattr(ModelState, "apply_together", failing)
    paths.clear()
    again = restored(store, live)
    assert paths == [8, 8, 8, 8, 8]
    assert again.recovered.replayed == 5


def test_long_tails_are_walked_in_stretches(
    store: SqliteStore, paths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(6):
        live.update(batch(seed, 4), None).result()
    monkeypatch.setattr(replay, "TOGETHER", 8)
    paths.clear()
    restored(store, live)
    assert paths == [4, 8, 8, 4]


def test_a_record_that_is_missing_among_those_that_wait_is_reported(store: SqliteStore) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(5):
        live.update(batch(seed), None).result()
    with store._transaction() as db:
        db.execute("DELETE FROM log WHERE sequence = 3")
    with pytest.raises(StoreDamaged, match="lacks record 3"):
        alive(store, store.acquire("m"), SPEC)


def test_a_newest_update_that_cannot_be_applied_is_taken_back_without_those_before_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(4):
        live.update(batch(seed), None).result()
    poison = batch(4)
    command = live.current.window.plan(poison, limits_of(live.spec, live.context.settings), 0.0, None)
    store.append(live.journal.lease, 5, command.encode(), None, keep=1)  # and the process died before it found out
    learn = LiveEstimator.learn

    def refusing(model: LiveEstimator, change: Change) -> Any:
        come, gone = change.add, poison.add
        if come is not None and gone is not None and dense(gone.X)[0].tolist() in np.asarray(come.X).tolist():
            raise NotOptimal("this one cannot be followed")
        return learn(model, change)

    monkeypatch.setattr(LiveEstimator, "learn", refusing)
    again = restored(store, live)
    assert again.recovered.replayed == 4
    assert [record.aborted for record in store.log("m", 3)] == [False, True]


def failing_at(poison: Change, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the solver fail, and leave the model in pieces, whenever these examples come."""
    first = [] if poison.add is None else dense(poison.add.X)[0].tolist()
    learn = LiveEstimator.learn

    def failing(model: LiveEstimator, change: Change) -> Any:
        if change.add is not None and isinstance(change.add.X, np.ndarray) and first in change.add.X.tolist():
            model._forget()
            raise error
        return learn(model, change)

    monkeypatch.setattr(LiveEstimator, "learn", failing)


@pytest.mark.parametrize("name", [None, "name"])
@pytest.mark.parametrize("n_before", [0, 1, 4])
def test_a_newest_update_that_fails_in_an_unforeseen_way_is_taken_back(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, n_before: int, name: str | None
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(n_before):
        live.update(batch(seed), None).result()
    command = live.current.window.plan(batch(9), limits_of(live.spec, live.context.settings), 0.0, name)
    asked = None if name is None else Idempotency(name, digest_of(batch(9)))
    store.append(live.journal.lease, n_before + 1, command.encode(), asked, keep=9)  # and the process died
    with monkeypatch.context() as patched:
        failing_at(batch(9), ValueError("of no use"), patched)
        again = alive(store, store.acquire("m"), SPEC)
        assert again.published.version == again.recovered.replayed == n_before
        if n_before:
            np.testing.assert_allclose(decisions(again), decisions(live), rtol=0, atol=1e-9)
        with pytest.raises(ValueError, match="of no use"):
            again.update(batch(9), name).result()
    assert [record.aborted for record in store.log("m", n_before)] == [True, True]
    assert again.update(batch(9), name).result().replayed is False
    assert again.published.version == n_before + 1
    restored(store, again)


@pytest.mark.parametrize("name", [None, "name"])
def test_an_acknowledged_update_whose_path_fails_in_an_unforeseen_way_is_solved_from_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(3):
        live.update(batch(seed), name and f"{name} {seed}").result()

    def failing(state: ModelState, *arguments: Any) -> Any:
        state.window.arrivals.clear()
        raise IndexError("other rounding errors than last time")

    monkeypatch.setattr(ModelState, "apply", failing)
    monkeypatch.setattr(ModelState, "apply_together", failing)
    again = restored(store, live)
    assert again.recovered.replayed == 3


def test_an_acknowledged_update_that_fails_in_an_unforeseen_way_is_reported(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(3):
        live.update(batch(seed), f"name {seed}").result()
    failing_at(batch(2), ValueError("of no use"), monkeypatch)
    with pytest.raises(StoreDamaged, match=r"record 3 of model m can no longer be applied: ValueError: of no use"):
        alive(store, store.acquire("m"), SPEC)
    assert [record.aborted for record in store.log("m", 0)] == [False, False, False]


def test_solvers_that_fail_whatever_the_update_take_none_back(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    live.update(batch(0), None).result()

    def broken(*arguments: Any, **options: Any) -> Any:
        raise ImportError("a part is missing")

    with monkeypatch.context() as patched:
        patched.setattr(LiveEstimator, "_learn", broken)
        with pytest.raises(ImportError):
            alive(store, store.acquire("m"), SPEC)
    restored(store, live)


@pytest.mark.parametrize("error", [MemoryError(), OSError()], ids=repr)
def test_want_of_memory_takes_no_update_back(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    live = alive(store, store.create("m", b""), SPEC)
    for seed in range(2):
        live.update(batch(seed), None).result()
    with monkeypatch.context() as patched:
        failing_at(batch(1), error, patched)
        with pytest.raises(type(error)):
            alive(store, store.acquire("m"), SPEC)
    restored(store, live)
