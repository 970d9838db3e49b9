"""Requests about webhooks, with the functions that parse their answers; both clients send these requests."""

from __future__ import annotations

from collections.abc import Sequence

from livesvm.service.client.requests import Call, Document, Documents, Request, delete, get, given, listed, post


class WebhookCalls:
    """The calls about webhooks."""

    @Call
    def create_webhook(
        self,
        url: str,
        events: Sequence[str],
        *,
        models: Sequence[str] | None = None,
        feeds: Sequence[str] | None = None,
        above: float | None = None,
        below: float | None = None,
        secret: str | None = None,
    ) -> Request[Document]:
        """Create a webhook, which sends events to a URL; only this answer contains the ``secret`` of the webhook.

        Parameters
        ----------
        events : "forecast.outside", "drift", "store.fenced" or "job.finished", one or more
        models, feeds : only these; all of both where neither is given
        above, below : limits of "forecast.outside"
        secret : ``whsec_`` and 24 to 64 bytes in base64; a random one by default
        """
        some = given(models=models, feeds=feeds, above=above, below=below, secret=secret)
        return post("/webhooks", {"url": url, "events": list(events), **some})

    @Call
    def webhooks(self) -> Request[Documents]:
        """List all webhooks, with the numbers of their waiting messages and dead letters."""
        return listed("/webhooks", "webhooks")

    @Call
    def webhook(self, id: str) -> Request[Document]:
        """Describe one webhook, with the numbers of its waiting messages and dead letters, and its last attempt."""
        return get(f"/webhooks/{id}")

    @Call
    def delete_webhook(self, id: str) -> Request[None]:
        """Delete a webhook, its waiting messages and its dead letters."""
        return delete(f"/webhooks/{id}")

    @Call
    def ping_webhook(self, id: str) -> Request[Document]:
        """Send a test message to a webhook.

        The answer contains the ``id`` of the message.
        """
        return post(f"/webhooks/{id}/ping")

    @Call
    def dead_letters(self, id: str, limit: int = 100) -> Request[Documents]:
        """List the messages that could not be delivered to a webhook, newest first, with the reasons."""
        return listed(f"/webhooks/{id}/dead-letters", "dead_letters", limit=limit)

    @Call
    def resend(self, id: str, message: str | None = None) -> Request[Document]:
        """Try again to deliver one dead letter of a webhook, or all; the answer counts them in ``resent``."""
        return post(f"/webhooks/{id}/resend", is_repeatable=True, message=message)
