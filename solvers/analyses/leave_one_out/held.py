"""Leave-one-out margins of a classifier's window, computed from those of an earlier window if there are any.

The margin of an example is the decision for its label against another class. In a model without the example the margin
is smaller; the difference is the example's *own part*. After an update, all decisions are new, but own parts are kept.
A path is followed only for an example without an own part that has enough influence on the model to put its label in
doubt. An own part shrinks with the coefficient, as both reach 0 together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.analyses.leave_one_out.models_without import OfPair, left_alone, of_pair
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.model_view import View
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, as_scipy
from livesvm.solvers.validation import Key

SAME = 1e-9  #: relative difference of two sums of features below which the features are the same
RENEWED = 0.5  #: share of a problem's examples with influence beyond which all their own parts are computed again


@dataclass(frozen=True)
class OwnParts:
    """The own parts of a window's examples, with data that show whether an example is unchanged.

    The columns of arrays (n, n_classes - 1) are for the other classes, in order.
    """

    kernel: Kernel
    XT: Features  #: as kernels expect them
    classes: NDArray[Any]
    keys: list[Key]
    places: Ints  #: (n,) class numbers
    marks: Floats  #: (n,) a sum of the features, with irregular weights
    costs: Floats  #: (n, n_classes - 1) largest coefficients
    own: Floats  #: (n, n_classes - 1) by how much each example raises its margin; NaN: not known
    beta: Floats  #: (n, n_classes - 1) sizes of the coefficients at that time
    age: Ints  #: (n, n_classes - 1) rankings since that time

    @cached_property
    def place_of(self) -> dict[Key, int]:
        """The place of each key in the window."""
        return dict(zip(self.keys, range(len(self.keys)), strict=True))


class ClassPair(NamedTuple):
    """The examples of two classes: ``places`` in the window, those of the first class first, and columns of margins."""

    places: Ints
    columns: Ints
    signs: Floats  #: of decisions for the label
    of: View | OfPair


def _problems(view: View, places: Ints) -> Iterator[ClassPair]:
    """Yield the problem of each pair of classes, if both classes have examples."""
    arrays = dict[str, Any]()
    for a, b in view.both_there:
        both = np.flatnonzero((places == a) | (places == b))
        is_first = places[both] == a
        of = of_pair(view, (a, b), both, arrays) if view.pairs else view
        yield ClassPair(both, np.where(is_first, b - 1, a), np.where(is_first, -1.0, 1.0), of)


def held_margins(
    view: View, places: Ints, keys: list[Key], before: OwnParts | None, tell: Callable[[int, int], None]
) -> tuple[Floats, Ints, OwnParts | None]:
    """Return the margin of each example in the model without it, (n, n_classes - 1), and the ages and own parts.

    The age (n,) of an example is the number of rankings since its oldest own part was computed. An age of -1 means that
    no path was followed, because none could put the label in doubt.

    The losses of an example must not depend on which examples the window holds, and each pair of classes must have a
    free example. Own parts are None if features do not show whether two examples are the same, as for a precomputed
    kernel.
    """
    n, n_classes, classes = places.size, len(view.labels), np.asarray(view.model.classes_)  # type: ignore[attr-defined]
    shape = n, n_classes - 1
    ahead, beta, costs, counts = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
    problems = list(_problems(view, places))
    for both, columns, signs, of in problems:
        e, slots, at = of.state.examples, of.window.slots, (both, columns)
        ahead[at], beta[at] = signs * e.f[slots], np.abs(e.beta[slots])
        costs[at] = e.levels[slots, 0] - e.levels[slots, 1]
        counts[at] = (beta[at] != 0.0) | are_free(e.segment[slots])
    kernel, XT = view.window.kernel, view.window.store.columns(view.window.slots)
    marks = _marks(XT) if kernel.gram is None and not isinstance(kernel, FunctionKernel) else None
    own, then, age = np.full(shape, np.nan), beta.copy(), np.zeros(shape, np.int64)
    is_known = before is not None and view.robustness is None and before.kernel == kernel
    if marks is not None and before is not None and is_known and np.array_equal(before.classes, classes):
        place_of = before.place_of
        was = np.array(list(map(place_of.get, keys, repeat(-1))), np.int64)
        was[(before.places[was] != places) | (np.abs(before.marks[was] - marks) > SAME * np.abs(marks))] = -1
        same = (was >= 0)[:, None] & (np.abs(before.costs[was] - costs) <= SAME * costs)
        own, then = np.where(same, before.own[was], np.nan), np.where(same, before.beta[was], beta)
        age = np.where(same, before.age[was] + 1, 0)
    least = ahead - _most_own(view) * beta  # no path leads below that
    needed = counts & (least < 0.0) if age.any() else counts
    shrunk = own * np.minimum(1.0, np.divide(beta, then, out=np.ones(shape), where=then > 0.0))
    for number, (both, columns, signs, of) in enumerate(problems):
        tell(number * n // len(problems), n)
        at = both, columns
        missing = np.flatnonzero(needed[at] & np.isnan(own[at]))
        if missing.size > RENEWED * np.count_nonzero(counts[at]):
            missing = np.flatnonzero(counts[at])
        if missing.size:
            at = both[missing], columns[missing]
            found = left_alone(of, missing, tell if len(problems) == 1 else lambda *_: None)
            shrunk[at] = own[at] = ahead[at] - signs[missing] * found
            then[at], age[at] = beta[at], 0
    is_open = counts & np.isnan(own)
    margins = ahead - np.where(counts & ~is_open, shrunk, 0.0)
    ages = np.where(counts & ~is_open, age, 0).max(axis=1)
    ages[is_open.any(axis=1) & (ages == 0) & (margins.min(axis=1) > 0.0)] = -1
    parts = None if marks is None else OwnParts(kernel, XT, classes, keys, places, marks, costs, own, then, age)
    return margins, ages, parts


def _most_own(view: View) -> float:
    """Return an upper bound of an example's own part, per unit of the example's coefficient.

    An own part is a squared distance in the kernel's feature space: from the free examples [Vapnik & Chapelle 2000], or
    without an intercept from the origin.
    """
    if view.window.kernel.is_of_distances:
        return 2.0
    return 4.0 * float(view.window.diagonal.max())


def _marks(XT: Features) -> Floats:
    """Return a sum of each example's features with irregular weights, (n,), which tells two examples apart."""
    weights = np.sin(np.arange(1.0, XT.shape[1 if isinstance(XT, SparseRows) else 0] + 1.0) ** 2)
    return np.asarray(as_scipy(XT) @ weights if isinstance(XT, SparseRows) else weights @ XT)
