"""``livesvm erase`` and ``livesvm feed erase``: forgetting for good; the receipt goes into a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from livesvm.service.cli.connection import LOCAL, ApiKey, Url, connected
from livesvm.service.cli.models import ModelId
from livesvm.service.cli.output import AsJson, Yes, confirm

ReceiptFile = Annotated[
    Path | None, typer.Option("--receipt", "-o", help="Where the receipt goes; its name with .json here when absent.")
]


def erase(
    model: ModelId,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys of examples, in the window or not.")] = None,
    keys_from: Annotated[Path | None, typer.Option(help="A file with more of them, one a line.")] = None,
    receipt: ReceiptFile = None,
    yes: Yes = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Erase examples from a model for good, with its history, its jobs, and rows of datasets with these keys."""
    from livesvm.service.cli.files import as_key

    lines = [] if keys_from is None else keys_from.read_text(encoding="utf-8").splitlines()
    wanted = [as_key(text) for text in [*(keys or []), *(line.strip() for line in lines)] if text]
    if not wanted:
        raise typer.BadParameter("give keys, or a file with some")
    confirm(f"Erase {len(wanted)} keys from model {model}, its history and its jobs?", yes)
    with connected(url, key) as client:
        _tell(client.erase(model, wanted), receipt, as_json)


def erase_readings(
    feed: Annotated[str, typer.Argument(help="The feed's id.", metavar="FEED")],
    times: Annotated[list[str] | None, typer.Argument(help="Times of readings, as the feed has them.")] = None,
    begin: Annotated[str | None, typer.Option("--from", help="The first of a range.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The last of a range.")] = None,
    receipt: ReceiptFile = None,
    yes: Yes = False,
    url: Url = LOCAL,
    key: ApiKey = "",
    as_json: AsJson = False,
) -> None:
    """Erase readings from a feed for good, with its history and its jobs."""
    if not (times or begin or end):
        raise typer.BadParameter("give times, --from or --to")
    confirm(f"Erase readings from feed {feed}, its history and its jobs?", yes)
    with connected(url, key) as client:
        _tell(client.erase_readings(feed, times or [], begin=begin, end=end), receipt, as_json)


def _tell(answer: dict[str, Any], path: Path | None, as_json: bool) -> None:
    """Keep the receipt in a file, or print it where that cannot be written."""
    receipt = answer["receipt"]
    path = path or Path(f"{receipt['receipt']}.json")
    try:
        path.write_text(json.dumps(receipt, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        print(f"livesvm: the receipt cannot be written: {error}", file=sys.stderr)
        print(json.dumps(receipt, ensure_ascii=False))
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps(answer, ensure_ascii=False))
        return
    print(f"{answer['removed']} erased; version {answer['version']}; the receipt is in {path}")
    for place, what in receipt["places"].items():
        print(f"  {place}: {what}")
