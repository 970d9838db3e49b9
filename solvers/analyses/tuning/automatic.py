"""Automatic choice of a model's parameters by its window: encoding and relevance of columns, gamma, C, epsilon, lam.

For each encoding of the columns, the kernel widths with the largest evidence are found (see ``relevance``). For a
regression the encoding with the largest evidence is chosen. The search for the largest evidence also finds the
variances of f and of the noise, from which C and epsilon follow. C is chosen as for Laplacian noise with the same
deviation. Skewed targets are learnt as logarithms if this reduces the error of held-out examples, in units of y, by
more than its standard error.

For a classifier, the encoding and C are chosen by cross-validation, along a path over C in each fold. The loss of
held-out decisions is their log loss, after one sigmoid has turned them into probabilities [Platt 1999], plus twice the
share of wrong labels. The log loss distinguishes settings that give the same labels; the share of wrong labels is what
users want to be small. For a model with components, the folds hold features mapped by its landmarks, which are chosen
for each gamma. If the number of components is "auto", it is chosen last, see ``rank``.

For positive and unlabelled examples only lam is chosen, by the estimated risk of held-out examples.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.analyses.tuning import rank
from livesvm.solvers.analyses.tuning.folds import Split, splits
from livesvm.solvers.analyses.tuning.relevance import Evidence, evidence, gaussian, outputs_of, spread_evenly
from livesvm.solvers.analyses.tuning.stepwise import FoldWorkspace
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels import nystroem
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models import feature_scale, scaling, target_scale
from livesvm.solvers.models.model_view import View
from livesvm.solvers.models.target_scale import unit_of, worth_a_try
from livesvm.solvers.pu.held_out import FEWEST, LAM, Folds
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import SparseRows, dense
from livesvm.solvers.tables import columns as table_columns
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.cells import distinct
from livesvm.solvers.tables.columns import ENCODINGS, Encoding, TableColumn, TableColumns

LEAST = 40  #: examples of a first choice
FOLDS = 5
FEWER = 3  #: by which ways to encode are compared in larger windows, and regressions, of which each is a fit
MANY = 800  #: examples of these
MOST = 2000  #: of a window that are looked at, spread over it; folds hold kernel values of their number squared
WIDEST = 2000  #: features that rows may have which are held sparse
COSTS = tuple(map(np.array, ((0.0625, 0.25, 1.0, 4.0), (16.0, 64.0), (256.0, 1024.0))))
"""Values of C that are tried: the next ones where the largest so far is the best, as walks to these take longest."""
FEW_VALUES = 12  #: whole numbers of a column that may be categories
ROUGH = 160  #: examples by which all ways to encode are looked at
FIRST, NEXT, LATER = 25, 10, 15  #: iterations of the search for widths: of the first way, of others, by more examples
CLOSE = 0.02  #: of the loss by so much less another choice has to be than the present one
SMALL = 1e-3  #: a step of the parameters of a sigmoid after which there is none
WRONG = 2.0  #: what a wrong label counts, next to its log loss
OF_NOISE = 0.1  #: epsilon, of the deviation of what f leaves
LAPLACE = 2.0 * math.sqrt(2.0)  #: C by the variance of f over that deviation


@dataclass(frozen=True)
class TunedParameters:
    """The chosen parameters, and their held-out error.

    Attributes
    ----------
    parameters : dict
        What ``adopt`` takes: C, gamma, epsilon, target_scale, columns and components, as far as they were asked for.
    loss : float
        Of held-out examples: mean log loss and twice the share of wrong labels, or the error of the task, in its units;
        of positive and unlabelled examples the estimated risk, which chance may make negative.
    present, defaults : float
        The same of the parameters that the model has, and of those that it would have by default.
    n_examples : int
        Of the window.
    seconds : float
        Processor time.
    is_of_other_rank : bool
        Whether the chosen number of components is another one than the model has.
    """

    parameters: dict[str, Any]
    loss: float
    present: float
    defaults: float
    n_examples: int
    seconds: float
    is_of_other_rank: bool = False

    @property
    def is_better(self) -> bool:
        """Whether the chosen parameters are so much better, or cheaper, that a change of the model is worthwhile."""
        return self.is_of_other_rank or self.loss < self.present - CLOSE * abs(self.present)


def choose(model: Any) -> TunedParameters:
    """Return the parameters that suit a model's window; the model stays as it is.

    Parameters
    ----------
    model : live classifier or regressor
        Fitted, with the kernel "rbf"; any kernel for positive and unlabelled examples.

    Returns
    -------
    TunedParameters
        The parameters, and their score.

    Raises
    ------
    InvalidInput
        The window has too few examples, or of one class alone, or the kernel is another one.
    """
    from threadpoolctl import threadpool_limits

    started = time.thread_time()
    with threadpool_limits(1, "blas"):
        if hasattr(model, "lam_"):
            found = _of_kinds(model)
        else:
            chooser = _of_classes if hasattr(model, "classes_") else _of_values
            found = _with_rank(model, chooser(_TableWindow(model)))
    return replace(found, seconds=time.thread_time() - started)


def given_rank(model: Any) -> int | None:
    """Return the number of components with which the other parameters are chosen; None if the number is "auto"."""
    return None if isinstance(model.components, str) else model.components


def _with_rank(model: Any, found: TunedParameters) -> TunedParameters:
    """Return the parameters ``found``, with a number of components if the number is "auto"."""
    if not isinstance(model.components, str):
        return found
    components, parameters = None, found.parameters
    if model.n_window_ > rank.FEW_FREE and not isinstance(model.window_features, SparseRows):
        window = _TableWindow(model, rank.MOST)
        columns = window.columns and replace(table_columns.given(parameters["columns"]), words=window.columns.words)
        given = parameters | {"columns": None, "scale": "none"}
        X, y = window.features(columns)[0], model.window_y[window.some]
        components = rank.choose_rank(model, given, X, y, window.weights)
    is_other = components != model.components_
    return replace(found, parameters=parameters | {"components": components}, is_of_other_rank=is_other)


class Parameters(NamedTuple):
    """The parameters that can be chosen for a model."""

    C: float
    gamma: float
    columns: TableColumns | None
    epsilon: float | None = None  #: of regression
    target_scale: str = "none"  #: of regression
    target_unit: float = 1.0  #: units of y in one of that scale

    def document(self) -> dict[str, Any]:
        """Return the parameters as arguments of ``adopt``."""
        found: dict[str, Any] = {"C": self.C, "gamma": self.gamma}
        found |= {} if self.epsilon is None else {"epsilon": self.epsilon}
        if self.target_scale != "none":
            found |= {"target_scale": self.target_scale, "target_unit": self.target_unit}
        return found if self.columns is None else found | {"columns": self.columns.documents()}


class Likeliest(NamedTuple):
    """An encoding of the columns, with the kernel widths of largest evidence."""

    widths: Evidence
    columns: TableColumns | None
    X: Floats  #: (n, d) features
    places: Ints  #: (d,) the column of each


def _check_enough(model: Any) -> None:
    if model.n_window_ < LEAST:
        raise InvalidInput(f"holds {model.n_window_} examples; {LEAST} are needed to choose by", field="window")


def default_columns(columns: TableColumns) -> TableColumns:
    """Return the columns with their default encodings and a relevance of 1; ignored columns stay ignored."""
    each = tuple(
        one._replace(encoding=one.encoding if one.encoding == "ignored" else ENCODINGS[one.kind][0], relevance=1.0)
        for one in columns.each
    )
    return replace(columns, each=each)


class _TableWindow:
    """The examples of a window as rows of numbers, and the possible encodings of its columns."""

    def __init__(self, model: Any, most: int = MOST) -> None:
        View(model)  # it is fitted
        if model.kernel != "rbf":
            raise InvalidInput("parameters are chosen for the kernel 'rbf'", field="kernel")
        _check_enough(model)
        some, rows = spread_evenly(model.n_window_, most), model.window_features
        if isinstance(rows, SparseRows) and rows.shape[1] > WIDEST:
            raise InvalidInput(f"holds sparse rows of more than {WIDEST} features", field="window")
        self.model, self.n, self.some = model, some.size, some
        self.rows, self.weights = dense(rows[some]), model.window_sample_weight[some]
        self.y = model._learnt.y[some]
        self.columns: TableColumns | None = model.columns_ if model.columns is not None else None
        epsilon = float(model.epsilon_) if hasattr(model, "epsilon_") else None
        scale = model.target_scale_
        #: a scale of targets that was given, or that the cutoffs of robust losses are on, which stays
        self.fixed_scale: str | None = None if getattr(model, "_may_end_scale", False) else scale
        is_given = not isinstance(model.gamma, str)
        #: gamma where a number was given, which stays
        self.fixed: float | None = float(model.gamma_) if is_given else None
        self.present = Parameters(
            float(model.C_), float(model.gamma_), self.columns, epsilon, scale, unit_of(scale, self.y)
        )

    @property
    def defaults(self) -> Parameters:
        """The parameters that the model would have by default, except that numbers given by its user stay."""
        columns, epsilon = None if self.columns is None else default_columns(self.columns), self.present.epsilon
        gamma = self.fixed or scaling.gamma(self.features(columns)[0], self.weights)
        epsilon = 0.1 if isinstance(vars(self.model).get("epsilon"), str) else epsilon
        kind = self.fixed_scale or "none"
        return Parameters(1.0, gamma, columns, epsilon, kind, unit_of(kind, self.y))

    def judged(self, loss_of: Callable[[Parameters], float], loss: float, found: Parameters) -> TunedParameters:
        """Return the parameters of least loss: those ``found`` with ``loss``, the present ones, or the defaults."""
        present = loss_of(self.present)
        default = present if self.present == self.defaults else loss_of(self.defaults)
        best = found
        if min(present, default) <= loss:
            loss, best = (default, self.defaults) if default < present else (present, self.present)
        return TunedParameters(best.document(), loss, present, default, self.model.n_window_, 0.0)

    def ways(self) -> list[list[TableColumns | None]]:
        """Return all encodings of the columns to try, grouped by how numbers are encoded."""
        if self.columns is None or self.model.columns != "auto" or self.fixed is not None:
            return [[self.columns]]
        few = [column.kind == "number" and _is_few(self.rows[:, at]) for at, column in enumerate(self.columns.each)]
        out: list[list[TableColumns | None]] = []
        for numbers in ("standard", "normal-scores"):
            out.append([])
            for as_words in (False, True) if any(few) else (False,):
                each = tuple(
                    _encoded(column, "one-hot" if as_words and one else numbers)
                    for column, one in zip(self.columns.each, few, strict=True)
                )
                out[-1].append(replace(self.columns, each=each))
        return out

    def features(self, columns: TableColumns | None) -> tuple[Floats, Ints]:
        """Return features (n, d) by the encoding ``columns``, and the number of each feature's column (d,)."""
        if columns is not None:
            fitted = encoding.fitted(columns, self.rows, self.weights)
            places = np.unique(fitted.places, return_inverse=True)[1]
            return fitted.apply(self.rows), places if self.fixed is None else np.zeros_like(places)
        scale = feature_scale.fitted(self.model.scale, self.rows, self.weights)
        X = self.rows if scale is None else scale.apply(self.rows)
        return X, np.zeros(X.shape[1], np.int64)

    def likeliest(self, ways: list[TableColumns | None], t: Floats, places: Ints, start: Evidence | None) -> Likeliest:
        """Return the encoding among ``ways`` with the largest evidence on the examples at ``places``.

        Each search starts from the widths of the previous one, because most columns have a similar relevance in every
        encoding.
        """
        tried = []
        for columns in ways:
            X, of = self.features(columns)
            if start is not None and start.widths.size != of.max() + 1:
                start = None
            iterations = FIRST if start is None else NEXT
            start = evidence(X[places], of, t[places], iterations=iterations, start=start, fixed=self.fixed)
            tried.append(Likeliest(start, columns, X, of))
        return min(tried, key=lambda one: one.widths.loss)

    def with_widths(self, columns: TableColumns | None, widths: Floats) -> tuple[float, TableColumns | None]:
        """Return gamma, and the columns with their relevance, which is 1 for the narrowest kernel."""
        if self.fixed is not None:
            return self.fixed, columns
        gamma = float(widths.max())
        if columns is None:
            return gamma, columns
        fitted = encoding.fitted(columns, self.rows, self.weights)
        relevance = np.ones(len(columns.each))
        relevance[np.unique(fitted.places)] = widths / gamma
        each = tuple(one._replace(relevance=float(r)) for one, r in zip(columns.each, relevance, strict=True))
        return gamma, replace(columns, each=each)


