"""Two services on one Redis: who serves which model, and what becomes of the one before."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from livesvm.service.errors import ModelUnavailable, UnknownModel
from livesvm.service.history.journal import Source
from livesvm.service.live.registry import Registry
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.models.spec import ModelSpec
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.turns import Turns
from livesvm.service.settings import Settings
from livesvm.service.store.base import Fenced
from livesvm.service.store.redis import RedisStore
from tests.contract.conftest import redis_server
from tests.contract.redis_server import RedisServer
from tests.support.live_models import batch

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
        self.registry = Registry(Surroundings(settings, source, Turns(1)))
        self.health.watch_models(self.registry.states)
        self.registry.restore()

    def states(self) -> dict[str, str]:
        """The state of each model."""
        return {model.id: model.state for model in self.registry.all()}

    @property
    def on_standby(self) -> bool:
        """Whether it says that it has nothing to serve."""
        return any("held by another service" in reason for reason in self.health.reasons())

    def learn(self, model: str, seed: int) -> None:
        """One update."""
        self.registry.get(model).update(batch(seed), None).result()

    def version(self, model: str) -> int:
        """The version that predictions are made by."""
        return self.registry.get(model).published.version


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


def writers(model: str) -> int:
    """Threads that write a model."""
    return sum(thread.name == f"writer-model {model}" for thread in threading.enumerate())


def test_a_second_service_stands_by_until_it_has_something_to_serve(opened: Open) -> None:
    first = opened("first")
    assert not first.on_standby  # there is nothing that anyone could serve
    for model in ("a", "b"):
        first.registry.create(ModelSpec(id=model))
        first.learn(model, 0)
    second = opened("second")
    assert second.states() == {"a": "held", "b": "held"}
    assert second.on_standby
    with pytest.raises(ModelUnavailable, match="held by another service"):
        second.registry.get("a")
    second.registry.take_over()
    assert second.states() == {"a": "held", "b": "held"}
    first.registry.get("a").stop()
    second.registry.take_over()
    assert second.states() == {"a": "live", "b": "held"}
    assert not second.on_standby
    second.learn("a", 1)
    assert second.version("a") == 2


def test_what_goes_to_and_fro_has_one_writer_and_reads_on(opened: Open) -> None:
    first = opened("first")
    first.registry.create(ModelSpec(id="shuttle"))
    first.learn("shuttle", 0)
    second = opened("second")
    old = first.registry.get("shuttle")
    old._journal.release()
    second.registry.take_over()
    second.learn("shuttle", 1)
    first.registry.watch()
    assert first.states() == {"shuttle": "fenced"}
    with pytest.raises(Fenced):
        first.learn("shuttle", 2)
    first.registry.take_over()  # which is not there to be had
    assert first.registry.get("shuttle") is old
    assert first.version("shuttle") == 1
    second.registry.get("shuttle").stop()
    first.registry.take_over()
    assert first.states() == {"shuttle": "live"}
    assert first.version("shuttle") == 2
    assert writers("shuttle") == 1
    first.learn("shuttle", 3)
    assert first.version("shuttle") == 3


def test_what_another_service_deletes_or_makes_is_noticed(opened: Open) -> None:
    first = opened("first")
    first.registry.create(ModelSpec(id="a"))
    second = opened("second")
    assert second.states() == {"a": "held"}
    first.registry.create(ModelSpec(id="b"))
    first.registry.delete("a").result()
    first.registry.forget("a")
    second.registry.take_over()
    assert second.states() == {"b": "held"}
    with pytest.raises(UnknownModel):
        second.registry.find("a")
    with pytest.raises(ModelUnavailable):
        second.registry.delete("b")
    assert first.states() == {"b": "live"}


def test_an_orderly_end_lets_every_model_go(opened: Open) -> None:
    first = opened("first")
    for model in ("a", "b"):
        first.registry.create(ModelSpec(id=model))
        first.learn(model, 0)
    second = opened("second")
    first.registry.stop()
    second.registry.take_over()
    assert second.states() == {"a": "live", "b": "live"}
    assert [second.version(model) for model in ("a", "b")] == [1, 1]


def test_versions_are_in_order_whoever_is_asked(opened: Open) -> None:
    first = opened("first")
    first.registry.create(ModelSpec(id="a"))
    first.learn("a", 0)
    assert not first.registry.get("a").versions()["stale"]
    second = opened("second")
    first.registry.get("a")._journal.release()
    second.registry.take_over()
    for seed in (1, 2, 3):
        second.learn("a", seed)
        second.registry.get("a").checkpoint().result()
    for _ in range(2):
        found = first.registry.get("a").versions()
        assert (found["oldest"], found["current"], found["stale"]) == (3, 4, True)
        assert [snapshot["version"] for snapshot in found["snapshots"]] == [4, 3]
        first.registry.watch()
    assert first.version("a") == 1
    found = second.registry.get("a").versions()
    assert (found["oldest"], found["current"]) == (3, 4)
