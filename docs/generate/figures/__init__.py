"""The pictures of the pages, by name: each is drawn by a function from what the code does when it is asked."""

from __future__ import annotations

import io
from collections.abc import Callable

import matplotlib
from matplotlib.figure import Figure

from docs.generate.figures import diagrams, feeds, models, paths

Draw = Callable[[], Figure]
FIGURES: dict[str, Draw] = {**models.FIGURES, **paths.FIGURES, **feeds.FIGURES, **diagrams.FIGURES}
"""The function that draws the picture of this name."""


def as_svg(draw: Draw) -> bytes:
    """Return a picture as SVG; its text stays text, in the reader's font."""
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "livesvm"}):
        draw().savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
