"""``livesvm fleet``: create fleets of many series, send readings to them, and show their forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.commands import FleetId, RequestName, calling, plain
from livesvm.service.cli.feed_settings import OF_FLEETS, feed_settings
from livesvm.service.cli.feeds import CALL_ROWS, File, hinted, of_grid, of_served, steps_among, without_file
from livesvm.service.cli.output import Told, tracked
from livesvm.service.cli.readings import OPTIONS, DryRun, Line, csv_of, first_rows, reading, table, told
from livesvm.service.client.fleets import FleetCalls

if TYPE_CHECKING:
    from livesvm.service.client import Client
    from livesvm.service.feeds.inspection import InspectedTable

app = typer.Typer(help="One specification of a feed for many series.", no_args_is_help=True)

Size = Annotated[int, typer.Option(help="Rows of one call.", min=1, max=200_000)]
FORECASTS = ("series", "feed", "step", "time", "value", "low", "high", "served", "state")
SERIES = ("series", "feed", "state", "position", "time", "ratio", "coverage")
RATIOS = {"mean": "mean ratio", "median": "median ratio"}
FLEETS = ("id", "state", "series", "created_at")
REFUSED = ("series", "row", "field", "reason")
COUNTS = ("series", "accepted", "ignored", "corrected", "announced", "refused_in_all")


@app.command("create")
@calling
@reading
@feed_settings(OF_FLEETS, of_file=tuple(OPTIONS))
def create(
    client: Client,
    fleet: FleetId,
    target: Annotated[str | None, typer.Argument(help="The column that is forecast.")] = None,
    file: Annotated[Path | None, typer.Option("--from", help="Readings of all series, which are sent.")] = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
    asked: dict[str, Any],
) -> Any:
    """Create a fleet, and if a file is given, send its readings to the fleet.

    Without a file, --series, --time, --zone and --align are settings of the fleet, too.
    """
    if file is None:
        if target is None:
            raise typer.BadParameter("the column that is forecast is needed, or --from", param_hint="TARGET")
        named = {} if given["series"] is None else {"series": given["series"]}
        return client.create_fleet(fleet, target=target, **named | without_file(given | {"series": None}) | asked)
    found = table(file, given, asked.get("time"), "series")
    if dry_run:
        return first_rows(found)
    of_file = {"time": found.time, "series": found.series or "series"} | of_grid(found)
    if found.zone is not None:
        of_file["timezone"] = found.zone
    client.create_fleet(fleet, target=target or found.likeliest or "value", **of_file | asked)
    sent = _run(client, fleet, file, CALL_ROWS, given | {"align": found.align or "none"})
    if sent.status and not sent.answer["accepted"]:  # the same command with another option has to work
        client.delete_fleet(fleet)
    return sent


app.command("list")(plain(FleetCalls.fleets, columns=FLEETS))


@app.command("show")
@calling
def show_one(client: Client, fleet: FleetId) -> Any:
    """Show one fleet: the number of its series, the errors of their forecasts, and the worst series."""
    found = client.fleet(fleet)
    scores = {RATIOS.get(name, name): value for name, value in (found["scores"] or {}).items()}
    shown = {name: found[name] for name in (*FLEETS, "position")} | scores
    return Told(found, [shown, "\nworst", (found["worst"], SERIES)])


app.command("series")(plain(FleetCalls.series, FleetId, SERIES))


@app.command("push")
@calling
@reading
def push(
    client: Client,
    fleet: FleetId,
    file: File,
    size: Size = CALL_ROWS,
    idempotency_key: RequestName = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Send all readings in a file, in calls of --size rows; exits with 1 if the readings of a series were refused."""
    found = _table(client.fleet(fleet)["settings"], file, given)
    if dry_run:
        return first_rows(found)
    return _sent(client.observe_fleet, fleet, found, enumerate(found.rows()), size, idempotency_key)


