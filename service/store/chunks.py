"""A snapshot as chunks behind a pointer that holds their SHA-256: no altered, missing or extra byte goes unnoticed."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from service.store.base import SnapshotInfo, StoreDamaged

CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Pointer:
    """Where the chunks of one snapshot are, and what they must be."""

    nonce: str
    chunks: int
    size: int
    sha256: str
    version: int
    saved_at: float

    @classmethod
    def of(cls, data: bytes, version: int) -> Pointer:
        """The pointer to new chunks of these bytes."""
        chunks = max(1, -(-len(data) // CHUNK_BYTES))
        return cls(uuid.uuid4().hex, chunks, len(data), hashlib.sha256(data).hexdigest(), version, time.time())

    def encode(self) -> bytes:
        """JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> Pointer:
        """The pointer in ``data``; raises StoreDamaged."""
        try:
            return cls(**json.loads(data or b""))
        except (ValueError, TypeError) as error:
            raise StoreDamaged("a snapshot's pointer is missing or damaged") from error

    def info(self, sequence: int) -> SnapshotInfo:
        """What it says of its snapshot."""
        return SnapshotInfo(sequence, self.version, self.saved_at, self.size)


def split(data: bytes) -> Iterator[bytes]:
    """The chunks of ``data``, at least one."""
    for start in range(0, max(1, len(data)), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


def join(chunks: Sequence[bytes | None], pointer: Pointer, what: str) -> bytes:
    """The bytes that were split; raises StoreDamaged."""
    data = b"".join(chunk or b"" for chunk in chunks)
    if len(data) != pointer.size or hashlib.sha256(data).hexdigest() != pointer.sha256:
        raise StoreDamaged(f"{what} does not match its checksum")
    return data