def _is_few(cells: Floats) -> bool:
    values = distinct(cells)
    return bool(2 < values.size <= FEW_VALUES and (values == np.round(values)).all())


def _encoded(column: TableColumn, numbers: Encoding) -> TableColumn:
    """Return a column with relevance 1, and with the encoding ``numbers`` if it holds numbers and is not ignored."""
    is_number = column.kind == "number" and column.encoding != "ignored"
    return column._replace(encoding=numbers if is_number else column.encoding, relevance=1.0)


# -- classification ----------------------------------------------------------------------------------------------------


class _Folds:
    """Folds of a classifier's window; in each fold compiled code follows the path over C."""

    def __init__(self, window: _TableWindow, which: Ints, judging: int) -> None:
        """Divide the examples ``which`` into folds, of which the first ``judging`` are held out in turn."""
        model, y = window.model, window.y[which]
        self.which, self.judging = which, judging
        classes, y_of = np.unique(y, return_inverse=True)
        if classes.size < 2:
            raise InvalidInput("holds examples of one class alone", field="window")
        parts = splits(y_of, "k_fold", FOLDS, classes=True)
        fold = np.empty(y.size, np.int64)
        for name, (_, held_out) in enumerate(parts):
            fold[held_out] = name
        #: of each pair of classes, places in the window, fold after fold, and where the folds begin and end
        self.pairs: list[tuple[Ints, Ints]] = []
        for two in combinations(range(classes.size), 2):
            mine = np.flatnonzero(np.isin(y_of, two))
            mine = mine[np.argsort(fold[mine], kind="stable")]
            self.pairs.append((mine, np.searchsorted(fold[mine], np.arange(FOLDS + 1))))
        self.y = y_of
        self.workspace = FoldWorkspace(max(learnt.size for learnt, _ in parts))
        self.costs = window.weights[which] * model._class_weights(y)
        self.intercept, self.components = bool(model.fit_intercept), given_rank(model)

    def losses(self, Z: Floats, C: Floats) -> Floats:
        """Return the loss (p,) of held-out examples for each C (p,), with features ``Z`` scaled for a gamma of 1."""
        Z = Z[self.which]
        total = np.zeros(C.size)
        if is_mapped := self.components is not None:
            Z = nystroem.fitted(Kernel("rbf", 1.0), None, Z, self.components).apply(Z)
        for mine, edges in self.pairs:
            check()
            K, held = Z[mine] @ Z[mine].T if is_mapped else gaussian(Z[mine]), []
            positive = self.y[mine] == self.y[mine].max()
            signs, costs = np.where(positive, 1.0, -1.0), self.costs[mine]
            for begin, end in pairwise(edges[: self.judging + 1].tolist()):
                before, after, out = slice(0, begin), slice(end, None), slice(begin, end)
                f = np.full((C.size, end - begin), np.nan)
                learnt = np.concatenate([signs[before], signs[after]])
                if learnt.size and learnt.min() < learnt.max():
                    rows = [np.concatenate([K[of, before], K[of, after], K[of, out]], axis=1) for of in (before, after)]
                    cost = np.concatenate([costs[before], costs[after]])
                    f[:] = self.workspace.decisions(np.concatenate(rows), learnt, cost, C, intercept=self.intercept)
                held.append(f)
            f, truth = np.concatenate(held, axis=1), positive[: edges[self.judging]]
            total += _log_losses(f, truth) + WRONG * ((f > 0) != truth).mean(axis=1)
        return total / len(self.pairs)

    def best(self, Z: Floats) -> tuple[float, float]:
        """Return the least loss over the values of C that are tried, and the C with this loss."""
        losses, C = np.empty(0), np.empty(0)
        for more in COSTS:
            losses, C = np.concatenate([losses, self.losses(Z, more)]), np.concatenate([C, more])
            if losses.argmin() < C.size - 1:
                break
        return float(losses.min()), float(C[losses.argmin()])


