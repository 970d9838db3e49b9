"""Calls of webhooks, as requests with functions that read their answers; shared by both clients."""

from __future__ import annotations

from collections.abc import Sequence

from livesvm.service.client.requests import Document, Request, delete, get, given, listed, post


def create_webhook(
    url: str,
    events: Sequence[str],
    *,
    models: Sequence[str] | None = None,
    feeds: Sequence[str] | None = None,
    above: float | None = None,
    below: float | None = None,
    secret: str | None = None,
) -> Request[Document]:
    """Create a webhook, which sends events to a URL; the answer has its ``secret``, which is not shown again.

    Parameters
    ----------
    events : "forecast.outside", "drift", "store.fenced" or "job.finished", one or more
    models, feeds : only these; all of both where neither is given
    above, below : limits of "forecast.outside"
    secret : ``whsec_`` and 24 to 64 bytes in base64; a random one by default
    """
    some = given(models=models, feeds=feeds, above=above, below=below, secret=secret)
    return post("/webhooks", {"url": url, "events": list(events), **some})


def webhooks() -> Request[list[Document]]:
    """List every webhook, with how many messages wait and how many are dead letters."""
    return listed("/webhooks", "webhooks")


def webhook(id: str) -> Request[Document]:
    """Describe one webhook: how many messages wait, how many are dead letters, and the last attempt."""
    return get(f"/webhooks/{id}")


def delete_webhook(id: str) -> Request[None]:
    """Delete a webhook, its waiting messages and its dead letters."""
    return delete(f"/webhooks/{id}")


def ping_webhook(id: str) -> Request[Document]:
    """Send a test message.

    The answer has the ``id`` of the message.
    """
    return post(f"/webhooks/{id}/ping")


def dead_letters(id: str, limit: int = 100) -> Request[list[Document]]:
    """Return messages that were given up, newest first, with the reason."""
    return listed(f"/webhooks/{id}/dead-letters", "dead_letters", limit=limit)


def resend(id: str, message: str | None = None) -> Request[Document]:
    """Send one dead letter or all again; ``resent`` is their number."""
    return post(f"/webhooks/{id}/resend", is_repeatable=True, message=message)
