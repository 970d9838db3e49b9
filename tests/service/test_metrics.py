"""Metrics stay bounded, and readiness says why not."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from docs.generate.tables import all_of
from livesvm.service.hosting.handle import Description
from livesvm.service.models.commands import Sizes
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample, SourceSample, StepSample
from livesvm.service.monitoring.health import SILENCE_SECONDS, Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import OutOfSequence, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_only_so_many_models_get_series(metrics: Metrics) -> None:
    samples = [Description("live", id=f"m{n}", version=n, updated_at=1.5) for n in range(9)]
    samples += [Description("failed", id="bad")]
    metrics.watch(all_of(samples), limit=3)
    text = metrics.render().decode()
    assert 'livesvm_models{state="live"} 9.0' in text
    assert 'livesvm_models{state="failed"} 1.0' in text
    assert 'livesvm_model_version{model="m2"} 2.0' in text
    assert 'livesvm_model_last_update_timestamp_seconds{model="m0"} 1.5' in text
    assert 'model="m3"' not in text
    samples.clear()
    assert 'model="m2"' not in metrics.render().decode()


def values(metrics: Metrics, word: str) -> dict[str, float]:
    """Return the numbers over all models, or feeds."""
    lines = (line.split() for line in metrics.render().decode().splitlines() if line.startswith(f"livesvm_{word}_"))
    return {name.removeprefix(f"livesvm_{word}_"): float(value) for name, value in lines}


def test_numbers_over_all_models_have_no_limit(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Sizes(n_free=3, max_violation=1e-12)
    samples = [Description("live", id=f"m{n}", sizes=sizes, drift={"alarm": None}) for n in range(60)]
    metrics.watch(all_of(samples), limit=50)
    assert values(metrics, "models")["worst_violation"] == 1e-12
    assert values(metrics, "models")["drifting"] == 0
    worst, alarm = Sizes(max_violation=1e-3, relative_gap=1e-5), {"alarm": {"n_since": 3}}
    samples[52] = Description("live", id="m52", sizes=worst, drift=alarm)  # awake
    samples[53] = Description("live", id="m53", sizes=Sizes(n_free=70), queue_depth=9, drift=alarm)  # and at rest
    wanted = {"worst_violation": 1e-3, "largest_gap": 1e-5, "longest_queue": 9, "most_free_examples": 70, "drifting": 2}
    assert values(metrics, "models") == wanted
    monkeypatch.setattr("livesvm.service.monitoring.feeds.REST_SECONDS", 0.0)  # one at rest each time
    samples[52] = samples[53] = samples[0]
    assert values(metrics, "models")["drifting"] == 1
    for _ in range(40):
        found = values(metrics, "models")
    assert (found["drifting"], found["longest_queue"]) == (0, 0)


def test_numbers_over_all_feeds_have_no_limit(metrics: Metrics) -> None:
    now, good = time.time(), StepSample(1, 1.0, 2.0, 0.9)
    feeds = [FeedSample(f"f{n}", 9, 0, now, 60.0, 0.9, (good,), SourceSample(True, 0, 0)) for n in range(20)]
    metrics.watch_feeds(all_of(feeds), limit=2)
    assert set(values(metrics, "feeds").values()) == {0}
    worse, down = (good, StepSample(2, 3.0, 2.0)), SourceSample(False, None, 0)
    feeds[10] = FeedSample("f10", 9, 3, now - 301, 60.0, 0.9, worse, down)
    feeds[11] = FeedSample("f11", 9, 0, None, None, 0.9, (StepSample(9, 1.0, 2.0, 0.79),), SourceSample(True, 600, 0))
    assert values(metrics, "feeds") == {
        "silent": 1,
        "behind_naive": 1,
        "band_off": 1,
        "longest_queue": 3,
        "sources_down": 1,
        "most_backlog": 600,
    }


def test_counters_begin_at_zero(metrics: Metrics) -> None:
    text = metrics.render().decode()
    for task in ("svc", "svr", "oneclass"):
        for outcome in ("applied", "replayed", "refused", "failed"):
            assert f'livesvm_updates_total{{outcome="{outcome}",task="{task}"}} 0.0' in text
    for outcome in ("written", "failed", "damaged"):
        assert f'livesvm_snapshots_total{{outcome="{outcome}"}} 0.0' in text


def test_jobs_are_counted_by_state(metrics: Metrics) -> None:
    metrics.show(jobs=lambda: {"running": 2, "done": 0})
    text = metrics.render().decode()
    assert 'livesvm_jobs{state="running"} 2.0' in text
    assert 'livesvm_jobs{state="done"} 0.0' in text


def test_readiness_needs_models_and_a_store(metrics: Metrics, store: SqliteStore) -> None:
    health = Health(metrics)
    models, solvers = "models are being restored", "the solvers are being loaded or compiled"
    assert health.reasons() == [models, solvers]
    health.came_back()
    assert health.reasons() == [solvers]
    health.warmed()
    assert health.reasons() == ["requests are being rehearsed"]
    assert "livesvm_ready 0.0" in metrics.render().decode()
    health.restored()
    assert health.reasons() == []
    assert "livesvm_ready 1.0" in metrics.render().decode()
    with pytest.raises(StoreUnavailable), health.store_call("append"):
        raise StoreUnavailable("gone")
    assert health.reasons() == ["the store is not available"]
    text = metrics.render().decode()
    assert "livesvm_ready 0.0" in text
    assert "livesvm_store_up 0.0" in text
    assert 'livesvm_store_errors_total{operation="append"} 1.0' in text
    health.ask_store(store)
    assert health.reasons() == []
    assert 'livesvm_durability_info{level="fsynced"} 1.0' in metrics.render().decode()
    health.stopping()
    assert health.reasons() == ["the service is stopping"]


def test_readiness_needs_a_model_that_is_served(metrics: Metrics) -> None:
    health = Health(metrics)
    health.restored()
    states: list[ServingState] = []
    health.states = lambda: Counter(states)
    assert (health.reasons(), health.degraded()) == ([], [])
    states += ["fenced", "behind", "fenced"]
    lost, taken = "models know more than the store, which has lost it", "models were taken over by another service"
    assert health.reasons() == [f"1 of 3 {lost}", f"2 of 3 {taken}"]
    assert "livesvm_ready 0.0" in metrics.render().decode()
    states[0] = "live"
    assert health.reasons() == []
    assert health.degraded() == [f"1 of 3 {lost}", f"1 of 3 {taken}"]
    assert "livesvm_ready 1.0" in metrics.render().decode()


def test_models_are_looked_at_before_a_store_is_said_to_be_back(metrics: Metrics, store: SqliteStore) -> None:
    """One that could only be read has new leases: models that hold old ones are taken first."""
    health = Health(metrics)
    health.restored()
    states: list[ServingState] = ["live"]
    health.states = lambda: Counter(states)
    with pytest.raises(StoreUnavailable), health.store_call("append"):
        raise StoreUnavailable("it can only be read")
    seen = []

    def look() -> None:
        seen.append(health.reasons())
        states[0] = "fenced"

    health.ask_store(store, look)
    assert seen == [["the store is not available"]]
    assert health.reasons() == ["1 of 1 models were taken over by another service"]


def test_a_store_that_says_nothing_is_away(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health(metrics)
    health.restored()
    later = time.monotonic() + SILENCE_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert health.reasons() == ["the store is not available"]
    assert "livesvm_store_up 0.0" in metrics.render().decode()


def test_only_what_was_written_says_that_the_store_can_be(
    metrics: Metrics, store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    health = Health(metrics)
    for _ in range(3):
        with pytest.raises(StoreUnavailable), health.store_call("append"):
            raise StoreUnavailable("no room")
        with health.store_call("recall"):
            pass
        assert not health.store_up
    with health.store_call("append"):
        pass
    assert health.store_up
    store.close()
    health.ask_store(store)
    with health.store_call("append"):
        pass
    assert not health.store_up
    reported = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0].split(",")[0] for text in reported] == [
        "the store is not available",
        "the store is available again",
        "the store is not available",
    ]
    assert reported[0].endswith("updates are refused: no room")


def test_a_refusal_by_the_store_does_not_make_it_unavailable(metrics: Metrics) -> None:
    health = Health(metrics)
    with pytest.raises(OutOfSequence), health.store_call("append"):
        raise OutOfSequence("no")
    assert health.store_up
