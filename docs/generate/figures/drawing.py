"""What several pictures use: their size and colours, two classes with a boundary, boxes with arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

BLUE, ORANGE, GREEN, RED, GREY = "#3a6fb0", "#d98032", "#3d9a6b", "#c0453b", "#8a8f98"


def figure(columns: int = 1, width: float = 7.6, height: float = 3.2, **named: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes: one, or an array of several side by side."""
    made = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = made.subplots(1, columns, **named)
    for one in np.atleast_1d(axes):
        one.spines[["top", "right"]].set_visible(False)
    return made, axes


def two_classes(axes: Axes, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Draw examples of two classes, the larger label in blue."""
    colours = np.where(y == np.max(y), BLUE, ORANGE)
    axes.scatter(X[:, 0], X[:, 1], c=colours, s=14, linewidths=0)
    axes.set_xticks([])
    axes.set_yticks([])


def boundary(axes: Axes, model: Any, levels: Sequence[float] = (0.0,), **style: Any) -> None:
    """Draw where the decision of a model of two features has the given values, over the axes as they are."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    x, y = np.meshgrid(np.linspace(left, right, 90), np.linspace(low, high, 90))
    values = model.decision_function(np.c_[x.ravel(), y.ravel()]).reshape(x.shape)
    axes.contour(x, y, values, levels=list(levels), **{"colors": "black", "linewidths": 1.2, **style})


def boxes(
    places: Mapping[str, tuple[float, float, str]],
    arrows: Sequence[str],
    notes: Sequence[tuple[float, float, str]] = (),
) -> Figure:
    """Return a diagram: boxes with text, and arrows from one to another.

    Parameters
    ----------
    places : the centre of each box in [0, 10] x [0, 4] and its text, by name
    arrows : names of boxes, as in ``"a > b > c"``; what stands after a colon is written on the last arrow
    notes : text without a box, with its centre
    """
    made, axes = figure()
    axes.set(xlim=(0, 10), ylim=(0, 4))
    axes.set_axis_off()
    look = {"boxstyle": "round,pad=0.5", "facecolor": "#e8eef7", "edgecolor": BLUE}
    middle = {"ha": "center", "va": "center"}
    drawn = {
        name: axes.text(x, y, text, fontsize=9, zorder=3, bbox=look, **middle) for name, (x, y, text) in places.items()
    }
    for arrow in arrows:
        names, _, said = arrow.partition(": ")
        for start, end in pairwise(names.split(" > ")):
            axes.annotate("", places[end][:2], places[start][:2], arrowprops=_arrow(drawn[start], drawn[end]))
        x, y = (np.array(places[start][:2]) + np.array(places[end][:2])) / 2
        axes.text(x, y, said, ha="center", va="bottom", fontsize=8, color="#333", zorder=4)
    for x, y, text in notes:
        axes.text(x, y, text, fontsize=8, color="#333", **middle)
    return made


def _arrow(start: Any, end: Any) -> dict[str, Any]:
    ends = {"patchA": start.get_bbox_patch(), "patchB": end.get_bbox_patch(), "shrinkA": 2, "shrinkB": 2}
    return {"arrowstyle": "-|>", "color": "#444", **ends}
