"""What is understood of a file, its first rows, and the commands that would follow; of a command, and of the API."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from livesvm.service.feeds import inspection
from livesvm.service.feeds.inspection import FileOptions, InspectedTable
from livesvm.service.files import dialect

SHOWN = 5
"""Rows that are shown."""
_LABEL = re.compile(r"(?i)(y|target|label|class|outcome|churn(ed)?|left|default(ed)?|species|quality)")


def report(path: Path, given: FileOptions, name: str | None = None) -> dict[str, Any]:
    """Return ``understood``, ``columns``, ``rows`` and ``commands`` of a file; raises OSError or ValueError.

    A file that holds no readings, as several rows have one time, is read as examples.

    Parameters
    ----------
    name : of the file, in commands; its path by default
    """
    try:
        found = inspection.table(path, given)
    except ValueError as error:
        if given.series or given.wide:
            raise
        try:
            found = inspection.examples(path, given)
        except ValueError:
            raise error from None
        found.said["as readings"] = f"no: {str(error).removeprefix(f'{path}: ')}"
    rows = first_rows(found)
    example = {column: next((row[column] for row in rows if row[column]), "") for column in found.names}
    kinds = dict.fromkeys(found.numbers, "number") | dict.fromkeys(found.times, "time")
    kinds |= {column: kind for column, kind in ((found.time, "time"), (found.series, "series")) if column}
    columns = [
        {"column": column, "kind": kinds.get(column, "text"), "example": example[column]} for column in found.names
    ]
    follow = _commands(name or str(path), found, given)
    return {"understood": found.understood, "columns": columns, "rows": rows, "commands": follow}


def first_rows(found: InspectedTable) -> list[dict[str, str]]:
    """Return the first rows as they would be sent."""
    return [dict(zip(found.names, line, strict=True)) for line in islice(found.rows(), SHOWN)]


def _commands(file: str, found: InspectedTable, given: FileOptions) -> list[str]:
    """Return the commands for a feed, a fleet and a model, where the file is one for it."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(file).name.partition(".")[0]).strip("-") or "mine"
    options = {option: value for option, value in asdict(given).items() if value not in (None, (), [], False)}
    if given.separator is not None:
        options["separator"] = dialect.NAMES.get(given.separator, given.separator)
    if given.header is False:
        options["no_header"] = True
    rest = " ".join([shlex.quote(file), *(_written(option, value) for option, value in options.items())])
    target = shlex.quote(found.targets[0]) if found.targets else "TARGET"
    fleet = [f"livesvm fleet create {name} {target} --series {shlex.quote(found.series or '')}"]
    fleet.append(f"livesvm fleet run {name} {rest}")
    if found.series is not None:
        return fleet
    several: list[str] = []
    if found.time is not None:
        several = [f"livesvm feed create {name} {target} --from {rest}", f"livesvm feed run {name} {rest}"]
        if len(found.numbers) > 1:
            several += [f"livesvm fleet create {name} value --series series", f"livesvm fleet run {name} {rest} --wide"]
    label = next((column for column in found.names if _LABEL.fullmatch(column)), None)
    label = label or (found.targets[0] if several and found.targets else found.names[-1])
    return [*several, f"livesvm models create {name} --csv {rest} --target {shlex.quote(label)}"]


def _written(option: str, value: Any) -> str:
    name = f"--{option.replace('_', '-')}"
    if isinstance(value, bool):
        return name
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{name} {shlex.quote(str(one))}" for one in values)
