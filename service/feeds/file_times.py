"""Times in files: find the format that reads a whole column, and convert the times to ISO 8601.

ISO 8601, dates in digits, and seconds or smaller units since 1970 are not converted, because feeds can read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds import times
from livesvm.solvers.errors import InvalidInput

_CUT = re.compile(r"\d{8}(?=\W?\d)|\d+([-/.])\d+\1\d+(?=[ T])|\d+ \d+ \d+(?= \d)")
"""The day of a time of which the rest is the time of the day."""
_BARE = ("%y%m%d", "%d%m%y", "%d%m%Y")
"""Dates in digits alone, of which the column's name says that they are dates."""
_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y %m %d", "%d %m %Y",
    "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%m/%d/%Y", "%m-%d-%Y", "%m.%d.%Y",
    "%d.%m.%y", "%d/%m/%y", "%d-%m-%y", "%m/%d/%y", "%m-%d-%y", "%m.%d.%y", "%y/%m/%d", "%y-%m-%d", "%y.%m.%d",
    "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%d. %b %Y", "%b %d, %Y", "%b %d %Y", "%Y-%b-%d", "%Y %b %d",
    "%d %b %y", "%d. %b %y", "%d.%b.%y", "%d.%b.%Y", "%b %d, %y", *_BARE,
    "%b %Y", "%b-%Y", "%b-%y", "%b/%y", "%b/%Y", "%Y %b", "%Y-%b", "%Y%m%d", "%YM%m", "%YMM%m", "%Y M%m", "%Y %m",
    "%Y. %m. %d.", "%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %d %H:%M:%S %Y",
    "%Y.%m.%d.", "%d.%m.%Y.", "%d. %m. %Y", "%d.%m. %Y", "%d%b%Y", "%Y%j", "%Y-%j",
    "%Y-%m-%d-%H-%M", "%Y-%m-%dT%H-%M", "%Y-%m-%d_%H-%M",
    "%Y%m%d%H%M%S%f", "%Y%m%d%H%M%S.%f",
)  # fmt: skip
_CLOCKS = (
    "%H:%M", "%H%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I %p", "%H", "%H %M", "%H.%M",
    "%I-%p", "%I:%M:%S%p", "%I:%M:%S.%f %p", "%H%M%S.%f", "%H %M %S", "%H %M %S.%f", "%H%M%S", "%H.%M.%S",
    "%H-%M-%S", "%Hh", "%Hh%M", "%I.%M %p", "%I.%M.%S %p", "%I.%M.%S.%f %p",
)  # fmt: skip
_JOINS = (" ", "T", ", ", ":", "-", "_", " - ")
_OFFSETS = {
    **dict.fromkeys(("Z", "UTC", "GMT"), "+00:00"),
    **dict.fromkeys(("CET", "MEZ"), "+01:00"),
    **dict.fromkeys(("CEST", "MESZ", "EET"), "+02:00"),
    **{"EEST": "+03:00", "JST": "+09:00", "AEST": "+10:00", "AEDT": "+11:00", "WET": "+00:00", "WEST": "+01:00"},
    **{"ADT": "-03:00", "AST": "-04:00", "EDT": "-04:00", "EST": "-05:00", "CDT": "-05:00", "CST": "-06:00"},
    **{"MDT": "-06:00", "MST": "-07:00", "PDT": "-07:00", "PST": "-08:00", "AKDT": "-08:00", "AKST": "-09:00"},
    **{"HST": "-10:00", "BST": "+01:00", "NZST": "+12:00", "NZDT": "+13:00", "AWST": "+08:00"},
}
_OFFSET = re.compile(rf"{'|'.join(sorted(_OFFSETS, reverse=True))}|[+-](0\d|1[0-4]):?(00|15|30|45)")
_NAMED_ZONES = (
    (re.compile(r"(?i).*\b(CET[/, ]*CEST|MEZ[/, ]*MESZ)\b.*"), "Europe/Berlin"),
    (re.compile(r"(?i).*\b(GMT[/, ]*BST)\b.*"), "Europe/London"),
    (re.compile(r"(?i)(.*[^a-z])?(utc|gmt)([^a-z+-].*)?"), "UTC"),
)
"""Zones by what the name of a column says."""
_REGION = re.compile(r"\b(?:Africa|America|Asia|Atlantic|Australia|Europe|Indian|Pacific)(?:/[A-Z][\w+-]+)+")
_UTC = re.compile(r"(?i)\b(utc|gmt|zulu)\b(?! ?[+-])")
_NAMED_OFFSET = re.compile(r"(?i)(?:.*[^a-z])?(?:utc|gmt) ?([+-])([01]?\d)(?::?([0-5]\d))?(?![\d:]| ?/).*")
_HALF_HOURS = {330: "Asia/Kolkata", 345: "Asia/Kathmandu", 390: "Asia/Yangon", 570: "Australia/Darwin"}
"""Zones by offsets in minutes that are no whole hours, and the same in all seasons."""
_ZONE = re.compile(
    rf"(.*\d)\s*\(?(?:[A-Z]{{2,5}} ?(?=[+-]))?({'|'.join(sorted(_OFFSETS, reverse=True))}|[+-]\d\d:?\d\d)\)?"
)
_MONTHS = (
    "stycznia jan january januar jän jänner janv janvier ene enero gen gennaio januari janeiro",
    "lutego feb february februar feber fév févr fevr février fevrier febrero febbraio februari fev fevereiro",
    "marca mar march mär mrz märz maerz mars marzo mrt maart março",
    "kwietnia apr april avr avril abr abril aprile",
    "maja may mai mayo mag maggio mei maio maj",
    "czerwca jun june juni juin junio giu giugno junho",
    "lipca jul july juli jui juil juillet julio lug luglio julho",
    "sierpnia aug august aoû août aout ago agosto augustus augusti",
    "września sep sept september septembre septiembre set settembre setembro",
    "października oct october okt oktober octobre octubre ott ottobre out outubro",
    "listopada nov november novembre noviembre novembro",
    "grudnia dec december dez dezember déc décembre decembre dic diciembre dicembre dezembro desember",
)
"""Names of months in English, German, French, Spanish, Italian, Dutch, Portuguese, Scandinavian and Polish."""
_DAYS = (
    "mon monday tue tuesday wed wednesday thu thursday fri friday sat saturday sun sunday"
    " mo montag di dienstag mi mittwoch do donnerstag fr freitag sa samstag so sonntag"
    " lundi mardi mercredi jeudi vendredi samedi dimanche"
    " lun lunes martes mié mie miércoles jue jueves vie viernes sáb sab sábado dom domingo de uhr à kl"
)
"""Names of days, and other words that say nothing more."""
_SHORT = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENGLISH = {name: short for short, names in zip(_SHORT, _MONTHS, strict=True) for name in names.split()}
_ENGLISH |= dict.fromkeys(_DAYS.split(), "")
_WORD = re.compile(r"([^\W\d_]{2,})[.,]?")
_HALF = re.compile(r"(?i)\b([ap])\.?\s?m\.?$")
_FRACTION = re.compile(r"(?<!\d{3})(\d:\d\d?:\d\d?)[.,:](\d{1,6})\d*")
"""Fractions of a second after a point, a comma or a colon; microseconds are the finest that are read."""
_AROUND = re.compile(r"^\[|\]$| ?\([^)\d]*\)(?=$| \d)")
_EAST_ASIAN = str.maketrans(
    {
        **dict.fromkeys("年月년월", "-"),
        **dict.fromkeys("日일", " "),
        **dict.fromkeys("時时시", ":"),
        "分": None,
        "분": None,
    }
)
_AGAIN = re.compile(r"(.*\b0?[1-3](?::\d\d){0,2}) ?(DST|[ABX*])")
"""Times of the hour that comes twice when clocks go back, of which files mark the first, the second, or both."""
_MIDNIGHT = re.compile(r"(.*\D|\d{8})24((?:[:-]?00){0,2})")
_LAST = re.compile(r"(\d*)$")
_SECONDS = re.compile(r"\d{14}")
_DAY_OF_YEAR = re.compile(r"(1[6-9]|2[01])\d\d-?\d{3}")
_ISO = re.compile(r"[-\d]+T\d\d")
_HOUR_AND_MORE = re.compile(r"\d{4}-\d\d-\d\d\D\d\d-\d\d")
"""An hour and its minutes, or two hours, which ISO 8601 reads as an hour and an offset."""
_SPAN = re.compile(r"(\d{1,2}(?::\d\d){0,2})\s?[-–]\s?\d{1,2}(:\d\d){0,2}")  # noqa: RUF001
_TWO_CLOCKS = re.compile(r"(.*\d[ T](\d\d)(:\d\d)?) ?[-\N{EN DASH}] ?(\d\d)(:\d\d)?")
"""A day with two times of it, of which ISO 8601 takes the second for an offset."""
_PARTS = (
    ("year", "yr", "yyyy", "yy", "jahr", "année", "annee", "año", "ano", "anno", "jaar", "år", "vuosi", "rok"),
    ("month", "mon", "mo", "mm", "m", "monat", "mois", "mes", "mês", "mese", "maand", "månad", "kuukausi", "period"),
    ("day", "dy", "dd", "d", "tag", "jour", "día", "dia", "giorno", "dag", "päivä"),
    ("hour", "hr", "hh", "stunde", "heure", "hora", "ora"),
    ("minute", "min", "mn", "mm", "minuten", "minuto", "minutos", "minuti", "minuut"),
    ("second", "sec", "ss", "sekunde", "seconde", "segundo", "secondo"),
)
"""Names of columns that are a part of a time each."""
_NUMBERED = {"doy": "%Y %j", "yday": "%Y %j", "dayofyear": "%Y %j"}
_NUMBERED |= dict.fromkeys(("week", "weeknumber", "wk", "woche", "kw", "semaine", "semana", "vecka", "uke"), "%G %V %u")
"""Names of columns that number the days or the weeks of a year, with the formats of both."""
_WHOSE = re.compile(r"(current)?(mmwr|epi(demi(ologic(al)?)?)?|iso|reporting)_?(?=year|week)")
"""What comes before a year or a week in the name of a column."""
_MMWR = re.compile(r"(?i)mmwr|(\b|_)epi(demi\w*)?[ _]?(year|week)|\bili(net)?\b|influenza-like|fluview")
"""Names where weeks are those of the Morbidity and Mortality Weekly Report, which begin on Sundays."""
_PERIOD = (
    re.compile(r"(?P<year>\d{4})\W*(?P<kind>[QW])\s?(?P<number>\d{1,2})"),
    re.compile(r"(?P<kind>Q|[KC]?W)\s?(?P<number>\d{1,2})\W+(?P<year>\d{4})"),
    re.compile(r"(?P<year>\d{4})(?P<kind>)(?P<number>\d\d)"),
)
_WEEK = re.compile(r"(?i).*(week|woche|\bkw\b|semaine|semana).*")
_NUMBER = re.compile(r"\d+[.,]\d+")
_EXCEL, _JULIAN = datetime(1899, 12, 30), datetime(1858, 11, 17)
_AHEAD = 5 * 365
"""Days from today after which numbers are no days of Excel."""
_SERIAL = re.compile(r"[2-7]\d{4}([.,]\d+)?")  #: days from 1900, of the years 1954 to 2119
_FLOAT_DATE = re.compile(r"\d\.\d+[eE]\+0?(7|9|11|13)")  #: 20240131 with up to six more digits, as Fortran writes it
_DECIMAL_YEAR = re.compile(r"(1[5-9]|2[01])\d\d([.,]\d+)?")
_EPOCHS = {9: "seconds", 10: "seconds", 13: "milliseconds", 16: "microseconds", 19: "nanoseconds"}
_NO_EPOCHS = (11, 14, 17)
"""Numbers of digits that would be seconds, or parts of them, in the years after 2286; 20240131235959 is a date."""
_DIGITS = "YYYYMMDDHHMMSS"
MOST_KNOWN = 2**18
"""Most days and times of the day that are kept."""
AS_IT_IS = ("ISO 8601", "digits", "since 1970")
NAMED = re.compile(
    r"(?i).*(time|date|stamp|epoch|datum|zeit|fecha|heure|period|last_changed|\bts\b|\bds\b|\bday\b|\bmtu\b|\bdt\b|month|week|year|quarter|\bmjd\b|(^|_)start$)"
    r".*"
)


