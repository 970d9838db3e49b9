"""The index of names finds what reading everything does, whatever became of the store, and keeps no mark of it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.history.names import is_feed, stored_feed
from livesvm.service.history.rescue import remove_all, rescue
from livesvm.service.lifecycle import name_index
from livesvm.service.lifecycle.name_index import KIND, NameIndex
from livesvm.service.lifecycle.search import Sought, held, mark
from livesvm.service.store import codec
from livesvm.service.store.base import Idempotency, Lease
from livesvm.service.store.sqlite import SqliteStore
from tests.service.test_erase_search import example, of

IDS = ["a", "b", "c", stored_feed("f")]
KEYS: list[Any] = [*(f"order-{number}" for number in range(12)), 3, 4]
REQUESTS = ["of order-1", "customer-17/2", "---", "order_2 again", "plain"]
TEXTS = ["customer-17", "customer", "order", "-", "17/2", "red"]


class World:
    """Histories in a store to which anything happens, also that an older copy of all comes back."""

    def __init__(self, seed: int, place: Path) -> None:
        self.draw, self.place = random.Random(seed), place
        self.store = SqliteStore(place / "data" / "db")
        self.leases: dict[str, Lease] = {}
        self.newest: dict[str, int] = {}
        self.keys: dict[str, Any] = {}
        self.copies: list[tuple[Path, dict[str, int], dict[str, Any]]] = []

    def step(self) -> str:
        """Do one thing, and say what."""
        id_, do = self.draw.choice(IDS), self.draw.choice(["append"] * 4 + [
            "snapshot", "wake", "answer", "supersede", "delete", "rescue", "tidy", "copy", "back"])  # fmt: skip
        if id_ not in self.leases and do not in ("copy", "back"):
            do = "create"
        getattr(self, do)(id_)
        return f"{do} {id_}"

    def create(self, id_: str) -> None:
        self.leases[id_], self.newest[id_] = self.store.create(id_, b"spec"), 0
        self.keys.pop(id_, None)

    def append(self, id_: str) -> None:
        request = self.draw.choice([None, self.draw.choice(REQUESTS) + f" n{self.newest[id_]}"])
        self.append_key(id_, self.draw.choice(KEYS), request)

    def append_key(self, id_: str, key: Any, request: str | None = None) -> None:
        """Append a record of a key; a feed has it in the answer alone, which may come later."""
        asked = None if request is None else Idempotency(request, b"")
        self.keys[id_] = key
        call: dict[str, Any] = {"tuned": "job", "recipes": [], "request": request, "at": 0.0}
        entry = codec.encode(call) if is_feed(id_) else example(key, "red").encode()
        self.newest[id_] += 1
        self.store.append(self.leases[id_], self.newest[id_], entry, asked, keep=3)
        if request is not None and self.draw.random() < 0.7:
            self.store.remember(self.leases[id_], request, codec_answer(key))

    def answer(self, id_: str) -> None:
        for request, known in self.store.requests(id_).items():
            if known.answer is None:
                self.store.remember(self.leases[id_], request, codec_answer(self.keys[id_]))

    def snapshot(self, id_: str) -> None:
        if not is_feed(id_) and self.newest[id_]:
            self.store.save_snapshot(self.leases[id_], self.newest[id_], of(self.keys[id_]).encode(), 1)

    def supersede(self, id_: str) -> None:
        if id_ in self.keys:  # an erasure leaves less than there was
            self.store.supersede(self.leases[id_], self.newest[id_], of(self.keys[id_]).encode(), 1)

    def wake(self, id_: str) -> None:
        self.leases[id_] = self.store.acquire(id_)

    def delete(self, id_: str) -> None:
        self.store.delete(self.leases.pop(id_))  # what shares its document is read again, or is made again meanwhile
        if self.draw.random() < 0.5:
            self.create(id_)

    def rescue(self, id_: str) -> None:
        rescue(self.place / "data", id_, b"", (5, of(self.draw.choice(KEYS)).encode(), 5))

    def tidy(self, id_: str) -> None:
        remove_all(self.place / "data", id_)

    def copy(self, _: str) -> None:
        self.store.close()
        copy = self.place / f"copy-{len(self.copies)}"
        shutil.copytree(self.place / "data", copy)
        self.copies.append((copy, dict(self.newest), dict(self.keys)))
        self.store = SqliteStore(self.place / "data" / "db")
        self.leases = {id_: self.store.acquire(id_) for id_ in self.leases}

    def back(self, _: str) -> None:
        """Restore a backup over everything but the index, as where its documents lie in another file."""
        if not self.copies:
            return
        kept = {at: self.store.document(at) for at in self.store.documents(KIND)}
        self.store.close()
        copy, newest, keys = self.draw.choice(self.copies)
        self.newest, self.keys = dict(newest), dict(keys)
        shutil.rmtree(self.place / "data")
        shutil.copytree(copy, self.place / "data")
        self.store = SqliteStore(self.place / "data" / "db")
        for at, data in kept.items():
            assert data is not None
            self.store.put_document(at, data)
        self.leases = {found.id: self.store.acquire(found.id) for found in self.store.index()}


def codec_answer(key: Any) -> bytes:
    return b'{"removed": [%s]}' % (b'"%s"' % key.encode() if isinstance(key, str) else b"%d" % key)


def marks_kept(store: SqliteStore) -> set[int]:
    """Return all marks in the documents of the index."""
    index, found = NameIndex(store, Path()), set[int]()
    for number in range(name_index.BUCKETS):
        for entry in index._load(number).values():
            found |= set(entry.marks.tolist())
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few documents, which are written for anything."""
    monkeypatch.setattr(name_index, "BUCKETS", 2)
    monkeypatch.setattr(name_index, "LEAST", 0)


