"""Errors that the clients raise if the service, or a proxy in front of it, refuses a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
_QUOTED = 200
"""Most characters of a proxy's page that an error repeats."""


class ServiceProblem(Exception):
    """A request was refused; the error has the ``status``, the ``type``, and the problem ``document`` of the answer.

    ``request`` is the id under which the service's log contains the request, or None if the answer has no such id.
    """

    def __init__(self, status: int, document: dict[str, Any], request: str | None = None) -> None:
        self.status = status
        self.document = document
        self.request = request
        self.type = str(document.get("type", "about:blank"))
        super().__init__(f"{status} {document.get('title', '')}: {document.get('detail', '')}")


def answered(read: Callable[[httpx.Response], T], response: httpx.Response) -> T:
    """Return the result of ``read`` for a successful answer of the service; raises ServiceProblem for other answers.

    Proxies also answer with web pages, which may have any status.
    """
    try:
        if response.is_success:
            return read(response)
        document = response.json()
    except (ValueError, KeyError, TypeError):
        document = None
    if response.is_success or not isinstance(document, dict):
        document = {"title": response.reason_phrase, "detail": _quoted(response)}
    raise ServiceProblem(response.status_code, document, response.headers.get("x-request-id"))


def _quoted(response: httpx.Response) -> str:
    """Return a description of an answer that a proxy has sent, with the beginning of the answer's text."""
    where = f", sending to {response.headers['location']}" if "location" in response.headers else ""
    text = " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", response.text, flags=re.S | re.I).split())
    said = f": {text[:_QUOTED]}" if text else ""
    return f"{response.url} did not answer as the service does, but a proxy, say{where}{said}"


def ended(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job that is done or cancelled; raises ServiceProblem for a job that has failed."""
    if job["state"] == "failed":
        raise ServiceProblem(int(job["error"]["status"]), job["error"])
    return job
