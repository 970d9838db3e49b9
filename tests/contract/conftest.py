"""The stores that the contract is held against."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from livesvm.service.store.base import Store
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from tests.contract.redis_server import RedisServer

Open = Callable[[], Store]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for every test that neither stops nor breaks it."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture(params=["sqlite", "redis"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open the same stored data, each time as another process of the same service would."""
    prefix = uuid.uuid4().hex
    server = request.getfixturevalue("redis_server") if request.param == "redis" else None
    with ExitStack() as opened:

        def open_once() -> Store:
            if server is not None:
                return opened.enter_context(closing(RedisStore(server.url, "me", prefix=prefix)))
            return opened.enter_context(closing(SqliteStore(tmp_path / "store")))

        yield open_once


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()
