"""Cells of a table as numbers of double precision, by the kind of their column, without loss of information.

A number stays itself, a time becomes Unix seconds, yes and no become 1 and 0, and a missing cell becomes NaN. A word
becomes a whole number below 2**52 that depends on the word alone, so that every process gets the same number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.validation import is_missing

Kind = Literal["number", "category", "yes-no", "time"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST = 1e150  #: of a number: squares of differences stay finite
Cells = Sequence[Any] | NDArray[Any]
LONGEST = 1000  #: characters of a word
MARKS = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))  #: texts for a missing number, time, or yes and no
YES, NO = frozenset(("true", "yes")), frozenset(("false", "no"))
_NUMBERS = "bhilqBHILQefd"
_REAL = {"number": _NUMBERS, "yes-no": "?" + _NUMBERS}  # type codes of arrays of which a column of a kind is made


class Words(list[Any]):
    """Cells of a column that a data frame holds as categories: words, even if all of them are numbers."""


@lru_cache(maxsize=2**16)
def code_of(word: str) -> float:
    """Return the number that stands for a word."""
    return float(int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little") >> 12)


def word_of(cell: Any) -> str:
    """Return a cell of a category as a word: a text stays itself, 7 and 7.0 become "7", and True becomes "true"."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    number = _number(cell) if isinstance(cell, Real | Decimal) else None
    return f"{number:.0f}" if number is not None and number.is_integer() else str(cell)


def _no_word(cell: Any, word: str) -> str | None:
    """Return why a cell is no word; None for a word."""
    if not isinstance(cell, str) and hasattr(cell, "__len__"):
        return f"a {type(cell).__name__} is no single value"
    if len(word) > LONGEST:
        return f"is a word of more than {LONGEST} characters"
    return None if word.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in word) else "is no text"


def kind_of(cells: Cells) -> Kind:
    """Return the kind of a column, found from its cells, which may all be texts as in a CSV file."""
    if isinstance(cells, Words):
        return "category"
    there = [cell for cell in cells if not (is_missing(cell) or (isinstance(cell, str) and cell == ""))]
    if all(isinstance(cell, bool | np.bool_) for cell in there) and there:
        return "yes-no"
    if all(_number(cell) is not None for cell in there):
        return "number"
    known = [cell for cell in there if not (isinstance(cell, str) and _is_mark(cell))]
    if known and all(_yes(cell) is not None for cell in known):
        return "yes-no"
    if known and all(_number(cell) is not None for cell in known):
        return "number"
    return "time" if known and all(_seconds(cell) is not None for cell in known) else "category"


def coded(cells: Cells, kind: Kind, column: int, name: str, words: dict[float, str]) -> Floats:
    """Return cells (m,) of a column as numbers; the words among the cells are added to ``words``, by number.

    Raises
    ------
    InvalidInput : a cell is not of the column's kind; names the row and the column
    """
    if isinstance(cells, np.ndarray) and cells.dtype.char in _REAL.get(kind, ""):
        out = cells.astype(np.float64)
        _check_numbers(out, kind, column, name)
        return out
    out, may_be_marked = np.empty(len(cells)), kind != "category"
    for row, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) and cells.dtype.kind != "M" else cells):
        if is_missing(cell) or (isinstance(cell, str) and (cell == "" or (may_be_marked and _is_mark(cell)))):
            out[row] = math.nan
        elif kind == "category":
            word = word_of(cell)
            if reason := _no_word(cell, word):
                raise _wrong(reason, row, column, name)
            out[row] = code = code_of(word)
            words[code] = word
        else:
            found = _READERS[kind](cell)
            if found is None:
                raise _wrong(f"{_shown(cell)} is no {_WHAT[kind]}, as the column holds", row, column, name)
            out[row] = found
    if kind != "category":
        _check_numbers(out, kind, column, name)
    return out


def cells_of(codes: Floats, kind: Kind, words: dict[float, str]) -> list[Any]:
    """Return numbers (m,) of a column as cells again: NaN becomes None, and times become texts of ISO 8601 in UTC."""
    return [None if code != code else _cell(code, kind, words) for code in codes.tolist()]


def _cell(code: float, kind: Kind, words: dict[float, str]) -> Any:
    if kind == "category":
        return words.get(code, f"#{int(code):013x}")
    if kind == "yes-no":
        return code == 1.0
    return code if kind == "number" else datetime.fromtimestamp(code, UTC).isoformat().replace("+00:00", "Z")


def _is_mark(cell: str) -> bool:
    return cell.strip().lower() in MARKS


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool | np.bool_):
        return None
    if isinstance(cell, Real | Decimal):
        try:
            return float(cell)
        except (OverflowError, ValueError) as error:  # a huge whole number, or a signalling NaN
            return math.inf if isinstance(error, OverflowError) else math.nan
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if not isinstance(cell, str) or "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _yes(cell: Any) -> float | None:
    if isinstance(cell, bool | np.bool_):
        return float(cell)
    if isinstance(cell, str):
        word = cell.strip().lower()
        return 1.0 if word in YES else 0.0 if word in NO else None
    return float(cell) if isinstance(cell, Real) and cell in (0, 1) else None


def _seconds(cell: Any) -> float | None:
    """Return a time as Unix seconds; a time without a zone is in UTC."""
    if isinstance(cell, np.datetime64):
        return float((cell - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if isinstance(cell, str):
        try:
            cell = datetime.fromisoformat(cell.strip().upper())
        except ValueError:
            return None
    if not isinstance(cell, date):
        return None
    moment = cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


_READERS = {"number": _number, "yes-no": _yes, "time": _seconds}
_WHAT = {"number": "number", "yes-no": "yes or no", "time": "time of ISO 8601"}


def _check_numbers(found: Floats, kind: Kind, column: int, name: str) -> None:
    """Raise InvalidInput for the first number that is too large, or in a column of yes and no is neither 0 nor 1."""
    wrong = np.abs(found) > MOST if kind != "yes-no" else (found != 0.0) & (found != 1.0) & (found == found)
    if wrong.any():
        row = int(np.argmax(wrong))
        reason = f"must be at most {MOST:g} in magnitude" if kind != "yes-no" else "is neither yes nor no"
        raise _wrong(f"{found[row]:g} {reason}", row, column, name)


def _wrong(reason: str, row: int, column: int, name: str) -> InvalidInput:
    return InvalidInput(reason, field="X", row=row, column=column, name=name)


def _shown(cell: Any) -> str:
    return repr(cell if not isinstance(cell, str) else cell[:64])


def distinct(codes: Floats) -> NDArray[np.float64]:
    """Return the distinct values except NaN, ascending."""
    return np.unique(codes[codes == codes])


def words_in(codes: Iterable[float], words: dict[float, str]) -> dict[float, str]:
    """Return the entries of ``words`` with a number that is among ``codes``."""
    return {code: words[code] for code in {*codes} & words.keys()}
