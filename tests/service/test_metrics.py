"""Metrics stay bounded, and readiness says why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.health import Health
from service.metrics import Metrics, ModelSample
from service.store.base import OutOfSequence, StoreUnavailable
from service.store.sqlite import SqliteStore


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store")) as opened:
        yield opened


def test_only_so_many_models_get_series(metrics: Metrics) -> None:
    samples = [ModelSample(f"m{n}", version=n, updated_at=1.5) for n in range(9)] + [ModelSample("bad", "failed")]
    metrics.watch(lambda: samples, limit=3)
    text = metrics.render().decode()
    assert 'livesvm_models{state="live"} 9.0' in text
    assert 'livesvm_models{state="failed"} 1.0' in text
    assert 'livesvm_model_version{model="m2"} 2.0' in text
    assert 'livesvm_model_last_update_timestamp_seconds{model="m0"} 1.5' in text
    assert 'model="m3"' not in text
    samples.clear()
    assert 'model="m2"' not in metrics.render().decode()


def test_counters_begin_at_zero(metrics: Metrics) -> None:
    text = metrics.render().decode()
    for task in ("svc", "svr", "oneclass"):
        for outcome in ("applied", "replayed", "refused", "failed"):
            assert f'livesvm_updates_total{{outcome="{outcome}",task="{task}"}} 0.0' in text
    for outcome in ("written", "failed", "damaged"):
        assert f'livesvm_snapshots_total{{outcome="{outcome}"}} 0.0' in text


def test_jobs_are_counted_by_state(metrics: Metrics) -> None:
    metrics.watch_jobs(lambda: {"running": 2, "done": 0})
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


def test_a_refusal_by_the_store_does_not_make_it_unavailable(metrics: Metrics) -> None:
    health = Health(metrics)
    with pytest.raises(OutOfSequence), health.store_call("append"):
        raise OutOfSequence("no")
    assert health.store_up
