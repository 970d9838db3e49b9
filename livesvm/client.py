"""The client of the service: ``from livesvm.client import Client``."""

from livesvm.service.client import *  # noqa: F403
