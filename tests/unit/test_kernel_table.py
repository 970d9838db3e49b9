"""The table of kernels: every row of it is what scikit-learn computes, and what is in no row is refused everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from livesvm.solvers import FrankWolfeSVC, IncrementalPUClassifier, IncrementalSVC, PUClassifier, leave_one_out, tune
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels import matrix_products
from livesvm.solvers.kernels.kernel import TABLE, Base, Form, Kernel, form_of
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.sparse import SparseRows

NAMES = [name for name, form in TABLE.items() if form.base != Base.GIVEN]
RNG = np.random.default_rng(3)
X = np.where(RNG.random((60, 5)) < 0.5, 0.0, RNG.normal(size=(60, 5)))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=60) > 0, 1, -1)


def expected(name: str) -> Any:
    """Return the kernel matrix as scikit-learn computes it."""
    given = {"gamma": 0.4} if TABLE[name].has_gamma else {}
    if TABLE[name].has_gamma and TABLE[name].base == Base.PRODUCT:
        given["coef0"] = 0.7
    return pairwise_kernels(X, metric=name, **given, **({"degree": 3} if name == "poly" else {}))


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_scikit_learn_dense_sparse_and_by_products(name: str) -> None:
    kernel, there = Kernel(name, 0.4, 3, 0.7), expected(name)
    np.testing.assert_allclose(kernel.matrix(X, np.ascontiguousarray(X.T)), there, rtol=1e-12)
    held = SparseRows.of_dense(X)
    np.testing.assert_allclose(kernel.matrix(held, held), there, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), there.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(held), there.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(KernelRows(kernel, X, cache_bytes=2**20).matrix(), there, rtol=1e-9)
    if kernel.always_positive:
        assert np.linalg.eigvalsh(there)[0] > -1e-9


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "poly"])
def test_a_model_of_every_convex_kernel_learns_forgets_and_is_tuned(name: str) -> None:
    model = IncrementalSVC(C=3.0, kernel=name, coef0=1.0).fit(X[:40], Y[:40])
    model.update(add=(X[40:], Y[40:]), remove=model.keys_[:15])
    assert model.certificate().relative_gap < 1e-9
    assert len(leave_one_out(model).decisions) == 45
    assert set(tune(model, C=(1.0, 4.0), folds=2).parameters) == ({"C", "gamma"} if TABLE[name].has_gamma else {"C"})
    assert np.isfinite(IncrementalPUClassifier(kernel=name, coef0=1.0, prior=0.5, lam=0.003).fit(X, Y > 0).intercept_)
    assert PUClassifier(kernel=name, coef0=1.0, prior=0.5, lam=0.003).fit(X, Y > 0).solution_.relative_gap < 1e-4


def test_gamma_by_scale_is_in_the_units_of_the_distances() -> None:
    for name in ("rbf", "laplacian"):
        gammas = [IncrementalSVC(kernel=name).fit(unit * X, Y).gamma_ for unit in (1.0, 10.0)]
        assert gammas[0] / gammas[1] == pytest.approx(100.0 if name == "rbf" else 10.0)


def test_what_is_made_of_matrix_products_says_which_kernels_are_not() -> None:
    with pytest.raises(InvalidInput, match="laplacian kernel are no matrix products") as caught:
        FrankWolfeSVC(kernel="laplacian").fit(X, Y)
    assert caught.value.field == "kernel"


@pytest.mark.parametrize("name", ["tanh", "RBF", "", None, 3])
def test_an_unknown_name_is_refused_wherever_a_kernel_is_named(name: Any) -> None:
    for call in (
        lambda: Kernel(name),
        lambda: form_of(name),
        lambda: IncrementalSVC(kernel=name).fit(X, Y),
        lambda: PUClassifier(kernel=name, prior=0.5, lam=0.1).fit(X, Y > 0),
        lambda: FrankWolfeSVC(kernel=name).fit(X, Y),
    ):
        with pytest.raises(InvalidInput, match="unknown kernel") as caught:
            call()
        assert caught.value.field == "kernel"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("center", [None, 0.3])
def test_a_value_with_itself_is_the_one_in_the_matrix_to_the_last_digit(name: str, center: float | None) -> None:
    for d in (1, 3, 4, 9, 30):
        far = RNG.normal(size=(45, d))
        kernel = Kernel(name, 0.4, 3, 0.7, None, None if center is None or name != "linear" else np.full(d, center))
        there = kernel.matrix(far, np.ascontiguousarray(far.T)).diagonal()
        np.testing.assert_array_equal(kernel.diagonal(far), there)


def test_a_name_that_is_lost_later_falls_through_to_no_other_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel("sigmoid", 0.4)
    monkeypatch.delitem(TABLE, "sigmoid")
    for call in (
        lambda: kernel.matrix(X, np.ascontiguousarray(X.T)),
        lambda: kernel.diagonal(X),
        lambda: kernel.always_positive,
        lambda: matrix_products.PreparedRows.of(kernel, X),
    ):
        with pytest.raises(InvalidInput, match="unknown kernel"):
            call()


def test_a_new_row_is_a_new_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is all that values, models and leave-one-out take: of exp(-sqrt(gamma |x - z|^2)), say."""

    def finish(values: Any, coef0: float, degree: int) -> None:
        np.exp(-np.sqrt(-values), out=values)

    monkeypatch.setitem(TABLE, "exponential", Form(Base.SQUARES, finish, lambda coef0: True))
    model = IncrementalSVC(C=3.0, kernel="exponential", gamma=0.4).fit(X, Y)
    there = np.exp(-np.sqrt(0.4) * np.linalg.norm(X[:, None] - X[None], axis=2))
    np.testing.assert_allclose(Kernel("exponential", 0.4).matrix(X, np.ascontiguousarray(X.T)), there, rtol=1e-12)
    assert model.certificate().relative_gap < 1e-9
