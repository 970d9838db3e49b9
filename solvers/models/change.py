"""One update of a model: examples to add, keys to remove, and edits of the examples that stay."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.models.path_problem import ExampleUpdate
from livesvm.solvers.models.repeats import OnRepeat, admitted, checked
from livesvm.solvers.models.window import Window
from livesvm.solvers.robust.ramp_losses import WITHIN
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.robust.settings import checked as checked_robustness
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.validation import Key

DRIFT_ALARMS = "drift_alarms"
"""Name of the one change that is no parameter of the estimator: the false-alarm rate of the drift test, or None."""
TUNED = "tuned"
"""Name of the change that is the model's own choice of parameters, with its reason; no client can send it."""


@dataclass(frozen=True)
class Batch:
    """Examples to add: X (m, d), y (m,) if the task has targets, and keys and weights (m,) if given.

    An estimator takes X in any form that ``LiveEstimator.update`` takes. Times and tags are for callers that keep them.
    """

    X: Any
    y: Any = None
    keys: Any = None
    weights: Any = None
    times: NDArray[np.float64] | None = None  #: (m,) Unix seconds at which each example happened
    tags: list[list[str]] | None = None  #: the tags of each example, (m,)
    #: y as the model's numbers (m,), and all examples as the model checked them, so that it does not check them again
    targets: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    checked: ExampleUpdate | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Edits:
    """Changes of examples that stay (targets and weights by key, a factor for all weights), of C and of the loss.

    ``change`` maps names of other parameters of the estimator, or ``DRIFT_ALARMS``, to new values. ``rescale`` fits the
    scale of features again, and gamma if it depends on the scale. ``change`` and ``rescale`` cannot be combined with
    other edits, and ``LiveEstimator.learn`` does not take them.
    """

    relabel: Mapping[Key, Any] = field(default_factory=dict)
    reweight: Mapping[Key, float] = field(default_factory=dict)
    decay: float = 1.0
    C: float | None = None
    robust: Robustness | None = None
    change: dict[str, Any] | None = None
    rescale: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The new values of the estimator's parameters, by name."""
        return {name: value for name, value in (self.change or {}).items() if name not in (DRIFT_ALARMS, TUNED)}

    @property
    def tuned(self) -> dict[str, Any] | None:
        """The parameters that the model has chosen itself; None if the edits are not such a choice."""
        return (self.change or {}).get(TUNED)

    @property
    def new_C(self) -> float | None:
        """The new C as a number, given or chosen; None if C stays the same, or will be chosen later."""
        given = (self.change or {}).get("C", self.C)
        if self.tuned is not None and self.tuned["changes"]:
            chosen = self.tuned["parameters"]
            given = 0.5 / chosen["lam"] if "lam" in chosen else chosen.get("C")
        return None if isinstance(given, str) else given

    @property
    def of_parameters(self) -> bool:
        """Whether the edits change only parameters, and no examples."""
        return self.change is not None or self.rescale

    def only(self, staying: Container[Key]) -> Edits:
        """Return these edits without edits of examples that leave the window."""
        relabel = {key: y for key, y in self.relabel.items() if key in staying}
        reweight = {key: weight for key, weight in self.reweight.items() if key in staying}
        robust = self.robust
        if robust is not None:
            robust = replace(robust, outliers={key: side for key, side in robust.outliers.items() if key in staying})
        return replace(self, relabel=relabel, reweight=reweight, robust=robust)


NO_EDITS = Edits()
"""Edits that change nothing; an update that asks for a decay by 1 has the same."""


@dataclass(frozen=True)
class Change:
    """One update of a model, applied completely or not at all; a change without any part changes nothing."""

    add: Batch | None = None
    remove: Any = None  #: keys of examples that leave
    edits: Edits | None = None
    on_repeat: OnRepeat = "refuse"  #: what to do with added examples that have known keys


def batch_from_pair(add: Any, keys: Any, weights: Any) -> Batch | None:
    """Return the pair (X, y) of an update, with keys and weights, as a batch; None if there is no pair.

    Raises
    ------
    InvalidInput : it is no pair; or there are keys or weights, and no pair
    """
    if add is None:
        validation.sample_weights(weights, 0)
        validation.new_keys(() if keys is None else keys, 0, {}, ())
        return None
    if not isinstance(add, tuple | list) or len(add) != 2:
        raise InvalidType("must be a pair (X, y); for a one-class model (X, None)", field="add")
    X, y = add
    return Batch(X, y, keys, weights)


