"""``livesvm update``, ``predict`` and ``certificate``: what a model is told and asked, with data in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected
from livesvm.service.cli.models import ModelId
from livesvm.service.cli.output import AsJson, show

if TYPE_CHECKING:
    from livesvm.service.cli.files import Examples
    from livesvm.service.client import Client

FORMATS = "Examples: .npz, .csv, .json or .svmlight."
DataFile = Annotated[Path, typer.Argument(help=FORMATS, metavar="FILE")]


def update(
    model: ModelId,
    file: Annotated[
        Path | None, typer.Argument(help="Examples to add: .npz, .csv, .json or .svmlight.", metavar="[FILE]")
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Key of an example to remove; may be repeated.")] = None,
    remove_oldest: Annotated[int, typer.Option(help="How many of the oldest examples to remove.")] = 0,
    decay: Annotated[float | None, typer.Option(help="Multiplies the weights of those that stay.")] = None,
    C: Annotated[float | None, typer.Option("--C", help="From now on the model's C.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Until the answer has to be there.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Sent again under this name, it has one effect.")] = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Add and remove examples, along one path, whole or not at all."""
    from livesvm.service.cli import files

    if remove and remove_oldest:
        raise typer.BadParameter("give --remove or --remove-oldest")
    removal: dict[str, Any] | None = {"oldest": remove_oldest} if remove_oldest else None
    if remove:
        removal = {"keys": [files.as_key(given) for given in remove]}
    with connected(url, key) as client:
        added: dict[str, Any] = {} if file is None else vars(_read(client, model, file))
        options: dict[str, Any] = {
            "decay": decay,
            "C": C,
            "max_seconds": max_seconds,
            "idempotency_key": idempotency_key,
        }
        answer = client.update(model, **added, remove=removal, **options)
        show(answer if as_json else _counted(answer), as_json)


def predict(
    model: ModelId,
    file: DataFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV there.")] = None,
    probability: Annotated[bool, typer.Option("--probability", help="Tell probabilities of classes, too.")] = False,
    alerts: Annotated[float | None, typer.Option(help="Task pu: the share of the unlabelled to be flagged.")] = None,
    precision: Annotated[float | None, typer.Option(help="Task pu: the share of flagged rows that is right.")] = None,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Decide the rows of a file by the newest version."""
    from livesvm.service.cli import files

    with connected(url, key) as client:
        rows = _read(client, model, file).X
        answer = client.predict(model, rows, probability=probability, alerts=alerts, precision=precision)
        if output is not None:
            files.write_predictions(output, answer)
        if as_json:
            show(answer, as_json)
        elif output is None:
            names = ("decision", "prediction", *(["probability"] if probability else []))
            pairs = zip(*(answer[name] for name in names), strict=True)
            show([dict(zip(names, pair, strict=True)) for pair in pairs], as_json, names)


def _read(client: Client, model: str, file: Path) -> Examples:
    """The examples in a file, as wide as the model has them."""
    from livesvm.service.cli import files

    found = files.read(file)
    if hasattr(found.X, "tocsr"):
        files.as_wide(found.X, client.model(model)["n_features"])
    return found


def certificate(model: ModelId, url: Url = LOCAL, key: ApiKey = "", as_json: AsJson = False) -> None:
    """Prove that a model is optimal."""
    with connected(url, key) as client:
        show(client.certificate(model), as_json)


def _counted(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with numbers in place of keys."""
    return {name: len(value) if isinstance(value, list) else value for name, value in answer.items()}
