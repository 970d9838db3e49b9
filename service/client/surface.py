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
        """Send, and return the answer; raises ServiceProblem."""


class AsyncSender(Protocol):
    """The same, to be awaited."""

    async def send(self, request: Request[T]) -> T:
        """Send, and return the answer; raises ServiceProblem."""


def method(build: Callable[P, Request[T]]) -> Callable[Concatenate[Sender, P], T]:
    """Return the method that sends what ``build`` makes of its arguments."""

    def call(self: Sender, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.send(build(*arguments, **named))

    return _named_as(build, call)


def async_method(build: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncSender, P], Coroutine[Any, Any, T]]:
    """Return the same, to be awaited."""

    async def call(self: AsyncSender, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self.send(build(*arguments, **named))

    return _named_as(build, call)


def every_page(build: Callable[Concatenate[str, P], Request[Page]]) -> Callable[Concatenate[Sender, P], list[Document]]:
    """Return the method that sends for one page after the other, and returns all entries.

    ``build`` takes behind which entry the page begins, and what the method is called with.
    """

    def call(self: Sender, /, *arguments: P.args, **named: P.kwargs) -> list[Document]:
        page = self.send(build("", *arguments, **named))
        entries = page.entries
        while page.next is not None:
            page = self.send(build(page.next, *arguments, **named))
            entries += page.entries
        return entries

    return _named_as(build, call, given=1)


def async_every_page(
    build: Callable[Concatenate[str, P], Request[Page]],
) -> Callable[Concatenate[AsyncSender, P], Coroutine[Any, Any, list[Document]]]:
    """Return the same, to be awaited."""

    async def call(self: AsyncSender, /, *arguments: P.args, **named: P.kwargs) -> list[Document]:
        page = await self.send(build("", *arguments, **named))
        entries = page.entries
        while page.next is not None:
            page = await self.send(build(page.next, *arguments, **named))
            entries += page.entries
        return entries

    return _named_as(build, call, given=1)


C = TypeVar("C", bound=Callable[..., Any])


def _named_as(build: Callable[..., Request[Any]], call: C, given: int = 0) -> C:
    """Give a method the name, the document and the parameters of ``build``, but for the first ``given`` ones."""
    functools.update_wrapper(call, build)
    plain = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *list(plain.parameters.values())[given:]]
    call.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call
