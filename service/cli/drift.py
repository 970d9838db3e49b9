"""``livesvm drift`` and ``livesvm feed drift``: what has changed in a window, and what would help."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected
from livesvm.service.cli.feeds import FeedId
from livesvm.service.cli.models import ModelId
from livesvm.service.cli.output import AsJson, show

FalseAlarms = Annotated[float | None, typer.Option(help="Largest probability of a false alarm.")]
Newest = Annotated[int | None, typer.Option(help="Examples that remedies are judged by.")]
Apply = Annotated[bool, typer.Option("--apply", help="Make the update that is proposed.")]

Answer = dict[str, Any]
REMEDIES = ("kind", "value", "error", "better", "spread")


def of_model(
    model: ModelId,
    false_alarms: FalseAlarms = None,
    newest: Newest = None,
    apply: Apply = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Tell whether a model's window has changed, and what would help; apply that, if wished."""
    with connected(url, key) as client:
        answer = client.drift(model, false_alarms=false_alarms, newest=newest)
        if apply and answer["remedy"] is not None:
            answer["applied"] = client.update(model, **answer["remedy"]["update"])
        if as_json:
            show(answer, as_json)
            return
        short = {name: answer[name] for name in ("version", "false_alarms")} | _short(answer)
        show(short | ({"applied": answer["applied"]["version"]} if "applied" in answer else {}), as_json)
        show(answer["remedies"], as_json, REMEDIES)


def of_feed(
    feed: FeedId,
    step: Annotated[list[int] | None, typer.Option(help="Only this step; repeated.")] = None,
    false_alarms: FalseAlarms = None,
    newest: Newest = None,
    apply: Apply = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Tell whether the windows of a feed's steps have changed, and what would help; apply that, if wished."""
    with connected(url, key) as client:
        answer = client.feed_drift(feed, steps=step or (), false_alarms=false_alarms, newest=newest)
        if apply and answer["update"] is not None:
            answer["applied"] = client.update_feed(feed, **answer["update"])
        if as_json:
            show(answer, as_json)
            return
        steps = [{"step": one["step"]} | _short(one) for one in answer["steps"]]
        show(steps, as_json, tuple(steps[0]))
        remedies = [{"step": one["step"]} | remedy for one in answer["steps"] for remedy in one["remedies"]]
        show(remedies, as_json, ("step", *REMEDIES))
        if "applied" in answer:
            show(answer["applied"]["events"], as_json, ("kind", "step", "forgotten", "C"))


def _short(answer: Answer) -> Answer:
    """Return what is shown of an answer in one row."""
    alarm = answer["alarm"] or {}
    short = {name: answer[name] for name in ("error", "evidence", "newest", "present")}
    short |= {f"alarm.{name}": alarm.get(name) for name in ("began", "n_since", "classes")}
    return short | {"proposed": answer["remedy"] and answer["remedy"]["update"]}
