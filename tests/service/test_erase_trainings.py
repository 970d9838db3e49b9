"""An erasure finds what a large window was trained on: examples that left it, rows of datasets, files of jobs."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.datasets import catalogue
from livesvm.service.datasets.catalogue import UploadFormat
from livesvm.service.datasets.parsing import parse
from livesvm.service.errors import EmptyModel, NothingToErase
from livesvm.service.hosting.handle import ModelHandle
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.what_if import WhatIfQuestion, what_if
from livesvm.service.jobs import retraining
from livesvm.service.jobs.files import JobRecord
from livesvm.service.jobs.retraining import RetrainRequest
from livesvm.service.jobs.retraining_worker import retrain
from livesvm.service.lifecycle.erasures import RETRAINING, ErasureRequest
from livesvm.service.lifecycle.parts import Service
from livesvm.service.lifecycle.search import Sought
from livesvm.service.models.commands import Removal
from livesvm.service.models.spec import ModelSpec
from livesvm.service.receipts.receipt import hashed, verified
from livesvm.service.resources.compiling import Compiling
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, StoreDamaged, StoreUnavailable
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.models.change import Batch, Change
from tests.support.erasing import bytes_of_directory, intent_of, traces
from tests.support.live_models import predicted
from tests.support.waiting import PATIENCE, until

N = 40
RNG = np.random.default_rng(7)
Y = np.where(np.arange(N) % 2, 1.0, -1.0)
X = RNG.normal(size=(N, 2)) * 0.7 + Y[:, None] * 0.4
PROBE = RNG.normal(size=(15, 2))
PEOPLE = [f"person-{number:02d}" for number in range(N)]
GONE = 3
ASKED = ErasureRequest("officer", None, "")
SOLVERS = {"auto": 1e-6, "fw": 1e-3, "mfw": 1e-6}
"""With the gap that each is asked for; the steps of `fw` get no nearer in reasonable time."""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that does the work of jobs and uploads here, in place of processes of their own."""
    monkeypatch.setattr(catalogue, "run_beside", lambda _work, asked, tell, _check: parse(asked, tell))
    monkeypatch.setattr(retraining, "run_beside", lambda _work, asked, tell, _check: retrain(asked, tell))
    monkeypatch.setattr(Compiling, "left", lambda _: ())
    made = Service(Settings(data_dir=tmp_path, snapshot_updates=1, compile_ahead=False))
    made.hosting.restore()
    made.health.restored()
    yield made
    made.close()


def uploaded(service: Service, people: list[str], name: str = "d", rows: slice = slice(N)) -> None:
    data = io.BytesIO()
    np.savez(data, X=X[rows], y=Y[rows], keys=np.array(people[rows]))
    put(service, name, data.getvalue())


def put(service: Service, name: str, data: bytes) -> None:
    upload = service.datasets.begin(name)
    upload.write(data)
    service.datasets.finish(upload, name, UploadFormat("npz"), None)


def model(service: Service, id: str = "m", gamma: Any = 0.5) -> HostedModel:
    spec = ModelSpec.model_validate({"id": id, "task": "l2svc", "C": 3.0, "kernel": {"name": "rbf", "gamma": gamma}})
    service.hosting.models.create(id, spec)
    return service.hosting.models.get(id)  # type: ignore[return-value]


def learn(live: HostedModel, keys: list[Any], tags: list[list[str]] | None = None, rows: slice = slice(N)) -> None:
    live.update(Change(Batch(X[rows], Y[rows], keys[rows], tags=None if tags is None else tags[rows])), None).result()


def trained(service: Service, live: HostedModel, *, applied: bool = True, **asked: Any) -> JobRecord:
    asked = {"solver": "auto"} | asked
    record = service.jobs.ask("retrain", live, RetrainRequest(tol=SOLVERS[asked["solver"]], **asked))
    wait(service, record.id)
    if applied:
        _, found = service.jobs.update_of(record.id, {})
        live.swap(found, None).result()
    return record


def trained_on_a_dataset(service: Service, **asked: Any) -> HostedModel:
    uploaded(service, PEOPLE)
    live = model(service)
    trained(service, live, dataset="d", **asked)
    return live


def wait(service: Service, job: str) -> None:
    turn = service.jobs._under_way.get(job)
    if turn is not None:
        turn.result()
    assert service.jobs.get(job).state == "done", service.jobs.get(job)


