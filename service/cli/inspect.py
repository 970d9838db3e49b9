"""``livesvm inspect``: show how a file is read, and the commands that would use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from livesvm.service.cli.output import AsJson, Told, failing, show
from livesvm.service.cli.readings import options, reading, told


@reading
def inspect(
    file: Annotated[Path, typer.Argument(help="A file of readings, or a table.", metavar="FILE")],
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
) -> None:
    """Show how a file is read, and which commands would use it; options replace what would be inferred from it."""
    from livesvm.service.feeds import file_report

    wanted = options(given)
    with failing():
        found = file_report.report(file_report.read(file, wanted), wanted, str(file))
    columns, rows = found["columns"], found["rows"]
    names = [one["column"] for one in columns]
    parts = [told(found["understood"]), "", (columns, ("column", "kind", "distinct", "example")), "", (rows, names), ""]
    show(Told(found, [*parts, *found["commands"]]), as_json)
