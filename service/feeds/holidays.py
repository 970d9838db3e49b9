"""Holidays by country, from the ``holidays`` package, which is an optional dependency."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from livesvm.solvers.errors import InvalidInput


def check(place: str) -> None:
    """Raise InvalidInput unless the ``holidays`` package knows the holidays of a place."""
    try:
        _calendar(place)
    except ImportError:
        raise InvalidInput("needs livesvm[holidays], which is not installed", field="holidays") from None
    except NotImplementedError:
        reason = f"knows no place {place[:32]!r}; it is a country, or with one of its parts, such as AU or AU-VIC"
        raise InvalidInput(reason, field="holidays") from None


def is_holiday(place: str, year: int, day: int) -> bool:
    """Say whether a day, by its ordinal in the proleptic Gregorian calendar, is a holiday in ``place``."""
    return day in _days(place, year)


@lru_cache(maxsize=1024)
def _days(place: str, year: int) -> frozenset[int]:
    calendar = _calendar(place, years=year)
    return frozenset(day.toordinal() for day in calendar)


def _calendar(place: str, **given: Any) -> Any:
    import holidays

    country, _, part = place.partition("-")
    return holidays.country_holidays(country, subdiv=part or None, **given)
