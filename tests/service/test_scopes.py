"""Access: every call of the API against every scope."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.access.keys import SCOPES, allows, new_key
from livesvm.service.fleets.names import OF_FEEDS
from tests.documents import read
from tests.service.process import ServiceProcess, blobs
from tests.support.jobs_over_rest import awaited

NEEDED = {
    "GET /health/live": None,
    "GET /health/ready": None,
    "GET /health/serving": None,
    "GET /access": None,
    "GET /metrics": "read",
    "GET /events": "read",
    "GET /models": "read",
    "GET /models/{id}": "read",
    "GET /models/{id}/events": "read",
    "GET /models/{id}/recent": "read",
    "GET /models/{id}/certificate": "read",
    "GET /models/{id}/versions": "read",
    "POST /models/{id}/predict": "read",
    "GET /v2/health/live": None,
    "GET /v2/health/ready": None,
    "GET /v2": "read",
    "GET /v2/models/{id}": "read",
    "GET /v2/models/{id}/ready": "read",
    "POST /v2/models/{id}/infer": "read",
    "GET /v2/models/{id}/versions/{version}": "read",
    "GET /v2/models/{id}/versions/{version}/ready": "read",
    "POST /v2/models/{id}/versions/{version}/infer": "read",
    "GET /datasets": "read",
    "GET /datasets/{name}": "read",
    "PUT /datasets/{name}": "learn",
    "DELETE /datasets/{name}": "learn",
    "POST /inspect": "learn",
    "GET /feeds": "read",
    "GET /feeds/{id}": "read",
    "GET /feeds/{id}/forecast": "read",
    "GET /feeds/{id}/history": "read",
    "GET /feeds/{id}/events": "read",
    "GET /feeds/{id}/certificate": "read",
    "GET /feeds/{id}/plot.{extension}": "read",
    "POST /feeds/{id}/forecast": "read",
    "POST /feeds/{id}/observations": "learn",
    "POST /feeds/{id}/announce": "learn",
    "POST /feeds/{id}/backtest": "learn",
    "POST /feeds/{id}/tune": "learn",
    "GET /feeds/{id}/drift": "learn",
    "POST /feeds/{id}/update": "learn",
    "POST /feeds": "admin",
    "POST /feeds/{id}/pause": "admin",
    "POST /feeds/{id}/resume": "admin",
    "POST /feeds/{id}/writeback": "admin",
    "DELETE /feeds/{id}": "admin",
    "GET /fleets": "read",
    "GET /fleets/{id}": "read",
    "GET /fleets/{id}/forecast": "read",
    "GET /fleets/{id}/series": "read",
    "POST /fleets/{id}/observations": "learn",
    "POST /fleets/{id}/announce": "learn",
    "POST /fleets": "admin",
    "POST /fleets/{id}/series": "admin",
    "POST /fleets/{id}/erase": "admin",
    "POST /fleets/{id}/pause": "admin",
    "POST /fleets/{id}/resume": "admin",
    "DELETE /fleets/{id}": "admin",
    "GET /webhooks": "admin",
    "GET /webhooks/{id}": "admin",
    "GET /webhooks/{id}/dead-letters": "admin",
    "POST /webhooks": "admin",
    "POST /webhooks/{id}/ping": "admin",
    "POST /webhooks/{id}/resend": "admin",
    "DELETE /webhooks/{id}": "admin",
    "GET /jobs": "read",
    "GET /jobs/{job}": "read",
    "GET /jobs/{job}/events": "read",
    "GET /jobs/{job}/plot.{extension}": "read",
    "GET /models/{id}/examples": "learn",
    "GET /models/{id}/suspected-labels": "learn",
    "POST /models/{id}/suspected-labels": "learn",
    "POST /models/{id}/update": "learn",
    "POST /updates": "learn",
    "POST /models/{id}/what-if": "learn",
    "POST /models/{id}/explain": "learn",
    "GET /models/{id}/drift": "learn",
    "POST /models/{id}/checkpoint": "learn",
    "POST /models/{id}/restore": "learn",
    "POST /models/{id}/assessment": "learn",
    "POST /models/{id}/regularization-path": "learn",
    "POST /models/{id}/outlier-path": "learn",
    "POST /models/{id}/retrain": "learn",
    "POST /models/{id}/tune": "learn",
    "DELETE /jobs/{job}": "learn",
    "POST /jobs/{job}/apply": "learn",
    "POST /models": "admin",
    "DELETE /models/{id}": "admin",
    "POST /models/{id}/writeback": "admin",
    "POST /models/{id}/erase": "admin",
    "POST /feeds/{id}/erase": "admin",
    "POST /erase": "admin",
    "GET /receipts": "admin",
    "POST /receipts/verify": "read",
    "GET /receipts/key": "read",
}
"""The scope that each call needs; None is open to all."""
WEBHOOK_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def test_no_series_has_the_name_of_a_call_of_feeds() -> None:
    paths = [call.partition("/feeds/{id}/")[2] for call in NEEDED]
    assert {path.partition(".")[0] for path in paths if path} == OF_FEEDS


@pytest.fixture(scope="module")
def secrets() -> dict[str, tuple[str, str]]:
    return {scope: new_key(scope, scope) for scope in SCOPES}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, secrets: dict[str, tuple[str, str]]) -> Iterator[httpx.Client]:
    entries = ",".join(entry for _, entry in secrets.values())
    settings: dict[str, Any] = {"api_keys": entries, "webhook_hosts": "hooks.example"}
    with ServiceProcess(tmp_path_factory.mktemp("guarded"), **settings) as service, service.http() as http:
        yield http


def status(http: httpx.Client, call: str, given: str | None) -> int:
    """Return how a call of nothing that exists is answered."""
    method, path = call.split()
    path = path.format(id="nobody", name="nothing", job="j-000000000000", extension="svg", version="1")
    headers = {} if given is None else {"authorization": given}
    with http.stream(method, path, json=[], headers=headers) as answer:  # some have no end
        return answer.status_code


def test_every_call_is_here(guarded: httpx.Client, secrets: dict[str, tuple[str, str]]) -> None:
    document = guarded.get("/openapi.json", headers={"authorization": f"Bearer {secrets['admin'][0]}"}).json()
    calls = {f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found}
    assert calls == NEEDED.keys()


@pytest.mark.parametrize("call", NEEDED)
def test_a_call_is_open_to_its_scope_and_those_above_only(
    call: str, guarded: httpx.Client, secrets: dict[str, tuple[str, str]]
) -> None:
    needed = NEEDED[call]
    for scope, (secret, _) in secrets.items():
        may = needed is None or allows(scope, needed)
        assert (status(guarded, call, f"Bearer {secret}") not in (401, 403)) == may
    some = secrets["admin"][0]
    for given in (
        None,
        "",
        "Bearer",
        f"Basic {some}",
        some,
        f"Bearer {some}x",
        f"Bearer {some[:-1]}",
    ):
        assert (status(guarded, call, given) == 401) == (needed is not None), given


def test_a_key_is_reported_of_the_paths_that_it_may_call(
    guarded: httpx.Client, secrets: dict[str, tuple[str, str]]
) -> None:
    for scope, (secret, _) in secrets.items():
        reported = guarded.get("/access", headers={"authorization": f"Bearer {secret}"}).json()
        may = {call.split()[1] for call, needed in NEEDED.items() if needed is None or allows(scope, needed)}
        assert reported["paths"] == sorted(may)


def test_a_caller_that_may_not_list_examples_sees_no_key_in_results(
    guarded: httpx.Client, secrets: dict[str, tuple[str, str]]
) -> None:
    by = {scope: {"authorization": f"Bearer {secret}"} for scope, (secret, _) in secrets.items()}
    guarded.headers.update(by["admin"])
    X, y = blobs(np.random.default_rng(2), 12)
    keys = [f"person-{number}" for number in range(12)]
    guarded.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
    guarded.post("/models/m/update", json={"add": {"X": X, "y": y, "keys": keys}}).raise_for_status()
    asked: dict[str, tuple[dict[str, Any], list[str]]] = {
        "assessment": ({"method": "leave-one-out"}, ["keys"]),
        "suspected-labels": (
            {},
            ["confirmed.keys", "suspects.better", "suspects.key", "suspects.label", "suspects.why"],
        ),
        "outlier-path": ({}, ["outliers_at_start.key", "suspected.key", "switches.key"]),
        "regularization-path": ({"minimum": 0.5, "maximum": 2.0}, ["breakpoints.key", "coefficients.key"]),
    }
    for call, (body, withheld) in asked.items():
        job = guarded.post(f"/models/m/{call}", json=body).raise_for_status().json()["id"]
        whole = awaited(guarded, job)
        assert whole["state"] == "done"
        assert "person-" in json.dumps(whole["result"]) or call == "outlier-path"
        assert guarded.get(f"/jobs/{job}", headers=by["learn"]).json() == whole
        seen = guarded.get(f"/jobs/{job}", headers=by["read"])
        assert seen.json()["withheld"] == withheld
        assert "person-" not in seen.text
        assert seen.json()["result"].items() >= {k: v for k, v in whole["result"].items() if type(v) is float}.items()
    guarded.delete("/models/m").raise_for_status()
    for name in by["admin"]:
        del guarded.headers[name]


MARKS = {
    "readings of the target of a feed": ["6180339"],
    "readings of other columns of a feed": ["4142136"],
    "names of classes": ["label-"],
    "features and targets of examples": ["3141593", "2718282"],
    "keys of examples": ["person-"],
    "tags of examples": ["tag-"],
    "rows of datasets, and their keys": ["7320508", "owner-"],
    "URLs of webhooks": ["token-in-url"],
    "secrets of webhooks, hashes of API keys, `Idempotency-Key`": ["request-of", WEBHOOK_SECRET],
}
"""What stands in the answers where they hold what the document names."""


def claimed() -> dict[str, dict[str, set[str]]]:
    """Return the calls that the document names, by what they show and by scope; pictures are not looked at."""
    section = read("docs/howto/secure.md").partition("## What a key can read")[2].partition("\n## ")[0]
    found: dict[str, dict[str, set[str]]] = {}
    for line in section.splitlines():
        if line.startswith("| ") and "---" not in line:
            what, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            seen, found[what] = set[str](), {}
            for scope, cell in zip(SCOPES, cells, strict=True):
                seen |= {path for path in re.findall(r"`GET ([^`]+)`", cell) if "plot" not in path}
                found[what][scope] = set(seen)
    del found["what"]
    return found


OF_NAIVE = {"/feeds/{id}/events", "/fleets/{id}/forecast"}
"""Calls that tell a reading where a naive forecast is served, as of feeds with few readings."""


def test_a_key_reads_what_the_document_says(guarded: httpx.Client, secrets: dict[str, tuple[str, str]]) -> None:
    by = {scope: {"authorization": f"Bearer {secret}"} for scope, (secret, _) in secrets.items()}
    jobs, receipt = marked(guarded, by["admin"])
    marks = MARKS | {"receipts of erasures": [receipt]}
    marks["secrets of webhooks, hashes of API keys, `Idempotency-Key`"] += [
        part for secret, entry in secrets.values() for part in (secret, entry[-64:])
    ]
    hooks = guarded.get("/webhooks", headers=by["admin"]).json()["webhooks"]
    ids = ("seen", "classes", "readings", "meters", "meters/a", *(hook["id"] for hook in hooks))
    expected = claimed()
    assert expected.keys() == marks.keys()
    paths = [call.removeprefix("GET ") for call in NEEDED if call.startswith("GET ") and "plot" not in call]
    for scope, headers in by.items():
        found: dict[str, set[str]] = {what: set() for what in marks}
        for path in paths:
            for id_ in ids if "{id}" in path else ids[:1]:
                for job in jobs if "{job}" in path else jobs[:1]:
                    url = path.format(id=id_, job=job, name="rows", version="1")
                    with guarded.stream("GET", url, headers=headers) as answer:
                        if answer.headers["content-type"].startswith("text/event-stream"):
                            text = next(answer.iter_text(), "")  # the state as it is
                        else:
                            text = answer.read().decode()
                    for what, parts in marks.items():
                        if any(part in text for part in parts):
                            found[what].add(path)
        found["readings of the target of a feed"] |= OF_NAIVE & expected["readings of the target of a feed"][scope]
        assert found == {what: expected[what][scope] for what in found}, scope


def marked(http: httpx.Client, headers: dict[str, str]) -> tuple[list[str], str]:
    """Make models, feeds, a fleet, a dataset, a webhook, jobs and an erasure; the jobs' ids, and the receipt's."""

    def post(path: str, body: Any) -> Any:
        named = headers | {"idempotency-key": f"request-of-{path[1:].replace('/', '-')}"}
        return http.post(path, json=body, headers=named).raise_for_status().json()

    X, y = blobs(np.random.default_rng(2), 12)
    rows = [[round(value, 1) + 0.03141593 for value in row] for row in np.asarray(X).tolist()]
    keys, tags = [f"person-{number}" for number in range(12)], [["tag-1"]] * 12
    given = {"X": rows, "keys": keys, "tags": tags}
    post("/models", {"id": "seen", "task": "svr", "C": 1.0})
    post("/models/seen/update", {"add": {**given, "y": [number + 0.02718282 for number in range(12)]}})
    post("/models", {"id": "classes", "C": 1.0})
    post("/models/classes/update", {"add": {**given, "y": [f"label-{value > 0}" for value in y]}})
    feed = {"target": "y", "every": "1h", "features": ["w"], "window": 40, "steps": 2, "lags": 3, "rolling": {}}
    feed |= {"season": 5, "represent": "change", "C": 1.0, "gamma": 0.1, "epsilon": 0.05}
    times = [f"2024-01-{1 + hour // 24:02d}T{hour % 24:02d}:00" for hour in range(60)]
    readings = [{"time": at, "y": n % 5 + 0.16180339, "w": n % 7 + 0.14142136} for n, at in enumerate(times)]
    post("/feeds", {"id": "readings", **feed})
    post("/feeds/readings/observations", {"rows": readings})
    post("/fleets", {"id": "meters", **feed})
    post("/fleets/meters/observations", {"rows": [{"series": "a", **one} for one in readings]})
    table = "key,a,y\n" + "".join(f"owner-{n},{n + 0.17320508},label-{n % 2}\n" for n in range(9))
    sent = {"content": table, "headers": headers | {"content-type": "text/csv"}}
    http.put("/datasets/rows?key=key&target=y", **sent).raise_for_status()  # type: ignore[arg-type]
    post("/webhooks", {"url": "https://hooks.example/token-in-url", "events": ["drift"], "secret": WEBHOOK_SECRET})
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/models/seen/assessment", {"method": "leave-one-out"}),
        ("/models/classes/assessment", {"method": "leave-one-out"}),
        ("/models/classes/suspected-labels", {}),
        ("/models/classes/outlier-path", {}),
        ("/models/classes/regularization-path", {"minimum": 0.5, "maximum": 2.0}),
        ("/feeds/readings/tune", {}),
    ]
    jobs = [post(path, body)["id"] for path, body in asked]
    http.headers.update(headers)
    assert {awaited(http, job)["state"] for job in jobs} == {"done"}
    del http.headers["authorization"]
    post("/models", {"id": "gone"})
    post("/models/gone/update", {"add": {"X": [[0.0], [1.0]], "y": [1, -1], "keys": ["a", "b"]}})
    return jobs, post("/models/gone/erase", {"keys": ["a"]})["receipt"]["receipt"]
