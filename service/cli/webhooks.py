"""``livesvm webhook``: create and test webhooks, which send events to URLs, and resend dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.commands import WebhookId, calling, plain
from livesvm.service.cli.output import Told
from livesvm.service.client.webhooks import WebhookCalls

if TYPE_CHECKING:
    from livesvm.service.client import Client

app = typer.Typer(help="Events that are sent to a URL, signed.", no_args_is_help=True)

Limit = Annotated[int, typer.Option(help="At most so many.", min=1, max=1000)]
Message = Annotated[str | None, typer.Option(help="Only the message of this id.")]
WEBHOOKS = ("id", "url", "events", "waiting", "dead")
LETTERS = ("id", "type", "attempts", "reason", "dead_at")


def _listed(text: str) -> list[str] | None:
    return text.split(",") if text else None


@app.command("create")
@calling
def create(
    client: Client,
    to: Annotated[str, typer.Argument(help="Where messages are sent: https://host/path.", metavar="URL")],
    events: Annotated[
        str, typer.Argument(help="forecast.outside, drift, store.fenced, job.finished; several with commas.")
    ],
    models: Annotated[str, typer.Option(help="Only these models, with commas.")] = "",
    feeds: Annotated[str, typer.Option(help="Only these feeds, with commas; fleet/* is a fleet.")] = "",
    above: Annotated[float | None, typer.Option(help="A forecast above it is outside.")] = None,
    below: Annotated[float | None, typer.Option(help="A forecast below it is outside.")] = None,
) -> Any:
    """Create a webhook, and print its settings and its secret, which is not shown again."""
    only: dict[str, Any] = {"models": _listed(models), "feeds": _listed(feeds), "above": above, "below": below}
    found = client.create_webhook(to, _listed(events) or [], **only)
    return Told(found, [{name: found[name] for name in ("id", "url", "secret")}])


app.command("list")(plain(WebhookCalls.webhooks, columns=WEBHOOKS))
app.command("show")(plain(WebhookCalls.webhook, WebhookId))
app.command("ping")(plain(WebhookCalls.ping_webhook, WebhookId))
app.command("dead")(plain(WebhookCalls.dead_letters, WebhookId, LETTERS, limit=Limit))
app.command("resend")(plain(WebhookCalls.resend, WebhookId, message=Message))
app.command("delete")(plain(WebhookCalls.delete_webhook, WebhookId, asks="Delete webhook {} with what waits for it?"))
