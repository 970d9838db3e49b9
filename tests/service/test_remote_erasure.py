"""Rows to be forgotten by another front end: asked for by a document, waited for while that one shows life."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livesvm.service.datasets.catalogue import Found
from livesvm.service.errors import UnknownDataset
from livesvm.service.history.erasure import BEGUN
from livesvm.service.lifecycle.remote_erasure import KIND, RemoteErasures
from livesvm.service.store.base import DocumentName, Store, StoreUnavailable

HERE, THERE = "front-end-1", "front-end-2"


@dataclass
class Front:
    """One front end: its datasets by directory, with how many of the rows they hold, and whose jobs it ends."""

    holder: str
    store: Store
    rows: dict[str, int] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    ended: list[set[str]] = field(default_factory=list)
    erased: list[list[Found]] = field(default_factory=list)
    rewritten: set[str] = field(default_factory=set)
    fails: bool = False

    def __post_init__(self) -> None:
        parts = cast(Any, self)
        self.errands = RemoteErasures(self.store, parts, cast(Any, _Jobs(self.ended)), parts)

    def is_away(self, holder: str) -> bool:
        return holder in self.away

    def narrowed(self, found: Found) -> Found | None:
        held = self.rows.get(found.directory)
        return None if held is None else replace(found, rows=held)

    def erase(self, rows: list[Found]) -> None:
        if self.fails:
            raise StoreUnavailable("the disk is full")
        self.erased.append(list(rows))

    def check(self, dataset: dict[str, Any]) -> None:
        if dataset["directory"] in self.rewritten:
            raise UnknownDataset("it is another one now")


@dataclass
class _Jobs:
    ended: list[set[str]]

    def erase(self, model: str, directories: set[str]) -> int:
        assert model == ""
        self.ended.append(set(directories))
        return 0


def row(directory: str, held_by: str | None, rows: int | None = None) -> dict[str, Any]:
    return asdict(Found(f"set-{directory}", directory, ["mark"], rows, held_by))


def open_errands(store: Store) -> list[str]:
    return [at.name for at in store.documents(KIND)]


def test_what_is_here_is_forgotten_here_and_what_is_not_by_its_holder(store: Store) -> None:
    here, there = Front(HERE, store, {"a": 2}), Front(THERE, store, {"b": 3})
    rows = [row("a", None, 2), row("gone", HERE), row("b", THERE)]
    outcome = here.errands.run("e-1", rows, seconds=0.0)
    assert [one.directory for one in outcome.rows] == ["a"]
    assert outcome.open == {"front-en": ["set-b"]}
    assert here.ended == [{"a"}]
    there.errands.do()
    assert [one.directory for one in there.erased[0]] == ["b"]
    assert there.ended == [{"b"}]
    again = here.errands.run("e-1", rows)  # what has been done is not asked for again
    assert [(one.directory, one.rows) for one in again.rows] == [("a", 2), ("b", 3)]
    assert again.open == {}
    there.errands.do()
    assert len(there.erased) == 1


def test_one_that_is_away_is_not_waited_for_and_one_that_shows_life_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Front(HERE, store), Front(THERE, store, {"b": 1})
    here.away.add(THERE)
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        there.errands.do()

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("livesvm.service.lifecycle.remote_erasure.time", clock)
    assert here.errands.run("e-1", [row("b", THERE)]).open == {"front-en": ["set-b"]}
    assert slept == []
    here.away.clear()
    assert [one.directory for one in here.errands.run("e-2", [row("b", THERE)]).rows] == ["b"]
    assert len(slept) == 1


def test_the_answer_goes_with_the_erasure_and_what_is_open_stays(store: Store) -> None:
    here, there, third = Front(HERE, store), Front(THERE, store, {"b": 1}), "front-end-3"
    here.errands.run("e-1", [row("b", THERE), row("c", third)], seconds=0.0)
    here.errands.run("e-11", [row("b", THERE)], seconds=0.0)
    store.put_document(DocumentName(BEGUN, "m:e-1"), b"{}")
    store.put_document(DocumentName(BEGUN, "m:e-11"), b"{}")
    there.errands.do()
    here.errands.end("e-1")
    assert open_errands(store) == [f"{THERE}:e-11", f"{third}:e-1"]
    there.errands.do()  # e-11 is waited for
    assert f"{THERE}:e-11" in open_errands(store)
    store.delete_document(DocumentName(BEGUN, "m:e-11"))
    there.errands.do()  # the erasure has ended without this answer
    assert open_errands(store) == [f"{third}:e-1"]


def test_one_that_fails_in_the_middle_is_done_again_and_tells_what_it_found_first(store: Store) -> None:
    here, there = Front(HERE, store), Front(THERE, store, {"b": 4}, fails=True)
    here.errands.run("e-1", [row("b", THERE)], seconds=0.0)
    with pytest.raises(StoreUnavailable):
        there.errands.do()
    assert here.errands.run("e-1", [row("b", THERE)], seconds=0.0).open == {"front-en": ["set-b"]}
    there.fails, there.rows = False, {"b": 0}  # they are gone by now
    there.errands.do()
    assert [one.rows for one in here.errands.run("e-1", [row("b", THERE)]).rows] == [4]


def test_jobs_on_what_another_has_rewritten_end_everywhere(store: Store) -> None:
    here, there, third = Front(HERE, store), Front(THERE, store, {"b": 1}), Front("front-end-3", store)
    here.errands.run("e-1", [row("b", THERE)], seconds=0.0)
    for front in (there, third):
        front.errands.do()
    here.errands.end("e-1")
    third.errands.do()
    assert third.ended == []  # it is the same dataset still, as far as is known here
    here.errands.run("e-2", [row("b", THERE)], seconds=0.0)
    for front in (there, third):
        front.errands.do()
    here.errands.end("e-2")
    third.rewritten.add("b")
    third.errands.do()
    third.errands.do()
    assert third.ended == [{"b"}]
