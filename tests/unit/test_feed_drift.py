"""Drift of feeds: errors equal those of retraining, one update makes a remedy, and a choice is replayed as logged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from livesvm.service.feeds import drift as feed_drift
from livesvm.service.feeds.commands import FeedUpdate, Observations, decode_call
from livesvm.service.feeds.forecaster import StepUpdate
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.state import FeedState
from livesvm.service.hosting.drift import DriftQuestion, look_for_drift_of_feed
from livesvm.service.hosting.handle import FeedCopy
from livesvm.service.store import codec
from livesvm.solvers import DriftTest
from livesvm.solvers.analyses.leave_one_out.assessment import dealt
from livesvm.solvers.errors import InvalidInput

STEPS, WINDOW, NEWEST = (1, 3), 48, 8
FIXED = {"C": 1.0, "gamma": 0.05, "represent": "level", "lags": 3, "rolling": {}, "season": 0, "every": "1h"}

Floats = NDArray[np.float64]


def turning(n: int, at: int, seed: int = 0) -> Floats:
    """Return an autoregression of which the sign turns over."""
    noise, y = np.random.default_rng(seed).normal(size=n), [0.0]
    for t in range(1, n):
        y.append((0.9 if t < at else -0.9) * y[-1] + noise[t])
    return 5.0 + 3.0 * np.array(y)


def empty(**given: Any) -> FeedState:
    own = {"target": "y", "window": WINDOW, "steps": list(STEPS)}
    return FeedState.empty(spec_of(own | FIXED | given))


def calls(y: Floats, size: int) -> list[Observations]:
    rows = [{"time": 3600.0 * t, "y": float(value)} for t, value in enumerate(y)]
    return [Observations.of(rows[i : i + size], None, 0.0) for i in range(0, len(rows), size)]


def learnt(y: Floats, **given: Any) -> FeedState:
    state = empty(**given)
    for call in calls(y, 12):
        state.apply(call)
    return state


def asked(state: FeedState, **given: Any) -> Any:
    return look_for_drift_of_feed(FeedCopy(state.spec, state.encode(), state.version), DriftQuestion(**given))


def examples(state: FeedState, i: int) -> tuple[Any, Floats, Floats]:
    """Return a step's model, and its examples as it sees them, oldest first."""
    feed = state.forecaster
    assert feed.rows is not None
    known = feed.rows.known(i)
    assert known == feed.models[i].models[0].keys_
    X, y = feed.examples(i, known)
    model = feed.models[i]
    return model, model.scaled(X), model._targets(y)


def errors_without_each(peer: Any, X: Floats, y: Floats, start: int, count: int) -> Floats:
    """Return losses of the newest examples by models of those from ``start`` on, retrained without them.

    Of values that is without each; of directions without a fold, and the rest of each class weighs as much as all.
    """
    newest, window, by_class = np.arange(len(y) - count, len(y)), np.arange(start, len(y)), isinstance(peer, SVC)
    fold, lost = dealt(y[newest], 10) if by_class else np.arange(count), np.empty(count)
    for name in np.unique(fold):
        out, weights = newest[fold == name], np.ones(len(y))
        rest = np.setdiff1d(window, out)
        for label in np.unique(y) if by_class else ():
            weights[rest[y[rest] == label]] = np.sum(y[window] == label) / np.sum(y[rest] == label)
        found = peer.fit(X[rest], y[rest], weights[rest]).predict(X[out])
        lost[fold == name] = found != y[out] if by_class else abs(found - y[out])
    return lost


