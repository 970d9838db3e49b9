"""Erasures around models and feeds that are played: what is left, what is reported, what is tried again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livesvm.service.datasets.catalogue import Found
from livesvm.service.errors import ModelUnavailable, NothingToErase, NotSolved, UnknownFeed, UnknownModel
from livesvm.service.history.erasure import BEGUN, EVERYWHERE, LEFT, ErasurePart, Intent, begun
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, FLEET, is_feed, stored_feed
from livesvm.service.history.rescue import DIRECTORY, rescue
from livesvm.service.hosting.handle import Erased
from livesvm.service.lifecycle.deletions import DELETED_AT_ONCE
from livesvm.service.lifecycle.erasures import ErasureRequest, Erasures
from livesvm.service.lifecycle.receipts import RECEIPT
from livesvm.service.lifecycle.search import Sought
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.settings import Settings
from livesvm.service.store.base import DELETING, DocumentName, StoreError, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import NotOptimal

FEED = stored_feed("f")
NAMES = ("m", "n", FEED)
JOBS = {"m": 3, "n": 5, FEED: 7, "": 11}
"""How many jobs end with a model, or with a dataset alone."""
OUTCOMES = ("ok", "ok", "ok", "gone", "unsolved", "not optimal", "down")


class World:
    """Models, feeds, jobs and datasets that answer as was drawn, and note what they are asked for."""

    def __init__(self, draw: random.Random) -> None:
        self.ways = {name: draw.choice(OUTCOMES) for name in NAMES}
        chosen = [name for name in NAMES if draw.random() < 0.6]
        parts = [
            ErasurePart(name, 4, 9, draw.randrange(3), is_named=draw.random() < 0.8, in_jobs=draw.random() < 0.8)
            for name in chosen
        ]
        rows = [Found(f"set-{k}", f"d-{k}", ["mark"], draw.choice([1, 2, None])) for k in range(draw.randrange(3))]
        self.narrowed_to = {one.directory: draw.choice([0, 4, None]) for one in rows}
        intent = Intent(EVERYWHERE if draw.random() < 0.7 or len(parts) != 1 else parts[0].stored, tuple(parts))
        intent = replace(
            intent, keys=(intent.hash("a"),), rows=tuple(map(asdict, rows)), refused={"feed g": "it is away"}
        )
        self.intent = intent if intent.target == EVERYWHERE else replace(intent, refused={})
        self.ended: list[tuple[str, frozenset[str]]] = []
        self.rewritten: list[list[str]] = []

    def home(self, kind: str) -> Any:
        """Return all models, or all feeds."""
        return SimpleNamespace(get=lambda id: self.live(stored_feed(id) if kind == "feed" else id))

    def live(self, stored: str) -> Any:
        way = self.ways[stored]
        if way == "gone":
            raise UnknownFeed(stored) if is_feed(stored) else UnknownModel(stored)
        found: Future[Erased] = Future()
        errors = {
            "unsolved": NotSolved("too long"),
            "not optimal": NotOptimal("none"),
            "down": ModelUnavailable("away"),
        }
        if way in errors:
            found.set_exception(errors[way])
        else:
            found.set_result(Erased(5, 2, None))
        return SimpleNamespace(erase=lambda intent: found)

    # jobs and datasets

    def erase(self, asked: Any, directories: Any = ()) -> Any:
        if isinstance(asked, str):
            self.ended.append((asked, frozenset(directories)))
            return JOBS[asked]
        self.rewritten.append([one.directory for one in asked])
        return None

    def narrowed(self, found: Found) -> Found | None:
        rows = self.narrowed_to[found.directory]
        return None if rows is None else replace(found, rows=rows)

    # what is to come of it

    def plan(self, *, first: bool) -> dict[str, Any]:
        """Return the erasure's outcome by the rules: an error, or its receipt; and the calls made on the way."""
        parts, jobs = self.intent.parts, [part.stored for part in self.intent.parts if part.in_jobs] or [""]
        known = frozenset(str(row["directory"]) for row in self.intent.rows if row["rows"] is not None)
        ended, done, refused = [(one, known) for one in jobs], list[ErasurePart](), dict(self.intent.refused)
        unsolved: list[type[Exception]] = []
        for part in parts:
            way = self.ways[part.stored] if part.is_named else "ok"
            name = f"feed {part.stored.removeprefix(FEEDS)}" if is_feed(part.stored) else f"model {part.stored}"
            if way == "ok":
                done.append(part)
            elif way in ("unsolved", "not optimal") and first:
                unsolved.append(NotSolved if way == "unsolved" else NotOptimal)
                refused[name] = "not erased"
            elif way != "gone":
                error = {"unsolved": NotSolved, "not optimal": NotOptimal, "down": ModelUnavailable}[way]
                return {"error": error, "open": True, "ended": ended, "rewritten": []}
        if unsolved and len(unsolved) == len(parts):
            return {"error": unsolved[0], "open": False, "ended": ended, "rewritten": []}
        rows = [Found(**row) for row in self.intent.rows]
        found = [one for row in rows if (one := self.narrowed(row) if row.rows is None else row) is not None]
        rewritten = [[one.directory] if self.is_there(one) else [] for one in rows]
        ended += [("", frozenset([one.directory])) for one in rows if self.is_there(one)]
        if parts and not done and not unsolved:
            return {"error": NothingToErase, "open": False, "ended": ended, "rewritten": rewritten}
        here = frozenset(one.directory for one in found)
        ended += [(one, here) for one in jobs]
        if not (found or any(part.in_jobs for part in done)):
            return {"error": NothingToErase, "open": False, "ended": ended, "rewritten": rewritten}
        counts = 2 * sum(JOBS[one] for one in jobs)
        return {"error": None, "done": done, "refused": refused, "rows": found, "jobs": counts, "ended": ended,
                "files": sum(one in jobs for one in NAMES), "rewritten": rewritten}  # fmt: skip

    def is_there(self, one: Found) -> bool:
        return one.rows is not None or self.narrowed_to[one.directory] is not None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path_factory.mktemp("erasures") / "store")) as store:
        yield store


