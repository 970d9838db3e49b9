"""Training sets in shards: what is found over them is what one process finds, and its gap is the true one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.over_shards import OverShards, Sharded
from livesvm.solvers.frank_wolfe import by_shards, growth
from livesvm.solvers.frank_wolfe.by_blocks import INSIDE, MARGIN, close_gap, next_goal
from livesvm.solvers.frank_wolfe.problem import CLEAR, since
from livesvm.solvers.frank_wolfe.shard import CoefficientChange, Preparation, Shard, ShardLost, cut
from livesvm.solvers.frank_wolfe.solution import GapTrace
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows
from tests.oracle import Matrix, Vector
from tests.support.shards_here import Here

T = TypeVar("T")


def sharded(X: Any, y: NDArray[Any], count: int, weights: Vector | None = None) -> Sharded:
    """Return the same data in so many shards of this process."""
    parts = cut(y.size, count)
    weights = np.ones(y.size) if weights is None else weights
    return Sharded(Here([Shard(X[part]) for part in parts]), parts, y, weights, lambda rows: X[rows])


class Losing(Here):
    """Shards one of which is lost at some calls of a search, in the middle of it, and another one is in its place."""

    def __init__(self, X: Matrix, parts: list[slice], at: set[int]) -> None:
        super().__init__([Shard(X[part]) for part in parts])
        self._X, self._parts, self._at = X, parts, at
        self._preparation, self.calls, self.losses = Preparation(), 0, 0

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        self._preparation.keep(works)
        return super().each(works)

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        self.calls += 1
        found = super().each(works)  # the others have done it
        if self.calls in self._at:
            s = self.calls % len(self.shards)
            self.losses += 1
            self.shards[s] = Shard(self._X[self._parts[s]])
            for work in self._preparation.of(s).values():
                work(self.shards[s])
            raise ShardLost
        return found

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        return self.each([work] * len(self.shards))


def crescents(n: int, seed: int = 0) -> tuple[Matrix, Vector]:
    """Return two classes that overlap, the second of which is rarer."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.3, 1.0, -1.0)
    angle = random.uniform(0, np.pi, n)
    X = np.stack([np.cos(angle) + 0.5 * y, y * np.sin(angle)], axis=1)
    return X + 0.25 * random.normal(size=(n, 2)) + 5.0, y


