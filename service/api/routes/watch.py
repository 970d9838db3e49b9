"""The call that streams changes of all models and feeds and of the service's health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TypeVar

from fastapi import Request
from starlette.responses import Response

from livesvm.service.access.keys import SCOPES, allows
from livesvm.service.api.answers.operations import Access
from livesvm.service.api.routes.access import Credentials, Parts, moment, response_of
from livesvm.service.api.routes.calls import EVENTS, Calls, answers
from livesvm.service.api.streams import Event, event_stream
from livesvm.service.errors import UnknownFeed, UnknownModel
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.handle import FeedHandle, Hosted, ModelHandle
from livesvm.service.lifecycle.parts import Service

LOOK_SECONDS = 0.5
"""Interval of checks of all models and feeds for changes."""
SHOWN = 1000
"""Number of models and of feeds, first by id, that are always reported; others are reported while awake."""
_SHOWN = ("state", "awake", "version", "n_support", "C", "predicted", "queue_depth", "error")
_SCORED = ("step", "mae", "last_value_mae", "seasonal_mae")

A = TypeVar("A", bound=Hosted)

calls = Calls("operations")


@calls("GET /events", "read", "Watch the service")
@answers(EVENTS, "Events, until the service stops.")
async def watch(request: Request, service: Parts) -> Response:
    """Send a server-sent event with all models and feeds and the service's health, and then events with changes.

    Each event has `ready`, `reasons` and `degraded` as in /health/ready, the `models` and `feeds` that are new or have
    changed, and the ids of deleted models in `gone` and of deleted feeds in `gone_feeds`. Each new stream begins with
    all models and feeds again.
    """
    return event_stream(request, ChangedRows(service).look, LOOK_SECONDS)


@calls("GET /access", None, "See what your API key allows")
@answers(Access, "What it allows.")
async def access(request: Request, service: Parts, given: Credentials) -> Response:
    """Return the scope of the request's API key; if no keys are configured, every caller has all scopes."""
    key = service.keys.find("" if given is None else given.credentials)
    held = SCOPES[-1] if not service.keys.known else None if key is None else key.scope
    needed: dict[str, str | None] = request.app.state.paths
    paths = None if held is None else sorted(path for path, least in needed.items() if not least or allows(held, least))
    found = {"keys": bool(service.keys.known), "label": key and key.label, "scope": held, "paths": paths}
    return response_of(Access.model_validate(found))


class ChangedRows:
    """The state of the service that the reader of one stream already knows; events contain only later changes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._models, self._feeds = _Kept(), _Kept()
        self._health: tuple[list[str], list[str]] | None = None
        self._last: Event | None = None

    def look(self) -> Event | None:
        """Return an event with the changes since the last call; without changes, return the last event again."""
        service = self._service
        health = service.health.reasons(), service.health.degraded()
        models, feeds = service.hosting.models, service.hosting.feeds
        new, gone = self._models.compare(models.glance(SHOWN))
        new_feeds, gone_feeds = self._feeds.compare(feeds.glance(SHOWN))
        if new or gone or new_feeds or gone_feeds or health != self._health:
            data = {"ready": not health[0], "reasons": health[0], "degraded": health[1]}
            data |= {"models": _rows(models, new, _row), "gone": gone}
            data |= {"feeds": _rows(feeds, new_feeds, _feed_row), "gone_feeds": gone_feeds}
            self._last = Event("service", data)
        self._health = health
        return self._last


class _Kept:
    """The states of models or feeds at the last comparison, by id."""

    def __init__(self) -> None:
        self._seen: Mapping[str, object] = {}

    def compare(self, now: Mapping[str, object]) -> tuple[list[str], list[str]]:
        """Return the ids that are new or have another state than at the last call, and the ids that are deleted."""
        new = [id_ for id_, seen in now.items() if seen != self._seen.get(id_)]
        gone = sorted(self._seen.keys() - now.keys())
        self._seen = now
        return new, gone


def _rows(home: Collection[A], ids: Iterable[str], row: Callable[[A], dict[str, object]]) -> list[dict[str, object]]:
    """Return a description of each model or feed with one of these ids, except deleted ones."""
    rows = []
    for id_ in ids:
        with suppress(UnknownModel, UnknownFeed):
            rows.append(row(home.find(id_)))
    return rows


def _row(model: ModelHandle) -> dict[str, object]:
    """Return the description of a model in an event."""
    now = model.describe()
    shown = {name: getattr(now, name) for name in _SHOWN}
    shown |= {"untrained": any(one["name"] == "untrained" for one in now.warnings)}
    return {"id": model.id, "task": model.spec.task, "updated_at": moment(now.updated_at)} | shown | asdict(now.sizes)


def _feed_row(feed: FeedHandle) -> dict[str, object]:
    """Return the description of a feed in an event; a feed at rest is not woken, and has fewer fields."""
    awake, reason = feed.shown, feed.reason if feed.shown is None else None
    row: dict[str, object] = {"id": feed.id, "state": feed.state, "awake": awake is not None, "error": reason}
    seen = awake or feed.glimpse
    if seen is None or reason is not None:
        return row
    if awake is not None:
        recent = [{name: score.get(name) for name in _SCORED} for score in awake.recent]
    else:
        recent = [{"step": step.step, "mae": step.error, "last_value_mae": step.naive_error} for step in seen.steps]
    row |= {"target": feed.spec.target, "position": seen.position, "time": seen.time}
    row |= {"updated_at": moment(seen.updated_at), "recent": recent}
    return row | {"state": seen.state if feed.state == "live" else feed.state}
