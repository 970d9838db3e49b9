"""What a front end and an actor tell each other.

They are pickled here: Ray would make arrays that cannot be written of theirs, and other errors, and takes longer.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from livesvm.service.errors import Restoring
from livesvm.service.feeds.source_reader import Flow
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import View as Forecasts
from livesvm.service.hosting.feed import HostedFeed
from livesvm.service.hosting.handle import Description, Return
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.ray.commands import Command
from livesvm.service.ray.lines import Endpoint
from livesvm.service.store.base import Indexed

SERVED: frozenset[ServingState] = frozenset({"live", "fenced", "behind"})
EVENTS = 16
"""Of a feed, the newest, that are reported with every change."""


@dataclass(frozen=True)
class Question:
    """One call: of what is stored under which name, and what.

    Parameters
    ----------
    id : by which it can be withdrawn
    seconds : until the answer has to be there; None: the limit there is all
    key : label of the API key that the caller has
    predicts : whether the caller predicts by copies, so that a small one of the model after the call saves it a call
    request : the caller's, by which it is found in the log
    """

    id: str
    stored: str
    command: Command
    seconds: float | None = None
    key: str | None = None
    predicts: bool = False
    request: str | None = None


@dataclass(frozen=True)
class FeedNow:
    """What is reported of a feed that is awake, or not served; ``view`` has its newest events alone."""

    version: int
    queue_depth: int
    returned: Return | None
    flow: Flow | None
    view: Forecasts | None = field(default=None, compare=False)

    @classmethod
    def of(cls, feed: HostedFeed) -> FeedNow:
        """Return what a feed shows in its actor."""
        now = feed.queue_depth, feed.returned, feed.flow
        try:
            seen = feed.view
        except Restoring:
            return cls(0, *now)
        return cls(seen.version, *now, replace(seen, events=tuple(seen.events[-EVENTS:])))


RESTING = FeedNow(0, 0, None, None)
"""The same of one at rest."""


@dataclass(frozen=True)
class View:
    """What a front end knows of a model or a feed without asking; of one at rest, what the store's index says of it.

    Its ``life`` is another one after it was at rest, or deleted and made again, or its actor came back: the actor's
    incarnation, and a moment. Within an incarnation, ``moment`` tells which of two views is newer."""

    spec: ModelSpec | FeedSpec
    state: ServingState
    reason: str | None
    stale: bool
    now: Description | FeedNow | Indexed
    life: tuple[str, int]
    moment: int = field(default=0, compare=False)

    @classmethod
    def of(cls, replica: HostedModel | HostedFeed, life: tuple[str, int], moment: int) -> View:
        """Return what a replica shows in its actor."""
        seen = FeedNow.of(replica) if isinstance(replica, HostedFeed) else replica.describe()
        now = replica.indexed or seen
        return cls(replica.spec, replica.state, replica.reason, replica.stale, now, life, moment)

    @property
    def rests(self) -> bool:
        """Whether it is at rest."""
        return isinstance(self.now, Indexed)


@dataclass(frozen=True)
class Answer:
    """What came of a call: its result or its error, and facts for the log.

    ``views`` are what it may have changed, as that is after it, by stored name; ``copy`` is the version after it, if
    small, for a front end that predicts by copies.
    """

    value: Any = None
    error: Exception | None = None
    views: dict[str, View] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    copy: Published | None = None

    def result(self) -> Any:
        """Return the result; raises the error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True)
class News:
    """What has changed in an actor since a moment, and the moment that this is.

    ``views`` are None of those that are gone; of those that were at rest all the time the store's index tells.
    ``line`` is where short calls may go, if there is such a place.
    """

    incarnation: str
    moment: int
    views: dict[str, View | None]
    line: Endpoint | None = None


class _Pickler(pickle.Pickler):
    """Pickles errors by what they hold, as their constructors take other arguments than they keep."""

    def reducer_override(self, value: Any) -> Any:
        """Return an error: its class, its message, what it holds besides."""
        if isinstance(value, Exception):
            return _error, (type(value), value.args, {k: v for k, v in vars(value).items() if k != "__notes__"})
        return NotImplemented


def _error(kind: type[Exception], arguments: tuple[Any, ...], parts: dict[str, Any]) -> Exception:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(parts)
    return error


def answered(call: Callable[..., Any], *arguments: Any, **named: Any) -> bytes:
    """Return the answer of a call, packed."""
    try:
        return packed(Answer(call(*arguments, **named)))
    except Exception as error:
        return packed(Answer(error=error))


def packed(value: Any) -> bytes:
    """Return bytes of a message; an error is in an answer, if anywhere."""
    if not (isinstance(value, Answer) and value.error is not None):
        return pickle.dumps(value, protocol=5)
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def unpacked(data: bytes) -> Any:
    """Return the message in bytes that another process of this service has sent."""
    return pickle.loads(data)
