"""Retraining over REST: what each solver finds, is swapped in whole, starts warm, and leaves others undisturbed."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import SVC

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.jobs import retraining_worker
from livesvm.service.models.spec import ModelSpec
from livesvm.solvers import FrankWolfeSVC
from livesvm.solvers.errors import InvalidInput
from tests.service.process import ServiceProcess, ServiceStartedAfresh
from tests.service.starts import WORKER
from tests.support.waiting import until

KERNEL = {"name": "rbf", "gamma": 0.5}


def data(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 - 1.0 + 0.3 * rng.normal(size=n) > 0, 1, -1)


X, Y = data(400)
Z = data(50, seed=1)[0]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("retraining")) as service:
        yield service


@pytest.fixture
def client(own: ServiceProcess) -> Iterator[Client]:
    with Client(own.url) as client:
        yield client
        for model in client.models():
            client.delete_model(model["id"])
        for found in client.datasets():
            client.delete_dataset(found["name"])


def slow(client: Client, model: str, C: float, seed: int, n: int = 3000) -> None:
    """Create a model of so many examples that its retraining takes its time."""
    rows, labels = data(n, seed)
    client.create_model(model, task="l2svc", C=C, kernel=KERNEL)
    client.update(model, rows, labels)


def retrained(client: Client, model: str, **asked: Any) -> dict[str, Any]:
    """Return the job of a retraining that was applied."""
    job = client.wait(client.retrain(model, **asked)["id"])
    client.apply(job["id"])
    return job


def refused(call: Any) -> tuple[int, str, str | None]:
    with pytest.raises(ServiceProblem) as caught:
        call()
    return caught.value.status, caught.value.type.rpartition(":")[2], caught.value.document.get("field")


def test_a_model_for_large_data_predicts_by_its_last_retraining(client: Client) -> None:
    client.create_model("m", task="l2svc", C=10.0, kernel=KERNEL)
    client.update("m", X, Y)
    assert refused(lambda: client.predict("m", Z)) == (409, "empty-model", None)
    job = retrained(client, "m", tol=0.01, hold_out=0.2)
    result = job["result"]
    assert result["relative_gap"] <= 0.01
    assert result["held_back"]["n_examples"] == 80
    assert result["held_back"]["accuracy"] == 1.0 - result["held_back"]["error"] > 0.8
    assert result["history"]["relative_gap"][-1] <= 0.01
    assert client.plot(job["id"]).startswith(b"<?xml")
    peer = FrankWolfeSVC(C=10.0, gamma=0.5, tol=1e-4).fit(X, Y)
    seen = client.predict("m", Z)
    assert np.abs(np.array(seen["decision"]) - peer.decision_function(Z) / peer.margin_[0]).max() < 0.1
    assert client.model("m")["n_examples"] == 400
    more, labels = data(40, seed=2)
    assert client.update("m", more, labels, remove={"oldest": 40})["n_examples"] == 400
    assert client.predict("m", Z)["decision"] == seen["decision"]
    cold = client.certificate("m")
    assert cold["relative_gap"] > 0.01  # the window has slid
    again = retrained(client, "m", tol=0.01)["result"]
    assert again["relative_gap"] <= 0.01
    assert client.certificate("m")["relative_gap"] <= 0.01
    assert client.predict("m", Z)["decision"] != seen["decision"]


WORDS = np.array(["ape", "bee", "cat"])


def words(n: int, seed: int) -> tuple[Any, Any]:
    """Return features (n, 2) and words (n,) of three classes."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(np.arange(n) % 3)
    return np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[places] + rng.normal(size=(n, 2)), WORDS[places]


def shown(client: Client, model: str) -> dict[Any, int]:
    return {one["label"]: one["n_examples"] for one in client.model(model)["classes"]}


