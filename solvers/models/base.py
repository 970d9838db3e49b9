"""Base of the live estimators, whatever their losses: learning, robust losses and checkpoints.

Nothing here imports scikit-learn, which takes longer than restoring a large model: see ``estimators.scikit``.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput, InvalidType, NotOptimal
from livesvm.solvers.homotopy.run import Trace
from livesvm.solvers.kernels import nystroem
from livesvm.solvers.kernels.function import FunctionKernel, objects_for, objects_in, unused_numbers
from livesvm.solvers.kernels.gram import Gram
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.nystroem import Nystroem, ProjectedKernel
from livesvm.solvers.models import feature_scale, scaling
from livesvm.solvers.models.change import (
    NO_EDITS,
    Batch,
    Change,
    Edits,
    batch_from_pair,
    edited,
    without_repeats,
)
from livesvm.solvers.models.feature_scale import FeatureScale
from livesvm.solvers.models.fitted import Fitted
from livesvm.solvers.models.path_problem import ExampleUpdate, PathProblem
from livesvm.solvers.models.record import Record
from livesvm.solvers.models.repeats import OnRepeat
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.scaling import center_of
from livesvm.solvers.models.warnings import ModelWarning
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.robust.local_optimality import LocalOptimality
from livesvm.solvers.robust.ramp_losses import CutoffRule, Sides, conditional
from livesvm.solvers.robust.settings import Robustness, Terms
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, dense, like
from livesvm.solvers.tables import columns as table_columns
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.columns import Codes, TableColumns
from livesvm.solvers.tables.encoding import TableEncoding
from livesvm.solvers.validation import Key

KERNEL_PARAMETERS = ("kernel", "gamma", "degree", "coef0", "fit_intercept", "scale", "columns", "components")


N_FREE = attrgetter("n_free")
MANY, AT_FIRST = 2000, 300  #: with so many first examples an open number of components begins with this one


class LiveEstimator(Fitted):
    """Base of the live estimators; a subclass defines targets and losses."""

    C: float
    kernel: str
    gamma: float | str
    degree: int
    coef0: float
    fit_intercept: bool
    cache_mb: float
    scale: str = "none"  #: of the features, see ``models.feature_scale``
    columns: Any = None  #: of a table, see ``tables.columns``; None: rows are numbers
    components: int | str | None = None  #: landmarks of a kernel of that rank, see ``kernels.nystroem``; None: no such
    chosen_: Mapping[str, Any] = MappingProxyType({})  #: values of parameters that are "auto"
    _tuned_by: str = "C"  # the parameter that is "auto" in a model that tunes itself
    columns_: TableColumns  #: as they were given, or found in the first rows, with the words of the window
    _loss_parameters: tuple[str, ...] = ()  # names of the parameters that losses depend on
    _shares_costs = False  # whether the losses of each example depend on the others
    robust_: Robustness | None = None  #: parameters of robust losses; None: the losses are convex
    _made_of: dict[str, Any]  # the parameters that the window's kernel and losses have
    _came: Floats  # of a model with a scale: features of the window as given, (n, p), oldest first
    flagged_warnings: Sequence[ModelWarning] = ()  #: about the model on its window; quick enough for every update
    is_mapped = False  #: whether rows have gone through a map to landmarks, which another model with components has
    keeps_record = False  #: whether examples are predicted before they are learnt; see :attr:`record`
    _record: Record | None = None
    _objects: dict[int, Any] | None = None  # examples that are not rows of numbers, by the number that is their feature

    # -- what a subclass says ------------------------------------------------------------------------------------------

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        """Return ``m`` targets ``y`` as numbers; raises InvalidInput, which names ``field``, for invalid targets."""
        raise AssertionError("every live estimator says what its targets are")

    def _known_targets(self, y: ArrayLike | None, m: int) -> Floats:
        """Return the ``m`` targets ``y`` as numbers, for examples that the model will not learn."""
        return self._targets(y, m)

    @property
    def target_scale_(self) -> str:
        """The scale of targets on which decisions are made; with "none", decisions are in the units of targets."""
        return "none"

    def _on_scale(self, targets: Floats) -> Floats:
        """Return targets in the units of decisions; see ``target_scale``."""
        return targets

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        """Return the losses of examples with these targets and weights, for the model's C or a given ``C``."""
        raise AssertionError("every live estimator says what its losses are")

    def losses_of(self, targets: Floats, weights: Floats) -> Losses:
        """Return the losses of examples, which do not depend on the examples in the window.

        Parameters
        ----------
        targets : ndarray, shape (m,)
            Targets; labels as -1 and 1.
        weights : ndarray, shape (m,)
            Weights that multiply C.

        Returns
        -------
        Losses
            A loss each.
        """
        return self._losses(targets, weights)

    @property
    def _prices(self) -> tuple[float, float] | None:
        """The costs of a decision one unit too low and one unit too high; None if the error counts wrong decisions."""
        return None

    def _error(self, decisions: Floats, targets: Floats) -> float:
        """Return the error of decision values, given the targets of their examples."""
        raise AssertionError("every live estimator says what an error is")

    def _cutoff_rule(self, s: float | None = None) -> CutoffRule:
        """Return the rule that computes outlier cutoffs from the parameter ``s``; raises InvalidInput for a bad one."""
        raise InvalidInput("models of this kind have no robust losses", field="robust")

    def _unit_cost(self, C: float | None) -> float:
        """Return the steepest slope of the loss of an example of weight 1, for the model's C or a given ``C``."""
        return validation.cost(self.C_ if C is None else C)

    @property
    def C_(self) -> float:
        """The weight of the losses: C, or if C is "auto" the chosen value, which is 1 at first."""
        value: Any = self.C
        return float(self._chosen("C", 1.0)) if isinstance(value, str) else value

    @property
    def components_(self) -> int | None:
        """The largest number of landmarks: ``components``, or the number chosen for "auto"; None without landmarks."""
        scale = vars(self).get("feature_scale_")
        found: int | None = self._chosen("components", scale.components if isinstance(scale, Nystroem) else None)
        return found

    @property
    def tunes_itself(self) -> bool:
        """Whether the model chooses its own parameters by the examples in its window."""
        value = vars(self).get(self._tuned_by, 0.0)
        return value is None or isinstance(value, str)

    def _chosen(self, name: str, first: Any) -> Any:
        """Return a parameter's value; for "auto" the value that was chosen, or ``first`` before any choice."""
        value = getattr(self, name)
        return vars(self).get("chosen_", {}).get(name, first) if isinstance(value, str) and value == "auto" else value

    def fixed_by(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters chosen together with C that keep their values when only C is ``given`` as a number.

        Parameters
        ----------
        given : mapping
            New parameters by name.

        Returns
        -------
        dict
            Their values by name.
        """
        if isinstance(given.get("C", "auto"), str) or not isinstance(vars(self).get("C"), str):
            return {}
        open_ = {*self.chosen_, "components"} - given.keys()
        found = {**self.chosen_, "components": self.components_}
        return {name: found[name] for name in open_ if isinstance(vars(self).get(name), str)}

    def _fix(self, given: Mapping[str, Any]) -> None:
        """Store the values of ``fixed_by`` as parameters, because the window was learnt with these values."""
        if fixed := self.fixed_by(given):
            vars(self).update(fixed)
            self._made_of = self._made_of | {name: value for name, value in fixed.items() if name in self._made_of}

    def _total_per_weight(self) -> float:
        """Return the sum that the coefficients must have, per unit of weight in the window."""
        return 0.0

    def _weigh(self, window: Window, change: ExampleUpdate) -> bool:
        """Prepare the losses for the window after an update; return whether the losses of all examples change.

        Only models in which an example's loss depends on the rest of the window define this method.
        """
        raise AssertionError("a live estimator whose examples share their costs weighs them")

    def _kinds(self, window: Window) -> Ints:
        """Return the group of each example, (n,), oldest first; the losses after a removal depend only on the group.

        Only models in which an example's loss depends on the rest of the window define these groups.
        """
        raise AssertionError("a live estimator whose examples share their costs says which of them are alike")

    def _begin_window(self, window: Window, rows: Features, targets: Floats, weights: Floats) -> None:
        """Compute the settings of the losses from the first examples; ``rows`` (m, d) are their scaled features."""

    # -- learning ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        keys: Iterable[Key] | None = None,
    ) -> Self:
        """Train on ``X`` (n, d) and ``y`` (n,) from nothing; the previous window is dropped, unless an error is raised.

        The window stores features in the form of the first features, dense or sparse; later features are converted to
        that form.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            Features; with the kernel "precomputed" the kernel matrix (n, n).
        y : array_like, shape (n,), or None, default None
            Targets; of positive and unlabelled examples 1 and 0, some of each; of a one-class model None.
        sample_weight : array_like, shape (n,), or None, default None
            Weights that multiply C, in [0, 1e100]; ones by default.
        keys : iterable of str or int, or None, default None
            A name for each example; whole numbers from 0 by default.

        Returns
        -------
        Self
            The model.

        Raises
        ------
        InvalidInput, DuplicateKey
            See the message; the model is as it was.
        NotPositiveSemidefinite, NotOptimal, MemoryLimit
            The path could not be followed; the model is as it was.
        """
        self._check_first(y)
        before = vars(self).copy()
        try:
            self._forget()
            self._record = None
            self._learn(Change(Batch(X, y, keys, sample_weight)))
            if not self._window.weights.any():
                reason = "all weights are zero. Invalid input - all samples have zero or negative weights."
                raise InvalidInput(reason, field="sample_weight")
        except BaseException:
            self._take_back(before)
            raise
        self._warn()
        self._consider(None)
        return self

    def _consider(self, report: UpdateReport | None) -> None:
        """Choose values for "auto" parameters if a choice is due after an update; ``report`` is None after a fit."""

    def _check_first(self, y: ArrayLike | None) -> None:
        """Check the targets of ``fit`` for conditions that ``update`` does not impose."""

    def _warn(self) -> None:
        """Warn about the result of training from nothing."""

    def update(
        self,
        add: tuple[Any, ArrayLike | None] | None = None,
        remove: Iterable[Key] | None = None,
        *,
        keys: Iterable[Key] | None = None,
        sample_weight: ArrayLike | None = None,
        relabel: Mapping[Key, Any] | None = None,
        reweight: Mapping[Key, float] | None = None,
        decay: float = 1.0,
        C: float | None = None,
        robust: Robustness | None = None,
        on_repeat: OnRepeat = "refuse",
    ) -> UpdateReport:
        """Add, remove, correct and reweight examples along one path; all or nothing.

        Parameters of the losses that ``set_params`` has set since the last update hold for the whole window from this
        update on. An update without any content, as on a day without data, changes nothing in a trained model.

        Parameters
        ----------
        add : tuple of array_like, or None, default None
            Features (m, d), dense or of scipy.sparse, and targets (m,) of new examples; with the kernel "precomputed",
            in place of features their kernel values (m, n + m) with the n examples of the window, oldest first, and
            with each other.
        remove : iterable of str or int, or None, default None
            Keys of examples that leave; a key that leaves can come back in the same call.
        keys : iterable of str or int, or None, default None
            A name for each new example; unused whole numbers by default.
        sample_weight : array_like, shape (m,), or None, default None
            Weights of the new examples, in [0, 1e100]; ones by default.
        relabel : mapping or pandas Series, or None, default None
            {key: target}: corrects targets of examples that stay. The index of a series holds keys.
        reweight : mapping or pandas Series, or None, default None
            {key: weight}: gives examples that stay another weight, in [0, 1e100].
        decay : float, default 1
            Multiplies the weights of all examples that stay and are not reweighted, in (0, 1].
        C : float or None, default None
            From now on the model's ``C``.
        robust : Robustness or None, default None
            From now on the model's losses are robust, see ``outlier_path``; theta = 1 makes them convex again.
        on_repeat : {"refuse", "ignore", "replace"}, default "refuse"
            Of a new example with a key that is in the window and not in ``remove``, or that stands in a row before:
            an error; the example is left out, and nothing is done where all are; or it takes the place of the one
            there, as the newest. A key that has left is new again.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey
            See the message; nothing was changed.
        NotPositiveSemidefinite, NotOptimal, MemoryLimit
            The path could not be followed; the model is as it was.
        """
        if type(decay) is not float:
            decay = validation.positive(decay, "decay")
        if C is not None:
            C = validation.cost(C)
        if robust is not None and not isinstance(robust, Robustness):
            raise InvalidType(f"must be a Robustness, not {type(robust).__name__}", field="robust")
        relabel = {} if relabel is None else validation.mapping(relabel, "relabel")
        reweight = {} if reweight is None else validation.mapping(reweight, "reweight")
        edits = Edits(relabel, reweight, decay, C, robust)
        if add is None and remove is None and edits == NO_EDITS and not hasattr(self, "_window"):
            raise InvalidInput("there is nothing to add, to remove or to change")
        change, ignored = Change(batch_from_pair(add, keys, sample_weight), remove, edits, on_repeat), tuple[Key, ...]()
        if on_repeat != "refuse":
            here = self._window.keys if hasattr(self, "_window") else {}
            change, ignored = without_repeats(change, here, is_gram=self.kernel == "precomputed")
        report = self._learn(change)
        self._consider(report)
        return report._replace(ignored=ignored)

    def learn(self, change: Change) -> UpdateReport:
        """Apply one update along one path, all or nothing, as ``update`` does after its first checks.

        Parameters
        ----------
        change : Change
            The update, without repeated keys; examples that are ``checked`` are not checked again.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey
            See the message; nothing was changed.
        NotPositiveSemidefinite, NotOptimal, MemoryLimit
            The path could not be followed; the model is as it was.
        """
        report = self._learn(change)
        self._consider(report)
        return report

    def _learn(self, asked: Change, *, every_example: bool = False) -> UpdateReport:
        """Change the window and everything derived from it; after any failure everything is as it was.

        With ``every_example`` all examples get other losses, as a parameter of the losses has changed.
        """
        started, before, window = time.perf_counter(), vars(self).copy(), vars(self).get("_window")
        if window is not None:
            if asked.add is not None and asked.add.checked is None:
                asked = self._unless_empty(asked, asked.add)
            is_empty = asked.add is None and (asked.remove is None or validation.is_empty(asked.remove))
            if is_empty and asked.edits in (None, NO_EDITS) and not (every_example or self._reset_parameters()):
                gap = window.relative_gap if window.keys else 0.0
                return self._report(Trace(relative_gap=gap), (), (), 0, time.perf_counter() - started)
            window.begin()
        is_judged = self.keeps_record and window is not None and bool(window.keys)
        try:
            if is_judged and (self._record is None or self._record.window is None):
                self._begin_record()
            change, trace = self._change(asked, every_example=every_example)
            seconds = time.perf_counter() - started
            report = self._report(trace, change.adding, change.leaving, len(change.changing), seconds)
            self._note(report, change if is_judged else None)
            if isinstance(self.feature_scale_, Nystroem) and self._outgrew_landmarks():
                report = self._with_more_landmarks(report)
            if self._record is not None and (not is_judged or (asked.edits and asked.edits.relabel)):
                self._record.window = None  # it is counted again
        except BaseException:
            if window is not None:
                window.undo()
            self._take_back(before)
            raise
        self._window.settle()
        return report

    @property
    def record(self) -> Record | None:
        """How often the model was right about examples before it learnt them; None for models without labels.

        There is no record if ``keeps_record`` is False, and ``fit`` begins a new record. The record does not include
        the first examples.
        """
        return None if self._record is None else self._record.frozen()

    def _begin_record(self) -> None:
        """Count the labels or targets of the window, from which the record makes its naive predictions."""
        raise AssertionError("every live estimator that keeps a record says of what")

    def _foretold(self, X: Any) -> list[Any]:
        """Return predictions (m,) for examples that the model has not learnt, in the form that the record stores."""
        raise AssertionError("every live estimator that keeps a record says of what")

    def record_with(self, examples: Iterable[tuple[Any, Any]]) -> Record | None:
        """Return the record extended by new examples, which are predicted now and learnt without ``update``.

        Parameters
        ----------
        examples : iterable of pairs
            Features (m, d) and targets (m,), as ``update`` takes them.

        Returns
        -------
        Record or None
            A copy of the record, with these examples.
        """
        if not (self.keeps_record and self.is_trained):
            return self.record
        if self._record is None or self._record.window is None:
            self._begin_record()
        assert self._record is not None
        found = self._record
        known = {label: label for label in found.window} if found.prices is None else {}  # 1.0 is the label 1
        for X, y in examples:
            found = found.judged(self._foretold(X), [known.get(one, one) for one in np.asarray(y).tolist()])
        return found.frozen()

    def _outgrew_landmarks(self) -> bool:
        """Return whether landmarks came from few examples, and the window now has at least twice as many examples."""
        scale: Any = self.feature_scale_
        return not scale.is_settled and len(self._window.keys) >= 2 * scale.fitted

    def _with_more_landmarks(self, report: UpdateReport) -> UpdateReport:
        """Choose landmarks again from the present window; return one report for the update and this step."""
        raise AssertionError("an estimator with components says how it is solved again")

    def _unless_empty(self, change: Change, add: Batch) -> Change:
        """Return the change without its batch ``add`` if that has no examples, as on a day without data.

        Raises
        ------
        InvalidInput : there are targets, or the examples would have another width
        """
        X, y = add.X, add.y
        if not validation.is_empty(X):
            return change
        if y is not None and not validation.is_empty(y):
            raise InvalidInput(f"{np.shape(y)[0] if np.ndim(y) else 1} targets for 0 rows", field="y")
        width = np.shape(X)[1] if len(np.shape(X)) == 2 else 0
        if width and self._objects is None and self.kernel != "precomputed" and self.columns is None:
            self._check_features(X, reset=False)
            scale = self.feature_scale_
            validation.check_width(width, self._window.width if scale is None else scale.width, "X")
        return replace(change, add=batch_from_pair(None, add.keys, add.weights))

    def _take_back(self, before: dict[str, Any]) -> None:
        """Replace all attributes of the model by those of ``before``."""
        have(self, before)

    def _note(self, report: UpdateReport, judged: ExampleUpdate | None) -> None:
        """Note a finished update; add the earlier predictions for the examples ``judged`` to the record."""

    def _make_ready(self, change: Change) -> None:
        """Prepare the window for the classes and examples of an update, which may still be invalid."""

    def _change(self, asked: Change, *, every_example: bool) -> tuple[ExampleUpdate, Trace]:
        """Check an update, follow the path to the new optimum, and store the new state."""
        add, edits = asked.add, asked.edits or NO_EDITS
        checked, remove = None if add is None else add.checked, () if asked.remove is None else asked.remove
        if checked is None:
            self._make_ready(asked)
        window = getattr(self, "_window", None)
        if checked is not None and add is not None:
            came, change = add.X, checked._replace(leaving=list(remove))
        else:
            came, targets = self._examples(add, window)
            weights = validation.sample_weights(None if add is None else add.weights, came.shape[0])
            leaving = validation.known_keys(remove, {} if window is None else window.keys)
            change = ExampleUpdate(came, targets, weights, (), leaving)
        if window is None:
            if add is None:
                raise InvalidInput("the model has not seen any example; its first update adds some", field="add")
            self.feature_scale_ = self._fitted_scale(came, change.weights)
            change = change._replace(X=self._scaled(came))
            window = self._new_window(change.X, change.weights)
            window.begin()
            self._begin_window(window, *change[:3])
        else:
            if checked is None and add is not None:
                change = change._replace(X=self._scaled(came))
            if self.cache_mb != window.cache_mb:
                window.allow(self._cache_bytes())
                window.cache_mb = self.cache_mb
            every_example |= bool(self._reset_parameters())
        m, total = len(change.y), self._total_per_weight()
        if checked is None and add is not None and add.keys is not None:
            change = change._replace(adding=validation.new_keys(add.keys, m, window.keys, {*change.leaving}))
        elif checked is None:
            change = change._replace(adding=window.unused_keys(m))
        read = self._targets, self._cutoff_rule
        if every_example or edits != NO_EDITS:
            change = edited(change, window, edits, *read, every_example=every_example)
        if self._shares_costs and self._weigh(window, change):
            change = edited(change, window, edits, *read, every_example=True)
        C = edits.C
        if checked is None:
            heaviest = 1.0 if add is None or add.weights is None else float(change.weights.max(initial=0.0))
            heaviest = max(heaviest, float(change.new_weights.max())) if edits.reweight else heaviest
            self._check_scale(window, change.X, change.weights, heaviest, C)
        robust = self.robust_ if edits.robust is None else edits.robust
        robust = None if robust is None or robust.theta == 1.0 else Robustness(float(robust.theta), float(robust.s))
        change = change._replace(losses=self._losses(change.y, change.weights, C))
        if change.changing:
            new_losses = self._conditional(change.new_y, change.new_weights, change.new_sides, C, robust)
            change = change._replace(new_losses=new_losses)
        stays = None if self.feature_scale_ is None else window.stays_without(change.leaving)
        window.foretells = self.keeps_record
        if self.keeps_record:
            window.left = [*map(window._y.item, map(window.keys.__getitem__, change.leaving))]
        try:
            trace = window.update(change, total, self._terms(robust, C) if robust else None)
        except NotOptimal as error:
            size = float(scaling.diagonal(window.store.kernel, change.X).max(initial=0.0))
            raise NotOptimal(f"{error}{scaling.advice(window.largest.state.examples, change.losses, size)}") from error
        if C is not None:
            self._fix({"C": C})
            self.C = C
        if edits.robust is not None:
            self.robust_ = robust
        if C is not None or every_example or not hasattr(self, "_window"):
            self._take_over(window)
        if stays is not None:
            self._keep_as_they_came(came, stays)
        self.n_features_in_ = window.width if self.feature_scale_ is None else self.feature_scale_.width
        return change, trace

    def _weigh_without(self, key: Key) -> int:
        """Set all losses as if example ``key`` were removed, but keep the example; return the path's number of events.

        Afterwards the model can be used for analyses only.

        Raises
        ------
        InvalidInput : nothing can be learnt from the examples that stay
        NotOptimal, NotPositiveSemidefinite, MemoryLimit : the path could not be followed
        """
        window = self._window
        rows, nothing = self._examples(None, window)
        change = ExampleUpdate(rows, nothing, nothing, [], [key])
        if self._shares_costs:
            self._weigh(window, change)
        keys = list(window.keys)
        y, weights, sides = window.targets_of(keys)
        change = change._replace(leaving=[], changing=keys, new_y=y, new_weights=weights, new_sides=sides)
        change = change._replace(new_losses=self._losses(y, weights))
        with window.changing():
            return window.update(change, self._total_per_weight()).events

    def checked(self, change: Change) -> ExampleUpdate | None:
        """Check the scale of an update as ``check_scale`` does; return its new examples, fully checked.

        This method is for callers that have checked everything else themselves, including keys.

        Parameters
        ----------
        change : Change
            An update with new examples: finite features (m, d), dense or sparse and as wide as those of the window, and
            ``targets`` as ``settled_targets`` has returned them, or None.

        Returns
        -------
        ExampleUpdate or None
            The ``checked`` of its batch; None: ``learn`` must read the examples, as they may define the model.

        Raises
        ------
        InvalidInput
            Names what is too large, with its row.
        """
        add, edits, window = change.add or Batch(()), change.edits or NO_EDITS, vars(self).get("_window")
        targets, is_settled = add.targets, window is not None and not self._shares_costs and self.columns is None
        if targets is None and is_settled:
            targets = self.settled_targets(add.y, len(add.X))
        if window is None or targets is None or not is_settled:
            self.check_scale(add.X, add.weights, reweight=edits.reweight, C=edits.C)
            return None
        rows, scale = (
            validation.plain_features(add.X),
            self.feature_scale_,
        )  # from another process they may be read-only
        rows = rows if scale is None else scale.apply(rows)
        weights = np.ones(len(rows)) if add.weights is None else validation.plain(add.weights, np.float64)
        heaviest = max(float(weights.max()), *edits.reweight.values(), 0.0)
        self._check_scale(window, rows, weights, heaviest, edits.C)
        return ExampleUpdate(rows, targets, weights, add.keys)

    def settled_targets(self, y: NDArray[Any] | None, m: int) -> Floats | None:
        """Return the targets as numbers (m,), or None if they may change the classes or settings of the model.

        Parameters
        ----------
        y : ndarray, shape (m,), or None
            Targets of the task, of a model that has a window.
        m : int
            Number of examples.

        Returns
        -------
        ndarray, shape (m,), or None
            The targets as the losses take them.
        """
        return self._targets(y, m)

    def check_scale(
        self,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        reweight: Mapping[Key, float] | None = None,
        C: float | None = None,
    ) -> None:
        """Raise the error that ``update`` would raise for numbers beyond double precision; change and solve nothing.

        Sums of k(x, x), C and weights over the window must be finite. Only the diagonal of the kernel is computed, in
        O(m d).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, d), or None, default None
            Features of new examples, or what ``update`` takes in place of them; None: there are none.
        sample_weight : array_like, shape (m,), or None, default None
            As in ``update``.
        reweight : mapping or None, default None
            As in ``update``.
        C : float or None, default None
            As in ``update``.

        Raises
        ------
        InvalidInput
            Names what is too large, with its row.
        """
        window: Window | None = getattr(self, "_window", None)
        rows: Features = np.empty((0, 0)) if X is None else self._read(X)
        weights = validation.sample_weights(sample_weight, rows.shape[0])
        if X is not None:
            if window is not None and self._objects is None and self.kernel != "precomputed" and self.columns is None:
                self._check_features(X, reset=False)
            scale = self._fitted_scale(rows, weights) if window is None else self.feature_scale_
            if window is not None and self.kernel != "precomputed":
                rows = like(rows, window.is_sparse)
            if scale is not None and scale.width == rows.shape[1]:
                is_first = window is None and isinstance(scale, Nystroem)  # the map of many rows takes long
                rows = scale.scaled(rows) if is_first else scale.apply(rows)  # type: ignore[union-attr]
        heaviest = 1.0 if sample_weight is None else float(weights.max(initial=0.0))
        if reweight:
            given = list(validation.mapping(reweight, "reweight").values())
            heaviest = max(heaviest, float(validation.sample_weights(given, len(given), "reweight").max()))
        if C is not None:
            C = validation.cost(C)
        if window is None and X is not None:
            of = scale.kernel if isinstance(scale, Nystroem) else None
            window = self._new_window(rows, weights) if of is None else Window(of, intercept=True, cache_bytes=0)
        if window is not None:
            self._check_scale(window, rows, weights, heaviest, C)

    def _check_scale(self, window: Window, rows: Features, weights: Floats, heaviest: float, C: float | None) -> None:
        """Raise InvalidInput if an update's numbers do not fit double precision."""
        kernel, n, cost = window.store.kernel, len(window.keys) + rows.shape[0], self._unit_cost(C)
        size = 1.0 if kernel.is_of_distances else float(scaling.diagonal(kernel, rows).max(initial=0.0))
        most = window.room
        if n <= most.n and size <= most.kernel and cost <= most.C and heaviest <= most.weight:
            return
        known = window.sizes()
        scale = scaling.Scale(n, max(size, known[0]), cost, max(heaviest, known[1]))
        if not scale.fits:
            raise scaling.refusal(scale, scaling.diagonal(kernel, rows), weights)
        window.room = scale.with_room

    def _examples(self, add: Batch | None, window: Window | None) -> tuple[Features, Floats]:
        """Check new examples, and return their features (m, d) and targets (m,); raises InvalidInput."""
        if add is None:
            width = window.store.n_features if window else 0
            is_sparse = window is not None and window.is_sparse
            return SparseRows.empty(0, width) if is_sparse else np.empty((0, width)), np.empty(0)
        X, y = add.X, add.y
        if self.columns is not None:
            self.columns_, codes = self._coded(X)
            return codes, self._targets(y, len(codes))
        rows, given = self._read(X), self.kernel == "precomputed"
        if self._objects is None and (window is None or not given):
            self._check_features(X, reset=window is None)
        known = None if given or window is None else window.width
        validation.check_width(rows.shape[1], self.feature_scale_.width if known and self.components_ else known, "X")
        return rows, self._targets(y, rows.shape[0])

    def _read(self, X: Any) -> Features:
        """Return new examples as an array or as sparse rows; objects, such as texts, become numbers (m, 1)."""
        if self.columns is not None:
            return self._coded(X)[1]
        if self.kernel == "precomputed":
            if hasattr(X, "tocsr"):
                raise InvalidType("Sparse precomputed kernels are not supported.", field="X")
            return validation.examples(X)
        given, window = None, vars(self).get("_window")
        if callable(self.kernel):
            given = objects_in(X) if window is None else objects_for(X, self._objects)
        if window is None:
            self._objects = None if given is None else {}
        if given is None or self._objects is None:
            return validation.any_examples(X)
        if window is not None:
            here = set(dense(window.X)[:, 0].astype(np.int64).tolist())
            for number in [number for number in self._objects if number not in here]:
                del self._objects[number]
        numbers = unused_numbers(self._objects, given)
        self._objects.update(zip(numbers, given, strict=True))
        return np.array(numbers, np.float64)[:, None]

    def _coded(self, X: Any) -> tuple[TableColumns, Codes]:
        """Return the model's columns, or columns found in ``X``, and ``X`` as numbers; raises InvalidInput."""
        known = vars(self).get("columns_")
        if known is None and isinstance(X, Codes) and X.table is not None and X.table.each:
            known = X.table
        elif known is None:
            is_open = isinstance(self.columns, str) and self.columns == "auto"
            known = table_columns.found_in(X) if is_open else table_columns.given(self.columns)
        known, codes = known.read(X)
        validation.check_some(codes.shape)
        return known, codes

    def _fitted_scale(self, rows: Features, weights: Floats) -> FeatureScale | TableEncoding | Nystroem | None:
        """Return the transformation fitted to the first examples: a scale or table encoding, and landmarks.

        Parameters
        ----------
        rows : ndarray or SparseRows, shape (n, d)
            The examples, as they come.
        weights : ndarray, shape (n,)
            Their weights.

        Returns
        -------
        FeatureScale, TableEncoding, Nystroem or None
            What they go through, in the order named; None: nothing.

        Raises
        ------
        InvalidInput
            Parameters do not belong together, or to such rows.
        """
        scale = self._scale_alone(rows, weights)
        most: Any = self.components
        if isinstance(most, str):
            if most != "auto" or not isinstance(vars(self).get("C"), str):
                is_of_C = self._tuned_by == "C" and "C" in self.get_params(deep=False)
                more = ", or 'auto' where C is 'auto'" if is_of_C else "; 'auto' is for classifiers and regressions"
                raise InvalidInput(f"must be a whole number{more}", field="components")
            is_large = "components" not in self.chosen_ and len(rows) >= MANY and not isinstance(rows, SparseRows)
            most = AT_FIRST if is_large else self.chosen_.get("components")
        if most is None:
            return scale
        most = validation.whole(most, "components")
        if self.kernel == "precomputed" or callable(self.kernel):
            raise InvalidInput("need a kernel of features, by name", field="components")
        if isinstance(rows, SparseRows):
            reason = "landmarks and mapped rows are dense; pass dense features, or leave it out"
            raise InvalidInput(reason, field="components")
        own = np.asarray(dense(rows)) if scale is None else scale.apply(rows)
        return nystroem.fitted(self._kernel(self._gamma_of(own, weights)), scale, rows, most)

    def _scale_alone(self, rows: Features, weights: Floats) -> FeatureScale | TableEncoding | None:
        """Return the scale fitted to the first examples, or the encoding of their table; raises InvalidInput."""
        if self.columns is not None:
            if self.kernel == "precomputed" or callable(self.kernel) or self.scale != "none":
                field = "scale" if self.scale != "none" else "kernel"
                raise InvalidInput("is of rows of numbers, and columns are given", field=field)
            known = vars(self).get("columns_") or self._coded(rows)[0]
            return encoding.fitted(known, dense(rows), weights)
        if self.kernel == "precomputed" and self.scale != "none":
            raise InvalidInput("a precomputed kernel has no features to scale; choose 'none'", field="scale")
        if isinstance(rows, SparseRows):
            if self.scale != "none":
                reason = "sparse features are not scaled, which would fill them; choose 'none', or pass them dense"
                raise InvalidInput(reason, field="scale")
            return None
        return feature_scale.fitted(self.scale, rows, weights)

    def _keep_as_they_came(self, rows: Features, stays: Bools) -> None:
        known: Any = vars(self).get("_came")
        added = dense(like(rows, False)) if len(rows) else np.empty((0, known.shape[1]))
        if known is None or not len(known):
            self._came = added.copy()
            return
        gone = np.flatnonzero(~stays)  # whole slices are copied five times faster than rows by a mask
        parts = [known[a:b] for a, b in zip(np.append(0, gone + 1), np.append(gone, len(known)), strict=True) if a < b]
        self._came = np.concatenate([*parts, added])

    def _scaled(self, rows: Features) -> Features:
        """Return features as the window stores them: scaled, and dense or sparse."""
        scale, window = self.feature_scale_, vars(self).get("_window")
        if window is not None and self.kernel != "precomputed":
            rows = like(rows, window.is_sparse)
        return rows if scale is None else scale.apply(rows)

    def _take_over(self, window: Window) -> None:
        """Replace the model's window by ``window``, which was solved with the present parameters."""
        self._window = window
        self._made_of = {name: getattr(self, name) for name in (*KERNEL_PARAMETERS, *self._loss_parameters)}
        self.gamma_ = window.kernel.gamma

    def _check_fitted(self) -> None:
        """Raise NotFittedError before the first examples, InvalidInput if parameters were set after the last update."""
        self._learnt  # noqa: B018 - it raises
        for name in self._reset_parameters():
            raise InvalidInput("was set since the window was learnt; call update() first", field=name)

    def _reset_parameters(self) -> list[str]:
        """Return the parameters of the losses that were set since the last update.

        Raises
        ------
        InvalidInput : a parameter of the kernel was set
        """
        changed = []
        for name, old in self._made_of.items():
            new = getattr(self, name)
            try:
                is_same = new is old or bool(new == old)
            except ValueError:  # one is an array, which is not simply equal or not
                is_same = np.array_equal(new, old)
            if not is_same and name in KERNEL_PARAMETERS:
                raise InvalidInput(f"is {new!r}, but the window was learnt with {old!r}; call fit", field=name)
            changed += [] if is_same else [name]
        return changed

    def _report(
        self, trace: Trace, added: Sequence[Key], removed: Sequence[Key], changed: int, seconds: float
    ) -> UpdateReport:
        problems = self._window.problems.values()
        return UpdateReport(
            added=tuple(added),
            removed=tuple(removed),
            changed=changed,
            events=trace.events,
            seconds=seconds,
            n=len(self._window.keys),
            n_bound=sum(map(PathProblem.n_bound_supports, problems)),
            n_free=sum(map(N_FREE, problems)),
            max_violation=trace.max_violation,
            relative_gap=trace.relative_gap,
            rounds=trace.rounds,
            exchanges=trace.exchanges,
            stalls=trace.stalls,
            refreshes=trace.refreshed,
            refactorizations=trace.refactored,
            retrained=bool(trace.retrained),
            abandoned=bool(trace.abandoned),
        )

    def _kernel(self, gamma: float) -> Kernel:
        if callable(self.kernel):
            return FunctionKernel(function=self.kernel, objects=self._objects)
        gram = Gram() if self.kernel == "precomputed" else None
        return Kernel(self.kernel, gamma, self.degree, self.coef0, gram)

    def _window_kernel(self, gamma: float) -> Kernel:
        """Return the kernel of the window's features: with components, the linear kernel of mapped features."""
        is_whole = self.components_ is None and not self.is_mapped
        return self._kernel(gamma) if is_whole else ProjectedKernel("linear", gamma)

    def _new_window(self, X: Features, weights: Floats) -> Window:
        scale = self.feature_scale_
        if isinstance(scale, Nystroem):
            return self._window_with(scale.kernel.gamma)
        return self._window_with(self._gamma_of(X, weights), self._center_of(X))

    def _gamma_of(self, X: Features, weights: Floats) -> float:
        """Return gamma for the first examples, with scaled features (m, d); raises InvalidInput."""
        if not isinstance(self.gamma, str):
            return validation.positive(self.gamma, "gamma")
        if self.gamma not in ("scale", "auto"):
            raise InvalidInput(f"must be a number, 'scale' or 'auto', not {self.gamma!r}", field="gamma")
        is_open = isinstance(vars(self).get("C"), str)
        if is_open and "gamma" in self.chosen_:
            return float(self.chosen_["gamma"])
        return 1.0 / X.shape[1] if self.gamma == "auto" and not is_open else scaling.gamma(X, weights, self.kernel)

    def _center_of(self, X: Features) -> Floats | None:
        """Return the center to subtract from features (n, d); None if a center would change the model or is near 0."""
        is_free = self.fit_intercept and not self._total_per_weight() and self._window_kernel(1.0).is_movable
        return center_of(X) if is_free else None

    def _window_with(self, gamma: float, center: Floats | None = None) -> Window:
        kernel = replace(self._window_kernel(gamma), center=center)
        n = max(2, len(vars(self).get("classes_", ())))
        return Window(kernel, n, intercept=bool(self.fit_intercept), cache_bytes=self._cache_bytes())

    def _cache_bytes(self) -> int:
        return int(validation.positive(self.cache_mb, "cache_mb") * 2**20)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` makes no difference, as no parameter has parameters of its own."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _decided(self) -> dict[str, Any]:
        """Return the parameters by name, with the chosen values in place of "auto", so that copies choose nothing."""
        found = self.get_params(deep=False)
        if isinstance(found.get("C"), str):
            open_ = ("C", "gamma", "epsilon", "target_scale", "components")
            names = [name for name in open_ if isinstance(found.get(name), str)]
            found |= {name: getattr(self, f"{name}_") for name in names if hasattr(self, f"{name}_")}
        return found

    def _like(self, **parameters: Any) -> Self:
        """Return an untrained model with the given and this model's other parameters; chosen values replace "auto"."""
        out = type(self)(**{**self._decided(), **parameters})
        for name in ("columns_", "chosen_"):
            if name in vars(self) and name[:-1] not in parameters:
                setattr(out, name, vars(self)[name])
        return out

    def _forget(self) -> dict[str, Any]:
        """Remove all learnt attributes from the model, and return them by name."""
        return {name: vars(self).pop(name) for name in self._learnt_names()}

    def _learnt_names(self) -> list[str]:
        """Return the names of the attributes that training sets."""
        return [name for name in vars(self) if name in ("_window", "_made_of", "_came", "_objects") or name[-1] == "_"]

    # -- robust losses -------------------------------------------------------------------------------------------------

    def _terms(self, robust: Robustness, C: float | None = None) -> Terms:
        """Return the functions that compute robust losses."""
        return Terms(robust.theta, partial(self._losses, C=C), self._cutoff_rule(robust.s).at(robust.s))

    def _conditional(
        self, targets: Floats, weights: Floats, sides: Sides, C: float | None, robust: Robustness | None
    ) -> Losses:
        """Return the convex losses of examples, each of which counts as lying on the given side of its cutoffs."""
        base = self._losses(targets, weights, C)
        return base if robust is None else conditional(base, sides, robust.theta)

    def robustness(self) -> Robustness | None:
        """Return the parameters theta and s and the outliers of a robust model; None if the losses are convex.

        Returns
        -------
        Robustness or None
            theta, s and the outliers by key.
        """
        if self.robust_ is None:
            return None
        sides = zip(self._window.keys, self._window.sides.tolist(), strict=True)
        return Robustness(self.robust_.theta, self.robust_.s, {key: side for key, side in sides if side})

    def local_optimality(self) -> LocalOptimality:
        """Return how well a robust model satisfies the conditions of a local optimum, recomputed from the data.

        ``certificate`` belongs to the convex problem in which every example stays on its present side. The solution of
        the convex problem is a local optimum of the robust problem if every example is on its true side, which this
        method checks.

        Returns
        -------
        LocalOptimality
            Violation and distance from the cutoffs, in units of f.

        Raises
        ------
        InvalidInput
            The model is not robust.
        """
        self._check_fitted()
        if self.robust_ is None:
            raise InvalidInput("the model is not robust", field="robust")
        return self._window.local_optimality(self._terms(self.robust_))

    def prepare(self) -> None:
        """Build now the kernel rows and their factor, which the first update after ``from_arrays`` would build.

        Predictions and certificates do not need these rows or the factor.
        """
        self._learnt.prepare()

    def cool(self) -> None:
        """Free memory that the next update fills again: kernel rows, their factor, work, and space for more examples.

        The model's answers stay the same, and updates lead to the same optimum; only the next update takes longer.
        """
        if hasattr(self, "_window"):
            self._window.cool()
        if self._record is not None:
            self._record.count()  # it keeps no notes

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free now; 0 right after such a call."""
        return self._window.hot_bytes if hasattr(self, "_window") else 0

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays that the model holds, including those that :meth:`cool` would free."""
        if not hasattr(self, "_window"):
            return 0
        return self._window.held_bytes + (0 if self.feature_scale_ is None else self._came.nbytes)

    @property
    def is_settled(self) -> bool:
        """Whether all that the first examples determine is set; False while the model waits for more examples."""
        return self.components_ is None or self.feature_scale_ is None or bool(self.feature_scale_.is_settled)

    @property
    def is_trained(self) -> bool:
        """Whether the model has learnt examples, by which it can predict."""
        return hasattr(self, "_window") and bool(self._window.keys)

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return everything a checkpoint needs: arrays, numbers, and the keys as a list.

        Returns
        -------
        dict
            Arrays and numbers by name, from which :meth:`from_arrays` makes the model.
        """
        robust, scale = self.robust_, self.feature_scale_
        features = None if scale is None else np.asarray(self.window_features)
        arrays = {
            **self._learnt.to_arrays(features),
            "robust": np.array([] if robust is None else [robust.theta, robust.s]),
        }
        if self.chosen_:
            arrays["chosen"] = self.chosen_
        if self._record is not None:
            arrays["record"] = self._record.to_document()
        if self._objects is not None:
            arrays["objects"] = self.window_X
        if features is None:
            return arrays
        if self.columns is not None:
            self.columns_ = self.columns_.only_in(features)
            self.feature_scale_ = scale = scale.with_columns(self.columns_)
        kept: dict[str, Any] = scale.to_arrays()
        return arrays | kept

    def to_warm_arrays(self) -> dict[str, Any]:
        """Return the result of ``to_arrays`` and the present decisions, so that ``from_arrays`` need not compute these.

        Returns
        -------
        dict
            Arrays by name.
        """
        return self.to_arrays() | self._learnt.standing()

    @classmethod
    def from_arrays(cls, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` was taken from.

        Parameters
        ----------
        params : mapping
            Parameters, as ``get_params`` has them.
        arrays : mapping
            What :meth:`to_arrays` returned.

        Returns
        -------
        Self
            The model, at its optimum.

        Raises
        ------
        NotOptimal
            The arrays do not describe a model that can be brought to its optimum.
        """
        model = cls(**cls._own(params))
        model._restore(arrays)
        return model

    @classmethod
    def _own(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``parameters`` under the names of the constructor's arguments."""
        return dict(parameters)

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        scale: Any = feature_scale.restored(self.scale, arrays)
        if "landmarks" in arrays:
            scale = nystroem.restored(self._kernel(float(arrays["gamma"])), scale, arrays)
        self.feature_scale_ = scale
        if "record" in arrays:
            self._record = Record.from_document(arrays["record"])
        if "chosen" in arrays:
            self.chosen_ = dict(arrays["chosen"])
        if scale is not None:
            given = arrays["X"]
            rows = given.toarray() if isinstance(given, SparseRows) else validation.plain(given, np.float64)
            self._came = np.array(rows)
            if scale.columns is not None:
                self.columns_ = scale.columns
            arrays = {**arrays, "X": arrays["encoded"] if "encoded" in arrays else scale.apply(rows)}
        if "objects" in arrays:
            numbers = np.asarray(arrays["X"])[:, 0].astype(np.int64).tolist()
            self._objects = dict(zip(numbers, arrays["objects"], strict=True))
        center = validation.plain(arrays["center"], np.float64) if "center" in arrays else None
        window = self._window_with(float(arrays["gamma"]), center)
        targets, weights = (validation.plain(arrays[name], np.float64) for name in ("y", "sample_weight"))
        if targets.shape != weights.shape:
            raise InvalidInput("the arrays of this checkpoint do not belong together")
        if np.size(arrays.get("robust", ())):
            self.robust_ = Robustness(*np.asarray(arrays["robust"], np.float64).tolist())
        losses = self._conditional(targets, weights, np.asarray(arrays["sides"], np.int8), None, self.robust_)
        total = self._total_per_weight() * float(weights.sum())
        window.restore(arrays, losses, total)
        self._take_over(window)
        self.n_features_in_ = window.width if scale is None else scale.width


def have(model: object, attributes: dict[str, Any]) -> None:
    """Replace all attributes of a model by ``attributes``."""
    own = vars(model)
    since = own.keys() - attributes.keys()
    own.update(attributes)
    for name in since:
        del own[name]


@contextmanager
def all_or_nothing(*models: object) -> Iterator[None]:
    """Restore the attributes of models if the block raises; the block must replace arrays, not modify them."""
    before = [vars(model).copy() for model in models]
    try:
        yield
    except BaseException:
        for model, attributes in zip(models, before, strict=True):
            have(model, attributes)
        raise


def keep(model: object, given: dict[str, Any]) -> None:
    """Set the parameters of a model to the arguments of its constructor, by name."""
    vars(model).update((name, value) for name, value in given.items() if name not in ("self", "__class__"))
