"""Parsing of a long JSON body piece by piece, so that the parser does not hold Python's interpreter lock for long."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic_core import from_json

from livesvm.service.models import arrays
from livesvm.service.models.arrays import Matrix
from livesvm.solvers.errors import InvalidInput

PIECE = 2**15
"""Bytes of a piece, which are parsed in about a millisecond."""
BYTES_A_NUMBER = 24
"""Bytes of memory for each number: a float64 in its block, another in the whole matrix, and a share of parsing."""

_HEAD = re.compile(rb'\s*\{\s*"X"\s*:\s*\[\s*(?=\[)')
_BETWEEN = re.compile(rb"\s*,\s*(?=\[)")
_TAIL = re.compile(rb"\s*\]\s*\}\s*\Z")


class NotRows(Exception):
    """The JSON text is not ``{"X": [[..], ..]}`` with valid numbers; the general parser must read the whole text."""


def pieces(data: bytes) -> Iterator[Matrix]:
    """Yield blocks of the rows in a JSON text ``{"X": [[..], ..]}``; raises NotRows for any other text."""
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
