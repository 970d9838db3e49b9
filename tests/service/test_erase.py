"""Erasing: nothing of an example remains, the model never knew it, and a receipt says so."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.access.keys import new_key
from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from livesvm.service.receipts.receipt import BadReceipt, names, verified
from livesvm.service.store.sqlite import DATABASE
from tests.service.process import ServiceProcess, blobs
from tests.support.erasing import KEYS, SPEC, Kept, data, keeping, lived, places, without
from tests.support.jobs_over_rest import awaited


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    with keeping(request.param, tmp_path) as found:
        yield found


def test_nothing_remains(kept: Kept) -> None:
    process, everything = kept
    gone = [KEYS[0], KEYS[1], KEYS[7], KEYS[33]]  # the first left before
    with process as service, service.http() as http:
        X, y = lived(http)
        assert all(places(everything(), indices, X[KEYS.index(indices)]) for indices in gone)
        before = http.get("/models/m").json()["version"]
        name = {"idempotency-key": "the-officer-1"}
        answer = http.post("/models/m/erase", json={"keys": gone}, headers=name)
        assert answer.status_code == 200, answer.text
        found = {indices: places(everything(), indices, X[KEYS.index(indices)]) for indices in gone}
        assert not any(found.values()), found
        reported = answer.json()
        assert (reported["version"], reported["removed"]) == (before + 1, 3)
        probe = data(30, seed=8)[0]
        decision = http.post("/models/m/predict", json={"X": probe}).json()["decision"]
        rival = without(X, y, KEYS, gone)
        np.testing.assert_allclose(decision, rival.decision_function(np.array(probe)), rtol=0, atol=1e-8)
        assert http.get("/jobs").json()["jobs"] == []
        assert reported["receipt"]["certificate"]["relative_gap"] <= 1e-8
        assert reported["receipt"]["places"]["datasets"].startswith("4 rows removed from theirs")
        assert http.get("/datasets/theirs").json()["n_examples"] == len(KEYS) - len(gone)
        # earlier versions are gone, and say why; the newest is there
        refused = http.post("/models/m/restore", json={"version": before})
        assert (refused.status_code, refused.json()["field"]) == (422, "version")
        assert "erased" in refused.json()["detail"]
        versions = http.get("/models/m/versions").json()
        assert versions["oldest"] == before + 1
        assert versions["erased_at"] is not None
        # others' requests are answered as before, theirs had their effect
        headers = {"idempotency-key": f"of {KEYS[10]}"}
        again = {"add": {"X": X[10:20], "y": y[10:20], "keys": KEYS[10:20]}}
        assert http.post("/models/m/update", json=again, headers=headers).json()["added"] == KEYS[10:20]
        theirs = http.post("/models/m/update", json={"decay": 0.9}, headers={"idempotency-key": f"of {KEYS[0]}"})
        assert (theirs.status_code, theirs.json()["type"]) == (409, "urn:livesvm:problem:request-erased")
        # sent again it is answered by the first receipt; asked again there is nothing left to erase
        replayed = http.post("/models/m/erase", json={"keys": gone}, headers=name)
        assert (replayed.json(), replayed.headers["idempotent-replayed"]) == (reported, "true")
        conflict = http.post("/models/m/erase", json={"keys": gone[:1]}, headers=name)
        assert (conflict.status_code, conflict.json()["type"]) == (409, "urn:livesvm:problem:idempotency-conflict")
        afresh = http.post("/models/m/erase", json={"keys": gone})
        assert (afresh.status_code, afresh.json()["type"]) == (404, "urn:livesvm:problem:nothing-to-erase")
        assert reported["receipt"]["receipt"] in afresh.json()["detail"]
        assert len(http.get("/receipts").json()["receipts"]) == 1
        http.post("/models/m/update", json={"add": {"X": [X[5]], "y": [y[5]], "keys": ["new"]}}).raise_for_status()
        service.kill()
    with process as service, service.http() as http:
        assert http.get("/models/m").json()["version"] == before + 2
        replayed = http.post("/models/m/erase", json={"keys": gone}, headers=name)
        assert (replayed.json(), replayed.headers["idempotent-replayed"]) == (reported, "true")
        theirs = http.post("/models/m/update", json={"decay": 0.9}, headers={"idempotency-key": f"of {KEYS[0]}"})
        assert theirs.status_code == 409
        found = {indices: places(everything(), indices, X[KEYS.index(indices)]) for indices in gone}
        assert not any(found.values()), found


@pytest.mark.alone(reason="looks into the embedded store of one process, and a Redis by its prefix")
def test_a_deleted_model_leaves_nothing_behind(kept: Kept, tmp_path: Path) -> None:
    process, everything = kept
    with process as service, service.http() as http:
        http.post("/models", json={"id": "stays", "C": 1.0}).raise_for_status()
        X, _ = lived(http)
        receipt = http.post("/models/m/erase", json={"keys": KEYS[:1]}).raise_for_status().json()["receipt"]["receipt"]
        job = http.post("/models/m/assessment", json={"method": "leave-one-out"}).json()["id"]
        awaited(http, job)
        size = sum(len(found) for name, found in everything().items() if name.startswith("livesvm.sqlite3"))
        http.delete("/models/m").raise_for_status()
        http.delete("/datasets/theirs").raise_for_status()
        here = {name: found for name, found in everything().items() if not name.startswith("redis/")}
        for indices, x in zip(KEYS, X, strict=True):
            assert places(here, indices, x) == set()
        assert not any(name.startswith("jobs/") for name in here)
        assert http.get("/jobs").json()["jobs"] == []
        assert [one["receipt"] for one in http.get("/receipts").json()["receipts"]] == [receipt]
        kinds = ("erased", "erasing")  # what was known of its erasures, but for the receipt
        if (database := tmp_path / "data" / DATABASE).exists():
            with closing(sqlite3.connect(database)) as db:
                assert db.execute("SELECT count(*) FROM documents WHERE kind IN (?, ?)", kinds).fetchone() == (0,)
        else:
            assert not any(kind.encode() + b":" in here["{livesvm}:documents"] for kind in kinds)
            assert not any(":m:m:" in name for name in here)
        after = sum(len(found) for name, found in here.items() if name.startswith("livesvm.sqlite3"))
        assert after < size or size == 0


def test_a_receipt_verifies_and_a_changed_byte_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, entry = new_key("the-officer", "admin")
    with ServiceProcess(tmp_path / "data", api_keys=entry) as service, Client(service.url, secret) as client:
        client.create_model(**SPEC)
        client.update("m", *data(), keys=KEYS)
        receipt = client.erase("m", [KEYS[3], KEYS[4]])["receipt"]
        assert [found["receipt"] for found in client.receipts()] == [receipt["receipt"]]
        assert client.verify_receipt(receipt) == {"verified": True, "is_own": True, "reason": None, "receipt": receipt}
        refused = client.verify_receipt(json.dumps(receipt).replace('"count": 2', '"count": 1').encode())
        assert (refused["verified"], refused["receipt"]) == (False, None)
        assert "signature" in refused["reason"]
        with pytest.raises(ServiceProblem):
            client.erase("nobody", ["k"])
        with service.http() as http:
            metrics = http.get("/metrics", headers={"authorization": f"Bearer {secret}"}).text
        for line in ('{outcome="done"} 1.0', '{outcome="unfinished"} 0.0'):
            assert f"livesvm_erasures_total{line}" in metrics
        assert "livesvm_erasure_seconds_count 1.0" in metrics
        assert "livesvm_erasures_unfinished 0.0" in metrics
        assert service.stop() == 0  # it has written its log
        log = service
    assert receipt["asked_by"] == "the-officer"
    assert (receipt["version_before"], receipt["version_after"], receipt["keys"]["in_window"]) == (1, 2, 2)
    assert names(receipt, KEYS[3])
    assert not names(receipt, KEYS[5])
    assert KEYS[3] not in log.errors
    assert '"asked": 2' in log.errors or "asked=2" in log.errors
    path = tmp_path / "data" / "receipts.key"
    assert path.stat().st_mode & 0o777 == 0o600
    for form in ({}, {"indent": 2}, {"separators": (",", ":")}):
        text = json.dumps(receipt, **form).encode()
        assert verified(text + b"\n") == receipt
        assert verified(text, receipt["public_key"]) == receipt
        for place in range(len(text)):
            for bit in (1, 32):
                changed = bytearray(text)
                changed[place] ^= bit
                with pytest.raises(BadReceipt):
                    verified(bytes(changed))
    with pytest.raises(BadReceipt):
        verified(text, "00" * 32)
    file = tmp_path / "receipt.json"
    file.write_bytes(text)
    assert main(["receipt", "verify", str(file), "--example", KEYS[3]]) == 0
    assert "2 keys erased in model m" in capsys.readouterr().out
    assert main(["receipt", "verify", str(file), "--example", "nobody"]) == 1
    file.write_bytes(text.replace(b'"count":2', b'"count":9'))
    assert main(["receipt", "verify", str(file)]) == 1
    assert "does not verify" in capsys.readouterr().err


def test_what_cannot_be_erased(http: httpx.Client) -> None:
    assert http.post("/models/nobody/erase", json={"keys": ["a"]}).status_code == 404
    http.post("/models", json={"id": "erase-refusals", "C": 1.0}).raise_for_status()
    bodies: list[dict[str, Any]] = [{}, {"keys": []}, {"keys": [1.5]}, {"keys": ["a", "a"]}, {"keys": ["a"], "more": 1}]
    for body in bodies:
        assert http.post("/models/erase-refusals/erase", json=body).status_code == 422, body
    assert http.post("/models/erase-refusals/erase", json={"keys": ["a", 7]}).status_code == 404
    assert http.post("/erase", json={"keys": ["nobody at all"]}).status_code == 404
    assert http.post("/erase", json={"tags": [7]}).status_code == 422
    http.delete("/models/erase-refusals").raise_for_status()


def test_a_key_that_was_never_there_changes_nothing(http: httpx.Client) -> None:
    """It has no receipt; among others it is named, and the requests of "person-1" are not those of "person-17"."""
    http.post("/models", json=SPEC | {"id": "erase-never"}).raise_for_status()
    X, y = data(6)
    for row in range(6):
        add = {"X": X[row : row + 1], "y": y[row : row + 1], "keys": [f"person-1{row}"]}
        name = {"idempotency-key": f"of person-1{row}"}
        http.post("/models/erase-never/update", json={"add": add}, headers=name).raise_for_status()
    job = awaited(http, http.post("/models/erase-never/assessment", json={"method": "leave-one-out"}).json()["id"])
    before = http.get("/models/erase-never/versions").json()
    for keys in (["person-1"], ["nobody", 3], ["1"]):
        answer = http.post("/models/erase-never/erase", json={"keys": keys})
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:livesvm:problem:nothing-to-erase"), keys
    assert http.get("/models/erase-never/versions").json() == before
    assert http.get(f"/jobs/{job['id']}").json() == job
    assert all(one["model"] != "erase-never" for one in http.get("/receipts").json()["receipts"])
    some = http.post("/models/erase-never/erase", json={"keys": ["nobody", "person-12", 3]}).raise_for_status().json()
    assert (some["removed"], some["not_found"]) == (1, ["nobody", 3])
    assert (some["receipt"]["keys"]["count"], len(some["receipt"]["keys"]["not_found"])) == (1, 2)
    assert names(some["receipt"], "person-12")
    assert not names(some["receipt"], "nobody")
    http.delete("/models/erase-never").raise_for_status()


@pytest.mark.alone(reason="elsewhere every update has a name, by which its answer is remembered, with keys in it")
def test_a_key_that_only_a_job_still_names_is_found(http: httpx.Client) -> None:
    spec = SPEC | {"id": "erase-jobs", "window": {"remember_keys": 0}}
    http.post("/models", json=spec).raise_for_status()
    X, y = data(6)
    http.post("/models/erase-jobs/update", json={"add": {"X": X, "y": y, "keys": KEYS[:6]}}).raise_for_status()
    job = awaited(http, http.post("/models/erase-jobs/assessment", json={"method": "leave-one-out"}).json()["id"])
    http.post("/models/erase-jobs/erase", json={"keys": KEYS[5:6]}).raise_for_status()
    assert http.get(f"/jobs/{job['id']}").status_code == 404
    job = awaited(http, http.post("/models/erase-jobs/assessment", json={"method": "leave-one-out"}).json()["id"])
    http.post("/models/erase-jobs/update", json={"remove": {"keys": KEYS[:1]}}).raise_for_status()
    for _ in range(2):  # of two snapshots, the log goes that is older
        http.post("/models/erase-jobs/update", json={"decay": 0.9}).raise_for_status()
        http.post("/models/erase-jobs/checkpoint").raise_for_status()
    before = http.get("/models/erase-jobs/versions").json()
    erased = http.post("/models/erase-jobs/erase", json={"keys": KEYS[:1]}).raise_for_status().json()
    assert (erased["removed"], erased["version"]) == (0, before["current"])
    assert http.get("/models/erase-jobs/versions").json() == before
    assert http.get(f"/jobs/{job['id']}").status_code == 404
    http.delete("/models/erase-jobs").raise_for_status()


def test_everybody_can_be_erased_and_the_model_goes_on(http: httpx.Client) -> None:
    http.post("/models", json=SPEC | {"id": "erase-all"}).raise_for_status()
    X, y = data(6)
    http.post("/models/erase-all/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    assert http.post("/models/erase-all/erase", json={"keys": [*range(6)]}).json()["removed"] == 6
    assert http.post("/models/erase-all/predict", json={"X": X}).status_code == 409
    more = http.post("/models/erase-all/update", json={"add": {"X": X, "y": y}}).json()
    assert (more["version"], more["added"]) == (3, [*range(6, 12)])
    http.delete("/models/erase-all").raise_for_status()


def test_the_last_training_of_a_large_window_is_made_again(http: httpx.Client) -> None:
    http.post("/models", json={"id": "erase-l2", "task": "l2svc", "kernel": SPEC["kernel"]}).raise_for_status()
    X, y = data()
    add = {"X": X, "y": y, "keys": KEYS}
    http.post("/models/erase-l2/update", json={"add": add}).raise_for_status()
    job = awaited(http, http.post("/models/erase-l2/retrain", json={}).json()["id"])
    http.post(f"/jobs/{job['id']}/apply", json={}).raise_for_status()
    http.post("/models/erase-l2/update", json={"remove": {"keys": KEYS[:3]}}).raise_for_status()
    http.post("/models/erase-l2/predict", json={"X": X}).raise_for_status()
    erased = http.post("/models/erase-l2/erase", json={"keys": KEYS[:1]}).raise_for_status().json()
    assert (erased["removed"], erased["version"], erased["datasets"]) == (0, 4, [])
    assert erased["receipt"]["certificate"]["relative_gap"] <= 0.1
    assert erased["receipt"]["places"]["training"].startswith("made again from nothing on the window without them")
    assert http.post("/models/erase-l2/predict", json={"X": X}).raise_for_status().json()["version"] == 4
    assert http.get("/models/erase-l2").json()["warnings"] == []
    http.delete("/models/erase-l2").raise_for_status()


def test_one_erasure_waits_for_another_and_predictions_for_none(tmp_path: Path) -> None:
    X, y = blobs(np.random.default_rng(5), 600, 5)
    keys = [f"k{number}" for number in range(600)]
    with ServiceProcess(tmp_path, solve_seconds=600) as service, service.http(120.0) as http:
        http.post("/models", json=SPEC).raise_for_status()
        http.post("/models/m/update", json={"add": {"X": X, "y": y, "keys": keys}}).raise_for_status()
        done = threading.Event()

        def predict() -> int:
            """Predict until the erasures are done; how often that was."""
            count = 0
            with service.http(120.0) as own:
                while not done.is_set():
                    own.post("/models/m/predict", json={"X": X[:2]}).raise_for_status()
                    count += 1
            return count

        def erase(first: int) -> int:
            return http.post("/models/m/erase", json={"keys": keys[first : first + 20]}).status_code

        with ThreadPoolExecutor(10) as pool:
            predicting = pool.submit(predict)
            statuses = list(pool.map(erase, range(0, 160, 20)))
            done.set()
            answered = predicting.result()
        assert set(statuses) <= {200, 429}
        assert statuses.count(200) >= 4  # as many as may wait
        assert answered > 0
        assert http.get("/models/m").json()["n_examples"] == 600 - 20 * statuses.count(200)
