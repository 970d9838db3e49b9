"""Datasets over REST: whole or not at all, described, replaced, deleted, bounded."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from livesvm.service.datasets.arrays import Arrays
from livesvm.service.datasets.catalogue import Datasets, UploadFormat
from livesvm.service.errors import TooManyDatasets
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.memory import Budget
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName
from livesvm.service.store.sqlite import SqliteStore
from tests.service.process import ServiceProcess
from tests.support.raw_exports import workbook
from tests.support.waiting import until

TABLE = b"a,b,y\n1,2,1\n3,4,-1\n5,6,1\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with limits of its own."""
    with ServiceProcess(
        tmp_path_factory.mktemp("datasets"), dataset_bytes=2**21, max_datasets=2, header_seconds=1
    ) as s:
        yield s


@pytest.fixture
def client(own: ServiceProcess) -> Iterator[Client]:
    with Client(own.url) as client:
        yield client
        for found in client.datasets():
            client.delete_dataset(found["name"])


def directories(service: ServiceProcess) -> list[Path]:
    return sorted((service.data_dir / "datasets").iterdir())


def npz(**members: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **members)
    return out.getvalue()


def test_a_dataset_is_kept_described_replaced_and_deleted(own: ServiceProcess, client: Client, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TABLE)
    found = client.put_dataset("t", tmp_path / "t.csv", "csv")
    known = {name: found[name] for name in ("name", "format", "n_examples", "n_features", "is_sparse", "labels")}
    assert known == {
        "name": "t",
        "format": "csv",
        "n_examples": 3,
        "n_features": 2,
        "is_sparse": False,
        "labels": [-1.0, 1.0],
    }
    assert found["sha256"] == hashlib.sha256(TABLE).hexdigest()
    assert client.datasets() == [client.dataset("t")] == [found]
    again = client.put_dataset("t", npz(X=np.eye(4), y=np.ones(4)), "npz")
    assert (again["n_examples"], again["format"]) == (4, "npz")
    assert len(directories(own)) == 1
    client.delete_dataset("t")
    assert directories(own) == []
    with pytest.raises(ServiceProblem) as caught:
        client.dataset("t")
    assert (caught.value.status, caught.value.type) == (404, "urn:livesvm:problem:unknown-dataset")


def test_json_and_workbooks_are_read_as_tables(client: Client, tmp_path: Path) -> None:
    rows = [{"a": 1.5, "b": 2, "y": 1}, {"a": 3.5, "b": 4, "y": -1}]
    found = client.put_dataset("t", json.dumps(rows).encode(), "csv")
    assert (found["n_examples"], found["n_features"], found["labels"]) == (2, 2, [-1.0, 1.0])
    client.delete_dataset("t")
    pytest.importorskip("python_calamine", reason="livesvm[excel] is not installed")
    with pytest.raises(ServiceProblem) as caught:
        client.put_dataset("t", workbook(tmp_path / "meter.xlsx"), "csv")
    assert "'2024-01-01T00:00:00' is not a number" in caught.value.document["detail"]


def test_what_is_malformed_is_refused_with_its_place_and_the_old_one_stays(own: ServiceProcess, client: Client) -> None:
    before = client.put_dataset("t", TABLE, "csv")
    for data, format, place in (
        (b"1,2,1\n3,x,1\n", "csv", ("body", 1, 1)),
        (b"not a zip", "npz", ("body", None, None)),
    ):
        with pytest.raises(ServiceProblem) as caught:
            client.put_dataset("t", data, format)
        reported = caught.value.document
        assert (reported["status"], reported["field"], reported.get("row"), reported.get("column")) == (422, *place)
    assert client.dataset("t") == before
    assert len(directories(own)) == 1


