"""The L2-SVM, trained by Frank-Wolfe methods on data too large for the path algorithm."""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.scikit import _Classifier, _Estimator, _written_out
from livesvm.solvers.estimators.training_data import (
    convex_costs,
    examples_of,
    labels_of,
    matrix_of,
    problems_of,
    read_by_function,
    scale_of,
    seed_of,
    solved,
    values_by_function,
    values_with,
)
from livesvm.solvers.frank_wolfe import one_versus_one
from livesvm.solvers.frank_wolfe.one_versus_one import PairProblem
from livesvm.solvers.frank_wolfe.problem import Gap, Known, Problem, carried, gap_of
from livesvm.solvers.frank_wolfe.solution import SAMPLE, DualSolution, Options, Variant
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows, product
from livesvm.solvers.models.base import all_or_nothing, keep
from livesvm.solvers.models.class_labels import are_among, places_of
from livesvm.solvers.models.pairs_predictor import scores as class_scores
from livesvm.solvers.runtime.docstrings import Taking
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.threads import one_blas_thread
from livesvm.solvers.runtime.types import Floats, Ints

ROWS = 16384  #: of X that are prepared at once for decisions


taking_training_rows = Taking(
    """
    X : array_like or sparse matrix, shape (m, d)
        Rows, in the units of the features; with the kernel "precomputed" kernel values (m, n) with the training rows.
    """
)


class Last(NamedTuple):
    """The last fit, from which the next one can start: the problem and solution of each pair of classes."""

    classes: NDArray[Any]
    n: int
    pairs: list[PairProblem]
    solutions: list[DualSolution]


