"""Server-sent events: what they show, that they end, and that readers cost nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import numpy as np
import pytest
from starlette.types import Message

from livesvm.service.api.edge.connections import _Answer
from livesvm.service.api.streams import Event, Streams
from tests.service.conftest import Make
from tests.service.process import ServiceProcess, blobs
from tests.support.waiting import until


def events(response: httpx.Response) -> list[tuple[str, dict[str, Any]]]:
    """Return every event of a stream that ends, (name, data)."""
    found = []
    for block in response.read().decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_a_job_is_watched_to_its_final_state(http: httpx.Client, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(9), 200)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    job = http.post(f"/models/{model}/assessment", json={"method": "leave-one-out"}).json()["id"]
    with http.stream("GET", f"/jobs/{job}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        seen = events(response)
    assert {name for name, _ in seen} == {"job"}
    assert seen[-1][1] == {name: value for name, value in http.get(f"/jobs/{job}").json().items() if name != "result"}
    assert (seen[-1][1]["state"], seen[-1][1]["progress"]) == ("done", 1.0)
    progress = [data["progress"] for _, data in seen]
    assert progress == sorted(progress)
    with http.stream("GET", f"/jobs/{job}/events") as response:
        assert events(response) == seen[-1:]


def test_a_model_is_watched_until_it_is_deleted(http: httpx.Client, make: Make, service: ServiceProcess) -> None:
    model = make(C=2.0)
    found: list[tuple[str, dict[str, Any]]] = []

    def watch() -> None:
        with service.http() as other, other.stream("GET", f"/models/{model}/events") as response:
            found.extend(events(response))

    watching = threading.Thread(target=watch)
    watching.start()
    for number in range(3):
        time.sleep(0.3)
        http.post(f"/models/{model}/update", json={"add": {"X": [[float(number)]], "y": [1]}}).raise_for_status()
    time.sleep(0.3)
    described = http.get(f"/models/{model}").json()
    http.delete(f"/models/{model}")
    watching.join()
    versions = [data["version"] for _, data in found]
    assert versions == sorted(set(versions))
    assert versions[-1] == 3
    assert (found[-1][0], found[-1][1]["n_examples"], found[-1][1]["C"]) == ("update", 3, 2.0)
    assert found[-1][1]["updated_at"] == described["updated_at"]
    assert http.get(f"/models/{model}/events").status_code == 404


def test_open_streams_are_bounded_beat_and_end_with_the_service(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, streams=1, heartbeat_seconds=0.2) as process, process.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        with http.stream("GET", "/models/m/events") as response:
            refused = httpx.get(f"{process.url}/models/m/events", trust_env=False)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            lines = response.iter_lines()
            while next(lines) != ": nothing new":
                pass
            process.signal(signal.SIGTERM)
            for _ in lines:
                pass
        assert process.wait() == 0


def first_bytes(port: int) -> bytes:
    """Ask for a stream, read the beginning of the answer, and leave without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(b"GET /models/m/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return plain.recv(12)


def test_a_reader_that_leaves_gives_its_place_back(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, streams=1) as process, process.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        port = int(process.url.rsplit(":", 1)[1])
        for _ in range(3):
            end = time.monotonic() + 10
            while (answer := first_bytes(port)) != b"HTTP/1.1 200":
                assert answer == b"HTTP/1.1 429"
                assert time.monotonic() < end
                time.sleep(0.05)


@pytest.mark.parametrize("breaks", ["look", "send"])
def test_a_stream_that_breaks_off_gives_its_place_back(breaks: str) -> None:
    """Also after an unforeseen error."""

    async def scenario() -> None:
        streams = Streams(limit=1, heartbeat_seconds=1.0)
        looks = 0

        def look() -> Event:
            nonlocal looks
            looks += 1
            if breaks == "look" and looks == 2:
                raise RuntimeError("the model broke")
            return Event("n", {"n": looks})

        async def send(message: Message) -> None:
            if breaks == "send" and looks == 2:
                raise RuntimeError("the connection broke")

        async def receive() -> Message:
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        for _ in range(3):
            looks = 0
            with pytest.raises(RuntimeError, match="broke"):
                await streams.of(look)({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
            with streams.place():  # it is free, and so for the next one
                pass

    asyncio.run(scenario())


def noted(http: httpx.Client, metric: str) -> float:
    """Return how often the route of a model's events is counted."""
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith(metric)]
    return sum(float(line.split()[-1]) for line in lines if 'route="/models/{id}/events"' in line)


def test_streams_count_as_requests_and_not_as_slow_ones(http: httpx.Client, make: Make) -> None:
    model = make()
    metrics = ("livesvm_http_requests_total", "livesvm_http_request_seconds_count")
    before = [noted(http, metric) for metric in metrics]
    with http.stream("GET", f"/models/{model}/events") as response:
        http.delete(f"/models/{model}").raise_for_status()
        response.read()
    until(lambda: noted(http, metrics[0]) != before[0], 10)  # the reader may be done before the request is
    assert [noted(http, metric) for metric in metrics] == [before[0] + 1, before[1]]


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "sends"),
    [
        ([HEAD, b"ab", b"\r\ncontent-length: 1\r\n"], [HEAD + b"ab", b"\r\ncontent-length: 1\r\n"]),
        ([HEAD, b""], [HEAD]),
        ([HEAD], [HEAD]),
        ([CHUNKED, b"2\r\nab\r\n", HEAD], [CHUNKED, b"2\r\nab\r\n", HEAD]),
    ],
)
def test_a_head_goes_out_with_the_body_that_it_announces(pieces: list[bytes], sends: list[bytes]) -> None:
    transport = Mock()
    answer = _Answer(transport)
    for piece in pieces:
        answer.write(piece)
    answer.close()
    assert [call.args[0] for call in transport.write.call_args_list if call.args[0]] == sends
    transport.close.assert_called_once()
