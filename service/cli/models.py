"""``livesvm models``: create, list, show and delete models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from livesvm.service.cli.commands import ModelId, calling, plain
from livesvm.service.cli.output import parsed
from livesvm.service.client import requests

if TYPE_CHECKING:
    from livesvm.service.client import Client

app = typer.Typer(help="Create, list, show and delete models.", no_args_is_help=True)

COLUMNS = ("id", "task", "state", "version", "n_examples", "n_support", "relative_gap", "updated_at")

app.command("list")(plain(requests.models, columns=COLUMNS))
app.command("show")(plain(requests.model, ModelId))


@app.command("create")
@calling
def create(
    client: Client,
    model: ModelId,
    task: Annotated[Literal["svc", "svr", "oneclass", "pu"], typer.Option(help="What it learns.")] = "svc",
    kernel: Annotated[Literal["linear", "rbf", "poly"], typer.Option(help="Its kernel.")] = "rbf",
    gamma: Annotated[float | None, typer.Option(help="Of the kernels rbf and poly.")] = None,
    C: Annotated[float | None, typer.Option("--C", help="Cost of an error.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="A label that there may be; repeated. Others are then refused.")
    ] = None,
    max_examples: Annotated[int | None, typer.Option(help="Window: so many of the newest examples.")] = None,
    drift_alarms: Annotated[
        float | None, typer.Option(help="Test for drift, with at most so many false alarms in 5,000 examples.")
    ] = None,
    spec: Annotated[str, typer.Option(help="All else as JSON, as POST /models takes it.")] = "{}",
) -> Any:
    """Create a model, which is empty."""
    given: dict[str, Any] = {"task": task, "kernel": {"name": kernel}, "C": C, "drift_alarms": drift_alarms}
    if gamma is not None:
        given["kernel"]["gamma"] = gamma
    if label:
        given["labels"] = _labels(label)
    if max_examples is not None:
        given["window"] = {"max_examples": max_examples}
    return client.create_model(model, **requests.given(**given) | parsed(spec, "--spec"))


app.command("delete")(plain(requests.delete_model, ModelId, asks="Delete model {} and all that is stored of it?"))


def _labels(texts: list[str]) -> list[str] | list[int]:
    """Return labels as files of examples have them: whole numbers if all of them are, else words."""
    try:
        return [int(text) for text in texts]
    except ValueError:
        return texts
