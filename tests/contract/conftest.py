"""The stores that the contract is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from service.store.base import Store
from service.store.sqlite import SqliteStore

Open = Callable[[], Store]


def _sqlite(directory: Path) -> Store:
    return SqliteStore(directory / "store.sqlite3")


STORES: dict[str, Callable[[Path], Store]] = {"sqlite": _sqlite}


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open the same stored data, each time as another process would."""
    with ExitStack() as opened:

        def open_once() -> Store:
            return opened.enter_context(closing(STORES[request.param](tmp_path)))

        yield open_once


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()
