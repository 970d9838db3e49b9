"""Leave-one-out and k-fold by decremental steps are what training without the examples gives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info, threadpool_limits

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, k_fold, leave_one_out
from livesvm.solvers.analyses.leave_one_out import assessment, by_path, models_without, tableau
from livesvm.solvers.analyses.leave_one_out.assessment import dealt, held_out_by_class
from livesvm.solvers.analyses.leave_one_out.by_pivots import leave_by_pivots
from livesvm.solvers.errors import Cancelled, InvalidInput, NotOptimal
from tests.judge import build
from tests.problems import FAMILIES, problem
from tests.repeats import table

Floats = NDArray[np.float64]


def data(n: int = 60) -> tuple[Floats, Floats]:
    random = np.random.default_rng(2)
    X = random.normal(size=(n, 2))
    return X, np.where(X[:, 0] + random.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("n", [60, 150])  # walked whole, and in strides
@pytest.mark.parametrize("C", [0.3, 100.0])
def test_leave_one_out_is_exact_for_classification(C: float, n: int) -> None:
    X, y = data(n)
    model = IncrementalSVC(C=C, gamma=0.5).fit(X, y)
    before = model.to_arrays()
    found = leave_one_out(model)
    without = np.array(
        [
            IncrementalSVC(C=C, gamma=0.5).fit(X[keep], y[keep]).decision_function(X[[i]])[0]
            for i, keep in ((i, np.arange(n) != i) for i in range(n))
        ]
    )
    np.testing.assert_allclose(found.decisions, without, atol=1e-8)
    assert found.error == pytest.approx(np.mean(np.sign(without) != y))
    assert found.keys == tuple(range(n))
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_blas_works_alone_while_examples_leave() -> None:
    threads: list[set[int]] = []

    def noted() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    def progress(done: int, total: int) -> bool:
        threads.append(noted())
        return True

    model = IncrementalSVC(gamma=0.5).fit(*data())
    with threadpool_limits(2, "blas"):
        leave_one_out(model, progress=progress)
        assert noted() == {2}
    assert {1} in threads


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("gamma", [20.0, 60.0])
@pytest.mark.parametrize("task", ["svc", "tube", "pinball"])
def test_an_example_that_leaves_by_pivots_leaves_as_if_trained_without(
    task: str, gamma: float, fit_intercept: bool
) -> None:
    X, y = data(150)
    if task != "svc":
        y = X[:, 0] + 0.3 * y
    params: dict[str, Any] = {"C": 2.0, "gamma": gamma, "fit_intercept": fit_intercept}
    make: dict[str, Callable[[], Any]] = {
        "svc": lambda: IncrementalSVC(**params),
        "tube": lambda: IncrementalSVR(epsilon=0.2, **params),
        "pinball": lambda: IncrementalSVR(loss="pinball", quantile=0.7, **params),
    }
    state = make[task]().fit(X, y)._window.state
    assert state.n_free >= 60
    indices = np.flatnonzero(state.examples.beta[: state.n_slots])
    before = [a.copy() for a in state.examples]
    left = leave_by_pivots(state, indices, lambda: None)
    assert left is not None
    found = left.decisions
    assert all(np.array_equal(a, b) for a, b in zip(before, state.examples, strict=True))
    assert np.isfinite(found).mean() > 0.9
    assert left.changes > 0
    for slot, decision in zip(indices[::3], found[::3], strict=True):
        keep = np.arange(150) != slot
        if np.isfinite(decision):
            trained = make[task]().fit(X[keep], y[keep])
            decided = trained.predict(X[[slot]]) if task != "svc" else trained.decision_function(X[[slot]])
            assert decision == pytest.approx(decided[0], abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_pivots_and_paths_agree_on_degenerate_problems(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(2):
        model = build(problem(seed, family))
        found = leave_one_out(model).decisions
        with monkeypatch.context() as patch:
            patch.setattr(models_without, "leave_by_pivots", lambda *_: None)
            walked = leave_one_out(model).decisions
        np.testing.assert_allclose(found, walked, rtol=0, atol=1e-7 * max(1.0, np.abs(walked).max()))


def test_paths_that_end_in_a_crowd_at_its_kinks_need_no_return_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weights = table("agreeing", 1100), np.random.default_rng(0).uniform(0.5, 2, 700)
    model = IncrementalSVR(C=1.0, gamma=0.5).fit(rows.X[:700], rows.target[:700], sample_weight=weights)
    state = model._window.state
    leave = np.flatnonzero(state.examples.beta[:700])[:20]
    monkeypatch.setattr(by_path, "decisions_without", None)
    found, _ = by_path.leave_by_paths(state, leave, np.full(20, state.total), lambda *_: None)
    assert np.isfinite(found).all()


def strings(n: int) -> tuple[list[str], Floats]:
    """Return texts, and their counts of letters: the kernel of counts is linear."""
    counts = np.random.default_rng(3).integers(0, 9, size=(n, 3)).astype(np.float64)
    return ["".join(c * int(k) for c, k in zip("abc", row, strict=True)) + "z" for row in counts], counts


def same_letters(A: list[str], B: list[str]) -> Floats:
    return np.array([[float(sum(a.count(c) * b.count(c) for c in "abc")) for b in B] for a in A])


@pytest.mark.parametrize("kind", ["rows", "scaled", "sparse", "precomputed", "function", "texts"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_by_class_are_left_out_exactly_and_classes_keep_their_weight(
    n_classes: int, class_weight: Any, kind: str
) -> None:
    rng = np.random.default_rng(1)
    n = 61
    texts, X = strings(n)
    y, weights = rng.integers(0, n_classes, n), rng.integers(0, 4, n) / 2.0
    X[:, 0] += y
    texts = ["a" * int(a) + text for a, text in zip(y, texts, strict=True)]
    rows: dict[str, Any] = {"sparse": csr_array(X), "precomputed": X @ X.T, "texts": texts}
    kernels: dict[str, Any] = {"precomputed": "precomputed", "function": lambda A, B: A @ B.T, "texts": same_letters}
    model = IncrementalSVC(
        C=0.05,
        kernel=kernels.get(kind, "linear"),
        class_weight=class_weight,
        scale="standard" if kind == "scaled" else "none",
    ).fit(rows.get(kind, X), y, sample_weight=weights)
    before = model.to_arrays()
    found = held_out_by_class(model)
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before if name not in ("X", "objects"))
    heavy = {label: n / (n_classes * np.sum(y == label)) for label in range(n_classes)}
    frozen = heavy if class_weight == "balanced" else class_weight
    Z = model.feature_scale_.apply(X) if kind == "scaled" else X
    fold = dealt(y, 10)
    for name in range(10):
        out, stay = fold == name, fold != name
        share = [weights[y == label].sum() / weights[stay & (y == label)].sum() for label in range(n_classes)]
        rest = IncrementalSVC(C=0.05, kernel="linear", class_weight=frozen)
        rest.fit(Z[stay], y[stay], sample_weight=(weights * np.array(share)[y])[stay])
        np.testing.assert_allclose(found[out], rest.predictor().decision_function(Z[out]), atol=1e-7)


def overlapping(sizes: list[int]) -> tuple[Floats, NDArray[np.int64]]:
    """Return rows and labels of classes around different places."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(4).permutation(y.size)
    return np.random.default_rng(5).normal(size=(y.size, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y[order]], y[
        order
    ]


@pytest.mark.parametrize("helped", [False, True])
def test_pairs_of_classes_leave_folds_out_as_they_stand(helped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = overlapping([40, 43, 48])
    model = IncrementalSVC(C=3.0, gamma=0.7).fit(X, y)
    model.update(remove=[3, 70], add=(X[[3, 70]], y[[3, 70]]), keys=["three", "seventy"])
    before, X, y = model.to_arrays(), model.window_X, model.window_y
    monkeypatch.setattr(assessment, "decisions_by_updates", None)
    if helped:
        monkeypatch.setattr(by_path, "_leave_portion", lambda *_: 0)
    found = held_out_by_class(model, keeps_weight=False)
    assert all(np.array_equal(before[name], array) for name, array in model.to_arrays().items())
    for name in range(10):
        out = dealt(y, 10) == name
        rest = IncrementalSVC(C=3.0, gamma=0.7).fit(X[~out], y[~out])
        np.testing.assert_allclose(found[out], rest.predictor().decision_function(X[out]), rtol=0, atol=1e-7)
    model.update(add=(X[:5] + 0.1, y[:5]), remove=["three"])
    assert model.certificate().relative_gap <= 1e-9


def test_groups_without_some_of_the_classes_leave_pairs_too() -> None:
    X, y = overlapping([9, 30, 30])
    model = IncrementalSVC(C=3.0, gamma=0.7).fit(X, y)
    groups = [np.flatnonzero(y == label)[:6] for label in (1, 0)] + [np.flatnonzero(y > 0)[-4:]]
    found = by_path.decisions_by_pairs(cast(Any, model._window), groups)
    assert found is not None
    for out in groups:
        rest = IncrementalSVC(C=3.0, gamma=0.7).fit(np.delete(X, out, axis=0), np.delete(y, out))
        np.testing.assert_allclose(found[out], rest.predictor().decision_function(X[out]), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["rows", "scaled", "sparse", "precomputed", "function", "texts", "components"])
def test_pairs_of_any_kernel_leave_folds_out_as_updates_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, X = strings(90)
    y = np.arange(90) % 3
    X[:, 0] += y
    texts = ["a" * int(a) + text for a, text in zip(y, texts, strict=True)]
    rows: dict[str, Any] = {"sparse": csr_array(X), "precomputed": X @ X.T, "texts": texts}
    kernels: dict[str, Any] = {"precomputed": "precomputed", "function": lambda A, B: A @ B.T, "texts": same_letters}
    more: dict[str, Any] = {"scaled": {"scale": "standard"}, "components": {"components": 9, "gamma": 0.1}}
    model = IncrementalSVC(
        C=0.05, kernel=kernels.get(kind, "rbf" if kind == "components" else "linear"), **more.get(kind, {})
    )
    model.fit(rows.get(kind, X), y)
    monkeypatch.setattr(assessment, "decisions_by_pairs", lambda *_: None)
    updated = held_out_by_class(model, keeps_weight=False)
    groups = [np.flatnonzero(dealt(y, 10) == name) for name in range(10)]
    found = by_path.decisions_by_pairs(cast(Any, model._window), groups)
    assert (found is None) == (kind == "precomputed")
    if found is not None:
        np.testing.assert_allclose(found, updated, rtol=0, atol=1e-7)


def test_folds_of_pairs_are_left_out_by_updates_where_weights_count_or_paths_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise NotOptimal("as a test says")

    X, y = overlapping([40, 43, 48])
    model = IncrementalSVC(C=3.0, gamma=0.7).fit(X, y)
    expected = held_out_by_class(model, keeps_weight=False)
    monkeypatch.setattr(by_path, "leave_by_paths", fail)
    found = held_out_by_class(model, keeps_weight=False)
    assert np.abs(found - expected).max() < 0.1  # weights of the smaller classes change a little
    bound = IncrementalSVC(C=1e-3, gamma=0.7).fit(*overlapping([40, 40, 40]))
    assert any(pair.n_free == 0 for pair in cast(Any, bound._window).pairs.values())
    assert np.isfinite(held_out_by_class(bound, keeps_weight=False)).all()
    monkeypatch.undo()
    monkeypatch.setattr(assessment, "decisions_by_pairs", None)
    assert np.isfinite(held_out_by_class(bound, keeps_weight=False)).all()
    X, y = overlapping([5, 30, 30])
    assert np.isfinite(held_out_by_class(IncrementalSVC(gamma=0.7).fit(X, y), keeps_weight=False)).all()


def test_folds_by_class_are_the_same_examples_when_a_window_slides() -> None:
    y = np.random.default_rng(0).integers(0, 3, 50)
    for start in range(5):
        before, after = dealt(y[start : start + 40], 5), dealt(y[start + 1 : start + 41], 5)
        together = (before[1:, None] == before[1:]) == (after[:-1, None] == after[:-1])
        same = y[start + 1 : start + 40][:, None] == y[start + 1 : start + 40]
        assert together[same].all()


@pytest.mark.parametrize("y", [[0, 0, 1, 1], [0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2], [0] * 9 + [1] * 2])
def test_small_classes_are_held_out_too(y: list[int]) -> None:
    X = np.arange(len(y), dtype=np.float64)[:, None]
    for weights in (np.ones(len(y)), np.array([0.0] + [1.0] * (len(y) - 1))):
        found = held_out_by_class(IncrementalSVC(gamma=0.3).fit(X, y, sample_weight=weights))
        assert np.isfinite(found).all()


def test_leave_one_out_of_duplicates_and_of_the_last_of_a_class() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0], [5.0]])
    y = np.array([-1.0, -1, -1, 1, -1, -1, 1])
    found = leave_one_out(IncrementalSVC(C=10.0, kernel="linear").fit(X, y))
    for i in range(7):
        keep = np.arange(7) != i
        trained = IncrementalSVC(C=10.0, kernel="linear").fit(X[keep], y[keep])
        assert trained.certificate().relative_gap <= 1e-9
    assert found.decisions.shape == (7,)
    assert np.isfinite(found.decisions).all()