def test_several_classes_of_any_labels_learn_a_window_and_a_dataset_and_outlive_a_kill(tmp_path: Path) -> None:
    rows, labels = words(120, 0)
    with ServiceProcess(tmp_path, max_classes=4) as service, Client(service.url) as client:
        client.create_model("m", task="l2svc", C=10.0, kernel=KERNEL)
        client.update("m", rows[:80], labels[:80])
        assert retrained(client, "m", tol=0.01, hold_out=0.25)["result"]["held_back"]["accuracy"] > 0.5
        found = client.predict("m", Z)
        peer = FrankWolfeSVC(C=10.0, gamma=0.5, tol=1e-4).fit(rows[:80], labels[:80])
        assert found["classes"] == WORDS.tolist()
        assert np.shape(found["decision"]) == (50, 3)
        assert np.mean(np.array(found["prediction"]) == peer.predict(Z)) > 0.95
        client.update("m", rows[80:], labels[80:], remove={"oldest": 20}, relabel={50: "dog"})
        known = dict(zip(*np.unique(np.append(np.delete(labels[20:], 30), "dog"), return_counts=True), strict=True))
        assert shown(client, "m") == known
        assert client.predict("m", Z)["decision"] == found["decision"]
        retrained(client, "m", tol=0.01, C=3.0)
        client.update("m", rows[:2] + 0.1, labels[:2], remove={"oldest": 2})
        before, proof, described = client.predict("m", Z), client.certificate("m"), client.model("m")
        assert before["classes"] == [*WORDS, "dog"]
        assert len(proof["pairs"]) == 6
        page = client.examples("m")["examples"]
        assert {len(one["coefficient"]) for one in page} == {3}
        for y, reason in (([1, 2], "as labels before"), (["eel", "fox"], "would make 6 classes, the limit is 4")):
            with pytest.raises(ServiceProblem, match=reason) as caught:
                client.update("m", rows[:2], y)
            assert (caught.value.status, caught.value.document["field"], caught.value.document["row"]) == (422, "y", 0)
        service.kill()
    with ServiceProcess(tmp_path, max_classes=4) as service, Client(service.url) as client:
        assert client.predict("m", Z) == before
        assert client.certificate("m")["relative_gap"] == pytest.approx(proof["relative_gap"])
        assert {**client.model("m"), "recovery": None} == {**described, "recovery": None}
        assert described["C"] == 3.0
        client.restore("m", 2)
        assert client.predict("m", Z)["decision"] == found["decision"]
        client.create_model("numbers", task="l2svc", C=10.0, kernel=KERNEL, decision_function_shape="ovo")
        codes = np.searchsorted(WORDS, labels) * 3
        assert client.put_dataset("d", npz(rows, codes), "npz")["labels"] == [0.0, 3.0, 6.0]
        assert client.put_dataset("words", npz(rows, labels), "npz")["labels"] == WORDS.tolist()
        retrained(client, "numbers", dataset="d", tol=0.01)
        answer = client.predict("numbers", Z)
        assert (answer["classes"], answer["pairs"]) == ([0, 3, 6], [[0, 3], [0, 6], [3, 6]])
        peer = FrankWolfeSVC(C=10.0, gamma=0.5, tol=1e-4).fit(rows, codes)
        assert np.mean(np.array(answer["prediction"]) == peer.predict(Z)) > 0.95
        assert shown(client, "numbers") == {0: 0, 3: 0, 6: 0}
        assert retrained(client, "m", dataset="words", tol=0.01)["result"]["n_examples"] == 120
        assert client.predict("m", Z)["classes"] == WORDS.tolist()


@pytest.mark.parametrize(
    ("y", "known", "row", "reason"),
    [
        ([1.0, 2.0, 2.5], [], 2, "a whole number"),
        ([1.0, 2.0], ["ape"], 0, "1 is no string, as labels before are"),
        (["ape", "bee"], [1], 0, "'ape' is a string, as no label before is"),
        (["ape", "bee", "cat"], [], None, "has 3 classes, the limit is 2"),
        (["ape", "bee", "Ape "], [], 2, "'Ape ' is not one of 'ape', 'bee', 'cat'; did you mean 'ape'"),
    ],
)
def test_labels_of_a_dataset_are_checked(y: list[Any], known: list[Any], row: int | None, reason: str) -> None:
    closed = None if "cat" in y or y[0] != "ape" else ["ape", "bee", "cat"]
    work: Any = SimpleNamespace(asked={"dataset": {"most_classes": 2}}, spec=ModelSpec(task="l2svc", labels=closed))
    with pytest.raises(InvalidInput, match=reason) as caught:
        retraining_worker.checked_labels(work, np.array(y), np.array(known))
    assert (caught.value.field, caught.value.row) == ("dataset", row)


