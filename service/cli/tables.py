"""``livesvm models create --csv``: create a model that learns the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from livesvm.service.cli.files import Examples, ExampleTable, Line
from livesvm.service.cli.output import Told, tracked
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.tables.cells import kind_of

if TYPE_CHECKING:
    from livesvm.service.client import Client

CALL = 500
"""Number of rows that one call sends."""
MOST = 5000
"""Largest number of rows of a table that are learnt if no window is given."""
FEW = 20
"""Largest number of distinct integer targets that are taken as labels."""


@dataclass
class TableToLearn:
    """The rows of a table that a model learns, and the model's settings that these rows determine.

    Parameters
    ----------
    settings : task and columns, as ``POST /models`` takes them
    said : how the table was understood, for printing
    """

    path: Path
    table: ExampleTable
    most: int
    is_newest: bool
    settings: dict[str, Any]
    said: dict[str, Any]

    def lines(self) -> Iterator[tuple[int, Line]]:
        """Yield the rows to learn with their numbers; these are the last, or evenly spaced, rows with a target."""
        at, count = self.table.roles.get("y"), 0
        total = self.with_target
        for number, line in enumerate(self.table.found.rows()):
            if at is not None and not line[at]:
                continue
            late = count >= total - self.most
            apart = count * self.most // total != (count - 1) * self.most // total or not count
            if total <= self.most or (late if self.is_newest else apart):
                yield number, line
            count += 1

    @property
    def with_target(self) -> int:
        return self.table.found.count - int(self.said.get("rows without a target") or 0)

    def batches(self) -> Iterator[tuple[list[int], Examples]]:
        """Yield batches of ``CALL`` rows to learn, with the rows' numbers; raises InvalidInput."""
        lines = self.lines()
        while piece := [*islice(lines, CALL)]:
            yield [number for number, _ in piece], self.table.examples(line for _, line in piece)

    @property
    def first(self) -> Examples:
        """The examples in the first batch of rows to learn."""
        return next(self.batches())[1]


def learnt(
    path: Path, given: dict[str, Any], target: str | None, key: str | None, window: int | None, task: str | None
) -> TableToLearn:
    """Read a table, and choose the rows that a model learns, and its settings; raises ValueError or OSError."""
    table = ExampleTable(path, given, (), target, key)
    found = TableToLearn(path, table, window or MOST, window is not None, {}, table.said)
    at, targets, empty = table.roles.get("y"), list[str](), 0
    if at is None and task != "oneclass":
        raise ValueError(f"{path}: name the column of targets by --target; the columns are {_names(table)}")
    if not table.features:
        raise ValueError(f"{path}: has no column but {_names(table)}")
    if at is not None:
        targets = [line[at] for line in table.found.rows()]
        empty = targets.count("")
        targets = [cell for cell in targets if cell]
    found.said["rows without a target"] = empty or None
    if not table.found.count - empty:
        raise ValueError(f"{path}: has no row with a target")
    if task is None:
        task = "svr" if _are_amounts(targets) else "svc"
        found.said["task"] = f"{task}; --task takes another"
    found.settings = {"task": task, "columns": _columns(found)}
    if found.with_target > found.most:
        which = "last rows" if found.is_newest else "rows, evenly apart; --max-examples takes the last ones"
        found.said["learnt"] = f"{found.most} {which}"
    found.said = {name: one for name, one in found.said.items() if one is not None}
    return found


def create(client: Client, model: str, spec: dict[str, Any], found: TableToLearn, *, is_quiet: bool) -> Told:
    """Create a model, and send it the rows to learn; if this fails, delete the model, and raise ValueError."""
    from livesvm.service.client import ServiceProblem

    client.create_model(model, **spec)
    sent, total = 0, -(-min(found.most, found.with_target) // CALL)
    numbers = list[int]()
    try:
        for numbers, batch in tracked(found.batches(), model, total, is_quiet=is_quiet):
            client.update(model, **vars(batch))
            sent += len(numbers)
    except (ServiceProblem, InvalidInput, ValueError) as error:
        client.delete_model(model)
        document = error.document if isinstance(error, ServiceProblem) else {}
        if document.get("row") is None:
            raise
        row = numbers[document["row"]] + 1
        place = f"{found.path}, row {row} below the header: {document.get('name') or document.get('field', '')}"
        raise ValueError(f"{place}: {document.get('reason', '')}; there is no model now") from None
    except BaseException:
        client.delete_model(model)
        raise
    described = _tuned(client, client.model(model))
    shown = {name: described[name] for name in ("id", "task", "n_examples", "n_support", "relative_gap", "C")}
    columns = described["columns"] or []
    parts = [found.said, "", (columns, ("name", "kind", "encoding", "relevance")), "", shown]
    return Told({"sent": sent, "understood": found.said, **described}, parts)


def _tuned(client: Client, described: dict[str, Any]) -> dict[str, Any]:
    """Let a model that tunes itself choose its parameters by all of its rows, and return the tuned model.

    Otherwise the model would choose its parameters by the first batch of rows.
    """
    from livesvm.service.cli.connection import finished
    from livesvm.service.client import ServiceProblem

    if described["tuning"] is None:
        return described
    with suppress(ServiceProblem):  # rows that nothing can be chosen by, as they are few, or of one class
        client.apply(finished(client, client.tune_model(described["id"]))["id"])
    return client.model(described["id"])


def _names(table: ExampleTable) -> str:
    return ", ".join(table.found.names)[:500]


def _are_amounts(targets: list[str]) -> bool:
    """Return whether targets are amounts and not labels: numbers with decimals, or with many distinct values."""
    values = {*targets}
    try:
        numbers = {*map(float, values)}
    except ValueError:
        return False
    return len(numbers) > FEW or (len(numbers) > 2 and not all(one.is_integer() for one in numbers))


def _columns(found: TableToLearn) -> Any:
    """Return the kinds of the columns, judged by all rows; ``"auto"`` if the first batch shows the same kinds."""
    first, all_rows = found.first.X, dict[str, dict[Any, None]]()
    for _, batch in found.batches():
        for name in found.table.features:
            all_rows.setdefault(name, {}).update((row[name], None) for row in batch.X)
    kinds = {name: kind_of([*cells]) for name, cells in all_rows.items()}
    if all(kind == kind_of([row[name] for row in first]) for name, kind in kinds.items()):
        return "auto"
    return [{"name": name, "kind": kind} for name, kind in kinds.items()]
