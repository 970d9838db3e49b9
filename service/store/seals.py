"""Checksums of stored rows, so that damage to any byte of a row is noticed.

A seal is a SHA-256 over all columns of a row, the row's key among them, so that one row cannot stand in for another.
"""

from __future__ import annotations

import hashlib
import struct
import zlib


def sha256(data: object) -> bytes:
    """Return the SHA-256 of bytes; a value that is no bytes, because it is damaged, is hashed as text."""
    return hashlib.sha256(data if isinstance(data, bytes) else repr(data).encode()).digest()


def seal(*columns: object) -> bytes:
    """Return the SHA-256 of the columns of a row; callers pass the SHA-256 of a blob instead of the blob."""
    return hashlib.sha256(repr(columns).encode()).digest()


SEAL_BYTES = len(seal())
_SUMMARY = struct.Struct("<I")


def request_seal(model: object, key: object, sequence: object, body: object) -> bytes:
    """Return the seal of a remembered request; the answer, which is stored later, has a seal of its own."""
    return seal(model, key, sequence, sha256(body))


def answer_seal(model: object, key: object, answer: object) -> bytes:
    """Return the seal of the answer to a remembered request."""
    return seal(model, key, sha256(answer))


def solution_seal(model: object, sequence: object, data: object) -> bytes:
    """Return the seal of a solution."""
    return seal(model, sequence, "solution", sha256(data))


def document_seal(kind: object, name: object, data: object) -> bytes:
    """Return the seal of a document."""
    return seal(kind, name, "document", sha256(data))


def mark_seal(model: str, sequence: int) -> str:
    """Return the seal of the mark of an aborted record, in hexadecimal."""
    return seal(model, sequence, "aborted").hex()


def checked_summary(model: str, described: int, summary: bytes) -> bytes:
    """Return the stored form of a summary: a CRC-32, then its bytes; empty for an empty summary.

    A SHA-256 would double the time that reading the index takes, and no model depends on its summary.
    """
    return _SUMMARY.pack(_summary_check(model, described, summary)) + summary if summary else b""


def open_summary(model: str, described: object, value: object) -> tuple[bytes, int]:
    """Return a stored summary and the number of the newest record it describes; empty and 0 if it is damaged."""
    if not (isinstance(value, bytes) and isinstance(described, int)):
        return b"", 0
    summary = value[_SUMMARY.size :]
    if value[: _SUMMARY.size] != _SUMMARY.pack(_summary_check(model, described, summary)):
        return b"", 0
    return summary, described


def _summary_check(model: str, described: int, summary: bytes) -> int:
    return zlib.crc32(summary, zlib.crc32(f"{model}:{described}:".encode()))
