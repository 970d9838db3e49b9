"""Damage to the embedded store's write-ahead log: what it takes of what was acknowledged is noticed, in every place."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from livesvm.service.history.writeback import put, take
from livesvm.service.store import sqlite_marks
from livesvm.service.store.base import DocumentName, Idempotency, Lease, ModelGone, StoreDamaged, StoreUnavailable
from livesvm.service.store.copy import copy_models
from livesvm.service.store.sqlite import SqliteStore
from livesvm.service.store.sqlite_marks import new_marks, read_marks
from livesvm.service.store.sqlite_wal import Walk, walk

UPDATES = 30
MODELS = ("a", "b")
FRAME, HEADER = 4096 + 24, 32
Damage = Callable[[bytes, int], bytes]


def _fill(store: SqliteStore, models: tuple[str, ...] = MODELS) -> dict[str, Lease]:
    leases = {}
    for model in models:
        leases[model] = store.create(model, b"spec")
        for sequence in range(1, UPDATES + 1):
            named = Idempotency(f"request {sequence}", b"body")
            store.append(leases[model], sequence, _record(model, sequence), named, keep=1000)
    return leases


def _record(model: str, sequence: int) -> bytes:
    return f"{model} {sequence} ".encode() * 100


def _killed(store_at: Path, to: Path) -> Path:
    """Copy what a killed process leaves on the disk."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for ending in ("", "-wal", "-mark"):
        shutil.copy(store_at.with_name(f"s{ending}"), to)
    return to / "s"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed store of two models with 30 updates each."""
    path = tmp_path_factory.mktemp("store")
    with closing(SqliteStore(path / "s")) as store:
        _fill(store)
        return _killed(path / "s", path / "killed")


def _refuse(*_: object) -> None:
    raise OSError("the disk broke")


def _flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


def _zero(data: bytes, place: int) -> bytes:
    begin = max(0, place // 4096 * 4096)
    return data[:begin] + bytes(len(data[begin : begin + 4096])) + data[begin + 4096 :]


def _cut(data: bytes, place: int) -> bytes:
    return data[:place]


def _is_whole(store: SqliteStore, model: str) -> bool:
    return [record.data for record in store.log(model, 0)] == [_record(model, n) for n in range(1, UPDATES + 1)]


def _check_noticed(path: Path) -> bool:
    """Return whether something is said to be lost; what is not is whole, also at the next start."""
    said = []
    for _ in range(2):
        try:
            store = SqliteStore(path)
        except StoreDamaged:
            return True
        with closing(store):
            stored = {found.id: found for found in store.models()}
            assert set(stored) == set(MODELS)
            assert all(found.damage or _is_whole(store, id_) for id_, found in stored.items())
            said.append({id_: found.damage for id_, found in stored.items()})
    assert said[0] == said[1]
    return any(said[0].values())


@pytest.mark.parametrize("damage", [_flip, _zero, _cut])
def test_damage_in_any_place_of_the_log_is_noticed(damage: Damage, killed: Path, tmp_path: Path) -> None:
    log = killed.with_name("s-wal").read_bytes()
    frames = range((len(log) - HEADER) // FRAME)[:: len(log) // FRAME // 7]
    inside = [HEADER + FRAME * frame + (5, 20, 2000)[frame % 3] for frame in frames]
    noticed = []
    for place in [0, 10, 20, 30, len(log) // 2, *inside, len(log) - 1]:
        path = _killed(killed, tmp_path / "again")
        path.with_name("s-wal").write_bytes(damage(log, place))
        noticed.append(_check_noticed(path))
        copies = list(path.parent.glob("s-damaged-*"))
        if path.with_name("s-wal").exists():
            assert all((copy / "s-wal").read_bytes() == damage(log, place) for copy in copies)
    assert all(noticed)


def test_only_what_is_concerned_is_refused_and_the_rest_goes_on(
    killed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _killed(killed, tmp_path / "again")
    log = path.with_name("s-wal").read_bytes()
    path.with_name("s-wal").write_bytes(_flip(log, len(log) * 3 // 4))
    with closing(SqliteStore(path)) as store:
        whole, lost = store.models()
        assert (whole.damage, lost.id) == ("", "b")
        assert "it was acknowledged up to record 30, and the database has it up to record" in lost.damage
        assert "does not match its checksum" in caplog.text
        (copy,) = path.parent.glob("s-damaged-*")
        assert (copy / "s-wal").read_bytes() == _flip(log, len(log) * 3 // 4)
        assert copy.name in store.wipe(wholly=True)["copies of a damaged database"]
        with (
            closing(SqliteStore(tmp_path / "other")) as other,
            pytest.raises(StoreDamaged, match="it was acknowledged up to record 30"),
        ):
            copy_models(store, other, 1.0, lambda _: None)
        store.append(store.acquire("a"), UPDATES + 1, b"more", None, keep=1)
        store.delete(store.acquire("b"))
        assert [found.id for found in store.models()] == ["a"]
    with closing(SqliteStore(path)) as store:
        assert [(found.id, found.damage) for found in store.models()] == [("a", "")]
        assert store.heads(["a"])["a"].sequence == UPDATES + 1


def test_a_model_that_is_wholly_lost_is_listed_until_it_is_deleted(killed: Path, tmp_path: Path) -> None:
    path = _killed(killed, tmp_path / "again")
    path.with_name("s-wal").unlink()
    for _ in range(2):
        with closing(SqliteStore(path)) as store:
            assert [found.id for found in store.models()] == ["a", "b"]
            assert all("the database does not have it" in found.damage for found in store.models())
    with closing(SqliteStore(path)) as store:
        for model in MODELS:
            with pytest.raises(ModelGone):
                store.delete(store.acquire(model))
        assert store.models() == []
        store.create("a", b"spec")
    with closing(SqliteStore(path)) as store:
        assert [(found.id, found.damage) for found in store.models()] == [("a", "")]


def test_a_model_that_is_lost_can_be_put_back(killed: Path, tmp_path: Path) -> None:
    path = _killed(killed, tmp_path / "again")
    path.with_name("s-wal").unlink()
    with closing(SqliteStore(path)) as store:
        put(store, take(store, "a", b"spec", UPDATES), (UPDATES, b"snapshot", UPDATES))
        assert [bool(found.damage) for found in store.models()] == [False, True]
        store.create("b", b"spec", UPDATES)
        assert [bool(found.damage) for found in store.models()] == [False, False]
    with closing(SqliteStore(path)) as store:
        assert [bool(found.damage) for found in store.models()] == [False, False]
        assert store.load_snapshot("a", UPDATES) == b"snapshot"


def test_marks_of_what_was_deleted_stay_until_the_disk_takes_that_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = tmp_path / "s-mark"
    with closing(SqliteStore(tmp_path / "s")) as store:
        lease = store.create("m", b"spec")
        store.delete(store.create("gone", b"spec"))
        for call in ("pwrite", "fsync"):
            with monkeypatch.context() as full:
                full.setattr(os, call, _refuse)
                with pytest.raises(StoreUnavailable):
                    store.wipe(wholly=False)
            assert (b"gone" in marks.read_bytes()) == (call == "pwrite")
        store.wipe(wholly=False)
        store.append(lease, 1, b"data", None, keep=1)
        size = marks.stat().st_size
        store.create("another", b"spec")
        assert marks.stat().st_size == size
        cut = _cut_after(tmp_path, 0)
    with closing(SqliteStore(cut)) as store:
        another, m = store.models()
        assert "the database does not have it" in another.damage
        assert "up to record 1, and the database has it up to record 0" in m.damage


def test_without_the_marks_it_goes_on_with_what_there_is(killed: Path, tmp_path: Path) -> None:
    path = _killed(killed, tmp_path / "again")
    log = path.with_name("s-wal").read_bytes()
    path.with_name("s-wal").write_bytes(_flip(log, len(log) * 3 // 4))
    SqliteStore(path).close()
    path.with_name("s-mark").unlink()
    with closing(SqliteStore(path)) as store:
        assert [found.damage for found in store.models()] == ["", ""]
        assert 0 < store.heads(["b"])["b"].sequence < UPDATES


def test_a_log_without_marks_is_refused_where_transactions_follow_its_damage(killed: Path, tmp_path: Path) -> None:
    path = _killed(killed, tmp_path / "again")
    wal = path.with_name("s-wal")
    log = wal.read_bytes()
    path.with_name("s-mark").unlink()
    wal.write_bytes(_flip(log, len(log) // 2))
    with pytest.raises(StoreDamaged, match=r"frame \d+ does not match its checksum, and \d+ whole transactions follow"):
        SqliteStore(path)
    assert wal.read_bytes() == _flip(log, len(log) // 2)


def test_a_torn_last_transaction_is_harmless(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store:
        leases = _fill(store)
        whole = len((tmp_path / "s-wal").read_bytes())
        acknowledged = (tmp_path / "s-mark").read_bytes()
        store.append(leases["a"], UPDATES + 1, b"not acknowledged" * 1000, None, keep=1)
        log = (tmp_path / "s-wal").read_bytes()
        for place in range(whole + 4096, len(log), 5000):
            for torn in (_flip(log, place), _zero(log, place), log[:place]):
                path = _killed(tmp_path / "s", tmp_path / "again")
                path.with_name("s-wal").write_bytes(torn)
                assert walk(path.with_name("s-wal")).behind == 0
                path.with_name("s-mark").write_bytes(acknowledged)
                assert not _check_noticed(path)
                assert not list(path.parent.glob("s-damaged-*"))


def test_lost_deletions_and_documents_are_noticed(tmp_path: Path) -> None:
    at = DocumentName("receipt", "r")
    with closing(SqliteStore(tmp_path / "s")) as store:
        leases = _fill(store)
        before = len((tmp_path / "s-wal").read_bytes())
        store.delete(leases["a"])
        with closing(SqliteStore(_cut_after(tmp_path, before))) as found:
            a, b = found.models()
            assert "it was deleted, and the database has lost that" in a.damage
            assert b.damage == ""
            found.delete(found.acquire("a"))
            assert [stored.id for stored in found.models()] == ["b"]
        again = store.create("a", b"spec")
        store.append(again, 1, b"another", None, keep=1)
        with closing(SqliteStore(_cut_after(tmp_path, before))) as found:
            assert [bool(stored.damage) for stored in found.models()] == [True, False]
        store.put_document(at, b"kept")
        store.delete_document(at)
        for end in (before, len((tmp_path / "s-wal").read_bytes()) - 1):
            with pytest.raises(StoreDamaged, match="receipts and traces of erasures, were acknowledged and are lost"):
                SqliteStore(_cut_after(tmp_path, end))


def test_marks_are_never_ahead_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sync refused may be there, or not: neither is a loss."""
    at = DocumentName("receipt", "r")
    with closing(SqliteStore(tmp_path / "s")) as store:
        leases = _fill(store)
        on_disk = len((tmp_path / "s-wal").read_bytes())

        monkeypatch.setattr(os, "fdatasync", _refuse)
        monkeypatch.setattr(store._database, "_check_place", lambda: None)  # which would have the disk take all again
        for change in (
            lambda: store.append(leases["a"], UPDATES + 1, b"more", None, keep=1),
            lambda: store.supersede(leases["a"], UPDATES + 1, b"snapshot", 1),
            lambda: store.create("c", b"spec"),
            lambda: store.put_document(at, b"kept"),
            lambda: store.delete(leases["b"]),
        ):
            with pytest.raises(StoreUnavailable):
                change()
            for end in (on_disk, None):
                with closing(SqliteStore(_cut_after(tmp_path, end))) as found:
                    assert not any(stored.damage for stored in found.models())
        monkeypatch.undo()


