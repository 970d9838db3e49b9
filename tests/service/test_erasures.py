"""Erasures from their request to their receipt, around a model that is played."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livesvm.service.errors import IdempotencyConflict, NotSolved
from livesvm.service.history.erasure import EVERYWHERE, ErasurePart, Intent, begun
from livesvm.service.history.journal import Source
from livesvm.service.history.names import stored_feed
from livesvm.service.history.rescue import DIRECTORY, rescue
from livesvm.service.hosting.handle import Erased
from livesvm.service.lifecycle.erasures import OTHERS_SECONDS, ErasureRequest, Erasures
from livesvm.service.lifecycle.receipts import RECEIPT
from livesvm.service.lifecycle.search import Sought
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.settings import Settings
from livesvm.service.store.base import DELETING, DocumentName, Store, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore


@dataclass
class Model:
    """A model that is asked to erase; also all models, and what lies around them."""

    store: Store
    ended: list[str] = field(default_factory=list)
    fails: bool = False

    def get(self, model: str) -> Model:
        return self

    def intent(self, asked_by: str | None = None) -> Intent:
        """Return what is to be erased: two keys, both found."""
        intent = Intent("m", (ErasurePart("m", 1, 1, 2),), asked_by=asked_by)
        return replace(intent, keys=(intent.hash("a"), intent.hash("b")))

    def erase(self, asked: Any, *more: Any) -> Any:
        if not isinstance(asked, Intent):  # jobs of a model
            self.ended.append(asked)
            return 0
        if self.fails:
            raise StoreUnavailable("the disk is full")
        return done(Erased(2, 0, None))

    def find(self, keys: list[Any]) -> Any:
        return [], []

    def naming(self, model: str, keys: Any) -> set[Any]:
        return set()


def done(value: Any) -> Future[Any]:
    found: Future[Any] = Future()
    found.set_result(value)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with closing(SqliteStore(tmp_path / "store")) as store:
        yield Model(store)


@pytest.fixture
def erasures(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Erasures:
    metrics = Metrics()
    parts = cast(Any, model)
    settings = Settings(data_dir=tmp_path)
    erasures = Erasures(
        settings,
        Source(model.store, Health(metrics), metrics),
        SimpleNamespace(models=parts, feeds=parts),
        (parts, parts),
    )
    monkeypatch.setattr(erasures, "_finder", SimpleNamespace(find=lambda target, sought: model.intent()))
    return erasures


def receipts(model: Model) -> list[Any]:
    found = (model.store.document(at) for at in model.store.documents(RECEIPT))
    return [json.loads(data) for data in found if data is not None]


def test_an_erasure_ends_those_that_were_begun_before_it(model: Model, erasures: Erasures, tmp_path: Path) -> None:
    rescue(tmp_path, "m", b"", (1, b"", 1))
    rescue(tmp_path, "m-2", b"", (1, b"", 1))
    earlier = model.intent("someone")
    model.store.put_document(earlier.at_store, earlier.encode())
    receipt = erasures.erase("m", Sought(("b",)), ErasureRequest("another", None, "")).receipt
    assert receipt["asked_by"] == "another"
    erasures.look()
    assert {found["receipt"] for found in receipts(model)} == {earlier.id, receipt["receipt"]}
    assert begun(model.store) == []
    assert receipt["places"]["files of lost models"] == "1 removed"
    assert [path.name for path in (tmp_path / DIRECTORY).iterdir()] == ["m-2-1.model"]
    assert model.ended == ["m"] * 4  # jobs of both, before the solve and once rows are gone


def test_one_that_cannot_be_ended_is_owed_until_it_is(model: Model, erasures: Erasures) -> None:
    model.fails = True
    with pytest.raises(StoreUnavailable):
        erasures.erase("m", Sought(("b",)), ErasureRequest(None, None, ""))
    assert erasures.is_owed
    erasures.look()
    assert erasures.is_owed
    assert receipts(model) == []
    model.fails = False
    erasures.look()
    assert not erasures.is_owed
    assert [found["keys"]["count"] for found in receipts(model)] == [2]


def test_an_erasure_drops_receipts_whose_time_is_over(model: Model, erasures: Erasures) -> None:
    first = erasures.erase("m", Sought(("b",)), ErasureRequest(None, None, "")).receipt
    over = json.dumps(first | {"kept_until": first["erased_at"]}).encode()
    model.store.put_document(DocumentName(RECEIPT, first["receipt"]), over)
    second = erasures.erase("m", Sought(("b",)), ErasureRequest(None, None, "")).receipt
    assert [found["receipt"] for found in receipts(model)] == [second["receipt"]]


def test_a_request_under_way_that_comes_with_another_body_is_refused(model: Model, erasures: Erasures) -> None:
    model.fails = True
    with pytest.raises(StoreUnavailable):
        erasures.erase("m", Sought(("b",)), ErasureRequest(None, "request", "b"))
    with pytest.raises(IdempotencyConflict):
        erasures.erase("m", Sought(("a",)), ErasureRequest(None, "request", "a"))
    model.fails = False
    answer = erasures.erase("m", Sought(("b",)), ErasureRequest(None, "request", "b"))
    assert answer.replayed
    assert receipts(model) == [answer.receipt]


def test_where_no_model_finds_an_optimum_only_the_first_try_is_given_up(
    model: Model, erasures: Erasures, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unsolved: Future[Any] = Future()
    unsolved.set_exception(NotSolved("it took too long"))
    monkeypatch.setattr(model, "get", lambda name: SimpleNamespace(erase=lambda intent: unsolved))
    with pytest.raises(NotSolved):
        erasures.erase("m", Sought(("b",)), ErasureRequest(None, None, ""))
    assert (begun(model.store), erasures.is_owed) == ([], False)
    cut_off = model.intent()
    model.store.put_document(cut_off.at_store, cut_off.encode())
    erasures.look()
    assert [one.id for one in begun(model.store)] == [cut_off.id]
    assert (receipts(model), erasures.is_owed) == ([], True)
    assert "not ended yet: it took too long" in caplog.text
    monkeypatch.undo()
    erasures.look()
    assert "has been ended" in caplog.text


def test_what_other_front_ends_have_erased_goes_here_too_once_and_theirs_under_way_is_left_to_them(
    model: Model, erasures: Erasures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SimpleNamespace(ray="auto", solve_seconds=5.0, data_dir=tmp_path)
    monkeypatch.setattr(erasures, "_settings", settings)
    monkeypatch.setattr(model, "all", lambda: [], raising=False)
    rescue(tmp_path, "m", b"", (1, b"", 1))
    theirs: dict[str, Any] = {"receipt": "e-1", "model": "m", "kind": "model", "erased_at": "2026-01-01T00:00:00+00:00"}
    all_of_it = {"receipt": "e-2", "model": EVERYWHERE, "parts": [{"model": "n", "kind": "feed"}]}
    for receipt in (theirs, theirs | all_of_it):
        kept = json.dumps(receipt | {"kept_until": "2999-01-01T00:00:00+00:00"})
        model.store.put_document(DocumentName(RECEIPT, receipt["receipt"]), kept.encode())
    fresh, stale = (
        replace(model.intent(), at=time.time() - age) for age in (3.0 + OTHERS_SECONDS, 6.0 + OTHERS_SECONDS)
    )
    model.store.put_document(fresh.at_store, fresh.encode())
    for _ in range(2):
        erasures.look()
        assert [one.id for one in begun(model.store)] == [fresh.id]
        assert model.ended == ["m", stored_feed("n")]
        assert not list((tmp_path / DIRECTORY).iterdir())
    model.store.put_document(stale.at_store, stale.encode())
    erasures.look()
    assert [one.id for one in begun(model.store)] == [fresh.id]


def test_a_deletion_that_a_crash_has_cut_off_is_ended_and_one_that_had_no_effect_is_not(
    model: Model, erasures: Erasures
) -> None:
    model.store.create("stored", b"")
    for name in ("gone", "stored"):
        model.store.put_document(DocumentName(DELETING, name), b"")
    erasures.finish()
    assert model.store.documents(DELETING) == [DocumentName(DELETING, "stored")]
    assert model.ended == ["gone"]
