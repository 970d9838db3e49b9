"""Commands that need no running service: they start one, print its settings, create API keys, and make backups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from livesvm.service.cli.output import AsJson, failing, show

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="LIVESVM_DATA_DIR", help="The data directory of the service.")
]
DEFAULT_DATA_DIR = Path("livesvm-data")


def serve(
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Ray cluster in which the models live, in place of LIVESVM_RAY.")
    ] = "",
) -> None:
    """Run the service, with settings from environment variables, which `livesvm settings` lists."""
    if ray:
        os.environ["LIVESVM_RAY"] = ray
    from livesvm.service.cli.serve import serve as run

    raise typer.Exit(run())


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the service up and say how to stop it.")] = False,
    months: Annotated[int | None, typer.Option(help="Stop after so many months; all 24 by default.")] = None,
    picture: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("fisher-river.png"),
) -> None:
    """Start a service, and let it forecast the Fisher River; the service ends with this command."""
    from livesvm.service.demo.main import main

    given = ["--picture", str(picture), *(["--keep"] if keep else [])]
    raise typer.Exit(main(given if months is None else [*given, "--months", str(months)]))


def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a document.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print all settings of the service, with their defaults and meanings."""
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
    label: Annotated[str, typer.Option(help="Name of the caller, for the entry and the log.")] = "key",
    as_json: AsJson = False,
) -> None:
    """Create an API key, and print its secret and its entry for the settings."""
    from livesvm.service.access.keys import new_key

    secret, entry = new_key(label, scope)
    if as_json:
        show({"key": secret, "entry": entry}, as_json)
        return
    print(f"key, for the caller, shown once:  {secret}")
    print(f"entry for LIVESVM_API_KEYS:       {entry}")


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory for the backup.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Back up a service on this machine, running or not: its store, signing key of receipts, datasets and jobs."""
    from livesvm.service.lifecycle.backup import back_up
    from livesvm.service.store.base import StoreError
    from livesvm.service.store.files import keep_private

    keep_private()
    in_redis = bool(os.environ.get("LIVESVM_REDIS_URL"))
    with failing(StoreError):
        found = back_up(data_dir, directory, has_store=not in_redis)
    print(f"{data_dir}: {len(found['files'])} files are backed up in {directory}")
    if in_redis:
        print("The models are in Redis, as LIVESVM_REDIS_URL says: back that up too.")


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A backup.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Check all files of a backup, and create the data directory of a stopped service from them."""
    from livesvm.service.lifecycle.backup import restore as restore_from
    from livesvm.service.store.base import StoreError
    from livesvm.service.store.files import keep_private

    keep_private()
    with failing(StoreError):
        found = restore_from(directory, data_dir)
    print(f"{data_dir}: {len(found['files'])} files are restored from {directory}, made at {found['made_at']}")
