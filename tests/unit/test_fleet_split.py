"""Rows of many series in one call: each is one series' row, in order, or refused, however its name is written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.feeds.commands import Observations
from livesvm.service.feeds.sources.base import SourceEntry
from livesvm.service.feeds.sources.spec import MqttSpec
from livesvm.service.fleets.catalogue import Fleet, Fleets
from livesvm.service.fleets.names import feed_of, name_of, series_of
from livesvm.service.fleets.readings import create_series, observe
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.fleets.split import Table, split
from livesvm.service.hosting.kinds import FEED, HostedFeeds
from livesvm.service.lifecycle.fleet_source import FleetFed
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import InvalidInput
from tests.support.live_models import context_of

NAMES: dict[str, list[Any]] = {
    "7": [7, "7", 7.0],
    "1": [1, "1", 1.0],
    "0": [0, "0", 0.0, -0.0],
    "true": ["true"],
    "7.0": ["7.0"],
    "9007199254740993": [2**53 + 1, str(2**53 + 1)],
}
BAD: list[Any] = [True, False, 7.5, math.nan, math.inf, 2**64, " 7", "a\n"]
SPELLED = [(name, value) for name, values in NAMES.items() for value in values]
SPEC: dict[str, Any] = {"target": "y", "every": "1h", "features": ["w"], "shared": ["w"]}
FLEET = Fleet("f", FleetSpec(**SPEC), 0.0)


def readings(cells: list[Any]) -> list[dict[str, Any]]:
    return [{"series": cell, "time": 3600 * at, "y": float(at), "w": 0.0} for at, cell in enumerate(cells)]


@given(st.lists(st.sampled_from([*SPELLED, *((None, value) for value in BAD)]), min_size=1, max_size=30), st.booleans())
def test_each_row_is_one_series_row_in_order_or_refused(named: list[tuple[str | None, Any]], by_column: bool) -> None:
    rows = readings([value for _, value in named])
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    found = split(FLEET, Table(columns=columns) if by_column else Table(rows))
    for name in NAMES:
        expected = [at for at, (meant, _) in enumerate(named) if meant == name]
        ids = [id_ for id_, one in found.names.items() if one == name]
        assert [found.numbers[id_] for id_ in ids] == ([expected] if expected else [])
        for id_ in ids:
            taken = Observations(found.tables[id_], None, 0.0).rows()
            assert [row["y"] for row in taken] == expected
            assert series_of(id_) == name
    bad = [(type(value), value) for name, value in named if name is None]
    assert {type(named[refusal.row or 0][1]) for _, refusal in found.refused} == {kind for kind, _ in bad}
    assert len(found.refused) >= len({one for one in bad if one[1] == one[1]})
    assert all(refusal.field == "series" for _, refusal in found.refused)


def test_shared_columns_are_of_a_time_however_it_is_written() -> None:
    shared = [{"time": "2024-01-01T01:00", "w": 5.0}, {"time": "2024-01-01 01:00:00", "w": 5.0}]
    rows: list[Any] = [*shared, {"series": "a", "time": "2024-01-01T01:00:00", "y": 1.0}]
    found = split(FLEET, Table([*rows, {"time": "2024-01-01T01", "w": 6.0}, {"time": "soon", "w": 6.0}]))
    assert np.asarray(found.tables["f/a"]["columns"]["w"]).tolist() == [5.0]
    assert [(one.row, one.field) for _, one in found.refused] == [(3, "w"), (4, "time")]


@pytest.mark.parametrize("spellings", [(7, "7", 7.0), (7.0, 7, True), ("x", 2**64, "x")], ids=str)
def test_what_a_source_brings_is_taken_or_a_dead_letter(tmp_path: Any, spellings: tuple[Any, ...]) -> None:
    context = context_of(SqliteStore(tmp_path / "store"))
    fleets, feeds = Fleets(context.source, context.settings), HostedFeeds(FEED, context, lambda size: None)
    source = MqttSpec.model_validate({"mqtt": "plant", "topic": "t"})
    fleet = fleets.create("f", FleetSpec(**SPEC, source=source))
    fed = FleetFed(fleets, feeds, fleet)
    rows = readings([spellings[at % 3] for at in range(30)])
    rows[12]["y"] = "text"
    entries, dead = [SourceEntry((at, 0), row) for at, row in enumerate(rows)], set[int]()
    for begin in range(0, 30, 10):
        fed.deliver(entries[begin : begin + 10]).result()
        dead |= {letter.position[0] for letter in fed.progress.dead}
    bad = {at for at in range(30) if isinstance(spellings[at % 3], bool) or spellings[at % 3] == 2**64} | {12}
    assert dead == bad
    assert len(feeds) == 1
    assert sum(feed.view.rows for feed in feeds.page("", None, "f/")) == 30 - len(bad)
    for feed in feeds.all_handles():
        feed.stop()


@pytest.mark.parametrize(
    ("limits", "named"),
    [({"max_fleet_series": 3}, "LIVESVM_MAX_FLEET_SERIES"), ({"max_feeds": 4}, "LIVESVM_MAX_FEEDS")],
)
def test_readings_create_only_so_many_series(limits: dict[str, int], named: str, tmp_path: Any) -> None:
    context = context_of(SqliteStore(tmp_path / "store"), **limits)
    fleets, feeds = Fleets(context.source, context.settings), HostedFeeds(FEED, context, lambda size: None)
    fleet = fleets.create("f", FleetSpec(**SPEC))
    answer = observe(fleets, feeds, fleet, Table(readings(["a", "b", "c", "d", "e"])), None)
    assert (answer["series"], len(feeds)) == (3, 3)
    assert [(one["series"], one["row"], one["field"]) for one in answer["refused"]] == [
        ("d", 3, "series"),
        ("e", 4, "series"),
    ]
    assert all(named in one["reason"] for one in answer["refused"])
    assert create_series(feeds, fleet, ["d"]) == {"created": 1, "series": 4}
    again = observe(fleets, feeds, fleet, Table(readings(["a", "b", "c", "d"])), None)
    assert (again["series"], again["refused"]) == (4, [])
    for feed in feeds.all_handles():
        feed.stop()


def test_a_number_of_any_length_is_no_name() -> None:
    with pytest.raises(InvalidInput, match="a whole number up to 2\\*\\*63, not a larger one"):
        name_of(10**5000, 3)


@pytest.mark.parametrize("name", ["", "a" * 257])
def test_ids_are_of_names_with_1_to_256_characters(name: str) -> None:
    with pytest.raises(InvalidInput, match="needs 1 to 256"):
        feed_of("meters", name)