def test_leave_one_out_is_exact_for_regression_and_one_class() -> None:
    X, _ = data(40)
    regression = leave_one_out(IncrementalSVR(C=2.0, gamma=0.5).fit(X, X[:, 0]))
    outliers = leave_one_out(IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X))
    for i in range(40):
        keep = np.arange(40) != i
        predicted = IncrementalSVR(C=2.0, gamma=0.5).fit(X[keep], X[keep, 0]).predict(X[[i]])[0]
        assert regression.decisions[i] == pytest.approx(predicted, abs=1e-9)
        inside = IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X[keep]).decision_function(X[[i]])[0]
        assert outliers.decisions[i] == pytest.approx(inside, abs=1e-8)
    assert regression.error == pytest.approx(np.abs(regression.decisions - X[:, 0]).mean())


@pytest.mark.parametrize(
    ("loss", "n", "C", "gamma", "seed"), [("epsilon_insensitive", 60, 0.2, 0.1, 43), ("absolute", 9, 0.1, 2.0, 0)]
)
def test_leave_one_out_is_exact_where_no_example_is_free(loss: Any, n: int, C: float, gamma: float, seed: int) -> None:
    """Then the intercept hangs on examples that have no coefficient, or on the only one that is free."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    y = X.sum(axis=1) + 0.3 * random.normal(size=n)

    def fit(X: Floats, y: Floats) -> IncrementalSVR:
        return IncrementalSVR(C=C, gamma=gamma, loss=loss, epsilon=0.3).fit(X, y)

    model = fit(X, y)
    assert model._window.state.n_free <= 1
    without = [fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0] for i in range(n)]
    np.testing.assert_allclose(leave_one_out(model).decisions, without, rtol=0, atol=1e-9)


def test_k_fold_is_exact() -> None:
    X, y = data()
    fold = np.arange(60) % 4
    found = k_fold(IncrementalSVC(C=3.0, gamma=0.5).fit(X, y), fold.tolist())
    for name in range(4):
        out = fold == name
        trained = IncrementalSVC(C=3.0, gamma=0.5).fit(X[~out], y[~out])
        np.testing.assert_allclose(found.decisions[out], trained.decision_function(X[out]), atol=1e-9)
    assert k_fold(IncrementalSVC(C=3.0, gamma=0.5).fit(X, y), 5).decisions.shape == (60,)


@pytest.mark.parametrize(("n", "k"), [(31, 4), (30, 4), (17, 5), (11, 10), (7, 7), (50, 3)])
def test_folds_of_consecutive_examples_are_of_nearly_the_same_size(n: int, k: int) -> None:
    """Also where their number does not divide that of the examples."""
    X, y = data(n)
    found = k_fold(IncrementalSVC(C=3.0, gamma=0.5).fit(X, y), k).decisions
    ends = [-(-n * fold // k) for fold in range(k + 1)]
    assert set(np.diff(ends)) <= {n // k, n // k + 1}
    for start, end in pairwise(ends):
        out = np.arange(start, end)
        trained = IncrementalSVC(C=3.0, gamma=0.5).fit(np.delete(X, out, 0), np.delete(y, out))
        np.testing.assert_allclose(found[out], trained.decision_function(X[out]), rtol=0, atol=1e-8)


def test_progress_is_reported_and_can_cancel() -> None:
    X, y = data()
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(X, y)
    steps: list[tuple[int, int]] = []

    def tell(done: int, count: int) -> bool:
        steps.append((done, count))
        return True

    leave_one_out(model, progress=tell)
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1]
    with pytest.raises(Cancelled):
        leave_one_out(model, progress=lambda done, count: False)
    with pytest.raises(Cancelled):
        k_fold(model, 3, progress=lambda done, count: done < 1)


@pytest.mark.parametrize("folds", [1, 61, [0] * 60, [0, 1]])
def test_folds_that_make_no_sense_are_refused(folds: int | list[int]) -> None:
    X, y = data()
    with pytest.raises(InvalidInput) as caught:
        k_fold(IncrementalSVC(C=1.0, gamma=0.5).fit(X, y), folds)
    assert caught.value.field == "folds"


@pytest.mark.parametrize("is_values", [False, True])
def test_columns_are_made_again_where_not_all_have_space(is_values: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(150)
    model = IncrementalSVR(C=2.0, gamma=5.0, epsilon=0.2) if is_values else IncrementalSVC(C=2.0, gamma=5.0)
    model.fit(X, X[:, 0] + 0.3 * y if is_values else y)
    state = model._window.state
    indices = np.flatnonzero(state.examples.beta[: state.n_slots])
    whole = leave_by_pivots(state, indices, lambda: None)
    for name, value in (("ROOM", 1), ("TOGETHER", 20), ("FEWEST", 90)):
        monkeypatch.setattr(tableau, name, value)
    parts = leave_by_pivots(state, indices, lambda: None)
    assert whole is not None
    assert parts is not None
    assert np.isfinite(parts.decisions).mean() > 0.9
    found = np.isfinite(parts.decisions) & np.isfinite(whole.decisions)
    np.testing.assert_allclose(parts.decisions[found], whole.decisions[found], rtol=0, atol=1e-9)
    np.testing.assert_allclose(parts.f, whole.f, rtol=0, atol=1e-12)
    values = state.kernel_rows(np.arange(20))
    differ = [left.models.decide(values)[found] for left in (whole, parts)]
    np.testing.assert_allclose(differ[0], differ[1], rtol=0, atol=1e-9)
