"""Reads tables by column: data frames of pandas, Polars and Arrow, mappings of columns, and lists of mappings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.tables.cells import Cells, Words

MOST_COLUMNS = 10_000
_OF_CATEGORIES = ("categor", "enum", "dictionary")  # names of the types of pandas, Polars and Arrow begin so


def columns_of(X: Any) -> dict[str, Cells]:
    """Return the cells of each column by name, in arrays or lists of one length; an array's columns are "x0", "x1", ...

    In a list of mappings, a cell is missing if the row's mapping does not have the column's name.

    Raises
    ------
    InvalidInput : it is no table, columns differ in length, or a name stands twice
    """
    if isinstance(X, list | tuple) and X and all(isinstance(row, Mapping) for row in X):
        return {name: [row.get(name) for row in X] for name in dict.fromkeys(_name(key) for row in X for key in row)}
    if isinstance(X, Mapping):
        found = {_name(name): _cells(cells) for name, cells in X.items()}
    elif hasattr(X, "collect"):
        raise InvalidType("is a lazy frame; collect it first", field="X")
    elif hasattr(X, "columns"):
        names = [_name(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]
        if len({*names}) < len(names):
            again = next(name for at, name in enumerate(names) if name in names[:at])
            raise InvalidInput("stands twice among the columns", field="X", column=names.index(again), name=again)
        found = dict(zip(names, _of_frame(X), strict=True))
    else:
        array = np.asarray(X, None if isinstance(X, np.ndarray) else object)
        if array.ndim != 2:
            reason = "must be a data frame, a list of mappings, a mapping of columns, or an array (m, d)"
            raise InvalidType(reason, field="X")
        found = {f"x{at}": array[:, at] for at in range(array.shape[1])}
    lengths = {len(cells) for cells in found.values()}
    if len(lengths) > 1:
        raise InvalidInput("has columns of different lengths", field="X")
    if len(found) > MOST_COLUMNS:
        raise InvalidInput(f"has {len(found)} columns, the limit is {MOST_COLUMNS}", field="X")
    return found


def _name(name: Any) -> str:
    if not isinstance(name, str):
        reason = f"names of columns are texts, not {name!r}; frame.rename(columns=str) makes texts of them"
        raise InvalidType(reason, field="X")
    return name


def _of_frame(X: Any) -> Iterable[Cells]:
    """Return the cells of each column of a data frame of pandas, Polars or Arrow."""
    if hasattr(X, "column_names"):
        return [_cells(X.column(at)) for at in range(len(X.column_names))]
    if not hasattr(X, "iloc"):
        return [_cells(X[:, at]) for at in range(len(X.columns))]
    kinds = {*X.dtypes}
    if len(kinds) == 1 and isinstance(kind := next(iter(kinds)), np.dtype) and kind.kind in "fiu":
        values: NDArray[Any] = X.to_numpy()  # at once, as each column of pandas takes as long as all of its cells
        return values.T
    return [_cells(column) for _, column in X.items()]


def _cells(column: Any) -> Cells:
    """Return the cells of a column: numbers as an array, with NaN for missing cells; other cells as a list."""
    if isinstance(column, np.ndarray | list | tuple):
        cells = column
    elif hasattr(column, "to_pylist"):  # Arrow
        cells = column.to_pylist()
    elif hasattr(column, "to_list") and not hasattr(column, "iloc"):  # Polars
        cells = column.to_list()
    else:
        array = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
        objects = array if array.dtype.kind in "fiubMO" else column.astype(object)
        cells = objects.tolist() if objects.dtype.kind == "O" else objects
    if getattr(cells, "ndim", 1) != 1:
        raise InvalidInput("must have one cell for each row and column", field="X")
    held = str(getattr(column, "type", getattr(column, "dtype", ""))).lower()
    return Words(cells) if held.startswith(_OF_CATEGORIES) else cells
