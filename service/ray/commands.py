"""Commands for replicas in actors: how each is done there, and what may be sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import uuid4

import numpy as np

from livesvm.service.feeds.batch import Batch, BatchDone
from livesvm.service.history.names import stored_feed
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.handle import OwnName
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.replica import Replica
from livesvm.service.models.published import Published
from livesvm.service.resources.solve_scheduler import Solve

QUICK = 10**5
"""Numbers of the support vectors that rows are compared with: sooner done than handed to a thread."""


@dataclass(frozen=True)
class Command:
    """One thing that is asked, and what it is asked with. In the class of a handle, it is the method that asks.

    Parameters
    ----------
    do : is called with the subject and the arguments; what it returns, or what its future gets, is the answer
    of : the subject: a replica that is ``served``, ``any`` one, or all of its kind, and its id
    mutates : whether it changes something; what does not ends when no caller waits for it
    named : whether its last argument is the name of a request, so that it has one effect if it is sent again
    timed : whether it is solved for, and so takes how long that may be
    by_line : whether it is short, one of many, and its answer small
    blocks : whether it waits for something, and so is done in a thread
    at_once : says for which subject and arguments it is done without one all the same
    makes : whether it is asked before there is such a replica
    removes : whether there is no such replica after it: one that is sent again may find that it was done
    touches : which others it may change, by stored name, with these arguments
    """

    do: Callable[..., Any]
    of: Literal["served", "any", "all"] = "served"
    mutates: bool = False
    named: bool = False
    timed: bool = False
    by_line: bool = False
    blocks: bool = False
    at_once: Callable[..., bool] | None = None
    makes: bool = False
    removes: bool = False
    touches: Callable[..., Iterable[str]] | None = None
    arguments: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> Command:
        """Return the same, asked with these."""
        return replace(self, arguments=arguments)

    def __get__(self, replica: Any, kind: type[Any]) -> Any:
        """Return what asks it of this replica; its last argument may be the solve that it has to end within."""
        return self if replica is None else lambda *arguments, **named: self._asked(replica, *arguments, **named)

    def _asked(self, replica: Any, *arguments: Any, solve: Solve | None = None) -> Future[Any]:
        if arguments and isinstance(arguments[-1], Solve):
            *arguments, solve = arguments  # type: ignore[assignment]
        asked: Future[Any] = replica.ask(self(*arguments), solve)
        return asked

    def with_name(self) -> Command:
        """Return the same by a named request, as it may be lost on the way."""
        if not self.named or self.arguments[-1] is not None:
            return self
        return replace(self, arguments=(*self.arguments[:-1], OwnName(f"unnamed {uuid4().hex}")))

    @property
    def is_unnamed(self) -> bool:
        """Whether its caller has given its request no name."""
        return self.named and isinstance(self.arguments[-1], OwnName)

    def others(self) -> Iterable[str]:
        """Return which others it may change, by stored name."""
        return () if self.touches is None else self.touches(*self.arguments)

    def subject(self, home: Collection[Any], id: str) -> tuple[Any, ...]:
        """Return the subject; raises as ``home.get`` does."""
        if self.of == "all":
            return home, id
        return (home.get(id) if self.of == "served" else home.find(id),)


def _hear(replica: Replica[Any]) -> Future[None] | None:
    return replica.news()


def _create(home: Collection[Any], id: str, spec: Any) -> None:
    home.create(id, spec)


def _delete(home: Collection[Any], id: str) -> None:
    home.delete(id).result()
    home.forget(id)


def _observe_many(home: Any, id: str, batch: Batch, request: str | None) -> BatchDone:
    done: BatchDone = home.observe_many(replace(batch, request=request))
    return done


def _of_batch(batch: Batch, request: str | None) -> list[str]:
    return [stored_feed(id_) for id_ in batch.tables]


def _published(model: HostedModel) -> Published:
    return model.reader(np.empty((0, 0)))


def _decide(model: HostedModel, X: Any, limit: int) -> Any:
    seen = model.reader(X)
    X = seen.checked(model.spec, X, limit)
    return seen.version, *seen.decide(model.spec, X), seen.classes


def _decides_at_once(model: HostedModel, X: Any, limit: int) -> bool:
    seen = model.published
    is_here = seen.predictor is not None
    return is_here and len(X) * seen.n_values * seen.n_support * (seen.row_bytes / 8 + 1) < QUICK


def _recent(model: HostedModel) -> list[dict[str, Any]]:
    return model.recent.updates()


HEAR = Command(_hear, "any", by_line=True)
"""Every answer has the state; of a replica at rest more is reported once it is awake."""
CREATE = Command(_create, "all", mutates=True, blocks=True, makes=True)
DELETE = Command(_delete, "all", mutates=True, blocks=True, removes=True)
OBSERVE_MANY = Command(_observe_many, "all", mutates=True, named=True, blocks=True, makes=True, touches=_of_batch)
PUBLISHED = Command(_published, blocks=True)
DECIDE = Command(_decide, by_line=True, blocks=True, at_once=_decides_at_once)
RECENT = Command(_recent, blocks=True)
VERSIONS = Command(HostedModel.versions, blocks=True)
