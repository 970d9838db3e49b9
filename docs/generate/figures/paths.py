"""Pictures of paths and of certificates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from docs.generate.figures.drawing import BLUE, GREEN, GREY, ORANGE, RED, figure
from livesvm import IncrementalSVC


def choose() -> Figure:
    """Draw the validation error for every C, and the interval where it is least."""
    X, y = make_moons(400, noise=0.3, random_state=0)
    path = IncrementalSVC(C=1.0, gamma=1.0).fit(X[:200], y[:200]).regularization_path(C_min=0.01, C_max=1000.0)
    curve = path.validation_error(X[200:], y[200:])
    best = curve.best()
    made, axes = figure()
    axes.stairs(100 * curve.left, curve.edges, color=BLUE, baseline=None)
    axes.axvspan(best.low, best.high, color=GREEN, alpha=0.3, label=f"best: C from {best.low:.3g} to {best.high:.3g}")
    axes.set(xscale="log", xlabel="C", ylabel="validation error, %")
    axes.legend(frameon=False)
    return made


def relevance() -> Figure:
    """Draw how much columns count, of which two decide and two are noise, as a model has found it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    inside = X[:, 0] ** 2 + X[:, 1] ** 2 < 1.4
    names = ("age", "calls", "noise", "more noise")
    model = IncrementalSVC(C="auto", columns="auto").fit(dict(zip(names, X.T, strict=True)), inside)
    made, axes = figure(height=2.2)
    axes.barh(names[::-1], [column.relevance for column in model.columns_.each][::-1], color=BLUE)
    axes.set(xlabel="relevance")
    return made


def path() -> Figure:
    """Draw the coefficients of a small window over C, with the breakpoints."""
    X, y = make_moons(24, noise=0.3, random_state=1)
    found = IncrementalSVC(C=1.0, gamma=0.5).fit(X, y).regularization_path(C_min=0.2, C_max=3.0)
    values = np.linspace(0.2, 3.0, 400)
    coefficients = np.array([np.abs(found.coefficients(value)) for value in values])
    made, axes = figure()
    axes.plot(values, coefficients, color=BLUE, linewidth=0.9)
    for value in np.unique(found.breakpoints.value):
        axes.axvline(value, color=GREY, linewidth=0.4, zorder=0)
    axes.set(xlabel="C", ylabel="coefficients of the examples", xlim=(0.2, 3.0))
    return made


def certificate() -> Figure:
    """Place relative gaps on one axis: this package's, and those of SVC at several tolerances."""
    X, y = make_moons(300, noise=0.25, random_state=0)
    model = IncrementalSVC(C=10.0, gamma=1.0).fit(X, y)
    exact = model.certificate()
    made, axes = figure(height=2.2)
    zones = ((1e-16, 1e-8, GREEN, "exact"), (1e-8, 1e-6, BLUE, "rounded"), (1e-6, 1e-4, ORANGE, "warned"))
    for low, high, colour, name in (*zones, (1e-4, 1.0, RED, "refused")):
        axes.axvspan(low, high, color=colour, alpha=0.25)
        axes.text(np.sqrt(low * high), 0.9, name, ha="center", fontsize=9)
    axes.plot([max(exact.relative_gap, 1e-16)], [0.5], "o", color="black")
    axes.text(max(exact.relative_gap, 1e-16), 0.58, "this model", ha="center", fontsize=8)
    for tol in (1e-1, 1e-3, 1e-5):
        gap = _gap_of(SVC(C=10.0, gamma=1.0, tol=tol).fit(X, y), model, exact.dual)
        axes.plot([gap], [0.3], "s", color=GREY)
        axes.text(gap, 0.12, f"SVC,\ntol {tol:g}", ha="center", fontsize=7)
    axes.set(xscale="log", xlim=(1e-16, 1.0), ylim=(0, 1.1), xlabel="relative gap")
    axes.set_yticks([])
    return made


def _gap_of(other: SVC, model: IncrementalSVC, dual: float) -> float:
    """Return by how much the primal objective of a trained SVC is above the optimum, relative to it."""
    X = model.window_X
    signs = np.where(model.window_y == model.classes_[1], 1.0, -1.0)
    beta = np.zeros(len(X))
    beta[other.support_] = other.dual_coef_[0]
    f = other.decision_function(X)
    primal = 0.5 * beta @ (f - other.intercept_[0]) + 10.0 * np.maximum(0.0, 1.0 - signs * f).sum()
    return float(max((primal - dual) / dual, 1e-16))


FIGURES: dict[str, Callable[[], Figure]] = {draw.__name__: draw for draw in (choose, relevance, path, certificate)}
