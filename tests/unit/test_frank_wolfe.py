"""L2-SVMs by Frank-Wolfe methods against a quadratic program, and their gaps against the data."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import piqp
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsOneClassifier

from livesvm.solvers import FrankWolfeSVC, IncrementalSVC, TimeLimit, time_limit
from livesvm.solvers.errors import Cancelled, InvalidInput, NotPositiveSemidefinite
from livesvm.solvers.estimators import training_data
from livesvm.solvers.frank_wolfe import blocks, growth, problem, single_steps
from tests.oracle import Matrix, Vector

VARIANTS = ("auto", "fw", "mfw")


def rings(n: int = 240, seed: int = 0) -> tuple[Matrix, Vector]:
    """Return two rings of three features that overlap; a fifth of the values is 0."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.4, 1.0, -1.0)
    X = random.normal(size=(n, 3))
    X *= ((np.where(y > 0, 1.0, 2.0) + 0.3 * random.normal(size=n)) / np.linalg.norm(X, axis=1))[:, None]
    X[random.random(X.shape) < 0.2] = 0.0
    return X, y


def gram(X: Matrix, kernel: str, gamma: float) -> Matrix:
    if kernel == "linear":
        return np.asarray(X @ X.T)
    if kernel == "poly":
        return np.asarray((gamma * (X @ X.T)) ** 2)
    return np.asarray(np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2)))


def twin(K: Matrix, y: Vector, costs: Vector) -> Matrix:
    return np.asarray(y[:, None] * y * (K + 1.0) + np.diag(1.0 / costs))


def optimum(Q: Matrix) -> Vector:
    """Return the minimizer of ``1/2 b'Qb - sum b`` over ``b >= 0``, by an interior point method."""
    n = len(Q)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    empty = np.zeros((0, n)), np.zeros(0)
    solver.setup(Q, -np.ones(n), *empty, empty[0], None, None, np.zeros(n), np.full(n, 1e30))
    solver.solve()
    return np.asarray(solver.result.x)


