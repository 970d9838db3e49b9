"""The client for programs that await.

async with AsyncClient("http://127.0.0.1:8000") as client:
    await client.create_model("river", C=10.0, kernel={"name": "rbf", "gamma": 0.1}, window={"max_examples": 365})
    await client.update("river", X, y)
    (await client.predict("river", X_new))["decision"]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from tenacity import AsyncRetrying

from livesvm.service.client import feeds as feed_requests
from livesvm.service.client import fleets as fleet_requests
from livesvm.service.client import requests
from livesvm.service.client import webhooks as webhook_requests
from livesvm.service.client.events import RETRY_SECONDS, STREAM_SECONDS, FeedEvents, event_in, is_over
from livesvm.service.client.problems import checked, ended
from livesvm.service.client.requests import Request, T, pieces
from livesvm.service.client.retries import policy
from livesvm.service.client.surface import async_every_page
from livesvm.service.client.surface import async_method as method
from livesvm.service.client.tls import authorities


class AsyncClient:
    """Calls one service, from one event loop; its calls are those of Client.

    Parameters
    ----------
    url : of the service
    api_key : sent as a bearer token when given
    timeout : seconds that one try may take
    patience : seconds for which a call that was refused as too busy or cut off is tried again; every update carries an
        Idempotency-Key, so that trying again has one effect
    """

    def __init__(self, url: str, api_key: str | None = None, *, timeout: float = 30.0, patience: float = 10.0) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key is not None else {}
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout, trust_env=False, verify=authorities()
        )
        self._patience = patience

    create_model = method(requests.create_model)
    models = async_every_page(requests.models)
    model = method(requests.model)
    delete_model = method(requests.delete_model)
    update = method(requests.update)
    predict = method(requests.predict)
    what_if = method(requests.what_if)
    explain = method(requests.explain)
    drift = method(requests.drift)
    certificate = method(requests.certificate)
    checkpoint = method(requests.checkpoint)
    write_back = method(requests.write_back)
    examples = method(requests.examples)
    erase = method(requests.erase)
    erase_everywhere = method(requests.erase_everywhere)
    receipts = method(requests.receipts)
    verify_receipt = method(requests.verify_receipt)
    receipt_key = method(requests.receipt_key)
    versions = method(requests.versions)
    restore = method(requests.restore)
    assess = method(requests.assess)
    tune_model = method(requests.tune_model)
    regularization_path = method(requests.regularization_path)
    outlier_path = method(requests.outlier_path)
    apply = method(requests.apply)
    plot = method(requests.plot)
    job = method(requests.job)
    cancel = method(requests.cancel)
    put_dataset = method(requests.put_dataset)
    datasets = method(requests.datasets)
    dataset = method(requests.dataset)
    delete_dataset = method(requests.delete_dataset)
    retrain = method(requests.retrain)
    create_feed = method(feed_requests.create_feed)
    feeds = async_every_page(feed_requests.feeds)
    feed = method(feed_requests.feed)
    delete_feed = method(feed_requests.delete_feed)
    observe = method(feed_requests.observe)
    announce = method(feed_requests.announce)
    forecast_if = method(feed_requests.forecast_if)
    forecast = method(feed_requests.forecast)
    history = method(feed_requests.history)
    erase_readings = method(feed_requests.erase_readings)
    feed_certificate = method(feed_requests.feed_certificate)
    feed_plot = method(feed_requests.feed_plot)
    backtest = method(feed_requests.backtest)
    tune = method(feed_requests.tune)
    feed_drift = method(feed_requests.feed_drift)
    update_feed = method(feed_requests.update_feed)
    pause_feed = method(feed_requests.pause_feed)
    resume_feed = method(feed_requests.resume_feed)
    write_back_feed = method(feed_requests.write_back_feed)
    create_fleet = method(fleet_requests.create_fleet)
    delete_fleet = method(fleet_requests.delete_fleet)
    fleet = method(fleet_requests.fleet)
    observe_fleet = method(fleet_requests.observe_fleet)
    announce_fleet = method(fleet_requests.announce_fleet)
    fleet_forecast_file = method(fleet_requests.fleet_forecast_file)
    create_series = method(fleet_requests.create_series)
    pause_fleet = method(fleet_requests.pause_fleet)
    resume_fleet = method(fleet_requests.resume_fleet)
    erase_series = method(fleet_requests.erase_series)
    create_webhook = method(webhook_requests.create_webhook)
    webhooks = method(webhook_requests.webhooks)
    webhook = method(webhook_requests.webhook)
    delete_webhook = method(webhook_requests.delete_webhook)
    ping_webhook = method(webhook_requests.ping_webhook)
    dead_letters = method(webhook_requests.dead_letters)
    resend = method(webhook_requests.resend)
    fleets = async_every_page(fleet_requests.fleets)
    fleet_forecast = async_every_page(fleet_requests.fleet_forecast)
    series = async_every_page(fleet_requests.series)

    async def progress(self, job: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the job, without its result, each time it has changed, until it has ended."""
        seen: dict[str, Any] = {}
        while not (seen and is_over(seen)):
            found = await self.job(job)
            found.pop("result", None)
            if found != seen:
                seen = found
                yield seen
            if is_over(seen):
                return
            with suppress(httpx.TransportError):
                async with self._http.stream("GET", f"/jobs/{job}/events", timeout=STREAM_SECONDS) as events:
                    if not events.is_success:
                        await asyncio.sleep(RETRY_SECONDS)
                    async for line in events.aiter_lines():
                        if (reported := event_in(line)) is not None and reported != seen:
                            seen = reported
                            yield seen

    async def wait(
        self, job: str, on_progress: Callable[[dict[str, Any]], object] = lambda job: None
    ) -> dict[str, Any]:
        """Return the job once it is done or cancelled; raises ServiceProblem if it has failed.

        ``on_progress`` is called with the job as it is each time it has changed.
        """
        async for found in self.progress(job):
            on_progress(found)
        return ended(await self.job(job))

    async def feed_events(self, id: str, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield a feed's events as they come, each once and in order, over breaks and restarts too; ends with the feed.

        ``after`` is the ``id`` of the newest event that is known; without it they begin with the newest.
        """
        events = FeedEvents(after)
        while True:
            await self.feed(id)  # raises ServiceProblem once it is gone
            path = f"/feeds/{id}/events"
            with suppress(httpx.TransportError):
                async with self._http.stream("GET", path, headers=events.headers(), timeout=STREAM_SECONDS) as answer:
                    async for line in answer.aiter_lines():
                        if (reported := events.event_in(line)) is not None:
                            yield reported
            await asyncio.sleep(RETRY_SECONDS)

    async def is_ready(self) -> bool:
        """Return whether the service can do its work now."""
        try:
            return (await self._http.get("/health/ready")).is_success
        except httpx.TransportError:
            return False

    async def send(self, request: Request[T]) -> T:
        """Send a request, again while the service is busy and patience lasts; raises ServiceProblem."""
        again = AsyncRetrying(**policy(request.is_repeatable, self._patience))
        return request.read(checked(await again(self._once, request)))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _once(self, request: Request[T]) -> httpx.Response:
        content = _pieces(request.content) if isinstance(request.content, Path) else request.content
        return await self._http.request(
            request.method, request.path, content=content, headers=request.headers, params=request.params
        )


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, read outside of the event loop."""
    source = pieces(path)
    while piece := await asyncio.to_thread(next, source, b""):
        yield piece
