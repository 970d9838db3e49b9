"""The courier of a webhook: a thread that sends this webhook's messages only; a slow receiver delays no other webhook.

The courier tries to deliver the oldest message until it is delivered or becomes a dead letter; later messages wait.
While a receiver does not answer, the number of attempts to reach it depends on the time, and not on the number of
waiting messages.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from livesvm.service import crash
from livesvm.service.access.hosts import parse_hosts
from livesvm.service.history.journal import Source
from livesvm.service.logs.calls import tell
from livesvm.service.settings import Settings
from livesvm.service.store.base import WEBHOOK_DEAD, DocumentName, StoreDamaged, StoreError
from livesvm.service.webhooks.messages import Address, Message, headers_of
from livesvm.service.webhooks.spec import Webhook, check_host
from livesvm.solvers.errors import InvalidInput

if TYPE_CHECKING:
    from livesvm.service.webhooks.sending import Connection

ANSWER_SECONDS = 15.0
"""Time limit of each step of an attempt: to connect, and to send or to read a piece."""
FIRST_SECONDS, MOST_SECONDS = 2.0, 600.0
"""Delay after the first failure, and the longest; it doubles with each failure, less up to half of it at random."""
LONGEST_SECONDS = 3600.0
"""Longest delay that a receiver may ask for by Retry-After."""
APART_SECONDS = 0.02
"""Pause between two messages, so that a long queue is not sent all at once."""
KEPT_SECONDS = 4.0
"""How long an idle connection is kept; common servers close theirs after five seconds."""
STORE_SECONDS = 1.0
"""Delay before a store that is away is asked again."""
MOST_WAITING = 1000
"""Most messages that wait for one webhook; the newest of more become dead letters at once."""
MOST_DEAD = 1000
"""Most dead letters of one webhook; the oldest of more are dropped."""
GONE = 410
"""Status by which a receiver says that it does not want a message."""

log = logging.getLogger("livesvm.webhooks")


class Outcome(NamedTuple):
    """Result of an attempt to deliver a message: time, status of the receiver's answer, and reason of a failure."""

    at: float
    status: int | None = None
    reason: str | None = None


