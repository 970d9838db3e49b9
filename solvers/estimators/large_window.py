"""A live model of a window too large for a path: it slides without a solve, and is retrained when that is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from livesvm.solvers import validation
from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.estimators.training_data import check_costs, scale_of
from livesvm.solvers.frank_wolfe.problem import Known, Problem, check_finite, gap_of
from livesvm.solvers.frank_wolfe.solution import PER_MILLE, Look, Solution, Trace
from livesvm.solvers.frank_wolfe.solve import Options, Variant, solve
from livesvm.solvers.frank_wolfe.warm_start import carried
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import Examples, product
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import as_scipy
from livesvm.solvers.validation import Key

NOWHERE = -1
ROWS = 4096  #: of X that are prepared at once for decisions


class Trained(NamedTuple):
    """What the last retraining found: the kernel, and the support vectors with coefficients ``a_i y_i``."""

    kernel: Kernel
    X: Any  #: (s, d) dense or CSR
    coefficients: Floats  #: (s,) their sizes sum up to 1
    R: float  #: decisions are in its units
    relative_gap: float


class Slots(NamedTuple):
    """The examples of a window, by slot."""

    X: Floats
    y: Floats
    weights: Floats
    b: Floats  #: of the last solution
    parts: Floats  #: (2, slots) of g there
    place: Ints  #: among the support vectors of the last solution, or NOWHERE

    @classmethod
    def empty(cls, capacity: int, width: int) -> Self:
        """So many of nothing."""
        y, weights, b = np.zeros((3, capacity))
        return cls(np.zeros((capacity, width)), y, weights, b, np.zeros((2, capacity)), np.full(capacity, NOWHERE))


@dataclass(frozen=True)
class SparsePredictor(Predictor):
    """The decision function of sparse support vectors, frozen."""

    examples: Examples | None = None

    def decision_function(self, X: Any) -> Floats:
        """Return f(x) for ``X`` (m, d), dense or sparse, as (m,)."""
        rows, support = X if sparse.issparse(X) else as_scipy(self.validate(X)), cast("Examples", self.examples)
        out = np.full(rows.shape[0], self.intercept)
        for start in range(0, rows.shape[0], ROWS):
            part = Examples.of(self.kernel, sparse.csr_array(rows[start : start + ROWS]), like=support)
            out[start : start + ROWS] += product(part, support, self.coefficients[:, None])[:, 0]
        return out


class LiveL2SVC(LiveEstimator):
    """A classifier of two classes with squared losses over a window, trained by Frank-Wolfe methods [Frandi et al.].

    It minimizes ``1/2 |w|^2 + 1/2 b^2 + C/2 sum_i weight_i max(0, 1 - y_i f(x_i))^2``, the problem of
    ``FrankWolfeSVC``. ``update`` changes the window and solves nothing: decisions are those of the last ``retrain``,
    whose solution is where the next one sets out.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, cache_mb : as in ``FrankWolfeSVC``; ``gamma="scale"`` is of the examples of the
        first training

    Examples
    --------
    >>> from livesvm.solvers.estimators.large_window import LiveL2SVC
    >>> model = LiveL2SVC(C=10.0, gamma=0.5)
    >>> report = model.update(add=([[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1]))
    >>> model.retrain(tol=0.01).gap.relative <= 0.01
    True
    >>> model.predictor().decision_function([[0.5], [3.5]]).round().tolist()
    [-1.0, 1.0]
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_mb: float = 512,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cache_mb = cache_mb
        self._slots: dict[Key, int] = {}
        self._free: list[int] = []
        self._next_key = 0
        self._by_slot = Slots.empty(0, 0)
        self._trained: Trained | None = None
        self._parts_hold = False  #: whether the parts of g are still those of costs and labels here

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
    ) -> UpdateReport:
        """Change the window, all or nothing; what each parameter is, and what is raised, see ``IncrementalSVC``."""
        began = time.perf_counter()
        if robust is not None:
            raise InvalidInput("models of this kind have no robust losses", field="robust")
        relabelled, reweighted = validation.mapping(relabel, "relabel"), validation.mapping(reweight, "reweight")
        decay = validation.positive(decay, "decay")
        rows = np.empty((0, self._by_slot.X.shape[1])) if add is None else validation.examples(add[0])
        if self._by_slot.X.size:
            validation.check_width(rows.shape[1], self._by_slot.X.shape[1], "X")
        y = signs(None if add is None else add[1], rows.shape[0])
        weights = validation.sample_weights(sample_weight, rows.shape[0])
        leaving = validation.known_keys(() if remove is None else remove, self._slots)
        names = self._unused_keys(y.size) if keys is None else keys
        adding = validation.new_keys(names, y.size, self._slots, set(leaving))
        new_y = {key: float(signs([label], 1, "relabel")[0]) for key, label in relabelled.items()}
        new_weights = validation.sample_weights(list(reweighted.values()), len(reweighted), "reweight")
        validation.known_keys([*new_y, *reweighted], self._slots)
        if C is not None:
            self.C = validation.positive(C, "C", validation.LARGEST)
        self._leave(leaving)
        changed = self._edit(new_y, dict(zip(reweighted, new_weights, strict=True)), decay)
        self._parts_hold = self._parts_hold and C is None and not changed
        self._admit(rows, y, weights, adding)
        n = len(self._slots)
        gap = np.nan if self._trained is None else self._trained.relative_gap
        took = time.perf_counter() - began
        support = 0 if self._trained is None else self._trained.coefficients.size
        return UpdateReport(
            tuple(adding), tuple(leaving), changed, 0, took, n, support, 0, 0.0, gap, 0, 0, 0, 0, 0, False
        )

    def _leave(self, keys: list[Key]) -> None:
        for key in keys:
            slot = self._slots.pop(key)
            self._by_slot.b[slot], self._by_slot.place[slot] = 0.0, NOWHERE
            self._free.append(slot)

    def _edit(self, relabel: dict[Key, float], reweight: dict[Key, Any], decay: float) -> int:
        """Change labels and weights; how many examples that are."""
        for key, label in relabel.items():
            if key in self._slots:
                self._by_slot.y[self._slots[key]] = label
        if decay != 1.0:
            slots = self._who()
            self._by_slot.weights[slots] *= decay
        for key, weight in reweight.items():
            if key in self._slots:
                self._by_slot.weights[self._slots[key]] = weight
        return len(self._slots) if decay != 1.0 else len(relabel.keys() | reweight.keys())

    def _admit(self, X: Floats, y: Floats, weights: Floats, keys: list[Key]) -> None:
        if not y.size:
            return
        old = self._by_slot
        if len(self._free) < y.size:
            more = max(y.size, old.y.size // 4, 64)
            grown = Slots.empty(old.y.size + more, X.shape[1])
            if old.y.size:
                grown.X[: old.y.size] = old.X
                for mine, its in zip(grown[1:], old[1:], strict=True):
                    mine[..., : old.y.size] = its
            self._free += range(old.y.size, grown.y.size)
            self._by_slot = grown
        slots = np.array([self._free.pop() for _ in keys])
        b = self._by_slot
        b.X[slots], b.y[slots], b.weights[slots] = X, y, weights
        b.b[slots], b.parts[:, slots], b.place[slots] = 0.0, 0.0, NOWHERE
        self._slots.update(zip(keys, slots.tolist(), strict=True))
        self._next_key = max([self._next_key, *(key + 1 for key in keys if type(key) is int)])
        if not hasattr(self, "gamma_"):
            self.gamma_ = np.nan  #: until there is a training
        self.n_features_in_ = X.shape[1]

    def _unused_keys(self, m: int) -> list[Key]:
        found: list[Key] = []
        key = self._next_key
        while len(found) < m:
            if key not in self._slots:
                found.append(key)
            key += 1
        return found

    def _who(self) -> Ints:
        """Return the slots of the window, oldest first."""
        return np.fromiter(self._slots.values(), np.int64, len(self._slots))

    @property
    def keys_(self) -> list[Key]:
        """Keys of the window, oldest first."""
        return list(self._slots)

    @property
    def window_features(self) -> Floats:
        """Features of the window, (n, d), oldest first."""
        return self._by_slot.X[self._who()]

    @property
    def window_y(self) -> NDArray[Any]:
        """Labels of the window, (n,), oldest first."""
        return self._by_slot.y[self._who()]

    @property
    def window_sample_weight(self) -> Floats:
        """Weights of the window's examples, (n,), oldest first."""
        return self._by_slot.weights[self._who()]

    @property
    def window_coefficients(self) -> Floats:
        """Signed coefficients of the window's examples in the last training, (n,), oldest first."""
        who, out = self._who(), np.zeros(len(self._slots))
        there = self._by_slot.place[who] != NOWHERE
        if self._trained is not None and there.any():
            out[there] = self._trained.coefficients[self._by_slot.place[who[there]]] / self._trained.R
        return out

    @property
    def window_is_free(self) -> NDArray[np.bool_]:
        """Which of the window's examples have a coefficient, (n,), oldest first: squared losses have no bound."""
        return np.asarray(self.window_coefficients != 0.0)

    def forget_training(self) -> None:
        """Know the window alone from now on, and nothing of the examples that have left."""
        self._trained, self._parts_hold = None, False
        if hasattr(self, "gamma_"):
            self.gamma_ = np.nan
        own = self._by_slot
        own.b[:], own.parts[:], own.place[:] = 0.0, 0.0, NOWHERE

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean((decisions > 0) != (targets > 0)))

    # -- training ------------------------------------------------------------------------------------------------------

    def retrain(
        self,
        variant: str = "auto",
        tol: float = 0.1,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        look: Look | None = None,
    ) -> Solution:
        """Train on the window, from the last solution if there is one; the model as it was if this raises.

        Parameters
        ----------
        variant, tol : as in ``FrankWolfeSVC``
        progress : called with how much is done and how much there is; returning False cancels
        look : is told how the gap gets smaller

        Raises
        ------
        InvalidInput : of one class alone, all weights are zero, or numbers too large
        NotOptimal : the gap was not reached
        Cancelled
        """
        who = self._who()
        own = self._by_slot
        X, y, weights = own.X[who], own.y[who], own.weights[who]
        counts = np.flatnonzero(weights > 0)
        kernel = self._kernel_of(X, weights)
        problem = made_problem(kernel, X[counts], y[counts], float(self.C) * weights[counts], threads)
        start = self._start(problem, who[counts])
        found = _solved(problem, variant, tol, float(self.cache_mb), start, progress, look)
        held = np.flatnonzero(found.a)
        own.b[:], own.parts[:], own.place[:] = 0.0, 0.0, NOWHERE
        slots = who[counts]
        own.b[slots], own.parts[:, slots] = found.b, found.parts
        own.place[slots[held]] = np.arange(held.size)
        self._parts_hold = counts.size == who.size
        self._take(kernel, X[counts[held]], (found.a * problem.y)[held], found)
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
    ) -> Solution:
        """Train on other examples, (n, d) dense or CSR, and leave the window as it is; as :meth:`retrain`."""
        labels = signs(y, X.shape[0])
        weights = validation.sample_weights(sample_weight, X.shape[0])
        counts = np.flatnonzero(weights > 0)
        if counts.size < weights.size:
            X, labels, weights = X[counts], labels[counts], weights[counts]
        kernel = self._kernel_of(X, weights)
        problem = made_problem(kernel, X, labels, float(self.C) * weights, threads)
        found = _solved(problem, variant, tol, float(self.cache_mb), None, progress, look)
        held = np.flatnonzero(found.a)
        self._by_slot.b[:], self._by_slot.place[:] = 0.0, NOWHERE
        self._parts_hold = False
        self._take(kernel, X[held], (found.a * problem.y)[held], found)
        self.n_features_in_ = int(X.shape[1])
        return found

    def take_over(self, other: LiveL2SVC) -> None:
        """Have the solution of another model, whose window was this one's before it slid."""
        self._trained, self._parts_hold = other._trained, other._parts_hold and self.C == other.C
        self.C, self.kernel, self.gamma, self.degree, self.coef0 = (
            getattr(other, name) for name in ("C", "kernel", "gamma", "degree", "coef0")
        )
        self.gamma_ = other.gamma_
        if other._trained is not None:
            self.n_features_in_ = int(other._trained.X.shape[1])
        mine, its = self._by_slot, other._by_slot
        mine.b[:], mine.parts[:], mine.place[:] = 0.0, 0.0, NOWHERE
        shared = [key for key in self._slots if key in other._slots]
        here, there = (np.array([model._slots[key] for key in shared], np.int64) for model in (self, other))
        same = (mine.X[here] == its.X[there]).all(axis=1) if shared and mine.X.shape[1] == its.X.shape[1] else []
        here, there = here[same], there[same]
        mine.b[here], mine.parts[:, here], mine.place[here] = its.b[there], its.parts[:, there], its.place[there]
        if (mine.y[here] != its.y[there]).any() or (mine.weights[here] != its.weights[there]).any():
            self._parts_hold = False

    def _kernel_of(self, X: Any, weights: Floats) -> Kernel:
        """Return the kernel; "scale" stays what it was for the first training."""
        gamma = self.gamma
        if gamma == "scale":
            known = self._trained is not None and self._trained.kernel.name == self.kernel
            gamma = self.gamma_ if known else scale_of(X, weights)
        name = "poly" if self.kernel == "polynomial" else self.kernel
        return Kernel(name, validation.positive(gamma, "gamma"), self.degree, self.coef0)  # type: ignore[arg-type]

    def _start(self, problem: Problem, slots: Ints) -> Known | None:
        """Return where the search sets out: the last solution, without those who have left."""
        trained, own = self._trained, self._by_slot
        if trained is None or not own.b[slots].any():
            return None
        b = own.b[slots]
        if not self._parts_hold or trained.kernel != problem.examples.kernel or sparse.issparse(trained.X):
            return Known(b, problem.parts(problem.examples, b))
        known = np.flatnonzero(own.parts[:, slots].any(axis=0))
        gone = np.setdiff1d(np.arange(trained.coefficients.size), own.place)
        rows = slots[known]
        before = made_problem(
            trained.kernel,
            np.vstack([own.X[rows], trained.X[gone]]),
            np.concatenate([own.y[rows], np.sign(trained.coefficients[gone])]),
            np.concatenate([problem.costs[known], np.ones(gone.size)]),
            problem.threads,
        )
        were = np.concatenate([own.b[rows], np.abs(trained.coefficients[gone]) / trained.R])
        parts = np.hstack([own.parts[:, rows], np.zeros((2, gone.size))])
        places = np.full(slots.size, NOWHERE)
        places[known] = np.arange(known.size)
        return carried(problem, before, Known(were, parts), places)

    def _take(self, kernel: Kernel, X: Any, coefficients: Floats, found: Solution) -> None:
        self._trained = Trained(kernel, X, coefficients, found.R, found.gap.relative)
        self.gamma_ = kernel.gamma

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def is_trained(self) -> bool:
        """Whether there has been a training to predict by."""
        return self._trained is not None

    def predictor(self) -> Predictor:
        """Return the decision function of the last training, frozen; raises InvalidInput before the first."""
        known = self._known()
        coefficients = known.coefficients / known.R
        rest = coefficients, float(coefficients.sum()), int(known.X.shape[1])
        if not sparse.issparse(known.X):
            return Predictor(known.kernel, np.ascontiguousarray(known.X.T), *rest)
        examples = Examples.of(known.kernel, known.X)
        if not sparse.issparse(examples.values):  # more of it is stored than left out
            return Predictor(known.kernel, np.ascontiguousarray(known.X.toarray().T), *rest)
        return SparsePredictor(known.kernel, np.empty((0, 0)), *rest, examples=examples)

    def certificate(self) -> Certificate:
        """Return how far the last solution, without those who have left, is from the optimum of the window."""
        self._known()
        who = self._who()
        own = self._by_slot
        counts = who[own.weights[who] > 0]
        b = own.b[counts]
        if not b.any():
            raise InvalidInput("was not trained on its window, whose optimum it could be compared with", field="model")
        kernel = self._kernel_of(own.X[counts], own.weights[counts])
        problem = made_problem(kernel, own.X[counts], own.y[counts], float(self.C) * own.weights[counts], 1)
        with threadpool_limits(1, "blas"):
            gap = gap_of(problem, b, problem.parts(problem.examples, b))
        return Certificate(0.5 * gap.relative, gap.primal - gap.dual, gap.relative, gap.primal, gap.dual, len(who))

    def robustness(self) -> Robustness | None:
        """Return None: its losses are convex."""
        return None

    def prepare(self) -> None:
        """Do nothing: an update needs nothing but the window."""

    def check_scale(
        self,
        X: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        reweight: Mapping[Key, float] | None = None,
        C: float | None = None,
    ) -> None:
        """Raise InvalidInput for examples whose kernel is not finite."""
        if X is None:
            return
        rows = validation.examples(X)
        gamma = self.gamma if isinstance(self.gamma, float) else 1.0
        name = "poly" if self.kernel == "polynomial" else self.kernel
        kernel = Kernel(name, gamma, self.degree, self.coef0)  # type: ignore[arg-type]
        check_finite(kernel.diagonal(rows))

    def _known(self) -> Trained:
        if self._trained is None:
            raise InvalidInput("has not been trained yet", field="model")
        return self._trained

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return everything a checkpoint needs: arrays, numbers, and the keys as a list."""
        who, own = self._who(), self._by_slot
        found: dict[str, Any] = {
            "X": own.X[who],
            "y": own.y[who],
            "sample_weight": own.weights[who],
            "keys": list(self._slots),
            "next_key": self._next_key,
            "gamma": float(getattr(self, "gamma_", np.nan)),
            "trained": self._trained is not None,
        }
        if self._trained is None:
            return found
        known = self._trained
        found |= {
            "b": own.b[who],
            "parts": own.parts[:, who],
            "place": own.place[who],
            "parts_hold": self._parts_hold,
            "coefficients": known.coefficients,
            "R": known.R,
            "relative_gap": known.relative_gap,
            "support_shape": list(known.X.shape),
        }
        if sparse.issparse(known.X):
            parts = {"data": known.X.data, "indices": known.X.indices, "indptr": known.X.indptr}
            return found | {f"support_{name}": part for name, part in parts.items()}
        gone = np.setdiff1d(np.arange(known.coefficients.size), own.place[who])
        return found | {"gone": gone, "support_X": known.X[gone]}  # the others are in the window

    @classmethod
    def from_arrays(cls, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` was taken from; raises NotOptimal where they do not belong together."""
        model = cls(**params)
        try:
            model._restore(arrays)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise NotOptimal(f"the arrays of this checkpoint do not belong together: {error}") from error
        return model

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        X = np.asarray(arrays["X"], np.float64)
        y, weights = (np.asarray(arrays[name], np.float64) for name in ("y", "sample_weight"))
        self._admit(X, y, weights, list(arrays["keys"]))
        self._next_key = int(arrays["next_key"])
        self.gamma_ = float(arrays["gamma"])
        if not arrays["trained"]:
            return
        who, own = self._who(), self._by_slot
        own.b[who], own.parts[:, who], own.place[who] = arrays["b"], arrays["parts"], arrays["place"]
        self._parts_hold = bool(arrays["parts_hold"])
        shape, coefficients = tuple(arrays["support_shape"]), np.asarray(arrays["coefficients"], np.float64)
        support: Any
        if "support_data" in arrays:
            parts = tuple(arrays[f"support_{name}"] for name in ("data", "indices", "indptr"))
            support = sparse.csr_array(parts, shape=shape)
        else:
            support = np.empty(shape)
            there = np.flatnonzero(own.place[who] != NOWHERE)
            if there.size:  # an empty window does not know how many features there are
                support[own.place[who[there]]] = X[there]
            support[arrays["gone"]] = arrays["support_X"]
        kernel = replace(Kernel("linear"), name=self._kernel_name(), gamma=self.gamma_)
        kernel = replace(kernel, degree=int(self.degree), coef0=float(self.coef0))
        self._trained = Trained(kernel, support, coefficients, float(arrays["R"]), float(arrays["relative_gap"]))
        self.n_features_in_ = int(shape[1])

    def _kernel_name(self) -> Any:
        return "poly" if self.kernel == "polynomial" else self.kernel


