"""Clients of the service, which do not load the solvers; each client is imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livesvm.service.client.asynchronous import AsyncClient
    from livesvm.service.client.problems import ServiceProblem
    from livesvm.service.client.sync import Client

__all__ = ["AsyncClient", "Client", "ServiceProblem"]
_MODULES = {"AsyncClient": "asynchronous", "Client": "sync", "ServiceProblem": "problems"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
