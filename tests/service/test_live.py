"""One live model on a store that fails on demand, and with an estimator that does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import IdempotencyConflict
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models import commands
from livesvm.service.models.commands import Removal
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import StoreDamaged, StoreUnavailable
from livesvm.solvers.errors import InvalidInput, NotOptimal, NotPositiveSemidefinite
from livesvm.solvers.models.change import Batch, Change, Edits
from tests.support.live_models import (
    FailingStore,
    alive,
    batch,
    check_restored,
    decisions,
    failing_together,
    looked_after,
)


@pytest.fixture
def live(store: FailingStore) -> Iterator[HostedModel]:
    model = alive(store, store.create("m", b""))
    yield model
    store.failing = ""
    model.stop()


@pytest.mark.parametrize("after_effect", [False, True])
def test_an_append_that_failed_has_no_effect_whether_it_was_written_or_not(
    after_effect: bool, store: FailingStore, live: HostedModel
) -> None:
    live.update(batch(0), None).result()
    before = decisions(live)
    store.failing, store.after_effect = "append", after_effect
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            live.update(batch(1), "name").result()
    assert live.stale
    np.testing.assert_array_equal(decisions(live), before)
    store.failing = ""
    assert live.update(batch(2), "name").result().replayed is False
    assert live.published.version == 2
    assert not live.stale
    check_restored(store, live)


def test_an_answer_that_could_not_be_kept_is_given_and_kept_later(store: FailingStore, live: HostedModel) -> None:
    store.failing = "remember"
    answer = live.update(batch(0), "name").result()
    assert answer.replayed is False
    with pytest.raises(StoreUnavailable):
        live.update(batch(1), None).result()
    store.failing = ""
    again = live.update(batch(0), "name").result()
    assert (again.body, again.replayed) == (answer.body, True)
    with pytest.raises(IdempotencyConflict):
        live.update(batch(1), "name").result()
    check_restored(store, live)


def test_a_refusal_that_could_not_be_noted_is_an_unknown_outcome(store: FailingStore) -> None:
    spec = ModelSpec.model_validate({"kernel": {"name": "sigmoid", "gamma": 1.0, "coef0": -1.0}})
    live = alive(store, store.create("m", b""), spec)
    refused = Change(Batch(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), np.array([1.0, -1.0, 1.0])))
    store.failing = "abort"
    with pytest.raises(StoreUnavailable):
        live.update(refused, None).result()
    store.failing = ""
    with pytest.raises(NotPositiveSemidefinite):
        live.update(refused, None).result()
    one = Change(Batch(np.ones((1, 2)), np.ones(1)))
    live.update(one, None).result()
    assert live.published.version == 1
    live.stop()
    assert [record.aborted for record in store.log("m", 0)] == [True, True, False]
    assert alive(store, store.acquire("m"), spec).published.version == 1


def test_what_double_precision_cannot_hold_is_refused_before_it_is_logged(store: FailingStore) -> None:
    spec = ModelSpec.model_validate({"C": 1e8, "kernel": {"name": "linear"}})
    live = alive(store, store.create("m", b""), spec)
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="scale the features") as refused:
        live.update(Change(Batch(rng.choice([-1e150, 1e150], (30, 2)), rng.choice([-1.0, 1.0], 30))), None).result()
    assert (refused.value.field, refused.value.row) == ("X", 0)
    assert list(store.log("m", 0)) == []
    live.update(batch(0), None).result()
    with pytest.raises(InvalidInput, match="double precision"):
        live.update(Change(edits=Edits(reweight={0: 1e100, 1: 1e100}, C=1e100)), None).result()
    assert [record.sequence for record in store.log("m", 0)] == [1]
    live.stop()


def test_an_unforeseen_failure_rebuilds_the_model(
    store: FailingStore, live: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.update(batch(0), None).result()
    before = decisions(live)
    with monkeypatch.context() as patched:
        patched.setattr(ModelState, "apply", lambda state, command: state.window.arrivals.clear() or 1 // 0)
        with pytest.raises(ZeroDivisionError):
            live.update(batch(1), "name").result()
    assert [record.aborted for record in store.log("m", 0)] == [False, True]  # before any other command
    np.testing.assert_array_equal(decisions(live), before)
    assert live.certificate().result()["n_examples"] == 8
    live.update(Change(None, Removal(oldest=3)), "name").result()
    assert (live.published.version, live.published.sizes.n_examples) == (2, 5)
    check_restored(store, live)


@pytest.mark.parametrize("failing", ["abort", "last_sequence"])
def test_a_model_that_fails_while_the_store_is_away_is_rebuilt_later(
    failing: str, store: FailingStore, live: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.update(batch(0), None).result()
    before = decisions(live)
    store.failing = failing
    with monkeypatch.context() as patched:
        patched.setattr(ModelState, "apply", lambda state, command: state.window.arrivals.clear() or 1 // 0)
        with pytest.raises(ZeroDivisionError):
            live.update(batch(1), "name").result()
    for ask in (live.copy, live.checkpoint, live.certificate):
        with pytest.raises(StoreUnavailable):
            ask().result()
    np.testing.assert_array_equal(decisions(live), before)
    store.failing = ""
    assert live.copy().result().arrays["keys"] == list(range(8))
    assert live.update(batch(1), "name").result().replayed is False
    assert live.published.version == 2
    check_restored(store, live)


def test_a_snapshot_that_could_not_be_written_loses_nothing(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""), snapshot_updates=1)
    store.failing = "save_snapshot"
    live.update(batch(0), None).result()
    with pytest.raises(StoreUnavailable):
        live.checkpoint().result()
    live.stop()
    assert store.snapshots("m") == []
    store.failing = ""
    check_restored(store, live)


def test_a_changed_model_is_snapshot_after_a_while(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""), snapshot_seconds=0.05)
    live.update(batch(0), None).result()
    for _ in range(200):
        if looked_after(live) and store.snapshots("m"):
            break
        threading.Event().wait(0.02)
    assert [snapshot.sequence for snapshot in store.snapshots("m")] == [1]
    live.stop()


def test_a_model_is_snapshot_after_what_takes_long_to_solve_again(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""), snapshot_replay_seconds=1e-9)
    for seed in range(3):
        live.update(batch(seed), None).result()
    live.certificate().result()  # after the rest that follows the third update
    assert [snapshot.sequence for snapshot in store.snapshots("m")] == [3, 2]
    live.stop()


def test_a_model_is_snapshot_once_its_log_is_larger_than_the_last(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.history.checkpoints.LEAST_BYTES", 1)
    live = alive(store, store.create("m", b""))
    for seed in range(40):
        live.update(batch(seed), None).result()
    live.certificate().result()  # after the rest that follows the last update
    records = sum(len(record.data) for record in store.log("m", 0))
    newest, older = store.snapshots("m")
    assert records < 3 * newest.size
    assert 40 - newest.sequence < newest.sequence - older.sequence
    again = alive(store, store.acquire("m"))
    assert again.recovered.snapshot_bytes == newest.size
    assert again.recovered.log_bytes == sum(len(record.data) for record in store.log("m", newest.sequence))
    again.stop()


def test_a_path_that_cannot_be_walked_again_is_replaced_by_a_fresh_solve(
    store: FailingStore, live: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        live.update(batch(seed), None).result()
    live.update(Change(batch(3).add, Removal(oldest=5)), None).result()
    apply = ModelState.apply

    def failing_once(state: ModelState, command: Any) -> Any:
        if state.version in (1, 3):
            raise NotOptimal("other rounding errors than last time")
        return apply(state, command)

    monkeypatch.setattr(ModelState, "apply", failing_once)
    monkeypatch.setattr(ModelState, "apply_together", failing_together)
    again = alive(store, store.acquire("m"))
    assert again.published.version == 4
    np.testing.assert_allclose(decisions(again), decisions(live), rtol=0, atol=1e-7)
    assert again.certificate().result()["relative_gap"] <= 1e-8
    again.stop()


def test_an_acknowledged_update_that_can_no_longer_be_applied_is_reported(
    store: FailingStore, live: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2):
        live.update(batch(seed), None).result()

    def failing(state: ModelState, command: Any) -> Any:
        raise NotOptimal("never again")

    monkeypatch.setattr(ModelState, "apply", failing)
    monkeypatch.setattr(ModelState, "apply_cold", failing)
    with pytest.raises(StoreDamaged, match="record 1 of model m can no longer be applied"):
        alive(store, store.acquire("m"))


@pytest.mark.parametrize(
    ("request_key", "rules", "is_kept"), [("key", 0, True), (None, 1, True), (None, 0, False)], ids=str
)
def test_the_newest_update_is_taken_back_only_if_it_cannot_have_been_seen(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch, request_key: str | None, rules: int, is_kept: bool
) -> None:
    live = alive(store, store.create("m", b""))
    live.update(batch(0), None).result()
    live.update(batch(1), request_key).result()

    def failing(state: ModelState, command: Any) -> Any:
        if state.version == 1:
            raise NotOptimal("never again")
        return apply(state, command)

    apply = ModelState.apply
    monkeypatch.setattr(ModelState, "apply", failing)
    monkeypatch.setattr(ModelState, "apply_cold", failing)
    monkeypatch.setattr(ModelState, "apply_together", failing_together)
    monkeypatch.setattr("livesvm.service.history.replay.RULES", commands.RULES + rules)
    if is_kept:
        with pytest.raises(StoreDamaged, match=r"record 2 of model m can no longer .* go back to version 1"):
            alive(store, store.acquire("m"))
        assert [record.aborted for record in store.log("m", 0)] == [False, False]
        return
    again = alive(store, store.acquire("m"))
    assert again.published.version == 1
    assert [record.aborted for record in store.log("m", 0)] == [False, True]
    again.stop()
