"""Fleets over REST: many series in one call, distinguished, forecast, erased and deleted."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.feeds import FEED, rows_of, series

FLEET: dict[str, Any] = {**FEED, "series": "meter"}
NAMES = ("a", "Zähler 7", "plot")


def rows(names: tuple[str, ...], first: int, last: int) -> list[dict[str, Any]]:
    """Return readings of series, by time and then by series."""
    by_name = [[{"meter": name, **row} for row in rows_of(series(last, i))] for i, name in enumerate(names)]
    return [one[at] for at in range(first, last) for one in by_name]


@pytest.fixture(scope="module")
def fleet(http: httpx.Client) -> Iterator[str]:
    assert http.post("/fleets", json={"id": "meters", **FLEET}).status_code == 201
    answer = http.post("/fleets/meters/observations", json={"rows": rows(NAMES, 0, 70)}).json()
    assert (answer["series"], answer["accepted"], answer["refused"]) == (3, 210, [])
    yield "meters"
    assert http.delete("/fleets/meters").status_code == 204
    assert http.get("/fleets/meters").status_code == 404
    assert http.get("/feeds/meters/a").status_code == 404
    assert not [one for one in http.get("/fleets").json()["fleets"] if one["id"] == "meters"]


def test_each_series_is_a_feed_as_good_as_one_alone(http: httpx.Client, fleet: str) -> None:
    reported = http.get(f"/fleets/{fleet}").json()
    chosen = reported["settings"]["chosen"]
    recipes = [{name: one[name] for name in ("represent", "gamma", "C")} for one in chosen["steps"]]
    alone = {**FEED, "id": "alone", "season": chosen["season"], "recipes": recipes}
    assert http.post("/feeds", json=alone).status_code == 201
    readings = [{"time": row["time"], "y": row["y"]} for row in rows(NAMES, 0, 70) if row["meter"] == "Zähler 7"]
    http.post("/feeds/alone/observations", json={"rows": readings})
    listed = {one["series"]: one["feed"] for one in http.get(f"/fleets/{fleet}/series").json()["series"]}
    assert listed == {"Zähler 7": "meters/Z~C3~A4hler~207", "a": "meters/a", "plot": "meters/~70lot"}
    feed = listed["Zähler 7"]
    mine, other = (http.get(f"/feeds/{id_}/forecast").json() for id_ in (feed, "alone"))
    assert mine == other
    assert len(mine["forecasts"]) == 2
    assert http.delete("/feeds/alone").status_code == 204
    for feed in listed.values():
        assert http.get(f"/feeds/{feed}/certificate").json()["relative_gap"] <= 1e-8
        assert len(http.get(f"/feeds/{feed}/history?limit=5").json()["rows"]) == 5
        assert http.get(f"/feeds/{feed}/plot.svg").status_code == 200
        assert http.get(f"/feeds/{feed}").json()["id"] == feed
    assert all("/" not in one["id"] for one in http.get("/feeds").json()["feeds"])
    metrics = http.get("/metrics").text
    assert "meters/" not in metrics
    assert 'livesvm_fleet_series{fleet="meters",state=' in metrics


def test_forecasts_in_long_form(http: httpx.Client, fleet: str) -> None:
    whole = http.get(f"/fleets/{fleet}/forecast").json()
    assert [(row["series"], row["step"]) for row in whole["rows"]] == [
        (name, step) for name in ("Zähler 7", "a", "plot") for step in (1, 3)
    ]
    assert all(row["low"] <= row["value"] <= row["high"] for row in whole["rows"])
    first = http.get(f"/fleets/{fleet}/forecast?limit=2&steps=3").json()
    rest = http.get(f"/fleets/{fleet}/forecast", params={"after": first["next"], "steps": "3"}).json()
    assert [*first["rows"], *rest["rows"]] == whole["rows"][1::2]
    assert rest["next"] is None
    some = http.get(f"/fleets/{fleet}/forecast", params={"series": ["plot", "a"]}).json()["rows"]
    assert [row["series"] for row in some] == ["plot", "plot", "a", "a"]
    assert http.get(f"/fleets/{fleet}/forecast?series=none").status_code == 404
    text = http.get(f"/fleets/{fleet}/forecast?format=csv&limit=1")
    table = list(csv.DictReader(io.StringIO(text.text)))
    assert [float(row["value"]) for row in table] == [row["value"] for row in whole["rows"][:2]]
    assert text.headers["link"].endswith('rel="next"')
    from pyarrow import parquet

    data = http.get(f"/fleets/{fleet}/forecast?format=parquet").content
    assert parquet.read_table(io.BytesIO(data)).to_pylist() == whole["rows"]


def test_what_is_refused_of_a_series_changes_nothing_and_the_others_are_in(http: httpx.Client, fleet: str) -> None:
    before = http.get("/feeds/meters/a").json()
    good = rows(("a", "Zähler 7", "plot", "fresh"), 70, 72)
    good[4]["y"] = "much"  # the second row of a
    bad = [*good, {"meter": " b", "time": "2024-02-01T00:00", "y": 1.0}, {"time": "2024-02-01T00:00", "y": 1.0}]
    bad.append({"meter": "x" * 257, "time": "2024-02-01T00:00", "y": 1.0})
    bad.append({"meter": "other", "time": "2024-02-01T00:00", "z": 1.0})
    answer = http.post(f"/fleets/{fleet}/observations", json={"rows": bad}).json()
    assert (answer["series"], answer["accepted"]) == (3, 6)
    reported = [(one["series"], one["row"], one["field"]) for one in answer["refused"]]
    assert reported == [
        ("a", 4, "y"),
        (" b", 8, "meter"),
        (None, 9, "meter"),
        ("x" * 128, 10, "series"),
        ("other", 11, "y"),
    ]
    assert http.get("/feeds/meters/a").json() == before
    assert http.get("/feeds/meters/fresh").json()["position"] == 2
    assert http.get("/feeds/meters/other").status_code == 404
    none = http.post(f"/fleets/{fleet}/observations", json={"rows": [{"time": "2024-02-01T00:00", "y": 1.0}]})
    assert (none.status_code, none.json()["field"]) == (422, "meter")
    assert http.post("/fleets/none/observations", json={"rows": good}).status_code == 404


def test_a_call_has_one_effect_whatever_is_sent_again(http: httpx.Client, fleet: str) -> None:
    names = ("once", "twice")
    named = {"idempotency-key": "batch-1"}
    first = http.post(f"/fleets/{fleet}/observations", json={"rows": rows(names, 0, 3)}, headers=named).json()
    again = http.post(f"/fleets/{fleet}/observations", json={"rows": rows(names, 0, 3)}, headers=named).json()
    assert again == first | {"replayed": 2}
    other = http.post(f"/fleets/{fleet}/observations", json={"rows": rows(names, 0, 4)}, headers=named)
    assert other.status_code == 409
    assert [http.get(f"/feeds/meters/{name}").json()["position"] for name in names] == [3, 3]


def test_what_a_series_remembers_of_a_call_depends_on_no_reading_of_another(http: httpx.Client, fleet: str) -> None:
    named = {"idempotency-key": "own-1"}
    http.post(f"/fleets/{fleet}/observations", json={"rows": rows(("own", "other"), 0, 3)}, headers=named)
    again = http.post(f"/fleets/{fleet}/observations", json={"rows": rows(("own",), 0, 3)}, headers=named)
    assert (again.status_code, again.json()["replayed"]) == (200, 1)


def test_columns_bring_the_same_as_objects(http: httpx.Client) -> None:
    from pyarrow import parquet, table

    kinds = ("json", "csv", "npz", "parquet")
    readings = rows(("7", "8"), 0, 5)
    columns = {name: [row[name] for row in readings] for name in ("meter", "time", "y")}
    packed, stored = io.BytesIO(), io.BytesIO()
    np.savez(packed, meter=columns["meter"], time=columns["time"], y=columns["y"])
    parquet.write_table(table(columns), stored)
    lines = "\n".join(f"{row['meter']},{row['time']},{row['y']}" for row in readings)
    bodies = {"csv": f"meter,time,y\n{lines}\n".encode(), "npz": packed.getvalue(), "parquet": stored.getvalue()}
    media = {"csv": "text/csv", "npz": "application/zip", "parquet": "application/vnd.apache.parquet"}
    for kind in kinds:
        http.post("/fleets", json={"id": kind, **FLEET})
        at = f"/fleets/{kind}/observations"
        if kind == "json":
            answer = http.post(at, json={"rows": readings})
        else:
            answer = http.post(at, content=bodies[kind], headers={"content-type": media[kind]})
        assert (answer.json()["series"], answer.json()["accepted"]) == (2, 10), answer.text
    found = [[http.get(f"/feeds/{kind}/{name}/history").json() for name in ("7", "8")] for kind in kinds]
    assert found == [found[0]] * 4
    for kind in kinds:
        assert http.delete(f"/fleets/{kind}").status_code == 204


def test_shared_columns_come_once_and_are_announced_once(http: httpx.Client) -> None:
    spec = {**FLEET, "id": "warm", "known": ["temperature"], "shared": ["temperature"], "new": "refuse"}
    assert http.post("/fleets", json=spec).status_code == 201
    refused = http.post("/fleets/warm/observations", json={"rows": rows(("a",), 0, 1)}).json()
    assert refused["series"] == 0
    assert "creates none" in refused["refused"][0]["reason"]
    assert http.post("/fleets/warm/series", json={"series": ["a", 7]}).json() == {"created": 2, "series": 2}
    weather = [{"time": row["time"], "temperature": 0.1 * at} for at, row in enumerate(rows(("a",), 0, 60))]
    call = {"rows": [*rows(("a", "7"), 0, 60), *weather]}
    answer = http.post("/fleets/warm/observations", json=call).json()
    assert (answer["series"], answer["accepted"], answer["refused"]) == (2, 120, [])
    before = http.get("/fleets/warm/forecast").json()["rows"]
    ahead = [{"time": row["time"], "temperature": 40.0} for row in rows(("a",), 60, 63)]
    announced = http.post("/fleets/warm/announce", json={"rows": ahead}).json()
    assert (announced["series"], announced["announced"]) == (2, 6)
    after = http.get("/fleets/warm/forecast").json()["rows"]
    assert all(one["value"] != other["value"] for one, other in zip(before, after, strict=True))
    history = http.get("/feeds/warm/7/history?limit=1").json()
    assert len(history["rows"]) == 1
    assert http.delete("/fleets/warm").status_code == 204


def test_readings_of_series_are_erased_with_one_receipt(http: httpx.Client) -> None:
    http.post("/fleets", json={"id": "gone", **FLEET})
    http.post("/fleets/gone/observations", json={"rows": rows(("a", "b", "c"), 0, 62)})
    times = [row["time"] for row in rows(("a",), 30, 32)]
    wanted = {"series": ["a", "b"], "from": times[0], "to": times[1]}
    named = {"idempotency-key": "erase-1"}
    answer = http.post("/fleets/gone/erase", json=wanted, headers=named).json()
    assert [(one["model"], one["in_window"]) for one in answer["erased"]] == [("gone/a", 2), ("gone/b", 2)]
    assert http.post("/fleets/gone/erase", json=wanted, headers=named).json() == answer
    assert http.post("/receipts/verify", json=answer["receipt"]).json()["verified"]
    between = {"from": times[0], "to": times[1]}
    found = [http.get(f"/feeds/gone/{name}/history", params=between).json()["rows"] for name in "abc"]
    held = [[row["held"] for row in reported] for reported in found]
    assert held == [[True, True], [True, True], [False, False]]
    assert http.get("/feeds/gone/a/certificate").json()["relative_gap"] <= 1e-8
    assert http.delete("/fleets/gone").status_code == 204


def test_a_stamp_far_ahead_is_its_own_series_refusal(http: httpx.Client) -> None:
    http.post("/fleets", json={"id": "clocks", **FLEET}).raise_for_status()
    stray = {"time": "2199-01-01T00:00", "y": 1.0}
    sent = [*rows(("a", "b"), 0, 5), {"meter": "b", **stray}, {"meter": "new", **stray}]
    answer = http.post("/fleets/clocks/observations", json={"rows": sent}).json()
    assert (answer["series"], answer["accepted"]) == (1, 5)
    refused = [(one["series"], one["row"], one["field"]) for one in answer["refused"]]
    assert refused == [("b", 10, "time"), ("new", 11, "time")]
    assert all("ahead of the service's clock" in one["reason"] for one in answer["refused"])
    assert http.get("/fleets/clocks").json()["series"] == 1
    http.delete("/fleets/clocks")


def test_a_new_series_forecasts_from_its_second_reading_and_takes_the_settings_of_the_fleet(http: httpx.Client) -> None:
    http.post("/fleets", json={"id": "young", **FLEET, "window": 100}).raise_for_status()
    http.post("/fleets/young/observations", json={"rows": rows(("a",), 0, 100)}).raise_for_status()
    chosen = http.get("/fleets/young").json()["settings"]["chosen"]
    served = {}
    for first, last in ((0, 2), (2, 39), (39, 40), (40, 99), (99, 100)):
        sent = [{**row, "meter": "b"} for row in rows(("a",), first, last)]
        assert http.post("/fleets/young/observations", json={"rows": sent}).json()["accepted"] == last - first
        described = http.get("/feeds/young/b").json()
        coming = [one["readings"] for one in (described["filling"] or {"coming": []})["coming"]]
        assert coming == [at for at in (2, 13, 40, 100) if at > last]
        told = http.get("/fleets/young/forecast", params={"series": "b"}).json()["rows"]
        assert all(one["low"] < one["value"] < one["high"] for one in told)
        served[last] = [one["served"] for one in told]
    assert served[2] == ["last-value"] * 2
    assert set(served[39]) <= {"last-value", "seasonal-naive"}
    assert served[40] == served[99] == served[100] == ["blend"] * 2
    mine = described["settings"]["chosen"]["steps"]
    assert [{name: value for name, value in one.items() if name != "refits"} for one in mine] == chosen["steps"]
    assert http.delete("/fleets/young").status_code == 204
