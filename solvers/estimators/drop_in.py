"""Parameters and attributes that code for scikit-learn's ``SVC``, ``SVR`` and ``OneClassSVM`` expects.

Parameters that steer libsvm's search are accepted and ignored: the optimum is reached exactly, whatever they are.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.path_problem import ExampleUpdate
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.warnings import LARGE_GAP, gap_message

#: Taken and ignored, each with the reason.
IGNORED = {
    "tol": "the optimum is certified to a relative gap of 1e-8 or less where rounding allows it, see certificate()",
    "max_iter": "a path ends at the optimum; runtime is limited by livesvm.solvers.time_limit",
    "cache_size": "the memory for kernel rows is cache_mb",
    "shrinking": "the path itself decides which examples to leave out for a while",
    "random_state": "nothing is random",
    "verbose": "what an update did is in its report",
}


class DropIn(ChangingEstimator):
    """Attributes of scikit-learn's support vector machines; a base class that is listed before the live estimator."""

    n_iter_: Any  #: breakpoints of the path of the last update, 1 at least
    fit_status_ = 0  #: there is no model but at its optimum

    def _note(self, report: UpdateReport, judged: ExampleUpdate | None) -> None:
        super()._note(report, judged)
        self._window.updates += 1
        self.n_iter_ = self._iterations(max(1, report.events))
        if report.relative_gap > LARGE_GAP:
            warnings.warn(gap_message(report.relative_gap), RuntimeWarning, stacklevel=4)

    def _iterations(self, events: int) -> Any:
        return events

    @property
    def dual_coef_(self) -> Any:
        """Signed coefficients of the support vectors, (n_classes - 1, n_support); a csr_array for a sparse window."""
        return self._like_window(super().dual_coef_)

    @property
    def coef_(self) -> Any:
        """Weights of the scaled features, (1, d), or (n_pairs, d) with several classes; for linear kernels only.

        The weights are read-only, and a csr_array if the window is sparse.
        """
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        out = self._like_window(self._weights())
        (out if isinstance(out, np.ndarray) else out.data).flags.writeable = False
        return out

    def _weights(self) -> Any:
        return self.dual_coef_ @ self._learnt.kernel.centered(self.support_vectors_)

    def _like_window(self, values: Any) -> Any:
        """Return an array (m, n) as scikit-learn's attributes have it: as a csr_array if the window is sparse."""
        if not self._learnt.is_sparse:
            return np.asarray(values)
        from scipy.sparse import csr_array

        return csr_array(values)

    @property
    def shape_fit_(self) -> tuple[int, ...]:
        """The shape of the window, (n, d), or (n,) for examples that are not rows of numbers."""
        X = self.window_X
        return (len(X),) if isinstance(X, list) else tuple(X.shape)

    def to_sklearn(self) -> Any:
        """Return scikit-learn's estimator with the same predictions, see ``estimators.to_sklearn``.

        Returns
        -------
        SVC, SVR, OneClassSVM or Pipeline
            Fitted; a pipeline where the model has a scale.
        """
        from livesvm.solvers.estimators.to_sklearn import to_sklearn

        return to_sklearn(self)

    def to_onnx(self) -> bytes:
        """Return the model in the ONNX format; needs the extra ``livesvm[onnx]``.

        Returns
        -------
        bytes
            The model in the ONNX format; its one input ``X`` is (m, d) in single precision.
        """
        from livesvm.solvers.estimators.to_sklearn import to_onnx

        return to_onnx(self)

    @property
    def n_support_(self) -> NDArray[np.int32]:
        """Number of support vectors, (1,); for a classifier the number of each class."""
        return np.array([self.support_.size], np.int32)
