"""What actors are asked: one entry each, which says how it is done and what may become of it on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.feed import HostedFeed
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.replica import Replica
from livesvm.service.models.published import Published

QUICK = 10**5
"""Numbers of the support vectors that rows are compared with: sooner done than handed to a thread."""


@dataclass(frozen=True)
class Command:
    """One thing that is asked, and what it is asked with.

    Parameters
    ----------
    do : is called with whom it is asked of, and the arguments; what it returns, or what its future gets, is the answer
    of : whom: a replica that is ``served``, ``any`` one, or all of its kind, and its id
    mutates : whether it changes something; what does not ends when nobody waits for it
    named : whether its last argument is the name of a request, so that it has one effect if it is sent again
    timed : whether it is solved for, and so takes how long that may be
    by_line : whether it is short, one of many, and its answer small: it need not go Ray's way
    blocks : whether it waits for something, and so is done in a thread
    at_once : says of whom it blocks all the same, and with which arguments
    makes : whether it is asked before there is such a replica
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
    arguments: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> Command:
        """The same, asked with these."""
        return replace(self, arguments=arguments)

    def subject(self, home: Collection[Any], id: str) -> tuple[Any, ...]:
        """Whom it is asked of; raises as ``home.get`` does."""
        if self.of == "all":
            return home, id
        return (home.get(id) if self.of == "served" else home.find(id),)


def _hear(replica: Replica[Any]) -> Future[None] | None:
    """How it is goes along with every answer; of one at rest more is told once it is awake."""
    return replica.news()


def _create(home: Collection[Any], id: str, spec: Any) -> None:
    home.create(id, spec)


def _delete(home: Collection[Any], id: str) -> None:
    home.delete(id).result()
    home.forget(id)


def _published(model: HostedModel) -> Published:
    return model.reader(np.empty((0, 0)))


def _decide(model: HostedModel, X: Any, limit: int) -> Any:
    seen = model.reader(X)
    seen.check(model.spec, X, limit)
    return seen.version, *seen.decide(model.spec, X), seen.classes


def _decides_at_once(model: HostedModel, X: Any, limit: int) -> bool:
    seen = model.published
    is_here = seen.predictor is not None
    return is_here and len(X) * seen.n_values * seen.n_support * (seen.row_bytes / 8 + 1) < QUICK


def _recent(model: HostedModel) -> list[dict[str, Any]]:
    return model.recent.updates()


HEAR = Command(_hear, "any", by_line=True)
CREATE = Command(_create, "all", mutates=True, blocks=True, makes=True)
DELETE = Command(_delete, "all", mutates=True, blocks=True)
WRITE_BACK = Command(Replica.write_back, mutates=True)

UPDATE = Command(HostedModel.update, mutates=True, named=True, timed=True, by_line=True)
RESTORE = Command(HostedModel.restore, mutates=True, named=True, timed=True)
SWAP = Command(HostedModel.swap, mutates=True, named=True, timed=True)
ERASE = Command(HostedModel.erase, mutates=True, timed=True)
CHECKPOINT = Command(HostedModel.checkpoint, mutates=True)
SEEN = Command(HostedModel.seen)
CERTIFICATE = Command(HostedModel.certificate, timed=True, by_line=True)
CALIBRATED = Command(HostedModel.calibrated, timed=True)
COPY = Command(HostedModel.copy)
EXAMPLES = Command(HostedModel.examples)
VERSIONS = Command(HostedModel.versions, blocks=True)
RECENT = Command(_recent, blocks=True)
PUBLISHED = Command(_published, blocks=True)
DECIDE = Command(_decide, by_line=True, blocks=True, at_once=_decides_at_once)

OBSERVE = Command(HostedFeed.observe, mutates=True, named=True, by_line=True)
TAKE = Command(HostedFeed.take, mutates=True, named=True)
PAUSE = Command(HostedFeed.pause, mutates=True)
ERASE_READINGS = Command(HostedFeed.erase, mutates=True, timed=True)
SEEN_READINGS = Command(HostedFeed.seen)
PROVE_FEED = Command(HostedFeed.certificate, timed=True, by_line=True)
HISTORY = Command(HostedFeed.history)
EVENTS = Command(HostedFeed.events)
COPY_FEED = Command(HostedFeed.copy)
