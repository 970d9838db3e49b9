"""The record of a step's forecasts: each was made before its reading was known [Dawid 1984, prequential].

Next to every forecast stand the naive ones: the last value known when it was made, and the seasonal value, the last one
known of the same phase. A series with a day and a week has two of these, and the record compares with the better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ScoredForecast(NamedTuple):
    """A forecast next to its reading; of directions ``value`` is the decision value, positive for up."""

    slot: int  #: of the reading
    time: float  #: of the reading, seconds since 1970
    made_at: float
    value: float
    low: float  #: NaN without a band
    high: float
    actual: float
    last: float
    seasonal: float
    last_change: float  #: of the target, from the reading before the one it was made at
    model: float  #: what the step's model said; ``value`` may be a blend with it
    weekly: float  #: the seasonal value of a week, or the same one where there is no week


FIELDS = ScoredForecast._fields
_SLOT, _TIME, _MADE, _VALUE, _LOW, _HIGH, _ACTUAL, _LAST, _SEASONAL, _CHANGE, _MODEL, _WEEKLY = range(len(FIELDS))
BLOCK = 32  # forecasts in a piece of a record
_BLOCK_BYTES = BLOCK * len(FIELDS) * 8
SUMS = (
    "n",
    "absolute",
    "squared",
    "last",
    "seasonal",
    "banded",
    "covered",
    "width",
    "pinball",
    "right",
    "last_right",
    "up",
    "weekly",
)


class StepScores:
    """Everything that was scored of one step, in sums, and the newest of it one by one.

    Parameters
    ----------
    coverage : the share of readings that the band is to hold; None: there is none
    most : how many of the newest are kept
    """

    def __init__(self, coverage: float | None, most: int) -> None:
        self.coverage = coverage
        self.sums = np.zeros(len(SUMS))  # an array that does not change once it is made, as the next
        self._most = most
        self._blocks: tuple[Floats, ...] = ()  # of rows that do not change once they are written, oldest first
        self._end = 0  # rows in them
        self._n = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of its arrays."""
        return len(self._blocks) * _BLOCK_BYTES + self.sums.nbytes

    def as_now(self) -> StepScores:
        """Return the record as it is now, whatever is learnt from then on."""
        found = StepScores.__new__(StepScores)
        found.__dict__.update(self.__dict__)
        return found

    def learn(self, scored: Sequence[ScoredForecast]) -> None:
        """Take forecasts with their readings, in order."""
        self._append(scored)
        self._n += len(scored)
        if len(scored) == 1:
            self.sums = self.sums + _of_one(scored[0], self.coverage)
        else:
            self.sums = self.sums + measured(np.array(scored), self.coverage)

    def _append(self, rows: Sequence[ScoredForecast] | Floats) -> None:
        for row in rows:
            place = self._end % BLOCK
            if place == 0:
                self._blocks = (*self._blocks, np.empty((BLOCK, len(FIELDS))))
            self._blocks[-1][place] = row
            self._end += 1
            if self._end - BLOCK >= self._most:
                self._blocks = self._blocks[1:]
                self._end -= BLOCK

    def forget(self, which: NDArray[np.bool_]) -> None:
        """Be as if some of the newest, (n,) as ``recent`` has them, had never been scored."""
        rows = self.recent
        sums, kept = self.sums - measured(rows[which], self.coverage), rows[~which]
        self._hold(kept, len(kept))
        self.sums = sums if sums[0] else np.zeros(len(SUMS))

    def _hold(self, rows: Floats, n: int) -> None:
        """Have these rows be the newest of ``n``."""
        self._blocks, self._end, self._n = (), 0, n
        self._append(rows)

    def of_models(self) -> tuple[Ints, Floats]:
        """Return slots of the newest readings, oldest first, and what models forecast of them, (n,) each."""
        rows = self.recent
        return rows[:, _SLOT].astype(np.int64), rows[:, _MODEL]

    def losses(self, task: str) -> Floats:
        """Return absolute errors of the newest forecasts, oldest first, (n,); of directions 1 where wrong."""
        rows = self.recent
        value, actual = rows[:, _VALUE], rows[:, _ACTUAL]
        if task == "direction":
            return np.asarray((value > 0) != (actual > rows[:, _LAST]), np.float64)
        return np.asarray(np.abs(actual - value))

    @property
    def recent(self) -> Floats:
        """The newest, oldest first, (n, fields) in the order of ``Scored``."""
        rows = np.concatenate(self._blocks) if self._blocks else np.empty((0, len(FIELDS)))
        return rows[max(0, self._end - self._most) : self._end]

    def overall(self, task: str) -> dict[str, Any]:
        """Return the scores of all forecasts."""
        return summary(self.sums, task)

    def lately(self, task: str) -> dict[str, Any]:
        """Return the scores of the newest forecasts."""
        return summary(measured(self.recent, self.coverage), task)

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        return {"sums": self.sums.copy(), "recent": self.recent.copy(), "n": self._n}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        self.sums, rows = np.array(arrays["sums"], np.float64), np.asarray(arrays["recent"])
        if rows.shape[1] <= _MODEL:  # feeds served nothing but their models before
            rows = np.concatenate([rows, rows[:, [_VALUE]]], axis=1)
        if rows.shape[1] <= _WEEKLY:  # they knew of no week before
            rows = np.concatenate([rows, rows[:, [_SEASONAL]]], axis=1)
            self.sums = np.append(self.sums, self.sums[SUMS.index("seasonal")])
        self._hold(rows, int(arrays["n"]))


