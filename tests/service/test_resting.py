"""Replicas that go to rest and wake: nothing is lost, nothing differs, and at rest nothing is kept but the index."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import ModelUnavailable, NoRoom, OutOfTime, UnknownModel
from livesvm.service.feeds.spec import spec_of
from livesvm.service.hosting import registry as registry_module
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.registry import Registry
from livesvm.service.hosting.replica import Replica
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.resources.memory import Budget
from livesvm.service.store.base import StoreDamaged, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from tests.support.erasing import intent_of
from tests.support.feeds import FEED, rows_of, series
from tests.support.live_models import SPEC, FailingStore, batch, context_of, decisions
from tests.support.many_stored import fill
from tests.support.waiting import until


class CountingStore(FailingStore):
    """Counts what is read of models' states."""

    read = 0

    def load_snapshot(self, *arguments: Any) -> bytes:
        self.read += 1
        return super().load_snapshot(*arguments)

    def log(self, *arguments: Any) -> Any:
        self.read += 1
        return super().log(*arguments)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    with closing(CountingStore(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes to rest, cools or is looked at but by what a test does."""
    monkeypatch.setattr(Registry, "_sweep", lambda self: None)


def registry_of(store: SqliteStore, **settings: Any) -> Registry:
    made = Registry(context_of(store, **settings))
    made.restore()
    return made


@pytest.fixture
def registry(store: CountingStore) -> Iterator[Registry]:
    made = registry_of(store)
    yield made
    made.stop()


def rested(replica: Replica[Any]) -> None:
    """Have it go to rest once its newest call has ended."""
    until(replica.rest)


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_model_that_wakes_is_the_one_that_went_to_rest(registry: Registry, snapshot: bool) -> None:
    model = registry.models.create("m", SPEC)
    answers = [model.update(batch(seed), f"r{seed}").result().body for seed in range(3)]
    if snapshot:
        model.checkpoint().result()
    before, reported = decisions(model), model.describe()
    rested(model)
    assert (model.is_awake, model._held) == (False, None)
    shown = registry.models.find("m").describe()
    assert (
        replace(shown, awake=True, returned=reported.returned, predicted=reported.predicted, memory=reported.memory)
        == reported
    )
    assert model.published.predictor is None
    np.testing.assert_allclose(decisions(model), before, rtol=0, atol=1e-9)
    rested(model)
    again = model.update(batch(1), "r1").result()  # the request is known, whoever is awake
    assert (again.replayed, again.body) == (True, answers[1])
    assert model.update(batch(9), None).result().replayed is False
    assert model.published.version == 4
    assert model.certificate().result()["relative_gap"] <= 1e-8


def test_no_reader_finds_a_model_awake_before_its_version_is_shown(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = registry.models.create("m", SPEC)
    model.update(batch(0), None).result()
    rested(model)
    publish, was_awake = HostedModel._publish, []

    def watched(model: HostedModel, state: ModelState) -> None:
        was_awake.append(model.is_awake)
        publish(model, state)

    monkeypatch.setattr(HostedModel, "_publish", watched)
    model.wake().result()
    assert was_awake == [False]
    assert model.published.version == 1


def test_a_feed_that_wakes_goes_on_as_one_that_never_rested(registry: Registry) -> None:
    readings = rows_of(series(70))
    feeds = [registry.feeds.create(name, spec_of(FEED)) for name in ("rests", "stays")]
    for begin in range(0, 70, 10):
        for feed in feeds:
            feed.observe(readings[begin : begin + 10], None).result()
        rested(feeds[0])
        assert feeds[0].shown is None
        assert feeds[0].glimpse is not None
        assert feeds[0].glimpse.position == begin + 10
    feeds[0].wake().result()
    mine, other = (feed.view for feed in feeds)
    assert (mine.position, mine.numbered) == (other.position, other.numbered)
    for scores, others in zip(mine.recent, other.recent, strict=True):
        assert scores == pytest.approx(others, abs=1e-9)
    values = [[forecast["value"] for forecast in seen.forecasts] for seen in (mine, other)]
    assert values[0] == pytest.approx(values[1], abs=1e-6)


def test_at_rest_nothing_is_kept_but_the_index_and_a_start_reads_nothing_else(tmp_path: Path) -> None:
    with closing(CountingStore(tmp_path / "one")) as store:
        registry = registry_of(store)
        model = registry.models.create("m000000", SPEC)
        model.update(batch(0), None).result()
        snapshot, summary = model.current.encode(), model._summarize()
        registry.stop()
        del model
    ids = fill(tmp_path / "store", 300, stored_spec, snapshot, summary)
    with closing(CountingStore(tmp_path / "store")) as store:
        registry = registry_of(store)
        assert registry.models.states() == {"live": 300}
        assert [model.describe().version for model in registry.models.page()] == [1] * 300
        assert [len(sample.id) for sample in registry.models.samples(5)] == [7] * 5
        assert (store.read, len(registry.models.awake()), len(registry.models._handles)) == (0, 0, 0)
        before = threading.active_count()
        for id_ in ids[:20]:
            decisions(registry.models.get(id_))
        assert len(registry.models.awake()) == 20
        assert threading.active_count() - before < 20
        registry.make_room(0)  # everything fits: no replica rests
        assert len(registry.models.awake()) == 20
        registry.stop()
        assert store.read > 20


def stored_spec(id: str) -> bytes:
    return HostedModel.encode_spec(ModelSpec(id=id, C=10.0))


def test_pages_hold_every_model_once_in_order(registry: Registry) -> None:
    names = [f"{letter}{number}" for letter in "bac" for number in range(5)]
    for name in names:
        registry.models.create(name, ModelSpec(C=1.0))
    seen: list[str] = []
    while page := registry.models.page(seen[-1] if seen else "", 4):
        seen += [model.id for model in page]
    assert seen == sorted(names)
    registry.models.delete("a2").result()
    registry.models.forget("a2")
    assert [model.id for model in registry.models.page("a1", 1)] == ["a3"]
    assert len(registry.models) == 14


def test_calls_that_come_while_models_go_to_rest_have_one_effect_each(registry: Registry) -> None:
    """Clients update three models while each goes to rest as often as it can."""
    for name in "abc":
        registry.models.create(name, SPEC)
    done, is_over = Counter[str](), threading.Event()

    def learn(seed: int) -> None:
        for number in range(30):
            name = "abc"[(seed + number) % 3]
            registry.models.get(name).update(batch(100 * seed + number, 1), f"{seed}-{number}").result()
            done[name] += 1

    def rest() -> None:
        while not is_over.is_set():
            for model in registry.models.awake():
                model.rest()
                model.cool()

    resting = threading.Thread(target=rest)
    learning = [threading.Thread(target=learn, args=(seed,)) for seed in range(3)]
    for thread in (resting, *learning):
        thread.start()
    for thread in learning:
        thread.join()
    is_over.set()
    resting.join()
    for name in "abc":
        model = registry.models.get(name)
        model.wake().result()
        assert (model.published.version, model.published.sizes.n_examples) == (30, 30)
        assert model.certificate().result()["relative_gap"] <= 1e-8
    assert registry.models._context.source.metrics.rests.labels("model")._value.get() > 3


def test_what_is_owed_the_store_keeps_a_model_awake(store: CountingStore, registry: Registry) -> None:
    model = registry.models.create("m", SPEC)
    model.update(batch(0), None).result()
    store.failing = "save_snapshot"
    assert not model.rest()
    store.failing = "append"
    with pytest.raises(StoreUnavailable):
        model.update(batch(1), None).result()
    assert not model.rest()
    store.failing = ""
    model.update(batch(2), None).result()
    rested(model)
    assert model.describe().version == 2


def test_space_is_made_by_those_that_were_used_longest_ago_and_none_that_is_in_use(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [registry.models.create(f"m{number}", SPEC) for number in range(6)]
    for number in (3, 0, 1, 2, 4, 5):
        models[number].update(batch(number, 200), None).result()
    registry.make_room(0)
    assert all(model.is_awake for model in models)
    budget: Budget = registry._context.budget
    for model in models:
        until(model.cool)
    budget.limit = sum(budget.held().values()) / 0.9
    began, release = threading.Event(), threading.Event()

    def block() -> bool:
        began.set()
        return release.wait(20)

    models[3]._submit(block, reads=True)
    assert began.wait(10)
    registry.make_room(1)
    resting = {model.id for model in models if not model.is_awake}
    assert "m0" in resting
    assert "m3" not in resting
    assert "m5" not in resting
    budget.limit = 1.0
    with pytest.raises(NoRoom, match="m0 cannot wake now"):
        models[0].wake().result()
    release.set()
    budget.limit = 1e12
    assert decisions(models[0]).shape == (10,)


def test_kernel_rows_are_given_up_where_many_models_have_some(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "HOT_REPLICAS", 2)
    monkeypatch.setattr(registry_module, "HOT_SECONDS", 0.0)
    models = [registry.models.create(f"m{number}", SPEC) for number in range(5)]
    for model in models:
        model.update(batch(0, 60), None).result()
        model.wake().result()
    before = [decisions(model) for model in models]
    monkeypatch.setattr(registry_module, "HOT_BYTES", models[0].count_hot() + models[1].count_hot() // 2)
    registry._cool(registry._awake())
    assert [model.count_hot() > 0 for model in models] == [False, False, True, True, True]
    for model, decided in zip(models, before, strict=True):
        np.testing.assert_array_equal(decisions(model), decided)
        model.update(batch(1), None).result()
        assert model.certificate().result()["relative_gap"] <= 1e-8


def test_damage_concerns_one_model_alone_and_is_found_before_a_call(
    store: CountingStore, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        registry.models.create(name, SPEC).update(batch(0), None).result()
    for model in registry.models.awake():
        rested(model)
    del model
    load = store.load_snapshot

    def damaged(name: str, sequence: int) -> bytes:
        if name == "b":
            raise StoreDamaged("the snapshot does not match its checksum")
        return load(name, sequence)

    monkeypatch.setattr(store, "load_snapshot", damaged)
    with store._transaction() as db:
        db.execute("DELETE FROM log WHERE model = 'b'")
    assert registry.models.states() == {"live": 3}
    for _ in range(3):
        registry._scrub()
    assert registry.models.states() == {"live": 2, "failed": 1}
    with pytest.raises(ModelUnavailable, match="model b is not served here"):
        registry.models.get("b")
    assert registry.models.get("a").update(batch(1), None).result().replayed is False
    registry.models.delete("b").result()
    registry.models.forget("b")
    assert sorted(model.id for model in store.models()) == ["a", "c"]


def test_one_at_rest_can_be_deleted_erased_from_and_made_again(store: CountingStore, registry: Registry) -> None:
    model = registry.models.create("m", SPEC)
    model.update(batch(0), "one").result()
    rested(model)
    assert model.erase(intent_of("m", [0])).result().version == 2
    rested(model)
    del model
    again = registry.models.get("m")
    assert again.describe().sizes.n_examples == 7
    again.delete().result()
    registry.models.forget("m")
    assert store.models() == []
    with pytest.raises((UnknownModel, ModelUnavailable)):
        again.wake().result()
    made = registry.models.create("m", SPEC)
    assert made.published.version == 0
    assert registry.models.get("m") is made


def test_a_start_after_a_kill_knows_every_update_and_wakes_what_was_changed(tmp_path: Path) -> None:
    with closing(CountingStore(tmp_path / "store")) as store:
        registry = registry_of(store)
        for name in "abc":
            registry.models.create(name, SPEC).update(batch(0), None).result()
        rested(registry.models.get("b"))
        registry.models.get("c").update(batch(1), None).result()
    with closing(CountingStore(tmp_path / "store")) as store:  # as a process that died without a word leaves it
        again = registry_of(store)
        until(lambda: again.models.states() == {"live": 3})
        assert [model.describe().version for model in again.models.page()] == [1, 1, 2]
        assert {model.id for model in again.models.awake()} == {"a", "c"}
        again.stop()


def test_a_start_that_was_refused_a_model_for_a_while_wakes_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(CountingStore(tmp_path / "store")) as store:
        registry_of(store).models.create("m", SPEC).update(batch(0), None).result()
    refusals: list[Exception] = [OutOfTime("it took too long"), NoRoom("others need the memory")]
    opened = HostedModel._open

    def refused(model: HostedModel) -> None:
        if refusals:
            raise refusals.pop()
        opened(model)

    monkeypatch.setattr(HostedModel, "_open", refused)
    with closing(CountingStore(tmp_path / "store")) as store:
        again = registry_of(store)
        for expected in ({"restoring": 1}, {"restoring": 1}, {"live": 1}):
            assert again.models.states() == expected
            again.take_over()
        again.stop()


def test_a_replica_wakes_once_however_many_call(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, store: CountingStore
) -> None:
    model = registry.models.create("m", SPEC)
    model.update(batch(0), None).result()
    rested(model)
    wakes = Counter[str]()
    decode = ModelState.of

    def counted(*arguments: Any) -> ModelState:
        wakes["m"] += 1
        time.sleep(0.05)
        return decode(*arguments)

    monkeypatch.setattr(ModelState, "of", counted)
    found: list[Any] = []
    calls: list[Callable[[], Any]] = [
        lambda: decisions(model),
        lambda: model.update(batch(1), None).result(),
        lambda: model.certificate().result(),
        lambda: decisions(registry.models.get("m")),
    ]
    running = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert (len(found), wakes["m"]) == (4, 1)
