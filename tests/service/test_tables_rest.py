"""Rows with names over REST: learnt, predicted, stored, replayed, erased, and refused by row and column."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow.feather import write_feather
from pyarrow.parquet import write_table

from livesvm.service.client import AsyncClient, Client, ServiceProblem
from livesvm.service.datasets.arrays import Arrays
from livesvm.service.datasets.parsing import parse
from livesvm.service.history.replay import together
from livesvm.service.models.commands import Command, Removal, batch_document, memory_of
from livesvm.service.models.examples import WantedExamples, page_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.table_rows import checked
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.tables.cells import code_of
from livesvm.solvers.tables.columns import Codes, found_in
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.erasing import bytes_of_directory, keeping
from tests.support.waiting import until

LIMITS = WindowLimits(10**6, 10**4)
SPEC: dict[str, Any] = {"columns": "auto", "C": 3.0}
GIVEN = [{"name": "age"}, {"name": "plan", "kind": "category"}, {"name": "joined", "kind": "time"}]
Row = dict[str, Any]


def customers(n: int, seed: int = 1) -> tuple[list[Row], list[str]]:
    """Return rows with words, gaps and times, and whether each customer stays."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = [
        {
            "age": None if rng.random() < 0.1 else float(rng.integers(20, 60)),
            "plan": str(rng.choice(["gold", "free", "silver"])),
            "joined": f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}",
            "vip": bool(rng.random() < 0.3),
        }
        for _ in range(n)
    ]
    return rows, ["stays" if (row["plan"] == "gold") ^ ((row["age"] or 40) > 42) else "left" for row in rows]


ROWS, Y = customers(80)
PROBE, _ = customers(30, 9)
SECRET = "word of a secret"


def batch(rows: list[Row], y: list[str], keys: list[Any] | None = None) -> Batch:
    return Batch(checked(rows), np.array(y), keys)


def updates() -> Iterator[Change]:
    """Yield updates with new words, gaps, a slide, corrections, and new encodings."""
    yield Change(batch(ROWS, Y, [f"c{at}" for at in range(80)]))
    for number in range(3):
        rows, y = customers(10, 20 + number)
        rows[0]["plan"] = f"offer {number}"
        yield Change(batch(rows, y), Removal(oldest=10))
    yield Change(edits=Edits(relabel={"c40": "left"}, reweight={"c41": 0.5}))
    yield Change(batch([{"plan": "gold"}, {"age": 30}], ["stays", "left"], ["c42", "new"]), on_repeat="replace")
    yield Change(edits=Edits(rescale=True))
    yield Change(edits=Edits(change={"columns": [*GIVEN, {"name": "vip", "kind": "yes-no", "relevance": 2.0}]}))
    yield Change(batch(*customers(5, 30)), Removal(oldest=5))
    yield Change(edits=Edits(change={"gamma": 0.2}))


def decisions(state: ModelState) -> Any:
    seen = state.published()
    return seen.decide(state.spec, seen.checked(state.spec, checked(PROBE), 1000))[0]


def applied(spec: ModelSpec, given: Any, log: list[bytes] | None = None) -> ModelState:
    state = ModelState.empty(spec, 64)
    for update in given:
        command = state.plan(update, LIMITS, 8, time.time(), None)
        if log is not None:
            log.append(command.encode())
        state.apply(command)
    return state


@pytest.mark.parametrize("components", [None, 12])
@pytest.mark.parametrize("columns", ["auto", [*GIVEN, {"name": "vip", "kind": "yes-no"}]])
def test_a_replayed_log_leads_to_the_same_model(columns: Any, components: int | None) -> None:
    spec, log = ModelSpec(id="m", columns=columns, C=3.0, components=components), list[bytes]()
    live = applied(spec, updates(), log)
    replayed, cold = ModelState.empty(spec, 64), ModelState.empty(spec, 64)
    for record in log:
        replayed.apply(Command.decode(record))
        cold.apply_cold(Command.decode(record))
    np.testing.assert_array_equal(decisions(replayed), decisions(live))
    np.testing.assert_allclose(decisions(cold), decisions(live), atol=1e-7)
    again = ModelState.decode(spec, 64, live.encode())
    np.testing.assert_array_equal(decisions(again), decisions(live))
    everything = WantedExamples()
    for state in (replayed, cold, again):
        assert page_of(state, everything).rows == page_of(live, everything).rows
        assert state.parameters == live.parameters


@pytest.mark.parametrize("components", [None, 12])
def test_several_updates_together_bring_their_words(components: int | None) -> None:
    spec, log = ModelSpec(id="m", **SPEC, components=components), list[bytes]()
    one_by_one = applied(spec, list(updates())[:4], log)
    commands = [Command.decode(record) for record in log]
    state = ModelState.empty(spec, 64)
    state.apply(commands[0])
    state.apply_together(commands[1:], together(commands[1:]))
    np.testing.assert_allclose(decisions(state), decisions(one_by_one), atol=1e-7)
    assert page_of(state, WantedExamples()).rows == page_of(one_by_one, WantedExamples()).rows
    codes = commands[1].add and commands[1].add.X
    assert isinstance(codes, Codes)
    assert pickle.loads(pickle.dumps(codes[:1])).table == codes.table


def test_what_failed_at_first_decides_nothing() -> None:
    state = ModelState.empty(ModelSpec(id="m", **SPEC), 64)
    command = state.plan(Change(batch([{"a": 1.0}, {"a": 2.0}], ["x", "y"])), LIMITS, 8, 0.0, None)
    assert command.add is not None
    state.skip()
    state.apply(state.plan(Change(batch(ROWS, Y)), LIMITS, 8, 0.0, None))
    assert [one["name"] for one in state.parameters["columns"]] == ["age", "plan", "joined", "vip"]


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with keeping(request.param, tmp_path) as found:
        yield found


