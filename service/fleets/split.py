"""Split the rows of a call by series; the rows of each series stay in the order of the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livesvm.service.feeds import times
from livesvm.service.feeds.batch import Batch, Refusal
from livesvm.service.feeds.cells import rows_of
from livesvm.service.feeds.row_tables import table_of
from livesvm.service.feeds.times import Stamp
from livesvm.service.fleets.catalogue import Fleet
from livesvm.service.fleets.names import feed_of, name_of
from livesvm.service.fleets.spec import FleetSpec
from livesvm.solvers.errors import InvalidInput

Row = dict[str, Any]


class Table:
    """The rows of a call: a list of objects, or columns of one length.

    Parameters
    ----------
    rows : the objects; None: ``columns`` has the rows
    """

    def __init__(self, rows: list[Row] | None = None, columns: Mapping[str, list[Any]] | None = None) -> None:
        self._rows, self._columns = rows, dict(columns or {})

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self._columns.values()), ())) if self._rows is None else len(self._rows)

    def rows(self) -> list[Row]:
        """Return all rows as objects."""
        return rows_of(self._columns) if self._rows is None else self._rows

    def column(self, name: str) -> list[Any] | None:
        """Return the cells of one column; None if no row has it."""
        if self._rows is None:
            return self._columns.get(name)
        return [row.get(name) for row in self._rows] if any(name in row for row in self._rows) else None

    def some(self, at: Sequence[int], without: str) -> list[Row]:
        """Return the rows with the numbers ``at`` as objects, without the column ``without``."""
        if self._rows is not None:
            return [{name: cell for name, cell in self._rows[i].items() if name != without} for i in at]
        columns = [(name, cells) for name, cells in self._columns.items() if name != without]
        return [{name: cells[i] for name, cells in columns} for i in at]


@dataclass
class Split:
    """The rows of each series, by feed id, in the form for feeds; ``numbers`` are the rows' numbers in the call."""

    tables: dict[str, Row] = field(default_factory=dict)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    refused: list[tuple[str | None, Refusal]] = field(default_factory=list)  #: refusals by names of series, if known

    def batch(self, fleet: Fleet, request: str | None, at: float) -> Batch:
        """Return the batch that sends these rows to the feeds."""
        spec = fleet.spec.of_series() if fleet.spec.new == "create" else None
        return Batch(self.tables, request, at, spec, fleet.given)


def split(fleet: Fleet, table: Table) -> Split:
    """Split the rows of a call by series; raises InvalidInput if no row names a series.

    The number 7 and the text "7" are the same name. The rows of a series stay in the order of the call.
    """
    spec, found = fleet.spec, Split()
    named = table.column(spec.series)
    if named is None and not spec.shared:
        raise InvalidInput(f"no row has the column {spec.series!r}, which names the series", field=spec.series)
    spelled: dict[tuple[type, Any], list[int]] = {}  # by type too, as True, 1 and 1.0 are equal keys
    for number, value in enumerate(named or [None] * len(table)):
        spelled.setdefault((type(value), value), []).append(number)
    without = [number for one in (None, "") for number in spelled.pop((type(one), one), [])]
    everywhere = _shared(fleet, table, sorted(without), found)
    for (_, value), numbers in spelled.items():
        try:
            name = name_of(value, numbers[0], spec.series)
            id_ = feed_of(fleet.id, name)
        except InvalidInput as error:
            shown = str(value)[:128] if isinstance(value, str) else None
            found.refused.append((shown, Refusal(error.reason, numbers[0], error.field)))
            continue
        found.names[id_] = name
        found.numbers.setdefault(id_, []).extend(numbers)
    for id_, numbers in found.numbers.items():
        numbers.sort()
        rows = table.some(numbers, spec.series)
        if everywhere:
            _fill_in(rows, everywhere, spec)
        found.tables[id_] = table_of(rows)
    return found


def for_all(fleet: Fleet, table: Table, ids: Sequence[str]) -> dict[str, Row]:
    """Return the rows of a call that names no series, as the same table for each of these feeds."""
    rows = table_of(table.some(range(len(table)), fleet.spec.series))
    return dict.fromkeys(ids, rows)


def _shared(fleet: Fleet, table: Table, numbers: list[int], found: Split) -> dict[Stamp, Row]:
    """Return the values of shared columns by time, from the rows that name no series.

    A row with other columns is refused, and so is a row that contradicts an earlier one for the same time.
    """
    spec, everywhere = fleet.spec, dict[Stamp, Row]()
    for number, row in zip(numbers, table.some(numbers, spec.series), strict=True):
        given = {name: cell for name, cell in row.items() if cell is not None}
        time = given.pop(spec.time, None) if spec.time is not None else None
        try:
            if time is None or not given or not given.keys() <= set(spec.shared):
                reason = "names no series; a row without one has a time and shared columns alone"
                raise InvalidInput(reason, field=spec.series, row=number)
            known = everywhere.setdefault(times.parse(time, str(spec.time), number), {})
            for name, cell in given.items():
                if known.setdefault(name, cell) != cell:
                    reason = "comes twice for one time without a series, with different values"
                    raise InvalidInput(reason, field=name, row=number)
        except InvalidInput as error:
            found.refused.append((None, Refusal(error.reason, number, error.field)))
    return everywhere


def _fill_in(rows: list[Row], everywhere: dict[Stamp, Row], spec: FleetSpec) -> None:
    """Fill the shared columns of rows with the values for the row's time; times may be written in different forms."""
    for number, row in enumerate(rows):
        try:
            known = everywhere.get(times.parse(row.get(spec.time or ""), str(spec.time), number), {})
        except InvalidInput:
            continue  # its feed refuses it
        for name in spec.shared:
            if row.get(name) is None:
                row[name] = known.get(name)
