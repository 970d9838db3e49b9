"""What the fault tests share."""

from __future__ import annotations

from tests.contract.conftest import redis_server

__all__ = ["redis_server"]
