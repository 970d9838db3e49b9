"""Calls that create, describe, pause, write back and delete feeds; ``readings.py`` has the calls for their readings."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from livesvm.service.api.answers.feeds import FeedDescription, FeedList, FeedSource
from livesvm.service.api.answers.learn import Writeback
from livesvm.service.api.bodies.reading import parse_json
from livesvm.service.api.requests import FeedRequest
from livesvm.service.api.routes.access import (
    PAGE,
    After,
    FeedId,
    Limit,
    Parts,
    Whole,
    awaited,
    json_of,
    moment,
    page_of,
    remove,
    response_of,
    up_to_date,
)
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.feeds.commands import Progress
from livesvm.service.feeds.source_reader import Flow
from livesvm.service.feeds.sources.spec import SourceSpec
from livesvm.service.history.names import stored_feed
from livesvm.service.hosting.handle import FeedHandle
from livesvm.service.lifecycle.parts import Service
from livesvm.service.resources.solve_scheduler import Solve

calls = Calls("feeds")


@calls("POST /feeds", "admin", "Create a feed", body=FeedRequest)
@answers(FeedDescription, "The new feed, before its first reading.", status=201)
def create(service: Parts, body: Whole) -> Response:
    """Create a feed. The only required setting is the column to forecast."""
    feeds, wanted = service.feeds(), parse_json(body, FeedRequest)
    live = feeds.create(wanted.id, wanted.spec())
    return response_of(description(feeds.find(live.id), service), status=201, headers={"location": f"/feeds/{live.id}"})


@calls("GET /feeds", "read", "List the feeds")
@answers(FeedList, "By id.")
def list_all(service: Parts, after: After = "", limit: Limit = PAGE) -> Response:
    """List feeds by id, without the settings that were tried; for more, call again with `after` set to `next`."""
    feeds = service.feeds()
    found, following = page_of(feeds, after, limit)
    return response_of(FeedList(feeds=[description(feed, service, whole=False) for feed in found], next=following))


@calls("GET /feeds/{id:feed}", "read", "Describe a feed")
@answers(FeedDescription, "The feed as it is now, with its record.")
async def describe(id: FeedId, service: Parts) -> Response:
    """Describe one feed: its settings with chosen values, its scores and those of naive forecasts, and its events."""
    feed = service.feeds().find(id)
    await up_to_date(feed)
    return response_of(description(feed, service))


@calls("DELETE /feeds/{id:feed}", "admin", "Delete a feed")
@answers(None, "The feed and all that was stored of it are gone.", status=204)
async def delete(id: FeedId, service: Parts) -> Response:
    """Delete a feed, its models, its jobs, and all of its stored data."""
    service.feeds().find(id)
    return await remove(service, stored_feed(id))


async def _paused(paused: bool, id: str, request: Request, service: Service) -> Response:
    live = service.feeds().get(id)
    await awaited(request, live.pause(paused), Solve())
    return response_of(description(service.feeds().find(id), service))


@calls("POST /feeds/{id:feed}/pause", "admin", "Pause a feed's source")
@answers(FeedDescription, "Entries wait in the source from now on, over restarts too.")
async def pause(id: FeedId, request: Request, service: Parts) -> Response:
    """Stop a feed from reading its source; the feed still accepts readings that callers send."""
    return await _paused(True, id, request, service)


@calls("POST /feeds/{id:feed}/resume", "admin", "Resume a feed's source")
@answers(FeedDescription, "Entries are taken again, from where it was paused.")
async def resume(id: FeedId, request: Request, service: Parts) -> Response:
    """Let a paused feed read its source again, from the entry at which it was paused."""
    return await _paused(False, id, request, service)


@calls("POST /feeds/{id:feed}/writeback", "admin", "Write a feed back that the store has lost")
@answers(Writeback, "The store holds the version that is served.")
async def write_back(id: FeedId, request: Request, service: Parts) -> Response:
    """Write a feed from memory to the store, if the store has lost the feed or some of its readings."""
    found = await awaited(request, service.feeds().get(id).write_back(), Solve())
    return json_of(found)


def description(feed: FeedHandle, service: Service, *, whole: bool = True) -> FeedDescription:
    """Return the description of a feed that answers contain."""
    awake, level = feed.shown, service.health.durability
    seen = awake or feed.glimpse
    if seen is None or (awake is None and feed.reason is not None):
        return FeedDescription(id=feed.id, state=feed.state, awake=False, error=feed.reason)
    found = {name: getattr(seen, name) for name in ("version", "position", "rows", "time")}
    found |= {"id": feed.id, "state": seen.state if feed.state == "live" else feed.state}
    found |= {"awake": awake is not None, "updated_at": moment(seen.updated_at)}
    if awake is not None:
        chosen = awake.settings["chosen"]
        found |= {
            "scores": awake.scores,
            "recent": awake.recent,
            "filling": awake.filling,
            "every": chosen["every"],
            "season": chosen["season"],
            "settings": {name: value for name, value in awake.settings.items() if whole or name != "tried"},
            "events": list(awake.announced) if whole else [],
            "source": source_told(feed.id, feed.spec.source, feed.flow, awake.progress),
            "durability": None if level is None else level.value,
            "queue_depth": feed.queue_depth,
            "recovery": None if feed.returned is None else vars(feed.returned),
        }
    return FeedDescription.model_validate(found)


def source_told(id: str, spec: SourceSpec | None, flow: Flow | None, progress: Progress) -> FeedSource | None:
    """Return the description of a feed's or a fleet's source that answers contain."""
    if spec is None or flow is None:
        return None
    backlog = flow.backlog
    return FeedSource.model_validate(
        {
            **spec.shown(id),
            "state": "failing" if flow.fault else "paused" if progress.paused else "reading",
            "fault": flow.fault,
            "taken": None if progress.taken is None else "-".join(map(str, progress.taken)),
            "newest_at": moment(flow.came_at),
            "backlog": None if backlog is None else backlog.entries,
            "backlog_at_least": backlog is not None and backlog.at_least,
            "refused": progress.refused,
        }
    )
