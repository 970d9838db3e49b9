"""Reports on a data file, for command line and API: its meaning, its first rows, and the commands to run next."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Collection
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from livesvm.service.feeds import inspection
from livesvm.service.feeds.inspection import FileOptions, InspectedTable
from livesvm.service.files import dialect
from livesvm.solvers.errors import InvalidInput

SHOWN = 5
"""Rows that are shown."""
LOOKED_AT, MOST_VALUES = 10_000, 50
"""Rows by which different cells are counted, and how many different ones are listed."""
_OPTION = re.compile(r"say --([a-z-]+)")
_LABEL = re.compile(r"(?i)(y|target|label|class|outcome|churn(ed)?|left|default(ed)?|species|quality)")


def read(path: Path, given: FileOptions, *, of_examples: bool = False) -> InspectedTable:
    """Read a file as readings, or as examples if it cannot be read as readings. Raises OSError or ValueError."""
    if of_examples:
        return inspection.examples(path, given)
    try:
        return inspection.table(path, given)
    except ValueError as error:
        if given.series or given.wide:
            raise
        try:
            found = inspection.examples(path, given)
        except ValueError:
            raise error from error.__cause__
        found.said["as readings"] = f"no: {str(error).removeprefix(f'{path}: ')}"
        return found


def work(asked: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Read a file and report on it, in a separate process; raises InvalidInput that names the option to set, if any.

    Parameters
    ----------
    asked : ``file``, ``name``, ``options`` of :class:`FileOptions`, ``of_examples``; ``sent``, a file that the rows are
        written to as CSV, of at most ``most_bytes``
    """
    path = Path(asked["file"])
    try:
        found = read(path, FileOptions(**asked["options"]), of_examples=asked["of_examples"])
        answer = report(found, FileOptions(**asked["options"]), asked["name"])
        if asked["sent"] is not None:
            with Path(asked["sent"]).open("w", newline="", encoding="utf-8") as file:
                lines = csv.writer(file)
                lines.writerow(found.names)
                for line in found.rows():
                    lines.writerow(line)
                    if file.tell() > asked["most_bytes"]:
                        raise InvalidInput(f"has more than {asked['most_bytes']} bytes as CSV", field="body")
        return answer
    except InvalidInput:
        raise
    except ValueError as error:
        cause, reason = error.__cause__, str(error).removeprefix(f"{path}: ")
        row, option = None, _OPTION.search(reason)
        if isinstance(cause, InvalidInput):
            option, row = _OPTION.search(f"say {cause.field}") or option, cause.row
            is_known = cause.field in (None, "body", "rows") or f"{cause.field}".startswith("--")
            reason = cause.reason if is_known else f"{cause.field}: {cause.reason}"
        raise InvalidInput(reason, field=option[1].replace("-", "_") if option else "body", row=row) from error


def report(found: InspectedTable, given: FileOptions, name: str) -> dict[str, Any]:
    """Return the report: ``understood``, ``columns``, ``rows``, ``commands``, and the columns of time, series, targets.

    Parameters
    ----------
    name : of the file, in commands
    """
    rows, looked_at = first_rows(found), [*islice(found.rows(), LOOKED_AT)]
    cells = {column: {*those} - {""} for column, those in zip(found.names, zip(*looked_at, strict=True), strict=False)}
    example = {column: next((row[column] for row in rows if row[column]), "") for column in found.names}
    kinds = dict.fromkeys(found.numbers, "number") | dict.fromkeys(found.times, "time")
    kinds |= {column: kind for column, kind in ((found.time, "time"), (found.series, "series")) if column}
    columns = [
        {"column": column, "kind": kinds.get(column, "text"), "example": example[column]}
        | _values(cells.get(column, ()))
        for column in found.names
    ]
    meanings = {"time": found.time, "series": found.series, "targets": found.targets, "count": found.count}
    meanings |= {"zone": found.zone, "align": found.align, "every": found.every}
    follow = _commands(name, found, given)
    if len(found.targets) > 1 and found.times:
        first, *others = found.targets
        found.said["target"] = f"{first}; the commands take another name in its place: {', '.join(others)[:200]}"
    return {"understood": found.understood, "columns": columns, "rows": rows, "commands": follow} | meanings


def _values(cells: Collection[str]) -> dict[str, Any]:
    return {"distinct": len(cells), "values": sorted(cells) if len(cells) <= MOST_VALUES else []}


def first_rows(found: InspectedTable) -> list[dict[str, str]]:
    """Return the first rows, in the form in which they would be sent to the service."""
    return [dict(zip(found.names, line, strict=True)) for line in islice(found.rows(), SHOWN)]


def _commands(file: str, found: InspectedTable, given: FileOptions) -> list[str]:
    """Return the commands that create a feed, a fleet or a model from the file, as far as it suits them."""
    name = (
        re.sub(r"[^a-z0-9_-]+", "-", Path(file).name.partition(".")[0].lower()).lstrip("-_")[:36].rstrip("-") or "mine"
    )
    options = {option: value for option, value in asdict(given).items() if value not in (None, (), [], False)}
    if found.align is not None:
        options["align"] = found.align
    if given.separator is not None:
        options["separator"] = dialect.NAMES.get(given.separator, given.separator)
    if given.header is False:
        options["no_header"] = True
    rest = " ".join([shlex.quote(file), *(_written(option, value) for option, value in options.items())])
    target = shlex.quote(found.targets[0]) if found.targets else "TARGET"
    if found.series is not None:
        return [f"livesvm fleet create {name} {target} --from {rest}", f"livesvm fleet run {name} {rest}"]
    several: list[str] = []
    if found.time is not None:
        several = [f"livesvm feed create {name} {target} --from {rest}", f"livesvm feed run {name} {rest}"]
        if len(found.numbers) > 1:
            several += [f"livesvm fleet create {name} --from {rest} --wide", f"livesvm fleet run {name} {rest} --wide"]
    label = next((column for column in found.names if _LABEL.fullmatch(column)), None)
    label = label or (found.targets[0] if several and found.targets else found.names[-1])
    return [*several, f"livesvm models create {name} --csv {rest} --target {shlex.quote(label)}"]


def _written(option: str, value: Any) -> str:
    name = f"--{option.replace('_', '-')}"
    if isinstance(value, bool):
        return name
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{name} {shlex.quote(str(one))}" for one in values)
