"""A meter that publishes readings to an MQTT broker, and again the newest where the broker may have lost them."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.contract.mosquitto import Mosquitto
from tests.support.feeds import FEED, rows_of, series

TOPIC, DEAD = "meters/load", "livesvm/dead/load"
BURST = 40
"""Readings between two kills; of them one in so many is followed by a message that is none:"""
POISON = 25
AGAIN = 30
"""Messages that are published again in a new connection, fewer than a window of readings.

Mosquitto saves what it has acknowledged at the end of a round of its loop, so that a kill between the two loses it.
"""
LETTER_SECONDS = 20.0


def spec_of(source: dict[str, Any]) -> dict[str, Any]:
    """Return a feed that learns readings one by one, so that it does not matter how many come at once."""
    return {**FEED, "batch": 1, "source": source}


class Letters:
    """Keeps the dead letters, in a session that the broker keeps."""

    def __init__(self, server: Mosquitto) -> None:
        self.by_payload: defaultdict[str, set[str]] = defaultdict(set)
        self._client = Client(
            CallbackAPIVersion.VERSION2, "letters", clean_session=False, protocol=MQTTProtocolVersion.MQTTv311
        )
        self._client.on_connect = lambda client, *_: client.subscribe(DEAD, 1)
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", server.port)
        self._client.loop_start()

    def _on_message(self, client: Client, _: Any, message: MQTTMessage) -> None:
        letter = json.loads(message.payload)
        self.by_payload[letter["payload"]].add(letter["entry"])

    def end(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


class MqttMeter:
    """Publishes readings in their order, each until the broker has acknowledged it."""

    def __init__(self, server: Mosquitto, total: int) -> None:
        self.server = server
        self.spec = spec_of({"mqtt": "plant", "topic": TOPIC, "count": 12})
        self._messages: list[str] = []
        self._readings: list[int] = [0]  # how many there are before each message
        for number, row in enumerate(rows_of(series(total)), 1):
            self._append(json.dumps(row), 1)
            if number % POISON == 0:
                self._append(json.dumps({"time": row["time"], "y": "broken", "n": number}), 0)
        self._next = self._reached = 0
        self._published: Counter[str] = Counter()
        self._client: Client | None = None
        self._letters = Letters(server)

    def _append(self, message: str, readings: int) -> None:
        self._messages.append(message)
        self._readings.append(self._readings[-1] + readings)

    @property
    def sent(self) -> int:
        """Return how many readings were published."""
        return self._readings[self._reached]

    @property
    def poison(self) -> int:
        """Return how many messages that are no readings were published."""
        return self._reached - self.sent

    def burst(self, chance: random.Random) -> None:
        """Publish the next readings, not all at once."""
        end = self.sent + BURST
        while self.sent < end:
            self._publish()
            if chance.random() < 0.2:
                time.sleep(0.02)

    def end(self) -> None:
        """Publish the newest again, and whatever follows the last reading."""
        self._again()
        while self._next < self._reached or (self._reached < len(self._messages) and self.poison < self.sent // POISON):
            self._publish()

    def faults(self, feed: dict[str, Any]) -> list[str]:
        """Return what is not as it should be in the dead letters: each poison is one for each time it was published.

        It may have been lost when it was published first; ``refused`` counts letters.
        """
        letters, end = self._letters.by_payload, time.monotonic() + LETTER_SECONDS
        broken = [message for message in self._messages[: self._reached] if '"broken"' in message]
        while any(message not in letters for message in broken) and time.monotonic() < end:
            time.sleep(0.1)
        self._letters.end()
        found = [f"no dead letter for {message}" for message in broken if message not in letters]
        found += [f"{letter} was refused" for letter in letters if letter not in broken]
        for message, entries in letters.items():
            if len(entries) > self._published[message]:
                found.append(f"{message} was published {self._published[message]} times, and refused as {entries}")
        most, refused = sum(self._published[message] for message in broken), feed["source"]["refused"]
        return [*found, *([] if len(broken) <= refused <= most else [f"{refused} were refused of {len(broken)}"])]

    def _publish(self) -> None:
        """Publish the next message, and the newest ones before it where the connection is a new one."""
        client = self._client or self._again()
        message = self._messages[self._next]
        self._published[message] += 1
        sent = client.publish(TOPIC, message, 1)
        end = time.monotonic() + 1.0
        while not sent.rc and not sent.is_published() and client.is_connected() and time.monotonic() < end:
            time.sleep(0.001)
        if sent.rc or not sent.is_published():
            client.loop_stop()
            self._client = None
            return
        self._next += 1
        self._reached = max(self._reached, self._next)

    def _again(self) -> Client:
        """Connect, whatever becomes of the broker, and begin with messages that it may have lost."""
        self._next = max(0, self._reached - AGAIN)
        while True:
            connected = threading.Event()
            client = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
            client.on_connect = lambda *_, event=connected: event.set()
            try:
                client.connect("127.0.0.1", self.server.port)
            except OSError:
                time.sleep(0.02)
                continue
            client.loop_start()
            if connected.wait(1.0):
                self._client = client
                return client
            client.loop_stop()
