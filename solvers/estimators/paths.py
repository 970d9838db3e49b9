"""Methods that classifiers and regressors have in common: paths over C, and paths of robust losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from livesvm.solvers.analyses.outlier.pairwise import pairwise_outlier_path
from livesvm.solvers.analyses.outlier.path import outlier_path
from livesvm.solvers.analyses.regularization.pairwise import pairwise_regularization_path
from livesvm.solvers.analyses.regularization.path import regularization_path
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.robust.ramp_losses import Parameter
from livesvm.solvers.runtime.progress import Progress


class WithPaths(ChangingEstimator):
    """A live estimator with a cost C, and with robust losses."""

    def regularization_path(self, C_min: float, C_max: float, *, progress: Progress | None = None) -> Any:
        """Return the optimum of the window for every C, exact between its breakpoints [Ong, Shao & Yang].

        The model itself stays as it is.

        Parameters
        ----------
        C_min, C_max : float
            The range of C; sample and class weights multiply each.
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False raises Cancelled.

        Returns
        -------
        RegularizationPath or PairwiseRegularizationPath
            Of more than two classes the latter, with a path for each pair.

        Raises
        ------
        InvalidInput
            The range is empty, the window is, or it has examples of one class only.
        NotOptimal
            A path could not be followed to the acceptable gap.

        Examples
        --------
        >>> from livesvm.solvers import IncrementalSVC
        >>> model = IncrementalSVC(gamma=0.5).fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [-1, -1, 1, -1, 1])
        >>> path = model.regularization_path(C_min=0.01, C_max=100.0)
        >>> path.best([[1.8], [3.9]], [1, 1]).error
        0.0
        >>> path.at(10.0).certificate().relative_gap < 1e-9
        True
        """
        if View(self).pairs:
            return pairwise_regularization_path(self, C_min, C_max, progress)
        if hasattr(self, "classes_") and np.unique(self._window.y).size == 1:
            raise InvalidInput("all examples have one class; a path needs both", field="window")
        return regularization_path(self, "C", C_min, C_max, progress)

    def outlier_path(
        self,
        parameter: Parameter = "theta",
        *,
        theta: float = 0.0,
        s: float | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Return the path of robust models of the window [Suzumura et al., Algorithm 1]; this model stays as it is.

        Parameters
        ----------
        parameter : {"theta", "s"}, default "theta"
            Which of the two runs: theta falls from 1 while the cutoffs stand at ``s``, or the cutoffs come in until
            ``s`` while a loss keeps the share ``theta`` of its slope beyond them.
        theta : float, default 0
            The least share of slope, in [0, 1).
        s : float or None, default None
            Where the cutoffs end: of classes a margin, at most 0, by default 0; of regression the size of a residual,
            in units of y, by default with "theta" 3.7 times their median, with "s" a fifth of the largest.
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False raises Cancelled.

        Returns
        -------
        OutlierPath or PairwiseOutlierPath
            From the convex model to the most robust one; of more than two classes the latter, a path for each pair.

        Raises
        ------
        InvalidInput
            A parameter cannot be used, or all examples have one class.
        NotOptimal
            The path could not be followed.
        """
        path = pairwise_outlier_path if View(self).pairs else outlier_path
        return path(self, parameter, theta=theta, s=s, progress=progress)
