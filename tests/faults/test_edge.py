"""Slow, endless or many clients: they are closed, cost next to nothing, and others are served."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.service.process import ServiceProcess
from tests.support.waiting import until

HEAD_SECONDS, BODY_SECONDS = 1.5, 6.0
SLACK = 5.0
"""Of a busy machine."""
HEAD = "POST /models/m/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
STREAM = b"GET /models/m/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
ROW = {"X": [[0.0, 1.0]]}
OTHER = "127.0.0.2"


def create(service: ServiceProcess) -> None:
    with service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        batch = {"X": [[0.0, 1.0], [1.0, 0.0]], "y": [1, -1]}
        http.post("/models/m/update", json={"add": batch}).raise_for_status()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """With the usual bounds, and short deadlines."""
    place = tmp_path_factory.mktemp("edge")
    with ServiceProcess(place, header_seconds=HEAD_SECONDS, body_seconds=BODY_SECONDS) as process:
        create(process)
        yield process


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """With narrow bounds, and the usual deadlines."""
    place = tmp_path_factory.mktemp("tight")
    bodies = {"max_body_bytes": 2**20, "max_bodies": 2}
    with ServiceProcess(place, None, max_connections=24, max_client_connections=12, **bodies) as process:
        create(process)
        yield process


def all_of(plain: socket.socket) -> bytes:
    """Return what comes until the connection ends, also if it ends hard."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := plain.recv(65536):
            found += piece
    return found


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def closes(answer: bytes) -> bool:
    return b"connection: close" in answer.partition(b"\r\n\r\n")[0].lower()


def type_of(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["type"]).removeprefix("urn:livesvm:problem:")


