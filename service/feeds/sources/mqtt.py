"""Readings from the topics of an MQTT broker, in a session that the broker keeps while no client is connected.

A message is acknowledged when its effect is durable, and not before. If the connection, the service or the broker
fails, the broker sends unacknowledged messages again in the next connection. Such messages have their former packet
identifiers, and are marked as duplicates. By the packet identifier and a digest of the message, a feed knows which
messages it has taken. If the broker has lost an acknowledgement, or a publisher sent a message twice, the time of the
reading shows the repetition.

At QoS 2 a client has to acknowledge a message before its effect is durable, so QoS 1 is safer.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from livesvm.service.access.brokers import Broker
from livesvm.service.feeds.sources.base import Backlog, DeadLetter, Layout, Position, SourceEntry, SourceError
from livesvm.service.feeds.sources.payload import LARGEST, Payload
from livesvm.service.feeds.sources.spec import MqttSpec

CALL_SECONDS = 5.0
"""For an answer of the broker."""
KEEPALIVE_SECONDS = 15
IDENTIFIERS = 2**16
"""More than there are packet identifiers."""
MOST_REASON = 4096
"""Letters of a payload that a dead letter repeats."""

log = logging.getLogger(__name__)


class Unsettled(NamedTuple):
    """A received message that is not settled yet."""

    mid: int
    topic: str
    payload: bytes
    qos: int
    again: bool
    came_at: float


class MqttSource:
    """The MQTT source of one feed; see :class:`livesvm.service.feeds.sources.base.Source`.

    Parameters
    ----------
    spec : which topics, and how messages are read
    feed : id of the feed, or of the fleet
    layout : the columns that it reads
    broker : where the broker is
    """

    def __init__(self, spec: MqttSpec, feed: str, layout: Layout, broker: Broker) -> None:
        self._spec, self._feed, self._broker = spec, feed, broker
        self._payload = Payload(spec, layout)
        self._takes_retained = layout.time is not None and not spec.stamps
        self._dead = spec.dead_letters_of(feed)
        self._changed = threading.Condition()
        self._held: dict[Position, Unsettled] = {}  # by the order in which they came
        self._answers: dict[object, str | None] = {}  # what was asked, and why it was refused
        self._lost: str | None = None
        self._is_new = True
        self._unnumbered = 0
        self._client: Client | None = None

    # What is asked of it.

    def begin(self, taken: Position | None, dead: Sequence[DeadLetter]) -> bool:
        """Connect and subscribe; the broker sends unsettled messages of an earlier connection again by itself."""
        client = self._connect(clean=False)
        self._ask(lambda: client.subscribe(self._spec.topic, **self._wanted())[1], "subscribe")
        return self._is_new

    def fetch(self, taken: Position | None, most: int, seconds: float) -> list[SourceEntry]:
        """Return received messages that are not settled, in the order of arrival."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._lost is not None, seconds)
            self._check()
            held = list(self._held.items())[:most]
        return [self._entry(position, one) for position, one in held]

    def settle(self, entries: Sequence[Position], dead: Sequence[DeadLetter]) -> None:
        """Publish dead letters, then acknowledge the messages."""
        client = self._open()
        settled = frozenset(entries)
        with self._changed:
            self._check()
            found = {position: one for position, one in self._held.items() if position in settled}
        for letter in dead:
            if letter.position in found:
                self._bury(letter, found[letter.position])
        for position, one in found.items():
            with self._changed:
                self._check()
                del self._held[position]
            if one.qos:
                client.ack(one.mid, one.qos)

    def backlog(self, taken: Position | None) -> Backlog:
        """Count received messages that are not settled; a broker does not report how many more it has."""
        with self._changed:
            self._check()
            count = len(self._held)
        return Backlog(count, count >= self._spec.receive_maximum if self._broker.is_five else count > 0)

    def forget(self) -> None:
        """End the feed's session at the broker."""
        self._connect(clean=True)

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    # Its parts.

    def _connect(self, *, clean: bool) -> Client:
        """Return a connected client; with ``clean``, its session ends with the connection."""
        broker = self._broker
        version = MQTTProtocolVersion.MQTTv5 if broker.is_five else MQTTProtocolVersion.MQTTv311
        client = Client(
            CallbackAPIVersion.VERSION2,
            self._spec.client_of(self._feed),
            clean_session=None if broker.is_five else clean,
            protocol=version,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CALL_SECONDS
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_message, client.on_subscribe, client.on_publish = (
            self._on_message,
            self._on_subscribe,
            self._on_publish,
        )
        try:
            if broker.tls:
                client.tls_set(broker.ssl_ca_certs, broker.ssl_certfile, broker.ssl_keyfile)
            options: dict[str, Any] = (
                {"clean_start": clean, "properties": self._session(clean)} if broker.is_five else {}
            )
            client.connect(broker.host, broker.port, KEEPALIVE_SECONDS, **options)
        except (OSError, ValueError) as error:
            raise SourceError(f"broker {broker.address} cannot be reached: {error}") from error
        client.loop_start()
        self._client = client
        self._ask(lambda: "connect", "connect")
        return client

    def _session(self, clean: bool) -> Properties:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 0 if clean else self._spec.session_seconds
        properties.ReceiveMaximum = self._spec.receive_maximum
        properties.MaximumPacketSize = 2 * LARGEST
        return properties

    def _wanted(self) -> dict[str, Any]:
        if not self._broker.is_five:
            return {"qos": self._spec.qos}
        retained = SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        return {"options": SubscribeOptions(self._spec.qos, retainHandling=retained)}

    def _ask(self, call: Callable[[], object], what: str) -> None:
        """Send a request by ``call``, which returns the request's key, and wait for its answer; raises SourceError."""
        asked = call()
        with self._changed:
            self._changed.wait_for(lambda: asked in self._answers or self._lost is not None, CALL_SECONDS)
            if asked in self._answers:
                reason = self._answers.pop(asked)
            else:
                reason = self._lost or f"no answer in {CALL_SECONDS:g} s"
        if reason is not None:
            raise SourceError(f"broker {self._broker.address} refused to {what}: {reason}")

    def _open(self) -> Client:
        if self._client is None:
            raise SourceError(f"broker {self._broker.address} is not connected")
        return self._client

    def _check(self) -> None:
        if self._lost is not None:
            raise SourceError(f"broker {self._broker.address} is not connected any more: {self._lost}")

    def _entry(self, position: Position, one: Unsettled) -> SourceEntry:
        try:
            return SourceEntry(position, self._payload.row(one.topic, one.payload, one.came_at), None, one.again)
        except ValueError as error:
            return SourceEntry(position, {}, str(error), one.again)

    def _bury(self, letter: DeadLetter, one: Unsettled) -> None:
        """Publish a dead letter, and wait until the broker has it."""
        entry = "-".join(map(str, letter.position))
        reported = {
            "feed": self._feed,
            "topic": one.topic,
            "entry": entry,
            "field": letter.field,
            "reason": letter.reason,
        }
        try:
            reported["payload"] = one.payload[:MOST_REASON].decode()
        except UnicodeDecodeError:
            reported["payload_base64"] = base64.b64encode(one.payload[:MOST_REASON]).decode()
        client = self._open()
        self._ask(
            lambda: ("publish", client.publish(self._dead, json.dumps(reported), 1).mid), f"publish to {self._dead}"
        )

    # What the broker says, in the thread of the connection.

    def _on_connect(self, client: Client, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._is_new = not flags.session_present
        if self._is_new and not reason.is_failure:
            log.info("%s: the broker begins a session, which holds nothing from before", self._feed)
        self._answered("connect", str(reason) if reason.is_failure else None)

    def _on_disconnect(self, client: Client, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._changed:
            self._lost = str(reason)
            self._changed.notify_all()

    def _on_subscribe(self, client: Client, _: Any, mid: int, reasons: Any, properties: Any) -> None:
        refused = next((str(reason) for reason in reasons if reason.is_failure), None)
        if refused is None and any(reason.value < self._spec.qos for reason in reasons):
            refused = "it grants QoS 0 only, which loses readings in a kill"
        self._answered(mid, refused)

    def _on_publish(self, client: Client, _: Any, mid: int, reason: Any, properties: Any) -> None:
        self._answered(("publish", mid), str(reason) if reason.is_failure else None)

    def _answered(self, asked: object, refused: str | None) -> None:
        with self._changed:
            self._answers[asked] = refused
            self._changed.notify_all()

    def _on_message(self, client: Client, _: Any, message: MQTTMessage) -> None:
        if message.retain and not (self._is_new and self._takes_retained):
            client.ack(message.mid, message.qos)  # was read when it came, or came at a time that is not known
            return
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = "�"
        payload = bytes(message.payload)
        digest = sha256(topic.encode() + b"\n" + payload).digest()[:6]
        with self._changed:
            number = message.mid
            if message.qos == 0:
                self._unnumbered += 1
                number = IDENTIFIERS + self._unnumbered
            again = bool(message.dup) and message.qos > 0
            held = Unsettled(message.mid, topic, payload, message.qos, again, time.time())
            self._held[number, int.from_bytes(digest, "big")] = held
            self._changed.notify_all()
