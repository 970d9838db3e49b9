"""A model whose window slides without a solve: what it knows, keeps, and starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from livesvm.solvers import FrankWolfeSVC
from livesvm.solvers.errors import DuplicateKey, InvalidInput, NotOptimal, NotPositiveSemidefinite, UnknownKey
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.training_data import problems_of
from livesvm.solvers.frank_wolfe import by_blocks, growth
from livesvm.solvers.frank_wolfe import problem as problem_module
from livesvm.solvers.frank_wolfe.one_versus_one import PairProblem
from livesvm.solvers.frank_wolfe.problem import Known, balanced, gap_of
from livesvm.solvers.models.sliding_window import next_start

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=120) > 0, 1.0, -1.0)
Z = RNG.normal(size=(20, 3))
TOL = 1e-3


def model(n: int = 80, **params: Any) -> LiveL2SVC:
    """Return one that has learnt so many examples, trained."""
    made = LiveL2SVC(**{"C": 10.0, "gamma": 0.5} | params)
    made.update(add=(X[:n], Y[:n]), keys=range(n))
    made.retrain(tol=TOL)
    return made


def decisions(made: LiveL2SVC) -> Any:
    return made.predictor().decision_function(Z)


def of_peer(X: Any, y: Any, weights: Any = None, **params: Any) -> Any:
    """Return decisions of the estimator in batch, in units of the SVM's f."""
    peer = FrankWolfeSVC(**{"C": 10.0, "gamma": 0.5, "tol": TOL} | params).fit(X, y, weights)
    return peer.decision_function(Z) / peer.margin_[0]


def test_decisions_are_those_of_the_last_training_whatever_the_window_is() -> None:
    made = model()
    before = decisions(made)
    assert np.abs(before - of_peer(X[:80], Y[:80])).max() < 0.05
    made.update(add=(X[80:], Y[80:]), remove=range(40), reweight={50: 3.0}, relabel={60: -Y[60]}, decay=0.9)
    assert np.array_equal(decisions(made), before)
    made.retrain(tol=TOL)
    weights = np.where(np.arange(40, 120) < 80, 0.9, 1.0)
    weights[10] = 3.0
    y = Y[40:].copy()
    y[20] *= -1
    assert np.abs(decisions(made) - of_peer(X[40:], y, weights)).max() < 0.05
    assert made.certificate().relative_gap <= TOL


def pair_of(made: LiveL2SVC) -> tuple[PairProblem, Known | None]:
    """Return the problem of the only pair of classes of a window, and where its next training sets out."""
    w = made._examples_here
    kernel = made._kernel_of(made.window_features, made.window_sample_weight)
    costs = 10.0 * made.window_sample_weight
    _, (pair,) = problems_of(kernel, made.window_features, w.y[w.indices], costs, made._labels, 1)
    return pair, next_start(made._trained, w, pair, w.indices, made._labels)


@st.composite
def slides(draw: st.DrawFn) -> list[tuple[list[int], int]]:
    """Return the places that leave, and how many come, some times."""
    return draw(st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=6), st.integers(0, 5)), max_size=5))


