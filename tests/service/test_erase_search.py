"""Keys and tags are found wherever the store names them: in every kind of record, in files next to it, in results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.history.entries import Restoration, Retraining
from livesvm.service.history.rescue import rescue
from livesvm.service.history.solutions import solution_of
from livesvm.service.lifecycle.search import Sought, held
from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.store import codec
from livesvm.service.store.base import Idempotency, Lease, Store, StoreDamaged
from livesvm.solvers.models.change import Batch, Edits
from livesvm.solvers.robust.settings import Robustness

SPEC = ModelSpec(id="m", C=1.0)


@pytest.fixture
def lease(store: Store) -> Lease:
    return store.create("m", codec.encode({"spec": SPEC.model_dump_json()}))


def example(key: str, *tags: str) -> Command:
    return Command(Batch(np.ones((1, 2)), np.ones(1), [key], tags=[list(tags)]), [], arrived=1.0, next_key=0)


def of(key: str, *tags: str) -> ModelState:
    """Return a model with one example."""
    state = ModelState.empty(SPEC, 8)
    state.apply(example(key, *tags))
    return state


def found(store: Store, directory: Path, keys: list[Any], *tags: str) -> tuple[set[Any], set[Any]]:
    what = held(store, directory, "m", Sought(tuple(keys), tags))
    return what.names, what.tagged


def edited(edits: Edits) -> Command:
    return Command(None, [], edits, arrived=1.0, next_key=0)


@pytest.mark.parametrize(
    "entry",
    [
        example("k"),
        Command(None, ["k"], arrived=1.0, next_key=0),
        Command(None, [], arrived=1.0, next_key=0, dropped=["k"]),
        edited(Edits(relabel={"k": 1.0})),
        edited(Edits(reweight={"k": 2.0})),
        edited(Edits(robust=Robustness(0.5, -0.5, {"k": 1}))),
        Command(None, [], arrived=1.0, next_key=0, request="of k, again"),
    ],
)
def test_in_a_record(entry: Command, store: Store, lease: Lease, tmp_path: Path) -> None:
    store.append(lease, 1, entry.encode(), None, keep=10)
    assert found(store, tmp_path, ["k", "l"]) == ({"k"}, set())
    store.abort(lease, 1)  # it is still there
    assert found(store, tmp_path, ["k"]) == ({"k"}, set())


def test_in_a_state_that_a_record_holds(store: Store, lease: Lease, tmp_path: Path) -> None:
    back, retrained = Restoration(1, of("k", "red").encode(), None, 1.0), Retraining("j", of("l").encode(), None, 1.0)
    for sequence, record in enumerate((back.encode(), retrained.encode()), 1):
        store.append(lease, sequence, record, None, keep=10)
    assert found(store, tmp_path, ["k", "l", "m"]) == ({"k", "l"}, set())
    assert found(store, tmp_path, [], "red", "blue") == ({"red"}, {"k"})


def test_in_a_snapshot_a_solution_a_request_and_a_file_of_a_lost_model(
    store: Store, lease: Lease, tmp_path: Path
) -> None:
    store.append(lease, 1, example("n").encode(), Idempotency("red-17", b""), keep=10)
    store.remember(lease, "red-17", b'{"added": ["n"], "removed": ["a"], "version": 1}')
    assert found(store, tmp_path, ["a", 1], "red", "red-1") == ({"a", "red"}, set())
    store.save_snapshot(lease, 1, of("s", "blue").encode(), 1)
    assert found(store, tmp_path, ["s"], "blue") == ({"s", "blue"}, {"s"})
    store.save_solution(lease, solution_of(of("t"), b"record"))
    assert found(store, tmp_path, ["t"]) == ({"t"}, set())
    rescue(tmp_path, "m", b"", (5, of("u").encode(), 5))
    rescue(tmp_path, "other", b"", (5, of("v").encode(), 5))
    assert found(store, tmp_path, ["u", "v"]) == ({"u"}, set())


def test_what_is_damaged_may_name_all(store: Store, lease: Lease, tmp_path: Path) -> None:
    store.append(lease, 1, example("n").encode()[:-1] + b"?", None, keep=10)
    assert found(store, tmp_path, ["a", 2], "red") == ({"a", 2, "red"}, set())


def test_a_damaged_snapshot_may_name_all_unless_a_newer_one_has_replaced_it(
    store: Store, lease: Lease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(lease, 1, example("n").encode(), None, keep=10)
    store.save_snapshot(lease, 1, of("s").encode(), 1)
    seen = iter([store.snapshots("m"), []])

    def damaged(*_: object) -> bytes:
        raise StoreDamaged("for a test")

    monkeypatch.setattr(store, "load_snapshot", damaged)
    assert found(store, tmp_path, ["a"], "red") == ({"a", "red"}, set())
    monkeypatch.setattr(store, "snapshots", lambda model: next(seen))
    assert found(store, tmp_path, ["a"], "red") == (set(), set())
