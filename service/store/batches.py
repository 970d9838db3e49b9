"""Split an iterable into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the things in lists of ``size``, the last of which may be shorter."""
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch
