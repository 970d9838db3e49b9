"""Pictures of models: their examples, boundaries, sizes and times."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from docs.generate.figures.drawing import BLUE, GREEN, GREY, ORANGE, RED, boundary, figure, two_classes
from livesvm import (
    FrankWolfeSVC,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    conformal,
    drift,
    influences,
    suspected_labels,
)
from livesvm.service.demo.data import fisher_river


def replace_svc() -> Figure:
    """Time an update and training again, over six months of the river."""
    days = fisher_river.examples(fisher_river.load())
    days = fisher_river.scale_by(days[:731], days)
    model = IncrementalSVC(C=1e4, gamma=0.1).fit(days.X[:731], days.y[:731])
    updates, trainings = [], []
    for month in range(6):
        new = slice(731 + 30 * month, 761 + 30 * month)
        updates.append(1000 * model.update(add=(days.X[new], days.y[new]), remove=model.keys_[:30]).seconds)
        begin = process_time()
        SVC(C=1e4, gamma=0.1).fit(model.window_X, model.window_y)
        trainings.append(1000 * (process_time() - begin))
    made, axes = figure()
    months = np.arange(6)
    axes.bar(months - 0.2, trainings, 0.4, color=GREY, label="train SVC again")
    axes.bar(months + 0.2, updates, 0.4, color=BLUE, label="update, 30 days in and 30 out")
    axes.set(xlabel="month", ylabel="milliseconds", yscale="log", ylim=(0.3, 3e3))
    axes.legend(frameon=False)
    return made


def free() -> Figure:
    """Show how the share of free examples, and with it the cost of an update, depends on gamma."""
    X, y = make_moons(700, noise=0.25, random_state=0)
    gammas, shares, costs = np.geomspace(0.1, 300, 8), [], []
    for gamma in gammas:
        model = IncrementalSVC(C=10.0, gamma=gamma).fit(X[:600], y[:600])
        shares.append(100 * model.window_is_free.mean())
        costs.append(1000 * model.update(add=(X[600:630], y[600:630]), remove=model.keys_[:30]).seconds)
    made, (left, right) = figure(2)
    left.semilogx(gammas, shares, "o-", color=BLUE)
    left.set(xlabel="gamma", ylabel="free examples, %")
    right.plot(shares, costs, "o", color=ORANGE)
    right.set(xlabel="free examples, %", ylabel="update of 30, ms")
    return made


def labels() -> Figure:
    """Circle the first suspects among examples of which twelve have wrong labels."""
    X, y = make_moons(200, noise=0.15, random_state=0)
    wrong = np.random.default_rng(0).choice(200, size=12, replace=False)
    given = y.copy()
    given[wrong] = 1 - given[wrong]
    first = list(suspected_labels(IncrementalSVC(C=10.0, gamma=1.0).fit(X, given)).keys[:12])
    made, axes = figure()
    two_classes(axes, X, given)
    axes.scatter(*X[wrong].T, marker="x", c=RED, s=40, label="wrong label")
    axes.scatter(*X[first].T, facecolors="none", edgecolors="black", s=90, label="first twelve suspects")
    axes.legend(frameon=False, loc="upper right")
    return made


def robust() -> Figure:
    """Draw the boundaries of an ordinary and a robust model."""
    X, y = make_moons(160, noise=0.15, random_state=1)
    wrong = np.random.default_rng(1).choice(160, size=12, replace=False)
    y[wrong] = 1 - y[wrong]
    model = IncrementalSVC(C=30.0, gamma=3.0).fit(X, y)
    path = model.outlier_path("s")
    made, axes = figure(2)
    for one, (name, shown) in zip(axes, {"ordinary": model, "robust": path.at(path.end)}.items(), strict=True):
        two_classes(one, X, y)
        boundary(one, shown)
        one.set_title(name, fontsize=10)
    return made


def fraud() -> Figure:
    """Show the estimated precision and recall for each alert budget."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(1.5, 0.7, size=(90, 2)), rng.normal(-0.5, 1.0, size=(210, 2))])
    model = IncrementalPUClassifier(gamma=0.5).fit(X, np.r_[np.ones(40), np.zeros(260)].astype(int))
    budgets = np.linspace(0.02, 0.5, 25)
    cuts = [model.threshold(alerts=budget) for budget in budgets]
    made, axes = figure()
    axes.plot(100 * budgets, [100 * min(1.0, cut.precision) for cut in cuts], color=BLUE, label="precision, estimated")
    axes.plot(100 * budgets, [100 * cut.recall for cut in cuts], color=ORANGE, label="recall")
    axes.set(xlabel="alert budget, % of the unlabelled", ylabel="%", ylim=(0, 105))
    axes.legend(frameon=False)
    return made