@pytest.fixture
def world(tmp_path: Path, small: None) -> Iterator[World]:
    (tmp_path / "data").mkdir()
    made = World(1, tmp_path)
    yield made
    made.store.close()


def holding(world: World, *keys: Any) -> list[str]:
    return list(NameIndex(world.store, world.place / "data").holding(Sought(keys)))


@pytest.mark.parametrize("seed", range(2))
def test_it_finds_what_reading_everything_does(seed: int, world: World, tmp_path: Path) -> None:
    world.draw, said, data_dir = random.Random(seed), list[str](), tmp_path / "data"
    for _ in range(80):
        said.append(world.step())
        draw, newest = world.draw, sorted(set(world.keys.values()), key=str)
        sought = Sought((*draw.sample(KEYS, draw.randint(0, 2)), *newest[: draw.randint(0, 1)]), (draw.choice(TEXTS),))
        whole = {found.id: held(world.store, data_dir, found.id, sought) for found in world.store.index()}
        found = NameIndex(world.store, data_dir).holding(sought)
        reported = {id_: (one.names, one.tagged) for id_, one in found.items()}
        assert reported == {id_: (one.names, one.tagged) for id_, one in whole.items() if one}, "; ".join(said)
        assert marks_kept(world.store).isdisjoint(map(mark, sought.keys)), "; ".join(said)


def test_entries_are_read_in_place_of_histories(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for id_ in IDS[:3]:
        world.create(id_)
        world.append_key(id_, f"of-{id_}")
        world.snapshot(id_)
    assert holding(world, "nobody") == []
    world.wake("a")
    world.append_key("a", "later")
    read: list[tuple[str, int]] = []

    def noted(store: Any, data_dir: Path, stored: str, sought: Sought, *, behind: int = 0) -> Any:
        read.append((stored, behind))
        return held(store, data_dir, stored, sought, behind=behind)

    monkeypatch.setattr(name_index, "held", noted)
    assert holding(world, "of-b") == ["b"]
    assert read == [("a", 1), ("b", 0)]
    read.clear()
    assert holding(world, "later") == ["a"]
    assert ("c", 0) not in read
    NameIndex(world.store, world.place).drop("c")
    assert marks_kept(world.store).isdisjoint({mark("of-c")})


def test_records_that_replace_others_behind_a_snapshot_are_read(world: World) -> None:
    world.create("a")
    world.append_key("a", "order-1")
    world.snapshot("a")
    world.copy("a")
    world.append_key("a", "order-2")
    assert holding(world, "nobody") == []
    world.back("a")
    world.append_key("a", "order-3")
    assert holding(world, "order-3") == ["a"]


def test_an_answer_that_comes_later_is_read(world: World) -> None:
    feed = IDS[-1]
    world.create(feed)
    world.store.append(
        world.leases[feed], 1, codec.encode({"paused": True, "at": 0.0}), Idempotency("once", b""), keep=3
    )
    world.keys[feed] = "order-1"
    assert holding(world, "order-1") == []
    world.answer(feed)
    assert holding(world, "order-1") == [feed]


def test_a_file_of_a_lost_model_is_read(world: World) -> None:
    world.create("a")
    world.append_key("a", "order-1")
    assert holding(world, "nobody") == []
    rescue(world.place / "data", "a", b"", (5, of("order-2").encode(), 5))
    assert holding(world, "order-2") == ["a"]
