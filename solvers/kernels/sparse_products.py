"""Matrix products of sparse examples with a few dense examples, and copies of the results into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Ints, Numbers


def times(values: Any, which: slice, left: Numbers) -> Numbers:
    """Return the matrix product of the CSR rows ``which`` of ``values`` (n, d) with ``left`` (d, m), as (k, m)."""
    first, last, _ = which.indices(values.shape[0])
    out = np.empty((last - first, left.shape[1]), left.dtype)
    _times(values.indptr, values.indices, values.data, first, left, out)
    return out


@compiled
def _times(start: Numbers, features: Numbers, values: Numbers, first: int, left: Numbers, out: Numbers) -> None:
    """Add up multiples of rows of ``left``, four rows at a time, so that each sum is loaded and stored less often."""
    for i in range(out.shape[0]):
        own, k, stop = out[i], start[first + i], start[first + i + 1]
        own[:] = 0.0
        while k + 4 <= stop:
            v0, v1, v2, v3 = values[k], values[k + 1], values[k + 2], values[k + 3]
            z0, z1 = left[features[k]], left[features[k + 1]]
            z2, z3 = left[features[k + 2]], left[features[k + 3]]
            for j in range(own.size):
                own[j] += v0 * z0[j] + v1 * z1[j] + v2 * z2[j] + v3 * z3[j]
            k += 4
        while k < stop:
            v0, z0 = values[k], left[features[k]]
            for j in range(own.size):
                own[j] += v0 * z0[j]
            k += 1


@compiled
def put(transposed: Numbers, out: Numbers, places: Ints, first: int) -> None:
    """Write the transpose of ``transposed`` (k, m) to the rows ``places`` (m,) of ``out``, from column ``first`` on.

    Sixteen columns are written at once, so that whole lines of the processor's cache are filled.
    """
    k = transposed.shape[0]
    for start in range(0, k, 16):
        for i in range(places.size):
            row = out[places[i]]
            if start + 16 <= k:
                for j in range(16):
                    row[first + start + j] = transposed[start + j, i]
            else:
                for j in range(start, k):
                    row[first + j] = transposed[j, i]
