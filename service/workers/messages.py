"""Messages of a service to its workers, besides those to any process with replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from livesvm.service.settings import Settings
from livesvm.service.webhooks.spec import Webhook


@dataclass(frozen=True)
class Begin:
    """What all workers of a service are given when they are made.

    Parameters
    ----------
    settings : of each: its part of the memory and of the solves
    count : of the workers
    secret : by which frames are authenticated
    """

    settings: Settings
    count: int
    secret: bytes


class Webhooks(NamedTuple):
    """The webhooks that there are now, without their secrets; the first of them comes before all calls."""

    webhooks: tuple[Webhook, ...]


class Stop(NamedTuple):
    """The service stops: what is under way is ended, snapshots are written, and the store is closed."""


class AskStore(NamedTuple):
    """A call of the worker's part of the store: a method of the protocol, and its arguments."""

    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
