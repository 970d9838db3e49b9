"""Commands that send the data in files to a model: updates, predictions and questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from livesvm.service.cli.commands import ModelId, RequestName, calling, plain
from livesvm.service.cli.output import Told, counted
from livesvm.service.cli.readings import DryRun, of_examples
from livesvm.service.client import requests
from livesvm.service.client.requests import ModelCalls

if TYPE_CHECKING:
    from livesvm.service.cli.files import Examples
    from livesvm.service.client import Client

FORMATS = "Examples: a table, or .npz, .json, .svmlight."
Target = Annotated[str | None, typer.Option(help="Column of a table with the targets; y, or what the model lacks.")]
Key = Annotated[str | None, typer.Option("--key-column", help="Column of a table with the keys; key by default.")]
DataFile = Annotated[Path, typer.Argument(help=FORMATS, metavar="FILE")]


@calling
@of_examples
def update(
    client: Client,
    model: ModelId,
    file: Annotated[
        Path | None, typer.Argument(help="Examples to add: a table, or .npz, .json, .svmlight.", metavar="[FILE]")
    ] = None,
    target: Target = None,
    key_column: Key = None,
    on_repeat: Annotated[
        Literal["refuse", "ignore", "replace"] | None,
        typer.Option(help="What becomes of rows with known keys; they are refused by default."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Key of an example to remove; may be repeated.")] = None,
    remove_oldest: Annotated[int, typer.Option(help="How many of the oldest examples to remove.")] = 0,
    relabel: Annotated[
        Path | None, typer.Option(help="CSV with new labels or targets: a column of keys, and one of labels.")
    ] = None,
    decay: Annotated[float | None, typer.Option(help="Multiplies the weights of those that stay.")] = None,
    C: Annotated[float | None, typer.Option("--C", help="From now on the model's C.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Until the answer has to be there.")] = None,
    idempotency_key: RequestName = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Add, remove and relabel examples of a model, along one path, completely or not at all."""
    removal = _removal(remove, remove_oldest)
    found = None if file is None else of_model(client, model, file, given, target, key_column, learns=True)
    if dry_run:
        return first_examples(found)
    added: dict[str, Any] = {} if found is None else vars(found)
    added |= {"on_repeat": on_repeat, "decay": decay, "C": C}
    if relabel is not None:
        from livesvm.service.cli import files

        known = client.model(model).get("classes") or ()
        added["relabel"] = files.corrections(relabel, is_text=any(isinstance(one["label"], str) for one in known))
    answer = client.update(model, **added, remove=removal, max_seconds=max_seconds, idempotency_key=idempotency_key)
    return Told(answer, [counted(answer)])


