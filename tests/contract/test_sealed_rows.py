"""Every bit of a row of the embedded store, in the file and column by column: flipped, it is noticed."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from livesvm.service.history.journal import Source
from livesvm.service.history.recovery import Means, Recovered, recover
from livesvm.service.history.replay import Patience
from livesvm.service.models.state import ModelState
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.store.base import StoreDamaged
from livesvm.service.store.sqlite import SqliteStore
from tests.support.damage import RECORDS, SNAPSHOTS, SPEC, fill

BEFORE_DATA = {"snapshots": 14, "log": 12}
"""Bytes of a row in the file before its blob: its length, its number, the types of its columns, its key."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of one file, with a model of one feature in it."""
    with closing(SqliteStore(tmp_path / "store")) as store:
        fill(store, 2, 1)
    return tmp_path / "store"


METRICS = Metrics()
TURNS = SolveScheduler(1)


def back(path: Path) -> Recovered[ModelState]:
    """Return the model of another process; raises StoreDamaged."""
    with closing(SqliteStore(path)) as store:
        source = Source(store, Health(METRICS), METRICS)
        return recover(source, store.acquire("m"), SPEC, Means(16, TURNS, Patience.at_last(60)))


def is_noticed(path: Path) -> bool:
    """Return whether damage is reported; what comes back all the same is whole."""
    try:
        found = back(path)
    except StoreDamaged:
        return True
    assert found.state.version == found.state.sequence == RECORDS
    return found.damaged_snapshots > 0


def flips(file: bytes, table: str, data: bytes, seal: bytes) -> Iterator[tuple[int, int]]:
    """Yield places and bits of a row in the file: every bit before its blob, then one bit of each byte.

    Of the blob itself one in 31 bytes will do, as ``test_damage`` flips them all.
    """
    start, end = file.index(data), file.index(data) + len(data)
    for place in range(start - BEFORE_DATA[table], file.index(seal) + len(seal)):
        if place < start:
            yield from ((place, bit) for bit in range(8))
        elif place >= end or place % 31 == 0:
            yield place, place % 8


@pytest.mark.parametrize(("table", "sequence"), [("snapshots", SNAPSHOTS[1]), ("log", RECORDS)])
def test_every_bit_of_a_row_in_the_file(path: Path, table: str, sequence: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        data, seal = db.execute(f"SELECT data, seal FROM {table} WHERE sequence = {sequence}").fetchone()
    file = path.read_bytes()
    for place, bit in flips(file, table, data, seal):
        path.write_bytes(file[:place] + bytes([file[place] ^ 1 << bit]) + file[place + 1 :])
        assert is_noticed(path), f"bit {bit} of byte {place - file.index(data)} from the blob"
    path.write_bytes(file)
    assert not is_noticed(path)


@pytest.mark.parametrize("column", ["sequence", "version", "saved", "seal"])
def test_every_bit_of_a_column_of_a_snapshot(path: Path, column: str) -> None:
    where = f"WHERE model = 'm' AND sequence = {SNAPSHOTS[1]}"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        rowid, value = db.execute(f"SELECT rowid, {column} FROM snapshots {where}").fetchone()
        for flipped in flipped_values(value):
            db.execute(f"UPDATE snapshots SET {column} = ? WHERE rowid = ?", (flipped, rowid))
            assert is_noticed(path), flipped
        db.execute(f"UPDATE snapshots SET {column} = ? WHERE rowid = ?", (value, rowid))
    assert not is_noticed(path)


def flipped_values(value: int | float | bytes) -> Iterator[int | float | bytes]:
    """Yield the value with one bit flipped, for each of its bits; of a blob, one bit of each byte."""
    if isinstance(value, bytes):
        for place in range(len(value)):
            yield value[:place] + bytes([value[place] ^ 1 << place % 8]) + value[place + 1 :]
        return
    form = "<d" if isinstance(value, float) else "<q"
    (bits,) = struct.unpack("<Q", struct.pack(form, value))
    for bit in range(64):
        (flipped,) = struct.unpack(form, struct.pack("<Q", bits ^ 1 << bit))
        if flipped == flipped:  # a NaN is stored as NULL, which the table refuses
            yield flipped


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE snapshots SET model = 'n' WHERE sequence = 4", "a snapshot of another model"),
        ("DELETE FROM snapshots WHERE sequence = 4", "no newest snapshot"),
        ("UPDATE models SET kept = '6 2'", "a snapshot that never was"),
        ("UPDATE log SET aborted = 1 WHERE sequence = 5", "an update taken back"),
        ("UPDATE log SET sequence = 6 WHERE sequence = 5", "a record out of place"),
        ("UPDATE log SET model = 'n' WHERE sequence = 5", "a record of another model"),
        ("UPDATE log SET data = CAST(data AS TEXT) WHERE sequence = 5", "a blob of another type"),
        ("UPDATE log SET seal = x'' WHERE sequence = 5", "a record without a seal"),
    ],
)
def test_what_a_row_says_of_itself(path: Path, statement: str, what: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(statement).rowcount == 1
    assert is_noticed(path), what


def test_a_list_of_snapshots_that_is_none_shows(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store._read("UPDATE models SET kept = 'x 2'")
        assert [s.is_damaged for s in store.snapshots("m")] == [False, False, True]
    assert back(path).state.version == RECORDS


def test_an_aborted_record_is_sealed_again(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.abort(store.acquire("m"), RECORDS)
        assert [record.aborted for record in store.log("m", RECORDS - 1)] == [True]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE log SET aborted = 0")
    with pytest.raises(StoreDamaged, match=f"record {RECORDS}"):
        back(path)
