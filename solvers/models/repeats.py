"""Keys that are repeated: whether their rows are refused, left out, or replace the present examples."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import Any, Literal, NamedTuple, get_args

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
