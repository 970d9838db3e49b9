"""Predictions by models of positive and unlabelled examples: decisions above 0, or above a requested threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.pu.held_out import HeldOut, Threshold
from livesvm.solvers.runtime.types import Floats, Ints


class WithThresholds:
    """A classifier with a threshold of its decisions that may differ from 0."""

    _held_out: HeldOut | None = None  #: decisions on the present examples by models without them

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return f(x).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, d)
            Rows, in the units of the features. With the kernel "precomputed" kernel values (m, n) with the examples
            learnt, oldest first; with a function for a kernel, what that takes.

        Returns
        -------
        ndarray, shape (m,)
            f(x); positive for what is predicted to be positive.

        Raises
        ------
        InvalidInput
            Also while a live model waits for examples of one kind.
        """
        model: Any = self
        model._check_fitted()
        return np.asarray(model._decision(X))

    def held_out(self) -> HeldOut:
        """Return decisions on the examples of each fold by a model without this fold; decisions are computed once.

        Returns
        -------
        HeldOut
            Decisions of positives and of unlabelled examples, in units of f.
        """
        model: Any = self
        model._check_fitted()
        if self._held_out is None:
            self._held_out = model._folds().held_out(model.prior_, model.lam_)
        return self._held_out

    def predict(self, X: ArrayLike, *, alerts: float | None = None, precision: float | None = None) -> Ints:
        """Return 1 for each row with a decision above 0, or above the requested :meth:`threshold`, else 0.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, d)
            Rows, as ``decision_function`` takes them.
        alerts : float or None, default None
            Largest share of unlabelled examples above the threshold, in (0, 1).
        precision : float or None, default None
            Least estimated share of positives among what is above, in (0, 1); as right as the prior is.

        Returns
        -------
        ndarray of int, shape (m,)
            1 for what is predicted to be positive, else 0.

        Raises
        ------
        InvalidInput
            Also while the model waits for examples of one kind.
        """
        decisions = self.decision_function(X)
        is_asked = alerts is not None or precision is not None
        return np.where(decisions > (self.threshold(alerts, precision).value if is_asked else 0.0), 1, 0)

    def threshold(self, alerts: float | None = None, precision: float | None = None) -> Threshold:
        """Return the threshold for ``alerts`` or ``precision``, from held-out decisions of the examples.

        Parameters
        ----------
        alerts : float or None, default None
            Largest share of unlabelled examples above the threshold, in (0, 1).
        precision : float or None, default None
            Least estimated share of positives among what is above, in (0, 1); as right as the prior is.

        Returns
        -------
        Threshold
            The value, and its shares on held-out examples.

        Raises
        ------
        InvalidInput
            Not one of the two is given, or no threshold is estimated to have such a precision.
        """
        return self.held_out().threshold(alerts, precision)
