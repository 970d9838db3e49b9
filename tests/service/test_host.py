"""What an actor hosts: what it answers where a call is repeated."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from livesvm.service.models.spec import ModelSpec
from livesvm.service.ray.handle import RemoteModel
from livesvm.service.ray.host import Host
from livesvm.service.ray.messages import Answer, Question, packed, unpacked
from livesvm.service.store.sqlite import SqliteStore
from tests.support.live_models import batch, context_of


def test_a_call_that_is_repeated_while_it_is_under_way_is_answered_both_times(tmp_path: Path) -> None:
    """As after a lost connection, when the first one waits for its turn or for the store."""

    async def twice(host: Host) -> list[Answer]:
        """Return both answers; neither is made before both calls wait."""
        model = host.registry.models.create("m", ModelSpec(C=10.0))
        await asyncio.wrap_future(model.hold())
        question = packed(Question("one", "m", RemoteModel.update(batch(0), "request")))
        asked = [asyncio.ensure_future(host.call(question)) for _ in range(2)]
        while model.queue_depth < 2:
            await asyncio.sleep(0.001)
        model.let_go()
        return [unpacked(answer) for answer in await asyncio.gather(*asked)]

    with closing(SqliteStore(tmp_path / "store")) as store:
        host = Host("actor 0", context_of(store), {})
        host._ready.set()
        first, second = asyncio.run(twice(host))
        host.registry.stop()
    assert (first.error, second.error) == (None, None)
    assert sorted([first.value.replayed, second.value.replayed]) == [False, True]
    assert first.value.body == second.value.body
