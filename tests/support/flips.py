"""Bytes with one bit changed."""

from __future__ import annotations

from collections.abc import Iterator


def flips(data: bytes) -> Iterator[bytes]:
    """Yield the data with one bit flipped, in each of its bytes."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