def true_gap(Q: Matrix, model: FrankWolfeSVC) -> float:
    a = np.zeros(len(Q))
    a[model.support_] = np.abs(model.dual_coef_[0])
    g = Q @ a
    return float(2.0 * (a @ g - g.min()) / (a @ g))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small problem be solved as a large one: in single precision first, with active examples that grow."""
    monkeypatch.setattr(blocks, "BLOCK", 64)
    monkeypatch.setattr(growth, "FIRST", 80)
    monkeypatch.setattr(growth, "GROWTH", 2)
    monkeypatch.setattr(problem, "SMALL", 0)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_default_finds_the_optimum(kernel: str, form: Any) -> None:
    X, y = rings()
    weights = np.random.default_rng(1).uniform(0.1, 3.0, y.size)
    Q = twin(gram(X, kernel, 0.7), y, 5.0 * weights)
    b = optimum(Q)
    model = FrankWolfeSVC(C=5.0, kernel=kernel, gamma=0.7, degree=2, tol=1e-10).fit(form(X), y, weights)
    assert model.relative_gap_ <= 1e-10
    assert true_gap(Q, model) <= 2e-10
    assert model.margin_[0] == pytest.approx(1.0 / b.sum(), rel=1e-7)
    np.testing.assert_allclose(model.gaps_[0, 1:], 0.5 * b.sum(), rtol=1e-7)
    f = twin(gram(X, kernel, 0.7), np.ones(y.size), np.full(y.size, np.inf)) @ (b * y)
    np.testing.assert_allclose(model.decision_function(form(X)) / model.margin_, f, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sampling", [None, 20])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_gap_is_that_of_the_data(variant: str, sampling: int | None, form: Any) -> None:
    X, y = rings()
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 2.0))
    model = FrankWolfeSVC(C=2.0, gamma=0.7, variant=variant, sampling=sampling, tol=0.2)
    model.fit(form(X), y)
    assert model.relative_gap_ <= 0.2
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-9)
    assert model.certificate(form(X), y).relative == pytest.approx(model.relative_gap_, rel=1e-9)
    primal, dual = model.gaps_[0, 1:]
    least = 0.5 * optimum(Q).sum()
    assert dual <= least * (1 + 1e-9)
    assert primal >= least * (1 - 1e-9)
    assert np.abs(model.dual_coef_).sum() == pytest.approx(1.0)
    assert model.intercept_[0] == pytest.approx(model.dual_coef_.sum())
    assert (model.dual_coef_ != 0).all()
    assert (np.sign(model.dual_coef_[0]) == y[model.support_]).all()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("cache_mb", [1.0, 0.02])
@pytest.mark.parametrize("tol", [0.1, 1e-9])
def test_large_problems_are_solved_in_parts(cache_mb: float, tol: float) -> None:
    X, y = rings(600)
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 10.0))
    model = FrankWolfeSVC(C=10.0, gamma=0.7, tol=tol, cache_mb=cache_mb).fit(X, y)
    assert model.relative_gap_ <= tol
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-6, abs=1e-11)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("sampling", [None, 59])
@pytest.mark.parametrize("variant", ["fw", "mfw"])
def test_single_precision_does_not_hide_the_gap(variant: str, sampling: int | None) -> None:
    X, y = rings()
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 0.5))
    model = FrankWolfeSVC(C=0.5, gamma=0.7, variant=variant, sampling=sampling, tol=0.05).fit(X, y)
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-9)


def lopsided(seed: int) -> tuple[Matrix, Vector, float]:
    """Return few against many, nearly alike to a wide kernel, and its gamma: at a large C sums of rows cancel."""
    random = np.random.default_rng(seed)
    few, d = int(random.integers(8, 60)), int(random.integers(1, 4))
    X, y = random.normal(size=(400, d)), np.where(np.arange(400) < few, 1.0, -1.0)
    X[:few] *= random.choice([0.1, 0.5, 1.0])
    X[:few, 0] += random.choice([0.0, 0.5, 1.0, 2.0])
    return np.round(4.0 * X) / 4.0, y, float(random.choice([0.003, 0.01, 0.03, 0.1, 0.3]))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= 4)) for seed in range(12)])
def test_what_rounding_spoils_is_taken_back(seed: int) -> None:
    X, y, gamma = lopsided(seed)
    model = FrankWolfeSVC(C=4096.0, gamma=gamma).fit(X, y)
    assert model.relative_gap_ <= 0.1
    assert model.relative_gap_ == pytest.approx(true_gap(twin(gram(X, "rbf", gamma), y, np.full(400, 4096.0)), model))


@pytest.mark.filterwarnings("ignore:the relative gap is")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", [0, 2, 5])
def test_where_the_digits_do_not_suffice_the_gap_is_reported_all_the_same(seed: int) -> None:
    X, y, gamma = lopsided(seed)
    model = FrankWolfeSVC(C=1e8, gamma=gamma, max_iter=300).fit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    Q = twin(gram(X, "rbf", gamma), y, np.full(400, 1e8))
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("variant", ["fw", "mfw"])
def test_without_a_full_pass_the_gap_is_reported_all_the_same(variant: str) -> None:
    X, y = rings()
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 2.0))
    model = FrankWolfeSVC(C=2.0, gamma=0.7, variant=variant, sampling=3, full_pass=False, tol=0.05)
    with pytest.warns(ConvergenceWarning, match="the relative gap is"):
        model.fit(X, y)
    assert model.relative_gap_ > 0.05
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-9)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("variant", ["fw", "mfw"])
def test_samples_find_what_a_look_at_all_finds(variant: str) -> None:
    X, y = rings(600)
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 10.0))
    model = FrankWolfeSVC(C=10.0, gamma=0.7, variant=variant, sampling=10, tol=0.02).fit(X, y)
    assert model.relative_gap_ <= 0.02
    assert model.margin_[0] == pytest.approx(1.0 / optimum(Q).sum(), rel=0.02)


@pytest.mark.parametrize("variant", ["fw", "mfw"])
def test_a_core_that_is_too_large_goes_on_without_samples(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_steps, "LEAST_CAPACITY", 30)
    X, y = rings()
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 2.0))
    model = FrankWolfeSVC(C=2.0, gamma=0.7, variant=variant, cache_mb=1e-3, tol=0.1).fit(X, y)
    assert len(model.support_) > 30
    assert model.relative_gap_ <= 0.1
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-9)


def test_steps_away_drop_examples_exactly() -> None:
    X, y = rings()
    plain, away = (FrankWolfeSVC(C=2.0, gamma=0.7, variant=variant, tol=0.02).fit(X, y) for variant in ("fw", "mfw"))
    assert away.n_iter_ < plain.n_iter_
    support = np.count_nonzero(optimum(twin(gram(X, "rbf", 0.7), y, np.full(y.size, 2.0))) > 1e-9)
    assert len(away.support_) < 1.1 * support


def test_a_search_that_is_cut_short_says_so() -> None:
    X, y = rings()
    with pytest.warns(ConvergenceWarning, match="after 7 steps"):
        model = FrankWolfeSVC(gamma=0.7, variant="mfw", max_iter=7, tol=1e-3).fit(X, y)
    Q = twin(gram(X, "rbf", 0.7), y, np.ones(y.size))
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-9)


def test_a_weight_is_as_many_examples() -> None:
    X, y = rings(80)
    counts = np.random.default_rng(2).integers(0, 4, y.size)
    weighted = FrankWolfeSVC(gamma=0.7, tol=1e-11).fit(X, y, counts)
    repeated = FrankWolfeSVC(gamma=0.7, tol=1e-11).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-6, atol=1e-9)


def test_a_precomputed_kernel_is_the_kernel() -> None:
    X, y = rings()
    K = gram(X, "rbf", 0.7)
    model = FrankWolfeSVC(kernel="precomputed", tol=1e-8).fit(K[:200, :200], y[:200])
    same = FrankWolfeSVC(gamma=0.7, tol=1e-8).fit(X[:200], y[:200])
    np.testing.assert_allclose(model.decision_function(K[200:, :200]), same.decision_function(X[200:]), atol=1e-9)


def test_several_classes_are_distinguished_pair_by_pair() -> None:
    random = np.random.default_rng(0)
    labels = np.array(["ash", "elm", "fir", "oak"])[random.integers(0, 4, 200)]
    X = random.normal(size=(200, 2)) + 2.0 * np.array([ord(label[0]) % 7 for label in labels])[:, None]
    model = FrankWolfeSVC(C=3.0, gamma=0.5, tol=1e-6, n_jobs=2).fit(X, labels)
    other = OneVsOneClassifier(FrankWolfeSVC(C=3.0, gamma=0.5, tol=1e-6)).fit(X, labels)
    assert model.dual_coef_.shape == (6, model.support_.size)
    assert (model.predict(X) == other.predict(X)).mean() > 0.99  # it decides ties by other units
    assert model.certificate(X, labels).relative == pytest.approx(model.relative_gap_, rel=1e-6)


def test_sparse_examples_are_never_written_out_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.random_array((1500, 8000), density=0.002, format="csr", rng=np.random.default_rng(0))
    y = np.where(np.asarray(X[:, :4000].sum(axis=1)).ravel() > np.asarray(X[:, 4000:].sum(axis=1)).ravel(), 1, -1)
    largest = 0
    write_out = sparse.csr_array.toarray

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal largest
        largest = max(largest, self.shape[0])
        return write_out(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_array, "toarray", watched)
    model = FrankWolfeSVC(C=10.0, gamma=0.5).fit(X, y)
    assert model.score(X, y) > 0.9
    assert sparse.issparse(model.support_vectors_)
    assert 0 < largest <= 512


def slid(warm: bool) -> tuple[FrankWolfeSVC, int]:
    """Return a model of a window that has moved by a hundredth, and how many block steps that took."""
    X, y = rings(1515)
    model = FrankWolfeSVC(C=10.0, gamma=0.7, tol=0.05, warm_start=True)
    if warm:
        model.fit(X[:1500], y[:1500])
        model.fit(X[15:], y[15:], places=np.r_[15:1500, np.full(15, -1)])
    else:
        model.fit(X[15:], y[15:])
    Q = twin(gram(X[15:], "rbf", 0.7), y[15:], np.full(1500, 10.0))
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-6)
    assert model.relative_gap_ <= 0.05
    return model, model.n_iter_


def test_a_window_that_slides_starts_from_its_last_solution() -> None:
    (warm, few), (cold, many) = slid(True), slid(False)
    assert few < many
    assert warm.margin_[0] == pytest.approx(cold.margin_[0], rel=0.02)


def test_warm_starts_survive_other_costs_labels_and_pickling() -> None:
    X, y = rings()
    model = FrankWolfeSVC(C=1.0, gamma=0.7, tol=1e-6, warm_start=True).fit(X, y)
    model = pickle.loads(pickle.dumps(model)).set_params(C=4.0)
    y[:5] = -y[:5]
    model.fit(X, y)
    Q = twin(gram(X, "rbf", 0.7), y, np.full(y.size, 4.0))
    assert model.relative_gap_ <= 1e-6
    assert model.relative_gap_ == pytest.approx(true_gap(Q, model), rel=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_search_can_be_interrupted(variant: str) -> None:
    X, y = rings()
    model = FrankWolfeSVC(gamma=0.7, variant=variant, tol=1e-14, C=1e4, max_iter=10**9)
    FrankWolfeSVC(gamma=0.7, variant=variant).fit(X, y)  # compiles
    found = []

    def fit_for_ever() -> None:
        while True:
            model.fit(X, y)
            found.append(model.decision_function(X))

    with pytest.raises(TimeLimit), time_limit(0.2):
        fit_for_ever()
    if found:
        np.testing.assert_array_equal(model.decision_function(X), found[-1])
    else:
        assert not hasattr(model, "classes_")


def test_progress_is_reported_and_can_cancel() -> None:
    X, y = rings()
    reported: list[int] = []

    def hear(done: int, total: int) -> bool:
        reported.append(done)
        return True

    model = FrankWolfeSVC(gamma=0.7, tol=1e-6).fit(X, y, progress=hear)
    assert reported == sorted(reported)
    assert reported[-1] == 1000
    assert model.trace_[0][-1, 1] <= 1e-6
    with pytest.raises(Cancelled):
        model.fit(X, y, progress=lambda done, total: False)
    threading_of = {thread.name for thread in threading.enumerate()}
    assert "progress" not in threading_of


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"tol": 0.0}, "tol"),
        ({"variant": "sgd"}, "variant"),
        ({"sampling": 0}, "sampling"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"gamma": -1.0}, "gamma"),
        ({"kernel": "cosine"}, "kernel"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "x"}, "random_state"),
        ({"cache_mb": 0}, "cache_mb"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters: dict[str, Any], field: str) -> None:
    X, y = rings(20)
    with pytest.raises(InvalidInput) as caught:
        FrankWolfeSVC(**parameters).fit(X, y)
    assert caught.value.field == field


def test_data_that_cannot_be_learnt_from_is_refused() -> None:
    X, y = rings(20)
    model = FrankWolfeSVC(gamma=0.7)
    with pytest.raises(InvalidInput, match="one class"):
        model.fit(X, np.ones(20))
    with pytest.raises(InvalidInput, match="19 labels for 20 rows"):
        model.fit(X, y[:19])
    with pytest.raises(InvalidInput, match="continuous"):
        model.fit(X, X[:, 0])
    broken = sparse.csr_array(X)
    broken.data[-1] = np.nan
    with pytest.raises(InvalidInput, match="row 19, column"):
        model.fit(broken, y)
    with pytest.raises(InvalidInput, match="no last fit"):
        model.fit(X, y, places=np.arange(20))
    model.set_params(warm_start=True).fit(X, y)
    for refused in ({"variant": "other"}, {"C": 1e-300}):
        before, wide = dict(model.get_params()), np.hstack([X, X])
        with pytest.raises(InvalidInput):
            model.set_params(**refused).fit(wide, y)
        assert model.set_params(**before).predict(X).shape == y.shape
    with pytest.raises(InvalidInput, match="one class"):
        model.fit(np.hstack([X, X]), np.ones(20))
    assert model.predict(X).shape == y.shape
    for places in (np.zeros(20, int), np.arange(1, 21), np.arange(3), np.arange(20.0)):
        with pytest.raises(InvalidInput) as caught:
            model.fit(X, y, places=places)
        assert caught.value.field == "places"
    with pytest.raises(InvalidInput, match="as many columns as rows"):
        FrankWolfeSVC(kernel="precomputed").fit(X, y)
    with pytest.raises(InvalidInput, match="scale the features"):
        FrankWolfeSVC(kernel="linear").fit(X * 1e200, y)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_kernel_that_is_not_positive_is_refused(variant: str, form: Any) -> None:
    """A problem that is not convex has no gap that would prove anything."""
    X, y = rings()
    for model in (
        FrankWolfeSVC(C=100.0, kernel="sigmoid", gamma=0.5, variant=variant),
        FrankWolfeSVC(C=100.0, kernel="poly", degree=2, coef0=-2.0, gamma=1.0, variant=variant),
    ):
        with pytest.raises(NotPositiveSemidefinite) as caught:
            model.fit(form(np.abs(X) + 0.5), y)
        assert caught.value.field == "kernel"
        assert not hasattr(model, "classes_")
    K = -np.eye(len(y)) + 1.0
    with pytest.raises(NotPositiveSemidefinite):
        FrankWolfeSVC(C=10.0, kernel="precomputed", variant=variant).fit(K, y)


def test_a_solution_that_no_convex_problem_has_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rings()
    monkeypatch.setattr(training_data, "LOOKED_AT", 1)
    with pytest.raises(NotPositiveSemidefinite):
        FrankWolfeSVC(C=100.0, kernel="sigmoid", gamma=0.5, variant="fw").fit(np.abs(X) + 0.5, y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_features_whose_distances_have_no_digits_are_refused(form: Any) -> None:
    X, y = rings()
    X[7, 1] = 1e7
    with pytest.raises(InvalidInput, match="digits left; scale the features") as caught:
        FrankWolfeSVC(gamma=0.5).fit(form(X), y)
    assert (caught.value.field, caught.value.row) == ("X", 7)


def test_a_class_without_weight_is_known_and_never_predicted() -> None:
    """As IncrementalSVC and scikit-learn have it: ``classes_`` are the labels of all examples."""
    X, y = rings()
    three = np.where(X[:, 0] > 0.5, 2, y > 0)
    weights = (three != 1).astype(np.float64)
    ours, exact = FrankWolfeSVC(tol=1e-6).fit(X, three, weights), IncrementalSVC().fit(X, three, weights)
    assert ours.classes_.tolist() == exact.classes_.tolist() == [0, 1, 2]
    assert ours.decision_function(X).shape == exact.decision_function(X).shape
    assert 1 not in ours.predict(X)
    assert ours.certificate(X, three, weights).relative <= 1e-6
    alone = FrankWolfeSVC(tol=1e-6).fit(X[weights > 0], three[weights > 0])
    assert ours.predict(X).tolist() == alone.predict(X).tolist()


def test_a_certificate_of_other_data_is_refused() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30) % 2
    model = FrankWolfeSVC().fit(X, y)
    with pytest.raises(InvalidInput, match="fewer than the model was trained on"):
        model.certificate(X[:5], y[:5])
    with pytest.raises(InvalidInput, match="no two of the model's classes"):
        model.certificate(X, np.zeros(30))
