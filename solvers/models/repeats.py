"""Keys that are repeated: whether their rows are refused, left out, or replace the present examples."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.validation import Key

OnRepeat = Literal["refuse", "ignore", "replace"]
RULES: tuple[OnRepeat, ...] = get_args(OnRepeat)


class Admitted(NamedTuple):
    """The effect of a rule on rows with repeated keys."""

    rows: list[int] | None = None  #: rows that are added; None: all
    ignored: Sequence[Key] = ()  #: keys of rows that are not added
    replaced: Sequence[Key] = ()  #: keys in the window whose examples are replaced by new rows


def checked(rule: Any, field: str = "on_repeat") -> OnRepeat:
    """Check a rule for repeated keys and return it; raises InvalidInput."""
    if rule not in RULES:
        raise InvalidInput(f"must be one of {', '.join(map(repr, RULES))}, not {str(rule)[:64]!r}", field=field)
    return rule  # type: ignore[no-any-return]


def admitted(
    keys: Sequence[Key],
    rule: OnRepeat,
    window: Container[Key],
    leaving: Container[Key] = (),
    left: Collection[Key] = (),
) -> Admitted:
    """Return which rows the rule admits, with the same result as if each row had been sent alone.

    Parameters
    ----------
    window : keys that are there, wherever in the window
    leaving : those of them that the same update removes by name, which it does first
    left : keys that have left, and are still known

    Raises
    ------
    DuplicateKey : the rule is to refuse, and a key is repeated; names all that are
    """
    repeats = validation.repeats(keys, window, leaving, left)
    if not repeats:
        return Admitted()
    if rule == "refuse":
        raise validation.refusal(keys, repeats, window, leaving, left)
    last = {key: row for row, key in enumerate(keys)}
    if rule == "replace":
        replaced = [key for key in last if key in window and key not in leaving]
        return Admitted(sorted(last.values()), [key for row, key in enumerate(keys) if last[key] != row], replaced)
    out = set(repeats)
    return Admitted([row for row in range(len(keys)) if row not in out], [keys[row] for row in repeats])


class Asked(NamedTuple):
    """The rows that an update adds, the keys that it removes, and the ``ignored`` keys of rows left out of it."""

    add: tuple[Any, ArrayLike | None] | None
    keys: Iterable[Key] | None
    sample_weight: ArrayLike | None
    remove: Iterable[Key] | None
    ignored: tuple[Key, ...] = ()

    @property
    def is_repeat(self) -> bool:
        """Whether all rows to add are known already: the update repeats an earlier one, and changes nothing."""
        return self.add is None and bool(self.ignored)


def settled(asked: Asked, rule: OnRepeat, window: Mapping[Key, int], *, is_gram: bool = False) -> Asked:
    """Return an update without repeated rows; invalid parts stay as they are, for later checks.

    ``window`` has the window's keys, oldest first; with ``is_gram`` each row holds kernel values with the window's
    examples and with all rows.
    """
    add = asked.add
    if checked(rule) == "refuse" or asked.keys is None or not (isinstance(add, tuple | list) and len(add) == 2):
        return asked
    keys = validation.plain_keys(asked.keys, "keys")
    remove = [] if asked.remove is None else validation.plain_keys(asked.remove, "remove")
    asked = asked._replace(keys=keys, remove=remove if asked.remove is not None else None)
    columns = (*add, asked.sample_weight)
    if any(_length(column) != len(keys) for column in columns if column is not None):
        return asked
    rows, ignored, replaced = admitted(keys, rule, window, set(remove))
    if rows is None:
        return asked
    if not rows:
        return Asked(None, None, None, None, tuple(ignored))
    X, y, weights = (None if column is None else _taken(column, rows) for column in columns)
    if is_gram:
        n = len(window)
        X = np.asarray(X)[:, [*range(n), *(n + row for row in rows)]]
    return Asked((X, y), [keys[row] for row in rows], weights, [*remove, *replaced] or None, tuple(ignored))


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