def _log_losses(f: Floats, positive: Bools) -> Floats:
    """Return the mean log loss (p,) of decisions (p, m) after the best sigmoid; infinite if a decision is NaN.

    The target probabilities are Platt's, a little above 0 and below 1, so that a best sigmoid exists even if no label
    is wrong.
    """
    most, m = int(np.count_nonzero(positive)), positive.size
    t = np.where(positive, (most + 1.0) / (most + 2.0), 1.0 / (m - most + 2.0))
    known = np.isfinite(f).all(axis=1)
    f = np.where(np.reshape(known, (-1, 1)), f, 0.0)
    f = f / np.maximum(f.std(axis=1), 1e-300)[:, None]
    a, b, least = np.zeros(len(f)), np.full(len(f), math.log((most + 1.0) / (m - most + 1.0))), np.full(len(f), np.inf)
    for _ in range(20):
        z = a[:, None] * f + b[:, None]
        least = np.minimum(least, np.logaddexp(0.0, np.where(positive, -z, z)).mean(axis=1))
        p = 1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0)))
        v, r = np.maximum(p * (1.0 - p), 1e-12), p - t
        aa, ab, bb = (v * f * f).sum(axis=1) + 1e-9, (v * f).sum(axis=1), v.sum(axis=1) + 1e-9
        ga, gb = (r * f).sum(axis=1), r.sum(axis=1)
        determinant = np.maximum(aa * bb - ab * ab, 1e-12)
        by = np.clip([(bb * ga - ab * gb) / determinant, (aa * gb - ab * ga) / determinant], -2.0, 2.0)
        a, b = a - by[0], b - by[1]
        if np.abs(by).max() < SMALL:
            break
    return np.where(known, least, np.inf)


