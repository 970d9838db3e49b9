"""The commands that erase examples and readings from all stored data, and write the receipt to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.commands import FeedId, FleetId, ModelId, Yes, calling
from livesvm.service.cli.output import Told, confirm

if TYPE_CHECKING:
    from livesvm.service.client import Client

ReceiptFile = Annotated[
    Path | None, typer.Option("--receipt", "-o", help="Where the receipt goes; its name with .json here when absent.")
]


Keys = Annotated[list[str] | None, typer.Argument(help="Keys of examples, in the window or not.")]
KeysFrom = Annotated[Path | None, typer.Option(help="A file with more of them, one a line.")]
Texts = Annotated[bool, typer.Option("--text", help="Take keys of digits alone as texts, not as numbers.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag of examples; may be repeated.")]
Request = Annotated[str | None, typer.Option(help="Sent again under this name, it is answered by the first receipt.")]


@calling
def erase(
    client: Client,
    model: ModelId,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    tag: Tags = None,
    text: Texts = False,
    receipt: ReceiptFile = None,
    idempotency_key: Request = None,
    yes: Yes = False,
) -> Any:
    """Erase examples of a model from all stored data, with its history, its jobs, and dataset rows with these keys."""
    wanted, tags = _wanted(keys, keys_from, tag, is_text=text)
    confirm(f"Erase {_counted(wanted, tags)} from model {model}, its history and its jobs?", yes)
    return _told(client.erase(model, wanted, tags=tags, idempotency_key=idempotency_key), receipt)


@calling
def erase_everywhere(
    client: Client,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    tag: Tags = None,
    text: Texts = False,
    receipt: ReceiptFile = None,
    idempotency_key: Request = None,
    yes: Yes = False,
) -> Any:
    """Erase examples from all models, feeds and datasets that contain them, with one receipt."""
    wanted, tags = _wanted(keys, keys_from, tag, is_text=text)
    confirm(f"Erase {_counted(wanted, tags)} from all models, feeds and datasets, their history and jobs?", yes)
    return _told(client.erase_everywhere(wanted, tags=tags, idempotency_key=idempotency_key), receipt)


def _wanted(
    keys: list[str] | None, keys_from: Path | None, tags: list[str] | None, *, is_text: bool
) -> tuple[list[int | str], list[str]]:
    """Return the keys and tags that the options name; raises BadParameter if the options name none."""
    from livesvm.service.cli.files import as_key

    lines = [] if keys_from is None else keys_from.read_text(encoding="utf-8").splitlines()
    wanted = [text if is_text else as_key(text) for text in [*(keys or []), *(line.strip() for line in lines)] if text]
    if not (wanted or tags):
        raise typer.BadParameter("give keys, a file with some, or tags")
    return wanted, tags or []


def _counted(keys: list[int | str], tags: list[str]) -> str:
    return " and ".join(f"{len(named)} {what}" for named, what in ((keys, "keys"), (tags, "tags")) if named)


@calling
def erase_readings(
    client: Client,
    feed: FeedId,
    times: Annotated[list[str] | None, typer.Argument(help="Times of readings, as the feed has them.")] = None,
    begin: Annotated[str | None, typer.Option("--from", help="The first of a range.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The last of a range.")] = None,
    receipt: ReceiptFile = None,
    idempotency_key: Request = None,
    yes: Yes = False,
) -> Any:
    """Erase readings of a feed from all stored data, with the feed's history and jobs."""
    if not (times or begin or end):
        raise typer.BadParameter("give times, --from or --to")
    confirm(f"Erase readings from feed {feed}, its history and its jobs?", yes)
    options: dict[str, Any] = {"begin": begin, "end": end, "idempotency_key": idempotency_key}
    return _told(client.erase_readings(feed, times or [], **options), receipt)


@calling
def erase_series(
    client: Client,
    fleet: FleetId,
    times: Annotated[list[str] | None, typer.Argument(help="Times of readings, as the series have them.")] = None,
    series: Annotated[list[str] | None, typer.Option(help="Of this series; may be repeated; all when absent.")] = None,
    begin: Annotated[str | None, typer.Option("--from", help="The first of a range.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The last of a range.")] = None,
    receipt: ReceiptFile = None,
    idempotency_key: Request = None,
    yes: Yes = False,
) -> Any:
    """Erase readings of a fleet's series from all stored data, with the series' history and jobs; one receipt."""
    if not (times or begin or end):
        raise typer.BadParameter("give times, --from or --to")
    which = f"{len(series)} series" if series else "all series"
    confirm(f"Erase readings from {which} of fleet {fleet}, their history and their jobs?", yes)
    options: dict[str, Any] = {"begin": begin, "end": end, "idempotency_key": idempotency_key}
    return _told(client.erase_series(fleet, series, times or [], **options), receipt)


def _told(answer: dict[str, Any], path: Path | None) -> Told:
    """Write the receipt to a file, or print the receipt if this fails, and return the output of the command."""
    receipt = answer["receipt"]
    path = path or Path(f"{receipt['receipt']}.json")
    try:
        path.write_text(json.dumps(receipt, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        print(f"livesvm: the receipt cannot be written: {error}", file=sys.stderr)
        print(json.dumps(receipt, ensure_ascii=False))
        raise typer.Exit(1) from None
    where = [f"version {answer['version']}"] if "version" in answer else []
    where += [f"{one['kind']} {one['model']} is at version {one['version_after']}" for one in answer.get("erased", [])]
    lines = [f"{answer['removed']} erased; {'; '.join([*where, f'the receipt is in {path}'])}"]
    lines += [f"{found['rows']} rows removed from dataset {found['name']}" for found in answer.get("datasets", [])]
    if answer.get("respelled"):
        spelled = ", ".join(map(repr, answer["respelled"]))
        lines.append(f"stored too, and not erased: {spelled}; --text takes digits as texts")
    if answer["not_found"]:
        lines.append(f"not found: {', '.join(map(str, answer['not_found']))}")
    if receipt["elsewhere"]:
        lines.append(f"also named, and not erased, in {', '.join(receipt['elsewhere'])}")
    lines += [f"  {place}: {what}" for place, what in (receipt["refused"] | receipt["places"]).items()]
    return Told(answer, lines)