def signs(y: ArrayLike | None, m: int, field: str = "y") -> Floats:
    """Return labels (m,) as numbers, -1 or 1; raises InvalidInput for any other."""
    if y is None:
        if m:
            raise InvalidInput("is missing; this task learns targets", field=field)
        return np.empty(0)
    found = validation.vector(validation.column(y, field), m, field=field)
    wrong = np.abs(found) != 1.0
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInput(f"a label is -1 or 1, not {found[row]:g}", field=field, row=row)
    return found


def made_problem(kernel: Kernel, X: Any, y: Floats, costs: Floats, threads: int) -> Problem:
    """Return a problem over examples with positive costs; raises InvalidInput for one that there is not."""
    if y.size == 0:
        raise InvalidInput("there is no example with a weight", field="sample_weight")
    if np.ptp(y) == 0:
        raise InvalidInput(f"all examples are of one class, {y[0]:g}; two classes are needed", field="y")
    check_costs(costs)
    examples = Examples.of(kernel, X)
    check_finite(examples.diagonal())
    return Problem(examples, y, costs, threads)


def _solved(
    problem: Problem,
    variant: str,
    tol: float,
    cache_mb: float,
    start: Known | None,
    progress: Progress | None,
    look: Look | None,
) -> Solution:
    if variant not in get_args(Variant):
        raise InvalidInput(f"unknown variant {variant!r}; one of {', '.join(get_args(Variant))}", field="variant")
    options = Options(cast("Variant", variant), validation.positive(tol, "tol"), cache_bytes=int(2**20 * cache_mb))
    with steadily(progress, PER_MILLE) as tell, threadpool_limits(1, "blas"):
        found = solve(problem, options, Trace(options.tol, tell, look), start)
    if not found.is_converged:
        raise NotOptimal(f"the relative gap is {found.gap.relative:.2g} after {found.steps} steps, not {tol:g}")
    return found
