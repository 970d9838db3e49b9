"""Checks of arguments at the public interface; behind it, arrays are float64, C-ordered and finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Sized
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers.errors import DuplicateKey, InvalidInput, InvalidType, UnknownKey
from livesvm.solvers.sparse import MOST_FEATURES, Features, SparseRows, checked

Floats = NDArray[np.float64]
Key = str | int

PLAIN = {int, str}  # types of keys
REAL = "?bhilqBHILQefd"  # type codes of arrays of numbers
UNMASKED: set[type] = {np.ndarray, list}  # types of arrays that are neither masked nor sparse
ONE_THREAD = 8192  #: numbers up to which BLAS makes a product in one thread; several threads would spin and wait
MISSING = "is missing; every example needs a label"
MISSING_TIME = "is missing; every example needs a time"
HARD = 1e10  #: stands for an infinite C: the margin is then hard to within double precision
MOST_NAMED = 20  #: keys that an error names
LARGEST = 1e100  #: largest C and weight: their products, and the sums of products over a window, are finite


def matrix(X: Any, *, field: str = "X", width: int | None = None) -> Floats:
    """Return ``X`` as a finite float64 array (m, d).

    Raises
    ------
    InvalidInput : not numeric, not two-dimensional, not finite, or not ``width`` wide; names the row and column, that
        of a data frame by its name
    """
    if not hasattr(X, "columns"):
        return _matrix(X, field, width)
    try:
        return _matrix(X, field, width)
    except InvalidInput as error:
        if error.column is None or error.name is not None:
            raise
        name = list(X.columns)[error.column]
        raise type(error)(error.reason, field=field, row=error.row, column=error.column, name=name) from None


def _matrix(X: Any, field: str, width: int | None) -> Floats:
    """Return ``X`` as a finite float64 array (m, d)."""
    array = X if type(X) is np.ndarray and X.dtype.char in REAL else _numbers(X, field)
    if array.ndim != 2:
        raise InvalidInput(
            f"must have two dimensions, not {array.ndim}. Reshape your data: X.reshape(1, -1) is one example",
            field=field,
        )
    check_width(array.shape[1], width, field)
    out = plain(array, np.float64)
    check_finite(out, field)
    return out


def plain(array: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array in the form for compiled code: C-contiguous, aligned, and writable.

    Compiled code would be compiled again for any other form.
    """
    out = np.ascontiguousarray(array, dtype)
    return out if out.flags.behaved else out.copy()


def features(X: Any, *, width: int | None = None) -> Features:
    """Return ``X`` (m, d) as ``matrix`` does, but sparse data, also of scipy, as sparse rows."""
    if not isinstance(X, SparseRows):
        if not hasattr(X, "tocsr"):
            return matrix(X, width=width)
        X = _of_scipy(X)
    check_width(X.shape[1], width, "X")
    rows: SparseRows = X
    return rows


def _of_scipy(X: Any) -> SparseRows:
    rows = X.tocsr()
    if rows.ndim != 2:
        raise InvalidInput(f"must have two dimensions, not {rows.ndim}", field="X")
    if rows.dtype.char not in REAL:
        raise InvalidInput(f"must be numbers, not {rows.dtype}", field="X")
    if rows.shape[1] > MOST_FEATURES:
        raise InvalidInput(f"has {rows.shape[1]} columns, more than {MOST_FEATURES}", field="X")
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return checked(rows.indptr, rows.indices, rows.data.astype(np.float64), rows.shape[1])


def plain_features(X: Any) -> Features:
    """Return stored features in the form for compiled code; sparse features are returned unchanged."""
    return X if isinstance(X, SparseRows) else plain(X, np.float64)


def examples(X: Any) -> Floats:
    """Return new examples as an array (m, d) with at least one row and one column."""
    rows = matrix(X)
    check_some(rows.shape)
    return rows


