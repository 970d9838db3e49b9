"""Forecasts, and the collection of forecasts that wait for their readings."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from math import isnan, nan
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.blend import EXPERTS, NO_EXPERTS
from livesvm.service.feeds.scores import MIX_BYTES

Floats = NDArray[np.float64]
Served = Literal["model", "last-value", "seasonal-naive", "blend", "zero"]
SERVED: tuple[Served, ...] = get_args(Served)
_PLACE = {served: place for place, served in enumerate(SERVED)}
_N = len(EXPERTS)
Experts = tuple[float | None, ...]

KNOWN = 3  #: experts that scored forecasts keep as numbers: the model, the last value, the seasonal one
ABSENT, ABSENT_BELOW = 255, 254  #: the share of an absent expert in a mix, and the share that is all
FIRST = 1 + len(SERVED)  #: the first byte of the first way to serve; mixes with smaller ones have fewer experts
_FAR = struct.Struct(f"<{len(EXPERTS) - KNOWN}d")


class Forecast(NamedTuple):
    """A forecast of one future reading; for directions, ``value`` is the decision value, positive for up."""

    step: int
    slot: int  #: of the reading
    time: float  #: of the reading, seconds since 1970
    made_at: float  #: time of the newest reading it is made from
    value: float
    low: float | None
    high: float | None
    served: Served = "model"
    known: bool = True  #: whether the known columns of its time were known; of none they are
    experts: Experts = NO_EXPERTS  #: the forecast of each of ``EXPERTS``; None for an absent one
    weights: Experts = NO_EXPERTS  #: weights of the experts; a forecast that waits for its reading has them in its mix

    def numbers(self) -> tuple[float, ...]:
        """Return the forecast as numbers for a snapshot, without weights; an absent end of the band is NaN."""
        step, slot, time, made_at, value, low, high, served, known, experts, _ = self
        ends = nan if low is None else low, nan if high is None else high
        said = [nan if one is None else one for one in experts]
        return step, slot, time, made_at, value, *ends, _PLACE[served], known, *said

    def mix(self) -> bytes:
        """Return what was served, the weights, and the forecasts of experts after the first three, in few bytes.

        Weights are rounded to multiples of 1/254. An expert's distance from the forecast is rounded by at most 1/4096
        of the distance.
        """
        value, experts = self.value, self.experts
        shares = [
            ABSENT if one is None or share is None else int(ABSENT_BELOW * share + 0.5)
            for one, share in zip(experts, self.weights, strict=True)
        ]
        far = _FAR.pack(*[0.0 if one is None else one - value for one in experts[KNOWN:]])
        return bytes((FIRST + _PLACE[self.served], *shares)) + far[5::8] + far[6::8] + far[7::8]

    @classmethod
    def of(cls, numbers: tuple[float, ...] | list[float], weights: Experts = NO_EXPERTS) -> Forecast:
        """Return the forecast that ``numbers`` describe; in snapshots of older versions experts are absent."""
        step, slot, time, made_at, value, low, high, served, known = (*numbers, 0.0, 1.0)[:_OLDEST]
        said = [None if isnan(one) else one for one in numbers[_OLDEST:]]
        experts = (*said, *NO_EXPERTS)[: len(NO_EXPERTS)]  # feeds had fewer before
        ends = None if isnan(low) else low, None if isnan(high) else high
        which = SERVED[int(served)], bool(known)
        return cls(int(step), int(slot), time, made_at, value, *ends, *which, experts, weights)


class Mix(NamedTuple):
    """The parts of a past forecast: what was served, and the experts' forecasts and weights."""

    served: Served
    experts: Experts
    weights: Experts

    @classmethod
    def of(cls, mix: bytes, value: float, first: tuple[float, ...]) -> Mix | None:
        """Return the parts that :meth:`Forecast.mix` packed, given the forecast's ``value``; None for older versions.

        ``first`` has the forecasts of the first three experts, which the bytes do not contain.
        """
        if not mix or mix[0] < FIRST:
            return None
        shares, n = mix[1 : 1 + len(EXPERTS)], len(EXPERTS) - KNOWN
        places = [mix[1 + len(EXPERTS) + k * n :][:n] for k in range(3)]
        far = _FAR.unpack(b"".join(bytes((0, 0, 0, 0, 0, *one)) for one in zip(*places, strict=True)))
        said = zip((*first, *(value + off for off in far)), shares, strict=True)
        experts = tuple(None if share == ABSENT else one for one, share in said)
        total = sum(share for share in shares if share != ABSENT) or 1  # as all are rounded
        weights = tuple(None if share == ABSENT else share / total for share in shares)
        return cls(SERVED[mix[0] - FIRST], experts, weights)


