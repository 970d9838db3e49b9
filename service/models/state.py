"""The state of one model between updates: its estimator, its window, and the number of its last log record. This module
uses no threads and no store."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from livesvm.service.errors import NotSolved
from livesvm.service.models.arrays import Key, Vector
from livesvm.service.models.classifier import Served, ServedClassifier
from livesvm.service.models.commands import CONVEX, Command, Outcome, Sizes, follow
from livesvm.service.models.learners import (
    CHANGEABLE,
    KERNEL_PARAMETERS,
    SOLVED_AGAIN,
    check_update,
    learnt,
    new_estimator,
    parameters,
    restored_estimator,
    task_of,
    window_after,
)
from livesvm.service.models.proofs import proof_of
from livesvm.service.models.published import Published
from livesvm.service.models.self_tuning import TuningSchedule, chosen
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.table_rows import TableRows, check_form
from livesvm.service.models.tasks import TASKS
from livesvm.service.models.trained_on import TrainedOn
from livesvm.service.models.watch import ScoredExamples, Watch
from livesvm.service.models.window import Window, WindowLimits
from livesvm.service.resources.memory import model_bytes
from livesvm.service.store import codec
from livesvm.service.store.base import StoreDamaged
from livesvm.solvers.analyses.tuning.automatic import LEAST, choose, default_columns
from livesvm.solvers.errors import InvalidInput, MemoryLimit, SolverError
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.positive_unlabelled import LivePUClassifier
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.kernels.nystroem import Nystroem
from livesvm.solvers.models import feature_scale, scaling
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.calibration import Calibration
from livesvm.solvers.models.change import DRIFT_ALARMS, NO_EDITS, TUNED, Batch, Change, Edits
from livesvm.solvers.models.feature_scale import FeatureScale
from livesvm.solvers.models.record import Record
from livesvm.solvers.models.warnings import ModelWarning
from livesvm.solvers.pu.held_out import HeldOut
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.sparse import SparseRows
from livesvm.solvers.tables import columns as table_columns
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.columns import Codes, TableColumns
from livesvm.solvers.tables.encoding import TableEncoding

GAP = 0.1
"""Default relative gap of a training by Frank-Wolfe steps."""
PART = 1000
"""Examples that are learnt at a time from nothing: much faster than all at once, as most soon have coefficient 0."""


@dataclass(frozen=True)
class ModelCopy:
    """A copy of one version of a model (parameters, window and arrays) for work outside the model's mailbox."""

    spec: ModelSpec
    version: int
    cache_mb: int
    changed: dict[str, Any]
    arrays: dict[str, Any]
    window: Window = field(default_factory=Window)
    sizes: Sizes = field(default_factory=Sizes)
    watched: dict[str, Any] | None = None  #: errors before learning, as ``Watch.report`` returns them

    @property
    def n_features(self) -> int | None:
        """The number of features; None before the first example."""
        return self.window.n_features

    @property
    def times(self) -> Vector:
        """Unix times of the examples (n,), in the order in which the estimator stores the examples."""
        return np.array([self.window.arrivals[key] for key in self.arrays["keys"]], np.float64)

    @property
    def n_classes(self) -> int:
        """The number of classes that the model knows; 0 for tasks without classes."""
        return len(self.arrays.get("classes", ()))

    @property
    def on_scale(self) -> dict[str, str]:
        """The field ``target_scale`` of answers with values in units of scaled targets; empty without such a scale."""
        kind = self.changed.get("target_scale", self.spec.target_scale)
        kind = self.arrays.get("chosen", {}).get("target_scale") if kind == "auto" else kind
        return {} if kind in (None, "none") else {"target_scale": kind}

    def estimator(self) -> LiveEstimator:
        """Return a new estimator at the copied optimum; raises NotOptimal."""
        return restored_estimator(self.spec, self.cache_mb, self.arrays, **self.changed)

    def state(self) -> ModelState:
        """Return a model state with the copied version that shares no memory with the original; raises NotOptimal."""
        return ModelState(self.spec, self.cache_mb, self.estimator(), self.window.copy(), self.sizes, self.version)


@dataclass(frozen=True)
class Owed:
    """A retraining that is due after an erasure: why the last training was removed, and the request for a job."""

    reason: str
    asked: dict[str, Any]


