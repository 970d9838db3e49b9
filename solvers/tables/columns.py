"""Columns of a table, each with a name, a kind and an encoding, given or found from the first rows; they turn rows into
numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.tables.cells import KINDS, Kind, cells_of, code_of, coded, distinct, kind_of, words_in
from livesvm.solvers.tables.frames import columns_of
from livesvm.solvers.validation import number_or_none

Encoding = Literal["standard", "normal-scores", "one-hot", "parts", "ignored"]
ENCODINGS: dict[Kind, tuple[Encoding, ...]] = {
    "number": ("standard", "normal-scores", "one-hot", "ignored"),
    "yes-no": ("standard", "ignored"),
    "category": ("one-hot", "ignored"),
    "time": ("parts", "ignored"),
}
"""What may be done with a column of a kind; the first is done where nothing is said."""
FEW = 20  #: rows, of which a column of words that are all different names the rows and says nothing of them


class TableColumn(NamedTuple):
    """One column."""

    name: str
    kind: Kind
    encoding: Encoding
    relevance: float = 1.0  #: multiplies squared distances along it, in (0, 1e6]

    def document(self) -> dict[str, Any]:
        """Return the column as a mapping of texts and numbers, in the form that the parameter ``columns`` accepts."""
        return self._asdict()


class Codes(np.ndarray[Any, np.dtype[np.float64]]):
    """Rows of a table that have been turned into numbers, (m, p), and need no further conversion.

    ``table`` has the words in the rows, and the columns by which the rows were read. The columns are left out if the
    model knows them, and ``table`` is None if the model knows both columns and words. Slices of the rows keep
    ``table``.
    """

    table: TableColumns | None = None

    def __array_finalize__(self, origin: Any) -> None:
        self.table = getattr(origin, "table", None)

    def __reduce__(self) -> Any:
        return Codes.of, (np.asarray(self), self.table)

    @staticmethod
    def of(values: Floats, table: TableColumns | None) -> Codes:
        """Return the numbers ``values`` (m, p) as rows of a table."""
        codes = np.asarray(values).view(Codes)
        codes.table = table
        return codes

    def document(self) -> dict[str, Any]:
        """Return ``table`` as text and numbers: the words, and the columns if there are any."""
        table = self.table or TableColumns(())
        columns = {"columns": table.documents()} if table.each else {}
        words = words_in(np.ravel(self).tolist(), table.words)
        return {"words": sorted(words.values()), **columns}


def codes_from(values: Floats, document: Mapping[str, Any]) -> Codes:
    """Return ``values`` (m, p) as rows of a table, with the words and columns that :meth:`Codes.document` described."""
    table = given(document["columns"]) if "columns" in document else TableColumns(())
    return Codes.of(values, replace(table, words={code_of(word): word for word in document["words"]}))


def below(parts: Sequence[Floats]) -> Codes:
    """Join ``parts``, rows (m, p) or (p,), below each other, with the columns of the first part and all words."""
    tables = list({id(part.table): part.table for part in parts if isinstance(part, Codes) and part.table}.values())
    words = {code: word for table in tables for code, word in table.words.items()}
    return Codes.of(np.vstack(parts), TableColumns(tables[0].each if tables else (), words))


@dataclass(frozen=True)
class TableColumns:
    """The columns of a model, in their order, and the words in the cells of its window."""

    each: tuple[TableColumn, ...]
    words: dict[float, str] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [column.name for column in self.each]

    @property
    def kinds(self) -> list[tuple[str, Kind]]:
        """The name and kind of each column, which determine the numbers that a row becomes."""
        return [(column.name, column.kind) for column in self.each]

    def documents(self) -> list[dict[str, Any]]:
        """Return the columns as mappings of texts and numbers."""
        return [column.document() for column in self.each]

    def read(self, X: Any) -> tuple[TableColumns, Codes]:
        """Turn the rows ``X`` into numbers (m, p); return these columns with the words of ``X`` added, and the numbers.

        Parameters
        ----------
        X : data frame, list of mappings, mapping of columns, array (m, p) or Codes
            Rows; columns of a name that a mapping does not have are missing in it.

        Raises
        ------
        InvalidInput : a column is missing or not known, or a cell is not of its column's kind; names row and column
        """
        if isinstance(X, Codes):
            self._check_count(X.shape[1])
            return self._knowing({} if X.table is None else X.table.words), X
        table, names = columns_of(X), self.names
        if not hasattr(X, "columns") and not isinstance(X, Mapping) and not _has_names(X):
            self._check_count(len(table))
            table = dict(zip(names, table.values(), strict=True))
        if table.keys() != {*names}:
            self._check_names(table, X)
        words: dict[float, str] = {}
        m = len(X) if _has_names(X) else len(next(iter(table.values()), ()))
        missing = [None] * m
        values = np.empty((m, len(names)))
        for at, column in enumerate(self.each):
            values[:, at] = coded(table.get(column.name, missing), column.kind, at, column.name, words)
        return self._knowing(words), Codes.of(values, replace(self, words=words))

    def _knowing(self, words: dict[float, str]) -> TableColumns:
        return self if words.keys() <= self.words.keys() else replace(self, words=self.words | words)

    def only_in(self, values: Floats) -> TableColumns:
        """Return these columns, with only those of their words that occur in the cells ``values`` (n, p)."""
        return replace(self, words=words_in(values[:, self._are_words].ravel().tolist(), self.words))

    def rows(self, values: Floats) -> list[dict[str, Any]]:
        """Return the numbers ``values`` (m, p) as rows again: mappings of cells by column name."""
        columns = [cells_of(values[:, at], column.kind, self.words) for at, column in enumerate(self.each)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    @property
    def _are_words(self) -> list[int]:
        return [at for at, column in enumerate(self.each) if column.kind == "category"]

    def _check_count(self, found: int) -> None:
        if found != len(self.each):
            raise InvalidInput(f"rows have {found} cells, but the model has {len(self.each)} columns", field="X")

    def _check_names(self, table: Mapping[str, Any], X: Any) -> None:
        """Raise InvalidInput for a column that the model does not have, or a column of the model that a frame lacks."""
        names = self.names
        for at, name in enumerate(table):
            if name not in names:
                row = next((at for at, one in enumerate(X) if name in one), None) if _has_names(X) else None
                known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
                reason = f"is no column of the model, which has {known}"
                raise InvalidInput(reason, field="X", row=row, column=at, name=name)
        if not _has_names(X):
            name = next(name for name in names if name not in table)
            reason = "is a column of the model that is missing; hand it over with missing cells if nothing is known"
            raise InvalidInput(reason, field="X", column=names.index(name), name=name)


def _has_names(X: Any) -> bool:
    """Return whether ``X`` is a list of mappings, one for each row, with the names of columns as keys."""
    return isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Mapping)


def found_in(X: Any) -> TableColumns:
    """Return the columns of rows, each with a kind found from its cells, and the usual encoding of this kind."""
    each, words = [], dict[float, str]()
    for at, (name, cells) in enumerate(columns_of(X).items()):
        kind = _kind_of_array(cells) if isinstance(cells, np.ndarray) else kind_of(cells)
        codes = coded(cells, kind, at, name, words)
        is_name = kind == "category" and codes.size >= FEW and distinct(codes).size == codes.size
        each.append(TableColumn(name, kind, "ignored" if is_name else ENCODINGS[kind][0]))
    if not each:
        raise InvalidInput("has no column", field="X")
    return TableColumns(tuple(each), words)


def _kind_of_array(cells: Any) -> Kind:
    letter: str = cells.dtype.kind
    if letter in "fiu":
        return "number"
    return "yes-no" if letter == "b" else "time" if letter == "M" else kind_of(cells.tolist())


def given(columns: Any, field: str = "columns") -> TableColumns:
    """Check the columns that a user gives, each a TableColumn or a mapping, and return them.

    Raises
    ------
    InvalidInput : names the column, counted from 0, at fault
    """
    if isinstance(columns, str | Mapping) or not isinstance(columns, Iterable):
        raise InvalidType("must be 'auto', None, or a list with a mapping for each column", field=field)
    each = [_given(one, row, field) for row, one in enumerate(columns)]
    names = [column.name for column in each]
    if not each:
        raise InvalidInput("must name a column at least", field=field)
    for row, name in enumerate(names):
        if name in names[:row]:
            raise InvalidInput(f"{name!r} stands twice", field=field, row=row)
    return TableColumns(tuple(each))


def _given(one: Any, row: int, field: str) -> TableColumn:
    if isinstance(one, TableColumn):
        one = one.document()
    if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
        raise InvalidInput("must be a mapping with a name", field=field, row=row)
    if unknown := one.keys() - {*TableColumn._fields}:
        what = f"has {sorted(map(str, unknown))[0]!r}, which is none of {', '.join(TableColumn._fields)}"
        raise InvalidInput(what, field=field, row=row)
    kind = one.get("kind", "number")
    if kind not in KINDS:
        raise InvalidInput(f"has a kind that is none of {', '.join(KINDS)}: {kind!r}", field=field, row=row)
    encoding = one.get("encoding") or ENCODINGS[kind][0]
    if encoding not in ENCODINGS[kind]:
        may = ", ".join(ENCODINGS[kind])
        raise InvalidInput(
            f"has an encoding that a {kind} cannot have, {encoding!r}; one of {may}", field=field, row=row
        )
    relevance = number_or_none(one.get("relevance", 1.0))
    if relevance is None or not 0.0 < relevance <= 1e6:
        raise InvalidInput("has a relevance that is not above 0 and at most 1e6", field=field, row=row)
    return TableColumn(one["name"], kind, encoding, relevance)
