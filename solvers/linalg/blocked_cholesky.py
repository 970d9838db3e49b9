"""The Cholesky factor of a whole block at once: panel by panel, by as many threads as ``runtime.threads`` allows.

BLAS works alone on each tile: where others use the cores too, threads of its own wait for each other longer than they
work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats

Block = Callable[[slice, slice], Floats]

PANEL = 256  #: rows that are eliminated together
TILE = 512  #: columns of a panel that one thread takes at once


def factor_block(R: Floats, m: int, block: Block) -> bool:
    """Write ``R`` with ``R'R = K`` to the upper triangle of the first ``m`` rows and columns, and nothing below it.

    ``block(rows, columns)`` gives a part of K (m, m) to keep. Says whether K is positive definite, as far as rounding
    lets it be seen; if not, ``R`` is left half done.
    """
    from scipy.linalg.lapack import dpotrf  # only loaded where it is used: a start must not wait for it

    panels = [slice(start, min(m, start + PANEL)) for start in range(0, m, PANEL)]
    ahead = block(panels[0], panels[0])
    for panel, following in zip(panels, [*panels[1:], slice(m, m)], strict=True):
        corner = ahead - _product(R, slice(max(0, panel.start - PANEL), panel.start), panel, panel)
        lower, info = dpotrf(corner.T, lower=True, clean=True, overwrite_a=True)
        if info != 0:
            return False
        R[panel, panel] = lower.T
        tiles = [slice(start, min(m, start + TILE)) for start in range(panel.stop, m, TILE)]
        works = [partial(_left_of, R, panel.start, block, following, following)]
        works += [partial(_eliminate, R, panel, lower, block, tile) for tile in tiles]
        ahead = together(works)[0]  # of the corner that comes next, all but what this panel takes from it
    return True


def _eliminate(R: Floats, panel: slice, lower: Floats, block: Block, tile: slice) -> Floats:
    """Compute one tile of a panel whose corner is factored."""
    from scipy.linalg.blas import dtrsm

    left = _left_of(R, panel.start, block, panel, tile)
    dtrsm(1.0, lower, left.T, side=1, lower=True, trans_a=True, overwrite_b=True)  # in place
    R[panel, tile] = left
    return left


def _left_of(R: Floats, done: int, block: Block, rows: slice, columns: slice) -> Floats:
    """Return what the first ``done`` rows of the factor leave of a part of K."""
    left = block(rows, columns)
    left -= _product(R, slice(0, done), rows, columns)
    return left


def _product(R: Floats, done: slice, rows: slice, columns: slice) -> Floats:
    product: Floats = R[done, rows].T @ R[done, columns]
    return product
