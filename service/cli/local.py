"""Commands that need no running service: start one, print its settings, make a key."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from livesvm.service.cli.output import AsJson, show


def serve(
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Ray cluster in which the models live, in place of LIVESVM_RAY.")
    ] = "",
) -> None:
    """Run the service; settings come from the environment (livesvm settings)."""
    if ray:
        os.environ["LIVESVM_RAY"] = ray
    from livesvm.service.cli.serve import serve as run

    raise typer.Exit(run())


def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a document.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every setting, its default and its meaning."""
    from livesvm.service.settings import table

    rows = table()
    if as_json:
        show([{"name": name, "default": default, "meaning": meaning} for name, default, meaning in rows], as_json)
        return
    if markdown:
        print("| setting | default | meaning |\n| --- | --- | --- |")
    for name, default, meaning in rows:
        if markdown:
            print(f"| `{name}` | {f'`{default}`' if default else '(empty)'} | {meaning} |")
        else:
            print(f"{name}={default}\n    {meaning}")


def key(
    scope: Annotated[
        Literal["read", "learn", "admin"], typer.Option(help="What it allows; each includes those before.")
    ],
    label: Annotated[str, typer.Option(help="Who it is for, as the entry and the log will say.")] = "key",
    as_json: AsJson = False,
) -> None:
    """Make an API key."""
    from livesvm.service.access.keys import new_key

    secret, entry = new_key(label, scope)
    if as_json:
        show({"key": secret, "entry": entry}, as_json)
        return
    print(f"key, for the caller, shown once:  {secret}")
    print(f"entry for LIVESVM_API_KEYS:       {entry}")
