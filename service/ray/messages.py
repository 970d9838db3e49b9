"""Messages between front ends and actors.

This module pickles the messages, because Ray's own pickling makes arrays read-only, replaces errors by other errors,
and takes longer.
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
"""Number of a feed's newest events that are reported with every change."""


@dataclass(frozen=True)
class Question:
    """One call: a command for a replica, which is given by its stored name.

    Parameters
    ----------
    id : id of the call, by which a front end can withdraw it
    seconds : time limit of the answer; None: only the limit of the actor's settings
    key : label of the caller's API key
    predicts : whether the caller predicts by copies, so that a small copy in the answer saves it a call
    request : id of the caller's request in the log
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
    """The reported state of a feed that is awake or not served; ``view`` has only its newest events."""

    version: int
    queue_depth: int
    returned: Return | None
    flow: Flow | None
    view: Forecasts | None = field(default=None, compare=False)

    @classmethod
    def of(cls, feed: HostedFeed) -> FeedNow:
        """Return the state of a feed in its actor."""
        now = feed.queue_depth, feed.returned, feed.flow
        try:
            seen = feed.view
        except Restoring:
            return cls(0, *now)
        return cls(seen.version, *now, replace(seen, events=tuple(seen.events[-EVENTS:])))


RESTING = FeedNow(0, 0, None, None)
"""The state of a feed at rest."""


@dataclass(frozen=True)
class View:
    """The last reported state of a replica, ``now``; for a replica at rest, ``now`` is its entry in the index.

    ``life``, the actor's incarnation and a moment, identifies the period since the replica was last loaded. ``life``
    changes after the replica was at rest, or was deleted and created again, or its actor was restarted. Within an
    incarnation, ``moment`` shows which of two views is newer."""

    spec: ModelSpec | FeedSpec
    state: ServingState
    reason: str | None
    stale: bool
    now: Description | FeedNow | Indexed
    life: tuple[str, int]
    moment: int = field(default=0, compare=False)

    @classmethod
    def of(cls, replica: HostedModel | HostedFeed, life: tuple[str, int], moment: int) -> View:
        """Return the present view of a replica in its actor."""
        seen = FeedNow.of(replica) if isinstance(replica, HostedFeed) else replica.describe()
        now = replica.indexed or seen
        return cls(replica.spec, replica.state, replica.reason, replica.stale, now, life, moment)

    @property
    def rests(self) -> bool:
        """Whether the replica is at rest."""
        return isinstance(self.now, Indexed)


@dataclass(frozen=True)
class Answer:
    """The answer to a call: its result or its error, and facts for the log.

    ``views`` has, by stored name, the views of the replicas that the call may have changed; ``copy`` is a copy of the
    model after the call, if it is small, for a front end that predicts by copies.
    """

    value: Any = None
    error: Exception | None = None
    views: dict[str, View] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    copy: Published | None = None

    def result(self) -> Any:
        """Return the result of the call, or raise its error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True)
class News:
    """The changes of an actor's replicas since a moment, and the present moment.

    ``views`` has None for deleted replicas, and no entry for replicas that were at rest all the time, which the
    store's index describes. ``line`` is the endpoint for short calls, if there is one.
    """

    incarnation: str
    moment: int
    views: dict[str, View | None]
    line: Endpoint | None = None


class _Pickler(pickle.Pickler):
    """Pickles errors by their attributes, because their constructors take other arguments than ``args``."""

    def reducer_override(self, value: Any) -> Any:
        """Reduce an error to a function that makes it again, and its class, ``args`` and other attributes."""
        if isinstance(value, Exception):
            return _error, (type(value), value.args, {k: v for k, v in vars(value).items() if k != "__notes__"})
        return NotImplemented


def _error(kind: type[Exception], arguments: tuple[Any, ...], parts: dict[str, Any]) -> Exception:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(parts)
    return error


def answered(call: Callable[..., Any], *arguments: Any, **named: Any) -> bytes:
    """Call a function, and return its result or its error as a packed Answer."""
    try:
        return packed(Answer(call(*arguments, **named)))
    except Exception as error:
        return packed(Answer(error=error))


def packed(value: Any) -> bytes:
    """Return the bytes of a message; only an Answer can contain an error."""
    if not (isinstance(value, Answer) and value.error is not None):
        return pickle.dumps(value, protocol=5)
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def unpacked(data: bytes) -> Any:
    """Return the message in bytes that another process of this service has sent."""
    return pickle.loads(data)
