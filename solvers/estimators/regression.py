"""The live support vector regressor: its losses, and its paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.regularization.path import RegularizationPath, regularization_path
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.paths import WithPaths
from livesvm.solvers.models.base import keep
from livesvm.solvers.models.keyed_window import ExampleUpdate
from livesvm.solvers.models.record import Record
from livesvm.solvers.problem.piecewise_linear import Losses, epsilon_insensitive, pinball
from livesvm.solvers.robust.ramp_losses import RESIDUALS, CutoffRule
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats


class LiveSVR(WithPaths):
    """A support vector regressor that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + C sum_i weight_i loss(y_i - f(x_i))`` over its window.

    Parameters
    ----------
    C : float or "auto", default 1
        Weight of the losses, in (0, 1e100]. "auto": the model chooses it by its window, gamma and epsilon too where
        they are "auto", and how columns are encoded and count; see ``choice_``.
    epsilon : float or "auto", default 0.1
        Half width of the tube without loss, at least 0, in units of y; for the loss that has one.
    loss : {"epsilon_insensitive", "absolute", "pinball"}, default "epsilon_insensitive"
        What a residual costs.
    quantile : float, default 0.5
        Level of the pinball loss, in (0, 1): f estimates that conditional quantile.
    kernel, gamma, degree, coef0, fit_intercept, cache_mb, scale, columns, components : as in ``IncrementalSVC``

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, keys_, n_window_ : as in ``IncrementalSVC``

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVR
    >>> model = IncrementalSVR(C=10.0, epsilon=0.1, kernel="linear").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.predict([[1.5]]).round(6).tolist()
    [1.45]
    """

    epsilon: float
    loss: str
    quantile: float
    _loss_parameters = ("C", "epsilon", "loss", "quantile")

    def __init__(
        self,
        C: float | str = 1.0,
        epsilon: float | str = 0.1,
        kernel: Any = "rbf",
        *,
        loss: str = "epsilon_insensitive",
        quantile: float = 0.5,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        cache_mb: float = 512,
        scale: str = "none",
        columns: Any = None,
        components: int | str | None = None,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    @taking_rows("ndarray, shape (m,)\n    f(x), in units of y.")
    def predict(self, X: Any) -> Floats:
        """Return f(x)."""
        return self._decision(X)

    @property
    def epsilon_(self) -> float:
        """Half width of the tube: epsilon, or if that is "auto" the chosen value, which is 0.1 at first."""
        return float(self._chosen("epsilon", 0.1))

    def epsilon_path(
        self, epsilon_min: float, epsilon_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every width of the tube; the model itself stays as it is.

        Parameters
        ----------
        epsilon_min, epsilon_max : float
            The range of half widths, above 0, in units of y.
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False raises Cancelled.

        Returns
        -------
        RegularizationPath
            The path over epsilon.

        Raises
        ------
        InvalidInput
            The range or the window is empty, or the loss is another one than "epsilon_insensitive".
        NotOptimal
            A path could not be followed to the acceptable gap.
        """
        self._check_fitted()
        if self.loss != "epsilon_insensitive" or self.epsilon_ == 0:
            raise InvalidInput("a path over epsilon needs the loss 'epsilon_insensitive' and epsilon > 0", field="loss")
        return regularization_path(self, "epsilon", epsilon_min, epsilon_max, progress)

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        return validation.vector(validation.column(y, field), m, field=field)

    @property
    def _prices(self) -> tuple[float, float]:
        return (float(self.quantile), 1.0 - float(self.quantile)) if self.loss == "pinball" else (1.0, 1.0)

    def _begin_record(self) -> None:
        if self._record is None or self._record.prices != self._prices:
            self._record = Record(self._prices)
        self._record.window = sorted(self._window.y.tolist())

    def _judge(self, change: ExampleUpdate) -> None:
        assert self._record is not None
        if change.changing and self._record.prices != self._prices:
            self._record = None  # it is of another loss; the next update begins it again
            return
        self._record = self._record.judged(self._window.unlearnt, change.y.tolist(), self._window.left)

    def _foretold(self, X: Any) -> list[Any]:
        found: list[Any] = self.predictor().decision_function(X).tolist()
        return found

    def _error(self, decisions: Floats, targets: Floats) -> float:
        too_low, too_high = self._prices
        return float(np.mean(np.maximum(too_low * (targets - decisions), too_high * (decisions - targets))))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        costs = validation.cost(self.C_ if C is None else C) * weights
        if self.loss == "epsilon_insensitive":
            return epsilon_insensitive(targets, validation.not_negative(self.epsilon_, "epsilon"), costs)
        if self.loss == "absolute":
            return epsilon_insensitive(targets, 0.0, costs)
        if self.loss == "pinball":
            return pinball(targets, validation.fraction(self.quantile, "quantile"), costs)
        raise InvalidInput(f"must be 'epsilon_insensitive', 'absolute' or 'pinball', not {self.loss!r}", field="loss")

    def _cutoff_rule(self, s: float | None = None) -> CutoffRule:
        tube = validation.not_negative(self.epsilon_, "epsilon") if self.loss == "epsilon_insensitive" else 0.0
        if s is not None and s <= tube:
            least = f"epsilon, {tube:g}" if tube > 0 else "zero"
            raise InvalidInput(f"a residual that counts as an outlier is larger than {least}, not {s:g}", field="s")
        return RESIDUALS._replace(tube=tube)
