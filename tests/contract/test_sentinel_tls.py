"""A real Sentinel and its server, both behind TLS: in front of them, and their own where they were built with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from livesvm.service.store.base import Durability, StoreUnavailable
from livesvm.service.store.redis import RedisStore
from tests.contract.comeback import check_that_models_come_back
from tests.contract.redis_server import RedisServer, free_port, speaks_tls
from tests.contract.sentinel import Sentinel
from tests.contract.tls import TlsFront


@dataclass(frozen=True)
class Watched:
    """A Sentinel that only speaks TLS, the authority of its and its server's certificates, and the server."""

    sentinel: int
    ca: Path
    server: RedisServer

    def url(self, *, trusted: bool = True) -> str:
        """Return where a service finds both; not ``trusted``, it does not know their authority."""
        known = f"?ssl_ca_certs={self.ca}" if trusted else ""
        return f"rediss+sentinel://127.0.0.1:{self.sentinel}/river/0{known}"


def in_front(stack: ExitStack, place: Path) -> Watched:
    """Return TLS that ends before the server and before Sentinel, which itself asks the server in plain."""
    authority = trustme.CA()
    server = stack.enter_context(RedisServer(place / "redis"))
    before_server = stack.enter_context(TlsFront(server.port, place, authority=authority, also_plain=True))
    sentinel = stack.enter_context(Sentinel(place / "sentinel", before_server.port))
    before_sentinel = stack.enter_context(TlsFront(sentinel.port, place, authority=authority))
    return Watched(before_sentinel.port, before_server.ca, server)


def their_own(stack: ExitStack, place: Path) -> Watched:
    """Return TLS of the server and of Sentinel themselves, between the two as well."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    ca, chain, key = (place / name for name in ("ca.pem", "own.pem", "own.key"))
    authority.cert_pem.write_to_path(str(ca))
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    certificate.private_key_pem.write_to_path(str(key))
    files = {"tls-ca-cert-file": str(ca), "tls-cert-file": str(chain), "tls-key-file": str(key)}
    common = files | {"tls-auth-clients": "no", "tls-replication": "yes"}
    port = free_port()
    server = stack.enter_context(RedisServer(place / "redis", **common | {"tls-port": str(port)}))
    sentinel = stack.enter_context(Sentinel(place / "sentinel", port, tls_port=str(free_port()), **common))
    return Watched(sentinel.port, ca, server)


@pytest.fixture(params=[in_front, *([their_own] if speaks_tls() else [])])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path)


def test_everything_passes_through_sentinel_and_tls(watched: Watched) -> None:
    with closing(RedisStore(watched.url(), "me", prefix="sealed")) as store:
        lease = store.create("m", b"spec")
        assert store.append(lease, 1, b"record", None, keep=1) is Durability.FSYNCED
        store.save_snapshot(lease, 1, b"snapshot" * 1000, 1)
        assert store.load_snapshot("m", 1) == b"snapshot" * 1000
    with closing(watched.server.client()) as client:
        assert client.exists("{sealed}:m:m:log")


def test_an_authority_that_is_not_known_is_refused(watched: Watched) -> None:
    with pytest.raises(StoreUnavailable, match="No master found"):
        RedisStore(watched.url(trusted=False), "me")


def test_a_service_comes_back_behind_sentinel_and_tls(watched: Watched, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"redis_url": watched.url(), "redis_prefix": uuid.uuid4().hex}
    check_that_models_come_back(settings, tmp_path)
