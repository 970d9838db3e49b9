"""Names of series, and the ids of their feeds: the fleet's id, a slash, and the quoted name."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from livesvm.service.history.names import prefix_of
from livesvm.solvers.errors import InvalidInput

FLEET_ID = r"^[a-z0-9][a-z0-9_-]{0,35}$"
LONGEST = 256
"""Most characters of a name."""
LONGEST_QUOTED = 12 * LONGEST
"""Most characters of a quoted name: four bytes of three letters for each character."""
LARGEST = 2**63
"""Largest number that is taken as a name, as a number in JSON may have a million digits; as text it is a name too."""
SERIES_ID = rf"[A-Za-z0-9._~-]{{1,{LONGEST_QUOTED}}}"
OF_FEEDS = frozenset(
    {
        *("observations", "announce", "forecast", "history", "certificate", "events", "plot", "backtest", "tune"),
        *("drift", "update", "erase", "pause", "resume", "writeback"),
    }
)
"""Words that follow the id of a feed in paths. The first letter of a series' name that begins with one is quoted."""


def name_of(value: Any, row: int | None = None, field: str = "series") -> str:
    """Return the name of a series from a row's cell, text or a whole number; raises InvalidInput.

    >>> name_of("7"), name_of(7), name_of(7.0)
    ('7', '7', '7')
    """
    if not isinstance(value, str):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST:
            reason = f"the name of a series is text, or a whole number up to 2**63, not {_shown(value)}"
            raise InvalidInput(reason, field=field, row=row)
        value = str(value)
    name: str = value
    if not name or name != name.strip() or not name.isprintable():
        raise InvalidInput(
            "the name of a series has no spaces around it, and what is printed alone", field=field, row=row
        )
    return name


def _shown(value: Any) -> str:
    """Return a cell that is no name as text for a message, without the digits of a large number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "a larger one"
    return str(value)[:32].lower() if isinstance(value, bool) else repr(value)[:32]


def quoted(name: str) -> str:
    """Return a name as ids and paths have it: bytes other than letters, digits, ``.``, ``_`` and ``-`` become ~ and two
    hexadecimal digits.

    Different names have different results. Raises InvalidInput for an empty name, or one of more than 256 characters.

    >>> quoted("meter-17"), quoted("Zähler 7"), quoted("plot")
    ('meter-17', 'Z~C3~A4hler~207', '~70lot')
    """
    if not 0 < len(name) <= LONGEST:
        raise InvalidInput(f"has {len(name)} characters, and needs 1 to {LONGEST}", field="series")
    is_special = not name.strip(".") or name.partition(".")[0] in OF_FEEDS
    found = name
    if not _IS_PLAIN(name):
        found = quote(name, safe="", errors="surrogatepass").replace("~", "~7E").replace("%", "~")
    if is_special:
        found = f"~{ord(name[0]):02X}{found[1:]}"
    return found


_IS_PLAIN = re.compile(r"[A-Za-z0-9._-]+").fullmatch


def unquoted(quoted: str) -> str:
    """Return the name from its quoted form."""
    return unquote(quoted.replace("~", "%"))


def feed_of(fleet: str, name: str) -> str:
    """Return the feed id of a series; raises InvalidInput."""
    return prefix_of(fleet) + quoted(name)


def series_of(feed: str) -> str:
    """Return the series name of a fleet's feed."""
    return unquoted(feed.partition("/")[2])
