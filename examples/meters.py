"""A fleet of meters: one specification, all readings of an hour in one call, forecasts of all meters, the worst named.

python examples/meters.py [FILE.csv]     columns meter, time, load, temperature; without a file, twelve made-up meters
"""

import csv
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.client import Client

HOURS_A_CALL = 24


def made_up(meters: int = 12, days: int = 35) -> list[dict[str, Any]]:
    """Return readings of meters that do not exist, in a region whose weather they share.

    One of them hardly has a course.
    """
    random = np.random.default_rng(3)
    strength, shift = random.uniform(0.5, 2.0, meters), random.uniform(-3, 3, meters)
    strength[-1] = 0.05
    noise, rows = np.zeros(meters), []
    for hour in range(24 * days):
        time = datetime(2024, 1, 1) + timedelta(hours=hour)
        warmth = 8 + 6 * np.sin((time.hour - 9) * np.pi / 12) + random.normal()
        noise = 0.7 * noise + random.normal(scale=0.1, size=meters)
        load = 3 + strength * np.sin((time.hour - 9 - shift) * np.pi / 12) - 0.05 * warmth + noise
        rows.append({"time": time.isoformat(), "temperature": round(float(warmth), 2)})
        rows += [
            {"meter": f"meter {n + 1}", "time": time.isoformat(), "load": round(float(load[n]), 3)}
            for n in range(meters)
        ]
    return rows


def read(file: Path) -> list[dict[str, Any]]:
    """Return readings of a CSV file."""
    with file.open(newline="") as lines:
        return [
            {**row, "load": float(row["load"]), "temperature": float(row["temperature"])}
            for row in csv.DictReader(lines)
        ]


def main(file: Path | None = None) -> None:
    """Send a day of readings at a time; say what the next hour will be, and which meters are badly forecast."""
    readings = read(file) if file else made_up()
    times = sorted({row["time"] for row in readings})
    with Client(os.environ.get("LIVESVM_URL", "http://127.0.0.1:8000")) as client:
        settings = {"target": "load", "every": "1h", "steps": [1, 24], "window": 500, "season": 24}
        client.create_fleet("meters", series="meter", features=["temperature"], shared=["temperature"], **settings)
        for start in range(0, len(times), HOURS_A_CALL):
            now = set(times[start : start + HOURS_A_CALL])
            client.observe_fleet("meters", [row for row in readings if row["time"] in now])

        for ahead in client.fleet_forecast("meters", steps=[1]):
            print(f"{ahead['series']}: {ahead['value']:.2f} ({ahead['low']:.2f} to {ahead['high']:.2f})")
        fleet = client.fleet("meters")
        print(f"{fleet['scores']['ahead_of_naive']:.0%} of {fleet['series']} meters are ahead of naive forecasts")
        worst = fleet["worst"][0]
        print(
            f"the worst, {worst['series']}, has {worst['ratio']:.2f} of the naive error; more at /feeds/{worst['feed']}"
        )
        client.delete_fleet("meters")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
