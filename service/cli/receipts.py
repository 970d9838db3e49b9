"""``livesvm receipt``: verify receipts of erasures, and print the public key of a service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from livesvm.service.cli.commands import plain
from livesvm.service.client.requests import ModelCalls

app = typer.Typer(help="Receipts of erasures.", no_args_is_help=True)


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A receipt: `receipt` of an answer.")],
    public_key: Annotated[str | None, typer.Option("--key", help="The public key that must have signed it.")] = None,
    example: Annotated[str | None, typer.Option(help="A key of an example that must be among those erased.")] = None,
    tag: Annotated[str | None, typer.Option(help="A tag; its examples must be among the erased ones.")] = None,
) -> None:
    """Verify that a receipt is unchanged since a service signed it; --key is the public key that must have signed it.

    Exits with 0 if the receipt is unchanged, with 1 if it is not, with 2 if the file does not exist.
    """
    from livesvm.service.receipts.receipt import BadReceipt, names, names_tag, verified

    try:
        receipt = verified(file.read_bytes(), public_key)
        if example is not None and not any(names(receipt, key) for key in _readings(example)):
            raise BadReceipt("it is not of that example")
        if tag is not None and not names_tag(receipt, tag):
            raise BadReceipt("it is not of that tag")
    except (BadReceipt, OSError) as error:
        print(f"livesvm: {file} does not verify: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    keys = receipt["keys"]
    parts = receipt.get("parts") or [receipt]
    where = ", ".join(f"{one.get('kind', 'model')} {one['model']}" for one in parts)
    print(f"{receipt['receipt']}: {keys['count']} keys erased in {where} at {receipt['erased_at']}")
    print(f"signed by {receipt['public_key']}")


app.command("key")(plain(ModelCalls.receipt_key, part="public_key"))


def _readings(text: str) -> list[int | str]:
    return [text, int(text)] if text.isascii() and text.isdigit() else [text]