@dataclass
class ModelState:
    """The state of one model, which only the model's writer changes.

    ``version`` counts the updates that were applied. ``sequence`` counts the records of the log that were applied or
    aborted. ``updated_at`` is the Unix time of the newest version, None if unknown.
    """

    spec: ModelSpec
    cache_mb: int
    estimator: LiveEstimator
    window: Window = field(default_factory=Window)
    sizes: Sizes = field(default_factory=Sizes)
    version: int = 0
    sequence: int = 0
    updated_at: float | None = None
    watch: Watch | None = None  #: the test for drift; None: there is none
    tuning: TuningSchedule = field(default_factory=TuningSchedule)  #: the last choice of a model that tunes itself
    owed: Owed | None = None  #: the retraining that is due after an erasure
    warnings: list[dict[str, str]] = field(default_factory=list)  #: reasons why the model may be useless
    _of_scale: list[ModelWarning] = field(default_factory=list)  #: warnings about the scale of features
    _until_look: int = 0  #: examples that may come before the scale is checked again
    _looked_at: int = -1  #: the version that was last checked for warnings

    @classmethod
    def empty(cls, spec: ModelSpec, cache_mb: int) -> ModelState:
        """Return the state of a new model without examples."""
        watch = None if spec.drift_alarms is None else Watch(spec.drift_alarms)
        return cls(spec, cache_mb, new_estimator(spec, cache_mb), Window(n_features=spec.n_features), watch=watch)

    def apply(self, command: Command) -> Outcome:
        """Apply one command along the solution path; after SolverError the model is unchanged."""
        outcome, edits = Outcome(self.sizes), command.edits or NO_EDITS
        scored = [] if self.watch is None else self._scored([command])
        is_change = edits.change is not None or edits.rescale
        if is_change:
            outcome = self._change(edits)
        elif command.add is not None or (self.is_fitted and (command.remove or edits != NO_EDITS)):
            outcome = follow(self.estimator, command)
        elif edits.C is not None:
            self.estimator.C = edits.C
        self._done(command, outcome)
        if self.watch is not None or is_change:
            outcome = self._watched([command], scored, outcome)
        return self._with_news(outcome, afresh=is_change)

    def _scored(self, commands: Sequence[Command]) -> list[ScoredExamples | None]:
        """Return the present model's scores of the examples to add, for the drift test; empty without a test."""
        if self.watch is None or not self.is_fitted:
            return []
        return [self.watch.score(self.estimator, command) for command in commands]

    def _record_with(self, commands: Sequence[Command]) -> Record | None:
        """Return the record of predictions, extended by the present model's predictions for the examples to add."""
        come = [command.add for command in commands if command.add is not None]
        return self.estimator.record_with((batch.X, batch.y) for batch in come)

    def _watched(
        self, commands: Sequence[Command], scored: Sequence[ScoredExamples | None], outcome: Outcome
    ) -> Outcome:
        """Pass the scores of newly learnt examples to the drift test; return the outcome, with any alarm it raised."""
        for one in commands:
            if one.edits is not None and DRIFT_ALARMS in (one.edits.change or {}):
                self.watch_by((one.edits.change or {})[DRIFT_ALARMS])
        if self.watch is None:
            return outcome
        n, alarm = self.sizes.n_examples, None
        for found in scored:
            if found is not None:
                alarm = self.watch.learn(found, self.version, n) or alarm
        changed = [edits for one in commands if (edits := one.edits) is not None]
        has_C = any(edits.new_C is not None and edits.tuned is None for edits in changed)
        self.watch.answered(n, with_C=has_C and alarm is None)
        return outcome if alarm is None else replace(outcome, more=outcome.more | {"drift": alarm})

    def watch_by(self, false_alarms: float | None) -> None:
        """Begin a drift test with a new rate of false alarms, or end the test; keep a test with the same rate."""
        if false_alarms is None:
            self.watch = None
        elif self.watch is None or self.watch.false_alarms != false_alarms:
            self.watch = Watch(false_alarms)

    def _change(self, edits: Edits) -> Outcome:
        """Change parameters, or fit the scale of features again; after SolverError the model is unchanged."""
        parameters, tuned = edits.parameters, edits.tuned
        if not self.is_fitted:
            for name, value in parameters.items():
                setattr(self.estimator, name, value)
            return Outcome(self.sizes)
        estimator: Any = self.estimator
        is_choice = tuned is not None and tuned["changes"]
        if not (edits.rescale or parameters or is_choice):
            return Outcome(self.sizes, more={"gamma": self.gamma, "resolved": False})
        if tuned is not None:
            report = estimator.adopt(tuned["parameters"])
        else:
            report = estimator.rescale() if edits.rescale else estimator.change(**parameters)
        return Outcome.of(report, gamma=self.gamma, resolved=bool(report.retrained))

    def look(self, *, afresh: bool = False) -> None:
        """Update this version's warnings, which are about predictions in the window and about the scale of features.

        The scale is checked if ``afresh``, or if as many examples were added since the last check as the window held at
        that check.
        """
        if self._looked_at == self.version and not afresh:
            return
        self._looked_at, model, flagged = self.version, self.estimator, list[ModelWarning]()
        if self.is_fitted and self.window.arrivals:
            if afresh or self._until_look <= 0:
                self._of_scale = list(getattr(model, "scale_warnings", ()))
                self._until_look = len(self.window.arrivals)
            flagged = [*model.flagged_warnings]
        found = [*self._of_scale, *flagged]
        self.warnings = [{"name": one.name, "message": one.message} for one in found] if found else []
        if isinstance(model, LiveL2SVC) and not model.is_trained:
            why = "the model has not been trained yet" if self.owed is None else self.owed.reason
            self.warnings = [{"name": "untrained", "message": f"{why}; it predicts nothing until it is retrained"}]

    def _with_news(self, outcome: Outcome, *, afresh: bool) -> Outcome:
        self.look(afresh=afresh)
        more: dict[str, Any] = {"tuning": self.tuning.shown()} if self.estimator.tunes_itself else {}
        more |= {"warnings": self.warnings} if self.warnings else {}
        return replace(outcome, more=outcome.more | more) if more else outcome

    def plan(self, update: Change, limits: WindowLimits, most_classes: int, now: float, request: str | None) -> Command:
        """Return the command that applies an update to this model, without changing the model.

        Parameters
        ----------
        limits, now, request : as for :meth:`~livesvm.service.models.window.Window.plan`
        most_classes : most classes of a model

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey
        """
        add, model, is_known = update.add, self.estimator, False
        if add is not None and update.edits is None and isinstance(model, ServedClassifier) and self.is_fitted:
            add = replace(add, targets=model.settled_targets(add.y, len(add.X)))
            update, is_known = replace(update, add=add), add.targets is not None and model.classes_.size <= most_classes
        if not is_known:
            check_update(self.spec, update)
        if add is not None and (self.estimator.columns is not None or isinstance(add.X, TableRows)):
            update = replace(update, add=self._coded(add))
        if update.edits is not None:
            self._check_change(update.edits, limits.quota_examples)
            update = self._settled(update, update.edits)
        if not is_known:
            self._check_labels(update, most_classes)
        if model.components is not None and model.components_ is not None:
            limits = limits.of_bounded_rank
        return self._checked(self.window.plan(update, limits, now, request))

    def _coded(self, add: Batch) -> Batch:
        """Return the batch with its table rows encoded as numbers; the model's first rows also decide its columns.

        Raises
        ------
        InvalidInput : names row and column
        """
        model, X = self.estimator, add.X
        check_form(X, has_columns=model.columns is not None)
        if isinstance(X, Codes):
            return add
        known: TableColumns | None = vars(model).get("columns_")
        if known is None:
            first = X.first_columns() if model.columns == "auto" else table_columns.given(model.columns)
            return replace(add, X=X.read_by(first))
        codes = X.read_by(known)
        return replace(add, X=Codes.of(codes, replace(codes.table, each=())))

    def _check_change(self, edits: Edits, most: int) -> None:
        """Raise InvalidInput if a change of parameters is impossible, before the change is logged.

        ``most`` is the number of examples that a window may hold without components.
        """
        if not edits.of_parameters:
            return
        estimator: Any = self.estimator
        has_columns, change = estimator.columns is not None, edits.change or {}
        if edits.tuned is not None and not self.estimator.tunes_itself:
            raise InvalidInput("the model does not tune itself any more", field="job")
        if edits.rescale and estimator.scale == "none" and not has_columns:
            raise InvalidInput("the model scales nothing; change its scale", field="rescale")
        if "columns" in change and not has_columns:
            raise InvalidInput("is possible only if the model was created with columns", field="change.columns")
        chosen = {} if edits.tuned is None else edits.tuned["parameters"]
        if (change | chosen).get("components", 0) is None and (n := len(self.window.arrivals)) > most:
            reason = f"cannot be null: the window holds {n} examples, and without components at most {most}"
            raise InvalidInput(reason, field="change.components")
        if has_columns and change.get("scale", "none") != "none":
            raise InvalidInput("scales numbers only; columns have encodings", field="change.scale")
        if isinstance(estimator, LiveSVR):
            if "target_scale" in change:
                estimator.check_target_scale(change["target_scale"], "change.target_scale")
            if edits.tuned is not None:
                estimator.check_target_scale(edits.tuned["parameters"].get("target_scale", "none"), "job")
        if self._is_solved_again(edits) and self.is_fitted and not self.window.arrivals:
            raise InvalidInput("the window is empty: there is nothing to solve for", field="body")
        if edits.rescale and not self.is_fitted:
            raise InvalidInput("the model knows no example yet", field="rescale")

    def _checked(self, command: Command) -> Command:
        """Return the command after the checks of its examples that are possible before the solve.

        Raises InvalidInput, before the command is logged, for numbers that are too large for a solve in double
        precision.
        """
        add, edits = command.add, command.edits or NO_EDITS
        C = None if command.edits is None else edits.new_C
        if add is not None and not edits.relabel and not isinstance(self.estimator, LiveL2SVC):
            return replace(command, add=replace(add, checked=self.estimator.checked(command)))
        X, weights = (None, None) if add is None else (add.X, add.weights)
        if not (add is None and C is None and not edits.reweight):
            self.estimator.check_scale(X, weights, reweight=edits.reweight, C=C)
        return command

    def apply_together(self, commands: Sequence[Command], net: Command) -> None:
        """Apply the command ``net`` along one path; its result is the same as that of all ``commands`` in order.

        After SolverError the model is unchanged.
        """
        outcome, scored, record = Outcome(self.sizes), self._scored(commands), self._record_with(commands)
        if net.add is not None or net.remove:
            outcome = follow(self.estimator, net)
        self.estimator._record = record
        for command in commands:
            self._done(command, outcome)
        self._watched(commands, scored, outcome)

    @property
    def is_convex(self) -> bool:
        """Whether the model has learnt examples, and has an optimum that does not depend on the path to it."""
        return self.is_fitted and self.estimator.is_settled and self.estimator.robustness() is None

    def apply_cold(self, command: Command, *, afresh: bool = False) -> Outcome:
        """Solve from nothing for the same optimum as :meth:`apply`; after SolverError the model is unchanged.

        With ``afresh``, the examples that stay in the window, not the model's first examples, decide classes and
        scales.
        """
        if not task_of(self.spec).is_exact:
            return self.apply(command)
        edits, scored, record = command.edits or NO_EDITS, self._scored([command]), self._record_with([command])
        before = self.estimator
        is_again = edits.tuned is not None or (before.columns is not None and self._is_solved_again(edits))
        # Landmarks that are chosen again as the window grows depend on the updates in between, and kept ones do not.
        is_again |= before.components_ is not None and not before.is_settled and not afresh
        if is_again and self.is_fitted:
            return self.apply(command)  # it solves from nothing, too
        given = ({} if edits.C is None else {"C": edits.C}) | edits.parameters
        changed = (self._given if afresh else self.changed) | self.estimator.fixed_by(given) | given
        window = window_after(self.estimator if self.is_fitted else None, command, edits)
        if afresh and before.components_ is None:
            first, scale = self._of_those(window)
        else:  # landmarks are chosen from the window that is learnt
            first, scale = ({}, None) if afresh else self._of_first_data(edits)
            if afresh and before.columns is not None:
                columns = self._columns_before_choice.only_in(window.X)
                window = replace(window, X=Codes.of(window.X, columns))
        estimator = new_estimator(self.spec, self.cache_mb, **changed | first)
        if self.estimator.chosen_ and not afresh:
            estimator.chosen_ = self.estimator.chosen_
        came = window.X
        if isinstance(scale, TableEncoding | Nystroem) and scale.columns is not None:
            known = replace(scale.columns, words=(came.table or scale.columns).words)
            scale = scale.with_columns(known.only_in(came))
        if scale is not None:
            window = replace(window, X=scale.apply(came))
            estimator.is_mapped = isinstance(scale, Nystroem)
        if isinstance(self.estimator, ServedClassifier) and window.y is not None:
            self.estimator.successor(estimator, window.y, afresh=afresh)
        if isinstance(estimator, LivePUClassifier) and not afresh:
            estimator.keep_estimate_of(self.estimator, {*(edits.change or {})})
        is_many = afresh and not estimator._shares_costs and before.components_ is None
        outcome = learnt(estimator, window, PART if is_many else len(window.X))
        robust = edits.robust or self._robust(edits)
        if robust is not None:
            outcome = follow(estimator, Change(edits=Edits(robust=robust).only(window.keys or [])))
        if first:
            on_scale: dict[str, Any] = {} if scale is None else {**scale.to_arrays(), "X": np.asarray(came)}
            arrays = estimator.to_arrays() | on_scale
            estimator = restored_estimator(self.spec, self.cache_mb, arrays, **changed)
        estimator._record, self.estimator = record, estimator
        self._done(command, outcome)
        return self._watched([command], scored, outcome)

    @staticmethod
    def _is_solved_again(edits: Edits | None) -> bool:
        """Return whether the edits change the problem so that it must be solved from nothing."""
        return edits is not None and (
            edits.rescale or any(name in (*SOLVED_AGAIN, TUNED) for name in edits.change or {})
        )

    def _of_first_data(self, edits: Edits) -> tuple[dict[str, Any], FeatureScale | TableEncoding | Nystroem | None]:
        """Return the parameters and the scale that the first examples decided; empty if the edits renew both."""
        is_open = not (self.is_fitted and self.estimator.is_settled)
        if is_open or self._is_solved_again(edits):
            return {}, None
        return {"gamma": self.estimator.gamma_, **self._unscaled}, self.estimator.feature_scale_

    def _of_those(self, window: Batch) -> tuple[dict[str, Any], FeatureScale | TableEncoding | Nystroem | None]:
        """Return the parameters and the scale of features that the examples of ``window`` alone would decide."""
        model: Any = self.estimator
        weights = np.ones(len(window.X)) if window.weights is None else window.weights
        X = window.X
        scale: FeatureScale | TableEncoding | Nystroem | None = None
        if model.columns is not None:
            scale = encoding.fitted(self._columns_before_choice, X, weights)
        elif self._unscaled and not isinstance(X, SparseRows):
            scale = feature_scale.fitted(model.scale, X, weights)
        if scale is not None:
            X = scale.apply(X)
        return {"gamma": self._gamma_of(X, weights), **self._unscaled}, scale

    @property
    def _columns_before_choice(self) -> TableColumns:
        """The columns of the table as they were before the model chose its parameters."""
        model = self.estimator
        if not model.chosen_:
            return model.columns_
        given = default_columns(model.columns_) if model.columns == "auto" else table_columns.given(model.columns)
        return replace(given, words=model.columns_.words)

    def _gamma_of(self, X: Any, weights: Vector) -> Any:
        """Return the gamma of the specification; if it depends on examples, it is computed for scaled examples."""
        model: Any = self.estimator
        return scaling.gamma(X, weights, model.kernel) if model.gamma == "scale" else model.gamma

    @property
    def _has_fitted_gamma(self) -> bool:
        """Whether gamma was computed from the model's first examples."""
        model: Any = self.estimator
        return task_of(self.spec).is_exact and model.gamma == "scale" and model.kernel != "linear"

    @property
    def _unscaled(self) -> dict[str, Any]:
        """Parameters for an estimator that gets features already scaled and mapped; empty if it could not scale."""
        if "scale" not in self._made:
            return {}
        mapped = {} if self.estimator.components_ is None else {"kernel": "linear", "components": None}
        return {"scale": "none", "columns": None, **mapped}

    def _robust(self, edits: Edits) -> Robustness | None:
        """Return the settings of the model's robust losses, without the outliers that ``edits`` gives new labels."""
        robust = self.estimator.robustness() if self.is_fitted else None
        if robust is None:
            return None
        kept = {key: side for key, side in robust.outliers.items() if key not in edits.relabel}
        return replace(robust, outliers=kept)

    def _settled(self, update: Change, edits: Edits) -> Change:
        """Put theta = 1 and the present s into an update to convex losses; raises InvalidInput if losses are convex."""
        if edits.robust != CONVEX:
            return update
        now = self.estimator.robustness() if self.is_fitted else None
        robust = None if now is None else Robustness(1.0, now.s)
        settled = replace(update, edits=replace(edits, robust=robust))
        if settled == Change(edits=NO_EDITS):
            raise InvalidInput("the model is not robust: its losses are convex already", field="robust")
        return settled

    def certificate(self) -> dict[str, Any]:
        """Return the certificate of the model's optimality, recomputed from its window, which must not be empty."""
        return {"version": self.version, **proof_of(self.estimator)}

    @property
    def is_fitted(self) -> bool:
        """Whether the model has learnt an example."""
        return hasattr(self.estimator, "gamma_")

    def calibration(self) -> Calibration | HeldOut:
        """Return the probability calibration of the model; raises InvalidInput if a class has fewer than 2 examples."""
        if isinstance(self.estimator, LivePUClassifier):
            return self.estimator.held_out()
        from livesvm.solvers.estimators.probabilities import METHODS, calibrated  # imports scikit-learn

        return calibrated(self.estimator, METHODS[self.spec.probability])

    def forget(self, keys: list[Key], *, is_trained_on: bool = False) -> Outcome | None:
        """Erase these keys, in the window or remembered; parameters and result are those of :meth:`_without`."""
        outcome = self._without([key for key in keys if key in self.window.arrivals], is_trained_on)
        self.window.forget(keys)
        return outcome

    @property
    def basis(self) -> tuple[Any, ...]:
        """The present parameters, by which a choice of parameters that began with other parameters is recognized."""
        return self.estimator.tunes_itself, self.changed, dict(self.estimator.chosen_), self.parameters.get("columns")

    @property
    def encoding_due(self) -> bool:
        """Whether the encoding of columns was fitted to few rows, and the window has twice as many rows by now."""
        n = self.tuning.fitted
        return self.estimator.columns is not None and 0 < n < LEAST and len(self.window.arrivals) >= 2 * n

    def tuning_due(self, share: float) -> str | None:
        """Return the reason why a choice of parameters is due, see :meth:`TuningSchedule.due`; None if none is due."""
        if not (self.estimator.tunes_itself and self.is_fitted):
            return None
        raised = None if self.watch is None else self.watch.raised or self.watch.alarm
        alarm = None if raised is None else int(raised["version"])
        return self.tuning.due(len(self.window.arrivals), self.spec.window.max_examples, alarm, share)

    def _tune_afresh(self, outcome: Outcome) -> Outcome:
        """Choose parameters by the examples in the window alone, and forget all earlier choices."""
        self.tuning = TuningSchedule(fitted=len(self.window.arrivals) if self.estimator.columns is not None else 0)
        if not (self.estimator.tunes_itself and self.is_fitted and self.window.arrivals):
            return outcome
        estimator: Any = self.estimator
        try:
            found = chosen(choose(estimator), "erased", is_first=True)
            report = estimator.adopt(found["parameters"])
        except (SolverError, NotSolved):  # too few are left to choose by, or there is no time: it is done later
            return outcome
        self.sizes = Outcome.of(report).sizes
        self.tuning.take(found, self.version, self.updated_at)
        return replace(outcome, sizes=self.sizes, seconds=outcome.seconds + float(report.seconds))

    def _without(self, keys: list[Key], is_trained_on: bool) -> Outcome | None:
        """Remove examples from the model, as a new version; return None if nothing changes.

        If a class, the scale or gamma depends on the removed examples, the model learns the remaining examples from
        nothing. If only jobs train the model, a solution that may have used the examples is removed. The model is then
        trained again on its window, or ``owed`` says that a job has to train it. After SolverError the model is
        unchanged. The drift test and the record of predictions begin again, as their scores may include the removed
        examples.

        Parameters
        ----------
        keys : keys of the window
        is_trained_on : whether the last training used other erased data, such as rows of a dataset
        """
        if self.watch is not None:
            self.watch.begin()
        self.estimator._record = None
        if isinstance(self.estimator, LiveL2SVC):
            return self._retrain_without(self.estimator, keys, is_trained_on)
        afresh = self._holds_of_others(keys) or self.tuning.last is not None
        if not keys and not afresh:
            return None
        command = Command(remove=keys, arrived=time.time(), next_key=self.window.next_key)
        if afresh:
            return self._tune_afresh(self._learn_again(command))
        try:
            return self.apply(command)
        except SolverError:
            return self.apply_cold(command)

    @property
    def trained_on(self) -> TrainedOn | None:
        """The data of the last training, for a model that only jobs train; None without such a training."""
        found = self.estimator.trained_on if isinstance(self.estimator, LiveL2SVC) else None
        return None if found is None else TrainedOn.of(*found)

    def is_retrained_without(self, keys: list[Key], *, is_trained_on: bool) -> bool:
        """Return whether erasing these keys removes the last training; the parameters are those of :meth:`forget`."""
        training = self.trained_on
        if training is None or is_trained_on:
            return training is not None
        return training.dataset is None and any(key in self.window.arrivals for key in keys)

    def _retrain_without(self, model: LiveL2SVC, keys: list[Key], is_trained_on: bool) -> Outcome | None:
        """Remove these examples from a large window, and retrain if the last training may have used these examples."""
        training, is_to_go = self.trained_on, self.is_retrained_without(keys, is_trained_on=is_trained_on)
        if not keys and not is_to_go:
            return None
        outcome = self.apply(Command(remove=keys, arrived=time.time(), next_key=self.window.next_key))
        if training is not None and is_to_go:
            model.forget_training()
            self.sizes = Sizes(outcome.sizes.n_examples)
            began = time.perf_counter()
            self.owed = self._retrained_by(model, training)
            outcome = replace(outcome, sizes=self.sizes, seconds=outcome.seconds + time.perf_counter() - began)
        model.forget_labels()
        self.look(afresh=True)
        return outcome

    def _retrained_by(self, model: LiveL2SVC, training: TrainedOn) -> Owed | None:
        """Retrain on the window with the same settings; if that fails, or needs a job, return the owed retraining."""
        variant, tol = "auto" if training.solver == "blocks" else training.solver, training.tol or GAP
        asked = {"solver": variant, "tol": tol}
        if training.dataset is not None:
            name = training.dataset["name"]
            reason = f"its training on dataset {name} held rows that were erased"
            return Owed(reason, asked | {"dataset": name})
        try:
            found = model.retrain(variant, tol)
        except (SolverError, NotSolved) as error:
            return Owed(f"its training held examples that were erased, and on the rest there is none: {error}", asked)
        now = replace(training, is_known=True, tol=tol, tags=self.window.tags)
        model.keep_origin(now.origin((model.trained_on or ((), None))[0]))
        gap = found.relative_gap
        self.sizes = Sizes(len(model.keys_), int(model.predictor().n_support), 0, 0.5 * gap, gap)
        return None

    def _holds_of_others(self, keys: list[Key]) -> bool:
        """Return whether a class, the scale, gamma or prior depends on ``keys``, or on examples outside the window."""
        if not self.is_fitted:
            return False
        gone, model = set(keys), self.estimator
        stay = np.array([key not in gone for key in model.keys_], dtype=bool)
        scale: FeatureScale | TableEncoding | Nystroem | None = model.feature_scale_
        if scale is not None and not scale.is_of(model.window_features[stay], model.window_sample_weight[stay]):
            return True
        if scale is None and self._has_fitted_gamma:
            rows, weights = model.window_features[stay], model.window_sample_weight[stay]
            if not len(rows) or not math.isclose(model.gamma_, self._gamma_of(rows, weights), rel_tol=1e-12):
                return True
        if isinstance(model, LivePUClassifier) and model.has_estimates:
            return bool(gone)
        return isinstance(model, Served) and not model.knows_only(model.window_y[stay])

    def _learn_again(self, command: Command) -> Outcome:
        """Learn from nothing the examples that remain after a command; after SolverError the model is unchanged."""
        if len(command.remove) < len(self.window.arrivals):
            outcome = self.apply_cold(command, afresh=True)
        else:
            self.estimator = new_estimator(self.spec, self.cache_mb, **self._given)
            outcome = Outcome(Sizes())
            self._done(command, outcome)
        return self._with_news(outcome, afresh=True)

    def become(self, found: ModelState, at: float | None) -> Outcome:
        """Replace the contents by those of another state, as the next version; ``at`` is this version's Unix time."""
        self.estimator, self.window, self.sizes, self.owed = found.estimator, found.window, found.sizes, found.owed
        self.tuning = found.tuning
        self.version += 1
        self.sequence += 1
        self.updated_at = at
        self.look(afresh=True)
        if self.watch is not None:
            self.watch.begin()
        return Outcome(self.sizes)

    def skip(self) -> None:
        """Advance past an aborted log record, which has no effect."""
        self.sequence += 1

    def _done(self, command: Command, outcome: Outcome) -> None:
        self.window.apply(command, self.spec.window.n_remembered)
        self._until_look -= len(command.added)
        if self.estimator.tunes_itself:
            self.tuning.came(len(command.added))
        self.sizes = outcome.sizes
        self.version += 1
        self.sequence += 1
        self.updated_at = command.arrived
        n = len(self.window.arrivals)
        if self.estimator.columns is not None and (not self.tuning.fitted or self._is_solved_again(command.edits)):
            self.tuning.fitted = n
        if command.edits is not None and (tuned := command.edits.tuned) is not None:
            self.tuning.take(tuned, self.version, command.arrived)

    def copy(self) -> ModelCopy:
        """Return a copy that shares no memory with the model; a model with an exact task must have examples."""
        window = self.window.copy()
        arrays = self.estimator.to_arrays()
        watched = None if self.watch is None else self.watch.report()
        return ModelCopy(self.spec, self.version, self.cache_mb, self.changed, arrays, window, self.sizes, watched)

    def _check_labels(self, update: Change, most: int) -> None:
        """Raise InvalidInput if an update's labels are not of the known kind, or lead to more than ``most`` classes.

        For a regression, corrected targets must be on the scale of the targets.
        """
        if isinstance(self.estimator, LiveSVR) and update.edits is not None and update.edits.relabel:
            self.estimator.check_targets(np.array(list(update.edits.relabel.values())), "relabel.y")
        if not isinstance(self.estimator, Served):
            return
        relabelled = list(update.edits.relabel.values()) if update.edits is not None else []
        come = [] if update.add is None or update.add.y is None else [(update.add.y, "y")]
        for labels, name in come + ([(np.array(relabelled), "relabel.y")] if relabelled else []):
            self.estimator.check_classes(labels, most, name)

    def bytes_with(self, add: Batch | None) -> int:
        """Return the bytes of memory for the model after an update, with its caches and the added examples.

        Examples that the update removes are not subtracted, because others are added before they are removed.
        """
        n, n_free, row_bytes, known = self.sizes.n_examples, self.sizes.n_free, self.row_bytes, {*(self.labels or ())}
        if add is not None:
            known |= {*add.y.tolist()} if add.y is not None and isinstance(self.estimator, Served) else set()
            row_bytes, n = (row_bytes * n + add.X.nbytes) / (n + len(add.X)), n + len(add.X)
            n_free += len(add.X) * max(1, len(known) - 1)
        cache_mb = 0 if isinstance(self.estimator, LiveL2SVC) else self.cache_mb
        return self.window.left_bytes + model_bytes(n, row_bytes, n_free, cache_mb, len(known))

    def meets(self, command: Command) -> bool:
        """Return whether a command adds an example of a class that the model does not know yet."""
        known = self.labels
        if known is None or command.add is None or command.add.y is None:
            return False
        return not {*command.add.y.tolist()} <= {*known}

    @property
    def labels(self) -> list[Any] | None:
        """The classes that the model knows; None for a task without classes."""
        estimator: Any = self.estimator
        if not isinstance(estimator, Served):
            return None
        found = estimator.labels_ if isinstance(estimator, LiveL2SVC) else vars(estimator).get("classes_", np.empty(0))
        labels: list[Any] = found.tolist()
        return labels

    @property
    def can_predict(self) -> bool:
        """Whether the model can predict."""
        return self.estimator.is_trained

    @property
    def C(self) -> float | None:
        """The present C; None if the task has no C, or if C is not known yet."""
        C = float(self.estimator.C_) if TASKS[self.spec.task].has_cost else math.nan
        return None if math.isnan(C) else C

    @property
    def changed(self) -> dict[str, Any]:
        """Parameters that an update or a retraining may have changed since the model was created."""
        made = self._made
        now = {name: getattr(self.estimator, name) for name in (*KERNEL_PARAMETERS, *CHANGEABLE) if name in made}
        C = None if "lam" in made else "auto" if self.estimator.tunes_itself else self.C
        return ({} if C is None else {"C": C}) | {k: v for k, v in now.items() if v != made[k]}

    @property
    def _given(self) -> dict[str, Any]:
        """The changed parameters, except parameters that the model chose by its examples."""
        last = self.tuning.last
        found = {} if last is None else last["parameters"]
        return {name: value for name, value in self.changed.items() if name in ("C", "lam") or value != found.get(name)}

    @cached_property
    def _made(self) -> dict[str, Any]:
        """The parameters with which the estimator was created."""
        return parameters(self.spec, self.cache_mb)

    def published(self) -> Published:
        """Return the present version for readers.

        For robust losses, the version includes theta, s and the number of outliers.
        """
        self.look()
        model: Any = self.estimator
        predictor = model.predictor() if model.is_trained else None
        is_served = isinstance(model, Served)
        is_sum = predictor is not None and (predictor.kernel.is_projected or predictor.n_support == 1)
        robust = model.robust_ and model.robustness()
        outliers = robust and {"theta": robust.theta, "s": robust.s, "n_outliers": len(robust.outliers)}
        kernel = {"name": model.kernel, "gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
        return Published(
            version=self.version,
            sizes=self.sizes,
            warnings=self.warnings,
            updated_at=self.updated_at,
            n_features=self.window.n_features,
            is_sparse=bool(self.window.is_sparse),
            row_bytes=self.row_bytes,
            gamma=self.gamma,
            parameters=self.parameters,
            C=self.C,
            tuning=self.tuning.shown() if self.estimator.tunes_itself else None,
            drift=None if self.watch is None else self.watch.shown(),
            kernel=kernel,
            robust=outliers,
            record=model._record,
            can_predict=predictor is not None,
            predictor=predictor,
            n_support=self.sizes.n_free + self.sizes.n_bound if is_sum else getattr(predictor, "n_support", 0),
            counts=model.counts if is_served else None,
            classes=getattr(model, "classes_", None) if is_served else None,
            shape=self.spec.decision_function_shape,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The present parameters of the task, except C and the kernel's."""
        model = self.estimator
        now = {name: getattr(model, name) for name in CHANGEABLE if name in self._made}
        if isinstance(model, LiveSVR):
            now |= {name: getattr(model, f"{name}_") for name in ("epsilon", "target_scale") if name in now}
        if now.get("components") is not None:
            now["components"] = model.components_
        if model.columns is not None and (known := getattr(model, "columns_", None)) is not None:
            now["columns"] = known.documents()
        if not isinstance(model, LivePUClassifier):
            return now
        estimate = getattr(model, "prior_estimate_", None)
        reported = None if estimate is None else dataclasses.asdict(estimate)
        prior = reported["prior"] if reported else model.prior
        lam = model.lam if math.isnan(model.lam_) else model.lam_
        return now | {"lam": lam, "prior": prior, "prior_estimate": reported}

    @property
    def gamma(self) -> float | None:
        """The kernel coefficient gamma; None if the kernel has no gamma, or if no examples have decided gamma yet."""
        if not self.is_fitted or self.estimator.kernel == "linear":
            return None
        return float(self.estimator.gamma_)

    @property
    def row_bytes(self) -> float:
        """The bytes of one example's features, on average if the features are sparse."""
        scale: FeatureScale | TableEncoding | Nystroem | None = self.estimator.feature_scale_
        if scale is not None:
            n_features = scale.places.size if isinstance(scale, TableEncoding) else scale.width
            n_features = self.estimator.components_ or n_features
            return 8.0 * (scale.width + n_features)  # as they came, and on the scale
        if not (self.window.is_sparse and self.is_fitted):
            return 8.0 * (self.window.n_features or 0)
        n = len(self.window.arrivals)
        return self.estimator.window_features.nbytes / n if n else 0.0

    def cool(self) -> int:
        """Free caches such as kernel rows, which the next update rebuilds; return the bytes that are still held."""
        self.estimator.cool()
        return self.held_bytes

    @property
    def hot_bytes(self) -> int:
        """The bytes that :meth:`cool` would free now."""
        return self.estimator.hot_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes of all arrays and tables that the model holds, including the caches that :meth:`cool` frees."""
        watched = 0 if self.watch is None else self.watch.held_bytes
        return self.estimator.held_bytes + self.window.held_bytes + watched

    def prepare(self) -> None:
        """Compute in advance the arrays that the first update needs, but predictions do not need."""
        if self.is_fitted:
            self.estimator.prepare()

    def document(self) -> dict[str, Any]:
        """Return the contents of a snapshot."""
        return {
            "version": self.version,
            "sequence": self.sequence,
            "sizes": dataclasses.asdict(self.sizes),
            "keys": list(self.window.arrivals),
            "arrived": np.array(list(self.window.arrivals.values()), dtype=np.float64),
            "n_features": self.window.n_features,
            "is_sparse": self.window.is_sparse,
            "next_key": self.window.next_key,
            "changed": self.changed,
            "updated_at": self.updated_at,
            "arrays": self.estimator.to_arrays() if self.is_fitted else None,
            **({"tags": self.window.tags} if self.window.tags else {}),
            **({} if self.owed is None else {"owed": dataclasses.asdict(self.owed)}),
            **({"left": list(self.window.left)} if self.window.left else {}),
            **({"is_numbered": True} if self.window.is_numbered else {}),
            **({"tuning": vars(self.tuning)} if self.tuning != TuningSchedule() else {}),
            **({} if self._is_watched_as_made else {"watch": self.watch and self.watch.to_document()}),
        }

    @property
    def _is_watched_as_made(self) -> bool:
        """Whether the model has no drift test now, and had none when it was created."""
        return self.watch is None and self.spec.drift_alarms is None

    def encode(self) -> bytes:
        """Encode the model as a snapshot."""
        return codec.encode(self.document())

    @classmethod
    def decode(cls, spec: ModelSpec, cache_mb: int, data: bytes) -> ModelState:
        """Decode the model in a snapshot; raises StoreDamaged, StoreTooNew, or MemoryLimit if it needs more cache."""
        return cls.of(spec, cache_mb, codec.decode(data))

    @classmethod
    def of(cls, spec: ModelSpec, cache_mb: int, document: dict[str, Any]) -> ModelState:
        """Return the model in a decoded snapshot; raises StoreDamaged, or MemoryLimit if the cache is too small."""
        arrivals = dict(zip(document["keys"], document["arrived"].tolist(), strict=True))
        updated_at = document["updated_at"]
        latest = -math.inf if updated_at is None else updated_at
        tags = {key: tuple(found) for key, found in document.get("tags", {}).items()}
        window = Window(arrivals, document["n_features"], document["next_key"], document["is_sparse"], latest, tags)
        window.left = dict.fromkeys(document.get("left", ()))
        numbered = (key >= window.next_key for key in arrivals if not isinstance(key, str))  # before that was kept
        window.is_numbered = document.get("is_numbered", False) or any(numbered)
        try:
            arrays, changed = document["arrays"], document["changed"]
            if arrays is None:
                estimator = new_estimator(spec, cache_mb, **changed)
            else:
                estimator = restored_estimator(spec, cache_mb, arrays, **changed)
        except MemoryLimit:
            raise
        except SolverError as error:
            raise StoreDamaged(f"the snapshot does not hold an optimal model: {error}") from error
        sizes = Sizes(**document["sizes"])
        version, sequence = document["version"], document["sequence"]
        watch = None if spec.drift_alarms is None else Watch(spec.drift_alarms)
        if "watch" in document:
            watch = None if document["watch"] is None else Watch.from_document(document["watch"])
        owed = Owed(**document["owed"]) if "owed" in document else None
        tuning = TuningSchedule(**document.get("tuning", {}))
        return cls(spec, cache_mb, estimator, window, sizes, version, sequence, updated_at, watch, tuning, owed)
