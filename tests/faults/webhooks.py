"""Kill the service while events are made and delivered: every acknowledged one has to come, whatever comes twice.

    python -m tests.faults.webhooks [--kills 20] [--seed 0]

Each feed brings one event with its readings. The service dies at a point by chance: before or after the readings are
logged, before the event is stored, before the answer, or between a delivery and its note. Exits 1 if an event of an
acknowledged call is missing, or one message has two contents.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.crash import POINTS, WEBHOOK_POINTS
from tests.service.process import ServiceProcess
from tests.support.receiver import Receiver
from tests.support.waiting import until

FEED: dict[str, Any] = {"target": "y", "window": 40, "steps": 1, "lags": 2, "C": 1.0, "gamma": 0.1, "epsilon": 0.05}
ROWS = [{"time": float(hour * 3600), "y": float(hour % 5)} for hour in range(50)]
MOST = 30
"""Feeds between two kills."""


def live(process: ServiceProcess, receiver: Receiver, made: list[str], acknowledged: set[str]) -> None:
    """Make feeds until the service dies, or there are enough of them."""
    with process, Client(process.url, patience=0.0, timeout=60.0) as client:
        try:
            if not client.webhooks():
                receiver.secret = client.create_webhook(receiver.url, ["forecast.outside"], above=-100.0)["secret"]
            for _ in range(MOST):
                made.append(f"f{len(made)}")
                client.create_feed(made[-1], **FEED)
                client.observe(made[-1], ROWS)
                acknowledged.add(made[-1])
        except (httpx.TransportError, ServiceProblem):
            return


def main() -> int:
    """Run, and report; 1 where something is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance, made, acknowledged = random.Random(asked.seed), list[str](), set[str]()
    with tempfile.TemporaryDirectory() as place, Receiver() as receiver:
        process = ServiceProcess(Path(place), webhook_hosts="127.0.0.1", webhook_private="true")
        process.waits_for_models = False
        for kill in range(asked.kills):
            point = chance.choice((*POINTS, *WEBHOOK_POINTS, *WEBHOOK_POINTS))
            process.settings["crash_at"] = f"{point}:{chance.randint(1, 9)}"
            live(process, receiver, made, acknowledged)
            print(f"kill {kill + 1} at {process.settings['crash_at']}: {len(acknowledged)} acknowledged", flush=True)
        process.settings["crash_at"] = ""
        process.waits_for_models = True
        with process:
            until(lambda: acknowledged <= {message["data"]["feed"] for _, message in receiver.messages})
    contents = {(id_, str(message)) for id_, message in receiver.messages}
    ids = Counter(id_ for id_, _ in receiver.messages)
    print(f"{len(made)} feeds, {len(acknowledged)} acknowledged, {len(ids)} messages, {ids.total()} deliveries")
    return int(len(contents) != len(ids))


if __name__ == "__main__":
    sys.exit(main())
