"""Refusals of the service, as errors."""

from __future__ import annotations

from typing import Any

import httpx


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


def checked(response: httpx.Response) -> httpx.Response:
    """Return a good answer; raises ServiceProblem for any other."""
    if response.is_success:
        return response
    try:
        document = response.json()
    except ValueError:
        document = None
    is_problem = isinstance(document, dict)  # what stands between may answer otherwise
    reported = document if is_problem else {"detail": response.text}
    raise ServiceProblem(response.status_code, reported, response.headers.get("x-request-id"))


def ended(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job that has ended; raises ServiceProblem if it has failed."""
    if job["state"] == "failed":
        raise ServiceProblem(int(job["error"]["status"]), job["error"])
    return job
