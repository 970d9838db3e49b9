"""Readings from a Redis Stream, by a consumer group that no other feed uses.

``XREADGROUP >`` is used only to have entries delivered to the group. The feed then takes all entries after its position
that are delivered and not acknowledged, to whichever consumer of the group they were delivered (``XAUTOCLAIM``). So no
entry is missed, even if entries were delivered to a service that has died, or that does not know yet that another
service has taken over the feed. Entries are acknowledged when their effect is durable; a refused entry is written to
the dead letters and acknowledged in one step.

If Redis has lost the group, it is created again at the feed's position.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import redis

from livesvm.service.feeds.cells import cell
from livesvm.service.feeds.sources.base import Backlog, DeadLetter, Position, SourceEntry, SourceError
from livesvm.service.feeds.sources.spec import RedisStreamSpec
from livesvm.service.store.base import StoreError
from livesvm.service.store.connect import check_server, connect

MOST_COLUMNS = 512
LONGEST_NAME = 128
PAGE = 1000
"""Entries that are asked for at once where they are only counted or acknowledged."""
COMMANDS = """XGROUP CREATE KEY group $, XGROUP SETID KEY group 0, XGROUP DESTROY KEY group, XACK KEY group 1-0,
XREADGROUP GROUP group consumer STREAMS KEY >, XAUTOCLAIM KEY group consumer 0 0, XPENDING KEY group, XRANGE KEY - +,
XINFO STREAM KEY, XINFO GROUPS KEY, XADD KEY * field value, MULTI, EXEC"""
"""What is asked of the server, as :func:`livesvm.service.store.connect.check_server` reads it."""
META = ("_entry", "_feed", "_field", "_reason")
"""What a dead letter says before the fields of its entry."""

log = logging.getLogger(__name__)

Fields = dict[bytes, bytes]


class RedisStream:
    """The Redis source of one feed; see :class:`livesvm.service.feeds.sources.base.Source`.

    Parameters
    ----------
    spec : which stream, group and dead letters
    feed : id of the feed
    time : its column of times, None if there is none
    url : as :mod:`livesvm.service.store.connect` reads it
    consumer : this service's name in the group
    seconds : that Redis has for a call, the waiting for entries not included
    texts : other columns that are text whatever they look like
    """

    def __init__(
        self,
        spec: RedisStreamSpec,
        feed: str,
        time: str | None,
        url: str,
        consumer: str,
        seconds: float,
        texts: frozenset[str] = frozenset(),
    ) -> None:
        self._spec, self._feed, self._time = spec, feed, time
        self._texts = texts | ({time} if time is not None else set())
        self._stream, self._group, self._dead = spec.stream, spec.group_of(feed), spec.dead_letters_of(feed)
        self._consumer = consumer
        self._client = connect(url, seconds)
        self._waiting = connect(url, 2 * seconds)  # never asked to wait longer than ``seconds``
        self._longest = seconds

    # What is asked of it.

    def begin(self, taken: Position | None, dead: Sequence[DeadLetter]) -> bool:
        """Create the group if it is missing, and acknowledge entries that the feed took before a service died."""
        with self._errors():
            check_server(self._client, COMMANDS, self._stream)
            self._make_group(taken)
            if taken is not None:
                self._checked_end(taken)
                self._settle_until(taken, dead)
        return False

    def fetch(self, taken: Position | None, most: int, seconds: float) -> list[SourceEntry]:
        """Return entries that are delivered and not acknowledged; if there are none, have the next ones delivered."""
        with self._errors():
            found = self._claimed(taken, most)
            if not found and self._delivered(taken, most, seconds):
                found = self._claimed(taken, most)
        return found

    def settle(self, entries: Sequence[Position], dead: Sequence[DeadLetter]) -> None:
        """Acknowledge entries; write a refused one to the dead letters in the same step."""
        with self._errors():
            buried = {letter.position for letter in dead}
            ids = [_id(position) for position in entries if position not in buried]
            if ids:
                self._client.xack(self._stream, self._group, *ids)
            for letter in dead:
                self._bury(letter)

    def backlog(self, taken: Position | None) -> Backlog:
        """Return the count of waiting entries by the server, or before Redis 7 by reading one page of entries."""
        with self._errors():
            if taken is not None and self._checked_end(taken) == taken:
                return Backlog(0)  # a server that was killed may count entries that were read as behind
            for group in self._client.xinfo_groups(self._stream):
                if group["name"] == self._group.encode() and group.get("lag") is not None:
                    return Backlog(int(group["lag"]) + int(group["pending"]))
            found = self._client.xrange(self._stream, _behind(taken), "+", count=PAGE)
        return Backlog(len(found), len(found) == PAGE)

    def forget(self) -> None:
        """Remove the feed's consumer group."""
        with self._errors(), suppress(redis.ResponseError):  # no stream, no group
            self._client.xgroup_destroy(self._stream, self._group)

    def close(self) -> None:
        """Close the connections."""
        with suppress(redis.RedisError):
            self._client.close()
            self._waiting.close()

    # Its parts.

    def _make_group(self, taken: Position | None) -> None:
        start = _id(taken) if taken is not None else "0" if self._spec.start == "first" else "$"
        try:
            self._client.xgroup_create(self._stream, self._group, start, mkstream=True)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
            if taken is None and self._spec.start == "first":  # left by another feed of that name
                self._client.xgroup_setid(self._stream, self._group, start)

    def _checked_end(self, taken: Position) -> Position:
        """Return the newest position; raises SourceError if it lies before ``taken``, as new entries would be lost."""
        end = _position(self._client.xinfo_stream(self._stream)["last-generated-id"])
        if (0, 0) < end < taken:
            raise SourceError(
                f"stream {self._stream} ends at {_id(end)}, before {_id(taken)}, which the feed has taken: it has lost "
                "entries, or is another one"
            )
        return end

    def _settle_until(self, taken: Position, dead: Sequence[DeadLetter]) -> None:
        """Acknowledge all entries that were delivered up to the position ``taken``."""
        while True:
            found = self._client.xpending_range(self._stream, self._group, "-", _id(taken), PAGE)
            positions = [_position(one["message_id"]) for one in found]
            mine = set(positions)
            self.settle(positions, [letter for letter in dead if letter.position in mine])
            if len(found) < PAGE:
                return

    def _delivered(self, taken: Position | None, most: int, seconds: float) -> bool:
        """Have the next entries delivered to the group; return whether there are any."""
        wait = max(1, int(1000 * min(seconds, self._longest)))
        answer = self._waiting.xreadgroup(self._group, self._consumer, {self._stream: ">"}, count=most, block=wait)
        positions = [_position(id_) for _, entries in answer or [] for id_, _ in entries]
        if taken is not None and positions and positions[0] <= taken:  # again, or of another stream
            self._checked_end(taken)
            self.settle([position for position in positions if position <= taken], [])
        return bool(positions)

    def _claimed(self, taken: Position | None, most: int) -> list[SourceEntry]:
        """Return the entries after ``taken`` that are delivered and not acknowledged, in order."""
        answer = self._client.xautoclaim(self._stream, self._group, self._consumer, 0, _behind(taken), count=most)
        there = [self._entry(id_, fields) for id_, fields in answer[1] if id_ is not None and fields is not None]
        gone = len(answer[1]) - len(there)
        if gone:  # before Redis 7 they stay delivered
            self._forget_removed(taken, most)
        gone += len(answer[2]) if len(answer) > 2 else 0
        if gone:
            log.warning(
                "feed %s: %d entries of stream %s were removed before they came", self._feed, gone, self._stream
            )
        return there

    def _forget_removed(self, taken: Position | None, most: int) -> None:
        for one in self._client.xpending_range(self._stream, self._group, _behind(taken), "+", most):
            if not self._client.xrange(self._stream, one["message_id"], one["message_id"]):
                self._client.xack(self._stream, self._group, one["message_id"])

    def _bury(self, letter: DeadLetter) -> None:
        """Write a refused entry with its fields to the dead letters, and acknowledge it, unless that is done."""
        id_ = _id(letter.position)
        if not self._client.xpending_range(self._stream, self._group, id_, id_, 1):
            return
        found = self._client.xrange(self._stream, id_, id_)
        fields = [part for pair in found[0][1].items() for part in pair] if found else []
        reasons = (id_, self._feed, letter.field or "", letter.reason)
        meta = [part for pair in zip(META, reasons, strict=True) for part in pair]
        pipe = self._client.pipeline(transaction=True)
        pipe.execute_command("XADD", self._dead, "*", *meta, *fields)
        pipe.xack(self._stream, self._group, id_)
        pipe.execute()

    def _entry(self, id_: bytes, fields: Fields) -> SourceEntry:
        position = _position(id_)
        try:
            row = _row(fields.items(), self._texts)
        except ValueError as error:
            return SourceEntry(position, {}, str(error))
        if self._spec.times == "entry" and self._time is not None:
            row[self._time] = position[0] / 1000.0
        return SourceEntry(position, row)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn Redis errors into SourceError, and drop connections that may be broken."""
        try:
            yield
        except StoreError as error:
            raise SourceError(f"stream {self._stream} cannot be read: {error}") from error
        except redis.RedisError as error:
            for client in (self._client, self._waiting):
                client.connection_pool.disconnect(inuse_connections=False)
            reason = str(error) or type(error).__name__
            raise SourceError(f"stream {self._stream} cannot be read: {reason}") from error


def _row(fields: Iterable[tuple[bytes, bytes]], texts: frozenset[str]) -> dict[str, Any]:
    """Return the columns of an entry; raises ValueError if the entry is no reading."""
    row = {}
    for name, text in fields:
        try:
            column = name.decode()
            row[column] = cell(text.decode(), column in texts)
        except UnicodeDecodeError:
            raise ValueError(f"the field {name[:32]!r} is no UTF-8") from None
        if len(column) > LONGEST_NAME:
            raise ValueError(f"a column's name has at most {LONGEST_NAME} letters")
    if len(row) > MOST_COLUMNS:
        raise ValueError(f"has {len(row)} columns, of {MOST_COLUMNS} at most")
    return row


def _position(id_: bytes) -> Position:
    ms, _, number = id_.partition(b"-")
    return int(ms), int(number)


def _id(position: Position) -> str:
    return "-".join(map(str, position))


def _behind(taken: Position | None) -> str:
    """Return the least id of an entry after the position ``taken``."""
    if taken is None:
        return "0-0"
    ms, number = taken
    return f"{ms}-{number + 1}" if number < 2**64 - 1 else f"{ms + 1}-0"
