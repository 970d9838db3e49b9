"""Several classes: labels of any kind, one window, one version, and what scikit-learn's one-versus-one says."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.svm import SVC

from livesvm.solvers import FrankWolfeSVC, IncrementalSVC, k_fold, leave_one_out, time_limit
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.analyses.leave_one_out import models_without
from livesvm.solvers.analyses.leave_one_out.by_path import decisions_by_updates
from livesvm.solvers.errors import InvalidInput, MemoryLimit, SolverError, TimeLimit
from livesvm.solvers.homotopy import batch_update, run
from livesvm.solvers.homotopy.pairs import call_each
from livesvm.solvers.homotopy.run import follow
from livesvm.solvers.homotopy.solve import solve
from livesvm.solvers.models import path_problem
from livesvm.solvers.models.model_view import View
from livesvm.solvers.models.pairs_predictor import PairsCertificate
from livesvm.solvers.models.path_problem import PathProblem
from livesvm.solvers.models.window import Window
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.interrupt import interruptible
from livesvm.solvers.runtime.progress import Teller
from tests.interrupts import Looks, Stop
from tests.several import gaps

DIGITS = load_digits(return_X_y=True)
IRIS = load_iris(return_X_y=True)
GAMMA = 0.0005


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first ``n`` digits."""
    X, y = DIGITS
    return X[:n], y[:n]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Say whether two checkpoints are equal to the bit."""
    return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_it_predicts_as_one_versus_one_does(load: Any, C: float) -> None:
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    order = np.random.default_rng(0).permutation(len(X))[:700]
    half = len(order) // 2
    here, there = order[:half], order[half:]
    ours = IncrementalSVC(C=C, gamma=0.03).fit(X[here], y[here])
    theirs = SVC(C=C, gamma=0.03, tol=1e-8).fit(X[here], y[here])
    assert np.mean(ours.predict(X[there]) != theirs.predict(X[there])) <= 1e-3
    for shape in ("ovr", "ovo"):
        ours.decision_function_shape = theirs.decision_function_shape = shape
        found, expected = ours.decision_function(X[there]), theirs.decision_function(X[there])
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4 * C)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("labels", [["red", "green", "blue"], [7, -3, 1000], [3.0, 1.0, 2.0]])
def test_labels_may_be_of_any_kind(labels: list[Any]) -> None:
    X, y = IRIS
    names = np.array(labels)[y]
    model = IncrementalSVC(gamma=0.2).fit(X, names)
    assert model.classes_.tolist() == sorted(labels)
    assert np.mean(model.predict(X) == names) > 0.95
    assert model.window_y.tolist() == names.tolist()
    assert set(model.pairs_) == set(gaps(model))


def test_classes_come_one_after_the_other() -> None:
    X, y = digits(300)
    model = IncrementalSVC(C=5.0, gamma=GAMMA)
    for label in [4, 9, 0, 7, 2]:
        model.update(add=(X[y == label], y[y == label]), keys=np.flatnonzero(y == label).tolist())
    whole = IncrementalSVC(C=5.0, gamma=GAMMA).fit(model.window_X, model.window_y)
    assert model.classes_.tolist() == [0, 2, 4, 7, 9]
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-6)
    assert max(one.relative for one in gaps(model).values()) < 1e-8


def test_a_class_may_come_by_a_correction_and_leave_again() -> None:
    X, y = IRIS
    model = IncrementalSVC(gamma=0.2).fit(X[:100], y[:100])
    model.update(relabel=dict.fromkeys(range(40, 60), 5))
    assert model.classes_.tolist() == [0, 1, 5]
    assert max(one.relative for one in gaps(model).values()) < 1e-8
    model.update(relabel={key: int(y[key]) for key in range(40, 60)})
    assert model.classes_.tolist() == [0, 1, 5]  # a label that was known stays known
    assert set(model.predict(X[:100]).tolist()) == {0, 1}


def test_words_and_numbers_do_not_mix() -> None:
    model = IncrementalSVC(gamma=0.2).fit([[0.0], [1.0], [2.0]], [1, 2, 3])
    with pytest.raises(InvalidInput, match="as no label before is"):
        model.update(add=([[3.0]], ["four"]))
    assert model.n_window_ == 3
    of_words = IncrementalSVC(gamma=0.2).fit([[0.0], [1.0]], np.array(["a", "b"], dtype=object))
    with pytest.raises(InvalidInput, match="row 0: 1 is no string"):
        of_words.update(add=([[3.0]], [1]))
    with pytest.raises(InvalidInput, match="row 1: is missing"):
        model.update(add=([[3.0], [4.0]], np.array([1, None], dtype=object)))


def test_labels_that_were_fixed_are_all_there_are() -> None:
    model = IncrementalSVC(gamma=0.2, classes=["a", "b", "c"]).fit([[0.0], [1.0]], ["a", "b"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(InvalidInput, match="'d' is not one of the labels"):
        model.update(add=([[3.0]], ["d"]))
    model.update(add=([[9.0]], ["c"]))
    assert model.predict([[9.0]]).tolist() == ["c"]


@pytest.mark.parametrize("known", [["m"], ["f", "m"], ["f", "m", "t"]])
@pytest.mark.parametrize("new", [["a"], ["h"], ["z"], ["a", "z"]])
@pytest.mark.parametrize("fault", ["key", "feature"])
def test_what_is_refused_leaves_no_trace_of_the_classes_that_it_names(
    known: list[str], new: list[str], fault: str
) -> None:
    X, y = np.arange(12.0)[:, None], np.resize(known, 12)
    model = IncrementalSVC(gamma=0.5).fit(X, y)
    before, decisions = model.to_arrays(), model.decision_function(X)
    rows = [[float("nan") if fault == "feature" else 3.0]] * len(new)
    with pytest.raises(InvalidInput):
        model.update(add=(rows, new), remove=[99] if fault == "key" else [0])
    assert same(before, model.to_arrays())
    assert np.array_equal(decisions, model.decision_function(X))
    model.update(add=([[3.0]] * len(new), new), remove=[0])
    afresh = IncrementalSVC(gamma=0.5).fit(np.vstack([X[1:], [[3.0]] * len(new)]), [*y[1:], *new])
    np.testing.assert_allclose(model.decision_function(X), afresh.decision_function(X), atol=1e-8)


def test_one_update_brings_one_class_and_relabels_the_rest_as_another() -> None:
    model = IncrementalSVC(gamma=1.0).fit([[0.0], [1.0], [2.0]], ["a"] * 3)
    model.update(add=([[3.0]], ["b"]), relabel={1: "c"})
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.window_y.tolist() == ["a", "c", "a", "b"]
    assert model.certificate().relative_gap < 1e-9


def test_a_certificate_says_how_far_each_pair_is() -> None:
    model = IncrementalSVC(gamma=0.2).fit(*IRIS)
    whole = model.certificate()
    assert isinstance(whole, PairsCertificate)
    assert whole.pairs.keys() == {(0, 1), (0, 2), (1, 2)}
    assert whole.relative_gap == max(one.relative_gap for one in whole.pairs.values()) < 1e-9
    assert whole.primal == pytest.approx(sum(one.primal for one in gaps(model).values()), rel=1e-9)
    assert model.certificate_of(2, 0) == whole.pairs[0, 2]
    with pytest.raises(InvalidInput, match="not two of the classes"):
        model.certificate_of(1, 1)


@pytest.mark.parametrize(("n_jobs", "brings"), [(1, None), (2, 0), (1, 4), (2, 9)])
@pytest.mark.parametrize("way", ["together", "one by one"])
def test_a_pair_that_fails_takes_the_others_back(
    monkeypatch: pytest.MonkeyPatch, n_jobs: int, brings: int | None, way: str
) -> None:
    X, y = digits(430)
    first = np.where(y[:300] == brings, 8, y[:300])
    model = IncrementalSVC(C=5.0, gamma=GAMMA, n_jobs=n_jobs).fit(X[:300], first)
    model.update(add=(X[400:], np.where(y[400:] == brings, 8, y[400:])))
    before, decisions = model.to_arrays(), model.decision_function(X)
    calls = 0

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def update(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 20:
                raise MemoryLimit(2, 1)
            return real(*args, **more)

        return update

    def failed(*args: Any) -> Any:
        call_each(*args)
        raise MemoryLimit(2, 1)

    if way == "together":
        monkeypatch.setattr(path_problem, "call_each", failed)
    else:
        monkeypatch.setattr(PathProblem, "place", lambda *_: None)
    monkeypatch.setattr(batch_update, "update", failing(batch_update.update))
    with pytest.raises(MemoryLimit):
        model.update(add=(X[300:400], y[300:400]), remove=model.keys_[:50])
    monkeypatch.undo()
    assert same(before, model.to_arrays())
    assert np.array_equal(decisions, model.decision_function(X))
    model.update(add=(X[300:400], y[300:400]), remove=model.keys_[:50])
    assert model.certificate().relative_gap < 1e-9
    assert max(one.relative for one in gaps(model).values()) < 1e-8


def test_a_slide_is_one_call_for_all_pairs_and_ends_where_the_general_way_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = digits(600)
    quick = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:400], y[:400])
    general = copy.deepcopy(quick)
    for model in (quick, general):
        model.prepare()
    for start in range(400, 600, 30):
        change: dict[str, Any] = {"add": (X[start : start + 30], y[start : start + 30]), "remove": quick.keys_[:30]}
        with monkeypatch.context() as patched:
            patched.setattr(batch_update, "update", lambda *_, **__: pytest.fail("not at once"))
            quick.update(**change)
        with monkeypatch.context() as patched:
            patched.setattr(PathProblem, "place", lambda *_: None)
            general.update(**change)
        np.testing.assert_allclose(quick.decision_function(X), general.decision_function(X), atol=1e-9)
        np.testing.assert_allclose(quick.dual_coef_, general.dual_coef_, atol=1e-8)
    assert quick.certificate().relative_gap < 1e-9
    assert max(one.relative for one in gaps(quick).values()) < 1e-8


def test_a_slide_is_the_same_in_any_thread_and_whatever_is_asked_between() -> None:
    X, y = digits(700)
    plain = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:400], y[:400])
    asked = copy.deepcopy(plain)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for i, start in enumerate(range(400, 700, 30)):
            new = X[start : start + 30], y[start : start + 30]
            plain.update(add=new, remove=plain.keys_[:30])
            (one if i % 2 else other).submit(asked.update, add=new, remove=asked.keys_[:30]).result()
            asked.certificate()
            pickle.dumps(asked)
            if i == 4:
                asked.cool()
    assert plain.keys_ == asked.keys_
    np.testing.assert_allclose(plain.dual_coef_, asked.dual_coef_, atol=1e-9)
    assert asked.certificate().relative_gap < 1e-9


def exits_of_calls(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the exits of all pairs in calls from now on."""
    exits: set[int] = set()

    def noted(*args: Any) -> Any:
        found, trace = call_each(*args)
        exits.update(exit_ for exit_, *_ in found)
        return found, trace

    monkeypatch.setattr(path_problem, "call_each", noted)
    return exits