def measured(rows: Floats, coverage: float | None) -> Floats:
    """Return what rows (n, fields) add to sums, (sums,)."""
    by_field = np.ascontiguousarray(rows.T)
    value, actual, last = by_field[_VALUE], by_field[_ACTUAL], by_field[_LAST]
    off, up = actual - value, actual > last
    out = np.zeros(len(SUMS))
    naive = np.abs(actual - last).sum(), np.abs(actual - by_field[_SEASONAL]).sum()
    out[:5] = len(rows), np.abs(off).sum(), (off * off).sum(), *naive
    weekly = np.abs(actual - by_field[_WEEKLY]).sum()
    out[9:] = ((value > 0) == up).sum(), ((by_field[_CHANGE] > 0) == up).sum(), up.sum(), weekly
    if coverage is not None:
        low, high = by_field[_LOW], by_field[_HIGH]
        is_banded = np.isfinite(low)
        if not is_banded.all():
            low, high, actual = low[is_banded], high[is_banded], actual[is_banded]
        below, above, tail = actual - low, actual - high, (1.0 - coverage) / 2
        loss = np.maximum(tail * below, (tail - 1.0) * below) + np.maximum((1.0 - tail) * above, -tail * above)
        covered = ((below >= 0.0) & (above <= 0.0)).sum()
        out[5:9] = low.size, covered, (high - low).sum(), loss.sum() / 2
    return out


def _of_one(scored: ScoredForecast, coverage: float | None) -> list[float]:
    """Return the same of one row, in less time."""
    _, _, _, value, low, high, actual, last, seasonal, change, _, weekly = scored
    off, up, banded = actual - value, actual > last, (0.0, 0.0, 0.0, 0.0)
    if coverage is not None and isfinite(low):
        below, above, tail = actual - low, actual - high, (1.0 - coverage) / 2
        loss = max(tail * below, (tail - 1.0) * below) + max((1.0 - tail) * above, -tail * above)
        banded = 1.0, below >= 0.0 >= above, high - low, loss / 2
    naive = abs(actual - last), abs(actual - seasonal)
    return [1.0, abs(off), off * off, *naive, *banded, (value > 0) == up, (change > 0) == up, up, abs(actual - weekly)]


def summary(sums: Floats, task: str) -> dict[str, Any]:
    """Return scores by name: MAE, RMSE, MASE against the seasonal value, those of naive forecasts, and of the band.

    Of directions: shares of right ones; of the model, of the last change repeated, and of the more frequent one.
    ``ahead`` says which of them is, None before the first.
    """
    found = dict(zip(SUMS, sums.tolist(), strict=True))
    n = int(found["n"])
    if n == 0:
        return {"n": 0, "ahead": None}
    if task == "direction":
        rates = {
            "accuracy": found["right"] / n,
            "last_change_accuracy": found["last_right"] / n,
            "majority_accuracy": max(found["up"], n - found["up"]) / n,
        }
        best = max(rates.values())
        names = {"accuracy": "model", "last_change_accuracy": "last change", "majority_accuracy": "majority"}
        return {"n": n, **rates, "ahead": next(names[name] for name, rate in rates.items() if rate == best)}
    mae, last = found["absolute"] / n, found["last"] / n
    seasonal = min(found["seasonal"], found["weekly"]) / n
    out = {
        "n": n,
        "mae": mae,
        "rmse": float(np.sqrt(found["squared"] / n)),
        "mase": mae / seasonal if seasonal > 0 else None,
        "last_value_mae": last,
        "seasonal_mae": seasonal,
        "ahead": "model" if mae <= min(last, seasonal) else ("last value" if last <= seasonal else "seasonal value"),
    }
    banded = found["banded"]
    if banded:
        out |= {name: found[key] / banded for name, key in
                (("coverage", "covered"), ("width", "width"), ("pinball", "pinball"))}  # fmt: skip
    return out
