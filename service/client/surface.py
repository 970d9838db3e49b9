"""Base class of both clients, with a method for each call, and the connection to the service."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import httpx

from livesvm.service.client import feeds as feed_requests
from livesvm.service.client import fleets as fleet_requests
from livesvm.service.client import requests
from livesvm.service.client import webhooks as webhook_requests
from livesvm.service.client.requests import Document, Page, Request
from livesvm.service.client.tls import Verify, trusted

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


class Sender(Protocol):
    """A client with a method that sends a request, and waits for its result."""

    def send(self, request: Request[T]) -> T:
        """Send a request, and return the parsed answer; raises ServiceProblem."""


class AsyncSender(Protocol):
    """A client with a coroutine that sends a request and returns its result."""

    async def send(self, request: Request[T]) -> T:
        """Send a request, and return the parsed answer; raises ServiceProblem."""


class Call(Generic[P, T]):
    """A call that both clients have: as a blocking method of ``Client``, and as a coroutine of ``AsyncClient``.

    Parameters
    ----------
    now, later : the blocking method, and the coroutine
    """

    def __init__(self, now: Callable[..., T], later: Callable[..., Coroutine[Any, Any, T]]) -> None:
        self._now, self._later = now, later

    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...

    def __get__(self, client: Any, owner: type) -> Callable[..., Any]:
        is_awaited = inspect.iscoroutinefunction(getattr(owner, "send", None))
        method: Callable[..., Any] = (self._later if is_awaited else self._now).__get__(client, owner)
        return method


def call(build: Callable[P, Request[T]]) -> Call[P, T]:
    """Return a method of the clients that builds a request from its arguments with ``build``, and sends it."""

    def now(self: Sender, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.send(build(*arguments, **named))

    async def later(self: AsyncSender, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self.send(build(*arguments, **named))

    return Call(_named_as(build, now), _named_as(build, later))


def every_page(build: Callable[Concatenate[str, P], Request[Page]]) -> Call[P, list[Document]]:
    """Return a method of the clients that requests all pages of a list, one after the other, and returns all entries.

    The first argument of ``build`` is the id after which a page begins; its other arguments are those of the method.
    """

    def now(self: Sender, /, *arguments: P.args, **named: P.kwargs) -> list[Document]:
        page = self.send(build("", *arguments, **named))
        entries = page.entries
        while page.next is not None:
            page = self.send(build(page.next, *arguments, **named))
            entries += page.entries
        return entries

    async def later(self: AsyncSender, /, *arguments: P.args, **named: P.kwargs) -> list[Document]:
        page = await self.send(build("", *arguments, **named))
        entries = page.entries
        while page.next is not None:
            page = await self.send(build(page.next, *arguments, **named))
            entries += page.entries
        return entries

    return Call(_named_as(build, now, given=1), _named_as(build, later, given=1))


def _named_as(build: Callable[..., Request[Any]], method: C, given: int = 0) -> C:
    """Give a method the name, the docstring and the parameters of ``build``, without its first ``given`` parameters."""
    functools.update_wrapper(method, build)
    plain = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *list(plain.parameters.values())[given:]]
    method.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
    return method


class ClientCalls:
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

    create_model = call(requests.create_model)
    models = every_page(requests.models)
    model = call(requests.model)
    delete_model = call(requests.delete_model)
    update = call(requests.update)
    update_many = call(requests.update_many)
    predict = call(requests.predict)
    what_if = call(requests.what_if)
    explain = call(requests.explain)
    drift = call(requests.drift)
    certificate = call(requests.certificate)
    checkpoint = call(requests.checkpoint)
    write_back = call(requests.write_back)
    examples = call(requests.examples)
    erase = call(requests.erase)
    erase_everywhere = call(requests.erase_everywhere)
    receipts = call(requests.receipts)
    verify_receipt = call(requests.verify_receipt)
    receipt_key = call(requests.receipt_key)
    versions = call(requests.versions)
    restore = call(requests.restore)
    assess = call(requests.assess)
    tune_model = call(requests.tune_model)
    regularization_path = call(requests.regularization_path)
    suspected_labels = call(requests.suspected_labels)
    suspects = call(requests.suspects)
    outlier_path = call(requests.outlier_path)
    apply = call(requests.apply)
    plot = call(requests.plot)
    job = call(requests.job)
    cancel = call(requests.cancel)
    inspect = call(requests.inspect)
    put_dataset = call(requests.put_dataset)
    datasets = call(requests.datasets)
    dataset = call(requests.dataset)
    delete_dataset = call(requests.delete_dataset)
    retrain = call(requests.retrain)
    create_feed = call(feed_requests.create_feed)
    feeds = every_page(feed_requests.feeds)
    feed = call(feed_requests.feed)
    delete_feed = call(feed_requests.delete_feed)
    observe = call(feed_requests.observe)
    announce = call(feed_requests.announce)
    forecast_if = call(feed_requests.forecast_if)
    forecast = call(feed_requests.forecast)
    history = call(feed_requests.history)
    erase_readings = call(feed_requests.erase_readings)
    feed_certificate = call(feed_requests.feed_certificate)
    feed_plot = call(feed_requests.feed_plot)
    backtest = call(feed_requests.backtest)
    tune = call(feed_requests.tune)
    feed_drift = call(feed_requests.feed_drift)
    update_feed = call(feed_requests.update_feed)
    pause_feed = call(feed_requests.pause_feed)
    resume_feed = call(feed_requests.resume_feed)
    write_back_feed = call(feed_requests.write_back_feed)
    create_fleet = call(fleet_requests.create_fleet)
    delete_fleet = call(fleet_requests.delete_fleet)
    fleet = call(fleet_requests.fleet)
    observe_fleet = call(fleet_requests.observe_fleet)
    announce_fleet = call(fleet_requests.announce_fleet)
    fleet_forecast_file = call(fleet_requests.fleet_forecast_file)
    create_series = call(fleet_requests.create_series)
    pause_fleet = call(fleet_requests.pause_fleet)
    resume_fleet = call(fleet_requests.resume_fleet)
    erase_series = call(fleet_requests.erase_series)
    create_webhook = call(webhook_requests.create_webhook)
    webhooks = call(webhook_requests.webhooks)
    webhook = call(webhook_requests.webhook)
    delete_webhook = call(webhook_requests.delete_webhook)
    ping_webhook = call(webhook_requests.ping_webhook)
    dead_letters = call(webhook_requests.dead_letters)
    resend = call(webhook_requests.resend)
    fleets = every_page(fleet_requests.fleets)
    fleet_forecast = every_page(fleet_requests.fleet_forecast)
    series = every_page(fleet_requests.series)
