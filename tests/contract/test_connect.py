"""From a URL to a connection: plain, TLS, a Unix socket, Sentinel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from redis.connection import SSLConnection, UnixDomainSocketConnection

from livesvm.service.store.base import StoreUnavailable
from livesvm.service.store.connect import check_url, connect
from livesvm.service.store.redis import RedisStore
from tests.contract.redis_server import RedisServer
from tests.contract.sentinel import Sentinel


@pytest.fixture
def sentinel(redis_server: RedisServer, tmp_path: Path) -> Iterator[int]:
    """A real Sentinel that watches the server; its port."""
    with Sentinel(tmp_path, redis_server.port) as found:
        yield found.port


def test_sentinel_says_where_the_server_is(sentinel: int, redis_server: RedisServer) -> None:
    url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel}/river/3"  # the first one is away
    with closing(RedisStore(url, "me", prefix="sentinel")) as store:
        store.append(store.create("m", b""), 1, b"", None, keep=1)
    with closing(redis.Redis(port=redis_server.port, db=3)) as client:
        assert client.exists("{sentinel}:m:m:log")


def test_a_service_that_sentinel_does_not_know_is_reported(sentinel: int) -> None:
    with pytest.raises(StoreUnavailable, match="ocean"):
        RedisStore(f"redis+sentinel://127.0.0.1:{sentinel}/ocean/0", "me")


def test_tls_checks_certificates_by_default() -> None:
    pool = connect("rediss://:secret@example.org:6380/2?ssl_ca_certs=/ca.pem", 1.5).connection_pool
    assert pool.connection_class is SSLConnection
    connection = pool.connection_class(**pool.connection_kwargs)
    assert (connection.host, connection.port, connection.db) == ("example.org", 6380, 2)
    assert connection.ca_certs == "/ca.pem"
    assert connection.cert_reqs.name == "CERT_REQUIRED"
    assert connection.check_hostname
    assert connection.socket_timeout == connection.socket_connect_timeout == 1.5


def test_sentinel_behind_tls() -> None:
    url = "rediss+sentinel://user:p%40ss@a:1,b/river/1?ssl_ca_certs=/ca.pem&sentinel_password=other"
    pool = connect(url, 1.0).connection_pool
    assert pool.connection_class.__name__ == "SentinelManagedSSLConnection"
    assert (pool.connection_kwargs["username"], pool.connection_kwargs["password"]) == ("user", "p@ss")
    watchers = [client.connection_pool.connection_kwargs for client in pool.sentinel_manager.sentinels]
    assert [(kwargs["host"], kwargs["port"], kwargs["password"]) for kwargs in watchers] == [
        ("a", 1, "other"),
        ("b", 26379, "other"),
    ]
    assert all(kwargs["ssl_ca_certs"] == "/ca.pem" for kwargs in watchers)


def test_a_unix_socket() -> None:
    assert connect("unix:///run/redis.sock?db=1", 1.0).connection_pool.connection_class is UnixDomainSocketConnection


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@a",
        "a:6379",
        "redis+sentinel://user:secret@a:1",
        "redis+sentinel:///river",
        "redis+sentinel://a:1,/river",
    ],
)
def test_other_urls_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)
