"""The live support vector regressor: its losses, and its paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.analyses.regularization.path import RegularizationPath, regularization_path
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.paths import WithPaths
from livesvm.solvers.models import target_scale
from livesvm.solvers.models.base import keep
from livesvm.solvers.models.change import Change
from livesvm.solvers.models.path_problem import ExampleUpdate
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.record import Record
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.target_scale import OffScale
from livesvm.solvers.problem.piecewise_linear import Losses, epsilon_insensitive, pinball
from livesvm.solvers.robust.ramp_losses import RESIDUALS, CutoffRule
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats

MOST = 1e300  #: of a prediction in the record, in units of y


class LiveSVR(WithPaths):
    """A support vector regressor that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + C sum_i weight_i loss(y_i - f(x_i))`` over its window.

    Parameters
    ----------
    C : float or "auto", default 1
        Weight of the losses, in (0, 1e100]. "auto": the model chooses it by its window, gamma and epsilon too where
        they are "auto", and how columns are encoded and count; see ``choice_``.
    epsilon : float or "auto", default 0.1
        Half width of the tube without loss, at least 0, in units of f; for the loss that has one.
    loss : {"epsilon_insensitive", "absolute", "pinball"}, default "epsilon_insensitive"
        What a residual costs.
    quantile : float, default 0.5
        Level of the pinball loss, in (0, 1): f estimates that conditional quantile.
    target_scale : {"none", "log", "log1p", "auto"}, default "none"
        The scale on which targets are learnt: f estimates log(y), or log(1 + y). ``predict`` and conformal intervals
        are in units of y, epsilon and all analyses on the scale. "auto": with ``C="auto"`` the model chooses it by its
        window, for skewed targets above 0; a target that the scale does not have then ends it.
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
    target_scale: str
    _foretold_on: str  #: scale of the model before the update in which its scale ends
    _loss_parameters = ("C", "epsilon", "loss", "quantile", "target_scale")

    def __init__(
        self,
        C: float | str = 1.0,
        epsilon: float | str = 0.1,
        kernel: Any = "rbf",
        *,
        loss: str = "epsilon_insensitive",
        quantile: float = 0.5,
        target_scale: str = "none",
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

    @taking_rows("ndarray, shape (m,)\n    Predictions, in units of y.")
    def predict(self, X: Any) -> Floats:
        """Return f(x), on the scale of y."""
        return target_scale.in_units(self.target_scale_, self._decision(X))

    @property
    def target_scale_(self) -> str:
        """The scale of f: ``target_scale``, or if that is "auto" the chosen scale, which is "none" before a choice."""
        return str(self._chosen("target_scale", "none"))

    @property
    def epsilon_(self) -> float:
        """Half width of the tube: ``epsilon``, or if that is "auto" the chosen value, which is 0.1 before a choice."""
        return float(self._chosen("epsilon", 0.1))

    def epsilon_path(
        self, epsilon_min: float, epsilon_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every width of the tube; the model itself stays as it is.

        Parameters
        ----------
        epsilon_min, epsilon_max : float
            The range of half widths, above 0, in units of f.
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
        targets = validation.vector(validation.column(y, field), m, field=field)
        if self.target_scale != "none":
            target_scale.learnt(self.target_scale_, targets, field)
        return targets

    def _known_targets(self, y: ArrayLike | None, m: int) -> Floats:
        return validation.vector(validation.column(y, "y"), m, field="y")

    def settled_targets(self, y: NDArray[Any] | None, m: int) -> Floats | None:
        try:
            return self._targets(y, m)
        except OffScale:
            if self._may_end_scale:
                return None
            raise

    def check_targets(self, y: ArrayLike, field: str = "y") -> None:
        """Check the targets of new examples, or corrected targets of examples in the window.

        Parameters
        ----------
        y : array_like, shape (m,)
            Targets.
        field : str, default "y"
            How errors name them.

        Raises
        ------
        InvalidInput
            Names the row of a target that the model cannot learn.
        """
        try:
            self._targets(y, np.size(y), field)
        except OffScale:
            if not self._may_end_scale:
                raise

    def _on_scale(self, targets: Floats) -> Floats:
        return target_scale.learnt(self.target_scale_, targets)

    @property
    def _may_end_scale(self) -> bool:
        """Whether a target outside the scale ends its use; never with robust losses, as their cutoffs use the scale."""
        return self.target_scale == "auto" and self.robust_ is None

    def _learn(self, asked: Change, *, every_example: bool = False) -> UpdateReport:
        kind, chosen, add = self.target_scale_, self.chosen_, asked.add
        if kind == "none":
            return super()._learn(asked, every_example=every_example)
        if add is not None and isinstance(add.keys, Iterator):  # they may be read twice
            asked = replace(asked, add=replace(add, keys=list(add.keys)))
        if isinstance(asked.remove, Iterator):
            asked = replace(asked, remove=list(asked.remove))
        try:
            return super()._learn(asked, every_example=every_example)
        except OffScale:
            if not self._may_end_scale:
                raise
        self.chosen_, self._foretold_on = self._without_scale, kind
        try:
            return super()._learn(asked, every_example=True)
        except BaseException:
            self.chosen_ = chosen
            raise
        finally:
            del self._foretold_on

    @property
    def _without_scale(self) -> dict[str, Any]:
        """The chosen parameters for targets in units of y: C and epsilon are multiplied by the unit of the scale."""
        found = {name: value for name, value in self.chosen_.items() if not name.startswith("target_")}
        unit = float(self.chosen_["target_unit"])
        return found | {name: unit * found[name] for name in ("C", "epsilon") if name in found}

    def _settle(self, parameters: dict[str, Any]) -> None:
        super()._settle(parameters)
        if "target_scale" in parameters:
            self.check_target_scale(parameters["target_scale"])

    def check_target_scale(self, kind: Any, field: str = "target_scale") -> None:
        """Check whether the window can be learnt on another scale of targets.

        Parameters
        ----------
        kind : str
            As the parameter ``target_scale``.
        field : str, default "target_scale"
            How errors name it.

        Raises
        ------
        InvalidInput
            Names a target that the scale does not have; or losses are robust, with cutoffs on the present scale.
        """
        if kind == "auto":
            return
        if self.robust_ is not None:
            raise InvalidInput("stays while losses are robust: their cutoffs are on it", field=field)
        try:
            target_scale.learnt(kind, self._window.y if hasattr(self, "_window") else np.empty(0))
        except OffScale as error:
            key = self.keys_[error.row or 0]
            raise InvalidInput(f"cannot be {kind!r}: example {key!r} {error.reason}", field=field) from None

    def _frozen(self) -> Predictor:
        found = super()._frozen()
        return found if self.target_scale_ == "none" else replace(found, target_scale=self.target_scale_)

    @property
    def _prices(self) -> tuple[float, float]:
        return (float(self.quantile), 1.0 - float(self.quantile)) if self.loss == "pinball" else (1.0, 1.0)

    def _begin_record(self) -> None:
        if self._record is None or self._record.prices != self._prices:
            self._record = Record(self._prices)
        self._record.window = sorted(self._window.y.tolist())

    def _note(self, report: UpdateReport, judged: ExampleUpdate | None) -> None:
        if judged is None or self._record is None:
            return
        if judged.changing and self._record.prices != self._prices:
            self._record = None  # it is of another loss; the next update begins it again
            return
        self._record = self._record.judged(self._in_record(self._window.unlearnt), judged.y.tolist(), self._window.left)

    def _foretold(self, X: Any) -> list[Any]:
        return list(self._in_record(self.predictor().decision_function(X).tolist()))

    def _in_record(self, f: Sequence[float]) -> Sequence[float]:
        """Return values of f in units of y, as numbers that can be summed."""
        kind = vars(self).get("_foretold_on", self.target_scale_)
        if kind == "none":
            return f
        found: list[float] = np.minimum(target_scale.in_units(kind, np.asarray(f)), MOST).tolist()
        return found

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean(self.errors_of(decisions, self._on_scale(targets))))

    def errors_of(self, values: Floats, targets: Floats) -> Floats:
        """Return absolute errors, or pinball losses.

        Parameters
        ----------
        values : ndarray, shape (m,)
            Predictions.
        targets : ndarray, shape (m,)
            What they should be, in the same units.

        Returns
        -------
        ndarray, shape (m,)
            In these units.
        """
        too_low, too_high = self._prices
        return np.maximum(too_low * (targets - values), too_high * (values - targets))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        costs = validation.cost(self.C_ if C is None else C) * weights
        if self.target_scale != "none":
            targets = target_scale.learnt(self.target_scale_, targets)
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
        rule, kind = RESIDUALS._replace(tube=tube), self.target_scale_
        return rule if kind == "none" else rule.of(partial(target_scale.learnt, kind))
