"""The summary of a replica at rest, which is stored next to its snapshot: its specification, and some numbers."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from livesvm.service.store import codec

FORMAT = 2
_RESTS, _WAKES = b"r", b"w"


class Summary(NamedTuple):
    """The decoded summary of a replica.

    ``spec`` is the specification as JSON, ``memory`` the bytes that the replica held when awake, ``reported`` the
    description of its kind, None while its state is not known. A replica with a source ``wakes`` with the service.
    """

    spec: str
    memory: int = 0
    reported: dict[str, Any] | None = None
    wakes: bool = False

    def encode(self) -> bytes:
        """Return the summary as some hundreds of bytes."""
        payload = codec.pack({"format": FORMAT, "found": [self.spec, self.memory, self.reported]})
        return (_WAKES if self.wakes else _RESTS) + zlib.compress(payload, 1)


def read(data: bytes) -> Summary | None:
    """Return the summary in the bytes; None if the bytes hold no summary that this version can read."""
    try:
        document = codec.unpack(zlib.decompress(data[1:]))
        spec, memory, reported = document["found"]
        return Summary(spec, memory, reported, wakes(data)) if document["format"] == FORMAT else None
    except (zlib.error, ValueError, KeyError, TypeError):
        return None


def wakes(data: bytes) -> bool:
    """Return whether a replica wakes with the service, as the bytes of its summary say."""
    return data[:1] == _WAKES
