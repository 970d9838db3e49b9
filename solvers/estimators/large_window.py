"""A live model with a window too large for the path algorithm: an update does not solve, and the caller retrains it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.estimators.training_data import problems_of, scale_of, solved
from livesvm.solvers.frank_wolfe import one_versus_one
from livesvm.solvers.frank_wolfe.one_versus_one import PairProblem, Training
from livesvm.solvers.frank_wolfe.problem import check_finite
from livesvm.solvers.frank_wolfe.solution import Look, Options, Variant
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.base import LiveEstimator, all_or_nothing, keep
from livesvm.solvers.models.change import NO_EDITS, Change, Edits, batch_from_pair, without_repeats
from livesvm.solvers.models.class_labels import (
    are_among,
    are_equal,
    column_of,
    exact_labels,
    joined,
    labels_after,
    places_of,
)
from livesvm.solvers.models.large_predictor import Trained
from livesvm.solvers.models.pairs_predictor import summary, winners
from livesvm.solvers.models.repeats import OnRepeat
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.sliding_window import SlidingWindow, next_start, proofs, signed_coefficients
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.columns import TableColumns
from livesvm.solvers.tables.encoding import TableEncoding
from livesvm.solvers.validation import Key

NO_WINDOW = "are not learnt by updates here: a model of this task with columns learns from datasets, by retrain"


class _NotOffered:
    """An attribute of other live estimators that ``LiveL2SVC`` does not have: reading it raises AttributeError."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: object, owner: type) -> Any:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}")


