"""Tables with periods of several lengths in one column, such as 2020, 2020-Q1 and 2020-01: keep the shortest.

Statistical offices write the years, quarters and months of a series below each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from livesvm.service.files.dialect import Line

_LENGTHS = {
    "days": r"\d{4}-\d\d-\d\d",
    "weeks": r"\d{4}[- ]?W\d\d",
    "months": r"\d{4}[- ]?(M?(0[1-9]|1[0-2])|[A-Za-z]{3})",
    "quarters": r"\d{4}[- ]?Q0?[1-4]",
    "half-years": r"\d{4}[- ]?[SHB]0?[12]",
    "years": r"\d{4}([- ]?(A\d*|M13|Q0?5|S0?3))?",
}  # the shortest first
_PATTERN = re.compile("|".join(f"({pattern.replace('(', '(?:')})" for pattern in _LENGTHS.values()))


@dataclass(frozen=True)
class Frequency:
    """The columns of periods, the length of the periods that are kept, and a note for the user."""

    parts: tuple[int, ...]
    kept: str
    said: str


def finest(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Frequency | None:
    """Return the shortest of several lengths of periods in a column, or in a year and a period column; else None."""
    lower = [name.lower().strip() for name in names]
    pairs = [(lower.index("year"), lower.index("period"))] if {"year", "period"} <= {*lower} else []
    for parts in (*pairs, *((at,) for at in range(len(names)))):
        if not columns[parts[0]] or _length(" ".join(columns[at][0].strip() for at in parts)) is None:
            continue
        cells = Counter(
            " ".join(cell.strip() for cell in row) for row in zip(*(columns[at] for at in parts), strict=True)
        )
        counts = Counter[str | None]()
        for cell, count in cells.items():
            counts[_length(cell)] += count
        found = [length for length in _LENGTHS if counts[length]]
        if counts[None] or len(found) < 2:
            continue
        others = ", ".join(f"{counts[length]} of {length}" for length in found[1:])
        return Frequency(parts, found[0], f"rows of {found[0]} are taken, and left out: {others}")
    return None


def rows_of(rows: Callable[[], Iterator[Line]], width: int, one: Frequency) -> Iterator[Line]:
    """Yield the rows with periods of the kept length, and rows without a period."""
    for row in rows():
        if len(row) != width or _length(" ".join(row[at].strip() for at in one.parts)) in (None, one.kept):
            yield row


def _length(cell: str) -> str | None:
    found = _PATTERN.fullmatch(cell)
    return None if found is None or found.lastindex is None else [*_LENGTHS][found.lastindex - 1]
