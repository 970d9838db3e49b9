"""The live classifier for any labels and any number of classes: one problem for each pair of classes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.paths import WithPaths
from livesvm.solvers.models.base import KERNEL_PARAMETERS, keep
from livesvm.solvers.models.change import Change
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.class_labels import (
    column_of,
    exact_labels,
    joined,
    labels_with,
    places_of,
    several_labels,
    targets_of,
)
from livesvm.solvers.models.pairs_predictor import scores, winners
from livesvm.solvers.models.path_problem import ExampleUpdate
from livesvm.solvers.models.record import Record
from livesvm.solvers.models.repeats import OnRepeat
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.piecewise_linear import Losses, hinge
from livesvm.solvers.robust.ramp_losses import LABELS, CutoffRule
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.validation import Key


class LiveSVC(WithPaths):
    """A support vector classifier of two or more classes that stays exactly optimal while examples come and go.

    Two classes are one problem: the model minimizes ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i f(x_i))`` over the
    window. An update adds and removes many examples along one path [Karasuyama & Takeuchi, eqs. 3-4]. With more
    classes, every pair of classes is one problem [Hsu & Lin, one-against-one]. All pairs share one window, which stores
    features once. An update changes all pairs that it concerns, or none. Labels may be of any one type, and an update
    may bring new labels.

    Parameters
    ----------
    C : float or "auto", default 1
        Weight of the losses, in (0, 1e100]; infinite for a hard margin, which is 1e10. "auto": the model chooses it by
        its window, gamma too where that is "auto", and how columns are encoded and count; see ``choice_``.
    kernel, gamma, degree, coef0, class_weight, fit_intercept : as in ``IncrementalSVC``
    cache_mb, scale, columns, components : as in ``IncrementalSVC``
    classes : array_like or None, default None
        The labels that there may be; learned from the data by default, and then others may still come.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        One score for each class, (m, n_classes), or one decision for each pair.
    break_ties : bool, default False
        Whether classes with as many votes are distinguished by their decisions, and not by their order.
    n_jobs : int or None, default None
        Threads that may update pairs at once, -1: one for each core; None: as many as the process allows now.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, keys_, n_window_ : as in ``IncrementalSVC``
    classes_ : ndarray, shape (n_classes,)
        The labels, ascending; two that were given, (negative, positive).

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC
    >>> model = IncrementalSVC(C=10.0, gamma=0.5).fit([[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> report = model.update(add=([[2.0]], [1]), remove=[0])
    >>> report.added, report.removed, report.n
    ((4,), (0,), 4)
    """

    class_weight: Mapping[Any, float] | str | None
    classes: Any
    decision_function_shape: str
    break_ties: bool
    n_jobs: int | None
    _loss_parameters = ("C", "class_weight")
    balance_: dict[float, float]  #: with "balanced" classes, the weight of each target's

    def __init__(
        self,
        C: float | str = 1.0,
        kernel: Any = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Mapping[Any, float] | str | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        cache_mb: float = 512,
        scale: str = "none",
        columns: Any = None,
        components: int | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        probability: bool | str = False,
        n_jobs: int | None = None,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def pairs_(self) -> list[tuple[Any, Any]]:
        """The labels of every pair of classes, in the order of its decisions."""
        self._learnt  # noqa: B018 - it raises
        return list(combinations(self.classes_.tolist(), 2))

    @taking_rows(
        """
        ndarray, shape (m,), (m, n_classes) or (m, n_pairs)
            Decisions, in units of f; positive for ``classes_[1]`` of two classes.
        """
    )
    def decision_function(self, X: Any) -> Floats:
        """Return decisions.

        For two classes the decisions are f(x), positive for ``classes_[1]``. For more classes,
        ``decision_function_shape`` selects scores of the classes, or decisions of the pairs. The score of a class is
        the number of its votes, plus less than a third for its margins. The decision of a pair is positive for the
        pair's first class.
        """
        decisions = self._decision(X)
        if not self._has_several():
            return decisions
        if self.decision_function_shape not in ("ovr", "ovo"):
            reason = f"must be 'ovr' or 'ovo', not {self.decision_function_shape!r}"
            raise InvalidInput(reason, field="decision_function_shape")
        return decisions if self.decision_function_shape == "ovo" else scores(decisions, self.classes_.size)

    @taking_rows("ndarray, shape (m,)\n    Labels.")
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row: the class that wins most pairs, or the first of several such classes."""
        if self.break_ties and self.decision_function_shape == "ovo" and self._has_several():
            raise InvalidInput("must be False when decision_function_shape is 'ovo'", field="break_ties")
        decisions, n = self._decision(X), self.classes_.size
        if not self._has_several():
            return self.classes_[self._places_of(decisions)]
        return self.classes_[scores(decisions, n).argmax(axis=1) if self.break_ties else winners(decisions, n)]

    def certificate_of(self, first: Any, second: Any) -> Any:
        """Return the certificate of the pair of two labels.

        Parameters
        ----------
        first, second : label
            Two of ``classes_``.

        Returns
        -------
        Certificate
            That of their pair.

        Raises
        ------
        InvalidInput
            They are not two of the classes.
        """
        self._learnt  # noqa: B018 - it raises
        labels = self.classes_.tolist()
        if first not in labels or second not in labels or first == second:
            raise InvalidInput(f"{first!r} and {second!r} are not two of the classes", field="classes")
        if not self._has_several():
            return self.certificate()
        a, b = sorted((labels.index(first), labels.index(second)))
        return self._window.pairs[a, b].certificate()

    def _has_several(self) -> bool:
        return "_window" in vars(self) and self._window.shared is not None

    @property
    def support_(self) -> NDArray[np.int32]:
        """Positions in the window of the examples with a nonzero coefficient, (n_support,), by class, oldest first."""
        places = np.flatnonzero(np.atleast_2d(self._learnt.beta).any(axis=0))
        return places[np.argsort(self._learnt.y[places], kind="stable")].astype(np.int32)

    @property
    def n_support_(self) -> NDArray[np.int32]:
        """How many support vectors each class has, (n_classes,)."""
        places = self._places_of(self._learnt.y[self.support_])
        return np.bincount(places, minlength=self.classes_.size).astype(np.int32)

    @property
    def counts(self) -> dict[Any, int]:
        """The number of the window's examples of each class, by label."""
        if not hasattr(self, "classes_"):
            return {}
        counts = np.bincount(self._places_of(self._window.y), minlength=self.classes_.size)
        return dict(zip(self.classes_.tolist(), counts.tolist(), strict=True))

    def _places_of(self, targets: Floats) -> Ints:
        """Return the index in ``classes_`` of each target's class; for two classes, decisions are accepted too."""
        n = self.classes_.size
        return targets.astype(np.int64) if self._has_several() else np.where(targets > 0, n - 1, 0)

    def _cutoff_rule(self, s: float | None = None) -> CutoffRule:
        if self._has_several():
            raise InvalidInput(f"a robust model is of two classes, not of {self.classes_.size}", field="robust")
        if s is not None and s > 0:
            raise InvalidInput(f"a margin beyond which labels are wrong is not positive, but s is {s:g}", field="s")
        return LABELS

    def _of_pair(self, two: tuple[int, int], arrays: Mapping[str, Any], *, alone: bool) -> LiveSVC:
        """Return the model of two classes, given as indices into ``classes_``; ``arrays`` are those of the whole model.

        With ``alone`` the window of this model holds only the examples of the two classes. Otherwise the window holds
        all examples, and those of other classes have no weight.
        """
        window, arrays = self._window, dict(arrays)
        y = window.y.astype(np.int64)
        is_here = np.isin(y, two)
        beta, segments = np.zeros(y.size), np.zeros(y.size, np.int64)
        beta[is_here], segments[is_here] = window.standing_of(two, is_here)
        labels = self.classes_[list(two)]
        arrays |= {
            "y": np.where(y == two[1], 1.0, -1.0),
            "sample_weight": window.weights * is_here * self._class_weights(window.y),
            "beta": beta,
            "segments": segments,
            "classes": labels,
            "intercept": window.pairs[two].intercept,
        }
        if alone:
            here = np.flatnonzero(is_here)
            for name in ("X", "y", "sample_weight", "sides", "beta", "segments"):
                arrays[name] = arrays[name][here]
            for name in {"keys", "objects"} & arrays.keys():
                arrays[name] = [arrays[name][i] for i in here.tolist()]
            if window.kernel.gram is not None:
                arrays["X"] = arrays["X"][:, here]
        parameters = {name: getattr(self, name) for name in KERNEL_PARAMETERS}
        parameters |= {"C": self.C_, "gamma": window.kernel.gamma}
        cache_mb = self.cache_mb / len(window.pairs) if alone else self.cache_mb
        return LiveSVC.from_arrays(parameters | {"classes": tuple(labels.tolist()), "cache_mb": cache_mb}, arrays)

    # -- record --------------------------------------------------------------------------------------------------------

    def _begin_record(self) -> None:
        self._record = self._record or Record(None)
        self._record.window = dict(Counter(self.window_y.tolist()))

    def _note(self, report: UpdateReport, judged: ExampleUpdate | None) -> None:
        if judged is not None and self._record is not None:
            given, window = judged.y.tolist(), self._window
            self._record = self._record.judged(window.unlearnt, given, window.left, self.classes_)

    def _foretold(self, X: Any) -> list[Any]:
        decisions = self.predictor().decision_function(X)
        places = winners(decisions, self.classes_.size) if self._has_several() else self._places_of(decisions)
        labels: list[Any] = self.classes_[places].tolist()
        return labels

    # -- labels --------------------------------------------------------------------------------------------------------

    def partial_fit(  # type: ignore[override]
        self,
        X: Any,
        y: ArrayLike,
        classes: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        keys: Iterable[Key] | None = None,
        on_repeat: OnRepeat = "refuse",
    ) -> Any:
        before = vars(self).copy()
        if classes is not None and not hasattr(self, "classes_"):
            self._set_classes(several_labels(classes))
        try:
            self.update((X, y), keys=keys, sample_weight=sample_weight, on_repeat=on_repeat)
        except BaseException:
            self._take_back(before)
            raise
        return self

    partial_fit.__doc__ = (ChangingEstimator.partial_fit.__doc__ or "").replace(
        "        sample_weight :",
        """        classes : array_like or None, default None
            Fixes the labels on the first call; others may still come later.
        sample_weight :""",
        1,
    )

    @property
    def window_y(self) -> NDArray[Any]:
        """Labels of the window, (n,), oldest first."""
        return self.classes_[self._places_of(self._learnt.y)]

    def _make_ready(self, change: Change) -> None:
        if "_window" not in vars(self):  # of a first update the classes are known before there is a window
            return
        given: list[Any] = [] if change.add is None else [change.add.y]
        if change.edits is not None and change.edits.relabel:
            given.append(list(change.edits.relabel.values()))
        self._meet(given)

    def _meet(self, given: list[Any]) -> None:
        """Extend the window to an update's new classes if these exceed two; later checks refuse bad labels."""
        known = self.classes_
        for labels in given:
            try:
                found = np.asarray(labels)
                if found.shape[1:] in ((), (1,)):
                    these = self._known_classes(exact_labels(labels, found.reshape(-1), "y"), "y")
                    known = known if these is known else joined(known, these)
            except (InvalidInput, ValueError, TypeError):
                continue  # refused with its name when labels are read
        if known.size > max(2, self.classes_.size):
            self._set_classes(known)

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        labels = column_of(y, m, field)
        known = self._known_classes(labels, field)
        if hasattr(self, "_window") and known.size > max(2, self.classes_.size):
            known = self.classes_  # nothing is learnt here: an unknown label is an error
        targets = targets_of(labels, known, self._values_of(known), field)
        if known.size < 3 or not hasattr(self, "_window"):
            self._set_classes(known)
        return targets

    def settled_targets(self, y: NDArray[Any] | None, m: int) -> Floats | None:
        if y is None:
            return None
        given, target = y.tolist(), dict(zip(self.classes_.tolist(), self._values_of(self.classes_), strict=True))
        return np.array([*map(target.get, given)], np.float64) if target.keys() >= {*given} else None

    def _known_targets(self, y: ArrayLike | None, m: int) -> Floats:
        return targets_of(column_of(y, m, "y"), self.classes_, self._values_of(self.classes_), "y")

    @staticmethod
    def _values_of(known: NDArray[Any]) -> Iterable[float]:
        """Return the target of each of the ``known`` classes: -1 and 1, or with more classes their indices."""
        return (-1.0, 1.0)[-known.size :] if known.size < 3 else range(known.size)

    def _known_classes(self, labels: NDArray[Any], field: str) -> NDArray[Any]:
        known: NDArray[Any] = vars(self).get("classes_", labels[:0])
        if self.classes is not None:
            is_read = type(self.classes) is tuple and self.classes is vars(self).get("_read_classes")
            if not (known.size and is_read):
                known, self._read_classes = several_labels(self.classes), self.classes
            return known
        return labels_with(known, labels, field)

    def _set_classes(self, known: NDArray[Any]) -> None:
        window = vars(self).get("_window")
        if window is not None and known.size > 2:
            if self.robust_ is not None:
                raise InvalidInput(
                    "a robust model is of two classes; make it convex first, by theta = 1", field="robust"
                )
            if window.n_classes != known.size:
                window.threads = self._threads()
                window.rename(places_of(self.classes_, known), known.size)
        elif window is not None and self._mirrors(known):
            window.flip_signs()  # the class that was alone, and so positive, is now the negative one
        self.classes_ = known

    def _mirrors(self, known: NDArray[Any]) -> bool:
        """Say whether the only class so far, with target 1, is now the first of two ``known`` ones, with target -1."""
        before = vars(self).get("classes_", known)
        return bool(before.size == 1 and known.size == 2 and known[0] == before[0])

    # -- what the engine is given --------------------------------------------------------------------------------------

    def _window_with(self, gamma: float, center: Floats | None = None) -> Window:
        window = super()._window_with(gamma, center)
        window.threads = self._threads() if window.pairs else None
        return window

    def _threads(self) -> int | None:
        if self.n_jobs is None:
            return None
        return os.cpu_count() or 1 if self.n_jobs == -1 else validation.whole(self.n_jobs, "n_jobs")

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        costs = validation.cost(self.C_ if C is None else C) * weights * self._class_weights(targets)
        has_several = vars(self).get("classes_", targets[:0]).size > 2
        return hinge(np.ones(targets.size) if has_several else targets, costs)  # a pair mirrors its first class

    @property
    def _shares_costs(self) -> bool:  # type: ignore[override]
        return isinstance(self.class_weight, str) and self.class_weight == "balanced"

    def _weigh(self, window: Any, change: ExampleUpdate) -> bool:
        stay, _ = window.examples_except([*change.leaving, *change.changing])
        return self._balance(np.concatenate([stay, change.y, change.new_y]))

    def _kinds(self, window: Any) -> Ints:
        return np.asarray(window.y, np.int64)

    def _balance(self, targets: Floats) -> bool:
        """Store the class weights that balance the classes of ``targets``; return whether the weights have changed."""
        values, counts = np.unique(targets, return_counts=True)
        weights = targets.size / (values.size * counts) if values.size else counts
        before = vars(self).get("balance_")
        self.balance_ = dict(zip(values.tolist(), weights.tolist(), strict=True))
        return bool(self.balance_) and before != self.balance_

    def _unit_cost(self, C: float | None) -> float:
        weights, own = self.class_weight, validation.cost(self.C_ if C is None else C)
        if weights is None:
            return own
        if self._shares_costs:
            return own * max(vars(self).get("balance_", {}).values(), default=1.0)
        each = [_weight_of(label, weights) for label in weights] if isinstance(weights, Mapping) else []
        return own * max(each, default=1.0)

    def _class_weights(self, targets: Floats) -> Floats:
        """Return, for each target, the weight of its class."""
        if self.class_weight is None:
            return np.ones(targets.size)
        if self._shares_costs:
            return np.array([self.balance_.get(target, 1.0) for target in targets.tolist()])
        weights = self._weights_by_class()
        if self.classes_.size > 2:
            return weights[targets.astype(np.int64)]
        return np.asarray(np.where(targets > 0, weights[-1], weights[0]), np.float64)

    def _weights_by_class(self) -> Floats:
        """Return the weight of each class in ``class_weight``, (n_classes,); raise InvalidInput if it is bad."""
        if not isinstance(self.class_weight, Mapping):
            raise InvalidInput("must be a mapping from label to weight, or 'balanced'", field="class_weight")
        labels = self.classes_.tolist()
        unknown = [label for label in self.class_weight if label not in labels]
        if len(labels) > 1 and unknown:
            raise InvalidInput(f"names {unknown[0]!r}, which is none of the labels {labels}", field="class_weight")
        return np.array([_weight_of(label, self.class_weight) for label in labels])

    def _error(self, decisions: Floats, targets: Floats) -> float:
        several = self._has_several()
        found = winners(decisions, self.classes_.size) if several else np.where(decisions > 0, 1.0, -1.0)
        return float(np.mean(found != targets))

    def to_arrays(self) -> dict[str, Any]:
        return {**super().to_arrays(), "classes": self.classes_}

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        self.classes_ = np.asarray(arrays["classes"])
        if self._shares_costs:
            self._balance(np.asarray(arrays["y"], np.float64))
        super()._restore(arrays)


def _weight_of(label: Any, weights: Mapping[Any, float]) -> float:
    """Return the weight of a class; raise InvalidInput if it is not valid."""
    weight = validation.number_or_none(weights.get(label, 1.0))
    if weight is None or not 0 <= weight <= validation.LARGEST:
        reason = f"the weight of {label!r} must be a number from 0 to {validation.LARGEST:g}"
        raise InvalidInput(reason, field="class_weight")
    return weight
