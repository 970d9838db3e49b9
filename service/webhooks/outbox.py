"""The outbox of webhooks: messages about the events of a call are stored before the call is answered, and sent later.

If the process dies before a message is stored, the next start repeats the call from the log, and stores the message
then. So messages about all events of an acknowledged call are sent at least once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from livesvm.service.history.journal import Source
from livesvm.service.history.names import id_of, is_feed
from livesvm.service.store.base import WEBHOOK_DEAD, WEBHOOK_WAITING
from livesvm.service.webhooks.messages import Address, Happened, Message, message_for
from livesvm.service.webhooks.spec import FORECAST, Webhook

Messages = Sequence[tuple[Address, Message]]


class Outbox:
    """The webhooks that this process knows, and the code that creates and stores their messages.

    Parameters
    ----------
    holder : name of the service that is to send the messages
    """

    def __init__(self, holder: str = "-") -> None:
        self.holder = holder
        self.webhooks: tuple[Webhook, ...] = ()  #: replaced, never changed
        self.rang = threading.Event()  #: something is new

    def wants(self, type: str, stored: str) -> list[Webhook]:
        """Return the webhooks that want events of a type about the model or feed with this name in the store."""
        model, feed = (None, id_of(stored)) if is_feed(stored) else (stored or None, None)
        return [one for one in self.webhooks if type in one.spec.events and one.spec.concerns(model, feed)]

    def messages(self, happened: Iterable[Happened]) -> Messages:
        """Create the messages about events for all webhooks that want these events."""
        pairs = ((webhook, event) for event in happened for webhook in self.wants(event.type, event.stored))
        found = (message_for(webhook, event, self.holder) for webhook, event in pairs)
        return [one for one in found if one is not None]

    def keep(self, source: Source, messages: Messages) -> None:
        """Store messages to be sent later; storing the same messages twice has one effect. Raises StoreError."""
        with source.health.store_call("document"):
            for address, message in messages:
                source.store.put_document(address.waiting, message.encode())
        self.rang.set()


def forget_forecasts(source: Source, stored: str) -> None:
    """Delete the messages and dead letters that contain forecasts of a feed; raises StoreError."""
    with source.health.store_call("document"):
        for kind in (WEBHOOK_WAITING, WEBHOOK_DEAD):  # in the order in which a message moves
            for at in source.store.documents(kind):
                address = Address.of(at)
                if address.stored == stored and address.type == FORECAST:
                    source.store.delete_document(at)
