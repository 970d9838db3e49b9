"""A restart takes a long update's solution instead of solving it again; where it cannot, nothing is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.history.solutions import solution_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.store import codec
from livesvm.service.store.base import Solution, StoreDamaged
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import SolverError
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.robust.settings import Robustness
from tests.support.live_models import FailingStore, Recovering, alive, batch, decisions
from tests.support.solutions import ONE_CLASS, REGRESSION, SPEC, any_update, taken_back

ALWAYS = 1e-9


def with_solution(store: SqliteStore, spec: ModelSpec, seeds: range = range(6)) -> Recovering:
    """Return a living model whose every update left its solution."""
    live = alive(store, store.create("m", b""), spec, solution_seconds=ALWAYS)
    for seed in seeds:
        live.update(batch(seed), f"name {seed}").result()
    return live


def again(store: SqliteStore, live: Recovering, replayed: int) -> Recovering:
    """Return the model of another process: the same, after so many updates were solved again."""
    back = alive(store, store.acquire("m"), live.spec)
    assert back.recovered.replayed == replayed
    assert back.sample().version == live.sample().version
    assert back.sample().updated_at == live.sample().updated_at
    assert back.current.sequence == live.current.sequence
    assert back.current.window == live.current.window
    mine, theirs = back.current.document(), live.current.document()
    exact = not replayed and live.sample().version == back.recovered.state.version
    for name, value in theirs["arrays"].items():
        if not exact and name == "record":  # updates that are replayed together are predicted together
            assert mine["arrays"][name]["sums"][0] == value["sums"][0]
            continue
        if not exact and name in ("beta", "intercept", "segments"):
            continue
        np.testing.assert_array_equal(mine["arrays"][name], value, err_msg=name)
    assert mine["changed"] == theirs["changed"]
    np.testing.assert_allclose(decisions(back), decisions(live), rtol=0, atol=1e-7)
    assert back.certificate().result()["relative_gap"] <= 1e-9
    return back


@pytest.mark.parametrize("spec", [SPEC, REGRESSION, ONE_CLASS], ids=lambda spec: spec.task)
@pytest.mark.parametrize("seed", range(4))
def test_any_history_comes_back_as_it_was(store: FailingStore, spec: ModelSpec, seed: int) -> None:
    rng = np.random.default_rng(seed)
    live = alive(store, store.create("m", b""), spec, solution_seconds=ALWAYS)
    for step in range(24):
        if step == 8:
            live.checkpoint().result()
        if step == 16:
            live.restore(int(rng.integers(8, live.sample().version)), None).result()
        try:
            live.update(any_update(rng, live), None).result()
        except SolverError:  # such as the last example of a class
            unlabelled = Change(Batch(rng.normal(size=(3, 2))))
            live.update(unlabelled if spec.task == "oneclass" else batch(step), None).result()
        if step % 4 == 3:
            again(store, live, 0)
            live.journal.lease = store.acquire("m")


@pytest.mark.parametrize("seed", range(4))
def test_what_was_taken_back_is_in_no_solution(store: FailingStore, seed: int) -> None:
    """Keys come back with other features, in updates that count and in some that do not."""
    rng = np.random.default_rng(seed)
    spec = ModelSpec.model_validate({"id": "m", "C": 10.0, "window": {"max_examples": 4}})
    live = alive(store, store.create("m", b""), spec, solution_seconds=ALWAYS)
    live.update(batch(0, 4), None).result()
    for step in range(1, 20):
        oldest, *kept = live.current.window.arrivals
        if step % 3 == 0:
            version = int(rng.integers(1, live.sample().version))
            taken_back(store, partial(live.restore, version, None))
        elif step % 3 == 1:
            taken_back(store, partial(live.update, named(batch(1000 + step, 1), [oldest]), None))
        if rng.random() < 0.5:
            live.update(Change(edits=Edits(decay=0.9)), None).result()
        else:
            pool = [key for key in ("a", "b", "c", "d", "e", "f") if key not in kept]
            keys = [str(key) for key in rng.choice(pool, 2, replace=False)]
            live.update(named(batch(100 * seed + step, 2), keys), None).result()
        again(store, live, 0)
        live.journal.lease = store.acquire("m")


def test_a_large_solution_is_stored_when_it_saves_enough(store: SqliteStore) -> None:
    live = with_solution(store, SPEC, range(1))
    live.checkpoints._solution_bytes = 2**40  # solving for a day is less work than writing so much
    for seed in range(1, 3):
        live.update(batch(seed), None).result()
    again(store, live, 2)


def named(update: Change, keys: list[Any]) -> Change:
    """Return an update under keys of one's choice, known or not."""
    assert update.add is not None
    return replace(update, add=replace(update.add, keys=keys), on_repeat="replace")


