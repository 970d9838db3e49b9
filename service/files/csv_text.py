"""Tables as text, with cells that are quoted if they contain a separator, and the parsing of columns of numbers."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from livesvm.service.files.malformed import Malformed
from livesvm.solvers.errors import InvalidInput

Line = list[str]


def rows(
    lines: Iterable[str], width: int | None = None, comma: str = ",", row: int = 0, field: str = "body"
) -> list[Line]:
    """Return the cells of each line that is not empty; raises InvalidInput for a row without ``width`` cells.

    Parameters
    ----------
    lines : lines of text, or a file of them, opened with ``newline=""``
    row : number of the first row, for error messages
    field : name of the field in error messages
    """
    reader = csv.reader(lines, delimiter=comma, skipinitialspace=True)
    try:
        found = [cells for cells in reader if cells]
    except csv.Error as error:
        raise Malformed(f"is no table: {error} (line {reader.line_num})", field=field) from error
    if width is not None:
        _check_widths(found, width, row, field)
    return found


def _check_widths(found: list[Line], width: int, row: int, field: str) -> None:
    lengths = [*map(len, found)]
    if {*lengths} <= {width}:
        return
    at = next(at for at, length in enumerate(lengths) if length != width)
    raise InvalidInput(f"has {lengths[at]} columns, the first line has {width}", field=field, row=row + at)


def named(lines: Iterable[str]) -> tuple[Line, list[Line]]:
    """Return the column names in the first row, and the other rows numbered from 0.

    Raises Malformed if there are no names, InvalidInput for a repeated name, or for a row with more or fewer cells.
    """
    first, *others = rows(lines) or [[]]
    names = [name.strip() for name in first]
    if not names:
        raise Malformed("is empty; the first row has the names of columns", field="body")
    if (again := twice(names)) is not None:
        raise InvalidInput("stands twice in the row of names", field=again)
    _check_widths(others, len(names), 0, "rows")
    return names, others


def twice(names: Sequence[str]) -> str | None:
    """Return the first repeated name, shortened for an error message; None if all names differ."""
    known: set[str] = set()
    return next((name[:128] for name in names if name in known or known.add(name)), None)  # type: ignore[func-returns-value]


def is_number(cell: str) -> bool:
    """Return whether NumPy would read the text of a cell as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def numbers(
    lines: list[str], width: int, texts: Collection[int] = (), comma: str = ",", row: int = 0, field: str = "body"
) -> NDArray[np.float64]:
    """Return lines as numbers (m, width), with 0 in columns of text; raises InvalidInput at the first invalid cell."""
    used = [column for column in range(width) if column not in texts]
    try:
        found = np.loadtxt(
            lines, delimiter=comma, comments=None, quotechar='"', ndmin=2, usecols=used if texts else None
        )
        if found.shape == (len(lines), len(used)):
            out = np.zeros((len(lines), width))
            out[:, used] = found
            return out
    except ValueError:
        pass
    for at, cells in enumerate(rows(lines, width, comma, row, field), row):
        for column in used:
            if not is_number(cell := cells[column].strip()):
                what = f"{cell[:32]!r} is not a number" if cell else "is empty"
                raise InvalidInput(what, field=field, row=at, column=column)
    raise InvalidInput("is no table of numbers", field=field, row=row)