def test_limits(own: ServiceProcess, client: Client) -> None:
    with own.http() as http:

        def put(name: str, data: Any, **headers: str) -> httpx.Response:
            return http.put(f"/datasets/{name}", content=data, headers={"content-type": "text/csv"} | headers)

        assert put("large", b"1," * 2**20 + b"1").status_code == 413
        assert put("large", iter([b"1,2\n" * 2**18] * 3)).status_code == 413  # it does not say how large it is
        assert put("t", TABLE, **{"content-type": "text/plain"}).status_code == 415
        assert put("t", TABLE, **{"x-content-sha256": "0" * 64}).status_code == 400
        assert put("T t", TABLE).status_code == 422
        bomb = io.BytesIO()
        np.savez_compressed(bomb, X=np.zeros((2**19, 1)), y=np.zeros(2**19))
        answer = put("t", bomb.getvalue(), **{"content-type": "application/x-npz"})
        assert (answer.status_code, answer.json()["field"]) == (422, "body")
        for name in ("a", "b"):
            assert put(name, TABLE).status_code == 201
        assert put("c", TABLE).status_code == 409
        assert put("a", TABLE).status_code == 200
    assert len(directories(own)) == 2


def test_datasets_have_a_share_of_the_disk_and_leave_space_for_updates(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    metrics, out = Metrics(), io.BytesIO()
    np.savez_compressed(out, X=np.zeros((20_000, 50)), y=np.ones(20_000))

    def uploaded(name: str, data: bytes, **settings: Any) -> None:
        """Upload a dataset whole, as the route does."""
        datasets = Datasets(Settings(data_dir=tmp_path, **settings), store, Health(metrics), Budget(2**40))
        upload = datasets.begin(name)
        try:
            upload.write(data)
            datasets.finish(upload, name, UploadFormat("npz"), None)
        except TooManyDatasets:
            upload.discard()
            raise

    with closing(SqliteStore(tmp_path / "store")) as store:
        share = 2**20 / (disk.f_blocks * disk.f_frsize)
        with pytest.raises(TooManyDatasets, match=r"1048576 is their share of the disk \(LIVESVM_DATASETS_SHARE\)"):
            uploaded("inflated", out.getvalue(), datasets_share=share)
        assert list((tmp_path / "datasets").iterdir()) == []
        with pytest.raises(TooManyDatasets, match=r"are kept for updates \(LIVESVM_DISK_ROOM_MB\)"):
            uploaded("any", out.getvalue(), disk_room_mb=2**40)
        assert list((tmp_path / "datasets").iterdir()) == []
        uploaded("one", npz(X=np.eye(100), y=np.ones(100)), datasets_share=share)
        assert store.documents("dataset") == [DocumentName("dataset", "one")]


def test_half_an_upload_is_never_seen(own: ServiceProcess, client: Client) -> None:
    host, port = own.url.removeprefix("http://").split(":")
    head = f"PUT /datasets/half HTTP/1.1\r\nhost: {host}\r\ncontent-type: text/csv\r\ncontent-length: 1000000\r\n\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + TABLE)
        assert client.datasets() == []
    with socket.create_connection((host, int(port))) as connection:  # one that stands still
        connection.sendall(head.encode() + TABLE)
        assert b" 408 " in connection.recv(4096)
    until(lambda: not directories(own), 10)


def test_datasets_outlive_a_kill_and_halves_do_not(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, Client(service.url) as client:
        found = client.put_dataset("t", TABLE, "csv")
        service.kill()
    (tmp_path / "datasets" / "d-half").mkdir()
    (tmp_path / "datasets" / "d-half" / "upload").write_bytes(b"1,2")
    with ServiceProcess(tmp_path) as service, Client(service.url) as client:
        assert client.datasets() == [found]
        assert len(directories(service)) == 1


@pytest.mark.alone(reason="copies the embedded store of one process")
def test_datasets_move_with_the_store(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path / "a") as service, Client(service.url) as client:
        client.put_dataset("t", TABLE, "csv")
    assert main(["store", "copy", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    with ServiceProcess(tmp_path / "b") as service, Client(service.url) as client:
        found = json.loads(service_document(tmp_path / "b"))
        assert client.dataset("t")["sha256"] == found["sha256"]
        assert np.array_equal(Arrays(directories(service)[0], found).X(), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def service_document(place: Path) -> bytes:
    """Return the description of the dataset, as it is stored."""
    with closing(sqlite3.connect(place / "livesvm.sqlite3")) as db:
        data: bytes = db.execute("SELECT data FROM documents").fetchone()[0]
        return data
