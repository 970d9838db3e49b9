"""Base class of both clients, with a method for each call, and the connection to the service."""

from __future__ import annotations

from typing import Any

import httpx

from livesvm.service.client.feeds import FeedCalls
from livesvm.service.client.fleets import FleetCalls
from livesvm.service.client.requests import ModelCalls
from livesvm.service.client.tls import Verify, trusted
from livesvm.service.client.webhooks import WebhookCalls


class ClientCalls(ModelCalls, FeedCalls, FleetCalls, WebhookCalls):
    """Base class of both clients, with a method for each call of the service."""

    _kind: type[httpx.Client | httpx.AsyncClient]

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float | httpx.Timeout = 30.0,
        patience: float = 10.0,
        verify: Verify = True,
    ) -> None:
        """Create a client of a service; the first call opens a connection.

        Parameters
        ----------
        url : of the service, with the path under which a proxy has it, if there is one
        api_key : sent as a bearer token when given
        timeout : seconds that one try may take, or httpx's limits
        patience : seconds during which a call is tried again if it was refused as too busy or got no answer; every
            update carries an Idempotency-Key, so that it has one effect
        verify : the certificate authorities that are trusted: a file in PEM, a directory as of ``openssl rehash``, or
            an ``ssl.SSLContext``, which may have a certificate of the client too; True: those of SSL_CERT_FILE and
            SSL_CERT_DIR, or else the public ones; False: any certificate is taken for the service's
        """
        headers = {"authorization": f"Bearer {api_key}"} if api_key is not None else {}
        context = trusted(httpx.URL(url), verify)
        self._http: Any = self._kind(base_url=url, headers=headers, timeout=timeout, trust_env=False, verify=context)
        self._patience = patience
