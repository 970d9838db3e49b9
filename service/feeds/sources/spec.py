"""The settings of a feed's source."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from livesvm.service.feeds.sources.base import Layout
from livesvm.solvers.errors import InvalidInput

STORE = "store"
"""Name of the Redis that keeps the models."""
ARRIVAL = "arrival"
"""In place of a field: the time at which a message came."""
Connection = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
"""A name in LIVESVM_SOURCES, so that no credentials come with a feed, or are shown with it."""
Key = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[!-~]+$")]
"""A key of Redis in printable letters."""
Topic = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00]+$")]
Column = Annotated[str, Field(min_length=1, max_length=128)]
Count = Annotated[int, Field(ge=1, le=1000)]


class RedisStreamSpec(BaseModel):
    """A Redis Stream as a source; fields of entries are the columns. ``connection`` is a name from LIVESVM_SOURCES."""

    model_config = ConfigDict(strict=True, extra="forbid")

    in_flight: ClassVar[int] = 0  #: as its positions have one order
    stamps: ClassVar[bool] = False  #: an entry that comes again has the time that it had
    kind: Literal["redis-stream"] = "redis-stream"
    connection: Connection = Field(
        default=STORE, description="One of LIVESVM_SOURCES; `store`: the Redis of LIVESVM_REDIS_URL."
    )
    stream: Key = Field(description="Key of the stream.")
    group: Key | None = Field(
        default=None, description="The consumer group, which is this feed's alone; `livesvm:` and its id when absent."
    )
    dead_letters: Key | None = Field(
        default=None,
        description="Key of the stream for entries that are refused, with the reason; that of the stream, `:dead:` and "
        "the feed's id when absent.",
    )
    start: Literal["first", "new"] = Field(
        default="first", description="Whether what the stream holds at the creation is read."
    )
    times: Literal["column", "entry"] = Field(
        default="column", description="`entry`: an entry's id, in milliseconds since 1970, is its time."
    )
    count: Count = Field(default=100, description="Most entries that are taken at once.")

    def check(self, layout: Layout) -> None:
        """Accept any feed or fleet."""

    def group_of(self, feed: str) -> str:
        """Return the name of the feed's consumer group."""
        return self.group or f"livesvm:{feed}"

    def dead_letters_of(self, feed: str) -> str:
        """Return the key of the stream of dead letters."""
        return self.dead_letters or f"{self.stream}:dead:{feed}"

    def shown(self, feed: str) -> dict[str, str]:
        """Return the names and addresses of this source that answers show."""
        names = {"kind": self.kind, "connection": self.connection, "stream": self.stream}
        return names | {"group": self.group_of(feed), "dead_letters": self.dead_letters_of(feed)}


