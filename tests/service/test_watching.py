"""The whole service watched: what the stream begins with, what it tells after that, and what a key allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from livesvm.service.access.keys import new_key
from livesvm.service.hosting.model import KEPT
from tests.service.conftest import Make
from tests.service.process import ServiceProcess


def reported(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the data of every event of a stream, as it comes."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_a_stream_begins_with_all_and_goes_on_with_what_changes(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, streams=4) as service, service.http() as http, service.http() as other:
        for name in ("a", "b"):
            http.post("/models", json={"id": name, "C": 1.0}).raise_for_status()
        with other.stream("GET", "/events") as response:
            events = reported(response)
            first = next(events)
            assert (first["ready"], first["reasons"], first["gone"]) == (True, [], [])
            assert [(model["id"], model["state"], model["version"]) for model in first["models"]] == [
                ("a", "live", 0),
                ("b", "live", 0),
            ]

            def next_of(name: str) -> dict[str, Any]:
                """Return the next event that tells of a model, which is all that it tells of."""
                found = next(event for event in events if event["models"] or event["gone"])
                assert [model["id"] for model in found["models"]] == [name]
                return dict(found["models"][0])

            http.post("/models/b/update", json={"add": {"X": [[0.0], [1.0]], "y": [-1, 1]}}).raise_for_status()
            described = http.get("/models/b").json()
            row = next_of("b")
            while row["queue_depth"] or row["version"] == 0:
                row = next_of("b")
            shown = row.keys() & described.keys()
            assert shown >= {"task", "version", "n_examples", "n_free", "n_bound", "relative_gap", "updated_at"}
            assert {name: row[name] for name in shown} == {name: described[name] for name in shown}

            http.post("/models/b/predict", json={"X": [[0.5]] * 7}).raise_for_status()
            assert next_of("b")["predicted"] == 7
            http.delete("/models/a").raise_for_status()
            assert next(event for event in events if event["gone"])["gone"] == ["a"]
            http.post("/feeds", json={"id": "f", "target": "load"}).raise_for_status()
            created = next(event for event in events if event["feeds"])["feeds"]
            assert [(feed["id"], feed["state"], feed["position"]) for feed in created] == [("f", "filling", 0)]
            rows = [{"time": f"2024-01-01T0{hour}:00", "load": float(hour)} for hour in range(3)]
            http.post("/feeds/f/observations", json={"rows": rows}).raise_for_status()
            (feed,) = next(event for event in events if event["feeds"])["feeds"]
            told_of_it = http.get("/feeds/f").json()
            assert (feed["position"], feed["time"]) == (3, told_of_it["time"])
            http.delete("/feeds/f").raise_for_status()
            assert next(event for event in events if event["gone_feeds"])["gone_feeds"] == ["f"]
        with other.stream("GET", "/events") as again:
            assert [model["id"] for model in next(reported(again))["models"]] == ["b"]


def test_the_newest_updates_are_reported_in_numbers(http: httpx.Client, make: Make) -> None:
    model = make()
    assert http.get(f"/models/{model}/recent").json() == {"updates": []}
    answers = [
        http.post(f"/models/{model}/update", json=body).json()
        for body in (
            {"add": {"X": [[0.0], [1.0], [2.0]], "y": [-1, 1, 1], "keys": ["a", "b", "c"]}},
            {"remove": {"keys": ["c"]}, "relabel": {"keys": ["a"], "y": [1]}},
            {"C": 3.0},
        )
    ]
    restored = http.post(f"/models/{model}/restore", json={"version": 1}).json()
    found = http.get(f"/models/{model}/recent").json()["updates"]
    assert [update["version"] for update in found] == [4, 3, 2, 1]
    assert (found[0]["action"], found[0]["restored"]) == ("restore", 1)
    assert found[0]["n_examples"] == restored["n_examples"] == 3
    for update, answer in zip(found[:0:-1], answers, strict=True):
        assert (update["added"], update["removed"]) == (len(answer["added"]), len(answer["removed"]))
        for name in ("changed", "events", "seconds", "n_examples", "n_free", "n_bound", "relative_gap"):
            assert update[name] == answer[name], name
    assert (found[1]["C"], "C" in found[2]) == (3.0, False)
    for number in range(KEPT):
        http.post(f"/models/{model}/update", json={"C": 1.0 + number}).raise_for_status()
    found = http.get(f"/models/{model}/recent").json()["updates"]
    assert [update["version"] for update in found] == list(range(4 + KEPT, 4, -1))


def test_a_key_is_reported_what_it_allows(tmp_path: Path, http: httpx.Client) -> None:
    open_to_all = http.get("/access").json()
    paths = list(http.get("/openapi.json").json()["paths"])
    assert open_to_all == {"keys": False, "label": None, "scope": "admin", "paths": sorted(paths)}
    secret, entry = new_key("me", "learn")
    with ServiceProcess(tmp_path, api_keys=entry) as service, service.http() as guarded:
        nothing = {"keys": True, "label": None, "scope": None, "paths": None}
        assert guarded.get("/access").json() == nothing
        assert guarded.get("/access", headers={"authorization": "Bearer lsk_wrong"}).json() == nothing
        found = guarded.get("/access", headers={"authorization": f"Bearer {secret}"}).json()
        may = [
            path
            for path in open_to_all["paths"]
            if not path.endswith(("/erase", "/writeback", "/pause", "/resume")) and not path.startswith("/webhooks")
        ]
        may.remove("/receipts")
        assert found == {"keys": True, "label": "me", "scope": "learn", "paths": may}


def test_the_page_is_whole_and_loads_nothing_else(http: httpx.Client) -> None:
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert page.headers["cache-control"] == "no-cache"
    assert http.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    script = http.get("/page/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert http.get("/page/vendor/uplot.LICENSE").text.startswith("The MIT License")
    for absent in ("/page/", "/page/nothing.js", "/page/../files.py", "/page/%2e%2e/files.py"):
        assert http.get(absent).status_code == 404
