"""Sparse features over REST: what comes, what is kept and told, and what is refused by name."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from livesvm.service.cli import files
from livesvm.service.client import Client, ServiceProblem
from livesvm.service.history.replay import together
from livesvm.service.history.solutions import solution_of, solved
from livesvm.service.jobs.retraining_worker import retrain
from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.service.resources.memory import FIXED_BYTES
from livesvm.service.store import codec
from livesvm.service.store.base import LogRecord, StoreDamaged
from livesvm.solvers import IncrementalSVC
from livesvm.solvers.models.change import Batch, Change
from livesvm.solvers.sparse import BYTES, SparseRows
from livesvm.solvers.validation import features
from tests.service.process import ServiceProcess

WIDE = 8315
LINEAR = {"kernel": {"name": "linear"}, "C": 1.0}


def drawn(seed: int, n: int, width: int = WIDE) -> tuple[Any, Any]:
    """Return rows of 20 words each, of which the first hundred say of which class they are."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    columns = np.stack([rng.choice(width, 20, replace=False) for _ in range(n)])
    columns.sort(axis=1)
    values = rng.exponential(size=(n, 20)) * np.where(columns % 2 == 0, y[:, None] + 1.2, 1.2 - y[:, None])
    return sparse.csr_array((values.ravel(), columns.ravel(), np.arange(n + 1) * 20), shape=(n, width)), y


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("sparse"), snapshot_updates=5) as service:
        yield service


@pytest.fixture
def client(process: ServiceProcess) -> Iterator[Client]:
    with Client(process.url) as client:
        yield client


def test_a_wide_window_is_learnt_stored_reported_and_erased(process: ServiceProcess, client: Client) -> None:
    X, y = drawn(1, 400)
    client.create_model("text", **LINEAR)
    for start in range(0, 400, 200):
        part = slice(start, start + 200)
        client.update("text", X[part], y[part], keys=list(range(start, start + 200)))
    ours = IncrementalSVC(kernel="linear", C=1.0, classes=(-1, 1)).fit(X, y)
    new, _ = drawn(2, 50)
    expected = pytest.approx(ours.decision_function(new), abs=1e-8)
    assert client.predict("text", new)["decision"] == expected
    assert client.predict("text", new.toarray())["decision"] == expected
    assert client.model("text")["n_features"] == WIDE

    client.checkpoint("text")
    client.update("text", X[:3], y[:3], keys=["a", "b", "c"], remove={"oldest": 3})
    process.stop()
    process.start()
    with Client(process.url) as client:
        assert client.predict("text", new)["version"] == 3
        check_what_came_back(process, client, X, y)


def check_what_came_back(process: ServiceProcess, client: Client, X: Any, y: Any) -> None:
    new, _ = drawn(2, 50)
    ours = IncrementalSVC(kernel="linear", C=1.0, classes=(-1, 1)).fit(X, y)
    expected = pytest.approx(ours.decision_function(new), abs=1e-8)
    assert client.certificate("text")["relative_gap"] <= 1e-8
    client.restore("text", 2)
    assert client.predict("text", new)["decision"] == expected

    page = client.examples("text", limit=2)["examples"]
    assert page[1]["x"]["n_features"] == WIDE
    assert page[1]["x"]["indices"] == X[[1]].indices.tolist()
    assert page[1]["x"]["values"] == X[[1]].data.tolist()
    with process.http() as http:
        npz = http.get("/models/text/examples", params={"format": "npz"})
        found = np.load(io.BytesIO(npz.raise_for_status().content))
        again = sparse.csr_array((found["values"], found["indices"], found["indptr"]), shape=X.shape)
        assert (again != X).nnz == 0
        refused = http.get("/models/text/examples", params={"format": "csv"})
        assert refused.status_code == 406, refused.text
    client.erase("text", [0, 1])
    assert client.model("text")["n_examples"] == 398
    less = IncrementalSVC(kernel="linear", C=1.0, classes=(-1, 1)).fit(X[2:], y[2:])
    assert client.predict("text", new)["decision"] == pytest.approx(less.decision_function(new), abs=1e-8)


def test_jobs_take_sparse_windows(client: Client) -> None:
    X, y = drawn(3, 60)
    client.create_model("small", kernel={"name": "rbf", "gamma": 0.01})
    client.update("small", X, np.where(y > 0, "up", "down"))
    tuned = client.wait(client.tune_model("small", folds=2)["id"])
    assert tuned["state"] == "done"
    client.apply(tuned["id"])
    assert client.model("small")["gamma"] == tuned["result"]["parameters"]["gamma"]
    for job in (client.assess("small", folds=3), client.regularization_path("small", 0.1, 10.0)):
        assert client.wait(job["id"])["state"] == "done"


