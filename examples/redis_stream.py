"""Readings from a Redis Stream: a meter writes there, a feed takes what comes, and what it cannot use is set aside.

LIVESVM_SOURCES=plant=redis://127.0.0.1:6379/0 make serve
python examples/redis_stream.py [redis://127.0.0.1:6379/0]
"""

import os
import sys
import time
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import redis

from livesvm.client import Client

STREAM = "example:meter"
HOURS = 400
PATIENCE_SECONDS = 60.0


def write(server: Any) -> None:
    """Write what a meter would: a reading an hour, and one that is none."""
    random = np.random.default_rng(1)
    for hour in range(HOURS):
        at = (datetime(2024, 1, 1) + timedelta(hours=hour)).isoformat()
        demand = 3.0 + np.sin(hour * np.pi / 12) + random.normal(scale=0.1)
        server.xadd(STREAM, {"time": at, "demand": f"{demand:.3f}"})
    server.xadd(STREAM, {"time": (datetime(2024, 1, 1) + timedelta(hours=HOURS)).isoformat(), "demand": "broken"})


def main(url: str = "redis://127.0.0.1:6379/0") -> None:
    """Create a feed that reads the stream, write to it, and see what has come of that."""
    server: Any = redis.Redis.from_url(url, decode_responses=True)
    source = {"connection": "plant", "stream": STREAM}
    with Client(os.environ.get("LIVESVM_URL", "http://127.0.0.1:8000")) as client:
        feed = client.create_feed(target="demand", steps=[1, 24], window=300, source=source)["id"]
        write(server)
        until = time.monotonic() + PATIENCE_SECONDS
        found = client.feed(feed)
        while found["position"] < HOURS or not found["source"]["refused"]:
            if time.monotonic() > until:
                raise SystemExit(f"the feed has come no further than {found['source']}")
            time.sleep(0.1)
            found = client.feed(feed)

        print(f"{found['position']} readings taken, {found['source']['refused']} refused")
        for ahead in client.forecast(feed)["forecasts"]:
            print(f"{ahead['time'][:16]}: {ahead['value']:.2f} ({ahead['low']:.2f} to {ahead['high']:.2f})")
        for _, letter in server.xrange(found["source"]["dead_letters"]):
            print(f"refused: demand {letter['demand']!r}, {letter['_reason']}")
        client.delete_feed(feed)
        server.delete(STREAM, found["source"]["dead_letters"])


if __name__ == "__main__":
    main(*sys.argv[1:2])