@app.command("run")
@calling
@reading
def run(
    client: Client,
    fleet: FleetId,
    file: File,
    size: Size = CALL_ROWS,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Send the readings in a file that are new to their series; exits with 1 if any readings were refused.

    If a file has a column for each series, it is converted to a row for each series and time.
    """
    if dry_run:
        return first_rows(_table(client.fleet(fleet)["settings"], file, given))
    return _run(client, fleet, file, size, given)


def _run(client: Client, fleet: str, file: Path, size: int, given: dict[str, Any]) -> Told:
    settings = client.fleet(fleet)["settings"]
    found = _table(settings, file, given)
    sent = _sent(client.observe_fleet, fleet, found, _new(client, fleet, settings, found), size, None)
    return sent._replace(
        answer=sent.answer | {"understood": found.understood}, parts=[told(found.understood), *sent.parts]
    )


@app.command("announce")
@calling
@reading
def announce(
    client: Client,
    fleet: FleetId,
    file: Annotated[Path, typer.Argument(help="Times to come with the known columns, as readings are.")],
    size: Size = CALL_ROWS,
    idempotency_key: RequestName = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Announce values of known columns for future times, for the series that the file names, or for all series."""
    found = _table(client.fleet(fleet)["settings"], file, given)
    if dry_run:
        return first_rows(found)
    return _sent(client.announce_fleet, fleet, found, enumerate(found.rows()), size, idempotency_key)


@app.command("forecast")
@calling
def forecast(
    client: Client,
    fleet: FleetId,
    series: Annotated[list[str] | None, typer.Option(help="Only this series; may be repeated.")] = None,
    steps: Annotated[str, typer.Option(help="Only these steps, with commas.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write them to this file: .csv, or .parquet.")
    ] = None,
) -> Any:
    """Print the newest forecasts of all series or of some, with a row for each series and step."""
    rows = client.fleet_forecast(fleet, series, steps_among(steps))
    if output is None:
        return Told(rows, [(rows, FORECASTS)])
    from livesvm.service.api import fleet_tables

    is_parquet = output.suffix.lower() in (".parquet", ".pq")
    output.write_bytes(fleet_tables.parquet_of(rows) if is_parquet else fleet_tables.csv_of(rows))
    return None


app.command("pause")(plain(FleetCalls.pause_fleet, FleetId))
app.command("resume")(plain(FleetCalls.resume_fleet, FleetId))
app.command("delete")(
    plain(FleetCalls.delete_fleet, FleetId, asks="Delete fleet {}, its series and all that is stored of them?")
)


def _table(settings: dict[str, Any], file: Path, given: dict[str, Any]) -> InspectedTable:
    """Return a file as a table in which the columns of times, series and targets have the fleet's names."""
    names = (settings["time"], settings["series"])
    found = of_served(settings, file, given, *names)
    if found.series is None and settings["target"] not in found.names and len(found.numbers) > 1:
        found = of_served(settings, file, given | {"wide": True}, *names)
    if found.is_wide:
        found.names = [settings["target"] if name == "value" else name for name in found.names]
    return found.named(time=settings["time"], series=settings["series"])


def _new(client: Client, fleet: str, settings: dict[str, Any], found: InspectedTable) -> Iterator[tuple[int, Line]]:
    """Yield the rows of a file, with numbers, that are not older than the newest reading of their series."""
    from livesvm.service.feeds.presenter import seconds_asked
    from livesvm.service.feeds.spec import FeedSpec

    for name in (settings["time"], settings["series"]):
        if name not in found.names:
            raise ValueError(f"the file has no column {name!r}; `livesvm inspect` says how it is read")
    spec = FeedSpec.model_validate({name: settings[name] for name in ("target", "time", "timezone")})
    time, series = found.names.index(settings["time"]), found.names.index(settings["series"])
    newest = {
        str(one["series"]): seconds_asked(spec, one["time"], "time") for one in client.series(fleet) if one["time"]
    }
    for at, row in enumerate(found.rows()):
        before = newest.get(row[series])
        if before is None or (seconds_asked(spec, row[time], settings["time"], "last") or 0.0) >= before:
            yield at, row


def _sent(
    send: Any, fleet: str, found: InspectedTable, lines: Iterator[tuple[int, Line]], size: int, key: str | None
) -> Told:
    """Send rows in several calls, and return sums of the answers; ``key`` gives each call its own Idempotency-Key."""
    total: dict[str, Any] = dict.fromkeys(COUNTS, 0) | {"calls": 0}
    refused: list[dict[str, Any]] = []
    begin = 0
    pieces = iter(lambda: [*islice(lines, size)], [])
    for piece in tracked(pieces, fleet, -(-found.count // size)):
        named = None if key is None else f"{key}-{begin}"
        numbers = [found.row_of(at) if found.row_of else at for at, _ in piece]
        answer = send(fleet, csv_of([found.names, *(row for _, row in piece)]), idempotency_key=named)
        for name in COUNTS[1:]:
            total[name] += answer[name]
        total["series"] = max(total["series"], answer["series"])
        total["calls"] += 1
        refused += [
            one | {"row": None if one["row"] is None else numbers[one["row"]], "reason": hinted(one["reason"])}
            for one in answer["refused"]
        ]
        begin += len(piece)
    parts = [total, (refused, REFUSED)] if refused else [total]
    return Told(total | {"refused": refused}, parts, status=1 if refused else 0)