def large() -> Figure:
    """Time the classifier for large data by the number of examples."""
    X, y = make_moons(9000, noise=0.2, random_state=0)
    numbers, seconds, right = [500, 1000, 2000, 4000, 8000], [], []
    FrankWolfeSVC(C=10.0, gamma=1.0).fit(X[:100], y[:100])
    for n in numbers:
        begin = process_time()
        model = FrankWolfeSVC(C=10.0, gamma=1.0).fit(X[:n], y[:n])
        seconds.append(process_time() - begin)
        right.append(100 * model.score(X[8000:], y[8000:]))
    made, (left, other) = figure(2)
    left.loglog(numbers, seconds, "o-", color=BLUE)
    left.set(ylabel="processor time, s")
    other.semilogx(numbers, right, "o-", color=GREEN)
    other.set(ylabel="accuracy, %")
    for one in (left, other):
        one.set_xticks(numbers, map(str, numbers))
        one.set_xticks([], minor=True)
        one.set_xlabel("examples")
    return made


def sizes() -> Figure:
    """Show the memory of a model by the number of its examples."""
    X, y = make_moons(1600, noise=0.2, random_state=0)
    numbers, held, cool = [100, 200, 400, 800, 1600], [], []
    for n in numbers:
        model = IncrementalSVC(C=10.0, gamma=1.0).fit(X[:n], y[:n])
        held.append(model.held_bytes / 2**20)
        cool.append((model.held_bytes - model.hot_bytes) / 2**20)
    made, axes = figure()
    axes.loglog(numbers, held, "o-", color=ORANGE, label="while it is updated")
    axes.loglog(numbers, cool, "o-", color=BLUE, label="without kernel rows and factor")
    axes.set(xlabel="examples", ylabel="MiB")
    axes.legend(frameon=False)
    return made


def examples() -> Figure:
    """Draw the three sets of examples with the margin of their model."""
    X, y = make_moons(120, noise=0.22, random_state=3)
    model = IncrementalSVC(C=1.0, gamma=1.0).fit(X, y)
    is_free = model.window_is_free
    is_bounded = ~is_free & (np.abs(model.window_coefficients) > 0)
    made, axes = figure()
    two_classes(axes, X, y)
    axes.scatter(*X[is_free].T, facecolors="none", edgecolors="black", s=80, label="free")
    axes.scatter(*X[is_bounded].T, marker="s", facecolors="none", edgecolors=RED, s=60, label="bounded")
    axes.scatter([], [], c=GREY, s=14, label="zero")
    boundary(axes, model, (-1.0, 0.0, 1.0), linestyles=["dashed", "solid", "dashed"])
    axes.legend(frameon=False, loc="upper right")
    return made


def unlearning() -> Figure:
    """Compare decisions after unlearning with those of a model that never saw the examples."""
    X, y = make_moons(120, noise=0.2, random_state=0)
    model = IncrementalSVC(C=10.0, gamma=1.0).fit(X, y)
    before = model.decision_function(X)
    model.update(remove=model.keys_[:20])
    never = IncrementalSVC(C=10.0, gamma=1.0).fit(X[20:], y[20:]).decision_function(X)
    made, (left, right) = figure(2)
    for one, mine, name in (
        (left, before, "before unlearning"),
        (right, model.decision_function(X), "after unlearning"),
    ):
        one.plot(never, mine, ".", color=BLUE)
        one.set(xlabel="a model that never saw them", ylabel=name)
        one.set_title(f"largest difference {np.abs(mine - never).max():.1g}", fontsize=10)
    return made


