"""Kill the service, and Redis or an MQTT broker, while a feed takes its readings from there, many times, and report.

    python -m tests.faults.feed_source --kills 200 [--source mqtt] [--store redis] [--seed 0]

Readings go into a stream or a topic, with one now and then that is none. The service is killed at random moments and at
the named points, Redis or the broker every third time while both are at work. At the end every reading has had one
effect: none is missing, none came twice, each that is none is a dead letter; forecasts and scores are those of a feed
that was never troubled, and every model's certificate is computed from its data.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import redis

from livesvm.service.crash import POINTS, SNAPSHOT_POINTS, SOURCE_POINTS
from tests.contract.mosquitto import Mosquitto
from tests.contract.redis_server import RedisServer
from tests.faults.feeds import differences, ended
from tests.faults.mqtt_meter import MqttMeter, spec_of
from tests.service.process import ServiceProcess
from tests.support.feeds import rows_of, series

STREAM, DEAD = "meters", "meters:dead:load"
BURST = 40
"""Readings between two kills; of them one in so many is followed by an entry that is none:"""
POISON = 25
PATIENCE = 120.0


class RedisMeter:
    """Writes readings to the stream, each once, whatever becomes of Redis."""

    def __init__(self, server: RedisServer, total: int) -> None:
        self.server, self._rows = server, rows_of(series(total))
        self.spec = spec_of({"connection": "plant", "stream": STREAM, "count": 12})
        self.sent = self.poison = 0

    def burst(self, chance: random.Random) -> None:
        """Send the next readings, not all at once."""
        for _ in range(BURST):
            self.send_until(self.sent + 1)
            if chance.random() < 0.2:
                time.sleep(0.02)

    def send_until(self, total: int) -> None:
        """Send the next readings, until there were so many."""
        with self.server.client() as client:
            for row in self._rows[self.sent : total]:
                self._add(client, 2 * self.sent + 2, row)
                self.sent += 1
                if self.sent % POISON == 0:
                    self._add(client, 2 * self.sent + 1, {"time": row["time"], "y": "broken"})
                    self.poison += 1

    @staticmethod
    def _add(client: Any, number: int, row: dict[str, Any]) -> None:
        """Add an entry; one that was there when Redis died without an answer is there."""
        while True:
            try:
                client.xadd(STREAM, row, id=f"{number}-0")
                return
            except redis.ResponseError as error:
                if "equal or smaller" in str(error):
                    return
                if "LOADING" not in str(error):
                    raise
            except redis.RedisError:
                pass
            time.sleep(0.02)

    def end(self) -> None:
        """Close nothing: each burst has a connection of its own."""

    def faults(self, feed: dict[str, Any]) -> list[str]:
        """Return what is not as it should be in the stream and the dead letters."""
        found = []
        if feed["rows"] != self.sent:
            found.append(f"{feed['rows']} rows came, {self.sent} were sent")
        with self.server.client() as client:
            letters: Any = client.xrange(DEAD)
            pending: Any = client.xpending(STREAM, "livesvm:load")
        entries = [letter[b"_entry"] for _, letter in letters]
        if len(set(entries)) != len(entries) or len(entries) != self.poison or feed["source"]["refused"] != self.poison:
            found.append(f"{len(entries)} dead letters of {self.poison}, {len(set(entries))} different ones")
        return [*found, *([f"{pending['pending']} entries are not acknowledged"] if pending["pending"] else [])]


Meter = RedisMeter | MqttMeter


def troubled(service: ServiceProcess, meter: Meter, chance: random.Random, kill: int) -> None:
    """Let readings come until the service is dead, and the source with it every third time, one of them first."""
    server = meter.server
    writer = threading.Thread(target=meter.burst, args=(random.Random(kill),))
    writer.start()
    if "crash_at" in service.settings:  # it dies by itself, if it comes so far
        writer.join(0.6)
    else:
        time.sleep(chance.uniform(0.0, 0.6))
    first = chance.random() < 0.5
    if kill % 3 == 0 and first:
        server.kill()
        time.sleep(chance.uniform(0.0, 0.3))
    service.kill()
    if kill % 3 == 0:
        if not first:
            server.kill()
        server.start()
    writer.join()


def restarted(service: ServiceProcess, chance: random.Random) -> None:
    """Start the service again, now and then so that it dies at a named point, if it is not dead already then."""
    service.settings.pop("crash_at", None)
    if chance.random() < 0.6:
        point = chance.choice((*POINTS, *SNAPSHOT_POINTS, *SOURCE_POINTS, *SOURCE_POINTS))
        service.settings["crash_at"] = f"{point}:{chance.randint(1, 5)}"
    with suppress(RuntimeError, httpx.TransportError, AssertionError):  # it may come to its point while it starts
        service.start()


def faults_of(http: httpx.Client, meter: Meter) -> list[str]:
    """Wait until the feed has taken everything; what is not as it should be."""
    end, found = time.monotonic() + PATIENCE, list[str]()
    while (feed := http.get("/feeds/load").json())["position"] < meter.sent or feed["source"]["backlog"] != 0:
        if time.monotonic() > end:
            found.append(f"the feed has {feed['position']} readings of {meter.sent}, {feed['source']}")
            break
        time.sleep(0.1)
    found += differences(http, meter.sent, 1, meter.spec)
    if feed["position"] != meter.sent:
        found.append(f"{feed['position']} readings were taken, {meter.sent} were sent")
    return found + meter.faults(feed)


def main() -> None:
    """Run it; ends with 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--source", choices=("redis", "mqtt"), default="redis", help="Where readings come from.")
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite", help="Where the feed is kept.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, times = random.Random(given.seed), []
    with ExitStack() as stack:
        place, total = Path(stack.enter_context(tempfile.TemporaryDirectory())), BURST * given.kills
        server: Mosquitto | RedisServer
        if given.source == "mqtt":
            server = stack.enter_context(Mosquitto(place / "source"))
        else:
            server = stack.enter_context(RedisServer(place / "source"))
        settings: dict[str, Any] = {"snapshot_updates": 5, "compile_ahead": "false", "sources": f"plant={server.url}"}
        if given.store == "redis":
            kept = stack.enter_context(RedisServer(place / "store")) if isinstance(server, Mosquitto) else server
            settings |= {"redis_url": kept.url, "lease_seconds": 1}
        service = stack.enter_context(ServiceProcess(place / "data", **settings))
        meter: Meter = MqttMeter(server, total) if isinstance(server, Mosquitto) else RedisMeter(server, total)
        with service.http() as http:
            http.post("/feeds", json={"id": "load", **meter.spec}).raise_for_status()
            while http.get("/feeds/load").json()["source"]["backlog"] is None:
                time.sleep(0.05)  # what is published before there is a session is lost
        for kill in range(given.kills):
            troubled(service, meter, chance, kill)
            began = time.perf_counter()
            restarted(service, chance)
            times.append(time.perf_counter() - began)
            if (kill + 1) % 20 == 0:
                print(f"{kill + 1} kills, {meter.sent} readings", flush=True)
        service.kill()
        service.settings.pop("crash_at", None)
        service.start()
        meter.end()
        with service.http() as http:
            faults = faults_of(http, meter)
    print(
        f"{given.kills} kills of the service, {-(-given.kills // 3)} of the source; {meter.sent} readings, "
        f"{meter.poison} dead letters; start {np.median(times):.2f} s, worst {max(times):.2f} s; {len(faults)} faults"
    )
    ended(faults)


if __name__ == "__main__":
    main()