@pytest.mark.parametrize("components", [None, 12])
def test_a_table_comes_back_and_of_what_is_erased_no_word_remains(kept: Any, components: int | None) -> None:
    process, everything = kept

    def remains() -> bool:
        return any(SECRET.encode() in found for found in everything().values())

    with process as service, Client(service.url) as client:
        client.create_model("m", **SPEC, components=components)
        client.update("m", ROWS, Y, keys=[f"c{at}" for at in range(80)])
        client.update("m", [{"plan": SECRET, "age": 20}, {"plan": "gold"}], ["left", "stays"], keys=["one", "two"])
        client.update("m", *customers(10, 20), remove={"oldest": 10})
        client.checkpoint("m")
        client.update("m", *customers(10, 21), remove={"oldest": 10})
        before = client.predict("m", PROBE)
        service.kill()
    assert remains()
    with process as service, Client(service.url) as client:
        assert client.predict("m", PROBE)["decision"] == pytest.approx(before["decision"], abs=1e-9)
        assert client.examples("m", keys=["one"])["examples"][0]["x"] == {
            "age": 20.0,
            "plan": SECRET,
            "joined": None,
            "vip": None,
        }
        client.erase("m", ["one"])
        assert not remains()
        page = client.examples("m")["examples"]
        fresh = IncrementalSVC(C=3.0, columns=client.model("m")["columns"], components=components)
        fresh.fit([one["x"] for one in page], [one["y"] for one in page])
        found = client.predict("m", PROBE)
        np.testing.assert_allclose(found["decision"], fresh.decision_function(PROBE), atol=1e-6)
        client.update("m", *customers(2, 22))
        client.restore("m", found["version"])
        assert client.predict("m", PROBE)["decision"] == found["decision"]
        assert client.certificate("m")["relative_gap"] < 1e-8


@pytest.mark.parametrize("components", [None, 12])
def test_a_table_is_learnt_predicted_and_described(http: httpx.Client, make: Make, components: int | None) -> None:
    model = make(**SPEC, drift_alarms=0.01, components=components)
    assert http.get(f"/models/{model}").json()["columns"] == "auto"
    add, name = {"rows": ROWS, "y": Y}, {"idempotency-key": "first"}
    first = http.post(f"/models/{model}/update", json={"add": add}, headers=name)
    assert first.status_code == 200, first.text
    again = http.post(f"/models/{model}/update", json={"add": add}, headers=name)
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
    other = {"add": {"rows": ROWS[:1], "y": Y[:1]}}
    assert http.post(f"/models/{model}/update", json=other, headers=name).status_code == 409
    http.post(f"/models/{model}/update", json={"add": {"rows": ROWS[:3], "y": Y[:3]}}).raise_for_status()

    ours = IncrementalSVC(C=3.0, columns="auto", components=components).fit(ROWS, Y)
    ours.update((ROWS[:3], Y[:3]))
    described = http.get(f"/models/{model}").json()
    assert described["columns"] == ours.columns_.documents()
    assert described["n_features"] == 4
    expected = pytest.approx(ours.decision_function(PROBE), abs=1e-7)
    backwards = [dict(reversed(row.items())) for row in PROBE]
    for rows in (PROBE, backwards, [{k: v for k, v in row.items() if v is not None} for row in PROBE]):
        assert http.post(f"/models/{model}/predict", json={"rows": rows}).json()["decision"] == expected
    sets = http.post(f"/models/{model}/predict", json={"rows": PROBE, "coverage": 0.8}).json()
    assert len(sets["set"]) == len(PROBE)
    why = http.post(f"/models/{model}/explain", json={"rows": PROBE[:2], "most": 3})
    assert [row["decision"] for row in why.json()["rows"]] == pytest.approx(ours.decision_function(PROBE[:2]))
    asked = {"rows": PROBE[:2], "remove": {"oldest": 1}}
    assert len(http.post(f"/models/{model}/what-if", json=asked).json()["rows"]["after"]["decision"]) == 2
    csv = http.get(f"/models/{model}/examples", params={"format": "csv"}).text.splitlines()
    assert csv[0].split(",")[:5] == ["key", "x age", "x plan", "x joined", "x vip"]
    assert http.get(f"/models/{model}/examples", params={"format": "npz"}).status_code == 406


WRONG: list[tuple[Any, dict[str, Any]]] = [
    ([{"age": 31}, {"age": "old"}], {"row": 1, "name": "age"}),
    ([{"age": 31}, {"vip": "perhaps"}], {"row": 1, "name": "vip"}),
    ([{"joined": "03/04/2024"}], {"row": 0, "name": "joined"}),
    ([{"age": 1}, {"colour": "red"}], {"row": 1, "name": "colour"}),
    ([{"plan": "x" * 2000}], {"row": 0, "name": "plan"}),
    ([{"plan": ["gold"]}], {"row": 0, "name": "plan"}),
    ([{"age": 10**400}], {"row": 0, "name": "age"}),
    ([{"age": 1}, {}], {"row": 1}),
    ([[1.0]], {"row": 0}),
]


