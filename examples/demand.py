"""Hourly electricity demand: a forecast with a band for every hour of the next day, also where a reading is missing.

python examples/demand.py [FILE.csv]     columns time, demand; without a file, a made-up meter's twelve weeks
"""

import csv
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.client import Client

HOURS_A_CALL = 12


def made_up(weeks: int = 12) -> list[dict[str, Any]]:
    """Make readings of a meter: by hour of day and day of week, with noise that lasts, one missing."""
    random, noise, rows = np.random.default_rng(1), 0.0, []
    for hour in range(weeks * 168):
        time = datetime(2024, 1, 1) + timedelta(hours=hour)
        noise = 0.8 * noise + random.normal(scale=0.1)
        course = 3.0 + np.sin((time.hour - 9) * np.pi / 12) - 0.5 * (time.weekday() >= 5)
        rows.append({"time": time.isoformat(), "demand": round(float(course + noise), 3)})
    rows[-200]["demand"] = None
    return rows


def read(file: Path) -> list[dict[str, Any]]:
    """Return readings of a CSV file; an empty cell is a missing one."""
    with file.open(newline="") as lines:
        return [{"time": row["time"], "demand": float(row["demand"] or "nan")} for row in csv.DictReader(lines)]


def main(file: Path | None = None) -> None:
    """Send readings half a day at a time; say what the next day will be, and how often readings were in the band."""
    readings = read(file) if file else made_up()
    with Client(os.environ.get("LIVESVM_URL", "http://127.0.0.1:8000")) as client:
        feed = client.create_feed(target="demand", every="1h", steps=[1, 6, 12, 24], window=1000)["id"]
        for start in range(0, len(readings), HOURS_A_CALL):
            client.observe(feed, readings[start : start + HOURS_A_CALL])

        for ahead in client.forecast(feed)["forecasts"]:
            print(f"{ahead['time'][:16]}: {ahead['value']:.2f} ({ahead['low']:.2f} to {ahead['high']:.2f})")
        for score in client.feed(feed)["scores"]:
            print(
                f"{score['step']} hours ahead: {score['coverage']:.0%} of {score['n']} readings were in the band of 90%"
            )
        client.delete_feed(feed)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
