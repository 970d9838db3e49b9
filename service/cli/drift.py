"""``livesvm drift`` and ``livesvm feed drift``: test windows for drift, and apply remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.commands import FeedId, ModelId, calling
from livesvm.service.cli.output import Told

if TYPE_CHECKING:
    from livesvm.service.client import Client

FalseAlarms = Annotated[float | None, typer.Option(help="Largest probability of a false alarm.")]
Newest = Annotated[int | None, typer.Option(help="Examples that remedies are judged by.")]
Apply = Annotated[bool, typer.Option("--apply", help="Make the update that is proposed.")]

Answer = dict[str, Any]
REMEDIES = ("kind", "value", "error", "better", "spread")


@calling
def of_model(
    client: Client, model: ModelId, false_alarms: FalseAlarms = None, newest: Newest = None, apply: Apply = False
) -> Any:
    """Test whether the data in a model's window have changed, and show remedies; with --apply, apply the best one."""
    answer = client.drift(model, false_alarms=false_alarms, newest=newest)
    known = ("version", "target_scale", "false_alarms")
    short = {name: answer[name] for name in known if name in answer} | _short(answer)
    if apply and answer["remedy"] is not None:
        answer["applied"] = client.update(model, **answer["remedy"]["update"])
        short["applied"] = answer["applied"]["version"]
    return Told(answer, [short, (answer["remedies"], REMEDIES)])


@calling
def of_feed(
    client: Client,
    feed: FeedId,
    step: Annotated[list[int] | None, typer.Option(help="Only this step; repeated.")] = None,
    false_alarms: FalseAlarms = None,
    newest: Newest = None,
    apply: Apply = False,
) -> Any:
    """Test whether the data in a feed's windows have changed, and show remedies; with --apply, apply them all."""
    answer = client.feed_drift(feed, steps=step or (), false_alarms=false_alarms, newest=newest)
    steps = [{"step": one["step"]} | _short(one) for one in answer["steps"]]
    remedies = [{"step": one["step"]} | remedy for one in answer["steps"] for remedy in one["remedies"]]
    parts = [(steps, tuple(steps[0])), (remedies, ("step", *REMEDIES))]
    if apply and answer["update"] is not None:
        answer["applied"] = client.update_feed(feed, **answer["update"])
        parts.append((answer["applied"]["events"], ("kind", "step", "forgotten", "C")))
    return Told(answer, parts)


def _short(answer: Answer) -> Answer:
    """Return the fields of an answer that the output shows in one row."""
    alarm = answer["alarm"] or {}
    short = {name: answer[name] for name in ("error", "evidence", "newest", "present")}
    short |= {f"alarm.{name}": alarm.get(name) for name in ("began", "n_since", "classes")}
    return short | {"proposed": answer["remedy"] and answer["remedy"]["update"]}
