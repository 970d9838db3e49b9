"""Check arrays from requests entry by entry, given as lists or as NumPy arrays."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.errors import not_among
from livesvm.solvers.errors import DuplicateKey, InvalidInput
from livesvm.solvers.sparse import MOST_FEATURES, SparseRows, checked

Matrix = NDArray[np.float64]
Rows = Matrix | SparseRows
Vector = NDArray[np.float64]
Targets = NDArray[Any]
"""(n,) float64, or words."""
Key = int | str
Tags = list[list[str]]
"""The tags of each example."""

SPARSE = ("indptr", "indices", "values", "n_features")
"""Members of an npz file that hold sparse rows."""
MAX_KEY = 2**53
"""Integer keys are below this, so that every JSON reader keeps them exactly."""
MAX_KEY_LENGTH = 128
LONGEST_LABEL = 128
"""Most characters of a label."""
MOST_TAGS = 16
"""Most tags of one example."""
MAX_MAGNITUDE = 1e150
"""Entries are at most this large, so that squares of differences stay finite."""

FIRST_SECOND, LAST_SECOND = (datetime(year, 1, 2, tzinfo=UTC).timestamp() for year in (1, 9999))
"""Least and largest Unix time; datetime can convert all between them in every time zone."""

CLEAR = 8
"""Digits from which on a number that reads as a date is hardly a count of seconds by chance."""
_NUMBERS = frozenset({int, float})
_LENGTHS = frozenset((4, 6, 8, 10, 12, 14))  # of a year, with a month, day, hour, minute and second
_CENTURIES = frozenset(("16", "17", "18", "19", "20", "21"))
_CLOSE = frozenset(("19", "20"))  #: centuries of 10 digits, which may be Unix seconds of our time as well


def or_empty(value: Any, check: Callable[[Any], Any]) -> Any:
    """Return an empty list if the value is empty or sparse with no rows; check any other value."""
    is_none = isinstance(value, dict) and value.get("indices") == [] == value.get("values")
    return [] if is_none or (isinstance(value, list) and not value) else check(value)


def rows(value: Any, field: str = "X") -> Rows:
    """Return dense rows from a list, or sparse rows from a dict of ``indices``, ``values`` and ``n_features``."""
    return _sparse(value, field) if isinstance(value, dict) else matrix(value, field)


def _sparse(value: dict[str, Any], field: str) -> SparseRows:
    names = ("indices", "values", "n_features")
    for name in [*value, *names]:
        if name not in names:
            raise InvalidInput(not_among(name, names), field=name[:64])
        if name not in value:
            raise InvalidInput("is missing", field=name)
    width, indices, values = value["n_features"], value["indices"], value["values"]
    if type(width) is not int or not 1 <= width <= MOST_FEATURES:
        raise InvalidInput(f"must be a whole number from 1 to {MOST_FEATURES}", field="n_features")
    if not isinstance(indices, list) or not isinstance(values, list) or not indices:
        raise InvalidInput("must hold at least one row: a list of indices, and a list of values", field=field)
    if len(indices) != len(values):
        raise InvalidInput(f"has {len(values)} rows, indices have {len(indices)}", field="values")
    for row, (places, entries) in enumerate(zip(indices, values, strict=True)):
        _check_sparse_row(places, entries, row)
    indptr = np.concatenate([[0], np.cumsum([len(places) for places in indices])])
    held = np.array([entry for entries in values for entry in entries], object)
    whole = _whole([index for places in indices for index in places])
    return check_rows(indptr, whole, _to_float(held, field), width, field)


def _check_sparse_row(places: Any, entries: Any, row: int) -> None:
    for name, found, kinds, what in (
        ("indices", places, frozenset({int}), "a whole number"),
        ("values", entries, _NUMBERS, "a number"),
    ):
        if not isinstance(found, list):
            raise InvalidInput("must be an array of numbers", field=name, row=row)
        if not set(map(type, found)) <= kinds:
            at = next(at for at, entry in enumerate(found) if type(entry) not in kinds)
            reason = f"must be {what}, not {_named(found[at])}"
            raise InvalidInput(reason, field=name, row=row, column=at)
    if len(places) != len(entries):
        reason = f"has {len(entries)} values for {len(places)} indices"
        raise InvalidInput(reason, field="values", row=row)


def _whole(indices: list[int]) -> NDArray[np.int64]:
    try:
        return np.array(indices, np.int64)
    except OverflowError:
        raise InvalidInput("holds an integer that is too large", field="indices") from None


def check_rows(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], width: int, field: str = "X"
) -> SparseRows:
    """Return sparse rows from CSR arrays with a checked ``indptr``; raises InvalidInput with the row and column."""
    found = checked(indptr, indices, _numeric(values, field), width, field)
    if found.values.size and (place := _first_unusable(found.values)) is not None:
        row = int(np.searchsorted(indptr, place, side="right")) - 1
        raise InvalidInput(_unusable(found.values[place]), field=field, row=row, column=int(found.indices[place]))
    return found


def npz_rows(found: Mapping[str, NDArray[Any]]) -> Rows:
    """Return the rows in an npz file: ``X``, or CSR arrays ``indptr``, ``indices``, ``values`` and ``n_features``."""
    if "X" in found:
        return check_matrix(found["X"], "X")
    for name in SPARSE:
        if name not in found:
            reason = "is missing from the file, as is X" if name == SPARSE[0] else "is missing from the file"
            raise InvalidInput(reason, field="X" if name == SPARSE[0] else name)
    indptr, indices, values, width = (found[name] for name in SPARSE)
    for name, array in (("indptr", indptr), ("indices", indices), ("n_features", width)):
        if array.dtype.kind not in "iu" or array.ndim != (0 if name == "n_features" and array.ndim == 0 else 1):
            raise InvalidInput("must be whole numbers in one dimension", field=name)
    if width.size != 1 or not 1 <= int(width.reshape(())) <= MOST_FEATURES:
        raise InvalidInput(f"must be one whole number from 1 to {MOST_FEATURES}", field="n_features")
    ends = indptr.astype(np.int64)
    if ends.size < 2 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != indices.size:
        raise InvalidInput(
            "must ascend from 0 to the number of indices, with one entry more than there are rows", field="indptr"
        )
    if values.shape != indices.shape:
        raise InvalidInput(f"has {values.size} entries for {indices.size} indices", field="values")
    return check_rows(ends, indices, values, int(width.reshape(())), "X")


def npz_members(X: Rows) -> dict[str, NDArray[Any]]:
    """Return rows as the members of an npz file, in the form that ``npz_rows`` reads."""
    if not isinstance(X, SparseRows):
        return {"X": X}
    rows = X.packed()
    return dict(zip(SPARSE, (X.indptr, rows.indices, rows.values, np.array(X.width)), strict=True))


def matrix(value: Any, field: str = "X") -> Matrix:
    """Return a list of equally long lists of finite numbers as (n, d) float64; n and d are at least 1."""
    if not isinstance(value, list):
        raise InvalidInput("must be an array of rows", field=field)
    if not value:
        raise InvalidInput("must have at least one row", field=field)
    is_even = {*map(type, value)} == {list} and {*map(len, value)} == {len(value[0]) or None}
    if not (is_even and {*map(type, chain.from_iterable(value))} <= _NUMBERS):
        for row, entries in enumerate(value):
            _check_row(entries, row, len(value[0]) if isinstance(value[0], list) else 0, field)
    return _checked(_to_float(value, field), field, 2, "row and one column")


def _check_row(entries: Any, row: int, width: int, field: str) -> None:
    if not isinstance(entries, list):
        raise InvalidInput("must be an array of numbers", field=field, row=row)
    if not entries:
        raise InvalidInput("must have at least one column", field=field, row=row)
    if len(entries) != width:
        raise InvalidInput(f"has {len(entries)} columns, row 0 has {width}", field=field, row=row)
    if not set(map(type, entries)) <= _NUMBERS:
        column = next(index for index, entry in enumerate(entries) if type(entry) not in _NUMBERS)
        raise InvalidInput(f"must be a number, not {_named(entries[column])}", field=field, row=row, column=column)


def vector(value: Any, field: str) -> Vector:
    """Return a list of finite numbers as (n,) float64; n is at least 1."""
    if not isinstance(value, list):
        raise InvalidInput("must be an array of numbers", field=field)
    for row, entry in enumerate(value):
        if type(entry) not in _NUMBERS:
            raise InvalidInput(f"must be a number, not {_named(entry)}", field=field, row=row)
    return _checked(_to_float(value, field), field, 1, "entry")


def targets(value: Any, field: str = "y") -> Targets:
    """Return a list of finite numbers as (n,) float64, or a list of words as (n,); n is at least 1."""
    if not isinstance(value, list) or not value:
        return vector(value, field)
    if None in value:
        raise InvalidInput("is null; an example needs its label or its number", field=field, row=value.index(None))
    if type(value[0]) is not str:
        return vector(value, field)
    for row, word in enumerate(value):
        if type(word) is not str:
            raise InvalidInput("must be a string, as those before", field=field, row=row)
        if not 1 <= len(word) <= LONGEST_LABEL:
            raise InvalidInput(f"a label has 1 to {LONGEST_LABEL} characters", field=field, row=row)
        if any("\ud800" <= character <= "\udfff" or character == "\0" for character in word):
            raise InvalidInput("a label is Unicode text, without surrogates and zeros", field=field, row=row)
    return np.array(value)


def check_targets(array: NDArray[Any], field: str = "y") -> Targets:
    """Return an array of finite numbers as (n,) float64, or of words as (n,); n is at least 1."""
    if array.dtype.kind != "U":
        return check_vector(array, field)
    if array.ndim != 1 or not array.size:
        raise InvalidInput("must have 1 dimension, and at least one entry", field=field)
    if np.ascontiguousarray(array).view(np.uint32).max() > sys.maxunicode:
        raise InvalidInput("holds what is no Unicode text", field=field)
    return targets(array.tolist(), field)


def tags(value: Any, field: str = "tags") -> Tags:
    """Return the distinct tags of each example; ``value`` has None, a tag or a list of tags for each example."""
    if not isinstance(value, list) or not value:
        raise InvalidInput("must be an array with an entry for each example", field=field)
    return [_tags(entry, row, field) for row, entry in enumerate(value)]


def _tags(entry: Any, row: int, field: str) -> list[str]:
    found = [] if entry is None else entry if isinstance(entry, list) else [entry]
    if len(found) > MOST_TAGS:
        raise InvalidInput(f"has {len(found)} tags, the limit is {MOST_TAGS}", field=field, row=row)
    for tag in found:
        _check_tag(tag, row, field)
    return list(dict.fromkeys(found))


def npy_tags(array: NDArray[Any]) -> Tags:
    """Return the tags of each example from a text array, (n,) or (n, most); empty texts are not tags."""
    if array.dtype.kind != "U" or array.ndim not in (1, 2) or not len(array):
        raise InvalidInput("must be text, (n,) or (n, most), empty where there is no tag", field="tags")
    _check_unicode(array, "tags")
    return tags([[tag for tag in row if tag] for row in array.reshape(len(array), -1).tolist()], "tags")


def tag_list(value: Any, field: str = "tags") -> list[str]:
    """Return a list of distinct tags: texts of 1 to 128 characters."""
    found = keys(value, field)
    for row, tag in enumerate(found):
        _check_tag(tag, row, field)
    return [str(tag) for tag in found]


def _check_tag(tag: Any, row: int, field: str) -> None:
    if not isinstance(tag, str):
        raise InvalidInput(f"a tag is a text, not {_named(tag)}", field=field, row=row)
    _check_text(tag, row, field, "tag")


def times(value: Any, field: str = "times") -> Vector:
    """Return a list of times, ISO 8601 with a UTC offset or Unix seconds, as Unix seconds (n,) float64, n > 0."""
    if not isinstance(value, list):
        raise InvalidInput("must be an array of times", field=field)
    return check_times(np.array([_seconds(entry, row, field) for row, entry in enumerate(value)], np.float64), field)


def moment(value: Any, field: str) -> float:
    """Return one time, ISO 8601 with a UTC offset or Unix seconds, as Unix seconds."""
    found = _seconds(value, None, field)
    _check_is_no_date(found, None, field)
    return _in_range(found, None, field)


@lru_cache(maxsize=1024)
def date_of(digits: str) -> float | None:
    """Return the Unix time of a UTC date in digits, such as 20240131 or 2024013123; None for other digits.

    The hour 24 ends its day, as in files that number the hours of a day from 1.
    """
    if len(digits) not in _LENGTHS or digits[:2] not in (_CLOSE if len(digits) == 10 else _CENTURIES):
        return None
    whole = digits + "00000101000000"[len(digits) :]
    year, month, day, hour, minute, second = (
        int(whole[begin:end]) for begin, end in pairwise((0, 4, 6, 8, 10, 12, 14))
    )
    ends = hour == 24 and not minute and not second
    try:
        return datetime(year, month, day, 0 if ends else hour, minute, second, tzinfo=UTC).timestamp() + 86400.0 * ends
    except ValueError:
        return None


def _check_is_no_date(seconds: float, row: int | None, field: str) -> None:
    """Raise InvalidInput for a number that looks like a date, such as 20240131, and is implausible as Unix seconds.

    A number of 10 digits is implausible as Unix seconds if it lies in the future.
    """
    digits = f"{seconds:.0f}"
    if seconds % 1 or len(digits) < CLEAR or date_of(digits) is None:
        return
    if len(digits) == 10 and seconds < time.time() + 86400.0:
        return
    reason = f"{digits} reads as a date; write it in ISO 8601 with a UTC offset, such as 2024-01-31T23:00Z"
    raise InvalidInput(reason, field=field, row=row)


def _seconds(entry: Any, row: int | None, field: str) -> float:
    if type(entry) in _NUMBERS:
        return float(max(-MAX_KEY, min(entry, MAX_KEY)))  # times beyond are outside of the allowed years, too
    if type(entry) is not str:
        reason = f"must be a time as text, or Unix seconds, not {_named(entry)}"
        raise InvalidInput(reason, field=field, row=row)
    try:
        found = datetime.fromisoformat(entry.upper())
    except ValueError:
        raise InvalidInput("is no time of ISO 8601", field=field, row=row) from None
    if found.tzinfo is None:
        raise InvalidInput("has no UTC offset, such as Z or +01:00", field=field, row=row)
    return found.timestamp()


def check_times(seconds: NDArray[Any], field: str = "times") -> Vector:
    """Return Unix seconds (n,) unchanged; raises InvalidInput if one is outside the years 1 to 9999."""
    found = check_vector(seconds, field)
    for row in np.flatnonzero((found >= 10.0 ** (CLEAR - 1)) & (found % 1 == 0)).tolist():
        _check_is_no_date(float(found[row]), row, field)
    for row in np.flatnonzero((found < FIRST_SECOND) | (found > LAST_SECOND))[:1].tolist():
        _in_range(float(found[row]), row, field)
    return found


def _in_range(seconds: float, row: int | None, field: str) -> float:
    if FIRST_SECOND <= seconds <= LAST_SECOND:
        return seconds
    if seconds != seconds:
        raise InvalidInput("is not a number (NaN)", field=field, row=row)
    raise InvalidInput("lies before the year 1 or after 9999", field=field, row=row)


def keys(value: Any, field: str = "keys") -> list[Key]:
    """Return a list of distinct keys: strings of 1 to 128 characters, or integers from 0 to 2**53 - 1."""
    found, seen = row_keys(value, field), set[Key]()
    for row, key in enumerate(found):
        if key in seen:
            raise DuplicateKey(f"key {key!r} stands twice in the request", field=field, row=row)
        seen.add(key)
    return found


def row_keys(value: Any, field: str = "keys") -> list[Key]:
    """Return a list of keys like :func:`keys`, but a key may occur more than once."""
    if not isinstance(value, list):
        raise InvalidInput("must be an array of keys", field=field)
    if not value:
        raise InvalidInput("must have at least one key", field=field)
    for row, key in enumerate(value):
        _check_key(key, row, field)
    return list(value)


def _check_key(key: Any, row: int, field: str) -> None:
    if type(key) is str:
        _check_text(key, row, field, "key")
    elif type(key) is not int:
        raise InvalidInput(f"a key is a string or an integer, not {_named(key)}", field=field, row=row)
    elif not 0 <= key < MAX_KEY:
        raise InvalidInput("an integer key is at least 0 and below 2**53", field=field, row=row)


def _check_text(text: str, row: int, field: str, what: str) -> None:
    if not 1 <= len(text) <= MAX_KEY_LENGTH:
        raise InvalidInput(f"a {what} has 1 to {MAX_KEY_LENGTH} characters", field=field, row=row)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(f"a {what} is Unicode text, without surrogates", field=field, row=row)


def _named(value: Any) -> str:
    names = {bool: "a boolean", str: "a string", type(None): "null", list: "an array", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")


def _to_float(value: Any, field: str) -> NDArray[np.float64]:
    try:
        return np.array(value, dtype=np.float64)
    except OverflowError:
        raise InvalidInput("holds an integer that is too large", field=field) from None


def check_matrix(X: NDArray[Any], field: str = "X") -> Matrix:
    """Return (n, d) numbers as finite C-ordered float64; n and d are at least 1."""
    return _checked(_numeric(X, field), field, 2, "row and one column")


def check_vector(v: NDArray[Any], field: str) -> Vector:
    """Return (n,) numbers as finite float64; n is at least 1."""
    return _checked(_numeric(v, field), field, 1, "entry")


def _checked(found: NDArray[np.float64], field: str, ndim: int, least: str) -> NDArray[np.float64]:
    """Return ``found`` if it has ``ndim`` dimensions and entries, all of which are finite and not too large."""
    if found.ndim != ndim:
        raise InvalidInput(f"must have {ndim} dimension{'s' * (ndim > 1)}, not {found.ndim}", field=field)
    if found.size == 0:
        raise InvalidInput(f"must have at least one {least}", field=field)
    if (place := _first_unusable(found)) is not None:
        where = dict(zip(("row", "column"), map(int, np.unravel_index(place, found.shape)), strict=False))
        raise InvalidInput(_unusable(found.flat[place]), field=field, **where)
    return found


def _first_unusable(array: NDArray[np.float64]) -> int | None:
    """Return the index of the first entry, row by row, that is too large or not finite, without a copy of the array."""
    if array.max() <= MAX_MAGNITUDE and array.min() >= -MAX_MAGNITUDE:  # false for NaN
        return None
    return int(np.argmin(np.abs(array.reshape(-1)) <= MAX_MAGNITUDE))


def _numeric(array: NDArray[Any], field: str) -> NDArray[np.float64]:
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"must hold numbers, not {array.dtype}", field=field)
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def _unusable(entry: float) -> str:
    if math.isnan(entry):
        return "is not a number (NaN)"
    if math.isinf(entry):
        return "is infinite"
    return f"is larger than {MAX_MAGNITUDE:g}"


def npy_keys(array: NDArray[Any], field: str, check: Callable[[Any, str], list[Key]] = keys) -> list[Key]:
    """Return keys from a one-dimensional array of strings or integers."""
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise InvalidInput("must be a one-dimensional array of integers or strings", field=field)
    if array.dtype.kind == "U":
        _check_unicode(array, field)
    return check(array.tolist(), field)


def _check_unicode(array: NDArray[Any], field: str) -> None:
    if array.size and np.ascontiguousarray(array).view(np.uint32).max(initial=0) > sys.maxunicode:
        raise InvalidInput("holds what is no Unicode text", field=field)
