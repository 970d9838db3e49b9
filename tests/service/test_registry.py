"""The models by id: how many, which ids are free, and what becomes of one that could be stored but not started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from livesvm.service.errors import NothingToErase, TooManyModels, UnknownModel
from livesvm.service.history.journal import Source
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.registry import Registry
from livesvm.service.lifecycle.finding import Finder
from livesvm.service.lifecycle.name_index import NameIndex
from livesvm.service.lifecycle.search import Sought
from livesvm.service.models.spec import ModelSpec
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.base import Head, ModelExists, StoreBehind, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import InvalidInput
from tests.support.live_models import FailingStore, batch

QUOTA = 3
IDS = ("a", "b", "c", "d")


class RegistryStore(FailingStore):
    """Fails in making, taking and deleting models too."""

    def create(self, *arguments: Any) -> Any:
        with self._may_fail("create"):
            return super().create(*arguments)

    def delete(self, *arguments: Any) -> None:
        with self._may_fail("delete"):
            super().delete(*arguments)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RegistryStore]:
    with closing(RegistryStore(tmp_path / "store")) as opened:
        yield opened


def opened(store: RegistryStore) -> Registry:
    """Return the models as a new process restores them."""
    metrics = Metrics()
    source = Source(store, Health(metrics), metrics)
    settings = Settings(max_models=QUOTA, snapshot_replay_seconds=1e9, solution_seconds=1e9)
    registry = Registry(Context(settings, source, SolveScheduler(1)))
    registry.restore()
    return registry


def test_of_many_replicas_so_many_are_watched_at_each_look(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        metrics, asked = Metrics(), list[set[str]]()
        registry = Registry(Context(Settings(), Source(store, Health(metrics), metrics), SolveScheduler(1)))
        for name in ("a", "b", "c"):
            registry.models.create(name, ModelSpec(C=1.0))
        heads = store.heads

        def noted(models: Iterable[str]) -> dict[str, Head]:
            asked.append(set(models))
            return heads(models)

        with patch.object(store, "heads", noted):
            for most in (2, 2, 2, None):
                registry.watch(most)
        assert list(map(len, asked)) == [2, 1, 2, 3]
        assert asked[0] | asked[1] == asked[3] == {"a", "b", "c"}
        registry.stop()


def deleted(registry: Registry, model: str) -> None:
    """Delete a model, as its route does."""
    registry.models.delete(model).result()
    registry.models.forget(model)


def ids(registry: Registry) -> set[str]:
    return {model.id for model in registry.models.page()}


def stored(store: RegistryStore) -> set[str]:
    return {model.id for model in store.models()}


@pytest.mark.parametrize("seed", range(6))
def test_any_history_leaves_what_is_stored_and_known_the_same(store: RegistryStore, seed: int) -> None:
    """Models are made, deleted and restored, on a store that fails now and then before it has done anything."""
    rng = np.random.default_rng(seed)
    registry, expected = opened(store), set[str]()
    for _ in range(40):
        name = str(rng.choice(IDS))
        store.failing = str(rng.choice(["", "", "create", "last_sequence", "delete"]))
        kind = rng.choice(["create", "create", "delete", "restart"])
        if kind == "create":
            refusal: Any = None
            if name in expected:
                refusal = ModelExists
            elif len(expected) == QUOTA:
                refusal = TooManyModels
            elif store.failing in ("create", "last_sequence"):
                refusal = StoreUnavailable
            if refusal is None:
                assert registry.models.create(name, ModelSpec(C=1.0)).id == name
            else:
                with pytest.raises(refusal):
                    registry.models.create(name, ModelSpec(C=1.0))
            if refusal is None or (refusal is StoreUnavailable and store.failing == "last_sequence"):
                expected.add(name)  # it is stored: only its making failed
        elif kind == "delete":
            refused = store.failing == "delete" and name in expected
            if refused or name not in expected:
                with pytest.raises(StoreUnavailable if refused else UnknownModel):
                    deleted(registry, name)
            else:
                deleted(registry, name)
                expected.remove(name)
        else:
            store.failing = ""
            registry.stop()
            registry = opened(store)
            assert all(model.state == "live" for model in registry.models.page())
        store.failing = ""
        assert ids(registry) == stored(store) == expected
    registry.stop()


def test_a_model_that_could_not_be_started_is_by_its_next_call_and_can_be_deleted(store: RegistryStore) -> None:
    registry = opened(store)
    store.failing = "last_sequence"
    with pytest.raises(StoreUnavailable):
        registry.models.create("a", ModelSpec(C=1.0))
    store.failing = ""
    assert registry.models.find("a").state == "restoring"
    registry.models.get("a").update(batch(0), None).result()
    deleted(registry, "a")
    with pytest.raises(UnknownModel):
        registry.models.find("a")
    registry.models.create("a", ModelSpec(C=1.0)).update(batch(0), None).result()
    registry.stop()
    again = opened(store)
    assert again.models.get("a").published.version == 1
    again.stop()


def test_what_is_refused_takes_no_place(store: RegistryStore) -> None:
    registry = opened(store)
    for _ in range(2 * QUOTA):
        with pytest.raises(InvalidInput):
            registry.models.create("a", ModelSpec(n_features=10**5))
    for name in IDS[:QUOTA]:
        registry.models.create(name, ModelSpec(C=1.0))
    with pytest.raises(TooManyModels):
        registry.models.create(None, ModelSpec(C=1.0))
    registry.stop()


def test_a_deletion_under_a_look_at_the_store_is_no_loss(
    store: RegistryStore, caplog: pytest.LogCaptureFixture
) -> None:
    registry = opened(store)
    model = registry.models.create("a", ModelSpec(C=1.0))
    model.update(batch(0), None).result()
    delete = store.delete

    def watched(*arguments: Any) -> None:
        delete(*arguments)
        registry.watch()  # the store has it no longer, and the model does not know yet

    with patch.object(store, "delete", watched):
        deleted(registry, "a")
    assert (model.journal.behind, caplog.records) == (False, [])
    with pytest.raises(UnknownModel):
        model.update(batch(1), None).result()
    registry.stop()


@pytest.mark.parametrize("then", ["gone", "made again", "lost"])
def test_an_erasure_says_that_the_store_has_lost_a_model_only_if_it_has(
    store: RegistryStore, tmp_path: Path, then: str
) -> None:
    registry, model_of = opened(store), store.model
    model = registry.models.create("a", ModelSpec(C=1.0))
    model.update(batch(0), None).result()
    nothing: Any = SimpleNamespace(find=lambda keys: ([], [], set()), naming=lambda *_: set(), all=list)
    finder = Finder(NameIndex(store, tmp_path), model.context.source, registry, (nothing, nothing))

    def meanwhile(stored: str) -> Any:
        """Return what there is after the model went, before the erasure comes to it."""
        if then == "lost":
            with store._transaction() as db:
                db.execute("DELETE FROM models")
        else:
            deleted(registry, "a")
        found = model_of(stored)
        if then == "made again":
            registry.models.create("a", ModelSpec(C=1.0))
        return found

    expected = {"gone": UnknownModel, "made again": NothingToErase, "lost": StoreBehind}[then]
    with patch.object(store, "model", meanwhile), pytest.raises(expected):
        finder.find("a", Sought(("b",), ()))
    registry.stop()