def test_marks_of_many_models_are_as_if_each_had_been_told_alone(tmp_path: Path) -> None:
    said = []
    for name in ("one by one", "together"):
        marks = new_marks(tmp_path / name)
        marks.write()
        for number in range(9):
            marks.created(f"m{number}", number, number)
        reached = {f"m{number}": 10 * number for number in (1, 2, 3, 6, 0, 8)}
        if name == "together":
            marks.reached_all(reached)
        else:
            for model, sequence in reached.items():
                marks.reached(model, sequence)
        marks.close()
        said.append((tmp_path / f"{name}-mark").read_bytes())
    assert said[0] == said[1]


def test_a_ping_has_new_marks_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(tmp_path / "s", probe_seconds=0)) as store:
        lease = store.create("m", b"spec")
        store.ping()
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
        store.append(lease, 1, b"data", None, keep=1)
        assert synced == []
        store.ping()
        store.ping()
        assert synced == [(tmp_path / "s-mark").stat().st_ino]


def _cut_after(path: Path, size: int | None) -> Path:
    cut = _killed(path / "s", path / "cut")
    wal = cut.with_name("s-wal")
    wal.write_bytes(wal.read_bytes()[:size])
    return cut


def test_damage_to_the_marks_themselves_is_said_and_loses_nothing(
    killed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = killed.with_name("s-mark").read_bytes()
    for place in range(0, len(data), 50):
        path = _killed(killed, tmp_path / "again")
        path.with_name("s-mark").write_bytes(_flip(data, place))
        marks = read_marks(path)
        assert marks is not None
        assert not marks.is_exact  # what the damaged one said may have been acknowledged
        caplog.clear()
        assert not _check_noticed(path)
        assert "1 of 3 marks" in caplog.text
    path = _killed(killed, tmp_path / "again")
    path.with_name("s-mark").write_bytes(b"")
    assert not _check_noticed(path)


def test_after_another_boot_a_torn_log_is_said_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Marks of the last seconds before a loss of power may be missing."""
    with closing(SqliteStore(tmp_path / "s")) as store:
        leases = _fill(store)
        before, marks = len((tmp_path / "s-wal").read_bytes()), (tmp_path / "s-mark").read_bytes()
        for sequence in range(UPDATES + 1, UPDATES + 4):
            store.append(leases["a"], sequence, b"", None, keep=1)
        path = _killed(tmp_path / "s", tmp_path / "again")
    path.with_name("s-mark").write_bytes(marks)
    path.with_name("s-wal").write_bytes(_flip(path.with_name("s-wal").read_bytes(), before + 2000))
    monkeypatch.setattr(sqlite_marks, "_this_boot", lambda: "another")
    assert not _check_noticed(path)
    assert "the write-ahead log of" in caplog.text
    assert len(list(path.parent.glob("s-damaged-*"))) == 1


def test_an_older_record_that_is_on_the_disk_later_takes_nothing_back(tmp_path: Path) -> None:
    marks = new_marks(tmp_path / "s")
    marks.write()
    marks.created("m", 0, 1)
    for sequence in (7, 5):
        marks.reached("m", sequence)
    marks.close()
    found = read_marks(tmp_path / "s")
    assert found is not None
    assert found.compare({b"m": 6}, 1) == ["m"]
    found.reached("m", 6)
    assert found.lost == ["m"]


def test_marks_that_could_not_be_synced_are_synced_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = new_marks(tmp_path / "s")
    marks.write()
    marks.created("m", 0, 1)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", _refuse)
        with pytest.raises(OSError, match="the disk broke"):
            marks.sync()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    marks.sync()
    marks.sync()
    marks.close()
    assert len(synced) == 1


def test_a_sound_log_is_walked_to_its_end(killed: Path) -> None:
    log = killed.with_name("s-wal")
    assert walk(log) == Walk((log.stat().st_size - HEADER) // FRAME, 0)
    assert walk(log.with_name("none")) == Walk()


def test_frames_behind_one_that_does_not_match_are_not_good_whatever_they_are(killed: Path, tmp_path: Path) -> None:
    """SQLite reads no further, though the checksums of the frames behind a damaged checksum match."""
    path = _killed(killed, tmp_path / "again").with_name("s-wal")
    log = path.read_bytes()
    path.write_bytes(_flip(log, HEADER + 10 * FRAME + 20))
    found = walk(path)
    assert found.frames == 10
    assert found.behind > 0


def test_what_is_left_of_an_earlier_log_is_no_damage(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (x)")
        for _ in range(30):
            db.execute("INSERT INTO t VALUES (?)", (b"long" * 1000,))
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        db.execute("INSERT INTO t VALUES (1)")
        log = tmp_path / "s-wal"
        frames = walk(log).frames
        assert 0 < frames < (log.stat().st_size - HEADER) // FRAME // 2
        assert walk(log).behind == 0


def test_an_older_change_of_documents_takes_nothing_back(tmp_path: Path) -> None:
    marks = new_marks(tmp_path / "s")
    for epoch in (5, 3):
        marks.documents_changed(epoch)
    assert marks.compare({}, 5) == []
    with pytest.raises(StoreDamaged, match="receipts and traces of erasures"):
        marks.compare({}, 4)


@pytest.mark.parametrize("has_marks", [False, True])
def test_a_start_marks_what_it_finds(has_marks: bool, tmp_path: Path) -> None:
    path, marks = tmp_path / "s", tmp_path / "s-mark"
    with closing(SqliteStore(path)) as store:
        lease = store.create("m", b"spec")
        older = marks.read_bytes()
        store.append(lease, 1, b"data", None, keep=1)
    marks.write_bytes(older) if has_marks else marks.unlink()
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE models SET sequence = 0")
        db.commit()
    with closing(SqliteStore(path)) as store:
        (found,) = store.index()
        assert "up to record 1, and the database has it up to record 0" in found.damage


def test_what_is_lost_of_a_long_name_is_said_of_it_alone(tmp_path: Path) -> None:
    lost, other = ("fleet/" + "~E2" * 1000 + end for end in "ab")
    with closing(SqliteStore(tmp_path / "s")) as store:
        for name in (lost, other):
            store.append(store.create(name, b"spec"), 1, b"data", None, keep=1)
    with closing(sqlite3.connect(tmp_path / "s")) as db, db:
        db.execute("DELETE FROM models WHERE id = ?", (lost,))
    with closing(SqliteStore(tmp_path / "s")) as store:
        found = store.model(lost)
        assert found is not None
        assert "acknowledged up to record 1" in found.damage
        assert [one.id for one in store.models() if not one.damage] == [other]
        assert len(store.models()) == 2
        with pytest.raises(ModelGone):
            store.delete(store.acquire(lost))
        assert store.model(lost) is None
        assert [one.id for one in store.models()] == [other]
    with closing(SqliteStore(tmp_path / "s")) as store:
        assert [(one.id, one.damage) for one in store.models()] == [(other, "")]