@pytest.mark.parametrize("task", ["value", "direction"])
def test_errors_are_those_of_models_retrained_from_nothing(task: str) -> None:
    state = learnt(turning(96, 84), task=task)
    reported = asked(state, newest=NEWEST)
    assert [one["step"] for one in reported["steps"]] == list(STEPS)
    for i, one in enumerate(reported["steps"]):
        model, X, y = examples(state, i)
        n, unit = len(y), 1.0 if task == "direction" else model.scale.unit

        def peer(C: float) -> Any:
            if task == "direction":
                return SVC(C=C, gamma=0.05, tol=1e-10)
            return SVR(C=C, gamma=0.05, epsilon=0.05, tol=1e-10)

        every = unit * errors_without_each(peer(1.0), X, y, 0, n)
        assert one["n_examples"] == n
        assert one["error"] == pytest.approx(every.mean(), abs=1e-5)
        assert one["rolling"] == pytest.approx([part.mean() for part in np.array_split(every, 8)], abs=1e-5)
        assert one["present"] == pytest.approx(every[-NEWEST:].mean(), abs=1e-5)
        assert {remedy["kind"] for remedy in one["remedies"]} == {"window", "C"}
        for remedy in one["remedies"]:
            C, start = (remedy["value"], 0) if remedy["kind"] == "C" else (1.0, n - int(remedy["value"]))
            lost = unit * errors_without_each(peer(C), X, y, start, NEWEST)
            assert remedy["error"] == pytest.approx(lost.mean(), abs=1e-5), remedy
            assert remedy["better"] == pytest.approx(one["present"] - lost.mean(), abs=1e-5)
        before, scores = one["before_learning"], state.forecaster.scores[i]
        made, actual, last = scores.recent[:, 3], scores.recent[:, 6], scores.recent[:, 7]
        losses = (made > 0) != (actual > last) if task == "direction" else np.abs(made - actual)
        assert before["error"] == pytest.approx(losses.mean())
        assert before["false_alarms"] == feed_drift.FALSE_ALARMS / len(STEPS)


def test_the_window_s_test_takes_each_hth_error_at_a_share_of_the_rate() -> None:
    readings = turning(96, 96)
    readings[80:] *= np.where(np.arange(16) % 2, 20.0, -20.0)
    state = learnt(readings)
    reported = asked(state, false_alarms=0.5)
    alarms = 0
    for i, one in enumerate(reported["steps"]):
        model, X, y = examples(state, i)
        lost = errors_without_each(SVR(C=1.0, gamma=0.05, epsilon=0.05, tol=1e-12), X, y, 0, len(y))
        feed = state.forecaster
        assert feed.rows is not None
        slots = feed.rows.slot[feed.rows.places(model.models[0].keys_)] + STEPS[i]
        taken = np.flatnonzero(slots % STEPS[i] == 0)
        test = DriftTest(0.5 / len(STEPS), run=feed_drift.RUN)
        alarm = test.learn(lost[taken])
        assert one["evidence"] == pytest.approx(test.strongest, rel=1e-3)
        assert (one["alarm"] is None) == (alarm is None)
        if alarm is not None:
            alarms += 1
            began = int(slots[taken[alarm.began - 1]])
            assert one["alarm"]["began"] == f"1970-01-{began // 24 + 1:02d}T{began % 24:02d}:00:00+00:00"
            assert one["alarm"]["n_since"] == len(y) - int(taken[alarm.began - 1])
    assert alarms >= 1


