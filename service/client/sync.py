"""The blocking client of the service's REST API.

with Client("http://127.0.0.1:8000") as client:
    client.create_model("river", C=10.0, kernel={"name": "rbf", "gamma": 0.1}, window={"max_examples": 365})
    client.update("river", X, y)
    client.predict("river", X_new)["decision"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import sleep
from types import TracebackType
from typing import Any, Self

import httpx
from tenacity import Retrying

from livesvm.service.client.events import RETRY_SECONDS, STREAM_SECONDS, FeedEvents, event_in, is_over
from livesvm.service.client.problems import answered, ended
from livesvm.service.client.requests import Request, T, pieces
from livesvm.service.client.retries import policy
from livesvm.service.client.surface import ClientCalls
from livesvm.service.client.tls import explained, fault_of


class Client(ClientCalls):
    """Blocking client of one service; threads may share a client."""

    _kind = httpx.Client
    _http: httpx.Client

    def progress(self, job: str) -> Iterator[dict[str, Any]]:
        """Yield the state of a job, without its result, after each change, until the job has ended."""
        seen: dict[str, Any] = {}
        while not (seen and is_over(seen)):
            found = self.job(job)
            found.pop("result", None)
            if found != seen:
                seen = found
                yield seen
            if is_over(seen):
                return
            stream = self._http.stream("GET", f"/jobs/{job}/events", timeout=STREAM_SECONDS)
            with suppress(httpx.TransportError), stream as events:
                for reported in filter(None, map(event_in, events.iter_lines() if events.is_success else ())):
                    if reported != seen:
                        seen = reported
                        yield seen
            if not is_over(seen):
                sleep(RETRY_SECONDS)

    def wait(self, job: str, on_progress: Callable[[dict[str, Any]], object] = lambda job: None) -> dict[str, Any]:
        """Wait until a job is done or cancelled, and return it; raises ServiceProblem if it has failed.

        After each change of the job, ``on_progress`` is called with its present state.
        """
        for found in self.progress(job):
            on_progress(found)
        return ended(self.job(job))

    def feed_events(self, id: str, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of a feed, each once and in order even if connections break, until the feed is deleted.

        ``after`` is the ``id`` of the last event that the caller already has; without it, the newest event comes first.
        """
        events = FeedEvents(after)
        while True:
            self.feed(id)  # raises ServiceProblem once it is gone
            path = f"/feeds/{id}/events"
            stream = self._http.stream("GET", path, headers=events.headers(), timeout=STREAM_SECONDS)
            with suppress(httpx.TransportError), stream as answer:
                if answer.is_success:
                    yield from filter(None, map(events.event_in, answer.iter_lines()))
            sleep(RETRY_SECONDS)

    def is_ready(self) -> bool:
        """Return whether the service is ready; raises httpx.ConnectError if its certificate is not trusted."""
        try:
            with explained():
                return self._http.get("/health/ready").is_success
        except httpx.TransportError as error:
            if fault_of(error) is not None:
                raise
            return False

    def send(self, request: Request[T]) -> T:
        """Send a request, and repeat it for ``patience`` seconds while the service is busy; raises ServiceProblem."""
        found: T | Request[T] = request
        while isinstance(found, Request):
            again = Retrying(**policy(found.is_repeatable, self._patience))
            found = answered(found.read, again(self._once, found))
        return found

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _once(self, request: Request[T]) -> httpx.Response:
        content = pieces(request.content) if isinstance(request.content, Path) else request.content
        with explained():
            return self._http.request(
                request.method, request.path, content=content, headers=request.headers, params=request.params
            )
