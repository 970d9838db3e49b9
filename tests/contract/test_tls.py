"""Redis over TLS: certificates are checked against the authority that the URL names, and against the host."""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

import pytest

from livesvm.service.store.base import Durability, StoreUnavailable
from livesvm.service.store.redis import RedisStore
from tests.contract.comeback import check_that_models_come_back
from tests.contract.redis_server import RedisServer
from tests.contract.tls import TlsFront


def test_everything_passes_through_tls(redis_server: RedisServer, tmp_path: Path) -> None:
    snapshot = bytes(range(256)) * 40_000
    with TlsFront(redis_server.port, tmp_path) as front:
        url = f"{front.url}?ssl_ca_certs={front.ca}"
        with closing(RedisStore(url, "me", prefix=uuid.uuid4().hex)) as store:
            lease = store.create("m", b"spec")
            assert store.append(lease, 1, b"record", None, keep=1) is Durability.FSYNCED
            store.save_snapshot(lease, 1, snapshot, 1)
            assert store.load_snapshot("m", 1) == snapshot
        assert front.handshakes > 0


def test_an_authority_that_is_not_known_is_refused(redis_server: RedisServer, tmp_path: Path) -> None:
    with TlsFront(redis_server.port, tmp_path) as front, pytest.raises(StoreUnavailable, match="certificate verify"):
        RedisStore(front.url, "me")


def test_a_certificate_of_another_host_is_refused(redis_server: RedisServer, tmp_path: Path) -> None:
    with TlsFront(redis_server.port, tmp_path, name="redis.example.org") as front:
        with pytest.raises(StoreUnavailable, match="certificate is not valid for"):
            RedisStore(f"{front.url}?ssl_ca_certs={front.ca}", "me")
        assert front.handshakes == 0


def test_a_server_that_does_not_speak_tls_is_reported(redis_server: RedisServer) -> None:
    with pytest.raises(StoreUnavailable, match="Redis cannot be used"):
        RedisStore(f"rediss://127.0.0.1:{redis_server.port}/0", "me")


def test_a_service_keeps_its_models_behind_tls(redis_server: RedisServer, tmp_path: Path) -> None:
    with TlsFront(redis_server.port, tmp_path) as front:
        settings = {"redis_url": f"{front.url}?ssl_ca_certs={front.ca}", "redis_prefix": uuid.uuid4().hex}
        check_that_models_come_back(settings, tmp_path)