def test_the_engine_from_nothing_with_another_kernel(client: Client) -> None:
    client.create_model("m", C=1.0, kernel=KERNEL)
    client.update("m", X[:200], Y[:200])
    job = client.wait(client.retrain("m", kernel={"name": "rbf", "gamma": 2.0}, C=5.0, hold_out=0.25)["id"])
    assert job["result"]["held_back"]["n_examples"] == 50
    client.update("m", X[200:230], Y[200:230], remove={"oldest": 30}, relabel={40: -int(Y[40])})
    answer = client.apply(job["id"])
    assert answer["changed"] == 61
    labels = Y[30:230].copy()
    labels[10] *= -1
    peer = SVC(C=5.0, gamma=2.0, tol=1e-8).fit(X[30:230], labels)
    found = client.predict("m", Z)["decision"]
    assert np.abs(np.array(found) - peer.decision_function(Z)).max() < 1e-4
    described = client.model("m")
    assert (described["kernel"]["gamma"], described["C"], described["n_examples"]) == (2.0, 5.0, 200)
    assert client.certificate("m")["relative_gap"] < 1e-8
    assert client.update("m", remove={"oldest": 1})["relative_gap"] < 1e-8


def test_usmo_on_the_window_of_a_live_model(client: Client) -> None:
    s = np.where((Y > 0) & (np.arange(400) % 3 == 0), 1, 0)
    client.create_model("p", task="pu", prior=0.5, lam=0.01, kernel=KERNEL)
    client.update("p", X, s)
    before = client.predict("p", Z)
    job = retrained(client, "p", hold_out=0.2)
    assert job["result"]["solver"] == "usmo"
    assert job["result"]["by_usmo"]["relative_gap"] < 1e-5
    assert job["result"]["relative_gap"] < 1e-8
    assert len(job["result"]["history"]["seconds"]) >= 1
    after = client.predict("p", Z)
    assert after["version"] == before["version"] + 1
    assert np.abs(np.array(after["decision"]) - before["decision"]).max() < 1e-5  # it was optimal already
    assert client.update("p", remove={"oldest": 3})["relative_gap"] < 1e-8


def test_a_dataset_may_be_sparse_and_takes_the_window_s_place_as_teacher(client: Client) -> None:
    rng = np.random.default_rng(3)
    A = sparse.random_array((600, 300), density=0.02, format="csr", rng=rng)
    y = np.where(A.sum(axis=1) + 0.2 * rng.normal(size=600) > 3, 1.0, -1.0)
    out = io.BytesIO()
    np.savez(out, data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape, y=y)
    client.put_dataset("d", out.getvalue(), "npz")
    client.create_model("m", task="l2svc", C=10.0, kernel=KERNEL)
    job = retrained(client, "m", dataset="d", tol=0.01, hold_out=0.1)
    assert job["result"]["held_back"]["n_examples"] == 60
    rows = A[:20].toarray()
    peer = FrankWolfeSVC(C=10.0, gamma=0.5, tol=1e-4).fit(A, y)
    found = np.array(client.predict("m", rows)["decision"])
    assert np.abs(found - peer.decision_function(rows) / peer.margin_[0]).max() < 0.1
    assert client.model("m")["n_features"] == 300


@pytest.mark.parametrize("share", [0.3, 0.4, 0.5])
def test_as_many_are_held_back_as_was_asked_whatever_their_order(share: float) -> None:
    work: Any = SimpleNamespace(asked={"hold_out": share})
    held = retraining_worker.Work.held_back(work, 300)
    assert np.count_nonzero(held) == round(300 * share)
    for part in (held[::2], held[:150]):  # every other example, say, is of one class, or the first half
        assert part.mean() == pytest.approx(share, abs=0.1)