def test_one_update_makes_the_models_that_were_judged_and_is_replayed() -> None:
    state = learnt(turning(96, 72))
    before = FeedState.decode(state.spec, state.encode())
    changes = [StepUpdate(1, 20, None), StepUpdate(3, 30, 4.0)]
    call = decode_call(FeedUpdate(changes, None, 1.0).encode())
    call.check(state.forecaster)
    done = state.apply(call)
    assert [(one["kind"], one["step"], one["C"]) for one in done["events"]] == [
        ("updated", 1, 1.0),
        ("updated", 3, 4.0),
    ]
    for i, (keep, C) in enumerate(((20, 1.0), (30, 4.0))):
        model, X, y = examples(state, i)
        assert len(y) == keep
        assert model.recipe.C == C
        peer = SVR(C=C, gamma=0.05, epsilon=0.05, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(model.models[0].predict(X), peer.predict(X), atol=1e-5)
    again = FeedState.decode(state.spec, state.encode())
    before.apply(call)
    more = calls(turning(120, 72), 12)[8:]
    for reading in more:
        reported = [one.apply(reading)["forecasts"] for one in (state, again, before)]
        for other in reported[1:]:
            assert [f["value"] for f in other] == pytest.approx([f["value"] for f in reported[0]], abs=1e-6)
    assert state.forecaster.gap() < 1e-8
    assert [len(examples(state, i)[2]) for i in range(2)] == [20 + 24, WINDOW - 3]  # the window has grown, and slides


@pytest.mark.parametrize(("change", "why"), [(StepUpdate(2, None, 1.0), "none of"), (StepUpdate(1, 90), "hold 47")])
def test_an_update_that_cannot_be_is_refused_before_it_is_logged(change: StepUpdate, why: str) -> None:
    state = learnt(turning(60, 60))
    with pytest.raises(InvalidInput, match=why):
        FeedUpdate([change], None, 1.0).check(state.forecaster)
    with pytest.raises(InvalidInput, match="no models"):
        FeedUpdate([change], None, 1.0).check(empty().forecaster)
    with pytest.raises(InvalidInput, match="none of"):
        asked(state, steps=(2,))


def chosen_as_hosted(state: FeedState, call: Observations) -> Observations:
    """Return the call as it is logged, with what is chosen before it."""
    return call.with_given(state.forecaster.best_now()) if state.forecaster.choice_due else call


def test_a_choice_is_made_once_with_the_call_that_it_is_logged_with(monkeypatch: pytest.MonkeyPatch) -> None:
    y = turning(160, 90)
    y[100:] *= 8.0
    state, log = empty(C="auto", gamma="auto", on_drift="choose", steps=[1]), []
    kinds: list[list[str]] = []
    for call in calls(y, 4):
        log.append(chosen_as_hosted(state, call).encode())
        kinds.append([event["kind"] for event in state.apply(decode_call(log[-1]))["events"]])
    drifted = [at for at, found in enumerate(kinds) if "drift" in found]
    assert drifted
    assert [at for at, found in enumerate(kinds) if "chosen" in found] == [
        at + 1 for at in drifted if at + 1 < len(log)
    ]

    def no_alarm(*_: Any) -> None:
        return None

    monkeypatch.setattr(feed_drift, "learn", no_alarm)  # whatever rounding makes of the test, choices are as logged
    again = empty(C="auto", gamma="auto", on_drift="choose", steps=[1])
    for half in (log[:20], log[20:]):
        for record in half:
            again.apply(decode_call(record))
        again = FeedState.decode(again.spec, again.encode())
    assert again.forecaster.chosen() == state.forecaster.chosen()
    assert again.forecaster.choice is not None
    assert state.forecaster.choice is not None
    assert again.forecaster.choice.table() == state.forecaster.choice.table()
    found, expected = ([one.value for one in each.forecaster.latest] for each in (again, state))
    assert found == pytest.approx(expected, abs=1e-7)


def test_records_of_before_choose_in_the_midst_of_a_call() -> None:
    y = turning(160, 90)
    y[100:] *= 8.0
    state = empty(C="auto", gamma="auto", on_drift="choose", steps=[1])
    for call in calls(y, 20):
        document = codec.decode(call.encode())
        del document["given"]
        outcome = state.apply(decode_call(codec.encode(document)))
        kinds = [event["kind"] for event in outcome["events"]]
        assert kinds.count("chosen") == kinds.count("drift")
    assert not state.forecaster.choice_due


def test_a_choice_that_is_due_is_in_the_snapshot_and_ends_with_an_erasure() -> None:
    state = learnt(turning(96, 96), on_drift="choose")
    state.forecaster.choice_due = True
    again = FeedState.decode(state.spec, state.encode())
    assert again.forecaster.choice_due
    again.forget([3600.0 * 90], beyond=False)
    assert not again.forecaster.choice_due