class LiveL2SVC(LiveEstimator):
    """A classifier with squared losses over a window, trained by Frank-Wolfe methods [Frandi et al.].

    It minimizes ``1/2 |w|^2 + 1/2 b^2 + C/2 sum_i weight_i max(0, 1 - y_i f(x_i))^2``, as ``FrankWolfeSVC`` does; with
    several classes it does so for each pair of classes. ``update`` changes the window without solving: decisions are
    those of the last ``retrain``, and the next ``retrain`` starts from its solution.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, cache_mb : as in ``FrankWolfeSVC``; ``gamma="scale"`` is of the first training
    classes : the labels that there may be; learned from the data by default
    columns : those of a table, or "auto"; such a model has no window, and learns from :meth:`retrain_on` alone

    Examples
    --------
    >>> from livesvm.solvers.estimators.large_window import LiveL2SVC
    >>> model = LiveL2SVC(C=10.0, gamma=0.5)
    >>> report = model.update(add=([[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1]))
    >>> model.retrain(tol=0.01).relative_gap <= 0.01
    True
    >>> model.predictor().decision_function([[0.5], [3.5]]).round().tolist()
    [-1.0, 1.0]
    """

    classes: Iterable[Any] | None
    fit = _NotOffered()
    support_ = _NotOffered()
    support_vectors_ = _NotOffered()
    dual_coef_ = _NotOffered()
    intercept_ = _NotOffered()
    local_optimality = _NotOffered()
    n_window_ = _NotOffered()

    def __init__(
        self,
        C: float = 1.0,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        classes: Iterable[Any] | None = None,
        columns: Any = None,
        cache_mb: float = 512,
    ) -> None:
        keep(self, locals())
        self._examples_here = SlidingWindow()
        given = [] if classes is None else list(classes)
        self._labels: NDArray[Any] = np.unique(exact_labels(given, np.array(given), "classes"))
        self._trained: Trained | None = None

    # -- the window ----------------------------------------------------------------------------------------------------

    def update(
        self,
        add: tuple[ArrayLike, ArrayLike | None] | None = None,
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
        """Change the window, or after an error nothing; for parameters and errors see ``IncrementalSVC``."""
        edits = Edits(
            validation.mapping(relabel, "relabel"),
            validation.mapping(reweight, "reweight"),
            validation.positive(decay, "decay"),
            C,
            robust,
        )
        change = Change(batch_from_pair(add, keys, sample_weight), remove, edits, on_repeat)
        change, ignored = without_repeats(change, self._examples_here.slots)
        return self.learn(change)._replace(ignored=ignored)

    def learn(self, change: Change) -> UpdateReport:
        """Change the window, or after an error nothing; for parameters and errors see ``IncrementalSVC``."""
        began, w = time.perf_counter(), self._examples_here
        add, edits = change.add, change.edits or NO_EDITS
        relabelled, reweighted, decay, C = edits.relabel, edits.reweight, edits.decay, edits.C
        if edits.robust is not None:
            raise InvalidInput("models of this kind have no robust losses", field="robust")
        if add is not None and validation.is_empty(add.X) and (add.y is None or validation.is_empty(add.y)):
            add = batch_from_pair(None, add.keys, add.weights)
        if add is not None and self.columns is not None:
            raise InvalidInput(NO_WINDOW, field="rows")
        rows = np.empty((0, w.X.shape[1])) if add is None else validation.examples(add.X)
        if w.X.size:
            validation.check_width(rows.shape[1], w.X.shape[1], "X")
        weights = validation.sample_weights(None if add is None else add.weights, rows.shape[0])
        leaving = validation.known_keys(() if change.remove is None else change.remove, w.slots)
        keys = w.unused_keys(rows.shape[0]) if add is None or add.keys is None else add.keys
        adding = validation.new_keys(keys, rows.shape[0], w.slots, set(leaving))
        new_weights = validation.sample_weights(list(reweighted.values()), len(reweighted), "reweight")
        validation.known_keys([*relabelled, *reweighted], w.slots)
        known, y = self._with_labels(self._labels, None if add is None else add.y, rows.shape[0], "y")
        known, new_y = self._with_labels(known, list(relabelled.values()) or None, len(relabelled), "relabel")
        after: dict[str, Any] = {"_labels": known}
        if C is not None:
            after["C"] = validation.positive(C, "C", validation.LARGEST)
        after["_examples_here"] = w = w.copied()
        freed = w.leave(leaving)
        w.rename(places_of(self._labels, known))
        w.edit(
            dict(zip(relabelled, places_of(new_y, known).tolist(), strict=True)),
            dict(zip(reweighted, new_weights, strict=True)),
            decay,
        )
        w.admit(rows, places_of(y, known), weights, adding)
        w.free(freed)
        if y.size:
            after |= {"n_features_in_": rows.shape[1], "gamma_": vars(self).get("gamma_", np.nan)}
        vars(self).update(after)
        n, trained = len(w.slots), self._trained
        changed = n if decay != 1.0 else len(relabelled.keys() | reweighted.keys())
        support, gap = (0, np.nan) if trained is None else (len(trained.coefficients.T), trained.relative_gap)
        took = time.perf_counter() - began
        return UpdateReport(tuple(adding), tuple(leaving), changed, 0, took, n, support, 0, 0.0, gap)

    def _with_labels(
        self, known: NDArray[Any], y: ArrayLike | None, m: int, field: str
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the ``known`` classes joined with those of ``y`` (m,), and ``y`` as labels; raises InvalidInput."""
        return labels_after(known, y, m, field, is_fixed=self.classes is not None)

    @property
    def labels_(self) -> NDArray[Any]:
        """All known labels: those of present and former examples of the window, and those of the last training."""
        trained = self._trained
        if trained is None or are_among(trained.classes, self._labels).all():
            return self._labels
        return joined(trained.classes, self._labels) if self._labels.size else trained.classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the last training; before the first training, the classes of the window."""
        return self._labels if self._trained is None else self._trained.classes

    @property
    def feature_scale_(self) -> TableEncoding | None:
        """The encoding of a table that was fitted at the last training."""
        return None if self._trained is None else self._trained.scale

    @property
    def columns_(self) -> TableColumns | None:  # type: ignore[override]
        """The columns of a table, as they were at the last training."""
        return None if self.feature_scale_ is None else self.feature_scale_.columns

    @property
    def counts(self) -> dict[Any, int]:
        """The number of the window's examples by label; it may be 0 for a class of the last training."""
        w = self._examples_here
        own = np.bincount(w.y[w.indices], minlength=self._labels.size)
        here = dict(zip(self._labels.tolist(), own.tolist(), strict=True))
        return {label: here.get(label, 0) for label in self.labels_.tolist()}

    @property
    def trained_on(self) -> tuple[Any, Mapping[str, Any] | None] | None:
        """The names of the last training's support vectors, and the mapping of ``keep_origin``; None if untrained."""
        return None if self._trained is None else (self._trained.names, self._trained.origin)

    @property
    def keys_(self) -> list[Key]:
        """Keys of the window's examples, oldest first."""
        return list(self._examples_here.slots)

    @property
    def window_features(self) -> Floats:
        """Features of the window's examples, (n, d), oldest first."""
        return self._examples_here.X[self._examples_here.indices]

    @property
    def window_y(self) -> NDArray[Any]:
        """Labels of the window's examples, (n,), oldest first."""
        return np.asarray(self._labels[self._examples_here.y[self._examples_here.indices]])

    @property
    def window_sample_weight(self) -> Floats:
        """Weights of the window's examples, (n,), oldest first."""
        return self._examples_here.weights[self._examples_here.indices]

    @property
    def window_coefficients(self) -> Floats:
        """Signed coefficients of the window's examples in the last training, (n,), oldest first.

        With several classes the shape is (n, n_classes - 1), see ``models.sliding_window.signed_coefficients``.
        """
        return signed_coefficients(self._trained, self._examples_here)

    @property
    def window_is_free(self) -> NDArray[np.bool_]:
        """A mask (n,) of the examples with a coefficient, oldest first; with squared losses all of these are free."""
        found = self.window_coefficients != 0.0
        return np.asarray(found if found.ndim == 1 else found.any(axis=1))

    def forget_training(self) -> None:
        """Drop the last training, and all data about removed examples and classes without examples."""
        with all_or_nothing(self, self._examples_here):
            self._trained = None
            self._forget_labels()
            if hasattr(self, "gamma_"):
                self.gamma_ = np.nan
            self._examples_here.forget()

    def forget_labels(self) -> None:
        """Drop the classes that occur neither in the window nor in the last training."""
        with all_or_nothing(self, self._examples_here):
            self._forget_labels()

    def _forget_labels(self) -> None:
        w = self._examples_here
        if self.classes is None:
            here = np.unique(w.y[w.indices])
            numbers = np.searchsorted(here, np.arange(self._labels.size))
            w.rename(np.minimum(numbers, max(0, here.size - 1)))  # free slots have a number too
            self._labels = self._labels[here]

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> NDArray[Any]:
        return column_of(y, m, field)

    def _error(self, decisions: Floats, targets: NDArray[Any]) -> float:
        places = (decisions > 0).astype(np.int64) if decisions.ndim == 1 else winners(decisions, self.classes_.size)
        return float(np.mean(~are_equal(self.classes_[places], targets)))

    # -- training ------------------------------------------------------------------------------------------------------

    def retrain(
        self,
        variant: str = "auto",
        tol: float = 0.1,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        look: Look | None = None,
    ) -> Training:
        """Train on the window, from the last solution if there is one; after an error the model is as it was.

        Parameters
        ----------
        variant, tol : as in ``FrankWolfeSVC``
        progress : called with how much is done and how much there is; returning False cancels
        look : called with the gap as it gets smaller

        Raises
        ------
        InvalidInput : of one class alone, all weights are zero, or numbers too large
        NotOptimal : the gap was not reached
        Cancelled
        """
        w = self._examples_here
        counts = w.weights[w.indices] > 0
        slots = w.indices[counts]
        here, codes = np.unique(w.y[slots], return_inverse=True)
        examples = w.X[slots], self._labels[here], codes, w.weights[slots]
        with all_or_nothing(self, w):
            found, own, support = self._train(examples, variant, tol, threads, progress, look, slots)
            keys = [key for key, is_in in zip(w.slots, counts.tolist(), strict=True) if is_in]
            self._trained = self._known()._replace(names=[keys[row] for row in support.tolist()])
            w.place[slots[support]] = np.arange(support.size)
            w.taught[slots], w.costs[slots] = codes, float(self.C) * w.weights[slots]
            w.parts = np.zeros((2, here.size, w.y.size))
            for (negative, positive), pair, solution in zip(
                one_versus_one.pairs(here.size), own, found.solutions, strict=True
            ):
                other = np.where(pair.problem.y > 0, negative, positive)
                w.parts[:, other, slots[pair.indices]] = solution.parts
        return found

    def retrain_on(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        variant: str = "auto",
        tol: float = 0.1,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        look: Look | None = None,
        names: NDArray[Any] | None = None,
        table: TableColumns | None = None,
    ) -> Training:
        """Train as :meth:`retrain` does, but on examples ``X``, (n, d) dense or CSR; the window stays as it is.

        ``names`` (n, ...) identify the examples; the names of the support vectors are stored with the training.
        The rows of a ``table`` are codes; an encoding is fitted to them, and is part of the training.
        """
        _, labels = self._with_labels(self._labels, y, X.shape[0], "y")
        weights = validation.sample_weights(sample_weight, X.shape[0])
        counts = np.flatnonzero(weights > 0)
        if counts.size < weights.size:
            X, labels, weights = X[counts], labels[counts], weights[counts]
        scale = None if table is None else encoding.fitted(table, X, weights)
        X = X if scale is None else scale.apply(X)
        examples = X, *np.unique(labels, return_inverse=True), weights
        with all_or_nothing(self, self._examples_here):
            found, _, support = self._train(examples, variant, tol, threads, progress, look)
            own = None if names is None else np.asarray(names)[counts[support]]
            self.predict_by(self._known()._replace(names=own, scale=scale))
            return found

    def _train(
        self,
        examples: tuple[Any, NDArray[Any], Ints, Floats],
        variant: str,
        tol: float,
        threads: int,
        progress: Progress | None,
        look: Look | None,
        slots: Ints | None = None,
    ) -> tuple[Training, list[PairProblem], Ints]:
        """Train on features (n, d), classes (k,), class numbers (n,) and weights (n,), and then predict by the result.

        ``slots`` (n,) are those of the examples, if these are in the window. Returns the training, the problems of all
        pairs, and the rows that are support vectors.
        """
        X, classes, codes, weights = examples
        kernel = self._kernel_of(X, weights)
        _, own = problems_of(kernel, X, codes, float(self.C) * weights, classes, threads)
        starts = [
            next_start(self._trained, self._examples_here, pair, slots, classes[list(two)])
            for two, pair in zip(one_versus_one.pairs(classes.size), own, strict=True)
        ]
        each = int(2**20 * float(self.cache_mb)) // min(threads, len(own))
        options = Options(cast("Variant", variant), validation.positive(tol, "tol"), cache_bytes=each)
        found = solved(own, options, starts, threads, progress, look)
        if not found.is_converged:
            raise NotOptimal(f"the relative gap is {found.relative_gap:.2g} after {found.steps} steps, not {tol:g}")
        support, coefficients = one_versus_one.coefficients_of(found.solutions, own, X.shape[0])
        R = np.array([solution.R for solution in found.solutions])
        age = max(solution.age for solution in found.solutions)
        self.predict_by(Trained(classes, kernel, X[support], coefficients, R, found.relative_gap, age))
        return found, own, support

    def keep_origin(self, origin: Mapping[str, Any]) -> None:
        """Store ``origin``, data of the caller about the last training, with that training."""
        self._trained = self._known()._replace(origin=origin)

    def take_over(self, other: LiveL2SVC) -> None:
        """Adopt the solution of ``other``, a model trained on an earlier state of this model's window."""
        with all_or_nothing(self, self._examples_here):
            for name in ("_trained", "C", "kernel", "gamma", "degree", "coef0", "gamma_"):
                setattr(self, name, getattr(other, name))
            if other._trained is not None:
                self.n_features_in_ = other._trained.width
            self._examples_here.take_over(other._examples_here)

    def _kernel_of(self, X: Any, weights: Floats) -> Kernel:
        return self.kernel_by(lambda: scale_of(X, weights))

    def kernel_by(self, scale: Callable[[], float]) -> Kernel:
        """Return the kernel; if gamma is "scale", ``scale`` computes its value once, at the first training."""
        gamma = self.gamma
        if gamma == "scale":
            known = self._trained is not None and self._trained.kernel.name == self.kernel
            gamma = self.gamma_ if known else scale()
        return Kernel(self.kernel, validation.positive(gamma, "gamma"), self.degree, self.coef0)

    def predict_by(self, trained: Trained) -> None:
        """Use ``trained``, a training on any examples, for predictions from now on; the window is not changed."""
        self._trained, self.gamma_, self.n_features_in_ = trained, trained.kernel.gamma, trained.width
        self._examples_here.forget()

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def is_trained(self) -> bool:
        """Whether the model has been trained, and so can predict."""
        return self._trained is not None

    def predictor(self) -> Any:
        """Return an immutable predictor of the last training; raise InvalidInput if there is none."""
        return self._known().predictor()

    def certificate(self) -> Certificate:
        """Return how far the last solution, without the removed examples, is from the optimum of the present window."""
        found = self._proofs()
        n = len(self._examples_here.slots)
        if self._known().classes.size == 2:
            return replace(next(iter(found.values())), n_examples=n)
        return summary(cast("dict[Any, Certificate]", found), n)

    @property
    def pair_certificates(self) -> dict[tuple[Any, Any], Certificate]:
        """The certificate of every trained pair of labels on the window, if there are more than two classes."""
        return {} if self.classes_.size == 2 else self._proofs()

    def _proofs(self) -> dict[tuple[Any, Any], Certificate]:
        return proofs(self._known(), self._examples_here, self._labels, self._kernel_of, float(self.C))

    def prepare(self) -> None:
        """Do nothing, because an update of this model needs no preparation."""

    @property
    def held_bytes(self) -> int:
        """The bytes that the arrays of the window and of the last training take."""
        return self._examples_here.held_bytes + (0 if self._trained is None else self._trained.held_bytes)

    def check_scale(
        self,
        X: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        reweight: Mapping[Key, float] | None = None,
        C: float | None = None,
    ) -> None:
        """Raise InvalidInput if a kernel value k(x, x) of an example in ``X`` is not finite."""
        if X is None:
            return
        gamma = self.gamma if isinstance(self.gamma, float) else 1.0
        kernel = Kernel(self.kernel, gamma, self.degree, self.coef0)
        check_finite(kernel.diagonal(validation.examples(X)))

    def _known(self) -> Trained:
        if self._trained is None:
            raise InvalidInput("has not been trained yet", field="model")
        return self._trained

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return all data of a checkpoint by name: arrays, numbers, and lists of keys and labels."""
        w, trained = self._examples_here, self._trained
        found = w.to_arrays() | {"labels": self._labels.tolist(), "gamma": float(vars(self).get("gamma_", np.nan))}
        return (
            found
            | {"trained": trained is not None}
            | ({} if trained is None else trained.to_arrays(w.place[w.indices]))
        )

    @classmethod
    def from_arrays(cls, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Return the model with the data that ``to_arrays`` returned; raise NotOptimal if the arrays do not match."""
        model = cls(**params)
        try:
            model._restore(arrays)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise NotOptimal(f"the arrays of this checkpoint do not belong together: {error}") from error
        return model

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        self._labels = exact_labels(arrays["labels"], np.array(arrays["labels"]), "labels")
        self._examples_here.restore(arrays)
        self.gamma_ = float(arrays["gamma"])
        self.n_features_in_ = self._examples_here.X.shape[1]
        if not arrays["trained"]:
            return
        kernel = Kernel(self.kernel, self.gamma_, self.degree, self.coef0)
        self._trained = Trained.from_arrays(kernel, arrays, self.window_features)
        self.n_features_in_ = self._trained.width