def made(world: World, store: SqliteStore, place: Path, monkeypatch: pytest.MonkeyPatch) -> Erasures:
    metrics, around = Metrics(), cast(Any, world)
    source = Source(store, Health(metrics), metrics)
    hosting = cast(Any, SimpleNamespace(models=world.home("model"), feeds=world.home("feed")))
    erasures = Erasures(Settings(data_dir=place), source, hosting, (around, around))
    monkeypatch.setattr(erasures, "_finder", SimpleNamespace(find=lambda target, sought: world.intent))
    return erasures


def check_receipt(receipt: dict[str, Any], world: World, plan: dict[str, Any]) -> None:
    intent, done = world.intent, plan["done"]
    reported = receipt["parts"] if intent.target == EVERYWHERE else [receipt]
    names = ("model", "kind", "version_before", "version_after", "in_window")
    assert [[one[name] for name in names] for one in reported] == [
        [id, "model" if id == part.stored else "feed", 4, 5 if part.is_named else 4, part.found]
        for part in done
        for id in [part.stored.removeprefix(FEEDS)]
    ]
    assert {name: why.split(":")[0] for name, why in receipt["refused"].items()} == plan["refused"]
    places = receipt["places"]
    assert f"{plan['jobs']} at the end" in places["jobs and their results"]
    assert places["files of lost models"] == f"{plan['files']} removed"
    for one in plan["rows"]:
        assert f"{one.rows} rows removed from {one.name}" in places["datasets"]
    assert receipt["keys"]["hashes"] == list(intent.keys)
    assert receipt["keys"]["in_window"] == sum(part.found for part in intent.parts)


