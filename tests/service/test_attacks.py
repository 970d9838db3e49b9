"""The attacks of `tests.faults` in their short form, on the service that the other tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from livesvm.service.settings import LEAST_MEMORY_MB
from tests.faults import bombs, malformed, numbers
from tests.faults.attack import Attack, fault
from tests.faults.models import versions
from tests.faults.promises import forget_peak, peak_megabytes
from tests.faults.scene import Scene
from tests.faults.wire import Answer, Sent
from tests.service.process import ServiceProcess

SECONDS = 35.0
"""The longest time that a body may take in this service, and some more."""
MEGABYTES = 300.0
GROWN_MB = 150.0
"""By which a service may grow for a body of a megabyte, of the 512 that it has."""


def feeds(http: httpx.Client) -> set[str]:
    return {feed["id"] for feed in http.get("/feeds").json()["feeds"]}


@pytest.fixture
def attacked(http: httpx.Client) -> Iterator[None]:
    """Delete the models, feeds and fleets that an attack leaves behind."""
    before, feeds_before = versions(http), feeds(http)
    yield
    http.delete("/fleets/attacked-meters").raise_for_status()
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
    check(service, malformed.by(249, seed=1))


@pytest.mark.slow  # the checks of ``test_schema`` are on requests that are drawn likewise
@pytest.mark.usefixtures("attacked")
def test_requests_drawn_from_the_openapi_document(service: ServiceProcess, http: httpx.Client) -> None:
    from tests.faults import schema_driven  # takes a second to load

    check(service, schema_driven.by(http.get("/openapi.json").json(), 100, seed=1))


@pytest.mark.usefixtures("attacked")
def test_numbers_that_go_wrong_in_each_place_of_the_document(service: ServiceProcess, http: httpx.Client) -> None:
    check(service, numbers.by(http.get("/openapi.json").json(), values=1))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """Yield a service with as little memory as one may have, and a fleet."""
    with ServiceProcess(tmp_path_factory.mktemp("small"), memory_mb=LEAST_MEMORY_MB) as service, service.http() as http:
        spec = {"id": "bombed", "target": "y", "series": "meter", "time": "time", "every": "1h", "new": "refuse"}
        answer = http.post("/fleets", json=spec)
        assert answer.status_code == 201, answer.text
        yield service


@pytest.mark.alone(reason="measures the memory of the one process")
@pytest.mark.parametrize("name", bombs.CODED)
def test_what_is_coded_is_counted_as_it_will_be_in_memory(name: str, small: ServiceProcess) -> None:
    media, data = bombs.coded(name)
    with small.http() as http:
        forget_peak(small.pid)
        before = peak_megabytes(small.pid)
        answer = http.post("/fleets/bombed/observations", content=data, headers={"content-type": media})
        grown = peak_megabytes(small.pid) - before
        assert http.get("/fleets/bombed").json()["series"] == 0
    assert fault(Answer(answer.status_code, tuple(answer.headers.items()), answer.content)) == "", answer.text[:500]
    assert grown < GROWN_MB, answer.text[:500]


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
