"""Paths of several classes: each pair's is that of the pair alone, and together they are the model's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from livesvm.solvers import IncrementalSVC, k_fold, leave_one_out
from livesvm.solvers.errors import Cancelled, InvalidInput

Floats = NDArray[np.float64]
WORDS = np.array(["ape", "bee", "cat", "dog"])
CENTRES = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5], [2.5, 2.5]])
LOW, HIGH = 0.05, 50.0


def blobs(seed: int, n: int, classes: int = 3, spread: float = 1.0) -> tuple[Floats, Any]:
    """Return features (n, 2) and words (n,)."""
    rng = np.random.default_rng(seed)
    places = np.arange(n) % classes
    return CENTRES[places] + spread * rng.normal(size=(n, 2)), WORDS[places]


def made(**parameters: Any) -> IncrementalSVC:
    return IncrementalSVC(**{"C": 1.0, "gamma": 0.4, "decision_function_shape": "ovo", **parameters})


@pytest.mark.parametrize(
    "parameters",
    [{}, {"scale": "standard", "class_weight": {"ape": 2.0}}, {"class_weight": "balanced"}, {"kernel": "linear"}],
)
def test_the_model_at_every_C_is_the_one_trained_there(parameters: dict[str, Any]) -> None:
    X, y = blobs(0, 50)
    model = made(**parameters).fit(X, y)
    path = model.regularization_path(LOW, HIGH)
    for C in (LOW, 0.3, 1.0, 7.7, HIGH):
        found, trained = path.at(C), made(**parameters | {"C": C}).fit(X, y)
        assert found.C == C
        assert found.certificate().relative_gap < 1e-8
        np.testing.assert_allclose(found.decision_function(X), trained.decision_function(X), atol=1e-6)
        np.testing.assert_allclose(path.coefficients(C), found.window_coefficients, atol=1e-12)
        np.testing.assert_allclose(path.intercepts(C), found.intercept_, atol=1e-12)
        assert path.sizes(C) == (found.window_is_free.sum(), (found.window_coefficients != 0).any(axis=1).sum())
    assert model.C == 1.0


def test_the_path_of_a_pair_is_that_of_its_examples_alone() -> None:
    X, y = blobs(1, 60)
    path = made().fit(X, y).regularization_path(LOW, HIGH)
    assert list(path.pairs) == [("ape", "bee"), ("ape", "cat"), ("bee", "cat")]
    for two, one in path.pairs.items():
        here = np.isin(y, two)
        alone = made().fit(X[here], y[here]).regularization_path(LOW, HIGH)
        assert one.keys == tuple(np.flatnonzero(here))
        np.testing.assert_allclose(one.breakpoints.value, alone.breakpoints.value, rtol=1e-7)
        np.testing.assert_allclose(one.coefficients(3.0), alone.coefficients(3.0), atol=1e-8)
        assert one.at(3.0).predict(X[here]).tolist() == alone.at(3.0).predict(X[here]).tolist()
    assert path.report.events == sum(one.report.events for one in path.pairs.values())


def test_breakpoints_of_all_pairs_are_in_order_and_counted() -> None:
    X, y = blobs(2, 40)
    path = made().fit(X, y).regularization_path(LOW, HIGH)
    found = path.breakpoints
    assert found.value.size == sum(one.breakpoints.value.size for one in path.pairs.values()) > 20
    assert (np.diff(found.value) >= 0).all()
    ends = np.append(found.value, HIGH)
    for i in np.flatnonzero(np.diff(ends) > 1e-9 * ends[:-1])[::3]:
        assert path.sizes(0.5 * (ends[i] + ends[i + 1])) == (found.n_free[i], found.n_support[i])
    for i in range(found.value.size):
        two = list(path.pairs)[found.pair[i]]
        assert y[found.example[i]] in two


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_breakpoints_do_not_depend_on_how_the_model_was_made(seed: int, kernel: str) -> None:
    X, y = blobs(seed, 60)
    expected = made(kernel=kernel).fit(X, y).regularization_path(1e-3, HIGH)
    for size, C in ((1, 1.0), (7, 1.0), (20, 0.02), (60, 40.0)):
        model = made(kernel=kernel, C=C, classes=WORDS[:3])
        for first in range(0, 60, size):
            model.update((X[first : first + size], y[first : first + size]))
        path = model.regularization_path(1e-3, HIGH)
        found = path.breakpoints
        assert path.report.events == found.value.size == expected.breakpoints.value.size
        np.testing.assert_allclose(found.value, expected.breakpoints.value, rtol=1e-7)
        for C in np.sqrt(found.value[1:] * found.value[:-1])[np.diff(found.value) > 1e-6 * found.value[1:]][::9]:
            assert path.sizes(C) == expected.sizes(C)
    assert min(one.breakpoints.n_free.min() for one in expected.pairs.values()) == 0  # as it was where b is open


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed"])
def test_the_error_of_every_C_is_that_of_the_votes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livesvm.solvers.analyses.regularization.path.BLOCK", 32)  # rows at once
    X, y = blobs(3, 48, classes=4, spread=1.4)
    Z, z = blobs(4, 90, classes=4, spread=1.4)
    given: tuple[Any, Any] = (X, Z)
    if kind == "sparse":
        given = csr_matrix(X), csr_matrix(Z)
    if kind == "precomputed":
        given = tuple(np.exp(-0.4 * ((A[:, None] - X) ** 2).sum(axis=2)) for A in (X, Z))
    parameters = {"kernel": "precomputed"} if kind == "precomputed" else {}
    path = made(**parameters, C=20.0).fit(given[0], y).regularization_path(LOW, HIGH)
    curve = path.validation_error(given[1], z)
    assert (curve.edges[0], curve.edges[-1]) == (LOW, HIGH)
    assert curve.left.size > 5
    for i in range(curve.left.size):
        C = float(np.sqrt(curve.edges[i] * curve.edges[i + 1]))
        independent = SVC(C=C, gamma=0.4, tol=1e-8).fit(X, y)
        assert curve.left[i] == pytest.approx(np.mean(independent.predict(Z) != z))
        assert curve.left[i] == pytest.approx(np.mean(path.at(C).predict(given[1]) != z))
    best = path.best(given[1], z)
    assert best.error == curve.left.min()
    assert best.low <= best.value <= best.high


def flipped(seed: int, n: int = 90, wrong: int = 9) -> tuple[Floats, Any, Any]:
    """Return features, labels of which the first few are wrong, and the right ones."""
    X, y = blobs(seed, n, spread=0.6)
    given = y.copy()
    given[:wrong] = WORDS[(np.arange(wrong) + 1) % 3]
    return X, given, y


@pytest.mark.parametrize("parameter", ["theta", "s"])
def test_suspected_labels_of_all_pairs_are_one_list(parameter: Any) -> None:
    X, given, right = flipped(5)
    model = made(C=5.0).fit(X, given)
    path = model.outlier_path(parameter)
    suspects = path.suspects
    keys = [one.key for one in suspects]
    assert len(set(keys)) == len(keys)
    assert set(keys[:6]) <= set(range(9))  # wrong labels give way first
    named = [one for one in suspects if one.key in range(9)]
    assert len(named) == 9
    assert all(one.label == given[one.key] and one.label not in one.others for one in suspects)
    assert sum(one.others[0] == right[one.key] for one in named) >= 8
    assert path.order_of_outliers() == [(one.key, one.value) for one in suspects]
    for two, one in path.pairs.items():
        here = np.isin(given, two)
        alone = made(C=5.0).fit(X[here], given[here], keys=np.flatnonzero(here).tolist()).outlier_path(parameter)
        found, expected = one.order_of_outliers(), alone.order_of_outliers()
        assert [key for key, _ in found] == [key for key, _ in expected]
        np.testing.assert_allclose([value for _, value in found], [value for _, value in expected], atol=1e-7)
        mine = [suspect for suspect in suspects if set(two) == {suspect.label, *suspect.others} & set(two)]
        assert {suspect.key for suspect in mine} >= {key for key, _ in found}
    direction = 1.0 if parameter == "s" else -1.0
    along = [direction * one.value for one in suspects]
    assert along == sorted(along)
    assert model.certificate().relative_gap < 1e-8


@pytest.mark.parametrize("parameter", ["theta", "s"])
def test_suspects_are_in_the_order_in_which_they_gave_way(parameter: Any) -> None:
    X, y = blobs(3, 75, spread=2.0)
    model = made(C=0.5).fit(X, y)
    path = model.outlier_path(parameter)
    margins = dict(zip(path.pairs, model.decision_function(X).T, strict=True))  # positive for the first
    sign = 1.0 if parameter == "s" else -1.0
    first: dict[Any, tuple[float, float]] = {}
    for two, one in path.pairs.items():
        for key, value in one.order_of_outliers():
            margin = margins[two][key] if y[key] == two[0] else -margins[two][key]
            first[key] = min(first.get(key, (np.inf, np.inf)), (sign * value, margin))
    assert len({value for value, _ in first.values()}) > 3
    assert [one.key for one in path.suspects] == sorted(first, key=lambda key: first[key])


@pytest.mark.parametrize("parameter", ["theta", "s"])
def test_errors_along_outlier_paths_are_those_of_the_votes(parameter: Any) -> None:
    X, given, _ = flipped(6, n=60)
    Z, z = blobs(7, 80)
    path = made(C=5.0).fit(X, given).outlier_path(parameter)
    values, errors = path.validation_errors(Z, z)
    assert (values[0], values[-1]) == (path.start, path.end)
    assert np.unique(values).size == values.size > 3
    for i in range(0, values.size, max(1, values.size // 5)):
        votes = {word: np.zeros(80) for word in WORDS[:3]}
        for (first, second), one in path.at(values[i]).items():
            wins = one.predict(Z)
            votes[first] += wins == first
            votes[second] += wins == second
        labels = WORDS[np.argmax([votes[word] for word in WORDS[:3]], axis=0)]
        assert errors[i] == pytest.approx(np.mean(labels != z))
    best = path.best(Z, z)
    assert (best.value, best.error) == (values[np.argmin(errors)], errors.min())


def test_a_class_without_examples_has_no_path() -> None:
    X, y = blobs(8, 40)
    Z, z = blobs(9, 30)
    model = made(classes=WORDS[:4].tolist()).fit(X, y)
    path = model.regularization_path(LOW, HIGH)
    assert len(path.pairs) == 3
    assert path.at(1.0).certificate().relative_gap < 1e-8
    assert path.validation_error(Z, z)(2.0) == pytest.approx(np.mean(path.at(2.0).predict(Z) != z))
    outliers = model.outlier_path()
    assert len(outliers.pairs) == 3
    assert outliers.validation_errors(Z, z)[1][0] == pytest.approx(np.mean(model.predict(Z) != z))
    model.update(remove=[int(i) for i in np.flatnonzero(y != "ape")])
    with pytest.raises(InvalidInput, match="all examples have one class"):
        model.regularization_path(LOW, HIGH)
    with pytest.raises(InvalidInput, match="all examples have one class"):
        model.outlier_path()


@pytest.mark.parametrize("kind", ["regularization", "outlier"])
def test_progress_goes_up_to_the_end_and_ends_it(kind: str) -> None:
    model = made().fit(*blobs(10, 40))
    shares: list[float] = []

    def walk(progress: Callable[[int, int], bool]) -> None:
        if kind == "outlier":
            model.outlier_path(progress=progress)
        else:
            model.regularization_path(LOW, HIGH, progress=progress)

    def reported(done: int, of: int) -> bool:
        shares.append(done / of)
        return True

    walk(reported)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(Cancelled):
        walk(lambda done, of: done < of / 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_answers_without_an_example_say_which_label_their_sign_is_for(classes: int) -> None:
    X, y = blobs(11, 30, classes, spread=0.3)
    model = made().fit(X, y)
    for found in (leave_one_out(model), k_fold(model, 5)):
        decisions = found.decisions.reshape(30, -1)
        assert len(found.positive) == len(found.negative) == decisions.shape[1]
        for column, positive, negative in zip(decisions.T, found.positive, found.negative, strict=True):
            assert (column[y == positive] > 0).all()
            assert (column[y == negative] < 0).all()
    assert (found.positive, found.negative) == (
        (("bee",), ("ape",)) if classes == 2 else (("ape", "ape", "bee"), ("bee", "cat", "cat"))
    )
