"""Checks at the public edge; inside, arrays are float64, C-ordered and finite."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import DuplicateKey, InvalidInput, InvalidType, UnknownKey

Floats = NDArray[np.float64]
Key = str | int

PLAIN = {int, str}  # types of keys


def matrix(X: ArrayLike, *, field: str = "X", width: int | None = None) -> Floats:
    """Return ``X`` as a finite float64 array (m, d).

    Raises
    ------
    InvalidInput : not numeric, not two-dimensional, not finite, or not ``width`` wide; names the row and column
    """
    if hasattr(X, "tocsr"):
        raise InvalidInput("sparse data is not supported; pass a dense array", field=field)
    try:
        array = np.asarray(X)
        if array.dtype == object:
            array = np.asarray(X, dtype=np.float64)
    except TypeError as error:
        raise InvalidType(f"must be numbers ({error})", field=field) from None
    except ValueError as error:
        raise InvalidInput(_ragged(X) or f"must be numbers ({error})", field=field) from None
    if array.dtype.kind == "c":
        raise InvalidInput("Complex data not supported", field=field)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"must be numbers, not {array.dtype}", field=field)
    if array.ndim != 2:
        raise InvalidInput(
            f"must have two dimensions, not {array.ndim}. Reshape your data: X.reshape(1, -1) is one example",
            field=field,
        )
    check_width(array.shape[1], width, field)
    out = np.ascontiguousarray(array, dtype=np.float64)
    check_finite(out, field)
    return out


def check_width(found: int, width: int | None, field: str) -> None:
    """Raise InvalidInput unless there are ``width`` features, if that is known."""
    if width is not None and found != width:
        raise InvalidInput(f"rows have {found} features, but the model has {width}", field=field)


def check_finite(array: Floats, field: str) -> None:
    """Raise InvalidInput at the first entry that is NaN or infinite."""
    if np.isfinite(array).all():
        return
    where = np.argwhere(~np.isfinite(array))[0]
    what = "NaN" if np.isnan(array[tuple(where)]) else "inf"
    raise InvalidInput(
        f"contains {what}; every value must be finite",
        field=field,
        row=int(where[0]),
        column=int(where[1]) if where.size > 1 else None,
    )


def _ragged(X: ArrayLike) -> str | None:
    if not isinstance(X, Sequence) or not all(isinstance(row, Sequence) for row in X):
        return None
    widths = [len(row) for row in X]  # type: ignore[arg-type]
    for i, width in enumerate(widths):
        if width != widths[0]:
            return f"row {i} has {width} features, row 0 has {widths[0]}"
    return None


def vector(values: ArrayLike, m: int, *, field: str) -> Floats:
    """Return ``values`` as a finite float64 array of length ``m``."""
    try:
        out = np.ascontiguousarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        raise InvalidInput("must be numbers", field=field) from None
    if out.ndim == 2 and out.shape[1] == 1:
        out = out[:, 0]
    if out.shape != (m,):
        raise InvalidInput(f"must be one value for each of {m} rows, not of shape {out.shape}", field=field)
    check_finite(out, field)
    return out


def column(y: ArrayLike | None, field: str) -> NDArray[Any]:
    """Return targets as an array (m,); scikit-learn warns of, or refuses, what has another shape."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None", field=field)
    found = np.asarray(y)
    if found.ndim != 1:
        from sklearn.utils.validation import column_or_1d

        found = column_or_1d(y, warn=True)
    return found


def sample_weights(values: ArrayLike | None, m: int, field: str = "sample_weight") -> Floats:
    """Return weights (m,), ones by default; they must not be negative."""
    if values is None:
        return np.ones(m)
    out = vector(np.full(m, values) if np.isscalar(values) else values, m, field=field)
    if (out < 0).any():
        raise InvalidInput("must not be negative", field=field, row=int(np.argmax(out < 0)))
    return out


def positive(value: Any, field: str) -> float:
    """Return a hyperparameter that must be a positive finite number."""
    number = number_or_none(value)
    if number is None or number <= 0:
        raise InvalidInput(f"must be a positive finite number, not {value!r}", field=field)
    return number


def not_negative(value: Any, field: str) -> float:
    """Return a hyperparameter that must be a finite number of at least 0."""
    number = number_or_none(value)
    if number is None or number < 0:
        raise InvalidInput(f"must be a finite number that is not negative, not {value!r}", field=field)
    return number


def number_or_none(value: Any) -> float | None:
    """Return a finite number as a float, None for anything else."""
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, bool | np.bool_ | str | bytes) or not np.isscalar(value) or not np.isfinite(value):
        return None
    return float(value)  # type: ignore[arg-type]


def new_keys(keys: Iterable[Key], m: int, window: Container[Key], leaving: Container[Key]) -> list[Key]:
    """Return keys for ``m`` new examples: distinct, of a plain type, and not in the window unless they leave it."""
    out = _plain_keys(keys, "keys")
    if len(out) != m:
        raise InvalidInput(f"{len(out)} keys for {m} examples", field="keys")
    if len(set(out)) == m and not any(map(window.__contains__, out)):
        return out
    seen: set[Key] = set()
    for row, key in enumerate(out):
        if key in seen or (key in window and key not in leaving):
            raise DuplicateKey(f"{key!r} is already in the window or stands twice", field="keys", row=row)
        seen.add(key)
    return out


def known_keys(keys: Iterable[Key], window: Container[Key], *, field: str = "remove") -> list[Key]:
    """Return keys of examples of the window, each once; by default of those that are to leave."""
    out = _plain_keys(keys, field)
    if len(set(out)) == len(out) and all(map(window.__contains__, out)):
        return out
    seen: set[Key] = set()
    for row, key in enumerate(out):
        if key not in window:
            raise UnknownKey(f"{key!r} is not in the window", field=field, row=row)
        if key in seen:
            raise DuplicateKey(f"{key!r} stands twice", field=field, row=row)
        seen.add(key)
    return out


def _plain_keys(keys: Iterable[Key], field: str) -> list[Key]:
    if type(keys) is not list and (isinstance(keys, str | bytes) or not isinstance(keys, Iterable)):
        raise InvalidType(f"must be a list of keys, not {type(keys).__name__}", field=field)
    out = list(keys)
    if set(map(type, out)) <= PLAIN:
        return out
    return [plain_key(key, row, field) for row, key in enumerate(out)]


def plain_key(key: Key, row: int, field: str = "keys") -> Key:
    """Return a key as a plain ``str`` or ``int``."""
    if type(key) is str or type(key) is int:
        return key
    if isinstance(key, np.integer):
        return int(key)
    if isinstance(key, np.str_):
        return str(key)
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise InvalidInput(f"a key is a string or a whole number, not {type(key).__name__}", field=field, row=row)
    return key