def test_memory_that_nothing_was_written_to_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = digits(700)
    model = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:400], y[:400])
    window, exits = model._window, exits_of_calls(monkeypatch)
    rng = np.random.default_rng(0)
    while len(X) > window.next_key + 40:
        for each in window.pairs.values():
            state = each.state
            state.rows.values[state.rows.slot_of < 0] = np.nan
            state.rows.values[:, state.n_slots :] = np.nan
        start, m = window.next_key, int(rng.integers(1, 40))  # so that more come than have left
        model.update(add=(X[start : start + m], y[start : start + m]), remove=model.keys_[: int(rng.integers(1, 30))])
    assert exits == {Exit.DONE, Exit.NO_PLACE}
    assert max(one.relative for one in gaps(model).values()) < 1e-8


def test_slots_of_an_update_that_failed_are_as_good_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = digits(500)
    model = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:300], y[:300])
    calls = 0

    def failing(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        trace = follow(*args)
        if calls == 40:
            raise MemoryLimit(2, 1)
        return trace

    with monkeypatch.context() as patched:
        patched.setattr(PathProblem, "place", lambda *_: None)
        patched.setattr(batch_update, "follow", failing)
        with pytest.raises(MemoryLimit):
            model.update(add=(X[300:360] + 100.0, y[300:360]))
    model.prepare()
    exits = exits_of_calls(monkeypatch)
    for start in range(360, 480, 20):
        model.update(add=(X[start : start + 20], y[start : start + 20]), remove=model.keys_[:10])
    assert exits == {Exit.DONE, Exit.NO_PLACE}
    assert model.certificate().relative_gap < 1e-9
    assert max(one.relative for one in gaps(model).values()) < 1e-8


def test_an_error_that_has_ended_an_update_does_not_end_the_next_one() -> None:
    """The call ends in one pair, and another before it has yet to go on, as rows are not there."""
    X, y = digits(420)
    model = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:300], y[:300])
    model.update(add=(X[300:310], y[300:310]))
    change: dict[str, Any] = {"add": (X[310:320], y[310:320]), "remove": model.keys_[:10]}
    for end_at in range(40, 120, 8):
        copied = copy.deepcopy(model)
        copied.prepare()
        for place, each in enumerate(copied._window.pairs.values()):
            bound = np.flatnonzero(each.state.examples.segment[: each.state.n_slots] % 2 == 0)
            each.state.rows.forget(bound if place % 3 == 0 else bound[:0])
        looks = Looks(end_at)
        with interruptible(looks) as interrupt:
            looks.start(interrupt)
            with pytest.raises(Stop):
                copied.update(**change)
        counting = Looks()
        with interruptible(counting) as interrupt:
            counting.start(interrupt)
            copied.update(**change)
        assert counting.count > 0
        assert copied.certificate().relative_gap < 1e-9


