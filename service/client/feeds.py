"""Calls of feeds, as requests with functions that read their answers; shared by both clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from livesvm.service.client.requests import (
    Document,
    Page,
    Request,
    delete,
    document,
    get,
    given,
    json_content,
    listed,
    once,
    page,
    plain,
    post,
)

Rows = Any
"""Rows as mappings, columns by name, a pandas or polars frame, or the text of a CSV file as bytes."""


def create_feed(id: str | None = None, **settings: Any) -> Request[Document]:
    """Create a feed; ``settings`` hold ``target``, ``steps``, ``window``, ... as in ``POST /feeds``."""
    body = settings if id is None else {"id": id, **settings}
    return post("/feeds", body)


def feeds(after: str = "") -> Request[Page]:
    """List every feed, by id."""
    return page("feeds", after)


def feed(id: str) -> Request[Document]:
    """Describe one feed: its settings with what was chosen, its scores next to those of the naive forecasts."""
    return get(f"/feeds/{id}")


def delete_feed(id: str) -> Request[None]:
    """Delete a feed, its models, all that is stored of it, and its jobs; entries stay in its source."""
    return delete(f"/feeds/{id}")


def observe(id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
    """Send a feed readings, in order, in one call: ``accepted``, ``forecasts``, ...

    Parameters
    ----------
    rows : mappings of column to number or text, or columns by name, or a pandas or polars frame, or CSV as bytes
    """
    return once(f"/feeds/{id}/observations", rows_content(rows), idempotency_key)


def announce(id: str, rows: Rows, *, idempotency_key: str | None = None) -> Request[Document]:
    """Announce known columns of future times; the answer's ``forecasts`` use them.

    Parameters
    ----------
    rows : as of :func:`observe`, with the times and the known columns
    """
    return once(f"/feeds/{id}/announce", rows_content(rows), idempotency_key)


def forecast_if(id: str, rows: Rows) -> Request[Document]:
    """Return the forecasts as they would be with known columns as in ``rows``; nothing is stored."""
    return Request("POST", f"/feeds/{id}/forecast", document, True, *rows_content(rows))


def forecast(id: str) -> Request[Document]:
    """Return the newest forecasts of a feed: ``time``, ``forecasts``, ``stale``."""
    return get(f"/feeds/{id}/forecast")


def history(
    id: str,
    limit: int = 100,
    *,
    begin: Any = None,
    end: Any = None,
    step: int | None = None,
    points: int | None = None,
) -> Request[list[Document]]:
    """Return the newest readings of a feed's window, oldest first, with the forecasts that were made for them.

    ``begin`` and ``end`` are times in the form of the feed's readings, or datetimes. Forecasts are those of one
    ``step``, or of all steps. If there are more readings than ``points``, evenly spaced ones are returned.
    """
    times = {"from": plain(begin), "to": plain(end)}
    return listed(f"/feeds/{id}/history", "rows", limit=limit, **times, step=step, points=points)


def erase_readings(
    id: str, times: Iterable[Any] = (), *, begin: Any = None, end: Any = None, idempotency_key: str | None = None
) -> Request[Document]:
    """Erase readings for good, at some times and in a range of times: ``version``, ``removed``, ``receipt``.

    Times are in the form of the feed's readings, or datetimes.
    """
    body = given(times=list(times) or None, **{"from": begin, "to": end})
    return once(f"/feeds/{id}/erase", body, idempotency_key)


def feed_certificate(id: str) -> Request[Document]:
    """Return the certificate of every step's models."""
    return get(f"/feeds/{id}/certificate")


def feed_plot(id: str, extension: Literal["svg", "png"] = "svg", limit: int = 300) -> Request[bytes]:
    """Return a picture of a feed's newest readings and forecasts."""
    path = f"/feeds/{id}/plot.{extension}"
    return Request("GET", path, lambda answer: answer.content, True, params={"limit": limit})


def backtest(id: str, rows: Rows | None = None, **settings: Any) -> Request[Document]:
    """Start a job that scores the forecasts that a feed would have made, of rows or of its own readings.

    ``settings`` replace the feed's own.
    """
    body: Document = {"settings": settings}
    if rows is not None:
        body["rows"] = rows_of(rows)
    return post(f"/feeds/{id}/backtest", body)


def tune(id: str) -> Request[Document]:
    """Start a job that chooses again what the settings leave to ``auto``; ``apply`` then uses its choice."""
    return post(f"/feeds/{id}/tune")


def feed_drift(
    id: str,
    *,
    false_alarms: float | None = None,
    newest: int | None = None,
    steps: Iterable[int] = (),
    max_seconds: float | None = None,
) -> Request[Document]:
    """Test the windows of a feed's steps for drift, and compare remedies: ``steps``, ``update``, ...

    ``update`` has the arguments with which :func:`update_feed` applies the remedies; None if none helps for sure.

    Parameters
    ----------
    false_alarms : largest probability of an alarm of any step where nothing has changed; 0.01 when absent
    newest : number of the newest examples, by which remedies are judged
    steps : only these; all when there are none
    """
    asked = {"false_alarms": false_alarms, "newest": newest, "step": list(steps) or None, "max_seconds": max_seconds}
    return get(f"/feeds/{id}/drift", **asked)


def update_feed(
    id: str,
    steps: Iterable[Mapping[str, Any]],
    *,
    idempotency_key: str | None = None,
    max_seconds: float | None = None,
) -> Request[Document]:
    """Reduce the examples of a feed's models, or change their C, along paths: ``events``, ...

    Parameters
    ----------
    steps : mappings of ``step`` to one of the feed's, and of ``keep`` to the newest examples that stay, ``C``, or both
    max_seconds : time limit of the call; if it is exceeded, nothing is changed
    """
    body = {"steps": [dict(one) for one in steps]}
    return once(f"/feeds/{id}/update", body, idempotency_key, max_seconds=max_seconds)


def pause_feed(id: str) -> Request[Document]:
    """Stop a feed from reading its source, until it is resumed."""
    return post(f"/feeds/{id}/pause", is_repeatable=True)


def resume_feed(id: str) -> Request[Document]:
    """Let a paused feed read its source again."""
    return post(f"/feeds/{id}/resume", is_repeatable=True)


def write_back_feed(id: str) -> Request[Document]:
    """Write a feed from memory back to the store, which has lost it."""
    return post(f"/feeds/{id}/writeback", is_repeatable=True)


def rows_of(data: Rows) -> list[Document]:
    """Return the rows of a table as mappings; neither pandas nor polars needs to be installed."""
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
    """Return the body and the headers of a request that sends rows."""
    return (rows, {"content-type": "text/csv"}) if isinstance(rows, bytes) else json_content({"rows": rows_of(rows)})
