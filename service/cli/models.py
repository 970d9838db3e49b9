"""``livesvm models``: create, list, show and delete models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from livesvm.service.cli.commands import ModelId, calling, plain
from livesvm.service.cli.learning import Key, Target, first_examples
from livesvm.service.cli.output import AsJson, parsed
from livesvm.service.cli.readings import DryRun, of_examples
from livesvm.service.client import requests
from livesvm.service.client.requests import ModelCalls

if TYPE_CHECKING:
    from livesvm.service.client import Client

app = typer.Typer(help="Create, list, show and delete models.", no_args_is_help=True)

COLUMNS = ("id", "task", "state", "version", "n_examples", "n_support", "relative_gap", "updated_at")

app.command("list")(plain(ModelCalls.models, columns=COLUMNS))
app.command("show")(plain(ModelCalls.model, ModelId))


@app.command("create")
@calling
@of_examples
def create(
    client: Client,
    model: ModelId,
    task: Annotated[
        Literal["svc", "svr", "oneclass", "pu", "l2svc"] | None,
        typer.Option(help="What it learns: svc, or svr where a table's targets are no labels."),
    ] = None,
    kernel: Annotated[
        Literal["linear", "rbf", "laplacian", "poly", "sigmoid"], typer.Option(help="Its kernel.")
    ] = "rbf",
    gamma: Annotated[float | None, typer.Option(help="Of all kernels but linear.")] = None,
    C: Annotated[float | None, typer.Option("--C", help="Cost of an error.")] = None,
    components: Annotated[
        str | None, typer.Option(help="Rank of the kernel, for windows with thousands on the margin; or auto.")
    ] = None,
    target_scale: Annotated[
        Literal["none", "log", "log1p", "auto"] | None,
        typer.Option(help="Of svr: the scale on which targets are learnt."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="A label that there may be; repeated. Others are then refused.")
    ] = None,
    max_examples: Annotated[int | None, typer.Option(help="Window: so many of the newest examples.")] = None,
    drift_alarms: Annotated[
        float | None, typer.Option(help="Test for drift, with at most so many false alarms in 5,000 examples.")
    ] = None,
    spec: Annotated[str, typer.Option(help="All else as JSON, as POST /models takes it.")] = "{}",
    csv: Annotated[Path | None, typer.Option(help="A table that it learns, as `livesvm inspect` reads it.")] = None,
    target: Target = None,
    key_column: Key = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Create an empty model, or with --csv, a model that learns the rows of a table.

    If the table has more than 5,000 rows, the model learns 5,000 evenly spaced rows; with --max-examples, it learns
    that number of the last rows.
    """
    asked: dict[str, Any] = {"task": task or "svc", "kernel": {"name": kernel}, "C": C, "drift_alarms": drift_alarms}
    asked["target_scale"] = target_scale
    if gamma is not None:
        asked["kernel"]["gamma"] = gamma
    if components is not None:
        asked["components"] = int(components) if components.isdecimal() else components
    if label:
        asked["labels"] = _labels(label)
    if max_examples is not None:
        asked["window"] = {"max_examples": max_examples}
    asked = requests.given(**asked) | parsed(spec, "--spec")
    if csv is None:
        if target is not None or dry_run:
            raise typer.BadParameter("needs a table, --csv", param_hint="--target" if target else "--dry-run")
        return client.create_model(model, **asked)
    if task == "l2svc":
        raise typer.BadParameter("is of the other tasks; `livesvm update` learns a file of numbers", param_hint="--csv")
    from livesvm.service.cli import tables

    found = tables.learnt(csv, given, target, key_column, max_examples, task)
    if dry_run:
        return first_examples(found.first)
    return tables.create(client, model, asked | found.settings, found, is_quiet=as_json)


app.command("delete")(plain(ModelCalls.delete_model, ModelId, asks="Delete model {} and all that is stored of it?"))


def _labels(texts: list[str]) -> list[str] | list[int]:
    """Convert labels in the same way as files of examples: to whole numbers if all labels are such, else to words."""
    try:
        return [int(text) for text in texts]
    except ValueError:
        return texts
