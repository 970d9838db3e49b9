"""A river's daily flow, 1, 3 and 7 days ahead: from a CSV file of readings to forecasts with a band.

python examples/river_flow.py [FILE.csv]     columns date, flow_m3s, precip_mm, temp_c
"""

import os
import sys
from pathlib import Path

from livesvm.client import Client

RIVER = Path(__file__).parents[1] / "service" / "demo" / "data" / "fisher_river.csv"


def main(file: Path = RIVER) -> None:
    """Send the readings a month at a time; say what is to come, and how good forecasts have been."""
    header, *days = file.read_bytes().splitlines(keepends=True)
    with Client(os.environ.get("LIVESVM_URL", "http://127.0.0.1:8000")) as client:
        feed = client.create_feed(
            target="flow_m3s", time="date", features=["precip_mm", "temp_c"], steps=[1, 3, 7], window=730
        )["id"]
        for start in range(0, len(days), 30):
            client.observe(feed, b"".join([header, *days[start : start + 30]]))

        for ahead in client.forecast(feed)["forecasts"]:
            low, high = ahead["low"], ahead["high"]
            print(f"{ahead['time'][:10]}: {ahead['value']:.2f} m3/s, between {low:.2f} and {high:.2f} in 9 of 10 cases")
        for score in client.feed(feed)["scores"]:
            naive = min(score["last_value_mae"], score["seasonal_mae"])
            print(f"{score['step']} days ahead: {score['n']} scored, error {score['mae'] / naive:.2f} of the naive one")
        client.delete_feed(feed)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