@pytest.mark.parametrize(("rows", "place"), WRONG)
def test_a_wrong_cell_is_named_and_changes_nothing(http: httpx.Client, make: Make, rows: Any, place: Any) -> None:
    model = make(**SPEC)
    http.post(f"/models/{model}/update", json={"add": {"rows": ROWS, "y": Y}}).raise_for_status()
    update = {"add": {"rows": rows, "y": ["left"] * len(rows)}}
    for path, body in (("update", update), ("predict", {"rows": rows}), ("what-if", {"rows": rows, "decay": 0.9})):
        answer = http.post(f"/models/{model}/{path}", json=body)
        assert answer.status_code == 422, answer.text
        found = answer.json()
        assert {name: found.get(name) for name in ("field", *place)} == {"field": "rows", **place}
    assert http.get(f"/models/{model}").json()["version"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"add": {"X": [[1, 2, 3, 4]], "y": ["left"]}}', "X"),
        ('{"add": {"X": [[1]], "rows": [{"age": 1}], "y": ["left"]}}', "rows"),
        ('{"add": {"y": ["left"]}}', "X"),
        ('{"add": {"rows": [{"age": 1, "age": 2}], "y": ["left"]}}', "add.rows.age"),
        ('{"add": {"rows": [{"age": 1}], "y": ["left"]}, "ages": {"a": 1}}', "ages"),
        ('{"add": {"rows": [{"age": NaN}], "y": ["left"]}}', "rows"),
        ('{"change": {"scale": "standard"}}', "change.scale"),
        ('{"change": {"columns": [{"name": "age", "kind": "colour"}]}}', "change.columns"),
    ],
)
def test_what_is_no_update_of_a_table_is_refused(http: httpx.Client, make: Make, body: str, field: str) -> None:
    model = make(**SPEC)
    http.post(f"/models/{model}/update", json={"add": {"rows": ROWS, "y": Y}}).raise_for_status()
    answer = http.post(f"/models/{model}/update", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json().get("field")) == (422, field), answer.text
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_a_model_of_numbers_takes_no_rows_and_stays_as_it_was(http: httpx.Client, make: Make) -> None:
    model = make(C=3.0)
    assert http.get(f"/models/{model}").json()["columns"] is None
    refused = http.post(f"/models/{model}/update", json={"add": {"rows": [{"a": 1.0}], "y": [1]}})
    assert (refused.status_code, refused.json()["field"]) == (422, "rows")
    http.post(f"/models/{model}/update", json={"add": {"X": [[1.0], [2.0]], "y": [1, -1]}}).raise_for_status()
    for path, body in (("predict", {"rows": [{"a": 1.0}]}), ("update", {"change": {"columns": "auto"}})):
        assert http.post(f"/models/{model}/{path}", json=body).status_code == 422
    assert http.get(f"/models/{model}/examples").json()["examples"][0]["x"] == [1.0]


def test_a_text_with_many_names_is_refused_unless_they_are_of_rows(http: httpx.Client, make: Make) -> None:
    model, wide = make(**SPEC), {f"column {at}": float(at) for at in range(400)}
    rows = [{name: value + seed for name, value in wide.items()} for seed in range(3)]
    http.post(f"/models/{model}/update", json={"add": {"rows": rows, "y": ["a", "b", "a"]}}).raise_for_status()
    assert len(http.get(f"/models/{model}").json()["columns"]) == 400
    for body in ({"rows": rows[:1], **wide}, {"add": {"rows": [{"a": {"rows": wide}}]}, "then": wide}):
        refused = http.post(f"/models/{model}/update", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, "body")


@pytest.mark.parametrize("components", [None, 12])
@pytest.mark.parametrize("task", ["svr", "oneclass", "pu"])
def test_other_tasks_learn_tables(http: httpx.Client, make: Make, task: str, components: int | None) -> None:
    own: dict[str, Any] = {"svr": {}, "oneclass": {"nu": 0.2}, "pu": {"prior": 0.4, "lam": 0.01}}[task]
    model = make(task=task, columns="auto", components=components, **own)
    known = [float(label == "stays" and at % 2) for at, label in enumerate(Y)]
    y = {} if task == "oneclass" else {"y": known}
    answer = http.post(f"/models/{model}/update", json={"add": {"rows": ROWS, **y}})
    assert answer.status_code == 200, answer.text
    assert len(http.post(f"/models/{model}/predict", json={"rows": PROBE}).json()["decision"]) == len(PROBE)
    rescaled = http.post(f"/models/{model}/update", json={"rescale": True})
    assert rescaled.json()["resolved"], rescaled.text


def test_columns_are_refused_with_a_scale_and_if_one_stands_twice(http: httpx.Client) -> None:
    answer = http.post("/models", json={"columns": "auto", "scale": "standard"})
    assert (answer.status_code, answer.json()["field"]) == (422, "scale")
    named = http.post("/models", json={"columns": [{"name": "a"}, {"name": "a"}]}).json()
    assert (named["field"], named["row"]) == ("columns", 1)


PARQUET, ARROW = "application/vnd.apache.parquet", "application/vnd.apache.arrow"
MEDIA = ("text/csv", "application/x-ndjson", PARQUET, f"{ARROW}.stream", f"{ARROW}.file")


def bodies(rows: list[Row], **more: Any) -> dict[str, bytes]:
    """Return a table, with more columns, in each format; what has a gap in one of them has it in all."""
    frame = pd.DataFrame(rows).assign(**more)
    file = io.BytesIO()
    names = ", ".join(f'"{name}"' for name in frame)
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as directory:
        connection.register("frame", frame)
        connection.execute(f"copy (select {names} from frame) to '{directory}/f.parquet' (format parquet)")
        file.write((Path(directory) / "f.parquet").read_bytes())
    plain = [{name: None if pd.isna(cell) else cell for name, cell in row.items()} for row in frame.to_dict("records")]
    table, feather = pa.Table.from_pandas(frame), io.BytesIO()
    write_feather(table, feather, compression="lz4")
    return {
        "text/csv": frame.to_csv(index=False).encode(),
        "application/x-ndjson": "\n".join(map(json.dumps, plain)).encode(),
        PARQUET: file.getvalue(),
        f"{ARROW}.stream": stream_of(table),
        f"{ARROW}.file": feather.getvalue(),
    }


