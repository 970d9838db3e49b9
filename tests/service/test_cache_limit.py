"""A restart never takes an acknowledged update back because kernel rows do not fit: it takes more, or says so."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from livesvm.service.api.problem_documents import kind_of
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.spec import ModelSpec
from livesvm.service.store.base import StoreError
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.models.change import Batch, Change
from tests.support.live_models import alive

SPEC = ModelSpec.model_validate({"id": "m", "C": 10.0, "kernel": {"name": "rbf", "gamma": 50.0}})
N = 314
"""All of them free; their rows just fit into a megabyte as they grow, and not with the space of a restored model."""


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_model_at_the_limit_of_its_cache_comes_back(
    snapshot: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        live = grown(store)
        if snapshot:
            live.checkpoint().result()
        assert live.sample().sizes.n_free == N
        with caplog.at_level(logging.WARNING):
            again = alive(store, store.acquire("m"), SPEC, cache_mb=1)
        assert (again.sample().version, again.sample().sizes.n_free) == (2, N)
        assert [record.aborted for record in store.log("m", 0)] == [False, False]
        assert ("twice as much" in caplog.text) is snapshot


def grown(store: SqliteStore) -> HostedModel:
    """Return a model that has grown in two steps with a cache of one megabyte."""
    live = alive(store, store.create("m", b""), SPEC, cache_mb=1)
    rng = np.random.default_rng(0)
    for n in (200, N - 200):
        live.update(Change(Batch(rng.normal(size=(n, 8)), rng.choice([-1.0, 1.0], n))), None).result()
    return live


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_cache_that_was_made_too_small_is_reported(snapshot: bool, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        live = alive(store, store.create("m", b""), SPEC)
        rng = np.random.default_rng(0)
        for n in (400, 300):
            live.update(Change(Batch(rng.normal(size=(n, 8)), rng.choice([-1.0, 1.0], n))), None).result()
        if snapshot:
            live.checkpoint().result()
        with pytest.raises(StoreError, match="LIVESVM_CACHE_MB is 1 and must be more"):
            alive(store, store.acquire("m"), SPEC, cache_mb=1)
        assert [record.aborted for record in store.log("m", 0)] == [False, False]
        assert alive(store, store.acquire("m"), SPEC).sample().version == 2


def test_an_update_that_does_not_fit_says_what_to_raise(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        live = grown(store)
        rng = np.random.default_rng(1)
        update = Change(Batch(rng.normal(size=(200, 8)), rng.choice([-1.0, 1.0], 200)))
        with pytest.raises(MemoryLimit) as raised:
            live.update(update, None).result()
        assert live.sample().version == 2
        assert "LIVESVM_CACHE_MB" in kind_of(raised.value).title
        advised = int(str(raised.value).partition("cache_mb=")[2].split()[0])
        again = alive(store, store.acquire("m"), SPEC, cache_mb=advised)
        again.update(update, None).result()
        assert again.sample().version == 3
