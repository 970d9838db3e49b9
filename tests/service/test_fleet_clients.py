"""Fleets from Python and from the command line."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import AsyncClient, Client, ServiceProblem
from tests.service.process import ServiceProcess
from tests.service.test_fleets import FLEET, rows


@pytest.fixture
def client(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("LIVESVM_URL", service.url)
    with Client(service.url) as client:
        yield client
        for one in client.fleets():
            client.delete_fleet(one["id"])


def test_a_fleet_from_python(client: Client, service: ServiceProcess) -> None:
    client.create_fleet("mine", **FLEET)
    readings = rows(("a", "b"), 0, 62)
    first = client.observe_fleet("mine", readings, idempotency_key="k")
    assert client.observe_fleet("mine", readings, idempotency_key="k") == first | {"replayed": 2}
    text = "meter,time,y\n" + "".join(f"{row['meter']},{row['time']},{row['y']}\n" for row in rows(("a",), 62, 63))
    assert client.observe_fleet("mine", text.encode())["accepted"] == 1
    assert [one["series"] for one in client.fleet("mine")["worst"]] in (["a", "b"], ["b", "a"])
    assert [(row["series"], row["step"]) for row in client.fleet_forecast("mine", steps=[3])] == [("a", 3), ("b", 3)]
    assert [row["step"] for row in client.fleet_forecast("mine", ["b"])] == [1, 3]
    assert len(list(csv.reader(io.StringIO(client.fleet_forecast_file("mine", "csv").decode())))) == 5
    assert client.create_series("mine", ["c"]) == {"created": 1, "series": 3}
    assert client.forecast("mine/a")["state"] == "live"
    assert client.erase_series("mine", ["a"], [readings[60]["time"]])["removed"] == 1
    with pytest.raises(ServiceProblem, match="422"):  # no series are not all of them
        client.erase_series("mine", [], [readings[61]["time"]])

    async def talk() -> list[dict[str, Any]]:
        async with AsyncClient(service.url) as other:
            return await other.series("mine")

    assert asyncio.run(talk()) == client.series("mine")
    client.delete_fleet("mine")
    assert client.fleets() == []


def test_a_fleet_from_the_command_line(client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def reported(*arguments: object, code: int = 0) -> Any:
        assert main([*map(str, arguments), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    def written(readings: list[dict[str, Any]]) -> Path:
        with (tmp_path / "rows.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, readings[0])
            writer.writeheader()
            writer.writerows(readings)
        return tmp_path / "rows.csv"

    rest = {name: FLEET[name] for name in ("every", "lags", "rolling", "season")}
    asked = ("--series", "meter", "--steps", "1,3", "--window", 60, "--settings", json.dumps(rest))
    assert reported("fleet", "create", "lines", "y", *asked)["settings"]["series"] == "meter"
    sent = reported("fleet", "push", "lines", written(rows(("a", "b"), 0, 62)), "--size", 100)
    assert (sent["calls"], sent["series"], sent["accepted"]) == (2, 2, 124)
    bad = rows(("a", "b"), 62, 63)
    bad[1]["y"] = "high"
    sent = reported("fleet", "push", "lines", written(bad), code=1)
    assert (sent["accepted"], [(one["series"], one["row"]) for one in sent["refused"]]) == (1, [("b", 1)])
    assert [one["series"] for one in reported("fleet", "series", "lines")] == ["a", "b"]
    assert reported("fleet", "show", "lines")["position"] == 125
    ahead = reported("fleet", "forecast", "lines", "--series", "b", "--steps", "3")
    assert [(row["series"], row["feed"], row["step"]) for row in ahead] == [("b", "lines/b", 3)]
    assert [row["value"] for row in reported("feed", "forecast", "lines/b", "--steps", "3")] == [ahead[0]["value"]]
    for ending in ("csv", "parquet"):
        assert main(["fleet", "forecast", "lines", "-o", str(tmp_path / f"out.{ending}")]) == 0
        assert (tmp_path / f"out.{ending}").stat().st_size > 0
    assert main(["fleet", "show", "lines"]) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("ahead_of_naive", "mean ratio", "median ratio", "worst\n", "lines/a"))
    receipt = ("--from", rows(("a",), 60, 61)[0]["time"], "--receipt", tmp_path / "receipt.json", "--yes")
    assert reported("fleet", "erase", "lines", *receipt)["removed"] == 5
    assert reported("fleet", "list")[0]["id"] == "lines"
    assert reported("fleet", "delete", "lines", "--yes") == {"deleted": "lines"}
