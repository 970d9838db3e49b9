"""The summary of a replica at rest, as bytes next to its snapshot: its specification, and some numbers."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from livesvm.service.store import codec

FORMAT = 2
_RESTS, _WAKES = b"r", b"w"


class Summary(NamedTuple):
    """What a summary tells.

    ``spec`` is the specification as JSON, ``memory`` the bytes that the replica held awake, ``reported`` what its kind
    shows, None while its state is not known. It ``wakes`` with the service where something is to be read for it.
    """

    spec: str
    memory: int = 0
    reported: dict[str, Any] | None = None
    wakes: bool = False

    def encode(self) -> bytes:
        """Return some hundreds of bytes."""
        payload = codec.pack({"format": FORMAT, "found": [self.spec, self.memory, self.reported]})
        return (_WAKES if self.wakes else _RESTS) + zlib.compress(payload, 1)


def read(data: bytes) -> Summary | None:
    """Return the summary in the bytes; None if there is none, or only one that this version does not read."""
    try:
        document = codec.unpack(zlib.decompress(data[1:]))
        spec, memory, reported = document["found"]
        return Summary(spec, memory, reported, wakes(data)) if document["format"] == FORMAT else None
    except (zlib.error, ValueError, KeyError, TypeError):
        return None


def wakes(data: bytes) -> bool:
    """Return whether a replica wakes with the service."""
    return data[:1] == _WAKES
