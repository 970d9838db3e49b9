"""``livesvm feed``: create feeds, send readings to them, and show their forecasts and scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.board import Board
from livesvm.service.cli.commands import FeedId, RequestName, calling, plain
from livesvm.service.cli.connection import finished
from livesvm.service.cli.feed_settings import OF_FEEDS, feed_settings
from livesvm.service.cli.output import AsJson, Told
from livesvm.service.cli.readings import OPTIONS, DryRun, Line, csv_of, first_rows, reading, table, told, values_in
from livesvm.service.client.feeds import FeedCalls

if TYPE_CHECKING:
    from livesvm.service.client import Client
    from livesvm.service.feeds.inspection import InspectedTable

app = typer.Typer(help="Raw readings in, forecasts out.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="Readings, as `livesvm inspect` understands them.", metavar="FILE")]
Newest = Annotated[
    int | None,
    typer.Option(
        help="How many of the file's readings an empty feed is sent, the newest; 0: all.", min=0, show_default=False
    ),
]
SCORES = ("step", "n", "mae", "last_value_mae", "seasonal_mae", "mase", "coverage", "accuracy", "ahead")
FORECASTS = ("step", "time", "value", "low", "high")
RECIPES = ("step", "represent", "gamma", "C", "error", "before")
COMING = ("readings", "forecasts")
FEEDS = ("id", "state", "position", "time", "every", "season")
_HINTS = {
    "must be a number, not": "say --missing if it is a mark of a missing value",
    "came before with other values": "say --zone if the clock goes back there",
    "not on the clock": "say --align nearest, mean or last, with an interval, as in mean:1h",
    "have to ascend": "say --zone if the clock goes back there, or sort the rows by time",
}
"""Advice on an option, by a part of the reason for which the service refused a row."""
CALL, MOST_CALL, QUICK = 24, 10_000, 0.5
"""Readings of the first call and of the largest one, and the seconds below which the next call has twice as many."""
CALL_ROWS = 50_000
MOST_FORECASTS = 60_000
"""Forecasts that a feed makes of the readings in a file, if no more are asked for: about ten seconds."""
UNUSABLE = 422
"""Status of a call with rows that no feed takes."""


@app.command("create")
@calling
@reading
@feed_settings(OF_FEEDS, of_file=tuple(OPTIONS))
def create(
    client: Client,
    feed: FeedId,
    target: Annotated[str | None, typer.Argument(help="The column that is forecast.")] = None,
    file: Annotated[
        Path | None, typer.Option("--from", help="Readings that say which columns there are, and are sent.")
    ] = None,
    newest: Newest = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
    asked: dict[str, Any],
) -> Any:
    """Create a feed, and if a file is given, send its readings to the feed.

    Without a file, --time, --zone and --align are settings of the feed, too.
    """
    if file is None:
        if target is None:
            raise typer.BadParameter("the column that is forecast is needed, or --from", param_hint="TARGET")
        return client.create_feed(feed, target=target, **without_file(given) | asked)
    found = table(file, given, asked.get("time"))
    if found.unread_times is not None and "time" not in asked:
        raise ValueError(f"{file}: {found.unread_times}; or --settings '{{\"time\": null}}' for rows without times")
    if target is None and not found.targets:
        raise typer.BadParameter("the file has no column of numbers that vary", param_hint="TARGET")
    column = target or found.likeliest or found.targets[0]
    if target is None and len(found.targets) > 1:
        others = ", ".join(one for one in found.targets if one != column)
        found.said["target"] = f"{column}; TARGET takes another: {others[:200]}"
    of_file: dict[str, Any] = {"time": found.time} | of_grid(found)
    if found.zone is not None:
        of_file["timezone"] = found.zone
    if dry_run:
        return first_rows(found)
    client.create_feed(feed, target=column, **of_file | asked)
    try:
        given["align"] = found.align or "none"
        return _run(client, feed, file, None, given, newest, as_json=as_json, said=found.said)
    except ValueError:  # a row is refused: the same command with another option has to work
        client.delete_feed(feed)
        raise


app.command("list")(plain(FeedCalls.feeds, columns=FEEDS))


@app.command("show")
@calling
def show_one(client: Client, feed: FeedId) -> Any:
    """Show one feed: its state, its forecasts, and their errors next to the errors of naive forecasts."""
    found = _served(client, feed)
    forecasts = client.forecast(feed)["forecasts"]
    parts: list[Any] = [{name: found[name] for name in FEEDS}, *filter(None, [found["source"]])]
    if found["filling"] is not None:
        parts += [f"{found['filling']['readings']} readings; from", (found["filling"]["coming"], COMING)]
    return Told(found | {"forecasts": forecasts}, [*parts, (forecasts, FORECASTS), _scored(found["scores"])])


@app.command("push")
@calling
@reading
def push(
    client: Client,
    feed: FeedId,
    file: File,
    idempotency_key: RequestName = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Send all readings in a file to a feed in one call."""
    if dry_run:
        return first_rows(_of_feed(client, feed, file, given))
    answer = client.observe(feed, _whole(client, feed, file, given), idempotency_key=idempotency_key)
    return Told(answer, [answer, (answer["forecasts"], FORECASTS)])


