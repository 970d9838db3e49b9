"""What a front end tells the others of a cluster about itself."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import Mock

import pytest

pytest.importorskip("ray")

from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.ray.front_ends import RayFrontEnds
from livesvm.service.store.base import StoreUnavailable
from livesvm.service.store.redis import RedisStore


def test_a_front_end_on_another_node_is_told_of_until_the_store_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Mock(spec=RedisStore)
    front = RayFrontEnds({"root": "datasets", "jobs": "jobs"}, cast(Any, store), Health(Metrics()), "here")
    monkeypatch.setattr(front, "_node", lambda: "first")
    front.announce()
    monkeypatch.setattr(front, "_node", lambda: "second")
    store.put_document.side_effect = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        front.keep()
    store.put_document.side_effect = None
    for _ in range(2):
        front.keep()
    assert store.put_document.call_count == 3
    assert b'"node": "second"' in store.put_document.call_args.args[1]
