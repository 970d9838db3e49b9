"""Commands that front ends send to replicas in actors; a command names the function that the actor calls."""

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
"""Multiplications of a prediction that takes less time than passing it to a thread."""


@dataclass(frozen=True)
class Command:
    """A command with its arguments. As an attribute of a handle, a command is the method that sends it.

    Parameters
    ----------
    do : is called with the subject and the arguments; its result, or that of the future it returns, is the answer
    of : the subject: a ``served`` replica, ``any`` replica, or for ``all`` the collection of its kind and its id
    mutates : whether it changes something; other commands are ended when no caller waits for them
    named : whether its last argument is the name of a request, so that it has one effect if it is sent again
    timed : whether it solves, and so takes a time limit
    by_line : whether it is short and frequent, with a small answer
    blocks : whether it waits for something, and so is done in a thread
    at_once : returns whether it is done without a thread all the same, for a subject and arguments
    makes : whether its replica need not exist before
    removes : whether it removes its replica: if it is sent again, that may be done already
    touches : returns the other replicas that it may change with its arguments, by stored name
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
        """Return the command with these arguments."""
        return replace(self, arguments=arguments)

    def __get__(self, replica: Any, kind: type[Any]) -> Any:
        """Return the method that sends this command to ``replica``; the method's last argument may be a Solve."""
        return self if replica is None else lambda *arguments, **named: self._asked(replica, *arguments, **named)

    def _asked(self, replica: Any, *arguments: Any, solve: Solve | None = None) -> Future[Any]:
        if arguments and isinstance(arguments[-1], Solve):
            *arguments, solve = arguments  # type: ignore[assignment]
        asked: Future[Any] = replica.ask(self(*arguments), solve)
        return asked

    def with_name(self) -> Command:
        """Return the command with a generated request name if it has none, so that it can be sent again."""
        if not self.named or self.arguments[-1] is not None:
            return self
        return replace(self, arguments=(*self.arguments[:-1], OwnName(f"unnamed {uuid4().hex}")))

    @property
    def is_unnamed(self) -> bool:
        """Whether the request name was generated, because the caller gave none."""
        return self.named and isinstance(self.arguments[-1], OwnName)

    def others(self) -> Iterable[str]:
        """Return the stored names of the other replicas that the command may change."""
        return () if self.touches is None else self.touches(*self.arguments)

    def subject(self, home: Collection[Any], id: str) -> tuple[Any, ...]:
        """Return the first arguments of ``do``: the replica, or its collection and id; raises as ``home.get`` does."""
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
"""Asks for the state alone, which every answer has; a replica at rest wakes, as it then reports more."""
CREATE = Command(_create, "all", mutates=True, blocks=True, makes=True)
DELETE = Command(_delete, "all", mutates=True, blocks=True, removes=True)
OBSERVE_MANY = Command(_observe_many, "all", mutates=True, named=True, blocks=True, makes=True, touches=_of_batch)
PUBLISHED = Command(_published, blocks=True)
DECIDE = Command(_decide, by_line=True, blocks=True, at_once=_decides_at_once)
RECENT = Command(_recent, blocks=True)
VERSIONS = Command(HostedModel.versions, blocks=True)
