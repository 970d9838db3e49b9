"""The examples run as their readers run them, against a real service, and say what they promise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from livesvm.client import Client
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, plant: RedisServer) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("data"), sources=f"plant={plant.url}") as running:
        yield running


@pytest.fixture
def said(
    service: ServiceProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[object]:
    """Runs an example by name, with a file if there is one; what it printed. It leaves no feed behind."""
    monkeypatch.setenv("LIVESVM_URL", service.url)

    def run(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr("sys.argv", [name, *arguments])
        run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    yield run
    with Client(service.url) as client:
        assert client.feeds() == []


def test_every_example_is_run_here() -> None:
    tests = Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'said("{example.name}"' in tests
        assert example.name in (EXAMPLES / "README.md").read_text()


def test_a_river(said) -> None:  # type: ignore[no-untyped-def]
    forecasts, scores = np.split(np.array(said("river_flow.py")), 2)
    assert [line[:10] for line in forecasts] == ["1992-01-01", "1992-01-03", "1992-01-07"]
    for line in forecasts:
        value, low, high = map(float, re.findall(r"\d+\.\d\d", line))
        assert low <= value <= high
    assert all(float(line.split("error ")[1].split()[0]) < 1.0 for line in scores)


def test_demand_with_a_reading_missing(said) -> None:  # type: ignore[no-untyped-def]
    lines = said("demand.py")
    assert len(lines) == 8
    for line in lines[:4]:
        value, low, high = map(float, re.findall(r"-?\d+\.\d\d", line))
        assert low < value < high
    covered = [int(line.split(": ")[1].split("%")[0]) for line in lines[4:]]
    assert min(covered) >= 84
    assert max(covered) <= 96


def test_a_fleet_of_meters(said) -> None:  # type: ignore[no-untyped-def]
    *forecasts, share, worst = said("meters.py")
    assert len(forecasts) == 12
    assert "of 12 meters" in share
    assert int(share.split("%")[0]) >= 75
    assert "/feeds/meters/meter~20" in worst


def test_the_direction_of_a_price(said) -> None:  # type: ignore[no-untyped-def]
    *_, near, far = said("price_direction.py")
    right = [float(line.split(": ")[1].split("%")[0]) for line in (near, far)]
    assert min(right) > 55.0


def test_a_redis_stream(said, plant: RedisServer) -> None:  # type: ignore[no-untyped-def]
    taken, near, far, refused = said("redis_stream.py", plant.url)
    assert taken == "400 readings taken, 1 refused"
    assert (near[:16], far[:16]) == ("2024-01-17T16:00", "2024-01-18T15:00")
    assert refused.startswith("refused: demand 'broken', ")
    with plant.client() as client:
        assert client.keys() == []


@pytest.mark.parametrize(("name", "column", "size"), [("demand.py", "demand", 8), ("price_direction.py", "price", 30)])
def test_a_file_of_ones_own(said, tmp_path: Path, name: str, column: str, size: int) -> None:  # type: ignore[no-untyped-def]
    rows = run_path(str(EXAMPLES / name))["made_up"](size)
    file = tmp_path / "readings.csv"
    cells = ("" if row[column] is None else row[column] for row in rows)
    file.write_text(f"time,{column}\n" + "".join(f"{row['time']},{x}\n" for row, x in zip(rows, cells, strict=True)))
    lines = said(name, str(file))
    assert len(lines) == {"demand.py": 8, "price_direction.py": 4}[name]
