"""Solutions of long updates, stored next to the log, so that a restart need not solve them again.

A solution is a snapshot without the features, which are most of a snapshot's bytes and are in the newest snapshot and
the later records anyway. A solution holds the SHA-256 of its last log record, so that the solution is not used with
another log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from livesvm.service.history.entries import decode_entry, features_of
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.store import codec
from livesvm.service.store.base import LogRecord, Solution, StoreDamaged
from livesvm.solvers.sparse import below, like


def solution_of(state: ModelState, record: bytes) -> Solution:
    """Return the solution of a model with at least one example; ``record`` is the model's last log record."""
    document = state.document()
    arrays: dict[str, Any] = document["arrays"]
    del arrays["X"]
    arrays["segments"] = arrays["segments"].astype(np.int8)
    return Solution(state.sequence, codec.encode(document | {"record": _name(record)}))


def solved(
    spec: ModelSpec, cache_mb: int, base: dict[str, Any] | None, records: Iterable[LogRecord], solution: Solution
) -> ModelState:
    """Rebuild the model from a stored solution.

    Parameters
    ----------
    base : the document of an older snapshot, None to start from an empty model
    records : the log's records after the snapshot, up to the last one of the solution

    Raises
    ------
    StoreDamaged : the solution is not of these records, or is no solution
    StoreTooNew, MemoryLimit
    """
    document = codec.decode(solution.data)
    features = features_of(None if base is None else base["arrays"])
    last = None
    for last in records:
        if not last.aborted:
            features = decode_entry(last.data).features_after(features)
    if last is None or last.sequence != solution.sequence or _name(last.data) != document.pop("record"):
        raise StoreDamaged(f"the solution up to record {solution.sequence} is not of this log")
    arrays = document["arrays"]
    arrays["X"] = _rows(features, arrays["keys"], document["n_features"], document["is_sparse"])
    return ModelState.of(spec, cache_mb, document)


def _name(record: bytes) -> bytes:
    return hashlib.sha256(record).digest()


def _rows(features: dict[Key, Any], keys: list[Key], width: int, is_sparse: bool) -> Rows:
    """Return the features (n, d) of the examples with ``keys``; raises StoreDamaged if one example is missing."""
    try:
        return like(below([features[key] for key in keys], width), is_sparse)
    except (KeyError, ValueError) as error:
        raise StoreDamaged(f"the solution holds an example that the log does not: {error}") from error