def explain() -> Figure:
    """Draw the intervals of a regression, and the examples that decide one row of a classifier."""
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 6, size=90)
    level = IncrementalSVR(C=10.0, gamma=0.5).fit(x[:, None], np.sin(x) + rng.normal(scale=0.25, size=90))
    along = np.linspace(0, 6, 120)[:, None]
    low, high = conformal(level).intervals(along, coverage=0.9)
    made, (left, right) = figure(2)
    left.plot(x, level.window_y, "o", color=BLUE, markersize=3)
    left.plot(along, level.predict(along), color=ORANGE)
    left.fill_between(along[:, 0], low, high, color=ORANGE, alpha=0.2, linewidth=0)
    left.set_title("how sure: an interval with a coverage of 0.9", fontsize=10)
    X, y = make_moons(120, noise=0.2, random_state=3)
    model, row = IncrementalSVC(C=3.0, gamma=1.0).fit(X, y), np.array([[0.5, 0.35]])
    found = influences(model, row)
    moved = (found.decisions - found.without)[:, 0]
    two_classes(right, X, y)
    boundary(right, model)
    most = np.argsort(-np.abs(moved))[:8]
    style = {"facecolors": "none", "edgecolors": "black"}
    right.scatter(*X[[found.keys[place] for place in most]].T, s=3000 * np.abs(moved[most]), **style)
    right.scatter(*row.T, marker="*", color=RED, s=120, zorder=3)
    right.set_title("why: the examples that decide the star", fontsize=10)
    return made


def drift_found() -> Figure:
    """Draw the errors of a window that turned over, and those of the newest examples by shorter windows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] * np.where(np.arange(300) < 240, 1, -1) > 0, 1, -1)
    found = drift(IncrementalSVC(C=1.0, gamma=0.5).fit(X, y))
    made, (left, right) = figure(2)
    left.bar(np.arange(found.rolling.size), found.rolling, color=BLUE)
    left.set(xlabel="eighth of the window, oldest first", ylim=(0, 1))
    left.set_title("leave-one-out error", fontsize=10)
    windows = [("all 300", found.present)]
    windows += [(f"newest {one.value:g}", one.error) for one in found.remedies if one.kind == "window"]
    names, errors = zip(*windows, strict=True)
    right.barh(names, errors, color=[GREY] + [GREEN] * (len(errors) - 1))
    right.invert_yaxis()
    right.set_title(f"error of the newest {found.newest}, by shorter windows", fontsize=10)
    return made


def window() -> Figure:
    """Draw which examples a window of 30 holds before and after an update."""
    made, axes = figure(height=1.8)
    times = np.arange(60)
    for level, first, name in ((1, 10, "before"), (0, 20, "after")):
        held = (times >= first) & (times < first + 30)
        axes.scatter(times, np.full(60, level), c=np.where(held, BLUE, "#d5d9df"), s=26, linewidths=0)
        axes.add_patch(_frame(first - 0.6, level - 0.28, 30.2, 0.56))
        axes.text(-1.5, level, name, ha="right", va="center", fontsize=9)
    axes.set(xlim=(-8, 61), ylim=(-0.6, 1.6), xlabel="time of an example")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return made


def _frame(x: float, y: float, width: float, height: float) -> Rectangle:
    return Rectangle((x, y), width, height, fill=False, edgecolor="black")


FIGURES: dict[str, Callable[[], Figure]] = {
    draw.__name__: draw
    for draw in (
        replace_svc,
        free,
        labels,
        robust,
        fraud,
        large,
        sizes,
        examples,
        unlearning,
        explain,
        drift_found,
        window,
    )
}
