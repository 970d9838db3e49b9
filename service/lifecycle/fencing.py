"""Events for webhooks when models or feeds can no longer be written."""

from __future__ import annotations

import secrets
import time
from collections import Counter

from livesvm.service.history.journal import Source
from livesvm.service.hosting.collection import Hosting
from livesvm.service.webhooks.messages import Happened
from livesvm.service.webhooks.outbox import Outbox


class Fencing:
    """A watch for models and feeds that another service has taken over, or of which the store has lost records."""

    def __init__(self, source: Source, hosting: Hosting, outbox: Outbox) -> None:
        self._source, self._hosting, self._outbox = source, hosting, outbox
        self._before = 0

    def announce(self) -> None:
        """Announce an event if more models or feeds cannot be written than at the last call; raises StoreError."""
        states = Counter(self._hosting.models.states()) + Counter(self._hosting.feeds.states())
        data = {"fenced": states["fenced"], "behind": states["behind"]}
        if (now := sum(data.values())) > self._before:
            event = Happened("store.fenced", "", secrets.token_hex(8), time.time(), lambda spec: data)
            self._outbox.keep(self._source, self._outbox.messages([event]))
        self._before = now
