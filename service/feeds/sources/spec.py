"""The settings of a feed's source."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

STORE = "store"
"""Name of the Redis that keeps the models."""
Key = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[!-~]+$")]
"""A key of Redis in printable letters."""


class RedisStreamSpec(BaseModel):
    """A Redis Stream; its entries' fields are the columns.

    ``connection`` names one of LIVESVM_SOURCES, so that no credentials come with a feed, or are shown with it.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    kind: Literal["redis-stream"] = "redis-stream"
    connection: str = Field(
        default=STORE,
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="One of LIVESVM_SOURCES; `store`: the Redis of LIVESVM_REDIS_URL.",
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
    count: int = Field(default=100, ge=1, le=1000, description="Most entries that are taken at once.")

    def group_of(self, feed: str) -> str:
        """Return the consumer group."""
        return self.group or f"livesvm:{feed}"

    def dead_letters_of(self, feed: str) -> str:
        """Key of the dead letters."""
        return self.dead_letters or f"{self.stream}:dead:{feed}"
