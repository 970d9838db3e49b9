"""Updates by one path for each example: the classical method, used as the baseline [Cauwenberghs & Poggio]."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.validation import Key


def update_singly(
    model: LiveEstimator,
    add: tuple[ArrayLike, ArrayLike] | None = None,
    remove: Iterable[Key] = (),
    *,
    keys: Iterable[Key] | None = None,
) -> list[UpdateReport]:
    """Do what ``model.update`` does, by one path for each example: the new ones first, then those that leave.

    The optimum at the end is the same; the cost of reaching it is compared with that of the multiple update [Karasuyama
    & Takeuchi, section 3.4]. An error leaves the model as it was after the examples before.

    Parameters
    ----------
    model : live estimator
        It learns and forgets.
    add : tuple of array_like, or None, default None
        Features (m, d) and targets (m,) of new examples.
    remove : iterable of str or int, default ()
        Keys of examples that leave.
    keys : iterable of str or int, or None, default None
        A name for each new example; unused whole numbers by default.

    Returns
    -------
    list of UpdateReport
        One for each example.

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, update_singly
    >>> model = IncrementalSVC(C=1.0, gamma=0.5).fit([[0.0], [1.0]], [-1, 1])
    >>> [report.n for report in update_singly(model, add=([[2.0], [3.0]], [1, 1]), remove=[0])]
    [3, 4, 3]
    """
    reports = []
    if add is not None:
        from sklearn.utils import _safe_indexing

        X, y = add
        m = len(model._read(X)) if model.columns is not None else validation.matrix(X).shape[0]
        names = [None] * m if keys is None else [[key] for key in keys]
        for i, name in zip(range(m), names, strict=True):
            one = tuple(_safe_indexing(column, [i]) for column in (X, y))
            reports.append(model.update(add=one, keys=name))
    reports.extend(model.update(remove=[key]) for key in remove)
    return reports