class FrankWolfeSVC(_Classifier, _Estimator):
    """A support vector classifier with squared losses, for large data, by Frank-Wolfe methods [Frandi et al.].

    It minimizes ``1/2 |w|^2 + 1/2 b^2 + C/2 sum_i weight_i max(0, 1 - y_i f(x_i))^2``; the dual problem is to minimize
    ``a'K~a`` over the simplex. Several classes are distinguished pair by pair. Sparse examples stay sparse.

    Parameters
    ----------
    C : float, default 1
        Weight of the losses, in (0, 1e100].
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default "rbf"
        "precomputed": X is a kernel matrix. Or a function of rows, or of lists of other examples, as in
        ``IncrementalSVC``; its values take 8 n^2 bytes, ``cache_mb`` at most. Where kernel values were rounded to
        single or half precision, C times a weight counts as no more than keeps the problem convex.
    gamma : float or "scale", default "scale"
        Coefficient of rbf, poly and sigmoid, above 0; "scale" is 1 / (n_features * variance).
    degree, coef0 : as in ``IncrementalSVC``
    variant : {"auto", "fw", "mfw"}, default "auto"
        "auto": blocks from both classes, over active examples that grow: the one to use, whatever n and C. "fw", "mfw":
        the paper's methods [Frandi et al., Algorithms 2 and 3], one coefficient a step, MFW with steps away from one.
    tol : float, default 0.1
        Relative gap ``2 (R - min g) / R`` at which the search ends, with g = K~a and R = a'K~a [Frandi et al., eq. 39].
        At 0.1 no f is more than 0.05 too low, and primal and dual objective agree to about a thousandth.
    sampling : int or None, default 59
        "fw" and "mfw" look for examples in samples of so many, step among those that they have in between, and look at
        all before they end. None: at all of them in every step, which costs a kernel row of all examples, and the gap
        falls slowly unless C is small. "auto" does not sample.
    full_pass : bool, default True
        False: they end at the first sample that holds no example to gain by, however far the optimum is, which
        ``relative_gap_`` tells: a rough answer soon, as the paper's program gives.
    max_iter : int or None, default None
        Steps, at most; by default 100,000 of a kernel row, a million of a block, and with ``sampling`` 10^8.
    cache_mb : float, default 512
        Memory that kernel rows may take, in MiB; by samples, kernel values of those with a coefficient. Where these do
        not fit, "fw" and "mfw" go on without samples.
    warm_start : bool, default False
        Keep the training data, and let the next fit start from this one's solution.
    n_jobs : int or None, default None
        Threads; by default as many as the process may use.
    random_state : int, generator or None, default 0
        Of what is left to chance.

    Attributes
    ----------
    support_ : ndarray, shape (n_support,)
        Rows of X with a coefficient.
    support_vectors_ : ndarray or csr_array, shape (n_support, d)
        Their features, dense or CSR as X was.
    dual_coef_ : ndarray, shape (n_pairs, n_support)
        Coefficients ``a_i y_i``; the sizes of a row sum up to 1.
    intercept_ : ndarray, shape (n_pairs,)
        Their sums: the intercept is penalized like w. -1 or 1 where one of two classes has no weight, and 0 where none
        has: such a class is in ``classes_`` and is never predicted.
    margin_ : ndarray, shape (n_pairs,)
        R: decisions are in its units, so that f of the SVM is the decision divided by R.
    relative_gap_ : float
        The largest of all pairs, recomputed from the data in double precision.
    gaps_ : ndarray, shape (n_pairs, 3)
        Of each: relative gap, primal and dual objective of the SVM.
    n_iter_ : int
        Steps of all pairs.
    trace_ : list of ndarray, shape (k, 2)
        Of each pair, seconds and the relative gap known then.

    Examples
    --------
    >>> from livesvm.solvers import FrankWolfeSVC
    >>> model = FrankWolfeSVC(C=10.0, gamma=0.5).fit([[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> model.predict([[0.5], [3.5]]).tolist()
    [-1, 1]
    >>> model.relative_gap_ <= 0.1
    True
    """

    __doc__ = _written_out(__doc__)
    _by_function: tuple[FunctionKernel, Any] | None = None  # a kernel that is a function, and its support vectors

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        variant: str = "auto",
        tol: float = 0.1,
        sampling: int | None = SAMPLE,
        full_pass: bool = True,
        max_iter: int | None = None,
        cache_mb: float = 512,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        keep(self, locals())

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        places: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train on labelled examples, dense or sparse.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            Features; with the kernel "precomputed" the kernel matrix (n, n).
        y : array_like, shape (n,)
            Labels of two or more classes.
        sample_weight : array_like, shape (n,), or None, default None
            Weights that multiply C, in [0, 1e100]; examples without weight do not count.
        places : array_like of int, shape (n,), or None, default None
            With ``warm_start``, the row that each example had in the last fit, -1 for a new one; by default that of
            the same number, if X has as many rows as then. "scale" stays what it was.
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False cancels.

        Returns
        -------
        Self
            The model.

        Raises
        ------
        InvalidInput
            See the message; the model is as it was.
        NotPositiveSemidefinite
            The kernel is not on these examples; the model is as it was.
        Cancelled, TimeLimit
            The model is as it was.
        """
        options, threads = self._options(), self._threads()
        function, held, rows = self._read(X)
        n = rows.shape[0]
        labels = labels_of(y, n)
        weights = validation.sample_weights(sample_weight, n)
        if not weights.any():
            raise InvalidInput("all weights are zero", field="sample_weight")
        classes = np.unique(labels[weights > 0])
        if self.kernel == "precomputed" and rows.shape[1] != n:
            raise InvalidInput(f"a precomputed kernel matrix has as many columns as rows, {n}", field="X")
        last, was = self._last_places(places, n, classes)
        kernel = self._made_kernel(rows, weights, last is not None and places is not None)
        costs = validation.positive(self.C, "C", validation.LARGEST) * weights
        codes = np.where(weights > 0, np.searchsorted(classes, labels), -1)
        prepared, own = problems_of(kernel, rows, codes, costs, classes, threads)
        starts = [self._start(q, pair, last, was) for q, pair in enumerate(own)]
        solutions = solved(own, options, starts, threads, progress).solutions
        with all_or_nothing(self):
            if function is None or function.objects is None:
                self._check_features(X, reset=True)
            self._keep(rows, kernel, prepared, own, solutions)
            self._know(np.unique(labels), classes)
            self._by_function = None
            if function is not None:
                support = held[self.support_.astype(np.int64)]
                of_support = function if function.objects is None else function.only(support)[0]
                self._by_function, self._support = (of_support, support), PreparedRows.of(kernel, np.empty((0, 0)))
                self.n_features_in_ = int(held.shape[1])
                self.support_vectors_ = function.given(support)
            self._last = Last(classes, n, own, solutions) if self.warm_start else None
        if self.relative_gap_ > self.tol:
            message = f"the relative gap is {self.relative_gap_:.1e} after {self.n_iter_} steps, not {self.tol:g}"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return self

    def _read(self, X: Any) -> tuple[FunctionKernel | None, Any, Any]:
        """Return the function kernel and its examples, if any, and the training data: features or kernel values."""
        if not callable(self.kernel):
            rows = examples_of(X)
            return None, rows, rows
        function, held = read_by_function(self.kernel, X)
        return function, held, values_by_function(function, held, self._options().cache_bytes)

    @property
    def _is_given(self) -> bool:
        """Whether the training data are a kernel matrix, given by the caller or computed by a kernel function."""
        return callable(self.kernel) or self.kernel == "precomputed"

    def _options(self) -> Options:
        """Return the options of the search; raise InvalidInput if a parameter is not valid."""
        tol = validation.positive(self.tol, "tol")
        cache = int(2**20 * validation.positive(self.cache_mb, "cache_mb"))
        sampling = None if self.sampling is None else validation.whole(self.sampling, "sampling")
        most = None if self.max_iter is None else validation.whole(self.max_iter, "max_iter")
        seed, full_pass = seed_of(self.random_state), bool(self.full_pass)
        return Options(cast("Variant", self.variant), tol, sampling, cache, most, seed, full_pass)

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return validation.whole(self.n_jobs, "n_jobs")

    def _made_kernel(self, X: Any, weights: Floats, keeps: bool) -> Kernel:
        gamma = self.gamma
        if keeps and gamma == "scale":
            gamma = self._kernel.gamma
        elif gamma == "scale":
            gamma = 1.0 if self._is_given or self.kernel == "linear" else scale_of(X, weights)
        name = "precomputed" if self._is_given else self.kernel
        return Kernel(name, validation.positive(gamma, "gamma"), self.degree, self.coef0)

    def _last_places(self, places: ArrayLike | None, n: int, classes: NDArray[Any]) -> tuple[Last | None, Ints | None]:
        """Return the last fit and the position of each row in its training data, or None twice if there is none."""
        last: Last | None = getattr(self, "_last", None) if self.warm_start else None
        if places is not None and last is None:
            raise InvalidInput("there is no last fit with warm_start to start from", field="places")
        if last is None or last.classes.tolist() != classes.tolist():
            return None, None
        if places is None:
            return (last, np.arange(n)) if last.n == n else (None, None)
        found = np.asarray(places)
        if found.shape != (n,) or found.dtype.kind not in "iu":
            raise InvalidInput(f"must be {n} whole numbers, one for each row", field="places")
        if found.size and (found.min() < -1 or found.max() >= last.n):
            raise InvalidInput(f"go from -1 to {last.n - 1}, the rows of the last fit", field="places")
        used = found[found >= 0]
        if np.unique(used).size < used.size:
            raise InvalidInput("a row of the last fit stands twice", field="places")
        return last, found.astype(np.int64)

    def _start(self, q: int, pair: PairProblem, last: Last | None, was: Ints | None) -> Known | None:
        """Return the coefficients from which the search for pair ``q`` starts, or None to start from 0."""
        if last is None or was is None or self._is_given:
            return None
        before = last.pairs[q]
        there = np.full(last.n, -1, np.int64)
        there[before.indices] = np.arange(before.indices.size)
        inside = np.where(was[pair.indices] >= 0, there[was[pair.indices]], -1)
        return carried(pair.problem, before.problem, last.solutions[q].known, inside)

    def _keep(
        self,
        X: Any,
        kernel: Kernel,
        prepared: PreparedRows,
        own: list[PairProblem],
        solutions: list[DualSolution],
    ) -> None:
        """Set the fitted attributes of the model from the solutions of all pairs."""
        support, self.dual_coef_ = one_versus_one.coefficients_of(solutions, own, X.shape[0])
        self.support_ = support.astype(np.int32)
        self.intercept_ = self.dual_coef_.sum(axis=1)
        self.margin_ = np.array([found.R for found in solutions])
        self.support_vectors_ = X[self.support_]
        self.gaps_ = np.array([(found.gap.relative, found.gap.primal, found.gap.dual) for found in solutions])
        self.relative_gap_ = float(self.gaps_[:, 0].max())
        self.n_iter_ = max(1, sum(found.steps for found in solutions))
        self.trace_ = [found.trace for found in solutions]
        self.n_features_in_ = int(X.shape[1])
        self._kernel, self._support = kernel, prepared.take(self.support_.astype(np.int64))

    def _know(self, labels: NDArray[Any], classes: NDArray[Any]) -> None:
        """Make all ``labels`` classes of the model; a class without weight loses against every class with weight."""
        self.classes_ = labels
        has_weight = np.isin(labels, classes)
        if has_weight.all():
            return
        pairs = one_versus_one.pairs(labels.size)
        solved = [has_weight[a] and has_weight[b] for a, b in pairs]
        won = np.array([float(has_weight[b]) - float(has_weight[a]) for a, b in pairs])
        coefficients, gaps = np.zeros((len(pairs), self.support_.size)), np.zeros((len(pairs), 3))
        coefficients[solved], gaps[solved] = self.dual_coef_, self.gaps_
        margin = np.ones(len(pairs))
        won[solved], margin[solved] = self.intercept_, self.margin_
        self.dual_coef_, self.intercept_, self.margin_, self.gaps_ = coefficients, won, margin, gaps

    # -- answers -------------------------------------------------------------------------------------------------------

    @taking_training_rows(
        """
        ndarray, shape (m,) or (m, n_classes)
            Decisions in units of ``margin_``, positive for ``classes_[1]``, or a score of each class.
        """
    )
    def decision_function(self, X: Any) -> Floats:
        """Return the decisions of a model of two classes, or the class scores of a model of more classes."""
        decisions = self._decisions(X)
        if self.classes_.size == 2:
            return np.asarray(decisions[:, 0])
        return class_scores(-decisions / self.margin_, self.classes_.size)  # which are positive for the first of two

    @taking_training_rows("ndarray, shape (m,)\n    Labels.")
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        scores = self.decision_function(X)
        found = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[found])

    def _decisions(self, X: Any) -> Floats:
        """Return the decisions on ``X`` of the problem of each pair of classes, (m, n_pairs)."""
        check_is_fitted(self)
        if self._by_function is not None:
            values = values_with(*self._by_function, X)
            return np.asarray(values @ self.dual_coef_.T + self.intercept_)
        rows = matrix_of(X)
        self._check_features(X, reset=False)
        validation.check_width(rows.shape[1], self.n_features_in_, "X")
        is_sparse = sparse.issparse(self._support.values)
        out = np.empty((rows.shape[0], self.dual_coef_.shape[0]))
        with one_blas_thread():
            for start in range(0, rows.shape[0], ROWS):
                part = rows[start : start + ROWS]
                if sparse.issparse(part) != is_sparse:
                    part = sparse.csr_array(part) if is_sparse else part.toarray()
                if self.kernel == "precomputed":
                    out[start : start + ROWS] = part[:, self.support_] @ self.dual_coef_.T
                    continue
                prepared = PreparedRows.of(self._kernel, part, like=self._support)
                out[start : start + ROWS] = product(prepared, self._support, self.dual_coef_.T, self._threads())
        return np.asarray(out + self.intercept_)

    def certificate(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Gap:
        """Return the gap of ``dual_coef_`` on training data, recomputed from these data and coefficients alone.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            What the model was trained on.
        y : array_like, shape (n,)
            Its labels.
        sample_weight : array_like, shape (n,), or None, default None
            Its weights.

        Returns
        -------
        Gap
            Relative gap, and primal and dual objective, of the worst pair of classes [Frandi et al., eq. 39].
        """
        check_is_fitted(self)
        rows = self._read(X)[-1]
        if not (callable(self.kernel) and self._by_function and self._by_function[0].objects is not None):
            self._check_features(X, reset=False)
        labels = labels_of(y, rows.shape[0])
        if self.support_.max(initial=-1) >= labels.size:
            reason = f"has {labels.size} rows, fewer than the model was trained on: give its training data"
            raise InvalidInput(reason, field="X")
        codes = np.full(labels.size, -1)
        is_known = are_among(labels, self.classes_)
        codes[is_known] = places_of(labels[is_known], self.classes_)
        costs = self.C * validation.sample_weights(sample_weight, rows.shape[0])
        costs = convex_costs(self._kernel, rows, costs)
        prepared = PreparedRows.of(self._kernel, rows)
        gaps = []
        for q, (negative, positive) in enumerate(one_versus_one.pairs(self.classes_.size)):
            a = np.zeros(rows.shape[0])
            a[self.support_] = np.abs(self.dual_coef_[q])
            indices = np.flatnonzero(np.isin(codes, (negative, positive)) & (costs > 0))
            signs = np.where(codes[indices] == positive, 1.0, -1.0)
            if np.unique(signs).size < 2:  # one has no weight
                continue
            problem = Problem(prepared.take(indices), signs, costs[indices], self._threads())
            with one_blas_thread():
                gaps.append(gap_of(problem, a[indices], problem.parts(problem.examples, a[indices])))
        if not gaps:
            raise InvalidInput("has no two of the model's classes: give its training data", field="y")
        return max(gaps, key=lambda gap: gap.relative)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
