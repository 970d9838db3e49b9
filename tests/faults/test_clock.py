"""The wall clock jumps by a day, either way: leases, windows by count and remembered requests do not care."""

from __future__ import annotations

import time
import uuid
from contextlib import closing

import pytest

from livesvm.service.models.spec import ModelSpec
from livesvm.service.store.base import LeaseHeld
from livesvm.service.store.redis import RedisStore
from tests.contract.redis_server import RedisServer
from tests.support.live_models import alive, batch

pytestmark = pytest.mark.alone(reason="of stores alone")

DAY = 86_400.0


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_jump_changes_nothing(jump: float, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModelSpec.model_validate({"id": "m", "window": {"max_examples": 12}})
    prefix, now = uuid.uuid4().hex, time.time
    with (
        closing(RedisStore(redis_server.url, "one", prefix=prefix)) as one,
        closing(RedisStore(redis_server.url, "two", prefix=prefix)) as two,
    ):
        live = alive(one, one.create("m", b""), spec)
        first = live.update(batch(0), "name").result()
        with pytest.raises(LeaseHeld):
            two.acquire("m")
        monkeypatch.setattr(time, "time", lambda: now() + jump)
        one.ping()
        with pytest.raises(LeaseHeld):
            two.acquire("m")
        assert live.update(batch(0), "name").result().body == first.body
        live.update(batch(1), None).result()
        assert live.published.sizes.n_examples == 12
        live.stop()
        again = alive(one, one.acquire("m"), spec)
        assert list(again.current.window.arrivals) == list(range(4, 16))
        again.stop()