def _of_classes(window: _TableWindow) -> TunedParameters:
    t = outputs_of(window.y, classes=True)
    rough, fine = spread_evenly(window.n, ROUGH), spread_evenly(window.n)
    is_large = window.n >= MANY
    folds = _Folds(window, np.arange(window.n), FEWER if is_large else FOLDS)
    some_folds = _Folds(window, fine, FEWER) if is_large else folds
    tried, ways, start = [], window.ways(), None
    for some in ways:
        found, columns, X, places = window.likeliest(some, t, rough, start)
        start = found
        loss, C = some_folds.best(X * np.sqrt(found.widths[places])) if len(ways) > 1 else (0.0, 0.0)
        tried.append((loss, C, found, columns, X, places))
    loss, C, found, columns, X, places = min(tried, key=lambda one: one[0])
    if fine.size > rough.size:
        found = evidence(X[fine], places, t[fine], iterations=LATER, start=found, fixed=window.fixed)
    if fine.size > rough.size or len(ways) == 1:
        loss, C = folds.best(X * np.sqrt(found.widths[places]))
    parameters = Parameters(C, *window.with_widths(columns, found.widths))
    return window.judged(lambda given: _loss_of(folds, window, given), loss, parameters)


def _loss_of(folds: _Folds, window: _TableWindow, given: Parameters) -> float:
    """Return the mean loss of held-out examples for the parameters ``given``."""
    Z = window.features(given.columns)[0] * math.sqrt(given.gamma)
    return float(folds.losses(Z, np.array([given.C]))[0])