def predict(service: ServiceProcess, source: str = "127.0.0.1") -> int:
    """Return the status of a prediction on a connection of its own."""
    body = json.dumps(ROW)
    with service.connect(source) as plain:
        plain.sendall(f"{HEAD}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode())
        return status_of(all_of(plain))


def connections(service: ServiceProcess) -> int:
    with service.http() as http:
        found = re.search(r"^livesvm_connections (\d+)", http.get("/metrics").text, re.MULTILINE)
    assert found
    return int(found[1])


def cut(service: ServiceProcess, reason: str) -> int:
    with service.http() as http:
        found = re.search(
            f'^livesvm_connections_cut_total{{reason="{reason}"}} (\\d+)', http.get("/metrics").text, re.M
        )
    assert found
    return int(found[1])


def memory(service: ServiceProcess) -> float:
    """Return the most that was resident, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{service.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def test_half_sent_heads_are_dropped_in_time_and_keep_no_call_waiting(service: ServiceProcess) -> None:
    with ExitStack() as stack:
        begun = time.monotonic()
        half = [stack.enter_context(service.connect()) for _ in range(400)]
        for number, plain in enumerate(half):
            with suppress(OSError):  # some have made space for others
                plain.sendall(HEAD[: 1 + number % 90].encode() if number % 4 else b"")
        assert [predict(service, source) for source in ("127.0.0.1", OTHER)] == [200, 200]
        assert connections(service) <= 256 + 3
        answers = [all_of(plain) for plain in half]
        assert time.monotonic() - begun < HEAD_SECONDS + SLACK
    reported = [answer for answer in answers if answer]
    assert len(reported) > 100
    assert {(status_of(answer), type_of(answer), closes(answer)) for answer in reported} == {
        (408, "head-timeout", True)
    }
    assert connections(service) <= 2


@pytest.mark.parametrize("drop", [b"\r\n", b"GET / HTTP/1.1\r\nx: y", b"G"])
def test_a_dripping_head_is_gone_in_time_on_a_used_connection_too(drop: bytes, service: ServiceProcess) -> None:
    with service.connect() as plain:
        plain.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert plain.recv(65536).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - begun < HEAD_SECONDS + SLACK:
                plain.sendall(drop[:1] if drop == b"G" else drop)
                plain.settimeout(0.1)
                with suppress(TimeoutError):
                    if not plain.recv(65536):
                        break
        assert time.monotonic() - begun < HEAD_SECONDS + SLACK


ENDLESS: dict[str, tuple[str, str]] = {
    "value": ("GET / HTTP/1.1\r\nx: ", "y" * 65536),
    "name": ("GET / HTTP/1.1\r\n", "y" * 65536),
    "line": ("GET /", "y" * 65536),
    "fields": ("GET / HTTP/1.1\r\n", "a:\r\n" * 16384),
    "method": ("GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET /", "y" * 65536),
    "trailer": (f"{HEAD}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\nx: ", "y" * 65536),
    "trailers": (f"{HEAD}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\n", "a:\r\n" * 16384),
    "chunk extension": (f"{HEAD}transfer-encoding: chunked\r\n\r\n1;x=", "y" * 65536),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_has_no_end_is_cut_off_and_costs_no_memory(kind: str, service: ServiceProcess) -> None:
    begin, more = ENDLESS[kind]
    predict(service)
    before, sent = memory(service), 0
    with service.connect() as plain:
        plain.sendall(begin.encode())
        with suppress(ConnectionError):
            while sent < 256 * 2**20:
                plain.sendall(more.encode())
                sent += len(more)
        answer = all_of(plain)
    assert sent < 64 * 2**20  # what lies in buffers of sockets
    assert memory(service) - before < 16
    if answer and kind in ("value", "name", "line", "fields"):
        assert (status_of(answer), type_of(answer), closes(answer)) == (431, "head-too-large", True)


@pytest.mark.parametrize("flood", [STREAM * 1000, b"y" * 65536])
def test_a_flood_behind_a_stream_waits_outside(flood: bytes, service: ServiceProcess) -> None:
    predict(service)
    before, sent = memory(service), 0
    with service.connect() as plain:
        plain.sendall(STREAM)
        plain.settimeout(2 * HEAD_SECONDS)
        with suppress(TimeoutError):
            while sent < 256 * 2**20:
                plain.sendall(flood)
                sent += len(flood)
        assert predict(service) == 200
    assert sent < 64 * 2**20  # what lies in buffers of sockets
    assert memory(service) - before < 16


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_what_is_sent_ahead_of_an_answer_is_not_done_and_ends_the_connection(size: int, tight: ServiceProcess) -> None:
    """In pieces of any size; the answer that was waited for says that the connection ends."""
    update = json.dumps({"add": {"X": [[0.0, 1.0]] * 200, "y": [1, -1] * 100}})
    body = f"content-type: application/json\r\ncontent-length: {len(update)}\r\n\r\n{update}"
    data = f"POST /models/m/update HTTP/1.1\r\nhost: localhost\r\n{body}".encode() * 2
    with tight.http() as http, tight.connect() as plain:
        before = http.get("/models/m").json()["version"]
        with suppress(ConnectionError):
            for start in range(0, len(data), size if size > 1 else 50):
                plain.sendall(data[start : start + (size if size > 1 else 50)])
        answers = all_of(plain).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] in ([b"200"], [b"200"] * 2)  # two where the first had come in time
        assert http.get("/models/m").json()["version"] == before + len(answers)


@pytest.mark.parametrize("fields", [f"x: {'y' * 33_000}", "a: b\r\n" * 101])
def test_a_large_head_is_reported_in_which_way(fields: str, service: ServiceProcess) -> None:
    with service.connect() as plain:
        plain.sendall(f"GET /models HTTP/1.1\r\nhost: localhost\r\n{fields}".encode())
        answer = all_of(plain)
    assert (status_of(answer), type_of(answer), closes(answer)) == (431, "head-too-large", True)


def test_slow_bodies_take_no_places_of_those_that_work(service: ServiceProcess) -> None:
    """More of them than calls may be under way."""
    with ExitStack() as stack:
        slow = [stack.enter_context(service.connect()) for _ in range(80)]
        begun = time.monotonic()
        for plain in slow:
            plain.sendall(f'{HEAD}content-length: 50\r\n\r\n{{"X"'.encode())
        assert [predict(service) for _ in range(5)] == [200] * 5
        answers = [all_of(plain) for plain in slow]
        assert time.monotonic() - begun < HEAD_SECONDS + SLACK
    assert {(status_of(answer), type_of(answer), closes(answer)) for answer in answers} == {(408, "body-timeout", True)}


def test_a_dripping_body_is_cut_off_before_its_time_is_up(service: ServiceProcess) -> None:
    begun = time.monotonic()
    with service.connect() as plain:
        plain.sendall(f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode())
        plain.settimeout(0.1)
        answer = b""
        with suppress(ConnectionError):
            while not answer and time.monotonic() - begun < BODY_SECONDS:
                plain.sendall(b"1\r\n \r\n")
                with suppress(TimeoutError):
                    answer = plain.recv(65536)
        plain.settimeout(30)
        answer += all_of(plain)
    assert answer
    assert (status_of(answer), type_of(answer), closes(answer)) == (408, "body-timeout", True)


@pytest.mark.parametrize("framing", ["content-length: 9000000", "transfer-encoding: chunked"])
def test_a_large_body_ends_its_connection(framing: str, service: ServiceProcess) -> None:
    with service.connect() as plain:
        with suppress(ConnectionError):
            plain.sendall(f"{HEAD}{framing}\r\n\r\n".encode())
            for _ in range(9 if "chunked" in framing else 0):
                plain.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
        answer = all_of(plain)
    assert (status_of(answer), type_of(answer), closes(answer)) == (413, "body-too-large", True)


def test_a_client_that_takes_no_answer_is_let_go(service: ServiceProcess) -> None:
    before = cut(service, "stalled")
    body = json.dumps({"X": [[0.5, 1.0]] * 100_000})
    head = HEAD.replace("/m/", "/wide/")  # of an answer that sockets do not hold
    with service.http() as http:
        http.post("/models", json={"id": "wide", "C": 1.0, "decision_function_shape": "ovo"}).raise_for_status()
        batch = {"X": [[n % 5, n % 3] for n in range(20)], "y": [n % 5 for n in range(20)]}
        http.post("/models/wide/update", json={"add": batch}).raise_for_status()
    url = httpx.URL(service.url)
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect((url.host, url.port))
        plain.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: cut(service, "stalled") != before, BODY_SECONDS + 4 * SLACK)
        until(lambda: connections(service) <= 1, 4 * SLACK)  # the one that asks


def test_a_client_at_its_limit_is_reported_and_others_are_served(tight: ServiceProcess) -> None:
    with ExitStack() as stack:
        busy = [stack.enter_context(tight.connect()) for _ in range(12)]
        for plain in busy:
            plain.sendall(STREAM)
            assert status_of(plain.recv(65536)) == 200
        answer = all_of(stack.enter_context(tight.connect()))
        assert (status_of(answer), type_of(answer), closes(answer)) == (429, "too-many-connections", True)
        assert b"retry-after: 1" in answer
        assert [predict(tight, OTHER) for _ in range(20)] == [200] * 20
    until(lambda: predict_or_refused(tight) == 200, 2 * SLACK)  # places are given back


def predict_or_refused(service: ServiceProcess) -> int:
    try:
        return predict(service)
    except (OSError, IndexError):  # it was refused before it was read
        return 0


def test_resting_connections_make_space(tight: ServiceProcess) -> None:
    with ExitStack() as stack:
        resting = [stack.enter_context(tight.connect()) for _ in range(40)]
        assert predict(tight) == 200
        assert all_of(resting[0]) == b""


def test_bodies_of_one_client_leave_space_for_others(tight: ServiceProcess) -> None:
    """Two bodies of the largest size may be on their way, one of them from one client."""
    large, small = 700_000, json.dumps(ROW)

    def begin(source: str) -> socket.socket:
        plain = stack.enter_context(tight.connect(source))
        plain.sendall(f"{HEAD}content-length: 1000000\r\nconnection: close\r\n\r\n".encode() + b" " * large)
        return plain

    with ExitStack() as stack:
        first = begin("127.0.0.1")
        time.sleep(0.5)
        refused = all_of(begin("127.0.0.1"))
        assert (status_of(refused), type_of(refused)) == (429, "too-busy")
        others = begin(OTHER)
        for plain in (others, first):
            plain.sendall(small.encode().ljust(1_000_000 - large))
            assert status_of(all_of(plain)) == 200
        again = begin("127.0.0.1")  # what was held is given back
        again.sendall(small.encode().ljust(1_000_000 - large))
        assert status_of(all_of(again)) == 200
