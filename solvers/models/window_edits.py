"""Edits of examples that stay in the window: new targets and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.models.window import Window
from livesvm.solvers.robust.ramp_losses import WITHIN, Sides
from livesvm.solvers.robust.settings import Robustness, checked
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.validation import Key


class Edits(NamedTuple):
    """The changes of an update to examples that stay, and to the model."""

    relabel: Mapping[Key, Any]
    reweight: Mapping[Key, float]
    decay: float = 1.0
    C: float | None = None
    robust: Robustness | None = None
    every_example: bool = False  #: all examples get other losses, as a parameter of the losses has changed


NO_EDITS = Edits({}, {})


class Edited(NamedTuple):
    """The changed examples, and their new targets and weights."""

    keys: list[Key]
    y: Floats  #: (m,) targets
    weights: Floats  #: (m,)
    sides: Sides  #: (m,) of their cutoffs


NO_EXAMPLES = Edited([], np.empty(0), np.empty(0), np.empty(0, np.int8))


def edited(
    window: Window,
    edits: Edits,
    leaving: set[Key],
    targets: Callable[[ArrayLike, int, str], Floats],
    cutoff_rule: Callable[[float], object],
) -> Edited:
    """Check edits, and return the edited examples.

    ``targets`` converts the targets in a field; ``cutoff_rule`` raises InvalidInput for an invalid s.

    Raises
    ------
    InvalidInput, UnknownKey, DuplicateKey : see the message
    """
    relabelled = validation.known_keys(edits.relabel, window.keys, field="relabel")
    reweighted = validation.known_keys(edits.reweight, window.keys, field="reweight")
    for field, named in (("relabel", relabelled), ("reweight", reweighted)):
        for row, key in enumerate(named):
            if key in leaving:
                raise InvalidInput(f"{key!r} is also to be removed", field=field, row=row)
    corrected, given = np.empty(0), np.empty(0)
    if relabelled:
        corrected = targets(_single(edits.relabel.values(), "relabel"), len(relabelled), "relabel")
    if reweighted:
        given = validation.sample_weights(
            _single(edits.reweight.values(), "reweight"), len(reweighted), field="reweight"
        )
    if not 0 < validation.positive(edits.decay, "decay") <= 1:
        raise InvalidInput(f"must lie in (0, 1], not {edits.decay!r}", field="decay")
    if edits.decay != 1 or edits.C is not None or edits.robust is not None or edits.every_example:
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
        robust = checked(edits.robust, place)
        cutoff_rule(robust.s)
        sides[:] = WITHIN
        sides[[place[key] for key in robust.outliers]] = list(robust.outliers.values())
    return Edited(changing, y, weights, sides)


def _single(values: Iterable[Any], field: str) -> list[Any]:
    """Return the values given for several keys; none of them may be a collection."""
    out = list(values)
    for row, value in enumerate(out):
        if isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0:
            raise InvalidType(f"must be one value for a key, not {type(value).__name__}", field=field, row=row)
    return out
