"""Tasks, kinds of jobs, kinds of hosted things that are added from outside: one entry each; the rest comes with it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ValidationError

from livesvm.service.errors import NotApplicable, ServiceError
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.replay import Patience
from livesvm.service.hosting.collection import Collection, Kind
from livesvm.service.hosting.handle import Reply
from livesvm.service.hosting.replica import Replica
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import Durability, Lease, ModelExists
from livesvm.service.store.sqlite import SqliteStore
from tests.service.process import ServiceStartedAfresh
from tests.support.live_models import context_of
from tests.support.waiting import until


def test_a_task_and_a_kind_of_job_are_one_entry_each(tmp_path: Path) -> None:
    process = ServiceStartedAfresh(tmp_path)
    process.module = "tests.service.toys"
    with process, process.http() as http:
        _use(http)


def _use(http: httpx.Client) -> None:
    assert http.post("/models", json={"id": "visits", "task": "counts", "C": 10.0}).status_code == 201
    refused = http.post("/models/visits/update", json={"add": {"X": [[0.0]], "y": [0.5]}})
    assert (refused.status_code, refused.json()["reason"]) == (422, "is no count")
    X = [[float(i)] for i in range(12)]
    y = [float(i // 2) for i in range(12)]
    assert http.post("/models/visits/update", json={"add": {"X": X, "y": y}}).json()["n_examples"] == 12
    predicted = http.post("/models/visits/predict", json={"X": X}).json()["prediction"]
    assert all(value == round(value) >= 0 for value in predicted)
    assert http.post("/models/visits/farthest", json={"most": "all"}).status_code == 422
    asked = http.post("/models/visits/farthest", json={"most": 2})
    assert asked.status_code == 202
    job = asked.headers["location"]
    while (found := http.get(job).json())["state"] != "done":
        assert found["state"] in ("queued", "running"), found
        time.sleep(0.03)
    assert len(found["result"]["keys"]) == 2
    assert http.post(f"{job}/apply", json={}).json()["changed"] == 2
    document = http.get("/openapi.json").json()
    assert document["paths"]["/models/{id}/farthest"]["post"]["summary"] == "Name who is far off"
    assert "FarRequest" in document["components"]["schemas"]


class TallySpec(BaseModel, extra="forbid"):
    """What a tally is created as."""

    step: int = 1


@dataclass
class Tally:
    """A number that calls add to."""

    sequence: int = 0
    version: int = 0
    total: int = 0
    hot_bytes = held_bytes = 0

    def encode(self) -> bytes:
        """Return all of it."""
        return codec.encode(vars(self))

    def skip(self) -> None:
        """Pass over a record."""
        self.sequence += 1

    def cool(self) -> int:
        """There is nothing to give up."""
        return 0


@dataclass
class Adding:
    """An entry of a tally's log."""

    number: int
    request: str | None

    def encode(self) -> bytes:
        """Return bytes for the log."""
        return codec.encode({"number": self.number})


class UnknownTally(ServiceError):
    """There is none of that id."""


class HostedTally(Replica[Tally]):
    """A kind of thing that this project does not know."""

    word, gone, spec_field, undoes = "tally", UnknownTally, "tally", True
    shown: int | None = None

    @staticmethod
    def parse_spec(text: str) -> TallySpec:
        """Return the specification in JSON."""
        return TallySpec.model_validate_json(text)

    def add(self, number: int, request: str | None = None) -> Future[Reply]:
        """Add a number."""
        digest, add = (lambda: b"%d" % number), (lambda digest, solve: self._add(number, request, solve))
        return self._submit(partial(self._changed, request, digest, add))

    def _add(self, number: int, request: str | None, solve: Solve) -> Reply:
        entry, tally = Adding(number * self._spec.step, request), self.current

        def show(done: int, durability: Durability) -> bytes:
            self._publish(tally)
            return b"%d" % done

        _, answer, record, _ = self.perform(entry, b"%d" % number, partial(_apply, tally, entry.number), show, solve)
        self.checkpoints.record_change(0.0, len(record))
        self.remember(request, answer)
        return Reply(answer)

    def _recover(self, lease: Lease, patience: Patience) -> Recovered[Tally]:
        store, tally = self.context.source.store, Tally()
        for snapshot in store.snapshots(self.stored)[:1]:
            tally = Tally(**codec.decode(store.load_snapshot(self.stored, snapshot.sequence)))
        for record in store.log(self.stored, tally.sequence):
            _apply(tally, codec.decode(record.data)["number"])
        return Recovered(tally)

    def _publish(self, state: Tally) -> None:
        self.shown = state.total

    def _forget(self) -> None:
        self.shown = None

    def _tell(self) -> dict[str, Any]:
        return {"total": self.shown}

    def _count(self, became: str, seconds: float | None) -> None:
        """Count nothing."""

    def sample(self) -> int | None:
        """Return what the metrics show."""
        reported = None if self._summary is None else self._summary.reported
        return self.shown if self.is_awake or reported is None else reported["total"]

    def stamp(self) -> object:
        """Return what is reported of it."""
        return self.shown


def _apply(tally: Tally, number: int) -> int:
    if tally.total + number < 0:
        raise NotApplicable("a tally is never below zero")
    tally.sequence += 1
    tally.version += 1
    tally.total += number
    return tally.total


TALLY = Kind(HostedTally, "tally.", "t", ModelExists, NotApplicable, lambda settings: 3, lambda spec, context: None)


def test_a_kind_of_hosted_thing_is_one_class_and_one_entry(store: SqliteStore) -> None:
    tallies = Collection(TALLY, context_of(store), lambda size: None)
    one = tallies.create("visits", TallySpec(step=2))
    assert [one.add(number, f"r{number}").result().body for number in (1, 4)] == [b"2", b"10"]
    until(one.rest)
    assert (one.shown, tallies.samples(9), tallies.states()) == (None, [10], {"live": 1})
    again = one.add(4, "r4").result()
    assert (again.body, again.replayed) == (b"10", True)
    assert one.add(-3).result().body == b"4"
    for name in ("a", "b"):
        tallies.create(name, TallySpec())
    with pytest.raises(NotApplicable, match="there are 3 tallys, as many as LIVESVM_MAX_TALLYS allows"):
        tallies.create("c", TallySpec())
    with pytest.raises(UnknownTally, match="there is no tally 'c'"):
        tallies.get("c")
    with pytest.raises(ValidationError):
        TALLY.replica.parse_spec('{"steps": 3}')
    for tally in tallies.all_handles():
        tally.stop()
    found = Collection(TALLY, context_of(store), lambda size: None)
    found.learn(store.index())
    assert [(tally.id, tally.sample()) for tally in found.page()] == [("a", 0), ("b", 0), ("visits", 4)]
    found.delete("a").result()
    found.forget("a")
    assert sorted(model.id for model in store.models()) == ["tally.b", "tally.visits"]