def test_an_npz_file_of_sparse_rows_is_an_update(process: ServiceProcess, client: Client) -> None:
    X, y = drawn(3, 30, 60)
    client.create_model("npz", **LINEAR)
    stream = io.BytesIO()
    np.savez(stream, indptr=X.indptr, indices=X.indices, values=X.data, n_features=60, y=y)
    with process.http() as http:
        headers = {"content-type": "application/x-npz"}
        http.post("/models/npz/update", content=stream.getvalue(), headers=headers).raise_for_status()
    client.update("npz", X[:4].toarray(), y[:4])  # dense rows are brought to what the window holds
    assert client.examples("npz")["examples"][31]["x"]["indices"] == X[[1]].indices.tolist()
    client.update("npz", X[:1], y[:1], remove={"oldest": 34})
    assert client.model("npz")["n_examples"] == 1


def planned(state: ModelState, X: Any, y: Any, **limits: Any) -> Command:
    rows = X if isinstance(X, np.ndarray) else features(X)
    return state.window.plan(Change(Batch(rows, y)), WindowLimits(10_000, 10_000, **limits), 1.0, None)


def test_logs_snapshots_solutions_and_retrainings_hold_it_sparse(tmp_path: Path) -> None:
    X, y = drawn(4, 40, 60)
    spec = ModelSpec.model_validate({"id": "m", **LINEAR})
    state, records = ModelState.empty(spec, 16), []
    commands = [planned(state, X[:20], y[:20])]
    state.apply(commands[0])
    before = state.encode()
    for part in (X[20:30], X[30:].toarray()):
        commands.append(planned(state, part, y[20:30], max_examples=25))
        state.apply(commands[-1])
    assert all(isinstance(command.add and command.add.X, SparseRows) for command in commands)
    records = [LogRecord(sequence, command.encode(), False) for sequence, command in enumerate(commands[1:], start=2)]
    held = state.estimator.window_X

    again = ModelState.decode(spec, 16, state.encode())
    assert (again.estimator.window_X != held).nnz == 0
    assert again.window == state.window
    by_solution = solved(spec, 16, codec.decode(before), records, solution_of(state, records[-1].data))
    assert (by_solution.estimator.window_X != held).nnz == 0
    replayed = ModelState.decode(spec, 16, before)
    tail = [Command.decode(record.data) for record in records]
    replayed.apply_together(tail, together(tail))
    assert (replayed.estimator.window_X != held).nnz == 0
    cold = ModelState.decode(spec, 16, before)
    for command in tail:
        cold.apply_cold(command)
    assert (cold.estimator.window_X != held).nnz == 0
    assert cold.estimator.certificate().relative_gap <= 1e-8

    (tmp_path / "given").write_bytes(codec.encode({"arrays": state.estimator.to_arrays(), "changed": {}}))
    asked = {"spec": spec.model_dump_json(), "cache_mb": 16, "threads": 1, "solver": "batch", "hold_out": 0.2}
    found = retrain(
        asked | {"input": str(tmp_path / "given"), "output": str(tmp_path / "found")}, lambda reported: None
    )
    assert found["relative_gap"] <= 1e-8
    assert isinstance(codec.decode((tmp_path / "found").read_bytes())["arrays"]["X"], SparseRows)


def test_memory_is_counted_by_what_is_held() -> None:
    X, y = drawn(5, 40)
    spec = ModelSpec.model_validate({"id": "m", **LINEAR})
    state = ModelState.empty(spec, 1)
    command = planned(state, X, y)
    before = state.bytes_with(command.add)
    state.apply(command)
    assert state.row_bytes == pytest.approx(20 * BYTES + 16)
    assert state.bytes_with(None) <= before < FIXED_BYTES + 2**20 + 8 * WIDE * 40


def test_damaged_rows_are_noticed() -> None:
    rows = SparseRows.of_dense(np.eye(3))
    rows.indices[1] = 7
    with pytest.raises(StoreDamaged, match="from 0 on"):
        codec.decode(codec.encode({"X": rows}))


GOOD: dict[str, Any] = {"indices": [[0, 2], [1]], "values": [[1.0, 2.0], [3.0]], "n_features": 3}


@pytest.mark.parametrize(
    ("change", "field", "row", "reason"),
    [
        ({"indices": [[2, 0], [1]]}, "X", 0, "ascend"),
        ({"indices": [[0, 0], [1]]}, "X", 0, "twice"),
        ({"indices": [[0, 2], [3]]}, "X", 1, "from 0 on"),
        ({"indices": [[0, 2], [-1]]}, "X", 1, "from 0 on"),
        ({"indices": [[0, 2.0], [1]]}, "X.indices", 0, "a whole number"),
        ({"indices": [[0, 2], [True]]}, "X.indices", 1, "a boolean"),
        ({"indices": [[0, 2], [2**70]]}, "X.indices", None, "too large"),
        ({"indices": [[0, 2]]}, "X.values", None, "2 rows"),
        ({"indices": [[0, 2], 1]}, "X.indices", 1, "an array"),
        ({"values": [[1.0], [3.0]]}, "X.values", 0, "1 values for 2"),
        ({"values": [[1.0, "x"], [3.0]]}, "X.values", 0, "a string"),
        ({"values": [[1.0, 1e200], [3.0]]}, "X", 0, "larger than"),
        ({"n_features": 4}, "X", 0, "4 columns"),
        ({"n_features": 0}, "X.n_features", None, "from 1"),
        ({"n_features": 2.5}, "X.n_features", None, "from 1"),
        ({"n_features": 20_000}, "X", 0, "20000 columns"),
        ({"more": 1}, "X.more", None, "is not one of"),
        ({"values": None}, "X", None, "at least one row"),
    ],
)
def test_what_is_wrong_is_named(
    process: ServiceProcess, client: Client, change: dict[str, Any], field: str, row: int | None, reason: str
) -> None:
    with process.http() as http:
        if http.get("/models/strict").status_code == 404:
            client.create_model("strict", **LINEAR)
            body = {"add": {"X": GOOD, "y": [1, -1]}}
            http.post("/models/strict/update", json=body).raise_for_status()
        for call, body in (("update", {"add": {"X": GOOD | change, "y": [1, -1]}}), ("predict", {"X": GOOD | change})):
            answer = http.post(f"/models/strict/{call}", json=body)
            assert answer.status_code == 422, answer.text
            problem = answer.json()
            assert reason in problem["detail"], problem
            assert problem["field"].removeprefix("add.") == field, problem
            assert problem.get("row") == row, problem
        assert http.get("/models/strict").json()["version"] == 1


