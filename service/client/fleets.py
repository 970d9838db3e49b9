"""Requests about fleets, with the functions that parse their answers; both clients send these requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from livesvm.service.client.feeds import Rows, rows_content
from livesvm.service.client.requests import Document, Page, Request, delete, get, given, once, page, post

_MEDIA = {b"PAR1": "application/vnd.apache.parquet", b"PK\x03\x04": "application/zip"}
_FORMATS = Literal["csv", "parquet", "arrow"]


def create_fleet(id: str, **settings: Any) -> Request[Document]:
    """Create a fleet; ``settings`` are ``target``, ``series``, ``steps``, ... as in ``POST /fleets``."""
    return post("/fleets", {"id": id, **settings})


def fleets(after: str = "") -> Request[Page]:
    """List all fleets, sorted by id, without their scores."""
    return page("fleets", after)


def fleet(id: str) -> Request[Document]:
    """Describe one fleet: its settings with chosen values, its scores over all series, and the worst series."""
    return get(f"/fleets/{id}")


def delete_fleet(id: str) -> Request[None]:
    """Delete a fleet, all of its series, and all of their stored data."""
    return delete(f"/fleets/{id}")


def observe_fleet(id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
    """Send readings of many series in one call; the answer has ``series``, ``accepted``, ``refused``, ...

    Parameters
    ----------
    rows : as of feeds, with the column of the series; bytes are CSV, npz or Parquet
    """
    return _rows(f"/fleets/{id}/observations", rows, idempotency_key)


def announce_fleet(id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
    """Announce values of known columns for future times, for the series that the rows name, or for all series.

    Parameters
    ----------
    rows : as of :func:`observe_fleet`, with the times and the known columns
    """
    return _rows(f"/fleets/{id}/announce", rows, idempotency_key)


def fleet_forecast(
    after: str, id: str, series: Iterable[str] | None = None, steps: Iterable[int] = ()
) -> Request[Page]:
    """Return the newest forecasts of all series of a fleet or of some, with a row for each series and step."""
    return page(f"fleets/{id}/forecast", after, "rows", **_wanted(series, steps))


def fleet_forecast_file(
    id: str, format: _FORMATS, after: str = "", *, limit: int = 1000, steps: Iterable[int] = ()
) -> Request[bytes]:
    """Return forecasts of the ``limit`` series after the series ``after``, as CSV, Parquet or an Arrow stream."""
    params = _wanted(None, steps) | {"format": format, "limit": limit, "after": after}
    return Request("GET", f"/fleets/{id}/forecast", lambda answer: answer.content, True, params=params)


def series(after: str, id: str) -> Request[Page]:
    """List all series of a fleet, with the ratio of each series' error to the error of the better naive forecast.

    In the answer, ``feed`` is the id of the feed that forecasts the series.
    """
    return page(f"fleets/{id}/series", after, "series")


def create_series(id: str, names: Iterable[str | int]) -> Request[Document]:
    """Create series before their first readings; the answer counts the ``created`` and all ``series``."""
    return post(f"/fleets/{id}/series", {"series": list(names)}, is_repeatable=True)


def pause_fleet(id: str) -> Request[Document]:
    """Stop a fleet from reading its source until the fleet is resumed."""
    return post(f"/fleets/{id}/pause", is_repeatable=True)


def resume_fleet(id: str) -> Request[Document]:
    """Let a paused fleet read its source again."""
    return post(f"/fleets/{id}/resume", is_repeatable=True)


def erase_series(
    id: str,
    series: Iterable[str | int] | None = None,
    times: Iterable[Any] = (),
    *,
    begin: Any = None,
    end: Any = None,
    idempotency_key: str | None = None,
) -> Request[Document]:
    """Erase readings by time from some or all series of a fleet; the answer has ``erased``, ``receipt``, ..."""
    some = {"series": None if series is None else list(series), "times": list(times) or None}
    body = given(**some, **{"from": begin, "to": end})
    return once(f"/fleets/{id}/erase", body, idempotency_key)


def _rows(path: str, rows: Rows, key: str | None) -> Request[Document]:
    content, headers = rows_content(rows)
    if isinstance(rows, bytes):
        headers["content-type"] = _MEDIA.get(rows[:4], headers["content-type"])
    return once(path, (content, headers), key)


def _wanted(series: Iterable[str] | None, steps: Iterable[int]) -> dict[str, Any]:
    asked: dict[str, Any] = {} if series is None else {"series": list(series)}
    return asked | ({"steps": ",".join(map(str, wanted))} if (wanted := list(steps)) else {})
