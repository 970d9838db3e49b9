"""What 0.2.0, the first release, has stored is read and goes on; what is older is refused."""

from __future__ import annotations

import base64
import json
import sqlite3
import tarfile
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.store import redis, sqlite_schema
from livesvm.service.store.base import Indexed, Lease, SnapshotInfo, StoredModel, StoreUnavailable
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.seals import seal, sha256
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_marks import new_marks
from livesvm.solvers.estimators.files import load_model
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess

SCHEMA_7 = """
CREATE TABLE models (
    id TEXT PRIMARY KEY, spec BLOB NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, created REAL NOT NULL,
    writer TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0, kept TEXT NOT NULL DEFAULT '');
CREATE TABLE log (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, aborted INTEGER NOT NULL DEFAULT 0,
    seal BLOB NOT NULL DEFAULT x'', PRIMARY KEY (model, sequence));
CREATE TABLE snapshots (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, sha256 BLOB, version INTEGER NOT NULL DEFAULT 0,
    saved REAL NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'', PRIMARY KEY (model, sequence));
CREATE TABLE requests (
    model TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, sequence INTEGER NOT NULL, answer BLOB,
    seal BLOB NOT NULL DEFAULT x'', answer_seal BLOB, PRIMARY KEY (model, key));
CREATE INDEX requests_by_sequence ON requests (model, sequence);
CREATE TABLE epochs (newest INTEGER NOT NULL);
CREATE TABLE solutions (model TEXT PRIMARY KEY, sequence INTEGER NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE probe (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE documents (
    kind TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
INSERT INTO epochs VALUES (9);
INSERT INTO models VALUES ('m', x'01', 7, 4, 1.0, 'me', 2, '4'), ('empty', x'02', 9, 0, 1.0, 'me', 0, '');
PRAGMA user_version = 7;
"""
"""As 0.2.0 makes it."""


def test_summaries_come_with_schema_8(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(SCHEMA_7)
        row = ("m", 4, 3, 6.5, sha256(b"state"))
        db.execute(
            "INSERT INTO snapshots (model, sequence, version, saved, sha256, data, seal) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row, b"state", seal(*row)),
        )
        db.commit()
    marks = new_marks(tmp_path / "s")
    marks.created("m", 4, 7)
    marks.created("empty", 0, 9)
    marks.write()
    marks.close()
    for _ in range(2):
        with closing(SqliteStore(tmp_path / "s")) as store:
            assert list(store.index()) == [Indexed("empty", 0, b"", 0), Indexed("m", 4, b"", 0)]
            assert store.models() == [StoredModel("empty", b"\x02"), StoredModel("m", b"\x01")]
            assert store.snapshots("m") == [SnapshotInfo(4, 3, 6.5, 5)]
            assert store.heads(["m"])["m"].lease == Lease("m", 7, "me")
    with closing(SqliteStore(tmp_path / "s")) as store:
        lease = store.acquire("m")
        assert lease.epoch > 9
        store.append(lease, 5, b"record", None, keep=1)
        store.save_snapshot(lease, 5, b"newer", 4, b"summary")
        assert store.load_snapshot("m", 4) == b"state"
        assert list(store.index(["m"])) == [Indexed("m", 5, b"summary", 5)]


def test_a_move_of_specifications_that_is_interrupted_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(SCHEMA_7)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_schema, "FROM_7", (*sqlite_schema.FROM_7, "no such statement"))
        with pytest.raises(StoreUnavailable):
            SqliteStore(tmp_path / "s")
    with closing(SqliteStore(tmp_path / "s")) as store:
        assert store.model("m") == StoredModel("m", b"\x01")


def test_a_database_of_before_the_first_release_is_refused_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        db.executescript(f"{SCHEMA_7} DROP TABLE documents; PRAGMA user_version = 6;")
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(StoreUnavailable, match=r"schema 6, of a version before 0\.2\.0: start 0\.2\.0 on it first$"):
        SqliteStore(tmp_path / DATABASE)
    assert (tmp_path / DATABASE).read_bytes() == before


