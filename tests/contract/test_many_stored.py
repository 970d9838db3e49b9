"""A SQLite store of many models: what is made of them at once is as if it was made one by one; little is read of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from livesvm.service.store.base import Head, Indexed, Lease, StoredModel
from livesvm.service.store.sqlite import SqliteStore
from tests.support.many_stored import fill

COUNT = 2500
STEPS = 1000
"""Of SQLite's virtual machine: a fifth of what one look at every model takes."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "s"
    fill(path, COUNT, str.encode, b"snapshot", lambda id_: b"summary of " + id_.encode(), sequence=3)
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    for ending in ("", "-mark"):
        shutil.copy(f"{filled}{ending}", tmp_path)
    return tmp_path / "s"


def test_what_is_made_at_once_can_be_used_like_any_other(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        found = list(store.index())
        assert found[1234] == Indexed("m001234", 3, b"summary of m001234", 3)
        assert [model.id for model in found] == [f"m{number:06}" for number in range(COUNT)]
        assert {model.damage for model in found} == {""}
        assert store.model("m000007") == StoredModel("m000007", b"m000007")
        assert store.load_snapshot("m000007", 3) == b"snapshot"
        lease = store.acquire("m000007")
        store.append(lease, 4, b"record", None, keep=1)
        assert [snapshot.version for snapshot in store.snapshots("m000007")] == [3]


def test_what_is_made_at_once_is_marked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM models WHERE id = 'm002000'")
        db.execute("UPDATE models SET sequence = 2 WHERE id = 'm000001'")
        db.commit()
    with closing(SqliteStore(path)) as store:
        lost = {found.id: found for found in store.index() if found.damage}
        assert lost.keys() == {"m000001", "m002000"}
        assert "up to record 3, and the database has it up to record 2" in lost["m000001"].damage
        assert lost["m002000"][:4] == ("m002000", 0, b"", 0)
        assert [found.id for found in store.index(["m002000", "m000002"])] == ["m000002", "m002000"]
        assert store.model("m002000") == StoredModel("m002000", b"", lost["m002000"].damage)


def _steps(store: SqliteStore, call: Callable[[], object]) -> int:
    """Return how many steps SQLite takes for a call, in tens."""
    taken = []
    store._database._db.set_progress_handler(lambda: taken.append(1), 10)
    call()
    store._database._db.set_progress_handler(None, 10)
    return 10 * len(taken)


def test_no_call_for_one_model_looks_at_every_model(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        lease = store.acquire("m000007")
        calls: dict[str, Callable[[], object]] = {
            "heads": lambda: store.heads(["m000007", "m002000"]),
            "model": lambda: store.model("m000007"),
            "index": lambda: list(store.index(["m000007"])),
            "acquire": lambda: store.acquire("m000008"),
            "append": lambda: store.append(lease, 4, b"", None, keep=1),
            "save_snapshot": lambda: store.save_snapshot(lease, 4, b"", 1, b"summary"),
            "supersede": lambda: store.supersede(lease, 4, b"", 1, b"summary"),
            "describe": lambda: store.describe(lease, 4, b"summary"),
            "create": lambda: store.create("new", b"spec"),
            "delete": lambda: store.delete(lease),
        }
        assert _steps(store, lambda: list(store.index())) > 5 * STEPS
        assert {name for name, call in calls.items() if _steps(store, call) > STEPS} == set()


def test_a_start_and_an_index_read_neither_specifications_nor_states(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()

    class Watched(sqlite3.Connection):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            self.set_authorizer(self._note)

        @staticmethod
        def _note(action: int, table: str | None, column: str | None, *_: object) -> int:
            if action == sqlite3.SQLITE_READ:
                read.add(f"{table}.{column}")
            return sqlite3.SQLITE_OK

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: real(*given, factory=Watched, **options))
    with closing(SqliteStore(path)) as store:
        assert len(list(store.index())) == COUNT
    columns = {name for name in read if not name.startswith(("sqlite_master", "probe", "epochs"))}
    assert columns == {"models.id", "models.sequence", "models.described", "models.summary"}


def test_heads_of_many_are_those_that_were_asked_for(path: Path) -> None:
    wanted = [f"m{number:06}" for number in range(0, 5000, 2)]
    with closing(SqliteStore(path)) as store:
        lease = store.acquire("m000002")
        heads = store.heads(wanted)
        assert heads.keys() == {*wanted[: COUNT // 2]}
        assert heads["m000002"] == Head(Lease("m000002", lease.epoch, lease.writer), 3)