def any_examples(X: Any) -> Features:
    """Return new examples as ``examples`` does, but sparse data as sparse rows."""
    rows = features(X)
    check_some(rows.shape)
    return rows


def check_some(shape: tuple[int, ...]) -> None:
    """Raise InvalidInput unless there is at least one example and one feature."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InvalidInput(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.", field="X"
            )


def _numbers(values: ArrayLike, field: str) -> NDArray[Any]:
    """Return ``X``, which is no plain array of numbers, as an array of real numbers.

    Raises
    ------
    InvalidInput : they are something else, or sparse, ragged, masked or too large; names the row and column
    """
    if type(values) not in UNMASKED:
        _check_plain(values, field)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(_ragged(values) or f"must be numbers ({error})", field=field) from None
    if array.dtype.char in REAL:
        return array
    if array.dtype == object or (array.dtype.kind == "U" and isinstance(values, list | tuple)):
        return _from_objects(np.array(values, object), field)  # which names the first text
    if array.dtype.kind == "c":
        raise InvalidInput("Complex data not supported", field=field)
    if array.dtype.kind != "f":
        raise InvalidInput(f"must be numbers, not {array.dtype}", field=field)
    with np.errstate(over="ignore"):  # of long doubles, which are infinite then
        return array.astype(np.float64)


def _check_plain(values: ArrayLike, field: str) -> None:
    """Raise InvalidInput for sparse data, and for data with masked entries."""
    if hasattr(values, "tocsr"):
        raise InvalidInput("sparse data is not supported; pass a dense array", field=field)
    if np.ma.is_masked(values):
        where = np.argwhere(np.ma.getmask(values))[0].tolist()
        raise InvalidInput("is masked; every value must be there", field=field, **_place(where))


def _from_objects(array: NDArray[Any], field: str) -> Floats:
    """Return an array of objects as an array of numbers."""
    out = np.empty(array.shape)
    for where, value in np.ndenumerate(array):
        try:
            if isinstance(value, str | bytes | np.complexfloating):
                raise TypeError(f"not {value!r}")
            if is_missing(value):
                raise InvalidInput("is missing; every value must be a number", field=field, **_place(where))
            out[where] = float(value)
        except InvalidInput:
            raise
        except TypeError as error:
            raise InvalidType(f"must be numbers ({error})", field=field, **_place(where)) from None
        except (OverflowError, ValueError) as error:
            raise InvalidInput(f"must be numbers ({error})", field=field, **_place(where)) from None
    return out


def _place(where: Sequence[int]) -> dict[str, int]:
    """Return the row and column of an entry as arguments of an error; empty for a single value."""
    return dict(zip(("row", "column"), where, strict=False))


def check_width(found: int, width: int | None, field: str) -> None:
    """Raise InvalidInput unless there are ``width`` features; any number is accepted if ``width`` is None."""
    if width is not None and found != width:
        raise InvalidInput(f"rows have {found} features, but the model has {width}", field=field)


def check_finite(array: Floats, field: str) -> None:
    """Raise InvalidInput at the first entry of an aligned array that is NaN or infinite."""
    if array.size <= ONE_THREAD:  # BLAS does not warn
        total = np.vdot(array, array)  # found sooner than that all are finite; crashes unaligned, by BLAS with SSE2
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            total = array.sum()
    if math.isfinite(total) or np.isfinite(array).all():
        return
    where = np.argwhere(~np.isfinite(array))[0].tolist()
    what = "NaN" if np.isnan(array[tuple(where)]) else "inf"
    raise InvalidInput(f"contains {what}; every value must be finite", field=field, **_place(where))


def _ragged(X: ArrayLike) -> str | None:
    if not isinstance(X, Sequence) or not all(isinstance(row, Sequence) for row in X):
        return None
    widths = [len(row) for row in X]  # type: ignore[arg-type]
    for i, width in enumerate(widths):
        if width != widths[0]:
            return f"row {i} has {width} features, row 0 has {widths[0]}"
    return None


def vector(values: ArrayLike, m: int, *, field: str, check: Callable[[Floats, str], None] = check_finite) -> Floats:
    """Check the entries of ``values``, by default for being finite; return a float64 array of length ``m``."""
    numbers = values if type(values) is np.ndarray and values.dtype.char in REAL else _numbers(values, field)
    out = plain(numbers, np.float64)
    if out.ndim == 2 and out.shape[1] == 1:
        out = out[:, 0]
    if out.shape != (m,):
        raise InvalidInput(f"must be one value for each of {m} rows, not of shape {out.shape}", field=field)
    check(out, field)
    return out


def is_empty(values: Any) -> bool:
    """Say whether a value is an empty list, array, series or frame; a text is none of these."""
    shape = getattr(values, "shape", None)
    if shape is not None:
        return len(shape) > 0 and shape[0] == 0
    return isinstance(values, Sized) and not isinstance(values, str | bytes) and len(values) == 0


def times(values: Any, m: int, field: str = "times") -> NDArray[Any]:
    """Return times (m,) that can be put in order: numbers, or dates and times as datetime64, in UTC.

    The times may be numbers, datetime64, datetimes, dates, or texts in ISO 8601, in a list, an array or a series. A
    time without a zone is in UTC.

    Raises
    ------
    InvalidInput : one is missing or no time, or only some have a zone; names the row
    """
    found = np.asarray(values)
    if found.dtype.kind not in "OUSTM":
        return vector(found, m, field=field)
    if found.shape != (m,):
        raise InvalidInput(f"must be one value for each of {m} rows, not of shape {found.shape}", field=field)
    if found.dtype.kind == "M":
        if np.isnat(found).any():
            raise InvalidInput(MISSING_TIME, field=field, row=int(np.isnat(found).argmax()))
        return found
    given = [_time(value, field, row) for row, value in enumerate(found.tolist())]
    numbers = [one for one in given if isinstance(one, float)]
    if len(numbers) == m:
        return np.array(numbers)
    moments: list[datetime] = []
    for row, one in enumerate(given):
        if isinstance(one, float) or isinstance(given[0], float):
            raise InvalidInput("some times are numbers, and some dates", field=field, row=row)
        if (one.tzinfo is None) != (given[0].tzinfo is None):
            raise InvalidInput("some times have a zone, and some have none; give all one", field=field, row=row)
        moments.append(one.astimezone(UTC).replace(tzinfo=None) if one.tzinfo else one)
    return np.array(moments, "M8[us]")


def _time(value: Any, field: str, row: int) -> float | datetime:
    """Return one time as a number or a datetime; raises InvalidInput."""
    if is_missing(value):
        raise InvalidInput(MISSING_TIME, field=field, row=row)
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    number = number_or_none(value)
    if number is not None:
        return number
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        reason = f"{value!r} is no time: give a number, a datetime, or text such as 2024-05-31T10:00:00Z"
        raise InvalidInput(reason, field=field, row=row) from None


def column(y: ArrayLike | None, field: str) -> NDArray[Any]:
    """Return targets as an array (m,); scikit-learn warns of a column (m, 1)."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None", field=field)
    if type(y) not in UNMASKED:
        _check_plain(y, field)
    try:
        found = np.asarray(y)
    except ValueError:
        raise InvalidInput("must be one value for each row, not lists", field=field) from None
    if found.ndim != 1:
        if found.ndim != 2 or found.shape[1] != 1:
            raise InvalidInput(f"must be one value for each row, not of shape {found.shape}", field=field)
        from sklearn.utils.validation import column_or_1d

        found = column_or_1d(y, warn=True)
    check_one_kind(y, found, field)
    if found.dtype.kind in "mM" and np.isnat(found).any():
        raise InvalidInput(MISSING, field=field, row=int(np.isnat(found).argmax()))
    return found


