"""The tables of the embedded store, how older ones become these, and the seals of their rows.

Rows of the log, of snapshots and of requests end with their seal. A row that is gone is noticed too: a log has no gaps,
and each model lists the snapshots that it keeps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from livesvm.service.store.base import StoreTooNew
from livesvm.service.store.seals import answer_seal, request_seal, seal, sha256

SCHEMA = 8
"""2: writers and epochs, checksums of snapshots. 3: seals of rows, the list of kept snapshots. 4: seals of requests.
5: solutions. 6: what is written to see whether it can be. 7: documents.
8: summaries; specifications in a table of their own."""
DIVIDED = 9
"""Of a database whose models an earlier version has moved to shares: it must not be taken for empty."""
_TABLES = """
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
INSERT INTO epochs VALUES (0);
"""
_FROM_1 = """
ALTER TABLE models ADD COLUMN writer TEXT NOT NULL DEFAULT '';
ALTER TABLE models ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN sha256 BLOB;
ALTER TABLE snapshots ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN saved REAL NOT NULL DEFAULT 0;
CREATE TABLE epochs (newest INTEGER NOT NULL);
INSERT INTO epochs SELECT coalesce(max(epoch), 0) FROM models;
"""
_FROM_2 = """
ALTER TABLE models ADD COLUMN kept TEXT NOT NULL DEFAULT '';
ALTER TABLE log ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
ALTER TABLE snapshots ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
UPDATE models SET kept = coalesce((SELECT group_concat(sequence, ' ') FROM snapshots WHERE model = id), '');
UPDATE snapshots SET sha256 = sha256(CAST(data AS BLOB)) WHERE sha256 IS NULL;
UPDATE snapshots SET seal = seal(model, sequence, version, saved, sha256);
UPDATE log SET seal = seal(model, sequence, aborted, sha256(CAST(data AS BLOB)));
"""
"""What was stored without a checksum of its row has one from now on; what is damaged inside is noticed as before."""
_FROM_3 = """
ALTER TABLE requests ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
ALTER TABLE requests ADD COLUMN answer_seal BLOB;
UPDATE requests SET seal = request_seal(model, key, sequence, CAST(body AS BLOB));
UPDATE requests SET answer_seal = answer_seal(model, key, CAST(answer AS BLOB)) WHERE answer IS NOT NULL;
"""
_FROM_4 = """
CREATE TABLE solutions (model TEXT PRIMARY KEY, sequence INTEGER NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL);
"""
_FROM_5 = """
CREATE TABLE probe (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""
_FROM_6 = """
CREATE TABLE documents (
    kind TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
"""
"""One tree, so that there is no index that could show less than the table holds."""
_FROM_7 = """
CREATE TABLE specs (model TEXT PRIMARY KEY, spec BLOB NOT NULL);
INSERT INTO specs SELECT id, spec FROM models;
ALTER TABLE models DROP COLUMN spec;
ALTER TABLE models ADD COLUMN described INTEGER NOT NULL DEFAULT 0;
ALTER TABLE models ADD COLUMN summary BLOB NOT NULL DEFAULT x'';
"""
"""What a start and every append read of a model is short, so that many models take few pages."""
STEPS = {
    0: (_TABLES, 4),
    1: (_FROM_1, 2),
    2: (_FROM_2, 3),
    3: (_FROM_3, 4),
    4: (_FROM_4, 5),
    5: (_FROM_5, 6),
    6: (_FROM_6, 7),
    7: (_FROM_7, SCHEMA),
}
"""From each schema, what leads to a newer one, and which."""
_SINCE = {
    "models": 0,
    "log": 0,
    "snapshots": 0,
    "requests": 0,
    "epochs": 2,
    "solutions": 5,
    "probe": 6,
    "documents": 7,
    "specs": 8,
}
"""The schema from which on each table is there."""
_BY_KEY = "FROM requests INDEXED BY sqlite_autoindex_requests_1 WHERE model = ?"
_BY_SEQUENCE = "FROM requests INDEXED BY requests_by_sequence WHERE model = ?"
_REQUESTS = f"""SELECT rowid, model, key, sequence FROM requests NOT INDEXED
    WHERE rowid IN (SELECT rowid {_BY_KEY} UNION SELECT rowid {_BY_SEQUENCE})"""
_FUNCTIONS: dict[str, Callable[..., bytes]] = {
    "sha256": sha256,
    "seal": seal,
    "request_seal": request_seal,
    "answer_seal": answer_seal,
}


@dataclass(frozen=True)
class Tables:
    """What a database holds: whether it is of an older schema, and which of its tables are missing."""

    is_old: bool
    missing: list[str]


def add_functions(db: sqlite3.Connection) -> None:
    """Have SQL know the seals as functions on this connection."""
    for name, function in _FUNCTIONS.items():
        db.create_function(name, -1, function, deterministic=True)


def check_tables(db: sqlite3.Connection) -> Tables:
    """Look which tables are there; raises StoreTooNew."""
    schema = _schema(db)
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = [name for name, since in _SINCE.items() if since <= schema and name not in there]
    return Tables(schema < SCHEMA, missing)


def _schema(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    if found > DIVIDED:
        raise StoreTooNew(f"the database has schema {found}; this version reads up to {DIVIDED}")
    return found


def is_divided(db: sqlite3.Connection) -> bool:
    """Return whether its models are in shares; raises StoreTooNew."""
    return _schema(db) == DIVIDED


def mark_joined(db: sqlite3.Connection) -> None:
    """Have a database that was divided say that its models are in it."""
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables, or bring older ones up to date, inside a transaction; raises StoreTooNew.

    The connection has to know the seals as functions.
    """
    found = _schema(db)
    while found < SCHEMA:
        statements, found = STEPS[found]
        for statement in filter(str.strip, statements.split(";")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {found}")


def shows_requests(db: sqlite3.Connection, model: str) -> bool:
    """Return whether the indexes of requests show all of a model's requests, by what they hold of it alone.

    Each index is compared with the rows that the other one finds. A request that its index does not show would be
    taken for a new one and be done twice.
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
    """Build the indexes of requests from the table, inside a transaction, unless a row itself is damaged.

    Then it is the old index that tells. Returns whether anything was built.
    """
    rows = db.execute("SELECT model, key, sequence, body, seal FROM requests NOT INDEXED")
    if not all(sealed == request_seal(*row) for *row, sealed in rows):
        return False
    db.execute("REINDEX requests")
    return True
