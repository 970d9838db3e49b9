"""The tables of the embedded store, how older ones become these, and the seals of their rows.

A seal is a SHA-256 over every column of a row, so that damage to any byte of it is noticed. A row that is gone is
noticed too: a log has no gaps, and each model lists the snapshots that it keeps.
"""

from __future__ import annotations

import hashlib
import sqlite3

from service.store.base import StoreTooNew

SCHEMA = 3
"""2: writers and epochs, checksums of snapshots. 3: seals of rows, the list of kept snapshots."""
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
    PRIMARY KEY (model, key));
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
STEPS = {0: (_TABLES, SCHEMA), 1: (_FROM_1, 2), 2: (_FROM_2, SCHEMA)}
"""From each schema, what leads to a newer one, and which."""


def sha256(data: object) -> bytes:
    """SHA-256 of a blob; of what damage has made of one, that of its text."""
    return hashlib.sha256(data if isinstance(data, bytes) else repr(data).encode()).digest()


def seal(*columns: object) -> bytes:
    """SHA-256 of the columns of a row; a blob stands there as its own SHA-256."""
    return sha256(repr(columns).encode())


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables, or bring older ones up to date, inside a transaction; raises StoreTooNew.

    From then on SQL knows the functions ``sha256`` and ``seal`` on this connection.
    """
    db.create_function("sha256", 1, sha256, deterministic=True)
    db.create_function("seal", -1, seal, deterministic=True)
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA:
        raise StoreTooNew(f"the database has schema {found}; this version reads up to {SCHEMA}")
    while found < SCHEMA:
        statements, found = STEPS[found]
        for statement in filter(str.strip, statements.split(";")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {found}")
