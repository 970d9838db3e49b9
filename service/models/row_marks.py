"""Keys of a dataset's rows, which whoever has to be forgotten is found by: kept as salted hashes, compared as text.

The text of a key is nowhere kept. Every dataset has a salt of its own, so that keys of two cannot be compared.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

HALVES = 2
"""Numbers of 64 bits that stand for a key."""

Marks = NDArray[np.int64]


def marks_of(salt: str, keys: Sequence[int | str]) -> Marks:
    """Return what stands for keys, (n, 2): the first half of HMAC-SHA256 of each as text, under a salt in hex."""
    secret = bytes.fromhex(salt)
    data = b"".join(hmac.digest(secret, str(key).encode(), "sha256")[: 8 * HALVES] for key in keys)
    return np.frombuffer(data, "<i8").reshape(-1, HALVES)


def among(marks: Marks, wanted: Marks) -> NDArray[np.bool_]:
    """Return which of the marks (n, 2) are among the wanted ones (m, 2), as (n,)."""
    found = np.isin(marks[:, 0], wanted[:, 0])
    whole = set(map(tuple, wanted.tolist()))
    for row in np.flatnonzero(found).tolist():
        found[row] = tuple(marks[row].tolist()) in whole
    return found


def to_text(marks: Marks) -> list[str]:
    """Return marks (n, 2) as documents hold them."""
    return [mark.astype("<i8").tobytes().hex() for mark in marks]


def from_text(texts: Iterable[str]) -> Marks:
    """Return marks (n, 2) of a document."""
    return np.frombuffer(b"".join(bytes.fromhex(text) for text in texts), "<i8").reshape(-1, HALVES)