def without_repeats(
    change: Change, window: Mapping[Key, int], *, is_gram: bool = False
) -> tuple[Change, tuple[Key, ...]]:
    """Return an update without repeated rows, and the keys of rows left out; invalid parts stay, for later checks.

    If all rows are left out, the update repeats an earlier one, and changes nothing. ``window`` has the window's keys,
    oldest first; with ``is_gram`` each row holds kernel values with the window's examples and with all rows.
    """
    add, rule = change.add, checked(change.on_repeat)
    if rule == "refuse" or add is None or add.keys is None:
        return change, ()
    keys = validation.plain_keys(add.keys, "keys")
    remove = [] if change.remove is None else validation.plain_keys(change.remove, "remove")
    change = replace(change, add=replace(add, keys=keys), remove=remove)
    columns = (add.X, add.y, add.weights)
    if any(_length(column) != len(keys) for column in columns if column is not None):
        return change, ()
    rows, ignored, replaced = admitted(keys, rule, window, set(remove))
    if rows is None:
        return change, ()
    if not rows:
        return replace(change, add=None, remove=None, edits=None), tuple(ignored)
    X, y, weights = (None if column is None else _taken(column, rows) for column in columns)
    if is_gram:
        n = len(window)
        X = np.asarray(X)[:, [*range(n), *(n + row for row in rows)]]
    add = replace(add, X=X, y=y, keys=[keys[row] for row in rows], weights=weights)
    return replace(change, add=add, remove=[*remove, *replaced]), tuple(ignored)


def _length(column: Any) -> int | None:
    shape = getattr(column, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(column) if hasattr(column, "__len__") else None


def _taken(column: Any, rows: list[int]) -> Any:
    """Return the given ``rows`` of a list, an array, a matrix of scipy or a data frame."""
    if isinstance(column, list | tuple):
        return [column[row] for row in rows]
    if hasattr(column, "tocsr"):
        return column.tocsr()[rows]
    return column.iloc[rows] if hasattr(column, "iloc") else column[rows]


def edited(
    change: ExampleUpdate,
    window: Window,
    edits: Edits,
    targets: Callable[[ArrayLike, int, str], Floats],
    cutoff_rule: Callable[[float], object],
    *,
    every_example: bool,
) -> ExampleUpdate:
    """Return the change with the edited examples; with ``every_example``, all that stay get other losses.

    ``targets`` converts the targets in a field; ``cutoff_rule`` raises InvalidInput for an invalid s.

    Raises
    ------
    InvalidInput, UnknownKey, DuplicateKey : see the message
    """
    leaving = set(change.leaving)
    relabelled = validation.known_keys(edits.relabel, window.keys, field="relabel")
    reweighted = validation.known_keys(edits.reweight, window.keys, field="reweight")
    for verb, named in (("relabel", relabelled), ("reweight", reweighted)):
        for row, key in enumerate(named):
            if key in leaving:
                raise InvalidInput(f"{key!r} is also to be removed", field=verb, row=row)
    corrected, given = np.empty(0), np.empty(0)
    if relabelled:
        corrected = targets(_single(edits.relabel.values(), "relabel"), len(relabelled), "relabel")
    if reweighted:
        given = validation.sample_weights(
            _single(edits.reweight.values(), "reweight"), len(reweighted), field="reweight"
        )
    if not 0 < validation.positive(edits.decay, "decay") <= 1:
        raise InvalidInput(f"must lie in (0, 1], not {edits.decay!r}", field="decay")
    if edits.decay != 1 or edits.C is not None or edits.robust is not None or every_example:
        changing = [key for key in window.keys if key not in leaving]
    else:
        changing = list(dict.fromkeys([*relabelled, *reweighted]))
    y, weights, sides = window.targets_of(changing)
    weights *= edits.decay
    place = {key: i for i, key in enumerate(changing)}
    y[[place[key] for key in relabelled]] = corrected
    weights[[place[key] for key in reweighted]] = given
    sides[[place[key] for key in relabelled]] = WITHIN
    if edits.robust is not None:
        robust = checked_robustness(edits.robust, place)
        cutoff_rule(robust.s)
        sides[:] = WITHIN
        sides[[place[key] for key in robust.outliers]] = list(robust.outliers.values())
    return change._replace(changing=changing, new_y=y, new_weights=weights, new_sides=sides)


def _single(values: Iterable[Any], field: str) -> list[Any]:
    """Return the values given for several keys; none of them may be a collection."""
    out = list(values)
    for row, value in enumerate(out):
        if isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0:
            raise InvalidType(f"must be one value for a key, not {type(value).__name__}", field=field, row=row)
    return out