@calling
@of_examples
def what_if(
    client: Client,
    model: ModelId,
    file: Annotated[Path | None, typer.Argument(help=f"Examples that would be added. {FORMATS}")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Key of an example to remove; may be repeated.")] = None,
    remove_oldest: Annotated[int, typer.Option(help="How many of the oldest examples to remove.")] = 0,
    erase: Annotated[list[str] | None, typer.Option(help="Key of an example to erase; may be repeated.")] = None,
    erase_tag: Annotated[list[str] | None, typer.Option(help="Tag of examples to erase; may be repeated.")] = None,
    decay: Annotated[float | None, typer.Option(help="Multiplies the weights of those that stay.")] = None,
    C: Annotated[float | None, typer.Option("--C", help="Another C.")] = None,
    rows: Annotated[Path | None, typer.Option(help="Rows to decide before and after the change.")] = None,
    target: Target = None,
    key_column: Key = None,
    *,
    given: dict[str, Any],
) -> Any:
    """Show how an update or an erasure would change a model, without changing it."""
    from livesvm.service.cli import files

    erased = {"keys": list(map(files.as_key, erase or ())), "tags": list(erase_tag or ())}
    if any(erased.values()):
        if file or remove or remove_oldest or decay or C:
            raise typer.BadParameter("an erasure is weighed alone")
        change: dict[str, Any] = {"erase": {name: given for name, given in erased.items() if given}}
    else:
        added = {} if file is None else vars(of_model(client, model, file, given, target, key_column, learns=True))
        change = {**added, "remove": _removal(remove, remove_oldest), "decay": decay, "C": C}
    answer = client.what_if(
        model, None if rows is None else of_model(client, model, rows, given, target, key_column).X, **change
    )
    return Told(answer, [_summary(answer)])


def _summary(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a short form of an answer: the gap, and how many predictions change in the window and the rows."""
    parts = {name: answer[name] or {} for name in ("certificate", "window", "rows")}
    short = {name: value for name, value in answer.items() if name not in parts}
    short["certificate"] = parts["certificate"].get("relative_gap")
    for name in ("window", "rows"):
        short |= {f"{name}.{key}": parts[name].get(key) for key in ("n_changed", "largest_move")}
    return counted(short)


def _removal(remove: list[str] | None, oldest: int) -> dict[str, Any] | None:
    """Return the field `remove` of an update from the options; None if the options name no examples to remove."""
    from livesvm.service.cli import files

    if remove and oldest:
        raise typer.BadParameter("give --remove or --remove-oldest")
    if remove:
        return {"keys": list(map(files.as_key, remove))}
    return {"oldest": oldest} if oldest else None


@calling
@of_examples
def explain(
    client: Client,
    model: ModelId,
    file: DataFile,
    target: Target = None,
    key_column: Key = None,
    worth: Annotated[
        bool, typer.Option("--worth", help="Tell what examples are worth for the file's targets.")
    ] = False,
    most: Annotated[int, typer.Option(help="Examples to print, for each row or in all.")] = 10,
    *,
    given: dict[str, Any],
) -> Any:
    """List the examples of a model's window that most influence, or most worsen, its predictions for a file's rows."""
    found = of_model(client, model, file, given, target, key_column)
    answer = client.explain(model, found.X, found.y if worth else None, most=most)
    if worth:
        return Told(answer, [(answer["values"], ("key", "target", "value"))])
    lines = [
        {"row": row, "prediction": one["prediction"], "decision": one["decision"], **because}
        for row, one in enumerate(answer["rows"])
        for because in one["because"]
    ]
    return Told(answer, [(lines, ("row", "prediction", "decision", "key", "target", "influence", "without"))])


@calling
@of_examples
def predict(
    client: Client,
    model: ModelId,
    file: DataFile,
    target: Target = None,
    key_column: Key = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV there.")] = None,
    probability: Annotated[bool, typer.Option("--probability", help="Tell probabilities of classes, too.")] = False,
    alerts: Annotated[float | None, typer.Option(help="Task pu: the share of the unlabelled to be flagged.")] = None,
    precision: Annotated[float | None, typer.Option(help="Task pu: the share of flagged rows that is right.")] = None,
    coverage: Annotated[float | None, typer.Option(help="Tell sets or intervals that cover so many.")] = None,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> Any:
    """Predict the rows in a file with a model's newest version; targets in the file are ignored."""
    from livesvm.service.cli import files

    found = of_model(client, model, file, given, target, key_column)
    if dry_run:
        return first_examples(files.Examples(found.X))
    rows = found.X
    asked: dict[str, Any] = {"alerts": alerts, "precision": precision, "coverage": coverage}
    answer = client.predict(model, rows, probability=probability, **asked)
    if output is not None:
        files.write_predictions(output, answer)
        return Told(answer, [])
    names = ("decision", "prediction", *(name for name in ("probability", "set", "low", "high") if name in answer))
    pairs = zip(*(answer[name] for name in names), strict=True)
    return Told(answer, [([dict(zip(names, pair, strict=True)) for pair in pairs], names)])


def first_examples(found: Examples | None) -> Told:
    """Return the output of a dry run: the first examples in a file, in the form in which they would be sent."""
    if found is None:
        raise typer.BadParameter("shows the rows of a file", param_hint="--dry-run")
    from livesvm.service.feeds.file_report import SHOWN

    X = found.X.toarray() if hasattr(found.X, "toarray") else found.X
    rows = [row if isinstance(row, dict) else {f"x{at}": one for at, one in enumerate(row)} for row in X[:SHOWN]]
    for name, cells in vars(found).items():
        if name != "X" and cells is not None:
            rows = [{**row, f"[{name}]": requests.plain(one)} for row, one in zip(rows, cells[:SHOWN], strict=True)]
    return Told({"rows": rows}, [(rows, [*rows[0]] if rows else ())])


def of_model(
    client: Client,
    model: str,
    file: Path,
    given: dict[str, Any],
    target: str | None = None,
    key: str | None = None,
    *,
    learns: bool = False,
) -> Examples:
    """Read the examples in a file, with the model's columns, or its number of sparse features."""
    from livesvm.service.cli import files

    described = client.model(model)
    columns = described["columns"]
    names = [] if columns == "auto" else columns and [one["name"] for one in columns]
    found = files.read(file, given, names, target, key, learns=learns)
    return replace(found, X=files.as_wide(found.X, described["n_features"]))


certificate = plain(ModelCalls.certificate, ModelId)
