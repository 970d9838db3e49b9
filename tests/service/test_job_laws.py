"""Jobs against a model of them that is a list: whatever is asked for in whatever order, and what a restart knows."""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from livesvm.service.errors import JobNotDone, QueueFull, UnknownJob
from livesvm.service.jobs.files import JobFiles
from livesvm.service.jobs.kind import KEY_FIELDS, LABEL_FIELDS, JobKind, without_keys
from livesvm.service.jobs.queue import JobLimits, Jobs, _keys_in
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.memory import Budget
from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime.progress import Progress
from tests.support.waiting import until

LIMITS = JobLimits(running=1, waiting=2, kept=2)
MEMORY, GIVEN = 1000, 7


class Subject:
    """A model whose copy is there at once."""

    def __init__(self, id: str) -> None:
        self.id = id

    def describe(self) -> Any:
        return SimpleNamespace(memory=MEMORY)

    def copy(self) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_result(SimpleNamespace(version=3))
        return found


class Plain:
    """All jobs, oldest first, as dictionaries; the first that waits runs as soon as none does."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    def of(self, *states: str) -> list[dict[str, Any]]:
        return [job for job in self.jobs if job["state"] in states]

    def add(self, job: dict[str, Any]) -> None:
        self.jobs.append(job | {"state": "queued"})
        ended = self.of("done", "cancelled", "failed")
        self.jobs = [one for one in self.jobs if one not in ended[: max(0, len(ended) - LIMITS.kept)]]

    def go_on(self) -> None:
        if not self.of("running") and self.of("queued"):
            self.of("queued")[0]["state"] = "running"


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "end", "end", "fail", "cancel", "remove", "erase", "forget"]),
        st.integers(0, 5),
        st.sampled_from(["m", "n"]),
        st.sampled_from(["d-1", "d-2", None]),
        st.booleans(),
    ),
    min_size=3,
    max_size=14,
)


@settings(max_examples=12)
@given(OPERATIONS)
@example([("submit", 0, "m", None, False), ("submit", 0, "n", "d-1", True), ("cancel", 1, "m", None, False)])
@example([("submit", 0, "m", None, False), ("submit", 0, "n", "d-1", True), ("erase", 0, "n", None, False)])
def test_jobs_are_those_of_a_list(operations: list[tuple[str, int, str, str | None, bool]]) -> None:
    ways: dict[int, str] = {}
    turn = threading.Condition()

    def work(asked: dict[str, Any], model: Any, progress: Progress) -> dict[str, Any]:
        with turn:
            while asked["n"] not in ways:
                turn.wait(0.002)
                if not progress(1, 2):
                    raise Cancelled("as asked")
        if ways[asked["n"]] == "fail":
            raise RuntimeError("broken")
        return {"n": asked["n"], "version": model.version}

    with ExitStack() as ending:
        place = ending.enter_context(tempfile.TemporaryDirectory())
        files, budget, plain = JobFiles(Path(place) / "jobs"), Budget(), Plain()
        jobs = Jobs(files, LIMITS, Metrics(), {"work": JobKind(work, copies=2)}, budget)
        ending.callback(jobs.stop)
        ids: list[str] = []

        def settled() -> bool:
            return [(one.id, one.state) for one in jobs.all()] == [(one["id"], one["state"]) for one in plain.jobs]

        for number, (what, which, model, directory, flag) in enumerate(operations):
            chosen = ids[which % len(ids)] if ids else "j-none"
            mine = next((one for one in plain.jobs if one["id"] == chosen), None)
            if what == "submit":
                asked = {"n": number} | ({} if directory is None else {"dataset": {"directory": directory}})
                given: Any = {"data-beside": SimpleNamespace(memory=lambda: GIVEN)} if flag else None
                if len(plain.of("queued")) >= LIMITS.waiting:
                    with pytest.raises(QueueFull):
                        jobs.submit("work", Subject(model), asked, given)
                else:
                    record = jobs.submit("work", Subject(model), asked, given)
                    ids.append(record.id)
                    reported = {
                        "id": record.id,
                        "n": number,
                        "model": model,
                        "directory": directory,
                        "at": record.created_at,
                    }
                    plain.add(reported | {"given": GIVEN if flag else 0})
            elif what in ("end", "fail") and plain.of("running"):
                running = plain.of("running")[0]
                with turn:
                    ways[running["n"]] = what
                    turn.notify_all()
                running["state"] = "done" if what == "end" else "failed"
            elif what in ("cancel", "remove"):
                ask = jobs.cancel if what == "cancel" else jobs.remove
                if mine is None:
                    with pytest.raises(UnknownJob):
                        ask(chosen)
                else:
                    ask(chosen)
                    if mine["state"] in ("queued", "running"):
                        mine["state"] = "cancelled"
                    elif what == "remove":
                        plain.jobs.remove(mine)
            elif what == "erase":
                before = (mine or {"at": time.time()})["at"] if flag else float("inf")
                then = [one for one in plain.jobs if one["at"] <= before]
                goes = [one for one in then if one["model"] == model or one["directory"] == (directory or "none")]
                assert jobs.erase(model, {directory or ""}, before) == len(goes)
                plain.jobs = [one for one in plain.jobs if one not in goes]
            elif what == "forget":
                jobs.forget(model)
                plain.jobs = [one for one in plain.jobs if one["model"] != model]
            plain.go_on()
            until(settled)
            counts = {state: len(plain.of(state)) for state in ("queued", "running", "done", "failed", "cancelled")}
            assert jobs.counts() == counts
            until(lambda: budget.held()["jobs"] == held(plain))
            for one in plain.jobs:
                if one["state"] == "done":
                    assert jobs.result(one["id"]) == {"n": one["n"], "version": 3}
                else:
                    with pytest.raises(JobNotDone):
                        jobs.result(one["id"])
            kept = {path.name.partition(".")[0] for path in (Path(place) / "jobs").glob("*")}
            assert kept == {one["id"] for one in plain.jobs}
        jobs.stop()
        assert budget.held()["jobs"] == 0
        known = Jobs(files, LIMITS, Metrics(), {})
        expected = {
            one["id"]: "failed" if one["state"] in ("queued", "running") else one["state"] for one in plain.jobs
        }
        assert {one.id: one.state for one in known.all()} == expected
        known.stop()


def held(plain: Plain) -> int:
    """Return bytes of what jobs were given that wait or run, and of the two copies that the running one works on."""
    under_way = plain.of("queued", "running")
    given: int = sum(one["given"] for one in under_way)
    return given + 2 * MEMORY * len(plain.of("running"))


NAMES = st.sampled_from(["key", "keys", "label", "others", "n", "curve"])
LEAVES = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b"]), st.lists(st.integers(0, 3), max_size=2))
RESULTS: Any = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, max_size=4), st.lists(st.dictionaries(NAMES, inner, max_size=3), max_size=3)
    ),
    max_leaves=12,
)


def pruned(result: Any, at: tuple[str, ...] = ()) -> tuple[Any, set[str]]:
    """Return what is left of a result, and what was left out, by the rule read out plainly."""
    if isinstance(result, list):
        parts = [pruned(one, at) for one in result]
        return [one for one, _ in parts], {name for _, names in parts for name in names}
    if not isinstance(result, dict):
        return result, set()
    left, out = {}, set[str]()
    for name, value in result.items():
        if name in KEY_FIELDS or ("key" in result and name in LABEL_FIELDS):
            out.add(".".join([*at, name]))
        else:
            left[name], below = pruned(value, (*at, name))
            out |= below
    return left, out


@given(st.dictionaries(NAMES, RESULTS, max_size=5))
def test_what_is_left_of_a_result_names_no_example_and_only_that_is_missing(result: dict[str, Any]) -> None:
    left, withheld = without_keys(result)
    assert (left, withheld) == pruned(result)
    assert list(left) == [name for name in result if name in left]
    assert _keys_in(left, [0, 1, 2, 3, "a", "b"]) == set()
    assert without_keys(left) == (left, set())
    under = [value for value, inside in leaves(result) if inside]
    several: list[list[int | str]] = [[0, "a"], [1, 2, "b"], []]
    for sought in several:
        assert _keys_in(result, sought) == {value for value in under if value in sought}


def leaves(result: Any, inside: bool = False) -> list[tuple[Any, bool]]:
    """Return every value, and whether the field that it stands in names examples."""
    if isinstance(result, dict):
        return [one for name, value in result.items() for one in leaves(value, name in KEY_FIELDS)]
    if isinstance(result, list):
        return [one for value in result for one in leaves(value, inside)]
    return [(result, inside)]
