"""The attacks of `tests.faults` in their short form, on the service that the other tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.faults import malformed, schema_driven
from tests.faults.attack import Attack, fault
from tests.faults.models import versions
from tests.faults.scene import Scene
from tests.faults.wire import Answer, Sent
from tests.service.process import ServiceProcess

SECONDS = 35.0
"""The longest time that a body may take in this service, and some more."""
MEGABYTES = 300.0


def feeds(http: httpx.Client) -> set[str]:
    return {feed["id"] for feed in http.get("/feeds").json()["feeds"]}


@pytest.fixture
def attacked(http: httpx.Client) -> Iterator[None]:
    """Delete the models and feeds that an attack leaves behind."""
    before, feeds_before = versions(http), feeds(http)
    yield
    for feed in feeds(http) - feeds_before:
        http.delete(f"/feeds/{feed}").raise_for_status()
    for model in versions(http).keys() - before:
        http.delete(f"/models/{model}").raise_for_status()


def check(service: ServiceProcess, draw: Callable[[Scene], Iterator[Sent]]) -> None:
    """Attack; every promise holds."""
    seen, _, verdicts = Attack(draw, SECONDS, MEGABYTES).run(service, "attacked-")
    assert [(failure.why, failure.sent.data[:2000]) for failure in seen.failures] == []
    assert [verdict.line() for verdict in verdicts if not verdict.holds] == []


@pytest.mark.usefixtures("attacked")
def test_malformed_requests(service: ServiceProcess) -> None:
    check(service, malformed.by(499, seed=1))


@pytest.mark.usefixtures("attacked")
def test_requests_drawn_from_the_openapi_document(service: ServiceProcess, http: httpx.Client) -> None:
    check(service, schema_driven.by(http.get("/openapi.json").json(), 150, seed=1))


@pytest.mark.parametrize(
    ("status", "body", "is_fault"),
    [
        (200, b"{}", False),
        (503, b'{"status": 503, "detail": "why"}', False),
        (503, b'{"status": 503, "detail": ""}', True),
        (503, b"", True),
        (500, b'{"status": 500, "detail": "why"}', True),
        (422, b'{"status": 422}', False),
        (422, b'{"status": 400}', True),
        (422, b"[" + b"1," * 2**16 + b"1]", True),
    ],
)
def test_what_counts_as_a_fault(status: int, body: bytes, *, is_fault: bool) -> None:
    assert bool(fault(Answer(status, (("content-type", "application/problem+json"),), body))) is is_fault


def test_a_request_that_failed_can_be_sent_again() -> None:
    sent = Sent("kind", b"GET / HTTP/1.1\r\n\xff\x00", ends=True)
    assert Sent.of(sent.line(why="hang", host="h", job="j")) == sent
