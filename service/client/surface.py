"""Methods of clients, made of the functions in ``requests``: their names, arguments and documents."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from livesvm.service.client.requests import Document, Page, Request

P = ParamSpec("P")
T = TypeVar("T")


class Sender(Protocol):
    """Sends a request and returns what it reads of the answer."""

    def send(self, request: Request[T]) -> T:
        """Raises ServiceProblem."""


class AsyncSender(Protocol):
    """The same, to be awaited."""

    async def send(self, request: Request[T]) -> T:
        """Raises ServiceProblem."""


def method(build: Callable[P, Request[T]]) -> Callable[Concatenate[Sender, P], T]:
    """The method that sends what ``build`` makes of its arguments."""

    def call(self: Sender, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.send(build(*arguments, **named))

    return _named_as(build, call)


def async_method(build: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncSender, P], Coroutine[Any, Any, T]]:
    """The same, to be awaited."""

    async def call(self: AsyncSender, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self.send(build(*arguments, **named))

    return _named_as(build, call)


def every_page(build: Callable[[str], Request[Page]]) -> Callable[[Sender], list[Document]]:
    """The method that sends for one page after the other, and returns all entries."""

    def call(self: Sender, /) -> list[Document]:
        page = self.send(build(""))
        entries = page.entries
        while page.next is not None:
            page = self.send(build(page.next))
            entries += page.entries
        return entries

    return _named_as(lambda: build(""), call, build)


def async_every_page(
    build: Callable[[str], Request[Page]],
) -> Callable[[AsyncSender], Coroutine[Any, Any, list[Document]]]:
    """The same, to be awaited."""

    async def call(self: AsyncSender, /) -> list[Document]:
        page = await self.send(build(""))
        entries = page.entries
        while page.next is not None:
            page = await self.send(build(page.next))
            entries += page.entries
        return entries

    return _named_as(lambda: build(""), call, build)


C = TypeVar("C", bound=Callable[..., Any])


def _named_as(build: Callable[..., Request[Any]], call: C, named: Callable[..., Any] | None = None) -> C:
    functools.update_wrapper(call, named or build)
    plain = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    call.__signature__ = plain.replace(parameters=[own, *plain.parameters.values()])  # type: ignore[attr-defined]
    return call
