"""Laws of any history of one model: its versions can be had again, and are reached with and without a path."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import UnknownModel
from livesvm.service.history.versions import oldest_kept, state_at
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import StoreDamaged, StoreUnavailable
from livesvm.solvers.errors import InvalidInput, SolverError
from livesvm.solvers.models.change import Batch, Change, Edits
from tests.support.live_models import FailingStore, alive, batch, predicted
from tests.support.solutions import ONE_CLASS, REGRESSION, SPEC, any_update, taken_back

TASKS = pytest.mark.parametrize("spec", [SPEC, REGRESSION, ONE_CLASS], ids=lambda spec: spec.task)


def held(state: ModelState) -> dict[str, Any]:
    """Return what a version holds, whichever way it was reached."""
    document = state.document()
    arrays = document["arrays"] or {}
    reported = {
        name: np.asarray(arrays[name]).tolist() for name in ("X", "y", "sample_weight", "weight") if name in arrays
    }
    names = ("version", "keys", "n_features", "changed", "updated_at")
    return {**reported, **{name: document[name] for name in names}, "arrived": document["arrived"].tolist()}


def drawn(rng: np.random.Generator, live: HostedModel) -> Change:
    """Return any update, of this task from the first on."""
    update = any_update(rng, live)
    if update.add is not None and live.spec.task == "oneclass":
        return replace(update, add=replace(update.add, y=None))
    return update


def updated(live: HostedModel, update: Change) -> bool:
    """Return whether an update could be applied."""
    try:
        live.update(update, None).result()
    except SolverError:  # such as the last example of a class
        return False
    return True


def checked(store: FailingStore, live: HostedModel, known: dict[int, dict[str, Any]]) -> set[int]:
    """Have every version again, as it was then, but for those that are said not to be kept; which those are."""
    missing = set()
    for version, expected in known.items():
        try:
            found = state_at(store, live.spec, 64, "m", version)
        except InvalidInput:
            missing.add(version)
        else:
            assert held(found) == expected
    return missing


@TASKS
@pytest.mark.parametrize("seed", range(3))
def test_every_kept_version_can_be_had_as_it_was(
    store: FailingStore, spec: ModelSpec, seed: int, tmp_path: Path
) -> None:
    """Also behind commands that were taken back, after going back, and past a snapshot that is damaged."""
    rng = np.random.default_rng(seed)
    live = alive(store, store.create("m", b""), spec)
    known = {0: held(live.current)}
    for step in range(24):
        began = time.time()
        if step % 4 == 2:
            taken_back(store, partial(live.update, drawn(rng, live), None))
        if step == 12:
            live.restore(int(rng.integers(0, live.sample().version)), None).result()
        elif not updated(live, drawn(rng, live)):
            continue
        known[live.sample().version] = held(live.current)
        at = live.sample().updated_at
        assert at is not None
        assert began <= at <= time.time()
        if step in (6, 15):
            live.checkpoint().result()
    oldest = oldest_kept(store, "m")
    assert 0 < oldest < live.sample().version
    assert checked(store, live, known) == {version for version in known if version < oldest}
    newest, older = store.snapshots("m")
    with closing(sqlite3.connect(tmp_path / "store")) as db:
        db.execute("UPDATE snapshots SET data = x'00' WHERE sequence = ?", (newest.sequence,))
        db.commit()
    assert checked(store, live, known) == {version for version in known if version < oldest}
    with closing(sqlite3.connect(tmp_path / "store")) as db:
        db.execute("DELETE FROM log WHERE sequence = ?", (older.sequence + 1,))
        db.commit()
    with pytest.raises(StoreDamaged, match=f"lacks record {older.sequence + 1}"):
        state_at(store, spec, 64, "m", live.sample().version)


@TASKS
@pytest.mark.parametrize("seed", range(3))
def test_what_is_reached_without_a_path_is_what_the_path_reaches(
    store: FailingStore, spec: ModelSpec, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    live = alive(store, store.create("m", b""), spec)
    probe = rng.normal(size=(12, 2))
    for step in range(25):
        before = live.current.encode()
        update = drawn(rng, live)
        if step % 5 == 4:
            update = Change(update.add, update.remove, Edits(decay=0.5, C=None if spec.C is None else 0.3 + step / 10))
        if not updated(live, update) or not live.sample().sizes.n_examples:
            continue
        command = [record for record in store.log("m", 0) if not record.aborted][-1]
        cold = ModelState.decode(spec, 64, before)
        cold.apply_cold(Command.decode(command.data))
        assert held(cold) == held(live.current)
        assert cold.estimator.gamma_ == live.current.estimator.gamma_
        mine, theirs = (state.estimator.predictor().decision_function(probe) for state in (cold, live.current))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)


def test_a_deleted_model_takes_nothing_and_writes_nothing(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""), snapshot_updates=1)
    live.update(batch(0), None).result()
    live.delete().result()
    asks = (
        lambda: live.update(batch(1), None),
        lambda: live.update(batch(1), "name"),
        lambda: live.restore(0, None),
        live.certificate,
        live.checkpoint,
        live.copy,
        live.delete,
    )
    for ask in asks:
        with pytest.raises(UnknownModel):
            ask().result()
    live.stop()
    assert store.models() == []
    assert store.snapshots("m") == []


def test_a_certificate_can_be_had_while_the_store_is_away(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""))
    live.update(batch(0), None).result()
    store.failing = "append"
    with pytest.raises(StoreUnavailable):
        live.update(batch(1), None).result()
    store.failing = "last_sequence"  # so that what is owed cannot be paid
    assert live.certificate().result()["version"] == 1
    store.failing = ""
    live.stop()


def test_what_changed_is_in_a_snapshot_at_the_end(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""))
    live.update(batch(0), None).result()
    live.stop()
    assert [snapshot.version for snapshot in store.snapshots("m")] == [1]
    again = alive(store, store.acquire("m"))
    assert again.recovered.replayed == 0
    again.stop()
    assert [snapshot.version for snapshot in store.snapshots("m")] == [1]


def test_settings_bound_every_model(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""), max_features=2, max_examples=9, max_predict_rows=3, idempotency_keep=2)
    with pytest.raises(InvalidInput, match="3 columns, the limit is 2"):
        live.update(Change(Batch(np.ones((1, 3)), np.ones(1))), None).result()
    with pytest.raises(InvalidInput, match="10 examples, the limit is 9"):
        live.update(batch(0, 10), None).result()
    for name in ("first", "second", "third"):
        live.update(batch(1, 3), name).result()
    assert [live.update(batch(1, 3), name).result().replayed for name in ("second", "third")] == [True, True]
    with pytest.raises(InvalidInput, match="12 examples, the limit is 9"):  # forgotten, and so asked again
        live.update(batch(1, 3), "first").result()
    with pytest.raises(InvalidInput, match="4 rows, the limit is 3"):
        predicted(live, np.ones((4, 2)))
    live.stop()
