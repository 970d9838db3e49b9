"""The scores of a step's forecasts, each of which was made before its reading was known [Dawid 1984, prequential].

Every forecast is compared with two naive forecasts: the last value, and the last value with the same phase of the
season, both as known when the forecast was made. A series with a daily and a weekly season has two seasonal values, and
the better one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ScoredForecast(NamedTuple):
    """A forecast with its reading; for directions, ``value`` is the decision value, positive for up."""

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
    mix: bytes = b""  #: of which experts it was made, as ``Forecast.mix`` returns it


FIELDS = ScoredForecast._fields[:-1]
MIX_BYTES = 32  #: of a mix in a record, with zeros behind it
_RECORD = Struct(f"={len(FIELDS)}d{MIX_BYTES}s")
_WIDTH = _RECORD.size // 8
_SLOT, _TIME, _MADE, _VALUE, _LOW, _HIGH, _ACTUAL, _LAST, _SEASONAL, _CHANGE, _MODEL, _WEEKLY = range(len(FIELDS))
BLOCK = 24  # forecasts in a piece of a record
_BLOCK_BYTES = BLOCK * _RECORD.size
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
    """The scores of one step: sums over all its forecasts, and the newest scored forecasts one by one.

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
        """The memory of the arrays in bytes."""
        return len(self._blocks) * _BLOCK_BYTES + self.sums.nbytes

    def as_now(self) -> StepScores:
        """Return a copy of the scores that later forecasts do not change."""
        found = StepScores.__new__(StepScores)
        found.__dict__.update(self.__dict__)
        return found

    def learn(self, scored: Sequence[ScoredForecast]) -> None:
        """Add scored forecasts, in the order of their readings."""
        for one in scored:
            _RECORD.pack_into(self._block().data, self._end % BLOCK * _RECORD.size, *one)
            self._count()
        self._n += len(scored)
        if len(scored) == 1:
            self.sums = self.sums + _of_one(scored[0], self.coverage)
        else:
            self.sums = self.sums + measured(np.array([one[:-1] for one in scored]), self.coverage)

    def _block(self) -> Floats:
        """Return the piece of the record that the next forecast is written to."""
        if self._end % BLOCK == 0:
            self._blocks = (*self._blocks, np.empty((BLOCK, _WIDTH)))
        return self._blocks[-1]

    def _count(self) -> None:
        self._end += 1
        if self._end - BLOCK >= self._most:
            self._blocks = self._blocks[1:]
            self._end -= BLOCK

    def forget(self, which: NDArray[np.bool_]) -> None:
        """Remove the newest scored forecasts that ``which`` (n,) marks, in the order of ``recent``."""
        rows = self._records
        sums, kept = self.sums - measured(rows[which], self.coverage), rows[~which]
        self._hold(kept, len(kept))
        self.sums = sums if sums[0] else np.zeros(len(SUMS))

    def _hold(self, rows: Floats, n: int) -> None:
        """Replace the scored forecasts by ``rows``, which are the newest of ``n`` forecasts."""
        self._blocks, self._end, self._n = (), 0, n
        for row in rows:
            self._block()[self._end % BLOCK] = row
            self._count()

    def missed(self, since: float, until: float = inf) -> NDArray[np.bool_]:
        """Return which readings from slot ``since`` on, before ``until``, lay below, and which above, their bands."""
        slots = self.recent[:, _SLOT]
        rows = self.recent[(since <= slots) & (slots < until)]
        return np.array([rows[:, _ACTUAL] < rows[:, _LOW], rows[:, _ACTUAL] > rows[:, _HIGH]])

    def of_models(self) -> tuple[Ints, Floats]:
        """Return the slots of the newest scored readings, and the model's forecasts for these, oldest first."""
        rows = self.recent
        return rows[:, _SLOT].astype(np.int64), rows[:, _MODEL]

    def losses(self, task: str) -> Floats:
        """Return absolute errors of the newest forecasts, oldest first, (n,); for directions, 1 if wrong, else 0."""
        rows = self.recent
        value, actual = rows[:, _VALUE], rows[:, _ACTUAL]
        if task == "direction":
            return np.asarray((value > 0) != (actual > rows[:, _LAST]), np.float64)
        return np.asarray(np.abs(actual - value))

    @property
    def recent(self) -> Floats:
        """The newest scored forecasts, oldest first, (n, fields), with the fields of :class:`ScoredForecast`."""
        return self._records[:, : len(FIELDS)]

    @property
    def _records(self) -> Floats:
        """The newest scored forecasts with their mixes, which are stored as numbers here, (n, width)."""
        rows = np.concatenate(self._blocks) if self._blocks else np.empty((0, _WIDTH))
        return rows[max(0, self._end - self._most) : self._end]

    def of_slots(self, slots: Iterable[int]) -> list[ScoredForecast]:
        """Return the newest scored forecasts of readings at these slots."""
        rows = self._records
        found = rows[np.isin(rows[:, _SLOT], np.array(list(slots), np.float64))]
        return [ScoredForecast(int(slot), *rest) for slot, *rest in _RECORD.iter_unpack(found.tobytes())]

    def overall(self, task: str) -> dict[str, Any]:
        """Return the scores of all forecasts."""
        return summary(self.sums, task)

    def lately(self, task: str) -> dict[str, Any]:
        """Return the scores of the newest forecasts, with the mean absolute error of the step's model alone."""
        rows = self.recent
        found = summary(measured(rows, self.coverage), task)
        if task == "direction" or not len(rows):
            return found
        wrong = np.abs(rows[:, _MODEL] - rows[:, _ACTUAL])
        return found | {"model_mae": float(wrong.mean()) if np.isfinite(wrong).all() else None}

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"sums": self.sums.copy(), "recent": self._records.copy(), "n": self._n}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        self.sums, rows = np.array(arrays["sums"], np.float64), np.asarray(arrays["recent"])
        if rows.shape[1] <= _MODEL:  # feeds served nothing but their models before
            rows = np.concatenate([rows, rows[:, [_VALUE]]], axis=1)
        if rows.shape[1] <= _WEEKLY:  # they knew of no week before
            rows = np.concatenate([rows, rows[:, [_SEASONAL]]], axis=1)
            self.sums = np.append(self.sums, self.sums[SUMS.index("seasonal")])
        if rows.shape[1] < _WIDTH:  # they did not record what forecasts were made of before
            rows = np.concatenate([rows, np.zeros((len(rows), _WIDTH - rows.shape[1]))], axis=1)
        self._hold(rows, int(arrays["n"]))


