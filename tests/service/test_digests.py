"""What makes two requests the same: an Idempotency-Key that comes back with anything else is reported."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from livesvm.service.models.commands import Removal, digest_of
from livesvm.service.store import codec
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.sparse import dense

ROBUST = Robustness(0.5, -1.0, {"a": 1})
FULL = Change(
    Batch(np.array([[1.0, 2.0]]), np.ones(1), ["k"], np.ones(1)),
    Removal(keys=["a"]),
    Edits({"b": 1.0}, {"c": 2.0}, 0.5, 3.0, ROBUST),
)


def with_batch(**changed: Any) -> Change:
    assert FULL.add is not None
    return replace(FULL, add=replace(FULL.add, **changed))


def with_edits(**changed: Any) -> Change:
    assert FULL.edits is not None
    return replace(FULL, edits=replace(FULL.edits, **changed))


DIFFERENT = {
    "all of it": FULL,
    "nothing added": replace(FULL, add=None),
    "nothing removed": replace(FULL, remove=None),
    "nothing edited": replace(FULL, edits=None),
    "other features": with_batch(X=np.array([[1.0, 2.5]])),
    "other order": with_batch(X=np.array([[2.0, 1.0]])),
    "other shape": with_batch(X=np.array([[1.0], [2.0]])),
    "other targets": with_batch(y=-np.ones(1)),
    "no targets": with_batch(y=None),
    "other keys": with_batch(keys=["l"]),
    "a number as key": with_batch(keys=[1]),
    "its text as key": with_batch(keys=["1"]),
    "no keys": with_batch(keys=None),
    "other weights": with_batch(weights=np.full(1, 2.0)),
    "no weights": with_batch(weights=None),
    "other removals": replace(FULL, remove=Removal(keys=["b"])),
    "two removals": replace(FULL, remove=Removal(keys=["a", "b"])),
    "the oldest": replace(FULL, remove=Removal(oldest=1)),
    "the two oldest": replace(FULL, remove=Removal(oldest=2)),
    "older than a time": replace(FULL, remove=Removal(older_than=1.0)),
    "older than another": replace(FULL, remove=Removal(older_than=2.0)),
    "another label": with_edits(relabel={"b": -1.0}),
    "another's label": with_edits(relabel={"c": 1.0}),
    "another weight": with_edits(reweight={"c": 1.0}),
    "another decay": with_edits(decay=0.25),
    "another C": with_edits(C=4.0),
    "the same C": with_edits(C=None),
    "not robust": with_edits(robust=None),
    "another theta": with_edits(robust=replace(ROBUST, theta=0.25)),
    "another s": with_edits(robust=replace(ROBUST, s=-2.0)),
    "repeats ignored": replace(FULL, on_repeat="ignore"),
    "repeats replaced": replace(FULL, on_repeat="replace"),
    "another side": with_edits(robust=replace(ROBUST, outliers={"a": -1})),
}


def test_every_part_of_an_update_is_part_of_its_digest() -> None:
    digests = {name: digest_of(update) for name, update in DIFFERENT.items()}
    digests |= {f"version {version}": codec.digest({"restore": version}) for version in (0, 1, 2)}
    same = [pair for pair in combinations(digests, 2) if digests[pair[0]] == digests[pair[1]]]
    assert same == []


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_same_update_has_the_same_digest_however_its_arrays_came(name: str) -> None:
    update = DIFFERENT[name]
    if update.add is not None:
        rows = np.ascontiguousarray(dense(update.add.X).repeat(2, axis=0))[::2].copy()
        update = replace(update, add=replace(update.add, X=rows))
    assert digest_of(update) == digest_of(DIFFERENT[name])
