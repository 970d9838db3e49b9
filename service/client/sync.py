"""A client of the service's REST API, for Python programs.

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

from livesvm.service.client import feeds as feed_requests
from livesvm.service.client import fleets as fleet_requests
from livesvm.service.client import requests
from livesvm.service.client import webhooks as webhook_requests
from livesvm.service.client.events import RETRY_SECONDS, STREAM_SECONDS, FeedEvents, event_in, is_over
from livesvm.service.client.problems import checked, ended
from livesvm.service.client.requests import Request, T, pieces
from livesvm.service.client.retries import policy
from livesvm.service.client.surface import every_page, method
from livesvm.service.client.tls import authorities


class Client:
    """Calls one service; safe to share between threads.

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
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False, verify=authorities())
        self._patience = patience

    create_model = method(requests.create_model)
    models = every_page(requests.models)
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
    feeds = every_page(feed_requests.feeds)
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
    fleets = every_page(fleet_requests.fleets)
    fleet_forecast = every_page(fleet_requests.fleet_forecast)
    series = every_page(fleet_requests.series)

    def progress(self, job: str) -> Iterator[dict[str, Any]]:
        """Yield the job, without its result, each time it has changed, until it has ended."""
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
                if not events.is_success:
                    sleep(RETRY_SECONDS)
                for reported in filter(None, map(event_in, events.iter_lines())):
                    if reported != seen:
                        seen = reported
                        yield seen

    def wait(self, job: str, on_progress: Callable[[dict[str, Any]], object] = lambda job: None) -> dict[str, Any]:
        """Return the job once it is done or cancelled; raises ServiceProblem if it has failed.

        ``on_progress`` is called with the job as it is each time it has changed.
        """
        for found in self.progress(job):
            on_progress(found)
        return ended(self.job(job))

    def feed_events(self, id: str, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield a feed's events as they come, each once and in order, over breaks and restarts too; ends with the feed.

        ``after`` is the ``id`` of the newest event that is known; without it they begin with the newest.
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
        """Return whether the service can do its work now."""
        try:
            return self._http.get("/health/ready").is_success
        except httpx.TransportError:
            return False

    def send(self, request: Request[T]) -> T:
        """Send a request, again while the service is busy and patience lasts; raises ServiceProblem."""
        again = Retrying(**policy(request.is_repeatable, self._patience))
        return request.read(checked(again(self._once, request)))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _once(self, request: Request[T]) -> httpx.Response:
        content = pieces(request.content) if isinstance(request.content, Path) else request.content
        return self._http.request(
            request.method, request.path, content=content, headers=request.headers, params=request.params
        )
