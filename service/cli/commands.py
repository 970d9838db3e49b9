"""Decorators that create commands from methods of the client, or from functions that call several methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livesvm.service.cli.connection import connected
from livesvm.service.cli.output import AsJson, Told, confirm, show

if TYPE_CHECKING:
    from livesvm.service.client import Client

ModelId = Annotated[str, typer.Argument(help="The model's id.", metavar="MODEL")]
FeedId = Annotated[str, typer.Argument(help="The feed's id.", metavar="FEED")]
FleetId = Annotated[str, typer.Argument(help="The fleet's id.", metavar="FLEET")]
WebhookId = Annotated[str, typer.Argument(help="The webhook's id.", metavar="WEBHOOK")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RequestName = Annotated[str | None, typer.Option(help="Sent again under this name, it has one effect.")]


def _everywhere(
    *,
    url: Annotated[str, typer.Option(envvar="LIVESVM_URL", help="Of the service.")] = "http://127.0.0.1:8000",
    key: Annotated[str, typer.Option(envvar="LIVESVM_KEY", help="API key.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Have the options of all commands of the service as parameters."""


EVERYWHERE = inspect.signature(_everywhere, eval_str=True).parameters


def calling(work: Callable[..., Any]) -> Callable[..., None]:
    """Return a command that connects to the service, calls ``work``, and prints the result unless this is None.

    The arguments of ``work`` are the client, the arguments and options of the command, and ``as_json`` if ``work``
    prints its result itself. If the service refuses a call, or a file cannot be read, the command ends with exit status
    1.
    """
    _, *own = inspect.signature(work, eval_str=True, locals={"Client": Any}).parameters.values()
    prints = any(one.name == "as_json" for one in own)

    def run(*, url: str, key: str, as_json: bool, **given: Any) -> None:
        """Run the command with the arguments and options from the command line."""
        with connected(url, key) as client:
            found = work(client, **given, **{"as_json": as_json} if prints else {})
            if found is not None:
                show(found, as_json)
        if isinstance(found, Told) and found.status:
            raise typer.Exit(found.status)

    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.name != "as_json"]
    run.__signature__ = inspect.Signature([*named, *EVERYWHERE.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*named, *EVERYWHERE.values()]}
    run.__doc__ = work.__doc__
    return run


def plain(
    call: Callable[..., Any],
    id: Any = None,
    columns: Sequence[str] = (),
    *,
    part: str = "",
    asks: str = "",
    **options: Any,
) -> Callable[..., None]:
    """Return a command that makes one call of the client and prints the answer; the call's docstring is its help.

    Parameters
    ----------
    id : type of the command's argument, the id that the call takes; None: the call takes no id
    columns : names of the columns to show of an answer that is a list
    part : name of the only field of the answer to show
    asks : question to confirm before a call that cannot be undone, with ``{}`` for the id
    options : types of the command's options, which the call takes by the same names, and with the same defaults
    """

    def work(client: Client, id: str | None = None, yes: bool = False, **given: Any) -> Any:
        """Make the call."""
        if asks:
            confirm(asks.format(id), yes)
        answer = call(client, *([] if id is None else [id]), **given)
        if answer is None:
            return Told({"deleted": id}, [])
        shown = (answer, columns) if columns else answer[part] if part else answer
        return Told(answer, [shown])

    kinds = {"client": Any} | ({"id": id} if id else {}) | ({"yes": Yes} if asks else {}) | options
    defaults: dict[str, Any] = {"client": inspect.Parameter.empty, "id": inspect.Parameter.empty, "yes": False}
    defaults |= {name: inspect.signature(call).parameters[name].default for name in options}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=defaults[name])
        for name, kind in kinds.items()
    ]
    work.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    work.__doc__ = (inspect.getdoc(call) or "").partition("\n")[0]
    return calling(work)
