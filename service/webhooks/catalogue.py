"""The registered webhooks, which the store keeps as documents, and their dead letters."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

from livesvm.service.errors import TooManyWebhooks, UnknownWebhook
from livesvm.service.history.journal import Source
from livesvm.service.logs.calls import changed
from livesvm.service.settings import Settings
from livesvm.service.store.base import WEBHOOK_DEAD, WEBHOOK_WAITING, DocumentName, StoreDamaged
from livesvm.service.webhooks.messages import Address, Happened, Message, message_for
from livesvm.service.webhooks.outbox import Outbox
from livesvm.service.webhooks.spec import Webhook, WebhookSpec, key_in, new_secret

KIND = "webhook"
MOST = 32
"""Most webhooks of a service; each has a thread."""
PING = "ping"

Document = dict[str, Any]
log = logging.getLogger(__name__)


class Webhooks:
    """All webhooks of one service. Methods wait for the store.

    Parameters
    ----------
    outbox : of this process
    """

    def __init__(self, source: Source, settings: Settings, outbox: Outbox) -> None:
        self._source, self._settings, self._outbox = source, settings, outbox
        self._known: dict[str, Webhook] = {}
        self._damaged: set[str] = set()
        self._has_learnt = False
        self._lock = threading.Lock()

    def learn(self) -> None:
        """Read all webhooks from the store; raises StoreError."""
        with self._lock:
            self._learn()

    def _learn(self) -> None:
        store = self._source.store
        with self._source.health.store_call("load"):
            names = [at.name for at in store.documents(KIND)]
            found = {name: self._known.get(name) or self._read(name) for name in names}
        known = {name: one for name, one in found.items() if one is not None}
        if known.keys() != self._known.keys() or not self._has_learnt:
            self._known, self._has_learnt = known, True
            self._outbox.webhooks = tuple(known.values())

    def _read(self, id: str) -> Webhook | None:
        try:
            data = self._source.store.document(DocumentName(KIND, id))
            return None if data is None else Webhook.decode(id, data)
        except StoreDamaged as error:
            if id not in self._damaged:
                log.error("webhook %s is sent nothing: %s", id, error)
            self._damaged.add(id)
            return None

    def all(self) -> list[Webhook]:
        """Return all webhooks in the order of their creation."""
        return sorted(self._known.values(), key=lambda one: one.created_at)

    def get(self, id: str) -> Webhook:
        """Return the webhook with this id; raises UnknownWebhook."""
        found = self._known.get(id)
        if found is None:
            raise UnknownWebhook(f"there is no webhook {id[:64]!r}")
        return found

    def create(self, spec: WebhookSpec, secret: str | None) -> Webhook:
        """Create and store a webhook; if no secret is given, it gets a random one.

        Raises InvalidInput, TooManyWebhooks or StoreError.
        """
        spec.check(self._settings)
        key_in(secret := secret or new_secret())
        made = Webhook(f"w-{secrets.token_hex(6)}", spec, time.time(), secret)
        with self._lock:
            self._learn()
            if len(self._known) >= MOST:
                raise TooManyWebhooks(f"there are {MOST} webhooks, the limit")
            with self._source.health.store_call("document"):
                self._source.store.put_document(DocumentName(KIND, made.id), made.encode())
            self._learn()
        self._outbox.rang.set()
        changed("webhook-created", f"webhook {made.id}", host=spec.host, events=list(spec.events))
        return made

    def delete(self, id: str) -> None:
        """Delete a webhook, its waiting messages and its dead letters; raises UnknownWebhook or StoreError."""
        with self._lock:
            webhook, store = self.get(id), self._source.store
            with self._source.health.store_call("document"):
                store.delete_document(DocumentName(KIND, id))
            self._learn()
            with self._source.health.store_call("document"):
                for kind in (WEBHOOK_WAITING, WEBHOOK_DEAD):
                    for address in self.addresses(kind, id):
                        store.delete_document(DocumentName(kind, " ".join(address)))
        self._outbox.rang.set()
        changed("webhook-deleted", f"webhook {id}", host=webhook.spec.host)

    def addresses(self, kind: str, id: str | None = None) -> list[Address]:
        """Return the addresses of messages of a kind, oldest first, of one webhook or of all; raises StoreError."""
        found = map(Address.of, self._source.store.documents(kind))
        return sorted((one for one in found if id in (None, one.webhook)), key=lambda one: one.age)

    def ping(self, id: str) -> str:
        """Store a test message to deliver, and return its id; raises UnknownWebhook or StoreError."""
        webhook = self.get(id)
        event = Happened(PING, "", secrets.token_hex(8), time.time(), lambda spec: {"webhook": id})
        made = message_for(webhook, event, self._outbox.holder)
        assert made is not None
        self._outbox.keep(self._source, [made])
        changed("webhook-ping", f"webhook {id}")
        return made[0].id

    def dead_letters(self, id: str, most: int) -> Iterator[Document]:
        """Yield up to ``most`` dead letters of a webhook, newest first; raises UnknownWebhook or StoreError."""
        self.get(id)
        for address in self.addresses(WEBHOOK_DEAD, id)[::-1][:most]:
            data = self._source.store.document(address.dead)
            if data is not None:
                letter = Message.decode(data)
                numbers = {"attempts": letter.attempts, "reason": letter.reason, "dead_at": letter.dead_at}
                yield {"id": address.id, "type": address.type, **numbers, "message": json.loads(letter.body)}

    def resend(self, id: str, message: str | None) -> int:
        """Queue one dead letter or all for delivery, and return their number; raises UnknownWebhook or StoreError."""
        self.get(id)
        count, store = 0, self._source.store
        with self._source.health.store_call("document"):
            for address in self.addresses(WEBHOOK_DEAD, id):
                if message not in (None, address.id) or (data := store.document(address.dead)) is None:
                    continue
                # Stored before it is deleted: a crash in between sends a message twice, and loses none.
                again = address._replace(holder=self._outbox.holder)
                store.put_document(again.waiting, Message(Message.decode(data).body, time.time()).encode())
                if store.delete_document(address.dead):
                    count += 1
                else:  # it was erased meanwhile
                    store.delete_document(again.waiting)
        self._outbox.rang.set()
        changed("webhook-resent", f"webhook {id}", messages=count)
        return count
