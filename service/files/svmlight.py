"""Files of svmlight and LIBSVM, with lines ``label column:value ... # comment``; scikit-learn reads blocks of lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput

LONGEST = 2**24
"""Largest number of bytes in a line."""
BYTES = 2**22
"""Number of bytes that are read at a time, and then to the end of the last line."""
LAST = 2**31 - 1
"""Upper limit of column numbers, which are smaller."""


def blocks(file: IO[bytes]) -> Iterator[tuple[Any, NDArray[np.float64]]]:
    """Yield blocks of examples: a CSR matrix (m, any) with the file's column numbers, and the labels (m,).

    Raises InvalidInput with the row and the column of a wrong entry; the column is its position in the line, where the
    label has position 0.
    """
    from sklearn.datasets import load_svmlight_file

    row = 0
    while text := file.read(BYTES) + file.readline(LONGEST):
        if len(text) >= LONGEST and b"\n" not in text[-LONGEST:]:
            raise InvalidInput(f"has a line of more than {LONGEST} bytes", field="body")
        try:
            if b"_" in text:
                _check(text, row)
            X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
        except (ValueError, OverflowError) as error:
            if not isinstance(error, InvalidInput):
                _check(text, row)
                raise InvalidInput(f"is no line of svmlight: {error}", field="body", row=row) from error
            raise
        if len(y):  # not comments alone
            yield X, y
        row += len(y)
    if row == 0:
        raise InvalidInput("the file holds no example", field="body")


def _check(text: bytes, row: int) -> None:
    """Raise InvalidInput for the first invalid entry in lines of svmlight; ``row`` is the first line's number."""
    for line in text.splitlines():
        entries = line.partition(b"#")[0].split()
        last = -1
        for column, entry in enumerate(entries):
            index, _, number = entry.rpartition(b":") if column else (b"", b":", entry)
            if index == b"qid":
                continue
            if column and not index.isdigit():
                raise InvalidInput(f"{_shown(entry)} is not column:value", field="body", row=row, column=column)
            if column and int(index) <= last:
                raise InvalidInput(f"column {int(index)} does not ascend", field="body", row=row)
            last = int(index) if column else last
            if last >= LAST:
                raise InvalidInput(f"column {last:g} is too large", field="body", row=row)
            try:
                float(number.decode("ascii").replace("_", "?"))
            except ValueError:
                raise InvalidInput(f"{_shown(number)} is not a number", field="body", row=row, column=column) from None
        row += bool(entries)


def _shown(entry: bytes) -> str:
    return repr(entry[:32].decode(errors="replace"))
