"""Drift: the test keeps its rate and names the class and the place, and remedies equal their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

from livesvm.service.models.commands import Command, Removal
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.watch import Watch
from livesvm.service.models.window import WindowLimits
from livesvm.service.store import codec
from livesvm.solvers import (
    DriftTest,
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    before_learning,
    drift,
    leave_one_out,
)
from livesvm.solvers.analyses.drift.martingale import CARRIED, RUN
from livesvm.solvers.analyses.leave_one_out.assessment import dealt
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Batch, Change, Edits

RNG = np.random.default_rng(5)
N, M, SIZE = 48, 8, 24
X = RNG.normal(size=(N, 2))
WEIGHTS = RNG.uniform(0.5, 2.0, N)
VALUES = X[:, 0] + 0.3 * RNG.normal(size=N)
SIGNS = np.where(VALUES > 0, 1, -1)
WORDS = np.array(["ape", "bee", "cat"])[np.digitize(VALUES, [-0.5, 0.5])]
LIMITS = WindowLimits(10**6, 10**6, None, None)


def peer_error(peer: Any, y: Any, start: int) -> float:
    """Return the error of the newest examples by models of the examples from ``start`` on, retrained without them.

    Of regression that is without each; of classes without a fold, and the rest of each class weighs as much as all.
    """
    lost, newest, window = [], np.arange(N - M, N), np.arange(start, N)
    by_class = not isinstance(peer, SVR)
    fold = dealt(y[newest], 10) if by_class else np.arange(M)
    for name in np.unique(fold):
        out = newest[fold == name]
        rest, weights = np.setdiff1d(window, out), WEIGHTS.copy()
        for label in np.unique(y) if by_class else ():
            same, stays = window[y[window] == label], rest[y[rest] == label]
            weights[stays] *= WEIGHTS[same].sum() / WEIGHTS[stays].sum()
        found = peer.fit(X[rest], y[rest], weights[rest]).predict(X[out])
        lost.extend(found != y[out] if by_class else abs(found - y[out]))
    return float(np.mean(lost))


@pytest.mark.parametrize("kind", ["signs", "words", "balanced", "values"])
def test_errors_of_remedies_are_those_of_models_retrained_from_nothing(kind: str) -> None:
    y: Any = {"words": WORDS, "values": VALUES}.get(kind, SIGNS)
    options: dict[str, Any] = {"class_weight": "balanced"} if kind == "balanced" else {}
    made: Any = IncrementalSVR if kind == "values" else IncrementalSVC
    rival: Any = SVR if kind == "values" else SVC
    model = made(C=2.0, gamma=0.5, **options).fit(X, y, sample_weight=WEIGHTS)
    before = model.decision_function(X) if kind != "values" else model.predict(X)
    found = drift(model, newest=M)
    for one in found.remedies:
        C, start = (one.value, 0) if one.kind == "C" else (2.0, N - int(one.value))
        peer = rival(C=C, gamma=0.5, tol=1e-10)
        if kind == "balanced":  # by how many examples there are in the window, whatever they weigh
            counts = {label: (N - start) / (2 * np.sum(y[start:] == label)) for label in np.unique(y)}
            peer = SVC(C=C, gamma=0.5, tol=1e-10, class_weight=counts)
        assert one.error == pytest.approx(peer_error(peer, y, start), abs=1e-5), one
    assert {one.kind for one in found.remedies} == {"window", "C"}
    assert [one.value for one in found.remedies][:2] == [SIZE, SIZE // 2]
    assert found.newest == M
    now = model.decision_function(X) if kind != "values" else model.predict(X)
    np.testing.assert_array_equal(now, before)
    assert model.C == 2.0


@pytest.mark.parametrize("C", [0.001, 0.01])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_errors_are_not_turned_around_where_classes_are_balanced(n_classes: int, C: float) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % n_classes)
    rows = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[y] + rng.normal(size=(90, 2))
    model = IncrementalSVC(C=C, gamma=0.5).fit(rows, y)
    assert leave_one_out(model).error > 0.9  # exact: without an example the others of its class are outnumbered
    found = drift(model)
    assert found.error < 0.25
    assert max(found.errors.values()) < 0.4
    assert found.present < 0.3
    assert found.proposed is None


def test_the_alarm_says_where_and_which_class_and_the_remedy_forgets() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    y = np.where(rows[:, 0] > 0, "up", "down")
    turned = (np.arange(400) >= 320) & (rows[:, 0] > 0) & (rows[:, 1] > 0)
    y[turned] = "down"  # of what was "up" before, a half is "down" from then on
    found = drift(IncrementalSVC(C=1.0, gamma=0.5).fit(rows, y))
    assert found.alarm is not None
    assert found.alarm.kinds == ("down",)
    assert abs(found.alarm.began - 321) < 25
    assert found.proposed is not None
    assert found.proposed.kind == "window"
    assert found.proposed.value <= 100
    assert found.errors["down"] > found.errors["up"]
    assert found.rolling[-1] > found.rolling[0]


def test_times_say_which_examples_are_the_newest() -> None:
    times = np.arange(N)[::-1].astype(float)
    model = IncrementalSVC(C=2.0, gamma=0.5).fit(X, SIGNS, sample_weight=WEIGHTS)
    turned = IncrementalSVC(C=2.0, gamma=0.5).fit(X[::-1], SIGNS[::-1], sample_weight=WEIGHTS[::-1])
    one, other = drift(model, times=times, newest=M), drift(turned, newest=M)
    assert [r.error for r in one.remedies] == [r.error for r in other.remedies]
    np.testing.assert_array_equal(one.rolling, other.rolling)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no targets"):
        drift(IncrementalOneClassSVM().fit(X))
    with pytest.raises(InvalidInput, match="no targets"):
        drift(IncrementalPUClassifier(prior=0.5, lam=0.01).fit(X, SIGNS > 0))
    model = IncrementalSVC().fit(X, SIGNS)
    for wrong in ({"newest": 1}, {"newest": N + 1}, {"false_alarms": 0.0}, {"false_alarms": 1.0}):
        with pytest.raises(InvalidInput):
            drift(model, **wrong)


def test_false_alarms_are_as_rare_as_promised() -> None:
    alarms = 0
    for seed in range(60):
        scores = np.random.default_rng(seed).exponential(size=600)
        alarms += DriftTest(0.2).learn(scores, (scores > 1.0).tolist()) is not None
    assert alarms <= 20  # 12 on average at most; more than 20 has a probability of 1 in 150


def test_equal_scores_give_no_alarm() -> None:
    assert DriftTest(0.01).learn(np.zeros(2000)) is None


def test_scores_that_fall_give_no_alarm() -> None:
    assert DriftTest(0.01).learn(np.linspace(1.0, 0.0, 2000)) is None


def test_one_kind_alone_is_found_and_named() -> None:
    rng = np.random.default_rng(1)
    scores, kinds = rng.normal(size=3000), rng.integers(0, 4, 3000)
    scores[2000:] += 2.0 * (kinds[2000:] == 3)
    test, alarms = DriftTest(0.01), []
    for score, kind in zip(scores, kinds.tolist(), strict=True):
        if (alarm := test.learn([score], [kind])) is not None:
            alarms.append(alarm)
    assert len(alarms) == 1
    assert alarms[0].kinds in ((), (3,))
    assert 1990 < alarms[0].began <= alarms[0].at < 2120


def test_a_late_change_is_found_in_the_next_run_too() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=RUN + 200)
    scores[RUN - 5 :] += 1.5
    alarm = DriftTest(0.01).learn(scores)
    assert alarm is not None
    assert RUN - 10 < alarm.began < RUN + 10
    test = DriftTest(0.01)
    test.learn(scores[: RUN - 5])
    test.learn(rng.normal(size=10))
    assert len(test.to_arrays()["scores"]) == RUN // CARRIED + 5


@pytest.mark.parametrize("kinds", [None, [str(i % 3) for i in range(900)]])
def test_a_test_that_is_kept_goes_on_as_it_was(kinds: list[str] | None) -> None:
    scores = np.random.default_rng(3).normal(size=900)
    scores[700:] += 1.0
    whole, first = DriftTest(0.01), DriftTest(0.01)
    halves = (None, None) if kinds is None else (kinds[:650], kinds[650:])
    first.learn(scores[:650], halves[0])
    again = DriftTest(0.01)
    again.restore(codec.decode(codec.encode(first.to_arrays())))
    found = again.learn(scores[650:], halves[1])
    assert found == whole.learn(scores, kinds)
    assert found is not None
    assert again.strongest == whole.strongest


def test_scores_before_learning_are_those_of_the_model_as_it_is() -> None:
    model = IncrementalSVC(C=2.0, gamma=0.5).fit(X, WORDS)
    state = codec.encode(model.to_arrays())
    scores, losses = before_learning(model, X[::-1], WORDS[::-1])
    np.testing.assert_array_equal(losses, model.predict(X[::-1]) != WORDS[::-1])
    assert codec.encode(model.to_arrays()) == state
    assert (scores[losses == 1.0] >= 0.0).all()
    values = IncrementalSVR(C=2.0, gamma=0.5).fit(X, VALUES)
    residuals, _ = before_learning(values, X, VALUES)
    np.testing.assert_array_equal(residuals, np.abs(VALUES - values.predict(X)))


# -- of a hosted model -------------------------------------------------------------------------------------------------


def hosted(**spec: Any) -> ModelState:
    return ModelState.empty(ModelSpec(id="m", C=1.0, kernel={"name": "rbf", "gamma": 0.5}, **spec), 10)  # type: ignore[arg-type]


def learn(state: ModelState, rows: Any, y: Any, now: float, *, cold: bool = False) -> Any:
    command = state.plan(Change(Batch(rows, np.asarray(y))), LIMITS, 10, now, None)
    return state.apply_cold(command) if cold else state.apply(command)


def drifting(n: int = 400, at: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(n, 2))
    sign = np.where(np.arange(n) < at, 1, -1)
    return rows, np.where(rows[:, 0] * sign > 0, "a", "b")


def test_a_hosted_model_tells_of_the_alarm_once_and_until_its_window_is_new() -> None:
    state = hosted(drift_alarms=0.01)
    rows, y = drifting()
    reported = []
    for i in range(0, 400, 10):
        outcome = learn(state, rows[i : i + 10], y[i : i + 10], float(i))
        if "drift" in outcome.more:
            reported.append((i, outcome.more["drift"]))
    assert state.watch is not None
    assert len(reported) == 1
    i, alarm = reported[0]
    assert 300 <= i <= 340
    assert 290 <= alarm["began"] <= 310
    assert state.watch.alarm is not None
    report = state.watch.report()
    assert report["rolling"][-1] > 0.5 > 0.1 > report["rolling"][3]
    assert {one["label"] for one in report["classes"]} == {"a", "b"}
    since = state.watch.shown()["alarm"]["n_since"]
    leaving = list(state.window.arrivals)[: 400 - since]
    state.apply(state.plan(_removing(leaving), LIMITS, 10, 500.0, None))
    assert state.watch.shown()["alarm"] is None
    assert state.watch.alarms == 1


def _removing(keys: list[Any]) -> Change:
    return Change(remove=Removal(keys=keys))


def test_a_watch_is_in_the_snapshot_and_begins_again_with_an_erasure() -> None:
    state = hosted(drift_alarms=0.01)
    rows, y = drifting()
    learn(state, rows[:150], y[:150], 1.0)
    learn(state, rows[150:290], y[150:290], 2.0)
    again = ModelState.decode(state.spec, 10, state.encode())
    for one in (state, again):
        learn(one, rows[290:], y[290:], 3.0)
    assert state.watch is not None
    assert again.watch is not None
    assert state.watch.alarm is not None
    assert codec.encode(again.watch.to_document()) == codec.encode(state.watch.to_document())
    state.forget([next(iter(state.window.arrivals))])
    assert state.watch.shown() == Watch(0.01).shown() | {"alarms": 1}


def test_a_model_that_is_not_watched_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("scored")

    monkeypatch.setattr(Watch, "score", fail)
    state = hosted()
    learn(state, X, SIGNS, 1.0)
    learn(state, X + 1.0, SIGNS, 2.0)
    assert b"watch" not in state.encode()
    assert state.copy().watched is None


def test_what_is_reached_from_nothing_or_refused_is_scored_as_on_a_path() -> None:
    one, other = hosted(drift_alarms=0.01), hosted(drift_alarms=0.01)
    for state in (one, other):
        learn(state, X[:30], SIGNS[:30], 1.0)
    learn(one, X[30:], SIGNS[30:], 2.0)
    learn(other, X[30:], SIGNS[30:], 2.0, cold=True)
    assert one.watch is not None
    assert other.watch is not None
    np.testing.assert_allclose(
        one.watch.to_document()["test"]["scores"], other.watch.to_document()["test"]["scores"], atol=1e-6
    )
    assert one.watch.test.n == other.watch.test.n == N - 30


def test_another_C_ends_an_alarm_and_a_new_class_is_passed_over() -> None:
    state = hosted(drift_alarms=0.01)
    rows, y = drifting()
    for start, end in ((0, 150), (150, 290), (290, 400)):
        learn(state, rows[start:end], y[start:end], float(end))
    assert state.watch is not None
    assert state.watch.alarm is not None
    n = state.watch.test.n
    learn(state, rows[:2] + 9.0, ["c", "a"], 3.0)
    assert state.watch.test.n == n + 1
    state.apply(state.plan(Change(edits=Edits(C=3.0)), LIMITS, 10, 4.0, None))
    assert state.watch.alarm is None


def switched(state: ModelState, rate: float | None) -> Any:
    """Log a change of the test for drift, and apply what the log holds."""
    command = state.plan(Change(edits=Edits(change={"drift_alarms": rate})), LIMITS, 10, 5.0, None)
    return state.apply(Command.decode(command.encode()))


@pytest.mark.parametrize("made", [{}, {"drift_alarms": 0.01}])
def test_the_test_of_a_live_model_is_switched_on_and_off(made: dict[str, Any]) -> None:
    state = hosted(**made)
    switched(state, 0.05)  # before the first example, too
    learn(state, X[:30], SIGNS[:30], 1.0)
    learn(state, X[30:40], SIGNS[30:40], 2.0)
    decided = state.estimator.window_y.copy(), state.C
    assert state.watch is not None
    assert (state.watch.false_alarms, state.watch.test.n) == (0.05, 10)
    assert switched(state, 0.05).events == 0  # the same rate: the test goes on
    assert state.watch.test.n == 10
    for rate in (0.2, None):
        switched(state, rate)
        again = ModelState.decode(state.spec, 10, state.encode())
        for one in (state, again):
            assert (None if one.watch is None else one.watch.false_alarms) == rate
    assert state.copy().watched is None
    np.testing.assert_array_equal(state.estimator.window_y, decided[0])
    assert (state.C, state.version) == (decided[1], 6)


def test_a_task_without_errors_gets_no_test() -> None:
    state = ModelState.empty(ModelSpec(id="m", task="oneclass"), 10)
    with pytest.raises(InvalidInput, match="is no parameter of oneclass"):
        switched(state, 0.05)


def test_a_test_may_take_some_examples_alone() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(120, 2))
    y = rows[:, 0] * np.where(np.arange(120) < 90, 1.0, -1.0)
    model, taken = IncrementalSVR(C=1.0, gamma=0.5).fit(rows, y), np.arange(120) % 2 == 1
    found = drift(model, false_alarms=0.2, run=200, tested=taken)
    left = np.abs(leave_one_out(model).decisions - y)
    alarm = DriftTest(0.2, run=200).learn(left[taken])
    assert alarm is not None
    assert found.alarm is not None
    assert (found.alarm.began, found.alarm.at) == (2 * alarm.began, 2 * alarm.at)


@pytest.mark.parametrize("task", ["oneclass", "pu", "l2svc"])
def test_tasks_without_leave_one_out_errors_cannot_be_watched(task: str) -> None:
    with pytest.raises(ValueError, match="is no parameter of"):
        ModelSpec(id="m", task=task, drift_alarms=0.01)