def measured(rows: Floats, coverage: float | None) -> Floats:
    """Return the sums over scored forecasts, which are ``rows`` (n, fields); the result is (sums,)."""
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
    """Return the sums for a single scored forecast, faster than :func:`measured`."""
    _, _, _, value, low, high, actual, last, seasonal, change, _, weekly, _ = scored
    off, up, banded = actual - value, actual > last, (0.0, 0.0, 0.0, 0.0)
    if coverage is not None and isfinite(low):
        below, above, tail = actual - low, actual - high, (1.0 - coverage) / 2
        loss = max(tail * below, (tail - 1.0) * below) + max((1.0 - tail) * above, -tail * above)
        banded = 1.0, below >= 0.0 >= above, high - low, loss / 2
    naive = abs(actual - last), abs(actual - seasonal)
    return [1.0, abs(off), off * off, *naive, *banded, (value > 0) == up, (change > 0) == up, up, abs(actual - weekly)]


def summary(sums: Floats, task: str) -> dict[str, Any]:
    """Return scores by name: MAE, RMSE, MASE against the seasonal value, the MAE of naive forecasts, and band scores.

    For directions, return the shares of right forecasts: by the model, by repeating the last change, and by always
    forecasting the more frequent direction. ``ahead`` names the best of the model and the naive forecasts; it is None
    before the first score.
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
