"""Refusals of the service, and of what stands between, as errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
_QUOTED = 200
"""Characters of a page that an error repeats."""


class ServiceProblem(Exception):
    """The service refused: ``status``, ``type``, and the whole problem document in ``document``.

    ``request`` is by which the service's log tells of it, where an answer said so.
    """

    def __init__(self, status: int, document: dict[str, Any], request: str | None = None) -> None:
        self.status = status
        self.document = document
        self.request = request
        self.type = str(document.get("type", "about:blank"))
        super().__init__(f"{status} {document.get('title', '')}: {document.get('detail', '')}")


def answered(read: Callable[[httpx.Response], T], response: httpx.Response) -> T:
    """Return what a call reads of a good answer; raises ServiceProblem for any other, and for one not of the service.

    Proxies answer with pages, and a page of theirs may have any status.
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
    """Return what an answer says that is none of the service."""
    where = f", sending to {response.headers['location']}" if "location" in response.headers else ""
    text = " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", response.text, flags=re.S | re.I).split())
    said = f": {text[:_QUOTED]}" if text else ""
    return f"{response.url} did not answer as the service does, but a proxy, say{where}{said}"


def ended(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job that has ended; raises ServiceProblem if it has failed."""
    if job["state"] == "failed":
        raise ServiceProblem(int(job["error"]["status"]), job["error"])
    return job
