"""Split snapshots into chunks; a pointer has the SHA-256 of all bytes, so that any change of a byte is noticed.

The pointer is JSON, and holds a SHA-256 of itself as well.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from livesvm.service.store.base import SnapshotInfo, StoreDamaged

CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Pointer:
    """The pointer to one snapshot: the nonce in the names of its chunks, their number, and the SHA-256 of all bytes."""

    nonce: str
    chunks: int
    size: int
    sha256: str
    version: int
    saved_at: float

    @classmethod
    def of(cls, data: bytes, version: int) -> Pointer:
        """Return a pointer, with a new nonce, to the chunks of a snapshot's bytes."""
        chunks = max(1, -(-len(data) // CHUNK_BYTES))
        return cls(uuid.uuid4().hex, chunks, len(data), hashlib.sha256(data).hexdigest(), version, time.time())

    def encode(self, sequence: int) -> bytes:
        """Return the pointer as JSON, with a checksum of the pointer and of the snapshot's record number."""
        return json.dumps(asdict(self) | {"check": self._check(sequence)}).encode()

    @classmethod
    def decode(cls, data: bytes | None, sequence: int) -> Pointer:
        """Return the pointer that ``data`` holds as JSON; raises StoreDamaged if its checksum does not match."""
        try:
            found = json.loads(data or b"")
            check = found.pop("check")
            pointer = cls(**found)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise StoreDamaged(f"the pointer to snapshot {sequence} is missing or damaged") from error
        if check != pointer._check(sequence):
            raise StoreDamaged(f"the pointer to snapshot {sequence} does not match its checksum")
        return pointer

    def _check(self, sequence: int) -> str:
        return hashlib.sha256(json.dumps([sequence, asdict(self)]).encode()).hexdigest()

    def info(self, sequence: int) -> SnapshotInfo:
        """Return the description of the snapshot to which this pointer points."""
        return SnapshotInfo(sequence, self.version, self.saved_at, self.size)


def split(data: bytes) -> Iterator[bytes]:
    """Yield ``data`` in chunks; empty data give one empty chunk."""
    for start in range(0, max(1, len(data)), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


def join(chunks: Sequence[bytes | None], pointer: Pointer, what: str) -> bytes:
    """Return the bytes of all chunks together; raises StoreDamaged if they do not match the pointer."""
    data = b"".join(chunk or b"" for chunk in chunks)
    if len(data) != pointer.size or hashlib.sha256(data).hexdigest() != pointer.sha256:
        raise StoreDamaged(f"{what} does not match its checksum")
    return data