def test_what_cannot_be_done_is_said(client: Client) -> None:
    client.create_model("l", task="l2svc", C=10.0, kernel=KERNEL)
    client.create_model("s", kernel=KERNEL)
    assert refused(lambda: client.retrain("l")) == (409, "empty-model", None)
    assert refused(lambda: client.retrain("s", "fw")) == (422, "invalid-input", "solver")
    with pytest.raises(ServiceProblem, match=r"these are: auto, fw, mfw$"):
        client.retrain("l", "batch")
    assert refused(lambda: client.retrain("s", dataset="d")) == (422, "invalid-input", "dataset")
    assert refused(lambda: client.retrain("l", dataset="d")) == (404, "unknown-dataset", None)
    for C in (0.0, -1.0):
        assert refused(lambda C=C: client.retrain("l", C=C)) == (422, "invalid-input", "C")
        assert refused(lambda C=C: client.create_model("c", task="l2svc", C=C)) == (422, "invalid-input", "C")
    client.update("l", X[:30], np.ones(30))
    assert refused(lambda: client.wait(client.retrain("l")["id"])) == (422, "invalid-input", "y")
    assert refused(lambda: client.assess("l")) == (409, "not-applicable", None)
    client.put_dataset("wide", b"1,2,3,1\n3,4,5,-1\n", "csv")
    assert refused(lambda: client.wait(client.retrain("l", dataset="wide")["id"])) == (422, "invalid-input", "dataset")
    one = client.put_dataset("one", b"1,2,1\n3,4,1\n", "csv")
    assert one["labels"] == [1.0]
    assert refused(lambda: client.wait(client.retrain("l", dataset="one")["id"])) == (422, "invalid-input", "y")


def test_a_dataset_that_goes_under_a_job(client: Client) -> None:
    slow(client, "slow", C=1e4, seed=4)
    client.put_dataset("d", b"1,2,1\n3,4,-1\n", "csv")
    first = client.retrain("slow", tol=1e-9)["id"]
    of_the_old = client.retrain("slow", dataset="d")["id"]
    client.put_dataset("d", b"1,2,1\n3,5,-1\n", "csv")
    of_the_new = client.retrain("slow", dataset="d")["id"]
    client.delete_dataset("d")
    client.cancel(first)
    for job in (of_the_old, of_the_new):
        assert refused(lambda job=job: client.wait(job))[:2] == (404, "unknown-dataset")
        assert "was deleted since" in client.job(job)["error"]["detail"]
    assert client.wait(first)["state"] == "cancelled"


def workers(service: ServiceProcess) -> set[int]:
    """Return processes of their own that a service has started, itself or by what forks them for it."""
    parents, found = {}, set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (entry / "stat").read_text().rpartition(")")
            parents[int(entry.name)] = int(rest.split()[1])
            if name.endswith(f"({WORKER}") or b"subprocess_worker" in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))

    def is_of(process: int) -> bool:
        return process == service.pid or (process in parents and is_of(parents[process]))

    return {process for process in found if is_of(process)}


def running(client: Client, service: ServiceProcess, job: str) -> int:
    """Return the process that works on a job, once it has reported how far it is."""
    until(lambda: client.job(job).get("total"))
    (worker,) = workers(service)
    return worker


