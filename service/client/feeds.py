"""Requests about feeds, with the functions that parse their answers; both clients send these requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from livesvm.service.client.requests import (
    PAGE,
    Call,
    Document,
    Documents,
    Request,
    delete,
    document,
    get,
    given,
    json_content,
    listed,
    once,
    plain,
    post,
)

Rows = Any
"""Rows as mappings, columns by name, a pandas or polars frame, or the text of a CSV file as bytes."""


def rows_of(data: Rows) -> list[Document]:
    """Convert a table to a list of rows, which are mappings; neither pandas nor polars needs to be installed."""
    if hasattr(data, "to_dicts"):  # polars
        return list(data.to_dicts())
    if hasattr(data, "to_dict") and hasattr(data, "reset_index"):  # pandas
        named = data.reset_index() if data.index.name is not None else data
        return list(named.to_dict("records"))
    if isinstance(data, Mapping):
        columns = [list(values) for values in data.values()]
        return [dict(zip(data, cells, strict=True)) for cells in zip(*columns, strict=True)]
    if isinstance(data, Iterable):
        return [dict(row) for row in data]
    raise TypeError(f"a {type(data).__name__} holds no rows")


def rows_content(rows: Rows) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request that sends these rows."""
    return (rows, {"content-type": "text/csv"}) if isinstance(rows, bytes) else json_content({"rows": rows_of(rows)})


