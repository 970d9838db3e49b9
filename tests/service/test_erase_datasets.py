"""Rows of datasets are erased by their keys, whatever they came as."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy import sparse

from livesvm.service.datasets import catalogue
from livesvm.service.datasets.arrays import Arrays
from livesvm.service.datasets.catalogue import Datasets, UploadFormat
from livesvm.service.datasets.parsing import parse
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.memory import Budget
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import InvalidInput
from tests.support.erasing import bytes_of_directory

RNG = np.random.default_rng(1)
X = RNG.normal(size=(30, 3))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
KEYS = [f"person {number % 20}" for number in range(30)]
"""Ten of them have two rows."""


def npz(**members: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **members)
    return out.getvalue()


def csv(*, head: bool = True) -> bytes:
    lines = [f'{x[0]!r},"{chosen}",{x[1]!r},{x[2]!r},{y:g}' for x, chosen, y in zip(X.tolist(), KEYS, Y, strict=True)]
    return "\n".join((["a,who,b,c,y"] if head else []) + lines).encode()


def csr() -> bytes:
    A = sparse.csr_array(np.where(np.abs(X) > 0.3, X, 0.0))
    return npz(data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape, y=Y, keys=np.array(KEYS))


def words() -> bytes:
    return npz(X=X, y=np.where(Y > 0, "yes", "no"), keys=np.array(KEYS))


def parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pa.table({"who": KEYS, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y}), out)
    return out.getvalue()


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Datasets]:
    """Datasets that are parsed here instead of in a process of their own."""
    monkeypatch.setattr(catalogue, "run_beside", lambda _work, asked, tell, _check: parse(asked, tell))
    store = SqliteStore(tmp_path / "db")
    yield Datasets(Settings(data_dir=tmp_path), store, Health(Metrics()), Budget())
    store.close()


def put(datasets: Datasets, data: bytes, format: Any, key: str | None, name: str = "d") -> dict[str, Any]:
    upload = datasets.begin(name)
    upload.write(data)
    try:
        return datasets.finish(upload, name, UploadFormat(format, key=key), None)[0]
    except BaseException:
        upload.discard()
        raise


@pytest.mark.parametrize(
    ("format", "data", "key"),
    [
        ("csv", csv, "who"),
        ("csv", lambda: csv(head=False), "1"),
        ("npz", csr, None),
        ("npz", words, None),
        ("parquet", parquet, "who"),
    ],
)
def test_rows_go_by_key(format: str, data: Any, key: str | None, datasets: Datasets, tmp_path: Path) -> None:
    before = put(datasets, data(), format, key)
    assert before["has_keys"]
    here = bytes_of_directory(tmp_path)
    assert not any(b"person" in found for found in here.values())
    files = Arrays(datasets.directory(before), before)
    old = files.X(), files.y()
    gone = ["person 3", "person 17", "nobody"]
    found, unsearched, known = datasets.find(gone)
    assert (found[0].rows, len(found[0].marks), unsearched) == (3, 2, [])
    assert known == {"person 3", "person 17"}
    datasets.erase(found)
    now = datasets.get("d")
    stays = [i for i, chosen in enumerate(KEYS) if chosen not in gone]
    assert (now["n_examples"], now["sha256"] == before["sha256"]) == (27, False)
    new = Arrays(datasets.directory(now), now)
    for mine, other in zip((new.X(), new.y()), old, strict=True):
        dense = [a.toarray() if hasattr(a, "toarray") else a for a in (mine, other)]
        np.testing.assert_array_equal(dense[0], dense[1][stays])
    after = bytes_of_directory(tmp_path)
    for row in (3, 23, 17):
        assert any(x.tobytes() in found for x in X[row] for found in here.values())
        assert not any(x.tobytes() in found for x in X[row] for found in after.values())
    datasets.erase(found)  # again is harmless
    assert datasets.get("d") == now
    assert datasets.find(gone) == ([], [], set())


def test_a_dataset_without_rows_left_is_removed(datasets: Datasets, tmp_path: Path) -> None:
    put(datasets, npz(X=X, y=Y, keys=np.arange(30)), "npz", None)
    put(datasets, npz(X=X, y=Y), "npz", None, "without")
    found, unsearched, _ = datasets.find([*map(str, range(30))])
    assert unsearched == ["without"]
    datasets.erase(found)
    assert [one["name"] for one in datasets.all()] == ["without"]
    assert len(list((tmp_path / "datasets").iterdir())) == 1


def test_what_cannot_be_read_is_said(datasets: Datasets) -> None:
    described = put(datasets, csv(), "csv", "who")
    (datasets.directory(described) / "keys").write_bytes(b"rubbish")
    assert datasets.find(["person 3"]) == ([], ["d"], set())


def test_old_files_that_stay_are_no_success(datasets: Datasets, monkeypatch: pytest.MonkeyPatch) -> None:
    put(datasets, csv(), "csv", "who")
    found, *_ = datasets.find(["person 3"])
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(StoreUnavailable, match="cannot be removed"):
        datasets.erase(found)


@pytest.mark.parametrize(
    ("data", "format", "key", "place"),
    [
        (b"who,a,y\nx,1,1\n,2,1\n", "csv", "who", ("key", 1)),
        (b"who,a,y\nx,1,1\n", "csv", "whom", ("key", None)),
        (b"who,a,y\nx,1,1\n", "csv", "y", ("key", None)),
        (b"who,a,y\nx,1,1\ny,u,1\n", "csv", "who", ("body", 1)),
        (b"who,a,y\nx,1,1\ny,1\n", "csv", "who", ("body", 1)),
        (npz(X=X, y=Y, keys=np.array(KEYS[:4])), "npz", None, ("keys", None)),
        (npz(X=X, y=Y, keys=np.arange(30.0)), "npz", None, ("keys", None)),
        (npz(X=X, y=Y, keys=np.array(["a" * 300] * 30)), "npz", None, ("keys", None)),
    ],
)
def test_keys_that_are_none(data: bytes, format: str, key: str | None, place: Any, datasets: Datasets) -> None:
    with pytest.raises(InvalidInput) as caught:
        put(datasets, data, format, key)
    assert (caught.value.field, caught.value.row) == (place[0], place[1])


def test_over_rest(http: httpx.Client) -> None:
    answer = http.put("/datasets/keyed", params={"key": "who"}, content=csv(), headers={"content-type": "text/csv"})
    assert answer.json()["has_keys"] is True
    http.post("/models", json={"id": "erase-rows", "C": 1.0}).raise_for_status()
    receipt = erased(http, "erase-rows", ["person 3"])
    assert receipt["places"]["datasets"].startswith("2 rows removed from keyed")
    assert {"name": "keyed", "rows": 2} in receipt["datasets"]
    assert receipt["keys"]["in_window"] == 0
    assert http.get("/datasets/keyed").json()["n_examples"] == 28
    assert receipt["version_before"] == receipt["version_after"] == 0  # the model never knew them
    again = http.post("/models/erase-rows/erase", json={"keys": ["person 3"]})
    assert (again.status_code, again.json()["type"]) == (404, "urn:livesvm:problem:nothing-to-erase")
    assert receipt["receipt"] in again.json()["detail"]
    by_tag = http.post("/erase", json={"tags": ["person 5"]}).raise_for_status().json()
    assert (by_tag["datasets"], by_tag["erased"], by_tag["removed"]) == ([{"name": "keyed", "rows": 2}], [], 0)
    assert by_tag["receipt"]["datasets"] == by_tag["datasets"]
    http.delete("/datasets/keyed").raise_for_status()
    http.delete("/models/erase-rows").raise_for_status()


def erased(http: httpx.Client, model: str, keys: list[str]) -> dict[str, Any]:
    """Return the receipt."""
    answer = http.post(f"/models/{model}/erase", json={"keys": keys})
    assert answer.status_code == 200, answer.text
    receipt: dict[str, Any] = answer.json()["receipt"]
    return receipt
