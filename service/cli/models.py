"""``livesvm models``: create, list, show and delete models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected
from livesvm.service.cli.output import AsJson, Yes, confirm, parsed, show

app = typer.Typer(help="Create, list, show and delete models.", no_args_is_help=True)

ModelId = Annotated[str, typer.Argument(help="The model's id.", metavar="MODEL")]
COLUMNS = ("id", "task", "state", "version", "n_examples", "n_support", "relative_gap", "updated_at")


@app.command("list")
def list_all(url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """List every model, by id."""
    with connected(url, key) as client:
        show(client.models(), as_json, COLUMNS)


@app.command("show")
def show_one(model: ModelId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Show one model as it is now."""
    with connected(url, key) as client:
        show(client.model(model), as_json)


@app.command("create")
def create(
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
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Create a model, which is empty."""
    with connected(url, key) as client:
        given: dict[str, Any] = {"task": task, "kernel": {"name": kernel}}
        if gamma is not None:
            given["kernel"]["gamma"] = gamma
        if C is not None:
            given["C"] = C
        if label:
            given["labels"] = _labels(label)
        if max_examples is not None:
            given["window"] = {"max_examples": max_examples}
        if drift_alarms is not None:
            given["drift_alarms"] = drift_alarms
        show(client.create_model(model, **given | parsed(spec, "--spec")), as_json)


@app.command("delete")
def delete(model: ModelId, yes: Yes = False, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Delete a model, all that is stored of it, and its jobs."""
    confirm(f"Delete model {model} and all that is stored of it?", yes)
    with connected(url, key) as client:
        client.delete_model(model)
        if as_json:
            show({"deleted": model}, as_json)


def _labels(texts: list[str]) -> list[str] | list[int]:
    """Return labels as files of examples have them: whole numbers if all of them are, else words."""
    try:
        return [int(text) for text in texts]
    except ValueError:
        return texts
