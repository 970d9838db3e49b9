"""Files of readings in commands: the options that describe a file, and the rows that a command sends."""

from __future__ import annotations

import csv
import inspect
import io
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.output import Told
from livesvm.service.feeds.cells import cell

if TYPE_CHECKING:
    from livesvm.service.feeds.inspection import FileOptions, InspectedTable

Line = list[str]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the first rows as they would be sent, and send none.")]


def _options(
    *,
    separator: Annotated[str | None, typer.Option(help="Between cells; `tab` and `space` are words.")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark: `.` or `,`.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of the text, such as latin-1.")] = None,
    skip: Annotated[int | None, typer.Option(help="Lines before the header.", min=0)] = None,
    header: Annotated[bool | None, typer.Option(help="Whether the first row has the names.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times, or its parts, such as date+clock.")] = None,
    time_format: Annotated[str | None, typer.Option(help="As strptime takes it: %d.%m.%Y %H:%M.")] = None,
    zone: Annotated[str | None, typer.Option(help="IANA name of the zone of times without one.")] = None,
    missing: Annotated[list[str] | None, typer.Option(help="Another mark of a missing value; repeated.")] = None,
    series: Annotated[str | None, typer.Option(help="Column that names the series, or its parts with +.")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="Every column is a series.")] = False,
    align: Annotated[
        str | None, typer.Option(help="Put readings on a grid: nearest, mean, last or sum, also as mean:1h; or none.")
    ] = None,
    member: Annotated[
        str | None, typer.Option(help="The file that is read of those in a zip, or the sheet of a workbook.")
    ] = None,
) -> None:
    """Declare by the signature the options that describe a file; absent options are inferred from the file."""


OPTIONS = inspect.signature(_options, eval_str=True).parameters


OF_SERIES = frozenset(("series", "wide", "align"))
"""Options that tables of examples do not have."""


def reading(work: Callable[..., Any], without: Collection[str] = ()) -> Callable[..., Any]:
    """Return ``work`` as a command with the options that describe a file, except the options named in ``without``.

    The command passes the values of these options to ``work`` as the mapping ``given``.
    """
    own = inspect.signature(work, eval_str=True, locals={"Client": Any}).parameters
    added = [one for one in OPTIONS.values() if one.name not in own and one.name not in without]

    def run(*arguments: Any, **options: Any) -> Any:
        """Run the command, and pass the options about the file to it as one mapping."""
        given = {one.name: options.pop(one.name) for one in added}
        return work(*arguments, **options, given=given)

    kept = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.values() if one.name not in ("client", "given")
    ]
    first = [one for one in own.values() if one.name == "client"]
    run.__signature__ = inspect.Signature([*first, *kept, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*first, *kept, *added]}
    run.__doc__ = work.__doc__
    return run


def of_examples(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``work`` as a command with options for a file of examples, which has no series; see :func:`reading`."""
    return reading(work, OF_SERIES)


def table(
    file: Path,
    given: dict[str, Any] | None = None,
    time: str | None = None,
    series: str | None = None,
    *,
    of_examples: bool = False,
) -> InspectedTable:
    """Read a file as a table, with the options of :func:`reading`; raises ValueError or OSError."""
    from livesvm.service.feeds import inspection

    wanted = options(given or {})
    return inspection.examples(file, wanted) if of_examples else inspection.table(file, wanted, time, series)


def options(given: dict[str, Any]) -> FileOptions:
    """Convert the mapping ``given`` of :func:`reading` to FileOptions; raises typer.BadParameter."""
    from livesvm.service.feeds.inspection import FileOptions
    from livesvm.service.files import dialect

    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "separator" in found:
        words = {word: mark for mark, word in dialect.NAMES.items()} | {"\\t": "\t"}
        found["separator"] = words.get(found["separator"], found["separator"])
        if len(found["separator"]) != 1:
            raise typer.BadParameter("is one character, `tab` or `space`", param_hint="--separator")
    if found.get("decimal", ".") not in (".", ","):
        raise typer.BadParameter("is . or ,", param_hint="--decimal")
    return FileOptions(**found)


def told(understood: dict[str, Any]) -> dict[str, Any]:
    """Return how a file was read, in a form to print: lists are joined to texts."""
    return {name: "; ".join(one) if isinstance(one, list) else one for name, one in understood.items()}


def first_rows(found: InspectedTable) -> Told:
    """Return the output of a dry run: the first rows of a file, in the form in which they would be sent."""
    from livesvm.service.feeds import file_report

    rows = file_report.first_rows(found)
    return Told({"rows": rows}, [(rows, found.names)])


def values_in(found: InspectedTable) -> list[dict[str, Any]]:
    """Return the rows of a table as mappings; cells that are numbers are converted, except in the time column."""
    return [
        {name: cell(text, name == found.time) for name, text in zip(found.names, line, strict=True)}
        for line in found.rows()
    ]


def csv_of(lines: list[Line]) -> bytes:
    """Return rows as the bytes of a CSV text."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()