def test_a_robust_model_comes_back_robust(store: FailingStore) -> None:
    live = with_solution(store, SPEC)
    live.update(Change(edits=Edits(robust=Robustness(0.2, -0.5, {}))), None).result()
    back = again(store, live, 0)
    assert back.current.estimator.robustness() == live.current.estimator.robustness()


def test_nothing_is_solved_and_short_updates_behind_a_solution_are(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = with_solution(store, SPEC)
    solved: list[object] = []
    learn = LiveEstimator.learn

    def noted(model: LiveEstimator, change: Change) -> UpdateReport:
        solved.append(model)
        return learn(model, change)

    monkeypatch.setattr(LiveEstimator, "learn", noted)
    back = again(store, live, 0)
    assert solved == []
    for seed in (7, 8):
        back.update(batch(seed), None).result()
    solved.clear()
    again(store, back, 2)
    assert len(solved) == 1
    back.stop()


def test_updates_are_counted_until_they_took_long(store: FailingStore) -> None:
    live = alive(store, store.create("m", b""), solution_seconds=10.0)
    for seconds, kept in ((4.0, None), (4.0, None), (4.0, 3), (4.0, 3), (11.0, 5)):
        live.update(batch(live.sample().version), None).result()
        live.checkpoints.record_change(seconds, 0)
        live.checkpoints.keep_solution(live.current, newest(store), 0.0)
        found = store.solution("m")
        assert (found and found.sequence) == kept
    live.stop()


def test_with_many_free_examples_every_update_is_kept(store: FailingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    live = alive(store, store.create("m", b""))
    live.update(batch(0), None).result()
    assert store.solution("m") is None
    monkeypatch.setattr("livesvm.service.history.checkpoints.MANY_FREE", 1)
    live.update(batch(1), None).result()
    assert store.solution("m") == solution_of(live.current, newest(store))
    live.stop()


def newest(store: SqliteStore) -> bytes:
    """Return the newest record."""
    return list(store.log("m", 0))[-1].data


def test_an_update_whose_solution_cannot_be_kept_is_answered(store: FailingStore) -> None:
    live = with_solution(store, SPEC, range(2))
    store.failing = "save_solution"
    reply = live.update(batch(2), "name").result()
    assert live.update(batch(2), "name").result().body == reply.body
    store.failing = ""
    again(store, live, 1)


def flip(solution: Solution) -> Solution:
    middle = len(solution.data) // 2
    return replace(
        solution,
        data=solution.data[:middle] + bytes([solution.data[middle] ^ 1]) + solution.data[middle + 1 :],
    )


def rewritten(**changed: Callable[[Any], Any]) -> Callable[[Solution], Solution]:
    """Return what makes another solution of one, with its checksum, by changing its arrays."""

    def change(solution: Solution) -> Solution:
        document = codec.decode(solution.data)
        for name, other in changed.items():
            document["arrays"][name] = other(document["arrays"][name])
        return replace(solution, data=codec.encode(document))

    return change


UNUSABLE: dict[str, Callable[[Solution], Solution]] = {
    "damaged": flip,
    "of another record": lambda solution: replace(solution, sequence=5),
    "of a record that is not there": lambda solution: replace(solution, sequence=7),
    "no numbers": rewritten(beta=lambda beta: np.full_like(beta, np.nan)),
    "nobody's key": rewritten(keys=lambda keys: ["nobody", *keys[1:]]),
    "of nowhere": rewritten(segments=lambda segments: segments + 9),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_without_a_good_solution_updates_are_solved_again(store: FailingStore, case: str) -> None:
    live = with_solution(store, SPEC)
    solution = store.solution("m")
    assert solution is not None
    store.save_solution(live.journal.lease, UNUSABLE[case](solution))
    back = again(store, live, 6)
    assert back.recovered.log_bytes == sum(len(record.data) for record in store.log("m", 0))


def test_the_solution_of_another_history_is_not_taken(store: FailingStore) -> None:
    live = with_solution(store, SPEC)
    solution, lease = store.solution("m"), live.journal.lease
    assert solution is not None
    store.delete(lease)
    other = alive(store, store.create("m", b""), SPEC)
    for seed in range(20, 26):
        other.update(batch(seed), None).result()
    store.save_solution(other.journal.lease, solution)
    again(store, other, 6)


def test_coefficients_that_are_off_are_corrected(store: FailingStore) -> None:
    live = with_solution(store, SPEC)
    solution = store.solution("m")
    assert solution is not None
    store.save_solution(live.journal.lease, rewritten(beta=lambda beta: beta * 0.97)(solution))
    back = alive(store, store.acquire("m"), SPEC)
    assert back.recovered.replayed == 0
    np.testing.assert_allclose(decisions(back), decisions(live), rtol=0, atol=1e-7)
    assert back.certificate().result()["relative_gap"] <= 1e-9


def test_an_answer_that_is_owed_is_found_by_solving_again(store: FailingStore) -> None:
    live = with_solution(store, SPEC)
    with store._transaction() as db:
        db.execute("UPDATE requests SET answer = NULL, answer_seal = NULL WHERE key = 'name 3'")
    back = again(store, live, 6)
    assert back.update(batch(3), "name 3").result().replayed


def test_a_newer_snapshot_goes_first_and_a_damaged_one_is_made_up_for(store: FailingStore, tmp_path: Path) -> None:
    live = with_solution(store, SPEC, range(3))
    for seed in (3, 4):
        live.checkpoint().result()
        live.update(batch(seed), None).result()
    assert again(store, live, 0).recovered.snapshot_version == 4
    with closing(sqlite3.connect(tmp_path / "store")) as db:
        db.execute("UPDATE snapshots SET data = x'00' WHERE sequence = 4")
        db.commit()
    found = again(store, live, 0).recovered
    assert (found.snapshot_version, found.damaged_snapshots) == (3, 1)
    live.journal.lease = store.acquire("m")
    live.checkpoint().result()
    assert again(store, live, 0).recovered.snapshot_version == 5


def test_a_record_that_a_solution_needs_and_is_gone_is_reported(store: FailingStore) -> None:
    with_solution(store, SPEC)
    with store._transaction() as db:
        db.execute("DELETE FROM log WHERE sequence = 2")
    with pytest.raises(StoreDamaged, match="lacks record 2"):
        alive(store, store.acquire("m"), SPEC)


def test_a_solution_is_much_smaller_than_a_snapshot(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spec = ModelSpec.model_validate({"id": "m", "C": 1.0})
    with closing(FailingStore(tmp_path / "store")) as store:
        live = alive(store, store.create("m", b""), spec)
        live.update(Change(Batch(rng.normal(size=(400, 80)), rng.choice([-1.0, 1.0], 400))), None).result()
        assert len(solution_of(live.current, newest(store)).data) < len(live.current.encode()) / 12
        live.stop()
