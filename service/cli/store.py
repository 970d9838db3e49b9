"""``livesvm store``: copy models to another store."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from livesvm.service.cli.output import failing

app = typer.Typer(help="Move what is stored.", no_args_is_help=True)

Target = Annotated[str, typer.Argument(help="A data directory, or a Redis URL.")]
Prefix = Annotated[str, typer.Option(help="First part of every key in Redis.")]
Patience = Annotated[float, typer.Option(help="Seconds to wait for a service that has died.")]


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(help="A data directory, or a Redis URL.")],
    target: Target,
    prefix: Prefix = "livesvm",
    patience: Patience = 10.0,
) -> None:
    """Copy all models from one store to another, and check the copies."""
    from livesvm.service.datasets.catalogue import copy_data
    from livesvm.service.store.base import StoreError
    from livesvm.service.store.copy import Copied, copy_documents, copy_models, open_place
    from livesvm.service.store.files import keep_private
    from livesvm.service.store.sqlite import DATABASE

    def say(copied: Copied) -> None:
        """Print how much of one model was copied."""
        counts = f"{copied.records} records, {copied.snapshots} snapshots, {copied.requests} requests"
        print(f"{copied.model}: up to record {copied.sequence}; {counts}")

    keep_private()
    with failing(StoreError), ExitStack() as opened:
        if "://" not in source and not (Path(source) / DATABASE).is_file():
            raise ValueError(f"there is no store in {source}")
        begin, end = (open_place(place, prefix, opened) for place in (source, target))
        if "://" not in source + target:
            copy_data(Path(source), Path(target))  # before what describes it
        copy_documents(begin, end, lambda at: print(f"{at.kind} {at.name}"))
        copy_models(begin, end, patience, say)


@app.command("put")
def put(
    file: Annotated[Path, typer.Argument(help="As the service's log named it.")],
    target: Target,
    prefix: Prefix = "livesvm",
    patience: Patience = 10.0,
) -> None:
    """Write a model to the store from a file in which a stopping service has saved it."""
    from livesvm.service.errors import WritebackRefused
    from livesvm.service.history.rescue import bring_back
    from livesvm.service.store.base import StoreError
    from livesvm.service.store.copy import open_place
    from livesvm.service.store.files import keep_private

    keep_private()
    with failing(StoreError, WritebackRefused), ExitStack() as opened:
        print(bring_back(file, open_place(target, prefix, opened), patience))
