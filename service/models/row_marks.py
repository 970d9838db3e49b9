"""Marks of a dataset's rows: salted hashes of the rows' keys as text, by which an erasure finds the rows.

The keys themselves are not stored. Every dataset has its own salt, so that the keys of two datasets cannot be compared.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

HALVES = 2
"""How many numbers of 64 bits a mark has."""

Marks = NDArray[np.int64]


def marks_of(salt: str, keys: Sequence[int | str]) -> Marks:
    """Return the marks of keys, (n, 2): the first half of HMAC-SHA256 of each key as text, under a salt in hex."""
    secret = bytes.fromhex(salt)
    data = b"".join(hmac.digest(secret, str(key).encode(), "sha256")[: 8 * HALVES] for key in keys)
    return np.frombuffer(data, "<i8").reshape(-1, HALVES)


def among(marks: Marks, wanted: Marks) -> NDArray[np.bool_]:
    """Return for each mark (n, 2) whether it is among the wanted marks (m, 2), as booleans (n,)."""
    found = np.isin(marks[:, 0], wanted[:, 0])
    whole = set(map(tuple, wanted.tolist()))
    for row in np.flatnonzero(found).tolist():
        found[row] = tuple(marks[row].tolist()) in whole
    return found


def to_text(marks: Marks) -> list[str]:
    """Return marks (n, 2) as hexadecimal texts, for documents."""
    return [mark.astype("<i8").tobytes().hex() for mark in marks]


def from_text(texts: Iterable[str]) -> Marks:
    """Return marks (n, 2) from the hexadecimal texts of a document."""
    return np.frombuffer(b"".join(bytes.fromhex(text) for text in texts), "<i8").reshape(-1, HALVES)
