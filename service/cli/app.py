"""The groups of commands of ``livesvm``; a command imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from livesvm.service.cli import (
    drift,
    erasing,
    feeds,
    fleets,
    inspect,
    learning,
    local,
    models,
    paths,
    receipts,
    store,
    webhooks,
)

app = typer.Typer(
    help="Live support vector machines.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import livesvm

        print(livesvm.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Live support vector machines."""


app.command("inspect")(inspect.inspect)
app.command("serve")(local.serve)
app.command("demo")(local.demo)
app.command("settings")(local.settings)
app.command("key")(local.key)
app.command("backup")(local.backup)
app.command("restore")(local.restore)
app.add_typer(store.app, name="store")
app.add_typer(receipts.app, name="receipt")
app.add_typer(models.app, name="models")
app.add_typer(feeds.app, name="feed")
app.add_typer(fleets.app, name="fleet")
app.add_typer(webhooks.app, name="webhook")
fleets.app.command("erase")(erasing.erase_series)
feeds.app.command("erase")(erasing.erase_readings)
feeds.app.command("drift")(drift.of_feed)
app.command("erase")(erasing.erase)
app.command("erase-everywhere")(erasing.erase_everywhere)
app.command("update")(learning.update)
app.command("predict")(learning.predict)
app.command("what-if")(learning.what_if)
app.command("explain")(learning.explain)
app.command("drift")(drift.of_model)
app.command("certificate")(learning.certificate)
app.command("path")(paths.path)
app.command("tune")(paths.tune)
app.command("suspects")(paths.suspects)
app.command("outliers")(paths.outliers)