def stream_of(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("media", MEDIA)
def test_tables_come_in_files(http: httpx.Client, make: Make, media: str) -> None:
    by_rows, by_file = make(**SPEC), make(**SPEC)
    keys = [f"c{at}" for at in range(80)]
    times = [f"2024-05-01T00:00:{at % 60:02d}Z" for at in range(80)]
    add = {"rows": ROWS, "y": Y, "keys": keys, "weights": [1.0, 2.0] * 40, "times": times}
    http.post(f"/models/{by_rows}/update", json={"add": add}).raise_for_status()
    body = bodies(ROWS, left=Y, id=keys, w=[1.0, 2.0] * 40, at=times)[media]
    roles = {"target": "left", "keys": "id", "weights": "w", "times": "at"}
    path, headers = f"/models/{by_file}/update", {"content-type": media}
    sent = http.post(path, params=roles, content=body, headers=headers)
    assert sent.status_code == 200, sent.text
    assert sent.json()["added"] == keys
    examples = [http.get(f"/models/{model}/examples").json()["examples"] for model in (by_rows, by_file)]
    assert examples[0] == examples[1]
    found = http.post(f"/models/{by_file}/predict", content=bodies(PROBE)[media], headers=headers)
    assert found.json()["decision"] == http.post(f"/models/{by_rows}/predict", json={"rows": PROBE}).json()["decision"]
    again = http.post(path, params={**roles, "on_repeat": "ignore"}, content=body, headers=headers)
    assert (again.json()["added"], len(again.json()["ignored"])) == ([], 80)
    for given, field in (({"target": "gone"}, "target"), ({"target": "left"}, "rows"), ({}, "y")):
        refused = http.post(path, params=given, content=body, headers=headers)
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert http.get(f"/models/{by_file}").json()["n_examples"] == 80


def test_a_table_of_many_models_updates_each(http: httpx.Client, make: Make) -> None:
    """Like calls for one model each: what one model refuses changes nothing of it, and the others go on."""
    ids = [make(**SPEC) for _ in range(4)]
    rows = [
        {**row, "model": ids[at % 3], "left": y, "id": f"c{at}"}
        for at, (row, y) in enumerate(zip(ROWS, Y, strict=True))
    ]
    for row in rows[2::3]:
        del row["vip"]  # the third model has no such column
    roles = {"target": "left", "keys": "id"}
    headers = {"content-type": f"{ARROW}.stream", "idempotency-key": "all"}
    body = stream_of(pa.Table.from_pylist([*rows, {"model": "nobody", "age": 1.0, "left": "left", "id": "n"}]))
    for _ in range(2):
        done = http.post("/updates", params=roles, content=body, headers=headers)
        assert [(one["model"], one["status"]) for one in done.json()["updates"]] == [
            *((id_, 200) for id_ in ids[:3]),
            ("nobody", 404),
        ]
    for at, id_ in enumerate(ids[:3]):
        add = {"rows": [{k: row[k] for k in row if k not in ("model", "left", "id")} for row in rows[at::3]]}
        alone = make(**SPEC)
        http.post(f"/models/{alone}/update", json={"add": {**add, "y": Y[at::3]}}).raise_for_status()
        found = [http.get(f"/models/{one}").json()["columns"] for one in (id_, alone)]
        assert found[0] == found[1]
        assert len(found[0]) == (3 if at == 2 else 4)
    wrong = pa.Table.from_pylist([{"m": ids[0], "age": "1"}, {"m": ids[0], "age": "old"}, {"m": ids[2], "age": "30"}])
    y = wrong.append_column("left", pa.array(["left"] * 3))
    done = http.post(
        "/updates",
        params={"target": "left", "model": "m"},
        content=stream_of(y),
        headers=headers | {"idempotency-key": "b"},
    )
    refused, taken = done.json()["updates"]
    assert (refused["status"], refused["problem"]["row"], refused["problem"]["name"]) == (422, 1, "age")
    assert taken["answer"]["version"] == 2
    for named, at_row in ((roles, None), ({"model": "age"}, None), ({"model": "n"}, 0)):
        body = stream_of(pa.table({"m": ids[:1], "n": [1]}))
        answer = http.post("/updates", params=named, content=body, headers={"content-type": f"{ARROW}.stream"})
        assert (answer.status_code, answer.json()["field"], answer.json().get("row")) == (422, "model", at_row)
    answer = http.post("/updates", params={"model": "m"}, json={"updates": []})
    assert (answer.status_code, answer.json()["field"]) == (422, "model")


def test_an_arrow_body_is_unpacked_within_the_limit(http: httpx.Client, make: Make) -> None:
    model, headers = make(**SPEC), {"content-type": f"{ARROW}.stream"}
    path = f"/models/{model}/predict"
    zeros = pa.table({f"a{at}": np.zeros(10**6) for at in range(20)})
    for body, status in (
        (stream_of(zeros, compression="zstd"), 413),
        (stream_of(pa.table({"plan": ["m" * 2000]})), 422),
        (b"age,plan", 400),
        (b"", 400),
    ):
        assert http.post(path, content=body, headers=headers).status_code == status, body[:20]


WRONG_FILES = [
    ("text/csv", b"age,plan\n31,gold\nold,free\n", {"field": "rows", "row": 1, "name": "age"}),
    ("text/csv", b"age,age\n31,3\n", {"field": "age"}),
    ("text/csv", b"age,plan\n31\n", {"field": "rows", "row": 0}),
    ("text/csv", b"age,colour\n31,red\n", {"field": "rows", "name": "colour"}),
    ("text/csv", b"age,plan\n", {"field": "rows"}),
    ("application/x-ndjson", b'{"age": 1}\n{"age": {"a": 1}}', {"field": "rows", "row": 1, "name": "age"}),
    ("application/x-ndjson", b'{"age": 1, "age": 2}', {"field": "rows", "row": 0}),
    ("application/x-ndjson", b"[1]", {"field": "rows", "row": 0}),
    ("application/x-ndjson", b'{"age": 1e999}', {"field": "rows", "row": 0, "name": "age"}),
    ("application/x-ndjson", b'{"age": 10000000000000000}', {"field": "rows", "row": 0, "name": "age"}),
    ("application/x-ndjson", b'{"age": true}', {"field": "rows", "row": 0, "name": "age"}),
    ("text/csv", b"age,\n31,3\n", {"field": "rows", "row": 0, "column": 1}),
    ("text/csv", b"age," + b"x" * 300 + b"\n31,3\n", {"field": "rows", "row": 0, "column": 1}),
    ("application/json", b'{"rows": [{"age": 1}, {"plan": ["a"]}]}', {"pointer": "#/rows/1/plan", "name": "plan"}),
    ("application/json", b'{"rows": [{"a/b": {}}]}', {"pointer": "#/rows/0/a~1b", "name": "a/b"}),
    ("application/json", b'{"rows": [{}]}', {"pointer": "#/rows/0"}),
]


@pytest.mark.parametrize(("media", "body", "place"), WRONG_FILES)
def test_a_wrong_table_is_refused_by_its_place(
    http: httpx.Client, make: Make, media: str, body: bytes, place: dict[str, Any]
) -> None:
    model, headers = make(**SPEC), {"content-type": media}
    http.post(f"/models/{model}/update", json={"add": {"rows": ROWS, "y": Y}}).raise_for_status()
    refused = http.post(f"/models/{model}/predict", content=body, headers=headers)
    assert refused.status_code == 422, refused.text
    assert {name: refused.json().get(name) for name in place} == place
    assert http.post(f"/models/{model}/update", content=body, headers=headers).status_code == 422
    for path, more in (("predict", b"{"), ("update", b"\xff,\n")):
        assert http.post(f"/models/{model}/{path}", content=more, headers=headers).status_code in (400, 422)
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_columns_are_named_of_tables_alone(http: httpx.Client, make: Make) -> None:
    model = make(C=1.0)
    refused = http.post(f"/models/{model}/update", params={"target": "y"}, json={"add": {"X": [[1.0]], "y": [1]}})
    assert (refused.status_code, refused.json()["field"]) == (422, "target")
    body, headers = b"a,y\n1,2\n", {"content-type": "text/csv"}
    table = http.post(f"/models/{model}/update", params={"target": "y"}, content=body, headers=headers)
    assert (table.status_code, table.json()["field"]) == (422, "rows")


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas with its own types": lambda frame: frame.convert_dtypes().astype({"plan": "category"}),
    "polars": lambda frame: pl.from_pandas(frame),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "records": lambda frame: frame.to_dict("records"),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("is_awaited", [False, True])
def test_both_clients_send_every_kind_of_frame(
    service: ServiceProcess, make: Make, kind: str, is_awaited: bool
) -> None:
    model, other = make(**SPEC), make(**SPEC)
    given = pd.DataFrame(ROWS)
    given["joined"] = pd.to_datetime(given["joined"])
    frame = FRAMES[kind]
    probe = frame(given[:7])
    expected = IncrementalSVC(C=3.0, columns="auto").fit(ROWS, Y).decision_function(ROWS[:7])

    async def asked() -> None:
        async with AsyncExitStack() as stack:
            client: Any = AsyncClient(service.url) if is_awaited else Client(service.url)
            _ = await stack.enter_async_context(client) if is_awaited else stack.enter_context(client)

            async def ask(call: str, *arguments: Any, **named: Any) -> Any:
                answer = getattr(client, call)(*arguments, **named)
                return await answer if is_awaited else answer

            await ask("update", model, frame(given), Y)
            assert (await ask("predict", model, probe))["decision"] == pytest.approx(expected, abs=1e-7)
            foreseen = await ask("what_if", model, probe, X=probe, y=Y[:7], remove={"oldest": 7})
            assert foreseen["rows"]["before"]["decision"] == pytest.approx(expected, abs=1e-7)
            assert [row["decision"] for row in (await ask("explain", model, probe))["rows"]] == pytest.approx(expected)
            job = await ask("regularization_path", model, 0.5, 2.0, validation=(probe, Y[:7]))
            assert (await ask("wait", job["id"]))["state"] == "done"
            if kind != "records":
                named = frame(given.assign(left=Y))
                (done,) = (await ask("update_many", {other: named}, target="left"))["updates"]
                assert done["status"] == 200
                assert (await ask("predict", other, probe))["decision"] == pytest.approx(expected, abs=1e-7)

    asyncio.run(asked())


def test_jobs_take_tables(service: ServiceProcess, make: Make) -> None:
    model = make(**SPEC)
    with Client(service.url) as client:
        client.update(model, ROWS, Y)
        for job in (client.tune_model(model, folds=2), client.retrain(model, "batch")):
            client.update(model, *customers(5, 40))
            done = client.wait(job["id"])
            assert done["state"] == "done", done
            client.apply(done["id"])
            assert client.certificate(model)["relative_gap"] < 1e-8
        for job in (client.assess(model, folds=3), client.regularization_path(model, 0.1, 10.0)):
            assert client.wait(job["id"])["state"] == "done"
        for example in client.examples(model)["examples"]:
            assert not str(example["x"]["plan"]).startswith("#")


def test_rows_with_many_names_are_refused_before_they_are_a_table() -> None:
    state = applied(ModelSpec(id="m", **SPEC), list(updates())[:1])
    rows = checked([{f"name {at}": 1.0} for at in range(9_000)])
    assert memory_of(Change(Batch(rows))) > 9_000**2 * 100
    with pytest.raises(InvalidInput, match="no column of the model") as caught:
        state.plan(Change(Batch(rows, np.array(["left"] * 9_000))), LIMITS, 8, 0.0, None)
    assert (caught.value.row, caught.value.name) == (0, "name 0")
    with pytest.raises(InvalidInput, match="more than 10000 columns"):
        checked([{f"name {at}": 1.0} for at in range(11_000)])


def test_rows_are_numbers_once_the_columns_are_known() -> None:
    state = applied(ModelSpec(id="m", **SPEC), list(updates())[:1])
    with pytest.raises(InvalidInput, match="send rows"):
        state.plan(Change(Batch(np.ones((1, 4)), np.array(["left"]))), LIMITS, 8, 0.0, None)
    command = state.plan(Change(batch([{"plan": "gold"}], ["stays"])), LIMITS, 8, 0.0, None)
    assert command.add is not None
    assert batch_document(command.add)["table"] == {"words": ["gold"]}


ODD: dict[str, list[Any]] = {
    "truth among words": [True, "true", "perhaps", 7] * 10,
    "all words differ": [f"word {at}" for at in range(40)],
    "constant": ["same"] * 40,
    "empty": [None] * 40,
    "dates of two formats": ["2024-01-02", "02/01/2024"] * 20,
    "numbers and a word": [*range(39), "many"],
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_column_is_learnt_as_documented(http: httpx.Client, make: Make, name: str) -> None:
    """Columns that say nothing change no decision; of words and numbers together, all are words."""
    cells, model, plain = ODD[name], make(**SPEC), make(**SPEC)
    y = ["left" if at % 4 else "stays" for at in range(40)]
    rows = [{"age": float(at % 7), "odd": cell} for at, cell in enumerate(cells)]
    for id_, given in ((model, rows), (plain, [{"age": row["age"]} for row in rows])):
        http.post(f"/models/{id_}/update", json={"add": {"rows": given, "y": y}}).raise_for_status()
    found = {one["name"]: one for one in http.get(f"/models/{model}").json()["columns"]}["odd"]
    assert found["kind"] == ("number" if name == "empty" else "category")
    probe = [{"age": 3.0, "odd": "new word" if found["kind"] == "category" else None}]
    decisions = [
        http.post(f"/models/{id_}/predict", json={"rows": asked}).json()["decision"]
        for id_, asked in ((model, probe), (plain, [{"age": 3.0}]))
    ]
    if name in ("all words differ", "constant", "empty"):
        assert decisions[0] == pytest.approx(decisions[1], abs=1e-9)
    shown = http.get(f"/models/{model}/examples").json()["examples"][0]["x"]["odd"]
    assert shown == (None if cells[0] is None else "true" if cells[0] is True else str(cells[0]).removesuffix(".0"))


def test_a_table_with_a_hundred_thousand_words_is_refused_whole(http: httpx.Client, make: Make) -> None:
    model = make(**SPEC)
    http.post(f"/models/{model}/update", json={"add": {"rows": ROWS, "y": Y}}).raise_for_status()
    body = "plan,y\n" + "".join(f"w{at},a\n" for at in range(10**5))
    sent = http.post(f"/models/{model}/update?target=y", content=body, headers={"content-type": "text/csv"})
    assert (sent.status_code, sent.json().get("field")) == (422, "X"), sent.text[:300]
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_questions_about_a_table_show_rows_with_names(service: ServiceProcess, make: Make) -> None:
    model, names = make(**SPEC), {"age", "plan", "joined", "vip"}
    with Client(service.url) as client:
        client.update(model, ROWS, Y, keys=[f"c{at}" for at in range(80)])
        client.update(model, *customers(5, 60), remove={"oldest": 5})
        assert client.wait(client.suspected_labels(model)["id"])["state"] == "done"
        assert client.drift(model)["remedies"]
        gone = client.what_if(model, PROBE[:2], erase={"keys": ["c40"]})
        assert len(gone["rows"]["after"]["decision"]) == 2
        assert client.versions(model)
        client.restore(model, 1)
        assert client.examples(model, keys=["c0"])["examples"][0]["x"].keys() == names


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_clients_send_frames_for_many_models(service: ServiceProcess, make: Make, kind: str) -> None:
    one, other, alone = (make(**SPEC) for _ in range(3))
    rows = [{**row, "left": y, "id": f"c{at}"} for at, (row, y) in enumerate(zip(ROWS, Y, strict=True))]
    as_frame: Any = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pylist}[kind]
    roles: dict[str, Any] = {"target": "left", "keys": "id"}
    named = as_frame([{**row, "model": (one, other)[at % 2]} for at, row in enumerate(rows[:60])])
    with Client(service.url) as client:
        client.update(alone, ROWS[:60:2], Y[:60:2], keys=[row["id"] for row in rows[:60:2]])
        found = client.update_many(named, **roles)["updates"]
        assert [(entry["model"], entry["status"]) for entry in found] == [(one, 200), (other, 200)]
        assert client.predict(one, ROWS)["decision"] == client.predict(alone, ROWS)["decision"]
        repeated = client.update_many({one: as_frame(rows[:2]), "nobody": as_frame(rows[2:3])}, **roles)["updates"]
        assert [entry["status"] for entry in repeated] == [422, 404]
        ignored = client.update_many({one: as_frame(rows[:62])}, **roles, on_repeat="ignore")["updates"]
        assert len(ignored[0]["answer"]["added"]) == 32
        wrong = [{**row, "age": "old" if at == 1 else str(row["age"])} for at, row in enumerate(rows[70:73])]
        problem = client.update_many({one: as_frame(wrong)}, **roles)["updates"][0]["problem"]
        assert (problem["row"], problem["name"]) == (1, "age")
        if kind == "pandas":
            mixed = pd.DataFrame([rows[70], {**rows[71], "age": "old"}])
            with pytest.raises(ValueError, match="column 'age', row 1: is 'old'"):
                client.update_many({one: mixed}, **roles)
        with pytest.raises(TypeError, match="target"):
            client.update_many({one: {"X": ROWS[:1], "y": Y[:1]}}, target="left")


def test_clients_name_what_cannot_be_sent(service: ServiceProcess, make: Make) -> None:
    model = make(columns=[{"name": "age"}], C=3.0)
    twice = pd.concat([pd.DataFrame(ROWS[:2]), pd.DataFrame(ROWS[:2])[["age"]]], axis=1)
    cells = [Decimal("1.5"), timedelta(minutes=1), np.float32(2.5), np.int64(3)]
    cells += [float("nan"), pd.NA, None, Decimal("NaN")]
    with Client(service.url) as client:
        with pytest.raises(ValueError, match="'age' stands twice"):
            client.update(model, twice, Y[:2])
        with pytest.raises(TypeError, match="row 1, column 'age': a bytes cannot be sent"):
            client.update(model, [{"age": 1}, {"age": b"2"}], Y[:2])
        client.update(model, [{"age": cell} for cell in cells], ["left", "stays"] * 4)
        learnt = [example["x"]["age"] for example in client.examples(model)["examples"]]
        assert learnt == [1.5, 60.0, 2.5, 3.0, None, None, None, None]


def test_decimals_durations_and_empty_columns_are_numbers(http: httpx.Client, make: Make) -> None:
    columns = {
        "plan": pa.array(["gold", "free", "gold"]).dictionary_encode(),
        "price": pa.array([Decimal("1.25"), None, Decimal("-3")], pa.decimal128(9, 2)),
        "nothing": pa.nulls(3),
    }
    table, parquet = pa.table({**columns, "y": ["left", "stays", "left"]}), io.BytesIO()
    write_table(table, parquet)
    for media, body in ((f"{ARROW}.stream", stream_of(table)), (PARQUET, parquet.getvalue())):
        model, headers = make(**SPEC), {"content-type": media}
        sent = http.post(f"/models/{model}/update?target=y", content=body, headers=headers)
        assert sent.status_code == 200, sent.text
        kept = [example["x"] for example in http.get(f"/models/{model}/examples").json()["examples"]]
        assert [row["price"] for row in kept] == [1.25, None, -3.0]
        assert [row["nothing"] for row in kept] == [None] * 3
    model = make(**SPEC)
    spans = pa.table({"took": pa.array([1500, None], pa.duration("ms")), "y": ["left", "stays"]})
    headers = {"content-type": f"{ARROW}.stream"}
    http.post(f"/models/{model}/update?target=y", content=stream_of(spans), headers=headers).raise_for_status()
    assert http.get(f"/models/{model}/examples").json()["examples"][0]["x"] == {"took": 1.5}


FAULTS: dict[str, tuple[Row, dict[str, Any]]] = {
    "a word among numbers": ({"age": "old"}, {"row": 1, "name": "age"}),
    "a new column": ({"colour": "red"}, {"row": 1, "name": "colour"}),
    "another date": ({"joined": "31/12/2024"}, {"row": 1, "name": "joined"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_both_clients_name_row_and_column_and_nothing_changes(service: ServiceProcess, make: Make, fault: str) -> None:
    cells, named = FAULTS[fault]
    rows = [ROWS[0], {**ROWS[1], **cells}]
    model = make(**SPEC)
    calls: dict[str, tuple[Any, dict[str, Any]]] = {
        "update": (Y[:2], {}),
        "predict": (None, {}),
        "explain": (None, {}),
        "what_if": (None, {"C": 2.0}),
    }

    def check(refused: ServiceProblem) -> None:
        found = refused.document
        assert (found["status"], {name: found[name] for name in named}) == (422, named)

    async def awaiting() -> None:
        async with AsyncClient(service.url) as client:
            for call, (y, more) in calls.items():
                with pytest.raises(ServiceProblem) as refused:
                    await getattr(client, call)(model, rows, *([] if y is None else [y]), **more)
                check(refused.value)

    with Client(service.url) as client:
        client.update(model, ROWS, Y)
        for call, (y, more) in calls.items():
            with pytest.raises(ServiceProblem) as refused:
                getattr(client, call)(model, rows, *([] if y is None else [y]), **more)
            check(refused.value)
        asyncio.run(awaiting())
        assert client.model(model)["version"] == 1


def test_models_of_other_tasks_are_retrained_on_their_window(service: ServiceProcess, make: Make) -> None:
    model = make(**SPEC)
    with Client(service.url) as client:
        client.update(model, ROWS, Y)
        with pytest.raises(ServiceProblem, match="row 0, column 0: 'gold' is not a number"):
            client.put_dataset("words", b"plan,left\ngold,1\nfree,2\n", "csv")
        with pytest.raises(ServiceProblem, match="is for models of task l2svc"):
            client.retrain(model, dataset="words")
        before, columns = client.predict(model, PROBE)["decision"], client.model(model)["columns"]
        for share in (None, 0.2):  # on its window
            client.apply(client.wait(client.retrain(model, hold_out=share)["id"])["id"])
            assert client.predict(model, PROBE)["decision"] == pytest.approx(before, abs=1e-6)
            assert client.model(model)["columns"] == columns
        pu = make(task="pu", prior=0.4, lam=0.01, columns="auto")
        client.update(pu, ROWS, [int(y == "stays" and at % 3 > 0) for at, y in enumerate(Y)])
        before = client.predict(pu, PROBE)["decision"]
        for solver in ("usmo", "batch"):
            client.apply(client.wait(client.retrain(pu, solver)["id"])["id"])
            assert client.predict(pu, PROBE)["decision"] == pytest.approx(before, abs=1e-4)


KINDS = {"age": "number", "plan": "category", "joined": "time", "vip": "yes-no"}
OF_TABLE: dict[str, Any] = {"format": "csv", "target": "left", "key": "id", "columns": "auto"}


def table(rows: list[Row], y: list[str]) -> bytes:
    """Return rows as CSV, with gaps, keys "c 0", "c 1", ... in the column "id", and targets in "left"."""
    out = io.StringIO()
    lines = csv.DictWriter(out, ["id", "left", *KINDS])
    lines.writeheader()
    lines.writerows(row | {"id": f"c {at}", "left": y[at]} for at, row in enumerate(rows))
    return out.getvalue().encode()


def trained(client: Client, model: str, dataset: str, **asked: Any) -> dict[str, Any]:
    job = client.wait(client.retrain(model, dataset=dataset, tol=1e-5, **asked)["id"])
    client.apply(job["id"])
    return dict(job["result"])


def by_estimator(rows: list[Row], y: list[str]) -> Any:
    """Return the decisions of an estimator that learns these rows alone."""
    known = found_in(rows)
    model = LiveL2SVC(C=3.0, columns="auto")
    model.retrain_on(known.read(rows)[1], y, tol=1e-5, table=known)
    return pytest.approx(model.predictor().decision_function(LOOKED_AT), abs=0.02)


LOOKED_AT = [PROBE[0], dict(reversed(PROBE[1].items())), {"plan": "never seen"}, *PROBE[2:]]


def test_a_dataset_that_is_a_table_trains_a_model_that_is_asked_by_name(tmp_path: Path) -> None:
    rows, y = customers(300, 2)
    rows[7] = rows[7] | {"plan": SECRET}

    def has_secret() -> bool:
        own = np.float64(code_of(SECRET)).tobytes(), f"{code_of(SECRET):.1f}".encode(), SECRET.encode()
        return any(one in data for data in bytes_of_directory(tmp_path).values() for one in own)

    with ServiceProcess(tmp_path) as service:
        with Client(service.url) as client:
            found = client.put_dataset("t", table(rows, y), **OF_TABLE)
            assert ({one["name"]: one["kind"] for one in found["columns"]}, found["n_features"]) == (KINDS, 4)
            for model, columns in (
                ("found", "auto"),
                ("given", [{"name": name, "kind": KINDS[name]} for name in reversed(KINDS)]),
            ):
                client.create_model(model, task="l2svc", columns=columns, C=3.0)
                assert trained(client, model, "t", hold_out=0.2)["held_back"]["error"] < 0.3
                assert client.predict(model, LOOKED_AT)["decision"] == by_estimator(rows, y)
            shown = {one["name"]: one["kind"] for one in client.model("found")["columns"]}
            assert shown == KINDS
            before = client.predict("found", LOOKED_AT)
            for wrong, name in (({"age": "word"}, "age"), ({"plan": "gold", "agee": 3}, "agee")):
                with pytest.raises(ServiceProblem) as refused:
                    client.predict("found", [LOOKED_AT[0], wrong])
                assert (refused.value.document["row"], refused.value.document["name"]) == (1, name)
            with pytest.raises(ServiceProblem, match="cannot be told without an example"):
                client.explain("found", LOOKED_AT)
            with pytest.raises(ServiceProblem, match="learns from datasets"):
                client.update("found", rows[:2], y[:2])
        service.kill()
        service.start()
        with Client(service.url) as client:
            assert client.predict("found", LOOKED_AT) == before
            assert has_secret()
            client.delete_model("given")
            client.erase_everywhere(["c 7"])
            until(lambda: not client.model("found")["warnings"])
            assert client.dataset("t")["n_examples"] == 299
            del rows[7], y[7]
            assert client.predict("found", LOOKED_AT)["decision"] == by_estimator(rows, y)
            assert not has_secret()


def test_tables_in_datasets_that_do_not_fit_are_refused(service: ServiceProcess) -> None:
    plan, age = {"name": "plan", "kind": "category"}, {"name": "age"}
    refused: list[tuple[bytes, Any, str]] = [
        (b"plan,age,left\ngold,1,1\nfree,x,2\n", [plan, age], "row 1, column 1.*'x' is no number"),
        (b"plan,age,left\ngold,1,1\n", [plan], "'age' is only in it or the table"),
        (b"plan,age,left\ngold,1,1\n", [plan, age, {"name": "more"}], "'more' is only in it or the table"),
        (b"plan,age,left\ngold,1,1\n", [plan | {"kind": "wood"}, age], "a kind that is none of"),
        (b"1,2,1\n3,4,2\n", "auto", "need a header"),
    ]
    made: list[tuple[Any, str, str]] = [
        ("auto", "numbers", "upload it with columns"),
        (None, "words", "needs a model with columns"),
        ([plan | {"kind": "number"}, age], "words", "has a category here"),
        ([plan, {"name": "other"}], "words", "no column here"),
    ]
    with Client(service.url) as client:
        for data, columns, words in refused:
            with pytest.raises(ServiceProblem, match=words):
                client.put_dataset("refused", data, "csv", columns=columns)
        with pytest.raises(ServiceProblem, match="those of a table"):
            client.put_dataset("refused", b"1 1:2\n", "svmlight", columns="auto")
        client.put_dataset("numbers", b"plan,age,y\n1,2,1\n3,4,-1\n", "csv")
        client.put_dataset("words", b"plan,age,y\nx,2,1\nz,,-1\n", "csv", columns="auto")
        assert [one["name"] for one in client.datasets()] == ["numbers", "words"]
        for columns, dataset, words in made:
            model = client.create_model(task="l2svc", columns=columns)["id"]
            job = client.retrain(model, dataset=dataset)["id"]
            with pytest.raises(ServiceProblem, match=words):
                client.wait(job)
            client.delete_model(model)
        for dataset in ("numbers", "words"):
            client.delete_dataset(dataset)


def test_a_table_of_parquet_is_read_as_one_of_csv(tmp_path: Path) -> None:
    rows, y = customers(60, 5)
    frame = pd.DataFrame(rows).assign(joined=lambda own: pd.to_datetime(own["joined"]), left=y)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    (tmp_path / "rows.csv").write_bytes(table(rows, y))
    codes = []
    for format, drop in (("parquet", None), ("csv", "id")):
        (tmp_path / format).mkdir()
        asked: dict[str, Any] = {
            "format": format,
            "file": str(tmp_path / f"rows.{format}"),
            "directory": str(tmp_path / format),
        }
        asked |= {"target": "left", "key": drop, "columns": "auto", "most_bytes": 10**6, "most_features": 100}
        described = parse(asked | {"salt": "00"}, lambda _: None)
        assert {one["name"]: one["kind"] for one in described["columns"]} == KINDS
        places = [[one["name"] for one in described["columns"]].index(name) for name in KINDS]
        codes.append(Arrays(tmp_path / format, described | {"name": format}).X()[:, places])
    np.testing.assert_array_equal(*codes)
    assert np.isnan(codes[0]).any()
