"""Methods of every fitted model: decisions, a certificate, and the window's examples."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers.certificate import Certificate
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.nystroem import Nystroem
from livesvm.solvers.models.pairs_predictor import RankCertificate
from livesvm.solvers.models.predictor import Gate, Predictor, checked_rows
from livesvm.solvers.models.window import Window
from livesvm.solvers.runtime.interrupt import COPY, parts
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, as_scipy, dense
from livesvm.solvers.tables.columns import Codes, TableColumns
from livesvm.solvers.validation import Key


class Fitted:
    """Base of the live estimators: all queries about a window, none of which changes the model.

    All methods and attributes raise scikit-learn's NotFittedError before the first examples.
    """

    _window: Window
    feature_scale_: Any = None  #: a FeatureScale, of a table a TableEncoding; None if ``scale`` is "none"
    columns_: TableColumns

    @property
    def _learnt(self) -> Window:
        """The window; raises scikit-learn's NotFittedError before the first examples."""
        if not hasattr(self, "_window"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator, or 'update' with some examples: it has not seen any example."
            )
        return self._window

    def _check_features(self, X: ArrayLike, *, reset: bool) -> None:
        """Store or compare the feature names of ``X``; only scikit-learn's estimators know names and do so."""

    def _gate(self) -> Gate | None:
        """Return a function that compares feature names with the model's present names, even after later changes."""
        return None

    # -- answers -------------------------------------------------------------------------------------------------------

    def _decision(self, X: ArrayLike) -> Floats:
        predictor = self._frozen()
        is_table = predictor.scale is not None and predictor.scale.columns is not None
        if is_table or (isinstance(predictor.kernel, FunctionKernel) and predictor.kernel.objects is not None):
            return predictor.decision_function(X)
        gate, is_given = partial(self._check_features, reset=False), predictor.kernel.gram is not None
        return predictor.decide(checked_rows(X, predictor.n_features, gate, is_given=is_given))

    def predictor(self) -> Predictor:
        """Return the model as it is now, frozen: safe to share between threads.

        Returns
        -------
        Predictor
            The decision function; of more than two classes a ``PairsPredictor``.
        """
        gate = self._gate()
        return self._frozen() if gate is None else replace(self._frozen(), gate=gate)

    def _frozen(self) -> Predictor:
        """Return a frozen predictor, which expects rows that have been checked."""
        predictor: Predictor = self._learnt.predictor()
        scale = self.feature_scale_
        if isinstance(predictor.kernel, FunctionKernel):
            predictor = replace(predictor, kernel=predictor.kernel.frozen(predictor.support))
        if predictor.kernel.is_projected:
            return replace(predictor, scale=scale, n_features=scale.width)
        return predictor if scale is None else replace(predictor, scale=scale)

    def certificate(self) -> Certificate:
        """Return how far the model is from the optimum of its window, recomputed from the data.

        Returns
        -------
        Certificate
            Violation, gap and objectives; see :class:`livesvm.Certificate`. Of a model with components a
            ``RankCertificate``: its ``left_out`` tells how far the kernel is from the whole one.
        """
        found, scale = self._learnt.certificate(), self.feature_scale_
        if not isinstance(scale, Nystroem):
            return found
        rows, whole = self.window_features, 0.0
        for part in parts(len(rows), COPY * scale.width):
            whole += float(scale.kernel.diagonal(scale.scaled(rows[part])).sum())
        has = float(self._learnt.diagonal.sum())
        known = {one.name: getattr(found, one.name) for one in fields(found)}
        share = max(0.0, 1.0 - has / whole) if whole > 0.0 else 0.0
        return RankCertificate(**known, kernel=scale.kernel.name, components=scale.basis.shape[1], left_out=share)

    def left_out(self, X: ArrayLike) -> Floats:
        """Return the share of each k(x, x) that the map to components leaves out: 0 near the landmarks, and at most 1.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Rows, as ``predict`` takes them.

        Returns
        -------
        ndarray, shape (m,)
            Shares; the model knows little of rows with a large one. All are 0 without ``components``.

        Raises
        ------
        InvalidInput
            Names the row and column.
        """
        rows, scale = self.predictor().validate(X), self.feature_scale_
        if not isinstance(scale, Nystroem):
            return np.zeros(rows.shape[0])
        return scale.left_out(rows)

    @property
    def diagonal_raised_(self) -> float:
        """The value added to each k(x, x) of the window: 0 unless kernel values were rounded below double precision.

        Rounded values of a given matrix, or of a function, may have eigenvalues a little below 0. If the diagonal is
        raised, the model is the exact solution for the raised kernel matrix.
        """
        held = self._learnt.kernel.held
        return 0.0 if held is None else held.raised

    # -- the window ----------------------------------------------------------------------------------------------------

    @property
    def keys_(self) -> list[Key]:
        """Keys of the window, oldest first."""
        return list(self._learnt.keys)

    @property
    def n_window_(self) -> int:
        """Number of examples in the window."""
        return len(self._learnt.keys)

    @property
    def window_features(self) -> Features:
        """Features of the window, (n, d), oldest first, in the units in which they came: an array, or sparse rows."""
        if self.feature_scale_ is None:
            return self._learnt.X
        rows: Floats = self._came.copy()  # type: ignore[attr-defined]
        return rows if self.feature_scale_.columns is None else Codes.of(rows, self.columns_)

    @property
    def window_X(self) -> Any:
        """Features of the window as an array, csr_array of scipy, list for a function kernel, or rows with names."""
        if self.feature_scale_ is not None and self.feature_scale_.columns is not None:
            return self.columns_.rows(dense(self.window_features))
        return self._as_given(self.window_features)

    def _as_given(self, rows: Features) -> Any:
        """Return rows in the form in which users give them."""
        window: Window | None = vars(self).get("_window")
        kernel = None if window is None else window.kernel
        return kernel.given(rows) if isinstance(kernel, FunctionKernel) else as_scipy(rows)

    @property
    def window_y(self) -> NDArray[Any]:
        """Targets of the window, (n,), oldest first."""
        return self._learnt.y

    @property
    def window_sample_weight(self) -> Floats:
        """Weights of the window's examples, (n,), oldest first."""
        return self._learnt.weights

    @property
    def window_coefficients(self) -> Floats:
        """Signed coefficients of the window's examples, (n,), oldest first; with several classes (n, n_classes - 1).

        With several classes, column r has each example's coefficient for the pair of its own class and the r-th other
        class. The coefficient is positive for the pair's first class.
        """
        return self._learnt.coefficients

    @property
    def window_is_free(self) -> NDArray[np.bool_]:
        """Whether each window example is on a margin, (n,), oldest first; each pair of classes has its own margin."""
        return self._learnt.is_free

    @property
    def support_(self) -> NDArray[np.int32]:
        """Places in the window, oldest first, of examples with a coefficient other than 0, (n_support,)."""
        return np.flatnonzero(self._learnt.beta).astype(np.int32)

    @property
    def support_vectors_(self) -> Any:
        """Features of the support vectors, (n_support, d), on the model's scale; a csr_array of scipy if sparse."""
        return self._as_given(self._learnt.X[self.support_])

    @property
    def dual_coef_(self) -> Floats:
        """Signed coefficients of the support vectors, (1, n_support); with several classes (n_classes - 1, n_support).

        With several classes, row r has each support vector's coefficient for the pair of its own class and the r-th
        other class. The coefficient is positive for the pair's first class, as in scikit-learn.
        """
        return np.atleast_2d(self._learnt.coefficients[self.support_].T)

    @property
    def intercept_(self) -> Floats:
        """The intercept b, (1,), for features on the model's scale, with no center; with several classes (n_pairs,)."""
        return self._learnt.intercepts_in_units()