def retrained(live: ModelHandle) -> None:
    """Wait until the result of the job that an erasure has asked for is applied."""
    until(lambda: not live.describe().warnings)


def rival(gone: list[int], gamma: Any = 0.5) -> np.ndarray:
    """Return decisions of a model that never knew these."""
    stay = [place for place in range(N) if place not in gone]
    made = LiveL2SVC(C=3.0, gamma=gamma)
    made.update(add=(X[stay], Y[stay]))
    made.retrain(tol=1e-6)
    return np.asarray(made.predictor().decision_function(PROBE))


def check_gone(directory: Path, places: list[int], people: list[str] = PEOPLE) -> None:
    found = {
        (place, what, where)
        for place in places
        for what, trace in traces(people[place], X[place].tolist()).items()
        for where, data in bytes_of_directory(directory).items()
        if trace in data
    }
    assert not found


def check_there(directory: Path, place: int) -> None:
    row = X[place].tobytes()
    assert any(row in data for data in bytes_of_directory(directory).values())


@pytest.mark.parametrize("by", ["key", "tag"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_model_is_retrained_on_what_is_left_of_its_window(
    solver: str, by: str, service: Service, tmp_path: Path
) -> None:
    """Of examples that are in the window, and of one that has left it and is still a support vector."""
    live = model(service, gamma="scale")
    learn(live, PEOPLE, [[f"tag of {one}"] for one in PEOPLE])
    trained(service, live, solver=solver)
    left = next(place for place in range(4, N) if live.current.estimator.window_is_free[place])
    live.update(Change(remove=Removal(keys=[PEOPLE[left]])), None).result()
    for _ in range(4):  # so that no older snapshot nor the log names it
        live.update(Change(remove=Removal(oldest=0)), None).result()
        live.checkpoint().result()
    gone = [GONE, left]
    names = tuple(PEOPLE[place] if by == "key" else f"tag of {PEOPLE[place]}" for place in gone)
    asked = Sought(names) if by == "key" else Sought((), names)
    receipt = service.erasures.erase("m", asked, ASKED).receipt
    assert receipt["keys"]["not_found"] == []
    assert receipt["places"]["training"].startswith("made again from nothing on the window without them")
    assert receipt["certificate"]["relative_gap"] <= SOLVERS[solver]
    scale = 1.0 / (2 * np.delete(X, gone, 0).var())
    np.testing.assert_allclose(
        predicted(live, PROBE).decision, rival(gone, scale), atol=0.1 if solver == "fw" else 1e-2
    )
    check_gone(tmp_path, gone)
    with pytest.raises(NothingToErase):
        service.erasures.erase("m", asked, ASKED)


@pytest.mark.parametrize("by", ["key", "tag"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_model_is_retrained_on_what_is_left_of_a_dataset(
    everywhere: bool, solver: str, by: str, service: Service, tmp_path: Path
) -> None:
    live = trained_on_a_dataset(service, solver=solver)
    asked = Sought((PEOPLE[GONE],)) if by == "key" else Sought((), (PEOPLE[GONE],))
    erasures = service.erasures
    receipt = (erasures.erase_everywhere(asked, ASKED) if everywhere else erasures.erase("m", asked, ASKED)).receipt
    part = receipt["parts"][0] if everywhere else receipt
    assert part["model"] == "m"
    assert "its training on dataset d held rows that were erased" in part["places"]["training"]
    assert receipt["datasets"] == [{"name": "d", "rows": 1}]
    assert part["certificate"] is None
    retrained(live)
    np.testing.assert_allclose(predicted(live, PROBE).decision, rival([GONE]), atol=0.1 if solver == "fw" else 1e-2)
    assert live.describe().warnings == []
    check_gone(tmp_path, [GONE])


@pytest.mark.parametrize("by", ["key", "tag"])
@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_rows_are_found_in_a_training_whose_dataset_is_gone(
    fate: str, by: str, service: Service, tmp_path: Path
) -> None:
    """The support vectors are known by what stood for their keys; no job can retrain on what is gone."""
    live = trained_on_a_dataset(service)
    if fate == "deleted":
        service.datasets.delete("d")
    else:
        uploaded(service, PEOPLE, rows=slice(10, N))
    held = LiveL2SVC(C=3.0, gamma=0.5)
    held.update(add=(X, Y))
    held.retrain(tol=1e-6)
    gone = int(np.flatnonzero(held.window_is_free[:10])[0])
    check_there(tmp_path, gone)
    asked = Sought((PEOPLE[gone],)) if by == "key" else Sought((), (PEOPLE[gone],))
    receipt = service.erasures.erase_everywhere(asked, ASKED).receipt
    said = receipt["parts"][0]["places"]["training"]
    assert "its training on dataset d held rows that were erased" in said
    assert receipt["parts"][0]["certificate"] is None
    if fate == "replaced":
        retrained(live)
    else:
        assert "no job retrains it: there is no dataset 'd'" in said
        assert [one["name"] for one in live.describe().warnings] == ["untrained"]
        with pytest.raises(EmptyModel):
            predicted(live, PROBE)
        assert service.health.degraded() == ["model m has no training since an erasure: retrain it"]
        learn(live, PEOPLE, rows=slice(10, N))
        trained(service, live)
    assert service.health.degraded() == []
    check_gone(tmp_path, [gone])


def test_what_a_job_has_found_goes_too_where_it_was_not_applied(service: Service, tmp_path: Path) -> None:
    """On a dataset that is deleted meanwhile, and on a window that an example has left meanwhile."""
    uploaded(service, PEOPLE)
    of_rows, of_window = model(service, "r"), model(service, "w")
    trained(service, of_rows, applied=False, dataset="d")
    service.datasets.delete("d")
    learn(of_window, PEOPLE)
    trained(service, of_window, applied=False)
    for place in range(N):
        of_window.update(Change(remove=Removal(keys=[PEOPLE[place]])), None).result()
    of_window.checkpoint().result()
    check_there(tmp_path, GONE)
    service.erasures.erase_everywhere(Sought((PEOPLE[GONE],)), ASKED)
    check_gone(tmp_path, [GONE])


@pytest.mark.parametrize("by", ["key", "tag"])
def test_a_job_that_works_on_a_copy_ends_with_what_it_knows(
    by: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an example that has left the model, and its history, since the job began."""
    begun = threading.Event()

    def endless(_work: str, asked: dict[str, Any], tell: Any, check: Any) -> None:
        begun.set()
        while True:
            check()
            time.sleep(0.01)

    monkeypatch.setattr(retraining, "run_beside", endless)
    live = model(service)
    learn(live, PEOPLE, [[f"tag of {one}"] for one in PEOPLE])
    service.jobs.ask("retrain", live, RetrainRequest())
    assert begun.wait(PATIENCE)
    live.update(Change(remove=Removal(keys=[PEOPLE[GONE]])), None).result()
    for _ in range(4):
        live.update(Change(remove=Removal(oldest=0)), None).result()
        live.checkpoint().result()
    asked = Sought((PEOPLE[GONE],)) if by == "key" else Sought((), (f"tag of {PEOPLE[GONE]}",))
    receipt = service.erasures.erase_everywhere(asked, ASKED).receipt
    assert [part["model"] for part in receipt["parts"]] == ["m"]
    assert service.jobs.all() == []
    check_gone(tmp_path, [GONE])


def test_what_cannot_be_searched_is_said(service: Service) -> None:
    """A training on a dataset without keys; in the receipt, and where nothing was found."""
    live = model(service)
    data = io.BytesIO()
    np.savez(data, X=X, y=Y)
    put(service, "unnamed", data.getvalue())
    trained(service, live, dataset="unnamed")
    service.datasets.delete("unnamed")
    with pytest.raises(NothingToErase, match=r"not searched.*the training of model m \(dataset unnamed\)"):
        service.erasures.erase_everywhere(Sought(("somebody",)), ASKED)
    other = model(service, "other")
    learn(other, PEOPLE)
    receipt = service.erasures.erase_everywhere(Sought((PEOPLE[GONE],)), ASKED).receipt
    assert receipt["places"]["trainings"].endswith("model m (dataset unnamed)")
    assert verified(json.dumps(receipt).encode()) == receipt
    assert predicted(live, PROBE).decision.size == len(PROBE)


def test_a_damaged_note_of_a_retraining_keeps_no_erasure_from_its_end(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service.store.put_document(DocumentName(RETRAINING, "m"), b"")

    def damaged(at: DocumentName) -> bytes:
        raise StoreDamaged(f"document {at.name} does not match its checksum")

    monkeypatch.setattr(service.store, "document", damaged)
    service.erasures.finish()
    assert list(service.store.documents(RETRAINING)) == []
    assert "model m may be untrained since an erasure" in caplog.text
    assert "not ended yet" not in caplog.text


@pytest.mark.parametrize("has_dataset", [True, False])
def test_after_a_restart_it_is_known_what_an_erasure_left_untrained(
    has_dataset: bool, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is asked for again, and what it finds is applied; without its dataset the model is named on."""
    trained_on_a_dataset(service)
    with monkeypatch.context() as stopped:  # before the job has ended
        stopped.setattr(service.jobs, "when_ended", lambda *_: None)
        if not has_dataset:
            service.datasets.delete("d")
        service.erasures.erase_everywhere(Sought((PEOPLE[GONE],)), ASKED)
        service.close()
    monkeypatch.setattr(service, "close", lambda: None)
    again = Service(service.settings)
    try:
        again.hosting.restore()
        again.erasures.finish()
        again.health.restored()
        found = again.models().get("m")
        if has_dataset:
            retrained(found)
            until(lambda: not list(again.store.documents(RETRAINING)))
        else:
            assert again.health.degraded() == ["model m has no training since an erasure: retrain it"]
            again.erasures.begin_deletion("m").result()
            again.erasures.end_deletion("m")
            assert list(again.store.documents(RETRAINING)) == []
        assert again.health.degraded() == []
    finally:
        again.close()


def test_a_training_stays_that_rests_on_none_of_them(service: Service) -> None:
    """Of a model trained on a dataset, an example of the window goes, and of another model nothing."""
    uploaded(service, PEOPLE, rows=slice(10, N))
    live, other = model(service), model(service, "other")
    for one in (live, other):
        trained(service, one, dataset="d")
    learn(live, PEOPLE, rows=slice(10))
    before = predicted(live, PROBE).decision
    receipt = service.erasures.erase_everywhere(Sought((PEOPLE[GONE],)), ASKED).receipt
    assert [(part["model"], part["places"]["training"]) for part in receipt["parts"]] == [
        ("m", "rests on none of them, and stays")
    ]
    np.testing.assert_array_equal(predicted(live, PROBE).decision, before)
    receipt = service.erasures.erase("m", Sought((PEOPLE[20],)), ASKED).receipt
    assert receipt["elsewhere"] == ["model other"]


def test_a_model_that_cannot_be_trained_on_what_is_left_says_so(service: Service) -> None:
    live = model(service)
    learn(live, PEOPLE)
    trained(service, live)
    gone = tuple(PEOPLE[place] for place in range(N) if Y[place] > 0)
    question = WhatIfQuestion(keys=gone, X=PROBE)
    with pytest.raises(InvalidInput, match="on the rest there is none"):
        what_if(live.copy().result(), question, service.settings)
    receipt = service.erasures.erase("m", Sought(gone), ASKED).receipt
    assert receipt["places"]["training"].startswith("removed, as its training held examples that were erased")
    assert receipt["certificate"] is None
    (warning,) = live.describe().warnings
    assert warning["name"] == "untrained"
    assert live.current.published().counts == {-1: N - len(gone)}


def test_what_a_model_would_be_is_what_it_is_then(service: Service) -> None:
    live = model(service)
    learn(live, PEOPLE, [[f"tag of {one}"] for one in PEOPLE])
    trained(service, live)
    question = WhatIfQuestion(tags=(f"tag of {PEOPLE[GONE]}",), X=PROBE)
    then = what_if(live.copy().result(), question, service.settings)
    assert (then["removed"], then["n_examples"]) == ([PEOPLE[GONE]], N - 1)
    service.erasures.erase("m", Sought((), question.tags), ASKED)
    now = predicted(live, PROBE).decision
    np.testing.assert_allclose(then["rows"]["after"]["decision"], now, atol=1e-9)
    with pytest.raises(InvalidInput, match="which no update changes"):
        what_if(live.copy().result(), WhatIfQuestion(Change(remove=Removal(oldest=1))), service.settings)
    uploaded(service, PEOPLE)
    trained(service, live, dataset="d")
    with pytest.raises(InvalidInput, match="was trained on dataset d"):
        what_if(live.copy().result(), question, service.settings)


def test_a_key_in_another_spelling_is_named_and_stays(service: Service) -> None:
    live = model(service)
    learn(live, [7, "7", 8, "9", *PEOPLE[4:]])
    receipt = service.erasures.erase("m", Sought((7, 9)), ASKED).receipt
    assert live.current.estimator.keys_[:3] == ["7", 8, "9"]
    salt = bytes.fromhex(receipt["keys"]["salt"])
    assert set(receipt["keys"]["respelled"]) == {hashed(salt, "7"), hashed(salt, "9")}
    assert receipt["keys"]["not_found"] == [hashed(salt, 9)]
    with pytest.raises(NothingToErase, match="otherwise spelled are '9' in model m"):
        service.erasures.erase_everywhere(Sought((9,)), ASKED)
    with pytest.raises(NothingToErase, match="nothing that is stored"):
        service.erasures.erase_everywhere(Sought(("unheard-of",), ("unknown",)), ASKED)


def test_a_training_that_was_made_before_its_examples_were_kept_is_made_again(service: Service) -> None:
    live = model(service)
    learn(live, PEOPLE)
    trained(service, live)
    state = live.current
    assert isinstance(state.estimator, LiveL2SVC)
    assert state.estimator._trained is not None
    state.estimator._trained = state.estimator._trained._replace(names=None, origin=None)
    again = type(state).decode(state.spec, 16, state.encode())
    assert again.trained_on is not None
    assert not again.trained_on.is_known
    intent = intent_of("m", [PEOPLE[GONE]])
    assert intent.is_of_training("m", again.trained_on)
    assert again.forget([PEOPLE[GONE]], is_trained_on=True) is not None
    assert again.trained_on.is_known
    assert again.can_predict


def test_a_job_that_another_erasure_ends_is_asked_for_again(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = trained_on_a_dataset(service)
    wait_until = threading.Event()

    def slow(_work: str, asked: dict[str, Any], tell: Any, check: Any) -> dict[str, Any]:
        while not wait_until.wait(0.01):
            check()
        return retrain(asked, tell)

    monkeypatch.setattr(retraining, "run_beside", slow)
    first = service.erasures.erase_everywhere(Sought((PEOPLE[GONE],)), ASKED).receipt
    second = service.erasures.erase_everywhere(Sought((PEOPLE[30],)), ASKED).receipt
    assert first["parts"]
    assert not second["parts"]
    wait_until.set()
    retrained(live)
    np.testing.assert_allclose(predicted(live, PROBE).decision, rival([GONE, 30]), atol=1e-2)
    check_gone(tmp_path, [GONE, 30])


@pytest.mark.parametrize("more", [{}, {"task": "svr"}, {"task": "pu", "prior": 0.5}, {"task": "l2svc"}])
@pytest.mark.parametrize("batch", [False, True])
def test_a_gamma_of_the_examples_is_that_of_the_rest_after_a_retraining_too(
    batch: bool, more: dict[str, Any], service: Service
) -> None:
    targets = X[:, 0] if more.get("task") == "svr" else np.maximum(Y, 0.0) if more.get("task") == "pu" else Y
    spec = ModelSpec.model_validate({"id": "m", "kernel": {"name": "rbf", "gamma": "scale"}, **more})
    service.hosting.models.create("m", spec)
    live: Any = service.hosting.models.get("m")
    live.update(Change(Batch(X, targets, [*PEOPLE])), None).result()
    for _ in range(2 * batch + (more == {"task": "l2svc"})):
        record = service.jobs.ask("retrain", live, RetrainRequest())
        wait(service, record.id)
        live.swap(service.jobs.update_of(record.id, {})[1], None).result()
    service.erasures.erase("m", Sought((PEOPLE[GONE],)), ASKED)
    now = live.describe()
    assert now.gamma == pytest.approx(1.0 / (2 * np.delete(X, GONE, 0).var()), rel=1e-12)
    assert now.kernel["gamma"] == "scale"


def test_an_erasure_that_was_cut_off_ends_with_the_model_retrained(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = trained_on_a_dataset(service)
    keep = service.erasures.receipts.keep

    def fail(*_: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(service.erasures.receipts, "keep", fail)
    with pytest.raises(StoreUnavailable):
        service.erasures.erase_everywhere(Sought((PEOPLE[GONE],)), ASKED)
    monkeypatch.setattr(service.erasures.receipts, "keep", keep)
    retrained(live)
    service.erasures.finish()
    (receipt,) = service.erasures.receipts.all()
    assert receipt["datasets"] == [{"name": "d", "rows": 1}]
    retrained(live)
    np.testing.assert_allclose(predicted(live, PROBE).decision, rival([GONE]), atol=1e-2)
    check_gone(tmp_path, [GONE])
