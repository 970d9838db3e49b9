"""The summary of a model or feed at rest, stored next to its snapshot: its specification and its description."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from livesvm.service.store import codec

FORMAT = 2
_RESTS, _WAKES = b"r", b"w"


class Summary(NamedTuple):
    """The decoded summary of a model or feed.

    ``spec`` is the specification as JSON. ``memory`` is the number of bytes that the model or feed held in memory when
    it was awake. ``reported`` is the description of the model or feed, None while its state is not known. ``wakes`` is
    True for a feed that reads a source, which the service wakes at its start.
    """

    spec: str
    memory: int = 0
    reported: dict[str, Any] | None = None
    wakes: bool = False

    def encode(self) -> bytes:
        """Encode the summary as a few hundred bytes."""
        payload = codec.pack({"format": FORMAT, "found": [self.spec, self.memory, self.reported]})
        return (_WAKES if self.wakes else _RESTS) + zlib.compress(payload, 1)


def read(data: bytes) -> Summary | None:
    """Decode a summary; return None if this version of the program cannot read the bytes."""
    try:
        document = codec.unpack(zlib.decompress(data[1:]))
        spec, memory, reported = document["found"]
        return Summary(spec, memory, reported, wakes(data)) if document["format"] == FORMAT else None
    except (zlib.error, ValueError, KeyError, TypeError):
        return None


def wakes(data: bytes) -> bool:
    """Return whether the service must wake a model or feed when it starts, according to its encoded summary."""
    return data[:1] == _WAKES
