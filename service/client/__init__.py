"""What users import: a client of the service that loads no solver."""

from livesvm.service.client.sync import Client, ServiceProblem

__all__ = ["Client", "ServiceProblem"]
