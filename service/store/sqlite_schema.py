"""The tables of the embedded store, their migration from 0.2.0, and the seals of their rows.

Rows of the log, of snapshots and of requests end with their seal. A missing row is noticed too: a log has no gaps, and
each model lists the snapshots that it keeps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from livesvm.service.store.base import StoreTooNew, StoreUnavailable
from livesvm.service.store.seals import request_seal, seal, sha256

SCHEMA = 8
"""8: summaries; specifications in a table of their own."""
OLDEST = 7
"""The schema of 0.2.0."""
_TABLES = {
    "models": """CREATE TABLE models (
        id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, created REAL NOT NULL,
        writer TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0, kept TEXT NOT NULL DEFAULT '',
        described INTEGER NOT NULL DEFAULT 0, summary BLOB NOT NULL DEFAULT x'')""",
    "specs": "CREATE TABLE specs (model TEXT PRIMARY KEY, spec BLOB NOT NULL)",
    "log": """CREATE TABLE log (
        model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, aborted INTEGER NOT NULL DEFAULT 0,
        seal BLOB NOT NULL DEFAULT x'', PRIMARY KEY (model, sequence))""",
    "snapshots": """CREATE TABLE snapshots (
        model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, sha256 BLOB,
        version INTEGER NOT NULL DEFAULT 0, saved REAL NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'',
        PRIMARY KEY (model, sequence))""",
    "requests": """CREATE TABLE requests (
        model TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, sequence INTEGER NOT NULL, answer BLOB,
        seal BLOB NOT NULL DEFAULT x'', answer_seal BLOB, PRIMARY KEY (model, key))""",
    "epochs": "CREATE TABLE epochs (newest INTEGER NOT NULL)",
    "solutions": """CREATE TABLE solutions (
        model TEXT PRIMARY KEY, sequence INTEGER NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL)""",
    "probe": "CREATE TABLE probe (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "documents": """CREATE TABLE documents (
        kind TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (kind, name)
        ) WITHOUT ROWID""",
}
"""The rows that a start and every append read of a model are short, so that many models take few pages. Documents have
no separate index, which damage could make show less than the table holds."""
_NEW = (
    *_TABLES.values(),
    "CREATE INDEX requests_by_sequence ON requests (model, sequence)",
    "INSERT INTO epochs VALUES (0)",
)
FROM_7 = (
    _TABLES["specs"],
    "INSERT INTO specs SELECT id, spec FROM models",
    "ALTER TABLE models DROP COLUMN spec",
    "ALTER TABLE models ADD COLUMN described INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE models ADD COLUMN summary BLOB NOT NULL DEFAULT x''",
)
_BY_KEY = "FROM requests INDEXED BY sqlite_autoindex_requests_1 WHERE model = ?"
_BY_SEQUENCE = "FROM requests INDEXED BY requests_by_sequence WHERE model = ?"
_REQUESTS = f"""SELECT rowid, model, key, sequence FROM requests NOT INDEXED
    WHERE rowid IN (SELECT rowid {_BY_KEY} UNION SELECT rowid {_BY_SEQUENCE})"""


def add_functions(db: sqlite3.Connection) -> None:
    """Register the functions that compute seals of rows for SQL statements of this connection."""
    db.create_function("sha256", 1, sha256, deterministic=True)
    db.create_function("seal", -1, seal, deterministic=True)


def missing_tables(db: sqlite3.Connection) -> list[str]:
    """Return the names of lost tables; raises StoreTooNew, or StoreUnavailable if the schema is too old."""
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    expected = _TABLES.keys() - ({"specs"} if "models" in there and is_old(db) else set())
    return [name for name in _TABLES if name in expected - there]


def is_old(db: sqlite3.Connection) -> bool:
    """Return whether the database has an older schema, which must be brought up to date."""
    return _schema(db) < SCHEMA


def _schema(db: sqlite3.Connection) -> int:
    return checked_schema(db.execute("PRAGMA user_version").fetchone()[0])


def checked_schema(found: int) -> int:
    """Return a schema number that this version reads; raises StoreTooNew, or StoreUnavailable if it is too old."""
    if found > SCHEMA:
        raise StoreTooNew(f"the database has schema {found}; this version reads up to {SCHEMA}")
    if 0 < found < OLDEST:
        raise StoreUnavailable(f"the database has schema {found}, of a version before 0.2.0: start 0.2.0 on it first")
    return found


def make(db: sqlite3.Connection) -> None:
    """Make the tables of a new database, inside a transaction."""
    _change(db, _NEW)


def bring_up_to_date(db: sqlite3.Connection) -> None:
    """Give a database the present schema, inside a transaction; raises StoreTooNew or StoreUnavailable."""
    if is_old(db):
        _change(db, FROM_7)


def _change(db: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def shows_requests(db: sqlite3.Connection, model: str) -> bool:
    """Return whether both indexes of the requests table have all requests of a model; only these requests are read.

    Each index is compared with the rows that the other one finds. A request that is missing in an index would be taken
    for a new one and applied twice.
    """
    try:
        keys = dict(db.execute(f"SELECT rowid, key {_BY_KEY}", (model,)))
        sequences = dict(db.execute(f"SELECT rowid, sequence {_BY_SEQUENCE}", (model,)))
        shown = {(row, model, keys.get(row), sequences.get(row)) for row in {*keys, *sequences}}
        return shown == {*db.execute(_REQUESTS, (model, model))}
    except sqlite3.DatabaseError as error:
        if (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_CORRUPT:
            return False
        raise


def mend_requests(db: sqlite3.Connection) -> bool:
    """Rebuild the indexes of the requests table, inside a transaction, unless a row of the table is damaged.

    If a row is damaged, the old index stays, because it still finds that row's request. Returns whether the indexes
    were rebuilt.
    """
    rows = db.execute("SELECT model, key, sequence, body, seal FROM requests NOT INDEXED")
    if not all(sealed == request_seal(*row) for *row, sealed in rows):
        return False
    db.execute("REINDEX requests")
    return True
