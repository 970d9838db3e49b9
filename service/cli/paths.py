"""``livesvm path``, ``tune`` and ``outliers``: jobs, waited for, shown, drawn and applied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected, finished
from livesvm.service.cli.models import ModelId
from livesvm.service.cli.output import AsJson, show

if TYPE_CHECKING:
    from livesvm.service.client import Client

Validation = Annotated[Path | None, typer.Option(help="Examples to choose by: .npz, .csv or .json.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the result there: .svg or .png.")]
Apply = Annotated[bool, typer.Option("--apply", help="Bring the best value into the live model.")]


def path(
    model: ModelId,
    minimum: Annotated[float | None, typer.Option("--from", help="Least value.")] = None,
    maximum: Annotated[float | None, typer.Option("--to", help="Largest value.")] = None,
    parameter: Annotated[str | None, typer.Option(help="C, epsilon, nu or lam, as the model has it.")] = None,
    validation: Validation = None,
    plot: Plot = None,
    apply: Apply = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Walk the whole regularization path of a model's window."""
    with connected(url, key) as client:
        asked = client.regularization_path(model, minimum, maximum, parameter=parameter, validation=_given(validation))
        _told(client, asked, plot, apply, as_json)


def tune(
    model: ModelId,
    judge: Annotated[
        Literal["k-fold", "leave-one-out", "rolling-origin"], typer.Option(help="How settings are judged.")
    ] = "k-fold",
    folds: Annotated[int, typer.Option(help="Of k-fold and rolling-origin.")] = 5,
    plot: Plot = None,
    apply: Apply = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Choose gamma and C by a model's own window."""
    with connected(url, key) as client:
        _told(client, client.tune_model(model, judge=judge, folds=folds), plot, apply, as_json)


def outliers(
    model: ModelId,
    parameter: Annotated[Literal["theta", "s"], typer.Option(help="Which makes the losses robust.")] = "theta",
    hold_out: Annotated[float | None, typer.Option(help="Share of the window to choose by.")] = None,
    validation: Validation = None,
    plot: Plot = None,
    apply: Apply = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Find which labels or targets look wrong, and robust models that do not follow them.

    Prints how many are suspected; --json lists them.
    """
    with connected(url, key) as client:
        asked = client.outlier_path(model, parameter, validation=_given(validation), hold_out=hold_out)
        _told(client, asked, plot, apply, as_json)


def _given(file: Path | None) -> tuple[Any, Any] | None:
    from livesvm.service.cli import files

    if file is None:
        return None
    found = files.read(file)
    return found.X, found.y


def _told(client: Client, asked: dict[str, Any], plot: Path | None, apply: bool, as_json: bool) -> None:
    """Show a job once it is done, and do with its result what was asked."""
    job = finished(client, asked)
    if plot is not None:
        extension = plot.suffix.lower()
        if extension not in (".svg", ".png"):
            raise ValueError(f"{plot} is neither .svg nor .png")
        plot.write_bytes(client.plot(job["id"], "svg" if extension == ".svg" else "png"))
    if apply:
        job["applied"] = client.apply(job["id"])
    show(job if as_json else {"job": job["id"], **_summary(job["result"])}, as_json)


def _summary(result: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return a result with numbers in place of lists, and what is nested by dotted names."""
    found: dict[str, Any] = {}
    for name, value in result.items():
        if isinstance(value, dict):
            found |= _summary(value, f"{before}{name}.")
        else:
            found[before + name] = len(value) if isinstance(value, list) else value
    return found
