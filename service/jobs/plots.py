"""Plots of a job's result, as SVG or PNG: one or two curves over a parameter, with the best interval marked."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from livesvm.solvers import plot
from livesvm.solvers.runtime.types import Floats

Extension = Literal["svg", "png"]
MEDIA: dict[Extension, str] = {"svg": "image/svg+xml", "png": "image/png"}

MOST_POINTS = 500
"""Most points of a history that grows; a picture would not show more."""

_lock = threading.Lock()
"""Figures share fonts that are loaded on first use; one is drawn at a time."""


@contextmanager
def drawing(extension: Extension, out: io.BytesIO, size: tuple[float, float] = (8, 4.5)) -> Iterator[Any]:
    """Yield a figure of ``size`` inches to draw on, then write it to ``out``; equal data give equal bytes."""
    from matplotlib import rc_context  # only plots need it, and it takes a second to import
    from matplotlib.figure import Figure

    with _lock, rc_context({"svg.hashsalt": "livesvm", "svg.fonttype": "none"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(out, format=extension, dpi=120, metadata={"Date": None} if extension == "svg" else None)


@dataclass(frozen=True)
class Curve:
    """Points that are joined by lines; a jump is two points at one ``x``."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


def draw_lines(
    extension: Extension, title: str, x_label: str, x: Sequence[float], lines: Mapping[str, Sequence[float]]
) -> bytes:
    """Draw labelled lines, each of n values, over the same ``x`` (n,) with the same y axis."""
    with drawing(extension, out := io.BytesIO()) as figure:
        axes = figure.add_subplot()
        axes.set_title(title)
        axes.set_xlabel(x_label)
        for label, y in lines.items():
            axes.plot(x, y, linewidth=1.2, label=label)
        axes.legend(loc="best")
    return out.getvalue()


def draw_field(
    extension: Extension,
    title: str,
    labels: tuple[str, str, str],
    x: Sequence[float],
    y: Sequence[float],
    values: Floats,
    best: tuple[float, float],
) -> bytes:
    """Draw values (n_y, n_x) as colours over two logarithmic axes; NaN is left blank, and ``best`` is marked."""
    with drawing(extension, out := io.BytesIO()) as figure:
        axes = figure.add_subplot()
        axes.set_title(title)
        plot.field(axes, labels, x, y, values, best)
    return out.getvalue()


def draw(
    extension: Extension,
    title: str,
    x_label: str,
    curves: Sequence[Curve],
    best: tuple[float, float] | None = None,
    *,
    logarithmic: bool = True,
    logarithmic_y: bool = False,
) -> bytes:
    """Draw one or two curves over the same x axis, each with its own y scale, at the left and at the right.

    The interval ``best`` of x is shaded.
    """
    with drawing(extension, out := io.BytesIO()) as figure:
        left = figure.add_subplot()
        left.set_title(title)
        plot.two_scales(left, x_label, [(one.label, one.x, one.y) for one in curves], best, is_log=logarithmic)
        if logarithmic_y:
            left.set_yscale("log")
    return out.getvalue()
