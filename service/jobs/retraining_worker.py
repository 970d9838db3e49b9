"""The process that retrains a model, with a solver for each task, and writes the model that replaces the old one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from livesvm.service.datasets.arrays import Arrays
from livesvm.service.jobs.plots import MOST_POINTS
from livesvm.service.models.arrays import Key
from livesvm.service.models.classifier import labels_of
from livesvm.service.models.commands import Outcome, Sizes
from livesvm.service.models.labels import as_labels, check_among, check_labels
from livesvm.service.models.learners import (
    KERNEL_PARAMETERS,
    new_estimator,
    parameters,
    restored_estimator,
    task_of,
)
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import GAP, ModelState
from livesvm.service.models.trained_on import TrainedOn
from livesvm.service.store import codec
from livesvm.service.store.files import write_whole
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.positive_unlabelled import LivePUClassifier
from livesvm.solvers.frank_wolfe.one_versus_one import Training
from livesvm.solvers.frank_wolfe.solution import Look
from livesvm.solvers.kernels import nystroem
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models import feature_scale, scaling
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.class_labels import check_kind
from livesvm.solvers.models.large_predictor import SparsePairsPredictor, SparsePredictor
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.pu.problem import coefficients, labelled_problem
from livesvm.solvers.pu.usmo import usmo
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.threads import threads
from livesvm.solvers.sparse import SparseRows
from livesvm.solvers.tables.columns import Codes, TableColumns, given
from livesvm.solvers.tables.encoding import TableEncoding

Document = dict[str, Any]
Floats = NDArray[np.float64]
TAU = 1e-6
WRITTEN_OUT = 2**20
"""Numbers of sparse rows that are made dense at once."""
REPORT_EVERY = 0.1
"""Seconds between two points of the gap that are reported during a training."""


@dataclass(frozen=True)
class Work:
    """One retraining: the model before the retraining, and the request."""

    asked: Document
    spec: ModelSpec
    arrays: Document
    before: Document  #: parameters that differed from the specification before
    changed: Document  #: parameters that differ from it from now on
    progress: Progress
    look: Look  #: called with the gap as it gets smaller
    on_dataset: OnDataset
    tags: dict[Key, list[str]] = field(default_factory=dict)  #: of the window's examples, by key

    @property
    def cache_mb(self) -> int:
        """Largest size of the cache of kernel rows, in megabytes."""
        return int(self.asked["cache_mb"])

    @property
    def columns(self) -> tuple[Floats, Floats, Floats, list[Any]]:
        """The features, targets, weights and keys of the window."""
        arrays = self.arrays
        y = labels_of(arrays) if task_of(self.spec).has_labels else arrays["y"]
        encoding = feature_scale.restored("none", arrays)  # of a table, whose rows would have no names without it
        X = Codes.of(arrays["X"], encoding.columns) if isinstance(encoding, TableEncoding) else arrays["X"]
        return X, y, arrays["sample_weight"], arrays["keys"]

    def untrained(self) -> LiveEstimator:
        """Return an untrained estimator with the requested parameters, which knows the model's classes."""
        made = new_estimator(self.spec, self.cache_mb, **self.changed)
        if "chosen" in self.arrays:
            made.chosen_ = dict(self.arrays["chosen"])
        if task_of(self.spec).has_labels:
            made._know(self.arrays["classes"])  # type: ignore[attr-defined]
        if isinstance(made, LivePUClassifier):
            made.keep_estimate(self.arrays)
        return made

    @property
    def made(self) -> Document:
        """The parameters with which the model was created."""
        return parameters(self.spec, self.cache_mb)

    def held_back(self, n: int) -> NDArray[np.bool_]:
        """Return a mask (n,) of the examples left out of a first training: random, but the same in each call."""
        chosen = np.zeros(n, bool)
        if "hold_out" in self.asked:
            count = max(1, round(self.asked["hold_out"] * n))
            chosen[np.random.default_rng(0).permutation(n)[:count]] = True
        return chosen


@dataclass(frozen=True)
class Found:
    """A trained model, its relative gap as a function of time, and its error on the held-back examples."""

    estimator: LiveEstimator
    sizes: Sizes
    history: Floats  #: (k, 2) seconds, relative gap
    reported: Document


