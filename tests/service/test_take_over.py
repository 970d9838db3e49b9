"""Two services on one Redis: which serves which model, and what becomes of the one before."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import ModelUnavailable, UnknownModel
from livesvm.service.history.journal import Source
from livesvm.service.history.versions import decided_state
from livesvm.service.hosting import standby
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.registry import Registry
from livesvm.service.hosting.standby import Standby
from livesvm.service.models.commands import Command
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.window import WindowLimits
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.base import SERVICE, DocumentName, Fenced, Idempotency, StoreUnavailable
from livesvm.service.store.redis import RedisStore
from tests.contract.conftest import redis_server
from tests.contract.redis_server import RedisServer
from tests.support.erasing import intent_of
from tests.support.live_models import PROBE, batch

__all__ = ["redis_server"]

Open = Callable[[str], "Instance"]


class Instance:
    """The models of one service, as far as they need no process."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.metrics = Metrics()
        self.health = Health(self.metrics)
        settings = Settings(snapshot_replay_seconds=1e9, solution_seconds=1e9)
        source = Source(store, self.health, self.metrics)
        self.registry = Registry(Context(settings, source, SolveScheduler(1)))
        self.health.states = self.registry.models.states
        store.ping()
        self.registry.restore()

    def states(self) -> dict[str, str]:
        """Return the state of each model."""
        return {model.id: model.state for model in self.registry.models.page()}

    @property
    def on_standby(self) -> bool:
        """Whether it says that it has nothing to serve."""
        return any("held by another service" in reason for reason in self.health.reasons())

    def learn(self, model: str, seed: int, request: str | None = None) -> None:
        """Send one update."""
        self.registry.models.get(model).update(batch(seed), request).result()

    def version(self, model: str) -> int:
        """Return the version that predictions are made by."""
        return self.registry.models.get(model).published.version


@pytest.fixture
def opened(redis_server: RedisServer) -> Iterator[Open]:
    prefix = uuid.uuid4().hex
    with ExitStack() as stores:
        made: list[Instance] = []

        def start(name: str) -> Instance:
            store = stores.enter_context(closing(RedisStore(redis_server.url, name, prefix=prefix, lease_seconds=60)))
            made.append(Instance(store))
            return made[-1]

        yield start
        for instance in made:
            instance.registry.stop()


def test_a_second_service_stands_by_until_it_has_something_to_serve(opened: Open) -> None:
    first = opened("first")
    assert not first.on_standby  # there is nothing to serve
    for model in ("a", "b"):
        first.registry.models.create(model, ModelSpec(C=1.0))
        first.learn(model, 0)
    second = opened("second")
    assert second.states() == {"a": "held", "b": "held"}
    assert second.on_standby
    with pytest.raises(ModelUnavailable, match="held by another service"):
        second.registry.models.get("a")
    second.registry.take_over()
    assert second.states() == {"a": "held", "b": "held"}
    first.registry.models.get("a").stop()
    second.registry.take_over()
    assert second.states() == {"a": "live", "b": "held"}
    assert not second.on_standby
    second.learn("a", 1)
    assert second.version("a") == 2


def test_what_goes_to_and_fro_has_one_writer_and_reads_on(opened: Open) -> None:
    first = opened("first")
    first.registry.models.create("shuttle", ModelSpec(C=1.0))
    first.learn("shuttle", 0)
    second = opened("second")
    old = first.registry.models.get("shuttle")
    old.journal.release()
    second.registry.take_over()
    second.learn("shuttle", 1)
    first.registry.watch()
    assert first.states() == {"shuttle": "fenced"}
    with pytest.raises(Fenced):
        first.learn("shuttle", 2)
    first.registry.take_over()  # which is not there to be had
    assert first.registry.models.get("shuttle") is old
    assert first.version("shuttle") == 1
    second.registry.models.get("shuttle").stop()
    first.registry.take_over()
    assert first.states() == {"shuttle": "live"}
    assert first.version("shuttle") == 2
    first.learn("shuttle", 3)
    assert first.version("shuttle") == 3


def test_what_another_service_deletes_or_makes_is_noticed(opened: Open) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    second = opened("second")
    assert second.states() == {"a": "held"}
    first.registry.models.create("b", ModelSpec(C=1.0))
    first.registry.models.delete("a").result()
    first.registry.models.forget("a")
    second.registry.take_over()
    assert second.states() == {"b": "held"}
    with pytest.raises(UnknownModel):
        second.registry.models.find("a")
    with pytest.raises(ModelUnavailable):
        second.registry.models.delete("b")
    assert first.states() == {"b": "live"}