def true_gap(model: LiveL2SVC, X: Matrix, y: Vector, weights: Vector) -> float:
    """Return the relative gap of the decisions of a training, from the data, with values in double precision alone."""
    trained, gamma = model._trained, model.gamma_
    assert trained is not None
    b = np.abs(trained.coefficients[0]) / trained.R[0]
    held = np.array([int(np.flatnonzero((row == X).all(axis=1))[0]) for row in np.asarray(trained.X)])
    distances = ((X[:, None] - X[held]) ** 2).sum(axis=2)
    K = y[:, None] * y[held] * (np.exp(-gamma * distances) + 1.0)
    g = K @ b
    g[held] += b / (float(model.C) * weights[held])
    square = float(b @ g[held])
    return 2.0 * (1.0 - float(g[weights > 0].min()) * float(b.sum()) / square)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are active at first, so that shards are asked for more, and give some back."""
    monkeypatch.setattr(growth, "FIRST", 80)
    monkeypatch.setattr(growth, "GROWTH", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("n", [600, 2500])  # in double precision alone, and in single
def test_the_optimum_is_that_of_one_process(n: int, count: int) -> None:
    X, y = crescents(n)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], n, p=[0.1, 0.5, 0.4])
    alone, model = LiveL2SVC(C=5.0), LiveL2SVC(C=5.0)
    alone.retrain_on(X, y, weights, tol=1e-3, names=np.arange(n))
    every_example = np.ones(n, bool)
    data = replace(sharded(X, y, count, weights), names=np.arange(n))
    found = OverShards(model, data, every_example).train(every_example, 1e-3)
    for one in (alone, model):  # each support vector is known by its own name
        assert one.trained_on is not None
        np.testing.assert_array_equal(X[one.trained_on[0]], one.to_arrays()["support_X"])
    assert model.gamma_ == pytest.approx(alone.gamma_, rel=1e-9)
    assert found.relative_gap <= 1e-3
    assert found.relative_gap == pytest.approx(true_gap(model, X, y, weights), abs=1e-6)
    grid = np.stack(np.meshgrid(*[np.linspace(3, 7, 15)] * 2), axis=-1).reshape(-1, 2)
    ours, theirs = (one.predictor().decision_function(grid) for one in (model, alone))
    np.testing.assert_allclose(ours, theirs, atol=0.05 * np.abs(theirs).max())
    assert found.trace[-1, 1] == found.relative_gap


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("n", [600, 2500])
def test_a_search_goes_on_where_a_shard_was_lost(n: int) -> None:
    X, y = crescents(n)
    whole = Losing(X, cut(n, 3), set())
    expected = found_over(whole, X, y)
    for at in ({1}, set(range(2, 40, 3)), {whole.calls}):  # the last is when the losses at the end are asked for
        crew = Losing(X, cut(n, 3), at)
        np.testing.assert_allclose(found_over(crew, X, y), expected, atol=0.05 * np.abs(expected).max())
        assert crew.losses == len([call for call in at if call <= crew.calls]) > 0


def found_over(crew: Losing, X: Matrix, y: Vector) -> Vector:
    """Return the decisions of a training, whose gap is the true one."""
    model, every_example = LiveL2SVC(C=5.0), np.ones(y.size, bool)
    data = Sharded(crew, cut(y.size, 3), y, np.ones(y.size), lambda rows: X[rows])
    reported = OverShards(model, data, every_example).train(every_example, 1e-3)
    assert reported.relative_gap <= 1e-3
    assert reported.relative_gap == pytest.approx(true_gap(model, X, y, np.ones(y.size)), abs=1e-6)
    return np.asarray(model.predictor().decision_function(X))


@pytest.mark.usefixtures("small")
def test_sparse_examples_stay_sparse_and_several_classes_are_pairs() -> None:
    random = np.random.default_rng(3)
    dense = np.where(random.random((500, 40)) < 0.1, 1.0, 0.0)
    X, y = sparse.csr_array(dense), np.array(["a", "b", "c"])[dense[:, :3].argmax(axis=1)]
    alone, model = LiveL2SVC(C=2.0), LiveL2SVC(C=2.0)
    alone.retrain_on(X, y, tol=1e-3)
    data, every_example = sharded(X, y, 2), np.ones(500, bool)
    found = OverShards(model, data, every_example).train(every_example, 1e-3)
    crew = data.crew
    assert isinstance(crew, Here)
    assert all(sparse.issparse(shard.examples.values) for shard in crew.shards)
    assert found.relative_gap <= 1e-3
    assert model.classes_.tolist() == ["a", "b", "c"]
    ours, theirs = (one.predictor().decision_function(X) for one in (model, alone))
    assert float(np.mean(ours.argmax(axis=1) == theirs.argmax(axis=1))) > 0.99


@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
def test_kernels_without_a_center(kernel: str) -> None:
    X, y = crescents(300)
    alone, model = (LiveL2SVC(C=0.1, kernel=kernel, gamma=0.1, degree=2, coef0=1.0) for _ in range(2))
    alone.retrain_on(X, y, tol=1e-4)
    every_example = np.ones(300, bool)
    OverShards(model, sharded(X, y, 4), every_example).train(every_example, 1e-4)
    ours, theirs = (one.predictor().decision_function(X) for one in (model, alone))
    np.testing.assert_allclose(ours, theirs, atol=0.02 * np.abs(theirs).max())


def test_rows_that_do_not_count_teach_nothing() -> None:
    X, y = crescents(400)
    counts = np.arange(400) % 4 > 0
    alone, model = LiveL2SVC(C=2.0), LiveL2SVC(C=2.0)
    alone.retrain_on(X[counts], y[counts], tol=1e-4)
    over = OverShards(model, sharded(X, y, 2), counts)
    over.train(counts, 1e-4)
    assert model.gamma_ == pytest.approx(alone.gamma_)
    ours, theirs = (one.predictor().decision_function(X) for one in (model, alone))
    np.testing.assert_allclose(ours, theirs, atol=0.02 * np.abs(theirs).max())
    over.train(np.ones(400, bool), 1e-4)
    assert np.abs(model.predictor().decision_function(X) - ours).max() > 1e-3


def test_what_cannot_be_learnt_is_refused_with_its_place_among_all() -> None:
    X, y = crescents(60)
    every_example = np.ones(60, bool)
    with pytest.raises(InvalidInput, match="one class"):
        OverShards(LiveL2SVC(), sharded(X, np.ones(60), 2), every_example).train(every_example, 0.1)
    with pytest.raises(InvalidInput, match="no example with a weight"):
        OverShards(LiveL2SVC(), sharded(X, y, 2, np.zeros(60)), every_example)
    X[47] = 1e150
    with pytest.raises(InvalidInput) as caught:
        OverShards(LiveL2SVC(kernel="linear"), sharded(X, y, 3), every_example)
    assert (caught.value.field, caught.value.row) == ("X", 47)


def test_it_is_cancelled_where_progress_says_so() -> None:
    X, y = crescents(3000)
    model, every_example = LiveL2SVC(C=1e4), np.ones(3000, bool)
    over = OverShards(model, sharded(X, y, 2), every_example)
    with pytest.raises(Cancelled):
        over.train(every_example, 1e-6, progress=lambda done, total: False)
    assert not model.is_trained


class Watched(by_shards.ShardedSearch):
    """A search that compares after each of its steps what it and its shards hold with dense products."""

    K: ClassVar[Matrix]
    y: ClassVar[Vector]
    costs: ClassVar[Vector]
    started: ClassVar[list[int]]  # the first row of each shard
    looks: ClassVar[list[tuple[float, float, int]]]  # the goal before, the gap found, and how many were not active
    goals: ClassVar[list[float]]

    def coefficients(self, of: Vector) -> Vector:
        b = np.zeros(len(self.y))
        b[self.rows()] = of
        return b

    def rows(self) -> NDArray[np.int64]:
        """Return the active examples by their numbers among all."""
        return np.array(self.started)[self._shard] + self._rows

    def held(self, b: Vector, tolerance: float) -> None:
        """Assert that parts of g are those of coefficients among all, in shards and here."""
        crew = self.over.crew
        assert isinstance(crew, Here)
        outside = np.ones(len(self.y), bool)
        outside[self.rows()] = False
        for start, shard in zip(self.started, crew.shards, strict=True):
            whole = start + shard._rows
            np.testing.assert_array_equal(~shard._active, outside[whole])
            own = whole[~shard._active]
            for c, sign in ((0, -1.0), (1, 1.0)):
                dense = self.K[own] @ np.where(self.y == sign, b, 0.0)
                np.testing.assert_allclose(shard._parts[c, ~shard._active], dense, atol=tolerance)

    def here(self, tolerance: float) -> None:
        b, indices = self.coefficients(self.active.b), self.rows()
        for c, sign in ((0, -1.0), (1, 1.0)):
            dense = (self.K @ np.where(self.y == sign, b, 0.0) + np.where(self.y == sign, b / self.costs, 0.0))[indices]
            np.testing.assert_allclose(self.active.parts[c], dense, atol=tolerance)
        assert np.unique(indices).size == indices.size == self.active.b.size
        np.testing.assert_array_equal(self.active.y, self.y[indices])
        np.testing.assert_allclose(self.active.ridge, 1.0 / self.costs[indices])

    @property
    def tolerance(self) -> float:
        return (1e-9 if self.is_double else 3e-4) * max(1.0, float(self.active.b.sum()))

    def optimize(self, tol: float, most: int, trace: GapTrace) -> bool:
        self.goals.append(tol)
        return super().optimize(tol, most, trace)

    def look(self) -> None:
        before, n_outside = self.coefficients(self.seen), self.over.n - self.active.b.size
        _, changes = since((self.y > 0).astype(np.int64), self.coefficients(self.active.b), before)
        computed = self.computed
        super().look()
        assert self.computed - computed == np.count_nonzero(changes) * n_outside
        self.held(self.coefficients(self.active.b), self.tolerance)
        self.looks.append((self.goals[-1], self.gap(), n_outside))
        g = self.K @ self.coefficients(self.active.b)
        outside = np.setdiff1d(np.arange(len(self.y)), self.rows())
        if self.is_double and outside.size:
            assert min(reported.least for reported in self.outside) == pytest.approx(g[outside].min())
            for name, below in (("violating", 1.0), ("near", 1.0 + growth.NEAR), ("all", np.inf)):
                counts = sum(getattr(reported, name) for reported in self.outside)
                those = outside[g[outside] < below]
                assert counts.tolist() == [int((self.y[those] == sign).sum()) for sign in (-1.0, 1.0)]

    def add(self) -> None:
        before, b = set(self.rows().tolist()), self.coefficients(self.active.b)
        kept = self.active.rows.values.shape[1]
        super().add()
        now = set(self.rows().tolist())
        assert len(now - before) <= (growth.GROWTH - 1) * len(before)
        if len(before) + len(now - before) <= kept:
            assert before <= now  # none has to leave where there is space
        np.testing.assert_array_equal(self.coefficients(self.active.b), b)
        np.testing.assert_array_equal(self.coefficients(self.seen), b)
        self.here(self.tolerance)
        self.held(b, self.tolerance)
        assert self.active.rows.examples.n == self.active.b.size

    def prove(self) -> None:
        super().prove()
        b = self.coefficients(self.active.b)
        self.here(1e-9 * max(1.0, b.sum()))
        g = self.K @ b
        g[self.rows()] += (b / self.costs)[self.rows()]
        assert self.gap() == pytest.approx(2.0 * (1.0 - g.min() * b.sum() / (b @ g)), abs=1e-9)


Searching = tuple[Watched, Matrix]


def watched(n: int, C: float, *, single: bool, monkeypatch: pytest.MonkeyPatch) -> Searching:
    """Return a search that is watched, and the matrix of its problem."""
    X, y = crescents(n, seed=n)
    costs, parts, kernel = C * np.random.default_rng(0).uniform(0.5, 2.0, n), cut(n, 3), Kernel("rbf", 0.5)
    K = y[:, None] * y * (np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) + 1.0)
    crew = Here([Shard(X[part]) for part in parts])
    norm = max(one.norm for one in crew.everywhere(partial(Shard.prepare, kernel=kernel, center=X.mean(axis=0))))
    codes = (y > 0).astype(np.int64)
    crew.each([partial(Shard.assign, codes=codes[part], costs=costs[part]) for part in parts])
    begin = [partial(Shard.begin, negative=0, positive=1)] * 3
    monkeypatch.setattr(by_shards, "SMALL", 0 if single else n)
    Watched.K, Watched.y, Watched.costs, Watched.started = K, y, costs, [p.start for p in parts]
    Watched.looks, Watched.goals = [], []
    search = Watched(by_shards.Over(crew, np.stack(crew.each(begin)), norm, 1, begin), 2**20, np.random.default_rng(0))
    assert search.is_double is not single
    return search, K + np.diag(1.0 / costs)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("n", "single", "C", "most"),
    [
        (500, False, 2.0, 10**6),
        (500, True, 2.0, 10**6),
        (60, False, 2.0, 10**6),
        (400, True, 1e3, 10**6),
        (500, True, 2.0, 1),
    ],
)
def test_parts_of_g_are_right_after_every_step_of_a_search(
    n: int, single: bool, C: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, Q = watched(n, C, single=single, monkeypatch=monkeypatch)
    trace = GapTrace(1e-3)
    close_gap(search, n, 1e-3, most, trace)
    found = search.found(1e-3, trace)
    assert found.is_converged is (most > 1)
    assert len(Watched.looks) >= (1 if n < growth.FIRST or most == 1 else 2)
    goals = [next_goal(goal, gap, 1e-3, outside) for goal, gap, outside in Watched.looks]
    assert Watched.goals[1:] == goals[: len(Watched.goals) - 1]
    assert Watched.goals[0] == (MARGIN * 1e-3 if n <= growth.FIRST else INSIDE)
    assert {gap for _, gap, _ in Watched.looks[:-1] if gap > 1e-3} <= {*found.trace[:, 1].tolist()}
    a, indices = np.zeros(n), np.array(Watched.started)[found.shard] + found.rows
    a[indices] = np.abs(found.coefficients)
    assert a.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(np.sign(found.coefficients), Watched.y[indices])
    np.testing.assert_allclose(found.R, a @ Q @ a)
    assert found.gap.relative == pytest.approx(2.0 * (1.0 - (Q @ a).min() / found.R), abs=1e-9)
    b, K = a / found.R, Watched.K
    losses = 0.5 * Watched.costs @ np.maximum(0.0, 1.0 - K @ b) ** 2
    assert found.gap.primal == pytest.approx(0.5 * b @ K @ b + losses, rel=1e-7 if most > 1 else 1e-4)
    assert found.gap.dual == pytest.approx(b.sum() - 0.5 * b @ Q @ b)
    assert found.steps == search.steps > 0
    assert found.kernel_values >= search.computed
    assert found.trace[-1, 1] == found.gap.relative


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("times", "is_exact"), [(0.5, True), (2.0, False)])
def test_a_proof_is_of_all_in_double_precision_where_errors_are_not_trusted(
    times: float, is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, _ = watched(500, 2.0, single=True, monkeypatch=monkeypatch)
    search.optimize(1e-2, 3, GapTrace(1e-3))
    search.look()
    crew, b = search.over.crew, search.coefficients(search.active.b)
    assert isinstance(crew, Here)
    dense = Watched.K @ b
    scale, largest, far = b.sum() / (b @ dense + (b**2 / Watched.costs).sum()), 0.0, 0

    def errors(shard: Shard, start: int) -> tuple[Vector, Vector]:
        own = start + shard._rows[~shard._active]
        return np.abs(shard._parts[:, ~shard._active].sum(axis=0) - dense[own]), dense[own] * scale

    for shard, start in zip(crew.shards, Watched.started, strict=True):
        error, f = errors(shard, start)
        largest, far = max(largest, float(error[f < 1.0 + CLEAR].max(initial=0.0))), far + int((f > 1.0 + CLEAR).sum())
    assert largest > 1e-9
    assert far
    monkeypatch.setattr(by_shards, "TRUSTED", times * largest / CLEAR)
    search.prove()
    for shard, start in zip(crew.shards, Watched.started, strict=True):
        error, f = errors(shard, start)
        assert error[f < 1.0 + CLEAR].max(initial=0.0) < 1e-10
        assert bool(error.max() < 1e-10) is is_exact


@given(st.integers(0, 10**6), st.booleans())
def test_a_shard_adds_up_its_rows_and_brings_its_parts_along(seed: int, is_sparse: bool) -> None:
    random = np.random.default_rng(seed)
    n, d, k = (int(random.integers(1, top)) for top in (12, 5, 5))
    X = np.where(random.random((n, d)) < 0.6, random.normal(size=(n, d)), 0.0)
    weights, mean = random.choice([0.0, 0.5, 2.0], n), float(random.normal())
    shard = Shard(sparse.csr_array(X) if is_sparse else X)
    sums = shard.sums(weights)
    assert (sums.n, sums.stored) == ((weights > 0).sum(), np.count_nonzero(X) if is_sparse else X.size)
    assert sums.weight == weights.sum()
    assert sums.weighted == pytest.approx((weights[:, None] * X).sum())
    np.testing.assert_allclose(sums.columns, X[weights > 0].sum(axis=0))
    assert shard.squares(weights, mean) == pytest.approx((weights[:, None] * (X - mean) ** 2).sum())
    gamma, center = 0.3, random.normal(size=d)
    prepared = shard.prepare(Kernel("rbf", gamma), None if is_sparse else center)
    assert prepared.wrong is None
    assert prepared.norm == pytest.approx(gamma * ((X if is_sparse else X - center) ** 2).sum(axis=1).max())
    codes, costs = random.integers(-1, 3, n), random.uniform(0.5, 2.0, n)
    shard.assign(codes, costs)
    of = [np.flatnonzero(codes == code) for code in (2, 0)]  # negative, positive
    assert shard.begin(2, 0).tolist() == [own.size for own in of]
    rows = np.sort(np.concatenate(of))
    y, g = np.where(codes[rows] == 0, 1.0, -1.0), np.zeros((2, rows.size))
    shard._parts[:] = g = random.normal(size=(2, rows.size)) + 1.0
    g, total, below = g.copy(), g.sum(axis=0), float(random.choice([1.5, np.inf]))
    counts = random.integers(0, 4, 2)
    taken = shard.take(below, counts, seed)
    again = total[taken.at] < below
    assert again.all()
    np.testing.assert_array_equal(taken.rows, rows[taken.at])
    np.testing.assert_array_equal(taken.of_class, y[taken.at] > 0)
    np.testing.assert_array_equal(taken.costs, costs[taken.rows])
    np.testing.assert_array_equal(taken.parts, g[:, taken.at])
    there = [int(((y == sign) & (total < below)).sum()) for sign in (-1.0, 1.0)]
    assert np.bincount(taken.of_class, minlength=2).tolist() == np.minimum(there, counts).tolist()
    active = np.isin(np.arange(rows.size), taken.at)
    back = taken.at[: taken.at.size // 2]
    shard.drop(back, np.full((2, back.size), 7.0))
    active[back], g[:, back] = False, 7.0
    np.testing.assert_array_equal(shard._active, active)
    Z, scales = random.normal(size=(k, d)), random.choice([0.0, 0.5, 1.0], 2)
    changes = random.normal(size=(k, 2)) * (random.random() < 0.7)
    examples = PreparedRows.of(Kernel("rbf", gamma), sparse.csr_array(Z) if is_sparse else Z, like=shard.examples)
    keep = slice(0, k if changes.any() else 0)
    outside = shard.look(CoefficientChange(scales, examples.take(keep), changes[keep]))
    values = np.exp(-gamma * ((X[rows][:, None] - Z) ** 2).sum(axis=2)) + 1.0
    moved = scales[:, None] * g + y * (values @ changes).T
    g = np.where(active, g, moved)
    np.testing.assert_allclose(shard._parts, g, atol=1e-12)
    total = g.sum(axis=0)
    assert outside.least == pytest.approx(total[~active].min(initial=np.inf))
    for found, limit in zip(outside[1:], (1.0, 1.02, np.inf), strict=True):
        assert np.asarray(found).tolist() == [int((~active & (y == s) & (total < limit)).sum()) for s in (-1.0, 1.0)]
    f = 0.7 * total[~active]
    losses = 0.5 * costs[rows[~active]] @ np.maximum(0.0, 1.0 - f) ** 2
    assert shard.losses(0.7) == pytest.approx(float(losses))