class MqttSpec(BaseModel):
    """A source of MQTT topics, with one reading in each message. ``mqtt`` is a name from LIVESVM_SOURCES."""

    model_config = ConfigDict(strict=True, extra="forbid")

    kind: ClassVar[str] = "mqtt"
    mqtt: Connection = Field(description="One of LIVESVM_SOURCES, a broker.")
    topic: Topic = Field(description="The topic, or with `+` and `#` those of a fleet's series.")
    qos: Literal[0, 1] = Field(
        default=1, description="1: each message at least once; 0: messages while the service is away are lost."
    )
    payload: Literal["json", "csv", "number"] = Field(
        default="json",
        description="An object that has the columns as fields; one line of CSV; a number alone, which is the target.",
    )
    columns: list[Column] | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Those of a line of CSV, in its order; when absent the series, where the topic does not name it, "
        "the time and the target.",
    )
    time: Column | None = Field(
        default=None,
        description="Field that holds the time; `arrival`: when the message came; the feed's column when absent.",
    )
    series: Annotated[int, Field(ge=1, le=256)] | Column | None = Field(
        default=None,
        description="Of a fleet: the level of the topic that names the series, 1 the first, or a field; the fleet's "
        "column when absent.",
    )
    client_id: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[!-~]+$")] | None = Field(
        default=None,
        description="Under which the broker keeps the session, this feed's alone; made of its id and topic when "
        "absent.",
    )
    dead_letters: Topic | None = Field(
        default=None,
        description="Topic for messages that are refused, with the reason; `livesvm/dead/` and the feed's id when "
        "absent.",
    )
    session_seconds: Annotated[int, Field(ge=60, le=2**32 - 1)] = Field(
        default=7 * 86_400,
        description="Time for which the broker keeps what comes while the service is away; with MQTT 3.1.1 the broker "
        "decides.",
    )
    count: Count = Field(default=100, description="Most messages that are taken at once.")

    @field_validator("qos", mode="before")
    @classmethod
    def _at_most_once(cls, value: Any) -> Any:
        if value == 2:
            raise ValueError(
                "2 loses messages in a kill, as it acknowledges them before they are taken; use 1, a reading that "
                "comes twice is ignored"
            )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _check_filter(self.topic)
        if self.dead_letters is not None and any(letter in self.dead_letters for letter in "+#"):
            raise InvalidInput("is one topic, without + and #", field="dead_letters")
        if self.columns is not None and self.payload != "csv":
            raise InvalidInput(f"go with payload 'csv', not with {self.payload!r}", field="columns")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise InvalidInput("has a column twice", field="columns")
        if self.payload == "number" and isinstance(self.series, str):
            raise InvalidInput(
                "a number has no fields: give the level of the topic that names the series", field="series"
            )
        return self

    @property
    def connection(self) -> str:
        """Return the name of the broker's connection."""
        return self.mqtt

    @property
    def in_flight(self) -> int:
        """Return how many messages may come again; a broker that reconnects may exceed ``receive_maximum``."""
        return 2 * self.receive_maximum

    @property
    def receive_maximum(self) -> int:
        """Return how many unacknowledged messages the broker may send: one batch in work, and the next one."""
        return 2 * self.count

    @property
    def stamps(self) -> bool:
        """Return whether messages get their time of arrival, so that a repeated message has a new time."""
        return self.time == ARRIVAL

    def names_of(self, layout: Layout) -> Sequence[str]:
        """Return the names of the columns in a line of CSV."""
        return self.columns or self._fields(layout)

    def _fields(self, layout: Layout) -> list[str]:
        """Return the fields that a message must have: series and time, unless given otherwise, and the target."""
        time = None if self.stamps else self.time or layout.time
        series = None if isinstance(self.series, int) else self.series or layout.series
        return [name for name in (series, time) if name is not None] + list(layout.columns[:1])

    def check(self, layout: Layout) -> None:
        """Raise InvalidInput if the source does not fit a feed or fleet with this layout."""
        if self.time is not None and layout.time is None:
            raise InvalidInput("readings of this feed have no times, as its `time` is null", field="source.time")
        if self.payload == "number" and not self.stamps and layout.time is not None:
            raise InvalidInput("a number has no field for the time: say 'arrival'", field="source.time")
        if layout.series is None:
            if self.series is not None:
                raise InvalidInput("belongs to fleets; a feed is one series", field="source.series")
            if any(letter in self.topic for letter in "+#"):
                raise InvalidInput("names many topics, and a feed is one series; create a fleet", field="source.topic")
        elif self.payload == "number" and self.series is None:
            raise InvalidInput("say which level of the topic names the series", field="source.series")
        if isinstance(self.series, int):
            _check_level(self.topic, self.series)
        if _matches(self.dead_letters_of("feed"), self.topic):
            raise InvalidInput("is among the topics that are read; name another one", field="source.dead_letters")
        for name in reversed(self._fields(layout)) if self.payload == "csv" else ():
            if name not in self.names_of(layout):
                raise InvalidInput(f"do not have {name!r}", field="source.columns")

    def client_of(self, feed: str) -> str:
        """Return the MQTT client id, which depends on the topic, so that a new topic never gets an old session."""
        mark = sha256(self.topic.encode()).hexdigest()[:8]
        return self.client_id or f"livesvm-{feed}-{mark}"

    def dead_letters_of(self, feed: str) -> str:
        """Return the topic to which dead letters are published."""
        return self.dead_letters or f"livesvm/dead/{feed}"

    def shown(self, feed: str) -> dict[str, str]:
        """Return the names and addresses of this source that answers show."""
        names = {"kind": self.kind, "connection": self.mqtt, "topic": self.topic}
        return names | {"client_id": self.client_of(feed), "dead_letters": self.dead_letters_of(feed)}


def _kind_of(value: Any) -> str:
    is_mqtt = "mqtt" in value if isinstance(value, dict) else isinstance(value, MqttSpec)
    return "source[mqtt]" if is_mqtt else "source[redis-stream]"


SourceSpec = Annotated[
    Annotated[RedisStreamSpec, Tag("source[redis-stream]")] | Annotated[MqttSpec, Tag("source[mqtt]")],
    Discriminator(_kind_of),
]
"""A source: with ``mqtt`` a broker's topics, otherwise a Redis Stream. Faults name fields without these tags."""


def _check_filter(topic: str) -> None:
    """Raise InvalidInput unless a broker accepts the topic filter, and keeps the order within each topic."""
    levels = topic.split("/")
    if any(("+" in level and level != "+") or ("#" in level and level != "#") for level in levels):
        raise InvalidInput("has + and # as whole levels, as in meters/+/load", field="topic")
    if "#" in levels[:-1]:
        raise InvalidInput("has # at its end alone", field="topic")
    if levels[0] == "$share":
        raise InvalidInput("is not shared: several readers would mix the order of readings", field="topic")


def _matches(topic: str, pattern: str) -> bool:
    """Return whether a topic matches a topic filter."""
    levels, wanted = topic.split("/"), pattern.split("/")
    if wanted[-1] == "#":
        levels, wanted = levels[: len(wanted) - 1], wanted[:-1]
    return len(levels) == len(wanted) and all(w in ("+", level) for level, w in zip(levels, wanted, strict=True))


def _check_level(topic: str, series: int) -> None:
    levels = topic.split("/")
    level = levels[min(series, len(levels)) - 1]
    if level not in ("+", "#") or (series > len(levels) and level == "+"):
        raise InvalidInput(f"level {series} of {topic} is no + that names the series", field="source.series")
