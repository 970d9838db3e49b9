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
from tests.documents import LOCAL, PAGES, Command, blocks, has_calls, is_answer, read, steps
from tests.service.process import ServiceProcess, blobs

WITH_OTHERS = ("docs/howto/mqtt.md", "docs/howto/webhooks.md")
"""Pages that need a broker, or a host that may be sent to; tests of these run them."""
CALLING = [page for page in PAGES if has_calls(page) and page not in WITH_OTHERS]
_NAMES = re.compile(r"""(?:/models/|/feeds/|"id": "|create_\w+\(\s*"|(?:models|feed|fleet) create )([a-z][\w-]*)""")


@pytest.fixture
def clean(http: httpx.Client, request: pytest.FixtureRequest) -> Iterator[None]:
    """The models, feeds, fleets and datasets of a document are not there before, nor after."""
    names = {name for document in ["README.md", *CALLING] for name in _NAMES.findall(read(document))}

    def delete() -> None:
        there = [one["id"] for kind in ("models", "feeds") for one in http.get(f"/{kind}?limit=1000").json()[kind]]
        for name in names & set(there):
            http.delete(f"/models/{name}")
            http.delete(f"/feeds/{name}")
        for fleet in http.get("/fleets?limit=200").json()["fleets"]:
            if fleet["id"] in names:
                http.delete(f"/fleets/{fleet['id']}")
        http.delete("/datasets/flows")
        http.delete("/datasets/history")

    delete()
    yield
    delete()


def curl(service: ServiceProcess, command: Command, job: str) -> httpx.Response:
    """Return what ``curl`` would send."""
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


class Reader:
    """Runs what a document shows, in its order, against a real service.

    Parameters
    ----------
    names : what its Python takes for granted
    """

    def __init__(self, service: ServiceProcess, names: dict[str, Any]) -> None:
        self.service, self.names, self.job = service, names, ""

    def run(self, document: str) -> int:
        """Run the document; returns how many steps it had."""
        done = 0
        for step in steps(document):
            done += 1
            if isinstance(step, str):
                code = compile(step.replace(LOCAL, self.service.url), document, "exec")
                exec(code, self.names)
            elif step.words[0] == "curl":
                self.call(step)
            elif step.words[0] == "livesvm":
                assert main(step.words[1:]) == 0, step.words
            else:
                raise AssertionError(f"{document} shows {step.words[0]}, which is not run")
        return done

    def call(self, command: Command) -> None:
        """Make a call, and compare its answer with the one that is shown."""
        answer = curl(self.service, command, self.job)
        assert answer.is_success, answer.text
        assert command.answer is None or is_answer(command.answer, answer.text), (command.answer, answer.text)
        found = re.match(r'{"id":"(j-[^"]+)"', answer.text)
        self.job = found[1] if found else self.job


@pytest.fixture
def reader(service: ServiceProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader in a directory with three months of data, next to which the service's data are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIVESVM_URL", service.url)
    Path("livesvm-data").symlink_to(service.data_dir)
    rng = np.random.default_rng(0)
    for name, days in (("january", 31), ("february", 28), ("march", 31)):
        X, y = blobs(rng, days)
        rows = [[*row, label] for row, label in zip(X, y, strict=True)]
        with Path(f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c", "y"], *rows])
    X, y = blobs(rng, 60)
    return Reader(service, {"X": X[:50], "y": y[:50], "X_next": X[50:]})


@pytest.mark.alone(reason="a backup is of a service's own directory")
@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("document", CALLING)
def test_a_page_runs_as_shown(reader: Reader, document: str) -> None:
    assert reader.run(document) > 0
    if "forecast" in reader.names and document.endswith("service.md"):
        assert len(asyncio.run(reader.names["forecast"]())) == 10


@pytest.mark.usefixtures("clean")
def test_the_readme_runs_as_shown(reader: Reader) -> None:
    calls = [step for step in steps("README.md") if isinstance(step, Command) and step.words[0] == "curl"]
    assert len(calls) >= 4
    for command in calls:
        reader.call(command)


@pytest.mark.alone(reason="the log shows all stages where the model is in the process")
@pytest.mark.usefixtures("clean")
def test_a_refusal_and_its_line_in_the_log_are_as_shown(service: ServiceProcess, http: httpx.Client) -> None:
    (problem,), (line,) = (map(json.loads, blocks(f"docs/howto/{page}.md", "json")) for page in ("service", "watch"))
    http.post("/models", json={"id": "river", "kernel": {"name": "rbf"}, "C": 10})
    http.post("/models/river/update", json={"add": {"X": [[0.1, 0.9]], "y": [1]}})
    answer = http.post("/models/river/update", json={"remove": {"keys": ["mon"]}})
    assert answer.json() == problem
    logged = line_of(service, answer.headers["x-request-id"])
    assert logged.keys() == line.keys()
    assert logged["stages"].keys() == line["stages"].keys()
    reported = ("event", "logger", "method", "route", "status", "outcome", "model", "problem")
    assert [logged[name] for name in reported] == [line[name] for name in reported]


def line_of(service: ServiceProcess, request: str) -> dict[str, Any]:
    """Return the line of the log that tells of a request, which may come a little after its answer."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for text in service.errors.splitlines():
            if f'"{request}"' in text and text.endswith("}"):
                return dict(json.loads(text))
        time.sleep(0.02)
    raise AssertionError(f"the log says nothing of {request}")
