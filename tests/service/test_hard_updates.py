"""Updates that would take too long: ended in time, given up with their model, set aside at a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import ModelUnavailable, OutOfTime, Restoring, TurnMissed, UnknownModel
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.registry import Registry
from livesvm.service.models.commands import Command, Outcome
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import Lease, Store, StoreDamaged, StoreUnavailable
from livesvm.solvers import warm_up
from livesvm.solvers.runtime.interrupt import check
from tests.support.live_models import (
    FailingStore,
    alive,
    batch,
    check_restored,
    context_of,
    decisions,
    failing_together,
)

SPEC = codec.encode({"spec": ModelSpec(id="m", C=10.0).model_dump_json()})
Apply = Callable[[ModelState, Command], Outcome]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Machine code is loaded before anything has so little time."""
    warm_up()


class Hard:
    """Makes updates of a size hard: each is solved for so many seconds first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.size = 9
        self.tries = 0
        self.is_over = False
        self._apply: Apply = ModelState.apply
        monkeypatch.setattr(ModelState, "apply", lambda state, command: self._slowly(state, command))
        monkeypatch.setattr(ModelState, "apply_together", failing_together)

    def _slowly(self, state: ModelState, command: Command) -> Outcome:
        if command.add is None or len(command.add.X) != self.size:
            return self._apply(state, command)
        self.tries += 1
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not self.is_over:
            check()
            time.sleep(0.002)
        return self._apply(state, command)


@pytest.fixture
def hard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hard]:
    made = Hard(monkeypatch)
    yield made
    made.is_over = True


def registry_of(store: Store, **settings: Any) -> Registry:
    return Registry(context_of(store, **settings))


def set_aside(model: HostedModel) -> int:
    """Return updates that were, when it woke."""
    assert model.returned is not None
    return model.returned.set_aside


def until_live(registry: Registry, model: str) -> HostedModel:
    """Return the model once it is back."""
    for _ in range(2000):
        found = registry.models.find(model)
        if found.is_awake:
            return found
        time.sleep(0.01)
    raise AssertionError("it never came back")


def test_an_update_ends_in_its_time_and_leaves_no_trace(store: FailingStore, hard: Hard) -> None:
    live = alive(store, store.create("m", b""), solve_seconds=0.2)
    live.update(batch(0), None).result()
    before, hard.seconds = decisions(live), 60.0
    with pytest.raises(OutOfTime, match=r"0\.2 s"):
        live.update(batch(1, 9), "name").result(timeout=20)
    assert [record.aborted for record in store.log("m", 0)] == [False, True]
    np.testing.assert_array_equal(decisions(live), before)
    hard.seconds = 0.0
    assert live.update(batch(1, 9), "name").result().replayed is False
    assert live.published.version == 2
    check_restored(store, live)
    live.stop()


def test_a_caller_can_only_ask_for_less(store: FailingStore, hard: Hard) -> None:
    live = alive(store, store.create("m", b""), solve_seconds=0.3)
    hard.seconds = 60.0
    with pytest.raises(OutOfTime):
        live.update(batch(0, 9), None, Solve(seconds=1000.0)).result(timeout=20)
    with pytest.raises(OutOfTime):
        live.update(batch(0, 9), None, Solve(until=time.monotonic() + 0.1)).result(timeout=20)
    tries = hard.tries
    with pytest.raises(TurnMissed):
        live.update(batch(0, 9), None, Solve(until=time.monotonic() - 1.0)).result(timeout=20)
    assert hard.tries == tries
    assert [record.aborted for record in store.log("m", 0)] == [True, True]  # the last one was not even logged
    live.stop()


def test_a_deleted_model_stops_its_solve_and_what_waits(store: FailingStore, hard: Hard) -> None:
    live = alive(store, store.create("m", b""), solve_seconds=1000)
    hard.seconds = 1000.0
    under_way = live.update(batch(0, 9), None)
    waiting = live.update(batch(1), None)
    while not hard.tries:
        time.sleep(0.01)
    live.delete().result(timeout=20)
    for future in (under_way, waiting):
        with pytest.raises(UnknownModel):
            future.result(timeout=20)
    assert store.models() == []
    live.stop()


def test_a_model_that_could_not_be_deleted_goes_on(store: FailingStore, hard: Hard) -> None:
    live = alive(store, store.create("m", b""), solve_seconds=1000)
    store.failing = "abort"
    hard.seconds = 1000.0
    under_way = live.update(batch(0, 9), None)
    while not hard.tries:
        time.sleep(0.01)
    with pytest.raises(StoreUnavailable):
        live.delete().result(timeout=20)
    with pytest.raises((UnknownModel, StoreUnavailable)):
        under_way.result(timeout=20)
    store.failing = ""
    live.update(batch(1), None).result()
    assert live.published.version == 1
    check_restored(store, live)
    live.stop()


def killed_in_the_middle(store: FailingStore, hard: Hard, request: str | None = None) -> None:
    """Make a model whose process died while its newest update was solved, and another model."""
    for name in ("other", "m"):
        live = alive(store, store.create(name, SPEC))
        live.update(batch(0), None).result()
        if name == "other":
            live.stop()
    hard.seconds = 1000.0
    live.update(batch(1, 9), request)
    while not hard.tries:
        time.sleep(0.01)


@pytest.mark.parametrize("request_key", [None, "name"])
def test_an_unanswered_update_is_set_aside_once_and_others_do_not_wait(
    request_key: str | None, store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.history.replay.LEAST_SECONDS", 1.5)
    monkeypatch.setattr("livesvm.service.hosting.replica.SOON_SECONDS", 0.2)
    killed_in_the_middle(store, hard, request_key)
    registry = registry_of(store, solve_seconds=0.1)
    registry.restore()
    assert registry.models.get("other").published.version == 1
    with pytest.raises(Restoring):
        registry.models.get("m")
    assert registry.models.states() == {"restoring": 1, "live": 1}
    live = until_live(registry, "m")
    assert (live.published.version, set_aside(live)) == (1, 1)
    assert [record.aborted for record in store.log("m", 0)] == [False, True]
    assert store.recall("m", "name") is None
    hard.seconds = 0.0
    assert live.update(batch(1, 9), request_key).result(timeout=20).replayed is False
    registry.stop()
    tries = hard.tries
    again = registry_of(store)
    again.restore()
    again.models.get("m").wake().result()
    assert again.models.get("m").published.version == 2
    assert set_aside(again.models.get("m")) == 0
    assert hard.tries - tries <= 1
    again.stop()


def test_an_answered_update_is_never_set_aside(
    store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.history.replay.LEAST_SECONDS", 0.1)
    monkeypatch.setattr("livesvm.service.hosting.replica.SOON_SECONDS", 0.1)
    live = alive(store, store.create("m", SPEC))
    live.update(batch(0), None).result()
    live.update(batch(1, 9), "name").result()
    hard.seconds = 1.5
    registry = registry_of(store, solve_seconds=0.1)
    registry.restore()
    with pytest.raises(Restoring):
        registry.models.get("m")
    back = until_live(registry, "m")
    assert (back.published.version, set_aside(back)) == (2, 0)
    registry.stop()


def test_an_update_whose_solution_is_damaged_is_not_set_aside(
    store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.history.replay.LEAST_SECONDS", 0.1)
    monkeypatch.setattr("livesvm.service.hosting.replica.SOON_SECONDS", 0.1)
    live = alive(store, store.create("m", SPEC), solution_seconds=1e-9)
    live.update(batch(0), None).result()
    live.update(batch(1, 9), None).result()

    def damaged(model: str) -> None:
        raise StoreDamaged("the solution does not match its checksum")

    monkeypatch.setattr(store, "solution", damaged)
    hard.seconds = 1.5
    registry = registry_of(store, solve_seconds=0.1)
    registry.restore()
    back = until_live(registry, "m")
    assert (back.published.version, set_aside(back)) == (2, 0)
    registry.stop()


def test_a_hard_update_is_answered_only_when_its_solution_is_stored(
    store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.history.checkpoints.CERTAIN_SECONDS", 0.0)
    live = alive(store, store.create("m", b""))
    store.failing = "save_solution"
    with pytest.raises(StoreUnavailable):
        live.update(batch(0), None).result()
    assert live.published.version == 1  # as after any call whose outcome is not known
    store.failing = ""
    live.update(batch(1), None).result()
    found = store.solution("m")
    assert found is not None
    assert found.sequence == 2
    check_restored(store, live)
    live.stop()


def test_a_model_can_be_deleted_while_it_is_restored(
    store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.hosting.replica.SOON_SECONDS", 0.1)
    killed_in_the_middle(store, hard)
    registry = registry_of(store, solve_seconds=1000)
    registry.restore()
    assert registry.models.find("m").state == "restoring"
    registry.models.delete("m").result(timeout=20)
    registry.models.forget("m")
    assert [model.id for model in store.models()] == ["other"]
    registry.stop()  # does not wait for abandoned work


def test_a_stop_does_not_wait_for_what_is_restored(
    store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.service.hosting.replica.SOON_SECONDS", 0.1)
    killed_in_the_middle(store, hard)
    registry = registry_of(store, solve_seconds=1000)
    registry.restore()
    registry.stop()
    assert [record.aborted for record in store.log("m", 0)] == [False, False]  # it is tried again
    with pytest.raises((Restoring, ModelUnavailable)):
        registry.models.get("m")


def test_a_stop_while_the_store_is_away_does_not_wait_for_what_is_restored(
    store: FailingStore, hard: Hard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks the store again and again until it is back ends with the service."""
    monkeypatch.setattr("livesvm.service.hosting.replica.SOON_SECONDS", 0.1)
    monkeypatch.setattr("livesvm.service.hosting.registry.RETRY_SECONDS", 0.01)
    killed_in_the_middle(store, hard)
    registry = registry_of(store, solve_seconds=1000)
    asked: list[bool] = []
    is_stopping = False

    def away(lease: Lease) -> int:
        asked.append(is_stopping)
        if sum(asked) > 100:
            raise AssertionError("it is asked for a model that nobody waits for")
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(store, "last_sequence", away)
    registry.restore()
    while len(asked) < 3:
        time.sleep(0.01)
    is_stopping = True
    registry.stop()
    found = registry.models.find("m")
    assert found.state == "restoring"
    assert [record.aborted for record in store.log("m", 0)] == [False, False]  # it is tried again