def is_missing(value: Any) -> bool:
    """Say whether a value is missing: None, NaN, or the NA and NaT of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)


def check_one_kind(given: Any, found: NDArray[Any], field: str) -> None:
    """Raise InvalidInput, with the row, for strings mixed with other values, which numpy would make strings too.

    A missing value is reported first, whichever row it is in.
    """
    is_as_it_came = not isinstance(given, list | tuple)
    if found.dtype.kind not in "UO" or (is_as_it_came and found.dtype.kind == "U"):
        return
    entries = found.tolist() if is_as_it_came else list(given)
    missing = next((row for row, entry in enumerate(entries) if is_missing(entry)), None)
    if missing is not None:
        raise InvalidInput(MISSING, field=field, row=missing)
    words = [isinstance(entry, str) for entry in entries]
    if any(words) and not all(words) and not any(isinstance(entry, list | tuple | np.ndarray) for entry in entries):
        row = words.index(not words[0])
        wrong = "is no string, as those before are" if words[0] else "is a string, as none before is"
        raise InvalidInput(f"{entries[row]!r} {wrong}", field=field, row=row)


def sample_weights(values: ArrayLike | None, m: int, field: str = "sample_weight") -> Floats:
    """Return weights (m,), ones by default; they must not be negative."""
    if values is None:
        return np.ones(m)
    return vector(np.full(m, values) if np.isscalar(values) else values, m, field=field, check=_check_weights)


def _check_weights(weights: Floats, field: str) -> None:
    """Raise InvalidInput at the first weight that is not a number from 0 to ``LARGEST``."""
    if weights.min(initial=0.0) >= 0 and weights.max(initial=0.0) <= LARGEST:
        return
    check_finite(weights, field)
    if (weights < 0).any():
        raise InvalidInput("must not be negative", field=field, row=int(np.argmax(weights < 0)))
    raise InvalidInput(f"must be at most {LARGEST:g}", field=field, row=int(np.argmax(weights > LARGEST)))


def positive(value: Any, field: str, largest: float = math.inf) -> float:
    """Return a hyperparameter that must be a positive finite number."""
    if type(value) in (float, int) and 0.0 < value <= LARGEST <= largest:
        return float(value)
    number = _fitting(value, field, lambda x: x > 0.0, "be a positive finite number")
    if number > largest:
        raise InvalidInput(f"must be at most {largest:g}, not {value!r}", field=field)
    return number


def cost(value: Any) -> float:
    """Return C as a positive number; an infinite C is replaced by ``HARD``."""
    if type(value) is float and 0.0 < value <= LARGEST:
        return value
    return HARD if isinstance(value, Real) and value == math.inf else positive(value, "C", LARGEST)


def not_negative(value: Any, field: str) -> float:
    """Return a hyperparameter that must be a finite number of at least 0."""
    return _fitting(value, field, lambda x: x >= 0.0, "be a finite number that is not negative")


def fraction(value: Any, field: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if type(value) is float and 0.0 < value < 1.0:
        return value
    return _fitting(value, field, lambda x: 0.0 < x < 1.0, "lie between 0 and 1, both excluded")


def whole(value: Any, field: str) -> int:
    """Return a whole number of at least 1."""
    return int(_fitting(value, field, lambda x: x >= 1.0 and x == int(x), "be a whole number of at least 1"))


def _fitting(value: Any, field: str, fits: Callable[[float], bool], what: str) -> float:
    """Return a finite number that ``fits`` accepts; raises InvalidInput for others, with the requirement ``what``."""
    number = number_or_none(value)
    if number is None or not fits(number):
        raise InvalidInput(f"must {what}, not {value!r}", field=field)
    return number


def number_or_none(value: Any) -> float | None:
    """Return a finite number as a float, None for anything else."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and abs(value) < LARGEST:
        return float(value)
    if not isinstance(value, Real | Decimal) or isinstance(value, bool | np.timedelta64):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # a signalling NaN is the latter
        return None
    return number if math.isfinite(number) else None


