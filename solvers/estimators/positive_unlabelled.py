"""The live model of positive and unlabelled examples: its losses, which hang together, and its paths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.regularization.path import RegularizationPath, regularization_path
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.edits import Edited
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.pu.metrics import zero_one_risk
from livesvm.solvers.pu.prior import PriorEstimate, is_open, prior_of
from livesvm.solvers.pu.problem import checked_prior, costs, live_losses
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features
from livesvm.solvers.validation import Key


class LivePUClassifier(ChangingEstimator):
    """A classifier of positive and unlabelled examples that stays exactly optimal while examples come and go.

    It minimizes ``lam |w|^2 + mean over the unlabelled of max(0, (1 + f) / 2, f) - prior times mean over the positives
    of f`` over its window [du Plessis et al. 2015], the problem of :class:`solvers.PUClassifier`. Means are weighted:
    they change with every example, and so do the losses of all, each a little, along the same path. A window holds
    examples of both kinds, or none. An unlabelled example that turns out to be positive is relabelled.

    Parameters
    ----------
    prior : share of positives among the unlabelled, in (0, 1); None or "estimate": estimated from the first examples
        and kept; ``change(prior=None)`` estimates it from the window as it is
    lam : weight of ``|w|^2``
    kernel, gamma, degree, coef0, cache_mb, scale : as in ``IncrementalSVC``

    Attributes
    ----------
    classes_ : 0, for what is unlabelled or predicted to be negative, and 1
    prior_ : the prior that counts
    prior_estimate_ : where it comes from, with its interval; None where it was given
    class_mass_ : (2,) sums of the weights of the unlabelled and of the positives in the window
    keys_, support_, support_vectors_, dual_coef_, intercept_, n_window_ : as in ``IncrementalSVC``

    Examples
    --------
    >>> from livesvm.solvers import IncrementalPUClassifier
    >>> model = IncrementalPUClassifier(prior=0.5, lam=0.01, gamma=0.5)
    >>> model = model.fit([[2.0], [2.2], [-2.0], [1.9], [-2.1], [2.1]], [1, 1, 0, 0, 0, 0])
    >>> model.predict([[2.05], [-2.05]]).tolist()
    [1, 0]
    >>> report = model.update(relabel={3: 1}, remove=[0])
    >>> model.certificate().relative_gap < 1e-9
    True
    """

    fit_intercept = True
    classes_ = np.array([0, 1])
    class_mass_: Floats
    prior_estimate_: PriorEstimate | None
    _loss_parameters = ("prior_", "lam")
    _shares_costs = True

    def __init__(
        self,
        prior: float | str | None = None,
        lam: float = 0.01,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_mb: float = 512,
        scale: str = "none",
    ) -> None:
        self.prior = prior
        self.lam = lam
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cache_mb = cache_mb
        self.scale = scale

    def partial_fit(self, X: ArrayLike, s: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add examples ``X`` (m, d), ``s`` (m,) to the window: the same as ``update(add=(X, s))``."""
        self._learn((X, s), sample_weight, None, ())
        return self

    def update(
        self,
        add: tuple[ArrayLike, ArrayLike | None] | None = None,
        remove: Iterable[Key] | None = None,
        *,
        lam: float | None = None,
        **verbs: Any,
    ) -> UpdateReport:
        """Add, remove, correct and reweight examples along one path; all or nothing.

        As ``IncrementalSVC.update``, with labels 1 and 0; ``lam`` from now on is the model's.

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey : also where no positive or no unlabelled example would be left
        NotOptimal, MemoryLimit : the path could not be followed; the model is as it was
        """
        C = verbs.pop("C", None) if lam is None else 0.5 / validation.positive(lam, "lam")
        report = super().update(add, remove, C=C, **verbs)
        if lam is not None:
            self.lam = self._made_of["lam"] = lam  # and not 1 / (1 / lam)
        return report

    def change(self, **parameters: Any) -> UpdateReport:
        """Give the model other parameters; all or nothing. ``C`` stands for lam.

        As ``IncrementalSVC.change``; an open ``prior`` is estimated from the window as it is now, any other change
        leaves an estimate as it is.
        """
        self._check_fitted()
        if "C" in parameters:
            parameters["lam"] = 0.5 / validation.positive(parameters.pop("C"), "C", validation.LARGEST)
        before = self.prior_estimate_
        try:
            return super().change(**parameters)
        except BaseException:
            self.prior_estimate_ = before
            raise

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return f(x) for ``X`` (m, d), as (m,); positive for what is predicted to be positive."""
        return self._decision(X)

    def predict(self, X: ArrayLike) -> Ints:
        """Return 1 for each row of ``X`` (m, d) that is predicted to be positive, else 0."""
        return np.where(self.decision_function(X) > 0, 1, 0)

    def regularization_path(
        self, lam_min: float, lam_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every lam from ``lam_min`` to ``lam_max``.

        The parameter of the path is ``C = 1 / (2 lam)``, in which it is piecewise linear: ``path.at(0.5 / lam)`` is the
        model for a lam. Errors along it are of labels 1 and 0, where these are known. Otherwise as
        ``IncrementalSVC.regularization_path``.
        """
        self._check_fitted()
        low, high = validation.positive(lam_min, "lam_min"), validation.positive(lam_max, "lam_max")
        if not low < high:
            raise InvalidInput(f"must be above lam_min = {lam_min!r}, not {lam_max!r}", field="lam_max")
        return regularization_path(self, "C", 0.5 / high, 0.5 / low, progress)

    @property
    def prior_(self) -> float:
        """The prior that counts; NaN before one that is open has been estimated."""
        if not is_open(self.prior):
            return checked_prior(self.prior)
        estimate: PriorEstimate | None = getattr(self, "prior_estimate_", None)
        return math.nan if estimate is None else estimate.prior

    @property
    def C(self) -> float:
        """``1 / (2 lam)``: what the risk counts against ``|w|^2 / 2``."""
        return 0.5 / validation.positive(self.lam, "lam")

    @C.setter
    def C(self, value: float) -> None:
        self.lam = 0.5 / value

    @property
    def window_y(self) -> Ints:
        """Labels of the window, (n,), oldest first: 1 positive, 0 unlabelled."""
        return self._window.y.astype(np.int64)

    @classmethod
    def from_arrays(cls, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` was taken from; ``C`` among ``params`` stands for lam."""
        known = dict(params)
        if "C" in known:
            known["lam"] = 0.5 / known.pop("C")
        return super().from_arrays(known, arrays)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        return labels(y, m, field)

    def _error(self, decisions: Floats, targets: Floats) -> float:
        known = targets > 0
        return zero_one_risk(decisions[known], decisions[~known], checked_prior(self.prior_))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        return live_losses(targets > 0, weights, self.class_mass_, self.prior_, self.lam if C is None else 0.5 / C)

    def _unit_cost(self, C: float | None) -> float:
        cost = super()._unit_cost(C)
        mass = getattr(self, "class_mass_", np.ones(2))
        return cost / float(mass[mass > 0].min(initial=np.inf)) if mass.any() else cost

    def _weigh(self, window: Window, leaving: list[Key], new: tuple[Floats, Floats], changed: Edited) -> bool:
        before = getattr(self, "class_mass_", None)
        parts = (window.everyone_but([*leaving, *changed.keys]), (changed.y, changed.weights), new)
        y, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        self.class_mass_ = masses(y, weights)
        if y.size:
            costs(self.prior_, self.lam, *self.class_mass_[::-1, None])
        return before is not None and bool((before != self.class_mass_).any())

    def _learn(self, *args: Any, **kwargs: Any) -> UpdateReport:
        before: dict[str, Any] = {
            name: vars(self)[name] for name in ("class_mass_", "prior_estimate_") if name in vars(self)
        }
        try:
            if hasattr(self, "_window"):
                self._bring_estimate_up()
            return super()._learn(*args, **kwargs)
        except BaseException:
            vars(self).update(before)
            raise

    def _meet_first(self, window: Window, rows: Features, targets: Floats) -> None:
        if getattr(self, "prior_estimate_", None) is not None:
            return
        known = targets > 0
        costs(0.5, self.lam, *(which.astype(np.float64) for which in (known, ~known)))  # before a prior is estimated
        self.prior_estimate_ = prior_of(window.state.kernel, rows, known) if is_open(self.prior) else None

    def _bring_estimate_up(self) -> None:
        """Estimate a prior that ``set_params`` has left open since, forget an estimate where one has been given."""
        if not is_open(self.prior):
            self.prior_estimate_ = None
        elif self.prior_estimate_ is None:
            self.prior_estimate_ = self._estimated_now()

    def _estimated_now(self) -> PriorEstimate:
        """Return the prior as the window tells it."""
        window = self._window
        return prior_of(window.state.kernel, window.X, window.y > 0)

    def _settle(self, parameters: dict[str, Any]) -> None:
        if "prior" in parameters:
            self.prior_estimate_ = self._estimated_now() if is_open(self.prior) else None

    def _hand_over(self, fresh: Self) -> None:
        fresh.keep_estimate_of(self)

    def _like(self, **parameters: Any) -> Self:
        if "C" in parameters:
            parameters["lam"] = 0.5 / parameters.pop("C")
        return super()._like(**{"prior": self.prior_, **parameters})

    def to_arrays(self) -> dict[str, Any]:
        estimate = self.prior_estimate_
        return super().to_arrays() | {"prior_estimate": np.array([] if estimate is None else astuple(estimate))}

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        self.class_mass_ = masses(np.asarray(arrays["y"]), np.asarray(arrays["sample_weight"]))
        self.keep_estimate(arrays)
        super()._restore(arrays)

    def keep_estimate_of(self, other: LiveEstimator) -> None:
        """Take over the estimate of another model's prior, if there is one."""
        self.prior_estimate_ = getattr(other, "prior_estimate_", None)

    def keep_estimate(self, arrays: Mapping[str, Any]) -> None:
        """Take over the estimate of the prior that ``to_arrays`` has kept, if there is one."""
        found = np.asarray(arrays.get("prior_estimate", ()), np.float64)
        self.prior_estimate_ = PriorEstimate(*found.tolist()) if found.size and is_open(self.prior) else None


def labels(s: ArrayLike | None, m: int, field: str = "s") -> Floats:
    """Return labels (m,) as numbers: 1 positive, 0 unlabelled; raises InvalidInput for any other."""
    found = validation.vector(validation.column(s, field), m, field=field)
    wrong = (found != 0.0) & (found != 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInput(f"must be 1 (positive) or 0 (unlabelled), not {found[row]:g}", field=field, row=row)
    return found


def masses(y: Floats, weights: Floats) -> Floats:
    """Return the sums of the weights of the unlabelled and of the positives, (2,)."""
    return np.array([weights[y == 0.0].sum(), weights[y != 0.0].sum()])
