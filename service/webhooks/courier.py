"""What brings one webhook its messages: a thread of its own, so that a receiver delays no other."""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from livesvm.service import crash
from livesvm.service.access.hosts import parse_hosts
from livesvm.service.history.journal import Source
from livesvm.service.logs.calls import tell
from livesvm.service.settings import Settings
from livesvm.service.store.base import WEBHOOK_DEAD, DocumentName, StoreDamaged, StoreError
from livesvm.service.webhooks.messages import Address, Message, headers_of
from livesvm.service.webhooks.spec import Webhook, check_host
from livesvm.solvers.errors import InvalidInput

ANSWER_SECONDS = 15.0
"""For one attempt, from the name's address to the status of the answer."""
FIRST_SECONDS, MOST_SECONDS = 2.0, 3600.0
"""Between two attempts, at first and at most; doubled each time, and up to a half less by chance."""
STORE_SECONDS = 1.0
"""Until a store that is away is asked again."""
MOST_WAITING = 1000
"""Messages that wait for one webhook; the newest of more are dead letters at once."""
MOST_DEAD = 1000
"""Dead letters of one webhook; the oldest of more are dropped."""
GONE = 410
"""Status by which a receiver says that it wants nothing more."""

log = logging.getLogger("livesvm.webhooks")


class Outcome(NamedTuple):
    """What came of an attempt: when, the status if there was an answer, and why it was no delivery."""

    at: float
    status: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Due:
    """A message that waits: tries behind it, and when the next one is due, by the monotonic clock."""

    attempts: int = 0
    at: float = 0.0


class Courier:
    """Sends what waits for one webhook until it is stopped."""

    def __init__(self, webhook: Webhook, source: Source, settings: Settings) -> None:
        self.webhook, self._source, self._settings = webhook, source, settings
        self._waiting: dict[Address, Due] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self.last: Outcome | None = None
        threading.Thread(target=self._run, name=f"webhook-{webhook.id}", daemon=True).start()

    def offer(self, addresses: Collection[Address]) -> None:
        """Know all that waits now."""
        with self._changed:
            self._waiting = {address: self._waiting.get(address, Due()) for address in addresses}
            self._changed.notify()

    def stop(self) -> None:
        """Begin nothing more; returns at once. What is under way is not waited for, and is sent again."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            try:
                self._deliver(*found)
            except StoreDamaged as error:
                log.error("a message of webhook %s is dropped: %s", self.webhook.id, error)
                self._drop(found[0].waiting)
            except StoreError:
                time.sleep(STORE_SECONDS)  # health knows
            except Exception:
                if not self._is_over:
                    log.exception("webhook %s: a delivery failed in an unforeseen way", self.webhook.id)
                self._put_off(*found)

    def _next(self) -> tuple[Address, Due] | None:
        """Wait for the message that is due first; None once it is over."""
        with self._changed:
            while not self._is_over:
                if len(self._waiting) > MOST_WAITING:
                    newest = max(self._waiting, key=lambda one: one.age)
                    return newest, self._waiting[newest]
                soonest = min(self._waiting, key=lambda one: (self._waiting[one].at, one.age), default=None)
                rest = None if soonest is None else self._waiting[soonest].at - time.monotonic()
                if soonest is not None and rest is not None and rest <= 0:
                    return soonest, self._waiting[soonest]
                self._changed.wait(rest)
            return None

    def _deliver(self, address: Address, due: Due) -> None:
        store = self._source.store
        if (data := store.document(address.waiting)) is None:
            self._forget(address)
            return
        message = replace(Message.decode(data), attempts=due.attempts + 1)
        if len(self._waiting) > MOST_WAITING:
            self._bury(address, replace(message, attempts=due.attempts, reason=f"{MOST_WAITING} messages wait already"))
            return
        outcome = self._tried(address, message)
        self.last = outcome
        count = self._source.metrics.webhook_deliveries
        facts = {"webhook": self.webhook.id, "message": address.id, "type": address.type, "attempt": message.attempts}
        facts |= {"status": outcome.status, "reason": outcome.reason}
        if outcome.reason is None:
            crash.point("before-delivered")
            count.labels("delivered").inc()
            tell(log, logging.INFO, "delivered", facts)
            store.delete_document(address.waiting)
            self._forget(address)
            return
        count.labels("failed").inc()
        tell(log, logging.WARNING, "not delivered", facts)
        delay = self._put_off(address, due)
        if outcome.status == GONE or time.time() + delay > message.since + self._settings.webhook_seconds:
            self._bury(address, replace(message, reason=outcome.reason))

    def _tried(self, address: Address, message: Message) -> Outcome:
        """Make one attempt, unless the host is not allowed any more."""
        from livesvm.service.webhooks import sending  # takes time to load, which a start without webhooks saves

        settings, webhook, now = self._settings, self.webhook, time.time()
        try:
            check_host(webhook.spec.host, parse_hosts(settings.webhook_hosts))
            status = sending.post(
                webhook.spec.url,
                headers_of(webhook.secret, address.id, message.body, now),
                message.body.encode(),
                may_be_private=settings.webhook_private,
                seconds=ANSWER_SECONDS,
            )
        except InvalidInput as error:
            return Outcome(now, reason=error.reason)
        except sending.UNDELIVERED as error:
            kind = "TLS: " if isinstance(error, ssl.SSLError) else ""
            return Outcome(now, reason=f"{kind}{error}" if str(error) else type(error).__name__)
        return Outcome(now, status, None if 200 <= status < 300 else f"it was answered {status}")

    def _put_off(self, address: Address, due: Due) -> float:
        """Have the next attempt wait; for how many seconds."""
        longest = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(due.attempts, 20))
        delay: float = longest * random.uniform(0.5, 1.0)
        with self._changed:
            if address in self._waiting:
                self._waiting[address] = Due(due.attempts + 1, time.monotonic() + delay)
        return delay

    def _bury(self, address: Address, message: Message) -> None:
        """Make a message a dead letter."""
        store, count = self._source.store, self._source.metrics.webhook_deliveries
        store.put_document(address.dead, replace(message, dead_at=time.time()).encode())
        if not store.delete_document(address.waiting):  # it was erased meanwhile
            store.delete_document(address.dead)
        self._forget(address)
        count.labels("dead").inc()
        facts = {"webhook": self.webhook.id, "message": address.id, "type": address.type, "reason": message.reason}
        tell(log, logging.WARNING, "dead letter", facts)
        mine = [one for one in map(Address.of, store.documents(WEBHOOK_DEAD)) if one.webhook == self.webhook.id]
        for oldest in sorted(mine, key=lambda one: one.age)[:-MOST_DEAD]:
            self._drop(oldest.dead)

    def _drop(self, at: DocumentName) -> None:
        self._source.store.delete_document(at)
        self._forget(Address.of(at))
        self._source.metrics.webhook_deliveries.labels("dropped").inc()

    def _forget(self, address: Address) -> None:
        with self._changed:
            self._waiting.pop(address, None)
