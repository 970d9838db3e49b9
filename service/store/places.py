"""Open a store for a tool, by the place where it is."""

from __future__ import annotations

import uuid
from contextlib import ExitStack, closing
from pathlib import Path

from livesvm.service.store.base import Store
from livesvm.service.store.embedded import open_embedded
from livesvm.service.store.lock import DirectoryLock
from livesvm.service.store.redis import RedisStore

_TOOL_SECONDS = 10.0


def open_place(place: str, prefix: str, opened: ExitStack) -> Store:
    """Return the store at a Redis URL or in a data directory, closed with ``opened``.

    Raises StoreInUse while a service holds the directory, StoreError, or ValueError for a URL of another kind.
    """
    if "://" in place:
        holder = f"tool-{uuid.uuid4().hex}"
        return opened.enter_context(closing(RedisStore(place, holder, prefix=prefix, timeout=_TOOL_SECONDS)))
    lock = DirectoryLock(Path(place))
    opened.callback(lock.release)
    return opened.enter_context(closing(open_embedded(Path(place))))