def retrain(asked: Document, tell: Callable[[Document], None], on_dataset: OnDataset | None = None) -> Document:
    """Retrain a model, write it to ``asked["output"]``, and return the job's result; raises SolverError.

    ``on_dataset`` is the function that trains on a dataset; the default reads the dataset's files on this machine.
    """
    began = time.perf_counter()
    given = codec.decode(Path(asked["input"]).read_bytes())
    spec = ModelSpec.model_validate_json(asked["spec"])

    def progress(done: int, total: int) -> bool:
        """Report the progress; to cancel the job, the parent ends this process."""
        tell({"done": done, "total": total})
        return True

    changed = _parameters(asked, given)
    look = _telling(tell)
    on = on_dataset or _on_dataset
    work = Work(asked, spec, given["arrays"], given["changed"], changed, progress, look, on, given.get("tags", {}))
    solver = {"usmo": _by_usmo, "batch": _by_engine}.get(asked["solver"], _by_frank_wolfe)
    with threads(asked["threads"]):
        found = solver(work)
    state = ModelState(spec, work.cache_mb, found.estimator, sizes=found.sizes)
    used = state.changed
    if "kernel" not in asked:  # gamma stays "scale", so that erasures know that it depends on examples
        found.estimator.gamma = (work.made | work.before)["gamma"]
    document: Document = {"arrays": found.estimator.to_arrays(), "changed": state.changed, "sizes": asdict(found.sizes)}
    document |= {"asked": _asked_names(asked), "scale": feature_scale.kept(given["arrays"])}
    write_whole(Path(asked["output"]), codec.encode(document))
    history = found.history[:: max(1, len(found.history) // MOST_POINTS)]
    return {
        "solver": asked["solver"],
        "n_examples": found.sizes.n_examples,
        "n_support": state.published().n_support,
        "relative_gap": found.sizes.relative_gap,
        "seconds": time.perf_counter() - began,
        "parameters": used,
        "history": {"seconds": history[:, 0].tolist(), "relative_gap": history[:, 1].tolist()},
        **found.reported,
    }


def _telling(tell: Callable[[Document], None]) -> Look:
    """Return a function that reports the gap, at most once every ``REPORT_EVERY`` seconds."""
    last = -np.inf

    def look(seconds: float, gap: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPORT_EVERY:
            last = now
            tell({"seconds": seconds, "relative_gap": gap})

    return look


def _parameters(asked: Document, given: Document) -> Document:
    """Return the parameters of the new model that differ from those with which the model was created."""
    changed = dict(given["changed"])
    if "C" in asked:
        changed["C"] = asked["C"]
        if given["arrays"].get("chosen", {}).get("components") is not None:
            changed["components"] = given["arrays"]["chosen"]["components"]
    if "kernel" in asked:
        kernel = dict(asked["kernel"])
        changed |= {"kernel": kernel.pop("name"), **kernel}
    elif np.isfinite(given["arrays"]["gamma"]):
        changed["gamma"] = float(given["arrays"]["gamma"])  # "scale" was computed from the first examples
    return changed


def _asked_names(asked: Document) -> list[str]:
    """Return the names of the requested parameters; all others stay the same when the new model takes over."""
    return [*(["C"] if "C" in asked else []), *(KERNEL_PARAMETERS if "kernel" in asked else ())]


# The engine, from nothing.


def _by_engine(work: Work) -> Found:
    X, y, weights, keys = work.columns
    if np.size(work.arrays.get("robust", ())):
        raise InvalidInput("a robust model has no batch solver; make it convex first", field="solver")
    began = time.perf_counter()
    held = work.held_back(len(keys))
    reported: Document = {}
    if held.any():
        rest = work.untrained()
        kept = [key for key, out in zip(keys, held, strict=True) if not out]
        rest.update(add=(X[~held], y[~held]), keys=kept, sample_weight=weights[~held])
        reported = _held_back(work, rest, X[held], y[held])
    estimator = work.untrained()
    report = estimator.update(add=(X, y), keys=keys, sample_weight=weights)
    sizes = Outcome.of(report).sizes
    return Found(estimator, sizes, np.array([[time.perf_counter() - began, report.relative_gap]]), reported)


def _held_back(work: Work, estimator: LiveEstimator, X: Any, y: Floats) -> Document:
    return held_back(work, y.size, error_on(work, estimator, X, y))


def error_on(work: Work, estimator: LiveEstimator, X: Any, y: Any) -> float:
    """Return the error of a trained model on rows (m, d) with targets (m,)."""
    decisions = _decisions(estimator.predictor(), X)
    targets = estimator._targets(y, len(y)) if task_of(work.spec).has_labels else y
    return float(estimator._error(decisions, targets))


def held_back(work: Work, n: int, error: float) -> Document:
    """Return the report of the error on ``n`` examples that a first training left out."""
    reported: Document = {"n_examples": n, "what": task_of(work.spec).error, "error": error}
    if work.spec.task in ("svc", "l2svc"):
        reported["accuracy"] = 1.0 - error
    return {"held_back": reported}


def _decisions(predictor: Predictor, X: Any) -> Floats:
    """Return decisions of rows (m, d), dense or CSR; CSR rows are made dense in blocks if the predictor needs it."""
    if predictor.scale is not None and not isinstance(X, Codes):  # shards hold encoded rows
        predictor = replace(predictor, scale=None, n_features=None)
    if isinstance(predictor, SparsePredictor | SparsePairsPredictor) or not sparse.issparse(X):
        return predictor.decision_function(X)
    each = max(1, WRITTEN_OUT // X.shape[1])
    parts = [predictor.decision_function(X[start : start + each].toarray()) for start in range(0, X.shape[0], each)]
    return np.concatenate(parts)


# Positive and unlabelled examples: USMO, and the engine from its solution.


def _by_usmo(work: Work) -> Found:
    X, s, _, _ = work.columns
    held = work.held_back(s.size)
    reported: Document = {}
    if held.any():
        rest, _ = _usmo(work, np.flatnonzero(~held))
        reported = _held_back(work, rest, X[held], s[held])
    estimator, solution = _usmo(work, np.arange(s.size))
    proof, state = estimator.certificate(), estimator._window.state
    sizes = Sizes(state.n, state.n_free, state.n_bound_supports(), proof.max_violation, proof.relative_gap)
    history = np.array([(look.seconds, look.relative_gap) for look in solution.history])
    reported |= {"by_usmo": {name: float(getattr(solution, name)) for name in ("relative_gap", "violation", "seconds")}}
    return Found(estimator, sizes, history, reported)


def _usmo(work: Work, chosen: NDArray[np.int64]) -> tuple[LivePUClassifier, Any]:
    """Train by USMO on the ``chosen`` examples of the window; return the trained estimator and the solver's report."""
    X, s, weights, keys = work.columns
    if isinstance(X, SparseRows):
        raise InvalidInput("takes dense features; those of this window are sparse: ask for 'batch'", field="solver")
    X, s, weights = X[chosen], s[chosen], weights[chosen]
    model = work.untrained()
    assert isinstance(model, LivePUClassifier)
    scale = feature_scale.restored(model.scale, work.arrays)
    came, X = X, X if scale is None else scale.apply(X)
    X = X - work.arrays.get("center", 0.0)
    gamma = scaling.gamma(X, weights, model.kernel) if model.gamma == "scale" else float(model.gamma)
    name = "poly" if model.kernel == "polynomial" else model.kernel
    kernel = Kernel(name, gamma, int(model.degree), float(model.coef0))
    if model.components is not None:
        X, kernel = nystroem.restored(kernel, scale, work.arrays).apply(came), Kernel("linear", gamma)
    problem, places = labelled_problem(kernel, X, s, weights, model.prior_, model.lam_)
    cache = work.cache_mb * 2**20
    found = usmo(problem, work.asked.get("tol", TAU), cache_bytes=cache, progress=work.progress, look=work.look)
    segments = np.zeros(s.size, np.int64)
    segments[places] = _segments(found.sigma, problem.c2)
    kept = feature_scale.kept(work.arrays) | {
        name: work.arrays[name] for name in ("prior_estimate", "chosen_lam", "center") if name in work.arrays
    }
    arrays = kept | {
        "X": came,
        "y": s,
        "sample_weight": weights,
        "keys": [keys[place] for place in chosen],
        "beta": coefficients(problem, found.sigma, s, places),
        "segments": segments,
        "sides": np.zeros(s.size, np.int8),
        "begun": True,
        "intercept": found.b,
        "gamma": gamma,
        "next_key": work.arrays["next_key"],
    }
    changed = work.changed | {"gamma": gamma}
    live = restored_estimator(work.spec, work.cache_mb, arrays, **changed)
    assert isinstance(live, LivePUClassifier)
    return live, found


def _segments(sigma: Floats, c2: Floats) -> NDArray[np.int64]:
    """Return the segment of the double hinge for each coefficient, (n,): 0, 2, 4 are its lines, 1 and 3 its kinks."""
    half = 0.5 * c2
    return np.select([sigma <= 0.0, sigma < half, sigma == half, sigma < c2], [0, 1, 2, 3], 4).astype(np.int64)


# Squared losses: Frank-Wolfe.


def _by_frank_wolfe(work: Work) -> Found:
    asked = work.asked
    variant = "auto" if asked["solver"] == "blocks" else asked["solver"]
    reported = {"progress": work.progress, "look": work.look}
    how = {"variant": variant, "tol": asked.get("tol", GAP), "threads": asked["threads"], **reported}
    model = restored_estimator(work.spec, work.cache_mb, work.arrays, **work.before)
    assert isinstance(model, LiveL2SVC)
    if "C" in asked and asked["C"] != model.C:
        model.update(C=asked["C"])
    for name, value in (work.made | work.changed).items():
        setattr(model, name, value)
    found, n, reported = _on_window(work, model, how) if "dataset" not in asked else work.on_dataset(work, model, how)
    model.keep_origin(_origin(work, model))
    gap, n_support = found.relative_gap, int(model.predictor().n_support)
    sizes = Sizes(n, n_support, 0, 0.5 * gap, gap)
    return Found(model, sizes, found.trace, reported | {"steps": found.steps})


def _origin(work: Work, model: LiveL2SVC) -> Document:
    """Describe the data of the training that has just ended, so that an erasure finds models trained on erased data."""
    described = work.asked["dataset"]["described"] if "dataset" in work.asked else None
    dataset = None if described is None else {name: described.get(name) for name in ("name", "directory", "salt")}
    made = TrainedOn(True, work.asked["solver"], work.asked.get("tol", GAP), tags=work.tags, dataset=dataset)
    (names, _) = model.trained_on or (None, None)
    return made.origin(names)


class Trained(Protocol):
    """The result of a training."""

    @property
    def relative_gap(self) -> float:
        """The largest relative gap among all pairs of classes."""

    @property
    def steps(self) -> int:
        """The number of the solver's steps for all pairs of classes."""

    @property
    def trace(self) -> Floats:
        """The relative gap as a function of time."""


OnDataset = Callable[[Work, LiveL2SVC, Document], tuple[Trained, int, Document]]
"""Trains a model on a dataset; returns the result, the number of examples, and what else to report."""


def _on_window(work: Work, model: LiveL2SVC, how: Document) -> tuple[Training, int, Document]:
    n, reported = len(model.keys_), dict[str, Any]()
    held = work.held_back(n)
    if held.any():
        outside = [key for key, out in zip(model.keys_, held, strict=True) if out]
        X, y, weights = (own[held] for own in (model.window_X, model.window_y, model.window_sample_weight))
        model.update(remove=outside)
        model.retrain(**how)
        reported = _held_back(work, model, X, y)
        model.update(add=(X, y), keys=outside, sample_weight=weights)
    return model.retrain(**how), n, reported


def checked_labels(work: Work, y: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """Return the labels ``y`` (n,) of a dataset.

    Raises InvalidInput if the labels are invalid, of another kind than ``known``, or of too many classes.
    """
    check_labels(y, "dataset")
    found, most = as_labels(y), work.asked["dataset"]["most_classes"]
    check_kind(known, found, "dataset")
    if work.spec.labels is not None:
        check_among(found, work.spec.labels, "dataset")
    n_classes = np.unique(found).size
    if n_classes > most:
        raise InvalidInput(f"has {n_classes} classes, the limit is {most} (LIVESVM_MAX_CLASSES)", field="dataset")
    return found


def table_of(work: Work, found: TableColumns | None) -> tuple[TableColumns | None, list[int]]:
    """Return the columns that a model learns, and their places among the columns ``found`` in a dataset.

    Raises
    ------
    InvalidInput : model and dataset differ in a column's name or kind, or only one of them has columns
    """
    asked = work.spec.columns
    if (asked is None) != (found is None):
        reason = "holds numbers, and the model has columns; upload it with columns"
        raise InvalidInput(
            reason if found is None else 'is a table; it needs a model with columns: "auto"', field="dataset"
        )
    if found is None or asked == "auto":
        return found, [] if found is None else [*range(len(found.each))]
    wanted, kinds = given(asked), dict(found.kinds)
    for name, kind in wanted.kinds:
        if kinds.get(name) != kind:
            reason = f"has a {kinds[name]} here, the model a {kind}" if name in kinds else "is no column here"
            raise InvalidInput(reason, field="dataset", column=wanted.names.index(name), name=name)
    for at, name in enumerate(found.names):
        if name not in wanted.names:
            raise InvalidInput("is no column of the model", field="dataset", column=at, name=name)
    return wanted, [found.names.index(name) for name in wanted.names]


def _on_dataset(work: Work, model: LiveL2SVC, how: Document) -> tuple[Training, int, Document]:
    data, reported = Arrays(Path(work.asked["dataset"]["at"]), work.asked["dataset"]["described"]), dict[str, Any]()
    X, y, weights = data.X(), checked_labels(work, np.asarray(data.y()), model.labels_), data.weights()
    table, places = table_of(work, data.columns)
    if table is not None:
        X = Codes.of(X[:, places], None)
    held = work.held_back(data.n)
    if held.any():
        rows, out = np.flatnonzero(~held), np.flatnonzero(held)
        model.retrain_on(X[rows], y[rows], None if weights is None else weights[rows], **how, table=table)
        reported = _held_back(work, model, X[out], y[out])
    return model.retrain_on(X, y, weights, **how, names=data.marks(), table=table), data.n, reported