class FeedCalls:
    """The calls about feeds."""

    @Call
    def create_feed(self, /, id: str | None = None, **settings: Any) -> Request[Document]:
        """Create a feed; ``settings`` are ``target``, ``steps``, ``window``, ... as in ``POST /feeds``."""
        body = settings if id is None else {"id": id, **settings}
        return post("/feeds", body)

    @Call
    def feeds(self) -> Request[Documents]:
        """List all feeds, sorted by id."""
        return listed("/feeds", "feeds", limit=PAGE)

    @Call
    def feed(self, id: str) -> Request[Document]:
        """Describe one feed: its settings with chosen values, and its scores next to those of naive forecasts."""
        return get(f"/feeds/{id}")

    @Call
    def delete_feed(self, id: str) -> Request[None]:
        """Delete a feed, its models, its jobs and all of its stored data, but no entries of its source."""
        return delete(f"/feeds/{id}")

    @Call
    def observe(self, id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
        """Send readings to a feed, in order of time, in one call; the answer has ``accepted``, ``forecasts``, ...

        Parameters
        ----------
        rows : mappings of column to number or text, or columns by name, or a pandas or polars frame, or CSV as bytes
        """
        return once(f"/feeds/{id}/observations", rows_content(rows), idempotency_key)

    @Call
    def announce(self, id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
        """Announce values of known columns for future times; the ``forecasts`` of the answer use these values.

        Parameters
        ----------
        rows : as of :func:`observe`, with the times and the known columns
        """
        return once(f"/feeds/{id}/announce", rows_content(rows), idempotency_key)

    @Call
    def forecast_if(self, id: str, rows: Rows) -> Request[Document]:
        """Return the forecasts that the values of known columns in ``rows`` would give; nothing is stored."""
        return Request("POST", f"/feeds/{id}/forecast", document, True, *rows_content(rows))

    @Call
    def forecast(self, id: str) -> Request[Document]:
        """Return the newest forecasts of a feed; the answer has ``time``, ``forecasts``, ``stale``."""
        return get(f"/feeds/{id}/forecast")

    @Call
    def history(
        self,
        id: str,
        limit: int = 100,
        *,
        begin: Any = None,
        end: Any = None,
        step: int | None = None,
        points: int | None = None,
    ) -> Request[Documents]:
        """Return the newest readings in a feed's window, oldest first, and the forecasts that were made of each.

        ``begin`` and ``end`` are datetimes, or have the form of the times of the feed's readings. With ``step``, the
        answer contains only the forecasts of this step. If there are more readings than ``points``, only evenly spaced
        readings are returned.
        """
        times = {"from": plain(begin), "to": plain(end)}
        return listed(f"/feeds/{id}/history", "rows", limit=limit, **times, step=step, points=points)

    @Call
    def erase_readings(
        self,
        id: str,
        times: Iterable[Any] = (),
        *,
        begin: Any = None,
        end: Any = None,
        idempotency_key: str | None = None,
    ) -> Request[Document]:
        """Erase the readings of a feed at given times, and in a range of times, from all stored data.

        Times are datetimes, or have the form of the times of the feed's readings. The answer has ``version``,
        ``removed``, ``receipt``.
        """
        body = given(times=list(times) or None, **{"from": begin, "to": end})
        return once(f"/feeds/{id}/erase", body, idempotency_key)

    @Call
    def feed_certificate(self, id: str, *, max_seconds: float | None = None) -> Request[Document]:
        """Prove that a feed's models are optimal: return the certificates of the models of all steps."""
        return get(f"/feeds/{id}/certificate", max_seconds=max_seconds)

    @Call
    def feed_plot(self, id: str, extension: Literal["svg", "png"] = "svg", limit: int = 300) -> Request[bytes]:
        """Return a plot of a feed's newest readings and forecasts as an image."""
        path = f"/feeds/{id}/plot.{extension}"
        return Request("GET", path, lambda answer: answer.content, True, params={"limit": limit})

    @Call
    def backtest(self, /, id: str, rows: Rows | None = None, **settings: Any) -> Request[Document]:
        """Start a job that scores the forecasts that a feed would have made for rows, or for its own readings.

        ``settings`` replace the settings of the feed in this job.
        """
        body: Document = {"settings": settings}
        if rows is not None:
            body["rows"] = rows_of(rows)
        return post(f"/feeds/{id}/backtest", body)

    @Call
    def tune(self, id: str) -> Request[Document]:
        """Start a job that chooses new values for settings that are ``auto``; ``apply`` makes the feed use these."""
        return post(f"/feeds/{id}/tune")

    @Call
    def feed_drift(
        self,
        id: str,
        *,
        false_alarms: float | None = None,
        newest: int | None = None,
        steps: Iterable[int] = (),
        max_seconds: float | None = None,
    ) -> Request[Document]:
        """Test the windows of a feed's steps for drift, and compare remedies; the answer has ``steps``, ``update``, ...

        ``update`` contains the arguments with which :func:`update_feed` applies the remedies, or is None if no remedy
        helps significantly.

        Parameters
        ----------
        false_alarms : largest probability of an alarm of any step where nothing has changed; 0.01 when absent
        newest : number of the newest examples, by which remedies are judged
        steps : only these; all when there are none
        """
        asked = {
            "false_alarms": false_alarms,
            "newest": newest,
            "step": list(steps) or None,
            "max_seconds": max_seconds,
        }
        return get(f"/feeds/{id}/drift", **asked)

    @Call
    def update_feed(
        self,
        id: str,
        steps: Iterable[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        max_seconds: float | None = None,
    ) -> Request[Document]:
        """Keep only the newest examples of a feed's models, or change the models' C, along paths.

        Parameters
        ----------
        steps : mappings of ``step`` to one of the feed's, and of ``keep`` to the newest examples that stay, ``C``, or
            both
        max_seconds : time limit of the call; if it is exceeded, nothing is changed
        """
        body = {"steps": [dict(one) for one in steps]}
        return once(f"/feeds/{id}/update", body, idempotency_key, max_seconds=max_seconds)

    @Call
    def pause_feed(self, id: str) -> Request[Document]:
        """Stop a feed from reading its source until the feed is resumed."""
        return post(f"/feeds/{id}/pause", is_repeatable=True)

    @Call
    def resume_feed(self, id: str) -> Request[Document]:
        """Let a paused feed read its source again."""
        return post(f"/feeds/{id}/resume", is_repeatable=True)

    @Call
    def write_back_feed(self, id: str) -> Request[Document]:
        """Write a feed from memory back to a store that has lost it."""
        return post(f"/feeds/{id}/writeback", is_repeatable=True)