class Courier:
    """Sender of the waiting messages of one webhook, oldest first, which runs until it is stopped."""

    def __init__(self, webhook: Webhook, source: Source, settings: Settings) -> None:
        self.webhook, self._source, self._settings = webhook, source, settings
        self._waiting: dict[Address, int] = {}  # oldest first, and how often it was tried
        self._delivered: set[Address] = set()  # which the store does not know yet
        self._changed = threading.Condition()
        self._connection: Connection | None = None
        self._is_over = False
        self._failures, self._failing_since, self._due_at = 0, 0.0, 0.0
        self.last: Outcome | None = None
        threading.Thread(target=self._run, name=f"webhook-{webhook.id}", daemon=True).start()

    def offer(self, addresses: Collection[Address]) -> None:
        """Replace the courier's queue by the messages that wait now."""
        with self._changed:
            ordered = sorted(addresses, key=lambda one: one.age)
            self._waiting = {address: self._waiting.get(address, 0) for address in ordered}
            self._delivered &= self._waiting.keys()
            self._changed.notify()

    def stop(self) -> None:
        """Begin no more attempts, and return without waiting; a message that is being sent now is sent again later."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _run(self) -> None:
        while (step := self._next()) is not None:
            try:
                step()
            except StoreError:
                time.sleep(STORE_SECONDS)  # health knows
            except Exception:
                if not self._is_over:
                    log.exception("webhook %s: a delivery failed in an unforeseen way", self.webhook.id)
                self._put_off(STORE_SECONDS)
                time.sleep(STORE_SECONDS)
        self._hang_up()

    def _next(self) -> Callable[[], None] | None:
        """Wait until the next step is due, and return the function that does it, or None if the courier is stopped."""
        with self._changed:
            while not self._is_over:
                rest = self._due_at - time.monotonic()
                if len(self._waiting) > MOST_WAITING:
                    return self._bury_newest
                if self._waiting and rest <= 0:
                    return self._deliver_oldest
                longest = None if self._connection is None else KEPT_SECONDS
                if not self._changed.wait(rest if self._waiting else longest) and not self._waiting:
                    self._hang_up()
            return None

    def _deliver_oldest(self) -> None:
        with self._changed:
            address = next(iter(self._waiting), None)
        if address is None:
            return
        if address not in self._delivered:
            if (message := self._read(address)) is None or not self._try(address, message):
                return
            self._delivered.add(address)
        self._source.store.delete_document(address.waiting)
        self._forget(address)

    def _read(self, address: Address) -> Message | None:
        """Read a waiting message from the store; None if it is deleted or damaged; a damaged message is dropped."""
        try:
            if (data := self._source.store.document(address.waiting)) is not None:
                return Message.decode(data)
        except StoreDamaged as error:
            log.error("a message of webhook %s is dropped: %s", self.webhook.id, error)
            self._drop(address.waiting)
        self._forget(address)
        return None

    def _try(self, address: Address, message: Message) -> bool:
        """Try to deliver a message, and return whether it was delivered.

        A failure delays all messages of the webhook, unless the receiver answers with status 410.
        """
        with self._changed:
            self._waiting[address] = attempt = self._waiting.get(address, 0) + 1
        self.last, patience = self._sent(address, message)
        status, reason = self.last.status, self.last.reason
        facts = {"webhook": self.webhook.id, "message": address.id, "type": address.type, "attempt": attempt}
        facts |= {"status": status, "reason": reason}
        count, now = self._source.metrics.webhook_deliveries, time.monotonic()
        if reason is None:
            crash.point("before-delivered")
            count.labels("delivered").inc()
            again = {"failures": self._failures, "seconds": round(now - self._failing_since, 1)}
            tell(log, logging.INFO, "delivered", facts | (again if self._failures else {}))
            self._failures, self._due_at = 0, now + APART_SECONDS
            return True
        count.labels("failed").inc()
        if status == GONE:
            self._due_at = now + APART_SECONDS
            self._bury([address], reason)
            return False
        delay = self._put_off(patience)
        facts |= {"failures": self._failures, "waiting": len(self._waiting)}
        tell(log, logging.WARNING, "not delivered", facts, f"{self.webhook.id} fails")
        self._bury(self._given_up(delay), reason)
        return False

    def _sent(self, address: Address, message: Message) -> tuple[Outcome, float]:
        """Send a message if its host is still allowed; return the outcome, and the delay that the receiver asks for."""
        from livesvm.service.webhooks import sending  # takes time to load, which a start without webhooks saves

        settings, webhook, now = self._settings, self.webhook, time.time()
        try:
            check_host(webhook.spec.host, parse_hosts(settings.webhook_hosts))
            if self._connection is None:
                allowed = settings.webhook_private
                self._connection = sending.Connection(webhook.spec.url, KEPT_SECONDS, may_be_private=allowed)
            headers = headers_of(webhook.secret, address.id, message.body, now)
            status, patience = self._connection.post(headers, message.body.encode(), ANSWER_SECONDS)
        except InvalidInput as error:
            return Outcome(now, reason=error.reason), 0.0
        except sending.UNDELIVERED as error:
            kind = "TLS: " if isinstance(error, ssl.SSLError) else ""
            return Outcome(now, reason=f"{kind}{error}" if str(error) else type(error).__name__), 0.0
        return Outcome(now, status, None if 200 <= status < 300 else f"it was answered {status}"), patience

    def _put_off(self, patience: float) -> float:
        """Delay the next attempt, longer after each failure, or as ``patience`` asks; return the delay in seconds."""
        longest = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 20))
        delay: float = max(longest * random.uniform(0.5, 1.0), min(patience, LONGEST_SECONDS))
        now = time.monotonic()
        if not self._failures:
            self._failing_since = now
        self._failures, self._due_at = self._failures + 1, now + delay
        self._hang_up()
        return delay

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _given_up(self, delay: float) -> list[Address]:
        """Return the messages to give up: the expired ones, and the oldest if it expires before its next attempt."""
        with self._changed:
            waiting = list(self._waiting)
        now, found = time.time(), []
        for address in waiting:
            until = now + (delay if address == waiting[0] else 0.0) - self._settings.webhook_seconds
            if int(address.made) / 1000 > until:  # ``since`` is never earlier, and the rest was made later
                break
            if (message := self._read(address)) is not None and message.since < until:
                found.append(address)
        return found

    def _bury_newest(self) -> None:
        """Turn the newest messages into dead letters if more than ``MOST_WAITING`` messages wait."""
        with self._changed:
            newest = list(self._waiting)[MOST_WAITING:]
        self._bury(newest, f"{MOST_WAITING} messages wait already")

    def _bury(self, addresses: Iterable[Address], reason: str) -> None:
        """Turn messages into dead letters, and store these."""
        store, number = self._source.store, 0
        for address in addresses:
            if (message := self._read(address)) is None:
                continue
            letter = replace(message, attempts=self._waiting.get(address, 0), reason=reason, dead_at=time.time())
            # Stored before the message is deleted: a crash in between leaves both, and loses none.
            store.put_document(address.dead, letter.encode())
            if not store.delete_document(address.waiting):  # it was erased meanwhile
                store.delete_document(address.dead)
            self._forget(address)
            self._source.metrics.webhook_deliveries.labels("dead").inc()
            number += 1
        if not number:
            return
        dead = {"webhook": self.webhook.id, "count": number, "reason": reason}
        tell(log, logging.WARNING, "dead letters", dead, f"{self.webhook.id} buries")
        mine = [one for one in map(Address.of, store.documents(WEBHOOK_DEAD)) if one.webhook == self.webhook.id]
        for oldest in sorted(mine, key=lambda one: one.age)[:-MOST_DEAD]:
            self._drop(oldest.dead)

    def _drop(self, at: DocumentName) -> None:
        self._source.store.delete_document(at)
        self._source.metrics.webhook_deliveries.labels("dropped").inc()

    def _forget(self, address: Address) -> None:
        with self._changed:
            self._waiting.pop(address, None)
            self._delivered.discard(address)
