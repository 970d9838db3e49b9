"""When examples happened: windows forget by that, and whoever comes late takes the place of that time."""

from __future__ import annotations

import asyncio
import io
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.cli import files
from livesvm.service.client import AsyncClient, Client
from livesvm.service.models import arrays
from livesvm.service.models.commands import Command, batch_document, digest_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import Window, WindowLimits
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Batch, Change
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

DAY = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
X, Y = [[0.0], [1.0], [2.0]], [1, -1, 1]


def update(http: httpx.Client, model: str, **verbs: Any) -> dict[str, Any]:
    answer = http.post(f"/models/{model}/update", json=verbs)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def add(keys: list[str], *hours: float) -> dict[str, Any]:
    times = [(DAY + hour * HOUR).isoformat() for hour in hours]
    return {"X": X[: len(keys)], "y": Y[: len(keys)], "keys": keys, "times": times}


def order(http: httpx.Client, model: str) -> list[str]:
    examples = http.get(f"/models/{model}/examples").raise_for_status().json()["examples"]
    return [example["key"] for example in examples]


def test_late_examples_take_their_place(http: httpx.Client, make: Make) -> None:
    model = make()
    update(http, model, add=add(["a", "c", "e"], 0, 2, 4))
    update(http, model, add=add(["d", "b"], 3, 1))
    assert order(http, model) == ["a", "b", "c", "d", "e"]
    shown = http.get(f"/models/{model}/examples").json()["examples"]
    assert [example["x"] for example in shown] == [[0.0], [1.0], [1.0], [0.0], [2.0]]
    assert [example["time"] for example in shown] == [f"2026-03-01T0{hour}:00:00Z" for hour in range(5)]
    assert http.get(f"/models/{model}/examples", params={"keys": "b"}).json()["examples"] == [shown[1]]
    found = np.load(io.BytesIO(http.get(f"/models/{model}/examples", params={"format": "npz"}).content))
    assert found["times"].tolist() == [(DAY + hour * HOUR).timestamp() for hour in range(5)]
    assert "2026-03-01T01:00:00" in http.get(f"/models/{model}/examples", params={"format": "csv"}).text
    assert update(http, model, remove={"oldest": 2})["removed"] == ["a", "b"]
    early = (DAY + 3 * HOUR).isoformat()
    assert update(http, model, remove={"older_than": early})["removed"] == ["c"]
    again = update(http, model, add={"X": [[5.0]], "y": [1], "keys": ["now"]})
    assert again["removed"] == []
    assert order(http, model) == ["d", "e", "now"]
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-8


@pytest.mark.parametrize("digits", [20240101, 20991231, 2034010100, 2036123123, 202401010000])
def test_numbers_that_read_as_dates_are_refused_by_name(digits: int) -> None:
    for given in ([1704067200, digits], np.array([1704067200.0, float(digits)])):
        with pytest.raises(InvalidInput, match=f"{digits} reads as a date; write it in ISO 8601") as caught:
            arrays.times(given) if isinstance(given, list) else arrays.check_times(given)
        assert (caught.value.field, caught.value.row) == ("times", 1)
    with pytest.raises(InvalidInput, match="reads as a date"):
        arrays.moment(digits, "older_than")


def test_numbers_of_unix_seconds_are_those(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0, 1980, 202401, 1704067200, 20240101.5, 20240231, -20240101]
    assert arrays.times(seconds).tolist() == seconds
    assert arrays.moment(1704067200, "older_than") == 1704067200.0
    monkeypatch.setattr(time, "time", lambda: 2.04e9)  # of 2034, when dates in digits read as what has been
    assert arrays.times([2034010100]).tolist() == [2034010100.0]


def test_an_example_ahead_of_the_clock_empties_no_window() -> None:
    now = 1.8e9
    window = Window()
    limits = WindowLimits(100, 10, None, 3600.0)
    for key, at, when in (("real", now, now), ("ahead", now + 1, now + 90 * 86400.0), ("next", now + 2, now + 2)):
        update = Change(Batch(np.array([[1.0]]), np.array([1.0]), [key], None, np.array([when])))
        window.apply(window.plan(update, limits, at, None), 10)
    assert list(window.arrivals) == ["real", "next", "ahead"]


def test_windows_keep_the_newest_by_time(http: httpx.Client, make: Make) -> None:
    model = make(window={"max_examples": 3})
    update(http, model, add=add(["a", "c", "e"], 0, 2, 4))
    answer = update(http, model, add=add(["d", "too old"], 3, -1))
    assert (answer["added"], answer["removed"], answer["dropped"]) == (["d"], ["a"], ["too old"])
    assert order(http, model) == ["c", "d", "e"]
    nothing = update(http, model, add=add(["also"], -2))
    assert (nothing["added"], nothing["removed"], nothing["dropped"], nothing["events"]) == ([], [], ["also"], 0)
    aged = make(window={"max_age_seconds": 3600})
    recent, past, ahead = (datetime.now(UTC) + delta for delta in (-HOUR / 2, -2 * HOUR, 2 * HOUR))
    batch = {
        "X": X,
        "y": Y,
        "keys": ["recent", "past", "ahead"],
        "times": [recent.timestamp(), past.timestamp(), ahead.timestamp()],
    }
    answer = update(http, aged, add=batch)
    assert (answer["added"], answer["dropped"], answer["n_ahead"]) == (["recent", "ahead"], ["past"], 1)
    assert "dropped" not in update(http, aged, remove={"oldest": 1})


