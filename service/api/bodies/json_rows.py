"""Rows of a long JSON body, read piece by piece, so that no other thread waits while a parser holds the interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic_core import from_json

from livesvm.service.models import arrays
from livesvm.service.models.arrays import Matrix
from livesvm.solvers.errors import InvalidInput

PIECE = 2**15
"""Bytes of a piece, which takes a millisecond."""
BYTES_A_NUMBER = 24
"""Memory of a number: as float64 in its piece and in the whole, and a share of parsing one piece at a time."""

_HEAD = re.compile(rb'\s*\{\s*"X"\s*:\s*\[\s*(?=\[)')
_BETWEEN = re.compile(rb"\s*,\s*(?=\[)")
_TAIL = re.compile(rb"\s*\]\s*\}\s*\Z")


class NotRows(Exception):
    """The text is not ``{"X": [[..], ..]}`` with good numbers; its fault is found by reading it as a whole."""


def pieces(data: bytes) -> Iterator[Matrix]:
    """Yield blocks of the rows of ``{"X": [[..], ..]}``, a text with no other string; raises NotRows."""
    head = _HEAD.match(data)
    start, end = (0 if head is None else head.end()), data.rfind(b"]", 0, max(0, data.rfind(b"]"))) + 1
    if start == 0 or end <= start or _TAIL.match(data, end) is None:
        raise NotRows
    while True:
        stop = data.find(b"]", start + PIECE, end) + 1 or end
        yield _rows(data[start:stop])
        if stop == end:
            return
        between = _BETWEEN.match(data, stop)
        if between is None:
            raise NotRows
        start = between.end()


def _rows(text: bytes) -> Matrix:
    try:
        return arrays.matrix(from_json(b"[" + text + b"]"))
    except (ValueError, InvalidInput):
        raise NotRows from None
