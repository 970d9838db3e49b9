"""Bounds of JSON bodies that their parser does not know: memory, how many names there are, and names that stand twice.

The parser bounds depth and the size of numbers itself. It would list every name that it does not know, at a kilobyte
each, and takes the last of two values under one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from livesvm.solvers.errors import InvalidInput

MOST_FIELDS = 256
"""Fields of all objects together; requests need thirty."""
BYTES_A_NUMBER = 96
"""What a number takes at most while it is parsed: as the parser has it, as Python's object, as float64."""
BYTES_A_LETTER = 6
"""What a byte of a string takes: as the parser has it, and as Python's, where each letter is as wide as the widest."""
BYTES_AN_ITEM = 256
"""The same for an array, an object or a string, besides what it holds."""

_STRING = rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"?(\s*+:)?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_OF_OBJECTS = re.compile(_STRING + rb"|([{}])", re.DOTALL)


class OpenObject(NamedTuple):
    """An object on the way to a place in a text: the name that it stands under, and the names in it so far."""

    name: str
    names: set[str]


def parsed_bytes(data: bytes, of_field: int = 0) -> int:
    """Return the memory that parsing a JSON text takes at most, and ``of_field`` more for each value in an object.

    Commas and brackets in strings count too.
    """
    is_plain = data.isascii() and b"\\u" not in data
    commas, items = data.count(b","), data.count(b"[") + data.count(b"{")
    text = (2 if is_plain else BYTES_A_LETTER) * len(data)
    return text + (BYTES_A_NUMBER + of_field) * (commas + items) + BYTES_AN_ITEM * (items + data.count(b'"') // 2)


def names(data: bytes) -> Iterator[bytes]:
    """Yield the names in all objects of a JSON text, as they are written; of a malformed one those before its fault."""
    return (found[1] for found in _STRINGS.finditer(data) if found[2])


def few_names(data: bytes, requests: int = 1) -> list[bytes]:
    """Return them; raises InvalidInput for more than so many requests need."""
    most = MOST_FIELDS * requests
    found = list(islice(names(data), most + 1))
    if len(found) > most:
        raise InvalidInput(f"holds more than the {most} fields that any request needs", field="body")
    return found


def refuse_repeated(data: bytes, written: list[bytes]) -> None:
    """Raise InvalidInput for a name that stands twice in an object of a JSON text, which is well formed.

    ``written`` are all of its names.
    """
    if len(set(written)) == len(written) and not any(b"\\" in name for name in written):
        return
    objects: list[OpenObject] = []
    name = ""
    for found in _OF_OBJECTS.finditer(data):
        if found[3] == b"{":
            objects.append(OpenObject(name, set()))
        elif found[3] == b"}":
            name = objects.pop().name
        elif found[2]:
            name = json.loads(b'"' + found[1] + b'"')
            if name in objects[-1].names:
                raise InvalidInput("stands twice", field=".".join([*(one.name for one in objects[1:]), name]))
            objects[-1].names.add(name)
