"""Read and write rows of the embedded store, with their seals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livesvm.service.store.base import Fenced, Lease, ModelGone, Remembered, SnapshotInfo, StoreDamaged
from livesvm.service.store.seals import answer_seal, request_seal, seal

Row = tuple[Any, ...]


def checked(lease: Lease, rows: list[Row]) -> int:
    """Return the sequence number in a model's row (epoch, sequence); raises Fenced if the lease has another epoch."""
    if not rows:
        raise ModelGone(f"model {lease.model} is no longer stored")
    epoch, sequence = rows[0]
    if epoch != lease.epoch:
        raise Fenced(f"model {lease.model} was taken over by another writer (epoch {epoch})")
    return int(sequence)


def is_sealed(model: str, row: list[Any]) -> bool:
    """Return whether the seal at the end of a row matches the row, and the row belongs to this model."""
    *columns, sealed = row
    return bool(columns[0] == model and sealed == seal(*columns))


def damaged(sequence: object) -> SnapshotInfo:
    """Return the description of a damaged snapshot; its record number is 0 if this number is damaged, too."""
    number = str(sequence)
    return SnapshotInfo(int(number) if number.isdecimal() else 0, 0, 0.0, 0, is_damaged=True)


def remembered(model: str, key: str, row: Row) -> tuple[Remembered, bool]:
    """Return the request in a row, and whether its answer is damaged; a damaged answer is left out.

    Raises StoreDamaged if the request itself is damaged.
    """
    *name, sequence, body, sealed, answer, answer_sealed = row
    if name != [model, key] or sealed != request_seal(model, key, sequence, body):
        raise StoreDamaged(f"what is remembered of request {key!r} of model {model} does not match its checksum")
    if answer is None and answer_sealed is None:
        return Remembered(body, sequence, None), False
    good = answer_sealed == answer_seal(model, key, answer)
    return Remembered(body, sequence, answer if good else None), not good


def request_rows(model: str, requests: Mapping[str, Remembered]) -> Iterator[Row]:
    """Yield rows of the requests table for these remembered requests."""
    for key, known in requests.items():
        sealed = request_seal(model, key, known.sequence, known.body)
        answered = None if known.answer is None else answer_seal(model, key, known.answer)
        yield model, key, known.sequence, known.body, sealed, known.answer, answered