@given(slides(), st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_g_at_the_start_is_what_the_coefficients_make_of_it(slides: list[Any], trainings: int) -> None:
    made, next_row = model(40), 40
    for number, (places, come) in enumerate(slides):
        keys = made.keys_
        leave = {keys[place] for place in places if place < len(keys) - 20}
        rows = np.arange(next_row, next_row + come) % 120
        made.update(add=(X[rows], Y[rows]) if come else None, remove=leave, keys=range(next_row, next_row + come))
        next_row += come
        if number < trainings and len({*made.window_y}) == 2:
            made.retrain(tol=TOL)
    if len({*made.window_y}) < 2:
        return
    for copy in (made, LiveL2SVC.from_arrays(made.get_params(), made.to_arrays())):
        pair, start = pair_of(copy)
        if start is None:
            assert not copy.window_coefficients.any()
            continue
        fresh = Known(start.b, pair.problem.parts(pair.problem.examples, start.b))
        assert np.abs(start.parts - fresh.parts).max() < 1e-8 * max(1.0, float(np.abs(fresh.parts).max()))


def test_a_start_is_balanced_between_the_classes() -> None:
    made = model()
    made.update(remove=[key for key, y in zip(made.keys_, made.window_y, strict=True) if y > 0][:10])
    pair, start = pair_of(made)
    assert start is not None
    problem = pair.problem
    now = balanced(problem, start)
    for c in (0, 1):  # the derivative of the twin's objective in the scale of a class
        own = np.where(problem.of_class == c, now.b, 0.0)
        assert own @ now.parts.sum(axis=0) == pytest.approx(own.sum(), rel=1e-9)
    assert np.allclose(now.parts, problem.parts(problem.examples, now.b))
    assert gap_of(problem, now.b, now.parts).dual > gap_of(problem, start.b, start.parts).dual


def test_a_warm_start_takes_fewer_steps_and_ends_where_a_cold_one_does() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3030, 5))
    y = np.where(rows[:, 0] * rows[:, 1] + 0.2 * rng.normal(size=3030) > 0, 1.0, -1.0)
    warm = LiveL2SVC(C=10.0, gamma=0.3)
    warm.update(add=(rows[:3000], y[:3000]))
    warm.retrain(tol=0.01)
    warm.update(add=(rows[3000:], y[3000:]), remove=range(30))
    cold = LiveL2SVC(C=10.0, gamma=0.3)
    cold.update(add=(rows[30:], y[30:]))
    found, other = warm.retrain(tol=0.01), cold.retrain(tol=0.01)
    (found_here,), (found_there,) = found.solutions, other.solutions
    assert found_here.steps < found_there.steps
    assert found_here.gap.primal == pytest.approx(found_there.gap.primal, rel=0.01)


@pytest.mark.parametrize("allowed", [0.5, 0.0])
def test_the_gap_stays_true_where_those_far_off_are_known_in_single_precision(
    allowed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem_module, "SMALL", 50)
    monkeypatch.setattr(growth, "FIRST", 100)
    monkeypatch.setattr(by_blocks, "TRUSTED", allowed)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(900, 2))
    y = np.where(rows[:, 0] + 0.3 * rng.normal(size=900) > 0, 1.0, -1.0)
    made = LiveL2SVC(C=10.0, gamma=0.5)
    made.update(add=(rows[:500], y[:500]))
    for start in range(0, 400, 100):
        found = made.retrain(tol=0.05)
        proof = made.certificate()
        assert proof.relative_gap == pytest.approx(found.relative_gap, rel=1e-9)
        assert proof.primal == pytest.approx(found.solutions[0].gap.primal, rel=1e-9)
        pair, known = pair_of(made)
        assert known is not None
        problem, rough = pair.problem, known.rough
        assert rough is not None
        assert rough.sum() > 20
        exact = problem.parts(problem.examples, known.b)
        assert np.abs(exact - known.parts)[:, ~rough].max() < 1e-9
        assert (exact.sum(axis=0)[rough] > 1.0).all()
        made.update(add=(rows[500 + start : 600 + start], y[500 + start : 600 + start]), remove=made.keys_[:100])


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sparse"])
def test_what_is_kept_is_what_was(name: str) -> None:
    made = model(kernel="rbf" if name == "sparse" else name, coef0=1.0)
    if name == "sparse":
        A = sparse.random_array((60, 3), density=0.2, format="csr", rng=2)
        made.retrain_on(A, np.where(np.arange(60) % 2, 1.0, -1.0), tol=TOL)
    made.update(add=(X[80:], Y[80:]), remove=range(40), reweight={50: 3.0})
    back = LiveL2SVC.from_arrays(made.get_params(), made.to_arrays())
    assert np.array_equal(decisions(back), decisions(made))
    assert back.keys_ == made.keys_
    for property in ("window_X", "window_y", "window_sample_weight"):
        assert np.array_equal(getattr(back, property), getattr(made, property))
    again, other = made.retrain(tol=TOL), back.retrain(tol=TOL)
    assert again.solutions[0].gap.primal == pytest.approx(other.solutions[0].gap.primal, rel=TOL)
    arrays = made.to_arrays()
    with pytest.raises(NotOptimal):
        LiveL2SVC.from_arrays(made.get_params(), arrays | {"y": arrays["y"][:-1]})


def test_sparse_training_data_give_the_same_decisions_as_dense_ones() -> None:
    A = sparse.random_array((80, 3), density=0.3, format="csr", rng=2)
    made, dense = model(), model()
    made.retrain_on(A, Y[:80], tol=1e-5)
    dense.retrain_on(A.toarray(), Y[:80], tol=1e-5)
    assert np.abs(decisions(made) - decisions(dense)).max() < 1e-3
    rows = sparse.csr_array(Z)
    assert np.allclose(made.predictor().decision_function(Z), decisions(made))
    assert rows.shape == Z.shape


