"""What the documents show of the service is what it does: calls, commands, the client, problems, lines of the log."""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.client import Client
from livesvm.service.cli.main import main
from tests.documents import Command, blocks, commands, is_answer, read
from tests.service.process import ServiceProcess, blobs

LOCAL = "http://127.0.0.1:8000"
SHOWN = "service/README.md"
_CALL = re.compile(r"`(GET|POST|PUT|DELETE) (/[^`?]*)`")


@pytest.fixture
def clean(http: httpx.Client) -> Iterator[None]:
    """The models of the documents are not there before, nor after."""

    def delete() -> None:
        for model in ("river", "large", "gauge", "weir"):
            http.delete(f"/models/{model}")
        http.delete("/datasets/flows")

    delete()
    yield
    delete()


def curl(service: ServiceProcess, command: Command, job: str) -> httpx.Response:
    """What ``curl`` would send."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d")
    parser.add_argument("-N", action="store_true")
    parser.add_argument("-X")
    asked = parser.parse_args(command.words[1:])
    path = asked.url.removeprefix(LOCAL).replace("j-...", job)
    with service.http() as http:
        if path == f"/jobs/{job}":
            with Client(service.url) as client:
                client.wait(job)
        headers = dict(line.split(": ", 1) for line in asked.H)
        method = asked.X or ("GET" if asked.d is None else "POST")
        return http.request(method, path, content=asked.d, headers=headers)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("document", ["README.md", SHOWN])
def test_calls_are_answered_as_shown(service: ServiceProcess, document: str) -> None:
    job, calls = "", 0
    for command in commands(document):
        if command.words[0] != "curl":
            continue
        answer = curl(service, command, job)
        assert answer.is_success, answer.text
        assert command.answer is None or is_answer(command.answer, answer.text), answer.text
        found = re.match(r'{"id":"(j-[^"]+)"', answer.text)
        job = found[1] if found else job
        calls += 1
    assert calls >= 4


@pytest.mark.usefixtures("clean")
def test_commands_run_as_shown(
    service: ServiceProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIVESVM_URL", service.url)
    rng = np.random.default_rng(0)
    for name, days in (("january", 31), ("february", 28), ("march", 31)):
        X, y = blobs(rng, days)
        rows = [[*row, label] for row, label in zip(X, y, strict=True)]
        with Path(f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c", "y"], *rows])
    shown = [command.words[1:] for command in commands(SHOWN) if command.words[0] == "livesvm"]
    for words in shown:
        assert main(words) == 0, (words, capsys.readouterr().err)
    assert len(Path("forecast.csv").read_text().splitlines()) == 32
    assert Path("path.svg").read_text().startswith("<?xml")


@pytest.mark.usefixtures("clean")
def test_the_client_runs_as_shown(service: ServiceProcess) -> None:
    X, y = blobs(np.random.default_rng(0), 60)
    names: dict[str, Any] = {"X": X[:50], "y": y[:50], "X_next": X[50:]}
    for block in blocks(SHOWN, "python"):
        exec(compile(block.replace(LOCAL, service.url), SHOWN, "exec"), names)
    assert len(asyncio.run(names["forecast"]())) == 10


@pytest.mark.alone(reason="the log shows all stages where the model is in the process")
@pytest.mark.usefixtures("clean")
def test_a_refusal_and_its_line_in_the_log_are_as_shown(service: ServiceProcess, http: httpx.Client) -> None:
    problem, _, line = (json.loads(block) for block in blocks(SHOWN, "json"))
    http.post("/models", json={"id": "river", "kernel": {"name": "rbf"}, "C": 10})
    http.post("/models/river/update", json={"add": {"X": [[0.1, 0.9]], "y": [1]}})
    answer = http.post("/models/river/update", json={"remove": {"keys": ["mon"]}})
    assert answer.json() == problem
    logged = line_of(service, answer.headers["x-request-id"])
    assert logged.keys() == line.keys()
    assert logged["stages"].keys() == line["stages"].keys()
    told = ("event", "logger", "method", "route", "status", "outcome", "model", "problem")
    assert [logged[name] for name in told] == [line[name] for name in told]


def line_of(service: ServiceProcess, request: str) -> dict[str, Any]:
    """The line of the log that tells of a request, which may come a little after its answer."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for text in service.errors.splitlines():
            if f'"{request}"' in text and text.endswith("}"):
                return dict(json.loads(text))
        time.sleep(0.02)
    raise AssertionError(f"the log says nothing of {request}")


def test_every_call_is_in_the_table(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    there = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert {call for call in _CALL.findall(read(SHOWN)) if call[1] != "/docs"} == there