# -- regression --------------------------------------------------------------------------------------------------------


def _of_values(window: _TableWindow) -> TunedParameters:
    parts = splits(window.y, "k_fold", FEWER, classes=False)
    best = _most_evident(window, window.fixed_scale or "none")
    errors = _errors_of(window, parts, best)
    if window.fixed_scale is None and (kind := worth_a_try(window.y)) != "none":
        scaled = _most_evident(window, kind)
        of_scaled = _errors_of(window, parts, scaled)
        less = errors - of_scaled
        if less.mean() > less.std() / math.sqrt(less.size):
            best, errors = scaled, of_scaled
    return window.judged(lambda given: float(_errors_of(window, parts, given).mean()), float(errors.mean()), best)


def _most_evident(window: _TableWindow, kind: str) -> Parameters:
    """Return the parameters with the largest evidence for targets on the target scale ``kind``."""
    y = target_scale.learnt(kind, window.y)
    t = outputs_of(y, classes=False)
    rough, fine = spread_evenly(window.n, ROUGH), spread_evenly(window.n)
    every_way = [columns for some in window.ways() for columns in some]
    found, columns, X, places = window.likeliest(every_way, t, rough, None)
    if fine.size > rough.size:
        found = evidence(X[fine], places, t[fine], iterations=LATER, start=found, fixed=window.fixed)
    deviation, noise = float(y.std()) or 1.0, math.sqrt(found.noise)
    C, epsilon = LAPLACE * found.signal / noise * deviation, OF_NOISE * noise * deviation
    if not isinstance(window.model.epsilon, str):
        epsilon = float(window.model.epsilon)
    return Parameters(C, *window.with_widths(columns, found.widths), epsilon, kind, unit_of(kind, window.y))


