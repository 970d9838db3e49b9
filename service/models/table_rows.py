"""Rows of named cells from requests: each cell is checked, and encoded once the columns of the model are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from livesvm.service.models.arrays import MAX_KEY, MAX_KEY_LENGTH
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.tables.cells import LONGEST
from livesvm.solvers.tables.columns import Codes, TableColumns, found_in
from livesvm.solvers.tables.frames import MOST_COLUMNS

BYTES_A_CELL = 100
"""Of a cell while rows are read, besides its text."""
Row = dict[str, str | float | bool | None]


@dataclass(frozen=True)
class TableRows:
    """Rows of named cells, (m,); a name that a row does not have is a missing value in this row."""

    rows: list[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and the number of different names in all rows."""
        return len(self.rows), len({name for row in self.rows for name in row})

    @cached_property
    def nbytes(self) -> int:
        """The bytes of memory for the rows and for their encoded form."""
        texts = sum(len(cell) for row in self.rows for cell in row.values() if isinstance(cell, str))
        return 4 * texts + BYTES_A_CELL * self.shape[0] * self.shape[1]

    def first_columns(self) -> TableColumns:
        """Return the columns of a table, inferred from these rows; raises InvalidInput."""
        with in_field("rows"):
            return found_in(self.rows)

    def read_by(self, columns: TableColumns) -> Codes:
        """Return the rows encoded as numbers (m, p) by the columns; raises InvalidInput, which names row and column."""
        known = {*columns.names}
        for at, row in enumerate(self.rows):  # first, as a table of all names may be huge
            if not row.keys() <= known:
                place, name = next((place, name) for place, name in enumerate(row) if name not in known)
                reason = "is no column of the model; GET /models/{id} shows those that it has"
                raise InvalidInput(reason, field="rows", row=at, column=place, name=name)
        with in_field("rows"):
            return columns.read(self.rows)[1]


@contextmanager
def in_field(name: str) -> Iterator[None]:
    """Change the field that errors in the ``with`` block name to ``name``, with the named field in place of {}."""
    try:
        yield
    except InvalidInput as error:
        field = name.format(error.field)
        raise InvalidInput(error.reason, field=field, row=error.row, column=error.column, name=error.name) from None


def check_form(X: Any, *, has_columns: bool) -> None:
    """Raise InvalidInput if named rows are for a model without columns, or unnamed numbers for one with columns."""
    if isinstance(X, TableRows) and not has_columns:
        raise InvalidInput("needs a model with columns; this one takes numbers, X", field="rows")
    if has_columns and not isinstance(X, TableRows | Codes):
        raise InvalidInput("needs a model without columns; send rows, objects with a cell by name", field="X")


def checked(value: Any, field: str = "rows") -> TableRows:
    """Check rows that were read from JSON, and return the rows; raises InvalidInput, which names row and column."""
    if not isinstance(value, list) or not value:
        raise InvalidInput("must be an array of at least one row, each an object", field=field)
    names: dict[str, None] = {}
    found = [_row(row, at, names, field) for at, row in enumerate(value)]
    return TableRows(found)


def _row(row: Any, at: int, names: dict[str, None], field: str) -> Row:
    if not isinstance(row, dict) or not row:
        raise InvalidInput("must be an object with a cell by name at least", field=field, row=at)
    for name in row.keys() - names.keys():
        if not 0 < len(name) <= MAX_KEY_LENGTH:
            reason = f"the name of a column has 1 to {MAX_KEY_LENGTH} characters, this one {len(name)}"
            raise InvalidInput(reason, field=field, row=at, column=[*row].index(name), name=name)
        names[name] = None
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(f"has more than {MOST_COLUMNS} columns", field=field, row=at)
    return {name: _cell(cell, at, place, name, field) for place, (name, cell) in enumerate(row.items())}


def _cell(cell: Any, row: int, column: int, name: str, field: str) -> str | float | bool | None:
    if cell is None or isinstance(cell, bool) or (isinstance(cell, str) and len(cell) <= LONGEST):
        return cell
    reason = f"has more than {LONGEST} characters" if isinstance(cell, str) else "is no text, number, boolean or null"
    if isinstance(cell, int | float):
        number = float(cell) if -MAX_KEY < cell < MAX_KEY or isinstance(cell, float) else np.inf
        if np.isfinite(number):
            return number
        reason = "is not finite; null is a missing cell"
        if isinstance(cell, int):
            reason = f"is no number that double precision holds exactly; a whole one is below {MAX_KEY} in magnitude"
    raise InvalidInput(reason, field=field, row=row, column=column, name=name)
