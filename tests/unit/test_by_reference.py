"""Records in memory: compiled code reads at an address what it reads of the record itself."""

from __future__ import annotations

import gc
from typing import NamedTuple

import numpy as np

from livesvm.solvers.runtime.by_reference import InMemory, at, by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints


class Counts(Scalars):
    """Numbers."""

    count: int
    size: float


class Both(NamedTuple):
    """A record by value."""

    low: Floats
    high: Floats


@by_reference
class Inside(NamedTuple):
    """A record in another."""

    table: Floats
    both: Both


@by_reference
class Outside(NamedTuple):
    """A record of all kinds of things."""

    n: int
    is_on: bool
    inside: Inside
    counts: One[Counts]
    numbers: Ints


@compiled
def told(record: Outside, out: Floats) -> None:
    """Tell what is in a record, and count."""
    inside, counts = record.inside, record.counts[0]
    out[0], out[1], out[2], out[3] = record.n, record.is_on, inside.table[1, 2], inside.table.shape[1]
    out[4], out[5] = inside.both.low[-1], inside.both.high[record.numbers[-1]]
    counts.count += record.numbers.size
    out[6], out[7] = counts.count, counts.size


@compiled
def told_at(like: Outside, address: int, out: Floats) -> None:
    """Do the same with one in memory."""
    told(at(address, like), out)


def record(n: int) -> Outside:
    rng = np.random.default_rng(n)
    inside = Inside(rng.random((2 + n, 3 + n)), Both(rng.random(n + 1), rng.random(n + 5)))
    return Outside(n, n % 2 == 0, inside, Counts.of(n, 0.5 + n), rng.integers(0, n + 5, n + 1))


def test_a_record_in_memory_is_read_like_itself_and_may_be_changed() -> None:
    records = [record(n) for n in range(1, 9)]
    kept = [InMemory(one) for one in records]
    expected, found = np.empty((2, 8))
    for one in records:
        told(one, expected)
        one.counts[0].count -= one.numbers.size
        told_at(records[0], kept[one.n - 1].address, found)
        np.testing.assert_array_equal(found, expected)
        assert one.counts[0].count == one.n + one.numbers.size
    kept[2].put("n", 70)
    kept[2].put("numbers", np.array([4, 0]))
    told_at(records[0], kept[2].address, found)
    assert (found[0], found[5]) == (70, records[2].inside.both.high[0])
    told(records[2], found)
    assert found[0] == 3


def test_what_is_in_memory_holds_its_arrays() -> None:
    like, expected, found = record(0), *np.empty((2, 8))
    told(record(6), expected)
    kept = InMemory(record(6))
    gc.collect()
    filled = [np.full((8, 9), -1.0) for _ in range(100)]  # where freed arrays were
    told_at(like, kept.address, found)
    np.testing.assert_array_equal(found, expected)
    assert len(filled) == 100