@dataclass(frozen=True)
class TimeFormat:
    """The time format of a column: its displayed name, and the function that converts a cell to ISO 8601, if needed."""

    name: str
    read: Callable[[str], str] | None = None
    zoned: bool = False

    def reads(self, cells: Iterable[str]) -> bool:
        """Return whether the format reads all cells; without ``read``, cells are read as feeds read them."""
        return all(_is_read(self, cell) for cell in cells)

    def whole(self) -> TimeFormat:
        """Return this format; if it is of dates in digits, which feeds read as they are, let it convert to ISO 8601."""
        return self if self.read is not None or not self.name.startswith("YYYY") else replace(self, read=_of_digits)


class Seconds:
    """Converts cells to seconds since 1970; each day and each time of the day is read once."""

    def __init__(self, form: TimeFormat) -> None:
        self._form = form
        self._digits: times.Digits = "dates" if form.name.startswith("YYYY") else "epochs"
        self._is_split: bool | None = None
        self._days, self._clocks = dict[str, float](), dict[str, float]()

    def of(self, cells: Sequence[str]) -> NDArray[np.float64]:
        """Return the times, NaN for cells that the format does not read."""
        if self._form.name.endswith("since 1970"):
            with suppress(ValueError):
                found = np.array(cells, np.float64)
                for _ in range(3):
                    found = np.where(np.abs(found) >= times.MILLISECONDS, found / 1000.0, found)
                return found
        if self._form.read is None and self._form.name == AS_IT_IS[0] and len(min(cells, key=len, default="")) > 9:
            whole = "".join(cells)
            has_offsets = "+" in whole or "Z" in whole
            if whole.count("-") == 2 * len(cells) and whole.count(":") <= 2 * len(cells) and not has_offsets:
                with suppress(ValueError):
                    return np.array(cells, "datetime64[us]").astype(np.float64) / 1e6
        cuts = [*map(self._cut, cells[:1] if len({*map(len, cells)}) == 1 else cells)]
        if self._is_split is False or not all(cuts):
            return np.array([*map(self._one, cells)])
        if self._is_split is None:
            first = next((at for at, cell in enumerate(cells) if not np.isnan(self._one(cell))), None)
            if first is None:
                return np.array([*map(self._one, cells)])
            at = cuts[first % len(cuts)]
            self._head, self._tail, self._begin = cells[first][:at], cells[first][at:], self._one(cells[first])
        if len(cuts) == 1:
            at = cuts[0]
            heads, tails = [cell[:at] for cell in cells], [cell[at:] for cell in cells]
        else:
            heads = [cell[:at] for cell, at in zip(cells, cuts, strict=True)]
            tails = [cell[at:] for cell, at in zip(cells, cuts, strict=True)]
        for one in {*heads}.difference(self._days):
            self._days[one] = self._one(one + self._tail)
        for one in {*tails}.difference(self._clocks):
            self._clocks[one] = self._one(self._head + one) - self._begin
        found = np.array([*map(self._days.__getitem__, heads)]) + np.array([*map(self._clocks.__getitem__, tails)])
        some = [*range(0, len(cells), 1 + len(cells) // 20), *np.flatnonzero(np.isnan(found))[:20].tolist()]
        is_same = np.array_equal(found[some], [self._one(cells[at]) for at in some], equal_nan=True)
        self._is_split = is_same and len(self._days) + len(self._clocks) < MOST_KNOWN
        return found if is_same else np.array([*map(self._one, cells)])

    @staticmethod
    def _cut(cell: str) -> int:
        """Return where the time of the day begins in a cell; 0 if that is not known."""
        if (colon := cell.find(":")) > 6:
            return 0 if cell[colon - 3 : colon - 1].isdigit() else colon - 2
        return 0 if (day := _CUT.match(cell)) is None else day.end()

    def _one(self, cell: str) -> float:
        try:
            if self._form.read is not None:
                return times.parse(self._form.read(cell), "time", 0).seconds
            return times.column([cell], "time", self._digits)[0][0].seconds
        except ValueError:
            return np.nan


def find(cells: Sequence[str], name: str, *, alone: bool = False) -> list[TimeFormat]:
    """Return the formats that read all cells and give different times; several formats if the cells are ambiguous.

    Parameters
    ----------
    name : of the column; numbers are times where it says so
    alone : whether the caller has named the column
    """
    cells = [cell.strip() for cell in cells]
    if not cells:
        return []
    if begins := _begins_of_spans(cells):
        return [_of_spans(one) for one in find(begins, name, alone=alone)]
    is_named = alone or NAMED.fullmatch(name) is not None
    is_mmwr = _MMWR.search(name) is not None
    if cells[0].isdigit() and _WEEK.fullmatch(name) and (weeks := _period(cells, is_mmwr)):
        return [weeks]  # 202401 is a week there, and no month
    if is_named:
        kind = "years" if all(map(str.isdigit, cells)) else "years with decimals, in months"
        for years in (TimeFormat(kind, _of_decimal_year), TimeFormat(f"{kind}' middles", _of_middle)):
            if years.reads(cells):
                return [years]
    if all(map(_FLOAT_DATE.fullmatch, cells)):
        whole = [f"{float(cell):.0f}" for cell in cells]
        found = find(whole, "date", alone=True)
        return [_of_floats(one.whole()) for one in found if is_named or one.name.startswith("YYYY")]
    as_weeks = None if cells[0].isdigit() else _period(cells, is_mmwr)
    found = [
        one for one in (_as_it_is(cells, is_named), _serial(cells, name, is_named, alone), as_weeks) if one is not None
    ]
    if found or not (is_named or not all(map(_NUMBER.fullmatch, cells))):
        return found[:1]
    return _written(cells, is_named)


def _begins_of_spans(cells: list[str]) -> list[str]:
    """Return the times at which spans such as 2024-01-31 23:00-24:00 begin; an empty list for other cells."""
    found = [span for cell in cells if (span := _TWO_CLOCKS.fullmatch(cell)) is not None]
    hours = {(int(span[4]) - int(span[2])) % 24 for span in found}
    has_minutes = {*(span[3] is not None for span in found), *(span[5] is not None for span in found)}
    is_known = hours == {1} or (hours <= {0, 1} and has_minutes == {True})
    is_offset = len({(span[4], span[5]) for span in found}) < 3
    return [] if len(found) < len(cells) or not is_known or is_offset else [span[1] for span in found]


def _of_spans(one: TimeFormat) -> TimeFormat:
    """Return a format, changed so that it reads the times at which spans begin."""

    def read(cell: str) -> str:
        """Return the time in a cell; raises ValueError."""
        if (span := _TWO_CLOCKS.fullmatch(cell)) is None:
            raise ValueError(cell)
        return span[1] if one.read is None else one.read(span[1])

    return replace(one, name=f"{one.name}, the begin of spans", read=read)


def mixed(cells: Sequence[str], name: str) -> list[TimeFormat]:
    """Return the formats that read cells of several shapes, with dates in one order; none for a single shape."""
    shapes = dict[str, list[str]]()
    for cell in cells:
        shapes.setdefault(_shape(_begin(cell)), []).append(cell)
    if not 1 < len(shapes) < 5:
        return []
    found = [{_order(one.name): one for one in find(some[:70], name, alone=True)[::-1]} for some in shapes.values()]
    orders = {*found[0]}.intersection(*found[1:])
    return [_either([one[order] for one in found]) for order in sorted(orders) if order]


def is_impossible(cell: str, other: str) -> bool:
    """Return whether a cell has the shape of another cell that is a time, but is not a time in any format."""
    return _shape(_begin(cell)) == _shape(_begin(other)) and not find([cell], "time", alone=True)


def _order(name: str) -> str:
    """Return the order of day, month and year in a format."""
    return "".join(re.findall("%([dmy])", name.lower()))


def _either(formats: list[TimeFormat]) -> TimeFormat:
    """Return a format that reads all cells that one of several formats can read."""

    def read(cell: str) -> str:
        """Return the time in a cell; raises ValueError."""
        for one in formats:
            with suppress(ValueError):
                return cell if one.read is None else one.read(cell)
        raise ValueError(cell)

    names = dict.fromkeys(one.name for one in formats)
    return TimeFormat(" or ".join(names), read, formats[0].zoned)


def parts_in(names: Sequence[str]) -> tuple[int, ...]:
    """Return the columns with parts of a time, such as year, month and hour; empty unless there are several."""
    found = list[int | None]()
    for part in _PARTS:
        named = (at for at, name in enumerate(names) if not {*map(_plain, name.split("/"))}.isdisjoint(part))
        found.append(next((at for at in named if at not in found), None))
    numbered = next((at for at, name in enumerate(names) if _plain(name) in _NUMBERED), None)
    if found[0] is not None and found[1] is None and numbered is not None:
        return found[0], numbered
    there = [at for at in found[: found.index(None) if None in found else len(found)] if at is not None]
    return tuple(there) if len(there) > 1 else ()


def is_offset(text: str) -> bool:
    """Return whether a text is a UTC offset, or an abbreviation of one such as CEST."""
    return _OFFSET.fullmatch(text) is not None


def zone_within(text: str) -> str | None:
    """Return the IANA name of a time zone that stands in a text, if it is the only one; None otherwise."""
    found = {one for one in _REGION.findall(text) if is_zone(one)}
    return found.pop() if len(found) == 1 and not _UTC.search(text) else None


def is_zone(text: str) -> bool:
    """Return whether a text is the IANA name of a time zone with its region, such as Europe/Berlin."""
    try:
        return "/" in text and bool(times.zone_of(text))
    except ValueError:
        return False


def zone_named(text: Any) -> str | None:
    """Return a text that names a zone, such as Europe/Berlin or GMT; None for others."""
    if not isinstance(text, str):
        return None
    return text if is_zone(text) else zone_in(text)


def zone_in(name: str) -> str | None:
    """Return the time zone that the name of a column of times tells; None if it tells none."""
    if (told := _NAMED_OFFSET.fullmatch(name)) is not None:
        return zone_of_offset(int(f"{told[1]}1") * (60 * int(told[2]) + int(told[3] or 0)))
    return next((zone for pattern, zone in _NAMED_ZONES if pattern.fullmatch(name)), zone_within(name))


def zone_of_offset(minutes: int) -> str | None:
    """Return the IANA name of a zone that has this UTC offset at all times; None if there is none."""
    hours, rest = divmod(minutes, 60)
    if rest or not -12 <= hours <= 14:
        return _HALF_HOURS.get(minutes)
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def _plain(name: str) -> str:
    plain = re.sub(r"[ _<>()\[\]-]|(?<=.)(utc|gmt)$", "", re.sub(r"[)\]]$", "", name.lower()))
    return _WHOSE.sub("", plain, count=1)


def parts_unnamed(columns: Sequence[Sequence[str]]) -> Iterator[tuple[int, ...]]:
    """Yield columns that may be year, month, day, hour and minute; an id, or a day of the year, may be among them."""
    limits = ((1600, 2200), (1, 12), (1, 31), (0, 24), (0, 59))
    for places in ((0, 1, 2, 3, 4), (0, 2, 3, 4, 5), (1, 2, 3, 4, 5), (2, 3, 4, 5, 6)):
        fits = [
            place < len(columns)
            and all(map(str.isdigit, columns[place]))
            and {*map(int, columns[place])} <= {*range(low, high + 1)}
            for place, (low, high) in zip(places, limits, strict=True)
        ]
        count = fits.index(False) if False in fits else len(fits)
        months = [12 * int(year) + int(month) for year, month in zip(*columns[:2], strict=True)] if count == 2 else []
        if count > 2 or (not places[0] and len(months) > 2 and months == [*range(months[0], months[0] + len(months))]):
            yield places[:count]


def numbered(name: str, about: str = "") -> list[TimeFormat]:
    """Return the formats of a year and a numbered day or week, if the name of a column tells that it has such numbers.

    Parameters
    ----------
    about : other names and titles, which may tell how weeks are counted
    """
    form = _NUMBERED.get(_plain(name))
    if form is None:
        return []
    if form.endswith("%u"):
        kinds = [TimeFormat(f"year and {kind} week", partial(_of_year_and_week, kind=kind)) for kind in ("ISO", "MMWR")]
        return kinds[::-1] if _MMWR.search(f"{name} {about}") and "iso" not in name.lower() else kinds

    def read(cell: str) -> str:
        """Return the time in a cell as ISO 8601; raises ValueError."""
        day, _, clock = cell.rpartition(" ") if cell.count(" ") == 2 else (cell, "", "0")
        if not clock.isdigit() or int(clock) > 2400 or int(clock) % 100 > 59:
            raise ValueError(cell)
        return _iso(datetime.strptime(day, form) + timedelta(hours=int(clock) // 100, minutes=int(clock) % 100))

    return [TimeFormat("year and day of it", read)]


def _of_year_and_week(cell: str, kind: str) -> str:
    return _iso(_week(*map(int, cell.split()), is_mmwr=kind == "MMWR"))


def _week(year: int, number: int, *, is_mmwr: bool) -> datetime:
    """Return the first day of a week: a Monday, or a Sunday for weeks of the MMWR; raises ValueError.

    The fourth of January is in the first week, of ISO 8601 and of the MMWR.
    """
    if not is_mmwr:
        return datetime.fromisocalendar(year, number, 1)
    fourths = datetime(year, 1, 4), datetime(year + 1, 1, 4)
    first, following = (one - timedelta(days=one.isoweekday() % 7) for one in fourths)
    found = first + timedelta(weeks=number - 1)
    if not first <= found < following:
        raise ValueError(f"{year} has no week {number}")
    return found


def by_format(given: str) -> TimeFormat:
    """Return the time format for a format string of strptime."""
    return TimeFormat(given, _reader(given))


def with_periods(day: TimeFormat, count: int, zone: str | None = None, *, ends: bool = False) -> TimeFormat:
    """Return the format of a day followed by the number of a period in it, from 1 to ``count``.

    Parameters
    ----------
    zone : IANA name of the zone of days, some of which have more or fewer periods; None for times without a zone
    ends : whether a period has the time at which it ends
    """
    minutes, place = 1440 // count, None if zone is None else times.zone_of(zone)
    read_day = day.read or _of_digits

    def read(cell: str) -> str:
        """Return the time in a cell as ISO 8601; raises ValueError."""
        begin, _, number = cell.rpartition(" ")
        when, passed = datetime.fromisoformat(read_day(begin)), timedelta(minutes=minutes * (int(number) - (not ends)))
        if place is None:
            return _iso(when + passed)
        return _iso((when.replace(tzinfo=place).astimezone(UTC) + passed).astimezone(place).replace(tzinfo=None))

    return TimeFormat(f"{day.name}, with periods of {minutes} minutes from 1", read, day.zoned)


def narrowed(formats: list[TimeFormat], cells: Iterable[str]) -> list[TimeFormat]:
    """Return those of the formats that read all cells; stop reading cells when one format is left."""
    column = iter(cells)
    while len(formats) > 1 and (block := {*islice(column, 4096)}):
        formats = [one for one in formats if one.reads(block)]
    return formats


def _is_read(one: TimeFormat, cell: str) -> bool:
    try:
        times.parse(cell, "time", 0) if one.read is None else one.read(cell)
    except ValueError:
        return False
    return True


def _of_digits(cell: str) -> str:
    return _iso(datetime.fromtimestamp(times.parse(cell, "time", 0).seconds, UTC).replace(tzinfo=None))


def _as_it_is(cells: list[str], is_named: bool) -> TimeFormat | None:
    """Return the format of cells that a feed reads without conversion; None for other cells."""
    try:
        stamps, digits = times.column(cells, "time")
    except InvalidInput:
        return None
    if len({stamp.zoned for stamp in stamps}) > 1:
        return None
    zoned, first = stamps[0].zoned, cells[0].partition(".")[0].lstrip("-")
    if digits is None and not first.isdigit():
        return None if any(map(_HOUR_AND_MORE.fullmatch, cells)) else TimeFormat("ISO 8601", zoned=zoned)
    if not is_named and (digits != "dates" or len(first) < 10):
        return None
    if digits == "dates":
        return TimeFormat(_DIGITS[: len(first)], zoned=False)
    if len(first) < 9 or len(first) in _NO_EPOCHS:
        return None
    ahead = datetime.now(UTC).timestamp() + 86400.0 * _AHEAD
    if len(first) == 10 and min(map(float, cells)) > ahead and (packed := by_format("%y%m%d%H%M")).reads(cells):
        return packed
    return TimeFormat(f"{_EPOCHS.get(len(first), 'seconds')} since 1970", zoned=True)


def _serial(cells: list[str], name: str, is_named: bool, is_sure: bool) -> TimeFormat | None:
    """Return the format of numbered days: modified Julian if the name has "mjd", else Excel's unless far ahead."""
    if not is_named or not all(map(_SERIAL.fullmatch, cells)):
        return None
    if "mjd" in name.lower():
        return TimeFormat("modified Julian days", partial(_of_serial, first=_JULIAN))
    last, latest = max(map(_of_serial, cells)), datetime.now(UTC) + timedelta(days=_AHEAD)
    return TimeFormat("Excel's days since 1900", _of_serial) if is_sure or last < _iso(latest) else None


def _of_serial(cell: str, first: datetime = _EXCEL) -> str:
    cell = cell.replace(",", ".")
    places = 0 if len(cell.partition(".")[2]) > 8 else -3  # a second is 0.0000116 of a day, and cells are often cut
    return _iso(first + timedelta(milliseconds=round(float(cell) * 86_400_000, places)))


def _of_decimal_year(cell: str) -> str:
    if not _DECIMAL_YEAR.fullmatch(cell):
        raise ValueError(cell)
    months = float(cell.replace(",", ".")) * 12
    if abs(months - round(months)) > 0.07:  # of two decimals
        raise ValueError(cell)
    return _iso(datetime(round(months) // 12, round(months) % 12 + 1, 1))


def _of_floats(one: TimeFormat) -> TimeFormat:
    """Return a format of digits, changed so that it reads cells in which the digits are a number with an exponent."""

    def read(cell: str) -> str:
        """Return the time in a cell; raises ValueError."""
        digits = f"{float(cell):.0f}"
        return digits if one.read is None else one.read(digits)

    return replace(one, read=read)


def _of_middle(cell: str) -> str:
    """Return the first day of a month, given the month's middle as a year with decimals; raises ValueError."""
    if not _DECIMAL_YEAR.fullmatch(cell):
        raise ValueError(cell)
    return _of_decimal_year(f"{float(cell.replace(',', '.')) - 1 / 24:.6f}")


def _period(cells: list[str], is_mmwr: bool) -> TimeFormat | None:
    """Return the format of quarters or weeks, which reads each as its first day; None for other cells."""
    read = partial(_of_period, is_mmwr=is_mmwr)
    try:
        for cell in cells:
            read(cell)
    except ValueError:
        return None
    weeks = "MMWR weeks, which begin on Sundays" if is_mmwr else "ISO weeks"
    return TimeFormat("quarters" if "q" in cells[0].lower() else weeks, read)


def _of_period(cell: str, *, is_mmwr: bool) -> str:
    found = next((match for one in _PERIOD if (match := one.fullmatch(cell.strip().upper()))), None)
    if found is None:
        raise ValueError(cell)
    year, number = int(found["year"]), int(found["number"])
    if found["kind"] == "Q":
        return _iso(datetime(year, 3 * number - 2, 1))
    return _iso(_week(year, number, is_mmwr=is_mmwr))


def _written(cells: list[str], is_named: bool) -> list[TimeFormat]:
    """Return the strptime formats that read all cells; of formats with one order and equal times, the first."""
    first, found = _begin(cells[0]), dict[tuple[str, ...], TimeFormat]()
    zone = _ZONE.fullmatch(first)
    shapes = {_shape(first), *([] if zone is None else [_shape(zone[1])])}
    for text in (text for shape in shapes for text in _all_formats().get(shape, [])):
        if not is_named and text.startswith((*_BARE, "%Y%j")):
            continue
        if text.endswith("%j") and not all(map(_DAY_OF_YEAR.fullmatch, cells)):
            continue
        if text.startswith("%Y%m%d%H%M%S") and not all(_SECONDS.match(cell) for cell in cells):
            continue
        one, size = by_format(text), _packed(text)
        if not one.reads(cells) or (
            size and not any(re.search(rf"\d{{{size - 1}}}( ?[A-Z]+)?$", _begin(cell)) for cell in cells)
        ):
            continue  # 5 may be 05:00, and 00:05 where others are 1230
        assert one.read is not None
        begin = datetime.fromisoformat(one.read(cells[0]))
        if not 1500 < begin.year < 2200:
            continue
        zoned = begin.tzinfo is not None
        order = _order(one.name)  # equal on the first of January alone
        found.setdefault((order, *map(one.read, cells)), TimeFormat(one.name, one.read, zoned))
    return [*found.values()]


def _packed(text: str) -> int:
    """Return how many digits a time of day without separators has at the end of a format; 0 if others are before it."""
    found = re.search(r"(?<!%[a-zA-Z])%H%M(%S)?$", text)
    return 0 if found is None else 6 if found[1] else 4


def joined(cells: Sequence[str]) -> str:
    """Join parts of a time with blanks; keep only the beginning of a range of hours such as 00:00-01:00."""
    if len(cells) > 1 and cells[-1][-1:] == "h" and cells[-1][-2:-1].isdigit():  # as in French
        cells = [*cells[:-1], cells[-1][:-1]]
    if len(cells) > 1 and ("-" in cells[-1] or "\N{EN DASH}" in cells[-1]):
        cells = [span[1] if (span := _SPAN.fullmatch(cell.strip())) else cell for cell in cells]
    return " ".join(cells)


@lru_cache(1)
def _all_formats() -> dict[str, list[str]]:
    """Return all known strptime formats, by the shape of the texts that they read."""
    dates = [*_DATES, *(date.replace("%b", "%B") for date in _DATES if "%b" in date)]
    found = dict[str, list[str]]()
    days = [date for date in dates if "%d" in date and "%H" not in date]
    clocks = {f"{date}{join}{clock}" for date in days for clock in _CLOCKS for join in _JOINS}
    clocks |= {f"{clock} {date}" for date in days if "%Y" in date for clock in ("%H:%M", "%H:%M:%S")}
    for text in sorted({*dates, *clocks}):
        found.setdefault(_shape(re.sub("%[bBp]", "a", re.sub("%[YymdjHIMSf]", "0", text))), []).append(text)
    return found


def _shape(text: str) -> str:
    """Return the shape of a text, with the digit 0 for each run of digits, and the letter a for each run of letters."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", re.sub(r"\s+", " ", text)))


def _begin(cell: str) -> str:
    """Return the first time of a range such as 01.01.2024 00:00 - 01.01.2024 01:00, with names of months in English."""
    if cell[:1] == "[" or "(" in cell:  # of logs, browsers, and days of the week
        cell = _AROUND.sub("", cell)
    if cell[4:5] in ("年", "년"):
        cell = cell.translate(_EAST_ASIAN).replace("- ", "-").replace(": ", ":").strip(" :-")
    if cell[-1:] in "apAP" and cell[-2:-1].isdigit():
        cell = f"{cell}m"
    if cell.count(":") > 1:
        cell = _FRACTION.sub(r"\1.\2", cell)
    begin, _, end = cell.partition("/")
    if _ISO.match(begin) and _ISO.match(end):
        return begin
    first, dash, second = cell.strip().replace(" to ", " - ").partition(" - ")
    first = first if dash and ":" in first and ":" in second else cell.strip()
    if first[-1:] in "aApP" and ":" in first:  # of 12:30a
        first += "m"
    if not _WORD.search(first) and "." not in first[-4:]:
        return first
    return _WORD.sub(_in_english, _HALF.sub(r"\1m", first)).strip(" ,")


def _in_english(found: re.Match[str]) -> str:
    """Return the short English name of a month, and an empty text for the name of a day."""
    return _ENGLISH.get(found[1].lower(), found[0])


def _reader(text: str) -> Callable[[str], str]:
    day, _, clock = text.rpartition(" ")
    is_split = clock in ("%H:%M", "%H:%M:%S")  # days and times of the day come again: each is read once

    @lru_cache(4096)
    def part(cell: str, wanted: str) -> str:
        return _iso(datetime.strptime(cell, wanted))

    is_bare = text.startswith(_BARE) and re.match(r"(%[a-zA-Z]){4}", text) is None
    size, bare = _packed(text), 0 if not is_bare else 8 if text.startswith(_BARE[-1]) else 6

    def whole(cell: str) -> str:
        if bare and not (cell[:bare].isdigit() and not cell[bare : bare + 1].isdigit()):
            raise ValueError(cell)
        if size and (digits := _LAST.search(cell)) is not None:
            if len(digits[1]) > size:
                raise ValueError(cell)
            cell = cell[: digits.start()] + digits[1].zfill(size)
        try:
            if not is_split or " " not in cell:
                return _iso(datetime.strptime(cell, text))
            first, _, second = cell.rpartition(" ")
            return part(first.rstrip(), day)[:11] + part(second, clock)[11:]
        except ValueError:
            if (late := _MIDNIGHT.fullmatch(cell)) is None or "%H" not in text:
                raise
            return _iso(datetime.strptime(f"{late[1]}00{late[2]}", text) + timedelta(days=1))  # 24:00 ends the day

    def read(cell: str) -> str:
        """Return the time in a cell as ISO 8601; raises ValueError."""
        written = _begin(cell)
        zone = None if text.endswith("%z") else _ZONE.fullmatch(written)
        if zone is not None:
            try:
                return whole(zone[1]) + _OFFSETS.get(zone[2], zone[2])
            except ValueError:  # -2024 may be a year
                pass
        try:
            return whole(written)
        except ValueError:
            if text[:1] == "[" or not text.isascii():  # given, as no known format is
                with suppress(ValueError):
                    return whole(cell)
            if _ISO.match(cell) and not text.startswith(("%d.%m", "%d/%m", "%d-%m")):  # of a workbook, among texts
                return datetime.fromisoformat(cell).isoformat()
            if (again := _AGAIN.fullmatch(written)) is None:
                raise
            return whole(again[1])

    return read


def _iso(when: datetime) -> str:
    return when.isoformat()


def is_twice(when: datetime) -> bool:
    """Return whether a local time with a zone comes twice because clocks go back."""
    return when.replace(fold=0).utcoffset() > when.replace(fold=1).utcoffset()  # type: ignore[operator]


def localized(zone: str, in_order: bool = True, ends: timedelta = timedelta(0)) -> Callable[[str, str], str]:
    """Return a function that adds the UTC offset of a zone to times without an offset.

    The returned function takes a time and the name of the time's series. When clocks go back, one hour comes twice. If
    times are ``in_order``, a time in this hour that is not after the latest time before it is in the second of the two
    hours. All other times in this hour are in the first one.

    Parameters
    ----------
    ends : by which times are after the begin of their interval, of which the clock counts
    """
    known, place = dict[str, datetime](), times.zone_of(zone)

    def offset(text: str, series: str) -> str:
        """Return the time with its UTC offset, as ISO 8601."""
        when = (datetime.fromtimestamp(times.parse(text, "time", 0).seconds, UTC) - ends).replace(tzinfo=place)
        before = known.get(series)
        if in_order and before is not None and when.replace(tzinfo=UTC) <= before:
            when = when.replace(fold=1)
        known[series] = max(when.replace(tzinfo=UTC), before or when.replace(tzinfo=UTC))
        return ((when.astimezone(UTC) + ends).astimezone(place) if ends else when).isoformat()

    return offset
