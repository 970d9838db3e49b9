"""Bounds of JSON bodies: their parsed size, counted in bytes before parsing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from livesvm.service.errors import MalformedBody
from livesvm.solvers.errors import InvalidInput

MOST_DEPTH = 8
"""Arrays and objects within each other; requests need four."""
MOST_FIELDS = 256
"""Fields of all objects together; requests need thirty."""
MOST_OBJECTS = 64
ROW_DEPTH = 3
"""The object, its array of rows, a row."""

BYTES_A_NUMBER = 96
"""What a number takes at most while it is parsed: as the parser has it, as Python's object, as float64."""
BYTES_A_LETTER = 6
"""What a byte of a string takes: as the parser has it, and as Python's, where each letter is as wide as the widest."""
BYTES_AN_ITEM = 256
"""The same for an array or a string, besides what it holds."""

_OUTSIDE = b'{}[]:,"'
_OF_OBJECTS = re.compile(b"[{}:]")
_DELETED = bytes(set(range(256)) - set(_OUTSIDE))


@dataclass(frozen=True)
class Shape:
    """What a JSON text is made of; of one that is malformed, at least what stands before its fault."""

    objects: int
    arrays: int
    fields: int
    strings: int
    values: int
    is_plain: bool = True
    """Whether letters of its strings take a byte each; one that does not makes four of each in its string."""

    def parsed_bytes(self, size: int) -> int:
        """Memory that parsing takes at most, of a text of ``size`` bytes."""
        text = (2 if self.is_plain else BYTES_A_LETTER) * size
        return text + BYTES_A_NUMBER * self.values + BYTES_AN_ITEM * (self.arrays + self.strings)


def check(data: bytes, most_rows: int, requests: int = 1) -> Shape:
    """Return the shape of a JSON text that may be parsed, and holds so many requests at most.

    A request has at most so many rows, and keys, in each of its four lists of either.

    Raises InvalidInput, or MalformedBody for a text that is too deep.
    """
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    most_strings = 4 * most_rows + 2 * MOST_FIELDS * requests
    _refuse_above(most_strings, plain.count(b'"') // 2, "strings")
    outside = b"".join(plain.translate(None, _DELETED).split(b'"')[::2])
    shape = _shape(data, outside, plain.count(b'"') // 2)
    _refuse_above(MOST_FIELDS * requests, shape.fields, "fields")
    _refuse_above(MOST_OBJECTS * requests, shape.objects, "objects")
    _refuse_above(4 * most_rows + MOST_FIELDS * requests, shape.arrays, "arrays")
    if (depth := _depth(outside)) > MOST_DEPTH:
        raise MalformedBody(f"the body has arrays and objects {depth} deep, the limit is {MOST_DEPTH}")
    return shape


def check_rows(data: bytes, most_rows: int, most_fields: int, arrays: int = 1) -> Shape:
    """Return the shape of a JSON text of rows, each an object of numbers and strings, that may be parsed.

    Raises InvalidInput, or MalformedBody for a text that is too deep.
    """
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    outside = b"".join(plain.translate(None, _DELETED).split(b'"')[::2])
    shape = _shape(data, outside, plain.count(b'"') // 2)
    _refuse_above(most_rows + 1 + arrays, shape.objects, "objects")
    _refuse_above(most_rows * most_fields + 1, shape.fields, "fields")
    _refuse_above(arrays, shape.arrays, "arrays")
    if (depth := _depth(outside)) > (most := ROW_DEPTH + (arrays > 1)):
        raise MalformedBody(f"the body has arrays and objects {depth} deep, the limit is {most}")
    return shape


def refuse_repeated(data: bytes, shape: Shape) -> None:
    """Raise InvalidInput for a name that stands twice in an object of a JSON text, which is well formed.

    Names are few and are looked at one by one; of all else quotes are counted.
    """
    if shape.fields < 2:
        return
    plain = data.replace(b"\\\\", b"\\-").replace(b'\\"', b"\\-") if b"\\" in data else data  # in place
    strings = plain.translate(None, _DELETED).split(b'"')[::2]
    tokens = b'"'.join(strings).translate(None, b"[],")  # outside of strings, and a quote for each of these
    quotes = np.flatnonzero(np.frombuffer(plain, np.uint8) == ord('"'))
    objects: list[tuple[str, set[str]]] = []
    name, before, known = "", 0, 0
    for found in _OF_OBJECTS.finditer(tokens):
        known += tokens.count(b'"', before, found.start())
        before = found.end()
        if found[0] == b"{":
            objects.append((name, set()))
        elif found[0] == b"}":
            name = objects.pop()[0]
        else:
            name = json.loads(data[quotes[2 * known - 2] : quotes[2 * known - 1] + 1])
            if name in objects[-1][1]:
                place = [*(outer for outer, _ in objects[1:]), name]
                raise InvalidInput("stands twice", field=".".join(place))
            objects[-1][1].add(name)


def _shape(data: bytes, outside: bytes, strings: int) -> Shape:
    """Return the shape of a text of which only brackets, colons and commas outside of strings are left."""
    objects, arrays, commas = outside.count(b"{"), outside.count(b"["), outside.count(b",")
    is_plain = data.isascii() and b"\\u" not in data
    return Shape(objects, arrays, outside.count(b":"), strings, commas + arrays + objects, is_plain)


def _depth(outside: bytes) -> int:
    """Return how deep brackets stand within each other."""
    steps = np.zeros(256, np.int8)
    steps[list(b"{[")], steps[list(b"}]")] = 1, -1
    brackets = np.frombuffer(outside.translate(None, b":,"), np.uint8)
    return int(np.cumsum(steps[brackets], dtype=np.int32).max(initial=0))


def _refuse_above(most: int, count: int, what: str) -> None:
    if count > most:
        raise InvalidInput(f"holds {count} {what}, more than the {most} that any request needs", field="body")
