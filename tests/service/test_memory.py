"""The memory budget: what does not fit is refused before any work, by the right name, and nothing stays held."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.api.problem_documents import kind_of
from livesvm.service.errors import BodyTooLarge, MemoryBusy, OutOfMemory
from livesvm.service.resources.machine import memory_bytes, resident_bytes
from livesvm.service.resources.memory import KINDS, MEGABYTE, Budget, model_bytes
from tests.service.process import ServiceProcess, blobs

SMALL_MB = 512


def test_what_fits_never_what_fits_later_and_what_is_kept_have_names_of_their_own() -> None:
    budget = Budget(100, small=0)
    budget.rest_on(20)
    budget.take("predictions", 50)
    with pytest.raises(BodyTooLarge):
        budget.take("bodies", 81)
    with pytest.raises(MemoryBusy):
        budget.take("bodies", 31)
    with pytest.raises(OutOfMemory, match="are held"):
        budget.resize("m", 21)  # a tenth is kept for requests
    budget.take("bodies", 30)
    assert sum(budget.held().values()) == 100
    statuses = [kind_of(error).status for error in (BodyTooLarge(""), MemoryBusy(""), OutOfMemory(""))]
    assert statuses == [413, 429, 507]
    assert kind_of(MemoryBusy("")).retry_after is not None


@given(st.lists(st.tuples(st.sampled_from(KINDS[3:]), st.integers(0, 60)), max_size=20))
def test_what_is_held_is_within_the_limit_and_all_of_it_comes_back(work: list[tuple[Any, int]]) -> None:
    budget, taken = Budget(100, small=0), []
    for kind, size in work:
        try:
            budget.take(kind, size)
            taken.append((kind, size))
        except (BodyTooLarge, MemoryBusy):
            pass
        assert sum(budget.held().values()) == sum(size for _, size in taken) <= 100
    for kind, size in taken:
        budget.give(kind, size)
    assert set(budget.held().values()) == {0}


def test_what_requests_hold_does_not_count_as_lasting() -> None:
    budget = Budget(100, small=0)
    budget.rest_on(20)
    budget.check_lasting(90)
    with pytest.raises(OutOfMemory, match="are in use"):
        budget.check_lasting(91)
    budget.take("bodies", 30)
    budget.check_lasting(91)
    assert sum(budget.held().values()) == 50


def test_what_is_small_is_served_whatever_is_held() -> None:
    budget = Budget(100, small=10)
    budget.take("predictions", 100)
    budget.take("bodies", 10)
    with pytest.raises(MemoryBusy):
        budget.take("bodies", 5, held_already=6)
    with pytest.raises(OutOfMemory):
        budget.take("jobs", 1)


def test_a_model_that_is_restored_is_held_whether_it_fits_or_not(caplog: pytest.LogCaptureFixture) -> None:
    budget = Budget(100)
    with caplog.at_level(logging.WARNING):
        budget.insist("big", 150)
    assert "big" in caplog.text
    assert budget.held()["models"] == 150
    with pytest.raises(OutOfMemory):
        budget.resize("big", 151)
    budget.resize("big", 60)
    budget.release("big")
    assert budget.held()["models"] == 0


def test_a_model_needs_more_with_every_example_feature_and_free_one() -> None:
    base = model_bytes(1000, 10, 100, 512)
    for more in ((1001, 10, 100, 512), (1000, 11, 100, 512), (1000, 10, 101, 512)):
        assert model_bytes(*more) > base
    assert model_bytes(10_000, 10, 100, 512) < model_bytes(10_000, 10, 100, 1024)
    assert model_bytes(50_000, 10, 50_000, 64) < 4 * 64 * MEGABYTE


def test_control_groups_bound_what_the_machine_gives(tmp_path: Path) -> None:
    machine = memory_bytes(tmp_path)
    assert machine > 2**28
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/a/b\n")
    group = tmp_path / "sys/fs/cgroup/a"
    (group / "b").mkdir(parents=True)
    (group / "b/memory.max").write_text("max\n")
    assert memory_bytes(tmp_path) == machine
    (group / "memory.max").write_text("268435456\n")
    assert memory_bytes(tmp_path) == 2**28
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/c\n3:cpu:/a\n")
    old = tmp_path / "sys/fs/cgroup/memory/c"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("134217728\n")
    assert memory_bytes(tmp_path) == 2**27
    assert 0 < resident_bytes() < memory_bytes()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("small"), memory_mb=SMALL_MB, max_body_bytes=2**26) as process:
        yield process


@pytest.fixture(scope="module")
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        yield client


def held(http: httpx.Client) -> dict[str, float]:
    lines = http.get("/metrics").text.splitlines()
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("livesvm_memory_held")}


def test_a_body_that_can_never_fit_is_refused_while_it_comes(http: httpx.Client) -> None:
    http.post("/models", json={"id": "any", "C": 1.0})
    pieces = (b" " * 2**20 for _ in range(2**26 // 2**20))
    largest = http.post("/models/any/predict", content=pieces, headers={"content-type": "application/json"})
    numbers = b'{"X":[[' + b"1," * (2**23) + b"1]]}"
    parsed = http.post("/models/any/predict", content=numbers, headers={"content-type": "application/json"})
    for answer in (largest, parsed):
        assert answer.status_code in (400, 413), answer.text
    assert parsed.json()["type"] == "urn:livesvm:problem:body-too-large"
    assert held(http)["bodies"] == 0


@pytest.mark.alone(reason="fills the memory of a process that has bodies and models in one")
def test_a_model_and_a_job_that_do_not_fit_are_refused_and_say_what_to_do(http: httpx.Client) -> None:
    before = held(http)["models"]
    http.post("/models", json={"id": "wide", "kernel": {"name": "linear"}})
    rows = np.eye(100, 10_000, dtype=np.float32)
    status, documents = 200, []
    for number in range(6):
        body = {"X": rows + number, "y": np.where(np.arange(100) % 2, 1, -1)}
        answer = http.post("/models/wide/update", content=npz(body), headers={"content-type": "application/x-npz"})
        status = answer.status_code
        if status != 200:
            documents.append(answer.json())
            break
    assert (status, documents[0]["type"]) == (507, "urn:livesvm:problem:out-of-memory")
    assert "models" in documents[0]["detail"]
    assert "LIVESVM_MEMORY_MB" in documents[0]["detail"]
    version = http.get("/models/wide").json()["version"]
    assert version == number > 0
    job = http.post("/models/wide/assessment", json={"method": "leave-one-out"})
    assert (job.status_code, job.json()["type"]) == (507, "urn:livesvm:problem:out-of-memory")
    assert held(http)["jobs"] == 0
    assert http.post("/models/wide/update", json={"remove": {"oldest": 1}}).status_code == 200
    assert http.delete("/models/wide").status_code == 204
    assert held(http)["models"] <= before  # others may have gone to rest to make space


def test_everything_is_given_back(http: httpx.Client) -> None:
    X, y = blobs(np.random.default_rng(0), 50)
    http.post("/models", json={"id": "small", "C": 1.0})
    for _ in range(3):
        http.post("/models/small/update", json={"add": {"X": X, "y": y}})
        http.post("/models/small/update", json={"add": {"X": X, "y": [2] * 50}})
        http.post("/models/small/predict", json={"X": X})
        http.post("/models/small/predict", content=b"{", headers={"content-type": "application/json"})
        http.post("/models/small/predict", content=json.dumps({"X": [[1.0]]}))
    now = held(http)
    assert [now[kind] for kind in ("jobs", "bodies", "updates", "predictions")] == [0, 0, 0, 0]
    assert now["base"] > 2**26
    text = http.get("/metrics").text
    assert f"livesvm_memory_budget_bytes {float(SMALL_MB * MEGABYTE)}".split()[0] in text


def npz(arrays: dict[str, Any]) -> bytes:
    import io

    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()