@app.command("announce")
@calling
@reading
def announce(
    client: Client,
    feed: FeedId,
    file: Annotated[Path, typer.Argument(help="Times to come with the known columns, as readings are.")],
    idempotency_key: RequestName = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Announce values of known columns for future times, and show the forecasts that use these values."""
    if dry_run:
        return first_rows(_of_feed(client, feed, file, given))
    answer = client.announce(feed, _whole(client, feed, file, given), idempotency_key=idempotency_key)
    return Told(answer, [(answer["forecasts"], FORECASTS)])


@app.command("forecast")
@calling
def forecast(
    client: Client,
    feed: FeedId,
    steps: Annotated[str, typer.Option(help="Only these steps, with commas.")] = "",
) -> Any:
    """Print the newest forecasts of a feed, with a row for each step."""
    wanted = steps_among(steps)
    rows = [row for row in client.forecast(feed)["forecasts"] if not wanted or row["step"] in wanted]
    return Told(rows, [(rows, FORECASTS)])


@app.command("run")
@calling
@reading
def run(
    client: Client,
    feed: FeedId,
    file: File,
    size: Annotated[
        int | None, typer.Option(help="Readings of one call; more and more if not given.", min=1, max=MOST_CALL)
    ] = None,
    newest: Newest = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Send the readings in a file that a feed does not have yet, in several calls; may be interrupted and repeated.

    Each call also announces the values of known columns in the rows after the rows that it sends.
    """
    return _run(client, feed, file, size, given, newest, dry_run, as_json)


app.command("pause")(plain(FeedCalls.pause_feed, FeedId, part="source"))
app.command("resume")(plain(FeedCalls.resume_feed, FeedId, part="source"))


@app.command("watch")
@calling
def watch(
    client: Client,
    feed: FeedId,
    after: Annotated[int | None, typer.Option(help="Number of the newest event that is known.")] = None,
    count: Annotated[int | None, typer.Option(help="End after so many.", min=1)] = None,
    as_json: AsJson = False,
) -> Any:
    """Print each event of a feed in a line when it happens, even after restarts of the service."""
    for event in islice(client.feed_events(feed, after), count):
        print(json.dumps(event) if as_json else _line(event), flush=True)


@app.command("backtest")
@calling
@reading
@feed_settings(OF_FEEDS, of_file=tuple(OPTIONS))
def backtest(
    client: Client,
    feed: FeedId,
    file: Annotated[Path | None, typer.Argument(help="Readings; those that the feed holds when absent.")] = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
    asked: dict[str, Any],
) -> Any:
    """Score the forecasts that a feed would have made for past readings; the feed itself is not changed.

    Settings in options replace those of the feed.
    """
    found = None if file is None else _of_feed(client, feed, file, given)
    if dry_run and found is not None:
        return first_rows(found)
    rows = None if found is None else values_in(found)
    job = finished(client, client.backtest(feed, rows, **asked))
    return Told(job, [_scored(job["result"]["scores"])])


@app.command("tune")
@calling
def tune(
    client: Client,
    feed: FeedId,
    apply: Annotated[bool, typer.Option("--apply", help="Have the feed learn its window again with it.")] = False,
) -> Any:
    """Choose new values for a feed's settings that are `auto`, based on the readings in its window."""
    job = finished(client, client.tune(feed))
    if apply:
        job["applied"] = client.apply(job["id"])
    return Told(job, [(job["result"]["steps"], RECIPES)])


app.command("delete")(
    plain(FeedCalls.delete_feed, FeedId, asks="Delete feed {}, its models and all that is stored of it?")
)


def without_file(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in options about a file, if there is no file; raises typer.BadParameter for other options."""
    words = {"time": "time", "zone": "timezone", "align": "align"}
    for name, value in given.items():
        if value and name not in words:
            raise typer.BadParameter("is about a file, and needs --from", param_hint=f"--{name.replace('_', '-')}")
    found = {words[name]: value for name, value in given.items() if value}
    if found.get("time") == "null":
        found["time"] = None
    how, _, every = found.get("align", "").partition(":")
    return found | ({"align": how} if how else {}) | ({"every": every} if every else {})


def steps_among(text: str) -> list[int]:
    """Return the steps in the option `--steps`, separated by commas; raises typer.BadParameter for other text."""
    for one in text.split(",") if text else []:
        if not one.strip().isdecimal():
            raise typer.BadParameter(f"{one!r} is no whole number; write some, such as 1,24", param_hint="--steps")
    return [int(one) for one in text.split(",")] if text else []


def _served(client: Client, feed: str) -> dict[str, Any]:
    """Return one feed; wait if it is being restored, and raise ServiceProblem if it is not served."""
    client.forecast(feed)
    return client.feed(feed)


def _table(settings: dict[str, Any], file: Path, given: dict[str, Any] | None = None) -> InspectedTable:
    """Return a file as a table in which the column of times has the name that the feed uses."""
    found = of_served(settings, file, given or {}, settings["time"]).named(time=settings["time"])
    if found.series is not None:
        raise ValueError(f"{file} has several series, named by {found.series!r}; `livesvm fleet create` takes them")
    return found


def of_grid(found: InspectedTable) -> dict[str, str]:
    """Return the interval of a file's readings as the setting of a feed."""
    return {} if found.every is None else {"every": found.every}


def of_served(settings: dict[str, Any], file: Path, given: dict[str, Any], *names: str) -> InspectedTable:
    """Return a file as a table for a feed or fleet; its times are aligned to the grid in the feed's settings."""
    zone = settings["timezone"]
    if settings.get("align") is not None and given.get("align") is None:
        given = given | {"align": "none"}
    try:
        found, every = table(file, given, *names), settings["every"]
        is_open = zone is not None and given.get("zone") is None and found.zone is None
        if is_open and "times that come twice" in found.said:
            return of_served(settings, file, given | {"zone": zone}, *names)
    except ValueError:
        if zone is None or given.get("zone") is not None:
            raise
        return of_served(settings, file, given | {"zone": zone}, *names)  # of numbered hours
    if found.align is not None and given.get("align") is None and every not in (None, "auto"):
        method, _, own = found.align.partition(":")
        grid = f"{every:g}s" if isinstance(every, int | float) else every
        found = found if grid == own else table(file, given | {"align": f"{method}:{grid}"}, *names)
    return found.fitting([settings["target"], *settings["known"], *settings["features"]])


def _whole(client: Client, feed: str, file: Path, given: dict[str, Any]) -> bytes:
    """Return all rows of a file as CSV in the form that is sent to the feed."""
    found = _of_feed(client, feed, file, given)
    return csv_of([found.names, *found.rows()])


def _of_feed(client: Client, feed: str, file: Path, given: dict[str, Any]) -> InspectedTable:
    return _table(client.feed(feed)["settings"], file, given)


def _run(
    client: Client,
    feed: str,
    file: Path,
    size: int | None,
    given: dict[str, Any],
    newest: int | None = None,
    dry_run: bool = False,
    as_json: bool = False,
    said: dict[str, Any] | None = None,
) -> Told:
    served = _served(client, feed)
    settings = served["settings"]
    found = _table(settings, file, given)
    if dry_run:
        return first_rows(found)
    found.said |= {"target": (said or {}).get("target")}
    known, sent, corrected = _known(served, found), 0, 0
    older = 0 if known or found.time is None else max(0, found.count - _most(settings, newest))
    begin, ahead = known + older, _horizon(settings, found.names)
    with Board(found.count - begin, not as_json) as board:
        for piece, following in _pieces(islice(found.rows(), begin, None), size, ahead):
            announced = _announced(settings, found.names, following)
            with _told_of(file, found, begin + sent, is_new=said is not None):
                answer = client.observe(feed, csv_of([found.names, *piece, *announced]))
            sent, corrected = sent + len(piece), corrected + answer["corrected"]
            board.show(sent, answer, client.feed(feed) if board.is_shown else {})
    shown = client.feed(feed)
    done = f"{sent} readings sent, {known} were known"
    done += f", {older} older ones left out; --newest 0 sends all" if older else ""
    done += f", {corrected} took the place of others of the same time" if corrected else ""
    answer = {"sent": sent, "skipped": known, "older": older, "corrected": corrected}
    answer |= {"understood": found.understood, **shown}
    return Told(answer, [told(found.understood), done, _scored(shown["scores"])])


def _most(settings: dict[str, Any], newest: int | None) -> int:
    """Return how many of a file's readings an empty feed is sent: the ``newest``, or all if that is 0.

    If nothing is given, as many as make some ten seconds' forecasts, and at least two windows.
    """
    if newest is None:
        steps = settings["steps"]
        return max(MOST_FORECASTS // (steps if isinstance(steps, int) else len(steps)), 2 * int(settings["window"]))
    return newest or sys.maxsize


def _line(event: dict[str, Any]) -> str:
    """Return an event as a line of text: its number, kind and time, and its forecast of the first step, if any."""
    words = [event["id"], event["kind"], event.get("time")]
    if event.get("forecasts"):
        first = event["forecasts"][0]
        words += [f"step {first['step']}:", f"{first['value']:.6g}"]
    return " ".join(str(word) for word in words if word is not None)


def _known(feed: dict[str, Any], found: InspectedTable) -> int:
    """Return how many of a file's readings a feed already has, judged by the feed's newest time or number of rows."""
    from livesvm.service.feeds.presenter import seconds_asked, seconds_in
    from livesvm.service.feeds.spec import FeedSpec

    settings = {name: value for name, value in feed["settings"].items() if name not in ("chosen", "tried")}
    spec = FeedSpec.model_validate(settings)
    if spec.time is None or (feed["time"] is None and feed["every"] is None):
        return min(int(feed["rows"]), found.count)
    if feed["time"] is None:  # before the first reading, or with none left
        return 0
    if spec.time not in found.names:
        raise ValueError(f"the file has no column {spec.time!r}; --time names the one of times")
    at, newest = found.names.index(spec.time), seconds_asked(spec, feed["time"], spec.time)
    assert newest is not None
    return sum(time <= newest for time in seconds_in(spec, [line[at] for line in found.rows()], spec.time))


@contextmanager
def _told_of(file: Path, found: InspectedTable, before: int, *, is_new: bool) -> Iterator[None]:
    """Report a refused row by its number in the file; ``before`` rows that are sent precede the rows of the call.

    If the feed ``is_new``, the message says that no feed is created.
    """
    from livesvm.service.client import ServiceProblem

    try:
        yield
    except ServiceProblem as problem:
        row = problem.document.get("row")
        if row is None and not (is_new and problem.status == UNUSABLE):
            raise
        place = f"{file}" if row is None else f"{file}, {found.place_of(before + row)}, counted from 0"
        field = problem.document.get("field", "")
        reason = problem.document.get("reason", "")
        left = "no feed is created" if is_new else f"{before} are known"
        raise ValueError(f"{place}: {field} {hinted(reason)}; {left}") from None


def hinted(reason: str) -> str:
    """Return the reason why a row is refused, with a hint to an option that helps, if there is one."""
    reason = reason.replace("late='correct'", "--late correct")
    return reason + next((f"; {hint}" for part, hint in _HINTS.items() if part in reason), "")


def _scored(scores: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return scores and the names of the fields to show, with ``assumes`` if a score has this field."""
    return scores, (*SCORES, "assumes") if any("assumes" in one for one in scores) else SCORES


def _horizon(settings: dict[str, Any], names: Line) -> int:
    """Return how many rows after the sent rows a call announces; 0 if the feed has no known columns."""
    if not settings["known"] or settings["time"] is None or settings["target"] not in names:
        return 0
    steps = settings["steps"]
    return int(max(steps) if isinstance(steps, list) else steps)


def _announced(settings: dict[str, Any], names: Line, lines: list[Line]) -> list[Line]:
    """Return the rows with empty targets, so that the feed takes them as announcements of known columns."""
    if not lines:
        return []
    target = names.index(settings["target"])
    return [[*line[:target], "", *line[target + 1 :]] for line in lines]


def _pieces(lines: Iterator[Line], size: int | None, ahead: int) -> Iterator[tuple[list[Line], list[Line]]]:
    """Yield pieces of ``size`` rows to send, each with the ``ahead`` rows after the piece, which are announced.

    Without a size, pieces grow as long as the caller asks for the next one soon.
    """
    held, each = list[Line](), size or CALL
    while held := [*held, *islice(lines, each + ahead - len(held))]:
        begun, end = monotonic(), each
        yield held[:end], held[end : end + ahead]
        held = held[end:]
        if size is None and monotonic() - begun < QUICK:
            each = min(2 * each, MOST_CALL)
