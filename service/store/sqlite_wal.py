"""Check SQLite's write-ahead log: count its frames that match their checksums, and the transactions behind them.

    header   32 bytes: magic, format, page size, number of checkpoints, two salts, two checksums
    frame    24 bytes: page, size of the database after a commit or 0, two salts, two checksums; then the page

Each checksum also covers all frames before its own. SQLite reads a log up to the first frame that does not match its
checksum, because a crash may have torn the last transaction. If whole transactions follow a damaged frame, SQLite
reports no error, and overwrites those transactions. See https://www.sqlite.org/fileformat2.html, section 4.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

_HEADER = struct.Struct(">8I")
_MAGIC = 0x377F0682  #: its last bit says that checksums read words as big-endian
_FRAME = 24
_LEAST_PAGE, _MOST_PAGE = 512, 65536
_AT_ONCE = 2**22
"""Bytes that are read at once."""
Words = npt.NDArray[np.uint32]
Sums = tuple[int, int]


@dataclass(frozen=True)
class Walk:
    """Counts of a log: valid ``frames`` before the first damaged one, and whole transactions ``behind`` that frame.

    If the header of a log with frames is damaged, ``behind`` is 1.
    """

    frames: int = 0
    behind: int = 0

    def __str__(self) -> str:
        return f"frame {self.frames + 1} does not match its checksum, and {self.behind} whole transactions follow it"


def walk(path: Path) -> Walk:
    """Count the frames and transactions of the write-ahead log at ``path``; the counts are 0 if there is no log."""
    try:
        with path.open("rb") as file:
            return _walked(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return Walk()


def _walked(file: BinaryIO, size: int) -> Walk:
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return Walk()
    magic, _, page, _, *salts, one, two = _HEADER.unpack(head)
    order = ">" if magic & 1 else "<"
    chain = _chained((0, 0), _sums(np.frombuffer(head[:24], order + "u4")[None])[0], 3)
    is_page = _LEAST_PAGE <= page <= _MOST_PAGE and page & (page - 1) == 0
    if magic & ~1 != _MAGIC or not is_page or chain != (one, two):
        return Walk(0, int(size > _HEADER.size + _FRAME + _LEAST_PAGE))
    good, commits, is_torn = 0, 0, False
    for frames in _frames(file, _FRAME + page):
        heads = frames[:, :_FRAME].copy().view(">u4")
        words = np.hstack([frames[:, :8], frames[:, _FRAME:]]).view(order + "u4")
        for (_, is_commit, *salt, one, two), sums in zip(heads.tolist(), _sums(words), strict=True):
            chain = _chained(chain, sums, words.shape[1] // 2)
            is_torn = is_torn or salt != salts or chain != (one, two)
            good += not is_torn
            commits += is_torn and salt == salts and is_commit > 0
    return Walk(good, max(commits - 1, 0))  # the first of them ends the transaction that is torn


def _frames(file: BinaryIO, size: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the frames of a log as rows of arrays, without a last frame that is cut off."""
    many = max(1, _AT_ONCE // size)
    while data := file.read(many * size):
        whole = len(data) // size
        yield np.frombuffer(data[: whole * size], np.uint8).reshape(whole, size)


@lru_cache(maxsize=8)
def _powers(pairs: int) -> list[tuple[int, int, int]]:
    """Return a, b, c of [[a, b], [b, c]] = [[1, 1], [1, 2]]^n modulo 2^32, for n from 0 to ``pairs``.

    A pair of words (x, y) changes the checksums (s, t) to s + t + x and s + 2t + x + y: the matrix [[1, 1], [1, 2]]
    times (s, t), plus (x, x + y).
    """
    found = [(1, 0, 1)]
    for _ in range(pairs):
        a, b, c = found[-1]
        found.append(((a + b) % 2**32, (b + c) % 2**32, (b + 2 * c) % 2**32))
    return found


@lru_cache(maxsize=8)
def _weights(pairs: int) -> Words:
    """Return the factors (2 * pairs, 2) of a block's words in the two checksums at the block's end, modulo 2^32."""
    behind = np.array(_powers(pairs)[pairs - 1 :: -1], np.uint32)
    a, b, c = behind.T
    of_first, of_second = np.stack([a + b, b + c], axis=1), np.stack([b, c], axis=1)
    return np.stack([of_first, of_second], axis=1).reshape(2 * pairs, 2)


def _sums(words: Words) -> list[Sums]:
    """Return what each block, a row of ``words``, adds to the two checksums at the block's end."""
    native, weights = words.astype(np.uint32), _weights(words.shape[1] // 2)
    return [(one, two) for one, two in (native @ weights).tolist()]


def _chained(before: Sums, added: Sums, pairs: int) -> Sums:
    """Return the two checksums after a block of ``pairs``, from those before the block and what it adds to them."""
    (s, t), (a, b, c) = before, _powers(pairs)[-1]
    return (a * s + b * t + added[0]) % 2**32, (b * s + c * t + added[1]) % 2**32