def test_what_no_window_holds_is_refused(process: ServiceProcess, client: Client) -> None:
    X, y = drawn(5, 6, 40)
    client.create_model("dense", **LINEAR)
    client.update("dense", X.toarray(), y)
    with pytest.raises(ServiceProblem, match="send them dense"):
        client.update("dense", X, y)
    client.create_model("l2", task="l2svc")
    with pytest.raises(ServiceProblem, match="take dense rows"):
        client.update("l2", X, y)
    assert client.predict("dense", X)["decision"] == pytest.approx(client.predict("dense", X.toarray())["decision"])
    bad = X.copy()
    bad.data[3] = np.nan
    with pytest.raises(ServiceProblem, match="NaN"):
        client.predict("dense", bad)


def test_npz_that_is_no_csr_is_refused(process: ServiceProcess) -> None:
    good = {"indptr": np.array([0, 1]), "indices": np.array([0]), "values": np.array([1.0]), "n_features": np.array(3)}
    with process.http() as http:
        http.post("/models", json={"id": "csr", **LINEAR}).raise_for_status()
        http.post("/models/csr/update", json={"add": {"X": GOOD, "y": [1, -1]}}).raise_for_status()
        for change, field in (
            ({"indptr": np.array([0, 2])}, "indptr"),
            ({"indptr": np.array([0.0, 1.0])}, "indptr"),
            ({"indices": np.array([0.5])}, "indices"),
            ({"indices": np.array([7])}, "X"),
            ({"values": np.array([1.0, 2.0])}, "values"),
            ({"values": np.array([np.inf])}, "X"),
            ({"n_features": np.array(0)}, "n_features"),
            ({"indptr": None}, "X"),
            ({"values": None}, "values"),
        ):
            stream = io.BytesIO()
            members: dict[str, Any] = {name: value for name, value in (good | change).items() if value is not None}
            np.savez(stream, **members)
            headers = {"content-type": "application/x-npz"}
            answer = http.post("/models/csr/predict", content=stream.getvalue(), headers=headers)
            assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


def test_files_of_svmlight_are_read(tmp_path: Path) -> None:
    file = tmp_path / "some.svmlight"
    file.write_text("# no example\n1 1:0.5 3:2 # a comment\n-1 qid:4 2:1e-3\n\n1\n")
    found = files.read(file)
    assert found.X.toarray().tolist() == [[0.5, 0.0, 2.0], [0.0, 0.001, 0.0], [0.0, 0.0, 0.0]]
    assert found.y is not None
    assert found.y.tolist() == [1.0, -1.0, 1.0]
    assert files.as_wide(found.X, 5).shape == (3, 5)
    for text, reason in (
        ("1 0:1\n", "before the first"),
        ("1 x:1\n", "row 1: column 2: 'x:1' is not column:value"),
        ("yes 1:1\n", "row 1: column 1: 'yes' is not a number"),
        ("1 1:1\n1 2:1 3:1 2:5\n", "row 2: column 2 does not ascend"),
        ("1 2:1\n1 2:1 2:5\n", "row 2: column 2 does not ascend"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=reason):
            files.read(file)


def test_other_files_may_hold_sparse_rows(tmp_path: Path) -> None:
    X, y = drawn(6, 5, 40)
    np.savez(tmp_path / "a.npz", indptr=X.indptr, indices=X.indices, values=X.data, n_features=40, y=y)
    (tmp_path / "a.json").write_text(
        '{"X": {"indices": [[0, 2], []], "values": [[1, 2], []], "n_features": 4}, "y": [1, -1]}'
    )
    assert (files.read(tmp_path / "a.npz").X != X).nnz == 0
    assert files.read(tmp_path / "a.json").X.toarray().tolist() == [[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]]


def test_the_schema_says_how_sparse_rows_look(process: ServiceProcess) -> None:
    with process.http() as http:
        schemas = http.get("/openapi.json").json()["components"]["schemas"]
    forms = schemas["PredictRequest"]["properties"]["X"]["anyOf"]
    assert [form["type"] for form in forms] == ["array", "object"]
