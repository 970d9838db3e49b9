"""``livesvm webhook``: events that are sent to a URL."""

from __future__ import annotations

from typing import Annotated

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected
from livesvm.service.cli.output import AsJson, Yes, confirm, show

app = typer.Typer(help="Events that are sent to a URL, signed.", no_args_is_help=True)

WebhookId = Annotated[str, typer.Argument(help="The webhook's id.", metavar="WEBHOOK")]
WEBHOOKS = ("id", "url", "events", "waiting", "dead")
LETTERS = ("id", "type", "attempts", "reason", "dead_at")


def _listed(text: str) -> list[str] | None:
    return text.split(",") if text else None


@app.command("create")
def create(
    to: Annotated[str, typer.Argument(help="Where messages are sent: https://host/path.", metavar="URL")],
    events: Annotated[
        str, typer.Argument(help="forecast.outside, drift, store.fenced, job.finished; several with commas.")
    ],
    models: Annotated[str, typer.Option(help="Only these models, with commas.")] = "",
    feeds: Annotated[str, typer.Option(help="Only these feeds, with commas; fleet/* is a fleet.")] = "",
    above: Annotated[float | None, typer.Option(help="A forecast above it is outside.")] = None,
    below: Annotated[float | None, typer.Option(help="A forecast below it is outside.")] = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Create a webhook, and print it with its secret, which is not shown again."""
    with connected(url, key) as client:
        found = client.create_webhook(
            to,
            _listed(events) or [],
            models=_listed(models),
            feeds=_listed(feeds),
            above=above,
            below=below,
        )
        show(found if as_json else {name: found[name] for name in ("id", "url", "secret")}, as_json)


@app.command("list")
def list_all(url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """List every webhook, with how many messages wait and how many are dead letters."""
    with connected(url, key) as client:
        show(client.webhooks(), as_json, WEBHOOKS)


@app.command("show")
def show_one(webhook: WebhookId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Show one webhook, with what came of the last attempt."""
    with connected(url, key) as client:
        show(client.webhook(webhook), as_json)


@app.command("ping")
def ping(webhook: WebhookId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Send a test."""
    with connected(url, key) as client:
        show(client.ping_webhook(webhook), as_json)


@app.command("dead")
def dead(
    webhook: WebhookId,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=1000)] = 100,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """List messages that were given up, with the reason."""
    with connected(url, key) as client:
        show(client.dead_letters(webhook, limit), as_json, LETTERS)


@app.command("resend")
def resend(
    webhook: WebhookId,
    message: Annotated[str | None, typer.Option(help="Only the message of this id.")] = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Try dead letters again: one, or all."""
    with connected(url, key) as client:
        show(client.resend(webhook, message), as_json)


@app.command("delete")
def delete(webhook: WebhookId, yes: Yes = False, url: Url = LOCAL, key: ApiKey = "") -> None:
    """Delete a webhook, what waits for it and its dead letters."""
    confirm(f"Delete webhook {webhook} with what waits for it?", yes)
    with connected(url, key) as client:
        client.delete_webhook(webhook)
