"""Options for the settings of feeds and fleets; the service checks their values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from livesvm.service.cli.output import parsed

TEXT, NAMES, NUMBERS, VALUE = "text", "names", "numbers", "value"
"""Kinds: as it is; names with commas; one number, or several with commas; a number, a word, or JSON."""

OF_FEEDS: dict[str, tuple[str, str]] = {
    "steps": (NUMBERS, "How far ahead: 24 is 1 to 24; 1,24 is exactly these."),
    "window": (VALUE, "The most readings that are remembered."),
    "known": (NAMES, "Columns known ahead, with commas."),
    "features": (NAMES, "Columns known up to the newest reading, with commas."),
    "time": (TEXT, "Column of times; null: rows have an order alone."),
    "timezone": (TEXT, "IANA name of the zone of times without one, and of days."),
    "every": (VALUE, "How far apart readings are, such as 15min, 1h, 1d."),
    "align": (TEXT, "Readings on the grid of --every: nearest, mean or last."),
    "missing": (TEXT, "A missing reading: hold, skip or refuse."),
    "outliers": (TEXT, "A single reading far from all others: hold or learn."),
    "minimum": (VALUE, "The least value that can be; auto; null: none."),
    "maximum": (VALUE, "The largest value that can be; null: none."),
    "late": (TEXT, "Other values for an earlier time: refuse or correct."),
    "ahead": (TEXT, "Times ahead of the service's clock: refuse or accept."),
    "unannounced": (TEXT, "Known columns that were not announced: hold or refuse."),
    "lags": (NUMBERS, "So many of the newest readings, or with commas, which."),
    "rolling": (VALUE, 'Statistics over the newest readings, such as {"mean": [48]}.'),
    "calendar": (VALUE, "Time of day, weekday and day of year: true or false."),
    "holidays": (TEXT, "Country, or its part, such as AU-VIC."),
    "season": (VALUE, "Period in readings; 0: none."),
    "task": (TEXT, "value or direction."),
    "band": (VALUE, "Share of readings in the band; null: none."),
    "quantiles": (NUMBERS, "Two levels, from which the band starts."),
    "represent": (TEXT, "What models learn: change, level or seasonal-change."),
    "C": (VALUE, "Cost of an error, or auto."),
    "gamma": (VALUE, "Of the kernel, or auto."),
    "epsilon": (VALUE, "Half width of the tube without loss, or auto."),
    "components": (VALUE, "Landmarks of a kernel of that rank, for windows of thousands."),
    "recipes": (VALUE, "Chosen settings of each step, as JSON."),
    "on_drift": (TEXT, "announce, or choose settings again."),
    "batch": (VALUE, "Most readings of one call that are learnt at once."),
    "events": (VALUE, "Events that are kept."),
    "generation": (VALUE, "1 or 2: which features models see."),
    "source": (VALUE, "Where readings come from, as JSON."),
}
OF_FLEETS: dict[str, tuple[str, str]] = {
    **OF_FEEDS,
    "series": (TEXT, "The column that names the series."),
    "shared": (NAMES, "Those of --features and --known that are the same for all series."),
    "new": (TEXT, "Readings of a new series: create or refuse."),
}
OF_FILES = {"align": "feed_align", "missing": "on_missing"}
"""Names of options for settings where an option about a file has the setting's name."""


def feed_settings(
    known: dict[str, tuple[str, str]], of_file: Sequence[str] = ()
) -> Callable[[Any], Callable[..., Any]]:
    """Return a decorator that adds an option for each of the ``known`` settings, and ``--settings``, to a command.

    The command receives the settings in the mapping ``asked``. The settings in ``of_file`` get no option, as options
    about a file have the same names; those in ``OF_FILES`` get an option of another name.
    """
    names = {name: OF_FILES.get(name) if name in of_file else name for name in known}
    added = [
        inspect.Parameter(
            option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(option, known[name][1])
        )
        for name, option in names.items()
        if option is not None
    ]
    rest = Annotated[str, typer.Option(help="Settings as JSON, as the service takes them.")]
    added.append(inspect.Parameter("settings", inspect.Parameter.KEYWORD_ONLY, default="{}", annotation=rest))

    def decorated(work: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(work, eval_str=True, locals={"Client": Any}).parameters.values()

        def run(*arguments: Any, settings: str, **options: Any) -> Any:
            """Run the command, and pass the settings to it as one mapping."""
            texts = {name: options.pop(option) for name, option in names.items() if option is not None}
            asked = {name: _value(known[name][0], text) for name, text in texts.items() if text is not None}
            return work(*arguments, **options, asked=asked | parsed(settings, "--settings"))

        kept = [one for one in own if one.name != "asked"]
        before = [one for one in kept if one.kind is not inspect.Parameter.KEYWORD_ONLY]
        run.__signature__ = inspect.Signature([*before, *added, *(one for one in kept if one not in before)])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in [*kept, *added]}
        run.__doc__ = work.__doc__
        return run

    return decorated


def _option(name: str, text: str) -> Any:
    flag = f"--{name.replace('_', '-')}"
    return Annotated[str | None, typer.Option(flag, help=text, show_default=False)]


def _value(kind: str, text: str) -> Any:
    """Return the value of an option; text that is not JSON stays text, which the service then accepts or refuses."""
    if kind == NAMES:
        return [name.strip() for name in text.split(",")] if text.strip() else []
    if kind == NUMBERS and "," in text and not text.lstrip().startswith("["):
        return [_value(VALUE, one.strip()) for one in text.split(",")]
    if kind == TEXT:
        return None if text == "null" else text
    try:
        return json.loads(text)
    except ValueError:
        return text