@pytest.mark.parametrize("seed", range(40))
def test_an_erasure_ends_in_a_receipt_or_leaves_nothing_or_is_tried_again(
    seed: int, store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(random.Random(seed))
    erasures, intent = made(world, store, tmp_path, monkeypatch), world.intent
    for name in NAMES:
        rescue(tmp_path, name, b"", (1, b"", 1))
    plan, before = world.plan(first=True), len(store.documents(RECEIPT))
    if plan["error"] is None:
        answered = erasures.erase_everywhere(Sought(("a",)), ErasureRequest("someone", f"once-{seed}", "body"))
        check_receipt(answered.receipt, world, plan)
        assert not answered.replayed
        again = erasures.erase_everywhere(Sought(("a",)), ErasureRequest("someone", f"once-{seed}", "body"))
        assert again.receipt == answered.receipt
        assert again.replayed
    else:
        with pytest.raises(plan["error"]):
            erasures.erase_everywhere(Sought(("a",)), ErasureRequest("someone", None, "body"))
    assert (world.ended, [one for one in world.rewritten if one]) == (
        plan["ended"],
        [o for o in plan["rewritten"] if o],
    )
    assert [one.id for one in begun(store)] == ([intent.id] if plan.get("open") else [])
    assert erasures.is_owed is bool(plan.get("open"))
    assert len(store.documents(RECEIPT)) == before + (plan["error"] is None)
    left = {path.name.rpartition("-")[0] for path in (tmp_path / DIRECTORY).iterdir()}
    gone = {part.stored for part in intent.parts if part.in_jobs} if plan["error"] is None else set()
    assert left == set(NAMES) - gone
    if plan.get("open"):  # it is ended as soon as that can be
        world.ended.clear()
        world.rewritten.clear()
        for name, way in world.ways.items():
            world.ways[name] = "ok" if way != "gone" else "gone"
        plan = world.plan(first=False)
        erasures.look()
        assert begun(store) == ([] if plan["error"] in (None, NothingToErase) else [intent])
        receipts = [json.loads(cast(bytes, store.document(at))) for at in store.documents(RECEIPT)]
        mine = [one for one in receipts if one["receipt"] == intent.id]
        assert len(mine) == (plan["error"] is None)
        for receipt in mine:
            check_receipt(receipt, world, plan)


def test_what_cannot_be_kept_is_not_begun(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(random.Random(0))
    erasures = made(world, store, tmp_path, monkeypatch)

    def refuse(*_: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(store, "put_document", refuse)
    with pytest.raises(StoreError):
        erasures.erase_everywhere(Sought(("a",)), ErasureRequest(None, None, ""))
    assert world.ended == []
    assert erasures.is_owed  # it may be there all the same


@pytest.mark.parametrize("stored", ["m", FEED])
def test_a_deletion_leaves_nothing_around_what_it_is_of_and_all_around_others(
    stored: str, store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked, wiped = World(random.Random(1)), list[tuple[str, str]](), list[Any]()
    erasures = made(world, store, tmp_path, monkeypatch)
    gone: Future[None] = Future()

    def delete(kind: str, id: str) -> Future[None]:
        asked.append((f"delete {kind}", id))
        return gone

    def forget(kind: str, id: str) -> None:
        asked.append((f"forget {kind}", id))

    def note_wipe(wholly: bool, models: Any) -> Any:
        wiped.append((wholly, models))
        return wipe(wholly=wholly, models=models)

    for kind, name in (("feed", "_feeds"), ("model", "_models")):
        home = SimpleNamespace(find=str, delete=partial(delete, kind), forget=partial(forget, kind))
        monkeypatch.setattr(erasures, name, home)
    wipe = store.wipe
    monkeypatch.setattr(store, "wipe", note_wipe)
    own, everywhere, other = (
        Intent(target, (ErasurePart(stored), ErasurePart("n"))) for target in (stored, EVERYWHERE, "n")
    )
    for one in (own, everywhere, other):
        store.put_document(one.at_store, one.encode())
    for name in (stored, "n"):
        rescue(tmp_path, name, b"", (1, b"", 1))
        store.put_document(DocumentName(LEFT, name), b"{}")
    id, kind = stored.removeprefix(FEEDS), "feed" if stored == FEED else "model"
    try:
        assert erasures.begin_deletion(stored) is gone
        assert store.documents(DELETING) == [DocumentName(DELETING, stored)]
        assert (asked, world.ended) == ([(f"delete {kind}", id)], [])
        erasures.end_deletion(stored)
        assert asked[1:] == [(f"forget {kind}", id)]
        assert world.ended == [(stored, frozenset())]
        assert wiped == [(False, [stored])]
        assert store.documents(DELETING) == []
        assert [at.name for at in store.documents(LEFT)] == ["n"]
        assert {one.id for one in begun(store)} == {everywhere.id, other.id}
        assert [path.name for path in (tmp_path / DIRECTORY).iterdir()] == ["n-1.model"]
    finally:
        for kind in (BEGUN, LEFT, DELETING):
            for at in store.documents(kind):
                store.delete_document(at)


def test_a_fleet_is_deleted_in_one_pass_that_goes_on_where_it_was_cut_off(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, gone, wiped = World(random.Random(1)), list[str](), list[Any]()
    monkeypatch.setattr(world, "erase", lambda stored: world.ended.append((stored, frozenset())))
    erasures, wipe = made(world, store, tmp_path, monkeypatch), store.wipe
    names = [f"x/{number}" for number in range(DELETED_AT_ONCE + 2)]
    failing = {names[-1]}

    def delete(id: str) -> Future[None]:
        if id in gone:
            raise UnknownFeed(id)
        found: Future[None] = Future()
        if id in failing:
            found.set_exception(StoreUnavailable("away"))
        else:
            found.set_result(None)
        return found

    def note_wipe(wholly: bool, models: Any) -> Any:
        wiped.append((wholly, list(models)))
        return wipe(wholly=wholly, models=models)

    monkeypatch.setattr(erasures, "_feeds", SimpleNamespace(delete=delete, forget=gone.append))
    monkeypatch.setattr(store, "wipe", note_wipe)
    for name in (stored_feed(names[0]), "n"):
        store.put_document(DocumentName(LEFT, name), b"{}")
    try:
        with pytest.raises(StoreUnavailable):
            erasures.delete_fleet("x", names)
        assert (sorted(gone), world.ended, wiped) == (sorted(names[:-1]), [], [])
        erasures.finish()
        assert [at.name for at in store.documents(DELETING)] == [FLEET + "x"]  # which a restart begins again by itself
        failing.clear()
        erasures.delete_fleet("x", names[-2:])
        assert sorted(gone) == sorted(names)
        assert [one for one, _ in world.ended] == sorted(map(stored_feed, names))
        assert wiped == [(False, sorted(map(stored_feed, names)))]
        assert [at.name for at in store.documents(LEFT)] == ["n"]
        assert store.documents(DELETING) == []
    finally:
        for kind in (LEFT, DELETING):
            for at in store.documents(kind):
                store.delete_document(at)


def test_a_request_gets_the_receipt_of_its_own_erasure(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(random.Random(0))
    world.ways, part = dict.fromkeys(NAMES, "ok"), ErasurePart("m", 4, 9, 1)
    erasures = made(world, store, tmp_path, monkeypatch)
    for request in ("first", "second"):
        monkeypatch.setattr(world, "intent", Intent(EVERYWHERE, (part,)))
        asked = ErasureRequest(None, request, "body")
        reported = replace(asked, body=f"{EVERYWHERE} body").asks(world.intent)
        store.put_document(reported.at_store, reported.encode())  # which a crash has cut off
        if request == "second":
            answer = erasures.erase_everywhere(Sought(("a",)), asked)
            assert (answer.replayed, answer.receipt["receipt"]) == (True, reported.id)
    erasures.finish()
    assert begun(store) == []
