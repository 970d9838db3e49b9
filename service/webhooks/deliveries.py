"""Delivery of messages: those that wait are found in the store, and passed to the couriers of their webhooks."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from livesvm.service.history.journal import Source
from livesvm.service.settings import Settings
from livesvm.service.store.base import WEBHOOK_DEAD, WEBHOOK_WAITING, StoreError
from livesvm.service.webhooks.catalogue import Webhooks
from livesvm.service.webhooks.courier import Courier, Outcome
from livesvm.service.webhooks.messages import Address
from livesvm.service.webhooks.outbox import Outbox

LOOK_SECONDS = 1.0
"""Interval of searches where other processes may put messages into the outbox."""
GATHER_SECONDS = 0.05
"""Shortest interval of searches: messages that come meanwhile are found together."""
ASIDE = 10
"""The pause after a search is this many times its duration, as very many messages may wait."""

log = logging.getLogger(__name__)


class Deliveries:
    """Sender of the waiting messages of this service, and of other services that no longer respond.

    Parameters
    ----------
    before : called before each search if there is a webhook; may put messages into the outbox
    """

    def __init__(
        self,
        source: Source,
        settings: Settings,
        webhooks: Webhooks,
        outbox: Outbox,
        before: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._source, self._settings, self._webhooks = source, settings, webhooks
        self._outbox, self._before = outbox, before
        self._couriers: dict[str, Courier] = {}
        self._messages: dict[str, Counter[str]] = {"waiting": Counter(), "dead": Counter()}
        self._oldest: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def begin(self) -> None:
        """Begin to send waiting messages."""
        self._outbox.rang.set()
        self._thread.start()

    def stop(self) -> None:
        """Stop sending messages; messages that are being sent now are sent again at the next start."""
        self._over.set()
        self._outbox.rang.set()
        for courier in list(self._couriers.values()):
            courier.stop()
        if self._thread.is_alive():
            self._thread.join()

    def counts(self) -> dict[str, int]:
        """Return the numbers of waiting messages and of dead letters when the store was last searched."""
        return {state: found.total() for state, found in self._messages.items()}

    def oldest_seconds(self) -> float:
        """Return for how many seconds the oldest message of this service has waited; 0 if no message waits."""
        return 0.0 if self._oldest is None else max(0.0, time.time() - self._oldest)

    def of(self, id: str) -> dict[str, int]:
        """Return the numbers of waiting messages and of dead letters of one webhook."""
        return {state: found[id] for state, found in self._messages.items()}

    def last(self, id: str) -> Outcome | None:
        """Return the outcome of a webhook's last attempt; None if there was no attempt since the service started."""
        courier = self._couriers.get(id)
        return None if courier is None else courier.last

    def _run(self) -> None:
        while not self._over.is_set():
            others = self._source.store.shared and self._settings.webhook_hosts  # which may create a webhook
            looks = self._outbox.webhooks or others or self._couriers
            self._outbox.rang.wait(LOOK_SECONDS if looks else None)
            self._outbox.rang.clear()
            began = time.monotonic()
            try:
                if not self._over.is_set():
                    self._look()
            except StoreError:
                pass  # health knows
            except Exception:
                if not self._over.is_set():
                    log.exception("what waits for webhooks was not looked at; it is again")
            self._over.wait(min(LOOK_SECONDS, max(GATHER_SECONDS, ASIDE * (time.monotonic() - began))))

    def _look(self) -> None:
        """Pass waiting messages to the couriers of their webhooks, and delete messages of deleted webhooks."""
        # Messages are read before webhooks: the webhook of a new message is then known, unless it was deleted.
        store = self._source.store
        if self._outbox.webhooks or not store.shared:
            for call in self._before if self._outbox.webhooks else ():
                call()
            waiting, dead = (self._webhooks.addresses(kind) for kind in (WEBHOOK_WAITING, WEBHOOK_DEAD))
        else:
            waiting = dead = []
        if store.shared:
            self._webhooks.learn()
        known = {one.id: one for one in self._outbox.webhooks}
        for id_ in self._couriers.keys() - known.keys():
            self._couriers.pop(id_).stop()
        mine: dict[str, list[Address]] = {id_: [] for id_ in known}
        silent = {holder: store.is_silent(holder) for holder in {one.holder for one in waiting} - {self._outbox.holder}}
        for address in waiting:
            if address.webhook not in known:
                store.delete_document(address.waiting)
            elif silent.get(address.holder, True):
                mine[address.webhook].append(address)
        for id_, addresses in mine.items():
            if addresses or id_ in self._couriers:
                self._courier(id_).offer(addresses)
        self._oldest = min((int(one.made) / 1000 for found in mine.values() for one in found), default=None)
        for state, found in (("waiting", waiting), ("dead", dead)):
            self._messages[state] = Counter(address.webhook for address in found)

    def _courier(self, id: str) -> Courier:
        if id not in self._couriers:
            self._couriers[id] = Courier(self._webhooks.get(id), self._source, self._settings)
        return self._couriers[id]