def is_gone(process: int) -> bool:
    """Return whether a process ends, be it that what has to ask for its status does so late."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_worker_that_is_killed_or_cancelled_leaves_the_old_model(own: ServiceProcess, client: Client) -> None:
    slow(client, "m", C=1.0, seed=6)
    retrained(client, "m")
    before = client.predict("m", Z)
    job = client.retrain("m", C=1e6, tol=1e-10)["id"]
    os.kill(running(client, own, job), signal.SIGKILL)
    assert refused(lambda: client.wait(job))[:2] == (503, "worker-lost")
    job = client.retrain("m", C=1e6, tol=1e-10)["id"]
    worker = running(client, own, job)
    client.cancel(job)
    assert client.wait(job)["state"] == "cancelled"
    assert is_gone(worker)
    assert client.predict("m", Z) == before
    assert not list((own.data_dir / "jobs").glob(f"{job}.files"))


def test_a_dataset_that_is_deleted_while_it_is_learnt_is_learnt_to_the_end(own: ServiceProcess, client: Client) -> None:
    slow_X, slow_Y = data(3000, seed=9)
    rows = np.column_stack([slow_X, slow_Y])
    client.put_dataset("d", "\n".join(",".join(map(str, row)) for row in rows.tolist()).encode(), "csv")
    client.create_model("m", task="l2svc", C=100.0, kernel=KERNEL)
    job = client.retrain("m", dataset="d", tol=1e-5)["id"]
    worker = running(client, own, job)
    os.kill(worker, signal.SIGSTOP)
    client.delete_dataset("d")
    assert not list((own.data_dir / "datasets").iterdir())
    assert client.job(job)["state"] == "running"
    os.kill(worker, signal.SIGCONT)
    found = client.wait(job)
    assert (found["state"], found["result"]["n_examples"]) == ("done", len(slow_X))
    assert found["result"]["relative_gap"] <= 1e-5
    assert client.apply(job)["version"] == 1
    assert client.predict("m", Z)["version"] == 1


def test_others_go_on_and_a_kill_in_the_middle_leaves_the_old_model(tmp_path: Path) -> None:
    with ServiceStartedAfresh(tmp_path) as service, Client(service.url, patience=0) as client:
        slow(client, "m", C=1.0, seed=5)
        client.create_model("other", kernel=KERNEL)
        client.update("other", X[:50], Y[:50])
        retrained(client, "m")
        before = client.predict("m", Z)
        job = client.retrain("m", C=1e6, tol=1e-10)["id"]
        answered, failed = [0], list[Exception]()
        stop = threading.Event()

        def ask() -> None:
            """Predict again and again."""
            with Client(service.url, patience=0) as asking:
                while not stop.is_set():
                    try:
                        assert asking.predict("m", Z)["decision"] == before["decision"]
                        answered[0] += 1
                    except Exception as error:
                        failed.append(error)
                    time.sleep(0.01)

        thread = threading.Thread(target=ask)
        thread.start()
        worker = running(client, service, job)
        updates = [client.update("other", X[i : i + 1], Y[i : i + 1], remove={"oldest": 1}) for i in range(50, 70)]
        assert len(updates) == 20
        assert client.job(job)["state"] == "running"
        stop.set()
        thread.join()
        assert answered[0] > 0
        assert failed == []
        service.kill()
        assert is_gone(worker)
    with ServiceProcess(tmp_path) as again, Client(again.url) as client:
        assert client.predict("m", Z)["decision"] == before["decision"]
        assert client.job(job)["state"] == "failed"
        assert refused(lambda: client.apply(job)) == (409, "job-not-done", None)


def npz(X: Any, y: Any, **members: Any) -> bytes:
    """Return a dataset, dense or sparse."""
    out = io.BytesIO()
    features = {"X": X}
    if sparse.issparse(X):
        features = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(out, **features, y=y, **members)
    return out.getvalue()


@pytest.mark.parametrize(
    ("solver", "teacher"), [("auto", "window"), ("auto", "dataset"), ("fw", "dataset"), ("mfw", "window")]
)
def test_each_solver_learns_a_window_and_a_dataset_with_new_parameters(
    solver: str, teacher: str, client: Client
) -> None:
    client.create_model("m", task="l2svc", C=10.0, kernel=KERNEL)
    client.update("m", X, Y)
    asked: dict[str, Any] = {}
    rows, labels = (X, Y) if teacher == "window" else data(300, seed=7)
    if teacher == "dataset":
        client.put_dataset("d", npz(rows, labels), "npz")
        asked["dataset"] = "d"
    kernel = {"name": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0}
    job = retrained(client, "m", solver=solver, kernel=kernel, C=0.5, tol=0.02, hold_out=0.2, **asked)
    result = job["result"]
    assert result["solver"] == ("blocks" if solver == "auto" else solver)
    assert (result["n_examples"], result["held_back"]["n_examples"]) == (len(rows), len(rows) // 5)
    assert result["held_back"]["accuracy"] > 0.85
    assert result["relative_gap"] <= 0.02
    assert client.plot(job["id"], "png").startswith(b"\x89PNG")
    peer = FrankWolfeSVC(C=0.5, kernel="poly", gamma=0.3, degree=2, coef0=1.0, tol=1e-4).fit(rows, labels)
    found = np.array(client.predict("m", Z)["decision"])
    assert np.abs(found - peer.decision_function(Z) / peer.margin_[0]).max() < 0.2
    described = client.model("m")
    assert described["C"] == 0.5
    assert {name: described["kernel"][name] for name in kernel} == kernel
    assert described["n_examples"] == len(X)


@pytest.mark.parametrize("solver", ["auto", "mfw"])
def test_a_solver_shows_its_gap_while_it_runs_and_can_be_cancelled(
    solver: str, own: ServiceProcess, client: Client
) -> None:
    slow(client, "m", C=1.0, n=20_000, seed=8)
    job = client.retrain("m", solver, C=1e7, tol=1e-11)["id"]
    worker, shown = running(client, own, job), b""
    end = time.monotonic() + 120
    while not shown:
        assert time.monotonic() < end
        os.kill(worker, signal.SIGSTOP)  # it does not end while it is looked at
        with suppress(ServiceProblem):  # until the first gap is known
            shown = client.plot(job)
        assert client.job(job)["state"] == "running"
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.05)
    assert b"so far" in shown
    client.cancel(job)
    assert client.wait(job)["state"] == "cancelled"
    assert refused(lambda: client.plot(job)) == (409, "job-not-done", None)
    assert refused(lambda: client.apply(job)) == (409, "job-not-done", None)
    assert client.model("m")["C"] == 1.0


def test_neither_a_gap_that_is_not_reached_nor_a_kernel_that_is_not_positive_has_a_result(client: Client) -> None:
    client.create_model("m", task="l2svc", C=10.0, kernel=KERNEL)
    client.update("m", X, Y)
    retrained(client, "m")
    before = client.predict("m", Z)
    job = client.retrain("m", tol=1e-12, C=1e8)["id"]
    assert refused(lambda: client.wait(job))[:2] == (422, "not-optimal")
    assert "the relative gap is" in client.job(job)["error"]["detail"]
    job = client.retrain("m", kernel={"name": "sigmoid", "gamma": 0.5})["id"]
    assert refused(lambda: client.wait(job)) == (422, "not-positive-semidefinite", "kernel")
    assert client.predict("m", Z) == before


def test_the_datasets_of_another_machine_are_refused_by_name(own: ServiceProcess, client: Client) -> None:
    client.create_model("m", task="l2svc", C=10.0, kernel=KERNEL)
    found = client.put_dataset("d", npz(X, Y), "npz")
    assert found["is_here"]
    retrained(client, "m", dataset="d")
    before = client.predict("m", Z)
    slow(client, "slow", C=1.0, seed=9)
    first, waiting = client.retrain("slow", C=1e7, tol=1e-11)["id"], client.retrain("m", dataset="d")["id"]
    (directory,) = (own.data_dir / "datasets").iterdir()
    directory.rename(own.data_dir / "elsewhere")  # as a service that has taken over from the one that took the upload
    assert not client.dataset("d")["is_here"]
    assert refused(lambda: client.retrain("m", dataset="d")) == (409, "dataset-elsewhere", None)
    client.cancel(first)
    assert refused(lambda: client.wait(waiting)) == (409, "dataset-elsewhere", None)
    assert "dataset d is not in" in client.job(waiting)["error"]["detail"]
    assert client.predict("m", Z) == before  # what was learnt is in the store
    assert client.put_dataset("d", npz(X, Y), "npz")["is_here"]


def peak_memory(process: int) -> int:
    """Return bytes that a process had in memory at most."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def test_eight_thousand_sparse_features_are_never_written_out(tmp_path: Path) -> None:
    n, width = 20_000, 8000
    rng = np.random.default_rng(10)
    y = np.where(rng.random(n) > 0.5, 1.0, -1.0)
    others = sparse.random_array((n, width - 1), density=1e-3, format="csr", rng=rng)
    A = sparse.hstack([sparse.csr_array((y + 0.5 * rng.normal(size=n))[:, None]), others], format="csr")
    with ServiceProcess(tmp_path, cache_mb=64, max_features=width) as service, Client(service.url) as client:
        before = peak_memory(service.pid)
        text = io.BytesIO()
        dump_svmlight_file(A, y, text, zero_based=False)
        found = client.put_dataset("d", text.getvalue(), "svmlight")
        assert (found["is_sparse"], found["n_features"]) == (True, width)
        client.create_model("m", task="l2svc", C=0.01, kernel={"name": "linear"})
        job = retrained(client, "m", dataset="d", tol=1.0)  # its process has no space for 1.3 GB
        assert job["result"]["n_support"] > 1000
        rows = A[:3].toarray()
        decisions = np.array(client.predict("m", rows)["decision"])
        assert (np.sign(decisions) == y[:3]).all()
        many = np.array(client.predict("m", A[:500])["decision"])
        np.testing.assert_allclose(many[:3], decisions, rtol=1e-12)
        client.checkpoint("m")
        assert peak_memory(service.pid) - before < 1e8
        service.kill()
    with ServiceProcess(tmp_path, cache_mb=64, max_features=width) as service, Client(service.url) as client:
        assert client.predict("m", rows)["decision"] == decisions.tolist()
