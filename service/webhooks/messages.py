"""Messages to the receivers of webhooks, which the store keeps as documents: waiting messages and dead letters."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from pydantic_core import to_json

from livesvm.service.store.base import WEBHOOK_DEAD, WEBHOOK_WAITING, DocumentName, StoreDamaged
from livesvm.service.webhooks.spec import Webhook, WebhookSpec, key_in

Document = dict[str, Any]


class Happened(NamedTuple):
    """An event of a model or feed; a replay of the log creates the same event again.

    Parameters
    ----------
    type : of the event
    stored : what the model or feed is stored under; empty for events of the service
    key : distinguishes it from other events of its type and model or feed
    at : Unix time of the event, which the message contains
    data_for : returns the data for a webhook; None if it is sent nothing
    """

    type: str
    stored: str
    key: str
    at: float
    data_for: Callable[[WebhookSpec], Document | None]


class Address(NamedTuple):
    """The name of a message's document in the store, split into its parts; the first part is the model or feed.

    The part ``made`` is the time at which the message was created, in milliseconds.
    """

    stored: str
    webhook: str
    holder: str
    type: str
    made: str
    id: str

    @property
    def age(self) -> tuple[str, str]:
        """Return the sort key that puts the oldest message first."""
        return self.made, self.id

    @classmethod
    def of(cls, at: DocumentName) -> Self:
        """Split the name of a document into its parts."""
        return cls(*at.name.split(" "))

    @property
    def waiting(self) -> DocumentName:
        """Return the name of the message's document while the message waits."""
        return DocumentName(WEBHOOK_WAITING, " ".join(self))

    @property
    def dead(self) -> DocumentName:
        """Return the name of the message's document if the message is a dead letter."""
        return DocumentName(WEBHOOK_DEAD, " ".join(self))


@dataclass(frozen=True)
class Message:
    """One message to the receiver of one webhook.

    ``since`` is the Unix time of the beginning of its delivery. A dead letter also has the number of ``attempts``, the
    ``reason`` why the last attempt failed, and the time at which the message was given up.
    """

    body: str
    since: float
    attempts: int = 0
    reason: str | None = None
    dead_at: float | None = None

    def encode(self) -> bytes:
        """Encode the message as bytes for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the bytes of a stored message; raises StoreDamaged."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"a message of a webhook cannot be read: {error}") from error


def message_for(webhook: Webhook, happened: Happened, holder: str) -> tuple[Address, Message] | None:
    """Return the message about an event for a webhook, or None; messages about the same event have the same id."""
    data = happened.data_for(webhook.spec)
    if data is None:
        return None
    now, known_by = time.time(), f"{webhook.id} {happened.type} {happened.stored} {happened.key}"
    id_, made = f"msg_{hashlib.sha256(known_by.encode()).hexdigest()[:32]}", f"{int(now * 1000):013d}"
    when = datetime.fromtimestamp(happened.at, UTC).isoformat()
    body = to_json({"type": happened.type, "timestamp": when, "data": data}, inf_nan_mode="null").decode()
    return Address(happened.stored, webhook.id, holder, happened.type, made, id_), Message(body, now)


def headers_of(secret: str, id: str, body: str, at: float) -> dict[str, str]:
    """Return the headers of an attempt, with the signature that the Standard Webhooks specification defines."""
    timestamp = str(int(at))
    signed = hmac.digest(key_in(secret), f"{id}.{timestamp}.{body}".encode(), "sha256")
    return {
        "content-type": "application/json",
        "user-agent": "LiveSVM",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }
