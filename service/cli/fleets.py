"""``livesvm fleet``: many series by one specification, their readings and forecasts in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected
from livesvm.service.cli.feeds import CALL_ROWS, File, columns_in, steps_among, steps_in
from livesvm.service.cli.output import AsJson, Yes, confirm, parsed, show
from livesvm.service.cli.readings import Line, csv_of, table
from livesvm.service.feeds.cells import inert

app = typer.Typer(help="One specification of a feed for many series.", no_args_is_help=True)

FleetId = Annotated[str, typer.Argument(help="The fleet's id.", metavar="FLEET")]
Size = Annotated[int, typer.Option(help="Rows of one call.", min=1, max=200_000)]
KeyOption = Annotated[str | None, typer.Option(help="Sent again under this name, it has one effect.")]
FORECASTS = ("series", "feed", "step", "time", "value", "low", "high", "served", "state")
SERIES = ("series", "feed", "state", "position", "time", "ratio", "coverage")
RATIOS = {"mean": "mean ratio", "median": "median ratio"}
FLEETS = ("id", "state", "series", "created_at")
REFUSED = ("series", "row", "field", "reason")
COUNTS = ("series", "accepted", "ignored", "corrected", "announced", "refused_in_all")


@app.command("create")
def create(
    fleet: FleetId,
    target: Annotated[str, typer.Argument(help="The column that is forecast.")],
    series: Annotated[str, typer.Option(help="The column that names the series.")] = "series",
    steps: Annotated[str, typer.Option(help="How far ahead: 24 is 1 to 24; 1,24 is exactly these.")] = "1",
    window: Annotated[int | None, typer.Option(help="Readings of each series that are remembered.")] = None,
    known: Annotated[str, typer.Option(help="Columns known ahead, with commas.")] = "",
    features: Annotated[str, typer.Option(help="Columns known up to the newest reading, with commas.")] = "",
    shared: Annotated[str, typer.Option(help="Those of them that are the same for all series, with commas.")] = "",
    settings: Annotated[str, typer.Option(help="All else as JSON, as POST /fleets takes it.")] = "{}",
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Create a fleet."""
    with connected(url, key) as client:
        given: dict[str, Any] = {"target": target, "series": series, "steps": steps_in(steps)}
        if window is not None:
            given["window"] = window
        given |= columns_in(known=known, features=features, shared=shared)
        show(client.create_fleet(fleet, **given | parsed(settings, "--settings")), as_json)


@app.command("list")
def list_all(url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """List every fleet, by id."""
    with connected(url, key) as client:
        show(client.fleets(), as_json, FLEETS)


@app.command("show")
def show_one(fleet: FleetId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Show one fleet: how many series it has, how well they are forecast, and the worst of them."""
    with connected(url, key) as client:
        found = client.fleet(fleet)
        if as_json:
            show(found, as_json)
            return
        scores = {RATIOS.get(name, name): value for name, value in (found["scores"] or {}).items()}
        show({name: found[name] for name in (*FLEETS, "position")} | scores, as_json)
        print("\nworst")
        show(found["worst"], as_json, SERIES)


@app.command("series")
def series(fleet: FleetId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """List every series of a fleet, with its error over the better naive one's."""
    with connected(url, key) as client:
        show(client.series(fleet), as_json, SERIES)


@app.command("push")
def push(
    fleet: FleetId,
    file: File,
    size: Size = CALL_ROWS,
    idempotency_key: KeyOption = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Send the readings of a file, so many rows to a call; exits with 1 if any series was refused."""
    with connected(url, key) as client:
        _send(client.observe_fleet, fleet, file, size, idempotency_key, as_json)


@app.command("announce")
def announce(
    fleet: FleetId,
    file: Annotated[Path, typer.Argument(help="Times to come with the known columns, as readings are.")],
    size: Size = CALL_ROWS,
    idempotency_key: KeyOption = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Announce known columns of times to come: of the series that the file names, or of all."""
    with connected(url, key) as client:
        _send(client.announce_fleet, fleet, file, size, idempotency_key, as_json)


@app.command("forecast")
def forecast(
    fleet: FleetId,
    series: Annotated[list[str] | None, typer.Option(help="Only this series; may be repeated.")] = None,
    steps: Annotated[str, typer.Option(help="Only these steps, with commas.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write them to this file: .csv, or .parquet.")
    ] = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Print the newest forecasts of all series or of some, a row each series and step."""
    with connected(url, key) as client:
        wanted = steps_among(steps)
        rows = client.fleet_forecast(fleet, series, wanted)
        if output is None:
            show(rows, as_json, FORECASTS)
        elif output.suffix.lower() in (".parquet", ".pq"):
            from livesvm.service.api.fleet_tables import parquet_of

            output.write_bytes(parquet_of(rows))
        else:
            lines = [["" if row[name] is None else inert(str(row[name])) for name in FORECASTS] for row in rows]
            output.write_bytes(csv_of([list(FORECASTS), *lines]))


@app.command("pause")
def pause(fleet: FleetId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Take nothing more from the fleet's source, until it is resumed."""
    with connected(url, key) as client:
        show(client.pause_fleet(fleet), as_json)


@app.command("resume")
def resume(fleet: FleetId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Take what waits in the fleet's source."""
    with connected(url, key) as client:
        show(client.resume_fleet(fleet), as_json)


@app.command("delete")
def delete(fleet: FleetId, yes: Yes = False, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Delete a fleet, its series and all that is stored of them."""
    confirm(f"Delete fleet {fleet}, its series and all that is stored of them?", yes)
    with connected(url, key) as client:
        client.delete_fleet(fleet)
        if as_json:
            show({"deleted": fleet}, as_json)


def _send(send: Any, fleet: str, file: Path, size: int, key: str | None, as_json: bool) -> None:
    """Send a file piece by piece, each under a name of its own where there is one; show what became of it."""
    names, lines = table(file)
    total: dict[str, Any] = dict.fromkeys(COUNTS, 0) | {"calls": 0}
    refused: list[dict[str, Any]] = []
    for begin in range(0, len(lines), size):
        piece: list[Line] = lines[begin : begin + size]
        named = None if key is None else f"{key}-{begin}"
        answer = send(fleet, csv_of([names, *piece]), idempotency_key=named)
        for name in COUNTS[1:]:
            total[name] += answer[name]
        total["series"] = max(total["series"], answer["series"])
        total["calls"] += 1
        refused += [one | {"row": None if one["row"] is None else begin + one["row"]} for one in answer["refused"]]
    show(total | {"refused": refused} if as_json else total, as_json)
    if refused and not as_json:
        show(refused, as_json, REFUSED)
    if refused:
        raise typer.Exit(1)
