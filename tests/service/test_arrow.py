"""Answers as Arrow streams say what JSON says, to pyarrow, Polars and DuckDB."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from livesvm.service.api.arrow import _microseconds, library
from livesvm.service.errors import NotAcceptable
from tests.service.conftest import Make

ACCEPT = {"accept": "application/vnd.apache.arrow.stream"}
X = np.random.default_rng(0).normal(size=(30, 2)).tolist()


def read(answer: httpx.Response) -> tuple[pa.Table, dict[str, Any]]:
    """Return a stream's table, and what its metadata say."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == ACCEPT["accept"]
    table = pa.ipc.open_stream(answer.content).read_all()
    return table, {name.decode(): json.loads(value) for name, value in (table.schema.metadata or {}).items()}


@pytest.fixture
def words(make: Make, http: httpx.Client) -> str:
    model = make(probability=True, decision_function_shape="ovo")
    y = [("a", "b", "c")[at % 3] for at in range(30)]
    tags = [["t"] if at == 0 else None for at in range(30)]
    add = {"X": X, "y": y, "keys": [f"k{at}" for at in range(30)], "tags": tags}
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    return model


def test_predictions(words: str, http: httpx.Client) -> None:
    import polars as pl

    for body in ({"X": X}, {"X": X, "probability": True}, {"X": X, "coverage": 0.8}):
        plain = http.post(f"/models/{words}/predict", json=body).json()
        table, said = read(http.post(f"/models/{words}/predict", json=body, headers=ACCEPT))
        columns = table.to_pydict()
        assert columns == {name: plain[name] for name in columns}
        assert plain.keys() - columns.keys() - {"pairs"} <= said.keys()
        assert all(said[name] == value for name, value in plain.items() if name in said)
    frame = pl.read_ipc_stream(io.BytesIO(http.post(f"/models/{words}/predict", json={"X": X}, headers=ACCEPT).content))
    assert frame.schema == {"prediction": pl.String, "decision": pl.Array(pl.Float64, 3)}


def test_times_are_rounded_as_those_in_json() -> None:
    times = 1.7e9 + 1e8 * np.random.default_rng(0).random(100)
    begin, unit = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
    found = _microseconds(times).tolist()
    assert found == [(datetime.fromtimestamp(time, UTC) - begin) // unit for time in times.tolist()]


def test_windows(words: str, make: Make, http: httpx.Client) -> None:
    table, said = read(http.get(f"/models/{words}/examples", headers=ACCEPT))
    examples = http.get(f"/models/{words}/examples").json()["examples"]
    assert (said["version"], said["n_examples"], said["next"]) == (1, 30, None)
    assert table["key"].to_pylist() == [one["key"] for one in examples]
    assert np.array_equal(np.column_stack([table["x0"], table["x1"]]), X)
    for name in ("y", "weight", "side", "outlier", "tags"):
        assert table[name].to_pylist() == [one[name] for one in examples]
    coefficients = np.column_stack([table["coefficient0"], table["coefficient1"]])
    assert np.array_equal(coefficients, [one["coefficient"] for one in examples])
    assert [at.isoformat() for at in table["time"].to_pylist()] == [
        one["time"].replace("Z", "+00:00") for one in examples
    ]
    sparse = make()
    rows = {"indices": [[1, 3], [0]], "values": [[1.0, 2.0], [0.5]], "n_features": 5}
    http.post(f"/models/{sparse}/update", json={"add": {"X": rows, "y": [1, -1]}}).raise_for_status()
    table, said = read(http.get(f"/models/{sparse}/examples?format=arrow"))
    assert (table["indices"].to_pylist(), table["values"].to_pylist()) == (rows["indices"], rows["values"])
    assert said["n_features"] == 5
    read(http.get(f"/models/{make()}/examples?format=arrow"))


@pytest.fixture(scope="module")
def readings(http: httpx.Client) -> Any:
    http.post("/feeds", json={"id": "arrow", "target": "y", "time": None, "window": 40, "steps": 2}).raise_for_status()
    fleet = {"id": "arrows", "target": "y", "series": "meter", "time": None, "window": 40, "steps": [1, 3]}
    http.post("/fleets", json=fleet).raise_for_status()
    rows = [{"y": float(np.sin(at / 3))} for at in range(50)]
    http.post("/feeds/arrow/observations", json={"rows": rows}).raise_for_status()
    named = [{"meter": meter, **row} for row in rows for meter in ("a", "b")]
    http.post("/fleets/arrows/observations", json={"rows": named}).raise_for_status()
    yield
    http.delete("/feeds/arrow")
    http.delete("/fleets/arrows")


@pytest.mark.usefixtures("readings")
def test_histories(http: httpx.Client) -> None:
    plain = http.get("/feeds/arrow/history?limit=40").json()
    table, said = read(http.get("/feeds/arrow/history?limit=40", headers=ACCEPT))
    assert said == {"every": plain["every"]}
    expected = [
        (row["time"], row["value"], row["held"], made.get("step"), made.get("made_at"), made.get("value"))
        for row in plain["rows"]
        for made in row["forecasts"] or [{}]
    ]
    names = ("time", "value", "held", "step", "made_at", "forecast")
    assert list(zip(*(table[name].to_pylist() for name in names), strict=True)) == expected
    assert 0 < table["step"].null_count < table.num_rows


@pytest.mark.usefixtures("readings")
def test_forecasts_of_fleets(http: httpx.Client) -> None:
    plain = http.get("/fleets/arrows/forecast").json()["rows"]
    assert len(plain) == 4
    table, _ = read(http.get("/fleets/arrows/forecast", headers=ACCEPT))
    assert table.to_pylist() == plain
    page = http.get("/fleets/arrows/forecast?limit=1&format=arrow")
    assert read(page)[0].to_pylist() == plain[:2]
    assert page.headers["link"].endswith('rel="next"')


@pytest.mark.usefixtures("readings")
def test_duckdb_queries_a_stream(http: httpx.Client) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    stream = pa.ipc.open_stream(http.get("/fleets/arrows/forecast", headers=ACCEPT).content)
    query = "select series, count(*), max(step) from stream group by series order by series"
    assert duckdb.sql(query).fetchall() == [("a", 2, 3), ("b", 2, 3)]
    assert stream.schema.names[0] == "series"


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotAcceptable, match=r"livesvm\[arrow\]"):
        library()