def new_keys(keys: Iterable[Key], m: int, window: Container[Key], leaving: Container[Key]) -> list[Key]:
    """Return keys for ``m`` new examples: distinct, of a plain type, and not in the window unless they leave it."""
    out = plain_keys(keys, "keys")
    if len(out) != m:
        raise InvalidInput(f"{len(out)} keys for {m} examples", field="keys")
    if found := repeats(out, window, leaving):
        raise refusal(out, found, window, leaving)
    return out


def repeats(
    keys: Sequence[Key], window: Container[Key], leaving: Container[Key] = (), left: Collection[Key] = ()
) -> list[int]:
    """Return the rows whose key is in an earlier row, in ``left``, or in the window and not leaving it."""
    if len(set(keys)) == len(keys) and not any(map(window.__contains__, keys)):
        return [row for row, key in enumerate(keys) if key in left] if left else []
    seen: set[Key] = set()
    found = []
    for row, key in enumerate(keys):
        if key in seen or (key in window and key not in leaving) or key in left:
            found.append(row)
        seen.add(key)
    return found


def refusal(
    keys: Sequence[Key],
    rows: Sequence[int],
    window: Container[Key],
    leaving: Container[Key] = (),
    left: Collection[Key] = (),
) -> DuplicateKey:
    """Return the error for rows with repeated keys; it names at most ``MOST_NAMED`` of these keys."""
    named = list(dict.fromkeys(keys[row] for row in rows))
    here, gone, twice = list[str](), list[str](), list[str]()
    for key in named[:MOST_NAMED]:
        group = gone if key in left else here if key in window and key not in leaving else twice
        group.append(repr(key))
    parts = [
        f"key{'s' if len(group) > 1 else ''} {', '.join(group)} {verbs[len(group) > 1]}"
        for group, verbs in (
            (here, ("is in the window already", "are in the window already")),
            (gone, ("has left the window", "have left the window")),
            (twice, ("stands twice", "stand twice")),
        )
        if group
    ]
    more = f", and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    count = f"{len(named)} keys are repeated: " if len(named) > 1 else ""
    advice = "; on_repeat 'ignore' leaves such rows out, 'replace' takes them" if here or gone else ""
    return DuplicateKey(f"{count}{'; '.join(parts)}{more}{advice}", field="keys", row=rows[0])


