"""Open sources by their specifications."""

from __future__ import annotations

from importlib.util import find_spec

from livesvm.service.access.brokers import is_broker, parse_broker
from livesvm.service.feeds.sources.base import Layout, Source
from livesvm.service.feeds.sources.spec import MqttSpec, RedisStreamSpec, SourceSpec
from livesvm.service.settings import Settings
from livesvm.service.store.connect import root_of
from livesvm.solvers.errors import InvalidInput


def url_of(spec: SourceSpec, settings: Settings) -> str:
    """Return the URL of a source's connection.

    Raises InvalidInput if this service knows no connection of that name and kind, or if a key of the source may be one
    of a store of models. All Redis servers are treated alike, because two connections may lead to one server.
    """
    field = "source.connection" if isinstance(spec, RedisStreamSpec) else "source.mqtt"
    if isinstance(spec, RedisStreamSpec):
        _check_keys(spec, f"{root_of(settings.redis_prefix)}:")
    elif find_spec("paho") is None:
        raise InvalidInput("needs livesvm[mqtt], which is not installed", field=field)
    known = settings.named_sources
    if spec.connection not in known:
        names = ", ".join(sorted(known)) or "none"
        reason = f"this service has no connection {spec.connection!r}; LIVESVM_SOURCES names them, now {names}"
        raise InvalidInput(reason, field=field)
    url = known[spec.connection]
    if is_broker(url) != isinstance(spec, MqttSpec):
        kinds = ("an MQTT broker", "Redis") if is_broker(url) else ("Redis", "an MQTT broker")
        raise InvalidInput(f"the connection {spec.connection!r} is {kinds[0]}, not {kinds[1]}", field=field)
    return url


def _check_keys(spec: RedisStreamSpec, own: str) -> None:
    for name, key in (("dead_letters", spec.dead_letters), ("stream", spec.stream), ("stream", f"{spec.stream}:")):
        if key is not None and key.startswith(own):
            reason = f"keys that begin with {own} belong to this service's models; name another key"
            raise InvalidInput(reason, field=f"source.{name}")


def open_source(spec: SourceSpec, feed: str, layout: Layout, settings: Settings, consumer: str) -> Source:
    """Return the source of a feed or fleet with the columns of ``layout``; it connects when it is first used.

    Raises InvalidInput. Cells that name a series are text, even if they look like numbers.
    """
    # The libraries are only loaded where they are used.
    url = url_of(spec, settings)
    if isinstance(spec, MqttSpec):
        from livesvm.service.feeds.sources.mqtt import MqttSource

        return MqttSource(spec, feed, layout, parse_broker(url))
    from livesvm.service.feeds.sources.redis_stream import RedisStream

    texts = frozenset() if layout.series is None else frozenset({layout.series})
    return RedisStream(spec, feed, layout.time, url, consumer, settings.redis_seconds, texts)
