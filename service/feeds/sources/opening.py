"""Sources, made from their descriptions."""

from __future__ import annotations

from livesvm.service.feeds.sources.base import Source
from livesvm.service.feeds.sources.spec import STORE, RedisStreamSpec
from livesvm.service.settings import Settings
from livesvm.service.store.connect import named_urls, root_of
from livesvm.solvers.errors import InvalidInput


def url_of(spec: RedisStreamSpec, settings: Settings) -> str:
    """Return where the source is.

    Raises InvalidInput if this service knows no connection of that name, or if a key is one where a store of its prefix
    keeps models, in whatever Redis: two connections may lead to the same.
    """
    _check_keys(spec, f"{root_of(settings.redis_prefix)}:")
    known = named_urls(settings.sources)
    if settings.redis_url:
        known = {STORE: settings.redis_url} | known
    if spec.connection not in known:
        names = ", ".join(sorted(known)) or "none"
        reason = f"this service has no connection {spec.connection!r}; LIVESVM_SOURCES names them, now {names}"
        raise InvalidInput(reason, field="source.connection")
    return known[spec.connection]


def _check_keys(spec: RedisStreamSpec, own: str) -> None:
    for name, key in (("dead_letters", spec.dead_letters), ("stream", spec.stream), ("stream", f"{spec.stream}:")):
        if key is not None and key.startswith(own):
            reason = f"keys that begin with {own} belong to this service's models; name another key"
            raise InvalidInput(reason, field=f"source.{name}")


def open_source(
    spec: RedisStreamSpec,
    feed: str,
    time: str | None,
    settings: Settings,
    consumer: str,
    texts: frozenset[str] = frozenset(),
) -> Source:
    """Return the source of a feed whose column of times is ``time``; connects when first used. Raises InvalidInput.

    Columns in ``texts`` hold text, also where that looks like a number.
    """
    from livesvm.service.feeds.sources.redis_stream import RedisStream  # its library is only loaded where it is used

    url = url_of(spec, settings)
    return RedisStream(spec, feed, time, url, consumer, settings.redis_seconds, texts)
