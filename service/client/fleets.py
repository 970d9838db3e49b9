"""Requests about fleets, with the functions that parse their answers; both clients send these requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from livesvm.service.client.feeds import Rows, rows_content
from livesvm.service.client.requests import (
    PAGE,
    Call,
    Document,
    Documents,
    Request,
    delete,
    get,
    given,
    listed,
    once,
    post,
)

_MEDIA = {b"PAR1": "application/vnd.apache.parquet", b"PK\x03\x04": "application/zip"}
_FORMATS = Literal["csv", "parquet", "arrow"]


def _rows(path: str, rows: Rows, key: str | None) -> Request[Document]:
    content, headers = rows_content(rows)
    if isinstance(rows, bytes):
        headers["content-type"] = _MEDIA.get(rows[:4], headers["content-type"])
    return once(path, (content, headers), key)


def _wanted(series: Iterable[str] | None, steps: Iterable[int]) -> dict[str, Any]:
    asked: dict[str, Any] = {} if series is None else {"series": list(series)}
    return asked | ({"steps": ",".join(map(str, wanted))} if (wanted := list(steps)) else {})


class FleetCalls:
    """The calls about fleets."""

    @Call
    def create_fleet(self, /, id: str, **settings: Any) -> Request[Document]:
        """Create a fleet; ``settings`` are ``target``, ``series``, ``steps``, ... as in ``POST /fleets``."""
        return post("/fleets", {"id": id, **settings})

    @Call
    def fleets(self) -> Request[Documents]:
        """List all fleets, sorted by id, without their scores."""
        return listed("/fleets", "fleets", limit=PAGE)

    @Call
    def fleet(self, id: str) -> Request[Document]:
        """Describe one fleet: its settings with chosen values, its scores over all series, and the worst series."""
        return get(f"/fleets/{id}")

    @Call
    def delete_fleet(self, id: str) -> Request[None]:
        """Delete a fleet, all of its series, and all of their stored data."""
        return delete(f"/fleets/{id}")

    @Call
    def observe_fleet(self, id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
        """Send readings of many series in one call; the answer has ``series``, ``accepted``, ``refused``, ...

        Parameters
        ----------
        rows : as of feeds, with the column of the series; bytes are CSV, npz or Parquet
        """
        return _rows(f"/fleets/{id}/observations", rows, idempotency_key)

    @Call
    def announce_fleet(self, id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
        """Announce values of known columns for future times, for the series that the rows name, or for all series.

        Parameters
        ----------
        rows : as of :func:`observe_fleet`, with the times and the known columns
        """
        return _rows(f"/fleets/{id}/announce", rows, idempotency_key)

    @Call
    def fleet_forecast(
        self, id: str, series: Iterable[str] | None = None, steps: Iterable[int] = ()
    ) -> Request[Documents]:
        """Return the newest forecasts of all series of a fleet or of some, with a row for each series and step."""
        return listed(f"/fleets/{id}/forecast", "rows", limit=PAGE, **_wanted(series, steps))

    @Call
    def fleet_forecast_file(
        self, id: str, format: _FORMATS, after: str = "", *, limit: int = 1000, steps: Iterable[int] = ()
    ) -> Request[bytes]:
        """Return forecasts of the ``limit`` series after the series ``after``, as CSV, Parquet or an Arrow stream."""
        params = _wanted(None, steps) | {"format": format, "limit": limit, "after": after}
        return Request("GET", f"/fleets/{id}/forecast", lambda answer: answer.content, True, params=params)

    @Call
    def series(self, id: str) -> Request[Documents]:
        """List all series of a fleet, with the ratio of each series' error to the error of the better naive forecast.

        In the answer, ``feed`` is the id of the feed that forecasts the series.
        """
        return listed(f"/fleets/{id}/series", "series", limit=PAGE)

    @Call
    def create_series(self, id: str, names: Iterable[str | int]) -> Request[Document]:
        """Create series before their first readings; the answer counts the ``created`` and all ``series``."""
        return post(f"/fleets/{id}/series", {"series": list(names)}, is_repeatable=True)

    @Call
    def pause_fleet(self, id: str) -> Request[Document]:
        """Stop a fleet from reading its source until the fleet is resumed."""
        return post(f"/fleets/{id}/pause", is_repeatable=True)

    @Call
    def resume_fleet(self, id: str) -> Request[Document]:
        """Let a paused fleet read its source again."""
        return post(f"/fleets/{id}/resume", is_repeatable=True)

    @Call
    def erase_series(
        self,
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
