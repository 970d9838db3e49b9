"""One database that is made into shares: everything comes along, whenever that is cut off."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.lifecycle.backup import back_up, restore
from livesvm.service.store import shares, sqlite_divide
from livesvm.service.store.base import ERASED, DocumentName, StoreDamaged, StoreTooNew
from livesvm.service.store.shares import SHARES, open_embedded, open_main, share_of
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_database import PROBE_SECONDS
from livesvm.service.store.sqlite_schema import SCHEMA
from tests.contract.test_copy import DATASET, contents, fill

LEFT, FEED = DocumentName(ERASED, "m"), "feed.f"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many shares as a test needs."""
    monkeypatch.setattr(shares, "COUNT", 3)
    monkeypatch.setattr(shares, "_NAMES", ["00.sqlite3", "01.sqlite3", "02.sqlite3"])


def filled(place: Path) -> object:
    """Return a database with models, a feed, and documents of both kinds; what it holds."""
    with closing(SqliteStore(place / DATABASE)) as store:
        fill(store)
        store.create(FEED, b"feed")
        store.put_document(LEFT, b"left")
        return contents(store)


def divided(place: Path) -> None:
    open_main(place, is_to_be_divided=True).close()


def reopened(place: Path) -> object:
    with closing(open_embedded(place)) as store:
        return contents(store)


def test_what_one_database_held_is_in_shares_and_documents_of_models_with_them(tmp_path: Path) -> None:
    before = filled(tmp_path)
    divided(tmp_path)
    assert reopened(tmp_path) == before
    divided(tmp_path)
    with closing(open_embedded(tmp_path)) as store:
        assert contents(store) == before
        epochs = {model: head.lease.epoch for model, head in store.heads(["m", "empty", FEED]).items()}
        assert all(store.acquire(model).epoch > epoch for model, epoch in epochs.items())
        assert store.delete_document(LEFT)
        store.delete(store.acquire("m"))
    with closing(SqliteStore(tmp_path / DATABASE)) as main, closing(share(tmp_path, FEED)) as part:
        assert (main.models(), [found.id for found in part.models() if found.id == FEED]) == ([], [FEED])
    assert [found.id for found in opened_models(tmp_path)] == ["empty", FEED]


def opened_models(place: Path) -> Any:
    with closing(open_embedded(place)) as store:
        return store.models()


def share(place: Path, model: str) -> SqliteStore:
    return SqliteStore(place / SHARES / f"{share_of(model):02}.sqlite3")


@pytest.mark.parametrize("where", ["put_in_place", "_empty", "mark_divided", "copy_log"])
def test_a_division_that_is_cut_off_is_done_at_the_next_start(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled(tmp_path)
    with monkeypatch.context() as cut:
        cut.setattr(sqlite_divide, where, _die)
        with pytest.raises(KeyboardInterrupt):
            divided(tmp_path)
    assert reopened(tmp_path) == before  # in one database, or in shares
    divided(tmp_path)
    assert reopened(tmp_path) == before


def _die(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_what_is_known_to_be_lost_stays_so(tmp_path: Path) -> None:
    filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db, db:
        db.execute("DELETE FROM models WHERE id = 'empty'")
        db.execute("UPDATE models SET sequence = 8 WHERE id = 'm'")
    divided(tmp_path)
    for _ in range(2):
        assert [bool(found.damage) for found in opened_models(tmp_path)] == [True, False, True]


@pytest.mark.parametrize("gone", [SHARES, f"{SHARES}/01.sqlite3", DATABASE])
def test_shares_or_databases_that_are_gone_are_no_empty_store(gone: str, tmp_path: Path) -> None:
    filled(tmp_path)
    divided(tmp_path)
    for path in tmp_path.glob(f"{gone}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StoreDamaged, match="restore a backup"):
        open_embedded(tmp_path)


def test_a_database_beside_shares_of_others_is_not_emptied(tmp_path: Path) -> None:
    filled(tmp_path)
    shutil.copytree(tmp_path, tmp_path / "before")
    with closing(SqliteStore(tmp_path / DATABASE)) as store:
        store.create("later", b"")
    divided(tmp_path)
    for path in (tmp_path / "before").iterdir():
        shutil.copy(path, tmp_path / path.name)
    with pytest.raises(StoreDamaged, match="different models"):
        open_embedded(tmp_path)
    with closing(SqliteStore(tmp_path / DATABASE)) as store:
        assert [found.id for found in store.models()] == ["empty", FEED, "m"]


def test_a_version_that_knows_no_shares_refuses_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    divided(tmp_path)
    monkeypatch.setattr("livesvm.service.store.sqlite_schema.DIVIDED", SCHEMA)  # as versions before
    with pytest.raises(StoreTooNew, match=f"schema {SCHEMA + 1}; this version reads up to {SCHEMA}"):
        SqliteStore(tmp_path / DATABASE)


def test_what_is_refused_in_one_share_is_asked_of_that_one_and_rest_wears_the_disk_as_one_does(tmp_path: Path) -> None:
    asked = list[str]()

    class Part:
        """A database that a test has in some state."""

        def __init__(self, name: str, is_troubled: bool) -> None:
            self.name, self.is_troubled = name, is_troubled

        def ping(self) -> None:
            asked.append(self.name)

        def sync_marks(self) -> None:
            asked.append(f"marks of {self.name}")

    rounds = shares.Rounds([Part("a", False), Part("b", False), Part("c", True)])  # type: ignore[list-item]
    rounds.ping()
    assert asked == ["a", "c"]
    rounds._since -= PROBE_SECONDS
    rounds.ping()
    assert asked[2:] == ["marks of a", "b", "c"]


def test_a_backup_has_every_share(tmp_path: Path) -> None:
    filled(tmp_path)
    divided(tmp_path)
    with closing(open_embedded(tmp_path)) as store:
        store.delete_document(DATASET)  # which has no files here
        before = contents(store)
    back_up(tmp_path, tmp_path / "kept")
    restore(tmp_path / "kept", tmp_path / "again")
    assert reopened(tmp_path / "again") == before
    with pytest.raises(ValueError, match="shares already"):
        restore(tmp_path / "kept", tmp_path / "again")
