"""Moving between stores: everything comes along, or nothing does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from livesvm.service.cli.main import main
from livesvm.service.store.base import DocumentName, Idempotency, Solution, Store
from livesvm.service.store.copy import open_place
from tests.contract.redis_server import RedisServer

DATASET = DocumentName("dataset", "rivers")


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def fill(store: Store) -> None:
    """Store a model with a trimmed log, an aborted record and requests, one without an answer; and an empty one."""
    lease = store.create("m", b"spec")
    for sequence in range(1, 10):
        store.append(lease, sequence, b"%d" % sequence * 50, Idempotency(f"k{sequence}", b"body"), keep=100)
        if sequence != 5:
            store.remember(lease, f"k{sequence}", b"answer %d" % sequence)
        if sequence in (3, 6):
            store.save_snapshot(lease, sequence, b"snapshot %d" % sequence, sequence - 1)
    store.abort(lease, 8)
    store.save_solution(lease, Solution(9, b"solution"))
    store.describe(lease, 7, b"summary")
    store.release(lease)
    store.release(store.create("empty", b"another"))
    store.put_document(DATASET, b"rivers")


def contents(store: Store) -> object:
    return [(at, store.document(at)) for at in store.documents()], [
        (
            model,
            list(store.log(model.id, 0)),
            [(s.sequence, s.version, store.load_snapshot(model.id, s.sequence)) for s in store.snapshots(model.id)],
            store.requests(model.id),
            store.solution(model.id),
            store.heads([model.id])[model.id].sequence,
            [(found.sequence, found.summary, found.described) for found in store.index([model.id])],
        )
        for model in store.models()
    ]


def copy(*places: str | Path, prefix: str) -> int:
    return main(["store", "copy", *map(str, places), "--prefix", prefix, "--patience", "0.3"])


def test_there_and_back_is_the_same(
    redis_server: RedisServer, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        fill(open_place(str(tmp_path / "a"), prefix, stack))
    assert copy(tmp_path / "a", redis_server.url, prefix=prefix) == 0
    assert "m: up to record 9; 6 records, 2 snapshots, 8 requests" in capsys.readouterr().out
    assert copy(redis_server.url, tmp_path / "b", prefix=prefix) == 0
    with ExitStack() as stack:
        found = [contents(open_place(place, prefix, stack)) for place in (str(tmp_path / "a"), str(tmp_path / "b"))]
        found.append(contents(open_place(redis_server.url, prefix, stack)))
    assert found[0] == found[1] == found[2]


def test_a_model_that_is_there_is_not_replaced(
    prefix: str, tmp_path: Path, opened: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, spec in (("a", b"new"), ("b", b"old")):
        with ExitStack() as stack:
            open_place(str(tmp_path / name), prefix, stack).create("m", spec)
    assert copy(tmp_path / "a", tmp_path / "b", prefix=prefix) == 1
    assert "model m is stored already" in capsys.readouterr().err
    assert open_place(str(tmp_path / "b"), prefix, opened).models()[0].spec == b"old"


def test_a_document_that_is_there_is_not_replaced(
    prefix: str, tmp_path: Path, opened: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in (("a", b"new"), ("b", b"old")):
        with ExitStack() as stack:
            open_place(str(tmp_path / name), prefix, stack).put_document(DATASET, data)
    assert copy(tmp_path / "a", tmp_path / "b", prefix=prefix) == 1
    assert "another dataset rivers is stored already" in capsys.readouterr().err
    assert open_place(str(tmp_path / "b"), prefix, opened).document(DATASET) == b"old"


def fill_and_damage(place: Path, prefix: str, statement: str) -> None:
    """Store a database with a model, and damage it by one statement."""
    with ExitStack() as stack:
        fill(open_place(str(place), prefix, stack))
    with closing(sqlite3.connect(place / "livesvm.sqlite3")) as db:
        db.execute(statement)
        db.commit()


def test_a_damaged_model_is_not_copied(prefix: str, tmp_path: Path, opened: ExitStack) -> None:
    fill_and_damage(tmp_path / "a", prefix, "UPDATE snapshots SET data = x'00' WHERE sequence = 6")
    assert copy(tmp_path / "a", tmp_path / "b", prefix=prefix) == 1
    assert [model.id for model in open_place(str(tmp_path / "b"), prefix, opened).models()] == ["empty"]


def test_a_damaged_solution_is_left_behind(prefix: str, tmp_path: Path, opened: ExitStack) -> None:
    fill_and_damage(tmp_path / "a", prefix, "UPDATE solutions SET sequence = 8")
    assert copy(tmp_path / "a", tmp_path / "b", prefix=prefix) == 0
    assert open_place(str(tmp_path / "b"), prefix, opened).solution("m") is None


def test_a_directory_without_a_store_is_not_copied(
    prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert copy(tmp_path / "mistyped", tmp_path / "b", prefix=prefix) == 1
    assert f"there is no store in {tmp_path / 'mistyped'}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_a_service_holds_is_left_alone(
    redis_server: RedisServer, prefix: str, tmp_path: Path, opened: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    open_place(str(tmp_path / "a"), prefix, opened)
    assert copy(tmp_path / "a", tmp_path / "b", prefix=prefix) == 1
    assert "in use by process" in capsys.readouterr().err
    open_place(redis_server.url, prefix, opened).create("m", b"")
    assert copy(redis_server.url, tmp_path / "b", prefix=prefix) == 1
    assert "held by another service" in capsys.readouterr().err


def test_a_place_of_another_kind_is_refused(prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy("http://example.org", tmp_path / "b", prefix=prefix) == 1
    assert "begins with one of" in capsys.readouterr().err
