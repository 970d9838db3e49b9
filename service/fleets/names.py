"""What series are called, and the ids of their feeds: the fleet's id, a slash, and the name, quoted."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from livesvm.service.history.names import prefix_of
from livesvm.solvers.errors import InvalidInput

FLEET_ID = r"^[a-z0-9][a-z0-9_-]{0,35}$"
LONGEST = 256
"""Characters of a name."""
LONGEST_QUOTED = 12 * LONGEST
"""Once it is quoted: four bytes of three letters for each character."""
LARGEST = 2**63
"""Number that is a name: as text it is one as well, and JSON may hold one of a million digits."""
SERIES_ID = rf"[A-Za-z0-9._~-]{{1,{LONGEST_QUOTED}}}"
OF_FEEDS = frozenset(
    [
        "observations",
        "announce",
        "forecast",
        "history",
        "certificate",
        "events",
        "plot",
        "backtest",
        "tune",
        "drift",
        "update",
        "erase",
        "pause",
        "resume",
        "writeback",
    ]
)
"""What stands behind the id of a feed in a path: a name that begins so is distinguished by quoting its first letter."""


def name_of(value: Any, row: int | None = None, field: str = "series") -> str:
    """Return the name of a series from a row's cell, text or a whole number; raises InvalidInput.

    >>> name_of("7"), name_of(7), name_of(7.0)
    ('7', '7', '7')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        value = str(value)
    if not isinstance(value, str):
        raise InvalidInput(
            f"the name of a series is text, or a whole number up to 2**63, not {_shown(value)}", field=field, row=row
        )
    if not value or value != value.strip() or not value.isprintable():
        raise InvalidInput(
            "the name of a series has no spaces around it, and what is printed alone", field=field, row=row
        )
    return value


def _shown(value: Any) -> str:
    """Return how JSON has a cell that is no name; a number may have any number of digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "a larger one"
    return str(value)[:32].lower() if isinstance(value, bool) else repr(value)[:32]


def quoted(name: str) -> str:
    """Return a name as ids and paths have it: bytes but letters a to z, digits, ``.``, ``_``, ``-`` as ~ and two
    digits.

    Names are different where these are. Raises InvalidInput for one of more than 256 characters.

    >>> quoted("meter-17"), quoted("Zähler 7"), quoted("plot")
    ('meter-17', 'Z~C3~A4hler~207', '~70lot')
    """
    if len(name) > LONGEST:
        raise InvalidInput(f"has {len(name)} characters, the limit is {LONGEST}", field="series")
    is_special = not name.strip(".") or name.partition(".")[0] in OF_FEEDS
    found = quote(name, safe="", errors="surrogatepass").replace("~", "~7E").replace("%", "~")
    if is_special:
        found = f"~{ord(name[0]):02X}{found[1:]}"
    return found


def unquoted(quoted: str) -> str:
    """Return the name that was quoted."""
    return unquote(quoted.replace("~", "%"))


def feed_of(fleet: str, name: str) -> str:
    """Return the feed id of a series; raises InvalidInput."""
    return prefix_of(fleet) + quoted(name)


def series_of(feed: str) -> str:
    """Return the series name of a fleet's feed."""
    return unquoted(feed.partition("/")[2])
