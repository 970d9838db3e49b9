"""``livesvm path``, ``tune``, ``suspects`` and ``outliers``: start jobs, wait for them, and show or apply results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from livesvm.service.cli.commands import ModelId, calling
from livesvm.service.cli.connection import finished
from livesvm.service.cli.learning import of_model
from livesvm.service.cli.output import Told, counted
from livesvm.service.cli.readings import of_examples

if TYPE_CHECKING:
    from livesvm.service.client import Client

Validation = Annotated[Path | None, typer.Option(help="Examples to choose by: a table, or .npz, .json.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the result there: .svg or .png.")]
Apply = Annotated[bool, typer.Option("--apply", help="Bring the best value into the live model.")]


@calling
@of_examples
def path(
    client: Client,
    model: ModelId,
    minimum: Annotated[float | None, typer.Option("--from", help="Least value.")] = None,
    maximum: Annotated[float | None, typer.Option("--to", help="Largest value.")] = None,
    parameter: Annotated[str | None, typer.Option(help="C, epsilon, nu or lam, as the model has it.")] = None,
    validation: Validation = None,
    plot: Plot = None,
    apply: Apply = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Compute the whole regularization path for the examples in a model's window."""
    asked = client.regularization_path(
        model, minimum, maximum, parameter=parameter, validation=_examples(client, model, validation, given)
    )
    return _told(client, asked, plot, apply)


@calling
def tune(
    client: Client,
    model: ModelId,
    judge: Annotated[
        Literal["k-fold", "leave-one-out", "rolling-origin"], typer.Option(help="How settings are judged.")
    ] = "k-fold",
    folds: Annotated[int, typer.Option(help="Of k-fold and rolling-origin.")] = 5,
    plot: Plot = None,
    apply: Apply = False,
) -> Any:
    """Choose gamma and C for a model from the examples in its window."""
    return _told(client, client.tune_model(model, judge=judge, folds=folds), plot, apply)


@calling
def suspects(
    client: Client,
    model: ModelId,
    most: Annotated[int, typer.Option(min=1, help="Labels that are printed.")] = 20,
    plot: Plot = None,
    right: Annotated[
        list[str] | None, typer.Option(help="Keys of labels that are right, and do not come back.")
    ] = None,
    relabel: Annotated[
        list[str] | None, typer.Option(help="Keys that get the better label of the last ranking, in one update.")
    ] = None,
) -> Any:
    """Rank the labels in a model's window by how doubtful each is, and print the most doubtful labels.

    The output also has a label that would fit better, and the nearest examples that have this better label. Labels that
    were confirmed in earlier calls are left out as well.
    """
    from livesvm.service.cli import files
    from livesvm.service.client import ServiceProblem

    wrong = [*map(files.as_key, relabel or ())]
    try:
        last = client.suspects(model, limit=1000)
    except ServiceProblem as problem:
        if problem.status != 404 or wrong:
            raise
        last = {"confirmed": {"keys": []}}
    if wrong:
        better = {one["key"]: one["better"] for one in last["suspects"]}
        if unknown := [key for key in wrong if key not in better]:
            raise ValueError(f"{unknown[0]!r} is not among the worst 1,000 labels of the last ranking of {model}")
        client.update(model, relabel={key: better[key] for key in wrong})
    confirmed = {*last["confirmed"]["keys"], *map(files.as_key, right or ()), *wrong}
    asked = client.suspected_labels(model, confirmed=sorted(confirmed, key=str))
    job, _, _ = _told(client, asked, plot, apply=False)
    rows = [one | {"why": ", ".join(map(str, one["why"]))} for one in job["result"]["suspects"][:most]]
    summary = "{n_doubted} of {n_examples} in doubt".format_map(job["result"])
    return Told(job, [summary, (rows, tuple(rows[0]))] if rows else [summary])


@calling
@of_examples
def outliers(
    client: Client,
    model: ModelId,
    parameter: Annotated[Literal["theta", "s"], typer.Option(help="Which makes the losses robust.")] = "theta",
    hold_out: Annotated[float | None, typer.Option(help="Share of the window to choose by.")] = None,
    validation: Validation = None,
    plot: Plot = None,
    apply: Apply = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Find labels or targets in a model's window that may be wrong, and compute robust models that do not fit these.

    Prints the number of suspected labels or targets; with --json, lists these.
    """
    examples = _examples(client, model, validation, given)
    asked = client.outlier_path(model, parameter, validation=examples, hold_out=hold_out)
    return _told(client, asked, plot, apply)


def _examples(client: Client, model: str, file: Path | None, given: dict[str, Any]) -> tuple[Any, Any] | None:
    if file is None:
        return None
    found = of_model(client, model, file, given)
    return found.X, found.y


def _told(client: Client, asked: dict[str, Any], plot: Path | None, apply: bool) -> Told:
    """Wait for a job, save its plot and apply its result if options ask for this, and return the command's output."""
    job = finished(client, asked)
    if plot is not None:
        extension = plot.suffix.lower()
        if extension not in (".svg", ".png"):
            raise ValueError(f"{plot} is neither .svg nor .png")
        plot.write_bytes(client.plot(job["id"], "svg" if extension == ".svg" else "png"))
    if apply:
        job["applied"] = client.apply(job["id"])
    return Told(job, [{"job": job["id"], **_summary(job["result"])}])


def _summary(result: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return a flat form of a result: nested values have dotted names, and lists are replaced by their lengths."""
    found: dict[str, Any] = {}
    for name, value in counted(result).items():
        found |= _summary(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found
