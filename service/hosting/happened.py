"""Events for webhooks; each follows only from the state after a log record, so a replay makes the same events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from livesvm.service.feeds.state import FeedState
from livesvm.service.models.state import ModelState
from livesvm.service.webhooks.messages import Happened
from livesvm.service.webhooks.spec import FORECAST, WebhookSpec

MOST = 10
"""Most forecasts in one message."""
_TOLD = ("step", "time", "value", "low", "high")

Document = dict[str, Any]


def of_model(id: str, state: ModelState) -> Iterator[Happened]:
    """Yield an event, which names no example, if the model's newest version has raised a drift alarm."""
    alarm = None if state.watch is None else state.watch.raised or state.watch.alarm
    if alarm is None or alarm["version"] != state.version:
        return
    data = {"model": id, **{name: alarm[name] for name in ("version", "n_since", "log10_evidence")}}
    yield Happened(
        "drift", id, f"{alarm['number']} {alarm['at']!r}", state.updated_at or 0.0, partial(_sent_to_all, data)
    )


def of_feed(id: str, stored: str, state: FeedState) -> Iterator[Happened]:
    """Yield the events of the feed's newest call: drift in a step, and forecasts that just left a webhook's limits."""
    calls = _newest_calls(state)
    if not calls:
        return
    now, at, known = calls[0][-1], state.updated_at or 0.0, {"feed": id, "version": state.version}
    for event in calls[0]:
        if event["kind"] == "drift":
            data = {**known, "position": event["position"], "step": event["step"], "since": event["since"]}
            yield Happened("drift", stored, f"{event['id']} {at!r}", at, partial(_sent_to_all, data))
    before = calls[1][-1]["forecasts"] if len(calls) > 1 else []

    def outside(spec: WebhookSpec) -> Document | None:
        """Return forecasts outside a webhook's limits; None if none are, or if some were at the call before."""
        found = _outside(spec, now["forecasts"])
        if not found or _outside(spec, before):
            return None
        forecasts = [{name: one.get(name) for name in _TOLD} for one in found[:MOST]]
        limits = {"above": spec.above, "below": spec.below, "outside": len(found)}
        return {**known, "position": now["position"], **limits, "forecasts": forecasts}

    yield Happened(FORECAST, stored, f"{now['id']} {at!r}", at, outside)


def _sent_to_all(data: Document, spec: WebhookSpec) -> Document:
    return data


def _outside(spec: WebhookSpec, forecasts: Sequence[Document]) -> list[Document]:
    return [one for one in forecasts if spec.is_outside(one["value"])]


def _newest_calls(state: FeedState) -> list[list[Document]]:
    """Return the events of the newest two calls, newest call first; the last event of each call has its readings."""
    found: list[list[Document]] = []
    for event in reversed(state.events):
        if event["kind"] == "readings":
            if len(found) == 2:
                break
            found.append([])
        if found:
            found[-1].insert(0, event)
    return found