def test_times_are_kept_by_logs_and_snapshots() -> None:
    spec = ModelSpec.model_validate({"id": "m", "kernel": {"name": "linear"}})
    state = ModelState.empty(spec, 4)
    rng = np.random.default_rng(0)
    for times in ([5.0, 1.0, 3.0], [4.0, 2.0, 0.0]):
        given = Batch(rng.normal(size=(3, 2)), np.array([1.0, -1.0, 1.0]), None, None, np.array(times))
        command = state.window.plan(Change(given), WindowLimits(100, 100, 5), 10.0, None)
        back = Command.decode(command.encode())
        assert (back.dropped, back.added) == (command.dropped, command.added)
        state.apply(back)
    assert list(state.window.arrivals.values()) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert command.dropped == [5]
    again = ModelState.decode(spec, 4, state.encode())
    assert list(again.window.arrivals.items()) == list(state.window.arrivals.items())
    last = state.window.plan(
        Change(Batch(np.ones((1, 2)), np.ones(1), None, None, np.array([2.5]))), WindowLimits(100, 100), 11.0, None
    )
    cold = ModelState.decode(spec, 4, state.encode())
    cold.apply_cold(last)
    state.apply(last)
    assert cold.estimator.keys_ == state.estimator.keys_
    assert (cold.estimator.window_X == state.estimator.window_X).all()
    assert (cold.estimator.window_y == state.estimator.window_y).all()


def test_a_clock_that_is_set_back_makes_no_example_old() -> None:
    spec = ModelSpec.model_validate({"id": "m", "kernel": {"name": "linear"}})
    state = ModelState.empty(spec, 4)
    for now in (100.0, 40.0):
        given = Batch(np.eye(2), np.array([1.0, -1.0]))
        command = state.window.plan(Change(given), WindowLimits(100, 100, 3), now, None)
        state.apply(Command.decode(command.encode()))
        state = ModelState.decode(spec, 4, state.encode())
    assert (command.remove, command.dropped) == ([0], [])
    assert list(state.window.arrivals.items()) == [(1, 100.0), (2, 100.0), (3, 100.0)]


def test_digests_without_times_are_those_of_before() -> None:
    plain = Change(Batch(np.ones((1, 1)), np.ones(1)))
    assert plain.add is not None
    assert "times" not in batch_document(plain.add)
    timed = Change(Batch(np.ones((1, 1)), np.ones(1), None, None, np.zeros(1)))
    assert digest_of(plain) != digest_of(timed)


@pytest.mark.parametrize(
    ("times", "row", "reason"),
    [
        (["2026-03-01T00:00:00"], 0, "no UTC offset"),
        (["2026-03-01T00:00:00Z", "yesterday"], 1, "ISO 8601"),
        ([True], 0, "a boolean"),
        ([None], 0, "as text, or Unix seconds"),
        ([1e300], 0, "after 9999"),
        ([1e12], 0, "after 9999"),
        (5, None, "an array of times"),
        ([0.0, 1.0], None, "2 entries for 3 rows"),
    ],
)
def test_what_is_no_time_is_named(http: httpx.Client, make: Make, times: Any, row: int | None, reason: str) -> None:
    model = make()
    answer = http.post(f"/models/{model}/update", json={"add": {"X": X, "y": Y, "times": times}})
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["field"], problem.get("row")) == ("times", row), problem
    assert reason in problem["detail"], problem


def test_clients_and_files_tell_times(service: ServiceProcess, make: Make, http: httpx.Client, tmp_path: Path) -> None:
    model = make()
    east = timezone(HOUR)
    with Client(service.url) as client:
        client.update(model, X[:2], Y[:2], keys=["b", "a"], times=[DAY + HOUR, DAY.astimezone(east)])
        client.update(model, X[:1], Y[:1], keys=["d"], times=np.array(["2026-03-01T03:00"], "datetime64[m]"))

    async def later() -> None:
        async with AsyncClient(service.url) as client:
            await client.update(model, X[:1], Y[:1], keys=["c"], times=[(DAY + 2 * HOUR).timestamp()])

    asyncio.run(later())
    assert order(http, model) == ["a", "b", "c", "d"]
    (tmp_path / "some.csv").write_text("time,x,y,key\n2026-03-01T04:00:00Z,1.5,-1,e\n1772337600.5,2,1,f\n")
    found = files.read(tmp_path / "some.csv")
    assert found.times == ["2026-03-01T04:00:00Z", 1772337600.5]
    with Client(service.url) as client:
        client.update(model, **vars(found))
    assert order(http, model)[-2:] == ["e", "f"]