def known_keys(keys: Iterable[Key], window: Container[Key], *, field: str = "remove") -> list[Key]:
    """Check that keys are in the window, each given once, and return them; errors name the parameter ``field``."""
    out = plain_keys(keys, field)
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


def plain_keys(keys: Iterable[Key], field: str) -> list[Key]:
    if type(keys) not in (list, tuple) and (isinstance(keys, str | bytes) or not isinstance(keys, Iterable)):
        raise InvalidType(f"must be a list of keys, not {type(keys).__name__}", field=field)
    try:
        out = list(keys)
    except TypeError:  # an array without dimensions says that it is iterable
        raise InvalidType(f"must be a list of keys, not {type(keys).__name__}", field=field) from None
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


def mapping(values: Any, field: str) -> Mapping[Key, Any]:
    """Return values by key, from a mapping, or from a pandas series by its index; empty for None."""
    if values is None:
        return {}
    if hasattr(values, "index") and hasattr(values, "items") and getattr(values, "ndim", 0) == 1:
        keys = values.index.tolist()
        if len(set(keys)) < len(keys):
            row = next(row for row, key in enumerate(keys) if key in keys[:row])
            raise DuplicateKey(f"{keys[row]!r} stands twice", field=field, row=row)
        return dict(zip(keys, values.tolist(), strict=True))
    if not isinstance(values, Mapping):
        raise InvalidType(
            f"must be a mapping by key, or a pandas Series with the keys as its index, not {type(values).__name__}",
            field=field,
        )
    return values
