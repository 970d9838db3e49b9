"""From what a feed is told of its source to the source."""

from __future__ import annotations

from livesvm.service.feeds.sources.base import Source
from livesvm.service.feeds.sources.spec import STORE, RedisStreamSpec
from livesvm.service.settings import Settings
from livesvm.service.store.connect import named_urls
from livesvm.solvers.errors import InvalidInput


def url_of(spec: RedisStreamSpec, settings: Settings) -> str:
    """Where the source is; raises InvalidInput if this service knows no connection of that name."""
    known = named_urls(settings.sources)
    if settings.redis_url:
        known = {STORE: settings.redis_url} | known
    if spec.connection not in known:
        names = ", ".join(sorted(known)) or "none"
        reason = f"this service has no connection {spec.connection!r}; LIVESVM_SOURCES names them, now {names}"
        raise InvalidInput(reason, field="source.connection")
    return known[spec.connection]


def open_source(spec: RedisStreamSpec, feed: str, time: str | None, settings: Settings, consumer: str) -> Source:
    """The source of a feed whose column of times is ``time``; connects when first used. Raises InvalidInput."""
    from livesvm.service.feeds.sources.redis_stream import RedisStream  # its library is only loaded where it is used

    url = url_of(spec, settings)
    return RedisStream(spec, feed, time, url, consumer, settings.redis_seconds)
