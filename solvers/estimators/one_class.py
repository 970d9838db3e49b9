"""The live one-class model: its losses, and the offset of its boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.regularization.path import RegularizationPath, regularization_path
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import keep
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.problem.piecewise_linear import Losses, one_class
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats, Ints


class LiveOneClassSVM(ChangingEstimator):
    """A one-class support vector machine that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + sum_i weight_i (max(0, rho - w'x_i) - nu rho)``, the problem of [Schoelkopf et al.] times
    ``nu n``. The coefficients then lie in [0, weight_i] and sum up to ``nu sum_i weight_i``, so an example that comes
    or goes changes nothing else than this sum. ``f = w'x - rho`` is negative for outliers.

    Parameters
    ----------
    nu : float, default 0.5
        Upper bound of the share of outliers, in (0, 1].
    kernel, gamma, degree, coef0, cache_mb, scale, columns, components : as in ``IncrementalSVC``

    Attributes
    ----------
    offset_ : float
        rho: the decision function is ``score_samples`` minus it.
    support_, support_vectors_, dual_coef_, intercept_, keys_, n_window_ : as in ``IncrementalSVC``
    """

    nu: float
    fit_intercept = True
    _loss_parameters = ("nu",)

    def __init__(
        self,
        nu: float = 0.5,
        kernel: Any = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_mb: float = 512,
        scale: str = "none",
        columns: Any = None,
        components: int | None = None,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    @taking_rows("ndarray, shape (m,)\n    f(x), in units of ``score_samples``; negative for outliers.")
    def decision_function(self, X: Any) -> Floats:
        """Return the signed distance to the boundary; negative for outliers.

        Margin examples lie on the boundary: values of at most 1e-10 of rho, which are rounding, become 0.
        """
        return self._decision(X)

    @taking_rows("ndarray, shape (m,)\n    ``w'x``.")
    def score_samples(self, X: Any) -> Floats:
        """Return ``w'x``; the decision function is this value less ``offset_``."""
        return self.decision_function(X) + self.offset_

    @taking_rows("ndarray of int, shape (m,)\n    1 or -1.")
    def predict(self, X: Any) -> Ints:
        """Return 1 for inliers and -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def regularization_path(
        self, nu_min: float, nu_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every nu, exact between its breakpoints; the model stays as it is.

        Parameters
        ----------
        nu_min, nu_max : float
            The range of nu, in (0, 1].
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False raises Cancelled.

        Returns
        -------
        RegularizationPath
            The path over nu.

        Raises
        ------
        InvalidInput
            The range is empty or not in (0, 1], or the window is empty.
        NotOptimal
            A path could not be followed to the acceptable gap.
        """
        self._check_fitted()
        if validation.positive(nu_max, "nu_max") > 1:
            raise InvalidInput(f"must lie in (0, 1], not {nu_max!r}", field="nu_max")
        return regularization_path(self, "nu", nu_min, nu_max, progress)

    @property
    def offset_(self) -> float:
        """The threshold rho: ``score_samples`` of inliers are at least rho."""
        return -self._learnt.state.b

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        return np.ones(m)

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean(decisions < 0))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        if C is not None:
            raise InvalidInput("a one-class model has none; its parameter is nu", field="C")
        return one_class(weights)

    def _unit_cost(self, C: float | None) -> float:
        return 1.0

    def _total_per_weight(self) -> float:
        nu = validation.number_or_none(self.nu)
        if nu is None or not 0 < nu <= 1:
            raise InvalidInput(f"must lie in (0, 1], not {self.nu!r}", field="nu")
        return nu
