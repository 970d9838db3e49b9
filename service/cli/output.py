"""Output of commands as JSON for programs or tables for users, and questions to the user."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")]


class Told(NamedTuple):
    """The output of a command: the answer as JSON, and the parts that are printed as tables or text.

    Parameters
    ----------
    answer : the whole output as JSON values, for programs
    parts : for people: documents, of which lists are left out; lists of documents, each with the columns that are
        shown; lines of text
    status : exit status of the command
    """

    answer: Any
    parts: Sequence[Any]
    status: int = 0


def tracked(pieces: Iterable[T], what: str, total: int, *, is_quiet: bool = False) -> Iterable[T]:
    """Yield the pieces, of which there are about ``total``, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    is_shown = console.is_terminal and not is_quiet
    return track(pieces, what, total, console=console, transient=True, disable=not is_shown)


def show(found: Any, as_json: bool) -> None:
    """Print the result of a command, which is a JSON document or a :class:`Told`."""
    answer, parts, _ = found if isinstance(found, Told) else (found, [found], 0)
    if as_json:
        print(json.dumps(answer))
        return
    for part in parts:
        if isinstance(part, str):
            print(part)
        elif isinstance(part, tuple):
            rows, columns = part
            _table(columns, rows)
        else:
            _table(("", ""), [{"": name, " ": value} for name, value in part.items() if not isinstance(value, list)])


@contextmanager
def failing(*errors: type[Exception]) -> Iterator[None]:
    """Print an OSError, a ValueError or one of these errors, raised in the ``with`` block, and exit with status 1."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*errors, OSError, ValueError)):
            raise
        print(f"livesvm: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def confirm(question: str, yes: bool) -> None:
    """Ask the user to confirm what cannot be undone, unless ``yes`` is set; raises typer.Abort without consent."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


def parsed(text: str, option: str) -> dict[str, Any]:
    """Parse the JSON object in an option; raises typer.BadParameter if the option has another value."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is no JSON: {error}", param_hint=option) from None
    if not isinstance(found, dict):
        raise typer.BadParameter('must be a JSON object, such as {"window": 500}', param_hint=option)
    return found


def counted(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer in which each list is replaced by its length."""
    return {name: len(value) if isinstance(value, list) else value for name, value in answer.items()}


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heads = [list(columns)] if any(columns) else []
    cells = [[_plain(value) for value in (map(row.get, columns) if heads else row.values())] for row in rows]
    console = Console(highlight=False)
    if not console.is_terminal:  # what is read by a program is neither cut nor filled up with blanks
        for line in [*heads, *cells]:
            print("\t".join(line))
        return
    table = Table(*columns, box=None, pad_edge=False, show_header=any(columns))
    for line in cells:
        table.add_row(*map(Text, line))
    console.print(table)


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
