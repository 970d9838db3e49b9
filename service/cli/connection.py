"""The connection of a command to the service, and messages about errors of the connection."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from livesvm.service.client import Client

WAIT, CONNECT = 600.0, 30.0
"""Seconds to wait for an answer, as a drift test of a large window takes minutes, and for a connection."""


@contextmanager
def connected(url: str, key: str) -> Iterator[Client]:
    """Yield a client of the service; if the service refuses a call or a file is unreadable, exit with status 1."""
    import httpx

    from livesvm.service.client import Client, ServiceProblem

    try:
        with Client(url, key or None, timeout=httpx.Timeout(WAIT, connect=CONNECT)) as client:
            yield client
    except ServiceProblem as problem:
        request = f" (request {problem.request})" if problem.request else ""
        _fail(f"{problem}{request}")
    except httpx.ReadTimeout:
        _fail(f"the service at {url} has not answered within {WAIT:.0f} s")
    except (httpx.TransportError, httpx.InvalidURL) as error:
        _fail(f"the service at {url} cannot be reached: {error}")
    except (OSError, ValueError) as error:
        _fail(str(error))


def finished(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """Wait for a job, with a progress bar on a terminal, and return the job; an interrupt by the user cancels it.

    Raises ServiceProblem if the job has failed, and ValueError if it was cancelled.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(str(job["kind"]), total=None)

        def tell(now: dict[str, Any]) -> None:
            """Move the bar."""
            waits = now.get("waits_for")
            text = f"{now['kind']}: waits for {waits}" if waits else f"{now['kind']}: {now['state']}"
            bars.update(bar, completed=now["done"], total=now["total"] or None, description=text)

        try:
            ended = client.wait(job["id"], tell)
        except KeyboardInterrupt:
            client.cancel(job["id"])
            raise
    if ended["state"] != "done":
        raise ValueError(f"job {job['id']} was cancelled")
    return ended


def _fail(reason: str) -> None:
    print(f"livesvm: {reason}", file=sys.stderr)
    raise typer.Exit(1)
