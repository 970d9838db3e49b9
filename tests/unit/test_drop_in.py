"""What code written for scikit-learn's ``SVC``, ``SVR`` and ``OneClassSVM`` may rely on, side by side with those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, SVR, OneClassSVM

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, leave_one_out
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.drop_in import IGNORED
from livesvm.solvers.models.calibration import Calibration

CORNERS = np.array([[-2.0, -1.0], [-1.0, -1.0], [-1.0, -2.0], [1.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
SIDES = np.array([1, 1, 1, 2, 2, 2])
PROBES = np.array([[-1.0, -1.0], [2.0, 2.0], [3.0, 2.0]])
IRIS = load_iris(return_X_y=True)
ESTIMATORS = [(IncrementalSVC, SVC), (IncrementalSVR, SVR), (IncrementalOneClassSVM, OneClassSVM)]


def inner(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.asarray(A @ B.T)


def test_every_parameter_of_theirs_is_taken() -> None:
    for ours, theirs in ESTIMATORS:
        unknown = set(theirs().get_params()) - set(ours().get_params())
        assert unknown == set()
        ours(**{**theirs().get_params(), "kernel": "linear"}).fit(CORNERS, SIDES)


def test_what_is_ignored_changes_nothing_and_says_why() -> None:
    plain = IncrementalSVC(gamma=0.5).fit(*IRIS).decision_function(IRIS[0])
    strange: dict[str, Any] = {
        "tol": 10.0,
        "max_iter": 1,
        "cache_size": 1e-3,
        "shrinking": False,
        "random_state": 7,
        "verbose": True,
    }
    assert strange.keys() == IGNORED.keys()
    assert np.array_equal(IncrementalSVC(gamma=0.5, **strange).fit(*IRIS).decision_function(IRIS[0]), plain)
    for ours, _ in ESTIMATORS:
        for name in set(ours().get_params()) & IGNORED.keys():
            assert f"Taken and ignored: {IGNORED[name]}" in (ours.__doc__ or "")


@pytest.mark.parametrize("kernel", ["precomputed", inner])
def test_the_toy_has_two_support_vectors(kernel: Any) -> None:
    given = kernel == "precomputed"
    model = IncrementalSVC(kernel=kernel).fit(inner(CORNERS, CORNERS) if given else CORNERS, SIDES)
    np.testing.assert_allclose(model.dual_coef_, [[-0.25, 0.25]])
    assert model.support_.tolist() == [1, 3]
    np.testing.assert_allclose(model.intercept_, [0.0], atol=1e-15)
    assert model.predict(inner(PROBES, CORNERS) if given else PROBES).tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="features"):
        model.predict(CORNERS if given else CORNERS.T)


@pytest.mark.parametrize("C", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("kernel", ["linear", inner])
def test_iris_has_their_attributes(C: float, kernel: Any) -> None:
    X, y = IRIS
    ours = IncrementalSVC(C=C, kernel=kernel, decision_function_shape="ovo").fit(X, y)
    theirs = SVC(C=C, kernel=kernel, decision_function_shape="ovo", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-3, atol=5e-3)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.n_support_.sum() == ours.support_.size == len(ours.support_vectors_)
    assert ours.dual_coef_.shape == (2, ours.support_.size)
    assert hasattr(ours, "coef_") == (kernel == "linear")
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        np.testing.assert_allclose(X @ ours.coef_.T + ours.intercept_, ours.decision_function(X), atol=1e-9)


def test_weights_of_features_are_read_only() -> None:
    t = IRIS[0][:, 0]
    for ours, theirs in ESTIMATORS:
        y = t if ours is IncrementalSVR else IRIS[1]
        model, rival = ours(kernel="linear").fit(IRIS[0], y), theirs(kernel="linear", tol=1e-9).fit(IRIS[0], y)
        np.testing.assert_allclose(model.coef_, rival.coef_, atol=1e-3)
        with pytest.raises(AttributeError):
            model.coef_ = np.zeros(3)
        with pytest.raises(ValueError, match="read-only"):
            model.coef_[0, 0] = 0.0
        with pytest.raises(AttributeError, match="only available when using a linear kernel"):
            ours(kernel="rbf").fit(IRIS[0], y).coef_  # noqa: B018 - it raises


def test_decisions_are_what_the_coefficients_say() -> None:
    X = CORNERS
    for gamma in (1.0, 0.2):
        model = IncrementalSVC(gamma=gamma).fit(X, SIDES)
        said = rbf_kernel(X, model.support_vectors_, gamma=gamma) @ model.dual_coef_.T + model.intercept_
        np.testing.assert_allclose(said.ravel(), model.decision_function(X), atol=1e-12)
        regressor = IncrementalSVR(gamma=gamma).fit(*IRIS)
        said = rbf_kernel(IRIS[0], regressor.support_vectors_, gamma=gamma) @ regressor.dual_coef_.T
        np.testing.assert_allclose(said.ravel() + regressor.intercept_, regressor.predict(IRIS[0]), atol=1e-9)


def test_support_vectors_stand_class_by_class() -> None:
    rng = np.random.default_rng(0)
    rows = rng.permutation(150)
    for classes in (2, 3):
        X, y = IRIS[0][rows], IRIS[1][rows]
        X, y = X[y < classes], y[y < classes]
        ours, theirs = IncrementalSVC(gamma=0.3).fit(X, y), SVC(gamma=0.3, tol=1e-9).fit(X, y)
        assert ours.support_.tolist() == theirs.support_.tolist()
        assert ours.n_support_.tolist() == theirs.n_support_.tolist()
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-5)
        np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)


def test_svr_and_one_class_count_their_support_vectors() -> None:
    for ours, theirs in ESTIMATORS[1:]:
        model, rival = ours(gamma=0.3).fit(*IRIS), theirs(gamma=0.3, tol=1e-9).fit(*IRIS)
        assert model.n_support_.tolist() == [model.support_.size]
        assert abs(model.support_.size - rival.n_support_[0]) <= 3  # alike rows can share a coefficient


def test_one_class_of_the_toy() -> None:
    model = IncrementalOneClassSVM().fit(CORNERS)
    assert model.predict(PROBES).tolist() == OneClassSVM().fit(CORNERS).predict(PROBES).tolist()
    np.testing.assert_allclose(model.intercept_, [-1.218], atol=1e-3)
    np.testing.assert_allclose(model.score_samples(PROBES), model.decision_function(PROBES) + model.offset_)
    far = IncrementalOneClassSVM(nu=0.1, gamma=0.1).fit(np.random.default_rng(2).normal(size=(200, 2)) * 0.3 + 2)
    assert (far.predict(np.random.default_rng(3).uniform(-4, 0, (20, 2))) == -1).all()


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_by_name(gamma: str) -> None:
    X, y = IRIS
    ours, theirs = IncrementalSVC(gamma=gamma).fit(X, y), SVC(gamma=gamma, tol=1e-9).fit(X, y)
    assert ours.gamma_ == pytest.approx(theirs._gamma)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert IncrementalSVC().fit([[0.0], [1.0]], [0, 1]).gamma_ == pytest.approx(4)


@pytest.mark.parametrize(
    "kernel", [lambda A, B: A, lambda A, B: np.ones((1, 1)), lambda A, B: [["a"] * len(B)] * len(A)]
)
def test_a_function_that_is_no_kernel_is_named(kernel: Any) -> None:
    for estimator in (IncrementalSVC, IncrementalSVR):
        with pytest.raises(InvalidInput, match="the function returns") as caught:
            estimator(kernel=kernel).fit(CORNERS, SIDES)
        assert caught.value.field == "kernel"


def shared_letters(A: list[str], B: list[str]) -> np.ndarray:
    assert all(isinstance(one, str) for one in (*A, *B))
    return np.array([[sum(a.count(c) * b.count(c) for c in "abc") for b in B] for a in A])


def test_a_function_may_be_of_objects_of_any_type() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (40, 3))
    words = ["".join(c * n for c, n in zip("abc", row, strict=True)) for row in X.tolist()]
    for y in (X[:, 0] > X[:, 1], X[:, 0] // 2):
        model = IncrementalSVC(kernel=shared_letters).fit(words[:30], y[:30])
        plain = IncrementalSVC(kernel="linear").fit(X[:30], y[:30])
        before = model.predictor()
        model.update(add=(words[30:], y[30:]), remove=range(12))
        plain.update(add=(X[30:], y[30:]), remove=range(12))
        np.testing.assert_allclose(model.decision_function(words), plain.decision_function(X), atol=1e-8)
        assert (model.predict(words) == plain.predict(X)).all()
        assert model.shape_fit_ == (28,)
        assert model.window_X == words[12:]
        assert model.support_vectors_ == [model.window_X[i] for i in model.support_]
        model.update(add=(words[:1], y[:1]), keys=["again"])
        assert len(model._objects or ()) == 29  # what has left goes when the next ones come
        model.update(remove=["again"])
        assert before.n_support > 0
        back = IncrementalSVC.from_arrays(model.get_params(), model.to_arrays())
        np.testing.assert_allclose(back.decision_function(words), plain.decision_function(X), atol=1e-8)
        np.testing.assert_allclose(leave_one_out(model).decisions, leave_one_out(plain).decisions, atol=1e-8)
        along = model.regularization_path(0.1, 1.0).at(0.5).decision_function(words)
        np.testing.assert_allclose(along, plain.regularization_path(0.1, 1.0).at(0.5).decision_function(X), atol=1e-8)
        with pytest.raises(InvalidInput, match="another type than those of the window"):
            model.predict(X)
        with pytest.raises(InvalidInput, match="another type than those of the window"):
            model.update(add=(X[:1], y[:1]))
        model.change(kernel=lambda A, B: 2.0 * shared_letters(A, B))
        plain.change(C=2.0)
        for one, rows in ((model, words), (plain, X)):
            one.update(add=(rows[:3], y[:3]))
        np.testing.assert_allclose(model.decision_function(words), plain.decision_function(X), atol=1e-8)
    t = X.sum(axis=1) / 3.0
    ours, theirs = IncrementalSVR(kernel=shared_letters).fit(words, t), IncrementalSVR(kernel="linear").fit(X, t)
    np.testing.assert_allclose(ours.predict(np.array(words)), theirs.predict(X), atol=1e-7)
    with pytest.raises(InvalidInput, match="must have two dimensions"):
        IncrementalSVC(kernel=shared_letters).fit([1.0, 2.0], [0, 1])


@pytest.mark.parametrize("estimator", [IncrementalSVC, IncrementalSVR])
def test_an_infinite_C_is_a_hard_margin(estimator: Any) -> None:
    X, t = IRIS[0][:100], IRIS[1][:100].astype(float)
    model = estimator(C=np.inf, gamma=0.3).fit(X, t)
    assert np.inf == model.C
    theirs = {IncrementalSVC: SVC, IncrementalSVR: SVR}[estimator](C=1e10, gamma=0.3, tol=1e-9).fit(X, t)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-3)
    model.update(add=(X[:5] + 0.01, t[:5]), remove=[0])
    assert clone(model).fit(X, t).certificate().relative_gap < 1e-4


def test_a_third_class_comes_to_a_hard_margin() -> None:
    X, y = CORNERS, np.repeat([0, 1, 2], 2)
    model = IncrementalSVC(C=np.inf, gamma=0.5).fit(X[:4], y[:4])
    model.update(add=(X[4:], y[4:]))
    np.testing.assert_allclose(model.decision_function(X), clone(model).fit(X, y).decision_function(X), atol=1e-9)


def test_a_function_is_cloned_and_learns_online() -> None:
    X, y = IRIS
    model = clone(IncrementalSVC(kernel=lambda A, B: (A @ B.T + 1.0) ** 2)).fit(X[:100], y[:100])
    model.update(add=(X[100:], y[100:]), remove=range(20))
    poly = IncrementalSVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0).fit(X[20:], y[20:])
    np.testing.assert_allclose(model.decision_function(X), poly.decision_function(X), atol=1e-5)
    assert model.certificate().relative_gap < 1e-8


def test_shapes_of_decisions() -> None:
    X, y = make_blobs(n_samples=80, centers=5, random_state=0)
    model = IncrementalSVC(kernel="linear", break_ties=True).fit(X, y)
    assert model.decision_function(X).shape == (80, 5)
    assert (model.predict(X) == model.decision_function(X).argmax(axis=1)).all()
    assert IncrementalSVC(decision_function_shape="ovo").fit(X, y).decision_function(X).shape == (80, 10)
    with pytest.raises(InvalidInput, match="decision_function_shape"):
        IncrementalSVC(decision_function_shape="all").fit(X, y).decision_function(X)
    for classes in (2, 3):
        Z, z = make_blobs(centers=classes, random_state=0)
        assert OneVsRestClassifier(IncrementalSVC()).fit(Z, z).predict(Z).shape == z.shape


def test_quadrants_are_further_the_further_out() -> None:
    quadrants = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    model = IncrementalSVC(kernel="linear").fit(quadrants, range(4))
    near, far = model.decision_function(5 * quadrants), model.decision_function(10 * quadrants)
    assert (near.argmax(axis=1) == range(4)).all()
    assert (far.diagonal() > near.diagonal()).all()
    assert (near.diagonal() > 0).all()


def test_ties_are_only_broken_when_asked() -> None:
    X, y = make_blobs(random_state=1, n_samples=20, n_features=2)
    grid = np.stack(np.meshgrid(*[np.linspace(X[:, j].min(), X[:, j].max(), 60) for j in range(2)]), axis=-1)
    probes = grid.reshape(-1, 2)
    for break_ties in (False, True):
        model = IncrementalSVC(gamma=1e6, break_ties=break_ties).fit(X, y)
        same = model.predict(probes) == model.decision_function(probes).argmax(axis=1)
        assert same.all() == break_ties
    with pytest.raises(ValueError, match="break_ties: must be False"):
        IncrementalSVC(break_ties=True, decision_function_shape="ovo").fit(X, y).predict(probes)


def test_weights_move_the_boundary() -> None:
    X = np.array([[-2, 0], [-1, -1], [0, -2], [0, 2], [1, 1], [2, 0]])
    for weight, sign in (([1] * 6, 0), ([10.0, 0.1, 0.1, 0.1, 0.1, 10], -1), ([1.0, 0.1, 10.0, 10.0, 0.1, 0.1], 1)):
        model = IncrementalSVC(C=0.01, kernel="linear").fit(X, SIDES, sample_weight=weight)
        assert np.sign(np.round(model.decision_function([[-1.0, 1.0]]), 12)) == sign
        regressor = IncrementalSVR(C=0.01, kernel="linear").fit(X, SIDES, sample_weight=weight)
        assert np.sign(np.round(regressor.predict([[-1.0, 1.0]]) - 1.5, 12)) == sign
    heavy = IncrementalSVC(C=100.0).fit(CORNERS, SIDES, sample_weight=[0.01] * 6)
    np.testing.assert_allclose(heavy.dual_coef_, IncrementalSVC().fit(CORNERS, SIDES).dual_coef_)
    assert (IncrementalSVC(class_weight={1: 0.1}).fit(CORNERS, SIDES).predict(CORNERS) == 2).all()


def test_balanced_classes_are_found_better() -> None:
    X, y = IRIS[0][:, :2], IRIS[1] + 1
    rows = np.delete(np.arange(y.size), np.where(y > 2)[0][::2])
    scores = [
        f1_score(y, IncrementalSVC(kernel="linear", class_weight=w).fit(X[rows], y[rows]).predict(X), average="macro")
        for w in (None, "balanced")
    ]
    assert scores[0] <= scores[1]


@pytest.mark.parametrize("weights", [[0.0] * 6, [-0.3] * 6])
def test_weights_that_leave_no_example_are_refused(weights: list[float]) -> None:
    for ours, _ in ESTIMATORS:
        reason = "sample_weight.*(negative|Invalid input - all samples have zero or negative weights)"
        with pytest.raises(ValueError, match=reason):
            ours(kernel="linear").fit(CORNERS, SIDES, sample_weight=weights)


def test_arrays_need_not_be_contiguous() -> None:
    y = np.tile(SIDES, (2, 1)).T[:, -1]
    assert IncrementalSVC().fit(np.asfortranarray(CORNERS), y).predict(PROBES).tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="labels for"):
        IncrementalSVC().fit(CORNERS, SIDES[:-1])


def test_an_unfitted_model_says_so_as_they_do() -> None:
    for ours, theirs in ESTIMATORS:
        for estimator in (ours, theirs):
            words = (
                rf"This {estimator.__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before"
            )
            with pytest.raises(NotFittedError, match=words):
                estimator().predict("anything")


def test_iterations_are_counted() -> None:
    for classes, pairs in ((2, 1), (3, 3)):
        X, y = IRIS[0][IRIS[1] < classes], IRIS[1][IRIS[1] < classes]
        found = IncrementalSVC().fit(X, y).n_iter_
        assert found.shape == (pairs,)
        assert found.dtype == np.int32
        assert (found >= 1).all()
    for estimator in (IncrementalSVR, IncrementalOneClassSVM):
        assert type(estimator().fit(*IRIS).n_iter_) is int


@pytest.mark.parametrize("estimator", [IncrementalSVC, IncrementalSVR, IncrementalOneClassSVM])
def test_what_fitting_came_to_is_reported_as_scikit_learn_does(estimator: Any) -> None:
    model = estimator().fit(*IRIS)
    assert (model.fit_status_, model.shape_fit_) == (0, IRIS[0].shape)


def test_regression_scores_as_theirs() -> None:
    X, t = load_diabetes(return_X_y=True)
    ours, theirs = IncrementalSVR(kernel="linear", C=10.0), SVR(kernel="linear", C=10.0)
    np.testing.assert_allclose(cross_val_score(ours, X, t), cross_val_score(theirs, X, t), atol=1e-3)
    assert IncrementalSVR().fit(X, np.ones(len(X))).predict(X).tolist() == [1.0] * len(X)


def test_there_are_probabilities_only_where_they_are_asked_for() -> None:
    for probability in (True, "platt", "isotonic"):
        model = IncrementalSVC(probability=probability, gamma=0.3)
        assert hasattr(model, "predict_proba")
        model.fit(*IRIS)
        found = model.predict_proba(IRIS[0])
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert np.mean(found.argmax(axis=1) == model.predict(IRIS[0])) > 0.9
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(model.predict_log_proba(IRIS[0]), np.log(found))
    assert not hasattr(IncrementalSVC().fit(*IRIS), "predict_proba")
    with pytest.raises(InvalidInput, match="probability"):
        IncrementalSVC(probability="softmax").fit(*IRIS).predict_proba(IRIS[0])
    with pytest.raises(InvalidInput, match="two examples of each class"):
        IncrementalSVC(probability=True).fit(IRIS[0][:51], IRIS[1][:51]).predict_proba(IRIS[0])


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_a_row_sum_up_to_1(method: str, classes: int) -> None:
    X, y = IRIS[0][IRIS[1] < classes], IRIS[1][IRIS[1] < classes]
    model = IncrementalSVC(gamma=0.3, probability=method).fit(X[::2], y[::2])
    wide = np.vstack([X, X + 3.0, np.random.default_rng(0).normal(size=(200, 4)) * 10.0])
    found = model.predict_proba(wide)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert (found >= 0).all()


def test_where_no_class_has_a_probability_all_have_the_same() -> None:
    step = np.array([0.0, 1.0]), np.array([0.0, 0.8])
    found = Calibration("isotonic", (step, step, step)).probabilities(np.array([[-1.0, -2.0, 0.0], [2.0, 0.5, -1.0]]))
    np.testing.assert_allclose(found, [[1 / 3, 1 / 3, 1 / 3], [2 / 3, 1 / 3, 0.0]])


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_kept_up_and_as_good_as_those_of_scikit_learn(method: str, classes: int) -> None:
    rng = np.random.default_rng(0)
    X, y = IRIS if classes == 3 else load_breast_cancer(return_X_y=True)
    rows = rng.permutation(len(X))[:150]
    X, y = X[rows] / X.std(axis=0), y[rows]
    here, there = slice(10, 100), slice(100, 150)
    ours = IncrementalSVC(gamma=0.1, probability=method).fit(X[:60], y[:60])
    ours.predict_proba(X[:1])
    ours.update(add=(X[60:100], y[60:100]), remove=range(10))
    theirs = CalibratedClassifierCV(SVC(gamma=0.1), method=method, cv=5, ensemble=False).fit(X[here], y[here])
    chances = [one.predict_proba(X[there])[np.arange(50), y[there]] for one in (ours, theirs)]
    losses = [-np.log(chance.clip(1e-3)).mean() for chance in chances]
    assert losses[0] < 1.1 * losses[1] + 0.02
    for gamma in (0.1, 0.3):
        ours.change(gamma=gamma)
        fresh = IncrementalSVC(gamma=gamma, probability=method).fit(X[here], y[here])
        np.testing.assert_allclose(ours.predict_proba(X[there]), fresh.predict_proba(X[there]), atol=1e-6)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("counts", [(50, 50), (50, 51), (53, 50), (30, 30, 30), (31, 30, 30), (32, 30, 31), (60, 20)])
@pytest.mark.parametrize("C", [0.001, 0.01, 1.0])
def test_probabilities_are_never_turned_around(C: float, counts: tuple[int, ...], method: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    centres = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
    X, fresh = centres[y] + rng.normal(size=(y.size, 2)), centres[y] + rng.normal(size=(y.size, 2))
    model = IncrementalSVC(C=C, gamma=0.5, probability=method).fit(X, y)
    predicted, likely = model.predict(fresh), model.predict_proba(fresh).argmax(axis=1)
    assert np.mean(likely == y) > np.mean(predicted == y) - 0.05
    if len(set(counts)) == 1:
        assert np.mean(likely == predicted) > 0.9


def test_probabilities_of_a_window_that_slides_stay_the_right_way_around() -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % 2)
    X = rng.normal(size=(90, 2))
    X[:, 0] += 2.5 * y
    model = IncrementalSVC(C=0.01, gamma=0.5, probability=True).fit(X[:50], y[:50])
    for i in range(50, 90):
        model.update(add=(X[[i]], y[[i]]), remove=model.keys_[:1])
        assert np.mean(model.predict_proba(X).argmax(axis=1) == y) > 0.8
