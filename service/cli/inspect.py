"""``livesvm inspect``: what is understood of a file, and the commands that would follow."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.output import AsJson, Told, failing, show
from livesvm.service.cli.readings import first_rows, reading, table, told

if TYPE_CHECKING:
    from livesvm.service.feeds.inspection import InspectedTable


@reading
def inspect(
    file: Annotated[Path, typer.Argument(help="A file of readings.", metavar="FILE")],
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
) -> None:
    """Say how a file of readings is read, and which commands would follow. Options correct what is found."""
    with failing():
        found = table(file, given)
        rows = first_rows(found)
        follow = commands(file, found, given)
    examples = {name: next((row[name] for row in rows.answer["rows"] if row[name]), "") for name in found.names}
    kinds = {found.time: "time", found.series: "series"} | dict.fromkeys(found.numbers, "number")
    columns = [{"column": name, "kind": kinds.get(name, "text"), "example": examples[name]} for name in found.names]
    parts = [told(found), "", (columns, ("column", "kind", "example")), "", *follow]
    show(Told({"understood": found.understood, "columns": columns, **rows.answer, "commands": follow}, parts), as_json)


def commands(file: Path, found: InspectedTable, given: dict[str, Any]) -> list[str]:
    """Return the commands for a feed, a fleet and a model, where the file is one for it."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", file.name.partition(".")[0]).strip("-") or "mine"
    options = " ".join(_written(option, value) for option, value in given.items() if value not in (None, [], False))
    rest = f"{shlex.quote(str(file))} {options}".strip()
    target = shlex.quote(found.targets[0]) if found.targets else "TARGET"
    several = [f"livesvm fleet create {name} {target} --series {shlex.quote(found.series or '')}"]
    several.append(f"livesvm fleet run {name} {rest}")
    if found.series is not None:
        return several
    one = [f"livesvm feed create {name} {target} --from {rest}", f"livesvm feed run {name} {rest}"]
    if len(found.numbers) > 1 and found.time is not None:
        one += [f"livesvm fleet create {name} value --series series", f"livesvm fleet run {name} {rest} --wide"]
    return [*one, f"livesvm models create {name} --task svr", f"livesvm update {name} FILE"]


def _written(option: str, value: Any) -> str:
    name = f"--{option.replace('_', '-')}"
    if isinstance(value, bool):
        return name
    return " ".join(f"{name} {shlex.quote(str(one))}" for one in (value if isinstance(value, list) else [value]))
