"""The live model of positive and unlabelled examples: its losses, which depend on the whole window, and its paths."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import astuple
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.regularization.path import RegularizationPath, regularization_path
from livesvm.solvers.analyses.tuning.automatic import LEAST, TunedParameters, choose_lam
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.thresholds import WithThresholds
from livesvm.solvers.models.base import LiveEstimator, keep
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.path_problem import ExampleUpdate
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.warnings import ModelWarning
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.pu.held_out import STEPS, Folds, zero_one_risk
from livesvm.solvers.pu.prior import PriorEstimate, check_enough, estimate_prior, is_open, numbered
from livesvm.solvers.pu.problem import check_both_kinds, is_lam_open, live_losses, masses
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features
from livesvm.solvers.validation import Key


class LivePUClassifier(WithThresholds, ChangingEstimator):
    """A classifier of positive and unlabelled examples that stays exactly optimal while examples come and go.

    It minimizes ``lam |w|^2 + mean over the unlabelled of max(0, (1 + f) / 2, f) - prior times mean over the positives
    of f`` over its window [du Plessis et al. 2015], the problem of :class:`solvers.PUClassifier`. Means are weighted.
    So an example that comes or goes changes the losses of all examples a little; all changes are made along one path.

    An unlabelled example that turns out to be negative is relabelled -1. A confirmed negative also stays one of the
    unlabelled. The risk of positives and negatives is added to that of positives and unlabelled [Sakai et al. 2017], so
    that a confirmed negative counts four times as much as an unlabelled example. Label 1 is for a fair sample of all
    positives. Positives that were found by checking the examples with the highest decisions are no fair sample: leave
    them unlabelled.

    Until ``update`` has brought examples of both kinds, the model waits: it holds the examples and predicts nothing.
    Once both kinds have come, an update must leave examples of both kinds in the window, or no examples at all.

    Parameters
    ----------
    prior : float, None or "estimate", default None
        Share of positives among the unlabelled, in (0, 1); None or "estimate": estimated from the first examples and
        kept; ``change(prior=None)`` estimates it from the window as it is.
    lam : float, None or "auto", default None
        Weight of ``|w|^2``, above 0; None or "auto": chosen from the first examples of both kinds, by the risk on
        folds. ``IncrementalPUClassifier`` chooses it again, see ``choice_``: at 40 examples, when the window has twice
        as many as at the last choice, and when as many have come since as it has. ``change(lam=None)`` chooses it now.
    kernel, gamma, degree, coef0, cache_mb, scale, columns, components : as in ``IncrementalSVC``

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        0, for what is unlabelled or predicted to be negative, and 1.
    prior_ : float
        The prior that counts.
    prior_estimate_ : PriorEstimate or None
        Where it comes from, with its interval; None where it was given.
    lam_ : float
        The lam that counts.
    choice_ : TunedParameters
        The last choice of an open lam, from 40 examples on: its risk, that of the lam before, and that of 0.01.
    is_waiting_ : bool
        Whether examples of one kind wait for the other.
    class_mass_ : ndarray, shape (3,)
        Sums of the weights in the window: of the unlabelled, with the confirmed negatives, of the positives, and of
        the confirmed negatives.
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

    prior: float | str | None
    lam: float | str | None
    fit_intercept = True
    classes_ = np.array([0, 1])
    class_mass_: Floats
    prior_estimate_: PriorEstimate | None
    choice_: TunedParameters
    _begun: bool  # whether there have been both kinds
    _loss_parameters = ("prior_", "lam_")
    _shares_costs = True
    _tuned_by = "lam"

    def __init__(
        self,
        prior: float | str | None = None,
        lam: float | str | None = None,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_mb: float = 512,
        scale: str = "none",
        columns: Any = None,
        components: int | None = None,
    ) -> None:
        keep(self, locals())

    def _check_first(self, y: ArrayLike | None) -> None:
        given = labels(y, np.shape(validation.column(y, "y"))[0])
        n = int(np.count_nonzero(given > 0))
        check_both_kinds(given.size - n, n)
        if is_open(self.prior):
            check_enough(n, given.size - n)

    def update(
        self,
        add: tuple[ArrayLike, ArrayLike | None] | None = None,
        remove: Iterable[Key] | None = None,
        *,
        lam: float | None = None,
        **verbs: Any,
    ) -> UpdateReport:
        """Add, remove, correct and reweight examples along one path; all or nothing.

        Parameters
        ----------
        add : tuple of array_like, or None, default None
            Features (m, d) and labels (m,) of new examples: 1 positive, 0 unlabelled, -1 confirmed to be negative.
        remove : iterable of str or int, or None, default None
            Keys of examples that leave.
        lam : float or None, default None
            From now on the model's ``lam``.
        **verbs : Any
            ``keys``, ``sample_weight``, ``relabel``, ``reweight``, ``decay`` and ``on_repeat``, as in
            ``IncrementalSVC.update``.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey
            See the message; also where no positive or no unlabelled example would be left of both.
        NotPositiveSemidefinite, NotOptimal, MemoryLimit
            The path could not be followed; the model is as it was.
        """
        C = verbs.pop("C", None) if lam is None else 0.5 / validation.positive(lam, "lam")
        report = super().update(add, remove, C=C, **verbs)
        if lam is not None and (report.added or not report.ignored):
            self.lam = self._made_of["lam_"] = float(lam)  # and not 1 / (1 / lam)
        return report

    def regularization_path(
        self, lam_min: float, lam_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every lam from ``lam_min`` to ``lam_max``.

        The parameter of the path is ``C = 1 / (2 lam)``, in which the path is piecewise linear. ``path.at(0.5 / lam)``
        is the model for a lam. The errors of the path are for labels 1 and 0, where the true label is known. In all
        other respects the path is as in ``IncrementalSVC.regularization_path``.

        Parameters
        ----------
        lam_min, lam_max : float
            The range of lam, above 0.
        progress : callable or None, default None
            Called with how much is done and how much there is; returning False raises Cancelled.

        Returns
        -------
        RegularizationPath
            The path over ``C = 1 / (2 lam)``.

        Raises
        ------
        InvalidInput
            The range or the window is empty.
        NotOptimal
            A path could not be followed to the acceptable gap.
        """
        self._check_fitted()
        low, high = validation.positive(lam_min, "lam_min"), validation.positive(lam_max, "lam_max")
        if not low < high:
            raise InvalidInput(f"must be above lam_min = {lam_min!r}, not {lam_max!r}", field="lam_max")
        return regularization_path(self, "C", 0.5 / high, 0.5 / low, progress)

    @property
    def prior_(self) -> float:
        """The prior in use; NaN if it is yet to be estimated."""
        if not is_open(self.prior):
            return float(self.prior)  # type: ignore[arg-type]
        estimate: PriorEstimate | None = getattr(self, "prior_estimate_", None)
        return math.nan if estimate is None else estimate.prior

    @property
    def lam_(self) -> float:
        """The lam in use; NaN if it is yet to be chosen."""
        if not is_lam_open(self.lam):
            return validation.positive(self.lam, "lam")
        return math.nan if self.chosen_lam_ is None else self.chosen_lam_

    @property
    def chosen_lam_(self) -> float | None:
        """The lam that was chosen; None if lam was given, or is yet to be chosen."""
        return self.chosen_.get("lam")

    @chosen_lam_.setter
    def chosen_lam_(self, value: float | None) -> None:
        self.chosen_ = {} if value is None else {"lam": value}

    @property
    def C(self) -> float:
        """``1 / (2 lam)``: the weight of the risk relative to ``|w|^2 / 2``; NaN if lam is yet to be chosen."""
        return 0.5 / self.lam_

    @C.setter
    def C(self, value: float) -> None:
        self.lam = 0.5 / value

    @property
    def window_y(self) -> Ints:
        """Labels of the window, (n,), oldest first: 1 positive, 0 unlabelled, -1 confirmed to be negative."""
        return self._window.y.astype(np.int64)

    @classmethod
    def _own(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        own = dict(parameters)
        if "C" in own:
            own["lam"] = 0.5 / validation.positive(own.pop("C"), "C", validation.LARGEST)
        return own

    @property
    def is_waiting_(self) -> bool:
        """Whether the window has examples of only one kind, or too few to estimate a prior."""
        window = self._learnt
        return bool(window.keys) and not (self._begun and self.class_mass_[:2].all())

    @property
    def is_trained(self) -> bool:
        """Whether the model has examples to predict by, and does not wait for others."""
        return super().is_trained and not self.is_waiting_

    @property
    def is_settled(self) -> bool:
        """Whether the model has set everything that it determines once, from its first examples."""
        return bool(vars(self).get("_begun", False)) and super().is_settled

    @property
    def flagged_warnings(self) -> list[ModelWarning]:  # type: ignore[override]
        """Warnings about the predictions of the model on its window; quick."""
        if self.is_waiting_:
            return [ModelWarning("waits", self._lacking(self._window.y, self._window.weights))]
        window = self._window
        decisions = window.state.examples.f[window.slots[window.y <= 0.0]]
        return flag_warnings(int(np.count_nonzero(decisions > 0)), decisions.size, self.lam_)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        return labels(y, m, field)

    def _error(self, decisions: Floats, targets: Floats) -> float:
        known = targets > 0
        return zero_one_risk(decisions[known], decisions[~known], validation.fraction(self.prior_, "prior"))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        if not (self._begun and all(self.class_mass_[:2].tolist())):
            return live_losses(targets, np.zeros(targets.size), self.class_mass_, 0.5, 1.0)
        return live_losses(targets, weights, self.class_mass_, self.prior_, self.lam_ if C is None else 0.5 / C)

    def _unit_cost(self, C: float | None) -> float:
        C = self.C if C is None else C
        cost = super()._unit_cost(0.5 / 10.0 ** STEPS[-1] if math.isnan(C) else C)
        mass = vars(self).get("class_mass_")
        return cost if mass is None else cost / min((m for m in mass[:2].tolist() if m > 0), default=1.0)

    def _weigh(self, window: Window, change: ExampleUpdate) -> bool:
        before: Floats | None = getattr(self, "class_mass_", None)
        new, gone = (change.y, change.weights), window.targets_of(change.leaving)
        if before is not None and not change.changing and masses(gone[:2]).tolist() == masses(new).tolist():
            return False
        stay = window.examples_except([*change.leaving, *change.changing])
        self.class_mass_ = masses(stay, (change.new_y, change.new_weights), new)
        if before is None:
            return False
        if self._begun and before[:2].all() and (stay[0].size or change.new_y.size or change.y.size):
            check_both_kinds(*self.class_mass_[:2])
        return bool(before.tolist() != self.class_mass_.tolist())

    def _kinds(self, window: Window) -> Ints:
        of_all = np.stack([window.y, window.weights], axis=1)
        return np.asarray(np.unique(of_all, axis=0, return_inverse=True)[1].reshape(-1), np.int64)

    def _learn(self, *args: Any, **kwargs: Any) -> UpdateReport:
        """Learn new examples; if a waiting model then has enough examples, solve its whole window."""
        if not hasattr(self, "_window") or self._begun:
            return super()._learn(*args, **kwargs)
        window, before = self._window, vars(self).copy()
        try:
            with window.changing():
                report = super()._learn(*args, **kwargs)
                if self._lacking(window.y, window.weights):
                    return report
                solved = self._resolved()
        except BaseException:
            self._take_back(before)
            raise
        return solved._replace(added=report.added, removed=report.removed, changed=report.changed)

    def _outgrew_landmarks(self) -> bool:
        return self._begun and super()._outgrew_landmarks()

    def _make_ready(self, change: object) -> None:
        if hasattr(self, "_window"):
            self._bring_up()

    def _note(self, report: UpdateReport, judged: ExampleUpdate | None) -> None:
        self._held_out = None

    def _lacking(self, y: Floats, weights: Floats) -> str:
        """Return a text that says which examples a model still waits for; the text is empty if the examples suffice."""
        least = 2 if math.isnan(self.prior_) else 1
        for is_kind, what in ((y <= 0.0, "unlabelled"), (y > 0.0, "positive")):
            if (n := int(np.count_nonzero(is_kind & (weights > 0)))) < least:
                return f"the model waits for {what} examples: it has {n} and needs {least}"
        return ""

    def _check_fitted(self) -> None:
        if self.is_waiting_:
            raise InvalidInput(self._lacking(self._window.y, self._window.weights), field="window")
        super()._check_fitted()

    def _begin_window(self, window: Window, rows: Features, targets: Floats, weights: Floats) -> None:
        vars(self).setdefault("prior_estimate_", None)
        if not is_lam_open(self.lam):
            validation.positive(self.lam, "lam")
        self._begun = not self._lacking(targets, weights)
        if self._begun:
            self._find_open(window, rows, targets, weights)

    def _find_open(self, window: Window, rows: Features, y: Floats, weights: Floats) -> None:
        """Estimate the prior and choose lam, each only if it is to be determined automatically and has no value yet."""
        kernel, X = numbered(window.kernel, rows)
        if not is_open(self.prior):
            self.prior_estimate_ = None
        elif self.prior_estimate_ is None:
            self.prior_estimate_ = estimate_prior(kernel, X[y > 0], X[y <= 0])
        if not is_lam_open(self.lam):
            self.chosen_lam_ = None
        elif self.chosen_lam_ is None:
            found = choose_lam(Folds(kernel, X, y, weights), self.prior_, y.size)
            self.chosen_lam_ = found.parameters["lam"]
            if y.size >= LEAST:
                self.choice_ = found

    def _bring_up(self) -> None:
        """Determine prior and lam if ``set_params`` left them open; drop their estimates if it has set them."""
        window = self._window
        is_known = is_lam_open(self.lam) == (self.chosen_lam_ is not None)
        is_known = is_known and is_open(self.prior) == (self.prior_estimate_ is not None)
        if self._begun and window.keys and not is_known:
            self._find_open(window, window.X, window.y, window.weights)

    def _folds(self) -> Folds:
        window = self._window
        kernel, X = numbered(window.kernel, window.X)
        return Folds(kernel, X, window.y, window.weights)

    def _settle(self, parameters: dict[str, Any]) -> None:
        if "prior" in parameters:
            self.prior_estimate_ = None
        if "lam" in parameters:
            self.chosen_lam_ = None
        self._bring_up()

    def _hand_over(self, fresh: Self) -> None:
        super()._hand_over(fresh)
        fresh.keep_estimate_of(self)

    def _like(self, **parameters: Any) -> Self:
        return super()._like(**{"prior": self.prior_, "lam": self.lam_, **self._own(parameters)})

    def to_arrays(self) -> dict[str, Any]:
        estimate, lam = self.prior_estimate_, self.chosen_lam_
        arrays = super().to_arrays()
        arrays.pop("chosen", None)  # it is ``chosen_lam``, the name that it had first
        return arrays | {
            "prior_estimate": np.array([] if estimate is None else astuple(estimate)),
            "chosen_lam": np.array([] if lam is None else [lam]),
            "begun": self._begun,
        }

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        y, weights = (validation.plain(arrays[name], np.float64) for name in ("y", "sample_weight"))
        self.class_mass_ = masses((y, weights))
        self._begun = bool(arrays["begun"])
        self.keep_estimate(arrays)
        super()._restore(arrays)

    def keep_estimate_of(self, other: LiveEstimator, but: Container[str] = ()) -> None:
        """Take over the values that another model has found for its open parameters.

        Parameters
        ----------
        other : live estimator
            The model that has found it.
        but : container of str, default ()
            "prior" or "lam", where that is not taken over.
        """
        self.prior_estimate_ = None if "prior" in but else getattr(other, "prior_estimate_", None)
        self.chosen_lam_ = None if "lam" in but else getattr(other, "chosen_lam_", None)

    @property
    def has_estimates(self) -> bool:
        """Whether the prior or lam was determined from examples."""
        return self.prior_estimate_ is not None or self.chosen_lam_ is not None

    def keep_estimate(self, arrays: Mapping[str, Any]) -> None:
        """Restore the estimates of open parameters that ``to_arrays`` has stored.

        Parameters
        ----------
        arrays : mapping
            What :meth:`to_arrays` returned.
        """
        found, lam = (np.asarray(arrays.get(name, ()), np.float64) for name in ("prior_estimate", "chosen_lam"))
        self.prior_estimate_ = PriorEstimate(*found.tolist()) if found.size and is_open(self.prior) else None
        self.chosen_lam_ = float(lam[0]) if lam.size and is_lam_open(self.lam) else None


def labels(y: ArrayLike | None, m: int, field: str = "y") -> Floats:
    """Return labels (m,) as numbers: 1 positive, 0 unlabelled, -1 negative; raises InvalidInput for any other."""
    found = validation.vector(validation.column(y, field), m, field=field)
    check_kinds(found, field)
    return found


def check_kinds(y: Floats, field: str) -> None:
    """Raise InvalidInput unless every label in ``y`` (m,) is 1 (positive), 0 (unlabelled) or -1 (known as negative)."""
    wrong = (y != 0.0) & (np.abs(y) != 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        known = "1 (positive), 0 (unlabelled) or -1 (confirmed to be negative)"
        raise InvalidInput(f"a label is {known}, not {y[row]:g}", field=field, row=row)


def flag_warnings(flagged: int, n: int, lam: float) -> list[ModelWarning]:
    """Return the warnings about a model that predicts ``flagged`` of ``n`` unlabelled examples to be positive."""
    if 0 < flagged < n or n == 0:
        return []
    which, name, way = ("all", "everything", "larger") if flagged else ("none", "nothing", "smaller")
    reason = f"{which} of {n} unlabelled examples would be predicted to be positive"
    cure = f"set a {way} lam than {lam:g} or another gamma, or cut decisions elsewhere: predict(alerts=0.01), say"
    return [ModelWarning(f"{name}_is_flagged", f"{reason}; {cure}")]