def _errors_of(window: _TableWindow, parts: list[Split], given: Parameters) -> Floats:
    """Return the errors of all held-out examples, (n,), for the parameters ``given``, in units of y."""
    X, _ = window.features(given.columns)
    named = {name: getattr(given, name) for name in ("C", "gamma", "epsilon", "target_scale")}
    model = window.model._like(**named, columns=None, scale="none", components=given_rank(window.model))
    errors = []
    for seen, judging in parts:
        model.fit(X[seen], window.y[seen], sample_weight=window.weights[seen])
        errors.append(model.errors_of(model.predict(X[judging]), window.y[judging]))
    return np.concatenate(errors)


# -- positive and unlabelled examples ----------------------------------------------------------------------------------


def _of_kinds(model: Any) -> TunedParameters:
    View(model)  # it is fitted
    _check_enough(model)
    folds = model._folds()
    if min(folds.sizes) < FEWEST:
        raise InvalidInput(f"holds fewer than {FEWEST} positive or unlabelled examples to choose by", field="window")
    return choose_lam(folds, model.prior_, model.n_window_, float(model.lam_))


def choose_lam(folds: Folds, prior: float, n: int, present: float = LAM) -> TunedParameters:
    """Return the lam with the least risk on the folds of a window of ``n`` examples; ``present`` is the lam in use."""
    started = time.thread_time()
    if min(folds.sizes) < FEWEST:
        return TunedParameters({"lam": LAM}, math.inf, math.inf, math.inf, n, 0.0)
    risks = folds.risks(prior)
    for lam in (present, LAM):
        risks[lam] = risks[lam] if lam in risks else folds.risk(prior, lam)
    best = min(risks, key=lambda lam: risks[lam])
    return TunedParameters({"lam": best}, risks[best], risks[present], risks[LAM], n, time.thread_time() - started)
