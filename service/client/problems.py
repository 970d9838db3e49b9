"""Refusals by the service, or by a proxy in front of it, as errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
_QUOTED = 200
"""Most characters of a proxy's page that an error repeats."""


class ServiceProblem(Exception):
    """A refusal by the service: ``status``, ``type``, and the whole problem document in ``document``.

    ``request`` is the id of the request in the service's log, if the answer had one.
    """

    def __init__(self, status: int, document: dict[str, Any], request: str | None = None) -> None:
        self.status = status
        self.document = document
        self.request = request
        self.type = str(document.get("type", "about:blank"))
        super().__init__(f"{status} {document.get('title', '')}: {document.get('detail', '')}")


def answered(read: Callable[[httpx.Response], T], response: httpx.Response) -> T:
    """Return what ``read`` makes of a successful answer; raises ServiceProblem for any other, and for a proxy's.

    Proxies answer with pages, which may have any status.
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
    """Return a description of an answer that did not come from the service, with the beginning of its text."""
    where = f", sending to {response.headers['location']}" if "location" in response.headers else ""
    text = " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", response.text, flags=re.S | re.I).split())
    said = f": {text[:_QUOTED]}" if text else ""
    return f"{response.url} did not answer as the service does, but a proxy, say{where}{said}"


def ended(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job that has ended; raises ServiceProblem if it has failed."""
    if job["state"] == "failed":
        raise ServiceProblem(int(job["error"]["status"]), job["error"])
    return job
