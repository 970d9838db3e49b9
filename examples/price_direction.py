"""Whether a price will be above the newest one: a feed of directions.

python examples/price_direction.py [FILE.csv]     columns time, price; without a file, a made-up market's 60 days
"""

import csv
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.client import Client


def made_up(days: int = 60) -> list[dict[str, Any]]:
    """Half-hourly prices of a market that does not exist: a course over the day, and shocks that fade."""
    random, shock, rows = np.random.default_rng(1), 0.0, []
    for half_hour in range(days * 48):
        shock = 0.7 * shock + random.normal(scale=4.0)
        price = 40.0 + 10.0 * np.sin((half_hour % 48 - 16) * np.pi / 24) + shock
        time = datetime(2024, 1, 1) + timedelta(minutes=30 * half_hour)
        rows.append({"time": time.isoformat(), "price": round(float(price), 2)})
    return rows


def read(file: Path) -> list[dict[str, Any]]:
    """Read prices of a CSV file."""
    with file.open(newline="") as lines:
        return [{"time": row["time"], "price": float(row["price"])} for row in csv.DictReader(lines)]


def main(file: Path | None = None) -> None:
    """Send prices a day at a time; say what comes next, and how often that was right."""
    prices = read(file) if file else made_up()
    with Client(os.environ.get("LIVESVM_URL", "http://127.0.0.1:8000")) as client:
        feed = client.create_feed(target="price", task="direction", steps=[1, 4], window=1000)["id"]
        for start in range(0, len(prices), 48):
            client.observe(feed, prices[start : start + 48])

        for ahead in client.forecast(feed)["forecasts"]:
            print(f"{ahead['time'][:16]}: {'above' if ahead['value'] > 0 else 'not above'} {prices[-1]['price']}")
        for score in client.feed(feed)["scores"]:
            print(f"{score['step']} ahead: {score['accuracy']:.1%} of {score['n']} right")
        client.delete_feed(feed)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