def test_an_orderly_end_lets_every_model_go(opened: Open) -> None:
    first = opened("first")
    for model in ("a", "b"):
        first.registry.models.create(model, ModelSpec(C=1.0))
        first.learn(model, 0)
    second = opened("second")
    first.registry.stop()
    second.registry.take_over()
    assert second.states() == {"a": "live", "b": "live"}
    assert [second.version(model) for model in ("a", "b")] == [1, 1]


def test_versions_are_in_order_which_is_asked(opened: Open) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    first.learn("a", 0)
    assert not first.registry.models.get("a").versions()["stale"]
    second = opened("second")
    first.registry.models.get("a").journal.release()
    second.registry.take_over()
    for seed in (1, 2, 3):
        second.learn("a", seed)
        second.registry.models.get("a").checkpoint().result()
    for _ in range(2):
        found = first.registry.models.get("a").versions()
        assert (found["oldest"], found["current"], found["stale"]) == (3, 4, True)
        assert [snapshot["version"] for snapshot in found["snapshots"]] == [4, 3]
        first.registry.watch()
    assert first.version("a") == 1
    found = second.registry.models.get("a").versions()
    assert (found["oldest"], found["current"]) == (3, 4)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass for those that stand by."""

    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(standby, "time", clock)

    def later(seconds: float) -> None:
        clock.now += seconds

    return later


def read(instance: Instance, model: str) -> Published:
    """Return the version by which an instance that stands by predicts now."""
    found = instance.registry.models.readable(model)
    assert isinstance(found, Standby)
    assert found.stale
    return found.reader(PROBE)


def decided(seen: Published) -> Any:
    return seen.decide(ModelSpec(id="a"), PROBE)[0]


LEASE = Settings().lease_seconds


def test_one_that_stands_by_predicts_by_what_was_answered(opened: Open, later: Callable[[float], None]) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    second = opened("second")
    assert read(second, "a").predictor is None  # it knows no example yet
    first.learn("a", 0)
    later(LEASE)
    assert read(second, "a").version == 0  # the newest record may still be taken back
    first.learn("a", 1, "one")
    assert read(second, "a").version == 0
    later(LEASE - 0.1)
    assert read(second, "a").version == 0  # the store is asked once in the time of a lease
    later(0.1)
    live = first.registry.models.get("a")
    assert read(second, "a").version == 2
    np.testing.assert_allclose(decided(read(second, "a")), decided(live.published), rtol=0, atol=1e-9)
    assert second.registry.models.readable("a").age == 0.0
    later(LEASE / 2 - 0.1)
    assert second.registry.models.readable("a").published.predictor is not None
    later(0.1)  # from now on a thread answers, as the store may have to be asked
    assert second.registry.models.readable("a").published.predictor is None
    assert second.registry.models.readable("a").published.version == 2
    live.checkpoint().result()
    for number in range(2):
        first.learn("a", 2 + number)
        live.checkpoint().result()  # the log before the older one is gone
    later(LEASE)
    assert read(second, "a").version == 4
    np.testing.assert_allclose(decided(read(second, "a")), decided(live.published), rtol=0, atol=1e-9)


def test_a_record_that_was_taken_back_is_none_to_predict_by(opened: Open, later: Callable[[float], None]) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    first.learn("a", 0, "one")
    second = opened("second")
    assert read(second, "a").version == 1
    live = first.registry.models.get("a")
    lease, window = live.journal.lease, live.current.window
    command = window.plan(batch(1), WindowLimits(100, 10), 1.0, "two")
    record = Command.encode(command)
    seen = []
    for step in (
        lambda: first.store.append(lease, 2, record, Idempotency("two", b"2"), keep=10),
        lambda: first.store.abort(lease, 2),
        lambda: first.store.append(lease, 3, record, Idempotency("two", b"2"), keep=10),
        lambda: first.store.remember(lease, "two", b"{}"),
    ):
        step()
        later(LEASE)
        seen.append(read(second, "a").version)
    assert seen == [1, 1, 1, 2]


def test_what_is_erased_asked_for_no_more_or_taken_over_is_no_copy_any_more(
    opened: Open, later: Callable[[float], None]
) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    first.learn("a", 0, "one")
    second = opened("second")

    def copies() -> int:
        return second.registry._context.budget.held()["models"]

    assert read(second, "a").version == 1
    assert copies() > 0
    second.registry.take_over()
    assert copies() > 0
    first.registry.models.get("a").erase(intent_of("a", [0])).result()
    second.registry.take_over()
    assert copies() == 0
    seen = read(second, "a")
    assert (seen.version, seen.sizes.n_examples) == (2, 7)
    second.registry.take_over()
    assert copies() > 0
    later(standby.IDLE_SECONDS - 1)
    read(second, "a")
    later(standby.IDLE_SECONDS - 1)
    second.registry.take_over()
    assert copies() > 0
    later(1)
    second.registry.take_over()
    assert copies() == 0
    read(second, "a")
    first.registry.models.get("a").stop()
    second.registry.take_over()
    assert second.states() == {"a": "live"}
    assert copies() == 0  # it is at rest
    second.registry.models.get("a").wake().result()
    assert copies() == second.registry.models.get("a").held.size
    assert second.registry.models._standbys == {}
    assert second.registry.models.readable("a") is second.registry.models.get("a")


def test_an_erasure_between_two_readings_leaves_nothing_to_predict_by(
    opened: Open, later: Callable[[float], None]
) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    first.learn("a", 0, "one")
    second = opened("second")
    read(second, "a")
    copy = second.registry.models._standbys["a"]._state
    first.registry.models.get("a").erase(intent_of("a", ["nobody"])).result()
    later(LEASE)
    assert read(second, "a").version == 1
    assert second.registry.models._standbys["a"]._state is not copy


def test_another_model_of_the_same_id_has_a_copy_of_its_own(opened: Open, later: Callable[[float], None]) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    for seed in range(2):
        first.learn("a", seed, f"{seed}")
    second = opened("second")
    assert read(second, "a").C == 1.0

    def make_again(C: float) -> None:
        first.registry.models.delete("a").result()
        first.registry.models.forget("a")
        first.registry.models.create("a", ModelSpec(C=C))
        for seed in range(3):
            first.learn("a", 5 + seed, f"{C} {seed}")
        second.registry.take_over()
        later(LEASE)

    for C in (1.0, 2.0):
        make_again(C)
        seen = read(second, "a")
        assert (seen.version, seen.C) == (3, C)
        np.testing.assert_allclose(decided(seen), decided(first.registry.models.get("a").published), rtol=0, atol=1e-9)
        assert len(second.registry._context.budget._models) == 1


@pytest.mark.timeout(60)
def test_a_copy_that_is_read_while_its_model_is_taken_over_goes_with_that(
    opened: Open, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    first.learn("a", 0, "one")
    second = opened("second")
    standing = second.registry.models.readable("a")

    def read_slowly(*arguments: Any) -> Any:
        second.registry.take_over()
        first.registry.models.get("a").stop()
        second.registry.take_over()  # which does not wait
        return decided_state(*arguments)

    monkeypatch.setattr(standby, "decided_state", read_slowly)
    assert standing.reader(PROBE).version == 1
    second.registry.models.get("a").wake().result()
    before = second.registry._context.budget.held()["models"]
    assert second.registry._context.budget._models.keys() == {second.registry.models.get("a").held}
    assert before == second.registry.models.get("a").held.size


def test_a_store_that_is_away_leaves_the_copy_and_makes_none(
    opened: Open, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened("first")
    for model in ("a", "b"):
        first.registry.models.create(model, ModelSpec(C=1.0))
        first.learn(model, 0, "one")
    second = opened("second")
    read(second, "a")
    asked = []

    def away(*arguments: Any) -> Any:
        asked.append(arguments)
        raise StoreUnavailable("Redis cannot be used: away")

    later(LEASE)
    with monkeypatch.context() as patched:
        patched.setattr(second.store, "heads", away)
        assert read(second, "a").version == 1
        assert second.registry.models.readable("a").age == LEASE
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match="cannot be read here: Redis cannot be used: away"):
                read(second, "b")
        assert len(asked) == 2  # and not with every request
    later(LEASE)
    assert read(second, "b").version == 1


def test_the_holder_of_a_model_is_called_by_address_if_that_is_known(opened: Open) -> None:
    first = opened("first")
    first.registry.models.create("a", ModelSpec(C=1.0))
    second = opened("second")
    with pytest.raises(ModelUnavailable, match="held by another service, first"):
        second.registry.models.get("a")
    first.store.put_document(DocumentName(SERVICE, "first"), b"http://box:8000")
    second.registry.take_over()
    with pytest.raises(ModelUnavailable, match="held by another service, at http://box:8000"):
        second.registry.models.get("a")