def test_a_solution_is_taken_over_by_key_by_a_window_that_has_slid() -> None:
    live, other = model(), model()
    other.C, other.gamma = 3.0, 1.0
    other.retrain(tol=TOL)
    live.update(add=(X[80:90], Y[80:90]), remove=range(10))
    live.update(add=(X[100:101], Y[100:101]), remove=[20], keys=[20])  # the key comes back with something else
    live.take_over(other)
    assert np.array_equal(decisions(live), decisions(other))
    assert (live.C, live.gamma_) == (3.0, 1.0)
    held = dict(zip(live.keys_, live.window_coefficients, strict=True))
    its = dict(zip(other.keys_, other.window_coefficients, strict=True))
    assert all(held[key] == (its[key] if key < 80 and key != 20 else 0.0) for key in live.keys_)  # type: ignore[operator]
    assert live.retrain(tol=TOL).relative_gap <= TOL


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    made = model()
    before = made.to_arrays()
    for call, error in (
        (lambda: made.update(add=(X[:1], [0.5]), keys=["a"]), InvalidInput),
        (lambda: made.update(add=(X[:1, :2], [1.0]), keys=["a"]), InvalidInput),
        (lambda: made.update(add=(X[:1], None), keys=["a"]), InvalidInput),
        (lambda: made.update(add=(X[:1], [1.0]), keys=[5]), DuplicateKey),
        (lambda: made.update(remove=["nobody"]), UnknownKey),
        (lambda: made.update(relabel={"nobody": 1.0}), UnknownKey),
        (lambda: made.update(reweight={5: -1.0}), InvalidInput),
        (lambda: made.update(remove=[5], C=0.0), InvalidInput),
        (lambda: made.retrain("slow"), InvalidInput),
        (lambda: made.retrain(tol=0.0), InvalidInput),
    ):
        with pytest.raises(error):
            call()
    assert str(made.to_arrays()) == str(before)
    made.update(remove=[key for key, y in zip(made.keys_, made.window_y, strict=True) if y > 0])
    seen = decisions(made)
    with pytest.raises(InvalidInput, match="one class"):
        made.retrain()
    assert np.array_equal(decisions(made), seen)
    with pytest.raises(InvalidInput, match="not been trained"):
        LiveL2SVC().predictor()


def test_a_model_without_a_window_is_kept_with_what_it_was_taught() -> None:
    made = LiveL2SVC(C=10.0, gamma=0.5)
    made.retrain_on(X, Y, tol=TOL)
    back = LiveL2SVC.from_arrays({"C": 10.0, "gamma": 0.5}, made.to_arrays())
    assert np.array_equal(decisions(back), decisions(made))


CODES = (X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0.3)


@pytest.mark.parametrize("labels", [np.array(["amber", "green", "red"]), np.array([3, 10, 20])])
def test_several_classes_of_any_labels(labels: Any) -> None:
    made = LiveL2SVC(C=10.0, gamma=0.5)
    y = labels[CODES]
    made.update(add=(X[:80], y[:80]), keys=range(80))
    made.retrain(tol=TOL)
    peer = FrankWolfeSVC(C=10.0, gamma=0.5, tol=TOL).fit(X[:80], y[:80])
    decisions_there = -peer._decisions(Z) / peer.margin_
    assert np.abs(decisions(made) - decisions_there).max() < 0.05
    found = made.predictor().predict(Z)
    assert (made.classes_[found] == peer.predict(Z)).mean() >= 0.95
    assert made.counts == dict(zip(labels.tolist(), np.bincount(CODES[:80]).tolist(), strict=True))
    made.update(add=(X[80:], y[80:]), remove=range(40), relabel={50: labels[0]}, reweight={60: 2.0})
    back = LiveL2SVC.from_arrays(made.get_params(), made.to_arrays())
    assert np.array_equal(back.window_y, made.window_y)
    assert np.array_equal(decisions(back), decisions(made))
    again, other = made.retrain(tol=TOL), back.retrain(tol=TOL)
    y[50] = labels[0]
    weights = np.where(np.arange(40, 120) == 60, 2.0, 1.0)
    cold = LiveL2SVC(C=10.0, gamma=0.5)
    cold.update(add=(X[40:], y[40:]), sample_weight=weights)
    for one, two, three in zip(again.solutions, other.solutions, cold.retrain(tol=TOL).solutions, strict=True):
        assert one.gap.primal == pytest.approx(three.gap.primal, rel=2 * TOL)
        assert two.gap.primal == pytest.approx(three.gap.primal, rel=2 * TOL)
    assert made.certificate().relative_gap <= TOL
    assert set(made.pair_certificates) == {(a, b) for a in labels.tolist() for b in labels.tolist() if a < b}
    assert made.window_coefficients.shape == (80, 2)
    assert made._error(decisions(made), made.classes_[made.predictor().predict(Z)]) == 0.0


