"""Public imports: clients of the service that load no solver."""

from livesvm.service.client.asynchronous import AsyncClient
from livesvm.service.client.problems import ServiceProblem
from livesvm.service.client.sync import Client

__all__ = ["AsyncClient", "Client", "ServiceProblem"]
