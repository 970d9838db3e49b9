"""The tableau of an optimum: what follows from what, while nobody changes sides.

Everyone has one quantity that rests, f of the free and beta of the bound, and one that follows. A *column* says what a
unit of the first, of one example, makes of the second of everyone [Ong et al., eq. 30-34]; see ``by_pivots`` for
the inverse that it comes from.
"""

from __future__ import annotations

from typing import NamedTuple

from livesvm.solvers.problem.state import Examples
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints

MADE, CANCEL = range(2)  # entries of the size of columns

ROUNDING = 1e-13  # how far off the f of the free examples a column may put them
DEPENDENT = 1e-10  # an example whose own f hardly follows its beta, of k(x, x), is a combination of the free ones


@by_reference
class Tableau(NamedTuple):
    """The free examples F of an optimum and the inverse of their system, see ``leave_one_out.by_pivots``."""

    free: Ints  #: (F,) slots
    place: Ints  #: (slots,) where a free example stands in it, -1: not free
    free_rows: Floats  #: (F, slots) kernel rows
    A: Floats  #: (F, F)
    v: Floats  #: (F,)
    corner: float
    rows: Floats  #: every kernel row at hand
    row_of: Ints  #: (slots,) the row of a slot, -1: not at hand
    intercept: bool


@by_reference
class Columns(NamedTuple):
    """Columns of the tableau, made when first needed."""

    column_of: Ints  #: (slots,) the column of a slot, -1: not made
    values: Floats  #: (columns, slots) what a unit makes of everyone: of beta of the free, of f of the others
    db: Floats  #: (columns,) and of b
    size: Ints  #: (2,) how many; 1: the solve has been asked to stop, see ``livesvm.solvers.runtime.interrupt``
    betas: Floats  #: (F,) work
    rest: Floats  #: (F,) work


@compiled
def make_column(e: Examples, tableau: Tableau, columns: Columns, slot: int) -> bool:
    """See to it that there is a column of ``slot``; False: there cannot be."""
    if columns.column_of[slot] >= 0:
        return True
    size, place = columns.size[MADE], tableau.place[slot]
    if size == columns.db.size or (place < 0 and tableau.row_of[slot] < 0):
        return False
    out, betas, rest = columns.values[size], columns.betas, columns.rest
    free, v = tableau.free, tableau.v
    row = tableau.free_rows[place] if place >= 0 else tableau.rows[tableau.row_of[slot]]
    db = v[place] if place >= 0 else -tableau.corner
    for q in range(free.size):
        rest[q] = row[free[q]]
        db -= 0.0 if place >= 0 else v[q] * rest[q]
    for q in range(free.size):
        betas[q] = tableau.A[place, q] if place >= 0 else -v[q] - dot(tableau.A[q], rest)
    for attempt in range(2):
        for j in range(out.size):
            out[j] = db + (0.0 if place >= 0 else row[j])
        for q in range(free.size):
            add_row(betas[q], tableau.free_rows[q], out)
        worst = 0.0
        for q in range(free.size):
            rest[q] = out[free[q]] - (1.0 if q == place else 0.0)
            worst = max(worst, abs(rest[q]))
        if attempt == 1 or worst <= ROUNDING:
            break
        for q in range(free.size):  # one step of iterative refinement
            betas[q] -= dot(tableau.A[q], rest)
            db -= v[q] * rest[q]
    for q in range(free.size):
        out[free[q]] = betas[q]
    columns.db[size] = db
    if place < 0 and out[slot] <= DEPENDENT * e.diagonal[slot]:
        return False
    columns.column_of[slot] = size
    columns.size[MADE] = size + 1
    return True


@compiled
def add_row(a: float, row: Floats, out: Floats) -> None:
    """Add ``a row`` to ``out``."""
    for j in range(out.size):
        out[j] += a * row[j]


@compiled
def dot(x: Floats, y: Floats) -> float:
    """Return the inner product."""
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total