def test_of_several_classes_the_next_search_sets_out_with_the_right_signs() -> None:
    y = np.array([3, 10, 20])[CODES]
    made = LiveL2SVC(C=10.0, gamma=0.5)
    made.update(add=(X[:80], y[:80]), keys=range(80))
    made.retrain(tol=TOL)
    codes, signed = CODES[:80], made.window_coefficients
    K = np.exp(-0.5 * np.square(Z[:, None] - X[None, :80]).sum(axis=2)) + 1.0
    for q, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        beta = np.where(codes == a, signed[:, b - 1], np.where(codes == b, signed[:, a], 0.0))
        assert (beta[codes == a] >= 0).all()
        assert (beta[codes == b] <= 0).all()
        np.testing.assert_allclose(K @ beta, decisions(made)[:, q], atol=1e-9)
    made.update(add=(X[80:84], y[80:84]), remove=range(6))
    w = made._examples_here
    slots = w.indices
    _, own = problems_of(
        made._kernel_of(w.X[slots], w.weights[slots]), w.X[slots], CODES[6:84], np.full(78, 10.0), made.classes_, 1
    )
    for (a, b), pair in zip([(0, 1), (0, 2), (1, 2)], own, strict=True):
        known = next_start(made._trained, w, pair, slots, made.classes_[[a, b]])
        assert known is not None
        assert known.age == 1  # brought along, and not computed
        np.testing.assert_allclose(known.parts, pair.problem.parts(pair.problem.examples, known.b), atol=1e-9)
        were = np.where(CODES[6:84] == a, signed[:, b - 1][np.r_[6:80, [0] * 4]], -signed[:, a][np.r_[6:80, [0] * 4]])
        were[74:] = 0.0
        np.testing.assert_allclose(known.b, were[pair.indices], atol=1e-12)


def test_a_class_that_comes_or_goes_is_known_by_the_next_training() -> None:
    made = LiveL2SVC(C=10.0, gamma=0.5)
    names = np.array(["b", "d"])[(CODES[:40] > 0).astype(int)]
    made.update(add=(X[:40], names), keys=range(40))
    made.retrain(tol=TOL)
    before = decisions(made)
    made.update(add=(X[40:60], ["a"] * 20), keys=range(40, 60))
    assert made.classes_.tolist() == ["b", "d"]
    assert np.array_equal(decisions(made), before)
    found = made.retrain(tol=TOL)
    assert made.classes_.tolist() == ["a", "b", "d"]
    assert np.abs(-decisions(made)[:, 2] - before).max() < 0.05  # the pair that was there
    assert found.solutions[2].steps <= found.solutions[0].steps
    made.update(remove=[key for key, label in zip(made.keys_, made.window_y, strict=True) if label == "d"])
    made.retrain(tol=TOL)
    assert made.classes_.tolist() == ["a", "b"]
    with pytest.raises(InvalidInput, match="is no string"):
        made.update(add=(X[:1], [1]))
    fixed = LiveL2SVC(classes=("b", "d"))
    with pytest.raises(InvalidInput, match="'a' is not one of the labels"):
        fixed.update(add=(X[:2], ["b", "a"]))


@pytest.mark.parametrize("variant", ["auto", "fw"])
def test_a_kernel_that_is_not_positive_leaves_the_model_as_it_was(variant: str) -> None:
    made = model()
    before = decisions(made)
    made.kernel = "sigmoid"
    with pytest.raises(NotPositiveSemidefinite):
        made.retrain(variant)
    assert np.array_equal(decisions(made), before)


def test_what_a_window_that_is_only_trained_does_not_have_is_not_offered() -> None:
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), [-1, -1, 1, 1]
    model = LiveL2SVC(C=10.0, gamma=0.5)
    model.update(add=(X, y))
    model.retrain(tol=0.01)
    for name in ("fit", "partial_fit", "support_", "support_vectors_", "dual_coef_", "intercept_", "local_optimality"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(model, name)