class Pending(NamedTuple):
    """A forecast that waits for its reading, with further values that are needed to score it."""

    step: int  #: its index
    forecast: Forecast
    low: float  #: what the band is around: the blend, also where a naive value is served for it, or the lower quantile
    high: float
    last_change: float
    weekly: float  #: the value of a week before, or the seasonal one where there is no week
    mix: bytes = b""  #: as :meth:`Forecast.mix` returns it


_OLDEST = 9
FORECAST = _OLDEST + len(EXPERTS)
_NUMBERS = 1 + FORECAST + 4
_ROW = struct.Struct(f"={_NUMBERS}d{MIX_BYTES}s")
_WIDTH = _ROW.size // 8
_BEFORE = {13: 7, 16: 9}
"""Of older snapshots, numbers of a pending forecast, and of its forecast: without experts; the model came second."""


class PendingForecasts(Mapping[int, list[Pending]]):
    """The forecasts that wait for their readings, by slot; they are stored as rows of numbers, as in a snapshot.

    A fleet has dozens of such forecasts for each of thousands of series. Rows of numbers take less memory than objects,
    and the garbage collector does not visit them.
    """

    def __init__(self) -> None:
        self._rows: dict[int, tuple[bytes, ...]] = {}

    def __getitem__(self, slot: int) -> list[Pending]:
        """Return the forecasts of a slot, in the order in which they were made."""
        return list(map(_unpacked, self._rows[slot]))

    def __iter__(self) -> Iterator[int]:
        """Yield slots."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Return how many slots have forecasts."""
        return len(self._rows)

    def add(self, pending: Pending) -> None:
        """Add a forecast under the slot of its reading."""
        slot = pending.forecast.slot
        self._rows[slot] = (*self._rows.get(slot, ()), _packed(pending))

    def take(self, slot: int) -> list[Pending]:
        """Remove the forecasts of a slot, and return them."""
        return list(map(_unpacked, self._rows.pop(slot, ())))

    def keep(self, stays: Callable[[Pending], bool]) -> None:
        """Remove the forecasts for which ``stays`` returns False."""
        kept = {slot: tuple(row for row in rows if stays(_unpacked(row))) for slot, rows in self._rows.items()}
        self._rows = {slot: rows for slot, rows in kept.items() if rows}

    def to_array(self) -> Floats:
        """Return all forecasts as rows of numbers, (n, width); the last numbers of a row are the bytes of its mix."""
        rows = b"".join(row for rows in self._rows.values() for row in rows)
        return np.frombuffer(rows).reshape(-1, _WIDTH)

    def restore(self, array: Floats) -> None:
        """Add the forecasts in the rows that ``to_array`` returned."""
        rows = array.tobytes()
        for pending in map(_unpacked, _chunks(rows)) if array.shape[1] == _WIDTH else map(_pending, array.tolist()):
            self.add(pending)


def _packed(pending: Pending) -> bytes:
    return _ROW.pack(pending.step, *pending.forecast.numbers(), *pending[2:])


def _unpacked(row: bytes) -> Pending:
    i, step, slot, time, made_at, value, low, high, served, known, *rest = _ROW.unpack(row)
    experts = tuple([None if one != one else one for one in rest[:_N]])
    ends = None if low != low else low, None if high != high else high
    which = SERVED[int(served)], known != 0.0
    forecast = Forecast(int(step), int(slot), time, made_at, value, *ends, *which, experts)
    return Pending(int(i), forecast, *rest[_N:])


def _chunks(rows: bytes) -> Iterator[bytes]:
    return (rows[at : at + _ROW.size] for at in range(0, len(rows), _ROW.size))


def _pending(row: tuple[float, ...] | list[float]) -> Pending:
    if len(row) not in _BEFORE:
        return Pending(int(row[0]), Forecast.of(row[1:-4]), *row[-4:])
    end = 1 + _BEFORE[len(row)]
    forecast, (low, high, last, seasonal, change, *model) = Forecast.of(row[1:end]), row[end:]
    experts = (*model, forecast.value)[0], last, seasonal, *NO_EXPERTS[3:]
    return Pending(int(row[0]), forecast._replace(experts=experts), low, high, change, seasonal)
