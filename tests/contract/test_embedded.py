"""A data directory that an earlier version has divided among processes: its first start loses nothing of it."""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.lifecycle.backup import back_up, restore
from livesvm.service.store import embedded
from livesvm.service.store.base import StoreDamaged, StoreUnavailable
from livesvm.service.store.embedded import NAMES, SHARES, open_embedded
from livesvm.service.store.lock import DirectoryLock
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_file import damaged_copies
from tests.contract.test_copy import contents
from tests.service.process import ServiceProcess

DIVIDED = Path(__file__).parents[1] / "support" / "divided.tar.xz"
"""What a service of commit 0b8a5a37 with two workers had when it was killed: three models, a feed and an erasure."""


FULL = [f"{number:02}.sqlite3" for number in (1, 7, 11, 25, 43, 46)]


def unpacked(into: Path) -> Path:
    with tarfile.open(DIVIDED) as packed:
        packed.extractall(into, filter="data")
    return into / "divided"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With few of the shares besides those that hold something."""
    monkeypatch.setattr(embedded, "NAMES", FULL)
    found = unpacked(tmp_path)
    for name in {*NAMES} - {*FULL}:
        for path in (found / SHARES).glob(f"{name}*"):
            path.unlink()
    return found


def held(place: Path) -> Any:
    """Return what the databases of a divided store hold together."""
    documents, models = [], []
    for file in (DATABASE, *(f"{SHARES}/{name}" for name in FULL)):
        with closing(SqliteStore(place / file)) as store:
            some: Any = contents(store)
            documents += some[0]
            models += some[1]
    return sorted(documents), sorted(models, key=lambda model: model[0].id)


def opened(place: Path) -> Any:
    with closing(open_embedded(place)) as store:
        return contents(store)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return held(unpacked(tmp_path_factory.mktemp("before")))


def test_all_of_it_is_in_one_database(place: Path, before: Any) -> None:
    assert [model[0].id for model in before[1]] == ["feed.level", "meter", "price", "river"]
    assert [len(model[3]) for model in before[1]] == [1, 2, 3, 3]  # requests, without one of the row that was erased
    with closing(open_embedded(place)) as store:
        assert contents(store) == before
        assert not any(found.damage for found in store.index())
        epochs = {model: head.lease.epoch for model, head in store.heads(["meter", "price", "feed.level"]).items()}
        assert all(store.acquire(model).epoch > max(epochs.values()) for model in epochs)
    assert {path.name for path in place.iterdir()} == {DATABASE, f"{DATABASE}-mark", "holder"}
    assert opened(place) == before


def test_a_service_goes_on_with_it(tmp_path: Path) -> None:
    with ServiceProcess(unpacked(tmp_path)) as service, service.http() as http:
        found = [http.get(f"/models/{id_}").json() for id_ in ("meter", "price", "river")]
        assert [(model["version"], model["n_examples"]) for model in found] == [(4, 5), (3, 6), (3, 6)]
        assert http.get("/feeds/level").json()["rows"] == 20
        update = {"add": {"X": [[0.0, 3.0], [1.0, -2.0]], "y": [1, -1], "keys": ["2a", "2b"]}}
        again = http.post("/models/river/update", json=update, headers={"Idempotency-Key": "river-2"})
        assert (again.json()["version"], again.headers["idempotent-replayed"]) == (3, "true")
        assert len(http.get("/receipts").json()["receipts"]) == 1


@pytest.mark.parametrize("where", ["_take", "mark_joined", "copy_log", "join_marks", "put_in_place", "shutil.rmtree"])
def test_what_is_cut_off_is_done_at_the_next_start(
    where: str, place: Path, before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(f"{embedded.__name__}.{where}", _die)
        with pytest.raises(KeyboardInterrupt):
            opened(place)
    assert opened(place) == before
    assert {path.name for path in place.iterdir()} == {DATABASE, f"{DATABASE}-mark", "holder"}


def _die(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_what_was_known_to_be_lost_stays_so(place: Path) -> None:
    (place / SHARES / "07.sqlite3-damaged-ab").mkdir()
    for name in FULL:
        with closing(sqlite3.connect(place / SHARES / name)) as db, db:
            db.execute("DELETE FROM models WHERE id = 'meter'")
            db.execute("UPDATE models SET sequence = 1 WHERE id = 'price'")
    for _ in range(2):
        with closing(open_embedded(place)) as store:
            lost = {found.id for found in store.index() if found.damage}
        assert lost == {"meter", "price"}
    assert [copy.name for copy in damaged_copies(place / DATABASE)] == [f"{DATABASE}-damaged-07.sqlite3-damaged-ab"]


@pytest.mark.parametrize("gone", [SHARES, f"{SHARES}/01.sqlite3", DATABASE])
def test_a_part_that_is_gone_is_no_empty_store(gone: str, place: Path) -> None:
    for path in place.glob(f"{gone}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StoreDamaged, match=r"has lost .*: restore a backup"):
        open_embedded(place)


def test_a_database_beside_shares_of_others_is_not_replaced(place: Path, before: Any) -> None:
    shutil.copytree(place / SHARES, place / "kept")
    with closing(open_embedded(place)) as store:
        store.create("later", b"")
    (place / "kept").rename(place / SHARES)
    with pytest.raises(StoreDamaged, match="different models"):
        open_embedded(place)
    assert held(place)[1]


def test_a_share_that_cannot_be_read_keeps_all_as_it_is(place: Path, before: Any) -> None:
    whole = (place / SHARES / "07.sqlite3").read_bytes()
    (place / SHARES / "07.sqlite3").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(StoreDamaged, match=r"07\.sqlite3"):
        open_embedded(place)
    (place / SHARES / "07.sqlite3").write_bytes(whole)
    assert opened(place) == before


def test_backups_of_either_version_are_whole(place: Path, before: Any, tmp_path: Path) -> None:
    """An earlier version is at work in a directory that is locked: this one cannot copy its shares as one."""
    lock = DirectoryLock(place)
    with pytest.raises(StoreUnavailable, match="earlier version"):
        back_up(place, tmp_path / "kept")
    lock.release()
    back_up(place, tmp_path / "kept")
    restore(tmp_path / "kept", tmp_path / "again")
    assert opened(tmp_path / "again") == before
