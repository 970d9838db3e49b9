"""The batch classifier of positive and unlabelled examples, in memory linear in the number of unlabelled examples."""

from __future__ import annotations

from math import isqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from livesvm.solvers import validation
from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.positive_unlabelled import flag_warnings, labels
from livesvm.solvers.estimators.scikit import _TwoClassEstimator, _written_out, warn_of
from livesvm.solvers.estimators.thresholds import WithThresholds
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models import scaling
from livesvm.solvers.models.base import all_or_nothing, keep
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.warnings import ModelWarning
from livesvm.solvers.pu.held_out import Folds
from livesvm.solvers.pu.prior import PriorEstimate, estimate_prior, is_open, numbered
from livesvm.solvers.pu.problem import (
    PUProblem,
    check_both_kinds,
    coefficients,
    is_lam_open,
    labelled_problem,
)
from livesvm.solvers.pu.usmo import PUSolution, Start, usmo
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, dense, like


class PUClassifier(_TwoClassEstimator, WithThresholds):
    """A kernel classifier learnt from positive and unlabelled examples, in memory linear in their number.

    It minimizes ``lam |w|^2 + mean over the unlabelled of max(0, (1 + f) / 2, f) - prior times mean over the positives
    of f`` [du Plessis et al. 2015], by USMO [Sansone, De Natale & Zhou]. Confirmed negatives count as in
    ``IncrementalPUClassifier``.

    Parameters
    ----------
    prior : float, None or "estimate", default None
        Share of positives among the unlabelled, in (0, 1); None or "estimate": estimated, by
        ``livesvm.solvers.pu.prior``.
    lam : float, None or "auto", default None
        Weight of ``|w|^2``, above 0; None or "auto": chosen by the risk on folds.
    kernel : {"linear", "rbf", "laplacian", "poly", "sigmoid", "precomputed"}, default "rbf"
        Of the last X is (n, n), and (m, n) to predict.
    gamma : float or "scale", default "scale"
        Coefficient of rbf, laplacian, poly and sigmoid, above 0; "scale" is 1 / (n_features * variance), for the
        laplacian with the standard deviation.
    degree, coef0 : as in ``IncrementalSVC``
    tol : float, default 1e-6
        tau: by how much the worst pair may violate optimality, in units of f, and the largest relative gap.
    start : {"nested", "one_class", "feasible"}, default "nested"
        Where the search sets out, see ``livesvm.solvers.pu.usmo``.
    cache_mb : float, default 200
        Memory that kernel rows may take, in MiB.

    Attributes
    ----------
    prior_, lam_ : float
        The prior and the lam that were used.
    prior_estimate_ : PriorEstimate or None
        Where the prior comes from, with its interval; None where it was given.
    warnings_ : list of ModelWarning
        What makes the model useless, with what to do about it; ``fit`` warns of that.
    support_ : ndarray, shape (n_support,)
        Rows of X with a coefficient.
    support_vectors_ : ndarray, shape (n_support, d)
        Their features.
    dual_coef_ : ndarray, shape (1, n_support)
        Signed coefficients beta, in the order of ``support_``.
    intercept_ : ndarray, shape (1,)
        b, in units of f.
    solution_ : PUSolution
        What the solver did: ``violation``, ``relative_gap``, ``history``.
    classes_ : ndarray, shape (2,)
        0 and 1.

    Examples
    --------
    >>> from livesvm.solvers import PUClassifier
    >>> X = [[2.0], [2.2], [-2.0], [1.9], [-2.1], [2.1]]
    >>> model = PUClassifier(prior=0.5, lam=0.01, gamma=0.5).fit(X, [1, 1, 0, 0, 0, 0])
    >>> model.predict([[2.05], [-2.05]]).tolist()
    [1, 0]
    >>> model.certificate().relative_gap < 1e-6
    True
    """

    __doc__ = _written_out(__doc__)

    def __init__(
        self,
        prior: float | str | None = None,
        lam: float | str | None = None,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-6,
        start: Start = "nested",
        cache_mb: float = 200,
    ) -> None:
        keep(self, locals())

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Learn from positive and unlabelled examples.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            Features, which are held dense; with the kernel "precomputed" the kernel matrix (n, n).
        y : array_like, shape (n,)
            1 for a positive, 0 for an unlabelled example, -1 for one that is confirmed to be negative.
        sample_weight : array_like, shape (n,), or None, default None
            Weights within each kind; ones by default.
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False raises Cancelled.

        Returns
        -------
        Self
            The model.

        Raises
        ------
        InvalidInput
            See the message; also where there is no positive or no unlabelled example.
        NotOptimal
            The gap was not reached.
        """
        with all_or_nothing(self):
            self._learn(X, y, sample_weight, progress)
        warn_of(self.warnings_)
        return self

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, progress: Progress | None) -> None:
        rows = dense(like(self._read(X), False))
        validation.check_some(rows.shape)
        self._check_features(X, reset=True)
        kinds = labels(y, rows.shape[0])
        weights = validation.sample_weights(sample_weight, rows.shape[0])
        tau = validation.positive(self.tol, "tol")
        cache_bytes = int(validation.positive(self.cache_mb, "cache_mb") * 2**20)
        given = rows
        kernel, rows = self._kernel(rows, weights)
        _make_positive(kernel, rows, cache_bytes)
        chosen = kinds > 0.0
        lam = None if is_lam_open(self.lam) else validation.positive(self.lam, "lam")
        check_both_kinds(weights[~chosen].sum(), weights[chosen].sum())  # before a prior is estimated
        estimate = estimate_prior(kernel, rows[chosen], rows[~chosen]) if is_open(self.prior) else None
        prior = validation.fraction(self.prior, "prior") if estimate is None else estimate.prior
        folds = Folds(kernel, rows, kinds, weights)
        lam = folds.best_lam(prior) if lam is None else lam
        problem, places = labelled_problem(kernel, rows, kinds, weights, prior, lam)
        solution = usmo(problem, tau, start=self.start, cache_bytes=cache_bytes, progress=progress)
        self._take_over(X, rows, coefficients(problem, solution.sigma, kinds, places), problem, solution)
        self.prior_, self.prior_estimate_, self.lam_ = prior, estimate, lam
        self._examples, self._held_out = folds, None
        decisions = self.predictor_.decide(given[~chosen])
        self.warnings_ = flag_warnings(int(np.count_nonzero(decisions > 0)), decisions.size, lam)

    def _decision(self, X: ArrayLike) -> Floats:
        rows = self._read(X)
        self._check_features(X, reset=False)
        return self.predictor_.decide(rows)

    def certificate(self) -> Certificate:
        """Return how far the model is from the optimum, recomputed from the data; takes as long as many passes.

        Returns
        -------
        Certificate
            Violation, gap and objectives.
        """
        self._check_fitted()
        return self._problem.certificate(self.solution_.sigma, self.solution_.b)

    @property
    def diagonal_raised_(self) -> float:
        """The number that was added to the diagonal of a rounded kernel matrix; 0 if nothing was added."""
        self._check_fitted()
        gram = self._problem.kernel.gram
        return 0.0 if gram is None else gram.raised

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    # -- inside --------------------------------------------------------------------------------------------------------

    _problem: PUProblem
    _examples: Folds
    solution_: PUSolution
    predictor_: Predictor
    prior_estimate_: PriorEstimate | None
    warnings_: list[ModelWarning]

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _folds(self) -> Folds:
        return self._examples

    def _read(self, X: Any) -> Features:
        """Return ``X`` as checked rows, dense or sparse; raise InvalidInput if it is not valid."""
        return validation.matrix(X) if self.kernel == "precomputed" else validation.features(X)

    def _kernel(self, X: Floats, weights: Floats) -> tuple[Kernel, Floats]:
        """Return the kernel, and the rows of ``X`` in the form that the kernel takes."""
        gamma = self.gamma
        if isinstance(gamma, str):
            if gamma != "scale":
                raise InvalidInput(f"must be a number or 'scale', not {gamma!r}", field="gamma")
            gamma = 1.0 if self.kernel == "precomputed" else scaling.gamma(X, weights, self.kernel)
        self.gamma_ = validation.positive(gamma, "gamma")
        kernel = Kernel(self.kernel, self.gamma_, self.degree, self.coef0)
        if kernel.name != "precomputed":
            scaling.diagonal(kernel, X)
        kernel, rows = numbered(kernel, X)
        return kernel, dense(rows)

    def _take_over(self, X: ArrayLike, rows: Floats, beta: Floats, problem: PUProblem, solution: PUSolution) -> None:
        self.classes_ = np.array([0, 1])
        self.support_ = np.flatnonzero(beta).astype(np.int32)
        given = problem.kernel.gram is not None
        self.support_vectors_ = (np.asarray(X, np.float64) if given else rows)[self.support_]
        self.dual_coef_ = beta[self.support_][None, :]
        self.intercept_ = np.array([solution.b])
        support = self.support_[None, :].astype(np.float64) if given else np.ascontiguousarray(self.support_vectors_.T)
        width = rows.shape[0] if given else rows.shape[1]
        own = problem.kernel, support, self.dual_coef_[0], solution.b, width
        self.predictor_ = Predictor(*own, gate=self._gate())
        self.solution_, self._problem = solution, problem


def _make_positive(kernel: Kernel, rows: Floats, limit: int) -> None:
    """Raise an error if the kernel is not positive semi-definite on a sample of ``rows`` that fits in ``limit`` bytes.

    If the kernel values were rounded, the diagonal of the kernel matrix is raised, see ``kernels.definiteness``.

    Raises
    ------
    NotPositiveSemidefinite : it is not
    """
    if not kernel.always_positive:
        most = isqrt(limit // 8)
        check_positive(kernel, rows[:: max(1, -(-len(rows) // max(1, most)))], limit)
