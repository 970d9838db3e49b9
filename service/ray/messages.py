"""What a front end and the actor of a model say to each other, as bytes.

They are pickled here rather than by Ray, so that arrays arrive as ones that may be written, and errors as they are.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from livesvm.service.feeds.pump import Flow
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import View as FeedState
from livesvm.service.hosting.handle import Description, Return
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.ray.lines import Number

SERVED: frozenset[ServingState] = frozenset({"live", "fenced", "behind"})


@dataclass(frozen=True)
class Asked:
    """One call: of which model, or of what is stored under which name, which verb, with what.

    Parameters
    ----------
    id : by which the call can be withdrawn
    seconds : until the answer has to be there; None: the actor's own limit is all
    key : label of the API key that the caller has
    predicts : whether the caller predicts by copies, so that a small one of the model after the call saves it a call
    request : the caller's, by which it is found in the log
    """

    id: str
    model: str
    verb: str
    arguments: tuple[Any, ...] = ()
    seconds: float | None = None
    key: str | None = None
    predicts: bool = False
    request: str | None = None


@dataclass(frozen=True)
class View:
    """What a front end knows of a model without asking.

    Its ``life`` is another one after it was restored, or deleted and made again; within one, ``moment`` tells which of
    two views is newer."""

    spec: ModelSpec
    description: Description
    stale: bool
    can_predict: bool
    node: str
    life: tuple[str, int]
    moment: int = field(default=0, compare=False)

    @property
    def version(self) -> int:
        """The version that it tells of."""
        return self.description.version

    @property
    def published(self) -> Published:
        """The version as readers see it, without what it decides by."""
        now = self.description
        rest = now.n_features, now.n_support, now.C, now.updated_at, now.kernel or {}, now.robust, now.row_bytes
        classes = np.array(list(now.classes)) if now.classes else None
        told = now.classes, classes, self.spec.decision_function_shape, now.gamma, now.parameters, now.warnings
        return Published(now.version, None, now.sizes, *rest, False, *told)

    @property
    def is_served(self) -> bool:
        """Whether it answers at least those who read."""
        return self.description.state in SERVED

    def sample(self, id: str) -> ModelSample:
        """What the metrics show."""
        now = self.description
        return ModelSample(
            id, now.state, now.version, **vars(now.sizes), queue_depth=now.queue_depth, updated_at=now.updated_at
        )


@dataclass(frozen=True)
class FeedView:
    """The same of a feed; ``view`` has its newest events alone."""

    spec: FeedSpec | None
    state: ServingState
    reason: str | None
    node: str
    life: tuple[str, int]
    stale: bool
    view: FeedState | None = field(default=None, compare=False)
    queue_depth: int = 0
    returned: Return | None = None
    flow: Flow | None = None
    version: int = 0
    moment: int = field(default=0, compare=False)

    @property
    def is_served(self) -> bool:
        """Whether it answers at least those who read."""
        return self.state in SERVED


@dataclass(frozen=True)
class Answer:
    """What came of a call: its result or its error, the model after it, and facts for the log.

    ``copy`` is the version after it, for who predicts by copies, where it is small.
    """

    value: Any = None
    error: Exception | None = None
    view: View | FeedView | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    copy: Published | None = None


@dataclass(frozen=True)
class News:
    """What has changed in an actor since a moment, and the moment that this is.

    ``names`` are those of all; ``line`` is where short calls may go, if there is such a place."""

    incarnation: str
    moment: int
    views: dict[str, View | FeedView]
    names: frozenset[str]
    line: Number | None = None


class _Pickler(pickle.Pickler):
    """Pickles errors by what they hold, as their constructors take other arguments than they keep."""

    def reducer_override(self, value: Any) -> Any:
        """An error: its class, its message, what it holds beside."""
        if isinstance(value, Exception):
            return _error, (type(value), value.args, {k: v for k, v in vars(value).items() if k != "__notes__"})
        return NotImplemented


def _error(kind: type[Exception], arguments: tuple[Any, ...], parts: dict[str, Any]) -> Exception:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(parts)
    return error


def packed(value: Any) -> bytes:
    """Bytes of a message."""
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def unpacked(data: bytes) -> Any:
    """The message in bytes that an actor or a front end of this service has sent."""
    return pickle.loads(data)