def test_a_pickled_model_learns_on() -> None:
    X, y = digits(340)
    model = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:300], y[:300])
    model.update(add=(X[300:320], y[300:320]), remove=model.keys_[:20])
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        each.update(add=(X[320:], y[320:]), remove=each.keys_[:20])
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("name", ["y", "sample_weight", "beta"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_arrays_that_do_not_belong_together_are_refused(name: str, n_classes: int) -> None:
    X, y = IRIS
    model = IncrementalSVC(C=2.0, gamma=0.2).fit(X[: 50 * n_classes], y[: 50 * n_classes])
    arrays = model.to_arrays()
    with pytest.raises(InvalidInput, match="do not belong together"):
        IncrementalSVC.from_arrays(model.get_params(), arrays | {name: arrays[name][:-1]})


def test_a_pair_that_is_not_done_at_once_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel rows that are not there, no space in the factor, and an end that is not good enough at first."""
    X, y = digits(400)
    model = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:300], y[:300])
    calls, window, exits = 0, model._window, exits_of_calls(monkeypatch)

    def every_other(*args: Any) -> int:
        nonlocal calls
        calls += 1
        found = solve(*args)
        return found if calls % 3 or found != Exit.DONE else Exit.INEXACT

    monkeypatch.setattr(run.Solve, "_entry", lambda *_: every_other)
    for start in range(300, 400, 20):
        for each in window.pairs.values():
            each.state.rows.forget(np.flatnonzero(each.state.examples.segment[: each.state.n_slots] % 2 == 0))
        model.update(add=(X[start : start + 20], y[start : start + 20]), remove=model.keys_[:20])
        assert model.certificate().relative_gap < 1e-9
    assert exits >= {Exit.DONE, Exit.NEED_ROW, Exit.NEED_ROWS}
    assert calls > 45
    assert max(one.relative for one in gaps(model).values()) < 1e-8


def test_an_update_that_is_stopped_anywhere_changes_nothing() -> None:
    X, y = digits(260)
    model = IncrementalSVC(C=5.0, gamma=GAMMA).fit(X[:180], y[:180])
    for start in (180, 190):
        model.update(add=(X[start : start + 10], y[start : start + 10]))
    before = model.to_arrays()
    counting, other = Looks(), copy.deepcopy(model)
    other.prepare()
    with interruptible(counting) as interrupt:
        counting.start(interrupt)
        other.update(add=(X[200:], y[200:]), remove=model.keys_[:30])
    assert counting.count > 45
    for end_at in np.linspace(1, 0.8 * counting.count, 8).astype(int).tolist():
        looks = Looks(end_at)
        with interruptible(looks) as interrupt:
            looks.start(interrupt)
            with pytest.raises(Stop):
                model.update(add=(X[200:], y[200:]), remove=model.keys_[:30])
        assert same(before, model.to_arrays())
    model.update(add=(X[200:], y[200:]), remove=model.keys_[:30])
    assert model.certificate().relative_gap < 1e-9


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_time_that_is_over_ends_all_pairs(n_jobs: int) -> None:
    X, y = digits(1500)
    model = IncrementalSVC(C=5.0, gamma=GAMMA, n_jobs=n_jobs).fit(X[:100], y[:100])
    before = model.to_arrays()
    with pytest.raises(TimeLimit), time_limit(0.02):
        model.update(add=(X[100:], y[100:]))
    assert same(before, model.to_arrays())


def test_threads_make_no_difference() -> None:
    X, y = digits(500)
    models = [IncrementalSVC(C=5.0, gamma=GAMMA, n_jobs=n_jobs) for n_jobs in (None, 1, 2, -1)]
    for model in models:
        model.fit(X[:400], y[:400])
        model.update(add=(X[400:], y[400:]), remove=model.keys_[:100])
    for model in models[1:]:
        assert same(models[0].to_arrays(), model.to_arrays())


@pytest.mark.parametrize("way", ["arrays", "pickle", "deepcopy"])
def test_a_copy_lives_on_its_own(way: str) -> None:
    X, y = digits(400)
    model = IncrementalSVC(C=5.0, gamma=GAMMA, class_weight={3: 2.0}).fit(X[:300], y[:300])
    model.update(remove=model.keys_[10:60])
    made: dict[str, Callable[[], IncrementalSVC]] = {
        "arrays": lambda: IncrementalSVC.from_arrays(model.get_params(), model.to_arrays()),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),
        "deepcopy": lambda: copy.deepcopy(model),
    }
    other = made[way]()
    assert same(model.to_arrays(), other.to_arrays())
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-12)
    for each in (model, other):
        each.update(add=(X[300:], y[300:]), remove=each.keys_[:40])
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-6)
    assert other.certificate().relative_gap < 1e-9


def test_memory_for_kernel_rows_is_shared_by_all_pairs() -> None:
    X, y = digits(600)
    model = IncrementalSVC(C=5.0, gamma=GAMMA, cache_mb=8).fit(X[:500], y[:500])
    model.update(add=(X[500:], y[500:]), remove=model.keys_[:100])
    window: Any = model._window
    held = sum(each.state.rows.values.nbytes for each in window.pairs.values())
    assert held <= 1.01 * 8 * 2**20
    assert model.certificate().relative_gap < 1e-9


def test_kernel_values_may_be_given() -> None:
    X, y = IRIS
    K = X @ X.T
    given = IncrementalSVC(C=2.0, kernel="precomputed").fit(K[:120, :120], y[:120])
    linear = IncrementalSVC(C=2.0, kernel="linear").fit(X[:120], y[:120])
    assert (given.predict(K[:, :120]) == linear.predict(X)).all()
    window = [*range(20, 120), *range(120, 150)]
    given.update(remove=given.keys_[:20])
    given.update(add=(K[np.ix_(range(120, 150), window)], y[120:]))
    linear.update(add=(X[120:], y[120:]), remove=linear.keys_[:20])
    np.testing.assert_allclose(given.decision_function(K[:, window]), linear.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("class_weight", [{0: 0.2, 2: 5.0}, "balanced"])
def test_classes_may_weigh_differently(class_weight: Any) -> None:
    X, y = IRIS
    rows = np.r_[0:50, 50:80, 100:110]
    ours = IncrementalSVC(C=2.0, gamma=0.2, class_weight=class_weight).fit(X[rows], y[rows])
    theirs = SVC(C=2.0, gamma=0.2, tol=1e-8, class_weight=class_weight).fit(X[rows], y[rows])
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    ours.update(add=(X[110:150], y[110:150]), remove=ours.keys_[:20])
    theirs.fit(ours.window_X, ours.window_y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)


def test_two_balanced_classes_stay_balanced() -> None:
    X, y = IRIS[0][50:], IRIS[1][50:]
    ours = IncrementalSVC(C=2.0, gamma=0.2, class_weight="balanced").fit(X[10:70], y[10:70])
    ours.update(remove=ours.keys_[:15])
    ours.update(relabel={ours.keys_[0]: 2})
    theirs = SVC(C=2.0, gamma=0.2, tol=1e-8, class_weight="balanced").fit(ours.window_X, ours.window_y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    kept = dict(ours.balance_)
    with pytest.raises(InvalidInput):
        ours.update(add=(X[:5], y[:5]), keys=[1, 1, 2, 3, 4])
    with pytest.raises(InvalidInput):
        ours.update(add=(X[:5], y[:5]), sample_weight=1e100, C=1e100)
    assert ours.balance_ == kept


@pytest.mark.parametrize("class_weight", [None, "balanced", {2: 3.0}])
@pytest.mark.parametrize("kind", ["leave one out", "folds"])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_assessments_are_those_of_models_trained_without(class_weight: Any, kind: str, scale: str) -> None:
    rng = np.random.default_rng(3)
    X, y = IRIS
    rows = rng.permutation(150)[:60]
    X, y = X[rows], y[rows]
    model = IncrementalSVC(C=3.0, gamma=0.3, class_weight=class_weight, scale=scale).fit(X, y)
    X = X if scale == "none" else model.feature_scale_.apply(X)
    fold = np.arange(60) if kind == "leave one out" else rng.integers(0, 5, 60)
    found = leave_one_out(model) if kind == "leave one out" else k_fold(model, fold.tolist())
    wrong = 0
    for part in np.unique(fold):
        out = fold == part
        without = SVC(C=3.0, gamma=0.3, tol=1e-9, class_weight=class_weight, decision_function_shape="ovo")
        without.fit(X[~out], y[~out])
        np.testing.assert_allclose(found.decisions[out], without.decision_function(X[out]), atol=2e-5)
        wrong += int((without.predict(X[out]) != y[out]).sum())
    assert found.error == pytest.approx(wrong / 60)
    assert model.certificate().relative_gap < 1e-9


@pytest.mark.parametrize("least", [4, 100])
def test_one_path_takes_all_of_a_class_to_the_weights_without_one_of_them(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0] + rng.normal(size=40), [-0.5, 1.0])
    y[:3] = 9  # so few that each of them has an update of its own
    model, real, paths = IncrementalSVC(C=3.0, gamma=0.3, class_weight="balanced").fit(X, y), Window.update, 0

    def counted(*args: Any) -> Any:
        nonlocal paths
        paths += 1
        return real(*args)

    monkeypatch.setattr(Window, "update", counted)
    monkeypatch.setattr(models_without, "LEAST_OF_A_KIND", least)
    found = leave_one_out(model)
    assert paths == (6 if least == 4 else 40)
    expected, _ = decisions_by_updates(View(model).copy().model, np.arange(40)[:, None], Teller(None, 40))
    np.testing.assert_allclose(found.decisions, expected, rtol=0, atol=1e-9)


def test_what_is_of_two_classes_is_refused_by_name() -> None:
    model = IncrementalSVC(gamma=0.2).fit(*IRIS)
    with pytest.raises(InvalidInput, match="of two classes, not of 3") as caught:
        model.update(robust=Robustness(0.5, -1.0))
    assert caught.value.field == "robust"


def test_a_robust_model_takes_no_third_class() -> None:
    X, y = IRIS
    model = IncrementalSVC(gamma=0.2).fit(X[50:], y[50:])
    model.update(robust=Robustness(0.5, -1.0))
    with pytest.raises(InvalidInput, match="make it convex first"):
        model.update(add=(X[:2], y[:2]))
    assert model.classes_.tolist() == [1, 2]
    model.update(robust=Robustness(1.0, -1.0))
    model.update(add=(X[:2], y[:2]))
    assert model.classes_.tolist() == [0, 1, 2]


def test_ties_are_broken_as_asked() -> None:
    X, y = digits(600)
    ours = IncrementalSVC(C=0.01, gamma=0.001, break_ties=True).fit(X[:200], y[:200])
    theirs = SVC(C=0.01, gamma=0.001, tol=1e-9, break_ties=True).fit(X[:200], y[:200])
    assert np.mean(ours.predict(X) != theirs.predict(X)) <= 1e-3
    plain = IncrementalSVC(C=0.01, gamma=0.001).fit(X[:200], y[:200])
    assert (plain.predict(X) != ours.predict(X)).any()
    ours.decision_function_shape = "ovo"
    with pytest.raises(InvalidInput, match="break_ties"):
        ours.predict(X)


@pytest.mark.parametrize(
    ("y", "row"),
    [
        ([1, "five", 1, "five"], 1),
        (["a", "b", 7, "a"], 2),
        (["a", True, "b", "a"], 1),
        (["a", float("nan"), "b", "a"], 1),
        (["a", "b", None, "b"], 2),
        (np.array([1, 2, 1, "five"], object), 3),
    ],
)
def test_words_among_other_things_are_refused_by_row(y: Any, row: int) -> None:
    X = np.eye(4)
    for learn in (IncrementalSVC().fit, FrankWolfeSVC().fit, IncrementalSVC().partial_fit):
        with pytest.raises(InvalidInput) as caught:
            learn(X, y)
        assert (caught.value.field, caught.value.row) == ("y", row)
    model = IncrementalSVC().fit(X, ["a", "b", "a", "b"])
    with pytest.raises(InvalidInput, match="row 1"):
        model.update(relabel={0: "b", 1: 5})
    assert model.classes_.tolist() == ["a", "b"]
    with pytest.raises(InvalidInput, match="is no string"):
        IncrementalSVC(classes=["a", 1]).fit(X, ["a", "b", "a", "b"])


def test_an_update_that_is_refused_leaves_a_balanced_model_of_several_classes_as_it_was() -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3

    def kernel(A: Any, B: Any) -> Any:
        """Return an inner product that is no kernel with the rows that have a large first feature."""
        sign = np.where(np.abs(A[:, :1]) > 50, -1.0, 1.0) * np.where(np.abs(B[:, 0]) > 50, -1.0, 1.0)
        return np.where((np.abs(A[:, :1]) > 50) & (np.abs(B[:, 0]) > 50), -1e6, sign * (A @ B.T + 1.0))

    model = IncrementalSVC(kernel=kernel, class_weight="balanced").fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(SolverError):
        model.update(add=(np.full((300, 3), 100.0), np.arange(300) % 3))
    np.testing.assert_array_equal(model.decision_function(X), before)
    model.update(add=(X[:3] + 0.1, y[:3]))
    assert model.certificate().relative_gap < 1e-9
