"""Calls of webhooks: their requests, and the values that their answers become; shared by both clients."""

from __future__ import annotations

from collections.abc import Sequence

from livesvm.service.client.feeds import document, json_content
from livesvm.service.client.requests import Document, Request


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
    """Have events sent to a URL: the webhook, with the ``secret`` that signs, which is not shown again.

    Parameters
    ----------
    events : "forecast.outside", "drift", "store.fenced" or "job.finished", one or more
    models, feeds : only these; all of both where neither is given
    above, below : limits of "forecast.outside"
    secret : ``whsec_`` and 24 to 64 bytes in base64; made up where none is given
    """
    given: Document = {"url": url, "events": list(events), "models": models, "feeds": feeds}
    given |= {"above": above, "below": below, "secret": secret}
    body = {name: value for name, value in given.items() if value is not None}
    return Request("POST", "/webhooks", document, False, *json_content(body))


def webhooks() -> Request[list[Document]]:
    """Describe every webhook."""
    return Request("GET", "/webhooks", lambda answer: list(answer.json()["webhooks"]), is_repeatable=True)


def webhook(id: str) -> Request[Document]:
    """Describe one webhook: how many messages wait, how many are dead letters, and the last attempt."""
    return Request("GET", f"/webhooks/{id}", document, True)


def delete_webhook(id: str) -> Request[None]:
    """Delete a webhook, what waits for it and its dead letters."""
    return Request("DELETE", f"/webhooks/{id}", lambda answer: None, is_repeatable=False)


def ping_webhook(id: str) -> Request[Document]:
    """Send a test; ``id`` is that of its message."""
    return Request("POST", f"/webhooks/{id}/ping", document, False)


def dead_letters(id: str, limit: int = 100) -> Request[list[Document]]:
    """Return messages that were given up, newest first, with the reason."""
    path = f"/webhooks/{id}/dead-letters"
    return Request("GET", path, lambda answer: list(answer.json()["dead_letters"]), True, params={"limit": limit})


def resend(id: str, message: str | None = None) -> Request[Document]:
    """Try dead letters again, one or all: how many were ``resent``."""
    params = {} if message is None else {"message": message}
    return Request("POST", f"/webhooks/{id}/resend", document, True, params=params)
