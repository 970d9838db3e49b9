"""Options of the command line for the settings of feeds and fleets."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from livesvm.service.cli import feeds, fleets
from livesvm.service.cli.feed_settings import OF_FEEDS, OF_FILES, OF_FLEETS, _value
from livesvm.service.feeds.spec import FeedSpec, spec_of
from livesvm.service.fleets.spec import FleetSpec

WINDOW = {"target": "y", "window": 80}
TYPED: list[tuple[str, str, Any]] = [
    ("steps", "6", 6), ("steps", "1,6", [1, 6]), ("window", "200", 200), ("known", "w, v", ["w", "v"]),
    ("features", "1,2", ["1", "2"]), ("time", "null", None), ("time", "1", "1"),
    ("timezone", "Europe/Berlin", "Europe/Berlin"),
    ("every", "15min", "15min"), ("every", "900", 900), ("missing", "skip", "skip"), ("outliers", "learn", "learn"),
    ("minimum", "-2.5", -2.5), ("minimum", "null", None), ("minimum", "auto", "auto"), ("maximum", "7", 7),
    ("late", "correct", "correct"), ("ahead", "accept", "accept"), ("unannounced", "refuse", "refuse"),
    ("lags", "12", 12), ("lags", "1,2,24", [1, 2, 24]), ("lags", "[1]", [1]), ("rolling", '{"max": [5]}', {"max": [5]}),
    ("calendar", "false", False),
    ("holidays", "null", None), ("season", "0", 0), ("task", "direction", "direction"),
    ("band", "null", None), ("band", "0.8", 0.8), ("quantiles", "0.1,0.9", [0.1, 0.9]),
    ("represent", "level", "level"),
    ("C", "3", 3), ("gamma", "0.1", 0.1), ("epsilon", "auto", "auto"), ("on_drift", "choose", "choose"),
    ("components", "50", 50),
    ("batch", "1", 1), ("events", "40", 40), ("generation", "1", 1),
    ("source", "null", None), ("recipes", "null", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "value"), TYPED)
def test_a_typed_setting_is_the_setting(name: str, text: str, value: Any) -> None:
    found = _value(OF_FEEDS[name][0], text)
    assert found == value
    assert getattr(spec_of({**WINDOW, name: found}), name) == value


def test_each_setting_has_an_option_in_each_command() -> None:
    assert {name for name, _, _ in TYPED} == set(OF_FEEDS) - {"align"}  # which needs `every`
    assert set(OF_FEEDS) == set(FeedSpec.model_fields) - {"target"}
    assert set(OF_FLEETS) == set(FleetSpec.model_fields) - {"target"}
    for group, command, settings in (
        (feeds, "create", OF_FEEDS), (feeds, "backtest", OF_FEEDS), (fleets, "create", OF_FLEETS),
    ):  # fmt: skip
        options = {one.name for one in typer.main.get_command(group.app).commands[command].params}  # type: ignore[attr-defined]
        has_files = "separator" in options
        assert {OF_FILES.get(name, name) if has_files else name for name in settings} <= options
