"""What a path says, of one problem or of several: the optimum for every value of a parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from livesvm.solvers.analyses.regularization.error_curve import Best, ErrorCurve
from livesvm.solvers.runtime.types import Floats


class Sizes(NamedTuple):
    """How many are free, and how many are free or have a coefficient at a bound that is not zero."""

    n_free: int
    n_support: int


class Optima(ABC):
    """The optimum of a window for every value of a parameter."""

    @abstractmethod
    def at(self, value: float) -> Any:
        """Return a fitted estimator for a value of the parameter.

        Parameters
        ----------
        value : float
            A value of the path's parameter.

        Returns
        -------
        live estimator
            Fitted; it knows nothing of the path.

        Raises
        ------
        InvalidInput
            The value is not on the path.
        """

    @abstractmethod
    def coefficients(self, value: float) -> Floats:
        """Return the coefficients at a value of the parameter.

        Parameters
        ----------
        value : float
            A value of the path's parameter.

        Returns
        -------
        ndarray, shape (n,)
            Signed coefficients beta, oldest example first. Of more than two classes (n, n_classes - 1): column r is of
            the pair with the r-th other class, positive for the first of the two.

        Raises
        ------
        InvalidInput
            The value is not on the path.
        """

    @abstractmethod
    def sizes(self, value: float) -> Sizes:
        """Return how many examples are free at a value of the parameter, and how many are support vectors.

        Parameters
        ----------
        value : float
            A value of the path's parameter.

        Returns
        -------
        Sizes
            Counts of examples.

        Raises
        ------
        InvalidInput
            The value is not on the path.
        """

    @abstractmethod
    def validation_error(self, X: ArrayLike, y: ArrayLike | None = None) -> ErrorCurve:
        """Return the error for every value of the parameter.

        It is the share of wrong labels (classification, one-class) or, in regression, the mean absolute error in units
        of y; the mean pinball loss where the model has that.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.
        y : array_like, shape (m,), or None, default None
            Their targets; of a one-class model 1 for inliers, all of them by default, and -1 for outliers.

        Returns
        -------
        ErrorCurve
            The error for every value of the parameter.

        Raises
        ------
        InvalidInput
            There are no rows, or targets that cannot be.
        """

    def best(self, X: ArrayLike, y: ArrayLike | None = None) -> Best:
        """Return the value of the parameter with the least error, and the whole interval of it.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.
        y : array_like, shape (m,), or None, default None
            Their targets.

        Returns
        -------
        Best
            The value, the error there, and the interval.
        """
        return self.validation_error(X, y).best()