def test_redis_of_layout_4_is_read_and_what_it_lacks_comes_with_the_next_writes(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    client: Any = redis_server.client()
    with closing(client):
        client.mset({f"{{{prefix}}}:schema": 4, f"{{{prefix}}}:epochs": 7})
        client.hset(f"{{{prefix}}}:models", "m", b"spec")
        meta = {"lease": "7:writer", "holder": "me", "attempt": 0, "sequence": 0, "sealed": 1}
        client.hset(f"{{{prefix}}}:m:m:meta", mapping=meta)
        with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
            assert (list(store.index()), store.changes()) == ([Indexed("m", 0, b"", 0, "me")], 0)
            lease = store.acquire("m")
            store.save_snapshot(lease, 0, b"state", 0, b"summary")
            assert list(store.index()) == [Indexed("m", 0, b"summary", 0, "me")]
            store.delete(lease)
            assert (list(store.index()), store.changes()) == ([], 1)
        assert int(client.get(f"{{{prefix}}}:schema")) == redis.SCHEMA == 6
        client.set(f"{{{prefix}}}:schema", 3)
        with pytest.raises(StoreUnavailable, match=r"schema 3 .* of a version before 0\.2\.0"):
            RedisStore(redis_server.url, "me", prefix=prefix)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what 0.2.0 has left: a data directory after a kill, keys of Redis, a model's file, and its answers."""
    place = tmp_path_factory.mktemp("released")
    with tarfile.open(Path(__file__).parents[1] / "support" / "0.2.0.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 and before have none
        packed.extractall(place)
    return place / "0.2.0"


def _given(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return examples as they were given, without their coefficients."""
    return [{name: one[name] for name in ("key", "x", "y", "weight", "time", "tags", "side")} for one in examples]


def goes_on(http: httpx.Client, said: Any) -> None:
    """Assert that a service answers as 0.2.0 did, and that its models and feeds learn on."""
    again = {"add": {name: said["again"][name] for name in ("X", "y", "keys")}}
    answer = http.post("/models/two/update", json=again, headers={"Idempotency-Key": "first"})
    assert (answer.json(), answer.headers["idempotent-replayed"]) == (said["again"]["answer"], "true")
    for name, expected in said["models"].items():
        X = [row if name != "sparse" else [*row, row[0]] for row in said["probe"]]
        X = X if name != "sparse" else [[x if abs(x) > 0.5 else 0.0 for x in row] for row in X]
        found = http.post(f"/models/{name}/predict", json={"X": X}).json()
        for values in ("decision", "prediction")[: 2 if name in ("number", "quantile") else 1]:
            theirs = np.ravel(expected["predict"].pop(values))
            np.testing.assert_allclose(np.ravel(found.pop(values)), theirs, atol=1e-6)
        assert found == expected["predict"]
        assert _given(http.get(f"/models/{name}/examples").json()["examples"]) == _given(expected["examples"])
        now = http.get(f"/models/{name}").json()
        assert (now["C"], now["gamma"]) == (expected["C"], pytest.approx(expected["gamma"]))
        versions = http.get(f"/models/{name}/versions").json()
        assert {field: versions[field] for field in expected["versions"]} == expected["versions"]
        change = {"remove": {"keys": [expected["examples"][-1]["key"]]}}
        assert http.post(f"/models/{name}/update", json=change).json()["version"] == now["version"] + 1
        if name != "large":
            certificate = http.get(f"/models/{name}/certificate").json()
            assert all(one["relative_gap"] < 1e-6 for one in certificate.get("pairs", [certificate]))
    for name, expected in said["feeds"].items():
        found = http.get(f"/feeds/{name}/forecast").json()
        assert [{field: one[field] for field in ("step", "time", "value")} for one in found["forecasts"]] == [
            {"step": one["step"], "time": one["time"], "value": pytest.approx(one["value"], rel=1e-6)}
            for one in expected["forecasts"]
        ]
        rows = [{field: row[field] for field in row if field != "k" or name == "hourly"} for row in said["next"]]
        assert http.post(f"/feeds/{name}/observations", json={"rows": rows}).json()["accepted"] == 2
    receipts = http.get("/receipts").json()["receipts"]
    assert receipts == said["receipts"]
    for receipt in receipts:
        assert http.post("/receipts/verify", json=receipt).json()["verified"]


def test_a_data_directory_of_0_2_0_is_read_and_goes_on(released: Path) -> None:
    said = json.loads((released / "said.json").read_text())["sqlite"]
    with ServiceProcess(released / "data") as service, service.http() as http:
        goes_on(http, said)
        for name, expected in (("datasets", said["datasets"]), ("jobs", said["jobs"]["jobs"])):
            for now, then in zip(http.get(f"/{name}").json()[name], expected, strict=True):
                assert now | then == now
        back = http.post("/models/two/restore", json={"version": 1})
        assert back.json()["n_examples"] == 10


def test_redis_of_0_2_0_is_read_and_goes_on(released: Path, tmp_path: Path, redis_server: RedisServer) -> None:
    kept, prefix = json.loads((released / "said.json").read_text()), uuid.uuid4().hex
    client: Any = redis_server.client()
    with closing(client):
        for key, value in kept["dump"].items():
            client.restore(key.replace("livesvm", prefix, 1), 0, base64.b64decode(value))
    (tmp_path / "holder").write_text(kept["holder"])
    process = ServiceProcess(tmp_path, redis_url=redis_server.url, redis_prefix=prefix)
    with process as service, service.http() as http:
        goes_on(http, kept["redis"])


def test_a_models_file_of_0_2_0_is_read(released: Path) -> None:
    said = json.loads((released / "said.json").read_text())["model"]
    model = load_model(released / "model.npz")
    np.testing.assert_allclose(model.decision_function(said["X"]), said["decision"], atol=1e-7)
    model.update(add=([[0.0, 0.0]], ["a"]), remove=[0])
    assert model.certificate().relative_gap < 1e-9
