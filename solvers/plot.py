"""Pictures of models and of what analyses find. Each function draws on matplotlib axes, new ones by default.

>>> from livesvm import IncrementalSVC, plot
>>> model = IncrementalSVC(C=1.0, gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
>>> axes = plot.decisions(model)
>>> axes.get_xlabel()
'decision'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers.errors import InvalidInput

if TYPE_CHECKING:  # what is drawn is there already, and a picture of it needs nothing else
    from livesvm.solvers.analyses.conformal import Conformal
    from livesvm.solvers.analyses.leave_one_out.influence import DataValues, Influences
    from livesvm.solvers.analyses.regularization.path import RegularizationPath
    from livesvm.solvers.analyses.suspects import SuspectedLabels
    from livesvm.solvers.analyses.tuning.tune import Tuning
    from livesvm.solvers.models.base import LiveEstimator
    from livesvm.solvers.models.record import Record

__all__ = [
    "calibration",
    "coverage",
    "decisions",
    "feed",
    "influences",
    "losses",
    "path",
    "record",
    "suspected_labels",
    "tuning",
    "update",
]

BINS = 40
LEVELS = np.linspace(0.5, 0.98, 13)  #: of coverage
CAME, LEFT, CHANGED, STAYED = "C2", "C3", "C0", "0.6"
MOST_PARTS, FEWEST = 32, 10  #: of a record that are drawn, and examples of each but the last
NAME = 28  #: characters of a name that are drawn


def decisions(model: LiveEstimator, axes: Any = None) -> Any:
    """Draw the decisions of the window, and which examples are free.

    Parameters
    ----------
    model : live estimator
        A trained model.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        Of classes a histogram of f(x) for each, of several classes of the decision for the own class in the pair where
        it is least. Of regression predictions against targets. Free examples are marked.
    """
    axes = _axes(axes)
    y, free = np.asarray(model.window_y), np.asarray(model.window_is_free)
    found = _decided(model, model.window_X, y)
    if not hasattr(model, "decision_function"):
        axes.plot(y, found, ".", color="C0", label="others")
        axes.plot(y[free], found[free], "o", color="C1", fillstyle="none", label="free")
        if y.size:
            axes.axline((float(y[0]), float(y[0])), slope=1, color="0.5", linewidth=0.8)
        axes.set(xlabel="target", ylabel="prediction")
        axes.legend()
        return axes
    edges = np.histogram_bin_edges(found, BINS)
    axes.hist([found[y == label] for label in np.unique(y)], edges, stacked=True, label=[str(v) for v in np.unique(y)])
    axes.plot(found[free], np.zeros(np.count_nonzero(free)), "|", color="black", markersize=14, label="free")
    axes.axvline(0.0, color="0.5", linewidth=0.8)
    axes.set(xlabel="margin of the own class" if _has_several(model) else "decision", ylabel="examples")
    axes.legend()
    return axes


def _has_several(model: Any) -> bool:
    return hasattr(model, "classes_") and model.classes_.size > 2


def _decided(model: Any, X: Any, y: NDArray[Any]) -> NDArray[Any]:
    """Return predictions or f(x), (m,); of several classes the least decision for the class ``y`` against another one.

    It is NaN where the model does not know ``y``.
    """
    if not _has_several(model):
        return np.asarray((model.decision_function if hasattr(model, "decision_function") else model.predict)(X))
    from livesvm.solvers.analyses.suspects import margins

    place = {label: i for i, label in enumerate(model.classes_.tolist())}
    own = np.array([place.get(label, -1) for label in y.tolist()], np.int64)
    there = np.bincount([place[label] for label in np.asarray(model.window_y).tolist()], minlength=len(place))
    return np.where(own >= 0, margins(model.predictor().decision_function(X), np.maximum(own, 0), there)[0], np.nan)


def update(before: LiveEstimator, after: LiveEstimator, axes: Any = None) -> Any:
    """Draw what an update changed.

    Parameters
    ----------
    before : live estimator
        The model as it was, such as ``copy.deepcopy(model)`` before the update.
    after : live estimator
        The same model after it.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        Decisions before and after of the examples that stayed, got another label, came and left; of several classes
        the margin of their own class, as ``decisions`` has it.
    """
    axes = _axes(axes)
    old, new = (dict(zip(one.keys_, np.asarray(one.window_y).tolist(), strict=True)) for one in (before, after))
    stayed = [key for key in new if key in old]
    for label, window, names, colour in (
        ("stayed", after, [key for key in stayed if new[key] == old[key]], STAYED),
        ("relabelled", after, [key for key in stayed if new[key] != old[key]], CHANGED),
        ("left", before, [key for key in old if key not in new], LEFT),
        ("came", after, [key for key in new if key not in old], CAME),
    ):
        if not names:
            continue
        place = {key: at for at, key in enumerate(window.keys_)}
        places = np.array([place[name] for name in names], np.int64)
        rows, own = _rows(window.window_X, places), np.asarray(window.window_y)[places]
        x, y = (_decided(model, rows, own) for model in (before, after))
        axes.plot(x, y, ".", color=colour, label=f"{len(names)} {label}")
    axes.axline((0.0, 0.0), slope=1, color="0.5", linewidth=0.8)
    what = "margin of the own class" if _has_several(after) else "decision"
    axes.set(xlabel=f"{what} before", ylabel=f"{what} after")
    axes.legend()
    return axes


def _rows(X: Any, places: NDArray[np.int64]) -> Any:
    """Return some rows of an array, a sparse array, or a list of mappings."""
    return [X[place] for place in places.tolist()] if isinstance(X, list) else X[places]


def losses(
    losses: ArrayLike,
    at: Sequence[Any] | None = None,
    *,
    drift: Sequence[Any] = (),
    window: int = 100,
    label: str = "loss",
    axes: Any = None,
) -> Any:
    """Draw losses of predictions in the order in which they were made.

    Parameters
    ----------
    losses : array_like, shape (n,)
        Such as ``y_predicted != y`` or ``abs(y_predicted - y)``.
    at : sequence of length n, or None, default None
        Times or positions; None: 0 to n - 1.
    drift : sequence, default ()
        Where change was found, as ``at`` has it.
    window : int, default 100
        How many predictions the moving mean is over.
    label : str, default "loss"
        What the losses are.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        The mean of the newest ``window`` losses, and of all so far.
    """
    axes, values = _axes(axes), np.asarray(losses, np.float64)
    x = np.arange(values.size) if at is None else at
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, values.size + 1)
    starts = np.maximum(0, ends - window)
    mark = "." if values.size == 1 else ""
    axes.plot(x, (sums[ends] - sums[starts]) / (ends - starts), marker=mark, label=f"newest {window}")
    axes.plot(x, sums[1:] / ends, color="0.5", label="all so far")
    for place, where in enumerate(drift):
        axes.axvline(where, color="C3", linestyle="--", label=None if place else "drift")
    axes.set_ylabel(label)
    axes.legend()
    return _with_short_dates(axes)


def record(found: Record | None, axes: Any = None) -> Any:
    """Draw how often a model was right about examples before it learnt them, over time.

    Parameters
    ----------
    found : Record
        Such as ``model.record``, which is None before the first update of a model.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        By consecutive parts the share of right labels, or the error of numbers, with those of the naive predictions.
    """
    if found is None or not found.n:
        raise InvalidInput("there is no record yet; it begins with the first update after fit", field="found")
    axes, parts = _axes(axes), found.history
    n = np.array([part.n for part in parts])
    starts = np.arange(0, n.size, max(-(-n.size // MOST_PARTS), -(-FEWEST // int(n[0]))))
    sizes = np.add.reduceat(n, starts)
    for name, label, colour in (("error", "model", "C0"), ("naive_error", "naive", "0.5")):
        lately = getattr(found.lately, name)
        shown = np.add.reduceat(n * [getattr(part, name) for part in parts], starts) / sizes
        if found.prices is None:
            shown, lately = 1.0 - shown, 1.0 - lately
        axes.stairs(shown, np.cumsum([0, *sizes]), color=colour, baseline=None, label=f"{label}, lately {lately:.3g}")
    axes.set(xlabel="examples", ylabel="share of right labels" if found.prices is None else found.loss)
    axes.legend()
    return axes


def path(found: RegularizationPath, X: ArrayLike, y: ArrayLike | None = None, axes: Any = None) -> Any:
    """Draw the error on given rows along a path, the path's best interval, and the number of support vectors.

    Parameters
    ----------
    found : RegularizationPath
        A path of two classes, regression or one class.
    X, y : array_like, shapes (m, d) and (m,)
        Rows that the model has not seen, as ``validation_error`` takes them.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the error.
    """
    curve, turns = found.validation_error(X, y), found.breakpoints
    best = curve.best()
    counts = [found.sizes(found.minimum).n_support, *turns.n_support]
    x = np.concatenate([[found.minimum], np.repeat(turns.value, 2), [found.maximum]])
    curves = [
        ("error", np.repeat(curve.edges, 2)[1:-1], np.stack([curve.left, curve.right], axis=1).ravel()),
        ("support vectors", x, np.repeat(counts, 2)),
    ]
    return two_scales(_axes(axes), found.parameter, curves, (best.low, best.high))


def two_scales(
    axes: Any, x_label: str, curves: Sequence[Any], best: tuple[float, float] | None = None, *, is_log: bool = True
) -> Any:
    """Draw up to two curves, each with its own scale, and an interval of x that is shaded; return the axes."""
    axes.set_xlabel(x_label)
    if is_log:
        axes.set_xscale("log")
    scales = (axes, axes.twinx()) if curves[1:] else (axes,)
    for own, (label, x, y), colour in zip(scales, curves, ("C0", "C1"), strict=False):
        own.plot(x, y, colour, linewidth=1.2)
        own.set_ylabel(label, color=colour)
        own.tick_params(axis="y", labelcolor=colour)
    if best is not None:
        axes.axvspan(*best, color="C2", alpha=0.3)
    return axes


def tuning(found: Tuning, axes: Any = None) -> Any:
    """Draw the error over C and gamma, or over C alone for a kernel without gamma.

    Parameters
    ----------
    found : Tuning
        What ``tune`` returned.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        With the best marked.
    """
    axes = _axes(axes)
    best = found.parameters["C"]
    if len(found.errors) == 1:
        return two_scales(axes, "C", [("error", found.C, found.errors[0])], (best, best))
    return field(axes, ("C", "gamma", "error"), found.C, found.gammas, found.errors, (best, found.parameters["gamma"]))


def field(
    axes: Any, labels: tuple[str, str, str], x: Any, y: Any, values: NDArray[Any], best: tuple[float, float]
) -> Any:
    """Draw values (n_y, n_x) over two logarithmic axes, by colour; NaN is left blank. Return the axes."""
    axes.set(xscale="log", yscale="log", xlabel=labels[0], ylabel=labels[1])
    mesh = axes.pcolormesh(x, y, np.ma.masked_invalid(values), shading="nearest", cmap="viridis")
    axes.figure.colorbar(mesh, label=labels[2], ax=axes)
    axes.plot(*best, "o", color="white", markeredgecolor="black")
    return axes


def calibration(y: ArrayLike, probability: ArrayLike, *, bins: int = 10, axes: Any = None) -> Any:
    """Draw how often rows are positive, by the probability that was predicted for them.

    Parameters
    ----------
    y : array_like, shape (m,)
        Labels, of two classes; the larger one is positive.
    probability : array_like, shape (m,)
        Such as ``model.predict_proba(X)[:, 1]``, of rows that the model has not seen.
    bins : int, default 10
        How many groups of equal size the rows are put into.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        Those of scikit-learn's ``CalibrationDisplay``.
    """
    from sklearn.calibration import CalibrationDisplay

    given, drawn = {"n_bins": bins, "strategy": "quantile", "name": "model"}, _axes(axes)
    shown = CalibrationDisplay.from_predictions(y, probability, pos_label=max(np.unique(y)), ax=drawn, **given)
    return shown.ax_


def coverage(found: Conformal, X: Any, y: ArrayLike, axes: Any = None) -> Any:
    """Draw the share of targets inside their intervals or sets, by the share that was asked for.

    Parameters
    ----------
    found : Conformal
        What ``conformal`` returned.
    X, y : array_like, shapes (m, d) and (m,)
        Rows that the model has not seen.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        On the diagonal as many are inside as was asked for; above it more.
    """
    axes, targets, inside = _axes(axes), np.asarray(y), []
    for level in LEVELS:
        if found.classes is None:
            low, high = found.intervals(X, level)
            inside.append(np.mean((low <= targets) & (targets <= high)))
        else:
            of_target = found.classes == targets[:, None]  # none is the class of a label that the model does not know
            inside.append(np.mean((found.sets(X, level) & of_target).any(axis=1)))
    axes.axline((0.5, 0.5), slope=1, color="0.5", linewidth=0.8)
    axes.plot(LEVELS, inside, ".-")
    axes.set(xlabel="coverage asked for", ylabel="share inside")
    return axes


def suspected_labels(found: SuspectedLabels, most: int = 20, axes: Any = None) -> Any:
    """Draw the worst labels of a window, each with the label that fits better.

    Parameters
    ----------
    found : SuspectedLabels
        What ``suspected_labels`` returned.
    most : int, default 20
        How many are shown.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        Bars of the margin, the worst on top.
    """
    rows = found.head(most)
    names = [f"{_short(row['key'])}: {_short(row['label'])}, rather {_short(row['better'])}" for row in rows]
    return _bars(axes, names, [row["margin"] for row in rows], "margin of the given label")


def influences(found: Influences | DataValues, row: int = 0, most: int = 20, axes: Any = None) -> Any:
    """Draw the examples that matter most to a decision, or to the loss on given rows.

    Parameters
    ----------
    found : Influences or DataValues
        What ``influences`` or ``data_values`` returned, of one problem.
    row : int, default 0
        Of influences: the decision of this row is shown.
    most : int, default 20
        How many examples are shown.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        Bars of what an example adds to the decision: f(x) less f(x) of the model without it. Of data values what the
        loss would be more without it.
    """
    if hasattr(found, "values"):
        values, label = found.values, "what the loss grows by without it"
    else:
        of_rows = found
        if of_rows.without.ndim > 2:
            raise InvalidInput("several classes have a decision for each pair; draw models of two", field="found")
        if not -len(of_rows.decisions) <= row < len(of_rows.decisions):
            raise InvalidInput(f"there are {len(of_rows.decisions)} rows, but row is {row}", field="row")
        values, label = of_rows.decisions[row] - of_rows.without[:, row], "what it adds to the decision"
    order = np.argsort(-np.abs(values))[:most]
    return _bars(axes, [_short(found.keys[place]) for place in order], values[order].tolist(), label)


def _short(name: object) -> str:
    """Return a name with its middle left out if it is long."""
    text = str(name)
    return text if len(text) <= NAME else f"{text[: NAME // 2]}…{text[-NAME // 2 :]}"


def _bars(axes: Any, names: Sequence[str], values: Sequence[float], label: str) -> Any:
    longest = max(map(len, names), default=0)
    axes = _axes(axes, (max(6.4, 4.4 + 0.09 * longest), max(4.8, 1.0 + 0.2 * len(names))))
    colours = ["C3" if value < 0 else "C0" for value in values]
    axes.barh(range(len(names)), values, color=colours)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.5", linewidth=0.8)
    axes.set_xlabel(label)
    return axes


def feed(rows: Sequence[Mapping[str, Any]], forecasts: Sequence[Mapping[str, Any]] = (), axes: Any = None) -> Any:
    """Draw readings of a feed, what had been forecast for them, and the forecasts to come, with their bands.

    Parameters
    ----------
    rows : sequence of dict
        What ``Client.history(feed, step=step)`` returns: the forecasts of one step.
    forecasts : sequence of dict, default ()
        What ``Client.forecast(feed)["forecasts"]`` holds.
    axes : matplotlib.axes.Axes or None, default None
        Where to draw; None: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        With time along x.
    """
    axes, nan = _axes(axes), float("nan")
    values = [nan if row["value"] is None else row["value"] for row in rows]
    axes.plot(times_of(rows), values, "k", linewidth=0.8, label="readings")
    made: list[Any] = [next(iter(row["forecasts"]), None) for row in rows]
    if any(made):
        at = times_of(rows)
        axes.plot(at, [one["value"] if one else nan for one in made], "C0", linewidth=0.8, label="forecast")
        low, high = ([nan if one is None or one[end] is None else one[end] for one in made] for end in ("low", "high"))
        if not np.isnan(low).all():
            axes.fill_between(at, low, high, color="C0", alpha=0.2, label="band")
    if forecasts:
        axes.plot(times_of(forecasts), [one["value"] for one in forecasts], "C1.", label="to come")
        banded = [one for one in forecasts if one["low"] is not None]
        ends = [[one[name] for one in banded] for name in ("low", "high")]
        if banded:
            axes.vlines(times_of(banded), *ends, color="C1", alpha=0.5, linewidth=2.0)
    axes.set_ymargin(0.12)  # space for the legend
    axes.legend(loc="upper left", ncols=4)
    return _with_short_dates(axes)


def _with_short_dates(axes: Any) -> Any:
    """Write dates along x with what they have in common once; return the axes."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = axes.xaxis.get_major_locator()
    if isinstance(locator, AutoDateLocator):
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return axes


def times_of(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return times in the form that the axis accepts, without their zone, which is the same for all."""
    return [
        datetime.fromisoformat(row["time"]).replace(tzinfo=None) if isinstance(row["time"], str) else row["time"]
        for row in rows
    ]


def _axes(axes: Any, size: tuple[float, float] = (6.4, 4.8)) -> Any:
    if axes is not None:
        return axes
    from matplotlib.pyplot import subplots  # takes a second to import

    return subplots(layout="constrained", figsize=size)[1]
